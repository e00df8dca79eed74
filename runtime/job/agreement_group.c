// The groups of an agreement core: their trees, who has their member lists, and who is gone.
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"
#include "base/list.h"
#include "runtime/job/agreement_state.h"

// A member list that has arrived in part.
struct rondo_agreement_partial {
  struct rondo_agreement_partial *next;
  uint32_t from;
  uint64_t group;
  uint32_t nranks, filled;
  uint32_t members[];
};

// ------------------------------------------------------------------- groups ---

static int group_compare(const void *x, const void *y) {
  uint64_t a = ((const struct rondo_agreement_group *)x)->list->digest;
  uint64_t b = ((const struct rondo_agreement_group *)y)->list->digest;
  return a < b ? -1 : a > b;
}

struct rondo_agreement_group *rondo_agreement_group_find(const struct rondo_agreement *a,
                                                         uint64_t digest) {
  const struct rondo_member_list list = {.digest = digest};
  const struct rondo_agreement_group key = {.list = &list};
  struct rondo_agreement_group **found = tfind(&key, &a->groups, group_compare);
  return found ? *found : NULL;
}

static void group_free(void *node) {
  struct rondo_agreement_group *g = node;
  free(g->has_left);
  free(g->known);
  free(g);
}

void rondo_agreement_groups_free(struct rondo_agreement *a) {
  tdestroy(a->groups, group_free);
  a->groups = NULL;
  LIST_INIT(&a->group_list);
}

void rondo_agreement_group_note_gone(struct rondo_agreement_group *g, uint32_t rank, bool is_lost) {
  if (g->gone_rank == UINT32_MAX || (is_lost && !g->is_lost))
    g->gone_rank = rank;
  g->is_lost = g->is_lost || is_lost;
}

struct rondo_agreement_group *rondo_agreement_group_get(struct rondo_agreement *a,
                                                        const struct rondo_member_list *list) {
  struct rondo_agreement_group *g = rondo_agreement_group_find(a, list->digest);
  if (g)
    return g;
  g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  g->list = list;
  g->gone_rank = UINT32_MAX;
  g->place = RONDO_NO_PLACE;
  if ((a->is_located && !rondo_agreement_group_locate(a, g)) ||
      !tsearch(g, &a->groups, group_compare)) {
    group_free(g);
    return NULL;
  }
  LIST_INSERT_HEAD(&a->group_list, g, listed);
  for (uint32_t i = 0; i < a->gone_count; i++)
    if (rondo_member_list_has(list, a->gone[i].rank))
      rondo_agreement_group_note_gone(g, a->gone[i].rank, a->gone[i].is_lost);
  return g;
}

// Finds the other processes that left before the group was known here: all their ranks are gone.
static bool group_find_left(const struct rondo_agreement *a, struct rondo_agreement_group *g) {
  const struct rondo_member_lists *lists = a->lists;
  if (!a->gone_count)
    return true;
  g->has_left = malloc(g->list->process_count);
  if (!g->has_left)
    return false;
  memset(g->has_left, 1, g->list->process_count);
  for (uint32_t r = 0; r < lists->rank_count; r++) {
    uint32_t place = rondo_member_list_place(g->list, lists->process_of[r]);
    if (place != RONDO_NO_PLACE && !rondo_agreement_is_gone(a, r))
      g->has_left[place] = 0;
  }
  uint32_t here = rondo_member_list_place(g->list, a->self);
  if (here != RONDO_NO_PLACE)
    g->has_left[here] = 0; // though its ranks may be gone
  return true;
}

bool rondo_agreement_group_locate(struct rondo_agreement *a, struct rondo_agreement_group *g) {
  const struct rondo_member_list *list = g->list;
  if (!group_find_left(a, g))
    return false;
  g->place = rondo_member_list_place(list, a->self);
  if (list->process_count == list->nranks) { // one rank a process
    g->local_count = g->place != RONDO_NO_PLACE;
    return true;
  }
  g->local_count = 0;
  for (uint32_t i = 0; i < list->nranks; i++)
    g->local_count += a->lists->process_of[list->members[i]] == a->self;
  return true;
}

