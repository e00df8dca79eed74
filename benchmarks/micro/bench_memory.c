// How much memory registered collectives take, and how long it takes to register them.
//
//   bench_memory [--op=KIND] [--redop=OP] [--dtype=TYPE] [--collectives=N] [--ranks=N]
//                [--processes] [--in-flight=N] [BYTES ...]
//
// Each line is a new job. Each rank registers all collectives, then runs each of them once, with
// --in-flight of them outstanding, and checks the results. The columns are in MiB:
//
//   connectors   what the counter `connector_bytes` says, summed over the processes
//   registered   by how much registering made the job larger, connectors included
//   run          by how much it was larger after all runs
//   process      the same of the largest process, counting memory that it shares as its own
//
// The size of a job is the sum of the Pss of its processes (smaps_rollup), which divides shared
// pages among those that map them. Buffers are allocated before, and do not count.
//
// Exit status: 1 if a process failed or a result was wrong.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "benchmarks/micro/forked_job.h"
#include "tools/kit/barrier.h"
#include "tools/kit/options.h"
#include "tools/kit/shape.h"
#include "tools/kit/thread_group.h"
#include <rondo/rondo.h>

#define MAX_SIZES 16u
#define MAX_COLLECTIVES 16384u
#define LONG_NS INT64_C(300000000000)
#define MIB 1048576.0

enum moment { BEFORE, REGISTERED, RUN, MOMENTS };

struct options {
  int kind, redop, dtype;
  uint32_t collectives, ranks, in_flight;
  bool has_processes;
  uint64_t sizes[MAX_SIZES];
  uint32_t size_count;
};

// What the processes share. Only rank 0 writes for a job of threads.
struct shared {
  struct rondo_kit_barrier barrier;
  struct {
    uint64_t pss_kib[MOMENTS], rss_kib[MOMENTS], connector_bytes;
    uint64_t register_ns;
  } by_rank[RONDO_FORKED_MAX_RANKS];
};

struct arg {
  const struct options *o;
  struct rondo_kit_shape shape;
};

// ------------------------------------------------------------------- a rank ---

// A number of this process, in KiB.
static uint64_t process_read_kib(const char *name) {
  char line[128];
  uint64_t kib = 0;
  FILE *file = fopen("/proc/self/smaps_rollup", "re");
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
      kib = strtoull(line + strlen(name) + 1, NULL, 10);
  if (file)
    (void)fclose(file);
  return kib;
}

// Waits for all ranks, and notes how large the process is. The barriers keep the sizes of all
// processes of one moment.
static void moment_note(struct shared *s, const struct options *o, uint32_t rank,
                        enum moment moment) {
  rondo_kit_barrier_wait(&s->barrier);
  if (o->has_processes || rank == 0) {
    s->by_rank[rank].pss_kib[moment] = process_read_kib("Pss");
    s->by_rank[rank].rss_kib[moment] = process_read_kib("Rss");
  }
  rondo_kit_barrier_wait(&s->barrier);
}

struct rank {
  struct rondo_context ctx;
  uint32_t rank;
  const struct arg *arg;
  struct rondo_collective *colls;
  char *send, *recv; // of `in_flight` runs
  uint64_t send_bytes, recv_bytes;
};

static bool rank_alloc(struct rank *r) {
  const struct options *o = r->arg->o;
  r->send_bytes = rondo_kit_shape_send_bytes(&r->arg->shape);
  r->recv_bytes = rondo_kit_shape_recv_bytes(&r->arg->shape);
  r->colls = calloc(o->collectives, sizeof *r->colls);
  r->send = malloc(o->in_flight * r->send_bytes + 1);
  r->recv = malloc(o->in_flight * r->recv_bytes + 1);
  if (!r->colls || !r->send || !r->recv)
    return false;
  memset(r->colls, 1, o->collectives * sizeof *r->colls); // all pages are there
  for (uint32_t i = 0; i < o->in_flight; i++)
    rondo_kit_shape_fill(&r->arg->shape, r->rank, i, r->send + i * r->send_bytes);
  memset(r->recv, 0, o->in_flight * r->recv_bytes);
  return true;
}

