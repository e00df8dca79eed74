// The connector: a one-way lock-free ring of slots from one rank's block to a peer's block. A
// published slot stays visible until it is consumed, also if either block is preempted meanwhile
// (the paper, 4.1). This makes preemption safe.
//
//    producer: try_reserve -> write the payload -> publish
//    consumer: try_peek    -> read the payload  -> consume
//
// One producer, one consumer; every call is wait-free. Sequence numbers run through 2^32 and are
// masked only on access. Each slot has a mark that depends on its sequence number, so no slot is
// cleared and no tail is written. A payload of up to RONDO_CONNECTOR_INLINE_BYTES is in the same
// cache line as the mark. A larger one is in the slot's payload memory, if the connector has any.
// Or the slot holds a reference: the address of memory that the producer does not change until the
// slot is consumed.
//
// A message may also be *packets*, in the slot's payload memory, if the plan of the collective says
// that no slot is written again before the producer knows, from what it has received, that the
// consumer has taken the message before (docs/algorithms.md). A packet is two stores of 8 bytes;
// each has 4 bytes of the payload and the mark of the slot. So the data needs no fence, and the
// slot no mark of its own and no credit:
//
//    producer: write the packets -> publish_packets
//    consumer: try_peek_packets -> take them, once all have the mark -> consume_packets
//
// The two sides may be different processes, which map the connector at different addresses. So it
// holds no addresses, except those whose comment says to which side they belong. Payload memory is
// given by its distance from the connector. A reference is an address of the producer; the consumer
// adds the distance to its own mapping of that memory (`reference_bias`).
//
// The connector is in the consumer's memory, which the producer may reach across a link. Each side
// keeps a copy of the constants that it uses in its endpoint, in its own memory. So it reads only
// what the other side writes: marks, slots, `consumed`, `shut` and `reading`.
//
// Edges (docs/memory-order.md):
//   C1 publish (release mark)      pairs with C2 try_peek (acquire mark): the payload is visible.
//   C3 consume (release consumed)  pairs with C4 try_reserve (acquire consumed): the slot is free.
//   C5/C6 guard a reference against the end of its producer's run: see below.
//   C11 a packet's store pairs with C12, its load: what they store and load is all that they order.
//   C9 set_flag (release flag) pairs with C10, the exchange in rondo_block_take_flags: the other
//   side's block looks at the collective again.
#ifndef RONDO_QUEUES_CONNECTOR_CORE_H
#define RONDO_QUEUES_CONNECTOR_CORE_H

#include <assert.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/explore.h"
#include "base/platform.h"

#define RONDO_CONNECTOR_INLINE_BYTES 48u
#define RONDO_CONNECTOR_MAX_SLOTS 64u
#define RONDO_DEFAULT_SLOT_BYTES 262144u

// A flag in rondo_slot.bytes: the payload is in the producer's own buffer, at `address`.
#define RONDO_SLOT_REFERENCE 0x80000000u

// Values of rondo_connector.reference_bytes: slots never refer to a user's buffer, but may refer to
// memory that is lent to the producer; they never hold a reference.
#define RONDO_REFERENCES_LENT (UINT32_MAX - 1)
#define RONDO_REFERENCES_NONE UINT32_MAX

#define RONDO_ENDPOINT_INIT_BYTES 16u // of a struct rondo_endpoint, set by rondo_endpoint_init

struct rondo_slot {
  uint32_t mark;    // sequence number + 1 of what it holds
  uint32_t bytes;   // of the payload, and RONDO_SLOT_REFERENCE
  uint64_t address; // of a reference, the producer's; else the word
  uint8_t data[RONDO_CONNECTOR_INLINE_BYTES];
};
static_assert(sizeof(struct rondo_slot) == 64, "shared layout");
static_assert(offsetof(struct rondo_slot, data) == 16, "shared layout");

