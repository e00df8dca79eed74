#include "tools/perf/options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/output.h"
#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"

#define EXIT_USAGE 2
#define MAX_PERF_RANKS 1024u
#define MAX_ITERS 1000000u

// Where the points begin, and whether they go on to the end: "all".
static bool start_read(enum rondo_kit_names names, const char *text, int *start, bool *all) {
  *all = strcmp(text, "all") == 0;
  if (*all)
    *start = 0;
  return *all || rondo_kit_read_name(names, text, start);
}

static bool redop_read(const char *text, void *values) {
  struct perf_options *o = values;
  return start_read(RONDO_KIT_REDOP, text, &o->point.shape.redop, &o->all_redops);
}

static bool dtype_read(const char *text, void *values) {
  struct perf_options *o = values;
  return start_read(RONDO_KIT_DTYPE, text, &o->point.shape.dtype, &o->all_dtypes);
}

static bool root_read(const char *text, void *values) {
  struct perf_options *o = values;
  o->all_roots = strcmp(text, "all") == 0;
  return rondo_kit_read_u32(o->all_roots ? "0" : text, 0, MAX_PERF_RANKS - 1, &o->point.shape.root);
}

static bool kind_read(const char *text, void *values) {
  struct perf_options *o = values;
  o->point.is_mixed = strcmp(text, "mixed") == 0;
  return rondo_kit_read_name(RONDO_KIT_KIND, o->point.is_mixed ? "all_reduce" : text,
                             &o->point.shape.kind);
}

static bool step_factor_read(const char *text, void *values) {
  struct perf_options *o = values;
  char *end;
  o->step_factor = strtod(text, &end);
  o->step_bytes = 0;
  return end != text && !*end && o->step_factor > 1 && o->step_factor <= 1e9;
}

static bool method_read(const char *text, void *values) {
  struct perf_options *o = values;
  o->point.schedule.free_running = strcmp(text, "free") == 0;
  return o->point.schedule.free_running || strcmp(text, "barrier") == 0;
}

// RANK=SECONDS
static bool late_read(const char *text, void *values) {
  struct perf_setup *setup = &((struct perf_options *)values)->setup;
  char rank[16];
  const char *equals = strchr(text, '=');
  size_t length = equals ? (size_t)(equals - text) : 0;
  if (length == 0 || length >= sizeof rank)
    return false;
  (void)snprintf(rank, sizeof rank, "%.*s", (int)length, text);
  return rondo_kit_read_u32(rank, 0, MAX_PERF_RANKS - 1, &setup->late_rank) &&
         rondo_kit_read_seconds(equals + 1, &setup->late_ns);
}

#define AT(field) .offset = offsetof(struct perf_options, field)
#define NUMBER(field, least, most) .value = RONDO_KIT_U32, AT(field), .low = (least), .high = (most)
#define NAME(set, field) .value = RONDO_KIT_NAME, .names = (set), AT(field)

