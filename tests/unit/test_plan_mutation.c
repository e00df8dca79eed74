// The verifier refuses wrong plans. Each test takes plans that it accepts, changes one thing
// and looks for the fault and the place that the verifier names.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/plan/build.h"
#include "daemon/plan/two_level.h"
#include "daemon/plan/verify.h"
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
  RESULT = RONDO_PRIM_RESULT,
  FROM = RONDO_PRIM_IN_SCRATCH,
  TO = RONDO_PRIM_OUT_SCRATCH,
  RUNS = RONDO_PRIM_RUNS,
  MIRROR = RONDO_PRIM_MIRROR,
  RANKS = 5,
  MORE_RANKS = 23
};

static struct rondo_plan plans[MORE_RANKS];
// Of the plans to build.
static bool keeps_sums;
static struct rondo_plan_topology *topology;

static struct rondo_plan_verify_case case_of(int kind, uint32_t n, uint32_t root) {
  return (struct rondo_plan_verify_case){kind, n, root, 4, 2, 0, 0, plans, NULL, 0, topology};
}

// Plans of `n` ranks that the verifier accepts, for a test to spoil.
static struct rondo_plan_verify_case good(int kind, int algorithm, uint32_t n) {
  struct rondo_plan_verify_case what = case_of(kind, n, 1);
  struct rondo_plan_verify_report report;
  for (uint32_t rank = 0; rank < n; rank++) {
    struct rondo_plan_request request = {kind,      algorithm,  rank,     n,
                                         what.root, keeps_sums, topology, 0};
    assert_int_equal(rondo_plan_build(&request, &plans[rank]), RONDO_SUCCESS);
  }
  assert_int_equal(rondo_plan_verify(&what, &report), RONDO_SUCCESS);
  assert_string_equal(report.message, "");
  return what;
}

static struct rondo_plan_verify_case good_ring(int kind) {
  return good(kind, RONDO_ALGORITHM_RING, RANKS);
}

static void assert_accepted(const struct rondo_plan_verify_case *what) {
  struct rondo_plan_verify_report report;
  if (rondo_plan_verify(what, &report) != RONDO_SUCCESS)
    fail_msg("refused: %s", report.message);
}

// Refused with a message that contains `message`, whatever the order of execution.
static void assert_refused(struct rondo_plan_verify_case what, const char *message) {
  struct rondo_plan_verify_report report;
  for (what.seed = 0; what.seed < 4; what.seed++) {
    assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
    if (strstr(report.message, message) == NULL)
      fail_msg("expected \"%s\", got \"%s\"", message, report.message);
  }
}

static uint16_t peer_to_suit(int wanted, uint16_t peer) {
  if (!wanted)
    return RONDO_PLAN_NO_PEER;
  return peer == RONDO_PLAN_NO_PEER ? 0 : peer;
}

// Sets the primitive of an op and its peers to suit.
static void primitive_set(struct rondo_plan_op *op, int primitive) {
  op->primitive = (uint16_t)primitive;
  op->send_peer = peer_to_suit(primitive & S, op->send_peer);
  op->recv_peer = peer_to_suit(primitive & R, op->recv_peer);
}

static void op_remove(struct rondo_plan *plan, uint32_t op) {
  memmove(&plan->ops[op], &plan->ops[op + 1], (plan->op_count - op - 1) * sizeof(plan->ops[0]));
  plan->op_count--;
}

static void op_append(struct rondo_plan *plan, int primitive) {
  struct rondo_plan_op *op = &plan->ops[plan->op_count++];
  *op = (struct rondo_plan_op){.repeat = 1, .width = 1};
  op->send_peer = op->recv_peer = RONDO_PLAN_NO_PEER;
  primitive_set(op, primitive);
}

// A plan of two ranks, one op after the other on one chunk, to be written out by hand.
static void pair_plan_set(uint32_t rank, int first, int second) {
  struct rondo_plan *plan = &plans[rank];
  memset(plan, 0, sizeof(*plan));
  plan->nranks = 2;
  plan->chunk_count = 1;
  plan->send.count = plan->recv.count = 1;
  plan->send.listed[0] = plan->recv.listed[0] = 1 - rank;
  op_append(plan, first);
  op_append(plan, second);
}

// Two ranks add up in scratch: what the other one sends, then the own input, then out of scratch.
static struct rondo_plan_verify_case scratch_pair(void) {
  for (uint32_t rank = 0; rank < 2; rank++) {
    pair_plan_set(rank, S, R | C | TO);
    op_append(&plans[rank], ADD | C | F | FROM | TO);
    op_append(&plans[rank], C | FROM);
    plans[rank].scratch_count = 1;
  }
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 2, 0);
  assert_accepted(&what);
  return what;
}

// ------------------------------------------------------------------ mutations ---

static void refuses_a_dropped_op(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  op_remove(&plans[1], 3);
  assert_refused(what, "rank 0: sends 8 chunks a loop to rank 1, which receives 5");
}

static void refuses_a_repeat_too_few(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[2].ops[1].repeat--;
  assert_refused(what, "sends 8 chunks a loop to rank 2, which receives 7");
}

static void refuses_a_repeat_moved_to_another_op(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[2].ops[1].repeat--;
  plans[2].ops[3].repeat++;
  assert_refused(what, "rank 2, op 2, chunk 2: reduces with chunk 3 of loop 0");
}

static void refuses_a_wrong_first_chunk(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[3].ops[0].first_chunk = 1;
  assert_refused(what, "rank 4, op 1, chunk 2: reduces with chunk 1 of loop 0");
}

static void refuses_a_ring_that_ends_at_the_wrong_chunk(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE_SCATTER);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    for (uint32_t i = 0; i < plans[rank].op_count; i++)
      plans[rank].ops[i].first_chunk = (plans[rank].ops[i].first_chunk + 1) % RANKS;
  }
  assert_refused(what, "writes chunk");
}

static void refuses_a_wrong_stride(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[4].ops[1].chunk_stride = 1;
  assert_refused(what, "rank 4, op 1, chunk 3: reduces with chunk 1 of loop 0");
}

static void refuses_a_wrong_stride_in_the_copying_half(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_GATHER);
  plans[0].ops[1].chunk_stride = 1;
  assert_refused(what, "rank 0, op 1, chunk 0: writes chunk 3 of loop 0 there");
}

