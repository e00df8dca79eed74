// The daemon kernel: a CUDA block is one launch of one daemon block.
//
// The first warp decides: its first lane runs the shared source of daemon/core, its other lanes
// return at once. So do those of the last warp, whose first lane keeps the mirror while the block
// is resident (daemon/core/mirror_core.h). The other warps move data: they wait at a hardware
// barrier until the deciding thread has put a command into shared memory, carry it out together,
// and wait at the barrier again. Every step of the deciding thread is bounded, and the last command
// ends the movers.
#include "daemon/cuda/cuda_launch_core.h"

#include "daemon/cuda/cuda_move_core.h"

#if defined(RONDO_TIMING)
#define KERNEL rondo_cuda_daemon_timed // the same, with times
#else
#define KERNEL rondo_cuda_daemon
#endif
#define WARP 32u
#define COMMAND_BARRIER 1
#define MIRROR_BARRIER 2
#define PACKETS_BARRIER 3
#define PACKETS_LOOKS 8u // of a mover, for a command

// ------------------------------------------------------------ what movers need ---

// The buffers of a command are in global memory. Plain loads see what the deciding thread acquired
// before the barrier.
RONDO_FN struct rondo_vector rondo_vector_load(uint64_t address) {
  const uint4 *at = (const uint4 *)__cvta_generic_to_global((const void *)address);
  struct rondo_vector v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(at)
               : "memory");
  return v;
}

RONDO_FN void rondo_vector_store(uint64_t address, struct rondo_vector v) {
  uint4 *at = (uint4 *)__cvta_generic_to_global((const void *)address);
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

// A volatile access is relaxed, of system scope, and each half is one access of 8 bytes.
RONDO_FN struct rondo_packet rondo_packet_load(uint64_t address) {
  struct rondo_packet p;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(p.half[0]), "=l"(p.half[1])
               : "l"(__cvta_generic_to_global((const void *)address))
               : "memory");
  return p;
}

RONDO_FN void rondo_packet_store(uint64_t address, struct rondo_packet p) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(
                   __cvta_generic_to_global((const void *)address)),
               "l"(p.half[0]), "l"(p.half[1])
               : "memory");
}

// These instructions follow the rules of convert_core.h: exact one way, to nearest even the other,
// and a NaN becomes 0x7fff.
RONDO_FN float rondo_mover_widen_float16(uint16_t code) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
  return value;
}

RONDO_FN uint16_t rondo_mover_narrow_float16(float value) {
  uint16_t code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
}

RONDO_FN uint16_t rondo_mover_narrow_bfloat16(float value) {
  uint16_t code;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return code;
}

// ------------------------------------------------------------------ contexts ---

// The deciding thread moves contexts alone. All its loads are in flight before the first store, so
// a context takes the time of one access. Movers would have no more loads in flight, and would cost
// two barriers. Contexts are in global memory, active slots in shared memory.
#define STATIC_VECTORS ((uint32_t)offsetof(struct rondo_task_context, state) / RONDO_VECTOR_BYTES)
#define CONTEXT_VECTORS ((uint32_t)offsetof(struct rondo_task_context, line) / RONDO_VECTOR_BYTES)

static __device__ __forceinline__ struct rondo_vector shared_load(uint32_t address) {
  struct rondo_vector v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(address)
               : "memory");
  return v;
}

static __device__ __forceinline__ void shared_store(uint32_t address, struct rondo_vector v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

RONDO_DRIVER_FN void rondo_context_load(struct rondo_task_context *slot,
                                        const struct rondo_task_context *buffer) {
  const uint32_t to = (uint32_t)__cvta_generic_to_shared(slot);
  struct rondo_vector v[CONTEXT_VECTORS];
  RONDO_UNROLL for (uint32_t i = 0; i < CONTEXT_VECTORS; i++) {
    v[i] = rondo_vector_load((uint64_t)buffer + i * RONDO_VECTOR_BYTES);
  }
  RONDO_UNROLL for (uint32_t i = 0; i < CONTEXT_VECTORS; i++) {
    shared_store(to + i * RONDO_VECTOR_BYTES, v[i]);
  }
}

RONDO_DRIVER_FN void rondo_context_save(struct rondo_task_context *buffer,
                                        const struct rondo_task_context *slot) {
  const uint32_t from = (uint32_t)__cvta_generic_to_shared(slot);
  struct rondo_vector v[CONTEXT_VECTORS];
  RONDO_UNROLL for (uint32_t i = STATIC_VECTORS; i < CONTEXT_VECTORS; i++) {
    v[i] = shared_load(from + i * RONDO_VECTOR_BYTES);
  }
  RONDO_UNROLL for (uint32_t i = STATIC_VECTORS; i < CONTEXT_VECTORS; i++) {
    rondo_vector_store((uint64_t)buffer + i * RONDO_VECTOR_BYTES, v[i]);
  }
}

// ------------------------------------------------------------------ commands ---

static __shared__ struct rondo_mover_command command;

// A barrier of the deciding thread and all movers. Not aligned: only one lane of the first warp is
// left.
static __device__ __forceinline__ void movers_meet(void) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(COMMAND_BARRIER), "r"(blockDim.x - WARP)
               : "memory");
}

