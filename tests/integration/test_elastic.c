// Jobs whose members change: processes join and leave, are stopped, die and are replaced. Every
// call returns in bounded time, and every member gets the same answer.
#include <pthread.h>
#include <unistd.h>

#include "runtime/job/members.h"
#include "runtime/net/job_address.h"
#include "runtime/net/job_root.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/handles.h"
#include "tests/integration/elastic.h"

// ------------------------------------------------------------ joining, leaving ---

// Rank 2 comes, rank 1 goes. A run of the old job is outstanding during the vote: rank 1 submits it
// after the vote only, rank 0 before.
static void come_and_go(struct rondo_family *f, uint32_t rank) {
  if (rank == 2) {
    struct rondo_context joined = join(f);
    sum_over(joined, 2, 3);
    rondo_family_await(&f->words[LEFT], 1);
    struct rondo_context rest = shrink(joined);
    rondo_family_close(joined);
    sum_over(rest, 3, 2);
    rondo_family_close(rest);
    return;
  }
  int32_t values[COUNT];
  struct rondo_context old = rondo_family_open(f, 0, rank, 2);
  struct rondo_collective coll = enter(old, 1);
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  if (rank == 0)
    submit(old, coll, values);
  struct rondo_context next = grow(old, id, 1);
  sum_over(next, 2, 3);
  if (rank == 1)
    submit(old, coll, values);
  expect_sum(old, coll, values, 2);
  rondo_family_close(old);
  if (rank == 1) {
    rondo_family_close(next);
    rondo_family_add(&f->words[LEFT]);
    return;
  }
  rondo_family_await(&f->words[LEFT], 1);
  RONDO_MEMBER_STATUS(rondo_grow_close(id), RONDO_SUCCESS);
  struct rondo_context rest = shrink(next);
  rondo_family_close(next);
  sum_over(rest, 3, 2);
  rondo_family_close(rest);
}

static void a_process_joins_and_another_leaves(void **state) {
  (void)state;
  run_family(3, come_and_go, NULL);
}

// A job of one process grows by one again and again; each newcomer is a member at the next vote.
static void come_one_by_one(struct rondo_family *f, uint32_t rank) {
  const struct rondo_unique_id *id = NULL;
  struct rondo_context ctx;
  if (rank == 0) {
    struct rondo_config cfg = f->cfg;
    RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
    id = listen_for_newcomers(f);
  } else {
    rondo_family_await(&f->words[DONE], rank - 1);
    ctx = join(f);
    sum_over(ctx, 1, rank + 1);
  }
  for (uint32_t ranks = rank + 2; ranks <= f->ranks; ranks++) {
    if (rank == 0)
      await_pending(id, 1);
    struct rondo_context next = grow(ctx, id, 1);
    rondo_family_close(ctx);
    ctx = next;
    sum_over(ctx, 1, ranks);
    if (rank == 0)
      rondo_family_add(&f->words[DONE]);
  }
  rondo_family_add(&f->words[LEFT]);
  rondo_family_await(&f->words[LEFT], f->ranks);
  rondo_family_close(ctx);
}

static void a_job_grows_one_by_one(void **state) {
  (void)state;
  run_family(5, come_one_by_one, NULL);
}

// Two members exclude the third, which lives on in the old job.
static void exclude(struct rondo_family *f, uint32_t rank) {
  static const uint32_t excluded[] = {1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  sum_over(ctx, 1, 3);
  if (rank != 1) {
    RONDO_MEMBER_STATUS(rondo_shrink(ctx, excluded, 1, LONG_NS, &next, NULL), RONDO_SUCCESS);
    sum_over(next, 1, 2);
    rondo_family_close(next);
  }
  sum_over(ctx, 2, 3);
  rondo_family_close(ctx);
}

static void members_exclude_another_one(void **state) {
  (void)state;
  run_family(3, exclude, NULL);
}

// The rank that the others exclude leaves in the middle of their vote: rank 0 votes before, rank 2
// when it knows. Then both vote for what is left in another way, and agree.
static void *announce_the_vote(void *arg) {
  struct voter *v = arg;
  for (size_t runs = 0; runs == 0; pause_briefly())
    RONDO_MEMBER_STATUS(rondo_stuck(v->ctx, NULL, 0, &runs), RONDO_SUCCESS);
  rondo_family_add(&v->f->words[READY]);
  return NULL;
}

static void exclude_the_leaving(struct rondo_family *f, uint32_t rank) {
  static const uint32_t excluded[] = {1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct voter voter = {.f = f, .ctx = ctx};
  struct rondo_context next;
  pthread_t watcher;
  sum_over(ctx, 1, 3);
  if (rank == 0) {
    RONDO_MEMBER_TRUE(pthread_create(&watcher, NULL, announce_the_vote, &voter) == 0);
  } else if (rank == 1) {
    rondo_family_await(&f->words[READY], 1);
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
    return;
  }
  while (rank == 2 && rondo_wait_ready(ctx, 0, NULL, 0, NULL) == RONDO_SUCCESS)
    pause_briefly();
  RONDO_MEMBER_STATUS(rondo_shrink(ctx, excluded, 1, LONG_NS, &next, NULL), RONDO_SUCCESS);
  if (rank == 0)
    pthread_join(watcher, NULL);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  next = shrink(ctx);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void an_excluded_rank_may_leave_during_the_vote(void **state) {
  (void)state;
  run_family(3, exclude_the_leaving, NULL);
}

// ------------------------------------------------------------------------ deaths ---

// Rank 1 has joined and is gone when rank 0 looks: to wait_ready it is lost, but a vote's new job
// has begun with it.
static void look_late(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  struct rondo_rank_list missing = {0};
  struct rondo_rank *self;
  sum_over(ctx, 1, 2);
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 2);
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_wait_gone(ctx, LONG_NS, NULL, 0, NULL), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait_ready(ctx, LONG_NS, NULL, 0, NULL), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &self), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_rank_await(self, RONDO_AWAIT_JOINED, &missing, LONG_NS),
                        RONDO_SUCCESS);
    rondo_rank_unpin(ctx);
  }
  rondo_family_close(ctx);
}

