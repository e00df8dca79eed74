#include "sim/deadlock/deadlock.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "sim/common/text.h"
#include "sim/deadlock/config.h"
#include "sim/deadlock/report.h"
#include "sim/deadlock/run_rounds.h"
#include "sim/deadlock/sweep.h"
#include "sim/deadlock/table1.h"

#define RONDO_SIM_EXIT_INTERRUPTED 130

enum option_key {
  // Options whose text is kept:
  KEY_PRESET = 256,
  KEY_ROWS,
  KEY_SHAPE,
  KEY_COLLECTIVES,
  KEY_DRAWS,
  KEY_GROUPING_SEED,
  KEY_VARIANT,
  KEY_EXPLAIN,
  KEY_JSON,
  KEY_CSV,
  KEY_HTML,
  KEY_EXPORT,
  KEY_TEXT_END,
  // Settings of a configuration:
  KEY_MODEL,
  KEY_RESOURCES,
  KEY_ORDER,
  KEY_SKIPPED,
  KEY_TURNS,
  KEY_ENGINE,
  KEY_COMPAT,
  // The others:
  KEY_SWEEP,
  KEY_PROGRESS,
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "What to simulate:", 1},
    {"preset", KEY_PRESET, "NAME", 0, "the rows of a table: table1 (of the DFCCL paper)", 0},
    {"rows", KEY_ROWS, "LIST", 0, "only these rows of the preset (s1-s8, y1-y10, or a-e)", 0},
    {"3d", KEY_SHAPE, "T,D,P", 0, "3D grouping: tensor, data, pipeline parallel sizes", 0},
    {"collectives", KEY_COLLECTIVES, "T,D", 0, "collectives of each tensor, data group", 0},
    {"draws", KEY_DRAWS, "N", 0, "groupings to draw if only sizes are given (20)", 0},
    {"grouping-seed", KEY_GROUPING_SEED, "N", 0, "seed of these groupings (1)", 0},
    {0, 0, 0, 0, "The model:", 2},
    {"model", KEY_MODEL, "NAME", 0, "single-queue, synchronisation or resource-limited", 0},
    {"disorder", 'd', "P", 0, "probability that a collective is skipped", 0},
    {"synchronisation", 's', "P", 0, "probability of a synchronisation before an invocation", 0},
    {"resources", KEY_RESOURCES, "K", 0, "executing collectives a GPU can hold", 0},
    {"order", KEY_ORDER, "NAME", 0, "a GPU's list: interleaved (default) or sequential", 0},
    {"skipped", KEY_SKIPPED, "NAME", 0, "a skipped collective: keeps-odds (default), next or last",
     0},
    {"turns", KEY_TURNS, "NAME", 0, "turns in the naive engine: round-robin (default) or random",
     0},
    {0, 0, 0, 0, "How:", 3},
    {"rounds", 'n', "N", 0, "rounds of each row (32000)", 0},
    {"seed", 'S', "N", 0, "seed of the rounds (1)", 0},
    {"threads", 't', "N", 0, "threads (one for each processor)", 0},
    {"engine", KEY_ENGINE, "NAME", 0, "fast (default), or naive: draws every event", 0},
    {"compat", KEY_COMPAT, "NAME", 0, "dfccl: add the published simulator's decisions", 0},
    {"variant", KEY_VARIANT, "LIST", 0, "of interleaved, sequential, dfccl, dfccl-sequential", 0},
    {"sweep", KEY_SWEEP, "K=A..B:log:N", 0,
     "N values of disorder, synchronisation, resources or rounds (:lin for even steps); at most "
     "twice",
     0},
    {0, 0, 0, 0, "What comes out (FILE - is the standard output):", 4},
    {"explain", KEY_EXPLAIN, "PREFIX", OPTION_ARG_OPTIONAL,
     "print one deadlock's cycle; write PREFIX.dot and PREFIX.svg (deadlock)", 0},
    {"json", KEY_JSON, "FILE", 0, "the results as JSON", 0},
    {"csv", KEY_CSV, "FILE", 0, "the results as CSV", 0},
    {"html", KEY_HTML, "FILE", 0, "one page with table, charts and an example cycle", 0},
    {"export", KEY_EXPORT, "PREFIX", 0,
     "write each row as PREFIX-ROW.json for the published simulator; run nothing", 0},
    {"progress", KEY_PROGRESS, 0, 0, "show progress even if the error output is no terminal", 0},
    {"quiet", 'q', 0, 0, "no progress", 0},
    {0},
};

struct setting {
  const char *name, *value;
};

