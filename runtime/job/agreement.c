#include "runtime/job/agreement.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/explore.h"
#include "runtime/job/agreement_state.h"

void rondo_agreement_init(struct rondo_agreement *a, struct rondo_member_lists *lists) {
  *a = (struct rondo_agreement){.lists = lists};
  LIST_INIT(&a->group_list);
}

void rondo_agreement_fini(struct rondo_agreement *a) {
  rondo_agreement_partials_free(a, RONDO_NO_PLACE);
  rondo_agreement_ids_free(a);
  rondo_agreement_groups_free(a);
  free(a->gone);
}

uint64_t rondo_agreement_times(const struct rondo_agreement *a, struct rondo_id id, uint32_t rank) {
  return rondo_agreement_id_times(rondo_agreement_id_find(a, id), rank);
}

// ------------------------------------------------------------------ walking ---

// Calls `visit` for each entry of a group. It may drop that entry.
static void group_visit(struct rondo_agreement *a, struct rondo_agreement_group *g,
                        void (*visit)(struct rondo_agreement *a, struct rondo_agreement_entry *e)) {
  struct rondo_agreement_entry *next = NULL;
  for (struct rondo_agreement_entry *e = LIST_FIRST(&g->entries); e; e = next) {
    next = LIST_NEXT(e, in_group);
    visit(a, e);
  }
}

static void entry_renew(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  (void)rondo_agreement_entry_find_edges(a, e); // sets is_starved
  rondo_agreement_entry_publish(a, e);
}

// Forgets what ranks have registered without a plan: they have deregistered since, or have no plan.
// The other members would wait for them.
static void entries_drop_unplanned(const struct rondo_agreement *a) {
  struct rondo_agreement_group *g;
  struct rondo_agreement_entry *e;
  LIST_FOREACH (g, &a->group_list, listed)
    LIST_FOREACH (e, &g->entries, in_group) {
      const struct rondo_agreement_failure failure = {RONDO_ERR_PEER, e->rank, UINT32_MAX, ""};
      if (e->rank == UINT32_MAX || rondo_descriptor_is_planned(&e->descriptor))
        continue;
      e->rank = UINT32_MAX;
      rondo_agreement_entry_fail(e, &failure);
    }
}

static int step_located(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_group *g;
  if (!rondo_member_lists_locate(a->lists, event->process_of))
    return RONDO_ERR_NO_MEMORY;
  a->self = event->process;
  a->is_located = true;
  entries_drop_unplanned(a);
  LIST_FOREACH (g, &a->group_list, listed) {
    if (!rondo_agreement_group_locate(a, g))
      return RONDO_ERR_NO_MEMORY;
    group_visit(a, g, entry_renew);
  }
  return RONDO_SUCCESS;
}

static int step_retry(struct rondo_agreement *a) {
  struct rondo_agreement_group *g;
  a->is_starved = false;
  LIST_FOREACH (g, &a->group_list, listed)
    group_visit(a, g, entry_renew);
  return RONDO_SUCCESS;
}

// --------------------------------------------------------------- mismatches ---

// One side of a mismatch.
struct side {
  struct rondo_agreement_entry *entry;
  uint32_t rank;
  const struct rondo_descriptor *descriptor;
};

// Fails the entries of both sides, with a text that names both.
static void sides_fail(const struct side *a, const struct side *b) {
  char text[RONDO_REASON_BYTES];
  char left[224];
  char right[224];
  const char *what = rondo_descriptor_difference(a->descriptor, b->descriptor);
  rondo_descriptor_describe(a->descriptor, a->rank, what, left, sizeof left);
  rondo_descriptor_describe(b->descriptor, b->rank, what, right, sizeof right);
  rondo_mismatch_describe(a->entry->id->id.number, what ? what : "group", left, right, text);
  struct rondo_agreement_failure failure = {RONDO_ERR_MISMATCH, b->rank, a->rank, text};
  rondo_agreement_entry_fail(a->entry, &failure);
  failure.culprit = a->rank;
  failure.other = b->rank;
  rondo_agreement_entry_fail(b->entry, &failure);
}

