#include "runtime/order/comm_failure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/agreeing.h"
#include "runtime/job/match.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/bounded_list.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"

// A failure in the list of the job.
struct kept_failure {
  struct rondo_bounded_node link;
  uint64_t key;
  uint32_t rank; // a member
  int status;
  char why[RONDO_REASON_BYTES];
};

static const struct kept_failure *failure_of(const struct rondo_bounded_node *l) {
  return (const struct kept_failure *)l;
}

static void end_mark(struct rondo_job *job, struct rondo_comm_end *end, int status,
                     const char *why) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return;
  (void)snprintf(end->owner.why, sizeof end->owner.why, "%s", why);
  rondo_store_release_u32(&end->owner.failed, (uint32_t)status);
  end->next_failing = rondo_comms_of(job)->failing;
  rondo_comms_of(job)->failing = end;
}

// Keeps the failure for ends that are made later.
static void failure_keep(struct rondo_job *job, uint64_t key,
                         const struct rondo_agreement_failure *failure) {
  for (struct rondo_bounded_node *l = rondo_comms_of(job)->failures.first; l; l = l->next)
    if (failure_of(l)->key == key && strcmp(failure_of(l)->why, failure->text) == 0)
      return;
  struct kept_failure *fresh = malloc(sizeof *fresh);
  if (!fresh)
    return; // an end made later gets the status from the calls of the others, without the reason
  fresh->key = key;
  fresh->rank = failure->culprit;
  fresh->status = failure->status;
  (void)snprintf(fresh->why, sizeof fresh->why, "%s", failure->text);
  rondo_bounded_list_add(&rondo_comms_of(job)->failures, &fresh->link, RONDO_MAX_KEPT_FAILURES);
}

// The first member that is lost, or UINT32_MAX.
static uint32_t end_find_lost(const struct rondo_comm_end *end) {
  const uint8_t *gone = end->rank->job->gone; // null: all ranks are in this process
  for (uint32_t i = 0; i < end->nranks && gone; i++)
    if (gone[end->members[i]] == RONDO_RANK_LOST)
      return end->members[i];
  return UINT32_MAX;
}

// Marks an end failed if a member of it is lost.
static void end_mark_lost(struct rondo_job *job, struct rondo_comm_end *end) {
  char why[RONDO_REASON_BYTES];
  uint32_t rank = end_find_lost(end);
  if (rank == UINT32_MAX)
    return;
  rondo_reason_of_rank(rank, RONDO_ERR_PEER, why, sizeof why);
  end_mark(job, end, RONDO_ERR_PEER, why);
}

void rondo_failures_lose(struct rondo_job *job, uint32_t rank) {
  if (job->gone[rank] != RONDO_RANK_LOST || RONDO_FAULT(COMM_FAILS_ALONE))
    return;
  for (uint32_t r = 0; r < job->rank_count; r++) {
    struct rondo_rank *here = rondo_rank_of(job->members[r]);
    if (!here)
      continue;
    pthread_mutex_lock(&here->comms_lock);
    for (struct rondo_comm_end *end = here->comms; end; end = end->next)
      if (rondo_comm_has_member(end, rank))
        end_mark_lost(job, end);
    pthread_mutex_unlock(&here->comms_lock);
  }
  rondo_comms_broadcast_failures(job);
}

void rondo_comm_inherit_failure(struct rondo_comm_end *end) {
  struct rondo_job *job = end->rank->job;
  const struct kept_failure *oldest = NULL;
  for (struct rondo_bounded_node *l = rondo_comms_of(job)->failures.first; l; l = l->next)
    if (failure_of(l)->key == end->key && rondo_comm_has_member(end, failure_of(l)->rank))
      oldest = failure_of(l);
  if (RONDO_FAULT(COMM_FAILS_ALONE))
    return;
  if (oldest) // it says more than that a member is lost
    end_mark(job, end, oldest->status, oldest->why);
  else
    end_mark_lost(job, end);
  rondo_comms_broadcast_failures(job);
}

// The next end in this process, from rank `*at` on, of the communicator `key` that has `rank` as a
// member; or null.
static struct rondo_comm_end *job_next_end(const struct rondo_job *job, uint64_t key, uint32_t rank,
                                           uint32_t *at) {
  while (*at < job->rank_count) {
    struct rondo_comm_end *end = rondo_comm_find(job, (*at)++, key);
    if (end && rondo_comm_has_member(end, rank))
      return end;
  }
  return NULL;
}

void rondo_failures_receive(struct rondo_job *job, uint64_t key,
                            const struct rondo_agreement_failure *failure) {
  uint32_t at = 0;
  struct rondo_comm_end *end;
  if (RONDO_FAULT(COMM_FAILS_ALONE))
    return;
  while ((end = job_next_end(job, key, failure->culprit, &at)))
    end_mark(job, end, failure->status, failure->text);
  failure_keep(job, key, failure);
}

int rondo_comm_mark_failed(struct rondo_job *job, struct rondo_comm_end *end, int status,
                           const char *why) {
  if (rondo_load_relaxed_u32(&end->owner.failed))
    return 0;
  end_mark(job, end, status, why);
  if (RONDO_FAULT(COMM_FAILS_ALONE))
    return 1;
  const struct rondo_agreement_failure failure = {status, end->rank->cfg.rank, UINT32_MAX,
                                                  end->owner.why};
  rondo_failures_receive(job, end->key, &failure);
  rondo_agreeing_fail_key(job, end->key, end->members, end->nranks, &failure);
  return 1;
}

void rondo_comm_receive_failure(struct rondo_job *job, struct rondo_owner *owner,
                                const struct rondo_communicator *comm) {
  struct rondo_comm_end *end = rondo_comm_end_of(owner);
  char why[RONDO_REASON_BYTES];
  uint32_t state = rondo_load_relaxed_u32(&comm->gate.state);
  if (state < RONDO_GATE_FAILED || rondo_load_relaxed_u32(&end->owner.failed))
    return;
  rondo_communicator_reason(comm, why, sizeof why);
  (void)rondo_comm_mark_failed(job, end, (int)(state - RONDO_GATE_FAILED), why);
}

void rondo_comms_broadcast_failures(struct rondo_job *job) {
  if (rondo_comms_of(job)->is_failing)
    return; // a caller further up the stack does it
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
