// The daemon kernel: a CUDA block is one launch of one daemon block.
//
// The first warp decides: its first lane runs the shared source of daemon/core, its other lanes
// return at once. So do those of the last warp, whose first lane keeps the mirror while the block
// is resident (daemon/core/mirror_core.h). The other warps move data: they wait at a hardware
// barrier until the deciding thread has put a command into shared memory, carry it out together,
// and wait at the barrier again. There are two places for commands in turn, so one barrier between
// two commands says both that the first has been carried out and that the second is there. Every
// step of the deciding thread is bounded, and the last command ends the movers.
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

RONDO_FN uint64_t rondo_vector_place(uint64_t address) {
  return __cvta_generic_to_global((const void *)address);
}

// The offset of a vector is part of the instruction.
#define TILE_LOAD(offset)                                                                          \
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4+" #offset "];"                              \
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])                \
               : "l"(place)                                                                        \
               : "memory")
#define TILE_STORE(offset)                                                                         \
  asm volatile("st.global.v4.u32 [%0+" #offset "], {%1, %2, %3, %4};" ::"l"(place),                \
               "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])                      \
               : "memory")
#define TILE_CASE(number, offset, ACCESS)                                                          \
  case number:                                                                                     \
    ACCESS(offset);                                                                                \
    break
#define TILE_SWITCH(ACCESS)                                                                        \
  do {                                                                                             \
    switch (index) {                                                                               \
      TILE_CASE(0, 0, ACCESS);                                                                     \
      TILE_CASE(1, 512, ACCESS);                                                                   \
      TILE_CASE(2, 1024, ACCESS);                                                                  \
      TILE_CASE(3, 1536, ACCESS);                                                                  \
      TILE_CASE(4, 2048, ACCESS);                                                                  \
      TILE_CASE(5, 2560, ACCESS);                                                                  \
      TILE_CASE(6, 3072, ACCESS);                                                                  \
    default:                                                                                       \
      ACCESS(3584);                                                                                \
    }                                                                                              \
  } while (0)
static_assert(RONDO_TILE_STRIDE == 512 && RONDO_TILE_VECTORS == 8, "the cases of TILE_SWITCH");

RONDO_FN struct rondo_vector rondo_tile_load(uint64_t place, uint32_t index) {
  struct rondo_vector v;
  TILE_SWITCH(TILE_LOAD);
  return v;
}

RONDO_FN void rondo_tile_store(uint64_t place, uint32_t index, struct rondo_vector v) {
  TILE_SWITCH(TILE_STORE);
}

// A volatile access is relaxed, of system scope, and each half is one access of 8 bytes.
RONDO_FN struct rondo_packet rondo_packet_load(uint64_t place) {
  struct rondo_packet p;
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(p.half[0]), "=l"(p.half[1])
               : "l"(place)
               : "memory");
  return p;
}

RONDO_FN void rondo_packet_store(uint64_t place, struct rondo_packet p) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(place), "l"(p.half[0]),
               "l"(p.half[1])
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

// The registers hold codes: a sum of floats would be moved to registers of another kind and back.
RONDO_FN uint32_t rondo_mover_add_float32(uint32_t n, uint32_t l) {
  uint32_t sum;
  asm("add.rn.f32 %0, %1, %2;" : "=r"(sum) : "r"(n), "r"(l));
  return sum;
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

// Command i is in place i % 2. The deciding thread writes command i + 2 there after the barrier of
// command i + 1, and a mover comes to that barrier when it has carried out command i.
static __shared__ struct rondo_mover_command commands[2];
static __shared__ uint32_t packets_missing[2]; // 1: a mover has not found all packets of its part
// Of the deciding thread: the place of the next command; 1: the last one may not be carried out.
static __shared__ uint32_t command_place, command_is_out;

// A barrier of the deciding thread and all movers. Not aligned: only one lane of the first warp is
// left.
static __device__ __forceinline__ void movers_meet(void) {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(COMMAND_BARRIER), "r"(blockDim.x - WARP)
               : "memory");
}

// Lets the movers carry out a command, when they have carried out the one before. Returns its
// place. The barrier orders the command after the deciding thread's accesses before, and after what
// the movers did for the command before.
static __device__ __forceinline__ uint32_t
movers_begin_command(const struct rondo_mover_command *m) {
  const uint32_t place = command_place;
  commands[place] = *m;
  packets_missing[place] = 0;
  movers_meet();
  command_place = place ^ 1;
  command_is_out = 1;
  return place;
}

