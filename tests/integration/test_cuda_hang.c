// Programs that hang a GPU whose driver holds the lock of a context while a call waits for the
// device, on the stand-in for the driver: a stream waits for a run, and the daemon's launch needs
// the lock. Each program runs in a process of its own, so that a hang is a failed test.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/cuda/cuda_backend.h"
#include "tests/support/cuda_job.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/named.h"

#define RANKS 2u
#define ROUNDS 50u
#define COUNT 50000u // a run has several blocks
#define COLLS 6u     // more than there are launch streams
#define HANG_NS UINT64_C(20000000000)
#define LATE_NS 100000000 // beyond the residency, and many times the quit period

// In place of the kernels: the stand-in has its own.
const unsigned char rondo_cuda_image[] = {1};

// Ends the process of a program: its exit status is the test's result.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)
#define OK(call) check_result(#call, call)

static void check_result(const char *call, CUresult result) {
  if (result == CUDA_SUCCESS)
    return;
  fprintf(stderr, "%s: %d\n", call, (int)result);
  _exit(1);
}

static struct rondo_test_cuda_job job;
static CUcontext ctx[RANKS];
static CUstream streams[RANKS];
static CUmodule module;
static CUfunction gated, empty[RANKS];
static uint32_t *gate;
static CUdeviceptr spare;
static uint32_t has_ended; // the runs of all rounds
static char host_memory[4096];

// The application's work before a run: it lasts until the gate is open.
static void gated_kernel(const void *param, uint32_t block, uint32_t block_count) {
  (void)param, (void)block, (void)block_count;
  while (!__atomic_load_n(gate, __ATOMIC_ACQUIRE))
    sched_yield();
}

static void empty_kernel(const void *param, uint32_t block, uint32_t block_count) {
  (void)param, (void)block, (void)block_count;
}

static void nap(long ns) {
  const struct timespec pause = {0, ns};
  nanosleep(&pause, NULL);
}

static void launch(CUfunction function, CUstream stream) {
  void *param = NULL;
  void *params[] = {&param};
  OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void on_device(uint32_t rank) { OK(cuCtxSetCurrent(ctx[rank])); }

// Rank r is on device r modulo the devices.
static void ranks_open(uint32_t devices) {
  job = (struct rondo_test_cuda_job){.ranks = RANKS, .colls = COLLS, .count = COUNT};
  for (uint32_t r = 0; r < RANKS; r++) {
    OK(cuDevicePrimaryCtxRetain(&ctx[r], (CUdevice)(r % devices)));
    on_device(r);
    OK(cuStreamCreate(&streams[r], CU_STREAM_NON_BLOCKING));
  }
  CHECK(rondo_test_cuda_open(&job, NULL, devices) == RONDO_SUCCESS);
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < job.colls; c++)
      CHECK(rondo_test_cuda_fill(&job, r, c, 1) == RONDO_SUCCESS);
}

// Leaves the calling thread on device 0.
static void kernels_load(void) {
  for (uint32_t r = RANKS; r-- > 0;) {
    on_device(r);
    OK(cuModuleLoadData(&module, "image"));
    OK(cuModuleGetFunction(&empty[r], module, "empty"));
    OK(cuFuncLoad(empty[r]));
  }
  OK(cuModuleGetFunction(&gated, module, "gated"));
  OK(cuFuncLoad(gated));
}

static void program_begin(const struct rondo_fake_options *o) {
  void *memory;
  rondo_fake_reset(o);
  rondo_fake_register("gated", gated_kernel, sizeof(void *));
  rondo_fake_register("empty", empty_kernel, sizeof(void *));
  OK(cuInit(0));
  ranks_open(o->devices);
  kernels_load();
  OK(cuMemAlloc(&spare, 64));
  OK(cuMemHostAlloc(&memory, 64, 0));
  gate = memory;
  *gate = 0;
}

static void run_tied(uint32_t rank, uint32_t coll) {
  on_device(rank);
  CHECK(rondo_run_on_stream(job.ctx[rank], job.coll[rank][coll], job.send[rank][coll],
                            job.recv[rank][coll], streams[rank]) == RONDO_SUCCESS);
}

