// Groups and collectives: making, finding and describing them.
#include "base/log.h"
#include "runtime/observe/report.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/retry.h"

int rondo_group_create(struct rondo_context ctx, const uint32_t *ranks, uint32_t rank_count,
                       struct rondo_group *group) {
  RONDO_RETURN_PINNED(ctx, "group_create", rank, rondo_group_make(rank, ranks, rank_count, group));
}

int rondo_group_destroy(struct rondo_context ctx, struct rondo_group group) {
  RONDO_RETURN_PINNED(ctx, "group_destroy", rank, rondo_group_forget(rank, group));
}

int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll) {
  const struct rondo_register_request request = {
      .desc = desc, .id = {.number = desc ? desc->id : 0, .space = RONDO_SPACE_USER}};
  if (!coll)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: `coll` is null");
  bool retries = desc && desc->size == sizeof *desc && desc->on_loss == RONDO_ON_LOSS_RETRY;
  RONDO_RETURN_PINNED(ctx, "register", rank,
                      retries ? rondo_retry_register(rank, &request, coll)
                              : rondo_rank_register(rank, &request, coll));
}

static int collective_deregister(struct rondo_rank *rank, struct rondo_collective handle) {
  const struct rondo_coll *coll = rondo_coll_find(rank, handle);
  return coll && coll->retry ? rondo_retry_deregister(rank, handle)
                             : rondo_rank_deregister(rank, handle, 1);
}

int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll) {
  RONDO_RETURN_PINNED(ctx, "deregister", rank, collective_deregister(rank, coll));
}

int rondo_lookup(struct rondo_context ctx, uint64_t id, struct rondo_collective *coll) {
  if (!coll)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "lookup: `coll` is null");
  RONDO_RETURN_PINNED(ctx, "lookup", rank, rondo_rank_lookup(rank, id, coll));
}

int rondo_describe(struct rondo_context ctx, struct rondo_collective coll,
                   struct rondo_collective_desc *desc, uint32_t *ranks, uint32_t capacity,
                   uint32_t *rank_count) {
  struct rondo_rank *rank;
  struct rondo_rank_list list = {.ranks = ranks, .capacity = capacity};
  if (capacity && !ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "describe: `ranks` is null");
  int status = rondo_rank_pin(ctx, "describe", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_coll_describe(rank, coll, desc, &list);
  if (status == RONDO_SUCCESS && rank_count)
    *rank_count = list.count;
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_run_members(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                      uint32_t *ranks, uint32_t capacity, uint32_t *count) {
  struct rondo_rank_list list = {.ranks = ranks, .capacity = capacity};
  struct rondo_rank *rank;
  if (!count || (capacity && !ranks))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run_members: a null argument");
  int status = rondo_rank_pin(ctx, "run_members", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_retry_list_members(rank, coll, run, &list);
  if (status == RONDO_SUCCESS)
    *count = list.count;
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_missing(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                  uint32_t *ranks, uint32_t capacity, uint32_t *count) {
  struct rondo_rank *rank;
  struct rondo_rank_list list = {.ranks = ranks, .capacity = capacity};
  if (!count || (capacity && !ranks))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "missing: a null argument");
  int status = rondo_rank_pin(ctx, "missing", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_missing_list(rank, coll, run, &list);
  if (status == RONDO_SUCCESS)
    *count = list.count;
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_reason(struct rondo_context ctx, struct rondo_collective coll, char *text,
                 size_t text_bytes) {
  if (!text || !text_bytes)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "reason: a null argument");
  RONDO_RETURN_PINNED(ctx, "reason", rank, rondo_coll_get_reason(rank, coll, text, text_bytes));
}
