// The collectives, sends and receives: from NCCL's parameters to a descriptor of Rondo's.
#include "adapters/nccl/call.h"

#include <string.h>

#include "adapters/nccl/group.h"
#include "adapters/nccl/op.h"
#include "adapters/nccl/say.h"

// A buffer of no elements may be null in NCCL.
static unsigned char nothing[16];

int rondo_nccl_call_submit(struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  struct rondo_context ctx = comm->home->ctx;
  struct rondo_run_args args = {call->send, call->recv, NULL, NULL};
  int status;
  if (call->what.count == 0) {
    args.send = args.send ? args.send : nothing;
    args.recv = args.recv ? args.recv : nothing + sizeof nothing / 2;
  }
  if (comm->home->backend == RONDO_BACKEND_HOST)
    status = rondo_comm_call(ctx, comm->comm, &call->what, &args, &call->ticket);
  else
    status =
        rondo_comm_call_on_stream(ctx, comm->comm, &call->what, &args, call->stream, &call->ticket);
  if (status != RONDO_SUCCESS)
    return rondo_nccl_comm_refuse(comm, call->name, status, NULL);
  if (!rondo_nccl_comm_waits(comm) && !rondo_nccl_comm_watch(comm, &call->ticket))
    rondo_nccl_warn("%s: no memory to watch it: were it to fail, nobody would be told", call->name);
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_call_await(const struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  if (!rondo_nccl_comm_waits(comm))
    return RONDO_NCCL_SUCCESS;
  int status = rondo_comm_wait(comm->home->ctx, comm->comm, &call->ticket, RONDO_FOREVER);
  return status == RONDO_SUCCESS ? RONDO_NCCL_SUCCESS
                                 : rondo_nccl_comm_refuse(comm, call->name, status, &call->ticket);
}

// -------------------------------------------------------------------- checks ---

static int check_state(struct rondo_nccl_comm *comm, const char *name) {
  (void)rondo_nccl_splits_settle(comm);
  pthread_mutex_lock(&comm->lock);
  int state = comm->state;
  int error = comm->error;
  pthread_mutex_unlock(&comm->lock);
  if (error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(error, "%s: the split that should have made the communicator failed",
                             name);
  if (state == RONDO_NCCL_PARTING)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: the split that makes the communicator is in progress", name);
  if (state == RONDO_NCCL_FINALIZED)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "%s: the communicator was finalized", name);
  return RONDO_NCCL_SUCCESS;
}

static int check_rank(const struct rondo_nccl_comm *comm, const char *name, const char *what,
                      int rank) {
  if (rank >= 0 && rank < comm->rank_count)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: %s %d of %d ranks", name, what, rank,
                           comm->rank_count);
}

// In the form of NCCL's own, so that what reads its logs reads ours.
static void log_call(const struct rondo_nccl_call *call, int op, int root) {
  struct rondo_nccl_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  uint64_t number = comm->calls++;
  pthread_mutex_unlock(&comm->lock);
  if (!rondo_nccl_wants(RONDO_NCCL_SUBSYS_COLL))
    return;
  rondo_nccl_info(RONDO_NCCL_SUBSYS_COLL, comm->home->device,
                  "%s: opCount %llx sendbuff %p recvbuff %p count %llu datatype %d op %d root %d "
                  "comm %p [nranks=%d] stream %p",
                  call->name + strlen("nccl"), (unsigned long long)number, call->send, call->recv,
                  (unsigned long long)call->what.count, call->what.dtype, op, root, (void *)comm,
                  comm->rank_count, call->stream);
}

// What NCCL's parameters say beside the buffers and the stream.
struct shape {
  int dtype, op, root; // 0 where there is none
  bool reduces;
};

// Completes, logs and takes a call whose `what`, buffers and stream are set; or refuses it.
static int take(struct rondo_nccl_call *call, const struct shape *shape) {
  struct rondo_nccl_comm *comm = call->comm;
  int result = check_state(comm, call->name);
  if (result == RONDO_NCCL_SUCCESS && rondo_dtype_bytes(shape->dtype) == 0)
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: type %d is none", call->name,
                               shape->dtype);
  if (result == RONDO_NCCL_SUCCESS)
    result = check_rank(comm, call->name, call->what.kind == RONDO_SEND_RECV ? "peer" : "root",
                        shape->root);
  if (result == RONDO_NCCL_SUCCESS && shape->reduces)
    result = rondo_nccl_op_apply(comm, call->name, shape->op, call->stream, &call->what);
  if (result != RONDO_NCCL_SUCCESS) {
    rondo_nccl_comm_leave(comm);
    return rondo_nccl_group_spoil(result);
  }
  log_call(call, shape->op, shape->root);
  return rondo_nccl_group_take(call);
}

