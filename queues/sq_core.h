// The submission queue: a ring of SQEs with one producer at a time and one consumer.
//
// The CPU pushes under the context's lock; block 0 of the daemon pops and hands on to the
// inboxes of the other blocks, which are queues of the same kind (the paper lets
// every block poll the SQ; here only one does). An entry carries a lap mark: one
// release store publishes it, and no tail is written.
//
//   producer: push (RONDO_ERR_FULL when full; nothing changes)
//   consumer: try_peek -> pop
//
// Edges: S1 push (release mark) pairs with S2 try_peek (acquire mark): the entry, the callback
// record and the registration behind it are visible. S3 pop (release consumed) pairs with S4
// push (acquire consumed): the entry may be overwritten.
#ifndef RONDO_QUEUES_SQ_CORE_H
#define RONDO_QUEUES_SQ_CORE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "queues/platform/atomic.h"
#include "queues/platform/explore.h"
#include "queues/platform/platform.h"

struct rondo_sqe {
  uint32_t mark;        // sequence number + 1; set by push
  uint32_t collective;  // index in the daemon's table
  uint64_t run;         // number of the run, from 1
  uint64_t send, recv;  // addresses of the buffers
  uint32_t generation;  // of the table entry
  uint32_t block_count; // blocks that take part
  uint64_t submitted_ns;
  uint64_t reserved[2];
};
static_assert(sizeof(struct rondo_sqe) == 64, "shared layout");

struct rondo_sq {
  // Written by the consumer.
  uint32_t consumed;
  uint8_t consumer_line[RONDO_LINE_BYTES - 4];
  // Written by the producer.
  uint32_t sequence; // of the next entry to push
  uint32_t seen;     // `consumed` as the producer saw it last
  uint8_t producer_line[RONDO_LINE_BYTES - 8];
  // Constant after rondo_sq_init, and the consumer's own place.
  uint64_t entries;  // address of capacity × struct rondo_sqe
  uint32_t capacity; // a power of two
  uint32_t next;     // consumer: sequence of the next entry to pop
  uint8_t constant_line[RONDO_LINE_BYTES - 16];
};
static_assert(sizeof(struct rondo_sq) == 3 * RONDO_LINE_BYTES, "shared layout");

RONDO_FN struct rondo_sqe *rondo_sq_entry(const struct rondo_sq *q, uint32_t sequence) {
  return (struct rondo_sqe *)(uintptr_t)q->entries + (sequence & (q->capacity - 1));
}

// Prepares a queue over `capacity` (a power of two) entries of the caller, before either side
// sees it. `first_sequence` is 0, save in tests of the wrap.
RONDO_FN void rondo_sq_init(struct rondo_sq *q, struct rondo_sqe *entries, uint32_t capacity,
                            uint32_t first_sequence) {
  q->entries = (uint64_t)(uintptr_t)entries;
  q->capacity = capacity;
  q->consumed = q->seen = q->sequence = q->next = first_sequence;
  for (uint32_t i = 0; i < capacity; i++)
    rondo_sq_entry(q, first_sequence + i)->mark = first_sequence + i + 1 - capacity;
}

// Producer: 1 if an entry can be pushed.
RONDO_FN int rondo_sq_has_room(struct rondo_sq *q) {
  if (q->sequence - q->seen < q->capacity || RONDO_FAULT(SQ_OVERRUN))
    return 1;
  q->seen = rondo_load_acquire_u32(&q->consumed); // S4
  return q->sequence - q->seen < q->capacity;
}

// Producer: publishes a copy of `entry`; 0, or 1 when the queue is full. Wait-free.
RONDO_FN int rondo_sq_push(struct rondo_sq *q, const struct rondo_sqe *entry) {
  if (!rondo_sq_has_room(q))
    return 1;
  struct rondo_sqe *slot = rondo_sq_entry(q, q->sequence);
  slot->collective = entry->collective;
  slot->run = entry->run;
  slot->send = entry->send;
  slot->recv = entry->recv;
  slot->generation = entry->generation;
  slot->block_count = entry->block_count;
  slot->submitted_ns = entry->submitted_ns;
  RONDO_POINT("sq.push");
  rondo_store_release_u32(&slot->mark, q->sequence + 1); // S1
  rondo_store_relaxed_u32(&q->sequence, q->sequence + 1);
  return 0;
}

// 1 if something was pushed that has not been popped. A look only; any thread.
RONDO_FN int rondo_sq_has_entry(const struct rondo_sq *q) {
  return rondo_load_relaxed_u32(&q->sequence) != rondo_load_relaxed_u32(&q->consumed);
}

// Consumer: the next entry, or null. Wait-free.
RONDO_FN const struct rondo_sqe *rondo_sq_try_peek(const struct rondo_sq *q) {
  const struct rondo_sqe *entry = rondo_sq_entry(q, q->next);
  return rondo_load_acquire_u32(&entry->mark) == q->next + 1 ? entry : NULL; // S2
}

// Consumer: gives the peeked entry back. Wait-free.
RONDO_FN void rondo_sq_pop(struct rondo_sq *q) {
  q->next++;
  rondo_store_release_u32(&q->consumed, q->next); // S3
}

#endif // RONDO_QUEUES_SQ_CORE_H
