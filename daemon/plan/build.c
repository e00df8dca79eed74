// The builders of build.h. docs/algorithms.md has each plan as a table, and why it is safe.
#include "daemon/plan/build.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "daemon/plan/halving.h"
#include "daemon/plan/trees.h"
#include "daemon/plan/two_level.h"
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
  RECV_REDUCE_RESULT = RECV_REDUCE_COPY | RONDO_PRIM_RESULT,
  SEND_RESULT = RONDO_PRIM_SEND | RONDO_PRIM_RESULT,
  REDUCE_COPY_SCRATCH = RONDO_PRIM_REDUCE | RONDO_PRIM_COPY | RONDO_PRIM_IN_SCRATCH
};

// Position `steps` places further round the ring; `steps` may be up to `n`.
static uint32_t ring_after(uint32_t position, uint32_t steps, uint32_t n) {
  return (position + steps) % n;
}

// Position `steps` places back; `steps` may be up to `n`.
static uint32_t ring_before(uint32_t position, uint32_t steps, uint32_t n) {
  return (position + n - steps) % n;
}

uint16_t rondo_plan_peer_number(struct rondo_plan_peers *peers, uint32_t position) {
  uint32_t i = 0;
  while (i < peers->count && peers->listed[i] != position)
    i++;
  if (i == peers->count)
    peers->listed[peers->count++] = position;
  return (uint16_t)i;
}

void rondo_plan_op_append(struct rondo_plan *plan, int primitive, uint32_t chunk, uint32_t to,
                          uint32_t from) {
  struct rondo_plan_op *op = &plan->ops[plan->op_count++];
  *op = (struct rondo_plan_op){.primitive = (uint16_t)primitive,
                               .send_peer = RONDO_PLAN_NO_PEER,
                               .recv_peer = RONDO_PLAN_NO_PEER,
                               .repeat = 1,
                               .first_chunk = chunk,
                               .width = 1};
  if (primitive & RONDO_PRIM_SEND)
    op->send_peer = rondo_plan_peer_number(&plan->send, to);
  if (primitive & RONDO_PRIM_RECV)
    op->recv_peer = rondo_plan_peer_number(&plan->recv, from);
}

bool rondo_plan_reduces(int kind) {
  return kind == RONDO_ALL_REDUCE || kind == RONDO_REDUCE_SCATTER || kind == RONDO_REDUCE;
}

// Appends an op that walks the chunks downwards from `first`, with the first send peer and the
// first recv peer; nothing if it would repeat 0 times.
static void op_append(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t first) {
  if (repeat == 0)
    return;
  struct rondo_plan_op *op = &plan->ops[plan->op_count++];
  op->primitive = (uint16_t)primitive;
  op->peer_stride = 0;
  op->round_ops = 0;
  op->send_peer = primitive & RONDO_PRIM_SEND ? 0 : RONDO_PLAN_NO_PEER;
  op->recv_peer = primitive & RONDO_PRIM_RECV ? 0 : RONDO_PLAN_NO_PEER;
  op->repeat = repeat;
  op->first_chunk = first;
  op->chunk_stride = plan->chunk_count - 1;
  op->width = 1;
}

static void send_peer_set(struct rondo_plan *plan, uint32_t peer) {
  plan->send.count = 1;
  plan->send.listed[0] = peer;
}

static void recv_peer_set(struct rondo_plan *plan, uint32_t peer) {
  plan->recv.count = 1;
  plan->recv.listed[0] = peer;
}

// Appends an op that begins with peer `peer` and chunk `first`. Each time it takes the next peer,
// and the chunk that is `chunk_stride` further. Nothing if it would repeat 0 times.
static void walk_append(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t first,
                        uint32_t chunk_stride, uint32_t peer) {
  struct rondo_plan_op *op = &plan->ops[plan->op_count];
  op_append(plan, primitive, repeat, first);
  if (repeat == 0)
    return;
  op->peer_stride = 1;
  op->chunk_stride = chunk_stride;
  if (primitive & RONDO_PRIM_SEND)
    op->send_peer = (uint16_t)peer;
  if (primitive & RONDO_PRIM_RECV)
    op->recv_peer = (uint16_t)peer;
}

