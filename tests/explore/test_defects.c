// Defects of the published DFCCL that show only in certain interleavings, each played through under
// a few hundred of them. The numbers are those of the project's list of its defects.
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/explore.h"
#include "daemon/host/host.h"
#include "tests/explore/machine.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define NEVER_NS (UINT64_C(1) << 60)

static struct explore_machine machine;

// Ranks 0 and 1, one block each, `colls` all-reduces of `count` elements that each rank runs
// `runs` times. Chunks are of 64 bytes.
static struct explore_program make(uint64_t seed, uint32_t colls, uint32_t count, uint32_t runs) {
  static const struct rondo_config initial = RONDO_CONFIG_INIT;
  struct explore_program p = {
      .seed = seed, .cfg = initial, .coll_count = colls, .process_count = 1};
  p.cfg.id.bytes[127] = 2;
  p.cfg.rank_count = 2;
  p.cfg.blocks = 1;
  p.cfg.max_collectives = EXPLORE_COLLS;
  p.cfg.slot_bytes = 64;
  p.manual.shape.slot_count = 2;
  p.tick_ns = 1000;
  p.burst = 1;
  for (uint32_t c = 0; c < colls; c++) {
    struct explore_period *d = &p.colls[c].periods[0];
    p.colls[c].id = c;
    p.colls[c].period_count = 1;
    *d = (struct explore_period){.kind = RONDO_ALL_REDUCE, .dtype = RONDO_INT32, .count = count};
    d->nranks = 2;
    d->members[1] = 1;
    d->runs[0] = d->runs[1] = runs;
    d->odd = EXPLORE_NOBODY;
  }
  return p;
}

// A machine on which every collective is registered and nothing else happens by itself.
static struct explore_machine *start(const struct explore_program *program) {
  memset(&machine, 0, sizeof machine);
  explore_machine_start(&machine, program);
  machine.is_submitting = 0;
  for (uint32_t rank = 0; rank < 2; rank++)
    for (uint32_t c = 0; c < program->coll_count; c++)
      explore_app_perform(&machine, rank, EXPLORE_REGISTER, c);
  return &machine;
}

static int finish(struct explore_machine *m) {
  m->is_submitting = 1;
  if (explore_machine_run(m))
    return m->verdict;
  return explore_machine_fini(m);
}

// ------------------------------------------------------------------ defect 1 ---

// Rank 0: A, synchronise, B. Rank 1: B, synchronise, A. Each device holds exactly one half-done
// collective while its rank waits for the device to be left.
static int play_half_done(uint64_t seed) {
  struct explore_program p = make(seed, 2, 100, 1);
  p.cfg.tuning.residency_ns = NEVER_NS;
  struct explore_machine *m = start(&p);
  for (uint32_t rank = 0; rank < 2; rank++) {
    explore_app_perform(m, rank, EXPLORE_SUBMIT, rank);
    explore_app_perform(m, rank, EXPLORE_SYNCHRONIZE, 0);
  }
  for (uint32_t i = 0; i < 20000 && (m->ranks[0].is_syncing || m->ranks[1].is_syncing); i++)
    (void)explore_machine_turn(m);
  if (m->ranks[0].is_syncing || m->ranks[1].is_syncing)
    return EXPLORE_STUCK;
  for (uint32_t rank = 0; rank < 2; rank++)
    explore_app_perform(m, rank, EXPLORE_SUBMIT, 1 - rank);
  return finish(m);
}

// The verdict of a play with a fault planted; in a child, as it may be left in any state.
static int verdict_with(int fault, int (*play)(uint64_t seed)) {
  pid_t child = fork();
  if (child == 0) {
    rondo_fault_planted = fault;
    int verdict = EXPLORE_OK;
    for (uint64_t seed = 0; seed < 2000 && !verdict; seed++)
      verdict = play(seed);
    _exit(verdict);
  }
  int state = 0;
  assert_int_equal(waitpid(child, &state, 0), child);
  return WIFEXITED(state) ? WEXITSTATUS(state) : EXPLORE_WRONG;
}

static void holds_always(int (*play)(uint64_t seed)) {
  uint64_t seeds = rondo_test_load(300, 30);
  for (uint64_t seed = 0; seed < seeds; seed++)
    if (play(seed))
      fail_msg("seed %llu: %s", (unsigned long long)seed, machine.finding);
}

static void half_done_collective_quits(void **state) {
  (void)state;
  holds_always(play_half_done);
  assert_int_equal(verdict_with(RONDO_FAULT_QUIT_HOLDS_HALF_DONE, play_half_done), EXPLORE_STUCK);
}

// ------------------------------------------------------------------ defect 3 ---

static uint64_t quits_of(const struct explore_machine *m, uint32_t rank) {
  return rondo_host_daemon_of(m->ranks[rank].rank->member.daemon)->blocks[0].core.counters.quits;
}

// Blocks quit about whenever they are stuck, in the middle of a collective of many chunks.
static int play_quits(uint64_t seed) {
  struct explore_program p = make(seed, 1, 251, 3);
  p.cfg.tuning.quit_period_ns = 1;
  struct explore_machine *m = start(&p);
  for (uint32_t i = 0; i < 6; i++)
    explore_app_perform(m, i % 2, EXPLORE_SUBMIT, 0);
  m->is_submitting = 1;
  (void)explore_machine_run(m);
  if (!m->verdict && quits_of(m, 0) + quits_of(m, 1) < 6)
    explore_fail(m, EXPLORE_WRONG, "too few quits to prove anything");
  return m->verdict ? m->verdict : explore_machine_fini(m);
}

