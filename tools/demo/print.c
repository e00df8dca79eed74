#include "tools/demo/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"

#define PLAIN_LINE_NS (5 * RONDO_KIT_SECOND_NS)

static double ns_to_seconds(uint64_t duration_ns) { return (double)duration_ns / 1e9; }

static bool program_preempts(const struct demo_program *program) {
  return program->budget != RONDO_BUDGET_NEVER;
}

static uint32_t options_blocks(const struct demo_options *o) {
  return o->config.blocks > 0 ? o->config.blocks : 1;
}

void demo_print_head(const struct demo_options *options, bool processes) {
  char least[RONDO_KIT_SIZE_TEXT_BYTES];
  char most[RONDO_KIT_SIZE_TEXT_BYTES];
  printf("Rondo %s: %" PRIu32 " ranks x %" PRIu32 " all-reduces of %s to %s, %" PRIu32
         " iterations, seed %" PRIu64 "\n",
         rondo_kit_version(), options->ranks, options->collectives,
         rondo_kit_size_text((double)demo_options_bytes(options, 0), least),
         rondo_kit_size_text((double)options->max_bytes, most), options->iterations, options->seed);
  printf("Every rank issues them in an order of its own, a new random one each iteration.\n");
  if (processes)
    printf("Each rank is a process of its own, started by a launcher.\n");
  rondo_kit_machine_print("On ");
  fflush(stdout);
}

static void deadlock_print(const struct demo_program *program, const struct demo_outcome *outcome,
                           bool as_expected) {
  printf("DEADLOCK in iteration %" PRIu32 "%s\n", outcome->iterations + 1,
         as_expected ? ", as expected" : "");
  const struct demo_stuck *stuck = &outcome->stuck;
  if (program->processes)
    printf("      %" PRIu32 " of %" PRIu32 " ranks have waited %.1f s", outcome->stuck_ranks,
           outcome->rank_count, ns_to_seconds(program->watchdog_ns));
  else
    printf("      A rank has waited %.1f s", ns_to_seconds(program->watchdog_ns));
  if (stuck->cycle_ranks > 0)
    printf("; %" PRIu32 " ranks wait for each other in a cycle", stuck->cycle_ranks);
  printf("%s\n", program->options->quiet ? "." : ":");
  if (!program->options->quiet)
    demo_stuck_print(stuck);
}

static void work_print(const struct demo_outcome *outcome) {
  char runs[RONDO_KIT_COUNT_TEXT_BYTES];
  char checked[RONDO_KIT_COUNT_TEXT_BYTES];
  char wrong[RONDO_KIT_COUNT_TEXT_BYTES];
  printf("      %s runs, %s elements checked, %s wrong\n",
         rondo_kit_count_text(outcome->runs, runs), rondo_kit_count_text(outcome->checked, checked),
         rondo_kit_count_text(outcome->wrong, wrong));
}

void demo_print_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                        bool as_expected) {
  printf("  preemption %s: ", program_preempts(program) ? "on " : "off");
  switch (outcome->end) {
  case DEMO_DEADLOCKED:
    deadlock_print(program, outcome, as_expected);
    break;
  case DEMO_COMPLETED:
    printf("all %" PRIu32 " iterations completed in %.2f s%s\n", outcome->iterations,
           ns_to_seconds(outcome->elapsed_ns), as_expected ? "" : "; a DEADLOCK was expected");
    break;
  case DEMO_INTERRUPTED:
    printf("interrupted after %" PRIu32 " iterations, %.2f s\n", outcome->iterations,
           ns_to_seconds(outcome->elapsed_ns));
    break;
  case DEMO_REFUSED:
    printf("refused by %s: %s (%s)\n", outcome->failed_call, rondo_status_name(outcome->status),
           rondo_status_string(outcome->status));
    break;
  default:
    printf("FAILED in iteration %" PRIu32 ": rank %" PRIu32 ": %s: %s (%s)\n",
           outcome->iterations + 1, outcome->failed_rank, outcome->failed_call,
           rondo_status_name(outcome->status), rondo_status_string(outcome->status));
  }
  if (outcome->runs > 0)
    work_print(outcome);
  fflush(stdout);
}

static void rank_row_print(const char *name, double per_block, const double *rest) {
  printf("      %4s  %17.0f  %8.0f  %8.0f  %12.0f  %12.0f  %12.0f\n", name, per_block, rest[0],
         rest[1], rest[2], rest[3], rest[4]);
}

