#include "sim/common/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RONDO_SIM_LINE_HEIGHT 15
#define RONDO_SIM_CHAR_WIDTH 7

static const char *const fill_colors[] = {"#cdeccd", "#fdf2b8", "#ffffff"};

void rondo_sim_graph_init(struct rondo_sim_graph *g, const char *title) {
  *g = (struct rondo_sim_graph){.title = rondo_sim_strdup(title)};
}

void rondo_sim_graph_fini(struct rondo_sim_graph *g) {
  for (int i = 0; i < g->node_count; i++) {
    free(g->nodes[i].label);
  }
  for (int i = 0; i < g->edge_count; i++) {
    free(g->edges[i].label);
  }
  free(g->nodes);
  free(g->edges);
  free(g->title);
  *g = (struct rondo_sim_graph){0};
}

int rondo_sim_graph_add_node(struct rondo_sim_graph *g, const char *label,
                             enum rondo_sim_node_kind kind) {
  RONDO_SIM_GROW(g->nodes, g->node_count, g->node_capacity, 16);
  g->nodes[g->node_count] =
      (struct rondo_sim_graph_node){.label = rondo_sim_strdup(label), .kind = kind};
  return g->node_count++;
}

void rondo_sim_graph_add_edge(struct rondo_sim_graph *g, int from, int to, const char *label,
                              bool in_cycle) {
  RONDO_SIM_GROW(g->edges, g->edge_count, g->edge_capacity, 16);
  g->edges[g->edge_count++] = (struct rondo_sim_graph_edge){
      .from = from, .to = to, .label = rondo_sim_strdup(label ? label : ""), .in_cycle = in_cycle};
}

