// Condition variables with a deadline of the monotonic clock.
#ifndef RONDO_BASE_CONDITION_H
#define RONDO_BASE_CONDITION_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

// For rondo_condition_wait. Destroyed by pthread_cond_destroy.
static inline void rondo_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attr);
  pthread_condattr_destroy(&attr);
}

// Waits for a signal, or until `deadline_ns` of rondo_now_ns. Returns as pthread_cond_timedwait.
// Called with the lock.
static inline int rondo_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                                       uint64_t deadline_ns) {
  const struct timespec until = {(time_t)(deadline_ns / 1000000000u),
                                 (long)(deadline_ns % 1000000000u)};
  return pthread_cond_timedwait(condition, lock, &until);
}

#endif // RONDO_BASE_CONDITION_H
