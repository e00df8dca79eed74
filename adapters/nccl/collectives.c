// The exported collectives, sends and receives.
#include <string.h>

#include "adapters/nccl/call.h"
#include "adapters/nccl/debug.h"

static int call_check(const struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  int result = rondo_nccl_split_check_created(comm, call->name);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  if (comm->error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(comm->error, "%s: the communicator has failed", call->name);
  if (comm->state == RONDO_NCCL_FINALIZED)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "%s: the communicator was finalized",
                             call->name);
  if (rondo_dtype_bytes(call->what.dtype) == 0)
    return RONDO_NCCL_INVALID("%s: there is no type %d", call->name, call->what.dtype);
  if (call->root < 0 || call->root >= comm->rank_count)
    return RONDO_NCCL_INVALID("%s: %s %d of %d ranks", call->name,
                              call->what.kind == RONDO_SEND_RECV ? "peer" : "root", call->root,
                              comm->rank_count);
  return RONDO_NCCL_SUCCESS;
}

// Translates root, buffers and reduction. Rondo wants null for a buffer that this rank does not
// use.
static int call_translate(struct rondo_nccl_call *call) {
  struct rondo_collective_desc *what = &call->what;
  const uint32_t root = (uint32_t)call->root, rank = (uint32_t)call->comm->rank;
  const int kind = what->kind;
  what->root = call->is_receive || kind != RONDO_SEND_RECV ? root : rank;
  if (kind == RONDO_SEND_RECV)
    what->peer = call->is_receive ? rank : root;
  if ((kind == RONDO_BROADCAST || kind == RONDO_SCATTER) && rank != root)
    call->send = NULL;
  if ((kind == RONDO_REDUCE || kind == RONDO_GATHER) && rank != root)
    call->recv = NULL;
  if (kind != RONDO_ALL_REDUCE && kind != RONDO_REDUCE && kind != RONDO_REDUCE_SCATTER)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_op_apply(call);
}

// Programs that read NCCL's logs can read this line.
static void call_log(const struct rondo_nccl_call *call) {
  struct rondo_nccl_comm *comm = call->comm;
  uint64_t number = comm->calls++;
  if (!rondo_nccl_debug_enabled(RONDO_NCCL_SUBSYS_COLL))
    return;
  rondo_nccl_info(RONDO_NCCL_SUBSYS_COLL, comm->shared->device,
                  "%s: opCount %llx sendbuff %p recvbuff %p count %llu datatype %d op %d root %d "
                  "comm %p [nranks=%d] stream %p",
                  call->name + strlen("nccl"), (unsigned long long)number, call->send, call->recv,
                  (unsigned long long)call->what.count, call->what.dtype, call->op, call->root,
                  (void *)comm, comm->rank_count, call->stream);
}

// Checks, logs and submits a call, or leaves it to ncclGroupEnd.
static int call_make(struct rondo_nccl_call *call, rondo_nccl_comm_t handle) {
  call->comm = rondo_nccl_comm_find(handle, call->name);
  if (!call->comm)
    return rondo_nccl_group_fail(RONDO_NCCL_INVALID_ARGUMENT);
  int result = call_check(call);
  if (result == RONDO_NCCL_SUCCESS)
    result = call_translate(call);
  if (result != RONDO_NCCL_SUCCESS) {
    rondo_nccl_comm_unref(call->comm);
    return rondo_nccl_group_fail(result);
  }
  call_log(call);
  return rondo_nccl_group_call(call);
}

// Defines the call ncclNAME. After `rondo_kind` come the fields of struct rondo_nccl_call that it
// sets.
#define DEFINE_CALL(name, parameters, rondo_kind, ...)                                             \
  RONDO_NCCL_DEFINE(int, name, parameters) {                                                       \
    struct rondo_nccl_call call = {"nccl" #name, .stream = stream, __VA_ARGS__};                   \
    call.what = rondo_all_reduce(0, count, dtype, RONDO_SUM);                                      \
    call.what.kind = (rondo_kind);                                                                 \
    return call_make(&call, comm);                                                                 \
  }

// NOLINTBEGIN(readability-identifier-naming,readability-function-size): the calls are NCCL's.

DEFINE_CALL(AllReduce, RONDO_NCCL_REDUCE_PARAMETERS, RONDO_ALL_REDUCE, .send = send, .recv = recv,
            .op = op)
DEFINE_CALL(Reduce,
            (const void *send, void *recv, size_t count, int dtype, int op, int root,
             rondo_nccl_comm_t comm, void *stream),
            RONDO_REDUCE, .send = send, .recv = recv, .op = op, .root = root)
DEFINE_CALL(ReduceScatter, RONDO_NCCL_REDUCE_PARAMETERS, RONDO_REDUCE_SCATTER, .send = send,
            .recv = recv, .op = op)
DEFINE_CALL(Broadcast, RONDO_NCCL_ROOT_PARAMETERS, RONDO_BROADCAST, .send = send, .recv = recv,
            .root = root)
DEFINE_CALL(AllGather, RONDO_NCCL_EXCHANGE_PARAMETERS, RONDO_ALL_GATHER, .send = send, .recv = recv)
DEFINE_CALL(AlltoAll, RONDO_NCCL_EXCHANGE_PARAMETERS, RONDO_ALL_TO_ALL, .send = send, .recv = recv)
DEFINE_CALL(Gather, RONDO_NCCL_ROOT_PARAMETERS, RONDO_GATHER, .send = send, .recv = recv,
            .root = root)
DEFINE_CALL(Scatter, RONDO_NCCL_ROOT_PARAMETERS, RONDO_SCATTER, .send = send, .recv = recv,
            .root = root)
DEFINE_CALL(Send,
            (const void *send, size_t count, int dtype, int peer, rondo_nccl_comm_t comm,
             void *stream),
            RONDO_SEND_RECV, .send = send, .root = peer)
DEFINE_CALL(Recv,
            (void *recv, size_t count, int dtype, int peer, rondo_nccl_comm_t comm, void *stream),
            RONDO_SEND_RECV, .recv = recv, .root = peer, .is_receive = true)

// NCCL's log, too, calls it ncclBroadcast.
RONDO_NCCL_DEFINE(int, Bcast,
                  (void *buffer, size_t count, int dtype, int root, rondo_nccl_comm_t comm,
                   void *stream)) {
  return pncclBroadcast(buffer, buffer, count, dtype, root, comm, stream);
}

// NOLINTEND(readability-identifier-naming,readability-function-size)
