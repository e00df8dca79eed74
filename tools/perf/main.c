// rondo-perf: measures the collectives of Rondo, one thread a rank, or one process if a launcher
// starts them.
#include <stdio.h>
#include <string.h>

#include "tools/kit/machine.h"
#include "tools/kit/output.h"
#include "tools/kit/serve.h"
#include "tools/perf/job.h"
#include "tools/perf/options.h"
#include "tools/perf/table.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2

// Where the sweep stands: sizes within roots within reductions within types within cycles.
struct sweep {
  const struct perf_options *options;
  struct perf_table table;
  struct perf_line line;
  struct perf_point point;
  uint64_t bytes;
  uint32_t cycle;
};

static uint64_t bytes_next(const struct perf_options *o, uint64_t bytes) {
  uint64_t next = (uint64_t)((double)bytes * o->step_factor);
  if (o->step_bytes > 0)
    next = bytes + o->step_bytes;
  return next > bytes ? next : bytes + 1;
}

// Goes on to the next line; the cycle counts up when all lines have been.
static void sweep_advance(struct sweep *s) {
  const struct perf_options *o = s->options;
  const struct rondo_kit_shape *first = &o->point.shape;
  struct rondo_kit_shape *shape = &s->point.shape;
  bool rooted = o->point.is_mixed || rondo_kit_shape_is_rooted(shape->kind);
  bool reduces = rondo_kit_shape_reduces(shape->kind);
  s->bytes = bytes_next(o, s->bytes);
  if (shape->kind == RONDO_BARRIER) { // has neither sizes nor types
    s->cycle++;
    return;
  }
  if (s->bytes <= o->max_bytes)
    return;
  s->bytes = o->min_bytes;
  if (o->all_roots && rooted && ++shape->root < o->setup.ranks)
    return;
  shape->root = first->root;
  if (o->all_redops && reduces && ++shape->redop < RONDO_REDOP_COUNT)
    return;
  shape->redop = first->redop;
  if (o->all_dtypes && ++shape->dtype < RONDO_DTYPE_COUNT)
    return;
  shape->dtype = first->dtype;
  s->cycle++;
}

static bool sweep_next(void *arg, struct perf_point *point) {
  struct sweep *s = arg;
  rondo_kit_shape_size(&s->point.shape, s->bytes);
  *point = s->point;
  return s->cycle < s->options->cycles;
}

// Keeps the counts, which the next point overwrites.
static void line_take_counts(struct perf_line *line, const struct perf_point *point,
                             const struct perf_result *result) {
  memset(&line->totals[point->in_place], 0, sizeof line->totals[point->in_place]);
  line->counts[point->in_place] = NULL;
  if (!result->counts)
    return;
  perf_counts_total(&line->totals[point->in_place], result->counts, point->in_flight);
  line->counts[point->in_place] = perf_counts_json(result->counts, point->in_flight);
}

static void sweep_finished(void *arg, const struct perf_point *point,
                           const struct perf_result *result) {
  struct sweep *s = arg;
  s->line.point = *point;
  bool last = point->in_place || !perf_point_may_be_in_place(point);
  s->line.results[point->in_place] = *result;
  line_take_counts(&s->line, point, result);
  if (last) {
    if (!point->in_place) { // there is none: the same figures twice, as nccl-tests has columns for
                            // both
      s->line.results[1] = *result;
      s->line.counts[1] = NULL;
    }
    perf_table_add(&s->table, &s->line);
    sweep_advance(s);
  }
  s->point.in_place = !last;
}

// ---------------------------------------------------------------- serving ----

struct service {
  const struct perf_options *options;
  struct rondo_kit_request request;
  double held_bytes; // of buffers, which only grow
  bool greeted;
};

static struct perf_point request_point(const struct service *s) {
  const struct rondo_kit_request *r = &s->request;
  struct perf_point point = s->options->point;
  point.shape.kind = r->kind;
  point.shape.root = 0;
  if (s->options->all_dtypes)
    point.shape.dtype = RONDO_FLOAT32;
  rondo_kit_shape_size(&point.shape, r->bytes);
  point.is_mixed = false;
  point.in_flight = r->in_flight;
  point.orders = r->orders;
  if (r->wait != RONDO_KIT_SERVE_ANY_WAIT)
    point.wait = r->wait;
  point.in_place = r->in_place;
  point.schedule = rondo_kit_serve_schedule(r);
  point.schedule.batch = s->options->point.schedule.batch;
  point.schedule.free_running = s->options->point.schedule.free_running;
  return point;
}

// Whether the point can be measured; if not, answers why.
static bool service_accepts(struct service *s, const struct perf_point *point) {
  const struct perf_setup *setup = &s->options->setup;
  char text[PERF_MEMORY_TEXT_BYTES];
  uint64_t available = rondo_kit_machine_available();
  if (setup->depth > 1 && point->in_flight > 1) {
    rondo_kit_serve_error("--agg_iters and several collectives in flight");
    return false;
  }
  if (available > 0)
    available += (uint64_t)s->held_bytes;
  if (!perf_memory_suffices(setup, point, available, text)) {
    rondo_kit_serve_error(text);
    return false;
  }
  double bytes = perf_memory_bytes(setup, point);
  s->held_bytes = bytes > s->held_bytes ? bytes : s->held_bytes;
  return true;
}

static bool service_next(void *arg, struct perf_point *point) {
  struct service *s = arg;
  if (!s->greeted)
    rondo_kit_serve_ready("rondo");
  s->greeted = true;
  while (rondo_kit_serve_next(&s->request)) {
    *point = request_point(s);
    if (service_accepts(s, point))
      return true;
  }
  return false;
}

static void service_finished(void *arg, const struct perf_point *point,
                             const struct perf_result *result) {
  struct service *s = arg;
  if (result->status != RONDO_SUCCESS)
    rondo_kit_serve_error(rondo_status_name(result->status));
  else
    rondo_kit_serve_answer(&s->request, rondo_kit_shape_bytes(&point->shape), &result->stats,
                           result->wrong);
}

static int refusal_print(int status) {
  fprintf(stderr, "rondo-perf: cannot start: %s (%s)\n", rondo_status_name(status),
          rondo_status_string(status));
  return status == RONDO_ERR_UNSUPPORTED || status == RONDO_ERR_INVALID ? EXIT_USAGE : EXIT_BAD;
}

static int options_perform(const struct perf_options *options) {
  struct service service = {.options = options};
  struct sweep sweep = {.options = options, .point = options->point, .bytes = options->min_bytes};
  struct perf_source source = {sweep_next, sweep_finished, &sweep};
  bool good = false;
  if (options->serve)
    source = (struct perf_source){service_next, service_finished, &service};
  else
    perf_table_begin(&sweep.table, options);
  int status = perf_job_run(&options->setup, &source, &good);
  if (status != RONDO_SUCCESS)
    return refusal_print(status);
  int end = options->serve ? 0 : perf_table_end(&sweep.table);
  // The table of ranks other than 0 is empty.
  return end == 0 && !good && !options->serve ? EXIT_BAD : end;
}

int main(int argc, char **argv) {
  struct perf_options options;
  struct rondo_kit_processes *processes;
  rondo_kit_output_begin(EXIT_BAD);
  int status = rondo_kit_processes_open(&processes);
  if (status != RONDO_SUCCESS)
    return refusal_print(status);
  perf_options_read(&options, processes, argc, argv);
  status = options_perform(&options);
  rondo_kit_processes_close(processes);
  return status;
}
