#include "runtime/rank/allocation.h"

#include <search.h>

#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"
#include "runtime/rank/rank.h"

static int address_compare(const void *a, const void *b) {
  return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

// The arena that the processes of the job map; null: there is none.
static struct rondo_arena *rank_arena(const struct rondo_rank *rank) {
  return rank->member.device->driver->is_direct ? rank->job->transports.arena : NULL;
}

// The range whose memory peers can read; null: there is none.
static struct rondo_range *rank_window(const struct rondo_rank *rank) {
  int is_refused = (int)rondo_load_relaxed_u32(&rank->job->transports.is_window_refused);
  return is_refused || rank->member.device != rank->job->transports.device
             ? NULL
             : rank->job->transports.window;
}

static void *memory_alloc(struct rondo_rank *rank, size_t bytes) {
  char why[RONDO_WHY_BYTES];
  struct rondo_range *range = rank->job->transports.range;
  if (rank_arena(rank))
    return rondo_arena_alloc(rank_arena(rank), bytes);
  struct rondo_range *window = rank_window(rank);
  void *memory = window ? rondo_range_alloc_zeroed(window, rank->member.device, bytes, why) : NULL;
  if (!memory && range)
    memory = rondo_range_alloc_zeroed(range, rank->member.device, bytes, why);
  if (memory)
    return memory;
  // Peers cannot read this memory.
  return rank->member.device->driver->alloc(rank->member.device, RONDO_MEMORY_DEVICE, bytes);
}

static void memory_release(struct rondo_rank *rank, void *memory) {
  struct rondo_range *range = rank->job->transports.range;
  struct rondo_range *window = rank->job->transports.window;
  struct rondo_device *device = rank->member.device;
  if (rank_arena(rank))
    (void)rondo_arena_free(rank_arena(rank), memory);
  else if ((!window || !rondo_range_free(window, memory)) &&
           (!range || !rondo_range_free(range, memory)))
    device->driver->free(device, RONDO_MEMORY_DEVICE, memory);
}

void rondo_allocations_free(struct rondo_rank *rank) {
  while (rank->allocations) {
    void *memory = *(void **)rank->allocations;
    tdelete(memory, &rank->allocations, address_compare);
    memory_release(rank, memory);
  }
}

int rondo_rank_alloc(struct rondo_rank *rank, size_t bytes, void **memory) {
  void *allocated = memory_alloc(rank, bytes);
  rondo_lock_take(&rank->lock);
  void *node = allocated ? tsearch(allocated, &rank->allocations, address_compare) : NULL;
  rondo_lock_give(&rank->lock);
  if (node) {
    *memory = allocated;
    return RONDO_SUCCESS;
  }
  if (allocated)
    memory_release(rank, allocated);
  return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "mem_alloc: rank %u: no memory for %zu bytes",
                          rank->cfg.rank, bytes);
}

int rondo_rank_free(struct rondo_rank *rank, void *memory) {
  if (!memory)
    return RONDO_SUCCESS;
  rondo_lock_take(&rank->lock);
  bool is_known = tdelete(memory, &rank->allocations, address_compare) != NULL;
  rondo_lock_give(&rank->lock);
  if (!is_known)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_free: rank %u has no memory at %p",
                            rank->cfg.rank, memory);
  memory_release(rank, memory);
  return RONDO_SUCCESS;
}

int rondo_rank_copy(struct rondo_rank *rank, void *dst, const void *src, size_t bytes) {
  uintptr_t to = (uintptr_t)dst;
  uintptr_t from = (uintptr_t)src;
  if (!bytes)
    return RONDO_SUCCESS;
  if (bytes > UINTPTR_MAX - to || bytes > UINTPTR_MAX - from ||
      (to < from + bytes && from < to + bytes))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_copy: %zu bytes from %p to %p overlap", bytes,
                            src, dst);
  int status = rank->member.device->driver->copy(rank->member.device, dst, src, bytes);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "mem_copy: rank %u: the device does not copy %zu bytes",
                            rank->cfg.rank, bytes);
  return RONDO_SUCCESS;
}
