// ncclCommSplit and ncclCommShrink: communicators of some of the ranks of one, in the same context.
//
// Each rank of a split gathers what all of them chose, by a call of the communicator that is split,
// and then knows its own part. A shrink needs no call: its ranks know who is left.
#include <stdlib.h>
#include <string.h>

#include "adapters/nccl/comm.h"
#include "adapters/nccl/config.h"
#include "adapters/nccl/explore.h"
#include "adapters/nccl/group.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

#define SHRINK_ABORT 1 // NCCL_SHRINK_ABORT: ends what the communicator is doing first

struct choice {
  int32_t color, key;
};

struct rondo_nccl_split {
  struct rondo_nccl_split *next;
  struct rondo_nccl_comm *part; // whose user this is; null: this rank is in none
  struct choice mine;
  struct choice *send, *all; // of rondo_mem_alloc
  struct rondo_ticket ticket;
  uint64_t number;
};

// The same on all ranks of a part, and different for each part of a rank. A mixing of 64 bits that
// takes different numbers to different numbers (from splitmix64), twice.
static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint64_t key_of_part(const struct rondo_nccl_comm *parent, uint64_t number) {
  if (RONDO_NCCL_FAULT(SPLIT_UNNUMBERED))
    number = 1;
  return mixed(mixed(parent->key + UINT64_C(0x9e3779b97f4a7c15)) + number);
}

static void split_free(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  (void)rondo_mem_free(parent->home->ctx, s->send);
  (void)rondo_mem_free(parent->home->ctx, s->all);
  if (s->part)
    rondo_nccl_comm_leave(s->part);
  free(s);
}

// Makes the group and the communicator of a part whose ranks are known.
static int part_open(struct rondo_nccl_comm *part) {
  struct rondo_comm_config shape = RONDO_COMM_CONFIG_INIT;
  struct rondo_context ctx = part->home->ctx;
  int status = rondo_group_create(ctx, part->ranks, (uint32_t)part->rank_count, &shape.group);
  if (status != RONDO_SUCCESS)
    return status;
  shape.key = part->key;
  status = rondo_comm_create(ctx, &shape, &part->comm);
  (void)rondo_group_destroy(ctx, shape.group);
  return status;
}

// By key, and then by rank.
static bool comes_before(const struct choice *all, int rank, int other) {
  if (all[rank].key == all[other].key || RONDO_NCCL_FAULT(KEYS_IGNORED))
    return rank < other;
  return all[rank].key < all[other].key;
}

// The ranks of the parent that chose this color, by key and then by rank.
static void part_fill(struct rondo_nccl_comm *part, const struct rondo_nccl_comm *parent,
                      const struct choice *all, struct choice mine) {
  int members = 0;
  part->rank = 0;
  for (int r = 0; r < parent->rank_count; r++) {
    if (all[r].color != mine.color)
      continue;
    int at = 0; // how many are before it
    for (int other = 0; other < parent->rank_count; other++)
      at += all[other].color == mine.color && comes_before(all, other, r);
    part->ranks[at] = RONDO_NCCL_FAULT(PARENT_RANKS) ? (uint32_t)r : parent->ranks[r];
    if (r == parent->rank)
      part->rank = at;
    members++;
  }
  part->rank_count = members;
}

static void part_say(const struct rondo_nccl_comm *part, const struct rondo_nccl_comm *parent,
                     const char *call, const struct rondo_nccl_split *s) {
  rondo_nccl_info(RONDO_NCCL_SUBSYS_INIT, part->home->device,
                  "%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId 0 parent %p "
                  "childCount %llu color %d key %d - Init COMPLETE",
                  call, (const void *)part, part->rank, part->rank_count, part->home->device,
                  part->home->device, (const void *)parent, (unsigned long long)s->number,
                  s->mine.color, s->mine.key);
}

// The part becomes what its ranks chose, unless the program has ended it meanwhile.
static int part_begin(struct rondo_nccl_comm *part, const struct rondo_nccl_comm *parent,
                      const struct choice *all, const struct rondo_nccl_split *s) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&part->lock);
  if (!part->is_gone) {
    part_fill(part, parent, all, s->mine);
    status = part_open(part);
  }
  pthread_mutex_unlock(&part->lock);
  if (status == RONDO_SUCCESS)
    part_say(part, parent, "ncclCommSplit", s);
  return status;
}

