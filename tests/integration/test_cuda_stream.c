// Runs of the CUDA backend in the order of streams, and in graphs, on the stand-in for the driver:
// a run reduces what the stream computed before it, and later work of the stream sees the result.
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "daemon/cuda/cuda_backend.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/held_locks.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define RANKS 2u
#define COUNT 500u

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

static struct rondo_test_cuda_job job;
static CUcontext ctx;
static CUmodule module;
static CUfunction produce, consume;
static CUstream streams[RANKS];

// The application's work: fills a buffer with a number that grows at each execution; compares the
// sum with what it must be at this one.
struct work {
  int32_t *buffer;
  uint32_t *executions; // of this kernel in this stream
  uint32_t *errors;
  uint32_t rank;
};

static uint32_t *words; // executions of each rank's kernels, then errors

static void produce_kernel(const void *param, uint32_t block, uint32_t block_count) {
  const struct work *w = param;
  (void)block, (void)block_count;
  uint32_t round = ++*w->executions;
  for (uint32_t i = 0; i < COUNT; i++)
    w->buffer[i] = (int32_t)(round * 10 + w->rank + i);
}

static void consume_kernel(const void *param, uint32_t block, uint32_t block_count) {
  const struct work *w = param;
  (void)block, (void)block_count;
  uint32_t round = ++*w->executions;
  for (uint32_t i = 0; i < COUNT; i++)
    if (w->buffer[i] != (int32_t)(RANKS * (round * 10 + i) + RANKS * (RANKS - 1) / 2))
      ++*w->errors;
}

static int begin(void **state) {
  (void)state;
  void *memory;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.connections = RONDO_FAKE_MANY_CONNECTIONS;
  rondo_fake_reset(&options);
  rondo_cuda_api_from(NULL);
  rondo_test_log_clear();
  rondo_test_watch_locks();
  rondo_fake_register("produce", produce_kernel, sizeof(struct work));
  rondo_fake_register("consume", consume_kernel, sizeof(struct work));
  memset(&job, 0, sizeof job);
  job.ranks = RANKS;
  job.colls = 2;
  job.count = COUNT;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
      cuModuleLoadData(&module, "image") || cuModuleGetFunction(&produce, module, "produce") ||
      cuModuleGetFunction(&consume, module, "consume") || cuFuncLoad(produce) ||
      cuFuncLoad(consume) || cuMemHostAlloc(&memory, 4096, 0))
    return -1;
  words = memory;
  memset(words, 0, 4096);
  for (uint32_t r = 0; r < RANKS; r++)
    if (cuStreamCreate(&streams[r], CU_STREAM_NON_BLOCKING))
      return -1;
  return rondo_test_cuda_open(&job, NULL, 1);
}

static int end(void **state) {
  (void)state;
  int status = rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN);
  for (uint32_t r = 0; r < RANKS; r++)
    if (cuStreamDestroy(streams[r]))
      return -1;
  if (status || cuMemFreeHost(words) || cuModuleUnload(module) || cuDevicePrimaryCtxRelease(0))
    return -1;
  (void)cuCtxSetCurrent(NULL);
  return rondo_test_has_called_with_lock() || rondo_fake_live_count() != 0;
}