struct arguments {
  char **files;
  uint32_t file_count;
  struct setting *settings;
  uint32_t setting_count, setting_capacity;
  const char *texts[KEY_TEXT_END - KEY_PRESET]; // use text_of()
  struct rondo_sim_sweep sweeps[RONDO_SIM_MAX_SWEEPS];
  uint32_t sweep_count;
  int progress; // 1 always, 0 on a terminal, -1 never
};

static atomic_int stop;

static void on_interrupt(int number) {
  (void)number;
  atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

static const char *text_of(const struct arguments *a, enum option_key key) {
  return a->texts[key - KEY_PRESET];
}

// The long name of an option if it is also a name of rondo_sim_config_set(), or null.
static const char *setting_name(int key) {
  for (const struct argp_option *option = options; option->name || option->doc; option++) {
    if (option->key == key && option->name &&
        rondo_sim_list_find(RONDO_SIM_WORD_OPTIONS "," RONDO_SIM_NUMBER_OPTIONS, option->name) >=
            0) {
      return option->name;
    }
  }
  return NULL;
}

static error_t option_parse(int key, char *arg, struct argp_state *state) {
  struct arguments *a = state->input;
  struct rondo_sim_error error;
  const char *name = setting_name(key);
  if (name) {
    RONDO_SIM_GROW(a->settings, a->setting_count, a->setting_capacity, 16);
    a->settings[a->setting_count++] = (struct setting){name, arg};
  } else if (key >= KEY_PRESET && key < KEY_TEXT_END) {
    a->texts[key - KEY_PRESET] = arg ? arg : "deadlock"; // only --explain needs no argument
  } else if (key == KEY_PROGRESS || key == 'q') {
    a->progress = key == 'q' ? -1 : 1;
  } else if (key == KEY_SWEEP) {
    if (a->sweep_count == RONDO_SIM_MAX_SWEEPS) {
      argp_error(state, "two sweeps at most");
    } else if (!rondo_sim_sweep_parse(&a->sweeps[a->sweep_count++], arg, &error)) {
      argp_error(state, "%s", error.text);
    }
  } else if (key == ARGP_KEY_ARGS) {
    a->files = state->argv + state->next;
    a->file_count = (uint32_t)(state->argc - state->next);
  } else {
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = option_parse,
    .args_doc = "[FILE...]",
    .doc =
        "How likely is a deadlock? Simulates disordered collectives and GPU synchronisation by the "
        "model of the DFCCL paper, section 2.4, with an exact search for cycles."
        "\vFILE holds a configuration in JSON, Rondo's own or the published DFCCL simulator's. "
        "Options given here override it. Without a file, a preset or --3d one group of 8 GPUs with "
        "161 collectives is simulated.\n\nAn interrupted run prints what is known by then and "
        "exits with 130. docs/simulator.md describes the model and all options.",
};

// Ends the process with one line.
__attribute__((noreturn, format(printf, 2, 3))) static void command_fail(int code,
                                                                         const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  fputs("rondo-sim deadlock: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(code);
}

// Ends the process unless something succeeded.
static void result_check(bool ok, int code, const struct rondo_sim_error *error) {
  if (!ok) {
    command_fail(code, "%s", error->text);
  }
}

// Reads the whole numbers of an option, with commas between. False if the option was not given.
static bool numbers_read(const struct arguments *a, enum option_key key, uint64_t *numbers,
                         int count, const char *wanted) {
  const char *text = text_of(a, key);
  for (int k = 0; text && k < count; k++) {
    char *end;
    errno = 0;
    numbers[k] = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || errno || *end != (k + 1 < count ? ',' : 0)) {
      command_fail(EX_USAGE, "%s", wanted);
    }
    text = end + 1;
  }
  return text != NULL;
}

static void shape_apply(const struct arguments *a, struct rondo_sim_config *c) {
  char json[320];
  struct rondo_sim_error error;
  uint64_t s[3], n[2] = {400, 1200};
  if (!numbers_read(a, KEY_SHAPE, s, 3, "--3d: must read T,D,P, such as 4,4,4")) {
    return;
  }
  numbers_read(a, KEY_COLLECTIVES, n, 2, "--collectives: must read T,D, such as 400,1200");
  // The text is read like a file, so that the same bounds hold.
  snprintf(json, sizeof(json),
           "{\"grouping\": {\"policy\": \"3d\", \"tensor\": %" PRIu64 ", \"data\": %" PRIu64
           ", \"pipeline\": %" PRIu64 ", \"tensor_collectives\": %" PRIu64
           ", \"data_collectives\": %" PRIu64 "}}",
           s[0], s[1], s[2], n[0], n[1]);
  result_check(rondo_sim_config_parse(c, json, "--3d", &error), EX_USAGE, &error);
}

static void draws_apply(const struct arguments *a, struct rondo_sim_config *c) {
  static const char wanted[] = "--draws: must be a whole number from 1 to 1000000";
  uint64_t draws = c->draws;
  if (numbers_read(a, KEY_DRAWS, &draws, 1, wanted) && (draws < 1 || draws > 1000000)) {
    command_fail(EX_USAGE, wanted);
  }
  c->draws = (uint32_t)draws;
  numbers_read(a, KEY_GROUPING_SEED, &c->grouping_seed, 1,
               "--grouping-seed: must be a whole number");
}

static void option_apply(struct rondo_sim_config *c, const char *name, const char *value) {
  struct rondo_sim_error error;
  result_check(rondo_sim_config_set(c, name, value, &error), EX_USAGE, &error);
}

static void config_check(const struct rondo_sim_config *c) {
  struct rondo_sim_error error;
  result_check(rondo_sim_config_check(c, &error), EX_USAGE, &error);
}

// Applies the command line to a configuration.
static void arguments_apply(const struct arguments *a, struct rondo_sim_config *c) {
  for (uint32_t k = 0; k < a->setting_count; k++) {
    option_apply(c, a->settings[k].name, a->settings[k].value);
    if (strcmp(a->settings[k].name, "rounds") == 0) {
      c->processes = 1; // the rounds of the command line are for all processes together
    }
  }
  shape_apply(a, c);
  draws_apply(a, c);
  config_check(c);
}

// Adds the rows of the preset. Options that contradict them are refused.
static void preset_add(const struct arguments *a, struct rondo_sim_report *r) {
  const char *preset = text_of(a, KEY_PRESET);
  struct rondo_sim_config base;
  struct rondo_sim_error error;
  for (uint32_t k = 0; k < a->setting_count; k++) {
    const char *name = a->settings[k].name;
    if (rondo_sim_list_find("model,disorder,synchronisation,resources", name) >= 0) {
      command_fail(EX_USAGE, "%s: the rows of a preset have their own; --sweep can vary it", name);
    }
  }
  if (text_of(a, KEY_SHAPE)) {
    command_fail(EX_USAGE, "--3d: the rows of a preset have their own groups");
  }
  rondo_sim_config_init(&base);
  arguments_apply(a, &base);
  if (strcmp(preset, "table1") != 0) {
    command_fail(EX_USAGE, "preset: \"%s\" is not one of table1", preset);
  }
  result_check(rondo_sim_table1_add(r, text_of(a, KEY_ROWS), &base, &error), EX_USAGE, &error);
  rondo_sim_config_fini(&base);
}

// Adds the rows of the preset and of the files, or the one row of the options.
static void rows_add(const struct arguments *a, struct rondo_sim_report *r) {
  bool options_only = a->file_count == 0 && !text_of(a, KEY_PRESET);
  if (text_of(a, KEY_PRESET)) {
    preset_add(a, r);
  }
  for (uint32_t k = 0; k < a->file_count + options_only; k++) {
    char name[16];
    struct rondo_sim_config c;
    struct rondo_sim_error error;
    snprintf(name, sizeof(name), "%u", k + 1);
    rondo_sim_config_init(&c);
    if (!options_only) {
      result_check(rondo_sim_config_load(&c, a->files[k], &error), EX_DATAERR, &error);
    }
    arguments_apply(a, &c);
    rondo_sim_report_add(r, name, &c);
    rondo_sim_config_fini(&c);
  }
}

// Replaces each row by a row for each combination of the swept values.
static void rows_spread(const struct arguments *a, struct rondo_sim_report *r) {
  struct rondo_sim_report swept = {.title = r->title, .sweep_count = a->sweep_count};
  if (a->sweep_count == 0) {
    return;
  }
  uint32_t first = a->sweeps[0].count;
  uint32_t second = a->sweep_count > 1 ? a->sweeps[1].count : 1;
  memcpy(swept.sweeps, a->sweeps, sizeof(a->sweeps));
  for (uint32_t i = 0; i < r->row_count * second * first; i++) {
    const struct rondo_sim_row *from = &r->rows[i / (second * first)];
    const uint32_t step[RONDO_SIM_MAX_SWEEPS] = {i % first, i / first % second};
    struct rondo_sim_config c;
    rondo_sim_config_copy(&c, &from->config);
    double values[RONDO_SIM_MAX_SWEEPS] = {0};
    for (uint32_t k = 0; k < RONDO_SIM_MAX_SWEEPS && k < a->sweep_count; k++) {
      char text[40];
      bool whole = rondo_sim_list_find("resources,rounds", a->sweeps[k].key) >= 0;
      values[k] = rondo_sim_sweep_value(&a->sweeps[k], step[k]);
      snprintf(text, sizeof(text), whole ? "%.0f" : "%.9g", values[k]);
      option_apply(&c, a->sweeps[k].key, text);
      config_check(&c);
    }
    memcpy(rondo_sim_report_add(&swept, from->name, &c)->swept, values, sizeof(values));
    rondo_sim_config_fini(&c);
  }
  rondo_sim_report_fini(r);
  *r = swept;
}

static void variants_choose(const struct arguments *a, struct rondo_sim_report *r) {
  static const char known[] = "interleaved, sequential, dfccl, dfccl-sequential";
  bool wanted[RONDO_SIM_VARIANTS] = {false};
  const char *variants = text_of(a, KEY_VARIANT);
  char *copy = rondo_sim_strdup(variants ? variants : ""), *save = NULL;
  for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
    int v = rondo_sim_list_find(known, word);
    if (v < 0) {
      command_fail(EX_USAGE, "variant: \"%.40s\" is not one of %s", word, known);
    }
    wanted[v] = true;
  }
  free(copy);
  for (uint32_t i = 0; i < r->row_count; i++) {
    struct rondo_sim_row *row = &r->rows[i];
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      row->wanted[v] = variants                                        ? wanted[v]
                       : text_of(a, KEY_PRESET) && a->sweep_count == 0 ? true
                       : v < RONDO_SIM_PUBLISHED
                           ? v == (int)row->config.order
                           : v == RONDO_SIM_PUBLISHED && row->config.compat_dfccl == 1;
    }
  }
}