int rondo_plan_base(int kind) {
  if (kind == RONDO_ALL_GATHER || kind == RONDO_GATHER)
    return RONDO_PRIM_IN_BASE;
  return kind == RONDO_REDUCE_SCATTER || kind == RONDO_SCATTER ? RONDO_PRIM_OUT_BASE : 0;
}

// A group of one: the value is its own input, finished at once where there is a reduction.
static void single_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  int base = rondo_plan_base(q->kind);
  if (q->kind == RONDO_BARRIER)
    return;
  op_append(plan, COPY | base | (rondo_plan_reduces(q->kind) ? RONDO_PRIM_FINAL : 0), 1, 0);
}

// Ranks are places here, and `by_place` tells which chunk of the buffer a place has; an all-reduce
// may number its chunks as it likes. The order by machines enters and leaves each machine once.
static void ring_halves_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const struct rondo_plan_topology *t = q->topology;
  const struct rondo_plan_circle all = {
      .topology = t, .own = rondo_plan_topology_place(t, q->rank), .count = q->nranks};
  plan->by_place = rondo_plan_has_parts(q->kind) && t && t->order;
  rondo_plan_ring_append(&all, q->kind, 0, plan);
}

// The line of a reduce is that of a broadcast (plan_topology.h), except that the root's machine
// comes last and the root at the end. The step in the line of a broadcast of a step in that of the
// kind, and back.
static uint32_t line_step_to(const struct rondo_plan_line *l, bool reduces, uint32_t step) {
  uint32_t others = l->nranks - l->count;
  if (!reduces)
    return step;
  if (step < others)
    return l->count + step;
  return step == l->nranks - 1 ? 0 : step - others + 1;
}

static uint32_t line_step_from(const struct rondo_plan_line *l, bool reduces, uint32_t step) {
  uint32_t others = l->nranks - l->count;
  if (!reduces)
    return step;
  if (step >= l->count)
    return step - l->count;
  return step == 0 ? l->nranks - 1 : others + step - 1;
}

// Sends to the next rank of the line, and receives from the one before. Returns the rank's step.
static uint32_t line_peers_set(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const struct rondo_plan_line l = rondo_plan_line_of(q->topology, q->nranks, q->root);
  bool reduces = rondo_plan_reduces(q->kind);
  uint32_t step = line_step_from(&l, reduces, rondo_plan_line_step(&l, q->rank));
  if (step < q->nranks - 1)
    send_peer_set(plan, rondo_plan_line_at(&l, line_step_to(&l, reduces, step + 1)));
  if (step > 0)
    recv_peer_set(plan, rondo_plan_line_at(&l, line_step_to(&l, reduces, step - 1)));
  return step;
}

// Down the line to the root, which alone writes.
static void ring_reduce_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t step = line_peers_set(q, plan);
  if (step == 0)
    op_append(plan, SEND, 1, 0);
  else if (q->rank == q->root)
    op_append(plan, RECV_REDUCE_COPY | RONDO_PRIM_FINAL, 1, 0);
  else
    op_append(plan, RECV_REDUCE_SEND, 1, 0);
}

// Down the line from the root.
static void ring_broadcast_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t step = line_peers_set(q, plan);
  if (step == 0)
    op_append(plan, COPY_SEND, 1, 0);
  else
    op_append(plan, step == q->nranks - 1 ? RECV_COPY : RECV_COPY_SEND, 1, 0);
}

// `count` ranks, each `stride` places round the ring from the one before.
static struct rondo_plan_peers walk_from(uint32_t first, uint32_t stride, uint32_t count,
                                         uint32_t n) {
  return (struct rondo_plan_peers){count, stride, {first, ring_after(first, stride, n)}};
}

// All other ranks, upwards from the next one, and downwards from the one before.
static struct rondo_plan_peers others_upwards(uint32_t rank, uint32_t n) {
  return walk_from(ring_after(rank, 1, n), 1, n - 1, n);
}

static struct rondo_plan_peers others_downwards(uint32_t rank, uint32_t n) {
  return walk_from(ring_before(rank, 1, n), n - 1, n - 1, n);
}

