// Running and waiting.
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/api/wait_timeout.h"
#include "runtime/observe/flight_write.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/service.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"

int rondo_run(struct rondo_context ctx, struct rondo_collective coll, const void *send, void *recv,
              rondo_callback callback, void *arg) {
  struct rondo_rank *rank;
  struct rondo_submission s = {{send, recv, callback, arg}, {NULL, 0}};
  int status = rondo_rank_pin(ctx, "run", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_run(rank, coll, &s, NULL);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "run_numbered", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (args && run) {
    const struct rondo_submission s = {*args, {NULL, 0}};
    status = rondo_rank_run(rank, coll, &s, run);
  } else {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run_numbered: a null argument");
  }
  rondo_rank_unpin(ctx);
  return status;
}

void rondo_wait_report_timeout(const struct rondo_awaited *a, int64_t timeout_ns) {
  if (timeout_ns <= 0 || !a->rank->cfg.report_on_timeout)
    return;
  rondo_log(RONDO_LOG_WARN, "wait: rank %u, id %llu, run %llu: not ended within %.3f s",
            a->rank->cfg.rank, (unsigned long long)a->coll->desc.id, (unsigned long long)a->run,
            (double)timeout_ns / 1e9);
  (void)rondo_report(a->rank->ctx, rondo_log_stream(), NULL);
  rondo_lock_take(&a->rank->lock);
  rondo_flight_add(&a->rank->flight, RONDO_FLIGHT_TIMEOUT, &a->coll->tag)->run = a->run;
  rondo_lock_give(&a->rank->lock);
  rondo_flight_dump(a->rank->job);
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
    rondo_wait_report_timeout(&a, timeout_ns);
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
                              callback ? "nothing was ever submitted" : "the callback is null");
  if (status == RONDO_SUCCESS)
    status = rondo_rank_notify(rank, coll, a.run, callback, arg);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_event_fd(struct rondo_context ctx, int *fd) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "event_fd", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_rank_lock(rank);
  if (!fd)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "event_fd: the place for it is null");
  else if (rank->event_fd < 0)
    rank->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (status == RONDO_SUCCESS && rank->event_fd < 0)
    status = RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "event_fd: the system has no descriptor left");
  if (status == RONDO_SUCCESS) {
    *fd = rank->event_fd;
    rondo_store_release_u32(&rank->wants_events, 1);
  }
  rondo_lock_give(&rank->lock);
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_device_synchronize(struct rondo_context ctx, int64_t timeout_ns) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "device_synchronize", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rank->daemon->driver->synchronize(rank->daemon,
                                             rondo_deadline_ns(rondo_now_ns(), timeout_ns));
  rondo_rank_unpin(ctx);
  return status;
}
