// Bad arguments are refused with a status and one line in the log, and nothing changes.
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "daemon/plan/cost_file.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static struct rondo_test_job job;

static struct rondo_collective_desc sum_of(uint64_t id, uint64_t count) {
  return rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
}

static int submit(uint32_t rank, struct rondo_collective coll, const void *send, void *recv) {
  return rondo_run(job.ctx[rank], coll, send, recv, NULL, NULL);
}

// The call was refused as it should, with one line.
static void assert_refused(int status, int wanted) {
  assert_int_equal(status, wanted);
  assert_int_equal(rondo_test_log_lines(), 1);
  rondo_test_log_clear();
}

static int start(void **state) {
  (void)state;
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_log_clear();
  return 0;
}

static int stop(void **state) {
  (void)state;
  rondo_test_job_close(&job);
  return 0;
}

// The job works: nothing that was refused has changed it.
static void assert_works(uint64_t id) {
  struct rondo_collective coll[2];
  struct rondo_collective_desc d = sum_of(id, 3);
  int32_t send[3] = {1, 2, 3};
  int32_t recv[2][3];
  rondo_test_job_register(&job, &d, coll);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(submit(r, coll[r], send, recv[r]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_wait(job.ctx[r], coll[r], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
    assert_int_equal(recv[r][2], 6);
    assert_int_equal(rondo_deregister(job.ctx[r], coll[r]), RONDO_SUCCESS);
  }
}

static void a_rank_joins_once(void **state) {
  (void)state;
  struct rondo_context other = {4711};
  struct rondo_config c = rondo_test_job_config(&job, 1, NULL);
  assert_refused(rondo_init(&other, &c), RONDO_ERR_EXISTS);
  c.rank_count = 3;
  c.rank = 2;
  assert_refused(rondo_init(&other, &c), RONDO_ERR_INVALID);
  assert_int_equal(other.handle, 4711);
  assert_works(1);
}

// ----------------------------------------------------------------- descriptors --

static void algorithms_that_do_not_exist_are_refused(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"doubling", "RONDO_ALGO takes KIND=NAME[:SIZE],..., not \"doubling\""},
      {"all_reduce=direct:8K,fast", "RONDO_ALGO: all_reduce has no algorithm \"fast\""},
      {"all_reduce=direct:8Q", "RONDO_ALGO: \"8Q\" of all_reduce is no size such as 8K"},
      {"all_reduce=direct:", "RONDO_ALGO: \"\" of all_reduce is no size such as 8K"},
      {"all_reduce=ring:-1", "RONDO_ALGO: \"-1\" of all_reduce is no size such as 8K"},
      {"@/nowhere/at/all", "RONDO_ALGO: /nowhere/at/all: No such file or directory"},
      {"sum=ring", "RONDO_ALGO: no kind of collective is \"sum\""},
      {"all_reduce=fast", "RONDO_ALGO: all_reduce has no algorithm \"fast\""},
      {"all_reduce=", "RONDO_ALGO: all_reduce has no algorithm \"\""},
      {"all_reduce=ring,reduce=doubling", "RONDO_ALGO: reduce has no algorithm \"doubling\""},
      {"barrier=dissemination,all_gather=tree", "RONDO_ALGO: all_gather has no algorithm"}};
  struct rondo_context ctx = {4711};
  struct rondo_config c = rondo_test_job_config(&job, 0, NULL);
  c.rank_count = 1;
  assert_int_equal(rondo_unique_id_create(&c.id), RONDO_SUCCESS);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    (void)setenv("RONDO_ALGO", pairs[i][0], 1);
    int status = rondo_init(&ctx, &c);
    assert_true(rondo_test_log_has(pairs[i][1]));
    assert_refused(status, RONDO_ERR_INVALID);
    assert_int_equal(ctx.handle, 4711);
  }
  (void)setenv("RONDO_ALGO", "", 1); // as if it were not set
  assert_int_equal(rondo_init(&ctx, &c), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  (void)unsetenv("RONDO_ALGO");
}

// Writes a file of `text`, and of its first `length` bytes only.
static void file_write(const char *path, const char *text, size_t length) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

// How often a file was opened, by a watch for that and for its closing. Closes the watch.
static uint32_t opens_count(int watch) {
  _Alignas(struct inotify_event) char bytes[4096];
  ssize_t size = read(watch, bytes, sizeof bytes);
  uint32_t count = 0;
  for (ssize_t at = 0; at < size;) {
    const struct inotify_event *event = (const struct inotify_event *)(bytes + at);
    count += (event->mask & IN_OPEN) != 0;
    at += (ssize_t)(sizeof *event + event->len);
  }
  (void)close(watch);
  return count;
}

