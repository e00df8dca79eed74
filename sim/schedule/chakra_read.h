// One Chakra execution trace: the nodes that a rank executes, as its file has them.
//
//   rondo_schedule_trace_read -> its fields -> _fini, also if it was refused
#ifndef RONDO_SIM_SCHEDULE_CHAKRA_READ_H
#define RONDO_SIM_SCHEDULE_CHAKRA_READ_H

#include "sim/analyse/input.h"
#include "sim/analyse/strings.h"
#include "sim/common/text.h"

// Those of the schema.
enum rondo_schedule_trace_type {
  RONDO_SCHEDULE_TRACE_COMPUTE = 4,
  RONDO_SCHEDULE_TRACE_SEND = 5,
  RONDO_SCHEDULE_TRACE_RECV = 6,
  RONDO_SCHEDULE_TRACE_COLLECTIVE = 7,
  RONDO_SCHEDULE_TRACE_TYPES = 8
};

#define RONDO_SCHEDULE_TRACE_UNSAID UINT64_MAX

struct rondo_schedule_trace_node {
  uint64_t id, duration_us;
  uint64_t kind, bytes, source, target, tag; // attributes comm_*; RONDO_SCHEDULE_TRACE_UNSAID
  uint32_t group;                            // number of the string pg_name
  uint32_t first_parent, parent_count;
  uint8_t type; // enum rondo_schedule_trace_type, or one that takes no time
  bool on_cpu;
};

// The ranks of a group, as a node "process_group:init" has them; none: all.
struct rondo_schedule_trace_group {
  uint32_t name; // number of the string
  uint32_t *ranks;
  uint32_t count;
};

struct rondo_schedule_trace {
  struct rondo_schedule_trace_node *nodes; // in the order of their ids
  uint64_t *parents;                       // ids of nodes that a node depends on
  struct rondo_schedule_trace_group *groups;
  uint32_t node_count, node_capacity, parent_count, parent_capacity, group_count, group_capacity;
};

// Reads a trace. `name`: of the file, for errors; `strings`: gets the names of groups.
bool rondo_schedule_trace_read(struct rondo_schedule_trace *t, struct rondo_analyse_input *in,
                               const char *name, struct rondo_analyse_strings *strings,
                               struct rondo_sim_error *error);
void rondo_schedule_trace_fini(struct rondo_schedule_trace *t);

#endif // RONDO_SIM_SCHEDULE_CHAKRA_READ_H
