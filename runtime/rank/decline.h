// Tells other voters that this rank's call has ended (vote.h).
//
// A member whose call has ended with an error does not vote any more. One that learns of a loss
// before it has counted the same votes does: it votes again, and would wait for the first one. So
// the first one *declines*: it takes part once in the votes of each later view of the job, and ends
// them with RONDO_ERR_ABORTED. All members hear of the same losses, and each either votes there or
// declines, so the numbers of their votes stay in step.
#ifndef RONDO_RUNTIME_RANK_DECLINE_H
#define RONDO_RUNTIME_RANK_DECLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

struct rondo_rank;
struct rondo_voters;

// Of one rank.
struct rondo_decline {
  pthread_mutex_t lock;
  bool is_voting; // a call votes
  bool is_due, has_thread;
  uint64_t view;                // in which the rank has voted or declined last
  uint32_t *excluded, count;    // of the call that has ended
  char why[RONDO_REASON_BYTES]; // why it has ended
};

void rondo_decline_init(struct rondo_decline *d);
void rondo_decline_fini(struct rondo_decline *d);

// Only one call at a time votes for a rank: two would take each other's votes for their own.
// Returns RONDO_SUCCESS, then rondo_voting_end must follow; RONDO_ERR_EXISTS (logged): another one
// votes.
int rondo_voting_begin(struct rondo_rank *rank);
void rondo_voting_end(struct rondo_rank *rank);

// A call of these voters has ended with an error, because of `why`: from now on a thread declines
// in all later views, and with `at_once` in this one, too. Needs the context to be pinned.
void rondo_decline_begin(struct rondo_rank *rank, const struct rondo_voters *voters, bool at_once,
                         const uint32_t *excluded, uint32_t count, const char *why);
// As rondo_voters_list. If it was due, the rank has declined in the view of these voters.
int rondo_decline_or_list(struct rondo_rank *rank, const uint32_t *excluded, uint32_t count,
                          struct rondo_voters *voters);
// A call has succeeded: nothing is due.
void rondo_decline_end(struct rondo_rank *rank);

#endif // RONDO_RUNTIME_RANK_DECLINE_H
