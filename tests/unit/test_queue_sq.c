// The submission queue: entries come out once, in order, across full, empty and the wrap at 2^32.
#include "queues/sq_core.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

#define CAPACITY 8u

static struct {
  _Alignas(RONDO_LINE_BYTES) struct rondo_sq_ring ring;
  struct rondo_sqe entries[CAPACITY];
} shared;
static struct rondo_sq_producer producer;
static struct rondo_sq_consumer consumer;

// Every field has a value that follows from the number, so that a mixed-up entry shows.
static struct rondo_sqe entry_of(uint64_t number) {
  struct rondo_sqe e = {0};
  e.collective = (uint32_t)number * 7u;
  e.run = number;
  e.send = number * 11u;
  e.recv = number * 13u;
  e.generation = (uint32_t)number * 17u;
  e.block_count = (uint32_t)number * 19u;
  e.stream = number * 29u;
  e.ticket = number * 31u;
  return e;
}

static int is_entry_of(const struct rondo_sqe *got, uint64_t number) {
  struct rondo_sqe want = entry_of(number);
  want.mark = got->mark;
  return memcmp(got, &want, sizeof want) == 0;
}

static void start(uint32_t first_sequence) {
  uint64_t ring = (uint64_t)(uintptr_t)&shared.ring;
  memset(&shared, 0xa5, sizeof shared);
  rondo_sq_ring_init(&shared.ring, CAPACITY, first_sequence);
  rondo_sq_producer_init(&producer, ring, CAPACITY, first_sequence);
  rondo_sq_consumer_init(&consumer, ring, CAPACITY, first_sequence);
}

static void push(uint64_t number) {
  struct rondo_sqe e = entry_of(number);
  assert_true(rondo_sq_has_room(&producer));
  assert_true(rondo_sq_try_push(&producer, &e));
}

static void pop(uint64_t number) {
  const struct rondo_sqe *got = rondo_sq_try_peek(&consumer);
  assert_non_null(got);
  assert_true(is_entry_of(got, number));
  rondo_sq_pop(&consumer);
}

static void is_empty_at_first(void **state) {
  (void)state;
  const uint32_t firsts[] = {0, 1, CAPACITY - 1, CAPACITY, UINT32_MAX - CAPACITY, UINT32_MAX};
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    start(firsts[i]);
    assert_null(rondo_sq_try_peek(&consumer));
    assert_false(rondo_sq_has_entry(&producer));
  }
}

static void gives_back_every_field(void **state) {
  (void)state;
  start(0);
  push(41);
  assert_true(rondo_sq_has_entry(&producer));
  pop(41);
  assert_null(rondo_sq_try_peek(&consumer));
  assert_false(rondo_sq_has_entry(&producer));
}

static void peeking_takes_nothing(void **state) {
  (void)state;
  start(0);
  push(1);
  assert_ptr_equal(rondo_sq_try_peek(&consumer), rondo_sq_try_peek(&consumer));
  pop(1);
}

static void full_refuses_and_changes_nothing(void **state) {
  (void)state;
  start(0);
  for (uint64_t n = 0; n < CAPACITY; n++)
    push(n);
  struct rondo_sqe extra = entry_of(99);
  assert_false(rondo_sq_has_room(&producer));
  assert_false(rondo_sq_try_push(&producer, &extra));
  assert_false(rondo_sq_try_push(&producer, &extra));
  pop(0);
  push(CAPACITY);
  assert_false(rondo_sq_try_push(&producer, &extra));
  for (uint64_t n = 1; n <= CAPACITY; n++)
    pop(n);
  assert_null(rondo_sq_try_peek(&consumer));
}

static void taken_entries_stay_until_they_are_released(void **state) {
  (void)state;
  start(UINT32_MAX);
  for (uint64_t n = 0; n < CAPACITY; n++)
    push(n);
  const struct rondo_sqe *first = rondo_sq_try_peek(&consumer);
  rondo_sq_take(&consumer);
  assert_true(is_entry_of(rondo_sq_try_peek(&consumer), 1));
  rondo_sq_take(&consumer);
  assert_false(rondo_sq_has_room(&producer));
  assert_true(is_entry_of(first, 0));
  rondo_sq_release(&consumer);
  push(CAPACITY);
  push(CAPACITY + 1);
  for (uint64_t n = 2; n < CAPACITY + 2; n++)
    pop(n);
}

// Starts at each distance before the wrap, with each fill level.
static void wraps_at_uint32_max(void **state) {
  (void)state;
  for (uint32_t before = 0; before <= 2 * CAPACITY; before++) {
    for (uint32_t fill = 1; fill <= CAPACITY; fill++) {
      start(0u - before);
      for (uint64_t n = 0; n < 4 * (uint64_t)CAPACITY; n += fill) {
        for (uint64_t i = 0; i < fill; i++)
          push(n + i);
        for (uint64_t i = 0; i < fill; i++)
          pop(n + i);
        assert_null(rondo_sq_try_peek(&consumer));
      }
    }
  }
}

struct consumer_load {
  uint64_t count;
  uint64_t wrong;
};

static void *consume(void *arg) {
  struct consumer_load *c = arg;
  for (uint64_t n = 0; n < c->count; n++) {
    const struct rondo_sqe *e = rondo_sq_try_peek(&consumer);
    while (!e) {
      sched_yield();
      e = rondo_sq_try_peek(&consumer);
    }
    c->wrong += !is_entry_of(e, n);
    rondo_sq_pop(&consumer);
  }
  return NULL;
}

static void hands_over_between_threads(void **state) {
  (void)state;
  struct consumer_load c = {rondo_test_load(300000, 20000), 0};
  pthread_t thread;
  start(UINT32_MAX - 1000);
  assert_int_equal(pthread_create(&thread, NULL, consume, &c), 0);
  for (uint64_t n = 0; n < c.count; n++) {
    struct rondo_sqe e = entry_of(n);
    while (!rondo_sq_try_push(&producer, &e))
      sched_yield();
  }
  pthread_join(thread, NULL);
  assert_int_equal(c.wrong, 0);
  assert_null(rondo_sq_try_peek(&consumer));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("queue_sq", is_empty_at_first),
      RONDO_NAMED_TEST("queue_sq", gives_back_every_field),
      RONDO_NAMED_TEST("queue_sq", peeking_takes_nothing),
      RONDO_NAMED_TEST("queue_sq", full_refuses_and_changes_nothing),
      RONDO_NAMED_TEST("queue_sq", taken_entries_stay_until_they_are_released),
      RONDO_NAMED_TEST("queue_sq", wraps_at_uint32_max),
      RONDO_NAMED_TEST("queue_sq", hands_over_between_threads),
  };
  return cmocka_run_group_tests_name("queue_sq", tests, NULL, NULL);
}
