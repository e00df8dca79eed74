// What the plans of a group cost, counted from the plans themselves.
#ifndef RONDO_TOOLS_INFO_PLAN_COST_H
#define RONDO_TOOLS_INFO_PLAN_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/build.h"

// The most that a machine sends to others, and the most that one of its ports sends.
struct info_plan_sent {
  uint64_t machine_bytes, port_bytes;
};

// What a plan costs, from the plans of all ranks of the group. A run is taken as one loop, as in
// docs/algorithms.md.
struct info_plan_cost {
  // Messages of the longest chain in which each waits for the one before. A message waits for those
  // that its sender has sent or received before, and for those that its receiver has received
  // before: a rank sends one message at a time, and receives one at a time.
  uint32_t dependent_hops;
  uint32_t sends; // messages of this rank
  uint64_t bytes; // in those messages
  struct info_plan_sent sent;
  uint32_t state_bytes;   // memory of the plan: its ops and its peers
  uint64_t scratch_bytes; // of a block
  double build_us;        // time to build the plan, the least of many
  double choose_us;       // time to choose its algorithm, the least of many
};

// Chunk `k` of those that execution `i` of op `index` handles.
uint32_t info_plan_op_chunk(const struct rondo_plan *plan, uint32_t index, uint32_t i, uint32_t k);

// The cost of the plan of `request`, a member of `plans`, for a descriptor that counts `bytes`;
// without choose_us. Returns false if there is no memory.
bool info_plan_cost_count(const struct rondo_plan_request *request, const struct rondo_plan *plans,
                          uint64_t bytes, struct info_plan_cost *cost);

// Counts the bytes that machines send to others. Builds the plans of all ranks as of `request`.
// Returns an enum rondo_status.
int info_plan_machine_bytes(const struct rondo_plan_request *request, uint64_t bytes,
                            struct info_plan_sent *most);

#endif // RONDO_TOOLS_INFO_PLAN_COST_H
