// NCCL's environment variables: which have a meaning here, and what they say.
//
//   rondo_nccl_environment() -> the values, read once; each bad or unknown one is warned of
//
// rondo-doctor reads the same table.
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

enum rondo_nccl_variable {
  RONDO_NCCL_VARIABLE_HONOURED, // means here what it means to NCCL
  RONDO_NCCL_VARIABLE_NO_EFFECT, // steers a part of NCCL that is not here; leaving it set is harmless
  RONDO_NCCL_VARIABLE_MISSED,    // a program that relies on it will miss it
  RONDO_NCCL_VARIABLE_UNKNOWN    // nobody's: most likely misspelt
};

// Which of them the variable called `name`, which begins with NCCL_, is; `name` ends at '=' too.
enum rondo_nccl_variable rondo_nccl_variable_kind(const char *name);

// Null, or what is wrong with `value` of the honoured variable `name`.
const char *rondo_nccl_variable_complaint(const char *name, const char *value);

#endif // RONDO_ADAPTERS_NCCL_ENVIRONMENT_H
