// Active slots of a block: loading and saving of contexts, and the endpoints that a context uses.
#ifndef RONDO_DAEMON_CORE_BLOCK_SLOT_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_SLOT_CORE_H

#include "daemon/core/block_state_core.h"

// Writes the dynamic part back if it has changed.
RONDO_FN void rondo_slot_save(struct rondo_block *b, struct rondo_active_slot *slot) {
  if (!slot->occupied || !slot->dirty)
    return;
  RONDO_TIMED_BEGIN(began);
  struct rondo_task_context *home =
      rondo_table_context(b->daemon->table, slot->context.fixed.index, b->index);
  if (!RONDO_FAULT(CONTEXT_NOT_SAVED))
    rondo_context_save(home, &slot->context);
  slot->dirty = 0;
  rondo_counter_add(&b->counters.context_saves, 1);
  rondo_block_tally(b, slot->context.fixed.index, RONDO_TALLY_SAVES);
  RONDO_TIMED_END(SAVE, began);
}

// Loads a context into its active slot (direct-mapped).
RONDO_FN struct rondo_active_slot *rondo_slot_fill(struct rondo_block *b, uint32_t index) {
  struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  RONDO_TIMED_BEGIN(began);
  rondo_slot_save(b, slot);
  rondo_context_load(&slot->context, rondo_table_context(b->daemon->table, index, b->index));
  slot->occupied = 1;
  slot->dirty = 0;
  slot->blocked_since_ns = 0;
  slot->budget_ns = 0;
  rondo_counter_add(&b->counters.context_loads, 1);
  rondo_block_tally(b, index, RONDO_TALLY_LOADS);
  RONDO_TIMED_END(LOAD, began);
  return slot;
}

// The active slot that holds the context of table entry `index`; null: none.
RONDO_FN const struct rondo_active_slot *rondo_slot_find(const struct rondo_block *b,
                                                         uint32_t index) {
  const struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  return slot->occupied && slot->context.fixed.index == index ? slot : NULL;
}

// The context of a task in the queue: in its active slot, or where it was saved.
RONDO_FN const struct rondo_task_context *rondo_block_context(const struct rondo_block *b,
                                                              uint32_t index) {
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  return slot ? &slot->context : rondo_table_context(b->daemon->table, index, b->index);
}

// The active slot of a task in the queue, whose table entry cannot be replaced.
RONDO_FN struct rondo_active_slot *rondo_slot_of_task(struct rondo_block *b, uint32_t index) {
  if (rondo_slot_find(b, index))
    return &b->slots[index % RONDO_ACTIVE_SLOTS];
  return rondo_slot_fill(b, index);
}

// The active slot of the scheduled task. The queue must not be empty.
RONDO_FN struct rondo_active_slot *rondo_slot_at_cursor(struct rondo_block *b) {
  return rondo_slot_of_task(b, rondo_task_index(rondo_task_queue_current(&b->queue)));
}

// The context of a fetched entry, to be written. Its active slot may hold a collective that had the
// same index before. If other collectives are queued, a context that is in no slot is changed where
// it is saved: it may have left a slot again before it is scheduled.
RONDO_FN struct rondo_task_context *rondo_block_entry_context(struct rondo_block *b,
                                                              const struct rondo_sqe *entry) {
  uint32_t index = entry->collective;
  struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  bool is_found = rondo_slot_find(b, index) != NULL;
  bool is_stale = is_found && slot->context.fixed.generation != entry->generation;
  if (is_stale && !RONDO_FAULT(STALE_SLOT)) {
    slot->occupied = 0;
    is_found = false;
  }
  if (!is_found && b->queue.count)
    return rondo_table_context(b->daemon->table, index, b->index);
  if (!is_found)
    slot = rondo_slot_fill(b, index);
  slot->dirty = 1;
  return &slot->context;
}

// Makes `send` the endpoint of send peer `peer`. The endpoints must have been opened.
RONDO_FN void rondo_context_bind_send(struct rondo_task_context *c, uint32_t peer) {
  c->state.send = c->fixed.send_table + peer * sizeof(struct rondo_endpoint);
  c->state.bound_send = (uint16_t)peer;
}

// Makes `send` and `recv` the endpoints of the current op's peers.
RONDO_FN void rondo_context_bind(struct rondo_task_context *c) {
  const struct rondo_plan_op *op = rondo_context_op(c);
  uint32_t walked = c->state.repeat * op->peer_stride;
  if (op->primitive & RONDO_PRIM_SEND)
    rondo_context_bind_send(c, op->send_peer + walked);
  if (op->primitive & RONDO_PRIM_RECV)
    c->state.recv = c->fixed.recv_table + (op->recv_peer + walked) * sizeof(struct rondo_endpoint);
}

#endif // RONDO_DAEMON_CORE_BLOCK_SLOT_CORE_H