static void refuses_a_missing_final(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[2], R | ADD | C | S);
  assert_refused(what, "rank 2, op 2, chunk 2: writes a result that is not FINAL");
}

static void refuses_a_doubled_final(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[4], R | C | F);
  assert_refused(what, "rank 2, op 4, chunk 3: finishes a result a second time");
}

static void refuses_final_before_all_have_contributed(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 4);
  primitive_set(&plans[1].ops[0], R | ADD | C | F);
  assert_refused(what, "rank 1, op 0, chunk 0: finishes a result without rank 0");
}

static void refuses_final_where_nothing_is_reduced(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_BROADCAST);
  plans[3].ops[0].primitive |= F;
  assert_refused(what, "rank 3, op 0: is FINAL in a kind that does not reduce");
}

static void refuses_copy_in_the_place_of_reduce(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 4);
  primitive_set(&plans[1].ops[0], R | C);
  assert_refused(what, "finishes a result without rank 1");
}

static void refuses_send_in_the_place_of_copy(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[4], R | S);
  assert_refused(what, "rank 2: sends 9 chunks a loop to rank 3, which receives 8");
}

static void refuses_a_missing_reduce(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE);
  primitive_set(&plans[3].ops[0], R | S);
  assert_refused(what, "rank 1, op 0, chunk 0: finishes a result without rank 3");
}

static void refuses_a_contribution_added_twice(void **state) {
  (void)state;
  pair_plan_set(0, S, R | C | S | F);
  pair_plan_set(1, R | ADD | S, R | C);
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 2, 0);
  assert_accepted(&what);
  pair_plan_set(0, S, R | ADD | C | S | F);
  assert_refused(what, "rank 0, op 1, chunk 0: adds rank 0 a second time");
}

static void refuses_reducing_into_a_finished_result(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[3], R | ADD | C | S);
  assert_refused(what, "rank 2, op 3, chunk 1: reduces with a finished result");
}

static void refuses_a_missing_copy(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[3], R | S);
  assert_refused(what, "rank 2, chunk 0: no op writes this result");
}

static void refuses_a_copy_of_a_partial_sum(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[1], R | ADD | C | S);
  assert_refused(what, "rank 2, op 1, chunk 0: writes a result without");
}

static void refuses_writing_where_there_may_be_no_receive_buffer(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE);
  primitive_set(&plans[3].ops[0], R | ADD | C | S);
  assert_refused(what, "rank 3, op 0, chunk 0: writes beyond the receive buffer");
}

static void refuses_reading_where_there_may_be_no_send_buffer(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_BROADCAST);
  what.root = 2;
  assert_refused(what, "rank 1, op 0, chunk 0: reads beyond the send buffer");
}

static void refuses_a_missing_out_base(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE_SCATTER);
  primitive_set(&plans[1].ops[2], R | ADD | C | F);
  assert_refused(what, "rank 1, op 2, chunk 1: writes beyond the receive buffer");
}

static void refuses_a_missing_in_base(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_GATHER);
  primitive_set(&plans[3].ops[0], C | S);
  assert_refused(what, "rank 3, op 0, chunk 3: reads beyond the send buffer");
}

static void refuses_bases_in_kinds_that_have_none(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[1].ops[2].primitive |= OUT;
  assert_refused(what, "rank 1, op 2: has OUT_BASE but writes no receive buffer of one chunk");
  what = good_ring(RONDO_ALL_REDUCE);
  plans[1].ops[0].primitive |= IN;
  assert_refused(what, "rank 1, op 0: has IN_BASE but reads no send buffer of one chunk");
}

static void refuses_an_extra_send(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE_SCATTER);
  primitive_set(&plans[0].ops[2], R | ADD | C | S | F | OUT);
  assert_refused(what, "rank 0: sends 5 chunks a loop to rank 1, which receives 4");
}

static void refuses_an_extra_round_that_writes_again(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_BROADCAST, RONDO_ALGORITHM_RING, 3);
  primitive_set(&plans[0].ops[0], R | C | S);
  plans[0].send.count = 1;
  plans[0].send.listed[0] = 1;
  plans[1].recv.count = 1;
  plans[1].recv.listed[0] = 0;
  op_append(&plans[1], R | C);
  assert_refused(what, "rank 1, op 1, chunk 0: writes its result a second time");
}

// A root that sends packets to ranks which send it nothing cannot know that they were taken.
static void refuses_packets_that_nothing_answers(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_BROADCAST, RONDO_ALGORITHM_DIRECT, 3);
  what.slots = 2;
  what.loops = 3;
  for (uint32_t rank = 0; rank < 3; rank++) {
    plans[rank].by_value = 1;
    for (uint32_t i = 0; i < plans[rank].op_count; i++)
      if (plans[rank].ops[i].primitive & (R | S))
        plans[rank].ops[i].primitive |= RONDO_PRIM_PACKETS;
  }
  assert_refused(what, "op 0, chunk 0: writes over packets that rank");
}

static void refuses_packets_where_they_cannot_be(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[1].ops[0].primitive |= RONDO_PRIM_PACKETS;
  assert_refused(what, "rank 1, op 0: has packets, and may send references");
  plans[1].ops[1].primitive |= RONDO_PRIM_PACKETS;
  plans[1].by_value = 1;
  assert_refused(what, "rank 1, op 1: has packets, and does not send or receive one chunk");
  what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT_PACKETS, 3);
  plans[2].ops[0].primitive &= (uint16_t)~RONDO_PRIM_PACKETS;
  assert_refused(what, "takes a message as packets");
  what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, 3);
  plans[2].ops[0].primitive |= RONDO_PRIM_PACKETS;
  assert_refused(what, "takes a message of packets");
  what = good(RONDO_ALL_GATHER, RONDO_ALGORITHM_DIRECT_PACKETS, 3);
  plans[1].ops[2].primitive &= (uint16_t)~RONDO_PRIM_PACKETS;
  assert_refused(what, "rank 1, op 2, chunk 0: takes a message of packets");
  what = good(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_DIRECT_PACKETS, 3);
  plans[2].by_value = 0;
  assert_refused(what, "rank 2, op 0: has packets, and may send references");
  what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TWO_SHOT_PACKETS, 3);
  plans[2].ops[0].primitive |= C;
  assert_refused(what, "rank 2, op 0: has packets, and sends what it copies, or receives what it");
}