// All-to-all and direct all-gathers, in the order of the pairwise exchange: step i sends to r + i
// and receives from r - i. All sends come first: with references they cost nothing, and the peers
// read while this rank copies.
static void pairwise_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks;
  bool gathers = q->kind == RONDO_ALL_GATHER;
  int base = rondo_plan_base(q->kind);
  plan->send = others_upwards(rank, n);
  plan->recv = others_downwards(rank, n);
  walk_append(plan, SEND | base, n - 1, gathers ? rank : ring_after(rank, 1, n), !gathers, 0);
  op_append(plan, COPY | base, 1, rank);
  walk_append(plan, RECV_COPY, n - 1, ring_before(rank, 1, n), n - 1, 0);
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
  walk_append(plan, RECV_COPY, n - 1, ring_after(q->root, 1, n), 1, 0);
}

static void scatter_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t n = q->nranks;
  if (q->rank != q->root) {
    recv_peer_set(plan, q->root);
    op_append(plan, RECV_COPY | RONDO_PRIM_OUT_BASE, 1, q->rank);
    return;
  }
  plan->send = others_upwards(q->root, n);
  walk_append(plan, SEND, n - 1, ring_after(q->root, 1, n), 1, 0);
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

// Reduces what comes from `count` recv peers, from `first` on, in their order. The first is reduced
// with the rank's own input, the others with what the receive buffer then holds. `flags`: extra
// flags of the ops before the last one; `last`: of the last one.
static void reduce_append(struct rondo_plan *plan, uint32_t first, uint32_t count, int flags,
                          int last, uint32_t chunk) {
  walk_append(plan, RECV_REDUCE_COPY | (count == 1 ? last : flags), 1, chunk, 0, first);
  if (count == 1)
    return;
  walk_append(plan, RECV_REDUCE_RESULT | flags, count - 2, chunk, 0, first + 1);
  walk_append(plan, RECV_REDUCE_RESULT | last, 1, chunk, 0, first + count - 1);
}

static void direct_reduce_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  if (q->rank != q->root) {
    send_peer_set(plan, q->root);
    op_append(plan, SEND, 1, 0);
    return;
  }
  plan->recv = others_upwards(q->root, q->nranks);
  reduce_append(plan, 0, q->nranks - 1, 0, RONDO_PRIM_FINAL, 0);
}

// Rank r adds what comes from r + 1 first, so each rank sends to r - 1 first.
static void direct_reduce_scatter_build(const struct rondo_plan_request *q,
                                        struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks;
  plan->send = others_downwards(rank, n);
  plan->recv = others_upwards(rank, n);
  walk_append(plan, SEND, n - 1, ring_before(rank, 1, n), n - 1, 0);
  reduce_append(plan, 0, n - 1, RONDO_PRIM_OUT_BASE, RONDO_PRIM_OUT_BASE | RONDO_PRIM_FINAL, rank);
}

// Each rank adds up its chunk, as in the direct reduce-scatter, and sends the result to all others.
static void two_shot_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks;
  plan->send = others_downwards(rank, n);
  plan->recv = others_upwards(rank, n);
  walk_append(plan, SEND, n - 1, ring_before(rank, 1, n), n - 1, 0);
  reduce_append(plan, 0, n - 1, 0, RONDO_PRIM_FINAL, rank);
  walk_append(plan, SEND_RESULT, n - 1, rank, 0, 0);
  walk_append(plan, RECV_COPY, n - 1, ring_after(rank, 1, n), 1, 0);
}

// Each rank sends its input to all others, and adds up all inputs in the order of positions, so
// that all get the same bits. The sum is in scratch: the receive buffer may be the own input, which
// comes in its turn.
static void one_shot_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const int to = RONDO_PRIM_OUT_SCRATCH, adds = RECV_REDUCE_COPY | RONDO_PRIM_IN_SCRATCH;
  uint32_t rank = q->rank, n = q->nranks;
  uint32_t above = n - 1 - rank; // ranks with a higher position: the first peers
  plan->send = plan->recv = others_upwards(rank, n);
  plan->scratch_count = n > 2;
  walk_append(plan, SEND, n - 1, 0, 0, 0);
  if (rank > 1) {
    walk_append(plan, RECV_COPY | to, 1, 0, 0, above);
    walk_append(plan, adds | to, rank - 1, 0, 0, above + 1);
    op_append(plan, REDUCE_COPY_SCRATCH | (above ? to : RONDO_PRIM_FINAL), 1, 0);
  } else {
    walk_append(plan, RECV_REDUCE_COPY | (n > 2 ? to : RONDO_PRIM_FINAL), 1, 0, 0,
                rank == 0 ? 0 : above);
  }
  uint32_t next = rank == 0; // of the peers above, the first that is still to be added
  if (next < above) {
    walk_append(plan, adds | to, above - next - 1, 0, 0, next);
    walk_append(plan, adds | RONDO_PRIM_FINAL, 1, 0, 0, above - 1);
  }
}