// Lets the movers carry out a command. The barriers order it with the deciding thread's accesses
// before and after.
static __device__ __forceinline__ void movers_run_command(void) {
  movers_meet();
  movers_meet();
}

static __device__ __forceinline__ void movers_copy(uint64_t dst, const void *src, uint64_t bytes,
                                                   uint32_t kind) {
  command = rondo_mover_command_copy((const void *)dst, src, bytes);
  command.kind = kind;
  movers_run_command();
}

RONDO_DRIVER_FN void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes) {
  uint32_t kind = __isShared(dst) || __isShared(src) ? RONDO_MOVER_STATE : RONDO_MOVER_COPY;
  if (bytes == 0)
    return;
  if (dst != src) {
    command = rondo_mover_command_copy(dst, src, bytes);
    command.kind = kind;
    if (rondo_mover_is_congruent((uint64_t)dst, (uint64_t)second)) {
      command.second = (uint64_t)second;
      second = NULL;
    }
    movers_run_command();
  }
  if (second)
    movers_copy((uint64_t)second, dst, bytes, kind);
}

RONDO_DRIVER_FN void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes) {
  rondo_move_copy(dst, NULL, src, bytes);
}

// One pass writes both destinations if they have the same alignment.
static __device__ __forceinline__ void movers_reduce(struct rondo_mover_command m, void *second) {
  int together = rondo_mover_is_congruent(m.dst, (uint64_t)second);
  command = m;
  if (together)
    command.second = (uint64_t)second;
  movers_run_command();
  if (second && !together)
    movers_copy((uint64_t)second, (const void *)m.dst, m.count * rondo_element_bytes(m.op.dtype),
                RONDO_MOVER_COPY);
}

RONDO_DRIVER_FN void rondo_move_reduce(const struct rondo_reduction *r, void *dst, void *second,
                                       const void *local, const void *incoming, uint64_t count,
                                       int final) {
  if (count)
    movers_reduce(rondo_mover_command_reduce(r, dst, local, incoming, count, final), second);
}

RONDO_DRIVER_FN void rondo_move_scale(const struct rondo_reduction *r, void *dst, void *second,
                                      const void *local, uint64_t count, int final) {
  if (!r->scale && !(final && r->divide))
    rondo_move_copy(dst, second, local, count * rondo_element_bytes(r->dtype));
  else if (count)
    movers_reduce(rondo_mover_command_reduce(r, dst, local, NULL, count, final), second);
}

RONDO_DRIVER_FN void rondo_move_quantise(const struct rondo_reduction *r, int quantisation,
                                         void *packed, void *dst, const void *local,
                                         const void *incoming, uint64_t count) {
  if (count) {
    command = rondo_mover_command_quantise(r, quantisation, packed, dst, local, incoming, count);
    movers_run_command();
  }
}

RONDO_DRIVER_FN void rondo_move_dequantise(int quantisation, void *dst, const void *packed,
                                           uint64_t count) {
  if (count) {
    command = rondo_mover_command_dequantise(quantisation, dst, packed, count);
    movers_run_command();
  }
}

static __shared__ uint32_t packets_missing; // 1: a mover has not found all packets of its part

RONDO_DRIVER_FN void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to,
                                     const void *local, uint64_t count) {
  command = rondo_mover_command_pack(r, to, local, count);
  movers_run_command();
}

