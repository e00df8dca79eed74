// What a plan costs, from the plans of all ranks of the group. A run is taken as one loop, as in
// docs/algorithms.md.
#ifndef RONDO_TOOLS_INFO_PLAN_COST_H
#define RONDO_TOOLS_INFO_PLAN_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/build.h"

struct info_plan_cost {
  uint32_t dependent_hops; // messages of the longest chain in which each waits for the one before
  uint32_t sends;          // messages of this rank
  uint64_t bytes;          // in those messages
  uint32_t state_bytes;    // memory of the plan: its ops and its peers
  double build_us;         // time to build the plan, the least of many
};

// The cost of the plan of `request`, a member of `plans`, for a descriptor that counts `bytes`.
// Returns false if there is no memory.
bool info_plan_cost(const struct rondo_plan_request *request, const struct rondo_plan *plans,
                    uint64_t bytes, struct info_plan_cost *cost);

// Chunk that execution `i` of an op handles.
static inline uint32_t info_op_chunk(const struct rondo_plan_op *op, uint32_t i) {
  return (uint32_t)((op->first_chunk + (uint64_t)i * op->chunk_stride) % op->chunk_count);
}

#endif // RONDO_TOOLS_INFO_PLAN_COST_H
