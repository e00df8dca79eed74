#include "runtime/rank/vote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/condition.h"
#include "base/digest.h"
#include "base/log.h"
#include "runtime/job/match.h"
#include "runtime/rank/allocation.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

#define ABORT_BOUND_NS INT64_C(10000000000) // as of rondo_destroy

// --------------------------------------------------------------------- voters ---

static bool ranks_have(const uint32_t *ranks, uint32_t count, uint32_t rank) {
  for (uint32_t i = 0; i < count; i++)
    if (ranks[i] == rank)
      return true;
  return false;
}

// True if the end of a rank changes who votes. The job's lock is held, here and below.
static bool voters_miss(const struct rondo_job *job, const struct rondo_voters *voters,
                        uint32_t rank) {
  bool is_kept = voters->has_lost && job->gone && job->gone[rank] == RONDO_RANK_LOST;
  return rondo_job_is_gone(job, rank) && !is_kept &&
         !ranks_have(voters->excluded, voters->excluded_count, rank);
}

static uint64_t voters_view(const struct rondo_job *job, const struct rondo_voters *voters) {
  uint64_t view = UINT64_C(0x766f7465); // a number that names this use
  for (uint32_t r = 0; r < job->rank_count; r++)
    if (voters_miss(job, voters, r))
      view = rondo_digest_bytes(view, &r, sizeof r);
  return view;
}

static int excluded_check(const struct rondo_rank *rank, const uint32_t *excluded, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (excluded[i] >= rank->cfg.rank_count || excluded[i] == rank->cfg.rank)
      return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "shrink: rank %u of a job of %u cannot exclude %u",
                              rank->cfg.rank, rank->cfg.rank_count, excluded[i]);
  return RONDO_SUCCESS;
}

// Lists the voters, whose other fields are set. Returns RONDO_SUCCESS or RONDO_ERR_PEER.
static int voters_fill(const struct rondo_rank *rank, struct rondo_voters *voters) {
  struct rondo_job *job = rank->job;
  const struct rondo_voters others = {0}; // misses all that are gone
  pthread_mutex_lock(&job->lock);
  bool is_lost = job->is_cut_off || (job->membership && job->roster == RONDO_ROSTER_FAILED);
  for (uint32_t r = 0; r < job->rank_count; r++) {
    if (voters_miss(job, voters, r) || ranks_have(voters->excluded, voters->excluded_count, r))
      continue;
    if (r == rank->cfg.rank)
      voters->self = voters->count;
    voters->ranks[voters->count++] = r;
  }
  voters->lost = voters_view(job, &others);
  voters->view = voters_view(job, voters);
  pthread_mutex_unlock(&job->lock);
  if (is_lost)
    rondo_voters_free(voters);
  return is_lost ? RONDO_ERR_PEER : RONDO_SUCCESS;
}

int rondo_voters_list(const struct rondo_rank *rank, const uint32_t *excluded, uint32_t count,
                      struct rondo_voters *voters) {
  uint32_t ranks = rank->job->rank_count;
  int status = excluded_check(rank, excluded, count);
  if (status != RONDO_SUCCESS)
    return status;
  *voters = (struct rondo_voters){.ranks = malloc(((size_t)ranks + count) * sizeof(uint32_t)),
                                  .excluded_count = count};
  if (!voters->ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "rank %u: no memory to list %u ranks",
                            rank->cfg.rank, ranks);
  voters->excluded = voters->ranks + ranks;
  if (count)
    memcpy(voters->excluded, excluded, count * sizeof *excluded);
  return voters_fill(rank, voters);
}

int rondo_voters_list_with_lost(const struct rondo_rank *rank, struct rondo_voters *voters) {
  uint32_t ranks = rank->job->rank_count;
  *voters = (struct rondo_voters){.ranks = malloc(ranks * sizeof(uint32_t)), .has_lost = true};
  if (!voters->ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "rank %u: no memory to list %u ranks",
                            rank->cfg.rank, ranks);
  return voters_fill(rank, voters);
}

void rondo_voters_free(struct rondo_voters *voters) {
  free(voters->ranks);
  *voters = (struct rondo_voters){0};
}

