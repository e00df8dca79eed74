// Calls of a communicator, and waiting for them.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/job/processes.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comms.h"
#include "runtime/order/failure.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/service.h"
#include "runtime/rank/stream.h"
#include "runtime/rank/wait.h"

// A call on its way.
struct call {
  struct rondo_collective_desc desc;
  struct rondo_signature signature;
  struct rondo_submission submission;
  void *stream;
  int on_stream;
  struct rondo_collective coll;
  uint64_t run;
};

// ------------------------------------------------------------------ checks ---

static int check_call(const struct rondo_comm_end *end, const struct rondo_collective_desc *what,
                      const struct rondo_run_args *args) {
  if (!what || !args || what->size != sizeof *what ||
      what->version != RONDO_COLLECTIVE_DESC_VERSION)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: a null argument, or a descriptor of another version");
  if (what->id || what->group.handle || what->priority || what->reserved)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: id, group and priority are the communicator's, "
                            "so 0 in the descriptor",
                            (unsigned long long)end->key);
  if (what->kind < 0 || what->kind >= RONDO_KIND_COUNT || !rondo_dtype_bytes(what->dtype) ||
      what->redop < 0 || what->redop >= RONDO_REDOP_COUNT)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_call: key %llu: kind %d, type %d or reduction %d is none",
                            (unsigned long long)end->key, what->kind, what->dtype, what->redop);
  return RONDO_SUCCESS;
}

// What could still refuse the run when it has been registered, which the others would then miss.
static int check_room(struct rondo_rank *rank) {
  int status = RONDO_SUCCESS;
  rondo_rank_lock(rank);
  if (rank->is_lost)
    status = RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "comm_call: rank %u has lost its daemon",
                              rank->cfg.rank);
  else if (rank->cfg.max_runs && rank->submitted - rank->completed >= rank->cfg.max_runs)
    status = RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                              "comm_call: rank %u has its most, %llu runs outstanding (max_runs)",
                              rank->cfg.rank, (unsigned long long)rank->cfg.max_runs);
  rondo_lock_give(&rank->lock);
  return status;
}

static int check_stream(const struct rondo_comm_end *end, const struct call *c, int *capturing) {
  *capturing = 0;
  if (!c->on_stream)
    return RONDO_SUCCESS;
  int status = rondo_rank_is_capturing(end->rank, c->stream, capturing);
  if (status == RONDO_SUCCESS && *capturing && c->submission.args.callback)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "comm_call: key %llu: a call that is captured has no callback",
                              (unsigned long long)end->key);
  return status;
}

// ----------------------------------------------------------------- calling ---

static int submit(const struct rondo_comm_end *end, struct call *c) {
  if (c->on_stream)
    return rondo_rank_run_on_stream(end->rank, c->coll, &c->submission, c->stream, &c->run);
  return rondo_rank_run(end->rank, c->coll, &c->submission, &c->run);
}

static void part(struct rondo_comm_end *end, struct rondo_collective coll) {
  struct rondo_retired_coll *p = end->spare;
  end->spare = NULL;
  p->coll = coll;
  p->next = end->retired;
  end->retired = p;
  end->retired_count++;
}

// The planted rule: what is dropped follows from what has ended.
static void prefer_idle(const struct rondo_comm_end *end, struct rondo_series *series) {
  for (uint32_t i = 0; i < series->cache.count; i++) {
    const struct rondo_coll *coll = rondo_coll_find(end->rank, series->cache.entries[i].coll);
    if (coll && !coll->head)
      series->cache.entries[i].called = 0;
  }
}

