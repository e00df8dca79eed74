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

// Lines of a cycle that a chase follows: each holds the address of the line `step` lines on.
struct gpu_chain_params {
  uint64_t memory;
  uint64_t lines; // of GPU_CHAIN_BYTES, a power of two
  uint64_t step;  // odd
};
#define GPU_CHAIN_BYTES 128u

// What gpu_measure repeats. The first eight are one thread's; HAND_OVER is two blocks'.
enum gpu_quantity {
  GPU_LOAD_VOLATILE = 0, // each load's address is what the one before has loaded
  GPU_LOAD_RELAXED = 1,
  GPU_FENCE_SYS = 2,
  GPU_FENCE_GPU = 3,
  GPU_RED_RELEASE = 4,
  GPU_TIMER_READ = 5,
  GPU_TIMER_STEP = 6,
  GPU_ECHO = 7,        // the host counts up in the first line; the kernel repeats it in the second
  GPU_FIRST_STORE = 8, // stores `count`, once
  GPU_BARRIER = 9,     // of all threads
  GPU_FENCE_BEHIND = 10, // GPU_FENCE_SYS after the other warps have written GPU_BEHIND_BYTES
  GPU_HAND_OVER = 11,    // a number goes there and back between two blocks, by relaxed accesses
  GPU_HAND_OVER_RELEASE = 12
};
#define GPU_BATCH 64u // a clock is read every so many times; `count` is a multiple
#define GPU_BEHIND_BYTES 16384u

struct gpu_measure_params {
  uint64_t memory;      // what is accessed
  uint64_t result;      // struct gpu_measured
  uint64_t patience_ns; // the kernel ends after this
  uint32_t quantity, count;
};

struct gpu_measured {
  uint64_t done, ticks;           // times, and how long they took
  uint64_t at;                    // where a chase has arrived; the least step of the timer, in ns
  uint64_t whole_ticks, whole_ns; // of the kernel by both clocks
};

// Each block copies `bytes`, a multiple of 16, beside those of the block before it.
struct gpu_copy_params {
  uint64_t from, to, bytes;
  uint64_t result; // struct gpu_copied, one a block
  uint64_t patience_ns;
};
#define GPU_COPY_VECTORS 8u // of 16 bytes, loads in flight of a thread

struct gpu_copied {
  uint64_t begun_ns, ended_ns;
};

// The kernels. gpu_fill sets, gpu_add adds, gpu_touch is for a module that is loaded late.
#define GPU_KERNELS(KERNEL)                                                                        \
  KERNEL(gpu_fill, struct gpu_fill_params)                                                         \
  KERNEL(gpu_add, struct gpu_fill_params)                                                          \
  KERNEL(gpu_touch, struct gpu_fill_params)                                                        \
  KERNEL(gpu_fused, struct gpu_fused_params)                                                       \
  KERNEL(gpu_matmul, struct gpu_matmul_params)                                                     \
  KERNEL(gpu_occupy, struct gpu_occupy_params)                                                     \
  KERNEL(gpu_cq, struct gpu_cq_params)                                                             \
  KERNEL(gpu_chain, struct gpu_chain_params)                                                       \
  KERNEL(gpu_measure, struct gpu_measure_params)                                                   \
  KERNEL(gpu_copy, struct gpu_copy_params)

// What the driver provides: two clocks, the finer one in ticks.
RONDO_DRIVER_FN uint64_t gpu_ticks(void);
RONDO_DRIVER_FN uint64_t gpu_now_ns(void);
// And what gpu_measure repeats. gpu_meet is a barrier of all threads of the block.
RONDO_DRIVER_FN uint64_t gpu_load_volatile(uint64_t address);
RONDO_DRIVER_FN void gpu_fence_sys(void);
RONDO_DRIVER_FN void gpu_fence_gpu(void);
RONDO_DRIVER_FN void gpu_red_release(uint64_t *word);
RONDO_DRIVER_FN void gpu_meet(void);

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

// -------------------------------------------------------------------- constants --

RONDO_FN void gpu_chain_body(const struct gpu_chain_params *p, uint64_t part, uint64_t parts) {
  for (uint64_t i = part; i < p->lines; i += parts)
    *(uint64_t *)(uintptr_t)(p->memory + i * GPU_CHAIN_BYTES) =
        p->memory + (i + p->step) % p->lines * GPU_CHAIN_BYTES;
}