// Takes what a rank has registered. If another rank of the group has registered something else, the
// entry fails.
static void entry_propose(struct rondo_agreement_entry *e, uint32_t rank,
                          const struct rondo_descriptor *descriptor) {
  if (e->rank == UINT32_MAX) {
    e->rank = rank;
    e->descriptor = *descriptor;
    return;
  }
  if (!rondo_descriptor_difference(&e->descriptor, descriptor) || RONDO_FAULT(MISMATCH_UNSEEN))
    return;
  const struct side known = {e, e->rank, &e->descriptor};
  const struct side fresh = {e, rank, descriptor};
  sides_fail(&known, &fresh);
}

// Two groups may not have one id, in the same generation, if a registered rank of one is a member
// of the other. `ours` has a rank here that has registered.
static void entries_compare(struct rondo_agreement_entry *ours,
                            struct rondo_agreement_entry *theirs) {
  if (theirs->rank == UINT32_MAX || (ours->status && theirs->status))
    return;
  for (uint32_t i = 0; i < ours->local_count; i++) {
    if (!rondo_member_list_has(theirs->group->list, ours->locals[i].rank))
      continue;
    const struct side a = {ours, ours->locals[i].rank, &ours->descriptor};
    const struct side b = {theirs, theirs->rank, &theirs->descriptor};
    sides_fail(&a, &b);
    return;
  }
}

// Compares an entry with those of other groups that have its id, and publishes them all.
static void entry_settle(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  struct rondo_agreement_entry *next = NULL;
  for (struct rondo_agreement_entry *f = LIST_FIRST(&e->id->entries); f; f = next) {
    next = LIST_NEXT(f, in_id);
    if (f == e || f->generation != e->generation || RONDO_FAULT(GROUPS_UNCOMPARED))
      continue;
    entries_compare(e, f);
    entries_compare(f, e);
    if (f->status) // it has failed now, or no rank here can register it any more
      rondo_agreement_entry_publish(a, f); // may drop f, and not the id, which has e
  }
  rondo_agreement_entry_publish(a, e);
}

static void entry_fail_gone(struct rondo_agreement_entry *e) {
  const struct rondo_agreement_failure failure = {RONDO_ERR_PEER, e->group->gone_rank, UINT32_MAX,
                                                  ""};
  if (!e->status)
    e->is_silent = e->group->is_lost;
  rondo_agreement_entry_fail(e, &failure);
}

static bool entry_has_local(const struct rondo_agreement_entry *e, uint32_t rank) {
  for (uint32_t i = 0; i < e->local_count; i++)
    if (e->locals[i].rank == rank)
      return true;
  return false;
}

// A member here that has registered this generation of the id with another group, or
// RONDO_NO_PLACE. Sets `all` if no member here can register it any more.
static uint32_t rank_past(const struct rondo_agreement_id *id,
                          const struct rondo_agreement_group *g, uint64_t generation, bool *all) {
  uint32_t found = RONDO_NO_PLACE;
  uint32_t count = 0;
  for (uint32_t i = 0; id && i < id->times_count; i++) {
    if (id->times[i].times < generation || !rondo_member_list_has(g->list, id->times[i].rank))
      continue;
    found = id->times[i].rank;
    count++;
  }
  *all = count == g->local_count;
  return found;
}

// True if a rank here has registered this generation of the id, and its entry exists.
static bool rank_has_entry(const struct rondo_agreement_id *id, uint32_t rank,
                           uint64_t generation) {
  const struct rondo_agreement_entry *e = NULL;
  LIST_FOREACH (e, &id->entries, in_id)
    if (e->generation == generation && entry_has_local(e, rank))
      return true;
  return false;
}

