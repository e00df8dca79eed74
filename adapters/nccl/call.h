// One call of a program for one communicator, before it is submitted.
#ifndef RONDO_ADAPTERS_NCCL_CALL_H
#define RONDO_ADAPTERS_NCCL_CALL_H

#include "adapters/nccl/comm.h"

struct rondo_nccl_call {
  const char *name;             // NCCL's
  struct rondo_nccl_comm *comm; // whose user this is
  struct rondo_collective_desc what;
  const void *send;
  void *recv;
  void *stream;
  struct rondo_nccl_split *split; // not a call but a split, kept in its place among them
  bool is_receive;                // ncclRecv
  bool is_merged; // a receive from itself that its send makes, or a split that was submitted
  struct rondo_ticket ticket; // once it was submitted
};

// Submits it; the line of the log is written when it is made, not here. On the CUDA backend in the
// order of its stream.
int rondo_nccl_call_submit(struct rondo_nccl_call *call);

// Where there are no streams and the communicator is blocking: waits until it has ended.
int rondo_nccl_call_await(const struct rondo_nccl_call *call);

// Whether it is a rank's send to itself, or receive from itself.
static inline bool rondo_nccl_call_is_to_itself(const struct rondo_nccl_call *call) {
  return call->what.kind == RONDO_SEND_RECV && call->what.root == call->what.peer;
}

#endif // RONDO_ADAPTERS_NCCL_CALL_H
