// The plans that the builders of daemon/plan make, op by op, and what they refuse.
// test_plan_verify.c shows that the plans compute the right results.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/plan/build.h"
#include "rondo/status.h"
#include "rondo/types.h"

enum {
  S = RONDO_PRIM_SEND,
  R = RONDO_PRIM_RECV,
  ADD = RONDO_PRIM_REDUCE,
  C = RONDO_PRIM_COPY,
  F = RONDO_PRIM_FINAL,
  IN = RONDO_PRIM_IN_BASE,
  OUT = RONDO_PRIM_OUT_BASE,
  RESULT = RONDO_PRIM_RESULT
};

struct expected_op {
  int primitive;
  uint32_t repeat, first_chunk;
};

static struct rondo_plan plan_of(int kind, int algorithm, uint32_t rank, uint32_t n,
                                 uint32_t root) {
  struct rondo_plan_request request = {kind, algorithm, rank, n, root, false, NULL, 0};
  struct rondo_plan plan;
  assert_int_equal(rondo_plan_build(&request, &plan), RONDO_SUCCESS);
  return plan;
}

static void assert_ops(const struct rondo_plan *plan, const struct expected_op *ops,
                       uint32_t op_count) {
  assert_int_equal(plan->op_count, op_count);
  for (uint32_t i = 0; i < op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    assert_int_equal(op->primitive, ops[i].primitive);
    assert_int_equal(op->repeat, ops[i].repeat);
    assert_int_equal(op->first_chunk, ops[i].first_chunk);
    assert_int_equal(op->chunk_stride, plan->chunk_count - 1);
    assert_int_equal(op->width, 1);
    assert_int_equal(op->send_peer, ops[i].primitive & S ? 0 : RONDO_PLAN_NO_PEER);
    assert_int_equal(op->recv_peer, ops[i].primitive & R ? 0 : RONDO_PLAN_NO_PEER);
    assert_int_equal(op->peer_stride, 0);
  }
}

// `send` and `recv` are the peers, or -1 for none.
static void assert_peers(const struct rondo_plan *plan, int send, int recv) {
  assert_int_equal(plan->send.count, send >= 0);
  assert_int_equal(plan->recv.count, recv >= 0);
  if (send >= 0)
    assert_int_equal(rondo_plan_peer(plan, &plan->send, 0), send);
  if (recv >= 0)
    assert_int_equal(rondo_plan_peer(plan, &plan->recv, 0), recv);
}

static void assert_walk(const struct rondo_plan_peers *peers, const struct rondo_plan *plan,
                        uint32_t count, const uint32_t *ranks) {
  assert_int_equal(peers->count, count);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(rondo_plan_peer(plan, peers, i), ranks[i]);
}

static void ring_all_reduce_is_five_ops_at_any_size(void **state) {
  (void)state;
  const struct expected_op four[] = {{S, 1, 0},
                                     {R | ADD | S, 2, 3},
                                     {R | ADD | C | S | F, 1, 1},
                                     {R | C | S, 2, 0},
                                     {R | C, 1, 2}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 1, 4, 0);
  assert_ops(&plan, four, 5);
  assert_peers(&plan, 2, 0);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, RONDO_MAX_RANKS, 0);
  assert_int_equal(plan.op_count, 5);
  assert_int_equal(plan.ops[1].repeat, RONDO_MAX_RANKS - 2);
  assert_peers(&plan, 1, RONDO_MAX_RANKS - 1);
}

static void ring_of_two_leaves_out_ops_that_would_not_repeat(void **state) {
  (void)state;
  const struct expected_op reduce[] = {{S, 1, 1}, {R | ADD | C | S | F, 1, 0}, {R | C, 1, 1}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, 2, 0);
  assert_ops(&plan, reduce, 3);
  assert_peers(&plan, 1, 1);
  const struct expected_op gather[] = {{C | S | IN, 1, 0}, {R | C, 1, 1}};
  plan = plan_of(RONDO_ALL_GATHER, RONDO_ALGORITHM_RING, 0, 2, 0);
  assert_ops(&plan, gather, 2);
  const struct expected_op scatter[] = {{S, 1, 1}, {R | ADD | C | F | OUT, 1, 0}};
  plan = plan_of(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_RING, 0, 2, 0);
  assert_ops(&plan, scatter, 2);
}

static void ring_gather_and_scatter_of_three(void **state) {
  (void)state;
  const struct expected_op gather[] = {{C | S | IN, 1, 2}, {R | C | S, 1, 1}, {R | C, 1, 0}};
  struct rondo_plan plan = plan_of(RONDO_ALL_GATHER, RONDO_ALGORITHM_RING, 2, 3, 0);
  assert_ops(&plan, gather, 3);
  assert_peers(&plan, 0, 1);
  const struct expected_op scatter[] = {
      {S, 1, 1}, {R | ADD | S, 1, 0}, {R | ADD | C | F | OUT, 1, 2}};
  plan = plan_of(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_RING, 2, 3, 0);
  assert_ops(&plan, scatter, 3);
  assert_peers(&plan, 0, 1);
}

