#include "sim/schedule/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/plan/build.h"
#include "sim/schedule/numbers.h"
#include <rondo/rondo.h>

// Those of the runtime.
#define SLOT_BYTES 262144u
#define FRONT_BUDGET_NS 20000u
#define MIN_BUDGET_NS 1000u
#define MAX_BUDGET_NS 400000u
#define SUCCESS_FACTOR 20u
#define QUIT_PERIOD_NS 200000u
#define RESIDENCY_NS 20000000u

#define MOST_COLLECTIVES (RONDO_TABLE_LIMIT)
#define RONDO_TABLE_LIMIT 16384u // of a daemon's table

void rondo_schedule_job_init(struct rondo_schedule_job *job) {
  *job = (struct rondo_schedule_job){.collectives = 1, .machines = 1};
  job->settings = (struct rondo_schedule_settings){.rank_count = 8,
                                                   .policy = {.success_factor = SUCCESS_FACTOR,
                                                              .front_budget_ns = FRONT_BUDGET_NS,
                                                              .min_budget_ns = MIN_BUDGET_NS,
                                                              .max_budget_ns = MAX_BUDGET_NS},
                                                   .quit_period_ns = QUIT_PERIOD_NS,
                                                   .residency_ns = RESIDENCY_NS,
                                                   .iterations = 1,
                                                   .seed = 1};
  job->shape = (struct rondo_schedule_shape){
      .kind = RONDO_ALL_REDUCE, .bytes = UINT64_C(1) << 20, .slot_bytes = SLOT_BYTES};
  job->inner_link = RONDO_COST_SHARED_MEMORY;
}

void rondo_schedule_job_fini(struct rondo_schedule_job *job) {
  rondo_schedule_layout_destroy(job->layout);
  rondo_plan_topology_destroy(job->topology);
  free(job->exceptions);
}

// -------------------------------------------------------------------- options ---

static bool kind_set(struct rondo_schedule_job *job, const char *value,
                     struct rondo_sim_error *error) {
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    if (strcmp(rondo_kind_name(kind), value) == 0 && kind != RONDO_ALL_TO_ALL_V) {
      job->shape.kind = kind;
      return true;
    }
  }
  return rondo_sim_refuse(error,
                          "op: \"%s\" is not one of all_reduce, all_gather, reduce_scatter, "
                          "reduce, broadcast, send_recv, all_to_all, gather, scatter, barrier",
                          value);
}

static bool exception_add(struct rondo_schedule_job *job, bool is_late, const char *value,
                          struct rondo_sim_error *error) {
  struct rondo_schedule_exception x = {.is_late = is_late};
  char rank[16] = "";
  uint64_t number = 0;
  const char *rest = strchr(value, '=');
  size_t digits = rest ? (size_t)(rest - value) : sizeof rank;
  if (digits < sizeof rank) {
    memcpy(rank, value, digits);
  }
  bool ok = rondo_schedule_read_count(rank, 0, RONDO_MAX_RANKS - 1, &number) &&
            (is_late ? rondo_schedule_read_ns(rest + 1, &x.value)
                     : rondo_schedule_read_factor(rest + 1, 1e6, &x.value));
  if (!ok) {
    return rondo_sim_refuse(error, "%s: \"%s\" must read %s", is_late ? "late-rank" : "slow-rank",
                            value,
                            is_late ? "RANK=TIME, such as 2=5ms" : "RANK=FACTOR, such as 2=1.5");
  }
  x.rank = (uint32_t)number;
  RONDO_SIM_GROW(job->exceptions, job->exception_count, job->exception_capacity, 4);
  job->exceptions[job->exception_count++] = x;
  return true;
}

static bool word_set(const char *name, const char *value, const char *words, uint8_t *at,
                     struct rondo_sim_error *error) {
  int found = rondo_sim_list_find(words, value);
  if (found < 0) {
    return rondo_sim_refuse(error, "%s: \"%s\" is not one of %s", name, value, words);
  }
  *at = (uint8_t)found;
  return true;
}

// L,o,g,G: three times, and nanoseconds a byte.
static bool loggp_set(struct rondo_schedule_job *job, const char *value,
                      struct rondo_sim_error *error) {
  char text[128];
  double *const wanted[] = {&job->links[0].latency_ns, &job->links[0].overhead_ns,
                            &job->links[0].gap_ns, &job->links[0].byte_ns};
  char *rest = text, *part;
  size_t count = 0;
  snprintf(text, sizeof text, "%s", value);
  while ((part = strsep(&rest, ",")) && count < 4 &&
         rondo_schedule_read_factor(part, 1e12, wanted[count])) {
    count++;
  }
  if (count != 4 || part) {
    return rondo_sim_refuse(error,
                            "loggp: \"%s\" must read L,o,g,G in nanoseconds, such as "
                            "2500,1500,1000,0.02",
                            value);
  }
  job->links[0].counts_gaps = true;
  job->links[1] = job->links[0];
  job->has_links = true;
  return true;
}