static void doubling_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const struct rondo_plan_circle all = {.own = q->rank, .count = q->nranks};
  rondo_plan_doubling_append(&all, 0, plan);
}

// A rank's place in a tree of two levels. The root has place 0 and the children
// 1 … width; child c of the root has the children c + width, c + 2 × width, ….
struct place {
  uint32_t root, n;
  uint32_t index;
  uint32_t parent; // of all but the root
  uint32_t child_count, first_child, child_stride;
};

uint32_t rondo_plan_tree_width(uint32_t nranks) {
  uint32_t width = 1;
  while (width * (width + 1) < nranks - 1)
    width++;
  return width;
}

// A direct plan is a tree of one level.
static uint32_t tree_width(const struct rondo_plan_request *q) {
  bool is_direct = q->algorithm == RONDO_ALGORITHM_DIRECT;
  return is_direct ? q->nranks - 1 : rondo_plan_tree_width(q->nranks);
}

static struct place place_of(const struct rondo_plan_request *q, uint32_t root) {
  uint32_t n = q->nranks, width = tree_width(q);
  struct place p = {.root = root, .n = n, .index = ring_before(q->rank, root, n)};
  if (p.index == 0) {
    p.child_count = width;
    p.first_child = p.child_stride = 1;
  } else if (p.index <= width) {
    p.child_count = (n - 1 - p.index) / width;
    p.first_child = p.index + width;
    p.child_stride = width;
  } else {
    p.parent = (p.index - 1) % width + 1;
  }
  return p;
}

// The parent, if there is one and it is asked for, and then the children.
static struct rondo_plan_peers tree_peers(const struct place *p, bool with_parent) {
  uint32_t first = ring_after(p->first_child % p->n, p->root, p->n);
  if (p->index == 0 || !with_parent)
    return walk_from(first, p->child_stride, p->child_count, p->n);
  struct rondo_plan_peers peers = {p->child_count + 1, p->child_stride, {0, first}};
  peers.listed[0] = ring_after(p->parent, p->root, p->n);
  return peers;
}

// The ops of a rank in a tree. Up: the receive buffer of a rank with children holds the sum of its
// own input and of theirs. Peer 0 is the parent, if there is one; the children follow, and no
// others.
static void up_and_down_append(struct rondo_plan *plan, bool is_root) {
  uint32_t first = is_root ? 0 : 1;
  uint32_t child_count = plan->send.count - first;
  if (child_count > 0)
    reduce_append(plan, first, child_count, 0, is_root ? RONDO_PRIM_FINAL : 0, 0);
  if (!is_root) {
    op_append(plan, child_count > 0 ? SEND_RESULT : SEND, 1, 0);
    op_append(plan, RECV_COPY, 1, 0);
  }
  walk_append(plan, SEND_RESULT, child_count, 0, 0, first);
}

// The children are the send peers, the parent the recv peer.
static void down_append(struct rondo_plan *plan, bool is_root) {
  uint32_t child_count = plan->send.count;
  if (is_root) {
    walk_append(plan, SEND, child_count, 0, 0, 0);
    op_append(plan, COPY, 1, 0);
    return;
  }
  op_append(plan, RECV_COPY, 1, 0);
  walk_append(plan, SEND_RESULT, child_count, 0, 0, 0);
}

// To the root, which is rank 0, and back.
static void tree_all_reduce_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  struct place p = place_of(q, 0);
  plan->send = plan->recv = tree_peers(&p, true);
  up_and_down_append(plan, p.index == 0);
}

static void tree_broadcast_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  struct place p = place_of(q, q->root);
  plan->send = tree_peers(&p, false);
  if (p.index > 0)
    recv_peer_set(plan, ring_after(p.parent, q->root, q->nranks));
  down_append(plan, p.index == 0);
}

