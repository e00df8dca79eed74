// Code of the CPU that is compiled with -fsanitize=thread, so that its accesses go to the memory of
// the PTX machine.
#ifndef RONDO_TESTS_UNIT_HOOKED_CODE_H
#define RONDO_TESTS_UNIT_HOOKED_CODE_H

#include "queues/cq_core.h"
#include "queues/sq_core.h"

bool hooked_sq_try_push(struct rondo_sq_producer *q, const struct rondo_sqe *entry);
bool hooked_sq_try_pop(struct rondo_sq_consumer *q, struct rondo_sqe *entry);
bool hooked_cq_try_push(struct rondo_cq_producers *q, const struct rondo_cqe *entry);
bool hooked_cq_try_pop(struct rondo_cq_consumer *q, struct rondo_cqe *entry);

struct hooked_words {
  uint64_t wide[4];
  uint8_t bytes[16];
  uint64_t atomic;
  uint32_t half;
  uint8_t flag;
};
// Performs plain and atomic accesses of every kind. Returns a bit for each that gave a wrong value.
uint64_t hooked_accesses(struct hooked_words *words);

#endif // RONDO_TESTS_UNIT_HOOKED_CODE_H
