// Communicators: calls that match by their order.
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static struct rondo_test_job job;

static struct rondo_comm open_comm(uint32_t rank, uint64_t key, uint32_t cached) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm;
  cfg.key = key;
  cfg.cached_collectives = cfg.cached_pairs = cached;
  assert_int_equal(rondo_comm_create(job.ctx[rank], &cfg, &comm), RONDO_SUCCESS);
  return comm;
}

static int try_call(uint32_t rank, struct rondo_comm comm, struct rondo_collective_desc what,
                    const void *send, void *recv, struct rondo_ticket *ticket) {
  struct rondo_run_args args = {send, recv, NULL, NULL};
  return rondo_comm_call(job.ctx[rank], comm, &what, &args, ticket);
}

static void call(uint32_t rank, struct rondo_comm comm, struct rondo_collective_desc what,
                 const void *send, void *recv) {
  assert_int_equal(try_call(rank, comm, what, send, recv, NULL), RONDO_SUCCESS);
}

static int await_all(uint32_t rank, struct rondo_comm comm) {
  return rondo_comm_wait(job.ctx[rank], comm, NULL, RONDO_TEST_LONG_NS);
}

static void close_comm(uint32_t rank, struct rondo_comm comm) {
  assert_int_equal(rondo_comm_destroy(job.ctx[rank], comm, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
}

static struct rondo_comm_counters counters(uint32_t rank, struct rondo_comm comm) {
  struct rondo_comm_counters c;
  assert_int_equal(rondo_comm_counters(job.ctx[rank], comm, &c), RONDO_SUCCESS);
  return c;
}

// ---------------------------------------------------------------- matching ---

static void a_loop_of_equal_calls_registers_once(void **state) {
  (void)state;
  enum { CALLS = 200 };
  static int32_t data[2][CALLS];
  struct rondo_comm comm[2];
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    comm[r] = open_comm(r, 7, 0);
    for (int32_t i = 0; i < CALLS; i++) {
      data[r][i] = i + 1;
      call(r, comm[r], rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), &data[r][i], &data[r][i]);
    }
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
    struct rondo_comm_counters c = counters(r, comm[r]);
    assert_int_equal(c.calls, CALLS);
    assert_int_equal(c.registrations, 1);
    assert_int_equal(c.cached, 1);
    for (int32_t i = 0; i < CALLS; i++)
      assert_int_equal(data[r][i], 2 * (i + 1));
    close_comm(r, comm[r]);
  }
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("comm", a_loop_of_equal_calls_registers_once),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
