// The fast decision against everything slower that decides the same rounds: the full run of all
// programs, the paper's simulator to the letter, and a brute-force search of the dependency graph.
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

static const uint32_t limits[] = {1, 2, 3, RONDO_SIM_UNLIMITED};

struct setup {
  struct rondo_sim_layout job;
  struct rondo_sim_events events;
  struct rondo_sim_programs all; // of the whole job
  uint32_t limit;
  double sync;
};

static void setup_draw(struct setup *s, struct rondo_sim_rng *rng) {
  uint32_t k = rondo_sim_rng_below(rng, 4);
  enum rondo_sim_order order =
      rondo_sim_rng_below(rng, 2) ? RONDO_SIM_INTERLEAVED : RONDO_SIM_SEQUENTIAL;
  s->limit = limits[k];
  s->sync = s->limit == RONDO_SIM_UNLIMITED || rondo_sim_rng_below(rng, 2)
                ? rondo_sim_rng_unit(rng) * 0.6
                : 0;
  small_layout(&s->job, rng, 6, order);
  rondo_sim_programs_init(&s->all, &s->job);
  enum rondo_sim_skipped skipped = (enum rondo_sim_skipped)rondo_sim_rng_below(rng, 3);
  struct rondo_sim_chances chances = chances_of(rondo_sim_rng_unit(rng) * 0.5, s->sync, skipped);
  rondo_sim_events_draw(&s->events, &s->job, &chances, false, rng);
}

// All GPUs and all keys, so nothing is left out.
static void setup_all(struct setup *s) {
  struct rondo_sim_range everything = {0, UINT64_MAX, s->job.component_gpus, s->job.gpu_count};
  rondo_sim_programs_region(&s->all, &s->job, &s->events, &everything);
}

static void setup_fini(struct setup *s) {
  rondo_sim_programs_fini(&s->all);
  rondo_sim_events_fini(&s->events);
  rondo_sim_layout_fini(&s->job);
}

// Is `item` of program `i` executing (1) or invoked and waiting (2) where all programs stopped?
static int state_of(const struct setup *s, uint32_t i, uint32_t item) {
  uint32_t collective = s->all.items[s->all.programs[i].first + item] & ~RONDO_SIM_SYNC_BEFORE;
  if (item >= s->all.programs[i].next) {
    return 2;
  }
  return s->all.collectives[collective].missing > 0 ? 1 : 0;
}

// The two kinds of edges of DFCCL section 2.4.1, straight from its text.
static bool edge(const struct setup *s, uint32_t i, uint32_t a, uint32_t j, uint32_t b) {
  uint32_t ca = s->all.items[s->all.programs[i].first + a] & ~RONDO_SIM_SYNC_BEFORE;
  uint32_t cb = s->all.items[s->all.programs[j].first + b] & ~RONDO_SIM_SYNC_BEFORE;
  int from = state_of(s, i, a), to = state_of(s, j, b);
  return (i != j && ca == cb && from == 1 && to == 2) || (i == j && from == 2 && to == 1);
}

struct node {
  uint32_t program, item;
};

static bool brute_force_cycle(const struct setup *s) {
  struct node nodes[512];
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->all.program_count; i++) {
    for (uint32_t a = 0; a < s->all.programs[i].length; a++) {
      assert_true(n < 512);
      nodes[n++] = (struct node){i, a};
    }
  }
  bool *reach = calloc((size_t)n * n + 1, 1);
  for (uint32_t x = 0; x < n * n; x++) {
    struct node a = nodes[x / n], b = nodes[x % n];
    reach[x] = edge(s, a.program, a.item, b.program, b.item);
  }
  for (uint32_t k = 0; k < n; k++) {
    for (uint32_t x = 0; x < n * n; x++) {
      reach[x] |= reach[x / n * n + k] && reach[k * n + x % n];
    }
  }
  bool cycle = false;
  for (uint32_t k = 0; k < n; k++) {
    cycle |= reach[k * n + k];
  }
  free(reach);
  return cycle;
}

