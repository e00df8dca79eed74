// The topology that builders of plans get.
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/plan_topology.h"
#include "tests/support/named.h"

#define MOST 10u

// The topology of ranks on the machines `on`, each rank in its own process.
static struct rondo_plan_topology *topology_of(const uint32_t *on, uint32_t nranks) {
  struct rondo_plan_location at[MOST];
  for (uint32_t i = 0; i < nranks; i++)
    at[i] = (struct rondo_plan_location){
        .machine = UINT64_C(0x900000000) - on[i], .process = 7 + i, .cores = 4 + on[i]};
  struct rondo_plan_topology *t = rondo_plan_topology_create(at, nranks);
  assert_non_null(t);
  return t;
}

static void one_machine_keeps_the_order_of_ranks(void **state) {
  (void)state;
  static const struct rondo_plan_location at[3] = {{5, 1, 8, 0}, {5, 1, 8, 0}, {5, 1, 8, 0}};
  static const struct rondo_plan_location other[3] = {{5, 1, 8, 0}, {5, 2, 8, 0}, {5, 1, 8, 0}};
  struct rondo_plan_topology *t = rondo_plan_topology_create(at, 3);
  struct rondo_plan_topology *u = rondo_plan_topology_create(other, 3);
  const struct rondo_plan_topology *all[] = {NULL, t, u};
  for (uint32_t k = 0; k < 3; k++)
    for (uint32_t i = 0; i < 3; i++) {
      assert_int_equal(rondo_plan_topology_machines(all[k]), 1);
      assert_int_equal(rondo_plan_topology_machine_of(all[k], i), 0);
      assert_int_equal(rondo_plan_topology_at(all[k], i), i);
      assert_int_equal(rondo_plan_topology_place(all[k], i), i);
    }
  assert_true(t->shares_process && t->shares_memory);
  assert_true(!u->shares_process && u->shares_memory);
  assert_int_equal(t->machines[0].rank_count, 3);
  assert_int_equal(t->machines[0].cores, 8);
  assert_null(t->machine_of);
  assert_null(t->order);
  assert_int_equal(rondo_plan_topology_digest(NULL), 0);
  assert_true(t->digest != u->digest);
  rondo_plan_topology_destroy(t);
  rondo_plan_topology_destroy(u);
  rondo_plan_topology_destroy(NULL);
}

static void ranks_of_a_machine_follow_each_other(void **state) {
  (void)state;
  static const uint32_t on[7] = {3, 1, 3, 2, 1, 3, 2};
  static const uint32_t machine_of[7] = {0, 1, 0, 2, 1, 0, 2};
  static const uint32_t order[7] = {0, 2, 5, 1, 4, 3, 6};
  static const struct rondo_plan_machine machines[3] = {{3, 0, 7}, {2, 3, 5}, {2, 5, 6}};
  struct rondo_plan_topology *t = topology_of(on, 7);
  assert_int_equal(t->nranks, 7);
  assert_int_equal(t->machine_count, 3);
  assert_false(t->shares_process || t->shares_memory);
  assert_memory_equal(t->machines, machines, sizeof machines);
  for (uint32_t i = 0; i < 7; i++) {
    assert_int_equal(rondo_plan_topology_machine_of(t, i), machine_of[i]);
    assert_int_equal(rondo_plan_topology_at(t, i), order[i]);
    assert_int_equal(rondo_plan_topology_place(t, order[i]), i);
  }
  rondo_plan_topology_destroy(t);
}

// Ranks that are placed machine after machine need no arrays for their order.
static void machines_in_a_row_keep_the_order_of_ranks(void **state) {
  (void)state;
  static const uint32_t on[5] = {2, 2, 9, 9, 1};
  struct rondo_plan_topology *t = topology_of(on, 5);
  assert_int_equal(t->machine_count, 3);
  assert_null(t->order);
  assert_null(t->place_of);
  assert_int_equal(t->machines[2].first, 4);
  rondo_plan_topology_destroy(t);
}

// The numbers of machines do not count: only which ranks share one.
static void the_digest_tells_topologies_apart(void **state) {
  (void)state;
  static const uint32_t on[4][4] = {{1, 2, 1, 2}, {1, 1, 2, 2}, {1, 2, 2, 1}, {1, 2, 1, 1}};
  uint64_t digests[4];
  for (uint32_t k = 0; k < 4; k++) {
    struct rondo_plan_topology *t = topology_of(on[k], 4), *again = topology_of(on[k], 4);
    digests[k] = t->digest;
    assert_int_equal(t->digest, again->digest);
    for (uint32_t i = 0; i < k; i++)
      assert_true(digests[i] != digests[k]);
    rondo_plan_topology_destroy(t);
    rondo_plan_topology_destroy(again);
  }
  struct rondo_plan_location a[2] = {{1, 0, 4, 0}, {2, 1, 4, 0}},
                             b[2] = {{8, 5, 4, 0}, {3, 2, 4, 0}};
  struct rondo_plan_topology *t = rondo_plan_topology_create(a, 2);
  struct rondo_plan_topology *u = rondo_plan_topology_create(b, 2);
  b[1].cores = 5;
  struct rondo_plan_topology *v = rondo_plan_topology_create(b, 2);
  assert_int_equal(t->digest, u->digest);
  assert_true(t->digest != v->digest);
  rondo_plan_topology_destroy(t);
  rondo_plan_topology_destroy(u);
  rondo_plan_topology_destroy(v);
}

// As many as the machine with the fewest has ports, and ranks.
static void several_ports_make_several_leaders(void **state) {
  (void)state;
  static const struct {
    struct rondo_plan_location at[5];
    uint32_t leaders;
  } cases[] = {{{{1, 0, 8, 2}, {1, 1, 8, 2}, {2, 2, 8, 3}, {2, 3, 8, 3}, {2, 4, 8, 3}}, 2},
               {{{1, 0, 8, 3}, {1, 1, 8, 3}, {2, 2, 8, 3}, {2, 3, 8, 3}, {2, 4, 8, 3}}, 2},
               {{{1, 0, 8, 3}, {2, 1, 8, 3}, {2, 2, 8, 3}, {2, 3, 8, 3}, {2, 4, 8, 3}}, 1},
               {{{1, 0, 8, 2}, {1, 1, 8, 2}, {2, 2, 8, 0}, {2, 3, 8, 0}, {2, 4, 8, 0}}, 1},
               {{{1, 0, 8, 4}, {1, 1, 8, 4}, {1, 2, 8, 4}, {1, 3, 8, 4}, {1, 4, 8, 4}}, 1}};
  uint64_t digest = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rondo_plan_topology *t = rondo_plan_topology_create(cases[i].at, 5);
    assert_non_null(t);
    assert_int_equal(rondo_plan_topology_leaders(t), cases[i].leaders);
    if (i == 3) // the same places as the first ones
      assert_int_not_equal(t->digest, digest);
    digest = i == 0 ? t->digest : digest;
    rondo_plan_topology_destroy(t);
  }
  assert_int_equal(rondo_plan_topology_leaders(NULL), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("plan_topology", one_machine_keeps_the_order_of_ranks),
      RONDO_NAMED_TEST("plan_topology", several_ports_make_several_leaders),
      RONDO_NAMED_TEST("plan_topology", ranks_of_a_machine_follow_each_other),
      RONDO_NAMED_TEST("plan_topology", machines_in_a_row_keep_the_order_of_ranks),
      RONDO_NAMED_TEST("plan_topology", the_digest_tells_topologies_apart),
  };
  return cmocka_run_group_tests_name("plan_topology", tests, NULL, NULL);
}
