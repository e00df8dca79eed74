#include "runtime/order/comm_detach.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/journal_place.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/submit.h"

_Static_assert(sizeof(struct rondo_detachment) == 40, "sent between processes");

// A detachment in the list of its end, or of the job.
struct kept_detachment {
  struct rondo_bounded_node link;
  struct rondo_detachment is;
};

// ---------------------------------------------------------------- delivering ---

static const struct rondo_detachment *detachment_of(const struct rondo_bounded_node *l) {
  return &((const struct kept_detachment *)l)->is;
}

static bool end_knows_detached(const struct rondo_comm_end *end, uint32_t rank) {
  for (struct rondo_bounded_node *l = end->detached; l; l = l->next)
    if (detachment_of(l)->rank == rank)
      return true;
  return false;
}

static bool detachment_is_for(const struct rondo_detachment *d, const struct rondo_comm_end *end) {
  return d->key == end->key && d->to == end->rank->cfg.rank && rondo_comm_has_member(end, d->rank);
}

// Gives an end a detachment. Calls made before have not been compared with it.
static void end_add_detachment(struct rondo_comm_end *end, struct rondo_bounded_node *link) {
  link->next = end->detached;
  end->detached = link;
  rondo_store_release_u32(&end->detached_count, end->detached_count + 1);
  rondo_store_relaxed_u32(&end->rank->extension_pending, 1);
  rondo_submission_notify(end->rank, 1);
}

// Gives the detachment to its end, sends it to the process of that end, or keeps it.
static void detachment_deliver(struct rondo_job *job, const struct rondo_detachment *d) {
  uint32_t process = rondo_processes_where(job, d->to);
  if (!job->members[d->to] && process < job->process_count) {
    rondo_processes_send(job, process, RONDO_MESSAGE_COMM_DETACHED, d, sizeof *d);
    return;
  }
  struct kept_detachment *kept = malloc(sizeof *kept);
  if (!kept) {
    rondo_log(RONDO_LOG_ERROR, "comm_destroy: no memory to tell rank %u", d->to);
    return;
  }
  kept->is = *d;
  struct rondo_comm_end *end = rondo_comm_find(job, d->to, d->key);
  if (end && detachment_is_for(d, end))
    end_add_detachment(end, &kept->link);
  else
    rondo_bounded_list_add(&rondo_comms_of(job)->detachments, &kept->link,
                           RONDO_MAX_KEPT_DETACHMENTS);
}

// ------------------------------------------------- detaching and attaching ---

// An end of a rank of this process that has detached, in the list of the job. The rank has made no
// call of a pair with members that it has not told.
struct detached_end {
  struct rondo_bounded_node link;
  struct rondo_detachment is;
  uint32_t position;
  uint32_t told_count;
  uint32_t told[]; // positions
};

static uint64_t series_calls(const struct rondo_series *s) { return s ? s->writer.called : 0; }

// True if the member at `position` has called the pair of it and this rank, and its journal has
// come.
static bool end_has_pair_journal(const struct rondo_comm_end *end, uint32_t position) {
  struct rondo_job *job = end->rank->job;
  const uint32_t rank = end->members[position];
  const struct rondo_journal_name to = {end->key, end->position, position, rank, 0};
  const struct rondo_journal_name from = {end->key, position, end->position, rank, 0};
  return rondo_journal_find(job, &to) || rondo_journal_find(job, &from);
}

static bool end_must_tell(const struct rondo_comm_end *end, uint32_t position) {
  uint32_t n = end->nranks;
  return (end->position + 1) % n == position || (position + 1) % n == end->position ||
         end->series[1 + position] || end->series[1 + n + position] ||
         end_has_pair_journal(end, position);
}

