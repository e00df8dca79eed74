#include "runtime/rank/handles.h"

#include <pthread.h>

#include "base/fence.h"
#include "base/fork.h"
#include "base/log.h"
#include "runtime/rank/callers.h"

struct handle_slot {
  uint64_t handle; // 0: free
  uint32_t users;  // calls that are inside and that no visitor tells
  uint32_t closing;
  struct rondo_rank *rank;
  uint64_t generation;
  uint64_t inherited; // generations up to this one are those of `maker`; 0: none
  int64_t maker;      // the process from which this one was forked
  uint8_t line[RONDO_LINE_BYTES - 48];
};

static struct handle_slot slots[RONDO_MAX_CONTEXTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t slots_used;         // how many of the first ones have ever had a handle
static uint32_t has_told_of_parent; // 1: the log says that a context belongs to another process

static struct handle_slot *slot_of(uint64_t handle) { return &slots[handle % RONDO_MAX_CONTEXTS]; }

// Calls that are inside, or about to be refused.
static uint32_t users_of(uint64_t handle) {
  uint32_t visits = rondo_callers_inside(handle, RONDO_MAX_CONTEXTS);
  return visits + rondo_load_seq_cst_u32(&slot_of(handle)->users);
}

uint64_t rondo_handle_create(struct rondo_rank *rank) {
  uint64_t handle = 0;
  rondo_fence_open();
  pthread_mutex_lock(&slots_lock);
  for (uint64_t i = 0; i < RONDO_MAX_CONTEXTS && !handle; i++) {
    struct handle_slot *slot = &slots[i];
    if (rondo_load_relaxed_u64(&slot->handle) || users_of(i))
      continue;
    slot->generation++;
    slot->rank = rank;
    slots_used = i < slots_used ? slots_used : i + 1;
    rondo_store_relaxed_u32(&slot->closing, 0);
    handle = slot->generation * RONDO_MAX_CONTEXTS + i;
    rondo_store_seq_cst_u64(&slot->handle, handle);
  }
  pthread_mutex_unlock(&slots_lock);
  return handle;
}

void rondo_handle_destroy(uint64_t handle) { rondo_store_seq_cst_u64(&slot_of(handle)->handle, 0); }

// The handles are the parent's and are refused with RONDO_ERR_CLOSED from now on.
static void handles_forked(void) {
  for (uint64_t i = 0; i < slots_used; i++) {
    struct handle_slot *slot = &slots[i];
    slot->handle = 0;
    slot->users = 0;
    if (slot->generation > slot->inherited) {
      slot->inherited = slot->generation;
      slot->maker = rondo_forked_from();
    }
  }
  slots_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
  has_told_of_parent = 0;
}
RONDO_ON_FORK(handles_forked)

// Says why a handle finds no context. A child process that goes on using its parent's contexts is told
// once, because it may do so in a loop.
static int refuse_unknown(struct rondo_context ctx, const char *call) {
  const struct handle_slot *slot = slot_of(ctx.handle);
  uint64_t generation = ctx.handle / RONDO_MAX_CONTEXTS;
  if (!generation || generation > slot->inherited)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: no such context (destroyed, or never made)",
                            call);
  if (rondo_try_swap_seq_cst_u32(&has_told_of_parent, 0, 1))
    rondo_log(RONDO_LOG_ERROR,
              "%s: this context belongs to process %lld, from which this one was forked; a child "
              "process must make contexts of its own (said once)",
              call, (long long)slot->maker);
  return RONDO_ERR_CLOSED;
}

int rondo_rank_pin(struct rondo_context ctx, const char *call, struct rondo_rank **rank) {
  struct handle_slot *slot = slot_of(ctx.handle);
  if (!rondo_caller_enter(ctx.handle))
    rondo_fetch_add_seq_cst_u32(&slot->users, 1);
  int known = ctx.handle != 0 && rondo_load_seq_cst_u64(&slot->handle) == ctx.handle;
  if (known && !rondo_load_seq_cst_u32(&slot->closing)) {
    *rank = slot->rank;
    return RONDO_SUCCESS;
  }
  rondo_rank_unpin(ctx);
  if (known)
    return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "%s: the context is being destroyed", call);
  return refuse_unknown(ctx, call);
}

void rondo_rank_unpin(struct rondo_context ctx) {
  if (!rondo_caller_leave())
    rondo_fetch_add_seq_cst_u32(&slot_of(ctx.handle)->users, (uint32_t)-1);
}

int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank) {
  int status = rondo_rank_pin(ctx, "destroy", rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (rondo_try_swap_seq_cst_u32(&slot_of(ctx.handle)->closing, 0, 1))
    return RONDO_SUCCESS;
  rondo_rank_unpin(ctx);
  return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "destroy: the context is being destroyed already");
}

uint32_t rondo_rank_users(struct rondo_context ctx) { return users_of(ctx.handle); }
