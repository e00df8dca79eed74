// The group of threads that move the data of a block: one thread on the host; on the device all
// warps of a CUDA block except the first, which runs the state machine, and the last, which looks
// at the host's memory. Only code that moves data uses the group. Its loops are written
//   for (i = t.rank; i < n; i += t.size)
// One of the three headers that may test which compiler is in use.
#ifndef RONDO_BASE_THREADS_H
#define RONDO_BASE_THREADS_H

#include <stdint.h>

struct rondo_threads {
  uint32_t rank; // of the calling thread in its group
  uint32_t size; // threads of the group
};

#if defined(__CUDACC__)
static __device__ __forceinline__ struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {threadIdx.x - 32, blockDim.x - 64};
  return t;
}
#else
static inline struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {0, 1};
  return t;
}
#endif

#endif // RONDO_BASE_THREADS_H
