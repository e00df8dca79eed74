#include "sim/schedule/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "daemon/plan/build.h"
#include "sim/common/json.h"
#include <rondo/rondo.h>

#define MOST_LISTED 20u // collectives in the text

// ------------------------------------------------------------------ quantiles ---

static int compare_ns(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

// Sorts the times. The q-quantile is the smallest that is not below a part q of them.
static struct rondo_schedule_quantiles quantiles_of(uint64_t *ns, uint64_t count) {
  struct rondo_schedule_quantiles q = {.count = count};
  if (count == 0) {
    return q;
  }
  qsort(ns, count, sizeof *ns, compare_ns);
  for (uint64_t i = 0; i < count; i++) {
    q.mean_ns += (double)ns[i] / (double)count;
  }
  q.least_ns = ns[0];
  q.median_ns = ns[(count - 1) / 2];
  q.p90_ns = ns[(count * 9 + 9) / 10 - 1];
  q.p99_ns = ns[(count * 99 + 99) / 100 - 1];
  q.most_ns = ns[count - 1];
  return q;
}

static uint32_t line_of(const struct rondo_schedule_machine *m,
                        const struct rondo_schedule_ended *ended) {
  return rondo_schedule_machine_collective(m, ended->collective)->line;
}

void rondo_schedule_report_init(struct rondo_schedule_report *r,
                                const struct rondo_schedule_job *job,
                                const struct rondo_schedule_machine *m) {
  uint64_t count;
  uint32_t lines = rondo_schedule_job_lines(job);
  const struct rondo_schedule_ended *ended = rondo_schedule_machine_ended(m, &count);
  uint64_t *ns = rondo_sim_calloc(count, sizeof *ns);
  uint64_t *first = rondo_sim_calloc(lines + (size_t)1, sizeof *first);
  *r = (struct rondo_schedule_report){
      .job = job, .totals = rondo_schedule_machine_totals(m), .line_count = lines};
  r->by_line = rondo_sim_calloc(lines, sizeof *r->by_line);
  for (uint64_t i = 0; i < count; i++) {
    first[line_of(m, &ended[i]) + 1]++;
  }
  for (uint64_t i = 0; i < lines; i++) {
    first[i + 1] += first[i];
  }
  for (uint64_t i = 0; i < count; i++) {
    ns[first[line_of(m, &ended[i])]++] = ended[i].ended_ns - ended[i].submitted_ns;
  }
  for (uint64_t i = lines; i > 0; i--) { // each entry has moved to the next one's begin
    uint64_t begin = i > 1 ? first[i - 2] : 0;
    r->by_line[i - 1] = quantiles_of(&ns[begin], first[i - 1] - begin);
  }
  r->latency = quantiles_of(ns, count);
  if (r->totals.makespan_ns) {
    r->bus_gb_s = job->bus_bytes * job->settings.iterations * (double)count /
                  (double)r->totals.runs / (double)r->totals.makespan_ns;
  }
  free(ns);
  free(first);
}

void rondo_schedule_report_fini(struct rondo_schedule_report *r) { free(r->by_line); }

const char *rondo_schedule_outcome_name(int outcome) {
  static const char *const names[] = {"interrupted", "done", "deadlock"};
  return names[outcome];
}

static const char *const reason_names[RONDO_SCHEDULE_REASONS] = {"no_data", "no_credit", "no_work",
                                                                 "no_core"};
static const char *const class_names[RONDO_SCHEDULE_CLASSES] = {"inside", "outside"};

static double mean_of(uint64_t sum, uint64_t count) {
  return count ? (double)sum / (double)count : 0;
}

// The algorithm of a statement, which the runtime may have chosen.
static const char *algorithm_of(const struct rondo_schedule_job *j,
                                const struct rondo_schedule_statement *x) {
  uint64_t bytes = x->kind == RONDO_BARRIER ? 0 : x->bytes;
  if (x->algorithm != RONDO_SCHEDULE_CHOICE) {
    return rondo_plan_algorithm_name(x->algorithm);
  }
  for (uint32_t i = 0; i < j->layout_count; i++) {
    const struct rondo_schedule_shape *s = &j->layouts[i]->shape;
    if (s->kind == x->kind && s->bytes == bytes && s->root == x->root &&
        s->nranks == (x->size ? x->size : j->settings.rank_count)) {
      return rondo_plan_algorithm_name(s->algorithm);
    }
  }
  return "unknown";
}

// ----------------------------------------------------------------------- JSON ---

static json_t *ns_json(uint64_t ns) { return json_real((double)ns / 1e3); }

static json_t *quantiles_json(const struct rondo_schedule_quantiles *q) {
  return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "count", (json_int_t)q->count, "least",
                   ns_json(q->least_ns), "median", ns_json(q->median_ns), "p90", ns_json(q->p90_ns),
                   "p99", ns_json(q->p99_ns), "most", ns_json(q->most_ns), "mean",
                   q->mean_ns / 1e3);
}

