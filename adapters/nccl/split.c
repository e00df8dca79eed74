#include "adapters/nccl/split.h"

#include <stdlib.h>

#include "adapters/nccl/debug.h"
#include "adapters/nccl/explore.h"
#include "adapters/nccl/result.h"

// ---------------------------------------------------------------- children ---

// A bijection of 64 bits (the finalizer of splitmix64).
static uint64_t bits_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

uint64_t rondo_nccl_child_key(const struct rondo_nccl_comm *parent, uint64_t number) {
  if (RONDO_NCCL_FAULT(SPLIT_UNNUMBERED))
    number = 1;
  return bits_mix(bits_mix(parent->key + UINT64_C(0x9e3779b97f4a7c15)) + number);
}

struct rondo_nccl_comm *rondo_nccl_child_create(struct rondo_nccl_comm *parent,
                                                const struct rondo_nccl_settings *settings) {
  struct rondo_nccl_comm *child = rondo_nccl_comm_create(parent->shared, 0, parent->rank_count);
  if (!child)
    return NULL;
  rondo_nccl_settings_apply(settings, child);
  child->state = RONDO_NCCL_SPLITTING;
  return child;
}

int rondo_nccl_child_open(struct rondo_nccl_comm *child) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_context ctx = child->shared->ctx;
  int status = rondo_group_create(ctx, child->ranks, (uint32_t)child->rank_count, &cfg.group);
  if (status != RONDO_SUCCESS)
    return status;
  cfg.key = child->key;
  status = rondo_comm_create(ctx, &cfg, &child->comm);
  (void)rondo_group_destroy(ctx, cfg.group);
  return status;
}

void rondo_nccl_child_log(const struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                          const char *call, uint64_t number, struct rondo_nccl_choice mine) {
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, child->shared->device,
                  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId 0 parent %p "
                  "childCount %llu color %d key %d - Init COMPLETE",
                  call, (const void *)child, child->rank, child->rank_count, child->shared->device,
                  child->shared->device, (const void *)parent, (unsigned long long)number,
                  mine.color, mine.key);
}

static bool choice_precedes(const struct rondo_nccl_choice *all, int rank, int other) {
  if (all[rank].key == all[other].key || RONDO_NCCL_FAULT(KEYS_IGNORED))
    return rank < other;
  return all[rank].key < all[other].key;
}

// The child's ranks are those that chose its color, sorted by key and then by rank of the parent.
static void child_set_ranks(struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                            const struct rondo_nccl_choice *all, struct rondo_nccl_choice mine) {
  int members = 0;
  child->rank = 0;
  for (int r = 0; r < parent->rank_count; r++) {
    if (all[r].color != mine.color)
      continue;
    int position = 0;
    for (int other = 0; other < parent->rank_count; other++)
      position += all[other].color == mine.color && choice_precedes(all, other, r);
    child->ranks[position] = RONDO_NCCL_FAULT(PARENT_RANKS) ? (uint32_t)r : parent->ranks[r];
    if (r == parent->rank)
      child->rank = position;
    members++;
  }
  child->rank_count = members;
}

// Opens the child, unless the program has destroyed it. Returns enum rondo_status.
static int child_begin(struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                       const struct rondo_nccl_choice *all, const struct rondo_nccl_split *s) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&child->lock);
  if (!child->is_destroyed) {
    child_set_ranks(child, parent, all, s->mine);
    status = rondo_nccl_child_open(child);
  }
  pthread_mutex_unlock(&child->lock);
  if (status == RONDO_SUCCESS)
    rondo_nccl_child_log(child, parent, "ncclCommSplit", s->number, s->mine);
  return status;
}

// The child is ready, or has failed with `status`.
static void child_set_ready(struct rondo_nccl_comm *child, int status) {
  pthread_mutex_lock(&child->lock);
  child->state = RONDO_NCCL_READY;
  child->error = rondo_nccl_result_from_status(status);
  struct rondo_nccl_comm *parent = child->parent;
  child->parent = NULL;
  pthread_mutex_unlock(&child->lock);
  if (parent)
    rondo_nccl_comm_unref(parent);
}

