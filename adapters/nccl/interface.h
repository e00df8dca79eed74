// The interface that the drop-in serves, as rondo-doctor (tools/doctor) needs to know it: its
// version, its calls, and the environment variables of NCCL that have a meaning here.
#ifndef RONDO_ADAPTERS_NCCL_INTERFACE_H
#define RONDO_ADAPTERS_NCCL_INTERFACE_H

#include <stddef.h>

// As ncclGetVersion counts: 10000 × major + 100 × minor + patch.
int rondo_nccl_interface_version(void);

// The names of all calls, "ncclX" and "pncclX". Static memory.
const char *const *rondo_nccl_interface_calls(size_t *count);

enum rondo_nccl_variable {
  RONDO_NCCL_VARIABLE_HONOURED,  // means here what it means to NCCL
  RONDO_NCCL_VARIABLE_NO_EFFECT, // steers a part of NCCL that is not here; leaving it set is
                                 // harmless
  RONDO_NCCL_VARIABLE_MISSED,    // a program that relies on it will miss it
  RONDO_NCCL_VARIABLE_UNKNOWN    // no variable of NCCL: most likely misspelt
};

// The kind of the variable `name`, which begins with NCCL_ and ends at '\0' or '='.
enum rondo_nccl_variable rondo_nccl_variable_kind(const char *name);

// What is wrong with `value` of the honoured variable `name`; null: nothing.
const char *rondo_nccl_variable_complaint(const char *name, const char *value);

#endif // RONDO_ADAPTERS_NCCL_INTERFACE_H
