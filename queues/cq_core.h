// The completion queue: a ring of 16-byte CQEs with many producers (the blocks of a daemon) and one
// consumer at a time.
//
// A producer claims an entry with one compare-and-swap, and publishes it with one 16-byte store.
// There is no second index (the paper, section 5, has three other queues). Each half of an entry
// has a mark of its own, because the halves may become visible in any order: PTX defines a 16-byte
// store as two stores. A consumer takes an entry when both marks are those of its sequence number.
//
// A queue consists of the ring, which both sides share, the words that the producers share, and the
// consumer's half. Each is in the memory of its users. The producers' claim word contains a copy of
// `consumed`, so that a push reads the consumer's word only when the ring seems full.
//
//    producer: try_claim (false if the ring is full, or another producer was faster: try again at a
//              later step) -> publish; or both at once, try_push
//    consumer: try_pop
//
// Edges: Q1 publish (release both marks) pairs with Q2 try_peek (acquire both marks): the results
// in the receive buffer are visible to a thread that sees the completion. Q3 try_pop (release
// consumed) pairs with Q4 try_claim (acquire consumed): the entry may be overwritten. Q5 try_claim
// (swap of the claim word) passes on to the next producer what Q4 showed to an earlier one.
#ifndef RONDO_QUEUES_CQ_CORE_H
#define RONDO_QUEUES_CQ_CORE_H

#include <assert.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/explore.h"
#include "base/platform.h"

struct rondo_cqe {
  // First half.
  uint32_t mark;       // sequence number + 1
  uint16_t collective; // index in the daemon's table
  uint16_t status;     // enum rondo_status
  // Second half.
  uint16_t second_mark; // low bits of `mark`
  uint16_t run;         // low bits of the run's number, as a check
  uint32_t duration_ns; // from the first primitive to completion, saturating
};
static_assert(sizeof(struct rondo_cqe) == 16, "shared layout");

// The second mark of a lap differs from that of the lap before.
#define RONDO_CQ_MAX_CAPACITY 32768u

// What both sides share. Followed in memory by the entries.
struct rondo_cq_ring {
  uint32_t consumed; // written by the consumer
  uint8_t consumer_line[RONDO_LINE_BYTES - 4];
};
static_assert(sizeof(struct rondo_cq_ring) == RONDO_LINE_BYTES, "shared layout");

struct rondo_cq_producers {
  uint64_t claim;    // low half: sequence of the next entry; high half: `consumed` as seen last
  uint64_t ring;     // address of struct rondo_cq_ring
  uint32_t capacity; // entries, a power of two
  uint8_t line[RONDO_LINE_BYTES - 20];
};
static_assert(sizeof(struct rondo_cq_producers) == RONDO_LINE_BYTES, "shared layout");

// The consumer's place is `consumed` in the ring, which lies on its side.
struct rondo_cq_consumer {
  uint64_t ring;
  uint32_t capacity;
  uint32_t reserved;
};
static_assert(sizeof(struct rondo_cq_consumer) == 16, "shared layout");

RONDO_FN size_t rondo_cq_ring_bytes(uint32_t capacity) {
  return sizeof(struct rondo_cq_ring) + capacity * sizeof(struct rondo_cqe);
}

RONDO_FN struct rondo_cq_ring *rondo_cq_ring_at(uint64_t ring) {
  return (struct rondo_cq_ring *)(uintptr_t)ring;
}

// The two words of an entry.
RONDO_FN uint64_t *rondo_cq_entry(uint64_t ring, uint32_t capacity, uint32_t sequence) {
  return (uint64_t *)(rondo_cq_ring_at(ring) + 1) + 2 * (uint64_t)(sequence & (capacity - 1));
}

// Prepares a ring of `capacity` entries before anyone sees it. `capacity` is a power of two, at
// most RONDO_CQ_MAX_CAPACITY. `first_sequence` is 0, except in tests of the wrap.
RONDO_FN void rondo_cq_ring_init(struct rondo_cq_ring *ring, uint32_t capacity,
                                 uint32_t first_sequence) {
  ring->consumed = first_sequence;
  for (uint32_t i = 0; i < capacity; i++) {
    uint32_t sequence = first_sequence + i;
    uint64_t *entry = rondo_cq_entry((uint64_t)(uintptr_t)ring, capacity, sequence);
    entry[0] = sequence + 1 - capacity; // the marks of the lap before
    entry[1] = (uint16_t)entry[0];
  }
}

// Prepares the two halves of a queue whose ring is at address `ring`, as their sides see it.
RONDO_FN void rondo_cq_producers_init(struct rondo_cq_producers *q, uint64_t ring,
                                      uint32_t capacity, uint32_t first_sequence) {
  q->claim = (uint64_t)first_sequence << 32 | first_sequence;
  q->ring = ring;
  q->capacity = capacity;
}

