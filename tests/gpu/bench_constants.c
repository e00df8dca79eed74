// What one device and its links are made of: latencies of loads, fences, flags and launches, and
// bandwidths of few blocks. The constants of gpu-model are among the figures, beside their
// published values. Takes seconds: kernels end, and the program fails, when the time is over.
#include <stdlib.h>
#include <string.h>

#include "benchmarks/gpu/gpu_constants.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels_core.h"

#define ROUNDS 5
#define MOST_US 10e6           // of the part
#define MOST_SLOW_US 150e6     // where it is executed by a host
#define NEAR_BYTES (64u << 10) // stay in the L2 cache
#define HOST_BYTES (8u << 20)
#define PAIR_BYTES (2 * GPU_CHAIN_BYTES)
#define MOST_BLOCKS 32
#define DAEMON_THREADS 320 // of a block, as the daemon has by default
#define REPEATS 16384      // so that a step of globaltimer is little of them
#define EXCHANGES 1024

struct bench {
  uint64_t own, other; // device memory, beyond what the L2 cache holds
  uint64_t bytes;      // of each
  uint64_t place;      // of the next copy
  void *host;          // page-locked
  struct gpu_measured *measured;
  struct gpu_copied *copied;
  double end_us;
  uint32_t printed; // constants, a bit each
};

static void print(struct bench *b, const char *name, double value, const char *unit) {
  CHECK(value > 0);
  for (uint32_t c = 0; c < GPU_CONSTANTS; c++)
    if (strcmp(name, gpu_constants[c].name) == 0) {
      CHECK(strcmp(unit, gpu_constants[c].unit) == 0);
      b->printed |= 1u << c;
      print_modelled(name, value, unit, gpu_constants[c].published);
      return;
    }
  print_figure(name, value, unit);
}

static uint64_t left_ns(const struct bench *b) {
  const double left_us = b->end_us - gpu_now_us();
  return left_us > 0 ? (uint64_t)(left_us * 1e3) : 0;
}

// ------------------------------------------------------------------ one quantity --

// Runs a kernel to its end. Returns the time of one repetition.
static double repeat_us(const struct bench *b, const struct gpu_measure_params *params,
                        uint32_t blocks, uint32_t threads) {
  struct gpu_measure_params p = *params;
  const volatile struct gpu_measured *m = b->measured;
  p.result = (uint64_t)(uintptr_t)b->measured;
  p.patience_ns = left_ns(b);
  memset(b->measured, 0, sizeof *b->measured);
  gpu_launch(gpu_kernel("gpu_measure"), blocks, threads, NULL, &p);
  CUDA(cuStreamSynchronize(NULL));
  CHECK(m->done == p.count);
  const double ns_a_tick = (double)m->whole_ns / (double)m->whole_ticks;
  return (double)m->ticks * ns_a_tick / (double)m->done / 1e3;
}

// What a round has added or written is there.
static void effect_verify(const struct gpu_measure_params *p) {
  uint64_t sum;
  float last;
  CUDA(cuMemcpyDtoH(&sum, p->memory, sizeof sum));
  CUDA(cuMemcpyDtoH(&last, p->memory + GPU_BEHIND_BYTES - sizeof last, sizeof last));
  CHECK(p->quantity != GPU_RED_RELEASE || sum == p->count);
  CHECK(p->quantity != GPU_FENCE_BEHIND || last == 4);
}

static void repeated_print(struct bench *b, const char *name, const struct gpu_measure_params *p,
                           uint32_t blocks, uint32_t threads) {
  double us[ROUNDS];
  const int rounds = gpu_load(ROUNDS, 1);
  for (int i = 0; i < rounds; i++) {
    CUDA(cuMemsetD8(p->memory, 0, GPU_BEHIND_BYTES));
    us[i] = repeat_us(b, p, blocks, threads);
    effect_verify(p);
  }
  // A number that went there and back was handed over twice.
  const int hand_overs = p->quantity >= GPU_HAND_OVER ? 2 : 1;
  print(b, name, quantile(us, rounds, 0.5) / hand_overs, "us");
}