static const struct rondo_kit_option option_table[] = {
    {.help = "As in nccl-tests:"},
    {"nthreads", 't', "N",
     "Ranks, at most 1024, one thread each (default: one a core, at least 2); under a launcher, "
     "which starts one process a rank, the number of its processes",
     NUMBER(setup.ranks, 1, MAX_PERF_RANKS)},
    {"minbytes", 'b', "SIZE", "Least size (default 8)", .value = RONDO_KIT_SIZE, AT(min_bytes)},
    {"maxbytes", 'e', "SIZE", "Greatest size (default 32M)", .value = RONDO_KIT_SIZE,
     AT(max_bytes)},
    {"stepbytes", 'i', "SIZE", "Add this to get the next size", .value = RONDO_KIT_SIZE,
     AT(step_bytes), .low = 1},
    {"stepfactor", 'f', "FACTOR", "Multiply by this to get the next size (default 4)",
     .read = step_factor_read},
    {"redop", 'o', "sum|prod|min|max|avg|premul_sum|all", "Reduction (default sum)",
     .read = redop_read},
    {"datatype", 'd', "TYPE|all", "Element type, by its NCCL or Rondo name (default float)",
     .read = dtype_read},
    {"root", 'r', "N|all", "Root of kinds that have one (default 0)", .read = root_read},
    {"iters", 'n', "N", "Timed iterations (default 20)",
     NUMBER(point.schedule.iters_min, 1, MAX_ITERS)},
    {"warmup_iters", 'w', "N", "Iterations before (default 5)",
     NUMBER(point.schedule.warmup, 0, MAX_ITERS)},
    {"agg_iters", 'm', "N",
     "Runs of the collective in flight in each iteration, each with buffers of its own; "
     "times are for one (default 1)",
     NUMBER(setup.depth, 1, 1024)},
    {"run_cycles", 'N', "N", "Print the whole table so often (default 1)",
     NUMBER(cycles, 1, MAX_ITERS)},
    {"check", 'c', "N", "Rounds of data checking, 0 for none (default 1)",
     NUMBER(point.checks, 0, MAX_ITERS)},
    {"blocking", 'z', "0|1|2|3",
     "How a rank learns that its runs have ended. 0: callbacks; 1: rondo_wait; 2: a loop over "
     "rondo_test; 3: the descriptor of rondo_event_fd, then rondo_test (default 1)",
     NUMBER(point.wait, 0, PERF_WAIT_COUNT - 1)},
    {"unalign", 'u', "N", "Displace buffers by so many elements", NUMBER(setup.unalign, 0, 15)},
    {"timeout", 'T', "SECONDS", "Give an iteration up when a wait takes so long (default 60)",
     .value = RONDO_KIT_SECONDS, AT(setup.timeout_ns)},
    {"json", 'J', "FILE", "Write the results as JSON, too", .value = RONDO_KIT_TEXT, AT(json_path)},
    {.name = "output_file"},
    {.help = "Rondo's own:"},
    {"op", 0, "COLLECTIVE",
     "all_reduce (default), all_gather, reduce_scatter, reduce, broadcast, all_to_all (alltoall), "
     "gather, scatter, send_recv (sendrecv), all_to_all_v (alltoallv) or barrier; with --in-flight "
     "also mixed: one of each kind in turn",
     .read = kind_read},
    {"algo", 0, "NAME",
     "Algorithm of the collective, if it has that one: ring, tree, direct, dissemination, "
     "doubling, "
     "binomial, halving, bruck, two-shot, one-shot, double-tree, chain+ring, binomial+ring, "
     "chain+doubling, binomial+doubling, one-shot-packets, two-shot-packets or direct-packets "
     "(default: Rondo's choice, or RONDO_ALGO)",
     .value = RONDO_KIT_TEXT, AT(algorithm)},
    {"quantise", 0, "none|int8|float8_e4m3",
     "What messages hold of an all_reduce of float by sum or avg (default none); elements count as "
     "wrong if they are off by more than the bound of docs/numerics.md",
     NAME(RONDO_KIT_QUANTISATION, point.shape.quantisation)},
    {"in-flight", 0, "N",
     "Different collectives in flight in each iteration, each with an id and buffers of its own; "
     "times are for all of them, and for one (default 1)",
     NUMBER(point.in_flight, 1, PERF_MAX_IN_FLIGHT)},
    {"orders", 0, "one|common|own",
     "one (default): all ranks submit them as they were registered; common: all ranks in one "
     "random order, another one in each iteration; own: each rank in a random order of its own, "
     "likewise",
     NAME(RONDO_KIT_ORDERS, point.orders)},
    {"seed", 0, "N", "Seed of these orders (default 1)", .value = RONDO_KIT_U64, AT(setup.seed),
     .high = INT64_MAX},
    {"late-rank", 0, "RANK=SECONDS",
     "This rank sleeps so long in each iteration before it submits; the time counts",
     .read = late_read},
    {"counters", 0, NULL,
     "Print after each line what the blocks did with the collectives, on average, and write the "
     "sums of each collective over all ranks to the JSON file",
     .value = RONDO_KIT_FLAG, AT(setup.counts)},
    {"method", 0, "barrier|free",
     "barrier (default): ranks meet before each iteration; free: they do not", .read = method_read},
    {"blocks", 0, "N", "Daemon blocks of each rank (default: Rondo's)",
     NUMBER(setup.config.blocks, 1, RONDO_MAX_BLOCKS)},
    {"workers", 0, "N", "Worker threads of the process (default: Rondo's)",
     NUMBER(setup.config.workers, 1, 256)},
    {"order", 0, "fifo|priority", "Order policy", NAME(RONDO_KIT_ORDER, setup.config.order)},
    {"budget", 0, "adaptive|fixed|never", "Spin budget policy",
     NAME(RONDO_KIT_BUDGET, setup.config.budget)},
    {"backend", 0, "host|cuda", "Where the daemons run (default host)",
     NAME(RONDO_KIT_BACKEND, setup.config.backend)},
    {"devices", 0, "N",
     "Devices, between which ranks are dealt out: rank r is on device r mod N (default 1)",
     NUMBER(setup.devices, 1, 64)},
    {"pin", 0, "0|1", "Bind the thread of rank r to core r (default 1)",
     NUMBER(setup.pinned, 0, 1)},
    {"serve", 0, NULL, "Read requests from standard input, as benchmarks/peers/compare sends them",
     .value = RONDO_KIT_FLAG, AT(serve)},
    {0}};

