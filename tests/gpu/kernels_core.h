// The kernels of tests/gpu: their parameters, and the bodies of those that a GPU and the stand-in
// for the driver run alike. Read by nvcc and by gcc.
//
// A kernel takes one parameter. A body is run by `part` of `parts`: a thread of the grid, or a
// block of the stand-in.
#ifndef RONDO_TESTS_GPU_KERNELS_CORE_H
#define RONDO_TESTS_GPU_KERNELS_CORE_H

#include <stdalign.h>
#include <stdint.h>

#include "base/platform.h"
#include "benchmarks/micro/cq_variants_core.h"

#define GPU_RANKS 8u

struct gpu_fill_params {
  uint64_t memory; // of int32
  uint64_t count;
  int32_t value;
};

struct gpu_fused_params {
  uint64_t in[GPU_RANKS], out[GPU_RANKS]; // of float, 16 aligned bytes
  uint64_t count;                         // a multiple of 4
};

struct gpu_matmul_params {
  uint64_t a, b, c; // of float, row by row
  uint32_t size;    // rows and columns, a multiple of GPU_MATMUL_TILE
};
#define GPU_MATMUL_TILE 64u // of the result, a block
#define GPU_MATMUL_THREADS 256u

// Every block keeps a multiprocessor to itself for a time and tells which one it is.
struct gpu_occupy_params {
  uint64_t where; // of uint32, one a block
  uint64_t hold_ns;
};

// What a completion queue is asked for: see benchmarks/micro/bench_cq.c.
enum gpu_cq_quantity { GPU_CQ_WRITE = 0, GPU_CQ_ANSWER = 1, GPU_CQ_STREAM = 2 };

struct gpu_cq_params {
  uint64_t shared;      // struct cq_shared, page-locked
  uint64_t own;         // struct cq_own, of the device
  uint64_t drained;     // uint32, page-locked: completions that the consumer has had
  uint64_t samples;     // uint32 × count, of the device: ticks of one completion each
  uint64_t clocks;      // uint64 × 2, of the device: ticks and nanoseconds of the whole
  uint64_t patience_ns; // a consumer that takes longer is given up
  uint32_t variant, quantity;
  uint32_t count; // completions of a block
  uint32_t reserved;
};

// The kernels. gpu_fill sets, gpu_add adds, gpu_touch is for a module that is loaded late.
#define GPU_KERNELS(KERNEL)                                                                        \
  KERNEL(gpu_fill, struct gpu_fill_params)                                                         \
  KERNEL(gpu_add, struct gpu_fill_params)                                                          \
  KERNEL(gpu_touch, struct gpu_fill_params)                                                        \
  KERNEL(gpu_fused, struct gpu_fused_params)                                                       \
  KERNEL(gpu_matmul, struct gpu_matmul_params)                                                     \
  KERNEL(gpu_occupy, struct gpu_occupy_params)                                                     \
  KERNEL(gpu_cq, struct gpu_cq_params)

// What the driver provides: two clocks, the finer one in ticks.
RONDO_DRIVER_FN uint64_t gpu_ticks(void);
RONDO_DRIVER_FN uint64_t gpu_now_ns(void);

RONDO_FN void gpu_fill_body(const struct gpu_fill_params *p, uint64_t part, uint64_t parts) {
  int32_t *memory = (int32_t *)(uintptr_t)p->memory;
  for (uint64_t i = part; i < p->count; i += parts)
    memory[i] = p->value;
}

RONDO_FN void gpu_add_body(const struct gpu_fill_params *p, uint64_t part, uint64_t parts) {
  int32_t *memory = (int32_t *)(uintptr_t)p->memory;
  for (uint64_t i = part; i < p->count; i += parts)
    memory[i] += p->value;
}

struct gpu_four {
  alignas(16) float x;
  float y, z, w;
};

// Reads eight buffers and writes eight: what an all-reduce on one GPU must do at least.
RONDO_FN void gpu_fused_body(const struct gpu_fused_params *p, uint64_t part, uint64_t parts) {
  for (uint64_t i = part; i < p->count / 4; i += parts) {
    struct gpu_four sum = {0, 0, 0, 0};
    RONDO_UNROLL for (uint32_t r = 0; r < GPU_RANKS; r++) {
      struct gpu_four v = ((const struct gpu_four *)(uintptr_t)p->in[r])[i];
      sum.x += v.x;
      sum.y += v.y;
      sum.z += v.z;
      sum.w += v.w;
    }
    RONDO_UNROLL for (uint32_t r = 0; r < GPU_RANKS; r++) {
      ((struct gpu_four *)(uintptr_t)p->out[r])[i] = sum;
    }
  }
}

// Waits until the consumer has had `count` completions. 0: it took too long.
RONDO_FN int gpu_cq_await(const struct gpu_cq_params *p, uint32_t count) {
  const uint32_t *drained = (const uint32_t *)(uintptr_t)p->drained;
  uint64_t begun_ns = gpu_now_ns();
  while (rondo_load_acquire_u32(drained) < count) {
    if (gpu_now_ns() - begun_ns > p->patience_ns)
      return 0;
    rondo_relax();
  }
  return 1;
}

// 0: there was no room for too long.
RONDO_FN int gpu_cq_push(const struct gpu_cq_params *p, uint32_t id) {
  struct cq_shared *shared = (struct cq_shared *)(uintptr_t)p->shared;
  struct cq_own *own = (struct cq_own *)(uintptr_t)p->own;
  uint64_t begun_ns = 0;
  while (!cq_try_push(p->variant, shared, own, id)) {
    uint64_t now_ns = gpu_now_ns();
    begun_ns = begun_ns ? begun_ns : now_ns;
    if (now_ns - begun_ns > p->patience_ns)
      return 0;
    rondo_relax();
  }
  return 1;
}

// One thread of block `block` is a producer.
RONDO_FN void gpu_cq_body(const struct gpu_cq_params *p, uint32_t block) {
  uint32_t *samples = (uint32_t *)(uintptr_t)p->samples;
  uint64_t *clocks = (uint64_t *)(uintptr_t)p->clocks;
  uint64_t begun_ns = gpu_now_ns(), begun = gpu_ticks();
  for (uint32_t i = 0; i < p->count; i++) {
    uint64_t since = gpu_ticks();
    if (!gpu_cq_push(p, block * p->count + i))
      return;
    if (p->quantity == GPU_CQ_STREAM)
      continue;
    if (p->quantity == GPU_CQ_ANSWER && !gpu_cq_await(p, i + 1))
      return;
    samples[i] = (uint32_t)(gpu_ticks() - since);
    // The consumer empties the queue before the smallest of them can be full.
    if (i % CQ_SLOTS == CQ_SLOTS - 1 && !gpu_cq_await(p, i + 1))
      return;
  }
  if (block == 0) {
    clocks[0] = gpu_ticks() - begun;
    clocks[1] = gpu_now_ns() - begun_ns;
  }
}

#if !defined(__cplusplus)
// Gives the driver that is `library` the kernels if it is the stand-in. Returns 1 if it is.
int gpu_stand_in_kernels(void *library);
#endif

#endif // RONDO_TESTS_GPU_KERNELS_CORE_H
