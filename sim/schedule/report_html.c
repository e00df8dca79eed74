// The report as one HTML page that loads nothing. It is XML, too, so that any reader can check it.
#include "sim/schedule/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/rondo.h>

enum { LEFT = 190, WIDE = 700, RIGHT = 60, ROW = 22, AXIS = 34 };

#define MOST_LINES 24u
#define LOG_FROM 20u // the least ratio of times for which an axis is logarithmic
#define MOST_LINKS 12u
#define MOST_RANKS 16u
#define MOST_LANES 28u // runs of a rank that are drawn below each other
#define MOST_RUNS 4000u
#define RANK_HIGH 42.0
#define LANE_HIGH 7.0 // at most

static const char head[] =
    "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
    "<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
    "<title>rondo-sim schedule</title>\n<style>\n"
    "body{font-family:sans-serif;margin:2em auto;max-width:64em;padding:0 1em;color:#222}\n"
    "table{border-collapse:collapse;margin:1em 0}\n"
    "th,td{border:1px solid #ccc;padding:.3em .6em;text-align:right}\n"
    "th{background:#f2f2f2;text-align:left}\n"
    "p{max-width:50em}pre{background:#f7f7f7;padding:1em;overflow-x:auto}\n"
    "svg{max-width:100%;height:auto}\n"
    "</style></head><body>\n<h1>rondo-sim schedule</h1>\n";

static const char *const colors[] = {"#1f6fb2", "#c0392b", "#2e8b57", "#8e44ad",
                                     "#d2861d", "#16808a", "#7f5539", "#777777"};

static const char *color_of(uint64_t number) { return colors[number % 8]; }

// --------------------------------------------------------------------- drawing ---

// A scale of times, from 0 or, if it is logarithmic, from a power of ten.
struct scale {
  bool is_log;
  double from, to; // nanoseconds, or their logarithms
  double unit_ns;
  const char *unit;
};

static struct scale scale_make(double from_ns, double to_ns, bool is_log) {
  static const struct {
    double ns;
    const char *name;
  } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
  struct scale s = {.is_log = is_log};
  uint32_t unit = 0;
  to_ns = to_ns > 1 ? to_ns : 1;
  from_ns = from_ns > 1 ? from_ns : 1;
  while (unit < 3 && to_ns < 2 * units[unit].ns) {
    unit++;
  }
  s.unit_ns = units[unit].ns;
  s.unit = units[unit].name;
  s.from = is_log ? floor(log10(from_ns)) : 0;
  s.to = is_log ? ceil(log10(to_ns)) : to_ns;
  s.to = s.to > s.from ? s.to : s.from + 1;
  return s;
}

static double at_x(const struct scale *s, double ns) {
  double value = s->is_log ? log10(ns > 1 ? ns : 1) : ns;
  value = value < s->from ? s->from : value > s->to ? s->to : value;
  return LEFT + WIDE * (value - s->from) / (s->to - s->from);
}

static void svg_begin(struct rondo_sim_text *t, double high) {
  rondo_sim_text_add(t,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
                     "width=\"%d\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n",
                     LEFT + WIDE + RIGHT, high, LEFT + WIDE + RIGHT, high);
}

static void svg_end(struct rondo_sim_text *t) { rondo_sim_text_add(t, "</svg>\n"); }

static void rect_add(struct rondo_sim_text *t, double x, double y, double wide, double high,
                     const char *color) {
  rondo_sim_text_add(t,
                     "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
                     x, y, wide > 0.6 ? wide : 0.6, high, color);
}

