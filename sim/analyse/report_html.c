#include <stdlib.h>
#include <string.h>

#include "sim/analyse/report.h"

#define MOST_ROWS 12
#define CALLS_BEFORE 6
#define CALLS_AFTER 3
#define BOX_WIDTH 128
#define BOX_HEIGHT 44
#define GAP 8
#define LABEL_WIDTH 130

// One rank's part of the timeline: calls [from, to).
struct row {
  uint32_t rank;
  size_t from, to;
};

static int node_of(struct rondo_sim_graph *g, int *nodes, const struct rondo_analyse_analysis *a,
                   uint32_t pending) {
  if (nodes[pending] >= 0) {
    return nodes[pending];
  }
  const struct rondo_analyse_pending *p = &a->waits.pending[pending];
  const struct rondo_analyse_call *call = &a->job->ranks[p->rank].calls[p->call];
  struct rondo_sim_text label = {0};
  rondo_sim_text_add(&label, "%s\n%s %lld\n\"%s\"", rondo_analyse_words_rank(a->job, p->rank),
                     rondo_analyse_kind_name(call->kind), (long long)call->seq,
                     rondo_analyse_job_text(a->job, a->job->groups[call->group].name));
  nodes[pending] = rondo_sim_graph_add_node(g, rondo_sim_text_str(&label), RONDO_SIM_NODE_HOLDS);
  rondo_sim_text_fini(&label);
  return nodes[pending];
}

static const char *short_reason(enum rondo_analyse_reason reason) {
  static const char *const words[] = {
      "",          "queued in its group", "queued on its stream", "device is held", "called later",
      "not called"};
  return words[reason];
}

void rondo_analyse_report_graph(struct rondo_sim_graph *g, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  int *nodes = rondo_sim_alloc(a->waits.pending_count * sizeof *nodes);
  memset(nodes, 0xff, a->waits.pending_count * sizeof *nodes);
  for (size_t i = 0; i < v->turn_count; i++) {
    uint32_t next = v->turns[(i + 1) % v->turn_count].holder;
    int from = node_of(g, nodes, a, v->turns[i].holder);
    rondo_sim_graph_add_edge(g, from, node_of(g, nodes, a, next), short_reason(v->turns[i].reason),
                             true);
  }
  free(nodes);
}

// The calls of a rank around its first pending one, or around its last one.
static struct row row_of(const struct rondo_analyse_analysis *a, uint32_t rank) {
  const struct rondo_analyse_rank *r = &a->job->ranks[rank];
  size_t middle = r->call_count;
  if (a->waits.pending_first[rank] < a->waits.pending_first[rank + 1]) {
    middle = a->waits.pending[a->waits.pending_first[rank]].call;
  }
  struct row row = {.rank = rank};
  row.from = middle > CALLS_BEFORE ? middle - CALLS_BEFORE : 0;
  row.to = r->call_count - middle > CALLS_AFTER ? middle + CALLS_AFTER : r->call_count;
  return row;
}

static size_t row_add(struct row *rows, size_t count, const struct rondo_analyse_analysis *a,
                      uint32_t rank) {
  for (size_t i = 0; i < count; i++) {
    if (rows[i].rank == rank) {
      return count;
    }
  }
  if (count == MOST_ROWS || rank == RONDO_ANALYSE_NO_RANK) {
    return count;
  }
  rows[count] = row_of(a, rank);
  return count + 1;
}

// Chooses the ranks to draw: those of the cycle, those to blame, those in the operation.
static size_t rows_choose(struct row *rows, const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  size_t count = 0;
  for (size_t i = 0; i < v->turn_count; i++) {
    count = row_add(rows, count, a, a->waits.pending[v->turns[i].holder].rank);
  }
  for (size_t i = 0; i < v->rank_count && i < MOST_ROWS / 2; i++) {
    count = row_add(rows, count, a, v->ranks[i]);
  }
  for (size_t i = 0;
       v->op != RONDO_ANALYSE_NO_OP && !v->turn_count && i < rondo_analyse_op_places(a->job, v->op);
       i++) {
    count = row_add(rows, count, a, rondo_analyse_op_rank(a->job, v->op, i));
  }
  for (uint32_t rank = 0; !count && rank < a->job->rank_count && rank < MOST_ROWS; rank++) {
    count = row_add(rows, count, a, rank);
  }
  return count;
}