static void refuses_ops_in_the_wrong_order(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  struct rondo_plan_op first = plans[2].ops[0];
  plans[2].ops[0] = plans[2].ops[1];
  plans[2].ops[1] = first;
  assert_refused(what, "reduces with chunk");
}

static void refuses_a_peer_that_knows_nothing_of_it(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[1].send.listed[0] = 3;
  assert_refused(what, "rank 1: sends to rank 3, which does not receive from it");
  what = good_ring(RONDO_REDUCE);
  plans[2].recv.count = 1; // the first of the chain, which receives nothing
  plans[2].recv.listed[0] = 1;
  assert_refused(what, "rank 2: receives from rank 1, which does not send to it");
}

static void refuses_plans_of_another_root(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_REDUCE, RONDO_ALGORITHM_RING, 2);
  what.root = 0;
  assert_refused(what, "rank 0, chunk 0: no op writes this result");
}

static void refuses_a_deadlock(void **state) {
  (void)state;
  pair_plan_set(0, R | ADD | C | F, S);
  pair_plan_set(1, R | ADD | C | F, S);
  assert_refused(case_of(RONDO_ALL_REDUCE, 2, 0),
                 "rank 0, op 0, chunk 0: deadlock: waits for a chunk from rank 1 for ever");
}

// Both ranks send their input and then write the sum. Out of place this is right. In place
// the sum lands on what the peer may still read, although some orders hide that.
static void refuses_writing_what_a_peer_may_still_read(void **state) {
  (void)state;
  pair_plan_set(0, S, R | ADD | C | F);
  pair_plan_set(1, S, R | ADD | C | F);
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 2, 0);
  assert_accepted(&what);
  what.in_place = 1;
  assert_refused(what, "op 1, chunk 0: writes what rank");
}

// Rank 0 writes the sum before it sends its input: right out of place only.
static void refuses_reading_its_input_after_writing_over_it(void **state) {
  (void)state;
  pair_plan_set(0, R | ADD | C | F, S);
  pair_plan_set(1, S, R | ADD | C | F);
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 2, 0);
  assert_accepted(&what);
  what.in_place = 1;
  assert_refused(what, "rank 0, op 1, chunk 0: reads its input after writing over it");
}

static void refuses_a_barrier_that_receives_too_few(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++) { // distances 1, 2 and 3 in the place of 4
    plans[rank].send.listed[2] = (rank + 3) % RANKS;
    plans[rank].recv.listed[2] = (rank + 2) % RANKS;
  }
  assert_accepted(&what); // 1 + 2 + 3 still reach everybody
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    op_remove(&plans[rank], 1);
    plans[rank].ops[1].recv_peer = 0;
    plans[rank].send.count = plans[rank].recv.count = 1;
  }
  assert_refused(what, "ends without having heard of rank");
}

static void refuses_a_signal_before_the_one_it_answers(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++) { // all signals first, then all are taken
    struct rondo_plan *plan = &plans[rank];
    plan->ops[0].repeat = 3;
    plan->ops[0].peer_stride = 1;
    op_remove(plan, 1);
    plan->ops[1].recv_peer = 0;
    plan->ops[1].repeat = 3;
    plan->ops[1].peer_stride = 1;
  }
  assert_refused(what, "ends without having heard of rank");
}

static void refuses_parts_that_go_to_the_wrong_rank(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_DIRECT, RANKS);
  plans[1].ops[0].chunk_stride = 2;
  assert_refused(what, "chunk 1: writes chunk");
  what = good(RONDO_SCATTER, RONDO_ALGORITHM_DIRECT, RANKS);
  plans[1].ops[0].first_chunk = 3;
  assert_refused(what, "of loop 0 there");
}

static void refuses_reading_scratch_that_nothing_has_written(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = scratch_pair();
  primitive_set(&plans[1].ops[2], R | C | TO); // what was written in the loop before
  primitive_set(&plans[1].ops[1], ADD | C | F | FROM | TO);
  assert_refused(what, "rank 1, op 1, chunk 0: reads scratch that nothing has written");
  what = scratch_pair();
  primitive_set(&plans[0].ops[0], S | FROM);
  assert_refused(what, "rank 0, op 0, chunk 0: reads scratch that nothing has written");
}

static void refuses_scratch_that_nothing_reads(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = scratch_pair();
  op_append(&plans[0], C | TO);
  assert_refused(what, "rank 0, chunk 0: no op reads this chunk of the scratch");
  what = scratch_pair();
  primitive_set(&plans[0].ops[3], C | TO);
  assert_refused(what, "rank 0, op 3, chunk 0: writes over scratch that nothing has read");
  what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, 2);
  plans[1].scratch_count = 1;
  assert_refused(what, "rank 1, chunk 0: no op writes this chunk of the scratch");
}

static void refuses_what_scratch_does_not_have(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = scratch_pair();
  plans[0].scratch_count = 0;
  assert_refused(what, "rank 0, op 1, chunk 0: goes beyond the scratch");
  plans[0].scratch_count = 2;
  assert_refused(what, "rank 0: has scratch for more than a loop");
  plans[0].scratch_count = plans[0].scratch_first = 1;
  assert_refused(what, "rank 0: has scratch for more than a loop");
}

// The peer may still read the input when the sum overwrites it.
static void refuses_overwriting_from_scratch_what_a_peer_may_still_read(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = scratch_pair();
  what.in_place = 1;
  assert_refused(what, "op 3, chunk 0: writes what rank");
  plans[0].by_value = plans[1].by_value = 1;
  assert_accepted(&what);
}

static void refuses_scratch_where_none_can_be(void **state) {
  (void)state;
  const int reads[] = {R | C | FROM, S | FROM | RESULT}, writes[] = {S | TO, R | S | TO};
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    struct rondo_plan_verify_case what = scratch_pair();
    primitive_set(&plans[0].ops[1], reads[i]);
    assert_refused(what, reads[i] & RESULT
                             ? "has RESULT but neither adds to a result nor passes one on"
                             : "rank 0, op 1: has IN_SCRATCH but reads no scratch");
    what = scratch_pair();
    primitive_set(&plans[0].ops[1], writes[i]);
    assert_refused(what, "rank 0, op 1: has OUT_SCRATCH but writes no scratch");
  }
  struct rondo_plan_verify_case what = good_ring(RONDO_REDUCE_SCATTER);
  plans[1].ops[2].primitive |= TO;
  assert_refused(what, "rank 1, op 2: has OUT_SCRATCH but writes no scratch");
  what = good_ring(RONDO_ALL_GATHER);
  plans[1].ops[0].primitive |= FROM;
  assert_refused(what, "rank 1, op 0: has IN_");
}

