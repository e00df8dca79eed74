// Loads what the events to come need while the one before them is handled: with many ranks each of
// these is a miss of the cache. In stages, as one address leads to the next.
#include <stddef.h>

#include "sim/schedule/machine_state.h"

// Where the collective that a message or a credit is of stands in the table of the rank that it
// arrives at.
static uint32_t index_of(const struct rondo_schedule_machine *m,
                         const struct rondo_schedule_event *e) {
  const struct rondo_connector *c = (const struct rondo_connector *)(uintptr_t)e->key;
  bool arrives = e->kind == RONDO_SCHEDULE_ARRIVAL;
  uint64_t flag = e->key + (arrives ? c->consumer_flag : c->producer_flag);
  return (uint32_t)(flag - m->ranks[e->rank].block.flags);
}

static const struct rondo_device_collective *entry_at(const struct rondo_schedule_machine *m,
                                                      const struct rondo_schedule_rank *r,
                                                      uint32_t index) {
  return &m->arrays.entries[r->first_member + index];
}

static const struct rondo_task_context *context_of(const struct rondo_schedule_machine *m,
                                                   const struct rondo_schedule_event *e) {
  const struct rondo_device_collective *entry = entry_at(m, &m->ranks[e->rank], index_of(m, e));
  return (const struct rondo_task_context *)(uintptr_t)entry->contexts;
}

static void load_ahead(const void *begin, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch((const char *)begin + i);
  }
}

static void connector_load_ahead(uint64_t connector) {
  load_ahead((const char *)(uintptr_t)connector + RONDO_LINE_BYTES, RONDO_LINE_BYTES);
}

// The endpoints of the context's current op.
static void endpoints_load_ahead(const struct rondo_task_context *c) {
  __builtin_prefetch(rondo_context_send(c));
  __builtin_prefetch(rondo_context_recv(c));
}

// The rank's words about the collective of the event.
static void words_load_ahead(const struct rondo_schedule_machine *m,
                             const struct rondo_schedule_event *e) {
  const struct rondo_schedule_rank *r = &m->ranks[e->rank];
  uint32_t index = index_of(m, e);
  __builtin_prefetch((const char *)(uintptr_t)r->block.flags + index);
  __builtin_prefetch((const char *)(uintptr_t)r->block.ready + index);
  __builtin_prefetch(rondo_block_wait(&r->block, index));
  __builtin_prefetch(&m->arrays.entries[r->first_member + index]);
}

void rondo_schedule_look_ahead(const struct rondo_schedule_machine *m) {
  const struct rondo_schedule_event_queue *q = &m->events;
  const struct rondo_schedule_event *e = rondo_schedule_event_ahead(q, 12);
  if (e && e->kind <= RONDO_SCHEDULE_CREDIT) {
    connector_load_ahead(e->key);
    __builtin_prefetch((const void *)(uintptr_t)e->key);
  }
  e = rondo_schedule_event_ahead(q, 8);
  if (e && e->kind <= RONDO_SCHEDULE_CREDIT) {
    words_load_ahead(m, e);
  }
  if (e && e->kind == RONDO_SCHEDULE_ARRIVAL) {
    struct rondo_connector *c = (struct rondo_connector *)(uintptr_t)e->key;
    __builtin_prefetch(rondo_connector_slot(c, e->sequence));
  }
  e = rondo_schedule_event_ahead(q, 5);
  if (e && e->kind == RONDO_SCHEDULE_ARRIVAL) {
    load_ahead(context_of(m, e), sizeof(struct rondo_task_context));
  }
  e = rondo_schedule_event_ahead(q, 3);
  if (e && e->kind == RONDO_SCHEDULE_ARRIVAL) {
    endpoints_load_ahead(context_of(m, e));
  }
  e = rondo_schedule_event_ahead(q, 2);
  if (e && e->kind == RONDO_SCHEDULE_ARRIVAL) {
    const struct rondo_endpoint *to = rondo_context_send(context_of(m, e));
    if (to) {
      struct rondo_connector *c = rondo_endpoint_connector(to);
      connector_load_ahead(to->connector);
      __builtin_prefetch((const char *)(c + 1));
    }
  }
}

void rondo_schedule_look_ahead_in_queue(const struct rondo_schedule_machine *m,
                                        const struct rondo_schedule_rank *r) {
  const struct rondo_task_queue *q = &r->block.queue;
  const uint32_t *entries = rondo_task_entries(q);
  for (uint32_t i = 1; i <= 4 && i < q->count; i++) {
    uint32_t at = q->cursor + i < q->count ? q->cursor + i : q->cursor + i - q->count;
    const struct rondo_task_context *c =
        (const struct rondo_task_context *)(uintptr_t)entry_at(m, r, rondo_task_index(entries[at]))
            ->contexts;
    if (i == 4) {
      load_ahead(c, sizeof *c);
    } else if (i == 3) {
      endpoints_load_ahead(c);
    } else if (i == 2 && c->state.send) {
      connector_load_ahead(rondo_context_send(c)->connector);
    }
    if (i == 2 && c->state.recv) {
      connector_load_ahead(rondo_context_recv(c)->connector);
    } else if (i == 1 && c->state.recv) {
      __builtin_prefetch(rondo_endpoint_slot(rondo_context_recv(c)));
    }
  }
}
