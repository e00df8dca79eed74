// ncclConfig_t: the configuration of a communicator.
#ifndef RONDO_ADAPTERS_NCCL_CONFIG_H
#define RONDO_ADAPTERS_NCCL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/nccl/comm.h"

struct rondo_nccl_settings {
  bool is_blocking;
  uint32_t min_ctas, max_ctas; // 0: not set
};

// Fills `settings` from the environment, else from `config`, else from `parent`; both may be null.
// Refuses a `config` that was not initialised. Returns enum rondo_nccl_result.
int rondo_nccl_settings_read(struct rondo_nccl_settings *settings,
                             const struct rondo_nccl_config *config,
                             const struct rondo_nccl_comm *parent, const char *call);

#endif // RONDO_ADAPTERS_NCCL_CONFIG_H
