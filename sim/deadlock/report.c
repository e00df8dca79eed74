#include "sim/deadlock/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/deadlock/stats.h"

void rondo_sim_report_fini(struct rondo_sim_report *r) {
  for (uint32_t i = 0; i < r->row_count; i++) {
    struct rondo_sim_row *row = &r->rows[i];
    free(row->name);
    free(row->what);
    rondo_sim_config_fini(&row->config);
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      rondo_sim_outcome_fini(&row->outcomes[v]);
    }
  }
  free(r->rows);
  rondo_sim_text_fini(&r->story.words);
  if (r->story.told) {
    rondo_sim_graph_fini(&r->story.graph);
  }
  *r = (struct rondo_sim_report){0};
}

static void describe_grouping(const struct rondo_sim_config *c, struct rondo_sim_text *t) {
  if (c->grouping == RONDO_SIM_3D) {
    rondo_sim_text_add(t, "3D %u,%u,%u, %u/%u collectives", c->tensor, c->data, c->pipeline,
                       c->tensor_collectives, c->data_collectives);
  } else if (c->grouping == RONDO_SIM_FREE) {
    rondo_sim_text_add(t, "free, %u group%s on %u GPUs", c->group_count,
                       c->group_count == 1 ? "" : "s", c->gpu_count);
    if (c->group_count == 1) {
      rondo_sim_text_add(t, ", %u collectives", c->groups[0].collective_count);
    }
  } else {
    uint32_t groups = 0;
    for (uint32_t k = 0; k < c->size_count; k++) {
      groups += c->sizes[k].count;
    }
    rondo_sim_text_add(t, "free, %u groups on %u GPUs,", groups, c->gpu_count);
    for (uint32_t k = 0; k < c->choice_count; k++) {
      rondo_sim_text_add(t, "%s%u", k ? "|" : " ", c->collective_choices[k]);
    }
    rondo_sim_text_add(t, " collectives");
  }
}

static char *config_describe(const struct rondo_sim_config *c) {
  static const char *const models[] = {"single", "sync", "resource"};
  struct rondo_sim_text t = {0};
  rondo_sim_text_add(&t, "%s", models[c->model]);
  if (c->model == RONDO_SIM_RESOURCES) {
    rondo_sim_text_add(&t, " %" PRIu64, c->resources);
  }
  rondo_sim_text_add(&t, ", ");
  describe_grouping(c, &t);
  rondo_sim_text_add(&t, ", disorder %g", c->disorder);
  if (c->model != RONDO_SIM_SINGLE_QUEUE) {
    rondo_sim_text_add(&t, ", sync %g", c->synchronisation);
  }
  return t.data;
}

static double closed_form(const struct rondo_sim_config *c) {
  bool known = c->model == RONDO_SIM_SINGLE_QUEUE && c->grouping == RONDO_SIM_FREE &&
               c->group_count == 1 && c->skipped == RONDO_SIM_SKIPPED_KEEPS_ODDS;
  return known ? rondo_sim_one_group(c->groups[0].gpu_count, c->groups[0].collective_count,
                                     c->disorder)
               : NAN;
}

struct rondo_sim_row *rondo_sim_report_add(struct rondo_sim_report *r, const char *name,
                                           const struct rondo_sim_config *c) {
  RONDO_SIM_GROW(r->rows, r->row_count, r->row_capacity, 16);
  struct rondo_sim_row *row = &r->rows[r->row_count++];
  *row = (struct rondo_sim_row){.name = rondo_sim_strdup(name),
                                .notes = "",
                                .what = config_describe(c),
                                .paper = NAN,
                                .closed = closed_form(c)};
  rondo_sim_config_copy(&row->config, c);
  return row;
}

double rondo_sim_ratio(const struct rondo_sim_tally *t) {
  return t->rounds > 0 ? (double)t->deadlocks / (double)t->rounds : NAN;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void rondo_sim_spread(const struct rondo_sim_outcome *o, double spread[3]) {
  double *ratios = rondo_sim_alloc(sizeof(double) * (o->grouping_count + 1u));
  uint32_t n = 0;
  for (uint32_t g = 0; g < o->grouping_count; g++) {
    if (o->groupings[g].rounds > 0) {
      ratios[n++] = rondo_sim_ratio(&o->groupings[g]);
    }
  }
  qsort(ratios, n, sizeof(*ratios), by_value);
  spread[0] = n ? ratios[0] : NAN;
  spread[1] = n ? (ratios[(n - 1) / 2] + ratios[n / 2]) / 2 : NAN;
  spread[2] = n ? ratios[n - 1] : NAN;
  free(ratios);
}

bool rondo_sim_agrees(const struct rondo_sim_row *row, enum rondo_sim_variant variant) {
  const double paper_rounds = 32000;
  const struct rondo_sim_outcome *o = &row->outcomes[variant];
  if (isnan(row->paper) || !o->ran || o->total.rounds == 0) {
    return false;
  }
  if (o->grouping_count > 1) {
    double s[3];
    rondo_sim_spread(o, s);
    return row->paper >= s[0] && row->paper <= s[2];
  }
  double n = (double)o->total.rounds, ratio = rondo_sim_ratio(&o->total);
  double pooled = (ratio * n + row->paper * paper_rounds) / (n + paper_rounds);
  double sigma = sqrt(pooled * (1 - pooled) * (1 / n + 1 / paper_rounds));
  return fabs(ratio - row->paper) <= 3 * sigma;
}

// ---- the table -----------------------------------------------------------------------------

// Which columns the table has.
struct columns {
  bool paper, closed, variant[RONDO_SIM_VARIANTS];
  int what_width;
};

struct cell {
  char text[64];
};

static struct cell percent_cell(double ratio) {
  struct cell cell = {"-"};
  if (!isnan(ratio)) {
    snprintf(cell.text, sizeof(cell.text), "%.*f %%", ratio < 0.001 ? 4 : 2, ratio * 100);
  }
  return cell;
}

static struct cell outcome_cell(const struct rondo_sim_row *row, int v) {
  const struct rondo_sim_outcome *o = &row->outcomes[v];
  struct cell cell = {"-"};
  if (row->wanted[v] && o->ran && o->total.rounds > 0) {
    struct rondo_sim_interval i = rondo_sim_wilson(o->total.deadlocks, o->total.rounds);
    int digits = i.high < 0.001 ? 4 : 2;
    snprintf(cell.text, sizeof(cell.text), "%.*f %% [%.*f, %.*f]", digits,
             rondo_sim_ratio(&o->total) * 100, digits, i.low * 100, digits, i.high * 100);
  }
  return cell;
}

static struct columns columns_of(const struct rondo_sim_report *r) {
  struct columns c = {.what_width = 13};
  for (uint32_t i = 0; i < r->row_count; i++) {
    const struct rondo_sim_row *row = &r->rows[i];
    int width = (int)strlen(row->what);
    c.paper |= !isnan(row->paper);
    c.closed |= !isnan(row->closed);
    c.what_width = width > c.what_width ? width : c.what_width;
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      c.variant[v] |= row->wanted[v];
    }
  }
  return c;
}

