// Takes a deadlock apart that a run has found: the cycle in words and as a graph.
#ifndef RONDO_SIM_DEADLOCK_EXPLAIN_H
#define RONDO_SIM_DEADLOCK_EXPLAIN_H

#include <stdbool.h>

#include "sim/deadlock/report.h"

// Plays the first deadlock of the first exact variant that has one again, to the letter, and puts
// the cycle into r->story. False if no row has a deadlock of an exact variant.
bool rondo_sim_explain(struct rondo_sim_report *r);

#endif // RONDO_SIM_DEADLOCK_EXPLAIN_H
