#include "tools/perf/options.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"
#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"
#include "tools/perf/memory.h"

#define EXIT_USAGE 2
#define MAX_PERF_RANKS 1024u
#define MAX_ITERS 1000000u

enum long_option {
  OPTION_OP = 256,
  OPTION_IN_FLIGHT,
  OPTION_ORDERS,
  OPTION_SEED,
  OPTION_BLOCKS,
  OPTION_WORKERS,
  OPTION_ORDER,
  OPTION_BUDGET,
  OPTION_BACKEND,
  OPTION_DEVICES,
  OPTION_PIN,
  OPTION_METHOD,
  OPTION_SERVE
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "As in nccl-tests:", 1},
    {"nthreads", 't', "N", 0,
     "Ranks, at most 1024, one thread each (default: one a core, at least 2); under a launcher, "
     "which starts one "
     "process a rank, the number of its processes",
     1},
    {"minbytes", 'b', "SIZE", 0, "Least size (default 8)", 1},
    {"maxbytes", 'e', "SIZE", 0, "Greatest size (default 32M)", 1},
    {"stepbytes", 'i', "SIZE", 0, "Add this to get the next size", 1},
    {"stepfactor", 'f', "FACTOR", 0, "Multiply by this to get the next size (default 4)", 1},
    {"redop", 'o', "sum|prod|min|max|avg|premul_sum|all", 0, "Reduction (default sum)", 1},
    {"datatype", 'd', "TYPE|all", 0, "Element type, by its NCCL or Rondo name (default float)", 1},
    {"root", 'r', "N|all", 0, "Root of kinds that have one (default 0)", 1},
    {"iters", 'n', "N", 0, "Timed iterations (default 20)", 1},
    {"warmup_iters", 'w', "N", 0, "Iterations before (default 5)", 1},
    {"agg_iters", 'm', "N", 0,
     "Runs of the collective in flight in each iteration, each with buffers of its own; "
     "times are for one (default 1)",
     1},
    {"run_cycles", 'N', "N", 0, "Print the whole table so often (default 1)", 1},
    {"check", 'c', "N", 0, "Rounds of data checking, 0 for none (default 1)", 1},
    {"blocking", 'z', "0|1|2|3", 0,
     "How a rank learns that its runs have ended. 0: callbacks; 1: rondo_wait; 2: a loop over "
     "rondo_test; 3: the descriptor of rondo_event_fd, then rondo_test (default 1)",
     1},
    {"unalign", 'u', "N", 0, "Displace buffers by so many elements", 1},
    {"timeout", 'T', "SECONDS", 0, "Give an iteration up when a wait takes so long (default 60)",
     1},
    {"json", 'J', "FILE", 0, "Write the results as JSON, too", 1},
    {"output_file", 0, NULL, OPTION_ALIAS, NULL, 1},
    {NULL, 0, NULL, 0, "Rondo's own:", 2},
    {"op", OPTION_OP, "COLLECTIVE", 0,
     "all_reduce (default), all_gather, reduce_scatter, reduce, broadcast, all_to_all (alltoall), "
     "gather, scatter, send_recv (sendrecv), all_to_all_v (alltoallv) or barrier; with --in-flight "
     "also mixed: one of each kind in turn",
     2},
    {"in-flight", OPTION_IN_FLIGHT, "N", 0,
     "Different collectives in flight in each iteration, each with an id and buffers of its own; "
     "times are for all of them, and for one (default 1)",
     2},
    {"orders", OPTION_ORDERS, "one|common|own", 0,
     "one (default): all ranks submit them as they were registered; common: all ranks in one "
     "random "
     "order, another one in each iteration; own: each rank in a random order of its own, likewise",
     2},
    {"seed", OPTION_SEED, "N", 0, "Seed of these orders (default 1)", 2},
    {"method", OPTION_METHOD, "barrier|free", 0,
     "barrier (default): ranks meet before each iteration; free: they do not", 2},
    {"blocks", OPTION_BLOCKS, "N", 0, "Daemon blocks of each rank (default: Rondo's)", 2},
    {"workers", OPTION_WORKERS, "N", 0, "Worker threads of the process (default: Rondo's)", 2},
    {"order", OPTION_ORDER, "fifo|priority", 0, "Order policy", 2},
    {"budget", OPTION_BUDGET, "adaptive|fixed|never", 0, "Spin budget policy", 2},
    {"backend", OPTION_BACKEND, "host|cuda", 0, "Where the daemons run (default host)", 2},
    {"devices", OPTION_DEVICES, "N", 0,
     "Devices, between which ranks are dealt out: rank r is on device r mod N (default 1)", 2},
    {"pin", OPTION_PIN, "0|1", 0, "Bind the thread of rank r to core r (default 1)", 2},
    {"serve", OPTION_SERVE, NULL, 0,
     "Read requests from standard input, as benchmarks/peers/compare sends them", 2},
    {NULL, 0, NULL, 0, NULL, 0}};

