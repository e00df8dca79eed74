// Programs whose parts depend on each other: each rank has a graph of nodes that compute or call.
// A node begins when all nodes that it depends on have ended. Computing nodes of a lane follow each
// other, in their order in the graph; a call begins at once and ends when its run does.
#ifndef RONDO_SIM_SCHEDULE_GRAPH_H
#define RONDO_SIM_SCHEDULE_GRAPH_H

#include <stdint.h>

#define RONDO_SCHEDULE_COMPUTES UINT32_MAX // in place of a call

enum rondo_schedule_lane {
  RONDO_SCHEDULE_LANE_DEVICE = 0,
  RONDO_SCHEDULE_LANE_CPU = 1, // of the rank's program
  RONDO_SCHEDULE_LANES = 2
};

struct rondo_schedule_node {
  uint64_t compute_ns;
  uint32_t call; // of the rank, from 0 in the order of nodes; RONDO_SCHEDULE_COMPUTES
  uint32_t lane; // enum rondo_schedule_lane
  uint32_t first_child, child_count, parent_count;
};

// It has no cycle.
struct rondo_schedule_graph {
  struct rondo_schedule_node *nodes;
  uint32_t *children; // nodes that depend on a node
  uint32_t node_count;
};

#endif // RONDO_SIM_SCHEDULE_GRAPH_H