static void label_add(struct rondo_sim_text *t, double x, double y, const char *anchor,
                      const char *text) {
  rondo_sim_text_add(t, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  rondo_sim_text_add_xml(t, text, "</text>\n");
}

static void tick_add(struct rondo_sim_text *t, const struct scale *s, double ns, double high) {
  double x = at_x(s, ns);
  rondo_sim_text_add(t,
                     "<line x1=\"%.1f\" y1=\"0\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                     "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g %s</text>\n",
                     x, x, high, x, high + 16, ns / s->unit_ns, s->unit);
}

// The time axis below a drawing that is `high`.
static void axis_add(struct rondo_sim_text *t, const struct scale *s, double high) {
  static const double steps[] = {1, 2, 5, 10};
  if (s->is_log) {
    for (int e = (int)s->from; e <= (int)s->to; e++) {
      tick_add(t, s, pow(10, e), high);
    }
    return;
  }
  double least = s->to / 8, power = pow(10, floor(log10(least)));
  int step = 0;
  while (step < 3 && power * steps[step] < least) {
    step++;
  }
  for (int i = 0; i * power * steps[step] <= s->to; i++) {
    tick_add(t, s, i * power * steps[step], high);
  }
}

// What a line is called: several may have the same name.
static void name_make(char name[RONDO_SCHEDULE_NAME_BYTES + 16],
                      const struct rondo_schedule_report *r, uint32_t line) {
  char short_name[RONDO_SCHEDULE_NAME_BYTES];
  uint32_t copy;
  bool is_named = *rondo_schedule_job_line(r->job, line, &copy)->name != 0;
  rondo_schedule_line_name(r, line, short_name);
  snprintf(name, RONDO_SCHEDULE_NAME_BYTES + 16,
           is_named ? "%" PRIu32 ": %s" : "collective %" PRIu32, line, short_name);
}

static void section_add(struct rondo_sim_text *t, const char *title, const char *explained) {
  rondo_sim_text_add(t, "<h2>");
  rondo_sim_text_add_xml(t, title, "</h2>\n<p>");
  rondo_sim_text_add_xml(t, explained, "</p>\n");
}

// A row of one bar with its name and its value.
static void bar_add(struct rondo_sim_text *t, uint32_t row, const char *name, double part,
                    const char *color, const char *value) {
  double y = row * (double)ROW, wide = WIDE * 0.75 * part;
  label_add(t, LEFT - 8, y + 15, "end", name);
  rect_add(t, LEFT, y + 3, wide, ROW - 6, color);
  label_add(t, LEFT + wide + 6, y + 15, "start", value);
}

// --------------------------------------------------------------------- summary ---

static void row_add(struct rondo_sim_text *t, const char *name, const char *format, double value) {
  char text[64];
  snprintf(text, sizeof text, format, value);
  rondo_sim_text_add(t, "<tr><th>");
  rondo_sim_text_add_xml(t, name, "</th><td>");
  rondo_sim_text_add_xml(t, text, "</td></tr>\n");
}

static void summary_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  const struct rondo_schedule_totals *x = &r->totals;
  rondo_sim_text_add(t, "<p>");
  rondo_sim_text_add(t, "%" PRIu32 " ranks on %" PRIu32 " machine%s, program ",
                     r->job->settings.rank_count, r->job->machines,
                     r->job->machines > 1 ? "s" : "");
  rondo_sim_text_add_xml(t, *r->job->program ? r->job->program : "of one collective", "");
  rondo_sim_text_add(t, ". Outcome: <b>%s</b>. All times are virtual.</p>\n<table>\n",
                     rondo_schedule_outcome_name(x->outcome));
  row_add(t, "makespan, us", "%.3f", (double)x->makespan_ns / 1e3);
  row_add(t, "bus bandwidth, GB/s", "%.3f", r->bus_gb_s);
  row_add(t, "runs", "%.0f", (double)x->runs);
  row_add(t, "runs that ended", "%.0f", (double)x->runs_ended);
  row_add(t, "preemptions", "%.0f", (double)x->preemptions);
  row_add(t, "context loads", "%.0f", (double)x->loads);
  row_add(t, "quits of blocks", "%.0f", (double)x->quits);
  row_add(t, "messages inside machines", "%.0f", (double)x->traffic[0].messages);
  row_add(t, "messages between machines", "%.0f", (double)x->traffic[1].messages);
  rondo_sim_text_add(t, "</table>\n");
}

// --------------------------------------------------------------------- latency ---

