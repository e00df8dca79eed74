#include "benchmarks/micro/cq_variants.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "queues/cq_core.h"

#define LINE 128u

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
  return memory ? memset(memory, 0, bytes) : NULL;
}

void cq_free(void *queue) { free(queue); }

// ------------------------------------------------------------------ Rondo ----

struct rondo_queue {
  struct rondo_cq_producers producers;
  _Alignas(LINE) struct rondo_cq_consumer consumer;
  _Alignas(LINE) struct rondo_cq_ring ring;
  uint64_t entries[2 * CQ_CAPACITY]; // of the ring
};

static void *rondo_create(void) {
  struct rondo_queue *q = allocate(sizeof(*q));
  if (!q)
    return NULL;
  rondo_cq_ring_init(&q->ring, CQ_CAPACITY, 0);
  rondo_cq_producers_init(&q->producers, (uint64_t)(uintptr_t)&q->ring, CQ_CAPACITY, 0);
  rondo_cq_consumer_init(&q->consumer, (uint64_t)(uintptr_t)&q->ring, CQ_CAPACITY);
  return q;
}

static bool rondo_push(void *queue, uint32_t id) {
  struct rondo_queue *q = queue;
  struct rondo_cqe entry = {.collective = id};
  return rondo_cq_try_push(&q->producers, &entry) == 0;
}

static bool rondo_pop(void *queue, uint32_t *id) {
  struct rondo_queue *q = queue;
  struct rondo_cqe entry;
  if (!rondo_cq_try_pop(&q->consumer, &entry))
    return false;
  *id = entry.collective;
  return true;
}

// ----------------------------------------------------------- vanilla ring ----

// An entry as large as ours, so that the difference is the protocol.
struct vanilla_entry {
  uint32_t id;
  uint32_t rest[3];
};

struct vanilla_queue {
  _Alignas(LINE) _Atomic uint32_t head;    // written by the consumer
  _Alignas(LINE) _Atomic uint32_t claimed; // places given to producers
  _Alignas(LINE) _Atomic uint32_t tail;    // places that the consumer may read
  _Alignas(LINE) struct vanilla_entry entries[CQ_CAPACITY];
};

static void *vanilla_create(void) { return allocate(sizeof(struct vanilla_queue)); }

static bool vanilla_push(void *queue, uint32_t id) {
  struct vanilla_queue *q = queue;
  uint32_t place = atomic_load_explicit(&q->claimed, memory_order_relaxed);
  if (place - atomic_load_explicit(&q->head, memory_order_acquire) >= CQ_CAPACITY)
    return false;
  if (!atomic_compare_exchange_strong(&q->claimed, &place, place + 1))
    return false;
  struct vanilla_entry *entry = &q->entries[place % CQ_CAPACITY];
  memset(entry, 0, sizeof(*entry));
  entry->id = id;
  atomic_thread_fence(memory_order_seq_cst);
  while (atomic_load_explicit(&q->tail, memory_order_relaxed) != place)
    rondo_relax(); // producers move the tail in the order of their places
  atomic_store_explicit(&q->tail, place + 1, memory_order_release);
  return true;
}

static bool vanilla_pop(void *queue, uint32_t *id) {
  struct vanilla_queue *q = queue;
  uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
  if (atomic_load_explicit(&q->tail, memory_order_acquire) == head)
    return false;
  atomic_thread_fence(memory_order_seq_cst);
  *id = q->entries[head % CQ_CAPACITY].id;
  atomic_store_explicit(&q->head, head + 1, memory_order_release);
  return true;
}

// ------------------------------------------------------------ packed ring ----

struct packed_queue {
  _Alignas(LINE) _Atomic uint32_t head;
  _Alignas(LINE) _Atomic uint32_t tail;
  _Alignas(LINE) _Atomic uint64_t entries[CQ_CAPACITY]; // {tail + 1, id}
};

static void *packed_create(void) { return allocate(sizeof(struct packed_queue)); }

static bool packed_push(void *queue, uint32_t id) {
  struct packed_queue *q = queue;
  uint32_t place = atomic_load_explicit(&q->tail, memory_order_relaxed);
  if (place - atomic_load_explicit(&q->head, memory_order_acquire) >= CQ_CAPACITY)
    return false;
  if (!atomic_compare_exchange_strong(&q->tail, &place, place + 1))
    return false;
  atomic_exchange(&q->entries[place % CQ_CAPACITY], (uint64_t)(place + 1) << 32 | id);
  return true;
}

static bool packed_pop(void *queue, uint32_t *id) {
  struct packed_queue *q = queue;
  uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
  uint64_t entry = atomic_load_explicit(&q->entries[head % CQ_CAPACITY], memory_order_acquire);
  if ((uint32_t)(entry >> 32) != head + 1)
    return false;
  *id = (uint32_t)entry;
  atomic_store_explicit(&q->head, head + 1, memory_order_release);
  return true;
}

// -------------------------------------------------------------- CAS slots ----

struct slots_queue {
  _Alignas(LINE) _Atomic uint64_t slots[CQ_SLOTS]; // 0: free, else id + 1
  _Alignas(LINE) uint32_t next;                    // where the consumer goes on scanning
};

static void *slots_create(void) { return allocate(sizeof(struct slots_queue)); }

static bool slots_push(void *queue, uint32_t id) {
  struct slots_queue *q = queue;
  for (uint32_t i = 0; i < CQ_SLOTS; i++) {
    uint64_t empty = 0;
    if (atomic_compare_exchange_strong(&q->slots[i], &empty, (uint64_t)id + 1))
      return true;
  }
  return false;
}

static bool slots_pop(void *queue, uint32_t *id) {
  struct slots_queue *q = queue;
  for (uint32_t i = 0; i < CQ_SLOTS; i++) {
    uint32_t slot = (q->next + i) % CQ_SLOTS;
    uint64_t value = atomic_load_explicit(&q->slots[slot], memory_order_acquire);
    if (value == 0)
      continue;
    *id = (uint32_t)(value - 1);
    q->next = (slot + 1) % CQ_SLOTS;
    atomic_store_explicit(&q->slots[slot], 0, memory_order_release);
    return true;
  }
  return false;
}

const struct cq_variant cq_variants[CQ_VARIANT_COUNT] = {
    {"Rondo", rondo_create, rondo_push, rondo_pop},
    {"vanilla ring", vanilla_create, vanilla_push, vanilla_pop},
    {"packed ring", packed_create, packed_push, packed_pop},
    {"CAS slots", slots_create, slots_push, slots_pop}};
