// Which collectives of a block's task queue can go on: their waits, their ready flags, and the
// search for a ready one.
//
// A look round must not look at the words of all waits: with 1,000 collectives these are as many
// cache lines, mostly written by other cores. So each block has a byte for each collective, the
// *ready flag*. Whoever may have ended a wait of the collective sets the flag: the producer or
// consumer of a connector (rondo_connector_set_flag), and whoever opens or fails a communicator.
// A look round exchanges the flags by zeros, eight at a time, and adds them to the *ready set*: the
// collectives whose waits are worth a look.
//
// The ready set has these bits for a collective:
//   RONDO_READY_LOOK    look at its wait once. The look takes the bit away.
//   RONDO_READY_ALWAYS  look at its wait in each look round, because nobody sets a flag for it.
//   RONDO_READY_BLIND   look at its wait once, if its flag is set. Only where no flag gets lost.
//
// A flag that is set too often costs a look. Should one get lost, a blind look finds the
// collective: each round that finds nothing adds one more place of the queue to the ready set.
//
// A block without flags, as on a GPU, looks at all waits in each round. There the words are in the
// device's own memory, and to set a flag each peer would have to write across the bus once more.
#ifndef RONDO_DAEMON_CORE_BLOCK_READY_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_READY_CORE_H

#include "daemon/core/block_slot_core.h"

RONDO_FN struct rondo_wait *rondo_block_wait(const struct rondo_block *b, uint32_t index) {
  return (struct rondo_wait *)(uintptr_t)b->waits + index;
}

#define RONDO_READY_LOOK 1u // as a flag that was set
#define RONDO_READY_ALWAYS 2u
#define RONDO_READY_BLIND 4u

// The collective's byte in the ready set of a block that has flags.
RONDO_FN uint8_t *rondo_block_ready(const struct rondo_block *b, uint32_t index) {
  return (uint8_t *)(uintptr_t)b->ready + index;
}

RONDO_FN void rondo_block_store_ready(struct rondo_block *b, uint32_t index, unsigned bits) {
  RONDO_STORE_READY(b, index, (uint8_t)bits);
}

