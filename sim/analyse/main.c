#include "sim/analyse/analyse.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "sim/analyse/read.h"
#include "sim/analyse/report.h"
#include "sim/common/graph.h"

struct options {
  char **paths;
  size_t path_count;
  struct rondo_analyse_group_hints hints;
  const char *html, *svg, *dot;
  regex_t pattern;
  bool has_pattern, json, full, quiet, progress;
  unsigned thread_count;
};

enum { OPTION_HTML = 256, OPTION_SVG, OPTION_DOT, OPTION_FULL, OPTION_THREADS, OPTION_PROGRESS };

static const struct argp_option option_list[] = {
    {"json", 'j', NULL, 0, "Print the report as JSON", 0},
    {"html", OPTION_HTML, "FILE", 0,
     "Write a report with timelines and the cycle drawn, one file that needs nothing else", 0},
    {"svg", OPTION_SVG, "FILE", 0, "Write the cycle, if there is one, as a drawing", 0},
    {"dot", OPTION_DOT, "FILE", 0, "Write the cycle, if there is one, for Graphviz", 0},
    {"rank-pattern", 'r', "REGEX", 0,
     "Where the rank is in a file's name: an extended regular expression whose first group is the "
     "number. Without it: the number after \"rank\", or else the last number",
     0},
    {"group", 'g', "NAME=RANKS", 0,
     "The members of a group that the files do not name: --group tp=0-3,8. May be repeated", 0},
    {"full", OPTION_FULL, NULL, 0, "List every rank and group, however many", 0},
    {"threads", OPTION_THREADS, "COUNT", 0, "Files to read at once (default: one for each core)",
     0},
    {"progress", OPTION_PROGRESS, NULL, 0, "Show progress even if the error output is no terminal",
     0},
    {"quiet", 'q', NULL, 0, "No progress, and nothing on problems with files", 0},
    {0}};

static const char documentation[] =
    "Was this hang a deadlock? Reads what a stuck job left behind, one file a rank: PyTorch Flight "
    "Recorder dumps (pickle or JSON), NCCL_DEBUG=INFO logs, Kineto traces, NCCL RAS status "
    "(ncclras -f json) and Rondo flight records. The content of a file decides what it is."
    "\v"
    "Exit status: 0 nothing waits; 10 circular wait; 11 a rank never came; 12 mismatch; 13 not an "
    "ordering deadlock; 14 cannot tell; 64 wrong usage; 65 no file could be used; 73 a report "
    "could not be written.";

static void pattern_set(struct options *o, const char *text, struct argp_state *state) {
  char message[200];
  if (o->has_pattern) {
    regfree(&o->pattern);
    o->has_pattern = false;
  }
  int rc = regcomp(&o->pattern, text, REG_EXTENDED);
  if (rc) {
    regerror(rc, &o->pattern, message, sizeof message);
    argp_error(state, "--rank-pattern %s: %s", text, message);
    return;
  }
  o->has_pattern = true;
  if (o->pattern.re_nsub < 1) {
    argp_error(state, "--rank-pattern %s: has no group, such as rank([0-9]+)", text);
  }
}

// Reads "0-3,8" strictly. Files may hold anything; what a user writes is not guessed at.
static bool ranks_are_plain(const char *text) {
  for (;; text++) {
    char *end;
    if (!isdigit((unsigned char)*text)) {
      return false;
    }
    long from = strtol(text, &end, 10), to = from;
    if (*end == '-' && isdigit((unsigned char)end[1])) {
      to = strtol(end + 1, &end, 10);
    }
    if (from > to || to > RONDO_ANALYSE_HIGHEST_RANK || (*end && *end != ',')) {
      return false;
    }
    text = end;
    if (!*text) {
      return true;
    }
  }
}

static void hint_add(struct options *o, char *text, struct argp_state *state) {
  char *equals = strrchr(text, '=');
  if (!equals || !ranks_are_plain(equals + 1)) {
    argp_error(state, "--group %s: not NAME=RANKS, such as tp=0-3", text);
    return;
  }
  *equals = 0;
  struct rondo_analyse_group_hints *h = &o->hints;
  h->items = rondo_sim_realloc(h->items, (h->count + 1) * sizeof *h->items);
  h->items[h->count++] = (struct rondo_analyse_group_hint){text, equals + 1, false};
}

static void threads_set(struct options *o, const char *text, struct argp_state *state) {
  char *end;
  long count = strtol(text, &end, 10);
  if (*end || count < 1 || count > 1024) {
    argp_error(state, "--threads %s: not a number from 1 to 1024", text);
  }
  o->thread_count = (unsigned)count;
}

