#include "runtime/rank/allocation.h"

#include <search.h>
#include <stdlib.h>

#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"
#include "runtime/rank/rank.h"

struct allocation {
  uintptr_t memory;
};

static int allocation_compare(const void *a, const void *b) {
  uintptr_t x = ((const struct allocation *)a)->memory;
  uintptr_t y = ((const struct allocation *)b)->memory;
  return x < y ? -1 : x > y;
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
  void *memory = window ? rondo_range_alloc(window, rank->member.device, bytes, why) : NULL;
  if (!memory && range)
    memory = rondo_range_alloc(range, rank->member.device, bytes, why);
  if (memory)
    return memory;
  // Peers cannot read this memory.
  return rank->member.device->driver->alloc(rank->member.device, RONDO_MEMORY_DEVICE, bytes);
}

static void allocation_release(struct rondo_rank *rank, struct allocation *a) {
  void *memory = (void *)a->memory;
  struct rondo_range *range = rank->job->transports.range;
  struct rondo_range *window = rank->job->transports.window;
  if (rank_arena(rank))
    (void)rondo_arena_free(rank_arena(rank), memory);
  else if ((!window || !rondo_range_free(window, memory)) &&
           (!range || !rondo_range_free(range, memory)))
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_DEVICE, memory);
  free(a);
}

void rondo_allocations_free(struct rondo_rank *rank) {
  while (rank->allocations) {
    struct allocation *a = *(struct allocation **)rank->allocations;
    tdelete(a, &rank->allocations, allocation_compare);
    allocation_release(rank, a);
  }
}

// Adds an allocation to the tree. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
static int allocation_add(struct rondo_rank *rank, struct allocation *a) {
  rondo_lock_take(&rank->lock);
  void *kept = tsearch(a, &rank->allocations, allocation_compare);
  rondo_lock_give(&rank->lock);
  return kept ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

int rondo_rank_alloc(struct rondo_rank *rank, size_t bytes, void **memory) {
  struct allocation *a = malloc(sizeof *a);
  void *allocated = a ? memory_alloc(rank, bytes) : NULL;
  if (allocated) {
    a->memory = (uintptr_t)allocated;
    if (allocation_add(rank, a) == RONDO_SUCCESS) {
      *memory = allocated;
      return RONDO_SUCCESS;
    }
    allocation_release(rank, a);
  } else {
    free(a);
  }
  return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "mem_alloc: rank %u: no memory for %zu bytes",
                          rank->cfg.rank, bytes);
}

int rondo_rank_free(struct rondo_rank *rank, const void *memory) {
  struct allocation key = {(uintptr_t)memory};
  struct allocation *a = NULL;
  if (!memory)
    return RONDO_SUCCESS;
  rondo_lock_take(&rank->lock);
  struct allocation **found = tfind(&key, &rank->allocations, allocation_compare);
  if (found) {
    a = *found;
    tdelete(a, &rank->allocations, allocation_compare);
  }
  rondo_lock_give(&rank->lock);
  if (!a)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_free: rank %u has no memory at %p",
                            rank->cfg.rank, memory);
  allocation_release(rank, a);
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