RONDO_DRIVER_FN bool rondo_move_unpack(const struct rondo_reduction *r, void *dst,
                                       struct rondo_packets from, const void *local, uint64_t count,
                                       int final) {
  command = rondo_mover_command_unpack(r, dst, from, local, count, final);
  rondo_store_relaxed_u32(&packets_missing, 0);
  movers_run_command();
  return !rondo_load_relaxed_u32(&packets_missing);
}

// Looks at the packets of the command. Returns true if all movers have found theirs: no mover takes
// any before, because the command is repeated as a whole if some have not come.
static __device__ __forceinline__ bool movers_look(const struct rondo_mover_command *m) {
  if (!rondo_mover_look(rondo_threads_self(), m, PACKETS_LOOKS))
    rondo_store_relaxed_u32(&packets_missing, 1);
  else if (RONDO_FAULT(PACKETS_EARLY))
    return true;
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(PACKETS_BARRIER), "r"(blockDim.x - 2 * WARP)
               : "memory");
  return !rondo_load_relaxed_u32(&packets_missing);
}

static __device__ __forceinline__ void mover_loop(void) {
  movers_meet(); // barrier: first command
  while (command.kind != RONDO_MOVER_END) {
    const struct rondo_mover_command m = command;        // in registers: stores may not change it
    if (m.kind != RONDO_MOVER_UNPACK || movers_look(&m)) // barrier: all have looked
      rondo_mover_run(rondo_threads_self(), &m);
    movers_meet(); // barrier: carried out
    movers_meet(); // barrier: next command
  }
}

// ------------------------------------------------------------------- the mirror ---

static __shared__ uint32_t mirror_stop; // 1: the block leaves
static __shared__ uint32_t mirror_over; // 1: the launch ends

// A barrier of the deciding thread and the one that keeps the mirror.
static __device__ __forceinline__ void mirror_meet(void) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(MIRROR_BARRIER), "n"(2 * WARP) : "memory");
}

RONDO_DRIVER_FN void rondo_cuda_launch_mirror_begin(void) {
  mirror_over = 0;
  rondo_store_relaxed_u32(&mirror_stop, 0);
  mirror_meet();
}

RONDO_DRIVER_FN void rondo_cuda_launch_mirror_turn(const struct rondo_cuda_launch *l) {}

// The other thread ends its step, which is bounded.
RONDO_DRIVER_FN void rondo_cuda_launch_mirror_end(void) {
  rondo_store_relaxed_u32(&mirror_stop, 1);
  mirror_meet();
}

static __device__ __forceinline__ void mirror_loop(const struct rondo_cuda_launch *l) {
  mirror_meet(); // barrier: first residency
  while (!mirror_over) {
    rondo_cuda_launch_mirror(l, &mirror_stop);
    mirror_meet(); // barrier: residency over
    mirror_meet(); // barrier: next residency
  }
}

// ---------------------------------------------------------------------- launch ---

RONDO_DRIVER_FN uint64_t rondo_cuda_launch_now_ns(void) {
  uint64_t now_ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now_ns));
  return now_ns;
}

RONDO_DRIVER_FN void rondo_cuda_launch_pause(uint32_t ns) { __nanosleep(ns); }

#if defined(RONDO_TIMING)
static __shared__ struct rondo_timing timing;

// Cycles of the multiprocessor: the clock in nanoseconds moves in steps longer than some parts.
RONDO_DRIVER_FN uint64_t rondo_timing_ticks(void) {
  uint64_t ticks;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(ticks)::"memory");
  return ticks;
}

RONDO_DRIVER_FN struct rondo_timing *rondo_timing_self(void) { return &timing; }
#endif

extern "C" __global__ void __launch_bounds__(RONDO_CUDA_MAX_THREADS, 1)
    KERNEL(const __grid_constant__ struct rondo_cuda_launch launch) {
  extern __shared__ struct rondo_cuda_fast fast[];
  if (threadIdx.x >= WARP && threadIdx.x < blockDim.x - WARP) {
    mover_loop();
    return;
  }
  if (threadIdx.x == blockDim.x - WARP)
    mirror_loop(&launch);
  if (threadIdx.x != 0) // lane 0 decides
    return;
  (void)rondo_cuda_launch_try_block(&launch, blockIdx.x, fast);
  command.kind = RONDO_MOVER_END;
  movers_meet(); // barrier: last command
  mirror_over = 1;
  mirror_meet(); // barrier: last residency
}
