// Makes the machine of a job: groups, plans, costs of messages, and the programs of ranks.
#include <stdlib.h>
#include <string.h>

#include "daemon/core/context_core.h"
#include "daemon/plan/build.h"
#include "sim/common/rng.h"
#include "sim/schedule/chakra.h"
#include "sim/schedule/job.h"
#include <rondo/rondo.h>

// For a message of which only the bytes count, or only that it is one (fitted_link).
#define FEW_BYTES 8u
#define NEVER_NS (UINT64_C(1) << 62)
#define MESSAGE_NS 1000.0
#define SYNC_STREAM UINT64_MAX // of random numbers
#define BYTE_NS 1.0

// True if the job is what its ranks have recorded.
static bool is_recorded(const struct rondo_schedule_job *job) {
  return job->replay_count || *job->chakra;
}

// --------------------------------------------------------------------- groups ---

static uint32_t size_of(const struct rondo_schedule_job *job,
                        const struct rondo_schedule_statement *x) {
  uint32_t all = job->settings.rank_count ? job->settings.rank_count : 1; // never 0
  return x->size ? x->size : all;
}

static uint32_t group_count(const struct rondo_schedule_job *job,
                            const struct rondo_schedule_statement *x) {
  return job->settings.rank_count / size_of(job, x);
}

// The group of a rank. Groups of `size` ranks that are `stride` apart fill blocks of size × stride.
static uint32_t group_of(const struct rondo_schedule_job *job,
                         const struct rondo_schedule_statement *x, uint32_t rank) {
  uint32_t stride = x->size ? x->stride : 1;
  return rank / (size_of(job, x) * stride) * stride + rank % stride;
}

// The ranks of a group, by position; null: all ranks.
static const uint32_t *group_make(struct rondo_schedule_job *job,
                                  const struct rondo_schedule_statement *x, uint32_t group) {
  uint32_t size = size_of(job, x), stride = x->stride;
  if (size == job->settings.rank_count) {
    return NULL;
  }
  uint32_t *ranks = rondo_sim_alloc(size * sizeof *ranks);
  for (uint32_t i = 0; i < size; i++) {
    ranks[i] = group / stride * size * stride + group % stride + i * stride;
  }
  RONDO_SIM_GROW(job->members, job->member_count, job->member_capacity, 16);
  job->members[job->member_count++] = ranks;
  return ranks;
}

uint32_t rondo_schedule_job_cores(const struct rondo_schedule_job *job) {
  uint32_t cores = job->settings.cores, ranks = job->settings.machine_ranks;
  return cores && cores < ranks ? cores : ranks;
}

static bool shares_cores(const struct rondo_schedule_job *job) {
  return rondo_schedule_job_cores(job) < job->settings.machine_ranks;
}

// The topology of a group; null if it is on one machine. Groups that lie alike share one.
static const struct rondo_plan_topology *topology_of(struct rondo_schedule_job *job,
                                                     const uint32_t *ranks, uint32_t size) {
  uint32_t per = job->settings.machine_ranks;
  bool is_one_process = job->inner_link == RONDO_COST_THREAD, has_others = false;
  struct rondo_plan_location *at = rondo_sim_calloc(size, sizeof *at);
  for (uint32_t i = 0; i < size; i++) {
    uint32_t rank = ranks ? ranks[i] : i, first = ranks ? ranks[0] : 0;
    uint32_t ports = job->settings.interfaces < per ? job->settings.interfaces : per;
    has_others |= rank / per != first / per;
    at[i] = (struct rondo_plan_location){.machine = rank / per,
                                         .process = is_one_process ? rank / per : rank,
                                         .cores = rondo_schedule_job_cores(job),
                                         .ports = ports};
  }
  struct rondo_plan_topology *t = has_others ? rondo_plan_topology_create(at, size) : NULL;
  free(at);
  if (!t) {
    return NULL;
  }
  for (uint32_t i = 0; i < job->topology_count; i++) {
    if (job->topologies[i]->digest == t->digest && job->topologies[i]->nranks == size) {
      rondo_plan_topology_destroy(t);
      return job->topologies[i];
    }
  }
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
  RONDO_SIM_GROW(job->topologies, job->topology_count, job->topology_capacity, 16);
  return job->topologies[job->topology_count++] = t;
}

