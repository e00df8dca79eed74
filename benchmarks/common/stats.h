// What a list of measured times says in a few numbers.
#ifndef RONDO_BENCHMARKS_COMMON_STATS_H
#define RONDO_BENCHMARKS_COMMON_STATS_H

#include <stddef.h>
#include <stdint.h>

struct rondo_bench_stats {
  size_t count;
  double min_ns;
  double median_ns;
  double
      middle_ns; // mean of the half in the middle: as robust as the median, and finer than the steps of the clock
  double mean_ns;
  double p99_ns; // nearest rank: the smallest sample that 99 % do not exceed
  double max_ns;
};

// Describes `count` samples; all zero if there are none. Sorts `samples_ns`.
struct rondo_bench_stats rondo_bench_stats_of(uint64_t *samples_ns, size_t count);

#endif // RONDO_BENCHMARKS_COMMON_STATS_H