static void check_results(uint32_t coll) {
  for (uint32_t r = 0; r < RANKS; r++) {
    CHECK(rondo_test_cuda_wait(&job, r, coll) == RONDO_SUCCESS);
    CHECK(rondo_test_cuda_check(&job, r, coll, 1) == RONDO_SUCCESS);
  }
}

static void await_results(void) {
  for (uint32_t r = 0; r < RANKS; r++) {
    on_device(r);
    OK(cuStreamSynchronize(streams[r]));
  }
  check_results(0);
}

// ------------------------------------------------------- calls that wait for the device --

static void call_free(void) { OK(cuMemFree(spare)); }
static void call_register(void) { OK(cuMemHostRegister(host_memory, sizeof host_memory, 0)); }

static void call_load(void) {
  CUfunction lazy;
  CUstream other;
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuModuleGetFunction(&lazy, module, "empty"));
  launch(lazy, other);
}

// One that makes such a call on device 0 while the other thread goes on.
struct caller {
  pthread_t thread;
  void (*call)(void);
  uint32_t is_inside;
};

static void *caller_main(void *arg) {
  struct caller *c = arg;
  on_device(0);
  __atomic_store_n(&c->is_inside, 1, __ATOMIC_RELEASE);
  c->call();
  return NULL;
}

static void caller_begin(struct caller *c, void (*call)(void)) {
  *c = (struct caller){.call = call};
  CHECK(pthread_create(&c->thread, NULL, caller_main, c) == 0);
  while (!__atomic_load_n(&c->is_inside, __ATOMIC_ACQUIRE))
    sched_yield();
  nap(LATE_NS); // the call waits, and the daemon has left
}

static void caller_end(const struct caller *c) { CHECK(pthread_join(c->thread, NULL) == 0); }

// ---------------------------------------------------------------------- programs --

// The call begins while the stream computes what the run needs.
static void program_before_run(void (*call)(void)) {
  struct caller c;
  launch(gated, streams[0]);
  run_tied(0, 0);
  caller_begin(&c, call);
  __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
  run_tied(1, 0);
  await_results();
  caller_end(&c);
}

// The call begins when the stream waits for a peer that is late.
static void program_in_run(void (*call)(void)) {
  struct caller c;
  run_tied(0, 0);
  caller_begin(&c, call);
  run_tied(1, 0);
  await_results();
  caller_end(&c);
}

// The report on the run, which its peer makes late, is written while the call waits for the run.
static void program_with_report(void (*call)(void)) {
  struct caller c;
  run_tied(0, 0);
  caller_begin(&c, call);
  CHECK(rondo_wait(job.ctx[0], job.coll[0][0], RONDO_LAST_RUN, LATE_NS) == RONDO_ERR_TIMEOUT);
  run_tied(1, 0);
  await_results();
  caller_end(&c);
}

// A context is destroyed while the driver does not answer a report on one of its runs. The daemon's
// memory stays, because the inspector reads it afterwards.
static void program_of_a_late_answer(void (*call)(void)) {
  (void)call;
  CHECK(rondo_test_cuda_run(&job, 0, 0) == RONDO_SUCCESS);
  rondo_fake_hold("cuMemcpyDtoHAsync");
  CHECK(rondo_wait(job.ctx[0], job.coll[0][0], RONDO_LAST_RUN, LATE_NS) == RONDO_ERR_TIMEOUT);
  CHECK(rondo_fake_held() == 1);
  CHECK(rondo_test_cuda_close(&job, RONDO_DESTROY_ABORT) == RONDO_SUCCESS);
  CHECK(rondo_fake_held() == 1);
  const uint64_t contexts = rondo_fake_live().contexts;
  CHECK(contexts == RANKS + 1); // those of the program, and that of the lost daemon
  rondo_fake_hold(NULL);
  nap(LATE_NS);
}

// Rank 0 has another run, which no stream waits for and which needs the launcher. Those of rank 1
// need theirs.
static void program_with_untied_runs(void (*call)(void)) {
  struct caller c;
  run_tied(0, 0);
  caller_begin(&c, call);
  CHECK(rondo_test_cuda_run(&job, 0, 1) == RONDO_SUCCESS);
  nap(LATE_NS);
  for (uint32_t i = 0; i < 2; i++)
    CHECK(rondo_test_cuda_run(&job, 1, i) == RONDO_SUCCESS);
  check_results(0);
  check_results(1);
  caller_end(&c);
}

