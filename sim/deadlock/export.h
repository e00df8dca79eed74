// Writes a configuration in the published simulator's format, so that both can run the same.
#ifndef RONDO_SIM_DEADLOCK_EXPORT_H
#define RONDO_SIM_DEADLOCK_EXPORT_H

#include <stdbool.h>

#include "sim/common/text.h"
#include "sim/deadlock/config.h"

// Appends the configuration as JSON for the published simulator: one process, seeded anew each
// time; of drawn groupings the first. False if that simulator does not know the model.
bool rondo_sim_export(const struct rondo_sim_config *c, struct rondo_sim_text *out);

#endif // RONDO_SIM_DEADLOCK_EXPORT_H
