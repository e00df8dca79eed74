// Running and waiting.
#include "base/clock.h"
#include "base/log.h"
#include "runtime/observe/report.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

int rondo_run(struct rondo_context ctx, struct rondo_collective coll, const void *send, void *recv,
              rondo_callback callback, void *arg) {
  const struct rondo_submission s = {{send, recv, callback, arg}, {NULL, 0}};
  RONDO_RETURN_PINNED(ctx, "run", rank, rondo_rank_run(rank, coll, &s, NULL));
}

int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run) {
  if (!args || !run)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run_numbered: a null argument");
  RONDO_RETURN_PINNED(
      ctx, "run_numbered", rank,
      rondo_rank_run(rank, coll, &(struct rondo_submission){*args, {NULL, 0}}, run));
}

int rondo_wait(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
               int64_t timeout_ns) {
  struct rondo_rank *rank;
  struct rondo_awaited a = {0};
  int status = rondo_rank_pin(ctx, "wait", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_awaited_find(rank, coll, run, "wait", &a);
  if (status == RONDO_SUCCESS && timeout_ns > 0 && rondo_callbacks_is_inside())
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "wait: a callback may not wait");
  if (status == RONDO_SUCCESS)
    status = rondo_awaited_wait(&a, timeout_ns);
  if (status == RONDO_IN_PROGRESS) {
    rondo_report_timeout(&a, timeout_ns);
    status = RONDO_ERR_TIMEOUT;
  }
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_test(struct rondo_context ctx, struct rondo_collective coll, uint64_t run) {
  struct rondo_rank *rank;
  struct rondo_awaited a = {0};
  int status = rondo_rank_pin(ctx, "test", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_awaited_find(rank, coll, run, "test", &a);
  if (status == RONDO_SUCCESS)
    status = rondo_awaited_wait(&a, 0);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_notify(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                 rondo_callback callback, void *arg) {
  struct rondo_rank *rank;
  struct rondo_awaited a = {0};
  int status = rondo_rank_pin(ctx, "notify", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_awaited_find(rank, coll, run, "notify", &a);
  if (status == RONDO_SUCCESS && (!callback || !a.run))
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "notify: %s",
                              callback ? "no run was ever submitted" : "the callback is null");
  if (status == RONDO_SUCCESS)
    status = rondo_rank_notify(rank, coll, a.run, callback, arg);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_event_fd(struct rondo_context ctx, int *fd) {
  if (!fd)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "event_fd: `fd` is null");
  RONDO_RETURN_PINNED(ctx, "event_fd", rank, rondo_rank_open_event_fd(rank, fd));
}

int rondo_device_synchronize(struct rondo_context ctx, int64_t timeout_ns) {
  uint64_t end_ns = rondo_deadline_ns(rondo_now_ns(), timeout_ns);
  RONDO_RETURN_PINNED(ctx, "device_synchronize", rank,
                      rank->daemon->driver->synchronize(rank->daemon, end_ns));
}