static void launch(CUfunction function, CUstream stream, struct work w) {
  void *params[] = {&w};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static int on_stream(uint32_t rank, uint32_t coll) {
  return rondo_run_on_stream(job.ctx[rank], job.coll[rank][coll], job.send[rank][coll],
                             job.recv[rank][coll], streams[rank]);
}

// One round of a rank: computes, reduces, and computes with the result.
static void put_round(uint32_t rank, uint32_t coll) {
  struct work before = {job.send[rank][coll], &words[4 * coll + rank], &words[100], rank};
  struct work after = {job.recv[rank][coll], &words[20 + 4 * coll + rank], &words[100], rank};
  launch(produce, streams[rank], before);
  assert_int_equal(on_stream(rank, coll), RONDO_SUCCESS);
  launch(consume, streams[rank], after);
}

static void await_streams(void) {
  for (uint32_t r = 0; r < RANKS; r++)
    OK(cuStreamSynchronize(streams[r]));
}

static void work_before_and_after_a_run_keeps_its_place(void **state) {
  (void)state;
  uint32_t rounds = (uint32_t)rondo_test_load(300, 30);
  for (uint32_t i = 0; i < rounds; i++)
    for (uint32_t r = 0; r < RANKS; r++)
      put_round(r, 0);
  await_streams();
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(words[20 + r], rounds);
  assert_int_equal(words[100], 0);
}

// The two ranks' streams have the two collectives in different orders.
static void streams_of_different_order_do_not_deadlock(void **state) {
  (void)state;
  uint32_t rounds = (uint32_t)rondo_test_load(50, 10);
  for (uint32_t i = 0; i < rounds; i++) {
    for (uint32_t c = 0; c < 2; c++) {
      assert_int_equal(on_stream(0, c), RONDO_SUCCESS);
      assert_int_equal(rondo_run_on_stream(job.ctx[1], job.coll[1][1 - c], job.send[1][1 - c],
                                           job.recv[1][1 - c], c ? streams[1] : NULL),
                       RONDO_SUCCESS);
    }
  }
  OK(cuCtxSynchronize());
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < 2; c++)
      assert_int_equal(rondo_test_cuda_wait(&job, r, c), RONDO_SUCCESS);
}

static void nap(void) {
  const struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
}

// Naps until nothing was launched and the reaper has not slept during one nap, or for two seconds.
static void settle(void) {
  uint64_t before = UINT64_MAX;
  for (int naps = 0; naps < 40; naps++) {
    uint64_t now = rondo_fake_calls("cuLaunchKernelEx") + rondo_cuda_reaper_sleeps();
    if (now == before)
      return;
    before = now;
    nap();
  }
}

// The launch stays, which was made for the run, and the reaper stays awake: neither adds a pause to
// the run.
static void a_run_that_waits_for_its_peer_has_no_pauses(void **state) {
  (void)state;
  assert_int_equal(on_stream(0, 0), RONDO_SUCCESS);
  nap();
  settle();
  uint64_t launches = rondo_fake_calls("cuLaunchKernelEx");
  uint64_t sleeps = rondo_cuda_reaper_sleeps();
  nap();
  nap();
  assert_int_equal(rondo_fake_calls("cuLaunchKernelEx"), launches);
  assert_int_equal(rondo_cuda_reaper_sleeps(), sleeps);
  assert_true(rondo_fake_running() > 0);
  assert_int_equal(on_stream(1, 0), RONDO_SUCCESS);
  await_streams();
}

// No launch is wasted on a stream that has not reached its run. Once the stream waits, the launcher
// may end a launch that it has begun, and launches at most every 100 ms.
static void a_stream_that_computes_has_no_launches(void **state) {
  (void)state;
  struct rondo_counters before;
  struct rondo_counters after;
  *words = 0;
  OK(cuStreamWaitValue32(streams[0], (CUdeviceptr)(uintptr_t)words, 1, CU_STREAM_WAIT_VALUE_GEQ));
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(on_stream(r, 0), RONDO_SUCCESS);
  uint64_t begun_ns = rondo_now_ns();
  assert_int_equal(rondo_counters(job.ctx[0], &before), RONDO_SUCCESS);
  nap();
  assert_int_equal(rondo_counters(job.ctx[0], &after), RONDO_SUCCESS);
  uint64_t periods = (rondo_now_ns() - begun_ns) / 100000000;
  __atomic_store_n(words, 1, __ATOMIC_RELEASE);
  await_streams();
  assert_in_range(after.starts - before.starts, 0, 2 + periods);
}

