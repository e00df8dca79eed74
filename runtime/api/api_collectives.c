// Groups and collectives: making, finding and describing them.
#include "base/log.h"
#include "runtime/observe/report.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"

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
  if (desc && desc->reserved)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: a reserved field is not 0",
                            (unsigned long long)desc->id);
  RONDO_RETURN_PINNED(ctx, "register", rank, rondo_rank_register(rank, &request, coll));
}

int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll) {
  RONDO_RETURN_PINNED(ctx, "deregister", rank, rondo_rank_deregister(rank, coll, 1));
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
