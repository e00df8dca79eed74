#include "tools/demo/options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/demo/elastic.h"
#include "tools/kit/clock.h"
#include "tools/kit/options.h"

#define EXIT_USAGE 2
#define MAX_COLLECTIVES 10000u

static bool programs_read(const char *text, void *values) {
  struct demo_options *o = values;
  bool both = strcmp(text, "both") == 0;
  o->programs[0] = both || strcmp(text, "1") == 0;
  o->programs[1] = both || strcmp(text, "2") == 0;
  return o->programs[0] || o->programs[1];
}

static bool budget_read(const char *text, void *values) {
  int *budget = &((struct demo_options *)values)->config.budget;
  return rondo_kit_read_name(RONDO_KIT_BUDGET, text, budget) && *budget != RONDO_BUDGET_NEVER;
}

#define AT(field) .offset = offsetof(struct demo_options, field)
#define NUMBER(field, least, most) .value = RONDO_KIT_U32, AT(field), .low = (least), .high = (most)

static const struct rondo_kit_option option_table[] = {
    {.help = "What the programs do:"},
    {"program", 'p', "1|2|both",
     "1: collectives in random order; 2: the same with a device synchronisation between them "
     "(default both)",
     .read = programs_read},
    {"ranks", 'r', "N",
     "Ranks, one thread each, 1 to 64 (default 8); under a launcher, which starts one process a "
     "rank, the number of its processes",
     NUMBER(ranks, 1, DEMO_MAX_RANKS)},
    {"collectives", 'c', "N", "All-reduces in each iteration (default 8)",
     NUMBER(collectives, 1, MAX_COLLECTIVES)},
    {"min", 'b', "SIZE", "Bytes of the smallest all-reduce (default 256)", .value = RONDO_KIT_SIZE,
     AT(min_bytes)},
    {"max", 'e', "SIZE", "Bytes of the largest (default 1M)", .value = RONDO_KIT_SIZE,
     AT(max_bytes)},
    {"iterations", 'n', "N", "Iterations (default 200)", NUMBER(iterations, 1, 100000000)},
    {"seed", 's', "N", "Seed of the random orders (default 1)", .value = RONDO_KIT_U64, AT(seed),
     .high = UINT64_MAX},
    {"elastic", 0, NULL,
     "Instead: each rank is a process; one is killed and another one joins in the middle (3 ranks "
     "or more, default 4; 6 iterations or more)",
     .value = RONDO_KIT_FLAG, AT(elastic)},
    {"no-baseline", 0, NULL, "Leave out the runs without preemption, which deadlock",
     .value = RONDO_KIT_FLAG, AT(no_baseline)},
    {"watchdog", 0, "SECONDS",
     "Without preemption, call it a deadlock when a rank has waited so long (default 2); with "
     "preemption, ten times that is a failure",
     .value = RONDO_KIT_SECONDS, AT(watchdog_ns)},
    {.help = "How Rondo runs them:"},
    {"order", 0, "fifo|priority", "Order policy (default fifo)", .value = RONDO_KIT_NAME,
     .names = RONDO_KIT_ORDER, AT(config.order)},
    {"budget", 0, "adaptive|fixed", "Spin budget policy (default adaptive)", .read = budget_read},
    {"backend", 0, "host|cuda", "Where the daemons run (default host)", .value = RONDO_KIT_NAME,
     .names = RONDO_KIT_BACKEND, AT(config.backend)},
    {"devices", 0, "N",
     "Devices, between which ranks are dealt out: rank r is on device r mod N (default 1)",
     NUMBER(devices, 1, 64)},
    {"blocks", 0, "N", "Daemon blocks of each rank (default: Rondo's)",
     NUMBER(config.blocks, 1, RONDO_MAX_BLOCKS)},
    {"workers", 0, "N", "Worker threads of the process (default: Rondo's)",
     NUMBER(config.workers, 1, 256)},
    {.help = "What is printed:"},
    {"json", 0, "FILE", "Write the results as JSON, too", .value = RONDO_KIT_TEXT, AT(json_path)},
    {"quiet", 'q', NULL, "No progress, no cycles", .value = RONDO_KIT_FLAG, AT(quiet)},
    {0}};

static const char documentation[] =
    "Shows that Rondo cannot deadlock on the order of calls.\n\n"
    "Ranks issue the same all-reduces, each rank in its own random order. First without "
    "preemption, as other libraries behave: the ranks wait for each other in a cycle and the "
    "watchdog finds them. Then with it: every iteration completes and every element is checked. "
    "These are the two programs of the DFCCL paper, section 6.1."
    "\vExit status: 0 all good; 1 a wrong result, an unexpected hang, or no deadlock where one was "
    "expected; 2 usage; 130 interrupted.";

void demo_options_read(struct demo_options *options, int argc, char **argv) {
  static const struct rondo_kit_command command = {.options = option_table, .doc = documentation};
  struct demo_options defaults = {.config = RONDO_CONFIG_INIT,
                                  .devices = 1,
                                  .collectives = 8,
                                  .min_bytes = 256,
                                  .max_bytes = 1 << 20,
                                  .iterations = 200,
                                  .seed = 1,
                                  .watchdog_ns = 2 * RONDO_KIT_SECOND_NS,
                                  .programs = {true, true}};
  *options = defaults;
  rondo_kit_command_read(&command, argc, argv, options);
  if (options->min_bytes < sizeof(float) || options->min_bytes > options->max_bytes) {
    fprintf(stderr, "rondo-demo: sizes must be at least 4 bytes, and --min at most --max\n");
    exit(EXIT_USAGE);
  }
  if (!options->elastic)
    return;
  if (options->ranks == 0)
    options->ranks = DEMO_ELASTIC_RANKS;
  if (options->ranks < DEMO_ELASTIC_LEAST || options->iterations < DEMO_ELASTIC_ITERATIONS) {
    fprintf(stderr, "rondo-demo: --elastic needs at least %u ranks and %u iterations\n",
            DEMO_ELASTIC_LEAST, DEMO_ELASTIC_ITERATIONS);
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
