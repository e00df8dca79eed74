#include "sim/deadlock/published_literal.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_sim_published_init(struct rondo_sim_published *p, const struct rondo_sim_layout *w,
                              bool single, const struct rondo_sim_chances *chances,
                              uint32_t resource_limit) {
  *p = (struct rondo_sim_published){.layout = w,
                                    .single = single,
                                    .disorder = chances->disorder.probability,
                                    .synchronisation = chances->synchronisation.probability,
                                    .resource_limit = resource_limit};
  p->first_index = rondo_sim_calloc(w->group_count + 1u, sizeof(uint64_t));
  for (uint32_t g = 0; g < w->group_count; g++) {
    p->first_index[g + 1] = p->first_index[g] + w->collectives[g];
  }
  p->list = rondo_sim_alloc(sizeof(uint32_t) * w->slot_count);
  p->gpus = rondo_sim_calloc(w->gpu_count, sizeof(*p->gpus));
  p->remaining = rondo_sim_calloc(p->first_index[w->group_count], sizeof(uint32_t));
  p->submitted = rondo_sim_calloc(w->slot_count, 1);
  rondo_sim_slots_init(&p->slots, w);
}

void rondo_sim_published_fini(struct rondo_sim_published *p) {
  free(p->first_index);
  free(p->list);
  free(p->remaining);
  free(p->submitted);
  free(p->gpus);
  rondo_sim_slots_fini(&p->slots);
  *p = (struct rondo_sim_published){0};
}

static void round_reset(struct rondo_sim_published *p) {
  const struct rondo_sim_layout *w = p->layout;
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    for (uint32_t slot = 0; slot < rondo_sim_layout_length(w, gpu); slot++) {
      p->list[w->slot_offset[gpu] + slot] = slot;
    }
  }
  memset(p->gpus, 0, sizeof(*p->gpus) * w->gpu_count);
  for (uint32_t g = 0; g < w->group_count; g++) {
    for (uint64_t c = p->first_index[g]; c < p->first_index[g + 1]; c++) {
      p->remaining[c] = rondo_sim_layout_size(w, g);
    }
  }
  memset(p->submitted, 0, w->slot_count);
  rondo_sim_slots_clear(&p->slots, w->component_gpus, w->gpu_count);
}

static double unit_draw(struct rondo_sim_draws draws) {
  return draws.rng ? rondo_sim_rng_unit(draws.rng) : rondo_sim_mersenne_unit(draws.mersenne);
}

// True if the GPU synchronises at this turn.
static bool gpu_synchronises(struct rondo_sim_published *p, uint32_t gpu,
                             struct rondo_sim_draws draws) {
  if (!draws.events) {
    return unit_draw(draws) < p->synchronisation;
  }
  struct rondo_sim_published_gpu *x = &p->gpus[gpu];
  uint64_t at = p->layout->slot_offset[gpu] + x->submitted;
  const struct rondo_sim_sync *sync = rondo_sim_events_sync(draws.events, at);
  bool due = sync->at == at && x->synced < sync->count;
  x->synced = due ? x->synced + 1 : 0;
  return due;
}

// Walks the collectives that the GPU has not submitted. The last one is never skipped, but its draw
// is made to keep the stream of random numbers in step.
static uint32_t slot_decide(struct rondo_sim_published *p, uint32_t gpu,
                            struct rondo_sim_draws draws) {
  if (draws.events) {
    return rondo_sim_events_planned(draws.events, gpu, p->gpus[gpu].submitted++);
  }
  uint32_t *list = p->list + p->layout->slot_offset[gpu];
  uint32_t first = p->gpus[gpu].submitted++, at = first;
  uint32_t last = rondo_sim_layout_length(p->layout, gpu) - 1;
  while (unit_draw(draws) < p->disorder && at < last) {
    at++;
  }
  uint32_t taken = list[at];
  memmove(list + first + 1, list + first, (at - first) * sizeof(*list));
  return taken;
}

static bool is_submitted(const struct rondo_sim_published *p, uint32_t gpu,
                         struct rondo_sim_collective c) {
  const struct rondo_sim_layout *w = p->layout;
  return p->submitted[w->slot_offset[gpu] + rondo_sim_layout_slot(w, gpu, c)];
}

