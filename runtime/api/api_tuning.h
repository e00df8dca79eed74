// Budgets and periods: their defaults and their environment variable.
#ifndef RONDO_RUNTIME_API_API_TUNING_H
#define RONDO_RUNTIME_API_API_TUNING_H

#include <rondo/rondo.h>

// Fills fields that are 0 from RONDO_TUNING and then with defaults. Returns RONDO_SUCCESS or
// RONDO_ERR_INVALID (values that contradict each other).
int rondo_tuning_resolve(struct rondo_tuning *tuning);

#endif // RONDO_RUNTIME_API_API_TUNING_H
