// Every plan that the builders give is proved by the verifier, and the least number of
// slots is the least. That the verifier refuses wrong plans: test_plan_mutation.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "daemon/plan/two_level.h"
#include "daemon/plan/verify.h"
#include "rondo/status.h"
#include "rondo/types.h"
#include "tests/support/load.h"

enum { RANKS_MAX = 64, THOROUGH_MAX = 33, FEWER_RANKS = 17, ALL_ROOTS_MAX = 9, LOOPS = 3 };

// The most ranks of a group: RANKS_MAX, or more by the command line.
static uint32_t ranks_max;

static struct rondo_plan plans[RONDO_PLAN_VERIFY_MAX_RANKS];

// Of the plans to build.
static bool keeps_sums;
static struct rondo_plan_topology *topology;
static int quantisation;

static void plans_build(int kind, int algorithm, uint32_t n, uint32_t root) {
  for (uint32_t rank = 0; rank < n; rank++) {
    struct rondo_plan_request request = {kind, algorithm,  rank,     n,
                                         root, keeps_sums, topology, quantisation};
    if (n <= ALL_ROOTS_MAX) // a builder sets every field
      memset(&plans[rank], 0xff, sizeof plans[rank]);
    assert_int_equal(rondo_plan_build(&request, &plans[rank]), RONDO_SUCCESS);
  }
}

static void plans_build_one(int kind, int algorithm, uint32_t n, uint32_t rank,
                            struct rondo_plan *plan) {
  struct rondo_plan_request request = {kind, algorithm, rank, n, 0, false, NULL, 0};
  assert_int_equal(rondo_plan_build(&request, plan), RONDO_SUCCESS);
}

static void assert_proved(const struct rondo_plan_verify_case *what, const char *about) {
  struct rondo_plan_verify_report report;
  int status = rondo_plan_verify(what, &report);
  if (status != RONDO_SUCCESS)
    fail_msg("%s kind %d, %u ranks, root %u, %u slots, in place %d, seed %llu: %d %s", about,
             what->kind, what->nranks, what->root, what->slots, what->in_place,
             (unsigned long long)what->seed, status, report.message);
}

static int is_exchange(int kind) { return kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V; }

// Out of place and in place; in small groups also with more than the least slots, and in random
// orders.
static void group_prove(int kind, int algorithm, uint32_t n, uint32_t root) {
  uint32_t least = rondo_plan_least_slots(kind, algorithm, n);
  bool is_thorough = n <= THOROUGH_MAX;
  plans_build(kind, algorithm, n, root);
  struct rondo_plan_verify_case what = {kind,  n,    root, 0,       is_thorough ? LOOPS : 2, 0, 0,
                                        plans, NULL, 0,    topology};
  for (what.slots = least; what.slots <= (is_thorough ? 4 : least); what.slots *= 2) {
    for (what.in_place = 0; what.in_place <= !is_exchange(kind); what.in_place++) {
      for (what.seed = 0; what.seed < (is_thorough ? rondo_test_load(4, 2) : 1); what.seed++)
        assert_proved(&what, rondo_plan_algorithm_name(algorithm));
    }
  }
}

static void rootless_prove(int kind, int algorithm) {
  for (uint32_t n = 1; n <= ranks_max; n++)
    group_prove(kind, algorithm, n, 0);
}

// Every root of the small groups; of larger ones the ends, the middle and one that moves with n.
static void rooted_prove(int kind, int algorithm) {
  for (uint32_t n = 1; n <= ranks_max; n++) {
    for (uint32_t root = 0; root < n; root++) {
      if (n <= ALL_ROOTS_MAX || root == 0 || root == n - 1 || root == n / 2 || root == n * 5 % 7)
        group_prove(kind, algorithm, n, root);
    }
  }
}

static void ring_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING);
}

static void ring_all_reduce_that_keeps_sums_is_proved(void **state) {
  (void)state;
  keeps_sums = true;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING);
  keeps_sums = false;
}

// All members get what the codes stand for: the owner of a chunk, too.
static void quantised_ring_all_reduce_is_proved(void **state) {
  (void)state;
  keeps_sums = true; // what such a plan ignores
  for (quantisation = RONDO_QUANTISE_INT8; quantisation < RONDO_QUANTISATION_COUNT; quantisation++)
    rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING);
  quantisation = RONDO_QUANTISE_NONE;
  keeps_sums = false;
}

static void tree_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE);
}

static void doubling_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING);
}

static void binomial_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL);
}

static void halving_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING);
}

static void halving_reduce_scatter_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_HALVING);
}

static void two_shot_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT);
}

static void one_shot_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT);
}

static void all_reduces_of_packets_are_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT_PACKETS);
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT_PACKETS);
}

static void direct_plans_of_packets_are_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT_PACKETS);
  rootless_prove(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_DIRECT_PACKETS);
}

static void double_tree_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE);
}

static void double_tree_broadcast_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_BROADCAST, RONDO_ALGORITHM_DOUBLE_TREE);
}

static void double_tree_reduce_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE);
}

static void binomial_reduce_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_REDUCE, RONDO_ALGORITHM_BINOMIAL);
}

static void binomial_gather_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_GATHER, RONDO_ALGORITHM_BINOMIAL);
}

static void binomial_scatter_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_SCATTER, RONDO_ALGORITHM_BINOMIAL);
}

static void bruck_all_gather_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK);
}

static void binomial_broadcast_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_BROADCAST, RONDO_ALGORITHM_BINOMIAL);
}

