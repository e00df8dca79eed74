// The builders of build.h. docs/algorithms.md has each plan as a table, and why it is safe.
#include "daemon/plan/build.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "rondo/status.h"
#include "rondo/types.h"

// Primitives under the names that docs/algorithms.md uses.
enum {
  SEND = RONDO_PRIM_SEND,
  RECV = RONDO_PRIM_RECV,
  RECV_SEND = RONDO_PRIM_RECV | RONDO_PRIM_SEND,
  COPY = RONDO_PRIM_COPY,
  COPY_SEND = RONDO_PRIM_COPY | RONDO_PRIM_SEND,
  RECV_COPY = RONDO_PRIM_RECV | RONDO_PRIM_COPY,
  RECV_COPY_SEND = RONDO_PRIM_RECV | RONDO_PRIM_COPY | RONDO_PRIM_SEND,
  RECV_REDUCE_SEND = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_SEND,
  RECV_REDUCE_COPY = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY,
  RECV_REDUCE_COPY_SEND = RECV_REDUCE_COPY | RONDO_PRIM_SEND,
  RECV_REDUCE_RESULT = RECV_REDUCE_COPY | RONDO_PRIM_RESULT,
  SEND_RESULT = RONDO_PRIM_SEND | RONDO_PRIM_RESULT
};

// Position `steps` places further round the ring; `steps` may be up to `n`.
static uint32_t ring_after(uint32_t position, uint32_t steps, uint32_t n) {
  return (position + steps) % n;
}

// Position `steps` places back; `steps` may be up to `n`.
static uint32_t ring_before(uint32_t position, uint32_t steps, uint32_t n) {
  return (position + n - steps) % n;
}

static bool kind_reduces(int kind) {
  return kind == RONDO_ALL_REDUCE || kind == RONDO_REDUCE_SCATTER || kind == RONDO_REDUCE;
}

// Appends an op that walks the chunks downwards from `first`, with the first send peer and the first
// recv peer; nothing if it would repeat 0 times.
static void op_append(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t first) {
  if (repeat == 0)
    return;
  struct rondo_plan_op *op = &plan->ops[plan->op_count++];
  op->primitive = (uint16_t)primitive;
  op->send_peer = primitive & RONDO_PRIM_SEND ? 0 : RONDO_PLAN_NO_PEER;
  op->recv_peer = primitive & RONDO_PRIM_RECV ? 0 : RONDO_PLAN_NO_PEER;
  op->repeat = repeat;
  op->first_chunk = first;
  op->chunk_stride = plan->chunk_count - 1;
  op->chunk_count = plan->chunk_count;
}

static void send_peer_set(struct rondo_plan *plan, uint32_t peer) {
  plan->send.count = 1;
  plan->send.listed[0] = peer;
}

static void recv_peer_set(struct rondo_plan *plan, uint32_t peer) {
  plan->recv.count = 1;
  plan->recv.listed[0] = peer;
}

static void ring_peers_set(struct rondo_plan *plan, uint32_t rank, uint32_t n) {
  send_peer_set(plan, ring_after(rank, 1, n));
  recv_peer_set(plan, ring_before(rank, 1, n));
}

// Appends an op that goes on to the next peers every time, and to the chunk `chunk_stride` further.
static void walk_append(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t first,
                        uint32_t chunk_stride) {
  uint32_t before = plan->op_count;
  op_append(plan, primitive, repeat, first);
  if (plan->op_count == before)
    return;
  plan->ops[before].peer_stride = 1;
  plan->ops[before].chunk_stride = chunk_stride;
}

// Whether the send (receive) buffer of a rank holds its own chunk alone.
static int base_of(int kind) {
  switch (kind) {
  case RONDO_ALL_GATHER:
  case RONDO_GATHER:
    return RONDO_PRIM_IN_BASE;
  case RONDO_REDUCE_SCATTER:
  case RONDO_SCATTER:
    return RONDO_PRIM_OUT_BASE;
  default:
    return 0;
  }
}