static void a_stream_that_is_not_the_devices_is_refused(void **state) {
  (void)state;
  char other;
  rondo_test_log_clear();
  assert_int_equal(
      rondo_run_on_stream(job.ctx[0], job.coll[0][0], job.send[0][0], job.recv[0][0], &other),
      RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("cuStreamGetCtx: CUDA_ERROR_INVALID_HANDLE"));
}

static void with_one_hardware_queue_streams_are_refused(void **state) {
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1), 0);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_int_equal(unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"), 0);
  (void)state;
  assert_int_equal(on_stream(0, 0), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has("CUDA_DEVICE_MAX_CONNECTIONS=1: a stream that waits would"));
}

static const struct rondo_cuda_daemon *daemon_of(uint32_t r) {
  struct rondo_rank *rank = NULL;
  assert_int_equal(rondo_rank_pin(job.ctx[r], "test", &rank), RONDO_SUCCESS);
  rondo_rank_unpin(job.ctx[r]);
  return rondo_cuda_daemon_of(rank->member.daemon);
}

// Waits until rank 0's daemon has been launched `count` times more.
static void await_starts(uint64_t count) {
  struct rondo_counters first;
  struct rondo_counters now;
  assert_int_equal(rondo_counters(job.ctx[0], &first), RONDO_SUCCESS);
  do {
    sched_yield();
    assert_int_equal(rondo_counters(job.ctx[0], &now), RONDO_SUCCESS);
  } while (now.starts < first.starts + count);
}

// --------------------------------------------------------------------- graphs --

static CUgraphExec graph_of(uint32_t rank, uint32_t coll) {
  CUgraph graph;
  CUgraphExec exec;
  OK(cuStreamBeginCapture(streams[rank], CU_STREAM_CAPTURE_MODE_GLOBAL));
  put_round(rank, coll);
  OK(cuStreamEndCapture(streams[rank], &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  return exec;
}

// The collective may be deregistered when the library has seen that no graph refers to it.
static void await_forgotten(uint32_t rank, uint32_t coll) {
  int status = RONDO_ERR_BUSY;
  while (status == RONDO_ERR_BUSY) {
    sched_yield();
    status = rondo_deregister(job.ctx[rank], job.coll[rank][coll]);
  }
  assert_int_equal(status, RONDO_SUCCESS);
}

// Launches are put into the streams without waiting for earlier ones.
static void a_graph_is_replayed_ten_thousand_times(void **state) {
  (void)state;
  uint32_t launches = (uint32_t)rondo_test_load(10000, 500);
  CUgraphExec exec[RANKS];
  for (uint32_t r = 0; r < RANKS; r++)
    exec[r] = graph_of(r, 0);
  for (uint32_t i = 0; i < launches; i++)
    for (uint32_t r = 0; r < RANKS; r++)
      OK(cuGraphLaunch(exec[r], streams[r]));
  await_streams();
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(words[20 + r], launches);
    assert_int_equal(rondo_deregister(job.ctx[r], job.coll[r][0]), RONDO_ERR_BUSY);
    OK(cuGraphExecDestroy(exec[r]));
  }
  assert_int_equal(words[100], 0);
  for (uint32_t r = 0; r < RANKS; r++)
    await_forgotten(r, 0);
}

// The blocks of both ranks outnumber the multiprocessors, so none stays for a run, and the launcher
// launches them again until the peer comes. A fruitless launch does not make the pause longer.
static void pauses_do_not_grow_while_a_stream_waits(void **state) {
  (void)state;
  struct rondo_config many_blocks = RONDO_CONFIG_INIT;
  CUgraphExec exec[RANKS];
  many_blocks.blocks = 16;
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_open(&job, &many_blocks, 1), RONDO_SUCCESS);
  for (uint32_t is_graph = 0; is_graph < 2; is_graph++) {
    for (uint32_t r = 0; r < RANKS; r++) {
      exec[r] = is_graph ? graph_of(r, 0) : NULL;
      if (!is_graph)
        put_round(r, 0);
      else
        OK(cuGraphLaunch(exec[r], streams[r]));
      if (r > 0)
        continue;
      await_starts(10);
      assert_int_equal(rondo_cuda_launcher_pause_ns(daemon_of(0)), daemon_of(0)->restart_min_ns);
    }
    await_streams();
  }
  assert_int_equal(words[100], 0);
  for (uint32_t r = 0; r < RANKS; r++)
    OK(cuGraphExecDestroy(exec[r]));
}

