// The line protocol by which a script asks several programs for measurements in
// turn, so that what is compared was measured within the same second: one request a
// line on standard input, one JSON object a line on standard output.
//
//   request:  <collective> <bytes> <in place: 0|1> <budget in ms>     e.g. "all_reduce 1024 0 60"
//   answer:   {"op":"all_reduce","bytes":1024,"iters":500,"median_ns":...,"wrong":0}
//   or:       {"error":"..."}
//
// The program answers {"ready":"<what it is>"} first, and ends at the end of its input.
#ifndef RONDO_BENCHMARKS_COMMON_SERVE_H
#define RONDO_BENCHMARKS_COMMON_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "benchmarks/common/measure.h"

#define RONDO_BENCH_SERVE_CAPACITY 4096u // most iterations of one request

struct rondo_bench_request {
  int kind; // enum rondo_kind
  uint64_t bytes;
  bool in_place;
  uint64_t budget_ns;
};

// Reads the next request. Answers a line that is none with an error and reads on.
// Returns false at the end of the input.
bool rondo_bench_serve_next(struct rondo_bench_request *request);

// How every served request is measured.
struct rondo_bench_schedule rondo_bench_serve_schedule(const struct rondo_bench_request *request);

void rondo_bench_serve_ready(const char *what);
void rondo_bench_serve_error(const char *what);
void rondo_bench_serve_answer(const struct rondo_bench_request *request, uint64_t actual_bytes,
                              const struct rondo_bench_stats *stats, uint64_t wrong);

#endif // RONDO_BENCHMARKS_COMMON_SERVE_H