static void tree_broadcast_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_BROADCAST, RONDO_ALGORITHM_TREE);
}

static void ring_all_gather_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_GATHER, RONDO_ALGORITHM_RING);
}

static void ring_reduce_scatter_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_RING);
}

static void ring_reduce_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_REDUCE, RONDO_ALGORITHM_RING);
}

static void ring_broadcast_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_BROADCAST, RONDO_ALGORITHM_RING);
}

static void direct_all_reduce_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DIRECT);
}

static void direct_reduce_scatter_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_DIRECT);
}

static void direct_reduce_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_REDUCE, RONDO_ALGORITHM_DIRECT);
}

static void direct_all_gather_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT);
}

static void direct_broadcast_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT);
}

static void direct_gather_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_GATHER, RONDO_ALGORITHM_DIRECT);
}

static void direct_scatter_is_proved_for_every_root(void **state) {
  (void)state;
  rooted_prove(RONDO_SCATTER, RONDO_ALGORITHM_DIRECT);
}

static void direct_send_recv_is_proved_both_ways_and_to_oneself(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= 2; n++)
    for (uint32_t root = 0; root < n; root++)
      group_prove(RONDO_SEND_RECV, RONDO_ALGORITHM_DIRECT, n, root);
}

static void bruck_all_to_all_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_BRUCK);
}

static void direct_all_to_all_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_DIRECT);
}

// Every pair with a number of loops of its own, none included, and whole ranks with nothing.
static void direct_all_to_all_v_is_proved_for_uneven_pairs(void **state) {
  (void)state;
  static uint32_t pairs[THOROUGH_MAX * THOROUGH_MAX];
  uint64_t random = 3;
  rootless_prove(RONDO_ALL_TO_ALL_V, RONDO_ALGORITHM_DIRECT);
  for (uint32_t n = 1; n <= THOROUGH_MAX; n++) {
    plans_build(RONDO_ALL_TO_ALL_V, RONDO_ALGORITHM_DIRECT, n, 0);
    struct rondo_plan_verify_case what = {
        RONDO_ALL_TO_ALL_V, n, 0, 1, LOOPS, 0, 0, plans, pairs, 0, NULL};
    for (what.seed = 0; what.seed < rondo_test_load(8, 3); what.seed++) {
      for (uint32_t i = 0; i < n * n; i++)
        pairs[i] = (uint32_t)((random = random * 6364136223846793005u + 1) >> 40) % (LOOPS + 1);
      for (uint32_t i = 0; i < n; i++)
        pairs[i * n + n / 2] = 0; // one receives nothing
      assert_proved(&what, "direct");
    }
  }
}

static void barrier_by_dissemination_is_proved(void **state) {
  (void)state;
  rootless_prove(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION);
}

// Plans of log2 n rounds, around powers of two and between.
static void plans_of_up_to_4096_ranks_are_proved(void **state) {
  (void)state;
  static const uint32_t sizes[] = {257, 511, 512, 513, 1000, 1023, 1025, 1024, 3000, 4095, 4096};
  uint32_t count = sizeof sizes / sizeof *sizes;
  uint32_t few = (uint32_t)rondo_test_load(7, 5);
  for (uint32_t i = 0; i < (ranks_max > RANKS_MAX ? count : few); i++) {
    uint32_t n = sizes[i];
    struct rondo_plan_verify_case what = {
        RONDO_ALL_REDUCE, n, 0, 1, 2, i % 2, 0, plans, NULL, 0, NULL};
    plans_build(what.kind, RONDO_ALGORITHM_DOUBLING, n, 0);
    assert_proved(&what, "large");
    plans_build(what.kind, RONDO_ALGORITHM_BINOMIAL, n, 0);
    assert_proved(&what, "large");
    what.kind = RONDO_BROADCAST;
    what.root = n / 3;
    plans_build(what.kind, RONDO_ALGORITHM_BINOMIAL, n, what.root);
    assert_proved(&what, "large");
    plans_build(what.kind, RONDO_ALGORITHM_DOUBLE_TREE, n, what.root);
    assert_proved(&what, "large");
    what.kind = RONDO_REDUCE;
    plans_build(what.kind, RONDO_ALGORITHM_DOUBLE_TREE, n, what.root);
    assert_proved(&what, "large");
    plans_build(what.kind, RONDO_ALGORITHM_BINOMIAL, n, what.root);
    assert_proved(&what, "large");
    what.kind = RONDO_ALL_REDUCE;
    plans_build(what.kind, RONDO_ALGORITHM_DOUBLE_TREE, n, 0);
    assert_proved(&what, "large");
    what.kind = RONDO_BARRIER;
    plans_build(what.kind, RONDO_ALGORITHM_DISSEMINATION, n, 0);
    assert_proved(&what, "large");
    if (i % 2)
      continue; // half of the sizes: these have the most messages
    what.loops = n > 1025 ? 1 : 2;
    what.one_chunk = 1 + n * (i + 1) / (count + 1);
    what.kind = RONDO_ALL_REDUCE;
    plans_build(what.kind, RONDO_ALGORITHM_HALVING, n, 0);
    assert_proved(&what, "large");
    what.kind = RONDO_REDUCE_SCATTER;
    plans_build(what.kind, RONDO_ALGORITHM_HALVING, n, 0);
    assert_proved(&what, "large");
    what.kind = RONDO_ALL_GATHER;
    plans_build(what.kind, RONDO_ALGORITHM_BRUCK, n, 0);
    assert_proved(&what, "large");
    for (what.kind = RONDO_GATHER; what.kind <= RONDO_SCATTER; what.kind++) {
      plans_build(what.kind, RONDO_ALGORITHM_BINOMIAL, n, what.root);
      assert_proved(&what, "large");
    }
  }
}

