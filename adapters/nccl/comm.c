// Which communicators there are; what a program asks of one; its end.
#include "adapters/nccl/comm.h"

#include <stdlib.h>
#include <unistd.h>

#include "adapters/nccl/explore.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

#define GRAPH_POLLS 11 // the pause doubles each time: two seconds in all
#define GRAPH_POLL_US 1000u

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_nccl_comm *registry;
static bool is_child; // of a process that has had communicators

// They stay with the parent, whose threads they need. Here they are not looked at: their locks may be held for ever.
static void after_fork(void) {
  is_child = is_child || registry;
  registry = NULL;
  registry_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

__attribute__((constructor)) static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, after_fork);
}

struct rondo_nccl_comm *rondo_nccl_comm_make(struct rondo_nccl_home *home, int rank,
                                             int rank_count) {
  struct rondo_nccl_comm *comm = calloc(1, sizeof *comm);
  if (!comm)
    return NULL;
  comm->ranks = calloc((size_t)rank_count, sizeof *comm->ranks);
  if (!comm->ranks) {
    free(comm);
    return NULL;
  }
  for (int i = 0; i < rank_count; i++)
    comm->ranks[i] = (uint32_t)i;
  comm->rank = rank;
  comm->rank_count = rank_count;
  comm->is_blocking = true;
  comm->users = 1;
  pthread_mutex_init(&comm->lock, NULL);
  pthread_mutex_lock(&registry_lock);
  comm->home = home;
  home->holders++;
  pthread_mutex_unlock(&registry_lock);
  return comm;
}

void rondo_nccl_comm_discard(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&registry_lock);
  bool last = --comm->home->holders == 0;
  pthread_mutex_unlock(&registry_lock);
  if (last)
    free(comm->home);
  pthread_mutex_destroy(&comm->lock);
  free(comm->watched);
  free(comm->ops);
  free(comm->ranks);
  free(comm);
}

void rondo_nccl_comm_add(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&registry_lock);
  comm->home->comms++;
  comm->next = registry;
  registry = comm;
  pthread_mutex_unlock(&registry_lock);
}

bool rondo_nccl_comm_remove(struct rondo_nccl_comm *comm) {
  struct rondo_nccl_comm **at = &registry;
  pthread_mutex_lock(&registry_lock);
  while (*at && *at != comm)
    at = &(*at)->next;
  bool found = *at != NULL;
  if (found) {
    *at = comm->next;
    comm->users--; // the registry's; the caller is another
  }
  pthread_mutex_unlock(&registry_lock);
  return found;
}

struct rondo_nccl_comm *rondo_nccl_comm_enter(rondo_nccl_comm_t handle, const char *call) {
  pthread_mutex_lock(&registry_lock);
  struct rondo_nccl_comm *comm = registry;
  while (comm && comm != handle)
    comm = comm->next;
  if (comm)
    comm->users++;
  pthread_mutex_unlock(&registry_lock);
  if (!comm)
    rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: %p is no communicator, or is gone%s", call,
                      (void *)handle,
                      is_child ? ", or belongs to the process from which this one was forked" : "");
  return comm;
}

void rondo_nccl_comm_hold(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&registry_lock);
  comm->users++;
  pthread_mutex_unlock(&registry_lock);
}

void rondo_nccl_comm_leave(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&registry_lock);
  bool last = --comm->users == 0;
  pthread_mutex_unlock(&registry_lock);
  if (last)
    rondo_nccl_comm_discard(comm);
}

int rondo_nccl_home_leave(struct rondo_nccl_home *home, int mode) {
  pthread_mutex_lock(&registry_lock);
  bool last = --home->comms == 0;
  pthread_mutex_unlock(&registry_lock);
  if (!last)
    return RONDO_SUCCESS;
  return rondo_destroy(home->ctx, mode, RONDO_NCCL_DRAIN_NS);
}

