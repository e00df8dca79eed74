// The drop-in library in the order of streams, on the stand-in for the CUDA driver: one thread,
// ranks on devices of their own.
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rondo/types.h>

#include "adapters/nccl/abi.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define CU(call) assert_int_equal((call), CUDA_SUCCESS)
#define NCCL(call) assert_int_equal((call), RONDO_NCCL_SUCCESS)
#define RANKS 2
#define COUNT 200000 // so much that a send cannot end before its receive has begun
#define INT32 2
#define SUM 0

static rondo_nccl_comm_t comms[2][RANKS];
static CUcontext contexts[RANKS];
static CUstream streams[RANKS][2];
static int32_t *sent[RANKS], *got[RANKS][2];

static int32_t *device_memory(void) {
  CUdeviceptr memory;
  CU(cuMemAlloc(&memory, COUNT * sizeof(int32_t)));
  return (int32_t *)(uintptr_t)memory; // the stand-in's is memory of the process
}

static int begin(void **state) {
  (void)state;
  CU(cuInit(0));
  for (int r = 0; r < RANKS; r++) {
    CU(cuDevicePrimaryCtxRetain(&contexts[r], r));
    CU(cuCtxSetCurrent(contexts[r]));
    for (int s = 0; s < 2; s++) {
      CU(cuStreamCreate(&streams[r][s], CU_STREAM_NON_BLOCKING));
      got[r][s] = device_memory();
      memset(got[r][s], 0, COUNT * sizeof(int32_t));
    }
    sent[r] = device_memory();
    for (int i = 0; i < COUNT; i++)
      sent[r][i] = (r + 1) * 1000 + i;
  }
  for (int c = 0; c < 2; c++)
    NCCL(ncclCommInitAll(comms[c], RANKS, NULL));
  return 0;
}

static int end(void **state) {
  (void)state;
  for (int c = 0; c < 2; c++)
    for (int r = 0; r < RANKS; r++)
      NCCL(ncclCommDestroy(comms[c][r]));
  for (int r = 0; r < RANKS; r++) {
    CU(cuCtxSetCurrent(contexts[r]));
    CU(cuMemFree((CUdeviceptr)(uintptr_t)sent[r]));
    for (int s = 0; s < 2; s++) {
      CU(cuMemFree((CUdeviceptr)(uintptr_t)got[r][s]));
      CU(cuStreamDestroy(streams[r][s]));
    }
    CU(cuDevicePrimaryCtxRelease(r));
  }
  CU(cuCtxSetCurrent(NULL));
  return 0;
}

static void await_streams(void) {
  for (int r = 0; r < RANKS; r++)
    for (int s = 0; s < 2; s++)
      CU(cuStreamSynchronize(streams[r][s]));
}

static int32_t sum_of(int i) { return 3000 + 2 * i; }

static void communicators_on_streams_are_called_in_any_order(void **state) {
  (void)state;
  for (uint64_t round = 0; round < rondo_test_load(5, 2); round++) {
    for (int r = 0; r < RANKS; r++) {
      for (int i = 0; i < 2; i++) {
        int c = (r + i) % 2;
        NCCL(ncclAllReduce(sent[r], got[r][c], COUNT, INT32, SUM, comms[c][r], streams[r][c]));
      }
    }
    await_streams();
    for (int r = 0; r < RANKS; r++) {
      for (int c = 0; c < 2; c++) {
        int error = -1;
        assert_int_equal(got[r][c][COUNT - 1], sum_of(COUNT - 1));
        got[r][c][COUNT - 1] = 0;
        NCCL(ncclCommGetAsyncError(comms[c][r], &error));
        assert_int_equal(error, RONDO_NCCL_SUCCESS);
      }
    }
  }
}

static void put_exchange(int r) {
  NCCL(ncclGroupStart());
  NCCL(ncclSend(sent[r], COUNT, INT32, 1 - r, comms[0][r], streams[r][0]));
  NCCL(ncclRecv(got[r][0], COUNT, INT32, 1 - r, comms[0][r], streams[r][0]));
  NCCL(ncclGroupEnd());
}

// Both ranks send first, in one stream each: if that waited for the send alone, it would wait for
// ever.
static void a_group_of_one_stream_sends_and_receives_at_once(void **state) {
  (void)state;
  for (int r = 0; r < RANKS; r++)
    put_exchange(r);
  await_streams();
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(got[r][0][COUNT - 1], sent[1 - r][COUNT - 1]);
}

