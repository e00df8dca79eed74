#include "runtime/job/match_entry.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/api/rank.h"

// ---------------------------------------------------------------- match_entries ---

static void entry_free(void *node) {
  struct rondo_match_entry *m = node;
  while (m->comms) {
    struct rondo_communicator *comm = m->comms;
    m->comms = comm->next;
    rondo_communicator_destroy(comm);
  }
  free(m->histories);
  free(m);
}

static int entry_compare(const void *a, const void *b) {
  const struct rondo_match_entry *x = a;
  const struct rondo_match_entry *y = b;
  if (x->space != y->space)
    return x->space < y->space ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

struct rondo_match_entry *rondo_match_entry_find(struct rondo_job *job, uint32_t space,
                                                 uint64_t id) {
  struct rondo_match_entry key = {.space = space, .id = id};
  struct rondo_match_entry **found = tfind(&key, &job->match_entries, entry_compare);
  return found ? *found : NULL;
}

struct rondo_match_entry *rondo_match_entry_get(struct rondo_job *job, uint32_t space,
                                                uint64_t id) {
  struct rondo_match_entry *m = rondo_match_entry_find(job, space, id);
  if (m)
    return m;
  m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->space = space;
  m->id = id;
  if (!tsearch(m, &job->match_entries, entry_compare)) {
    free(m);
    return NULL;
  }
  return m;
}

struct rondo_match_history *rondo_match_history_find(const struct rondo_match_entry *m,
                                                     uint32_t rank) {
  for (uint32_t i = 0; i < m->history_count; i++)
    if (m->histories[i].rank == rank)
      return &m->histories[i];
  return NULL;
}

struct rondo_match_history *rondo_match_history_get(struct rondo_match_entry *m, uint32_t rank) {
  struct rondo_match_history *e = rondo_match_history_find(m, rank);
  if (e)
    return e;
  if (m->history_count == m->history_capacity) {
    uint32_t capacity = m->history_capacity ? 2 * m->history_capacity : 8;
    struct rondo_match_history *grown = realloc(m->histories, capacity * sizeof *grown);
    if (!grown)
      return NULL;
    m->histories = grown;
    m->history_capacity = capacity;
  }
  e = &m->histories[m->history_count++];
  *e = (struct rondo_match_history){.rank = rank};
  return e;
}

void rondo_match_entry_drop_if_even(struct rondo_job *job, struct rondo_match_entry *m,
                                    const struct rondo_registration *last) {
  if (m->registrations || m->comms || m->history_count != last->nranks)
    return;
  for (uint32_t i = 0; i < last->nranks; i++) {
    const struct rondo_match_history *e = rondo_match_history_find(m, last->members[i]);
    if (!e || e->times != m->histories[0].times)
      return;
    // Other processes count too, and would not forget at the same moment.
    if (job->mesh && !job->members[last->members[i]] && !RONDO_FAULT(EVEN_FORGOTTEN))
      return;
  }
  tdelete(m, &job->match_entries, entry_compare);
  entry_free(m);
}

void rondo_match_entry_drop_if_over(struct rondo_job *job, struct rondo_match_entry *m) {
  if (m->space != RONDO_SPACE_COMM || m->registrations || m->comms || m->history_count != m->nranks)
    return;
  for (uint32_t i = 0; i < m->history_count; i++)
    if (m->histories[i].times != 1)
      return;
  tdelete(m, &job->match_entries, entry_compare);
  entry_free(m);
}

// Parties that are here belong to their ranks, which have left; the others are freed before.
void rondo_match_entries_free(struct rondo_job *job) {
  tdestroy(job->match_entries, entry_free);
  job->match_entries = NULL;
}

// ----------------------------------------------------------------- registrations ---

struct rondo_registration *rondo_match_entry_party(const struct rondo_match_entry *m, uint32_t rank,
                                                   uint64_t generation) {
  for (struct rondo_registration *p = m->registrations; p; p = p->next)
    if (p->rank == rank && p->generation == generation)
      return p;
  return NULL;
}

void rondo_match_entry_enter(struct rondo_match_entry *m, struct rondo_registration *registration) {
  m->nranks = registration->nranks;
  registration->next = m->registrations;
  m->registrations = registration;
}

void rondo_match_entry_take(struct rondo_match_entry *m,
                            const struct rondo_registration *registration) {
  struct rondo_registration **at = &m->registrations;
  while (*at && *at != registration)
    at = &(*at)->next;
  if (*at)
    *at = registration->next;
}

static int has_member(const struct rondo_registration *p, uint32_t rank) {
  for (uint32_t i = 0; i < p->nranks; i++)
    if (p->members[i] == rank)
      return 1;
  return 0;
}

// Whether what two members of an all-to-all-v send to each other is what the other receives.
static int exchange_agrees(const struct rondo_registration *a, const struct rondo_registration *b) {
  const struct rondo_collective_desc *x = a->desc;
  const struct rondo_collective_desc *y = b->desc;
  if (!x->send_counts || !y->send_counts || a->position == b->position)
    return 1;
  return x->send_counts[b->position] == y->recv_counts[a->position] &&
         y->send_counts[a->position] == x->recv_counts[b->position];
}

const char *rondo_registration_difference(const struct rondo_registration *a,
                                          const struct rondo_registration *b) {
  if (a->desc->kind != b->desc->kind)
    return "kind";
  if (a->desc->count != b->desc->count)
    return "count";
  if (a->desc->dtype != b->desc->dtype)
    return "type";
  if (a->desc->redop != b->desc->redop)
    return "reduction";
  if (a->desc->root != b->desc->root)
    return "root";
  if (a->nranks != b->nranks || memcmp(a->members, b->members, a->nranks * sizeof *a->members) != 0)
    return "group";
  if (a->desc->kind == RONDO_ALL_TO_ALL_V && !exchange_agrees(a, b))
    return "counts for each other";
  if (a->shape.blocks != b->shape.blocks || a->shape.chunk_elems != b->shape.chunk_elems ||
      a->shape.slot_count != b->shape.slot_count ||
      a->shape.first_sequence != b->shape.first_sequence)
    return "daemon blocks or slot size";
  return NULL;
}

// `other` is whom it is compared with.
static void describe(const struct rondo_registration *p, const struct rondo_registration *other,
                     char *text, size_t bytes) {
  const struct rondo_collective_desc *d = p->desc;
  if (d->kind == RONDO_SEND_RECV) {
    (void)snprintf(text, bytes, "rank %u: send_recv of %llu × %s from rank %u to rank %u", p->rank,
                   (unsigned long long)d->count, rondo_dtype_name(d->dtype), p->members[0],
                   p->members[p->nranks - 1]);
    return;
  }
  if (d->kind == RONDO_ALL_TO_ALL_V && d->send_counts && other->position < p->nranks) {
    (void)snprintf(text, bytes,
                   "rank %u: all_to_all_v of %s, %llu to rank %u, %llu from it, %u ranks", p->rank,
                   rondo_dtype_name(d->dtype), (unsigned long long)d->send_counts[other->position],
                   other->rank, (unsigned long long)d->recv_counts[other->position], p->nranks);
    return;
  }
  (void)snprintf(text, bytes, "rank %u: %s of %llu × %s, %s, root %u, %u ranks from rank %u",
                 p->rank, rondo_kind_name(d->kind), (unsigned long long)d->count,
                 rondo_dtype_name(d->dtype), rondo_redop_name(d->redop), d->root, p->nranks,
                 p->members[0]);
}

void rondo_registration_report_mismatch(const struct rondo_registration *a,
                                        const struct rondo_registration *b, const char *what,
                                        char *text) {
  char left[224];
  char right[224];
  describe(a, b, left, sizeof left);
  describe(b, a, right, sizeof right);
  (void)snprintf(text, RONDO_REASON_BYTES, "mismatch of id %llu in its %s: %s; %s",
                 (unsigned long long)a->desc->id, what, left, right);
  rondo_log(RONDO_LOG_ERROR, "%s", text);
}

int rondo_registration_meets(const struct rondo_registration *a,
                             const struct rondo_registration *b) {
  return a->generation == b->generation && (has_member(a, b->rank) || has_member(b, a->rank));
}