static void refuses_another_order_than_that_of_a_message(void **state) {
  (void)state;
  const int all = RONDO_ALL_TO_ALL, bruck = RONDO_ALGORITHM_BRUCK;
  struct rondo_plan_verify_case what = good(all, bruck, RANKS);
  plans[2].ops[1].chunk_stride = 0; // a run
  assert_refused(what, "rank 2, op 1: has RUNS but no message of several");
  plans[2].ops[1].chunk_stride = 2; // as long as the message
  assert_refused(what, "rank 2, op 1: has RUNS but no message of several");
  what = good(all, bruck, 7);
  plans[2].ops[4].chunk_stride = 1; // places 2, 4 and 6, not 2, 3 and 6
  assert_refused(what, "rank 2, op 4, chunk 6: writes over scratch that nothing has read");
  what = good(all, bruck, RANKS);
  plans[2].ops[0].primitive |= RUNS;
  assert_refused(what, "rank 2, op 0: has RUNS but no message of several");
  plans[2].ops[0].primitive ^= RUNS | MIRROR;
  assert_refused(what, "rank 2, op 0: has MIRROR but copies nothing out of scratch");
  what = good(all, bruck, RANKS);
  plans[2].ops[7].primitive ^= MIRROR;
  assert_refused(what, "rank 2, op 7, chunk 3: writes chunk 7 of loop 0 there");
  what = scratch_pair();
  plans[0].ops[3].primitive |= MIRROR;
  assert_refused(what, "rank 0, op 3: has RUNS or MIRROR, and is no all-to-all");
}

// ---------------------------------------------------------------- malformation ---

// Plans with quantised messages, made so by hand.
static struct rondo_plan_verify_case quantised(int algorithm, uint32_t n, int flag) {
  struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, algorithm, n);
  for (uint32_t rank = 0; rank < n; rank++) {
    plans[rank].by_value = 1;
    for (uint32_t i = 0; i < plans[rank].op_count; i++)
      plans[rank].ops[i].primitive |= (uint16_t)flag;
  }
  return what;
}

// The verifier knows itself that a rank which keeps its own sum has other bits than one that gets
// it in a message, and that a result which is quantised for each peer may change each time.
static void refuses_quantised_plans_whose_ranks_have_different_bits(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_INT8);
  assert_accepted(&what);
  what = quantised(RONDO_ALGORITHM_DIRECT, 2, RONDO_PRIM_INT8);
  assert_refused(what, "is quantised, and adds what it does not send");
  what = quantised(RONDO_ALGORITHM_DOUBLING, 2, RONDO_PRIM_FLOAT8_E4M3);
  assert_refused(what, "is quantised, and adds what it does not send");
  what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_INT8);
  // The owner of a chunk keeps its sum, and sends the result of a copy of its own.
  struct rondo_plan *plan = &plans[1];
  plan->ops[2].primitive |= RONDO_PRIM_RESULT;
  assert_refused(what, "rank 1, op 2");
  // Ranks that pass a result on from their receive buffer quantise it again.
  what = quantised(RONDO_ALGORITHM_RING, 3, RONDO_PRIM_INT8);
  for (uint32_t rank = 0; rank < 3; rank++) {
    struct rondo_plan_op *pass = &plans[rank].ops[3], *last = &plans[rank].ops[4], send = *pass;
    primitive_set(pass, R | C | RONDO_PRIM_INT8);
    primitive_set(&send, S | RESULT | RONDO_PRIM_INT8);
    plans[rank].ops[5] = *last;
    plans[rank].ops[4] = send;
    plans[rank].op_count = 6;
  }
  assert_refused(what, "adds in another order than another rank");
}

static void refuses_messages_of_another_quantisation(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_INT8);
  plans[2].ops[0].primitive ^= RONDO_PRIM_QUANTISED;
  assert_refused(what, "takes a message as quantisation 1 that is quantisation 2");
  what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_INT8);
  plans[2].ops[4].primitive ^= RONDO_PRIM_INT8;
  assert_refused(what, "rank 2, op 4, chunk 3: takes a message as quantisation 0 that is");
}

static void refuses_quantised_messages_where_none_can_be(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_QUANTISED);
  assert_refused(what, "rank 0, op 0: has two quantisations");
  what = quantised(RONDO_ALGORITHM_RING, RANKS, RONDO_PRIM_INT8);
  plans[3].by_value = 0;
  assert_refused(what, "rank 3, op 0: is quantised, and may send references");
  what = quantised(RONDO_ALGORITHM_HALVING, 4, RONDO_PRIM_INT8);
  assert_refused(what, "is quantised, and has several chunks or scratch");
  what = good_ring(RONDO_REDUCE_SCATTER);
  plans[0].by_value = 1;
  plans[0].ops[0].primitive |= RONDO_PRIM_INT8;
  assert_refused(what, "rank 0, op 0: is quantised, and has no message of an all-reduce");
}

static void refuses_malformed_ops(void **state) {
  (void)state;
  const struct rondo_plan_op op = {R | ADD | S, 0, 0, 0, 0, 3, 0, 4, 1};
  struct {
    struct rondo_plan_op op;
    const char *message;
  } cases[] = {{op, "has unknown primitive bits"},
               {op, "neither copies nor sends its value"},
               {op, "reduces without receiving"},
               {op, "repeats 0 times"},
               {op, "begins beyond the last chunk"},
               {op, "has a stride that is not below the chunk count"},
               {op, "has no chunks, or more than a loop"},
               {op, "has no chunks, or more than a loop"},
               {op, "has several chunks where the buffer holds one"},
               {op, "has a peer stride that is neither 0 nor 1"},
               {op, "has a peer index that is out of range"},
               {op, "has a peer that its primitive does not use"}};
  cases[0].op.primitive |= 0x8000;
  primitive_set(&cases[1].op, R);
  primitive_set(&cases[2].op, ADD | S);
  cases[3].op.repeat = 0;
  cases[4].op.first_chunk = RANKS;
  cases[5].op.chunk_stride = RANKS;
  cases[6].op.width = 0;
  cases[7].op.width = RANKS + 1;
  cases[8].op.primitive |= OUT;
  cases[8].op.width = 2;
  cases[9].op.peer_stride = 2;
  cases[10].op.send_peer = 1;
  cases[11].op.primitive = R | C;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
    char message[100];
    plans[2].ops[1] = cases[i].op;
    snprintf(message, sizeof(message), "rank 2, op 1: %s", cases[i].message);
    assert_refused(what, message);
  }
}

