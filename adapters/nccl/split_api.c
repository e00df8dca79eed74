// The exported ncclCommSplit, ncclCommShrink and ncclCommRevoke. A shrink needs no call of the
// parent: every rank that stays passes the same excluded ranks.
#include "adapters/nccl/debug.h"
#include "adapters/nccl/group.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/split.h"

#define SHRINK_ABORT 1 // NCCL_SHRINK_ABORT: abort the outstanding calls first

static int parent_check(struct rondo_nccl_comm *parent, const char *call, const void *child) {
  pthread_mutex_lock(&parent->lock);
  int state = parent->state, error = parent->error;
  pthread_mutex_unlock(&parent->lock);
  if (!child)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: the pointer to the new communicator is null", call);
  if (state != RONDO_NCCL_READY || error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: the communicator is not ready, has failed or was finalized",
                             call);
  return RONDO_NCCL_SUCCESS;
}

// ------------------------------------------------------------------- split ---

static int split_submit_now(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s,
                            rondo_nccl_comm_t *child) {
  int result = rondo_nccl_split_submit(parent, s, child);
  return result == RONDO_NCCL_SUCCESS ? rondo_nccl_splits_wait(parent) : result;
}

static int split_add_to_group(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s,
                              rondo_nccl_comm_t *child) {
  rondo_nccl_comm_t published = rondo_nccl_split_publish(parent, s);
  int result = rondo_nccl_group_add_split(parent, s);
  if (result == RONDO_NCCL_SUCCESS) {
    *child = published;
    return result;
  }
  rondo_nccl_split_fail(parent, s, RONDO_ERR_NO_MEMORY);
  if (published)
    (void)pncclCommAbort(published);
  return result;
}

static int comm_split(struct rondo_nccl_comm *parent, struct rondo_nccl_choice mine,
                      const struct rondo_nccl_config *config, rondo_nccl_comm_t *child) {
  static const char call[] = "ncclCommSplit";
  struct rondo_nccl_settings settings;
  (void)rondo_nccl_splits_poll(parent);
  int result = parent_check(parent, call, child);
  if (result == RONDO_NCCL_SUCCESS && mine.color < RONDO_NCCL_NO_COLOR)
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: color %d is negative", call,
                               mine.color);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&settings, config, parent, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  struct rondo_nccl_split *s = rondo_nccl_split_create(parent, mine, &settings);
  if (!s)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  return rondo_nccl_group_is_open() ? split_add_to_group(parent, s, child)
                                    : split_submit_now(parent, s, child);
}

// ------------------------------------------------------------------ shrink ---

// False: `excluded` has this rank, or a number that is not a rank of the parent.
static bool child_exclude(struct rondo_nccl_comm *child, const struct rondo_nccl_comm *parent,
                          const int *excluded, int excluded_count) {
  int members = 0;
  for (int i = 0; i < excluded_count; i++)
    if (excluded[i] < 0 || excluded[i] >= parent->rank_count || excluded[i] == parent->rank)
      return false;
  for (int r = 0; r < parent->rank_count; r++) {
    bool stays = true;
    for (int i = 0; i < excluded_count; i++)
      stays &= excluded[i] != r;
    if (!stays)
      continue;
    if (r == parent->rank)
      child->rank = members;
    child->ranks[members++] = parent->ranks[r];
  }
  child->rank_count = members;
  return true;
}

static int comm_shrink(struct rondo_nccl_comm *parent, const int *excluded, int excluded_count,
                       const struct rondo_nccl_settings *settings, rondo_nccl_comm_t *rest) {
  static const char call[] = "ncclCommShrink";
  pthread_mutex_lock(&parent->lock);
  uint64_t number = ++parent->splits;
  pthread_mutex_unlock(&parent->lock);
  struct rondo_nccl_comm *child = rondo_nccl_child_create(parent, settings);
  if (!child)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  child->key = rondo_nccl_child_key(parent, number);
  if (!child_exclude(child, parent, excluded, excluded_count)) {
    rondo_nccl_comm_free(child);
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: an excluded rank is the caller's, or is not in the communicator",
                             call);
  }
  int status = rondo_nccl_child_open(child);
  if (status != RONDO_SUCCESS) {
    rondo_nccl_comm_free(child);
    return rondo_nccl_check_status(status, call);
  }
  child->state = RONDO_NCCL_READY;
  rondo_nccl_comm_add(child);
  rondo_nccl_child_log(child, parent, call, number, (struct rondo_nccl_choice){0, parent->rank});
  *rest = child;
  return RONDO_NCCL_SUCCESS;
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
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no excluded ranks", call);
  if (result == RONDO_NCCL_SUCCESS && flags & ~SHRINK_ABORT)
    result =
        rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: flags %d are unknown", call, flags);
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
  struct rondo_nccl_choice mine = {color, key};
  struct rondo_nccl_comm *parent = rondo_nccl_comm_find(handle, "ncclCommSplit");
  int result = parent ? comm_split(parent, mine, config, child) : RONDO_NCCL_INVALID_ARGUMENT;
  if (parent)
    rondo_nccl_comm_unref(parent);
  return result == RONDO_NCCL_IN_PROGRESS ? result : rondo_nccl_group_fail(result);
}

// NOLINTEND(readability-identifier-naming)
