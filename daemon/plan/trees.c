#include "daemon/plan/trees.h"

#include <stdbool.h>

#include "rondo/types.h"

enum { TREES = 2, CHILDREN = 2 };

enum {
  SEND = RONDO_PRIM_SEND,
  RECV = RONDO_PRIM_RECV,
  COPY_SEND = RONDO_PRIM_COPY | SEND,
  SEND_RESULT = SEND | RONDO_PRIM_RESULT,
  RECV_COPY = RECV | RONDO_PRIM_COPY,
  RECV_COPY_SEND = RECV_COPY | SEND,
  RECV_REDUCE_SEND = RECV | RONDO_PRIM_REDUCE | SEND,
  RECV_REDUCE_COPY = RECV | RONDO_PRIM_REDUCE | RONDO_PRIM_COPY,
  RECV_REDUCE_RESULT = RECV_REDUCE_COPY | RONDO_PRIM_RESULT,
  IN_SCRATCH = RONDO_PRIM_IN_SCRATCH,
  OUT_SCRATCH = RONDO_PRIM_OUT_SCRATCH
};

// ------------------------------------------------------------------ the trees ---
//
// Nodes are steps of the line from the root (plan_topology.h), so subtrees are machines in a row.
// The root is node 0. The others, 1 … m, are in the order of their numbers in the tree: an odd node
// is a leaf. The parent of node x, whose lowest bit is b, is x + b or x - b, whichever is a
// multiple of 2b but not of 4b; if that is beyond m, it is x - b.
//
//   0 ─── 4 ─┬─ 2 ─┬─ 1
//            │     └─ 3
//            └─ 6 ─── 5
//
// The second tree is the same one with other numbers, so that odd nodes become even ones: from m
// down to 1 if m is even, else each one higher and the last one 1.

// A node of a tree; the children by the size of their subtrees, the smaller one first.
struct node {
  uint32_t parent;
  uint32_t child_count, children[CHILDREN];
};

static uint32_t node_parent(uint32_t node, uint32_t last) {
  uint32_t bit = node & (~node + 1), before = node - bit, up = before | bit << 1;
  return up <= last ? up : before;
}

static struct node node_of(uint32_t node, uint32_t last) {
  struct node x = {.parent = node ? node_parent(node, last) : 0};
  uint32_t bit = node & (~node + 1), distance = bit >> 1;
  if (node == 0) {
    uint32_t top = 1;
    while (top <= last / 2)
      top *= 2;
    x.children[x.child_count++] = top;
    return x;
  }
  while (distance > last - node)
    distance /= 2;
  if (distance)
    x.children[x.child_count++] = node + distance;
  if (bit > 1)
    x.children[x.child_count++] = node - bit / 2;
  return x;
}

// The number in the second tree of a node of the first, and back.
static uint32_t node_renumber(uint32_t node, uint32_t last) {
  if (node == 0)
    return 0;
  return last % 2 ? node % last + 1 : last + 1 - node;
}

static uint32_t node_renumber_back(uint32_t node, uint32_t last) {
  if (node == 0)
    return 0;
  return last % 2 ? (node + last - 2) % last + 1 : last + 1 - node;
}

// The places of a rank in both trees. Peers are positions in the group.
struct places {
  bool is_root;
  struct node nodes[TREES];
};

// The position of a node of a tree.
static uint32_t peer_at(const struct rondo_plan_line *line, uint32_t tree, uint32_t node) {
  return rondo_plan_line_at(line, tree ? node_renumber_back(node, line->nranks - 1) : node);
}

static struct places places_of(const struct rondo_plan_request *q) {
  bool is_rooted = rondo_plan_is_rooted(q->kind);
  uint32_t root = is_rooted ? q->root : rondo_plan_topology_at(q->topology, 0);
  const struct rondo_plan_line line = rondo_plan_line_of(q->topology, q->nranks, root);
  uint32_t step = rondo_plan_line_step(&line, q->rank), last = q->nranks - 1;
  struct places p = {.is_root = step == 0};
  for (uint32_t tree = 0; tree < TREES; tree++) {
    struct node *x = &p.nodes[tree];
    *x = node_of(tree ? node_renumber(step, last) : step, last);
    x->parent = peer_at(&line, tree, x->parent);
    for (uint32_t i = 0; i < x->child_count; i++)
      x->children[i] = peer_at(&line, tree, x->children[i]);
  }
  return p;
}