static void *rank_main(void *arg) {
  uint32_t rank = *(uint32_t *)arg;
  for (uint32_t i = 0; i < ROUNDS; i++) {
    on_device(rank);
    launch(empty[rank], streams[rank]);
    run_tied(rank, i % 2);
  }
  OK(cuStreamSynchronize(streams[rank]));
  return NULL;
}

static void call_all_the_time(void) {
  while (!__atomic_load_n(&has_ended, __ATOMIC_ACQUIRE)) {
    OK(cuMemFree(spare));
    OK(cuMemAlloc(&spare, 64));
  }
}

// Each rank's thread puts all its runs into its stream.
static void program_of_rounds(void (*call)(void)) {
  uint32_t ranks[RANKS];
  pthread_t threads[RANKS];
  struct caller c;
  if (call)
    caller_begin(&c, call);
  for (uint32_t r = 0; r < RANKS; r++) {
    ranks[r] = r;
    CHECK(pthread_create(&threads[r], NULL, rank_main, &ranks[r]) == 0);
  }
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(pthread_join(threads[r], NULL) == 0);
  __atomic_store_n(&has_ended, 1, __ATOMIC_RELEASE);
  if (call)
    caller_end(&c);
  check_results(0);
  check_results(1);
}

// More streams wait at once than there are launch streams.
static void program_of_many_streams(void (*call)(void)) {
  CUstream many[RANKS][COLLS];
  (void)call;
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < COLLS; c++) {
      on_device(r);
      OK(cuStreamCreate(&many[r][c], CU_STREAM_NON_BLOCKING));
      streams[r] = many[r][c];
      run_tied(r, c);
    }
  for (uint32_t c = 0; c < COLLS; c++)
    check_results(c);
}

// After the first run of a stream all blocks of its launch but one have left. That one begins the
// second run, and leaves then. The launcher is too slow to launch for that run before the call.
// Rank 1 makes its part of the run when a run without a stream has ended, which needs all blocks.
static void program_of_two_ends(void (*call)(void)) {
  struct caller c;
  rondo_fake_stop_clock(0);
  for (uint32_t r = 0; r < RANKS; r++)
    run_tied(r, 0);
  await_results();
  nap(LATE_NS);
  rondo_fake_hold("cuStreamQuery");
  run_tied(0, 1);
  caller_begin(&c, call);
  rondo_fake_hold(NULL);
  rondo_fake_stop_clock(UINT32_MAX);
  nap(LATE_NS);
  for (uint32_t r = 0; r < RANKS; r++)
    CHECK(rondo_test_cuda_run(&job, r, 2) == RONDO_SUCCESS);
  CHECK(rondo_test_cuda_wait(&job, 1, 2) == RONDO_SUCCESS);
  run_tied(1, 1);
  check_results(1);
  check_results(2);
  caller_end(&c);
}

// Three streams of rank 0 wait. The launch for the first one stays, those for the others find the
// blocks owned. The first run to end is not the last.
static void program_of_three_streams(void (*call)(void)) {
  struct caller c;
  for (uint32_t i = 0; i < 3; i++) {
    on_device(0);
    OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    run_tied(0, i);
    nap(LATE_NS);
  }
  caller_begin(&c, call);
  run_tied(1, 0);
  run_tied(1, 2);
  nap(LATE_NS);
  run_tied(1, 1);
  for (uint32_t i = 0; i < 3; i++)
    check_results(i);
  caller_end(&c);
}

struct program {
  void (*main)(void (*call)(void));
  void (*call)(void);
  struct rondo_fake_options options;
};

// Runs a program in a process of its own. Returns 0 if it has ended well in time.
static int program_try(const struct program *p) {
  pid_t child = fork();
  if (child == 0) {
    program_begin(&p->options);
    p->main(p->call);
    _exit(0);
  }
  uint64_t begun_ns = rondo_now_ns();
  int status = -1;
  while (child > 0 && waitpid(child, &status, WNOHANG) == 0) {
    if (rondo_now_ns() - begun_ns > HANG_NS) {
      (void)kill(child, SIGKILL);
      (void)waitpid(child, &status, 0);
      fprintf(stderr, "the program hangs\n");
      return -1;
    }
    nap(1000000);
  }
  return status;
}

