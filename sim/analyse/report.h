// Writes the findings: text for a person, JSON for a program, and one HTML file with drawings. All
// three say the same.
#ifndef RONDO_SIM_ANALYSE_REPORT_H
#define RONDO_SIM_ANALYSE_REPORT_H

#include "sim/analyse/words.h"
#include "sim/common/graph.h"

// All there is to report. Each family is a job of its own; the first one decides the outcome.
struct rondo_analyse_report {
  const struct rondo_analyse_analysis *const *analyses; // the weightiest first
  size_t analysis_count;
  const struct rondo_analyse_record *records;
  size_t record_count;
  bool full; // list every rank and group, however many
};

// Appends the report.
void rondo_analyse_report_text(struct rondo_sim_text *t, const struct rondo_analyse_report *r);
void rondo_analyse_report_json(struct rondo_sim_text *t, const struct rondo_analyse_report *r);
void rondo_analyse_report_html(struct rondo_sim_text *t, const struct rondo_analyse_report *r);

// Draws the cycle of a circular wait: ranks are nodes, waits are edges.
void rondo_analyse_report_graph(struct rondo_sim_graph *g, const struct rondo_analyse_analysis *a);

#endif // RONDO_SIM_ANALYSE_REPORT_H
