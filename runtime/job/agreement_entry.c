// The entries of an agreement core: what is known, and who has been told.
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "runtime/job/agreement_state.h"

// ---------------------------------------------------------------------- ids ---

static int id_compare(const void *x, const void *y) {
  return rondo_id_compare(((const struct rondo_agreement_id *)x)->id,
                          ((const struct rondo_agreement_id *)y)->id);
}

struct rondo_agreement_id *rondo_agreement_id_find(const struct rondo_agreement *a,
                                                   struct rondo_id id) {
  const struct rondo_agreement_id key = {.id = id};
  struct rondo_agreement_id **found = tfind(&key, &a->ids, id_compare);
  return found ? *found : NULL;
}

struct rondo_agreement_id *rondo_agreement_id_get(struct rondo_agreement *a, struct rondo_id id) {
  struct rondo_agreement_id *known = rondo_agreement_id_find(a, id);
  if (known)
    return known;
  known = calloc(1, sizeof *known);
  if (!known)
    return NULL;
  known->id = id;
  if (tsearch(known, &a->ids, id_compare))
    return known;
  free(known);
  return NULL;
}

void rondo_agreement_id_drop_if_over(struct rondo_agreement *a, struct rondo_agreement_id *id) {
  bool is_counted = id->times_count && id->id.space != RONDO_SPACE_COMM;
  if (!LIST_EMPTY(&id->entries) || (is_counted && !RONDO_FAULT(EVEN_FORGOTTEN)))
    return;
  (void)tdelete(id, &a->ids, id_compare);
  free(id->times);
  free(id);
}

static void entry_free(struct rondo_agreement_entry *e) {
  free(e->locals);
  free(e->edges);
  free(e->text);
  free(e);
}

static void id_free(void *node) {
  struct rondo_agreement_id *id = node;
  while (!LIST_EMPTY(&id->entries)) {
    struct rondo_agreement_entry *e = LIST_FIRST(&id->entries);
    LIST_REMOVE(e, in_id);
    entry_free(e);
  }
  free(id->times);
  free(id);
}

void rondo_agreement_ids_free(struct rondo_agreement *a) {
  tdestroy(a->ids, id_free);
  a->ids = NULL;
}

uint64_t rondo_agreement_id_times(const struct rondo_agreement_id *id, uint32_t rank) {
  for (uint32_t i = 0; id && i < id->times_count; i++)
    if (id->times[i].rank == rank)
      return id->times[i].times;
  return 0;
}

// ------------------------------------------------------------------ entries ---

struct rondo_agreement_key rondo_agreement_entry_key(const struct rondo_agreement_entry *e) {
  return (struct rondo_agreement_key){e->id->id, e->generation, e->group->list->digest};
}

struct rondo_agreement_entry *rondo_agreement_entry_find(const struct rondo_agreement_id *id,
                                                         uint64_t generation,
                                                         const struct rondo_agreement_group *g) {
  struct rondo_agreement_entry *e = NULL;
  LIST_FOREACH (e, &id->entries, in_id)
    if (e->generation == generation && e->group == g)
      return e;
  return NULL;
}

struct rondo_agreement_entry *rondo_agreement_entry_make(struct rondo_agreement *a,
                                                         struct rondo_agreement_id *id,
                                                         uint64_t generation,
                                                         struct rondo_agreement_group *g) {
  struct rondo_agreement_entry *e = calloc(1, sizeof *e);
  if (!e)
    return NULL;
  e->id = id;
  e->group = g;
  e->generation = generation;
  e->rank = e->limit_culprit = e->other = UINT32_MAX;
  e->limit = e->told_here_limit = UINT64_MAX;
  if (a->is_located && !rondo_agreement_entry_find_edges(a, e)) {
    entry_free(e);
    return NULL;
  }
  LIST_INSERT_HEAD(&id->entries, e, in_id);
  LIST_INSERT_HEAD(&g->entries, e, in_group);
  a->entry_count++;
  return e;
}

