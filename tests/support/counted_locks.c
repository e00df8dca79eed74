#include "tests/support/counted_locks.h"

#include <pthread.h>

#include "base/lock.h"

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

unsigned rondo_test_count_held_locks(void) { return held; }
