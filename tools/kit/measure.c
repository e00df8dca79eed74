#include "tools/kit/measure.h"

#include <stdatomic.h>

#include "tools/kit/clock.h"

size_t rondo_kit_measurement_bytes(uint32_t rank_count, uint32_t capacity) {
  return sizeof(struct rondo_kit_measurement) + sizeof(uint64_t) * rank_count * capacity;
}

void rondo_kit_measurement_init(struct rondo_kit_measurement *m, uint32_t rank_count,
                                uint32_t capacity, uint32_t cores) {
  rondo_kit_barrier_init(&m->barrier, rank_count, cores);
  m->rank_count = rank_count;
  m->capacity = capacity;
  m->iters = 0;
  atomic_init(&m->failed, 0);
}

static uint64_t iteration_time(struct rondo_kit_measurement *m, uint32_t rank, bool free_running,
                               const struct rondo_kit_driver *driver) {
  driver->rewrite(driver->arg, rank);
  if (!free_running)
    rondo_kit_barrier_wait(&m->barrier);
  uint64_t start_ns = rondo_kit_now_ns();
  int status = driver->once(driver->arg, rank);
  uint64_t end_ns = rondo_kit_now_ns();
  uint32_t none = 0;
  if (status != 0)
    atomic_compare_exchange_strong(&m->failed, &none, (uint32_t)status);
  if (driver->settle)
    driver->settle(driver->arg);
  return end_ns - start_ns;
}

static uint32_t iters_choose(const struct rondo_kit_schedule *s, uint64_t iteration_ns) {
  uint64_t iters = s->budget_ns / (iteration_ns + 1);
  if (iters > s->iters_max)
    iters = s->iters_max;
  return iters < s->iters_min ? s->iters_min : (uint32_t)iters;
}

void rondo_kit_measure(struct rondo_kit_measurement *m, uint32_t rank,
                       const struct rondo_kit_schedule *schedule,
                       const struct rondo_kit_driver *driver) {
  uint32_t half = schedule->warmup / 2;
  uint64_t warmup_ns = 0; // of the second half; a single iteration may be fast by luck
  rondo_kit_barrier_wait(&m->barrier);
  if (rank == 0)
    atomic_store(&m->failed, 0);
  rondo_kit_barrier_wait(&m->barrier);
  // After a failure no participant leaves early, because the others would wait in the barrier. The
  // remaining calls fail fast.
  for (uint32_t i = 0; i < schedule->warmup; i++) {
    uint64_t duration_ns = iteration_time(m, rank, schedule->free_running, driver);
    warmup_ns += i >= half ? duration_ns : 0;
  }
  rondo_kit_barrier_wait(&m->barrier);
  if (schedule->warmup > 0)
    warmup_ns /= schedule->warmup - half;
  if (rank == 0)
    m->iters = atomic_load(&m->failed) ? 0 : iters_choose(schedule, warmup_ns);
  rondo_kit_barrier_wait(&m->barrier);
  uint64_t *row = m->samples_ns + (size_t)rank * m->capacity;
  for (uint32_t i = 0; i < m->iters; i++)
    row[i] = iteration_time(m, rank, schedule->free_running, driver) / schedule->batch;
  rondo_kit_barrier_wait(&m->barrier);
}

struct rondo_kit_stats rondo_kit_measure_stats(struct rondo_kit_measurement *m) {
  uint32_t iters = atomic_load(&m->failed) ? 0 : m->iters;
  uint64_t *longest = m->samples_ns;
  for (uint32_t r = 1; r < m->rank_count; r++)
    for (uint32_t i = 0; i < iters; i++) {
      uint64_t sample = m->samples_ns[(size_t)r * m->capacity + i];
      if (sample > longest[i])
        longest[i] = sample;
    }
  return rondo_kit_stats_of(longest, iters);
}
