#include "sim/deadlock/grouping.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"
#include "sim/common/rng.h"

static void groups_init(struct rondo_sim_groups *g, uint32_t group_count, uint32_t gpu_count,
                        uint64_t places) {
  *g = (struct rondo_sim_groups){.group_count = group_count, .gpu_count = gpu_count};
  g->groups = rondo_sim_calloc(group_count, sizeof(*g->groups));
  g->gpus = rondo_sim_calloc(places, sizeof(*g->gpus));
}

void rondo_sim_groups_fini(struct rondo_sim_groups *g) {
  free(g->groups);
  free(g->gpus);
  *g = (struct rondo_sim_groups){0};
}

void rondo_sim_groups_3d(struct rondo_sim_groups *g, const struct rondo_sim_config *c) {
  uint32_t per_stage = c->tensor * c->data;
  groups_init(g, (c->tensor + c->data) * c->pipeline, per_stage * c->pipeline,
              2 * (uint64_t)per_stage * c->pipeline);
  uint32_t *place = g->gpus;
  struct rondo_sim_group *group = g->groups;
  for (uint32_t stage = 0; stage < c->pipeline; stage++) {
    uint32_t base = stage * per_stage;
    for (uint32_t d = 0; d < c->data; d++) {
      *group++ = (struct rondo_sim_group){place, c->tensor, c->tensor_collectives};
      for (uint32_t t = 0; t < c->tensor; t++) {
        *place++ = base + d * c->tensor + t;
      }
    }
    for (uint32_t t = 0; t < c->tensor; t++) {
      *group++ = (struct rondo_sim_group){place, c->data, c->data_collectives};
      for (uint32_t d = 0; d < c->data; d++) {
        *place++ = base + d * c->tensor + t;
      }
    }
  }
}

static void numbers_shuffle(uint32_t *x, uint32_t count, struct rondo_sim_rng *rng) {
  for (uint32_t i = count; i > 1; i--) {
    uint32_t k = rondo_sim_rng_below(rng, i), kept = x[i - 1];
    x[i - 1] = x[k];
    x[k] = kept;
  }
}

static bool in_group(const struct rondo_sim_group *group, uint32_t filled, uint32_t gpu) {
  for (uint32_t k = 0; k < filled; k++) {
    if (group->gpus[k] == gpu) {
      return true;
    }
  }
  return false;
}

struct deal {
  uint32_t *places; // a group number for each place, shuffled
  uint32_t *filled; // of each group
  uint32_t *joined; // groups of each GPU
  uint32_t *order;  // of GPUs
  uint32_t place_count;
};

// Makes one attempt: the first places go to one GPU each, in random order; each later place goes to
// a random GPU that has room and is not in the group yet. False if no such GPU is found.
static bool deal_out(struct rondo_sim_groups *g, const struct rondo_sim_config *c, struct deal *d,
                     struct rondo_sim_rng *rng) {
  memset(d->filled, 0, sizeof(uint32_t) * g->group_count);
  memset(d->joined, 0, sizeof(uint32_t) * g->gpu_count);
  numbers_shuffle(d->places, d->place_count, rng);
  numbers_shuffle(d->order, g->gpu_count, rng);
  for (uint32_t k = 0; k < d->place_count; k++) {
    struct rondo_sim_group *group = &g->groups[d->places[k]];
    uint32_t *filled = &d->filled[d->places[k]];
    uint32_t gpu = k < g->gpu_count ? d->order[k] : rondo_sim_rng_below(rng, g->gpu_count);
    for (uint32_t tries = 0;
         in_group(group, *filled, gpu) || d->joined[gpu] >= c->max_groups_per_gpu; tries++) {
      if (tries > 64 * g->gpu_count) {
        return false;
      }
      gpu = rondo_sim_rng_below(rng, g->gpu_count);
    }
    g->gpus[(size_t)(group->gpus - g->gpus) + (*filled)++] = gpu;
    d->joined[gpu]++;
  }
  return true;
}

// Lays out the groups with their sizes, and gives the collective counts to equal shares of them.
static uint32_t lay_out(struct rondo_sim_groups *g, const struct rondo_sim_config *c,
                        uint32_t *places, struct rondo_sim_rng *rng) {
  uint32_t n = 0, place = 0, *counts = rondo_sim_alloc(sizeof(uint32_t) * g->group_count);
  for (uint32_t i = 0; i < g->group_count; i++) {
    counts[i] = c->collective_choices[(uint64_t)i * c->choice_count / g->group_count];
  }
  numbers_shuffle(counts, g->group_count, rng);
  for (uint32_t s = 0; s < c->size_count; s++) {
    for (uint32_t k = 0; k < c->sizes[s].count; k++, n++) {
      g->groups[n] = (struct rondo_sim_group){g->gpus + place, c->sizes[s].gpus, counts[n]};
      for (uint32_t m = 0; m < c->sizes[s].gpus; m++) {
        places[place++] = n;
      }
    }
  }
  free(counts);
  return place;
}

bool rondo_sim_groups_draw(struct rondo_sim_groups *g, const struct rondo_sim_config *c,
                           uint32_t number) {
  uint64_t places = 0;
  uint32_t groups = 0;
  for (uint32_t s = 0; s < c->size_count; s++) {
    groups += c->sizes[s].count;
    places += (uint64_t)c->sizes[s].count * c->sizes[s].gpus;
    if (c->sizes[s].gpus > c->gpu_count || c->sizes[s].gpus == 0) {
      return false;
    }
  }
  if (groups == 0 || places < c->gpu_count ||
      places > (uint64_t)c->gpu_count * c->max_groups_per_gpu) {
    return false;
  }
  groups_init(g, groups, c->gpu_count, places);
  struct rondo_sim_rng rng;
  rondo_sim_rng_begin(&rng, c->grouping_seed, number, UINT64_MAX);
  struct deal d = {
      .places = rondo_sim_calloc(places, sizeof(uint32_t)),
      .filled = rondo_sim_calloc(groups, sizeof(uint32_t)),
      .joined = rondo_sim_calloc(c->gpu_count, sizeof(uint32_t)),
      .order = rondo_sim_calloc(c->gpu_count, sizeof(uint32_t)),
  };
  d.place_count = lay_out(g, c, d.places, &rng);
  for (uint32_t i = 0; i < c->gpu_count; i++) {
    d.order[i] = i;
  }
  bool dealt = false;
  for (int attempt = 0; attempt < 1000 && !dealt; attempt++) {
    dealt = deal_out(g, c, &d, &rng);
  }
  free(d.places);
  free(d.filled);
  free(d.joined);
  free(d.order);
  if (!dealt) {
    rondo_sim_groups_fini(g);
  }
  return dealt;
}
