// Collectives with RONDO_ON_LOSS_RETRY: which kinds there are, what a death leaves of each, and how
// their runs end when they cannot go on.
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rondo/elastic.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define SECOND_NS UINT64_C(1000000000)
#define COUNT 100u

// The words of a family.
enum { READY = 0, DONE = 1, SUMMED = 2 };

static struct rondo_collective enter(struct rondo_context ctx, struct rondo_collective_desc d) {
  struct rondo_collective coll;
  d.on_loss = RONDO_ON_LOSS_RETRY;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static struct rondo_collective enter_sum(struct rondo_context ctx, uint64_t id) {
  return enter(ctx, rondo_all_reduce(id, COUNT, RONDO_FLOAT32, RONDO_SUM));
}

static void submit(struct rondo_context ctx, struct rondo_collective coll, float *values,
                   float value) {
  for (uint32_t i = 0; i < COUNT; i++)
    values[i] = value;
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
}

static void expect(struct rondo_context ctx, struct rondo_collective coll, const float *values,
                   float value, uint32_t members) {
  uint32_t count = 0;
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run_members(ctx, coll, RONDO_LAST_RUN, NULL, 0, &count), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count == members);
  for (uint32_t i = 0; i < COUNT; i++)
    RONDO_MEMBER_TRUE(values[i] == value);
}

static void sum_over(struct rondo_context ctx, struct rondo_collective coll, uint32_t members) {
  float values[COUNT];
  submit(ctx, coll, values, 1);
  expect(ctx, coll, values, (float)members, members);
}

// Called by all ranks, which have done a run before: rank 2 is killed.
static void lose_rank_2(struct rondo_family *f, uint32_t rank) {
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 3);
  if (rank == 2)
    kill(getpid(), SIGKILL);
}

static void leave(struct rondo_family *f, struct rondo_context ctx) {
  rondo_family_add(&f->words[DONE]);
  rondo_family_await(&f->words[DONE], 2);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

static void expect_death(struct rondo_family *f) { rondo_family_await(&f->words[READY], 3); }

static void run_family(void (*member)(struct rondo_family *f, uint32_t rank),
                       void (*watch)(struct rondo_family *f)) {
  struct rondo_family *f = rondo_family_create(3, 3);
  rondo_family_run(f, member, watch);
  rondo_family_destroy(f);
}

// ------------------------------------------------------------------ going on ---

// An average divides by those that took part; a broadcast and a reduce keep their root, which has
// another position then.
static void go_on(struct rondo_family *f, uint32_t rank) {
  static const uint32_t pair[] = {2, 0};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_group group = {0};
  float values[4][COUNT];
  struct rondo_collective average =
      enter(ctx, rondo_all_reduce(1, COUNT, RONDO_FLOAT32, RONDO_AVG));
  struct rondo_collective broadcast = enter(ctx, rondo_broadcast(2, COUNT, RONDO_FLOAT32, 1));
  struct rondo_collective reduce = enter(ctx, rondo_reduce(3, COUNT, RONDO_FLOAT32, RONDO_SUM, 0));
  struct rondo_collective_desc d = rondo_all_reduce(4, COUNT, RONDO_FLOAT32, RONDO_SUM);
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, pair, 2, &group), RONDO_SUCCESS);
  d.group = group;
  struct rondo_collective alone = rank == 1 ? average : enter(ctx, d);
  const float own = (float)(rank + 1);
  submit(ctx, average, values[0], own);
  expect(ctx, average, values[0], 2, 3);
  lose_rank_2(f, rank);
  submit(ctx, average, values[0], own);
  submit(ctx, broadcast, values[1], own);
  submit(ctx, reduce, values[2], own);
  if (rank == 0)
    submit(ctx, alone, values[3], own);
  expect(ctx, reduce, values[2], rank == 0 ? 3 : own, 2);
  expect(ctx, broadcast, values[1], 2, 2);
  expect(ctx, average, values[0], 1.5f, 2);
  if (rank == 0)
    expect(ctx, alone, values[3], 1, 1);
  leave(f, ctx);
}

static void each_kind_goes_on_with_the_members_that_are_left(void **state) {
  (void)state;
  run_family(go_on, expect_death);
}

static void on_end(void *arg, int status) {
  uint32_t *called = arg;
  if (status == RONDO_SUCCESS)
    rondo_store_release_u32(called, 1);
}

// Nobody waits: workers and the library's threads do it all.
static void call_back(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_sum(ctx, 1);
  float values[COUNT] = {1};
  uint32_t called = 0;
  sum_over(ctx, coll, 3);
  lose_rank_2(f, rank);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, on_end, &called), RONDO_SUCCESS);
  rondo_family_await(&called, 1);
  RONDO_MEMBER_TRUE(values[0] == 2);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
  int status = RONDO_IN_PROGRESS;
  while (status == RONDO_IN_PROGRESS)
    status = rondo_test(ctx, coll, RONDO_LAST_RUN);
  RONDO_MEMBER_STATUS(status, RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(values[0] == 4);
  leave(f, ctx);
}

