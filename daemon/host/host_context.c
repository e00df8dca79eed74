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
  buffer->state.send = slot->state.send;
  buffer->state.recv = slot->state.recv;
  buffer->state.bound_send = slot->state.bound_send;
}
