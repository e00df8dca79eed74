// Every failure ends the runs of all ranks with a status, in bounded time. The stuck report names
// the ranks that wait for each other.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define SHORT_NS INT64_C(20000000)

static struct rondo_test_job job;
static int32_t send_data[64], recv_data[RONDO_TEST_MAX_RANKS][64];

static struct rondo_collective_desc sum_of(uint64_t id, uint64_t count) {
  return rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
}

static struct rondo_collective enter(uint32_t rank, const struct rondo_collective_desc *d) {
  struct rondo_collective coll;
  assert_int_equal(rondo_register(job.ctx[rank], d, &coll), RONDO_SUCCESS);
  return coll;
}

static void submit(uint32_t rank, struct rondo_collective coll) {
  assert_int_equal(rondo_run(job.ctx[rank], coll, send_data, recv_data[rank], NULL, NULL),
                   RONDO_SUCCESS);
}

static int end_of(uint32_t rank, struct rondo_collective coll) {
  return rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
}

// -------------------------------------------------------------------- mismatch --

static void other_kind(struct rondo_collective_desc *d) {
  *d = rondo_broadcast(d->id, d->count, d->dtype, 0);
}
static void other_count(struct rondo_collective_desc *d) { d->count++; }
static void other_type(struct rondo_collective_desc *d) { d->dtype = RONDO_UINT32; }
static void other_reduction(struct rondo_collective_desc *d) { d->redop = RONDO_MAX; }
static void other_root(struct rondo_collective_desc *d) { d->root = 1; }

static const struct mismatch {
  const char *word; // in the log
  void (*spoil)(struct rondo_collective_desc *d);
} mismatches[] = {{"kind", other_kind},
                  {"count", other_count},
                  {"type", other_type},
                  {"reduction", other_reduction},
                  {"root", other_root}};

// Rank `odd` differs; every rank submits, before or after the last has registered.
static void mismatch(uint32_t ranks, uint32_t odd, const struct mismatch *m, int early) {
  struct rondo_collective coll[3];
  char side[32];
  uint32_t others = 0;
  rondo_test_job_open(&job, ranks, NULL);
  rondo_test_log_clear();
  for (uint32_t r = 0; r < ranks; r++) {
    struct rondo_collective_desc d = rondo_reduce(77, 16, RONDO_INT32, RONDO_SUM, 0);
    if (r == odd)
      m->spoil(&d);
    coll[r] = enter(r, &d);
    if (early)
      submit(r, coll[r]);
  }
  for (uint32_t r = 0; r < ranks && !early; r++)
    submit(r, coll[r]);
  for (uint32_t r = 0; r < ranks; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_ERR_MISMATCH);
  assert_true(rondo_test_log_has("mismatch of id 77"));
  assert_true(rondo_test_log_has(m->word));
  for (uint32_t r = 0; r < ranks; r++) { // the odd one and another
    (void)snprintf(side, sizeof side, "rank %u:", r);
    if (r == odd)
      assert_true(rondo_test_log_has(side));
    else
      others += (uint32_t)rondo_test_log_has(side);
  }
  assert_true(others > 0);
  submit(0, coll[0]); // and so do later runs
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_MISMATCH);
  rondo_test_job_close(&job);
}

static void every_mismatch_ends_the_runs_of_all_ranks(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof mismatches / sizeof *mismatches; i++)
    for (uint32_t ranks = 2; ranks <= 3; ranks++)
      for (uint32_t odd = 0; odd < ranks; odd++)
        for (int early = 0; early <= 1; early++)
          mismatch(ranks, odd, &mismatches[i], early);
}

// The algorithm is read from the environment when a rank begins.
static void algorithms_that_differ_are_a_mismatch(void **state) {
  (void)state;
  struct rondo_collective coll[3];
  const struct rondo_collective_desc d = sum_of(79, 16);
  memset(&job, 0, sizeof job);
  job.ranks = 3;
  assert_int_equal(rondo_unique_id_create(&job.id), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 3; r++) {
    const struct rondo_config c = rondo_test_job_config(&job, r, NULL);
    (void)setenv("RONDO_ALGO", r == 1 ? "broadcast=ring,all_reduce=tree" : "all_reduce=doubling",
                 1);
    assert_int_equal(rondo_init(&job.ctx[r], &c), RONDO_SUCCESS);
  }
  (void)unsetenv("RONDO_ALGO");
  rondo_test_log_clear();
  for (uint32_t r = 0; r < 3; r++) {
    coll[r] = enter(r, &d);
    submit(r, coll[r]);
  }
  for (uint32_t r = 0; r < 3; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_ERR_MISMATCH);
  assert_true(rondo_test_log_has("mismatch of id 79 in its algorithm: rank "));
  assert_true(rondo_test_log_has("by tree"));
  assert_true(rondo_test_log_has("by doubling"));
  rondo_test_job_close(&job);
}

