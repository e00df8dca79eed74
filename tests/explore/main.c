// The explorer: seeds by the thousand, one seed with a trace, planted faults, the baseline.
#include <argp.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "adapters/nccl/explore.h"
#include "base/explore.h"
#include "tests/explore/machine.h"
#include "tests/explore/record.h"
#include "tests/support/load.h"

#define FAULT_SECONDS 50u
#define PROGRESS_SEEDS 25000u // of long explorations

struct options {
  uint64_t first, count;
  const char *fault;
  const char *hastened;
  const char *record;                        // a file for the turns of one seed, or null
  void (*hasten)(struct explore_program *p); // or null
  int is_single, trace, baseline, comms, nccl, looks;
};

static struct explore_machine machine;

static const char *const faults[] = {
    "none",
    "context_not_saved",
    "credit_twice",
    "lap_mark_off",
    "budget_never_ends",
    "quit_drops_work",
    "quit_holds_half_done",
    "quit_does_not_save",
    "sqe_before_callback",
    "publish_before_data",
    "credit_before_read",
    "no_drain",
    "stale_slot",
    "cqe_early",
    "sq_overrun",
    "lost_wakeup",
    "start_at_front",
    "overflow_passed",
    "save_after_post",
    "shut_unseen",
    "read_not_validated",
    "doorbell_ignored",
    "stream_early",
    "owed_ignored",
    "failure_untold",
    "even_forgotten",
    "last_peer_alone",
    "journal_unread",
    "journal_skips",
    "comm_fails_alone",
    "evicts_idle",
    "empty_untold",
    "counts_unchecked",
    "parts_kept",
    "close_uncounted",
    "mirror_early",
    "pieces_early",
    "loss_untold",
    "link_set_asleep",
    "cache_loose",
    "journal_unsent",
    "wait_stale",
    "look_from_front",
    "spins_in_vain",
    "flag_lost",
    "flag_before_data",
    "flag_of_other",
    "cqe_half_read",
    "packets_unnumbered",
    "packets_half_read",
    "packets_early",
    "moves_unfinished",
    "offers_unchecked",
    "lent_early",
    // Of a mirror, which only devices have: ptx.mutation_*.
    "exit_not_mirrored",
    "gate_not_mirrored",
    "mark_before_entry",
    // The next ones: agree.c.
    "agreed_early",
    "over_early",
    "limit_untold",
    "mismatch_unseen",
    "groups_uncompared",
    "gone_unnoticed",
    "leaves_silently",
    "left_unnoticed",
    "orphans_forgotten",
    "forgotten_early",
    "proposal_kept",
    // Of the control plane: tests/explore/members.c.
    "minority_opens",
    "old_epoch_taken",
    "ballot_ignored",
    "accepted_forgotten",
    "record_after_reply",
    "removals_unordered",
    "late_observer_counts",
    "one_observer",
    "report_once",
    // Of a job that grows: tests/explore/test_grow.c.
    "cancelled_late",
    "cancel_forgotten",
    "newcomers_forgotten",
    "votes_uncompared",
    // Of runs that are taken up again: tests/explore/test_retry.c.
    "retry_commits_early",
    "retry_forgets_staged",
    "retry_ignores_flush",
};
_Static_assert(sizeof faults / sizeof *faults == RONDO_FAULT_COUNT, "a name for each fault");

// Of the drop-in libnccl.
static const char *const nccl_faults[] = {
    "none",       "group_reversed",   "group_drops",  "self_send_crossed", "mismatch_hidden",
    "done_early", "split_unnumbered", "keys_ignored", "parent_ranks",      "factor_forgotten",
};
_Static_assert(sizeof nccl_faults / sizeof *nccl_faults == RONDO_NCCL_FAULT_COUNT,
               "a name for each fault");

static int run_seed(uint64_t seed, const struct options *o) {
  if (o->nccl)
    explore_machine_init_nccl(&machine, seed, o->baseline, o->trace);
  else if (o->comms)
    explore_machine_init_comms(&machine, seed, o->trace);
  else
    explore_machine_init(&machine, seed, o->hasten, o->baseline, o->trace);
  machine.never_preempts = o->baseline;
  (void)explore_machine_run(&machine);
  int verdict = machine.verdict;
  (void)explore_machine_fini(&machine);
  return verdict ? verdict : machine.verdict;
}

