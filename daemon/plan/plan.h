// The plan: the program of one collective on one rank.
//
// A plan is a short array of ops. An op is a primitive (a send, receive, reduction and copy, in any
// combination: the paper, 4.1) that is repeated over chunks. Data are divided into loops, and each
// loop into chunks (geometry_core.h). A block executes the whole plan once for each loop, or, if
// the plan has two passes, first the ops of one pass for all loops and then those of the other one.
// A ring all-reduce has five ops for any number of ranks.
//
// build.h builds plans; daemon/core/block_execute_core.h executes them.
#ifndef RONDO_DAEMON_PLAN_PLAN_H
#define RONDO_DAEMON_PLAN_PLAN_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/types.h>

// What a primitive does with one chunk. `local` is the chunk in the send buffer (with RESULT: in
// the receive buffer), `incoming` the chunk that was received. The value of the primitive is
//   incoming op local   with RECV | REDUCE,
//   incoming            with RECV,
//   local               without RECV.
// Scratch is private memory of the collective, in which a plan keeps what belongs into no buffer of
// the user. It holds nothing when a loop begins.
// The chunks of a barrier are empty: its slots are signals, and RECV alone receives one.
enum rondo_primitive {
  RONDO_PRIM_RECV = 1,      // take a slot from the recv connector
  RONDO_PRIM_REDUCE = 2,    // reduce it with the local chunk; needs RECV, or IN_SCRATCH
  RONDO_PRIM_COPY = 4,      // put the value into the receive buffer
  RONDO_PRIM_SEND = 8,      // put the value into the send connector
  RONDO_PRIM_FINAL = 16,    // the value is the finished result: apply the reduction's last step
  RONDO_PRIM_IN_BASE = 32,  // the send buffer holds only this chunk: ignore the chunk index there
  RONDO_PRIM_OUT_BASE = 64, // the receive buffer holds only this chunk: ignore the index there
  RONDO_PRIM_RESULT = 128,  // `local` is what earlier ops have put into the receive buffer. RECV |
                            // REDUCE | COPY adds to it (and SEND sends the sum), SEND alone
                            // sends it
  RONDO_PRIM_IN_SCRATCH = 256, // `local` is what earlier ops have put into scratch. With REDUCE but
                               // without RECV that is `incoming`, and `local` is the send buffer
  RONDO_PRIM_OUT_SCRATCH = 512, // COPY puts the value into scratch, not into the receive buffer
  // Of ops that send from scratch or receive into it, once: the chunks are in runs of
  // `chunk_stride`, a power of two below the width. Between two runs as many are left out.
  RONDO_PRIM_RUNS = 1024,
  RONDO_PRIM_MIRROR = 2048, // of a COPY from scratch: chunks are in descending order there, from
                            // `scratch_first` on
  // The messages of the op hold float32 elements as codes of int8 or float8 e4m3 with scales
  // (daemon/core/quantise_core.h). A value that is computed is quantised once, when it is sent;
  // COPY then puts what the codes stand for into the receive buffer. A value that was received is
  // passed on as it came.
  RONDO_PRIM_INT8 = 4096,
  RONDO_PRIM_FLOAT8_E4M3 = 8192,
  // The message is packets, if the connector has them (queues/connector_core.h). Of an op that
  // either sends or receives.
  RONDO_PRIM_PACKETS = 16384
};

#define RONDO_PRIM_QUANTISED (RONDO_PRIM_INT8 | RONDO_PRIM_FLOAT8_E4M3)
// Between a primitive and enum rondo_quantisation.
#define RONDO_PRIM_OF_QUANTISATION(quantisation) ((quantisation) << 12)
#define RONDO_PRIM_QUANTISATION(primitive) ((primitive) >> 12 & 3)
static_assert(RONDO_PRIM_OF_QUANTISATION(RONDO_QUANTISE_INT8) == RONDO_PRIM_INT8 &&
                  RONDO_PRIM_OF_QUANTISATION(RONDO_QUANTISE_FLOAT8_E4M3) == RONDO_PRIM_FLOAT8_E4M3,
              "see there");

#define RONDO_PRIM_SCRATCH (RONDO_PRIM_IN_SCRATCH | RONDO_PRIM_OUT_SCRATCH)

