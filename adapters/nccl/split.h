// ncclCommSplit inside: each rank gathers the colors and keys of all ranks by a call of the parent,
// and derives its child communicator from them.
#ifndef RONDO_ADAPTERS_NCCL_SPLIT_H
#define RONDO_ADAPTERS_NCCL_SPLIT_H

#include "adapters/nccl/config.h"

// What a rank passes to ncclCommSplit.
struct rondo_nccl_choice {
  int32_t color, key;
};

struct rondo_nccl_split {
  struct rondo_nccl_split *next;
  struct rondo_nccl_comm *child; // a reference; null: this rank chose NCCL_SPLIT_NOCOLOR
  struct rondo_nccl_choice mine;
  struct rondo_nccl_choice *send, *all; // from rondo_mem_alloc; `all` by rank of the parent
  struct rondo_ticket ticket;
  uint64_t number; // among the splits of the parent, from 1
};

// Allocates a split and its child. Null: no memory.
struct rondo_nccl_split *rondo_nccl_split_create(struct rondo_nccl_comm *parent,
                                                 struct rondo_nccl_choice mine,
                                                 const struct rondo_nccl_settings *settings);

// Adds the child to the registry and returns its handle, null if there is none. The parent's lock
// may be held.
rondo_nccl_comm_t rondo_nccl_split_publish(struct rondo_nccl_comm *parent,
                                           struct rondo_nccl_split *split);

// Submits a split, or publishes it too if `child` is not null. Returns enum rondo_nccl_result.
// After a failure the split is freed; a published child has failed.
int rondo_nccl_split_submit(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
                            rondo_nccl_comm_t *child);

// Frees a split that was not submitted. A published child has failed with `status`.
void rondo_nccl_split_fail(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
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

// --------------------------------------------------------------- children ---

// Allocates a child in state RONDO_NCCL_SPLITTING, without its ranks. Null: no memory.
struct rondo_nccl_comm *rondo_nccl_child_create(struct rondo_nccl_comm *parent,
                                                const struct rondo_nccl_settings *settings);

// The key of the child of split `number`: equal on all ranks of a child, and different for each
// split.
uint64_t rondo_nccl_child_key(const struct rondo_nccl_comm *parent, uint64_t number);

// Creates the communicator of Rondo for a child whose ranks are set. Returns enum rondo_status.
int rondo_nccl_child_open(struct rondo_nccl_comm *child);

// Logs that the child exists.
void rondo_nccl_child_log(const struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                          const char *call, uint64_t number, struct rondo_nccl_choice mine);

#endif // RONDO_ADAPTERS_NCCL_SPLIT_H
