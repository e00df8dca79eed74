// Runs the programs that are graphs.
#include "sim/schedule/graph.h"

#include <stdlib.h>

#include "sim/schedule/machine_state.h"

#define NONE UINT32_MAX

// The nodes of a lane that may begin: a heap, whose first is the first in the graph.
struct lane {
  uint32_t *heap;
  uint32_t count;
  uint32_t running; // node; NONE
  uint64_t until_ns;
};

struct rondo_schedule_walk {
  const struct rondo_schedule_graph *graph;
  uint32_t *lacking;  // by node: parents that have not ended
  uint32_t *node_of;  // by call of the rank, in the order of submission so far
  uint32_t *place_of; // by node: its call there
  uint32_t *released; // nodes that may begin, of which `taken` have
  uint32_t released_count, taken, ended;
  struct lane lanes[RONDO_SCHEDULE_LANES];
};

// ---------------------------------------------------------------------- lanes ---

static void heap_push(struct lane *l, uint32_t node) {
  uint32_t i = l->count++;
  for (; i && l->heap[(i - 1) / 2] > node; i = (i - 1) / 2) {
    l->heap[i] = l->heap[(i - 1) / 2];
  }
  l->heap[i] = node;
}

static uint32_t heap_pop(struct lane *l) {
  uint32_t first = l->heap[0], last = l->heap[--l->count], i = 0;
  for (uint32_t child; (child = 2 * i + 1) < l->count; i = child) {
    child += child + 1 < l->count && l->heap[child + 1] < l->heap[child];
    if (l->heap[child] >= last) {
      break;
    }
    l->heap[i] = l->heap[child];
  }
  l->heap[i] = last;
  return first;
}

// ----------------------------------------------------------------------- make ---

// Counts the iteration's nodes again, and releases those that depend on none.
static void walk_begin(struct rondo_schedule_walk *w) {
  w->released_count = w->taken = w->ended = 0;
  for (uint32_t i = 0; i < w->graph->node_count; i++) {
    w->lacking[i] = w->graph->nodes[i].parent_count;
    if (w->lacking[i] == 0) {
      w->released[w->released_count++] = i;
    }
  }
}

void rondo_schedule_machine_graph(struct rondo_schedule_machine *m, uint32_t rank,
                                  const struct rondo_schedule_graph *graph) {
  struct rondo_schedule_walk *w = rondo_sim_calloc(1, sizeof *w);
  uint32_t n = graph->node_count;
  w->graph = graph;
  w->lacking = rondo_sim_alloc(n * sizeof *w->lacking);
  w->node_of = rondo_sim_alloc(n * sizeof *w->node_of);
  w->place_of = rondo_sim_alloc(n * sizeof *w->place_of);
  w->released = rondo_sim_alloc(n * sizeof *w->released);
  for (uint32_t i = 0; i < RONDO_SCHEDULE_LANES; i++) {
    w->lanes[i].heap = rondo_sim_alloc(n * sizeof *w->lanes[i].heap);
    w->lanes[i].running = NONE;
  }
  for (uint32_t i = 0; i < n; i++) {
    w->place_of[i] = graph->nodes[i].call;
    if (w->place_of[i] != RONDO_SCHEDULE_COMPUTES) {
      w->node_of[w->place_of[i]] = i;
    }
  }
  walk_begin(w);
  m->ranks[rank].walk = w;
}

void rondo_schedule_walk_destroy(struct rondo_schedule_walk *w) {
  if (!w) {
    return;
  }
  for (uint32_t i = 0; i < RONDO_SCHEDULE_LANES; i++) {
    free(w->lanes[i].heap);
  }
  free(w->lacking);
  free(w->node_of);
  free(w->place_of);
  free(w->released);
  free(w);
}

// ------------------------------------------------------------------------ run ---

