// The collectives that one rank has in flight in an iteration: registers them, submits a run of
// each and waits for all.
//
//   init -> (begin -> order, once ... -> end) ... -> fini
//
// All calls are made by the thread of the rank.
#ifndef RONDO_BENCHMARKS_COLLECTIVE_FLIGHT_H
#define RONDO_BENCHMARKS_COLLECTIVE_FLIGHT_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#include "benchmarks/collective/point.h"
#include "examples/kit/shape.h"

// What a rank registers for one collective: itself, or in the ring of send-recvs a send to the next
// rank and a receive from the rank before.
#define PERF_MAX_LEGS 2u
struct perf_leg {
  struct rondo_collective collective;
  bool is_only_send, is_only_receive;
};

struct perf_member {
  struct rondo_kit_shape shape;
  struct perf_leg legs[PERF_MAX_LEGS];
  uint32_t leg_count;
};

// A call of rondo_run as an iteration makes it.
struct perf_submission {
  struct rondo_collective collective;
  const void *send;
  void *recv;
};

struct perf_flight {
  struct rondo_context context; // set by the caller before begin
  uint32_t rank;
  uint32_t depth; // runs of each collective in an iteration
  uint64_t seed;
  uint64_t timeout_ns; // of a wait
  bool is_crowded;     // ranks outnumber cores: a loop over rondo_test yields
  const struct perf_point *point;
  const char *call; // that perf_flight_begin or perf_flight_once made last, for messages
  struct perf_member *members;
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

void perf_flight_init(struct perf_flight *flight);
void perf_flight_fini(struct perf_flight *flight);

// Registers the collectives of `point`, which must stay until end. `number` is that of the point,
// from which all ranks make the same ids. Returns an enum rondo_status; end is due in any case.
int perf_flight_begin(struct perf_flight *flight, const struct perf_point *point, uint64_t number);

// Which collective run `run` of an iteration belongs to.
static inline uint32_t perf_flight_member(const struct perf_flight *flight, uint32_t run) {
  return run % flight->point->in_flight;
}

// Chooses the order in which the next iteration submits its runs, and prepares it. Due before each iteration.
void perf_flight_order(struct perf_flight *flight, uint32_t iteration);

// One iteration: submits all runs and waits until all have ended. Returns an enum rondo_status.
int perf_flight_once(struct perf_flight *flight);

// After a failure: ends all runs of this rank, so that the collectives can be deregistered and the
// buffers reused.
void perf_flight_abort(struct perf_flight *flight);

// Deregisters the collectives. Returns the first failure.
int perf_flight_end(struct perf_flight *flight);

#endif // RONDO_BENCHMARKS_COLLECTIVE_FLIGHT_H
