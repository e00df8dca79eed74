// Order in streams: kernels produce and consume the buffers of a run, also in graphs.
#include <stdlib.h>

#include "tests/gpu/job.h"
#include "tests/gpu/kernels_core.h"

#define RANKS 2u
#define COLLECTIVE 3
#define COUNT 4096u // elements of that collective

struct tied {
  struct bench b;
  CUstream streams[RANKS];
  uint64_t send[RANKS];
  CUfunction fill, add;
};

static void tied_open(struct tied *t) {
  bench_open(&t->b, RANKS);
  t->fill = gpu_kernel("gpu_fill");
  t->add = gpu_kernel("gpu_add");
  for (uint32_t r = 0; r < RANKS; r++) {
    t->streams[r] = gpu_stream();
    t->send[r] = gpu_memory(COUNT * sizeof(int32_t));
  }
}

static void tied_close(struct tied *t) {
  bench_close(&t->b);
  for (uint32_t r = 0; r < RANKS; r++) {
    CUDA(cuStreamDestroy(t->streams[r]));
    gpu_release(t->send[r]);
  }
}

// Enqueued on each stream: the buffer is filled, reduced, and the result added to.
static void tie(struct tied *t) {
  for (uint32_t r = 0; r < RANKS; r++) {
    uint64_t recv = t->b.recv[COLLECTIVE][r];
    struct gpu_fill_params fill = {t->send[r], COUNT, (int32_t)r + 1};
    struct gpu_fill_params add = {recv, COUNT, 1};
    gpu_launch(t->fill, 4, 256, t->streams[r], &fill);
    OK(rondo_run_on_stream(t->b.j.ctx[r], t->b.colls[COLLECTIVE][r], gpu_pointer(t->send[r]),
                           gpu_pointer(recv), t->streams[r]));
    gpu_launch(t->add, 4, 256, t->streams[r], &add);
  }
}

static void check(const struct tied *t) {
  static int32_t values[COUNT];
  for (uint32_t r = 0; r < RANKS; r++)
    CUDA(cuStreamSynchronize(t->streams[r]));
  for (uint32_t r = 0; r < RANKS; r++) {
    CUDA(cuMemcpyDtoH(values, t->b.recv[COLLECTIVE][r], sizeof values));
    for (uint32_t i = 0; i < COUNT; i++)
      CHECK(values[i] == 4);
  }
}

void case_streams(void) {
  struct tied t;
  tied_open(&t);
  for (int i = 0; i < gpu_load(200, 5); i++) {
    tie(&t);
    check(&t);
  }
  tied_close(&t);
}

void case_graphs(void) {
  struct tied t;
  CUgraph graph[RANKS];
  CUgraphExec exec[RANKS];
  tied_open(&t);
  for (uint32_t r = 0; r < RANKS; r++)
    CUDA(cuStreamBeginCapture(t.streams[r], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  tie(&t);
  for (uint32_t r = 0; r < RANKS; r++)
    CUDA(cuStreamEndCapture(t.streams[r], &graph[r]));
  for (uint32_t r = 0; r < RANKS; r++)
    CUDA(cuGraphInstantiate(&exec[r], graph[r], 0));
  for (int i = 0; i < gpu_load(10000, 20); i++) {
    for (uint32_t r = 0; r < RANKS; r++)
      CUDA(cuGraphLaunch(exec[r], t.streams[r]));
    if (i % 100 == 99 || i == 0)
      check(&t);
  }
  check(&t);
  for (uint32_t r = 0; r < RANKS; r++) {
    CUDA(cuGraphExecDestroy(exec[r]));
    CUDA(cuGraphDestroy(graph[r]));
  }
  tied_close(&t);
}
