// All-gather and reduce-scatter over two levels. The ranks of a group are in lanes, as many as each
// machine has leaders (plan_topology.h). A lane is a ring of its ranks, which goes through one
// machine after the other: so it enters each machine at one rank and leaves it at one. Inside the
// machines the lanes exchange what they have. docs/algorithms.md has the plans as tables.
#include "daemon/plan/two_level.h"

#include <assert.h>

enum {
  SEND = RONDO_PRIM_SEND,
  SEND_RESULT = SEND | RONDO_PRIM_RESULT,
  COPY_SEND = RONDO_PRIM_COPY | SEND,
  RECV_COPY = RONDO_PRIM_RECV | RONDO_PRIM_COPY,
  RECV_COPY_SEND = RECV_COPY | SEND,
  RECV_REDUCE_SEND = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | SEND,
  RECV_REDUCE_COPY = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY
};

// The ranks of a machine that are in one lane, by their numbers in the lane.
struct slice {
  uint32_t first, count;
};

// A rank of a plan that is built.
struct member {
  const struct rondo_plan_request *q;
  struct rondo_plan *plan;
  uint32_t lanes, lane, size;        // all lanes, its own, and the ranks of that
  uint32_t own;                      // its number in the lane
  uint32_t local;                    // its number in the slice
  struct slice slice, before, after; // of its own machine, of the one before and the one after
  uint32_t place, first, count;      // its place; the first of its machine, and ranks there
  uint32_t machines;
};

static struct rondo_plan_machine machine_at(const struct rondo_plan_request *q, uint32_t machine) {
  if (q->topology)
    return q->topology->machines[machine];
  return (struct rondo_plan_machine){.rank_count = q->nranks};
}

static struct slice slice_of(const struct member *m, uint32_t machine) {
  const struct rondo_plan_machine at = machine_at(m->q, machine);
  uint32_t up = m->lanes - 1 - m->lane, first = (at.first + up) / m->lanes;
  return (struct slice){first, (at.first + at.rank_count + up) / m->lanes - first};
}

uint32_t rondo_plan_part_lanes(int kind, uint32_t nranks, uint32_t leaders) {
  bool is_large = nranks > leaders * RONDO_PLAN_MAX_LANE_SUMS;
  return kind == RONDO_REDUCE_SCATTER && is_large ? 1 : leaders;
}

static struct member member_of(const struct rondo_plan_request *q, struct rondo_plan *plan) {
  const struct rondo_plan_topology *t = q->topology;
  struct member m = {.q = q, .plan = plan, .machines = rondo_plan_topology_machines(t)};
  uint32_t machine = rondo_plan_topology_machine_of(t, q->rank);
  m.lanes = rondo_plan_part_lanes(q->kind, q->nranks, rondo_plan_topology_leaders(t));
  m.place = rondo_plan_topology_place(t, q->rank);
  m.first = machine_at(q, machine).first;
  m.count = machine_at(q, machine).rank_count;
  m.lane = m.place % m.lanes;
  m.size = rondo_plan_lane_size(q->nranks, m.lanes, m.lane);
  m.own = m.place / m.lanes;
  m.slice = slice_of(&m, machine);
  m.before = slice_of(&m, (machine + m.machines - 1) % m.machines);
  m.after = slice_of(&m, (machine + 1) % m.machines);
  m.local = m.own - m.slice.first;
  plan->by_place = m.lanes > 1 || (t && t->order) ? m.lanes : 0;
  return m;
}

// ------------------------------------------------------------------ ops and peers ---

// The number, among the peers of one direction, of the rank at a place.
static uint32_t place_peer(const struct member *m, struct rondo_plan_peers *peers, uint32_t place) {
  return rondo_plan_peer_number(peers, rondo_plan_topology_at(m->q->topology, place));
}

// The same of a rank of the own lane.
static uint32_t lane_peer(const struct member *m, struct rondo_plan_peers *peers, uint32_t number) {
  return place_peer(m, peers, number * m->lanes + m->lane);
}