static void cost_models_that_cannot_be_read_are_refused(void **state) {
  (void)state;
  static struct rondo_cost_file model;
  static char text[RONDO_COST_FILE_BYTES];
  static const char path[] = "refusal-cost-model";
  struct rondo_context ctx = {4711};
  struct rondo_config c = rondo_test_job_config(&job, 0, NULL);
  c.rank_count = 1;
  assert_int_equal(rondo_unique_id_create(&c.id), RONDO_SUCCESS);
  model.model = rondo_cost_defaults;
  model.model.row_count = 0;
  size_t length = rondo_cost_file_print(&model, text);
  const struct {
    const char *text, *line;
    size_t length;
  } cases[] = {
      {text, "refusal-cost-model is torn or was changed: its checksum is wrong", length / 2},
      {"hello\n", "refusal-cost-model is no cost model of Rondo", 6},
      {"rondo cost model 0\n", "refusal-cost-model has version 0, this library reads", 19},
      {NULL, "refusal-cost-model: No such file or directory", 0}};
  (void)setenv("RONDO_COST_MODEL", path, 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (cases[i].text)
      file_write(path, cases[i].text, cases[i].length);
    else
      (void)unlink(path);
    int status = rondo_init(&ctx, &c);
    assert_true(rondo_test_log_has(cases[i].line));
    assert_refused(status, RONDO_ERR_INVALID);
    assert_int_equal(ctx.handle, 4711);
  }
  file_write(path, text, length);
  int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  assert_true(inotify_add_watch(watch, path, IN_OPEN | IN_CLOSE_NOWRITE) >= 0);
  assert_int_equal(rondo_init(&ctx, &c), RONDO_SUCCESS);
  assert_int_equal(opens_count(watch), 1);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  (void)unlink(path);
  (void)unsetenv("RONDO_COST_MODEL");
}

static void bad_size(struct rondo_collective_desc *d) { d->size++; }
static void bad_version(struct rondo_collective_desc *d) { d->version = 0; }
static void bad_kind(struct rondo_collective_desc *d) { d->kind = RONDO_KIND_COUNT; }
static void bad_kind_below(struct rondo_collective_desc *d) { d->kind = -1; }
static void bad_type(struct rondo_collective_desc *d) { d->dtype = RONDO_DTYPE_COUNT; }
static void bad_type_below(struct rondo_collective_desc *d) { d->dtype = -1; }
static void bad_reduction(struct rondo_collective_desc *d) { d->redop = RONDO_REDOP_COUNT; }
static void bad_reduction_below(struct rondo_collective_desc *d) { d->redop = -1; }
static void bad_root(struct rondo_collective_desc *d) { d->root = 2; }
static void too_urgent(struct rondo_collective_desc *d) { d->priority = 128; }
static void too_little_urgent(struct rondo_collective_desc *d) { d->priority = -129; }
static void no_number(struct rondo_collective_desc *d) { d->scalar = strtod("nan", NULL); }
static void too_many_elements(struct rondo_collective_desc *d) { d->count = UINT64_MAX; }
static void too_many_bytes(struct rondo_collective_desc *d) { d->count = UINT64_C(1) << 60; }

static void bad_descriptors_are_refused(void **state) {
  (void)state;
  void (*const spoilers[])(struct rondo_collective_desc *) = {
      bad_size,          bad_version,    bad_kind,          bad_kind_below,
      bad_type,          bad_type_below, bad_reduction,     bad_reduction_below,
      bad_root,          too_urgent,     too_little_urgent, no_number,
      too_many_elements, too_many_bytes};
  for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
    struct rondo_collective_desc d = sum_of(5, 3);
    struct rondo_collective coll = {4711};
    spoilers[i](&d);
    int status = rondo_register(job.ctx[0], &d, &coll);
    if (status != RONDO_ERR_INVALID)
      fail_msg("spoiler %zu was not refused", i);
    assert_refused(status, RONDO_ERR_INVALID);
    assert_int_equal(coll.handle, 4711);
  }
  struct rondo_collective_desc d = sum_of(5, 3);
  struct rondo_collective coll;
  assert_refused(rondo_register(job.ctx[0], NULL, &coll), RONDO_ERR_INVALID);
  assert_refused(rondo_register(job.ctx[0], &d, NULL), RONDO_ERR_INVALID);
  assert_works(5); // the id is free
}