// ------------------------------------------------------------------------- loads --

// A cycle through all lines of `memory` whose neighbours lie far apart.
static struct gpu_chain_params chain_make(uint64_t memory, uint64_t bytes) {
  const uint64_t lines = bytes / GPU_CHAIN_BYTES;
  const struct gpu_chain_params chain = {memory, lines, (lines * 618 / 1000) | 1};
  gpu_launch(gpu_kernel("gpu_chain"), 64, 256, NULL, &chain);
  CUDA(cuStreamSynchronize(NULL));
  return chain;
}

// Each round goes on where the one before has ended.
static void loads_print(struct bench *b, const char *name, const struct gpu_chain_params *chain,
                        uint32_t quantity) {
  double us[ROUNDS];
  const int rounds = gpu_load(ROUNDS, 1);
  struct gpu_measure_params p = {
      .memory = chain->memory, .quantity = quantity, .count = (uint32_t)gpu_load(4096, GPU_BATCH)};
  for (int i = 0; i < rounds; i++) {
    const uint64_t line = (p.memory - chain->memory) / GPU_CHAIN_BYTES;
    us[i] = repeat_us(b, &p, 1, 32);
    p.memory = b->measured->at;
    CHECK(p.memory ==
          chain->memory + (line + p.count * chain->step) % chain->lines * GPU_CHAIN_BYTES);
  }
  print(b, name, quantile(us, rounds, 0.5), "us");
}

static void loads_measure(struct bench *b) {
  const struct gpu_chain_params near = chain_make(b->other, NEAR_BYTES);
  loads_print(b, "load, own memory in L2, volatile", &near, GPU_LOAD_VOLATILE);
  loads_print(b, "load, own memory in L2, relaxed.sys", &near, GPU_LOAD_RELAXED);
  const struct gpu_chain_params far = chain_make(b->own, b->bytes);
  CUDA(cuMemsetD8(b->other, 0, b->bytes)); // takes the cycle's place in L2
  CUDA(cuCtxSynchronize());
  loads_print(b, "load, own memory beyond L2", &far, GPU_LOAD_RELAXED);
  const struct gpu_chain_params host =
      chain_make((uint64_t)(uintptr_t)b->host, (uint64_t)gpu_load(HOST_BYTES, NEAR_BYTES));
  loads_print(b, "load, memory of the host", &host, GPU_LOAD_RELAXED);
}

// ------------------------------------------------------- fences, flags and clocks --

static void orders_measure(struct bench *b) {
  static const struct {
    const char *name;
    uint32_t quantity, blocks, threads;
  } rows[] = {
      {"fence.acq_rel.sys, idle", GPU_FENCE_SYS, 1, 32},
      {"fence.acq_rel.sys, after 16 KiB", GPU_FENCE_BEHIND, 1, DAEMON_THREADS},
      {"fence.acq_rel.gpu, idle", GPU_FENCE_GPU, 1, 32},
      {"red.release.sys, own memory", GPU_RED_RELEASE, 1, 32},
      {"flag to another block, relaxed", GPU_HAND_OVER, 2, 32},
      {"flag to another block, release and acquire", GPU_HAND_OVER_RELEASE, 2, 32},
      {"barrier of 288 threads", GPU_BARRIER, 1, 288},
      {"globaltimer, a read", GPU_TIMER_READ, 1, 32},
  };
  struct gpu_measure_params p = {.memory = b->other,
                                 .count = (uint32_t)gpu_load(REPEATS, GPU_BATCH)};
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    p.quantity = rows[n].quantity;
    repeated_print(b, rows[n].name, &p, rows[n].blocks, rows[n].threads);
  }
  p.quantity = GPU_TIMER_STEP;
  (void)repeat_us(b, &p, 1, 32);
  print(b, "globaltimer, least step", (double)b->measured->at / 1e3, "us");
}

// ------------------------------------------------------------------ with the host --