static void groups_that_differ_are_a_mismatch(void **state) {
  (void)state;
  static const uint32_t orders[3][3] = {{0, 1, 2}, {0, 2, 1}, {0, 1, 2}};
  struct rondo_collective coll[3];
  rondo_test_job_open(&job, 3, NULL);
  rondo_test_log_clear();
  for (uint32_t r = 0; r < 3; r++) {
    struct rondo_collective_desc d = sum_of(78, 16);
    assert_int_equal(rondo_group_create(job.ctx[r], orders[r], 3, &d.group), RONDO_SUCCESS);
    coll[r] = enter(r, &d);
    submit(r, coll[r]);
  }
  for (uint32_t r = 0; r < 3; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_ERR_MISMATCH);
  assert_true(rondo_test_log_has("group"));
  rondo_test_job_close(&job);
}

static void after_a_mismatch_the_id_can_be_registered_again(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  for (uint64_t times = 0; times < 2; times++) {
    for (uint32_t r = 0; r < 2; r++) {
      struct rondo_collective_desc d = sum_of(5, times ? 16 : 16 + r);
      coll[r] = enter(r, &d);
      submit(r, coll[r]);
    }
    for (uint32_t r = 0; r < 2; r++) {
      assert_int_equal(end_of(r, coll[r]), times ? RONDO_SUCCESS : RONDO_ERR_MISMATCH);
      assert_int_equal(rondo_deregister(job.ctx[r], coll[r]), RONDO_SUCCESS);
    }
  }
  rondo_test_job_close(&job);
}

// ----------------------------------------------------------------- abort, peers --

static void *abort_rank_0(void *arg) {
  int *status = arg;
  *status = rondo_abort(job.ctx[0]);
  return NULL;
}

static void abort_ends_runs_that_hang(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  struct rondo_collective_desc shared = sum_of(1, 16);
  struct rondo_collective_desc alone = sum_of(2, 16);
  pthread_t thread;
  int status = -1;
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &shared, coll);
  struct rondo_collective hung = enter(0, &alone);
  submit(0, coll[0]);
  submit(0, coll[0]);
  submit(0, hung);
  assert_int_equal(pthread_create(&thread, NULL, abort_rank_0, &status), 0);
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_ABORTED);
  assert_int_equal(end_of(0, hung), RONDO_ERR_ABORTED);
  pthread_join(thread, NULL);
  assert_int_equal(status, RONDO_SUCCESS);
  submit(1, coll[1]); // a peer's run, and a later one of its own
  submit(0, coll[0]);
  assert_int_equal(end_of(1, coll[1]), RONDO_ERR_ABORTED);
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_ABORTED);
  rondo_test_job_close(&job);
}

static void runs_before_a_failure_keep_their_success(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  struct rondo_collective_desc d = sum_of(1, 16);
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, coll);
  for (uint32_t r = 0; r < 2; r++)
    submit(r, coll[r]);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_SUCCESS);
  assert_int_equal(rondo_abort(job.ctx[1]), RONDO_SUCCESS);
  submit(0, coll[0]);
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_ABORTED);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_SUCCESS);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 2), RONDO_ERR_ABORTED);
  rondo_test_job_close(&job);
}

static void a_peer_that_left_ends_later_runs(void **state) {
  (void)state;
  struct rondo_collective coll[3];
  struct rondo_collective_desc d = sum_of(1, 16);
  rondo_test_job_open(&job, 3, NULL);
  rondo_test_job_register(&job, &d, coll);
  for (uint32_t r = 0; r < 3; r++)
    submit(r, coll[r]);
  submit(0, coll[0]); // the others will never run a second time
  for (uint32_t r = 1; r < 3; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_SUCCESS);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 2), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_destroy(job.ctx[2], RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
  job.ctx[2].handle = 0;
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_PEER);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_SUCCESS);
  submit(1, coll[1]);
  assert_int_equal(end_of(1, coll[1]), RONDO_ERR_PEER);
  // Whatever ends later runs, the first failure is what is told of them.
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  submit(0, coll[0]);
  assert_int_equal(end_of(0, coll[0]), RONDO_ERR_PEER);
  rondo_test_job_close(&job);
}