// A part of an all-to-all in scratch: from and to which rank, counted from the rank that has it.
struct part {
  uint32_t from, to;
};

// Chunk `j` of a message.
static uint32_t message_chunk(const struct rondo_plan_op *op, uint32_t j, uint32_t n) {
  return (op->first_chunk + j +
          (op->primitive & RONDO_PRIM_RUNS ? j / op->chunk_stride * op->chunk_stride : 0)) %
         n;
}

// The plan of each rank is that of rank 0, counted from the rank.
static void assert_plans_are_alike(const struct rondo_plan *first, uint32_t n) {
  const uint32_t ranks[] = {1, n / 3, n - 1};
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
    plans_build_one(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_BRUCK, n, ranks[i], &plans[1]);
    assert_int_equal(plans[1].op_count, first->op_count);
    assert_int_equal(plans[1].scratch_first, ranks[i]);
    for (uint32_t k = 0; k < first->op_count; k++) {
      struct rondo_plan_op op = first->ops[k];
      op.first_chunk = (op.first_chunk + ranks[i]) % n;
      assert_memory_equal(&plans[1].ops[k], &op, sizeof op);
    }
    for (uint32_t k = 0; k < first->send.count; k++) {
      assert_int_equal(plans[1].send.listed[k], (first->send.listed[k] + ranks[i]) % n);
      assert_int_equal(plans[1].recv.listed[k], (first->recv.listed[k] + ranks[i]) % n);
    }
  }
}

// Beyond what the verifier takes: all ranks do the same, so scratch holds the same on all of them.
static void bruck_all_to_all_of_up_to_4096_ranks_moves_every_part(void **state) {
  (void)state;
  static const uint32_t sizes[] = {257, 511, 512, 513, 1000, 1023, 1025, 1024, 3000, 4095, 4096};
  static struct part scratch[RONDO_PLAN_VERIFY_MAX_RANKS], before[RONDO_PLAN_VERIFY_MAX_RANKS];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint32_t n = sizes[i];
    const struct rondo_plan *plan = &plans[0];
    plans_build_one(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_BRUCK, n, 0, &plans[0]);
    assert_plans_are_alike(plan, n);
    for (uint32_t k = 0; k < n; k++) // op 0 copies all chunks
      scratch[k] = (struct part){0, k};
    for (uint32_t k = 2; k + 1 < plan->op_count; k += 2) {
      const struct rondo_plan_op *send = &plan->ops[k - 1], *recv = &plan->ops[k];
      uint32_t distance = n - plan->recv.listed[recv->recv_peer];
      assert_int_equal(plan->send.listed[send->send_peer], distance);
      assert_int_equal(send->width, recv->width);
      memcpy(before, scratch, n * sizeof *scratch);
      for (uint32_t j = 0; j < recv->width; j++) {
        struct part part = before[message_chunk(send, j, n)];
        scratch[message_chunk(recv, j, n)] =
            (struct part){(part.from + n - distance) % n, (part.to + n - distance) % n};
      }
    }
    for (uint32_t k = 0; k < n; k++) { // the last op takes chunk k from place -k
      assert_int_equal(scratch[(n - k) % n].from, k);
      assert_int_equal(scratch[(n - k) % n].to, 0);
    }
  }
}

// What is proved of each chunk alone is what is proved of all together.
static void chunks_are_proved_one_at_a_time(void **state) {
  (void)state;
  static const int all[][2] = {{RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING},
                               {RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING},
                               {RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_HALVING},
                               {RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK},
                               {RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_DIRECT}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    for (uint32_t n = 1; n <= FEWER_RANKS; n++) {
      struct rondo_plan_verify_case what = {all[i][0], n, 0, 2, LOOPS, 0, 0, plans, NULL, 0, NULL};
      plans_build(all[i][0], all[i][1], n, 0);
      for (what.in_place = 0; what.in_place <= 1; what.in_place++)
        for (what.one_chunk = 1; what.one_chunk <= n; what.one_chunk++)
          assert_proved(&what, "one chunk");
    }
  }
}

// Where each rank has a core.
static int choose(int kind, uint64_t bytes, uint32_t n) {
  const struct rondo_cost_query query = {.kind = kind, .nranks = n, .bytes = bytes, .cores = n};
  return rondo_cost_choose(&rondo_cost_defaults, &query).algorithm;
}

static void plans_of_256_ranks_are_proved(void **state) {
  (void)state;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    uint32_t n = kind == RONDO_SEND_RECV ? 2
                 : is_exchange(kind)     ? 128
                                         : RONDO_PLAN_VERIFY_MAX_PARTS;
    uint32_t root = n * 3 / 10;
    struct rondo_plan_verify_case what = {kind, n,     root, 2, 1,   !is_exchange(kind),
                                          5,    plans, NULL, 0, NULL};
    plans_build(kind, choose(kind, UINT32_MAX, n), n, root);
    assert_proved(&what, "large");
    plans_build(kind, choose(kind, 0, n), n, root);
    assert_proved(&what, "small");
  }
}

static const int ring_kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER,
                                 RONDO_REDUCE, RONDO_BROADCAST};

