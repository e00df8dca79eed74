// Ranks of the schedule simulator that share the cores of their machine.
#include <math.h>
#include <stdio.h>

#include "daemon/plan/build.h"
#include "daemon/plan/cost.h"
#include "tests/support/named.h"
#include "tests/support/schedule.h"
#include <rondo/rondo.h>

// Four pairs, each with a message that takes a core at both ends for a microsecond.
static void a_core_does_one_thing_at_a_time(void **state) {
  (void)state;
  static const struct {
    const char *cores;
    uint64_t ns;
  } cells[] = {{"1", 8000}, {"2", 4000}, {"3", 3000}, {"4", 2000}, {"8", 2000}};
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_schedule_job job;
    const char *const settings[] = {"op",         "send_recv", "bytes",        "64", "loggp",
                                    "0,1000,0,0", "cores",     cells[i].cores, END};
    job_open(&job, settings);
    job.basic.size = 2;
    struct rondo_schedule_totals t = job_play(&job);
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
    assert_int_equal(t.makespan_ns, cells[i].ns);
    assert_int_equal(t.blocked_ns[RONDO_SCHEDULE_NO_CORE] > 0, i < 4);
  }
}

// Each of 4 × 6 messages of a ring takes a core for two microseconds. With a core for each rank the
// ring takes its six hops. Two machines with two ranks and a core each are as fast as one with two.
static void a_ring_shares_its_work(void **state) {
  (void)state;
  static const struct {
    const char *machines, *cores;
    uint64_t ns;
  } cells[] = {{"1", "1", 48000}, {"1", "2", 24000}, {"1", "4", 12000}, {"2", "1", 24000}};
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_schedule_totals t =
        PLAY("ranks", "4", "algo", "ring", "bytes", "64", "loggp", "0,1000,0,0", "machines",
             cells[i].machines, "cores", cells[i].cores);
    assert_int_equal(t.makespan_ns, cells[i].ns);
  }
}

// Ranks compute for 5 ms each, in slices of a millisecond. A step that is ready meanwhile waits for
// one slice at most: rank 0 is through after 5 us of the third rank's computing.
static void computing_takes_turns(void **state) {
  (void)state;
  static const struct {
    const char *ranks, *cores;
    uint64_t ms;
  } cells[] = {{"4", "1", 20}, {"4", "2", 10}, {"3", "2", 8}, {"3", "3", 5}, {"3", "8", 5}};
  for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
    struct rondo_schedule_totals t = PLAY("ranks", cells[i].ranks, "op", "barrier", "loggp",
                                          "0,0,0,0", "compute", "5ms", "cores", cells[i].cores);
    assert_int_equal(t.makespan_ns, cells[i].ms * 1000000);
  }
  // A barrier of the ranks 0 and 1 ends although rank 2 goes on computing on the only core.
  struct rondo_schedule_totals t = PLAY("ranks", "3", "op", "barrier", "loggp", "0,0,0,0",
                                        "compute", "1us", "slow-rank", "2=5000", "cores", "1");
  assert_int_equal(t.makespan_ns, 5002000);
}

// The simulated time of a collective that is alone on two cores, by that which the model predicts.
static double fit_error(int kind, int algorithm, uint32_t n, uint64_t bytes) {
  char ranks[16], size[24];
  const struct rondo_cost_query q = {
      .kind = kind, .nranks = n, .bytes = bytes, .link = RONDO_COST_SHARED_MEMORY, .cores = 2};
  if (!rondo_cost_is_candidate(&q, algorithm) ||
      !rondo_cost_is_measured(&rondo_cost_defaults, &q, algorithm))
    return 0;
  snprintf(ranks, sizeof ranks, "%u", n);
  snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
  struct rondo_schedule_totals t = PLAY("ranks", ranks, "bytes", size, "op", rondo_kind_name(kind),
                                        "algo", rondo_plan_algorithm_name(algorithm), "cores", "2");
  assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
  return (double)t.makespan_ns / rondo_cost_predict(&rondo_cost_defaults, &q, algorithm) - 1;
}

// Messages cost what makes a collective that is alone take as long as the model says, which has
// measured ranks that share cores.
static void a_collective_alone_takes_the_measured_time(void **state) {
  (void)state;
  static const uint32_t ranks[] = {3, 4, 8, 13};
  static const uint64_t sizes[] = {8, 3000, 200000};
  uint32_t count = 0;
  double sum = 0;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++)
    for (int algorithm = 0; algorithm < RONDO_ALGORITHM_COUNT; algorithm++)
      for (size_t i = 0; i < 12; i++) {
        double error = fit_error(kind, algorithm, ranks[i / 3], sizes[i % 3]);
        if (fabs(error) > 0.125)
          fail_msg("%s of %llu B by %s, %u ranks: %+.3f", rondo_kind_name(kind),
                   (unsigned long long)sizes[i % 3], rondo_plan_algorithm_name(algorithm),
                   ranks[i / 3], error);
        count += error != 0;
        sum += fabs(error);
      }
  assert_true(count > 100 && sum / count < 0.01);
}

// Several collectives at the same time keep the cores busier than one.
static void disorder_ends_on_shared_cores(void **state) {
  (void)state;
  for (char seed[] = "1"; *seed <= '5'; ++*seed) {
    struct rondo_schedule_totals t =
        PLAY("ranks", "16", "machines", "2", "collectives", "20", "bytes", "64KiB", "orders",
             "random", "compute", "3us", "iterations", "2", "seed", seed, "cores", "3");
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DONE);
    assert_int_equal(t.runs_ended, 16 * 20 * 2);
    assert_true(t.blocked_ns[RONDO_SCHEDULE_NO_CORE] > 0);
    t = PLAY("ranks", "16", "machines", "2", "collectives", "20", "bytes", "64KiB", "orders",
             "random", "seed", seed, "cores", "3", "budget", "never");
    assert_int_equal(t.outcome, RONDO_SCHEDULE_DEADLOCK);
  }
}

// A machine with as many cores as ranks is one whose ranks share none. Equal options give equal
// results.
static void enough_cores_change_nothing(void **state) {
  (void)state;
  struct rondo_schedule_totals t[4];
  static const char *const cores[] = {"3", "3", "12", "4000"};
  for (int i = 0; i < 4; i++)
    t[i] = PLAY("ranks", "24", "machines", "2", "collectives", "10", "bytes", "64KiB", "orders",
                "random", "jitter", "0.5", "compute", "3us", "step", "20ns", "cores", cores[i]);
  struct rondo_schedule_totals none =
      PLAY("ranks", "24", "machines", "2", "collectives", "10", "bytes", "64KiB", "orders",
           "random", "jitter", "0.5", "compute", "3us", "step", "20ns");
  assert_memory_equal(&t[0], &t[1], sizeof t[0]);
  assert_memory_not_equal(&t[0], &none, sizeof none);
  assert_memory_equal(&t[2], &none, sizeof none);
  assert_memory_equal(&t[3], &none, sizeof none);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("schedule_cores", a_core_does_one_thing_at_a_time),
      RONDO_NAMED_TEST("schedule_cores", a_ring_shares_its_work),
      RONDO_NAMED_TEST("schedule_cores", computing_takes_turns),
      RONDO_NAMED_TEST("schedule_cores", a_collective_alone_takes_the_measured_time),
      RONDO_NAMED_TEST("schedule_cores", disorder_ends_on_shared_cores),
      RONDO_NAMED_TEST("schedule_cores", enough_cores_change_nothing),
  };
  return cmocka_run_group_tests_name("schedule_cores", tests, NULL, NULL);
}
