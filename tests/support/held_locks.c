#include "tests/support/held_locks.h"

#include <pthread.h>
#include <stdio.h>

#include "base/lock.h"
#include "tests/support/fake_cuda/fake_cuda.h"

static _Thread_local unsigned held;

// The names are those that the linker gives to what it wraps.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex) {
  int error = __real_pthread_mutex_lock(mutex);
  held += !error;
  return error;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex) {
  int error = __real_pthread_mutex_trylock(mutex);
  held += !error;
  return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex) {
  held--;
  return __real_pthread_mutex_unlock(mutex);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#if defined(RONDO_NOTE_LOCKS)
void rondo_lock_note(int change) { held += (unsigned)change; }
#endif

static unsigned locks_count_held(void) { return held; }

void rondo_test_watch_locks(void) { rondo_fake_watch_locks(locks_count_held); }

bool rondo_test_has_called_with_lock(void) {
  const char *call = rondo_fake_called_with_lock();
  if (call)
    fprintf(stderr, "%s was called with a lock held\n", call);
  return call != NULL;
}
