#include "sim/deadlock/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"
#include "sim/deadlock/grouping.h"
#include "sim/deadlock/programs.h"

static void *copy_of(const void *from, size_t bytes) {
  void *to = rondo_sim_alloc(bytes);
  if (bytes > 0) {
    memcpy(to, from, bytes);
  }
  return to;
}

void rondo_sim_config_init(struct rondo_sim_config *c) {
  static const uint32_t gpus[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  *c = (struct rondo_sim_config){
      .disorder = 1e-5,
      .synchronisation = 0,
      .processes = 1,
      .rounds = 32000,
      .seed = 1,
      .grouping = RONDO_SIM_FREE,
      .gpu_count = 8,
      .group_count = 1,
      .max_groups_per_gpu = 5,
      .draws = 20,
      .grouping_seed = 1,
  };
  c->groups = rondo_sim_alloc(sizeof(*c->groups));
  c->groups[0] = (struct rondo_sim_group){copy_of(gpus, sizeof(gpus)), 8, 161};
}

void rondo_sim_config_forget_groups(struct rondo_sim_config *c) {
  for (uint32_t g = 0; c->groups && g < c->group_count; g++) {
    free((void *)(uintptr_t)c->groups[g].gpus);
  }
  free(c->groups);
  c->groups = NULL;
  c->group_count = 0;
}

void rondo_sim_config_fini(struct rondo_sim_config *c) {
  rondo_sim_config_forget_groups(c);
  free(c->sizes);
  free(c->collective_choices);
  *c = (struct rondo_sim_config){0};
}

void rondo_sim_config_copy(struct rondo_sim_config *c, const struct rondo_sim_config *from) {
  *c = *from;
  c->sizes = copy_of(from->sizes, sizeof(*c->sizes) * from->size_count);
  c->collective_choices =
      copy_of(from->collective_choices, sizeof(*c->collective_choices) * from->choice_count);
  c->groups = copy_of(from->groups, sizeof(*c->groups) * from->group_count);
  for (uint32_t g = 0; g < c->group_count; g++) {
    c->groups[g].gpus = copy_of(from->groups[g].gpus, sizeof(uint32_t) * from->groups[g].gpu_count);
  }
}

// Counts the collectives of all groups (an upper bound if groupings are drawn) and their members.
static void groups_measure(const struct rondo_sim_config *c, uint64_t *collectives,
                           uint64_t *places) {
  uint64_t most = 0;
  *collectives = *places = 0;
  if (c->grouping == RONDO_SIM_3D) {
    *collectives =
        ((uint64_t)c->data * c->tensor_collectives + (uint64_t)c->tensor * c->data_collectives) *
        c->pipeline;
    *places = 2 * (uint64_t)c->tensor * c->data * c->pipeline;
    return;
  }
  for (uint32_t g = 0; c->grouping == RONDO_SIM_FREE && g < c->group_count; g++) {
    *collectives += c->groups[g].collective_count;
    *places += c->groups[g].gpu_count;
  }
  for (uint32_t k = 0; k < c->choice_count; k++) {
    most = c->collective_choices[k] > most ? c->collective_choices[k] : most;
  }
  for (uint32_t k = 0; c->grouping == RONDO_SIM_FREE_DRAWN && k < c->size_count; k++) {
    *collectives += c->sizes[k].count * most;
    *places += (uint64_t)c->sizes[k].count * c->sizes[k].gpus;
  }
}

bool rondo_sim_config_check(const struct rondo_sim_config *c, struct rondo_sim_error *error) {
  if (c->model == RONDO_SIM_RESOURCES && c->resources == 0) {
    return rondo_sim_refuse(error,
                            "resources: the resource-limited model needs a limit of at least 1");
  }
  if (c->model == RONDO_SIM_SINGLE_QUEUE && c->synchronisation > 0 && !c->compat_dfccl) {
    return rondo_sim_refuse(error, "synchronisation: the single-queue model has none; choose the "
                                   "model \"synchronisation\" or \"resource-limited\"");
  }
  if (c->compat_dfccl && c->synchronisation >= 1) {
    return rondo_sim_refuse(error, "synchronisation: with a probability of 1 the published "
                                   "simulator never invokes anything");
  }
  if (c->rounds == 0) {
    return rondo_sim_refuse(error, "rounds: at least one is needed");
  }
  if (c->grouping == RONDO_SIM_FREE_DRAWN && c->draws == 0) {
    return rondo_sim_refuse(error, "grouping.draws: at least one is needed");
  }
  uint64_t collectives, places;
  groups_measure(c, &collectives, &places);
  if (collectives >= RONDO_SIM_SYNC_BEFORE || places >= RONDO_SIM_SYNC_BEFORE) {
    return rondo_sim_refuse(error,
                            "grouping: more than 2147483647 collectives, or places in groups");
  }
  return true;
}

bool rondo_sim_config_layout(const struct rondo_sim_config *c, uint32_t grouping,
                             enum rondo_sim_order order, struct rondo_sim_layout *w) {
  struct rondo_sim_groups g;
  if (c->grouping == RONDO_SIM_FREE) {
    rondo_sim_layout_init(w, c->groups, c->group_count, c->gpu_count, order);
    return true;
  }
  if (c->grouping == RONDO_SIM_3D) {
    rondo_sim_groups_3d(&g, c);
  } else if (!rondo_sim_groups_draw(&g, c, grouping)) {
    return false;
  }
  rondo_sim_layout_init(w, g.groups, g.group_count, g.gpu_count, order);
  rondo_sim_groups_fini(&g);
  return true;
}

uint32_t rondo_sim_config_limit(const struct rondo_sim_config *c) {
  return c->model == RONDO_SIM_SINGLE_QUEUE ? 1
         : c->model == RONDO_SIM_RESOURCES  ? (uint32_t)c->resources
                                            : RONDO_SIM_UNLIMITED;
}

double rondo_sim_config_synchronisation(const struct rondo_sim_config *c) {
  return c->model == RONDO_SIM_SINGLE_QUEUE ? 0 : c->synchronisation;
}

const char *rondo_sim_model_name(enum rondo_sim_model model) {
  static const char *const names[] = {"single-queue", "synchronisation", "resource-limited"};
  return names[model];
}

struct rondo_sim_chances rondo_sim_config_chances(const struct rondo_sim_config *c) {
  return (struct rondo_sim_chances){rondo_sim_rare_make(c->disorder),
                                    rondo_sim_rare_make(rondo_sim_config_synchronisation(c)),
                                    c->skipped};
}

// True if `value` is a whole number up to `most`.
static bool number_parse(const char *value, uint64_t most, uint64_t *number) {
  char *end;
  errno = 0;
  *number = strtoull(value, &end, 10);
  return end != value && !*end && !errno && value[0] != '-' && *number <= most;
}

bool rondo_sim_config_set(struct rondo_sim_config *c, const char *name, const char *value,
                          struct rondo_sim_error *error) {
  const struct {
    const char *name, *words;
    unsigned *out;
  } words[] = {{"model", "single-queue, synchronisation, resource-limited", &c->model},
               {"order", "interleaved, sequential", &c->order},
               {"skipped", "keeps-odds, next, last", &c->skipped},
               {"turns", "round-robin, random", &c->turns},
               {"engine", "fast, naive", &c->engine},
               {"compat", "none, dfccl", &c->compat_dfccl}};
  const struct {
    const char *name;
    uint64_t most, *out;
  } counts[] = {{"rounds", UINT64_MAX >> 1, &c->rounds},
                {"seed", UINT64_MAX, &c->seed},
                {"threads", 1024, &c->threads},
                {"resources", UINT32_MAX - 1, &c->resources}};
  for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
    if (strcmp(words[k].name, name) == 0) {
      int n = rondo_sim_list_find(words[k].words, value);
      *words[k].out = (unsigned)n;
      return n >= 0 ||
             rondo_sim_refuse(error, "%s: \"%s\" is not one of %s", name, value, words[k].words);
    }
  }
  for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
    if (strcmp(counts[k].name, name) == 0) {
      return number_parse(value, counts[k].most, counts[k].out) ||
             rondo_sim_refuse(error, "%s: \"%s\" is not a whole number from 0 to %" PRIu64, name,
                              value, counts[k].most);
    }
  }
  char *end;
  double p = strtod(value, &end);
  *(strcmp(name, "disorder") == 0 ? &c->disorder : &c->synchronisation) = p;
  return (end != value && !*end && p >= 0 && p <= 1) ||
         rondo_sim_refuse(error, "%s: \"%s\" is not a probability from 0 to 1", name, value);
}