// Connectors of the plans between different machines.
static uint32_t links_between_machines(uint32_t n) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++)
    for (uint32_t i = 0; i < plans[rank].send.count; i++) {
      uint32_t to = rondo_plan_peer(&plans[rank], &plans[rank].send, i);
      count += rondo_plan_topology_machine_of(topology, rank) !=
               rondo_plan_topology_machine_of(topology, to);
    }
  return count;
}

// Proves the rings of `n` ranks on the machines `on`. A ring enters each machine once, and a line
// each but the first.
static void placed_rings_prove(const uint32_t *on, uint32_t n) {
  struct rondo_plan_location at[RONDO_PLAN_VERIFY_MAX_PARTS];
  for (uint32_t i = 0; i < n; i++)
    at[i] = (struct rondo_plan_location){.machine = on[i], .process = i, .cores = 1};
  topology = rondo_plan_topology_create(at, n);
  assert_non_null(topology);
  for (size_t k = 0; k < sizeof ring_kinds / sizeof *ring_kinds; k++) {
    bool is_line = rondo_plan_is_rooted(ring_kinds[k]);
    for (uint32_t root = 0; root < (is_line ? n : 1); root += n <= 8 ? 1 : 1 + n / 3) {
      group_prove(ring_kinds[k], RONDO_ALGORITHM_RING, n, root);
      uint32_t expected = topology->machine_count - (is_line || topology->machine_count == 1);
      if (n > 1)
        assert_int_equal(links_between_machines(n), expected);
    }
  }
  rondo_plan_topology_destroy(topology);
  topology = NULL;
}

// Places `n` ranks on machines: in turn, in a row, or at random.
static void ranks_place(uint32_t *on, uint32_t n, uint32_t machines, int how, uint64_t *random) {
  for (uint32_t r = 0; r < n; r++) {
    *random = *random * 6364136223846793005u + 1;
    on[r] = how == 0   ? r % machines
            : how == 1 ? r * machines / n
                       : (uint32_t)(*random >> 40) % machines;
  }
}

// Bytes that the plans send between different machines, in chunks.
static uint32_t chunks_between_machines(uint32_t n) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++)
    for (uint32_t i = 0; i < plans[rank].op_count; i++) {
      const struct rondo_plan_op *op = &plans[rank].ops[i];
      if (op->primitive & RONDO_PRIM_SEND)
        count += rondo_plan_topology_machine_of(topology, rank) !=
                 rondo_plan_topology_machine_of(
                     topology, rondo_plan_peer(&plans[rank], &plans[rank].send, op->send_peer));
    }
  return count;
}

// Trees over 64 ranks, which are placed on 4 machines in turn: subtrees are machines all the same,
// so most messages stay inside them.
static void trees_keep_machines_together(void **state) {
  (void)state;
  const uint32_t n = 64, machines = 4;
  struct rondo_plan_location at[64];
  for (uint32_t i = 0; i < n; i++)
    at[i] = (struct rondo_plan_location){.machine = i % machines, .process = i, .cores = 1};
  topology = rondo_plan_topology_create(at, n);
  assert_non_null(topology);
  for (uint32_t root = 0; root < n; root += 21) {
    group_prove(RONDO_BROADCAST, RONDO_ALGORITHM_DOUBLE_TREE, n, root);
    assert_in_range(chunks_between_machines(n), 2 * (machines - 1), 6 * (machines - 1));
  }
  group_prove(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, n, 0);
  assert_in_range(chunks_between_machines(n), 4 * (machines - 1), 12 * (machines - 1));
  rondo_plan_topology_destroy(topology);
  topology = NULL;
}

// Every placement of up to five ranks on three machines, and some of many ranks.
static void rings_enter_each_machine_once(void **state) {
  (void)state;
  static const uint32_t many[] = {8, 12, 33, 64};
  uint32_t on[RONDO_PLAN_VERIFY_MAX_PARTS];
  uint64_t random = 1;
  for (uint32_t n = 1, count = 3; n <= 5; n++, count *= 3)
    for (uint32_t k = 0; k < count; k++) {
      for (uint32_t i = 0, rest = k; i < n; i++, rest /= 3)
        on[i] = rest % 3;
      placed_rings_prove(on, n);
    }
  for (size_t i = 0; i < sizeof many / sizeof *many; i++)
    for (uint32_t machines = 2; machines <= 8; machines *= 2)
      for (int how = 0; how < 3; how++) {
        ranks_place(on, many[i], machines, how, &random);
        placed_rings_prove(on, many[i]);
      }
}

static const int two_level[] = {RONDO_ALGORITHM_CHAIN_RING, RONDO_ALGORITHM_BINOMIAL_RING,
                                RONDO_ALGORITHM_CHAIN_DOUBLING, RONDO_ALGORITHM_BINOMIAL_DOUBLING};

// Bytes that leave a machine, in units of the size of the buffer / the number of chunks.
static uint32_t chunks_leaving(uint32_t n, uint32_t machine) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++) {
    const struct rondo_plan *plan = &plans[rank];
    if (rondo_plan_topology_machine_of(topology, rank) != machine)
      continue;
    for (uint32_t i = 0; i < plan->op_count; i++) {
      const struct rondo_plan_op *op = &plan->ops[i];
      if (op->primitive & RONDO_PRIM_SEND &&
          rondo_plan_topology_machine_of(
              topology, rondo_plan_peer(plan, &plan->send, op->send_peer)) != machine)
        count += op->repeat;
    }
  }
  return count;
}

