#include <string.h>

#include "runtime/memory/memory.h"
#include "runtime/memory/pool.h"

void rondo_pool_init(struct rondo_pool *pool, uint64_t limit_bytes, struct rondo_arena *arena) {
  memset(pool, 0, sizeof *pool);
  pool->arena = arena;
  pool->limit_bytes = limit_bytes;
}

static void drop_idle(struct rondo_pool *pool) {
  for (uint32_t k = 0; k < RONDO_POOL_CLASSES; k++) {
    while (pool->idle[k]) {
      struct rondo_pool_piece *piece = pool->idle[k];
      pool->idle[k] = piece->next;
      pool->held_bytes -= UINT64_C(1) << k;
      if (pool->arena)
        (void)rondo_arena_free(pool->arena, piece);
      else
        rondo_memory_free(piece);
    }
  }
}

void rondo_pool_fini(struct rondo_pool *pool) { drop_idle(pool); }

// Small pieces come in powers of two, so that they are found again; large ones would waste too much.
static uint32_t class_of(uint64_t bytes) {
  uint32_t k = 8;
  while (k < RONDO_POOL_CLASSES - 1 && (UINT64_C(1) << k) < bytes)
    k++;
  return k;
}

void *rondo_pool_take(struct rondo_pool *pool, uint64_t bytes, uint64_t *got_bytes) {
  uint32_t k = class_of(bytes);
  uint64_t size = UINT64_C(1) << k;
  if (bytes > size || pool->used_bytes + size > pool->limit_bytes)
    return NULL;
  void *piece = pool->idle[k];
  if (piece) {
    pool->idle[k] = pool->idle[k]->next;
    memset(piece, 0, size);
  } else {
    if (pool->held_bytes + size > pool->limit_bytes)
      drop_idle(pool);
    piece = pool->arena ? rondo_arena_alloc(pool->arena, size) : rondo_memory_alloc(size);
    if (!piece)
      return NULL;
    pool->held_bytes += size;
  }
  pool->used_bytes += size;
  *got_bytes = size;
  return piece;
}

void rondo_pool_give(struct rondo_pool *pool, void *piece, uint64_t got_bytes) {
  struct rondo_pool_piece *idle = piece;
  uint32_t k = class_of(got_bytes);
  idle->next = pool->idle[k];
  pool->idle[k] = idle;
  pool->used_bytes -= got_bytes;
}
