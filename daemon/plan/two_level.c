#include "daemon/plan/two_level.h"

#include <assert.h>

#include "rondo/types.h"

enum {
  SEND = RONDO_PRIM_SEND,
  SEND_RESULT = RONDO_PRIM_SEND | RONDO_PRIM_RESULT,
  RECV_COPY = RONDO_PRIM_RECV | RONDO_PRIM_COPY,
  RECV_COPY_SEND = RECV_COPY | RONDO_PRIM_SEND,
  RECV_REDUCE_SEND = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_SEND,
  RECV_REDUCE_COPY = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY,
  RECV_REDUCE_RESULT = RECV_REDUCE_COPY | RONDO_PRIM_RESULT
};

bool rondo_plan_rings_between(int algorithm) {
  return algorithm == RONDO_ALGORITHM_CHAIN_RING || algorithm == RONDO_ALGORITHM_BINOMIAL_RING;
}

bool rondo_plan_doubles_between(int algorithm) {
  return algorithm == RONDO_ALGORITHM_CHAIN_DOUBLING ||
         algorithm == RONDO_ALGORITHM_BINOMIAL_DOUBLING;
}

bool rondo_plan_chains_inside(int algorithm) {
  return algorithm == RONDO_ALGORITHM_CHAIN_RING || algorithm == RONDO_ALGORITHM_CHAIN_DOUBLING;
}

// A leader has ⌈log2 M⌉ children and ⌈log2 N⌉ further peers at most, for M ranks on its machine and
// N machines. Only one of the two can have as many rounds as the largest group.
static_assert(1 + 2 * RONDO_PLAN_MAX_ROUNDS - 1 <= RONDO_PLAN_LISTED_PEERS &&
                  2 * RONDO_PLAN_MAX_ROUNDS + 2 + RONDO_PLAN_MAX_ROUNDS + 1 <= RONDO_PLAN_MAX_OPS,
              "all plans fit");

// ------------------------------------------------------------------ places ---

// A rank of a plan that is built.
struct member {
  const struct rondo_plan_request *q;
  struct rondo_plan *plan;
  uint32_t machine, machines; // its own, and all
  uint32_t first, count;      // places of its machine's ranks; the first is the leader
  uint32_t local;             // its place among them
  uint32_t child_count;       // peers 0 … child_count - 1 of both lists; the parent follows
};

static struct member member_of(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const struct rondo_plan_topology *t = q->topology;
  struct member m = {.q = q, .plan = plan, .machines = rondo_plan_topology_machines(t)};
  m.machine = rondo_plan_topology_machine_of(t, q->rank);
  m.count = t ? t->machines[m.machine].rank_count : q->nranks;
  m.first = t ? t->machines[m.machine].first : 0;
  m.local = rondo_plan_topology_place(t, q->rank) - m.first;
  return m;
}

// Adds a peer, to which the rank sends and from which it receives. Returns its number.
static uint32_t peer_add(struct rondo_plan *plan, uint32_t position) {
  plan->send.listed[plan->send.count++] = position;
  plan->recv.listed[plan->recv.count] = position;
  return plan->recv.count++;
}

static uint32_t local_peer_add(const struct member *m, uint32_t local) {
  return peer_add(m->plan, rondo_plan_topology_at(m->q->topology, m->first + local));
}

// Adds the children and the parent in the tree of the machine. In a binomial tree the children of i
// are i + 1, i + 2, i + 4, … below the lowest bit of i.
static void tree_peers_add(struct member *m) {
  bool is_chain = rondo_plan_chains_inside(m->q->algorithm);
  if (is_chain && m->local + 1 < m->count)
    local_peer_add(m, m->local + 1);
  for (uint32_t d = 1; !is_chain && d < m->count - m->local && !(m->local & d); d *= 2)
    local_peer_add(m, m->local + d);
  m->child_count = m->plan->send.count;
  if (m->local > 0)
    local_peer_add(m, is_chain ? m->local - 1 : m->local & (m->local - 1));
}

// --------------------------------------------------------------------- ops ---

// Appends an op that takes chunks downwards from `first`. The peers count where the primitive has
// them. Nothing if it would repeat 0 times.
static void op_add(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t first,
                   uint32_t send, uint32_t recv) {
  if (repeat == 0)
    return;
  plan->ops[plan->op_count++] = (struct rondo_plan_op){
      .primitive = (uint16_t)primitive,
      .send_peer = (uint16_t)(primitive & RONDO_PRIM_SEND ? send : RONDO_PLAN_NO_PEER),
      .recv_peer = (uint16_t)(primitive & RONDO_PRIM_RECV ? recv : RONDO_PLAN_NO_PEER),
      .width = 1,
      .repeat = repeat,
      .first_chunk = first,
      .chunk_stride = plan->chunk_count - 1};
}

// For all chunks.
static void all_add(struct rondo_plan *plan, int primitive, uint32_t send, uint32_t recv) {
  op_add(plan, primitive, plan->chunk_count, plan->chunk_count - 1, send, recv);
}

// For the one chunk of a plan, with the next peer each time.
static void walk_add(struct rondo_plan *plan, int primitive, uint32_t repeat, uint32_t peer) {
  op_add(plan, primitive, repeat, 0, peer, peer);
  if (repeat > 0)
    plan->ops[plan->op_count - 1].peer_stride = 1;
}

