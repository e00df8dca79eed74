// The daemon by itself: where the time of its blocks goes, how long a run takes from the call to
// its end, what memory it takes, and how close large all-reduces come to what the memory allows.
#include <stdlib.h>

#include "daemon/cuda/cuda_backend.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/gpu/bench.h"
#include "tests/gpu/kernels_core.h"

#define ROUNDS 200
#define KIB UINT64_C(1024)

// ------------------------------------------------------------------- breakdown --

// Samples of one part, of all blocks of all ranks, in microseconds.
struct samples {
  int count;
  double us[RANKS * RONDO_MAX_BLOCKS * RONDO_TIMES_KEPT];
};

static const struct part {
  const char *name;
  double target_us; // median, at most; 0: none
} parts[RONDO_TIMED_COUNT] = {
    [RONDO_TIMED_SQE_READ] = {"SQE read", 0},    [RONDO_TIMED_PREPARE] = {"preparation", 0},
    [RONDO_TIMED_LOAD] = {"context load", 0.45}, [RONDO_TIMED_SAVE] = {"context save", 0.05},
    [RONDO_TIMED_PRIMITIVE] = {"primitive", 0},  [RONDO_TIMED_CQE_WRITE] = {"CQE write", 1.0},
    [RONDO_TIMED_FINISH] = {"end of a run", 0},
};

static void collect(struct samples *s, const struct rondo_times *t, uint32_t part) {
  double us_a_tick = t->ticks ? (double)t->ns / (double)t->ticks / 1e3 : 0;
  for (uint64_t i = 0; i < t->counts[part] && i < RONDO_TIMES_KEPT; i++)
    s->us[s->count++] = t->samples[part][i] * us_a_tick;
}

// The daemons have left.
static void collect_all(struct samples *s, const struct team *t) {
  static struct rondo_times times;
  for (uint32_t r = 0; r < RANKS; r++) {
    struct rondo_rank *rank;
    OK(rondo_rank_pin(t->ctx[r], "gpu_bench", &rank));
    for (uint32_t b = 0; b < rank->cfg.blocks; b++) {
      OK(rondo_cuda_read_times(rank->member.daemon, b, &times));
      for (uint32_t part = 0; part < RONDO_TIMED_COUNT; part++)
        collect(&s[part], &times, part);
    }
    rondo_rank_unpin(t->ctx[r]);
  }
}

static void print_part(uint64_t bytes, const struct part *p, struct samples *s) {
  unsigned long long size = bytes;
  char name[96];
  snprintf(name, sizeof name, "%s, runs of %llu bytes, median", p->name, size);
  double median = quantile(s->us, s->count, 0.5);
  if (p->target_us > 0)
    print_target(name, median, "us", 1, p->target_us);
  else
    print_figure(name, median, "us");
  snprintf(name, sizeof name, "%s, runs of %llu bytes, least", p->name, size);
  print_figure(name, quantile(s->us, s->count, 0), "us");
  snprintf(name, sizeof name, "%s, runs of %llu bytes, 99 of 100", p->name, size);
  print_figure(name, quantile(s->us, s->count, 0.99), "us");
}

#define TURNS (2 * (int)RONDO_ACTIVE_SLOTS) // collectives, so that they push each other out

// 8 ranks submit the same collectives, each in an order of its own: contexts come and go.
static void take_turns(struct team *t, uint64_t bytes, struct rondo_collective colls[][RANKS]) {
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t i = 0; i < TURNS; i++) {
      uint32_t c = (r % 2 ? i + r : r + TURNS - i) % TURNS;
      OK(rondo_run(t->ctx[r], colls[c][r], gpu_pointer(t->send[r] + c * bytes),
                   gpu_pointer(t->recv[r] + c * bytes), NULL, NULL));
    }
  for (uint32_t n = 0; n < RANKS * TURNS; n++)
    OK(rondo_wait(t->ctx[n % RANKS], colls[n / RANKS][n % RANKS], RONDO_LAST_RUN, LONG_NS));
}