struct progress {
  const struct rondo_sim_report *report;
  uint32_t row;
  enum rondo_sim_variant variant;
  bool shown;
};

static void progress_show(void *arg, uint64_t done, uint64_t planned, double seconds) {
  struct progress *p = arg;
  fprintf(stderr, "\r\033[Krow %s (%u of %u), %s: %llu of %llu rounds",
          p->report->rows[p->row].name, p->row + 1, p->report->row_count,
          rondo_sim_variant_name(p->variant), (unsigned long long)done,
          (unsigned long long)planned);
  if (done > 0) {
    fprintf(stderr, ", %.0f rounds/s, about %.0f s left", (double)done / seconds,
            seconds * (double)(planned - done) / (double)done);
  }
  fflush(stderr);
  p->shown = true;
}

static void rows_run(const struct arguments *a, struct rondo_sim_report *r) {
  struct progress p = {.report = r};
  bool show = a->progress > 0 || (a->progress == 0 && isatty(STDERR_FILENO));
  struct rondo_sim_watch watch = {show ? progress_show : NULL, &p, &stop};
  for (p.row = 0; p.row < r->row_count && !stop; p.row++) {
    struct rondo_sim_row *row = &r->rows[p.row];
    for (int v = 0; v < RONDO_SIM_VARIANTS && !stop; v++) {
      p.variant = (enum rondo_sim_variant)v;
      if (row->wanted[v] && v >= RONDO_SIM_PUBLISHED && row->config.synchronisation >= 1) {
        row->outcomes[v].why_not = "the published simulator never ends at synchronisation 1";
      } else if (row->wanted[v]) {
        rondo_sim_run(&row->config, p.variant, &watch, &row->outcomes[v]);
        r->seconds += row->outcomes[v].seconds;
      }
    }
  }
  if (p.shown) {
    fprintf(stderr, "\r\033[K");
  }
  r->interrupted = stop;
}

