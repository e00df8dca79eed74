// Builders of plans: pure functions of (kind, algorithm, position, ranks, root, topology).
#ifndef RONDO_DAEMON_PLAN_BUILD_H
#define RONDO_DAEMON_PLAN_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/plan/plan.h"
#include "daemon/plan/plan_topology.h"

// Which plan is wanted. `rank` and `root` are positions in the group.
struct rondo_plan_request {
  int kind;      // enum rondo_kind
  int algorithm; // enum rondo_algorithm
  uint32_t rank;
  uint32_t nranks; // at least 1
  uint32_t root;   // used by reduce, broadcast, gather and scatter; the sender of a send-recv
  // Ring all-reduce: true if the rank keeps the partial sums that it sends in its receive buffer,
  // so that its slots can refer to all that it sends. Ranks need not agree on it.
  bool keeps_sums;
  const struct rondo_plan_topology *topology; // of the group; see plan_topology.h for null
  int quantisation;                           // enum rondo_quantisation: of the messages
};

// Builds the plan of one rank. A group of one rank gets one COPY op, or none for a barrier. The
// group of a send-recv is its two ranks, or one that sends to itself.
// Returns 0, RONDO_ERR_INVALID (a field out of range) or RONDO_ERR_UNSUPPORTED (the algorithm has
// no plan for that kind, or none with quantised messages). `plan` is written only on success.
int rondo_plan_build(const struct rondo_plan_request *request, struct rondo_plan *plan);

// The name of an algorithm, such as "ring", and back: RONDO_ALGORITHM_COUNT if none has that name.
const char *rondo_plan_algorithm_name(int algorithm);
int rondo_plan_algorithm_find(const char *name);

// True if the algorithm has a plan for that kind and that many ranks.
bool rondo_plan_exists(int kind, int algorithm, uint32_t nranks);

// True if the algorithm has a plan for that kind whose messages may be quantised: each rank adds to
// what it receives, one rank finishes a chunk and sends it at once, and all others pass it on.
bool rondo_plan_can_quantise(int kind, int algorithm);

// True if the messages of its plans are packets, where connectors have them.
bool rondo_plan_has_packets(int algorithm);

// The chunks of a loop: 1, or as many as ranks, as machines (with a ring between machines) or as
// trees; and so many for each leader that a machine has. There are several if each rank has its
// part of a buffer, or if the plan splits the elements of an all-reduce, reduce or broadcast. Reads
// kind, algorithm, nranks and topology of the request.
uint32_t rondo_plan_chunk_count(const struct rondo_plan_request *q);
bool rondo_plan_splits(int kind, int algorithm);

// The greatest width of an op in the plans of a group.
uint32_t rondo_plan_most_width(int kind, int algorithm, uint32_t nranks);

// Returns the least number of slots with which the connectors of this plan cannot deadlock: 1 or 2.
// An op that receives and sends takes both slots at once. In a closed ring in which every rank
// begins with a send, it could not do so without one more free slot (docs/algorithms.md has the
// proof). With packets, that no slot is written again too early.
uint32_t rondo_plan_least_slots(int kind, int algorithm, uint32_t nranks);

// The slots of a connector, unless the caller has another number: more where a rank sends to one
// peer after the other than where it has many peers at once.
uint32_t rondo_plan_slots(int kind, int algorithm, uint32_t nranks);

// The children of the root of a tree of two levels: the least number with which the levels hold all
// ranks. `nranks` is at least 2.
uint32_t rondo_plan_tree_width(uint32_t nranks);

// True if a rank may overwrite what it has sent before it knows that the peer has read it.
// Connectors must then carry copies, not references.
bool rondo_plan_is_by_value(int kind, int algorithm);

// For builders. The number of a position in a list of peers, to which it is added if it is not
// there. Not for peers with a stride.
uint16_t rondo_plan_peer_number(struct rondo_plan_peers *peers, uint32_t position);

// For builders. Appends an op for one chunk. `to` and `from` are positions, and count where the
// primitive sends or receives.
void rondo_plan_op_append(struct rondo_plan *plan, int primitive, uint32_t chunk, uint32_t to,
                          uint32_t from);

// Properties of a kind. True if it has a root; if it adds contributions up; if each chunk belongs
// to one rank, at least in one of the two buffers.
bool rondo_plan_is_rooted(int kind);
bool rondo_plan_reduces(int kind);
bool rondo_plan_has_parts(int kind);

// RONDO_PRIM_IN_BASE (RONDO_PRIM_OUT_BASE) if the send (receive) buffer of each rank holds only its
// own chunk; else 0.
int rondo_plan_base(int kind);

#endif // RONDO_DAEMON_PLAN_BUILD_H
