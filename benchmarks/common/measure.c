#include "benchmarks/common/measure.h"

#include <stdatomic.h>

#include "examples/kit/clock.h"

size_t rondo_bench_arena_bytes(uint32_t rank_count, uint32_t capacity) {
  return sizeof(struct rondo_bench_arena) + sizeof(uint64_t) * rank_count * capacity;
}

void rondo_bench_arena_init(struct rondo_bench_arena *arena, uint32_t rank_count, uint32_t capacity,
                            uint32_t cores) {
  rondo_kit_barrier_init(&arena->barrier, rank_count, cores);
  arena->rank_count = rank_count;
  arena->capacity = capacity;
  arena->iters = 0;
  atomic_init(&arena->failed, 0);
}

static uint64_t one_iteration(struct rondo_bench_arena *arena, uint32_t rank, bool free_running,
                              const struct rondo_bench_driver *driver) {
  driver->rewrite(driver->arg, rank);
  if (!free_running)
    rondo_kit_barrier_wait(&arena->barrier);
  uint64_t start_ns = rondo_kit_now_ns();
  int status = driver->once(driver->arg, rank);
  uint64_t end_ns = rondo_kit_now_ns();
  uint32_t none = 0;
  if (status != 0)
    atomic_compare_exchange_strong(&arena->failed, &none, (uint32_t)status);
  if (driver->settle)
    driver->settle(driver->arg);
  return end_ns - start_ns;
}

static uint32_t choose_iters(const struct rondo_bench_schedule *s, uint64_t iteration_ns) {
  uint64_t iters = s->budget_ns / (iteration_ns + 1);
  if (iters > s->iters_max)
    iters = s->iters_max;
  return iters < s->iters_min ? s->iters_min : (uint32_t)iters;
}

void rondo_bench_measure(struct rondo_bench_arena *arena, uint32_t rank,
                         const struct rondo_bench_schedule *schedule,
                         const struct rondo_bench_driver *driver) {
  uint32_t half = schedule->warmup / 2;
  uint64_t warmup_ns = 0; // of the iterations after that; the last one alone may be a lucky one
  rondo_kit_barrier_wait(&arena->barrier);
  if (rank == 0)
    atomic_store(&arena->failed, 0);
  rondo_kit_barrier_wait(&arena->barrier);
  // Nobody leaves early after a failure: the others would wait in the barrier. Calls fail fast then.
  for (uint32_t i = 0; i < schedule->warmup; i++) {
    uint64_t duration_ns = one_iteration(arena, rank, schedule->free_running, driver);
    warmup_ns += i >= half ? duration_ns : 0;
  }
  rondo_kit_barrier_wait(&arena->barrier);
  if (schedule->warmup > 0)
    warmup_ns /= schedule->warmup - half;
  if (rank == 0)
    arena->iters = atomic_load(&arena->failed) ? 0 : choose_iters(schedule, warmup_ns);
  rondo_kit_barrier_wait(&arena->barrier);
  uint64_t *row = arena->samples_ns + (size_t)rank * arena->capacity;
  for (uint32_t i = 0; i < arena->iters; i++)
    row[i] = one_iteration(arena, rank, schedule->free_running, driver) / schedule->batch;
  rondo_kit_barrier_wait(&arena->barrier);
}

struct rondo_bench_stats rondo_bench_measure_stats(struct rondo_bench_arena *arena) {
  uint32_t iters = atomic_load(&arena->failed) ? 0 : arena->iters;
  uint64_t *longest = arena->samples_ns;
  for (uint32_t r = 1; r < arena->rank_count; r++)
    for (uint32_t i = 0; i < iters; i++) {
      uint64_t sample = arena->samples_ns[(size_t)r * arena->capacity + i];
      if (sample > longest[i])
        longest[i] = sample;
    }
  return rondo_bench_stats_of(longest, iters);
}