#define RONDO_PLAN_MAX_ROUNDS 17u // log2 of the most ranks
#define RONDO_PLAN_MAX_OPS (4 * RONDO_PLAN_MAX_ROUNDS)
#define RONDO_PLAN_LISTED_PEERS (2 * RONDO_PLAN_MAX_ROUNDS)
#define RONDO_PLAN_NO_PEER 0xffffu
#define RONDO_PLAN_ROUNDS_MOST_CHUNKS 65536u // of a loop: a context counts them in 16 bits
#define RONDO_PLAN_DIRECT_MOST_RANKS 0xffffu // so that each peer of a rank has a number
static_assert(1u << RONDO_PLAN_MAX_ROUNDS >= RONDO_MAX_RANKS, "rounds are ⌈log2 n⌉");

// Executed `repeat` times. Execution i handles the `width` chunks from (first_chunk + i ×
// chunk_stride) on, with the peers send_peer + i × peer_stride and recv_peer + i × peer_stride.
// Numbers of chunks are modulo the plan's chunk_count, so the first chunk follows the last one. One
// message carries all chunks of an execution.
//
// An op with `round_ops` is the last of so many ops that are a *round*. They are executed again and
// again, each time for chunks that are `round_chunks` of the plan further, until the rounds have
// gone through all chunks of the loop.
struct rondo_plan_op {
  uint16_t primitive;    // enum rondo_primitive, or'ed
  uint16_t send_peer;    // which send peer of the plan, or RONDO_PLAN_NO_PEER
  uint16_t recv_peer;    // which recv peer of the plan, or RONDO_PLAN_NO_PEER
  uint8_t peer_stride;   // 0: the same peers every time; 1: the next ones
  uint8_t round_ops;     // 0: no round ends with this op
  uint32_t repeat;       // at least 1; builders leave out ops that would repeat 0 times
  uint32_t first_chunk;  // below chunk_count
  uint32_t chunk_stride; // below chunk_count; chunk_count - 1 takes chunks in descending order
  uint32_t width;        // 1 to chunk_count; 1 with IN_BASE or OUT_BASE
};
static_assert(sizeof(struct rondo_plan_op) == 24, "shared layout");

enum rondo_algorithm {
  // Bandwidth-optimal: all-reduce, all-gather, reduce-scatter, reduce and broadcast.
  RONDO_ALGORITHM_RING = 0,
  // For large groups: all-reduce and broadcast over two levels of about √n children.
  RONDO_ALGORITHM_TREE = 1,
  // Each rank sends directly to the ranks that need its data: send-recv, all-to-all, all-to-all-v,
  // gather, scatter, and small collectives of the kinds that also have a ring.
  RONDO_ALGORITHM_DIRECT = 2,
  RONDO_ALGORITHM_DISSEMINATION = 3, // barrier only: signals to distances 1, 2, 4, …
  // All-reduce: pairs of ranks at the distances 1, 2, 4, … exchange sums (recursive doubling).
  RONDO_ALGORITHM_DOUBLING = 4,
  // All-reduce, reduce, broadcast, gather and scatter over a binomial tree.
  RONDO_ALGORITHM_BINOMIAL = 5,
  // Reduce-scatter: ⌈log2 n⌉ rounds halve the chunks that a rank adds up. All-reduce: as many more
  // gather the results (Rabenseifner's algorithm, for any number of ranks).
  RONDO_ALGORITHM_HALVING = 6,
  RONDO_ALGORITHM_BRUCK = 7, // all-gather and all-to-all: ⌈log2 n⌉ rounds
  // Over two levels (two_level.h). All-reduce, reduce and broadcast: a chain or a binomial tree
  // inside each machine; between machines a ring or recursive doubling, or, of a reduce or
  // broadcast, a line or a binomial tree. All-gather and reduce-scatter, by the first algorithm: a
  // ring of all ranks that brings no machine what it has, and a ring or chain inside each machine.
  RONDO_ALGORITHM_CHAIN_RING = 8,
  RONDO_ALGORITHM_BINOMIAL_RING = 9,
  RONDO_ALGORITHM_CHAIN_DOUBLING = 10,
  RONDO_ALGORITHM_BINOMIAL_DOUBLING = 11,
  // All-reduce: a direct reduce-scatter, then a direct all-gather.
  RONDO_ALGORITHM_TWO_SHOT = 12,
  // All-reduce: each rank sends its input to all others, and adds up all inputs.
  RONDO_ALGORITHM_ONE_SHOT = 13,
  // All-reduce, reduce and broadcast: two binary trees, each with half of the elements, through
  // which the
  // loops follow each other (trees.h). A rank that passes on in one of them is a leaf of the other.
  RONDO_ALGORITHM_DOUBLE_TREE = 14,
  // One-shot and two-shot whose messages are packets: a GPU needs no fence for them.
  RONDO_ALGORITHM_ONE_SHOT_PACKETS = 15,
  RONDO_ALGORITHM_TWO_SHOT_PACKETS = 16,
  // Direct all-gather and reduce-scatter whose messages are packets.
  RONDO_ALGORITHM_DIRECT_PACKETS = 17
};
#define RONDO_ALGORITHM_COUNT 18

