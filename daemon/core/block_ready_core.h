// Which collectives of a block's task queue can go on: their waits, and the search for a ready one.
#ifndef RONDO_DAEMON_CORE_BLOCK_READY_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_READY_CORE_H

#include "daemon/core/block_slot_core.h"

RONDO_FN struct rondo_wait *rondo_block_wait(const struct rondo_block *b, uint32_t index) {
  return (struct rondo_wait *)(uintptr_t)b->waits + index;
}

// Marks a collective as ready: it has something to do, or has not been tried yet.
RONDO_FN void rondo_block_set_ready(struct rondo_block *b, uint32_t index) {
  if (!RONDO_FAULT(WAIT_STALE))
    rondo_block_wait(b, index)->word = RONDO_WAIT_NONE;
}

// The wait of an ended run whose completion could not be posted, because the queue was full.
RONDO_FN struct rondo_wait rondo_block_wait_for_room(const struct rondo_block *b) {
  const struct rondo_cq_producers *cq = b->daemon->cq;
  const struct rondo_cq_ring *ring = rondo_cq_ring_at(cq->ring);
  uint32_t consumed = rondo_load_relaxed_u32(&ring->consumed);
  if ((uint32_t)rondo_load_relaxed_u64(&cq->claim) - consumed < cq->capacity)
    return rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
  return rondo_wait_make(RONDO_WAIT_CHANGES, &ring->consumed, consumed);
}

// Stores the wait of the scheduled collective after an attempt without progress.
RONDO_FN void rondo_block_note_wait(struct rondo_block *b, const struct rondo_active_slot *slot) {
  const struct rondo_task_context *c = &slot->context;
  *rondo_block_wait(b, c->fixed.index) = c->state.phase == RONDO_PHASE_ENDED
                                             ? rondo_block_wait_for_room(b)
                                             : rondo_wait_of(c, (int)b->attempt);
}

// Stores the wait of the scheduled collective if it is stuck.
RONDO_FN void rondo_block_note_stuck(struct rondo_block *b) {
  uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  if (b->scheduled && slot && slot->blocked_since_ns)
    rondo_block_note_wait(b, slot);
}

// True if the communicator has failed. Then the run must end, although the word of its wait may
// never change.
RONDO_FN bool rondo_block_is_failed(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_block_context(b, index);
  int is_open = 0;
  return c->state.phase <= RONDO_PHASE_DRAIN &&
         rondo_gate_verdict(rondo_context_gate(c), c->state.run.number, &is_open) != RONDO_SUCCESS;
}

// True if the collective can go on. Only every RONDO_FAILURE_ROUNDS-th look round also checks
// whether its communicator has failed.
#define RONDO_FAILURE_ROUNDS 64u
RONDO_FN bool rondo_block_is_ready(const struct rondo_block *b, uint32_t index) {
  if (rondo_wait_is_over(rondo_block_wait(b, index)))
    return true;
  return (b->rounds + index) % RONDO_FAILURE_ROUNDS == 0 && rondo_block_is_failed(b, index);
}

// Finds the first ready collective among `count` places of the task queue, from place `from` on and
// around its end. Returns its place, or RONDO_NOWHERE.
RONDO_FN uint32_t rondo_block_find_ready(const struct rondo_block *b, uint32_t from,
                                         uint32_t count) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  uint32_t at = from < b->queue.count ? from : 0;
  for (uint32_t i = 0; i < count; i++) {
    if (rondo_block_is_ready(b, rondo_task_index(entries[at])))
      return at;
    if (++at == b->queue.count)
      at = 0;
  }
  return RONDO_NOWHERE;
}

// True if a collective of the queue can go on or has failed. For a block that has quit, which makes
// no look rounds.
RONDO_FN bool rondo_block_can_move(const struct rondo_block *b) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  for (uint32_t i = 0; i < b->queue.count; i++) {
    uint32_t index = rondo_task_index(entries[i]);
    if (rondo_wait_is_over(rondo_block_wait(b, index)) || rondo_block_is_failed(b, index))
      return true;
  }
  return false;
}

#endif // RONDO_DAEMON_CORE_BLOCK_READY_CORE_H
