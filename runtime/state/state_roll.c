#include "runtime/state/state_roll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/text.h"
#include "runtime/job/job.h"
#include "runtime/observe/report.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/retry.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

#define LOSS_NS UINT64_C(2000000000)        // from the error of a run to the news of the leave
#define ABORT_BOUND_NS INT64_C(10000000000) // as of rondo_destroy

// ----------------------------------------------------------------- the collective ---

static int roll_register(const struct rondo_meeting *m) {
  struct rondo_rank *rank = m->rank;
  struct rondo_state_roll *roll = &rank->state_roll;
  struct rondo_group group;
  struct rondo_collective_desc desc = rondo_all_reduce(
      0, (uint64_t)m->voters.count * RONDO_ROLL_ENTRY_BYTES, RONDO_UINT8, RONDO_MAX);
  int status = rondo_group_make(rank, m->voters.ranks, m->voters.count, &group);
  if (status != RONDO_SUCCESS)
    return status;
  desc.id = rondo_digest_bytes(roll->view, &roll->failures, sizeof roll->failures);
  desc.group = group;
  desc.on_loss = RONDO_ON_LOSS_RETRY;
  const struct rondo_register_request request = {
      .desc = &desc, .id = {.number = desc.id, .space = RONDO_SPACE_STATE}};
  status = rondo_retry_register(rank, &request, &roll->coll);
  (void)rondo_group_forget(rank, group); // the collective has its members
  if (status != RONDO_SUCCESS)
    roll->coll.handle = 0;
  return status;
}

// A job that has fewer ranks than it may have synchronises nothing, as it does no run again.
static int roll_check_size(const struct rondo_meeting *m) {
  struct rondo_job *job = m->rank->job;
  uint32_t least = m->rank->cfg.least_ranks;
  pthread_mutex_lock(&job->lock);
  uint32_t left = rondo_job_count_left(job);
  pthread_mutex_unlock(&job->lock);
  if (left >= least)
    return RONDO_SUCCESS;
  (void)snprintf(m->why, RONDO_REASON_BYTES, "the job has %u rank%s left, and least_ranks is %u",
                 left, left == 1 ? "" : "s", least);
  return RONDO_ERR_PEER;
}

// Lists the members, and takes the collective of the last call or makes its successor.
static int roll_take(struct rondo_meeting *m) {
  struct rondo_rank *rank = m->rank;
  struct rondo_state_roll *roll = &rank->state_roll;
  rondo_voters_free(&m->voters);
  int status = rondo_voters_list_with_lost(rank, &m->voters);
  if (status == RONDO_ERR_PEER)
    (void)snprintf(m->why, RONDO_REASON_BYTES, "it is no longer in its job");
  if (status == RONDO_SUCCESS)
    status = roll_check_size(m);
  if (status != RONDO_SUCCESS)
    return status;
  bool is_same = roll->view == m->voters.view;
  if (roll->coll.handle && is_same && rondo_retry_state(rank, roll->coll) == RONDO_SUCCESS)
    return RONDO_SUCCESS;
  if (roll->coll.handle) {
    // A member that still waits there has not heard of the leave yet.
    int last = roll->has_failed ? RONDO_ERR_ABORTED : RONDO_ERR_CLOSED;
    rondo_retry_fail(rank, roll->coll, last, "the others have gone on without this rank");
    (void)rondo_retry_deregister(rank, roll->coll);
    roll->failures += is_same;
    roll->coll.handle = 0;
  }
  if (!is_same)
    roll->failures = 0;
  roll->view = m->voters.view;
  return m->voters.count > 1 ? roll_register(m) : RONDO_SUCCESS;
}

// Makes sure that `why` has a reason for an error.
static int roll_explain(const struct rondo_meeting *m, int status) {
  if (status != RONDO_SUCCESS && !*m->why)
    (void)snprintf(m->why, RONDO_REASON_BYTES, "%s", rondo_status_string(status));
  return status;
}

int rondo_roll_open(struct rondo_meeting *m) {
  struct rondo_rank *rank = m->rank;
  *m->why = '\0';
  if (rondo_exchange_acq_rel_u32(&rank->state_comm.is_in_use, 1)) {
    (void)snprintf(m->why, RONDO_REASON_BYTES, "another thread synchronises rank %u",
                   rank->cfg.rank);
    return RONDO_ERR_EXISTS;
  }
  int status = roll_explain(m, roll_take(m));
  if (status == RONDO_SUCCESS)
    return status;
  rondo_meeting_name_rank(m);
  rondo_voters_free(&m->voters);
  rondo_store_release_u32(&rank->state_comm.is_in_use, 0);
  return status;
}

// ------------------------------------------------------------------------- calls ---

// Fails the collective on all members because of `why`. False if a run is left that may use its
// buffers.
static bool roll_fail(const struct rondo_meeting *m, int status) {
  struct rondo_rank *rank = m->rank;
  struct rondo_collective coll = rank->state_roll.coll;
  status = status == RONDO_ERR_TIMEOUT || status == RONDO_ERR_PEER ? RONDO_ERR_ABORTED : status;
  rondo_retry_fail(rank, coll, status, m->why);
  return rondo_rank_wait(rank, coll, RONDO_LAST_RUN, "state_sync", ABORT_BOUND_NS) !=
         RONDO_ERR_TIMEOUT;
}

