#include "adapters/nccl/group.h"

#include <pthread.h>
#include <stdlib.h>

#include "adapters/nccl/explore.h"
#include "adapters/nccl/result.h"
#include "adapters/nccl/say.h"

struct group {
  unsigned depth;
  int result; // the first that was not success
  struct rondo_nccl_call *calls;
  size_t call_count, call_capacity;
  struct rondo_nccl_comm **splits; // whose users these are
  size_t split_count;
};

static _Thread_local struct group group;

// In a child process no group is open: what the parent has kept in one are calls of its communicators.
static void after_fork(void) {
  static const struct group none;
  group = none;
}

__attribute__((constructor)) static void watch_forks(void) {
  (void)pthread_atfork(NULL, NULL, after_fork);
}

#if defined(RONDO_EXPLORE)
void rondo_nccl_group_exchange(void **other) {
  struct group *kept = *other ? *other : calloc(1, sizeof *kept);
  if (!kept)
    abort();
  struct group open = group;
  group = *kept;
  *kept = open;
  *other = kept;
}
#endif

bool rondo_nccl_group_is_open(void) { return group.depth > 0; }

int rondo_nccl_group_spoil(int result) {
  if (group.depth && group.result == RONDO_NCCL_SUCCESS)
    group.result = result;
  return result;
}

static int keep(struct rondo_nccl_call *call) {
  if (group.call_count == group.call_capacity) {
    size_t capacity = group.call_capacity ? 2 * group.call_capacity : 16;
    struct rondo_nccl_call *calls = realloc(group.calls, capacity * sizeof *calls);
    if (!calls) {
      rondo_nccl_comm_leave(call->comm);
      return rondo_nccl_group_spoil(
          rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", call->name));
    }
    group.calls = calls;
    group.call_capacity = capacity;
  }
  group.calls[group.call_count++] = *call;
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_group_add_split(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split) {
  struct rondo_nccl_call call = {.name = "ncclCommSplit", .comm = comm, .split = split};
  struct rondo_nccl_comm **splits =
      realloc(group.splits, (group.split_count + 1) * sizeof(struct rondo_nccl_comm *));
  if (!splits)
    return rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "ncclCommSplit: no memory");
  group.splits = splits;
  rondo_nccl_comm_hold(comm);
  int result = keep(&call);
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  rondo_nccl_comm_hold(comm);
  group.splits[group.split_count++] = comm;
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_group_take(struct rondo_nccl_call *call) {
  if (group.depth)
    return keep(call);
  int result;
  if (rondo_nccl_call_is_to_itself(call))
    result =
        rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                          "%s: a rank that sends to itself does both in one group", call->name);
  else
    result = rondo_nccl_call_submit(call);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_call_await(call);
  rondo_nccl_comm_leave(call->comm);
  return result;
}

// The first receive from itself that no send has yet; null: none.
static struct rondo_nccl_call *find_receive(const struct rondo_nccl_call *send) {
  struct rondo_nccl_call *found = NULL;
  for (size_t i = 0; i < group.call_count; i++) {
    struct rondo_nccl_call *c = &group.calls[i];
    if (c->comm != send->comm || !rondo_nccl_call_is_to_itself(c) || !c->is_receive || c->is_merged)
      continue;
    found = c;
    if (!RONDO_NCCL_FAULT(OWN_CROSSED))
      break;
  }
  return found;
}

static int refuse_alone(const struct rondo_nccl_call *call) {
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "ncclGroupEnd: rank %d has no equal %s for one of its %s itself",
                           call->comm->rank, call->is_receive ? "send" : "receive",
                           call->is_receive ? "receives from" : "sends to");
}

// A rank's sends to itself become one call each with their receives, first with first.
static int join_own(void) {
  for (size_t i = 0; i < group.call_count; i++) {
    struct rondo_nccl_call *send = &group.calls[i];
    if (!rondo_nccl_call_is_to_itself(send) || send->is_receive)
      continue;
    struct rondo_nccl_call *receive = find_receive(send);
    if (!receive || receive->what.count != send->what.count ||
        receive->what.dtype != send->what.dtype)
      return refuse_alone(send);
    send->recv = receive->recv;
    receive->is_merged = true;
  }
  for (size_t i = 0; i < group.call_count; i++) {
    const struct rondo_nccl_call *c = &group.calls[i];
    if (rondo_nccl_call_is_to_itself(c) && c->is_receive && !c->is_merged)
      return refuse_alone(c);
  }
  return RONDO_NCCL_SUCCESS;
}