// Marks a collective as ready: it has something to do, or has not been tried yet.
RONDO_FN void rondo_block_set_ready(struct rondo_block *b, uint32_t index) {
  if (!RONDO_FAULT(WAIT_STALE))
    rondo_block_wait(b, index)->word = RONDO_WAIT_NONE;
  if (b->ready)
    rondo_block_store_ready(b, index, RONDO_READY_LOOK);
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

// Stores the wait of the scheduled collective after an attempt without progress. The next look
// round looks at it, because the flag may have been taken since the attempt.
RONDO_FN void rondo_block_note_wait(struct rondo_block *b, const struct rondo_active_slot *slot) {
  const struct rondo_task_context *c = &slot->context;
  *rondo_block_wait(b, c->fixed.index) = c->state.phase == RONDO_PHASE_ENDED
                                             ? rondo_block_wait_for_room(b)
                                             : rondo_wait_of(c, (int)b->attempt);
  if (b->ready)
    rondo_block_store_ready(
        b, c->fixed.index,
        RONDO_READY_LOOK | (rondo_wait_is_flagged(c, (int)b->attempt) ? 0 : RONDO_READY_ALWAYS));
}

// Does the same, right after the attempt. No flag has been taken since, so one that is set from the
// attempt on will be taken after this call.
RONDO_FN void rondo_block_arm_wait(struct rondo_block *b, const struct rondo_active_slot *slot) {
  uint32_t index = slot->context.fixed.index;
  rondo_block_note_wait(b, slot);
  if (b->ready)
    rondo_block_store_ready(b, index, *rondo_block_ready(b, index) & ~RONDO_READY_LOOK);
}

// Takes the flags that are set: adds them to the ready set. Returns true if there were any.
RONDO_FN bool rondo_block_take_flags(struct rondo_block *b) {
  if (RONDO_ONE_THREAD)
    return RONDO_TAKE_FLAGS(b);
  uint64_t *flags = (uint64_t *)(uintptr_t)b->flags;
  uint64_t *ready = (uint64_t *)(uintptr_t)b->ready;
  uint64_t any = 0;
  for (uint32_t i = 0; flags && i * 8 < b->flag_end; i++) {
    if (!rondo_load_relaxed_u64(&flags[i]))
      continue;
    uint64_t eight = rondo_exchange_acq_rel_u64(&flags[i], 0); // C10
    ready[i] |= eight;
    any |= eight;
  }
  return any != 0;
}

// Adds one place of the queue to the ready set, another one in each call.
RONDO_FN void rondo_block_look_blindly(struct rondo_block *b) {
  if (!b->ready)
    return;
  b->blind_look = b->blind_look + 1 < b->queue.count ? b->blind_look + 1 : 0;
  uint32_t index = rondo_task_index(rondo_task_entries(&b->queue)[b->blind_look]);
  unsigned look = RONDO_ONE_THREAD ? RONDO_READY_BLIND : RONDO_READY_LOOK;
  rondo_block_store_ready(b, index, *rondo_block_ready(b, index) | look);
}

// Stores the wait of the scheduled collective if it is stuck.
RONDO_FN void rondo_block_note_stuck(struct rondo_block *b) {
  uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  if (b->scheduled && slot && slot->blocked_since_ns)
    rondo_block_note_wait(b, slot);
}

// What a context whose last step made no progress waits for (enum rondo_tallied).
RONDO_FN int rondo_wait_reason(const struct rondo_task_context *c, int attempt) {
  switch (c->state.phase) {
  case RONDO_PHASE_GATE:
    return RONDO_TALLY_WAITS_START;
  case RONDO_PHASE_OPS:
    return attempt == RONDO_ATTEMPT_NO_CREDIT ? RONDO_TALLY_WAITS_ROOM : RONDO_TALLY_WAITS_DATA;
  case RONDO_PHASE_ENDED:
    return RONDO_TALLY_WAITS_COMPLETION;
  default:
    return RONDO_TALLY_WAITS_READERS;
  }
}

// Counts that the block leaves the scheduled collective, if the block has worked on it.
RONDO_FN void rondo_block_tally_switch(const struct rondo_block *b) {
  if (RONDO_HAS_TALLIES && b->scheduled)
    rondo_block_tally(b, rondo_task_index(rondo_task_queue_current(&b->queue)),
                      RONDO_TALLY_SWITCHES);
}

// True if the communicator has failed. Then the run must end, although the word of its wait may
// never change.
RONDO_FN bool rondo_block_is_failed(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_block_context(b, index);
  int is_open = 0;
  return c->state.phase <= RONDO_PHASE_DRAIN &&
         rondo_gate_verdict(rondo_context_gate(c), c->state.run.number, &is_open) != RONDO_SUCCESS;
}

// True if the ready set has the collective.
RONDO_FN bool rondo_block_is_worth_look(struct rondo_block *b, uint32_t index) {
  uint8_t ready = *rondo_block_ready(b, index);
  if (RONDO_ONE_THREAD && ready == RONDO_READY_BLIND &&
      !((const uint8_t *)(uintptr_t)b->flags)[index]) {
    rondo_block_store_ready(b, index, 0);
    return false;
  }
  return ready != 0;
}

// True if the collective can go on. Without flags, only every RONDO_FAILURE_ROUNDS-th look round
// also checks whether its communicator has failed.
#define RONDO_FAILURE_ROUNDS 64u
RONDO_FN bool rondo_block_is_ready(struct rondo_block *b, uint32_t index) {
  if (b->ready && !rondo_block_is_worth_look(b, index))
    return false;
  if (rondo_wait_is_over(rondo_block_wait(b, index)))
    return true;
  if (!b->ready)
    return (b->rounds + index) % RONDO_FAILURE_ROUNDS == 0 && rondo_block_is_failed(b, index);
  uint8_t ready = *rondo_block_ready(b, index);
  if ((ready & RONDO_READY_LOOK) && rondo_block_is_failed(b, index))
    return true;
  rondo_block_store_ready(b, index, ready & RONDO_READY_ALWAYS);
  return false;
}

// Finds the first ready collective among `count` places of the task queue, from place `from` on and
// around its end. Returns its place, or RONDO_NOWHERE.
RONDO_FN uint32_t rondo_block_find_ready(struct rondo_block *b, uint32_t from, uint32_t count) {
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
// no look rounds. The caller owns the block.
RONDO_FN bool rondo_block_can_move(struct rondo_block *b) {
  (void)rondo_block_take_flags(b);
  return rondo_block_find_ready(b, 0, b->queue.count) != RONDO_NOWHERE;
}

#endif // RONDO_DAEMON_CORE_BLOCK_READY_CORE_H
