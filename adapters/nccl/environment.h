// NCCL's environment variables: which of them Rondo honours, and their values. rondo-doctor reads
// the same table through interface.h.
#ifndef RONDO_ADAPTERS_NCCL_ENVIRONMENT_H
#define RONDO_ADAPTERS_NCCL_ENVIRONMENT_H

#include <stdint.h>

struct rondo_nccl_environment {
  int backend;            // enum rondo_backend, from RONDO_NCCL_BACKEND
  int blocking;           // NCCL_COMM_BLOCKING: 0 or 1; -1: not set
  uint32_t min_ctas;      // NCCL_MIN_CTAS; 0: not set
  uint32_t max_ctas;      // NCCL_MAX_CTAS; 0: not set
  int address_family;     // NCCL_SOCKET_FAMILY: 4 or 6; 0: not set
  const char *interfaces; // NCCL_SOCKET_IFNAME; null: not set
};

// The values. The first call reads them and logs a warning for each invalid or unknown variable.
// Any thread.
const struct rondo_nccl_environment *rondo_nccl_environment(void);

#endif // RONDO_ADAPTERS_NCCL_ENVIRONMENT_H
