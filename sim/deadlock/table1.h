// Table 1 of the DFCCL paper: the configurations of its rows, and the ratios that it prints.
#ifndef RONDO_SIM_DEADLOCK_TABLE1_H
#define RONDO_SIM_DEADLOCK_TABLE1_H

#include <stdbool.h>

#include "sim/deadlock/report.h"

// Adds the rows of the table to a report, or only the rows in `wanted` (names separated by commas;
// null: all). Options that a row does not set come from `base`, which has the default grouping.
// False if a name is unknown.
bool rondo_sim_table1_add(struct rondo_sim_report *r, const char *wanted,
                          const struct rondo_sim_config *base, struct rondo_sim_error *error);

#endif // RONDO_SIM_DEADLOCK_TABLE1_H