static const char documentation[] =
    "Measures Rondo's collectives, with the flags and in the table of nccl-tests.\n\n"
    "Inputs are rewritten before every iteration. The time of an iteration is that of its slowest "
    "rank; the table's time and bandwidths come from the median of the iterations."
    "\vExit status: 0 all good; 1 wrong elements or a failure; 2 usage.";

static void usage_refuse(const char *what) {
  fprintf(stderr, "rondo-perf: %s\n", what);
  exit(EXIT_USAGE);
}

// Ranks: the processes of the launcher, else what the user says, else one a core.
static void ranks_find(struct perf_setup *setup) {
  uint32_t launched = setup->processes ? rondo_kit_processes_count(setup->processes) : 0;
  setup->cores = rondo_kit_processes_cores(setup->processes);
  if (setup->ranks == 0)
    setup->ranks = launched > 0 ? launched : setup->cores > 2 ? setup->cores : 2;
  if (launched > 0 && setup->ranks != launched)
    usage_refuse(
        "--nthreads is another number than that of the processes that the launcher has started");
}

// The least memory that any process finds available, so that all decide alike. 0: not known.
static uint64_t available_gather(struct rondo_kit_processes *processes) {
  uint64_t least = rondo_kit_machine_available();
  if (!processes)
    return least;
  uint32_t count = rondo_kit_processes_count(processes);
  uint64_t *all = calloc(count, sizeof *all);
  if (!all ||
      rondo_kit_processes_gather(processes, &least, all, sizeof *all, NULL) != RONDO_SUCCESS)
    exit(EXIT_USAGE); // rondo_kit_processes_gather has said why
  for (uint32_t r = 0; r < count; r++)
    least = all[r] < least ? all[r] : least;
  free(all);
  return least;
}

// The program does not begin if there is no memory for its buffers, or if its results cannot be
// written. The sizes of requests are checked as they come.
static void machine_check(const struct perf_options *o) {
  bool is_speaker = rondo_kit_processes_rank(o->setup.processes) == 0;
  if (o->json_path && is_speaker && !rondo_kit_output_check(o->json_path))
    exit(EXIT_USAGE);
  if (o->serve)
    return;
  char text[PERF_MEMORY_TEXT_BYTES];
  struct perf_point point = o->point;
  rondo_kit_shape_size(&point.shape, o->max_bytes);
  if (perf_memory_suffices(&o->setup, &point, available_gather(o->setup.processes), text))
    return;
  if (is_speaker)
    fprintf(stderr, "rondo-perf: %s\n", text);
  rondo_kit_processes_close(o->setup.processes); // so that no process reports another as lost
  exit(EXIT_USAGE);
}

