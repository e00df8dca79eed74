#include "runtime/rank/describe.h"

#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"

// Takes the rank's lock and finds a collective. Without one releases the lock and returns null.
static struct rondo_coll *coll_find_locked(struct rondo_rank *rank, struct rondo_collective handle,
                                           const char *call) {
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (coll)
    return coll;
  rondo_lock_give(&rank->lock);
  rondo_log(RONDO_LOG_ERROR, "%s: rank %u has no such collective", call, rank->cfg.rank);
  return NULL;
}

int rondo_coll_describe(struct rondo_rank *rank, struct rondo_collective handle,
                        struct rondo_collective_desc *desc, struct rondo_rank_list *list) {
  const struct rondo_coll *coll = coll_find_locked(rank, handle, "describe");
  if (!coll)
    return RONDO_ERR_UNKNOWN;
  if (desc) {
    *desc = coll->desc;
    desc->send_counts = desc->send_displacements = NULL;
    desc->recv_counts = desc->recv_displacements = NULL;
  }
  for (uint32_t i = 0; i < coll->registration.nranks; i++)
    rondo_rank_list_add(list, coll->members[i]);
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}

int rondo_coll_get_reason(struct rondo_rank *rank, struct rondo_collective handle, char *text,
                          size_t text_bytes) {
  const struct rondo_coll *coll = coll_find_locked(rank, handle, "reason");
  if (!coll)
    return RONDO_ERR_UNKNOWN;
  rondo_communicator_reason(coll->registration.comm, text, text_bytes);
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}

int rondo_coll_get_id(struct rondo_rank *rank, struct rondo_collective handle,
                      struct rondo_id *id) {
  const struct rondo_coll *coll = coll_find_locked(rank, handle, "missing");
  if (!coll)
    return RONDO_ERR_UNKNOWN;
  *id = coll->registration.id;
  rondo_lock_give(&rank->lock);
  return RONDO_SUCCESS;
}
