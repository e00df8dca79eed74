#include "tools/info/tune.h"

#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rondo/rondo.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost_file.h"
#include "tools/info/perf_child.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"
#include "tools/kit/thread_group.h"
#include "tools/kit/whole_cores.h"

#define EXIT_BAD 1
#define MAX_REPEATS 9u
#define MAX_JOB_BYTES (UINT64_C(96) << 20) // of the larger buffers of all ranks
#define MOST_TRIES 3u                      // of a measurement, until the processors are whole cores
#define PAUSE_NS 5000000                   // after they were not

static const uint32_t sizes[] = {8, 256, 2048, 8192, 65536, 262144, 1048576, 2097152};
#define SIZES (sizeof sizes / sizeof *sizes)

struct options {
  const char *path, *launcher;
  uint32_t budget_ms, repeats, max_ranks;
  bool only_threads, any_cores;
};

struct tuner {
  struct options options;
  struct rondo_cost_file file;
  // By row, number of ranks and size: the costs of a message that were measured and count.
  float (*measured)[RONDO_COST_MAX_RANKS][RONDO_COST_MAX_SIZES][MAX_REPEATS];
  uint8_t counts[RONDO_COST_MAX_ROWS][RONDO_COST_MAX_RANKS][RONDO_COST_MAX_SIZES];
  struct rondo_kit_cores_watch *cores; // null: all measurements count
  uint32_t kept, aside;                // measurements
};

// --------------------------------------------------------------------- the grid ---

// Whether the algorithm is measured: the model predicts it, and not only on GPUs.
static bool is_predicted(int kind, int algorithm) {
  const struct rondo_cost_query q = {.kind = kind, .nranks = 2};
  struct rondo_plan_form form;
  return !rondo_plan_has_packets(algorithm) && rondo_plan_form_of(&q, algorithm, &form);
}

static uint32_t algorithm_count(int kind) {
  uint32_t count = 0;
  for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
    count += is_predicted(kind, algorithm);
  return count;
}

static void ranks_add(struct rondo_cost_model *m, uint32_t ranks, uint32_t most) {
  uint32_t last = m->rank_points ? m->ranks[m->rank_points - 1] : 1;
  if (m->rank_points < RONDO_COST_MAX_RANKS && ranks > last && ranks <= most)
    m->ranks[m->rank_points++] = ranks;
}

// Whether ranks of a link class are measured at this number of ranks. There are two machines, each
// with one rank.
static bool is_measured(const struct tuner *t, int link, uint32_t i) {
  switch (link) {
  case RONDO_COST_THREAD:
    return true;
  case RONDO_COST_SHARED_MEMORY:
    return !t->options.only_threads;
  case RONDO_COST_NETWORK:
    return t->options.launcher && t->file.model.ranks[i] == 2;
  default:
    return false;
  }
}

// A kind with one algorithm needs no row.
static void rows_add(struct tuner *t, int link) {
  struct rondo_cost_model *m = &t->file.model;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT && algorithm_count(kind) > 1;
         algorithm++)
      if (is_predicted(kind, algorithm) && m->row_count < RONDO_COST_MAX_ROWS)
        t->file.rows[m->row_count++] = (struct rondo_cost_row){
            .link = (uint8_t)link, .kind = (uint8_t)kind, .algorithm = (uint8_t)algorithm};
}

// Numbers of ranks with a core each, and of ranks that share cores.
static void grid_make(struct tuner *t) {
  struct rondo_cost_model *m = &t->file.model;
  uint32_t most = t->options.max_ranks;
  *m = rondo_cost_defaults;
  m->rows = t->file.rows;
  m->rank_points = m->row_count = 0;
  m->cores = rondo_kit_core_count();
  if (m->cores > 1)
    ranks_add(m, 2, most);
  ranks_add(m, m->cores, most);
  ranks_add(m, 2 * m->cores, most);
  ranks_add(m, 8 * m->cores, most);
  ranks_add(m, 32 * m->cores, most);
  m->size_points = SIZES;
  memcpy(m->sizes, sizes, sizeof sizes);
  for (int link = 0; link < RONDO_COST_LINKS; link++)
    if (is_measured(t, link, 0))
      rows_add(t, link);
}

