// Sums over all ranks of what rondo_collective_counters tells.
#ifndef RONDO_TOOLS_PERF_COUNTS_H
#define RONDO_TOOLS_PERF_COUNTS_H

#include <stdint.h>

#include <jansson.h>

#include <rondo/rondo.h>

// Zeroed memory. Ranks, threads or processes, add to it at the same time.
struct perf_counts {
  _Atomic uint64_t switches, preemptions, loads, saves;
  _Atomic uint64_t fetches, queue_sum, queue_most; // the last one is the greatest of all
  _Atomic uint64_t waits_data, waits_room, waits_start, waits_readers, waits_completion;
};

void perf_counts_add(struct perf_counts *sum, const struct rondo_collective_counters *c);
// The same with the counts of several collectives.
void perf_counts_total(struct perf_counts *total, const struct perf_counts *counts, uint32_t count);

// Prints one comment line: each count for one fetch, which is one run on one block.
void perf_counts_print(const char *what, const struct perf_counts *counts);
json_t *perf_counts_json(const struct perf_counts *counts, uint32_t count); // an array

#endif // RONDO_TOOLS_PERF_COUNTS_H