static void entry_drop(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  struct rondo_agreement_id *id = e->id;
  LIST_REMOVE(e, in_id);
  LIST_REMOVE(e, in_group);
  a->entry_count--;
  entry_free(e);
  rondo_agreement_id_drop_if_over(a, id);
}

bool rondo_agreement_entry_is_complete_here(const struct rondo_agreement_entry *e) {
  return e->local_count == e->group->local_count;
}

void rondo_agreement_entry_fail(struct rondo_agreement_entry *e,
                                const struct rondo_agreement_failure *failure) {
  if (e->status)
    return;
  e->status = failure->status;
  e->culprit = failure->culprit;
  e->other = failure->other;
  if (failure->text && failure->text[0])
    e->text = strdup(failure->text); // without memory the status tells
}

void rondo_agreement_entry_limit(struct rondo_agreement_entry *e, uint64_t completed,
                                 uint32_t culprit) {
  if (completed >= e->limit)
    return;
  e->limit = completed;
  e->limit_culprit = culprit;
}

// -------------------------------------------------------------------- edges ---

struct rondo_agreement_edge *rondo_agreement_entry_edge(struct rondo_agreement_entry *e,
                                                        uint32_t process) {
  for (uint32_t i = 0; i < e->edge_count; i++)
    if (e->edges[i].process == process)
      return &e->edges[i];
  return NULL;
}

struct rondo_agreement_edge *rondo_agreement_entry_edge_get(struct rondo_agreement_entry *e,
                                                            uint32_t process) {
  struct rondo_agreement_edge *known = rondo_agreement_entry_edge(e, process);
  if (known)
    return known;
  if (e->edge_count == e->edge_capacity) {
    uint32_t capacity = e->edge_capacity ? 2 * e->edge_capacity : 1;
    struct rondo_agreement_edge *grown = realloc(e->edges, capacity * sizeof *grown);
    if (!grown)
      return NULL;
    e->edges = grown;
    e->edge_capacity = capacity;
  }
  known = &e->edges[e->edge_count++];
  *known = (struct rondo_agreement_edge){
      .process = process, .heard_limit = UINT64_MAX, .told_limit = UINT64_MAX};
  return known;
}

struct edge_search {
  struct rondo_agreement_entry *e;
  uint8_t role;
  bool is_whole;
};

static void edge_add(uint32_t place, void *arg) {
  struct edge_search *search = arg;
  const struct rondo_agreement_group *g = search->e->group;
  if (place == g->place)
    return;
  struct rondo_agreement_edge *edge =
      rondo_agreement_entry_edge_get(search->e, g->list->processes[place]);
  if (edge)
    edge->role = search->role;
  search->is_whole = search->is_whole && edge;
}

bool rondo_agreement_entry_find_edges(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  const struct rondo_agreement_group *g = e->group;
  if (g->place == RONDO_NO_PLACE || g->is_lost)
    return true;
  for (uint32_t i = 0; i < e->edge_count; i++)
    e->edges[i].role = RONDO_ROLE_NONE;
  struct edge_search search = {e, RONDO_ROLE_PARENT, true};
  uint32_t parent = rondo_agreement_group_parent(g);
  if (parent != RONDO_NO_PLACE)
    edge_add(parent, &search);
  search.role = RONDO_ROLE_CHILD;
  rondo_agreement_group_children(g, edge_add, &search);
  a->is_starved = a->is_starved || !search.is_whole;
  return search.is_whole;
}

// --------------------------------------------------------------- publishing ---

// What the edges of an entry say together.
struct standing {
  bool has_parent, is_confirmed; // the root knows of a registration: the parent has told of it
  bool children_complete, children_done, all_failed;
};