// The device cannot wake the reaper, which submits a graph's runs.
static void a_graph_finds_the_reaper_awake_after_a_rest(void **state) {
  (void)state;
  CUgraphExec exec[RANKS];
  const uint64_t rest_ns = 900000000;
  const uint32_t many = 100000;
  assert_true(rondo_cuda_reaper_sleep_ns(many, rest_ns, false) >= 200000);
  assert_int_equal(rondo_cuda_reaper_sleep_ns(many, rest_ns, true), 0);
  assert_in_range(rondo_cuda_reaper_sleep_ns(many, 10 * rest_ns, true), 1, 50000);
  for (uint32_t r = 0; r < RANKS; r++)
    exec[r] = graph_of(r, 0);
  for (int round = 0; round < 3; round++) {
    uint64_t begun_ns = rondo_now_ns();
    for (uint32_t r = 0; r < RANKS; r++)
      OK(cuGraphLaunch(exec[r], streams[r]));
    await_streams();
    uint64_t sleeps = rondo_cuda_reaper_sleeps();
    nap();
    sleeps = rondo_cuda_reaper_sleeps() - sleeps;
    if (rondo_now_ns() - begun_ns < rest_ns) // else this machine was busy with other things
      assert_int_equal(sleeps, 0);
  }
  for (uint32_t r = 0; r < RANKS; r++)
    OK(cuGraphExecDestroy(exec[r]));
}

// Rank 0 launches A, B, A, B …; rank 1 the same in streams of its own, B first.
static void two_graphs_take_turns_in_different_orders(void **state) {
  (void)state;
  uint32_t launches = (uint32_t)rondo_test_load(500, 50);
  CUgraphExec exec[RANKS][2];
  CUstream second;
  OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < 2; c++)
      exec[r][c] = graph_of(r, c);
  for (uint32_t i = 0; i < launches; i++) {
    OK(cuGraphLaunch(exec[0][0], streams[0]));
    OK(cuGraphLaunch(exec[0][1], streams[0]));
    OK(cuGraphLaunch(exec[1][1], second));
    OK(cuGraphLaunch(exec[1][0], streams[1]));
  }
  await_streams();
  OK(cuStreamSynchronize(second));
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < 2; c++) {
      assert_int_equal(words[20 + 4 * c + r], launches);
      OK(cuGraphExecDestroy(exec[r][c]));
    }
  assert_int_equal(words[100], 0);
  OK(cuStreamDestroy(second));
}

// One graph with a branch for each rank: captured from one stream, forked to the other and joined
// again. The branches wait for each other's runs.
static void a_forked_capture_replays_both_branches(void **state) {
  (void)state;
  uint32_t launches = (uint32_t)rondo_test_load(500, 50);
  CUgraph graph;
  CUgraphExec exec;
  CUevent fork;
  CUevent join;
  OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuEventRecord(fork, streams[0]));
  OK(cuStreamWaitEvent(streams[1], fork, 0));
  for (uint32_t c = 0; c < 2; c++)
    for (uint32_t r = 0; r < RANKS; r++)
      put_round(r, c);
  OK(cuEventRecord(join, streams[1]));
  OK(cuStreamWaitEvent(streams[0], join, 0));
  OK(cuStreamEndCapture(streams[0], &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphDestroy(graph));
  assert_int_equal(words[20], 0);
  for (uint32_t i = 0; i < launches; i++)
    OK(cuGraphLaunch(exec, streams[i % RANKS]));
  await_streams();
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < 2; c++)
      assert_int_equal(words[20 + 4 * c + r], launches);
  assert_int_equal(words[100], 0);
  OK(cuGraphExecDestroy(exec));
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
}

