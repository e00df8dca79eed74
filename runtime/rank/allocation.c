#include "runtime/rank/allocation.h"

#include <search.h>
#include <stdlib.h>

#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/range.h"

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
  return rank->device->driver->is_direct ? rank->job->transports.arena : NULL;
}

// Where peers can read what comes of it; null: nowhere.
static struct rondo_range *window_of(const struct rondo_rank *rank) {
  int is_refused = (int)rondo_load_relaxed_u32(&rank->job->transports.is_window_refused);
  return is_refused || rank->device != rank->job->transports.device ? NULL
                                                                    : rank->job->transports.window;
}

static void *take(struct rondo_rank *rank, size_t bytes) {
  char why[RONDO_WHY_BYTES];
  struct rondo_range *range = rank->job->transports.range;
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
  struct rondo_range *range = rank->job->transports.range;
  struct rondo_range *window = rank->job->transports.window;
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

int rondo_rank_alloc(struct rondo_rank *rank, size_t bytes, void **memory) {
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

int rondo_rank_free(struct rondo_rank *rank, const void *memory) {
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
