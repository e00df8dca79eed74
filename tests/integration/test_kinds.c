// The kinds whose buffers do not follow from a count and a root alone: send-recv, all-to-all-v and
// barrier. The others are in test_matrix.c.
#include <stdlib.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static struct rondo_test_job job;

static struct rondo_collective enter(uint32_t rank, const struct rondo_collective_desc *d) {
  struct rondo_collective coll;
  assert_int_equal(rondo_register(job.ctx[rank], d, &coll), RONDO_SUCCESS);
  return coll;
}

static void submit(uint32_t rank, struct rondo_collective coll, const void *send, void *recv) {
  assert_int_equal(rondo_run(job.ctx[rank], coll, send, recv, NULL, NULL), RONDO_SUCCESS);
}

static int await(uint32_t rank, struct rondo_collective coll) {
  return rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
}

static int try_register(uint32_t rank, struct rondo_collective_desc d) {
  struct rondo_collective coll;
  return rondo_register(job.ctx[rank], &d, &coll);
}

// ---------------------------------------------------------------- send-recv ---

// All ranks send to all others at once, in one thread, sends first on some ranks and receives
// first on others.
static void everybody_sends_to_everybody_in_any_order(void **state) {
  (void)state;
  enum { RANKS = 5, COUNT = 3000 };
  static int32_t data[2][RANKS][RANKS][COUNT];
  struct rondo_collective coll[RANKS][RANKS][2]; // sender, receiver, side
  uint64_t random = 9;
  uint32_t order[RANKS * RANKS];
  rondo_test_job_open(&job, RANKS, NULL);
  memset(data[1], 0, sizeof data[1]);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    rondo_test_shuffle(order, RANKS * RANKS, &random);
    for (uint32_t i = 0; i < RANKS * RANKS; i++) {
      uint32_t from = order[i] / RANKS;
      uint32_t to = order[i] % RANKS;
      if (from != rank && to != rank)
        continue;
      struct rondo_collective_desc d = rondo_send_recv(order[i], COUNT, RONDO_INT32, from, to);
      struct rondo_collective c = enter(rank, &d);
      coll[from][to][rank == to] = c;
      if (from == rank)
        for (uint32_t k = 0; k < COUNT; k++)
          data[0][from][to][k] = (int32_t)(order[i] * COUNT + k);
      submit(rank, c, from == rank ? data[0][from][to] : NULL,
             to == rank ? data[1][from][to] : NULL);
    }
  }
  for (uint32_t i = 0; i < RANKS * RANKS; i++) {
    assert_int_equal(await(i % RANKS, coll[i / RANKS][i % RANKS][1]), RONDO_SUCCESS);
    if (i / RANKS != i % RANKS)
      assert_int_equal(await(i / RANKS, coll[i / RANKS][i % RANKS][0]), RONDO_SUCCESS);
  }
  assert_memory_equal(data[0], data[1], sizeof data[0]);
  rondo_test_job_close(&job);
}

