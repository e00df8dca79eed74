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

// One lane: the ranks of a machine from its leader on, which is the root on the root's machine, in
// a chain or a binomial tree. The number of a rank of the machine there, and back.
static uint32_t inner_number(const struct site *s, uint32_t first, uint32_t local) {
  if (!rondo_plan_chains_inside(s->q->algorithm))
    return (local + s->count - first) % s->count;
  return local == first ? 0 : local + (local < first);
}

static uint32_t inner_position(const struct site *s, uint32_t first, uint32_t number) {
  if (!rondo_plan_chains_inside(s->q->algorithm))
    return local_position(s, (number + first) % s->count);
  return local_position(s, number == 0 ? first : number - (number <= first));
}

static void inner_add(const struct site *s, uint32_t leader, struct node *x) {
  bool chains = rondo_plan_chains_inside(s->q->algorithm);
  uint32_t number = inner_number(s, leader, s->local), outer = x->child_count;
  x->child_count += children_of(chains, number, s->count, x->children + outer);
  for (uint32_t i = outer; i < x->child_count; i++)
    x->children[i] = inner_position(s, leader, x->children[i]);
  if (number > 0)
    x->parent = inner_position(s, leader, parent_of(chains, number));
}

// Several lanes: whether a rank of the machine leads one. The others are a line in the order of
// their numbers, the same for all lanes.
static bool is_leader(const struct site *s, uint32_t local) {
  bool leads = local < s->lanes && leader_local(s, s->machine, local) == local;
  return leads || (s->machine == 0 && local == s->root_local);
}

// The rank of the line at or after `local`; the ranks of the machine if there is none.
static uint32_t line_from(const struct site *s, uint32_t local) {
  while (local < s->count && is_leader(s, local))
    local++;
  return local;
}

static uint32_t line_before(const struct site *s, uint32_t local) {
  while (local-- > 0)
    if (!is_leader(s, local))
      return local;
  return s->count;
}

// The leader of a lane has the line and the other leaders below it, but not the root, which is its
// parent. So no leader waits for what others pass on in their lanes.
static void fan_add(const struct site *s, uint32_t lane, struct node *x) {
  uint32_t leader = leader_local(s, s->machine, lane), next = s->count;
  bool has_root = s->machine == 0;
  if (s->local == leader) {
    next = line_from(s, 0);
  } else if (!is_leader(s, s->local)) {
    uint32_t before = line_before(s, s->local);
    next = line_from(s, s->local + 1);
    x->parent = local_position(s, before < s->count ? before : leader);
  } else if (has_root && s->local == s->root_local) {
    x->children[x->child_count++] = local_position(s, leader);
  } else {
    x->parent = local_position(s, leader);
  }
  if (next < s->count)
    x->children[x->child_count++] = local_position(s, next);
  for (uint32_t i = 0; s->local == leader && i < s->lanes; i++) {
    uint32_t other = leader_local(s, s->machine, i);
    if (other != leader && !(has_root && other == s->root_local))
      x->children[x->child_count++] = local_position(s, other);
  }
  if (has_root && s->local == leader && leader != s->root_local)
    x->parent = local_position(s, s->root_local);
}

static struct node node_of(const struct site *s, uint32_t lane) {
  bool lines = rondo_plan_rings_between(s->q->algorithm);
  uint32_t leader = leader_local(s, s->machine, lane);
  struct node x = {.is_root = s->machine == 0 && s->local == s->root_local};
  if (s->local == leader)
    x.child_count = children_of(lines, s->machine, s->machines, x.children);
  for (uint32_t i = 0; i < x.child_count; i++)
    x.children[i] = leader_position(s, x.children[i], lane);
  if (s->lanes > 1)
    fan_add(s, lane, &x);
  else
    inner_add(s, leader, &x);
  if (s->local == leader && s->machine > 0)
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

// The lanes one after the other, but a leader takes its own lane first in a broadcast and last in a
// reduce: then it passes on what it has, and does not wait for other leaders before. With the root
// it is the reverse, which has the other leaders' lanes from them, or for them.
void rondo_plan_two_level_rooted_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  struct site s = site_of(request);
  bool is_root = s.machine == 0 && s.local == s.root_local, leads = is_leader(&s, s.local);
  uint32_t own = is_root ? s.root_local % s.lanes : s.local;
  bool is_first = leads && (request->kind == RONDO_BROADCAST) != is_root;
  if (is_first)
    lane_append(&s, plan, own);
  for (uint32_t lane = 0; lane < s.lanes; lane++)
    if (!leads || lane != own)
      lane_append(&s, plan, lane);
  if (leads && !is_first)
    lane_append(&s, plan, own);
}
