#include "sim/deadlock/deadlock.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "sim/common/text.h"
#include "sim/deadlock/config.h"
#include "sim/deadlock/explain.h"
#include "sim/deadlock/export.h"
#include "sim/deadlock/preset.h"
#include "sim/deadlock/report.h"
#include "sim/deadlock/run.h"
#include "sim/deadlock/sweep.h"

#define RONDO_SIM_MAX_FILES 64
#define RONDO_SIM_MAX_SETTINGS 64
#define RONDO_SIM_EXIT_INTERRUPTED 130

enum option_key {
  KEY_PRESET = 256,
  KEY_ROWS,
  KEY_MODEL,
  KEY_RESOURCES,
  KEY_ORDER,
  KEY_SKIPPED,
  KEY_TURNS,
  KEY_ENGINE,
  KEY_COMPAT,
  KEY_VARIANT,
  KEY_SHAPE,
  KEY_COLLECTIVES,
  KEY_DRAWS,
  KEY_GROUPING_SEED,
  KEY_SWEEP,
  KEY_EXPLAIN,
  KEY_JSON,
  KEY_CSV,
  KEY_HTML,
  KEY_EXPORT,
  KEY_PROGRESS,
  KEY_QUIET,
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
    {"skipped", KEY_SKIPPED, "NAME", 0, "a skipped collective: keeps-odds (default) or next", 0},
    {"turns", KEY_TURNS, "NAME", 0, "turns in the naive engine: round-robin (default) or random",
     0},
    {0, 0, 0, 0, "How:", 3},
    {"rounds", 'n', "N", 0, "rounds of each row (32000)", 0},
    {"seed", 'S', "N", 0, "seed of the rounds (1)", 0},
    {"threads", 't', "N", 0, "threads (one for each processor)", 0},
    {"engine", KEY_ENGINE, "NAME", 0, "fast (default), or naive: draws every event", 0},
    {"compat", KEY_COMPAT, "NAME", 0, "dfccl: add the published simulator's decisions", 0},
    {"variant", KEY_VARIANT, "LIST", 0, "of interleaved, sequential, dfccl", 0},
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
  const char *files[RONDO_SIM_MAX_FILES];
  uint32_t file_count;
  struct setting settings[RONDO_SIM_MAX_SETTINGS];
  uint32_t setting_count;
  const char *preset, *rows, *shape, *collectives, *draws, *grouping_seed, *variants;
  const char *explain, *json, *csv, *html, *export;
  struct rondo_sim_sweep sweeps[RONDO_SIM_MAX_SWEEPS];
  uint32_t sweep_count;
  int progress; // 1 always, 0 on a terminal, -1 never
};

static atomic_int stop;

static void on_interrupt(int number) {
  (void)number;
  atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

// The long name of an option that is also a name of rondo_sim_config_set(), or null.
static const char *setting_name(int key) {
  static const int settings[] = {KEY_MODEL, 'd', 's', KEY_RESOURCES, KEY_ORDER,  KEY_SKIPPED,
                                 KEY_TURNS, 'n', 'S', 't',           KEY_ENGINE, KEY_COMPAT};
  for (size_t k = 0; k < sizeof(settings) / sizeof(*settings); k++) {
    const struct argp_option *option = options;
    while (settings[k] == key && option->key != key) {
      option++;
    }
    if (settings[k] == key) {
      return option->name;
    }
  }
  return NULL;
}

// Where the text of an option is kept, or null if it is not kept as text.
static const char **text_of(struct arguments *a, int key) {
  const struct {
    int key;
    const char **text;
  } texts[] = {{KEY_PRESET, &a->preset},    {KEY_ROWS, &a->rows},
               {KEY_SHAPE, &a->shape},      {KEY_COLLECTIVES, &a->collectives},
               {KEY_DRAWS, &a->draws},      {KEY_GROUPING_SEED, &a->grouping_seed},
               {KEY_VARIANT, &a->variants}, {KEY_JSON, &a->json},
               {KEY_CSV, &a->csv},          {KEY_HTML, &a->html},
               {KEY_EXPORT, &a->export}};
  for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
    if (texts[k].key == key) {
      return texts[k].text;
    }
  }
  return NULL;
}