// Positions count from the root. The children of position i are i + 1, i + 2, i + 4, … below the
// lowest bit of i, so child k has 2^k - 1 ranks below it at most. The sums of small subtrees are
// ready first, and large subtrees get the result first.
static void binomial_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  bool reduces = rondo_plan_reduces(q->kind);
  uint32_t n = q->nranks, root = reduces ? 0 : q->root, index = ring_before(q->rank, root, n);
  uint32_t child_count = 0, distance = 1;
  for (; distance < n - index && !(index & distance); distance *= 2)
    child_count++;
  if (index > 0)
    plan->recv.listed[plan->recv.count++] = ring_after(index & (index - 1), root, n);
  if (reduces)
    plan->send = plan->recv;
  for (uint32_t k = 0; k < child_count; k++) {
    if (reduces)
      plan->recv.listed[plan->recv.count++] = ring_after(index + (1u << k), root, n);
    plan->send.listed[plan->send.count++] =
        ring_after(index + (1u << (child_count - 1 - k)), root, n);
  }
  if (reduces)
    up_and_down_append(plan, index == 0);
  else
    down_append(plan, index == 0);
}

// In round k a signal goes to r + 2^k, once that of round k - 1 has come from r - 2^(k-1). So it
// says that 2^k ranks have come, and after the last round all have.
static void barrier_build(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  uint32_t rank = q->rank, n = q->nranks, rounds = 0;
  for (uint32_t distance = 1; distance < n; distance *= 2) {
    plan->send.listed[rounds] = ring_after(rank, distance, n);
    plan->recv.listed[rounds++] = ring_before(rank, distance, n);
  }
  plan->send.count = plan->recv.count = rounds;
  op_append(plan, SEND, 1, 0);
  walk_append(plan, RECV_SEND, rounds - 1, 0, 0, 0);
  if (rounds > 1)
    plan->ops[1].send_peer = 1;
  op_append(plan, RECV, 1, 0);
  plan->ops[plan->op_count - 1].recv_peer = (uint16_t)(rounds - 1);
}

