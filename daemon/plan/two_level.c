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
// N machines. Only one of the two can have as many rounds as the largest group. One of L leaders
// has L peers at most on its machine, and 8 ops for them; a rank of the line has an op each way for
// each lane.
static_assert(1 + 2 * RONDO_PLAN_MAX_ROUNDS - 1 <= RONDO_PLAN_LISTED_PEERS &&
                  2 * RONDO_PLAN_MAX_ROUNDS + 2 + RONDO_PLAN_MAX_ROUNDS + 1 <= RONDO_PLAN_MAX_OPS,
              "all plans fit");
static_assert(RONDO_PLAN_MAX_LEADERS + 1 + RONDO_PLAN_MAX_ROUNDS <= RONDO_PLAN_LISTED_PEERS &&
                  2 * RONDO_PLAN_MAX_LEADERS <= RONDO_PLAN_MAX_OPS &&
                  8 + RONDO_PLAN_MAX_ROUNDS + 1 <= RONDO_PLAN_MAX_OPS,
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
  bool passes = c->of_leaders;
  if (reduces) {
    int adds =
        plan->keeps_sums || result ? RECV_REDUCE_COPY | RONDO_PRIM_SEND | result : RECV_REDUCE_SEND;
    rondo_plan_lane_append(&lane, SEND | result, 1, (own + n - 1) % n, send, 0);
    rondo_plan_lane_append(&lane, adds, n - 2, (own + n - 2) % n, send, recv);
  }
  rondo_plan_lane_append(&lane, between | (gathers && !passes ? RONDO_PRIM_SEND : 0), 1, own, send,
                         recv);
  if (passes) {
    plan->first_pass = plan->op_count;
    rondo_plan_lane_append(&lane, SEND_RESULT, 1, own, send, 0);
  }
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
// buffer holds the sum of the machine. The first pass ends where the way back begins: with a ring,
// in the middle of it.
static void leader_build(const struct member *m, uint32_t lane, uint32_t lanes, int result) {
  const struct rondo_plan_circle leaders = {.topology = m->q->topology,
                                            .of_leaders = true,
                                            .own = m->machine,
                                            .count = m->machines,
                                            .lane = lane,
                                            .lanes = lanes};
  if (m->machines > 1 && rondo_plan_rings_between(m->q->algorithm)) {
    rondo_plan_ring_append(&leaders, m->q->kind, result, m->plan);
    return;
  }
  if (m->machines > 1)
    rondo_plan_doubling_append(&leaders, result, m->plan);
  m->plan->first_pass = m->plan->op_count;
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
    m->plan->first_pass = m->plan->op_count;
    all_add(&all, RECV_COPY_SEND, 0, parent);
    return;
  }
  children_reduce(m, &all, m->local == 0 && m->machines == 1 ? RONDO_PRIM_FINAL : 0);
  if (m->local == 0) {
    leader_build(m, 0, 1, m->child_count ? RONDO_PRIM_RESULT : 0);
  } else {
    all_add(&all, m->child_count ? SEND_RESULT : SEND, parent, 0);
    m->plan->first_pass = m->plan->op_count;
    all_add(&all, RECV_COPY, 0, parent);
  }
  children_send(m, &all);
}

// ----------------------------------------------------------------------- chain ---

// From each rank of the machine to the one before, up to the leader, and back.
static void chain_build(const struct member *m) {
  const struct rondo_plan_lane all = {m->plan, 0, 1};
  bool has_child = m->local + 1 < m->count, leads = m->local == 0;
  uint32_t child = has_child ? local_peer(m, m->local + 1) : 0;
  uint32_t parent = leads ? 0 : local_peer(m, m->local - 1);
  if (!leads) {
    all_add(&all, has_child ? RECV_REDUCE_SEND : SEND, parent, child);
    m->plan->first_pass = m->plan->op_count;
    all_add(&all, has_child ? RECV_COPY_SEND : RECV_COPY, child, parent);
    return;
  }
  if (has_child)
    all_add(&all, RECV_REDUCE_COPY | (m->machines == 1 ? RONDO_PRIM_FINAL : 0), 0, child);
  leader_build(m, 0, 1, has_child ? RONDO_PRIM_RESULT : 0);
  if (has_child)
    all_add(&all, SEND_RESULT, child, 0);
}

// -------------------------------------------------------------- several leaders ---

// Leaders have the other leaders as peers 0, 1, …, in the order of their lanes, and then the line:
// the ranks that lead no lane, each of which hears from the one after it. A round has a chunk of
// each lane.

