// Buffers for runs on any backend. On the host they are what they look like; where the CPU cannot use
// a device's memory each has a mirror in the memory of the process, to be copied in and out.
//
//   zeroed -> grow -> look, upload, download ... -> end of the context -> forget
#ifndef RONDO_EXAMPLES_KIT_MEMORY_H
#define RONDO_EXAMPLES_KIT_MEMORY_H

#include <stddef.h>

#include <rondo/rondo.h>

// On a boundary of 4 KiB. All zero at first.
struct rondo_kit_memory {
  struct rondo_context context;
  char *base; // for rondo_run
  size_t bytes;
  void *taken;  // what rondo_mem_alloc gave
  char *mirror; // null: the CPU uses `base` itself
};

// Makes room for `bytes`, all zero, if there is not so much; what was there is lost then, and no run
// may be using it. Returns an enum rondo_status.
int rondo_kit_memory_grow(struct rondo_kit_memory *memory, struct rondo_context context,
                          size_t bytes);

// For when the context is gone, and with it what belonged to it.
void rondo_kit_memory_forget(struct rondo_kit_memory *memory);

// Where the CPU finds what is at `at`, an address in `base`.
void *rondo_kit_memory_look(const struct rondo_kit_memory *memory, const void *at);

// Copies `bytes` from there to `at`, or from `at` to there. Return an enum rondo_status.
int rondo_kit_memory_upload(const struct rondo_kit_memory *memory, void *at, size_t bytes);
int rondo_kit_memory_download(const struct rondo_kit_memory *memory, const void *at, size_t bytes);

#endif // RONDO_EXAMPLES_KIT_MEMORY_H
