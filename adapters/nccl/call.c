#include "adapters/nccl/call.h"

#include "adapters/nccl/debug.h"

// NCCL allows null for a buffer of no elements.
static unsigned char empty_buffers[16];

int rondo_nccl_call_submit(struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  struct rondo_context ctx = comm->shared->ctx;
  struct rondo_run_args args = {call->send, call->recv, NULL, NULL};
  int status;
  if (call->what.count == 0) {
    args.send = args.send ? args.send : empty_buffers;
    args.recv = args.recv ? args.recv : empty_buffers + sizeof empty_buffers / 2;
  }
  if (comm->shared->backend == RONDO_BACKEND_HOST)
    status = rondo_comm_call(ctx, comm->comm, &call->what, &args, &call->ticket);
  else
    status =
        rondo_comm_call_on_stream(ctx, comm->comm, &call->what, &args, call->stream, &call->ticket);
  if (status != RONDO_SUCCESS)
    return rondo_nccl_comm_refuse(comm, call->name, status, NULL);
  if (!rondo_nccl_comm_waits(comm) && !rondo_nccl_comm_track(comm, &call->ticket))
    RONDO_NCCL_WARN("%s: no memory to track the call: ncclCommGetAsyncError will not report its "
                    "failure",
                    call->name);
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_call_wait(const struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  if (!rondo_nccl_comm_waits(comm))
    return RONDO_NCCL_SUCCESS;
  int status = rondo_comm_wait(comm->shared->ctx, comm->comm, &call->ticket, RONDO_FOREVER);
  return status == RONDO_SUCCESS ? RONDO_NCCL_SUCCESS
                                 : rondo_nccl_comm_refuse(comm, call->name, status, &call->ticket);
}
