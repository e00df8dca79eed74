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

// Block 0: true if the inbox of every other block that takes part has room for the entry.
RONDO_FN bool rondo_block_can_fan_out(struct rondo_block *b, const struct rondo_sqe *entry) {
  for (uint32_t i = 1; i < entry->block_count; i++)
    if (!rondo_sq_has_room(&b->daemon->inboxes[i]))
      return false;
  return true;
}

// Block 0: passes an entry on. Every inbox has room for it.
RONDO_FN void rondo_block_fan_out(struct rondo_block *b, const struct rondo_sqe *entry) {
  for (uint32_t i = 1; i < entry->block_count; i++)
    rondo_sq_write(&b->daemon->inboxes[i], entry);
  if (entry->block_count > 1)
    rondo_fence_stores_device(); // S1
  for (uint32_t i = 1; i < entry->block_count; i++)
    rondo_sq_publish(&b->daemon->inboxes[i]);
}

// Lets the producer overwrite the entries that the block has taken. That takes a GPU as long as an
// access to the host, and is not urgent, so it waits until nothing else is to be done.
RONDO_FN void rondo_block_release_entries(struct rondo_block *b) {
  if (b->taken)
    rondo_sq_release(&b->source);
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
    const struct rondo_sqe entry = *peeked; // at once: a GPU reads it across the bus
    RONDO_TIMED_END(SQE_READ, began);
    RONDO_TIMED_BEGIN(taken);
    if (b->index == 0) {
      if (!rondo_block_can_fan_out(b, &entry))
        break;
      rondo_block_fan_out(b, &entry);
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
