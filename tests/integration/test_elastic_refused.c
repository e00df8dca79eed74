// Votes that lead to no new job, because they differ, are not given, or admit nobody; and newcomers
// that are refused. Every member gets the same answer, in bounded time, and can vote again.
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/integration/elastic.h"

// All members get the error, and it names who asked for what. Then they agree.
static void differ(struct rondo_family *f, uint32_t rank) {
  static const uint32_t excluded[] = {0};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  char why[RONDO_REASON_BYTES];
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  sum_over(ctx, 1, 3);
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, rank == 1 ? 2 : RONDO_ALL_PENDING, LONG_NS, &next, why),
                      RONDO_ERR_MISMATCH);
  expect_text(why, "ranks 0, 2 ask to admit all newcomers that wait; rank 1 asks to admit 2");
  int status = rank == 1 ? rondo_shrink(ctx, NULL, 0, LONG_NS, &next, why)
                         : rondo_grow(ctx, id, RONDO_ALL_PENDING, LONG_NS, &next, why);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_MISMATCH);
  expect_text(why, "rank 1 asks to shrink");
  RONDO_MEMBER_STATUS(rondo_grow(ctx, NULL, 1, LONG_NS, &next, why), RONDO_ERR_MISMATCH);
  expect_text(why, "no member passes the id");
  status = rondo_shrink(ctx, excluded, rank == 2, LONG_NS, &next, why);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_MISMATCH);
  expect_text(why, rank == 2 ? "rank 2 asks for 2 ranks" : "asks for 3 ranks");
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, RONDO_ALL_PENDING, LONG_NS, &next, why),
                      RONDO_IN_PROGRESS);
  expect_text(why, "no newcomer waits");
  sum_over(ctx, 2, 3);
  rondo_family_close(ctx);
}

static void differing_votes_give_everybody_an_error_that_says_who_asked_for_what(void **state) {
  (void)state;
  run_family(3, differ, NULL);
}

// All exclude differently. One of them votes when the others have their error already, and have
// forgotten how they voted: rank 3, which all others exclude, meets none that knows.
static void exclude_differently(struct rondo_family *f, uint32_t rank) {
  static const uint32_t excluded[] = {3, 2};
  static const uint32_t counts[] = {2, 1, 1, 0};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 4);
  struct rondo_context next;
  char why[RONDO_REASON_BYTES];
  sum_over(ctx, 1, 4);
  if (rank == f->seed)
    rondo_family_await(&f->words[READY], 3);
  int status = rondo_shrink(ctx, excluded, counts[rank], LONG_NS, &next, why);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_MISMATCH);
  expect_text(why, "the votes differ in who is to stay");
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 4);
  next = shrink(ctx);
  sum_over(next, 1, 4);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void members_that_exclude_different_ranks_all_get_the_mismatch(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 8; i++) {
    struct rondo_family *f = rondo_family_create(i < 4 ? 4 : 1, 4);
    f->seed = i % 4; // who is late
    rondo_family_run(f, exclude_differently, NULL);
    rondo_family_destroy(f);
  }
}

// Rank 1 does not vote in time; then it does.
static void vote_too_late(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  struct rondo_context next;
  char why[RONDO_REASON_BYTES];
  sum_over(ctx, 1, 2);
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, 100000000, &next, why), RONDO_ERR_TIMEOUT);
    expect_text(why, "missing: rank 1");
    rondo_family_add(&f->words[DONE]);
  } else {
    rondo_family_await(&f->words[DONE], 1);
    int status = rondo_shrink(ctx, NULL, 0, 1000000000, &next, why);
    RONDO_MEMBER_TRUE(status == RONDO_ERR_ABORTED || status == RONDO_ERR_TIMEOUT ||
                      status == RONDO_ERR_PEER);
    rondo_family_add(&f->words[AGAIN]);
  }
  rondo_family_await(&f->words[AGAIN], 1);
  next = shrink(ctx);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void a_vote_that_not_all_give_ends_in_time(void **state) {
  (void)state;
  run_family(2, vote_too_late, NULL);
}

