// Memory of this process, for what is shared or moves.
#ifndef RONDO_BASE_MEMORY_H
#define RONDO_BASE_MEMORY_H

#include <stddef.h>

// Zeroed memory on a boundary of RONDO_LINE_BYTES, on the NUMA node of the calling thread, or the one
// that it prefers (node.h), when it is large. Null when there is none. Freed with rondo_memory_free.
void *rondo_memory_alloc(size_t bytes);
void rondo_memory_free(void *memory);

// Tests only: the allocation after `count` more successful ones fails, and all later ones
// until called again with a negative count.
void rondo_memory_fail_after(long count);
// 1 if the allocation that asks is one that fails.
int rondo_memory_should_fail(void);

#endif // RONDO_BASE_MEMORY_H