// The same of bytes that come to a machine.
static uint32_t chunks_entering(uint32_t n, uint32_t machine) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++) {
    const struct rondo_plan *plan = &plans[rank];
    if (rondo_plan_topology_machine_of(topology, rank) == machine)
      continue;
    for (uint32_t i = 0; i < plan->op_count; i++) {
      const struct rondo_plan_op *op = &plan->ops[i];
      if (op->primitive & RONDO_PRIM_SEND &&
          rondo_plan_topology_machine_of(
              topology, rondo_plan_peer(plan, &plan->send, op->send_peer)) == machine)
        count += op->repeat;
    }
  }
  return count;
}

static bool peers_leave(const struct rondo_plan *plan, const struct rondo_plan_peers *peers,
                        uint32_t machine) {
  bool leave = false;
  for (uint32_t i = 0; i < peers->count; i++)
    leave |= rondo_plan_topology_machine_of(topology, rondo_plan_peer(plan, peers, i)) != machine;
  return leave;
}

// Ranks of a machine that send to others, or receive from them.
static uint32_t leaders_of(uint32_t n, uint32_t machine) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++)
    if (rondo_plan_topology_machine_of(topology, rank) == machine)
      count += peers_leave(&plans[rank], &plans[rank].send, machine) ||
               peers_leave(&plans[rank], &plans[rank].recv, machine);
  return count;
}

// Of many groups: with the least slots, in place and out of place, the latter in a random order.
static void group_prove_once(int kind, int algorithm, uint32_t n, uint32_t root) {
  uint32_t loops = n <= THOROUGH_MAX ? LOOPS : 2;
  struct rondo_plan_verify_case what = {kind,     n,     root, 0, loops,   0,
                                        root + 1, plans, NULL, 0, topology};
  what.slots = rondo_plan_least_slots(kind, algorithm, n);
  plans_build(kind, algorithm, n, root);
  for (; what.in_place <= 1; what.in_place++, what.seed = 0)
    assert_proved(&what, rondo_plan_algorithm_name(algorithm));
}

// Proves the plans of a reduce or broadcast over two levels. Each byte enters each machine once,
// but not that of the root; in a reduce it leaves each once.
static void two_level_rooted_prove(int kind, int algorithm, uint32_t n, uint32_t root) {
  uint32_t machines = topology->machine_count;
  uint32_t lanes = rondo_plan_chains_inside(algorithm) ? topology->leaders : 1;
  group_prove_once(kind, algorithm, n, root);
  for (uint32_t m = 0; m < machines && n > 1; m++) {
    bool has_root = rondo_plan_topology_machine_of(topology, root) == m;
    uint32_t chunks = kind == RONDO_BROADCAST ? chunks_entering(n, m) : chunks_leaving(n, m);
    assert_int_equal(chunks, has_root ? 0 : lanes);
    assert_int_equal(leaders_of(n, m), machines == 1 ? 0 : lanes);
  }
}

// Each root of few ranks; of more the ends, and one that moves with their number.
static void two_level_roots_prove(int algorithm, uint32_t n) {
  for (uint32_t root = 0; root < n; root++)
    if (n <= ALL_ROOTS_MAX / 2 || root == 0 || root == n - 1 || root == n * 5 % 7) {
      two_level_rooted_prove(RONDO_BROADCAST, algorithm, n, root);
      two_level_rooted_prove(RONDO_REDUCE, algorithm, n, root);
    }
}

// Chunks that go through a port of a machine, out of it or into it. Each port is of every
// `leaders`-th rank of its machine.
static uint32_t port_chunks(uint32_t n, uint32_t machine, uint32_t port, bool out) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < n; rank++) {
    const struct rondo_plan *plan = &plans[rank];
    uint32_t on = rondo_plan_topology_machine_of(topology, rank), leaders = topology->leaders;
    uint32_t local = rondo_plan_topology_place(topology, rank) - topology->machines[on].first;
    const unsigned way = out ? RONDO_PRIM_SEND : RONDO_PRIM_RECV;
    for (uint32_t i = 0; i < plan->op_count && on == machine && local % leaders == port; i++) {
      const struct rondo_plan_op *op = &plan->ops[i];
      if (op->primitive & way) {
        uint32_t peer = out ? rondo_plan_peer(plan, &plan->send, op->send_peer)
                            : rondo_plan_peer(plan, &plan->recv, op->recv_peer);
        count += rondo_plan_topology_machine_of(topology, peer) != machine ? op->repeat : 0;
      }
    }
  }
  return count;
}

// All ports of a machine carry as many chunks, to within one; to within two if neither the ranks of
// the group nor those of the machine concerned can be divided by the ports.
static void assert_ports_are_even(int kind, uint32_t n, uint32_t machine) {
  uint32_t leaders = topology->leaders ? topology->leaders : 1;
  uint32_t machines = topology->machine_count;
  bool gathers = kind == RONDO_ALL_GATHER;
  // Machines whose chunks do not come in, or do not go out.
  const uint32_t left_out[] = {gathers ? machine : (machine + machines - 1) % machines,
                               gathers ? (machine + 1) % machines : machine};
  for (int out = 0; out <= 1; out++) {
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t port = 0; port < leaders; port++) {
      uint32_t count = port_chunks(n, machine, port, out);
      least = count < least ? count : least;
      most = count > most ? count : most;
    }
    bool divides = n % leaders == 0 || topology->machines[left_out[out]].rank_count % leaders == 0;
    assert_in_range(most - least, 0, divides ? 1 : 2);
  }
}

