// Finds cycles in the wait-for graph of wait.h. Tarjan's algorithm finds the strongly connected
// components; it has a stack of its own, because a chain of waits may be as long as the record. A
// breadth-first search finds the shortest cycle in a component. Nodes are numbered: pending calls
// first, then the programs of the ranks, then the operations.
#include <stdlib.h>

#include "sim/analyse/arrays.h"
#include "sim/analyse/wait.h"

#define NONE UINT32_MAX
#define MOST_SEARCHES 256
#define MOST_STEPS 20000000 // edges visited; bounds the time for thousands of tangled waits

struct graph {
  const struct rondo_analyse_waits *w;
  uint32_t programs, ops, count; // first of each kind; count of all
  uint32_t *component;           // of each node; NONE: not assigned yet
};

// The position of a walk over the edges of a node.
struct frame {
  uint32_t node;
  size_t edge;
};

// The target of edge `*edge` or of the next edge that exists, with *edge moved past it; NONE after
// the last one.
static uint32_t edge_next(const struct graph *g, uint32_t node, size_t *edge) {
  const struct rondo_analyse_waits *w = g->w;
  if (node < g->programs) {
    const struct rondo_analyse_pending *p = &w->pending[node];
    size_t at = (*edge)++;
    if (p->behind[0] == NONE) {
      return at == 0 ? g->ops + p->op : NONE;
    }
    return at < 2 ? p->behind[at] : NONE;
  }
  if (node < g->ops) {
    uint32_t rank = node - g->programs;
    size_t at = w->front_first[rank] + (*edge)++;
    return at < w->front_first[rank + 1] ? w->front[at] : NONE;
  }
  uint32_t op = node - g->ops;
  for (size_t places = rondo_analyse_op_places(w->job, op); *edge < places;) {
    uint32_t pending;
    size_t place = (*edge)++;
    enum rondo_analyse_standing standing = rondo_analyse_stands(w, op, place, &pending);
    if (standing == RONDO_ANALYSE_STANDS_BEHIND) {
      return pending;
    }
    if (standing == RONDO_ANALYSE_STANDS_ABSENT) {
      return g->programs + rondo_analyse_op_rank(w->job, op, place);
    }
  }
  return NONE;
}

struct tarjan {
  struct graph *g;
  uint32_t *index, *low, *stack;
  struct frame *frames;
  size_t frame_count;
  uint32_t stack_count, next_index, component_count;
};

static void node_enter(struct tarjan *t, uint32_t node) {
  t->index[node] = t->low[node] = t->next_index++;
  t->stack[t->stack_count++] = node;
  t->frames[t->frame_count++] = (struct frame){node, 0};
}

static void node_leave(struct tarjan *t, uint32_t node) {
  t->frame_count--;
  if (t->low[node] == t->index[node]) {
    uint32_t member;
    do {
      member = t->stack[--t->stack_count];
      t->g->component[member] = t->component_count;
    } while (member != node);
    t->component_count++;
  }
  if (t->frame_count) {
    uint32_t parent = t->frames[t->frame_count - 1].node;
    t->low[parent] = t->low[node] < t->low[parent] ? t->low[node] : t->low[parent];
  }
}

static void component_walk(struct tarjan *t, uint32_t root) {
  node_enter(t, root);
  while (t->frame_count) {
    struct frame *frame = &t->frames[t->frame_count - 1];
    uint32_t node = frame->node;
    uint32_t target = edge_next(t->g, node, &frame->edge);
    if (target == NONE) {
      node_leave(t, node);
    } else if (t->index[target] == NONE) {
      node_enter(t, target);
    } else if (t->g->component[target] == NONE && t->index[target] < t->low[node]) {
      t->low[node] = t->index[target];
    }
  }
}

static uint32_t components_find(struct graph *g) {
  struct tarjan t = {.g = g};
  t.index = rondo_analyse_nones(g->count);
  t.low = rondo_analyse_nones(g->count);
  t.stack = rondo_analyse_nones(g->count);
  t.frames = rondo_sim_alloc(g->count * sizeof *t.frames);
  for (uint32_t node = 0; node < g->programs; node++) { // every cycle holds a pending call
    if (t.index[node] == NONE) {
      component_walk(&t, node);
    }
  }
  free(t.index);
  free(t.low);
  free(t.stack);
  free(t.frames);
  return t.component_count;
}

struct search {
  uint32_t *parent, *queue, *seen; // seen: the start from which the node was last reached
  uint64_t steps;
};

