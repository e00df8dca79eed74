// The clock of this process: what deadlines and reports of the CPU side are told in.
#ifndef RONDO_DAEMON_DRIVER_CLOCK_H
#define RONDO_DAEMON_DRIVER_CLOCK_H

#include <stdint.h>
#include <time.h>

// Monotonic time in nanoseconds.
static inline uint64_t rondo_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif // RONDO_DAEMON_DRIVER_CLOCK_H
