// Waiting for the ranks of a job.
#include "base/log.h"
#include "runtime/complete/callbacks.h"
#include "runtime/rank/describe.h"
#include "runtime/rank/handles.h"

static int ranks_await(struct rondo_context ctx, bool gone, struct rondo_rank_list *list,
                       int64_t timeout_ns) {
  const char *call = gone ? "wait_gone" : "wait_ready";
  if (list->capacity && !list->ranks)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: `ranks` is null", call);
  if (timeout_ns > 0 && rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: a callback may not wait", call);
  RONDO_RETURN_PINNED(ctx, call, rank, rondo_rank_await(rank, gone, list, timeout_ns));
}

int rondo_wait_ready(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                     uint32_t capacity, uint32_t *count) {
  struct rondo_rank_list list = {ranks, capacity, 0};
  int status = ranks_await(ctx, false, &list, timeout_ns);
  if (count)
    *count = list.count;
  return status;
}

int rondo_wait_gone(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                    uint32_t capacity, uint32_t *count) {
  struct rondo_rank_list list = {ranks, capacity, 0};
  int status = ranks_await(ctx, true, &list, timeout_ns);
  if (count)
    *count = list.count;
  return status;
}