// Adds a line of the table; its cells are paper, closed form and the variants.
static void line_add(const struct columns *c, const char *name, const char *what,
                     const struct cell cells[2 + RONDO_SIM_VARIANTS], struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "%-5s %-*s", name, c->what_width, what);
  if (c->paper) {
    rondo_sim_text_add(out, " %9s", cells[0].text);
  }
  if (c->closed) {
    rondo_sim_text_add(out, " %11s", cells[1].text);
  }
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    if (c->variant[v]) {
      rondo_sim_text_add(out, " %25s", cells[2 + v].text);
    }
  }
  rondo_sim_text_add(out, "\n");
}

static void table_add(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  static const struct cell heads[] = {{"paper"},
                                      {"closed form"},
                                      {"exact, interleaved"},
                                      {"exact, sequential"},
                                      {"published decisions"},
                                      {"published, sequential"}};
  struct columns c = columns_of(r);
  line_add(&c, "row", "configuration", heads, out);
  for (uint32_t i = 0; i < r->row_count; i++) {
    const struct rondo_sim_row *row = &r->rows[i];
    struct cell cells[2 + RONDO_SIM_VARIANTS] = {percent_cell(row->paper),
                                                 percent_cell(row->closed)};
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      cells[2 + v] = outcome_cell(row, v);
    }
    line_add(&c, row->name, row->what, cells, out);
  }
}

// Notes under the table: the spread over groupings, the rounds of an interrupted run, and why a
// cell is empty.
static void row_remarks(const struct rondo_sim_row *row, struct rondo_sim_text *out) {
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    const struct rondo_sim_outcome *o = &row->outcomes[v];
    const char *name = rondo_sim_variant_name((enum rondo_sim_variant)v);
    if (row->wanted[v] && !o->ran && o->why_not) {
      rondo_sim_text_add(out, "  %s, %s: %s\n", row->name, name, o->why_not);
    }
    if (o->ran && o->total.rounds < o->planned) {
      rondo_sim_text_add(out, "  %s, %s: only %llu of %llu rounds were run%s%s\n", row->name, name,
                         (unsigned long long)o->total.rounds, (unsigned long long)o->planned,
                         o->why_not ? ": " : "", o->why_not ? o->why_not : "");
    }
    if (o->ran && o->grouping_count > 1 && o->total.rounds > 0) {
      double s[3];
      rondo_sim_spread(o, s);
      rondo_sim_text_add(out,
                         "  %s, %s: over %u groupings (seed %llu) least %.2f %%, median %.2f %%, "
                         "greatest %.2f %%\n",
                         row->name, name, o->grouping_count,
                         (unsigned long long)row->config.grouping_seed, s[0] * 100, s[1] * 100,
                         s[2] * 100);
    }
  }
}

static void row_agreement(const struct rondo_sim_row *row, struct rondo_sim_text *out) {
  if (isnan(row->paper)) {
    return;
  }
  int agreeing = 0;
  rondo_sim_text_add(out, "  %s: the paper's %.2f %% agrees with", row->name, row->paper * 100);
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    if (rondo_sim_agrees(row, (enum rondo_sim_variant)v)) {
      rondo_sim_text_add(out, "%s %s", agreeing++ ? "," : "",
                         rondo_sim_variant_name((enum rondo_sim_variant)v));
    }
  }
  rondo_sim_text_add(out, "%s%s%s\n", agreeing ? "" : " none", row->notes[0] ? "; " : "",
                     row->notes);
}

void rondo_sim_report_table(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "Deadlocked rounds in percent [95 %% confidence interval, Wilson]\n\n");
  table_add(r, out);
  rondo_sim_text_add(out, "\n");
  for (uint32_t i = 0; i < r->row_count; i++) {
    row_remarks(&r->rows[i], out);
    row_agreement(&r->rows[i], out);
  }
  rondo_sim_text_add(out, "%s%.1f s on %u thread%s\n",
                     r->interrupted ? "Interrupted; this is what was known by then. " : "",
                     r->seconds, r->threads, r->threads == 1 ? "" : "s");
}
