#include "tools/perf/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "tools/kit/machine.h"
#include "tools/kit/output.h"

#define EXIT_BAD 1

// In GB/s, of 1e9 bytes, as nccl-tests has it: of all collectives of an iteration together.
struct bandwidths {
  double alg, bus;
};

static struct bandwidths line_bandwidths(const struct perf_line *line, int i) {
  double time_ns = line->results[i].stats.median_ns;
  struct bandwidths b = {0, 0};
  if (time_ns <= 0)
    return b;
  struct perf_bytes bytes = perf_point_bytes(&line->point);
  b.alg = bytes.all / time_ns;
  b.bus = bytes.bus / time_ns;
  return b;
}

static double run_time_us(const struct perf_line *line, int i) {
  return line->results[i].stats.median_ns / 1e3 / line->point.in_flight;
}

// What is in flight, where that is more than one collective.
static void batch_print(const struct perf_options *o) {
  if (o->point.in_flight == 1)
    return;
  printf("# in flight: %" PRIu32 " different collectives (%s), submitted ", o->point.in_flight,
         perf_point_name(&o->point));
  if (o->point.orders == RONDO_KIT_ORDERS_ONE)
    printf("by all ranks in one order\n");
  else
    printf("by %s, another one in each iteration (seed %" PRIu64 ")\n",
           o->point.orders == RONDO_KIT_ORDERS_OWN ? "each rank in an order of its own"
                                                   : "all ranks in one random order",
           o->setup.seed);
  printf("# times and bandwidths are of all %" PRIu32
         " runs together; the columns \"a run\" divide "
         "the median by %" PRIu32 "; size and count are of one run\n",
         o->point.in_flight, o->point.in_flight);
}

static void setup_print(const struct perf_options *o) {
  const struct perf_setup *s = &o->setup;
  struct rondo_tuning tuning;
  char text[RONDO_TUNING_TEXT_BYTES];
  memset(&tuning, 0, sizeof(tuning));
  printf("# %s %" PRIu32 " minBytes %" PRIu64 " maxBytes %" PRIu64 " warmup iters: %" PRIu32
         " iters: %" PRIu32 " runs in flight: %" PRIu32 " validation: %" PRIu32 " unalign: %" PRIu32
         "\n",
         s->processes ? "nProcess" : "nThread", s->ranks, o->min_bytes, o->max_bytes,
         o->point.schedule.warmup, o->point.schedule.iters_min, s->depth * o->point.in_flight,
         o->point.checks, s->unalign);
  batch_print(o);
  printf("# backend %s, blocks %" PRIu32 ", workers %" PRIu32
         " (0: default), order %s, budget %s, waits by %s, %s, threads %s\n",
         rondo_kit_name(RONDO_KIT_BACKEND, s->config.backend), s->config.blocks, s->config.workers,
         rondo_kit_name(RONDO_KIT_ORDER, s->config.order),
         rondo_kit_name(RONDO_KIT_BUDGET, s->config.budget), perf_wait_name(o->point.wait),
         o->point.schedule.free_running ? "ranks run free" : "a barrier before each iteration",
         s->pinned ? "pinned" : "not pinned");
  if (s->late_ns)
    printf("# rank %" PRIu32 " submits %g us after the others, which is part of all times\n",
           s->late_rank, (double)s->late_ns / 1e3);
  int quantisation = o->point.shape.quantisation;
  if (quantisation)
    printf("# messages: quantised to %s\n", rondo_quantisation_name(quantisation));
  const char *pinned = getenv("RONDO_TUNING");
  if (pinned)
    printf("# RONDO_TUNING=%s\n", pinned);
  else if (rondo_tuning_print(&tuning, text, sizeof(text)) == RONDO_SUCCESS)
    printf("# tuning (0: default of this machine): %s\n", text);
}

