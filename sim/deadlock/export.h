// Writes a configuration in the published simulator's format, so that both can run the same one.
#ifndef RONDO_SIM_DEADLOCK_EXPORT_H
#define RONDO_SIM_DEADLOCK_EXPORT_H

#include <stdbool.h>

#include "sim/common/text.h"
#include "sim/deadlock/config.h"

// Appends the configuration as JSON for the published simulator: one process with a new seed each
// time, and the first of drawn groupings. False if that simulator lacks the model.
bool rondo_sim_export(const struct rondo_sim_config *c, struct rondo_sim_text *out);

#endif // RONDO_SIM_DEADLOCK_EXPORT_H
