// Confidence intervals and a closed form.
#ifndef RONDO_SIM_DEADLOCK_STATS_H
#define RONDO_SIM_DEADLOCK_STATS_H

#include <stdint.h>

struct rondo_sim_interval {
  double low, high;
};

// The 95 % confidence interval (Wilson's score interval) of a probability after `hits` hits in
// `trials` trials. Without trials it is 0 to 1.
struct rondo_sim_interval rondo_sim_wilson(uint64_t hits, uint64_t trials);

// The exact probability that one group of `gpus` GPUs with `collectives` collectives deadlocks in a
// single-queue round. The round deadlocks unless all GPUs draw the same order.
double rondo_sim_one_group(uint32_t gpus, uint32_t collectives, double disorder);

#endif // RONDO_SIM_DEADLOCK_STATS_H
