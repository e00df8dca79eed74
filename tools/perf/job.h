// A job of rondo-perf: ranks, one thread or one process each, that measure one point after the
// other. Rank 0 asks a source for the points and gives it the results, so that points may come from
// a table or from a script.
#ifndef RONDO_TOOLS_PERF_JOB_H
#define RONDO_TOOLS_PERF_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#include "tools/kit/processes.h"
#include "tools/perf/point.h"

// What does not change from point to point.
struct perf_setup {
  uint32_t ranks;
  struct rondo_kit_processes *processes; // this process has one rank; null: all are threads
  uint32_t devices;                      // rank r is on device r % devices
  uint32_t blocks;
  uint32_t workers;
  int backend;
  int order;
  int budget;
  bool pinned;         // rank r's thread on core r
  uint32_t depth;      // runs of each collective in flight in each iteration
  uint32_t unalign;    // elements by which buffers are displaced
  uint64_t seed;       // of the orders of submission
  uint64_t timeout_ns; // of a wait
  uint32_t capacity;   // most timed iterations of a point
};

struct perf_result {
  struct rondo_kit_stats stats;
  uint64_t wrong; // elements, all ranks and rounds
  int status;     // enum rondo_status of what failed
  const char *failed_call;
  uint32_t failed_rank; // whose it was
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
