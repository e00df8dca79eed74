// Runs in the order of a stream of the application.
#include "runtime/rank/handles.h"
#include "runtime/rank/stream.h"

int rondo_run_on_stream(struct rondo_context ctx, struct rondo_collective coll, const void *send,
                        void *recv, void *stream) {
  struct rondo_rank *rank;
  struct rondo_submission s = {{send, recv, NULL, NULL}, {NULL, 0}};
  int status = rondo_rank_pin(ctx, "run_on_stream", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  return rondo_rank_unpin_with(ctx, rondo_rank_run_on_stream(rank, coll, &s, stream, NULL));
}

int rondo_streams_hold(void) { return rondo_held_streams_begin(); }

int rondo_streams_release(void) { return rondo_held_streams_end(); }
