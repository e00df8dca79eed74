// The drop-in library in the order of streams, on the stand-in for the CUDA driver: one thread, ranks on
// devices of their own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// Both ranks send first, in one stream each: if that waited for the send alone, it would wait for ever.
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

static void memory_and_scalars_are_of_the_device(void **state) {
  void *memory = NULL;
  float scalar = 2;
  int op;
  (void)state;
  CU(cuCtxSetCurrent(contexts[1]));
  NCCL(ncclMemAlloc(&memory, 100));
  NCCL(ncclMemFree(memory));
  assert_int_equal(ncclRedOpCreatePreMulSum(&op, &scalar, 7, RONDO_NCCL_SCALAR_DEVICE, comms[0][0]),
                   RONDO_NCCL_INVALID_USAGE);
  assert_non_null(
      strstr(ncclGetLastError(NULL), "not supported: a scalar in memory of the device"));
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
      ON_STREAMS(memory_and_scalars_are_of_the_device),
      ON_STREAMS(a_split_gathers_on_the_device),
  };
  struct rondo_fake_options options = rondo_fake_defaults();
  options.devices = RANKS;
  options.peer_access = 1;
  rondo_fake_reset(&options);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
