// How long a job of many processes takes to start, to register, to run and to end.
//
//   bench_processes [--collectives=N] [--ranks=N] [--rounds=N] [PROCESSES ...]
//
// Each process is started by posix_spawn, so that loading the library counts too, and has --ranks
// ranks, each on a thread of its own. Each rank registers all collectives, all-reduces of 64 bytes
// in the group of all ranks, in an order of its own; runs each once, in another order; checks the
// results; and leaves. The table shows the seconds from the first start until the last rank has
// done the step: medians over the rounds. `sockets` and `threads` are the most that any process had
// after its runs, `MiB` the largest resident memory of a process, shared memory included. `heap
// KiB` is the most that any process but the first has allocated between its start and `ready`, and
// `root KiB` what the first one has: what a job costs them.
//
// Exit status: 1 if a process failed or a result was wrong.
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/kit/options.h"
#include "tools/kit/permute.h"
#include "tools/kit/stats.h"
#include <rondo/rondo.h>

#define MAX_RANKS 1024u // of a job
#define MAX_SIZES 8u
#define MAX_ROUNDS 100u
#define MAX_COLLECTIVES 100000u
#define ELEMENTS 8u // of 64 bits
#define LONG_NS INT64_C(300000000000)

enum step { LOADED, INIT, READY, REGISTERED, RUN, ENDED, REAPED, STEPS };
static const char *const step_names[] = {"loaded", "init", "ready", "registered",
                                         "run",    "end",  "reaped"};

// What a rank reports, in memory that its process shares with the parent.
struct report {
  uint64_t at_ns[STEPS];
  uint32_t sockets, threads;
  uint64_t heap_bytes; // allocated from the start of its process until `ready`
};

struct options {
  uint32_t collectives, ranks, rounds;
  uint32_t sizes[MAX_SIZES]; // numbers of processes
  uint32_t size_count;
  uint32_t child; // descriptor of the shared memory; 0: this is the parent
};

// ------------------------------------------------------------------- a rank ---

static uint32_t sockets_count(void) {
  DIR *folder = opendir("/proc/self/fd");
  uint32_t count = 0;
  if (!folder)
    return 0;
  for (const struct dirent *entry; (entry = readdir(folder));) {
    char text[16] = "";
    count += readlinkat(dirfd(folder), entry->d_name, text, sizeof text - 1) > 0 &&
             strncmp(text, "socket:", 7) == 0;
  }
  (void)closedir(folder);
  return count;
}

static uint32_t threads_count(void) {
  DIR *folder = opendir("/proc/self/task");
  uint32_t count = 0;
  if (!folder)
    return 0;
  for (const struct dirent *entry; (entry = readdir(folder));)
    count += entry->d_name[0] != '.';
  (void)closedir(folder);
  return count;
}