// Followed in memory by slot_count slots.
struct rondo_connector {
  // Written by the consumer.
  uint32_t consumed; // sequence number of the next slot to consume
  uint32_t reading;  // 1 while it reads a reference
  uint8_t consumer_line[RONDO_LINE_BYTES - 8];
  // Written by the producer, once: when it fails a run whose references may not have been consumed.
  uint32_t shut; // 1: the memory of references no longer belongs to the run
  // Constant when the first run begins.
  uint32_t slot_count; // a power of two
  uint64_t payload;    // distance of slot_count × slot_bytes
  uint32_t slot_bytes; // size of one slot's payload memory; 0: inline and references only
  // User's buffers of at least this may be referred to; RONDO_REFERENCES_*.
  uint32_t reference_bytes;
  uint64_t reference_bias; // from the producer's address of a reference to the consumer's
  // Addresses of the ready byte of each side, in the process of the other side, which sets it. 0:
  // none.
  uint64_t producer_ready, consumer_ready;
  // Distances from the connector to the ready flag of the collective in the block of each side. The
  // other side sets it. 0: none.
  uint64_t producer_flag, consumer_flag;
  // Seldom read: in another cache line if lines have 64 bytes.
  uint64_t reference_begin; // references lie between these two addresses, the producer's
  uint64_t reference_end;
  uint32_t is_mapped;     // the consumer has its own mapping of the memory of references, see below
  uint32_t reads_private; // the consumer can read each buffer that the producer can
  uint32_t first_sequence;
  uint32_t producer_rank, consumer_rank; // ranks of the job, for reports
  uint32_t has_packets;                  // 1: messages that may be packets are
  uint8_t constant_line[RONDO_LINE_BYTES - 104];
};
static_assert(sizeof(struct rondo_connector) == 2 * RONDO_LINE_BYTES, "shared layout");
static_assert(offsetof(struct rondo_connector, reference_begin) == RONDO_LINE_BYTES + 64,
              "see there");

// One side's private view of a connector, in its own memory.
//
//    init -> open, once the connector's constants are known -> any call below
struct rondo_endpoint {
  uint64_t connector; // address of struct rondo_connector
  uint32_t sequence;  // of the next slot to publish or to consume
  uint32_t seen;      // producer: the `consumed` that it saw last
  // Copies of the connector's constants, set by open.
  uint16_t slot_count;
  uint8_t reads_private; // producer
  uint8_t has_packets;
  uint32_t slot_bytes;
  uint32_t payload;         // distance from the connector
  uint32_t reference_bytes; // producer
  uint64_t ready;           // address of the other side's ready byte; 0: none
  uint64_t flag;            // address of the other side's ready flag; 0: none
  uint64_t reference_begin; // producer
  union {
    uint64_t reference_end;  // producer
    uint64_t reference_bias; // consumer
  };
};
static_assert(sizeof(struct rondo_endpoint) == 64, "a cache line");
static_assert(offsetof(struct rondo_endpoint, slot_count) == RONDO_ENDPOINT_INIT_BYTES,
              "init writes what is before");

RONDO_FN size_t rondo_connector_bytes(uint32_t slot_count) {
  return sizeof(struct rondo_connector) + slot_count * sizeof(struct rondo_slot);
}

RONDO_FN struct rondo_slot *rondo_connector_slot(struct rondo_connector *c, uint32_t sequence) {
  struct rondo_slot *slots = (struct rondo_slot *)(c + 1);
  return &slots[sequence & (c->slot_count - 1)];
}

// Half a packet: 4 bytes of the payload, the first ones in the low byte, and the mark.
RONDO_FN uint64_t rondo_packet_half(uint32_t data, uint32_t mark) {
  return (uint64_t)mark << 32 | data;
}

// Prepares a connector before either side sees it, for two sides in one process. `c->payload`,
// slot_count, slot_bytes, reference_bytes, reads_private and ranks are set by the caller; the first
// slot will have the number `first_sequence` (0, except in tests of the wrap).
RONDO_FN void rondo_connector_init(struct rondo_connector *c, uint32_t first_sequence) {
  c->consumed = first_sequence;
  c->reading = 0;
  c->shut = 0;
  c->reference_begin = 0;
  c->reference_end = UINT64_MAX;
  c->reference_bias = 0;
  c->is_mapped = 0;
  c->first_sequence = first_sequence;
  c->producer_ready = c->consumer_ready = 0;
  c->producer_flag = c->consumer_flag = 0;
  c->has_packets = 0;
  for (uint32_t i = 0; i < c->slot_count; i++) {
    uint32_t sequence = first_sequence + i;
    // The mark of the lap before: never the one that the consumer expects first.
    rondo_connector_slot(c, sequence)->mark = sequence + 1 - c->slot_count;
  }
}