// True if the collective is submitted (or is not) on a hung GPU other than `gpu`.
static bool on_another_hung(const struct rondo_sim_published *p, uint32_t gpu,
                            struct rondo_sim_collective c, bool submitted) {
  const struct rondo_sim_layout *w = p->layout;
  for (uint32_t m = w->member_offset[c.group]; m < w->member_offset[c.group + 1]; m++) {
    uint32_t other = w->members[m];
    if (other != gpu && p->gpus[other].hung && is_submitted(p, other, c) == submitted) {
      return true;
    }
  }
  return false;
}

static bool gpu_intersects(const struct rondo_sim_published *p, uint32_t gpu) {
  const struct rondo_sim_layout *w = p->layout;
  bool mine_missing = false, theirs_missing = false;
  for (uint32_t slot = 0; slot < rondo_sim_layout_length(w, gpu); slot++) {
    struct rondo_sim_collective c = rondo_sim_layout_at(w, gpu, slot);
    if (p->remaining[p->first_index[c.group] + c.index] == 0) {
      continue;
    }
    if (p->submitted[w->slot_offset[gpu] + slot]) {
      mine_missing = mine_missing || on_another_hung(p, gpu, c, false);
    } else {
      theirs_missing = theirs_missing || on_another_hung(p, gpu, c, true);
    }
    if (mine_missing && theirs_missing) {
      return true;
    }
  }
  return false;
}

// True if all members of a group have as many collectives outstanding as the limit allows.
static bool any_group_is_depleted(const struct rondo_sim_published *p) {
  const struct rondo_sim_layout *w = p->layout;
  for (uint32_t g = 0; p->resource_limit > 0 && g < w->group_count; g++) {
    uint32_t m = w->member_offset[g];
    while (m < w->member_offset[g + 1] && p->gpus[w->members[m]].outstanding >= p->resource_limit) {
      m++;
    }
    if (m == w->member_offset[g + 1]) {
      return true;
    }
  }
  return false;
}

static void slot_submit(struct rondo_sim_published *p, uint32_t gpu, uint32_t slot) {
  const struct rondo_sim_layout *w = p->layout;
  struct rondo_sim_collective c = rondo_sim_layout_at(w, gpu, slot);
  p->submitted[w->slot_offset[gpu] + slot] = 1;
  p->gpus[gpu].outstanding++;
  if (--p->remaining[p->first_index[c.group] + c.index] > 0) {
    return;
  }
  for (uint32_t m = w->member_offset[c.group]; m < w->member_offset[c.group + 1]; m++) {
    uint32_t member = w->members[m];
    if (--p->gpus[member].outstanding == 0) {
      p->gpus[member].hung = false;
    }
  }
}

// Plays one turn of a GPU that is neither hung nor done.
static bool gpu_turn(struct rondo_sim_published *p, uint32_t gpu, struct rondo_sim_draws draws) {
  if (p->single) {
    uint32_t slot = slot_decide(p, gpu, draws);
    return rondo_sim_slots_submit(&p->slots, gpu, rondo_sim_layout_at(p->layout, gpu, slot));
  }
  if (gpu_synchronises(p, gpu, draws)) {
    p->gpus[gpu].hung = p->gpus[gpu].outstanding > 0;
    return p->gpus[gpu].hung && gpu_intersects(p, gpu);
  }
  slot_submit(p, gpu, slot_decide(p, gpu, draws));
  return any_group_is_depleted(p);
}

bool rondo_sim_published_round(struct rondo_sim_published *p, struct rondo_sim_draws draws) {
  uint32_t unfinished = 1;
  round_reset(p);
  while (unfinished > 0) {
    unfinished = 0;
    for (uint32_t gpu = 0; gpu < p->layout->gpu_count; gpu++) {
      uint32_t length = rondo_sim_layout_length(p->layout, gpu);
      bool done = p->gpus[gpu].submitted == length;
      if (!done && !p->gpus[gpu].hung && gpu_turn(p, gpu, draws)) {
        return true;
      }
      unfinished += p->gpus[gpu].submitted < length;
    }
  }
  return false;
}