// Null: the algorithm has no plan for that kind.
typedef void plan_builder(const struct rondo_plan_request *q, struct rondo_plan *plan);
static plan_builder *const builders[RONDO_ALGORITHM_COUNT][RONDO_KIND_COUNT] = {
    [RONDO_ALGORITHM_RING] = {[RONDO_ALL_REDUCE] = ring_halves_build,
                              [RONDO_ALL_GATHER] = ring_halves_build,
                              [RONDO_REDUCE_SCATTER] = ring_halves_build,
                              [RONDO_REDUCE] = ring_reduce_build,
                              [RONDO_BROADCAST] = ring_broadcast_build},
    [RONDO_ALGORITHM_TREE] =
        {[RONDO_ALL_REDUCE] = tree_all_reduce_build, [RONDO_BROADCAST] = tree_broadcast_build},
    [RONDO_ALGORITHM_DIRECT] = {[RONDO_ALL_REDUCE] = tree_all_reduce_build,
                                [RONDO_ALL_GATHER] = pairwise_build,
                                [RONDO_REDUCE_SCATTER] = direct_reduce_scatter_build,
                                [RONDO_REDUCE] = direct_reduce_build,
                                [RONDO_BROADCAST] = tree_broadcast_build,
                                [RONDO_SEND_RECV] = send_recv_build,
                                [RONDO_ALL_TO_ALL] = pairwise_build,
                                [RONDO_ALL_TO_ALL_V] = pairwise_build,
                                [RONDO_GATHER] = gather_build,
                                [RONDO_SCATTER] = scatter_build},
    [RONDO_ALGORITHM_DISSEMINATION] = {[RONDO_BARRIER] = barrier_build},
    [RONDO_ALGORITHM_DOUBLING] = {[RONDO_ALL_REDUCE] = doubling_build},
    [RONDO_ALGORITHM_BINOMIAL] = {[RONDO_ALL_REDUCE] = binomial_build,
                                  [RONDO_BROADCAST] = binomial_build,
                                  [RONDO_REDUCE] = rondo_plan_binomial_reduce_build,
                                  [RONDO_GATHER] = rondo_plan_binomial_gather_build,
                                  [RONDO_SCATTER] = rondo_plan_binomial_scatter_build},
    [RONDO_ALGORITHM_HALVING] = {[RONDO_ALL_REDUCE] = rondo_plan_halving_all_reduce_build,
                                 [RONDO_REDUCE_SCATTER] = rondo_plan_halving_reduce_scatter_build},
    [RONDO_ALGORITHM_BRUCK] = {[RONDO_ALL_GATHER] = rondo_plan_bruck_all_gather_build,
                               [RONDO_ALL_TO_ALL] = rondo_plan_bruck_all_to_all_build},
    [RONDO_ALGORITHM_CHAIN_RING] = {[RONDO_ALL_REDUCE] = rondo_plan_two_level_build,
                                    [RONDO_ALL_GATHER] = rondo_plan_two_level_gather_build,
                                    [RONDO_REDUCE_SCATTER] = rondo_plan_two_level_scatter_build,
                                    [RONDO_REDUCE] = rondo_plan_two_level_rooted_build,
                                    [RONDO_BROADCAST] = rondo_plan_two_level_rooted_build},
    [RONDO_ALGORITHM_BINOMIAL_RING] = {[RONDO_ALL_REDUCE] = rondo_plan_two_level_build,
                                       [RONDO_REDUCE] = rondo_plan_two_level_rooted_build,
                                       [RONDO_BROADCAST] = rondo_plan_two_level_rooted_build},
    [RONDO_ALGORITHM_CHAIN_DOUBLING] = {[RONDO_ALL_REDUCE] = rondo_plan_two_level_build,
                                        [RONDO_REDUCE] = rondo_plan_two_level_rooted_build,
                                        [RONDO_BROADCAST] = rondo_plan_two_level_rooted_build},
    [RONDO_ALGORITHM_BINOMIAL_DOUBLING] = {[RONDO_ALL_REDUCE] = rondo_plan_two_level_build,
                                           [RONDO_REDUCE] = rondo_plan_two_level_rooted_build,
                                           [RONDO_BROADCAST] = rondo_plan_two_level_rooted_build},
    [RONDO_ALGORITHM_TWO_SHOT] = {[RONDO_ALL_REDUCE] = two_shot_build},
    [RONDO_ALGORITHM_ONE_SHOT] = {[RONDO_ALL_REDUCE] = one_shot_build},
    [RONDO_ALGORITHM_ONE_SHOT_PACKETS] = {[RONDO_ALL_REDUCE] = one_shot_build},
    [RONDO_ALGORITHM_TWO_SHOT_PACKETS] = {[RONDO_ALL_REDUCE] = two_shot_build},
    [RONDO_ALGORITHM_DIRECT_PACKETS] =
        {[RONDO_ALL_GATHER] = pairwise_build, [RONDO_REDUCE_SCATTER] = direct_reduce_scatter_build},
    [RONDO_ALGORITHM_DOUBLE_TREE] = {[RONDO_ALL_REDUCE] = rondo_plan_double_tree_build,
                                     [RONDO_REDUCE] = rondo_plan_double_tree_build,
                                     [RONDO_BROADCAST] = rondo_plan_double_tree_build},
};

static bool is_one_shot(int algorithm) {
  return algorithm == RONDO_ALGORITHM_ONE_SHOT || algorithm == RONDO_ALGORITHM_ONE_SHOT_PACKETS;
}

static bool is_two_shot(int algorithm) {
  return algorithm == RONDO_ALGORITHM_TWO_SHOT || algorithm == RONDO_ALGORITHM_TWO_SHOT_PACKETS;
}

static bool is_direct(int algorithm) {
  return algorithm == RONDO_ALGORITHM_DIRECT || algorithm == RONDO_ALGORITHM_DIRECT_PACKETS;
}

bool rondo_plan_has_packets(int algorithm) {
  return algorithm == RONDO_ALGORITHM_ONE_SHOT_PACKETS ||
         algorithm == RONDO_ALGORITHM_TWO_SHOT_PACKETS ||
         algorithm == RONDO_ALGORITHM_DIRECT_PACKETS;
}

