#include "sim/deadlock/run_rounds.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/common/text.h"

#define RONDO_SIM_TELL_NS 200000000L

// Rounds of one grouping, shared by the workers.
struct job {
  const struct rondo_sim_config *config;
  const struct rondo_sim_layout *layout;
  enum rondo_sim_variant variant;
  uint32_t grouping;
  uint64_t rounds, block;
  const struct rondo_sim_watch *watch;
  atomic_uint_fast64_t next, done;
};

struct worker {
  struct job *job;
  pthread_t id;
  struct rondo_sim_tally tally;
};

static void tally_add(struct rondo_sim_tally *to, const struct rondo_sim_tally *from) {
  to->rounds += from->rounds;
  to->deadlocks += from->deadlocks;
  to->first_deadlock =
      from->first_deadlock < to->first_deadlock ? from->first_deadlock : to->first_deadlock;
}

// Every thread reads the flag and a signal handler writes it: it is atomic and needs no order.
static bool watch_stopped(const struct rondo_sim_watch *watch) {
  return atomic_load_explicit(watch->stop, memory_order_relaxed);
}

static void *worker_run(void *arg) {
  struct worker *worker = arg;
  struct job *job = worker->job;
  struct rondo_sim_round r;
  uint64_t first;
  rondo_sim_round_init(&r, job->config, job->layout, job->variant, job->grouping);
  while ((first = atomic_fetch_add_explicit(&job->next, job->block, memory_order_relaxed)) <
             job->rounds &&
         !watch_stopped(job->watch)) {
    uint64_t end = first + job->block < job->rounds ? first + job->block : job->rounds;
    for (uint64_t round = first; round < end && !watch_stopped(job->watch); round++) {
      bool deadlock = rondo_sim_round_decide(&r, round);
      tally_add(&worker->tally,
                &(struct rondo_sim_tally){1, deadlock, deadlock ? round : UINT64_MAX});
    }
    atomic_fetch_add_explicit(&job->done, end - first, memory_order_relaxed);
  }
  rondo_sim_round_fini(&r);
  return NULL;
}

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

// Waits for a worker and reports progress meanwhile.
static void worker_join(const struct worker *worker, const struct rondo_sim_outcome *out,
                        const struct timespec *start) {
  struct job *job = worker->job;
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += RONDO_SIM_TELL_NS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    if (pthread_timedjoin_np(worker->id, NULL, &until) != ETIMEDOUT) {
      return;
    }
    if (job->watch->told) {
      job->watch->told(job->watch->arg, out->total.rounds + atomic_load(&job->done), out->planned,
                       seconds_since(start));
    }
  }
}

uint32_t rondo_sim_threads(const struct rondo_sim_config *c) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return c->threads > 0 ? (uint32_t)c->threads : online > 0 ? (uint32_t)online : 1;
}

// A block is small enough that all threads end together, and large enough that the counter is
// rarely contended.
static uint64_t block_of(uint64_t rounds, uint32_t threads) {
  uint64_t block = rounds / threads / 64;
  return block < 1 ? 1 : block > 256 ? 256 : block;
}

static void run_job(struct job *job, uint32_t threads, const struct rondo_sim_outcome *out,
                    const struct timespec *start, struct rondo_sim_tally *tally) {
  struct worker *workers = rondo_sim_calloc(threads, sizeof(*workers));
  uint32_t started = 0;
  for (uint32_t i = 0; i < threads; i++) {
    workers[i] = (struct worker){.job = job, .tally = {0, 0, UINT64_MAX}};
  }
  while (started < threads &&
         pthread_create(&workers[started].id, NULL, worker_run, &workers[started]) == 0) {
    started++;
  }
  if (started == 0) { // no thread could be started: this one does the work
    worker_run(&workers[0]);
  }
  for (uint32_t i = 0; i < started; i++) {
    worker_join(&workers[i], out, start);
  }
  for (uint32_t i = 0; i < threads; i++) {
    tally_add(tally, &workers[i].tally);
  }
  free(workers);
}

static void run_grouping(const struct rondo_sim_config *c, enum rondo_sim_variant variant,
                         uint32_t grouping, const struct rondo_sim_watch *watch,
                         struct rondo_sim_outcome *out, const struct timespec *start) {
  struct rondo_sim_layout layout;
  if (!rondo_sim_config_layout(c, grouping, rondo_sim_variant_order(variant), &layout)) {
    out->why_not = "not every grouping could be drawn";
    return;
  }
  uint32_t threads = rondo_sim_round_replays(c, variant) ? 1 : rondo_sim_threads(c);
  uint64_t first = out->planned / out->grouping_count * grouping;
  uint64_t rounds = grouping + 1 < out->grouping_count ? out->planned / out->grouping_count
                                                       : out->planned - first;
  struct job job = {.config = c,
                    .layout = &layout,
                    .variant = variant,
                    .grouping = grouping,
                    .rounds = rounds,
                    .block = block_of(rounds, threads),
                    .watch = watch};
  if (rounds > 0) {
    run_job(&job, threads, out, start, &out->groupings[grouping]);
  }
  rondo_sim_layout_fini(&layout);
}

void rondo_sim_run(const struct rondo_sim_config *c, enum rondo_sim_variant variant,
                   const struct rondo_sim_watch *watch, struct rondo_sim_outcome *out) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  *out = (struct rondo_sim_outcome){.ran = true,
                                    .total = {0, 0, UINT64_MAX},
                                    .grouping_count =
                                        c->grouping == RONDO_SIM_FREE_DRAWN ? c->draws : 1,
                                    .planned = c->rounds * c->processes};
  out->groupings = rondo_sim_calloc(out->grouping_count, sizeof(*out->groupings));
  for (uint32_t g = 0; g < out->grouping_count; g++) {
    out->groupings[g].first_deadlock = UINT64_MAX;
    if (watch_stopped(watch)) {
      break;
    }
    run_grouping(c, variant, g, watch, out, &start);
    out->total.rounds += out->groupings[g].rounds;
    out->total.deadlocks += out->groupings[g].deadlocks;
    if (out->total.first_deadlock == UINT64_MAX && out->groupings[g].deadlocks > 0) {
      out->total.first_deadlock = out->groupings[g].first_deadlock;
      out->first_grouping = g;
    }
  }
  out->seconds = seconds_since(&start);
}

void rondo_sim_outcome_fini(struct rondo_sim_outcome *out) {
  free(out->groupings);
  *out = (struct rondo_sim_outcome){0};
}
