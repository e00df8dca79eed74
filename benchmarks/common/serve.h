// The line protocol by which a script asks several programs for measurements in
// turn, so that what is compared was measured within the same second: one request a
// line on standard input, one JSON object a line on standard output.
//
//   request:  <collective> <bytes> <in place: 0|1> <budget in ms> [<in flight> [<orders> [<wait>]]]
//             e.g. "all_reduce 1024 0 60", or "all_reduce 1024 0 60 64 own 2"
//   answer:   {"op":"all_reduce","bytes":1024,"in_flight":1,"iters":500,"median_ns":...,"wrong":0}
//   or:       {"error":"..."}
//
// <in flight> is the number of different collectives in each iteration, 1 if it is absent; the
// times are for all of them. <orders> is the order in which ranks submit them (enum rondo_bench_orders).
// <wait> is how a rank learns of the end, one of the values of rondo-perf's
// --blocking; if it is absent, the program chooses.
//
// The program answers {"ready":"<what it is>"} first, and ends at the end of its input.
#ifndef RONDO_BENCHMARKS_COMMON_SERVE_H
#define RONDO_BENCHMARKS_COMMON_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "benchmarks/common/measure.h"

#define RONDO_BENCH_SERVE_CAPACITY 4096u      // most iterations of one request
#define RONDO_BENCH_SERVE_IN_FLIGHT 1000u     // most collectives in an iteration
#define RONDO_BENCH_SERVE_ANY_WAIT UINT32_MAX // the request does not say how to wait

// The orders in which ranks submit the collectives of an iteration.
enum rondo_bench_orders {
  RONDO_BENCH_ORDERS_ONE = 0,    // "one": as they were registered
  RONDO_BENCH_ORDERS_COMMON = 1, // "common": all in one random order, another one in each iteration
  RONDO_BENCH_ORDERS_OWN = 2,    // "own": each in a random order of its own, likewise
  RONDO_BENCH_ORDERS_COUNT
};

const char *rondo_bench_orders_name(int orders);
// Returns false if it is the name of none.
bool rondo_bench_orders_read(const char *text, int *orders);

struct rondo_bench_request {
  int kind; // enum rondo_kind
  uint64_t bytes;
  bool in_place;
  uint64_t budget_ns;
  uint32_t in_flight;
  int orders;    // enum rondo_bench_orders
  uint32_t wait; // 0 to 3, or RONDO_BENCH_SERVE_ANY_WAIT
};

// Reads the next request. Answers a line that is none with an error and reads on.
// Returns false at the end of the input.
bool rondo_bench_serve_next(struct rondo_bench_request *request);

// Whether the request is for one collective, waited for as the program does by itself.
bool rondo_bench_serve_is_plain(const struct rondo_bench_request *request);

// How every served request is measured.
struct rondo_bench_schedule rondo_bench_serve_schedule(const struct rondo_bench_request *request);

void rondo_bench_serve_ready(const char *what);
void rondo_bench_serve_error(const char *what);
void rondo_bench_serve_answer(const struct rondo_bench_request *request, uint64_t actual_bytes,
                              const struct rondo_bench_stats *stats, uint64_t wrong);

#endif // RONDO_BENCHMARKS_COMMON_SERVE_H