// Adds up what the children send in the receive buffer; `last`: a flag of the last child's op.
static void children_reduce(const struct member *m, int last) {
  for (uint32_t i = 0; i < m->child_count; i++)
    all_add(m->plan,
            RECV_REDUCE_COPY | (i ? RONDO_PRIM_RESULT : 0) | (i + 1 == m->child_count ? last : 0),
            0, i);
}

// The largest subtree first.
static void children_send(const struct member *m) {
  for (uint32_t i = m->child_count; i-- > 0;)
    all_add(m->plan, SEND_RESULT, i, 0);
}

// A rank that is no leader. With one child it passes each chunk on at once.
static void follower_build(const struct member *m) {
  uint32_t parent = m->child_count;
  if (m->child_count == 1) {
    all_add(m->plan, RECV_REDUCE_SEND, parent, 0);
    all_add(m->plan, RECV_COPY_SEND, 0, parent);
    return;
  }
  children_reduce(m, 0);
  all_add(m->plan, m->child_count ? SEND_RESULT : SEND, parent, 0);
  all_add(m->plan, RECV_COPY, 0, parent);
  children_send(m);
}

// ------------------------------------------------------------- among equals ---

static uint32_t circle_at(const struct rondo_plan_circle *c, uint32_t place) {
  bool leads = c->of_leaders && c->topology;
  return rondo_plan_topology_at(c->topology, leads ? c->topology->machines[place].first : place);
}

void rondo_plan_ring_append(const struct rondo_plan_circle *c, int kind, int result,
                            struct rondo_plan *plan) {
  uint32_t n = c->count, own = c->own, send = plan->send.count, recv = plan->recv.count;
  bool reduces = rondo_plan_reduces(kind), gathers = kind != RONDO_REDUCE_SCATTER;
  int between = rondo_plan_base(kind) |
                (reduces ? RECV_REDUCE_COPY | RONDO_PRIM_FINAL | result : RONDO_PRIM_COPY);
  plan->send.listed[plan->send.count++] = circle_at(c, (own + 1) % n);
  plan->recv.listed[plan->recv.count++] = circle_at(c, (own + n - 1) % n);
  if (reduces) {
    int adds =
        plan->keeps_sums || result ? RECV_REDUCE_COPY | RONDO_PRIM_SEND | result : RECV_REDUCE_SEND;
    op_add(plan, SEND | result, 1, (own + n - 1) % n, send, 0);
    op_add(plan, adds, n - 2, (own + n - 2) % n, send, recv);
  }
  op_add(plan, between | (gathers ? RONDO_PRIM_SEND : 0), 1, own, send, recv);
  if (gathers) {
    op_add(plan, RECV_COPY_SEND, n - 2, (own + n - 1) % n, send, recv);
    op_add(plan, RECV_COPY, 1, (own + 1) % n, 0, recv);
  }
}

void rondo_plan_doubling_append(const struct rondo_plan_circle *c, int result,
                                struct rondo_plan *plan) {
  uint32_t n = c->count, own = c->own, core = 1, first = plan->recv.count;
  while (core <= n / 2)
    core *= 2;
  if (own >= core) {
    uint32_t peer = peer_add(plan, circle_at(c, own - core));
    all_add(plan, SEND | result, peer, 0);
    all_add(plan, RECV_COPY, 0, peer);
    return;
  }
  bool folds = own + core < n;
  if (folds)
    peer_add(plan, circle_at(c, own + core));
  for (uint32_t distance = 1; distance < core; distance *= 2)
    peer_add(plan, circle_at(c, own ^ distance));
  // What has been received from a peer goes to the next one, with the rest.
  uint32_t last = plan->recv.count - 1;
  for (uint32_t i = first; i <= last; i++)
    plan->send.listed[i] = plan->recv.listed[i < last ? i + 1 : first];
  int end = RONDO_PRIM_FINAL | (folds ? RONDO_PRIM_SEND : 0);
  if (!folds)
    walk_add(plan, SEND | result, 1, last);
  walk_add(plan, RECV_REDUCE_COPY | result | (first < last ? RONDO_PRIM_SEND : end), 1, first);
  if (first == last)
    return;
  walk_add(plan, RECV_REDUCE_RESULT | RONDO_PRIM_SEND, last - first - 1, first + 1);
  walk_add(plan, RECV_REDUCE_RESULT | end, 1, last);
}

void rondo_plan_two_level_build(const struct rondo_plan_request *request, struct rondo_plan *plan) {
  struct member m = member_of(request, plan);
  tree_peers_add(&m);
  if (m.local > 0) {
    follower_build(&m);
    return;
  }
  const struct rondo_plan_circle leaders = {request->topology, true, m.machine, m.machines};
  int result = m.child_count ? RONDO_PRIM_RESULT : 0;
  children_reduce(&m, m.machines == 1 ? RONDO_PRIM_FINAL : 0);
  if (m.machines > 1 && rondo_plan_rings_between(request->algorithm))
    rondo_plan_ring_append(&leaders, request->kind, result, plan);
  else if (m.machines > 1)
    rondo_plan_doubling_append(&leaders, result, plan);
  children_send(&m);
}