// Each machine gets the parts of the others once, or sends one sum of each, through a connector of
// each lane.
static void two_level_parts_prove(int kind, uint32_t n) {
  uint32_t machines = topology->machine_count;
  uint32_t lanes = rondo_plan_part_lanes(kind, n, topology->leaders);
  group_prove_once(kind, RONDO_ALGORITHM_CHAIN_RING, n, 0);
  assert_int_equal(links_between_machines(n), machines > 1 ? machines * lanes : 0);
  for (uint32_t m = 0; m < machines && machines > 1; m++) {
    uint32_t chunks = kind == RONDO_ALL_GATHER ? chunks_entering(n, m) : chunks_leaving(n, m);
    assert_int_equal(chunks, n - topology->machines[m].rank_count);
    if (lanes == topology->leaders)
      assert_ports_are_even(kind, n, m);
  }
}

// Proves the two-level plans of `n` ranks on the machines `on`, of which each has `ports`.
// With a ring between machines, each sends the least that it can.
static void two_level_prove(const uint32_t *on, uint32_t n, uint32_t ports) {
  struct rondo_plan_location at[RONDO_PLAN_VERIFY_MAX_PARTS];
  for (uint32_t i = 0; i < n; i++)
    at[i] = (struct rondo_plan_location){on[i], i, 1, ports};
  topology = rondo_plan_topology_create(at, n);
  assert_non_null(topology);
  for (size_t k = 0; k < sizeof two_level / sizeof *two_level; k++) {
    group_prove(RONDO_ALL_REDUCE, two_level[k], n, 0);
    uint32_t machines = topology->machine_count;
    bool is_chain = rondo_plan_chains_inside(two_level[k]);
    for (uint32_t m = 0; m < machines && n > 1; m++) {
      assert_int_equal(leaders_of(n, m), machines == 1 ? 0 : is_chain ? topology->leaders : 1);
      if (rondo_plan_rings_between(two_level[k]))
        assert_int_equal(chunks_leaving(n, m),
                         2 * (machines - 1) * (is_chain ? topology->leaders : 1));
    }
    two_level_roots_prove(two_level[k], n);
  }
  two_level_parts_prove(RONDO_ALL_GATHER, n);
  two_level_parts_prove(RONDO_REDUCE_SCATTER, n);
  rondo_plan_topology_destroy(topology);
  topology = NULL;
}

// All N machines of M ranks with N × M at most 64: one machine after the other, and in turn.
static void two_level_is_proved_for_equal_machines(void **state) {
  (void)state;
  uint32_t most = ranks_max < 64 ? ranks_max : 64;
  for (uint32_t machines = 1; machines <= most; machines++)
    for (uint32_t each = 1; machines * each <= most; each++)
      for (int in_turn = 0; in_turn < 2; in_turn++) {
        uint32_t on[64];
        for (uint32_t r = 0; r < machines * each; r++)
          on[r] = in_turn ? r % machines : r / each;
        two_level_prove(on, machines * each, 1);
      }
}

// All compositions of up to 10 ranks: bit i of the number says that a machine ends with rank i.
static void two_level_is_proved_for_unequal_machines(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= rondo_test_load(10, 7); n++)
    for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
      uint32_t on[10], backwards[10];
      for (uint32_t r = 0, machine = 0; r < n; r++) {
        on[r] = machine;
        machine += cuts >> r & 1;
      }
      for (uint32_t r = 0; r < n; r++) // ranks of a machine need not follow each other
        backwards[r] = on[(r * 3 + 1) % n];
      two_level_prove(on, n, 1);
      if (n % 3)
        two_level_prove(backwards, n, 1);
    }
}

// Two to five leaders a machine, as far as all machines have so many ranks; one after the other, in
// turn, and with machines of unequal numbers of ranks.
static void several_leaders_are_proved(void **state) {
  (void)state;
  uint32_t most = ranks_max < 40 ? ranks_max : 40;
  for (uint32_t leaders = 2; leaders <= 5; leaders++)
    for (uint32_t machines = 2; machines * leaders <= most; machines++)
      for (uint32_t more = 0; more <= 3 && machines * (leaders + more) <= most; more++) {
        uint32_t in_turn[40], in_a_row[40], unequal[40], n = machines * (leaders + more);
        for (uint32_t r = 0; r < n; r++) {
          in_turn[r] = r % machines;
          in_a_row[r] = r / (leaders + more);
          unequal[r] = r < machines * leaders ? r % machines : r % 2;
        }
        two_level_prove(in_turn, n, leaders);
        two_level_prove(in_a_row, n, leaders);
        two_level_prove(unequal, n, leaders);
      }
}

// As many leaders as a machine can have, one fewer, and more ports than that.
static void the_most_leaders_are_proved(void **state) {
  (void)state;
  uint32_t on[RANKS_MAX];
  for (uint32_t each = RONDO_PLAN_MAX_LEADERS - 1; each <= RONDO_PLAN_MAX_LEADERS + 2; each++) {
    uint32_t n = (each % 3 ? 2 : 3) * each;
    for (uint32_t r = 0; r < n; r++)
      on[r] = r / each;
    two_level_prove(on, n, each);
  }
}