static void walk_plan(struct rondo_schedule_machine *m, const struct rondo_schedule_rank *r,
                      uint64_t at_ns, uint64_t key) {
  rondo_schedule_event_push(&m->events,
                            &(struct rondo_schedule_event){.at_ns = at_ns,
                                                           .key = key,
                                                           .kind = RONDO_SCHEDULE_SUBMIT,
                                                           .rank = rondo_schedule_rank_number(m, r),
                                                           .sequence = RONDO_SCHEDULE_PROGRAM});
}

static void node_end(struct rondo_schedule_walk *w, uint32_t node) {
  const struct rondo_schedule_node *x = &w->graph->nodes[node];
  w->ended++;
  for (uint32_t i = x->first_child; i < x->first_child + x->child_count; i++) {
    uint32_t child = w->graph->children[i];
    if (--w->lacking[child] == 0) {
      w->released[w->released_count++] = child;
    }
  }
}

// The node's call takes the place of the one that would be submitted next. Returns true if the
// daemon is given any run at once.
static bool node_submit(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                        uint32_t node, uint64_t now_ns) {
  struct rondo_schedule_walk *w = r->walk;
  struct rondo_schedule_run *runs = &m->arrays.runs[r->first_call];
  uint32_t place = w->place_of[node], next = r->submitted, other = w->node_of[next];
  struct rondo_schedule_call call = runs[place].call;
  runs[place].call = runs[next].call;
  runs[next].call = call;
  w->node_of[place] = other;
  w->place_of[other] = place;
  w->node_of[next] = node;
  w->place_of[node] = next;
  return rondo_schedule_call_submit(m, r, now_ns);
}

// Ends what the lane has computed by now.
static void lane_end(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                     struct lane *l, uint64_t now_ns) {
  if (l->running == NONE || l->until_ns > now_ns) {
    return;
  }
  node_end(r->walk, l->running);
  l->running = NONE;
  if (now_ns > m->totals.makespan_ns) {
    m->totals.makespan_ns = now_ns;
    m->totals.path = r->path;
    m->totals.path.other_ns += now_ns - r->path_ns;
  }
}

static void lane_begin(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                       struct lane *l, uint64_t now_ns) {
  if (l->running != NONE || l->count == 0) {
    return;
  }
  l->running = heap_pop(l);
  double ns = (double)r->walk->graph->nodes[l->running].compute_ns * r->slowness;
  l->until_ns = now_ns + rondo_schedule_whole_ns(rondo_schedule_jittered(m, ns));
  walk_plan(m, r, l->until_ns, 0);
}

void rondo_schedule_walk_begin(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r) {
  walk_plan(m, r, r->late_ns, 0);
}

void rondo_schedule_walk_run_ends(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                                  uint32_t call, uint64_t now_ns) {
  walk_plan(m, r, now_ns, (uint64_t)r->walk->node_of[call] + 1);
}

bool rondo_schedule_walk_go_on(struct rondo_schedule_machine *m, struct rondo_schedule_rank *r,
                               uint64_t key, uint64_t now_ns) {
  struct rondo_schedule_walk *w = r->walk;
  bool any = false;
  if (key) {
    node_end(w, (uint32_t)(key - 1));
  }
  for (uint32_t i = 0; i < RONDO_SCHEDULE_LANES; i++) {
    lane_end(m, r, &w->lanes[i], now_ns);
  }
  while (w->taken < w->released_count) {
    uint32_t node = w->released[w->taken++];
    const struct rondo_schedule_node *x = &w->graph->nodes[node];
    if (x->call != RONDO_SCHEDULE_COMPUTES) {
      any |= node_submit(m, r, node, now_ns);
    } else if (x->compute_ns == 0) {
      node_end(w, node);
    } else {
      heap_push(&w->lanes[x->lane], node);
    }
  }
  for (uint32_t i = 0; i < RONDO_SCHEDULE_LANES; i++) {
    lane_begin(m, r, &w->lanes[i], now_ns);
  }
  if (w->ended == w->graph->node_count && ++r->iteration < m->settings.iterations) {
    r->ended = r->submitted = 0;
    walk_begin(w);
    walk_plan(m, r, now_ns, 0);
  }
  return any;
}