// The colour of an operation, the same on all ranks.
static int hue_of(const struct rondo_analyse_call *call) {
  return (int)((call->op * 137u + call->group * 61u) % 360u);
}

static void box_add(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                    const struct rondo_analyse_call *call, int x, int y) {
  bool done = call->state == RONDO_ANALYSE_COMPLETED;
  struct rondo_sim_text words = {0};
  const char *state = rondo_analyse_state_name(call->state);
  rondo_sim_text_add(&words, "%s%s (%s)", rondo_analyse_words_call(job, call),
                     rondo_analyse_words_details(job, call), state);
  rondo_sim_text_add(t, "<g><title>");
  rondo_sim_text_add_xml(t, rondo_sim_text_str(&words), "");
  rondo_sim_text_add(t,
                     "</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" "
                     "fill=\"hsl(%d,60%%,%d%%)\" stroke=\"%s\" stroke-width=\"%d\"/>",
                     x, y, BOX_WIDTH, BOX_HEIGHT, hue_of(call), done ? 92 : 80,
                     done ? "#999" : "#c00", done ? 1 : 3);
  rondo_sim_text_add(t, "<text x=\"%d\" y=\"%d\">%s %lld</text><text x=\"%d\" y=\"%d\">", x + 6,
                     y + 17, rondo_analyse_kind_name(call->kind), (long long)call->seq, x + 6,
                     y + 34);
  rondo_sim_text_clear(&words);
  rondo_sim_text_add(&words, "%.12s, %s",
                     rondo_analyse_job_text(job, job->groups[call->group].name), state);
  rondo_sim_text_add_xml(t, rondo_sim_text_str(&words), "</text></g>\n");
  rondo_sim_text_fini(&words);
}

static void row_draw(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                     const struct row *row, int y) {
  const struct rondo_analyse_rank *r = &a->job->ranks[row->rank];
  rondo_sim_text_add(t, "<text x=\"4\" y=\"%d\" font-weight=\"bold\">", y + 26);
  rondo_sim_text_add_xml(t, rondo_analyse_words_rank(a->job, row->rank), "</text>\n");
  int x = LABEL_WIDTH;
  for (size_t i = row->from; i < row->to; i++) {
    box_add(t, a->job, &r->calls[i], x, y);
    x += BOX_WIDTH + GAP;
  }
  const char *end = !r->present               ? "no file"
                    : row->to < r->call_count ? "..."
                    : row->from == row->to    ? "no calls recorded"
                                              : "no further call";
  rondo_sim_text_add(t, "<text x=\"%d\" y=\"%d\" fill=\"#666\">%s</text>\n", x + 4, y + 26, end);
}

static void timeline_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  struct row rows[MOST_ROWS];
  size_t count = rows_choose(rows, a);
  int width = LABEL_WIDTH + (CALLS_BEFORE + CALLS_AFTER + 1) * (BOX_WIDTH + GAP);
  int height = (int)count * (BOX_HEIGHT + GAP) + GAP;
  rondo_sim_text_add(t,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
                     width, height, width, height);
  for (size_t i = 0; i < count; i++) {
    row_draw(t, a, &rows[i], GAP + (int)i * (BOX_HEIGHT + GAP));
  }
  rondo_sim_text_add(t, "</svg>\n");
}

static void paragraphs_add(struct rondo_sim_text *t, const char *title,
                           const struct rondo_analyse_analysis *a, enum rondo_analyse_part part) {
  char *body = rondo_sim_strdup(rondo_analyse_words(a, part)), *cursor = body;
  if (*body) {
    rondo_sim_text_add(t, "<h2>%s</h2>\n", title);
  }
  for (char *line; (line = strsep(&cursor, "\n"));) {
    if (*line) {
      rondo_sim_text_add(t, "<p>");
      rondo_sim_text_add_xml(t, line, "</p>\n");
    }
  }
  free(body);
}