// -------------------------------------------------------------------- layouts ---

static struct rondo_cost_query query_of(const struct rondo_schedule_job *job,
                                        const struct rondo_schedule_shape *shape, uint64_t bytes) {
  struct rondo_cost_query q = {.kind = shape->kind, .nranks = shape->nranks, .bytes = bytes};
  rondo_cost_query_place(&q, shape->topology);
  q.inner = job->inner_link;
  if (!shape->topology) {
    q.link = job->inner_link;
    q.cores = shares_cores(job) ? job->settings.cores : shape->nranks; // else each rank has one
  }
  return q;
}

// By which algorithms are chosen: what was measured, else what the options say of links, as the
// model of such a machine would have it.
static const struct rondo_cost_model *model_of(const struct rondo_schedule_job *job) {
  return job->model       ? &job->model->model
         : job->has_links ? &job->links_model
                          : &rondo_cost_defaults;
}

// True if the options say nothing of links inside machines, and there is one machine.
static bool links_are_alike(const struct rondo_schedule_job *job) {
  return job->machines == 1 && job->links[RONDO_SCHEDULE_INSIDE].latency_ns <= 0 &&
         job->links[RONDO_SCHEDULE_INSIDE].byte_ns <= 0;
}

// A core has the overheads at both ends of a message, of which one may pass while the link has the
// message before.
static struct rondo_cost_terms link_terms(const struct rondo_schedule_link *l) {
  double busy = l->overhead_ns > l->gap_ns ? l->overhead_ns : l->gap_ns;
  return (struct rondo_cost_terms){(float)(l->latency_ns + 2 * l->overhead_ns + l->gap_ns - busy),
                                   (float)busy, (float)l->byte_ns};
}

// What both cores do for a message.
static struct rondo_cost_line link_line(const struct rondo_schedule_link *l) {
  return (struct rondo_cost_line){(float)(2 * l->overhead_ns), 0};
}

static void links_model_make(struct rondo_schedule_job *job) {
  int inside = links_are_alike(job) ? RONDO_SCHEDULE_OUTSIDE : RONDO_SCHEDULE_INSIDE;
  job->links_model = rondo_cost_defaults;
  job->links_model.row_count = 0;
  job->links_model.alone[RONDO_COST_NETWORK] = link_terms(&job->links[RONDO_SCHEDULE_OUTSIDE]);
  job->links_model.alone[job->inner_link] = link_terms(&job->links[inside]);
  job->links_model.shared[RONDO_COST_NETWORK] = link_line(&job->links[RONDO_SCHEDULE_OUTSIDE]);
  job->links_model.shared[job->inner_link] = link_line(&job->links[inside]);
}

static bool shapes_are_equal(const struct rondo_schedule_shape *a,
                             const struct rondo_schedule_shape *b) {
  return a->kind == b->kind && a->algorithm == b->algorithm && a->nranks == b->nranks &&
         a->root == b->root && a->bytes == b->bytes && a->topology == b->topology &&
         a->parts_seed == b->parts_seed && a->returns == b->returns;
}

// The layout of a statement for a group of that topology. Null: refused.
static const struct rondo_schedule_layout *layout_of(struct rondo_schedule_job *job,
                                                     const struct rondo_schedule_statement *x,
                                                     const struct rondo_plan_topology *topology,
                                                     struct rondo_sim_error *error) {
  struct rondo_schedule_shape shape = {.kind = x->kind,
                                       .algorithm = x->algorithm,
                                       .nranks = size_of(job, x),
                                       .root = x->root,
                                       .bytes = x->kind == RONDO_BARRIER ? 0 : x->bytes,
                                       .slot_bytes = job->slot_bytes,
                                       .slot_count = job->slot_count,
                                       .parts_seed = x->parts_seed,
                                       .returns = x->returns,
                                       .topology = topology};
  if (x->algorithm == RONDO_SCHEDULE_CHOICE) {
    struct rondo_cost_query q = query_of(job, &shape, shape.bytes);
    shape.algorithm = rondo_cost_choose(model_of(job), &q).algorithm;
  }
  for (uint32_t i = 0; i < job->layout_count; i++) {
    if (shapes_are_equal(&job->layouts[i]->shape, &shape)) {
      return job->layouts[i];
    }
  }
  struct rondo_schedule_layout *l = rondo_schedule_layout_create(&shape, error);
  if (l) {
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    RONDO_SIM_GROW(job->layouts, job->layout_count, job->layout_capacity, 4);
    job->layouts[job->layout_count++] = l;
  }
  return l;
}

