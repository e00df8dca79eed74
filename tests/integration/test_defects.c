// The defects of the published DFCCL that a host backend can have, each by its number in the list
// that Rondo keeps of them. (Not here: 2, 11 and 12 are about CUDA; 14 is of primitives that Rondo
// has no need of.)
#include <sched.h>
#include <string.h>

#include "runtime/rank/rank.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tools/kit/thread_group.h"

static struct rondo_test_job job;
static struct rondo_collective colls[2][2];
static int32_t input = 3;
static int32_t output[2][2];
static _Atomic int failed[2];

static void open_two(const struct rondo_config *c, int redop) {
  rondo_test_job_open(&job, 2, c);
  for (uint32_t i = 0; i < 2; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(i, 1, RONDO_INT32, redop);
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(rondo_register(job.ctx[r], &d, &colls[r][i]), RONDO_SUCCESS);
  }
}

static int submit(uint32_t rank, uint32_t c) {
  return rondo_run(job.ctx[rank], colls[rank][c], &input, &output[rank][c], NULL, NULL);
}

static int end_of(uint32_t rank, uint32_t c) {
  return rondo_wait(job.ctx[rank], colls[rank][c], RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
}

// Rank 0: A, synchronise, B; rank 1: B, synchronise, A: the paper's second program in small.
static void synchronising_member(void *arg, uint32_t rank) {
  const uint64_t *iterations = arg;
  for (uint64_t i = 0; i < *iterations && !failed[rank]; i++) {
    int status = submit(rank, rank);
    status += rondo_device_synchronize(job.ctx[rank], RONDO_TEST_LONG_NS);
    status += submit(rank, !rank);
    status += end_of(rank, 0);
    status += end_of(rank, 1);
    failed[rank] = status != RONDO_SUCCESS || output[rank][0] != 6 || output[rank][1] != 6;
  }
}

static void defect_01_a_single_half_done_collective_does_not_keep_the_daemon(void **state) {
  (void)state;
  uint64_t iterations = rondo_test_load(100, 10);
  struct rondo_kit_thread_group group = {2, false, synchronising_member, &iterations};
  open_two(NULL, RONDO_SUM);
  failed[0] = failed[1] = 0;
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  assert_false(failed[0] || failed[1]);
  rondo_test_job_close(&job);
}

static void defect_03_a_quit_keeps_what_was_done(void **state) {
  (void)state;
  open_two(NULL, RONDO_SUM);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(submit(0, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_device_synchronize(job.ctx[0], RONDO_TEST_LONG_NS), RONDO_SUCCESS);
    assert_int_equal(submit(1, 0), RONDO_SUCCESS);
    assert_int_equal(end_of(0, 0), RONDO_SUCCESS);
    assert_int_equal(end_of(1, 0), RONDO_SUCCESS);
    assert_int_equal(output[0][0], 6);
    output[0][0] = 0;
  }
  rondo_test_job_close(&job);
}

static void defect_04_a_thousand_fruitless_turns_do_no_harm(void **state) {
  (void)state;
  struct rondo_counters counters = {0};
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.tuning.front_budget_ns = c.tuning.min_budget_ns = 1;
  open_two(&c, RONDO_SUM);
  assert_int_equal(submit(0, 0), RONDO_SUCCESS);
  assert_int_equal(submit(0, 1), RONDO_SUCCESS);
  while (counters.preemptions < 1000) {
    assert_int_equal(rondo_wait(job.ctx[0], colls[0][0], 1, 0), RONDO_ERR_TIMEOUT);
    assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  }
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(submit(1, i), RONDO_SUCCESS);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(end_of(0, i), RONDO_SUCCESS);
  assert_int_equal(output[0][1], 6);
  rondo_test_job_close(&job);
}

static void defect_05_run_numbers_pass_the_widths_of_their_carriers(void **state) {
  (void)state;
  open_two(NULL, RONDO_SUM);
  uint64_t runs = rondo_test_load(70000, 2000); // a completion carries 16 bits of the number
  for (uint64_t i = 0; i < runs; i++)
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(submit(r, 0), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(end_of(r, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_test(job.ctx[r], colls[r][0], runs), RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

static void count_call(void *arg, int status) {
  _Atomic uint32_t *const *counter = arg;
  (void)status;
  ++**counter;
}

static void defect_06_each_of_many_runs_in_flight_has_its_callback(void **state) {
  (void)state;
  enum { RUNS = 50 };
  static _Atomic uint32_t calls[2][RUNS];
  static _Atomic uint32_t *args[2][RUNS];
  open_two(NULL, RONDO_SUM);
  memset(calls, 0, sizeof calls);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < RUNS; i++) {
      args[r][i] = &calls[r][i];
      assert_int_equal(
          rondo_run(job.ctx[r], colls[r][0], &input, &output[r][0], count_call, &args[r][i]),
          RONDO_SUCCESS);
    }
  rondo_test_job_close(&job); // all callbacks have returned then
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < RUNS; i++)
      assert_int_equal(calls[r][i], 1);
}

static void defect_07_reductions_are_what_they_are_called(void **state) {
  (void)state;
  static const int wanted[RONDO_REDOP_COUNT] = {6, 9, 3, 3, 3, 6};
  for (int redop = 0; redop < RONDO_REDOP_COUNT; redop++) {
    open_two(NULL, redop);
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(submit(r, 0), RONDO_SUCCESS);
    assert_int_equal(end_of(0, 0), RONDO_SUCCESS);
    assert_int_equal(output[0][0], wanted[redop]);
    rondo_test_job_close(&job);
  }
}

static void defect_08_ids_are_any_and_registration_is_at_any_time(void **state) {
  (void)state;
  static const uint64_t ids[] = {2000, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63};
  open_two(NULL, RONDO_SUM);
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(ids[i], 1, RONDO_INT32, RONDO_SUM);
    for (uint32_t r = 0; r < 2; r++) {
      assert_int_equal(rondo_register(job.ctx[r], &d, &colls[r][1]), RONDO_SUCCESS);
      assert_int_equal(submit(r, 1), RONDO_SUCCESS);
    }
    assert_int_equal(end_of(0, 1), RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

static void defect_09_completions_have_a_status_and_waits_a_bound(void **state) {
  (void)state;
  struct rondo_collective unknown = {12345};
  open_two(NULL, RONDO_SUM);
  assert_int_equal(rondo_run(job.ctx[0], unknown, &input, output, NULL, NULL), RONDO_ERR_UNKNOWN);
  assert_int_equal(submit(0, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], colls[0][0], 1, 1000000), RONDO_ERR_TIMEOUT);
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  assert_int_equal(end_of(0, 0), RONDO_ERR_ABORTED);
  rondo_test_job_close(&job);
}

static void defect_10_destroying_completes_what_is_outstanding(void **state) {
  (void)state;
  open_two(NULL, RONDO_SUM);
  output[1][0] = 0;
  for (uint32_t i = 0; i < 3 * RONDO_SQ_ENTRIES; i++) // more than the submission queue holds
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(submit(r, 0), RONDO_SUCCESS);
  rondo_test_job_close(&job);
  assert_int_equal(output[1][0], 6);
}

static void defect_13_no_wake_up_is_lost(void **state) {
  (void)state;
  static _Atomic uint32_t called;
  static _Atomic uint32_t *counter = &called;
  open_two(NULL, RONDO_SUM);
  called = 0;
  for (uint32_t i = 0; i < rondo_test_load(2000, 100); i++) {
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(
          rondo_run(job.ctx[r], colls[r][0], &input, &output[r][0], count_call, &counter),
          RONDO_SUCCESS);
    while (called < 2 * (i + 1)) // nobody helps: workers and pollers must wake by themselves
      sched_yield();
  }
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defect_01_a_single_half_done_collective_does_not_keep_the_daemon),
      cmocka_unit_test(defect_03_a_quit_keeps_what_was_done),
      cmocka_unit_test(defect_04_a_thousand_fruitless_turns_do_no_harm),
      cmocka_unit_test(defect_05_run_numbers_pass_the_widths_of_their_carriers),
      cmocka_unit_test(defect_06_each_of_many_runs_in_flight_has_its_callback),
      cmocka_unit_test(defect_07_reductions_are_what_they_are_called),
      cmocka_unit_test(defect_08_ids_are_any_and_registration_is_at_any_time),
      cmocka_unit_test(defect_09_completions_have_a_status_and_waits_a_bound),
      cmocka_unit_test(defect_10_destroying_completes_what_is_outstanding),
      cmocka_unit_test(defect_13_no_wake_up_is_lost),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("defects", tests, NULL, NULL);
}
