#include "sim/schedule/chakra.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

#define NONE UINT32_MAX
#define MOST_CALLS 0x10000000u // of all ranks

// The ranks of a process group, by the number of its name.
struct group {
  uint32_t *ranks;     // null: all
  uint32_t count;      // 0: no trace has it
  uint32_t *positions; // by rank, from 1; 0: the rank is not in it. Null: all ranks in order
  bool declared;
};

struct maker {
  struct rondo_schedule_replay *r;
  const struct rondo_schedule_trace *traces;
  uint32_t count;
  const struct rondo_analyse_strings *strings;
  struct group *groups;              // by number of the string
  struct rondo_analyse_strings keys; // of statements, whose numbers are theirs and 1 more
  uint32_t call_count, call_capacity;
  struct rondo_sim_error *error;
};

static bool refuse(const struct maker *k, uint32_t rank, const struct rondo_schedule_trace_node *n,
                   const char *what) {
  return rondo_sim_refuse(k->error, "chakra: rank %u: node %" PRIu64 ": %s", rank, n->id, what);
}

static bool is_call(const struct rondo_schedule_trace_node *n) {
  return n->type >= RONDO_SCHEDULE_TRACE_SEND && n->type <= RONDO_SCHEDULE_TRACE_COLLECTIVE;
}

// --------------------------------------------------------------------- groups ---

// True if a name means all ranks, unless a trace declares it.
static bool name_is_all(const struct maker *k, uint32_t name) {
  const char *text = rondo_analyse_strings_get(k->strings, name);
  return *text == '\0' || strcmp(text, "0") == 0;
}

static bool group_is(const struct group *g, const struct rondo_schedule_trace_group *declared) {
  return g->count == declared->count &&
         (g->count == 0 || memcmp(g->ranks, declared->ranks, g->count * sizeof *g->ranks) == 0);
}

static bool group_declare(struct maker *k, uint32_t rank,
                          const struct rondo_schedule_trace_group *declared) {
  struct group *g = &k->groups[declared->name];
  const char *name = rondo_analyse_strings_get(k->strings, declared->name);
  if (g->declared) {
    return group_is(g, declared) ||
           rondo_sim_refuse(k->error, "chakra: rank %u: group %.100s has other ranks elsewhere",
                            rank, name);
  }
  g->declared = true;
  g->count = declared->count;
  if (g->count == 0) {
    return true;
  }
  g->ranks = rondo_sim_alloc(g->count * sizeof *g->ranks);
  memcpy(g->ranks, declared->ranks, g->count * sizeof *g->ranks);
  g->positions = rondo_sim_calloc(k->count, sizeof *g->positions);
  for (uint32_t i = 0; i < g->count; i++) {
    if (g->ranks[i] >= k->count || g->positions[g->ranks[i]]) {
      return rondo_sim_refuse(
          k->error, "chakra: rank %u: group %.100s has rank %u, of which there is %s", rank, name,
          g->ranks[i], g->ranks[i] >= k->count ? "no trace" : "another one");
    }
    g->positions[g->ranks[i]] = i + 1;
  }
  return true;
}

// A group that no trace declares has the ranks that call it.
static void group_join(struct maker *k, uint32_t rank, const struct rondo_schedule_trace_node *n) {
  struct group *g = &k->groups[n->group];
  if (n->type != RONDO_SCHEDULE_TRACE_COLLECTIVE || g->declared || name_is_all(k, n->group)) {
    return;
  }
  if (!g->positions) {
    g->positions = rondo_sim_calloc(k->count, sizeof *g->positions);
    g->ranks = rondo_sim_alloc(k->count * sizeof *g->ranks);
  }
  if (g->positions[rank] == 0) {
    g->ranks[g->count++] = rank;
    g->positions[rank] = g->count;
  }
}

static bool groups_make(struct maker *k) {
  k->groups = rondo_sim_calloc(k->strings->count, sizeof *k->groups);
  for (uint32_t i = 0; i < k->count; i++) {
    for (uint32_t g = 0; g < k->traces[i].group_count; g++) {
      if (!group_declare(k, i, &k->traces[i].groups[g])) {
        return false;
      }
    }
  }
  for (uint32_t i = 0; i < k->count; i++) {
    for (uint32_t n = 0; n < k->traces[i].node_count; n++) {
      group_join(k, i, &k->traces[i].nodes[n]);
    }
  }
  return true;
}

// ----------------------------------------------------------------- statements ---