static bool rank_register(struct rank *r) {
  for (uint32_t i = 0; i < r->arg->o->collectives; i++) {
    const struct rondo_collective_desc d = rondo_kit_shape_desc(&r->arg->shape, i, r->rank);
    if (rondo_register(r->ctx, &d, &r->colls[i]) != RONDO_SUCCESS)
      return false;
  }
  return true;
}

// Submits `count` collectives from `first` on, waits for all, and checks the results.
static bool rank_run_batch(struct rank *r, uint32_t first, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (rondo_run(r->ctx, r->colls[first + i], r->send + i * r->send_bytes,
                  r->recv + i * r->recv_bytes, NULL, NULL) != RONDO_SUCCESS)
      return false;
  for (uint32_t i = 0; i < count; i++)
    if (rondo_wait(r->ctx, r->colls[first + i], RONDO_LAST_RUN, LONG_NS) != RONDO_SUCCESS ||
        rondo_kit_shape_wrong(&r->arg->shape, r->rank, i, r->recv + i * r->recv_bytes))
      return false;
  return true;
}

static bool rank_run(struct rank *r) {
  const struct options *o = r->arg->o;
  bool is_good = true;
  for (uint32_t first = 0; first < o->collectives && is_good; first += o->in_flight) {
    uint32_t left = o->collectives - first;
    is_good = rank_run_batch(r, first, left < o->in_flight ? left : o->in_flight);
  }
  return is_good;
}

// Registers and runs all collectives, and notes what that took.
static bool rank_measure(struct rank *r, struct shared *s) {
  const struct options *o = r->arg->o;
  struct rondo_counters counters;
  moment_note(s, o, r->rank, BEFORE);
  uint64_t began_ns = rondo_now_ns();
  if (!rank_register(r))
    return false;
  s->by_rank[r->rank].register_ns = rondo_now_ns() - began_ns;
  // The connectors between processes are made when all have registered.
  if (!rank_run_batch(r, o->collectives - 1, 1))
    return false;
  moment_note(s, o, r->rank, REGISTERED);
  if (!rank_run(r))
    return false;
  moment_note(s, o, r->rank, RUN);
  bool is_good = rondo_counters(r->ctx, &counters) == RONDO_SUCCESS;
  s->by_rank[r->rank].connector_bytes = counters.connector_bytes;
  rondo_kit_barrier_wait(&s->barrier); // the last rank of a process frees them
  return is_good;
}

static bool rank_main(struct rondo_context ctx, uint32_t rank, void *shared, const void *arg) {
  struct rank r = {.ctx = ctx, .rank = rank, .arg = arg};
  bool is_good = rank_alloc(&r) && rank_measure(&r, shared);
  free(r.colls);
  free(r.send);
  free(r.recv);
  return is_good;
}

// --------------------------------------------------------------- the parent ---

static void line_print(const struct options *o, uint64_t bytes, const struct shared *s) {
  uint32_t processes = o->has_processes ? o->ranks : 1;
  double sum[MOMENTS] = {0};
  double connectors = 0;
  double largest = 0;
  double seconds = 0;
  for (uint32_t i = 0; i < processes; i++) {
    for (int m = 0; m < MOMENTS; m++)
      sum[m] += (double)(s->by_rank[i].pss_kib[m] - s->by_rank[i].pss_kib[BEFORE]) / 1024;
    double rss = (double)(s->by_rank[i].rss_kib[RUN] - s->by_rank[i].rss_kib[BEFORE]) / 1024;
    largest = rss > largest ? rss : largest;
    connectors += (double)s->by_rank[i].connector_bytes / MIB;
  }
  for (uint32_t i = 0; i < o->ranks; i++)
    if ((double)s->by_rank[i].register_ns / 1e9 > seconds)
      seconds = (double)s->by_rank[i].register_ns / 1e9;
  printf("%10llu %10.1f %10.1f %10.1f %10.1f %12.3f\n", (unsigned long long)bytes, connectors,
         sum[REGISTERED], sum[RUN], largest, seconds);
  (void)fflush(stdout);
}

