// NCCL's environment variables: which have a meaning here, and what they say.
//
//   rondo_nccl_environment() -> the values, read once; each bad or unknown one is warned of
//
// rondo-doctor reads the same table by interface.h.
#ifndef RONDO_ADAPTERS_NCCL_ENVIRONMENT_H
#define RONDO_ADAPTERS_NCCL_ENVIRONMENT_H

#include <stdint.h>

enum rondo_nccl_backend { RONDO_NCCL_BACKEND_CUDA = 0, RONDO_NCCL_BACKEND_HOST = 1 };

struct rondo_nccl_environment {
  int backend;            // enum rondo_nccl_backend; RONDO_NCCL_BACKEND
  int blocking;           // NCCL_COMM_BLOCKING: 0 or 1; -1: not said
  uint32_t min_ctas;      // NCCL_MIN_CTAS; 0: not said
  uint32_t max_ctas;      // NCCL_MAX_CTAS; 0: not said
  int address_family;     // NCCL_SOCKET_FAMILY: 4 or 6; 0: not said
  const char *interfaces; // NCCL_SOCKET_IFNAME; null: not said
};

// Warns of what makes no sense, at the first call. Any thread.
const struct rondo_nccl_environment *rondo_nccl_environment(void);

#endif // RONDO_ADAPTERS_NCCL_ENVIRONMENT_H
