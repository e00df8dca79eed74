// The configurations that the program knows: the rows of Table 1 of the DFCCL paper.
#ifndef RONDO_SIM_DEADLOCK_PRESET_H
#define RONDO_SIM_DEADLOCK_PRESET_H

#include <stdbool.h>
#include <stddef.h>

#include "sim/deadlock/report.h"

// Adds the rows of a preset ("table1") to a report, or only the rows in `wanted` (names separated
// by commas; null: all). Options that a preset row does not set come from `base`. False with one
// line in `error`.
bool rondo_sim_preset_add(struct rondo_sim_report *r, const char *preset, const char *wanted,
                          const struct rondo_sim_config *base, char *error, size_t error_bytes);

#endif // RONDO_SIM_DEADLOCK_PRESET_H