// The ranks to which a plan sends, or from which it receives. They are a list, or one rank and then
// every `stride`-th rank of the group, so that a plan does not grow with the number of ranks.
struct rondo_plan_peers {
  uint32_t count;  // of peers; a block needs a connector for each
  uint32_t stride; // 0: `listed`; else peer 0 is listed[0], peer i is listed[1] + (i - 1) × stride
  uint32_t listed[RONDO_PLAN_LISTED_PEERS]; // positions in the group
};

struct rondo_plan {
  uint32_t op_count;
  uint32_t chunk_count; // chunks of a loop: nranks, the number of machines, 2 or 1
  uint32_t nranks;
  uint32_t by_value;   // 1: slots carry copies, never references
  uint32_t keeps_sums; // 1: see struct rondo_plan_request
  // 0: chunk c of the plan is the one of the rank at position c. Else the ranks are in the order by
  // machines, and in so many lanes: chunk c is the one of the rank at place
  // rondo_plan_lane_place(nranks, by_place, c) of that order (plan_topology.h)
  uint32_t by_place;
  // Scratch holds the chunks of a loop from `scratch_first` on, `scratch_count` of them, round the
  // end. Each block has its own. 0: the plan has no scratch.
  uint32_t scratch_first, scratch_count;
  // 0: the plan has one pass. Else the number of its first ops that are the first pass: a block
  // executes them for all loops, and then the others for all loops. Such a plan has no scratch.
  uint32_t first_pass;
  uint32_t round_chunks; // a divisor of chunk_count; 0: the plan has no rounds
  struct rondo_plan_peers send, recv;
  struct rondo_plan_op ops[RONDO_PLAN_MAX_OPS]; // last: a copy ends after op_count of them
};

static inline size_t rondo_plan_bytes(const struct rondo_plan *plan) {
  return offsetof(struct rondo_plan, ops) + plan->op_count * sizeof plan->ops[0];
}

// How often a loop executes op `index`, for each of its repeats: once, or once a round.
static inline uint32_t rondo_plan_rounds(const struct rondo_plan *plan, uint32_t index) {
  uint32_t last = index;
  while (last < plan->op_count && !plan->ops[last].round_ops)
    last++;
  bool is_in_round = last < plan->op_count && last - index < plan->ops[last].round_ops;
  return is_in_round ? plan->chunk_count / plan->round_chunks : 1;
}

// The position in the group of peer `index`, below peers->count.
static inline uint32_t rondo_plan_peer(const struct rondo_plan *plan,
                                       const struct rondo_plan_peers *peers, uint32_t index) {
  if (peers->stride == 0 || index == 0)
    return peers->listed[index];
  return (uint32_t)((peers->listed[1] + (uint64_t)(index - 1) * peers->stride) % plan->nranks);
}

// The connectors of the plan's rank: those to its send peers, and then those from its recv peers.
static inline uint32_t rondo_plan_connector_count(const struct rondo_plan *plan) {
  return plan->send.count + plan->recv.count;
}

// The ends of a connector, by their positions in the group.
struct rondo_plan_connector {
  uint32_t from, to;
};

// The peer at the other end of connector `index`, below rondo_plan_connector_count.
static inline uint32_t rondo_plan_connector_peer(const struct rondo_plan *plan, uint32_t index) {
  return index < plan->send.count ? rondo_plan_peer(plan, &plan->send, index)
                                  : rondo_plan_peer(plan, &plan->recv, index - plan->send.count);
}

// Both ends of that connector, of the rank at `position`.
static inline struct rondo_plan_connector
rondo_plan_connector_at(const struct rondo_plan *plan, uint32_t position, uint32_t index) {
  uint32_t peer = rondo_plan_connector_peer(plan, index);
  return index < plan->send.count ? (struct rondo_plan_connector){position, peer}
                                  : (struct rondo_plan_connector){peer, position};
}

#endif // RONDO_DAEMON_PLAN_PLAN_H