static void a_group_takes_communicators_of_one_stream_in_any_order(void **state) {
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    NCCL(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
      int c = (r + i) % 2;
      NCCL(ncclAllReduce(sent[r], got[r][c], COUNT, INT32, SUM, comms[c][r], streams[r][0]));
    }
    NCCL(ncclGroupEnd());
  }
  await_streams();
  for (int r = 0; r < RANKS; r++)
    for (int c = 0; c < 2; c++)
      assert_int_equal(got[r][c][7], sum_of(7));
}

static void a_group_can_be_captured(void **state) {
  CUgraph graphs[RANKS];
  CUgraphExec launched[RANKS];
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    CU(cuCtxSetCurrent(contexts[r]));
    CU(cuStreamBeginCapture(streams[r][0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    put_exchange(r);
    CU(cuStreamEndCapture(streams[r][0], &graphs[r]));
    CU(cuGraphInstantiate(&launched[r], graphs[r], 0));
  }
  for (int round = 0; round < 3; round++) {
    for (int r = 0; r < RANKS; r++) {
      sent[r][3] = 100 * round + r;
      CU(cuGraphLaunch(launched[r], streams[r][0]));
    }
    await_streams();
    for (int r = 0; r < RANKS; r++)
      assert_int_equal(got[r][0][3], 100 * round + 1 - r);
  }
  for (int r = 0; r < RANKS; r++) {
    CU(cuGraphExecDestroy(launched[r]));
    CU(cuGraphDestroy(graphs[r]));
  }
}

static CUgraphExec captured(int r, int c, bool keep) {
  CUgraph graph;
  CUgraphExec exec = NULL;
  CU(cuCtxSetCurrent(contexts[r]));
  CU(cuStreamBeginCapture(streams[r][c], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  NCCL(ncclAllReduce(sent[r], got[r][c], COUNT, INT32, SUM, comms[0][r], streams[r][c]));
  CU(cuStreamEndCapture(streams[r][c], &graph));
  if (keep)
    CU(cuGraphInstantiate(&exec, graph, 0));
  CU(cuGraphDestroy(graph));
  return exec;
}

// Two graphs of one communicator, launched in an order of each rank's own, and one that is given up
// before it was ever launched; calls outside of graphs go on.
static void graphs_of_a_communicator_take_turns(void **state) {
  CUgraphExec launched[RANKS][2];
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    launched[r][0] = captured(r, 0, true);
    (void)captured(r, 0, false);
    launched[r][1] = captured(r, 1, true);
  }
  for (int round = 0; round < 4; round++) {
    for (int r = 0; r < RANKS; r++) {
      CU(cuCtxSetCurrent(contexts[r]));
      sent[r][5] = 10 * round + r;
      for (int i = 0; i < 2; i++) {
        int s = (r + i) % 2;
        got[r][s][5] = -1;
        CU(cuGraphLaunch(launched[r][s], streams[r][s]));
      }
    }
    await_streams();
    for (int r = 0; r < RANKS; r++)
      for (int s = 0; s < 2; s++)
        assert_int_equal(got[r][s][5], 20 * round + 1);
    for (int r = 0; r < RANKS; r++)
      put_exchange(r);
    await_streams();
    for (int r = 0; r < RANKS; r++)
      assert_int_equal(got[r][0][5], 10 * round + 1 - r);
  }
  for (int r = 0; r < RANKS; r++)
    for (int s = 0; s < 2; s++)
      CU(cuGraphExecDestroy(launched[r][s]));
}

static void memory_is_of_the_device(void **state) {
  enum { MANY = 40 };
  void *memory[MANY];
  (void)state;
  for (int i = 0; i < MANY; i++) {
    CU(cuCtxSetCurrent(contexts[i % 2]));
    NCCL(ncclMemAlloc(&memory[i], 100));
    assert_non_null(memory[i]);
    for (int k = 0; k < i; k++)
      assert_ptr_not_equal(memory[i], memory[k]);
  }
  for (int i = 0; i < MANY; i++)
    NCCL(ncclMemFree(memory[i * 7 % MANY]));
  assert_int_equal(ncclMemFree(memory[0]), RONDO_NCCL_INVALID_ARGUMENT);
}

static void nap(void) {
  const struct timespec pause = {0, 50000000};
  nanosleep(&pause, NULL);
}

static void *allocate(void *memory) {
  CU(cuCtxSetCurrent(contexts[0]));
  NCCL(ncclMemAlloc(memory, 100));
  return NULL;
}

// Both want the context of the device's memory, which there is not yet. One thread makes it, in a
// call of the driver that waits, and the other waits for that thread.
static void threads_share_the_context_of_memory(void **state) {
  pthread_t threads[2];
  void *memory[2];
  (void)state;
  rondo_fake_hold("cuStreamCreateWithPriority");
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, allocate, &memory[i]), 0);
  while (!rondo_fake_held())
    sched_yield();
  nap();
  assert_int_equal(rondo_fake_held(), 1);
  rondo_fake_hold(NULL);
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < 2; i++)
    NCCL(ncclMemFree(memory[i]));
}