// --------------------------------------------------------------------- destroy --

static void destroying_drains(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  struct rondo_collective_desc d = sum_of(1, 16);
  struct rondo_counters counters;
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, coll);
  for (int i = 0; i < 500; i++)
    for (uint32_t r = 0; r < 2; r++)
      submit(r, coll[r]);
  assert_int_equal(rondo_destroy(job.ctx[0], RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
  job.ctx[0].handle = 0;
  assert_int_equal(end_of(1, coll[1]), RONDO_SUCCESS);
  assert_int_equal(rondo_counters(job.ctx[1], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.completed, 500);
  rondo_test_job_close(&job);
}

struct tally {
  _Atomic uint32_t aborted;
};

static void count_aborted(void *arg, int status) {
  struct tally *t = arg;
  t->aborted += status == RONDO_ERR_ABORTED;
}

// Runs that cannot end: aborted at once, or when the time to drain has passed.
static void destroy_hung(int mode, int64_t timeout_ns, int wanted) {
  struct rondo_collective_desc d = sum_of(1, 16);
  struct tally tally = {0};
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective coll = enter(0, &d);
  for (int i = 0; i < 10; i++)
    assert_int_equal(rondo_run(job.ctx[0], coll, send_data, recv_data[0], count_aborted, &tally),
                     RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(job.ctx[0], mode, timeout_ns), wanted);
  assert_int_equal(tally.aborted, 10); // all callbacks have returned
  job.ctx[0].handle = 0;
  rondo_test_job_close(&job);
}

static void destroying_aborts_what_does_not_end(void **state) {
  (void)state;
  destroy_hung(RONDO_DESTROY_ABORT, 0, RONDO_SUCCESS);
  destroy_hung(RONDO_DESTROY_DRAIN, 0, RONDO_ERR_TIMEOUT);
  destroy_hung(RONDO_DESTROY_DRAIN, SHORT_NS, RONDO_ERR_TIMEOUT);
}

struct waiter {
  pthread_t thread;
  struct rondo_collective coll;
  _Atomic int is_inside;
  int status;
};

static void *wait_for_run(void *arg) {
  struct waiter *w = arg;
  w->is_inside = 1;
  w->status = rondo_wait(job.ctx[0], w->coll, RONDO_LAST_RUN, RONDO_FOREVER);
  return NULL;
}

static void *wait_for_device(void *arg) {
  struct waiter *w = arg;
  w->is_inside = 1;
  w->status = rondo_device_synchronize(job.ctx[0], RONDO_FOREVER);
  return NULL;
}

// A thread that waits for ever is let go when the context is destroyed. Without preemption the
// daemon never leaves by itself.
static int released(void *(*wait)(void *)) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_collective_desc d = sum_of(1, 16);
  struct waiter w = {.status = -1};
  c.budget = RONDO_BUDGET_NEVER;
  rondo_test_job_open(&job, 2, &c);
  w.coll = enter(0, &d);
  submit(0, w.coll);
  assert_int_equal(pthread_create(&w.thread, NULL, wait, &w), 0);
  while (!w.is_inside)
    sched_yield();
  assert_int_equal(rondo_destroy(job.ctx[0], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  pthread_join(w.thread, NULL);
  job.ctx[0].handle = 0;
  rondo_test_job_close(&job);
  return w.status;
}

static void destroying_lets_waiting_threads_go(void **state) {
  (void)state;
  for (uint64_t i = 0; i < rondo_test_load(50, 5); i++) {
    int status = released(wait_for_run);
    assert_true(status == RONDO_ERR_ABORTED || status == RONDO_ERR_CLOSED ||
                status == RONDO_ERR_UNKNOWN);
    status = released(wait_for_device);
    assert_true(status == RONDO_SUCCESS || status == RONDO_ERR_CLOSED ||
                status == RONDO_ERR_UNKNOWN);
  }
}

// --------------------------------------------------------------------- reports --

static char *report_text(uint32_t rank, uint32_t *cycle_ranks) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&text, &bytes);
  assert_non_null(stream);
  assert_int_equal(rondo_report(job.ctx[rank], stream, cycle_ranks), RONDO_SUCCESS);
  (void)fclose(stream);
  return text;
}

// Lets the daemons of all ranks come to where they are stuck.
static void settle(uint32_t rank, struct rondo_collective coll) {
  assert_int_equal(rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, SHORT_NS), RONDO_ERR_TIMEOUT);
}