static void a_rank_that_joined_and_is_gone_has_joined(void **state) {
  (void)state;
  run_family(2, look_late, NULL);
}

// Rank 1 destroys its new context at once; rank 0 gets its own in any case.
static void leave_at_once(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  for (uint32_t i = 0; i < 50; i++) {
    struct rondo_context next = shrink(ctx);
    RONDO_MEMBER_STATUS(rondo_destroy(next, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  }
  rondo_family_close(ctx);
}

static void members_that_leave_the_new_job_at_once_do_not_disturb_the_others(void **state) {
  (void)state;
  run_family(2, leave_at_once, NULL);
}

// The root of a job asks its gatherer a few times per process for the place in the roster, however
// many there are.
static struct rondo_root_gatherer counting;
static uint32_t places;

static uint32_t count_place(const void *gather, uint64_t who) {
  (void)rondo_fetch_add_relaxed_u32(&places, 1);
  return rondo_members_gatherer.place(gather, who);
}

static void count_places(struct rondo_family *f, uint32_t rank) {
  struct rondo_config cfg = f->cfg;
  struct rondo_context ctx;
  cfg.rank = rank;
  cfg.rank_count = f->ranks;
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_config_complete(&cfg), RONDO_SUCCESS);
    counting = rondo_members_gatherer;
    counting.place = count_place;
    RONDO_MEMBER_STATUS(rondo_root_listen(&cfg, &counting, &f->ids[0]), RONDO_SUCCESS);
    rondo_store_release_u32(&f->has_id[0], 1);
  }
  rondo_family_await(&f->has_id[0], 1);
  cfg.id = f->ids[0];
  RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  sum_over(ctx, 1, f->ranks);
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], f->ranks);
  rondo_family_close(ctx); // the root has dismissed all by then
  if (rank == 0)
    RONDO_MEMBER_TRUE(rondo_load_relaxed_u32(&places) <= 3 * f->ranks);
}

static void the_work_of_a_root_is_linear(void **state) {
  (void)state;
  run_family(12, count_places, NULL);
}

// Rank 2 is killed and rank 3 takes its place. The secret of the old job is of no use any more.
static void be_replaced(struct rondo_family *f, uint32_t rank) {
  if (rank == 3) {
    struct rondo_config cfg = f->cfg;
    struct rondo_context ctx;
    rondo_family_await(&f->words[DEAD], 1);
    cfg.id = f->ids[0];
    cfg.rank = 2;
    cfg.rank_count = 3;
    RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait_ready(ctx, LONG_NS, NULL, 0, NULL), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
    ctx = join(f);
    sum_over(ctx, 1, 3);
    rondo_family_close(ctx);
    return;
  }
  int32_t values[COUNT];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  const struct rondo_unique_id *id = rank == 1 ? listen_for_newcomers(f) : NULL;
  struct rondo_collective coll = enter(ctx, 1);
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 3);
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  submit(ctx, coll, values);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
  struct rondo_context next = grow(ctx, id, 1);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  sum_over(next, 1, 3);
  rondo_family_close(next);
}

static void a_killed_process_is_replaced(void **state) {
  (void)state;
  run_family(4, be_replaced, kill_rank_2);
}

// A member is stopped, the others put it out, vote and leave the old job. When it goes on, it is
// out, whatever its rank: it cannot go on alone.
static void stop_and_go_on(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  int32_t values[COUNT];
  f->cfg.peer_timeout_ns = 300000000;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  struct rondo_collective coll = enter(ctx, 1);
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 3);
  rondo_family_add(&f->words[READY]);
  if (rank != f->seed) {
    submit(ctx, coll, values);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
    next = shrink(ctx);
    sum_over(next, 1, 2);
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
    rondo_family_add(&f->words[AGAIN]);
    rondo_family_await(&f->words[DONE], 1);
    rondo_family_close(next);
    return;
  }
  rondo_family_await(&f->words[AGAIN], 2);
  RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, LONG_NS, &next, why), RONDO_ERR_PEER);
  expect_text(why, "is no longer in its job");
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
  rondo_family_add(&f->words[DONE]);
}

