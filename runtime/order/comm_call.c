#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/job/job.h"
#include "runtime/order/comm_end.h"
#include "runtime/order/comm_failure.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/rank/stream.h"
#include "runtime/rank/submit.h"
#include "runtime/rank/wait.h"
#include "runtime/transport/communicator.h"

// A call that is being made.
struct call {
  const struct rondo_comm_call_request *request;
  struct rondo_collective_desc desc;
  struct rondo_signature signature;
  struct rondo_submission submission;
  struct rondo_collective coll;
  uint64_t run;
};

// ------------------------------------------------------------------ checks ---

// Refuses a call whose run could not be submitted after its collective was registered: the other
// members would miss that run.
static int call_check_rank(struct rondo_rank *rank) {
  int status = RONDO_SUCCESS;
  rondo_rank_lock(rank);
  if (rank->is_lost)
    status = RONDO_LOG_REFUSE(RONDO_ERR_SYSTEM, "comm_call: rank %u has lost its daemon",
                              rank->cfg.rank);
  else if (rank->cfg.max_runs && rank->submitted - rank->completed >= rank->cfg.max_runs)
    status = RONDO_LOG_REFUSE(RONDO_ERR_FULL,
                              "comm_call: rank %u already has %llu runs outstanding (max_runs)",
                              rank->cfg.rank, (unsigned long long)rank->cfg.max_runs);
  rondo_lock_give(&rank->lock);
  return status;
}

static int call_check_stream(const struct rondo_comm_end *end, const struct call *c,
                             int *is_capturing) {
  *is_capturing = 0;
  if (!c->request->is_on_stream)
    return RONDO_SUCCESS;
  int status = rondo_rank_is_capturing(end->rank, c->request->stream, is_capturing);
  if (status == RONDO_SUCCESS && *is_capturing && c->submission.args.callback)
    status = RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                              "comm_call: key %llu: a captured call cannot have a callback",
                              (unsigned long long)end->key);
  return status;
}

// Gives the counts of an all-to-all-v to its run: the next call may have others.
static int call_take_counts(const struct rondo_comm_end *end, struct call *c) {
  struct rondo_collective_desc *d = &c->desc;
  int status = rondo_exchange_make(d, end->nranks, end->position, &c->submission.exchange);
  d->send_counts = d->send_displacements = NULL;
  d->recv_counts = d->recv_displacements = NULL;
  return status;
}

// ----------------------------------------------------------------- calling ---

static int call_submit(struct rondo_comm_end *end, struct call *c) {
  int status = RONDO_SUCCESS;
  rondo_comm_unlock_for_device(end);
  if (c->request->is_on_stream)
    status =
        rondo_rank_run_on_stream(end->rank, c->coll, &c->submission, c->request->stream, &c->run);
  else
    status = rondo_rank_run(end->rank, c->coll, &c->submission, &c->run);
  rondo_comm_lock_after_device(end);
  return status;
}

// Retires a collective. The node was allocated before, so this cannot fail.
static void end_retire(struct rondo_comm_end *end, struct rondo_collective coll) {
  struct rondo_retired_coll *retired = end->spare_retired;
  end->spare_retired = NULL;
  retired->coll = coll;
  retired->next = end->retired;
  end->retired = retired;
  end->retired_count++;
}

// The planted defect: which collective the cache drops depends on which runs have ended.
static void series_prefer_idle(const struct rondo_comm_end *end, struct rondo_series *series) {
  for (uint32_t i = 0; i < series->cache.count; i++) {
    const struct rondo_coll *coll = rondo_coll_find(end->rank, series->cache.entries[i].coll);
    if (coll && !coll->head)
      series->cache.entries[i].called = 0;
  }
}

// Registers a collective for a call that has none in the cache.
static int call_register(struct rondo_comm_end *end, struct rondo_series *series, struct call *c) {
  struct rondo_collective dropped;
  if (RONDO_FAULT(EVICTS_IDLE))
    series_prefer_idle(end, series);
  if (!end->spare_retired)
    end->spare_retired = malloc(sizeof *end->spare_retired);
  if (!end->spare_retired)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "comm_call: key %llu: no memory",
                            (unsigned long long)end->key);
  int status = call_check_rank(end->rank);
  c->desc.id = rondo_series_id(end->key, series->from, series->to, series->registered);
  const struct rondo_register_request request = {
      .desc = &c->desc,
      .id = {.number = c->desc.id, .space = RONDO_SPACE_COMM},
      .run = &c->submission,
      .owner = &end->owner};
  if (status != RONDO_SUCCESS)
    return status;
  rondo_comm_unlock_for_device(end);
  status = rondo_rank_register(end->rank, &request, &c->coll);
  rondo_comm_lock_after_device(end);
  if (status != RONDO_SUCCESS)
    return status;
  series->registered++;
  end->registrations++;
  if (!rondo_signature_is_cached(&c->signature))
    end_retire(end, c->coll);
  else if (rondo_cache_insert(&series->cache, &c->signature, c->coll, &dropped))
    end_retire(end, dropped);
  return RONDO_SUCCESS;
}

