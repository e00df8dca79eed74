// Running and waiting.
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/api/rank.h"
#include "runtime/job/processes.h"

#define LIGHT_BYTES 8192u // of both buffers

// ------------------------------------------------------------------ checks ---

static int overlap(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

static int is_in_place(const struct rondo_coll *coll, uintptr_t send, uintptr_t recv) {
  int kind = coll->desc.kind;
  if (kind == RONDO_ALL_TO_ALL || kind == RONDO_ALL_TO_ALL_V)
    return coll->registration.nranks == 1 && send == recv && kind == RONDO_ALL_TO_ALL;
  if (kind == RONDO_ALL_GATHER || kind == RONDO_GATHER)
    return send == recv + coll->in_place_bytes;
  return recv == send + coll->in_place_bytes;
}

// Whether the device, which cannot use every buffer, can use this one.
static int check_reach(const struct rondo_rank *rank, const struct rondo_coll *coll,
                       const void *memory, uint64_t bytes) {
  const struct rondo_driver *driver = rank->device->driver;
  char why[RONDO_WHY_BYTES] = "";
  if (driver->check(rank->device, memory, bytes, why) == RONDO_SUCCESS)
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: rank %u cannot use a buffer: %s",
                          (unsigned long long)coll->desc.id, rank->cfg.rank, why);
}

int rondo_coll_check_buffers(const struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_run_args *args) {
  uint32_t used = coll->used_buffers;
  uintptr_t send = (uintptr_t)args->send;
  uintptr_t recv = (uintptr_t)args->recv;
  if (((used & 1) && !send) || ((used & 2) && !recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run: id %llu: the %s buffer is null",
                            (unsigned long long)coll->desc.id,
                            (used & 1) && !send ? "send" : "receive");
  if (used == 3 && overlap(send, coll->send_bytes, recv, coll->recv_bytes) &&
      !is_in_place(coll, send, recv))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "run: id %llu: the buffers overlap, and not as in-place ones do",
                            (unsigned long long)coll->desc.id);
  int status = RONDO_SUCCESS;
  if (!rank->device->driver->check)
    return RONDO_SUCCESS;
  if (used & 1)
    status = check_reach(rank, coll, args->send, coll->send_bytes);
  if (status == RONDO_SUCCESS && (used & 2))
    status = check_reach(rank, coll, args->recv, coll->recv_bytes);
  return status;
}

// --------------------------------------------------------------- submission ---

struct rondo_run_record *rondo_run_record_take(struct rondo_rank *rank) {
  struct rondo_run_record *record = rank->free_records;
  if (record)
    rank->free_records = record->next;
  else
    record = malloc(sizeof *record);
  return record;
}

static void append(struct rondo_coll *coll, struct rondo_run_record *record,
                   const struct rondo_submission *s) {
  const struct rondo_run_args *args = &s->args;
  record->next = NULL;
  record->event = 0;
  record->number = coll->submitted + 1;
  rondo_store_relaxed_u64(&coll->submitted, record->number);
  record->send = args->send;
  record->recv = args->recv;
  record->callback = args->callback;
  record->arg = args->arg;
  record->tie = s->tie;
  if (coll->tail)
    coll->tail->next = record;
  else
    coll->head = record;
  coll->tail = record;
  if (!coll->unpushed)
    coll->unpushed = record;
}

#if defined(RONDO_EXPLORE)
// The planted order: the daemon sees the run before there is a record of it (DFCCL, defect 6).
static void push_before_record(struct rondo_rank *rank, struct rondo_coll *coll,
                               const struct rondo_run_args *args) {
  if (!RONDO_FAULT(SQE_BEFORE_CALLBACK) || coll->on_device)
    return;
  struct rondo_sqe entry = {.collective = coll->index, .run = coll->submitted + 1};
  entry.send = (uint64_t)(uintptr_t)args->send;
  entry.recv = (uint64_t)(uintptr_t)args->recv;
  entry.generation = coll->generation;
  entry.block_count = coll->registration.shape.blocks;
  if (rondo_sq_push(&rank->daemon->sq, &entry))
    return;
  rondo_lock_give(&rank->lock);
  RONDO_POINT("run.before_record");
  (void)rondo_rank_service(rank);
  rondo_lock_take(&rank->lock);
}
#endif

// The rank lock is held, so nothing became of the run yet.
static void note_submission(struct rondo_rank *rank, const struct rondo_coll *coll,
                            struct rondo_run_record *record, uint64_t now_ns) {
  struct rondo_flight_event *e =
      rondo_flight_add_at(&rank->flight, RONDO_FLIGHT_RUN, &coll->tag, now_ns);
  e->run = record->number;
  e->pushed_ns = coll->unpushed ? 0 : now_ns;
  record->event = rank->flight.added;
  record->submitted_ns = now_ns;
}