// -------------------------------------------------------------------- the ops ---

// Adds what the children send to the rank's own chunk, and sends the sum to the parent. `scratch`:
// the rank may have no receive buffer in which to add up.
static void up_append(struct rondo_plan *plan, const struct places *p, uint32_t tree,
                      bool scratch) {
  const struct node *x = &p->nodes[tree];
  if (p->is_root)
    rondo_plan_op_append(plan, RECV_REDUCE_COPY | RONDO_PRIM_FINAL, tree, 0, x->children[0]);
  else if (x->child_count == 0)
    rondo_plan_op_append(plan, SEND, tree, x->parent, 0);
  else if (x->child_count == 1)
    rondo_plan_op_append(plan, RECV_REDUCE_SEND, tree, x->parent, x->children[0]);
  if (x->child_count < 2)
    return;
  rondo_plan_op_append(plan, RECV_REDUCE_COPY | (scratch ? OUT_SCRATCH : 0), tree, 0,
                       x->children[0]);
  rondo_plan_op_append(plan, scratch ? RECV_REDUCE_SEND | IN_SCRATCH : RECV_REDUCE_RESULT | SEND,
                       tree, x->parent, x->children[1]);
  if (scratch) {
    plan->scratch_first = tree;
    plan->scratch_count = 1;
  }
}

// Passes the result on, to the larger subtree first. `first`: what the root does with its chunk.
static void down_append(struct rondo_plan *plan, const struct places *p, uint32_t tree, int first) {
  const struct node *x = &p->nodes[tree];
  uint32_t larger = x->children[x->child_count ? x->child_count - 1 : 0];
  if (p->is_root)
    rondo_plan_op_append(plan, first, tree, larger, 0);
  else
    rondo_plan_op_append(plan, x->child_count ? RECV_COPY_SEND : RECV_COPY, tree, larger,
                         x->parent);
  if (x->child_count == 2)
    rondo_plan_op_append(plan, SEND_RESULT, tree, x->children[0], 0);
}

// Going up, each rank sends first where it is a leaf, which waits for nobody; going down it
// receives last there.
void rondo_plan_double_tree_build(const struct rondo_plan_request *request,
                                  struct rondo_plan *plan) {
  struct places p = places_of(request);
  bool reduces = rondo_plan_reduces(request->kind), to_root = request->kind == RONDO_REDUCE;
  for (int inner = 0; inner <= 1 && reduces; inner++)
    for (uint32_t tree = 0; tree < TREES; tree++)
      if ((p.nodes[tree].child_count > 0) == inner)
        up_append(plan, &p, tree, to_root);
  if (to_root)
    return;
  plan->first_pass = plan->op_count;
  for (int inner = 1; inner >= 0; inner--)
    for (uint32_t tree = 0; tree < TREES; tree++)
      if ((p.nodes[tree].child_count > 0) == inner)
        down_append(plan, &p, tree, reduces ? SEND_RESULT : COPY_SEND);
}

// ------------------------------------------------------------- binomial trees ---
//
// Nodes are positions, counted from the root. The children of node i are i + 1, i + 2, i + 4, …
// below the lowest bit of i. The nodes below node i are those that follow it.

// The distance to child `k`; 0: node `index` of `n` has no such child.
static uint32_t child_distance(uint32_t index, uint32_t n, uint32_t k) {
  uint32_t distance = 1u << k;
  return k < RONDO_PLAN_MAX_ROUNDS && distance < n - index && !(index & (2 * distance - 1))
             ? distance
             : 0;
}

static uint32_t child_count(uint32_t index, uint32_t n) {
  uint32_t count = 0;
  while (child_distance(index, n, count))
    count++;
  return count;
}

// Node `index` and all below it.
static uint32_t subtree_size(uint32_t index, uint32_t n) {
  uint32_t bit = index & (~index + 1);
  return index == 0 ? n : bit < n - index ? bit : n - index;
}

