// Four completion queues: Rondo's (queues/cq_core.h) and the three of the DFCCL paper, section 5
// "Optimizing CQ", rebuilt for comparison:
//   vanilla ring   claim a place, write the entry, a fence, wait for its turn, move the tail
//   packed ring    claim a place, then one 64-bit exchange of {place, id}
//   CAS slots      a few slots; an entry is one compare-and-swap into a free one
// A completion is the 32-bit id of a collective. All have as many producers as come and one
// consumer. What only producers use lies apart, because on a GPU it lies in the device's memory.
//
//   cq_init -> producers: cq_try_push; the consumer: cq_try_pop
#ifndef RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_CORE_H
#define RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_CORE_H

#include <stdalign.h>
#include <stdint.h>

#include "queues/cq_core.h"

#define CQ_CAPACITY 1024u      // entries of the rings
#define CQ_SLOTS 8u            // of the slots, as published
#define CQ_PATIENCE (1u << 24) // looks of a producer for its turn; beyond, a completion is lost

enum cq_variant_index {
  CQ_RONDO = 0,
  CQ_VANILLA = 1,
  CQ_PACKED = 2,
  CQ_CAS_SLOTS = 3,
  CQ_VARIANT_COUNT = 4
};

// An entry as large as ours, so that the difference is the protocol.
struct cq_vanilla_entry {
  uint32_t id;
  uint32_t rest[3];
};

// What both sides use. A queue uses the part that is its own.
struct cq_shared {
  alignas(RONDO_LINE_BYTES) struct rondo_cq_ring ring;
  uint64_t ring_entries[2 * CQ_CAPACITY];
  alignas(RONDO_LINE_BYTES) uint32_t head; // written by the consumer
  alignas(RONDO_LINE_BYTES) uint32_t tail; // vanilla: places that the consumer may read
  alignas(RONDO_LINE_BYTES) struct cq_vanilla_entry entries[CQ_CAPACITY];
  alignas(RONDO_LINE_BYTES) uint64_t words[CQ_CAPACITY]; // packed: {place + 1, id}
  alignas(RONDO_LINE_BYTES) uint64_t slots[CQ_SLOTS];    // 0: free, else id + 1
};

struct cq_own {
  alignas(RONDO_LINE_BYTES) struct rondo_cq_producers producers;
  alignas(RONDO_LINE_BYTES) uint32_t claimed; // places given to producers
};

// The consumer's.
struct cq_reader {
  uint32_t next; // slot at which it goes on scanning
};

// What the driver provides: a fence of sequential consistency, and an exchange.
RONDO_DRIVER_FN void cq_fence(void);
RONDO_DRIVER_FN void cq_exchange(uint64_t *word, uint64_t value);

// ------------------------------------------------------------------ pushing --

RONDO_FN int cq_vanilla_push(struct cq_shared *q, struct cq_own *own, uint32_t id) {
  uint32_t place = rondo_load_relaxed_u32(&own->claimed);
  if (place - rondo_load_acquire_u32(&q->head) >= CQ_CAPACITY)
    return 0;
  if (!rondo_try_swap_acq_rel_u32(&own->claimed, place, place + 1))
    return 0;
  struct cq_vanilla_entry *entry = &q->entries[place % CQ_CAPACITY];
  const struct cq_vanilla_entry whole = {id, {0, 0, 0}};
  *entry = whole;
  cq_fence();
  // Producers move the tail in the order of their places.
  for (uint32_t i = 0; i < CQ_PATIENCE && rondo_load_acquire_u32(&q->tail) != place; i++)
    rondo_relax();
  rondo_store_release_u32(&q->tail, place + 1);
  return 1;
}

RONDO_FN int cq_packed_push(struct cq_shared *q, struct cq_own *own, uint32_t id) {
  uint32_t place = rondo_load_relaxed_u32(&own->claimed);
  if (place - rondo_load_acquire_u32(&q->head) >= CQ_CAPACITY)
    return 0;
  if (!rondo_try_swap_acq_rel_u32(&own->claimed, place, place + 1))
    return 0;
  cq_exchange(&q->words[place % CQ_CAPACITY], (uint64_t)(place + 1) << 32 | id);
  return 1;
}

