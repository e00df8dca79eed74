#include "runtime/rank/wait.h"

#include <sys/eventfd.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/inline_run.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/submit.h"
#include "runtime/transport/communicator.h"

// The `is_done` of rondo_driver.wait.
static int is_ended(void *arg) {
  struct rondo_awaited *a = arg;
  if (rondo_inline_is_posted(a)) // first: a CQE that has left the CQ since is completed (Q3, R1)
    return RONDO_DONE_IN_CQ;
  return rondo_load_acquire_u64(&a->coll->completed) >= a->run || // R1
         rondo_load_relaxed_u32(&a->coll->generation) != a->generation ||
         rondo_load_relaxed_u32(&a->rank->closing);
}

int rondo_awaited_find(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                       const char *call, struct rondo_awaited *a) {
  a->rank = rank;
  a->coll = rondo_coll_find_logged(rank, handle, call);
  if (!a->coll)
    return RONDO_ERR_UNKNOWN;
  a->generation = (uint32_t)(handle.handle >> 32);
  a->run = run;
  uint64_t submitted = rondo_load_relaxed_u64(&a->coll->submitted);
  if (run == RONDO_LAST_RUN)
    a->run = submitted;
  else if (run > submitted)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: id %llu: run %llu was never submitted", call,
                            (unsigned long long)a->coll->desc.id, (unsigned long long)run);
  return RONDO_SUCCESS;
}

static int awaited_status(const struct rondo_awaited *a) {
  if (a->is_posted)
    return RONDO_SUCCESS;
  if (rondo_load_acquire_u64(&a->coll->completed) < a->run) // R1
    return rondo_load_relaxed_u32(&a->rank->closing) ? RONDO_ERR_CLOSED : RONDO_ERR_UNKNOWN;
  uint64_t failed_from = rondo_load_relaxed_u64(&a->coll->failed_from);
  if (!failed_from || a->run < failed_from)
    return RONDO_SUCCESS;
  rondo_lock_take(&a->rank->lock);
  int status = a->coll->failed_status;
  rondo_lock_give(&a->rank->lock);
  return status;
}

// Returns the status of the run, or RONDO_IN_PROGRESS after `timeout_ns`.
static int awaited_wait(struct rondo_awaited *a, int64_t timeout_ns) {
  struct rondo_daemon *daemon = a->rank->member.daemon;
  if (!is_ended(a) && (a->rank->member.is_manual ||
                       daemon->driver->wait(daemon, is_ended, a, timeout_ns) != RONDO_SUCCESS))
    return RONDO_IN_PROGRESS;
  return awaited_status(a);
}

int rondo_rank_wait(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                    const char *call, int64_t timeout_ns) {
  struct rondo_awaited a = {0};
  int status = rondo_awaited_find(rank, handle, run, call, &a);
  if (status == RONDO_SUCCESS && timeout_ns > 0 && rondo_callbacks_is_inside())
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: a callback may not wait", call);
  if (status == RONDO_SUCCESS)
    status = awaited_wait(&a, timeout_ns);
  if (status != RONDO_IN_PROGRESS)
    return status;
  rank->on_timeout(&a, timeout_ns);
  return RONDO_ERR_TIMEOUT;
}

int rondo_rank_test(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                    const char *call) {
  struct rondo_awaited a = {0};
  int status = rondo_awaited_find(rank, handle, run, call, &a);
  return status == RONDO_SUCCESS ? awaited_wait(&a, 0) : status;
}

static int is_never_done(void *arg) {
  (void)arg;
  return 0;
}

void rondo_rank_poll(const struct rondo_rank *rank) {
  if (!rank->member.is_manual && rondo_load_relaxed_u64(&rank->member.daemon->outstanding))
    (void)rank->member.daemon->driver->wait(rank->member.daemon, is_never_done, NULL, 0);
}

// Attaches a reserved callback to the run, or posts it if the run has ended. The rank is locked.
static int callback_attach(struct rondo_rank *rank, struct rondo_awaited *a,
                           rondo_callback callback, void *arg) {
  struct rondo_run_record *record = a->coll ? a->coll->head : NULL;
  while (record && record->number != a->run)
    record = record->next;
  if (record && record->args.callback)
    return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "notify: id %llu: run %llu has a callback",
                            (unsigned long long)a->coll->desc.id, (unsigned long long)a->run);
  if (record) {
    record->args.callback = callback;
    record->args.arg = arg;
    rondo_store_release_u64(&a->coll->inline_run, 0);
    return RONDO_SUCCESS;
  }
  uint64_t failed_from = a->coll ? a->coll->failed_from : 0;
  int status = failed_from && a->run >= failed_from ? a->coll->failed_status : RONDO_SUCCESS;
  rondo_callbacks_post(&rank->callbacks, callback, arg, status);
  return RONDO_SUCCESS;
}

int rondo_rank_notify(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                      rondo_callback callback, void *arg) {
  struct rondo_awaited a = {.rank = rank, .run = run};
  int status = rondo_callbacks_reserve(&rank->callbacks);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "notify: rank %u has no memory or thread for a callback",
                            rank->cfg.rank);
  rondo_rank_lock(rank);
  a.coll = rondo_coll_find(rank, handle);
  status = callback_attach(rank, &a, callback, arg);
  if (status != RONDO_SUCCESS)
    rondo_callbacks_unreserve(&rank->callbacks);
  rondo_lock_give(&rank->lock);
  if (status == RONDO_SUCCESS)
    rondo_submission_notify(rank, 1); // no thread may be waiting for the run
  return status;
}

int rondo_rank_open_event_fd(struct rondo_rank *rank, int *fd) {
  rondo_rank_lock(rank);
  if (rank->event_fd < 0)
    rank->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int opened = rank->event_fd;
  if (opened >= 0)
    rondo_store_release_u32(&rank->wants_events, 1);
  rondo_lock_give(&rank->lock);
  if (opened < 0)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "event_fd: no descriptor is left");
  *fd = opened;
  return RONDO_SUCCESS;
}
