#include "tools/demo/options.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#include "tools/kit/clock.h"
#include "tools/kit/options.h"

#define EXIT_USAGE 2
#define MAX_COLLECTIVES 10000u

enum long_option {
  OPTION_ORDER = 256,
  OPTION_BUDGET,
  OPTION_BACKEND,
  OPTION_DEVICES,
  OPTION_BLOCKS,
  OPTION_WORKERS,
  OPTION_WATCHDOG,
  OPTION_NO_BASELINE,
  OPTION_JSON
};

static const struct argp_option option_table[] = {
    {NULL, 0, NULL, 0, "What the programs do:", 1},
    {"program", 'p', "1|2|both", 0,
     "1: collectives in random order; 2: the same with a device synchronisation between them "
     "(default both)",
     1},
    {"ranks", 'r', "N", 0,
     "Ranks, one thread each, 1 to 64 (default 8); under a launcher, which starts one process a "
     "rank, "
     "the number of its processes",
     1},
    {"collectives", 'c', "N", 0, "All-reduces in each iteration (default 8)", 1},
    {"min", 'b', "SIZE", 0, "Bytes of the smallest all-reduce (default 256)", 1},
    {"max", 'e', "SIZE", 0, "Bytes of the largest (default 1M)", 1},
    {"iterations", 'n', "N", 0, "Iterations (default 200)", 1},
    {"seed", 's', "N", 0, "Seed of the random orders (default 1)", 1},
    {"no-baseline", OPTION_NO_BASELINE, NULL, 0,
     "Leave out the runs without preemption, which deadlock", 1},
    {"watchdog", OPTION_WATCHDOG, "SECONDS", 0,
     "Without preemption, call it a deadlock when a rank has waited so long (default 2); with "
     "preemption, ten times that is a failure",
     1},
    {NULL, 0, NULL, 0, "How Rondo runs them:", 2},
    {"order", OPTION_ORDER, "fifo|priority", 0, "Order policy (default fifo)", 2},
    {"budget", OPTION_BUDGET, "adaptive|fixed", 0, "Spin budget policy (default adaptive)", 2},
    {"backend", OPTION_BACKEND, "host|cuda", 0, "Where the daemons run (default host)", 2},
    {"devices", OPTION_DEVICES, "N", 0,
     "Devices, between which ranks are dealt out: rank r is on device r mod N (default 1)", 2},
    {"blocks", OPTION_BLOCKS, "N", 0, "Daemon blocks of each rank (default: Rondo's)", 2},
    {"workers", OPTION_WORKERS, "N", 0, "Worker threads of the process (default: Rondo's)", 2},
    {NULL, 0, NULL, 0, "What is printed:", 3},
    {"json", OPTION_JSON, "FILE", 0, "Write the results as JSON, too", 3},
    {"quiet", 'q', NULL, 0, "No progress, no cycles", 3},
    {NULL, 0, NULL, 0, NULL, 0}};

static bool programs_read(const char *text, bool programs[2]) {
  bool both = strcmp(text, "both") == 0;
  bool first = both || strcmp(text, "1") == 0;
  bool second = both || strcmp(text, "2") == 0;
  if (!first && !second)
    return false;
  programs[0] = first;
  programs[1] = second;
  return true;
}

static bool workload_read(struct demo_options *o, int key, const char *text) {
  switch (key) {
  case 'p':
    return programs_read(text, o->programs);
  case 'r':
    return rondo_kit_read_u32(text, 1, DEMO_MAX_RANKS, &o->ranks);
  case 'c':
    return rondo_kit_read_u32(text, 1, MAX_COLLECTIVES, &o->collectives);
  case 'b':
    return rondo_kit_read_size(text, &o->min_bytes);
  case 'e':
    return rondo_kit_read_size(text, &o->max_bytes);
  case 'n':
    return rondo_kit_read_u32(text, 1, 100000000, &o->iterations);
  case 's':
    return rondo_kit_read_number(text, 0, UINT64_MAX, &o->seed);
  default:
    return rondo_kit_read_seconds(text, &o->watchdog_ns);
  }
}

