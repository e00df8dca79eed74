#include "tests/unit/hooked_code.h"

bool hooked_sq_try_push(struct rondo_sq_producer *q, const struct rondo_sqe *entry) {
  return rondo_sq_try_push(q, entry);
}

bool hooked_sq_try_pop(struct rondo_sq_consumer *q, struct rondo_sqe *entry) {
  const struct rondo_sqe *next = rondo_sq_try_peek(q);
  if (!next)
    return false;
  *entry = *next;
  rondo_sq_pop(q);
  return true;
}

bool hooked_cq_try_push(struct rondo_cq_producers *q, const struct rondo_cqe *entry) {
  return rondo_cq_try_push(q, entry);
}

bool hooked_cq_try_pop(struct rondo_cq_consumer *q, struct rondo_cqe *entry) {
  return rondo_cq_try_pop(q, entry);
}

struct unaligned {
  uint8_t before;
  uint64_t wide;
} __attribute__((packed));

static uint64_t plain_accesses(struct hooked_words *w) {
  uint64_t wrong = 0;
  w->flag = 7;
  w->half = 0x12345678;
  w->wide[0] = UINT64_C(0x1122334455667788);
  ((struct unaligned *)w->bytes)->wide = w->wide[0] + 1;
  w->wide[1] = w->wide[0];
  wrong |= (uint64_t)(w->flag != 7) << 0;
  wrong |= (uint64_t)(w->half != 0x12345678) << 1;
  wrong |= (uint64_t)(w->wide[1] != UINT64_C(0x1122334455667788)) << 2;
  wrong |= (uint64_t)(((struct unaligned *)w->bytes)->wide != UINT64_C(0x1122334455667789)) << 3;
  wrong |= (uint64_t)(w->bytes[1] != 0x89 || w->bytes[8] != 0x11 || w->bytes[0]) << 4;
  struct rondo_sqe from = {.run = 5, .ticket = 6}, to = {0};
  *(volatile uint64_t *)&w->wide[2] = from.run;
  to.run = w->wide[2];
  wrong |= (uint64_t)(to.run != 5) << 5;
  return wrong;
}

uint64_t hooked_accesses(struct hooked_words *w) {
  uint64_t wrong = plain_accesses(w), expected = 1;
  __atomic_store_n(&w->atomic, 40, __ATOMIC_SEQ_CST);
  wrong |= (uint64_t)(__atomic_fetch_add(&w->atomic, 2, __ATOMIC_RELAXED) != 40) << 6;
  wrong |= (uint64_t)(__atomic_fetch_sub(&w->atomic, 1, __ATOMIC_ACQUIRE) != 42) << 7;
  wrong |= (uint64_t)(__atomic_fetch_or(&w->atomic, 6, __ATOMIC_RELEASE) != 41) << 8;
  wrong |= (uint64_t)(__atomic_fetch_and(&w->atomic, 15, __ATOMIC_ACQ_REL) != 47) << 9;
  wrong |= (uint64_t)(__atomic_fetch_xor(&w->atomic, 1, __ATOMIC_SEQ_CST) != 15) << 10;
  wrong |= (uint64_t)(__atomic_exchange_n(&w->atomic, 3, __ATOMIC_SEQ_CST) != 14) << 11;
  bool is_swapped = __atomic_compare_exchange_n(&w->atomic, &expected, 9, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_RELAXED);
  wrong |= (uint64_t)(is_swapped || expected != 3) << 12;
  is_swapped = __atomic_compare_exchange_n(&w->atomic, &expected, 9, true, __ATOMIC_SEQ_CST,
                                           __ATOMIC_SEQ_CST);
  wrong |= (uint64_t)(!is_swapped || expected != 3) << 13;
  wrong |= (uint64_t)(__atomic_load_n(&w->atomic, __ATOMIC_ACQUIRE) != 9) << 14;
  __atomic_store_n(&w->flag, 200, __ATOMIC_RELEASE);
  wrong |= (uint64_t)(__atomic_fetch_add(&w->flag, 100, __ATOMIC_RELAXED) != 200) << 15;
  wrong |= (uint64_t)(__atomic_load_n(&w->flag, __ATOMIC_RELAXED) != 44) << 16;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  wrong |= (uint64_t)(__atomic_exchange_n(&w->half, 2, __ATOMIC_ACQUIRE) != 0x12345678) << 17;
  return wrong;
}