// GPU_BATCH times what one thread does alone. Returns where a chase is then.
RONDO_FN uint64_t gpu_batch(const struct gpu_measure_params *p, uint64_t at) {
  switch (p->quantity) {
  case GPU_LOAD_VOLATILE:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      at = gpu_load_volatile(at);
    break;
  case GPU_LOAD_RELAXED:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      at = rondo_load_relaxed_u64((const uint64_t *)(uintptr_t)at);
    break;
  case GPU_FENCE_SYS:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      gpu_fence_sys();
    break;
  case GPU_FENCE_GPU:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      gpu_fence_gpu();
    break;
  case GPU_RED_RELEASE:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      gpu_red_release((uint64_t *)(uintptr_t)p->memory);
    break;
  default:
    for (uint32_t i = 0; i < GPU_BATCH; i++)
      at = gpu_now_ns();
  }
  return at;
}

RONDO_FN void gpu_measure_alone(const struct gpu_measure_params *p, struct gpu_measured *m) {
  const uint64_t begun_ns = gpu_now_ns();
  m->at = p->memory;
  while (m->done < p->count && gpu_now_ns() - begun_ns <= p->patience_ns) {
    const uint64_t since = gpu_ticks();
    m->at = gpu_batch(p, m->at);
    m->ticks += gpu_ticks() - since;
    m->done += GPU_BATCH;
  }
}

// The least difference of two readings of the timer that differ.
RONDO_FN void gpu_measure_step(const struct gpu_measure_params *p, struct gpu_measured *m) {
  const uint64_t begun_ns = gpu_now_ns();
  uint64_t last_ns = begun_ns;
  m->at = UINT64_MAX;
  for (uint32_t reads = 0; m->done < p->count && reads < UINT32_MAX; reads++) {
    const uint64_t now_ns = gpu_now_ns();
    if (now_ns - begun_ns > p->patience_ns)
      return;
    if (now_ns == last_ns)
      continue;
    m->at = now_ns - last_ns < m->at ? now_ns - last_ns : m->at;
    m->done++;
    last_ns = now_ns;
  }
}

// Waits until a word is `value`. 0: it took too long.
RONDO_FN int gpu_await(const struct gpu_measure_params *p, const uint64_t *word, uint64_t value) {
  const int is_relaxed = p->quantity == GPU_HAND_OVER;
  const uint64_t begun_ns = gpu_now_ns();
  for (uint32_t polls = 1; polls < UINT32_MAX; polls++) {
    const uint64_t is = is_relaxed ? rondo_load_relaxed_u64(word) : rondo_load_acquire_u64(word);
    if (is == value)
      return 1;
    if (polls % GPU_BATCH == 0 && gpu_now_ns() - begun_ns > p->patience_ns)
      return 0;
  }
  return 0;
}

RONDO_FN void gpu_tell(const struct gpu_measure_params *p, uint64_t *word, uint64_t value) {
  if (p->quantity == GPU_HAND_OVER)
    rondo_store_relaxed_u64(word, value);
  else
    rondo_store_release_u64(word, value);
}

// Numbers go there in the first line of memory, and back in the second.
RONDO_FN void gpu_measure_exchange(const struct gpu_measure_params *p, struct gpu_measured *m,
                                   int is_first) {
  uint64_t *there = (uint64_t *)(uintptr_t)p->memory;
  uint64_t *back = there + GPU_CHAIN_BYTES / sizeof *there;
  const uint64_t since = gpu_ticks();
  while (m->done < p->count) {
    if (is_first)
      gpu_tell(p, there, m->done + 1);
    if (!gpu_await(p, is_first ? back : there, m->done + 1))
      return;
    if (!is_first)
      gpu_tell(p, back, m->done + 1);
    m->done++;
  }
  m->ticks = gpu_ticks() - since;
}

RONDO_FN void gpu_write_behind(uint64_t memory) {
  const struct rondo_threads t = rondo_threads_self();
  const struct gpu_four four = {1, 2, 3, 4};
  for (uint32_t i = t.rank; t.rank < t.size && i < GPU_BEHIND_BYTES / sizeof four; i += t.size)
    ((struct gpu_four *)(uintptr_t)memory)[i] = four;
}

