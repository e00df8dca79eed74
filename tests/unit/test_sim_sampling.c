// The sampler that jumps from one rare event to the next against the naive draw of every event:
// the same distribution. Seeds are fixed, so a test passes or fails for good; the bounds are those
// that a right sampler exceeds less than once in 100,000 seeds.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/deadlock/exact_fast.h"
#include "sim/deadlock/exact_literal.h"
#include "tests/support/load.h"
#include "tests/unit/sim_layouts.h"

#define SIGMAS 4.5

// The chi-square bound that is passed with a probability of about 1e-5 (Wilson and Hilferty).
static double chi_square_bound(int freedom) {
  double k = freedom, c = 2 / (9 * k);
  return k * pow(1 - c + 4.3 * sqrt(c), 3);
}

// Two samples of the same cells: is their difference more than chance?
static void assert_same_cells(const uint32_t *a, const uint32_t *b, int cells) {
  double chi = 0;
  int used = 0;
  for (int k = 0; k < cells; k++) {
    double sum = (double)a[k] + b[k], difference = (double)a[k] - b[k];
    if (sum >= 10) {
      chi += difference * difference / sum;
      used++;
    }
  }
  assert_true(used > 1);
  assert_true(chi < chi_square_bound(used - 1));
}

static void jumps_are_geometric(void **state) {
  (void)state;
  static const double ps[] = {0.5, 0.1, 0.9};
  uint32_t draws = (uint32_t)rondo_test_load(1000000, 100000);
  for (int i = 0; i < 3; i++) {
    struct rondo_sim_rare rare = rondo_sim_rare_make(ps[i]);
    struct rondo_sim_rng rng;
    uint32_t jumped[12] = {0}, counted[12] = {0};
    rondo_sim_rng_begin(&rng, 31, 0, (uint64_t)i);
    for (uint32_t k = 0; k < draws; k++) {
      uint64_t jump = rondo_sim_rare_jump(&rare, &rng), count = 0;
      while (rondo_sim_rng_unit(&rng) >= ps[i]) {
        count++;
      }
      jumped[jump < 11 ? jump : 11]++;
      counted[count < 11 ? count : 11]++;
    }
    assert_same_cells(jumped, counted, 12);
  }
}

static void certain_and_impossible_events_jump_right(void **state) {
  (void)state;
  struct rondo_sim_rare never = rondo_sim_rare_make(0), always = rondo_sim_rare_make(1);
  struct rondo_sim_rng rng;
  rondo_sim_rng_begin(&rng, 32, 0, 0);
  assert_true(rondo_sim_rare_jump(&never, &rng) > UINT64_C(1) << 60);
  assert_int_equal(rondo_sim_rare_jump(&always, &rng), 0);
}

// A number for what a round of one GPU with four collectives and syncs in between looks like.
static uint32_t shape_of(const struct rondo_sim_programs *p) {
  uint32_t shape = 0;
  for (uint32_t n = 0; n < 4; n++) {
    uint32_t item = p->items[p->programs[0].first + n];
    shape = shape * 8 + (item & ~RONDO_SIM_SYNC_BEFORE) * 2 + (item >= RONDO_SIM_SYNC_BEFORE);
  }
  return shape;
}

// Every order of four collectives with every set of synchronisations comes as often either way.
static void whole_lists_come_as_often_either_way(void **state) {
  (void)state;
  static const enum rondo_sim_skipped skipped[] = {RONDO_SIM_SKIPPED_KEEPS_ODDS,
                                                   RONDO_SIM_SKIPPED_NEXT, RONDO_SIM_SKIPPED_LAST};
  static const double disorder[] = {0.4, 0.1};
  uint32_t rounds = (uint32_t)rondo_test_load(400000, 40000);
  struct rondo_sim_layout w;
  struct rondo_sim_events e = {0};
  struct rondo_sim_programs p;
  uint32_t seed_gpu = 0;
  one_group_layout(&w, 1, 4);
  rondo_sim_programs_init(&p, &w);
  for (int i = 0; i < 6; i++) {
    struct rondo_sim_chances chances = chances_of(disorder[i / 3], 0.3, skipped[i % 3]);
    uint32_t *fast = calloc(4096, sizeof(*fast)), *naive = calloc(4096, sizeof(*naive));
    for (uint32_t round = 0; round < rounds; round++) {
      struct rondo_sim_rng rng;
      struct rondo_sim_range all = {0, UINT64_MAX, &seed_gpu, 1};
      rondo_sim_rng_begin(&rng, 33, (uint64_t)i, round);
      rondo_sim_events_draw(&e, &w, &chances, true, &rng);
      rondo_sim_programs_region(&p, &w, &e, &all);
      fast[shape_of(&p)]++;
      rondo_sim_programs_draw(&p, &w, &chances, &rng);
      naive[shape_of(&p)]++;
    }
    assert_same_cells(fast, naive, 4096);
    free(fast);
    free(naive);
  }
  rondo_sim_programs_fini(&p);
  rondo_sim_events_fini(&e);
  rondo_sim_layout_fini(&w);
}