static double above_zero(double x) { return x > 0 ? x : 0; }

// What a message costs by the cost model of the runtime: by the row of the algorithm if it has one
// and the group is on one machine or each rank on its own, else by the terms of the link class. The
// cost of a message includes that of the steps at both ends.
static struct rondo_schedule_link model_link(const struct rondo_schedule_job *job,
                                             const struct rondo_schedule_shape *shape, int link) {
  const struct rondo_cost_model *model = model_of(job);
  const struct rondo_cost_terms *terms = &model->alone[link];
  struct rondo_schedule_link l = {.latency_ns = (double)terms->latency_ns,
                                  .gap_ns = (double)terms->message_ns,
                                  .byte_ns = (double)terms->byte_ns};
  struct rondo_cost_query small = query_of(job, shape, 1),
                          full = query_of(job, shape, shape->bytes);
  struct rondo_plan_form form;
  int algorithm = shape->algorithm;
  if (!rondo_cost_is_measured(model, &full, algorithm) ||
      !rondo_plan_form_of(&full, algorithm, &form)) {
    return l;
  }
  double least =
      rondo_cost_of_message(&small, algorithm, rondo_cost_predict(model, &small, algorithm));
  double most =
      rondo_cost_of_message(&full, algorithm, rondo_cost_predict(model, &full, algorithm));
  l.byte_ns = form.bytes > 1 && most > least ? (most - least) / (double)(form.bytes - 1) : 0;
  l.latency_ns = job->takes_turns ? 0 : least;
  l.gap_ns = job->takes_turns ? least : 0;
  return l;
}

// The same where ranks share cores, of a link class: what cores do for a message is a part of what
// it costs where each rank has a core. The rest is its latency, and occupies links.
static struct rondo_schedule_link shared_link(const struct rondo_schedule_job *job, int link) {
  const struct rondo_cost_terms *all = &model_of(job)->alone[link];
  const struct rondo_cost_line *work = &model_of(job)->shared[link];
  return (struct rondo_schedule_link){
      .latency_ns = above_zero((double)all->latency_ns - (double)work->message_ns),
      .overhead_ns = (double)work->message_ns / 2,
      .gap_ns = (double)all->message_ns,
      .byte_ns = above_zero((double)all->byte_ns - (double)work->byte_ns),
      .overhead_byte_ns = (double)work->byte_ns / 2};
}

// How long a collective takes alone on the shared cores of a machine, if messages cost that.
static double layout_ns(const struct rondo_schedule_job *job,
                        const struct rondo_schedule_layout *layout,
                        struct rondo_schedule_link link) {
  struct rondo_schedule_settings s = job->settings;
  struct rondo_schedule_collective c = {.layout = layout, .links = {link}};
  const struct rondo_schedule_call call = {0};
  s.rank_count = s.machine_ranks = layout->shape.nranks;
  s.costs = (struct rondo_schedule_costs){0};
  s.order = RONDO_SCHEDULE_FREE;
  s.quit_period_ns = s.residency_ns = NEVER_NS;
  s.iterations = 1;
  s.shuffles = false;
  s.jitter = 0;
  struct rondo_schedule_machine *m = rondo_schedule_machine_create(&s);
  rondo_schedule_machine_add(m, &c);
  for (uint32_t i = 0; i < s.rank_count; i++) {
    rondo_schedule_machine_call(m, i, &call);
  }
  while (rondo_schedule_machine_run(m, UINT32_MAX) == RONDO_SCHEDULE_RUNNING) {
  }
  double ns = (double)rondo_schedule_machine_totals(m).makespan_ns;
  rondo_schedule_machine_destroy(m);
  return ns;
}