void demo_print_ranks(const struct demo_program *program, const struct demo_outcome *outcome) {
  double blocks = options_blocks(program->options);
  double sum_per_block = 0;
  double sums[5] = {0, 0, 0, 0, 0};
  printf("      %4s  %17s  %8s  %8s  %12s  %12s  %12s\n", "rank", "preemptions/block", "quits",
         "starts", "loads", "saves", "steps");
  for (uint32_t r = 0; r < outcome->rank_count; r++) {
    const struct rondo_counters *c = &outcome->ranks[r].counters;
    double per_block = (double)c->preemptions / blocks;
    double rest[5] = {(double)c->quits, (double)c->starts, (double)c->context_loads,
                      (double)c->context_saves, (double)c->steps};
    char name[12];
    snprintf(name, sizeof(name), "%" PRIu32, r);
    rank_row_print(name, per_block, rest);
    sum_per_block += per_block / outcome->rank_count;
    for (int i = 0; i < 5; i++)
      sums[i] += rest[i] / outcome->rank_count;
  }
  rank_row_print("mean", sum_per_block, sums);
  fflush(stdout);
}

void demo_print_progress(void *progress, uint32_t done) {
  struct demo_progress *p = progress;
  uint64_t now_ns = rondo_kit_now_ns();
  bool terminal = isatty(STDERR_FILENO);
  if (p->last_ns == 0 && !terminal)
    p->last_ns = now_ns;
  if (!terminal && now_ns - p->last_ns < PLAIN_LINE_NS)
    return;
  p->last_ns = now_ns;
  fprintf(stderr, "%s  %s: iteration %" PRIu32 " of %" PRIu32 "%s", terminal ? "\r" : "", p->what,
          done, p->iterations, terminal ? "" : "\n");
}

void demo_print_progress_end(const struct demo_progress *progress) {
  if (progress->last_ns != 0 && isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K");
}

json_t *demo_json_options(const struct demo_options *options) {
  const struct rondo_config *config = &options->config;
  return json_pack("{s:i, s:i, s:I, s:I, s:i, s:I, s:s, s:s, s:s, s:i, s:i}", "ranks",
                   options->ranks, "collectives", options->collectives, "min_bytes",
                   (json_int_t)options->min_bytes, "max_bytes", (json_int_t)options->max_bytes,
                   "iterations", options->iterations, "seed", (json_int_t)options->seed, "order",
                   rondo_kit_name(RONDO_KIT_ORDER, config->order), "budget",
                   rondo_kit_name(RONDO_KIT_BUDGET, config->budget), "backend",
                   rondo_kit_name(RONDO_KIT_BACKEND, config->backend), "blocks",
                   options_blocks(options), "workers", config->workers);
}

static json_t *rank_json(const struct demo_rank_outcome *rank) {
  const struct rondo_counters *c = &rank->counters;
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "iterations",
                   (json_int_t)rank->iterations, "wrong", (json_int_t)rank->wrong, "preemptions",
                   (json_int_t)c->preemptions, "quits", (json_int_t)c->quits, "starts",
                   (json_int_t)c->starts, "context_loads", (json_int_t)c->context_loads,
                   "context_saves", (json_int_t)c->context_saves, "steps", (json_int_t)c->steps,
                   "helped", (json_int_t)c->helped);
}

// An object for each rank of the cycle.
static json_t *cycle_json(const struct demo_stuck *stuck) {
  json_t *cycle = json_array();
  for (uint32_t i = 0; i < stuck->cycle_ranks; i++) {
    uint32_t rank = stuck->cycle[i], next = stuck->cycle[(i + 1) % stuck->cycle_ranks];
    json_array_append_new(cycle,
                          json_pack("{s:i, s:I, s:I, s:i}", "rank", rank, "id",
                                    (json_int_t)stuck->executing[rank].id, "run",
                                    (json_int_t)stuck->executing[rank].run, "waits_for", next));
  }
  return cycle;
}

json_t *demo_json_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                          bool as_expected) {
  static const char *const ends[] = {"completed", "deadlocked", "failed", "interrupted", "refused"};
  json_t *ranks = json_array();
  for (uint32_t r = 0; r < outcome->rank_count; r++)
    json_array_append_new(ranks, rank_json(&outcome->ranks[r]));
  return json_pack("{s:i, s:b, s:s, s:b, s:f, s:I, s:I, s:I, s:I, s:I, s:o, s:s*, s:o}", "program",
                   program->synchronize ? 2 : 1, "preemption", program_preempts(program), "end",
                   ends[outcome->end], "as_expected", as_expected, "seconds",
                   ns_to_seconds(outcome->elapsed_ns), "iterations",
                   (json_int_t)outcome->iterations, "runs", (json_int_t)outcome->runs, "checked",
                   (json_int_t)outcome->checked, "wrong", (json_int_t)outcome->wrong, "cycle_ranks",
                   (json_int_t)outcome->stuck.cycle_ranks, "cycle", cycle_json(&outcome->stuck),
                   "report", outcome->report, "ranks", ranks);
}