// Runs the seed and records the turns of its blocks.
static int run_recorded(const struct options *o) {
  explore_machine_init(&machine, o->first, explore_record_prepare, 0, o->trace);
  if (explore_record_begin(&machine, o->record)) {
    fprintf(stderr, "%s: %s\n", o->record, strerror(errno));
    return 2;
  }
  (void)explore_machine_run(&machine);
  if (explore_record_end(&machine)) {
    fprintf(stderr, "%s: cannot be written\n", o->record);
    return 2;
  }
  if (machine.verdict || explore_machine_fini(&machine)) {
    printf("seed %llu: %s\n", (unsigned long long)o->first, machine.finding);
    return 1;
  }
  return 0;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// ---------------------------------------------------------------------- seeds -

static int run_seeds(const struct options *o) {
  double begun = seconds();
  uint64_t steps = 0;
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    if (run_seed(seed, o)) {
      printf("seed %llu: %s\nreplay: test_explore %s%s%s--seed %llu --trace\n",
             (unsigned long long)seed, machine.finding, o->hastened ? "--hasten " : "",
             o->hastened ? o->hastened : "", o->hastened ? " " : "", (unsigned long long)seed);
      return 1;
    }
    steps += machine.steps;
    if ((seed + 1 - o->first) % PROGRESS_SEEDS == 0) {
      printf("%llu of %llu seeds, %.0f s\n", (unsigned long long)(seed + 1 - o->first),
             (unsigned long long)o->count, seconds() - begun);
      (void)fflush(stdout);
    }
  }
  double took = seconds() - begun;
  printf("%llu seeds, %.1f million steps, all exact; %.1f s, %.0f seeds/s\n",
         (unsigned long long)o->count, (double)steps / 1e6, took, (double)o->count / took);
  return 0;
}

// ------------------------------------------------------------------- baseline -

// Without preemption a good share of the programs must stand still, or the harness proves nothing.
static int run_baseline(const struct options *o) {
  uint64_t stuck = 0;
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    int verdict = run_seed(seed, o);
    stuck += verdict == EXPLORE_STUCK;
    if (verdict == EXPLORE_WRONG || machine.verdict) {
      printf("seed %llu: %s\n", (unsigned long long)seed, machine.finding);
      return 1;
    }
  }
  printf("without preemption %llu of %llu seeds deadlock\n", (unsigned long long)stuck,
         (unsigned long long)o->count);
  return stuck * 5 < o->count;
}

// ---------------------------------------------------------------------- looks -

static uint32_t study_look_ns; // of the seeds that run now

static void make_calm(struct explore_program *p) {
  explore_program_calm(p);
  p->cfg.tuning.look_ns = study_look_ns;
}

// Runs the seeds with one look_ns and one cost of a load. Returns 0, or 1 if one found something.
static int run_calm(const struct options *o, uint64_t load_ns, uint64_t *took_ns, uint64_t *loads) {
  *took_ns = *loads = 0;
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    explore_machine_init(&machine, seed, make_calm, 0, 0);
    machine.load_ns = load_ns;
    (void)explore_machine_run(&machine);
    *took_ns += machine.now_ns;
    *loads += machine.loads;
    if (machine.verdict || explore_machine_fini(&machine)) {
      printf("seed %llu: %s\n", (unsigned long long)seed, machine.finding);
      return 1;
    }
  }
  return 0;
}

// How long programs take in virtual time, by how long a block probes a stuck collective before it
// leaves it for one that is ready, and by how long it takes to load a context.
static int run_looks(const struct options *o) {
  static const uint32_t looks_ns[] = {1, 1000, 4000, 16000, 64000};
  static const uint64_t loads_ns[] = {0, 500, 2000, 8000, 32000};
  printf("virtual time of %llu programs, that of look_ns 1 being 100 (contexts loaded)\n",
         (unsigned long long)o->count);
  printf("%18s", "a load takes");
  for (uint32_t k = 0; k < sizeof looks_ns / sizeof *looks_ns; k++)
    printf("   look_ns %6u", looks_ns[k]);
  for (uint32_t i = 0; i < sizeof loads_ns / sizeof *loads_ns; i++) {
    double first_ns = 0;
    printf("\n%15llu ns", (unsigned long long)loads_ns[i]);
    for (uint32_t k = 0; k < sizeof looks_ns / sizeof *looks_ns; k++) {
      uint64_t took_ns, loads;
      study_look_ns = looks_ns[k];
      if (run_calm(o, loads_ns[i], &took_ns, &loads))
        return 1;
      first_ns = k ? first_ns : (double)took_ns;
      printf("  %5.1f (%7llu)", 100 * (double)took_ns / first_ns, (unsigned long long)loads);
      (void)fflush(stdout);
    }
  }
  putchar('\n');
  return 0;
}

// --------------------------------------------------------------------- faults -

struct catch {
  uint64_t seed;
  int verdict;
  char finding[256];
};

// In a child of its own, as a fault may end in a crash or in a loop.
static void hunt(const struct options *o, struct catch *caught) {
  alarm(FAULT_SECONDS);
  for (uint64_t seed = o->first; seed < o->first + o->count; seed++) {
    caught->seed = seed;
    caught->verdict = run_seed(seed, o);
    if (caught->verdict) {
      memcpy(caught->finding, machine.finding, sizeof caught->finding);
      _exit(1);
    }
  }
  _exit(0);
}

// The number of a name, or `count`.
static int find_fault(const char *const *names, int count, const char *name) {
  int fault = 1;
  while (fault < count && strcmp(names[fault], name) != 0)
    fault++;
  return fault;
}