// The kind of a collective; -1 if it is not simulated.
static int kind_of(uint64_t comm_type) {
  static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_REDUCE,         RONDO_ALL_GATHER,
                              RONDO_GATHER,     RONDO_SCATTER,        RONDO_BROADCAST,
                              RONDO_ALL_TO_ALL, RONDO_REDUCE_SCATTER, RONDO_REDUCE_SCATTER,
                              RONDO_BARRIER};
  return comm_type < sizeof kinds / sizeof kinds[0] ? kinds[comm_type] : -1;
}

// What a descriptor counts: a part of each rank where comm_size counts all that a rank gives.
static uint64_t bytes_of(int kind, uint64_t comm_size, uint32_t ranks) {
  switch (kind) {
  case RONDO_BARRIER:
    return 0;
  case RONDO_REDUCE_SCATTER:
  case RONDO_ALL_TO_ALL:
  case RONDO_SCATTER:
    return (comm_size + ranks - 1) / ranks;
  default:
    return comm_size;
  }
}

// The statement of that key, which is made if there is none. `ranks`: its members, copied; null:
// all.
static uint32_t statement_of(struct maker *k, uint32_t key, struct rondo_schedule_statement x,
                             const uint32_t *ranks) {
  struct rondo_schedule_statements *s = &k->r->statements;
  if (key <= s->count) {
    return key - 1;
  }
  uint32_t capacity = s->capacity;
  RONDO_SIM_GROW(s->items, s->count, s->capacity, 16);
  if (s->capacity != capacity) {
    k->r->members = rondo_sim_realloc(k->r->members, s->capacity * sizeof *k->r->members);
  }
  uint32_t *members = ranks ? rondo_sim_alloc(x.size * sizeof *members) : NULL;
  if (members) {
    memcpy(members, ranks, x.size * sizeof *members);
  }
  k->r->members[s->count] = members;
  s->items[s->count] = x;
  return s->count++;
}

static void name_set(struct rondo_schedule_statement *x, const char *what, const char *name) {
  snprintf(x->name, sizeof x->name, "%s%s", what, name);
  rondo_sim_text_clean(x->name);
}

// Sets the statement of a collective.
static bool collective_find(struct maker *k, uint32_t rank,
                            const struct rondo_schedule_trace_node *n, uint32_t *statement) {
  const struct group *g = &k->groups[n->group];
  struct rondo_schedule_statement x = rondo_schedule_statement_default();
  x.kind = kind_of(n->kind);
  x.times = 0;
  if (x.kind < 0) {
    return refuse(k, rank, n, "this comm_type is not simulated");
  }
  if (g->positions && g->positions[rank] == 0) {
    return refuse(k, rank, n, "the rank is not in the group that it calls");
  }
  x.size = g->count ? g->count : k->count;
  x.bytes = bytes_of(x.kind, n->bytes, x.size);
  name_set(&x, n->group ? "group " : "", rondo_analyse_strings_get(k->strings, n->group));
  uint32_t key = rondo_analyse_strings_print(&k->keys, "%u %d %" PRIu64, n->group, x.kind, x.bytes);
  *statement = statement_of(k, key, x, g->ranks);
  return true;
}

// The same of a message from a rank to another.
static bool message_find(struct maker *k, uint32_t rank, const struct rondo_schedule_trace_node *n,
                         uint32_t *statement) {
  bool sends = n->type == RONDO_SCHEDULE_TRACE_SEND;
  uint64_t own = sends ? n->source : n->target, other = sends ? n->target : n->source;
  struct rondo_schedule_statement x = rondo_schedule_statement_default();
  if (own != RONDO_SCHEDULE_TRACE_UNSAID && own != rank) {
    return refuse(k, rank, n, "it is of another rank");
  }
  if (other == rank || other >= k->count) {
    return refuse(k, rank, n, "its peer is none of the other ranks");
  }
  uint32_t pair[] = {sends ? rank : (uint32_t)other, sends ? (uint32_t)other : rank};
  char ranks[32];
  x.kind = RONDO_SEND_RECV;
  x.bytes = n->bytes;
  x.size = 2;
  x.times = 0;
  snprintf(ranks, sizeof ranks, "%u to %u", pair[0], pair[1]);
  name_set(&x, "", ranks);
  uint32_t key = rondo_analyse_strings_print(&k->keys, "%u-%u %" PRIu64 " %" PRIu64, pair[0],
                                             pair[1], n->tag, n->bytes);
  *statement = statement_of(k, key, x, pair);
  return true;
}

