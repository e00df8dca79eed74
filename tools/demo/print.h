// The output of the demo: text and a table, or JSON.
#ifndef RONDO_TOOLS_DEMO_PRINT_H
#define RONDO_TOOLS_DEMO_PRINT_H

#include <jansson.h>

#include "tools/demo/program.h"

// `processes`: each rank is a process.
void demo_print_head(const struct demo_options *options, bool processes);

// The outcome of a program; `as_expected` chooses the words.
void demo_print_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                        bool as_expected);

// The table of ranks.
void demo_print_ranks(const struct demo_program *program, const struct demo_outcome *outcome);

// The progress of a running program on standard error: one line, kept up to date, on a terminal; a
// line every few seconds elsewhere.
struct demo_progress {
  const char *what;
  uint32_t iterations;
  uint64_t last_ns; // of the previous line; 0: none yet
};
void demo_print_progress(void *progress, uint32_t done);
void demo_print_progress_end(const struct demo_progress *progress);

// The same as JSON. Null if there is no memory.
json_t *demo_json_options(const struct demo_options *options);
json_t *demo_json_outcome(const struct demo_program *program, const struct demo_outcome *outcome,
                          bool as_expected);

#endif // RONDO_TOOLS_DEMO_PRINT_H
