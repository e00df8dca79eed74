#include "daemon/plan/two_level.h"

#include <assert.h>

#include "rondo/types.h"

enum {
  SEND = RONDO_PRIM_SEND,
  SEND_RESULT = SEND | RONDO_PRIM_RESULT,
  COPY_SEND = RONDO_PRIM_COPY | SEND,
  RECV_COPY = RONDO_PRIM_RECV | RONDO_PRIM_COPY,
  RECV_COPY_SEND = RECV_COPY | SEND,
  RECV_REDUCE_SEND = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | SEND,
  RECV_REDUCE_COPY = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY,
  RECV_REDUCE_RESULT = RECV_REDUCE_COPY | RONDO_PRIM_RESULT,
  IN_SCRATCH = RONDO_PRIM_IN_SCRATCH,
  OUT_SCRATCH = RONDO_PRIM_OUT_SCRATCH
};

// ------------------------------------------------------------------ places ---

// Where a rank is. Machines count from that of the root, which is machine 0.
struct site {
  const struct rondo_plan_request *q;
  uint32_t machine, machines;
  uint32_t count, local; // ranks of its machine, and which one it is
  uint32_t root_machine; // by its number in the topology
  uint32_t root_local;   // which rank of its machine the root is
  uint32_t lanes;
};

static struct rondo_plan_machine machine_at(const struct rondo_plan_request *q, uint32_t machine) {
  if (q->topology)
    return q->topology->machines[machine];
  return (struct rondo_plan_machine){.rank_count = q->nranks};
}

static struct site site_of(const struct rondo_plan_request *q) {
  const struct rondo_plan_topology *t = q->topology;
  uint32_t own = rondo_plan_topology_machine_of(t, q->rank);
  const struct rondo_plan_machine m = machine_at(q, own);
  struct site s = {.q = q,
                   .machines = rondo_plan_topology_machines(t),
                   .count = m.rank_count,
                   .local = rondo_plan_topology_place(t, q->rank) - m.first,
                   .root_machine = rondo_plan_topology_machine_of(t, q->root)};
  s.machine = (own + s.machines - s.root_machine) % s.machines;
  s.root_local = rondo_plan_topology_place(t, q->root) - machine_at(q, s.root_machine).first;
  s.lanes = rondo_plan_chains_inside(q->algorithm) ? rondo_plan_topology_leaders(t) : 1;
  return s;
}

// The leader of a lane: which rank of its machine it is. One of the lanes has the root.
static uint32_t leader_local(const struct site *s, uint32_t machine, uint32_t lane) {
  return machine == 0 && s->root_local % s->lanes == lane ? s->root_local : lane;
}

static uint32_t leader_position(const struct site *s, uint32_t machine, uint32_t lane) {
  uint32_t number = (s->root_machine + machine) % s->machines;
  uint32_t place = machine_at(s->q, number).first + leader_local(s, machine, lane);
  return rondo_plan_topology_at(s->q->topology, place);
}

static uint32_t local_position(const struct site *s, uint32_t local) {
  uint32_t number = (s->root_machine + s->machine) % s->machines;
  return rondo_plan_topology_at(s->q->topology, machine_at(s->q, number).first + local);
}

// ------------------------------------------------------------------- trees ---

// A rank in the tree of a lane, by positions.
struct node {
  bool is_root;
  uint32_t parent;
  uint32_t child_count;
  uint32_t children[RONDO_PLAN_LISTED_PEERS]; // other machines first, large subtrees first
};

static_assert(RONDO_PLAN_LISTED_PEERS + RONDO_PLAN_MAX_LEADERS <= RONDO_PLAN_MAX_OPS,
              "all plans fit");

// In a line, or in a binomial tree, of `n`: the parent of number `index`, above 0.
static uint32_t parent_of(bool is_line, uint32_t index) {
  return is_line ? index - 1 : index & (index - 1);
}

// Writes the children of number `index` to `children`; returns how many there are.
static uint32_t children_of(bool is_line, uint32_t index, uint32_t n, uint32_t *children) {
  uint32_t count = 0, distance = 1, found = 0;
  while (distance < n - index && (is_line ? count == 0 : !(index & distance))) {
    count++;
    distance *= 2;
  }
  while (found < count) {
    distance /= 2;
    children[found++] = index + distance;
  }
  return count;
}

// The ranks of the machine in the chain of a lane: first the one to which all come, then the
// leader, then the others in turn.
struct chain {
  uint32_t first, second; // equal, except on the machine of a root that is not the leader
};

static uint32_t chain_step(const struct chain *c, uint32_t local) {
  if (local == c->first)
    return 0;
  if (local == c->second)
    return 1;
  return 1 + local - (local > c->first) + (c->first != c->second && local < c->second);
}

static uint32_t chain_at(const struct chain *c, uint32_t step) {
  uint32_t low = c->first < c->second ? c->first : c->second;
  uint32_t high = c->first + c->second - low, at = step - 1 - (low != high);
  if (step == 0)
    return c->first;
  if (step == 1 && low != high)
    return c->second;
  at += at >= low;
  return at + (low != high && at >= high);
}