static int file_fail(const char *path, const char *reason) {
  fprintf(stderr, "rondo-sim deadlock: %s: %s\n", path, reason);
  return EX_CANTCREAT;
}

// Writes a text to a file, or to the standard output for "-", and frees it. Returns 0 or an exit
// code.
static int text_write(struct rondo_sim_text *text, const char *prefix, const char *suffix,
                      bool tell) {
  struct rondo_sim_text path = {0};
  int code = 0;
  rondo_sim_text_add(&path, "%s%s", prefix, suffix);
  if (strcmp(path.data, "-") == 0) {
    fputs(rondo_sim_text_str(text), stdout);
  } else if (rondo_sim_text_save(text, path.data) != 0) {
    code = file_fail(path.data, strerror(errno));
  } else if (tell) {
    printf("written: %s\n", path.data);
  }
  rondo_sim_text_fini(&path);
  rondo_sim_text_fini(text);
  return code;
}

static int story_show(const char *prefix, const struct rondo_sim_report *r) {
  struct rondo_sim_text dot = {0}, svg = {0};
  if (!r->story.told) {
    puts("No deadlock was found, so there is none to explain.");
    return 0;
  }
  printf("\n%s", rondo_sim_text_str(&r->story.words));
  rondo_sim_graph_dot(&r->story.graph, &dot);
  rondo_sim_graph_svg(&r->story.graph, &svg);
  int code = text_write(&dot, prefix, ".dot", true), later = text_write(&svg, prefix, ".svg", true);
  return code ? code : later;
}

