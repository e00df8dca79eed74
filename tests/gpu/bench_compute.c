// How much a daemon slows a large matrix product beside it: without a daemon, with an idle, a busy
// and a stuck one. An idle daemon occupies no multiprocessor.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/bench.h"
#include "tests/gpu/kernels_core.h"

#define PRODUCTS 15 // of each measurement
#define BUSY_BYTES (UINT64_C(4) << 20)
#define HOLD_NS UINT64_C(2000000)

struct product {
  struct gpu_matmul_params params;
  CUfunction kernel;
  CUstream stream;
};

static uint64_t ones(uint64_t count) {
  static const float one = 1;
  uint64_t memory = gpu_memory(count * sizeof one);
  struct gpu_fill_params fill = {memory, count, 0};
  memcpy(&fill.value, &one, sizeof one);
  gpu_launch(gpu_kernel("gpu_fill"), 4 * gpu.multiprocessors, 256, NULL, &fill);
  CUDA(cuStreamSynchronize(NULL));
  return memory;
}

static void product_open(struct product *p) {
  uint32_t size = (uint32_t)gpu_load(4096, GPU_MATMUL_TILE);
  uint64_t count = (uint64_t)size * size;
  p->kernel = gpu_kernel("gpu_matmul");
  p->stream = gpu_stream();
  p->params.a = ones(count);
  p->params.b = ones(count);
  p->params.c = gpu_memory(count * sizeof(float));
  p->params.size = size;
}

static void product_close(struct product *p) {
  gpu_release(p->params.a);
  gpu_release(p->params.b);
  gpu_release(p->params.c);
  CUDA(cuStreamDestroy(p->stream));
}

// Ones times ones: the last element is the number of columns.
static void product_check(const struct product *p) {
  float last = 0;
  uint64_t count = (uint64_t)p->params.size * p->params.size;
  CUDA(cuMemcpyDtoH(&last, p->params.c + (count - 1) * sizeof last, sizeof last));
  CHECK(last == (float)p->params.size);
}

static double product_us(const struct product *p) {
  double us[PRODUCTS];
  int count = gpu_load(PRODUCTS, 2);
  uint32_t tiles = p->params.size / GPU_MATMUL_TILE;
  for (int i = 0; i < count; i++) {
    double begin = gpu_now_us();
    gpu_launch(p->kernel, tiles * tiles, GPU_MATMUL_THREADS, p->stream, &p->params);
    CUDA(cuStreamSynchronize(p->stream));
    us[i] = gpu_now_us() - begin;
  }
  return quantile(us, count, 0.5);
}

// ------------------------------------------------------------------ multiprocessors --

// Blocks that take all the shared memory that a block can have, as many as there are
// multiprocessors, all at once: each has one to itself, and none goes where a daemon's block is.
// Returns how many multiprocessors were used.
static uint32_t free_multiprocessors(void) {
  uint32_t count = gpu.multiprocessors, used = 0;
  struct gpu_occupy_params params = {gpu_memory(count * sizeof(uint32_t)), HOLD_NS};
  void *list[] = {&params};
  CUfunction kernel = gpu_kernel("gpu_occupy");
  uint32_t *where = malloc(count * sizeof *where);
  int bytes = 0;
  CHECK(where != NULL);
  CUDA(cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  CUDA(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
  CUDA(cuLaunchKernel(kernel, count, 1, 1, 32, 1, 1, (unsigned)bytes, NULL, list, NULL));
  CUDA(cuStreamSynchronize(NULL));
  CUDA(cuMemcpyDtoH(where, params.where, count * sizeof *where));
  for (uint32_t i = 0; i < count; i++) {
    uint32_t before = 0;
    while (before < i && where[before] != where[i])
      before++;
    used += before == i;
  }
  free(where);
  gpu_release(params.where);
  return used;
}

// ------------------------------------------------------------------------- daemons --

struct load {
  struct team team;
  uint32_t is_over;
};

// Runs until the flag tells it to end.
static void *keep_busy(void *arg) {
  struct load *l = arg;
  while (!rondo_load_acquire_u32(&l->is_over))
    (void)team_run_us(&l->team);
  return NULL;
}

static double busy_us(struct load *l, const struct product *p) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, keep_busy, l) == 0);
  double us = product_us(p);
  rondo_store_release_u32(&l->is_over, 1);
  CHECK(pthread_join(thread, NULL) == 0);
  return us;
}

// All ranks but one have submitted: their daemons stay, leave and come back.
static double stuck_us(struct load *l, const struct product *p) {
  team_submit(&l->team, 0, RANKS - 1);
  double us = product_us(p);
  team_submit(&l->team, RANKS - 1, 1);
  team_await(&l->team);
  return us;
}

void bench_compute(void) {
  static struct load load;
  struct product p;
  product_open(&p);
  (void)product_us(&p);
  double none = product_us(&p);
  team_open(&load.team, BUSY_BYTES);
  (void)team_run_us(&load.team);
  CUDA(cuCtxSynchronize()); // the daemons have left
  double idle = product_us(&p);
  print_target("multiprocessors beside an idle daemon",
               (double)free_multiprocessors() / gpu.multiprocessors, "of all", 0, 1);
  double busy = busy_us(&load, &p);
  double stuck = stuck_us(&load, &p);
  product_check(&p);
  print_figure("matrix product, no daemon", none, "us");
  print_figure("matrix product beside idle daemons, against none", idle / none, "1");
  print_figure("matrix product beside 8 busy ranks, against none", busy / none, "1");
  print_figure("matrix product beside 7 stuck ranks, against none", stuck / none, "1");
  team_close(&load.team);
  product_close(&p);
}
