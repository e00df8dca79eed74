#include "runtime/rank/handles.h"

#include <pthread.h>

#include "base/fence.h"
#include "base/fork.h"
#include "base/log.h"
#include "runtime/rank/callers.h"

struct handle_slot {
  uint64_t handle; // 0: free
  uint32_t users;  // calls inside that no caller record shows
  uint32_t closing;
  struct rondo_rank *rank;
  uint64_t generation;
  uint64_t inherited; // `maker` made the generations up to this one; 0: none
  int64_t maker;      // the parent process
  uint8_t line[RONDO_LINE_BYTES - 48];
};

static struct handle_slot slots[RONDO_MAX_CONTEXTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t slots_used;       // no slot from this one on has ever had a handle
static uint32_t is_parent_logged; // 1: the log says that a context belongs to the parent process

static struct handle_slot *slot_find(uint64_t handle) {
  return &slots[handle % RONDO_MAX_CONTEXTS];
}

// Counts the calls that are inside or about to be refused.
static uint32_t slot_count_users(uint64_t handle) {
  uint32_t callers = rondo_callers_count(handle, RONDO_MAX_CONTEXTS);
  return callers + rondo_load_seq_cst_u32(&slot_find(handle)->users);
}

uint64_t rondo_handle_create(struct rondo_rank *rank) {
  uint64_t handle = 0;
  rondo_fence_open();
  pthread_mutex_lock(&slots_lock);
  for (uint64_t i = 0; i < RONDO_MAX_CONTEXTS && !handle; i++) {
    struct handle_slot *slot = &slots[i];
    if (rondo_load_relaxed_u64(&slot->handle) || slot_count_users(i))
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

void rondo_handle_destroy(uint64_t handle) {
  rondo_store_seq_cst_u64(&slot_find(handle)->handle, 0);
}

// In the child the parent's handles are refused with RONDO_ERR_CLOSED.
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
  is_parent_logged = 0;
}
RONDO_ON_FORK(handles_forked)

// Refuses a handle without a context. Logs the use of a parent's context only once, because a child
// may repeat it in a loop.
static int handle_refuse(struct rondo_context ctx, const char *call) {
  const struct handle_slot *slot = slot_find(ctx.handle);
  uint64_t generation = ctx.handle / RONDO_MAX_CONTEXTS;
  if (!generation || generation > slot->inherited)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: unknown context (destroyed, or never made)",
                            call);
  if (rondo_try_swap_seq_cst_u32(&is_parent_logged, 0, 1))
    rondo_log(RONDO_LOG_ERROR,
              "%s: this context belongs to process %lld, from which this one was forked; a child "
              "process must make its own contexts (logged once)",
              call, (long long)slot->maker);
  return RONDO_ERR_CLOSED;
}

int rondo_rank_pin(struct rondo_context ctx, const char *call, struct rondo_rank **rank) {
  struct handle_slot *slot = slot_find(ctx.handle);
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
  return handle_refuse(ctx, call);
}

void rondo_rank_unpin(struct rondo_context ctx) {
  if (!rondo_caller_leave())
    rondo_fetch_add_seq_cst_u32(&slot_find(ctx.handle)->users, (uint32_t)-1);
}

int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank) {
  int status = rondo_rank_pin(ctx, "destroy", rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (rondo_try_swap_seq_cst_u32(&slot_find(ctx.handle)->closing, 0, 1))
    return RONDO_SUCCESS;
  rondo_rank_unpin(ctx);
  return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "destroy: the context is being destroyed already");
}

uint32_t rondo_rank_users(struct rondo_context ctx) { return slot_count_users(ctx.handle); }
