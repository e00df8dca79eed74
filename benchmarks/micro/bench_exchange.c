// What an all-to-all-v of a communicator takes whose counts are new in each call, as those of
// torch.distributed.all_to_all_single may be.
//
//   bench_exchange [--calls=N] [--ranks=N] [--processes] [ELEMENTS ...]
//
// Each rank sends up to twice ELEMENTS float32 to each rank, some nothing. The table shows the
// median time from rondo_comm_call to the return of rondo_comm_wait on rank 0, first with the same
// counts in each call, then with new ones; and how many collectives the calls have registered.
//
// Exit status: 1 if a call failed or an element was wrong.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "benchmarks/micro/forked_job.h"
#include "tools/kit/barrier.h"
#include "tools/kit/options.h"
#include "tools/kit/stats.h"
#include "tools/kit/thread_group.h"
#include <rondo/rondo.h>
#include <rondo/comm.h>

#define MAX_SIZES 16u
#define MAX_RANKS 64u
#define MAX_CALLS 100000u
#define WARMUP 100u
#define LONG_NS INT64_C(60000000000)

struct options {
  uint32_t calls, ranks;
  bool has_processes;
  uint32_t sizes[MAX_SIZES];
  uint32_t size_count;
};

struct arg {
  const struct options *o;
  uint32_t elems;
};

struct shared {
  struct rondo_kit_barrier barrier;
  double median_ns[2]; // with the same counts, and with new ones
  uint64_t registrations;
};

struct rank {
  struct rondo_context ctx;
  struct rondo_comm comm;
  const struct arg *arg;
  struct shared *shared;
  uint32_t rank;
  float *send, *recv;
  uint64_t *samples_ns;
};

// Elements from one rank to another in call `call`.
static uint64_t part_of(uint32_t elems, uint32_t call, uint32_t from, uint32_t to) {
  uint64_t mixed =
      (call * UINT64_C(7919) + from * UINT64_C(104729) + to + 1) * UINT64_C(0x9e3779b97f4a7c15);
  return (mixed >> 32) % (2 * (uint64_t)elems + 1);
}

static float value_of(uint32_t call, uint32_t from) { return (float)(call % 4096 * 64 + from); }

// The first and the last element of each part say which call and rank they are from.
static bool parts_are_right(const struct rank *r, const uint64_t *counts, uint32_t call) {
  const float *part = r->recv;
  for (uint32_t i = 0; i < r->arg->o->ranks; i++) {
    if (counts[i] && (part[0] != value_of(call, i) || part[counts[i] - 1] != value_of(call, i)))
      return false;
    part += counts[i];
  }
  return true;
}

// Makes a call and waits for it. Returns the time, or 0 after a failure.
static uint64_t call_make(struct rank *r, uint32_t call, bool is_new) {
  uint64_t sends[MAX_RANKS];
  uint64_t receives[MAX_RANKS];
  uint64_t at = 0;
  for (uint32_t i = 0; i < r->arg->o->ranks; i++) {
    sends[i] = part_of(r->arg->elems, is_new ? call : 0, r->rank, i);
    receives[i] = part_of(r->arg->elems, is_new ? call : 0, i, r->rank);
    if (sends[i])
      r->send[at] = r->send[at + sends[i] - 1] = value_of(call, r->rank);
    at += sends[i];
  }
  const struct rondo_collective_desc what =
      rondo_all_to_all_v(0, RONDO_FLOAT32, sends, NULL, receives, NULL);
  const struct rondo_run_args args = {.send = r->send, .recv = r->recv};
  struct rondo_ticket ticket;
  rondo_kit_barrier_wait(&r->shared->barrier);
  uint64_t began_ns = rondo_now_ns();
  if (rondo_comm_call(r->ctx, r->comm, &what, &args, &ticket) != RONDO_SUCCESS ||
      rondo_comm_wait(r->ctx, r->comm, &ticket, LONG_NS) != RONDO_SUCCESS)
    return 0;
  uint64_t time_ns = rondo_now_ns() - began_ns + 1;
  return parts_are_right(r, receives, call) ? time_ns : 0;
}

