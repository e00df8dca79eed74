// Groups of ranks.
#include "base/log.h"
#include "runtime/rank/group.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_group_create(struct rondo_context ctx, const uint32_t *ranks, uint32_t rank_count,
                       struct rondo_group *group) {
  RONDO_RETURN_PINNED(ctx, "group_create", rank, rondo_group_make(rank, ranks, rank_count, group));
}

int rondo_group_destroy(struct rondo_context ctx, struct rondo_group group) {
  RONDO_RETURN_PINNED(ctx, "group_destroy", rank, rondo_group_forget(rank, group));
}