// ------------------------------------------------------------------ splits ---

struct rondo_nccl_split *rondo_nccl_split_create(struct rondo_nccl_comm *parent,
                                                 struct rondo_nccl_choice mine,
                                                 const struct rondo_nccl_settings *settings) {
  struct rondo_nccl_split *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->mine = mine;
  if (mine.color == RONDO_NCCL_NO_COLOR)
    return s;
  s->child = rondo_nccl_child_create(parent, settings);
  if (s->child)
    return s;
  free(s);
  return NULL;
}

static void split_free(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  (void)rondo_mem_free(parent->shared->ctx, s->send);
  (void)rondo_mem_free(parent->shared->ctx, s->all);
  if (s->child)
    rondo_nccl_comm_unref(s->child);
  free(s);
}

rondo_nccl_comm_t rondo_nccl_split_publish(struct rondo_nccl_comm *parent,
                                           struct rondo_nccl_split *split) {
  if (!split->child)
    return NULL;
  split->child->parent = parent;
  rondo_nccl_comm_ref(parent);
  rondo_nccl_comm_add(split->child);
  rondo_nccl_comm_ref(split->child); // one reference is the registry's, one the split's
  return split->child;
}

// Returns enum rondo_status.
static int split_gather_choices(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  struct rondo_context ctx = parent->shared->ctx;
  struct rondo_collective_desc what = rondo_all_gather(0, 2, RONDO_INT32);
  void *send = NULL, *all = NULL;
  int status = rondo_mem_alloc(ctx, sizeof *s->send, &send);
  if (status == RONDO_SUCCESS)
    status = rondo_mem_alloc(ctx, (size_t)parent->rank_count * sizeof *s->all, &all);
  if (status == RONDO_SUCCESS)
    status = rondo_mem_copy(ctx, send, &s->mine, sizeof s->mine);
  s->send = send;
  s->all = all;
  struct rondo_run_args args = {send, all, NULL, NULL};
  if (status == RONDO_SUCCESS)
    status = rondo_comm_call(ctx, parent->comm, &what, &args, &s->ticket);
  return status;
}

// The parent's lock is held, so that splits are numbered in the order of their calls. Returns enum
// rondo_status.
static int split_submit_locked(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  struct rondo_nccl_split **last = &parent->pending;
  s->number = parent->splits + 1;
  if (s->child)
    s->child->key = rondo_nccl_child_key(parent, s->number);
  int status = split_gather_choices(parent, s);
  if (status != RONDO_SUCCESS)
    return status;
  parent->splits++;
  while (*last)
    last = &(*last)->next;
  *last = s;
  return RONDO_SUCCESS;
}

int rondo_nccl_split_submit(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
                            rondo_nccl_comm_t *child) {
  pthread_mutex_lock(&parent->lock);
  int status = split_submit_locked(parent, split);
  if (status == RONDO_SUCCESS && child)
    *child = rondo_nccl_split_publish(parent, split);
  pthread_mutex_unlock(&parent->lock);
  if (status == RONDO_SUCCESS)
    return RONDO_NCCL_SUCCESS;
  rondo_nccl_split_fail(parent, split, status);
  return rondo_nccl_comm_refuse(parent, "ncclCommSplit", status, NULL);
}

void rondo_nccl_split_fail(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
                           int status) {
  if (split->child)
    child_set_ready(split->child, status);
  split_free(parent, split);
}

static void split_complete(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s, int status) {
  struct rondo_nccl_choice *all = NULL;
  if (s->child && status == RONDO_SUCCESS) {
    size_t bytes = (size_t)parent->rank_count * sizeof *all;
    all = malloc(bytes);
    status = all ? rondo_mem_copy(parent->shared->ctx, all, s->all, bytes) : RONDO_ERR_NO_MEMORY;
  }
  if (s->child && status == RONDO_SUCCESS)
    status = child_begin(s->child, parent, all, s);
  free(all);
  if (status != RONDO_SUCCESS)
    (void)rondo_nccl_comm_refuse(parent, "ncclCommSplit", status, &s->ticket);
  if (s->child)
    child_set_ready(s->child, status);
}