// A group of one: the value is its own input, finished at once where there is a reduction.
static void single_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  int base = base_of(q->kind);
  if (q->kind == RONDO_BARRIER)
    return;
  op_append(plan, COPY | base | (kind_reduces(q->kind) ? RONDO_PRIM_FINAL : 0), 1, 0);
}

// Chunk c starts at rank c + 1, gathers contributions round the ring, is finished at
// rank c and goes round once more. Rank r thus starts with chunk r - 1.
static void ring_all_reduce_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  ring_peers_set(plan, rank, n);
  op_append(plan, SEND, 1, ring_before(rank, 1, n));
  op_append(plan, RECV_REDUCE_SEND, n - 2, ring_before(rank, 2, n));
  op_append(plan, RECV_REDUCE_COPY_SEND | RONDO_PRIM_FINAL, 1, rank);
  op_append(plan, RECV_COPY_SEND, n - 2, ring_before(rank, 1, n));
  op_append(plan, RECV_COPY, 1, ring_after(rank, 1, n));
}

static void ring_reduce_scatter_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  ring_peers_set(plan, rank, n);
  op_append(plan, SEND, 1, ring_before(rank, 1, n));
  op_append(plan, RECV_REDUCE_SEND, n - 2, ring_before(rank, 2, n));
  op_append(plan, RECV_REDUCE_COPY | RONDO_PRIM_FINAL | RONDO_PRIM_OUT_BASE, 1, rank);
}

static void ring_all_gather_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  ring_peers_set(plan, rank, n);
  op_append(plan, COPY_SEND | RONDO_PRIM_IN_BASE, 1, rank);
  op_append(plan, RECV_COPY_SEND, n - 2, ring_before(rank, 1, n));
  op_append(plan, RECV_COPY, 1, ring_after(rank, 1, n));
}

// Down the ring from the rank after the root to the root, which alone writes.
static void ring_reduce_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t n = q->nranks;
  bool first = q->rank == ring_after(q->root, 1, n);
  if (q->rank != q->root)
    send_peer_set(plan, ring_after(q->rank, 1, n));
  if (!first)
    recv_peer_set(plan, ring_before(q->rank, 1, n));
  if (first)
    op_append(plan, SEND, 1, 0);
  else if (q->rank == q->root)
    op_append(plan, RECV_REDUCE_COPY | RONDO_PRIM_FINAL, 1, 0);
  else
    op_append(plan, RECV_REDUCE_SEND, 1, 0);
}

// Down the ring from the root to the rank before it.
static void ring_broadcast_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t n = q->nranks;
  bool last = q->rank == ring_before(q->root, 1, n);
  if (!last)
    send_peer_set(plan, ring_after(q->rank, 1, n));
  if (q->rank != q->root)
    recv_peer_set(plan, ring_before(q->rank, 1, n));
  if (q->rank == q->root)
    op_append(plan, COPY_SEND, 1, 0);
  else
    op_append(plan, last ? RECV_COPY : RECV_COPY_SEND, 1, 0);
}

// The chain of two has nothing to go along: both send, and both reduce, in one hop. In place each writes
// over what the other may not have read yet, so what is sent must be a copy. Both have the same bits,
// because no reduction of two depends on their order (docs/numerics.md).
static void exchange_build(uint32_t rank, struct rondo_plan *plan) {
  ring_peers_set(plan, rank, 2);
  op_append(plan, SEND, 1, 0);
  op_append(plan, RECV_REDUCE_COPY | RONDO_PRIM_FINAL, 1, 0);
}

// Reduces along 0 → 1 → … → n-1, then goes on round the ring with the finished value,
// n-1 → 0 → … → n-2: one send peer and one recv peer do for both halves.
static void chain_all_reduce_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  ring_peers_set(plan, rank, n);
  if (rank == n - 1) {
    op_append(plan, RECV_REDUCE_COPY_SEND | RONDO_PRIM_FINAL, 1, 0);
    return;
  }
  op_append(plan, rank == 0 ? SEND : RECV_REDUCE_SEND, 1, 0);
  op_append(plan, rank == n - 2 ? RECV_COPY : RECV_COPY_SEND, 1, 0);
}

