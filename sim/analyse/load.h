// Reads many files in parallel and shows the progress.
#ifndef RONDO_SIM_ANALYSE_LOAD_H
#define RONDO_SIM_ANALYSE_LOAD_H

#include <regex.h>

#include "sim/analyse/record.h"

// A larger number in a file's name or in an option is no rank.
#define RONDO_ANALYSE_HIGHEST_RANK 100000000

struct rondo_analyse_load_options {
  const regex_t *rank_pattern; // its first group is the rank in a file's name; null: the default
  unsigned thread_count;       // 0: one a core
  bool progress;               // show the progress on standard error
};

// Reads `count` files into records[0 .. count). The caller provides the memory and passes each
// record to rondo_analyse_record_fini later. Problems with a file are in its record.
void rondo_analyse_load(struct rondo_analyse_record *records, char **paths, size_t count,
                        const struct rondo_analyse_load_options *options);

#endif // RONDO_SIM_ANALYSE_LOAD_H