static bool flag_read(const char *text, bool *flag) {
  uint32_t value;
  if (!rondo_kit_read_u32(text, 0, 1, &value))
    return false;
  *flag = value == 1;
  return true;
}

static bool factor_read(struct perf_options *o, const char *text) {
  char *end;
  double factor = strtod(text, &end);
  if (end == text || *end || !(factor > 1) || factor > 1e9)
    return false;
  o->step_factor = factor;
  o->step_bytes = 0;
  return true;
}

static bool sweep_read(struct perf_options *o, int key, const char *text) {
  switch (key) {
  case 't':
    return rondo_kit_read_u32(text, 1, MAX_PERF_RANKS, &o->setup.ranks);
  case 'b':
    return rondo_kit_read_size(text, &o->min_bytes);
  case 'e':
    return rondo_kit_read_size(text, &o->max_bytes);
  case 'i':
    return rondo_kit_read_size(text, &o->step_bytes) && o->step_bytes > 0;
  case 'f':
    return factor_read(o, text);
  case 'o':
    o->all_redops = strcmp(text, "all") == 0;
    return o->all_redops || rondo_kit_read_redop(text, &o->redop);
  case 'd':
    o->all_dtypes = strcmp(text, "all") == 0;
    return o->all_dtypes || rondo_kit_read_dtype(text, &o->dtype);
  case 'r':
    o->all_roots = strcmp(text, "all") == 0;
    return o->all_roots || rondo_kit_read_u32(text, 0, MAX_PERF_RANKS - 1, &o->root);
  default:
    o->is_mixed = strcmp(text, "mixed") == 0;
    if (!o->is_mixed)
      return rondo_kit_read_kind(text, &o->kind);
    o->kind = RONDO_ALL_REDUCE;
    return true;
  }
}

static bool in_flight_read(struct perf_options *o, int key, const char *text) {
  switch (key) {
  case OPTION_IN_FLIGHT:
    return rondo_kit_read_u32(text, 1, PERF_MAX_IN_FLIGHT, &o->in_flight);
  case OPTION_SEED:
    return rondo_kit_read_number(text, 0, INT64_MAX, &o->setup.seed);
  default:
    return rondo_kit_orders_read(text, &o->orders);
  }
}

static bool method_read(struct perf_options *o, int key, const char *text) {
  uint32_t wait;
  switch (key) {
  case 'n':
    return rondo_kit_read_u32(text, 1, MAX_ITERS, &o->iters);
  case 'w':
    return rondo_kit_read_u32(text, 0, MAX_ITERS, &o->warmup);
  case 'm':
    return rondo_kit_read_u32(text, 1, 1024, &o->setup.depth);
  case 'N':
    return rondo_kit_read_u32(text, 1, MAX_ITERS, &o->cycles);
  case 'c':
    return rondo_kit_read_u32(text, 0, MAX_ITERS, &o->checks);
  case 'z':
    if (!rondo_kit_read_u32(text, 0, PERF_WAIT_COUNT - 1, &wait))
      return false;
    o->wait = (int)wait;
    return true;
  case 'u':
    return rondo_kit_read_u32(text, 0, 15, &o->setup.unalign);
  case 'T':
    return rondo_kit_read_seconds(text, &o->setup.timeout_ns);
  default:
    o->free_running = strcmp(text, "free") == 0;
    return o->free_running || strcmp(text, "barrier") == 0;
  }
}

static bool runtime_read(struct perf_options *o, int key, const char *text) {
  switch (key) {
  case OPTION_BLOCKS:
    return rondo_kit_read_u32(text, 1, RONDO_MAX_BLOCKS, &o->setup.blocks);
  case OPTION_WORKERS:
    return rondo_kit_read_u32(text, 1, 256, &o->setup.workers);
  case OPTION_ORDER:
    return rondo_kit_read_order(text, &o->setup.order);
  case OPTION_BUDGET:
    return rondo_kit_read_budget(text, &o->setup.budget);
  case OPTION_BACKEND:
    return rondo_kit_read_backend(text, &o->setup.backend);
  case OPTION_DEVICES:
    return rondo_kit_read_u32(text, 1, 64, &o->setup.devices);
  default:
    return flag_read(text, &o->setup.pinned);
  }
}

static const char *option_name(int key) {
  for (const struct argp_option *o = option_table; o->name || o->group; o++)
    if (o->name && o->key == key)
      return o->name;
  return "?";
}