static void reduce_runs_along_the_ring_to_its_root(void **state) {
  (void)state;
  const struct expected_op first[] = {{S, 1, 0}}, middle[] = {{R | ADD | S, 1, 0}},
                           root[] = {{R | ADD | C | F, 1, 0}};
  struct rondo_plan plan = plan_of(RONDO_REDUCE, RONDO_ALGORITHM_RING, 2, 4, 1);
  assert_ops(&plan, first, 1);
  assert_peers(&plan, 3, -1);
  plan = plan_of(RONDO_REDUCE, RONDO_ALGORITHM_RING, 3, 4, 1);
  assert_ops(&plan, middle, 1);
  assert_peers(&plan, 0, 2);
  plan = plan_of(RONDO_REDUCE, RONDO_ALGORITHM_RING, 1, 4, 1);
  assert_ops(&plan, root, 1);
  assert_peers(&plan, -1, 0);
}

static void broadcast_runs_along_the_ring_from_its_root(void **state) {
  (void)state;
  const struct expected_op root[] = {{C | S, 1, 0}}, middle[] = {{R | C | S, 1, 0}},
                           last[] = {{R | C, 1, 0}};
  struct rondo_plan plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 3, 4, 3);
  assert_ops(&plan, root, 1);
  assert_peers(&plan, 0, -1);
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 0, 4, 3);
  assert_ops(&plan, middle, 1);
  assert_peers(&plan, 1, 3);
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 2, 4, 3);
  assert_ops(&plan, last, 1);
  assert_peers(&plan, -1, 1);
}

// An op of a plan of one chunk: which peers it has first, and whether it goes on to the next ones.
struct tree_op {
  int primitive;
  uint32_t repeat, peer, peer_stride;
};

static void assert_tree_ops(const struct rondo_plan *plan, const struct tree_op *ops,
                            uint32_t op_count) {
  assert_int_equal(plan->chunk_count, 1);
  assert_int_equal(plan->op_count, op_count);
  for (uint32_t i = 0; i < op_count; i++) {
    const struct rondo_plan_op *op = &plan->ops[i];
    assert_int_equal(op->primitive, ops[i].primitive);
    assert_int_equal(op->repeat, ops[i].repeat);
    assert_int_equal(op->send_peer, ops[i].primitive & S ? ops[i].peer : RONDO_PLAN_NO_PEER);
    assert_int_equal(op->recv_peer, ops[i].primitive & R ? ops[i].peer : RONDO_PLAN_NO_PEER);
    assert_int_equal(op->peer_stride, ops[i].peer_stride);
  }
}

// Of 8 ranks: 0 has the children 1, 2 and 3; 1 has 4 and 7, 2 has 5, 3 has 6.
static void a_tree_has_two_levels(void **state) {
  (void)state;
  const struct tree_op top[] = {{R | ADD | C, 1, 0, 1},
                                {R | ADD | C | RESULT, 1, 1, 1},
                                {R | ADD | C | RESULT | F, 1, 2, 1},
                                {S | RESULT, 3, 0, 1}},
                       between[] = {{R | ADD | C, 1, 1, 1},
                                    {R | ADD | C | RESULT, 1, 2, 1},
                                    {S | RESULT, 1, 0, 0},
                                    {R | C, 1, 0, 0},
                                    {S | RESULT, 2, 1, 1}},
                       leaf[] = {{S, 1, 0, 0}, {R | C, 1, 0, 0}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 0, 8, 5);
  assert_tree_ops(&plan, top, 4);
  assert_walk(&plan.recv, &plan, 3, (const uint32_t[]){1, 2, 3});
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 1, 8, 5);
  assert_tree_ops(&plan, between, 5);
  assert_walk(&plan.send, &plan, 3, (const uint32_t[]){0, 4, 7});
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 7, 8, 5);
  assert_tree_ops(&plan, leaf, 2);
  assert_peers(&plan, 1, 1);
  assert_int_equal(plan.by_value, 0);
}

// The same tree, with the root at its top: 5, with the children 6, 7 and 0; 6 has 1 and 4.
static void a_broadcast_goes_down_the_tree_from_its_root(void **state) {
  (void)state;
  const struct tree_op top[] = {{S, 3, 0, 1}, {C, 1, 0, 0}},
                       between[] = {{R | C, 1, 0, 0}, {S | RESULT, 2, 0, 1}},
                       leaf[] = {{R | C, 1, 0, 0}};
  struct rondo_plan plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_TREE, 5, 8, 5);
  assert_tree_ops(&plan, top, 2);
  assert_walk(&plan.send, &plan, 3, (const uint32_t[]){6, 7, 0});
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_TREE, 6, 8, 5);
  assert_tree_ops(&plan, between, 2);
  assert_walk(&plan.send, &plan, 2, (const uint32_t[]){1, 4});
  assert_walk(&plan.recv, &plan, 1, (const uint32_t[]){5});
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_TREE, 4, 8, 5);
  assert_tree_ops(&plan, leaf, 1);
  assert_peers(&plan, -1, 6);
}

