// bench_latency: what it takes from submitting a run to knowing that it has ended.
//
//   submit      the call of rondo_run alone
//   wait        from before rondo_run until rondo_wait has returned
//   callback    from before rondo_run until the callback begins
//   synchronize rondo_device_synchronize of a daemon that has nothing to do
//
// The collective is an all-reduce of 8 bytes, so the rest is overhead. With pauses between the
// runs the daemon has gone to sleep; without, it is looking.
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rondo/rondo.h>

#include "tools/kit/clock.h"
#include "tools/kit/machine.h"
#include "tools/kit/measure.h"
#include "tools/kit/options.h"
#include "tools/kit/thread_group.h"

#define MAX_RANKS 64u
#define WARMUP 10u
#define TIMEOUT_NS (20 * (int64_t)RONDO_KIT_SECOND_NS)

enum quantity { SUBMIT = 0, WAIT = 1, CALLBACK = 2, SYNCHRONIZE = 3, QUANTITIES = 4 };
static const char *const quantity_names[QUANTITIES] = {"submit", "wait", "callback", "synchronize"};

struct options {
  uint32_t iters;
  uint32_t ranks; // of the second table
  uint64_t pause_us;
};

struct bench {
  struct rondo_kit_measurement *measurement;
  enum quantity quantity;
  uint64_t pause_ns;
  struct rondo_unique_id id;
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

static bool call_succeeded(struct bench *bench, int status) {
  uint32_t none = RONDO_SUCCESS;
  if (status != RONDO_SUCCESS)
    atomic_compare_exchange_strong(&bench->measurement->failed, &none, (uint32_t)status);
  return status == RONDO_SUCCESS;
}

static void run_ended(void *arg, int status) {
  struct rank *self = arg;
  self->called_back_ns = rondo_kit_now_ns();
  call_succeeded(self->bench, status);
  sem_post(&self->called_back);
}

// One run; returns the time of what is measured.
static uint64_t run_once(struct rank *self) {
  struct bench *bench = self->bench;
  bool callback = bench->quantity == CALLBACK;
  uint64_t start_ns = rondo_kit_now_ns();
  int status = rondo_run(self->context, self->collective, self->send, self->recv,
                         callback ? run_ended : NULL, self);
  uint64_t submitted_ns = rondo_kit_now_ns();
  if (!call_succeeded(bench, status))
    return 0;
  if (callback) {
    while (sem_wait(&self->called_back) != 0)
      continue; // interrupted by a signal
    return self->called_back_ns - start_ns;
  }
  call_succeeded(bench, rondo_wait(self->context, self->collective, RONDO_LAST_RUN, TIMEOUT_NS));
  return (bench->quantity == WAIT ? rondo_kit_now_ns() : submitted_ns) - start_ns;
}

static uint64_t synchronize_once(struct rank *self) {
  uint64_t start_ns = rondo_kit_now_ns();
  call_succeeded(self->bench, rondo_device_synchronize(self->context, TIMEOUT_NS));
  return rondo_kit_now_ns() - start_ns;
}

static void time_pause(uint64_t duration_ns) {
  struct timespec t = {(time_t)(duration_ns / RONDO_KIT_SECOND_NS),
                       (long)(duration_ns % RONDO_KIT_SECOND_NS)};
  if (duration_ns > 0)
    nanosleep(&t, NULL);
}

static void rank_iterate(struct rank *self, uint32_t rank) {
  struct bench *bench = self->bench;
  struct rondo_kit_measurement *m = bench->measurement;
  uint64_t *row = m->samples_ns + (size_t)rank * m->capacity;
  for (uint32_t i = 0; i < WARMUP + m->iters; i++) {
    self->send[0] = (float)i;
    time_pause(bench->pause_ns);
    rondo_kit_barrier_wait(&m->barrier);
    if (atomic_load(&m->failed))
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
  config.rank_count = bench->measurement->rank_count;
  sem_init(&self.called_back, 0, 0);
  bool opened = call_succeeded(bench, rondo_init(&self.context, &config));
  if (opened)
    call_succeeded(bench, rondo_register(self.context, &desc, &self.collective));
  rondo_kit_barrier_wait(&bench->measurement->barrier);
  rank_iterate(&self, rank);
  rondo_kit_barrier_wait(&bench->measurement->barrier);
  if (opened)
    rondo_destroy(self.context, RONDO_DESTROY_DRAIN, TIMEOUT_NS);
  sem_destroy(&self.called_back);
}

// ---------------------------------------------------------------- results ----

// One line of the table. Returns whether all calls succeeded.
static bool bench_measure(struct bench *bench) {
  struct rondo_kit_measurement *m = bench->measurement;
  struct rondo_kit_thread_group group = {m->rank_count, true, rank_main, bench};
  int status = rondo_unique_id_create(&bench->id);
  if (status == RONDO_SUCCESS)
    status = rondo_kit_thread_group_run(&group) == 0 ? (int)m->failed : RONDO_ERR_SYSTEM;
  if (status != RONDO_SUCCESS) {
    fprintf(stderr, "bench_latency: %s: %s\n", quantity_names[bench->quantity],
            rondo_status_string(status));
    return false;
  }
  struct rondo_kit_stats s = rondo_kit_measure_stats(m);
  printf("%5" PRIu32 "  %-12s  %8" PRIu64 "  %10.2f  %10.2f  %10.2f  %10.2f\n", m->rank_count,
         quantity_names[bench->quantity], bench->pause_ns / 1000, s.median_ns / 1e3,
         s.mean_ns / 1e3, s.min_ns / 1e3, s.p99_ns / 1e3);
  fflush(stdout);
  return true;
}

static bool table_measure(const struct options *o, struct rondo_kit_measurement *m) {
  uint32_t rank_counts[2] = {1, o->ranks};
  uint64_t pauses_ns[2] = {0, o->pause_us * 1000};
  bool good = true;
  for (int r = 0; r < (o->ranks > 1 ? 2 : 1); r++)
    for (int p = 0; p < (o->pause_us > 0 ? 2 : 1); p++)
      for (int q = 0; q < QUANTITIES; q++) {
        struct bench bench = {
            .measurement = m, .quantity = (enum quantity)q, .pause_ns = pauses_ns[p]};
        rondo_kit_measurement_init(m, rank_counts[r], o->iters, rondo_kit_core_count());
        m->iters = o->iters;
        good &= bench_measure(&bench);
      }
  return good;
}

#define AT(field) .offset = offsetof(struct options, field)

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"iters", 'n', "N", "Timed iterations of each line (default 500)", RONDO_KIT_U32, AT(iters),
       .low = 1, .high = 1000000},
      {"nthreads", 't', "N", "Ranks, one thread each, beside one alone (default 2)", RONDO_KIT_U32,
       AT(ranks), .low = 1, .high = MAX_RANKS},
      {"pause", 'p', "US", "Microseconds between runs of the second half (default 3000)",
       RONDO_KIT_U64, AT(pause_us), .high = 1000000},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table,
      .doc = "Measures what it takes from submitting a run to knowing that it has ended."};
  struct options options = {.iters = 500, .ranks = 2, .pause_us = 3000};
  rondo_kit_command_read(&command, argc, argv, &options);
  struct rondo_kit_measurement *measurement = aligned_alloc(
      128, (rondo_kit_measurement_bytes(options.ranks, options.iters) + 127) / 128 * 128);
  if (!measurement)
    return 1;
  rondo_kit_machine_print("# ");
  printf("# an all-reduce of 8 bytes, the slowest rank of each iteration; threads pinned\n");
  printf("%5s  %-12s  %8s  %10s  %10s  %10s  %10s\n", "ranks", "quantity", "pause us", "median us",
         "mean us", "min us", "p99 us");
  bool good = table_measure(&options, measurement);
  free(measurement);
  return good ? 0 : 1;
}