// The caller has the turn.
static int call_make(struct rondo_comm_end *end, struct call *c) {
  struct rondo_series *series = NULL;
  int status = rondo_comm_find_series(end, &c->desc, &series);
  if (status != RONDO_SUCCESS)
    return status;
  if (rondo_journal_writer_reserve(&series->writer) != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "comm_call: key %llu: no memory",
                            (unsigned long long)end->key);
  bool is_cached = rondo_signature_is_cached(&c->signature);
  struct rondo_cache_entry *entry =
      is_cached ? rondo_cache_find(&series->cache, &c->signature) : NULL;
  if (entry)
    c->coll = entry->coll;
  else
    status = call_register(end, series, c);
  if (status == RONDO_SUCCESS)
    status = call_submit(end, c);
  if (status != RONDO_SUCCESS)
    return status;
  if (entry)
    rondo_cache_touch(&series->cache, entry);
  rondo_journal_writer_append(&series->writer, &c->signature);
  end->calls++;
  rondo_comm_compare_series(end, series);
  return RONDO_SUCCESS;
}

static int call_make_in_turn(struct rondo_comm_end *end, struct call *c) {
  int status = RONDO_SUCCESS;
  rondo_comm_take_turn(end);
  rondo_comm_check_refusal(end);
  int failed = rondo_comm_end_state(end);
  if (failed)
    status = RONDO_LOG_REFUSE(failed, "comm_call: key %llu: the communicator has failed: %s",
                              (unsigned long long)end->key, end->owner.why);
  else if (end->closing)
    status = RONDO_LOG_REFUSE(RONDO_ERR_CLOSED, "comm_call: the communicator is being destroyed");
  rondo_comm_sweep(end);
  if (status == RONDO_SUCCESS)
    status = call_make(end, c);
  rondo_comm_give_turn(end);
  return status;
}

int rondo_comm_end_call(struct rondo_comm_end *end, const struct rondo_comm_call_request *request,
                        struct rondo_ticket *ticket) {
  struct call c = {.request = request, .desc = *request->desc, .submission.args = *request->args};
  int is_capturing = 0;
  int status = call_check_stream(end, &c, &is_capturing);
  // The runs of a graph have the counts of the capture.
  if (status == RONDO_SUCCESS && c.desc.kind == RONDO_ALL_TO_ALL_V && !is_capturing)
    status = call_take_counts(end, &c);
  if (status != RONDO_SUCCESS)
    return status;
  c.signature = rondo_signature_of(request->desc, is_capturing);
  c.desc.group = end->group;
  c.desc.priority = end->priority;
  status = call_make_in_turn(end, &c);
  free(c.submission.exchange); // null if the run has it
  if (status == RONDO_SUCCESS && ticket)
    *ticket = (struct rondo_ticket){.coll = c.coll, .run = c.run};
  return status;
}

// ----------------------------------------------------------------- waiting ---

int rondo_comm_end_state(const struct rondo_comm_end *end) {
  return (int)rondo_load_acquire_u32(&end->owner.failed);
}

static void coll_copy_reason(struct rondo_rank *rank, struct rondo_collective handle,
                             char why[RONDO_REASON_BYTES]) {
  rondo_lock_take(&rank->lock);
  const struct rondo_coll *coll = rondo_coll_find(rank, handle);
  if (coll)
    rondo_communicator_reason(coll->registration.comm, why, RONDO_REASON_BYTES);
  rondo_lock_give(&rank->lock);
}

// Fails the communicator if a run failed although its gate did not: for example a run that a peer
// did not make before the peer detached. Returns `status`.
static int end_note_run(struct rondo_comm_end *end, const struct rondo_ticket *ticket, int status) {
  char why[RONDO_REASON_BYTES] = "";
  bool has_failed = status == RONDO_ERR_MISMATCH || status == RONDO_ERR_ABORTED ||
                    status == RONDO_ERR_PEER || status == RONDO_ERR_SYSTEM;
  if (has_failed)
    rondo_comm_check_refusal(end);
  if (!has_failed || rondo_comm_end_state(end))
    return status;
  coll_copy_reason(end->rank, ticket->coll, why);
  rondo_comm_end_fail(end, status, why);
  return status;
}

// A communicator that has failed keeps its collectives. So if the collective was deregistered, all
// its runs succeeded.
static int end_wait_call(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                         int64_t timeout_ns) {
  struct rondo_coll *coll = rondo_coll_hold(end->rank, ticket->coll);
  if (!coll)
    return RONDO_SUCCESS;
  int status = rondo_rank_wait(end->rank, ticket->coll, ticket->run, "comm_wait", timeout_ns);
  status = end_note_run(end, ticket, status);
  rondo_coll_unhold(end->rank, coll);
  return status;
}

struct pending_search {
  struct rondo_rank *rank;
  struct rondo_ticket found; // the last run of a collective with runs outstanding
};