// Of 7 positions: 0 has the children 1, 2 and 4; 2 has 3; 4 has 5 and 6.
static void a_binomial_tree_adds_small_subtrees_first(void **state) {
  (void)state;
  const struct tree_op top[] = {{R | ADD | C, 1, 0, 1},
                                {R | ADD | C | RESULT, 1, 1, 1},
                                {R | ADD | C | RESULT | F, 1, 2, 1},
                                {S | RESULT, 3, 0, 1}},
                       between[] = {{R | ADD | C, 1, 1, 1},
                                    {R | ADD | C | RESULT, 1, 2, 1},
                                    {S | RESULT, 1, 0, 0},
                                    {R | C, 1, 0, 0},
                                    {S | RESULT, 2, 1, 1}},
                       down[] = {{R | C, 1, 0, 0}, {S | RESULT, 2, 0, 1}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL, 0, 7, 3);
  assert_tree_ops(&plan, top, 4);
  assert_walk(&plan.recv, &plan, 3, (const uint32_t[]){1, 2, 4});
  assert_walk(&plan.send, &plan, 3, (const uint32_t[]){4, 2, 1});
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL, 4, 7, 3);
  assert_tree_ops(&plan, between, 5);
  assert_walk(&plan.recv, &plan, 3, (const uint32_t[]){0, 5, 6});
  assert_walk(&plan.send, &plan, 3, (const uint32_t[]){0, 6, 5});
  // Position 4 of a broadcast from rank 5 is rank 2.
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_BINOMIAL, 2, 7, 5);
  assert_tree_ops(&plan, down, 2);
  assert_walk(&plan.recv, &plan, 1, (const uint32_t[]){5});
  assert_walk(&plan.send, &plan, 2, (const uint32_t[]){4, 3});
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL, 0, RONDO_MAX_RANKS, 0);
  assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL, 65536, RONDO_MAX_RANKS, 0);
  assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
}

// Of 6 ranks: 4 and 5 are folded into 0 and 1. Ranks 0 and 1, 2 and 3 add to each other first, then
// 0 and 2, 1 and 3.
static void doubling_exchanges_sums_at_growing_distances(void **state) {
  (void)state;
  const struct tree_op folds[] = {{R | ADD | C | S, 1, 0, 1},
                                  {R | ADD | C | RESULT | S, 1, 1, 1},
                                  {R | ADD | C | RESULT | F | S, 1, 2, 1}},
                       plain[] = {{S, 1, 1, 1},
                                  {R | ADD | C | S, 1, 0, 1},
                                  {R | ADD | C | RESULT | F, 1, 1, 1}},
                       folded[] = {{S, 1, 0, 0}, {R | C, 1, 0, 0}},
                       of_two[] = {{S, 1, 0, 1}, {R | ADD | C | F, 1, 0, 1}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 1, 6, 0);
  assert_tree_ops(&plan, folds, 3);
  assert_walk(&plan.recv, &plan, 3, (const uint32_t[]){5, 0, 3});
  assert_walk(&plan.send, &plan, 3, (const uint32_t[]){0, 3, 5});
  assert_int_equal(plan.by_value, 1);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 2, 6, 0);
  assert_tree_ops(&plan, plain, 3);
  assert_walk(&plan.recv, &plan, 2, (const uint32_t[]){3, 0});
  assert_walk(&plan.send, &plan, 2, (const uint32_t[]){0, 3});
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 5, 6, 0);
  assert_tree_ops(&plan, folded, 2);
  assert_peers(&plan, 1, 1);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 1, 2, 0);
  assert_tree_ops(&plan, of_two, 2);
  assert_peers(&plan, 0, 0);
}

// The most rounds, and rounds with a fold before and after them: ⌈log2 n⌉ peers and four ops.
static void doubling_fits_the_largest_groups(void **state) {
  (void)state;
  const uint32_t sizes[] = {RONDO_MAX_RANKS, RONDO_MAX_RANKS - 1};
  for (size_t i = 0; i < 2; i++) {
    struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 0, sizes[i], 0);
    assert_int_equal(plan.op_count, i == 0 ? 4 : 3);
    assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
    assert_int_equal(plan.recv.count, RONDO_PLAN_MAX_ROUNDS);
  }
}

static void halving_fits_the_largest_groups(void **state) {
  (void)state;
  const uint32_t sizes[] = {RONDO_MAX_RANKS, RONDO_MAX_RANKS - 1, RONDO_MAX_RANKS / 2 + 1};
  for (size_t i = 0; i < 3; i++) {
    struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING, 0, sizes[i], 0);
    assert_int_equal(plan.op_count, RONDO_PLAN_MAX_OPS - (i == 0));
    assert_in_range(plan.send.count, RONDO_PLAN_MAX_ROUNDS, RONDO_PLAN_LISTED_PEERS);
    assert_int_equal(plan.recv.count, plan.send.count);
    plan = plan_of(RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK, 0, sizes[i], 0);
    assert_int_equal(plan.op_count, 2 * RONDO_PLAN_MAX_ROUNDS);
    assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
    plan = plan_of(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_BRUCK, 0, sizes[i], 0);
    assert_int_equal(plan.op_count, 2 * RONDO_PLAN_MAX_ROUNDS + 2);
    assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
    plan = plan_of(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_HALVING, 0, sizes[i], 0);
    assert_int_equal(plan.op_count, 2 * RONDO_PLAN_MAX_ROUNDS + sizes[i] % 2);
    assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
    assert_int_equal(plan.scratch_count, sizes[i] - sizes[i] / 2);
  }
}

