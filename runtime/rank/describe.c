#include "runtime/rank/describe.h"

#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"

int rondo_coll_describe(struct rondo_rank *rank, struct rondo_collective handle,
                        struct rondo_collective_desc *desc, struct rondo_rank_list *list) {
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "describe");
  if (coll && desc) {
    *desc = coll->desc;
    desc->send_counts = desc->send_displacements = NULL;
    desc->recv_counts = desc->recv_displacements = NULL;
  }
  for (uint32_t i = 0; coll && i < coll->registration.nranks; i++)
    rondo_rank_list_add(list, coll->registration.members[i]);
  rondo_lock_give(&rank->lock);
  return coll ? RONDO_SUCCESS : RONDO_ERR_UNKNOWN;
}

int rondo_coll_get_reason(struct rondo_rank *rank, struct rondo_collective handle, char *text,
                          size_t text_bytes) {
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "reason");
  if (coll)
    rondo_communicator_reason(coll->registration.comm, text, text_bytes);
  rondo_lock_give(&rank->lock);
  return coll ? RONDO_SUCCESS : RONDO_ERR_UNKNOWN;
}
