// All-reduce over two levels: the ranks of each machine to one of them, its leader; all leaders
// among themselves; and back. Only leaders send to other machines, each as few bytes as possible.
// The algorithms inside machines and between them are chosen independently.
#ifndef RONDO_DAEMON_PLAN_TWO_LEVEL_H
#define RONDO_DAEMON_PLAN_TWO_LEVEL_H

#include "daemon/plan/build.h"

// True for the algorithms with a ring, or with recursive doubling, between the machines; and for
// those with a chain inside them, and not a binomial tree.
bool rondo_plan_rings_between(int algorithm);
bool rondo_plan_doubles_between(int algorithm);
bool rondo_plan_chains_inside(int algorithm);

// The builder. `chunk_count` of the plan is set: that of the machines with a ring, else 1.
void rondo_plan_two_level_build(const struct rondo_plan_request *request, struct rondo_plan *plan);

#endif // RONDO_DAEMON_PLAN_TWO_LEVEL_H
