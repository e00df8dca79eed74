// One collective, send or receive of a program, from its parameters to its end.
#ifndef RONDO_ADAPTERS_NCCL_CALL_H
#define RONDO_ADAPTERS_NCCL_CALL_H

#include "adapters/nccl/comm.h"

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

#endif // RONDO_ADAPTERS_NCCL_CALL_H