void rondo_sim_graph_dot(const struct rondo_sim_graph *g, struct rondo_sim_text *out) {
  rondo_sim_text_add(out, "digraph rondo {\n  label=");
  rondo_sim_text_add_dot(out, g->title);
  rondo_sim_text_add(out, ";\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
  for (int i = 0; i < g->node_count; i++) {
    rondo_sim_text_add(out, "  n%d [fillcolor=\"%s\", label=", i, fill_colors[g->nodes[i].kind]);
    rondo_sim_text_add_dot(out, g->nodes[i].label);
    rondo_sim_text_add(out, "];\n");
  }
  for (int i = 0; i < g->edge_count; i++) {
    const struct rondo_sim_graph_edge *e = &g->edges[i];
    rondo_sim_text_add(out, "  n%d -> n%d [label=", e->from, e->to);
    rondo_sim_text_add_dot(out, e->label);
    rondo_sim_text_add(out, "%s];\n", e->in_cycle ? ", color=\"#c0392b\", penwidth=2.5" : "");
  }
  rondo_sim_text_add(out, "}\n");
}

// Where each node is drawn, and how large.
struct placed {
  double x, y, w, h;
};

static int label_lines(const char *label, int *widest) {
  int lines = 1, width = 0;
  *widest = 0;
  for (const char *p = label; *p; p++) {
    width = *p == '\n' ? 0 : width + 1;
    lines += *p == '\n';
    *widest = width > *widest ? width : *widest;
  }
  return lines;
}

// Numbers the nodes of the cycle in the order of the cycle; other nodes get -1.
static int order_cycle(const struct rondo_sim_graph *g, int *order) {
  int count = 0;
  for (int i = 0; i < g->node_count; i++) {
    order[i] = -1;
  }
  for (int i = 0; i < g->edge_count; i++) {
    if (!g->edges[i].in_cycle || order[g->edges[i].from] >= 0) {
      continue;
    }
    int at = g->edges[i].from;
    while (at >= 0 && order[at] < 0) {
      order[at] = count++;
      int next = -1;
      for (int k = 0; k < g->edge_count && next < 0; k++) {
        next = g->edges[k].in_cycle && g->edges[k].from == at ? g->edges[k].to : -1;
      }
      at = next;
    }
  }
  return count;
}

static double ring_radius(int count, double width) {
  double r = count > 1 ? width * 1.25 / (2 * sin(M_PI / count)) : 0;
  return count > 1 && r < width ? width : r;
}

// Puts the cycle on an inner ring and the rest on an outer one, around (0, 0).
static void graph_place(const struct rondo_sim_graph *g, struct placed *at) {
  int *order = rondo_sim_calloc((size_t)g->node_count, sizeof(int));
  int inner = order_cycle(g, order), outer = g->node_count - inner, next = 0;
  double width = 40;
  for (int i = 0; i < g->node_count; i++) {
    int widest, lines = label_lines(g->nodes[i].label, &widest);
    at[i].w = widest * RONDO_SIM_CHAR_WIDTH + 16;
    at[i].h = lines * RONDO_SIM_LINE_HEIGHT + 12;
    width = at[i].w > width ? at[i].w : width;
  }
  double r_inner = ring_radius(inner, width), r_outer = ring_radius(outer, width);
  if (inner > 0 && outer > 0 && r_outer < r_inner + width * 1.4) {
    r_outer = r_inner + width * 1.4;
  }
  for (int i = 0; i < g->node_count; i++) {
    bool in = order[i] >= 0;
    int slot = in ? order[i] : next++;
    double angle = 2 * M_PI * slot / (in ? inner : outer) - M_PI / 2;
    at[i].x = (in ? r_inner : r_outer) * cos(angle);
    at[i].y = (in ? r_inner : r_outer) * sin(angle);
  }
  free(order);
}

// The smallest box that holds all nodes, with a margin.
static struct placed box_of(const struct rondo_sim_graph *g, const struct placed *at) {
  double left = 0, right = 0, top = 0, bottom = 0;
  for (int i = 0; i < g->node_count; i++) {
    left = fmin(left, at[i].x - at[i].w / 2);
    right = fmax(right, at[i].x + at[i].w / 2);
    top = fmin(top, at[i].y - at[i].h / 2);
    bottom = fmax(bottom, at[i].y + at[i].h / 2);
  }
  const double margin = 40; // room for a title above and for edges that bow outwards
  double title_width = (double)strlen(g->title) * (RONDO_SIM_CHAR_WIDTH + 1) + 16;
  return (struct placed){left - margin, top - margin, fmax(right - left + 2 * margin, title_width),
                         bottom - top + 2 * margin};
}

// The point where the straight line from a to b leaves the box of a.
static void box_edge(const struct placed *a, const struct placed *b, double *x, double *y) {
  double dx = b->x - a->x, dy = b->y - a->y;
  double sx = fabs(dx) > 1e-9 ? a->w / 2 / fabs(dx) : 1e9;
  double sy = fabs(dy) > 1e-9 ? a->h / 2 / fabs(dy) : 1e9;
  double s = sx < sy ? sx : sy;
  *x = a->x + dx * (s < 1 ? s : 1);
  *y = a->y + dy * (s < 1 ? s : 1);
}

static void svg_edge(const struct rondo_sim_graph_edge *e, const struct placed *at,
                     struct rondo_sim_text *out) {
  const struct placed *a = &at[e->from], *b = &at[e->to];
  double x1, y1, x2, y2;
  box_edge(a, b, &x1, &y1);
  box_edge(b, a, &x2, &y2);
  // A slight bow keeps the two directions between one pair of nodes apart.
  double cx = (x1 + x2) / 2 + (y2 - y1) * 0.12, cy = (y1 + y2) / 2 - (x2 - x1) * 0.12;
  rondo_sim_text_add(out,
                     "<path d=\"M%.1f %.1fQ%.1f %.1f %.1f %.1f\" fill=\"none\" stroke=\"%s\" "
                     "stroke-width=\"%s\" marker-end=\"url(#%s)\"/>\n",
                     x1, y1, cx, cy, x2, y2, e->in_cycle ? "#c0392b" : "#8a8a8a",
                     e->in_cycle ? "2.4" : "1.1", e->in_cycle ? "rondo-red" : "rondo-grey");
  if (e->label[0]) {
    // The label lies a third of the way along, so that it does not meet the label of the other
    // direction. The white outline keeps a label readable on its own line.
    const double t = 0.35, begin = (1 - t) * (1 - t), bow = 2 * t * (1 - t), end = t * t;
    double x = begin * x1 + bow * cx + end * x2, y = begin * y1 + bow * cy + end * y2;
    rondo_sim_text_add(out,
                       "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"10\" "
                       "fill=\"#555\" stroke=\"#fff\" stroke-width=\"3\" "
                       "paint-order=\"stroke\">",
                       x, y);
    rondo_sim_text_add_xml(out, e->label, "</text>\n");
  }
}

static void svg_node(const struct rondo_sim_graph_node *n, const struct placed *p,
                     struct rondo_sim_text *out) {
  double x = p->x, y = p->y;
  rondo_sim_text_add(out,
                     "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"5\" "
                     "fill=\"%s\" stroke=\"#333\"/>\n",
                     x - p->w / 2, y - p->h / 2, p->w, p->h, fill_colors[n->kind]);
  char *copy = rondo_sim_strdup(n->label), *save = NULL;
  double line_y = y - p->h / 2 + RONDO_SIM_LINE_HEIGHT + 2;
  for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    rondo_sim_text_add(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, line_y);
    rondo_sim_text_add_xml(out, line, "</text>\n");
    line_y += RONDO_SIM_LINE_HEIGHT;
  }
  free(copy);
}

static void svg_marker(const char *id, const char *color, struct rondo_sim_text *out) {
  rondo_sim_text_add(out,
                     "<marker id=\"%s\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" "
                     "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto-start-reverse\">"
                     "<path d=\"M0 0L10 5L0 10z\" fill=\"%s\"/></marker>\n",
                     id, color);
}

void rondo_sim_graph_svg(const struct rondo_sim_graph *g, struct rondo_sim_text *out) {
  struct placed *at = rondo_sim_calloc((size_t)g->node_count, sizeof(*at));
  graph_place(g, at);
  struct placed box = box_of(g, at);
  rondo_sim_text_add(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%.0f %.0f %.0f %.0f\" "
                     "width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
                     "font-size=\"12\">\n<title>",
                     box.x, box.y, box.w, box.h, box.w, box.h);
  rondo_sim_text_add_xml(out, g->title, "</title>\n<defs>\n");
  svg_marker("rondo-red", "#c0392b", out);
  svg_marker("rondo-grey", "#8a8a8a", out);
  rondo_sim_text_add(out, "</defs>\n<text x=\"%.0f\" y=\"%.0f\" font-size=\"14\">", box.x + 8,
                     box.y + 20);
  rondo_sim_text_add_xml(out, g->title, "</text>\n");
  for (int i = 0; i < g->edge_count; i++) {
    svg_edge(&g->edges[i], at, out);
  }
  for (int i = 0; i < g->node_count; i++) {
    svg_node(&g->nodes[i], &at[i], out);
  }
  rondo_sim_text_add(out, "</svg>\n");
  free(at);
}
