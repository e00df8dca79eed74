#include "runtime/rank/submit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/rank/inline_run.h"
#include "runtime/rank/lending.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/transport/link_binding.h"

struct rondo_run_record *rondo_run_record_take(struct rondo_rank *rank) {
  struct rondo_run_record *record = rank->free_records;
  if (rondo_rank_reserve_overflow(rank) != RONDO_SUCCESS)
    return NULL;
  if (!record)
    return malloc(sizeof *record);
  rank->free_records = record->next;
  return record;
}

static void record_append(struct rondo_rank *rank, struct rondo_coll *coll,
                          struct rondo_run_record *record, struct rondo_submission *s) {
  record->next = NULL;
  record->event = rank->flight.added + 1; // which run_note_submission adds
  record->number = coll->submitted + 1;
  rondo_store_relaxed_u64(&coll->submitted, record->number);
  record->args = s->args;
  record->tie = s->tie;
  record->exchange = s->exchange;
  s->exchange = NULL;
  record->is_private = s->is_private;
  if (coll->tail)
    coll->tail->next = record;
  else
    coll->head = record;
  coll->tail = record;
  if (!coll->unpushed)
    coll->unpushed = record;
}

#if defined(RONDO_EXPLORE)
// Planted fault: the daemon sees the run before its record exists (DFCCL, defect 6).
static void run_push_early(struct rondo_rank *rank, struct rondo_coll *coll,
                           const struct rondo_run_args *args) {
  if (!RONDO_FAULT(SQE_BEFORE_CALLBACK) || coll->on_device)
    return;
  const struct rondo_run_record early = {.number = coll->submitted + 1, .args = *args};
  struct rondo_sqe entry = rondo_coll_sqe(coll, &early);
  if (!rondo_sq_try_push(&rank->member.daemon->sq, &entry))
    return;
  rondo_lock_give(&rank->lock);
  RONDO_POINT("run.before_record");
  (void)rondo_rank_service(rank);
  rondo_lock_take(&rank->lock);
}
#endif

// The rank's lock is held, so that no completion of the run has been taken yet.
static void run_note_submission(struct rondo_rank *rank, const struct rondo_coll *coll,
                                struct rondo_run_record *record, uint64_t now_ns) {
  struct rondo_flight_event *e =
      rondo_flight_add_at(&rank->flight, RONDO_FLIGHT_RUN, &coll->tag, now_ns);
  e->run = record->number;
  e->pushed_ns = coll->unpushed || rondo_rank_is_unsent(rank, record->event) ? 0 : now_ns;
  record->submitted_ns = now_ns;
}

int rondo_submission_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_submission *s) {
  if (rank->is_lost)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "run: rank %u has lost its daemon", rank->cfg.rank);
  return rondo_coll_check_buffers(coll, s);
}

int rondo_submission_prepare(struct rondo_rank *rank, struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record **record) {
  int status = rondo_submission_check(rank, coll, s);
  if (status != RONDO_SUCCESS)
    return status;
  if (rank->cfg.max_runs)
    rondo_rank_settle(rank);
  if (rank->cfg.max_runs && rank->submitted - rank->completed >= rank->cfg.max_runs)
    return RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                            "run: rank %u has %llu runs outstanding already (max_runs)",
                            rank->cfg.rank, (unsigned long long)rank->cfg.max_runs);
  if (coll->borrows)
    status = rondo_coll_borrow(rank, coll);
  if (status != RONDO_SUCCESS)
    return status;
  if (s->args.callback)
    status = rondo_callbacks_reserve(&rank->callbacks);
  struct rondo_run_record *taken = status == RONDO_SUCCESS ? rondo_run_record_take(rank) : NULL;
  if (taken) {
    *record = taken;
    return RONDO_SUCCESS;
  }
  if (!coll->head)
    rondo_coll_return(rank, coll);
  if (s->args.callback && status == RONDO_SUCCESS)
    rondo_callbacks_unreserve(&rank->callbacks);
  status = status == RONDO_SUCCESS ? RONDO_ERR_NO_MEMORY : status;
  return RONDO_LOG_REFUSE(status, "run: id %llu: no memory for another run",
                          (unsigned long long)coll->desc.id);
}

