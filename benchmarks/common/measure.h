// One way of timing a collective for all programs, so that what is compared was
// measured alike: every participant rewrites its input, meets the others in a
// barrier, and times its own call; an iteration took as long as its slowest participant.
// The arena lies in memory that all participants see: threads of a process, or
// processes with a shared mapping.
#ifndef RONDO_BENCHMARKS_COMMON_MEASURE_H
#define RONDO_BENCHMARKS_COMMON_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/kit/barrier.h"
#include "benchmarks/common/stats.h"

struct rondo_bench_schedule {
  uint32_t warmup;    // iterations before timing
  uint32_t iters_min; // timed iterations; with iters_max equal, exactly so many
  uint32_t iters_max; // at most the arena's capacity
  uint32_t batch;     // collectives in one call of `once`; the time is divided by it
  uint64_t budget_ns; // aim for as many iterations as take about this long
  bool free_running;  // no barrier between iterations
};

struct rondo_bench_driver {
  void (*rewrite)(void *arg, uint32_t rank); // makes the input new; not timed
  int (*once)(void *arg, uint32_t rank);     // runs the collective; 0, or what went wrong
  void (*settle)(
      void *arg); // returns when no other rank needs this one to end; not timed; may be null
  void *arg;
};

struct rondo_bench_arena {
  struct rondo_kit_barrier barrier;
  uint32_t rank_count;
  uint32_t capacity;
  uint32_t iters;                      // chosen by rank 0 after the warm-up
  _Atomic uint32_t failed;             // the first nonzero result of `once`
  _Alignas(128) uint64_t samples_ns[]; // rank_count rows of `capacity`
};

size_t rondo_bench_arena_bytes(uint32_t rank_count, uint32_t capacity);
void rondo_bench_arena_init(struct rondo_bench_arena *arena, uint32_t rank_count, uint32_t capacity,
                            uint32_t cores);

// Called by every participant with the same schedule. Returns when all have done their
// iterations, or when one has failed.
void rondo_bench_measure(struct rondo_bench_arena *arena, uint32_t rank,
                         const struct rondo_bench_schedule *schedule,
                         const struct rondo_bench_driver *driver);

// The times of the iterations just measured; all zero after a failure. By one participant, when
// all have returned from rondo_bench_measure.
struct rondo_bench_stats rondo_bench_measure_stats(struct rondo_bench_arena *arena);

#endif // RONDO_BENCHMARKS_COMMON_MEASURE_H