// The collective of a layout with so few bytes that only its messages count. The caller destroys
// it.
static struct rondo_schedule_layout *few_bytes_layout(const struct rondo_schedule_layout *layout) {
  struct rondo_schedule_shape shape = layout->shape;
  struct rondo_sim_error error;
  shape.bytes = shape.bytes < FEW_BYTES ? shape.bytes : FEW_BYTES;
  return rondo_schedule_layout_create(&shape, &error);
}

// True if a rank sends a message of the algorithm when it has the one before. Then a chain of
// messages takes their latencies, as the cost model counts it.
static bool messages_follow(const struct rondo_schedule_shape *shape) {
  int algorithm = shape->algorithm;
  bool is_power = (shape->nranks & (shape->nranks - 1)) == 0; // else some ranks come later
  return algorithm == RONDO_ALGORITHM_RING || algorithm == RONDO_ALGORITHM_HALVING ||
         algorithm == RONDO_ALGORITHM_BRUCK || algorithm == RONDO_ALGORITHM_DISSEMINATION ||
         (algorithm == RONDO_ALGORITHM_DOUBLING && is_power);
}

// By a row of the model a rank that sends several messages pays for one after the other; here their
// latencies overlap. So a message has the latency with which the collective, simulated alone, takes
// the time that the model predicts.
static void latency_fit(const struct rondo_schedule_job *job,
                        const struct rondo_schedule_layout *layout,
                        struct rondo_schedule_link *link) {
  const struct rondo_schedule_shape *shape = &layout->shape;
  struct rondo_cost_query few = query_of(job, shape, 1);
  if (job->takes_turns || messages_follow(shape) || shape->nranks < 2 ||
      !rondo_cost_is_measured(model_of(job), &few, shape->algorithm)) {
    return;
  }
  struct rondo_schedule_layout *small = few_bytes_layout(layout);
  double parts = layout_ns(job, small, (struct rondo_schedule_link){.latency_ns = MESSAGE_NS});
  rondo_schedule_layout_destroy(small);
  if (parts > 0) {
    link->latency_ns =
        MESSAGE_NS * rondo_cost_predict(model_of(job), &few, shape->algorithm) / parts;
  }
}

// The same by a row of the model, whose times are of all messages, and with them of the waits of
// ranks for each other and for cores. So a message costs what makes the collective, simulated
// alone, take the time that the model predicts: first one of few bytes, then this one.
static struct rondo_schedule_link fitted_link(const struct rondo_schedule_job *job,
                                              const struct rondo_schedule_layout *layout) {
  const struct rondo_cost_model *model = model_of(job);
  struct rondo_schedule_link fit = {0};
  int algorithm = layout->shape.algorithm;
  struct rondo_schedule_layout *small = few_bytes_layout(layout);
  uint64_t small_bytes = small->shape.bytes;
  struct rondo_cost_query few = query_of(job, &layout->shape, small_bytes),
                          full = query_of(job, &layout->shape, layout->shape.bytes);
  double parts = layout_ns(job, small, (struct rondo_schedule_link){.overhead_ns = MESSAGE_NS});
  rondo_schedule_layout_destroy(small);
  fit.overhead_ns = MESSAGE_NS * rondo_cost_predict(model, &few, algorithm) / parts;
  parts = layout_ns(job, layout, (struct rondo_schedule_link){.overhead_byte_ns = BYTE_NS});
  if (layout->shape.bytes > small_bytes && parts > 0) {
    double rest = rondo_cost_predict(model, &full, algorithm) - layout_ns(job, layout, fit);
    fit.overhead_byte_ns = BYTE_NS * above_zero(rest) / parts;
  }
  return fit;
}

