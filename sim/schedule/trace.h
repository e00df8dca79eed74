// A trace of a simulated job for Perfetto and chrome://tracing, in the JSON format of trace events.
#ifndef RONDO_SIM_SCHEDULE_TRACE_H
#define RONDO_SIM_SCHEDULE_TRACE_H

#include "sim/common/text.h"
#include "sim/schedule/job.h"

// Appends the runs that have ended as async events: a track for each rank, on which runs may
// overlap in any way. Times are microseconds of virtual time.
void rondo_schedule_trace(struct rondo_sim_text *t, const struct rondo_schedule_job *job,
                          const struct rondo_schedule_machine *m);

#endif // RONDO_SIM_SCHEDULE_TRACE_H
