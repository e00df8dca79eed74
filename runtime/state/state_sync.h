// Synchronises a state (include/rondo/state.h): the shell around the pure files of this folder.
//
//   1. Each member hashes its blocks, and all exchange claims (state_claim.h) on a communicator
//      that lasts from call to call. If all have the chosen content, the call ends here.
//   2. On a communicator of its own, the source broadcasts the hashes of its blocks, and all gather
//      maps of the blocks that they lack. From these each makes its part of the deal
//      (state_deal.h).
//   3. Parcels go from the tensors of one member to memory of the other, which checks the hash of
//      each block before it writes it to its tensor.
//   4. All wait for each other.
//
// A member that cannot go on fails both communicators: all others get its status and reason.
#ifndef RONDO_RUNTIME_STATE_STATE_SYNC_H
#define RONDO_RUNTIME_STATE_STATE_SYNC_H

#include <stdint.h>

#include <rondo/state.h>

struct rondo_rank;

// As rondo_state_sync, with arguments that have been checked. `why` has RONDO_REASON_BYTES.
// `report` may be null. The rank is pinned.
int rondo_state_sync_rank(struct rondo_rank *rank, struct rondo_state *state, uint64_t end_ns,
                          struct rondo_state_report *report, char *why);

#endif // RONDO_RUNTIME_STATE_STATE_SYNC_H
