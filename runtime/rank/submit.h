// Submitting runs.
#ifndef RONDO_RUNTIME_RANK_SUBMIT_H
#define RONDO_RUNTIME_RANK_SUBMIT_H

#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

// A run as it is asked for.
struct rondo_submission {
  struct rondo_run_args args;
  struct rondo_tie tie;
};

// Submits a run; `run` (may be null) gets its number. As rondo_run_numbered.
int rondo_rank_run(struct rondo_rank *rank, struct rondo_collective handle,
                   const struct rondo_submission *s, uint64_t *run);

// Refuses a run for its buffers, or because the daemon is lost.
int rondo_submission_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_submission *s);

// In two steps, both with the rank's lock held; it may be let go in between. The first checks the run and
// sets aside what it needs, in `record`; after that the second cannot fail.
int rondo_submission_prepare(struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record **record);
void rondo_submission_commit(struct rondo_rank *rank, struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record *record);
// Then, without the lock: tells the daemon. `urgent`: no thread is going to wait for the run.
void rondo_submission_notify(const struct rondo_rank *rank, int urgent);

// A run record, or null when there is no memory. The rank's lock is held.
struct rondo_run_record *rondo_run_record_take(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_SUBMIT_H