// The factors change in the order of the streams, behind calls that have them.
static void factors_in_memory_of_the_device_are_read_in_stream_order(void **state) {
  static float factors[3][RANKS];
  CUdeviceptr scalars[RANKS];
  int ops[RANKS];
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    CU(cuCtxSetCurrent(contexts[r]));
    CU(cuMemAlloc(&scalars[r], sizeof(float)));
    for (int i = 0; i < COUNT; i++)
      ((float *)sent[r])[i] = (float)(i % 100);
    NCCL(ncclRedOpCreatePreMulSum(&ops[r], (void *)(uintptr_t)scalars[r], RONDO_FLOAT32,
                                  RONDO_NCCL_SCALAR_DEVICE, comms[0][r]));
  }
  for (int round = 0; round < 3; round++) {
    for (int r = 0; r < RANKS; r++) {
      factors[round][r] = (float)(1 + 10 * round + r);
      CU(cuCtxSetCurrent(contexts[r]));
      CU(cuMemcpyHtoDAsync(scalars[r], &factors[round][r], sizeof(float), streams[r][0]));
    }
    CU(cuCtxSetCurrent(contexts[0])); // of one rank only
    NCCL(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
      NCCL(ncclAllReduce(sent[r], got[r][0], COUNT, RONDO_FLOAT32, ops[r], comms[0][r],
                         streams[r][0]));
    NCCL(ncclGroupEnd());
    await_streams();
    for (int r = 0; r < RANKS; r++)
      assert_true(((float *)got[r][0])[99] == 99 * (factors[round][0] + factors[round][1]));
  }
  for (int r = 0; r < RANKS; r++) {
    NCCL(ncclRedOpDestroy(ops[r], comms[0][r]));
    CU(cuMemFree(scalars[r]));
  }
}

// Its value at the time of the launch is not known when the call is made.
static void a_factor_in_memory_of_the_device_is_not_captured(void **state) {
  CUdeviceptr scalar;
  CUgraph graph;
  int op;
  (void)state;
  CU(cuCtxSetCurrent(contexts[0]));
  CU(cuMemAlloc(&scalar, sizeof(float)));
  NCCL(ncclRedOpCreatePreMulSum(&op, (void *)(uintptr_t)scalar, RONDO_FLOAT32,
                                RONDO_NCCL_SCALAR_DEVICE, comms[0][0]));
  CU(cuStreamBeginCapture(streams[0][0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  assert_int_equal(
      ncclAllReduce(sent[0], got[0][0], 1, RONDO_FLOAT32, op, comms[0][0], streams[0][0]),
      RONDO_NCCL_INVALID_USAGE);
  assert_non_null(strstr(ncclGetLastError(NULL), "is being captured"));
  CU(cuStreamEndCapture(streams[0][0], &graph));
  CU(cuGraphDestroy(graph));
  CU(cuMemFree(scalar));
}

static void a_split_gathers_on_the_device(void **state) {
  rondo_nccl_comm_t parts[RANKS];
  (void)state;
  NCCL(ncclGroupStart());
  for (int r = 0; r < RANKS; r++)
    NCCL(ncclCommSplit(comms[0][r], 0, -r, &parts[r], NULL));
  NCCL(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) {
    int rank = -1;
    NCCL(ncclCommUserRank(parts[r], &rank));
    assert_int_equal(rank, 1 - r);
    NCCL(ncclCommDestroy(parts[r]));
  }
}

#define ON_STREAMS(function)                                                                       \
  { "nccl_cuda." #function, function, begin, end, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_STREAMS(communicators_on_streams_are_called_in_any_order),
      ON_STREAMS(a_group_of_one_stream_sends_and_receives_at_once),
      ON_STREAMS(a_group_takes_communicators_of_one_stream_in_any_order),
      ON_STREAMS(a_group_can_be_captured),
      ON_STREAMS(graphs_of_a_communicator_take_turns),
      ON_STREAMS(memory_is_of_the_device),
      ON_STREAMS(threads_share_the_context_of_memory),
      ON_STREAMS(factors_in_memory_of_the_device_are_read_in_stream_order),
      ON_STREAMS(a_factor_in_memory_of_the_device_is_not_captured),
      ON_STREAMS(a_split_gathers_on_the_device),
  };
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = RANKS;
  options.peer_access = 1;
  rondo_fake_reset(&options);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
