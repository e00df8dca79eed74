// Parking a thread on a word, with a bound, and waking it. Linux futexes.
#ifndef RONDO_DAEMON_DRIVER_FUTEX_H
#define RONDO_DAEMON_DRIVER_FUTEX_H

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

#endif // RONDO_DAEMON_DRIVER_FUTEX_H