// Appends an op for the chunk of lane `lane` in the first round. It is repeated for `repeat` peers:
// for the one lane if it adds up or sends a result, else for as many lanes.
static void round_add(const struct member *m, int primitive, uint32_t repeat, uint32_t lane,
                      uint32_t send, uint32_t recv) {
  bool stays = primitive & (RONDO_PRIM_REDUCE | RONDO_PRIM_RESULT);
  struct rondo_plan *plan = m->plan;
  if (repeat == 0)
    return;
  const struct rondo_plan_lane one = {plan, 0, 1};
  rondo_plan_lane_append(&one, primitive, repeat, lane, send, recv);
  plan->ops[plan->op_count - 1].chunk_stride = stays ? 0 : 1 % plan->chunk_count;
  plan->ops[plan->op_count - 1].peer_stride = repeat > 1;
}

// The ops from `first` on are a round, if there are several chunks of a lane.
static void round_end(const struct member *m, uint32_t lanes, uint32_t first) {
  struct rondo_plan *plan = m->plan;
  if (plan->chunk_count == lanes || plan->op_count == first)
    return;
  plan->round_chunks = lanes;
  plan->ops[plan->op_count - 1].round_ops = (uint8_t)(plan->op_count - first);
}

// To or from the leaders of all other lanes, for each the chunk of its lane. From the next leader
// on, so that they do not all send to one leader at the same time.
static void others_add(const struct member *m, uint32_t lanes, int primitive) {
  round_add(m, primitive, lanes - 1 - m->local, m->local + 1, m->local, m->local);
  round_add(m, primitive, m->local, 0, 0, 0);
}

static void fan_leader_build(const struct member *m, uint32_t lanes) {
  struct rondo_plan *plan = m->plan;
  uint32_t children = lanes - 1 + (m->count > lanes), second;
  for (uint32_t i = 0; i < lanes + (m->count > lanes); i++)
    if (i != m->local)
      (void)local_peer(m, i);
  others_add(m, lanes, SEND);
  round_add(m, RECV_REDUCE_COPY, 1, m->local, 0, 0);
  round_add(m, RECV_REDUCE_RESULT, children - 1, m->local, 0, 1);
  round_end(m, lanes, 0);
  leader_build(m, m->local, lanes, RONDO_PRIM_RESULT);
  second = plan->op_count;
  if (m->count > lanes)
    round_add(m, SEND_RESULT, 1, m->local, lanes - 1, 0);
  round_add(m, SEND_RESULT, lanes - 1, m->local, 0, 0);
  others_add(m, lanes, RECV_COPY);
  round_end(m, lanes, second);
}

// One way of a rank of the line, `up` or down, from and to peers from 0 on: the parents, and then
// the child if there is one.
static void line_way_add(const struct member *m, uint32_t lanes, uint32_t parents, bool up) {
  bool has_child = m->plan->recv.count > parents;
  int passes = up ? RECV_REDUCE_SEND : RECV_COPY_SEND, ends = up ? SEND : RECV_COPY;
  uint32_t first = m->plan->op_count, child = has_child ? parents : 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    uint32_t parent = parents > 1 ? lane : 0;
    round_add(m, has_child ? passes : ends, 1, lane, up ? parent : child, up ? child : parent);
  }
  round_end(m, lanes, first);
}

// A rank of the line. The first one has all leaders as parents.
static void fan_line_build(const struct member *m, uint32_t lanes) {
  bool is_first = m->local == lanes;
  uint32_t parents = is_first ? lanes : 1;
  for (uint32_t i = 0; i < parents; i++)
    (void)local_peer(m, is_first ? i : m->local - 1);
  if (m->local + 1 < m->count)
    (void)local_peer(m, m->local + 1);
  line_way_add(m, lanes, parents, true);
  m->plan->first_pass = m->plan->op_count;
  line_way_add(m, lanes, parents, false);
}

void rondo_plan_two_level_build(const struct rondo_plan_request *request, struct rondo_plan *plan) {
  struct member m = member_of(request, plan);
  uint32_t lanes = rondo_plan_topology_leaders(request->topology);
  if (!rondo_plan_chains_inside(request->algorithm))
    binomial_build(&m);
  else if (lanes == 1)
    chain_build(&m);
  else if (m.local < lanes)
    fan_leader_build(&m, lanes);
  else
    fan_line_build(&m, lanes);
  if (plan->first_pass == plan->op_count) // nothing comes back to a leader that is alone
    plan->first_pass = 0;
}