static error_t option_parse(int key, char *argument, struct argp_state *state) {
  struct options *o = state->input;
  switch (key) {
  case 'j':
    o->json = true;
    break;
  case OPTION_HTML:
    o->html = argument;
    break;
  case OPTION_SVG:
    o->svg = argument;
    break;
  case OPTION_DOT:
    o->dot = argument;
    break;
  case 'r':
    pattern_set(o, argument, state);
    break;
  case 'g':
    hint_add(o, argument, state);
    break;
  case OPTION_FULL:
    o->full = true;
    break;
  case OPTION_THREADS:
    threads_set(o, argument, state);
    break;
  case OPTION_PROGRESS:
    o->progress = true;
    break;
  case 'q':
    o->quiet = true;
    break;
  case ARGP_KEY_ARGS:
    o->paths = state->argv + state->next;
    o->path_count = (size_t)(state->argc - state->next);
    break;
  case ARGP_KEY_NO_ARGS:
    argp_usage(state);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp parser = {
    .options = option_list, .parser = option_parse, .args_doc = "FILE...", .doc = documentation};

static void problems_print(const struct rondo_analyse_problems *p) {
  for (size_t i = 0; i < p->count; i++) {
    fprintf(stderr, "rondo-sim: %s\n", p->items[i]);
  }
}

// Saves a text and frees its memory.
static bool text_save(struct rondo_sim_text *t, const char *path) {
  bool saved = rondo_sim_text_save(t, path) == 0;
  if (!saved) {
    fprintf(stderr, "rondo-sim: %s: cannot be written: %s\n", path, strerror(errno));
  }
  rondo_sim_text_fini(t);
  return saved;
}

// Writes the cycle as a drawing, if there is a cycle.
static bool drawing_save(const struct rondo_analyse_analysis *a, const char *path,
                         void (*draw)(const struct rondo_sim_graph *, struct rondo_sim_text *)) {
  if (!path || a->verdict.outcome != RONDO_ANALYSE_CIRCULAR_WAIT) {
    return true;
  }
  struct rondo_sim_graph graph;
  struct rondo_sim_text text = {0};
  rondo_sim_graph_init(&graph, "Circular wait");
  rondo_analyse_report_graph(&graph, a);
  draw(&graph, &text);
  rondo_sim_graph_fini(&graph);
  return text_save(&text, path);
}

static int report_write(const struct options *o, const struct rondo_analyse_report *r) {
  struct rondo_sim_text text = {0}, html = {0};
  bool written = true;
  (o->json ? rondo_analyse_report_json : rondo_analyse_report_text)(&text, r);
  fputs(rondo_sim_text_str(&text), stdout);
  rondo_sim_text_fini(&text);
  if (o->html) {
    rondo_analyse_report_html(&html, r);
    written = text_save(&html, o->html);
  }
  written &= drawing_save(r->analyses[0], o->svg, rondo_sim_graph_svg);
  written &= drawing_save(r->analyses[0], o->dot, rondo_sim_graph_dot);
  return written ? rondo_analyse_outcome_exit_code((int)r->analyses[0]->verdict.outcome)
                 : EX_CANTCREAT;
}

// One family's job and its analysis.
struct part {
  struct rondo_analyse_job job;
  struct rondo_analyse_analysis analysis;
};

// Analyses the job of each family and returns how many there are. `order` lists the analyses, the
// weightiest verdict first.
static size_t parts_make(struct part *parts, const struct rondo_analyse_analysis **order,
                         struct rondo_analyse_record *records, const struct options *o) {
  size_t made = 0;
  for (int family = 0; family < RONDO_ANALYSE_FAMILY_COUNT; family++) {
    struct part *part = &parts[made];
    if (!rondo_analyse_job_init(&part->job, (enum rondo_analyse_family)family, records,
                                o->path_count, &o->hints)) {
      continue;
    }
    if (!o->quiet) {
      problems_print(&part->job.problems);
    }
    rondo_analyse_analysis_init(&part->analysis, &part->job);
    size_t at = made++;
    for (; at && order[at - 1]->verdict.outcome < part->analysis.verdict.outcome; at--) {
      order[at] = order[at - 1];
    }
    order[at] = &part->analysis;
  }
  return made;
}

static int records_analyse(const struct options *o, struct rondo_analyse_record *records) {
  struct part parts[RONDO_ANALYSE_FAMILY_COUNT];
  const struct rondo_analyse_analysis *order[RONDO_ANALYSE_FAMILY_COUNT];
  size_t count = parts_make(parts, order, records, o);
  if (!count) {
    fprintf(stderr, "rondo-sim: none of the files could be used\n");
    return EX_DATAERR;
  }
  // A misspelt name would otherwise go unnoticed.
  for (size_t i = 0; i < o->hints.count && !o->quiet; i++) {
    if (!o->hints.items[i].used) {
      fprintf(stderr, "rondo-sim: --group %s: no file has a group of that name\n",
              o->hints.items[i].name);
    }
  }
  struct rondo_analyse_report report = {order, count, records, o->path_count, o->full};
  int code = report_write(o, &report);
  for (size_t i = 0; i < count; i++) {
    rondo_analyse_analysis_fini(&parts[i].analysis);
    rondo_analyse_job_fini(&parts[i].job);
  }
  return code;
}

int rondo_sim_analyse_main(int argc, char **argv) {
  struct options o = {0};
  argp_err_exit_status = EX_USAGE;
  int rc = argp_parse(&parser, argc, argv, 0, NULL, &o);
  if (rc) {
    fprintf(stderr, "rondo-sim: %s\n", strerror(rc));
    return EX_USAGE;
  }
  struct rondo_analyse_record *records = rondo_sim_alloc(o.path_count * sizeof *records);
  struct rondo_analyse_load_options load = {o.has_pattern ? &o.pattern : NULL, o.thread_count,
                                            !o.quiet && (o.progress || isatty(STDERR_FILENO))};
  rondo_analyse_load(records, o.paths, o.path_count, &load);
  for (size_t i = 0; i < o.path_count && !o.quiet; i++) {
    problems_print(&records[i].problems);
    if (records[i].more_problems) {
      fprintf(stderr, "rondo-sim: %s: and %zu more problems\n", records[i].path,
              records[i].more_problems);
    }
  }
  int code = records_analyse(&o, records);
  for (size_t i = 0; i < o.path_count; i++) {
    rondo_analyse_record_fini(&records[i]);
  }
  free(records);
  free(o.hints.items);
  if (o.has_pattern) {
    regfree(&o.pattern);
  }
  return code;
}