static bool link_set(struct rondo_schedule_job *job, const char *name, const char *value,
                     struct rondo_sim_error *error) {
  bool is_inner = strncmp(name, "inner-", 6) == 0, is_rate = strstr(name, "bandwidth") != NULL;
  struct rondo_schedule_link *l = &job->links[is_inner ? 0 : 1];
  bool ok = is_rate ? rondo_schedule_read_rate(value, &l->byte_ns)
                    : rondo_schedule_read_ns(value, &l->latency_ns);
  if (!ok) {
    return rondo_sim_refuse(error, "%s: \"%s\" must be a %s", name, value,
                            is_rate ? "bandwidth, such as 25GB/s" : "time, such as 20us");
  }
  job->has_links = true;
  return true;
}

// Numbers and times by their option. `least` and `most` are those of a count.
struct number_option {
  const char *name;
  uint64_t least, most;
};

static bool count_set(struct rondo_schedule_job *job, const char *name, const char *value,
                      bool *ok) {
  static const struct number_option options[] = {{"ranks", 1, RONDO_MAX_RANKS},
                                                 {"collectives", 1, MOST_COLLECTIVES},
                                                 {"machines", 1, RONDO_MAX_RANKS},
                                                 {"iterations", 1, 1000000},
                                                 {"seed", 0, UINT64_MAX},
                                                 {"root", 0, RONDO_MAX_RANKS - 1},
                                                 {"slots", 1, 64},
                                                 {NULL, 0, 0}};
  uint64_t number = 0;
  const struct number_option *o = options;
  while (o->name && strcmp(o->name, name) != 0) {
    o++;
  }
  if (!o->name) {
    return false;
  }
  *ok = rondo_schedule_read_count(value, o->least, o->most, &number);
  switch (o - options) {
  case 0:
    job->settings.rank_count = (uint32_t)number;
    break;
  case 1:
    job->collectives = number;
    break;
  case 2:
    job->machines = number;
    break;
  case 3:
    job->settings.iterations = (uint32_t)number;
    break;
  case 4:
    job->settings.seed = number;
    break;
  case 5:
    job->shape.root = (uint32_t)number;
    break;
  default:
    job->shape.slot_count = (uint32_t)number;
    *ok = *ok && (number & (number - 1)) == 0;
  }
  return true;
}

static bool time_set(struct rondo_schedule_job *job, const char *name, const char *value,
                     bool *ok) {
  struct rondo_schedule_settings *s = &job->settings;
  const struct {
    const char *name;
    uint64_t *at;
  } options[] = {{"compute", &s->compute_ns},
                 {"step", &s->costs.step_ns},
                 {"switch", &s->costs.load_ns},
                 {"poll", &s->costs.poll_ns},
                 {"start", &s->costs.start_ns},
                 {"front-budget", &s->policy.front_budget_ns},
                 {"min-budget", &s->policy.min_budget_ns},
                 {"max-budget", &s->policy.max_budget_ns},
                 {"look", &s->policy.look_ns},
                 {"quit-period", &s->quit_period_ns},
                 {"residency", &s->residency_ns}};
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    double ns = 0;
    if (strcmp(options[i].name, name) == 0) {
      *ok = rondo_schedule_read_ns(value, &ns);
      *options[i].at = (uint64_t)(ns + 0.5);
      return true;
    }
  }
  return false;
}