int rondo_nccl_comm_refuse(struct rondo_nccl_comm *comm, const char *call, int status,
                           const struct rondo_ticket *ticket) {
  char why[RONDO_REASON_BYTES] = "";
  int state = RONDO_SUCCESS;
  (void)rondo_comm_status(comm->home->ctx, comm->comm, &state, why, sizeof why);
  if (why[0])
    return rondo_nccl_refuse(rondo_nccl_result_of(status), "%s: %s", call, why);
  if (!ticket || !ticket->coll.handle)
    return rondo_nccl_passed_on(status, call);
  struct rondo_collective_desc own = {.kind = RONDO_KIND_COUNT};
  (void)rondo_reason(comm->home->ctx, ticket->coll, why, sizeof why);
  (void)rondo_describe(comm->home->ctx, ticket->coll, &own, NULL, 0, NULL);
  return rondo_nccl_refuse(rondo_nccl_result_of(status),
                           "%s: %s; rank %d called %s of %llu x %s, %s, root %u", call,
                           why[0] ? why : rondo_status_string(status), comm->rank,
                           rondo_kind_name(own.kind), (unsigned long long)own.count,
                           rondo_dtype_name(own.dtype), rondo_redop_name(own.redop), own.root);
}

// The lock is held.
static struct rondo_ticket *watched_at(struct rondo_nccl_comm *comm, size_t i) {
  return &comm->watched[(comm->watched_first + i) & (comm->watched_capacity - 1)];
}

// Forgets the oldest calls that have ended well. The lock is held.
static void forget_ended(struct rondo_nccl_comm *comm) {
  while (comm->watched_count &&
         rondo_comm_test(comm->home->ctx, comm->comm, watched_at(comm, 0)) == RONDO_SUCCESS) {
    comm->watched_first = (comm->watched_first + 1) & (comm->watched_capacity - 1);
    comm->watched_count--;
  }
}

// Room for one more. The lock is held.
static bool watched_grow(struct rondo_nccl_comm *comm) {
  if (comm->watched_count < comm->watched_capacity)
    return true;
  size_t capacity = comm->watched_capacity ? 2 * comm->watched_capacity : 16;
  struct rondo_ticket *all = malloc(capacity * sizeof *all);
  if (!all)
    return false;
  for (size_t i = 0; i < comm->watched_count; i++)
    all[i] = *watched_at(comm, i);
  free(comm->watched);
  comm->watched = all;
  comm->watched_first = 0;
  comm->watched_capacity = capacity;
  return true;
}

bool rondo_nccl_comm_watch(struct rondo_nccl_comm *comm, const struct rondo_ticket *ticket) {
  if (!ticket->run) // captured: its runs are the graph's
    return true;
  pthread_mutex_lock(&comm->lock);
  forget_ended(comm);
  bool grown = watched_grow(comm);
  if (grown)
    *watched_at(comm, comm->watched_count++) = *ticket;
  pthread_mutex_unlock(&comm->lock);
  return grown;
}

int rondo_nccl_comm_look(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  forget_ended(comm);
  for (size_t i = 0; i < comm->watched_count && comm->error == RONDO_NCCL_SUCCESS; i++) {
    const struct rondo_ticket *ticket = watched_at(comm, i);
    int status = rondo_comm_test(comm->home->ctx, comm->comm, ticket);
    if (status != RONDO_SUCCESS && status != RONDO_IN_PROGRESS)
      comm->error = rondo_nccl_comm_refuse(comm, "a call of the communicator", status, ticket);
  }
  int error = comm->error;
  pthread_mutex_unlock(&comm->lock);
  return error;
}

// ----------------------------------------------------------------- asking ---

// The communicator that is asked, or null: refused with RONDO_NCCL_INVALID_ARGUMENT.
static struct rondo_nccl_comm *asked(rondo_nccl_comm_t handle, const char *call, const void *out) {
  if (out)
    return rondo_nccl_comm_enter(handle, call);
  (void)rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no place for the answer", call);
  return NULL;
}

