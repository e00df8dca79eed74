// Submitting runs.
#ifndef RONDO_RUNTIME_RANK_SUBMIT_H
#define RONDO_RUNTIME_RANK_SUBMIT_H

#include <stdbool.h>

#include "runtime/rank/coll.h"

// A run as the caller asks for it.
struct rondo_submission {
  struct rondo_run_args args;
  struct rondo_tie tie;
  bool is_private; // found by rondo_run_check_reach
  // If the collective is an all-to-all-v whose runs have their own counts: those of this run; else
  // null. The record takes it when the run is committed.
  struct rondo_exchange *exchange;
};

// Submits a run; `run` (may be null) gets its number. As rondo_run_numbered.
int rondo_rank_run(struct rondo_rank *rank, struct rondo_collective handle,
                   struct rondo_submission *s, uint64_t *run);

// Refuses a run whose buffers are invalid, or whose daemon is lost. rondo_run_check_reach comes
// first, without the rank's lock.
int rondo_submission_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_submission *s);

// Submission in two steps, both with the rank's lock held; the lock may be released in between.
// `prepare` checks the run and reserves what it needs, in `record`. After that `commit` cannot
// fail. It returns how many runs have ended since. `is_inline`: it executes the first steps of the
// run before its bookkeeping, so that peers wait less (inline_run.h).
int rondo_submission_prepare(struct rondo_rank *rank, struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record **record);
uint64_t rondo_submission_commit(struct rondo_rank *rank, struct rondo_coll *coll,
                                 struct rondo_submission *s, struct rondo_run_record *record,
                                 bool is_inline);
// Undoes `prepare`.
void rondo_submission_cancel(struct rondo_rank *rank, const struct rondo_submission *s,
                             struct rondo_run_record *record);
// Adds `n` to the daemon's tied_runs if the run has a tie that is not a graph's. The rank's lock is
// held.
void rondo_tie_count(const struct rondo_rank *rank, const struct rondo_tie *tie, uint32_t n);
// Notifies the daemon of a submission. `urgent`: no thread is going to wait for the run. The rank's
// lock is not held.
void rondo_submission_notify(const struct rondo_rank *rank, int urgent);

// A run record, or null without memory. The rank's lock is held.
struct rondo_run_record *rondo_run_record_take(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_SUBMIT_H
