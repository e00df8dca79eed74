// A batch: the collectives that one rank has in flight in an iteration. The batch registers them,
// submits a run of each and waits for all.
//
//   (begin -> order, run ... -> end) ...
//
// The thread of the rank makes all calls.
#ifndef RONDO_TOOLS_PERF_BATCH_H
#define RONDO_TOOLS_PERF_BATCH_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#include "tools/kit/shape.h"
#include "tools/perf/counts.h"
#include "tools/perf/point.h"

// A rank registers one descriptor for a collective. In the ring of send-recvs it registers two: its
// send to the next rank and its receive from the previous rank.
#define PERF_MAX_REGISTRATIONS 2u
struct perf_registration {
  struct rondo_collective collective;
  bool is_only_send, is_only_receive;
};

struct perf_collective {
  struct rondo_kit_shape shape;
  struct perf_registration registrations[PERF_MAX_REGISTRATIONS];
  uint32_t registration_count;
};

// A call of rondo_run as an iteration makes it.
struct perf_submission {
  struct rondo_collective collective;
  const void *send;
  void *recv;
};

struct perf_batch {
  // Set by the caller before begin, and `ended` with them.
  struct rondo_context context;
  uint32_t rank;
  const struct perf_setup *setup;
  const struct perf_point *point;
  const char *call; // the last call of perf_batch_begin or perf_batch_run, for messages
  struct perf_collective *collectives;
  uint32_t run_count;             // runs in an iteration: in_flight x depth
  struct rondo_kit_place *places; // of each run; written by the caller after begin
  uint32_t *order;                // of submission: numbers of runs
  // Prepared before an iteration is timed.
  struct perf_submission *submissions;
  uint32_t submission_count;
  struct rondo_collective *pending; // not known to have ended
  uint32_t pending_count;
  int event_fd; // of the context, where the point waits by it
  sem_t ended;  // posted by callbacks
  _Atomic int callback_status;
};

// Registers the collectives of `point`, which must stay until end. All ranks derive the same ids
// from `number`, the number of the point. Returns an enum rondo_status; the caller calls end also
// after a failure.
int perf_batch_begin(struct perf_batch *batch, const struct perf_point *point, uint64_t number);

// The collective that run `run` of an iteration belongs to.
static inline uint32_t perf_batch_collective(const struct perf_batch *batch, uint32_t run) {
  return run % batch->point->in_flight;
}

// Chooses the order in which the next iteration submits its runs. Called before each iteration.
void perf_batch_order(struct perf_batch *batch, uint32_t iteration);

// One iteration: submits all runs and waits for all. Returns an enum rondo_status.
int perf_batch_run(struct perf_batch *batch);

// Adds the counters of each collective of this rank to `counts`, which has in_flight entries.
// Returns an enum rondo_status.
int perf_batch_count(struct perf_batch *batch, struct perf_counts *counts);

// After a failure: aborts all runs of this rank, so that the collectives can be deregistered and
// the buffers reused.
void perf_batch_abort(struct perf_batch *batch);

// Deregisters the collectives. Returns the first failure.
int perf_batch_end(struct perf_batch *batch);

#endif // RONDO_TOOLS_PERF_BATCH_H