// The signals that a task blocks, if it is a thread that declines; else 0.
static unsigned long long task_blocked(const char *task) {
  char path[300];
  char line[200];
  unsigned long long blocked = 0;
  bool declines = false;
  (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
  FILE *status = fopen(path, "r");
  while (status && fgets(line, sizeof line, status)) {
    declines |= strcmp(line, "Name:\trondo-decline\n") == 0;
    if (strncmp(line, "SigBlk:", 7) == 0)
      blocked = strtoull(line + 7, NULL, 16);
  }
  if (status)
    (void)fclose(status);
  return declines ? blocked : 0;
}

// The application's signals do not come to the thread that declines.
static void expect_no_signals(void) {
  unsigned long long blocked = 0;
  while (!blocked) {
    DIR *tasks = opendir("/proc/self/task");
    RONDO_MEMBER_TRUE(tasks != NULL);
    for (const struct dirent *t = readdir(tasks); t && !blocked; t = readdir(tasks))
      blocked = task_blocked(t->d_name);
    (void)closedir(tasks);
  }
  RONDO_MEMBER_TRUE(blocked >> (SIGUSR2 - 1) & 1);
}

// Rank 0 gives up waiting. Then rank 2 is killed, and rank 1 votes when it knows: rank 0 does not
// vote with it, and tells it so. The next call of both is in step.
static void vote_after_a_loss(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  int32_t values[COUNT];
  char why[RONDO_REASON_BYTES];
  struct rondo_collective coll = enter(ctx, 1);
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, 3);
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, 10000000, &next, why), RONDO_ERR_TIMEOUT);
    expect_no_signals();
    rondo_family_add(&f->words[READY]);
    rondo_family_add(&f->words[READY]);
  }
  rondo_family_add(&f->words[READY]);
  if (rank == 2)
    for (;;)
      pause();
  if (rank == 1) {
    submit(ctx, coll, values);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, LONG_NS, &next, why), RONDO_ERR_ABORTED);
    expect_text(why, "the call of rank 0 has ended: not all members have voted in time");
    rondo_family_add(&f->words[AGAIN]);
  }
  rondo_family_await(&f->words[AGAIN], 1);
  next = shrink(ctx);
  sum_over(next, 1, 2);
  rondo_family_close(next);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void kill_rank_2_after_rank_0(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], 5);
  kill(f->pids[2], SIGKILL);
}

static void nobody_waits_for_one_that_has_given_up(void **state) {
  (void)state;
  run_family(3, vote_after_a_loss, kill_rank_2_after_rank_0);
}

// Newcomers with a wrong secret, another version, or an id of another kind are refused; too few
// newcomers end the vote for all, with the same reason.
static void refuse(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  struct rondo_context ctx;
  if (rank == 2) {
    struct rondo_config cfg = newcomer_config(f);
    struct rondo_unique_id id = cfg.id;
    cfg.id.bytes[20] ^= 1; // of the secret
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, 300000000, why), RONDO_ERR_TIMEOUT);
    expect_text(why, "secret");
    cfg.id = id;
    cfg.id.bytes[8]--; // the version
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_ERR_INVALID);
    cfg.id = f->ids[0];
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_ERR_INVALID);
    expect_text(why, "rondo_init");
    memset(&cfg.id, 0, sizeof cfg.id);
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_ERR_INVALID);
    cfg.id = id;
    cfg.rank_count = 2;
    RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait_ready(ctx, LONG_NS, NULL, 0, NULL), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
    rondo_family_add(&f->words[DONE]);
    return;
  }
  ctx = rondo_family_open(f, 0, rank, 2);
  struct rondo_context next;
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  sum_over(ctx, 1, 2);
  rondo_family_await(&f->words[DONE], 1);
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, 1, 1000000000, &next, why), RONDO_ERR_TIMEOUT);
  expect_text(why, "rank 0: 0 of 1 newcomers wait");
  RONDO_MEMBER_STATUS(rondo_grow(ctx, rank == 0 ? &f->ids[0] : NULL, 1, LONG_NS, &next, why),
                      RONDO_ERR_UNKNOWN);
  expect_text(why, "has expired");
  sum_over(ctx, 2, 2);
  rondo_family_close(ctx);
}

static void strangers_and_too_few_newcomers_are_refused(void **state) {
  (void)state;
  run_family(3, refuse, NULL);
}

// An id that nobody uses expires, and its newcomers learn so.
static void expire(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  struct rondo_context ctx;
  uint32_t count;
  f->cfg.join_timeout_ns = 50000000;
  if (rank == 1) {
    struct rondo_config cfg = newcomer_config(f);
    cfg.join_timeout_ns = 0;
    RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_ERR_PEER);
    expect_text(why, "is gone");
    rondo_family_add(&f->words[DONE]);
    return;
  }
  const struct rondo_unique_id *id = listen_for_newcomers(f);
  await_pending(id, 1);
  rondo_family_await(&f->words[DONE], 1);
  RONDO_MEMBER_STATUS(rondo_pending(id, &count), RONDO_ERR_UNKNOWN);
  RONDO_MEMBER_STATUS(rondo_grow_close(id), RONDO_ERR_UNKNOWN);
}

static void an_id_that_nobody_uses_expires(void **state) {
  (void)state;
  run_family(2, expire, NULL);
}

// Two threads of rank 0 vote: one is refused, and does not disturb the other one, which votes again
// after a loss.
static void *vote_in_thread(void *arg) {
  struct voter *v = arg;
  v->status = rondo_shrink(v->ctx, NULL, 0, LONG_NS, &v->next, NULL);
  rondo_family_add(&v->f->words[READY]);
  return NULL;
}

