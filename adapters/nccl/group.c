#include "adapters/nccl/call.h"

#include <pthread.h>
#include <stdlib.h>

#include "adapters/nccl/debug.h"
#include "adapters/nccl/explore.h"

// A call, or a split: then only the name and the communicator of `call` are set.
struct entry {
  struct rondo_nccl_call call;
  bool is_split;
  bool is_paired;                 // a rank's send to itself and its receive, in one call
  bool differs;                   // the send or receive that it met is not equal: none pairs it
  struct rondo_nccl_split *split; // until it is submitted
};

struct group {
  unsigned depth;
  int result; // the first failure of a call
  struct entry *entries;
  size_t count, capacity;
};

static _Thread_local struct group group;

// The entries refer to communicators of the parent process, so the child process has no open group.
static void group_reset_in_child(void) {
  static const struct group none;
  group = none;
}
RONDO_NCCL_ON_FORK(group_reset_in_child)

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

int rondo_nccl_group_fail(int result) {
  if (group.depth && group.result == RONDO_NCCL_SUCCESS)
    group.result = result;
  return result;
}

static bool entry_is_unpaired(const struct entry *entry) {
  return rondo_nccl_call_is_to_self(&entry->call) && !entry->is_paired;
}

// Adds a rank's send to itself to the first receive that has none, or the receive to the send.
// False: there is none, or it is not equal.
static bool self_call_try_pair(const struct rondo_nccl_call *call) {
  struct entry *found = NULL;
  for (size_t i = 0; i < group.count; i++) {
    struct entry *e = &group.entries[i];
    if (e->call.comm != call->comm || !entry_is_unpaired(e) ||
        e->call.is_receive == call->is_receive)
      continue;
    found = e;
    if (!RONDO_NCCL_FAULT(SELF_SEND_CROSSED))
      break;
  }
  if (!found || found->differs)
    return false;
  found->differs =
      found->call.what.count != call->what.count || found->call.what.dtype != call->what.dtype;
  if (found->differs)
    return false;
  if (call->is_receive) {
    found->call.recv = call->recv;
  } else { // the call runs in the stream of the send
    found->call.send = call->send;
    found->call.stream = call->stream;
    found->call.name = call->name;
  }
  found->is_paired = true;
  return true;
}

// Takes the entry's reference to its communicator.
static int group_add(const struct entry *entry) {
  if (entry_is_unpaired(entry) && self_call_try_pair(&entry->call)) {
    rondo_nccl_comm_unref(entry->call.comm);
    return RONDO_NCCL_SUCCESS;
  }
  if (group.count == group.capacity) {
    size_t capacity = group.capacity ? 2 * group.capacity : 16;
    struct entry *entries = realloc(group.entries, capacity * sizeof *entries);
    if (!entries) {
      rondo_nccl_comm_unref(entry->call.comm);
      return rondo_nccl_group_fail(
          rondo_nccl_refuse(RONDO_NCCL_SYSTEM_ERROR, "%s: no memory", entry->call.name));
    }
    group.entries = entries;
    group.capacity = capacity;
  }
  group.entries[group.count++] = *entry;
  return RONDO_NCCL_SUCCESS;
}

int rondo_nccl_group_add_split(struct rondo_nccl_comm *comm, struct rondo_nccl_split *split) {
  struct entry entry = {
      .call = {.name = "ncclCommSplit", .comm = comm}, .is_split = true, .split = split};
  rondo_nccl_comm_ref(comm);
  int result = group_add(&entry);
  if (result != RONDO_NCCL_SUCCESS)
    rondo_nccl_split_end(comm, split, RONDO_ERR_NO_MEMORY);
  return result;
}

int rondo_nccl_group_call(struct rondo_nccl_call *call) {
  struct entry entry = {.call = *call};
  if (group.depth)
    return group_add(&entry);
  int result;
  if (rondo_nccl_call_is_to_self(call))
    result =
        rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                          "%s: a rank's send to itself and its receive need one group", call->name);
  else
    result = rondo_nccl_call_submit(call);
  if (result == RONDO_NCCL_SUCCESS)
    result = rondo_nccl_call_wait(call);
  rondo_nccl_comm_unref(call->comm);
  return result;
}