// The descriptor's count in bytes with which messages have `bytes`. 0: too large, or no candidate.
static uint64_t cell_bytes(const struct rondo_cost_row *row, uint32_t ranks, uint32_t bytes) {
  struct rondo_cost_query q = {.kind = row->kind, .nranks = ranks, .bytes = bytes};
  struct rondo_plan_form form;
  uint64_t count = bytes;
  if (!rondo_plan_form_of(&q, row->algorithm, &form))
    return 0;
  if (form.bytes > 0)
    count = (uint64_t)((double)bytes * bytes / (double)form.bytes);
  if (count < sizes[0])
    count = sizes[0];
  q.bytes = count;
  bool has_parts = rondo_plan_has_parts(row->kind);
  if (count * ranks * (has_parts ? ranks : 1) > MAX_JOB_BYTES ||
      !rondo_cost_is_candidate(&q, row->algorithm))
    return 0;
  return count;
}

// -------------------------------------------------------------------- measuring ---

// Asks for a time until the processors were two whole cores before and after it, for some tries.
// Sets `time_ns` to 0 if they never were. Returns false after a failure.
static bool time_measure(struct tuner *t, struct info_perf *perf, const char *request,
                         double *time_ns) {
  const struct timespec pause = {0, PAUSE_NS};
  if (!t->cores)
    return info_perf_ask(perf, request, time_ns);
  for (uint32_t i = 0; i < MOST_TRIES; i++) {
    if (!rondo_kit_cores_are_whole(t->cores)) {
      t->aside++; // it would not count
      nanosleep(&pause, NULL);
      continue;
    }
    if (!info_perf_ask(perf, request, time_ns))
      return false;
    if (rondo_kit_cores_are_whole(t->cores)) {
      t->kept++;
      return true;
    }
    t->aside++;
  }
  *time_ns = 0;
  return true;
}

// The cost of a message of row `row` at one number of ranks and one size.
static bool cell_measure(struct tuner *t, struct info_perf *perf, uint32_t row, uint32_t i,
                         uint32_t k) {
  const struct rondo_cost_model *m = &t->file.model;
  const struct rondo_cost_row *r = &t->file.rows[row];
  uint64_t count = cell_bytes(r, m->ranks[i], m->sizes[k]);
  struct rondo_cost_query q = {
      .kind = r->kind, .nranks = m->ranks[i], .bytes = count, .link = r->link, .cores = m->cores};
  q.machines = r->link == RONDO_COST_NETWORK ? q.nranks : 1;
  char request[128];
  double time_ns = 0;
  if (count == 0)
    return true;
  // The request counts the larger buffer.
  (void)snprintf(request, sizeof request, "%s %" PRIu64 " 0 %" PRIu32, rondo_kind_name(r->kind),
                 rondo_plan_has_parts(r->kind) ? count * q.nranks : count, t->options.budget_ms);
  if (!time_measure(t, perf, request, &time_ns))
    return false;
  if (time_ns > 0)
    t->measured[row][i][k][t->counts[row][i][k]++] =
        (float)rondo_cost_of_message(&q, r->algorithm, time_ns);
  return true;
}

// The value of RONDO_ALGO that forces an algorithm on all kinds that have it.
static void forced_write(int algorithm, char *text, size_t bytes) {
  size_t used = 0;
  text[0] = '\0';
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
    if (algorithm_count(kind) > 1 && is_predicted(kind, algorithm))
      used += (size_t)snprintf(text + used, bytes - used, "%s%s=%s", used ? "," : "",
                               rondo_kind_name(kind), rondo_plan_algorithm_name(algorithm));
}

// All rows of a link class and an algorithm, at one number of ranks.
static bool job_measure(struct tuner *t, int link, int algorithm, uint32_t i) {
  const struct rondo_cost_model *m = &t->file.model;
  struct info_perf perf;
  char forced[512];
  forced_write(algorithm, forced, sizeof forced);
  if (!forced[0])
    return true;
  const struct info_perf_ranks ranks = {m->ranks[i], link == RONDO_COST_SHARED_MEMORY,
                                        link == RONDO_COST_NETWORK ? t->options.launcher : NULL};
  bool good = info_perf_start(&perf, &ranks, forced);
  for (uint32_t row = 0; row < m->row_count && good; row++)
    if (t->file.rows[row].link == link && t->file.rows[row].algorithm == algorithm)
      for (uint32_t k = 0; k < m->size_points && good; k++)
        good = cell_measure(t, &perf, row, i, k);
  info_perf_end(&perf);
  return good;
}

