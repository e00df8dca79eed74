// Each allocation of a call fails in turn: the N-th, for every N until the call succeeds. The call
// is then refused, nothing has changed and nothing leaks. The linker sends the library's
// allocations through here (see CMakeLists.txt).
#include <stdlib.h>

#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static _Thread_local int64_t left =
    -1; // allocations of this thread before one fails; -1: none does

static int fails(void) {
  if (left < 0)
    return 0;
  return left-- == 0;
}

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) {
  return fails() ? NULL : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *memory, size_t bytes) {
  return fails() ? NULL : __real_realloc(memory, bytes);
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// A call that is tried again with one more allocation that succeeds, each time. Returns how many
// times it was refused.
static int refused_until_it_succeeds(int (*call)(void *), void *arg) {
  for (int n = 0; n < 1000; n++) {
    left = n;
    int status = call(arg);
    int spared = left >= 0;
    left = -1;
    if (status == RONDO_SUCCESS && spared)
      return n;
    if (status == RONDO_SUCCESS)
      fail_msg("it succeeded although allocation %d failed", n);
    assert_int_equal(status, RONDO_ERR_NO_MEMORY);
  }
  fail_msg("it never succeeds");
  return 0;
}

struct fixture {
  struct rondo_context ctx;
  struct rondo_collective coll;
  struct rondo_group group;
  uint64_t id;
  int32_t send[100], recv[100];
};

static int init(void *arg) {
  struct fixture *f = arg;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_unique_id id = {{1, 2, 3}};
  c.id = id;
  return rondo_init(&f->ctx, &c);
}

static int enter(void *arg) {
  struct fixture *f = arg;
  struct rondo_collective_desc d = rondo_all_reduce(f->id, 100, RONDO_INT32, RONDO_SUM);
  return rondo_register(f->ctx, &d, &f->coll);
}

static int make_group(void *arg) {
  struct fixture *f = arg;
  static const uint32_t self[] = {0};
  return rondo_group_create(f->ctx, self, 1, &f->group);
}

static void nothing(void *arg, int status) {
  (void)arg;
  (void)status;
}

static int submit(void *arg) {
  struct fixture *f = arg;
  return rondo_run(f->ctx, f->coll, f->send, f->recv, nothing, NULL);
}

static void destroy(struct fixture *f) {
  assert_int_equal(rondo_destroy(f->ctx, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
}

static void init_is_refused_without_a_trace(void **state) {
  (void)state;
  struct fixture f = {.id = 1};
  assert_true(refused_until_it_succeeds(init, &f) >= 5);
  destroy(&f);
}

static void registration_is_refused_without_a_trace(void **state) {
  (void)state;
  struct fixture f = {.id = 1};
  struct rondo_collective found;
  struct rondo_counters counters;
  assert_int_equal(init(&f), RONDO_SUCCESS);
  assert_true(refused_until_it_succeeds(enter, &f) >= 5);
  assert_int_equal(rondo_lookup(f.ctx, 1, &found), RONDO_SUCCESS);
  assert_int_equal(found.handle, f.coll.handle);
  f.id = 2;
  (void)refused_until_it_succeeds(enter, &f);
  assert_int_equal(rondo_deregister(f.ctx, found), RONDO_SUCCESS);
  assert_int_equal(rondo_deregister(f.ctx, f.coll), RONDO_SUCCESS);
  assert_int_equal(rondo_counters(f.ctx, &counters), RONDO_SUCCESS);
  assert_int_equal(counters.connector_bytes, 0);
  destroy(&f);
}

static int enter_as_second(void *arg) { return enter(arg); }

// The second rank of two: its peer's registration must not be harmed.
static void a_second_rank_is_refused_without_harm_to_the_first(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct fixture f[2] = {{.id = 1}, {.id = 1}};
  rondo_test_job_open(&job, 2, NULL);
  f[0].ctx = job.ctx[0];
  f[1].ctx = job.ctx[1];
  assert_int_equal(enter(&f[0]), RONDO_SUCCESS);
  assert_true(refused_until_it_succeeds(enter_as_second, &f[1]) >= 3);
  for (int r = 0; r < 2; r++)
    assert_int_equal(submit(&f[r]), RONDO_SUCCESS);
  for (int r = 0; r < 2; r++)
    assert_int_equal(rondo_wait(f[r].ctx, f[r].coll, 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

// A run whose payload needs memory that the rank lends.
static int submit_average(void *arg) {
  static float send[2][4096];
  static float recv[2][4096];
  struct fixture *f = arg;
  return rondo_run(f->ctx, f->coll, send[f->id], recv[f->id], nothing, NULL);
}

static void runs_that_borrow_are_refused_without_a_trace(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct fixture f[2];
  struct rondo_collective_desc d = rondo_all_reduce(1, 4096, RONDO_FLOAT32, RONDO_AVG);
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.connector_bytes = 1u << 20; // connectors get no payload memory
  rondo_test_job_open(&job, 2, &c);
  for (uint32_t r = 0; r < 2; r++) {
    f[r] = (struct fixture){.ctx = job.ctx[r], .id = r};
    assert_int_equal(rondo_register(f[r].ctx, &d, &f[r].coll), RONDO_SUCCESS);
  }
  for (int r = 0; r < 2; r++)
    assert_true(refused_until_it_succeeds(submit_average, &f[r]) >= 3);
  for (int r = 0; r < 2; r++)
    assert_int_equal(rondo_wait(f[r].ctx, f[r].coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

static void groups_and_runs_are_refused_without_a_trace(void **state) {
  (void)state;
  struct fixture f = {.id = 1};
  struct rondo_counters counters;
  assert_int_equal(init(&f), RONDO_SUCCESS);
  assert_true(refused_until_it_succeeds(make_group, &f) >= 2);
  assert_int_equal(enter(&f), RONDO_SUCCESS);
  assert_true(refused_until_it_succeeds(submit, &f) >= 2);
  assert_int_equal(rondo_wait(f.ctx, f.coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(rondo_counters(f.ctx, &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 1);
  destroy(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("no_memory", init_is_refused_without_a_trace),
      RONDO_NAMED_TEST("no_memory", registration_is_refused_without_a_trace),
      RONDO_NAMED_TEST("no_memory", a_second_rank_is_refused_without_harm_to_the_first),
      RONDO_NAMED_TEST("no_memory", runs_that_borrow_are_refused_without_a_trace),
      RONDO_NAMED_TEST("no_memory", groups_and_runs_are_refused_without_a_trace),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("no_memory", tests, NULL, NULL);
}
