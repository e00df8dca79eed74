#include "adapters/nccl/call.h"

#include <stdlib.h>

#include "adapters/nccl/debug.h"
#include "adapters/nccl/explore.h"

#define SHRINK_ABORT 1 // NCCL_SHRINK_ABORT: abort the outstanding calls first

// What a rank passes to ncclCommSplit.
struct choice {
  int32_t color, key;
};

struct rondo_nccl_split {
  const char *call; // NCCL's name
  struct rondo_nccl_split *next;
  struct rondo_nccl_comm *child; // a reference; null: this rank chose NCCL_SPLIT_NOCOLOR
  struct choice mine;
  struct choice *send, *all; // from rondo_mem_alloc; `all` by rank of the parent
  struct rondo_ticket ticket;
  uint64_t number; // among the splits of the parent, from 1
};

// ---------------------------------------------------------------- children ---

// A bijection of 64 bits (the finalizer of splitmix64).
static uint64_t bits_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

// The key of the child of split `number`: equal on all ranks of a child, and different for each
// split.
static uint64_t child_key(const struct rondo_nccl_comm *parent, uint64_t number) {
  if (RONDO_NCCL_FAULT(SPLIT_UNNUMBERED))
    number = 1;
  return bits_mix(bits_mix(parent->key + UINT64_C(0x9e3779b97f4a7c15)) + number);
}

// Creates the communicator of Rondo for a child whose ranks are set. Returns enum rondo_status.
static int child_open(struct rondo_nccl_comm *child) {
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

static bool choice_precedes(const struct choice *all, int rank, int other) {
  if (all[rank].key == all[other].key || RONDO_NCCL_FAULT(KEYS_IGNORED))
    return rank < other;
  return all[rank].key < all[other].key;
}

// The child's ranks are those that chose its color, sorted by key and then by rank of the parent.
static void child_set_ranks(struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                            const struct choice *all, int32_t color) {
  int members = 0;
  child->rank = 0;
  for (int r = 0; r < parent->rank_count; r++) {
    if (all[r].color != color)
      continue;
    int position = 0;
    for (int other = 0; other < parent->rank_count; other++)
      position += all[other].color == color && choice_precedes(all, other, r);
    child->ranks[position] = RONDO_NCCL_FAULT(PARENT_RANKS) ? (uint32_t)r : parent->ranks[r];
    if (r == parent->rank)
      child->rank = position;
    members++;
  }
  child->rank_count = members;
}

// Opens the child of `s`, unless the program has destroyed it. The child is busy meanwhile, so that
// the program cannot destroy it. Returns enum rondo_status.
static int child_begin(const struct rondo_nccl_comm *parent, const struct rondo_nccl_split *s,
                       const struct choice *all) {
  struct rondo_nccl_comm *child = s->child;
  int status = RONDO_SUCCESS;
  rondo_nccl_comm_begin_busy(child);
  if (!child->is_destroyed) {
    child_set_ranks(child, parent, all, s->mine.color);
    status = child_open(child);
  }
  rondo_nccl_comm_end_busy(child);
  if (status == RONDO_SUCCESS)
    rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, child->shared->device,
                    "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId 0 parent %p "
                    "childCount %llu color %d key %d - Init COMPLETE",
                    s->call, (const void *)child, child->rank, child->rank_count,
                    child->shared->device, child->shared->device, (const void *)parent,
                    (unsigned long long)s->number, s->mine.color, s->mine.key);
  return status;
}

// The child is ready, or has failed with `status`.
static void child_set_ready(struct rondo_nccl_comm *child, int status) {
  pthread_mutex_lock(&child->lock);
  child->error = rondo_nccl_result_from_status(status);
  child->state = RONDO_NCCL_READY;
  struct rondo_nccl_comm *parent = child->parent;
  child->parent = NULL;
  pthread_mutex_unlock(&child->lock);
  if (parent)
    rondo_nccl_comm_unref(parent);
}

// Adds the child to the registry and returns its handle, null if there is none.
static rondo_nccl_comm_t child_publish(struct rondo_nccl_comm *child) {
  if (!child)
    return NULL;
  rondo_nccl_comm_add(child);
  rondo_nccl_comm_ref(child); // one reference is the registry's, one the split's
  return child;
}

