#include "benchmarks/micro/cq_variants.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct queue {
  struct cq_shared shared;
  struct cq_own own;
  alignas(RONDO_LINE_BYTES) struct cq_reader reader;
};

void cq_fence(void) { atomic_thread_fence(memory_order_seq_cst); }

void cq_exchange(uint64_t *word, uint64_t value) {
  (void)__atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

void *cq_create(void) {
  struct queue *q = aligned_alloc(RONDO_LINE_BYTES, sizeof *q);
  if (!q)
    return NULL;
  memset(q, 0, sizeof *q);
  cq_init(&q->shared, &q->own, (uint64_t)(uintptr_t)&q->shared.ring);
  return q;
}

void cq_free(void *queue) { free(queue); }

// Each queue by itself, so that the compiler sees which one it is.
#define CQ_CALLS(tag, variant)                                                                     \
  static bool tag##_push(void *queue, uint32_t id) {                                               \
    struct queue *q = queue;                                                                       \
    return cq_try_push(variant, &q->shared, &q->own, id);                                          \
  }                                                                                                \
  static bool tag##_pop(void *queue, uint32_t *id) {                                               \
    struct queue *q = queue;                                                                       \
    return cq_try_pop(variant, &q->shared, &q->reader, id);                                        \
  }

CQ_CALLS(rondo, CQ_RONDO)
CQ_CALLS(vanilla, CQ_VANILLA)
CQ_CALLS(packed, CQ_PACKED)
CQ_CALLS(slots, CQ_CAS_SLOTS)

const struct cq_variant cq_variants[CQ_VARIANT_COUNT] = {
    {"Rondo", rondo_push, rondo_pop},
    {"vanilla ring", vanilla_push, vanilla_pop},
    {"packed ring", packed_push, packed_pop},
    {"CAS slots", slots_push, slots_pop}};
