// rondo-perf as a child that answers requests (tools/kit/serve.h). A job forces one algorithm, so
// each algorithm needs a child of its own.
//
//   start -> ask ... -> end
#ifndef RONDO_TOOLS_INFO_PERF_CHILD_H
#define RONDO_TOOLS_INFO_PERF_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

struct info_perf {
  uint32_t count; // of processes: 1, or one a rank
  pid_t *pids;
  FILE *requests, *answers; // of rank 0
};

// The ranks that are started. `launcher`: a command of the shell that starts a program on each
// machine, with RONDO_ALGO in its environment; null: they are threads of one process, or processes.
struct info_perf_ranks {
  uint32_t count;
  bool processes;
  const char *launcher;
};

// Starts the ranks with RONDO_ALGO `algorithms`. Returns false if they do not come up; a line on
// stderr says why.
bool info_perf_start(struct info_perf *perf, const struct info_perf_ranks *ranks,
                     const char *algorithms);

// Sends a request, and reads the time of a collective. Returns false after a failure, which has
// been printed on stderr.
bool info_perf_ask(struct info_perf *perf, const char *request, double *time_ns);

void info_perf_end(struct info_perf *perf);

#endif // RONDO_TOOLS_INFO_PERF_CHILD_H
