// Runs many rounds of one configuration on all cores, and stops cleanly when asked.
#ifndef RONDO_SIM_DEADLOCK_RUN_ROUNDS_H
#define RONDO_SIM_DEADLOCK_RUN_ROUNDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/config.h"
#include "sim/deadlock/decide_round.h"

// The result of the rounds of one grouping.
struct rondo_sim_tally {
  uint64_t rounds, deadlocks;
  uint64_t first_deadlock; // the lowest round that deadlocked; UINT64_MAX if none did
};

// The result of one variant of one configuration over all its groupings.
struct rondo_sim_outcome {
  bool ran;                     // false: not asked for, or not possible
  const char *why_not;          // why it did not run or not fully; null if it did
  struct rondo_sim_tally total; // first_deadlock: in grouping `first_grouping`
  uint32_t first_grouping, grouping_count;
  struct rondo_sim_tally *groupings;
  uint64_t planned;
  double seconds;
};

// Receives progress from time to time, on the thread that called run: `done` of `planned` rounds of
// this outcome.
struct rondo_sim_watch {
  void (*told)(void *arg, uint64_t done, uint64_t planned, double seconds); // may be null
  void *arg;
  const atomic_int *stop; // nonzero: finish early and return what is known
};

// Runs one variant. The result does not depend on the number of threads. `out` is freed with
// rondo_sim_outcome_fini().
void rondo_sim_run(const struct rondo_sim_config *c, enum rondo_sim_variant variant,
                   const struct rondo_sim_watch *watch, struct rondo_sim_outcome *out);
void rondo_sim_outcome_fini(struct rondo_sim_outcome *out);

// The number of threads of a configuration.
uint32_t rondo_sim_threads(const struct rondo_sim_config *c);

#endif // RONDO_SIM_DEADLOCK_RUN_ROUNDS_H