// Rank 2 of 5 adds the inputs of 0 and 1, its own, and those of 3 and 4. Ranks 0 and 1 reduce what
// they receive first with their own input.
static void one_shot_adds_in_the_order_of_positions(void **state) {
  (void)state;
  const int from = RONDO_PRIM_IN_SCRATCH, to = RONDO_PRIM_OUT_SCRATCH;
  const struct tree_op middle[] = {{S, 4, 0, 1},
                                   {R | C | to, 1, 2, 1},
                                   {R | ADD | C | from | to, 1, 3, 1},
                                   {ADD | C | from | to, 1, 0, 0},
                                   {R | ADD | C | from | to, 1, 0, 1},
                                   {R | ADD | C | from | F, 1, 1, 1}},
                       first[] = {{S, 4, 0, 1},
                                  {R | ADD | C | to, 1, 0, 1},
                                  {R | ADD | C | from | to, 2, 1, 1},
                                  {R | ADD | C | from | F, 1, 3, 1}},
                       last[] = {{S, 4, 0, 1},
                                 {R | C | to, 1, 0, 1},
                                 {R | ADD | C | from | to, 3, 1, 1},
                                 {ADD | C | from | F, 1, 0, 0}};
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 2, 5, 0);
  assert_tree_ops(&plan, middle, 6);
  assert_walk(&plan.recv, &plan, 4, (const uint32_t[]){3, 4, 0, 1});
  assert_int_equal(plan.by_value, 1);
  assert_int_equal(plan.scratch_count, 1);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 0, 5, 0);
  assert_tree_ops(&plan, first, 4);
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 4, 5, 0);
  assert_tree_ops(&plan, last, 4);
}

// The op of one execution for one chunk.
static struct rondo_plan_op op_of(int primitive, uint32_t chunk, uint16_t send, uint16_t recv) {
  return (struct rondo_plan_op){.primitive = (uint16_t)primitive,
                                .send_peer = primitive & S ? send : RONDO_PLAN_NO_PEER,
                                .recv_peer = primitive & R ? recv : RONDO_PLAN_NO_PEER,
                                .repeat = 1,
                                .first_chunk = chunk,
                                .width = 1};
}

static void assert_op(const struct rondo_plan_op *op, struct rondo_plan_op expected) {
  assert_memory_equal(op, &expected, sizeof(expected));
}

// Of 7 ranks, the first tree is 0, below it 4, below that 2 (with 1 and 3) and 6 (with 5). The
// second is 0, 3, below that 5 (with 6 and 4) and 1 (with 2).
static void a_rank_passes_on_in_one_of_two_trees(void **state) {
  (void)state;
  struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, 4, 7, 3);
  assert_walk(&plan.send, &plan, 4, (const uint32_t[]){5, 0, 2, 6});
  assert_walk(&plan.recv, &plan, 4, (const uint32_t[]){6, 2, 0, 5});
  assert_int_equal(plan.op_count, 6);
  assert_int_equal(plan.first_pass, 3);
  assert_int_equal(plan.chunk_count, 2);
  assert_op(&plan.ops[0], op_of(S, 1, 0, 0));
  assert_op(&plan.ops[1], op_of(R | ADD | C, 0, 0, 0));
  assert_op(&plan.ops[2], op_of(R | ADD | C | RESULT | S, 0, 1, 1));
  assert_op(&plan.ops[3], op_of(R | C | S, 0, 2, 2));
  assert_op(&plan.ops[4], op_of(S | RESULT, 0, 3, 0));
  assert_op(&plan.ops[5], op_of(R | C, 1, 0, 3));
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, 6, 7, 3);
  assert_int_equal(plan.op_count, 4);
  assert_op(&plan.ops[1], op_of(R | ADD | S, 0, 1, 0)); // one child
  plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, 0, 7, 3);
  assert_walk(&plan.recv, &plan, 2, (const uint32_t[]){4, 3});
  assert_op(&plan.ops[1], op_of(R | ADD | C | F, 1, 0, 1));
  assert_op(&plan.ops[2], op_of(S | RESULT, 0, 0, 0));
}

