#include "sim/schedule/regret.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "daemon/plan/build.h"
#include "sim/common/json.h"
#include <rondo/rondo.h>

#define LISTED_RATIO 1.1         // cells above it are in the text
#define EVENTS_A_TURN (1u << 20) // between two looks for an interrupt

static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER, RONDO_REDUCE_SCATTER,
                            RONDO_REDUCE,     RONDO_BROADCAST,  RONDO_ALL_TO_ALL};
static const uint64_t sizes[] = {8, 1 << 10, 32 << 10, 1 << 20, 16 << 20};
static const struct {
  uint32_t ranks, machines;
} shapes[] = {{2, 1}, {8, 1}, {8, 2}, {16, 2}, {64, 8}, {256, 32}, {1024, 128}};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static bool is_set(const atomic_int *stop) {
  return atomic_load_explicit(stop, memory_order_relaxed);
}

// Simulates the job of a cell by an algorithm. Sets `ns`, and `algorithm` if the cost model had to
// choose it. Stays without a result when `stop` is set.
static bool cell_play(struct rondo_schedule_job *job, int *algorithm, uint64_t *ns,
                      const atomic_int *stop, struct rondo_sim_error *error) {
  job->basic.algorithm = *algorithm;
  struct rondo_schedule_machine *m = rondo_schedule_job_make(job, error);
  if (!m) {
    return false;
  }
  while (!is_set(stop) && rondo_schedule_machine_run(m, EVENTS_A_TURN) == RONDO_SCHEDULE_RUNNING) {
  }
  *ns = rondo_schedule_machine_totals(m).makespan_ns;
  *algorithm = job->layouts[0]->shape.algorithm;
  rondo_schedule_machine_destroy(m);
  return true;
}

// A job of one collective. What it shares with `like` is `exceptions` and `model`.
static struct rondo_schedule_job cell_job(const struct rondo_schedule_job *like,
                                          const struct rondo_schedule_regret_cell *cell) {
  struct rondo_schedule_job job = *like;
  job.settings.rank_count = cell->ranks;
  job.settings.iterations = 1;
  job.machines = cell->machines;
  job.has_machines = true;
  job.takes_turns = true;
  job.basic.kind = cell->kind;
  job.basic.bytes = cell->bytes;
  job.basic.copies = job.basic.times = 1;
  job.basic.compute_ns = 0;
  job.basic.root = 0;
  return job;
}

static void cell_job_fini(struct rondo_schedule_job *job) {
  job->exceptions = NULL;
  job->model = NULL;
  rondo_schedule_job_fini(job);
}

static bool cell_run(struct rondo_schedule_regret_cell *cell, const struct rondo_schedule_job *like,
                     const atomic_int *stop, struct rondo_sim_error *error) {
  struct rondo_schedule_job chosen = cell_job(like, cell);
  cell->chosen = RONDO_SCHEDULE_CHOICE;
  bool ok = cell_play(&chosen, &cell->chosen, &cell->chosen_ns, stop, error);
  cell->best = cell->chosen;
  cell->best_ns = cell->chosen_ns;
  for (int i = 0; ok && i < RONDO_ALGORITHM_COUNT && !is_set(stop); i++) {
    if (i == cell->chosen || !rondo_schedule_job_considers(&chosen, i)) {
      continue;
    }
    struct rondo_schedule_job job = cell_job(like, cell);
    int algorithm = i;
    uint64_t ns = 0;
    ok = cell_play(&job, &algorithm, &ns, stop, error);
    if (ok && ns < cell->best_ns) {
      cell->best = i;
      cell->best_ns = ns;
    }
    cell_job_fini(&job);
  }
  cell_job_fini(&chosen);
  return ok;
}

