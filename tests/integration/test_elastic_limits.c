// Jobs with a least and a greatest number of ranks: who gets in, who is refused, and what a job
// that has lost too many ranks still does.
#include <unistd.h>

#include <rondo/state.h>

#include "tests/integration/elastic.h"

#define SHORT_NS INT64_C(3000000000)

// The newcomers are refused, or not, as the members have decided.
static void be_refused(struct rondo_family *f) {
  struct rondo_config cfg = newcomer_config(f);
  struct rondo_context ctx = {4711};
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_ERR_FULL);
  expect_text(why, "the job has 3 ranks, and most_ranks is 3");
  RONDO_MEMBER_TRUE(ctx.handle == 4711);
  rondo_family_add(&f->words[DONE]);
}

// A newcomer gets the limits of the members, whatever its own are: the next vote does not differ.
static struct rondo_context join_with_other_limits(struct rondo_family *f) {
  struct rondo_config cfg = newcomer_config(f);
  struct rondo_context ctx;
  cfg.least_ranks = 9;
  cfg.most_ranks = 8;
  RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, NULL), RONDO_SUCCESS);
  return ctx;
}

// ------------------------------------------------------------------ at most ---

// Of three newcomers the job has room for one. Those for whom there is none are refused when the
// job is full, and not before.
static void fill_up(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  struct rondo_context ctx;
  struct rondo_context next;
  const struct rondo_unique_id *id = NULL;
  f->cfg.most_ranks = 3;
  if (rank >= 3) {
    rondo_family_await(&f->words[PENDING], 1); // behind rank 2
    be_refused(f);
    return;
  }
  if (rank == 2) {
    next = join_with_other_limits(f);
  } else {
    ctx = rondo_family_open(f, 0, rank, 2);
    id = rank == 0 ? listen_for_newcomers(f) : NULL;
    if (rank == 0) {
      await_pending(id, 1);
      rondo_family_add(&f->words[PENDING]);
      await_pending(id, 3);
    }
    RONDO_MEMBER_STATUS(rondo_grow(ctx, id, 2, LONG_NS, &next, why), RONDO_ERR_FULL);
    expect_text(why, "the new job would have 4 ranks, and most_ranks is 3");
    if (rank == 0)
      await_pending(id, 3);
    next = grow(ctx, id, RONDO_ALL_PENDING);
    rondo_family_close(ctx);
  }
  ctx = next;
  sum_over(ctx, 1, 3);
  rondo_family_await(&f->words[DONE], 2); // the others are refused
  if (rank == 0)
    await_pending(id, 0);
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, RONDO_ALL_PENDING, LONG_NS, &next, why),
                      RONDO_IN_PROGRESS);
  expect_text(why, "as many ranks as most_ranks allows");
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, 1, LONG_NS, &next, why), RONDO_ERR_FULL);
  next = shrink(ctx); // with the newcomer, who has voted as the others
  sum_over(next, 1, 3);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void newcomers_for_whom_there_is_no_room_are_refused(void **state) {
  (void)state;
  run_family(5, fill_up, NULL);
}

// A newcomer that asks when the job is full already is refused by the next vote on newcomers.
static void ask_a_full_job(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  f->cfg.most_ranks = 3;
  if (rank == 3) {
    be_refused(f);
    return;
  }
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  if (rank == 0)
    await_pending(id, 1);
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, 1, LONG_NS, &next, why), RONDO_ERR_FULL);
  rondo_family_await(&f->words[DONE], 1);
  sum_over(ctx, 1, 3);
  rondo_family_close(ctx);
}

static void a_full_job_refuses_who_asks(void **state) {
  (void)state;
  run_family(4, ask_a_full_job, NULL);
}

// ----------------------------------------------------------------- at least ---

