#include "runtime/rank/run_queues.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/job/match.h"
#include "runtime/rank/lending.h"
#include "runtime/rank/retry.h"
#include "runtime/rank/stream.h"
#include "runtime/transport/communicator.h"

#define SERVICE_BATCH 64
#define OVERFLOW_LEAST 16u // a power of two

// True if calls of communicators have not been compared yet. This matters also without outstanding
// runs: until they are in the rank's journal its neighbours compare no further, and a call that
// only one rank makes would stay unnoticed.
static bool has_comparisons(const struct rondo_rank *rank) {
  return rondo_load_relaxed_u32(&rank->extension_pending) != 0;
}

// True if there is work that needs the rank's lock.
static bool has_work(const struct rondo_rank *rank) {
  return rondo_cq_has_entry(&rank->member.daemon->cq) ||
         rondo_load_relaxed_u32(&rank->has_overflow) ||
         rondo_load_relaxed_u32(&rank->member.daemon->captured_runs);
}

bool rondo_rank_needs_service(void *owner) {
  const struct rondo_rank *rank = owner;
  return has_work(rank) || has_comparisons(rank);
}

// ---- pushing runs -----------------------------------------------------------

struct rondo_sqe rondo_coll_sqe(const struct rondo_coll *coll,
                                const struct rondo_run_record *record) {
  struct rondo_sqe e = {0};
  if (record->exchange)
    rondo_exchange_push(coll, record);
  e.collective = coll->index;
  e.generation = coll->generation;
  e.block_count = coll->block_count;
  e.run = record->number;
  e.send = (uint64_t)(uintptr_t)record->args.send;
  void *recv = coll->retries ? rondo_retry_recv(coll, record) : record->args.recv;
  e.recv = (uint64_t)(uintptr_t)recv;
  e.stream = (uint64_t)(uintptr_t)record->tie.words;
  e.ticket = record->tie.ticket;
  e.flags = record->is_private ? RONDO_SQE_PRIVATE : 0;
  int is_open = 0;
  if (rondo_gate_verdict(&coll->registration.comm->gate, record->number, &is_open) ==
          RONDO_SUCCESS &&
      is_open)
    e.flags |= RONDO_SQE_OPEN;
  return e;
}

// Records the push of a run, if its event exists: not yet while it is being submitted.
static void run_note_push(struct rondo_rank *rank, uint64_t event) {
  struct rondo_flight_event *e = rondo_flight_at(&rank->flight, event);
  if (e)
    e->pushed_ns = rondo_stamp_ns(&rank->flight.clock);
}

static bool overflow_is_empty(const struct rondo_overflow *o) { return o->first == o->end; }

static struct rondo_unsent *overflow_at(const struct rondo_overflow *o, uint32_t at) {
  return &o->entries[at & (o->capacity - 1)];
}

int rondo_rank_reserve_overflow(struct rondo_rank *rank) {
  struct rondo_overflow *o = &rank->overflow;
  uint64_t most = rank->submitted - rank->completed + rank->hidden_runs + 1;
  uint32_t capacity = o->capacity ? o->capacity : OVERFLOW_LEAST;
  if (most <= o->capacity)
    return RONDO_SUCCESS;
  while (capacity < most)
    capacity *= 2;
  struct rondo_unsent *entries = malloc(capacity * sizeof *entries);
  if (!entries)
    return RONDO_ERR_NO_MEMORY;
  for (uint32_t at = o->first; at != o->end; at++)
    entries[at & (capacity - 1)] = *overflow_at(o, at);
  free(o->entries);
  o->entries = entries;
  o->capacity = capacity;
  return RONDO_SUCCESS;
}

bool rondo_rank_is_unsent(const struct rondo_rank *rank, uint64_t event) {
  const struct rondo_overflow *o = &rank->overflow;
  return !overflow_is_empty(o) && overflow_at(o, o->end - 1)->event == event;
}

// Pushes what found the SQ full. Returns true if it pushed anything.
static bool overflow_try_push(struct rondo_rank *rank) {
  struct rondo_overflow *o = &rank->overflow;
  uint32_t pushed = 0;
  for (; pushed < SERVICE_BATCH && !overflow_is_empty(o); pushed++) {
    const struct rondo_unsent *next = overflow_at(o, o->first);
    if (!rondo_sq_try_push(&rank->member.daemon->sq, &next->sqe))
      break;
    run_note_push(rank, next->event);
    o->first++;
  }
  if (overflow_is_empty(o))
    rondo_store_relaxed_u32(&rank->has_overflow, 0);
  return pushed > 0;
}

// Pushes an SQE, or keeps it behind those that wait for room.
static void sqe_push(struct rondo_rank *rank, const struct rondo_sqe *sqe, uint64_t event) {
  struct rondo_overflow *o = &rank->overflow;
  if (!overflow_is_empty(o) && !RONDO_FAULT(OVERFLOW_PASSED))
    (void)overflow_try_push(rank);
  if ((overflow_is_empty(o) || RONDO_FAULT(OVERFLOW_PASSED)) &&
      rondo_sq_try_push(&rank->member.daemon->sq, sqe)) {
    run_note_push(rank, event);
    return;
  }
  *overflow_at(o, o->end++) = (struct rondo_unsent){*sqe, event};
  rondo_store_relaxed_u32(&rank->has_overflow, 1);
}