void rondo_tie_count(const struct rondo_rank *rank, const struct rondo_tie *tie, uint32_t n) {
  uint32_t *runs = &rank->member.daemon->tied_runs;
  if (tie->words && !(tie->ticket & RONDO_TICKET_REPLAYED))
    rondo_store_relaxed_u32(runs, rondo_load_relaxed_u32(runs) + n);
}

uint64_t rondo_submission_commit(struct rondo_rank *rank, struct rondo_coll *coll,
                                 struct rondo_submission *s, struct rondo_run_record *record,
                                 bool is_inline) {
#if defined(RONDO_EXPLORE)
  run_push_early(rank, coll, &s->args);
#endif
  record_append(rank, coll, record, s);
  rank->submitted++;
  rondo_tie_count(rank, &s->tie, 1);
  uint64_t now_ns = is_inline ? rondo_inline_submit(rank, coll) : 0;
  is_inline = now_ns != 0;
  if (!is_inline) {
    rondo_coll_push(rank, coll);
    now_ns = rondo_stamp_ns(&rank->flight.clock);
  }
  run_note_submission(rank, coll, record, now_ns);
  rondo_daemon_add_outstanding(rank->member.daemon);                   // H3, K2, P4
  rondo_binding_wake(&rank->job->transports, coll->registration.comm); // P4
  return is_inline ? rondo_inline_poll(rank, coll, record) : 0;
}

void rondo_submission_cancel(struct rondo_rank *rank, const struct rondo_submission *s,
                             struct rondo_run_record *record) {
  if (s->args.callback)
    rondo_callbacks_unreserve(&rank->callbacks);
  record->next = rank->free_records;
  rank->free_records = record;
}

void rondo_submission_notify(const struct rondo_rank *rank, int urgent) {
  if (rank->member.is_manual)
    return;
  rank->member.daemon->driver->notify_submission(rank->member.daemon, urgent);
  if (rank->member.daemon->driver->is_silent)
    rondo_rank_on_moved(rank->member.daemon->owner);
}

int rondo_rank_run(struct rondo_rank *rank, struct rondo_collective handle,
                   struct rondo_submission *s, uint64_t *run) {
  int status = rondo_run_check_reach(rank, handle, s, &s->is_private);
  if (status != RONDO_SUCCESS)
    return status;
  uint64_t ended = 0;
  struct rondo_run_record *record = NULL;
  int urgent = s->args.callback || rondo_load_relaxed_u32(&rank->wants_events);
  bool polls = false; // this thread steps the run: no thread is going to wait for it
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "run");
  status = coll ? rondo_submission_prepare(rank, coll, s, &record) : RONDO_ERR_UNKNOWN;
  if (status == RONDO_SUCCESS) {
    polls = urgent && rondo_submission_is_small(coll, s) && rank->member.daemon->driver->poll &&
            !rank->member.is_manual;
    ended = rondo_submission_commit(rank, coll, s, record, rondo_inline_can_submit(rank, coll, s));
    // The last rank to submit steps the blocks of the others. If all ranks are in this process, no
    // worker is needed.
    urgent = urgent && !(polls && !rank->job->membership);
    if (run)
      *run = coll->submitted;
  }
  rondo_lock_give(&rank->lock);
  if (ended)
    rondo_rank_notify_ended(rank, ended);
  if (polls)
    rank->member.daemon->driver->poll(rank->member.daemon, 1);
  if (status == RONDO_SUCCESS && rondo_load_relaxed_u64(&rank->member.daemon->outstanding))
    rondo_submission_notify(rank, urgent);
  else if (ended &&
           rondo_daemon_has_proxy(rank->member.daemon)) // no thread may wait for it and flush
    (void)rondo_rank_forward(rank, RONDO_FORWARD_LEAVE);
  return status;
}