static struct standing entry_standing(const struct rondo_agreement_entry *e) {
  struct standing s = {.children_complete = true, .children_done = true, .all_failed = true};
  for (uint32_t i = 0; i < e->edge_count; i++) {
    const struct rondo_agreement_edge *edge = &e->edges[i];
    if (edge->role == RONDO_ROLE_NONE)
      continue;
    s.all_failed = s.all_failed && edge->heard & RONDO_ENTRY_FAILED;
    if (edge->role == RONDO_ROLE_PARENT) {
      s.has_parent = true;
      s.is_confirmed = edge->heard & RONDO_ENTRY_PROPOSED;
      continue;
    }
    uint32_t complete =
        RONDO_FAULT(AGREED_EARLY) ? RONDO_ENTRY_PROPOSED : (uint32_t)RONDO_ENTRY_COMPLETE;
    s.children_complete = s.children_complete && edge->heard & complete;
    s.children_done = s.children_done && edge->heard & RONDO_ENTRY_DONE;
  }
  s.is_confirmed = s.is_confirmed || !s.has_parent || e->is_agreed;
  return s;
}

// What the subtree of this process says: COMPLETE, DONE. At the root, the whole tree says it.
static uint32_t entry_advance(struct rondo_agreement_entry *e, const struct standing *s) {
  uint32_t facts = 0;
  if (e->rank != UINT32_MAX && s->children_complete && rondo_agreement_entry_is_complete_here(e))
    facts |= RONDO_ENTRY_COMPLETE;
  if (facts && !s->has_parent)
    e->is_agreed = true;
  if (e->is_agreed && e->ended_count == e->group->local_count &&
      (s->children_done || RONDO_FAULT(OVER_EARLY)))
    facts |= RONDO_ENTRY_DONE;
  if (facts & RONDO_ENTRY_DONE && !s->has_parent)
    e->is_over = true;
  return facts;
}

// Tells the caller, if a rank here is registered, or that a communicator has failed.
static void entry_tell_here(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  struct rondo_agreement_action action = {.key = rondo_agreement_entry_key(e)};
  if (e->ended_count == e->local_count && !rondo_agreement_entry_is_failure(e))
    return;
  if (e->limit < e->told_here_limit) {
    action.type = RONDO_AGREEMENT_LIMIT;
    action.completed = e->limit;
    action.culprit = e->limit_culprit;
    if (rondo_agreement_emit(a, &action, NULL, 0))
      e->told_here_limit = e->limit;
  }
  if (e->status && !(e->told_here & RONDO_ENTRY_FAILED)) {
    const char *text = e->text ? e->text : "";
    action.type = RONDO_AGREEMENT_FAILED;
    action.status = e->status;
    action.culprit = e->culprit;
    action.other = e->other;
    if (rondo_agreement_emit(a, &action, text, strlen(text) + 1))
      e->told_here |= RONDO_ENTRY_FAILED;
  } else if (e->is_agreed && !e->status && !(e->told_here & RONDO_ENTRY_AGREED)) {
    action.type = RONDO_AGREEMENT_AGREED;
    if (rondo_agreement_emit(a, &action, NULL, 0))
      e->told_here |= RONDO_ENTRY_AGREED;
  }
}

// All that a neighbour shall know.
static uint32_t edge_wanted(const struct rondo_agreement_entry *e,
                            const struct rondo_agreement_edge *edge, const struct standing *s,
                            uint32_t subtree) {
  bool is_child = edge->role != RONDO_ROLE_PARENT;
  uint32_t wanted = 0;
  if (e->status)
    return e->is_silent || RONDO_FAULT(FAILURE_UNTOLD) ? 0 : RONDO_ENTRY_FAILED;
  // A child whose subtree is not complete passes the proposal on, though it has proposed itself.
  uint32_t answer =
      is_child && !RONDO_FAULT(PROPOSAL_KEPT) ? RONDO_ENTRY_COMPLETE : RONDO_ENTRY_PROPOSED;
  if (e->rank != UINT32_MAX && !(edge->heard & answer) && (!is_child || s->is_confirmed))
    wanted |= RONDO_ENTRY_PROPOSED;
  if (!is_child)
    return wanted | subtree;
  if (e->is_agreed)
    wanted |= RONDO_ENTRY_AGREED;
  if (e->is_over)
    wanted |= RONDO_ENTRY_OVER;
  return wanted;
}

