#include "runtime/rank/service.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/explore.h"
#include "base/log.h"
#include "runtime/job/match.h"
#include "runtime/rank/stream.h"

#define SERVICE_BATCH 64

// 1 if calls of communicators have not been compared yet. They matter also when none of the rank's own runs is
// outstanding: while they have no place in its journal its neighbours compare nothing further, and a
// call of theirs that nobody else makes would go unnoticed.
static int has_comparisons(const struct rondo_rank *rank) {
  return rondo_load_relaxed_u32(&rank->extension_pending) != 0;
}

// 1 if there is something to do for which the rank is locked.
static int has_work(const struct rondo_rank *rank) {
  return rondo_cq_has_entry(&rank->daemon->cq) || rondo_load_relaxed_u32(&rank->has_overflow) ||
         rondo_load_relaxed_u32(&rank->daemon->captured_runs);
}

bool rondo_rank_needs_service(void *owner) {
  const struct rondo_rank *rank = owner;
  return has_work(rank) || has_comparisons(rank);
}

// ---- runs that go out -------------------------------------------------------

struct rondo_sqe rondo_coll_sqe(const struct rondo_coll *coll,
                                const struct rondo_run_record *record) {
  struct rondo_sqe e = {0};
  e.collective = coll->index;
  e.generation = coll->generation;
  e.block_count = coll->registration.shape.blocks;
  e.run = record->number;
  e.send = (uint64_t)(uintptr_t)record->send;
  e.recv = (uint64_t)(uintptr_t)record->recv;
  e.stream = (uint64_t)(uintptr_t)record->tie.words;
  e.ticket = record->tie.ticket;
  return e;
}

static void overflow_add(struct rondo_rank *rank, struct rondo_coll *coll) {
  if (coll->in_overflow)
    return;
  coll->in_overflow = 1;
  coll->next = NULL;
  if (rank->overflow)
    rank->overflow_last->next = coll;
  else
    rank->overflow = coll;
  rank->overflow_last = coll;
  rondo_store_relaxed_u32(&rank->has_overflow, 1);
}

// The list is linked through the field that the free list uses too.
void rondo_coll_forget_overflow(struct rondo_rank *rank, struct rondo_coll *coll) {
  if (RONDO_FAULT(OVERFLOW_KEPT))
    return;
  struct rondo_coll *before = NULL;
  for (struct rondo_coll **at = &rank->overflow; coll->in_overflow && *at; at = &(*at)->next) {
    if (*at == coll) {
      *at = coll->next;
      if (rank->overflow_last == coll)
        rank->overflow_last = before;
      coll->in_overflow = 0;
      break;
    }
    before = *at;
  }
}

// A run that could not go to the device when it was submitted, and noted, does now.
static void note_push(struct rondo_rank *rank, const struct rondo_run_record *record) {
  if (!record->event)
    return;
  struct rondo_flight_event *e = rondo_flight_at(&rank->flight, record->event);
  if (e)
    e->pushed_ns = rondo_stamp_ns(&rank->flight.clock);
}

void rondo_coll_push(struct rondo_rank *rank, struct rondo_coll *coll) {
  while (coll->unpushed && coll->on_device < RONDO_DEVICE_RUNS) {
    struct rondo_sqe entry = rondo_coll_sqe(coll, coll->unpushed);
    if (!rondo_sq_try_push(&rank->daemon->sq, &entry)) {
      overflow_add(rank, coll);
      return;
    }
    coll->on_device++;
    note_push(rank, coll->unpushed);
    coll->unpushed = coll->unpushed->next;
  }
}

// Tries collectives that found the SQ full. Returns 1 if one got on.
static int push_overflow(struct rondo_rank *rank) {
  int moved = 0;
  for (uint32_t i = 0; i < SERVICE_BATCH && rank->overflow; i++) {
    if (!rondo_sq_has_room(&rank->daemon->sq))
      break;
    struct rondo_coll *coll = rank->overflow;
    rank->overflow = coll->next;
    coll->in_overflow = 0;
    rondo_coll_push(rank, coll);
    moved = 1;
  }
  if (!rank->overflow)
    rondo_store_relaxed_u32(&rank->has_overflow, 0);
  return moved;
}

