// The four completion queues of cq_variants_core.h on the host, behind one table.
#ifndef RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H
#define RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H

#include <stdbool.h>
#include <stdint.h>

#include "benchmarks/micro/cq_variants_core.h"

struct cq_variant {
  const char *name;
  bool (*try_push)(void *queue, uint32_t id);
  bool (*try_pop)(void *queue, uint32_t *id);
};

extern const struct cq_variant cq_variants[CQ_VARIANT_COUNT]; // in the order of their indices

// A queue that any one of them may use. Null: no memory.
void *cq_create(void);
void cq_free(void *queue);

#endif // RONDO_BENCHMARKS_MICRO_CQ_VARIANTS_H