static void progress_print(uint32_t done, uint32_t all, const char *what) {
  bool is_terminal = isatty(STDERR_FILENO);
  double percent = all ? 100.0 * done / all : 100;
  fprintf(stderr, "%s%3.0f %% %s%s", is_terminal ? "\r\033[K" : "", percent, what,
          is_terminal ? "" : "\n");
  if (is_terminal && done == all)
    fprintf(stderr, "\n");
}

static bool all_measure(struct tuner *t) {
  const struct rondo_cost_model *m = &t->file.model;
  uint32_t each = 0, done = 0;
  bool good = true;
  for (int link = 0; link < RONDO_COST_LINKS; link++)
    for (uint32_t i = 0; i < m->rank_points; i++)
      each += is_measured(t, link, i);
  uint32_t all = t->options.repeats * each;
  for (uint32_t repeat = 0; repeat < t->options.repeats; repeat++)
    for (int link = 0; link < RONDO_COST_LINKS; link++)
      for (uint32_t i = 0; i < m->rank_points; i++) {
        char what[96];
        if (!is_measured(t, link, i))
          continue;
        (void)snprintf(what, sizeof what, "%" PRIu32 " ranks, %s, repeat %" PRIu32 " of %" PRIu32,
                       m->ranks[i], rondo_cost_link_name(link), repeat + 1, t->options.repeats);
        progress_print(done++, all, what);
        for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT && good; algorithm++)
          good = job_measure(t, link, algorithm, i);
        if (!good)
          return false;
      }
  progress_print(all, all, "measured");
  return true;
}

// ---------------------------------------------------------------------- fitting ---

static int floats_compare(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return x < y ? -1 : x > y;
}

// The median; of an even number the lower one, because load only makes times longer. Sorts
// `values`. 0: there is none.
static float median_of(float *values, size_t count) {
  if (count == 0)
    return 0;
  qsort(values, count, sizeof *values, floats_compare);
  return values[(count - 1) / 2];
}

// Fills cells that were not measured: as the cost grows with the size at a smaller number of ranks,
// else as at a smaller number of ranks; at the smallest one, as most rows have it (`most`).
static void row_fill(const struct rondo_cost_model *m, const struct rondo_cost_line *most,
                     struct rondo_cost_row *row) {
  for (uint32_t i = 0; i < m->rank_points; i++)
    for (uint32_t k = 0; k < m->size_points; k++) {
      float *ns = &row->message_ns[i][k];
      if (*ns > 0)
        continue;
      if (i > 0)
        *ns = row->message_ns[i - 1][k];
      if (i > 0 && k > 0)
        *ns *= row->message_ns[i][k - 1] / row->message_ns[i - 1][k - 1];
      if (i == 0)
        *ns = most->message_ns + (float)m->sizes[k] * most->byte_ns;
    }
}

// For what has no row: the median of the rows, at the first size and between it and the last one
// that was measured.
static void line_fit(struct rondo_cost_file *file, int link, uint32_t i,
                     struct rondo_cost_line *line) {
  const struct rondo_cost_model *m = &file->model;
  uint32_t count = 0;
  float first[RONDO_COST_MAX_ROWS], slope[RONDO_COST_MAX_ROWS];
  for (uint32_t row = 0; row < m->row_count; row++) {
    const float *ns = file->rows[row].message_ns[i];
    uint32_t last = m->size_points - 1;
    while (last > 0 && ns[last] <= 0)
      last--;
    if (file->rows[row].link != link || last == 0 || ns[0] <= 0)
      continue;
    first[count] = ns[0];
    slope[count++] = (ns[last] - ns[0]) / (float)(m->sizes[last] - m->sizes[0]);
  }
  if (count == 0)
    return;
  line->message_ns = median_of(first, count);
  line->byte_ns = median_of(slope, count);
  if (line->byte_ns < 0.001f)
    line->byte_ns = 0.001f;
}