bool rondo_plan_exists(int kind, int algorithm, uint32_t nranks) {
  if (kind < 0 || kind >= RONDO_KIND_COUNT || algorithm < 0 || algorithm >= RONDO_ALGORITHM_COUNT)
    return false;
  bool has_all_pairs = is_direct(algorithm) || is_one_shot(algorithm) || is_two_shot(algorithm);
  return builders[algorithm][kind] && !(has_all_pairs && nranks > RONDO_PLAN_DIRECT_MOST_RANKS);
}

const char *rondo_plan_algorithm_name(int algorithm) {
  static const char *const names[RONDO_ALGORITHM_COUNT] = {
      [RONDO_ALGORITHM_RING] = "ring",
      [RONDO_ALGORITHM_TREE] = "tree",
      [RONDO_ALGORITHM_DIRECT] = "direct",
      [RONDO_ALGORITHM_DISSEMINATION] = "dissemination",
      [RONDO_ALGORITHM_DOUBLING] = "doubling",
      [RONDO_ALGORITHM_BINOMIAL] = "binomial",
      [RONDO_ALGORITHM_HALVING] = "halving",
      [RONDO_ALGORITHM_BRUCK] = "bruck",
      [RONDO_ALGORITHM_CHAIN_RING] = "chain+ring",
      [RONDO_ALGORITHM_BINOMIAL_RING] = "binomial+ring",
      [RONDO_ALGORITHM_CHAIN_DOUBLING] = "chain+doubling",
      [RONDO_ALGORITHM_BINOMIAL_DOUBLING] = "binomial+doubling",
      [RONDO_ALGORITHM_TWO_SHOT] = "two-shot",
      [RONDO_ALGORITHM_ONE_SHOT] = "one-shot",
      [RONDO_ALGORITHM_DOUBLE_TREE] = "double-tree",
      [RONDO_ALGORITHM_ONE_SHOT_PACKETS] = "one-shot-packets",
      [RONDO_ALGORITHM_TWO_SHOT_PACKETS] = "two-shot-packets",
      [RONDO_ALGORITHM_DIRECT_PACKETS] = "direct-packets"};
  return algorithm >= 0 && algorithm < RONDO_ALGORITHM_COUNT ? names[algorithm] : "unknown";
}

int rondo_plan_algorithm_find(const char *name) {
  int algorithm = 0;
  while (algorithm < RONDO_ALGORITHM_COUNT &&
         strcmp(rondo_plan_algorithm_name(algorithm), name) != 0)
    algorithm++;
  return algorithm;
}

bool rondo_plan_is_rooted(int kind) {
  return kind == RONDO_REDUCE || kind == RONDO_BROADCAST || kind == RONDO_GATHER ||
         kind == RONDO_SCATTER || kind == RONDO_SEND_RECV;
}

bool rondo_plan_has_parts(int kind) {
  return kind == RONDO_ALL_GATHER || kind == RONDO_REDUCE_SCATTER || kind == RONDO_GATHER ||
         kind == RONDO_SCATTER || kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V;
}

static bool request_is_valid(const struct rondo_plan_request *q) {
  uint32_t most = q->kind == RONDO_SEND_RECV ? 2 : RONDO_MAX_RANKS;
  return q->kind >= 0 && q->kind < RONDO_KIND_COUNT && q->algorithm >= 0 &&
         q->algorithm < RONDO_ALGORITHM_COUNT && q->nranks >= 1 && q->nranks <= most &&
         q->quantisation >= 0 && q->quantisation < RONDO_QUANTISATION_COUNT &&
         q->rank < q->nranks && (!rondo_plan_is_rooted(q->kind) || q->root < q->nranks);
}

int rondo_plan_build(const struct rondo_plan_request *request, struct rondo_plan *plan) {
  if (request == NULL || plan == NULL || !request_is_valid(request))
    return RONDO_ERR_INVALID;
  if (!rondo_plan_exists(request->kind, request->algorithm, request->nranks) ||
      (request->quantisation && !rondo_plan_can_quantise(request->kind, request->algorithm)))
    return RONDO_ERR_UNSUPPORTED;
  plan_builder *build = builders[request->algorithm][request->kind];
  memset(plan, 0, offsetof(struct rondo_plan, ops));
  plan->nranks = request->nranks;
  plan->by_value =
      request->quantisation || rondo_plan_is_by_value(request->kind, request->algorithm);
  plan->keeps_sums = request->keeps_sums && request->kind == RONDO_ALL_REDUCE &&
                     request->algorithm == RONDO_ALGORITHM_RING && !request->quantisation;
  plan->chunk_count = rondo_plan_chunk_count(request);
  if (request->nranks == 1)
    build = single_build;
  build(request, plan);
  for (uint32_t i = 0; i < plan->op_count && request->nranks > 1; i++) {
    plan->ops[i].primitive |= (uint16_t)RONDO_PRIM_OF_QUANTISATION(request->quantisation);
    if (rondo_plan_has_packets(request->algorithm) &&
        (plan->ops[i].primitive & (RONDO_PRIM_SEND | RONDO_PRIM_RECV)))
      plan->ops[i].primitive |= RONDO_PRIM_PACKETS;
  }
  return RONDO_SUCCESS;
}

