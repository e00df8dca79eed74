// Budgets and periods: their defaults and their environment variable.
#ifndef RONDO_RUNTIME_API_API_TUNING_H
#define RONDO_RUNTIME_API_API_TUNING_H

#include "daemon/plan/cost_file.h"
#include <rondo/rondo.h>

// Fills fields that are 0 from RONDO_TUNING, then from `file`, which RONDO_COST_MODEL names (null:
// none), and then with defaults. Returns RONDO_SUCCESS, or RONDO_ERR_INVALID (a tuning of the file
// that makes no sense, or values that contradict each other).
int rondo_tuning_resolve(struct rondo_tuning *tuning, const struct rondo_cost_file *file);

#endif // RONDO_RUNTIME_API_API_TUNING_H
