// The program of an explorer that is one function: runs stories by seed, until one fails.
//
//   PROGRAM [--seeds N] [--first N] [--fault NAME]
//
// With a planted fault the first finding must be the one that the table of faults names.
#ifndef RONDO_TESTS_EXPLORE_SEEDS_H
#define RONDO_TESTS_EXPLORE_SEEDS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/explore.h"

#define EXPLORE_FINDING_BYTES 200u

struct explore_fault {
  const char *name;
  int fault;           // enum rondo_fault
  const char *finding; // a part of it
};

struct explore_stories {
  // Returns whether the story of a seed fails; then `finding` says how.
  bool (*fails)(uint64_t seed, char finding[EXPLORE_FINDING_BYTES]);
  const struct explore_fault *faults;
  size_t fault_count;
};

// Returns the exit status of the program.
static inline int explore_seeds(int argc, char **argv, const struct explore_stories *stories) {
  static const struct option options[] = {{"seeds", 1, NULL, 's'},
                                          {"first", 1, NULL, 'f'},
                                          {"fault", 1, NULL, 'p'},
                                          {NULL, 0, NULL, 0}};
  uint64_t first = 0;
  uint64_t seeds = 1000;
  char finding[EXPLORE_FINDING_BYTES];
  const char *wanted = NULL;
  for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (c == 's')
      seeds = strtoull(optarg, NULL, 10);
    else if (c == 'f')
      first = strtoull(optarg, NULL, 10);
    for (size_t i = 0; c == 'p' && i < stories->fault_count; i++)
      if (strcmp(optarg, stories->faults[i].name) == 0) {
        rondo_fault_planted = stories->faults[i].fault;
        wanted = stories->faults[i].finding;
      }
    if (c == 'p' && !rondo_fault_planted)
      fprintf(stderr, "no such fault: %s\n", optarg);
    if (c == '?' || (c == 'p' && !rondo_fault_planted))
      return 2;
  }
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    if (!stories->fails(seed, finding))
      continue;
    printf("seed %llu: %s\n", (unsigned long long)seed, finding);
    return !wanted || !strstr(finding, wanted);
  }
  printf("%llu seeds: nothing found\n", (unsigned long long)seeds);
  return wanted != NULL;
}

#endif // RONDO_TESTS_EXPLORE_SEEDS_H