// Makes the messages of a connector packets, where the plan says so. After init, in the same place
// or in a copy: its payload memory, which is at its distance from `c`, gets the marks of the lap
// before. What the memory held before could be taken for packets.
RONDO_FN void rondo_connector_init_packets(struct rondo_connector *c) {
  c->has_packets = 1;
  for (uint32_t i = 0; i < c->slot_count; i++) {
    uint32_t sequence = c->first_sequence + i;
    uint64_t at = c->payload + (uint64_t)(sequence & (c->slot_count - 1)) * c->slot_bytes;
    uint64_t *halves = (uint64_t *)(uintptr_t)((uint64_t)(uintptr_t)c + at);
    for (uint32_t k = 0; k < c->slot_bytes / sizeof *halves; k++)
      halves[k] = rondo_packet_half(0, sequence + 1 - c->slot_count);
  }
}

// Sets the first RONDO_ENDPOINT_INIT_BYTES of an endpoint. `connector`: its address as this side
// sees it; it is not read.
RONDO_FN void rondo_endpoint_init(struct rondo_endpoint *e, const struct rondo_connector *connector,
                                  uint32_t first_sequence) {
  e->connector = (uint64_t)(uintptr_t)connector;
  e->sequence = first_sequence;
  e->seen = first_sequence;
}

RONDO_FN struct rondo_connector *rondo_endpoint_connector(const struct rondo_endpoint *e) {
  return (struct rondo_connector *)(uintptr_t)e->connector;
}

// The flag `distance` from the connector.
RONDO_FN uint64_t rondo_connector_flag_at(const struct rondo_connector *c, uint64_t distance) {
  return distance ? (uint64_t)(uintptr_t)c + distance : 0;
}

// Takes the constants that the producer uses from the connector, before its first other call.
RONDO_FN void rondo_endpoint_open_send(struct rondo_endpoint *e) {
  const struct rondo_connector *c = rondo_endpoint_connector(e);
  e->slot_count = (uint16_t)c->slot_count;
  e->reads_private = (uint8_t)c->reads_private;
  e->has_packets = (uint8_t)c->has_packets;
  e->slot_bytes = c->slot_bytes;
  e->payload = (uint32_t)c->payload;
  e->reference_bytes = c->reference_bytes;
  e->ready = c->consumer_ready;
  e->flag = rondo_connector_flag_at(c, c->consumer_flag);
  e->reference_begin = c->reference_begin;
  e->reference_end = c->reference_end;
}

// Takes the constants that the consumer uses.
RONDO_FN void rondo_endpoint_open_recv(struct rondo_endpoint *e) {
  const struct rondo_connector *c = rondo_endpoint_connector(e);
  e->slot_count = (uint16_t)c->slot_count;
  e->has_packets = (uint8_t)c->has_packets;
  e->slot_bytes = c->slot_bytes;
  e->payload = (uint32_t)c->payload;
  e->ready = c->producer_ready;
  e->flag = rondo_connector_flag_at(c, c->producer_flag);
  e->reference_bias = c->reference_bias;
}

// The slot of the endpoint's present sequence number.
RONDO_FN struct rondo_slot *rondo_endpoint_slot(const struct rondo_endpoint *e) {
  struct rondo_slot *slots = (struct rondo_slot *)(rondo_endpoint_connector(e) + 1);
  return &slots[e->sequence & (e->slot_count - 1u)];
}

// Sets a side's ready byte after the data is visible. It does not load the byte first: the side may
// be about to clear it (docs/memory-order.md).
RONDO_FN void rondo_connector_set_ready(uint64_t ready) {
  if (ready)
    rondo_store_release_u8((uint8_t *)(uintptr_t)ready, 1); // C7
}

// Sets the ready flag of the other side's collective after the data is visible. Like set_ready, it
// does not load the flag first.
RONDO_FN void rondo_connector_set_flag(uint64_t flag) {
  if (flag && !RONDO_FAULT(FLAG_LOST))
    rondo_store_release_u8((uint8_t *)(uintptr_t)flag, 1); // C9
}

// Producer: true if the next slot may be written.
RONDO_FN bool rondo_connector_try_reserve(struct rondo_endpoint *e) {
  if (e->sequence - e->seen < e->slot_count)
    return true;
  e->seen = rondo_load_acquire_u32(&rondo_endpoint_connector(e)->consumed); // C4
  return e->sequence - e->seen < e->slot_count;
}

// Returns where the payload of this side's current slot is, if it has `bytes` and is no reference.
// The producer writes it there after a successful reservation. Null: the connector has no memory
// for so many bytes, and the slot can only be a reference.
RONDO_FN void *rondo_connector_payload(const struct rondo_endpoint *e, uint64_t bytes) {
  if (bytes <= RONDO_CONNECTOR_INLINE_BYTES)
    return rondo_endpoint_slot(e)->data;
  if (!e->slot_bytes)
    return NULL;
  uint64_t at = (uint64_t)(e->sequence & (e->slot_count - 1u)) * e->slot_bytes;
  return (void *)(uintptr_t)(e->connector + e->payload + at);
}