static void breakdown_of(uint64_t bytes) {
  static struct samples samples[RONDO_TIMED_COUNT];
  struct rondo_collective colls[TURNS][RANKS];
  struct team t = {0};
  rondo_cuda_use_timed_kernel(gpu_timed_image);
  team_open(&t, TURNS * bytes);
  rondo_cuda_use_timed_kernel(NULL);
  for (uint32_t n = 0; n < RANKS * TURNS; n++) {
    uint64_t id = 100 + n / RANKS;
    struct rondo_collective_desc d = rondo_all_reduce(id, bytes / 4, RONDO_FLOAT32, RONDO_SUM);
    OK(rondo_register(t.ctx[n % RANKS], &d, &colls[n / RANKS][n % RANKS]));
  }
  for (int i = 0; i < gpu_load(ROUNDS, 2); i++)
    take_turns(&t, bytes, colls);
  CUDA(cuCtxSynchronize());
  for (uint32_t part = 0; part < RONDO_TIMED_COUNT; part++)
    samples[part].count = 0;
  collect_all(samples, &t);
  for (uint32_t part = 0; part < RONDO_TIMED_COUNT; part++)
    print_part(bytes, &parts[part], &samples[part]);
  team_close(&t);
}

void bench_breakdown(void) {
  breakdown_of(4 * KIB);
  breakdown_of((uint64_t)gpu_load(1024, 64) * KIB);
}

// --------------------------------------------------------------------- latency --

static uint64_t called_at_ns;

static void called(void *arg, int status) {
  (void)arg;
  (void)status;
  rondo_store_release_u64(&called_at_ns, (uint64_t)(gpu_now_us() * 1e3));
}

struct single {
  struct rondo_context ctx;
  struct rondo_collective coll;
  void *send, *recv;
};

static double callback_us(const struct single *s) {
  rondo_store_release_u64(&called_at_ns, 0);
  double begin = gpu_now_us();
  OK(rondo_run(s->ctx, s->coll, s->send, s->recv, called, NULL));
  OK(rondo_wait(s->ctx, s->coll, RONDO_LAST_RUN, LONG_NS));
  while (!rondo_load_acquire_u64(&called_at_ns))
    CHECK(gpu_now_us() - begin < 1e-3 * (double)LONG_NS);
  return (double)rondo_load_acquire_u64(&called_at_ns) / 1e3 - begin;
}

static double stream_us(const struct single *s, CUstream stream) {
  double begin = gpu_now_us();
  OK(rondo_run_on_stream(s->ctx, s->coll, s->send, s->recv, stream));
  CUDA(cuStreamSynchronize(stream));
  return gpu_now_us() - begin;
}

// The smallest collective: a group of one rank, from the submission to its callback or to the end
// of a stream that waits for it.
void bench_latency(void) {
  static double callbacks[ROUNDS], streams[ROUNDS];
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  uint64_t memory = gpu_memory(2 * KIB);
  struct single s = {.send = gpu_pointer(memory), .recv = gpu_pointer(memory + KIB)};
  CUstream stream = gpu_stream();
  int rounds = gpu_load(ROUNDS, 5);
  c.backend = RONDO_BACKEND_CUDA;
  OK(rondo_init(&s.ctx, &c));
  OK(rondo_register(s.ctx, &d, &s.coll));
  for (int i = 0; i < rounds; i++) {
    callbacks[i] = callback_us(&s);
    streams[i] = stream_us(&s, stream);
  }
  print_target("submit to callback, 1 element, median", quantile(callbacks, rounds, 0.5), "us", 1,
               10);
  print_figure("submit to callback, 1 element, 99 of 100", quantile(callbacks, rounds, 0.99), "us");
  print_figure("submit to stream, 1 element, median", quantile(streams, rounds, 0.5), "us");
  print_figure("submit to stream, 1 element, 99 of 100", quantile(streams, rounds, 0.99), "us");
  OK(rondo_destroy(s.ctx, RONDO_DESTROY_DRAIN, LONG_NS));
  CUDA(cuStreamDestroy(stream));
  gpu_release(memory);
}

// ---------------------------------------------------------------------- memory --

#define KERNEL_SHARED_BYTES 1024.0 // at most, beside what it is launched with: see check_kernel.py

void bench_memory(void) {
  print_target("shared memory of a block, 1,000 collectives",
               ((double)rondo_cuda_fast_bytes(1000) + KERNEL_SHARED_BYTES) / 1024, "KiB", 1, 13);
  print_target("context of a collective and block", sizeof(struct rondo_task_context), "bytes", 1,
               256);
}

// ----------------------------------------------------------------------- sizes --

