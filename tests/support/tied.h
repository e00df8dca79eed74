// Runs tied to stream words that are the test's own, without a device that has streams.
#ifndef RONDO_TESTS_SUPPORT_TIED_H
#define RONDO_TESTS_SUPPORT_TIED_H

#include "runtime/rank/handles.h"
#include "runtime/rank/submit.h"

// As rondo_run_numbered.
static inline int rondo_test_run_tied(struct rondo_context ctx, struct rondo_collective coll,
                                      const struct rondo_run_args *args,
                                      const struct rondo_tie *tie, uint64_t *run) {
  struct rondo_submission s = {*args, *tie, false, NULL};
  struct rondo_rank *rank;
  int status = rondo_rank_pin(ctx, "run_tied", &rank);
  if (status != RONDO_SUCCESS)
    return status;
  status = rondo_rank_run(rank, coll, &s, run);
  rondo_rank_unpin(ctx);
  return status;
}

#endif // RONDO_TESTS_SUPPORT_TIED_H
