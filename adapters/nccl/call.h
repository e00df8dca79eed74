// The calls of a program: one collective, send or receive from its parameters to its end; the
// reductions and splits that belong to it; and the group that holds calls back.
#ifndef RONDO_ADAPTERS_NCCL_CALL_H
#define RONDO_ADAPTERS_NCCL_CALL_H

#include "adapters/nccl/comm.h"

// ------------------------------------------------------------------ call.c ---

struct rondo_nccl_call {
  const char *name;             // NCCL's
  struct rondo_nccl_comm *comm; // a reference
  struct rondo_collective_desc what;
  const void *send;
  void *recv;
  void *stream;
  int op, root;               // NCCL's; the root of a send or receive is its peer
  bool is_receive;            // ncclRecv
  struct rondo_ticket ticket; // set by rondo_nccl_call_submit
};

// Submits the call; on the CUDA backend in the order of its stream. Returns enum rondo_nccl_result.
int rondo_nccl_call_submit(struct rondo_nccl_call *call);

// Waits until the call has ended if calls of its communicator wait.
int rondo_nccl_call_wait(const struct rondo_nccl_call *call);

// Whether the call is a rank's send to itself, or receive from itself.
static inline bool rondo_nccl_call_is_to_self(const struct rondo_nccl_call *call) {
  return call->what.kind == RONDO_SEND_RECV && call->what.root == call->what.peer;
}

// -------------------------------------------------------------------- op.c ---

// Sets the reduction of the call to its `op`, which may come from ncclRedOpCreatePreMulSum. A
// scalar in device memory is read in the order of the stream. Returns enum rondo_nccl_result.
int rondo_nccl_op_apply(struct rondo_nccl_call *call);

// ----------------------------------------------------------------- split.c ---

// A split or a shrink. In a split each rank gathers the colors and keys of all ranks by a call of
// the parent, and derives its child communicator from them. A shrink needs no call of the parent:
// every rank that stays passes the same excluded ranks.
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

// For the end of `comm`: waits for at most RONDO_NCCL_DRAIN_NS, then aborts. Children of aborted
// splits have failed.
void rondo_nccl_splits_drain(struct rondo_nccl_comm *comm);

// Refuses `call` while the split that creates `comm` is in progress. Returns enum
// rondo_nccl_result.
int rondo_nccl_split_check_created(struct rondo_nccl_comm *comm, const char *call);

// ----------------------------------------------------------------- group.c ---

// ncclGroupStart and ncclGroupEnd. Each thread has a group of its own. The outermost ncclGroupEnd
// submits all calls of the group and then waits for them.

// Submits a call, or adds it to the thread's open group. Takes the call's reference to its
// communicator.
int rondo_nccl_group_call(struct rondo_nccl_call *call);

// Whether the thread has an open group.
bool rondo_nccl_group_is_open(void);

// Returns `result`. An open group whose call was refused ends with the first such result.
int rondo_nccl_group_fail(int result);

// Adds a split to the thread's open group, and takes it: splits match by their order among the
// calls. Returns enum rondo_nccl_result.
int rondo_nccl_group_add_split(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split);

#endif // RONDO_ADAPTERS_NCCL_CALL_H
