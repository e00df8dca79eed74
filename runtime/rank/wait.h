// Waiting for runs, asking for them, and callbacks attached later.
#ifndef RONDO_RUNTIME_RANK_WAIT_H
#define RONDO_RUNTIME_RANK_WAIT_H

#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

// A run that somebody waits for or asks about.
struct rondo_awaited {
  struct rondo_rank *rank;
  struct rondo_coll *coll;
  uint64_t run;
  uint32_t generation;
  int is_posted; // it has ended, and its completion stays in the CQ
};

// Finds what to wait for; RONDO_LAST_RUN is resolved. `call` names the caller in the log. Returns
// RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
int rondo_awaited_find(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                       const char *call, struct rondo_awaited *a);
// Waits for the run, at most `timeout_ns`; 0: takes a bounded number of steps. Returns the status of the
// run, or RONDO_IN_PROGRESS.
int rondo_awaited_wait(struct rondo_awaited *a, int64_t timeout_ns);

// Works for the rank's daemon as rondo_test does, a bounded number of steps, if runs are outstanding. Not
// with the rank's lock.
void rondo_rank_poll(const struct rondo_rank *rank);

// Attaches a callback to a run, as rondo_notify. If the collective was deregistered, all its runs
// succeeded.
int rondo_rank_notify(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                      rondo_callback callback, void *arg);

#endif // RONDO_RUNTIME_RANK_WAIT_H