// Appends an op for `repeat` chunks of any lane, from `chunk` downwards.
static void chunks_add(const struct member *m, int primitive, uint32_t repeat, uint32_t chunk,
                       uint32_t send, uint32_t recv) {
  const struct rondo_plan_lane all = {m->plan, 0, 1};
  rondo_plan_lane_append(&all, primitive, repeat, chunk, send, recv);
}

// The same for chunks of the own lane from number `at` downwards, which may go round the end.
static void lane_add(const struct member *m, int primitive, uint32_t repeat, uint32_t at,
                     uint32_t send, uint32_t recv) {
  uint32_t first = rondo_plan_lane_first(m->q->nranks, m->lanes, m->lane), down = repeat;
  assert(m->size > 0); // the rank itself is in its lane
  at %= m->size;
  if (m->lanes > 1 && repeat > at + 1)
    down = at + 1;
  chunks_add(m, primitive, down, first + at, send, recv);
  chunks_add(m, primitive, repeat - down, first + m->size - 1, send, recv);
}

// The ranks beside this one on its machine, round the end: their lanes and peers.
struct beside {
  uint32_t next_lane, prev_lane, send, recv;
};

static struct beside beside_of(const struct member *m) {
  uint32_t next = m->first + (m->place - m->first + 1) % m->count;
  uint32_t prev = m->first + (m->place - m->first + m->count - 1) % m->count;
  return (struct beside){next % m->lanes, prev % m->lanes, place_peer(m, &m->plan->send, next),
                         place_peer(m, &m->plan->recv, prev)};
}

// Appends an op for all chunks of a lane, which goes round the machine.
static void round_add(const struct member *m, int primitive, uint32_t lane,
                      const struct beside *beside) {
  uint32_t size = rondo_plan_lane_size(m->q->nranks, m->lanes, lane);
  uint32_t last = rondo_plan_lane_first(m->q->nranks, m->lanes, lane) + size - 1;
  chunks_add(m, primitive, size, last, beside->send, beside->recv);
}

// ------------------------------------------------------------------ all-gather ---

// A ring of the ranks of the slice. The numbers that it takes go round the end of the slice's.
static void slice_gather_add(const struct member *m) {
  uint32_t own = m->local, count = m->slice.count, first = m->slice.first;
  uint32_t next = lane_peer(m, &m->plan->send, first + (own + 1) % count);
  uint32_t before = lane_peer(m, &m->plan->recv, first + (own + count - 1) % count);
  uint32_t down = own + 1 < count ? own : count - 2; // passed on, before the end comes
  lane_add(m, COPY_SEND | RONDO_PRIM_IN_BASE, 1, m->own, next, 0);
  lane_add(m, RECV_COPY_SEND, down, m->own + m->size - 1, next, before);
  lane_add(m, RECV_COPY_SEND, count - 2 - down, first + count - 1, next, before);
  lane_add(m, RECV_COPY, 1, first + (own + 1) % count, 0, before);
}

// Each lane goes round the machine: from its ranks to those that follow, up to the next one of its
// ranks. All ranks take the lanes in their order.
static void lanes_gather_add(const struct member *m) {
  const struct beside beside = beside_of(m);
  for (uint32_t lane = 0; lane < m->lanes; lane++) {
    bool sends = beside.next_lane != lane;
    if (lane != m->lane)
      round_add(m, sends ? RECV_COPY_SEND : RECV_COPY, lane, &beside);
    else if (sends)
      round_add(m, SEND_RESULT, lane, &beside);
  }
}

