// Statistics of a list of measured times.
#ifndef RONDO_TOOLS_KIT_STATS_H
#define RONDO_TOOLS_KIT_STATS_H

#include <stddef.h>
#include <stdint.h>

struct rondo_kit_stats {
  size_t count;
  double min_ns;
  double median_ns;
  double middle_ns; // mean of the middle half: robust as the median, finer than the clock's steps
  double mean_ns;
  double p99_ns; // nearest rank
};

// Describes `count` samples; all zero if there are none. Sorts `samples_ns`.
struct rondo_kit_stats rondo_kit_stats_of(uint64_t *samples_ns, size_t count);

#endif // RONDO_TOOLS_KIT_STATS_H
