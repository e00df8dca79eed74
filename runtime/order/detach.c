#include "runtime/order/detach.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/rank/rank.h"

struct notice {
  uint64_t key;
  uint32_t rank, to;
  uint64_t collective, sent, received;
};
_Static_assert(sizeof(struct notice) == 40, "sent between processes");

// ---------------------------------------------------------------- delivering ---

static struct rondo_detachment *departure_of(struct rondo_latest *l) {
  return (struct rondo_detachment *)l;
}

static int has_left(const struct rondo_comm_end *end, uint32_t rank) {
  for (struct rondo_latest *l = end->left; l; l = l->next)
    if (departure_of(l)->rank == rank)
      return 1;
  return 0;
}

static int is_for(const struct rondo_detachment *d, const struct rondo_comm_end *end) {
  int has_rank = 0;
  for (uint32_t i = 0; i < end->nranks; i++)
    has_rank |= end->members[i] == d->rank;
  return has_rank && d->key == end->key && d->to == end->rank->cfg.rank;
}

static void give(struct rondo_comm_end *end, struct rondo_detachment *d) {
  d->link.next = end->left;
  end->left = &d->link;
  rondo_store_release_u32(&end->left_count, end->left_count + 1);
  // What was called before it came nobody has compared with it.
  rondo_store_relaxed_u32(&end->rank->extension_pending, 1);
  if (!end->rank->is_manual)
    end->rank->daemon->driver->notify_submission(end->rank->daemon, 1);
}

// The end that it is for, in this process; or null.
static struct rondo_comm_end *find_end(const struct rondo_job *job,
                                       const struct rondo_detachment *d) {
  struct rondo_rank *rank = rondo_rank_of(job->members[d->to]);
  struct rondo_comm_end *end = NULL;
  if (!rank)
    return NULL;
  pthread_mutex_lock(&rank->comms_lock);
  for (end = rank->comms; end && !is_for(d, end);)
    end = end->next;
  pthread_mutex_unlock(&rank->comms_lock);
  return end; // it does not go without the lock of the job
}

static void send_to(struct rondo_job *job, uint32_t process, const struct rondo_detachment *d) {
  struct notice n = {d->key, d->rank, d->to, d->collective, d->sent, d->received};
  rondo_processes_send(job, process, RONDO_MESSAGE_COMM_DETACHED, &n, sizeof n);
}

static void deliver(struct rondo_job *job, const struct rondo_detachment *like) {
  uint32_t process = rondo_processes_where(job, like->to);
  if (!job->members[like->to] && process < job->process_count) {
    send_to(job, process, like);
    return;
  }
  struct rondo_detachment *d = malloc(sizeof *d);
  if (!d) {
    rondo_log(RONDO_LOG_ERROR, "comm_destroy: no memory to tell rank %u of it", like->to);
    return;
  }
  *d = *like;
  struct rondo_comm_end *end = find_end(job, d);
  if (end)
    give(end, d);
  else
    rondo_latest_keep(&rondo_comms_of(job)->detachments, &d->link, RONDO_MOST_DETACHMENTS);
}

// ----------------------------------------------------------------- an end ---

static uint64_t calls_of(const struct rondo_series *s) { return s ? s->track.called : 0; }

void rondo_comm_detach(struct rondo_comm_end *end) {
  struct rondo_detachment d = {.key = end->key, .rank = end->rank->cfg.rank};
  d.collective = calls_of(&end->collective);
  for (uint32_t i = 0; i < end->nranks; i++) {
    d.to = end->members[i];
    d.sent = calls_of(end->sends[i]);
    d.received = calls_of(end->recvs[i]);
    if (i != end->position && !has_left(end, d.to))
      deliver(end->rank->job, &d);
  }
}

void rondo_comm_attach(struct rondo_comm_end *end) {
  struct rondo_latest_list *all = &rondo_comms_of(end->rank->job)->detachments;
  for (struct rondo_latest **at = &all->first; *at;) {
    if (is_for(departure_of(*at), end))
      give(end, departure_of(rondo_latest_take(all, at)));
    else
      at = &(*at)->next;
  }
}

void rondo_comm_forget_detached(struct rondo_comm_end *end) {
  while (end->left) {
    struct rondo_latest *l = end->left;
    end->left = l->next;
    free(l);
  }
}

const struct rondo_detachment *rondo_comm_find_detached(const struct rondo_comm_end *end,
                                                        const struct rondo_series *series,
                                                        uint64_t *made) {
  int is_pair = series->from != RONDO_SERIES_COLLECTIVE;
  int is_send = series->from == end->position;
  uint32_t other = is_pair ? end->members[is_send ? series->to : series->from] : 0;
  for (struct rondo_latest *l = end->left; l; l = l->next) {
    const struct rondo_detachment *d = departure_of(l);
    if (is_pair && d->rank != other)
      continue;
    *made = !is_pair ? d->collective : is_send ? d->received : d->sent;
    if (series->track.called > *made)
      return d;
  }
  return NULL;
}

// ---------------------------------------------------------- other processes ---

void rondo_detachments_announce(struct rondo_job *job) {
  for (struct rondo_latest **at = &rondo_comms_of(job)->detachments.first; *at;) {
    const struct rondo_detachment *d = departure_of(*at);
    uint32_t process = rondo_processes_where(job, d->to);
    if (job->members[d->to] || process >= job->process_count) {
      at = &(*at)->next;
      continue;
    }
    send_to(job, process, d);
    free(rondo_latest_take(&rondo_comms_of(job)->detachments, at));
  }
}

int rondo_detachments_receive(struct rondo_job *job, uint32_t process, const void *bytes,
                              size_t size) {
  struct notice n;
  if (size != sizeof n)
    return 0;
  memcpy(&n, bytes, sizeof n);
  if (n.rank >= job->rank_count || n.to >= job->rank_count ||
      rondo_processes_where(job, n.rank) != process)
    return 0;
  const struct rondo_detachment d = {{NULL}, n.key, n.rank, n.to, n.collective, n.sent, n.received};
  if (rondo_processes_where(job, n.to) >= job->process_count) // else it is for another process
    deliver(job, &d);
  return 1;
}
