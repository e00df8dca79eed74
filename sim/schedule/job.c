#include "sim/schedule/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "daemon/core/context_core.h"
#include "daemon/plan/build.h"
#include "sim/schedule/numbers.h"
#include <rondo/rondo.h>

void rondo_schedule_job_init(struct rondo_schedule_job *job) {
  *job = (struct rondo_schedule_job){.machines = 1,
                                     .slot_bytes = RONDO_DEFAULT_SLOT_BYTES,
                                     .inner_link = RONDO_COST_SHARED_MEMORY};
  job->basic = rondo_schedule_statement_default();
  job->goal = rondo_schedule_goal_costs_default();
  job->settings =
      (struct rondo_schedule_settings){.rank_count = 8,
                                       .interfaces = UINT32_MAX,
                                       .policy = {.success_factor = RONDO_DEFAULT_SUCCESS_FACTOR,
                                                  .front_budget_ns = RONDO_DEFAULT_FRONT_BUDGET_NS,
                                                  .min_budget_ns = RONDO_DEFAULT_MIN_BUDGET_NS,
                                                  .max_budget_ns = RONDO_DEFAULT_MAX_BUDGET_NS},
                                       .quit_period_ns = RONDO_DEFAULT_QUIT_PERIOD_NS,
                                       .residency_ns = RONDO_DEFAULT_RESIDENCY_NS,
                                       .iterations = 1,
                                       .cycle_ns = 1000000,
                                       .seed = 1};
}

void rondo_schedule_job_fini(struct rondo_schedule_job *job) {
  for (uint32_t i = 0; i < job->layout_count; i++) {
    rondo_schedule_layout_destroy(job->layouts[i]);
  }
  for (uint32_t i = 0; i < job->topology_count; i++) {
    rondo_plan_topology_destroy(job->topologies[i]);
  }
  for (uint32_t i = 0; i < job->member_count; i++) {
    free(job->members[i]);
  }
  free(job->layouts);
  free(job->topologies);
  free(job->members);
  for (uint32_t i = 0; i < job->replay_count; i++) {
    free(job->replay_paths[i]);
  }
  rondo_schedule_replay_fini(&job->replay);
  free(job->replay_paths);
  free(job->statements.items);
  free(job->exceptions);
  free(job->model);
}

// -------------------------------------------------------------------- options ---

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

