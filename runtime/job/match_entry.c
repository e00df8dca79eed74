#include "runtime/job/match_entry.h"

#include <search.h>
#include <stdlib.h>

#include "base/list.h"
#include "runtime/job/offers.h"
#include "runtime/transport/communicator.h"

// ----------------------------------------------------------------- entries ---

static void entry_free(void *node) {
  struct rondo_match_entry *m = node;
  while (m->comms) {
    struct rondo_communicator *comm = m->comms;
    m->comms = comm->next;
    rondo_communicator_destroy(comm);
  }
  while (m->offers) {
    struct rondo_offers *offers = m->offers;
    m->offers = offers->next;
    free(offers);
  }
  free(m->histories);
  free(m);
}

static int entry_compare(const void *a, const void *b) {
  return rondo_id_compare(((const struct rondo_match_entry *)a)->id,
                          ((const struct rondo_match_entry *)b)->id);
}

struct rondo_match_entry *rondo_match_entry_find(struct rondo_job *job, struct rondo_id id) {
  struct rondo_match_entry key = {.id = id};
  struct rondo_match_entry **found = tfind(&key, &job->entries, entry_compare);
  return found ? *found : NULL;
}

struct rondo_match_entry *rondo_match_entry_get(struct rondo_job *job, struct rondo_id id) {
  struct rondo_match_entry *m = rondo_match_entry_find(job, id);
  if (m)
    return m;
  m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->id = id;
  if (!tsearch(m, &job->entries, entry_compare)) {
    free(m);
    return NULL;
  }
  LIST_INSERT_HEAD(&job->entry_list, m, listed);
  return m;
}

struct visit {
  struct rondo_job *job;
  void (*call)(struct rondo_job *job, struct rondo_match_entry *m);
};

static void entry_visit(const void *node, VISIT order, void *arg) {
  const struct visit *v = arg;
  if (order == postorder || order == leaf)
    v->call(v->job, *(struct rondo_match_entry *const *)node);
}

void rondo_match_entries_visit(struct rondo_job *job,
                               void (*visit)(struct rondo_job *job, struct rondo_match_entry *m)) {
  struct visit v = {job, visit};
  twalk_r(job->entries, entry_visit, &v);
}

void rondo_match_entries_free(struct rondo_job *job) {
  tdestroy(job->entries, entry_free);
  job->entries = NULL;
  LIST_INIT(&job->entry_list);
}

static void entry_drop(struct rondo_job *job, struct rondo_match_entry *m) {
  LIST_REMOVE(m, listed);
  tdelete(m, &job->entries, entry_compare);
  entry_free(m);
}

void rondo_match_entry_drop_if_even(struct rondo_job *job, struct rondo_match_entry *m,
                                    const struct rondo_registration *last) {
  if (m->registrations || m->comms || m->history_count != last->nranks)
    return;
  for (uint32_t i = 0; i < last->nranks; i++) {
    const struct rondo_match_history *h = rondo_match_history_find(m, last->members[i]);
    if (!h || h->times != m->histories[0].times)
      return;
  }
  entry_drop(job, m);
}

void rondo_match_entry_drop_if_over(struct rondo_job *job, struct rondo_match_entry *m) {
  if (job->agreeing && !m->registrations && !m->comms && !m->offers)
    entry_drop(job, m);
}

// --------------------------------------------------------------- histories ---

struct rondo_match_history *rondo_match_history_find(const struct rondo_match_entry *m,
                                                     uint32_t rank) {
  for (uint32_t i = 0; i < m->history_count; i++)
    if (m->histories[i].rank == rank)
      return &m->histories[i];
  return NULL;
}

struct rondo_match_history *rondo_match_history_get(struct rondo_match_entry *m, uint32_t rank) {
  struct rondo_match_history *h = rondo_match_history_find(m, rank);
  if (h)
    return h;
  if (m->history_count == m->history_capacity) {
    uint32_t capacity = m->history_capacity ? 2 * m->history_capacity : 8;
    struct rondo_match_history *grown = realloc(m->histories, capacity * sizeof *grown);
    if (!grown)
      return NULL;
    m->histories = grown;
    m->history_capacity = capacity;
  }
  h = &m->histories[m->history_count++];
  *h = (struct rondo_match_history){.rank = rank};
  return h;
}

// ----------------------------------------------------------- registrations ---

struct rondo_registration *rondo_match_entry_registration(const struct rondo_match_entry *m,
                                                          uint32_t rank, uint64_t generation) {
  for (struct rondo_registration *r = m->registrations; r; r = r->next)
    if (r->rank == rank && r->generation == generation)
      return r;
  return NULL;
}

void rondo_match_entry_add(struct rondo_match_entry *m, struct rondo_registration *registration) {
  registration->next = m->registrations;
  registration->link = &m->registrations;
  if (registration->next)
    registration->next->link = &registration->next;
  m->registrations = registration;
}

void rondo_match_entry_remove(const struct rondo_registration *registration) {
  *registration->link = registration->next;
  if (registration->next)
    registration->next->link = registration->link;
}
