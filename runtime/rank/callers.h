// Who is inside a context. Each thread says so in a place of its own, where nobody else writes: a count that all
// share takes an atomic operation at the beginning of each call and another at its end, together a
// fifth of all that a small run and waiting for it took.
#ifndef RONDO_RUNTIME_RANK_CALLERS_H
#define RONDO_RUNTIME_RANK_CALLERS_H

#include <stdint.h>

#include "base/atomic.h"
#include "base/fence.h"
#include "base/platform.h"

// A thread that calls. Another may have it when the thread has ended.
struct rondo_caller {
  uint64_t inside; // the handle that its call was given; 0: it is in none
  uint32_t deeper; // calls within that call
  uint32_t is_taken;
  struct rondo_caller *next;
  uint8_t line[RONDO_LINE_BYTES - 24];
};

// Stands for threads that have none: there is no memory, or they are ending. Never changes.
extern struct rondo_caller rondo_caller_nobody;
// The calling thread's; null before its first call.
extern __thread struct rondo_caller *rondo_caller_self __attribute__((tls_model("initial-exec")));

struct rondo_caller *rondo_caller_create(void);

// The calling thread enters the context of `handle`, which need not be there: what it looks at after that, others
// write before they look who is inside. Returns 0 if the caller must count it instead, as a call within a call.
static inline int rondo_caller_enter(uint64_t handle) {
  struct rondo_caller *v = rondo_caller_self;
  if (!v)
    v = rondo_caller_create();
  if (rondo_load_relaxed_u64(&v->inside)) {
    if (v != &rondo_caller_nobody)
      v->deeper++;
    return 0;
  }
  rondo_store_relaxed_u64(&v->inside, handle); // V1
  rondo_fence_light();
  return 1;
}

// The thread leaves where it entered last. Returns 0 if that was counted.
static inline int rondo_caller_leave(void) {
  struct rondo_caller *v = rondo_caller_self;
  if (v->deeper) {
    if (v != &rondo_caller_nobody)
      v->deeper--;
    return 0;
  }
  rondo_store_release_u64(&v->inside, 0); // V2
  return 1;
}

// How many threads are inside with handles that are the same modulo `slots`; of those that come later, each sees what
// the caller has written before.
uint32_t rondo_callers_inside(uint64_t handle, uint64_t slots);

#endif // RONDO_RUNTIME_RANK_CALLERS_H
