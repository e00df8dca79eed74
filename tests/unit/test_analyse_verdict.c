// The verdict against brute force: random small programs of blocking collectives are run to where
// they stop, and the analyser, shown only the calls, must say what happened.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/analyse/verdict.h"
#include "sim/common/text.h"
#include "tests/support/load.h"

enum { RANKS = 4, GROUPS = 4, STEPS = 5 };

// A job: each rank's program is a list of groups in which it calls the next collective.
struct programs {
  uint8_t members[GROUPS]; // bit i: rank i is in it
  int steps[RANKS][GROUPS * STEPS];
  int lengths[RANKS], at[RANKS]; // calls, and how many completed
};

static uint64_t state_random = 88172645463325252u;

static unsigned draw(unsigned below) {
  state_random ^= state_random << 13;
  state_random ^= state_random >> 7;
  state_random ^= state_random << 17;
  return (unsigned)(state_random >> 33) % below;
}

static void programs_draw(struct programs *p) {
  memset(p, 0, sizeof *p);
  int order[GROUPS * STEPS], count = 1 + (int)draw(GROUPS * STEPS - 1);
  for (int g = 0; g < GROUPS; g++) {
    do {
      p->members[g] = (uint8_t)draw(1 << RANKS);
    } while (__builtin_popcount(p->members[g]) < 2);
  }
  for (int i = 0; i < count; i++) {
    order[i] = (int)draw(GROUPS);
  }
  for (int r = 0; r < RANKS; r++) {
    int n = 0;
    for (int i = 0; i < count; i++) {
      if (p->members[order[i]] >> r & 1) {
        p->steps[r][n++] = order[i];
      }
    }
    for (int swaps = (int)draw(3); swaps > 0 && n > 1; swaps--) {
      int a = (int)draw((unsigned)n - 1);
      int kept = p->steps[r][a];
      p->steps[r][a] = p->steps[r][a + 1];
      p->steps[r][a + 1] = kept;
    }
    p->lengths[r] = n - (n > 0 && draw(6) == 0); // now and then the last call never comes
  }
}

// The group that a rank is blocked in, or -1 if its program has ended.
static int blocked_in(const struct programs *p, int r) {
  return p->at[r] < p->lengths[r] ? p->steps[r][p->at[r]] : -1;
}

static int number_in(const struct programs *p, int r, int group, int calls) {
  int n = 0;
  for (int i = 0; i < calls; i++) {
    n += p->steps[r][i] == group;
  }
  return n;
}

// True if all members of a group are blocked in it (then all in the same call of it).
static bool complete(const struct programs *p, int g) {
  for (int r = 0; r < RANKS; r++) {
    if ((p->members[g] >> r & 1) && blocked_in(p, r) != g) {
      return false;
    }
  }
  return true;
}

// Completes a collective of a group if all its members are there.
static bool group_step(struct programs *p, int g) {
  if (!complete(p, g)) {
    return false;
  }
  for (int r = 0; r < RANKS; r++) {
    p->at[r] += p->members[g] >> r & 1;
  }
  return true;
}

static void programs_run(struct programs *p) {
  int fruitless = 0;
  for (int g = 0; fruitless < GROUPS; g = (g + 1) % GROUPS) {
    fruitless = group_step(p, g) ? 0 : fruitless + 1;
  }
}

// The verdict by brute force: cycles are found by closing the relation "waits for".
static enum rondo_analyse_outcome expected(const struct programs *p) {
  bool waits[RANKS][RANKS] = {{false}};
  bool any = false, cycle = false;
  for (int r = 0; r < RANKS; r++) {
    int g = blocked_in(p, r);
    for (int q = 0; g >= 0 && q < RANKS; q++) {
      waits[r][q] = (p->members[g] >> q & 1) && blocked_in(p, q) != g;
    }
    any |= g >= 0;
  }
  for (int k = 0; k < RANKS; k++) {
    for (int i = 0; i < RANKS; i++) {
      for (int j = 0; j < RANKS; j++) {
        waits[i][j] |= waits[i][k] && waits[k][j];
      }
    }
  }
  for (int r = 0; r < RANKS; r++) {
    cycle |= waits[r][r];
  }
  return cycle ? RONDO_ANALYSE_CIRCULAR_WAIT
         : any ? RONDO_ANALYSE_NEVER_CAME
               : RONDO_ANALYSE_NOTHING_WAITS;
}

static uint32_t group_add(struct rondo_analyse_record *r, const struct programs *p, int g) {
  char name[8];
  int n = snprintf(name, sizeof name, "g%d", g);
  uint32_t key = rondo_analyse_strings_add(&r->strings, name, (size_t)n);
  struct rondo_analyse_group_decl *decl = rondo_analyse_track_group(&r->tracks[0], key);
  decl->members = rondo_sim_alloc(RANKS * sizeof(int64_t));
  for (int i = 0; i < RANKS; i++) {
    if (p->members[g] >> i & 1) {
      decl->members[decl->member_count++] = i;
    }
  }
  decl->size = (int64_t)decl->member_count;
  return (uint32_t)(decl - r->tracks[0].groups);
}

