// Loading and saving of contexts on the host.
#include "daemon/core/context_core.h"

void rondo_context_load(struct rondo_task_context *slot, const struct rondo_task_context *buffer) {
  *slot = *buffer;
}

void rondo_context_save(struct rondo_task_context *buffer, const struct rondo_task_context *slot) {
  if (slot->state.phase != RONDO_PHASE_IDLE) {
    buffer->state = slot->state;
    return;
  }
  // The fields that outlive a run, each as it was last stored: a wider load would wait for the
  // stores.
  buffer->state.queued.number = 0;
  buffer->state.phase = RONDO_PHASE_IDLE;
  buffer->state.flags = slot->state.flags;
  rondo_store_relaxed_u32(&buffer->state.send.sequence, slot->state.send.sequence);
  rondo_store_relaxed_u32(&buffer->state.send.seen, slot->state.send.seen);
  buffer->state.send.connector = slot->state.send.connector;
  rondo_store_relaxed_u32(&buffer->state.recv.sequence, slot->state.recv.sequence);
  rondo_store_relaxed_u32(&buffer->state.recv.seen, slot->state.recv.seen);
  buffer->state.recv.connector = slot->state.recv.connector;
  buffer->state.bound_send = slot->state.bound_send;
  buffer->state.bound_recv = slot->state.bound_recv;
}
