// The published single-queue decision, for the plain and the quick way: each group holds what its
// members have submitted (published_literal.h has the rules).
#ifndef RONDO_SIM_DEADLOCK_PUBLISHED_SLOTS_H
#define RONDO_SIM_DEADLOCK_PUBLISHED_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/layout.h"

// What one group holds.
struct rondo_sim_slot {
  uint32_t index;     // of the collective that the submitted ones agree on
  uint32_t submitted; // by how many members
  uint64_t lap;       // counts how often the slot was emptied
};

struct rondo_sim_slots {
  const struct rondo_sim_layout *layout;
  struct rondo_sim_slot *slots; // of each group
  uint64_t *held; // of each entry of layout->joined: the lap, plus one, in which the group got it
  uint32_t dirty; // groups that hold something
};

void rondo_sim_slots_init(struct rondo_sim_slots *s, const struct rondo_sim_layout *w);
void rondo_sim_slots_fini(struct rondo_sim_slots *s);

// Empties the groups of the GPUs listed; those of other GPUs must be empty.
void rondo_sim_slots_clear(struct rondo_sim_slots *s, const uint32_t *gpus, uint32_t gpu_count);

// Submits a collective on a GPU. True if the published simulator calls it a deadlock.
bool rondo_sim_slots_submit(struct rondo_sim_slots *s, uint32_t gpu, struct rondo_sim_collective c);

#endif // RONDO_SIM_DEADLOCK_PUBLISHED_SLOTS_H