static bool call_add(struct maker *k, uint32_t rank, const struct rondo_schedule_trace_node *n) {
  uint32_t statement = 0;
  bool ok = n->type == RONDO_SCHEDULE_TRACE_COLLECTIVE ? collective_find(k, rank, n, &statement)
                                                       : message_find(k, rank, n, &statement);
  if (!ok || k->call_count == MOST_CALLS) {
    return ok ? refuse(k, rank, n, "there are too many communications") : false;
  }
  RONDO_SIM_GROW(k->r->calls, k->call_count, k->call_capacity, 1024);
  k->r->calls[k->call_count++] = (struct rondo_schedule_call){.collective = statement};
  k->r->statements.items[statement].times++;
  return true;
}

// --------------------------------------------------------------------- graphs ---

static uint32_t node_find(const struct rondo_schedule_trace *t, uint64_t id) {
  uint32_t at = 0;
  RONDO_SIM_LOWER_BOUND(at, t->node_count, t->nodes[middle].id < id);
  return at < t->node_count && t->nodes[at].id == id ? at : NONE;
}

// Finds the nodes that each depends on, in `parents`, and counts the children of each.
static bool parents_find(struct maker *k, uint32_t rank, struct rondo_schedule_graph *g,
                         uint32_t *parents) {
  const struct rondo_schedule_trace *t = &k->traces[rank];
  for (uint32_t i = 0; i < t->node_count; i++) {
    const struct rondo_schedule_trace_node *n = &t->nodes[i];
    for (uint32_t p = n->first_parent; p < n->first_parent + n->parent_count; p++) {
      parents[p] = node_find(t, t->parents[p]);
      if (parents[p] == NONE) {
        return rondo_sim_refuse(k->error,
                                "chakra: rank %u: node %" PRIu64 " depends on node %" PRIu64
                                ", which is not there",
                                rank, n->id, t->parents[p]);
      }
      g->nodes[parents[p]].child_count++;
    }
    g->nodes[i].parent_count = n->parent_count;
  }
  return true;
}

static void children_list(const struct rondo_schedule_trace *t, struct rondo_schedule_graph *g,
                          const uint32_t *parents) {
  uint32_t first = 0;
  for (uint32_t i = 0; i < t->node_count; i++) {
    g->nodes[i].first_child = first;
    first += g->nodes[i].child_count;
    g->nodes[i].child_count = 0;
  }
  for (uint32_t i = 0; i < t->node_count; i++) {
    for (uint32_t p = 0; p < t->nodes[i].parent_count; p++) {
      struct rondo_schedule_node *parent = &g->nodes[parents[t->nodes[i].first_parent + p]];
      g->children[parent->first_child + parent->child_count++] = i;
    }
  }
}

// Refuses a graph in which nodes wait for each other.
static bool cycle_check(struct maker *k, uint32_t rank, const struct rondo_schedule_graph *g) {
  uint32_t *lacking = rondo_sim_alloc(g->node_count * sizeof *lacking);
  uint32_t *order = rondo_sim_alloc(g->node_count * sizeof *order);
  uint32_t count = 0, stuck = 0;
  for (uint32_t i = 0; i < g->node_count; i++) {
    lacking[i] = g->nodes[i].parent_count;
    if (lacking[i] == 0) {
      order[count++] = i;
    }
  }
  for (uint32_t at = 0; at < count; at++) {
    const struct rondo_schedule_node *n = &g->nodes[order[at]];
    for (uint32_t i = n->first_child; i < n->first_child + n->child_count; i++) {
      if (--lacking[g->children[i]] == 0) {
        order[count++] = g->children[i];
      }
    }
  }
  while (stuck < g->node_count && lacking[stuck] == 0) {
    stuck++;
  }
  free(lacking);
  free(order);
  return count == g->node_count ||
         refuse(k, rank, &k->traces[rank].nodes[stuck], "it depends on itself, through others");
}

static bool graph_make(struct maker *k, uint32_t rank) {
  const struct rondo_schedule_trace *t = &k->traces[rank];
  struct rondo_schedule_graph *g = &k->r->graphs[rank];
  uint32_t calls = 0;
  g->node_count = t->node_count;
  g->nodes = rondo_sim_calloc(t->node_count, sizeof *g->nodes);
  g->children = rondo_sim_alloc(t->parent_count * sizeof *g->children);
  for (uint32_t i = 0; i < t->node_count; i++) {
    const struct rondo_schedule_trace_node *n = &t->nodes[i];
    g->nodes[i].call = is_call(n) ? calls++ : RONDO_SCHEDULE_COMPUTES;
    g->nodes[i].compute_ns = is_call(n) ? 0 : n->duration_us * 1000;
    g->nodes[i].lane = n->on_cpu ? RONDO_SCHEDULE_LANE_CPU : RONDO_SCHEDULE_LANE_DEVICE;
  }
  uint32_t *parents = rondo_sim_alloc(t->parent_count * sizeof *parents);
  bool ok = parents_find(k, rank, g, parents);
  if (ok) {
    children_list(t, g, parents);
  }
  free(parents);
  return ok && cycle_check(k, rank, g);
}

