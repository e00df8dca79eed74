// Explains a deadlock: shows the analyser (sim/analyse) where each rank stands, as a flight record
// would, and reports what it finds.
#ifndef RONDO_SIM_SCHEDULE_EXPLAIN_H
#define RONDO_SIM_SCHEDULE_EXPLAIN_H

#include "sim/common/text.h"
#include "sim/schedule/job.h"

struct rondo_schedule_story {
  bool is_cycle;                    // the analyser found a circular wait
  struct rondo_sim_text text, json; // its reports
  struct rondo_sim_text dot, svg;   // the cycle, if there is one
};

// Returns false, and writes nothing, if the job is too large for the analyser.
bool rondo_schedule_explain(const struct rondo_schedule_job *job,
                            const struct rondo_schedule_machine *m,
                            struct rondo_schedule_story *story);
void rondo_schedule_story_fini(struct rondo_schedule_story *story);

#endif // RONDO_SIM_SCHEDULE_EXPLAIN_H
