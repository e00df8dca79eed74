// Ballots: what each member of a job says when its members change, and what follows from all of
// them. Pure. Each member gets the same ballots, so all come to the same result.
#ifndef RONDO_RUNTIME_JOB_BALLOT_H
#define RONDO_RUNTIME_JOB_BALLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/job/membership_message.h"

#define RONDO_BALLOT_BYTES 512u

// One member keeps the new job's root: in a grow the one that has the newcomers, else the first.
struct rondo_ballot {
  bool is_grow;         // else a shrink
  uint32_t newcomers;   // that the member wants to admit, or RONDO_ALL_PENDING; 0 in a shrink
  uint32_t least, most; // ranks of a job, as the member is configured; 0: no limit
  bool is_keeper;       // the member keeps the root
  // The keeper's: whether it can, how many newcomers it has reserved, and the new job.
  uint8_t status; // enum rondo_status
  uint32_t reserved;
  uint8_t id[RONDO_SEALED_ID_BYTES];
  char text[RONDO_MEMBERSHIP_TEXT_BYTES]; // about `status`
};

// Writes RONDO_BALLOT_BYTES.
void rondo_ballot_encode(const struct rondo_ballot *ballot, uint8_t *bytes);
// False if the bytes are no ballot.
bool rondo_ballot_decode(const uint8_t *bytes, struct rondo_ballot *out);

// Checks that a job of `count` members and the newcomers that a ballot asks for keeps its limits.
// In a grow by RONDO_ALL_PENDING the keeper takes care of that. Returns RONDO_SUCCESS,
// RONDO_ERR_FULL or RONDO_ERR_PEER; except for success, writes the reason to `why`, of
// RONDO_REASON_BYTES.
int rondo_ballot_check_size(const struct rondo_ballot *ballot, uint32_t count, char *why);

// Decides the vote of `count` members with these ranks. Returns RONDO_SUCCESS: `keeper` is the
// index of the keeper; RONDO_IN_PROGRESS: nobody is to be admitted; RONDO_ERR_MISMATCH: the ballots
// differ; RONDO_ERR_FULL or RONDO_ERR_PEER: the new job would have too many or too few ranks; the
// keeper's status; or RONDO_ERR_INTERNAL: a ballot is malformed. Except for success, writes the
// reason to `why`, of RONDO_REASON_BYTES.
int rondo_ballots_decide(const uint8_t *ballots, const uint32_t *ranks, uint32_t count,
                         uint32_t *keeper, char *why);

#endif // RONDO_RUNTIME_JOB_BALLOT_H
