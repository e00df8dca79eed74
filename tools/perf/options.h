// The command line of rondo-perf: the flags of nccl-tests, and Rondo's own.
#ifndef RONDO_TOOLS_PERF_OPTIONS_H
#define RONDO_TOOLS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/perf/job.h"

struct perf_options {
  struct perf_setup setup;
  int kind;           // enum rondo_kind
  bool is_mixed;      // all kinds in turn; `kind` is that of the first collective
  uint32_t in_flight; // different collectives in each iteration
  int orders;         // in which ranks submit them: enum rondo_kit_orders
  int wait;           // enum perf_wait
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint64_t step_bytes; // 0: multiply by step_factor
  double step_factor;
  uint32_t iters;
  uint32_t warmup;
  uint32_t cycles;
  uint32_t checks;
  bool free_running;
  bool all_dtypes, all_redops, all_roots;
  int dtype;
  int redop;
  uint32_t root;
  bool serve;
  const char *json_path; // null: none
};

// Reads the command line. `processes`: those that a launcher started; null: none. Ends
// the program with status 2 and one line if it cannot be understood.
void perf_options_read(struct perf_options *options, struct rondo_kit_processes *processes,
                       int argc, char **argv);

#endif // RONDO_TOOLS_PERF_OPTIONS_H
