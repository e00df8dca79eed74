#include "runtime/order/failure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/match.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/latest.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"

struct notice {
  uint64_t key;
  uint32_t rank; // of the sender
  int32_t status;
  char why[RONDO_REASON_BYTES];
};

// Member `rank` of communicator `key` has failed.
struct rondo_failure {
  struct rondo_latest link;
  uint64_t key;
  uint32_t rank;
  int status;
  char why[RONDO_REASON_BYTES];
};

static const struct rondo_failure *failure_of(const struct rondo_latest *l) {
  return (const struct rondo_failure *)l;
}

static struct rondo_comm_end *find_end(struct rondo_rank *rank, uint64_t key) {
  pthread_mutex_lock(&rank->comms_lock);
  struct rondo_comm_end *end = rank->comms;
  while (end && end->key != key)
    end = end->next;
  pthread_mutex_unlock(&rank->comms_lock);
  return end; // it does not go without the lock of the job
}

static int has_member(const struct rondo_comm_end *end, uint32_t rank) {
  for (uint32_t i = 0; i < end->nranks; i++)
    if (end->members[i] == rank)
      return 1;
  return 0;
}

static void mark_one(struct rondo_job *job, struct rondo_comm_end *end, int status,
                     const char *why) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return;
  (void)snprintf(end->owner.why, sizeof end->owner.why, "%s", why);
  rondo_store_release_u32(&end->owner.failed, (uint32_t)status);
  end->next_failing = rondo_comms_of(job)->failing;
  rondo_comms_of(job)->failing = end;
}

// For members here that have not made their ends yet. Every process of the communicator says the same.
static void keep(struct rondo_job *job, const struct notice *n) {
  for (struct rondo_latest *l = rondo_comms_of(job)->failures.first; l; l = l->next)
    if (failure_of(l)->key == n->key && strcmp(failure_of(l)->why, n->why) == 0)
      return;
  struct rondo_failure *fresh = malloc(sizeof *fresh);
  if (!fresh)
    return; // who comes later learns the status from the calls of the others, and less of the reason
  *fresh = (struct rondo_failure){.key = n->key, .rank = n->rank, .status = n->status};
  memcpy(fresh->why, n->why, sizeof fresh->why);
  rondo_latest_keep(&rondo_comms_of(job)->failures, &fresh->link, RONDO_MOST_FAILURES);
}

void rondo_comm_inherit_failure(struct rondo_comm_end *end) {
  struct rondo_job *job = end->rank->job;
  const struct rondo_failure *oldest = NULL;
  for (struct rondo_latest *l = rondo_comms_of(job)->failures.first; l; l = l->next)
    if (failure_of(l)->key == end->key && has_member(end, failure_of(l)->rank))
      oldest = failure_of(l);
  if (!oldest || RONDO_FAULT(COMM_FAILS_ALONE))
    return;
  mark_one(job, end, oldest->status, oldest->why);
  rondo_comms_broadcast_failures(job);
}

// The next end here, from rank `*at` on, of the communicator that `rank` and `key` name; or null.
static struct rondo_comm_end *next_end(const struct rondo_job *job, uint64_t key, uint32_t rank,
                                       uint32_t *at) {
  while (*at < job->rank_count) {
    struct rondo_rank *here = rondo_rank_of(job->members[(*at)++]);
    struct rondo_comm_end *end = here ? find_end(here, key) : NULL;
    if (end && has_member(end, rank))
      return end;
  }
  return NULL;
}

static struct notice notice_of(const struct rondo_comm_end *end) {
  struct notice n = {.key = end->key, .rank = end->rank->cfg.rank};
  n.status = (int32_t)rondo_load_relaxed_u32(&end->owner.failed);
  memcpy(n.why, end->owner.why, sizeof n.why);
  return n;
}

// Tells the other processes of the communicator.
static void tell(struct rondo_job *job, const struct rondo_comm_end *end) {
  const struct notice n = notice_of(end);
  if (job->mesh)
    rondo_processes_send_all(job, end->members, end->nranks, RONDO_MESSAGE_COMM_FAILED, &n,
                             sizeof n);
}

void rondo_failures_announce(struct rondo_job *job) {
  for (uint32_t r = 0; r < job->rank_count; r++) {
    struct rondo_rank *rank = rondo_rank_of(job->members[r]);
    if (!rank)
      continue;
    pthread_mutex_lock(&rank->comms_lock);
    for (const struct rondo_comm_end *end = rank->comms; end; end = end->next)
      if (rondo_load_relaxed_u32(&end->owner.failed))
        tell(job, end);
    pthread_mutex_unlock(&rank->comms_lock);
  }
}

int rondo_comm_mark_failed(struct rondo_job *job, struct rondo_comm_end *end, int status,
                           const char *why) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return 0;
  mark_one(job, end, status, why);
  if (RONDO_FAULT(COMM_FAILS_ALONE))
    return 1;
  uint32_t at = 0;
  struct rondo_comm_end *other;
  while ((other = next_end(job, end->key, end->rank->cfg.rank, &at)))
    mark_one(job, other, status, why);
  const struct notice n = notice_of(end);
  keep(job, &n);
  tell(job, end);
  return 1;
}

void rondo_comm_receive_failure(struct rondo_job *job, struct rondo_comm_end *end,
                                const struct rondo_communicator *comm) {
  char why[RONDO_REASON_BYTES];
  uint32_t state = rondo_load_relaxed_u32(&comm->gate.state);
  if (state < RONDO_GATE_FAILED || rondo_load_relaxed_u32(&end->owner.failed))
    return;
  rondo_communicator_reason(comm, why, sizeof why);
  (void)rondo_comm_mark_failed(job, end, (int)(state - RONDO_GATE_FAILED), why);
}

void rondo_comms_broadcast_failures(struct rondo_job *job) {
  if (rondo_comms_of(job)->is_failing)
    return; // whoever has called us does it
  rondo_comms_of(job)->is_failing = 1;
  while (rondo_comms_of(job)->failing) {
    struct rondo_comm_end *end = rondo_comms_of(job)->failing;
    rondo_comms_of(job)->failing = end->next_failing;
    for (struct rondo_registration *p = end->owner.registrations;
         p && !RONDO_FAULT(COMM_FAILS_ALONE); p = p->next_owned)
      if (rondo_load_relaxed_u32(&p->comm->gate.state) < RONDO_GATE_FAILED)
        rondo_job_fail(job, p, (int)rondo_load_relaxed_u32(&end->owner.failed));
  }
  rondo_comms_of(job)->is_failing = 0;
}

int rondo_failures_receive(struct rondo_job *job, uint32_t process, const void *bytes,
                           size_t size) {
  struct notice n;
  if (size != sizeof n)
    return 0;
  memcpy(&n, bytes, sizeof n);
  if (n.rank >= job->rank_count || rondo_processes_where(job, n.rank) != process ||
      n.status <= RONDO_SUCCESS || n.status >= RONDO_IN_PROGRESS ||
      !memchr(n.why, '\0', sizeof n.why))
    return 0;
  // Whoever hears of it says so before its collectives fail: the reason goes ahead of what it explains.
  uint32_t at = 0;
  struct rondo_comm_end *end;
  while ((end = next_end(job, n.key, n.rank, &at)))
    (void)rondo_comm_mark_failed(job, end, n.status, n.why);
  keep(job, &n);
  rondo_comms_broadcast_failures(job);
  return 1;
}
