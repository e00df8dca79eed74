// Ratios that can be known exactly: by closed form, and by enumerating every order and every set of
// synchronisations of tiny jobs. The engines must agree with them.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/deadlock/exact_fast.h"
#include "sim/deadlock/exact_literal.h"
#include "sim/deadlock/published_literal.h"
#include "sim/deadlock/stats.h"
#include "tests/support/load.h"
#include "tests/unit/sim_layouts.h"

#define MAX_LISTS 256
#define MAX_LENGTH 4
#define SIGMAS 4.5

// One thing that a GPU may do in a round, and how likely it is.
struct list {
  uint32_t slots[MAX_LENGTH];
  bool sync[MAX_LENGTH];
  double probability;
};

struct lists {
  struct list all[MAX_LISTS];
  uint32_t count;
};

// Adds all continuations of `so_far`, whose first `n` slots are fixed. The rules are the model's:
// walk what is left, skip each with the disorder probability, take the last one in any case.
static void enumerate(struct lists *out, struct list so_far, uint32_t n, uint32_t length,
                      double disorder, double sync) {
  if (n == length || n == MAX_LENGTH) {
    assert_true(out->count < MAX_LISTS);
    out->all[out->count++] = so_far;
    return;
  }
  double skipped = 1;
  uint32_t left = length - n;
  for (uint32_t slot = 0; slot < length; slot++) {
    bool taken = false;
    for (uint32_t k = 0; k < n; k++) {
      taken |= so_far.slots[k] == slot;
    }
    if (taken) {
      continue;
    }
    double chance = --left > 0 ? skipped * (1 - disorder) : skipped;
    skipped *= disorder;
    for (int synced = 0; synced < (sync > 0 && n > 0 ? 2 : 1); synced++) {
      struct list next = so_far;
      next.slots[n] = slot;
      next.sync[n] = synced;
      next.probability *= chance * (n == 0 || sync <= 0 ? 1 : synced ? sync : 1 - sync);
      enumerate(out, next, n + 1, length, disorder, sync);
    }
  }
}

// Appends the windows of one GPU's list: each ends where all that was planned so far has come.
static void add_windows(struct rondo_sim_events *e, uint32_t gpu, const struct list *list,
                        uint32_t length) {
  uint32_t highest = 0, start = 0;
  for (uint32_t n = 0; n < length; n++) {
    highest = n == start || list->slots[n] > highest ? list->slots[n] : highest;
    e->permuted[e->permuted_count++] = list->slots[n];
    if (highest > n) {
      continue;
    }
    uint32_t size = n - start + 1;
    if (size > 1) {
      e->windows[e->window_count++] =
          (struct rondo_sim_window){gpu, start, size, e->permuted_count - size};
    }
    start = n + 1;
  }
}

// The events of a round in which each GPU follows its list.
static void events_of(struct rondo_sim_events *e, const struct rondo_sim_layout *w,
                      const struct list *const *lists) {
  static struct rondo_sim_window windows[16];
  static struct rondo_sim_sync syncs[16];
  static uint32_t permuted[64];
  *e = (struct rondo_sim_events){.windows = windows,
                                 .syncs = syncs,
                                 .permuted = permuted,
                                 .window_capacity = 16,
                                 .sync_capacity = 16};
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    add_windows(e, gpu, lists[gpu], rondo_sim_layout_length(w, gpu));
    for (uint32_t n = 0; n < rondo_sim_layout_length(w, gpu); n++) {
      if (lists[gpu]->sync[n]) {
        syncs[e->sync_count++] = (struct rondo_sim_sync){w->slot_offset[gpu] + n, 1};
      }
    }
  }
  rondo_sim_events_end(e);
}

struct enumeration {
  struct rondo_sim_layout *job;
  uint32_t limit;
  struct lists lists[3];
  double total, deadlock, published; // probabilities
  uint64_t rounds;
};

static bool literal_deadlock(struct enumeration *x, const struct rondo_sim_events *e) {
  struct rondo_sim_programs p;
  struct rondo_sim_literal l;
  struct rondo_sim_range all = {0, UINT64_MAX, x->job->component_gpus, x->job->gpu_count};
  rondo_sim_programs_init(&p, x->job);
  rondo_sim_programs_region(&p, x->job, e, &all);
  bool deadlock = rondo_sim_literal_run(&l, &p, x->limit, RONDO_SIM_ROUND_ROBIN, NULL);
  rondo_sim_literal_fini(&l);
  rondo_sim_programs_fini(&p);
  return deadlock;
}

