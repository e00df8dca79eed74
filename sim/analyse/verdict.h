// Decides what happened in a job. Reads and prints nothing.
#ifndef RONDO_SIM_ANALYSE_VERDICT_H
#define RONDO_SIM_ANALYSE_VERDICT_H

#include "sim/analyse/wait.h"

enum rondo_analyse_outcome {
  RONDO_ANALYSE_NOTHING_WAITS, // every recorded call completed
  RONDO_ANALYSE_CANNOT_TELL,   // the files lack what would decide
  RONDO_ANALYSE_NO_CYCLE,      // calls wait, in one consistent order: not an ordering deadlock
  RONDO_ANALYSE_NEVER_CAME,    // a rank has not called what the others wait in
  RONDO_ANALYSE_MISMATCH,      // members called different things as one operation
  RONDO_ANALYSE_CIRCULAR_WAIT, // an ordering deadlock
  RONDO_ANALYSE_OUTCOME_COUNT
};

// The first point where the calls of two ranks differ in a way that hangs.
struct rondo_analyse_divergence {
  bool found;
  uint32_t ranks[2];
  int64_t calls[2];  // index of each rank's next call there; -1: it made none
  int64_t common[2]; // index of the last call that both made alike; -1: none in the record
  uint64_t survived; // earlier differences of order that hung neither rank
};

struct rondo_analyse_verdict {
  enum rondo_analyse_outcome outcome;
  bool inferred;  // rests on an inference, see wait.h, rather than on what is recorded alone
  bool by_order;  // the cycle is there only if the device runs calls in the order they were made
  uint32_t op;    // concerned, or RONDO_ANALYSE_NO_OP
  uint32_t group; // concerned, or UINT32_MAX
  struct rondo_analyse_turn *turns; // of a circular wait
  size_t turn_count;
  uint32_t *ranks; // that never came, or whose files are missing or have lost what would tell
  bool *is_blamed; // by number: is the rank one of these
  size_t rank_count;
  uint64_t unknown_members; // members that nothing is known of, beside those in `ranks`
  bool members_unknown;     // the record does not say who is in the group
  bool members_assumed;     // the cycle is there if all ranks belong to such groups
  struct rondo_analyse_divergence divergence;
  size_t mismatch_count; // operations whose members differ, the one concerned among them
};

// The findings about one job. The parts point to each other, so they must not be copied.
struct rondo_analyse_analysis {
  struct rondo_analyse_job *job;
  struct rondo_analyse_callers callers;
  struct rondo_analyse_waits waits;
  struct rondo_analyse_verdict verdict;
};

// Matches, plays and decides. The caller keeps the job, which gains its operations.
void rondo_analyse_analysis_init(struct rondo_analyse_analysis *a, struct rondo_analyse_job *job);
void rondo_analyse_analysis_fini(struct rondo_analyse_analysis *a);

// The name of an outcome for machines, such as "circular_wait". Never null.
const char *rondo_analyse_outcome_name(int outcome);

// The exit code of the process: 0, 10 … 14. docs/analyse.md lists them.
int rondo_analyse_outcome_exit_code(int outcome);

// Finds where two ranks diverge, among the operations of groups that both are in. Sets `d` only if
// there is a divergence and `d` holds none.
void rondo_analyse_divergence_find(const struct rondo_analyse_analysis *a, uint32_t rank,
                                   uint32_t other, struct rondo_analyse_divergence *d);

#endif // RONDO_SIM_ANALYSE_VERDICT_H
