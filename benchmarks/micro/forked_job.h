// A job in fresh processes, so that each measurement begins with an unused library: all ranks as
// threads of one process, or each rank in a process of its own.
#ifndef RONDO_BENCHMARKS_MICRO_FORKED_JOB_H
#define RONDO_BENCHMARKS_MICRO_FORKED_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rondo/rondo.h>

#define RONDO_FORKED_MAX_RANKS 256u

struct rondo_forked_job {
  uint32_t ranks;
  bool has_processes; // each rank is a process of its own
  // Called in each rank's thread. Returns false if the rank failed, after a message on stderr.
  // `shared` is memory of all ranks and of the caller.
  bool (*main)(struct rondo_context ctx, uint32_t rank, void *shared, const void *arg);
  const void *arg;
  size_t shared_bytes;
};

// Runs a job to its end. `shared` begins as a copy of `result`, and is copied back at the end.
// Returns false if a rank failed. The caller has no threads.
bool rondo_forked_job_run(const struct rondo_forked_job *job, void *result);

#endif // RONDO_BENCHMARKS_MICRO_FORKED_JOB_H
