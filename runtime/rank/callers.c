#include "runtime/rank/callers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"

struct rondo_caller rondo_caller_none = {.inside = UINT64_MAX, .nested = 1};
__thread struct rondo_caller *rondo_caller_self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the list and `is_used`
static struct rondo_caller *callers;
static pthread_key_t key; // its destructor runs when a thread ends
static int has_key;

static void caller_release(void *own) {
  struct rondo_caller *caller = own;
  rondo_caller_self = &rondo_caller_none; // later destructors of the thread may still call
  pthread_mutex_lock(&lock);
  caller->is_used = caller->inside != 0; // a thread cancelled inside a call stays in it
  pthread_mutex_unlock(&lock);
}

// Threads may outlive the library when it is unloaded.
__attribute__((destructor)) static void key_delete(void) {
  if (has_key)
    pthread_key_delete(key);
}

static struct rondo_caller *caller_get(void) {
  for (struct rondo_caller *c = callers; c; c = c->next)
    if (!c->is_used)
      return c;
  struct rondo_caller *made = aligned_alloc(RONDO_LINE_BYTES, sizeof *made);
  if (!made)
    return NULL;
  memset(made, 0, sizeof *made);
  made->next = callers;
  callers = made;
  return made;
}

struct rondo_caller *rondo_caller_create(void) {
  pthread_mutex_lock(&lock);
  struct rondo_caller *caller = caller_get();
  if (caller)
    caller->is_used = 1;
  has_key = has_key || !pthread_key_create(&key, caller_release);
  if (caller && has_key)
    (void)pthread_setspecific(key, caller); // on failure the record is never reused
  pthread_mutex_unlock(&lock);
  rondo_caller_self = caller ? caller : &rondo_caller_none;
  return rondo_caller_self;
}

// Abandons the list: a thread of the parent may have been changing it.
static void callers_forked(void) {
  struct rondo_caller *self = rondo_caller_self == &rondo_caller_none ? NULL : rondo_caller_self;
  if (self)
    self->next = NULL;
  callers = self;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(callers_forked)

uint32_t rondo_callers_count(uint64_t handle, uint64_t slots) {
  uint32_t count = 0;
  rondo_fence_heavy(); // V1
  pthread_mutex_lock(&lock);
  for (const struct rondo_caller *c = callers; c; c = c->next) {
    uint64_t inside = rondo_load_acquire_u64(&c->inside); // V2
    count += inside && inside % slots == handle % slots;
  }
  pthread_mutex_unlock(&lock);
  return count;
}