// The length of the shortest way from `start` back to itself, or 0. `parent` holds the way; *last
// is the node from which it returns.
static uint32_t cycle_length(const struct graph *g, struct search *s, uint32_t start,
                             uint32_t *last) {
  uint32_t head = 0, tail = 0, depth_end = 1, depth = 1;
  s->queue[tail++] = start;
  s->seen[start] = start;
  while (head < tail) {
    uint32_t node = s->queue[head++];
    size_t edge = 0;
    for (uint32_t target; (target = edge_next(g, node, &edge)) != NONE;) {
      s->steps++;
      if (target == start) {
        *last = node;
        return depth;
      }
      if (g->component[target] == g->component[start] && s->seen[target] != start) {
        s->seen[target] = start;
        s->parent[target] = node;
        s->queue[tail++] = target;
      }
    }
    if (head == depth_end) {
      depth_end = tail;
      depth++;
    }
  }
  return 0;
}

// Finds the shortest cycle through any of up to 256 operations. `nodes` gets its nodes, beginning
// with the operation; returns its length.
static uint32_t cycle_find(const struct graph *g, const uint32_t *sizes, uint32_t **nodes) {
  struct search s = {rondo_analyse_nones(g->count), rondo_analyse_nones(g->count),
                     rondo_analyse_nones(g->count), 0};
  uint32_t best = 0, searches = 0;
  *nodes = NULL;
  for (uint32_t start = g->ops; start < g->count && searches < MOST_SEARCHES; start++) {
    if (g->component[start] == NONE || sizes[g->component[start]] < 2 ||
        (best && s.steps > MOST_STEPS)) {
      continue;
    }
    uint32_t last;
    uint32_t length = cycle_length(g, &s, start, &last);
    searches++;
    if (!length || (best && length >= best)) {
      continue;
    }
    best = length;
    *nodes = rondo_sim_realloc(*nodes, length * sizeof **nodes);
    for (uint32_t i = length; i-- > 1; last = s.parent[last]) {
      (*nodes)[i] = last;
    }
    (*nodes)[0] = start;
  }
  free(s.parent);
  free(s.queue);
  free(s.seen);
  return best;
}

static enum rondo_analyse_reason reason_of(const struct rondo_analyse_waits *w, uint32_t from,
                                           uint32_t to) {
  const struct rondo_analyse_pending *p = &w->pending[from];
  return (enum rondo_analyse_reason)(p->behind[0] == to ? p->reasons[0] : p->reasons[1]);
}

// Converts the nodes of a cycle, which begins with an operation, into turns.
static size_t turns_make(const struct graph *g, const uint32_t *nodes, uint32_t length,
                         struct rondo_analyse_turn *turns) {
  size_t count = 0;
  for (uint32_t i = 0; i < length; i++) {
    if (nodes[i] < g->ops) {
      continue;
    }
    uint32_t before = nodes[(i + length - 1) % length]; // the pending call that waits in it
    uint32_t after = nodes[(i + 1) % length];
    struct rondo_analyse_turn *turn = &turns[count++];
    *turn = (struct rondo_analyse_turn){.holder = before, .absent_call = NONE};
    if (after >= g->programs) {
      turn->absent = after - g->programs;
      turn->reason = RONDO_ANALYSE_NOT_CALLED;
    } else {
      turn->absent = g->w->pending[after].rank;
      turn->absent_call = after;
      turn->reason = reason_of(g->w, after, nodes[(i + 2) % length]);
    }
  }
  return count;
}

size_t rondo_analyse_cycle_find(const struct rondo_analyse_waits *w,
                                struct rondo_analyse_turn **turns) {
  struct graph g = {.w = w, .programs = w->pending_count};
  g.ops = g.programs + (uint32_t)w->job->rank_count;
  g.count = g.ops + w->job->op_count;
  g.component = rondo_analyse_nones(g.count);
  uint32_t component_count = components_find(&g);
  uint32_t *sizes = rondo_sim_calloc(component_count, sizeof *sizes);
  for (uint32_t node = 0; node < g.count; node++) {
    if (g.component[node] != NONE) {
      sizes[g.component[node]]++;
    }
  }
  uint32_t *nodes;
  uint32_t length = cycle_find(&g, sizes, &nodes);
  *turns = length ? rondo_sim_alloc(length * sizeof **turns) : NULL;
  size_t count = length ? turns_make(&g, nodes, length, *turns) : 0;
  free(nodes);
  free(sizes);
  free(g.component);
  return count;
}