// Enters the communicator; the buffers are those that this rank uses.
static bool begin(struct rondo_nccl_call *call, const char *name, rondo_nccl_comm_t handle,
                  const void *send, void *recv) {
  memset(call, 0, sizeof *call);
  call->name = name;
  call->comm = rondo_nccl_comm_enter(handle, name);
  call->send = send;
  call->recv = recv;
  if (!call->comm)
    (void)rondo_nccl_group_spoil(RONDO_NCCL_INVALID_ARGUMENT);
  return call->comm != NULL;
}

// A call with a root: `is_from_root` where only the root sends, else only the root receives.
static void use_by_root(struct rondo_nccl_call *call, int root, bool is_from_root) {
  if (call->comm->rank == root)
    return;
  if (is_from_root)
    call->send = NULL;
  else
    call->recv = NULL;
}

// NOLINTBEGIN(readability-identifier-naming,readability-function-size): the calls are NCCL's.

RONDO_NCCL_DEFINE(int, AllReduce,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, op, 0, true};
  if (!begin(&call, "ncclAllReduce", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_all_reduce(0, count, dtype, RONDO_SUM);
  call.stream = stream;
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, Reduce,
                  (const void *send, void *recv, size_t count, int dtype, int op, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, op, root, true};
  if (!begin(&call, "ncclReduce", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_reduce(0, count, dtype, RONDO_SUM, (uint32_t)root);
  call.stream = stream;
  use_by_root(&call, root, false);
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, ReduceScatter,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, op, 0, true};
  if (!begin(&call, "ncclReduceScatter", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_reduce_scatter(0, count, dtype, RONDO_SUM);
  call.stream = stream;
  return take(&call, &shape);
}

static int broadcast(struct rondo_nccl_call *call, size_t count, const struct shape *shape) {
  call->what = rondo_broadcast(0, count, shape->dtype, (uint32_t)shape->root);
  use_by_root(call, shape->root, true);
  return take(call, shape);
}

RONDO_NCCL_DEFINE(int, Broadcast,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, root, false};
  if (!begin(&call, "ncclBroadcast", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.stream = stream;
  return broadcast(&call, count, &shape);
}

RONDO_NCCL_DEFINE(int, Bcast,
                  (void *buffer, size_t count, int dtype, int root, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, root, false};
  // The name is that of the call that it stands for, as in NCCL's log.
  if (!begin(&call, "ncclBroadcast", comm, buffer, buffer))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.stream = stream;
  return broadcast(&call, count, &shape);
}

RONDO_NCCL_DEFINE(int, AllGather,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, 0, false};
  if (!begin(&call, "ncclAllGather", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_all_gather(0, count, dtype);
  call.stream = stream;
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, AlltoAll,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, 0, false};
  if (!begin(&call, "ncclAlltoAll", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_all_to_all(0, count, dtype);
  call.stream = stream;
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, Gather,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, root, false};
  if (!begin(&call, "ncclGather", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_gather(0, count, dtype, (uint32_t)root);
  call.stream = stream;
  use_by_root(&call, root, false);
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, Scatter,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, root, false};
  if (!begin(&call, "ncclScatter", comm, send, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_scatter(0, count, dtype, (uint32_t)root);
  call.stream = stream;
  use_by_root(&call, root, true);
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, Send,
                  (const void *send, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, peer, false};
  if (!begin(&call, "ncclSend", comm, send, NULL))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_send_recv(0, count, dtype, (uint32_t)call.comm->rank, (uint32_t)peer);
  call.stream = stream;
  return take(&call, &shape);
}

RONDO_NCCL_DEFINE(int, Recv,
                  (void *recv, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct rondo_nccl_call call;
  struct shape shape = {dtype, 0, peer, false};
  if (!begin(&call, "ncclRecv", comm, NULL, recv))
    return RONDO_NCCL_INVALID_ARGUMENT;
  call.what = rondo_send_recv(0, count, dtype, (uint32_t)peer, (uint32_t)call.comm->rank);
  call.is_receive = true;
  call.stream = stream;
  return take(&call, &shape);
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