static json_t *traffic_json(const struct rondo_schedule_totals *t) {
  json_t *all = json_object();
  for (uint32_t i = 0; i < RONDO_SCHEDULE_CLASSES; i++) {
    json_object_set_new(all, class_names[i],
                        json_pack("{s:I, s:I}", "messages", (json_int_t)t->traffic[i].messages,
                                  "bytes", (json_int_t)t->traffic[i].bytes));
  }
  json_object_set_new(all, "most_bytes_of_a_rank", json_integer((json_int_t)t->most_rank_bytes));
  return all;
}

static json_t *path_json(const struct rondo_schedule_path *p) {
  return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "messages", (int)p->messages, "latency_us",
                   ns_json(p->latency_ns), "transfer_us", ns_json(p->transfer_ns), "link_us",
                   ns_json(p->link_ns), "block_us", ns_json(p->block_ns), "other_us",
                   ns_json(p->other_ns));
}

static json_t *scheduler_json(const struct rondo_schedule_totals *t) {
  json_t *blocked = json_object();
  for (uint32_t i = 0; i < RONDO_SCHEDULE_REASONS; i++) {
    json_object_set_new(blocked, reason_names[i], ns_json(t->blocked_ns[i]));
  }
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:i, s:I, s:I, s:o, s:o}", "steps",
                   (json_int_t)t->steps, "primitives", (json_int_t)t->primitives, "preemptions",
                   (json_int_t)t->preemptions, "loads", (json_int_t)t->loads, "saves",
                   (json_int_t)t->saves, "quits", (json_int_t)t->quits, "queue_mean",
                   mean_of(t->queue_sum, t->queue_samples), "queue_most", (int)t->queue_most,
                   "rounds", (json_int_t)t->rounds, "syncs", (json_int_t)t->syncs, "sync_us",
                   ns_json(t->sync_ns), "blocked_us", blocked);
}

static const char *const order_names[] = {"free", "static", "coordinator"};

static json_t *job_json(const struct rondo_schedule_job *j) {
  return json_pack("{s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:I}", "program",
                   *j->program  ? j->program
                   : *j->chakra ? j->chakra
                                : "one collective",
                   "ranks", (json_int_t)j->settings.rank_count, "machines", (json_int_t)j->machines,
                   "cores", (json_int_t)rondo_schedule_job_cores(j), "iterations",
                   (json_int_t)j->settings.iterations, "orders",
                   j->settings.shuffles ? "random" : "one", "order", order_names[j->settings.order],
                   "preempts", j->settings.policy.budget != RONDO_BUDGET_NEVER, "seed",
                   (json_int_t)j->settings.seed);
}

void rondo_schedule_line_name(const struct rondo_schedule_report *r, uint32_t line,
                              char name[RONDO_SCHEDULE_NAME_BYTES]) {
  uint32_t copy;
  const struct rondo_schedule_statement *x = rondo_schedule_job_line(r->job, line, &copy);
  if (*x->name && x->copies == 1) {
    snprintf(name, RONDO_SCHEDULE_NAME_BYTES, "%s", x->name);
  } else {
    snprintf(name, RONDO_SCHEDULE_NAME_BYTES, "%s%s%" PRIu32, x->name, *x->name ? " " : "",
             *x->name ? copy : line);
  }
}

static json_t *line_json(const struct rondo_schedule_report *r, uint32_t line) {
  uint32_t copy;
  char name[RONDO_SCHEDULE_NAME_BYTES];
  const struct rondo_schedule_statement *x = rondo_schedule_job_line(r->job, line, &copy);
  rondo_schedule_line_name(r, line, name);
  return json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", name, "op", rondo_kind_name(x->kind),
                   "algorithm", algorithm_of(r->job, x), "bytes", (json_int_t)x->bytes,
                   "latency_us", quantiles_json(&r->by_line[line]));
}