static bool numbers_add(uint32_t **numbers, uint32_t *count, uint32_t *capacity, uint32_t number) {
  if (*count == *capacity) {
    uint32_t more = *capacity ? 2 * *capacity : 8;
    uint32_t *grown = realloc(*numbers, more * sizeof *grown);
    if (!grown)
      return false;
    *numbers = grown;
    *capacity = more;
  }
  (*numbers)[(*count)++] = number;
  return true;
}

bool rondo_agreement_group_is_known(const struct rondo_agreement_group *g, uint32_t process) {
  for (uint32_t i = 0; i < g->known_count; i++)
    if (g->known[i] == process)
      return true;
  return false;
}

bool rondo_agreement_group_note_known(struct rondo_agreement_group *g, uint32_t process) {
  return rondo_agreement_group_is_known(g, process) ||
         numbers_add(&g->known, &g->known_count, &g->known_capacity, process);
}

// --------------------------------------------------------------------- tree ---

static bool has_left(const struct rondo_agreement_group *g, uint32_t place) {
  return g->has_left && g->has_left[place];
}

bool rondo_agreement_group_has_left(const struct rondo_agreement_group *g, uint32_t process) {
  uint32_t place = rondo_member_list_place(g->list, process);
  return place != RONDO_NO_PLACE && has_left(g, place);
}

bool rondo_agreement_group_note_left(struct rondo_agreement_group *g, uint32_t place) {
  if (!g->has_left)
    g->has_left = calloc(g->list->process_count, 1);
  if (g->has_left)
    g->has_left[place] = 1;
  return g->has_left != NULL;
}

static uint32_t place_above(uint32_t place) { return (place - 1) / RONDO_AGREEMENT_FANOUT; }

// The nearest ancestor that has not left, or RONDO_NO_PLACE.
static uint32_t place_find_ancestor(const struct rondo_agreement_group *g, uint32_t place) {
  while (place) {
    place = place_above(place);
    if (!has_left(g, place))
      return place;
  }
  return RONDO_NO_PLACE;
}

// The lowest place that has not left.
static uint32_t group_root(const struct rondo_agreement_group *g) {
  uint32_t place = 0;
  while (has_left(g, place))
    place++;
  return place;
}

uint32_t rondo_agreement_group_parent(const struct rondo_agreement_group *g) {
  uint32_t ancestor = place_find_ancestor(g, g->place);
  uint32_t root = group_root(g);
  if (ancestor != RONDO_NO_PLACE)
    return ancestor;
  return root == g->place ? RONDO_NO_PLACE : root; // all above have left
}

// Visits the highest places below `place` that have not left.
static void places_below(const struct rondo_agreement_group *g, uint32_t place,
                         void (*visit)(uint32_t place, void *arg), void *arg) {
  for (uint32_t i = 0; i < RONDO_AGREEMENT_FANOUT; i++) {
    uint64_t below = (uint64_t)place * RONDO_AGREEMENT_FANOUT + 1 + i;
    if (below >= g->list->process_count)
      return;
    if (!has_left(g, (uint32_t)below))
      visit((uint32_t)below, arg);
    else if (!RONDO_FAULT(ORPHANS_FORGOTTEN))
      places_below(g, (uint32_t)below, visit, arg);
  }
}

void rondo_agreement_group_children(const struct rondo_agreement_group *g,
                                    void (*visit)(uint32_t place, void *arg), void *arg) {
  places_below(g, g->place, visit, arg);
  if (g->place && has_left(g, 0) && group_root(g) == g->place)
    places_below(g, 0, visit, arg); // this process too: the caller leaves it out
}

// --------------------------------------------------------------------- gone ---