// The leader of the second of three machines, two ranks on each: it finishes chunk 1 in the first
// pass, and sends it on in the second one. A leader that is alone on its machine gets nothing back
// by doubling.
static void a_leader_goes_half_round_the_ring_in_each_pass(void **state) {
  (void)state;
  static const uint32_t on[] = {0, 0, 1, 1, 2, 2};
  struct rondo_plan_location at[6];
  for (uint32_t i = 0; i < 6; i++)
    at[i] = (struct rondo_plan_location){on[i], i, 1, 1};
  struct rondo_plan_topology *t = rondo_plan_topology_create(at, 6);
  struct rondo_plan_request q = {
      RONDO_ALL_REDUCE, RONDO_ALGORITHM_CHAIN_RING, 2, 6, 0, false, t, 0};
  struct rondo_plan plan;
  assert_non_null(t);
  assert_int_equal(rondo_plan_build(&q, &plan), RONDO_SUCCESS);
  static const int primitives[] = {R | ADD | C,
                                   S | RESULT,
                                   R | ADD | C | RESULT | S,
                                   R | ADD | C | RESULT | F,
                                   S | RESULT,
                                   R | C | S,
                                   R | C,
                                   S | RESULT};
  static const uint32_t chunks[] = {2, 0, 2, 1, 1, 0, 2, 2};
  assert_int_equal(plan.op_count, 8);
  assert_int_equal(plan.first_pass, 4);
  for (uint32_t i = 0; i < plan.op_count; i++) {
    assert_int_equal(plan.ops[i].primitive, primitives[i]);
    assert_int_equal(plan.ops[i].first_chunk, chunks[i]);
  }
  q.rank = 3;
  assert_int_equal(rondo_plan_build(&q, &plan), RONDO_SUCCESS);
  assert_int_equal(plan.first_pass, 1);
  rondo_plan_topology_destroy(t);
  at[1].machine = 1;
  t = rondo_plan_topology_create(at, 6);
  assert_non_null(t);
  q = (struct rondo_plan_request){
      RONDO_ALL_REDUCE, RONDO_ALGORITHM_CHAIN_DOUBLING, 0, 6, 0, false, t, 0};
  assert_int_equal(rondo_plan_build(&q, &plan), RONDO_SUCCESS);
  assert_int_equal(plan.first_pass, 0);
  rondo_plan_topology_destroy(t);
}

// A rank with two children adds up in scratch.
static void two_trees_of_a_reduce_go_up_in_one_pass(void **state) {
  (void)state;
  struct rondo_plan plan = plan_of(RONDO_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, 4, 7, 0);
  assert_int_equal(plan.op_count, 3);
  assert_int_equal(plan.first_pass, 0);
  assert_int_equal(plan.scratch_count, 1);
  assert_op(&plan.ops[1], op_of(R | ADD | C | RONDO_PRIM_OUT_SCRATCH, 0, 0, 0));
  assert_op(&plan.ops[2], op_of(R | ADD | S | RONDO_PRIM_IN_SCRATCH, 0, 1, 1));
}

// Of 11 ranks and root 3, rank 0 is node 8, with the children 9 and 10.
static void a_binomial_gather_sends_whole_subtrees(void **state) {
  (void)state;
  struct rondo_plan plan = plan_of(RONDO_GATHER, RONDO_ALGORITHM_BINOMIAL, 0, 11, 3);
  assert_walk(&plan.recv, &plan, 2, (const uint32_t[]){1, 2});
  assert_walk(&plan.send, &plan, 1, (const uint32_t[]){3});
  assert_int_equal(plan.op_count, 4);
  assert_int_equal(plan.scratch_first, 0);
  assert_int_equal(plan.scratch_count, 3);
  struct rondo_plan_op whole = op_of(S | RONDO_PRIM_IN_SCRATCH, 0, 0, 0);
  whole.width = 3;
  assert_op(&plan.ops[3], whole);
  plan = plan_of(RONDO_GATHER, RONDO_ALGORITHM_BINOMIAL, 3, 11, 3);
  assert_walk(&plan.recv, &plan, 4, (const uint32_t[]){4, 5, 7, 0});
  assert_int_equal(plan.scratch_count, 0);
  assert_int_equal(plan.ops[3].width, 4);
  plan = plan_of(RONDO_SCATTER, RONDO_ALGORITHM_BINOMIAL, 3, 11, 3);
  assert_walk(&plan.send, &plan, 4, (const uint32_t[]){0, 7, 5, 4});
}

// The same trees from root 2.
static void two_trees_of_a_broadcast_have_the_same_root(void **state) {
  (void)state;
  struct rondo_plan plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_DOUBLE_TREE, 2, 7, 2);
  assert_walk(&plan.send, &plan, 2, (const uint32_t[]){6, 5});
  assert_int_equal(plan.recv.count, 0);
  assert_int_equal(plan.first_pass, 0);
  assert_op(&plan.ops[0], op_of(C | S, 0, 0, 0));
  assert_op(&plan.ops[1], op_of(C | S, 1, 1, 0));
  plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_DOUBLE_TREE, 6, 7, 2);
  assert_walk(&plan.recv, &plan, 2, (const uint32_t[]){2, 0});
  assert_walk(&plan.send, &plan, 2, (const uint32_t[]){4, 1});
  assert_op(&plan.ops[0], op_of(R | C | S, 0, 0, 0));
  assert_op(&plan.ops[1], op_of(S | RESULT, 0, 1, 0));
  assert_op(&plan.ops[2], op_of(R | C, 1, 0, 1));
}

