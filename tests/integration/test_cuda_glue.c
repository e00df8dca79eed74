// The CUDA backend on the stand-in for the driver: what it does when a call fails, when a launch
// does not return, and when a thread waits for the whole device; and that it frees everything.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_backend.h"
#include "runtime/rank/flight.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/integration/cuda_device.h"
#include "tests/support/load.h"

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

// ------------------------------------------------------------------- it works -------

static void ranks_of_one_device_reduce(void **state) {
  (void)state;
  for (uint32_t ranks = 1; ranks <= RONDO_TEST_CUDA_RANKS; ranks *= 2) {
    job_of(ranks, 3, 1000);
    assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
    rounds((uint32_t)rondo_test_load(10, 2));
    assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
    assert_int_equal(rondo_fake_live_count(), 0);
  }
}

static void a_launch_has_the_threads_that_were_asked_for_and_a_domain(void **state) {
  (void)state;
  struct rondo_config like = RONDO_CONFIG_INIT;
  static const uint32_t wrong[] = {1, 64, 97, 544};
  job_of(1, 1, 1000);
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    like.threads = wrong[i];
    assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_ERR_INVALID);
    assert_true(rondo_test_log_has("is not a multiple of 32 from 96 to 512"));
  }
  like.threads = 96;
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_SUCCESS);
  rounds(1);
  assert_int_equal(rondo_fake_threads(), 96);
  assert_true(rondo_fake_launches_in(CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE) > 0);
  assert_int_equal(rondo_fake_launches_in(CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT), 0);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(setenv("RONDO_THREADS", "512", 1), 0);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_int_equal(unsetenv("RONDO_THREADS"), 0);
  rounds(1);
  assert_int_equal(rondo_fake_threads(), 512);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static void ranks_keep_within_the_budget_of_multiprocessors(void **state) {
  (void)state;
  struct rondo_config like = RONDO_CONFIG_INIT;
  like.multiprocessors = 10;
  job_of(3, 1, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_ERR_FULL); // the third
  assert_int_equal(job.opened, 2);
  assert_true(rondo_test_log_has("with its 4 blocks the daemons on device 0 would take more than "
                                 "10 multiprocessors"));
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_ABORT), RONDO_SUCCESS);
  job_of(2, 1, 1000); // what they took was given back
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_SUCCESS);
  rounds(1);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  like.multiprocessors = 3;
  like.backend = RONDO_BACKEND_CUDA;
  assert_int_equal(rondo_config_complete(&like), RONDO_SUCCESS);
  assert_int_equal(like.blocks, 3);
}

// Blocks leave all the time, and are launched again.
static void daemons_that_leave_at_once_come_back(void **state) {
  (void)state;
  struct rondo_config like = RONDO_CONFIG_INIT;
  like.tuning.quit_period_ns = 1;
  like.tuning.residency_ns = 1000;
  like.tuning.restart_min_ns = 1000;
  like.tuning.restart_max_ns = 10000;
  job_of(2, 4, 3000);
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_SUCCESS);
  rounds((uint32_t)rondo_test_load(50, 5));
  struct rondo_counters counters;
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  assert_true(counters.starts > 10);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static int record_says(const char *word) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = open_memstream(&text, &bytes);
  assert_non_null(file);
  assert_int_equal(rondo_flight_write(job.ctx[0], file), RONDO_SUCCESS);
  assert_int_equal(fclose(file), 0);
  int says = strstr(text, word) != NULL;
  free(text);
  return says;
}