static void spread_add(struct rondo_sim_text *t, const struct scale *s, uint32_t row,
                       const char *name, const struct rondo_schedule_quantiles *q) {
  double y = row * (double)ROW, middle = y + ROW / 2.0;
  double least = at_x(s, (double)q->least_ns), most = at_x(s, (double)q->most_ns);
  double median = at_x(s, (double)q->median_ns), p90 = at_x(s, (double)q->p90_ns);
  label_add(t, LEFT - 8, y + 15, "end", name);
  rondo_sim_text_add(t, "<g><title>");
  rondo_sim_text_add_xml(t, name, "");
  rondo_sim_text_add(t,
                     ": %" PRIu64 " runs, least %.3f, median %.3f, p90 %.3f, p99 %.3f, most %.3f "
                     "us</title>\n",
                     q->count, (double)q->least_ns / 1e3, (double)q->median_ns / 1e3,
                     (double)q->p90_ns / 1e3, (double)q->p99_ns / 1e3, (double)q->most_ns / 1e3);
  rect_add(t, least, middle - 1, most - least, 2, "#999999");
  rect_add(t, median, y + 5, p90 - median, ROW - 10, color_of(0));
  rect_add(t, median - 1.5, y + 3, 3, ROW - 6, "#222222");
  rondo_sim_text_add(t, "</g>\n");
}

static void latencies_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  uint32_t lines = r->line_count > 1 ? r->line_count : 0;
  uint32_t drawn = lines < MOST_LINES ? lines : MOST_LINES;
  bool is_log = r->latency.most_ns / LOG_FROM > r->latency.least_ns;
  struct scale s = scale_make((double)r->latency.least_ns, (double)r->latency.most_ns, is_log);
  section_add(
      t, "How long do runs take?",
      "From the submission of a run on a rank to its end there. The black mark is the "
      "median, the blue bar leads from there to the 90 % quantile, and the thin line from "
      "the shortest run to the longest. The axis is logarithmic if times differ by more than "
      "a factor of 20.");
  svg_begin(t, (drawn + 1.0) * ROW + AXIS);
  axis_add(t, &s, (drawn + 1.0) * ROW);
  for (uint32_t i = 0; i < drawn; i++) {
    char name[RONDO_SCHEDULE_NAME_BYTES + 16];
    name_make(name, r, i);
    if (r->by_line[i].count) {
      spread_add(t, &s, i, name, &r->by_line[i]);
    } else {
      label_add(t, LEFT - 8, i * (double)ROW + 15, "end", name);
      label_add(t, LEFT + 6, i * (double)ROW + 15, "start", "no run has ended");
    }
  }
  if (r->latency.count) {
    spread_add(t, &s, drawn, "all", &r->latency);
  }
  svg_end(t);
  if (drawn < lines) {
    rondo_sim_text_add(t, "<p>The first %u of %u collectives; --csv has all.</p>\n", drawn, lines);
  }
}

// ---------------------------------------------------------------------- blocks ---

static void part_text(char text[64], uint64_t ns, uint64_t all) {
  snprintf(text, 64, "%.1f us (%.1f %%)", (double)ns / 1e3,
           all ? 100 * (double)ns / (double)all : 0);
}

static void blocked_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  static const char *const names[RONDO_SCHEDULE_REASONS] = {"data of a peer", "room at a peer",
                                                            "work", "a core"};
  const struct rondo_schedule_totals *x = &r->totals;
  uint64_t all = x->makespan_ns * r->job->settings.rank_count;
  section_add(t, "What do blocks wait for?",
              "The block of a rank executes its collectives. This is for how long blocks had "
              "nothing to do, all together, and which part that is of the makespan of all ranks. "
              "Waiting for work means that the program had submitted nothing more; for a core, "
              "that other ranks of the machine had all of them.");
  svg_begin(t, (double)RONDO_SCHEDULE_REASONS * ROW + 4);
  for (uint32_t i = 0; i < RONDO_SCHEDULE_REASONS; i++) {
    char text[64];
    double part = all ? (double)x->blocked_ns[i] / (double)all : 0;
    part_text(text, x->blocked_ns[i], all);
    bar_add(t, i, names[i], part < 1 ? part : 1, color_of(i), text);
  }
  svg_end(t);
}

