// Communicators whose members make different calls, or leave: which members get which error.
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/integration/comm_ends.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

// ---------------------------------------------------------------- mismatch ---

// `before` of counts 1 and 2 each, then the two counts, on ranks 0 and 1; rank 2 does what rank 0
// does, or nothing if `idle`.
static void differ(uint64_t before, uint64_t one, uint64_t other, int idle) {
  static int32_t data[3][8];
  struct rondo_comm comm[3] = {{0}};
  char first[64];
  char second[64];
  rondo_test_job_open(&job, idle ? 2 : 3, NULL);
  for (uint32_t r = 0; r < job.ranks; r++) {
    comm[r] = open_comm(r, 33, 0);
    for (uint64_t i = 0; i < before; i++)
      (void)try_call(r, comm[r], reduce_of(1 + i % 2), data[r], data[r], NULL); // 2 comes too late
    (void)try_call(r, comm[r], reduce_of(r == 1 ? other : one), data[r], data[r], NULL);
  }
  (void)snprintf(first, sizeof first, "of %llu × int32", (unsigned long long)one);
  (void)snprintf(second, sizeof second, "of %llu × int32", (unsigned long long)other);
  for (uint32_t r = 0; r < job.ranks; r++)
    assert_failed(r, comm[r], RONDO_ERR_MISMATCH, first, second);
  rondo_test_job_close(&job);
}

static void two_new_calls_that_differ_are_named(void **state) {
  (void)state;
  differ(0, 3, 4, 0);
  differ(10, 3, 4, 1);
}

static void a_known_call_and_a_new_one_that_differ_are_named(void **state) {
  (void)state;
  differ(2, 1, 4, 0);
  differ(10, 4, 2, 1);
}

static void two_known_calls_that_differ_are_named(void **state) {
  (void)state;
  differ(2, 1, 2, 0);
  differ(10, 2, 1, 1);
}

static void calls_of_a_pair_that_differ_are_named(void **state) {
  (void)state;
  static int32_t data[2][8];
  struct rondo_comm comm[2] = {{0}};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    comm[r] = open_comm(r, 33, 0);
    for (uint32_t i = 0; i < 5; i++) {
      uint64_t count = i == 4 ? 1 + r : 1 + i % 2;
      (void)try_call(r, comm[r], rondo_send_recv(0, count, RONDO_INT32, 1, 0), data[r], data[r],
                     NULL);
    }
  }
  for (uint32_t r = 0; r < 2; r++)
    assert_failed(r, comm[r], RONDO_ERR_MISMATCH, "call 5 from rank 1 to rank 0",
                  "rank 0 called send_recv of 1 × int32");
  rondo_test_job_close(&job);
}

// Rank 0 is further ahead than the journal has places when rank 1 begins, and waits by then.
static void a_rank_that_is_far_ahead_is_compared_later(void **state) {
  (void)state;
  enum { CALLS = 500, ODD = 400 };
  static int32_t data[2][CALLS][2];
  struct rondo_comm comm[2] = {{0}};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    comm[r] = open_comm(r, 33, 0);
    for (uint32_t i = 1; i <= CALLS; i++) {
      uint64_t count = i == ODD ? 1 + r : 1 + i % 2;
      if (try_call(r, comm[r], reduce_of(count), data[r][i - 1], data[r][i - 1], NULL))
        break;
    }
  }
  for (uint32_t r = 0; r < 2; r++)
    assert_failed(r, comm[r], RONDO_ERR_MISMATCH, "call 400 ", "rank 1 called all_reduce of 2");
  rondo_test_job_close(&job);
}