static void columns_print(bool has_several) {
  printf("#\n# time: median of the iterations, the slowest rank of each; mean and min likewise\n");
  printf("# %10s  %12s  %8s  %6s  %6s  %32s  %32s\n", "", "", "", "", "", "out-of-place          ",
         "in-place            ");
  // One more column a half, if there are several runs in an iteration.
  const char *head = has_several ? "  a run    a run\n" : "\n";
  const char *unit = has_several ? "   (us) o   (us) i\n" : "\n";
  printf(
      "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %7s  %7s  %7s%s",
      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
      "busbw", "#wrong", "mean", "min", "mean", "min", head);
  printf(
      "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %7s  %7s  %7s%s",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
      "", "(us) o", "(us) o", "(us) i", "(us) i", unit);
}

void perf_table_begin(struct perf_table *table, const struct perf_options *options) {
  struct rondo_kit_machine machine;
  memset(table, 0, sizeof(*table));
  table->options = options;
  table->lines = json_array();
  rondo_kit_machine_read(&machine);
  printf("# rondo-perf version %s\n", rondo_kit_version());
  printf("# Collective test starting: %s\n", perf_point_name(&options->point));
  setup_print(options);
  rondo_kit_machine_print("# ");
  printf("# features: %s\n", machine.features);
  columns_print(options->point.in_flight > 1);
  fflush(stdout);
}

// At most `width` characters: fewer decimals for larger numbers, as nccl-tests prints.
static void number_print(double value, int width) {
  int decimals = 2;
  char text[64];
  do {
    snprintf(text, sizeof(text), "%.*f", decimals, value);
  } while ((int)strlen(text) > width && decimals-- > 0);
  printf("  %*s", width, text);
}

static void result_print(const struct perf_table *table, const struct perf_line *line, int i) {
  const struct perf_result *r = &line->results[i];
  struct bandwidths b = line_bandwidths(line, i);
  number_print(r->stats.median_ns / 1e3, 7);
  number_print(b.alg, 6);
  number_print(b.bus, 6);
  if (r->status != RONDO_SUCCESS)
    printf("  %6s", "error");
  else if (table->options->point.checks == 0)
    printf("  %6s", "N/A");
  else
    printf("  %6" PRIu64, r->wrong);
}

static json_t *result_json(const struct perf_line *line, int i) {
  const struct perf_result *r = &line->results[i];
  struct bandwidths b = line_bandwidths(line, i);
  json_t *result =
      json_pack("{s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:I, s:s}", "time",
                r->stats.median_ns / 1e3, "time_per_run", run_time_us(line, i), "alg_bw", b.alg,
                "bus_bw", b.bus, "nwrong", (json_int_t)r->wrong, "mean", r->stats.mean_ns / 1e3,
                "min", r->stats.min_ns / 1e3, "p99", r->stats.p99_ns / 1e3, "iterations",
                (json_int_t)r->stats.count, "status", rondo_status_name(r->status));
  if (line->counts[i])
    json_object_set_new(result, "counters", line->counts[i]);
  return result;
}

static void line_account(struct perf_table *table, const struct perf_line *line) {
  for (int i = 0; i < 2; i++) {
    const struct perf_result *r = &line->results[i];
    table->wrong += r->wrong;
    if (r->status != RONDO_SUCCESS) {
      fprintf(stderr, "rondo-perf: rank %" PRIu32 ": %s: %s (%s)\n", r->failed_rank, r->failed_call,
              rondo_status_name(r->status), rondo_status_string(r->status));
      table->failures++;
      continue;
    }
    table->bus_bandwidth_sum += line_bandwidths(line, i).bus;
    table->bus_bandwidth_count++;
  }
}

static void times_print(const struct perf_line *line) {
  for (int i = 0; i < 2; i++) {
    number_print(line->results[i].stats.mean_ns / 1e3, 7);
    number_print(line->results[i].stats.min_ns / 1e3, 7);
  }
  for (int i = 0; i < 2 && line->point.in_flight > 1; i++)
    number_print(run_time_us(line, i), 7);
  printf("\n");
  for (int i = 0; i < 2; i++)
    if (line->counts[i])
      perf_counts_print(i ? "in place" : "out of place", &line->totals[i]);
}

