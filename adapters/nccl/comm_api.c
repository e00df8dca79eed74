// The exported queries of a communicator, and the calls that end it.
#include <unistd.h>

#include "adapters/nccl/call.h"
#include "adapters/nccl/debug.h"
#include "adapters/nccl/explore.h"

#define GRAPH_POLLS 11 // the pause doubles each time: two seconds in all
#define GRAPH_POLL_US 1000u

// ----------------------------------------------------------------- queries ---

static int rank_count_of(struct rondo_nccl_comm *comm) { return comm->rank_count; }
static int rank_of(struct rondo_nccl_comm *comm) { return comm->rank; }
static int device_of(struct rondo_nccl_comm *comm) { return comm->shared->device; }

// Whether calls are outstanding. Only a finalized communicator and a non-blocking one on the host
// report that: elsewhere the program learns from its streams when calls end.
static int comm_progress(struct rondo_nccl_comm *comm) {
  bool reports = comm->state == RONDO_NCCL_FINALIZED ||
                 (comm->shared->backend == RONDO_BACKEND_HOST && !comm->is_blocking);
  if (reports && !RONDO_NCCL_FAULT(DONE_EARLY) &&
      rondo_comm_test(comm->shared->ctx, comm->comm, NULL) == RONDO_IN_PROGRESS)
    return RONDO_NCCL_IN_PROGRESS;
  return RONDO_NCCL_SUCCESS;
}

static int comm_async_error(struct rondo_nccl_comm *comm) {
  int state = RONDO_SUCCESS;
  int splits = rondo_nccl_splits_poll(comm);
  if (comm->state == RONDO_NCCL_SPLITTING)
    return RONDO_NCCL_IN_PROGRESS;
  RONDO_NCCL_POINT("nccl.asked");
  int error = RONDO_NCCL_FAULT(MISMATCH_HIDDEN) ? RONDO_NCCL_SUCCESS : rondo_nccl_comm_poll(comm);
  if (error != RONDO_NCCL_SUCCESS)
    return error;
  int status = rondo_comm_status(comm->shared->ctx, comm->comm, &state, NULL, 0);
  if (status == RONDO_SUCCESS && !RONDO_NCCL_FAULT(MISMATCH_HIDDEN))
    status = state;
  if (status != RONDO_SUCCESS)
    return rondo_nccl_comm_refuse(comm, "the communicator", status, NULL);
  return splits == RONDO_NCCL_IN_PROGRESS ? splits : comm_progress(comm);
}

static int query_answer(rondo_nccl_comm_t handle, const char *call, int *answer,
                        int (*value_of)(struct rondo_nccl_comm *)) {
  if (!answer)
    return RONDO_NCCL_INVALID("%s: the pointer to the answer is null", call);
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, call);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = RONDO_NCCL_SUCCESS;
  if (value_of != comm_async_error) // which also serves a child whose split is in progress
    result = rondo_nccl_split_check_created(comm, call);
  if (result == RONDO_NCCL_SUCCESS)
    *answer = value_of(comm);
  rondo_nccl_comm_unref(comm);
  return result;
}

#define DEFINE_QUERY(name, value_of)                                                               \
  RONDO_NCCL_DEFINE(int, name, (rondo_nccl_comm_t handle, int *answer)) {                          \
    return query_answer(handle, "nccl" #name, answer, value_of);                                   \
  }

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

DEFINE_QUERY(CommGetAsyncError, comm_async_error)
DEFINE_QUERY(CommCount, rank_count_of)
DEFINE_QUERY(CommUserRank, rank_of)
DEFINE_QUERY(CommCuDevice, device_of)

// ----------------------------------------------------------------- the end ---

RONDO_NCCL_DEFINE(int, CommFinalize, (rondo_nccl_comm_t handle)) {
  if (!handle)
    return RONDO_NCCL_SUCCESS;
  struct rondo_nccl_comm *comm = rondo_nccl_comm_find(handle, "ncclCommFinalize");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int state = RONDO_NCCL_READY, result = RONDO_NCCL_SUCCESS;
  if (!atomic_compare_exchange_strong(&comm->state, &state, RONDO_NCCL_FINALIZED))
    result = RONDO_NCCL_INVALID("ncclCommFinalize: %s",
                                state == RONDO_NCCL_SPLITTING
                                    ? "the split that creates the communicator is in progress"
                                    : "the communicator was finalized before");
  else if (!comm->is_blocking ||
           rondo_comm_wait(comm->shared->ctx, comm->comm, NULL, RONDO_FOREVER) != RONDO_SUCCESS)
    result = comm_async_error(comm);
  rondo_nccl_comm_unref(comm);
  return result;
}

// Destroys Rondo's communicator, and the context with its last communicator. CUDA releases a
// destroyed graph late, so this waits for up to two seconds. RONDO_ERR_BUSY: a graph still refers
// to a call.
static int comm_destroy_inner(struct rondo_nccl_comm *comm, int mode) {
  int status = RONDO_ERR_BUSY;
  for (int i = 0; i < GRAPH_POLLS && status == RONDO_ERR_BUSY; i++) {
    status = rondo_comm_destroy(comm->shared->ctx, comm->comm, mode, RONDO_NCCL_DRAIN_NS);
    if (status == RONDO_ERR_BUSY)
      usleep(GRAPH_POLL_US << i);
  }
  if (status == RONDO_ERR_BUSY)
    return status;
  int released = rondo_nccl_shared_release(comm->shared, mode);
  return status == RONDO_SUCCESS ? released : status;
}

// `mode`: enum rondo_destroy_mode.
static int comm_destroy(rondo_nccl_comm_t handle, const char *call, int mode) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_remove(handle, call);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  rondo_nccl_comm_begin_busy(comm); // the split that creates it opens it before or not at all
  comm->is_destroyed = true;
  bool is_created = comm->comm.handle != 0;
  rondo_nccl_comm_end_busy(comm);
  if (mode == RONDO_DESTROY_ABORT && is_created)
    (void)rondo_comm_abort(comm->shared->ctx, comm->comm);
  rondo_nccl_splits_drain(comm);
  int status =
      is_created ? comm_destroy_inner(comm, mode) : rondo_nccl_shared_release(comm->shared, mode);
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, comm->shared->device, "comm %p rank %d nranks %d - %s",
                  (void *)comm, comm->rank, comm->rank_count,
                  mode == RONDO_DESTROY_ABORT ? "Abort COMPLETE" : "Destroy COMPLETE");
  rondo_nccl_comm_unref(comm);
  if (status == RONDO_ERR_BUSY)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: a graph still holds calls of the communicator, so its memory is "
                             "kept until the process ends",
                             call);
  if (status == RONDO_ERR_TIMEOUT)
    return rondo_nccl_refuse(RONDO_NCCL_REMOTE_ERROR,
                             "%s: calls were outstanding for a minute and have been aborted", call);
  return rondo_nccl_check_status(status, call);
}

RONDO_NCCL_DEFINE(int, CommDestroy, (rondo_nccl_comm_t handle)) {
  return handle ? comm_destroy(handle, "ncclCommDestroy", RONDO_DESTROY_DRAIN) : RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, CommAbort, (rondo_nccl_comm_t handle)) {
  return handle ? comm_destroy(handle, "ncclCommAbort", RONDO_DESTROY_ABORT) : RONDO_NCCL_SUCCESS;
}

// NOLINTEND(readability-identifier-naming)