// Registers a collective for a call that no registered one serves.
static int add(struct rondo_comm_end *end, struct rondo_series *series, struct call *c) {
  struct rondo_collective dropped;
  if (RONDO_FAULT(EVICTS_IDLE))
    prefer_idle(end, series);
  if (!end->spare)
    end->spare = malloc(sizeof *end->spare);
  if (!end->spare)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "comm_call: key %llu: no memory",
                            (unsigned long long)end->key);
  int status = check_room(end->rank);
  c->desc.id = rondo_series_id(end->key, series->from, series->to, series->registered);
  const struct rondo_register_request request = {.desc = &c->desc,
                                                 .id = {c->desc.id, RONDO_SPACE_COMM},
                                                 .args = &c->submission.args,
                                                 .owner = &end->owner};
  if (status == RONDO_SUCCESS)
    status = rondo_rank_register(end->rank, &request, &c->coll);
  if (status != RONDO_SUCCESS)
    return status;
  series->registered++;
  end->registrations++;
  if (!rondo_signature_is_cached(&c->signature))
    part(end, c->coll);
  else if (rondo_cache_insert(&series->cache, &c->signature, c->coll, &dropped))
    part(end, dropped);
  return RONDO_SUCCESS;
}

// The communicator is locked.
static int call_locked(struct rondo_comm_end *end, struct call *c) {
  struct rondo_series *series = NULL;
  int status = rondo_comm_series(end, &c->desc, &series);
  if (status != RONDO_SUCCESS)
    return status;
  if (rondo_track_reserve(&series->track) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "comm_call: key %llu: no memory",
                            (unsigned long long)end->key);
  int is_cached = rondo_signature_is_cached(&c->signature);
  struct rondo_cache_entry *entry =
      is_cached ? rondo_cache_find(&series->cache, &c->signature) : NULL;
  if (entry)
    c->coll = entry->coll;
  else
    status = add(end, series, c);
  if (status == RONDO_SUCCESS)
    status = submit(end, c);
  if (status != RONDO_SUCCESS)
    return status;
  if (entry)
    rondo_cache_touch(&series->cache, entry);
  rondo_track_append(&series->track, &c->signature);
  end->calls++;
  rondo_comm_compare_series(end, series);
  return RONDO_SUCCESS;
}

static int call_inside(struct rondo_comm_end *end, struct call *c, struct rondo_ticket *ticket) {
  int status = RONDO_SUCCESS;
  pthread_mutex_lock(&end->lock);
  uint32_t failed = rondo_load_acquire_u32(&end->owner.failed);
  if (failed)
    status = RONDO_LOG_REFUSE((int)failed, "comm_call: key %llu: the communicator has failed: %s",
                              (unsigned long long)end->key, end->owner.why);
  else if (end->closing)
    status = RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "comm_call: the communicator is being destroyed");
  rondo_comm_sweep(end);
  if (status == RONDO_SUCCESS)
    status = call_locked(end, c);
  pthread_mutex_unlock(&end->lock);
  if (status == RONDO_SUCCESS && ticket) {
    ticket->coll = c->coll;
    ticket->run = c->run;
  }
  return status;
}

static int call_entered(struct rondo_comm_end *end, struct call *c,
                        const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                        struct rondo_ticket *ticket) {
  int capturing = 0;
  int status = check_call(end, what, args);
  if (status != RONDO_SUCCESS)
    return status;
  c->submission.args = *args;
  status = check_stream(end, c, &capturing);
  if (status != RONDO_SUCCESS)
    return status;
  c->signature = rondo_signature_of(what, capturing);
  c->desc = *what;
  c->desc.group = end->group;
  c->desc.priority = end->priority;
  return call_inside(end, c, ticket);
}