// In each pass a rank sends at most two chunks and receives at most two.
static void two_trees_share_the_work(void **state) {
  (void)state;
  for (uint32_t n = 2; n <= RONDO_MAX_RANKS; n += n < 300 ? 1 : n / 2 + 1)
    for (uint32_t rank = 0; rank < n; rank += n < 300 ? 1 : 1 + rank / 3) {
      struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, rank, n, 0);
      uint32_t sends[2] = {0}, receives[2] = {0};
      for (uint32_t i = 0; i < plan.op_count; i++) {
        sends[i >= plan.first_pass] += (plan.ops[i].primitive & S) != 0;
        receives[i >= plan.first_pass] += (plan.ops[i].primitive & R) != 0;
      }
      for (int pass = 0; pass < 2; pass++) {
        assert_in_range(sends[pass], 0, 2);
        assert_in_range(receives[pass], 0, 2);
      }
    }
}

static void all_to_all_is_three_ops_at_any_size(void **state) {
  (void)state;
  const uint16_t none = RONDO_PLAN_NO_PEER;
  for (uint32_t n = 2; n <= RONDO_PLAN_DIRECT_MOST_RANKS; n = n * 3 + 1) {
    uint32_t rank = n / 2;
    struct rondo_plan plan = plan_of(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_DIRECT, rank, n, 0);
    assert_int_equal(plan.op_count, 3);
    assert_op(&plan.ops[0], (struct rondo_plan_op){S, 0, none, 1, 0, n - 1, (rank + 1) % n, 1, 1});
    assert_int_equal(plan.ops[1].primitive, C);
    assert_int_equal(plan.ops[1].first_chunk, rank);
    assert_op(&plan.ops[2],
              (struct rondo_plan_op){R | C, none, 0, 1, 0, n - 1, (rank + n - 1) % n, n - 1, 1});
    for (uint32_t i = 0; i + 1 < n; i++) {
      assert_int_equal(rondo_plan_peer(&plan, &plan.send, i), (rank + 1 + i) % n);
      assert_int_equal(rondo_plan_peer(&plan, &plan.recv, i), (rank + n - 1 - i) % n);
    }
  }
}

static void gather_and_scatter_have_one_op_beside_the_root(void **state) {
  (void)state;
  const struct expected_op give[] = {{S | IN, 1, 3}}, take[] = {{R | C | OUT, 1, 3}};
  struct rondo_plan plan = plan_of(RONDO_GATHER, RONDO_ALGORITHM_DIRECT, 3, 5, 2);
  assert_ops(&plan, give, 1);
  assert_peers(&plan, 2, -1);
  plan = plan_of(RONDO_SCATTER, RONDO_ALGORITHM_DIRECT, 3, 5, 2);
  assert_ops(&plan, take, 1);
  assert_peers(&plan, -1, 2);
  plan = plan_of(RONDO_GATHER, RONDO_ALGORITHM_DIRECT, 2, 5, 2);
  assert_int_equal(plan.op_count, 2);
  assert_int_equal(plan.recv.count, 4);
  plan = plan_of(RONDO_SCATTER, RONDO_ALGORITHM_DIRECT, 2, 5, 2);
  assert_int_equal(plan.op_count, 2);
  assert_int_equal(plan.send.count, 4);
}

static void a_barrier_signals_to_powers_of_two(void **state) {
  (void)state;
  struct rondo_plan plan = plan_of(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, 3, 6, 0);
  const uint32_t to[] = {4, 5, 1}, from[] = {2, 1, 5};
  assert_int_equal(plan.op_count, 3);
  assert_int_equal(plan.send.count, 3);
  assert_int_equal(plan.recv.count, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(rondo_plan_peer(&plan, &plan.send, i), to[i]);
    assert_int_equal(rondo_plan_peer(&plan, &plan.recv, i), from[i]);
  }
  assert_op(&plan.ops[1], (struct rondo_plan_op){R | S, 1, 0, 1, 0, 2, 0, 0, 1});
  plan = plan_of(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, 0, RONDO_MAX_RANKS, 0);
  assert_int_equal(plan.send.count, RONDO_PLAN_MAX_ROUNDS);
  plan = plan_of(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, 0, 1, 0);
  assert_int_equal(plan.op_count, 0);
}

static void group_of_one_is_one_copy_without_peers(void **state) {
  (void)state;
  const struct {
    int kind, algorithm, primitive;
  } cases[] = {{RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, C | F},
               {RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, C | F},
               {RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, C | F},
               {RONDO_ALL_REDUCE, RONDO_ALGORITHM_BINOMIAL, C | F},
               {RONDO_ALL_GATHER, RONDO_ALGORITHM_RING, C | IN},
               {RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_RING, C | F | OUT},
               {RONDO_REDUCE, RONDO_ALGORITHM_RING, C | F},
               {RONDO_BROADCAST, RONDO_ALGORITHM_RING, C},
               {RONDO_SEND_RECV, RONDO_ALGORITHM_DIRECT, C},
               {RONDO_ALL_TO_ALL, RONDO_ALGORITHM_DIRECT, C},
               {RONDO_ALL_TO_ALL_V, RONDO_ALGORITHM_DIRECT, C},
               {RONDO_GATHER, RONDO_ALGORITHM_DIRECT, C | IN},
               {RONDO_SCATTER, RONDO_ALGORITHM_DIRECT, C | OUT}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const struct expected_op copy[] = {{cases[i].primitive, 1, 0}};
    struct rondo_plan plan = plan_of(cases[i].kind, cases[i].algorithm, 0, 1, 0);
    assert_int_equal(plan.chunk_count, 1);
    assert_ops(&plan, copy, 1);
    assert_peers(&plan, -1, -1);
  }
}

