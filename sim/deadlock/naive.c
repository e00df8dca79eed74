#include "sim/deadlock/naive.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

// The planned slots that a GPU has not invoked yet, in order.
struct outstanding {
  uint32_t *slots;
  uint32_t first, end;
  uint32_t skipped; // so many at the front have been skipped before
};

static uint32_t slot_pick(const struct outstanding *o, const struct rondo_sim_chances *chances,
                          struct rondo_sim_rng *rng) {
  if (chances->skipped == RONDO_SIM_SKIPPED_NEXT && o->skipped > 0) {
    return o->first;
  }
  uint32_t at = o->first;
  while (at + 1 < o->end && rondo_sim_rng_unit(rng) < chances->disorder.probability) {
    at++;
  }
  return at;
}

static uint32_t slot_take(struct outstanding *o, uint32_t at) {
  uint32_t taken = o->slots[at], before = at - o->first;
  o->skipped = before < o->skipped ? o->skipped - 1 : before;
  memmove(o->slots + o->first + 1, o->slots + o->first, before * sizeof(uint32_t));
  o->first++;
  return taken;
}

static bool draw_sync(const struct rondo_sim_rare *sync, struct rondo_sim_rng *rng) {
  return sync->probability > 0 && rondo_sim_rng_unit(rng) < sync->probability;
}

void rondo_sim_naive_draw(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                          const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng) {
  rondo_sim_programs_begin_all(p, w);
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    struct outstanding o = {.end = rondo_sim_world_length(w, gpu)};
    o.slots = rondo_sim_alloc(sizeof(uint32_t) * o.end);
    for (uint32_t i = 0; i < o.end; i++) {
      o.slots[i] = i;
    }
    while (o.first < o.end) {
      // Several synchronisations in a row act as one.
      bool sync = draw_sync(&chances->synchronisation, rng);
      uint32_t slot = slot_take(&o, slot_pick(&o, chances, rng));
      rondo_sim_programs_append(p, gpu, rondo_sim_world_at(w, gpu, slot), sync);
    }
    free(o.slots);
  }
}
