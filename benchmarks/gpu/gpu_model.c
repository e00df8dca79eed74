// gpu-model [--short] [--measured FILE]: counts what the daemon's kernel does on the PTX machine,
// and what that comes to with published latencies.
//
// All-reduces of float32 run on 2, 4 and 8 devices of the stand-in for the CUDA driver, one rank
// and one block each, which stay resident. Each figure is the median of several calls. Sizes beyond
// what the machine does in seconds are not run: counts a chunk are those of the largest size that
// was.
// The loops of movers are counted apart: of two messages that differ only in size, the instructions
// that the larger one takes more, for each 16 bytes that it stores more.
// --short: 2 devices, 8 B and 4 KiB; fails if counts that must repeat do not.
// --measured: takes the constants that FILE has, a gpu-check.json, in place of published ones.
// Exit status: 0; 1: something failed, or a result was wrong; 2: wrong usage.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rondo/rondo.h>

#include "benchmarks/gpu/gpu_constants.h"
#include "daemon/core/context_core.h"
#include "daemon/cuda/cuda_launch_core.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/ptx/ptx_memory.h"
#include "tests/support/ptx/ptx_meter.h"

#define MAX_RANKS 8u
#define CALLS 5
#define WARM_CALLS 3
#define MOST_RUN (1u << 20) // bytes
#define DEFAULT_BLOCKS 4u   // of the configuration
#define MANY_BLOCKS 24u     // as NCCL has for large sizes
#define WAIT_NS INT64_C(300000000000)
#define LONG_NS UINT64_C(600000000000)

static void check(int holds, int line, const char *condition) {
  if (holds)
    return;
  fprintf(stderr, "gpu-model: line %d: not so: %s\n", line, condition);
  exit(1);
}

#define CHECK(condition) check((condition) != 0, __LINE__, #condition)
#define OK(call) CHECK((call) == RONDO_SUCCESS)
#define CUDA(call) CHECK((call) == CUDA_SUCCESS)

struct team {
  uint32_t ranks;
  struct rondo_context ctx[MAX_RANKS];
  struct rondo_collective coll[MAX_RANKS];
  CUdeviceptr send[MAX_RANKS], recv[MAX_RANKS];
};

// What one call came to, over all devices.
struct figures {
  double queue_polls, other_polls; // of host memory, in vain, by the deciding thread
  double mirror_polls;             // ... by the one that keeps the mirror
  double host_loads, peer_row, fences_row, peer_loads; // peer_loads: a chunk
  double fences, barriers, chunks, touched;            // fences, barriers: a chunk
  double mover, sixteenths;                            // movers: instructions; stores
  double in_flight;                                    // bytes that a warp of movers loads at once
  uint32_t kernel;                                     // of the kernel
};

static struct ptx_meter *meter;
static double constants[GPU_CONSTANTS];

// -------------------------------------------------------------------- constants --

// The value of a figure in the text of a gpu-check.json; 0: the text has none.
static double figure_in(const char *text, const char *name) {
  char begin[128];
  snprintf(begin, sizeof begin, "\"name\": \"%s\", \"value\": ", name);
  const char *at = strstr(text, begin);
  return at ? strtod(at + strlen(begin), NULL) : 0;
}

// Returns how many of the constants are in the file at `path`; null: there is none.
static int constants_read(const char *path) {
  static char text[1 << 20];
  int measured = 0;
  if (path) {
    FILE *file = fopen(path, "r");
    if (!file) {
      fprintf(stderr, "gpu-model: %s: %s\n", path, strerror(errno));
      exit(2);
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
  }
  for (int c = 0; c < GPU_CONSTANTS; c++) {
    constants[c] = figure_in(text, gpu_constants[c].name);
    measured += constants[c] > 0;
    if (constants[c] <= 0)
      constants[c] = gpu_constants[c].published;
  }
  return measured;
}

// ------------------------------------------------------------------------ calls --

static struct rondo_config config_of(uint32_t ranks) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.backend = RONDO_BACKEND_CUDA;
  c.rank_count = ranks;
  c.blocks = 1;
  // The machine is slow: blocks stay, and leave no collective.
  c.tuning.front_budget_ns = c.tuning.min_budget_ns = c.tuning.max_budget_ns = LONG_NS / 100;
  c.tuning.quit_period_ns = c.tuning.residency_ns = LONG_NS;
  OK(rondo_unique_id_create(&c.id));
  return c;
}

