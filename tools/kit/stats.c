#include "tools/kit/stats.h"

#include <stdlib.h>

static int samples_compare(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left;
  uint64_t b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static double samples_mean(const uint64_t *samples_ns, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)samples_ns[i];
  return sum / (double)count;
}

struct rondo_kit_stats rondo_kit_stats_of(uint64_t *samples_ns, size_t count) {
  struct rondo_kit_stats s = {0};
  if (count == 0)
    return s;
  qsort(samples_ns, count, sizeof(samples_ns[0]), samples_compare);
  size_t middle = count / 2;
  s.count = count;
  s.min_ns = (double)samples_ns[0];
  s.mean_ns = samples_mean(samples_ns, count);
  s.middle_ns = samples_mean(samples_ns + count / 4, count - count / 4 * 2);
  s.median_ns = (double)samples_ns[middle];
  if (count % 2 == 0)
    s.median_ns = (s.median_ns + (double)samples_ns[middle - 1]) / 2;
  size_t nearest_rank = (count * 99 + 99) / 100;
  s.p99_ns = (double)samples_ns[nearest_rank - 1];
  return s;
}