static error_t option_parse(int key, char *arg, struct argp_state *state) {
  struct arguments *a = state->input;
  char error[256];
  const char *name = setting_name(key), **text = text_of(a, key);
  if (name && a->setting_count < RONDO_SIM_MAX_SETTINGS) {
    a->settings[a->setting_count++] = (struct setting){name, arg};
  } else if (text) {
    *text = arg;
  } else if (key == KEY_EXPLAIN) {
    a->explain = arg ? arg : "deadlock";
  } else if (key == KEY_PROGRESS || key == 'q') {
    a->progress = key == 'q' ? -1 : 1;
  } else if (key == KEY_SWEEP) {
    if (a->sweep_count == RONDO_SIM_MAX_SWEEPS) {
      argp_error(state, "two sweeps at most");
    } else if (!rondo_sim_sweep_parse(&a->sweeps[a->sweep_count++], arg, error, sizeof(error))) {
      argp_error(state, "%s", error);
    }
  } else if (key == ARGP_KEY_ARG) {
    if (a->file_count == RONDO_SIM_MAX_FILES) {
      argp_error(state, "more than %d files", RONDO_SIM_MAX_FILES);
    }
    a->files[a->file_count++] = arg;
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

static int error_report(int code, const char *error) {
  fprintf(stderr, "rondo-sim deadlock: %s\n", error);
  return code;
}

// Reads `count` whole numbers, separated by commas. False for any other text.
static bool numbers_parse(const char *text, uint64_t *numbers, int count) {
  for (int k = 0; k < count; k++) {
    char *end;
    errno = 0;
    numbers[k] = strtoull(text, &end, 10);
    bool digits = *text >= '0' && *text <= '9';
    if (!digits || errno || *end != (k + 1 < count ? ',' : 0)) {
      return false;
    }
    text = end + 1;
  }
  return true;
}

static int shape_apply(const struct arguments *a, struct rondo_sim_config *c) {
  char json[320], error[256];
  uint64_t s[3], n[2] = {400, 1200};
  if (!numbers_parse(a->shape, s, 3)) {
    return error_report(EX_USAGE, "--3d: must read T,D,P, such as 4,4,4");
  }
  if (a->collectives && !numbers_parse(a->collectives, n, 2)) {
    return error_report(EX_USAGE, "--collectives: must read T,D, such as 400,1200");
  }
  // The text is read like a file, so that the same bounds hold.
  snprintf(json, sizeof(json),
           "{\"grouping\": {\"policy\": \"3d\", \"tensor\": %" PRIu64 ", \"data\": %" PRIu64
           ", \"pipeline\": %" PRIu64 ", \"tensor_collectives\": %" PRIu64
           ", \"data_collectives\": %" PRIu64 "}}",
           s[0], s[1], s[2], n[0], n[1]);
  bool ok = rondo_sim_config_parse(c, json, "--3d", error, sizeof(error));
  return ok ? 0 : error_report(EX_USAGE, error);
}

static int draws_apply(const struct arguments *a, struct rondo_sim_config *c) {
  uint64_t draws = c->draws;
  if (a->draws && (!numbers_parse(a->draws, &draws, 1) || draws < 1 || draws > 1000000)) {
    return error_report(EX_USAGE, "--draws: must be a whole number from 1 to 1000000");
  }
  c->draws = (uint32_t)draws;
  if (a->grouping_seed && !numbers_parse(a->grouping_seed, &c->grouping_seed, 1)) {
    return error_report(EX_USAGE, "--grouping-seed: must be a whole number");
  }
  return 0;
}

// Applies the command line to a configuration. Returns 0 or an exit code.
static int arguments_apply(const struct arguments *a, struct rondo_sim_config *c) {
  char error[256];
  for (uint32_t k = 0; k < a->setting_count; k++) {
    if (!rondo_sim_config_set(c, a->settings[k].name, a->settings[k].value, error, sizeof(error))) {
      return error_report(EX_USAGE, error);
    }
    if (strcmp(a->settings[k].name, "rounds") == 0) {
      c->processes = 1; // the rounds of the command line are for all processes together
    }
  }
  int code = a->shape ? shape_apply(a, c) : 0;
  code = code ? code : draws_apply(a, c);
  if (code) {
    return code;
  }
  return rondo_sim_config_check(c, error, sizeof(error)) ? 0 : error_report(EX_USAGE, error);
}

// Refuses options that contradict the rows of a preset.
static int preset_check(const struct arguments *a) {
  static const char *const fixed[] = {"model", "disorder", "synchronisation", "resources"};
  char error[128];
  for (uint32_t k = 0; k < a->setting_count; k++) {
    for (int i = 0; i < 4; i++) {
      if (strcmp(a->settings[k].name, fixed[i]) == 0) {
        snprintf(error, sizeof(error),
                 "%s: the rows of a preset have their own; --sweep can vary it", fixed[i]);
        return error_report(EX_USAGE, error);
      }
    }
  }
  return a->shape ? error_report(EX_USAGE, "--3d: the rows of a preset have their own groups") : 0;
}

// Adds the rows of the preset and of the files, or the one row of the options.
static int rows_add(const struct arguments *a, struct rondo_sim_report *r) {
  char error[512];
  struct rondo_sim_config c;
  int code = 0;
  if (a->preset || a->file_count == 0) {
    rondo_sim_config_init(&c);
    code = a->preset ? preset_check(a) : 0;
    code = code ? code : arguments_apply(a, &c);
    if (code == 0 && a->preset) {
      bool ok = rondo_sim_preset_add(r, a->preset, a->rows, &c, error, sizeof(error));
      code = ok ? 0 : error_report(EX_USAGE, error);
    } else if (code == 0) {
      rondo_sim_report_add(r, "1", &c);
    }
    rondo_sim_config_fini(&c);
  }
  for (uint32_t k = 0; k < a->file_count && code == 0; k++) {
    char name[16];
    snprintf(name, sizeof(name), "%u", k + 1);
    rondo_sim_config_init(&c);
    code = rondo_sim_config_load(&c, a->files[k], error, sizeof(error))
               ? arguments_apply(a, &c)
               : error_report(EX_DATAERR, error);
    if (code == 0) {
      rondo_sim_report_add(r, name, &c);
    }
    rondo_sim_config_fini(&c);
  }
  return code;
}

static int swept_set(struct rondo_sim_config *c, const struct rondo_sim_sweep *s, double value) {
  char text[40], error[256];
  bool whole = strcmp(s->key, "resources") == 0 || strcmp(s->key, "rounds") == 0;
  snprintf(text, sizeof(text), whole ? "%.0f" : "%.9g", value);
  bool ok = rondo_sim_config_set(c, s->key, text, error, sizeof(error)) &&
            rondo_sim_config_check(c, error, sizeof(error));
  return ok ? 0 : error_report(EX_USAGE, error);
}

// Replaces each row by a row for each combination of the swept values.
static int rows_spread(const struct arguments *a, struct rondo_sim_report *r) {
  struct rondo_sim_report swept;
  int code = 0;
  if (a->sweep_count == 0) {
    return 0;
  }
  rondo_sim_report_init(&swept, r->title);
  memcpy(swept.sweeps, a->sweeps, sizeof(a->sweeps));
  swept.sweep_count = a->sweep_count;
  uint32_t second = a->sweep_count > 1 ? a->sweeps[1].count : 1;
  for (uint32_t i = 0; i < r->row_count * second * a->sweeps[0].count && code == 0; i++) {
    struct rondo_sim_row *from = &r->rows[i / (second * a->sweeps[0].count)];
    uint32_t step[2] = {i % a->sweeps[0].count, i / a->sweeps[0].count % second};
    double values[RONDO_SIM_MAX_SWEEPS] = {0};
    struct rondo_sim_config c;
    rondo_sim_config_copy(&c, &from->config);
    for (uint32_t k = 0; k < RONDO_SIM_MAX_SWEEPS && k < a->sweep_count && code == 0; k++) {
      values[k] = rondo_sim_sweep_value(&a->sweeps[k], step[k]);
      code = swept_set(&c, &a->sweeps[k], values[k]);
    }
    if (code == 0) {
      struct rondo_sim_row *row = rondo_sim_report_add(&swept, from->name, &c);
      memcpy(row->swept, values, sizeof(values));
    }
    rondo_sim_config_fini(&c);
  }
  rondo_sim_report_fini(r);
  *r = swept;
  return code;
}

static int variants_choose(const struct arguments *a, struct rondo_sim_report *r) {
  bool wanted[RONDO_SIM_VARIANTS] = {false};
  char *copy = rondo_sim_strdup(a->variants ? a->variants : ""), *save = NULL, error[160] = "";
  for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
    bool known = false;
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      bool same = strcmp(word, rondo_sim_variant_name((enum rondo_sim_variant)v)) == 0;
      wanted[v] |= same;
      known |= same;
    }
    if (!known) {
      snprintf(error, sizeof(error),
               "variant: \"%.40s\" is not one of interleaved, sequential, dfccl", word);
    }
  }
  free(copy);
  if (error[0]) {
    return error_report(EX_USAGE, error);
  }
  for (uint32_t i = 0; i < r->row_count; i++) {
    struct rondo_sim_row *row = &r->rows[i];
    for (int v = 0; v < RONDO_SIM_VARIANTS; v++) {
      row->wanted[v] = a->variants                        ? wanted[v]
                       : a->preset && a->sweep_count == 0 ? true
                       : v == RONDO_SIM_PUBLISHED         ? row->config.compat_dfccl
                                                          : v == (int)row->config.order;
    }
  }
  return 0;
}