// The least of several times.
static double best_copy_us(const struct team *t) {
  double best = 0;
  for (int i = 0; i < gpu_load(10, 2); i++) {
    double begin = gpu_now_us();
    CUDA(cuMemcpyDtoDAsync(t->recv[0], t->send[0], t->bytes, NULL));
    CUDA(cuStreamSynchronize(NULL));
    double us = gpu_now_us() - begin;
    best = i == 0 || us < best ? us : best;
  }
  return best;
}

static double best_fused_us(const struct team *t) {
  CUfunction kernel = gpu_kernel("gpu_fused");
  struct gpu_fused_params p = {.count = t->bytes / 4};
  double best = 0;
  for (uint32_t r = 0; r < RANKS; r++) {
    p.in[r] = t->send[r];
    p.out[r] = t->recv[r];
  }
  for (int i = 0; i < gpu_load(10, 2); i++) {
    double begin = gpu_now_us();
    gpu_launch(kernel, 8 * gpu.multiprocessors, 256, NULL, &p);
    CUDA(cuStreamSynchronize(NULL));
    double us = gpu_now_us() - begin;
    best = i == 0 || us < best ? us : best;
  }
  return best;
}

static double best_team_us(struct team *t, int rounds) {
  double best = 0;
  for (int i = 0; i < rounds; i++) {
    double us = team_run_us(t);
    best = i == 0 || us < best ? us : best;
  }
  return best;
}

void bench_sizes(void) {
  const uint64_t most = (uint64_t)gpu_load(64, 1) * KIB * KIB;
  struct team t = {0};
  double best = 0;
  for (uint64_t bytes = 256; bytes <= most; bytes *= 4) {
    char name[64];
    team_open(&t, bytes);
    best = best_team_us(&t, gpu_load(20, 2));
    snprintf(name, sizeof name, "all-reduce, 8 ranks, %llu bytes, best", (unsigned long long)bytes);
    print_figure(name, best, "us");
    if (bytes < most)
      team_close(&t);
  }
  double copy_us = best_copy_us(&t);
  print_figure("copy bandwidth, read and written", 2e-3 * (double)t.bytes / copy_us, "GB/s");
  // Eight buffers read and eight written, at the bandwidth of the copy.
  print_target("of the time bound by device memory, largest size", RANKS * copy_us / best, "1", 0,
               0.5);
  print_figure("against a fused reduction kernel, largest size", best_fused_us(&t) / best, "1");
  team_close(&t);
}

// ---------------------------------------------------------------------- blocks --

static struct rondo_counters team_counters(const struct team *t) {
  struct rondo_counters sum = {0}, c;
  for (uint32_t r = 0; r < RANKS; r++) {
    OK(rondo_counters(t->ctx[r], &c));
    sum.steps += c.steps;
    sum.preemptions += c.preemptions;
    sum.quits += c.quits;
    sum.starts += c.starts;
  }
  return sum;
}

static void print_blocks(const struct team *t, const char *what, double value, const char *unit) {
  char name[96];
  snprintf(name, sizeof name, "all-reduce, %llu bytes, %u blocks, %s", (unsigned long long)t->bytes,
           t->blocks, what);
  print_figure(name, value, unit);
}

static void blocks_of(uint64_t bytes, uint32_t blocks) {
  static double us[ROUNDS];
  struct team t = {.blocks = blocks};
  int rounds = gpu_load(20, 2);
  team_open(&t, bytes);
  (void)team_run_us(&t);
  struct rondo_counters before = team_counters(&t);
  for (int i = 0; i < rounds; i++)
    us[i] = team_run_us(&t);
  struct rondo_counters after = team_counters(&t);
  print_blocks(&t, "median", quantile(us, rounds, 0.5), "us");
  print_blocks(&t, "best", quantile(us, rounds, 0), "us");
  // Of all ranks, in one run.
  print_blocks(&t, "starts a run", (double)(after.starts - before.starts) / rounds, "1");
  print_blocks(&t, "quits a run", (double)(after.quits - before.quits) / rounds, "1");
  print_blocks(&t, "steps a run", (double)(after.steps - before.steps) / rounds, "1");
  team_close(&t);
}

void bench_blocks(void) {
  static const uint32_t blocks[] = {1, 2, 4, 6, 8, 12, 16};
  const uint64_t sizes[] = {256, KIB * KIB, (uint64_t)gpu_load(64, 1) * KIB * KIB};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
      blocks_of(sizes[s], blocks[b]);
}
