// Between the queues and the callers: completions come in, waiting runs go out.
#ifndef RONDO_RUNTIME_RANK_SERVICE_H
#define RONDO_RUNTIME_RANK_SERVICE_H

#include "runtime/rank/coll.h"
#include "runtime/rank/rank.h"

// ---- what the daemon calls; `owner` is the rank ----

// Takes completions off the CQ and pushes runs that wait; 1 if it did anything. Never waits: if another
// thread has the lock, that thread does it.
bool rondo_rank_service(void *owner);
bool rondo_rank_needs_service(void *owner);
// Adds to the flight record that a block was started or has quit (enum rondo_block_change). Never waits: if
// another thread has the rank's lock, it is remembered until the next one, or until the record is written.
// One thread at a time says it of a block.
void rondo_rank_noted(void *owner, int what, uint32_t block);
// Ends all runs with RONDO_ERR_SYSTEM, and those of the peers: the daemon cannot be run any more.
void rondo_rank_lost(void *owner, const char *why);
// A block has moved: there may be slots to forward. And forwards them: see struct rondo_daemon.
void rondo_rank_moved(void *owner);
bool rondo_rank_forward(void *owner, int then);

// ---- with the rank's lock ----

// Takes the lock of a rank to look at its runs. A thread that waits for a small run, and brings it to its
// end itself, leaves the completion in the CQ; it is off by the time that this returns.
void rondo_rank_lock(struct rondo_rank *rank);
// Does the same for a rank that is locked already.
void rondo_rank_settle(struct rondo_rank *rank);
// Takes completions off the CQ. Returns how many runs have ended, of which rondo_rank_tell_ended must tell
// when the lock is not held any more.
uint64_t rondo_rank_accept(struct rondo_rank *rank);
void rondo_rank_tell_ended(struct rondo_rank *rank, uint64_t ended);

// 1 if the flight record lacks something that rondo_rank_noted remembers; adds it, as of now.
static inline int rondo_rank_has_untold(const struct rondo_rank *rank) {
  return (rondo_load_relaxed_u64(&rank->untold[RONDO_BLOCK_STARTED]) |
          rondo_load_relaxed_u64(&rank->untold[RONDO_BLOCK_QUIT])) != 0;
}
void rondo_rank_tell_noted(struct rondo_rank *rank);

// Pushes what fits of a collective's waiting runs.
void rondo_coll_push(struct rondo_rank *rank, struct rondo_coll *coll);
// The SQE of a run.
struct rondo_sqe rondo_coll_sqe(const struct rondo_coll *coll,
                                const struct rondo_run_record *record);
// Takes a collective without outstanding runs off the list of those that found the SQ full, where it stays
// when its last runs went out another way.
void rondo_coll_forget_overflow(struct rondo_rank *rank, struct rondo_coll *coll);

#endif // RONDO_RUNTIME_RANK_SERVICE_H
