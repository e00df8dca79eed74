// Where the time of the host's blocks goes: the parts that tests/gpu/bench_daemon.c tells of a
// GPU's (figures 7 and 9 of the paper), of the same shared source compiled with RONDO_TIMING=1.
//
//   bench_breakdown [--rounds=N] [--bytes=N]
//
// Two ranks submit sixteen all-reduces, each in an order of its own, so that contexts come and go.
// One thread submits and waits, and steps the blocks while it waits. "clock" is a sample of
// nothing: what each of the others contains of looking at the clock.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <rondo/rondo.h>

#include "base/clock.h"
#include "daemon/core/block_core.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"

#define RANKS 2u
#define COLLECTIVES (2u * RONDO_ACTIVE_SLOTS) // so that they push each other out
#define MAX_THREADS 64u                       // that step blocks
#define WAIT_NS INT64_C(20000000000)
#define OK(call) status_check((call), #call)

static const char *const part_names[RONDO_TIMED_COUNT] = {
    "SQE read",  "preparation", "context load", "context save",
    "primitive", "CQE write",   "end of a run"};

static void status_check(int status, const char *call) {
  if (status == RONDO_SUCCESS)
    return;
  fprintf(stderr, "bench_breakdown: %s: %s\n", call, rondo_status_name(status));
  exit(1);
}

// ------------------------------------------------- what the shared source asks for --

static struct rondo_times times[MAX_THREADS];
static uint32_t thread_count;
static _Thread_local struct rondo_timing timing;

uint64_t rondo_timing_ticks(void) { return rondo_now_ns(); }

struct rondo_timing *rondo_timing_self(void) {
  if (!timing.times) {
    uint32_t i = rondo_fetch_add_relaxed_u32(&thread_count, 1);
    if (i < MAX_THREADS) // the samples of further threads are dropped
      rondo_timing_begin(&timing, (uint64_t)(uintptr_t)&times[i], 0, 0);
  }
  return &timing;
}

// ------------------------------------------------------------------------ the job --

struct job {
  struct rondo_context ctx[RANKS];
  struct rondo_collective colls[RANKS][COLLECTIVES];
  char *send[RANKS], *recv[RANKS];
  uint64_t bytes;
};

static void job_open(struct job *j, uint64_t bytes) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.rank_count = RANKS;
  j->bytes = bytes;
  OK(rondo_unique_id_create(&c.id));
  for (uint32_t r = 0; r < RANKS; r++) {
    c.rank = r;
    OK(rondo_init(&j->ctx[r], &c));
    j->send[r] = calloc((size_t)COLLECTIVES, bytes);
    j->recv[r] = calloc((size_t)COLLECTIVES, bytes);
    if (!j->send[r] || !j->recv[r])
      status_check(RONDO_ERR_NO_MEMORY, "calloc");
    for (uint32_t i = 0; i < COLLECTIVES; i++) {
      struct rondo_collective_desc d = rondo_all_reduce(i, bytes / 4, RONDO_FLOAT32, RONDO_SUM);
      OK(rondo_register(j->ctx[r], &d, &j->colls[r][i]));
    }
  }
}

static void job_round(struct job *j) {
  for (uint32_t n = 0; n < RANKS * COLLECTIVES; n++) {
    uint32_t r = n % RANKS, i = n / RANKS;
    uint32_t c = r == 0 ? i : COLLECTIVES - 1 - i;
    OK(rondo_run(j->ctx[r], j->colls[r][c], j->send[r] + c * j->bytes, j->recv[r] + c * j->bytes,
                 NULL, NULL));
  }
  for (uint32_t n = 0; n < RANKS * COLLECTIVES; n++)
    OK(rondo_wait(j->ctx[n % RANKS], j->colls[n % RANKS][n / RANKS], RONDO_LAST_RUN, WAIT_NS));
}

static void job_close(struct job *j) {
  for (uint32_t r = 0; r < RANKS; r++)
    OK(rondo_destroy(j->ctx[r], RONDO_DESTROY_DRAIN, WAIT_NS));
  for (uint32_t r = 0; r < RANKS; r++) {
    free(j->send[r]);
    free(j->recv[r]);
  }
}

// ---------------------------------------------------------------------- the table --

static void row_print(const char *name, uint64_t *samples_ns, uint32_t count, uint64_t all) {
  struct rondo_kit_stats s = rondo_kit_stats_of(samples_ns, count);
  if (count == 0)
    printf("%-14s %10s\n", name, "none");
  else
    printf("%-14s %10llu %8.0f %8.0f %8.0f\n", name, (unsigned long long)all, s.min_ns, s.median_ns,
           s.p99_ns);
}

static void part_print(uint32_t part) {
  static uint64_t samples_ns[MAX_THREADS * RONDO_TIMES_KEPT];
  uint32_t count = 0;
  uint64_t all = 0;
  for (uint32_t t = 0; t < MAX_THREADS; t++) {
    uint64_t taken = rondo_load_relaxed_u64(&times[t].counts[part]);
    all += taken;
    for (uint64_t i = 0; i < taken && i < RONDO_TIMES_KEPT; i++)
      samples_ns[count++] = rondo_load_relaxed_u32(&times[t].samples[part][i]);
  }
  row_print(part_names[part], samples_ns, count, all);
}

static void clock_print(void) {
  static uint64_t samples_ns[RONDO_TIMES_KEPT];
  for (uint32_t i = 0; i < RONDO_TIMES_KEPT; i++) {
    uint64_t began = rondo_timing_ticks();
    samples_ns[i] = rondo_timing_ticks() - began;
  }
  row_print("clock", samples_ns, RONDO_TIMES_KEPT, RONDO_TIMES_KEPT);
}

// ------------------------------------------------------------------------- options --

struct options {
  uint32_t rounds;
  uint64_t bytes;
};

static bool bytes_read(const char *text, void *values) {
  struct options *o = values;
  return rondo_kit_read_number(text, 4, 1u << 24, &o->bytes) && o->bytes % 4 == 0;
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"rounds", 'r', "N", "Rounds of sixteen collectives (default 400)", RONDO_KIT_U32,
       offsetof(struct options, rounds), .low = 1, .high = 1u << 24},
      {"bytes", 'b', "N", "Bytes of each, a multiple of 4 (default 4096)", .read = bytes_read},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures the parts of the time of blocks on this machine."};
  struct options o = {400, 4096};
  static struct job job;
  rondo_kit_command_read(&command, argc, argv, &o);
  job_open(&job, o.bytes);
  for (uint32_t i = 0; i < o.rounds; i++)
    job_round(&job);
  job_close(&job);
  printf("# %u rounds of %u all-reduces of %llu bytes, %u ranks; the last %u samples a thread\n",
         o.rounds, COLLECTIVES, (unsigned long long)o.bytes, RANKS, RONDO_TIMES_KEPT);
  printf("%-14s %10s %8s %8s %8s\n", "part", "times", "least ns", "median", "99 %");
  for (uint32_t part = 0; part < RONDO_TIMED_COUNT; part++)
    part_print(part);
  clock_print();
  return 0;
}
