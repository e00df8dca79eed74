// Inline submission: the submitting thread executes a small run itself, without the SQ, if no other
// run is outstanding. The thread that waits for such a run may leave its CQE in the CQ.
//
//   rondo_inline_can_submit -> rondo_inline_submit -> (records are written) -> rondo_inline_poll
//     ... rondo_inline_is_posted (the waiting thread)
//
// An 8 B all-reduce of two ranks takes about half the time that way (docs/waiting.md). The rank's
// lock is held in all calls except rondo_inline_is_posted.
#ifndef RONDO_RUNTIME_RANK_INLINE_RUN_H
#define RONDO_RUNTIME_RANK_INLINE_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct rondo_awaited;
struct rondo_coll;
struct rondo_rank;
struct rondo_run_record;
struct rondo_submission;

// True if the buffers of a run are so small that a caller may step the run itself.
bool rondo_submission_is_small(const struct rondo_coll *coll, const struct rondo_submission *s);

// True if the run that is about to be submitted can be submitted inline.
bool rondo_inline_can_submit(const struct rondo_rank *rank, const struct rondo_coll *coll,
                             const struct rondo_submission *s);
// Gives the collective's only run to the daemon without the SQ, and executes its first steps.
// Returns the time at their end, or 0 if the daemon refused the run. Then the caller must push the
// run to the SQ.
uint64_t rondo_inline_submit(struct rondo_rank *rank, struct rondo_coll *coll);
// Steps the block once more after the caller has written its records, because data of peers may
// have arrived meanwhile. Returns how many runs have ended.
uint64_t rondo_inline_poll(struct rondo_rank *rank, struct rondo_coll *coll,
                           const struct rondo_run_record *record);

// True if the run has succeeded, its CQE is the next in the CQ, and the run has neither a callback
// nor an event descriptor to notify. The CQE stays in the CQ until a thread takes the rank's lock
// for another reason.
bool rondo_inline_is_posted(struct rondo_awaited *a);

#endif // RONDO_RUNTIME_RANK_INLINE_RUN_H
