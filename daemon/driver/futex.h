// Parking a thread on a word, with a bound, and waking it. Linux futexes.
#ifndef RONDO_DAEMON_DRIVER_FUTEX_H
#define RONDO_DAEMON_DRIVER_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Sleeps while *word is `expected`, for at most `timeout_ns`. May return early for no reason.
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

// The same for a word that processes share.
static inline void rondo_futex_wake_shared(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#define RONDO_FUTEX_BLIND_NS 1000000u // where the system cannot wait for two words

// Sleeps while *word is `expected` and `*shared`, a word that processes share, is `shared_expected`; for at most
// `timeout_ns`. Linux 5.16 and later; before that it waits for `word` alone, and not for long. May return early.
static inline void rondo_futex_wait_two(uint32_t *word, uint32_t expected, uint32_t *shared,
                                        uint32_t shared_expected, uint64_t timeout_ns) {
#if defined(SYS_futex_waitv)
  struct futex_waitv both[2] = {
      {.val = expected, .uaddr = (uintptr_t)word, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
      {.val = shared_expected, .uaddr = (uintptr_t)shared, .flags = FUTEX_32}};
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns;
  until.tv_sec += (time_t)(ns / 1000000000u);
  until.tv_nsec = (long)(ns % 1000000000u);
  if (syscall(SYS_futex_waitv, both, 2, 0, &until, CLOCK_MONOTONIC) >= 0 || errno != ENOSYS)
    return;
#else
  (void)shared, (void)shared_expected;
#endif
  rondo_futex_wait(word, expected,
                   timeout_ns < RONDO_FUTEX_BLIND_NS ? timeout_ns : RONDO_FUTEX_BLIND_NS);
}

#endif // RONDO_DAEMON_DRIVER_FUTEX_H