static void quit_saves_the_context(void **state) {
  (void)state;
  holds_always(play_quits);
  assert_int_not_equal(verdict_with(RONDO_FAULT_QUIT_DOES_NOT_SAVE, play_quits), EXPLORE_OK);
}

// ------------------------------------------------------------------ defect 4 ---

// A collective is tried in vain more often than 7, 8 or 16 bits can count, and then completes.
static void tries_do_not_wrap(void **state) {
  (void)state;
  struct explore_program p = make(1, 1, 100, 1);
  p.cfg.tuning.front_budget_ns = p.cfg.tuning.min_budget_ns = 1;
  struct explore_machine *m = start(&p);
  explore_app_perform(m, 0, EXPLORE_SUBMIT, 0);
  const struct rondo_block_counters *counters =
      &rondo_host_daemon_of(m->ranks[0].rank->member.daemon)->blocks[0].core.counters;
  for (uint32_t i = 0; i < 10000000 && counters->steps <= 70000; i++)
    (void)explore_machine_turn(m);
  assert_true(counters->steps > 70000);
  m->steps = m->quiet_steps = 0;
  explore_app_perform(m, 1, EXPLORE_SUBMIT, 0);
  assert_int_equal(finish(m), EXPLORE_OK);
}

// ------------------------------------------------------------------ defect 5 ---

// Run numbers and sequences go through 2^16, 2^24 and 2^32 while many runs are in flight.
static void completions_are_not_lost_at_wraps(void **state) {
  static const uint64_t edges[] = {UINT64_C(1) << 16, UINT64_C(1) << 24, UINT64_C(1) << 32};
  (void)state;
  for (uint64_t seed = 0; seed < rondo_test_load(300, 30); seed++) {
    struct explore_program p = make(seed, 2, 7, EXPLORE_RUNS);
    uint64_t edge = edges[seed % 3];
    p.manual.first_run = edge - EXPLORE_RUNS / 2;
    p.manual.shape.first_sequence = (uint32_t)(edge - 10);
    p.manual.sq_entries = p.manual.cq_entries = 2;
    struct explore_machine *m = start(&p);
    m->is_submitting = 1;
    if (explore_machine_run(m) || explore_machine_fini(m))
      fail_msg("seed %llu: %s", (unsigned long long)seed, m->finding);
  }
}

// ------------------------------------------------------------------ defect 6 ---

// Two runs of one collective in flight, each with a callback of its own, the daemon at work between
// every two halves of a submission.
static int play_callbacks(uint64_t seed) {
  struct explore_program p = make(seed, 1, 1, 20);
  p.point_percent = 60;
  struct explore_machine *m = start(&p);
  m->wants_callbacks = 1;
  return finish(m);
}

static void every_run_has_its_own_callback(void **state) {
  (void)state;
  holds_always(play_callbacks);
  assert_int_not_equal(verdict_with(RONDO_FAULT_SQE_BEFORE_CALLBACK, play_callbacks), EXPLORE_OK);
}

// ---------------------------------------------- references between processes ---

// Rank 0 aborts while rank 1 reads what it broadcast, and has its buffers back at once, because the
// connectors behave as between processes. What was read must not count.
static int play_taken_away(uint64_t seed) {
  struct explore_program p = make(seed, EXPLORE_COLLS, 251, 1);
  for (uint32_t c = 0; c < p.coll_count; c++)
    p.colls[c].periods[0].kind = RONDO_BROADCAST;
  p.cfg.slot_bytes = 2048;
  p.manual.shape.reference_bytes = 1;
  p.manual.shape.is_mapped = 1;
  p.point_percent = 60;
  p.flavour = EXPLORE_ABORT;
  struct explore_machine *m = start(&p);
  m->aborts_left = 1;
  m->is_submitting = 1;
  if (explore_machine_run(m))
    return m->verdict;
  return explore_machine_fini(m);
}

static void what_was_read_too_late_does_not_count(void **state) {
  (void)state;
  holds_always(play_taken_away);
  assert_int_equal(verdict_with(RONDO_FAULT_READ_NOT_VALIDATED, play_taken_away), EXPLORE_WRONG);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      {"defect_01_half_done_collective_quits", half_done_collective_quits, NULL, NULL, NULL},
      {"defect_03_quit_saves_the_context", quit_saves_the_context, NULL, NULL, NULL},
      {"defect_04_tries_do_not_wrap", tries_do_not_wrap, NULL, NULL, NULL},
      {"defect_05_completions_are_not_lost_at_wraps", completions_are_not_lost_at_wraps, NULL, NULL,
       NULL},
      {"defect_06_every_run_has_its_own_callback", every_run_has_its_own_callback, NULL, NULL,
       NULL},
      {"what_was_read_too_late_does_not_count", what_was_read_too_late_does_not_count, NULL, NULL,
       NULL},
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests_name("explore", tests, NULL, NULL);
}
