// bench_latency: what it takes from submitting a run to knowing that it has ended.
//
//   submit      the call of rondo_run alone
//   wait        from before rondo_run until rondo_wait has returned
//   callback    from before rondo_run until the callback begins
//   synchronize rondo_device_synchronize of a daemon that has nothing to do
//
// The collective is an all-reduce of 8 bytes, so the rest is overhead. With pauses between the
// runs the daemon has gone to sleep; without, it is looking.
#include <argp.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <rondo/rondo.h>

#include "tools/kit/barrier.h"
#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/options.h"
#include "tools/kit/output.h"
#include "tools/kit/stats.h"
#include "tools/kit/thread_group.h"

#define EXIT_USAGE 2
#define MAX_RANKS 64u
#define WARMUP 10u
#define TIMEOUT_NS (20 * (int64_t)RONDO_KIT_SECOND_NS)

enum quantity { SUBMIT = 0, WAIT = 1, CALLBACK = 2, SYNCHRONIZE = 3, QUANTITIES = 4 };
static const char *const quantity_names[QUANTITIES] = {"submit", "wait", "callback", "synchronize"};

struct options {
  uint32_t iters;
  uint32_t ranks; // of the second table
  uint64_t pause_us;
  const char *json_path;
};

struct bench {
  struct rondo_kit_barrier barrier;
  uint32_t ranks;
  uint32_t iters;
  enum quantity quantity;
  uint64_t pause_ns;
  struct rondo_unique_id id;
  uint64_t *samples_ns; // a row a rank
  _Atomic int status;
};

struct rank {
  struct bench *bench;
  struct rondo_context context;
  struct rondo_collective collective;
  float send[2];
  float recv[2];
  uint64_t called_back_ns;
  sem_t called_back;
};

static bool succeeded(struct bench *bench, int status) {
  int none = RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    atomic_compare_exchange_strong(&bench->status, &none, status);
  return status == RONDO_SUCCESS;
}

static void on_end(void *arg, int status) {
  struct rank *self = arg;
  self->called_back_ns = rondo_kit_now_ns();
  succeeded(self->bench, status);
  sem_post(&self->called_back);
}

// One run; returns the time of what is measured.
static uint64_t run_once(struct rank *self) {
  struct bench *bench = self->bench;
  bool callback = bench->quantity == CALLBACK;
  uint64_t start_ns = rondo_kit_now_ns();
  int status = rondo_run(self->context, self->collective, self->send, self->recv,
                         callback ? on_end : NULL, self);
  uint64_t submitted_ns = rondo_kit_now_ns();
  if (!succeeded(bench, status))
    return 0;
  if (callback) {
    while (sem_wait(&self->called_back) != 0)
      continue; // interrupted by a signal
    return self->called_back_ns - start_ns;
  }
  succeeded(bench, rondo_wait(self->context, self->collective, RONDO_LAST_RUN, TIMEOUT_NS));
  return (bench->quantity == WAIT ? rondo_kit_now_ns() : submitted_ns) - start_ns;
}

static uint64_t synchronize_once(struct rank *self) {
  uint64_t start_ns = rondo_kit_now_ns();
  succeeded(self->bench, rondo_device_synchronize(self->context, TIMEOUT_NS));
  return rondo_kit_now_ns() - start_ns;
}

static void pause_for(uint64_t duration_ns) {
  struct timespec t = {(time_t)(duration_ns / RONDO_KIT_SECOND_NS),
                       (long)(duration_ns % RONDO_KIT_SECOND_NS)};
  if (duration_ns > 0)
    nanosleep(&t, NULL);
}

static void iterate(struct rank *self, uint32_t rank) {
  struct bench *bench = self->bench;
  uint64_t *row = bench->samples_ns + (size_t)rank * bench->iters;
  for (uint32_t i = 0; i < WARMUP + bench->iters; i++) {
    self->send[0] = (float)i;
    pause_for(bench->pause_ns);
    rondo_kit_barrier_wait(&bench->barrier);
    if (atomic_load(&bench->status) != RONDO_SUCCESS)
      continue; // the others still come to the barrier
    uint64_t time_ns = bench->quantity == SYNCHRONIZE ? synchronize_once(self) : run_once(self);
    if (i >= WARMUP)
      row[i - WARMUP] = time_ns;
  }
}

static void rank_main(void *arg, uint32_t rank) {
  struct bench *bench = arg;
  struct rank self = {.bench = bench};
  struct rondo_config config = RONDO_CONFIG_INIT;
  struct rondo_collective_desc desc = rondo_all_reduce(1, 2, RONDO_FLOAT32, RONDO_SUM);
  config.id = bench->id;
  config.rank = rank;
  config.rank_count = bench->ranks;
  sem_init(&self.called_back, 0, 0);
  bool opened = succeeded(bench, rondo_init(&self.context, &config));
  if (opened)
    succeeded(bench, rondo_register(self.context, &desc, &self.collective));
  rondo_kit_barrier_wait(&bench->barrier);
  iterate(&self, rank);
  rondo_kit_barrier_wait(&bench->barrier);
  if (opened)
    rondo_destroy(self.context, RONDO_DESTROY_DRAIN, TIMEOUT_NS);
  sem_destroy(&self.called_back);
}

// ---------------------------------------------------------------- results ----

