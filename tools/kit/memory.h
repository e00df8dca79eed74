// Buffers for runs on any backend. If the CPU cannot access the memory of the device, a buffer has
// a mirror in host memory, which upload and download copy.
//
//   zeroed -> grow -> look, upload, download ... -> end of the context -> forget
#ifndef RONDO_TOOLS_KIT_MEMORY_H
#define RONDO_TOOLS_KIT_MEMORY_H

#include <stddef.h>

#include <rondo/rondo.h>

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

// Where the CPU reads and writes what lies at `at`, an address in `base`.
void *rondo_kit_memory_look(const struct rondo_kit_memory *memory, const void *at);

// Copy `bytes` from the mirror to `at`, or from `at` to the mirror. Return an enum rondo_status.
int rondo_kit_memory_upload(const struct rondo_kit_memory *memory, void *at, size_t bytes);
int rondo_kit_memory_download(const struct rondo_kit_memory *memory, const void *at, size_t bytes);

#endif // RONDO_TOOLS_KIT_MEMORY_H