static void assert_same_ratio(uint32_t a, uint32_t b, uint32_t rounds) {
  double p = ((double)a + b) / (2.0 * rounds);
  double sigma = sqrt(2 * p * (1 - p) * rounds);
  assert_in_range(a + b, rounds / 50, rounds * 2 - rounds / 50);
  assert_true(fabs((double)a - b) < SIGMAS * sigma);
}

struct compared {
  uint32_t limit;
  double disorder, sync;
  enum rondo_sim_skipped skipped;
  enum rondo_sim_order order;
};

static const struct compared cases[] = {
    {1, 0.003, 0, RONDO_SIM_SKIPPED_KEEPS_ODDS, RONDO_SIM_INTERLEAVED},
    {1, 0.003, 0, RONDO_SIM_SKIPPED_NEXT, RONDO_SIM_SEQUENTIAL},
    {RONDO_SIM_UNLIMITED, 0.05, 0.1, RONDO_SIM_SKIPPED_KEEPS_ODDS, RONDO_SIM_INTERLEAVED},
    {RONDO_SIM_UNLIMITED, 0.05, 0.1, RONDO_SIM_SKIPPED_NEXT, RONDO_SIM_SEQUENTIAL},
    {1, 0.003, 0, RONDO_SIM_SKIPPED_LAST, RONDO_SIM_INTERLEAVED},
    {RONDO_SIM_UNLIMITED, 0.01, 0.05, RONDO_SIM_SKIPPED_LAST, RONDO_SIM_SEQUENTIAL},
    {2, 0.12, 0.02, RONDO_SIM_SKIPPED_KEEPS_ODDS, RONDO_SIM_INTERLEAVED},
};

static bool naive_deadlock(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                           const struct compared *c, const struct rondo_sim_chances *chances,
                           struct rondo_sim_rng *rng) {
  struct rondo_sim_literal literal;
  rondo_sim_programs_draw(p, w, chances, rng);
  bool deadlock = rondo_sim_literal_run(&literal, p, c->limit, RONDO_SIM_ROUND_ROBIN, NULL);
  rondo_sim_literal_fini(&literal);
  return deadlock;
}

// The whole fast path (sampler and decision) against the whole naive one, on a 3D grouping's stage:
// two groups of three and three of two.
static void both_engines_give_the_same_ratio(void **state) {
  (void)state;
  static const uint32_t gpus[5][3] = {{0, 1, 2}, {3, 4, 5}, {0, 3}, {1, 4}, {2, 5}};
  struct rondo_sim_group groups[5];
  for (int g = 0; g < 5; g++) {
    groups[g] = (struct rondo_sim_group){gpus[g], g < 2 ? 3 : 2, g < 2 ? 8 : 14};
  }
  uint32_t rounds = (uint32_t)rondo_test_load(20000, 2500);
  for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
    struct rondo_sim_layout w;
    struct rondo_sim_events e = {0};
    struct rondo_sim_programs p;
    struct rondo_sim_fast fast;
    struct rondo_sim_chances chances =
        chances_of(cases[k].disorder, cases[k].sync, cases[k].skipped);
    uint32_t by_fast = 0, by_naive = 0;
    rondo_sim_layout_init(&w, groups, 5, 6, cases[k].order);
    rondo_sim_programs_init(&p, &w);
    rondo_sim_fast_init(&fast, &w, cases[k].limit);
    for (uint32_t round = 0; round < rounds; round++) {
      struct rondo_sim_rng rng;
      rondo_sim_rng_begin(&rng, 34, k, round);
      rondo_sim_events_draw(&e, &w, &chances, false, &rng);
      by_fast += rondo_sim_fast_deadlock(&fast, &e);
      by_naive += naive_deadlock(&p, &w, &cases[k], &chances, &rng);
    }
    assert_same_ratio(by_fast, by_naive, rounds);
    rondo_sim_fast_fini(&fast);
    rondo_sim_programs_fini(&p);
    rondo_sim_events_fini(&e);
    rondo_sim_layout_fini(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(jumps_are_geometric),
      cmocka_unit_test(certain_and_impossible_events_jump_right),
      cmocka_unit_test(whole_lists_come_as_often_either_way),
      cmocka_unit_test(both_engines_give_the_same_ratio),
  };
  return cmocka_run_group_tests_name("sim.sampling", tests, NULL, NULL);
}