// ------------------------------------------------------------------ splits ---

static void split_free(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  (void)rondo_mem_free(parent->shared->ctx, s->send);
  (void)rondo_mem_free(parent->shared->ctx, s->all);
  if (s->child)
    rondo_nccl_comm_unref(s->child);
  free(s);
}

// Allocates a split and its child. Null: no memory.
static struct rondo_nccl_split *split_create(struct rondo_nccl_comm *parent, const char *call,
                                             struct choice mine,
                                             const struct rondo_nccl_settings *settings) {
  struct rondo_nccl_split *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->call = call;
  s->mine = mine;
  if (mine.color == RONDO_NCCL_NO_COLOR)
    return s;
  s->child = rondo_nccl_comm_create(parent->shared, 0, parent->rank_count);
  if (!s->child) {
    free(s);
    return NULL;
  }
  s->child->is_blocking = settings->is_blocking;
  s->child->state = RONDO_NCCL_SPLITTING;
  return s;
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

static void split_append(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split) {
  struct rondo_nccl_split **last = &parent->pending;
  pthread_mutex_lock(&parent->lock);
  while (*last)
    last = &(*last)->next;
  *last = split;
  pthread_mutex_unlock(&parent->lock);
}

int rondo_nccl_split_submit(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split) {
  rondo_nccl_comm_begin_busy(parent); // so that splits are numbered in the order of their calls
  split->number = parent->splits + 1;
  if (split->child)
    split->child->key = child_key(parent, split->number);
  int status = split_gather_choices(parent, split);
  if (status == RONDO_SUCCESS) {
    parent->splits = split->number;
    split_append(parent, split);
  }
  rondo_nccl_comm_end_busy(parent);
  if (status == RONDO_SUCCESS)
    return RONDO_NCCL_SUCCESS;
  rondo_nccl_split_end(parent, split, status);
  return rondo_nccl_comm_refuse(parent, "ncclCommSplit", status, NULL);
}

void rondo_nccl_split_end(struct rondo_nccl_comm *parent, struct rondo_nccl_split *split,
                          int status) {
  if (split->child)
    child_set_ready(split->child, status);
  split_free(parent, split);
}

static void split_complete(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s, int status) {
  struct choice *all = NULL;
  if (s->child && status == RONDO_SUCCESS) {
    size_t bytes = (size_t)parent->rank_count * sizeof *all;
    all = malloc(bytes);
    status = all ? rondo_mem_copy(parent->shared->ctx, all, s->all, bytes) : RONDO_ERR_NO_MEMORY;
  }
  if (s->child && status == RONDO_SUCCESS)
    status = child_begin(parent, s, all);
  free(all);
  if (status != RONDO_SUCCESS)
    (void)rondo_nccl_comm_refuse(parent, s->call, status, &s->ticket);
  rondo_nccl_split_end(parent, s, status);
}

// Copies the number and the ticket of the oldest split. False: there is none.
static bool split_view_oldest(struct rondo_nccl_comm *parent, uint64_t *number,
                              struct rondo_ticket *ticket) {
  pthread_mutex_lock(&parent->lock);
  const struct rondo_nccl_split *s = parent->pending;
  if (s) {
    *number = s->number;
    *ticket = s->ticket;
  }
  pthread_mutex_unlock(&parent->lock);
  return s != NULL;
}

// Takes the oldest split off the list if it has this number, else another thread has taken that
// one. Null: it has another number.
static struct rondo_nccl_split *split_pop(struct rondo_nccl_comm *parent, uint64_t number) {
  pthread_mutex_lock(&parent->lock);
  struct rondo_nccl_split *s = parent->pending;
  if (s && s->number == number)
    parent->pending = s->next;
  else
    s = NULL;
  pthread_mutex_unlock(&parent->lock);
  return s;
}

// Takes the oldest split off the list if it has ended. Null: there is none, or it has not ended.
static struct rondo_nccl_split *split_pop_ended(struct rondo_nccl_comm *parent, int *status) {
  struct rondo_nccl_split *s = NULL;
  struct rondo_ticket ticket;
  uint64_t number = 0;
  while (!s && split_view_oldest(parent, &number, &ticket)) {
    *status = rondo_comm_test(parent->shared->ctx, parent->comm, &ticket);
    if (*status == RONDO_IN_PROGRESS)
      return NULL;
    s = split_pop(parent, number);
  }
  return s;
}

static int splits_complete_ended(struct rondo_nccl_comm *parent) {
  struct rondo_nccl_split *s;
  int status = RONDO_SUCCESS;
  while ((s = split_pop_ended(parent, &status))) {
    RONDO_NCCL_POINT("nccl.split");
    split_complete(parent, s, status);
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
  uint64_t number = 0;
  struct rondo_ticket ticket;
  bool found = split_view_oldest(comm, &number, &ticket);
  if (found)
    *status = rondo_comm_wait(comm->shared->ctx, comm->comm, &ticket, timeout_ns);
  return found;
}

// Waits for the splits, and completes them, until one fails or `timeout_ns` have passed. Returns
// enum rondo_status.
static int splits_await(struct rondo_nccl_comm *comm, int64_t timeout_ns) {
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && split_wait_oldest(comm, timeout_ns, &status))
    (void)splits_complete_ended(comm);
  return status;
}

int rondo_nccl_splits_wait(struct rondo_nccl_comm *comm) {
  if (!comm->is_blocking)
    return splits_complete_ended(comm);
  int status = splits_await(comm, RONDO_FOREVER);
  (void)splits_complete_ended(comm);
  return status == RONDO_SUCCESS ? RONDO_NCCL_SUCCESS
                                 : rondo_nccl_comm_refuse(comm, "ncclCommSplit", status, NULL);
}

void rondo_nccl_splits_drain(struct rondo_nccl_comm *comm) {
  int status = splits_await(comm, RONDO_NCCL_DRAIN_NS);
  if (splits_complete_ended(comm) == RONDO_NCCL_SUCCESS)
    return;
  (void)rondo_comm_abort(comm->shared->ctx, comm->comm);
  status = RONDO_ERR_ABORTED;
  while (split_wait_oldest(comm, RONDO_NCCL_DRAIN_NS, &status) && status != RONDO_ERR_TIMEOUT)
    (void)splits_complete_ended(comm);
}

int rondo_nccl_split_check_created(struct rondo_nccl_comm *comm, const char *call) {
  (void)rondo_nccl_splits_poll(comm);
  if (comm->state != RONDO_NCCL_SPLITTING)
    return RONDO_NCCL_SUCCESS;
  return RONDO_NCCL_INVALID("%s: the split that creates the communicator is in progress", call);
}

// ---------------------------------------------------------------- the calls ---

static int parent_check(const struct rondo_nccl_comm *parent, const char *call, const void *child) {
  if (!child)
    return RONDO_NCCL_INVALID("%s: the pointer to the new communicator is null", call);
  if (parent->state != RONDO_NCCL_READY || parent->error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: the communicator is not ready, has failed or was finalized",
                             call);
  return RONDO_NCCL_SUCCESS;
}

static int comm_split(struct rondo_nccl_comm *parent, struct choice mine,
                      const struct rondo_nccl_config *config, rondo_nccl_comm_t *child) {
  static const char call[] = "ncclCommSplit";
  struct rondo_nccl_settings settings;
  (void)rondo_nccl_splits_poll(parent);
  int result = parent_check(parent, call, child);
  if (result == RONDO_NCCL_SUCCESS && mine.color < RONDO_NCCL_NO_COLOR)
    result = RONDO_NCCL_INVALID("%s: color %d is negative", call, mine.color);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&settings, config, parent, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  struct rondo_nccl_split *s = split_create(parent, call, mine, &settings);
  if (!s)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  if (s->child) {
    s->child->parent = parent;
    rondo_nccl_comm_ref(parent);
  }
  rondo_nccl_comm_t published = child_publish(s->child);
  bool is_group = rondo_nccl_group_is_open();
  result = is_group ? rondo_nccl_group_add_split(parent, s) : rondo_nccl_split_submit(parent, s);
  if (result == RONDO_NCCL_SUCCESS)
    *child = published;
  else if (published)
    (void)pncclCommAbort(published);
  return result == RONDO_NCCL_SUCCESS && !is_group ? rondo_nccl_splits_wait(parent) : result;
}

// Gives the excluded ranks no color. False: `excluded` has this rank, or a number that is not a
// rank of the parent.
static bool choices_exclude(struct choice *all, const struct rondo_nccl_comm *parent,
                            const int *excluded, int excluded_count) {
  for (int i = 0; i < excluded_count; i++) {
    if (excluded[i] < 0 || excluded[i] >= parent->rank_count || excluded[i] == parent->rank)
      return false;
    all[excluded[i]].color = RONDO_NCCL_NO_COLOR;
  }
  return true;
}

static int comm_shrink(struct rondo_nccl_comm *parent, const int *excluded, int excluded_count,
                       const struct rondo_nccl_settings *settings, rondo_nccl_comm_t *rest) {
  static const char call[] = "ncclCommShrink";
  struct choice mine = {0, parent->rank};
  rondo_nccl_comm_begin_busy(parent);
  uint64_t number = ++parent->splits; // also if memory is out, as on the other ranks
  rondo_nccl_comm_end_busy(parent);
  struct rondo_nccl_split *s = split_create(parent, call, mine, settings);
  struct choice *all = s ? calloc((size_t)parent->rank_count, sizeof *all) : NULL;
  if (!all) {
    if (s)
      split_free(parent, s);
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  }
  s->number = number;
  s->child->key = child_key(parent, s->number);
  int result =
      choices_exclude(all, parent, excluded, excluded_count)
          ? rondo_nccl_check_status(child_begin(parent, s, all), call)
          : RONDO_NCCL_INVALID(
                "%s: an excluded rank is the caller's, or is not in the communicator", call);
  if (result == RONDO_NCCL_SUCCESS) {
    child_set_ready(s->child, RONDO_SUCCESS);
    *rest = child_publish(s->child);
  }
  split_free(parent, s);
  free(all);
  return result;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, CommShrink,
                  (rondo_nccl_comm_t handle, int *excluded, int excluded_count,
                   rondo_nccl_comm_t *rest, struct rondo_nccl_config *config, int flags)) {
  static const char call[] = "ncclCommShrink";
  struct rondo_nccl_settings settings;
  struct rondo_nccl_comm *parent = rondo_nccl_comm_find(handle, call);
  if (!parent)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = parent_check(parent, call, rest);
  if (result == RONDO_NCCL_SUCCESS && (!excluded || excluded_count < 1))
    result = RONDO_NCCL_INVALID("%s: no excluded ranks", call);
  if (result == RONDO_NCCL_SUCCESS && flags & ~SHRINK_ABORT)
    result = RONDO_NCCL_INVALID("%s: flags %d are unknown", call, flags);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&settings, config, parent, call);
  if (result == RONDO_NCCL_SUCCESS && flags & SHRINK_ABORT)
    (void)rondo_comm_abort(parent->shared->ctx, parent->comm);
  if (result == RONDO_NCCL_SUCCESS)
    result = comm_shrink(parent, excluded, excluded_count, &settings, rest);
  rondo_nccl_comm_unref(parent);
  return result;
}

RONDO_NCCL_DEFINE(int, CommRevoke, (rondo_nccl_comm_t handle, int flags)) {
  (void)handle, (void)flags;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "ncclCommRevoke: not supported: use ncclCommShrink with "
                           "NCCL_SHRINK_ABORT, which aborts the outstanding calls and goes on with "
                           "the other ranks");
}

RONDO_NCCL_DEFINE(int, CommSplit,
                  (rondo_nccl_comm_t handle, int color, int key, rondo_nccl_comm_t *child,
                   struct rondo_nccl_config *config)) {
  struct choice mine = {color, key};
  struct rondo_nccl_comm *parent = rondo_nccl_comm_find(handle, "ncclCommSplit");
  int result = parent ? comm_split(parent, mine, config, child) : RONDO_NCCL_INVALID_ARGUMENT;
  if (parent)
    rondo_nccl_comm_unref(parent);
  return result == RONDO_NCCL_IN_PROGRESS ? result : rondo_nccl_group_fail(result);
}

// NOLINTEND(readability-identifier-naming)
