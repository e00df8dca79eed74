#include "sim/schedule/schedule.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "sim/common/text.h"
#include "sim/schedule/goal_report.h"
#include "sim/schedule/job.h"
#include "sim/schedule/regret.h"
#include "sim/schedule/report.h"
#include "sim/schedule/trace.h"
#include "sim/schedule/turns.h"

#define EXIT_DIFFERENT 1
#define EXIT_DEADLOCK 10 // as rondo-sim analyse says it
#define EXIT_INTERRUPTED 130
#define EVENTS_A_TURN (1u << 20) // between two looks at the clock and for an interrupt
#define PROGRESS_SECONDS 1

enum option_key {
  KEY_SETTING = 256, // an option of rondo_schedule_job_set
  KEY_NO_PREEMPTION,
  KEY_REGRET,
  KEY_GOAL,
  KEY_TURNS,
  KEY_MESSAGE_GAP,
  KEY_JSON,
  KEY_CSV,
  KEY_HTML,
  KEY_TRACE,
  KEY_SVG,
  KEY_DOT,
  KEY_PROGRESS,
  KEY_FIRST_SETTING // + place in `options`
};

// options_number gives each setting a key of its own.
static struct argp_option options[] = {
    {0, 0, 0, 0, "The job:", 1},
    {"ranks", KEY_SETTING, "N", 0, "ranks (8)", 0},
    {"machines", KEY_SETTING, "N", 0, "machines on which they are spread evenly (1)", 0},
    {"op", KEY_SETTING, "KIND", 0, "all_reduce (default), all_gather, broadcast, barrier, ...", 0},
    {"algo", KEY_SETTING, "NAME", 0,
     "ring, doubling, ... as rondo-info plan names them; recursive: the one of log2 n rounds. "
     "Default: what the runtime would choose",
     0},
    {"bytes", KEY_SETTING, "B", 0, "of each collective (1MiB)", 0},
    {"root", KEY_SETTING, "RANK", 0, "of reduce, broadcast, gather and scatter (0)", 0},
    {"collectives", KEY_SETTING, "M", 0, "how many each rank submits (1)", 0},
    {"orders", KEY_SETTING, "NAME", 0, "one (default) for all ranks, or random: its own for each",
     0},
    {"iterations", KEY_SETTING, "N", 0, "how often (1)", 0},
    {"compute", KEY_SETTING, "TIME", 0, "of a rank before each submission (0)", 0},
    {"sync", KEY_SETTING, "X", 0,
     "this part of all submissions, drawn by the seed, synchronises the device first (0)", 0},
    {"late-rank", KEY_SETTING, "RANK=TIME", 0, "the rank begins so late; may be repeated", 0},
    {"slow-rank", KEY_SETTING, "RANK=X", 0, "the rank computes X times as long; may be repeated",
     0},
    {"program", KEY_SETTING, "WHAT", 0,
     "ddp: the gradients in buckets of 25 MiB; with --collectives layers 3d:T,D,P: 3D parallelism, "
     "fsdp:N: sharded parameters, moe:E,D: experts; else a FILE. Default: --collectives alike",
     0},
    {"replay", KEY_SETTING, "FILE", 0,
     "what a rank submitted and when, from its flight record; once for each rank", 0},
    {"chakra", KEY_SETTING, "PREFIX", 0,
     "what the ranks compute and call, from Chakra execution traces PREFIX.0.et, PREFIX.1.et, ...",
     0},
    {0, 0, 0, 0, "What messages cost (default: the cost model of the runtime):", 2},
    {"preset", KEY_SETTING, "NAME", 0,
     "machines of 8 devices: h100 (DGX H100, NDR) or frontier; later options change it", 0},
    {"cost-model", KEY_SETTING, "FILE", 0,
     "of rondo-info tune, in place of the cost model that is compiled in", 0},
    {"interfaces", KEY_SETTING, "N", 0,
     "of a machine to others, which its ranks share in turn (one for each rank)", 0},
    {"cores", KEY_SETTING, "N", 0, "of a machine, which its ranks share (one for each rank)", 0},
    {"link", KEY_SETTING, "CLASS", 0,
     "inside a machine: thread, shared_memory (default), nvlink or network", 0},
    {"latency", KEY_SETTING, "TIME", 0, "of a message", 0},
    {"bandwidth", KEY_SETTING, "RATE", 0, "of a rank, such as 25GB/s or 200Gbit/s", 0},
    {"inner-latency", KEY_SETTING, "TIME", 0, "the same inside a machine, if there are several", 0},
    {"inner-bandwidth", KEY_SETTING, "RATE", 0, "the same inside a machine, if there are several",
     0},
    {"loggp", KEY_SETTING, "L,o,g,G[,O[,S]]", 0,
     "in nanoseconds, counted as LogGOPSim does; O and S for --goal", 0},
    {"jitter", KEY_SETTING, "X", 0, "latencies and compute times are up to so much longer (0)", 0},
    {"slot-bytes", KEY_SETTING, "B", 0, "the most that a message carries (256KiB)", 0},
    {"slots", KEY_SETTING, "N", 0, "of a connector (as the runtime has them)", 0},
    {0, 0, 0, 0, "In place of a job:", 3},
    {"goal", KEY_GOAL, "FILE", 0, "a GOAL program, as LogGOPSim simulates it", 0},
    {"message-gap", KEY_MESSAGE_GAP, 0, 0, "each message takes g on its way, too; for --goal", 0},
    {"turns", KEY_TURNS, "FILE", 0,
     "the turns of blocks that the explorer of the source tree has recorded: says whether those "
     "of this scheduler are equal; takes no other option",
     0},
    {"regret", KEY_REGRET, 0, 0,
     "compare the algorithms that the cost model chooses with the best, for many collectives of "
     "up to --ranks ranks (64)",
     0},
    {0, 0, 0, 0, "The scheduler (defaults are those of the runtime):", 4},
    {"no-preemption", KEY_NO_PREEMPTION, 0, 0, "a stuck collective keeps its block", 0},
    {"order", KEY_SETTING, "NAME", 0,
     "free (default); static: all ranks run all in the order of the program; coordinator: in the "
     "order that rank 0 announces. Neither preempts unless a later option says so",
     0},
    {"cycle", KEY_SETTING, "TIME", 0, "of the coordinator (1ms)", 0},
    {"budget", KEY_SETTING, "NAME", 0, "adaptive (default), fixed or never", 0},
    {"front-budget", KEY_SETTING, "TIME", 0, "of the first collective of the queue (20us)", 0},
    {"min-budget", KEY_SETTING, "TIME", 0, "of any collective (1us)", 0},
    {"max-budget", KEY_SETTING, "TIME", 0, "however often it is raised (400us)", 0},
    {"look", KEY_SETTING, "TIME", 0, "how long a stuck one is retried before a look round (0)", 0},
    {"quit-period", KEY_SETTING, "TIME", 0, "without progress, after which a block quits (200us)",
     0},
    {"residency", KEY_SETTING, "TIME", 0, "after which a block quits in any case (20ms)", 0},
    {"step", KEY_SETTING, "TIME", 0, "of a step, besides its messages (0)", 0},
    {"switch", KEY_SETTING, "TIME", 0, "of loading the context of a collective (0)", 0},
    {"poll", KEY_SETTING, "TIME", 0, "from an arrival until a block sees it (0)", 0},
    {"start", KEY_SETTING, "TIME", 0, "until a block that has quit runs again (0)", 0},
    {0, 0, 0, 0, "How, and what comes out (FILE - is the standard output):", 5},
    {"seed", KEY_SETTING, "N", 0, "of orders and jitter (1)", 0},
    {"json", KEY_JSON, "FILE", OPTION_ARG_OPTIONAL, "the results as JSON", 0},
    {"csv", KEY_CSV, "FILE", OPTION_ARG_OPTIONAL, "latencies by collective as CSV", 0},
    {"html", KEY_HTML, "FILE", 0, "a page with plots that loads nothing", 0},
    {"trace", KEY_TRACE, "FILE", 0, "all runs as trace events, for Perfetto", 0},
    {"svg", KEY_SVG, "FILE", 0, "the cycle of a deadlock as a drawing", 0},
    {"dot", KEY_DOT, "FILE", 0, "the cycle of a deadlock for Graphviz", 0},
    {"progress", KEY_PROGRESS, 0, 0, "show progress even if the error output is no terminal", 0},
    {"quiet", 'q', 0, 0, "no progress", 0},
    {0},
};