void rondo_comm_detach(struct rondo_comm_end *end) {
  struct rondo_job *job = end->rank->job;
  struct detached_end *detached = malloc(sizeof *detached + end->nranks * sizeof *detached->told);
  struct rondo_detachment d = {.key = end->key, .rank = end->rank->cfg.rank};
  uint32_t told_count = 0;
  d.collective = series_calls(end->series[0]);
  for (uint32_t i = 0; i < end->nranks; i++) {
    if (i == end->position || !end_must_tell(end, i))
      continue;
    d.to = end->members[i];
    d.sent = series_calls(end->series[1 + i]);
    d.received = series_calls(end->series[1 + end->nranks + i]);
    if (!end_knows_detached(end, d.to))
      detachment_deliver(job, &d);
    if (detached)
      detached->told[told_count++] = i;
  }
  if (!detached) {
    rondo_log(RONDO_LOG_ERROR, "comm_destroy: no memory to answer later calls of pairs");
    return;
  }
  struct detached_end *fitting =
      realloc(detached, sizeof *detached + told_count * sizeof *detached->told);
  detached = fitting ? fitting : detached;
  d.sent = d.received = 0;
  detached->is = d;
  detached->position = end->position;
  detached->told_count = told_count;
  rondo_bounded_list_add(&rondo_comms_of(job)->detached_ends, &detached->link,
                         RONDO_MAX_KEPT_DETACHMENTS);
}

static bool detached_has_told(const struct detached_end *detached, uint32_t position) {
  for (uint32_t i = 0; i < detached->told_count; i++)
    if (detached->told[i] == position)
      return true;
  return false;
}

void rondo_detachments_answer(struct rondo_job *job, const struct rondo_journal_name *name) {
  if (name->from == RONDO_SERIES_COLLECTIVE)
    return;
  for (struct rondo_bounded_node *l = rondo_comms_of(job)->detached_ends.first; l; l = l->next) {
    const struct detached_end *detached = (const struct detached_end *)l;
    struct rondo_detachment d = detached->is;
    bool is_from = name->from == detached->position;
    d.to = name->rank;
    if (d.key == name->key && d.rank != d.to && (is_from || name->to == detached->position) &&
        !detached_has_told(detached, is_from ? name->to : name->from))
      detachment_deliver(job, &d);
  }
}

void rondo_comm_attach(struct rondo_comm_end *end) {
  struct rondo_bounded_list *all = &rondo_comms_of(end->rank->job)->detachments;
  for (struct rondo_bounded_node **at = &all->first; *at;) {
    if (detachment_is_for(detachment_of(*at), end))
      end_add_detachment(end, rondo_bounded_list_remove(all, at));
    else
      at = &(*at)->next;
  }
}

void rondo_comm_free_detachments(struct rondo_comm_end *end) {
  while (end->detached) {
    struct rondo_bounded_node *l = end->detached;
    end->detached = l->next;
    free(l);
  }
}

const struct rondo_detachment *rondo_comm_find_detached(const struct rondo_comm_end *end,
                                                        const struct rondo_series *series,
                                                        uint64_t *made) {
  bool is_pair = series->from != RONDO_SERIES_COLLECTIVE;
  bool is_send = series->from == end->position;
  uint32_t other = is_pair ? end->members[is_send ? series->to : series->from] : 0;
  for (struct rondo_bounded_node *l = end->detached; l; l = l->next) {
    const struct rondo_detachment *d = detachment_of(l);
    if (is_pair && d->rank != other)
      continue;
    *made = !is_pair ? d->collective : is_send ? d->received : d->sent;
    if (series->writer.called > *made)
      return d;
  }
  return NULL;
}

// ---------------------------------------------------------- other processes ---

void rondo_detachments_announce(struct rondo_job *job) {
  for (struct rondo_bounded_node **at = &rondo_comms_of(job)->detachments.first; *at;) {
    const struct rondo_detachment *d = detachment_of(*at);
    uint32_t process = rondo_processes_where(job, d->to);
    if (job->members[d->to] || process >= job->process_count) {
      at = &(*at)->next;
      continue;
    }
    rondo_processes_send(job, process, RONDO_MESSAGE_COMM_DETACHED, d, sizeof *d);
    free(rondo_bounded_list_remove(&rondo_comms_of(job)->detachments, at));
  }
}

int rondo_detachments_receive(struct rondo_job *job, const struct rondo_mesh_message *message) {
  struct rondo_detachment n;
  if (message->size != sizeof n)
    return 0;
  memcpy(&n, message->bytes, sizeof n);
  if (n.to >= job->rank_count || !rondo_processes_is_rank_at(job, n.rank, message->from))
    return 0;
  if (rondo_processes_where(job, n.to) >= job->process_count) // `to` is in this process
    detachment_deliver(job, &n);
  return 1;
}
