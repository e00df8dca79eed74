// Memory that a rank's daemon can use, for the application.
#ifndef RONDO_RUNTIME_RANK_ALLOCATION_H
#define RONDO_RUNTIME_RANK_ALLOCATION_H

#include <stddef.h>

#include "runtime/rank/rank.h"

// As rondo_mem_alloc and rondo_mem_free.
int rondo_rank_alloc(struct rondo_rank *rank, size_t bytes, void **memory);
int rondo_rank_free(struct rondo_rank *rank, const void *memory);
// Frees what the application has not freed.
void rondo_allocations_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_ALLOCATION_H
