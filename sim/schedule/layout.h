// The layout of a collective: the plans of all its ranks, and who is connected with whom.
//
// Collectives that are alike share one layout. The programs of ranks that are alike are kept once,
// so a layout takes some bytes for each rank and four for each link.
//
//   rondo_schedule_layout_create -> read -> rondo_schedule_layout_destroy
#ifndef RONDO_SIM_SCHEDULE_LAYOUT_H
#define RONDO_SIM_SCHEDULE_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/geometry_core.h"
#include "daemon/plan/plan.h"
#include "daemon/plan/plan_topology.h"
#include "sim/common/text.h"

struct rondo_schedule_shape {
  int kind, algorithm; // enum rondo_kind, enum rondo_algorithm
  uint32_t nranks, root;
  uint64_t bytes;      // that the descriptor counts
  uint32_t slot_bytes; // the most that one slot carries
  uint32_t slot_count; // of a connector; 0: as many as the runtime takes
  // Of an all-to-all-v: the parts are drawn from the seed, and have `bytes` in the mean. `returns`:
  // each rank sends what it receives if not.
  uint32_t parts_seed;
  bool returns;
  const struct rondo_plan_topology *topology; // of the group, or null
};

// The ops of a rank. They are preceded by a struct rondo_own_memory, as a block expects.
struct rondo_schedule_program {
  struct rondo_plan_op *ops;
  uint32_t bytes; // of the memory and the ops
  uint8_t op_count, first_pass;
};

struct rondo_schedule_layout {
  struct rondo_schedule_shape shape;
  struct rondo_geometry geometry;
  uint8_t elem_bytes; // 0: a barrier
  uint32_t link_count;
  // The links that a position sends on are send_first[position] ... send_first[position + 1] - 1;
  // of each the position that receives. Those that it receives on, in the order of its recv peers,
  // are recv_links[recv_first[position]] ....
  uint32_t *send_first, *recv_first, *recv_links, *receivers;
  uint32_t *program_of; // by position
  struct rondo_schedule_program *programs;
  uint32_t program_count, program_capacity;
  uint32_t *by_digest; // hash table of programs; 0: free, else the number + 1
  uint32_t digest_capacity;
  char *parts; // of an all-to-all-v: a struct rondo_listed of each position
};

// Returns null if the algorithm has no plan for that kind and number of ranks, or needs more than
// 100 million connectors; `error` says so.
struct rondo_schedule_layout *rondo_schedule_layout_create(const struct rondo_schedule_shape *shape,
                                                           struct rondo_sim_error *error);
// What position `from` sends to position `to` in an all-to-all-v, in bytes: from 0 to twice
// shape->bytes, itself included.
uint64_t rondo_schedule_part_bytes(const struct rondo_schedule_shape *shape, uint32_t from,
                                   uint32_t to);

// The parts of a position in an all-to-all-v.
const struct rondo_listed *rondo_schedule_layout_parts(const struct rondo_schedule_layout *layout,
                                                       uint32_t position);

void rondo_schedule_layout_destroy(struct rondo_schedule_layout *layout); // null is allowed

#endif // RONDO_SIM_SCHEDULE_LAYOUT_H
