// ncclCommSplit and ncclCommShrink. In a split each rank gathers the colors and keys of all ranks
// by a call of the parent, and derives its child communicator from them. A shrink needs no call of
// the parent: every rank that stays passes the same excluded ranks.
#ifndef RONDO_ADAPTERS_NCCL_SPLIT_H
#define RONDO_ADAPTERS_NCCL_SPLIT_H

#include "adapters/nccl/comm.h"

struct rondo_nccl_split;

// Submits a split, which this call takes. Returns enum rondo_nccl_result.
int rondo_nccl_split_submit(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split);

// Frees a split. Its child is ready, or has failed with `status`.
void rondo_nccl_split_end(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
                          int status);

// Completes the splits of `comm` that have ended, and the split that creates `comm`.
// RONDO_NCCL_IN_PROGRESS: a split of `comm` has not ended; else RONDO_NCCL_SUCCESS.
int rondo_nccl_splits_poll(struct rondo_nccl_comm *comm);

// The same, but waits for the splits of `comm` if it is blocking. Returns enum rondo_nccl_result.
int rondo_nccl_splits_wait(struct rondo_nccl_comm *comm);

// For the end of `comm`: waits for at most `timeout_ns`, then aborts. Children of aborted splits
// have failed.
void rondo_nccl_splits_drain(struct rondo_nccl_comm *comm, int64_t timeout_ns);

// Refuses `call` while the split that creates `comm` is in progress. Returns enum
// rondo_nccl_result.
int rondo_nccl_split_check_created(struct rondo_nccl_comm *comm, const char *call);

#endif // RONDO_ADAPTERS_NCCL_SPLIT_H
