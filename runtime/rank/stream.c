// Runs in the order of a stream of the application.
#include "runtime/rank/stream.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/job/match.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

#define PLACES_LOOK_NS 50000
#define PLACES_BOUND_NS UINT64_C(10000000000)

// Removes from a list an entry whose stream has passed its last run, or returns null. Tickets keep
// rising, so that another stream can use the entry.
static struct rondo_coll_stream *stream_take_idle(struct rondo_coll_stream **list) {
  for (struct rondo_coll_stream **at = list; *at; at = &(*at)->next) {
    struct rondo_coll_stream *s = *at;
    if (s->is_claimed || rondo_load_acquire_u64(&s->words->passed) < s->ticket)
      continue;
    *at = s->next;
    return s;
  }
  return NULL;
}

static struct rondo_coll_stream *stream_make(const struct rondo_rank *rank) {
  const struct rondo_driver *driver = rank->member.device->driver;
  struct rondo_coll_stream *s = calloc(1, sizeof *s);
  if (s)
    s->words = driver->alloc(rank->member.device, RONDO_MEMORY_SHARED, sizeof *s->words);
  if (s && s->words)
    return s;
  free(s);
  return NULL;
}

// The entry of a collective for a stream, which may be one that another stream no longer needs; or
// null. The stream lock is held.
static struct rondo_coll_stream *stream_find(struct rondo_rank *rank, struct rondo_coll *coll,
                                             void *stream) {
  struct rondo_coll_stream *s = coll->streams;
  while (s && s->stream != stream)
    s = s->next;
  if (s)
    return s;
  s = stream_take_idle(&coll->streams);
  if (!s)
    s = stream_take_idle(&rank->retired_streams);
  if (!s)
    return NULL;
  s->stream = stream;
  s->next = coll->streams;
  coll->streams = s;
  return s;
}

// Adds an entry for any stream. Releases the stream lock meanwhile, because the driver may wait for
// the device. Returns false without memory.
static bool stream_add(struct rondo_rank *rank) {
  pthread_mutex_unlock(&rank->stream_lock);
  struct rondo_coll_stream *s = stream_make(rank);
  pthread_mutex_lock(&rank->stream_lock);
  if (!s)
    return false;
  s->next = rank->retired_streams;
  rank->retired_streams = s;
  return true;
}

// Claims the entry of a collective for a stream: only this thread may tie runs of the collective to
// the stream, so that the order of its runs is that of its tickets. Waits while another thread has
// claimed the entry. Null: no memory.
static struct rondo_coll_stream *stream_claim(struct rondo_rank *rank, struct rondo_coll *coll,
                                              void *stream) {
  bool can_make = true;
  pthread_mutex_lock(&rank->stream_lock);
  struct rondo_coll_stream *s = stream_find(rank, coll, stream);
  while (s ? s->is_claimed : can_make) {
    if (s)
      pthread_cond_wait(&rank->stream_given, &rank->stream_lock);
    else
      can_make = stream_add(rank);
    s = stream_find(rank, coll, stream); // another stream may have taken the entry meanwhile
  }
  if (s)
    s->is_claimed = 1;
  pthread_mutex_unlock(&rank->stream_lock);
  return s;
}

// Ends a claim. `ticket`: of the newest run.
static void stream_give(struct rondo_rank *rank, struct rondo_coll_stream *s, uint64_t ticket) {
  pthread_mutex_lock(&rank->stream_lock);
  s->ticket = ticket;
  s->is_claimed = 0;
  pthread_cond_broadcast(&rank->stream_given);
  pthread_mutex_unlock(&rank->stream_lock);
}

// Retires the entries: streams may still have to read the words of ended runs.
void rondo_coll_forget_streams(struct rondo_rank *rank, struct rondo_coll *coll) {
  pthread_mutex_lock(&rank->stream_lock);
  while (coll->streams) {
    struct rondo_coll_stream *s = coll->streams;
    coll->streams = s->next;
    s->next = rank->retired_streams;
    rank->retired_streams = s;
  }
  pthread_mutex_unlock(&rank->stream_lock);
}

void rondo_streams_free(struct rondo_rank *rank) {
  while (rank->retired_streams) {
    struct rondo_coll_stream *s = rank->retired_streams;
    rank->retired_streams = s->next;
    rank->member.device->driver->free(rank->member.device, RONDO_MEMORY_SHARED, s->words);
    free(s);
  }
}

// ------------------------------------------------------------------- places ---

