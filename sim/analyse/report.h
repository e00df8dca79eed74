// Writes the findings: text for a person, JSON for a program, and one HTML file with drawings. All
// three say the same.
#ifndef RONDO_SIM_ANALYSE_REPORT_H
#define RONDO_SIM_ANALYSE_REPORT_H

#include "sim/analyse/verdict.h"
#include "sim/common/graph.h"
#include "sim/common/text.h"

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

// The words of the reports (words.c). Each function returns a text that is valid until words.c has
// made sixteen more; one thread makes them all.

// "rank 3", or "process host:17" if only the process is known.
const char *rondo_analyse_words_rank(const struct rondo_analyse_job *job, uint32_t rank);

// "rank 3", "ranks 0-3, 7"; numbers past the 20th range are left out with "...".
const char *rondo_analyse_words_ranks(const struct rondo_analyse_job *job, const uint32_t *ranks,
                                      size_t count);

// "group \"tp\" (tensor parallel)".
const char *rondo_analyse_words_group(const struct rondo_analyse_job *job, uint32_t group);

// "all_reduce number 4 in group \"tp\"".
const char *rondo_analyse_words_call(const struct rondo_analyse_job *job,
                                     const struct rondo_analyse_call *call);

// The details of a call: ", 1024 float32, sum, on stream 0x1, called at a.py:3".
const char *rondo_analyse_words_details(const struct rondo_analyse_job *job,
                                        const struct rondo_analyse_call *call);

// The parts of a report that are prose.
enum rondo_analyse_part {
  RONDO_ANALYSE_HEADLINE,    // one line with the verdict and its subject
  RONDO_ANALYSE_EXPLANATION, // what led to the verdict, and how sure it is
  RONDO_ANALYSE_DIVERGENCE,  // the first divergence; nothing if there is none
  RONDO_ANALYSE_PREVENTION,  // what would have prevented the hang, and what to look at next
  RONDO_ANALYSE_PART_COUNT
};

// The title of each part.
extern const char *const rondo_analyse_titles[RONDO_ANALYSE_PART_COUNT];

// The paragraphs of a part, separated by line feeds; "" if there is nothing to say. Valid until the
// next call.
const char *rondo_analyse_words(const struct rondo_analyse_analysis *a,
                                enum rondo_analyse_part part);

#endif // RONDO_SIM_ANALYSE_REPORT_H