// One time or batch of what all threads of a block do. Returns its ticks.
RONDO_FN uint64_t gpu_meet_batch(const struct gpu_measure_params *p, int is_leader) {
  const int is_fence = p->quantity == GPU_FENCE_BEHIND;
  if (is_fence)
    gpu_write_behind(p->memory);
  gpu_meet();
  const uint64_t since = gpu_ticks();
  if (is_fence && is_leader)
    gpu_fence_sys();
  for (uint32_t i = 0; i < GPU_BATCH && !is_fence; i++)
    gpu_meet();
  return gpu_ticks() - since;
}

// `is_over`: a word that the threads of the block share.
RONDO_FN void gpu_measure_block(const struct gpu_measure_params *p, struct gpu_measured *m,
                                int is_leader, uint32_t *is_over) {
  const uint64_t begun_ns = gpu_now_ns();
  while (m->done < p->count) {
    m->ticks += gpu_meet_batch(p, is_leader);
    m->done += p->quantity == GPU_FENCE_BEHIND ? 1 : GPU_BATCH;
    if (is_leader)
      *is_over = gpu_now_ns() - begun_ns > p->patience_ns;
    gpu_meet();
    if (*is_over)
      return;
  }
}

RONDO_FN void gpu_measure_body(const struct gpu_measure_params *p, uint32_t block, int is_leader,
                               uint32_t *is_over) {
  struct gpu_measured m = {0, 0, 0, 0, 0};
  const uint64_t begun_ns = gpu_now_ns(), begun = gpu_ticks();
  if (p->quantity == GPU_BARRIER || p->quantity == GPU_FENCE_BEHIND)
    gpu_measure_block(p, &m, is_leader, is_over);
  else if (!is_leader)
    return;
  else if (p->quantity == GPU_FIRST_STORE)
    rondo_store_release_u64((uint64_t *)(uintptr_t)p->memory, p->count);
  else if (p->quantity == GPU_TIMER_STEP)
    gpu_measure_step(p, &m);
  else if (p->quantity == GPU_ECHO || p->quantity >= GPU_HAND_OVER)
    gpu_measure_exchange(p, &m, p->quantity != GPU_ECHO && block == 0);
  else
    gpu_measure_alone(p, &m);
  m.whole_ticks = gpu_ticks() - begun;
  m.whole_ns = gpu_now_ns() - begun_ns;
  if (is_leader && block == 0)
    *(struct gpu_measured *)(uintptr_t)p->result = m;
}

// The vectors of a block: `part` of `parts` copies several at a time, as the daemon's movers do.
RONDO_FN void gpu_copy_vectors(const struct gpu_copy_params *p, uint32_t block, uint64_t part,
                               uint64_t parts) {
  const struct gpu_four *from = (const struct gpu_four *)(uintptr_t)(p->from + block * p->bytes);
  struct gpu_four *to = (struct gpu_four *)(uintptr_t)(p->to + block * p->bytes);
  const uint64_t count = p->bytes / sizeof *from, begun_ns = gpu_now_ns();
  uint64_t i = part;
  for (uint32_t n = 1; i + (GPU_COPY_VECTORS - 1) * parts < count; n++) {
    struct gpu_four v[GPU_COPY_VECTORS];
    RONDO_UNROLL for (uint32_t k = 0; k < GPU_COPY_VECTORS; k++) v[k] = from[i + k * parts];
    RONDO_UNROLL for (uint32_t k = 0; k < GPU_COPY_VECTORS; k++) to[i + k * parts] = v[k];
    i += GPU_COPY_VECTORS * parts;
    if (n % 16 == 0 && gpu_now_ns() - begun_ns > p->patience_ns)
      return;
  }
  for (; i < count; i += parts)
    to[i] = from[i];
}

RONDO_FN void gpu_copy_body(const struct gpu_copy_params *p, uint32_t block, uint64_t part,
                            uint64_t parts) {
  struct gpu_copied c = {gpu_now_ns(), 0};
  gpu_copy_vectors(p, block, part, parts);
  gpu_meet();
  c.ended_ns = gpu_now_ns();
  if (part == 0)
    ((struct gpu_copied *)(uintptr_t)p->result)[block] = c;
}

#if !defined(__cplusplus)
// Gives the driver that is `library` the kernels if it is the stand-in. Returns 1 if it is.
int gpu_stand_in_kernels(void *library);
#endif

#endif // RONDO_TESTS_GPU_KERNELS_CORE_H
