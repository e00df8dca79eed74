// The table of nccl-tests, with the mean and the least time at the end of each line, and the same
// as JSON with the keys of nccl-tests.
#ifndef RONDO_TOOLS_PERF_TABLE_H
#define RONDO_TOOLS_PERF_TABLE_H

#include <jansson.h>

#include "tools/perf/job.h"
#include "tools/perf/options.h"

// What one line of the table shows: the same collective out of place and in place.
struct perf_line {
  struct perf_point point;
  struct perf_result results[2]; // [in place]
  struct perf_counts totals[2];  // of all collectives in flight; zero: not counted
  json_t *counts[2];             // of each collective; null: not counted
};

struct perf_table {
  const struct perf_options *options;
  json_t *lines; // an array
  uint64_t wrong;
  uint32_t failures;
  double bus_bandwidth_sum;
  uint32_t bus_bandwidth_count;
};

void perf_table_begin(struct perf_table *table, const struct perf_options *options);
void perf_table_add(struct perf_table *table, const struct perf_line *line);

// Prints the closing lines and writes the JSON file. Returns the program's exit status.
int perf_table_end(struct perf_table *table);

#endif // RONDO_TOOLS_PERF_TABLE_H