static void vote_twice_at_once(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 3);
  struct rondo_context next;
  sum_over(ctx, 1, 3);
  if (rank == 0) {
    struct voter voters[2] = {{.f = f, .ctx = ctx}, {.f = f, .ctx = ctx}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
      RONDO_MEMBER_TRUE(pthread_create(&threads[i], NULL, vote_in_thread, &voters[i]) == 0);
    for (int i = 0; i < 2; i++)
      pthread_join(threads[i], NULL);
    int winner = voters[0].status == RONDO_SUCCESS ? 0 : 1;
    RONDO_MEMBER_STATUS(voters[winner].status, RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(voters[1 - winner].status, RONDO_ERR_EXISTS);
    next = voters[winner].next;
  } else {
    rondo_family_add(&f->words[READY]);
    if (rank == 2)
      for (;;)
        pause();
    rondo_family_await(&f->words[DEAD], 1);
    next = shrink(ctx);
  }
  sum_over(next, 1, 2);
  rondo_family_close(next);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, LONG_NS), RONDO_SUCCESS);
}

static void a_second_thread_that_votes_is_refused(void **state) {
  (void)state;
  run_family(3, vote_twice_at_once, kill_rank_2);
}

// Votes that fail leave no port open.
static void fail_often(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  struct rondo_context next;
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  sum_over(ctx, 1, 2);
  uint32_t before = rondo_belongings_count().descriptors;
  for (uint32_t i = 0; i < 20; i++) {
    int status = rank == 0 ? rondo_shrink(ctx, NULL, 0, LONG_NS, &next, NULL)
                           : rondo_grow(ctx, id, 1, LONG_NS, &next, NULL);
    RONDO_MEMBER_STATUS(status, RONDO_ERR_MISMATCH);
  }
  RONDO_MEMBER_TRUE(rondo_belongings_count().descriptors < before + 10);
  rondo_family_close(ctx);
}

static void votes_that_fail_leave_no_port_open(void **state) {
  (void)state;
  run_family(2, fail_often, NULL);
}

// The newcomer of rank 2 is stopped while it waits. The vote that admits it ends in time, for all
// and once; the next vote admits the newcomer of rank 3.
static void admit_the_stopped(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  if (rank >= 2) {
    rondo_family_await(&f->words[PENDING], rank == 3);
    struct rondo_context ctx = join(f);
    sum_over(ctx, 2, 3);
    rondo_family_close(ctx);
    return;
  }
  struct rondo_context ctx = rondo_family_open(f, 0, rank, 2);
  struct rondo_context next;
  const struct rondo_unique_id *id = rank == 0 ? listen_for_newcomers(f) : NULL;
  sum_over(ctx, 1, 2);
  if (rank == 0) {
    await_pending(id, 1);
    rondo_family_add(&f->words[READY]);
    await_pending(id, 2);
  }
  int status = rondo_grow(ctx, id, 1, 1000000000, &next, why);
  RONDO_MEMBER_TRUE(status == RONDO_ERR_TIMEOUT || (rank == 1 && status == RONDO_ERR_ABORTED));
  expect_text(why, "in time");
  next = grow(ctx, id, 1);
  rondo_family_add(&f->words[AGAIN]);
  sum_over(next, 2, 3);
  rondo_family_close(next);
  rondo_family_close(ctx);
}

static void stop_the_newcomer(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], 1);
  kill(f->pids[2], SIGSTOP);
  rondo_family_add(&f->words[PENDING]);
  rondo_family_await(&f->words[AGAIN], 2);
  kill(f->pids[2], SIGKILL);
}

static void a_newcomer_that_does_not_come_is_passed_over(void **state) {
  (void)state;
  run_family(4, admit_the_stopped, stop_the_newcomer);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("elastic_refused",
                       differing_votes_give_everybody_an_error_that_says_who_asked_for_what),
      RONDO_NAMED_TEST("elastic_refused",
                       members_that_exclude_different_ranks_all_get_the_mismatch),
      RONDO_NAMED_TEST("elastic_refused", a_vote_that_not_all_give_ends_in_time),
      RONDO_NAMED_TEST("elastic_refused", nobody_waits_for_one_that_has_given_up),
      RONDO_NAMED_TEST("elastic_refused", strangers_and_too_few_newcomers_are_refused),
      RONDO_NAMED_TEST("elastic_refused", an_id_that_nobody_uses_expires),
      RONDO_NAMED_TEST("elastic_refused", a_second_thread_that_votes_is_refused),
      RONDO_NAMED_TEST("elastic_refused", votes_that_fail_leave_no_port_open),
      RONDO_NAMED_TEST("elastic_refused", a_newcomer_that_does_not_come_is_passed_over),
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests_name("elastic_refused", tests, NULL, NULL);
}
