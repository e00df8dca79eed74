// Calls of communicators that are captured into graphs, on the stand-in for the CUDA driver: each
// is matched once, by its order among the calls, and runs whenever its graph is launched.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "daemon/cuda/cuda_backend.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/held_locks.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define CU(call) assert_int_equal((call), CUDA_SUCCESS)
#define OK(call) assert_int_equal((call), RONDO_SUCCESS)
#define RANKS 2u
#define BUFFERS 2u
#define COUNT 300u

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

static struct rondo_test_cuda_job job;
static struct rondo_comm comms[RANKS];
static CUcontext ctx;
static CUstream streams[RANKS][BUFFERS];

static int begin(void **state) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  (void)state;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.connections = RONDO_FAKE_MANY_CONNECTIONS;
  rondo_fake_reset(&options);
  rondo_cuda_api_from(NULL);
  rondo_test_log_clear();
  rondo_test_watch_locks();
  memset(&job, 0, sizeof job);
  job.ranks = RANKS;
  job.colls = BUFFERS;
  job.count = COUNT;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
      rondo_test_cuda_open(&job, NULL, 1))
    return -1;
  for (uint32_t r = 0; r < RANKS; r++) {
    if (rondo_comm_create(job.ctx[r], &cfg, &comms[r]))
      return -1;
    for (uint32_t b = 0; b < BUFFERS; b++)
      if (cuStreamCreate(&streams[r][b], CU_STREAM_NON_BLOCKING))
        return -1;
  }
  return 0;
}

static int end(void **state) {
  (void)state;
  int status = rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN);
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BUFFERS; b++)
      if (cuStreamDestroy(streams[r][b]))
        return -1;
  if (status || cuDevicePrimaryCtxRelease(0))
    return -1;
  (void)cuCtxSetCurrent(NULL);
  return rondo_test_has_called_with_lock() || rondo_fake_live_count() != 0;
}

static int32_t *sent(uint32_t rank, uint32_t buffer) { return job.send[rank][buffer]; }
static int32_t *got(uint32_t rank, uint32_t buffer) { return job.recv[rank][buffer]; }

// Nothing reads or writes the buffers meanwhile.
static void fill(uint32_t round) {
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BUFFERS; b++)
      for (uint32_t i = 0; i < COUNT; i++) {
        sent(r, b)[i] = (int32_t)(round * 1000 + b * 100 + i + r);
        got(r, b)[i] = -1;
      }
}

static int is_right(uint32_t rank, uint32_t buffer, uint32_t round) {
  for (uint32_t i = 0; i < COUNT; i++)
    if (got(rank, buffer)[i] != (int32_t)(RANKS * (round * 1000 + buffer * 100 + i) + 1))
      return 0;
  return 1;
}