static void team_open(struct team *t, uint32_t ranks, const struct rondo_collective_desc *d,
                      uint64_t bytes) {
  struct rondo_config c = config_of(ranks);
  float *input = malloc(bytes);
  CHECK(input);
  t->ranks = ranks;
  for (uint32_t r = 0; r < ranks; r++) {
    CUcontext ctx;
    c.rank = r;
    c.device = (int)r;
    OK(rondo_init(&t->ctx[r], &c));
    CUDA(cuDevicePrimaryCtxRetain(&ctx, (CUdevice)r));
    CUDA(cuCtxSetCurrent(ctx));
    CUDA(cuMemAlloc(&t->send[r], bytes));
    CUDA(cuMemAlloc(&t->recv[r], bytes));
    for (uint64_t i = 0; i < bytes / 4; i++)
      input[i] = (float)(r + i % 100);
    CUDA(cuMemcpyHtoD(t->send[r], input, bytes));
  }
  free(input);
  for (uint32_t r = 0; r < ranks; r++)
    OK(rondo_register(t->ctx[r], d, &t->coll[r]));
}

// The submission queue is in the host's memory, and blocks that have nothing to do look at it.
static void team_name_queues(const struct team *t) {
  for (uint32_t r = 0; r < t->ranks; r++) {
    struct rondo_rank *rank = NULL;
    OK(rondo_rank_pin(t->ctx[r], "gpu-model", &rank));
    const struct rondo_sq_producer *sq = &rank->member.daemon->sq;
    ptx_meter_set_queue(meter, r, sq->ring, rondo_sq_ring_bytes(sq->capacity));
    rondo_rank_unpin(t->ctx[r]);
  }
}

static void team_call(struct team *t) {
  for (uint32_t r = 0; r < t->ranks; r++)
    OK(rondo_run(t->ctx[r], t->coll[r], (void *)(uintptr_t)t->send[r], // NOLINT
                 (void *)(uintptr_t)t->recv[r], NULL, NULL));          // NOLINT
  for (uint32_t r = 0; r < t->ranks; r++)
    OK(rondo_wait(t->ctx[r], t->coll[r], RONDO_LAST_RUN, WAIT_NS));
}

// Sums of small whole numbers are exact. A broadcast has the values of rank 0.
static void team_verify(const struct team *t, int kind, uint64_t bytes) {
  const uint32_t rank = kind == RONDO_REDUCE ? 0 : t->ranks - 1;
  const float *out = (const float *)(uintptr_t)t->recv[rank]; // NOLINT
  const uint64_t ranks = kind == RONDO_BROADCAST ? 1 : t->ranks, least = ranks * (ranks - 1) / 2;
  for (uint64_t i = 0; i < bytes / 4; i++)
    CHECK(out[i] == (float)(least + ranks * (i % 100)));
}

static void team_close(struct team *t) {
  for (uint32_t r = 0; r < t->ranks; r++)
    OK(rondo_destroy(t->ctx[r], RONDO_DESTROY_ABORT, WAIT_NS));
  for (uint32_t r = 0; r < t->ranks; r++) {
    CUDA(cuMemFree(t->send[r]));
    CUDA(cuMemFree(t->recv[r]));
    CUDA(cuDevicePrimaryCtxRelease((CUdevice)r));
  }
}

// ---------------------------------------------------------------------- figures --

static double most(double a, double b) { return a > b ? a : b; }

