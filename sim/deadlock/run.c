#include "sim/deadlock/run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/common/text.h"
#include "sim/deadlock/fast.h"
#include "sim/deadlock/literal.h"
#include "sim/deadlock/naive.h"
#include "sim/deadlock/published.h"
#include "sim/deadlock/quick.h"

#define RONDO_SIM_TELL_NS 200000000L

// Rounds of one grouping, shared by the workers.
struct job {
  const struct rondo_sim_config *config;
  const struct rondo_sim_world *world;
  enum rondo_sim_variant variant;
  uint32_t grouping;
  uint64_t rounds, block;
  const atomic_int *stop;
  atomic_uint_fast64_t next, done;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t finished;
  uint32_t running;
  struct rondo_sim_tally tally;
};

// What one thread needs to decide rounds.
struct decider {
  struct rondo_sim_chances chances;
  struct rondo_sim_events events;
  struct rondo_sim_fast fast;
  struct rondo_sim_programs programs;
  struct rondo_sim_published published;
  struct rondo_sim_mersenne mersenne;
  struct rondo_sim_quick quick;
  bool (*decide)(struct decider *d, const struct job *job, uint64_t round);
};

void rondo_sim_run_stream(struct rondo_sim_rng *rng, const struct rondo_sim_config *c,
                          enum rondo_sim_variant variant, uint32_t grouping, uint64_t round) {
  // Each variant has streams of its own, so that their ratios are independent estimates.
  rondo_sim_rng_begin(rng, c->seed ^ (uint64_t)variant << 56, grouping, round);
}

static bool decide_fast(struct decider *d, const struct job *job, uint64_t round) {
  struct rondo_sim_rng rng;
  rondo_sim_run_stream(&rng, job->config, job->variant, job->grouping, round);
  rondo_sim_events_draw(&d->events, job->world, &d->chances, false, &rng);
  return d->events.window_count > 0 && rondo_sim_fast_deadlock(&d->fast, &d->events);
}

static bool decide_naive(struct decider *d, const struct job *job, uint64_t round) {
  struct rondo_sim_rng rng;
  struct rondo_sim_literal literal;
  rondo_sim_run_stream(&rng, job->config, job->variant, job->grouping, round);
  rondo_sim_naive_draw(&d->programs, job->world, &d->chances, &rng);
  rondo_sim_literal_init(&literal, &d->programs, rondo_sim_config_limit(job->config));
  bool deadlock = rondo_sim_literal_run(&literal, job->config->turns, &rng);
  rondo_sim_literal_fini(&literal);
  return deadlock;
}

static bool decide_quick(struct decider *d, const struct job *job, uint64_t round) {
  struct rondo_sim_rng rng;
  rondo_sim_run_stream(&rng, job->config, job->variant, job->grouping, round);
  rondo_sim_events_draw(&d->events, job->world, &d->chances, true, &rng);
  return rondo_sim_quick_deadlock(&d->quick, &d->events);
}

static bool decide_published(struct decider *d, const struct job *job, uint64_t round) {
  struct rondo_sim_rng rng;
  rondo_sim_run_stream(&rng, job->config, job->variant, job->grouping, round);
  return rondo_sim_published_round(&d->published, (struct rondo_sim_draws){.rng = &rng});
}

// Continues the one published stream, so rounds must come in order, on one thread.
static bool decide_replay(struct decider *d, const struct job *job, uint64_t round) {
  if (round % job->config->rounds == 0) {
    rondo_sim_mersenne_seed(&d->mersenne, 2023); // each of the published processes does
  }
  return rondo_sim_published_round(&d->published,
                                   (struct rondo_sim_draws){.mersenne = &d->mersenne});
}

static bool variant_replays(const struct rondo_sim_config *c, enum rondo_sim_variant variant) {
  return variant == RONDO_SIM_PUBLISHED && c->published_stream;
}

