// What is known of a simulated job, as text, JSON, CSV and HTML.
#ifndef RONDO_SIM_SCHEDULE_REPORT_H
#define RONDO_SIM_SCHEDULE_REPORT_H

#include "sim/common/text.h"
#include "sim/schedule/explain.h"
#include "sim/schedule/job.h"

struct rondo_schedule_quantiles {
  uint64_t count, least_ns, median_ns, p90_ns, p99_ns, most_ns;
  double mean_ns;
};

struct rondo_schedule_report {
  const struct rondo_schedule_job *job;
  struct rondo_schedule_totals totals;
  double bus_gb_s; // GB/s, all ended iterations; 0: nothing has ended
  // From submission to end of a run: of all, and by line (rondo_schedule_job_line).
  struct rondo_schedule_quantiles latency;
  struct rondo_schedule_quantiles *by_line;
  uint32_t line_count;
  const struct rondo_schedule_story *story; // of a deadlock; null: none, or too large to explain
};

void rondo_schedule_report_init(struct rondo_schedule_report *r,
                                const struct rondo_schedule_job *job,
                                const struct rondo_schedule_machine *m);
void rondo_schedule_report_fini(struct rondo_schedule_report *r);

// The name of an outcome: "done", "deadlock", "interrupted".
const char *rondo_schedule_outcome_name(int outcome);

#define RONDO_SCHEDULE_NAME_BYTES 64u
// The name of a line: "3", or "bucket 3" if its statement has a name.
void rondo_schedule_line_name(const struct rondo_schedule_report *r, uint32_t line,
                              char name[RONDO_SCHEDULE_NAME_BYTES]);

// Append the report.
void rondo_schedule_report_text(struct rondo_sim_text *t, const struct rondo_schedule_report *r);
void rondo_schedule_report_json(struct rondo_sim_text *t, const struct rondo_schedule_report *r);
void rondo_schedule_report_csv(struct rondo_sim_text *t, const struct rondo_schedule_report *r);
void rondo_schedule_report_html(struct rondo_sim_text *t, const struct rondo_schedule_report *r,
                                const struct rondo_schedule_machine *m);

#endif // RONDO_SIM_SCHEDULE_REPORT_H
