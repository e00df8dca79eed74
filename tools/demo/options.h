// The command line of rondo-demo.
#ifndef RONDO_TOOLS_DEMO_OPTIONS_H
#define RONDO_TOOLS_DEMO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#define DEMO_DEFAULT_RANKS 8u
#define DEMO_MAX_RANKS 64u

struct demo_options {
  uint32_t ranks; // 0: the user did not say
  uint32_t collectives;
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint32_t iterations;
  uint64_t seed;
  struct rondo_config config; // of each rank in the runs with preemption, without id and rank
  uint32_t devices;           // rank r is on device r % devices
  uint64_t watchdog_ns;
  bool programs[2];
  bool no_baseline;
  bool elastic; // the program of elastic.h in place of the two others
  bool quiet;
  const char *json_path; // null: none
};

// Reads the command line. Ends the program with status 2, and one line on stderr, if it is wrong.
void demo_options_read(struct demo_options *options, int argc, char **argv);

// Bytes of collective `index` of `options`: sizes grow geometrically from least to most.
uint64_t demo_options_bytes(const struct demo_options *options, uint32_t index);

#endif // RONDO_TOOLS_DEMO_OPTIONS_H
