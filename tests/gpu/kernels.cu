// The kernels of tests/gpu for a GPU. Bodies that the stand-in for the driver runs too are in
// kernels_core.h.
#include "tests/gpu/kernels_core.h"

RONDO_DRIVER_FN uint64_t gpu_ticks(void) {
  uint64_t ticks;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(ticks)::"memory");
  return ticks;
}

RONDO_DRIVER_FN uint64_t gpu_now_ns(void) {
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

RONDO_DRIVER_FN void cq_fence(void) { __threadfence_system(); }

RONDO_DRIVER_FN void cq_exchange(uint64_t *word, uint64_t value) {
  (void)__nv_atomic_exchange_n(word, value, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
}

RONDO_DRIVER_FN uint64_t gpu_load_volatile(uint64_t address) {
  return *(const volatile uint64_t *)address;
}

RONDO_DRIVER_FN void gpu_fence_sys(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

RONDO_DRIVER_FN void gpu_fence_gpu(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

RONDO_DRIVER_FN void gpu_red_release(uint64_t *word) {
  asm volatile("red.release.sys.global.add.u64 [%0], 1;" ::"l"(__cvta_generic_to_global(word))
               : "memory");
}

// As the daemon's threads meet.
RONDO_DRIVER_FN void gpu_meet(void) {
  asm volatile("barrier.cta.sync 1, %0;" ::"r"(blockDim.x) : "memory");
}

static __device__ uint64_t part(void) { return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; }
static __device__ uint64_t parts(void) { return gridDim.x * (uint64_t)blockDim.x; }

extern "C" {

__global__ void gpu_fill(const __grid_constant__ struct gpu_fill_params p) {
  gpu_fill_body(&p, part(), parts());
}

__global__ void gpu_add(const __grid_constant__ struct gpu_fill_params p) {
  gpu_add_body(&p, part(), parts());
}

__global__ void gpu_touch(const __grid_constant__ struct gpu_fill_params p) {
  gpu_fill_body(&p, part(), parts());
}

__global__ void gpu_fused(const __grid_constant__ struct gpu_fused_params p) {
  gpu_fused_body(&p, part(), parts());
}

__global__ void gpu_cq(const __grid_constant__ struct gpu_cq_params p) {
  if (threadIdx.x == 0)
    gpu_cq_body(&p, blockIdx.x);
}

__global__ void gpu_chain(const __grid_constant__ struct gpu_chain_params p) {
  gpu_chain_body(&p, part(), parts());
}

__global__ void gpu_measure(const __grid_constant__ struct gpu_measure_params p) {
  __shared__ uint32_t is_over;
  gpu_measure_body(&p, blockIdx.x, threadIdx.x == 0, &is_over);
}

__global__ void gpu_copy(const __grid_constant__ struct gpu_copy_params p) {
  gpu_copy_body(&p, blockIdx.x, threadIdx.x, blockDim.x);
}

// A block is told apart by the multiprocessor that it runs on; it asks for so much shared memory
// that no other block fits beside it.
__global__ void gpu_occupy(const __grid_constant__ struct gpu_occupy_params p) {
  uint32_t multiprocessor;
  uint64_t begun_ns = gpu_now_ns();
  asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
  ((uint32_t *)p.where)[blockIdx.x] = multiprocessor;
  while (gpu_now_ns() - begun_ns < p.hold_ns)
    __nanosleep(100);
}

#define K_STEP 16u // columns of a, and rows of b, that are in shared memory
#define EACH 4u    // rows and columns of the result that a thread makes

// c = a × b, a tile of the result a block.
__global__ void __launch_bounds__(GPU_MATMUL_THREADS)
    gpu_matmul(const __grid_constant__ struct gpu_matmul_params p) {
  __shared__ float left[K_STEP][GPU_MATMUL_TILE], right[K_STEP][GPU_MATMUL_TILE];
  const float *a = (const float *)p.a, *b = (const float *)p.b;
  const uint32_t tiles = p.size / GPU_MATMUL_TILE;
  const uint32_t row = blockIdx.x / tiles * GPU_MATMUL_TILE;
  const uint32_t column = blockIdx.x % tiles * GPU_MATMUL_TILE;
  const uint32_t y = threadIdx.x / (GPU_MATMUL_TILE / EACH) * EACH;
  const uint32_t x = threadIdx.x % (GPU_MATMUL_TILE / EACH) * EACH;
  float sum[EACH][EACH] = {};
  for (uint32_t k = 0; k < p.size; k += K_STEP) {
    for (uint32_t i = threadIdx.x; i < K_STEP * GPU_MATMUL_TILE; i += GPU_MATMUL_THREADS) {
      left[i % K_STEP][i / K_STEP] = a[(row + i / K_STEP) * (uint64_t)p.size + k + i % K_STEP];
      right[i / GPU_MATMUL_TILE][i % GPU_MATMUL_TILE] =
          b[(k + i / GPU_MATMUL_TILE) * (uint64_t)p.size + column + i % GPU_MATMUL_TILE];
    }
    __syncthreads();
    RONDO_UNROLL for (uint32_t s = 0; s < K_STEP; s++) {
      RONDO_UNROLL for (uint32_t i = 0; i < EACH; i++) {
        RONDO_UNROLL for (uint32_t j = 0; j < EACH; j++) sum[i][j] +=
            left[s][y + i] * right[s][x + j];
      }
    }
    __syncthreads();
  }
  for (uint32_t i = 0; i < EACH; i++)
    for (uint32_t j = 0; j < EACH; j++)
      ((float *)p.c)[(row + y + i) * (uint64_t)p.size + column + x + j] = sum[i][j];
}
}
