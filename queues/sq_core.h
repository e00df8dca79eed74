// The submission queue: a ring of SQEs with one producer at a time and one consumer.
//
// The CPU pushes with the rank's lock held. Block 0 of the daemon pops, and copies entries to the
// inboxes of the other blocks, which are queues of the same kind. On a GPU the mirror
// (daemon/core/mirror_core.h) does this, and block 0 has an inbox, too. (In the paper every block
// polls the SQ.) Each entry has a mark that depends on its sequence number. One release store of
// the mark publishes the entry; no tail is written.
//
// A queue consists of the ring, which both sides share, and a half for each side. A half is in the
// memory of its side (of the process, of the device, or of a block), and the other side never
// accesses it. Only marks, entries and `consumed` cross the bus.
//
//    producer: try_push (false when full; nothing changes)
//    consumer: try_peek -> pop, or try_peek -> take ... release
//
// Edges: S1 publish (release mark) pairs with S2 try_peek (acquire mark): the entry, the callback
// record and the registration are visible. S3 release (release consumed) pairs with S4 try_push
// (acquire consumed): the entry may be overwritten.
#ifndef RONDO_QUEUES_SQ_CORE_H
#define RONDO_QUEUES_SQ_CORE_H

#include <assert.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/explore.h"
#include "base/platform.h"

struct rondo_sqe {
  uint32_t mark;           // sequence number + 1; set by push
  uint32_t collective;     // index in the daemon's table
  uint64_t run;            // number of the run, from 1
  uint64_t send, recv;     // addresses of the buffers
  uint32_t generation;     // of the table entry
  uint32_t block_count;    // blocks that take part
  uint64_t stream, ticket; // as in struct rondo_task_run
  uint64_t flags;          // RONDO_SQE_*
};
#define RONDO_SQE_PRIVATE 1u // other devices may be unable to access the buffers
#define RONDO_SQE_OPEN 2u    // the gate has let the run begin: the block need not ask it
#define RONDO_SQE_FLAGS 3u
static_assert(sizeof(struct rondo_sqe) == 64, "shared layout");

// What both sides share. Followed in memory by the entries.
struct rondo_sq_ring {
  uint32_t consumed; // written by the consumer
  uint8_t consumer_line[RONDO_LINE_BYTES - 4];
};
static_assert(sizeof(struct rondo_sq_ring) == RONDO_LINE_BYTES, "shared layout");

struct rondo_sq_producer {
  uint64_t ring;     // address of struct rondo_sq_ring
  uint32_t capacity; // entries, a power of two
  uint32_t sequence; // of the next entry to push
  uint32_t seen;     // `consumed` as the producer saw it last
  uint32_t reserved;
};
static_assert(sizeof(struct rondo_sq_producer) == 24, "shared layout");

struct rondo_sq_consumer {
  uint64_t ring;
  uint32_t capacity;
  uint32_t next; // sequence of the next entry to pop
};
static_assert(sizeof(struct rondo_sq_consumer) == 16, "shared layout");

RONDO_FN size_t rondo_sq_ring_bytes(uint32_t capacity) {
  return sizeof(struct rondo_sq_ring) + capacity * sizeof(struct rondo_sqe);
}

RONDO_FN struct rondo_sqe *rondo_sq_entry(uint64_t ring, uint32_t capacity, uint32_t sequence) {
  struct rondo_sqe *entries = (struct rondo_sqe *)((struct rondo_sq_ring *)(uintptr_t)ring + 1);
  return entries + (sequence & (capacity - 1));
}

// Prepares a ring of `capacity` (a power of two) entries before either side sees it. The ring may
// then be copied to its place. `first_sequence` is 0, except in tests of the wrap.
RONDO_FN void rondo_sq_ring_init(struct rondo_sq_ring *ring, uint32_t capacity,
                                 uint32_t first_sequence) {
  ring->consumed = first_sequence;
  for (uint32_t i = 0; i < capacity; i++) {
    uint32_t sequence = first_sequence + i;
    rondo_sq_entry((uint64_t)(uintptr_t)ring, capacity, sequence)->mark = sequence + 1 - capacity;
  }
}

// Prepare the two halves of a queue. `ring` is the address of the ring for that side.
RONDO_FN void rondo_sq_producer_init(struct rondo_sq_producer *q, uint64_t ring, uint32_t capacity,
                                     uint32_t first_sequence) {
  q->ring = ring;
  q->capacity = capacity;
  q->sequence = q->seen = first_sequence;
  q->reserved = 0;
}

RONDO_FN void rondo_sq_consumer_init(struct rondo_sq_consumer *q, uint64_t ring, uint32_t capacity,
                                     uint32_t first_sequence) {
  q->ring = ring;
  q->capacity = capacity;
  q->next = first_sequence;
}

