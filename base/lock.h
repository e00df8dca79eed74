// A lock that needs one atomic operation to take and none to give. Every run takes and gives it
// twice, and atomic operations are nearly half of a small run's time. Neither recursive nor fair.
#ifndef RONDO_BASE_LOCK_H
#define RONDO_BASE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/fence.h"
#include "base/futex.h"

#define RONDO_LOCK_FREE 0u
#define RONDO_LOCK_TAKEN 1u
#define RONDO_LOCK_LOOKS 64u // tries before a thread sleeps: the lock is only held for a moment
#define RONDO_LOCK_LOOK_NS 1000000000u // a sleeping thread tries again after this

// Zeroed memory is a free lock.
struct rondo_lock {
  uint32_t word;
  uint32_t sleepers; // threads that may sleep
};

// Debug builds tell tests, if they define rondo_lock_note, that the thread has taken (1) or given
// (-1) a lock.
#if defined(RONDO_NOTE_LOCKS)
__attribute__((weak)) void rondo_lock_note(int change);
#define RONDO_LOCK_NOTE(change)                                                                    \
  do {                                                                                             \
    if (rondo_lock_note)                                                                           \
      rondo_lock_note(change);                                                                     \
  } while (0)
#else
#define RONDO_LOCK_NOTE(change) ((void)0)
#endif

// Returns true if the lock was free and is now the caller's.
static inline bool rondo_lock_try(struct rondo_lock *lock) {
  if (!rondo_try_swap_acq_rel_u32(&lock->word, RONDO_LOCK_FREE, RONDO_LOCK_TAKEN)) // M2
    return false;
  RONDO_LOCK_NOTE(1);
  return true;
}

// The slow path of rondo_lock_take.
static inline void rondo_lock_await(struct rondo_lock *lock) {
  for (uint32_t i = 0; i < RONDO_LOCK_LOOKS; i++) {
    rondo_relax();
    if (rondo_load_relaxed_u32(&lock->word) == RONDO_LOCK_FREE && rondo_lock_try(lock))
      return;
  }
  rondo_fetch_add_relaxed_u32(&lock->sleepers, 1); // M3
  rondo_fence_heavy();
  while (!rondo_lock_try(lock))
    rondo_futex_wait(&lock->word, RONDO_LOCK_TAKEN, RONDO_LOCK_LOOK_NS);
  rondo_fetch_add_relaxed_u32(&lock->sleepers, (uint32_t)-1);
}

static inline void rondo_lock_take(struct rondo_lock *lock) {
  if (!rondo_lock_try(lock))
    rondo_lock_await(lock);
}

static inline void rondo_lock_give(struct rondo_lock *lock) {
  RONDO_LOCK_NOTE(-1);
  rondo_store_release_u32(&lock->word, RONDO_LOCK_FREE); // M1
  rondo_fence_light();                                   // M3
  if (rondo_load_relaxed_u32(&lock->sleepers))
    rondo_futex_wake_one(&lock->word);
}

#endif // RONDO_BASE_LOCK_H