static struct rondo_fake_options options_with(uint32_t kernels_only) {
  struct rondo_fake_options o = rondo_fake_defaults();
  o.devices = RANKS;
  o.holds_lock = 1;
  o.watch_locks = 1;
  o.kernels_only = kernels_only;
  return o;
}

static void try_readings(void (*main)(void (*)(void)), void (*call)(void)) {
  for (uint32_t kernels_only = 0; kernels_only < 2; kernels_only++) {
    const struct program p = {main, call, options_with(kernels_only)};
    assert_int_equal(program_try(&p), 0);
  }
}

static void memory_is_freed_before_a_run(void **state) {
  (void)state;
  try_readings(program_before_run, call_free);
}

static void memory_is_freed_in_a_run(void **state) {
  (void)state;
  try_readings(program_in_run, call_free);
}

static void memory_is_registered_in_a_run(void **state) {
  (void)state;
  try_readings(program_in_run, call_register);
}

static void a_kernel_is_loaded_before_a_run(void **state) {
  (void)state;
  try_readings(program_before_run, call_load);
}

static void a_launcher_that_is_held_up_holds_up_no_other(void **state) {
  (void)state;
  try_readings(program_with_untied_runs, call_free);
}

static void a_report_is_written_while_memory_is_freed(void **state) {
  (void)state;
  try_readings(program_with_report, call_free);
}

static void a_context_is_destroyed_before_a_report_is_answered(void **state) {
  (void)state;
  const struct program p = {program_of_a_late_answer, NULL, options_with(0)};
  assert_int_equal(program_try(&p), 0);
}

static void memory_is_freed_all_the_time(void **state) {
  (void)state;
  try_readings(program_of_rounds, call_all_the_time);
}

static void memory_is_freed_between_the_ends_of_two_blocks(void **state) {
  (void)state;
  try_readings(program_of_two_ends, call_free);
}

static void memory_is_freed_while_three_streams_wait(void **state) {
  (void)state;
  try_readings(program_of_three_streams, call_free);
}

static void streams_share_hardware_queues(void **state) {
  (void)state;
  for (uint32_t connections = 2; connections <= 8; connections *= 2) {
    struct program p = {program_of_rounds, call_all_the_time, options_with(0)};
    p.options.connections = connections;
    assert_int_equal(program_try(&p), 0);
  }
}

// Each rank's launch takes all places of the one device.
static void daemons_take_turns_where_they_do_not_fit(void **state) {
  (void)state;
  struct program p = {program_of_rounds, NULL, options_with(0)};
  p.options.devices = 1;
  p.options.connections = RONDO_FAKE_MANY_CONNECTIONS;
  p.options.resident_blocks = 4;
  assert_int_equal(program_try(&p), 0);
}

static void more_streams_wait_than_have_launches(void **state) {
  (void)state;
  const struct program p = {program_of_many_streams, NULL, options_with(0)};
  assert_int_equal(program_try(&p), 0);
}

#define TEST(function)                                                                             \
  { "cuda_hang." #function, function, NULL, NULL, NULL }

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(memory_is_freed_before_a_run),
      TEST(memory_is_freed_in_a_run),
      TEST(memory_is_registered_in_a_run),
      TEST(a_kernel_is_loaded_before_a_run),
      TEST(a_launcher_that_is_held_up_holds_up_no_other),
      TEST(a_report_is_written_while_memory_is_freed),
      TEST(a_context_is_destroyed_before_a_report_is_answered),
      TEST(memory_is_freed_all_the_time),
      TEST(memory_is_freed_between_the_ends_of_two_blocks),
      TEST(memory_is_freed_while_three_streams_wait),
      TEST(streams_share_hardware_queues),
      TEST(daemons_take_turns_where_they_do_not_fit),
      TEST(more_streams_wait_than_have_launches),
  };
  return cmocka_run_group_tests_name("cuda_hang", tests, NULL, NULL);
}