// Keeps a text that is read when all options are known.
static bool text_set(char *to, size_t room, const char *name, const char *value,
                     struct rondo_sim_error *error) {
  snprintf(to, room, "%s", value);
  return (*value && strlen(value) < room) ||
         rondo_sim_refuse(error, "%s: \"%s\" is too long or empty", name, value);
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

// L,o,g,G: three times, and nanoseconds a byte. Of a GOAL program also O, nanoseconds a byte, and
// S, the most bytes of an eager message.
static bool loggp_set(struct rondo_schedule_job *job, const char *value,
                      struct rondo_sim_error *error) {
  char text[192], *rest = text, *part;
  double numbers[6] = {0};
  size_t count = 0;
  snprintf(text, sizeof text, "%s", value);
  while ((part = strsep(&rest, ",")) && count < 6 &&
         rondo_schedule_read_factor(part, 1e12, &numbers[count])) {
    count++;
  }
  if (count < 4 || part || numbers[5] != (double)(uint64_t)numbers[5]) {
    return rondo_sim_refuse(error,
                            "loggp: \"%s\" must read L,o,g,G in nanoseconds, such as "
                            "2500,1500,1000,0.02, and for --goal also ,O or ,O,S",
                            value);
  }
  job->links[0] = (struct rondo_schedule_link){.latency_ns = numbers[0],
                                               .overhead_ns = numbers[1],
                                               .gap_ns = numbers[2],
                                               .byte_ns = numbers[3],
                                               .counts_gaps = true};
  job->links[1] = job->links[0];
  job->has_links = true;
  job->has_goal = count > 4;
  job->goal.latency_ns = (uint64_t)(numbers[0] + 0.5);
  job->goal.overhead_ns = (uint64_t)(numbers[1] + 0.5);
  job->goal.gap_ns = (uint64_t)(numbers[2] + 0.5);
  job->goal.gap_byte_ns = numbers[3];
  job->goal.overhead_byte_ns = numbers[4];
  job->goal.eager_bytes = count > 5 ? (uint64_t)numbers[5] : job->goal.eager_bytes;
  return true;
}

// Machines with eight devices. The bandwidths are those of the makers; the latencies are that of a
// step of NCCL's ring over NVLink inside a machine, and an assumption between machines.
static bool preset_set(struct rondo_schedule_job *job, const char *value,
                       struct rondo_sim_error *error) {
  static const struct {
    uint32_t interfaces;
    double inner_byte_ns, byte_ns;
  } presets[] = {{8, 1 / 450.0, 1 / 50.0}, // DGX H100: NVLink 4, an NDR interface for each GPU
                 {4, 1 / 50.0, 1 / 25.0}}; // Frontier: Infinity Fabric, four Slingshot interfaces
  uint8_t word = 0;
  if (!word_set("preset", value, "h100,frontier", &word, error)) {
    return false;
  }
  job->preset_ranks = 8;
  job->settings.interfaces = presets[word].interfaces;
  job->inner_link = RONDO_COST_NVLINK;
  job->links[RONDO_SCHEDULE_INSIDE] =
      (struct rondo_schedule_link){.latency_ns = 3400, .byte_ns = presets[word].inner_byte_ns};
  job->links[RONDO_SCHEDULE_OUTSIDE] =
      (struct rondo_schedule_link){.latency_ns = 5000, .byte_ns = presets[word].byte_ns};
  job->has_links = true;
  return true;
}

static bool model_set(struct rondo_schedule_job *job, const char *path,
                      struct rondo_sim_error *error) {
  char why[RONDO_COST_WHY_BYTES];
  char *text = rondo_sim_alloc(RONDO_COST_FILE_BYTES);
  free(job->model);
  job->model = rondo_sim_alloc(sizeof *job->model);
  int failed = rondo_text_file_read(path, text, RONDO_COST_FILE_BYTES);
  bool ok = !failed && rondo_cost_file_parse(job->model, text, why);
  free(text);
  return ok || rondo_sim_refuse(error, "cost-model: %.200s%s %s", path, failed ? ":" : "",
                                failed ? strerror(failed) : why);
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

// Sets an option that is a whole number. Returns false if it is none; `ok`: whether the value was
// taken.
static bool count_set(struct rondo_schedule_job *job, const char *name, const char *value,
                      bool *ok) {
  struct rondo_schedule_settings *s = &job->settings;
  const uint32_t most_collectives = RONDO_TABLE_CAPACITY;
  const struct {
    const char *name;
    uint64_t least, most;
    uint32_t *at;
  } options[] = {{"ranks", 1, RONDO_MAX_RANKS, &s->rank_count},
                 {"collectives", 1, most_collectives, &job->basic.copies},
                 {"machines", 1, RONDO_MAX_RANKS, &job->machines},
                 {"iterations", 1, 1000000, &s->iterations},
                 {"root", 0, RONDO_MAX_RANKS - 1, &job->basic.root},
                 {"interfaces", 1, RONDO_MAX_RANKS, &s->interfaces},
                 {"cores", 1, RONDO_MAX_RANKS, &s->cores},
                 {"slots", 1, 64, &job->slot_count}};
  if (strcmp(name, "seed") == 0) {
    *ok = rondo_schedule_read_count(value, 0, UINT64_MAX, &s->seed);
    return true;
  }
  for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
    uint64_t number = 0;
    if (strcmp(options[i].name, name) != 0) {
      continue;
    }
    *ok = rondo_schedule_read_count(value, options[i].least, options[i].most, &number);
    *options[i].at = (uint32_t)number;
    job->has_ranks |= options[i].at == &s->rank_count;
    job->has_machines |= options[i].at == &job->machines;
    if (options[i].at == &job->slot_count) {
      *ok = *ok && (number & (number - 1)) == 0;
    }
    return true;
  }
  return false;
}

static bool time_set(struct rondo_schedule_job *job, const char *name, const char *value,
                     bool *ok) {
  struct rondo_schedule_settings *s = &job->settings;
  const struct {
    const char *name;
    uint64_t *at;
  } options[] = {{"compute", &job->basic.compute_ns},
                 {"step", &s->costs.step_ns},
                 {"switch", &s->costs.load_ns},
                 {"poll", &s->costs.poll_ns},
                 {"start", &s->costs.start_ns},
                 {"front-budget", &s->policy.front_budget_ns},
                 {"min-budget", &s->policy.min_budget_ns},
                 {"max-budget", &s->policy.max_budget_ns},
                 {"look", &s->policy.look_ns},
                 {"quit-period", &s->quit_period_ns},
                 {"residency", &s->residency_ns},
                 {"cycle", &s->cycle_ns}};
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

static bool kind_set(struct rondo_schedule_job *job, const char *value,
                     struct rondo_sim_error *error) {
  return rondo_schedule_kind_read(value, &job->basic.kind) ||
         rondo_sim_refuse(
             error,
             "op: \"%s\" is not one of all_reduce, all_gather, reduce_scatter, reduce, "
             "broadcast, send_recv, all_to_all, all_to_all_v, gather, scatter, barrier",
             value);
}

// Sets an option that has neither a number nor a time. Returns false if it is none of these; `ok`:
// whether the value was taken, else `error` says why not.
static bool word_option_set(struct rondo_schedule_job *job, const char *name, const char *value,
                            bool *ok, struct rondo_sim_error *error) {
  uint8_t word = 0;
  static const char names[] =
      "op,algo,program,late-rank,slow-rank,loggp,orders,budget,link,preset,cost-model,order,"
      "replay,chakra";
  switch (rondo_sim_list_find(names, name)) {
  case 0:
    *ok = kind_set(job, value, error);
    return true;
  case 1:
    *ok = text_set(job->algorithm, sizeof job->algorithm, name, value, error);
    return true;
  case 2:
    *ok = text_set(job->program, sizeof job->program, name, value, error);
    return true;
  case 3:
  case 4:
    *ok = exception_add(job, name[0] == 'l', value, error);
    return true;
  case 5:
    *ok = loggp_set(job, value, error);
    return true;
  case 6:
    *ok = word_set(name, value, "one,random", &word, error);
    job->settings.shuffles = word;
    return true;
  case 7:
    *ok = word_set(name, value, "adaptive,fixed,never", &job->settings.policy.budget, error);
    return true;
  case 8:
    *ok = word_set(name, value, "thread,shared_memory,nvlink,network", &word, error);
    job->inner_link = word;
    return true;
  case 9:
    *ok = preset_set(job, value, error);
    return true;
  case 10:
    *ok = model_set(job, value, error);
    return true;
  case 11:
    *ok = word_set(name, value, "free,static,coordinator", &word, error);
    job->settings.order = word;
    if (word) {
      job->settings.policy.budget = RONDO_BUDGET_NEVER;
    }
    return true;
  case 12:
    RONDO_SIM_GROW(job->replay_paths, job->replay_count, job->replay_capacity, 16);
    job->replay_paths[job->replay_count++] = rondo_sim_strdup(value);
    return true;
  case 13:
    *ok = text_set(job->chakra, sizeof job->chakra, name, value, error);
    return true;
  default:
    return false;
  }
}

bool rondo_schedule_job_set(struct rondo_schedule_job *job, const char *name, const char *value,
                            struct rondo_sim_error *error) {
  uint64_t bytes = 0;
  bool ok = true;
  if (word_option_set(job, name, value, &ok, error)) {
    return ok;
  }
  if (strstr(name, "latency") || strstr(name, "bandwidth")) {
    return link_set(job, name, value, error);
  }
  if (strcmp(name, "bytes") == 0) {
    ok = rondo_schedule_read_bytes(value, &job->basic.bytes);
  } else if (strcmp(name, "slot-bytes") == 0) {
    ok = rondo_schedule_read_bytes(value, &bytes) && bytes >= 64 && bytes <= UINT64_C(1) << 30;
    job->slot_bytes = (uint32_t)bytes;
  } else if (strcmp(name, "jitter") == 0) {
    ok = rondo_schedule_read_factor(value, 1000, &job->settings.jitter);
  } else if (strcmp(name, "sync") == 0) {
    ok = rondo_schedule_read_factor(value, 1, &job->sync_part);
  } else if (!count_set(job, name, value, &ok) && !time_set(job, name, value, &ok)) {
    return rondo_sim_refuse(error, "%s: there is no such option", name);
  }
  return ok || rondo_sim_refuse(error, "%s: \"%s\" is not a value for it", name, value);
}