// What --regret says itself.
static const char regret_settings[] =
    "machines,op,algo,bytes,root,collectives,orders,iterations,"
    "compute,sync,late-rank,slow-rank,program,replay,chakra,order,"
    "cycle";

#define OPTION_COUNT ((int)(sizeof options / sizeof options[0]))

struct arguments {
  struct rondo_schedule_job job;
  const char *json, *csv, *html, *trace, *svg, *dot;
  bool regret;
  const char *goal, *turns;
  const char *not_turns;             // any other option
  const char *not_goal, *not_regret; // an option that is not for --goal, or not for --regret
  int progress;                      // 1 always, 0 on a terminal, -1 never
};

static atomic_int stop;

static void on_interrupt(int number) {
  (void)number;
  atomic_store_explicit(&stop, 1, memory_order_relaxed);
}

__attribute__((noreturn)) static void command_fail(int code, const char *text) {
  fprintf(stderr, "rondo-sim schedule: %s\n", text);
  exit(code);
}

static void options_number(void) {
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (options[i].key == KEY_SETTING) {
      options[i].key = KEY_FIRST_SETTING + i;
    }
  }
}

// Where the option puts the path of its results; null if it is another option.
static const char **output_of(struct arguments *a, int key) {
  switch (key) {
  case KEY_JSON:
    return &a->json;
  case KEY_CSV:
    return &a->csv;
  case KEY_HTML:
    return &a->html;
  case KEY_TRACE:
    return &a->trace;
  case KEY_SVG:
    return &a->svg;
  case KEY_DOT:
    return &a->dot;
  default:
    return NULL;
  }
}

