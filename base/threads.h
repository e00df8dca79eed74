// The thread group that moves the data of a block: one lane on the host; on the device the threads
// of a CUDA block beside the deciding one. One thread decides; only code that moves data knows of a
// group, and its loops are written
//   for (i = t.rank; i < n; i += t.size)
// One of the three headers that may ask which compiler reads it.
#ifndef RONDO_BASE_THREADS_H
#define RONDO_BASE_THREADS_H

#include <stdint.h>

struct rondo_threads {
  uint32_t rank; // of the calling thread in its group
  uint32_t size; // threads of the group
};

#if defined(__CUDACC__)
// The first warp decides, with one lane; the others move.
static __device__ __forceinline__ struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {threadIdx.x - 32, blockDim.x - 32};
  return t;
}
#else
static inline struct rondo_threads rondo_threads_self(void) {
  struct rondo_threads t = {0, 1};
  return t;
}
#endif

#endif // RONDO_BASE_THREADS_H
