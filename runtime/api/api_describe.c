// What a collective is, whom it waits for, and why it fails.
#include "base/log.h"
#include "runtime/observe/report.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/handles.h"

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
