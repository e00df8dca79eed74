// A chart of ratios with their confidence intervals, as one <svg> element that needs nothing else.
//
//   struct rondo_sim_chart c = {"Deadlock ratio", "disorder probability", true};
//   int s = rondo_sim_chart_series(&c, "exact", true);
//   rondo_sim_chart_point(&c, s, x, ratio, low, high);
//   rondo_sim_chart_svg(&c, &text);  rondo_sim_chart_fini(&c);
#ifndef RONDO_SIM_DEADLOCK_CHART_H
#define RONDO_SIM_DEADLOCK_CHART_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/common/text.h"

struct rondo_sim_chart_point {
  double x, y, low, high; // low and high: NAN if there is no interval
  uint32_t series;
};

struct rondo_sim_chart_series {
  char *name;
  bool lined; // its points are joined in the order in which they were added
};

struct rondo_sim_chart {
  const char *title, *x_label;
  bool logarithmic; // the x axis; the y axis always is, with zero on its bottom line
  struct rondo_sim_chart_series *series;
  struct rondo_sim_chart_point *points;
  uint32_t series_count, point_count, point_capacity;
};

void rondo_sim_chart_fini(struct rondo_sim_chart *c);

// Adds a series, or finds the one of that name; returns its number.
uint32_t rondo_sim_chart_series(struct rondo_sim_chart *c, const char *name, bool lined);
void rondo_sim_chart_point(struct rondo_sim_chart *c, struct rondo_sim_chart_point point);
void rondo_sim_chart_svg(const struct rondo_sim_chart *c, struct rondo_sim_text *out);

#endif // RONDO_SIM_DEADLOCK_CHART_H