RONDO_FN void rondo_cq_consumer_init(struct rondo_cq_consumer *q, uint64_t ring,
                                     uint32_t capacity) {
  q->ring = ring;
  q->capacity = capacity;
  q->reserved = 0;
}

// Producer: claims a place, which must then be published. Returns false, and changes nothing, when
// the queue is full or another producer was faster. `is_alone`: there is no other. Wait-free.
RONDO_FN bool rondo_cq_try_claim(struct rondo_cq_producers *q, bool is_alone, uint32_t *place) {
  uint64_t claim = rondo_load_relaxed_u64(&q->claim);
  uint32_t sequence = (uint32_t)claim;
  uint32_t seen = (uint32_t)(claim >> 32);
  if (sequence - seen >= q->capacity) {
    seen = rondo_load_acquire_u32(&rondo_cq_ring_at(q->ring)->consumed); // Q4
    if (sequence - seen >= q->capacity)
      return false;
  }
  uint64_t claimed = (uint64_t)seen << 32 | (uint32_t)(sequence + 1);
  if (is_alone)
    rondo_store_relaxed_u64(&q->claim, claimed);
  else if (!rondo_try_swap_acq_rel_device_u64(&q->claim, claim, claimed)) // Q5
    return false;
  *place = sequence;
  return true;
}

// Producer: publishes a copy of `entry` at the place that it has claimed; its marks are ignored.
RONDO_FN void rondo_cq_publish(const struct rondo_cq_producers *q, uint32_t place,
                               const struct rondo_cqe *entry) {
  uint32_t mark = place + 1;
  uint64_t first = (uint64_t)entry->status << 48 | (uint64_t)entry->collective << 32 | mark;
  uint64_t second =
      (uint64_t)entry->duration_ns << 32 | (uint32_t)entry->run << 16 | (uint16_t)mark;
  uint64_t *at = rondo_cq_entry(q->ring, q->capacity, place);
  RONDO_POINT_IN_PAIR("cq.push", at, first, second);
  rondo_store_release_pair(at, first, second); // Q1
}

// Producer: claims and publishes. Returns as rondo_cq_try_claim.
RONDO_FN bool rondo_cq_try_push(struct rondo_cq_producers *q, const struct rondo_cqe *entry) {
  uint32_t place = 0;
  if (!rondo_cq_try_claim(q, false, &place))
    return false;
  rondo_cq_publish(q, place, entry);
  return true;
}

// Consumer: true if the first half of an entry is there; the answer may be old. Any thread of the
// consumer's side.
RONDO_FN bool rondo_cq_has_entry(const struct rondo_cq_consumer *q) {
  uint32_t sequence = rondo_load_relaxed_u32(&rondo_cq_ring_at(q->ring)->consumed);
  const uint64_t *entry = rondo_cq_entry(q->ring, q->capacity, sequence);
  return (uint32_t)rondo_load_relaxed_u64(entry) == sequence + 1;
}

// Consumer: reads the entry that is the next to pop. Returns false if there was none, or another
// thread popped it meanwhile. Any thread of the consumer's side.
RONDO_FN bool rondo_cq_try_peek(const struct rondo_cq_consumer *q, struct rondo_cqe *out) {
  const uint32_t *consumed = &rondo_cq_ring_at(q->ring)->consumed;
  uint32_t sequence = rondo_load_acquire_u32(consumed);
  const uint64_t *entry = rondo_cq_entry(q->ring, q->capacity, sequence);
  uint64_t half[2];
  half[0] = rondo_load_acquire_u64(&entry[0]); // Q2
  if ((uint32_t)half[0] != sequence + 1)
    return false;
  half[1] = rondo_load_acquire_u64(&entry[1]); // Q2
  if ((uint16_t)half[1] != (uint16_t)(sequence + 1) && !RONDO_FAULT(CQE_HALF_READ))
    return false;
  memcpy(out, half, sizeof half);
  return rondo_load_relaxed_u32(consumed) == sequence; // else it may have been overwritten
}

// Consumer: releases the entry that it has peeked at. One caller at a time.
RONDO_FN void rondo_cq_pop(struct rondo_cq_consumer *q, const struct rondo_cqe *peeked) {
  rondo_store_release_u32(&rondo_cq_ring_at(q->ring)->consumed, peeked->mark); // Q3
}

// Consumer: takes an entry. Returns false when there is none. Wait-free; one caller at a time.
RONDO_FN bool rondo_cq_try_pop(struct rondo_cq_consumer *q, struct rondo_cqe *out) {
  if (!rondo_cq_try_peek(q, out))
    return false;
  rondo_cq_pop(q, out);
  return true;
}

#endif // RONDO_QUEUES_CQ_CORE_H