// A part is there, or has failed.
static void part_end(struct rondo_nccl_comm *part, int status) {
  pthread_mutex_lock(&part->lock);
  part->state = RONDO_NCCL_READY;
  part->error = rondo_nccl_result_of(status);
  struct rondo_nccl_comm *parent = part->parent;
  part->parent = NULL;
  pthread_mutex_unlock(&part->lock);
  if (parent)
    rondo_nccl_comm_leave(parent);
}

static void split_end(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s, int status) {
  struct rondo_nccl_comm *part = s->part;
  struct choice *all = NULL;
  if (part && status == RONDO_SUCCESS) {
    size_t bytes = (size_t)parent->rank_count * sizeof *all;
    all = malloc(bytes);
    status = all ? rondo_mem_copy(parent->home->ctx, all, s->all, bytes) : RONDO_ERR_NO_MEMORY;
  }
  if (part && status == RONDO_SUCCESS)
    status = part_begin(part, parent, all, s);
  free(all);
  if (status != RONDO_SUCCESS)
    (void)rondo_nccl_comm_refuse(parent, "ncclCommSplit", status, &s->ticket);
  if (part)
    part_end(part, status);
}

// Takes the oldest split out of the list if it has ended; null: it has not, or there is none.
static struct rondo_nccl_split *take_ended(struct rondo_nccl_comm *parent, int *status) {
  pthread_mutex_lock(&parent->lock);
  struct rondo_nccl_split *s = parent->pending;
  if (s) {
    *status = rondo_comm_test(parent->home->ctx, parent->comm, &s->ticket);
    if (*status == RONDO_IN_PROGRESS)
      s = NULL;
    else
      parent->pending = s->next;
  }
  pthread_mutex_unlock(&parent->lock);
  return s;
}

static int settle_parts_of(struct rondo_nccl_comm *parent) {
  struct rondo_nccl_split *s;
  int status = RONDO_SUCCESS;
  while ((s = take_ended(parent, &status))) {
    RONDO_NCCL_POINT("nccl.split");
    split_end(parent, s, status);
    split_free(parent, s);
  }
  pthread_mutex_lock(&parent->lock);
  bool pending = parent->pending != NULL;
  pthread_mutex_unlock(&parent->lock);
  return pending ? RONDO_NCCL_IN_PROGRESS : RONDO_NCCL_SUCCESS;
}

int rondo_nccl_splits_settle(struct rondo_nccl_comm *comm) {
  pthread_mutex_lock(&comm->lock);
  struct rondo_nccl_comm *parent = comm->parent;
  if (parent)
    rondo_nccl_comm_hold(parent);
  pthread_mutex_unlock(&comm->lock);
  if (parent) {
    (void)settle_parts_of(parent);
    rondo_nccl_comm_leave(parent);
  }
  return settle_parts_of(comm);
}

// Waits for the oldest split. False: there is none.
static bool await_one(struct rondo_nccl_comm *comm, int64_t timeout_ns, int *status) {
  pthread_mutex_lock(&comm->lock);
  bool there = comm->pending != NULL;
  struct rondo_ticket ticket = {{0}, 0};
  if (there)
    ticket = comm->pending->ticket;
  pthread_mutex_unlock(&comm->lock);
  if (there)
    *status = rondo_comm_wait(comm->home->ctx, comm->comm, &ticket, timeout_ns);
  return there;
}

int rondo_nccl_split_end(struct rondo_nccl_comm *comm) {
  int status = RONDO_SUCCESS;
  if (!comm->is_blocking)
    return settle_parts_of(comm);
  while (status == RONDO_SUCCESS && await_one(comm, RONDO_FOREVER, &status))
    (void)settle_parts_of(comm);
  (void)settle_parts_of(comm);
  return status == RONDO_SUCCESS ? RONDO_NCCL_SUCCESS
                                 : rondo_nccl_comm_refuse(comm, "ncclCommSplit", status, NULL);
}

void rondo_nccl_splits_finish(struct rondo_nccl_comm *comm, int64_t timeout_ns) {
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS && await_one(comm, timeout_ns, &status))
    (void)settle_parts_of(comm);
  if (settle_parts_of(comm) == RONDO_NCCL_SUCCESS)
    return;
  (void)rondo_comm_abort(comm->home->ctx, comm->comm);
  status = RONDO_ERR_ABORTED;
  while (await_one(comm, timeout_ns, &status) && status != RONDO_ERR_TIMEOUT)
    (void)settle_parts_of(comm);
}

