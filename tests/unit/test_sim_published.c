// The published simulator's decisions: the plain reproduction against recorded results of the
// published program itself, and the quick one against the plain one on the same events.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim/deadlock/config.h"
#include "sim/deadlock/mersenne.h"
#include "sim/deadlock/published_literal.h"
#include "sim/deadlock/published_quick.h"
#include "tests/support/load.h"
#include "tests/unit/sim_layouts.h"

// Python 3.11: random.seed(2023); [random.random() for _ in range(3)]
static void mersenne_reads_as_cpython(void **state) {
  (void)state;
  static struct rondo_sim_mersenne m;
  rondo_sim_mersenne_seed(&m, 2023);
  assert_true(rondo_sim_mersenne_unit(&m) == 0x1.881caf59cf100p-2);
  assert_true(rondo_sim_mersenne_unit(&m) == 0x1.f197e85c9490ep-1);
  assert_true(rondo_sim_mersenne_unit(&m) == 0x1.b008d658e9334p-1);
}

struct recorded {
  const char *config;
  uint32_t deadlocks; // what the published program printed for one process, except where noted
};

static const struct recorded recordings[] = {
    {"{\"total_rounds\": 100, \"fix_seed\": 1, \"gpu_num\": 8, \"disorder_prob\": 0.1, "
     "\"sync_prob\": 0.1, \"model\": \"StreamWithSync\", \"grouping_policy\": \"Arbitrary\", "
     "\"resource_limit\": 50, \"group_num\": 4, \"gpu_per_group\": [[0, 1, 2], [2, 3, 5], "
     "[4, 5, 6], [6, 7, 0, 1, 3]], \"coll_cnt_per_group\": [10, 9, 8, 7], \"num_process\": 1}",
     18},
    {"{\"total_rounds\": 100, \"fix_seed\": 1, \"disorder_prob\": 0.1, \"sync_prob\": 0.1, "
     "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 2, "
     "\"dp_group_size\": 2, \"pp_group_size\": 2, \"coll_cnt_per_tp_group\": 10, "
     "\"coll_cnt_per_dp_group\": 10, \"num_process\": 1}",
     4},
    {"{\"total_rounds\": 300, \"fix_seed\": 1, \"disorder_prob\": 0.0005, \"sync_prob\": 0.01, "
     "\"model\": \"Single\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 2, "
     "\"dp_group_size\": 2, \"pp_group_size\": 2, \"coll_cnt_per_tp_group\": 10, "
     "\"coll_cnt_per_dp_group\": 30, \"num_process\": 1}",
     20},
    {"{\"total_rounds\": 200, \"fix_seed\": 1, \"gpu_num\": 6, \"disorder_prob\": 0.02, "
     "\"sync_prob\": 0.05, \"model\": \"StreamWithSync\", \"grouping_policy\": \"Arbitrary\", "
     "\"resource_limit\": 4, \"group_num\": 3, \"gpu_per_group\": [[0, 1, 2, 3], [2, 3, 4], "
     "[0, 4, 5]], \"coll_cnt_per_group\": [20, 8, 12], \"num_process\": 1}",
     4},
    {"{\"total_rounds\": 200, \"fix_seed\": 1, \"gpu_num\": 3, \"disorder_prob\": 0.3, "
     "\"sync_prob\": 0, \"model\": \"Single\", \"grouping_policy\": \"Arbitrary\", "
     "\"group_num\": 3, \"gpu_per_group\": [[0, 1], [1, 2], [2, 0]], "
     "\"coll_cnt_per_group\": [5, 5, 5], \"num_process\": 1}",
     188},
    // Groups of one kind, or of both, hold no collectives. A second implementation of the published
    // rules, which gives the five counts above, counted these deadlocks.
    {"{\"total_rounds\": 200, \"fix_seed\": 1, \"disorder_prob\": 0.1, \"sync_prob\": 0.1, "
     "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 1, "
     "\"dp_group_size\": 4, \"pp_group_size\": 2, \"coll_cnt_per_tp_group\": 0, "
     "\"coll_cnt_per_dp_group\": 12, \"num_process\": 1}",
     43},
    {"{\"total_rounds\": 200, \"fix_seed\": 1, \"disorder_prob\": 0.02, \"sync_prob\": 0.1, "
     "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 3, "
     "\"dp_group_size\": 2, \"pp_group_size\": 2, \"coll_cnt_per_tp_group\": 0, "
     "\"coll_cnt_per_dp_group\": 20, \"num_process\": 1}",
     10},
    {"{\"total_rounds\": 300, \"fix_seed\": 1, \"disorder_prob\": 0.001, \"sync_prob\": 0, "
     "\"model\": \"Single\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 4, "
     "\"dp_group_size\": 1, \"pp_group_size\": 1, \"coll_cnt_per_tp_group\": 30, "
     "\"coll_cnt_per_dp_group\": 0, \"num_process\": 1}",
     27},
    {"{\"total_rounds\": 300, \"fix_seed\": 1, \"disorder_prob\": 0.002, \"sync_prob\": 0, "
     "\"model\": \"Single\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 2, "
     "\"dp_group_size\": 3, \"pp_group_size\": 1, \"coll_cnt_per_tp_group\": 0, "
     "\"coll_cnt_per_dp_group\": 20, \"num_process\": 1}",
     56},
    {"{\"total_rounds\": 200, \"fix_seed\": 1, \"disorder_prob\": 0.02, \"sync_prob\": 0.05, "
     "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 2, "
     "\"dp_group_size\": 3, \"pp_group_size\": 1, \"coll_cnt_per_tp_group\": 20, "
     "\"coll_cnt_per_dp_group\": 0, \"resource_limit\": 3, \"num_process\": 1}",
     1},
    {"{\"total_rounds\": 50, \"fix_seed\": 1, \"disorder_prob\": 0.5, \"sync_prob\": 0.1, "
     "\"model\": \"StreamWithSync\", \"grouping_policy\": \"Megatron\", \"tp_group_size\": 2, "
     "\"dp_group_size\": 2, \"pp_group_size\": 1, \"coll_cnt_per_tp_group\": 0, "
     "\"coll_cnt_per_dp_group\": 0, \"num_process\": 1}",
     0},
};