static void callbacks_and_tests_see_the_end(void **state) {
  (void)state;
  run_family(call_back, expect_death);
}

// A collective that is registered after the loss, or before it on one rank, goes on too; so does
// one whose id is registered again. rondo_deregister leaves nothing.
static void register_late(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_sum(ctx, 1);
  struct rondo_collective late = coll;
  if (rank == 0)
    late = enter_sum(ctx, 2);
  sum_over(ctx, coll, 3);
  lose_rank_2(f, rank);
  sum_over(ctx, coll, 2);
  if (rank == 1)
    late = enter_sum(ctx, 2);
  sum_over(ctx, late, 2);
  for (uint32_t i = 0; i < 5; i++) {
    RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
    coll = enter_sum(ctx, 1);
    sum_over(ctx, coll, 2);
  }
  leave(f, ctx);
}

static void collectives_may_be_registered_after_a_loss(void **state) {
  (void)state;
  run_family(register_late, expect_death);
}

// ------------------------------------------------------------------ ending ---

static void expect_reason(struct rondo_context ctx, struct rondo_collective coll,
                          const char *part) {
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_reason(ctx, coll, why, sizeof why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(strstr(why, part) != NULL);
}

static void lose_the_root(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  float values[2][COUNT];
  struct rondo_collective sum = enter_sum(ctx, 1);
  struct rondo_collective coll = enter(ctx, rondo_broadcast(2, COUNT, RONDO_FLOAT32, 2));
  sum_over(ctx, sum, 3);
  submit(ctx, coll, values[0], (float)rank);
  expect(ctx, coll, values[0], 2, 3);
  lose_rank_2(f, rank);
  submit(ctx, coll, values[0], (float)rank);
  submit(ctx, coll, values[1], (float)rank);
  uint32_t count;
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
  RONDO_MEMBER_STATUS(rondo_run_members(ctx, coll, RONDO_LAST_RUN, NULL, 0, &count),
                      RONDO_ERR_PEER);
  RONDO_MEMBER_STATUS(rondo_run_members(ctx, coll, 1, NULL, 0, &count), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count == 3);
  RONDO_MEMBER_TRUE(values[0][0] == (float)rank); // nothing of it was visible
  expect_reason(ctx, coll, "rank 2");
  sum_over(ctx, sum, 2);
  leave(f, ctx);
}

static void without_its_root_a_collective_fails(void **state) {
  (void)state;
  run_family(lose_the_root, expect_death);
}

// Rank 2 leaves in order: the runs that need it end as without retry, and soon.
static void leave_in_order(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_sum(ctx, 1);
  float values[COUNT];
  sum_over(ctx, coll, 3);
  if (rank == 2) {
    rondo_family_close(ctx);
    return;
  }
  submit(ctx, coll, values, 1);
  uint64_t begin_ns = rondo_now_ns();
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
  RONDO_MEMBER_TRUE(rondo_now_ns() - begin_ns < 10 * SECOND_NS);
  RONDO_MEMBER_TRUE(values[0] == 1);
  leave(f, ctx);
}

static void a_member_that_leaves_ends_the_runs(void **state) {
  (void)state;
  run_family(leave_in_order, NULL);
}

// Rank 1 aborts while rank 0 waits for a run, after a death or without one.
static void abort_run(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_sum(ctx, 1);
  float values[COUNT];
  sum_over(ctx, coll, 3);
  if (f->seed)
    lose_rank_2(f, rank);
  if (f->seed)
    sum_over(ctx, coll, 2);
  rondo_family_add(&f->words[SUMMED]); // an abort could end a sum that others wait for
  rondo_family_await(&f->words[SUMMED], f->seed ? 2 : 3);
  if (rank == 0)
    submit(ctx, coll, values, 1);
  else if (rank == 1)
    RONDO_MEMBER_STATUS(rondo_abort(ctx), RONDO_SUCCESS);
  if (rank == 1)
    submit(ctx, coll, values, 1);
  if (rank != 2)
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_ABORTED);
  if (rank != 2)
    leave(f, ctx);
  else
    rondo_family_await(&f->words[DONE], 2);
}

static void an_abort_ends_the_runs(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 2; seed++) {
    struct rondo_family *f = rondo_family_create(3, 3);
    f->seed = seed;
    rondo_family_run(f, abort_run, seed ? expect_death : NULL);
    rondo_family_destroy(f);
  }
}

