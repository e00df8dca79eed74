// A point of rondo-perf: what each rank runs in one iteration. Usually that is one collective; with
// --in-flight it is several, each registered under an id of its own.
#ifndef RONDO_TOOLS_PERF_POINT_H
#define RONDO_TOOLS_PERF_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/kit/measure.h"
#include "tools/kit/options.h"
#include "tools/kit/processes.h"
#include "tools/kit/shape.h"

#define PERF_MAX_IN_FLIGHT 1000u

// What does not change from point to point.
struct perf_setup {
  struct rondo_config config; // of each rank, without its id, rank and device
  uint32_t ranks;
  struct rondo_kit_processes *processes; // this process has one rank; null: all are threads
  uint32_t cores;                        // that all ranks may use together
  uint32_t devices;                      // rank r is on device r % devices
  uint32_t pinned;                       // 1: rank r's thread runs on core r
  uint32_t depth;                        // runs of each collective in flight in each iteration
  uint32_t unalign;                      // elements by which buffers are displaced
  uint64_t seed;                         // of the orders of submission
  uint64_t timeout_ns;                   // of a wait
  uint32_t capacity;                     // most timed iterations of a point
  bool counts;                           // the counters of each collective
  uint32_t late_rank;                    // submits later than the others in each iteration
  uint64_t late_ns;                      // by this; 0: no rank is late
};

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
  uint32_t wait;                // enum perf_wait
  bool in_place;
  uint32_t checks; // rounds of data checking
  struct rondo_kit_schedule schedule;
};

// The shape of collective `index`, below in_flight.
struct rondo_kit_shape perf_point_shape(const struct perf_point *point, uint32_t index);

bool perf_point_may_be_in_place(const struct perf_point *point);

struct perf_bytes {
  double all;    // of all collectives of an iteration
  double bus;    // the same with each multiplied by its bus factor
  size_t stride; // from one buffer to the next: the largest collective, displaced by --unalign
};
struct perf_bytes perf_point_bytes(const struct perf_point *point);

// The name of the kind, or "mixed".
const char *perf_point_name(const struct perf_point *point);

// "callback", "rondo_wait", "rondo_test" or "rondo_event_fd".
const char *perf_wait_name(uint32_t wait);

// Whether all ranks of the job, in however many processes of the machine, find room for the buffers
// of `point` in `available` bytes (0: not known, which is room enough). If not, writes one line
// with the figures to `text`, of PERF_MEMORY_TEXT_BYTES. Linux grants more memory than there is and
// later kills a process for it, so the program asks before it allocates.
bool perf_memory_suffices(const struct perf_setup *setup, const struct perf_point *point,
                          uint64_t available, char *text);
#define PERF_MEMORY_TEXT_BYTES 256

// Bytes of the buffers of all ranks, and of the times that they take down.
double perf_memory_bytes(const struct perf_setup *setup, const struct perf_point *point);

#endif // RONDO_TOOLS_PERF_POINT_H