static void ring_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  switch (q->kind) {
  case RONDO_ALL_REDUCE:
    ring_all_reduce_build(q->rank, q->nranks, plan);
    break;
  case RONDO_ALL_GATHER:
    ring_all_gather_build(q->rank, q->nranks, plan);
    break;
  case RONDO_REDUCE_SCATTER:
    ring_reduce_scatter_build(q->rank, q->nranks, plan);
    break;
  case RONDO_REDUCE:
    ring_reduce_build(q, plan);
    break;
  default:
    ring_broadcast_build(q, plan);
    break;
  }
}

// All other ranks, upwards from the next one, and downwards from the one before.
static struct rondo_plan_peers others_upwards(uint32_t rank, uint32_t n) {
  return (struct rondo_plan_peers){n - 1, 1, {ring_after(rank, 1, n)}};
}

static struct rondo_plan_peers others_downwards(uint32_t rank, uint32_t n) {
  return (struct rondo_plan_peers){n - 1, n - 1, {ring_before(rank, 1, n)}};
}

// The order of the pairwise exchange: in step i to r + i and from r - i. All sends come first:
// where they pass references they cost nothing, and the peers read while this rank copies.
static void all_to_all_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  plan->send = others_upwards(rank, n);
  plan->recv = others_downwards(rank, n);
  walk_append(plan, SEND, n - 1, ring_after(rank, 1, n), 1);
  op_append(plan, COPY, 1, rank);
  walk_append(plan, RECV_COPY, n - 1, ring_before(rank, 1, n), n - 1);
}

static void gather_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t n = q->nranks;
  if (q->rank != q->root) {
    send_peer_set(plan, q->root);
    op_append(plan, SEND | RONDO_PRIM_IN_BASE, 1, q->rank);
    return;
  }
  plan->recv = others_upwards(q->root, n);
  op_append(plan, COPY | RONDO_PRIM_IN_BASE, 1, q->rank);
  walk_append(plan, RECV_COPY, n - 1, ring_after(q->root, 1, n), 1);
}

static void scatter_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t n = q->nranks;
  if (q->rank != q->root) {
    recv_peer_set(plan, q->root);
    op_append(plan, RECV_COPY | RONDO_PRIM_OUT_BASE, 1, q->rank);
    return;
  }
  plan->send = others_upwards(q->root, n);
  walk_append(plan, SEND, n - 1, ring_after(q->root, 1, n), 1);
  op_append(plan, COPY | RONDO_PRIM_OUT_BASE, 1, q->rank);
}

static void send_recv_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  if (q->rank == q->root) {
    send_peer_set(plan, 1 - q->rank);
    op_append(plan, SEND, 1, 0);
  } else {
    recv_peer_set(plan, 1 - q->rank);
    op_append(plan, RECV_COPY, 1, 0);
  }
}

// Everybody's chunk to everybody, as in an all-to-all.
static void direct_all_gather_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  plan->send = others_upwards(rank, n);
  plan->recv = others_downwards(rank, n);
  walk_append(plan, SEND | RONDO_PRIM_IN_BASE, n - 1, rank, 0);
  op_append(plan, COPY | RONDO_PRIM_IN_BASE, 1, rank);
  walk_append(plan, RECV_COPY, n - 1, ring_before(rank, 1, n), n - 1);
}

static void direct_broadcast_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  if (q->rank != q->root) {
    recv_peer_set(plan, q->root);
    op_append(plan, RECV_COPY, 1, 0);
    return;
  }
  plan->send = others_upwards(q->root, q->nranks);
  walk_append(plan, SEND, q->nranks - 1, 0, 0);
  op_append(plan, COPY, 1, 0);
}