// Bytes that the process has allocated.
static uint64_t heap_bytes(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

struct rank {
  struct rondo_context ctx;
  struct rondo_config cfg;
  struct report *report;
  uint32_t count; // of collectives
  struct rondo_collective *colls;
  uint32_t *order;
  int64_t (*send)[ELEMENTS], (*recv)[ELEMENTS];
};

static bool rank_alloc(struct rank *r, uint32_t count) {
  r->count = count;
  r->colls = calloc(count, sizeof *r->colls);
  r->order = calloc(count, sizeof *r->order);
  r->send = calloc(count, sizeof *r->send);
  r->recv = calloc(count, sizeof *r->recv);
  return r->colls && r->order && r->send && r->recv;
}

static bool rank_register(struct rank *r) {
  const struct rondo_kit_permutation own = {.seed = 1, .rank = r->cfg.rank};
  rondo_kit_permute(&own, r->count, r->order);
  for (uint32_t i = 0; i < r->count; i++) {
    uint32_t at = r->order[i];
    const struct rondo_collective_desc d = rondo_all_reduce(at, ELEMENTS, RONDO_INT64, RONDO_SUM);
    if (rondo_register(r->ctx, &d, &r->colls[at]) != RONDO_SUCCESS)
      return false;
  }
  return true;
}

// Runs every collective once. False if one fails or a result is wrong.
static bool rank_run(struct rank *r) {
  int64_t ranks = r->cfg.rank_count;
  const struct rondo_kit_permutation own = {.seed = 2, .rank = r->cfg.rank};
  rondo_kit_permute(&own, r->count, r->order);
  for (uint32_t i = 0; i < r->count; i++) {
    uint32_t at = r->order[i];
    for (uint32_t k = 0; k < ELEMENTS; k++)
      r->send[at][k] = (int64_t)r->cfg.rank + at + k;
    if (rondo_run(r->ctx, r->colls[at], r->send[at], r->recv[at], NULL, NULL) != RONDO_SUCCESS)
      return false;
  }
  for (uint32_t at = 0; at < r->count; at++) {
    if (rondo_wait(r->ctx, r->colls[at], RONDO_LAST_RUN, LONG_NS) != RONDO_SUCCESS)
      return false;
    for (uint32_t k = 0; k < ELEMENTS; k++)
      if (r->recv[at][k] != ranks * (ranks - 1) / 2 + ranks * (int64_t)(at + k))
        return false;
  }
  return true;
}

// Does a step and notes when it was done. Ends the process if it failed.
static void rank_step(struct report *report, enum step step, bool is_done) {
  if (!is_done) {
    fprintf(stderr, "bench_processes: pid %ld: failed at \"%s\"\n", (long)getpid(),
            step_names[step]);
    _exit(1);
  }
  report->at_ns[step] = rondo_now_ns();
}

static void *rank_main(void *arg) {
  struct rank *r = arg;
  struct report *report = r->report;
  uint64_t before_bytes = heap_bytes();
  rank_step(report, INIT, rondo_init(&r->ctx, &r->cfg) == RONDO_SUCCESS);
  int ready = rondo_wait_ready(r->ctx, LONG_NS, NULL, 0, NULL);
  bool may_be_late = ready == RONDO_ERR_PEER && !r->count; // the others have nothing to do
  rank_step(report, READY, ready == RONDO_SUCCESS || may_be_late);
  report->heap_bytes = heap_bytes() - before_bytes;
  rank_step(report, REGISTERED, rank_register(r));
  rank_step(report, RUN, rank_run(r));
  report->sockets = sockets_count();
  report->threads = threads_count();
  rank_step(report, ENDED, rondo_destroy(r->ctx, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
  return NULL;
}

static int child_main(const struct options *o) {
  static struct rank ranks[MAX_RANKS];
  static pthread_t threads[MAX_RANKS];
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  uint64_t loaded_ns = rondo_now_ns();
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct report *reports =
      mmap(NULL, MAX_RANKS * sizeof *reports, PROT_READ | PROT_WRITE, MAP_SHARED, (int)o->child, 0);
  cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
  if (reports == MAP_FAILED || rondo_config_complete(&cfg) != RONDO_SUCCESS)
    _exit(1);
  for (uint32_t i = 0; i < o->ranks; i++) {
    ranks[i].cfg = cfg;
    ranks[i].cfg.rank += i;
    ranks[i].report = &reports[cfg.rank + i];
    ranks[i].report->at_ns[LOADED] = loaded_ns;
    if (!rank_alloc(&ranks[i], o->collectives))
      _exit(1);
  }
  for (uint32_t i = 1; i < o->ranks; i++)
    if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]))
      _exit(1);
  (void)rank_main(&ranks[0]);
  for (uint32_t i = 1; i < o->ranks; i++)
    (void)pthread_join(threads[i], NULL);
  return 0;
}

// --------------------------------------------------------------- the parent ---

// One start of a job.
struct round {
  uint64_t at_ns[STEPS]; // the last process's, since the first start
  uint32_t sockets, threads;
  uint64_t heap_bytes, root_bytes, memory_kib;
};

// Returns the process's id, or 0 if it could not be started.
static pid_t process_start(char *program, uint32_t process, const struct options *o, int fd) {
  char number[16];
  char child[32];
  char collectives[32];
  char ranks[32];
  char *argv[] = {program, child, collectives, ranks, NULL};
  pid_t pid;
  (void)snprintf(number, sizeof number, "%u", process * o->ranks);
  (void)snprintf(child, sizeof child, "--child=%d", fd);
  (void)snprintf(collectives, sizeof collectives, "--collectives=%u", o->collectives);
  (void)snprintf(ranks, sizeof ranks, "--ranks=%u", o->ranks);
  (void)setenv("RONDO_RANK", number, 1);
  return posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) ? 0 : pid;
}

static void environment_set(uint32_t count, uint32_t job) {
  char number[16];
  char name[32];
  (void)snprintf(number, sizeof number, "%u", count);
  (void)snprintf(name, sizeof name, "bench-%ld-%u", (long)getpid(), job);
  (void)setenv("RONDO_RANK_COUNT", number, 1);
  (void)setenv("RONDO_JOB", name, 1);
  (void)setenv("RONDO_ROOT", "localhost", 1);
}

// Waits for all processes. If one fails, kills the others.
static bool processes_reap(pid_t *pids, uint32_t count, struct round *round) {
  bool is_good = true;
  for (uint32_t left = count; left; left--) {
    struct rusage usage;
    int status;
    pid_t pid = wait4(-1, &status, 0, &usage);
    for (uint32_t i = 0; i < count; i++) {
      if (pids[i] == pid)
        pids[i] = 0;
      else if (is_good && pids[i] && (!WIFEXITED(status) || WEXITSTATUS(status)))
        (void)kill(pids[i], SIGKILL);
    }
    is_good = is_good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if ((uint64_t)usage.ru_maxrss > round->memory_kib)
      round->memory_kib = (uint64_t)usage.ru_maxrss;
  }
  return is_good;
}