RONDO_FN int cq_slots_push(struct cq_shared *q, uint32_t id) {
  for (uint32_t i = 0; i < CQ_SLOTS; i++)
    if (rondo_try_swap_acq_rel_u64(&q->slots[i], 0, (uint64_t)id + 1))
      return 1;
  return 0;
}

// 1, or 0 when there is no room or another producer was quicker.
RONDO_FN int cq_try_push(uint32_t variant, struct cq_shared *q, struct cq_own *own, uint32_t id) {
  if (variant == CQ_VANILLA)
    return cq_vanilla_push(q, own, id);
  if (variant == CQ_PACKED)
    return cq_packed_push(q, own, id);
  if (variant == CQ_CAS_SLOTS)
    return cq_slots_push(q, id);
  struct rondo_cqe entry = {0};
  entry.collective = (uint16_t)id;
  entry.run = (uint16_t)(id >> 16);
  return rondo_cq_try_push(&own->producers, &entry);
}

// ------------------------------------------------------------------ popping --

RONDO_FN int cq_rondo_pop(struct cq_shared *q, uint32_t *id) {
  struct rondo_cq_consumer consumer;
  struct rondo_cqe entry;
  rondo_cq_consumer_init(&consumer, (uint64_t)(uintptr_t)&q->ring, CQ_CAPACITY);
  if (!rondo_cq_try_pop(&consumer, &entry))
    return 0;
  *id = (uint32_t)entry.run << 16 | entry.collective;
  return 1;
}

RONDO_FN int cq_vanilla_pop(struct cq_shared *q, uint32_t *id) {
  uint32_t head = rondo_load_relaxed_u32(&q->head);
  if (rondo_load_acquire_u32(&q->tail) == head)
    return 0;
  cq_fence();
  *id = q->entries[head % CQ_CAPACITY].id;
  rondo_store_release_u32(&q->head, head + 1);
  return 1;
}

RONDO_FN int cq_packed_pop(struct cq_shared *q, uint32_t *id) {
  uint32_t head = rondo_load_relaxed_u32(&q->head);
  uint64_t word = rondo_load_acquire_u64(&q->words[head % CQ_CAPACITY]);
  if ((uint32_t)(word >> 32) != head + 1)
    return 0;
  *id = (uint32_t)word;
  rondo_store_release_u32(&q->head, head + 1);
  return 1;
}

RONDO_FN int cq_slots_pop(struct cq_shared *q, struct cq_reader *r, uint32_t *id) {
  for (uint32_t i = 0; i < CQ_SLOTS; i++) {
    uint32_t slot = (r->next + i) % CQ_SLOTS;
    uint64_t value = rondo_load_acquire_u64(&q->slots[slot]);
    if (value == 0)
      continue;
    *id = (uint32_t)(value - 1);
    r->next = (slot + 1) % CQ_SLOTS;
    rondo_store_release_u64(&q->slots[slot], 0);
    return 1;
  }
  return 0;
}

// 1 and the id, or 0 when there is none.
RONDO_FN int cq_try_pop(uint32_t variant, struct cq_shared *q, struct cq_reader *r, uint32_t *id) {
  if (variant == CQ_VANILLA)
    return cq_vanilla_pop(q, id);
  if (variant == CQ_PACKED)
    return cq_packed_pop(q, id);
  if (variant == CQ_CAS_SLOTS)
    return cq_slots_pop(q, r, id);
  return cq_rondo_pop(q, id);
}

// All zero before. `shared_at`: the shared part as producers see it.
RONDO_FN void cq_init(struct cq_shared *shared, struct cq_own *own, uint64_t shared_at) {
  rondo_cq_ring_init(&shared->ring, CQ_CAPACITY, 0);
  rondo_cq_producers_init(&own->producers, shared_at, CQ_CAPACITY, 0);
}

#endif // RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_CORE_H
