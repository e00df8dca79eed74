// The report as one HTML page that loads nothing: the table, the charts, an example cycle.
#include "sim/deadlock/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/deadlock/chart.h"
#include "sim/deadlock/stats.h"

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    "body{font-family:sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222}\n"
    "table{border-collapse:collapse;margin:1em 0}\n"
    "th,td{border:1px solid #ccc;padding:.3em .6em;text-align:right}\n"
    "th{background:#f2f2f2}td.text{text-align:left}\n"
    "small{color:#666}pre{background:#f7f7f7;padding:1em;overflow-x:auto}\n"
    "svg{max-width:100%;height:auto}\n"
    "</style>\n";

static const char *const variant_titles[] = {
    "exact cycles, interleaved lists", "exact cycles, sequential lists", "published decisions",
    "published decisions, sequential lists"};

static void cell_add(const struct rondo_sim_row *row, int v, struct rondo_sim_text *out) {
  const struct rondo_sim_outcome *o = &row->outcomes[v];
  if (!o->ran || o->total.rounds == 0) {
    rondo_sim_text_add(out, "<td>&ndash;</td>");
    return;
  }
  struct rondo_sim_interval i = rondo_sim_wilson(o->total.deadlocks, o->total.rounds);
  rondo_sim_text_add(out, "<td>%.4g&nbsp;%%<br><small>%.4g &ndash; %.4g&nbsp;%%<br>%llu of %llu",
                     rondo_sim_ratio(&o->total) * 100, i.low * 100, i.high * 100,
                     (unsigned long long)o->total.deadlocks, (unsigned long long)o->total.rounds);
  if (o->grouping_count > 1) {
    double s[3];
    rondo_sim_spread(o, s);
    rondo_sim_text_add(out, "<br>%u groupings: %.3g / %.3g / %.3g&nbsp;%%", o->grouping_count,
                       s[0] * 100, s[1] * 100, s[2] * 100);
  }
  rondo_sim_text_add(out, "%s</small></td>",
                     rondo_sim_agrees(row, (enum rondo_sim_variant)v) ? "<br>agrees with the paper"
                                                                      : "");
}

static void percent_add(double ratio, struct rondo_sim_text *out) {
  if (isnan(ratio)) {
    rondo_sim_text_add(out, "<td>&ndash;</td>");
  } else {
    rondo_sim_text_add(out, "<td>%.4g&nbsp;%%</td>", ratio * 100);
  }
}

static void table_add(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "<table>\n<tr><th>row</th><th>configuration</th><th>paper</th>"
                          "<th>closed form</th>");
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    rondo_sim_text_add(out, "<th>%s</th>", variant_titles[v]);
  }
  rondo_sim_text_add(out, "</tr>\n");
  for (uint32_t k = 0; k < r->row_count; k++) {
    const struct rondo_sim_row *row = &r->rows[k];
    rondo_sim_text_add(out, "<tr><td>");
    rondo_sim_text_add_xml(out, row->name, "</td><td class=\"text\">");
    rondo_sim_text_add_xml(out, row->what, "");
    if (row->notes[0]) {
      rondo_sim_text_add(out, "<br><small>");
      rondo_sim_text_add_xml(out, row->notes, "</small>");
    }
    rondo_sim_text_add(out, "</td>");
    percent_add(row->paper, out);
    percent_add(row->closed, out);
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      cell_add(row, v, out);
    }
    rondo_sim_text_add(out, "</tr>\n");
  }
  rondo_sim_text_add(out,
                     "</table>\n<p>Small figures: the 95&nbsp;%% confidence interval (Wilson), "
                     "deadlocked rounds of all rounds, and where groupings were drawn the "
                     "least, median and greatest ratio over them.</p>\n");
}

// What the x axis of a chart shows: an option, swept or not.
struct axis {
  const char *key;
  bool logarithmic;
  int sweep; // its number, or -1
};

static double value_on(const struct rondo_sim_row *row, const struct axis *axis) {
  return axis->sweep >= 0                     ? row->swept[axis->sweep]
         : strcmp(axis->key, "disorder") == 0 ? row->config.disorder
                                              : rondo_sim_config_synchronisation(&row->config);
}

// True if rows belong on one chart when nothing was swept: the same model, and both 3D or both
// free.
struct family {
  bool all;
  enum rondo_sim_model model;
  bool three_d;
};

static bool in_family(const struct rondo_sim_row *row, const struct family *f) {
  bool three_d = row->config.grouping == RONDO_SIM_3D;
  return f->all || (row->config.model == f->model && three_d == f->three_d);
}