// --------------------------------------------------------------- beginning ---

// Makes the part's communicator, without its ranks.
static struct rondo_nccl_comm *part_make(struct rondo_nccl_comm *parent,
                                         const struct rondo_nccl_settings *settings) {
  struct rondo_nccl_comm *part = rondo_nccl_comm_make(parent->home, 0, parent->rank_count);
  if (!part)
    return NULL;
  rondo_nccl_settings_give(settings, part);
  part->state = RONDO_NCCL_PARTING;
  return part;
}

static int gather_choices(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  struct rondo_context ctx = parent->home->ctx;
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

static void append(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  struct rondo_nccl_split **at = &parent->pending;
  while (*at)
    at = &(*at)->next;
  *at = s;
}

static struct rondo_nccl_split *make_split(struct rondo_nccl_comm *parent, struct choice mine,
                                           const struct rondo_nccl_settings *settings) {
  struct rondo_nccl_split *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->mine = mine;
  if (mine.color == RONDO_NCCL_NO_COLOR)
    return s;
  s->part = part_make(parent, settings);
  if (s->part)
    return s;
  free(s);
  return NULL;
}

// Knows the part from now on, as the program does.
static void part_show(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s,
                      rondo_nccl_comm_t *out) {
  *out = s->part;
  if (!s->part)
    return;
  s->part->parent = parent;
  rondo_nccl_comm_hold(parent);
  rondo_nccl_comm_add(s->part);
  rondo_nccl_comm_hold(s->part); // the split's
}

// Calls and numbers have the same order: the lock is held. A status.
static int submit_locked(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s) {
  s->number = parent->splits + 1;
  if (s->part)
    s->part->key = key_of_part(parent, s->number);
  int status = gather_choices(parent, s);
  if (status == RONDO_SUCCESS) {
    parent->splits++;
    append(parent, s);
  }
  return status;
}

int rondo_nccl_split_submit(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split) {
  pthread_mutex_lock(&comm->lock);
  int status = submit_locked(comm, split);
  pthread_mutex_unlock(&comm->lock);
  if (status == RONDO_SUCCESS)
    return RONDO_NCCL_SUCCESS;
  rondo_nccl_split_drop(comm, split, status);
  return rondo_nccl_comm_refuse(comm, "ncclCommSplit", status, NULL);
}

void rondo_nccl_split_drop(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split,
                           int status) {
  if (split->part)
    part_end(split->part, status);
  split_free(comm, split);
}

static int begin_split(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s,
                       rondo_nccl_comm_t *out) {
  pthread_mutex_lock(&parent->lock);
  int status = submit_locked(parent, s);
  if (status == RONDO_SUCCESS)
    part_show(parent, s, out);
  pthread_mutex_unlock(&parent->lock);
  if (status == RONDO_SUCCESS)
    return rondo_nccl_split_end(parent);
  split_free(parent, s); // discards the part, which nobody knows
  return rondo_nccl_comm_refuse(parent, "ncclCommSplit", status, NULL);
}

static int keep_split(struct rondo_nccl_comm *parent, struct rondo_nccl_split *s,
                      rondo_nccl_comm_t *out) {
  rondo_nccl_comm_t shown = NULL;
  part_show(parent, s, &shown);
  int result = rondo_nccl_group_add_split(parent, s);
  if (result == RONDO_NCCL_SUCCESS) {
    *out = shown;
    return result;
  }
  rondo_nccl_split_drop(parent, s, RONDO_ERR_NO_MEMORY);
  if (shown)
    (void)pncclCommAbort(shown);
  return result;
}

static int check_parent(struct rondo_nccl_comm *parent, const char *call, const void *out) {
  pthread_mutex_lock(&parent->lock);
  int state = parent->state, error = parent->error;
  pthread_mutex_unlock(&parent->lock);
  if (!out)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no place for the communicator",
                             call);
  if (state != RONDO_NCCL_READY || error != RONDO_NCCL_SUCCESS)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "%s: the communicator is not there yet, or no longer", call);
  return RONDO_NCCL_SUCCESS;
}