// Forces the algorithm by the variable that rondo_init reads.
static void algorithm_force(const struct perf_options *o) {
  int kind = o->point.shape.kind;
  char text[64];
  if (!o->algorithm)
    return;
  if (o->serve || o->point.is_mixed)
    usage_refuse("--algo is for one collective: not with --serve or --op mixed");
  if (!rondo_plan_exists(kind, rondo_plan_algorithm_find(o->algorithm), o->setup.ranks))
    usage_refuse("--algo: the collective has no such algorithm");
  (void)snprintf(text, sizeof text, "%s=%s", rondo_kind_name(kind), o->algorithm);
  (void)setenv("RONDO_ALGO", text, 1);
}

static void quantisation_check(const struct perf_options *o) {
  const struct rondo_kit_shape *s = &o->point.shape;
  bool is_sum = (s->redop == RONDO_SUM || s->redop == RONDO_AVG) && !o->all_redops;
  if (s->quantisation && (s->kind != RONDO_ALL_REDUCE || s->dtype != RONDO_FLOAT32 || !is_sum ||
                          o->all_dtypes || o->point.is_mixed || o->serve))
    usage_refuse("--quantise is for all_reduce of float by sum or avg: not with --serve");
  if (s->quantisation && o->algorithm &&
      !rondo_plan_can_quantise(s->kind, rondo_plan_algorithm_find(o->algorithm)))
    usage_refuse("--quantise: the algorithm cannot do that");
}

static void options_check(const struct perf_options *o) {
  if (o->min_bytes > o->max_bytes)
    usage_refuse("--minbytes must be at most --maxbytes");
  if (o->point.shape.root >= o->setup.ranks)
    usage_refuse("--root must be a rank");
  if (o->setup.late_ns && o->setup.late_rank >= o->setup.ranks)
    usage_refuse("--late-rank must be a rank");
  if (o->setup.counts && (o->serve || o->setup.config.backend != RONDO_BACKEND_HOST))
    usage_refuse("--counters is for the backend host: not with --serve");
  if (o->setup.depth > 1 && o->point.in_flight > 1)
    usage_refuse("--agg_iters and --in-flight cannot both be more than 1");
  if (o->point.is_mixed && o->point.in_flight == 1)
    usage_refuse("--op mixed needs --in-flight of at least 2");
  quantisation_check(o);
}

void perf_options_read(struct perf_options *options, struct rondo_kit_processes *processes,
                       int argc, char **argv) {
  static const struct rondo_kit_command command = {.options = option_table, .doc = documentation};
  struct perf_options defaults = {
      .setup = {.config = RONDO_CONFIG_INIT,
                .processes = processes,
                .pinned = 1,
                .depth = 1,
                .devices = 1,
                .seed = 1,
                .timeout_ns = 60 * RONDO_KIT_SECOND_NS},
      .point = {.shape = {.kind = RONDO_ALL_REDUCE, .dtype = RONDO_FLOAT32, .redop = RONDO_SUM},
                .in_flight = 1,
                .wait = PERF_WAIT_BLOCK,
                .checks = 1,
                .schedule = {.warmup = 5, .iters_min = 20}},
      .min_bytes = 8,
      .max_bytes = 32 << 20,
      .step_factor = 4,
      .cycles = 1};
  struct perf_point *point = &options->point;
  *options = defaults;
  rondo_kit_command_read(&command, argc, argv, options);
  ranks_find(&options->setup);
  options_check(options);
  algorithm_force(options);
  options->setup.config.collective_counters = options->setup.counts;
  point->shape.rank_count = options->setup.ranks;
  point->schedule.iters_max = point->schedule.iters_min;
  point->schedule.batch = options->setup.depth;
  options->setup.capacity = options->serve ? RONDO_KIT_SERVE_CAPACITY : point->schedule.iters_max;
  machine_check(options);
}
