#include "sim/deadlock/published_slots.h"

#include <stdlib.h>

#include "sim/common/text.h"

void rondo_sim_slots_init(struct rondo_sim_slots *s, const struct rondo_sim_layout *w) {
  *s = (struct rondo_sim_slots){.layout = w};
  s->slots = rondo_sim_calloc(w->group_count, sizeof(*s->slots));
  s->held = rondo_sim_calloc(w->joined_offset[w->gpu_count], sizeof(*s->held));
}

void rondo_sim_slots_fini(struct rondo_sim_slots *s) {
  free(s->slots);
  free(s->held);
  *s = (struct rondo_sim_slots){0};
}

static void slot_empty(struct rondo_sim_slot *slot) {
  slot->submitted = 0;
  slot->lap++;
}

void rondo_sim_slots_clear(struct rondo_sim_slots *s, const uint32_t *gpus, uint32_t gpu_count) {
  const struct rondo_sim_layout *w = s->layout;
  for (uint32_t i = 0; i < gpu_count; i++) {
    for (uint32_t k = w->joined_offset[gpus[i]]; k < w->joined_offset[gpus[i] + 1]; k++) {
      slot_empty(&s->slots[w->joined[k]]);
    }
  }
  s->dirty = 0;
}

bool rondo_sim_slots_submit(struct rondo_sim_slots *s, uint32_t gpu,
                            struct rondo_sim_collective c) {
  const struct rondo_sim_layout *w = s->layout;
  struct rondo_sim_slot *slot = &s->slots[c.group];
  uint64_t *held = &s->held[w->joined_offset[gpu] + rondo_sim_layout_place(w, gpu, c.group)];
  if (*held == slot->lap + 1) {
    return false; // lost: the group still waits for what this GPU submitted before
  }
  if (slot->submitted > 0 && slot->index != c.index) {
    return true;
  }
  *held = slot->lap + 1;
  slot->index = c.index;
  s->dirty += slot->submitted == 0;
  if (++slot->submitted == rondo_sim_layout_size(w, c.group)) {
    slot_empty(slot);
    s->dirty--;
  }
  return false;
}