// The number of a rank of the machine in its chain or binomial tree, and back. A binomial tree
// begins with the leader, which is the root on the root's machine.
static uint32_t inner_number(const struct site *s, const struct chain *c, uint32_t local) {
  if (rondo_plan_chains_inside(s->q->algorithm))
    return chain_step(c, local);
  return (local + s->count - c->first) % s->count;
}

static uint32_t inner_position(const struct site *s, const struct chain *c, uint32_t number) {
  if (rondo_plan_chains_inside(s->q->algorithm))
    return local_position(s, chain_at(c, number));
  return local_position(s, (number + c->first) % s->count);
}

static struct node node_of(const struct site *s, uint32_t lane) {
  bool chains = rondo_plan_chains_inside(s->q->algorithm);
  bool lines = rondo_plan_rings_between(s->q->algorithm);
  uint32_t leader = leader_local(s, s->machine, lane);
  const struct chain chain = {s->machine == 0 ? s->root_local : leader, leader};
  uint32_t number = inner_number(s, &chain, s->local);
  struct node x = {.is_root = s->machine == 0 && number == 0};
  if (s->local == leader)
    x.child_count = children_of(lines, s->machine, s->machines, x.children);
  for (uint32_t i = 0; i < x.child_count; i++)
    x.children[i] = leader_position(s, x.children[i], lane);
  uint32_t outer = x.child_count;
  x.child_count += children_of(chains, number, s->count, x.children + outer);
  for (uint32_t i = outer; i < x.child_count; i++)
    x.children[i] = inner_position(s, &chain, x.children[i]);
  if (number > 0)
    x.parent = inner_position(s, &chain, parent_of(chains, number));
  else if (!x.is_root)
    x.parent = leader_position(s, parent_of(lines, s->machine), lane);
  return x;
}

// --------------------------------------------------------------------- ops ---

// The root copies with its last send: until then slots refer to its send buffer.
static void down_append(struct rondo_plan *plan, const struct node *x, uint32_t lane) {
  uint32_t last = x->child_count - 1;
  if (x->child_count == 0)
    rondo_plan_op_append(plan, RECV_COPY, lane, 0, x->parent);
  for (uint32_t i = 0; i < x->child_count; i++) {
    int first = x->is_root ? SEND : RECV_COPY_SEND, next = x->is_root ? SEND : SEND_RESULT;
    int ends = x->is_root && i == last ? RONDO_PRIM_COPY : 0;
    rondo_plan_op_append(plan, (i == 0 ? first : next) | ends, lane, x->children[i], x->parent);
  }
}

// Adds up what the children send, small subtrees first and other machines last. All but the root
// add up in scratch if there are several.
static void up_append(struct rondo_plan *plan, const struct node *x, uint32_t lane) {
  int puts = x->is_root ? 0 : OUT_SCRATCH;
  int adds = x->is_root ? RECV_REDUCE_RESULT : RECV_REDUCE_COPY | IN_SCRATCH;
  int last = x->is_root ? RECV_REDUCE_RESULT | RONDO_PRIM_FINAL : RECV_REDUCE_SEND | IN_SCRATCH;
  if (x->child_count == 0)
    rondo_plan_op_append(plan, SEND, lane, x->parent, 0);
  if (x->child_count == 1)
    last = x->is_root ? RECV_REDUCE_COPY | RONDO_PRIM_FINAL : RECV_REDUCE_SEND;
  for (uint32_t i = x->child_count; i-- > 0;) {
    bool is_first = i + 1 == x->child_count;
    rondo_plan_op_append(plan, i == 0 ? last : (is_first ? RECV_REDUCE_COPY : adds) | puts, lane,
                         x->parent, x->children[i]);
  }
  if (!x->is_root && x->child_count > 1) {
    plan->scratch_first = lane;
    plan->scratch_count = 1;
  }
}

static void lane_append(const struct site *s, struct rondo_plan *plan, uint32_t lane) {
  const struct node x = node_of(s, lane);
  if (s->q->kind == RONDO_BROADCAST)
    down_append(plan, &x, lane);
  else
    up_append(plan, &x, lane);
}

// True if the rank does not take the lane that it leads in its turn, but first in a broadcast and
// last in a reduce. Else it would pass that lane on only after the lanes before, which have come to
// it through the ranks between. The first rank that is not the root is next to it in all lanes.
static bool own_lane_moves(const struct site *s) {
  bool leads = s->local < s->lanes && leader_local(s, s->machine, s->local) == s->local;
  bool is_root = s->machine == 0 && s->local == s->root_local;
  uint32_t next = s->machine == 0 && s->root_local == 0;
  return leads && !is_root && s->local != next;
}

// The lanes one after the other.
void rondo_plan_two_level_rooted_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  const struct site s = site_of(request);
  bool moves = own_lane_moves(&s);
  if (moves && request->kind == RONDO_BROADCAST)
    lane_append(&s, plan, s.local);
  for (uint32_t lane = 0; lane < s.lanes; lane++)
    if (!moves || lane != s.local)
      lane_append(&s, plan, lane);
  if (moves && request->kind == RONDO_REDUCE)
    lane_append(&s, plan, s.local);
}
