// Memory in reach of a rank's daemon, for the application.
#include "base/log.h"
#include "runtime/rank/allocation.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_mem_alloc(struct rondo_context ctx, size_t bytes, void **memory) {
  if (!memory)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_alloc: `memory` is null");
  RONDO_RETURN_PINNED(ctx, "mem_alloc", rank, rondo_rank_alloc(rank, bytes, memory));
}

int rondo_mem_free(struct rondo_context ctx, void *memory) {
  RONDO_RETURN_PINNED(ctx, "mem_free", rank, rondo_rank_free(rank, memory));
}

int rondo_mem_copy(struct rondo_context ctx, void *dst, const void *src, size_t bytes) {
  if (bytes && (!dst || !src))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_copy: a null address");
  RONDO_RETURN_PINNED(ctx, "mem_copy", rank, rondo_rank_copy(rank, dst, src, bytes));
}

int rondo_mem_is_direct(struct rondo_context ctx, int *direct) {
  if (!direct)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_is_direct: `direct` is null");
  RONDO_RETURN_PINNED(ctx, "mem_is_direct", rank,
                      (*direct = rank->member.device->driver->is_direct, RONDO_SUCCESS));
}