static void stop_one(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], 3);
  kill(f->pids[f->seed], SIGSTOP);
  rondo_family_await(&f->words[AGAIN], 2);
  kill(f->pids[f->seed], SIGCONT);
}

static void a_member_that_was_put_out_cannot_go_on_alone(void **state) {
  (void)state;
  for (uint32_t rank = 0; rank < 3; rank++) {
    struct rondo_family *f = rondo_family_create(3, 3);
    f->seed = rank;
    rondo_family_run(f, stop_and_go_on, stop_one);
    rondo_family_destroy(f);
  }
}

// Rank 2 never votes and is killed while the others wait for its vote.
static void vote_without_the_dead(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  sum_over(ctx, 1, 3);
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  struct rondo_context next = shrink(ctx);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void a_death_during_the_vote_leads_to_another_vote(void **state) {
  (void)state;
  run_family(3, vote_without_the_dead, kill_rank_2);
}

// The newcomer of rank 2 is stopped before the vote, and killed once it was admitted. The one of
// rank 3 comes then, and takes its place in the same vote of the members.
static void *watch_the_waiting(void *arg) {
  struct rondo_family *f = arg;
  await_pending(&f->ids[NEWCOMERS], 0);
  rondo_family_add(&f->words[AGAIN]);
  return NULL;
}

static void admit_the_dying(struct rondo_family *f, uint32_t rank) {
  if (rank >= 2) {
    rondo_family_await(&f->words[DEAD], rank == 3);
    struct rondo_context ctx = join(f);
    sum_over(ctx, 1, 3);
    rondo_family_close(ctx);
    return;
  }
  pthread_t watcher;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  if (rank == 0) {
    await_pending(id, 1);
    rondo_family_add(&f->words[PENDING]);
    rondo_family_await(&f->words[READY], 1);
    RONDO_MEMBER_TRUE(pthread_create(&watcher, NULL, watch_the_waiting, f) == 0);
  }
  struct rondo_context next = grow(ctx, id, 1);
  if (rank == 0)
    pthread_join(watcher, NULL);
  sum_over(next, 1, 3);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void stop_and_kill_the_newcomer(struct rondo_family *f) {
  rondo_family_await(&f->words[PENDING], 1);
  kill(f->pids[2], SIGSTOP);
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[AGAIN], 1);
  kill(f->pids[2], SIGKILL);
  rondo_family_add(&f->words[DEAD]);
}

static void a_newcomer_that_dies_in_the_middle_is_replaced(void **state) {
  (void)state;
  run_family(4, admit_the_dying, stop_and_kill_the_newcomer);
}

// The process that has the id of the newcomers dies: the newcomer gives up, and the members say
// that nobody passes the id.
static void lose_the_keeper(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  struct rondo_context next;
  if (rank == 3) {
    struct rondo_config cfg = newcomer_config(f);
    RONDO_MEMBER_STATUS(rondo_join(&next, &cfg, LONG_NS, why), RONDO_ERR_PEER);
    expect_text(why, "is gone");
    return;
  }
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  sum_over(ctx, 1, 3);
  if (rank == 2)
    await_pending(listen_for_newcomers(f), 1);
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  RONDO_MEMBER_STATUS(rondo_grow(ctx, NULL, 1, LONG_NS, &next, why), RONDO_ERR_MISMATCH);
  expect_text(why, "no member passes the id");
  next = shrink(ctx);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void without_the_keeper_of_the_id_nobody_is_admitted(void **state) {
  (void)state;
  run_family(4, lose_the_keeper, kill_rank_2);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("elastic", a_process_joins_and_another_leaves),
      RONDO_NAMED_TEST("elastic", a_job_grows_one_by_one),
      RONDO_NAMED_TEST("elastic", members_exclude_another_one),
      RONDO_NAMED_TEST("elastic", an_excluded_rank_may_leave_during_the_vote),
      RONDO_NAMED_TEST("elastic", a_rank_that_joined_and_is_gone_has_joined),
      RONDO_NAMED_TEST("elastic", members_that_leave_the_new_job_at_once_do_not_disturb_the_others),
      RONDO_NAMED_TEST("elastic", the_work_of_a_root_is_linear),
      RONDO_NAMED_TEST("elastic", a_killed_process_is_replaced),
      RONDO_NAMED_TEST("elastic", a_member_that_was_put_out_cannot_go_on_alone),
      RONDO_NAMED_TEST("elastic", a_death_during_the_vote_leads_to_another_vote),
      RONDO_NAMED_TEST("elastic", a_newcomer_that_dies_in_the_middle_is_replaced),
      RONDO_NAMED_TEST("elastic", without_the_keeper_of_the_id_nobody_is_admitted),
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests_name("elastic", tests, NULL, NULL);
}
