// The queues between a rank and its daemon: pushes runs to the SQ, and takes completions off the
// CQ.
#ifndef RONDO_RUNTIME_RANK_RUN_QUEUES_H
#define RONDO_RUNTIME_RANK_RUN_QUEUES_H

#include "runtime/rank/rank.h"

// ---- what the daemon calls; `owner` is the rank ----

// Takes completions off the CQ, and pushes runs that found the SQ full. Returns true if it did
// either. Never waits: if another thread holds the rank's lock, that thread does this work.
bool rondo_rank_service(void *owner);
bool rondo_rank_needs_service(void *owner);
// Records that a block started or quit (enum rondo_block_change). Never waits: if another thread
// holds the rank's lock, the change stays pending until rondo_rank_add_changes. One thread at a
// time calls it for a block.
void rondo_rank_on_change(void *owner, int what, uint32_t block);
// The daemon cannot run any more: ends all runs, also those of the peers, with RONDO_ERR_SYSTEM.
void rondo_rank_on_lost(void *owner, const char *why);
// A block has made progress: notifies the proxy, which may have slots to forward.
void rondo_rank_on_moved(void *owner);
// Forwards slots on the proxy's behalf: see struct rondo_daemon.
bool rondo_rank_forward(void *owner, int then);

// ---- with the rank's lock ----

// Takes the lock of a rank to inspect its runs. First takes off the CQ a completion that a waiting
// thread has left there (inline_run.h).
void rondo_rank_lock(struct rondo_rank *rank);
// Does the same for a rank that is locked already.
void rondo_rank_settle(struct rondo_rank *rank);
// Takes completions off the CQ. Returns how many runs have ended. If any, the caller calls
// rondo_rank_notify_ended after it has released the lock.
uint64_t rondo_rank_accept(struct rondo_rank *rank);
void rondo_rank_notify_ended(struct rondo_rank *rank, uint64_t ended);

// True if changes of blocks are pending.
static inline bool rondo_rank_has_changes(const struct rondo_rank *rank) {
  return (rondo_load_relaxed_u64(&rank->pending_changes[RONDO_BLOCK_STARTED]) |
          rondo_load_relaxed_u64(&rank->pending_changes[RONDO_BLOCK_QUIT])) != 0;
}
// Adds the pending changes to the flight record, with the current time.
void rondo_rank_add_changes(struct rondo_rank *rank);

// Ends the oldest run of a collective and frees its record.
void rondo_run_end(struct rondo_rank *rank, struct rondo_coll *coll, int status,
                   uint32_t duration_ns);
// Pushes as many of a collective's runs as the device takes. Those that find the SQ full wait in
// the overflow, where they count as pushed.
void rondo_coll_push(struct rondo_rank *rank, struct rondo_coll *coll);
// The SQE of a run that is about to be pushed. If the run has counts of its own, gives the blocks
// its parts.
struct rondo_sqe rondo_coll_sqe(const struct rondo_coll *coll,
                                const struct rondo_run_record *record);
// Makes room in the overflow for the SQEs of all outstanding runs and of one more. Called before a
// run is submitted. Returns RONDO_SUCCESS or RONDO_ERR_NO_MEMORY.
int rondo_rank_reserve_overflow(struct rondo_rank *rank);
// True if the SQE of the run that was submitted last, with this event, is in the overflow.
bool rondo_rank_is_unsent(const struct rondo_rank *rank, uint64_t event);

#endif // RONDO_RUNTIME_RANK_RUN_QUEUES_H