// The reports that are written to files.
static const struct {
  enum option_key key;
  void (*render)(const struct rondo_sim_report *, struct rondo_sim_text *);
} outputs[] = {{KEY_JSON, rondo_sim_report_json},
               {KEY_CSV, rondo_sim_report_csv},
               {KEY_HTML, rondo_sim_report_html}};

enum { OUTPUTS = sizeof(outputs) / sizeof(outputs[0]) };

// Shows and writes all that was asked for. Returns 0 or an exit code.
static int report_show(const struct arguments *a, struct rondo_sim_report *r) {
  struct rondo_sim_text text = {0};
  int code = 0;
  bool taken = false;
  for (int k = 0; k < OUTPUTS; k++) {
    const char *path = text_of(a, outputs[k].key);
    taken |= path && strcmp(path, "-") == 0;
  }
  if (!taken) {
    rondo_sim_report_table(r, &text);
    code = text_write(&text, "-", "", false);
  }
  if (text_of(a, KEY_EXPLAIN) || text_of(a, KEY_HTML) || text_of(a, KEY_JSON)) {
    rondo_sim_explain(r);
  }
  if (text_of(a, KEY_EXPLAIN) && !taken) {
    code = story_show(text_of(a, KEY_EXPLAIN), r);
  }
  for (int k = 0; k < OUTPUTS; k++) {
    const char *path = text_of(a, outputs[k].key);
    if (path) {
      outputs[k].render(r, &text);
      int later = text_write(&text, path, "", false);
      code = code ? code : later;
    }
  }
  return code;
}

static void output_check(const char *path, const char *suffix) {
  struct rondo_sim_text whole = {0};
  if (path && strcmp(path, "-") != 0) {
    rondo_sim_text_add(&whole, "%s%s", path, suffix);
    if (rondo_sim_text_may_save(whole.data) != 0) {
      command_fail(EX_CANTCREAT, "%s: %s", whole.data, strerror(errno));
    }
    rondo_sim_text_fini(&whole);
  }
}

static int rows_export(const char *prefix, const struct rondo_sim_report *r) {
  int code = 0;
  for (uint32_t i = 0; i < r->row_count && code == 0; i++) {
    struct rondo_sim_text text = {0};
    char suffix[32];
    snprintf(suffix, sizeof(suffix), "-%s.json", r->rows[i].name);
    if (!rondo_sim_config_export(&r->rows[i].config, &text)) {
      command_fail(EX_CANTCREAT, "%s%s: the published simulator has no such model", prefix, suffix);
    }
    code = text_write(&text, prefix, suffix, true);
  }
  return code;
}

static int rows_simulate(const struct arguments *a, struct rondo_sim_report *r) {
  // A simulation may take an hour, so the files are checked before.
  for (int k = 0; k < OUTPUTS; k++) {
    output_check(text_of(a, outputs[k].key), "");
  }
  output_check(text_of(a, KEY_EXPLAIN), ".dot");
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  r->threads = rondo_sim_threads(&r->rows[0].config);
  rows_run(a, r);
  int code = report_show(a, r);
  return code ? code : r->interrupted ? RONDO_SIM_EXIT_INTERRUPTED : 0;
}

int rondo_sim_deadlock_main(int argc, char **argv) {
  static struct arguments a;
  if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0) {
    return EX_USAGE;
  }
  struct rondo_sim_report r = {.title = text_of(&a, KEY_PRESET)
                                            ? "Table 1 of the DFCCL paper, simulated again"
                                            : "How likely is a deadlock?"};
  rows_add(&a, &r);
  rows_spread(&a, &r);
  variants_choose(&a, &r);
  const char *export = text_of(&a, KEY_EXPORT);
  int code = export ? rows_export(export, &r) : rows_simulate(&a, &r);
  rondo_sim_report_fini(&r);
  free(a.settings);
  return code;
}
