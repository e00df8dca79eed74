// What a collective is, whom it waits for, and why it fails.
#include <string.h>

#include "base/log.h"
#include "runtime/observe/snapshot.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"

// Enters the context and finds the collective; with the rank lock held if that succeeds.
static int find(struct rondo_context ctx, struct rondo_collective handle, const char *call,
                struct rondo_rank **rank, struct rondo_coll **coll) {
  int status = rondo_rank_pin(ctx, call, rank);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_lock_take(&(*rank)->lock);
  *coll = rondo_coll_find(*rank, handle);
  if (*coll)
    return RONDO_SUCCESS;
  rondo_lock_give(&(*rank)->lock);
  status = RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: rank %u has no such collective", call,
                            (*rank)->cfg.rank);
  rondo_rank_unpin(ctx);
  return status;
}

static void leave(struct rondo_context ctx, struct rondo_rank *rank) {
  rondo_lock_give(&rank->lock);
  rondo_rank_unpin(ctx);
}

int rondo_describe(struct rondo_context ctx, struct rondo_collective coll,
                   struct rondo_collective_desc *desc, uint32_t *ranks, uint32_t capacity,
                   uint32_t *rank_count) {
  struct rondo_rank *rank;
  struct rondo_coll *found;
  if (capacity && !ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "describe: room for ranks at null");
  int status = find(ctx, coll, "describe", &rank, &found);
  if (status != RONDO_SUCCESS)
    return status;
  if (desc) {
    *desc = found->desc;
    desc->send_counts = desc->send_displacements = NULL;
    desc->recv_counts = desc->recv_displacements = NULL;
  }
  for (uint32_t i = 0; i < capacity && i < found->registration.nranks; i++)
    ranks[i] = found->members[i];
  if (rank_count)
    *rank_count = found->registration.nranks;
  leave(ctx, rank);
  return RONDO_SUCCESS;
}

int rondo_missing(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                  uint32_t *ranks, uint32_t capacity, uint32_t *count) {
  struct rondo_rank *rank;
  struct rondo_coll *found;
  struct rondo_snapshot s;
  if (!count || (capacity && !ranks))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "missing: a null argument");
  int status = find(ctx, coll, "missing", &rank, &found);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_id id = found->registration.id;
  rondo_lock_give(&rank->lock);
  uint32_t missing = 0;
  status = rondo_snapshot_init(&s, rank->job);
  const struct rondo_coll_view *view =
      status == RONDO_SUCCESS ? rondo_snapshot_find(&s, rank->cfg.rank, id) : NULL;
  for (uint32_t i = 0; view && i < view->nranks; i++) {
    const struct rondo_coll_view *other = rondo_snapshot_find(&s, view->members[i], id);
    if (other && other->submitted >= run)
      continue;
    if (missing < capacity)
      ranks[missing] = view->members[i];
    missing++;
  }
  rondo_snapshot_fini(&s);
  if (status == RONDO_SUCCESS)
    *count = missing;
  else
    status = RONDO_LOG_REFUSE(status, "missing: no memory");
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_reason(struct rondo_context ctx, struct rondo_collective coll, char *text,
                 size_t text_bytes) {
  struct rondo_rank *rank;
  struct rondo_coll *found;
  if (!text || !text_bytes)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "reason: a null argument");
  int status = find(ctx, coll, "reason", &rank, &found);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_communicator_reason(found->registration.comm, text, text_bytes);
  leave(ctx, rank);
  return RONDO_SUCCESS;
}
