// The configuration that a program gives with a communicator.
#ifndef RONDO_ADAPTERS_NCCL_CONFIG_H
#define RONDO_ADAPTERS_NCCL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/nccl/comm.h"

struct rondo_nccl_settings {
  bool is_blocking;
  uint32_t min_ctas, max_ctas; // 0: not said
  char name[RONDO_NCCL_NAME_BYTES];
};

// Fills `settings` from the environment, `config` (may be null) and, where neither says, `parent` (may
// be null). Returns enum rondo_nccl_result: a configuration that was not initialised is refused.
int rondo_nccl_settings_read(struct rondo_nccl_settings *settings,
                             const struct rondo_nccl_config *config,
                             const struct rondo_nccl_comm *parent, const char *call);

// Tells the communicator what of them it keeps.
void rondo_nccl_settings_give(const struct rondo_nccl_settings *settings,
                              struct rondo_nccl_comm *comm);

#endif // RONDO_ADAPTERS_NCCL_CONFIG_H