// The failure of an entry that rank `past` here can never register, because it has registered this
// generation of the id with another group and ended that. `text` has RONDO_REASON_BYTES.
static struct rondo_agreement_failure failure_past(uint64_t id, uint32_t past, char *text) {
  char left[64];
  (void)snprintf(left, sizeof left, "rank %u has registered it", past);
  rondo_mismatch_describe(id, "group", left, "with others, and deregistered it", text);
  return (struct rondo_agreement_failure){RONDO_ERR_MISMATCH, past, UINT32_MAX, text};
}

// Fails a new entry that a member here can never register.
static void entry_fail_past(struct rondo_agreement_entry *e) {
  bool all = false;
  char text[RONDO_REASON_BYTES];
  uint32_t past = rank_past(e->id, e->group, e->generation, &all);
  const struct rondo_agreement_failure failure = failure_past(e->id->id.number, past, text);
  if (past != RONDO_NO_PLACE && !rank_has_entry(e->id, past, e->generation))
    rondo_agreement_entry_fail(e, &failure);
}

// -------------------------------------------------------------- events here ---

// Makes room for one more registration. Returns false without memory.
static bool registration_reserve(struct rondo_agreement_id *id, struct rondo_agreement_entry *e,
                                 uint32_t rank) {
  struct rondo_agreement_local *locals = realloc(e->locals, (e->local_count + 1) * sizeof *locals);
  if (!locals)
    return false;
  e->locals = locals;
  for (uint32_t i = 0; i < id->times_count; i++)
    if (id->times[i].rank == rank)
      return true;
  struct rondo_agreement_times *times = realloc(id->times, (id->times_count + 1) * sizeof *times);
  if (!times)
    return false;
  id->times = times;
  id->times[id->times_count++] = (struct rondo_agreement_times){.rank = rank};
  return true;
}

static void registration_add(struct rondo_agreement_id *id, struct rondo_agreement_entry *e,
                             uint32_t rank) {
  for (uint32_t i = 0; i < id->times_count; i++)
    if (id->times[i].rank == rank)
      id->times[i].times = e->generation;
  e->locals[e->local_count++] = (struct rondo_agreement_local){.rank = rank};
  e->told_here = 0; // the newcomer has been told nothing
  e->told_here_limit = UINT64_MAX;
}

// Finds or makes an entry of an id. Null without memory; an id without entries is forgotten then.
static struct rondo_agreement_entry *entry_get(struct rondo_agreement *a,
                                               struct rondo_agreement_id *id, uint64_t generation,
                                               struct rondo_agreement_group *g) {
  struct rondo_agreement_entry *e = rondo_agreement_entry_find(id, generation, g);
  if (!e)
    e = rondo_agreement_entry_make(a, id, generation, g);
  if (!e)
    rondo_agreement_id_drop_if_over(a, id);
  return e;
}

static int step_register(struct rondo_agreement *a, struct rondo_agreement_event *event) {
  const struct rondo_member_list *list =
      rondo_member_lists_get(a->lists, event->members, event->nranks);
  struct rondo_agreement_group *g = list ? rondo_agreement_group_get(a, list) : NULL;
  struct rondo_agreement_id *id = g ? rondo_agreement_id_get(a, event->key.id) : NULL;
  if (!id)
    return RONDO_ERR_NO_MEMORY;
  uint64_t generation = rondo_agreement_id_times(id, event->rank) + 1;
  struct rondo_agreement_entry *e = entry_get(a, id, generation, g);
  // An entry without registrations does no harm: the next attempt takes it.
  if (!e || !registration_reserve(id, e, event->rank))
    return RONDO_ERR_NO_MEMORY;
  event->key.generation = generation;
  event->key.group = list->digest;
  if (g->gone_rank != UINT32_MAX && !RONDO_FAULT(GONE_UNNOTICED))
    entry_fail_gone(e);
  if (!e->local_count)
    entry_fail_past(e);
  registration_add(id, e, event->rank);
  if (!a->is_located || rondo_descriptor_is_planned(&event->descriptor))
    entry_propose(e, event->rank, &event->descriptor);
  entry_settle(a, e);
  return RONDO_SUCCESS;
}

