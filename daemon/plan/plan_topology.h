// The topology of a group: on which machine each of its ranks is. Builders of plans and the choice
// of an algorithm know this and nothing else about places, and it is the same on every rank.
//
//   rondo_plan_topology_create -> read -> rondo_plan_topology_destroy
//
// A null topology is one machine, where all ranks are threads of one process. Pure: no I/O.
#ifndef RONDO_DAEMON_PLAN_PLAN_TOPOLOGY_H
#define RONDO_DAEMON_PLAN_PLAN_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The most leaders of a machine: a leader lists the others as peers (two_level.c). If a machine has
// more ports, some are not used in plans over two levels.
#define RONDO_PLAN_MAX_LEADERS 16u

// A machine of the group.
struct rondo_plan_machine {
  uint32_t rank_count; // of the group
  uint32_t first;      // place of its first rank in the order by machines
  uint32_t cores;      // that the processes of the job may use there; 0: unknown
};

struct rondo_plan_topology {
  uint32_t nranks;
  uint32_t machine_count;
  bool shares_process; // all ranks are threads of one process, and so read each other's buffers
  bool shares_memory;  // all ranks are on one machine, and so share connectors
  bool machines_share_process; // those of each machine are threads of one process
  uint32_t leaders; // ranks of each machine that send to others in plans over two levels: as many
                    // as the machine with the fewest has ports, and ranks
  uint64_t digest;  // of all that is here; equal on every rank of the group
  const struct rondo_plan_machine *machines;
  // By position, the number of its machine. Machines have numbers in the order of their first
  // position. Null: all are on machine 0.
  const uint32_t *machine_of;
  // The order by machines: position of the rank at each place, and place of each position. Ranks of
  // one machine follow each other in the order of their positions. Null: every place is its
  // position.
  const uint32_t *order, *place_of;
};

// Where a rank of the group is. Machines and processes have any numbers that tell them apart.
struct rondo_plan_location {
  uint64_t machine;
  uint32_t process;
  uint32_t cores; // of the machine; the same for all its ranks
  uint32_t ports; // of its machine's network adapters, each for other processes; 0: unknown
};

// Makes the topology of the ranks at `locations`, by position; `nranks` is at least 1. Null: no
// memory.
struct rondo_plan_topology *rondo_plan_topology_create(const struct rondo_plan_location *locations,
                                                       uint32_t nranks);
void rondo_plan_topology_destroy(struct rondo_plan_topology *topology); // null is allowed

// The following take a null topology.

static inline uint32_t rondo_plan_topology_machines(const struct rondo_plan_topology *t) {
  return t ? t->machine_count : 1;
}

static inline uint32_t rondo_plan_topology_leaders(const struct rondo_plan_topology *t) {
  return t ? t->leaders : 1;
}

// The number of the machine of a position.
static inline uint32_t rondo_plan_topology_machine_of(const struct rondo_plan_topology *t,
                                                      uint32_t position) {
  return t && t->machine_of ? t->machine_of[position] : 0;
}

// The position at a place of the order by machines, and back.
static inline uint32_t rondo_plan_topology_at(const struct rondo_plan_topology *t, uint32_t place) {
  return t && t->order ? t->order[place] : place;
}

static inline uint32_t rondo_plan_topology_place(const struct rondo_plan_topology *t,
                                                 uint32_t position) {
  return t && t->place_of ? t->place_of[position] : position;
}

// The ranks of a group in `lanes` lanes: those of lane l are at the places that are l modulo
// `lanes`, and have numbers in the order of their places. Chunks have the numbers of all lanes, one
// lane after the other.

// The ranks of a lane, and the chunk of its first one.
static inline uint32_t rondo_plan_lane_size(uint32_t nranks, uint32_t lanes, uint32_t lane) {
  return nranks / lanes + (lane < nranks % lanes);
}

static inline uint32_t rondo_plan_lane_first(uint32_t nranks, uint32_t lanes, uint32_t lane) {
  uint32_t larger = nranks % lanes;
  return lane * (nranks / lanes) + (lane < larger ? lane : larger);
}

// The place of the rank with a chunk.
static inline uint32_t rondo_plan_lane_place(uint32_t nranks, uint32_t lanes, uint32_t chunk) {
  uint32_t size = nranks / lanes, larger = nranks % lanes, in_larger = larger * (size + 1);
  if (chunk < in_larger)
    return chunk % (size + 1) * lanes + chunk / (size + 1);
  return (chunk - in_larger) % size * lanes + larger + (chunk - in_larger) / size;
}

// The line from a root: the root, the other ranks of its machine, then those of the other machines
// in turn. So each machine is entered once.
struct rondo_plan_line {
  const struct rondo_plan_topology *topology;
  uint32_t nranks;
  uint32_t first, count; // places of the ranks of the root's machine
  uint32_t root;         // which of them is the root
};

struct rondo_plan_line rondo_plan_line_of(const struct rondo_plan_topology *t, uint32_t nranks,
                                          uint32_t root);

// The position at a step of the line, and back. The root is at step 0.
uint32_t rondo_plan_line_at(const struct rondo_plan_line *l, uint32_t step);
uint32_t rondo_plan_line_step(const struct rondo_plan_line *l, uint32_t position);

// The digest; 0 of a null topology.
static inline uint64_t rondo_plan_topology_digest(const struct rondo_plan_topology *t) {
  return t ? t->digest : 0;
}

#endif // RONDO_DAEMON_PLAN_PLAN_TOPOLOGY_H
