// Loading and saving of contexts on the host: the compiler knows best how.
#include "daemon/core/context_core.h"

void rondo_context_load(struct rondo_task_context *slot, const struct rondo_task_context *buffer) {
  *slot = *buffer;
}

void rondo_context_save(struct rondo_task_context *buffer, const struct rondo_task_context *slot) {
  buffer->state = slot->state;
}
