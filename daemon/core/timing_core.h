// Where a block spends its time, for benchmarks (figures 7 and 9 of the paper): samples of each
// part of its work, in ticks of a clock that the driver provides.
//
// Only a build with RONDO_TIMING=1 takes samples; in every other build the macros are empty, and
// the product pays nothing. A sample costs two clock reads and two stores. A part that contains
// another part also contains the cost of its samples.
//
//   driver: rondo_timing_begin -> RONDO_TIMED_BEGIN ... RONDO_TIMED_END -> rondo_timing_end
#ifndef RONDO_DAEMON_CORE_TIMING_CORE_H
#define RONDO_DAEMON_CORE_TIMING_CORE_H

#include <assert.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/platform.h"

enum rondo_timed {
  RONDO_TIMED_SQE_READ = 0,  // reading an entry of the SQ or of the inbox
  RONDO_TIMED_PREPARE = 1,   // passing an entry on, accepting it, loading its context
  RONDO_TIMED_LOAD = 2,      // loading a context, with saving the old one
  RONDO_TIMED_SAVE = 3,      // saving a dynamic part
  RONDO_TIMED_PRIMITIVE = 4, // a primitive that moved a chunk
  RONDO_TIMED_CQE_WRITE = 5, // claiming a place and publishing the entry
  RONDO_TIMED_FINISH = 6,    // the end of a run: save, count, post, retire
  RONDO_TIMED_COUNT = 7
};

#define RONDO_TIMES_KEPT 1024u // last samples of each part

// The samples of one block. Written by its owner; relaxed, for a reader that comes later.
struct rondo_times {
  uint64_t ticks, ns; // of all ended residencies: the length of a tick
  uint64_t counts[RONDO_TIMED_COUNT];
  uint64_t reserved[7];
  uint32_t samples[RONDO_TIMED_COUNT][RONDO_TIMES_KEPT];
};
static_assert(sizeof(struct rondo_times) ==
                  RONDO_LINE_BYTES + 4ul * RONDO_TIMED_COUNT * RONDO_TIMES_KEPT,
              "shared layout");

// The driver's state while it steps a block.
struct rondo_timing {
  uint64_t times; // address of struct rondo_times; 0: none are kept
  uint64_t since_ticks, since_ns;
  uint64_t counts[RONDO_TIMED_COUNT];
};

RONDO_FN void rondo_timing_begin(struct rondo_timing *t, uint64_t times, uint64_t ticks,
                                 uint64_t ns) {
  const struct rondo_times *at = (const struct rondo_times *)(uintptr_t)times;
  t->times = times;
  t->since_ticks = ticks;
  t->since_ns = ns;
  for (uint32_t i = 0; i < RONDO_TIMED_COUNT; i++)
    t->counts[i] = times ? rondo_load_relaxed_u64(&at->counts[i]) : 0;
}

RONDO_FN void rondo_timing_sample(struct rondo_timing *t, uint32_t part, uint64_t ticks) {
  struct rondo_times *at = (struct rondo_times *)(uintptr_t)t->times;
  if (!at)
    return;
  uint32_t sample = ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
  rondo_store_relaxed_u32(&at->samples[part][t->counts[part] % RONDO_TIMES_KEPT], sample);
  rondo_store_relaxed_u64(&at->counts[part], ++t->counts[part]);
}

RONDO_FN void rondo_timing_end(struct rondo_timing *t, uint64_t ticks, uint64_t ns) {
  struct rondo_times *at = (struct rondo_times *)(uintptr_t)t->times;
  if (!at)
    return;
  rondo_store_relaxed_u64(&at->ticks, rondo_load_relaxed_u64(&at->ticks) + ticks - t->since_ticks);
  rondo_store_relaxed_u64(&at->ns, rondo_load_relaxed_u64(&at->ns) + ns - t->since_ns);
  t->times = 0;
}

#if defined(RONDO_TIMING)

// Provided by the driver: the clock, and the state of the block that the calling thread steps.
RONDO_DRIVER_FN uint64_t rondo_timing_ticks(void);
RONDO_DRIVER_FN struct rondo_timing *rondo_timing_self(void);

#define RONDO_TIMED_BEGIN(began) const uint64_t began = rondo_timing_ticks()
#define RONDO_TIMED_END(part, began)                                                               \
  rondo_timing_sample(rondo_timing_self(), RONDO_TIMED_##part, rondo_timing_ticks() - (began))
#define RONDO_TIMED_LAUNCH(times, ns)                                                              \
  rondo_timing_begin(rondo_timing_self(), times, rondo_timing_ticks(), ns)
#define RONDO_TIMED_LEAVE(ns) rondo_timing_end(rondo_timing_self(), rondo_timing_ticks(), ns)

#else

#define RONDO_TIMED_BEGIN(began) ((void)0)
#define RONDO_TIMED_END(part, began) ((void)0)
#define RONDO_TIMED_LAUNCH(times, ns) ((void)0)
#define RONDO_TIMED_LEAVE(ns) ((void)0)

#endif
#endif // RONDO_DAEMON_CORE_TIMING_CORE_H