// Waits for a run until `end_ns`. Clears `is_over` if the run may still use its buffers.
static int roll_wait(struct rondo_meeting *m, uint64_t run, bool *is_over) {
  struct rondo_rank *rank = m->rank;
  struct rondo_collective coll = rank->state_roll.coll;
  struct rondo_text t = {m->why, RONDO_REASON_BYTES};
  int status = rondo_rank_wait(rank, coll, run, "state_sync", rondo_meeting_left_ns(m));
  if (status == RONDO_ERR_TIMEOUT) {
    rondo_text_add(&t, "rank %u: not all members have called in time", rank->cfg.rank);
    rondo_missing_describe(rank, coll, run, &t);
    *is_over = roll_fail(m, status);
  } else if (status != RONDO_SUCCESS) {
    (void)rondo_coll_get_reason(rank, coll, m->why, RONDO_REASON_BYTES);
  }
  return status;
}

// Takes the entries of those that have taken part, who are `voters` from now on.
static int roll_read(struct rondo_meeting *m, uint64_t run, const uint8_t *all, uint8_t *of_all) {
  struct rondo_rank *rank = m->rank;
  const struct rondo_coll *front = rondo_coll_find(rank, rank->state_roll.coll);
  struct rondo_rank_list list = {m->voters.ranks, rank->job->rank_count, 0};
  int status = rondo_retry_list_members(rank, rank->state_roll.coll, run, &list);
  uint64_t id = front->desc.id;
  m->exchange_key = rondo_digest_bytes(id, &run, sizeof run);
  m->voters.count = list.count;
  for (uint32_t i = 0, at = 0; i < list.count && status == RONDO_SUCCESS; i++) {
    while (front->registration.members[at] != m->voters.ranks[i])
      at++;
    memcpy(of_all + (size_t)i * RONDO_ROLL_ENTRY_BYTES, all + (size_t)at * RONDO_ROLL_ENTRY_BYTES,
           RONDO_ROLL_ENTRY_BYTES);
    if (m->voters.ranks[i] == rank->cfg.rank)
      m->voters.self = i;
  }
  return status;
}

// One run. `why` is empty.
static int roll_run(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all) {
  struct rondo_rank *rank = m->rank;
  struct rondo_collective coll = rank->state_roll.coll;
  const struct rondo_coll *front = rondo_coll_find(rank, coll);
  uint64_t run = 0;
  bool is_over = true;
  uint8_t *all = calloc(front->registration.nranks, RONDO_ROLL_ENTRY_BYTES);
  if (!all)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t i = 0; i < front->registration.nranks; i++)
    if (front->registration.members[i] == rank->cfg.rank)
      memcpy(all + (size_t)i * RONDO_ROLL_ENTRY_BYTES, own, RONDO_ROLL_ENTRY_BYTES);
  struct rondo_submission s = {{all, all, NULL, NULL}, {NULL, 0}, false, NULL};
  int status = rondo_rank_run(rank, coll, &s, &run);
  if (status == RONDO_SUCCESS)
    status = roll_wait(m, run, &is_over);
  if (status == RONDO_SUCCESS)
    status = roll_read(m, run, all, of_all);
  if (is_over)
    free(all);
  return status;
}

// True if a run has failed because a rank has left in order: the others can do it once more.
static bool roll_is_left(const struct rondo_meeting *m, int status) {
  return (status == RONDO_ERR_PEER || status == RONDO_ERR_CLOSED) &&
         roll_check_size(m) == RONDO_SUCCESS &&
         rondo_voters_await_change(m->rank, &m->voters, rondo_now_ns() + LOSS_NS);
}

int rondo_roll_call(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all, bool is_first) {
  for (;;) {
    int status = RONDO_SUCCESS;
    *m->why = '\0';
    if (m->rank->state_roll.coll.handle)
      status = roll_run(m, own, of_all);
    else
      memcpy(of_all, own, RONDO_ROLL_ENTRY_BYTES);
    if (!is_first || !roll_is_left(m, status))
      return roll_explain(m, status);
    *m->why = '\0';
    status = roll_explain(m, roll_take(m));
    if (status != RONDO_SUCCESS)
      return status;
  }
}

bool rondo_roll_close(struct rondo_meeting *m, int status, bool is_known) {
  bool has_name = m->exchange != NULL; // `why` says already who has failed
  bool is_over = rondo_meeting_close_exchange(m, status);
  m->rank->state_roll.has_failed = status != RONDO_SUCCESS;
  if (!is_known && m->rank->state_roll.coll.handle &&
      rondo_retry_state(m->rank, m->rank->state_roll.coll) == RONDO_SUCCESS) {
    if (!has_name)
      rondo_meeting_name_rank(m);
    is_over &= roll_fail(m, status);
  }
  rondo_voters_free(&m->voters);
  rondo_store_release_u32(&m->rank->state_comm.is_in_use, 0);
  return is_over;
}
