// The thread group that executes a block: one lane on the host, the threads of a
// CUDA block on the device. Loops in shared code are written
//   for (i = t.rank; i < n; i += t.size)
// and what only one may do is guarded by t.rank == 0. One of the three headers
// that may ask which compiler reads it.
#ifndef RONDO_QUEUES_PLATFORM_THREADS_H
#define RONDO_QUEUES_PLATFORM_THREADS_H

#include <stdint.h>

struct rondo_threads {
  uint32_t rank; // of the calling thread in its group
  uint32_t size; // threads of the group
};

#if defined(__CUDACC__)
static __device__ __forceinline__ struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {threadIdx.x, blockDim.x};
  return t;
}
static __device__ __forceinline__ void rondo_threads_sync(void) { __syncthreads(); }
#else
static inline struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {0, 1};
  return t;
}
static inline void rondo_threads_sync(void) {}
#endif

#endif // RONDO_QUEUES_PLATFORM_THREADS_H