// ----------------------------------------------------------------------- make ---

static bool rank_make(struct maker *k, uint32_t rank) {
  const struct rondo_schedule_trace *t = &k->traces[rank];
  for (uint32_t i = 0; i < t->node_count; i++) {
    if (is_call(&t->nodes[i]) && !call_add(k, rank, &t->nodes[i])) {
      return false;
    }
  }
  k->r->first_call[rank + 1] = k->call_count;
  return graph_make(k, rank);
}

bool rondo_schedule_chakra_make(struct rondo_schedule_replay *r,
                                const struct rondo_schedule_trace *traces, uint32_t count,
                                const struct rondo_analyse_strings *strings,
                                struct rondo_sim_error *error) {
  struct maker k = {.r = r, .traces = traces, .count = count, .strings = strings, .error = error};
  *r = (struct rondo_schedule_replay){.statements.rank_count = count};
  r->first_call = rondo_sim_calloc((size_t)count + 1, sizeof *r->first_call);
  r->graphs = rondo_sim_calloc(count, sizeof *r->graphs);
  rondo_analyse_strings_init(&k.keys);
  bool ok = groups_make(&k);
  for (uint32_t i = 0; ok && i < count; i++) {
    ok = rank_make(&k, i);
  }
  for (uint32_t i = 0; i < r->statements.count; i++) { // so far of all ranks
    struct rondo_schedule_statement *x = &r->statements.items[i];
    x->times = (x->times + x->size - 1) / x->size;
  }
  ok = ok && (r->statements.count > 0 || rondo_sim_refuse(error, "chakra: no rank communicates"));
  for (uint32_t i = 0; k.groups && i < strings->count; i++) {
    free(k.groups[i].ranks);
    free(k.groups[i].positions);
  }
  free(k.groups);
  if (!ok) {
    rondo_sim_text_clean(error->text);
  }
  rondo_analyse_strings_fini(&k.keys);
  return ok;
}

// ----------------------------------------------------------------------- read ---

// Reads the trace of the rank, if there is any.
static bool trace_open(struct rondo_schedule_trace *t, const char *prefix, uint32_t rank,
                       struct rondo_analyse_strings *strings, bool *is_there,
                       struct rondo_sim_error *error) {
  char path[512];
  struct rondo_analyse_input in;
  int length = snprintf(path, sizeof path, "%s.%u.et", prefix, rank);
  *is_there = false;
  if (length < 0 || (size_t)length >= sizeof path) {
    return rondo_sim_refuse(error, "chakra: the prefix is too long");
  }
  if (rondo_analyse_input_open(&in, path) != 0) {
    return (errno == ENOENT && rank > 0) ||
           rondo_sim_refuse(error, "chakra: %.200s: %s", path, strerror(errno));
  }
  *is_there = true;
  bool ok = rondo_schedule_trace_read(t, &in, path, strings, error);
  rondo_analyse_input_close(&in);
  return ok;
}

bool rondo_schedule_chakra_read(struct rondo_schedule_replay *r, const char *prefix,
                                struct rondo_sim_error *error) {
  struct rondo_schedule_trace *traces = NULL;
  struct rondo_analyse_strings strings;
  uint32_t count = 0, capacity = 0;
  bool ok = true, is_there = true;
  *r = (struct rondo_schedule_replay){0};
  rondo_analyse_strings_init(&strings);
  while (ok && is_there && count <= RONDO_MAX_RANKS) {
    RONDO_SIM_GROW(traces, count, capacity, 64);
    ok = trace_open(&traces[count], prefix, count, &strings, &is_there, error);
    count += is_there;
  }
  if (ok && count > RONDO_MAX_RANKS) {
    ok = rondo_sim_refuse(error, "chakra: there are more than %u traces", RONDO_MAX_RANKS);
  }
  ok = ok && rondo_schedule_chakra_make(r, traces, count, &strings, error);
  for (uint32_t i = 0; i < count; i++) {
    rondo_schedule_trace_fini(&traces[i]);
  }
  free(traces);
  rondo_analyse_strings_fini(&strings);
  return ok;
}