// Each round wakes the launcher, which reports.
static void starts_and_quits_are_in_the_flight_record(void **state) {
  (void)state;
  struct rondo_config like = RONDO_CONFIG_INIT;
  like.tuning.quit_period_ns = 1;
  job_of(2, 1, 100);
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_SUCCESS);
  for (uint32_t i = 0; !record_says("\"event\": \"start\"") || !record_says("\"event\": \"quit\"");
       i++)
    assert_int_equal(rondo_test_cuda_round(&job, i), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

static void a_blocking_launch_lets_the_ranks_take_turns(void **state) {
  (void)state;
  assert_int_equal(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  reset(NULL);
  job_of(2, 2, 3000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_true(rondo_test_log_has("CUDA_LAUNCH_BLOCKING=1: launches return when the daemon leaves"));
  rounds((uint32_t)rondo_test_load(5, 2));
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(unsetenv("CUDA_LAUNCH_BLOCKING"), 0);
}

static void one_hardware_queue_is_enough_for_runs(void **state) {
  (void)state;
  assert_int_equal(setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1), 0);
  reset(NULL);
  job_of(2, 2, 3000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_true(rondo_test_log_has("CUDA_DEVICE_MAX_CONNECTIONS=1"));
  rounds((uint32_t)rondo_test_load(5, 2));
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(unsetenv("CUDA_DEVICE_MAX_CONNECTIONS"), 0);
}

// As a window of NCCL is set up: no daemon is on the device meanwhile.
static void a_held_device_becomes_quiet(void **state) {
  (void)state;
  struct rondo_rank *rank;
  job_of(2, 1, 3000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  rounds(1);
  assert_int_equal(rondo_rank_pin(job.ctx[0], "test", &rank), RONDO_SUCCESS);
  struct rondo_device *device = rank->member.device;
  rondo_rank_unpin(job.ctx[0]);
  device->driver->setup->hold(device, true);
  while (!device->driver->setup->is_quiet(device))
    ;
  assert_int_equal(rondo_fake_running(), 0);
  for (uint32_t r = 0; r < job.ranks; r++)
    assert_int_equal(rondo_test_cuda_fill(&job, r, 0, 1), RONDO_SUCCESS);
  for (uint32_t r = 0; r < job.ranks; r++)
    assert_int_equal(rondo_test_cuda_run(&job, r, 0), RONDO_SUCCESS);
  assert_true(device->driver->setup->is_quiet(device));
  device->driver->setup->hold(device, false);
  for (uint32_t r = 0; r < job.ranks; r++) {
    assert_int_equal(rondo_test_cuda_wait(&job, r, 0), RONDO_SUCCESS);
    assert_int_equal(rondo_test_cuda_check(&job, r, 0, 1), RONDO_SUCCESS);
  }
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// -------------------------------------------------------------------- buffers -------

static int run_with(const void *send, void *recv) {
  rondo_test_log_clear();
  return rondo_run(job.ctx[0], job.coll[0][0], send, recv, NULL, NULL);
}

static int init_alone(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx = {0};
  cfg.backend = RONDO_BACKEND_CUDA;
  int status = rondo_init(&ctx, &cfg);
  if (status == RONDO_SUCCESS)
    assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER), RONDO_SUCCESS);
  return status;
}

static void a_driver_that_is_too_old_is_refused(void **state) {
  (void)state;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.driver_version = 12030;
  reset(&options);
  assert_int_equal(init_alone(), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has("install driver 5"));
}

// The image has no machine code for the device, and the driver is older than the compiler of its
// PTX. With some toolkits the oldest driver that has all calls is newer than that, so the driver
// gets its version when the library has looked for the calls.
static void a_driver_that_is_too_old_for_the_image_is_refused(void **state) {
  (void)state;
  struct rondo_fake_options options = rondo_fake_defaults();
  options.capability = 119; // of no device so far
  reset(&options);
  assert_int_equal(init_alone(), RONDO_SUCCESS);
  options.driver_version = CUDA_VERSION - 10;
  rondo_fake_reset(&options);
  assert_int_equal(cuInit(0), CUDA_SUCCESS);
  assert_int_equal(init_alone(), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has(
      "device 0 cannot be used: there is no machine code for compute capability 11.9"));
  char wanted[64];
  snprintf(wanted, sizeof wanted, "install a driver of CUDA %d.%d or later", CUDA_VERSION / 1000,
           CUDA_VERSION % 1000 / 10);
  assert_true(rondo_test_log_has(wanted));
  options.capability = 90; // for which there is machine code
  rondo_fake_reset(&options);
  assert_int_equal(cuInit(0), CUDA_SUCCESS);
#if defined(HAS_MACHINE_CODE)
  assert_int_equal(init_alone(), RONDO_SUCCESS);
#endif
}

static void buffers_that_the_device_cannot_use_are_refused(void **state) {
  (void)state;
  static int32_t pageable[100];
  int32_t *first = NULL;
  reset_to(2, 0);
  job_of(1, 1, 100);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_int_equal(run_with(pageable, job.recv[0][0]), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("neither memory of a device nor page-locked"));
  CUcontext other;
  CUdeviceptr far;
  assert_int_equal(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetCurrent(other), CUDA_SUCCESS);
  assert_int_equal(cuMemAlloc(&far, 400), CUDA_SUCCESS);
  assert_int_equal(run_with((void *)(uintptr_t)far, job.recv[0][0]), RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has("is memory of device 1, which device 0 cannot reach"));
  assert_int_equal(cuMemFree(far), CUDA_SUCCESS);
  // Page-locked memory of the host is as good as the device's.
  void *pinned;
  assert_int_equal(cuMemHostAlloc(&pinned, 800, 0), CUDA_SUCCESS);
  first = pinned;
  for (int i = 0; i < 100; i++)
    first[i] = 3 * i;
  assert_int_equal(run_with(first, first + 100), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_wait(&job, 0, 0), RONDO_SUCCESS);
  assert_memory_equal(first, first + 100, 400);
  assert_int_equal(cuMemFreeHost(pinned), CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

// ------------------------------------------------------------ waiting for the device --

struct synchronizer {
  pthread_t thread;
  CUcontext ctx;
  uint32_t state; // 1: about to, 2: returned
};

static void *synchronize_main(void *arg) {
  struct synchronizer *s = arg;
  if (cuCtxSetCurrent(s->ctx))
    return NULL;
  __atomic_store_n(&s->state, 1, __ATOMIC_RELEASE);
  if (cuCtxSynchronize() == CUDA_SUCCESS)
    __atomic_store_n(&s->state, 2, __ATOMIC_RELEASE);
  (void)cuCtxSetCurrent(NULL);
  return NULL;
}

// Until rank 0 is half-way through a collective.
static void await_half_done(void) {
  struct rondo_counters counters = {0};
  while (!counters.primitives) {
    sched_yield();
    assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  }
}

static void wait_for_device_while_stuck(struct synchronizer *s) {
  memset(s, 0, sizeof *s);
  assert_int_equal(cuDevicePrimaryCtxRetain(&s->ctx, 0), CUDA_SUCCESS);
  assert_int_equal(rondo_test_cuda_run(&job, 0, 0), RONDO_SUCCESS); // its peer is not there
  await_half_done();
  assert_int_equal(pthread_create(&s->thread, NULL, synchronize_main, s), 0);
}

// Rank 0: A, synchronise, B. Rank 1: B, A. With one half-done collective the daemon must leave.
static void the_device_is_awaited_in_the_middle_of_a_stuck_collective(void **state) {
  (void)state;
  struct synchronizer s;
  job_of(2, 2, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  wait_for_device_while_stuck(&s);
  assert_int_equal(pthread_join(s.thread, NULL), 0);
  assert_int_equal(s.state, 2);
  assert_int_equal(rondo_test_cuda_run(&job, 0, 1), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_run(&job, 1, 1), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_run(&job, 1, 0), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t c = 0; c < 2; c++)
      assert_int_equal(rondo_test_cuda_wait(&job, r, c), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void application_kernel(const void *param, uint32_t block, uint32_t block_count) {
  (void)block, (void)block_count;
  **(uint32_t *const *)param = 1;
}

// CUDA_MODULE_LOADING=LAZY, which is the default: the first launch of the application's kernel
// waits for all that runs. The library's own is loaded beforehand, so that launching it never does.
static void a_kernel_is_loaded_lazily_in_the_middle_of_a_stuck_collective(void **state) {
  (void)state;
  struct synchronizer s;
  CUmodule module;
  CUfunction function;
  uint32_t ran = 0;
  uint32_t *param = &ran;
  void *params[] = {&param};
  assert_int_equal(setenv("CUDA_MODULE_LOADING", "LAZY", 1), 0);
  rondo_fake_register("application", application_kernel, sizeof param);
  job_of(2, 1, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_true(rondo_fake_calls("cuFuncLoad") > 0);
  wait_for_device_while_stuck(&s);
  assert_int_equal(cuCtxSetCurrent(s.ctx), CUDA_SUCCESS);
  assert_int_equal(cuModuleLoadData(&module, "image"), CUDA_SUCCESS);
  assert_int_equal(cuModuleGetFunction(&function, module, "application"), CUDA_SUCCESS);
  assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL), CUDA_SUCCESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
  assert_int_equal(ran, 1);
  assert_int_equal(pthread_join(s.thread, NULL), 0);
  assert_int_equal(rondo_test_cuda_run(&job, 1, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_wait(&job, 0, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(cuModuleUnload(module), CUDA_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  assert_int_equal(unsetenv("CUDA_MODULE_LOADING"), 0);
}

// A synchronisation with preemption off: it does not return until the peer comes. So the test above
// can fail.
static void a_daemon_that_never_leaves_holds_the_device(void **state) {
  (void)state;
  struct synchronizer s;
  struct rondo_config like = RONDO_CONFIG_INIT;
  like.budget = RONDO_BUDGET_NEVER;
  like.tuning.quit_period_ns = 1;
  job_of(2, 1, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, &like, 1), RONDO_SUCCESS);
  wait_for_device_while_stuck(&s);
  while (__atomic_load_n(&s.state, __ATOMIC_ACQUIRE) == 0)
    sched_yield();
  for (int i = 0; i < 2000; i++)
    sched_yield();
  assert_int_equal(__atomic_load_n(&s.state, __ATOMIC_ACQUIRE), 1);
  assert_true(rondo_fake_running() > 0);
  assert_int_equal(rondo_test_cuda_run(&job, 1, 0), RONDO_SUCCESS);
  assert_int_equal(pthread_join(s.thread, NULL), 0);
  assert_int_equal(s.state, 2);
  assert_int_equal(rondo_test_cuda_wait(&job, 0, 0), RONDO_SUCCESS);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void a_context_with_stuck_runs_is_destroyed(void **state) {
  (void)state;
  job_of(2, 4, 1000);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  for (uint32_t c = 0; c < 4; c++)
    assert_int_equal(rondo_test_cuda_run(&job, 0, c), RONDO_SUCCESS);
  await_half_done();
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_ABORT), RONDO_SUCCESS);
}

// ------------------------------------------------------------------- failing calls --

static const char *const entries[] = {
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetPCIBusId",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetP2PAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent",
    "cuCtxEnablePeerAccess",
    "cuCtxGetStreamPriorityRange",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncLoad",
    "cuFuncSetAttribute",
    "cuLaunchKernelEx",
    "cuEventCreate",
    "cuStreamCreateWithPriority",
    "cuStreamQuery",
    "cuThreadExchangeStreamCaptureMode",
    "cuMemAlloc",
    "cuMemHostRegister",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemsetD8Async",
    "cuStreamBatchMemOp",
    "cuPointerGetAttributes",
};

// One life of a job. Returns what the first call that failed returned.
static int one_life(void) {
  job_of(3, 2, 200);
  int status = rondo_test_cuda_open(&job, NULL, 3);
  if (status == RONDO_SUCCESS)
    status = rondo_test_cuda_round(&job, 1);
  int closed = rondo_test_cuda_close(&job, status ? RONDO_DESTROY_ABORT : RONDO_DESTROY_DRAIN);
  return status ? status : closed;
}

// A device that takes no launch any more ends the runs, those of the peers too, and the context.
static void runs_end_when_the_daemon_cannot_be_launched_any_more(void **state) {
  (void)state;
  job_of(2, 2, 100);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  rounds(1);
  rondo_test_log_clear();
  rondo_fake_fail("cuLaunchKernelEx", 1, UINT64_MAX, CUDA_ERROR_LAUNCH_FAILED);
  // While the blocks of the first round linger runs still succeed.
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS) {
    for (uint32_t r = 0; r < 2 && status == RONDO_SUCCESS; r++)
      status = rondo_test_cuda_run(&job, r, r);
    for (uint32_t r = 0; r < 2 && status == RONDO_SUCCESS; r++)
      status = rondo_test_cuda_run(&job, r, 1 - r);
    if (status == RONDO_SUCCESS)
      status = rondo_test_cuda_wait(&job, 1, 0);
  }
  assert_int_equal(status, RONDO_ERR_SYSTEM);
  assert_true(rondo_test_log_has("the daemon cannot be launched: CUDA_ERROR_LAUNCH_FAILED"));
  do
    status = rondo_test_cuda_run(&job, 0, 0);
  while (status == RONDO_SUCCESS); // until rank 0 is given up, too
  assert_int_equal(status, RONDO_ERR_SYSTEM);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
}

// Calls that the library makes from threads of its own, or makes again, may fail unseen: then all
// is well.
static void each_call_fails_once_and_leaves_nothing(void **state) {
  (void)state;
  uint64_t share = rondo_test_load(6, 1);
  for (size_t e = 0; e < sizeof entries / sizeof *entries; e++) {
    // All of the first calls, and of later ones, which are more of the same, every so-manieth.
    for (uint64_t n = 1;; n += 1 + n / share) {
      reset_to(3, 2); // two of them reach each other
      rondo_fake_fail(entries[e], n, 1, CUDA_ERROR_OUT_OF_MEMORY);
      int status = one_life();
      uint64_t failed = rondo_fake_failed();
      rondo_fake_fail(NULL, 0, 0, CUDA_SUCCESS);
      if (rondo_fake_live_count() != 0 || (status != RONDO_SUCCESS && rondo_test_log_lines() == 0))
        fail_msg("%s, call %llu: status %s, %llu objects left, %u log lines", entries[e],
                 (unsigned long long)n, rondo_status_name(status),
                 (unsigned long long)rondo_fake_live_count(), rondo_test_log_lines());
      if (status == RONDO_ERR_INTERNAL)
        fail_msg("%s, call %llu: wrong data", entries[e], (unsigned long long)n);
      if (!failed)
        break;
    }
  }
}

// ---------------------------------------------------------------------- times -------

static struct rondo_times times;

// Each part was sampled as often as the block's counters say. Returns the completions it has
// written.
static uint64_t check_times(struct rondo_daemon *daemon, uint32_t block) {
  const struct rondo_block_counters *c = &rondo_cuda_daemon_of(daemon)->status[block].counters;
  assert_int_equal(rondo_cuda_read_times(daemon, block, &times), RONDO_SUCCESS);
  assert_int_equal(times.counts[RONDO_TIMED_SQE_READ], c->fetched);
  assert_int_equal(times.counts[RONDO_TIMED_PREPARE], c->fetched);
  assert_int_equal(times.counts[RONDO_TIMED_LOAD], c->context_loads);
  assert_int_equal(times.counts[RONDO_TIMED_SAVE], c->context_saves);
  assert_int_equal(times.counts[RONDO_TIMED_PRIMITIVE], c->primitives);
  assert_int_equal(times.counts[RONDO_TIMED_FINISH], c->ended);
  assert_true(times.ns > 0 && times.ticks > 0);
  for (uint32_t part = 0; part < RONDO_TIMED_COUNT; part++)
    for (uint64_t i = 0; i < times.counts[part] && i < RONDO_TIMES_KEPT; i++)
      assert_true(times.samples[part][i] <= times.ticks);
  return times.counts[RONDO_TIMED_CQE_WRITE];
}

static void a_kernel_that_keeps_times_has_one_for_each_thing_done(void **state) {
  (void)state;
  enum { ROUNDS = 5, COLLS = 3, COUNT = 30000 };
  CUcontext ctx;
  rondo_cuda_use_timed_kernel(rondo_cuda_image);
  job_of(2, COLLS, COUNT);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  rondo_cuda_use_timed_kernel(NULL);
  assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
  assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
  rounds(ROUNDS);
  assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS); // the daemons leave
  for (uint32_t r = 0; r < 2; r++) {
    struct rondo_rank *rank;
    uint64_t completions = 0;
    assert_int_equal(rondo_rank_pin(job.ctx[r], "test", &rank), RONDO_SUCCESS);
    for (uint32_t b = 0; b < rank->cfg.blocks; b++)
      completions += check_times(rank->member.daemon, b);
    assert_int_equal(completions, ROUNDS * COLLS);
    assert_int_equal(rondo_cuda_read_times(rank->member.daemon, rank->cfg.blocks, &times),
                     RONDO_ERR_UNSUPPORTED);
    rondo_rank_unpin(job.ctx[r]);
  }
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
  assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

static void no_times_are_kept_unasked(void **state) {
  (void)state;
  struct rondo_rank *rank;
  job_of(1, 1, 100);
  assert_int_equal(rondo_test_cuda_open(&job, NULL, 1), RONDO_SUCCESS);
  assert_int_equal(rondo_rank_pin(job.ctx[0], "test", &rank), RONDO_SUCCESS);
  assert_int_equal(rondo_cuda_read_times(rank->member.daemon, 0, &times), RONDO_ERR_UNSUPPORTED);
  rondo_rank_unpin(job.ctx[0]);
  assert_int_equal(rondo_test_cuda_close(&job, RONDO_DESTROY_DRAIN), RONDO_SUCCESS);
}

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      RONDO_CUDA_TEST("cuda_glue", ranks_of_one_device_reduce),
      RONDO_CUDA_TEST("cuda_glue", a_launch_has_the_threads_that_were_asked_for_and_a_domain),
      RONDO_CUDA_TEST("cuda_glue", ranks_keep_within_the_budget_of_multiprocessors),
      RONDO_CUDA_TEST("cuda_glue", daemons_that_leave_at_once_come_back),
      RONDO_CUDA_TEST("cuda_glue", starts_and_quits_are_in_the_flight_record),
      RONDO_CUDA_TEST("cuda_glue", a_blocking_launch_lets_the_ranks_take_turns),
      RONDO_CUDA_TEST("cuda_glue", one_hardware_queue_is_enough_for_runs),
      RONDO_CUDA_TEST("cuda_glue", a_held_device_becomes_quiet),
      RONDO_CUDA_TEST("cuda_glue", a_driver_that_is_too_old_is_refused),
      RONDO_CUDA_TEST("cuda_glue", a_driver_that_is_too_old_for_the_image_is_refused),
      RONDO_CUDA_TEST("cuda_glue", buffers_that_the_device_cannot_use_are_refused),
      RONDO_CUDA_TEST("cuda_glue", the_device_is_awaited_in_the_middle_of_a_stuck_collective),
      RONDO_CUDA_TEST("cuda_glue", a_kernel_is_loaded_lazily_in_the_middle_of_a_stuck_collective),
      RONDO_CUDA_TEST("cuda_glue", a_daemon_that_never_leaves_holds_the_device),
      RONDO_CUDA_TEST("cuda_glue", a_context_with_stuck_runs_is_destroyed),
      RONDO_CUDA_TEST("cuda_glue", runs_end_when_the_daemon_cannot_be_launched_any_more),
      RONDO_CUDA_TEST("cuda_glue", each_call_fails_once_and_leaves_nothing),
      RONDO_CUDA_TEST("cuda_glue", a_kernel_that_keeps_times_has_one_for_each_thing_done),
      RONDO_CUDA_TEST("cuda_glue", no_times_are_kept_unasked),
  };
  return cmocka_run_group_tests_name("cuda_glue", tests, NULL, NULL);
}