// A capture in another thread's hands, or of another stream, is not broken by what the library
// does.
static void a_capture_is_not_disturbed_by_registering_and_running(void **state) {
  (void)state;
  struct rondo_collective coll[RANKS];
  CUgraph graph;
  OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
  struct rondo_collective_desc d = rondo_all_reduce(77, COUNT, RONDO_INT32, RONDO_SUM);
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(rondo_register(job.ctx[r], &d, &coll[r]), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_round(&job, 1), RONDO_SUCCESS);
  OK(cuStreamEndCapture(streams[0], &graph));
  OK(cuGraphDestroy(graph));
}

// -------------------------------------------------------------- failing calls --

static const char *const entries[] = {
    "cuStreamGetCtx",     "cuStreamGetCaptureInfo",  "cuStreamBatchMemOp",
    "cuUserObjectCreate", "cuGraphRetainUserObject", "cuCtxPushCurrent",
};

// Captures, with the `n`-th call of an entry failing. Returns what the capture returned.
static int captured_with_fault(const char *entry, uint64_t n) {
  CUgraph graph = NULL;
  OK(cuStreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  rondo_test_log_clear();
  rondo_fake_fail(entry, n, 1, CUDA_ERROR_OUT_OF_MEMORY);
  int status = on_stream(0, 0);
  uint32_t lines = rondo_test_log_lines();
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
  OK(cuStreamEndCapture(streams[0], &graph));
  OK(cuGraphDestroy(graph));
  assert_true(status == RONDO_SUCCESS || lines == 1);
  return status;
}

static void a_capture_that_fails_leaves_nothing(void **state) {
  (void)state;
  for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
    // The poller enters the device for nothing, so all calls are this thread's.
    for (uint64_t n = 1; captured_with_fault(entries[e], n) != RONDO_SUCCESS; n++)
      assert_true(n < 20);
  }
  await_forgotten(0, 0);
}

static void a_run_that_cannot_be_enqueued_is_not_submitted(void **state) {
  (void)state;
  struct rondo_counters counters;
  for (size_t e = 0; e < 3; e++) {
    rondo_test_log_clear();
    rondo_fake_fail(entries[e], 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_not_equal(on_stream(0, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_test_log_lines(), 1);
    rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
  }
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 0);
  for (uint32_t r = 0; r < RANKS; r++)
    put_round(r, 0);
  await_streams();
  assert_int_equal(words[100], 0);
}

#define TEST(function)                                                                             \
  { "cuda_stream." #function, function, begin, end, NULL }

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      TEST(work_before_and_after_a_run_keeps_its_place),
      TEST(streams_of_different_order_do_not_deadlock),
      TEST(a_run_that_waits_for_its_peer_has_no_pauses),
      TEST(a_stream_that_computes_has_no_launches),
      TEST(a_stream_that_is_not_the_devices_is_refused),
      TEST(with_one_hardware_queue_streams_are_refused),
      TEST(a_graph_is_replayed_ten_thousand_times),
      TEST(pauses_do_not_grow_while_a_stream_waits),
      TEST(a_graph_finds_the_reaper_awake_after_a_rest),
      TEST(two_graphs_take_turns_in_different_orders),
      TEST(a_forked_capture_replays_both_branches),
      TEST(a_capture_is_not_disturbed_by_registering_and_running),
      TEST(a_capture_that_fails_leaves_nothing),
      TEST(a_run_that_cannot_be_enqueued_is_not_submitted),
  };
  return cmocka_run_group_tests_name("cuda_stream", tests, NULL, NULL);
}
