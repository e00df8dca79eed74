#include "runtime/order/comm_detach.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
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

bool rondo_comm_has_detached(const struct rondo_comm_end *end, uint32_t rank) {
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

static uint64_t series_calls(const struct rondo_series *s) { return s ? s->writer.called : 0; }

void rondo_comm_detach(struct rondo_comm_end *end) {
  struct rondo_detachment d = {.key = end->key, .rank = end->rank->cfg.rank};
  d.collective = series_calls(end->series[0]);
  for (uint32_t i = 0; i < end->nranks; i++) {
    d.to = end->members[i];
    d.sent = series_calls(end->series[1 + i]);
    d.received = series_calls(end->series[1 + end->nranks + i]);
    if (i != end->position && !rondo_comm_has_detached(end, d.to))
      detachment_deliver(end->rank->job, &d);
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