static void refuses_what_is_out_of_range_and_writes_nothing(void **state) {
  (void)state;
  const struct rondo_plan_request bad[] = {
      {-1, RONDO_ALGORITHM_RING, 0, 2, 0, false, NULL, 0},
      {RONDO_KIND_COUNT, RONDO_ALGORITHM_RING, 0, 2, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, -1, 0, 2, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_COUNT, 0, 2, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, 0, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 2, 2, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, RONDO_MAX_RANKS + 1, 0, false, NULL, 0},
      {RONDO_REDUCE, RONDO_ALGORITHM_RING, 0, 2, 2, false, NULL, 0},
      {RONDO_BROADCAST, RONDO_ALGORITHM_RING, 0, 2, UINT32_MAX, false, NULL, 0},
      {RONDO_GATHER, RONDO_ALGORITHM_DIRECT, 0, 2, 2, false, NULL, 0},
      {RONDO_SCATTER, RONDO_ALGORITHM_DIRECT, 0, 2, 2, false, NULL, 0},
      {RONDO_SEND_RECV, RONDO_ALGORITHM_DIRECT, 0, 2, 2, false, NULL, 0},
      {RONDO_SEND_RECV, RONDO_ALGORITHM_DIRECT, 0, 3, 0, false, NULL, 0},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, 2, 0, false, NULL, -1},
      {RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, 2, 0, false, NULL, RONDO_QUANTISATION_COUNT}};
  struct rondo_plan plan, before;
  memset(&before, 0x5a, sizeof(before));
  plan = before;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    assert_int_equal(rondo_plan_build(&bad[i], &plan), RONDO_ERR_INVALID);
  for (int kind = RONDO_ALL_GATHER; kind < RONDO_KIND_COUNT; kind++) {
    struct rondo_plan_request tree = {kind, RONDO_ALGORITHM_TREE, 0, 2, 0, false, NULL, 0};
    if (kind != RONDO_BROADCAST)
      assert_int_equal(rondo_plan_build(&tree, &plan), RONDO_ERR_UNSUPPORTED);
  }
  struct rondo_plan_request good = {
      RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 0, 2, 0, false, NULL, 0};
  assert_int_equal(rondo_plan_build(NULL, &plan), RONDO_ERR_INVALID);
  assert_int_equal(rondo_plan_build(&good, NULL), RONDO_ERR_INVALID);
  assert_memory_equal(&plan, &before, sizeof(plan));
}

// The ops say it, so the blocks, the verifier and rondo-info read the same.
static void quantises_the_messages_of_a_ring_all_reduce_alone(void **state) {
  (void)state;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++) {
      struct rondo_plan_request request = {kind, algorithm, 0,    2,
                                           0,    true,      NULL, RONDO_QUANTISE_FLOAT8_E4M3};
      struct rondo_plan plan;
      bool is_ring = kind == RONDO_ALL_REDUCE && algorithm == RONDO_ALGORITHM_RING;
      assert_int_equal(rondo_plan_build(&request, &plan),
                       is_ring ? RONDO_SUCCESS : RONDO_ERR_UNSUPPORTED);
      if (!is_ring)
        continue;
      assert_true(plan.by_value && !plan.keeps_sums);
      for (uint32_t i = 0; i < plan.op_count; i++)
        assert_int_equal(RONDO_PRIM_QUANTISATION(plan.ops[i].primitive),
                         RONDO_QUANTISE_FLOAT8_E4M3);
      request.nranks = 1;
      assert_int_equal(rondo_plan_build(&request, &plan), RONDO_SUCCESS);
      assert_int_equal(plan.op_count, 1);
      assert_int_equal(plan.ops[0].primitive, RONDO_PRIM_COPY | RONDO_PRIM_FINAL);
    }
  }
}

// A rank of a direct plan has a peer for each other rank, and not all numbers of peers fit.
static void refuses_direct_plans_of_more_ranks_than_peers_have_numbers(void **state) {
  (void)state;
  const int kinds[] = {RONDO_ALL_TO_ALL, RONDO_ALL_TO_ALL_V, RONDO_GATHER, RONDO_SCATTER};
  const uint32_t most = RONDO_PLAN_DIRECT_MOST_RANKS;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    struct rondo_plan plan = plan_of(kinds[i], RONDO_ALGORITHM_DIRECT, 0, most, 0);
    assert_int_equal(plan.send.count + plan.recv.count,
                     (kinds[i] < RONDO_GATHER ? 2 : 1) * (most - 1));
    const struct rondo_plan_request larger = {
        kinds[i], RONDO_ALGORITHM_DIRECT, 1, most + 1, 0, false, NULL, 0};
    assert_int_equal(rondo_plan_build(&larger, &plan), RONDO_ERR_UNSUPPORTED);
  }
}

