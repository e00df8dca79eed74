// The event queue of the schedule simulator: a radix heap (Ahuja, Mehlhorn, Orlin, Tarjan 1990).
//
// Time never goes back, so an event needs no comparison with others until its bucket comes up: each
// event is moved at most 64 times, mostly twice, through memory that is read in order. Events of
// the same time come out in the order in which they were pushed, so equal seeds give equal runs.
//
// Bucket 0 holds the events of the *window*, in their order. A bucket of few events becomes the
// window as a whole, so that the caller can see the next events although their times differ.
//
//   push ... pop (false when empty) ... fini
#ifndef RONDO_SIM_SCHEDULE_EVENT_QUEUE_H
#define RONDO_SIM_SCHEDULE_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "sim/common/text.h"

enum rondo_schedule_event_kind {
  RONDO_SCHEDULE_ARRIVAL = 0, // a slot becomes visible to its consumer
  RONDO_SCHEDULE_CREDIT = 1,  // a consumed slot becomes known to its producer
  RONDO_SCHEDULE_STEP = 2,    // the block of a rank steps
  RONDO_SCHEDULE_SUBMIT = 3   // the program of a rank goes on
};

struct rondo_schedule_event {
  uint64_t at_ns;
  uint64_t key;       // of ARRIVAL and CREDIT: address of the connector; see also _push_by_key
  uint32_t kind : 2;  // enum rondo_schedule_event_kind
  uint32_t rank : 30; // that the event is for
  // Of ARRIVAL: that of the slot; of CREDIT: the new value of `consumed`; of STEP: its number.
  uint32_t sequence;
};

struct rondo_schedule_bucket {
  struct rondo_schedule_event *items;
  uint64_t count, capacity;
};

#define RONDO_SCHEDULE_WINDOW_EVENTS 96u

// Zeroed before the first push.
struct rondo_schedule_event_queue {
  uint64_t now_ns;  // of the last event that was popped
  uint64_t base_ns; // an event is in the bucket of the highest bit in which its time differs
  uint32_t window;  // events that would be in buckets up to this one are in bucket 0
  uint64_t taken;   // events of bucket 0 that were popped
  uint64_t filled;  // a bit for each bucket from 1 on that holds events: bucket i has bit i - 1
  struct rondo_schedule_bucket buckets[65];
};

static inline void rondo_schedule_event_append(struct rondo_schedule_event_queue *q, uint32_t i,
                                               const struct rondo_schedule_event *e) {
  struct rondo_schedule_bucket *b = &q->buckets[i];
  RONDO_SIM_GROW(b->items, b->count, b->capacity, 64);
  b->items[b->count++] = *e;
}

static inline uint32_t rondo_schedule_bucket_of(const struct rondo_schedule_event_queue *q,
                                                uint64_t at_ns) {
  uint64_t differs = at_ns ^ q->base_ns;
  return differs ? 64 - (uint32_t)__builtin_clzll(differs) : 0;
}

// Makes the window that of one time, and moves the events of other times out of it.
static inline void rondo_schedule_window_close(struct rondo_schedule_event_queue *q) {
  struct rondo_schedule_bucket *b = &q->buckets[0];
  uint64_t end = b->count;
  b->count = 0;
  q->base_ns = q->now_ns;
  q->window = 0;
  for (uint64_t k = q->taken; k < end; k++) {
    uint32_t i = rondo_schedule_bucket_of(q, b->items[k].at_ns);
    rondo_schedule_event_append(q, i, &b->items[k]);
    q->filled |= i ? UINT64_C(1) << (i - 1) : 0;
  }
  q->taken = 0;
}

// Pushes an event of the window.
static inline void rondo_schedule_window_push(struct rondo_schedule_event_queue *q,
                                              const struct rondo_schedule_event *e) {
  struct rondo_schedule_bucket *b = &q->buckets[0];
  rondo_schedule_event_append(q, 0, e);
  uint64_t i = b->count - 1;
  for (; i > q->taken && b->items[i - 1].at_ns > e->at_ns; i--) {
    b->items[i] = b->items[i - 1];
  }
  b->items[i] = *e;
  if (q->window && b->count - q->taken > 2 * (uint64_t)RONDO_SCHEDULE_WINDOW_EVENTS) {
    rondo_schedule_window_close(q); // to keep it sorted would take too long
  }
}