// What a message between two ranks takes, at the first size of a row.
static float first_cost(const struct rondo_cost_file *file, int link, int algorithm, uint32_t i) {
  for (uint32_t row = 0; row < file->model.row_count; row++) {
    const struct rondo_cost_row *r = &file->rows[row];
    if (r->link == link && r->kind == RONDO_BROADCAST && r->algorithm == algorithm)
      return r->message_ns[i][0];
  }
  return 0;
}

// Divides the cost of a small message between latency and what it occupies. A broadcast straight to
// n - 1 ranks, each with a core, takes a latency and n - 1 messages; one along the ring takes both
// for each message. With two ranks the parts cannot be told apart: they are those of the model that
// is compiled in.
static struct rondo_cost_terms terms_fit(const struct rondo_cost_file *file, int link,
                                         const struct rondo_cost_line *least) {
  const struct rondo_cost_model *m = &file->model;
  const struct rondo_cost_terms *known = &rondo_cost_defaults.alone[link];
  float share = known->message_ns / (known->latency_ns + known->message_ns);
  for (uint32_t i = 0; i < m->rank_points && m->ranks[i] <= m->cores; i++) {
    float hop = first_cost(file, link, RONDO_ALGORITHM_RING, i);
    float all = first_cost(file, link, RONDO_ALGORITHM_DIRECT, i) * (float)(m->ranks[i] - 1);
    if (m->ranks[i] > 2 && hop > 0 && all > 0)
      share = (all - hop) / (float)(m->ranks[i] - 2) / hop;
  }
  share = share < 0.05f ? 0.05f : share > 0.95f ? 0.95f : share;
  return (struct rondo_cost_terms){(1 - share) * least->message_ns, share * least->message_ns,
                                   least->byte_ns};
}

static void model_fit(struct tuner *t) {
  struct rondo_cost_model *m = &t->file.model;
  struct rondo_cost_line least[RONDO_COST_LINKS]; // at the smallest number of ranks
  for (uint32_t row = 0; row < m->row_count; row++)
    for (uint32_t i = 0; i < m->rank_points; i++)
      for (uint32_t k = 0; k < m->size_points; k++)
        t->file.rows[row].message_ns[i][k] =
            median_of(t->measured[row][i][k], t->counts[row][i][k]);
  for (int link = 0; link < RONDO_COST_LINKS; link++) {
    const struct rondo_cost_terms *terms = &m->alone[link];
    least[link] = (struct rondo_cost_line){terms->latency_ns + terms->message_ns, terms->byte_ns};
    line_fit(&t->file, link, 0, &least[link]);
    if (m->ranks[0] <= m->cores)
      m->alone[link] = terms_fit(&t->file, link, &least[link]);
    if (m->ranks[m->rank_points - 1] > m->cores)
      line_fit(&t->file, link, m->rank_points - 1, &m->shared[link]);
  }
  for (uint32_t row = 0; row < m->row_count; row++)
    row_fill(m, &least[t->file.rows[row].link], &t->file.rows[row]);
}

// -------------------------------------------------------------------- the command ---

static bool tuning_measure(struct tuner *t) {
  struct rondo_tuning tuning;
  int status = rondo_profile(&tuning, 0);
  if (status == RONDO_SUCCESS)
    status = rondo_tuning_print(&tuning, t->file.tuning, sizeof t->file.tuning);
  if (status != RONDO_SUCCESS)
    fprintf(stderr, "rondo-info tune: spin budgets: %s\n", rondo_status_string(status));
  return status == RONDO_SUCCESS;
}

// Begins to watch the processors, unless there is one, or the options say that it does not matter.
static bool cores_watch(struct tuner *t) {
  if (t->options.any_cores || t->file.model.cores < 2)
    return true;
  t->cores = malloc(sizeof *t->cores);
  if (t->cores && rondo_kit_cores_watch(t->cores))
    return true;
  fprintf(stderr, "rondo-info tune: the processors cannot be watched: see --any-cores\n");
  return false;
}

