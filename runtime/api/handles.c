// Context handles: an index and a generation, so that a handle kept too long is refused.
#include "daemon/driver/fence.h"
#include "runtime/api/rank.h"
#include "runtime/api/visitors.h"
#include "runtime/observe/log.h"

struct handle_slot {
  uint64_t handle; // 0: free
  uint32_t users;  // calls that are inside and that no visitor tells
  uint32_t closing;
  struct rondo_rank *rank;
  uint64_t generation;
  uint8_t line[RONDO_LINE_BYTES - 32];
};

static struct handle_slot slots[RONDO_MAX_CONTEXTS];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER;

static struct handle_slot *slot_of(uint64_t handle) { return &slots[handle % RONDO_MAX_CONTEXTS]; }

// Calls that are inside, or about to be refused.
static uint32_t users_of(uint64_t handle) {
  uint32_t visits = rondo_visits(handle, RONDO_MAX_CONTEXTS);
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
    rondo_store_relaxed_u32(&slot->closing, 0);
    handle = slot->generation * RONDO_MAX_CONTEXTS + i;
    rondo_store_seq_cst_u64(&slot->handle, handle);
  }
  pthread_mutex_unlock(&slots_lock);
  return handle;
}

void rondo_handle_destroy(uint64_t handle) { rondo_store_seq_cst_u64(&slot_of(handle)->handle, 0); }

int rondo_rank_enter(struct rondo_context ctx, const char *call, struct rondo_rank **rank) {
  struct handle_slot *slot = slot_of(ctx.handle);
  if (!rondo_visit_begin(ctx.handle))
    rondo_fetch_add_seq_cst_u32(&slot->users, 1);
  int known = ctx.handle != 0 && rondo_load_seq_cst_u64(&slot->handle) == ctx.handle;
  if (known && !rondo_load_seq_cst_u32(&slot->closing)) {
    *rank = slot->rank;
    return RONDO_SUCCESS;
  }
  rondo_rank_exit(ctx);
  if (known)
    return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "%s: the context is being destroyed", call);
  return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: no such context (destroyed, or never made)",
                          call);
}

void rondo_rank_exit(struct rondo_context ctx) {
  if (!rondo_visit_end())
    rondo_fetch_add_seq_cst_u32(&slot_of(ctx.handle)->users, (uint32_t)-1);
}

int rondo_rank_close(struct rondo_context ctx, struct rondo_rank **rank) {
  int status = rondo_rank_enter(ctx, "destroy", rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (rondo_try_swap_seq_cst_u32(&slot_of(ctx.handle)->closing, 0, 1))
    return RONDO_SUCCESS;
  rondo_rank_exit(ctx);
  return RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "destroy: the context is being destroyed already");
}

uint32_t rondo_rank_users(struct rondo_context ctx) { return users_of(ctx.handle); }
