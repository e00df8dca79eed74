// Memory that the library allocates for the application: runs can use it, wrong calls are refused,
// and it is freed with the context.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define COUNT 10000u

static struct rondo_test_job job;

static int is_cuda(void) {
  const char *backend = getenv("RONDO_TEST_BACKEND");
  return backend && strcmp(backend, "cuda") == 0;
}

static int open_one(void **state) {
  (void)state;
  rondo_test_log_clear();
  rondo_test_job_open(&job, 1, NULL);
  return 0;
}

static int open_two(void **state) {
  (void)state;
  rondo_test_log_clear();
  rondo_test_job_open(&job, 2, NULL);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  rondo_test_job_close(&job);
  return 0;
}

static void *take(uint32_t rank, size_t bytes) {
  void *memory = NULL;
  assert_int_equal(rondo_mem_alloc(job.ctx[rank], bytes, &memory), RONDO_SUCCESS);
  assert_non_null(memory);
  assert_int_equal((uintptr_t)memory % 128, 0);
  return memory;
}

static void carries_a_collective(void **state) {
  (void)state;
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective colls[2];
  void *device[2];
  int32_t values[COUNT];
  rondo_test_job_register(&job, &d, colls);
  for (uint32_t r = 0; r < 2; r++) {
    device[r] = take(r, sizeof values);
    for (uint32_t i = 0; i < COUNT; i++)
      values[i] = (int32_t)(i * (r + 1));
    assert_int_equal(rondo_mem_copy(job.ctx[r], device[r], values, sizeof values), RONDO_SUCCESS);
    assert_int_equal(rondo_run(job.ctx[r], colls[r], device[r], device[r], NULL, NULL),
                     RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_wait(job.ctx[r], colls[r], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
    memset(values, 0, sizeof values);
    assert_int_equal(rondo_mem_copy(job.ctx[r], values, device[r], sizeof values), RONDO_SUCCESS);
    for (uint32_t i = 0; i < COUNT; i++)
      assert_int_equal(values[i], i * 3);
    assert_int_equal(rondo_mem_free(job.ctx[r], device[r]), RONDO_SUCCESS);
  }
}

static void is_zeroed_and_copied_in_all_directions(void **state) {
  (void)state;
  char out[1000];
  char in[1000];
  char *a = take(0, sizeof in);
  char *b = take(0, sizeof in);
  memset(out, 1, sizeof out);
  assert_int_equal(rondo_mem_copy(job.ctx[0], out, a, sizeof out), RONDO_SUCCESS);
  for (size_t i = 0; i < sizeof out; i++)
    assert_int_equal(out[i], 0);
  for (size_t i = 0; i < sizeof in; i++)
    in[i] = (char)(i * 7);
  assert_int_equal(rondo_mem_copy(job.ctx[0], a, in, sizeof in), RONDO_SUCCESS);
  assert_int_equal(rondo_mem_copy(job.ctx[0], b + 1, a + 1, sizeof in - 1), RONDO_SUCCESS);
  assert_int_equal(rondo_mem_copy(job.ctx[0], out, b, sizeof out), RONDO_SUCCESS);
  assert_memory_equal(out + 1, in + 1, sizeof in - 1);
  assert_int_equal(out[0], 0);
}

static void is_direct_on_the_host(void **state) {
  (void)state;
  int direct = 0;
  assert_int_equal(rondo_mem_is_direct(job.ctx[0], &direct), RONDO_SUCCESS);
  assert_int_equal(direct, !is_cuda());
  char *memory = take(0, 10);
  if (direct)
    memory[9] = 3;
}

static void nothing_is_allowed(void **state) {
  (void)state;
  void *memory = take(0, 0);
  assert_int_equal(rondo_mem_copy(job.ctx[0], memory, memory, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_mem_free(job.ctx[0], memory), RONDO_SUCCESS);
  assert_int_equal(rondo_mem_free(job.ctx[0], NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_test_log_lines(), 0);
}

static void refused(int status, int wanted) {
  assert_int_equal(status, wanted);
  assert_int_equal(rondo_test_log_lines(), 1);
  rondo_test_log_clear();
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  struct rondo_context none = {77};
  char *memory = take(0, 100);
  char *others = take(1, 100);
  void *unchanged = &none;
  int local = 0;
  refused(rondo_mem_alloc(job.ctx[0], 1, NULL), RONDO_ERR_INVALID);
  refused(rondo_mem_alloc(none, 1, &unchanged), RONDO_ERR_UNKNOWN);
  refused(rondo_mem_alloc(job.ctx[0], SIZE_MAX, &unchanged), RONDO_ERR_NO_MEMORY);
  assert_ptr_equal(unchanged, &none);
  refused(rondo_mem_free(job.ctx[0], &local), RONDO_ERR_INVALID);
  refused(rondo_mem_free(job.ctx[0], memory + 1), RONDO_ERR_INVALID);
  refused(rondo_mem_free(job.ctx[0], others), RONDO_ERR_INVALID);
  refused(rondo_mem_free(none, memory), RONDO_ERR_UNKNOWN);
  refused(rondo_mem_copy(job.ctx[0], NULL, memory, 1), RONDO_ERR_INVALID);
  refused(rondo_mem_copy(job.ctx[0], memory, NULL, 1), RONDO_ERR_INVALID);
  refused(rondo_mem_copy(job.ctx[0], memory, memory + 5, 6), RONDO_ERR_INVALID);
  refused(rondo_mem_copy(job.ctx[0], memory, others, SIZE_MAX), RONDO_ERR_INVALID);
  refused(rondo_mem_copy(none, memory, others, 1), RONDO_ERR_UNKNOWN);
  refused(rondo_mem_is_direct(job.ctx[0], NULL), RONDO_ERR_INVALID);
  refused(rondo_mem_is_direct(none, &local), RONDO_ERR_UNKNOWN);
  assert_int_equal(rondo_mem_free(job.ctx[0], memory), RONDO_SUCCESS);
  refused(rondo_mem_free(job.ctx[0], memory), RONDO_ERR_INVALID);
}

static void no_memory_changes_nothing(void **state) {
  (void)state;
  void *memory = NULL;
  if (is_cuda())
    skip(); // device memory is not of this process: the tests of the backend do it
  rondo_memory_fail_after(0);
  int status = rondo_mem_alloc(job.ctx[0], 100, &memory);
  rondo_memory_fail_after(-1);
  assert_int_equal(status, RONDO_ERR_NO_MEMORY);
  assert_null(memory);
}

// The address sanitizer says so otherwise.
static void goes_with_the_context(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes < 100000; bytes *= 3)
    (void)take(0, bytes);
}

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(carries_a_collective, open_two, close_all),
      cmocka_unit_test_setup_teardown(is_zeroed_and_copied_in_all_directions, open_one, close_all),
      cmocka_unit_test_setup_teardown(is_direct_on_the_host, open_one, close_all),
      cmocka_unit_test_setup_teardown(nothing_is_allowed, open_one, close_all),
      cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_two, close_all),
      cmocka_unit_test_setup_teardown(no_memory_changes_nothing, open_one, close_all),
      cmocka_unit_test_setup_teardown(goes_with_the_context, open_one, close_all),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
