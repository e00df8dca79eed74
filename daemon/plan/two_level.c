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

bool rondo_plan_has_two_levels(int algorithm) {
  return rondo_plan_rings_between(algorithm) || rondo_plan_doubles_between(algorithm);
}

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
// N machines. Only one of the two can have as many rounds as the largest group. In chains of L
// lanes it has L + 2 peers at most on its machine, and an op each way for each lane.
static_assert(1 + 2 * RONDO_PLAN_MAX_ROUNDS - 1 <= RONDO_PLAN_LISTED_PEERS &&
                  2 * RONDO_PLAN_MAX_ROUNDS + 2 + RONDO_PLAN_MAX_ROUNDS + 1 <= RONDO_PLAN_MAX_OPS,
              "all plans fit");
static_assert(RONDO_PLAN_MAX_LEADERS + 2 + RONDO_PLAN_MAX_ROUNDS <= RONDO_PLAN_LISTED_PEERS &&
                  2 * RONDO_PLAN_MAX_LEADERS + RONDO_PLAN_MAX_ROUNDS + 1 <= RONDO_PLAN_MAX_OPS,
              "all plans of several leaders fit");

// ------------------------------------------------------------------ places ---

// A rank of a plan that is built.
struct member {
  const struct rondo_plan_request *q;
  struct rondo_plan *plan;
  uint32_t machine, machines; // its own, and all
  uint32_t first, count;      // places of its machine's ranks; the first ones are leaders
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

// The number of a rank of the machine among the peers. Adds it if it is none yet.
static uint32_t local_peer(const struct member *m, uint32_t local) {
  uint32_t position = rondo_plan_topology_at(m->q->topology, m->first + local), i = 0;
  while (i < m->plan->recv.count && m->plan->recv.listed[i] != position)
    i++;
  return i < m->plan->recv.count ? i : peer_add(m->plan, position);
}

// Adds the children and the parent in the binomial tree of the machine. The children of i are
// i + 1, i + 2, i + 4, … below the lowest bit of i.
static void tree_peers_add(struct member *m) {
  for (uint32_t d = 1; d < m->count - m->local && !(m->local & d); d *= 2)
    (void)local_peer(m, m->local + d);
  m->child_count = m->plan->send.count;
  if (m->local > 0)
    (void)local_peer(m, m->local & (m->local - 1));
}

// --------------------------------------------------------------------- ops ---

void rondo_plan_lane_append(const struct rondo_plan_lane *lane, int primitive, uint32_t repeat,
                            uint32_t first, uint32_t send, uint32_t recv) {
  struct rondo_plan *plan = lane->plan;
  if (repeat == 0)
    return;
  plan->ops[plan->op_count++] = (struct rondo_plan_op){
      .primitive = (uint16_t)primitive,
      .send_peer = (uint16_t)(primitive & RONDO_PRIM_SEND ? send : RONDO_PLAN_NO_PEER),
      .recv_peer = (uint16_t)(primitive & RONDO_PRIM_RECV ? recv : RONDO_PLAN_NO_PEER),
      .width = 1,
      .repeat = repeat,
      .first_chunk = first * lane->count + lane->index,
      .chunk_stride = plan->chunk_count - lane->count};
}

// For all chunks of the lane.
static void all_add(const struct rondo_plan_lane *lane, int primitive, uint32_t send,
                    uint32_t recv) {
  uint32_t chunks = lane->plan->chunk_count / lane->count;
  rondo_plan_lane_append(lane, primitive, chunks, chunks - 1, send, recv);
}

// For the one chunk of a lane, with the next peer each time.
static void walk_add(const struct rondo_plan_lane *lane, int primitive, uint32_t repeat,
                     uint32_t peer) {
  rondo_plan_lane_append(lane, primitive, repeat, 0, peer, peer);
  if (repeat > 0)
    lane->plan->ops[lane->plan->op_count - 1].peer_stride = 1;
}

// ------------------------------------------------------------- among equals ---

static uint32_t circle_at(const struct rondo_plan_circle *c, uint32_t place) {
  bool leads = c->of_leaders && c->topology;
  return rondo_plan_topology_at(c->topology,
                                leads ? c->topology->machines[place].first + c->lane : place);
}

static struct rondo_plan_lane circle_lane(const struct rondo_plan_circle *c,
                                          struct rondo_plan *plan) {
  return (struct rondo_plan_lane){plan, c->lane, c->lanes > 1 ? c->lanes : 1};
}

void rondo_plan_ring_append(const struct rondo_plan_circle *c, int kind, int result,
                            struct rondo_plan *plan) {
  uint32_t n = c->count, own = c->own, send = plan->send.count, recv = plan->recv.count;
  bool reduces = rondo_plan_reduces(kind), gathers = kind != RONDO_REDUCE_SCATTER;
  const struct rondo_plan_lane lane = circle_lane(c, plan);
  int between = rondo_plan_base(kind) |
                (reduces ? RECV_REDUCE_COPY | RONDO_PRIM_FINAL | result : RONDO_PRIM_COPY);
  plan->send.listed[plan->send.count++] = circle_at(c, (own + 1) % n);
  plan->recv.listed[plan->recv.count++] = circle_at(c, (own + n - 1) % n);
  if (reduces) {
    int adds =
        plan->keeps_sums || result ? RECV_REDUCE_COPY | RONDO_PRIM_SEND | result : RECV_REDUCE_SEND;
    rondo_plan_lane_append(&lane, SEND | result, 1, (own + n - 1) % n, send, 0);
    rondo_plan_lane_append(&lane, adds, n - 2, (own + n - 2) % n, send, recv);
  }
  rondo_plan_lane_append(&lane, between | (gathers ? RONDO_PRIM_SEND : 0), 1, own, send, recv);
  if (gathers) {
    rondo_plan_lane_append(&lane, RECV_COPY_SEND, n - 2, (own + n - 1) % n, send, recv);
    rondo_plan_lane_append(&lane, RECV_COPY, 1, (own + 1) % n, 0, recv);
  }
}

void rondo_plan_doubling_append(const struct rondo_plan_circle *c, int result,
                                struct rondo_plan *plan) {
  uint32_t n = c->count, own = c->own, core = 1, first = plan->recv.count;
  const struct rondo_plan_lane lane = circle_lane(c, plan);
  while (core <= n / 2)
    core *= 2;
  if (own >= core) {
    uint32_t peer = peer_add(plan, circle_at(c, own - core));
    all_add(&lane, SEND | result, peer, 0);
    all_add(&lane, RECV_COPY, 0, peer);
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
    walk_add(&lane, SEND | result, 1, last);
  walk_add(&lane, RECV_REDUCE_COPY | result | (first < last ? RONDO_PRIM_SEND : end), 1, first);
  if (first == last)
    return;
  walk_add(&lane, RECV_REDUCE_RESULT | RONDO_PRIM_SEND, last - first - 1, first + 1);
  walk_add(&lane, RECV_REDUCE_RESULT | end, 1, last);
}

// A leader, of the lane `lane`, among the leaders of that lane. `result`: a flag if the receive
// buffer holds the sum of the machine.
static void leader_build(const struct member *m, uint32_t lane, uint32_t lanes, int result) {
  const struct rondo_plan_circle leaders = {.topology = m->q->topology,
                                            .of_leaders = true,
                                            .own = m->machine,
                                            .count = m->machines,
                                            .lane = lane,
                                            .lanes = lanes};
  if (m->machines > 1 && rondo_plan_rings_between(m->q->algorithm))
    rondo_plan_ring_append(&leaders, m->q->kind, result, m->plan);
  else if (m->machines > 1)
    rondo_plan_doubling_append(&leaders, result, m->plan);
}

// -------------------------------------------------------------- binomial trees ---

// Adds up what the children send in the receive buffer; `last`: a flag of the last child's op.
static void children_reduce(const struct member *m, const struct rondo_plan_lane *all, int last) {
  for (uint32_t i = 0; i < m->child_count; i++)
    all_add(all,
            RECV_REDUCE_COPY | (i ? RONDO_PRIM_RESULT : 0) | (i + 1 == m->child_count ? last : 0),
            0, i);
}

// The largest subtree first.
static void children_send(const struct member *m, const struct rondo_plan_lane *all) {
  for (uint32_t i = m->child_count; i-- > 0;)
    all_add(all, SEND_RESULT, i, 0);
}

static void binomial_build(struct member *m) {
  const struct rondo_plan_lane all = {m->plan, 0, 1};
  tree_peers_add(m);
  uint32_t parent = m->child_count;
  if (m->local > 0 && m->child_count == 1) { // passes each chunk on at once
    all_add(&all, RECV_REDUCE_SEND, parent, 0);
    all_add(&all, RECV_COPY_SEND, 0, parent);
    return;
  }
  children_reduce(m, &all, m->local == 0 && m->machines == 1 ? RONDO_PRIM_FINAL : 0);
  if (m->local == 0) {
    leader_build(m, 0, 1, m->child_count ? RONDO_PRIM_RESULT : 0);
  } else {
    all_add(&all, m->child_count ? SEND_RESULT : SEND, parent, 0);
    all_add(&all, RECV_COPY, 0, parent);
  }
  children_send(m, &all);
}

// ---------------------------------------------------------------------- chains ---

// The rank of a machine at a step of the chain of a lane: its leader, then all others.
static uint32_t chain_at(uint32_t lane, uint32_t step) {
  if (step == 0)
    return lane;
  return step - 1 < lane ? step - 1 : step;
}

// The op of the rank in the chain of a lane, on the way to the leader (`up`) or back.
static void chain_op_add(const struct member *m, const struct rondo_plan_lane *lane, bool up) {
  uint32_t step = m->local < lane->index ? m->local + 1 : m->local, child = 0, parent = 0;
  if (m->local == lane->index)
    step = 0;
  bool has_child = step + 1 < m->count;
  if (has_child)
    child = local_peer(m, chain_at(lane->index, step + 1));
  if (step > 0)
    parent = local_peer(m, chain_at(lane->index, step - 1));
  int first = up ? RECV_REDUCE_COPY | (m->machines == 1 ? RONDO_PRIM_FINAL : 0) : SEND_RESULT;
  int middle = up ? RECV_REDUCE_SEND : RECV_COPY_SEND, last = up ? SEND : RECV_COPY;
  if (m->count > 1)
    all_add(lane,
            step == 0   ? first
            : has_child ? middle
                        : last,
            up ? parent : child, up ? child : parent);
}

// The lanes one after the other in each rank: so all of them go to the leaders without waiting for
// each other's turn (docs/algorithms.md). A leader other than rank 0 is at the end of its own lane,
// beyond rank 0. So it takes that lane last upwards and first downwards, or it would hold up those
// that it passes on. It does not if a lane has several chunks, for which rank 0 would need slots.
static void chains_add(const struct member *m, struct rondo_plan_lane *lane, bool up) {
  bool is_end = m->local > 0 && m->local < lane->count && m->plan->chunk_count == lane->count;
  struct rondo_plan_lane own = *lane;
  own.index = m->local;
  if (is_end && !up)
    chain_op_add(m, &own, up);
  for (lane->index = 0; lane->index < lane->count; lane->index++)
    if (!is_end || lane->index != own.index)
      chain_op_add(m, lane, up);
  if (is_end && up)
    chain_op_add(m, &own, up);
}

static void chains_build(const struct member *m) {
  struct rondo_plan_lane lane = {m->plan, 0, rondo_plan_topology_leaders(m->q->topology)};
  chains_add(m, &lane, true);
  if (m->local < lane.count)
    leader_build(m, m->local, lane.count, m->count > 1 ? RONDO_PRIM_RESULT : 0);
  chains_add(m, &lane, false);
}

void rondo_plan_two_level_build(const struct rondo_plan_request *request, struct rondo_plan *plan) {
  struct member m = member_of(request, plan);
  if (rondo_plan_chains_inside(request->algorithm))
    chains_build(&m);
  else
    binomial_build(&m);
}