static struct rondo_agreement_entry *key_find(const struct rondo_agreement *a,
                                              const struct rondo_agreement_key *key) {
  const struct rondo_agreement_id *id = rondo_agreement_id_find(a, key->id);
  const struct rondo_agreement_group *g = rondo_agreement_group_find(a, key->group);
  return id && g ? rondo_agreement_entry_find(id, key->generation, g) : NULL;
}

static int step_planned(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_entry *e = key_find(a, &event->key);
  if (!e || e->status)
    return RONDO_SUCCESS;
  if (!rondo_descriptor_is_planned(&e->descriptor))
    e->rank = UINT32_MAX;
  entry_propose(e, event->rank, &event->descriptor);
  if (e->status)
    rondo_agreement_entry_publish(a, e);
  return RONDO_SUCCESS;
}

static int step_deregister(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_entry *e = key_find(a, &event->key);
  for (uint32_t i = 0; e && i < e->local_count; i++) {
    if (e->locals[i].rank != event->rank || e->locals[i].has_ended)
      continue;
    e->locals[i].has_ended = 1;
    e->ended_count++;
    rondo_agreement_entry_limit(e, event->completed, event->rank);
    rondo_agreement_entry_publish(a, e);
    return RONDO_SUCCESS;
  }
  return RONDO_SUCCESS;
}

