// Memory that an application allocates for buffers, in reach of its rank's daemon.
#ifndef RONDO_RUNTIME_RANK_ALLOCATION_H
#define RONDO_RUNTIME_RANK_ALLOCATION_H

#include <stddef.h>

struct rondo_rank;

// Allocates `bytes`, where peers can read them if there is such memory. Returns RONDO_SUCCESS or
// RONDO_ERR_NO_MEMORY.
int rondo_rank_alloc(struct rondo_rank *rank, size_t bytes, void **memory);
// Frees what rondo_rank_alloc returned; null is allowed. Returns RONDO_SUCCESS or
// RONDO_ERR_INVALID.
int rondo_rank_free(struct rondo_rank *rank, void *memory);
// Copies between buffers that do not overlap. As rondo_mem_copy.
int rondo_rank_copy(struct rondo_rank *rank, void *dst, const void *src, size_t bytes);
// Frees what the application has not freed.
void rondo_allocations_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_ALLOCATION_H
