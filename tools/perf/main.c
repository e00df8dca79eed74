// rondo-perf: measures the collectives of Rondo, one thread a rank, or one process if a launcher
// starts them.
#include <stdio.h>

#include "tools/kit/machine.h"
#include "tools/kit/output.h"
#include "tools/kit/serve.h"
#include "tools/perf/job.h"
#include "tools/perf/memory.h"
#include "tools/perf/options.h"
#include "tools/perf/table.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2

// Where the sweep stands: sizes within roots within reductions within types within cycles.
struct sweep {
  const struct perf_options *options;
  struct perf_table table;
  struct perf_line line;
  uint32_t cycle;
  int dtype;
  int redop;
  uint32_t root;
  uint64_t bytes;
  bool in_place;
};

static void sweep_begin(struct sweep *s, const struct perf_options *options) {
  s->options = options;
  s->cycle = 0;
  s->dtype = options->all_dtypes ? 0 : options->dtype;
  s->redop = options->all_redops ? 0 : options->redop;
  s->root = options->all_roots ? 0 : options->root;
  s->bytes = options->min_bytes;
  s->in_place = false;
}

static uint64_t bytes_next(const struct perf_options *o, uint64_t bytes) {
  uint64_t next = (uint64_t)((double)bytes * o->step_factor);
  if (o->step_bytes > 0)
    next = bytes + o->step_bytes;
  return next > bytes ? next : bytes + 1;
}

// Goes on to the next line; the cycle counts up when all lines have been.
static void sweep_advance(struct sweep *s) {
  const struct perf_options *o = s->options;
  bool rooted = o->is_mixed || rondo_kit_shape_is_rooted(o->kind);
  bool reduces = rondo_kit_shape_reduces(o->kind);
  s->bytes = bytes_next(o, s->bytes);
  if (o->kind == RONDO_BARRIER) { // has neither sizes nor types
    s->cycle++;
    return;
  }
  if (s->bytes <= o->max_bytes)
    return;
  s->bytes = o->min_bytes;
  if (o->all_roots && rooted && ++s->root < o->setup.ranks)
    return;
  s->root = o->all_roots ? 0 : o->root;
  if (o->all_redops && reduces && ++s->redop < RONDO_REDOP_COUNT)
    return;
  s->redop = o->all_redops ? 0 : o->redop;
  if (o->all_dtypes && ++s->dtype < RONDO_DTYPE_COUNT)
    return;
  s->dtype = o->all_dtypes ? 0 : o->dtype;
  s->cycle++;
}

// What all points of a program have in common.
static struct perf_point options_point(const struct perf_options *o) {
  struct perf_point point = {.is_mixed = o->is_mixed,
                             .in_flight = o->in_flight,
                             .orders = o->orders,
                             .wait = o->wait,
                             .checks = o->checks};
  return point;
}

static bool sweep_next(void *arg, struct perf_point *point) {
  struct sweep *s = arg;
  const struct perf_options *o = s->options;
  if (s->cycle >= o->cycles)
    return false;
  struct rondo_kit_shape shape = {o->kind, s->dtype, s->redop, o->setup.ranks, s->root, 0};
  struct rondo_kit_schedule schedule = {.warmup = o->warmup,
                                        .iters_min = o->iters,
                                        .iters_max = o->iters,
                                        .batch = o->setup.depth,
                                        .free_running = o->free_running};
  rondo_kit_shape_size(&shape, s->bytes);
  *point = options_point(o);
  point->shape = shape;
  point->in_place = s->in_place;
  point->schedule = schedule;
  return true;
}

static void sweep_finished(void *arg, const struct perf_point *point,
                           const struct perf_result *result) {
  struct sweep *s = arg;
  s->line.point = *point;
  bool last = s->in_place || !perf_point_may_be_in_place(point);
  s->line.results[s->in_place] = *result;
  if (last) {
    if (!s->in_place) // there is none: the same figures twice, as nccl-tests has columns for both
      s->line.results[1] = *result;
    perf_table_add(&s->table, &s->line);
    sweep_advance(s);
  }
  s->in_place = !last;
}

// ---------------------------------------------------------------- serving ----

struct service {
  const struct perf_options *options;
  struct rondo_kit_request request;
  double held_bytes; // of buffers, which only grow
  bool greeted;
};

static struct perf_point request_point(const struct service *s) {
  const struct perf_options *o = s->options;
  const struct rondo_kit_request *r = &s->request;
  struct rondo_kit_shape shape = {r->kind, o->dtype, o->redop, o->setup.ranks, 0, 0};
  struct perf_point point = options_point(o);
  rondo_kit_shape_size(&shape, r->bytes);
  point.shape = shape;
  point.is_mixed = false;
  point.in_flight = r->in_flight;
  point.orders = r->orders;
  if (r->wait != RONDO_KIT_SERVE_ANY_WAIT)
    point.wait = (int)r->wait;
  point.in_place = r->in_place;
  point.schedule = rondo_kit_serve_schedule(r);
  point.schedule.batch = o->setup.depth;
  point.schedule.free_running = o->free_running;
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
  bool good = false;
  if (options->serve) {
    struct service service = {.options = options};
    struct perf_source source = {service_next, service_finished, &service};
    int status = perf_job_run(&options->setup, &source, &good);
    return status == RONDO_SUCCESS ? 0 : refusal_print(status);
  }
  struct sweep sweep;
  struct perf_source source = {sweep_next, sweep_finished, &sweep};
  sweep_begin(&sweep, options);
  perf_table_begin(&sweep.table, options);
  int status = perf_job_run(&options->setup, &source, &good);
  if (status != RONDO_SUCCESS)
    return refusal_print(status);
  int end = perf_table_end(&sweep.table);
  return end == 0 && !good ? EXIT_BAD : end; // the table of ranks other than 0 is empty
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
