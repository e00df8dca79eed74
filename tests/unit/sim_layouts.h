// Small layouts for the tests of the deadlock simulator.
#ifndef RONDO_TESTS_SIM_LAYOUTS_H
#define RONDO_TESTS_SIM_LAYOUTS_H

#include <stdint.h>
#include <string.h>

#include "sim/deadlock/layout.h"
#include "sim/common/rng.h"

// 1 to 5 random groups over 2 to 6 GPUs, with 0 to `most` collectives each.
static inline void small_layout(struct rondo_sim_layout *w, struct rondo_sim_rng *rng,
                                uint32_t most, enum rondo_sim_order order) {
  static uint32_t gpus[5][6];
  struct rondo_sim_group groups[5];
  uint32_t gpu_count = 2 + rondo_sim_rng_below(rng, 5);
  uint32_t group_count = 1 + rondo_sim_rng_below(rng, 5);
  for (uint32_t g = 0; g < group_count; g++) {
    uint32_t size = 0, want = 1 + rondo_sim_rng_below(rng, gpu_count);
    for (uint32_t i = 0; i < gpu_count; i++) {
      if (rondo_sim_rng_below(rng, gpu_count - i) < want - size) {
        gpus[g][size++] = i;
      }
    }
    groups[g] = (struct rondo_sim_group){gpus[g], size, rondo_sim_rng_below(rng, most + 1)};
  }
  rondo_sim_layout_init(w, groups, group_count, gpu_count, order);
}

// GPUs 0, 1 and 2; each pair of them is a group with `count` collectives.
static inline void triangle_layout(struct rondo_sim_layout *w, uint32_t count,
                                   enum rondo_sim_order order) {
  static const uint32_t pairs[3][2] = {{0, 1}, {1, 2}, {0, 2}};
  struct rondo_sim_group groups[3];
  for (int g = 0; g < 3; g++) {
    groups[g] = (struct rondo_sim_group){pairs[g], 2, count};
  }
  rondo_sim_layout_init(w, groups, 3, 3, order);
}

// One group of all GPUs.
static inline void one_group_layout(struct rondo_sim_layout *w, uint32_t gpu_count,
                                    uint32_t count) {
  uint32_t gpus[64];
  for (uint32_t i = 0; i < gpu_count; i++) {
    gpus[i] = i;
  }
  struct rondo_sim_group group = {gpus, gpu_count, count};
  rondo_sim_layout_init(w, &group, 1, gpu_count, RONDO_SIM_INTERLEAVED);
}

static inline struct rondo_sim_chances chances_of(double disorder, double synchronisation,
                                                  enum rondo_sim_skipped skipped) {
  return (struct rondo_sim_chances){rondo_sim_rare_make(disorder),
                                    rondo_sim_rare_make(synchronisation), skipped};
}

#endif // RONDO_TESTS_SIM_LAYOUTS_H
