// The completion queue: many producers, one consumer; each entry once, a producer's own in order.
#include "queues/cq_core.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

#define CAPACITY 8u
#define PRODUCERS 4u

static struct {
  _Alignas(RONDO_LINE_BYTES) struct rondo_cq_ring ring;
  uint64_t words[2 * CAPACITY];
} shared;
static struct rondo_cq_producers producers_half;
static struct rondo_cq_consumer consumer_half;

static void start(uint32_t first_sequence) {
  uint64_t ring = (uint64_t)(uintptr_t)&shared.ring;
  memset(&shared, 0xa5, sizeof shared);
  rondo_cq_ring_init(&shared.ring, CAPACITY, first_sequence);
  rondo_cq_producers_init(&producers_half, ring, CAPACITY, first_sequence);
  rondo_cq_consumer_init(&consumer_half, ring, CAPACITY);
}

static struct rondo_cqe entry_of(uint32_t number) {
  struct rondo_cqe e = {0};
  e.collective = (uint16_t)(number * 7u + 1u);
  e.duration_ns = number * 11u + 3u;
  e.status = (uint16_t)(number * 13u);
  e.run = (uint16_t)(number * 17u);
  return e;
}

// Pushes as the only producer, or as one of several: the results must be the same.
static int try_push(const struct rondo_cqe *e, int is_alone) {
  uint32_t place = UINT32_MAX;
  if (!rondo_cq_try_claim(&producers_half, is_alone, &place))
    return 1;
  rondo_cq_publish(&producers_half, place, e);
  return 0;
}

static void push(uint32_t number) {
  struct rondo_cqe e = entry_of(number);
  assert_int_equal(try_push(&e, number % 2 || number % 3), 0);
}

static void pop(uint32_t number) {
  struct rondo_cqe want = entry_of(number);
  struct rondo_cqe got = {0};
  assert_true(rondo_cq_has_entry(&consumer_half));
  assert_int_equal(rondo_cq_try_pop(&consumer_half, &got), 1);
  want.mark = got.mark;
  want.second_mark = got.second_mark;
  assert_memory_equal(&got, &want, sizeof got);
}

static void assert_empty(void) {
  struct rondo_cqe got = {0};
  assert_false(rondo_cq_has_entry(&consumer_half));
  assert_int_equal(rondo_cq_try_pop(&consumer_half, &got), 0);
}

static void is_empty_at_first(void **state) {
  (void)state;
  const uint32_t firsts[] = {0, 1, CAPACITY - 1, CAPACITY, UINT32_MAX - CAPACITY, UINT32_MAX};
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    start(firsts[i]);
    assert_empty();
  }
}

static void gives_back_every_field(void **state) {
  (void)state;
  start(0);
  push(4711);
  pop(4711);
  assert_empty();
}

static void keeps_the_extremes_of_its_fields(void **state) {
  (void)state;
  struct rondo_cqe e = {
      .collective = UINT16_MAX, .status = UINT16_MAX, .run = UINT16_MAX, .duration_ns = UINT32_MAX};
  struct rondo_cqe got = {0};
  start(UINT32_MAX);
  assert_true(rondo_cq_try_push(&producers_half, &e));
  assert_int_equal(rondo_cq_try_pop(&consumer_half, &got), 1);
  e.mark = got.mark;
  e.second_mark = got.second_mark;
  assert_memory_equal(&got, &e, sizeof e);
}

static void full_refuses_and_changes_nothing(void **state) {
  (void)state;
  struct rondo_cqe extra = entry_of(99);
  start(0);
  for (uint32_t n = 0; n < CAPACITY; n++)
    push(n);
  assert_int_equal(try_push(&extra, 0), 1);
  assert_int_equal(try_push(&extra, 1), 1);
  pop(0);
  push(CAPACITY);
  assert_int_equal(try_push(&extra, 0), 1);
  assert_int_equal(try_push(&extra, 1), 1);
  for (uint32_t n = 1; n <= CAPACITY; n++)
    pop(n);
  assert_empty();
}

// While the consumer position that a producer has read leaves room, it does not read it again.
static void looks_across_only_when_it_seems_full(void **state) {
  (void)state;
  start(0);
  for (uint32_t n = 0; n < CAPACITY; n++) {
    push(n);
    pop(n);
    assert_int_equal(producers_half.claim >> 32, 0);
  }
  push(CAPACITY);
  assert_int_equal(producers_half.claim >> 32, CAPACITY);
  pop(CAPACITY);
}

