// rondo-demo: the two programs of the DFCCL paper, section 6.1, first without preemption, which
// deadlocks, then with it.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/demo/elastic.h"
#include "tools/demo/options.h"
#include "tools/demo/print.h"
#include "tools/demo/program.h"
#include "tools/kit/machine.h"
#include "tools/kit/output.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define EXIT_INTERRUPTED 130

// With preemption no rank should come near the watchdog, however busy the machine is.
#define PATIENCE 10u

struct demo {
  struct demo_options options;
  struct rondo_kit_processes *processes; // null: all ranks are threads of this process
  bool disordered;
  json_t *results; // an array
  int exit_status;
  bool is_over;
};

// Whether this process prints: rank 0, or the only process.
static bool process_prints(const struct demo *demo) {
  return rondo_kit_processes_rank(demo->processes) == 0;
}

static void interrupt_handle(int signal_number) {
  demo_interrupt();
  signal(signal_number, SIG_DFL); // a second signal ends the program at once
}

static bool outcome_is_expected(const struct demo *demo, const struct demo_program *program,
                                const struct demo_outcome *outcome) {
  bool never = program->budget == RONDO_BUDGET_NEVER;
  int expected = never && demo->disordered ? DEMO_DEADLOCKED : DEMO_COMPLETED;
  return outcome->wrong == 0 && (outcome->end == expected || outcome->end == DEMO_INTERRUPTED);
}

static void outcome_judge(struct demo *demo, const struct demo_program *program,
                          const struct demo_outcome *outcome) {
  bool good = outcome_is_expected(demo, program, outcome);
  demo_print_outcome(program, outcome, good);
  if (outcome->end != DEMO_REFUSED && !outcome->is_apart && program->budget != RONDO_BUDGET_NEVER)
    demo_print_ranks(program, outcome);
  json_array_append_new(demo->results, demo_json_outcome(program, outcome, good));
  if (outcome->end == DEMO_REFUSED)
    demo->exit_status = EXIT_USAGE;
  else if (!good)
    demo->exit_status = EXIT_BAD;
  else if (outcome->end == DEMO_INTERRUPTED && demo->exit_status == 0)
    demo->exit_status = EXIT_INTERRUPTED;
}

// Runs a program once, with or without preemption. Returns whether the demo goes on.
static bool program_run_once(struct demo *demo, bool synchronize, int budget) {
  bool never = budget == RONDO_BUDGET_NEVER;
  struct demo_program program = {&demo->options, demo->processes, synchronize, budget,
                                 demo->options.watchdog_ns * (never ? 1 : PATIENCE)};
  struct demo_progress progress = {never ? "preemption off" : "preemption on",
                                   demo->options.iterations, 0};
  struct demo_outcome outcome;
  int status = demo_program_run(
      &program, demo->options.quiet || !process_prints(demo) ? NULL : demo_print_progress,
      &progress, &outcome);
  demo_print_progress_end(&progress);
  if (status == 0) {
    outcome_judge(demo, &program, &outcome);
  } else {
    fprintf(stderr, "rondo-demo: no memory or no threads for %u ranks\n", demo->options.ranks);
    demo->exit_status = EXIT_BAD;
  }
  // All processes go on, or none: they decide by the outcome that all of them have.
  bool ended = outcome.end == DEMO_REFUSED || outcome.end == DEMO_INTERRUPTED || outcome.is_apart;
  demo->is_over = status != 0 || ended;
  demo_outcome_fini(&outcome);
  return !demo->is_over;
}

static void program_run(struct demo *demo, int number) {
  bool synchronize = number == 2;
  printf("\nProgram %d: %s\n", number,
         synchronize ? "a device synchronisation between the collectives"
                     : "collectives in random order");
  if (!demo->options.no_baseline && !demo->disordered)
    printf("  (every rank happens to use the same order: no deadlock is expected)\n");
  fflush(stdout);
  if (!demo->options.no_baseline && !program_run_once(demo, synchronize, RONDO_BUDGET_NEVER))
    return;
  program_run_once(demo, synchronize, demo->options.config.budget);
}