// One rank leaves a call out, or makes it twice; all calls are known by then.
static void a_call_left_out_or_made_twice_is_found(void **state) {
  (void)state;
  static int32_t data[2][2];
  static const uint32_t calls[2][2][7] = {{{1, 2, 1, 1, 2, 1, 2}, {1, 2, 1, 2, 1, 2, 1}},
                                          {{1, 2, 1, 2, 1, 2, 1}, {1, 2, 1, 2, 2, 1, 2}}};
  for (uint32_t variant = 0; variant < 2; variant++) {
    struct rondo_comm comm[2] = {{0}};
    rondo_test_job_open(&job, 2, NULL);
    for (uint32_t r = 0; r < 2; r++) {
      comm[r] = open_comm(r, 33, 0);
      for (uint32_t i = 0; i < 7; i++)
        if (try_call(r, comm[r], reduce_of(calls[variant][r][i]), data[r], data[r], NULL))
          break;
    }
    for (uint32_t r = 0; r < 2; r++)
      assert_failed(r, comm[r], RONDO_ERR_MISMATCH, variant ? "call 5 " : "call 4 ", "called");
    rondo_test_job_close(&job);
  }
}

static void a_member_that_has_called_nothing_gets_it_too(void **state) {
  (void)state;
  static int32_t data[3][8];
  struct rondo_comm comm[4] = {{0}};
  rondo_test_job_open(&job, 4, NULL);
  for (uint32_t r = 0; r < 4; r++)
    comm[r] = open_comm(r, 33, 0);
  for (uint32_t r = 0; r < 2; r++)
    call(r, comm[r], rondo_send_recv(0, 3 + r, RONDO_INT32, 0, 1), data[r], data[r]);
  // Rank 2 has sent to rank 3, and is not received.
  assert_int_equal(
      try_call(2, comm[2], rondo_send_recv(0, 3, RONDO_INT32, 2, 3), data[2], NULL, NULL),
      RONDO_ERR_MISMATCH);
  for (uint32_t r = 0; r < 4; r++)
    assert_failed(r, comm[r], RONDO_ERR_MISMATCH, "send_recv of 3", "send_recv of 4");
  rondo_test_job_close(&job);
}

// ----------------------------------------------------------------- leaving ---

static void expect_left(uint32_t rank, struct rondo_comm comm, const char *text) {
  char why[RONDO_REASON_BYTES];
  int state = RONDO_SUCCESS;
  assert_int_equal(await_all(rank, comm), RONDO_ERR_PEER);
  assert_int_equal(rondo_comm_status(job.ctx[rank], comm, &state, why, sizeof why), RONDO_SUCCESS);
  assert_int_equal(state, RONDO_ERR_PEER);
  assert_non_null(strstr(why, text));
}

