// The two programs of the demo: ranks issue the same all-reduces, each rank in its own random
// order, without or with a device synchronisation between them. Whether the daemon preempts is a
// setting.
#ifndef RONDO_TOOLS_DEMO_PROGRAM_H
#define RONDO_TOOLS_DEMO_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include <rondo/rondo.h>

#include "tools/demo/options.h"
#include "tools/demo/stuck.h"
#include "tools/kit/processes.h"

struct demo_program {
  const struct demo_options *options;
  struct rondo_kit_processes *processes; // this process has one rank; null: all are threads
  bool synchronize;                      // the second program
  int budget;                            // enum rondo_budget_policy
  uint64_t watchdog_ns;
};

enum demo_end {
  DEMO_COMPLETED = 0,
  DEMO_DEADLOCKED = 1,  // the watchdog found a rank that waits
  DEMO_FAILED = 2,      // a call or a run returned an error
  DEMO_INTERRUPTED = 3, // by demo_interrupt
  DEMO_REFUSED = 4      // rondo_init does not support the options
};

struct demo_rank_outcome {
  uint32_t iterations; // completed
  uint64_t checked;    // elements
  uint64_t wrong;      // elements
  struct rondo_counters counters;
};

#define DEMO_CALL_BYTES 64
struct demo_outcome {
  int end;    // enum demo_end
  int status; // enum rondo_status that ended a failed one
  char failed_call[DEMO_CALL_BYTES];
  uint32_t failed_rank; // whose call it was
  bool is_apart;        // this process has lost the others
  uint64_t elapsed_ns;
  uint32_t iterations; // completed by all ranks
  uint64_t runs;       // completed by all ranks together
  uint64_t checked;
  uint64_t wrong;
  // Of a deadlock:
  uint32_t stuck_ranks;    // ranks that were found waiting
  struct demo_stuck stuck; // which of them wait for each other
  char *report;            // the stuck report of this process; else null
  uint32_t rank_count;
  struct demo_rank_outcome *ranks;
};

// Runs the program to its end. `progress` is called now and then with the iterations that all ranks
// have completed; it may be null. Returns 0, or -1 if there is no memory or no threads. Free the
// outcome with demo_outcome_fini. All processes get the same outcome, except for the report, unless
// `is_apart`.
int demo_program_run(const struct demo_program *program, void (*progress)(void *arg, uint32_t done),
                     void *arg, struct demo_outcome *outcome);

void demo_outcome_fini(struct demo_outcome *outcome);

// Whether the orders of the ranks differ in any iteration, so that a deadlock is expected without
// preemption.
bool demo_program_is_disordered(const struct demo_options *options);

// Ends a running program soon. A signal handler may call it.
void demo_interrupt(void);
bool demo_is_interrupted(void);

#endif // RONDO_TOOLS_DEMO_PROGRAM_H
