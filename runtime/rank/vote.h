// A vote of ranks of a job: each gives a ballot, and each gets the ballots of all. It is an
// all-gather, with an id of its own space, on the ranks that are still in the job. So a vote is in
// the way of no other collective, and members whose views of the job or whose groups differ never
// mix.
//
//   rondo_voters_list -> rondo_vote_begin -> rondo_vote_await -> rondo_vote_end
//     -> (a member was lost) rondo_voters_await_change, again -> rondo_voters_free
#ifndef RONDO_RUNTIME_RANK_VOTE_H
#define RONDO_RUNTIME_RANK_VOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/ballot.h"
#include <rondo/rondo.h>

struct rondo_rank;

struct rondo_voters {
  uint32_t *ranks, count; // of the job, ascending
  uint32_t self;          // index of the rank that votes
  uint32_t *excluded, excluded_count;
  bool has_lost; // lost ranks are listed too
  uint64_t lost; // digest of the ranks that are lost or have left
  uint64_t view; // the same without those that are excluded or listed: their end changes no vote
};

// Lists the ranks of the job that are not lost and not among `excluded`. Returns RONDO_SUCCESS;
// RONDO_ERR_INVALID: an excluded rank does not exist, or is the rank itself; RONDO_ERR_PEER: the
// rank has lost its job; RONDO_ERR_NO_MEMORY.
int rondo_voters_list(const struct rondo_rank *rank, const uint32_t *excluded, uint32_t count,
                      struct rondo_voters *voters);
// Lists the ranks of the job that have not left in order, those that are lost too: members whose
// knowledge of losses differs list the same ranks. Returns RONDO_SUCCESS, RONDO_ERR_PEER or
// RONDO_ERR_NO_MEMORY, as rondo_voters_list.
int rondo_voters_list_with_lost(const struct rondo_rank *rank, struct rondo_voters *voters);
void rondo_voters_free(struct rondo_voters *voters);

// True if the voters would be others than when they were listed; waits for that until `end_ns` of
// rondo_now_ns, or until the rank has lost its job.
bool rondo_voters_await_change(struct rondo_rank *rank, const struct rondo_voters *voters,
                               uint64_t end_ns);

// One vote of a rank. All zero: there is none.
struct rondo_vote {
  struct rondo_rank *rank;
  uint32_t count; // of voters
  struct rondo_group group;
  struct rondo_collective coll;
  uint8_t *memory; // own ballot, then those of all
};

// Registers the vote alone. As rondo_vote_begin.
int rondo_vote_register(struct rondo_rank *rank, const struct rondo_voters *voters,
                        struct rondo_vote *vote);
// Gives a ballot of RONDO_BALLOT_BYTES. Returns RONDO_SUCCESS or a status of rondo_register or
// rondo_run; `vote` is ended in either case by rondo_vote_end.
int rondo_vote_begin(struct rondo_rank *rank, const struct rondo_voters *voters,
                     const uint8_t *ballot, struct rondo_vote *vote);
// Waits for the ballots of all, and copies them to `ballots` in the order of the voters. Returns
// the status of the all-gather, or RONDO_ERR_TIMEOUT; then `why` (RONDO_REASON_BYTES) says why.
int rondo_vote_await(const struct rondo_vote *vote, uint8_t *ballots, int64_t timeout_ns,
                     char *why);
// Ends the vote for all voters with RONDO_ERR_ABORTED, because of `why`.
void rondo_vote_fail(const struct rondo_vote *vote, const char *why);
// Ends a vote. If it goes on, it fails for all voters with RONDO_ERR_ABORTED.
void rondo_vote_end(struct rondo_vote *vote);

#endif // RONDO_RUNTIME_RANK_VOTE_H
