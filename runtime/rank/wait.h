// Waiting for runs, testing them, and attaching callbacks later.
#ifndef RONDO_RUNTIME_RANK_WAIT_H
#define RONDO_RUNTIME_RANK_WAIT_H

#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_coll;
struct rondo_rank;

// A run that a thread waits for or tests.
struct rondo_awaited {
  struct rondo_rank *rank;
  struct rondo_coll *coll;
  uint64_t run;
  uint32_t generation;
  int is_posted; // it has ended, and its CQE stays in the CQ
};

// Finds the run and resolves RONDO_LAST_RUN. `call` names the caller in the log. Returns
// RONDO_SUCCESS or RONDO_ERR_UNKNOWN.
int rondo_awaited_find(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                       const char *call, struct rondo_awaited *a);

// Waits for a run, at most `timeout_ns`; 0: takes a bounded number of steps. `call` names the
// caller in the log. Returns the status of the run, RONDO_ERR_UNKNOWN, RONDO_ERR_CLOSED,
// RONDO_ERR_INVALID (a callback may not wait), or RONDO_ERR_TIMEOUT after a call of `on_timeout`
// (struct rondo_rank_request).
int rondo_rank_wait(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                    const char *call, int64_t timeout_ns);
// Takes a bounded number of steps. Returns the status of the run, RONDO_ERR_UNKNOWN,
// RONDO_ERR_CLOSED or RONDO_IN_PROGRESS.
int rondo_rank_test(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                    const char *call);

// Steps the rank's daemon, a bounded number of steps, if runs are outstanding. The rank's lock is
// not held.
void rondo_rank_poll(const struct rondo_rank *rank);

// Attaches a callback to a run. As rondo_notify. If the collective was deregistered, all its runs
// succeeded.
int rondo_rank_notify(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                      rondo_callback callback, void *arg);

// Returns the descriptor that counts ended runs. As rondo_event_fd.
int rondo_rank_open_event_fd(struct rondo_rank *rank, int *fd);

#endif // RONDO_RUNTIME_RANK_WAIT_H