// Finds or makes the entry for the failure of a communicator. Null if a member is lost, which all
// processes hear of. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
static int failure_entry_get(struct rondo_agreement *a, const struct rondo_agreement_event *event,
                             struct rondo_agreement_entry **e) {
  const struct rondo_member_list *list =
      rondo_member_lists_get(a->lists, event->members, event->nranks);
  struct rondo_agreement_group *g = list ? rondo_agreement_group_get(a, list) : NULL;
  *e = NULL;
  if (!g)
    return RONDO_ERR_NO_MEMORY;
  if (g->is_lost)
    return RONDO_SUCCESS;
  struct rondo_agreement_id *id = rondo_agreement_id_get(a, event->key.id);
  *e = id ? entry_get(a, id, 1, g) : NULL;
  return *e ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

static int step_fail(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_entry *e = NULL;
  int status = RONDO_SUCCESS;
  if (event->key.id.space == RONDO_SPACE_KEY)
    status = failure_entry_get(a, event, &e);
  else
    e = key_find(a, &event->key);
  if (!e || e->status)
    return status;
  rondo_agreement_entry_fail(e, &event->failure);
  if (rondo_agreement_entry_is_failure(e))
    e->told_here |= RONDO_ENTRY_FAILED; // the caller knows
  rondo_agreement_entry_publish(a, e);
  return RONDO_SUCCESS;
}

static int step_leave(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_group *g;
  if (!rondo_agreement_note_gone(a, &event->rank, 1, false))
    return RONDO_ERR_NO_MEMORY;
  LIST_FOREACH (g, &a->group_list, listed) {
    if (!rondo_member_list_has(g->list, event->rank))
      continue;
    struct rondo_agreement_entry *next = NULL;
    for (struct rondo_agreement_entry *e = LIST_FIRST(&g->entries); e; e = next) {
      next = LIST_NEXT(e, in_group);
      const struct rondo_agreement_failure failure = {RONDO_ERR_PEER, event->rank, UINT32_MAX, ""};
      if (!entry_has_local(e, event->rank) && !RONDO_FAULT(LEAVES_SILENTLY))
        rondo_agreement_entry_fail(e, &failure);
      rondo_agreement_entry_publish(a, e);
    }
  }
  return RONDO_SUCCESS;
}

// --------------------------------------------------------- events elsewhere ---

static bool group_has_any(const struct rondo_agreement_group *g, const uint32_t *ranks,
                          uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (rondo_member_list_has(g->list, ranks[i]))
      return true;
  return false;
}

// A process that leaves before the group has agreed cannot have run anything, and no run can
// succeed without it. Its neighbours tell the others. If it has left because the entry had failed,
// they heard of the failure first.
static void entry_leave(struct rondo_agreement *a, struct rondo_agreement_entry *e, uint32_t rank,
                        uint32_t process) {
  const struct rondo_agreement_edge *edge = rondo_agreement_entry_edge(e, process);
  bool was_neighbour = edge && edge->role != RONDO_ROLE_NONE;
  const struct rondo_agreement_failure failure = {RONDO_ERR_PEER, rank, UINT32_MAX, ""};
  if (was_neighbour)
    (void)rondo_agreement_entry_find_edges(a, e);
  if (!e->is_agreed && was_neighbour && !RONDO_FAULT(LEFT_UNNOTICED))
    rondo_agreement_entry_fail(e, &failure);
  rondo_agreement_entry_publish(a, e);
}

static int step_left(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_group *g;
  if (!rondo_agreement_note_gone(a, event->ranks, event->rank_count, false))
    return RONDO_ERR_NO_MEMORY;
  if (event->process == RONDO_NO_PLACE)
    return RONDO_SUCCESS; // the process goes on
  rondo_agreement_partials_free(a, event->process);
  LIST_FOREACH (g, &a->group_list, listed) {
    uint32_t place = rondo_member_list_place(g->list, event->process);
    if (place == RONDO_NO_PLACE)
      continue;
    if (!rondo_agreement_group_note_left(g, place))
      return RONDO_ERR_NO_MEMORY;
    struct rondo_agreement_entry *next = NULL;
    for (struct rondo_agreement_entry *e = LIST_FIRST(&g->entries); e; e = next) {
      next = LIST_NEXT(e, in_group);
      entry_leave(a, e, g->gone_rank, event->process);
    }
  }
  return RONDO_SUCCESS;
}

static void entry_lose(struct rondo_agreement *a, struct rondo_agreement_entry *e) {
  entry_fail_gone(e);
  rondo_agreement_entry_publish(a, e);
}

// A process that is lost has been a part of the tree of all its groups, also of those whose members
// there have left before.
static int step_lost(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_agreement_group *g;
  if (RONDO_FAULT(LOSS_UNTOLD))
    return step_left(a, event);
  if (!rondo_agreement_note_gone(a, event->ranks, event->rank_count, true))
    return RONDO_ERR_NO_MEMORY;
  if (event->process != RONDO_NO_PLACE)
    rondo_agreement_partials_free(a, event->process);
  LIST_FOREACH (g, &a->group_list, listed) {
    bool is_part = event->process != RONDO_NO_PLACE && a->is_located &&
                   rondo_member_list_place(g->list, event->process) != RONDO_NO_PLACE;
    if (is_part && !g->is_lost)
      rondo_agreement_group_note_gone(g, event->ranks[0], true);
    if (is_part || (g->is_lost && group_has_any(g, event->ranks, event->rank_count)))
      group_visit(a, g, entry_lose);
  }
  return RONDO_SUCCESS;
}

// ---------------------------------------------------------------- receiving ---

// The group of a message that has the member list.
static int group_expand(struct rondo_agreement *a, const struct rondo_entry_message *m,
                        struct rondo_agreement_group **g) {
  uint32_t nranks = 0;
  for (uint32_t i = 0; i < m->head.range_count; i++) {
    if (m->ranges[i].count > a->lists->rank_count - nranks)
      return RONDO_ERR_INVALID;
    nranks += m->ranges[i].count;
  }
  uint32_t *members = malloc((nranks + 1) * sizeof *members);
  uint32_t filled = 0;
  int status = members ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
  if (members && (!rondo_member_ranges_expand(m->ranges, m->head.range_count, a->lists->rank_count,
                                              members, nranks, &filled) ||
                  !rondo_members_are_distinct(members, nranks)))
    status = RONDO_ERR_INVALID;
  const struct rondo_member_list *list =
      status == RONDO_SUCCESS ? rondo_member_lists_get(a->lists, members, nranks) : NULL;
  free(members);
  if (status == RONDO_SUCCESS && !list)
    return RONDO_ERR_NO_MEMORY;
  if (status != RONDO_SUCCESS || list->digest != m->head.key.group)
    return RONDO_ERR_INVALID;
  *g = rondo_agreement_group_get(a, list);
  return *g ? RONDO_SUCCESS : RONDO_ERR_NO_MEMORY;
}

// Finds the group of a message and checks the message against it.
static int message_find_group(struct rondo_agreement *a, uint32_t from,
                              const struct rondo_entry_message *m,
                              struct rondo_agreement_group **g) {
  const struct rondo_message_entry *h = &m->head;
  int status = RONDO_SUCCESS;
  if (h->range_count)
    status = group_expand(a, m, g);
  else
    *g = rondo_agreement_group_find(a, h->key.group);
  if (status != RONDO_SUCCESS)
    return status;
  if (!*g || (*g)->place == RONDO_NO_PLACE || from == a->self ||
      rondo_member_list_place((*g)->list, from) == RONDO_NO_PLACE)
    return RONDO_ERR_INVALID;
  const struct rondo_member_list *list = (*g)->list;
  const struct rondo_descriptor *d = &h->descriptor;
  if (h->facts & RONDO_ENTRY_PROPOSED &&
      (d->nranks != list->nranks || d->first_rank != list->members[0] ||
       d->last_rank != list->members[list->nranks - 1] || !rondo_member_list_has(list, h->rank)))
    return RONDO_ERR_INVALID;
  if (h->limit_culprit != UINT32_MAX && !rondo_member_list_has(list, h->limit_culprit))
    return RONDO_ERR_INVALID;
  return RONDO_SUCCESS;
}

// Takes a message about an entry that is not here: answers it if the entry has ended here or cannot
// be, else makes the entry.
static int entry_meet(struct rondo_agreement *a, uint32_t from, const struct rondo_message_entry *h,
                      struct rondo_agreement_group *g, struct rondo_agreement_entry **e) {
  struct rondo_agreement_id *id = rondo_agreement_id_find(a, h->key.id);
  bool all = false;
  uint32_t past = rank_past(id, g, h->key.generation, &all);
  bool is_live = past != RONDO_NO_PLACE && rank_has_entry(id, past, h->key.generation);
  char text[RONDO_REASON_BYTES];
  struct rondo_agreement_failure failure = failure_past(h->key.id.number, past, text);
  // A communicator can fail after members have left it.
  bool is_gone = h->key.id.space == RONDO_SPACE_KEY ? g->is_lost : g->gone_rank != UINT32_MAX;
  if (is_gone)
    failure = (struct rondo_agreement_failure){RONDO_ERR_PEER, g->gone_rank, UINT32_MAX, ""};
  if (h->facts & (RONDO_ENTRY_DONE | RONDO_ENTRY_OVER) || is_gone || (all && !is_live)) {
    a->counters.ignored++;
    // An answer is never answered.
    if (!(h->facts & RONDO_ENTRY_OVER) && h->facts & RONDO_ENTRY_DONE)
      rondo_agreement_answer(a, from, h, NULL);
    else if (!(h->facts & RONDO_ENTRY_OVER) && !g->is_lost)
      rondo_agreement_answer(a, from, h, &failure);
    return RONDO_SUCCESS;
  }
  if (h->facts & RONDO_ENTRY_AGREED && !RONDO_FAULT(AGREED_EARLY))
    return RONDO_ERR_INVALID; // nobody has registered here
  if (!id)
    id = rondo_agreement_id_get(a, h->key.id);
  *e = id ? entry_get(a, id, h->key.generation, g) : NULL;
  if (!*e)
    return RONDO_ERR_NO_MEMORY;
  entry_fail_past(*e);
  return RONDO_SUCCESS;
}

// False if the facts are untrue for what has happened here.
static bool entry_allows(const struct rondo_agreement_entry *e, uint32_t facts) {
  if (facts & RONDO_ENTRY_FAILED)
    return true;
  bool can_agree = rondo_agreement_entry_is_complete_here(e) || RONDO_FAULT(AGREED_EARLY);
  bool can_end = e->ended_count == e->group->local_count || RONDO_FAULT(OVER_EARLY);
  return (can_agree || !(facts & RONDO_ENTRY_AGREED)) && (can_end || !(facts & RONDO_ENTRY_OVER));
}

static int step_receive_entry(struct rondo_agreement *a, uint32_t from,
                              const struct rondo_entry_message *m) {
  const struct rondo_message_entry *h = &m->head;
  struct rondo_agreement_group *g = NULL;
  int status = message_find_group(a, from, m, &g);
  if (status != RONDO_SUCCESS)
    return status;
  if (!rondo_agreement_group_note_known(g, from))
    return RONDO_ERR_NO_MEMORY;
  const struct rondo_agreement_id *id = rondo_agreement_id_find(a, h->key.id);
  struct rondo_agreement_entry *e =
      id ? rondo_agreement_entry_find(id, h->key.generation, g) : NULL;
  if (!e)
    status = entry_meet(a, from, h, g, &e);
  struct rondo_agreement_edge *edge = e ? rondo_agreement_entry_edge_get(e, from) : NULL;
  if (!e || !edge)
    return e ? RONDO_ERR_NO_MEMORY : status;
  if (!entry_allows(e, h->facts))
    return RONDO_ERR_INVALID;
  edge->heard |= (uint8_t)h->facts;
  if (h->limit < edge->heard_limit)
    edge->heard_limit = h->limit;
  if (h->facts & RONDO_ENTRY_FAILED) {
    const struct rondo_agreement_failure failure = {h->status, h->culprit, h->other, m->text};
    rondo_agreement_entry_fail(e, &failure);
  } else {
    entry_propose(e, h->rank, &h->descriptor);
    rondo_agreement_entry_limit(e, h->limit, h->limit_culprit);
    e->is_agreed = e->is_agreed || h->facts & RONDO_ENTRY_AGREED;
    e->is_over = e->is_over || h->facts & RONDO_ENTRY_OVER;
  }
  entry_settle(a, e);
  return RONDO_SUCCESS;
}

static int step_receive(struct rondo_agreement *a, const struct rondo_agreement_event *event) {
  struct rondo_entry_message m;
  a->counters.received++;
  a->counters.received_bytes += event->size;
  if (!a->is_located)
    return RONDO_ERR_INVALID;
  if (event->message_type == RONDO_MESSAGE_MEMBERS)
    return rondo_agreement_receive_members(a, event->process, event->bytes, event->size);
  if (event->message_type != RONDO_MESSAGE_ENTRY ||
      !rondo_message_entry_decode(event->bytes, event->size, a->lists->rank_count, &m))
    return RONDO_ERR_INVALID;
  return step_receive_entry(a, event->process, &m);
}

int rondo_agreement_step(struct rondo_agreement *a, struct rondo_agreement_event *event,
                         struct rondo_agreement_actions *actions) {
  static int (*const steps[])(struct rondo_agreement * a,
                              const struct rondo_agreement_event *event) = {
      [RONDO_AGREEMENT_LOCATED] = step_located, [RONDO_AGREEMENT_DEREGISTER] = step_deregister,
      [RONDO_AGREEMENT_PLANNED] = step_planned, [RONDO_AGREEMENT_FAIL] = step_fail,
      [RONDO_AGREEMENT_LEAVE] = step_leave,     [RONDO_AGREEMENT_LEFT] = step_left,
      [RONDO_AGREEMENT_LOST] = step_lost,       [RONDO_AGREEMENT_RECEIVE] = step_receive};
  a->out = actions;
  if (event->type == RONDO_AGREEMENT_REGISTER)
    return step_register(a, event);
  return event->type == RONDO_AGREEMENT_RETRY ? step_retry(a) : steps[event->type](a, event);
}