// The name of an option; null if the key is none.
static const char *option_name(int key) {
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (options[i].key == key) {
      return options[i].name;
    }
  }
  return NULL;
}

static error_t option_parse(int key, char *arg, struct argp_state *state) {
  struct arguments *a = state->input;
  struct rondo_sim_error error;
  const char *name = option_name(key), **output = output_of(a, key);
  if (name && key != KEY_TURNS && key != KEY_PROGRESS && key != 'q') {
    a->not_turns = name;
  }
  if (name && key >= KEY_FIRST_SETTING && key < KEY_FIRST_SETTING + OPTION_COUNT) {
    a->not_goal = strcmp(name, "loggp") == 0 ? a->not_goal : name;
    a->not_regret = rondo_sim_list_find(regret_settings, name) < 0 ? a->not_regret : name;
    if (!rondo_schedule_job_set(&a->job, name, arg, &error)) {
      command_fail(EX_USAGE, error.text);
    }
    return 0;
  }
  if (output) {
    *output = arg ? arg : "-";
    if (key != KEY_JSON) {
      a->not_goal = a->not_regret = name;
    }
    return 0;
  }
  switch (key) {
  case KEY_TURNS:
    a->turns = arg;
    break;
  case KEY_NO_PREEMPTION:
    a->job.settings.policy.budget = RONDO_BUDGET_NEVER;
    a->not_goal = "no-preemption";
    break;
  case KEY_REGRET:
    a->regret = true;
    a->not_goal = "regret";
    break;
  case KEY_GOAL:
    a->goal = arg;
    break;
  case KEY_MESSAGE_GAP:
    a->job.goal.messages_take_gap = true;
    break;
  case KEY_PROGRESS:
    a->progress = 1;
    break;
  case 'q':
    a->progress = -1;
    break;
  case ARGP_KEY_ARG:
    rondo_sim_refuse(&error, "\"%s\" is no option", arg);
    command_fail(EX_USAGE, error.text);
  default:
    return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

static const struct argp parser = {
    .options = options,
    .parser = option_parse,
    .doc =
        "What would this job do? Runs the scheduler and the plans of the runtime in virtual time, "
        "with messages that cost time instead of moving data."
        "\vTimes have a unit: ns, us, ms or s. Equal options give equal results, to the "
        "nanosecond. An interrupted run prints what is known by then and exits with 130; a "
        "deadlock exits with 10. docs/simulator.md describes the model and all options.",
};

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

static void output_check(const char *path) {
  if (path && !is_stdout(path) && rondo_sim_text_may_save(path) != 0) {
    fprintf(stderr, "rondo-sim schedule: %s: %s\n", path, strerror(errno));
    exit(EX_CANTCREAT);
  }
}

static void output_write(const char *path, const struct rondo_sim_text *text) {
  if (is_stdout(path)) {
    fputs(rondo_sim_text_str(text), stdout);
  } else if (rondo_sim_text_save(text, path) != 0) {
    fprintf(stderr, "rondo-sim schedule: %s: %s\n", path, strerror(errno));
    exit(EX_CANTCREAT);
  }
}

static void progress_show(const struct rondo_schedule_machine *m) {
  struct rondo_schedule_totals t = rondo_schedule_machine_totals(m);
  fprintf(stderr, "\r%.3f ms of virtual time, %" PRIu64 " of %" PRIu64 " runs, %" PRIu64 " events ",
          (double)rondo_schedule_machine_now_ns(m) / 1e6, t.runs_ended, t.runs, t.events);
}

static void goal_progress_show(const struct rondo_schedule_goal *g) {
  struct rondo_schedule_goal_totals t = rondo_schedule_goal_totals(g);
  fprintf(stderr, "\r%.3f ms of virtual time, %" PRIu64 " of %" PRIu64 " operations ",
          (double)rondo_schedule_goal_now_ns(g) / 1e6, t.ops_done, t.ops);
}

static bool is_progress_shown(const struct arguments *a) {
  return a->progress > 0 || (a->progress == 0 && isatty(STDERR_FILENO));
}

// Runs the job, or the GOAL program, to its end, or until an interrupt. The other one is null.
static int job_run(const struct arguments *a, struct rondo_schedule_machine *m,
                   struct rondo_schedule_goal *g) {
  bool shows = is_progress_shown(a);
  time_t shown = time(NULL);
  int outcome = RONDO_SCHEDULE_RUNNING;
  while (outcome == RONDO_SCHEDULE_RUNNING && !atomic_load_explicit(&stop, memory_order_relaxed)) {
    outcome = m ? rondo_schedule_machine_run(m, EVENTS_A_TURN)
                : rondo_schedule_goal_run(g, EVENTS_A_TURN);
    if (shows && time(NULL) - shown >= PROGRESS_SECONDS) {
      shown = time(NULL);
      if (m) {
        progress_show(m);
      } else {
        goal_progress_show(g);
      }
    }
  }
  if (shows) {
    fputs("\r\033[K", stderr);
  }
  return outcome;
}

static void results_write(const struct arguments *a, const struct rondo_schedule_machine *m) {
  struct rondo_schedule_report report;
  struct rondo_schedule_story story = {0};
  struct rondo_sim_text text = {0};
  rondo_schedule_report_init(&report, &a->job, m);
  if (report.totals.outcome == RONDO_SCHEDULE_DEADLOCK &&
      rondo_schedule_explain(&a->job, m, &story)) {
    report.story = &story;
  }
  if (a->json) {
    rondo_schedule_report_json(&text, &report);
    output_write(a->json, &text);
    rondo_sim_text_clear(&text);
  }
  if (a->csv) {
    rondo_schedule_report_csv(&text, &report);
    output_write(a->csv, &text);
    rondo_sim_text_clear(&text);
  }
  if (a->html) {
    rondo_schedule_report_html(&text, &report, m);
    output_write(a->html, &text);
    rondo_sim_text_clear(&text);
  }
  if (!is_stdout(a->json) && !is_stdout(a->csv) && !is_stdout(a->html) && !is_stdout(a->trace)) {
    rondo_schedule_report_text(&text, &report);
    output_write("-", &text);
  }
  if (a->trace) {
    rondo_schedule_trace(&text, &a->job, m);
    output_write(a->trace, &text);
    rondo_sim_text_clear(&text);
  }
  if (a->svg && story.is_cycle) {
    output_write(a->svg, &story.svg);
  }
  if (a->dot && story.is_cycle) {
    output_write(a->dot, &story.dot);
  }
  rondo_sim_text_fini(&text);
  rondo_schedule_story_fini(&story);
  rondo_schedule_report_fini(&report);
}

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

// Runs a GOAL program and writes what came out. Returns the outcome.
static int goal_play(const struct arguments *a) {
  struct rondo_sim_error error;
  struct rondo_sim_text text = {0};
  if (a->not_goal) {
    (void)rondo_sim_refuse(&error, "%s: there is no such option for --goal", a->not_goal);
    command_fail(EX_USAGE, error.text);
  }
  double began = seconds_now();
  struct rondo_schedule_goal *g = rondo_schedule_goal_read(a->goal, &error);
  if (!g) {
    command_fail(EX_DATAERR, error.text);
  }
  double read = seconds_now();
  rondo_schedule_goal_begin(g, &a->job.goal);
  int outcome = job_run(a, NULL, g);
  if (a->progress > 0) {
    fprintf(stderr, "read in %.6f s, simulated in %.6f s\n", read - began, seconds_now() - read);
  }
  if (a->json) {
    rondo_schedule_goal_report_json(&text, g, a->goal);
    output_write(a->json, &text);
    rondo_sim_text_clear(&text);
  }
  if (!is_stdout(a->json)) {
    rondo_schedule_goal_report_text(&text, g, a->goal);
    output_write("-", &text);
  }
  rondo_sim_text_fini(&text);
  rondo_schedule_goal_destroy(g);
  return outcome;
}

// Takes the recorded turns again and says whether they are equal. Returns the exit status.
static int turns_play(const struct arguments *a) {
  struct rondo_sim_error error;
  struct rondo_sim_text text = {0};
  struct rondo_schedule_turns turns;
  if (a->not_turns) {
    (void)rondo_sim_refuse(&error, "%s: there is no such option for --turns", a->not_turns);
    command_fail(EX_USAGE, error.text);
  }
  if (!rondo_schedule_turns_read(&turns, a->turns, &error)) {
    command_fail(EX_DATAERR, error.text);
  }
  bool equal = rondo_schedule_turns_play(&turns, &text);
  if (equal) {
    rondo_schedule_turns_report(&text, &turns);
  }
  rondo_sim_text_add(&text, "turns: %s\n", equal ? "equal" : "different");
  output_write("-", &text);
  rondo_sim_text_fini(&text);
  rondo_schedule_turns_fini(&turns);
  return equal ? 0 : EXIT_DIFFERENT;
}

// Simulates the cells until an interrupt. Returns an outcome.
static int regret_run(const struct arguments *a, struct rondo_schedule_regret *regret) {
  bool shows = is_progress_shown(a);
  struct rondo_sim_error error;
  while (regret->count < regret->all && !atomic_load_explicit(&stop, memory_order_relaxed)) {
    if (!rondo_schedule_regret_next(regret, &a->job, &stop, &error)) {
      command_fail(EX_USAGE, error.text);
    }
    if (shows) {
      fprintf(stderr, "\r%" PRIu32 " of %" PRIu32 " collectives ", regret->count, regret->all);
    }
  }
  if (shows) {
    fputs("\r\033[K", stderr);
  }
  return regret->count == regret->all ? RONDO_SCHEDULE_DONE : RONDO_SCHEDULE_RUNNING;
}

// Writes how well the cost model chooses. Returns an outcome.
static int regret_play(const struct arguments *a) {
  struct rondo_sim_error error;
  struct rondo_sim_text text = {0};
  struct rondo_schedule_regret regret;
  if (a->not_regret) {
    (void)rondo_sim_refuse(&error, "%s: there is no such option for --regret", a->not_regret);
    command_fail(EX_USAGE, error.text);
  }
  rondo_schedule_regret_init(&regret, a->job.has_ranks ? a->job.settings.rank_count : 64);
  int outcome = regret_run(a, &regret);
  if (a->json) {
    rondo_schedule_regret_json(&text, &regret);
    output_write(a->json, &text);
    rondo_sim_text_clear(&text);
  }
  if (!is_stdout(a->json)) {
    rondo_schedule_regret_text(&text, &regret);
    output_write("-", &text);
  }
  rondo_sim_text_fini(&text);
  rondo_schedule_regret_fini(&regret);
  return outcome;
}

static int job_play(struct arguments *a) {
  struct rondo_sim_error error;
  struct rondo_schedule_machine *m = rondo_schedule_job_make(&a->job, &error);
  if (!m) {
    command_fail(EX_USAGE, error.text);
  }
  int outcome = job_run(a, m, NULL);
  results_write(a, m);
  rondo_schedule_machine_destroy(m);
  return outcome;
}

int rondo_sim_schedule_main(int argc, char **argv) {
  struct arguments a = {0};
  options_number();
  rondo_schedule_job_init(&a.job);
  argp_parse(&parser, argc, argv, 0, NULL, &a);
  if (a.job.goal.messages_take_gap && !a.goal) {
    command_fail(EX_USAGE, "message-gap: is only for --goal");
  }
  if (a.turns) {
    rondo_schedule_job_fini(&a.job);
    return turns_play(&a);
  }
  output_check(a.json);
  output_check(a.csv);
  output_check(a.html);
  output_check(a.trace);
  output_check(a.svg);
  output_check(a.dot);
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  int outcome = a.goal ? goal_play(&a) : a.regret ? regret_play(&a) : job_play(&a);
  rondo_schedule_job_fini(&a.job);
  return outcome == RONDO_SCHEDULE_DONE       ? 0
         : outcome == RONDO_SCHEDULE_DEADLOCK ? EXIT_DEADLOCK
                                              : EXIT_INTERRUPTED;
}
