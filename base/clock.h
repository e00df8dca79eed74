// The clocks of this process, for deadlines and reports of the CPU side.
#ifndef RONDO_BASE_CLOCK_H
#define RONDO_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// Monotonic time in nanoseconds.
static inline uint64_t rondo_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// The time at which a timeout that begins now ends. A timeout of 0 or less ends at once.
static inline uint64_t rondo_deadline_ns(uint64_t now_ns, int64_t timeout_ns) {
  return timeout_ns <= 0 ? now_ns : now_ns + (uint64_t)timeout_ns;
}

// ------------------------------------------------------------------- stamps ---

// A monotonic clock for code that runs in every run. Reading the system's clock would take a tenth
// of a small run. This clock reads it once a millisecond, and between two readings adds what the
// processor's time stamp counter has counted. It is never off by more than a millisecond. It begins
// as zeroed memory. One thread at a time may use it. With RONDO_NO_TICKS it is the system's clock:
// in scripted runs that one is virtual, and the counter would not be.
struct rondo_stamp {
  uint64_t ticks, ns; // of both clocks, at the last reading of the system's clock
  uint64_t rate;      // nanoseconds per tick, with 32 binary places; 0: unknown
  uint64_t told_ns;   // the last time returned
};

#define RONDO_STAMP_PERIOD_NS 1000000u
// A reading of the system's clock that takes more ticks was interrupted, and is not used.
#define RONDO_STAMP_LOOK_TICKS 10000u

// Returns true if the counter alone gives the time, which is written to `ns`.
static inline bool rondo_stamp_try_tell(const struct rondo_stamp *s, uint64_t ticks, uint64_t *ns) {
  uint64_t passed = ticks - s->ticks;
  // Bound: longer than the period at any rate, and short enough not to overflow below.
  if (!s->rate || passed >> 28)
    return false;
  uint64_t passed_ns = (passed * s->rate) >> 32;
  *ns = s->ns + passed_ns;
  return passed_ns < RONDO_STAMP_PERIOD_NS;
}

// Takes over the time `ns` of the system's clock. `before` and `after` are the counter before and
// after that reading.
static inline void rondo_stamp_look(struct rondo_stamp *s, uint64_t before, uint64_t ns,
                                    uint64_t after) {
  if (after - before > RONDO_STAMP_LOOK_TICKS)
    return;
  uint64_t passed = before - s->ticks;
  uint64_t passed_ns = ns - s->ns;
  if (s->ns && passed_ns < RONDO_STAMP_PERIOD_NS && !s->rate)
    return; // too short to measure the rate
  double rate = s->ns && passed ? (double)passed_ns / (double)passed : 0;
  // Time stamp counters tick at 0.1 to 100 GHz, and forwards.
  s->rate = rate > 0.01 && rate < 10 ? (uint64_t)(rate * 4294967296.0) : 0;
  s->ticks = before;
  s->ns = ns;
}

// Returns the time of rondo_now_ns, usually with an error of less than a microsecond. Never returns
// less than before.
static inline uint64_t rondo_stamp_ns(struct rondo_stamp *s) {
  uint64_t ns = 0;
#if defined(__x86_64__) && !defined(RONDO_NO_TICKS)
  uint64_t before = __builtin_ia32_rdtsc();
  if (!rondo_stamp_try_tell(s, before, &ns)) {
    ns = rondo_now_ns();
    rondo_stamp_look(s, before, ns, __builtin_ia32_rdtsc());
  }
#else
  ns = rondo_now_ns();
#endif
  if (ns < s->told_ns)
    ns = s->told_ns;
  s->told_ns = ns;
  return ns;
}

#endif // RONDO_BASE_CLOCK_H
