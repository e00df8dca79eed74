// Programs come to their end: disorder, calls that wait for the whole device, quits and starts,
// abort.
#include "tests/gpu/job.h"
#include "tests/gpu/kernels_core.h"

// All collectives once, in an order of its own on each of 8 ranks.
static void disorder(struct bench *b, int round, int synchronise) {
  uint32_t at[MAX_RANKS] = {0};
  for (uint32_t n = 0; n < COLLECTIVES * MAX_RANKS;) {
    uint32_t rank = (uint32_t)gpu_random(MAX_RANKS);
    uint32_t stride = rank % 2 ? 7 : 5;
    if (at[rank] == COLLECTIVES)
      continue;
    bench_run(b, rank, (int)((rank * 3 + (uint32_t)round + at[rank] * stride) % COLLECTIVES));
    at[rank]++;
    n++;
    if (synchronise && gpu_random(4) == 0)
      CUDA(cuCtxSynchronize());
  }
  bench_await(b);
}

// `synchronise`: a device synchronisation between any two collectives of a rank.
static void program(int iterations, int synchronise) {
  struct bench b;
  bench_open(&b, MAX_RANKS);
  for (int i = 0; i < iterations; i++)
    disorder(&b, i, synchronise);
  bench_close(&b);
}

void case_disordered(void) { program(gpu_load(200, 5), 0); }
void case_synchronised(void) { program(gpu_load(200, 3), 1); }

// "A, sync, B" and "B, sync, A": exactly one collective is half done at each synchronisation.
void case_half_done(void) {
  struct bench b;
  bench_open(&b, 2);
  for (int i = 0; i < gpu_load(100, 5); i++) {
    bench_run(&b, 0, 0);
    bench_run(&b, 1, 1);
    CUDA(cuCtxSynchronize());
    bench_run(&b, 0, 1);
    bench_run(&b, 1, 0);
    bench_await(&b);
  }
  bench_close(&b);
}

// Work on the default stream by a kernel that is loaded only now.
static void touch(uint64_t word) {
  struct gpu_fill_params p = {word, 1, 5};
  CUmodule module;
  CUfunction kernel;
  int32_t value = 0;
  CUDA(cuModuleLoadData(&module, gpu_kernels_image));
  CUDA(cuModuleGetFunction(&kernel, module, "gpu_touch"));
  gpu_launch(kernel, 1, 1, NULL, &p);
  CUDA(cuStreamSynchronize(NULL));
  CUDA(cuMemcpyDtoH(&value, word, sizeof value));
  CHECK(value == 5);
  CUDA(cuMemsetD8(word, 0, sizeof value));
  CUDA(cuModuleUnload(module));
}

// Each of these waits for all that runs on the device, or may; two collectives are stuck meanwhile.
void case_calls(void) {
  struct bench b;
  bench_open(&b, 2);
  for (int i = 0; i < gpu_load(20, 2); i++) {
    bench_run(&b, 0, 0);
    bench_run(&b, 1, 1);
    uint64_t word = gpu_memory(4);
    void *pinned = gpu_pinned(1 << 16);
    touch(word);
    CUDA(cuMemFreeHost(pinned));
    gpu_release(word);
    bench_run(&b, 0, 1);
    bench_run(&b, 1, 0);
    bench_await(&b);
  }
  bench_close(&b);
}

// Each device synchronisation makes the daemons quit; each run starts them again.
void case_restarts(void) {
  struct bench b;
  struct rondo_counters c = {0};
  uint64_t wanted = (uint64_t)gpu_load(100000, 20);
  bench_open(&b, 2);
  while (c.starts < wanted && !gpu_is_late()) {
    bench_run(&b, 0, 0);
    CUDA(cuCtxSynchronize());
    bench_run(&b, 1, 0);
    job_await(&b.j, b.colls[0]);
    CUDA(cuCtxSynchronize());
    OK(rondo_counters(b.j.ctx[0], &c));
  }
  printf("restarts: %llu of %llu starts in the time given\n", (unsigned long long)c.starts,
         (unsigned long long)wanted);
  bench_close(&b);
}

void case_abort(void) {
  for (int i = 0; i < gpu_load(10, 2); i++) {
    struct bench b;
    bench_open(&b, 2);
    bench_run(&b, 0, 0);
    bench_run(&b, 0, 5);
    OK(rondo_abort(b.j.ctx[0]));
    CHECK(rondo_wait(b.j.ctx[0], b.colls[0][0], RONDO_LAST_RUN, LONG_NS) == RONDO_ERR_ABORTED);
    CHECK(rondo_wait(b.j.ctx[0], b.colls[5][0], RONDO_LAST_RUN, LONG_NS) == RONDO_ERR_ABORTED);
    CUDA(cuCtxSynchronize());
    bench_close(&b);
  }
}

// Ends with its time, which is a success: see gpu_tests.c.
void case_soak(void) {
  for (;;) {
    case_kinds();
    program(2, (int)gpu_random(2));
    case_matrix();
  }
}