static int call(struct rondo_context ctx, struct rondo_comm comm, struct call *c,
                const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                struct rondo_ticket *ticket) {
  struct rondo_rank *rank;
  struct rondo_comm_end *end;
  int status = rondo_rank_pin(ctx, "comm_call", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_pin(rank, comm, "comm_call", &end);
  if (status == RONDO_SUCCESS) {
    status = call_entered(end, c, what, args, ticket);
    rondo_comm_unpin(end);
  }
  rondo_rank_unpin(ctx);
  return status;
}

int rondo_comm_call(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_collective_desc *what, const struct rondo_run_args *args,
                    struct rondo_ticket *ticket) {
  struct call c = {0};
  return call(ctx, comm, &c, what, args, ticket);
}

int rondo_comm_call_on_stream(struct rondo_context ctx, struct rondo_comm comm,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, void *stream,
                              struct rondo_ticket *ticket) {
  struct call c = {.stream = stream, .on_stream = 1};
  return call(ctx, comm, &c, what, args, ticket);
}

// ----------------------------------------------------------------- waiting ---

static void waiter_enter(struct rondo_comm_end *end, struct rondo_comm_waiter *w) {
  pthread_mutex_lock(&end->lock);
  w->next = end->waiters;
  end->waiters = w;
  pthread_mutex_unlock(&end->lock);
}

static void waiter_exit(struct rondo_comm_end *end, const struct rondo_comm_waiter *w) {
  pthread_mutex_lock(&end->lock);
  struct rondo_comm_waiter **at = &end->waiters;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  pthread_mutex_unlock(&end->lock);
}

static int state_of(const struct rondo_comm_end *end) {
  return (int)rondo_load_acquire_u32(&end->owner.failed);
}

// Whoever asks compares too what could not be compared before, if no call is being made.
static void compare(struct rondo_comm_end *end) {
  if (!rondo_load_relaxed_u32(&end->rank->extension_pending) || pthread_mutex_trylock(&end->lock))
    return;
  rondo_comm_compare(end, RONDO_HURRY_NOT);
  pthread_mutex_unlock(&end->lock);
}

// A run that failed though its gate did not, such as one that a peer has not made before it left.
static int note_failure(struct rondo_context ctx, struct rondo_comm_end *end,
                        const struct rondo_ticket *ticket, int status) {
  char why[RONDO_REASON_BYTES] = "";
  int ended = status == RONDO_ERR_MISMATCH || status == RONDO_ERR_ABORTED ||
              status == RONDO_ERR_PEER || status == RONDO_ERR_SYSTEM;
  if (!ended || state_of(end))
    return status;
  (void)rondo_reason(ctx, ticket->coll, why, sizeof why);
  rondo_comm_fail(end, status, why);
  return status;
}

// A collective that is not there any more had no failed run: those of a communicator that has failed stay.
static int await(struct rondo_context ctx, struct rondo_comm_end *end,
                 const struct rondo_ticket *ticket, int64_t timeout_ns) {
  struct rondo_comm_waiter w = {.coll = ticket->coll};
  int status = RONDO_SUCCESS;
  waiter_enter(end, &w);
  if (rondo_coll_find(end->rank, ticket->coll))
    status = rondo_wait(ctx, ticket->coll, ticket->run, timeout_ns);
  status = note_failure(ctx, end, ticket, status);
  waiter_exit(end, &w);
  return status;
}

struct all_calls {
  struct rondo_rank *rank;
  struct rondo_collective pending; // one with runs outstanding
  uint64_t run;
};

static void look_for_pending(struct rondo_collective handle, void *arg) {
  struct all_calls *all = arg;
  const struct rondo_coll *coll = rondo_coll_find(all->rank, handle);
  if (!coll || all->pending.handle)
    return;
  uint64_t submitted = rondo_load_relaxed_u64(&coll->submitted);
  if (rondo_load_acquire_u64(&coll->completed) >= submitted) // R1
    return;
  all->pending = handle;
  all->run = submitted;
}

// One of the calls that have not ended. Returns 0 if there is none.
static int find_pending(struct rondo_comm_end *end, struct rondo_ticket *ticket) {
  struct all_calls all = {.rank = end->rank};
  pthread_mutex_lock(&end->lock);
  rondo_comm_visit(end, look_for_pending, &all);
  pthread_mutex_unlock(&end->lock);
  ticket->coll = all.pending;
  ticket->run = all.run;
  return all.pending.handle != 0;
}

int rondo_comm_await_all(struct rondo_context ctx, struct rondo_comm_end *end, int64_t timeout_ns) {
  struct rondo_ticket ticket;
  uint64_t begin_ns = rondo_now_ns();
  int64_t left_ns = timeout_ns;
  while (find_pending(end, &ticket)) {
    if (await(ctx, end, &ticket, left_ns) == RONDO_ERR_TIMEOUT)
      return RONDO_ERR_TIMEOUT;
    uint64_t passed_ns = rondo_now_ns() - begin_ns;
    left_ns = (uint64_t)timeout_ns > passed_ns ? timeout_ns - (int64_t)passed_ns : 0;
  }
  return RONDO_SUCCESS;
}

// Enters the context and the communicator.
static int enter(struct rondo_context ctx, struct rondo_comm comm, const char *what,
                 struct rondo_comm_end **end) {
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, what, &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_comm_pin(rank, comm, what, end);
  if (status != RONDO_SUCCESS)
    rondo_rank_unpin(ctx);
  return status;
}

static void leave(struct rondo_context ctx, struct rondo_comm_end *end) {
  rondo_comm_unpin(end);
  rondo_rank_unpin(ctx);
}

static int check_ticket(const struct rondo_ticket *ticket, const char *what) {
  if (!ticket || (ticket->coll.handle && ticket->run))
    return RONDO_SUCCESS;
  return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "%s: a ticket of no call, or of a captured one", what);
}