static void decider_init_published(struct decider *d, const struct job *job) {
  const struct rondo_sim_config *c = job->config;
  bool single = c->model == RONDO_SIM_SINGLE_QUEUE;
  bool plain = c->engine == RONDO_SIM_NAIVE_ENGINE || c->model == RONDO_SIM_RESOURCES;
  if (variant_replays(c, job->variant) || plain) {
    rondo_sim_published_init(&d->published, job->world, single, &d->chances, c->resources);
    d->decide = variant_replays(c, job->variant) ? decide_replay : decide_published;
  } else {
    rondo_sim_quick_init(&d->quick, job->world, single);
    d->decide = decide_quick;
  }
}

static void decider_init(struct decider *d, const struct job *job) {
  memset(d, 0, sizeof(*d));
  d->chances = rondo_sim_config_chances(job->config);
  rondo_sim_events_init(&d->events);
  if (job->variant == RONDO_SIM_PUBLISHED) {
    d->chances.skipped = RONDO_SIM_SKIPPED_KEEPS_ODDS;
    decider_init_published(d, job);
  } else if (job->config->engine == RONDO_SIM_NAIVE_ENGINE) {
    rondo_sim_programs_init(&d->programs, job->world);
    d->decide = decide_naive;
  } else {
    rondo_sim_fast_init(&d->fast, job->world, rondo_sim_config_limit(job->config));
    d->decide = decide_fast;
  }
}

static void decider_fini(struct decider *d) {
  rondo_sim_events_fini(&d->events);
  rondo_sim_fast_fini(&d->fast);
  rondo_sim_programs_fini(&d->programs);
  rondo_sim_published_fini(&d->published);
  rondo_sim_quick_fini(&d->quick);
}

static void add_tally(struct rondo_sim_tally *to, const struct rondo_sim_tally *from) {
  to->rounds += from->rounds;
  to->deadlocks += from->deadlocks;
  to->first_deadlock =
      from->first_deadlock < to->first_deadlock ? from->first_deadlock : to->first_deadlock;
}

// Every thread reads the flag and a signal handler writes it: it is atomic and needs no order.
static bool watch_stopped(const atomic_int *stop) {
  return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static void run_block(struct decider *d, struct job *job, uint64_t first,
                      struct rondo_sim_tally *tally) {
  uint64_t end = first + job->block < job->rounds ? first + job->block : job->rounds;
  for (uint64_t round = first; round < end && !watch_stopped(job->stop); round++) {
    tally->rounds++;
    if (d->decide(d, job, round)) {
      tally->deadlocks++;
      tally->first_deadlock = round < tally->first_deadlock ? round : tally->first_deadlock;
    }
  }
  atomic_fetch_add_explicit(&job->done, end - first, memory_order_relaxed);
}

static void *worker_run(void *arg) {
  struct job *job = arg;
  struct rondo_sim_tally tally = {0, 0, UINT64_MAX};
  struct decider d;
  decider_init(&d, job);
  for (;;) {
    uint64_t first = atomic_fetch_add_explicit(&job->next, job->block, memory_order_relaxed);
    if (first >= job->rounds || watch_stopped(job->stop)) {
      break;
    }
    run_block(&d, job, first, &tally);
  }
  decider_fini(&d);
  pthread_mutex_lock(&job->lock);
  add_tally(&job->tally, &tally);
  job->running--;
  pthread_cond_signal(&job->finished);
  pthread_mutex_unlock(&job->lock);
  return NULL;
}

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

// Waits for the workers and reports progress.
static void watch_job(struct job *job, const struct rondo_sim_watch *watch,
                      const struct rondo_sim_outcome *out, const struct timespec *start) {
  pthread_mutex_lock(&job->lock);
  while (job->running > 0) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += RONDO_SIM_TELL_NS;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&job->finished, &job->lock, &until);
    if (watch && watch->told && job->running > 0) {
      watch->told(watch->arg, out->total.rounds + atomic_load(&job->done), out->planned,
                  seconds_since(start));
    }
  }
  pthread_mutex_unlock(&job->lock);
}

