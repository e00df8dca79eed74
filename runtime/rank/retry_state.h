// The rules by which the members of a collective with RONDO_ON_LOSS_RETRY take a run up again after
// a loss. Pure: tests/explore/test_retry.c drives it by seed.
//
// A member works on one run at a time. The run's *data* go to a staging buffer. Then comes the
// *agreement*, an all-reduce that ends only once every member has staged the run. After that the
// member commits: it copies the staged result to the receive buffer.
//
// A loss ends data and agreement with an error on some members, and with success on others. Then
// the members that are left *flush*: each tells the number of its last committed run, and gets the
// largest of these numbers. From its own number until the flush has ended a member commits nothing.
// So, if a member has committed the current run, all learn that and commit it too: it was staged on
// all of them. If none has, all do it again. A loss during the flush leads to another flush.
//
//   IDLE -> DATA -> AGREE -> (commit) IDLE
//     -> (an error) BROKEN -> (the members that are left are known) FLUSH -> IDLE, or BROKEN again
//   any -> FAILING -> FAILED: all runs end with an error
#ifndef RONDO_RUNTIME_RANK_RETRY_STATE_H
#define RONDO_RUNTIME_RANK_RETRY_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/explore.h"

enum rondo_retry_phase {
  RONDO_RETRY_IDLE = 0,
  RONDO_RETRY_DATA = 1,
  RONDO_RETRY_AGREE = 2,
  RONDO_RETRY_BROKEN = 3,
  RONDO_RETRY_FLUSH = 4,
  RONDO_RETRY_FAILING = 5, // a thread is about to fail the collective
  RONDO_RETRY_FAILED = 6
};

struct rondo_retry_state {
  uint8_t phase;
  bool is_staged; // the staging buffer has the result of the run after the last committed one
};

// What the member does next.
enum rondo_retry_act { RONDO_RETRY_WAIT, RONDO_RETRY_ASK, RONDO_RETRY_COMMIT, RONDO_RETRY_DEFECT };

// A run begins, or begins again.
static inline void rondo_retry_begin(struct rondo_retry_state *s) {
  s->phase = RONDO_RETRY_DATA;
  s->is_staged = false;
}

// Data or agreement have ended with success. ASK: the agreement follows.
static inline enum rondo_retry_act rondo_retry_succeed(struct rondo_retry_state *s) {
  if (s->phase == RONDO_RETRY_DATA && !RONDO_FAULT(RETRY_COMMITS_EARLY)) {
    s->is_staged = true;
    s->phase = RONDO_RETRY_AGREE;
    return RONDO_RETRY_ASK;
  }
  s->is_staged = false;
  s->phase = RONDO_RETRY_IDLE;
  return RONDO_RETRY_COMMIT;
}

// Data, agreement or flush have met a loss.
static inline void rondo_retry_break(struct rondo_retry_state *s) {
  s->phase = RONDO_RETRY_BROKEN;
  if (RONDO_FAULT(RETRY_FORGETS_STAGED))
    s->is_staged = false;
}

// True if the member can begin a flush: nothing of an earlier view is on its way.
static inline bool rondo_retry_can_flush(const struct rondo_retry_state *s) {
  return s->phase == RONDO_RETRY_IDLE || s->phase == RONDO_RETRY_BROKEN;
}

// The flush has ended: this member has committed `own` runs, and some member `most`. Returns COMMIT
// if the staged run is to be committed; DEFECT if that is impossible.
static inline enum rondo_retry_act rondo_retry_flushed(struct rondo_retry_state *s, uint64_t own,
                                                       uint64_t most) {
  s->phase = RONDO_RETRY_IDLE;
  if (most == own || RONDO_FAULT(RETRY_IGNORES_FLUSH))
    return RONDO_RETRY_WAIT;
  if (most != own + 1 || !s->is_staged)
    return RONDO_RETRY_DEFECT;
  s->is_staged = false;
  return RONDO_RETRY_COMMIT;
}

#endif // RONDO_RUNTIME_RANK_RETRY_STATE_H
