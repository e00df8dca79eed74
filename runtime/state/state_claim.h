// What each member of a job says when they synchronise a state, and what follows from all of it.
// Pure. Each member gets the same claims, so all come to the same result.
#ifndef RONDO_RUNTIME_STATE_STATE_CLAIM_H
#define RONDO_RUNTIME_STATE_STATE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/state.h>

#define RONDO_STATE_CLAIM_BYTES 256u
#define RONDO_STATE_CLAIM_TEXT_BYTES 192u

struct rondo_state_claim {
  uint8_t strategy; // enum rondo_state_strategy
  bool is_partial;
  uint32_t tensor_count;
  uint64_t list;                           // digest of names, types and counts
  uint64_t content;                        // hash of all tensors
  uint64_t revision;                       // that the member has
  uint64_t digest;                         // hash of the content of that revision
  char text[RONDO_STATE_CLAIM_TEXT_BYTES]; // what a tensor of its list is, if the lists differ
};

// Writes RONDO_STATE_CLAIM_BYTES.
void rondo_state_claim_encode(const struct rondo_state_claim *claim, uint8_t *bytes);
// False if the bytes are no claim.
bool rondo_state_claim_decode(const uint8_t *bytes, struct rondo_state_claim *out);

// The outcome of the exchange on each member, which all learn in the end. Writes
// RONDO_STATE_CLAIM_BYTES; a long `why` is cut.
void rondo_state_outcome_encode(int status, const char *why, uint8_t *bytes);
// The first outcome of `count` that is not RONDO_SUCCESS, and its `why` (RONDO_REASON_BYTES); or
// RONDO_SUCCESS. RONDO_ERR_INTERNAL: an outcome is malformed.
int rondo_state_outcomes_read(const uint8_t *bytes, uint32_t count, char *why);

// The claims of all members, in the order of their ranks.
struct rondo_state_claims {
  const struct rondo_state_claim *claims;
  const uint32_t *ranks; // of the job
  uint32_t count;
};

// Decodes `count` claims to `claims`. Returns RONDO_SUCCESS or RONDO_ERR_INTERNAL: a claim is
// malformed; then `why` (RONDO_REASON_BYTES) says whose.
int rondo_state_claims_read(const uint8_t *bytes, const uint32_t *ranks, uint32_t count,
                            struct rondo_state_claim *claims, char *why);

struct rondo_state_verdict {
  bool differs;      // the contents of the members do
  uint32_t source;   // index of the first member that has the chosen content
  uint64_t content;  // hash of that content
  uint64_t revision; // that all members get
};

// Decides which content all members get. Returns RONDO_SUCCESS or RONDO_ERR_MISMATCH; then `why`
// (RONDO_REASON_BYTES) says who asked for what, except if `lists_differ`: then the members must
// find out which tensor differs first.
int rondo_state_decide(const struct rondo_state_claims *c, struct rondo_state_verdict *verdict,
                       bool *lists_differ, char *why);

// True if the field `list` is the same in all claims.
bool rondo_state_lists_agree(const struct rondo_state_claims *c);
// Writes which tensor `index` each member has, by the texts of the claims.
void rondo_state_describe_lists(const struct rondo_state_claims *c, uint32_t index, char *why);

#endif // RONDO_RUNTIME_STATE_STATE_CLAIM_H