void rondo_schedule_regret_init(struct rondo_schedule_regret *r, uint32_t rank_count) {
  *r = (struct rondo_schedule_regret){0};
  r->cells =
      rondo_sim_calloc(COUNT_OF(shapes) * COUNT_OF(kinds) * COUNT_OF(sizes), sizeof *r->cells);
  for (size_t shape = 0; shape < COUNT_OF(shapes) && shapes[shape].ranks <= rank_count; shape++) {
    for (size_t i = 0; i < COUNT_OF(kinds) * COUNT_OF(sizes); i++) {
      r->cells[r->all++] = (struct rondo_schedule_regret_cell){.bytes = sizes[i % COUNT_OF(sizes)],
                                                               .kind = kinds[i / COUNT_OF(sizes)],
                                                               .ranks = shapes[shape].ranks,
                                                               .machines = shapes[shape].machines};
    }
  }
}

bool rondo_schedule_regret_next(struct rondo_schedule_regret *r,
                                const struct rondo_schedule_job *job, const atomic_int *stop,
                                struct rondo_sim_error *error) {
  bool ok = cell_run(&r->cells[r->count], job, stop, error);
  r->count += ok && !is_set(stop);
  return ok;
}

void rondo_schedule_regret_fini(struct rondo_schedule_regret *r) { free(r->cells); }

// --------------------------------------------------------------------- reports ---

static double ratio_of(const struct rondo_schedule_regret_cell *cell) {
  return cell->best_ns ? (double)cell->chosen_ns / (double)cell->best_ns : 1;
}

double rondo_schedule_regret_mean(const struct rondo_schedule_regret *r, double *most) {
  double sum = 0;
  *most = 1;
  for (uint32_t i = 0; i < r->count; i++) {
    double ratio = ratio_of(&r->cells[i]);
    sum += log(ratio);
    *most = ratio > *most ? ratio : *most;
  }
  return r->count ? exp(sum / r->count) : 1;
}

void rondo_schedule_regret_text(struct rondo_sim_text *t, const struct rondo_schedule_regret *r) {
  double most, mean = rondo_schedule_regret_mean(r, &most);
  rondo_sim_text_add(t,
                     "%" PRIu32 " collectives, simulated by the algorithm of the cost model and "
                     "by all others that it considers%s\n",
                     r->count, r->count == r->all ? "" : " (interrupted)");
  rondo_sim_text_add(t, "chosen / best: geometric mean %.3f, most %.3f; above %.1f:\n", mean, most,
                     LISTED_RATIO);
  for (uint32_t i = 0; i < r->count; i++) {
    const struct rondo_schedule_regret_cell *c = &r->cells[i];
    if (ratio_of(c) > LISTED_RATIO) {
      rondo_sim_text_add(t,
                         "  %-14s %9" PRIu64 " B, %4" PRIu32 " ranks on %3" PRIu32
                         ": %6.3f, %s takes %.3f us, %s %.3f us\n",
                         rondo_kind_name(c->kind), c->bytes, c->ranks, c->machines, ratio_of(c),
                         rondo_plan_algorithm_name(c->chosen), (double)c->chosen_ns / 1e3,
                         rondo_plan_algorithm_name(c->best), (double)c->best_ns / 1e3);
    }
  }
}

void rondo_schedule_regret_json(struct rondo_sim_text *t, const struct rondo_schedule_regret *r) {
  double most, mean = rondo_schedule_regret_mean(r, &most);
  json_t *cells = json_array();
  for (uint32_t i = 0; i < r->count; i++) {
    const struct rondo_schedule_regret_cell *c = &r->cells[i];
    json_array_append_new(
        cells, json_pack("{s:s, s:I, s:I, s:I, s:s, s:s, s:f, s:f}", "op", rondo_kind_name(c->kind),
                         "bytes", (json_int_t)c->bytes, "ranks", (json_int_t)c->ranks, "machines",
                         (json_int_t)c->machines, "chosen", rondo_plan_algorithm_name(c->chosen),
                         "best", rondo_plan_algorithm_name(c->best), "chosen_us",
                         (double)c->chosen_ns / 1e3, "best_us", (double)c->best_ns / 1e3));
  }
  json_t *root = json_pack("{s:s, s:b, s:f, s:f, s:o}", "schema", "rondo-regret-1", "complete",
                           r->count == r->all, "mean", mean, "most", most, "cells", cells);
  rondo_sim_text_add_json(t, root, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
}