void rondo_coll_push(struct rondo_rank *rank, struct rondo_coll *coll) {
  const bool is_front = rondo_retry_is_front(coll);
  const struct rondo_run_record *first = coll->unpushed;
  if (is_front && rondo_retry_push(rank, coll)) {
    if (coll->unpushed != first)
      run_note_push(rank, first->event);
    return;
  }
  while (coll->unpushed && coll->on_device < (is_front ? 1 : RONDO_DEVICE_RUNS)) {
    struct rondo_sqe sqe = rondo_coll_sqe(coll, coll->unpushed);
    sqe_push(rank, &sqe, coll->unpushed->event);
    coll->on_device++;
    coll->unpushed = coll->unpushed->next;
    if (is_front)
      rondo_retry_note_push(coll);
  }
}

// ---- taking completions -----------------------------------------------------

static void run_note_end(struct rondo_rank *rank, const struct rondo_run_record *record, int status,
                         uint32_t device_ns) {
  struct rondo_flight_event *e = rondo_flight_at(&rank->flight, record->event);
  if (!e)
    return;
  uint64_t seen_ns = rank->inline_ended_ns ? rank->inline_ended_ns
                                           : rondo_load_relaxed_u64(&rank->member.daemon->ended_ns);
  e->ended_ns = seen_ns ? seen_ns : rondo_now_ns();
  e->device_ns = device_ns;
  e->value = (uint16_t)status;
}

void rondo_run_end(struct rondo_rank *rank, struct rondo_coll *coll, int status,
                   uint32_t duration_ns) {
  struct rondo_run_record *record = coll->head;
  coll->head = record->next;
  if (!coll->head)
    coll->tail = NULL;
  coll->on_device--;
  rondo_tie_count(rank, &record->tie, UINT32_MAX);
  if (status != RONDO_SUCCESS && !coll->failed_from) {
    coll->failed_status = status;
    rondo_store_relaxed_u64(&coll->failed_from, record->number); // visible with R1
  }
  if (record->exchange) {
    if (status == RONDO_ERR_MISMATCH && rondo_exchange_note_refusal(coll, record))
      rondo_store_relaxed_u32(&rank->extension_pending, 1);
    free(record->exchange);
  }
  rank->completed++;
  rondo_store_release_u64(&coll->completed, record->number); // R1
  if (record->args.callback)
    rondo_callbacks_post(&rank->callbacks, record->args.callback, record->args.arg, status);
  run_note_end(rank, record, status, duration_ns);
  rank->inline_ended_ns = 0;
  record->next = rank->free_records;
  rank->free_records = record;
  if (coll->unpushed)
    rondo_coll_push(rank, coll);
  if (coll->borrows && (!coll->head || RONDO_FAULT(LENT_EARLY)))
    rondo_coll_return(rank, coll);
}

// Returns how many runs of the application have ended.
static uint64_t completion_accept(struct rondo_rank *rank, const struct rondo_cqe *cqe) {
  struct rondo_coll *coll = rondo_coll_at(rank, cqe->collective);
  if (!coll || !coll->head || (uint16_t)coll->head->number != cqe->run) {
    rondo_log(RONDO_LOG_ERROR, "rank %u: unexpected completion of table entry %u, run …%u",
              rank->cfg.rank, cqe->collective, cqe->run);
    return 1;
  }
  if (coll->retries)
    return rondo_retry_accept(rank, coll, cqe->status, cqe->duration_ns);
  rondo_run_end(rank, coll, cqe->status, cqe->duration_ns);
  return 1;
}

static int change_event(int what) {
  return what == RONDO_BLOCK_QUIT ? RONDO_FLIGHT_QUIT : RONDO_FLIGHT_STARTED;
}

void rondo_rank_on_change(void *owner, int what, uint32_t block) {
  struct rondo_rank *rank = owner;
  uint64_t bit = 1ull << block;
  if (!rondo_lock_try(&rank->lock)) {
    // A block has one owner at a time, so that no other thread sets this bit.
    if (!(rondo_load_relaxed_u64(&rank->pending_changes[what]) & bit))
      rondo_fetch_add_relaxed_u64(&rank->pending_changes[what], bit);
    return;
  }
  rondo_rank_add_changes(rank);
  rondo_flight_add(&rank->flight, change_event(what), NULL)->value = (uint16_t)block;
  rondo_lock_give(&rank->lock);
}

void rondo_rank_add_changes(struct rondo_rank *rank) {
  for (int what = 0; what < RONDO_BLOCK_CHANGES; what++) {
    uint64_t blocks = rondo_load_relaxed_u64(&rank->pending_changes[what]);
    if (!blocks)
      continue;
    rondo_fetch_add_relaxed_u64(&rank->pending_changes[what], -blocks);
    for (uint32_t block = 0; block < RONDO_MAX_BLOCKS; block++)
      if (blocks >> block & 1)
        rondo_flight_add(&rank->flight, change_event(what), NULL)->value = (uint16_t)block;
  }
}