static void a_send_may_name_its_pair_in_different_groups(void **state) {
  (void)state;
  int32_t one = 77, other = 0;
  const uint32_t ranks[] = {2, 0};
  struct rondo_collective_desc d = rondo_send_recv(1, 1, RONDO_INT32, 0, 2);
  rondo_test_job_open(&job, 3, NULL);
  struct rondo_collective sender = enter(0, &d);
  d = rondo_send_recv(1, 1, RONDO_INT32, 1, 0);
  assert_int_equal(rondo_group_create(job.ctx[2], ranks, 2, &d.group), RONDO_SUCCESS);
  struct rondo_collective receiver = enter(2, &d);
  submit(0, sender, &one, NULL);
  submit(2, receiver, NULL, &other);
  assert_int_equal(await(2, receiver), RONDO_SUCCESS);
  assert_int_equal(other, 77);
  assert_int_equal(await(0, sender), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

static void sides_that_disagree_both_end_with_a_mismatch(void **state) {
  (void)state;
  int32_t data[4] = {0};
  struct rondo_collective_desc d = rondo_send_recv(1, 3, RONDO_INT32, 0, 1);
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective sender = enter(0, &d);
  d.count = 4;
  rondo_test_log_clear();
  struct rondo_collective receiver = enter(1, &d);
  assert_true(rondo_test_log_has("mismatch of id 1 in its count"));
  assert_true(rondo_test_log_has("rank 0: send_recv of 3 × int32 from rank 0 to rank 1"));
  submit(0, sender, data, NULL);
  submit(1, receiver, NULL, data);
  assert_int_equal(await(0, sender), RONDO_ERR_MISMATCH);
  assert_int_equal(await(1, receiver), RONDO_ERR_MISMATCH);
  d = rondo_send_recv(2, 3, RONDO_INT32, 0, 1);
  sender = enter(0, &d);
  d = rondo_send_recv(2, 3, RONDO_INT32, 1, 0); // both send
  receiver = enter(1, &d);
  submit(0, sender, data, NULL);
  submit(1, receiver, data, NULL);
  assert_int_equal(await(0, sender), RONDO_ERR_MISMATCH);
  assert_int_equal(await(1, receiver), RONDO_ERR_MISMATCH);
  rondo_test_job_close(&job);
}

static void a_rank_without_a_part_in_a_send_is_refused(void **state) {
  (void)state;
  rondo_test_job_open(&job, 3, NULL);
  rondo_test_log_clear();
  assert_int_equal(try_register(2, rondo_send_recv(1, 3, RONDO_INT32, 0, 1)), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("neither sends"));
  assert_int_equal(try_register(0, rondo_send_recv(1, 3, RONDO_INT32, 0, 3)), RONDO_ERR_INVALID);
  assert_int_equal(try_register(0, rondo_send_recv(1, 3, RONDO_INT32, 3, 0)), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 3);
  rondo_test_job_close(&job);
}

// -------------------------------------------------------------- all-to-all-v ---

enum { V_RANKS = 6, V_MOST = 5000 };

struct v_side {
  uint64_t counts[2][V_RANKS], displacements[2][V_RANKS]; // send, receive
  int32_t *data[2];
  uint64_t elems[2];
};

static uint64_t v_count(uint32_t from, uint32_t to) {
  static const uint64_t some[] = {0, 1, 5000, 17, 0, 1023, 4096};
  return to == 2 ? 0 : some[(from * 3 + to * 5) % 7]; // rank 2 receives nothing
}

static int32_t v_value(uint32_t from, uint32_t to, uint64_t i) {
  return (int32_t)(from * 1000003 + to * 10007 + i);
}

// Parts lie backwards, with gaps.
static void v_init(struct v_side *v, uint32_t rank) {
  for (int side = 0; side < 2; side++) {
    v->elems[side] = 0;
    for (uint32_t i = V_RANKS; i-- > 0;) {
      v->counts[side][i] = side ? v_count(i, rank) : v_count(rank, i);
      v->displacements[side][i] = v->elems[side] + 3;
      v->elems[side] += 3 + v->counts[side][i];
    }
    v->elems[side] += 3;
    v->data[side] = calloc(v->elems[side], sizeof(int32_t));
    assert_non_null(v->data[side]);
  }
  for (uint32_t to = 0; to < V_RANKS; to++)
    for (uint64_t i = 0; i < v->counts[0][to]; i++)
      v->data[0][v->displacements[0][to] + i] = v_value(rank, to, i);
}

static void v_check(const struct v_side *v, uint32_t rank) {
  uint64_t filled = 0, written = 0;
  for (uint32_t from = 0; from < V_RANKS; from++) {
    filled += v->counts[1][from];
    for (uint64_t i = 0; i < v->counts[1][from]; i++)
      assert_int_equal(v->data[1][v->displacements[1][from] + i], v_value(from, rank, i));
  }
  for (uint64_t i = 0; i < v->elems[1]; i++)
    written += v->data[1][i] != 0;
  assert_true(written <= filled); // nothing in the gaps
}

static void v_exchange(const struct rondo_config *like) {
  static struct v_side sides[V_RANKS];
  struct rondo_collective coll[V_RANKS];
  rondo_test_job_open(&job, V_RANKS, like);
  for (uint32_t r = 0; r < V_RANKS; r++) {
    struct v_side *v = &sides[r];
    v_init(v, r);
    struct rondo_collective_desc d = rondo_all_to_all_v(
        4, RONDO_INT32, v->counts[0], v->displacements[0], v->counts[1], v->displacements[1]);
    coll[r] = enter(r, &d);
    submit(r, coll[r], v->data[0], v->data[1]);
  }
  for (uint32_t r = 0; r < V_RANKS; r++)
    assert_int_equal(await(r, coll[r]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < V_RANKS; r++) {
    v_check(&sides[r], r);
    free(sides[r].data[0]);
    free(sides[r].data[1]);
  }
  rondo_test_job_close(&job);
}

static void uneven_parts_reach_their_places(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  const uint32_t slots[] = {0, 4096, 64};
  const uint32_t blocks[] = {1, 2, 3};
  for (int i = 0; i < 3; i++) {
    c.slot_bytes = slots[i];
    c.blocks = blocks[i];
    v_exchange(&c);
  }
}

static void counts_of_a_pair_that_disagree_are_a_mismatch(void **state) {
  (void)state;
  const uint64_t counts[3] = {1, 2, 3}, others[3] = {1, 1, 1};
  int32_t data[2][8] = {{0}};
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective_desc d =
      rondo_all_to_all_v(1, RONDO_INT32, counts, NULL, counts, NULL); // rank 1 gets 2
  coll[0] = enter(0, &d);
  d.send_counts = d.recv_counts = others; // and expects 1
  rondo_test_log_clear();
  coll[1] = enter(1, &d);
  assert_true(rondo_test_log_has("in its counts for each other"));
  assert_true(rondo_test_log_has("rank 0: all_to_all_v of int32, 2 to rank 1, 2 from it"));
  for (uint32_t r = 0; r < 2; r++)
    submit(r, coll[r], data[0], data[1]);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(await(r, coll[r]), RONDO_ERR_MISMATCH);
  rondo_test_job_close(&job);
}

static void unsound_parts_are_refused(void **state) {
  (void)state;
  const uint64_t counts[2] = {1, 2}, others[2] = {2, 2}, same[2] = {0, 0},
                 huge[2] = {1, UINT64_MAX};
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_log_clear();
  assert_int_equal(try_register(0, rondo_all_to_all_v(1, RONDO_INT8, NULL, NULL, counts, NULL)),
                   RONDO_ERR_INVALID);
  assert_int_equal(try_register(0, rondo_all_to_all_v(1, RONDO_INT8, counts, NULL, others, NULL)),
                   RONDO_ERR_INVALID); // not the same to itself
  assert_int_equal(try_register(0, rondo_all_to_all_v(1, RONDO_INT8, counts, NULL, counts, same)),
                   RONDO_ERR_INVALID); // one upon the other
  assert_int_equal(try_register(0, rondo_all_to_all_v(1, RONDO_INT8, huge, NULL, counts, NULL)),
                   RONDO_ERR_INVALID);
  struct rondo_collective_desc d = rondo_all_to_all_v(1, RONDO_INT8, counts, NULL, counts, NULL);
  d.count = 1;
  assert_int_equal(try_register(0, d), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 5);
  rondo_test_job_close(&job);
}

// ------------------------------------------------------------------- buffers ---

// A rank that does not use a buffer may leave it out; in place is only what the header says.
static void buffers_are_checked_as_each_kind_uses_them(void **state) {
  (void)state;
  static int32_t data[16];
  rondo_test_job_open(&job, 2, NULL);
  const struct {
    struct rondo_collective_desc d;
    const void *send;
    void *recv;
    int status;
  } cases[] = {
      {rondo_gather(0, 4, RONDO_INT32, 1), data, NULL, RONDO_SUCCESS},
      {rondo_gather(0, 4, RONDO_INT32, 0), data, NULL, RONDO_ERR_INVALID},
      {rondo_gather(0, 4, RONDO_INT32, 0), data, data, RONDO_SUCCESS},
      {rondo_gather(0, 4, RONDO_INT32, 0), data + 4, data, RONDO_ERR_INVALID},
      {rondo_scatter(0, 4, RONDO_INT32, 1), NULL, data, RONDO_SUCCESS},
      {rondo_scatter(0, 4, RONDO_INT32, 0), NULL, data, RONDO_ERR_INVALID},
      {rondo_scatter(0, 4, RONDO_INT32, 0), data, data, RONDO_SUCCESS},
      {rondo_scatter(0, 4, RONDO_INT32, 0), data, data + 4, RONDO_ERR_INVALID},
      {rondo_all_to_all(0, 4, RONDO_INT32), data, data, RONDO_ERR_INVALID},
      {rondo_all_to_all(0, 4, RONDO_INT32), data, data + 7, RONDO_ERR_INVALID},
      {rondo_all_to_all(0, 4, RONDO_INT32), data, data + 8, RONDO_SUCCESS},
      {rondo_send_recv(0, 4, RONDO_INT32, 0, 1), NULL, data, RONDO_ERR_INVALID},
      {rondo_send_recv(0, 4, RONDO_INT32, 1, 0), data, NULL, RONDO_ERR_INVALID},
      {rondo_barrier(0), NULL, NULL, RONDO_SUCCESS},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rondo_collective_desc d = cases[i].d;
    d.id = i;
    struct rondo_collective coll = enter(0, &d);
    if (rondo_run(job.ctx[0], coll, cases[i].send, cases[i].recv, NULL, NULL) != cases[i].status)
      fail_msg("case %zu", i);
  }
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_abort(job.ctx[r]), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

static void a_kind_that_does_not_reduce_takes_no_reduction(void **state) {
  (void)state;
  rondo_test_job_open(&job, 1, NULL);
  struct rondo_collective_desc d = rondo_all_gather(1, 4, RONDO_FLOAT32);
  d.redop = RONDO_AVG;
  assert_int_equal(try_register(0, d), RONDO_ERR_INVALID);
  d = rondo_barrier(1);
  d.count = 1;
  assert_int_equal(try_register(0, d), RONDO_ERR_INVALID);
  rondo_test_job_close(&job);
}

// -------------------------------------------------------------------- barrier ---

// A run has not ended while one rank has not submitted it, whatever the others have outstanding.
static void a_barrier_waits_for_the_last(void **state) {
  (void)state;
  enum { RUNS = 5 };
  for (uint32_t ranks = 1; ranks <= 9; ranks++) {
    struct rondo_collective coll[9];
    struct rondo_collective_desc d = rondo_barrier(1);
    rondo_test_job_open(&job, ranks, NULL);
    rondo_test_job_register(&job, &d, coll);
    for (uint64_t run = 1; run <= RUNS; run++) {
      uint32_t last = (uint32_t)(run * 5 % ranks);
      for (uint32_t r = 0; r < ranks; r++)
        if (r != last)
          submit(r, coll[r], NULL, NULL);
      for (uint32_t r = 0; r < ranks; r++)
        if (r != last)
          assert_int_equal(rondo_wait(job.ctx[r], coll[r], run, 100000), RONDO_ERR_TIMEOUT);
      submit(last, coll[last], NULL, NULL);
      for (uint32_t r = 0; r < ranks; r++)
        assert_int_equal(await(r, coll[r]), RONDO_SUCCESS);
    }
    rondo_test_job_close(&job);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("kinds", everybody_sends_to_everybody_in_any_order),
      RONDO_NAMED_TEST("kinds", a_send_may_name_its_pair_in_different_groups),
      RONDO_NAMED_TEST("kinds", sides_that_disagree_both_end_with_a_mismatch),
      RONDO_NAMED_TEST("kinds", a_rank_without_a_part_in_a_send_is_refused),
      RONDO_NAMED_TEST("kinds", uneven_parts_reach_their_places),
      RONDO_NAMED_TEST("kinds", counts_of_a_pair_that_disagree_are_a_mismatch),
      RONDO_NAMED_TEST("kinds", unsound_parts_are_refused),
      RONDO_NAMED_TEST("kinds", buffers_are_checked_as_each_kind_uses_them),
      RONDO_NAMED_TEST("kinds", a_kind_that_does_not_reduce_takes_no_reduction),
      RONDO_NAMED_TEST("kinds", a_barrier_waits_for_the_last),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("kinds", tests, NULL, NULL);
}