// The series of a row and variant. In a sweep its rows differ in the axis only.
static uint32_t series_of(struct rondo_sim_chart *c, const struct rondo_sim_report *r,
                          const struct rondo_sim_row *row, int v, const struct axis *axis) {
  struct rondo_sim_text name = {0};
  rondo_sim_text_add(&name, "%s", variant_titles[v]);
  if (r->sweep_count > 0) {
    rondo_sim_text_add(&name, ", row %s", row->name);
  }
  if (r->sweep_count > 1) {
    uint32_t other = axis->sweep == 0;
    rondo_sim_text_add(&name, ", %s %.3g", r->sweeps[other].key, row->swept[other]);
  }
  uint32_t s = rondo_sim_chart_series(c, name.data, r->sweep_count > 0);
  rondo_sim_text_fini(&name);
  return s;
}

static void add_points(struct rondo_sim_chart *c, const struct rondo_sim_report *r, int v,
                       const struct axis *axis, const struct family *f) {
  for (uint32_t k = 0; k < r->row_count; k++) {
    const struct rondo_sim_row *row = &r->rows[k];
    const struct rondo_sim_tally *t = &row->outcomes[v].total;
    double x = value_on(row, axis);
    if (!row->outcomes[v].ran || t->rounds == 0 || !(x > 0) || !in_family(row, f)) {
      continue;
    }
    struct rondo_sim_interval i = rondo_sim_wilson(t->deadlocks, t->rounds);
    rondo_sim_chart_point(c, (struct rondo_sim_chart_point){x, rondo_sim_ratio(t), i.low, i.high,
                                                            series_of(c, r, row, v, axis)});
  }
}

static void add_paper(struct rondo_sim_chart *c, const struct rondo_sim_report *r,
                      const struct axis *axis, const struct family *f) {
  for (uint32_t k = 0; k < r->row_count && r->sweep_count == 0; k++) {
    double x = value_on(&r->rows[k], axis);
    if (!isnan(r->rows[k].paper) && x > 0 && in_family(&r->rows[k], f)) {
      uint32_t s = rondo_sim_chart_series(c, "the paper", false);
      rondo_sim_chart_point(c, (struct rondo_sim_chart_point){x, r->rows[k].paper, NAN, NAN, s});
    }
  }
}

static void chart_add(const struct rondo_sim_report *r, const struct axis *axis,
                      const struct family *f, struct rondo_sim_text *out) {
  char title[128], label[64];
  bool chance = rondo_sim_list_find("disorder,synchronisation", axis->key) >= 0;
  snprintf(title, sizeof(title), "Deadlock ratio against %s%s%s%s", axis->key, f->all ? "" : ": ",
           f->all ? "" : rondo_sim_model_name(f->model),
           f->all       ? ""
           : f->three_d ? ", 3D groups"
                        : ", free groups");
  snprintf(label, sizeof(label), "%s%s", axis->key, chance ? " probability" : "");
  struct rondo_sim_chart c = {.title = title, .x_label = label, .logarithmic = axis->logarithmic};
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    add_points(&c, r, v, axis, f);
  }
  add_paper(&c, r, axis, f);
  if (c.point_count > 0) {
    rondo_sim_chart_svg(&c, out);
  }
  rondo_sim_chart_fini(&c);
}

static void charts_add(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  static const struct family everything = {.all = true};
  rondo_sim_text_add(out, "<h2>Charts</h2>\n");
  for (uint32_t k = 0; k < r->sweep_count; k++) {
    struct axis swept = {r->sweeps[k].key, r->sweeps[k].logarithmic, (int)k};
    chart_add(r, &swept, &everything, out);
  }
  for (int n = 0; r->sweep_count == 0 && n < 6; n++) {
    struct family f = {false, (enum rondo_sim_model)(n / 2), n % 2 == 0};
    chart_add(r, &(struct axis){"disorder", true, -1}, &f, out);
    chart_add(r, &(struct axis){"synchronisation", true, -1}, &f, out);
  }
  rondo_sim_text_add(out,
                     "<p>Bars are 95&nbsp;%% confidence intervals. A hollow mark on the bottom "
                     "line is a ratio of zero.</p>\n");
}

void rondo_sim_report_html(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "%s<title>", head);
  rondo_sim_text_add_xml(out, r->title, "</title></head><body>\n<h1>");
  rondo_sim_text_add_xml(out, r->title, "");
  rondo_sim_text_add(out, "</h1>\n<p>rondo-sim deadlock, %.1f s on %u threads%s</p>\n", r->seconds,
                     r->threads, r->interrupted ? ", interrupted: what was known by then" : "");
  table_add(r, out);
  charts_add(r, out);
  if (r->story.told) {
    rondo_sim_text_add(out, "<h2>A deadlock, taken apart</h2>\n<pre>");
    rondo_sim_text_add_xml(out, rondo_sim_text_str(&r->story.words), "</pre>\n");
    rondo_sim_graph_svg(&r->story.graph, out);
  }
  rondo_sim_text_add(out, "</body></html>\n");
}