static uint32_t gone_place(const struct rondo_agreement *a, uint32_t rank) {
  uint32_t low = 0;
  for (uint32_t high = a->gone_count; low < high;) {
    uint32_t middle = low + (high - low) / 2;
    if (a->gone[middle].rank < rank)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool rondo_agreement_is_gone(const struct rondo_agreement *a, uint32_t rank) {
  uint32_t at = gone_place(a, rank);
  return at < a->gone_count && a->gone[at].rank == rank;
}

static bool gone_reserve(struct rondo_agreement *a, uint32_t count) {
  if (a->gone_capacity - a->gone_count >= count)
    return true;
  uint32_t capacity = 2 * a->gone_count + count;
  struct rondo_agreement_gone *grown = realloc(a->gone, capacity * sizeof *grown);
  if (!grown)
    return false;
  a->gone = grown;
  a->gone_capacity = capacity;
  return true;
}

bool rondo_agreement_note_gone(struct rondo_agreement *a, const uint32_t *ranks, uint32_t count,
                               bool is_lost) {
  if (!gone_reserve(a, count))
    return false;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = gone_place(a, ranks[i]);
    if (at < a->gone_count && a->gone[at].rank == ranks[i])
      continue;
    memmove(a->gone + at + 1, a->gone + at, (a->gone_count - at) * sizeof *a->gone);
    a->gone[at] = (struct rondo_agreement_gone){ranks[i], is_lost};
    a->gone_count++;
    struct rondo_agreement_group *g;
    LIST_FOREACH (g, &a->group_list, listed)
      if (rondo_member_list_has(g->list, ranks[i]))
        rondo_agreement_group_note_gone(g, ranks[i], is_lost);
  }
  return true;
}

// ------------------------------------------------------------- member lists ---

static struct rondo_agreement_partial *partial_find(const struct rondo_agreement *a, uint32_t from,
                                                    uint64_t group) {
  struct rondo_agreement_partial *p = a->partials;
  while (p && (p->from != from || p->group != group))
    p = p->next;
  return p;
}

static struct rondo_agreement_partial *partial_make(struct rondo_agreement *a, uint32_t from,
                                                    const struct rondo_message_members *m) {
  struct rondo_agreement_partial *p = calloc(1, sizeof *p + m->nranks * sizeof *p->members);
  if (!p)
    return NULL;
  p->from = from;
  p->group = m->group;
  p->nranks = m->nranks;
  p->next = a->partials;
  a->partials = p;
  return p;
}

static void partial_end(struct rondo_agreement *a, struct rondo_agreement_partial *p) {
  RONDO_LIST_REMOVE(a->partials, p, next);
  free(p);
}

void rondo_agreement_partials_free(struct rondo_agreement *a, uint32_t from) {
  struct rondo_agreement_partial *next = NULL;
  for (struct rondo_agreement_partial *p = a->partials; p; p = next) {
    next = p->next;
    if (from == RONDO_NO_PLACE || p->from == from)
      partial_end(a, p);
  }
}

// Makes the group of a list that is whole.
static int partial_finish(struct rondo_agreement *a, const struct rondo_agreement_partial *p) {
  if (!rondo_members_are_distinct(p->members, p->nranks))
    return RONDO_ERR_INVALID;
  const struct rondo_member_list *list = rondo_member_lists_get(a->lists, p->members, p->nranks);
  struct rondo_agreement_group *g = list ? rondo_agreement_group_get(a, list) : NULL;
  if (!g)
    return RONDO_ERR_NO_MEMORY;
  if (list->digest != p->group || g->place == RONDO_NO_PLACE)
    return RONDO_ERR_INVALID;
  return rondo_agreement_group_note_known(g, p->from) ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

int rondo_agreement_receive_members(struct rondo_agreement *a, uint32_t from, const void *bytes,
                                    size_t size) {
  struct rondo_message_members m;
  const struct rondo_member_range *ranges;
  if (!rondo_message_members_decode(bytes, size, a->lists->rank_count, &m, &ranges))
    return RONDO_ERR_INVALID;
  struct rondo_agreement_partial *p = partial_find(a, from, m.group);
  if (!p && m.at == 0)
    p = partial_make(a, from, &m);
  else if (!p)
    return RONDO_ERR_INVALID;
  if (!p)
    return RONDO_ERR_NO_MEMORY;
  int status = RONDO_SUCCESS;
  if (p->nranks != m.nranks || p->filled != m.at ||
      !rondo_member_ranges_expand(ranges, m.range_count, a->lists->rank_count, p->members,
                                  p->nranks, &p->filled))
    status = RONDO_ERR_INVALID;
  else if (p->filled < p->nranks)
    return RONDO_SUCCESS;
  else
    status = partial_finish(a, p);
  partial_end(a, p);
  return status;
}