// ---- completions that come in -----------------------------------------------

static void note_end(struct rondo_rank *rank, const struct rondo_run_record *record, int status,
                     uint32_t device_ns) {
  struct rondo_flight_event *e = rondo_flight_at(&rank->flight, record->event);
  if (!e)
    return;
  uint64_t seen_ns =
      rank->left_ns ? rank->left_ns : rondo_load_relaxed_u64(&rank->daemon->ended_ns);
  e->ended_ns = seen_ns ? seen_ns : rondo_now_ns();
  e->device_ns = device_ns;
  e->value = (uint16_t)status;
}

// Ends the oldest run of a collective. The record is recycled.
static void end_run(struct rondo_rank *rank, struct rondo_coll *coll, int status,
                    uint32_t duration_ns) {
  struct rondo_run_record *record = coll->head;
  coll->head = record->next;
  if (!coll->head)
    coll->tail = NULL;
  coll->on_device--;
  if (status != RONDO_SUCCESS && !coll->failed_from) {
    coll->failed_status = status;
    rondo_store_relaxed_u64(&coll->failed_from, record->number); // visible with R1
  }
  rank->completed++;
  rondo_store_release_u64(&coll->completed, record->number); // R1
  if (record->callback)
    rondo_callbacks_post(&rank->callbacks, record->callback, record->arg, status);
  note_end(rank, record, status, duration_ns);
  rank->left_ns = 0;
  record->next = rank->free_records;
  rank->free_records = record;
  if (coll->unpushed)
    rondo_coll_push(rank, coll);
}

static void accept_completion(struct rondo_rank *rank, const struct rondo_cqe *cqe) {
  struct rondo_coll *coll = rondo_coll_at(rank, cqe->collective);
  if (!coll || !coll->head || (uint16_t)coll->head->number != cqe->run) {
    rondo_log(RONDO_LOG_ERROR,
              "rank %u: a completion of table entry %u, run …%u, that nobody awaits",
              rank->cfg.rank, cqe->collective, cqe->run);
    return;
  }
  end_run(rank, coll, cqe->status, cqe->duration_ns);
}

static int event_of(int what) {
  return what == RONDO_BLOCK_QUIT ? RONDO_FLIGHT_QUIT : RONDO_FLIGHT_STARTED;
}

void rondo_rank_noted(void *owner, int what, uint32_t block) {
  struct rondo_rank *rank = owner;
  uint64_t bit = 1ull << block;
  if (!rondo_lock_try(&rank->lock)) {
    // A block has one owner at a time: nobody else sets its bit.
    if (!(rondo_load_relaxed_u64(&rank->untold[what]) & bit))
      rondo_fetch_add_relaxed_u64(&rank->untold[what], bit);
    return;
  }
  rondo_rank_tell_noted(rank);
  rondo_flight_add(&rank->flight, event_of(what), NULL)->value = (uint16_t)block;
  rondo_lock_give(&rank->lock);
}

void rondo_rank_tell_noted(struct rondo_rank *rank) {
  for (int what = 0; what < RONDO_BLOCK_CHANGES; what++) {
    uint64_t blocks = rondo_load_relaxed_u64(&rank->untold[what]);
    if (!blocks)
      continue;
    rondo_fetch_add_relaxed_u64(&rank->untold[what], -blocks);
    for (uint32_t block = 0; block < RONDO_MAX_BLOCKS; block++)
      if (blocks >> block & 1)
        rondo_flight_add(&rank->flight, event_of(what), NULL)->value = (uint16_t)block;
  }
}

void rondo_rank_tell_ended(struct rondo_rank *rank, uint64_t ended) {
  if (rondo_load_acquire_u32(&rank->wants_events)) {
    // A counter that cannot be added to is at 2^64 - 2: its reader is told all the same.
    ssize_t written = write(rank->event_fd, &ended, sizeof ended);
    (void)written;
  }
  rank->daemon->driver->notify_completion(rank->daemon); // H7
}

