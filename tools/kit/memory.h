// Buffers for runs on any backend. If the CPU cannot access the memory of the device, a buffer has
// a mirror in host memory, which upload and download copy.
//
//   zeroed -> grow -> look, upload, download ... -> end of the context -> forget
#ifndef RONDO_TOOLS_KIT_MEMORY_H
#define RONDO_TOOLS_KIT_MEMORY_H

#include <stddef.h>

#include <rondo/rondo.h>

#include "tools/kit/shape.h"

// Aligned to 4 KiB. The caller zeroes it before the first call.
struct rondo_kit_memory {
  struct rondo_context context;
  char *base; // for rondo_run
  size_t bytes;
  void *allocated; // by rondo_mem_alloc
  char *mirror;    // null: the CPU uses `base` itself
};

// Allocates `bytes`, all zero, if the buffer is smaller. The old contents are lost then, and no run
// may use them. Returns an enum rondo_status.
int rondo_kit_memory_grow(struct rondo_kit_memory *memory, struct rondo_context context,
                          size_t bytes);

// Frees the mirror. Called after the context was destroyed, which frees the buffer.
void rondo_kit_memory_forget(struct rondo_kit_memory *memory);

// What follows works on the buffer of a run, which begins at `at`, an address in `base`. All return
// an enum rondo_status.

// Writes what `rank` sends in round `round`.
int rondo_kit_memory_fill(const struct rondo_kit_memory *memory, void *at,
                          const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round);

// Writes a pattern that is no result into a receive buffer.
int rondo_kit_memory_poison(const struct rondo_kit_memory *memory, void *at,
                            const struct rondo_kit_shape *shape);

// Adds the elements that differ from the result of round `round` on `rank` to `*wrong`.
int rondo_kit_memory_check(const struct rondo_kit_memory *memory, const void *at,
                           const struct rondo_kit_shape *shape, uint32_t rank, uint64_t round,
                           uint64_t *wrong);

#endif // RONDO_TOOLS_KIT_MEMORY_H