static bool job_run(char *program, const struct options *o, uint32_t count, struct round *round) {
  static pid_t pids[MAX_RANKS];
  static uint32_t jobs;
  size_t bytes = MAX_RANKS * sizeof(struct report);
  int fd = memfd_create("bench", 0);
  struct report *reports = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
    reports = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (reports == MAP_FAILED)
    return false;
  memset(round, 0, sizeof *round);
  environment_set(count * o->ranks, jobs++);
  uint64_t begin_ns = rondo_now_ns();
  uint32_t started = 0;
  while (started < count && (pids[started] = process_start(program, started, o, fd)) != 0)
    started++;
  bool is_good = processes_reap(pids, started, round) && started == count;
  round->at_ns[REAPED] = rondo_now_ns() - begin_ns;
  for (uint32_t i = 0; i < count * o->ranks && is_good; i++) {
    for (int step = 0; step < REAPED; step++)
      if (reports[i].at_ns[step] - begin_ns > round->at_ns[step])
        round->at_ns[step] = reports[i].at_ns[step] - begin_ns;
    round->sockets = reports[i].sockets > round->sockets ? reports[i].sockets : round->sockets;
    round->threads = reports[i].threads > round->threads ? reports[i].threads : round->threads;
    uint64_t *heap_bytes = i < o->ranks ? &round->root_bytes : &round->heap_bytes;
    *heap_bytes = reports[i].heap_bytes > *heap_bytes ? reports[i].heap_bytes : *heap_bytes;
  }
  munmap(reports, bytes);
  close(fd);
  return is_good;
}

static void rounds_print(uint32_t count, const struct round *rounds, uint32_t round_count) {
  uint64_t times_ns[MAX_ROUNDS];
  const struct round *last = &rounds[round_count - 1];
  printf("%9u", count);
  for (int step = 0; step < STEPS; step++) {
    for (uint32_t k = 0; k < round_count; k++)
      times_ns[k] = rounds[k].at_ns[step];
    printf(" %10.3f", rondo_kit_stats_of(times_ns, round_count).median_ns / 1e9);
  }
  printf(" %8u %8u %9.0f %9.0f %6.1f\n", last->sockets, last->threads,
         (double)last->heap_bytes / 1024, (double)last->root_bytes / 1024,
         (double)last->memory_kib / 1024);
  fflush(stdout);
}

static bool size_read(const char *text, unsigned number, void *values) {
  struct options *o = values;
  o->size_count = number + 1;
  return number < MAX_SIZES && rondo_kit_read_u32(text, 1, MAX_RANKS, &o->sizes[number]);
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"collectives", 'c', "N", "Collectives that each process registers and runs (default 10)",
       RONDO_KIT_U32, offsetof(struct options, collectives), .low = 0, .high = MAX_COLLECTIVES},
      {"ranks", 't', "N", "Ranks of each process, one thread each (default 1)", RONDO_KIT_U32,
       offsetof(struct options, ranks), .low = 1, .high = MAX_RANKS},
      {"rounds", 'r', "N", "How often each job is started (default 5)", RONDO_KIT_U32,
       offsetof(struct options, rounds), .low = 1, .high = MAX_ROUNDS},
      {"child", 0, "FD", "Be a process of the job; for the program's own use", RONDO_KIT_U32,
       offsetof(struct options, child), .low = 1, .high = UINT32_MAX},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .read_argument = size_read,
      .args_doc = "[PROCESSES ...]",
      .doc = "Measures how long jobs of many processes take to start, register, run and end."};
  static struct round rounds[MAX_ROUNDS];
  struct options o = {
      .collectives = 10, .ranks = 1, .rounds = 5, .sizes = {16, 64, 256}, .size_count = 3};
  rondo_kit_command_read(&command, argc, argv, &o);
  if (o.child)
    return child_main(&o);
  for (uint32_t i = 0; i < o.size_count; i++) {
    if (o.sizes[i] > MAX_RANKS / o.ranks) {
      fprintf(stderr, "bench_processes: %u processes with %u ranks each: at most %u ranks\n",
              o.sizes[i], o.ranks, MAX_RANKS);
      return 2;
    }
  }
  printf("processes");
  for (int step = 0; step < STEPS; step++)
    printf(" %10s", step_names[step]);
  printf("  sockets  threads  heap KiB  root KiB    MiB\n");
  for (uint32_t i = 0; i < o.size_count; i++) {
    for (uint32_t k = 0; k < o.rounds; k++) {
      if (!job_run(argv[0], &o, o.sizes[i], &rounds[k])) {
        fprintf(stderr, "bench_processes: a job of %u processes failed\n", o.sizes[i]);
        return 1;
      }
    }
    rounds_print(o.sizes[i], rounds, o.rounds);
  }
  return 0;
}
