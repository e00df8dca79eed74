// Registering, deregistering and finding collectives.
#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"

int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll) {
  struct rondo_rank *rank;
  const struct rondo_register_request request = {.desc = desc,
                                                 .id = {desc ? desc->id : 0, RONDO_SPACE_USER}};
  int status = rondo_rank_pin(ctx, "register", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (!coll)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: `coll` is null");
  else if (desc && desc->reserved)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "register: id %llu: a reserved field is not 0",
                              (unsigned long long)desc->id);
  else
    status = rondo_rank_register(rank, &request, coll);
  return rondo_rank_unpin_with(ctx, status);
}

int rondo_deregister(struct rondo_context ctx, struct rondo_collective coll) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "deregister", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  return rondo_rank_unpin_with(ctx, rondo_rank_deregister(rank, coll, 1));
}

int rondo_lookup(struct rondo_context ctx, uint64_t id, struct rondo_collective *coll) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "lookup", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (coll)
    status = rondo_rank_lookup(rank, id, coll);
  else
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "lookup: `coll` is null");
  return rondo_rank_unpin_with(ctx, status);
}
