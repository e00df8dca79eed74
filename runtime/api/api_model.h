// The cost model of a job: the environment variable RONDO_COST_MODEL.
#ifndef RONDO_RUNTIME_API_API_MODEL_H
#define RONDO_RUNTIME_API_API_MODEL_H

#include "daemon/plan/cost_file.h"
#include <rondo/rondo.h>

// Reads the file that RONDO_COST_MODEL names. Returns RONDO_SUCCESS, and writes null if the
// variable is not set, else a file that the caller frees; RONDO_ERR_INVALID if the file cannot be
// read, is torn, or is no model of this version: one line that names it is logged; or
// RONDO_ERR_NO_MEMORY.
int rondo_model_read(struct rondo_cost_file **file);

// As rondo_config_complete. Writes also the file, which it has read once, as rondo_model_read does.
int rondo_config_complete_with_model(struct rondo_config *cfg, struct rondo_cost_file **file);

// Completes the part of a configuration that a process needs to listen for others; `cfg` may be
// null. Returns as rondo_config_complete.
int rondo_config_for_listening(const struct rondo_config *cfg, struct rondo_config *out);

#endif // RONDO_RUNTIME_API_API_MODEL_H
