// Registering, deregistering and finding collectives.
#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"

int rondo_register(struct rondo_context ctx, const struct rondo_collective_desc *desc,
                   struct rondo_collective *coll) {
  const struct rondo_register_request request = {.desc = desc,
                                                 .id = {desc ? desc->id : 0, RONDO_SPACE_USER}};
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