bool rondo_schedule_job_set(struct rondo_schedule_job *job, const char *name, const char *value,
                            struct rondo_sim_error *error) {
  uint64_t bytes = 0;
  uint8_t word = 0;
  bool ok = true;
  if (strcmp(name, "op") == 0) {
    return kind_set(job, value, error);
  }
  if (strcmp(name, "algo") == 0) {
    job->has_algorithm = true;
    snprintf(job->algorithm, sizeof job->algorithm, "%s", value);
    return true;
  }
  if (strcmp(name, "late-rank") == 0 || strcmp(name, "slow-rank") == 0) {
    return exception_add(job, name[0] == 'l', value, error);
  }
  if (strcmp(name, "loggp") == 0) {
    return loggp_set(job, value, error);
  }
  if (strstr(name, "latency") || strstr(name, "bandwidth")) {
    return link_set(job, name, value, error);
  }
  if (strcmp(name, "orders") == 0) {
    ok = word_set(name, value, "one,random", &word, error);
    job->settings.shuffles = word;
    return ok;
  }
  if (strcmp(name, "budget") == 0) {
    return word_set(name, value, "adaptive,fixed,never", &job->settings.policy.budget, error);
  }
  if (strcmp(name, "link") == 0) {
    ok = word_set(name, value, "thread,shared_memory,nvlink,network", &word, error);
    job->inner_link = word;
    return ok;
  }
  if (strcmp(name, "bytes") == 0 || strcmp(name, "slot-bytes") == 0) {
    bool is_slot = name[0] == 's';
    ok = rondo_schedule_read_bytes(value, &bytes) &&
         (!is_slot || (bytes >= 64 && bytes <= UINT64_C(1) << 30));
    *(is_slot ? &bytes : &job->shape.bytes) = bytes;
    job->shape.slot_bytes = is_slot ? (uint32_t)bytes : job->shape.slot_bytes;
  } else if (strcmp(name, "jitter") == 0) {
    ok = rondo_schedule_read_factor(value, 1000, &job->settings.jitter);
  } else if (!count_set(job, name, value, &ok) && !time_set(job, name, value, &ok)) {
    return rondo_sim_refuse(error, "%s: there is no such option", name);
  }
  return ok || rondo_sim_refuse(error, "%s: \"%s\" is not a value for it", name, value);
}

// ------------------------------------------------------------------- topology ---

// Null if all ranks are on one machine.
static void topology_make(struct rondo_schedule_job *job) {
  uint32_t n = job->settings.rank_count, size = job->settings.machine_ranks;
  if (job->machines == 1) {
    return;
  }
  struct rondo_plan_location *at = rondo_sim_calloc(n, sizeof *at);
  bool is_one_process = job->inner_link == RONDO_COST_THREAD;
  for (uint32_t i = 0; i < n; i++) {
    at[i] = (struct rondo_plan_location){
        .machine = i / size, .process = is_one_process ? i / size : i, .cores = size};
  }
  job->topology = rondo_plan_topology_create(at, n);
  free(at);
}

static struct rondo_cost_query query_of(const struct rondo_schedule_job *job, uint64_t bytes) {
  struct rondo_cost_query q = {.kind = job->shape.kind,
                               .nranks = job->settings.rank_count,
                               .bytes = bytes,
                               .link = job->machines > 1 ? RONDO_COST_NETWORK : job->inner_link,
                               .machines = (uint32_t)job->machines,
                               .cores = job->settings.machine_ranks,
                               .machine_ranks = job->settings.machine_ranks,
                               .inner = job->inner_link};
  return q;
}

// "recursive" is the algorithm of log2 n rounds that the kind has.
static int algorithm_find(const struct rondo_schedule_job *job) {
  if (strcmp(job->algorithm, "recursive") != 0) {
    return rondo_plan_algorithm_find(job->algorithm);
  }
  switch (job->shape.kind) {
  case RONDO_ALL_REDUCE:
    return RONDO_ALGORITHM_DOUBLING;
  case RONDO_REDUCE_SCATTER:
    return RONDO_ALGORITHM_HALVING;
  case RONDO_ALL_GATHER:
  case RONDO_ALL_TO_ALL:
    return RONDO_ALGORITHM_BRUCK;
  case RONDO_BARRIER:
    return RONDO_ALGORITHM_DISSEMINATION;
  default:
    return RONDO_ALGORITHM_BINOMIAL;
  }
}

static bool algorithm_choose(struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  struct rondo_cost_query q = query_of(job, job->shape.bytes);
  if (!job->has_algorithm) {
    struct rondo_plan_choice choice = rondo_cost_choose(&rondo_cost_defaults, &q);
    job->shape.algorithm = choice.algorithm;
    job->rule = choice.rule;
    return true;
  }
  job->rule = RONDO_PLAN_RULE_FORCED;
  job->shape.algorithm = algorithm_find(job);
  if (job->shape.algorithm == RONDO_ALGORITHM_COUNT) {
    return rondo_sim_refuse(error, "algo: there is no algorithm \"%s\"", job->algorithm);
  }
  return true;
}

// ---------------------------------------------------------------------- links ---