static void refuses_malformed_rounds(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[2].ops[1].round_ops = 3;
  assert_refused(what, "rank 2: has a round that begins before the pass, or in another round");
  plans[2].ops[0].round_ops = 1;
  plans[2].ops[1].round_ops = 2;
  assert_refused(what, "rank 2: has a round that begins before the pass, or in another round");
  plans[2].ops[1].round_ops = 1;
  assert_refused(what, "rank 2: has rounds that do not divide a loop");
  plans[2].round_chunks = RANKS - 1;
  assert_refused(what, "rank 2: has rounds that do not divide a loop");
  what = good_ring(RONDO_ALL_REDUCE);
  plans[2].round_chunks = 1;
  assert_refused(what, "rank 2: has chunks of rounds, and no rounds");
  what = good_ring(RONDO_ALL_GATHER);
  plans[2].round_chunks = 1;
  plans[2].ops[0].round_ops = 1;
  assert_refused(what, "rank 2: has rounds in a kind that has none");
}

static struct rondo_plan_verify_case good_direct(int kind) {
  return good(kind, RONDO_ALGORITHM_DIRECT, RANKS);
}

static void refuses_taking_a_result_that_nobody_has_begun(void **state) {
  (void)state;
  for (int in_place = 0; in_place < 2; in_place++) {
    struct rondo_plan_verify_case what = good_direct(RONDO_ALL_REDUCE);
    what.in_place = in_place;
    primitive_set(&plans[0].ops[0], R | ADD | C | RESULT);
    assert_refused(what, "rank 0, op 0, chunk 0: reads a result that nobody has begun");
    what = good_direct(RONDO_REDUCE_SCATTER);
    what.in_place = in_place;
    primitive_set(&plans[3].ops[1], R | ADD | C | OUT | RESULT);
    assert_refused(what, "rank 3, op 1, chunk 3: reads a result that nobody has begun");
  }
}

static void refuses_passing_on_a_result_that_is_not_done(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_direct(RONDO_ALL_REDUCE);
  struct rondo_plan_op *ops = plans[0].ops, last = ops[2];
  ops[2] = ops[3];
  ops[3] = last;
  assert_refused(what, "chunk 0: writes "); // a result without rank 4, or what is still read
}

static void refuses_a_result_that_is_left_half_done(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_direct(RONDO_REDUCE);
  primitive_set(&plans[1].ops[2], R | ADD | C | F); // reads the input again
  assert_refused(what, "rank 1, op 1, chunk 0: writes a result without rank 0");
  what = good_direct(RONDO_REDUCE);
  what.in_place = 1;
  primitive_set(&plans[1].ops[1], R | ADD | C); // writes over a sum that nothing has used
  assert_refused(what, "rank 1, op 0, chunk 0: writes a result without rank 0");
}

static void refuses_adding_to_a_finished_result(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_direct(RONDO_REDUCE);
  primitive_set(&plans[1].ops[1], R | ADD | C | F | RESULT);
  assert_refused(what, "rank 1, op 1, chunk 0: finishes a result without rank");
}

static void refuses_results_where_none_can_be(void **state) {
  (void)state;
  const char *message = "has RESULT but neither adds to a result nor passes one on";
  const int none[] = {S | C | RESULT, R | C | RESULT, R | ADD | S | RESULT};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    struct rondo_plan_verify_case what = good_direct(RONDO_ALL_REDUCE);
    primitive_set(&plans[0].ops[1], none[i]);
    assert_refused(what, message);
  }
  struct rondo_plan_verify_case what = good(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, RANKS);
  primitive_set(&plans[0].ops[0], S | RESULT);
  assert_refused(what, message);
  what = good_direct(RONDO_BROADCAST);
  primitive_set(&plans[1].ops[0], S | RESULT);
  assert_refused(what, "rank 1, op 0, chunk 0: reads a result that nobody has begun");
}

// Of four ranks in a tree, 1 adds what 3 sends to its own input, and passes the sum on to 0.
static void refuses_a_tree_that_leaves_a_branch_out(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 4);
  primitive_set(&plans[1].ops[1], S);
  assert_refused(what, "rank 1, op 0, chunk 0: writes a result without rank 0");
  what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, 4);
  primitive_set(&plans[1].ops[2], R | ADD | C | RESULT);
  assert_refused(what, "rank 1, op 2, chunk 0: reduces with a finished result");
}

// Each rank adds up all inputs in the order of the ring from itself on: right sums, of different
// bits.
static void refuses_sums_that_are_added_in_different_orders(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 3; rank++) {
    struct rondo_plan *plan = &plans[rank];
    memset(plan, 0, sizeof(*plan));
    plan->nranks = 3;
    plan->chunk_count = plan->by_value = 1;
    plan->send = plan->recv = (struct rondo_plan_peers){2, 1, {(rank + 1) % 3, (rank + 2) % 3}};
    op_append(plan, S);
    plan->ops[0].repeat = 2;
    plan->ops[0].peer_stride = 1;
    op_append(plan, R | ADD | C);
    op_append(plan, R | ADD | C | F | RESULT);
    plan->ops[2].recv_peer = 1;
  }
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 3, 0);
  assert_refused(what, "op 2, chunk 0: adds in another order than another rank");
}

// What a rank has sent by reference it overwrites with the next sum.
static void refuses_doubling_by_reference(void **state) {
  (void)state;
  for (uint32_t n = 3; n <= RANKS; n++) {
    struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, n);
    for (uint32_t rank = 0; rank < n; rank++)
      plans[rank].by_value = 0;
    assert_refused(what, "may still read by reference");
  }
}