// Calls that never end by themselves: those of a communicator that waits for nobody.
static int progress_of(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  bool asks = comm->state == RONDO_NCCL_FINALIZED ||
              (comm->home->backend == RONDO_BACKEND_HOST && !comm->is_blocking);
  pthread_mutex_unlock(&comm->lock);
  if (asks && !RONDO_NCCL_FAULT(DONE_EARLY) &&
      rondo_comm_test(comm->home->ctx, comm->comm, NULL) == RONDO_IN_PROGRESS)
    return RONDO_NCCL_IN_PROGRESS;
  return RONDO_NCCL_SUCCESS;
}

static int async_error_of(struct rondo_nccl_comm *comm) {
  int state = RONDO_SUCCESS;
  int settled = rondo_nccl_splits_settle(comm);
  pthread_mutex_lock(&comm->lock);
  bool is_there = comm->state != RONDO_NCCL_PARTING;
  pthread_mutex_unlock(&comm->lock);
  if (!is_there)
    return RONDO_NCCL_IN_PROGRESS;
  RONDO_NCCL_POINT("nccl.asked");
  int error = RONDO_NCCL_FAULT(MISMATCH_UNTOLD) ? RONDO_NCCL_SUCCESS : rondo_nccl_comm_look(comm);
  if (error != RONDO_NCCL_SUCCESS)
    return error;
  int status = rondo_comm_status(comm->home->ctx, comm->comm, &state, NULL, 0);
  if (status == RONDO_SUCCESS && !RONDO_NCCL_FAULT(MISMATCH_UNTOLD))
    status = state;
  if (status != RONDO_SUCCESS)
    return rondo_nccl_comm_refuse(comm, "the communicator", status, NULL);
  return settled == RONDO_NCCL_IN_PROGRESS ? settled : progress_of(comm);
}

// What a part is, is known when its split has ended.
static int check_there(struct rondo_nccl_comm *comm, const char *call) {
  (void)rondo_nccl_splits_settle(comm);
  pthread_mutex_lock(&comm->lock);
  int state = comm->state;
  pthread_mutex_unlock(&comm->lock);
  if (state != RONDO_NCCL_PARTING)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                           "%s: the split that makes the communicator is in progress", call);
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, CommGetAsyncError, (rondo_nccl_comm_t handle, int *error)) {
  struct rondo_nccl_comm *comm = asked(handle, "ncclCommGetAsyncError", error);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  *error = async_error_of(comm);
  rondo_nccl_comm_leave(comm);
  return RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, CommCount, (rondo_nccl_comm_t handle, int *count)) {
  struct rondo_nccl_comm *comm = asked(handle, "ncclCommCount", count);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = check_there(comm, "ncclCommCount");
  if (result == RONDO_NCCL_SUCCESS)
    *count = comm->rank_count;
  rondo_nccl_comm_leave(comm);
  return result;
}

RONDO_NCCL_DEFINE(int, CommUserRank, (rondo_nccl_comm_t handle, int *rank)) {
  struct rondo_nccl_comm *comm = asked(handle, "ncclCommUserRank", rank);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = check_there(comm, "ncclCommUserRank");
  if (result == RONDO_NCCL_SUCCESS)
    *rank = comm->rank;
  rondo_nccl_comm_leave(comm);
  return result;
}

RONDO_NCCL_DEFINE(int, CommCuDevice, (rondo_nccl_comm_t handle, int *device)) {
  struct rondo_nccl_comm *comm = asked(handle, "ncclCommCuDevice", device);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = check_there(comm, "ncclCommCuDevice");
  if (result == RONDO_NCCL_SUCCESS)
    *device = comm->home->device;
  rondo_nccl_comm_leave(comm);
  return result;
}

// ------------------------------------------------------------------ ending ---

