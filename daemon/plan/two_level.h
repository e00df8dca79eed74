// Plans over two levels. All-reduce: the ranks of each machine to one of them, its leader; all
// leaders among themselves; and back. Only leaders send to other machines, each as few bytes as
// possible. A broadcast is the way back from the root, which is the leader of its machine, and a
// reduce the way there. With chains inside machines there may be several leaders of a machine
// (rondo_plan_topology_leaders). Each has its part of the chunks, a *lane*. The algorithms inside
// machines and between them are chosen independently. All-gathers and reduce-scatters have rings of
// all ranks of a lane (two_level_parts.c).
#ifndef RONDO_DAEMON_PLAN_TWO_LEVEL_H
#define RONDO_DAEMON_PLAN_TWO_LEVEL_H

#include "daemon/plan/build.h"

// True for the algorithms over two levels; for those with a ring, or with recursive doubling,
// between the machines; and for those with a chain inside them, and not a binomial tree.
bool rondo_plan_has_two_levels(int algorithm);
bool rondo_plan_rings_between(int algorithm);
bool rondo_plan_doubles_between(int algorithm);
bool rondo_plan_chains_inside(int algorithm);

// Ranks that work by one of the algorithms below among themselves: all of the group, or the leaders
// of the machines. Each has a place below `count`.
struct rondo_plan_circle {
  const struct rondo_plan_topology *topology; // place and position are the same if this is null
  bool of_leaders;                            // the places are the machines
  uint32_t own, count;
  uint32_t lane, lanes; // of leaders: which one of each machine, and of how many. Their chunks are
                        // those whose number modulo `lanes` is `lane`. No lanes: all chunks
};

// Both append their ops to a plan with `chunk_count` chunks, the same for each lane, and their
// peers after those that it has, of which there are as many to send to as to receive from.
// `result`: RONDO_PRIM_RESULT if the receive buffer holds what the rank begins with, else 0.

// All-reduce: chunk c starts at place c + 1, gathers contributions round the ring, is finished at
// place c and goes round once more. Place r thus starts with chunk r - 1. A reduce-scatter is the
// first half of this, an all-gather the second.
void rondo_plan_ring_append(const struct rondo_plan_circle *circle, int kind, int result,
                            struct rondo_plan *plan);

// Recursive doubling of an all-reduce. `core` is the greatest power of two that is at most `count`.
// A rank from place `core` on is folded: it sends its sum to place - core and gets the result from
// there. In round k places r and r ^ 2^k send each other what they have and add: both then hold the
// sum of the same 2^(k+1) ranks. A rank overwrites what it has sent before the peer may have read
// it, so slots hold copies. All get the same bits, because no reduction of two operands depends on
// their order (docs/algorithms.md).
void rondo_plan_doubling_append(const struct rondo_plan_circle *circle, int result,
                                struct rondo_plan *plan);

// A lane of a plan: every `count`-th chunk, from number `index` on. It has leaders of its own.
struct rondo_plan_lane {
  struct rondo_plan *plan;
  uint32_t index, count;
};

// Appends an op that takes chunks of the lane downwards from the one with number `first`. The peers
// count where the primitive has them. Nothing if it would repeat 0 times.
void rondo_plan_lane_append(const struct rondo_plan_lane *lane, int primitive, uint32_t repeat,
                            uint32_t first, uint32_t send, uint32_t recv);

// Each rank of a reduce-scatter keeps a sum for each rank of its lane: so many at most.
#define RONDO_PLAN_MAX_LANE_SUMS 16u

// The lanes of an all-gather or reduce-scatter whose machines have `leaders` leaders each: as many,
// or 1 where a rank would keep too many sums.
uint32_t rondo_plan_part_lanes(int kind, uint32_t nranks, uint32_t leaders);

// The builders. `chunk_count` of the plan is set: of an all-reduce for each lane that of the
// machines with a ring, else 1; of a reduce or broadcast 1 for each lane.
void rondo_plan_two_level_build(const struct rondo_plan_request *request, struct rondo_plan *plan);
void rondo_plan_two_level_rooted_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan);
void rondo_plan_two_level_gather_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan);
void rondo_plan_two_level_scatter_build(const struct rondo_plan_request *request,
                                        struct rondo_plan *plan);

#endif // RONDO_DAEMON_PLAN_TWO_LEVEL_H