static void path_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  const struct rondo_schedule_path *p = &r->totals.path;
  const struct {
    const char *name;
    uint64_t ns;
  } parts[] = {{"latency of messages", p->latency_ns},
               {"transfer of bytes", p->transfer_ns},
               {"waiting for a link", p->link_ns},
               {"steps of blocks", p->block_ns},
               {"the program", p->other_ns}};
  uint64_t all = r->totals.makespan_ns;
  char about[256];
  snprintf(about, sizeof about,
           "The chain of %" PRIu32 " messages that led to the last completion: what its time was. "
           "To make the longest part shorter makes the job shorter, until another chain is the "
           "longest.",
           p->messages);
  section_add(t, "What makes the job as long as it is?", about);
  svg_begin(t, 5.0 * ROW + 4);
  for (uint32_t i = 0; i < 5; i++) {
    char text[64];
    part_text(text, parts[i].ns, all);
    bar_add(t, i, parts[i].name, all ? (double)parts[i].ns / (double)all : 0, color_of(i), text);
  }
  svg_end(t);
}

// ----------------------------------------------------------------------- queue ---

static void queue_line_add(struct rondo_sim_text *t, const struct scale *s,
                           const struct rondo_schedule_lengths *q, uint32_t most, bool is_mean) {
  rondo_sim_text_add(t, "<polyline fill=\"none\" stroke=\"%s\" points=\"", color_of(!is_mean));
  for (uint32_t i = 0; i < RONDO_SCHEDULE_BINS; i++) {
    if (q->samples[i]) {
      double value = is_mean ? (double)q->sum[i] / (double)q->samples[i] : q->most[i];
      rondo_sim_text_add(t, "%.1f,%.1f ", at_x(s, ldexp(i + 0.5, (int)q->bin_shift)),
                         150 - 140 * value / most);
    }
  }
  rondo_sim_text_add(t, "\"/>\n");
}

static void queue_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r,
                      const struct rondo_schedule_machine *m) {
  const struct rondo_schedule_lengths *q = rondo_schedule_machine_lengths(m);
  struct scale s = scale_make(0, (double)r->totals.makespan_ns, false);
  uint32_t most = 1;
  char text[32];
  for (uint32_t i = 0; i < RONDO_SCHEDULE_BINS; i++) {
    most = q->most[i] > most ? q->most[i] : most;
  }
  section_add(t, "How many collectives does a block have to choose from?",
              "The length of the task queue when a block steps, over time: blue the mean of all "
              "blocks, red the longest.");
  svg_begin(t, 150.0 + AXIS);
  axis_add(t, &s, 150);
  for (uint32_t i = 0; i <= 2; i++) {
    snprintf(text, sizeof text, "%.3g", most * i / 2.0);
    label_add(t, LEFT - 8, 154 - 70.0 * i, "end", text);
  }
  queue_line_add(t, &s, q, most, false);
  queue_line_add(t, &s, q, most, true);
  svg_end(t);
}

// ----------------------------------------------------------------------- links ---

static int compare_links(const void *a, const void *b) {
  const struct rondo_schedule_usage *x = a, *y = b;
  return x->busy_ns != y->busy_ns ? (x->busy_ns < y->busy_ns ? 1 : -1)
         : x->class != y->class   ? (x->class < y->class ? -1 : 1)
                                  : (x->number > y->number) - (x->number < y->number);
}

static void link_name(char name[64], const struct rondo_schedule_report *r,
                      const struct rondo_schedule_usage *u) {
  uint32_t ranks = r->job->settings.machine_ranks, each = r->job->settings.interfaces;
  each = each < ranks ? each : ranks;
  if (u->class == RONDO_SCHEDULE_INSIDE) {
    snprintf(name, 64, "rank %" PRIu32 ", inside", u->number);
  } else {
    snprintf(name, 64, "machine %" PRIu32 ", interface %" PRIu32, u->number / each,
             u->number % each);
  }
}

