// Callers: the threads that are inside a context.
//
// Each thread writes to a record of its own. A shared counter would cost two atomic operations a
// call, a fifth of the time of a small run and its wait.
#ifndef RONDO_RUNTIME_RANK_CALLERS_H
#define RONDO_RUNTIME_RANK_CALLERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/fence.h"
#include "base/platform.h"

// One thread's record. Another thread may reuse it when the thread has ended.
struct rondo_caller {
  uint64_t inside; // the handle of the context that the thread is in; 0: none
  uint32_t nested; // calls that the thread has made within that call
  uint32_t is_used;
  struct rondo_caller *next;
  uint8_t line[RONDO_LINE_BYTES - 24];
};

// The record of all threads that have no record of their own, because memory ran out or the thread
// is ending. It never changes: the calls of these threads are counted in the slot of the handle.
extern struct rondo_caller rondo_caller_none;
// The calling thread's record; null before its first call.
extern __thread struct rondo_caller *rondo_caller_self __attribute__((tls_model("initial-exec")));

struct rondo_caller *rondo_caller_create(void);

// Records that the calling thread enters the context of `handle`, which may be stale. Returns false
// if the call is nested or the thread has no record: then the caller counts the call itself.
static inline bool rondo_caller_enter(uint64_t handle) {
  struct rondo_caller *self = rondo_caller_self;
  if (!self)
    self = rondo_caller_create();
  if (rondo_load_relaxed_u64(&self->inside)) {
    if (self != &rondo_caller_none)
      self->nested++;
    return false;
  }
  rondo_store_relaxed_u64(&self->inside, handle); // V1
  rondo_fence_light();
  return true;
}

// Records that the thread leaves the context that it entered last. Returns what rondo_caller_enter
// returned for that call.
static inline bool rondo_caller_leave(void) {
  struct rondo_caller *self = rondo_caller_self;
  if (self->nested) {
    if (self != &rondo_caller_none)
      self->nested--;
    return false;
  }
  rondo_store_release_u64(&self->inside, 0); // V2
  return true;
}

// Counts the threads inside contexts whose handle equals `handle` modulo `slots`. A thread that
// enters later sees what the calling thread wrote before this call.
uint32_t rondo_callers_count(uint64_t handle, uint64_t slots);

#endif // RONDO_RUNTIME_RANK_CALLERS_H
