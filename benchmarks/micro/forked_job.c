#include "benchmarks/micro/forked_job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/kit/thread_group.h"

#define LONG_NS INT64_C(300000000000)

struct process {
  const struct rondo_forked_job *job;
  struct rondo_config cfg;
  uint32_t first; // rank
  void *shared;
};

static void rank_main(void *arg, uint32_t thread) {
  const struct process *p = arg;
  struct rondo_config cfg = p->cfg;
  struct rondo_context ctx;
  uint32_t rank = p->first + thread;
  cfg.rank = rank;
  if (rondo_init(&ctx, &cfg) != RONDO_SUCCESS ||
      rondo_wait_ready(ctx, LONG_NS, NULL, 0, NULL) != RONDO_SUCCESS ||
      !p->job->main(ctx, rank, p->shared, p->job->arg) ||
      rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS) != RONDO_SUCCESS) {
    fprintf(stderr, "rank %u failed\n", rank);
    _exit(1);
  }
}

static void process_main(const struct rondo_forked_job *job, uint32_t first, void *shared) {
  struct process p = {.job = job, .cfg = RONDO_CONFIG_INIT, .first = first, .shared = shared};
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (job->has_processes) {
    char rank[16];
    (void)snprintf(rank, sizeof rank, "%u", first);
    (void)setenv("RONDO_RANK", rank, 1);
    p.cfg.rank_count = RONDO_RANKS_OF_LAUNCHER;
    if (rondo_config_complete(&p.cfg) != RONDO_SUCCESS)
      _exit(1);
    rank_main(&p, 0);
    _exit(0);
  }
  const struct rondo_kit_thread_group group = {job->ranks, false, rank_main, &p};
  p.cfg.rank_count = job->ranks;
  if (rondo_unique_id_create(&p.cfg.id) != RONDO_SUCCESS || rondo_kit_thread_group_run(&group))
    _exit(1);
  _exit(0);
}

static void environment_set(uint32_t ranks) {
  static uint32_t jobs;
  char number[16];
  char name[32];
  (void)snprintf(number, sizeof number, "%u", ranks);
  (void)snprintf(name, sizeof name, "bench-%ld-%u", (long)getpid(), jobs++);
  (void)setenv("RONDO_RANK_COUNT", number, 1);
  (void)setenv("RONDO_JOB", name, 1);
  (void)setenv("RONDO_ROOT", "localhost", 1);
}

// Waits for all processes. If one fails, kills the others.
static bool processes_reap(const pid_t *pids, uint32_t count) {
  bool is_good = true;
  for (uint32_t left = count; left; left--) {
    int status = 0;
    (void)wait(&status);
    bool failed = !WIFEXITED(status) || WEXITSTATUS(status);
    for (uint32_t i = 0; i < count && failed && is_good; i++)
      (void)kill(pids[i], SIGKILL);
    is_good = is_good && !failed;
  }
  return is_good;
}

bool rondo_forked_job_run(const struct rondo_forked_job *job, void *result) {
  pid_t pids[RONDO_FORKED_MAX_RANKS];
  uint32_t processes = job->has_processes ? job->ranks : 1;
  uint32_t started = 0;
  void *shared =
      mmap(NULL, job->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || job->ranks > RONDO_FORKED_MAX_RANKS)
    return false;
  memcpy(shared, result, job->shared_bytes);
  environment_set(job->ranks);
  (void)fflush(NULL); // or each child would write it too
  for (; started < processes; started++) {
    pids[started] = fork();
    if (pids[started] < 0)
      break;
    if (!pids[started])
      process_main(job, started, shared);
  }
  bool is_good = processes_reap(pids, started) && started == processes;
  memcpy(result, shared, job->shared_bytes);
  munmap(shared, job->shared_bytes);
  return is_good;
}