static void links_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r,
                      const struct rondo_schedule_machine *m) {
  uint32_t count;
  struct rondo_schedule_usage *all = rondo_schedule_machine_usage(m, &count);
  uint32_t drawn = count < MOST_LINKS ? count : MOST_LINKS;
  uint64_t time = r->totals.makespan_ns ? r->totals.makespan_ns : 1;
  qsort(all, count, sizeof *all, compare_links);
  section_add(
      t, "Which links are busiest?",
      "For how much of the makespan messages that were sent occupied a link. A link that is "
      "always busy is what the job waits for.");
  svg_begin(t, (drawn ? drawn : 1) * (double)ROW + 4);
  for (uint32_t i = 0; i < drawn; i++) {
    char name[64], text[64];
    double part = (double)all[i].busy_ns / (double)time;
    link_name(name, r, &all[i]);
    snprintf(text, sizeof text, "%.1f %%, %" PRIu64 " B", 100 * part, all[i].bytes);
    bar_add(t, i, name, part < 1 ? part : 1, color_of(all[i].class), text);
  }
  if (drawn == 0) {
    label_add(t, LEFT, 15, "start", "no message was sent");
  }
  svg_end(t);
  if (drawn < count) {
    rondo_sim_text_add(t, "<p>The first %u of %u links that sent anything.</p>\n", drawn, count);
  }
  free(all);
}

// -------------------------------------------------------------------- timeline ---

// The lane of a run: the first one that is free. If none is, the one that is free first.
static uint32_t lane_take(uint64_t until_ns[MOST_LANES], const struct rondo_schedule_ended *e) {
  uint32_t lane = 0;
  for (uint32_t i = 0; i < MOST_LANES && until_ns[lane] > e->submitted_ns; i++) {
    lane = until_ns[i] < until_ns[lane] ? i : lane;
    if (until_ns[i] <= e->submitted_ns) {
      lane = i;
    }
  }
  until_ns[lane] = e->ended_ns;
  return lane;
}

// Sets the lane of each run. Returns how many lanes there are.
static uint32_t lanes_take(const struct rondo_schedule_ended *runs, uint64_t count,
                           uint32_t *lanes) {
  uint64_t until_ns[MOST_RANKS][MOST_LANES] = {{0}};
  uint32_t most = 0;
  for (uint64_t i = 0; i < count; i++) {
    lanes[i] = lane_take(until_ns[runs[i].rank], &runs[i]);
    most = lanes[i] > most ? lanes[i] : most;
  }
  return most + 1;
}

static int compare_begins(const void *a, const void *b) {
  const struct rondo_schedule_ended *x = a, *y = b;
  return x->submitted_ns != y->submitted_ns
             ? (x->submitted_ns < y->submitted_ns ? -1 : 1)
             : (x->ended_ns > y->ended_ns) - (x->ended_ns < y->ended_ns);
}

// How a timeline is drawn.
struct timeline {
  const struct rondo_schedule_report *report;
  const struct rondo_schedule_machine *machine;
  struct scale scale;
  double lane; // height
};

static void run_add(struct rondo_sim_text *t, const struct timeline *to, double y,
                    const struct rondo_schedule_ended *e) {
  char name[RONDO_SCHEDULE_NAME_BYTES + 16];
  uint32_t line = rondo_schedule_machine_collective(to->machine, e->collective)->line;
  double x = at_x(&to->scale, (double)e->submitted_ns);
  double end = at_x(&to->scale, (double)e->ended_ns);
  name_make(name, to->report, line);
  rondo_sim_text_add(t, "<g><title>");
  rondo_sim_text_add_xml(t, name, "");
  rondo_sim_text_add(t, ": %.3f to %.3f us</title>\n", (double)e->submitted_ns / 1e3,
                     (double)e->ended_ns / 1e3);
  rect_add(t, x, y, end - x - 0.3, to->lane * 0.85, color_of(line));
  rondo_sim_text_add(t, "</g>\n");
}

