// Inline submission: a small run that is the only one outstanding is stepped by its caller at once, past the
// SQ, and the thread that waits for it may leave its completion in the CQ.
//
//   rondo_inline_can_submit -> rondo_inline_submit -> (records are written) -> rondo_inline_poll
//     ... rondo_inline_is_posted (the waiting thread)
//
// An 8 B all-reduce of two ranks takes about half the time that way (docs/waiting.md). The rank's lock is
// held in all calls but the last.
#ifndef RONDO_RUNTIME_RANK_INLINE_RUN_H
#define RONDO_RUNTIME_RANK_INLINE_RUN_H

#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

struct rondo_awaited;
struct rondo_submission;

// 1 if the buffers of a run are so small that a caller may step it itself.
int rondo_coll_is_small(const struct rondo_coll *coll);

// 1 if the run that is about to be submitted can be submitted inline.
int rondo_inline_can_submit(const struct rondo_rank *rank, const struct rondo_coll *coll,
                            const struct rondo_submission *s);
// Hands the daemon the collective's only run and takes its first steps. Returns the time after them, or 0:
// the daemon did not take the run, which has to be pushed.
uint64_t rondo_inline_submit(struct rondo_rank *rank, struct rondo_coll *coll);
// After the records have been written: takes the next steps, for which slots of the peers may have come by now.
// Returns how many runs have ended.
uint64_t rondo_inline_poll(struct rondo_rank *rank, struct rondo_coll *coll,
                           const struct rondo_run_record *record);

// 1 if the run has succeeded, its completion is the next in the CQ, and nobody else need be told: it can stay
// there until a thread takes the rank's lock anyway.
int rondo_inline_is_posted(struct rondo_awaited *a);

#endif // RONDO_RUNTIME_RANK_INLINE_RUN_H