static void same_random_numbers_give_the_published_results(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof(recordings) / sizeof(recordings[0]); k++) {
    struct rondo_sim_config c;
    struct rondo_sim_layout w;
    struct rondo_sim_published p;
    static struct rondo_sim_mersenne m;
    struct rondo_sim_error error;
    rondo_sim_config_init(&c);
    assert_true(rondo_sim_config_parse(&c, recordings[k].config, "recorded", &error));
    assert_true(rondo_sim_config_layout(&c, 0, RONDO_SIM_INTERLEAVED, &w));
    struct rondo_sim_chances chances = chances_of(c.disorder, c.synchronisation, c.skipped);
    rondo_sim_published_init(&p, &w, c.model == RONDO_SIM_SINGLE_QUEUE, &chances,
                             (uint32_t)c.resources);
    rondo_sim_mersenne_seed(&m, 2023);
    uint32_t deadlocks = 0;
    for (uint64_t round = 0; round < c.rounds; round++) {
      deadlocks += rondo_sim_published_round(&p, (struct rondo_sim_draws){.mersenne = &m});
    }
    assert_int_equal(deadlocks, recordings[k].deadlocks);
    rondo_sim_published_fini(&p);
    rondo_sim_layout_fini(&w);
    rondo_sim_config_fini(&c);
  }
}

static bool quick_agrees(const struct rondo_sim_layout *w, bool single, double disorder,
                         double sync, struct rondo_sim_rng *rng) {
  struct rondo_sim_chances chances = chances_of(disorder, sync, RONDO_SIM_SKIPPED_KEEPS_ODDS);
  struct rondo_sim_published plain;
  struct rondo_sim_quick quick;
  struct rondo_sim_events e = {0};
  rondo_sim_events_draw(&e, w, &chances, true, rng);
  rondo_sim_published_init(&plain, w, single, &chances, 0);
  rondo_sim_quick_init(&quick, w, single);
  bool expected = rondo_sim_published_round(&plain, (struct rondo_sim_draws){.events = &e});
  assert_int_equal(rondo_sim_quick_deadlock(&quick, &e), expected);
  rondo_sim_quick_fini(&quick);
  rondo_sim_published_fini(&plain);
  rondo_sim_events_fini(&e);
  return expected;
}

static void quick_decisions_agree_on_free_groups(void **state) {
  (void)state;
  uint32_t deadlocks[2] = {0}, rounds = (uint32_t)rondo_test_load(40000, 4000);
  for (uint32_t round = 0; round < rounds; round++) {
    struct rondo_sim_rng rng;
    struct rondo_sim_layout w;
    rondo_sim_rng_begin(&rng, 21, 0, round);
    bool single = round % 4 == 0;
    small_layout(&w, &rng, round % 2 ? 8 : 40,
                 round / 8 % 2 ? RONDO_SIM_SEQUENTIAL : RONDO_SIM_INTERLEAVED);
    double disorder = rondo_sim_rng_unit(&rng) * (round % 3 ? 0.05 : 0.5);
    double sync = single ? 0 : rondo_sim_rng_unit(&rng) * (round % 5 ? 0.1 : 0.7);
    deadlocks[single] += quick_agrees(&w, single, disorder, sync, &rng);
    rondo_sim_layout_fini(&w);
  }
  assert_in_range(deadlocks[0], rounds / 50, rounds / 2);
  assert_in_range(deadlocks[1], rounds / 50, rounds / 4 - rounds / 100);
}

static void quick_decisions_agree_on_3d_groups(void **state) {
  (void)state;
  uint32_t deadlocks[2] = {0}, rounds = (uint32_t)rondo_test_load(4000, 400);
  struct rondo_sim_config c;
  struct rondo_sim_layout w;
  rondo_sim_config_init(&c);
  c.grouping = RONDO_SIM_3D;
  c.tensor = 2;
  c.data = 3;
  c.pipeline = 2;
  c.tensor_collectives = 20;
  c.data_collectives = 35;
  assert_true(rondo_sim_config_layout(&c, 0, RONDO_SIM_INTERLEAVED, &w));
  for (uint32_t round = 0; round < rounds; round++) {
    struct rondo_sim_rng rng;
    rondo_sim_rng_begin(&rng, 22, 0, round);
    bool single = round % 2 == 0;
    double disorder = single ? 0.0005 : 0.01;
    deadlocks[single] += quick_agrees(&w, single, disorder, single ? 0 : 0.08, &rng);
  }
  assert_in_range(deadlocks[0], rounds / 200, rounds / 3);
  assert_in_range(deadlocks[1], rounds / 200, rounds / 3);
  rondo_sim_layout_fini(&w);
  rondo_sim_config_fini(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mersenne_reads_as_cpython),
      cmocka_unit_test(same_random_numbers_give_the_published_results),
      cmocka_unit_test(quick_decisions_agree_on_free_groups),
      cmocka_unit_test(quick_decisions_agree_on_3d_groups),
  };
  return cmocka_run_group_tests_name("sim.published", tests, NULL, NULL);
}