// What a message costs by the cost model of the runtime: of the algorithm if it has a level of its
// own, else of the link class. The cost of a message includes that of the steps at both ends.
static struct rondo_schedule_link model_link(const struct rondo_schedule_job *job, int link) {
  const struct rondo_cost_model *model = &rondo_cost_defaults;
  const struct rondo_cost_line *line = &model->alone[link];
  struct rondo_schedule_link l = {.latency_ns = (double)line->message_ns,
                                  .byte_ns = (double)line->byte_ns};
  struct rondo_cost_query small = query_of(job, 1), full = query_of(job, job->shape.bytes);
  struct rondo_plan_form form;
  int algorithm = job->shape.algorithm;
  if (job->machines > 1 || job->settings.rank_count == 1 ||
      !rondo_plan_form_of(&full, algorithm, &form)) {
    return l;
  }
  double least =
      rondo_cost_of_message(&small, algorithm, rondo_cost_predict(model, &small, algorithm));
  double most =
      rondo_cost_of_message(&full, algorithm, rondo_cost_predict(model, &full, algorithm));
  if (least < 0) {
    return l;
  }
  l.byte_ns = form.bytes > 1 && most > least ? (most - least) / (double)(form.bytes - 1) : 0;
  l.latency_ns = least;
  return l;
}

static void links_fill(struct rondo_schedule_job *job) {
  if (!job->has_links) {
    job->links[RONDO_SCHEDULE_INSIDE] = model_link(job, job->inner_link);
    job->links[RONDO_SCHEDULE_OUTSIDE] = model_link(job, RONDO_COST_NETWORK);
  } else if (job->machines == 1 && job->links[0].latency_ns == 0 && job->links[0].byte_ns == 0) {
    job->links[RONDO_SCHEDULE_INSIDE] = job->links[RONDO_SCHEDULE_OUTSIDE];
  }
}

// ------------------------------------------------------------------------ job ---

static bool job_check(const struct rondo_schedule_job *job, struct rondo_sim_error *error) {
  const struct rondo_schedule_settings *s = &job->settings;
  if (job->machines > s->rank_count || s->rank_count % job->machines != 0) {
    return rondo_sim_refuse(error, "machines: %u ranks do not fill %llu machines evenly",
                            s->rank_count, (unsigned long long)job->machines);
  }
  if (job->shape.root >= s->rank_count) {
    return rondo_sim_refuse(error, "root: rank %u is none of %u ranks", job->shape.root,
                            s->rank_count);
  }
  for (uint32_t i = 0; i < job->exception_count; i++) {
    if (job->exceptions[i].rank >= s->rank_count) {
      return rondo_sim_refuse(error, "%s: rank %u is none of %u ranks",
                              job->exceptions[i].is_late ? "late-rank" : "slow-rank",
                              job->exceptions[i].rank, s->rank_count);
    }
  }
  if (s->policy.min_budget_ns > s->policy.max_budget_ns || s->policy.front_budget_ns == 0 ||
      s->policy.min_budget_ns == 0) {
    return rondo_sim_refuse(error, "budgets: must be above 0, the least not above the most");
  }
  return true;
}

struct rondo_schedule_machine *rondo_schedule_job_make(struct rondo_schedule_job *job,
                                                       struct rondo_sim_error *error) {
  if (!job_check(job, error)) {
    return NULL;
  }
  job->settings.machine_ranks = job->settings.rank_count / (uint32_t)job->machines;
  job->shape.nranks = job->settings.rank_count;
  if (job->shape.kind == RONDO_BARRIER) {
    job->shape.bytes = 0;
  }
  topology_make(job);
  job->shape.topology = job->topology;
  if (!algorithm_choose(job, error)) {
    return NULL;
  }
  job->layout = rondo_schedule_layout_create(&job->shape, error);
  if (!job->layout) {
    return NULL;
  }
  links_fill(job);
  struct rondo_schedule_machine *m = rondo_schedule_machine_create(&job->settings);
  for (uint64_t i = 0; i < job->collectives; i++) {
    rondo_schedule_machine_add(m, job->layout, job->links);
  }
  for (uint32_t i = 0; i < job->exception_count; i++) {
    const struct rondo_schedule_exception *x = &job->exceptions[i];
    if (x->is_late) {
      rondo_schedule_machine_delay(m, x->rank, (uint64_t)(x->value + 0.5));
    } else {
      rondo_schedule_machine_slow(m, x->rank, x->value);
    }
  }
  return m;
}

double rondo_schedule_job_bus_bytes(const struct rondo_schedule_job *job) {
  double n = job->settings.rank_count, bytes = (double)job->shape.bytes;
  double others = (n - 1) / n;
  switch (job->shape.kind) {
  case RONDO_ALL_REDUCE:
    bytes *= 2 * others;
    break;
  case RONDO_ALL_GATHER:
  case RONDO_REDUCE_SCATTER:
  case RONDO_ALL_TO_ALL:
  case RONDO_GATHER:
  case RONDO_SCATTER:
    bytes *= n * others;
    break;
  default:
    break;
  }
  return bytes * (double)job->collectives;
}
