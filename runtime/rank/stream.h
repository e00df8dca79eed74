// Runs in the order of a stream of the application, and runs of captured graphs.
#ifndef RONDO_RUNTIME_RANK_STREAM_H
#define RONDO_RUNTIME_RANK_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/rank/submit.h"

// A stream of the application that has runs of a collective.
struct rondo_coll_stream {
  struct rondo_coll_stream *next;
  void *stream;
  struct rondo_stream_words *words;
  uint64_t ticket;     // of the newest run; written by the thread that has claimed the entry
  uint32_t is_claimed; // a thread ties a run to the stream
};

// Submits a run in the order of a stream. `run` (may be null) gets its number, or 0 if the run was
// captured.
int rondo_rank_run_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_submission *s, void *stream, uint64_t *run);
// Writes to `capturing` whether the stream is being captured. Refuses a handle that is no stream of
// the device.
int rondo_rank_is_capturing(const struct rondo_rank *rank, void *stream, int *capturing);

// As rondo_streams_hold and rondo_streams_release.
int rondo_held_streams_begin(void);
int rondo_held_streams_end(void);

// The wait of a stream that rondo_streams_release will enqueue, for a run that was submitted while
// its thread held its streams.
struct rondo_held_tie {
  struct rondo_context ctx;
  struct rondo_collective coll;
  void *stream;
  struct rondo_tie tie;
  int is_captured;
};
// Called before a stream waits for a run of the collective. Waits, for a bounded time, until the
// run can begin without further calls of the driver here: when the stream waits, another thread of
// the application may keep all others out of the driver until the stream goes on.
void rondo_coll_await_places(struct rondo_rank *rank, struct rondo_collective handle);
// Tells which parts of a tie a submission enqueues: RONDO_STREAM_ASK, and RONDO_STREAM_WAIT unless
// this thread holds its streams. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY (the tie cannot be
// held and nothing may be enqueued).
int rondo_ties_prepare(unsigned *parts);
// Keeps the rest of a tie if this thread holds its streams. Follows rondo_ties_prepare.
void rondo_ties_hold(const struct rondo_held_tie *tie);

// Unties a collective without outstanding runs from its streams. Other collectives reuse the words.
void rondo_coll_forget_streams(struct rondo_rank *rank, struct rondo_coll *coll);
void rondo_streams_free(struct rondo_rank *rank);

// ---- replay.c ----

// Captures a run into the graph that the stream is being captured into. Returns as
// rondo_run_on_stream.
int rondo_run_capture(struct rondo_rank *rank, struct rondo_collective handle,
                      struct rondo_submission *s, void *stream);
// Frees the replays of graphs that no longer exist. The rank's lock is held.
void rondo_replays_reap(struct rondo_rank *rank);
// Submits the runs that graphs ask for. Returns true if it submitted any. The rank's lock is held.
bool rondo_replays_serve(struct rondo_rank *rank);
void rondo_replays_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_STREAM_H