uint32_t rondo_sim_threads(const struct rondo_sim_config *c) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return c->threads > 0 ? c->threads : online > 0 ? (uint32_t)online : 1;
}

// A block is small enough that all threads end together, and large enough that the counter is
// rarely contended.
static uint64_t block_of(uint64_t rounds, uint32_t threads) {
  uint64_t block = rounds / threads / 64;
  return block < 1 ? 1 : block > 256 ? 256 : block;
}

static void run_job(struct job *job, uint32_t threads, const struct rondo_sim_watch *watch,
                    const struct rondo_sim_outcome *out, const struct timespec *start) {
  pthread_t *ids = rondo_sim_calloc(threads, sizeof(*ids));
  uint32_t started = 0;
  pthread_mutex_init(&job->lock, NULL);
  pthread_cond_init(&job->finished, NULL);
  job->tally.first_deadlock = UINT64_MAX;
  job->running = threads;
  while (started < threads && pthread_create(&ids[started], NULL, worker_run, job) == 0) {
    started++;
  }
  pthread_mutex_lock(&job->lock);
  job->running -= threads - started;
  pthread_mutex_unlock(&job->lock);
  if (started == 0) { // no thread could be started: this one does the work
    job->running = 1;
    worker_run(job);
  }
  watch_job(job, watch, out, start);
  for (uint32_t i = 0; i < started; i++) {
    pthread_join(ids[i], NULL);
  }
  pthread_cond_destroy(&job->finished);
  pthread_mutex_destroy(&job->lock);
  free(ids);
}

static void run_grouping(const struct rondo_sim_config *c, enum rondo_sim_variant variant,
                         uint32_t grouping, const struct rondo_sim_watch *watch,
                         struct rondo_sim_outcome *out, const struct timespec *start) {
  struct rondo_sim_world world;
  enum rondo_sim_order order =
      variant == RONDO_SIM_EXACT_SEQUENTIAL ? RONDO_SIM_SEQUENTIAL : RONDO_SIM_INTERLEAVED;
  if (!rondo_sim_config_world(c, grouping, order, &world)) {
    out->why_not = "not every grouping could be drawn";
    return;
  }
  uint32_t threads = variant_replays(c, variant) ? 1 : rondo_sim_threads(c);
  uint64_t first = out->planned / out->grouping_count * grouping;
  uint64_t rounds = grouping + 1 < out->grouping_count ? out->planned / out->grouping_count
                                                       : out->planned - first;
  struct job job = {.config = c,
                    .world = &world,
                    .variant = variant,
                    .grouping = grouping,
                    .rounds = rounds,
                    .block = block_of(rounds, threads),
                    .stop = watch ? watch->stop : NULL};
  if (rounds > 0) {
    run_job(&job, threads, watch, out, start);
    out->groupings[grouping] = job.tally;
  }
  rondo_sim_world_fini(&world);
}

void rondo_sim_run(const struct rondo_sim_config *c, enum rondo_sim_variant variant,
                   const struct rondo_sim_watch *watch, struct rondo_sim_outcome *out) {
  struct timespec start;
  clock_gettime(CLOCK_MONOTONIC, &start);
  *out = (struct rondo_sim_outcome){.ran = true,
                                    .total = {0, 0, UINT64_MAX},
                                    .grouping_count = rondo_sim_config_groupings(c),
                                    .planned = c->rounds * c->processes};
  out->groupings = rondo_sim_calloc(out->grouping_count, sizeof(*out->groupings));
  for (uint32_t g = 0; g < out->grouping_count; g++) {
    out->groupings[g].first_deadlock = UINT64_MAX;
    if (watch && watch_stopped(watch->stop)) {
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

const char *rondo_sim_variant_name(enum rondo_sim_variant variant) {
  static const char *const names[] = {"interleaved", "sequential", "dfccl"};
  return names[variant];
}
