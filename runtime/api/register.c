// Registering, deregistering and finding collectives.
#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll) {
  struct rondo_rank *rank;
  const struct rondo_register_request request = {.desc = desc,
                                                 .id = {desc ? desc->id : 0, RONDO_SPACE_USER}};
  int status = rondo_rank_pin(ctx, "register", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (desc && desc->reserved)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: a reserved field is not 0",
                              (unsigned long long)desc->id);
  else
    status = rondo_rank_register(rank, &request, coll);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "deregister", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_deregister(rank, coll, 1);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_lookup(struct rondo_context ctx, uint64_t id, struct rondo_collective *coll) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "lookup", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *found = rondo_coll_by_id(rank, (struct rondo_id){id, RONDO_SPACE_USER});
  if (!coll)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "lookup: the place for the handle is null");
  else if (!found || found->generation % 2 == 0)
    status = RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "lookup: rank %u has not registered id %llu",
                              rank->cfg.rank, (unsigned long long)id);
  else
    *coll = rondo_coll_handle(found);
  rondo_lock_give(&rank->lock);
  rondo_rank_unpin(ctx);
  return status;
}