static void a_timeout_is_reported_with_the_ranks_that_are_missing(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(42, 16);
  struct rondo_collective coll[3];
  uint32_t cycle_ranks = 99;
  rondo_test_job_open(&job, 3, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    coll[r] = enter(r, &d);
    submit(r, coll[r]);
  }
  rondo_test_log_clear();
  settle(0, coll[0]);
  assert_true(rondo_test_log_has("stuck report"));
  assert_true(rondo_test_log_has("id 42"));
  assert_true(rondo_test_log_has("not submitted by rank 2"));
  char *text = report_text(1, &cycle_ranks);
  assert_int_equal(cycle_ranks, 0);
  assert_non_null(strstr(text, "not submitted by rank 2"));
  free(text);
  coll[2] = enter(2, &d);
  struct rondo_stuck stuck[4] = {{0}};
  size_t count = 0;
  while (stuck[0].state != RONDO_RUN_EXECUTING) { // however long the daemon takes to come there
    settle(0, coll[0]);
    assert_int_equal(rondo_stuck(job.ctx[0], stuck, 4, &count), RONDO_SUCCESS);
    assert_int_equal(count, 1);
  }
  assert_int_equal(stuck[0].id, 42);
  assert_int_equal(stuck[0].run, 1);
  assert_int_equal(stuck[0].missing, 1);
  submit(2, coll[2]);
  for (uint32_t r = 0; r < 3; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_SUCCESS);
  assert_int_equal(rondo_stuck(job.ctx[0], stuck, 4, &count), RONDO_SUCCESS);
  assert_int_equal(count, 0);
  text = report_text(0, NULL);
  assert_non_null(strstr(text, "no run is outstanding"));
  free(text);
  rondo_test_job_close(&job);
}

