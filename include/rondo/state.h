// Rondo: state that all members of a job hold with the same bits.
//
// A *state* is a list of named tensors. rondo_state_sync compares the lists of all members, block
// by block, and copies only the blocks that differ. The members that have a block share the work of
// sending it. A newcomer gets everything, a member whose memory was damaged gets little.
//
//   fill the tensors -> rondo_state_sync -> change them -> rondo_state_sync ...
//
//   struct rondo_state_tensor weights = {"weights", memory, count, RONDO_BFLOAT16};
//   struct rondo_state state = RONDO_STATE_INIT;
//   state.tensors = &weights;
//   state.tensor_count = 1;
//   rondo_state_sync(ctx, &state, RONDO_FOREVER, NULL, why);
//
// Words.
//
//   Block     1 MiB of a tensor; the last block of a tensor may be shorter.
//   Digest    64 bits that stand for the content of all tensors. docs/elastic.md defines it. Two
//             contents have the same digest by chance with a probability of 2^-64. Whoever may
//             choose the contents can make such a pair: all members must be trusted.
//   Revision  The number of a content. Members with the same revision have the same bits.
//
// The rules at the top of rondo.h hold here too. `why` is as in elastic.h.
#ifndef RONDO_STATE_H
#define RONDO_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) // what is declared here is exported, nothing else

// Whose content all members have afterwards.
enum rondo_state_strategy {
  // The content that most members have, of those with the highest revision. If several contents
  // are equally frequent: the one of the lowest rank.
  RONDO_STATE_MOST_FREQUENT = 0,
  RONDO_STATE_SEND_ONLY = 1,   // this member's: its tensors are never written
  RONDO_STATE_RECEIVE_ONLY = 2 // another member's: this member's content is never chosen
};

#define RONDO_STATE_NAME_BYTES 128u // of a name, the zero at its end included
#define RONDO_STATE_BLOCK_BYTES (UINT64_C(1) << 20)

// One tensor. All members list the same names, types and counts in the same order.
struct rondo_state_tensor {
  const char *name; // not empty, without control characters
  void *memory;     // `count` elements that the CPU can access; may be null if `count` is 0
  uint64_t count;
  int dtype; // enum rondo_dtype
};

// The state of one member. Start from RONDO_STATE_INIT and keep the structure from one call to the
// next, also when the job, and so the context, changes.
struct rondo_state {
  size_t size;      // set by RONDO_STATE_INIT
  uint32_t version; // set by RONDO_STATE_INIT
  int strategy;     // enum rondo_state_strategy; members may have different ones
  const struct rondo_state_tensor *tensors;
  uint32_t tensor_count;
  // The rest is written by rondo_state_sync. To start anew, for instance from a checkpoint, set all
  // three to 0 on all members.
  //
  // 1: a call has failed after it had begun to write to the tensors. Each block has its old or its
  // new content. Until a call succeeds, this member's content is never chosen.
  uint32_t is_partial;
  uint64_t revision; // 0: this member has taken part in no successful call
  uint64_t digest;   // of the content of this revision
};

#define RONDO_STATE_VERSION 1u
#define RONDO_STATE_INIT                                                                           \
  { sizeof(struct rondo_state), RONDO_STATE_VERSION, 0, NULL, 0, 0, 0, 0 }

// What one call has done.
struct rondo_state_report {
  uint64_t revision;        // as in struct rondo_state
  uint64_t compared_blocks; // blocks of this member, all of which it has compared
  uint64_t sent_bytes;      // content that this member has sent to others
  uint64_t received_bytes;  // content that it has received
  uint32_t source;          // lowest rank whose content was chosen
  uint32_t senders;         // members that have sent to this one
};

// Makes the content of all tensors equal on all ranks that are still in the job of `ctx`. All these
// ranks call it. The tensors must not change during the call. Waits until all have the chosen
// content, for at most `timeout_ns` (after a loss up to two seconds longer, in which this rank
// learns who is lost). `report` may be null.
//
// If the chosen content is that of the highest revision, all members get this revision. If it has
// changed since then, all get this revision plus one. So the revision rises by exactly one for each
// successful call that follows a change of the chosen content.
//
// If the members cannot agree, all get RONDO_ERR_MISMATCH with the same reason, and nothing has
// changed. They cannot agree if names, types or counts differ; if two members ask to send only, and
// have different contents; if all ask to receive only; or if none whose content may be chosen has
// the highest revision, or one that asks to send only has a lower one.
//
// If a rank is lost during the call, all others have the same outcome: success, or RONDO_ERR_PEER
// if the loss has broken off the moving of blocks. Tensors then hold the old or the new content,
// each block for itself. The next call mends that, also on another context after rondo_shrink or
// rondo_grow.
// Returns RONDO_SUCCESS;
// RONDO_ERR_MISMATCH: also if a tensor has changed during the call;
// RONDO_ERR_TIMEOUT: ranks have not called in time; the others get RONDO_ERR_ABORTED. A rank that
//   calls later gets that too, or takes part in the next call of the others;
// RONDO_ERR_ABORTED: another rank has given up;
// RONDO_ERR_PEER: a rank was lost; or the job has fewer ranks left than least_ranks (struct
//   rondo_config), and nothing is synchronised until a vote has made a job that has enough;
// RONDO_ERR_EXISTS: another thread synchronises on this context;
// RONDO_ERR_INVALID: `state` is of another version, or a field or a tensor is out of range, or a
//   callback called this. This rank has not taken part: the others wait for it;
// RONDO_ERR_NO_MEMORY: on any rank;
// RONDO_ERR_FULL: as rondo_register or rondo_run;
// RONDO_ERR_UNSUPPORTED: the library was built without xxHash, or the backend of `ctx` is not
//   RONDO_BACKEND_HOST.
int rondo_state_sync(struct rondo_context ctx, struct rondo_state *state, int64_t timeout_ns,
                     struct rondo_state_report *report, char *why);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // RONDO_STATE_H