static error_t option_parse(int key, char *text, struct argp_state *state) {
  struct perf_options *o = state->input;
  bool understood = true;
  if (key == ARGP_KEY_ARG)
    argp_error(state, "no argument is expected: '%s'", text);
  else if (key == OPTION_SERVE)
    o->serve = true;
  else if (key == 'J')
    o->json_path = text;
  else if (key == OPTION_OP || (key > 0 && key < 128 && strchr("tbeifodr", key)))
    understood = sweep_read(o, key, text);
  else if (key == OPTION_METHOD || (key > 0 && key < 128 && strchr("nwmNczuT", key)))
    understood = method_read(o, key, text);
  else if (key >= OPTION_IN_FLIGHT && key <= OPTION_SEED)
    understood = in_flight_read(o, key, text);
  else if (key >= OPTION_BLOCKS && key <= OPTION_PIN)
    understood = runtime_read(o, key, text);
  else
    return ARGP_ERR_UNKNOWN;
  if (!understood)
    argp_error(state, "--%s does not take '%s'", option_name(key), text);
  return 0;
}

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
  uint32_t cores = rondo_kit_core_count();
  if (setup->ranks == 0)
    setup->ranks = launched > 0 ? launched : cores > 2 ? cores : 2;
  if (launched > 0 && setup->ranks != launched)
    usage_refuse(
        "--nthreads is another number than that of the processes that the launcher has started");
}

static bool process_prints(const struct perf_options *o) {
  return !o->setup.processes || rondo_kit_processes_rank(o->setup.processes) == 0;
}

// The least memory that any process finds available, so that all decide alike. 0: not known.
static uint64_t available_gather(struct rondo_kit_processes *processes) {
  uint64_t least = rondo_kit_machine_available();
  if (!processes)
    return least;
  uint64_t *all = calloc(rondo_kit_processes_count(processes), sizeof *all);
  if (!all ||
      rondo_kit_processes_gather(processes, &least, all, sizeof *all, NULL) != RONDO_SUCCESS)
    exit(EXIT_USAGE); // rondo_kit_processes_gather has said why
  for (uint32_t r = 0; r < rondo_kit_processes_count(processes); r++)
    least = all[r] < least ? all[r] : least;
  free(all);
  return least;
}

// The largest point that the sweep comes to.
static struct perf_point point_largest(const struct perf_options *o) {
  struct rondo_kit_shape shape = {o->kind, o->dtype, o->redop, o->setup.ranks, 0, 0};
  rondo_kit_shape_size(&shape, o->max_bytes);
  struct perf_point point = {.shape = shape, .is_mixed = o->is_mixed, .in_flight = o->in_flight};
  return point;
}

// The program does not begin if there is no memory for its buffers, or if its results cannot be
// written. The sizes of requests are checked as they come.
static void machine_check(const struct perf_options *o) {
  if (o->json_path && process_prints(o) && !rondo_kit_output_check(o->json_path))
    exit(EXIT_USAGE);
  if (o->serve)
    return;
  char text[PERF_MEMORY_TEXT_BYTES];
  struct perf_point point = point_largest(o);
  if (perf_memory_suffices(&o->setup, &point, available_gather(o->setup.processes), text))
    return;
  if (process_prints(o))
    fprintf(stderr, "rondo-perf: %s\n", text);
  rondo_kit_processes_close(o->setup.processes); // so that no process reports another as lost
  exit(EXIT_USAGE);
}

static void options_check(const struct perf_options *o) {
  if (o->min_bytes > o->max_bytes)
    usage_refuse("--minbytes must be at most --maxbytes");
  if (!o->all_roots && o->root >= o->setup.ranks)
    usage_refuse("--root must be a rank");
  if (o->setup.depth > 1 && o->in_flight > 1)
    usage_refuse("--agg_iters and --in-flight cannot both be more than 1");
  if (o->is_mixed && o->in_flight == 1)
    usage_refuse("--op mixed needs --in-flight of at least 2");
}

void perf_options_read(struct perf_options *options, struct rondo_kit_processes *processes,
                       int argc, char **argv) {
  struct perf_options defaults = {.setup = {.processes = processes,
                                            .pinned = true,
                                            .depth = 1,
                                            .devices = 1,
                                            .seed = 1,
                                            .timeout_ns = 60 * RONDO_KIT_SECOND_NS},
                                  .kind = RONDO_ALL_REDUCE,
                                  .in_flight = 1,
                                  .wait = PERF_WAIT_BLOCK,
                                  .min_bytes = 8,
                                  .max_bytes = 32 << 20,
                                  .step_factor = 4,
                                  .iters = 20,
                                  .warmup = 5,
                                  .cycles = 1,
                                  .checks = 1,
                                  .dtype = RONDO_FLOAT32,
                                  .redop = RONDO_SUM};
  static const struct argp argp = {
      .options = option_table, .parser = option_parse, .doc = documentation};
  *options = defaults;
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, options);
  ranks_find(&options->setup);
  options_check(options);
  options->setup.capacity = options->serve ? RONDO_KIT_SERVE_CAPACITY : options->iters;
  machine_check(options);
}