static bool published_deadlock(struct enumeration *x, const struct rondo_sim_events *e) {
  struct rondo_sim_published p;
  struct rondo_sim_chances chances = chances_of(0, 0, RONDO_SIM_SKIPPED_KEEPS_ODDS);
  rondo_sim_published_init(&p, x->job, x->limit == 1, &chances, 0);
  bool deadlock = rondo_sim_published_round(&p, (struct rondo_sim_draws){.events = e});
  rondo_sim_published_fini(&p);
  return deadlock;
}

// Plays every combination of lists; the fast decision must be the literal one in each.
static void play_all(struct enumeration *x) {
  const struct list *chosen[3] = {NULL};
  struct rondo_sim_fast fast;
  uint64_t combinations = 1;
  rondo_sim_fast_init(&fast, x->job, x->limit);
  for (uint32_t gpu = 0; gpu < x->job->gpu_count; gpu++) {
    combinations *= x->lists[gpu].count;
  }
  for (uint64_t n = 0; n < combinations; n++) {
    double probability = 1;
    uint64_t rest = n;
    for (uint32_t gpu = 0; gpu < x->job->gpu_count; gpu++) {
      chosen[gpu] = &x->lists[gpu].all[rest % x->lists[gpu].count];
      probability *= chosen[gpu]->probability;
      rest /= x->lists[gpu].count;
    }
    struct rondo_sim_events e;
    events_of(&e, x->job, chosen);
    bool deadlock = literal_deadlock(x, &e);
    assert_int_equal(rondo_sim_fast_deadlock(&fast, &e), deadlock);
    x->total += probability;
    x->deadlock += deadlock ? probability : 0;
    x->published += x->limit != 2 && published_deadlock(x, &e) ? probability : 0;
  }
  x->rounds = combinations;
  rondo_sim_fast_fini(&fast);
}

static void enumerate_layout(struct enumeration *x, struct rondo_sim_layout *w, uint32_t limit,
                             double disorder, double sync) {
  memset(x, 0, sizeof(*x));
  x->job = w;
  x->limit = limit;
  assert_true(w->gpu_count <= 3);
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    struct list empty = {.probability = 1};
    enumerate(&x->lists[gpu], empty, 0, rondo_sim_layout_length(w, gpu), disorder, sync);
  }
  play_all(x);
  assert_true(fabs(x->total - 1) < 1e-12);
}

static void assert_sampled_ratio(struct rondo_sim_layout *w, uint32_t limit, double disorder,
                                 double sync, double expected) {
  uint32_t deadlocks = 0, rounds = (uint32_t)rondo_test_load(200000, 20000);
  struct rondo_sim_chances chances = chances_of(disorder, sync, RONDO_SIM_SKIPPED_KEEPS_ODDS);
  struct rondo_sim_events e = {0};
  struct rondo_sim_fast fast;
  rondo_sim_fast_init(&fast, w, limit);
  for (uint32_t round = 0; round < rounds; round++) {
    struct rondo_sim_rng rng;
    rondo_sim_rng_begin(&rng, 41, 0, round);
    rondo_sim_events_draw(&e, w, &chances, false, &rng);
    deadlocks += rondo_sim_fast_deadlock(&fast, &e);
  }
  double sigma = sqrt(expected * (1 - expected) * rounds);
  assert_true(fabs(deadlocks - expected * rounds) <= SIGMAS * sigma + 1e-9);
  rondo_sim_fast_fini(&fast);
  rondo_sim_events_fini(&e);
}

static struct enumeration x; // too large for a stack

static void one_group_agrees_with_its_closed_form(void **state) {
  (void)state;
  for (uint32_t gpus = 2; gpus <= 3; gpus++) {
    struct rondo_sim_layout w;
    one_group_layout(&w, gpus, 4);
    enumerate_layout(&x, &w, 1, 0.2, 0);
    assert_true(fabs(x.deadlock - rondo_sim_one_group(gpus, 4, 0.2)) < 1e-12);
    assert_sampled_ratio(&w, 1, 0.2, 0, x.deadlock);
    rondo_sim_layout_fini(&w);
  }
}

static void row_a_agrees_with_its_closed_form(void **state) {
  (void)state;
  struct rondo_sim_layout w;
  double expected = rondo_sim_one_group(8, 161, 1e-3);
  assert_true(fabs(rondo_sim_one_group(8, 161, 1e-5) - 0.012719) < 1e-5);
  one_group_layout(&w, 8, 161);
  assert_sampled_ratio(&w, 1, 1e-3, 0, expected);
  rondo_sim_layout_fini(&w);
}

