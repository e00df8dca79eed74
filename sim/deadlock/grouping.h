// Makes the groups that a configuration describes by sizes only.
#ifndef RONDO_SIM_DEADLOCK_GROUPING_H
#define RONDO_SIM_DEADLOCK_GROUPING_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/config.h"
#include "sim/deadlock/layout.h"

struct rondo_sim_groups {
  struct rondo_sim_group *groups;
  uint32_t *gpus; // of all groups
  uint32_t group_count, gpu_count;
};

// The 3D grouping of DFCCL section 2.4.1: in each pipeline stage `data` tensor-parallel groups of
// neighbouring GPUs, then `tensor` data-parallel groups of the GPUs at the same place in each.
void rondo_sim_groups_3d(struct rondo_sim_groups *g, const struct rondo_sim_config *c);

// Draws one free grouping of the given sizes. Every GPU is in 1 to max_groups_per_gpu groups, and
// in none twice. Each choice of collective counts goes to an equal share of the groups. `number`
// selects a draw of c->grouping_seed. False if the sizes cannot be drawn.
bool rondo_sim_groups_draw(struct rondo_sim_groups *g, const struct rondo_sim_config *c,
                           uint32_t number);

void rondo_sim_groups_fini(struct rondo_sim_groups *g);

#endif // RONDO_SIM_DEADLOCK_GROUPING_H