static void word_await(const struct bench *b, const uint64_t *word, uint64_t value) {
  while (rondo_load_acquire_u64(word) != value) {
    CHECK(gpu_now_us() < b->end_us);
    rondo_relax();
  }
}

// The first exchange waits for the launch.
static void echo_measure(struct bench *b) {
  static double us[EXCHANGES];
  const int count = gpu_load(EXCHANGES, GPU_BATCH);
  uint64_t *there = b->host, *back = there + GPU_CHAIN_BYTES / sizeof *there;
  const struct gpu_measure_params p = {.memory = (uint64_t)(uintptr_t)b->host,
                                       .result = (uint64_t)(uintptr_t)b->measured,
                                       .patience_ns = left_ns(b),
                                       .quantity = GPU_ECHO,
                                       .count = (uint32_t)count};
  memset(b->host, 0, PAIR_BYTES);
  gpu_launch(gpu_kernel("gpu_measure"), 1, 32, NULL, &p);
  for (int i = 0; i < count; i++) {
    const double begin = gpu_now_us();
    rondo_store_release_u64(there, (uint64_t)i + 1);
    word_await(b, back, (uint64_t)i + 1);
    us[i] = gpu_now_us() - begin;
  }
  CUDA(cuStreamSynchronize(NULL));
  print(b, "host to a polling kernel and back", quantile(us + 1, count - 1, 0.5), "us");
}

static void launch_measure(struct bench *b) {
  static double us[EXCHANGES];
  const int count = gpu_load(200, 4);
  CUfunction kernel = gpu_kernel("gpu_measure");
  struct gpu_measure_params p = {.memory = (uint64_t)(uintptr_t)b->host,
                                 .result = (uint64_t)(uintptr_t)b->measured,
                                 .quantity = GPU_FIRST_STORE};
  memset(b->host, 0, PAIR_BYTES);
  for (int i = 0; i < count; i++) {
    p.count = (uint32_t)i + 1;
    const double begin = gpu_now_us();
    gpu_launch(kernel, 1, 32, NULL, &p);
    word_await(b, b->host, p.count);
    us[i] = gpu_now_us() - begin;
    CUDA(cuStreamSynchronize(NULL));
  }
  print(b, "launch, until the host sees its first store", quantile(us, count, 0.5), "us");
}

// ------------------------------------------------------------------------- copies --

// What the last block has written last is what it has read.
static void copy_verify(uint64_t from, uint64_t to, uint64_t bytes) {
  uint64_t read[GPU_CHAIN_BYTES], written[GPU_CHAIN_BYTES];
  CUDA(cuMemcpyDtoH(read, from + bytes - sizeof read, sizeof read));
  CUDA(cuMemcpyDtoH(written, to + bytes - sizeof written, sizeof written));
  CHECK(memcmp(read, written, sizeof read) == 0);
}

static double copy_gbs(const struct bench *b, const struct gpu_copy_params *p, uint32_t blocks,
                       uint32_t threads) {
  const volatile struct gpu_copied *c = b->copied;
  gpu_launch(gpu_kernel("gpu_copy"), blocks, threads, NULL, p);
  CUDA(cuStreamSynchronize(NULL));
  uint64_t begun_ns = c[0].begun_ns, ended_ns = c[0].ended_ns;
  for (uint32_t i = 1; i < blocks; i++) {
    begun_ns = c[i].begun_ns < begun_ns ? c[i].begun_ns : begun_ns;
    ended_ns = c[i].ended_ns > ended_ns ? c[i].ended_ns : ended_ns;
  }
  copy_verify(p->from, p->to, blocks * p->bytes);
  return (double)(blocks * p->bytes) / (double)(ended_ns - begun_ns);
}

