// The command line of rondo-perf: the flags of nccl-tests, and Rondo's own.
#ifndef RONDO_TOOLS_PERF_OPTIONS_H
#define RONDO_TOOLS_PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/perf/point.h"

struct perf_options {
  struct perf_setup setup;
  struct perf_point point; // the first one, without its size
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint64_t step_bytes; // 0: multiply by step_factor
  double step_factor;
  uint32_t cycles;
  bool all_dtypes, all_redops, all_roots; // points of all, from that of the first point on
  bool serve;
  const char *json_path; // null: none
  const char *algorithm; // null: Rondo's choice
};

// Reads the command line. `processes`: those that a launcher started; null: none. Ends
// the program with status 2 and one line if it cannot be understood.
void perf_options_read(struct perf_options *options, struct rondo_kit_processes *processes,
                       int argc, char **argv);

#endif // RONDO_TOOLS_PERF_OPTIONS_H