int rondo_submission_check(const struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_submission *s) {
  if (rank->is_lost)
    return RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "run: rank %u has lost its daemon", rank->cfg.rank);
  return rondo_coll_check_buffers(rank, coll, &s->args);
}

int rondo_submission_prepare(struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record **record) {
  int status = rondo_submission_check(rank, coll, s);
  if (status != RONDO_SUCCESS)
    return status;
  if (rank->cfg.max_runs)
    rondo_rank_settle(rank);
  if (rank->cfg.max_runs && rank->submitted - rank->completed >= rank->cfg.max_runs)
    return RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                            "run: rank %u has its most, %llu runs outstanding (max_runs)",
                            rank->cfg.rank, (unsigned long long)rank->cfg.max_runs);
  if (s->args.callback)
    status = rondo_callbacks_reserve(&rank->callbacks);
  struct rondo_run_record *taken = status == RONDO_SUCCESS ? rondo_run_record_take(rank) : NULL;
  if (taken) {
    *record = taken;
    return RONDO_SUCCESS;
  }
  if (s->args.callback && status == RONDO_SUCCESS)
    rondo_callbacks_unreserve(&rank->callbacks);
  status = status == RONDO_SUCCESS ? RONDO_ERR_NO_MEMORY : status;
  return RONDO_LOG_REFUSE(status, "run: id %llu: no memory for one more run",
                          (unsigned long long)coll->desc.id);
}

// Takes a run in. The lock is held. If it `begins`, its first steps are done before anything that its peers
// need not wait for. Returns how many runs have ended since.
static uint64_t submit(struct rondo_rank *rank, struct rondo_coll *coll,
                       const struct rondo_submission *s, struct rondo_run_record *record,
                       int begins) {
#if defined(RONDO_EXPLORE)
  push_before_record(rank, coll, &s->args);
#endif
  append(coll, record, s);
  rank->submitted++;
  if (begins && rondo_cq_has_entry(&rank->daemon->cq)) // another end is about to be noted over that
    rank->left_ns = rondo_load_relaxed_u64(&rank->daemon->ended_ns);
  uint64_t now_ns = begins ? rondo_coll_begin(rank, coll) : 0;
  if (!now_ns) {
    rondo_coll_push(rank, coll);
    now_ns = rondo_stamp_ns(&rank->flight.clock);
    begins = 0;
  }
  note_submission(rank, coll, record, now_ns);
  rondo_daemon_expect(rank->daemon); // H3, K2, P4
  rondo_proxied_submitted(rank->job, coll->registration.comm);
  if (!begins)
    return 0;
  rank->daemon->driver->begun(rank->daemon);
  if (rondo_rank_has_untold(rank)) // which the steps could not tell, under the lock
    rondo_rank_tell_noted(rank);
  uint64_t ended = rondo_cq_has_entry(&rank->daemon->cq) ? rondo_rank_accept(rank) : 0;
  // The one before is not in the queue any more.
  rondo_store_release_u64(&coll->private_run, s->args.callback ? 0 : record->number);
  return ended;
}

void rondo_submission_commit(struct rondo_rank *rank, struct rondo_coll *coll,
                             const struct rondo_submission *s, struct rondo_run_record *record) {
  (void)submit(rank, coll, s, record, 0);
}

void rondo_submission_kick(const struct rondo_rank *rank, int urgent) {
  if (rank->is_manual)
    return;
  rank->daemon->driver->kick(rank->daemon, urgent);
  if (rank->daemon->driver->is_silent)
    rondo_proxied_moved(rank->daemon->owner);
}

static int is_small(const struct rondo_coll *coll) {
  return coll->send_bytes + coll->recv_bytes <= LIGHT_BYTES;
}

// 1 if the run that is submitted is the only one that has not ended, and small: its caller may take its first steps
// at once, as others would have to be woken for it or come later.
static int is_light(const struct rondo_rank *rank, const struct rondo_coll *coll,
                    const struct rondo_submission *s) {
  return rank->daemon->driver->begin && !rank->is_manual && !s->tie.words && is_small(coll) &&
         rondo_load_relaxed_u64(&rank->daemon->outstanding) ==
             (uint64_t)rondo_cq_has_entry(&rank->daemon->cq);
}