RONDO_NCCL_DEFINE(int, CommFinalize, (rondo_nccl_comm_t handle)) {
  if (!handle)
    return RONDO_NCCL_SUCCESS;
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, "ncclCommFinalize");
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  pthread_mutex_lock(&comm->lock);
  int state = comm->state;
  if (state == RONDO_NCCL_READY)
    comm->state = RONDO_NCCL_FINALIZED;
  pthread_mutex_unlock(&comm->lock);
  int result = RONDO_NCCL_SUCCESS;
  if (state != RONDO_NCCL_READY)
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "ncclCommFinalize: %s",
                               state == RONDO_NCCL_PARTING ? "the split has not ended"
                                                           : "it was finalized before");
  else if (!comm->is_blocking)
    result = async_error_of(comm);
  else if (rondo_comm_wait(comm->home->ctx, comm->comm, NULL, RONDO_FOREVER) != RONDO_SUCCESS)
    result = async_error_of(comm);
  rondo_nccl_comm_leave(comm);
  return result;
}

// Ends Rondo's communicator and, with the last of its context, that. Graphs go by and by after they were
// destroyed, so they are given a while. What a graph still refers to is kept: RONDO_ERR_BUSY.
static int end_inside(struct rondo_nccl_comm *comm, int mode) {
  int status = RONDO_ERR_BUSY;
  for (int i = 0; i < GRAPH_POLLS && status == RONDO_ERR_BUSY; i++) {
    status = rondo_comm_destroy(comm->home->ctx, comm->comm, mode, RONDO_NCCL_DRAIN_NS);
    if (status == RONDO_ERR_BUSY)
      usleep(GRAPH_POLL_US << i);
  }
  if (status == RONDO_ERR_BUSY)
    return status;
  int last = rondo_nccl_home_leave(comm->home, mode);
  return status == RONDO_SUCCESS ? last : status;
}

// `mode`: enum rondo_destroy_mode.
static int end(rondo_nccl_comm_t handle, const char *call, int mode) {
  struct rondo_nccl_comm *comm = rondo_nccl_comm_enter(handle, call);
  if (!comm)
    return RONDO_NCCL_INVALID_ARGUMENT;
  if (!rondo_nccl_comm_remove(comm)) { // another thread ends it
    rondo_nccl_comm_leave(comm);
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: %p is gone", call, (void *)handle);
  }
  pthread_mutex_lock(&comm->lock);
  comm->is_gone = true;
  bool is_there = comm->comm.handle != 0;
  pthread_mutex_unlock(&comm->lock);
  int status = RONDO_SUCCESS;
  if (mode == RONDO_DESTROY_ABORT && is_there)
    (void)rondo_comm_abort(comm->home->ctx, comm->comm);
  rondo_nccl_splits_finish(comm, RONDO_NCCL_DRAIN_NS);
  if (is_there)
    status = end_inside(comm, mode);
  else
    status = rondo_nccl_home_leave(comm->home, mode);
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, comm->home->device, "comm %p rank %d nranks %d - %s",
                  (void *)comm, comm->rank, comm->rank_count,
                  mode == RONDO_DESTROY_ABORT ? "Abort COMPLETE" : "Destroy COMPLETE");
  rondo_nccl_comm_leave(comm);
  if (status == RONDO_ERR_BUSY)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: a graph with calls of it is there yet, so what they need is kept "
                             "until the process ends",
                             call);
  if (status == RONDO_ERR_TIMEOUT)
    return rondo_nccl_refuse(RONDO_NCCL_REMOTE_ERROR,
                             "%s: calls had not ended after a minute, and were aborted", call);
  return rondo_nccl_passed_on(status, call);
}

RONDO_NCCL_DEFINE(int, CommDestroy, (rondo_nccl_comm_t handle)) {
  return handle ? end(handle, "ncclCommDestroy", RONDO_DESTROY_DRAIN) : RONDO_NCCL_SUCCESS;
}

RONDO_NCCL_DEFINE(int, CommAbort, (rondo_nccl_comm_t handle)) {
  return handle ? end(handle, "ncclCommAbort", RONDO_DESTROY_ABORT) : RONDO_NCCL_SUCCESS;
}

// NOLINTEND(readability-identifier-naming)
