// The measurement of bench_urgent and peer_urgent_mpi: in each round every rank submits some large
// all-reduces and then a small one, waits for the small one, and then for the others.
#ifndef RONDO_BENCHMARKS_PEERS_URGENT_H
#define RONDO_BENCHMARKS_PEERS_URGENT_H

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/kit/options.h"
#include "tools/kit/stats.h"

#define URGENT_MAX_COUNT 64u
#define URGENT_MAX_ROUNDS 1000u

struct urgent_options {
  uint32_t count; // large all-reduces in a round
  uint32_t rounds;
  uint32_t ranks; // threads of bench_urgent
  uint64_t bytes; // of each large one
  uint64_t urgent_bytes;
};

#define URGENT_OPTIONS_INIT                                                                        \
  { .count = 8, .rounds = 10, .ranks = 2, .bytes = 64u << 20, .urgent_bytes = 8u << 10 }

// Ends the program if the command line is wrong.
static inline void urgent_options_read(const char *doc, int argc, char **argv,
                                       struct urgent_options *options) {
#define AT(field) .offset = offsetof(struct urgent_options, field)
  static const struct rondo_kit_option table[] = {
      {"count", 'c', "N", "Large all-reduces in a round (default 8)", RONDO_KIT_U32, AT(count),
       .low = 1, .high = URGENT_MAX_COUNT},
      {"rounds", 'n', "N", "Rounds, besides one to warm up (default 10)", RONDO_KIT_U32, AT(rounds),
       .low = 1, .high = URGENT_MAX_ROUNDS},
      {"nthreads", 't', "N", "Ranks, where they are threads (default 2)", RONDO_KIT_U32, AT(ranks),
       .low = 2, .high = 64},
      {"bytes", 'b', "SIZE", "of a large one (default 64M)", RONDO_KIT_SIZE, AT(bytes)},
      {"urgent-bytes", 'u', "SIZE", "of the small one (default 8K)", RONDO_KIT_SIZE,
       AT(urgent_bytes)},
      {0}};
#undef AT
  const struct rondo_kit_command command = {.options = table, .doc = doc};
  rondo_kit_command_read(&command, argc, argv, options);
  if (options->bytes < sizeof(float) || options->urgent_bytes < sizeof(float) ||
      options->bytes > 1u << 30 || options->urgent_bytes > 1u << 30) {
    fprintf(stderr, "%s: sizes are from 4 bytes to 1 GiB\n", argv[0]);
    exit(2);
  }
}

// One line of JSON. `urgent_ns`: until the small one had ended on the slowest rank of each round;
// `all_ns`: until all had.
static inline void urgent_print(const char *what, const struct urgent_options *options,
                                uint64_t *urgent_ns, uint64_t *all_ns) {
  struct rondo_kit_stats urgent = rondo_kit_stats_of(urgent_ns, options->rounds);
  struct rondo_kit_stats all = rondo_kit_stats_of(all_ns, options->rounds);
  printf("{\"what\": \"%s\", \"rounds\": %" PRIu32 ", \"urgent_us\": %.1f, \"urgent_min_us\": %.1f,"
         " \"all_us\": %.1f}\n",
         what, options->rounds, urgent.median_ns / 1e3, urgent.min_ns / 1e3, all.median_ns / 1e3);
  fflush(stdout);
}

#endif // RONDO_BENCHMARKS_PEERS_URGENT_H
