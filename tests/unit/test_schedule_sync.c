// Device synchronisations of the schedule simulator's programs.
#include "tests/support/named.h"
#include "tests/support/schedule.h"

// Two barriers of a microsecond each. The first synchronisation of a rank finds no block that runs.
// The second one lasts until the barrier has ended and the block has then quit.
static void a_synchronisation_waits_until_the_block_quits(void **state) {
  (void)state;
  static const struct {
    const char *quit_period;
    uint64_t ns;
  } cells[] = {{"200us", 200000}, {"50us", 50000}};
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_schedule_job job;
    const char *const settings[] = {
        "op",   "barrier", "ranks", "2", "latency", "1us", "quit-period", cells[i].quit_period,
        "sync", "1",       END};
    job_open(&job, settings);
    job.basic.times = 2;
    struct rondo_schedule_totals t = job_play(&job);
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
    assert_int_equal(t.makespan_ns, 1000 + cells[i].ns + 1000);
    assert_int_equal(t.syncs, 4);
    assert_int_equal(t.sync_ns, 2 * (1000 + cells[i].ns));
  }
}

// A block that goes on making progress quits in the middle of its collective after the residency.
// Of two messages of 64 ms the second is then submitted while the first is on its way.
static void a_synchronisation_ends_in_the_middle_of_a_run(void **state) {
  (void)state;
  struct rondo_schedule_totals t =
      PLAY("ranks", "2", "op", "send_recv", "bytes", "64MB", "collectives", "2", "latency", "1us",
           "bandwidth", "1GB/s", "residency", "5ms", "slot-bytes", "64KiB", "sync", "1");
  assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
  assert_in_range(t.sync_ns, 2 * 5000000, 2 * 6000000);
  assert_in_range(t.makespan_ns, 128000000, 129000000);
}

// Blocks that wait for each other quit although their collectives are half done, so own orders end
// with synchronisations between. Without preemption a block keeps its collective, and nothing ends.
static void own_orders_end_with_synchronisations_between(void **state) {
  (void)state;
  for (char seed[] = "1"; *seed <= '9'; ++*seed) {
    struct rondo_schedule_totals t = PLAY("ranks", "16", "collectives", "20", "bytes", "64KiB",
                                          "orders", "random", "sync", "1", "seed", seed);
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
    assert_int_equal(t.runs_ended, 16 * 20);
    assert_true(t.quits >= 16 * 19);
    t = PLAY("ranks", "16", "collectives", "20", "bytes", "64KiB", "orders", "random", "sync", "1",
             "seed", seed, "budget", "never");
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DEADLOCK);
    t = PLAY("ranks", "16", "collectives", "20", "bytes", "64KiB", "sync", "1", "seed", seed,
             "budget", "never");
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
  }
}

// A part of the calls synchronises; the seed says which ones.
static void the_seed_draws_synchronisations(void **state) {
  (void)state;
  struct rondo_schedule_totals t[5];
  static const char *const parts[] = {"0.25", "0.25", "0.25", "0", "1"};
  for (int i = 0; i < 5; i++)
    t[i] = PLAY("ranks", "8", "collectives", "100", "bytes", "64", "sync", parts[i], "seed",
                i == 2 ? "8" : "7", "iterations", "2");
  struct rondo_schedule_totals none =
      PLAY("ranks", "8", "collectives", "100", "bytes", "64", "seed", "7", "iterations", "2");
  assert_memory_equal(&t[0], &t[1], sizeof t[0]);
  assert_memory_not_equal(&t[0], &t[2], sizeof t[0]);
  assert_memory_equal(&t[3], &none, sizeof none);
  assert_in_range(t[0].syncs, 2 * 150, 2 * 250);
  assert_int_equal(t[4].syncs, 2 * 800);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("schedule_sync", a_synchronisation_waits_until_the_block_quits),
      RONDO_NAMED_TEST("schedule_sync", a_synchronisation_ends_in_the_middle_of_a_run),
      RONDO_NAMED_TEST("schedule_sync", own_orders_end_with_synchronisations_between),
      RONDO_NAMED_TEST("schedule_sync", the_seed_draws_synchronisations),
  };
  return cmocka_run_group_tests_name("schedule_sync", tests, NULL, NULL);
}
