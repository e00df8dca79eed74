// The order of a ring by the rates of its links.
#include <stdlib.h>
#include <string.h>

#include "runtime/links/ring_order.h"
#include "tests/support/job.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define MOST 256u

static uint64_t rates[MOST * MOST];
static uint32_t order[MOST];

static void rates_draw(uint64_t *random, uint32_t count, uint64_t limit) {
  for (uint32_t i = 0; i < count * count; i++)
    rates[i] = i % (count + 1) ? 1 + rondo_test_random(random) % limit : 0;
}

// Each member is in the order once, the first of them first.
static void order_check(uint32_t count) {
  uint8_t seen[MOST] = {0};
  assert_int_equal(order[0], 0);
  for (uint32_t i = 0; i < count; i++) {
    assert_true(order[i] < count);
    assert_int_equal(seen[order[i]]++, 0);
  }
}

// The best of all orders that begin with the `fixed` members of `tried`.
static uint64_t best_of_all(uint32_t count, uint32_t *tried, uint32_t fixed) {
  uint64_t best = 0;
  if (fixed == count)
    return rondo_ring_rate(rates, count, tried);
  for (uint32_t i = fixed; i < count; i++) {
    uint32_t member = tried[i];
    tried[i] = tried[fixed];
    tried[fixed] = member;
    uint64_t rate = best_of_all(count, tried, fixed + 1);
    best = rate > best ? rate : best;
    tried[fixed] = tried[i];
    tried[i] = member;
  }
  return best;
}

static void no_order_is_faster(void **state) {
  uint64_t random = 1;
  (void)state;
  for (uint32_t round = 0; round < 700; round++) {
    uint32_t tried[8];
    uint32_t count = 1 + round % 8;
    rates_draw(&random, count, round % 3 ? 1000 : 4);
    for (uint32_t i = 0; i < count; i++)
      tried[i] = i;
    uint64_t best = best_of_all(count, tried, 1);
    assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
    order_check(count);
    uint64_t rate = rondo_ring_rate(rates, count, order);
    assert_true(rate <= best);
    assert_true(rate >= best - best / 20);
  }
}

// Rates of 100 along a ring of all members in a random order, and below 50 elsewhere.
static void ring_hide(uint64_t *random, uint32_t count, int is_one_way) {
  uint32_t hidden[MOST];
  rates_draw(random, count, 49);
  rondo_test_shuffle(hidden, count, random);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t from = hidden[i];
    uint32_t to = hidden[(i + 1) % count];
    rates[from * count + to] = 100;
    if (!is_one_way)
      rates[to * count + from] = 100;
  }
}

static void a_hidden_ring_is_found(void **state) {
  uint64_t random = 2;
  (void)state;
  for (uint32_t count = 3; count <= MOST; count += 1 + count / 8) {
    ring_hide(&random, count, count <= RONDO_RING_EXACT);
    assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
    order_check(count);
    assert_int_equal(rondo_ring_rate(rates, count, order), 100);
  }
}

// Machines of eight ranks, numbered round robin, whose links to each other are ten times slower
// and not equally fast: most rings cross them often, and one of the slowest links.
static void machines_are_crossed_by_fast_links(void **state) {
  const uint32_t count = 64;
  const uint32_t machines = 8;
  uint64_t random = 3;
  (void)state;
  rates_draw(&random, count, 1);
  for (uint32_t a = 0; a < count; a++)
    for (uint32_t b = 0; b < a; b++) {
      uint32_t apart = (a % machines > b % machines ? a - b : b - a) % machines;
      uint64_t rate = a % machines == b % machines ? 1000 : apart == 1 || apart == 7 ? 100 : 10;
      rates[a * count + b] = rates[b * count + a] = rate;
    }
  assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
  order_check(count);
  assert_true(rondo_ring_rate(rates, count, order) >= 100);
}

static void an_order_that_is_as_good_is_kept(void **state) {
  const uint32_t count = 6;
  uint64_t random = 4;
  (void)state;
  rates_draw(&random, count, 1);
  for (uint32_t i = 0; i < count * count; i++)
    rates[i] = i % (count + 1) ? 100 : 0;
  rates[0 * count + 1] = 96;
  assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(order[i], i);
  rates[0 * count + 1] = 94;
  assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
  assert_int_equal(rondo_ring_rate(rates, count, order), 100);
}

static void the_same_rates_give_the_same_order(void **state) {
  uint64_t random = 5;
  (void)state;
  for (uint32_t count = 10; count <= 100; count += 30) {
    uint32_t first[MOST];
    rates_draw(&random, count, 1000);
    assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
    memcpy(first, order, sizeof first);
    memset(order, 0xff, sizeof order);
    assert_int_equal(rondo_ring_order(rates, count, order), RONDO_SUCCESS);
    assert_memory_equal(first, order, count * sizeof *order);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ring_order", no_order_is_faster),
      RONDO_NAMED_TEST("ring_order", a_hidden_ring_is_found),
      RONDO_NAMED_TEST("ring_order", machines_are_crossed_by_fast_links),
      RONDO_NAMED_TEST("ring_order", an_order_that_is_as_good_is_kept),
      RONDO_NAMED_TEST("ring_order", the_same_rates_give_the_same_order),
  };
  cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
  return cmocka_run_group_tests_name("ring_order", tests, NULL, NULL);
}
