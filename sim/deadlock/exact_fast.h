// Decides one round from its events alone: is there a deadlock?
//
// The verdict is exact for all three models and both orders: docs/simulator.md has the argument,
// and test_sim_agree.c compares with the literal simulation. Only the neighbourhood of windows that
// could close a cycle is visited.
//
// One checker belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_EXACT_FAST_H
#define RONDO_SIM_DEADLOCK_EXACT_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/layout.h"
#include "sim/deadlock/programs.h"

// Windows whose key ranges overlap.
struct rondo_sim_cluster {
  uint32_t component, gpu;
  uint64_t low, high;
};

struct rondo_sim_fast {
  const struct rondo_sim_layout *layout;
  uint32_t limit; // executing collectives a GPU may hold
  struct rondo_sim_programs programs;
  struct rondo_sim_cluster *clusters;
  uint32_t *seeds;
  uint32_t cluster_count, cluster_capacity, seed_capacity;
};

void rondo_sim_fast_init(struct rondo_sim_fast *f, const struct rondo_sim_layout *w,
                         uint32_t limit);
void rondo_sim_fast_fini(struct rondo_sim_fast *f);

// True if the round ends in a deadlock; f->programs then holds the stuck region.
bool rondo_sim_fast_deadlock(struct rondo_sim_fast *f, const struct rondo_sim_events *e);

#endif // RONDO_SIM_DEADLOCK_EXACT_FAST_H
