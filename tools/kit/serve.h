// The line protocol by which a script asks several programs for measurements in turn, so that
// compared figures were measured within the same second: one request a line on standard input, one
// JSON object a line on standard output.
//
//   request:  <collective> <bytes> <in place: 0|1> <budget in ms> [<in flight> [<orders> [<wait>]]]
//             e.g. "all_reduce 1024 0 60", or "all_reduce 1024 0 60 64 own 2"
//   answer:   {"op":"all_reduce","bytes":1024,"in_flight":1,"iters":500,"median_ns":...,"wrong":0}
//   or:       {"error":"..."}
//
// <in flight> is the number of different collectives in each iteration, 1 if absent; the times are
// for all of them. <orders> is the order in which ranks submit them (enum rondo_kit_orders). <wait>
// is how a rank learns of the end, a value of rondo-perf's --blocking; if absent, the program
// chooses.
//
// The program answers {"ready":"<what it is>"} first, and ends at the end of its input.
#ifndef RONDO_TOOLS_KIT_SERVE_H
#define RONDO_TOOLS_KIT_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/kit/measure.h"

#define RONDO_KIT_SERVE_CAPACITY 4096u      // most iterations of one request
#define RONDO_KIT_SERVE_IN_FLIGHT 1000u     // most collectives in an iteration
#define RONDO_KIT_SERVE_ANY_WAIT UINT32_MAX // the request does not say how to wait

// The orders in which ranks submit the collectives of an iteration.
enum rondo_kit_orders {
  RONDO_KIT_ORDERS_ONE = 0,    // "one": as they were registered
  RONDO_KIT_ORDERS_COMMON = 1, // "common": all in one random order, another one in each iteration
  RONDO_KIT_ORDERS_OWN =
      2, // "own": each rank in a random order of its own, another one in each iteration
  RONDO_KIT_ORDERS_COUNT
};

const char *rondo_kit_orders_name(int orders);
// Returns false if `text` is the name of none.
bool rondo_kit_orders_read(const char *text, int *orders);

struct rondo_kit_request {
  int kind; // enum rondo_kind
  uint64_t bytes;
  bool in_place;
  uint64_t budget_ns;
  uint32_t in_flight;
  int orders;    // enum rondo_kit_orders
  uint32_t wait; // 0 to 3, or RONDO_KIT_SERVE_ANY_WAIT
};

// Reads the next request. Answers a line that is no request with an error and reads on. Returns
// false at the end of the input.
bool rondo_kit_serve_next(struct rondo_kit_request *request);

// Whether the request is for one collective and does not say how to wait.
bool rondo_kit_serve_is_plain(const struct rondo_kit_request *request);

// The schedule of every request.
struct rondo_kit_schedule rondo_kit_serve_schedule(const struct rondo_kit_request *request);

void rondo_kit_serve_ready(const char *what);
void rondo_kit_serve_error(const char *what);
void rondo_kit_serve_answer(const struct rondo_kit_request *request, uint64_t actual_bytes,
                            const struct rondo_kit_stats *stats, uint64_t wrong);

#endif // RONDO_TOOLS_KIT_SERVE_H