static int split(struct rondo_nccl_comm *parent, struct choice mine,
                 const struct rondo_nccl_config *config, rondo_nccl_comm_t *out) {
  static const char call[] = "ncclCommSplit";
  struct rondo_nccl_settings settings;
  (void)rondo_nccl_splits_settle(parent);
  int result = check_parent(parent, call, out);
  if (result == RONDO_NCCL_SUCCESS && mine.color < RONDO_NCCL_NO_COLOR)
    result =
        rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: color %d is none", call, mine.color);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&settings, config, parent, call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  struct rondo_nccl_split *s = make_split(parent, mine, &settings);
  if (!s)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  return rondo_nccl_group_is_open() ? keep_split(parent, s, out) : begin_split(parent, s, out);
}

// ------------------------------------------------------------------ shrinking ---

// Leaves out `excluded` (of the parent's ranks). False: one is none, or this rank itself.
static bool part_exclude(struct rondo_nccl_comm *part, const struct rondo_nccl_comm *parent,
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
      part->rank = members;
    part->ranks[members++] = parent->ranks[r];
  }
  part->rank_count = members;
  return true;
}

static int shrink(struct rondo_nccl_comm *parent, const int *excluded, int excluded_count,
                  const struct rondo_nccl_settings *settings, rondo_nccl_comm_t *out) {
  static const char call[] = "ncclCommShrink";
  struct rondo_nccl_split said = {.mine = {0, parent->rank}};
  pthread_mutex_lock(&parent->lock);
  said.number = ++parent->splits;
  pthread_mutex_unlock(&parent->lock);
  struct rondo_nccl_comm *part = part_make(parent, settings);
  if (!part)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call);
  part->key = key_of_part(parent, said.number);
  if (!part_exclude(part, parent, excluded, excluded_count)) {
    rondo_nccl_comm_discard(part);
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT,
                             "%s: an excluded rank is none, or is the caller", call);
  }
  int status = part_open(part);
  if (status != RONDO_SUCCESS) {
    rondo_nccl_comm_discard(part);
    return rondo_nccl_passed_on(status, call);
  }
  part->state = RONDO_NCCL_READY;
  rondo_nccl_comm_add(part);
  part_say(part, parent, call, &said);
  *out = part;
  return RONDO_NCCL_SUCCESS;
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, CommShrink,
                  (rondo_nccl_comm_t handle, int *excluded, int excluded_count,
                   rondo_nccl_comm_t *rest, struct rondo_nccl_config *config, int flags)) {
  static const char call[] = "ncclCommShrink";
  struct rondo_nccl_settings settings;
  struct rondo_nccl_comm *parent = rondo_nccl_comm_enter(handle, call);
  if (!parent)
    return RONDO_NCCL_INVALID_ARGUMENT;
  int result = check_parent(parent, call, rest);
  if (result == RONDO_NCCL_SUCCESS && (!excluded || excluded_count < 1))
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: no rank to leave out", call);
  if (result == RONDO_NCCL_SUCCESS && flags & ~SHRINK_ABORT)
    result = rondo_nccl_refuse(RONDO_NCCL_INVALID_ARGUMENT, "%s: flags %d are none", call, flags);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_settings_read(&settings, config, parent, call);
  if (result == RONDO_NCCL_SUCCESS && flags & SHRINK_ABORT)
    (void)rondo_comm_abort(parent->home->ctx, parent->comm);
  if (result == RONDO_NCCL_SUCCESS)
    result = shrink(parent, excluded, excluded_count, &settings, rest);
  rondo_nccl_comm_leave(parent);
  return result;
}

RONDO_NCCL_DEFINE(int, CommRevoke, (rondo_nccl_comm_t handle, int flags)) {
  (void)handle, (void)flags;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "ncclCommRevoke: not supported: ncclCommShrink with NCCL_SHRINK_ABORT "
                           "ends what hangs and goes on with the ranks that are left");
}

RONDO_NCCL_DEFINE(int, CommSplit,
                  (rondo_nccl_comm_t handle, int color, int key, rondo_nccl_comm_t *part,
                   struct rondo_nccl_config *config)) {
  struct choice mine = {color, key};
  struct rondo_nccl_comm *parent = rondo_nccl_comm_enter(handle, "ncclCommSplit");
  int result = parent ? split(parent, mine, config, part) : RONDO_NCCL_INVALID_ARGUMENT;
  if (parent)
    rondo_nccl_comm_leave(parent);
  return result == RONDO_NCCL_IN_PROGRESS ? result : rondo_nccl_group_spoil(result);
}

// NOLINTEND(readability-identifier-naming)
