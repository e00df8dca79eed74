// Runs in the order of a stream of the application.
#include "runtime/rank/handles.h"
#include "runtime/rank/stream.h"

int rondo_run_on_stream(struct rondo_context ctx, struct rondo_collective coll, const void *send,
                        void *recv, void *stream) {
  struct rondo_submission s = {{send, recv, NULL, NULL}, {NULL, 0}};
  RONDO_RETURN_PINNED(ctx, "run_on_stream", rank,
                      rondo_rank_run_on_stream(rank, coll, &s, stream, NULL));
}

int rondo_streams_hold(void) { return rondo_held_streams_begin(); }

int rondo_streams_release(void) { return rondo_held_streams_end(); }