static void wraps_at_uint32_max(void **state) {
  (void)state;
  for (uint32_t before = 0; before <= 2 * CAPACITY; before++) {
    for (uint32_t fill = 1; fill <= CAPACITY; fill++) {
      start(0u - before);
      for (uint32_t n = 0; n < 4 * CAPACITY; n += fill) {
        for (uint32_t i = 0; i < fill; i++)
          push(n + i);
        for (uint32_t i = 0; i < fill; i++)
          pop(n + i);
        assert_empty();
      }
    }
  }
}

// An entry whose halves become visible one after the other, in either order, on every lap and
// across the wrap of the sequence: it is taken when both are visible, and not before.
static void an_entry_is_taken_when_both_halves_are_visible(void **state) {
  (void)state;
  for (uint32_t first_half = 0; first_half < 2; first_half++) {
    start(UINT32_MAX - 2 * CAPACITY);
    for (uint32_t n = 0; n < 4 * CAPACITY; n++) {
      uint64_t *entry = rondo_cq_entry(consumer_half.ring, CAPACITY, shared.ring.consumed);
      const uint64_t before[2] = {entry[0], entry[1]};
      push(n);
      const uint64_t pushed[2] = {entry[0], entry[1]};
      struct rondo_cqe got = {0};
      memcpy(entry, before, sizeof before);
      entry[first_half] = pushed[first_half];
      assert_false(rondo_cq_try_peek(&consumer_half, &got));
      entry[1 - first_half] = pushed[1 - first_half];
      pop(n);
    }
  }
}

struct producer {
  pthread_t thread;
  uint32_t index;
  uint32_t count;
};

static void *produce(void *arg) {
  const struct producer *p = arg;
  for (uint32_t n = 0; n < p->count; n++) {
    struct rondo_cqe e = {.collective = (uint16_t)n,
                          .status = (uint16_t)(n * 3u),
                          .run = (uint16_t)(n * 5u),
                          .duration_ns = p->index};
    while (!rondo_cq_try_push(&producers_half, &e))
      sched_yield();
  }
  return NULL;
}

// Takes `total` entries; returns those that were lost, doubled, out of order or torn.
static uint64_t drain(uint64_t total) {
  uint32_t next[PRODUCERS] = {0};
  uint64_t wrong = 0;
  for (uint64_t taken = 0; taken < total; taken++) {
    struct rondo_cqe e;
    while (!rondo_cq_try_pop(&consumer_half, &e))
      sched_yield();
    uint32_t n = e.collective;
    if (e.duration_ns >= PRODUCERS)
      return wrong + 1;
    wrong +=
        n != next[e.duration_ns] || e.status != (uint16_t)(n * 3u) || e.run != (uint16_t)(n * 5u);
    next[e.duration_ns] = n + 1;
  }
  return wrong;
}

static void takes_from_many_producers(void **state) {
  (void)state;
  struct producer producers[PRODUCERS];
  uint32_t each = (uint32_t)rondo_test_load(60000, 4000);
  start(UINT32_MAX - 1000);
  for (uint32_t i = 0; i < PRODUCERS; i++) {
    producers[i].index = i;
    producers[i].count = each;
    assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
  }
  assert_int_equal(drain((uint64_t)PRODUCERS * each), 0);
  for (uint32_t i = 0; i < PRODUCERS; i++)
    pthread_join(producers[i].thread, NULL);
  assert_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("queue_cq", is_empty_at_first),
      RONDO_NAMED_TEST("queue_cq", gives_back_every_field),
      RONDO_NAMED_TEST("queue_cq", keeps_the_extremes_of_its_fields),
      RONDO_NAMED_TEST("queue_cq", full_refuses_and_changes_nothing),
      RONDO_NAMED_TEST("queue_cq", looks_across_only_when_it_seems_full),
      RONDO_NAMED_TEST("queue_cq", wraps_at_uint32_max),
      RONDO_NAMED_TEST("queue_cq", an_entry_is_taken_when_both_halves_are_visible),
      RONDO_NAMED_TEST("queue_cq", takes_from_many_producers),
  };
  return cmocka_run_group_tests_name("queue_cq", tests, NULL, NULL);
}
