// Configurations that come with the program: the rows of Table 1 of the DFCCL paper.
#ifndef RONDO_SIM_DEADLOCK_PRESET_H
#define RONDO_SIM_DEADLOCK_PRESET_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/deadlock/report.h"

// Adds the rows of a preset ("table1") to a report, or those that `wanted` names (row names with
// commas in between; null: all). Options that a preset row does not fix keep the values of `base`.
// False with one line in `error`.
bool rondo_sim_preset_add(struct rondo_sim_report *r, const char *preset, const char *wanted,
                          const struct rondo_sim_config *base, char *error, size_t error_bytes);

#endif // RONDO_SIM_DEADLOCK_PRESET_H
