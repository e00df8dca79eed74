// The plan: the program of one collective on one rank.
//
// A plan is a short array of ops. An op is a primitive (a fusion of send, recv,
// reduce and copy: the DFCCL paper, 4.1) that is repeated over chunks. Data are
// cut into loops and each loop into chunks (geometry_core.h); a block executes the
// whole plan once a loop. Ring all-reduce is five ops whatever the number of ranks.
//
// Builders are the pure functions of build.h; the interpreter is daemon/core/block_core.h.
#ifndef RONDO_DAEMON_PLAN_PLAN_H
#define RONDO_DAEMON_PLAN_PLAN_H

#include <assert.h>
#include <stdint.h>

// What a primitive does with one chunk. `local` is this rank's part of the send
// buffer, `incoming` what the recv connector holds; the value is
//   incoming op local   with RECV | REDUCE,
//   incoming            with RECV,
//   local               without RECV.
enum rondo_primitive {
  RONDO_PRIM_RECV = 1,     // take a slot from the recv connector
  RONDO_PRIM_REDUCE = 2,   // reduce it with the local chunk; needs RECV
  RONDO_PRIM_COPY = 4,     // put the value into the receive buffer
  RONDO_PRIM_SEND = 8,     // put the value into the send connector
  RONDO_PRIM_FINAL = 16,   // the value is the finished result: apply the reduction's last step
  RONDO_PRIM_IN_BASE = 32, // the send buffer holds only this chunk: ignore the chunk index there
  RONDO_PRIM_OUT_BASE = 64 // the receive buffer holds only this chunk: likewise
};

#define RONDO_PLAN_MAX_OPS 8u
#define RONDO_PLAN_MAX_PEERS 8u
#define RONDO_PLAN_NO_PEER 0xffffu

// Executed `repeat` times; execution i handles chunk
// (first_chunk + i × chunk_stride) mod chunk_count.
struct rondo_plan_op {
  uint16_t primitive;    // enum rondo_primitive, or'ed
  uint16_t send_peer;    // index into rondo_plan.send_peers, or RONDO_PLAN_NO_PEER
  uint16_t recv_peer;    // index into rondo_plan.recv_peers, or RONDO_PLAN_NO_PEER
  uint16_t reserved;     // zero
  uint32_t repeat;       // at least 1; builders leave out ops that would repeat 0 times
  uint32_t first_chunk;  // below chunk_count
  uint32_t chunk_stride; // below chunk_count, or 0; going down is chunk_count - 1
  uint32_t chunk_count;  // chunks of a loop: the number of ranks, or 1
};
static_assert(sizeof(struct rondo_plan_op) == 24, "shared layout");

enum rondo_algorithm {
  RONDO_ALGORITHM_RING = 0, // bandwidth-optimal; all five kinds
  RONDO_ALGORITHM_CHAIN = 1 // all-reduce only: reduce along the ring, then broadcast on round it
};
#define RONDO_ALGORITHM_COUNT 2

struct rondo_plan {
  uint32_t op_count;
  uint32_t chunk_count;                      // chunks of a loop: nranks, or 1
  uint32_t send_peer_count, recv_peer_count; // connectors that a block needs
  uint32_t send_peers[RONDO_PLAN_MAX_PEERS]; // positions in the group
  uint32_t recv_peers[RONDO_PLAN_MAX_PEERS];
  struct rondo_plan_op ops[RONDO_PLAN_MAX_OPS];
};

#endif // RONDO_DAEMON_PLAN_PLAN_H