// Small subtrees first, whose sums are ready first. All but the root add up in scratch.
void rondo_plan_binomial_reduce_build(const struct rondo_plan_request *request,
                                      struct rondo_plan *plan) {
  uint32_t n = request->nranks, root = request->root, index = (request->rank + n - root) % n;
  uint32_t count = child_count(index, n), parent = (root + (index & (index - 1))) % n;
  int adds = index == 0 ? RECV_REDUCE_RESULT : RECV_REDUCE_COPY | IN_SCRATCH | OUT_SCRATCH;
  int first = index == 0 ? RECV_REDUCE_COPY : RECV_REDUCE_COPY | OUT_SCRATCH;
  int last = index == 0 ? RECV_REDUCE_RESULT | RONDO_PRIM_FINAL : RECV_REDUCE_SEND | IN_SCRATCH;
  if (count <= 1)
    last = index == 0 ? RECV_REDUCE_COPY | RONDO_PRIM_FINAL : count ? RECV_REDUCE_SEND : SEND;
  for (uint32_t k = 0; k < count; k++)
    rondo_plan_peer_number(&plan->recv, (root + index + (1u << k)) % n);
  if (count > 1)
    rondo_plan_op_append(plan, first, 0, 0, plan->recv.listed[0]);
  if (count > 2) {
    rondo_plan_op_append(plan, adds, 0, 0, plan->recv.listed[1]);
    plan->ops[1].repeat = count - 2;
    plan->ops[1].peer_stride = 1;
  }
  rondo_plan_op_append(plan, last, 0, parent, plan->recv.listed[count ? count - 1 : 0]);
  plan->scratch_count = index > 0 && count > 1;
}

// Appends an op for the `width` chunks from the one of node `index` on.
static void nodes_append(const struct rondo_plan_request *q, struct rondo_plan *plan, int primitive,
                         uint32_t index, uint32_t width, uint32_t peer) {
  rondo_plan_op_append(plan, primitive, (q->root + index) % q->nranks, (q->root + peer) % q->nranks,
                       (q->root + peer) % q->nranks);
  plan->ops[plan->op_count - 1].width = width;
}

// A rank with children collects the chunks of its subtree in scratch, and sends them to its parent
// in one message. The root collects them in its receive buffer.
void rondo_plan_binomial_gather_build(const struct rondo_plan_request *request,
                                      struct rondo_plan *plan) {
  uint32_t n = request->nranks, index = (request->rank + n - request->root) % n;
  uint32_t count = child_count(index, n), size = subtree_size(index, n);
  int to = index > 0 ? OUT_SCRATCH : 0;
  if (count == 0) {
    nodes_append(request, plan, SEND | RONDO_PRIM_IN_BASE, index, 1, index & (index - 1));
    return;
  }
  nodes_append(request, plan, RONDO_PRIM_COPY | RONDO_PRIM_IN_BASE | to, index, 1, 0);
  for (uint32_t k = 0; k < count; k++) {
    uint32_t child = index + (1u << k);
    nodes_append(request, plan, RECV_COPY | to, child, subtree_size(child, n), child);
  }
  if (index == 0)
    return;
  nodes_append(request, plan, SEND | IN_SCRATCH, index, size, index & (index - 1));
  plan->scratch_first = request->rank;
  plan->scratch_count = size;
}

// The same in reverse, the largest subtree first.
void rondo_plan_binomial_scatter_build(const struct rondo_plan_request *request,
                                       struct rondo_plan *plan) {
  uint32_t n = request->nranks, index = (request->rank + n - request->root) % n;
  uint32_t count = child_count(index, n), size = subtree_size(index, n);
  int from = index > 0 ? IN_SCRATCH : 0;
  if (count == 0) {
    nodes_append(request, plan, RECV_COPY | RONDO_PRIM_OUT_BASE, index, 1, index & (index - 1));
    return;
  }
  if (index > 0) {
    nodes_append(request, plan, RECV_COPY | OUT_SCRATCH, index, size, index & (index - 1));
    plan->scratch_first = request->rank;
    plan->scratch_count = size;
  }
  for (uint32_t k = count; k-- > 0;) {
    uint32_t child = index + (1u << k);
    nodes_append(request, plan, SEND | from, child, subtree_size(child, n), child);
  }
  nodes_append(request, plan, RONDO_PRIM_COPY | RONDO_PRIM_OUT_BASE | from, index, 1, 0);
}