static struct rondo_kit_stats longest_of(struct bench *bench) {
  for (uint32_t r = 1; r < bench->ranks; r++)
    for (uint32_t i = 0; i < bench->iters; i++) {
      uint64_t sample = bench->samples_ns[(size_t)r * bench->iters + i];
      if (sample > bench->samples_ns[i])
        bench->samples_ns[i] = sample;
    }
  return rondo_kit_stats_of(bench->samples_ns, bench->iters);
}

static json_t *measure(struct bench *bench) {
  struct rondo_kit_thread_group group = {bench->ranks, true, rank_main, bench};
  atomic_store(&bench->status, RONDO_SUCCESS);
  rondo_kit_barrier_init(&bench->barrier, bench->ranks, rondo_kit_core_count());
  memset(bench->samples_ns, 0, sizeof(uint64_t) * bench->ranks * bench->iters);
  int status = rondo_unique_id_create(&bench->id);
  if (status == RONDO_SUCCESS)
    status =
        rondo_kit_thread_group_run(&group) == 0 ? atomic_load(&bench->status) : RONDO_ERR_SYSTEM;
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "bench_latency: %s: %s\n", quantity_names[bench->quantity],
            rondo_status_string(status));
    return NULL;
  }
  struct rondo_kit_stats s = longest_of(bench);
  printf("%5" PRIu32 "  %-12s  %8" PRIu64 "  %10.2f  %10.2f  %10.2f  %10.2f\n", bench->ranks,
         quantity_names[bench->quantity], bench->pause_ns / 1000, s.median_ns / 1e3,
         s.mean_ns / 1e3, s.min_ns / 1e3, s.p99_ns / 1e3);
  fflush(stdout);
  return json_pack("{s:I, s:s, s:I, s:f, s:f, s:f, s:f}", "ranks", (json_int_t)bench->ranks,
                   "quantity", quantity_names[bench->quantity], "pause_ns",
                   (json_int_t)bench->pause_ns, "median_ns", s.median_ns, "mean_ns", s.mean_ns,
                   "min_ns", s.min_ns, "p99_ns", s.p99_ns);
}

static bool measure_all(const struct options *o, uint64_t *samples_ns, json_t *rows) {
  uint32_t rank_counts[2] = {1, o->ranks};
  uint64_t pauses_ns[2] = {0, o->pause_us * 1000};
  bool good = true;
  for (int r = 0; r < (o->ranks > 1 ? 2 : 1); r++)
    for (int p = 0; p < (o->pause_us > 0 ? 2 : 1); p++)
      for (int q = 0; q < QUANTITIES; q++) {
        struct bench bench = {.ranks = rank_counts[r],
                              .iters = o->iters,
                              .quantity = (enum quantity)q,
                              .pause_ns = pauses_ns[p],
                              .samples_ns = samples_ns};
        json_t *row = measure(&bench);
        good = good && row;
        if (row)
          json_array_append_new(rows, row);
      }
  return good;
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
  struct options *o = state->input;
  bool understood = true;
  switch (key) {
  case 'n':
    understood = rondo_kit_read_u32(text, 1, 1000000, &o->iters);
    break;
  case 't':
    understood = rondo_kit_read_u32(text, 1, MAX_RANKS, &o->ranks);
    break;
  case 'p':
    understood = rondo_kit_read_number(text, 0, 1000000, &o->pause_us);
    break;
  case 'J':
    o->json_path = text;
    break;
  case ARGP_KEY_ARG:
    argp_error(state, "no argument is expected: '%s'", text);
    break;
  default:
    return ARGP_ERR_UNKNOWN;
  }
  if (!understood)
    argp_error(state, "-%c does not take '%s'", key, text);
  return 0;
}

static void read_options(struct options *options, int argc, char **argv) {
  static const struct argp_option table[] = {
      {"iters", 'n', "N", 0, "Timed iterations of each line (default 500)", 0},
      {"nthreads", 't', "N", 0, "Ranks, one thread each, beside one alone (default 2)", 0},
      {"pause", 'p', "US", 0, "Microseconds between runs of the second half (default 3000)", 0},
      {"json", 'J', "FILE", 0, "Write the numbers as JSON, too", 0},
      {NULL, 0, NULL, 0, NULL, 0}};
  static const struct argp argp = {
      .options = table,
      .parser = parse_option,
      .doc = "Measures what it takes from submitting a run to knowing that it has ended."};
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, options);
}

int main(int argc, char **argv) {
  struct options options = {.iters = 500, .ranks = 2, .pause_us = 3000};
  struct rondo_kit_machine machine;
  read_options(&options, argc, argv);
  uint64_t *samples_ns = calloc((size_t)options.ranks * options.iters, sizeof(uint64_t));
  json_t *rows = json_array();
  if (!samples_ns || !rows) {
    free(samples_ns);
    json_decref(rows);
    return 1;
  }
  rondo_kit_machine_read(&machine);
  rondo_kit_machine_print(&machine, "# ", stdout);
  printf("# an all-reduce of 8 bytes, the slowest rank of each iteration; threads pinned\n");
  printf("%5s  %-12s  %8s  %10s  %10s  %10s  %10s\n", "ranks", "quantity", "pause us", "median us",
         "mean us", "min us", "p99 us");
  bool good = measure_all(&options, samples_ns, rows);
  if (options.json_path &&
      !rondo_kit_output_save(options.json_path, json_dumps(rows, JSON_INDENT(1))))
    good = false;
  json_decref(rows);
  free(samples_ns);
  return good ? 0 : 1;
}
