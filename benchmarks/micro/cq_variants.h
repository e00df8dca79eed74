// Four completion queues behind one table: Rondo's (queues/cq_core.h) and the three of the DFCCL
// paper, section 5 "Optimizing CQ", rebuilt on host atomics for comparison:
//   vanilla ring   claim a place, write the entry, a fence, wait for its turn, move the tail
//   packed ring    claim a place, then one 64-bit exchange of {tail, id}
//   CAS slots      a few slots; an entry is one compare-and-swap into a free one
// A completion is the 32-bit id of a collective. All have as many producers as
// come and one consumer.
#ifndef RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H
#define RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H

#include <stdbool.h>
#include <stdint.h>

#define CQ_CAPACITY 1024u // entries of the rings
#define CQ_SLOTS 8u       // of the slots, as published

struct cq_variant {
  const char *name;
  void *(*create)(void); // null: no memory
  bool (*try_push)(void *queue, uint32_t id);
  bool (*try_pop)(void *queue, uint32_t *id);
};

#define CQ_VARIANT_COUNT 4u
extern const struct cq_variant cq_variants[CQ_VARIANT_COUNT]; // Rondo's first

// Frees what `create` made.
void cq_free(void *queue);

#endif // RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H