static void refuses_messages_of_another_width(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK, RANKS);
  plans[1].ops[2].width = 2; // the only op that sends more than a chunk begins at op 2
  assert_refused(what, "takes 1 chunks of a message of 2");
}

// Chunks that begin one further on one rank: without all chunks it is the message that is wrong.
static void refuses_messages_of_other_chunks(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK, RANKS);
  plans[2].ops[4].first_chunk = (plans[2].ops[4].first_chunk + 1) % RANKS;
  assert_refused(what, "writes chunk");
  for (what.one_chunk = 1; what.one_chunk <= RANKS; what.one_chunk++) {
    struct rondo_plan_verify_report report;
    if (rondo_plan_verify(&what, &report) != RONDO_SUCCESS)
      break;
  }
  assert_true(what.one_chunk <= RANKS);
  assert_refused(what, "takes other chunks than were sent");
}

static void refuses_malformed_plans(void **state) {
  (void)state;
  const char *messages[] = {"rank 1: has no ops, or too many",
                            "rank 1: has no ops, or too many",
                            "rank 1: has another chunk count than rank 0, or none",
                            "rank 1: has a peer outside the group",
                            "rank 1: has itself as a peer",
                            "rank 1: has a peer twice",
                            "rank 1: has too many peers",
                            "rank 1: sends 0 chunks a loop to rank 4, which receives 0"};
  for (int i = 0; i < 8; i++) {
    struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
    struct rondo_plan *plan = &plans[1];
    plan->op_count = i == 0 ? 0 : i == 1 ? RONDO_PLAN_MAX_OPS + 1 : plan->op_count;
    plan->chunk_count += i == 2;
    plan->recv.listed[0] = i == 3 ? RANKS : i == 4 ? 1 : plan->recv.listed[0];
    plan->send.count = i == 5 || i == 7 ? 2 : i == 6 ? RONDO_PLAN_LISTED_PEERS + 1 : 1;
    plan->send.listed[1] = i == 5 ? 2 : 4;
    plans[4].recv.count = i == 7 ? 2 : 1;
    plans[4].recv.listed[1] = 1;
    assert_refused(what, messages[i]);
  }
  struct rondo_plan_verify_case what = good_ring(RONDO_BROADCAST);
  what.kind = RONDO_ALL_GATHER;
  assert_refused(what, "rank 0: does not have one chunk a rank");
}

// Op 2 of rank 4 sends the sum up, op 3 takes the result.
static void refuses_wrong_passes(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, 7);
  plans[4].first_pass = plans[4].op_count;
  assert_refused(what, "rank 4: has no ops in its second pass");
  plans[4].first_pass = 2; // the second op of a sum waits for the next loop's other one
  assert_refused(what, "rank");
  plans[4].first_pass = 4;
  assert_refused(what, "deadlock");
  plans[4].first_pass = 0; // only the connectors' slots limit how far the others are ahead
  assert_refused(what, "deadlock");
  plans[4].first_pass = 3;
  plans[4].scratch_count = 1;
  assert_refused(what, "rank 4: has two passes and scratch, which holds one loop");
  what = good(RONDO_GATHER, RONDO_ALGORITHM_DIRECT, 3);
  plans[1].first_pass = 1;
  assert_refused(what, "rank 1: has two passes in a kind that has one");
}

// Over two levels the way up and the first half of the ring are the first pass. A rank that has
// another one waits for what others send in their second pass.
static void refuses_wrong_passes_between_machines(void **state) {
  (void)state;
  struct rondo_plan_location at[RANKS];
  for (uint32_t i = 0; i < RANKS; i++)
    at[i] = (struct rondo_plan_location){i % 2, i, 1, 1};
  topology = rondo_plan_topology_create(at, RANKS);
  assert_non_null(topology);
  for (uint32_t rank = 0; rank < 4; rank++) { // leaders, then those that have the leaders as peers
    struct rondo_plan_verify_case what = good(RONDO_ALL_REDUCE, RONDO_ALGORITHM_CHAIN_RING, RANKS);
    uint32_t right = plans[rank].first_pass;
    what.loops = 8; // more than slots hold
    assert_in_range(right, 1, plans[rank].op_count - 1);
    for (uint32_t first = 0; first < plans[rank].op_count; first++) {
      plans[rank].first_pass = first;
      if (first != right)
        assert_refused(what, "rank");
    }
  }
  rondo_plan_topology_destroy(topology);
  topology = NULL;
}

// Both ranks send all their input in the first pass and add up in the second one: right out of
// place only, because nothing says that the peer has read the input of that loop.
static void refuses_a_second_pass_over_what_a_peer_may_still_read(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 2; rank++) {
    pair_plan_set(rank, S, R | ADD | C | F);
    plans[rank].first_pass = 1;
  }
  struct rondo_plan_verify_case what = case_of(RONDO_ALL_REDUCE, 2, 0);
  assert_accepted(&what);
  what.in_place = 1;
  assert_refused(what, "op 1, chunk 0: writes what rank");
}

static void refuses_malformed_walks(void **state) {
  (void)state;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  plans[1].nranks++;
  assert_refused(what, "rank 1: is of another number of ranks");
  what = good_ring(RONDO_ALL_REDUCE);
  plans[1].send = (struct rondo_plan_peers){RANKS + 1, 1, {2, 3}};
  assert_refused(what, "rank 1: has too many peers");
  plans[1].send = (struct rondo_plan_peers){2, RANKS, {2, 2}};
  assert_refused(what, "rank 1: has a peer twice");
  plans[1].send = (struct rondo_plan_peers){RANKS, 1, {2, 3}};
  assert_refused(what, "rank 1: has itself as a peer");
}

static void names_the_place_of_the_fault(void **state) {
  (void)state;
  struct rondo_plan_verify_report report;
  struct rondo_plan_verify_case what = good_ring(RONDO_ALL_REDUCE);
  primitive_set(&plans[2].ops[2], R | ADD | C | S);
  assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
  assert_string_equal(report.message, "rank 2, op 2, chunk 2: writes a result that is not FINAL");
  assert_int_equal(report.rank, 2);
  assert_int_equal(report.op, 2);
  assert_int_equal(report.chunk, 2);
  plans[0].send.listed[0] = 2;
  assert_int_equal(rondo_plan_verify(&what, &report), RONDO_ERR_INTERNAL);
  assert_int_equal(report.rank, 0);
  assert_int_equal(report.op, RONDO_PLAN_NOWHERE);
  assert_int_equal(report.chunk, RONDO_PLAN_NOWHERE);
}