static void assert_cycle_is_real(const struct rondo_sim_literal *l) {
  assert_true(l->cycle_count >= 4);
  for (uint32_t k = 0; k < l->cycle_count; k++) {
    struct rondo_sim_part a = l->cycle[k], b = l->cycle[(k + 1) % l->cycle_count];
    assert_int_not_equal(a.executing, b.executing);
    if (a.executing) {
      assert_int_equal(a.collective, b.collective);
      assert_int_not_equal(a.program, b.program);
    } else {
      assert_int_equal(a.program, b.program);
    }
  }
}

static bool literally(struct setup *s, enum rondo_sim_turns turns, struct rondo_sim_rng *rng) {
  struct rondo_sim_literal l;
  bool deadlock = rondo_sim_literal_run(&l, &s->all, s->limit, turns, rng);
  if (deadlock) {
    assert_cycle_is_real(&l);
  }
  rondo_sim_literal_fini(&l);
  return deadlock;
}

static void all_deciders_agree_on_random_rounds(void **state) {
  (void)state;
  uint32_t deadlocks[4] = {0}, rounds = rondo_test_load(40000, 4000);
  for (uint32_t round = 0; round < rounds; round++) {
    struct rondo_sim_rng rng;
    struct setup s = {0};
    struct rondo_sim_fast fast;
    rondo_sim_rng_begin(&rng, 7, 0, round);
    setup_draw(&s, &rng);
    rondo_sim_fast_init(&fast, &s.job, s.limit);
    bool quick = rondo_sim_fast_deadlock(&fast, &s.events);
    setup_all(&s);
    bool in_turn = literally(&s, RONDO_SIM_ROUND_ROBIN, NULL);
    bool at_random = literally(&s, RONDO_SIM_RANDOM_TURNS, &rng);
    bool full = rondo_sim_programs_stuck(&s.all, s.limit);
    assert_int_equal(quick, full);
    assert_int_equal(in_turn, full);
    assert_int_equal(at_random, full);
    if (s.limit == 1 || s.limit == RONDO_SIM_UNLIMITED) {
      assert_int_equal(brute_force_cycle(&s), full);
    }
    deadlocks[s.limit == RONDO_SIM_UNLIMITED ? 0 : s.limit] += full;
    rondo_sim_fast_fini(&fast);
    setup_fini(&s);
  }
  // A comparison in which nothing ever happens would prove nothing.
  for (int k = 0; k < 4; k++) {
    assert_in_range(deadlocks[k], rounds / 400, rounds / 5);
  }
}

// Longer lists and rarer events: regions that are small against their job.
static void fast_decision_agrees_where_regions_are_small(void **state) {
  (void)state;
  uint32_t deadlocks = 0, rounds = rondo_test_load(3000, 300);
  for (uint32_t round = 0; round < rounds; round++) {
    struct rondo_sim_rng rng;
    struct setup s = {0};
    struct rondo_sim_fast fast;
    rondo_sim_rng_begin(&rng, 8, 0, round);
    s.limit = round % 2 ? 1 : RONDO_SIM_UNLIMITED;
    small_layout(&s.job, &rng, 200, round % 4 < 2 ? RONDO_SIM_INTERLEAVED : RONDO_SIM_SEQUENTIAL);
    rondo_sim_programs_init(&s.all, &s.job);
    struct rondo_sim_chances chances =
        chances_of(0.004, s.limit == 1 ? 0 : 0.2, RONDO_SIM_SKIPPED_KEEPS_ODDS);
    rondo_sim_events_draw(&s.events, &s.job, &chances, false, &rng);
    rondo_sim_fast_init(&fast, &s.job, s.limit);
    bool quick = rondo_sim_fast_deadlock(&fast, &s.events);
    setup_all(&s);
    bool full = rondo_sim_programs_stuck(&s.all, s.limit);
    assert_int_equal(quick, full);
    deadlocks += full;
    rondo_sim_fast_fini(&fast);
    setup_fini(&s);
  }
  assert_in_range(deadlocks, rounds / 10, rounds - rounds / 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_deciders_agree_on_random_rounds),
      cmocka_unit_test(fast_decision_agrees_where_regions_are_small),
  };
  return cmocka_run_group_tests_name("sim.agree", tests, NULL, NULL);
}
