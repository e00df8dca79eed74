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

// Starts `ranks` ranks, as threads of one process or as processes, with RONDO_ALGO `algorithms`.
// Returns false if they do not come up; a line on stderr says why.
bool info_perf_start(struct info_perf *perf, uint32_t ranks, bool processes,
                     const char *algorithms);

// Sends a request, and reads the time of a collective. Returns false after a failure, which has
// been printed on stderr.
bool info_perf_ask(struct info_perf *perf, const char *request, double *time_ns);

void info_perf_end(struct info_perf *perf);

#endif // RONDO_TOOLS_INFO_PERF_CHILD_H