static bool size_measure(const struct options *o, uint64_t bytes) {
  static struct shared result;
  struct arg arg = {.o = o};
  arg.shape = (struct rondo_kit_shape){
      .kind = o->kind, .dtype = o->dtype, .redop = o->redop, .rank_count = o->ranks};
  rondo_kit_shape_size(&arg.shape, bytes);
  memset(&result, 0, sizeof result);
  rondo_kit_barrier_init(&result.barrier, o->ranks, rondo_kit_core_count());
  const struct rondo_forked_job job = {.ranks = o->ranks,
                                       .has_processes = o->has_processes,
                                       .main = rank_main,
                                       .arg = &arg,
                                       .shared_bytes = sizeof result};
  if (!rondo_forked_job_run(&job, &result))
    return false;
  line_print(o, bytes, &result);
  return true;
}

static bool size_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  o->size_count = number + 1;
  return number < MAX_SIZES && rondo_kit_read_size(text, &o->sizes[number]);
}

#define AT(field) .offset = offsetof(struct options, field)

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"op", 'o', "KIND", "Kind of the collectives (default all_reduce)", RONDO_KIT_NAME, AT(kind),
       .names = RONDO_KIT_KIND},
      {"redop", 'r', "OP", "Reduction (default sum)", RONDO_KIT_NAME, AT(redop),
       .names = RONDO_KIT_REDOP},
      {"dtype", 'd', "TYPE", "Type of the elements (default float32)", RONDO_KIT_NAME, AT(dtype),
       .names = RONDO_KIT_DTYPE},
      {"collectives", 'c', "N", "Collectives that each rank registers (default 10000)",
       RONDO_KIT_U32, AT(collectives), .low = 1, .high = MAX_COLLECTIVES},
      {"ranks", 't', "N", "Ranks (default 8)", RONDO_KIT_U32, AT(ranks), .low = 1,
       .high = RONDO_FORKED_MAX_RANKS},
      {"processes", 'p', NULL, "Each rank is a process; else a thread", RONDO_KIT_FLAG,
       AT(has_processes)},
      {"in-flight", 'i', "N", "Runs that each rank has outstanding (default 16)", RONDO_KIT_U32,
       AT(in_flight), .low = 1, .high = MAX_COLLECTIVES},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = size_read,
      .args_doc = "[BYTES ...]",
      .doc = "Measures the memory that registered collectives take."};
  struct options o = {.kind = RONDO_ALL_REDUCE,
                      .redop = RONDO_SUM,
                      .dtype = RONDO_FLOAT32,
                      .collectives = 10000,
                      .ranks = 8,
                      .in_flight = 16,
                      .sizes = {8, 1024, 4096, 16384, 65536, 1048576},
                      .size_count = 6};
  rondo_kit_command_read(&command, argc, argv, &o);
  if (!rondo_kit_shape_is_kind(o.kind)) {
    fprintf(stderr, "bench_memory: not for collectives of this kind\n");
    return 2;
  }
  printf("# %u x %s of %s %s, %u %s, %u in flight; MiB\n", o.collectives,
         rondo_kit_name(RONDO_KIT_KIND, o.kind), rondo_kit_name(RONDO_KIT_DTYPE, o.dtype),
         rondo_kit_name(RONDO_KIT_REDOP, o.redop), o.ranks,
         o.has_processes ? "processes" : "threads", o.in_flight);
  printf("%10s %10s %10s %10s %10s %12s\n", "bytes", "connectors", "registered", "run", "process",
         "register s");
  for (uint32_t i = 0; i < o.size_count; i++) {
    if (!size_measure(&o, o.sizes[i])) {
      fprintf(stderr, "bench_memory: a job failed\n");
      return 1;
    }
  }
  return 0;
}