// The runs of the first ranks, in the order in which they were submitted.
static struct rondo_schedule_ended *runs_take(const struct rondo_schedule_machine *m,
                                              uint32_t ranks, uint64_t *count) {
  uint64_t all;
  const struct rondo_schedule_ended *ended = rondo_schedule_machine_ended(m, &all);
  struct rondo_schedule_ended *runs = rondo_sim_alloc((all + 1) * sizeof *runs);
  *count = 0;
  for (uint64_t i = 0; i < all; i++) {
    if (ended[i].rank < ranks) {
      runs[(*count)++] = ended[i];
    }
  }
  qsort(runs, *count, sizeof *runs, compare_begins);
  return runs;
}

static void timeline_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r,
                         const struct rondo_schedule_machine *m) {
  uint32_t all = r->job->settings.rank_count, ranks = all < MOST_RANKS ? all : MOST_RANKS;
  uint64_t count;
  struct rondo_schedule_ended *runs = runs_take(m, ranks, &count);
  uint64_t drawn = count < MOST_RUNS ? count : MOST_RUNS;
  uint32_t *lanes = rondo_sim_alloc((drawn + 1) * sizeof *lanes);
  double lane = RANK_HIGH / lanes_take(runs, drawn, lanes), high = RANK_HIGH + 6;
  const struct timeline to = {r, m, scale_make(0, (double)r->totals.makespan_ns, false),
                              lane < LANE_HIGH ? lane : LANE_HIGH};
  section_add(t, "When did which run?",
              "A bar is a run on a rank, from its submission to its end; its color is the "
              "collective. Runs that overlap are below each other, and where there are more than "
              "28, on top of each other. A pointer that rests on a bar shows its name.");
  svg_begin(t, ranks * high + AXIS);
  axis_add(t, &to.scale, ranks * high);
  for (uint32_t i = 0; i < ranks; i++) {
    char name[32];
    snprintf(name, sizeof name, "rank %" PRIu32, i);
    label_add(t, LEFT - 8, i * high + high / 2 + 4, "end", name);
    rect_add(t, 0, i * high, LEFT + WIDE, 0.6, "#dddddd");
  }
  for (uint64_t i = 0; i < drawn; i++) {
    run_add(t, &to, runs[i].rank * high + 3 + lanes[i] * to.lane, &runs[i]);
  }
  svg_end(t);
  rondo_sim_text_add(t,
                     "<p>The first %u of %u ranks, and %" PRIu64 " of their %" PRIu64
                     " runs that ended; --trace has all.</p>\n",
                     ranks, all, drawn, count);
  free(lanes);
  free(runs);
}

// ------------------------------------------------------------------------ page ---

static void deadlock_add(struct rondo_sim_text *t, const struct rondo_schedule_report *r) {
  section_add(t, "The deadlock",
              r->story ? "Where each rank stands, as rondo-sim analyse sees it."
                       : "It is too large to be explained: take fewer ranks.");
  if (r->story && r->story->is_cycle) {
    rondo_sim_text_add(t, "%s\n", rondo_sim_text_str(&r->story->svg));
  }
  if (r->story) {
    rondo_sim_text_add(t, "<pre>");
    rondo_sim_text_add_xml(t, rondo_sim_text_str(&r->story->text), "</pre>\n");
  }
}

void rondo_schedule_report_html(struct rondo_sim_text *t, const struct rondo_schedule_report *r,
                                const struct rondo_schedule_machine *m) {
  rondo_sim_text_add_bytes(t, head, sizeof head - 1);
  summary_add(t, r);
  if (r->totals.outcome == RONDO_SCHEDULE_DEADLOCK) {
    deadlock_add(t, r);
  }
  latencies_add(t, r);
  path_add(t, r);
  blocked_add(t, r);
  queue_add(t, r, m);
  links_add(t, r, m);
  timeline_add(t, r, m);
  rondo_sim_text_add(t, "</body></html>\n");
}