// Takes the oldest split off the list if it has ended. Null: there is none, or it has not ended.
static struct rondo_nccl_split *split_pop_ended(struct rondo_nccl_comm *parent, int *status) {
  pthread_mutex_lock(&parent->lock);
  struct rondo_nccl_split *s = parent->pending;
  if (s) {
    *status = rondo_comm_test(parent->shared->ctx, parent->comm, &s->ticket);
    if (*status == RONDO_IN_PROGRESS)
      s = NULL;
    else
      parent->pending = s->next;
  }
  pthread_mutex_unlock(&parent->lock);
  return s;
}

static int splits_complete_ended(struct rondo_nccl_comm *parent) {
  struct rondo_nccl_split *s;
  int status = RONDO_SUCCESS;
  while ((s = split_pop_ended(parent, &status))) {
    RONDO_NCCL_POINT("nccl.split");
    split_complete(parent, s, status);
    split_free(parent, s);
  }
  pthread_mutex_lock(&parent->lock);
  bool pending = parent->pending != NULL;
  pthread_mutex_unlock(&parent->lock);
  return pending ? RONDO_NCCL_IN_PROGRESS : RONDO_NCCL_SUCCESS;
}

int rondo_nccl_splits_poll(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  struct rondo_nccl_comm *parent = comm->parent;
  if (parent)
    rondo_nccl_comm_ref(parent);
  pthread_mutex_unlock(&comm->lock);
  if (parent) {
    (void)splits_complete_ended(parent);
    rondo_nccl_comm_unref(parent);
  }
  return splits_complete_ended(comm);
}

// Waits for the oldest split. False: there is none.
static bool split_wait_oldest(struct rondo_nccl_comm *comm, int64_t timeout_ns, int *status) {
  pthread_mutex_lock(&comm->lock);
  bool found = comm->pending != NULL;
  struct rondo_ticket ticket = {{0}, 0};
  if (found)
    ticket = comm->pending->ticket;
  pthread_mutex_unlock(&comm->lock);
  if (found)
    *status = rondo_comm_wait(comm->shared->ctx, comm->comm, &ticket, timeout_ns);
  return found;
}

int rondo_nccl_splits_wait(struct rondo_nccl_comm *comm) {
  int status = RONDO_SUCCESS;
  if (!comm->is_blocking)
    return splits_complete_ended(comm);
  while (status == RONDO_SUCCESS && split_wait_oldest(comm, RONDO_FOREVER, &status))
    (void)splits_complete_ended(comm);
  (void)splits_complete_ended(comm);
  return status == RONDO_SUCCESS ? RONDO_NCCL_SUCCESS
                                 : rondo_nccl_comm_refuse(comm, "ncclCommSplit", status, NULL);
}

void rondo_nccl_splits_drain(struct rondo_nccl_comm *comm, int64_t timeout_ns) {
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && split_wait_oldest(comm, timeout_ns, &status))
    (void)splits_complete_ended(comm);
  if (splits_complete_ended(comm) == RONDO_NCCL_SUCCESS)
    return;
  (void)rondo_comm_abort(comm->shared->ctx, comm->comm);
  status = RONDO_ERR_ABORTED;
  while (split_wait_oldest(comm, timeout_ns, &status) && status != RONDO_ERR_TIMEOUT)
    (void)splits_complete_ended(comm);
}

int rondo_nccl_split_check_created(struct rondo_nccl_comm *comm, const char *call) {
  (void)rondo_nccl_splits_poll(comm);
  pthread_mutex_lock(&comm->lock);
  int state = comm->state;
  pthread_mutex_unlock(&comm->lock);
  if (state != RONDO_NCCL_SPLITTING)
    return RONDO_NCCL_SUCCESS;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                           "%s: the split that creates the communicator is in progress", call);
}
