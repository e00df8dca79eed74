#include "runtime/rank/callers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"

struct rondo_caller rondo_caller_nobody = {.inside = UINT64_MAX, .deeper = 1};
__thread struct rondo_caller *rondo_caller_self;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards the list, and who has which
static struct rondo_caller *callers;
static pthread_key_t key; // says when a thread ends
static int has_key;

static void thread_ends(void *own) {
  struct rondo_caller *v = own;
  rondo_caller_self = &rondo_caller_nobody; // what else ends with the thread may still call
  pthread_mutex_lock(&lock);
  v->is_taken = v->inside != 0; // a thread that was ended in the middle of a call stays in it
  pthread_mutex_unlock(&lock);
}

// Threads may outlive a library that is unloaded.
__attribute__((destructor)) static void forget_key(void) {
  if (has_key)
    pthread_key_delete(key);
}

static struct rondo_caller *find_or_make(void) {
  for (struct rondo_caller *v = callers; v; v = v->next)
    if (!v->is_taken)
      return v;
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
  struct rondo_caller *v = find_or_make();
  if (v)
    v->is_taken = 1;
  has_key = has_key || !pthread_key_create(&key, thread_ends);
  if (v && has_key)
    (void)pthread_setspecific(key, v); // else it stays with the thread that has ended
  pthread_mutex_unlock(&lock);
  rondo_caller_self = v ? v : &rondo_caller_nobody;
  return rondo_caller_self;
}

// The list is given up rather than walked: another thread may have been about to change it.
static void callers_forked(void) {
  struct rondo_caller *self = rondo_caller_self == &rondo_caller_nobody ? NULL : rondo_caller_self;
  if (self)
    self->next = NULL;
  callers = self;
  lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}
RONDO_ON_FORK(callers_forked)

uint32_t rondo_callers_inside(uint64_t handle, uint64_t slots) {
  uint32_t count = 0;
  rondo_fence_heavy(); // V1
  pthread_mutex_lock(&lock);
  for (const struct rondo_caller *v = callers; v; v = v->next) {
    uint64_t inside = rondo_load_acquire_u64(&v->inside); // V2
    count += inside && inside % slots == handle % slots;
  }
  pthread_mutex_unlock(&lock);
  return count;
}