static void groups_are_checked(void **state) {
  (void)state;
  static const uint32_t twice[] = {0, 0};
  static const uint32_t outside[] = {0, 2};
  static const uint32_t other[] = {1};
  struct rondo_group g = {4711};
  struct rondo_collective coll = {4711};
  struct rondo_collective_desc d = sum_of(5, 3);
  assert_refused(rondo_group_create(job.ctx[0], twice, 2, &g), RONDO_ERR_INVALID);
  assert_refused(rondo_group_create(job.ctx[0], outside, 2, &g), RONDO_ERR_INVALID);
  assert_refused(rondo_group_create(job.ctx[0], other, 0, &g), RONDO_ERR_INVALID);
  assert_refused(rondo_group_create(job.ctx[0], other, 3, &g), RONDO_ERR_INVALID);
  assert_refused(rondo_group_create(job.ctx[0], NULL, 1, &g), RONDO_ERR_INVALID);
  assert_refused(rondo_group_create(job.ctx[0], other, 1, NULL), RONDO_ERR_INVALID);
  assert_int_equal(g.handle, 4711);
  d.group = g; // never made
  assert_refused(rondo_register(job.ctx[0], &d, &coll), RONDO_ERR_UNKNOWN);
  assert_int_equal(rondo_group_create(job.ctx[0], other, 1, &g), RONDO_SUCCESS);
  d.group = g; // without this rank
  assert_refused(rondo_register(job.ctx[0], &d, &coll), RONDO_ERR_INVALID);
  assert_int_equal(coll.handle, 4711);
  assert_works(5);
}

static void an_id_is_registered_once(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(5, 3);
  struct rondo_collective coll[2];
  struct rondo_collective again = {4711};
  rondo_test_job_register(&job, &d, coll);
  assert_refused(rondo_register(job.ctx[0], &d, &again), RONDO_ERR_EXISTS);
  assert_int_equal(again.handle, 4711);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_deregister(job.ctx[r], coll[r]), RONDO_SUCCESS);
  assert_works(5);
}

// --------------------------------------------------------------------- handles --

static void unknown_and_stale_handles_are_refused(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(5, 3);
  struct rondo_collective coll[2];
  int32_t buffer[2][3] = {{0}};
  rondo_test_job_register(&job, &d, coll);
  struct rondo_collective bad[] = {
      {0}, {UINT64_MAX}, {coll[0].handle + 1}, {coll[0].handle}, {coll[0].handle & UINT32_MAX}};
  assert_int_equal(rondo_deregister(job.ctx[0], coll[0]), RONDO_SUCCESS);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct rondo_run_args args = {buffer[0], buffer[1], NULL, NULL};
    uint64_t run = 4711;
    assert_refused(submit(0, bad[i], buffer[0], buffer[1]), RONDO_ERR_UNKNOWN);
    assert_refused(rondo_run_numbered(job.ctx[0], bad[i], &args, &run), RONDO_ERR_UNKNOWN);
    assert_int_equal(run, 4711);
    assert_refused(rondo_wait(job.ctx[0], bad[i], RONDO_LAST_RUN, 0), RONDO_ERR_UNKNOWN);
    assert_refused(rondo_test(job.ctx[0], bad[i], 1), RONDO_ERR_UNKNOWN);
    assert_refused(rondo_deregister(job.ctx[0], bad[i]), RONDO_ERR_UNKNOWN);
  }
  assert_int_equal(rondo_deregister(job.ctx[1], coll[1]), RONDO_SUCCESS);
  assert_works(5);
}