// Also one that has no collective here yet, and none there any more that could say so.
static void a_call_that_a_member_left_without_making_fails(void **state) {
  (void)state;
  static int32_t data[3][8];
  rondo_test_job_open(&job, 3, NULL);
  for (uint64_t variant = 0; variant < 3; variant++) {
    struct rondo_comm comm[3];
    for (uint32_t r = 0; r < 3; r++) {
      comm[r] = open_comm(r, variant, 0);
      call(r, comm[r], rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), data[r], data[r]);
    }
    if (variant == 0) // the call was waiting when rank 0 left
      call(1, comm[1], rondo_all_reduce(0, 2, RONDO_INT32, RONDO_SUM), data[1], data[1]);
    assert_int_equal(await_all(0, comm[0]), RONDO_SUCCESS);
    close_comm(0, comm[0]);
    if (variant == 1)
      call(1, comm[1], rondo_barrier(0), NULL, NULL);
    if (variant == 2) {
      call(1, comm[1], rondo_send_recv(0, 1, RONDO_INT32, 1, 2), data[1], NULL); // goes on
      call(2, comm[2], rondo_send_recv(0, 1, RONDO_INT32, 1, 2), NULL, data[2]);
      assert_int_equal(await_all(2, comm[2]), RONDO_SUCCESS);
      call(1, comm[1], rondo_send_recv(0, 1, RONDO_INT32, 0, 1), NULL, data[1]);
    }
    expect_left(1, comm[1], "rank 0 has destroyed its end of communicator");
    expect_left(2, comm[2], "rank 0 has destroyed its end of communicator");
    for (uint32_t r = 1; r < 3; r++)
      assert_int_equal(rondo_comm_destroy(job.ctx[r], comm[r], RONDO_DESTROY_ABORT, 0),
                       RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

// Ranks 2 and 3 are no neighbours of rank 0. They learn of it as soon as the neighbours call, and
// rank 2 also by calls of a pair that rank 0 has not called, before or after it left.
static void members_that_are_no_neighbours_learn_of_it(void **state) {
  (void)state;
  static const uint32_t callers[] = {2, 3, 1, 4}; // the neighbours last
  static int32_t data[5][8];
  rondo_test_job_open(&job, 5, NULL);
  for (uint64_t variant = 0; variant < 3; variant++) {
    struct rondo_comm comm[5];
    for (uint32_t r = 0; r < 5; r++) {
      comm[r] = open_comm(r, variant, 0);
      call(r, comm[r], rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), data[r], data[r]);
    }
    if (variant == 1)
      call(2, comm[2], rondo_send_recv(0, 1, RONDO_INT32, 0, 2), NULL, data[2]);
    assert_int_equal(await_all(0, comm[0]), RONDO_SUCCESS);
    close_comm(0, comm[0]);
    if (variant == 2)
      call(2, comm[2], rondo_send_recv(0, 1, RONDO_INT32, 2, 0), data[2], NULL);
    for (uint32_t i = 0; i < 4 && variant == 0; i++) {
      int status = try_call(callers[i], comm[callers[i]], rondo_barrier(0), NULL, NULL, NULL);
      assert_true(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
    }
    for (uint32_t i = 0; i < 4; i++) // rank 2 may have to compare its calls first
      expect_left(callers[i], comm[callers[i]],
                  variant ? "after 0 calls of the pair" : "after 1 calls");
    for (uint32_t r = 1; r < 5; r++)
      assert_int_equal(rondo_comm_destroy(job.ctx[r], comm[r], RONDO_DESTROY_ABORT, 0),
                       RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

static void an_end_made_later_learns_which_member_has_left(void **state) {
  (void)state;
  int32_t data = 0;
  rondo_test_job_open(&job, 2, NULL);
  close_comm(0, open_comm(0, 3, 0));
  struct rondo_comm comm = open_comm(1, 3, 0);
  call(1, comm, rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), &data, &data);
  expect_left(1, comm, "after 0 calls");
  assert_int_equal(rondo_comm_destroy(job.ctx[1], comm, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

// Calls that need nothing more from it succeed, in any order of leaving.
static void a_member_may_leave_when_its_calls_have_ended(void **state) {
  (void)state;
  enum { CALLS = 5 };
  int32_t sent = 7, got[2] = {0, 0};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t key = 0; key < 20; key++) {
    struct rondo_comm comm[2] = {open_comm(0, key, 0), open_comm(1, key, 0)};
    for (uint32_t i = 0; i < CALLS; i++)
      call(1, comm[1], rondo_gather(0, 1, RONDO_INT32, 0), &sent, NULL);
    for (uint32_t i = 0; i < CALLS; i++)
      call(0, comm[0], rondo_gather(0, 1, RONDO_INT32, 0), &sent, got);
    close_comm(key % 2, comm[key % 2]);
    assert_int_equal(await_all(1 - key % 2, comm[1 - key % 2]), RONDO_SUCCESS);
    close_comm(1 - key % 2, comm[1 - key % 2]);
    assert_int_equal(got[1], sent);
  }
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("comm_failing", a_call_that_a_member_left_without_making_fails),
      RONDO_NAMED_TEST("comm_failing", members_that_are_no_neighbours_learn_of_it),
      RONDO_NAMED_TEST("comm_failing", an_end_made_later_learns_which_member_has_left),
      RONDO_NAMED_TEST("comm_failing", a_member_may_leave_when_its_calls_have_ended),
      RONDO_NAMED_TEST("comm_failing", two_new_calls_that_differ_are_named),
      RONDO_NAMED_TEST("comm_failing", a_known_call_and_a_new_one_that_differ_are_named),
      RONDO_NAMED_TEST("comm_failing", two_known_calls_that_differ_are_named),
      RONDO_NAMED_TEST("comm_failing", calls_of_a_pair_that_differ_are_named),
      RONDO_NAMED_TEST("comm_failing", a_rank_that_is_far_ahead_is_compared_later),
      RONDO_NAMED_TEST("comm_failing", a_call_left_out_or_made_twice_is_found),
      RONDO_NAMED_TEST("comm_failing", a_member_that_has_called_nothing_gets_it_too),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