// Returns false after PLACES_BOUND_NS.
static bool coll_await_places(const struct rondo_rank *rank, const struct rondo_coll *coll) {
  const struct timespec pause = {0, PLACES_LOOK_NS};
  const uint64_t end_ns = rondo_now_ns() + PLACES_BOUND_NS;
  while (!rondo_job_has_places(rank->job, &coll->registration)) {
    if (rondo_load_relaxed_u32(&rank->closing))
      return true;
    if (rondo_now_ns() >= end_ns)
      return false;
    (void)nanosleep(&pause, NULL);
  }
  return true;
}

void rondo_coll_await_places(struct rondo_rank *rank, struct rondo_collective handle) {
  struct rondo_coll *coll = rondo_callbacks_is_inside() ? NULL : rondo_coll_hold(rank, handle);
  if (!coll)
    return; // a callback may not wait; or the run has ended, and the collective is deregistered
  if (!rondo_load_relaxed_u32(&coll->has_places) && !coll_await_places(rank, coll))
    rondo_log(RONDO_LOG_WARN,
              "run_on_stream: id %llu: other ranks have not joined in %u s; a call of CUDA that "
              "waits for the stream may keep Rondo out of the driver",
              (unsigned long long)coll->desc.id, (unsigned)(PLACES_BOUND_NS / 1000000000));
  rondo_store_relaxed_u32(&coll->has_places, 1);
  rondo_coll_unhold(rank, coll);
}

// ------------------------------------------------------------------- holding ---

static _Thread_local struct {
  uint32_t depth;
  struct rondo_held_tie *ties;
  size_t count, capacity;
} held;

int rondo_ties_prepare(unsigned *parts) {
  *parts = RONDO_STREAM_ASK | RONDO_STREAM_WAIT;
  if (!held.depth)
    return RONDO_SUCCESS;
  *parts = RONDO_STREAM_ASK;
  if (held.count < held.capacity)
    return RONDO_SUCCESS;
  size_t capacity = held.capacity ? 2 * held.capacity : 16;
  struct rondo_held_tie *ties = realloc(held.ties, capacity * sizeof *ties);
  if (!ties)
    return RONDO_ERR_NO_MEMORY;
  held.ties = ties;
  held.capacity = capacity;
  return RONDO_SUCCESS;
}

void rondo_ties_hold(const struct rondo_held_tie *tie) {
  if (held.depth)
    held.ties[held.count++] = *tie;
}

// Makes the stream wait for a run that was submitted while streams were held.
static int held_tie_enqueue_wait(const struct rondo_held_tie *t) {
  struct rondo_rank *rank;
  char why[RONDO_WHY_BYTES] = "";
  int status = rondo_rank_pin(t->ctx, "streams_release", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_capture c = {.words = t->tie.words, .ticket = t->tie.ticket};
  rondo_coll_await_places(rank, t->coll);
  const struct rondo_driver *driver = rank->member.daemon->driver;
  if (t->is_captured)
    status = driver->capture(rank->member.daemon, t->stream, &c, RONDO_STREAM_WAIT, why);
  else
    status = driver->enqueue(rank->member.daemon, t->stream, t->tie.words, t->tie.ticket,
                             RONDO_STREAM_WAIT, why);
  if (status != RONDO_SUCCESS)
    status = RONDO_LOG_REFUSE(status, "streams_release: rank %u: a stream cannot wait: %s",
                              rank->cfg.rank, why);
  rondo_rank_unpin(t->ctx);
  return status;
}

int rondo_held_streams_begin(void) {
  held.depth++;
  return RONDO_SUCCESS;
}

int rondo_held_streams_end(void) {
  int status = RONDO_SUCCESS;
  if (!held.depth)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "streams_release: this thread holds no streams");
  if (--held.depth)
    return RONDO_SUCCESS;
  for (size_t i = 0; i < held.count; i++) {
    int one = held_tie_enqueue_wait(&held.ties[i]);
    status = status == RONDO_SUCCESS ? one : status;
  }
  free(held.ties);
  held.ties = NULL;
  held.count = held.capacity = 0;
  return status;
}

// -------------------------------------------------------------------- running ---

// Lets the stream, whose entry this thread has claimed, ask for a run. Writes the tie, and what the
// stream still has to do to `parts`.
static int tie_enqueue_ask(struct rondo_rank *rank, const struct rondo_coll *coll,
                           const struct rondo_coll_stream *s, struct rondo_tie *tie,
                           unsigned *parts) {
  char why[RONDO_WHY_BYTES] = "";
  int status = rondo_ties_prepare(parts);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "run_on_stream: id %llu: no memory",
                            (unsigned long long)coll->desc.id);
  status = rank->member.daemon->driver->enqueue(rank->member.daemon, s->stream, s->words,
                                                s->ticket + 1, RONDO_STREAM_ASK, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "run_on_stream: id %llu: %s", (unsigned long long)coll->desc.id,
                            why);
  tie->words = s->words;
  tie->ticket = s->ticket + 1;
  rondo_ties_hold(&(struct rondo_held_tie){rank->ctx, rondo_coll_handle(coll), s->stream, *tie, 0});
  *parts &= ~RONDO_STREAM_ASK;
  return RONDO_SUCCESS;
}