// Every call with a handle of a context that never was, or is gone.
static void refuse_everywhere(struct rondo_context ctx) {
  static const uint32_t ranks[] = {0};
  struct rondo_collective_desc d = sum_of(5, 3);
  struct rondo_collective coll = {UINT64_C(1) << 32};
  struct rondo_group group = {1};
  struct rondo_counters counters;
  struct rondo_collective_counters of_one = RONDO_COLLECTIVE_COUNTERS_INIT;
  struct rondo_run_args args = {&d, &d, NULL, NULL};
  uint64_t run;
  size_t count;
  int fd;
  const int wanted = RONDO_ERR_UNKNOWN;
  rondo_test_log_clear();
  assert_refused(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, 0), wanted);
  assert_refused(rondo_abort(ctx), wanted);
  assert_refused(rondo_group_create(ctx, ranks, 1, &group), wanted);
  assert_refused(rondo_group_destroy(ctx, group), wanted);
  assert_refused(rondo_register(ctx, &d, &coll), wanted);
  assert_refused(rondo_deregister(ctx, coll), wanted);
  assert_refused(rondo_lookup(ctx, 5, &coll), wanted);
  assert_refused(rondo_run(ctx, coll, &d, &d, NULL, NULL), wanted);
  assert_refused(rondo_run_numbered(ctx, coll, &args, &run), wanted);
  assert_refused(rondo_wait(ctx, coll, 1, 0), wanted);
  assert_refused(rondo_test(ctx, coll, 1), wanted);
  assert_refused(rondo_event_fd(ctx, &fd), wanted);
  assert_refused(rondo_device_synchronize(ctx, 0), wanted);
  assert_refused(rondo_counters(ctx, &counters), wanted);
  assert_refused(rondo_collective_counters(ctx, coll, &of_one), wanted);
  assert_refused(rondo_stuck(ctx, NULL, 0, &count), wanted);
  assert_refused(rondo_report(ctx, stderr, NULL), wanted);
}

