// The state of a GOAL program: for goal.c, which runs it, and goal_parse.c, which makes it.
#ifndef RONDO_SIM_SCHEDULE_GOAL_STATE_H
#define RONDO_SIM_SCHEDULE_GOAL_STATE_H

#include "sim/schedule/event_queue.h"
#include "sim/schedule/goal.h"

// Ops in a row, linked by `waits`.
struct rondo_schedule_goal_queue {
  uint32_t first, last; // RONDO_SCHEDULE_GOAL_NONE: empty
};

// Ops of a rank that are free since the event that is being handled.
struct rondo_schedule_goal_freed {
  uint32_t *items;
  uint32_t count, capacity;
};

struct rondo_schedule_goal {
  struct rondo_schedule_goal_costs costs;
  uint32_t rank_count, cpus, nics;    // cpus and nics of a rank
  struct rondo_schedule_goal_op *ops; // by rank; one more at the end, for its first_edge
  uint32_t op_count, op_capacity;
  uint32_t *first_op; // by rank, and one more
  uint32_t *edges;
  // From here on made by _begin.
  uint64_t *cpu_ns;               // by rank and cpu: when it is free
  uint64_t *send_ns, *receive_ns; // by rank and nic
  uint64_t *free_ns;              // by op: when all that it waits for has ended; null: one cpu
  struct rondo_schedule_goal_queue *lanes; // by rank and resources: ops that wait for them
  struct rondo_schedule_goal_queue *posted, *unexpected; // by rank: receives; messages
  struct rondo_schedule_goal_freed own, other;           // of the rank of the event; of a sender
  struct rondo_schedule_event_queue queue;
  uint64_t now_ns;
  uint32_t order;
  struct rondo_schedule_goal_totals totals;
};

#endif // RONDO_SIM_SCHEDULE_GOAL_STATE_H
