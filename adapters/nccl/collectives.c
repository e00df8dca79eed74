// The exported collectives, sends and receives.
#include <string.h>

#include "adapters/nccl/call.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/group.h"
#include "adapters/nccl/op.h"
#include "adapters/nccl/split.h"

// The parameters of a call; zero where it has none.
struct params {
  const char *name;
  int kind; // enum rondo_kind
  bool is_receive;
  const void *send;
  void *recv;
  size_t count;
  int dtype, op;
  int root; // the peer of a send or receive
  void *stream;
};

static int params_check(const struct params *p, struct rondo_nccl_comm *comm) {
  int result = rondo_nccl_split_check_created(comm, p->name);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  pthread_mutex_lock(&comm->lock);
  int state = comm->state;
  int error = comm->error;
  pthread_mutex_unlock(&comm->lock);
  if (error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(error, "%s: the communicator has failed", p->name);
  if (state == RONDO_NCCL_FINALIZED)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "%s: the communicator was finalized",
                             p->name);
  if (rondo_dtype_bytes(p->dtype) == 0)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: there is no type %d", p->name,
                             p->dtype);
  if (p->root < 0 || p->root >= comm->rank_count)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: %s %d of %d ranks", p->name,
                             p->kind == RONDO_SEND_RECV ? "peer" : "root", p->root,
                             comm->rank_count);
  return RONDO_NCCL_SUCCESS;
}

// Translates the parameters. Rondo wants null for a buffer that this rank does not use.
static void call_fill(struct rondo_nccl_call *call, const struct params *p) {
  const uint32_t root = (uint32_t)p->root, rank = (uint32_t)call->comm->rank;
  const bool root_sends = p->kind == RONDO_BROADCAST || p->kind == RONDO_SCATTER;
  const bool root_receives = p->kind == RONDO_REDUCE || p->kind == RONDO_GATHER;
  call->what = rondo_all_reduce(0, p->count, p->dtype, RONDO_SUM);
  call->what.kind = p->kind;
  call->what.root = root;
  if (p->kind == RONDO_SEND_RECV)
    call->what = p->is_receive ? rondo_send_recv(0, p->count, p->dtype, root, rank)
                               : rondo_send_recv(0, p->count, p->dtype, rank, root);
  call->send = root_sends && rank != root ? NULL : p->send;
  call->recv = root_receives && rank != root ? NULL : p->recv;
  call->stream = p->stream;
  call->is_receive = p->is_receive;
}

// Programs that read NCCL's logs can read this line.
static void call_log(const struct rondo_nccl_call *call, int op, int root) {
  struct rondo_nccl_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  uint64_t number = comm->calls++;
  pthread_mutex_unlock(&comm->lock);
  if (!rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_COLL))
    return;
  rondo_nccl_info(RONDO_NCCL_SUBSYS_COLL, comm->shared->device,
                  "%s: opCount %llx sendbuff %p recvbuff %p count %llu datatype %d op %d root %d "
                  "comm %p [nranks=%d] stream %p",
                  call->name + strlen("nccl"), (unsigned long long)number, call->send, call->recv,
                  (unsigned long long)call->what.count, call->what.dtype, op, root, (void *)comm,
                  comm->rank_count, call->stream);
}

// Checks, logs and submits a call, or leaves it to ncclGroupEnd.
static int params_submit(const struct params *p, rondo_nccl_comm_t handle) {
  struct rondo_nccl_call call = {.name = p->name};
  call.comm = rondo_nccl_comm_find(handle, p->name);
  if (!call.comm)
    return rondo_nccl_group_fail(RONDO_NCCL_INVALID_ARGUMENT);
  call_fill(&call, p);
  int result = params_check(p, call.comm);
  bool reduces =
      p->kind == RONDO_ALL_REDUCE || p->kind == RONDO_REDUCE || p->kind == RONDO_REDUCE_SCATTER;
  if (result == RONDO_NCCL_SUCCESS && reduces)
    result = rondo_nccl_op_apply(call.comm, p->name, p->op, p->stream, &call.what);
  if (result != RONDO_NCCL_SUCCESS) {
    rondo_nccl_comm_unref(call.comm);
    return rondo_nccl_group_fail(result);
  }
  call_log(&call, p->op, p->root);
  return rondo_nccl_group_call(&call);
}

// NOLINTBEGIN(readability-identifier-naming,readability-function-size): the calls are NCCL's.

RONDO_NCCL_DEFINE(int, AllReduce,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {"ncclAllReduce", RONDO_ALL_REDUCE, false, send, recv, count, dtype, op, 0,
                     stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Reduce,
                  (const void *send, void *recv, size_t count, int dtype, int op, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {"ncclReduce", RONDO_REDUCE, false, send, recv, count, dtype, op, root, stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, ReduceScatter,
                  (const void *send, void *recv, size_t count, int dtype, int op,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {
      "ncclReduceScatter", RONDO_REDUCE_SCATTER, false, send, recv, count, dtype, op, 0, stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Broadcast,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {"ncclBroadcast", RONDO_BROADCAST, false, send, recv,
                     count,           dtype,           0,     root, stream};
  return params_submit(&p, comm);
}

// NCCL's log, too, calls it ncclBroadcast.
RONDO_NCCL_DEFINE(int, Bcast,
                  (void *buffer, size_t count, int dtype, int root, rondo_nccl_comm_t comm,
                   void *stream)) {
  return pncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}

RONDO_NCCL_DEFINE(int, AllGather,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct params p = {"ncclAllGather", RONDO_ALL_GATHER, false, send, recv, count, dtype, 0, 0,
                     stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, AlltoAll,
                  (const void *send, void *recv, size_t count, int dtype, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct params p = {"ncclAlltoAll", RONDO_ALL_TO_ALL, false, send, recv, count, dtype, 0, 0,
                     stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Gather,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {"ncclGather", RONDO_GATHER, false, send, recv, count, dtype, 0, root, stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Scatter,
                  (const void *send, void *recv, size_t count, int dtype, int root,
                   rondo_nccl_comm_t comm, void *stream)) {
  struct params p = {"ncclScatter", RONDO_SCATTER, false, send, recv,
                     count,         dtype,         0,     root, stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Send,
                  (const void *send, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct params p = {"ncclSend", RONDO_SEND_RECV, false, send, NULL, count, dtype, 0, peer, stream};
  return params_submit(&p, comm);
}

RONDO_NCCL_DEFINE(int, Recv,
                  (void *recv, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
                   void *stream)) {
  struct params p = {"ncclRecv", RONDO_SEND_RECV, true, NULL, recv, count, dtype, 0, peer, stream};
  return params_submit(&p, comm);
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
