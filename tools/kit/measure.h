// One way of timing a collective for all programs, so that figures can be compared. Every
// participant rewrites its input, waits in a barrier and times its own call; the time of an
// iteration is that of its slowest participant. The measurement lies in memory that all
// participants share: participants are threads of a process, or processes with a shared mapping.
#ifndef RONDO_TOOLS_KIT_MEASURE_H
#define RONDO_TOOLS_KIT_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kit/barrier.h"
#include "tools/kit/stats.h"

struct rondo_kit_schedule {
  uint32_t warmup;    // iterations before timing
  uint32_t iters_min; // timed iterations; with iters_max equal, exactly so many
  uint32_t iters_max; // at most the capacity of the measurement
  uint32_t batch;     // collectives in one call of `once`; the time is divided by it
  uint64_t budget_ns; // aim for as many iterations as take about this long
  bool free_running;  // no barrier between iterations
};

struct rondo_kit_driver {
  void (*rewrite)(void *arg, uint32_t rank); // renews the input; not timed
  int (*once)(void *arg, uint32_t rank);     // runs the collective; 0, or an error
  void (*settle)(void *arg); // waits until no other rank needs this one; not timed; may be null
  void *arg;
};

struct rondo_kit_measurement {
  struct rondo_kit_barrier barrier;
  uint32_t rank_count;
  uint32_t capacity;
  uint32_t iters;                      // chosen by rank 0 after the warm-up
  _Atomic uint32_t failed;             // the first nonzero result of `once`
  _Alignas(128) uint64_t samples_ns[]; // rank_count rows of `capacity`
};

size_t rondo_kit_measurement_bytes(uint32_t rank_count, uint32_t capacity);
void rondo_kit_measurement_init(struct rondo_kit_measurement *m, uint32_t rank_count,
                                uint32_t capacity, uint32_t cores);

// Every participant calls it with the same schedule. Returns when all have done their iterations,
// or when one has failed.
void rondo_kit_measure(struct rondo_kit_measurement *m, uint32_t rank,
                       const struct rondo_kit_schedule *schedule,
                       const struct rondo_kit_driver *driver);

// The times of the last measurement; all zero after a failure. One participant calls it, after all
// have returned from rondo_kit_measure.
struct rondo_kit_stats rondo_kit_measure_stats(struct rondo_kit_measurement *m);

#endif // RONDO_TOOLS_KIT_MEASURE_H