static void shared_links_set(struct rondo_schedule_job *job, struct rondo_schedule_collective *c) {
  const struct rondo_schedule_shape *shape = &c->layout->shape;
  struct rondo_cost_query q = query_of(job, shape, shape->bytes);
  c->links[RONDO_SCHEDULE_INSIDE] = shared_link(job, job->inner_link);
  c->links[RONDO_SCHEDULE_OUTSIDE] = shared_link(job, RONDO_COST_NETWORK);
  if (shape->topology || !rondo_cost_is_measured(model_of(job), &q, shape->algorithm)) {
    return;
  }
  if (job->fitted != c->layout) {
    job->fit = fitted_link(job, c->layout);
    job->fitted = c->layout;
  }
  c->links[RONDO_SCHEDULE_INSIDE] = job->fit;
}

static void links_set(struct rondo_schedule_job *job, struct rondo_schedule_collective *c) {
  const struct rondo_schedule_shape *shape = &c->layout->shape;
  memcpy(c->links, job->links, sizeof c->links);
  if (!job->has_links && shares_cores(job)) {
    shared_links_set(job, c);
  } else if (!job->has_links) {
    c->links[RONDO_SCHEDULE_INSIDE] = model_link(job, shape, job->inner_link);
    c->links[RONDO_SCHEDULE_OUTSIDE] = model_link(job, shape, RONDO_COST_NETWORK);
    latency_fit(job, c->layout,
                &c->links[shape->topology ? RONDO_SCHEDULE_OUTSIDE : RONDO_SCHEDULE_INSIDE]);
  } else if (links_are_alike(job)) {
    c->links[RONDO_SCHEDULE_INSIDE] = c->links[RONDO_SCHEDULE_OUTSIDE];
  }
}

// The bytes of a collective, as nccl-tests counts them for the bus bandwidth.
static double bus_bytes_of(const struct rondo_schedule_shape *shape) {
  double n = shape->nranks, bytes = (double)shape->bytes;
  switch (shape->kind) {
  case RONDO_ALL_REDUCE:
    return bytes * 2 * (n - 1) / n;
  case RONDO_ALL_GATHER:
  case RONDO_REDUCE_SCATTER:
  case RONDO_ALL_TO_ALL:
  case RONDO_ALL_TO_ALL_V:
  case RONDO_GATHER:
  case RONDO_SCATTER:
    return bytes * (n - 1);
  default:
    return bytes;
  }
}

// ------------------------------------------------------------------------ job ---

static bool job_check(const struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  const struct rondo_schedule_settings *s = &job->settings;
  if (job->has_goal) {
    return rondo_sim_refuse(error, "loggp: O and S are only for --goal");
  }
  if (job->machines > s->rank_count || s->rank_count % job->machines != 0) {
    return rondo_sim_refuse(error, "machines: %u ranks do not fill %u machines evenly",
                            s->rank_count, job->machines);
  }
  for (uint32_t i = 0; i < job->exception_count; i++) {
    if (job->exceptions[i].rank >= s->rank_count) {
      return rondo_sim_refuse(error, "%s: rank %u is none of %u ranks",
                              job->exceptions[i].is_late ? "late-rank" : "slow-rank",
                              job->exceptions[i].rank, s->rank_count);
    }
  }
  if (*job->chakra && (s->shuffles || (s->cores && s->cores < s->rank_count / job->machines))) {
    return rondo_sim_refuse(error, "chakra: and %s exclude each other",
                            s->shuffles ? "--orders random" : "fewer --cores than ranks");
  }
  if (s->policy.min_budget_ns > s->policy.max_budget_ns || s->policy.front_budget_ns == 0 ||
      s->policy.min_budget_ns == 0) {
    return rondo_sim_refuse(error, "budgets: must be above 0, the least not above the most");
  }
  return true;
}

static bool statements_check(const struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  uint64_t collectives = 0, calls = 0;
  for (uint32_t i = 0; i < job->statements.count; i++) {
    const struct rondo_schedule_statement *x = &job->statements.items[i];
    uint64_t block = (uint64_t)size_of(job, x) * x->stride;
    if (x->size && !is_recorded(job) && (block == 0 || job->settings.rank_count % block != 0)) {
      return rondo_sim_refuse(error, "program: %u ranks have no groups of %u that are %u apart",
                              job->settings.rank_count, x->size, x->stride);
    }
    if (x->root >= size_of(job, x)) {
      return rondo_sim_refuse(error, "root: %u is no position of %u ranks", x->root,
                              size_of(job, x));
    }
    collectives += x->copies;
    calls += (uint64_t)x->copies * x->times;
  }
  const uint32_t most_collectives = RONDO_TABLE_CAPACITY;
  if (collectives > most_collectives || calls * job->settings.rank_count > UINT32_MAX) {
    return rondo_sim_refuse(error,
                            "program: it has %llu collectives and %llu calls, which is more "
                            "than %u collectives or 2^32 calls of all ranks",
                            (unsigned long long)collectives, (unsigned long long)calls,
                            most_collectives);
  }
  return true;
}

