#include "runtime/rank/lending.h"

#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/log.h"
#include "runtime/memory/arena.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

#define LARGER_CLASSES 4u // a piece may be up to twice as large as needed

struct rondo_lent_piece {
  struct rondo_lent_piece *next;
  void *memory;
  uint32_t size; // class
};

// Memory that the peers can read: those of other processes map the arena.
static void *memory_alloc(struct rondo_rank *rank, uint64_t bytes) {
  struct rondo_arena *arena = rank->job->transports.arena;
  struct rondo_device *device = rank->member.device;
  return arena ? rondo_arena_alloc(arena, bytes)
               : device->driver->alloc(device, RONDO_MEMORY_SHARED, bytes);
}

static void piece_destroy(struct rondo_rank *rank, struct rondo_lent_piece *piece) {
  struct rondo_arena *arena = rank->job->transports.arena;
  struct rondo_device *device = rank->member.device;
  rondo_fetch_add_relaxed_u64(&rank->job->lending_bytes,
                              (uint64_t)0 - rondo_pool_class_bytes(piece->size));
  if (arena)
    (void)rondo_arena_free(arena, piece->memory);
  else
    device->driver->free(device, RONDO_MEMORY_SHARED, piece->memory);
  free(piece);
}

void rondo_lending_fini(struct rondo_rank *rank) {
  for (uint32_t k = 0; k < RONDO_POOL_CLASSES; k++) {
    while (rank->lending.free[k]) {
      struct rondo_lent_piece *piece = rank->lending.free[k];
      rank->lending.free[k] = piece->next;
      piece_destroy(rank, piece);
    }
  }
}

// Counts `bytes` more of the job's memory for lending. Returns false if the limit forbids it.
static bool bytes_try_count(struct rondo_job *job, uint64_t bytes) {
  uint64_t before = rondo_fetch_add_relaxed_u64(&job->lending_bytes, bytes);
  if (before + bytes <= job->transports.pool.limit_bytes)
    return true;
  rondo_fetch_add_relaxed_u64(&job->lending_bytes, (uint64_t)0 - bytes);
  return false;
}

static struct rondo_lent_piece *piece_create(struct rondo_rank *rank, uint32_t size) {
  uint64_t bytes = rondo_pool_class_bytes(size);
  if (!bytes_try_count(rank->job, bytes)) {
    rondo_lending_fini(rank); // free pieces of other sizes
    if (!bytes_try_count(rank->job, bytes))
      return NULL;
  }
  struct rondo_lent_piece *piece = malloc(sizeof *piece);
  void *memory = piece ? memory_alloc(rank, bytes) : NULL;
  if (memory) {
    *piece = (struct rondo_lent_piece){.memory = memory, .size = size};
    return piece;
  }
  free(piece);
  rondo_fetch_add_relaxed_u64(&rank->job->lending_bytes, (uint64_t)0 - bytes);
  return NULL;
}

static struct rondo_lent_piece *piece_take(struct rondo_rank *rank, uint32_t size) {
  struct rondo_lent_piece **free = rank->lending.free;
  for (uint32_t k = size; k <= size + LARGER_CLASSES && k < RONDO_POOL_CLASSES; k++) {
    struct rondo_lent_piece *piece = free[k];
    if (!piece)
      continue;
    free[k] = piece->next;
    return piece;
  }
  return piece_create(rank, size);
}

static void lent_bytes_add(struct rondo_rank *rank, uint64_t bytes) {
  uint64_t *lent = &rank->lending.lent_bytes;
  rondo_store_relaxed_u64(lent, rondo_load_relaxed_u64(lent) + bytes);
}

// What the collective borrows besides payload memory.
static uint64_t coll_lent_scratch(const struct rondo_coll *coll) {
  if (!coll->borrows_scratch)
    return 0;
  return coll->block_count * rondo_coll_memory(coll)->scratch_bytes;
}

// Looks whether the collective has connectors without payload memory. Its endpoints are written
// before the gate opens, and no run changes them now.
static void coll_note_connectors(struct rondo_coll *coll) {
  const struct rondo_task_context *c = coll->contexts;
  const struct rondo_context_static *fixed = &c->fixed;
  if (rondo_load_acquire_u32(&rondo_context_gate(c)->state) != RONDO_GATE_OPEN) // G2
    return;
  if (fixed->is_provisional)
    fixed = (const struct rondo_context_static *)(uintptr_t)fixed->send_table;
  const struct rondo_endpoint *peers = (const struct rondo_endpoint *)(uintptr_t)fixed->send_table;
  coll->borrows = RONDO_BORROWS_NOTHING;
  for (uint32_t i = 0; i < fixed->send_peer_count; i++)
    if (!rondo_endpoint_connector(&peers[i])->slot_bytes)
      coll->borrows = RONDO_BORROWS_ALWAYS;
  if (coll->borrows == RONDO_BORROWS_ALWAYS || !coll->borrows_scratch)
    return;
  coll->borrows = RONDO_BORROWS_ALWAYS;
  coll->lent_class = rondo_pool_class(coll_lent_scratch(coll)); // alone
}

int rondo_coll_lend(struct rondo_rank *rank, struct rondo_coll *coll) {
  coll->lent = piece_take(rank, coll->lent_class);
  if (!coll->lent)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY,
                            "run: id %llu: no memory for payload, or connector_bytes is used up",
                            (unsigned long long)coll->desc.id);
  lent_bytes_add(rank, rondo_pool_class_bytes(coll->lent->size));
  // The daemon reads this after the SQE (S1), or after the gate has opened (G2).
  struct rondo_own_memory *own = rondo_coll_memory(coll);
  uint64_t scratch = coll_lent_scratch(coll);
  if (scratch)
    own->scratch = (uint64_t)(uintptr_t)coll->lent->memory;
  own->lent = (uint64_t)(uintptr_t)coll->lent->memory + scratch;
  return RONDO_SUCCESS;
}

int rondo_coll_borrow(struct rondo_rank *rank, struct rondo_coll *coll) {
  if (coll->lent || coll->head)
    return RONDO_SUCCESS;
  if (coll->borrows == RONDO_BORROWS_MAYBE)
    coll_note_connectors(coll);
  return coll->borrows == RONDO_BORROWS_NOTHING ? RONDO_SUCCESS : rondo_coll_lend(rank, coll);
}

void rondo_coll_return(struct rondo_rank *rank, struct rondo_coll *coll) {
  struct rondo_lent_piece *piece = coll->lent;
  if (!piece)
    return;
#if defined(RONDO_EXPLORE)
  memset(piece->memory, 0x5a, rondo_pool_class_bytes(piece->size)); // nobody may read it any more
#endif
  coll->lent = NULL;
  lent_bytes_add(rank, (uint64_t)0 - rondo_pool_class_bytes(piece->size));
  piece->next = rank->lending.free[piece->size];
  rank->lending.free[piece->size] = piece;
}