// The leader with the most peers: one large machine, and as many machines of one rank.
static void two_level_fits_the_largest_groups(void **state) {
  (void)state;
  const uint32_t n = RONDO_MAX_RANKS;
  struct rondo_plan_location *at = calloc(n, sizeof *at);
  assert_non_null(at);
  for (uint32_t i = 0; i < n; i++)
    at[i] = (struct rondo_plan_location){.machine = i <= n / 2 ? 0 : i, .process = i};
  topology = rondo_plan_topology_create(at, n);
  assert_non_null(topology);
  static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_REDUCE, RONDO_BROADCAST};
  for (size_t k = 0; k < 3 * sizeof two_level / sizeof *two_level; k++) {
    struct rondo_plan_request request = {kinds[k % 3], two_level[k / 3], 0, n, 0,
                                         false,        topology,         0};
    assert_int_equal(rondo_plan_build(&request, &plans[k % 3]), RONDO_SUCCESS);
    assert_in_range(plans[k % 3].send.count + plans[k % 3].recv.count, 2,
                    2 * RONDO_PLAN_LISTED_PEERS);
    assert_in_range(plans[k % 3].op_count, 2, RONDO_PLAN_MAX_OPS);
  }
  // The last algorithm, binomial + doubling: 17 children, and 16 rounds or machines.
  assert_int_equal(plans[0].recv.count, 33);
  assert_int_equal(plans[1].recv.count, 33);
  assert_int_equal(plans[2].send.count, 33);
  rondo_plan_topology_destroy(topology);
  topology = NULL;
  free(at);
}

// Fewer slots than the least deadlock, or lose packets, so the number is not merely safe but right.
static void one_slot_fewer_than_the_least_is_refused(void **state) {
  (void)state;
  const int kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    for (uint32_t n = kinds[i] == RONDO_ALL_REDUCE ? 2 : 3; n <= THOROUGH_MAX; n++) {
      assert_int_equal(rondo_plan_least_slots(kinds[i], RONDO_ALGORITHM_RING, n), 2);
      plans_build(kinds[i], RONDO_ALGORITHM_RING, n, 0);
      struct rondo_plan_verify_case what = {kinds[i], n, 0, 1, 1, 0, n % 3, plans, NULL, 0, NULL};
      struct rondo_plan_verify_report report;
      assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
      assert_non_null(strstr(report.message, "deadlock: waits for room"));
    }
  }
  const int packets[][2] = {{RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT_PACKETS},
                            {RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT_PACKETS},
                            {RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT_PACKETS},
                            {RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_DIRECT_PACKETS}};
  for (size_t i = 0; i < sizeof packets / sizeof *packets; i++)
    for (uint32_t n = 2; n <= THOROUGH_MAX; n++) {
      const int kind = packets[i][0], algorithm = packets[i][1];
      assert_int_equal(rondo_plan_least_slots(kind, algorithm, n), 2);
      plans_build(kind, algorithm, n, 0);
      struct rondo_plan_verify_case what = {kind, n, 0, 1, 2, 0, n % 3, plans, NULL, 0, NULL};
      struct rondo_plan_verify_report report;
      assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
      assert_non_null(strstr(report.message, "writes over packets that rank"));
    }
  assert_int_equal(rondo_plan_least_slots(RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING, 2), 2);
  plans_build(RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING, 2, 0);
  struct rondo_plan_verify_case what = {RONDO_ALL_REDUCE, 2, 0, 1, 1, 0, 0, plans, NULL, 0, NULL};
  struct rondo_plan_verify_report report;
  assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
  assert_non_null(strstr(report.message, "deadlock: waits for room"));
}

// A plan with several peers, walked by two ops: each rank sends its part to each of the others.
static void direct_gather_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  const uint16_t none = RONDO_PLAN_NO_PEER;
  memset(plan, 0, sizeof(*plan));
  plan->nranks = plan->chunk_count = n;
  plan->send = (struct rondo_plan_peers){n - 1, 1, {(rank + 1) % n, (rank + 2) % n}};
  plan->recv = (struct rondo_plan_peers){n - 1, n - 1, {(rank + n - 1) % n, (rank + n - 2) % n}};
  plan->ops[0] = (struct rondo_plan_op){
      RONDO_PRIM_SEND | RONDO_PRIM_IN_BASE, 0, none, 1, 0, n - 1, rank, 0, 1};
  plan->ops[1] =
      (struct rondo_plan_op){RONDO_PRIM_COPY | RONDO_PRIM_IN_BASE, none, none, 0, 0, 1, rank, 0, 1};
  plan->ops[2] = (struct rondo_plan_op){
      RONDO_PRIM_RECV | RONDO_PRIM_COPY, none, 0, 1, 0, n - 1, (rank + n - 1) % n, n - 1, 1};
  plan->op_count = 3;
}

static void plans_with_several_peers_can_be_proved(void **state) {
  (void)state;
  for (uint32_t n = 2; n <= 16; n++) {
    for (uint32_t rank = 0; rank < n; rank++)
      direct_gather_build(rank, n, &plans[rank]);
    struct rondo_plan_verify_case what = {
        RONDO_ALL_GATHER, n, 0, 1, LOOPS, 0, 0, plans, NULL, 0, NULL};
    for (what.in_place = 0; what.in_place <= 1; what.in_place++) {
      for (what.seed = 0; what.seed < 4; what.seed++)
        assert_proved(&what, "direct");
    }
  }
}