RONDO_DRIVER_FN void rondo_move_finish(void) {
  if (command_is_out) {
    commands[command_place].kind = RONDO_MOVER_NONE;
    movers_meet(); // barrier: all is carried out
    command_place ^= 1;
    command_is_out = 0;
  }
}

static __device__ __forceinline__ void movers_run_command(const struct rondo_mover_command *m) {
  (void)movers_begin_command(m);
  rondo_move_finish();
}

static __device__ __forceinline__ void movers_copy(uint64_t dst, const void *src, uint64_t bytes,
                                                   uint32_t kind) {
  struct rondo_mover_command m = rondo_mover_command_copy((const void *)dst, src, bytes);
  m.kind = kind;
  movers_run_command(&m);
}

RONDO_DRIVER_FN void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes) {
  uint32_t kind = __isShared(dst) || __isShared(src) ? RONDO_MOVER_STATE : RONDO_MOVER_COPY;
  if (bytes == 0)
    return;
  if (dst != src) {
    struct rondo_mover_command m = rondo_mover_command_copy(dst, src, bytes);
    m.kind = kind;
    if (rondo_mover_is_congruent((uint64_t)dst, (uint64_t)second)) {
      m.second = (uint64_t)second;
      second = NULL;
    }
    movers_run_command(&m);
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
  if (together)
    m.second = (uint64_t)second;
  movers_run_command(&m);
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
  const struct rondo_mover_command m =
      rondo_mover_command_quantise(r, quantisation, packed, dst, local, incoming, count);
  if (count)
    movers_run_command(&m);
}

RONDO_DRIVER_FN void rondo_move_dequantise(int quantisation, void *dst, const void *packed,
                                           uint64_t count) {
  const struct rondo_mover_command m =
      rondo_mover_command_dequantise(quantisation, dst, packed, count);
  if (count)
    movers_run_command(&m);
}

RONDO_DRIVER_FN void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to,
                                     const void *local, uint64_t count) {
  const struct rondo_mover_command m = rondo_mover_command_pack(r, to, local, count);
  (void)movers_begin_command(&m);
}

RONDO_DRIVER_FN bool rondo_move_unpack(const struct rondo_reduction *r, void *dst,
                                       struct rondo_packets from, const void *local, uint64_t count,
                                       int final) {
  const struct rondo_mover_command m =
      rondo_mover_command_unpack(r, dst, from, local, count, final);
  const uint32_t place = movers_begin_command(&m);
  movers_meet(); // barrier: it is known what they saw
  return !rondo_load_relaxed_u32(&packets_missing[place]);
}

// Looks at the packets of the command in `place`. Returns true if all movers have found theirs: no
// mover takes any before, because the command is repeated as a whole if some have not come.
static __device__ __forceinline__ bool movers_look(const struct rondo_mover_command *m,
                                                   uint32_t place) {
  if (!RONDO_FAULT(PACKETS_EARLY) && !rondo_mover_look(rondo_threads_self(), m, PACKETS_LOOKS))
    rondo_store_relaxed_u32(&packets_missing[place], 1);
  movers_meet(); // barrier: all have looked
  return !rondo_load_relaxed_u32(&packets_missing[place]);
}

static __device__ __forceinline__ void mover_loop(void) {
  for (uint32_t place = 0;; place ^= 1) {
    movers_meet(); // barrier: next command
    const uint32_t kind = commands[place].kind;
    if (kind == RONDO_MOVER_NONE)
      continue;
    if (kind == RONDO_MOVER_END)
      return;
    const struct rondo_mover_command m = commands[place]; // in registers: stores may not change it
    if (m.kind != RONDO_MOVER_UNPACK || movers_look(&m, place))
      rondo_mover_run(rondo_threads_self(), &m);
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
  command_place = command_is_out = 0;
  (void)rondo_cuda_launch_try_block(&launch, blockIdx.x, fast);
  commands[command_place].kind = RONDO_MOVER_END;
  movers_meet(); // barrier: last command
  mirror_over = 1;
  mirror_meet(); // barrier: last residency
}
