// Builders of plans: pure functions of (kind, algorithm, position, ranks, root).
#ifndef RONDO_DAEMON_PLAN_BUILD_H
#define RONDO_DAEMON_PLAN_BUILD_H

#include <stdint.h>

#include "daemon/plan/plan.h"

// Which plan is wanted. `rank` and `root` are positions in the group.
struct rondo_plan_request {
  int kind;      // enum rondo_kind
  int algorithm; // enum rondo_algorithm
  uint32_t rank;
  uint32_t nranks; // at least 1
  uint32_t root;   // used by reduce and broadcast
};

// Builds the plan of one rank. A group of one rank gets one COPY op.
// Returns 0, RONDO_ERR_INVALID (a field out of range) or RONDO_ERR_UNSUPPORTED (the
// algorithm has no plan for that kind). `plan` is written only on success.
int rondo_plan_build(const struct rondo_plan_request *request, struct rondo_plan *plan);

// The algorithm to use: the chain for all-reduces so small that latency decides,
// else the ring. Pure, and the same on every rank.
int rondo_plan_choose(int kind, uint64_t bytes, uint32_t nranks);

// "ring", "chain"; "unknown" for anything else.
const char *rondo_algorithm_name(int algorithm);

#endif // RONDO_DAEMON_PLAN_BUILD_H