static int call_on(uint32_t rank, uint32_t buffer, CUstream stream, struct rondo_ticket *ticket) {
  struct rondo_collective_desc d = rondo_all_reduce(0, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_run_args args = {sent(rank, buffer), got(rank, buffer), NULL, NULL};
  return rondo_comm_call_on_stream(job.ctx[rank], comms[rank], &d, &args, stream, ticket);
}

static CUgraph captured(uint32_t rank, uint32_t buffer) {
  struct rondo_ticket ticket = {{0}, 7};
  CUgraph graph = NULL;
  CU(cuStreamBeginCapture(streams[rank][buffer], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(call_on(rank, buffer, streams[rank][buffer], &ticket));
  assert_int_equal(ticket.run, 0);
  CU(cuStreamEndCapture(streams[rank][buffer], &graph));
  return graph;
}

static CUgraphExec graph_of(uint32_t rank, uint32_t buffer) {
  CUgraph graph = captured(rank, buffer);
  CUgraphExec exec;
  CU(cuGraphInstantiate(&exec, graph, 0));
  CU(cuGraphDestroy(graph));
  return exec;
}

static void await_streams(void) {
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BUFFERS; b++)
      CU(cuStreamSynchronize(streams[r][b]));
}

// The communicators go when the library has seen that no graph is left.
static void end_comms(void) {
  for (uint32_t r = 0; r < RANKS; r++) {
    int status = RONDO_ERR_BUSY;
    while (status == RONDO_ERR_BUSY) {
      sched_yield();
      status = rondo_comm_destroy(job.ctx[r], comms[r], RONDO_DESTROY_DRAIN, RONDO_FOREVER);
    }
    OK(status);
  }
}

static void a_captured_call_runs_at_each_launch(void **state) {
  CUgraphExec exec[RANKS];
  uint32_t launches = (uint32_t)rondo_test_load(100, 20);
  (void)state;
  for (uint32_t r = 0; r < RANKS; r++)
    exec[r] = graph_of(r, 0);
  for (uint32_t i = 0; i < launches; i++) {
    fill(i);
    for (uint32_t r = 0; r < RANKS; r++)
      CU(cuGraphLaunch(exec[r], streams[r][0]));
    await_streams();
    for (uint32_t r = 0; r < RANKS; r++)
      assert_true(is_right(r, 0, i));
  }
  for (uint32_t i = 0; i < launches; i++) // one after the other
    for (uint32_t r = 0; r < RANKS; r++)
      CU(cuGraphLaunch(exec[r], streams[r][0]));
  await_streams();
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(rondo_comm_destroy(job.ctx[r], comms[r], RONDO_DESTROY_DRAIN, RONDO_FOREVER),
                     RONDO_ERR_BUSY);
  for (uint32_t r = 0; r < RANKS; r++)
    CU(cuGraphExecDestroy(exec[r]));
  end_comms();
}

// Calls that are not captured go on beside the launches, and are matched among themselves.
static void calls_go_on_between_launches(void **state) {
  CUgraphExec exec[RANKS];
  (void)state;
  for (uint32_t r = 0; r < RANKS; r++)
    exec[r] = graph_of(r, 0);
  for (uint32_t i = 0; i < 20; i++) {
    fill(i);
    for (uint32_t r = 0; r < RANKS; r++) {
      struct rondo_ticket ticket;
      if (r == 0)
        CU(cuGraphLaunch(exec[r], streams[r][0]));
      OK(call_on(r, 1, streams[r][1], &ticket));
      if (r == 1)
        CU(cuGraphLaunch(exec[r], streams[r][0]));
    }
    await_streams();
    for (uint32_t r = 0; r < RANKS; r++)
      assert_true(is_right(r, 0, i) && is_right(r, 1, i));
  }
  for (uint32_t r = 0; r < RANKS; r++)
    CU(cuGraphExecDestroy(exec[r]));
  end_comms();
}

// Each rank launches the two in an order of its own, in two streams.
static void two_graphs_are_launched_in_any_order(void **state) {
  CUgraphExec exec[RANKS][BUFFERS];
  (void)state;
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BUFFERS; b++)
      exec[r][b] = graph_of(r, b);
  for (uint32_t i = 0; i < 20; i++) {
    fill(i);
    for (uint32_t r = 0; r < RANKS; r++)
      for (uint32_t k = 0; k < BUFFERS; k++) {
        uint32_t b = (r + k) % BUFFERS;
        CU(cuGraphLaunch(exec[r][b], streams[r][b]));
      }
    await_streams();
    for (uint32_t r = 0; r < RANKS; r++)
      for (uint32_t b = 0; b < BUFFERS; b++)
        assert_true(is_right(r, b, i));
  }
  // One of the two goes, and the other is launched yet.
  for (uint32_t r = 0; r < RANKS; r++)
    CU(cuGraphExecDestroy(exec[r][0]));
  fill(77);
  for (uint32_t r = 0; r < RANKS; r++)
    CU(cuGraphLaunch(exec[r][1], streams[r][1]));
  await_streams();
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_true(is_right(r, 1, 77));
    CU(cuGraphExecDestroy(exec[r][1]));
  }
  end_comms();
}

// Nobody ever launches it: it counts as a call, runs never, and what comes after is not mistaken
// for it.
static void a_capture_that_is_abandoned_leaves_the_order(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 10; i++) {
    for (uint32_t r = 0; r < RANKS; r++)
      CU(cuGraphDestroy(captured(r, 0)));
    fill(i);
    for (uint32_t r = 0; r < RANKS; r++) {
      struct rondo_ticket ticket;
      OK(call_on(r, 1, streams[r][1], &ticket));
    }
    await_streams();
    for (uint32_t r = 0; r < RANKS; r++)
      assert_true(is_right(r, 1, i) && got(r, 0)[0] == -1);
  }
  end_comms();
}

// One rank captures the call that the other makes: both get the error, and the stream goes on.
static void a_call_that_one_rank_captures_is_a_mismatch(void **state) {
  struct rondo_ticket ticket;
  char why[RONDO_REASON_BYTES] = "";
  (void)state;
  CUgraph graph = captured(0, 0);
  (void)call_on(1, 0, streams[1][0], &ticket);
  CU(cuStreamSynchronize(streams[1][0]));
  for (uint32_t r = 0; r < RANKS; r++) {
    int status = RONDO_SUCCESS;
    while (status == RONDO_SUCCESS) {
      (void)rondo_comm_test(job.ctx[r], comms[r], NULL);
      OK(rondo_comm_status(job.ctx[r], comms[r], &status, why, sizeof why));
      sched_yield();
    }
    assert_int_equal(status, RONDO_ERR_MISMATCH);
    assert_non_null(strstr(why, "in a graph"));
  }
  CU(cuGraphDestroy(graph));
  for (uint32_t r = 0; r < RANKS; r++) {
    int status = RONDO_ERR_BUSY;
    while (status == RONDO_ERR_BUSY)
      status = rondo_comm_destroy(job.ctx[r], comms[r], RONDO_DESTROY_ABORT, 0);
    OK(status);
  }
}

#define TEST(function)                                                                             \
  { "comm_graph." #function, function, begin, end, NULL }

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      TEST(a_captured_call_runs_at_each_launch),
      TEST(calls_go_on_between_launches),
      TEST(two_graphs_are_launched_in_any_order),
      TEST(a_capture_that_is_abandoned_leaves_the_order),
      TEST(a_call_that_one_rank_captures_is_a_mismatch),
  };
  return cmocka_run_group_tests_name("comm_graph", tests, NULL, NULL);
}
