// Fetching: entries of the SQ, or of a block's inbox, enter the task queue.
#ifndef RONDO_DAEMON_CORE_BLOCK_FETCH_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_FETCH_CORE_H

#include "daemon/core/block_ready_core.h"

// Accepts one entry: its collective enters the task queue, or the run waits until the executing run
// of the collective has ended.
RONDO_FN void rondo_block_accept(struct rondo_block *b, const struct rondo_sqe *entry,
                                 uint64_t now_ns) {
  struct rondo_task_context *c = rondo_block_entry_context(b, entry);
  struct rondo_task_run run = {entry->send, entry->recv, entry->run, entry->stream, entry->ticket};
  uint32_t flags = (uint32_t)entry->flags & RONDO_SQE_FLAGS;
  rondo_counter_add(&b->counters.fetched, 1);
  rondo_block_tally_fetch(b, entry->collective);
  if (c->state.phase != RONDO_PHASE_IDLE) {
    c->state.queued = run;
    c->state.flags &= (1u << RONDO_RUN_NEXT_SHIFT) - 1;
    c->state.flags |= (uint8_t)(flags << RONDO_RUN_NEXT_SHIFT);
    return;
  }
  rondo_context_begin(c, &run, flags, now_ns);
  rondo_block_set_ready(b, entry->collective);
  if (entry->collective >= b->flag_end)
    b->flag_end = entry->collective + 1;
  uint32_t task = rondo_task_make(entry->collective, c->fixed.urgency);
  bool sorted = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  bool was_empty = b->queue.count == 0;
  uint32_t before = was_empty ? 0 : rondo_task_urgency(rondo_task_queue_current(&b->queue));
  (void)rondo_task_queue_try_push(&b->queue, task, sorted);
  if (was_empty) {
    b->scheduled = 0;
  } else if (rondo_policy_should_switch(&b->daemon->policy, c->fixed.urgency, before)) {
    rondo_block_note_stuck(b);
    rondo_block_tally_switch(b);
    rondo_task_queue_rewind(&b->queue);
    b->scheduled = 0;
  }
}

// Lets the producer overwrite the entries that the block has taken. That takes a GPU as long as an
// access to the host, and is not urgent, so it waits until nothing else is to be done.
RONDO_FN void rondo_block_release_entries(struct rondo_block *b) {
  struct rondo_sq_consumer source = b->source;
  if (b->index == 0 && b->daemon->sq_ring)
    source.ring = b->daemon->sq_ring;
  if (b->taken)
    rondo_sq_release(&source);
  b->taken = 0;
}

// Fetches up to RONDO_STEP_FETCHES entries; returns how many.
RONDO_FN uint32_t rondo_block_fetch(struct rondo_block *b, uint64_t now_ns) {
  uint32_t fetched = 0;
  while (fetched < RONDO_STEP_FETCHES) {
    RONDO_TIMED_BEGIN(began);
    const struct rondo_sqe *peeked = rondo_sq_try_peek(&b->source);
    if (!peeked)
      break;
    const struct rondo_sqe entry = *peeked;
    RONDO_TIMED_END(SQE_READ, began);
    RONDO_TIMED_BEGIN(taken);
    if (b->index == 0 && b->daemon->inboxes) {
      if (!rondo_sq_can_fan_out(b->daemon->inboxes, 1, entry.block_count))
        break;
      rondo_sq_fan_out(b->daemon->inboxes, 1, &entry);
    }
    rondo_block_accept(b, &entry, now_ns);
    rondo_sq_take(&b->source);
    b->taken++;
    RONDO_TIMED_END(PREPARE, taken);
    fetched++;
    if (b->daemon->policy.budget == RONDO_BUDGET_NEVER)
      break; // the single-queue model: one at a time
  }
  if (fetched == 0 || b->taken >= b->source.capacity / 2)
    rondo_block_release_entries(b);
  return fetched;
}

#endif // RONDO_DAEMON_CORE_BLOCK_FETCH_CORE_H
