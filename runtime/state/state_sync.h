// Synchronises a state (include/rondo/state.h): the shell around the pure files of this folder.
//
//   1. Each member hashes its blocks, and all exchange claims (state_claim.h) on a roll
//      (state_roll.h). If all have the chosen content, the call ends here.
//   2. On a communicator of its own, the source broadcasts the hashes of its blocks, and all gather
//      maps of the blocks that they lack. From these each makes its part of the deal
//      (state_deal.h).
//   3. Parcels go from the tensors of one member to memory of the other, which checks the hash of
//      each block before it writes it to its tensor.
//   4. All tell on the roll how the exchange has ended for them, and get the first error of all.
//
// So the members that live agree on the outcome of each call, also if some have met a loss and
// others have not. A member that cannot go on fails the roll, or the exchange and tells the others:
// all get its status and reason.
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
