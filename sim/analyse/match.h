// Matches the calls of all ranks into operations, compares what the members of each said, and
// settles which calls are still waiting.
//
// Calls of a collective match by group and number; the n-th send from a to b matches the n-th
// receive by b from a. Where a record does not say what completed (NCCL logs, traces without
// kernels), the calls are played through: an operation completes once every member whose file is
// there has it at the front of its communicator and of its stream.
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

// The callers of each operation, in order of rank: those of operation i are
// items[first[i]] .. items[first[i + 1] - 1].
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

// Marks as completed what must have completed on ranks whose record does not say, as above.
void rondo_analyse_play(struct rondo_analyse_job *job, const struct rondo_analyse_callers *c);

// What one call says differently from another of the same operation; 0 if nothing.
uint32_t rondo_analyse_calls_differ(const struct rondo_analyse_call *a,
                                    const struct rondo_analyse_call *b);

#endif // RONDO_SIM_ANALYSE_MATCH_H