static bool runtime_read(struct demo_options *o, int key, const char *text) {
  switch (key) {
  case OPTION_ORDER:
    return rondo_kit_read_order(text, &o->order);
  case OPTION_BUDGET:
    return rondo_kit_read_budget(text, &o->budget) && o->budget != RONDO_BUDGET_NEVER;
  case OPTION_BACKEND:
    return rondo_kit_read_backend(text, &o->backend);
  case OPTION_DEVICES:
    return rondo_kit_read_u32(text, 1, 64, &o->devices);
  case OPTION_BLOCKS:
    return rondo_kit_read_u32(text, 1, RONDO_MAX_BLOCKS, &o->blocks);
  default:
    return rondo_kit_read_u32(text, 1, 256, &o->workers);
  }
}

static const char *option_name(int key) {
  for (const struct argp_option *o = option_table; o->name || o->group; o++)
    if (o->name && o->key == key)
      return o->name;
  return "?";
}

static error_t option_parse(int key, char *text, struct argp_state *state) {
  struct demo_options *o = state->input;
  bool understood = true;
  switch (key) {
  case 'p':
  case 'r':
  case 'c':
  case 'b':
  case 'e':
  case 'n':
  case 's':
  case OPTION_WATCHDOG:
    understood = workload_read(o, key, text);
    break;
  case OPTION_ORDER:
  case OPTION_BUDGET:
  case OPTION_BACKEND:
  case OPTION_DEVICES:
  case OPTION_BLOCKS:
  case OPTION_WORKERS:
    understood = runtime_read(o, key, text);
    break;
  case OPTION_NO_BASELINE:
    o->baseline = false;
    break;
  case OPTION_JSON:
    o->json_path = text;
    break;
  case 'q':
    o->quiet = true;
    break;
  case ARGP_KEY_ARG:
    argp_error(state, "no argument is expected: '%s'", text);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!understood)
    argp_error(state, "--%s does not take '%s'", option_name(key), text);
  return 0;
}

static const char documentation[] =
    "Shows that Rondo cannot deadlock on the order of calls.\n\n"
    "Ranks issue the same all-reduces, each rank in its own random order. First without "
    "preemption, "
    "as other libraries behave: the ranks wait for each other in a cycle and the watchdog finds "
    "them. Then with it: every iteration completes and every element is checked. These are the two "
    "programs of the DFCCL paper, section 6.1."
    "\vExit status: 0 all good; 1 a wrong result, an unexpected hang, or no deadlock where one was "
    "expected; 2 usage; 130 interrupted.";

void demo_options_read(struct demo_options *options, int argc, char **argv) {
  struct demo_options defaults = {.devices = 1,
                                  .collectives = 8,
                                  .min_bytes = 256,
                                  .max_bytes = 1 << 20,
                                  .iterations = 200,
                                  .seed = 1,
                                  .watchdog_ns = 2 * RONDO_KIT_SECOND_NS,
                                  .programs = {true, true},
                                  .baseline = true};
  static const struct argp argp = {
      .options = option_table, .parser = option_parse, .doc = documentation};
  *options = defaults;
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, options);
  if (options->min_bytes < sizeof(float) || options->min_bytes > options->max_bytes) {
    fprintf(stderr, "rondo-demo: sizes must be at least 4 bytes, and --min at most --max\n");
    exit(EXIT_USAGE);
  }
}

uint64_t demo_options_bytes(const struct demo_options *options, uint32_t index) {
  if (options->collectives == 1)
    return options->max_bytes;
  double share = (double)index / (options->collectives - 1);
  double ratio = (double)options->max_bytes / (double)options->min_bytes;
  return (uint64_t)((double)options->min_bytes * pow(ratio, share) + 0.5);
}