static uint64_t chunks_of(const struct team *t) {
  uint64_t chunks = 0;
  for (uint32_t r = 0; r < t->ranks; r++) {
    struct rondo_counters c;
    OK(rondo_counters(t->ctx[r], &c));
    chunks += c.primitives;
  }
  return chunks;
}

// Blocks publish their counters, and warps add their counts, after the end of a call. A turn that
// began in another window does not count.
static void settle(void) { nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL); }

static struct figures call_measure(struct team *t) {
  struct figures f = {0};
  struct ptx_counts c[PTX_METER_ROLES];
  settle();
  const uint64_t before = chunks_of(t);
  ptx_meter_begin(meter);
  settle();
  team_call(t);
  settle();
  for (uint32_t d = 0; d < t->ranks; d++) {
    for (uint32_t role = 0; role < PTX_METER_ROLES; role++) {
      ptx_meter_read(meter, d, role, &c[role]);
      f.peer_row = most(f.peer_row, c[role].chain.peer);
      // What the mirror still looks at when it has passed the entry on, nothing waits for.
      if (role != PTX_METER_LAST)
        f.host_loads = most(f.host_loads, c[role].chain.host_loads);
      f.fences_row = most(f.fences_row, c[role].chain.fences);
    }
    f.queue_polls += (double)c[0].queue_polls;
    f.other_polls += (double)(c[0].polls[PTX_AT_HOST] - c[0].queue_polls);
    f.mirror_polls += (double)c[PTX_METER_LAST].polls[PTX_AT_HOST];
    f.barriers += (double)c[0].barriers;
    f.fences += (double)(c[0].fences[PTX_SYS] + c[0].releases[PTX_SYS]);
    f.peer_loads += (double)(c[0].accesses[PTX_AT_PEER][PTX_A_LOAD] - c[0].polls[PTX_AT_PEER]);
    const struct ptx_counts *movers = &c[PTX_METER_OTHERS];
    f.mover += (double)movers->lane_instructions;
    f.in_flight = most(f.in_flight, (double)movers->in_flight);
    f.sixteenths +=
        (double)(movers->bytes[PTX_AT_OWN][PTX_A_STORE] + movers->bytes[PTX_AT_PEER][PTX_A_STORE]) /
        16;
  }
  f.chunks = (double)(chunks_of(t) - before);
  f.touched = ptx_meter_touched(meter, &f.kernel);
  f.barriers /= most(f.chunks, 1);
  f.fences /= most(f.chunks, 1);
  f.peer_loads /= most(f.chunks, 1);
  return f;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

// The median of each figure.
static struct figures figures_median(const struct figures *all) {
  struct figures f = all[0];
  const size_t offsets[] = {
      offsetof(struct figures, queue_polls),  offsetof(struct figures, other_polls),
      offsetof(struct figures, host_loads),   offsetof(struct figures, peer_row),
      offsetof(struct figures, fences_row),   offsetof(struct figures, peer_loads),
      offsetof(struct figures, fences),       offsetof(struct figures, barriers),
      offsetof(struct figures, chunks),       offsetof(struct figures, touched),
      offsetof(struct figures, mover),        offsetof(struct figures, sixteenths),
      offsetof(struct figures, mirror_polls), offsetof(struct figures, in_flight)};
  for (size_t n = 0; n < sizeof offsets / sizeof *offsets; n++) {
    double values[CALLS];
    for (int i = 0; i < CALLS; i++)
      memcpy(&values[i], (const char *)&all[i] + offsets[n], sizeof values[i]);
    qsort(values, CALLS, sizeof *values, compare);
    memcpy((char *)&f + offsets[n], &values[CALLS / 2], sizeof *values);
  }
  return f;
}

// What movers do beside that depends on when the packets come.
static void figures_compare(const struct figures *a, const struct figures *b) {
  CHECK(a->chunks == b->chunks);
  CHECK(a->sixteenths == b->sixteenths);
}

static void figures_expect(const struct figures *f) {
  CHECK(f->peer_loads == 0);                   // each side keeps a connector's constants
  CHECK(f->queue_polls + f->other_polls == 0); // the mirror looks at the host's words
  CHECK(f->host_loads <= 2);                   // an entry's mark, then the entry
  CHECK(f->peer_row <= 1);                     // packets need nothing else
  CHECK(f->fences <= 1);
  CHECK(f->barriers <= 2);
}

static struct figures desc_measure(uint32_t ranks, const struct rondo_collective_desc *d,
                                   int must_repeat) {
  struct rondo_fake_options o = rondo_fake_defaults();
  const uint64_t bytes = d->count * 4;
  struct figures all[CALLS];
  struct team t = {0};
  o.devices = ranks;
  o.ptx = 1;
  o.meter = meter;
  rondo_fake_reset(&o);
  CUDA(cuInit(0));
  team_open(&t, ranks, d, bytes);
  team_name_queues(&t);
  for (int i = 0; i < WARM_CALLS; i++)
    team_call(&t);
  for (int i = 0; i < CALLS; i++) {
    all[i] = call_measure(&t);
    CHECK(all[i].chunks > 0 && all[i].touched > 0);
    if (must_repeat)
      figures_compare(&all[i], &all[0]);
  }
  team_verify(&t, d->kind, bytes);
  team_close(&t);
  return figures_median(all);
}

static struct figures size_measure(uint32_t ranks, uint64_t bytes, int must_repeat) {
  const struct rondo_collective_desc d = rondo_all_reduce(1, bytes / 4, RONDO_FLOAT32, RONDO_SUM);
  const struct figures f = desc_measure(ranks, &d, must_repeat);
  if (must_repeat)
    figures_expect(&f);
  return f;
}

// What movers do for a message of 2 ranks that has one chunk: for each 16 bytes more of it.
struct loops {
  double copies, sums; // instructions
  double in_flight;    // the least of both, of a warp
};

static double loop_measure(int kind, double *in_flight) {
  const uint64_t sizes[] = {64 << 10, 256 << 10};
  struct figures f[2];
  for (int n = 0; n < 2; n++) {
    const uint64_t count = sizes[n] / 4;
    const struct rondo_collective_desc d = kind == RONDO_REDUCE
                                               ? rondo_reduce(1, count, RONDO_FLOAT32, RONDO_SUM, 0)
                                               : rondo_broadcast(1, count, RONDO_FLOAT32, 0);
    f[n] = desc_measure(2, &d, 0);
  }
  CHECK(f[0].chunks == f[1].chunks && f[0].sixteenths < f[1].sixteenths);
  *in_flight = f[1].in_flight < *in_flight ? f[1].in_flight : *in_flight;
  return (f[1].mover - f[0].mover) / (f[1].sixteenths - f[0].sixteenths);
}

static struct loops loops_measure(void) {
  struct loops l = {.in_flight = 1e9};
  CHECK(setenv("RONDO_ALGO", "broadcast=ring,reduce=ring", 1) == 0);
  l.copies = loop_measure(RONDO_BROADCAST, &l.in_flight);
  l.sums = loop_measure(RONDO_REDUCE, &l.in_flight);
  CHECK(unsetenv("RONDO_ALGO") == 0);
  return l;
}

// The goals that a change of the loops must not lose.
static void loops_expect(const struct loops *l) {
  CHECK(l->copies > 2 && l->copies <= 4); // a load and a store at least
  CHECK(l->sums > 7 && l->sums <= 8);
  CHECK(l->in_flight >= 128 * 32);
}

// ------------------------------------------------------------------------ tables --

static double model_us(const struct figures *f, uint32_t ranks, double bytes) {
  return constants[GPU_QUEUE] + f->host_loads * constants[GPU_HOST_LOAD] +
         f->peer_row * constants[GPU_PEER] + f->fences_row * constants[GPU_FENCE] +
         bytes * 2 * (ranks - 1) / ranks / (constants[GPU_RING] * 1e3);
}

// What a call comes to that has `times` as many chunks as the call `f`: rows grow as chunks do.
static struct figures figures_beyond(const struct figures *f, double times) {
  struct figures g = *f;
  g.chunks *= times;
  g.peer_row *= times;
  g.fences_row *= times;
  return g;
}

static double nccl_us(uint64_t bytes, uint32_t ranks) {
  const uint64_t sizes[] = {8, 64 << 10, 1 << 20, 64 << 20, 1 << 30};
  const double us[] = {13.7, 19.5, 27.4, 325, 4029};
  for (int i = 0; i < 5; i++)
    if (ranks == 8 && sizes[i] == bytes)
      return us[i];
  return 0;
}

static void figures_print(uint32_t ranks, uint64_t bytes, const struct figures *f) {
  char nccl[32] = "-";
  if (nccl_us(bytes, ranks) > 0)
    snprintf(nccl, sizeof nccl, "%.1f", nccl_us(bytes, ranks));
  printf("%4u %10llu%c %7.0f %8.0f %8.0f %8.0f %10.0f %9.0f %10.0f %10.1f %9.1f %9.1f %8.1f %8.0f "
         "%9.1f "
         "%9s\n",
         ranks, (unsigned long long)bytes, bytes > MOST_RUN ? '*' : ' ', f->chunks, f->queue_polls,
         f->other_polls, f->mirror_polls, f->host_loads, f->peer_row, f->fences_row, f->peer_loads,
         f->fences, f->barriers, f->mover / most(f->sixteenths, 1), f->touched,
         model_us(f, ranks, (double)bytes), nccl);
  fflush(stdout);
}

// The goals, beside what 8 devices do today.
static void goals_print(const struct figures *small, const struct figures *middle,
                        const struct figures *large, const struct loops *loops) {
  const struct {
    const char *name, *goal;
    double today;
  } goals[] = {
      {"loads of host memory in vain, a call of 8 B: submission queues", "0", small->queue_polls},
      {"loads of host memory in vain, a call of 8 B: gates, exit and others", "0",
       small->other_polls},
      {"loads of host memory in vain by the mirrors, a call of 8 B", "-", small->mirror_polls},
      {"loads of host memory in a row, a call of 8 B", "<= 2", small->host_loads},
      {"peer accesses in a row, 8 B", "<= 2", small->peer_row},
      {"peer accesses in a row, 64 KiB", "<= 4", middle->peer_row},
      {"peer accesses in a row, 1 MiB, with those of the data", "4 and data", large->peer_row},
      {"loads across the link by the deciding thread, a chunk of 64 KiB", "0", middle->peer_loads},
      {"system fences and releases a chunk, 64 KiB", "<= 1", middle->fences},
      {"barriers a chunk, 64 KiB", "<= 2", middle->barriers},
      {"instructions of movers for 16 bytes stored more: copies", "<= 4", loops->copies},
      {"instructions of movers for 16 bytes stored more: sums of float32", "<= 8", loops->sums},
      {"instructions of movers for 16 bytes stored, with commands, 64 KiB", "-",
       middle->mover / most(middle->sixteenths, 1)},
      {"instructions touched by a call, 64 KiB", "<= 8000", middle->touched},
      {"bytes of a context", "256", (double)sizeof(struct rondo_task_context)},
      {"bytes in flight a GPU at 64 MiB: 4 blocks of 8 warps of movers", ">= 1 MiB",
       loops->in_flight * DEFAULT_BLOCKS * RONDO_CUDA_MOVER_WARPS},
      {"bytes in flight a GPU at 64 MiB: 24 blocks of 14 warps", ">= 1 MiB",
       loops->in_flight * MANY_BLOCKS * RONDO_CUDA_MAX_MOVER_WARPS},
  };
  printf("\nGoals on 8 GPUs\n%-68s %12s %12s\n", "what", "goal", "today");
  for (size_t n = 0; n < sizeof goals / sizeof *goals; n++)
    printf("%-68s %12s %12.1f\n", goals[n].name, goals[n].goal, goals[n].today);
  printf("\nThe kernel has %u instructions of PTX.\n", middle->kernel);
}

static void head_print(int measured, const char *path) {
  printf("The times below are a model; nothing here was measured on a GPU%s.\n\n",
         measured ? " except constants" : "");
  if (path)
    printf("%d of %d constants are those of %s.\n\n", measured, GPU_CONSTANTS, path);
  printf(
      "All-reduce of float32, one block a device, which stays resident; medians of %d calls.\n"
      "SQ polls and others: loads of host memory in vain by the deciding threads, also in the 60 "
      "ms\n"
      "around a call. mirror: those of the one warp of a device that may make them.\n"
      "In a row: the longest chain of a call, through all devices; host row: of deciding threads "
      "and\n"
      "movers, with what the mirror loaded for them. link: loads of peers' memory\n"
      "by the deciding thread that were not in vain. fences: of system scope, and releases.\n"
      "instr/16: instructions of movers for 16 bytes that they store; small sizes show what a\n"
      "command costs. Stored more: of two messages of 64 and 256 KiB between 2 GPUs, which take\n"
      "the same commands. In flight: what a warp of movers had loaded at once and not used yet,\n"
      "in such messages, times as many warps; no run had so many blocks.\n"
      "Model: %.1f us for the queues, %.1f a load of host memory in a row, %.3f a peer access,\n"
      "%.1f a fence, and the bytes at %.0f GB/s; nothing overlaps. Chains depend on\n"
      "how the host's threads take turns, so times of two runs differ.\n"
      "NCCL: published, 8 x H100. Sizes marked with * were not run: chunks and rows are those of\n"
      "1 MiB, times as many.\n\n",
      CALLS, constants[GPU_QUEUE], constants[GPU_HOST_LOAD], constants[GPU_PEER],
      constants[GPU_FENCE], constants[GPU_RING]);
  printf("%4s %11s %7s %8s %8s %8s %10s %9s %10s %10s %9s %9s %8s %8s %9s %9s\n", "GPUs", "bytes",
         "chunks", "SQ polls", "others", "mirror", "host row", "peer row", "fence row",
         "link/chunk", "fences/ch", "barr./ch", "instr/16", "touched", "model us", "NCCL us");
}

int main(int argc, char **argv) {
  const uint64_t sizes[] = {8, 4 << 10, 16 << 10, 64 << 10, 256 << 10, MOST_RUN};
  const int count = sizeof sizes / sizeof *sizes;
  const uint64_t beyond[] = {64 << 20, 1 << 30};
  const char *path = NULL;
  int is_short = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--short") == 0) {
      is_short = 1;
    } else if (strcmp(argv[i], "--measured") == 0 && i + 1 < argc) {
      path = argv[++i];
    } else {
      fprintf(stderr, "usage: gpu-model [--short] [--measured FILE]\n");
      return 2;
    }
  }
  meter = ptx_meter_create();
  CHECK(meter);
  head_print(constants_read(path), path);
  struct figures small = {0}, middle = {0}, f = {0};
  for (uint32_t ranks = 2; ranks <= (is_short ? 2u : MAX_RANKS); ranks *= 2) {
    for (int n = 0; n < (is_short ? 2 : count); n++) {
      f = size_measure(ranks, sizes[n], is_short);
      figures_print(ranks, sizes[n], &f);
      small = n == 0 ? f : small;
      middle = sizes[n] == 64 << 10 ? f : middle;
    }
    for (int n = 0; n < 2 && !is_short; n++) {
      const struct figures g = figures_beyond(&f, (double)beyond[n] / MOST_RUN);
      figures_print(ranks, beyond[n], &g);
    }
  }
  const struct loops loops = loops_measure();
  printf("\nMovers, for 16 bytes stored more: copies %.2f instructions, sums %.2f.\n", loops.copies,
         loops.sums);
  if (!is_short)
    goals_print(&small, &middle, &f, &loops);
  loops_expect(&loops);
  rondo_fake_reset(NULL);
  ptx_meter_destroy(meter);
  return 0;
}
