#include "adapters/nccl/comm.h"

#include <stdlib.h>

#include "adapters/nccl/debug.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rondo_nccl_comm *registry;
static bool is_child_process; // forked from a process that had communicators

// Communicators stay with the parent process, because they need its threads. The child must not
// look into them: a thread that the child does not have may hold their locks.
static void registry_reset_in_child(void) {
  is_child_process = is_child_process || registry;
  registry = NULL;
  registry_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_NCCL_ON_FORK(registry_reset_in_child)

struct rondo_nccl_comm *rondo_nccl_comm_create(struct rondo_nccl_shared *shared, int rank,
                                               int rank_count) {
  struct rondo_nccl_comm *comm = calloc(1, sizeof *comm);
  uint32_t *ranks = calloc((size_t)rank_count, sizeof *ranks);
  if (!comm || !ranks) {
    free(comm);
    free(ranks);
    return NULL;
  }
  for (int i = 0; i < rank_count; i++)
    ranks[i] = (uint32_t)i;
  comm->ranks = ranks;
  comm->rank = rank;
  comm->rank_count = rank_count;
  comm->is_blocking = true;
  comm->references = 1;
  comm->shared = shared;
  shared->references++;
  pthread_mutex_init(&comm->lock, NULL);
  pthread_cond_init(&comm->idle, NULL);
  return comm;
}

void rondo_nccl_comm_add(struct rondo_nccl_comm *comm) {
  comm->shared->comms++;
  pthread_mutex_lock(&registry_lock);
  comm->next = registry;
  registry = comm;
  pthread_mutex_unlock(&registry_lock);
}

// Finds a communicator in the registry. Its caller gets the registry's reference if `is_removed`,
// else a new one.
static struct rondo_nccl_comm *registry_get(rondo_nccl_comm_t handle, const char *call,
                                            bool is_removed) {
  struct rondo_nccl_comm **at = &registry;
  pthread_mutex_lock(&registry_lock);
  while (*at && *at != handle)
    at = &(*at)->next;
  struct rondo_nccl_comm *comm = *at;
  if (comm && is_removed)
    *at = comm->next;
  else if (comm)
    rondo_nccl_comm_ref(comm);
  pthread_mutex_unlock(&registry_lock);
  if (!comm)
    RONDO_NCCL_INVALID("%s: %p is not a communicator%s", call, (void *)handle,
                       is_child_process ? ", or it belongs to the parent process"
                                        : ", or it was destroyed");
  return comm;
}

struct rondo_nccl_comm *rondo_nccl_comm_find(rondo_nccl_comm_t handle, const char *call) {
  return registry_get(handle, call, false);
}

struct rondo_nccl_comm *rondo_nccl_comm_remove(rondo_nccl_comm_t handle, const char *call) {
  return registry_get(handle, call, true);
}

void rondo_nccl_comm_unref(struct rondo_nccl_comm *comm) {
  if (--comm->references)
    return;
  if (--comm->shared->references == 0)
    free(comm->shared);
  pthread_cond_destroy(&comm->idle);
  pthread_mutex_destroy(&comm->lock);
  free(comm->tracked);
  free(comm->ops);
  free(comm->ranks);
  free(comm);
}

void rondo_nccl_comm_begin_busy(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  while (comm->is_busy)
    pthread_cond_wait(&comm->idle, &comm->lock);
  comm->is_busy = true;
  pthread_mutex_unlock(&comm->lock);
}

void rondo_nccl_comm_end_busy(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->is_busy = false;
  pthread_cond_broadcast(&comm->idle);
  pthread_mutex_unlock(&comm->lock);
}

int rondo_nccl_shared_release(struct rondo_nccl_shared *shared, int mode) {
  return --shared->comms ? RONDO_SUCCESS : rondo_destroy(shared->ctx, mode, RONDO_NCCL_DRAIN_NS);
}

int rondo_nccl_comm_refuse(struct rondo_nccl_comm *comm, const char *call, int status,
                           const struct rondo_ticket *ticket) {
  char why[RONDO_REASON_BYTES] = "";
  int state = RONDO_SUCCESS;
  (void)rondo_comm_status(comm->shared->ctx, comm->comm, &state, why, sizeof why);
  if (why[0])
    return rondo_nccl_refuse(rondo_nccl_result_from_status(status), "%s: %s", call, why);
  if (!ticket || !ticket->coll.handle)
    return rondo_nccl_check_status(status, call);
  struct rondo_collective_desc own = {.kind = RONDO_KIND_COUNT};
  (void)rondo_reason(comm->shared->ctx, ticket->coll, why, sizeof why);
  (void)rondo_describe(comm->shared->ctx, ticket->coll, &own, NULL, 0, NULL);
  return rondo_nccl_refuse(rondo_nccl_result_from_status(status),
                           "%s: %s; rank %d called %s of %llu x %s, %s, root %u", call,
                           why[0] ? why : rondo_status_string(status), comm->rank,
                           rondo_kind_name(own.kind), (unsigned long long)own.count,
                           rondo_dtype_name(own.dtype), rondo_redop_name(own.redop), own.root);
}

// The ticket of a number that is tracked. The lock is held.
static struct rondo_ticket *tracked_at(struct rondo_nccl_comm *comm, size_t number) {
  return &comm->tracked[number & (comm->tracked_capacity - 1)];
}

// Copies the tracked ticket with `*number`, or the oldest one, whose number `*number` becomes, if
// that is newer. False: there is none.
static bool tracked_view(struct rondo_nccl_comm *comm, size_t *number,
                         struct rondo_ticket *ticket) {
  pthread_mutex_lock(&comm->lock);
  if (*number < comm->tracked_first)
    *number = comm->tracked_first;
  bool found = *number < comm->tracked_end;
  if (found)
    *ticket = *tracked_at(comm, *number);
  pthread_mutex_unlock(&comm->lock);
  return found;
}

// Forgets the oldest ticket if it has this number.
static void tracked_drop(struct rondo_nccl_comm *comm, size_t number) {
  pthread_mutex_lock(&comm->lock);
  comm->tracked_first += comm->tracked_first == number;
  pthread_mutex_unlock(&comm->lock);
}

static void tracked_drop_succeeded(struct rondo_nccl_comm *comm) {
  struct rondo_ticket ticket;
  for (size_t number = 0; tracked_view(comm, &number, &ticket); tracked_drop(comm, number))
    if (rondo_comm_test(comm->shared->ctx, comm->comm, &ticket) != RONDO_SUCCESS)
      return;
}

// Makes room for one more. False: no memory. The lock is held.
static bool tracked_grow(struct rondo_nccl_comm *comm) {
  if (comm->tracked_end - comm->tracked_first < comm->tracked_capacity)
    return true;
  size_t capacity = comm->tracked_capacity ? 2 * comm->tracked_capacity : 16;
  struct rondo_ticket *all = malloc(capacity * sizeof *all);
  if (!all)
    return false;
  for (size_t i = comm->tracked_first; i < comm->tracked_end; i++)
    all[i & (capacity - 1)] = *tracked_at(comm, i);
  free(comm->tracked);
  comm->tracked = all;
  comm->tracked_capacity = capacity;
  return true;
}

bool rondo_nccl_comm_track(struct rondo_nccl_comm *comm, const struct rondo_ticket *ticket) {
  if (!ticket->run) // captured into a graph: only the graph's runs can fail
    return true;
  tracked_drop_succeeded(comm);
  pthread_mutex_lock(&comm->lock);
  bool grown = tracked_grow(comm);
  if (grown)
    *tracked_at(comm, comm->tracked_end++) = *ticket;
  pthread_mutex_unlock(&comm->lock);
  return grown;
}

int rondo_nccl_comm_poll(struct rondo_nccl_comm *comm) {
  struct rondo_ticket ticket;
  tracked_drop_succeeded(comm);
  for (size_t number = 0; comm->error == RONDO_NCCL_SUCCESS && tracked_view(comm, &number, &ticket);
       number++) {
    int none = RONDO_NCCL_SUCCESS;
    int status = rondo_comm_test(comm->shared->ctx, comm->comm, &ticket);
    if (status != RONDO_SUCCESS && status != RONDO_IN_PROGRESS)
      (void)atomic_compare_exchange_strong(
          &comm->error, &none,
          rondo_nccl_comm_refuse(comm, "a call of the communicator", status, &ticket));
  }
  return comm->error;
}
