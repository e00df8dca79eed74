// The findings of a call of `rondo-sim deadlock`, and the ways to show them.
#ifndef RONDO_SIM_DEADLOCK_REPORT_H
#define RONDO_SIM_DEADLOCK_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/common/graph.h"
#include "sim/common/text.h"
#include "sim/deadlock/config.h"
#include "sim/deadlock/run_rounds.h"
#include "sim/deadlock/sweep.h"

// One line of the table: a configuration and what each variant gave.
struct rondo_sim_row {
  char *name;        // of the preset's row, or of the file
  char *what;        // the configuration in a few words
  const char *notes; // where and why ours differs from the paper's; may be empty
  struct rondo_sim_config config;
  double paper;  // the paper's ratio, NAN if it has none
  double closed; // by closed form, NAN if there is none
  bool wanted[RONDO_SIM_VARIANTS];
  struct rondo_sim_outcome outcomes[RONDO_SIM_VARIANTS];
  double swept[RONDO_SIM_MAX_SWEEPS]; // values of the swept options
};

// A deadlock that was found, explained.
struct rondo_sim_story {
  bool told;
  struct rondo_sim_text words;
  struct rondo_sim_graph graph;
};

struct rondo_sim_report {
  const char *title;
  struct rondo_sim_row *rows;
  uint32_t row_count, row_capacity;
  struct rondo_sim_sweep sweeps[RONDO_SIM_MAX_SWEEPS];
  uint32_t sweep_count;
  bool interrupted;
  double seconds;
  uint32_t threads;
  struct rondo_sim_story story;
};

void rondo_sim_report_fini(struct rondo_sim_report *r);

// Adds a row for a configuration, which is copied; `what` describes it. The row is valid until the
// next one is added.
struct rondo_sim_row *rondo_sim_report_add(struct rondo_sim_report *r, const char *name,
                                           const struct rondo_sim_config *c);

// The ratio of an outcome; NAN without rounds.
double rondo_sim_ratio(const struct rondo_sim_tally *t);

// The spread of an outcome over its groupings: least, median and greatest ratio.
void rondo_sim_spread(const struct rondo_sim_outcome *o, double spread[3]);

// True if a variant agrees with the paper's ratio, which itself comes from 32,000 rounds. Without
// drawn groupings: the two are at most three standard deviations apart. With drawn groupings: the
// paper's ratio lies between the least and the greatest, because the paper's grouping is one
// unknown draw. False if the paper has no ratio.
bool rondo_sim_agrees(const struct rondo_sim_row *row, enum rondo_sim_variant variant);

// Plays the first deadlock of the first exact variant again, literally, and puts the cycle into
// r->story, unless no exact variant of any row has a deadlock.
void rondo_sim_explain(struct rondo_sim_report *r);

// Append the report: a table for people, JSON, CSV with a header line, an HTML page that loads
// nothing.
void rondo_sim_report_table(const struct rondo_sim_report *r, struct rondo_sim_text *out);
void rondo_sim_report_json(const struct rondo_sim_report *r, struct rondo_sim_text *out);
void rondo_sim_report_csv(const struct rondo_sim_report *r, struct rondo_sim_text *out);
void rondo_sim_report_html(const struct rondo_sim_report *r, struct rondo_sim_text *out);

#endif // RONDO_SIM_DEADLOCK_REPORT_H
