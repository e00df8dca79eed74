// Sleeping on a word for a bounded time, and waking the sleepers. Linux futexes.
#ifndef RONDO_BASE_FUTEX_H
#define RONDO_BASE_FUTEX_H

#include <stdbool.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Sleeps while *word is `expected`, for at most `timeout_ns`. May return early.
static inline void rondo_futex_wait(uint32_t *word, uint32_t expected, uint64_t timeout_ns) {
  struct timespec t = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0);
}

static inline void rondo_futex_wake_one(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static inline void rondo_futex_wake_all(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

// Wakes all sleepers on a word that processes share.
static inline void rondo_futex_wake_shared(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#define RONDO_FUTEX_BLIND_NS 1000000u // longest sleep where the system cannot wait for two words

// A word that processes share, and the value on which a thread sleeps.
struct rondo_futex_shared {
  uint32_t *word;
  uint32_t expected;
};

#define RONDO_FUTEX_SHARED_MOST 8u

// Sleeps while *word is `expected` and each of `count` shared words (at most
// RONDO_FUTEX_SHARED_MOST) has its expected value, for at most `timeout_ns`. May return early.
// Returns true if a shared word may have changed. Before Linux 5.16 it sleeps on `word` alone, for
// at most RONDO_FUTEX_BLIND_NS.
static inline bool rondo_futex_wait_any(uint32_t *word, uint32_t expected,
                                        const struct rondo_futex_shared *shared, uint32_t count,
                                        uint64_t timeout_ns) {
  if (!count) {
    rondo_futex_wait(word, expected, timeout_ns);
    return false;
  }
#if defined(SYS_futex_waitv)
  struct futex_waitv all[1 + RONDO_FUTEX_SHARED_MOST] = {
      {.val = expected, .uaddr = (uintptr_t)word, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG}};
  for (uint32_t i = 0; i < count; i++) {
    all[1 + i].val = shared[i].expected;
    all[1 + i].uaddr = (uintptr_t)shared[i].word;
    all[1 + i].flags = FUTEX_32;
  }
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
  until.tv_sec += (time_t)(ns / 1000000000u);
  until.tv_nsec = (long)(ns % 1000000000u);
  long woken = syscall(SYS_futex_waitv, all, 1 + count, 0, &until, CLOCK_MONOTONIC);
  if (woken >= 0)
    return woken > 0;
  if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT)
    return errno == EAGAIN;
    // The system lacks the call, or a filter forbids it.
#else
  (void)shared;
#endif
  rondo_futex_wait(word, expected,
                   timeout_ns < RONDO_FUTEX_BLIND_NS ? timeout_ns : RONDO_FUTEX_BLIND_NS);
  return false;
}

#endif // RONDO_BASE_FUTEX_H