static inline void rondo_schedule_event_push(struct rondo_schedule_event_queue *q,
                                             const struct rondo_schedule_event *e) {
  uint32_t i = rondo_schedule_bucket_of(q, e->at_ns);
  if (i <= q->window) {
    rondo_schedule_window_push(q, e);
  } else {
    rondo_schedule_event_append(q, i, e);
    q->filled |= UINT64_C(1) << (i - 1);
  }
}

// Moves the events of the lowest bucket that holds any to the buckets below it. If they are no more
// than `most`, they become the window.
static inline void rondo_schedule_event_queue_refill(struct rondo_schedule_event_queue *q,
                                                     uint64_t most) {
  uint32_t lowest = (uint32_t)__builtin_ctzll(q->filled) + 1;
  struct rondo_schedule_bucket *b = &q->buckets[lowest];
  uint64_t count = b->count;
  q->filled &= q->filled - 1;
  q->taken = q->buckets[0].count = 0;
  q->base_ns = b->items[0].at_ns;
  for (uint64_t i = 1; i < count; i++) {
    q->base_ns = b->items[i].at_ns < q->base_ns ? b->items[i].at_ns : q->base_ns;
  }
  b->count = 0;
  q->window = count <= most ? lowest - 1 : 0;
  for (uint64_t i = 0; i < count; i++) { // all go to lower buckets
    rondo_schedule_event_push(q, &b->items[i]);
  }
}

// The event that comes out after `count` others, as far as it is known; null if it is not.
static inline const struct rondo_schedule_event *
rondo_schedule_event_ahead(const struct rondo_schedule_event_queue *q, uint32_t count) {
  const struct rondo_schedule_bucket *now = &q->buckets[0];
  return q->taken + count < now->count ? &now->items[q->taken + count] : NULL;
}

// Takes the next event of the window. Returns false if there is none.
static inline bool rondo_schedule_window_pop(struct rondo_schedule_event_queue *q,
                                             struct rondo_schedule_event *e) {
  struct rondo_schedule_bucket *now = &q->buckets[0];
  if (q->taken == now->count) {
    return false;
  }
  *e = now->items[q->taken++];
  q->now_ns = e->at_ns;
  return true;
}

// Takes the next event. Returns false if there is none.
static inline bool rondo_schedule_event_pop(struct rondo_schedule_event_queue *q,
                                            struct rondo_schedule_event *e) {
  while (!rondo_schedule_window_pop(q, e)) {
    if (!q->filled) {
      return false;
    }
    rondo_schedule_event_queue_refill(q, RONDO_SCHEDULE_WINDOW_EVENTS);
  }
  return true;
}

// Pushes an event that comes out before those of the same time with a greater key. Then all events
// of the queue are pushed and popped by key.
static inline void rondo_schedule_event_push_by_key(struct rondo_schedule_event_queue *q,
                                                    const struct rondo_schedule_event *e) {
  struct rondo_schedule_bucket *now = &q->buckets[0];
  rondo_schedule_event_push(q, e);
  if (e->at_ns != q->base_ns) {
    return;
  }
  uint64_t i = now->count - 1;
  for (; i > q->taken && now->items[i - 1].key > e->key; i--) {
    now->items[i] = now->items[i - 1];
  }
  now->items[i] = *e;
}

static inline int rondo_schedule_event_compare(const void *a, const void *b) {
  const struct rondo_schedule_event *x = a, *y = b;
  return x->key < y->key ? -1 : x->key > y->key;
}

static inline bool rondo_schedule_event_pop_by_key(struct rondo_schedule_event_queue *q,
                                                   struct rondo_schedule_event *e) {
  struct rondo_schedule_bucket *now = &q->buckets[0];
  if (q->taken == now->count && q->filled) {
    rondo_schedule_event_queue_refill(q, 0);
    for (uint64_t i = 1; i < now->count; i++) {
      if (now->items[i - 1].key > now->items[i].key) {
        qsort(now->items, now->count, sizeof *now->items, rondo_schedule_event_compare);
        break;
      }
    }
  }
  return rondo_schedule_window_pop(q, e);
}

static inline void rondo_schedule_event_queue_fini(struct rondo_schedule_event_queue *q) {
  for (uint32_t i = 0; i < sizeof q->buckets / sizeof q->buckets[0]; i++) {
    free(q->buckets[i].items);
  }
}

#endif // RONDO_SIM_SCHEDULE_EVENT_QUEUE_H