static bool calls_measure(struct rank *r, bool is_new) {
  uint32_t calls = r->arg->o->calls;
  for (uint32_t i = 0; i < WARMUP + calls; i++) {
    uint64_t time_ns = call_make(r, i, is_new);
    if (!time_ns)
      return false;
    if (i >= WARMUP)
      r->samples_ns[i - WARMUP] = time_ns;
  }
  if (r->rank == 0)
    r->shared->median_ns[is_new] = rondo_kit_stats_of(r->samples_ns, calls).median_ns;
  return true;
}

static bool rank_main(struct rondo_context ctx, uint32_t rank, void *shared, const void *arg) {
  struct rank r = {.ctx = ctx, .arg = arg, .shared = shared, .rank = rank};
  const struct options *o = r.arg->o;
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm_counters counters = {0};
  size_t bytes = 2 * (size_t)r.arg->elems * o->ranks * sizeof(float) + 1;
  cfg.key = 1;
  r.send = calloc(1, bytes);
  r.recv = calloc(1, bytes);
  r.samples_ns = calloc(o->calls, sizeof *r.samples_ns);
  bool is_good = r.send && r.recv && r.samples_ns &&
                 rondo_comm_create(ctx, &cfg, &r.comm) == RONDO_SUCCESS &&
                 calls_measure(&r, false) && calls_measure(&r, true) &&
                 rondo_comm_counters(ctx, r.comm, &counters) == RONDO_SUCCESS &&
                 rondo_comm_destroy(ctx, r.comm, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS;
  if (rank == 0)
    r.shared->registrations = counters.registrations;
  free(r.send);
  free(r.recv);
  free(r.samples_ns);
  return is_good;
}

static bool size_measure(const struct options *o, uint32_t elems) {
  static struct shared result;
  const struct arg arg = {.o = o, .elems = elems};
  memset(&result, 0, sizeof result);
  rondo_kit_barrier_init(&result.barrier, o->ranks, rondo_kit_core_count());
  const struct rondo_forked_job job = {.ranks = o->ranks,
                                       .has_processes = o->has_processes,
                                       .main = rank_main,
                                       .arg = &arg,
                                       .shared_bytes = sizeof result};
  if (!rondo_forked_job_run(&job, &result))
    return false;
  printf("%10u %12.2f %12.2f %14llu\n", elems, result.median_ns[0] / 1e3, result.median_ns[1] / 1e3,
         (unsigned long long)result.registrations);
  (void)fflush(stdout);
  return true;
}

static bool size_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  o->size_count = number + 1;
  return number < MAX_SIZES && rondo_kit_read_u32(text, 1, 1u << 24, &o->sizes[number]);
}

#define AT(field) .offset = offsetof(struct options, field)

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"calls", 'n', "N", "Timed calls of each kind (default 10000)", RONDO_KIT_U32, AT(calls),
       .low = 1, .high = MAX_CALLS},
      {"ranks", 't', "N", "Ranks (default 4)", RONDO_KIT_U32, AT(ranks), .low = 1,
       .high = MAX_RANKS},
      {"processes", 'p', NULL, "Each rank is a process; else a thread", RONDO_KIT_FLAG,
       AT(has_processes)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = size_read,
      .args_doc = "[ELEMENTS ...]",
      .doc = "Measures all-to-all-vs whose counts are new in each call."};
  struct options o = {.calls = 10000, .ranks = 4, .sizes = {1, 16, 256, 4096}, .size_count = 4};
  rondo_kit_command_read(&command, argc, argv, &o);
  printf("# all_to_all_v of float32, %u %s, %u calls; us\n", o.ranks,
         o.has_processes ? "processes" : "threads", o.calls);
  printf("%10s %12s %12s %14s\n", "elements", "same counts", "new counts", "registrations");
  for (uint32_t i = 0; i < o.size_count; i++) {
    if (!size_measure(&o, o.sizes[i])) {
      fprintf(stderr, "bench_exchange: a job failed\n");
      return 1;
    }
  }
  return 0;
}
