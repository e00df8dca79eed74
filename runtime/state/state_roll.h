// Where the members of a state give their claims: an all-reduce with RONDO_ON_LOSS_RETRY, in which
// each member fills its own entry. So what one member gets all get, also if ranks are lost
// meanwhile, and a rank that has got it helps the others to it when its call has long ended.
//
//   rondo_roll_open -> rondo_roll_call ... -> rondo_roll_close
//
// The collective has all ranks that have not left in order, and stays for later calls. It is
// replaced if it fails, or if a rank leaves in order. All members count its failures, so the ids of
// its successors agree.
#ifndef RONDO_RUNTIME_STATE_STATE_ROLL_H
#define RONDO_RUNTIME_STATE_STATE_ROLL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/state/state_meeting.h"

#define RONDO_ROLL_ENTRY_BYTES 256u

// Opens the roll; the caller has set rank, end_ns and why. `voters` are then all that may take
// part. Returns RONDO_SUCCESS; RONDO_ERR_EXISTS: another thread has a meeting of this rank;
// RONDO_ERR_PEER: the rank has lost its job, or the job has fewer ranks than least_ranks; or a
// status of rondo_register. Except for success, writes the reason to `why`.
int rondo_roll_open(struct rondo_meeting *m);
// Gives `own` entry, and gets the entries of all members that have taken part, who are `voters`
// then. If a rank has left in order, and so did not take part, does that once more without it if
// `is_first`. Returns RONDO_SUCCESS or the status of the run; then writes the reason to `why`.
// RONDO_ERR_CLOSED: another member has got the entries of all, and has gone on to its next call.
int rondo_roll_call(struct rondo_meeting *m, const uint8_t *own, uint8_t *of_all, bool is_first);
// Closes the roll and the exchange communicator. If the others do not know the outcome `status`,
// they get it, RONDO_ERR_TIMEOUT as RONDO_ERR_ABORTED, with the reason in `why`. Returns false if
// runs are left that may use their buffers.
bool rondo_roll_close(struct rondo_meeting *m, int status, bool is_known);

#endif // RONDO_RUNTIME_STATE_STATE_ROLL_H