static void coll_visit_pending(struct rondo_collective handle, void *arg) {
  struct pending_search *search = arg;
  const struct rondo_coll *coll = rondo_coll_find(search->rank, handle);
  if (!coll || search->found.coll.handle)
    return;
  uint64_t submitted = rondo_load_relaxed_u64(&coll->submitted);
  if (rondo_load_acquire_u64(&coll->completed) >= submitted) // R1
    return;
  search->found = (struct rondo_ticket){.coll = handle, .run = submitted};
}

// Finds a call that has not ended.
static bool end_find_pending(struct rondo_comm_end *end, struct rondo_ticket *ticket) {
  struct pending_search search = {.rank = end->rank};
  pthread_mutex_lock(&end->lock);
  rondo_comm_visit(end, coll_visit_pending, &search);
  pthread_mutex_unlock(&end->lock);
  *ticket = search.found;
  return search.found.coll.handle != 0;
}

int rondo_comm_end_wait_all(struct rondo_comm_end *end, int64_t timeout_ns) {
  struct rondo_ticket ticket;
  uint64_t begin_ns = rondo_now_ns();
  int64_t left_ns = timeout_ns;
  while (end_find_pending(end, &ticket)) {
    if (end_wait_call(end, &ticket, left_ns) == RONDO_ERR_TIMEOUT)
      return RONDO_ERR_TIMEOUT;
    uint64_t passed_ns = rondo_now_ns() - begin_ns;
    left_ns = (uint64_t)timeout_ns > passed_ns ? timeout_ns - (int64_t)passed_ns : 0;
  }
  rondo_comm_check_refusal(end); // by a run that another thread has seen end
  return RONDO_SUCCESS;
}

int rondo_comm_end_wait(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                        int64_t timeout_ns) {
  rondo_comm_compare_pending(end);
  if (ticket)
    return end_wait_call(end, ticket, timeout_ns);
  int status = rondo_comm_end_wait_all(end, timeout_ns);
  return status == RONDO_SUCCESS ? rondo_comm_end_state(end) : status;
}

int rondo_comm_end_test(struct rondo_comm_end *end, const struct rondo_ticket *ticket) {
  struct rondo_ticket pending;
  rondo_comm_compare_pending(end);
  if (!ticket) {
    rondo_rank_poll(end->rank);
    if (end_find_pending(end, &pending))
      return RONDO_IN_PROGRESS;
    rondo_comm_check_refusal(end);
    return rondo_comm_end_state(end);
  }
  if (!rondo_coll_find(end->rank, ticket->coll))
    return RONDO_SUCCESS;
  int status = rondo_rank_test(end->rank, ticket->coll, ticket->run, "comm_test");
  return end_note_run(end, ticket, status);
}

int rondo_comm_end_notify(struct rondo_comm_end *end, const struct rondo_ticket *ticket,
                          rondo_callback callback, void *arg) {
  rondo_comm_compare_pending(end);
  return rondo_rank_notify(end->rank, ticket->coll, ticket->run, callback, arg);
}

// ----------------------------------------------------------------- probing ---

// The communicator is locked.
static int end_probe_locked(struct rondo_comm_end *end, uint32_t from,
                            struct rondo_collective_desc *what) {
  struct rondo_series *series = NULL;
  struct rondo_signature next;
  struct rondo_collective_desc desc = rondo_send_recv(0, 0, RONDO_UINT8, from, end->position);
  int failed = rondo_comm_end_state(end);
  int status = failed ? failed : rondo_comm_find_series(end, &desc, &series);
  if (status != RONDO_SUCCESS)
    return status;
  if (!rondo_journal_writer_peek(&series->writer, &next))
    return RONDO_IN_PROGRESS;
  desc.count = next.count;
  desc.dtype = next.dtype;
  *what = desc;
  return RONDO_SUCCESS;
}

int rondo_comm_end_probe(struct rondo_comm_end *end, uint32_t from,
                         struct rondo_collective_desc *what) {
  if (from >= end->nranks || from == end->position)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "comm_probe: key %llu: position %u is not another member of the %u",
                            (unsigned long long)end->key, from, end->nranks);
  pthread_mutex_lock(&end->lock);
  int status = end_probe_locked(end, from, what);
  pthread_mutex_unlock(&end->lock);
  return status;
}

// ----------------------------------------------------------------- failing ---

void rondo_comm_end_fail(struct rondo_comm_end *end, int status, const char *why) {
  struct rondo_rank *rank = end->rank;
  pthread_mutex_lock(&rank->job->lock);
  (void)rondo_comm_mark_failed(rank->job, end, status, why);
  rondo_comms_broadcast_failures(rank->job);
  pthread_mutex_unlock(&rank->job->lock);
  rondo_submission_notify(rank, 1);
}

// ---------------------------------------------------------------- counters ---

void rondo_comm_end_counters(struct rondo_comm_end *end, struct rondo_comm_counters *out) {
  pthread_mutex_lock(&end->lock);
  struct rondo_comm_counters c = {.calls = end->calls, .registrations = end->registrations};
  c.parting = end->retired_count;
  for (uint32_t i = 0; i < rondo_comm_series_count(end); i++)
    c.cached += end->series[i] ? end->series[i]->cache.count : 0;
  *out = c;
  pthread_mutex_unlock(&end->lock);
}