// Producer: true if `bytes` at `address` may be passed as a reference.
RONDO_FN bool rondo_connector_can_refer(const struct rondo_endpoint *e, const void *address,
                                        uint64_t bytes) {
  uint64_t at = (uint64_t)(uintptr_t)address;
  return bytes >= e->reference_bytes && at >= e->reference_begin && at <= e->reference_end &&
         bytes <= e->reference_end - at;
}

RONDO_FN bool rondo_connector_reads_private(const struct rondo_endpoint *e) {
  return e->reads_private != 0;
}

// Producer: true if no slot of the connector is ever a reference, so that the consumer never reads
// the producer's buffer.
RONDO_FN bool rondo_connector_has_no_references(const struct rondo_endpoint *e) {
  return e->reference_bytes == RONDO_REFERENCES_NONE;
}

// Beside its payload a slot can hold a word, where the payload is not. The producer writes the word
// before it publishes the slot. `is_reference`: the slot will be published as a reference.
RONDO_FN void rondo_connector_put_word(const struct rondo_endpoint *e, bool is_reference,
                                       uint64_t word) {
  struct rondo_slot *slot = rondo_endpoint_slot(e);
  if (is_reference)
    *(uint64_t *)(void *)slot->data = word;
  else
    slot->address = word;
}

// Producer: makes the reserved slot visible. `reference` is null, or the memory that the slot
// refers to. On a GPU one thread calls it, after all threads have written the payload.
RONDO_FN void rondo_connector_publish(struct rondo_endpoint *e, const void *reference,
                                      uint32_t bytes) {
  struct rondo_slot *slot = rondo_endpoint_slot(e);
  if (reference) {
    slot->address = (uint64_t)(uintptr_t)reference;
    slot->bytes = bytes | RONDO_SLOT_REFERENCE;
  } else {
    slot->bytes = bytes;
  }
  if (RONDO_FAULT(FLAG_BEFORE_DATA))
    rondo_connector_set_flag(e->flag);
  RONDO_POINT("connector.publish");
  if (RONDO_DELAYED(publish, e)) {
    e->sequence++;
    return;
  }
  rondo_fence_stores();                                 // C1
  rondo_store_fenced_u32(&slot->mark, e->sequence + 1); // C1
  e->sequence++;
  if (!RONDO_FAULT(FLAG_BEFORE_DATA))
    rondo_connector_set_flag(e->flag);
  rondo_connector_set_ready(e->ready);
}

// The packets of this side's current slot: where they are, and the mark that all of them have.
struct rondo_packets {
  uint64_t at;
  uint32_t mark;
};

RONDO_FN struct rondo_packets rondo_connector_packets(const struct rondo_endpoint *e) {
  uint32_t slot = e->sequence & (e->slot_count - 1u);
  struct rondo_packets p = {e->connector + e->payload + (uint64_t)slot * e->slot_bytes,
                            RONDO_FAULT(PACKETS_UNNUMBERED) ? slot + 1 : e->sequence + 1};
  return p;
}

// Producer: goes on after it has written packets.
RONDO_FN void rondo_connector_publish_packets(struct rondo_endpoint *e) {
  e->sequence++;
  rondo_connector_set_flag(e->flag);
  rondo_connector_set_ready(e->ready);
}

// Consumer: true if the first half packet of the next message has come. The others may be on their
// way, so this is a hint that it is worth while to look at all.
RONDO_FN bool rondo_connector_try_peek_packets(const struct rondo_endpoint *e) {
  const struct rondo_packets p = rondo_connector_packets(e);
  return rondo_load_relaxed_u64((const uint64_t *)(uintptr_t)p.at) >> 32 == p.mark; // C12
}

// Consumer: goes on after it has taken packets. The producer waits for nothing.
RONDO_FN void rondo_connector_consume_packets(struct rondo_endpoint *e) { e->sequence++; }

// Consumer: the next slot, or null if it has not been published.
RONDO_FN const struct rondo_slot *rondo_connector_try_peek(const struct rondo_endpoint *e) {
  struct rondo_slot *slot = rondo_endpoint_slot(e);
  uint32_t mark = rondo_load_acquire_u32(&slot->mark); // C2
  if (RONDO_FAULT(LAP_MARK_OFF) && mark == e->sequence + 1 - e->slot_count)
    return slot;
  return mark == e->sequence + 1 ? slot : NULL;
}