// It is merged from then on: there is nothing to wait for as for a call.
static int submit_split(struct rondo_nccl_call *call) {
  struct rondo_nccl_split *split = call->split;
  call->split = NULL;
  call->is_merged = true;
  return rondo_nccl_split_submit(call->comm, split);
}

// Submits all. A call that is refused is the end of its communicator's part in the group, since
// what comes after it would be matched with what it is not.
static int submit_all(size_t *submitted) {
  int result = RONDO_NCCL_SUCCESS;
  *submitted = 0;
  if (RONDO_NCCL_FAULT(GROUP_DROPS) && group.call_count > 3)
    rondo_nccl_comm_leave(group.calls[--group.call_count].comm);
  while (*submitted < group.call_count && result == RONDO_NCCL_SUCCESS) {
    size_t at = RONDO_NCCL_FAULT(GROUP_REVERSED) ? group.call_count - 1 - *submitted : *submitted;
    struct rondo_nccl_call *call = &group.calls[at];
    RONDO_NCCL_POINT("nccl.group");
    if (call->split)
      result = submit_split(call);
    else if (!call->is_merged)
      result = rondo_nccl_call_submit(call);
    *submitted += result == RONDO_NCCL_SUCCESS;
  }
  return result;
}

static int await_all(size_t submitted) {
  int result = RONDO_NCCL_SUCCESS;
  for (size_t i = 0; i < submitted; i++) {
    const struct rondo_nccl_call *call = &group.calls[i];
    int one = call->is_merged ? RONDO_NCCL_SUCCESS : rondo_nccl_call_await(call);
    if (result == RONDO_NCCL_SUCCESS)
      result = one;
  }
  return result;
}

static int run_calls(void) {
  size_t submitted = 0;
  int result = join_own();
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  // Of the calls in one stream none waits for another: a send and a receive come in any order.
  (void)rondo_streams_hold();
  result = submit_all(&submitted);
  int released = rondo_nccl_passed_on(rondo_streams_release(), "ncclGroupEnd");
  int waited = await_all(submitted);
  if (result == RONDO_NCCL_SUCCESS)
    result = released;
  return result == RONDO_NCCL_SUCCESS ? waited : result;
}

static int run_splits(void) {
  int result = RONDO_NCCL_SUCCESS;
  for (size_t i = 0; i < group.split_count; i++) {
    int one = rondo_nccl_split_end(group.splits[i]);
    if (result == RONDO_NCCL_SUCCESS || one != RONDO_NCCL_SUCCESS)
      result = one;
  }
  return result;
}

static void forget_all(void) {
  for (size_t i = 0; i < group.call_count; i++) {
    if (group.calls[i].split)
      rondo_nccl_split_drop(group.calls[i].comm, group.calls[i].split, RONDO_ERR_CLOSED);
    rondo_nccl_comm_leave(group.calls[i].comm);
  }
  for (size_t i = 0; i < group.split_count; i++)
    rondo_nccl_comm_leave(group.splits[i]);
  free(group.calls);
  free(group.splits);
  group = (struct group){0};
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, GroupStart, (void)) {
  group.depth++;
  return RONDO_NCCL_SUCCESS;
}

// In NCCL it ends the group without making the calls. Were the group left open, it would take all that comes.
RONDO_NCCL_DEFINE(int, GroupSimulateEnd, (void *info)) {
  (void)info;
  if (group.depth > 1) {
    group.depth--;
    return RONDO_NCCL_SUCCESS;
  }
  forget_all();
  return rondo_nccl_refuse(
      RONDO_NCCL_INVALID_USAGE,
      "ncclGroupSimulateEnd: not supported: nothing estimates how long a group "
      "takes; the group has ended, and its calls were not made");
}

RONDO_NCCL_DEFINE(int, GroupEnd, (void)) {
  if (!group.depth)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                             "ncclGroupEnd: there is no group that it could end");
  if (group.depth > 1) {
    group.depth--;
    return RONDO_NCCL_SUCCESS;
  }
  int result = group.result;
  if (result == RONDO_NCCL_SUCCESS)
    result = run_calls();
  int splits = run_splits();
  if (result == RONDO_NCCL_SUCCESS)
    result = splits;
  forget_all();
  return result;
}

// NOLINTEND(readability-identifier-naming)