int rondo_comm_wait(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket, int64_t timeout_ns) {
  struct rondo_comm_end *end;
  int status = enter(ctx, comm, "comm_wait", &end);
  if (status != RONDO_SUCCESS)
    return status;
  compare(end);
  status = check_ticket(ticket, "comm_wait");
  if (status == RONDO_SUCCESS && timeout_ns > 0 && rondo_callbacks_is_inside())
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_wait: a callback may not wait");
  if (status == RONDO_SUCCESS && ticket)
    status = await(ctx, end, ticket, timeout_ns);
  else if (status == RONDO_SUCCESS)
    status = rondo_comm_await_all(ctx, end, timeout_ns);
  if (status == RONDO_SUCCESS && !ticket)
    status = state_of(end);
  leave(ctx, end);
  return status;
}

int rondo_comm_test(struct rondo_context ctx, struct rondo_comm comm,
                    const struct rondo_ticket *ticket) {
  struct rondo_comm_end *end;
  struct rondo_ticket pending;
  int status = enter(ctx, comm, "comm_test", &end);
  if (status != RONDO_SUCCESS)
    return status;
  compare(end);
  status = check_ticket(ticket, "comm_test");
  if (status == RONDO_SUCCESS && ticket) {
    if (rondo_coll_find(end->rank, ticket->coll))
      status = note_failure(ctx, end, ticket, rondo_test(ctx, ticket->coll, ticket->run));
  } else if (status == RONDO_SUCCESS) {
    rondo_rank_poll(end->rank);
    status = find_pending(end, &pending) ? RONDO_IN_PROGRESS : state_of(end);
  }
  leave(ctx, end);
  return status;
}

// A collective that is not there any more had no failed run, as in await.
int rondo_comm_notify(struct rondo_context ctx, struct rondo_comm comm,
                      const struct rondo_ticket *ticket, rondo_callback callback, void *arg) {
  struct rondo_comm_end *end;
  int status = enter(ctx, comm, "comm_notify", &end);
  if (status != RONDO_SUCCESS)
    return status;
  compare(end);
  if (!ticket || !callback)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_notify: a null argument");
  else
    status = check_ticket(ticket, "comm_notify");
  if (status == RONDO_SUCCESS)
    status = rondo_rank_notify(end->rank, ticket->coll, ticket->run, callback, arg);
  leave(ctx, end);
  return status;
}

// ----------------------------------------------------------------- probing ---