// Producer: true if an entry can be pushed.
RONDO_FN bool rondo_sq_has_room(struct rondo_sq_producer *q) {
  if (q->sequence - q->seen < q->capacity || RONDO_FAULT(SQ_OVERRUN))
    return true;
  const struct rondo_sq_ring *ring = (const struct rondo_sq_ring *)(uintptr_t)q->ring;
  q->seen = rondo_load_acquire_u32(&ring->consumed); // S4
  return q->sequence - q->seen < q->capacity;
}

// Producer: writes a copy of `entry` into a queue that has room. It is visible after
// rondo_sq_publish, which comes after rondo_fence_stores or, in a queue between two blocks of a
// device, rondo_fence_stores_device.
RONDO_FN void rondo_sq_write(struct rondo_sq_producer *q, const struct rondo_sqe *entry) {
  struct rondo_sqe *slot = rondo_sq_entry(q->ring, q->capacity, q->sequence);
  slot->collective = entry->collective;
  slot->run = entry->run;
  slot->send = entry->send;
  slot->recv = entry->recv;
  slot->generation = entry->generation;
  slot->block_count = entry->block_count;
  slot->stream = entry->stream;
  slot->ticket = entry->ticket;
  slot->flags = entry->flags;
}

RONDO_FN void rondo_sq_mark(struct rondo_sq_producer *q) {
  struct rondo_sqe *slot = rondo_sq_entry(q->ring, q->capacity, q->sequence);
  rondo_store_fenced_u32(&slot->mark, q->sequence + 1); // S1
}

RONDO_FN void rondo_sq_publish(struct rondo_sq_producer *q) {
  RONDO_POINT("sq.push");
  rondo_sq_mark(q);
  rondo_store_relaxed_u32(&q->sequence, q->sequence + 1);
}

// Producer: publishes a copy of `entry`. Returns false, and changes nothing, when the queue is
// full. Wait-free.
RONDO_FN bool rondo_sq_try_push(struct rondo_sq_producer *q, const struct rondo_sqe *entry) {
  if (!rondo_sq_has_room(q))
    return false;
  rondo_sq_write(q, entry);
  rondo_fence_stores();
  rondo_sq_publish(q);
  return true;
}

// Producer of several queues: true if those from `first` to `end` (exclusive) have room.
RONDO_FN bool rondo_sq_can_fan_out(struct rondo_sq_producer *queues, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++)
    if (!rondo_sq_has_room(&queues[i]))
      return false;
  return true;
}

// Producer of several queues of one device: publishes a copy of `entry` in those from `first` on of
// the blocks that take part. They have room.
RONDO_FN void rondo_sq_fan_out(struct rondo_sq_producer *queues, uint32_t first,
                               const struct rondo_sqe *entry) {
  if (RONDO_FAULT(MARK_BEFORE_ENTRY))
    for (uint32_t i = first; i < entry->block_count; i++)
      rondo_sq_mark(&queues[i]);
  for (uint32_t i = first; i < entry->block_count; i++)
    rondo_sq_write(&queues[i], entry);
  if (entry->block_count > first)
    rondo_fence_stores_device(); // S1
  for (uint32_t i = first; i < entry->block_count; i++)
    rondo_sq_publish(&queues[i]);
}

// True if an entry was pushed and not popped; the answer may be old. Any thread of the producer's
// side.
RONDO_FN bool rondo_sq_has_entry(const struct rondo_sq_producer *q) {
  const struct rondo_sq_ring *ring = (const struct rondo_sq_ring *)(uintptr_t)q->ring;
  return rondo_load_relaxed_u32(&q->sequence) != rondo_load_relaxed_u32(&ring->consumed);
}

// Consumer: the next entry, or null. Wait-free.
RONDO_FN const struct rondo_sqe *rondo_sq_try_peek(const struct rondo_sq_consumer *q) {
  const struct rondo_sqe *entry = rondo_sq_entry(q->ring, q->capacity, q->next);
  return rondo_load_acquire_u32(&entry->mark) == q->next + 1 ? entry : NULL; // S2
}

// Consumer: goes on to the entry after the peeked one.
RONDO_FN void rondo_sq_take(struct rondo_sq_consumer *q) { q->next++; }

// Consumer: lets the producer overwrite all entries that it has taken. Wait-free.
RONDO_FN void rondo_sq_release(const struct rondo_sq_consumer *q) {
  struct rondo_sq_ring *ring = (struct rondo_sq_ring *)(uintptr_t)q->ring;
  rondo_store_release_u32(&ring->consumed, q->next); // S3
}

// Consumer: takes and releases the peeked entry.
RONDO_FN void rondo_sq_pop(struct rondo_sq_consumer *q) {
  rondo_sq_take(q);
  rondo_sq_release(q);
}

#endif // RONDO_QUEUES_SQ_CORE_H
