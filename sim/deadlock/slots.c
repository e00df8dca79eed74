#include "sim/deadlock/slots.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_sim_slots_init(struct rondo_sim_slots *s, const struct rondo_sim_world *w) {
  *s = (struct rondo_sim_slots){.world = w};
  s->slots = rondo_sim_calloc(w->group_count, sizeof(*s->slots));
  s->submitted = rondo_sim_calloc(w->member_offset[w->group_count], 1);
  s->place = rondo_sim_calloc(w->joined_offset[w->gpu_count], sizeof(uint32_t));
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    for (uint32_t k = w->joined_offset[gpu]; k < w->joined_offset[gpu + 1]; k++) {
      uint32_t m = w->member_offset[w->joined[k]];
      while (w->members[m] != gpu) {
        m++;
      }
      s->place[k] = m;
    }
  }
}

void rondo_sim_slots_fini(struct rondo_sim_slots *s) {
  free(s->slots);
  free(s->submitted);
  free(s->place);
  *s = (struct rondo_sim_slots){0};
}

void rondo_sim_slots_clear(struct rondo_sim_slots *s, const uint32_t *gpus, uint32_t gpu_count) {
  const struct rondo_sim_world *w = s->world;
  for (uint32_t i = 0; i < gpu_count; i++) {
    for (uint32_t k = w->joined_offset[gpus[i]]; k < w->joined_offset[gpus[i] + 1]; k++) {
      s->submitted[s->place[k]] = 0;
      s->slots[w->joined[k]].submitted = 0;
    }
  }
  s->dirty = 0;
}

bool rondo_sim_slots_submit(struct rondo_sim_slots *s, uint32_t gpu,
                            struct rondo_sim_collective c) {
  const struct rondo_sim_world *w = s->world;
  struct rondo_sim_slot *slot = &s->slots[c.group];
  uint32_t k = w->joined_offset[gpu] + rondo_sim_world_place(w, gpu, c.group);
  if (s->submitted[s->place[k]]) {
    return false; // lost: the group still waits for what this GPU submitted before
  }
  if (slot->submitted > 0 && slot->index != c.index) {
    return true;
  }
  s->submitted[s->place[k]] = 1;
  slot->index = c.index;
  s->dirty += slot->submitted == 0;
  if (++slot->submitted == rondo_sim_world_size(w, c.group)) {
    slot->submitted = 0;
    s->dirty--;
    memset(s->submitted + w->member_offset[c.group], 0, rondo_sim_world_size(w, c.group));
  }
  return false;
}