// rondo_destroy aborts a run that another rank never submits.
static void destroy_in_the_middle(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_sum(ctx, 1);
  float values[COUNT];
  sum_over(ctx, coll, 3);
  lose_rank_2(f, rank);
  if (rank == 0)
    submit(ctx, coll, values, 1);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void a_context_may_be_destroyed_in_the_middle(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 5; i++)
    run_family(destroy_in_the_middle, expect_death);
}

// All ranks must ask for it.
static void ask_alone(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective coll;
  float values[COUNT];
  d.on_loss = rank == 1 ? RONDO_ON_LOSS_RETRY : RONDO_ON_LOSS_FAIL;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  submit(ctx, coll, values, 1);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_MISMATCH);
  expect_reason(ctx, coll, "on_loss");
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 3);
  rondo_family_close(ctx);
}

static void ranks_that_differ_in_it_get_a_mismatch(void **state) {
  (void)state;
  run_family(ask_alone, NULL);
}

// ------------------------------------------------------------------ refusals ---

static void other_kinds_are_refused(void **state) {
  (void)state;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_collective coll;
  struct rondo_collective_desc descs[] = {rondo_all_gather(1, COUNT, RONDO_INT32),
                                          rondo_reduce_scatter(1, COUNT, RONDO_INT32, RONDO_SUM),
                                          rondo_send_recv(1, COUNT, RONDO_INT32, 0, 0),
                                          rondo_all_to_all(1, COUNT, RONDO_INT32),
                                          rondo_gather(1, COUNT, RONDO_INT32, 0),
                                          rondo_scatter(1, COUNT, RONDO_INT32, 0),
                                          rondo_barrier(1)};
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
    descs[i].on_loss = RONDO_ON_LOSS_RETRY;
    assert_int_equal(rondo_register(ctx, &descs[i], &coll), RONDO_ERR_UNSUPPORTED);
  }
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  d.on_loss = RONDO_ON_LOSS_COUNT;
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_ERR_INVALID);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

// In a job of one process nobody can be lost: results and ends are as without it. Runs wait their
// turn, also those of a count of 0.
static void a_job_of_one_process_runs_as_ever(void **state) {
  (void)state;
  struct rondo_test_job job = {0};
  struct rondo_collective colls[2][3];
  int32_t values[3][20];
  uint32_t count = 0;
  rondo_test_job_open(&job, 3, NULL);
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_INT32, RONDO_SUM);
  d.on_loss = RONDO_ON_LOSS_RETRY;
  rondo_test_job_register(&job, &d, colls[0]);
  d.id = 2;
  d.count = 0;
  rondo_test_job_register(&job, &d, colls[1]);
  for (uint32_t r = 0; r < 3; r++)
    for (int32_t run = 0; run < 20; run++) {
      int32_t *at = &values[r][run];
      *at = run;
      assert_int_equal(rondo_run(job.ctx[r], colls[0][r], at, at, NULL, NULL), RONDO_SUCCESS);
      assert_int_equal(rondo_run(job.ctx[r], colls[1][r], NULL, NULL, NULL, NULL), RONDO_SUCCESS);
    }
  assert_int_equal(rondo_run_members(job.ctx[0], colls[0][0], 21, NULL, 0, &count),
                   RONDO_ERR_UNKNOWN);
  for (uint32_t r = 0; r < 3; r++) {
    for (uint32_t k = 0; k < 2; k++)
      assert_int_equal(rondo_wait(job.ctx[r], colls[k][r], RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    for (int32_t run = 0; run < 20; run++)
      assert_int_equal(values[r][run], 3 * run);
    assert_int_equal(rondo_run_members(job.ctx[r], colls[0][r], 20, NULL, 0, &count),
                     RONDO_SUCCESS);
    assert_int_equal(count, 3);
    assert_int_equal(rondo_deregister(job.ctx[r], colls[0][r]), RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      // first those that fork
      RONDO_NAMED_TEST("retry", each_kind_goes_on_with_the_members_that_are_left),
      RONDO_NAMED_TEST("retry", callbacks_and_tests_see_the_end),
      RONDO_NAMED_TEST("retry", collectives_may_be_registered_after_a_loss),
      RONDO_NAMED_TEST("retry", without_its_root_a_collective_fails),
      RONDO_NAMED_TEST("retry", a_member_that_leaves_ends_the_runs),
      RONDO_NAMED_TEST("retry", an_abort_ends_the_runs),
      RONDO_NAMED_TEST("retry", a_context_may_be_destroyed_in_the_middle),
      RONDO_NAMED_TEST("retry", ranks_that_differ_in_it_get_a_mismatch),
      RONDO_NAMED_TEST("retry", other_kinds_are_refused),
      RONDO_NAMED_TEST("retry", a_job_of_one_process_runs_as_ever),
  };
  return cmocka_run_group_tests_name("retry_ends", tests, NULL, NULL);
}