static enum rondo_agreement_kind facts_kind(uint32_t fresh) {
  static const uint32_t facts[] = {RONDO_ENTRY_FAILED, RONDO_ENTRY_OVER,     RONDO_ENTRY_DONE,
                                   RONDO_ENTRY_AGREED, RONDO_ENTRY_COMPLETE, RONDO_ENTRY_PROPOSED};
  for (uint32_t i = 0; i < sizeof facts / sizeof *facts; i++)
    if (fresh & facts[i])
      return (enum rondo_agreement_kind)i;
  return RONDO_AGREEMENT_KIND_LIMIT;
}

static void edge_tell(struct rondo_agreement *a, struct rondo_agreement_entry *e,
                      struct rondo_agreement_edge *edge, uint32_t wanted) {
  uint64_t known = edge->heard_limit < edge->told_limit ? edge->heard_limit : edge->told_limit;
  uint32_t fresh = wanted & ~(uint32_t)edge->told;
  bool needs_limit = !e->status && e->limit < known &&
                     !(edge->role != RONDO_ROLE_PARENT && edge->heard & RONDO_ENTRY_DONE);
  if (!fresh && !needs_limit)
    return;
  uint32_t facts = e->status ? wanted : wanted | edge->told;
  if (!rondo_agreement_entry_send(a, e, edge->process, facts, facts_kind(fresh)))
    return; // RETRY does it
  edge->told |= (uint8_t)(wanted | (e->status ? 0 : RONDO_ENTRY_PROPOSED));
  edge->told_limit = e->limit;
}

// True if no member here can register the entry any more.
static bool entry_is_past_here(const struct rondo_agreement_entry *e) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < e->id->times_count; i++)
    count += e->id->times[i].times >= e->generation &&
             rondo_member_list_has(e->group->list, e->id->times[i].rank);
  return count == e->group->local_count;
}

// A failed entry stays until its ranks here have ended and no neighbour can send more of it. If a
// member is gone, it is never made anew, so it need not stay for messages.
static bool entry_is_over(const struct rondo_agreement_entry *e, const struct standing *s) {
  bool is_unused = e->ended_count == e->local_count;
  if (!e->status)
    return e->is_over;
  if (rondo_agreement_entry_is_failure(e))
    return s->all_failed || e->group->is_lost;
  if (e->group->gone_rank != UINT32_MAX)
    return is_unused;
  return is_unused && entry_is_past_here(e) && (s->all_failed || RONDO_FAULT(FORGOTTEN_EARLY));
}

// Whoever takes this process for a neighbour must hear of the end, because the entry is dropped
// here.
static bool edge_is_told(const struct rondo_agreement_entry *e,
                         const struct rondo_agreement_edge *edge) {
  return edge->role != RONDO_ROLE_NONE ||
         ((e->status || e->is_over) && !rondo_agreement_group_has_left(e->group, edge->process));
}

void rondo_agreement_entry_publish(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  struct standing s = {0};
  uint32_t subtree = 0;
  if (a->is_located)
    s = entry_standing(e);
  if (a->is_located && !e->status)
    subtree = entry_advance(e, &s);
  entry_tell_here(a, e);
  if (!a->is_located)
    return;
  s.is_confirmed = s.is_confirmed || e->is_agreed;
  for (uint32_t i = 0; i < e->edge_count; i++)
    if (edge_is_told(e, &e->edges[i]))
      edge_tell(a, e, &e->edges[i], edge_wanted(e, &e->edges[i], &s, subtree));
  if (entry_is_over(e, &s) && !a->is_starved)
    entry_drop(a, e);
}
