// Budgets and periods: their defaults and their environment variable.
#ifndef RONDO_RUNTIME_API_API_TUNING_H
#define RONDO_RUNTIME_API_API_TUNING_H

#include <rondo/rondo.h>

// Fills fields that are 0 from RONDO_TUNING, then from the file of RONDO_COST_MODEL, and then with
// defaults. Returns RONDO_SUCCESS, RONDO_ERR_INVALID (values that contradict each other), or what
// rondo_model_read returns.
int rondo_tuning_resolve(struct rondo_tuning *tuning);

#endif // RONDO_RUNTIME_API_API_TUNING_H