void rondo_rank_notify_ended(struct rondo_rank *rank, uint64_t ended) {
  if (rondo_load_acquire_u32(&rank->wants_events)) {
    // The write fails only if the counter is at its maximum. Then it is readable anyway.
    ssize_t written = write(rank->event_fd, &ended, sizeof ended);
    (void)written;
  }
  rank->member.daemon->driver->notify_completion(rank->member.daemon); // H7
}

uint64_t rondo_rank_accept(struct rondo_rank *rank) {
  struct rondo_cqe cqe;
  uint64_t ended = 0;
  // There are at most as many CQEs as outstanding runs. Without any, the CQ is not read.
  while (ended < SERVICE_BATCH && (rank->completed < rank->submitted || rank->hidden_runs) &&
         rondo_cq_try_peek(&rank->member.daemon->cq, &cqe)) {
    ended += completion_accept(rank, &cqe);
    // After R1: a thread that has seen the CQE sees either the CQE or `completed`.
    rondo_cq_pop(&rank->member.daemon->cq, &cqe);
  }
  if (ended)
    rondo_fetch_add_seq_cst_u64(&rank->member.daemon->outstanding, (uint64_t)0 - ended); // H7
  return ended;
}

void rondo_rank_settle(struct rondo_rank *rank) {
  uint64_t ended = rondo_cq_has_entry(&rank->member.daemon->cq) ? rondo_rank_accept(rank) : 0;
  if (ended)
    rondo_rank_notify_ended(rank, ended);
}

void rondo_rank_lock(struct rondo_rank *rank) {
  rondo_lock_take(&rank->lock);
  rondo_rank_settle(rank);
}

bool rondo_rank_service(void *owner) {
  struct rondo_rank *rank = owner;
  if (has_comparisons(rank))
    rank->extension->serve(rank);
  if (!has_work(rank) || !rondo_lock_try(&rank->lock))
    return false;
  uint64_t ended = rondo_rank_accept(rank);
  bool moved = ended > 0;
  if (!overflow_is_empty(&rank->overflow))
    moved |= overflow_try_push(rank);
  bool replayed = rank->replays && rondo_replays_serve(rank);
  bool started = rank->started_runs != 0;
  rank->started_runs = 0;
  rondo_lock_give(&rank->lock);
  moved |= replayed || started;
  if (replayed)
    rondo_submission_notify(rank, 1);
  if (!ended)
    return moved;
  rondo_rank_notify_ended(rank, ended);
  return true;
}

// ---- the end of the daemon --------------------------------------------------

// Lets the stream of a run continue, as the daemon would.
static void run_release_stream(const struct rondo_run_record *record) {
  struct rondo_task_run run = {.stream = (uint64_t)(uintptr_t)record->tie.words,
                               .ticket = record->tie.ticket};
  rondo_run_release_stream(&run);
}

// Ends all runs of a collective whose daemon is lost. Returns how many.
static uint64_t coll_end_runs(struct rondo_rank *rank, struct rondo_coll *coll) {
  uint64_t ended = 0;
  rondo_job_fail(rank->job, &coll->registration, RONDO_ERR_SYSTEM);
  coll->unpushed = NULL;
  for (; coll->head; ended++) {
    coll->on_device = 1; // rondo_run_end subtracts 1, also for runs that were never pushed
    run_release_stream(coll->head);
    rondo_run_end(rank, coll, RONDO_ERR_SYSTEM, 0);
  }
  return ended;
}

void rondo_rank_on_lost(void *owner, const char *why) {
  struct rondo_rank *rank = owner;
  uint64_t ended = 0;
  rondo_log(RONDO_LOG_ERROR, "rank %u: the %s backend: %s: all runs fail", rank->cfg.rank,
            rank->member.daemon->driver->name, why);
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  rank->is_lost = 1;
  rank->overflow.first = rank->overflow.end;
  rondo_store_relaxed_u32(&rank->has_overflow, 0);
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2 && !coll->retries) // no backend that is lost can retry
      ended += coll_end_runs(rank, coll);
  }
  if (ended)
    rondo_fetch_add_seq_cst_u64(&rank->member.daemon->outstanding, (uint64_t)0 - ended); // H7
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  if (ended)
    rondo_rank_notify_ended(rank, ended);
}

// ---- the proxy ------------------------------------------------------------------

void rondo_rank_on_moved(void *owner) {
  const struct rondo_rank *rank = owner;
  if (rank->job)
    rondo_transports_ring(&rank->job->transports);
}

bool rondo_rank_forward(void *owner, int then) {
  const struct rondo_rank *rank = owner;
  int is_busy = rondo_load_relaxed_u64(&rank->member.daemon->outstanding) > 0;
  return rank->job ? rondo_transports_forward(&rank->job->transports, then, is_busy) : false;
}