static void a_report_names_the_primitive_that_is_stuck(void **state) {
  (void)state;
  struct rondo_collective_desc d = rondo_broadcast(7, 16, RONDO_FLOAT32, 1);
  struct rondo_collective coll[2];
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.report_on_timeout = 0;
  rondo_test_job_open(&job, 2, &c);
  for (uint32_t r = 0; r < 2; r++)
    coll[r] = enter(r, &d);
  submit(0, coll[0]);
  char *text = report_text(0, NULL);
  while (
      !strstr(text, "waiting for rank 1 to send")) { // however long the daemon takes to come there
    settle(0, coll[0]);
    free(text);
    text = report_text(0, NULL);
  }
  assert_non_null(strstr(text, "stands at op 0 (recv copy), waiting for rank 1 to send"));
  free(text);
  submit(1, coll[1]);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(end_of(r, coll[r]), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

static void a_timeout_is_not_reported_where_that_is_off(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_collective_desc d = sum_of(42, 16);
  c.report_on_timeout = 0;
  rondo_test_job_open(&job, 2, &c);
  struct rondo_collective coll = enter(0, &d);
  submit(0, coll);
  rondo_test_log_clear();
  settle(0, coll);
  assert_int_equal(rondo_test_log_lines(), 0);
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

#define CYCLE_RANKS 3u
#define MANY_COLLS 40u

// Opens a job without preemption in which rank r submits collective r first, so that the ranks wait
// for each other in a cycle.
static void open_cycle(uint32_t colls, struct rondo_collective first[CYCLE_RANKS]) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_collective coll[CYCLE_RANKS][MANY_COLLS];
  c.budget = RONDO_BUDGET_NEVER;
  c.report_on_timeout = 0;
  rondo_test_job_open(&job, CYCLE_RANKS, &c);
  for (uint32_t r = 0; r < CYCLE_RANKS; r++)
    for (uint32_t i = 0; i < colls; i++) {
      struct rondo_collective_desc d = sum_of(i, 16);
      coll[r][i] = enter(r, &d);
    }
  for (uint32_t r = 0; r < CYCLE_RANKS; r++)
    for (uint32_t i = 0; i < colls; i++)
      submit(r, coll[r][(r + i) % colls]);
  for (uint32_t r = 0; r < CYCLE_RANKS; r++)
    first[r] = coll[r][0];
}

static void abort_cycle(const struct rondo_collective first[CYCLE_RANKS]) {
  for (uint32_t r = 0; r < CYCLE_RANKS; r++)
    assert_int_equal(rondo_abort(job.ctx[r]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < CYCLE_RANKS; r++) {
    // Success: once the cycle is broken, ranks that do not know of the end yet can complete a run.
    int status = end_of(r, first[r]);
    assert_true(status == RONDO_ERR_ABORTED || status == RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

static void without_preemption_the_cycle_is_found(void **state) {
  (void)state;
  struct rondo_collective first[CYCLE_RANKS];
  uint32_t cycle_ranks = 0;
  open_cycle(CYCLE_RANKS, first);
  while (cycle_ranks == 0) { // until all daemons are stuck
    settle(0, first[0]);
    char *text = report_text(0, &cycle_ranks);
    assert_int_equal(strstr(text, "cycle of") != NULL, cycle_ranks != 0);
    free(text);
  }
  assert_true(cycle_ranks >= 2 && cycle_ranks <= CYCLE_RANKS);
  abort_cycle(first);
}

static void a_report_shows_the_cycle_first_and_has_64_lines(void **state) {
  (void)state;
  struct rondo_collective first[CYCLE_RANKS];
  uint32_t cycle_ranks = 0, lines = 0;
  open_cycle(MANY_COLLS, first);
  char *text = report_text(0, &cycle_ranks);
  while (cycle_ranks == 0) {
    settle(0, first[0]);
    free(text);
    text = report_text(0, &cycle_ranks);
  }
  for (const char *at = text; *at; at++)
    lines += *at == '\n';
  assert_int_equal(lines, 64);
  assert_non_null(strstr(text, "\n  cycle of "));
  assert_true(strstr(text, "\n  cycle of ") == strchr(text, '\n'));
  const char *edge = strstr(text, "which has not begun it");
  const char *run = strstr(text, "stands at op");
  const char *rest = strstr(text, "\n  other runs: ");
  const char *end = rest ? strchr(rest + 1, '\n') : NULL;
  assert_true(edge && run && end && edge < run && run < rest && end[1] == '\0');
  free(text);
  abort_cycle(first);
}

static void the_signal_prints_a_report(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(4242, 16);
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective coll = enter(0, &d);
  submit(0, coll);
  rondo_test_log_clear();
  assert_int_equal(raise(SIGUSR1), 0);
  while (!rondo_test_log_has("id 4242")) // in its last line
    sched_yield();
  assert_true(rondo_test_log_has("no ranks wait for each other in a cycle"));
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("failure", every_mismatch_ends_the_runs_of_all_ranks),
      RONDO_NAMED_TEST("failure", algorithms_that_differ_are_a_mismatch),
      RONDO_NAMED_TEST("failure", groups_that_differ_are_a_mismatch),
      RONDO_NAMED_TEST("failure", after_a_mismatch_the_id_can_be_registered_again),
      RONDO_NAMED_TEST("failure", abort_ends_runs_that_hang),
      RONDO_NAMED_TEST("failure", runs_before_a_failure_keep_their_success),
      RONDO_NAMED_TEST("failure", a_peer_that_left_ends_later_runs),
      RONDO_NAMED_TEST("failure", destroying_drains),
      RONDO_NAMED_TEST("failure", destroying_aborts_what_does_not_end),
      RONDO_NAMED_TEST("failure", a_timeout_is_reported_with_the_ranks_that_are_missing),
      RONDO_NAMED_TEST("failure", a_report_names_the_primitive_that_is_stuck),
      RONDO_NAMED_TEST("failure", a_timeout_is_not_reported_where_that_is_off),
      RONDO_NAMED_TEST("failure", without_preemption_the_cycle_is_found),
      RONDO_NAMED_TEST("failure", a_report_shows_the_cycle_first_and_has_64_lines),
      RONDO_NAMED_TEST("failure", the_signal_prints_a_report),
      RONDO_NAMED_TEST("failure", destroying_lets_waiting_threads_go),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("failure", tests, NULL, NULL);
}