// Copies from one place after the other, so that the L2 cache has none. A source of the host's
// memory has room for one block.
static void copies_print(struct bench *b, const char *name, uint64_t from, uint64_t to,
                         uint32_t blocks, uint32_t threads) {
  double gbs[ROUNDS];
  const int rounds = gpu_load(ROUNDS, 1);
  struct gpu_copy_params p = {.bytes = b->bytes / MOST_BLOCKS,
                              .result = (uint64_t)(uintptr_t)b->copied};
  for (int i = 0; i < rounds; i++) {
    if (b->place + blocks * p.bytes > b->bytes)
      b->place = 0;
    p.from = from == b->own ? from + b->place : from;
    p.to = to + b->place;
    b->place += blocks * p.bytes;
    p.patience_ns = left_ns(b);
    gbs[i] = copy_gbs(b, &p, blocks, threads);
  }
  print(b, name, quantile(gbs, rounds, 0.5), "GB/s");
}

static void copies_measure(struct bench *b) {
  static const struct {
    uint32_t blocks, threads;
  } rows[] = {{1, DAEMON_THREADS}, {1, 512}, {4, 512}, {16, 512}, {MOST_BLOCKS, 512}};
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    char name[64];
    snprintf(name, sizeof name, "copy, %u block%s of %u threads", rows[n].blocks,
             rows[n].blocks == 1 ? "" : "s", rows[n].threads);
    copies_print(b, name, b->own, b->other, rows[n].blocks, rows[n].threads);
  }
  copies_print(b, "copy from the host, 1 block of 512 threads", (uint64_t)(uintptr_t)b->host,
               b->other, 1, 512);
}

// -------------------------------------------------------------------------- peers --

// Device 0 reads and writes memory of device 1.
static void peer_measure(struct bench *b) {
  gpu_use(1);
  const uint64_t peer = gpu_memory(b->bytes);
  const struct gpu_chain_params chain = chain_make(peer, NEAR_BYTES);
  gpu_use(0);
  loads_print(b, "load, memory of a peer", &chain, GPU_LOAD_RELAXED);
  const struct gpu_measure_params p = {.memory = peer,
                                       .quantity = GPU_FENCE_BEHIND,
                                       .count = (uint32_t)gpu_load(REPEATS, GPU_BATCH)};
  repeated_print(b, "fence.acq_rel.sys, after 16 KiB to a peer", &p, 1, DAEMON_THREADS);
  copies_print(b, "copy to a peer, 1 block of 512 threads", b->own, peer, 1, 512);
  copies_print(b, "copy to a peer, 32 blocks of 512 threads", b->own, peer, MOST_BLOCKS, 512);
  gpu_release(peer);
}

static void bench_open(struct bench *b) {
  b->end_us = gpu_now_us() + gpu_load((int)MOST_US, (int)MOST_SLOW_US);
  b->bytes = (uint64_t)gpu_load(256 << 20, 1 << 20);
  b->own = gpu_memory(b->bytes);
  b->other = gpu_memory(b->bytes);
  b->host = gpu_pinned(HOST_BYTES);
  b->measured = gpu_pinned(sizeof *b->measured);
  b->copied = gpu_pinned(MOST_BLOCKS * sizeof *b->copied);
}

static void bench_close(struct bench *b) {
  gpu_release(b->own);
  gpu_release(b->other);
  CUDA(cuMemFreeHost(b->host));
  CUDA(cuMemFreeHost(b->measured));
  CUDA(cuMemFreeHost(b->copied));
}

void bench_constants(void) {
  struct bench b = {0};
  const int has_peer = gpu_reach(1);
  bench_open(&b);
  loads_measure(&b);
  copies_measure(&b);
  orders_measure(&b);
  echo_measure(&b);
  launch_measure(&b);
  if (has_peer)
    peer_measure(&b);
  for (uint32_t c = 0; c < GPU_CONSTANTS; c++)
    if (!(b.printed & 1u << c)) {
      CHECK(!has_peer && (c == GPU_PEER || c == GPU_RING));
      fprintf(stderr, "left out: %s (modelled: %.4g %s): no second device within reach\n",
              gpu_constants[c].name, gpu_constants[c].published, gpu_constants[c].unit);
    }
  bench_close(&b);
}