// Lets the stream wait for a submitted run.
static int tie_enqueue_wait(struct rondo_rank *rank, struct rondo_collective handle, void *stream,
                            const struct rondo_tie *tie) {
  char why[RONDO_WHY_BYTES] = "";
  rondo_coll_await_places(rank, handle);
  int status = rank->member.daemon->driver->enqueue(rank->member.daemon, stream, tie->words,
                                                    tie->ticket, RONDO_STREAM_WAIT, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(
        status, "run_on_stream: rank %u: the run is submitted, but its stream does not wait: %s",
        rank->cfg.rank, why);
  return RONDO_SUCCESS;
}

// Commits or cancels a run that was prepared. The collective need not stay registered any more.
static void run_settle(struct rondo_rank *rank, struct rondo_coll *coll, struct rondo_submission *s,
                       struct rondo_run_record *record, uint64_t *run) {
  rondo_lock_take(&rank->lock);
  coll->holders--;
  if (run) {
    (void)rondo_submission_commit(rank, coll, s, record, false);
    *run = coll->submitted;
  } else {
    rondo_submission_cancel(rank, s, record);
  }
  rondo_lock_give(&rank->lock);
}

// Ties a run that was prepared to a stream, and commits it. The run is committed before the stream
// waits: another thread may hold up the call that enqueues the wait, until the launch that was made
// for the run has ended. No lock is held while the driver enqueues, because the stream may wait for
// room.
static int run_tie(struct rondo_rank *rank, struct rondo_coll *coll, struct rondo_submission *s,
                   struct rondo_run_record *record, void *stream, uint64_t *run) {
  const struct rondo_collective handle = rondo_coll_handle(coll);
  unsigned parts = 0;
  struct rondo_coll_stream *claimed = stream_claim(rank, coll, stream);
  if (!claimed) {
    (void)RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "run_on_stream: id %llu: no memory",
                           (unsigned long long)coll->desc.id);
    run_settle(rank, coll, s, record, NULL);
    return RONDO_ERR_NO_MEMORY;
  }
  int status = tie_enqueue_ask(rank, coll, claimed, &s->tie, &parts);
  run_settle(rank, coll, s, record, status == RONDO_SUCCESS ? run : NULL);
  if (status != RONDO_SUCCESS) {
    stream_give(rank, claimed, claimed->ticket);
    return status;
  }
  rondo_submission_notify(rank, 1);
  if (parts)
    status = tie_enqueue_wait(rank, handle, stream, &s->tie);
  stream_give(rank, claimed, s->tie.ticket);
  return status;
}

static int run_submit_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                                struct rondo_submission *s, void *stream, uint64_t *run) {
  struct rondo_run_record *record = NULL;
  int status = rondo_run_check_reach(rank, handle, s, &s->is_private);
  if (status != RONDO_SUCCESS)
    return status;
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "run_on_stream");
  status = coll ? rondo_submission_prepare(rank, coll, s, &record) : RONDO_ERR_UNKNOWN;
  if (status == RONDO_SUCCESS)
    coll->holders++; // keeps the collective registered
  rondo_lock_give(&rank->lock);
  return status == RONDO_SUCCESS ? run_tie(rank, coll, s, record, stream, run) : status;
}

int rondo_rank_is_capturing(const struct rondo_rank *rank, void *stream, int *capturing) {
  const struct rondo_driver *driver = rank->member.daemon->driver;
  char why[RONDO_WHY_BYTES] = "";
  if (!driver->enqueue)
    return RONDO_LOG_REFUSE(RONDO_ERR_UNSUPPORTED, "run_on_stream: the %s backend has no streams",
                            driver->name);
  int status = driver->get_capturing(rank->member.daemon, stream, capturing, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "run_on_stream: rank %u: %s", rank->cfg.rank, why);
  return RONDO_SUCCESS;
}

int rondo_rank_run_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_submission *s, void *stream, uint64_t *run) {
  int capturing = 0;
  uint64_t number = 0;
  int status = rondo_rank_is_capturing(rank, stream, &capturing);
  if (status != RONDO_SUCCESS)
    return status;
  if (capturing) {
    status = rondo_run_capture(rank, handle, s, stream);
    if (status == RONDO_SUCCESS)
      rondo_submission_notify(rank, 1);
  } else {
    status = run_submit_on_stream(rank, handle, s, stream, &number);
  }
  if (run && status == RONDO_SUCCESS)
    *run = number;
  return status;
}