RONDO_FN bool rondo_slot_is_reference(const struct rondo_slot *slot) {
  return (slot->bytes & RONDO_SLOT_REFERENCE) != 0;
}

// Consumer: the word of the slot that it has peeked at. Unspecified if the producer wrote none.
RONDO_FN uint64_t rondo_slot_word(const struct rondo_slot *slot) {
  if (rondo_slot_is_reference(slot))
    return *(const uint64_t *)(const void *)slot->data;
  return slot->address;
}

// Consumer: where the payload of the slot that it has peeked at is.
RONDO_FN const void *rondo_slot_payload(const struct rondo_endpoint *e,
                                        const struct rondo_slot *slot) {
  if (rondo_slot_is_reference(slot))
    return (const void *)(uintptr_t)(slot->address + e->reference_bias);
  return rondo_connector_payload(e, slot->bytes);
}

// Consumer: frees the slot, after it has published another one since all threads read the payload:
// the fence of that is enough on a GPU.
RONDO_FN void rondo_connector_consume_fenced(struct rondo_endpoint *e) {
  struct rondo_connector *c = rondo_endpoint_connector(e);
  e->sequence++;
  RONDO_POINT("connector.consume");
  if (RONDO_DELAYED(consume, e))
    return;
  rondo_store_fenced_u32(&c->consumed, e->sequence + (RONDO_FAULT(CREDIT_TWICE) ? 1 : 0)); // C3
  rondo_connector_set_flag(e->flag);
  rondo_connector_set_ready(e->ready);
}

// Consumer: frees the slot. On a GPU one thread calls it, after all threads have read the payload.
RONDO_FN void rondo_connector_consume(struct rondo_endpoint *e) {
  rondo_fence_stores(); // C3
  rondo_connector_consume_fenced(e);
}

// A reference outlives the producer's run only if the run fails. The consumer announces that it
// reads, and then checks that the connector is not shut (C5). The producer shuts the connector, and
// then checks the announcement (C6). All accesses are sequentially consistent, so at least one side
// sees the other's store: either the consumer does not read, or the producer's run does not end
// before the consumer has finished.
//
// A consumer in another process may be stopped or killed while it reads, and the producer must not
// wait for it. Therefore such a consumer has its own mapping of the memory (`is_mapped`), from
// which it can read whatever the producer's application does. The producer's run ends at once. The
// consumer checks again after reading (C5), before it uses the data.

// Consumer: announces that it reads a reference. Returns true if it may read; it must end the
// announcement in both cases.
RONDO_FN bool rondo_connector_try_begin_reading(const struct rondo_endpoint *e) {
  struct rondo_connector *c = rondo_endpoint_connector(e);
  rondo_store_seq_cst_u32(&c->reading, 1);                              // C5
  return RONDO_FAULT(SHUT_UNSEEN) || !rondo_load_seq_cst_u32(&c->shut); // C5
}

// Consumer: ends the announcement. Returns true if the run still owned the memory at the end.
RONDO_FN bool rondo_connector_try_end_reading(const struct rondo_endpoint *e) {
  struct rondo_connector *c = rondo_endpoint_connector(e);
  if (!c->is_mapped) {
    rondo_store_release_u32(&c->reading, 0); // C5
    return true;
  }
  rondo_store_seq_cst_u32(&c->reading, 0);                                     // C5
  return RONDO_FAULT(READ_NOT_VALIDATED) || !rondo_load_seq_cst_u32(&c->shut); // C5
}

// Producer: true if every slot up to `sequence` (exclusive) has been consumed.
RONDO_FN bool rondo_connector_is_drained(struct rondo_endpoint *e, uint32_t sequence) {
  if ((int32_t)(e->seen - sequence) >= 0)
    return true;
  e->seen = rondo_load_acquire_u32(&rondo_endpoint_connector(e)->consumed); // C4
  return (int32_t)(e->seen - sequence) >= 0;
}

// Producer of a run that fails: shuts the connector. Returns false while the run must not end,
// because the consumer reads a reference.
RONDO_FN bool rondo_connector_try_shut(const struct rondo_endpoint *e) {
  struct rondo_connector *c = rondo_endpoint_connector(e);
  rondo_store_seq_cst_u32(&c->shut, 1);                        // C6
  return c->is_mapped || !rondo_load_seq_cst_u32(&c->reading); // C6
}

#endif // RONDO_QUEUES_CONNECTOR_CORE_H
