// A point of rondo-perf: what each rank runs in one iteration. Usually that is one collective; with
// --in-flight it is several, each registered under an id of its own.
#ifndef RONDO_TOOLS_PERF_POINT_H
#define RONDO_TOOLS_PERF_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kit/measure.h"
#include "tools/kit/shape.h"

#define PERF_MAX_IN_FLIGHT 1000u

// How a rank learns that its runs have ended: the values of --blocking.
enum perf_wait {
  PERF_WAIT_CALLBACK = 0, // a callback a run
  PERF_WAIT_BLOCK = 1,    // rondo_wait
  PERF_WAIT_TEST = 2,     // a loop over rondo_test
  PERF_WAIT_EVENT = 3,    // poll(2) on rondo_event_fd, then rondo_test
  PERF_WAIT_COUNT
};

struct perf_point {
  struct rondo_kit_shape shape; // of the first collective
  bool is_mixed;                // collectives of all kinds in turn, not all of shape.kind
  uint32_t in_flight;           // different collectives in each iteration
  int orders;                   // in which ranks submit them: enum rondo_kit_orders
  int wait;                     // enum perf_wait
  bool in_place;
  uint32_t checks; // rounds of data checking
  struct rondo_kit_schedule schedule;
};

// The shape of collective `index`, below in_flight.
struct rondo_kit_shape perf_point_shape(const struct perf_point *point, uint32_t index);

bool perf_point_may_be_in_place(const struct perf_point *point);

// Bytes of all collectives of an iteration, and the same with each multiplied by its bus factor.
double perf_point_bytes(const struct perf_point *point);
double perf_point_bus_bytes(const struct perf_point *point);

// Bytes from one buffer to the next: room for the largest collective, displaced by --unalign.
size_t perf_point_stride_bytes(const struct perf_point *point);

// The name of the kind, or "mixed".
const char *perf_point_name(int kind, bool is_mixed);

// "callback", "rondo_wait", "rondo_test" or "rondo_event_fd".
const char *perf_wait_name(int wait);

#endif // RONDO_TOOLS_PERF_POINT_H