static struct rondo_collective enter_retry(struct rondo_context ctx, uint64_t id,
                                           struct rondo_group group) {
  struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  d.group = group;
  d.on_loss = RONDO_ON_LOSS_RETRY;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static int sync_state(struct rondo_context ctx, char *why) {
  static int32_t weights[COUNT];
  struct rondo_state_tensor tensor = {"weights", weights, COUNT, RONDO_INT32};
  struct rondo_state state = RONDO_STATE_INIT;
  state.tensors = &tensor;
  state.tensor_count = 1;
  return rondo_state_sync(ctx, &state, LONG_NS, NULL, why);
}

// Two of three ranks are left. Runs that need the third one end, also later ones and in later
// collectives; those of other groups go on. A vote waits for a newcomer.
static void run_short(struct rondo_context ctx, struct rondo_collective coll,
                      struct rondo_collective pair) {
  int32_t values[COUNT];
  struct rondo_collective late = enter_retry(ctx, 3, (struct rondo_group){0});
  struct rondo_collective ended[2] = {coll, late};
  for (uint32_t i = 0; i < 4; i++) {
    submit(ctx, ended[i % 2], values);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, ended[i % 2], RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
    RONDO_MEMBER_TRUE(values[0] == 1 && values[COUNT - 1] == 1); // intact
  }
  submit(ctx, pair, values);
  expect_sum(ctx, pair, values, 2);
}

// What all do in the new job, the newcomer too, whose votes do not differ from those of the others.
static void be_a_member(struct rondo_context ctx) {
  char why[RONDO_REASON_BYTES];
  sum_over(ctx, 1, 3);
  RONDO_MEMBER_STATUS(sync_state(ctx, why), RONDO_SUCCESS);
  struct rondo_context next = shrink(ctx);
  sum_over(next, 1, 3);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void fall_short(struct rondo_family *f, uint32_t rank) {
  static const uint32_t both[] = {0, 1};
  int32_t values[COUNT];
  char why[RONDO_REASON_BYTES];
  struct rondo_context next;
  struct rondo_group group;
  f->cfg.least_ranks = 3;
  if (rank == 3) {
    rondo_family_await(&f->words[AGAIN], 2);
    next = join_with_other_limits(f);
    be_a_member(next);
    return;
  }
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, both, 2, &group), RONDO_SUCCESS);
  struct rondo_collective coll = enter_retry(ctx, 1, (struct rondo_group){0});
  struct rondo_collective pair = rank < 2 ? enter_retry(ctx, 2, group) : coll;
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 3);
  RONDO_MEMBER_STATUS(sync_state(ctx, why), RONDO_SUCCESS);
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  // Rank 0 meets the death in the middle; rank 1 calls when it knows.
  while (rank == 1 && rondo_wait_ready(ctx, 0, NULL, 0, NULL) == RONDO_SUCCESS)
    pause_briefly();
  RONDO_MEMBER_STATUS(sync_state(ctx, why), RONDO_ERR_PEER);
  expect_text(why, "the job has 2 ranks left, and least_ranks is 3");
  run_short(ctx, coll, pair);
  RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, LONG_NS, &next, why), RONDO_ERR_PEER);
  expect_text(why, "the new job would have 2 ranks, and least_ranks is 3");
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, RONDO_ALL_PENDING, SHORT_NS, &next, why),
                      RONDO_ERR_TIMEOUT);
  expect_text(why, "rank 0: 0 of 1 newcomers wait, which least_ranks asks for");
  rondo_family_add(&f->words[AGAIN]);
  next = grow(ctx, id, RONDO_ALL_PENDING);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  be_a_member(next);
}

static void a_job_with_too_few_ranks_waits_for_newcomers(void **state) {
  (void)state;
  run_family(4, fall_short, kill_rank_2);
}

// A job that keeps its least number does its runs again.
static void stay_above(struct rondo_family *f, uint32_t rank) {
  int32_t values[COUNT];
  char why[RONDO_REASON_BYTES];
  f->cfg.least_ranks = 2;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_collective coll = enter_retry(ctx, 1, (struct rondo_group){0});
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 3);
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  rondo_family_await(&f->words[DEAD], 1);
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 2);
  RONDO_MEMBER_STATUS(sync_state(ctx, why), RONDO_SUCCESS);
  struct rondo_context next = shrink(ctx);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  sum_over(next, 1, 2);
  rondo_family_close(next);
}

static void a_job_with_enough_ranks_goes_on(void **state) {
  (void)state;
  run_family(3, stay_above, kill_rank_2);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("elastic_limits", newcomers_for_whom_there_is_no_room_are_refused),
      RONDO_NAMED_TEST("elastic_limits", a_full_job_refuses_who_asks),
      RONDO_NAMED_TEST("elastic_limits", a_job_with_too_few_ranks_waits_for_newcomers),
      RONDO_NAMED_TEST("elastic_limits", a_job_with_enough_ranks_goes_on),
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests_name("elastic_limits", tests, NULL, NULL);
}
