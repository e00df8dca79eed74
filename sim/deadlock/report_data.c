// The report as data: JSON, and CSV (RFC 4180) with one line for each row and variant.
#include "sim/deadlock/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "sim/common/json.h"
#include "sim/deadlock/stats.h"

static json_t *number_or_null(double x) { return isnan(x) ? json_null() : json_real(x); }

static json_t *tally_json(const struct rondo_sim_tally *t) {
  struct rondo_sim_interval i = rondo_sim_wilson(t->deadlocks, t->rounds);
  return json_pack("{s:I, s:I, s:o, s:f, s:f}", "rounds", (json_int_t)t->rounds, "deadlocks",
                   (json_int_t)t->deadlocks, "ratio", number_or_null(rondo_sim_ratio(t)), "low95",
                   i.low, "high95", i.high);
}

static json_t *outcome_json(const struct rondo_sim_outcome *o) {
  json_t *out = tally_json(&o->total);
  json_object_set_new(out, "planned_rounds", json_integer((json_int_t)o->planned));
  json_object_set_new(out, "seconds", json_real(o->seconds));
  if (o->total.deadlocks > 0) {
    json_object_set_new(out, "first_deadlock",
                        json_pack("{s:i, s:I}", "grouping", (int)o->first_grouping, "round",
                                  (json_int_t)o->total.first_deadlock));
  }
  if (o->grouping_count > 1) {
    double s[3];
    rondo_sim_spread(o, s);
    json_object_set_new(out, "spread",
                        json_pack("{s:o, s:o, s:o}", "least", number_or_null(s[0]), "median",
                                  number_or_null(s[1]), "greatest", number_or_null(s[2])));
    json_t *groupings = json_array();
    for (uint32_t g = 0; g < o->grouping_count; g++) {
      json_array_append_new(groupings, tally_json(&o->groupings[g]));
    }
    json_object_set_new(out, "groupings", groupings);
  }
  return out;
}

static json_t *row_json(const struct rondo_sim_report *r, const struct rondo_sim_row *row) {
  const struct rondo_sim_config *c = &row->config;
  json_t *variants = json_object();
  for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
    if (row->outcomes[v].ran) {
      json_t *outcome = outcome_json(&row->outcomes[v]);
      if (!isnan(row->paper)) {
        json_object_set_new(outcome, "agrees_with_paper",
                            json_boolean(rondo_sim_agrees(row, (enum rondo_sim_variant)v)));
      }
      json_object_set_new(variants, rondo_sim_variant_name((enum rondo_sim_variant)v), outcome);
    }
  }
  json_t *out = json_pack(
      "{s:s, s:s, s:s, s:f, s:f, s:I, s:I, s:o, s:o, s:s, s:o}", "row", row->name, "configuration",
      row->what, "model", rondo_sim_model_name(c->model), "disorder", c->disorder,
      "synchronisation", rondo_sim_config_synchronisation(c), "resources", (json_int_t)c->resources,
      "seed", (json_int_t)c->seed, "paper", number_or_null(row->paper), "closed_form",
      number_or_null(row->closed), "notes", row->notes, "variants", variants);
  for (uint32_t k = 0; k < r->sweep_count; k++) {
    char key[48];
    snprintf(key, sizeof(key), "swept_%s", r->sweeps[k].key);
    json_object_set_new(out, key, json_real(row->swept[k]));
  }
  return out;
}

void rondo_sim_report_json(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < r->row_count; i++) {
    json_array_append_new(rows, row_json(r, &r->rows[i]));
  }
  json_t *root = json_pack("{s:s, s:s, s:b, s:f, s:i, s:o}", "program", "rondo-sim deadlock",
                           "title", r->title, "interrupted", r->interrupted, "seconds", r->seconds,
                           "threads", (int)r->threads, "rows", rows);
  if (r->story.told) {
    json_object_set_new(root, "example_cycle", json_string(rondo_sim_text_str(&r->story.words)));
  }
  rondo_sim_text_add_json(out, root,
                          JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
}

static void number_add(double x, struct rondo_sim_text *out) {
  if (isnan(x)) {
    rondo_sim_text_add(out, ",");
  } else {
    rondo_sim_text_add(out, ",%.9g", x);
  }
}

static void line_add(const struct rondo_sim_row *row, int v, struct rondo_sim_text *out) {
  const struct rondo_sim_config *c = &row->config;
  const struct rondo_sim_outcome *o = &row->outcomes[v];
  struct rondo_sim_interval i = rondo_sim_wilson(o->total.deadlocks, o->total.rounds);
  const double numbers[] = {rondo_sim_ratio(&o->total), i.low, i.high, row->paper, row->closed};
  double spread[3];
  rondo_sim_spread(o, spread);
  rondo_sim_text_add(out, "\"%s\",\"%s\",%s,%s,%.9g,%.9g", row->name, row->what,
                     rondo_sim_model_name(c->model),
                     rondo_sim_variant_name((enum rondo_sim_variant)v), c->disorder,
                     rondo_sim_config_synchronisation(c));
  rondo_sim_text_add(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, c->resources, c->seed,
                     o->total.rounds, o->total.deadlocks);
  for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
    number_add(numbers[k], out);
  }
  rondo_sim_text_add(out, ",%u", o->grouping_count);
  for (int k = 0; k < 3; k++) {
    number_add(spread[k], out);
  }
  rondo_sim_text_add(out, ",%.3f\r\n", o->seconds);
}

void rondo_sim_report_csv(const struct rondo_sim_report *r, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "row,configuration,model,variant,disorder,synchronisation,resources,seed,"
                          "rounds,deadlocks,ratio,low95,high95,paper,closed_form,groupings,least,"
                          "median,greatest,seconds\r\n");
  for (uint32_t i = 0; i < r->row_count; i++) {
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      if (r->rows[i].outcomes[v].ran) {
        line_add(&r->rows[i], v, out);
      }
    }
  }
}