// Reduces what comes from the recv peers, in their order. The first is reduced with the own input, the
// others with what the receive buffer then holds.
static void direct_reduce_append(struct rondo_plan *plan, int base, uint32_t chunk) {
  uint32_t others = plan->recv.count;
  int last = RONDO_PRIM_FINAL | base;
  walk_append(plan, RECV_REDUCE_COPY | (others == 1 ? last : base), 1, chunk, 0);
  if (others == 1)
    return;
  if (others > 2) {
    walk_append(plan, RECV_REDUCE_RESULT | base, others - 2, chunk, 0);
    plan->ops[plan->op_count - 1].recv_peer = 1;
  }
  walk_append(plan, RECV_REDUCE_RESULT | last, 1, chunk, 0);
  plan->ops[plan->op_count - 1].recv_peer = (uint16_t)(others - 1);
}

static void direct_reduce_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  if (q->rank != q->root) {
    send_peer_set(plan, q->root);
    op_append(plan, SEND, 1, 0);
    return;
  }
  plan->recv = others_upwards(q->root, q->nranks);
  direct_reduce_append(plan, 0, 0);
}

// To rank 0 and back from there: the order of the chain, so the bits of the chain.
static void direct_all_reduce_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  if (rank != 0) {
    send_peer_set(plan, 0);
    recv_peer_set(plan, 0);
    op_append(plan, SEND, 1, 0);
    op_append(plan, RECV_COPY, 1, 0);
    return;
  }
  plan->recv = others_upwards(0, n);
  plan->send = others_upwards(0, n);
  direct_reduce_append(plan, 0, 0);
  walk_append(plan, SEND_RESULT, n - 1, 0, 0);
}

static void direct_reduce_scatter_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  plan->send = others_upwards(rank, n);
  plan->recv = others_upwards(rank, n);
  walk_append(plan, SEND, n - 1, ring_after(rank, 1, n), 1);
  direct_reduce_append(plan, RONDO_PRIM_OUT_BASE, rank);
}

// The kinds that have a ring too.
static bool direct_of_ring_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  switch (q->kind) {
  case RONDO_ALL_REDUCE:
    direct_all_reduce_build(q->rank, q->nranks, plan);
    return true;
  case RONDO_REDUCE:
    direct_reduce_build(q, plan);
    return true;
  case RONDO_REDUCE_SCATTER:
    direct_reduce_scatter_build(q->rank, q->nranks, plan);
    return true;
  case RONDO_ALL_GATHER:
    direct_all_gather_build(q->rank, q->nranks, plan);
    return true;
  case RONDO_BROADCAST:
    direct_broadcast_build(q, plan);
    return true;
  default:
    return false;
  }
}

static void direct_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  if (direct_of_ring_build(q, plan))
    return;
  if (q->kind == RONDO_SEND_RECV)
    send_recv_build(q, plan);
  else if (q->kind == RONDO_GATHER)
    gather_build(q, plan);
  else if (q->kind == RONDO_SCATTER)
    scatter_build(q, plan);
  else
    all_to_all_build(q->rank, q->nranks, plan);
}

// In round k a signal goes to r + 2^k, once that of round k - 1 has come from r - 2^(k-1). So it
// says that 2^k ranks have come, and after the last round all have.
static void barrier_build(uint32_t rank, uint32_t n, struct rondo_plan *plan) {
  uint32_t rounds = 0;
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    plan->send.listed[rounds] = ring_after(rank, distance, n);
    plan->recv.listed[rounds++] = ring_before(rank, distance, n);
  }
  plan->send.count = plan->recv.count = rounds;
  op_append(plan, SEND, 1, 0);
  uint32_t between = plan->op_count;
  walk_append(plan, RECV_SEND, rounds - 1, 0, 0);
  if (plan->op_count > between)
    plan->ops[between].send_peer = 1;
  op_append(plan, RECV, 1, 0);
  plan->ops[plan->op_count - 1].recv_peer = (uint16_t)(rounds - 1);
}

int rondo_plan_is_rooted(int kind) {
  return kind == RONDO_REDUCE || kind == RONDO_BROADCAST || kind == RONDO_GATHER ||
         kind == RONDO_SCATTER || kind == RONDO_SEND_RECV;
}

