// The clocks of this process: what deadlines and reports of the CPU side are told in.
#ifndef RONDO_BASE_CLOCK_H
#define RONDO_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Monotonic time in nanoseconds.
static inline uint64_t rondo_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// When a time that begins now is over; 0 or less: at once.
static inline uint64_t rondo_deadline_ns(uint64_t now_ns, int64_t timeout_ns) {
  return timeout_ns <= 0 ? now_ns : now_ns + (uint64_t)timeout_ns;
}

// ------------------------------------------------------------------- stamps ---

// The same time for whoever asks at every run, where a look at the clock takes a tenth of it: told by the
// processor's time stamp counter between two looks, which are a millisecond apart at most. However the
// counter behaves, it is not farther off than that. Zeroed memory; one thread at a time.
struct rondo_stamp {
  uint64_t ticks, ns; // of the last look
  uint64_t rate;      // nanoseconds a tick, with 32 binary places; 0: not known
  uint64_t told_ns;   // what it said last
};

#define RONDO_STAMP_PERIOD_NS 1000000u
#define RONDO_STAMP_LOOK_TICKS 10000u // a look that takes longer was interrupted, and tells nothing

// 1 if the counter alone tells the time, which is written to `ns`.
static inline int rondo_stamp_tell(const struct rondo_stamp *s, uint64_t ticks, uint64_t *ns) {
  uint64_t passed = ticks - s->ticks;
  if (!s->rate || passed >> 28) // more than the period at any rate; less than what wraps below
    return 0;
  uint64_t passed_ns = (passed * s->rate) >> 32;
  *ns = s->ns + passed_ns;
  return passed_ns < RONDO_STAMP_PERIOD_NS;
}

// The clock said `ns` between two readings of the counter.
static inline void rondo_stamp_look(struct rondo_stamp *s, uint64_t before, uint64_t ns,
                                    uint64_t after) {
  if (after - before > RONDO_STAMP_LOOK_TICKS)
    return;
  uint64_t passed = before - s->ticks;
  uint64_t passed_ns = ns - s->ns;
  if (s->ns && passed_ns < RONDO_STAMP_PERIOD_NS && !s->rate)
    return; // too short to tell the rate from
  double rate = s->ns && passed ? (double)passed_ns / (double)passed : 0;
  // The counters of processors tick at 0.1 to 100 GHz, and forwards.
  s->rate = rate > 0.01 && rate < 10 ? (uint64_t)(rate * 4294967296.0) : 0;
  s->ticks = before;
  s->ns = ns;
}

// Monotonic time in nanoseconds, as rondo_now_ns but for some; never before what it said last.
static inline uint64_t rondo_stamp_ns(struct rondo_stamp *s) {
  uint64_t ns = 0;
#if defined(__x86_64__)
  uint64_t before = __builtin_ia32_rdtsc();
  if (!rondo_stamp_tell(s, before, &ns)) {
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