// Refuses a group in which a rank sends to itself without an equal receive, or the reverse.
static int self_calls_check(void) {
  const struct entry *alone = NULL; // the first send, or else the first receive
  for (size_t i = 0; i < group.count; i++) {
    const struct entry *e = &group.entries[i];
    if (entry_is_unpaired(e) && (!alone || (alone->call.is_receive && !e->call.is_receive)))
      alone = e;
  }
  if (!alone)
    return RONDO_NCCL_SUCCESS;
  bool is_receive = alone->call.is_receive;
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "ncclGroupEnd: rank %d %s itself without an equal %s",
                           alone->call.comm->rank, is_receive ? "receives from" : "sends to",
                           is_receive ? "send" : "receive");
}

static int entry_submit(struct entry *entry) {
  struct rondo_nccl_split *split = entry->split;
  if (!entry->is_split)
    return rondo_nccl_call_submit(&entry->call);
  entry->split = NULL;
  return rondo_nccl_split_submit(entry->call.comm, split);
}

// Submits the entries up to the first that is refused: a later call of that communicator would
// match with a wrong call of its peers.
static int entries_submit(size_t *submitted) {
  int result = RONDO_NCCL_SUCCESS;
  if (RONDO_NCCL_FAULT(GROUP_DROPS) && group.count > 3)
    rondo_nccl_comm_unref(group.entries[--group.count].call.comm);
  while (*submitted < group.count && result == RONDO_NCCL_SUCCESS) {
    size_t at = RONDO_NCCL_FAULT(GROUP_REVERSED) ? group.count - 1 - *submitted : *submitted;
    RONDO_NCCL_POINT("nccl.group");
    result = entry_submit(&group.entries[at]);
    *submitted += result == RONDO_NCCL_SUCCESS;
  }
  return result;
}

// Waits for the submitted entries. Returns the first failure, else RONDO_NCCL_IN_PROGRESS if a
// split is in progress.
static int entries_wait(size_t submitted) {
  int result = RONDO_NCCL_SUCCESS;
  for (size_t i = 0; i < submitted; i++) {
    const struct entry *e = &group.entries[i];
    int one = e->is_split ? rondo_nccl_splits_wait(e->call.comm) : rondo_nccl_call_wait(&e->call);
    if (result == RONDO_NCCL_SUCCESS ||
        (result == RONDO_NCCL_IN_PROGRESS && one != RONDO_NCCL_SUCCESS))
      result = one;
  }
  return result;
}

static int group_run(void) {
  size_t submitted = 0;
  int result = self_calls_check();
  if (result != RONDO_NCCL_SUCCESS)
    return result;
  // Calls of a group in one stream do not wait for each other, so a send and a receive may come in
  // any order.
  (void)rondo_streams_hold();
  result = entries_submit(&submitted);
  int released = rondo_nccl_check_status(rondo_streams_release(), "ncclGroupEnd");
  int waited = entries_wait(submitted);
  if (result == RONDO_NCCL_SUCCESS)
    result = released;
  return result == RONDO_NCCL_SUCCESS ? waited : result;
}

static void group_clear(void) {
  for (size_t i = 0; i < group.count; i++) {
    if (group.entries[i].split)
      rondo_nccl_split_end(group.entries[i].call.comm, group.entries[i].split, RONDO_ERR_CLOSED);
    rondo_nccl_comm_unref(group.entries[i].call.comm);
  }
  free(group.entries);
  group = (struct group){0};
}

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.

RONDO_NCCL_DEFINE(int, GroupStart, (void)) {
  group.depth++;
  return RONDO_NCCL_SUCCESS;
}

// NCCL, too, ends the group without making its calls.
RONDO_NCCL_DEFINE(int, GroupSimulateEnd, (void *info)) {
  (void)info;
  if (group.depth > 1) {
    group.depth--;
    return RONDO_NCCL_SUCCESS;
  }
  group_clear();
  return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE,
                           "ncclGroupSimulateEnd: not supported: Rondo cannot estimate the time of "
                           "a group; the group has ended and its calls were not made");
}

RONDO_NCCL_DEFINE(int, GroupEnd, (void)) {
  if (!group.depth)
    return rondo_nccl_refuse(RONDO_NCCL_INVALID_USAGE, "ncclGroupEnd: no group is open");
  if (group.depth > 1) {
    group.depth--;
    return RONDO_NCCL_SUCCESS;
  }
  int result = group.result == RONDO_NCCL_SUCCESS ? group_run() : group.result;
  group_clear();
  return result;
}

// NOLINTEND(readability-identifier-naming)
