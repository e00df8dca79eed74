// Time for the programs: one monotonic clock in nanoseconds, the same for all
// threads and processes of a machine.
#ifndef RONDO_TOOLS_KIT_CLOCK_H
#define RONDO_TOOLS_KIT_CLOCK_H

#include <stdint.h>
#include <time.h>

#define RONDO_KIT_SECOND_NS 1000000000ull
#define RONDO_KIT_MILLISECOND_NS 1000000ull

// Nanoseconds since an arbitrary moment. Any thread; about 20 ns.
static inline uint64_t rondo_kit_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * RONDO_KIT_SECOND_NS + (uint64_t)t.tv_nsec;
}

// The time `duration_ns` from now on the wall clock, for sem_timedwait. sem_clockwait would take
// the monotonic clock, but the thread sanitizer of gcc 12 does not know that call.
static inline struct timespec rondo_kit_deadline(uint64_t duration_ns) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t nanoseconds = (uint64_t)t.tv_nsec + duration_ns % RONDO_KIT_SECOND_NS;
  t.tv_sec += (time_t)(duration_ns / RONDO_KIT_SECOND_NS + nanoseconds / RONDO_KIT_SECOND_NS);
  t.tv_nsec = (long)(nanoseconds % RONDO_KIT_SECOND_NS);
  return t;
}

#endif // RONDO_TOOLS_KIT_CLOCK_H