// The events that a recorder keeps of one rank. With `states` off, only the calls.
static void record_make(struct rondo_analyse_record *r, const struct programs *p, int rank,
                        bool states) {
  uint32_t groups[GROUPS] = {0};
  rondo_analyse_record_init(r, "drawn");
  r->source = RONDO_ANALYSE_FLIGHT;
  rondo_analyse_record_track(r)->rank = rank;
  r->tracks[0].states_known = r->tracks[0].starts_known = states;
  for (int g = 0; g < GROUPS; g++) {
    if (p->members[g] >> rank & 1) {
      groups[g] = group_add(r, p, g);
    }
  }
  for (int i = 0; i <= p->at[rank] && i < p->lengths[rank]; i++) {
    struct rondo_analyse_call *call = rondo_analyse_track_call(&r->tracks[0]);
    call->group = groups[p->steps[rank][i]];
    call->kind = RONDO_ANALYSE_ALL_REDUCE;
    call->seq = 1 + number_in(p, rank, p->steps[rank][i], i);
    call->created_ns = 1000 + i;
    if (states) {
      call->state = i < p->at[rank] ? RONDO_ANALYSE_COMPLETED : RONDO_ANALYSE_STARTED;
    }
  }
}

// The cycle must be one: every turn's holder waits, and the next turn is the absent rank's.
static void circle_check(const struct rondo_analyse_analysis *a) {
  const struct rondo_analyse_verdict *v = &a->verdict;
  assert_true(v->turn_count >= 2);
  for (size_t i = 0; i < v->turn_count; i++) {
    const struct rondo_analyse_turn *turn = &v->turns[i];
    const struct rondo_analyse_turn *next = &v->turns[(i + 1) % v->turn_count];
    const struct rondo_analyse_pending *p = &a->waits.pending[turn->holder];
    assert_int_equal(a->waits.pending[next->holder].rank, turn->absent);
    assert_true(a->job->ranks[p->rank].calls[p->call].state != RONDO_ANALYSE_COMPLETED);
    assert_int_not_equal(p->rank, turn->absent);
  }
}

static enum rondo_analyse_outcome judge(const struct programs *p, bool states, int without) {
  struct rondo_analyse_record records[RANKS];
  const struct rondo_analyse_group_hints hints = {0};
  struct rondo_analyse_job job;
  struct rondo_analyse_analysis a;
  for (int r = 0; r < RANKS; r++) {
    record_make(&records[r], p, r, states);
    records[r].unusable = r == without;
  }
  assert_true(rondo_analyse_job_init(&job, RONDO_ANALYSE_FAMILY_TORCH, records, RANKS, &hints));
  rondo_analyse_analysis_init(&a, &job);
  enum rondo_analyse_outcome outcome = a.verdict.outcome;
  if (outcome == RONDO_ANALYSE_CIRCULAR_WAIT) {
    circle_check(&a);
  }
  rondo_analyse_analysis_fini(&a);
  rondo_analyse_job_fini(&job);
  for (int r = 0; r < RANKS; r++) {
    rondo_analyse_record_fini(&records[r]);
  }
  return outcome;
}

static bool is_empty(const struct programs *p) {
  int calls = 0;
  for (int r = 0; r < RANKS; r++) {
    calls += p->lengths[r];
  }
  return calls == 0;
}

static void random_programs_are_judged_as_brute_force_does(void **state) {
  uint64_t seen[RONDO_ANALYSE_OUTCOME_COUNT] = {0};
  (void)state;
  for (uint64_t i = 0; i < rondo_test_load(20000, 2000); i++) {
    struct programs p;
    programs_draw(&p);
    programs_run(&p);
    enum rondo_analyse_outcome wanted = expected(&p);
    if (!is_empty(&p)) {
      assert_int_equal(judge(&p, true, -1), wanted);
      seen[wanted]++;
    }
  }
  assert_true(seen[RONDO_ANALYSE_CIRCULAR_WAIT] > 100);
  assert_true(seen[RONDO_ANALYSE_NEVER_CAME] > 100);
  assert_true(seen[RONDO_ANALYSE_NOTHING_WAITS] > 100);
}

// Calls alone tell the same, as completion can be worked out, except that a job whose calls all
// match is then said to be in order, not to have finished.
static void calls_alone_tell_the_same(void **state) {
  (void)state;
  for (uint64_t i = 0; i < rondo_test_load(20000, 2000); i++) {
    struct programs p;
    programs_draw(&p);
    programs_run(&p);
    enum rondo_analyse_outcome wanted = expected(&p);
    wanted = wanted == RONDO_ANALYSE_NOTHING_WAITS ? RONDO_ANALYSE_NO_CYCLE : wanted;
    if (!is_empty(&p)) {
      assert_int_equal(judge(&p, false, -1), wanted);
    }
  }
}

// With a rank's file missing, a cycle may go unseen, but none may be seen that is not there, and
// what is missing is never taken for something that is known.
static void a_missing_file_invents_nothing(void **state) {
  uint64_t unsure = 0;
  (void)state;
  for (uint64_t i = 0; i < rondo_test_load(20000, 2000); i++) {
    struct programs p;
    programs_draw(&p);
    programs_run(&p);
    enum rondo_analyse_outcome wanted = expected(&p);
    enum rondo_analyse_outcome got = judge(&p, true, (int)draw(RANKS));
    if (got == RONDO_ANALYSE_CIRCULAR_WAIT) {
      assert_int_equal(wanted, RONDO_ANALYSE_CIRCULAR_WAIT);
    }
    assert_int_not_equal(got, RONDO_ANALYSE_NO_CYCLE);
    assert_int_not_equal(got, RONDO_ANALYSE_MISMATCH);
    unsure += got == RONDO_ANALYSE_CANNOT_TELL;
  }
  assert_true(unsure > 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_programs_are_judged_as_brute_force_does),
      cmocka_unit_test(calls_alone_tell_the_same),
      cmocka_unit_test(a_missing_file_invents_nothing),
  };
  return cmocka_run_group_tests_name("analyse_verdict", tests, NULL, NULL);
}