static bool request_is_valid(const struct rondo_plan_request *q) {
  uint32_t most = q->kind == RONDO_SEND_RECV ? 2 : RONDO_MAX_RANKS;
  return q->kind >= 0 && q->kind < RONDO_KIND_COUNT && q->algorithm >= 0 &&
         q->algorithm < RONDO_ALGORITHM_COUNT && q->nranks >= 1 && q->nranks <= most &&
         q->rank < q->nranks && (!rondo_plan_is_rooted(q->kind) || q->root < q->nranks);
}

// The algorithm of a kind for large sizes.
static int algorithm_of(int kind) {
  if (kind < RONDO_SEND_RECV)
    return RONDO_ALGORITHM_RING;
  return kind == RONDO_BARRIER ? RONDO_ALGORITHM_DISSEMINATION : RONDO_ALGORITHM_DIRECT;
}

static bool is_by_rank(int kind) {
  return kind == RONDO_ALL_REDUCE || kind == RONDO_ALL_GATHER || kind == RONDO_REDUCE_SCATTER ||
         kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V || kind == RONDO_GATHER ||
         kind == RONDO_SCATTER;
}

static bool has_algorithm(int kind, int algorithm) {
  if (algorithm == RONDO_ALGORITHM_CHAIN)
    return kind == RONDO_ALL_REDUCE;
  if (algorithm == RONDO_ALGORITHM_DIRECT)
    return kind != RONDO_BARRIER;
  return algorithm == algorithm_of(kind);
}

int rondo_plan_build(const struct rondo_plan_request *request, struct rondo_plan *plan) {
  if (request == NULL || plan == NULL || !request_is_valid(request))
    return RONDO_ERR_INVALID;
  bool chain = request->algorithm == RONDO_ALGORITHM_CHAIN;
  if (!has_algorithm(request->kind, request->algorithm))
    return RONDO_ERR_UNSUPPORTED;
  memset(plan, 0, sizeof(*plan));
  plan->nranks = request->nranks;
  plan->by_value = (uint32_t)rondo_plan_is_by_value(request->algorithm, request->nranks);
  bool whole = request->kind == RONDO_ALL_REDUCE && request->algorithm != RONDO_ALGORITHM_RING;
  plan->chunk_count = !whole && is_by_rank(request->kind) ? request->nranks : 1;
  if (request->nranks == 1)
    single_build(request, plan);
  else if (chain && request->nranks == 2)
    exchange_build(request->rank, plan);
  else if (chain)
    chain_all_reduce_build(request->rank, request->nranks, plan);
  else if (request->algorithm == RONDO_ALGORITHM_RING)
    ring_build(request, plan);
  else if (request->algorithm == RONDO_ALGORITHM_DIRECT)
    direct_build(request, plan);
  else
    barrier_build(request->rank, request->nranks, plan);
  return RONDO_SUCCESS;
}

uint32_t rondo_plan_least_slots(int kind, int algorithm, uint32_t nranks) {
  bool round = algorithm == RONDO_ALGORITHM_RING &&
               ((kind == RONDO_ALL_REDUCE && nranks >= 2) ||
                ((kind == RONDO_ALL_GATHER || kind == RONDO_REDUCE_SCATTER) && nranks >= 3));
  return round ? 2 : 1;
}

int rondo_plan_is_by_value(int algorithm, uint32_t nranks) {
  return algorithm == RONDO_ALGORITHM_CHAIN && nranks == 2;
}

int rondo_plan_choose(int kind, uint64_t bytes, uint32_t nranks) {
  bool star = kind == RONDO_ALL_REDUCE || kind == RONDO_REDUCE || kind == RONDO_BROADCAST;
  uint32_t most = star ? RONDO_PLAN_STAR_MAX_RANKS : RONDO_PLAN_DIRECT_MAX_RANKS;
  bool few = nranks > 2 && nranks <= most;
  if (few && bytes <= RONDO_PLAN_DIRECT_MAX_BYTES && kind != RONDO_BARRIER)
    return RONDO_ALGORITHM_DIRECT;
  if (kind == RONDO_ALL_REDUCE && nranks > 1 && bytes <= RONDO_PLAN_CHAIN_MAX_BYTES)
    return RONDO_ALGORITHM_CHAIN;
  return algorithm_of(kind);
}