uint64_t rondo_rank_accept(struct rondo_rank *rank) {
  struct rondo_cqe cqe;
  uint64_t ended = 0;
  // Of what has not ended there are no more completions than runs: an empty queue need not be looked at.
  while (ended < SERVICE_BATCH && rank->completed < rank->submitted &&
         rondo_cq_try_peek(&rank->daemon->cq, &cqe)) {
    accept_completion(rank, &cqe);
    rondo_cq_pop(&rank->daemon->cq,
                 &cqe); // behind R1: who has seen the entry sees one or the other
    ended++;
  }
  if (ended)
    rondo_fetch_add_seq_cst_u64(&rank->daemon->outstanding, (uint64_t)0 - ended); // H7
  return ended;
}

void rondo_rank_settle(struct rondo_rank *rank) {
  uint64_t ended = rondo_cq_has_entry(&rank->daemon->cq) ? rondo_rank_accept(rank) : 0;
  if (ended)
    rondo_rank_tell_ended(rank, ended);
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
    return 0;
  uint64_t ended = rondo_rank_accept(rank);
  int moved = ended > 0;
  if (rank->overflow)
    moved |= push_overflow(rank);
  int replayed = rank->replays && rondo_replays_serve(rank);
  rondo_lock_give(&rank->lock);
  moved |= replayed;
  if (replayed)
    rondo_submission_notify(rank, 1);
  if (!ended)
    return moved;
  rondo_rank_tell_ended(rank, ended);
  return 1;
}

// ---- the end of the daemon --------------------------------------------------

// What the daemon would have done at the end of a run.
static void release_stream(const struct rondo_run_record *record) {
  struct rondo_task_run run = {.stream = (uint64_t)(uintptr_t)record->tie.words,
                               .ticket = record->tie.ticket};
  rondo_run_release_stream(&run);
}

// Ends all runs of a collective whose daemon is lost. Returns how many.
static uint64_t end_all(struct rondo_rank *rank, struct rondo_coll *coll) {
  uint64_t ended = 0;
  rondo_job_fail(rank->job, &coll->registration, RONDO_ERR_SYSTEM);
  rondo_coll_forget_overflow(rank, coll);
  coll->unpushed = NULL;
  for (; coll->head; ended++) {
    coll->on_device = 1; // also those that never were
    release_stream(coll->head);
    end_run(rank, coll, RONDO_ERR_SYSTEM, 0);
  }
  return ended;
}

void rondo_rank_lost(void *owner, const char *why) {
  struct rondo_rank *rank = owner;
  uint64_t ended = 0;
  rondo_log(RONDO_LOG_ERROR, "rank %u: the %s backend: %s: all runs end", rank->cfg.rank,
            rank->daemon->driver->name, why);
  pthread_mutex_lock(&rank->job->lock);
  rondo_rank_lock(rank);
  rank->is_lost = 1;
  for (uint32_t i = 0; i < rank->coll_slots; i++) {
    struct rondo_coll *coll = rondo_coll_at(rank, i);
    if (coll->generation % 2)
      ended += end_all(rank, coll);
  }
  if (ended)
    rondo_fetch_add_seq_cst_u64(&rank->daemon->outstanding, (uint64_t)0 - ended); // H7
  rondo_lock_give(&rank->lock);
  pthread_mutex_unlock(&rank->job->lock);
  if (ended)
    rondo_rank_tell_ended(rank, ended);
}

// ---- the proxy ------------------------------------------------------------------

void rondo_rank_moved(void *owner) {
  const struct rondo_rank *rank = owner;
  if (rank->job)
    rondo_transports_ring(&rank->job->transports);
}

bool rondo_rank_forward(void *owner, int then) {
  const struct rondo_rank *rank = owner;
  int is_busy = rondo_load_relaxed_u64(&rank->daemon->outstanding) > 0;
  return rank->job ? rondo_transports_forward(&rank->job->transports, then, is_busy) : 0;
}
