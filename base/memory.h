// Allocation of process memory that is shared or moves data.
#ifndef RONDO_BASE_MEMORY_H
#define RONDO_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Allocates zeroed memory, aligned to RONDO_LINE_BYTES. Large pieces are on the NUMA node of the
// calling thread, or on the one that it prefers (numa_node.h). Returns null if there is no memory.
// Freed by rondo_memory_free.
void *rondo_memory_alloc(size_t bytes);
void rondo_memory_free(void *memory);

// Rounds up to a multiple of `to`.
static inline uint64_t rondo_round_up(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

// For tests: `count` more allocations succeed, and all later ones fail, until a call with a
// negative count.
void rondo_memory_fail_after(long count);
// True if the calling allocation has to fail.
bool rondo_memory_should_fail(void);

#endif // RONDO_BASE_MEMORY_H