void rondo_schedule_report_json(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  json_t *collectives = json_array();
  for (uint32_t i = 0; i < r->line_count; i++) {
    json_array_append_new(collectives, line_json(r, i));
  }
  json_t *root =
      json_pack("{s:s, s:o, s:s, s:o, s:f, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "schema",
                "rondo-schedule-1", "job", job_json(r->job), "outcome",
                rondo_schedule_outcome_name(r->totals.outcome), "makespan_us",
                ns_json(r->totals.makespan_ns), "busbw_GBps", r->bus_gb_s, "runs",
                (json_int_t)r->totals.runs, "runs_ended", (json_int_t)r->totals.runs_ended,
                "events", (json_int_t)r->totals.events, "latency_us", quantiles_json(&r->latency),
                "scheduler", scheduler_json(&r->totals), "traffic", traffic_json(&r->totals),
                "critical_path", path_json(&r->totals.path), "collectives", collectives);
  if (r->job->replay_count) {
    json_object_set_new(root, "replay",
                        json_pack("{s:I, s:I}", "begins_ns", (json_int_t)r->job->replay.begins_ns,
                                  "left_out", (json_int_t)r->job->replay.left_out));
  }
  if (r->story) {
    json_object_set_new(root, "deadlock", json_loads(rondo_sim_text_str(&r->story->json), 0, NULL));
  }
  rondo_sim_text_add_json(t, root, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
}

// ------------------------------------------------------------------------ CSV ---

void rondo_schedule_report_csv(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  rondo_sim_text_add(t, "collective,runs,least_us,median_us,p90_us,p99_us,most_us,mean_us\n");
  for (uint64_t i = 0; i <= r->line_count; i++) {
    bool is_all = i == r->line_count;
    const struct rondo_schedule_quantiles *q = is_all ? &r->latency : &r->by_line[i];
    char name[RONDO_SCHEDULE_NAME_BYTES] = "all";
    if (!is_all) {
      rondo_schedule_line_name(r, (uint32_t)i, name);
    }
    rondo_sim_text_add(t, "%s,%" PRIu64 ",%.3f,%.3f,%.3f,%.3f,%.3f,%.3f\n", name, q->count,
                       (double)q->least_ns / 1e3, (double)q->median_ns / 1e3,
                       (double)q->p90_ns / 1e3, (double)q->p99_ns / 1e3, (double)q->most_ns / 1e3,
                       q->mean_ns / 1e3);
  }
}

// ----------------------------------------------------------------------- text ---

static void time_add(struct rondo_sim_text *t, const char *what, uint64_t ns) {
  rondo_sim_text_add(t, "  %-20s %14.3f us\n", what, (double)ns / 1e3);
}

static void count_add(struct rondo_sim_text *t, const char *what, uint64_t count) {
  rondo_sim_text_add(t, "  %-20s %14" PRIu64 "\n", what, count);
}

static void quantiles_add(struct rondo_sim_text *t, const char *what,
                          const struct rondo_schedule_quantiles *q) {
  rondo_sim_text_add(t, "  %-12s %9" PRIu64 " %12.3f %12.3f %12.3f %12.3f %12.3f\n", what, q->count,
                     (double)q->least_ns / 1e3, (double)q->median_ns / 1e3, (double)q->p90_ns / 1e3,
                     (double)q->p99_ns / 1e3, (double)q->most_ns / 1e3);
}

static void latencies_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  rondo_sim_text_add(t, "latency of a run, from submission to end, in us\n");
  rondo_sim_text_add(t, "  %-12s %9s %12s %12s %12s %12s %12s\n", "collective", "runs", "least",
                     "median", "p90", "p99", "most");
  for (uint64_t i = 0; i < r->line_count && r->line_count > 1; i++) {
    char name[RONDO_SCHEDULE_NAME_BYTES];
    if (i == MOST_LISTED) {
      rondo_sim_text_add(t, "  ... (--csv and --json have all)\n");
      break;
    }
    rondo_schedule_line_name(r, (uint32_t)i, name);
    quantiles_add(t, name, &r->by_line[i]);
  }
  quantiles_add(t, "all", &r->latency);
}

static void scheduler_add(struct rondo_sim_text *t, const struct rondo_schedule_totals *x) {
  rondo_sim_text_add(t, "blocks, all together\n");
  count_add(t, "steps", x->steps);
  count_add(t, "primitives", x->primitives);
  count_add(t, "preemptions", x->preemptions);
  count_add(t, "context loads", x->loads);
  count_add(t, "context saves", x->saves);
  count_add(t, "quits", x->quits);
  rondo_sim_text_add(t, "  %-20s %14.2f (most %" PRIu32 ")\n", "queue at a fetch",
                     mean_of(x->queue_sum, x->queue_samples), x->queue_most);
  time_add(t, "waited for data", x->blocked_ns[RONDO_SCHEDULE_NO_DATA]);
  time_add(t, "waited for a credit", x->blocked_ns[RONDO_SCHEDULE_NO_CREDIT]);
  time_add(t, "waited for work", x->blocked_ns[RONDO_SCHEDULE_NO_WORK]);
  time_add(t, "waited for a core", x->blocked_ns[RONDO_SCHEDULE_NO_CORE]);
}

