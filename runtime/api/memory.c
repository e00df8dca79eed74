// Memory that a rank's daemon can use, for the application.
#include <search.h>
#include <stdlib.h>

#include "base/log.h"
#include "runtime/api/rank.h"

struct allocation {
  uintptr_t memory;
};

static int compare(const void *a, const void *b) {
  uintptr_t x = ((const struct allocation *)a)->memory;
  uintptr_t y = ((const struct allocation *)b)->memory;
  return x < y ? -1 : x > y;
}

// Of the arena of a job of several processes that they all can read; null: there is none.
static struct rondo_arena *arena_of(const struct rondo_rank *rank) {
  return rank->device->driver->is_direct ? rank->job->arena : NULL;
}

// Where peers can read what comes of it; null: nowhere.
static struct rondo_range *window_of(const struct rondo_rank *rank) {
  int is_refused = (int)rondo_load_relaxed_u32(&rank->job->is_window_refused);
  return is_refused || rank->device != rank->job->device ? NULL : rank->job->window;
}

static void *take(struct rondo_rank *rank, size_t bytes) {
  char why[RONDO_WHY_BYTES];
  struct rondo_range *range = rank->job->range;
  if (arena_of(rank))
    return rondo_arena_alloc(arena_of(rank), bytes);
  struct rondo_range *window = window_of(rank);
  void *memory = window ? rondo_range_alloc(window, rank->device, bytes, why) : NULL;
  if (!memory && range)
    memory = rondo_range_alloc(range, rank->device, bytes, why);
  if (memory)
    return memory;
  // Not for peers, then.
  return rank->device->driver->alloc(rank->device, RONDO_MEMORY_DEVICE, bytes);
}

static void release(struct rondo_rank *rank, struct allocation *a) {
  void *memory = (void *)a->memory;
  struct rondo_range *range = rank->job->range;
  struct rondo_range *window = rank->job->window;
  if (arena_of(rank))
    (void)rondo_arena_free(arena_of(rank), memory);
  else if ((!window || !rondo_range_free(window, memory)) &&
           (!range || !rondo_range_free(range, memory)))
    rank->device->driver->free(rank->device, RONDO_MEMORY_DEVICE, memory);
  free(a);
}

void rondo_allocations_free(struct rondo_rank *rank) {
  while (rank->allocations) {
    struct allocation *a = *(struct allocation **)rank->allocations;
    tdelete(a, &rank->allocations, compare);
    release(rank, a);
  }
}

// Notes an allocation. Returns 1, or 0 if there is no memory for the note.
static int keep(struct rondo_rank *rank, struct allocation *a) {
  rondo_lock_take(&rank->lock);
  void *kept = tsearch(a, &rank->allocations, compare);
  rondo_lock_give(&rank->lock);
  return kept != NULL;
}

static int alloc_inside(struct rondo_rank *rank, size_t bytes, void **memory) {
  if (!memory)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_alloc: the place for the address is null");
  struct allocation *a = malloc(sizeof *a);
  void *taken = a ? take(rank, bytes) : NULL;
  if (taken) {
    a->memory = (uintptr_t)taken;
    if (keep(rank, a)) {
      *memory = taken;
      return RONDO_SUCCESS;
    }
    release(rank, a);
  } else {
    free(a);
  }
  return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "mem_alloc: rank %u: no memory for %zu bytes",
                          rank->cfg.rank, bytes);
}

int rondo_mem_alloc(struct rondo_context ctx, size_t bytes, void **memory) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_alloc", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = alloc_inside(rank, bytes, memory);
  rondo_rank_unpin(ctx);
  return status;
}

static int free_inside(struct rondo_rank *rank, const void *memory) {
  struct allocation key = {(uintptr_t)memory};
  struct allocation *a = NULL;
  if (!memory)
    return RONDO_SUCCESS;
  rondo_lock_take(&rank->lock);
  struct allocation **found = tfind(&key, &rank->allocations, compare);
  if (found) {
    a = *found;
    tdelete(a, &rank->allocations, compare);
  }
  rondo_lock_give(&rank->lock);
  if (!a)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "mem_free: rank %u has no memory at %p",
                            rank->cfg.rank, memory);
  release(rank, a);
  return RONDO_SUCCESS;
}

int rondo_mem_free(struct rondo_context ctx, void *memory) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "mem_free", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = free_inside(rank, memory);
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