// Says how many measurements do not count, and whether enough do.
static bool cores_judge(const struct tuner *t) {
  if (t->aside)
    fprintf(stderr,
            "rondo-info tune: %" PRIu32 " measurements set aside, %" PRIu32
            " kept: the processors were not two whole cores\n",
            t->aside, t->kept);
  if (t->kept >= t->aside / MOST_TRIES)
    return true;
  fprintf(stderr, "rondo-info tune: too few count: try again, or --any-cores takes all\n");
  return false;
}

// Writes a file beside the one that is wanted, and renames it: no reader sees half of it.
static bool file_write(const struct tuner *t) {
  char *text = malloc(RONDO_COST_FILE_BYTES), *beside = NULL;
  bool good = text && asprintf(&beside, "%s.%ld", t->options.path, (long)getpid()) > 0;
  if (good)
    (void)rondo_cost_file_print(&t->file, text);
  good = good ? rondo_kit_output_save(beside, text) : (free(text), false);
  if (good && rename(beside, t->options.path) != 0) {
    perror("rondo-info tune: rename");
    (void)unlink(beside);
    good = false;
  }
  free(beside);
  return good;
}

static bool path_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  o->path = text;
  return number == 0;
}

static void options_read(struct options *options, int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"repeats", 'r', "N", "Measure everything so often, and take medians (default 3)",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, repeats), .low = 1,
       .high = MAX_REPEATS},
      {"budget", 'b', "MS", "Milliseconds for each collective and size (default 5)",
       .value = RONDO_KIT_U32, .offset = offsetof(struct options, budget_ms), .low = 1,
       .high = 10000},
      {"max-ranks", 'm', "N", "Most ranks (default 64)", .value = RONDO_KIT_U32,
       .offset = offsetof(struct options, max_ranks), .low = 2, .high = 1024},
      {"threads", 't', NULL, "Only ranks that are threads of one process", .value = RONDO_KIT_FLAG,
       .offset = offsetof(struct options, only_threads)},
      {"any-cores", 'a', NULL,
       "Set no measurement aside, though the first two processors are no two whole cores",
       .value = RONDO_KIT_FLAG, .offset = offsetof(struct options, any_cores)},
      {"machines", 'M', "COMMAND",
       "Also two ranks on two machines: the shell's COMMAND starts the program that follows it as "
       "both, with RONDO_ALGO in their environment, such as 'mpirun -np 2 -x RONDO_ALGO'",
       .value = RONDO_KIT_TEXT, .offset = offsetof(struct options, launcher)},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = path_read,
      .args_doc = "FILE",
      .doc = "Measures what messages cost on this machine, by each algorithm, between threads and "
             "between processes, and spin budgets. Writes the file that RONDO_COST_MODEL names. "
             "The file appears when all has been measured; Ctrl-C leaves none.\v"
             "Exit status: 0 written; 1 not; 2 usage."};
  rondo_kit_command_read(&command, argc, argv, options);
}

int info_tune_main(int argc, char **argv) {
  struct tuner *t = calloc(1, sizeof *t);
  static char name[] = "rondo-info tune";
  if (!t)
    return EXIT_BAD;
  argv[0] = name;
  t->options = (struct options){.budget_ms = 5, .repeats = 3, .max_ranks = 64};
  options_read(&t->options, argc, argv);
  if (!t->options.path) {
    fprintf(stderr, "rondo-info tune: one argument is needed: FILE\n");
    free(t);
    return 2;
  }
  (void)signal(SIGPIPE, SIG_IGN); // a child that ends early is reported
  grid_make(t);
  if (t->options.launcher && t->file.model.cores < 2) {
    fprintf(stderr, "rondo-info tune: --machines needs two processors\n");
    free(t);
    return 2;
  }
  t->measured = calloc(RONDO_COST_MAX_ROWS, sizeof *t->measured);
  bool good = t->measured && rondo_kit_output_check(t->options.path) && cores_watch(t) &&
              tuning_measure(t) && all_measure(t) && cores_judge(t);
  if (good)
    model_fit(t);
  good = good && file_write(t);
  free(t->measured);
  free(t->cores);
  free(t);
  return good ? 0 : EXIT_BAD;
}