static void path_add(struct rondo_sim_text *t, const struct rondo_schedule_path *p) {
  rondo_sim_text_add(t, "critical path, to the last completion\n");
  count_add(t, "messages", p->messages);
  time_add(t, "latency", p->latency_ns);
  time_add(t, "transfer", p->transfer_ns);
  time_add(t, "waiting for a link", p->link_ns);
  time_add(t, "steps of blocks", p->block_ns);
  time_add(t, "program", p->other_ns);
}

static void headline_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  const struct rondo_schedule_job *j = r->job;
  const struct rondo_schedule_totals *x = &r->totals;
  for (uint32_t i = 0; i < j->statements.count && i < MOST_LISTED; i++) {
    const struct rondo_schedule_statement *s = &j->statements.items[i];
    rondo_sim_text_add(t, "%" PRIu32 " x %s of %" PRIu64 " B by %s", s->copies * s->times,
                       rondo_kind_name(s->kind), s->bytes, algorithm_of(j, s));
    if (j->replay.first_call) {
      rondo_sim_text_add(t, " in a group of %" PRIu32 "\n", s->size);
    } else {
      rondo_sim_text_add(t, s->size ? " in groups of %" PRIu32 ", %" PRIu32 " apart\n" : "\n",
                         s->size, s->stride);
    }
  }
  if (*j->chakra) {
    rondo_sim_text_add(t, "Chakra execution traces %s.0.et to %s.%" PRIu32 ".et\n", j->chakra,
                       j->chakra, j->settings.rank_count - 1);
  }
  if (j->replay_count) {
    rondo_sim_text_add(t,
                       "replay of flight records from %" PRIu64 " ns on; calls left out, which not "
                       "all their ranks have recorded: %" PRIu64 "\n",
                       j->replay.begins_ns, j->replay.left_out);
  }
  rondo_sim_text_add(t, "%" PRIu32 " ranks on %" PRIu32 " machine%s%s%s\n", j->settings.rank_count,
                     j->machines, j->machines > 1 ? "s" : "",
                     j->settings.shuffles ? ", each in an order of its own" : "",
                     j->settings.policy.budget == RONDO_BUDGET_NEVER ? ", without preemption" : "");
  if (rondo_schedule_job_cores(j) < j->settings.machine_ranks) {
    rondo_sim_text_add(t, "%" PRIu32 " cores for the ranks of a machine\n",
                       rondo_schedule_job_cores(j));
  }
  if (j->settings.order) {
    rondo_sim_text_add(t, "in one order: %s\n", order_names[j->settings.order]);
  }
  rondo_sim_text_add(t, "outcome: %s\n", rondo_schedule_outcome_name(x->outcome));
  time_add(t, "makespan", x->makespan_ns);
  rondo_sim_text_add(t, "  %-20s %14.3f GB/s\n", "bus bandwidth", r->bus_gb_s);
  rondo_sim_text_add(t, "  %-20s %14" PRIu64 " of %" PRIu64 "\n", "runs that ended", x->runs_ended,
                     x->runs);
}

void rondo_schedule_report_text(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  const struct rondo_schedule_totals *x = &r->totals;
  headline_add(t, r);
  latencies_add(t, r);
  scheduler_add(t, x);
  if (x->syncs) {
    count_add(t, "device syncs", x->syncs);
    time_add(t, "waited for devices", x->sync_ns);
  }
  if (x->rounds) {
    count_add(t, "rounds of rank 0", x->rounds);
  }
  rondo_sim_text_add(t, "messages\n");
  for (uint32_t i = 0; i < RONDO_SCHEDULE_CLASSES; i++) {
    if (x->traffic[i].messages) {
      rondo_sim_text_add(t, "  %-20s %14" PRIu64 " (%" PRIu64 " B)\n",
                         i == RONDO_SCHEDULE_INSIDE ? "inside a machine" : "between machines",
                         x->traffic[i].messages, x->traffic[i].bytes);
    }
  }
  count_add(t, "most B of one rank", x->most_rank_bytes);
  path_add(t, &x->path);
  if (r->story) {
    rondo_sim_text_add(t, "\nthe deadlock, as rondo-sim analyse sees it\n%s",
                       rondo_sim_text_str(&r->story->text));
  } else if (x->outcome == RONDO_SCHEDULE_DEADLOCK) {
    rondo_sim_text_add(t, "\nthe deadlock is too large to be explained: take fewer ranks\n");
  }
}
