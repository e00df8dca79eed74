// Runs in the order of a stream of the application, and runs that a captured graph asks for.
#ifndef RONDO_RUNTIME_RANK_STREAM_H
#define RONDO_RUNTIME_RANK_STREAM_H

#include "runtime/rank/submit.h"

// A stream of the application in which runs of a collective have been enqueued.
struct rondo_coll_stream {
  struct rondo_coll_stream *next;
  void *stream;
  struct rondo_stream_words *words;
  uint64_t ticket; // given out last
};

// Submits a run in the order of a stream. `run` (may be null) gets its number, or 0 if it was captured.
int rondo_rank_run_on_stream(struct rondo_rank *rank, struct rondo_collective handle,
                             struct rondo_submission *s, void *stream, uint64_t *run);
// Writes to `capturing` whether the stream is being captured. Refuses what is no stream of the device.
int rondo_rank_is_capturing(const struct rondo_rank *rank, void *stream, int *capturing);

// As rondo_streams_hold and rondo_streams_release.
int rondo_held_streams_begin(void);
int rondo_held_streams_end(void);

// What is left for rondo_streams_release of a run that was submitted while its thread held its streams.
struct rondo_held_tie {
  struct rondo_context ctx;
  void *stream;
  struct rondo_tie tie;
  int is_captured;
};
// Which parts of a tie are enqueued when a run is submitted: RONDO_STREAM_ASK, and RONDO_STREAM_WAIT unless
// this thread holds its streams. RONDO_ERR_NO_MEMORY: a tie cannot be held, and nothing may be enqueued.
int rondo_ties_prepare(unsigned *parts);
// After rondo_ties_prepare and RONDO_STREAM_ASK. Does nothing unless the thread holds its streams.
void rondo_ties_hold(const struct rondo_held_tie *tie);

// Takes away what ties a collective without outstanding runs to streams; other collectives use it again.
void rondo_coll_forget_streams(struct rondo_rank *rank, struct rondo_coll *coll);
void rondo_streams_free(struct rondo_rank *rank);

// ---- replay.c ----

// Captures a run into the graph that the stream is being captured into. Returns as rondo_run_on_stream.
int rondo_run_capture(struct rondo_rank *rank, struct rondo_collective handle,
                      const struct rondo_submission *s, void *stream);
// Forgets what belonged to graphs that are gone. The rank's lock is held.
void rondo_replays_reap(struct rondo_rank *rank);
// Submits what graphs ask for. Returns 1 if a run was submitted. The rank's lock is held.
int rondo_replays_serve(struct rondo_rank *rank);
void rondo_replays_free(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_STREAM_H
