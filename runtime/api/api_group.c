// Groups of ranks.
#include "base/log.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_group_create(struct rondo_context ctx, const uint32_t *ranks, uint32_t rank_count,
                       struct rondo_group *group) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "group_create", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!ranks || !group || rank_count == 0 || rank_count > rank->cfg.rank_count)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "group_create: null argument, or %u ranks of a job of %u", rank_count,
                              rank->cfg.rank_count);
  else
    status = rondo_group_make(rank, ranks, rank_count, group);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_group_destroy(struct rondo_context ctx, struct rondo_group group) {
  RONDO_RETURN_PINNED(ctx, "group_destroy", rank, rondo_group_forget(rank, group));
}
