// Runs in the order of a stream of the application.
#include "runtime/rank/stream.h"

#include <stdlib.h>

#include "base/log.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"

// Removes from a list an entry whose stream has passed its last run, or returns null. Tickets keep
// rising, so that another stream can use the entry.
static struct rondo_coll_stream *stream_take_idle(struct rondo_coll_stream **list) {
  for (struct rondo_coll_stream **at = list; *at; at = &(*at)->next) {
    struct rondo_coll_stream *s = *at;
    if (rondo_load_acquire_u64(&s->words->passed) < s->ticket)
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

// The entry of a collective for a stream, or null without memory. The stream lock is held.
static struct rondo_coll_stream *stream_get(struct rondo_rank *rank, struct rondo_coll *coll,
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
    s = stream_make(rank);
  if (!s)
    return NULL;
  s->stream = stream;
  s->next = coll->streams;
  coll->streams = s;
  return s;
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
static int tie_enqueue_wait(const struct rondo_held_tie *t) {
  struct rondo_rank *rank;
  char why[RONDO_WHY_BYTES] = "";
  int status = rondo_rank_pin(t->ctx, "streams_release", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  struct rondo_capture c = {.words = t->tie.words, .ticket = t->tie.ticket};
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
    int one = tie_enqueue_wait(&held.ties[i]);
    status = status == RONDO_SUCCESS ? one : status;
  }
  free(held.ties);
  held.ties = NULL;
  held.count = held.capacity = 0;
  return status;
}

// -------------------------------------------------------------------- running ---

// Enqueues the tie of a run in the stream. The stream lock is held.
static int tie_enqueue(struct rondo_rank *rank, struct rondo_coll *coll, void *stream,
                       struct rondo_tie *tie) {
  char why[RONDO_WHY_BYTES] = "";
  unsigned parts;
  struct rondo_coll_stream *s =
      rondo_ties_prepare(&parts) == RONDO_SUCCESS ? stream_get(rank, coll, stream) : NULL;
  if (!s)
    return RONDO_LOG_REFUSE(RONDO_ERR_NO_MEMORY, "run_on_stream: id %llu: no memory",
                            (unsigned long long)coll->desc.id);
  int status = rank->member.daemon->driver->enqueue(rank->member.daemon, stream, s->words,
                                                    s->ticket + 1, parts, why);
  if (status != RONDO_SUCCESS)
    return RONDO_LOG_REFUSE(status, "run_on_stream: id %llu: %s", (unsigned long long)coll->desc.id,
                            why);
  tie->words = s->words;
  tie->ticket = ++s->ticket;
  rondo_ties_hold(&(struct rondo_held_tie){rank->ctx, stream, *tie, 0});
  return RONDO_SUCCESS;
}

// Prepares the submission, enqueues its tie without the rank's lock, because the stream may wait
// for room, and then commits. The stream lock is held.
static int run_submit_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                                struct rondo_submission *s, void *stream, uint64_t *run) {
  struct rondo_run_record *record = NULL;
  rondo_lock_take(&rank->lock);
  struct rondo_coll *coll = rondo_coll_find_logged(rank, handle, "run_on_stream");
  int status = coll ? rondo_submission_prepare(rank, coll, s, &record) : RONDO_ERR_UNKNOWN;
  if (status == RONDO_SUCCESS)
    coll->holders++; // keeps the collective registered
  rondo_lock_give(&rank->lock);
  if (status != RONDO_SUCCESS)
    return status;
  status = tie_enqueue(rank, coll, stream, &s->tie);
  rondo_lock_take(&rank->lock);
  coll->holders--;
  if (status == RONDO_SUCCESS) {
    (void)rondo_submission_commit(rank, coll, s, record, false);
    *run = coll->submitted;
  } else {
    rondo_submission_cancel(rank, s, record);
  }
  rondo_lock_give(&rank->lock);
  return status;
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
  } else {
    pthread_mutex_lock(&rank->stream_lock);
    status = run_submit_on_stream(rank, handle, s, stream, &number);
    pthread_mutex_unlock(&rank->stream_lock);
  }
  if (status != RONDO_SUCCESS)
    return status;
  if (run)
    *run = number;
  rondo_submission_notify(rank, 1);
  return RONDO_SUCCESS;
}
