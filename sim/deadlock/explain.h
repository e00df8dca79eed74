// Explains a deadlock that a run has found: its cycle in words and as a graph.
#ifndef RONDO_SIM_DEADLOCK_EXPLAIN_H
#define RONDO_SIM_DEADLOCK_EXPLAIN_H

#include "sim/deadlock/report.h"

// Plays the first deadlock of the first exact variant again, literally, and puts the cycle into
// r->story, unless no exact variant of any row has a deadlock.
void rondo_sim_explain(struct rondo_sim_report *r);

#endif // RONDO_SIM_DEADLOCK_EXPLAIN_H
