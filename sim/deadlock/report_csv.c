// The report as CSV (RFC 4180): one line for each row and variant.
#include "sim/deadlock/report.h"

#include <math.h>

#include "sim/deadlock/stats.h"

static void quoted_add(const char *s, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "\"");
  for (; *s; s++) {
    rondo_sim_text_add(out, *s == '"' ? "\"\"" : "%c", *s);
  }
  rondo_sim_text_add(out, "\"");
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
  double spread[3];
  rondo_sim_spread(o, spread);
  quoted_add(row->name, out);
  rondo_sim_text_add(out, ",");
  quoted_add(row->what, out);
  rondo_sim_text_add(out, ",%s,%s", rondo_sim_model_name(c->model),
                     rondo_sim_variant_name((enum rondo_sim_variant)v));
  number_add(c->disorder, out);
  number_add(c->model == RONDO_SIM_SINGLE_QUEUE ? 0 : c->synchronisation, out);
  rondo_sim_text_add(out, ",%u,%llu,%llu,%llu", c->resources, (unsigned long long)c->seed,
                     (unsigned long long)o->total.rounds, (unsigned long long)o->total.deadlocks);
  number_add(rondo_sim_ratio(&o->total), out);
  number_add(i.low, out);
  number_add(i.high, out);
  number_add(row->paper, out);
  number_add(row->closed, out);
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