// Spreads the ranks over machines of the preset, unless the options say how many there are.
static bool preset_apply(struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  uint32_t ranks = job->settings.rank_count, each = job->preset_ranks;
  if (each == 0 || job->has_machines || ranks <= each) {
    return true;
  }
  job->machines = ranks / each;
  return ranks % each == 0 ||
         rondo_sim_refuse(error, "preset: %u ranks do not fill machines of %u", ranks, each);
}

static bool statements_make(struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  struct rondo_schedule_statement *basic = &job->basic;
  if (*job->algorithm &&
      !rondo_schedule_algorithm_read(job->algorithm, basic->kind, &basic->algorithm)) {
    return rondo_sim_refuse(error, "algo: there is no algorithm \"%s\"", job->algorithm);
  }
  if (is_recorded(job)) {
    if (*job->program || (*job->chakra && job->replay_count)) {
      return rondo_sim_refuse(error, "%s: and --%s exclude each other",
                              *job->chakra ? "chakra" : "replay",
                              *job->program ? "program" : "replay");
    }
    bool ok = *job->chakra ? rondo_schedule_chakra_read(&job->replay, job->chakra, error)
                           : rondo_schedule_replay_read(&job->replay, job->replay_paths,
                                                        job->replay_count, error);
    job->statements = job->replay.statements;
    if (!ok) {
      return false;
    }
  } else if (!*job->program) {
    job->statements = (struct rondo_schedule_statements){.count = 1, .capacity = 1};
    job->statements.items = rondo_sim_alloc(sizeof *basic);
    job->statements.items[0] = *basic;
  } else if (!rondo_schedule_program_read(&job->statements, job->program, basic, error)) {
    return false;
  }
  if (job->statements.rank_count) {
    if (job->has_ranks && job->settings.rank_count != job->statements.rank_count) {
      return rondo_sim_refuse(error, "ranks: the program is for %u ranks, not %u",
                              job->statements.rank_count, job->settings.rank_count);
    }
    job->settings.rank_count = job->statements.rank_count;
  }
  return preset_apply(job, error);
}

// Adds `x->copies` collectives of a group. `line`: of the first in a report.
static bool group_collectives_add(struct rondo_schedule_job *job,
                                  const struct rondo_schedule_statement *x, const uint32_t *ranks,
                                  uint32_t line, struct rondo_schedule_machine *m,
                                  struct rondo_sim_error *error) {
  struct rondo_schedule_collective c = {.ranks = ranks};
  c.layout = layout_of(job, x, topology_of(job, ranks, size_of(job, x)), error);
  if (!c.layout) {
    return false;
  }
  links_set(job, &c);
  job->bus_bytes += bus_bytes_of(&c.layout->shape) * x->copies * x->times * size_of(job, x) /
                    job->settings.rank_count;
  for (uint32_t copy = 0; copy < x->copies; copy++) {
    c.line = line + copy;
    rondo_schedule_machine_add(m, &c);
  }
  return true;
}

// Adds the collectives of a statement: of each group its copies.
static bool collectives_add(struct rondo_schedule_job *job, uint32_t statement,
                            struct rondo_schedule_machine *m, struct rondo_sim_error *error) {
  const struct rondo_schedule_statement *x = &job->statements.items[statement];
  uint32_t line = 0;
  for (uint32_t i = 0; i < statement; i++) {
    line += job->statements.items[i].copies;
  }
  if (is_recorded(job)) {
    return group_collectives_add(job, x, job->replay.members[statement], line, m, error);
  }
  for (uint32_t group = 0; group < group_count(job, x); group++) {
    if (!group_collectives_add(job, x, group_make(job, x, group), line, m, error)) {
      return false;
    }
  }
  return true;
}

