// The kernels of tests/gpu on the stand-in for the CUDA driver: a function of the host a kernel,
// run by one thread a CUDA block. With them the programs, their checks and what they print are
// tested without a GPU; times say nothing.
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#include "tests/gpu/kernels_core.h"
#include "tests/support/fake_cuda/fake_cuda.h"

uint64_t gpu_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// There are more threads than processors, so a thread that polls the clock in a loop yields.
uint64_t gpu_ticks(void) {
  sched_yield();
  return gpu_now_ns();
}

// As strong as a fence here, and the thread sanitizer sees it.
void cq_fence(void) {
  static uint32_t word;
  (void)__atomic_fetch_add(&word, 0, __ATOMIC_SEQ_CST);
}

void cq_exchange(uint64_t *word, uint64_t value) {
  (void)__atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

uint64_t gpu_load_volatile(uint64_t address) {
  return *(const volatile uint64_t *)(uintptr_t)address;
}

void gpu_fence_sys(void) { cq_fence(); }

void gpu_fence_gpu(void) { cq_fence(); }

void gpu_red_release(uint64_t *word) { (void)__atomic_fetch_add(word, 1, __ATOMIC_RELEASE); }

void gpu_meet(void) {} // a block is one thread

static void run_gpu_fill(const void *param, uint32_t block, uint32_t block_count) {
  gpu_fill_body(param, block, block_count);
}

static void run_gpu_add(const void *param, uint32_t block, uint32_t block_count) {
  gpu_add_body(param, block, block_count);
}

static void run_gpu_touch(const void *param, uint32_t block, uint32_t block_count) {
  gpu_fill_body(param, block, block_count);
}

static void run_gpu_fused(const void *param, uint32_t block, uint32_t block_count) {
  gpu_fused_body(param, block, block_count);
}

static void run_gpu_cq(const void *param, uint32_t block, uint32_t block_count) {
  (void)block_count;
  gpu_cq_body(param, block);
}

static void run_gpu_chain(const void *param, uint32_t block, uint32_t block_count) {
  gpu_chain_body(param, block, block_count);
}

static void run_gpu_measure(const void *param, uint32_t block, uint32_t block_count) {
  uint32_t is_over;
  (void)block_count;
  gpu_measure_body(param, block, 1, &is_over);
}

static void run_gpu_copy(const void *param, uint32_t block, uint32_t block_count) {
  (void)block_count;
  gpu_copy_body(param, block, 0, 1);
}

static void run_gpu_occupy(const void *param, uint32_t block, uint32_t block_count) {
  const struct gpu_occupy_params *p = param;
  (void)block_count;
  ((uint32_t *)(uintptr_t)p->where)[block] = block;
}

static void run_gpu_matmul(const void *param, uint32_t block, uint32_t block_count) {
  const struct gpu_matmul_params *p = param;
  const float *a = (const float *)(uintptr_t)p->a;
  const float *b = (const float *)(uintptr_t)p->b;
  float *c = (float *)(uintptr_t)p->c;
  for (uint64_t i = block; i < (uint64_t)p->size * p->size; i += block_count) {
    float sum = 0;
    for (uint64_t k = 0; k < p->size; k++)
      sum += a[i / p->size * p->size + k] * b[k * p->size + i % p->size];
    c[i] = sum;
  }
}

int gpu_stand_in_kernels(void *library) {
  void (*enter)(const char *name, rondo_fake_kernel function, size_t param_bytes);
  *(void **)&enter = dlsym(library, "rondo_fake_register");
  if (!enter)
    return 0;
#define GPU_ENTER(name, params) enter(#name, run_##name, sizeof(params));
  GPU_KERNELS(GPU_ENTER)
#undef GPU_ENTER
  return 1;
}