bool rondo_plan_can_quantise(int kind, int algorithm) {
  return kind == RONDO_ALL_REDUCE && algorithm == RONDO_ALGORITHM_RING;
}

bool rondo_plan_splits(int kind, int algorithm) {
  if (algorithm == RONDO_ALGORITHM_DOUBLE_TREE)
    return true;
  if (rondo_plan_chains_inside(algorithm))
    return !rondo_plan_has_parts(kind);
  return kind == RONDO_ALL_REDUCE &&
         (algorithm == RONDO_ALGORITHM_RING || algorithm == RONDO_ALGORITHM_HALVING ||
          is_two_shot(algorithm) || rondo_plan_rings_between(algorithm));
}

uint32_t rondo_plan_chunk_count(const struct rondo_plan_request *q) {
  uint32_t lanes =
      rondo_plan_chains_inside(q->algorithm) ? rondo_plan_topology_leaders(q->topology) : 1;
  if (q->kind == RONDO_ALL_REDUCE && rondo_plan_rings_between(q->algorithm))
    return lanes * rondo_plan_topology_machines(q->topology);
  if (rondo_plan_has_two_levels(q->algorithm) && !rondo_plan_has_parts(q->kind))
    return lanes;
  if (q->algorithm == RONDO_ALGORITHM_DOUBLE_TREE)
    return q->nranks > 1 ? 2 : 1;
  return rondo_plan_splits(q->kind, q->algorithm) || rondo_plan_has_parts(q->kind) ? q->nranks : 1;
}

uint32_t rondo_plan_most_width(int kind, int algorithm, uint32_t nranks) {
  bool halves = algorithm == RONDO_ALGORITHM_HALVING || algorithm == RONDO_ALGORITHM_BRUCK ||
                (algorithm == RONDO_ALGORITHM_BINOMIAL && rondo_plan_has_parts(kind));
  return halves && nranks > 1 ? nranks / 2 : 1;
}

uint32_t rondo_plan_least_slots(int kind, int algorithm, uint32_t nranks) {
  if (rondo_plan_has_packets(algorithm))
    return nranks > 1 ? 2 : 1;
  if (algorithm == RONDO_ALGORITHM_HALVING)
    return kind == RONDO_ALL_REDUCE && nranks == 2 ? 2 : 1;
  if (rondo_plan_rings_between(algorithm))
    return rondo_plan_is_rooted(kind) ? 1 : 2;
  bool round = algorithm == RONDO_ALGORITHM_RING &&
               ((kind == RONDO_ALL_REDUCE && nranks >= 2) ||
                ((kind == RONDO_ALL_GATHER || kind == RONDO_REDUCE_SCATTER) && nranks >= 3));
  return round ? 2 : 1;
}

uint32_t rondo_plan_slots(int kind, int algorithm, uint32_t nranks) {
  bool has_many_peers = nranks > 2 && algorithm != RONDO_ALGORITHM_RING &&
                        algorithm != RONDO_ALGORITHM_CHAIN_RING &&
                        algorithm != RONDO_ALGORITHM_DOUBLE_TREE && kind != RONDO_BARRIER;
  return has_many_peers ? 2 : 4;
}

bool rondo_plan_is_by_value(int kind, int algorithm) {
  return algorithm == RONDO_ALGORITHM_DOUBLING || is_one_shot(algorithm) ||
         rondo_plan_has_packets(algorithm) ||
         (kind == RONDO_ALL_REDUCE && rondo_plan_doubles_between(algorithm));
}
