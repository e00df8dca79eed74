// Plans of ⌈log2 n⌉ rounds, in each of which all ranks send to a rank at the same distance: the
// all-reduce and the reduce-scatter by halving, Bruck's all-gather and all-to-all.
// docs/algorithms.md explains them.
#ifndef RONDO_DAEMON_PLAN_HALVING_H
#define RONDO_DAEMON_PLAN_HALVING_H

#include "daemon/plan/build.h"

// Builders, for groups of at least 2 ranks. The plan is zeroed except nranks and chunk_count.
void rondo_plan_halving_all_reduce_build(const struct rondo_plan_request *request,
                                         struct rondo_plan *plan);
void rondo_plan_halving_reduce_scatter_build(const struct rondo_plan_request *request,
                                             struct rondo_plan *plan);
void rondo_plan_bruck_all_gather_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan);
void rondo_plan_bruck_all_to_all_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan);

// The parts of a message in the round of `bit` of Bruck's all-to-all: numbers below n that have it.
uint32_t rondo_plan_bruck_parts(uint32_t bit, uint32_t n);

#endif // RONDO_DAEMON_PLAN_HALVING_H
