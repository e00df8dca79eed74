// The completion queue: a ring of 16-byte CQEs with many producers (the blocks of a daemon) and
// one consumer at a time.
//
// A producer claims a place with one compare-and-swap and publishes the entry with
// one 16-byte store whose first word carries the lap mark. There is no fence and no
// second index (compare the paper's three queues, section 5).
//
//   producer: try_push (1 when full or when another producer won: try again at a later step)
//   consumer: try_pop
//
// Edges: Q1 try_push (release mark) pairs with Q2 try_pop (acquire mark): the results in the receive
// buffer are visible to whoever sees the completion. Q3 try_pop (release consumed)
// pairs with Q4 try_push (acquire consumed): the entry may be overwritten.
#ifndef RONDO_QUEUES_CQ_CORE_H
#define RONDO_QUEUES_CQ_CORE_H

#include <assert.h>
#include <stdint.h>

#include "queues/platform/atomic.h"
#include "queues/platform/explore.h"
#include "queues/platform/platform.h"

struct rondo_cqe {
  uint32_t mark;        // sequence number + 1
  uint32_t collective;  // index in the daemon's table
  uint32_t duration_ns; // from the first primitive to completion, saturating
  uint16_t status;      // enum rondo_status
  uint16_t run;         // low bits of the run's number, as a check
};
static_assert(sizeof(struct rondo_cqe) == 16, "shared layout");

struct rondo_cq {
  // Written by the consumer.
  uint32_t consumed;
  uint8_t consumer_line[RONDO_LINE_BYTES - 4];
  // Written by producers.
  uint32_t claimed;
  uint8_t producer_line[RONDO_LINE_BYTES - 4];
  // Constant after rondo_cq_init.
  uint64_t entries;  // address of capacity × 16 bytes, 16-byte aligned
  uint32_t capacity; // a power of two
  uint8_t constant_line[RONDO_LINE_BYTES - 12];
};
static_assert(sizeof(struct rondo_cq) == 3 * RONDO_LINE_BYTES, "shared layout");

RONDO_FN uint64_t *rondo_cq_entry(const struct rondo_cq *q, uint32_t sequence) {
  return (uint64_t *)(uintptr_t)q->entries + 2 * (uint64_t)(sequence & (q->capacity - 1));
}

// Prepares a queue over `capacity` (a power of two) × 2 words of the caller, before anyone sees it.
RONDO_FN void rondo_cq_init(struct rondo_cq *q, uint64_t *entries, uint32_t capacity,
                            uint32_t first_sequence) {
  q->entries = (uint64_t)(uintptr_t)entries;
  q->capacity = capacity;
  q->consumed = q->claimed = first_sequence;
  for (uint32_t i = 0; i < capacity; i++) {
    uint32_t stale = first_sequence + i + 1 - capacity;
    rondo_cq_entry(q, first_sequence + i)[0] = stale;
    rondo_cq_entry(q, first_sequence + i)[1] = 0;
  }
}

// Producer: 0 when the entry was published, 1 when the queue is full or another
// producer was quicker; nothing has changed then. `entry->mark` is ignored. Wait-free.
RONDO_FN int rondo_cq_try_push(struct rondo_cq *q, const struct rondo_cqe *entry) {
  uint32_t sequence = rondo_load_relaxed_u32(&q->claimed);
  if (sequence - rondo_load_acquire_u32(&q->consumed) >= q->capacity) // Q4
    return 1;
  if (!rondo_try_swap_acq_rel_u32(&q->claimed, sequence, sequence + 1))
    return 1;
  RONDO_POINT("cq.push");
  uint64_t marked = (uint64_t)entry->collective << 32 | (uint32_t)(sequence + 1);
  uint64_t rest = (uint64_t)entry->run << 48 | (uint64_t)entry->status << 32 | entry->duration_ns;
  rondo_store_release_pair(rondo_cq_entry(q, sequence), marked, rest); // Q1
  return 0;
}

// Consumer: 1 if there is an entry to pop. A look only; any thread.
RONDO_FN int rondo_cq_has_entry(const struct rondo_cq *q) {
  uint32_t sequence = rondo_load_relaxed_u32(&q->consumed);
  return (uint32_t)rondo_load_relaxed_u64(rondo_cq_entry(q, sequence)) == sequence + 1;
}

// Consumer: 1 and the entry, or 0 when there is none. Wait-free; one caller at a time.
RONDO_FN int rondo_cq_try_pop(struct rondo_cq *q, struct rondo_cqe *out) {
  uint32_t sequence = rondo_load_relaxed_u32(&q->consumed);
  uint64_t *entry = rondo_cq_entry(q, sequence);
  uint64_t marked = rondo_load_acquire_u64(&entry[0]); // Q2
  if ((uint32_t)marked != sequence + 1)
    return 0;
  uint64_t rest = rondo_load_relaxed_u64(&entry[1]);
  out->mark = (uint32_t)marked;
  out->collective = (uint32_t)(marked >> 32);
  out->duration_ns = (uint32_t)rest;
  out->status = (uint16_t)(rest >> 32);
  out->run = (uint16_t)(rest >> 48);
  rondo_store_release_u32(&q->consumed, sequence + 1); // Q3
  return 1;
}

#endif // RONDO_QUEUES_CQ_CORE_H