static void json_write(struct demo *demo) {
  json_t *root = json_pack("{s:o, s:O, s:i}", "options", demo_json_options(&demo->options),
                           "results", demo->results, "exit_status", demo->exit_status);
  if (!rondo_kit_output_save(demo->options.json_path, json_dumps(root, JSON_INDENT(1))))
    demo->exit_status = EXIT_BAD;
  json_decref(root);
}

static void verdict_print(const struct demo *demo) {
  switch (demo->exit_status) {
  case 0:
    printf("\nGood: %severy run with preemption completed, every element is right.\n",
           !demo->options.no_baseline && demo->disordered ? "without preemption it deadlocks; "
                                                          : "");
    break;
  case EXIT_BAD:
    printf("\nNOT GOOD: see above.\n");
    break;
  default:
    break;
  }
}

// Ranks are processes if a launcher started this one, else threads. Ends the program on a failure.
static void ranks_find(struct demo *demo) {
  int status = rondo_kit_processes_open(&demo->processes);
  if (status != RONDO_SUCCESS)
    exit(status == RONDO_ERR_UNSUPPORTED || status == RONDO_ERR_INVALID ? EXIT_USAGE : EXIT_BAD);
  if (demo->processes && demo->options.elastic) {
    if (process_prints(demo))
      fprintf(stderr, "rondo-demo: --elastic starts its processes itself, without a launcher\n");
    rondo_kit_processes_close(demo->processes);
    exit(EXIT_USAGE);
  }
  uint32_t *ranks = &demo->options.ranks;
  uint32_t launched =
      demo->processes ? rondo_kit_processes_count(demo->processes) : DEMO_DEFAULT_RANKS;
  if (*ranks == 0)
    *ranks = launched;
  if (*ranks <= DEMO_MAX_RANKS && (!demo->processes || *ranks == launched))
    return;
  if (process_prints(demo))
    fprintf(stderr,
            "rondo-demo: %u ranks, and the launcher has started %u processes (at most %u)\n",
            *ranks, launched, DEMO_MAX_RANKS);
  rondo_kit_processes_close(demo->processes);
  exit(EXIT_USAGE);
}

// The demo does not begin if there is no memory for its buffers, or if its results cannot be
// written.
static void machine_check(const struct demo *demo) {
  const struct demo_options *o = &demo->options;
  const char *path = process_prints(demo) ? o->json_path : NULL;
  double bytes = 0;
  for (uint32_t i = 0; i < o->collectives; i++)
    bytes += 2.0 * (double)demo_options_bytes(o, i) * (demo->processes ? 1 : o->ranks);
  if ((!path || rondo_kit_output_check(path)) && rondo_kit_machine_offers(bytes))
    return;
  rondo_kit_processes_close(demo->processes);
  exit(EXIT_USAGE);
}

// The program of elastic.h, and its verdict.
static void elastic_run(struct demo *demo) {
  printf("\nMembers change: one process is killed, and another one joins\n");
  switch (demo_elastic_run(&demo->options, demo->results)) {
  case DEMO_ELASTIC_GOOD:
    printf("\nGood: the others went on, the new process takes part, every element is right.\n");
    break;
  case DEMO_ELASTIC_INTERRUPTED:
    demo->exit_status = EXIT_INTERRUPTED;
    break;
  default:
    printf("\nNOT GOOD: see above.\n");
    demo->exit_status = EXIT_BAD;
  }
}

int main(int argc, char **argv) {
  struct demo demo = {.exit_status = 0};
  rondo_kit_output_begin(EXIT_BAD);
  demo_options_read(&demo.options, argc, argv);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = interrupt_handle;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  ranks_find(&demo);
  machine_check(&demo);
  demo.disordered = demo_program_is_disordered(&demo.options);
  demo.results = json_array();
  demo_print_head(&demo.options, demo.processes != NULL);
  if (demo.options.elastic)
    elastic_run(&demo);
  for (int number = 1; number <= 2 && !demo.options.elastic; number++)
    if (demo.options.programs[number - 1] && !demo.is_over)
      program_run(&demo, number);
  if (!demo.options.elastic)
    verdict_print(&demo);
  if (demo.options.json_path && process_prints(&demo))
    json_write(&demo);
  json_decref(demo.results);
  rondo_kit_processes_close(demo.processes);
  return demo.exit_status;
}
