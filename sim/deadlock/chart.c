#include "sim/deadlock/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 80, TOP = 40, WIDE = 560, HIGH = 300, LEGEND = 20 };

static const char *const colors[] = {"#1f6fb2", "#c0392b", "#2e8b57", "#8e44ad",
                                     "#d2861d", "#16808a", "#7f5539", "#555555"};

static const char *color_of(uint32_t series) { return colors[series % 8]; }

void rondo_sim_chart_fini(struct rondo_sim_chart *c) {
  for (uint32_t s = 0; s < c->series_count; s++) {
    free(c->series[s].name);
  }
  free(c->series);
  free(c->points);
  *c = (struct rondo_sim_chart){0};
}

uint32_t rondo_sim_chart_series(struct rondo_sim_chart *c, const char *name, bool lined) {
  for (uint32_t s = 0; s < c->series_count; s++) {
    if (strcmp(c->series[s].name, name) == 0) {
      return s;
    }
  }
  c->series = rondo_sim_realloc(c->series, sizeof(*c->series) * (c->series_count + 1u));
  c->series[c->series_count] = (struct rondo_sim_chart_series){rondo_sim_strdup(name), lined};
  return c->series_count++;
}

void rondo_sim_chart_point(struct rondo_sim_chart *c, struct rondo_sim_chart_point point) {
  RONDO_SIM_GROW(c->points, c->point_count, c->point_capacity, 64);
  c->points[c->point_count++] = point;
}

// The range of both axes, in logarithms for a logarithmic axis.
struct axes {
  bool x_log;
  double x_from, x_to, y_from, y_to;
};

static struct axes axes_of(const struct rondo_sim_chart *c) {
  struct axes a = {c->logarithmic, INFINITY, -INFINITY, INFINITY, 0};
  for (uint32_t k = 0; k < c->point_count; k++) {
    const struct rondo_sim_chart_point *p = &c->points[k];
    double x = a.x_log ? log10(p->x) : p->x;
    double y = p->y > 0 ? p->y : p->high; // a ratio of zero has an upper bound
    a.x_from = fmin(a.x_from, x);
    a.x_to = fmax(a.x_to, x);
    a.y_from = y > 0 ? fmin(a.y_from, log10(y)) : a.y_from;
  }
  a.y_from = isfinite(a.y_from) ? floor(a.y_from) - (a.y_from == floor(a.y_from)) : -4;
  if (!(a.x_to > a.x_from)) {
    a.x_from -= 0.5;
    a.x_to += 0.5;
  }
  if (a.x_log) {
    a.x_from = floor(a.x_from);
    a.x_to = ceil(a.x_to);
  }
  return a;
}

static double at_x(const struct axes *a, double x) {
  double v = a->x_log ? log10(x) : x;
  return LEFT + WIDE * (v - a->x_from) / (a->x_to - a->x_from);
}

static double at_y(const struct axes *a, double y) {
  double v = y > 0 ? log10(y) : a->y_from;
  v = v < a->y_from ? a->y_from : v;
  return TOP + HIGH * (a->y_to - v) / (a->y_to - a->y_from);
}

static void x_tick(const struct axes *a, double x, struct rondo_sim_text *out) {
  double px = at_x(a, x);
  rondo_sim_text_add(out,
                     "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#ddd\"/>"
                     "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n",
                     px, TOP, px, TOP + HIGH, px, TOP + HIGH + 18, x);
}

static void draw_axes(const struct rondo_sim_chart *c, const struct axes *a,
                      struct rondo_sim_text *out) {
  if (a->x_log) {
    for (int e = (int)a->x_from; e <= (int)a->x_to; e++) {
      x_tick(a, pow(10, e), out);
    }
  } else {
    for (int k = 0; k <= 5; k++) {
      x_tick(a, a->x_from + (a->x_to - a->x_from) * k / 5, out);
    }
  }
  for (int e = (int)a->y_from; e <= 0; e++) {
    double y = at_y(a, pow(10, e));
    rondo_sim_text_add(out,
                       "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                       "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g %%</text>\n",
                       LEFT, y, LEFT + WIDE, y, LEFT - 8, y + 4, 100 * pow(10, e));
  }
  rondo_sim_text_add(out,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                     "stroke=\"#333\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
                     LEFT, TOP, WIDE, HIGH, LEFT + WIDE / 2, TOP + HIGH + 38);
  rondo_sim_text_add_xml(out, c->x_label, "</text>\n");
}

static void draw_point(const struct rondo_sim_chart *c, const struct axes *a,
                       const struct rondo_sim_chart_point *p, struct rondo_sim_text *out) {
  double x = at_x(a, p->x), y = at_y(a, p->y);
  const char *color = color_of(p->series);
  if (!isnan(p->low)) {
    rondo_sim_text_add(out,
                       "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x,
                       at_y(a, p->low), x, at_y(a, p->high), color);
  }
  rondo_sim_text_add(out,
                     "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"%s\"><title>", x,
                     y, p->y > 0 ? color : "#fff", color);
  rondo_sim_text_add_xml(out, c->series[p->series].name, "");
  rondo_sim_text_add(out, ": %.4g %% at %g</title></circle>\n", p->y * 100, p->x);
}

static void draw_line(const struct rondo_sim_chart *c, const struct axes *a, uint32_t series,
                      struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "<polyline fill=\"none\" stroke=\"%s\" points=\"", color_of(series));
  for (uint32_t k = 0; k < c->point_count; k++) {
    if (c->points[k].series == series) {
      rondo_sim_text_add(out, "%.1f,%.1f ", at_x(a, c->points[k].x), at_y(a, c->points[k].y));
    }
  }
  rondo_sim_text_add(out, "\"/>\n");
}

static void draw_legend(const struct rondo_sim_chart *c, struct rondo_sim_text *out) {
  for (uint32_t s = 0; s < c->series_count; s++) {
    int y = TOP + HIGH + 62 + (int)s * LEGEND;
    rondo_sim_text_add(out,
                       "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>"
                       "<text x=\"%d\" y=\"%d\">",
                       LEFT + 6, y - 4, color_of(s), LEFT + 18, y);
    rondo_sim_text_add_xml(out, c->series[s].name, "</text>\n");
  }
}

void rondo_sim_chart_svg(const struct rondo_sim_chart *c, struct rondo_sim_text *out) {
  struct axes a = axes_of(c);
  int width = LEFT + WIDE + 40, height = TOP + HIGH + 62 + LEGEND * (int)c->series_count;
  rondo_sim_text_add(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                     "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
                     "<text x=\"%d\" y=\"22\" font-size=\"15\">",
                     width, height, width, height, LEFT);
  rondo_sim_text_add_xml(out, c->title, "</text>\n");
  draw_axes(c, &a, out);
  for (uint32_t s = 0; s < c->series_count; s++) {
    if (c->series[s].lined) {
      draw_line(c, &a, s, out);
    }
  }
  for (uint32_t k = 0; k < c->point_count; k++) {
    draw_point(c, &a, &c->points[k], out);
  }
  draw_legend(c, out);
  rondo_sim_text_add(out, "</svg>\n");
}