// ------------------------------------------------------------ every small change ---

// Change number `change` of an op of a plan with `n` chunks; false when there are no more.
static bool op_change(struct rondo_plan_op *op, uint32_t n, int change) {
  if (change < 12) {
    primitive_set(op, op->primitive ^ (1 << change));
    return true;
  }
  switch (change - 4) {
  case 8:
    op->repeat++;
    return true;
  case 9:
    op->repeat--;
    return true;
  case 10:
    op->first_chunk = (op->first_chunk + 1) % n;
    return true;
  case 11:
    op->first_chunk = (op->first_chunk + n - 1) % n;
    return true;
  case 12:
    op->chunk_stride = (op->chunk_stride + 1) % n;
    return true;
  case 13:
    op->peer_stride ^= 1;
    return true;
  case 14:
    op->send_peer += op->send_peer != RONDO_PLAN_NO_PEER;
    return true;
  case 15:
    op->recv_peer += op->recv_peer != RONDO_PLAN_NO_PEER;
    return true;
  case 16:
    op->width++;
    return true;
  case 17:
    op->width--;
    return true;
  case 18:
    op->round_ops++;
    return true;
  case 19:
    op->round_ops--;
    return true;
  default:
    return false;
  }
}

// An op that uses one buffer, which holds one chunk: its number means nothing.
static bool op_has_base_alone(const struct rondo_plan_op *op) {
  int primitive = op->primitive & ~(F | RONDO_PRIM_PACKETS);
  return primitive == (S | IN) || primitive == (R | C | OUT) ||
         primitive == (R | ADD | C | OUT | RESULT);
}

// Changes that mean the same: the stride of an op that is done once, the only chunk of a plan,
// whether chunk 0 is counted from the base, whether a partial sum that is sent is kept, and from
// which buffer rank 0 sends its own chunk.
static bool op_change_is_neutral(int kind, const struct rondo_plan_op *before,
                                 const struct rondo_plan_op *after) {
  int base = (before->primitive ^ after->primitive) & (IN | OUT);
  if (keeps_sums && before->primitive == (R | ADD | C | S) && after->primitive == (R | ADD | S))
    return true;
  if (kind == RONDO_ALL_GATHER && before->primitive == (S | RESULT) && after->primitive == S)
    return before->first_chunk == 0 && before->width == 1;
  if (before->primitive != after->primitive)
    return base != 0 && (before->primitive & base) && before->first_chunk == 0;
  if (before->repeat != after->repeat || before->width != after->width ||
      before->send_peer != after->send_peer || before->recv_peer != after->recv_peer ||
      before->round_ops != after->round_ops)
    return false;
  if (before->peer_stride != after->peer_stride)
    return before->repeat == 1 || !(before->primitive & (R | S));
  return op_has_base_alone(before) || (before->first_chunk == after->first_chunk &&
                                       ((before->repeat == 1 && !(before->primitive & RUNS)) ||
                                        before->chunk_stride == after->chunk_stride));
}

static unsigned op_changes_refuse(const struct rondo_plan_verify_case *what,
                                  struct rondo_plan_op *op) {
  uint32_t n = plans[0].chunk_count;
  struct rondo_plan_op before = *op;
  struct rondo_plan_verify_report report;
  unsigned refused = 0;
  for (int change = 0; op_change(op, n, change); change++) {
    bool neutral = op_change_is_neutral(what->kind, &before, op);
    int status = rondo_plan_verify(what, &report);
    if (status != (neutral ? RONDO_SUCCESS : RONDO_ERR_INTERNAL))
      fail_msg("kind %d, change %d of primitive %d: %s", what->kind, change, before.primitive,
               report.message);
    refused += !neutral;
    *op = before;
  }
  return refused;
}

static unsigned changes_refuse(int kind, int algorithm, uint32_t n) {
  unsigned refused = 0;
  struct rondo_plan_request request = {kind, algorithm, 0, n, 1, keeps_sums, topology, 0};
  if (rondo_plan_build(&request, &plans[0]) == RONDO_ERR_UNSUPPORTED)
    return 0;
  struct rondo_plan_verify_case what = good(kind, algorithm, n);
  for (uint32_t rank = 0; rank < n; rank++) {
    for (uint32_t i = 0; i < plans[rank].op_count; i++)
      refused += op_changes_refuse(&what, &plans[rank].ops[i]);
  }
  return refused;
}

// Plans over two levels of machines with one to three ranks, placed in turn; and with two leaders.
static void refuses_every_change_of_one_field_between_machines(void **state) {
  (void)state;
  static const uint32_t places[][7] = {{0, 1, 2, 0, 1, 0}, {0, 1, 2, 0, 1, 2, 2}};
  for (uint32_t leaders = 1; leaders <= 2; leaders++) {
    uint32_t n = 5 + leaders;
    struct rondo_plan_location at[7];
    for (uint32_t i = 0; i < n; i++)
      at[i] = (struct rondo_plan_location){places[leaders - 1][i], i, 1, leaders};
    topology = rondo_plan_topology_create(at, n);
    assert_non_null(topology);
    assert_int_equal(topology->leaders, leaders);
    for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
      for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
        if (rondo_plan_has_two_levels(algorithm) && rondo_plan_exists(kind, algorithm, n))
          assert_true(changes_refuse(kind, algorithm, n) > 30);
    rondo_plan_topology_destroy(topology);
    topology = NULL;
  }
}

