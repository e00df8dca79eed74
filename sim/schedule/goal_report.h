// What is known of a GOAL program that has run, as text and JSON.
#ifndef RONDO_SIM_SCHEDULE_GOAL_REPORT_H
#define RONDO_SIM_SCHEDULE_GOAL_REPORT_H

#include "sim/schedule/goal.h"

// Append the report. `path`: of the program.
void rondo_schedule_goal_report_text(struct rondo_sim_text *t, const struct rondo_schedule_goal *g,
                                     const char *path);
void rondo_schedule_goal_report_json(struct rondo_sim_text *t, const struct rondo_schedule_goal *g,
                                     const char *path);

#endif // RONDO_SIM_SCHEDULE_GOAL_REPORT_H