static void refuses_cases_that_are_out_of_range(void **state) {
  (void)state;
  static struct rondo_plan parts[1];
  plans_build(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 2, 0);
  parts[0] = plans[0];
  parts[0].chunk_count = RONDO_PLAN_VERIFY_MAX_PARTS + 1;
  plans_build(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 2, 0);
  const struct rondo_plan_verify_case bad[] = {
      {-1, 2, 0, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_KIND_COUNT, 2, 0, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_BROADCAST, 0, 0, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_BROADCAST, RONDO_PLAN_VERIFY_MAX_RANKS + 1, 0, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_ALL_REDUCE, RONDO_PLAN_VERIFY_MAX_PARTS + 1, 0, 2, 1, 0, 0, parts, NULL, 0, NULL},
      {RONDO_BROADCAST, 2, 2, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_BROADCAST, 2, 0, 0, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_BROADCAST, 2, 0, 1, 0, 0, 0, plans, NULL, 0, NULL},
      {RONDO_ALL_TO_ALL, 2, 0, 1, 1, 1, 0, plans, NULL, 0, NULL},
      {RONDO_SEND_RECV, 3, 0, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_GATHER, 2, 2, 1, 1, 0, 0, plans, NULL, 0, NULL},
      {RONDO_BROADCAST, 2, 0, 1, 1, 0, 0, plans, NULL, 2, NULL},
      {RONDO_ALL_TO_ALL, 2, 0, 1, 1, 0, 0, plans, NULL, 1, NULL},
      {RONDO_BROADCAST, 2, 0, 1, 1, 0, 0, plans, (const uint32_t[]){1, 1, 1, 1}, 0, NULL},
      {RONDO_BROADCAST, 2, 0, 1, 1, 0, 0, NULL, NULL, 0, NULL}};
  struct rondo_plan_verify_report report;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    assert_int_equal(rondo_plan_verify(&bad[i], &report), RONDO_ERR_INVALID);
    assert_string_equal(report.message, "");
  }
}

// The argument, if there is one, is the most ranks of a group.
int main(int argc, char **argv) {
  ranks_max = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10)
                       : (uint32_t)rondo_test_load(RANKS_MAX, FEWER_RANKS);
  if (ranks_max > RONDO_PLAN_VERIFY_MAX_PARTS)
    return 2;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ring_all_reduce_is_proved),
      cmocka_unit_test(ring_all_reduce_that_keeps_sums_is_proved),
      cmocka_unit_test(quantised_ring_all_reduce_is_proved),
      cmocka_unit_test(tree_all_reduce_is_proved),
      cmocka_unit_test(doubling_all_reduce_is_proved),
      cmocka_unit_test(binomial_all_reduce_is_proved),
      cmocka_unit_test(halving_all_reduce_is_proved),
      cmocka_unit_test(halving_reduce_scatter_is_proved),
      cmocka_unit_test(bruck_all_gather_is_proved),
      cmocka_unit_test(two_shot_all_reduce_is_proved),
      cmocka_unit_test(one_shot_all_reduce_is_proved),
      cmocka_unit_test(all_reduces_of_packets_are_proved),
      cmocka_unit_test(direct_plans_of_packets_are_proved),
      cmocka_unit_test(double_tree_all_reduce_is_proved),
      cmocka_unit_test(double_tree_broadcast_is_proved_for_every_root),
      cmocka_unit_test(double_tree_reduce_is_proved_for_every_root),
      cmocka_unit_test(binomial_reduce_is_proved_for_every_root),
      cmocka_unit_test(binomial_gather_is_proved_for_every_root),
      cmocka_unit_test(binomial_scatter_is_proved_for_every_root),
      cmocka_unit_test(binomial_broadcast_is_proved_for_every_root),
      cmocka_unit_test(tree_broadcast_is_proved_for_every_root),
      cmocka_unit_test(rings_enter_each_machine_once),
      cmocka_unit_test(trees_keep_machines_together),
      cmocka_unit_test(two_level_is_proved_for_equal_machines),
      cmocka_unit_test(two_level_is_proved_for_unequal_machines),
      cmocka_unit_test(several_leaders_are_proved),
      cmocka_unit_test(the_most_leaders_are_proved),
      cmocka_unit_test(two_level_fits_the_largest_groups),
      cmocka_unit_test(ring_all_gather_is_proved),
      cmocka_unit_test(ring_reduce_scatter_is_proved),
      cmocka_unit_test(ring_reduce_is_proved_for_every_root),
      cmocka_unit_test(ring_broadcast_is_proved_for_every_root),
      cmocka_unit_test(direct_all_reduce_is_proved),
      cmocka_unit_test(direct_reduce_scatter_is_proved),
      cmocka_unit_test(direct_reduce_is_proved_for_every_root),
      cmocka_unit_test(direct_all_gather_is_proved),
      cmocka_unit_test(direct_broadcast_is_proved_for_every_root),
      cmocka_unit_test(direct_gather_is_proved_for_every_root),
      cmocka_unit_test(direct_scatter_is_proved_for_every_root),
      cmocka_unit_test(direct_send_recv_is_proved_both_ways_and_to_oneself),
      cmocka_unit_test(direct_all_to_all_is_proved),
      cmocka_unit_test(bruck_all_to_all_is_proved),
      cmocka_unit_test(direct_all_to_all_v_is_proved_for_uneven_pairs),
      cmocka_unit_test(barrier_by_dissemination_is_proved),
      cmocka_unit_test(plans_of_256_ranks_are_proved),
      cmocka_unit_test(plans_of_up_to_4096_ranks_are_proved),
      cmocka_unit_test(bruck_all_to_all_of_up_to_4096_ranks_moves_every_part),
      cmocka_unit_test(chunks_are_proved_one_at_a_time),
      cmocka_unit_test(one_slot_fewer_than_the_least_is_refused),
      cmocka_unit_test(plans_with_several_peers_can_be_proved),
      cmocka_unit_test(refuses_cases_that_are_out_of_range),
  };
  return cmocka_run_group_tests_name("plan_verify", tests, NULL, NULL);
}
