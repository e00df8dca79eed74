// The communicators of one measuring of links or synchronisation, and calls on them that end in
// bounded time.
//
//   rondo_meeting_open -> rondo_meeting_call, rondo_meeting_wait ... -> rondo_meeting_close
//
// The *control* communicator has all ranks that are left in the job, and stays for later calls. If
// it fails, it is replaced. All members count its failures, so the keys of its successors agree.
// The *exchange* communicator is for one transfer of content, and takes its connectors with it. A
// synchronisation has a roll (state_roll.h) instead of a control communicator.
#ifndef RONDO_RUNTIME_STATE_STATE_MEETING_H
#define RONDO_RUNTIME_STATE_STATE_MEETING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/rank/vote.h"
#include <rondo/comm.h>

struct rondo_comm_end;
struct rondo_rank;

struct rondo_meeting {
  struct rondo_rank *rank;
  struct rondo_voters voters; // the members
  struct rondo_comm_end *control, *exchange;
  uint64_t exchange_key; // without `control`: of the exchange communicator
  uint64_t end_ns;
  char *why; // RONDO_REASON_BYTES
};

// Opens the control communicator; the caller has set rank, end_ns and why. Returns RONDO_SUCCESS;
// RONDO_ERR_EXISTS: another thread has a meeting of this rank; or a status of rondo_comm_create.
// Except for success, writes the reason to `why`.
int rondo_meeting_open(struct rondo_meeting *m);
// Opens the exchange communicator. Returns a status of rondo_comm_create.
int rondo_meeting_open_exchange(struct rondo_meeting *m);
// The time up to `end_ns`, as a timeout.
int64_t rondo_meeting_left_ns(const struct rondo_meeting *m);
// Puts this rank in front of `why`, for the others.
void rondo_meeting_name_rank(const struct rondo_meeting *m);
// Fails the exchange communicator, if it is open: all its members get the status,
// RONDO_ERR_TIMEOUT as RONDO_ERR_ABORTED. Writes the reason of its first failure to `why`.
void rondo_meeting_fail_exchange(const struct rondo_meeting *m, int status);
// Closes it, if it is open. Returns false if runs are left that may use their buffers.
bool rondo_meeting_close_exchange(struct rondo_meeting *m, int status);
// Closes both. If `status` is an error, all other members get it, RONDO_ERR_TIMEOUT as
// RONDO_ERR_ABORTED, with the reason in `why`. Returns false if runs are left that may use their
// buffers.
bool rondo_meeting_close(struct rondo_meeting *m, int status);

// Makes a call on one of the two. `what` has no id. Returns a status of rondo_comm_call; except for
// success, writes the reason to `why`.
int rondo_meeting_call(const struct rondo_meeting *m, struct rondo_comm_end *end,
                       const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                       struct rondo_ticket *ticket);
// Waits for a call until `end_ns`. Returns the status of the call, or RONDO_ERR_TIMEOUT; except for
// success, writes the reason to `why`.
int rondo_meeting_wait(const struct rondo_meeting *m, struct rondo_comm_end *end,
                       const struct rondo_ticket *ticket);
// Does both.
int rondo_meeting_run(const struct rondo_meeting *m, struct rondo_comm_end *end,
                      const struct rondo_collective_desc *what, const void *send, void *recv);

#endif // RONDO_RUNTIME_STATE_STATE_MEETING_H