// The communicator is locked.
static int probe_locked(struct rondo_comm_end *end, uint32_t from,
                        struct rondo_collective_desc *what) {
  struct rondo_series *series = NULL;
  struct rondo_signature next;
  int failed = state_of(end);
  struct rondo_collective_desc desc = rondo_send_recv(0, 0, RONDO_UINT8, from, end->position);
  int status = failed ? failed : rondo_comm_series(end, &desc, &series);
  if (status != RONDO_SUCCESS)
    return status;
  if (!rondo_track_peek(&series->track, &next))
    return RONDO_IN_PROGRESS;
  desc.count = next.count;
  desc.dtype = next.dtype;
  *what = desc;
  return RONDO_SUCCESS;
}

int rondo_comm_probe(struct rondo_context ctx, struct rondo_comm comm, uint32_t from,
                     struct rondo_collective_desc *what) {
  struct rondo_comm_end *end;
  int status = enter(ctx, comm, "comm_probe", &end);
  if (status != RONDO_SUCCESS)
    return status;
  if (!what || from >= end->nranks || from == end->position) {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "comm_probe: key %llu: null, or position %u is no other of %u",
                              (unsigned long long)end->key, from, end->nranks);
  } else {
    pthread_mutex_lock(&end->lock);
    status = probe_locked(end, from, what);
    pthread_mutex_unlock(&end->lock);
  }
  leave(ctx, end);
  return status;
}

// ----------------------------------------------------------------- failing ---

void rondo_comm_fail(struct rondo_comm_end *end, int status, const char *why) {
  struct rondo_rank *rank = end->rank;
  pthread_mutex_lock(&rank->job->lock);
  (void)rondo_comm_mark_failed(rank->job, end, status, why);
  rondo_comms_broadcast_failures(rank->job);
  pthread_mutex_unlock(&rank->job->lock);
  if (!rank->is_manual)
    rank->daemon->driver->notify_submission(rank->daemon, 1);
}

int rondo_comm_abort(struct rondo_context ctx, struct rondo_comm comm) {
  struct rondo_comm_end *end;
  char why[RONDO_REASON_BYTES];
  int status = enter(ctx, comm, "comm_abort", &end);
  if (status != RONDO_SUCCESS)
    return status;
  (void)snprintf(why, sizeof why, "rank %u aborted it", end->rank->cfg.rank);
  rondo_comm_fail(end, RONDO_ERR_ABORTED, why);
  leave(ctx, end);
  return RONDO_SUCCESS;
}

// -------------------------------------------------------------- observation ---

int rondo_comm_status(struct rondo_context ctx, struct rondo_comm comm, int *state, char *why,
                      size_t why_bytes) {
  struct rondo_comm_end *end;
  int status = enter(ctx, comm, "comm_status", &end);
  if (status != RONDO_SUCCESS)
    return status;
  compare(end);
  rondo_rank_poll(end->rank);
  if (state) {
    *state = state_of(end);
    if (why && why_bytes)
      (void)snprintf(why, why_bytes, "%s", *state ? end->owner.why : "");
  } else {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_status: the place for it is null");
  }
  leave(ctx, end);
  return status;
}

int rondo_comm_counters(struct rondo_context ctx, struct rondo_comm comm,
                        struct rondo_comm_counters *out) {
  struct rondo_comm_end *end;
  int status = enter(ctx, comm, "comm_counters", &end);
  if (status != RONDO_SUCCESS)
    return status;
  if (out) {
    pthread_mutex_lock(&end->lock);
    struct rondo_comm_counters c = {.calls = end->calls, .registrations = end->registrations};
    c.parting = end->retired_count;
    c.cached = end->collective.cache.count;
    for (uint32_t i = 0; i < 2 * end->nranks; i++)
      c.cached += end->sends[i] ? end->sends[i]->cache.count : 0;
    *out = c;
    pthread_mutex_unlock(&end->lock);
  } else {
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "comm_counters: the place for them is null");
  }
  leave(ctx, end);
  return status;
}
