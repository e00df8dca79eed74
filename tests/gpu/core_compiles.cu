// Not run, only compiled: the shared bodies of queues, scheduler and daemon/core are one source for
// both compilers, and a kernel can step a block.
#include "daemon/cuda/launch_core.h"

RONDO_DRIVER_FN void rondo_move_copy(struct rondo_threads t, void *dst, const void *src,
                                     uint64_t bytes) {
  for (uint64_t i = t.rank; i < bytes; i += t.size)
    ((char *)dst)[i] = ((const char *)src)[i];
}

RONDO_DRIVER_FN void rondo_move_reduce(struct rondo_threads t, const struct rondo_reduction *r,
                                       void *dst, const void *local, const void *incoming,
                                       uint64_t count, int final) {
  (void)r, (void) final, (void)local;
  rondo_move_copy(t, dst, incoming, count);
}

RONDO_DRIVER_FN void rondo_move_scale(struct rondo_threads t, const struct rondo_reduction *r,
                                      void *dst, const void *local, uint64_t count, int final) {
  (void)r, (void) final;
  rondo_move_copy(t, dst, local, count);
}

RONDO_DRIVER_FN uint64_t rondo_launch_now_ns(void) {
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

RONDO_DRIVER_FN void rondo_launch_pause(uint32_t ns) { __nanosleep(ns); }

extern "C" __global__ void launch(const struct rondo_cuda_launch l) {
  extern __shared__ struct rondo_cuda_fast fast[];
  (void)rondo_launch_block(&l, blockIdx.x, fast);
}

extern "C" __global__ void step_once(struct rondo_block *block, uint64_t now_ns, int *result) {
  *result = rondo_block_step(block, now_ns);
}
