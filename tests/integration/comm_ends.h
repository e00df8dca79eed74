// What tests of communicators share: a job, and ends of communicators on its ranks.
#ifndef RONDO_TESTS_INTEGRATION_COMM_ENDS_H
#define RONDO_TESTS_INTEGRATION_COMM_ENDS_H

#include <string.h>

#include <rondo/comm.h>

#include "tests/support/job.h"
#include "tests/support/named.h"

// The job of the test that runs.
static struct rondo_test_job job;

static inline struct rondo_comm open_comm(uint32_t rank, uint64_t key, uint32_t cached) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm = {0};
  cfg.key = key;
  cfg.cached_collectives = cfg.cached_pairs = cached;
  assert_int_equal(rondo_comm_create(job.ctx[rank], &cfg, &comm), RONDO_SUCCESS);
  return comm;
}

static inline int try_call(uint32_t rank, struct rondo_comm comm, struct rondo_collective_desc what,
                           const void *send, void *recv, struct rondo_ticket *ticket) {
  struct rondo_run_args args = {send, recv, NULL, NULL};
  return rondo_comm_call(job.ctx[rank], comm, &what, &args, ticket);
}

static inline void call(uint32_t rank, struct rondo_comm comm, struct rondo_collective_desc what,
                        const void *send, void *recv) {
  assert_int_equal(try_call(rank, comm, what, send, recv, NULL), RONDO_SUCCESS);
}

static inline int await_all(uint32_t rank, struct rondo_comm comm) {
  return rondo_comm_wait(job.ctx[rank], comm, NULL, RONDO_TEST_LONG_NS);
}

static inline void close_comm(uint32_t rank, struct rondo_comm comm) {
  assert_int_equal(rondo_comm_destroy(job.ctx[rank], comm, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
}

static inline struct rondo_comm_counters counters(uint32_t rank, struct rondo_comm comm) {
  struct rondo_comm_counters c;
  assert_int_equal(rondo_comm_counters(job.ctx[rank], comm, &c), RONDO_SUCCESS);
  return c;
}

static inline struct rondo_collective_desc reduce_of(uint64_t count) {
  return rondo_all_reduce(0, count, RONDO_INT32, RONDO_SUM);
}

// The communicator has failed with `status`, for a reason that has both texts; it is ended.
static inline void assert_failed(uint32_t rank, struct rondo_comm comm, int status,
                                 const char *first, const char *second) {
  char why[RONDO_REASON_BYTES];
  int is = RONDO_SUCCESS;
  assert_int_equal(await_all(rank, comm), status);
  assert_int_equal(rondo_comm_status(job.ctx[rank], comm, &is, why, sizeof why), RONDO_SUCCESS);
  assert_int_equal(is, status);
  if (!strstr(why, first) || !strstr(why, second))
    fail_msg("rank %u: the reason \"%s\" lacks \"%s\" or \"%s\"", rank, why, first, second);
  assert_int_equal(rondo_comm_destroy(job.ctx[rank], comm, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
}

#endif // RONDO_TESTS_INTEGRATION_COMM_ENDS_H