void perf_table_add(struct perf_table *table, const struct perf_line *line) {
  const struct rondo_kit_shape *shape = &line->point.shape;
  bool is_mixed = line->point.is_mixed;
  const char *redop =
      rondo_kit_shape_reduces(shape->kind) ? rondo_redop_name(shape->redop) : "none";
  int root = is_mixed || rondo_kit_shape_is_rooted(shape->kind) ? (int)shape->root : -1;
  printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", rondo_kit_shape_bytes(shape), shape->count,
         rondo_kit_dtype_label(shape->dtype), redop, root);
  for (int i = 0; i < 2; i++)
    result_print(table, line, i);
  times_print(line);
  fflush(stdout);
  line_account(table, line);
  json_array_append_new(table->lines, json_pack("{s:I, s:I, s:s, s:s, s:i, s:o, s:o}", "size",
                                                (json_int_t)rondo_kit_shape_bytes(shape), "count",
                                                (json_int_t)shape->count, "type",
                                                rondo_kit_dtype_label(shape->dtype), "redop", redop,
                                                "root", root, "out_of_place", result_json(line, 0),
                                                "in_place", result_json(line, 1)));
}

static json_t *config_json(const struct perf_options *o) {
  const struct perf_setup *setup = &o->setup;
  const struct perf_point *point = &o->point;
  const struct rondo_config *config = &setup->config;
  struct rondo_kit_machine machine;
  rondo_kit_machine_read(&machine);
  return json_pack(
      "{s:i, s:s, s:I, s:s, s:b, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s, s:s, s:s, s:s, "
      "s:i, s:s}",
      "in_flight", point->in_flight, "orders", rondo_kit_name(RONDO_KIT_ORDERS, point->orders),
      "seed", (json_int_t)setup->seed, "wait", perf_wait_name(point->wait), "callbacks",
      point->wait == PERF_WAIT_CALLBACK, "collective", perf_point_name(point), "version",
      rondo_version(), "ranks", setup->ranks, "blocks", config->blocks, "workers", config->workers,
      "depth", setup->depth, "warmup_iters", point->schedule.warmup, "iters",
      point->schedule.iters_min, "pinned", setup->pinned, "backend",
      rondo_kit_name(RONDO_KIT_BACKEND, config->backend), "order",
      rondo_kit_name(RONDO_KIT_ORDER, config->order), "budget",
      rondo_kit_name(RONDO_KIT_BUDGET, config->budget), "model", machine.model, "cores",
      machine.cores_allowed, "quantisation", rondo_quantisation_name(point->shape.quantisation));
}

static bool json_write(struct perf_table *table) {
  json_t *root = json_pack("{s:o, s:O, s:I}", "config", config_json(table->options), "results",
                           table->lines, "wrong", (json_int_t)table->wrong);
  bool good = rondo_kit_output_save(table->options->json_path, json_dumps(root, JSON_INDENT(1)));
  json_decref(root);
  return good;
}

int perf_table_end(struct perf_table *table) {
  bool good = table->wrong == 0 && table->failures == 0;
  double average =
      table->bus_bandwidth_count > 0 ? table->bus_bandwidth_sum / table->bus_bandwidth_count : 0;
  printf("# Out of bounds values : %" PRIu64 " %s\n", table->wrong, good ? "OK" : "FAILED");
  printf("# Avg bus bandwidth    : %g\n#\n", average);
  printf("# Collective test concluded: %s\n", perf_point_name(&table->options->point));
  bool is_speaker = rondo_kit_processes_rank(table->options->setup.processes) == 0;
  if (table->options->json_path && is_speaker && !json_write(table))
    good = false;
  json_decref(table->lines);
  return good ? 0 : EXIT_BAD;
}
