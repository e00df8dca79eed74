// A job of rondo-perf: ranks, one thread or one process each, that measure one point after the
// other. Rank 0 asks a source for the points and gives it the results, so that points may come from
// a table or from a script.
#ifndef RONDO_TOOLS_PERF_JOB_H
#define RONDO_TOOLS_PERF_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#include "tools/perf/counts.h"
#include "tools/perf/point.h"

struct perf_result {
  struct rondo_kit_stats stats;
  uint64_t wrong; // elements, all ranks and rounds
  int status;     // enum rondo_status of what failed
  const char *failed_call;
  uint32_t failed_rank;             // whose it was
  const struct perf_counts *counts; // of each collective in flight; null: not counted
};

// Only rank 0 uses its source.
struct perf_source {
  bool (*next)(void *arg, struct perf_point *point); // false: no more
  void (*finished)(void *arg, const struct perf_point *point, const struct perf_result *result);
  void *arg;
};

// Runs the job until the source has no more points or rondo_init fails. Returns an enum
// rondo_status: RONDO_ERR_NO_MEMORY and RONDO_ERR_SYSTEM (no threads, or ranks on several machines,
// which share no memory to be timed by) from here, others from rondo_init and from the exchange
// with the other processes. `good`: whether all points were measured and no element was wrong, the
// same in all processes.
int perf_job_run(const struct perf_setup *setup, const struct perf_source *source, bool *good);

#endif // RONDO_TOOLS_PERF_JOB_H