static int plant(const char *name) {
  int fault = find_fault(faults, RONDO_FAULT_COUNT, name);
  int nccl_fault = find_fault(nccl_faults, RONDO_NCCL_FAULT_COUNT, name);
  if (fault < RONDO_FAULT_COUNT)
    rondo_fault_planted = fault;
  else if (nccl_fault < RONDO_NCCL_FAULT_COUNT)
    rondo_nccl_fault_planted = nccl_fault;
  else
    return 0;
  return 1;
}

static int run_fault(const struct options *o) {
  if (!plant(o->fault)) {
    fprintf(stderr, "no such fault: %s\n", o->fault);
    return 2;
  }
  struct catch *caught =
      mmap(NULL, sizeof *caught, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (caught == MAP_FAILED)
    return 2;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0)
    hunt(o, caught);
  int state = 0;
  if (child < 0 || waitpid(child, &state, 0) != child)
    return 2;
  unsigned long long seed = caught->seed;
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM) {
    printf("%s: seed %llu runs for ever: not caught by a check\n", o->fault, seed);
    return 1;
  }
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0) {
    printf("%s: NOT caught by %llu seeds\n", o->fault, (unsigned long long)o->count);
    return 1;
  }
  if (WIFSIGNALED(state) || !caught->verdict)
    printf("%s: caught by seed %llu: crashed, %s\n", o->fault, seed,
           WIFSIGNALED(state) ? strsignal(WTERMSIG(state)) : "sanitizer");
  else
    printf("%s: caught by seed %llu: %s, %s\n", o->fault, seed,
           caught->verdict == EXPLORE_STUCK ? "stuck" : "wrong", caught->finding);
  return 0;
}

// -------------------------------------------------------------------- options -

static const struct argp_option arguments[] = {
    {"seeds", 'n', "COUNT", 0, "run COUNT seeds", 0},
    {"first", 'f', "SEED", 0, "begin with this one", 0},
    {"seed", 's', "SEED", 0, "run this one alone", 0},
    {"trace", 't', NULL, 0, "print who acts and what it does", 0},
    {"fault", 'x', "NAME", 0, "plant a fault; succeed if it is caught", 0},
    {"comms", 'c', NULL, 0, "calls of communicators instead of collectives with ids", 0},
    {"hasten", 'h', "WHAT", 0,
     "programs in which `ends' of runs, or `cuts' of links, meet much, machines have several "
     "`ports', or messages are `packets' or `quantised'",
     0},
    {"nccl", 'l', NULL, 0, "programs on the drop-in libnccl instead", 0},
    {"record", 'r', "FILE", 0,
     "write the turns of the seed's blocks, without what the schedule simulator has not", 0},
    {"looks", 'k', NULL, 0, "how long programs take, by look_ns and by what a context costs", 0},
    {"baseline", 'b', NULL, 0, "without preemption; succeed if enough seeds deadlock", 0},
    {0}};

static error_t parse(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  switch (key) {
  case 'n':
    o->count = strtoull(text, NULL, 10);
    return 0;
  case 'f':
    o->first = strtoull(text, NULL, 10);
    return 0;
  case 's':
    o->first = strtoull(text, NULL, 10);
    o->count = 1;
    o->is_single = 1;
    return 0;
  case 't':
    o->trace = 1;
    return 0;
  case 'x':
    o->fault = text;
    return 0;
  case 'c':
    o->comms = 1;
    return 0;
  case 'l':
    o->nccl = 1;
    return 0;
  case 'r':
    o->record = text;
    return 0;
  case 'k':
    o->looks = 1;
    return 0;
  case 'b':
    o->baseline = 1;
    return 0;
  case 'h':
    o->hastened = text;
    o->hasten = strcmp(text, "ends") == 0        ? explore_program_hasten_ends
                : strcmp(text, "cuts") == 0      ? explore_program_hasten_cuts
                : strcmp(text, "ports") == 0     ? explore_program_hasten_ports
                : strcmp(text, "packets") == 0   ? explore_program_hasten_packets
                : strcmp(text, "quantised") == 0 ? explore_program_hasten_quantised
                                                 : NULL;
    if (!o->hasten)
      argp_error(state, "nothing to hasten: %s", text);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

int main(int argc, char **argv) {
  static const struct argp argp = {
      arguments, parse, NULL, "Explores interleavings of Rondo's daemon, each by its seed.",
      NULL,      NULL,  NULL};
  struct options o = {.count = 1000};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  // Seeds make and free the same large pieces: keep them, instead of mapping them anew.
  (void)mallopt(M_MMAP_THRESHOLD, 256 << 20);
  (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (!o.trace)
    (void)setenv("RONDO_LOG", "off", 1);
  if (!o.is_single)
    o.count = rondo_test_load(o.count, o.count / 20 + 1);
  if (o.record)
    return run_recorded(&o);
  if (o.fault)
    return run_fault(&o);
  if (o.looks)
    return run_looks(&o);
  return o.baseline && !o.is_single ? run_baseline(&o) : run_seeds(&o);
}
