// Matches the calls of all ranks into operations, compares the calls of each operation, and finds
// out which calls still wait.
//
// Calls of a collective match by group and number. The n-th send from a to b matches the n-th
// receive by b from a. Some records do not say what completed (NCCL logs, traces without kernels).
// Their calls are played through: an operation completes once it is at the front of the
// communicator and of the stream of every member that has a file.
#ifndef RONDO_SIM_ANALYSE_MATCH_H
#define RONDO_SIM_ANALYSE_MATCH_H

#include "sim/analyse/job.h"

enum rondo_analyse_difference {
  RONDO_ANALYSE_DIFFERS_KIND = 1,
  RONDO_ANALYSE_DIFFERS_COUNT = 2,
  RONDO_ANALYSE_DIFFERS_DTYPE = 4,
  RONDO_ANALYSE_DIFFERS_REDOP = 8,
  RONDO_ANALYSE_DIFFERS_ROOT = 16
};

// A call that is part of an operation.
struct rondo_analyse_caller {
  uint32_t rank, call;
};

// The callers of each operation, ordered by rank: operation i has items[first[i]] .. items[first[i
// + 1] - 1].
struct rondo_analyse_callers {
  struct rondo_analyse_caller *items;
  size_t *first;
};

// Makes the operations of the job and sets `op` of its calls.
void rondo_analyse_match(struct rondo_analyse_job *job);

// Lists the callers of all operations.
void rondo_analyse_callers_init(struct rondo_analyse_callers *c,
                                const struct rondo_analyse_job *job);
void rondo_analyse_callers_fini(struct rondo_analyse_callers *c);

// Marks the calls that must have completed on ranks whose record does not say so, as described
// above.
void rondo_analyse_play(struct rondo_analyse_job *job, const struct rondo_analyse_callers *c);

// How two calls of one operation differ; 0 if they do not.
uint32_t rondo_analyse_calls_differ(const struct rondo_analyse_call *a,
                                    const struct rondo_analyse_call *b);

#endif // RONDO_SIM_ANALYSE_MATCH_H