// Two GPUs share two groups; each has 2 collectives in each: every order, every synchronisation.
static void every_round_of_two_gpus_is_decided_alike(void **state) {
  (void)state;
  static const uint32_t both[2] = {0, 1};
  static const uint32_t limits[] = {1, 2, RONDO_SIM_UNLIMITED};
  for (int k = 0; k < 6; k++) {
    struct rondo_sim_group groups[2] = {{both, 2, 1}, {both, 2, 2}};
    struct rondo_sim_layout w;
    double sync = limits[k % 3] == 1 ? 0 : 0.3;
    rondo_sim_layout_init(&w, groups, 2, 2, k < 3 ? RONDO_SIM_INTERLEAVED : RONDO_SIM_SEQUENTIAL);
    enumerate_layout(&x, &w, limits[k % 3], 0.3, sync);
    assert_true(x.deadlock > 0.001);
    assert_sampled_ratio(&w, limits[k % 3], 0.3, sync, x.deadlock);
    rondo_sim_layout_fini(&w);
  }
}

static void every_round_of_three_gpus_is_decided_alike(void **state) {
  (void)state;
  static const uint32_t pairs[2][3] = {{0, 1, 2}, {1, 2, 0}};
  for (int k = 0; k < 3; k++) {
    struct rondo_sim_group groups[2] = {{pairs[0], 3, k == 0 ? 2 : 1}, {pairs[1], 2, 1}};
    uint32_t limit = k == 0 ? 1 : k == 1 ? RONDO_SIM_UNLIMITED : 2;
    struct rondo_sim_layout w;
    rondo_sim_layout_init(&w, groups, 2, 3, RONDO_SIM_INTERLEAVED);
    enumerate_layout(&x, &w, limit, 0.25, k == 0 ? 0 : 0.4);
    assert_sampled_ratio(&w, limit, 0.25, k == 0 ? 0 : 0.4, x.deadlock);
    rondo_sim_layout_fini(&w);
  }
}

// A cycle through three groups, no two GPUs disagreeing on any one group: a real FIFO sees it, the
// published slot for each group cannot.
static void triangle_is_seen_by_real_queues_alone(void **state) {
  (void)state;
  struct rondo_sim_layout w;
  triangle_layout(&w, 1, RONDO_SIM_INTERLEAVED);
  enumerate_layout(&x, &w, 1, 0.3, 0);
  // One order of each GPU's two collectives is planned. Of the eight rounds the two deadlock in
  // which each GPU begins with what its left (or right) neighbour begins last.
  assert_true(fabs(x.deadlock - (0.3 * 0.7 * 0.7 + 0.7 * 0.3 * 0.3)) < 1e-12);
  assert_true(x.published < 1e-15);
  assert_sampled_ratio(&w, 1, 0.3, 0, x.deadlock);
  rondo_sim_layout_fini(&w);
}

static void triangle_deadlocks_by_synchronisations(void **state) {
  (void)state;
  struct rondo_sim_layout w;
  triangle_layout(&w, 1, RONDO_SIM_INTERLEAVED);
  enumerate_layout(&x, &w, RONDO_SIM_UNLIMITED, 0.3, 0.5);
  // As above, and each of the three must synchronise in between.
  double cyclic = 0.3 * 0.7 * 0.7 + 0.7 * 0.3 * 0.3;
  assert_true(fabs(x.deadlock - cyclic * 0.125) < 1e-12);
  assert_sampled_ratio(&w, RONDO_SIM_UNLIMITED, 0.3, 0.5, x.deadlock);
  rondo_sim_layout_fini(&w);
}

static void wilson_intervals_are_the_known_ones(void **state) {
  (void)state;
  struct rondo_sim_interval i = rondo_sim_wilson(10, 100);
  assert_true(fabs(i.low - 0.0552291) < 1e-6 && fabs(i.high - 0.1743657) < 1e-6);
  i = rondo_sim_wilson(0, 10);
  assert_true(i.low == 0 && fabs(i.high - 0.2775328) < 1e-6);
  i = rondo_sim_wilson(10, 10);
  assert_true(fabs(i.low - 0.7224672) < 1e-6 && i.high == 1);
  i = rondo_sim_wilson(0, 0);
  assert_true(i.low == 0 && i.high == 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_group_agrees_with_its_closed_form),
      cmocka_unit_test(row_a_agrees_with_its_closed_form),
      cmocka_unit_test(every_round_of_two_gpus_is_decided_alike),
      cmocka_unit_test(every_round_of_three_gpus_is_decided_alike),
      cmocka_unit_test(triangle_is_seen_by_real_queues_alone),
      cmocka_unit_test(triangle_deadlocks_by_synchronisations),
      cmocka_unit_test(wilson_intervals_are_the_known_ones),
  };
  return cmocka_run_group_tests_name("sim.exact", tests, NULL, NULL);
}