bool rondo_voters_await_change(struct rondo_rank *rank, const struct rondo_voters *voters,
                               uint64_t end_ns) {
  struct rondo_job *job = rank->job;
  pthread_mutex_lock(&job->lock);
  bool has_changed = voters_view(job, voters) != voters->view;
  bool is_over = rondo_now_ns() >= end_ns;
  while (!has_changed && !is_over && !job->is_cut_off && !rondo_load_seq_cst_u32(&rank->closing)) {
    is_over = rondo_condition_wait(&job->attendance, &job->lock, end_ns) != 0;
    has_changed = voters_view(job, voters) != voters->view;
  }
  pthread_mutex_unlock(&job->lock);
  return has_changed;
}

// ----------------------------------------------------------------------- a vote ---

int rondo_vote_register(struct rondo_rank *rank, const struct rondo_voters *voters,
                        struct rondo_vote *vote) {
  struct rondo_collective_desc desc = rondo_all_gather(0, RONDO_BALLOT_BYTES, RONDO_UINT8);
  const struct rondo_register_request request = {
      .desc = &desc, .id = {.number = voters->view, .space = RONDO_SPACE_VOTE}};
  *vote = (struct rondo_vote){.rank = rank, .count = voters->count};
  int status = rondo_group_make(rank, voters->ranks, voters->count, &vote->group);
  desc.group = vote->group;
  return status == RONDO_SUCCESS ? rondo_rank_register(rank, &request, &vote->coll) : status;
}

int rondo_vote_begin(struct rondo_rank *rank, const struct rondo_voters *voters,
                     const uint8_t *ballot, struct rondo_vote *vote) {
  void *memory = NULL;
  size_t bytes = (size_t)RONDO_BALLOT_BYTES * (voters->count + 1);
  int status = rondo_vote_register(rank, voters, vote);
  if (status == RONDO_SUCCESS)
    status = rondo_rank_alloc(rank, bytes, &memory);
  vote->memory = memory;
  if (status == RONDO_SUCCESS)
    status = rondo_rank_copy(rank, memory, ballot, RONDO_BALLOT_BYTES);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_submission s = {
      {vote->memory, vote->memory + RONDO_BALLOT_BYTES, NULL, NULL}, {NULL, 0}, false, NULL};
  return rondo_rank_run(rank, vote->coll, &s, NULL);
}

int rondo_vote_await(const struct rondo_vote *vote, uint8_t *ballots, int64_t timeout_ns,
                     char *why) {
  int status = rondo_rank_wait(vote->rank, vote->coll, RONDO_LAST_RUN, "grow", timeout_ns);
  *why = '\0';
  if (status == RONDO_SUCCESS)
    return rondo_rank_copy(vote->rank, ballots, vote->memory + RONDO_BALLOT_BYTES,
                           (size_t)RONDO_BALLOT_BYTES * vote->count);
  (void)rondo_coll_get_reason(vote->rank, vote->coll, why, RONDO_REASON_BYTES);
  return status;
}

void rondo_vote_fail(const struct rondo_vote *vote, const char *why) {
  struct rondo_rank *rank = vote->rank;
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  struct rondo_coll *coll = rondo_coll_find(rank, vote->coll);
  if (coll)
    rondo_job_fail_because(rank->job, &coll->registration, RONDO_ERR_ABORTED, why);
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  rondo_submission_notify(rank, 1);
}

static void vote_abort(const struct rondo_vote *vote) {
  char why[RONDO_REASON_BYTES];
  (void)snprintf(why, sizeof why, "rank %u has given up waiting", vote->rank->cfg.rank);
  rondo_vote_fail(vote, why);
  (void)rondo_rank_wait(vote->rank, vote->coll, RONDO_LAST_RUN, "grow", ABORT_BOUND_NS);
}

void rondo_vote_end(struct rondo_vote *vote) {
  int status = RONDO_SUCCESS;
  if (vote->coll.handle) {
    if (rondo_rank_test(vote->rank, vote->coll, RONDO_LAST_RUN, "grow") == RONDO_IN_PROGRESS)
      vote_abort(vote);
    status = rondo_rank_deregister(vote->rank, vote->coll, 1);
  }
  if (vote->group.handle)
    (void)rondo_group_forget(vote->rank, vote->group);
  // Ballots that a run still uses stay until the context is destroyed.
  if (vote->memory && status == RONDO_SUCCESS)
    (void)rondo_rank_free(vote->rank, vote->memory);
  *vote = (struct rondo_vote){0};
}
