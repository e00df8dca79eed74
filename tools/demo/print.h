// How the demo tells what happened: a small table for people, JSON for programs.
#ifndef RONDO_TOOLS_DEMO_PRINT_H
#define RONDO_TOOLS_DEMO_PRINT_H

#include <jansson.h>

#include "tools/demo/program.h"

// `processes`: each rank has one of its own.
void demo_print_head(const struct demo_options *options, bool processes);

// What came of one run; `as_expected` only chooses the words.
void demo_print_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                        bool as_expected);

// The table of ranks.
void demo_print_ranks(const struct demo_program *program, const struct demo_outcome *outcome);

// One line about how far a running program is, on standard error: kept up to date on a terminal,
// a line every few seconds elsewhere.
struct demo_progress {
  const char *what;
  uint32_t iterations;
  uint64_t last_ns; // of the line before; 0: none yet
};
void demo_print_progress(void *progress, uint32_t done);
void demo_print_progress_end(const struct demo_progress *progress);

// The same as JSON. Null if there is no memory.
json_t *demo_json_options(const struct demo_options *options);
json_t *demo_json_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                          bool as_expected);

#endif // RONDO_TOOLS_DEMO_PRINT_H