static void number_cell_add(struct rondo_sim_text *t, int64_t value) {
  rondo_sim_text_add(t, value < 0 ? "<td>-</td>" : "<td>%lld</td>", (long long)value);
}

static void rank_rows_add(struct rondo_sim_text *t, const struct rondo_analyse_job *job,
                          uint32_t rank) {
  const struct rondo_analyse_rank *r = &job->ranks[rank];
  const char *name = rondo_analyse_words_rank(job, rank);
  for (size_t i = 0; i < r->place_count; i++) {
    const struct rondo_analyse_place *place = &r->places[i];
    rondo_sim_text_add(t, "<tr><td>");
    rondo_sim_text_add_xml(t, name, "</td><td>");
    rondo_sim_text_add_xml(t, rondo_analyse_job_text(job, job->groups[place->group].name), "</td>");
    number_cell_add(t, place->reached.submitted);
    number_cell_add(t, place->reached.started);
    number_cell_add(t, place->reached.completed);
    rondo_sim_text_add(t, "</tr>\n");
  }
  if (!r->present) {
    rondo_sim_text_add(t, "<tr><td>");
    rondo_sim_text_add_xml(t, name, "</td><td colspan=\"4\">no file</td></tr>\n");
  }
}

static void states_table_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a,
                             bool full) {
  size_t most = full ? a->job->rank_count : 64;
  rondo_sim_text_add(t, "<h2>State of each rank</h2>\n<table><tr><th>rank</th><th>group</th>"
                        "<th>last submitted</th><th>last started</th><th>last completed</th>"
                        "</tr>\n");
  for (uint32_t rank = 0; rank < a->job->rank_count && rank < most; rank++) {
    rank_rows_add(t, a->job, rank);
  }
  rondo_sim_text_add(t, "</table>\n");
  if (a->job->rank_count > most) {
    rondo_sim_text_add(t, "<p>... and %zu more ranks; --full lists them.</p>\n",
                       a->job->rank_count - most);
  }
}

static void drawings_add(struct rondo_sim_text *t, const struct rondo_analyse_analysis *a) {
  if (a->verdict.turn_count) {
    struct rondo_sim_graph graph;
    rondo_sim_graph_init(&graph, "Who waits for whom");
    rondo_analyse_report_graph(&graph, a);
    rondo_sim_text_add(t, "<h2>The cycle</h2>\n");
    rondo_sim_graph_svg(&graph, t);
    rondo_sim_graph_fini(&graph);
  }
  rondo_sim_text_add(t, "<h2>The last calls of the ranks concerned</h2>\n<p>Each box is a call, in "
                        "the order in which that rank made them; the same operation has the same "
                        "colour on every rank. A red border: it has not completed.</p>\n"
                        "<div class=\"wide\">\n");
  timeline_add(t, a);
  rondo_sim_text_add(t, "</div>\n");
}

void rondo_analyse_report_html(struct rondo_sim_text *t, const struct rondo_analyse_report *r) {
  rondo_sim_text_add(
      t, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<title>rondo-sim analyse</title><style>body{font-family:sans-serif;max-width:75em;"
         "margin:2em auto;padding:0 1em}table{border-collapse:collapse}td,th{border:1px solid "
         "#bbb;padding:.2em .6em;text-align:left}.wide{overflow-x:auto}</style></head><body>\n");
  for (size_t i = 0; i < r->analysis_count; i++) {
    const struct rondo_analyse_analysis *a = r->analyses[i];
    for (int part = 0; part < RONDO_ANALYSE_PART_COUNT; part++) {
      bool is_later = i && part == RONDO_ANALYSE_HEADLINE;
      if (part == RONDO_ANALYSE_PREVENTION) {
        drawings_add(t, a);
      }
      paragraphs_add(t, is_later ? "Also, judged on its own" : rondo_analyse_titles[part], a,
                     (enum rondo_analyse_part)part);
    }
    states_table_add(t, a, r->full);
  }
  rondo_sim_text_add(t, "</body></html>\n");
}