int rondo_rank_run(struct rondo_rank *rank, struct rondo_collective handle,
                   const struct rondo_submission *s, uint64_t *run) {
  int status;
  uint64_t ended = 0;
  struct rondo_run_record *record = NULL;
  int urgent = s->args.callback || rondo_load_relaxed_u32(&rank->wants_events);
  int assists = 0; // nobody is going to wait for the run
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (coll)
    status = rondo_submission_prepare(rank, coll, s, &record);
  else
    status =
        RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "run: rank %u has no such collective", rank->cfg.rank);
  if (status == RONDO_SUCCESS) {
    ended = submit(rank, coll, s, record, is_light(rank, coll, s));
    assists = urgent && is_small(coll) && rank->daemon->driver->assist && !rank->is_manual;
    // Who comes last steps the others' blocks: where all are in this process no worker is needed.
    urgent = urgent && !(assists && !rank->job->mesh);
    if (run)
      *run = coll->submitted;
  }
  rondo_lock_give(&rank->lock);
  if (ended)
    rondo_rank_tell_ended(rank, ended);
  if (assists)
    rank->daemon->driver->assist(rank->daemon, 1);
  if (status == RONDO_SUCCESS && rondo_load_relaxed_u64(&rank->daemon->outstanding))
    rondo_submission_kick(rank, urgent);
  else if (ended && rondo_daemon_is_far(rank->daemon)) // nobody need wait for it and see it off
    (void)rondo_proxied_forward(rank, RONDO_FORWARD_LEAVE);
  return status;
}

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

int rondo_run_tied(struct rondo_context ctx, struct rondo_collective coll,
                   const struct rondo_run_args *args, const struct rondo_tie *tie, uint64_t *run) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "run_numbered", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  if (args && run) {
    struct rondo_submission s = {*args, *tie};
    status = rondo_rank_run(rank, coll, &s, run);
  } else {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "run_numbered: a null argument");
  }
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_run_numbered(struct rondo_context ctx, struct rondo_collective coll,
                       const struct rondo_run_args *args, uint64_t *run) {
  static const struct rondo_tie untied;
  return rondo_run_tied(ctx, coll, args, &untied, run);
}

// ------------------------------------------------------------------ waiting ---

struct awaited {
  struct rondo_rank *rank;
  struct rondo_coll *coll;
  uint64_t run;
  uint32_t generation;
  int is_posted;
};

// 1 if the run has ended well, its completion is the next in the queue, and nobody else need be told: then it can stay
// there until somebody takes the lock anyway.
static int is_posted(struct awaited *a) {
  struct rondo_cqe cqe;
  if (rondo_load_acquire_u64(&a->coll->private_run) != a->run ||
      rondo_load_acquire_u32(&a->rank->wants_events) ||
      !rondo_cq_look(&a->rank->daemon->cq, &cqe) || cqe.collective != a->coll->index ||
      cqe.run != (uint16_t)a->run || cqe.status != RONDO_SUCCESS ||
      rondo_load_relaxed_u32(&a->coll->generation) != a->generation)
    return 0;
  a->is_posted = 1;
  return 1;
}

// As rondo_driver.help has it.
static int is_ended(void *arg) {
  struct awaited *a = arg;
  if (is_posted(a)) // first: what has left the queue since has completed (Q3, R1)
    return RONDO_DONE_LEFT;
  return rondo_load_acquire_u64(&a->coll->completed) >= a->run || // R1
         rondo_load_relaxed_u32(&a->coll->generation) != a->generation ||
         rondo_load_relaxed_u32(&a->rank->closing);
}

// Finds what to wait for. `call` names the caller in the log.
static int find_awaited(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                        const char *call, struct awaited *a) {
  a->rank = rank;
  a->coll = rondo_coll_find(rank, handle);
  if (!a->coll)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNKNOWN, "%s: rank %u has no such collective", call,
                            rank->cfg.rank);
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