// The ranks of a slice first gather among themselves. Then all ranks of the lane are a ring, in
// which the last rank of each slice begins with the chunks of its slice, and passes on all others
// but those of the next one. In the end all lanes go round their machine.
void rondo_plan_two_level_gather_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  const struct member m = member_of(request, plan);
  uint32_t count = m.slice.count, others = m.size - count, end = m.slice.first + count;
  bool is_last = m.local + 1 == count;
  if (count > 1)
    slice_gather_add(&m);
  if (m.machines == 1)
    return;
  uint32_t send = lane_peer(&m, &plan->send, (m.own + 1) % m.size);
  uint32_t recv = lane_peer(&m, &plan->recv, (m.own + m.size - 1) % m.size);
  uint32_t kept = is_last ? m.after.count : 0;
  if (is_last && count > 1)
    lane_add(&m, SEND_RESULT, count, end - 1, send, 0);
  else if (is_last)
    lane_add(&m, COPY_SEND | RONDO_PRIM_IN_BASE, 1, m.own, send, 0);
  lane_add(&m, RECV_COPY_SEND, others - kept, m.slice.first + m.size - 1, send, recv);
  lane_add(&m, RECV_COPY, kept, end + kept - 1, 0, recv);
  if (m.lanes > 1)
    lanes_gather_add(&m);
}

// -------------------------------------------------------------- reduce-scatter ---

// Sums of the chunks of each lane go round the machine, through the ranks of other lanes that
// follow each other, to the next one of the lane, which keeps them in scratch.
static void lanes_reduce_add(const struct member *m) {
  const struct beside beside = beside_of(m);
  for (uint32_t lane = 0; lane < m->lanes; lane++) {
    bool begins = beside.prev_lane == lane; // or that rank would have sent a sum
    int moves = lane == m->lane ? RONDO_PRIM_COPY | RONDO_PRIM_OUT_SCRATCH : SEND;
    int adds = begins ? 0 : RONDO_PRIM_RECV | RONDO_PRIM_REDUCE;
    round_add(m, moves | adds, lane, &beside);
  }
  m->plan->scratch_first = rondo_plan_lane_first(m->q->nranks, m->lanes, m->lane);
  m->plan->scratch_count = m->size;
}

// Hands results on to the ranks of the slice, from the last rank to the first, then upwards. All
// but the last rank take their own one last.
static void results_add(const struct member *m, uint32_t after) {
  uint32_t last = m->slice.count - 1, local = m->local, first = m->slice.first;
  uint32_t recv = lane_peer(m, &m->plan->recv, first + (local + last) % m->slice.count);
  uint32_t send = local + 1 < last ? after : 0;
  lane_add(m, RONDO_PRIM_RECV | SEND, last - 1 - local, first + last - 1, send, recv);
  lane_add(m, RECV_COPY | RONDO_PRIM_OUT_BASE, 1, m->own, 0, recv);
}

// With several lanes, all ranks of a machine first add up for each slice. Then sums of the chunks
// of each slice begin on the first rank of the next machine's and go through all ranks of the lane.
// The last rank of the slice to which they belong finishes them, and hands them on.
void rondo_plan_two_level_scatter_build(const struct rondo_plan_request *request,
                                        struct rondo_plan *plan) {
  const struct member m = member_of(request, plan);
  uint32_t n = m.size, count = m.slice.count, end = m.slice.first + count;
  uint32_t down = m.slice.first + n - 1, begun = m.local == 0 ? m.before.count : 0;
  bool is_last = m.local + 1 == count;
  int from = m.lanes > 1 ? RONDO_PRIM_IN_SCRATCH : 0;
  uint32_t send = 0, recv = 0, passed = is_last ? n - count : n;
  if (m.lanes > 1)
    lanes_reduce_add(&m);
  if (!is_last || m.machines > 1)
    send = lane_peer(&m, &plan->send, (m.own + 1) % n);
  if (begun < n)
    recv = lane_peer(&m, &plan->recv, (m.own + n - 1) % n);
  lane_add(&m, SEND | from, begun, down, send, 0);
  lane_add(&m, RECV_REDUCE_SEND | from, passed - begun, down + n - begun, send, recv);
  if (!is_last) {
    results_add(&m, send);
    return;
  }
  lane_add(&m, RECV_REDUCE_COPY | RONDO_PRIM_OUT_BASE | RONDO_PRIM_FINAL | from, 1, end - 1, 0,
           recv);
  if (count > 1)
    lane_add(&m, RECV_REDUCE_SEND | RONDO_PRIM_FINAL | from, count - 1, end - 2,
             lane_peer(&m, &plan->send, m.slice.first), recv);
}