static bool sync_draw(const struct rondo_schedule_job *job, struct rondo_sim_rng *rng) {
  return job->sync_part > 0 && rondo_sim_rng_unit(rng) < job->sync_part;
}

// Adds the calls of a rank. The collectives of a statement follow each other, group by group.
static void calls_add(const struct rondo_schedule_job *job, struct rondo_schedule_machine *m,
                      uint32_t rank) {
  struct rondo_sim_rng rng;
  uint32_t first = 0;
  rondo_sim_rng_begin(&rng, job->settings.seed, SYNC_STREAM, rank);
  if (is_recorded(job)) {
    for (uint32_t i = job->replay.first_call[rank]; i < job->replay.first_call[rank + 1]; i++) {
      rondo_schedule_machine_call(m, rank, &job->replay.calls[i]);
    }
    if (job->replay.graphs) {
      rondo_schedule_machine_graph(m, rank, &job->replay.graphs[rank]);
    }
    return;
  }
  for (uint32_t i = 0; i < job->statements.count; i++) {
    const struct rondo_schedule_statement *x = &job->statements.items[i];
    uint32_t own = first + group_of(job, x, rank) * x->copies;
    for (uint32_t k = 0; k < x->copies * x->times; k++) {
      const struct rondo_schedule_call call = {.compute_ns = x->compute_ns,
                                               .collective = own + k % x->copies,
                                               .waits = x->waits,
                                               .syncs = x->syncs || sync_draw(job, &rng),
                                               .behind = x->behind};
      rondo_schedule_machine_call(m, rank, &call);
    }
    first += group_count(job, x) * x->copies;
  }
}

static bool machine_fill(struct rondo_schedule_job *job, struct rondo_schedule_machine *m,
                         struct rondo_sim_error *error) {
  for (uint32_t i = 0; i < job->statements.count; i++) {
    if (!collectives_add(job, i, m, error)) {
      return false;
    }
  }
  for (uint32_t i = 0; i < job->settings.rank_count; i++) {
    calls_add(job, m, i);
  }
  for (uint32_t i = 0; i < job->exception_count; i++) {
    const struct rondo_schedule_exception *x = &job->exceptions[i];
    if (x->is_late) {
      rondo_schedule_machine_delay(m, x->rank, (uint64_t)(x->value + 0.5));
    } else {
      rondo_schedule_machine_slow(m, x->rank, x->value);
    }
  }
  return true;
}

struct rondo_schedule_machine *rondo_schedule_job_make(struct rondo_schedule_job *job,
                                                       struct rondo_sim_error *error) {
  if (!statements_make(job, error) || !job_check(job, error) || !statements_check(job, error)) {
    return NULL;
  }
  job->settings.machine_ranks = job->settings.rank_count / job->machines;
  links_model_make(job);
  struct rondo_schedule_machine *m = rondo_schedule_machine_create(&job->settings);
  if (!machine_fill(job, m, error)) {
    rondo_schedule_machine_destroy(m);
    return NULL;
  }
  return m;
}

bool rondo_schedule_job_considers(const struct rondo_schedule_job *job, int algorithm) {
  const struct rondo_schedule_shape *shape = &job->layouts[0]->shape;
  const struct rondo_cost_query q = query_of(job, shape, shape->bytes);
  return rondo_cost_is_candidate(&q, algorithm);
}

// ---------------------------------------------------------------------- lines ---

uint32_t rondo_schedule_job_lines(const struct rondo_schedule_job *job) {
  uint32_t lines = 0;
  for (uint32_t i = 0; i < job->statements.count; i++) {
    lines += job->statements.items[i].copies;
  }
  return lines;
}

const struct rondo_schedule_statement *rondo_schedule_job_line(const struct rondo_schedule_job *job,
                                                               uint32_t line, uint32_t *copy) {
  const struct rondo_schedule_statement *x = job->statements.items;
  for (; line >= x->copies; x++) {
    line -= x->copies;
  }
  *copy = line;
  return x;
}