// The status of a run that has ended.
static int ended_status(const struct awaited *a) {
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

static int timed_out(struct rondo_context ctx, const struct awaited *a, int64_t timeout_ns) {
  if (timeout_ns <= 0 || !a->rank->cfg.report_on_timeout)
    return RONDO_ERR_TIMEOUT;
  rondo_log(RONDO_LOG_WARN, "wait: rank %u, id %llu, run %llu: not ended within %.3f s",
            a->rank->cfg.rank, (unsigned long long)a->coll->desc.id, (unsigned long long)a->run,
            (double)timeout_ns / 1e9);
  (void)rondo_report(ctx, rondo_log_stream(), NULL);
  rondo_lock_take(&a->rank->lock);
  rondo_flight_add(&a->rank->flight, RONDO_FLIGHT_TIMEOUT, &a->coll->tag)->run = a->run;
  rondo_lock_give(&a->rank->lock);
  rondo_flight_dump(a->rank->job);
  return RONDO_ERR_TIMEOUT;
}

int rondo_wait(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
               int64_t timeout_ns) {
  struct rondo_rank *rank;
  struct awaited a = {0};
  int status = rondo_rank_pin(ctx, "wait", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = find_awaited(rank, coll, run, "wait", &a);
  if (status == RONDO_SUCCESS && timeout_ns > 0 && rondo_callbacks_is_inside())
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "wait: a callback may not wait");
  if (status == RONDO_SUCCESS && a.coll) {
    if (is_ended(&a))
      status = ended_status(&a);
    else if (rank->is_manual || !rank->daemon->driver->help(rank->daemon, is_ended, &a, timeout_ns))
      status = timed_out(ctx, &a, timeout_ns);
    else
      status = ended_status(&a);
  }
  rondo_rank_unpin(ctx);
  return status;
}

static int never(void *arg) {
  (void)arg;
  return 0;
}

void rondo_rank_ask(const struct rondo_rank *rank) {
  if (!rank->is_manual && rondo_load_relaxed_u64(&rank->daemon->outstanding))
    (void)rank->daemon->driver->help(rank->daemon, never, NULL, 0);
}

int rondo_test(struct rondo_context ctx, struct rondo_collective coll, uint64_t run) {
  struct rondo_rank *rank;
  struct awaited a = {0};
  int status = rondo_rank_pin(ctx, "test", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = find_awaited(rank, coll, run, "test", &a);
  if (status == RONDO_SUCCESS && a.coll) {
    int ended = is_ended(&a) ||
                (!rank->is_manual && rank->daemon->driver->help(rank->daemon, is_ended, &a, 0));
    status = ended ? ended_status(&a) : RONDO_IN_PROGRESS;
  }
  rondo_rank_unpin(ctx);
  return status;
}

// The rank is locked. Returns what a callback that was reserved became: one of the run, or posted.
static int attach(struct rondo_rank *rank, struct awaited *a, rondo_callback callback, void *arg) {
  struct rondo_run_record *record = a->coll ? a->coll->head : NULL;
  while (record && record->number != a->run)
    record = record->next;
  if (record && record->callback)
    return RONDO_LOG_REFUSE(RONDO_ERR_EXISTS, "notify: id %llu: run %llu has a callback",
                            (unsigned long long)a->coll->desc.id, (unsigned long long)a->run);
  if (record) {
    record->callback = callback;
    record->arg = arg;
    rondo_store_release_u64(&a->coll->private_run, 0);
    return RONDO_SUCCESS;
  }
  uint64_t failed_from = a->coll ? a->coll->failed_from : 0;
  int status = failed_from && a->run >= failed_from ? a->coll->failed_status : RONDO_SUCCESS;
  rondo_callbacks_post(&rank->callbacks, callback, arg, status);
  return RONDO_SUCCESS;
}

int rondo_rank_notify(struct rondo_rank *rank, struct rondo_collective handle, uint64_t run,
                      rondo_callback callback, void *arg) {
  struct awaited a = {.rank = rank, .run = run};
  int status = rondo_callbacks_reserve(&rank->callbacks);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "notify: rank %u has no memory or thread for a callback",
                            rank->cfg.rank);
  rondo_rank_lock(rank);
  a.coll = rondo_coll_find(rank, handle);
  status = attach(rank, &a, callback, arg);
  if (status != RONDO_SUCCESS)
    rondo_callbacks_unreserve(&rank->callbacks);
  rondo_lock_give(&rank->lock);
  if (status == RONDO_SUCCESS)
    rondo_submission_kick(rank, 1); // nobody may be waiting for it any more
  return status;
}

int rondo_notify(struct rondo_context ctx, struct rondo_collective coll, uint64_t run,
                 rondo_callback callback, void *arg) {
  struct rondo_rank *rank;
  struct awaited a = {0};
  int status = rondo_rank_pin(ctx, "notify", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = find_awaited(rank, coll, run, "notify", &a);
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
  if (!rank->daemon->driver->synchronize(rank->daemon,
                                         rondo_deadline_ns(rondo_now_ns(), timeout_ns)))
    status = rondo_load_acquire_u32(rank->daemon->exit) ? RONDO_ERR_CLOSED : RONDO_ERR_TIMEOUT;
  rondo_rank_unpin(ctx);
  return status;
}