static void refuses_every_change_of_one_field_of_one_op(void **state) {
  (void)state;
  unsigned refused = 0;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
      refused += changes_refuse(kind, algorithm, kind == RONDO_SEND_RECV ? 2 : RANKS);
  }
  keeps_sums = true;
  refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, RANKS);
  keeps_sums = false;
  for (uint32_t n = 2; n < RANKS; n++) {
    refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_TREE, n);
    refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, n);
    refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_ONE_SHOT, n);
    refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, n);
    refused += changes_refuse(RONDO_BROADCAST, RONDO_ALGORITHM_DOUBLE_TREE, n);
  }
  assert_true(refused > 1000);
  refused = changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLING, MORE_RANKS);
  refused += changes_refuse(RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, MORE_RANKS);
  refused += changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, MORE_RANKS);
  assert_true(refused > 1000);
  for (uint32_t n = 2; n <= 8; n++) {
    refused = changes_refuse(RONDO_REDUCE, RONDO_ALGORITHM_BINOMIAL, n);
    refused += changes_refuse(RONDO_REDUCE, RONDO_ALGORITHM_DOUBLE_TREE, n);
    refused += changes_refuse(RONDO_GATHER, RONDO_ALGORITHM_BINOMIAL, n);
    refused += changes_refuse(RONDO_SCATTER, RONDO_ALGORITHM_BINOMIAL, n);
    assert_true(refused > 20);
    refused = changes_refuse(RONDO_ALL_REDUCE, RONDO_ALGORITHM_HALVING, n);
    refused += changes_refuse(RONDO_ALL_GATHER, RONDO_ALGORITHM_BRUCK, n);
    refused += changes_refuse(RONDO_REDUCE_SCATTER, RONDO_ALGORITHM_HALVING, n);
    if (n > 2) // two chunks in descending order are in ascending order, too
      refused += changes_refuse(RONDO_ALL_TO_ALL, RONDO_ALGORITHM_BRUCK, n);
    assert_true(refused > 20);
  }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refuses_a_dropped_op),
    cmocka_unit_test(refuses_a_repeat_too_few),
    cmocka_unit_test(refuses_a_repeat_moved_to_another_op),
    cmocka_unit_test(refuses_a_wrong_first_chunk),
    cmocka_unit_test(refuses_a_ring_that_ends_at_the_wrong_chunk),
    cmocka_unit_test(refuses_a_wrong_stride),
    cmocka_unit_test(refuses_a_wrong_stride_in_the_copying_half),
    cmocka_unit_test(refuses_a_missing_final),
    cmocka_unit_test(refuses_a_doubled_final),
    cmocka_unit_test(refuses_final_before_all_have_contributed),
    cmocka_unit_test(refuses_final_where_nothing_is_reduced),
    cmocka_unit_test(refuses_copy_in_the_place_of_reduce),
    cmocka_unit_test(refuses_send_in_the_place_of_copy),
    cmocka_unit_test(refuses_a_missing_reduce),
    cmocka_unit_test(refuses_a_contribution_added_twice),
    cmocka_unit_test(refuses_reducing_into_a_finished_result),
    cmocka_unit_test(refuses_a_missing_copy),
    cmocka_unit_test(refuses_a_copy_of_a_partial_sum),
    cmocka_unit_test(refuses_writing_where_there_may_be_no_receive_buffer),
    cmocka_unit_test(refuses_reading_where_there_may_be_no_send_buffer),
    cmocka_unit_test(refuses_a_missing_out_base),
    cmocka_unit_test(refuses_a_missing_in_base),
    cmocka_unit_test(refuses_bases_in_kinds_that_have_none),
    cmocka_unit_test(refuses_an_extra_send),
    cmocka_unit_test(refuses_an_extra_round_that_writes_again),
    cmocka_unit_test(refuses_packets_that_nothing_answers),
    cmocka_unit_test(refuses_packets_where_they_cannot_be),
    cmocka_unit_test(refuses_ops_in_the_wrong_order),
    cmocka_unit_test(refuses_a_peer_that_knows_nothing_of_it),
    cmocka_unit_test(refuses_plans_of_another_root),
    cmocka_unit_test(refuses_a_deadlock),
    cmocka_unit_test(refuses_writing_what_a_peer_may_still_read),
    cmocka_unit_test(refuses_reading_its_input_after_writing_over_it),
    cmocka_unit_test(refuses_a_barrier_that_receives_too_few),
    cmocka_unit_test(refuses_a_signal_before_the_one_it_answers),
    cmocka_unit_test(refuses_parts_that_go_to_the_wrong_rank),
    cmocka_unit_test(refuses_taking_a_result_that_nobody_has_begun),
    cmocka_unit_test(refuses_passing_on_a_result_that_is_not_done),
    cmocka_unit_test(refuses_a_result_that_is_left_half_done),
    cmocka_unit_test(refuses_adding_to_a_finished_result),
    cmocka_unit_test(refuses_results_where_none_can_be),
    cmocka_unit_test(refuses_a_tree_that_leaves_a_branch_out),
    cmocka_unit_test(refuses_sums_that_are_added_in_different_orders),
    cmocka_unit_test(refuses_doubling_by_reference),
    cmocka_unit_test(refuses_messages_of_another_width),
    cmocka_unit_test(refuses_messages_of_other_chunks),
    cmocka_unit_test(refuses_reading_scratch_that_nothing_has_written),
    cmocka_unit_test(refuses_scratch_that_nothing_reads),
    cmocka_unit_test(refuses_what_scratch_does_not_have),
    cmocka_unit_test(refuses_overwriting_from_scratch_what_a_peer_may_still_read),
    cmocka_unit_test(refuses_scratch_where_none_can_be),
    cmocka_unit_test(refuses_another_order_than_that_of_a_message),
    cmocka_unit_test(refuses_quantised_plans_whose_ranks_have_different_bits),
    cmocka_unit_test(refuses_messages_of_another_quantisation),
    cmocka_unit_test(refuses_quantised_messages_where_none_can_be),
    cmocka_unit_test(refuses_malformed_ops),
    cmocka_unit_test(refuses_malformed_rounds),
    cmocka_unit_test(refuses_malformed_plans),
    cmocka_unit_test(refuses_wrong_passes),
    cmocka_unit_test(refuses_wrong_passes_between_machines),
    cmocka_unit_test(refuses_a_second_pass_over_what_a_peer_may_still_read),
    cmocka_unit_test(refuses_malformed_walks),
    cmocka_unit_test(names_the_place_of_the_fault),
    cmocka_unit_test(refuses_every_change_of_one_field_of_one_op),
    cmocka_unit_test(refuses_every_change_of_one_field_between_machines),
};

int main(void) { return cmocka_run_group_tests_name("plan_mutation", tests, NULL, NULL); }
