// Memory that a rank's daemon can use, for the application.
#include "base/log.h"
#include "runtime/rank/allocation.h"
#include "runtime/rank/handles.h"

int rondo_mem_alloc(struct rondo_context ctx, size_t bytes, void **memory) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_alloc", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_alloc(rank, bytes, memory);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_mem_free(struct rondo_context ctx, void *memory) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_free", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_free(rank, memory);
  rondo_rank_unpin(ctx);
  return status;
}

static int copy_inside(struct rondo_rank *rank, void *dst, const void *src, size_t bytes) {
  uintptr_t to = (uintptr_t)dst;
  uintptr_t from = (uintptr_t)src;
  if (bytes == 0)
    return RONDO_SUCCESS;
  if (!dst || !src)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_copy: a null address");
  if (bytes > UINTPTR_MAX - to || bytes > UINTPTR_MAX - from ||
      (to < from + bytes && from < to + bytes))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_copy: %zu bytes from %p to %p overlap", bytes,
                            src, dst);
  int status = rank->device->driver->copy(rank->device, dst, src, bytes);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "mem_copy: rank %u: the device does not copy %zu bytes",
                            rank->cfg.rank, bytes);
  return RONDO_SUCCESS;
}

int rondo_mem_copy(struct rondo_context ctx, void *dst, const void *src, size_t bytes) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_copy", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = copy_inside(rank, dst, src, bytes);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_mem_is_direct(struct rondo_context ctx, int *direct) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_is_direct", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (direct)
    *direct = rank->device->driver->is_direct;
  else
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_is_direct: the place for it is null");
  rondo_rank_unpin(ctx);
  return status;
}