struct progress {
  const struct rondo_sim_report *report;
  uint32_t row;
  enum rondo_sim_variant variant;
  bool shown;
};

static void progress_show(void *arg, uint64_t done, uint64_t planned, double seconds) {
  struct progress *p = arg;
  double left = done > 0 ? seconds * (double)(planned - done) / (double)done : NAN;
  fprintf(stderr, "\r\033[Krow %s (%u of %u), %s: %llu of %llu rounds",
          p->report->rows[p->row].name, p->row + 1, p->report->row_count,
          rondo_sim_variant_name(p->variant), (unsigned long long)done,
          (unsigned long long)planned);
  if (!isnan(left)) {
    fprintf(stderr, ", %.0f rounds/s, about %.0f s left", (double)done / seconds, left);
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
      if (row->wanted[v] && v == RONDO_SIM_PUBLISHED && row->config.synchronisation >= 1) {
        row->outcomes[v].why_not = "the published simulator never ends at synchronisation 1";
      } else if (row->wanted[v]) {
        rondo_sim_run(&row->config, p.variant, &watch, &row->outcomes[v]);
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

// Writes what `render` makes to a file, or to the standard output for "-".
static int report_write(const struct rondo_sim_report *r, const char *path,
                        void (*render)(const struct rondo_sim_report *, struct rondo_sim_text *)) {
  struct rondo_sim_text text = {0};
  int code = 0;
  if (!path) {
    return 0;
  }
  render(r, &text);
  if (strcmp(path, "-") == 0) {
    fputs(rondo_sim_text_str(&text), stdout);
  } else if (rondo_sim_text_save(&text, path) != 0) {
    code = file_fail(path, strerror(errno));
  }
  rondo_sim_text_fini(&text);
  return code;
}

// Saves a text, and says so. Frees both texts.
static int file_save(struct rondo_sim_text *path, struct rondo_sim_text *text) {
  int code = 0;
  if (rondo_sim_text_save(text, path->data) != 0) {
    code = file_fail(path->data, strerror(errno));
  } else {
    printf("written: %s\n", path->data);
  }
  rondo_sim_text_fini(path);
  rondo_sim_text_fini(text);
  return code;
}

static int picture_save(const struct rondo_sim_report *r, const char *prefix, const char *suffix,
                        void (*draw)(const struct rondo_sim_graph *, struct rondo_sim_text *)) {
  struct rondo_sim_text path = {0}, picture = {0};
  rondo_sim_text_add(&path, "%s%s", prefix, suffix);
  draw(&r->story.graph, &picture);
  return file_save(&path, &picture);
}

static int story_show(const struct arguments *a, const struct rondo_sim_report *r) {
  if (!r->story.told) {
    puts("No deadlock was found, so there is none to explain.");
    return 0;
  }
  printf("\n%s", rondo_sim_text_str(&r->story.words));
  int code = picture_save(r, a->explain, ".dot", rondo_sim_graph_dot);
  return code ? code : picture_save(r, a->explain, ".svg", rondo_sim_graph_svg);
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static int report_show(const struct arguments *a, struct rondo_sim_report *r) {
  bool taken = is_stdout(a->json) || is_stdout(a->csv) || is_stdout(a->html);
  int code = report_write(r, taken ? NULL : "-", rondo_sim_report_table);
  if (a->explain || a->html || a->json) {
    rondo_sim_explain(r);
  }
  if (a->explain && !taken && code == 0) {
    code = story_show(a, r);
  }
  int later = report_write(r, a->json, rondo_sim_report_json);
  code = code ? code : later;
  later = report_write(r, a->csv, rondo_sim_report_csv);
  code = code ? code : later;
  later = report_write(r, a->html, rondo_sim_report_html);
  return code ? code : later;
}

static int output_check(const char *path, const char *suffix) {
  struct rondo_sim_text whole = {0};
  int code = 0;
  if (!path || is_stdout(path)) {
    return 0;
  }
  rondo_sim_text_add(&whole, "%s%s", path, suffix);
  if (rondo_sim_text_may_save(whole.data) != 0) {
    code = file_fail(whole.data, strerror(errno));
  }
  rondo_sim_text_fini(&whole);
  return code;
}

// Checks the output files before a simulation that may take an hour. Returns 0 or an exit code.
static int outputs_check(const struct arguments *a) {
  int code = output_check(a->json, "");
  code = code ? code : output_check(a->csv, "");
  code = code ? code : output_check(a->html, "");
  return code ? code : output_check(a->explain, ".dot");
}

static int rows_export(const char *prefix, const struct rondo_sim_report *r) {
  int code = 0;
  for (uint32_t i = 0; i < r->row_count && code == 0; i++) {
    struct rondo_sim_text path = {0}, text = {0};
    rondo_sim_text_add(&path, "%s-%s.json", prefix, r->rows[i].name);
    if (rondo_sim_export(&r->rows[i].config, &text)) {
      code = file_save(&path, &text);
    } else {
      code = file_fail(path.data, "the published simulator has no such model");
      rondo_sim_text_fini(&path);
    }
  }
  return code;
}

static int rows_simulate(const struct arguments *a, struct rondo_sim_report *r) {
  struct timespec start, end;
  int code = rows_add(a, r);
  code = code ? code : rows_spread(a, r);
  code = code ? code : variants_choose(a, r);
  if (code == 0 && a->export) {
    return rows_export(a->export, r);
  }
  code = code ? code : outputs_check(a);
  if (code) {
    return code;
  }
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  r->threads = rondo_sim_threads(&r->rows[0].config);
  clock_gettime(CLOCK_MONOTONIC, &start);
  rows_run(a, r);
  clock_gettime(CLOCK_MONOTONIC, &end);
  r->seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
  code = report_show(a, r);
  return code ? code : r->interrupted ? RONDO_SIM_EXIT_INTERRUPTED : 0;
}

int rondo_sim_deadlock_main(int argc, char **argv) {
  static struct arguments a;
  struct rondo_sim_report r;
  if (argp_parse(&parser, argc, argv, 0, NULL, &a) != 0) {
    return EX_USAGE;
  }
  rondo_sim_report_init(&r, a.preset ? "Table 1 of the DFCCL paper, simulated again"
                                     : "How likely is a deadlock?");
  int code = rows_simulate(&a, &r);
  rondo_sim_report_fini(&r);
  return code;
}