static void a_context_that_is_gone_is_refused_everywhere(void **state) {
  (void)state;
  struct rondo_context never = {0};
  struct rondo_context invented = {UINT64_MAX};
  refuse_everywhere(never);
  refuse_everywhere(invented);
  struct rondo_context gone = job.ctx[1];
  assert_int_equal(rondo_destroy(gone, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
  refuse_everywhere(gone);
  struct rondo_config c = rondo_test_job_config(&job, 1, NULL);
  assert_int_equal(rondo_init(&job.ctx[1], &c), RONDO_SUCCESS);
  refuse_everywhere(gone); // although its place is taken again
  assert_works(6);
}

// --------------------------------------------------------------------- buffers --

static void null_and_overlapping_buffers_are_refused(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(5, 4);
  struct rondo_collective_desc g = rondo_all_gather(6, 4, RONDO_INT32);
  struct rondo_collective_desc s = rondo_reduce_scatter(7, 4, RONDO_INT32, RONDO_SUM);
  struct rondo_collective sum;
  struct rondo_collective gather;
  struct rondo_collective scatter;
  struct rondo_counters counters;
  int32_t b[32];
  assert_int_equal(rondo_register(job.ctx[1], &d, &sum), RONDO_SUCCESS);
  assert_int_equal(rondo_register(job.ctx[1], &g, &gather), RONDO_SUCCESS);
  assert_int_equal(rondo_register(job.ctx[1], &s, &scatter), RONDO_SUCCESS);
  assert_refused(submit(1, sum, NULL, b), RONDO_ERR_INVALID);
  assert_refused(submit(1, sum, b, NULL), RONDO_ERR_INVALID);
  assert_refused(submit(1, sum, b, b + 3), RONDO_ERR_INVALID);
  assert_refused(submit(1, sum, b + 1, b), RONDO_ERR_INVALID);
  assert_refused(submit(1, sum, b, (char *)b + 1), RONDO_ERR_INVALID);
  assert_refused(submit(1, gather, b, b), RONDO_ERR_INVALID); // rank 0's place
  assert_refused(submit(1, gather, b + 5, b), RONDO_ERR_INVALID);
  assert_refused(submit(1, scatter, b, b), RONDO_ERR_INVALID);
  assert_refused(submit(1, scatter, b, b + 7), RONDO_ERR_INVALID);
  assert_int_equal(rondo_counters(job.ctx[1], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 0);
  assert_int_equal(rondo_wait(job.ctx[1], sum, RONDO_LAST_RUN, 0), RONDO_SUCCESS);
  assert_refused(rondo_wait(job.ctx[1], sum, 1, 0), RONDO_ERR_UNKNOWN);
  assert_refused(rondo_test(job.ctx[1], sum, 1), RONDO_ERR_UNKNOWN);
  assert_refused(rondo_run_numbered(job.ctx[1], sum, NULL, &counters.quits), RONDO_ERR_INVALID);
}

static void buffers_that_a_rank_does_not_use_may_be_null(void **state) {
  (void)state;
  struct rondo_collective_desc d = rondo_reduce(5, 2, RONDO_INT32, RONDO_SUM, 1);
  struct rondo_collective_desc c = rondo_broadcast(6, 2, RONDO_INT32, 1);
  struct rondo_collective reduce[2];
  struct rondo_collective cast[2];
  int32_t send[2] = {1, 2};
  int32_t recv[2][2] = {{0}};
  rondo_test_job_register(&job, &d, reduce);
  rondo_test_job_register(&job, &c, cast);
  assert_refused(submit(1, reduce[1], send, NULL), RONDO_ERR_INVALID);
  assert_refused(submit(0, cast[0], send, NULL), RONDO_ERR_INVALID);
  assert_int_equal(submit(0, reduce[0], send, NULL), RONDO_SUCCESS);
  assert_int_equal(submit(1, reduce[1], send, recv[1]), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[1], reduce[1], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(recv[1][1], 4);
  assert_int_equal(submit(0, cast[0], NULL, recv[0]), RONDO_SUCCESS);
  assert_int_equal(submit(1, cast[1], send, send), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], cast[0], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(recv[0][1], 2);
}

// ---------------------------------------------------------------------- limits --

static void one_rank_with(struct rondo_context *ctx, void (*limit)(struct rondo_config *)) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  limit(&c);
  assert_int_equal(rondo_init(ctx, &c), RONDO_SUCCESS);
}

static void two_collectives(struct rondo_config *c) { c->max_collectives = 2; }
static void three_runs(struct rondo_config *c) { c->max_runs = 3; }

static void the_most_collectives_is_kept(void **state) {
  (void)state;
  struct rondo_context ctx;
  struct rondo_collective coll[3] = {{0}, {0}, {4711}};
  one_rank_with(&ctx, two_collectives);
  for (uint64_t i = 0; i < 2; i++) {
    struct rondo_collective_desc d = sum_of(i, 1);
    assert_int_equal(rondo_register(ctx, &d, &coll[i]), RONDO_SUCCESS);
  }
  struct rondo_collective_desc d = sum_of(2, 1);
  assert_refused(rondo_register(ctx, &d, &coll[2]), RONDO_ERR_FULL);
  assert_int_equal(coll[2].handle, 4711);
  assert_int_equal(rondo_deregister(ctx, coll[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_register(ctx, &d, &coll[2]), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
}

static void the_most_runs_is_kept(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_test_job two;
  struct rondo_collective coll[2];
  struct rondo_collective_desc d = sum_of(1, 1);
  int32_t send = 1;
  int32_t recv[2];
  three_runs(&c);
  rondo_test_job_open(&two, 2, &c);
  rondo_test_job_register(&two, &d, coll);
  for (int i = 0; i < 3; i++)
    assert_int_equal(rondo_run(two.ctx[0], coll[0], &send, &recv[0], NULL, NULL), RONDO_SUCCESS);
  assert_refused(rondo_run(two.ctx[0], coll[0], &send, &recv[0], NULL, NULL), RONDO_ERR_FULL);
  for (int i = 0; i < 3; i++)
    assert_int_equal(rondo_run(two.ctx[1], coll[1], &send, &recv[1], NULL, NULL), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_wait(two.ctx[r], coll[r], 3, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(rondo_run(two.ctx[0], coll[0], &send, &recv[0], NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_run(two.ctx[1], coll[1], &send, &recv[1], NULL, NULL), RONDO_SUCCESS);
  rondo_test_job_close(&two);
}

// Refused is the rank for which connectors are to be made: where devices matter, the second.
static void connector_memory_has_a_budget(void **state) {
  (void)state;
  static struct rondo_collective coll[2][1000];
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_test_job two;
  struct rondo_counters before;
  struct rondo_counters after;
  uint32_t n[2] = {0, 0};
  uint32_t refused = 0;
  int status = RONDO_SUCCESS;
  c.connector_bytes = 1u << 16;
  rondo_test_job_open(&two, 2, &c);
  for (uint32_t i = 0; status == RONDO_SUCCESS && i < 2000; i++) {
    struct rondo_collective_desc d = sum_of(i / 2, 100);
    refused = i % 2;
    assert_int_equal(rondo_counters(two.ctx[0], &before), RONDO_SUCCESS);
    status = rondo_register(two.ctx[refused], &d, &coll[refused][i / 2]);
    n[refused] += status == RONDO_SUCCESS;
  }
  assert_refused(status, RONDO_ERR_NO_MEMORY);
  assert_true(n[0] > 0);
  assert_int_equal(rondo_counters(two.ctx[0], &after), RONDO_SUCCESS);
  assert_int_equal(after.connector_bytes, before.connector_bytes);
  assert_true(after.connector_bytes <= c.connector_bytes);
  struct rondo_collective found;
  assert_refused(rondo_lookup(two.ctx[refused], n[refused], &found), RONDO_ERR_UNKNOWN);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < n[r]; i++)
      assert_int_equal(rondo_deregister(two.ctx[r], coll[r][i]), RONDO_SUCCESS);
  assert_int_equal(rondo_counters(two.ctx[0], &after), RONDO_SUCCESS);
  assert_int_equal(after.connector_bytes, 0);
  rondo_test_job_close(&two);
}

// --------------------------------------------------------------- in callbacks --

struct inside {
  sem_t called;
  struct rondo_context ctx;
  struct rondo_collective coll;
  int destroyed, waited, looked;
};

static void try_inside(void *arg, int status) {
  struct inside *i = arg;
  (void)status;
  i->destroyed = rondo_destroy(i->ctx, RONDO_DESTROY_ABORT, 0);
  i->waited = rondo_wait(i->ctx, i->coll, RONDO_LAST_RUN, 1000);
  i->looked = rondo_wait(i->ctx, i->coll, RONDO_LAST_RUN, 0);
  sem_post(&i->called);
}

static void callbacks_may_not_wait_or_destroy(void **state) {
  (void)state;
  struct inside inside = {.ctx = {0}};
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_collective_desc d = sum_of(1, 1);
  int32_t b[2] = {0};
  sem_init(&inside.called, 0, 0);
  assert_int_equal(rondo_init(&inside.ctx, &c), RONDO_SUCCESS);
  assert_int_equal(rondo_register(inside.ctx, &d, &inside.coll), RONDO_SUCCESS);
  assert_int_equal(rondo_run(inside.ctx, inside.coll, b, b + 1, try_inside, &inside),
                   RONDO_SUCCESS);
  while (sem_wait(&inside.called))
    ;
  assert_int_equal(inside.destroyed, RONDO_ERR_INVALID);
  assert_int_equal(inside.waited, RONDO_ERR_INVALID);
  assert_int_equal(inside.looked, RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(inside.ctx, 2, 0), RONDO_ERR_INVALID);
  assert_int_equal(rondo_destroy(inside.ctx, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
  sem_destroy(&inside.called);
}

static void outstanding_runs_keep_a_collective(void **state) {
  (void)state;
  struct rondo_collective_desc d = sum_of(1, 1);
  struct rondo_collective coll[2];
  int32_t b[3] = {0};
  rondo_test_job_register(&job, &d, coll);
  assert_int_equal(submit(0, coll[0], b, b + 1), RONDO_SUCCESS);
  assert_refused(rondo_deregister(job.ctx[0], coll[0]), RONDO_ERR_BUSY);
  assert_int_equal(submit(1, coll[1], b + 2, b + 2), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], coll[0], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(rondo_deregister(job.ctx[0], coll[0]), RONDO_SUCCESS);
  // Its buffer is there no longer than this function.
  assert_int_equal(rondo_wait(job.ctx[1], coll[1], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
}

#define REFUSAL_TEST(function)                                                                     \
  { "refusal." #function, function, start, stop, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      REFUSAL_TEST(a_rank_joins_once),
      REFUSAL_TEST(algorithms_that_do_not_exist_are_refused),
      REFUSAL_TEST(cost_models_that_cannot_be_read_are_refused),
      REFUSAL_TEST(bad_descriptors_are_refused),
      REFUSAL_TEST(groups_are_checked),
      REFUSAL_TEST(an_id_is_registered_once),
      REFUSAL_TEST(unknown_and_stale_handles_are_refused),
      REFUSAL_TEST(a_context_that_is_gone_is_refused_everywhere),
      REFUSAL_TEST(null_and_overlapping_buffers_are_refused),
      REFUSAL_TEST(buffers_that_a_rank_does_not_use_may_be_null),
      REFUSAL_TEST(the_most_collectives_is_kept),
      REFUSAL_TEST(the_most_runs_is_kept),
      REFUSAL_TEST(connector_memory_has_a_budget),
      REFUSAL_TEST(callbacks_may_not_wait_or_destroy),
      REFUSAL_TEST(outstanding_runs_keep_a_collective),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("refusal", tests, NULL, NULL);
}