static void root_is_ignored_where_there_is_none(void **state) {
  (void)state;
  struct rondo_plan with = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 1, 3, UINT32_MAX);
  struct rondo_plan without = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, 1, 3, 0);
  assert_memory_equal(&with, &without, rondo_plan_bytes(&with)); // the other ops are not written
}

static void a_direct_plan_sends_to_each_rank(void **state) {
  (void)state;
  const int kinds[] = {RONDO_ALL_GATHER, RONDO_BROADCAST};
  for (size_t i = 0; i < 2; i++) {
    struct rondo_plan plan = plan_of(kinds[i], RONDO_ALGORITHM_DIRECT, 1, 5, 1);
    assert_int_equal(plan.send.count, 4);
    assert_int_equal(plan.ops[0].primitive & (S | R), S);
    assert_int_equal(plan.ops[0].repeat, 4);
    assert_int_equal(plan.ops[0].peer_stride, 1);
    assert_int_equal(plan.ops[0].chunk_stride, 0);
  }
  const struct expected_op take[] = {{R | C, 1, 0}}, give[] = {{S, 1, 0}};
  struct rondo_plan plan = plan_of(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT, 3, 5, 1);
  assert_ops(&plan, take, 1);
  assert_peers(&plan, -1, 1);
  plan = plan_of(RONDO_REDUCE, RONDO_ALGORITHM_DIRECT, 3, 5, 1);
  assert_ops(&plan, give, 1);
  assert_peers(&plan, 1, -1);
}

// The first contribution meets the own input, those that follow what the receive buffer holds.
static void a_direct_reduction_adds_up_in_the_receive_buffer(void **state) {
  (void)state;
  for (uint32_t n = 2; n < 6; n++) {
    struct rondo_plan plan = plan_of(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DIRECT, 0, n, 0);
    uint32_t last = n == 2 ? 0 : n == 3 ? 1 : 2;
    assert_int_equal(plan.op_count, last + 2);
    assert_int_equal(plan.ops[0].primitive, n == 2 ? R | ADD | C | F : R | ADD | C);
    assert_int_equal(plan.ops[0].repeat, 1);
    if (n > 3) {
      assert_int_equal(plan.ops[1].primitive, R | ADD | C | RESULT);
      assert_int_equal(plan.ops[1].repeat, n - 3);
      assert_int_equal(plan.ops[1].recv_peer, 1);
    }
    if (n > 2)
      assert_int_equal(plan.ops[last].primitive, R | ADD | C | RESULT | F);
    assert_int_equal(plan.ops[last].recv_peer, n - 2);
    assert_int_equal(plan.ops[last + 1].primitive, S | RESULT);
    assert_int_equal(plan.ops[last + 1].repeat, n - 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ring_all_reduce_is_five_ops_at_any_size),
      cmocka_unit_test(ring_of_two_leaves_out_ops_that_would_not_repeat),
      cmocka_unit_test(ring_gather_and_scatter_of_three),
      cmocka_unit_test(reduce_runs_along_the_ring_to_its_root),
      cmocka_unit_test(broadcast_runs_along_the_ring_from_its_root),
      cmocka_unit_test(a_tree_has_two_levels),
      cmocka_unit_test(a_broadcast_goes_down_the_tree_from_its_root),
      cmocka_unit_test(doubling_exchanges_sums_at_growing_distances),
      cmocka_unit_test(doubling_fits_the_largest_groups),
      cmocka_unit_test(a_binomial_tree_adds_small_subtrees_first),
      cmocka_unit_test(a_direct_plan_sends_to_each_rank),
      cmocka_unit_test(a_direct_reduction_adds_up_in_the_receive_buffer),
      cmocka_unit_test(halving_fits_the_largest_groups),
      cmocka_unit_test(one_shot_adds_in_the_order_of_positions),
      cmocka_unit_test(a_rank_passes_on_in_one_of_two_trees),
      cmocka_unit_test(two_trees_of_a_broadcast_have_the_same_root),
      cmocka_unit_test(two_trees_share_the_work),
      cmocka_unit_test(a_leader_goes_half_round_the_ring_in_each_pass),
      cmocka_unit_test(two_trees_of_a_reduce_go_up_in_one_pass),
      cmocka_unit_test(a_binomial_gather_sends_whole_subtrees),
      cmocka_unit_test(all_to_all_is_three_ops_at_any_size),
      cmocka_unit_test(gather_and_scatter_have_one_op_beside_the_root),
      cmocka_unit_test(a_barrier_signals_to_powers_of_two),
      cmocka_unit_test(group_of_one_is_one_copy_without_peers),
      cmocka_unit_test(quantises_the_messages_of_a_ring_all_reduce_alone),
      cmocka_unit_test(refuses_what_is_out_of_range_and_writes_nothing),
      cmocka_unit_test(refuses_direct_plans_of_more_ranks_than_peers_have_numbers),
      cmocka_unit_test(root_is_ignored_where_there_is_none),
  };
  return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
