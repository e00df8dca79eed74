// The daemon block, stepped by hand under virtual time: two ranks whose blocks nobody else steps.
#include <stdlib.h>
#include <string.h>

#include "daemon/cuda/cuda_launch_core.h"
#include "daemon/host/host.h"
#include "runtime/api/api_context.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define FRONT_NS 16000u
#define QUIT_NS 200000u
#define RESIDENCY_NS 20000000u
#define COUNT 4u // elements of a small collective

struct side {
  struct rondo_context ctx;
  struct rondo_rank *rank;
  struct rondo_block *block;
};

static struct side sides[2];
static uint64_t now_ns;

// ------------------------------------------------------------------- rig -----

static struct rondo_rank *rank_of(struct rondo_context ctx) {
  struct rondo_rank *rank = NULL;
  assert_int_equal(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  rondo_rank_unpin(ctx);
  return rank;
}

static struct rondo_config base_config(void) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.tuning.front_budget_ns = FRONT_NS;
  c.tuning.min_budget_ns = 1000;
  c.tuning.max_budget_ns = 100000;
  c.tuning.success_factor = 2;
  c.tuning.quit_period_ns = QUIT_NS;
  c.tuning.residency_ns = RESIDENCY_NS;
  return c;
}

static void open_sides(uint32_t count, const struct rondo_config *like) {
  struct rondo_config c = *like;
  const struct rondo_manual manual = {0};
  if (count > 1)
    assert_int_equal(rondo_unique_id_create(&c.id), RONDO_SUCCESS);
  c.rank_count = count;
  now_ns = 1000000;
  memset(sides, 0, sizeof sides);
  for (uint32_t i = 0; i < count; i++) {
    c.rank = i;
    assert_int_equal(rondo_context_create(&sides[i].ctx, &c, &manual), RONDO_SUCCESS);
    sides[i].rank = rank_of(sides[i].ctx);
    sides[i].block = &rondo_host_daemon_of(sides[i].rank->member.daemon)->blocks[0].core;
    rondo_block_start(sides[i].block, now_ns);
  }
}

static void close_sides(void) {
  for (int i = 0; i < 2; i++)
    if (sides[i].ctx.handle)
      assert_int_equal(rondo_destroy(sides[i].ctx, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
}

static int step(int side, uint64_t later_ns) {
  now_ns += later_ns;
  return rondo_block_step(sides[side].block, now_ns);
}

static const struct rondo_block_counters *counters(int side) {
  return &sides[side].block->counters;
}

static struct rondo_collective enter(int side, uint64_t id, uint64_t count, int priority) {
  struct rondo_collective_desc d = rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  d.priority = priority;
  assert_int_equal(rondo_register(sides[side].ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static void submit(int side, struct rondo_collective coll, const int32_t *send, int32_t *recv) {
  assert_int_equal(rondo_run(sides[side].ctx, coll, send, recv, NULL, NULL), RONDO_SUCCESS);
}

// Steps and serves both sides until neither has work.
static void pump(void) {
  for (int round = 0; round < 100000; round++) {
    uint64_t outstanding = 0;
    for (int i = 0; i < 2; i++) {
      if (!sides[i].ctx.handle)
        continue;
      if (!sides[i].block->resident)
        rondo_block_start(sides[i].block, now_ns);
      (void)step(i, 100);
      (void)rondo_rank_service(sides[i].rank);
      outstanding += sides[i].rank->member.daemon->outstanding;
    }
    if (!outstanding)
      return;
  }
  fail_msg("the runs do not end");
}

static uint32_t scheduled(int side) {
  return rondo_task_index(rondo_task_queue_current(&sides[side].block->queue));
}

static const struct rondo_task_context *home(int side, uint32_t index) {
  return rondo_table_context(&rondo_host_daemon_of(sides[side].rank->member.daemon)->table, index,
                             0);
}

// ------------------------------------------------------------------- tests ---

static void an_idle_block_quits_after_its_period(void **state) {
  (void)state;
  struct rondo_config c = base_config();
  open_sides(1, &c);
  assert_int_equal(step(0, 0), RONDO_STEP_IDLE);
  assert_int_equal(step(0, QUIT_NS - 1), RONDO_STEP_IDLE);
  assert_int_equal(step(0, 1), RONDO_STEP_QUIT);
  assert_false(sides[0].block->resident);
  assert_int_equal(counters(0)->quits, 1);
  close_sides();
}

static void a_block_whose_siblings_move_stays(void **state) {
  (void)state;
  struct rondo_config c = base_config();
  open_sides(1, &c);
  assert_int_equal(step(0, QUIT_NS - 1), RONDO_STEP_IDLE);
  sides[0].block->kept_ns = now_ns;
  assert_int_equal(step(0, QUIT_NS - 1), RONDO_STEP_IDLE);
  assert_int_equal(step(0, 1), RONDO_STEP_QUIT);
  close_sides();
}

#define ASK_NS 20000u

// Opens two ranks whose blocks look at gates seldom, and which have just looked.
static void open_seldom(void) {
  struct rondo_config c = base_config();
  c.tuning.quit_period_ns = c.tuning.residency_ns = 1000 * RESIDENCY_NS;
  open_sides(2, &c);
  for (int i = 0; i < 2; i++) {
    rondo_host_daemon_of(sides[i].rank->member.daemon)->core.ask_ns = ASK_NS;
    sides[i].block->asked_ns = now_ns;
  }
}

static void a_run_that_is_submitted_to_an_open_gate_does_not_ask_it(void **state) {
  (void)state;
  int32_t send[COUNT] = {1};
  int32_t recv[2][COUNT];
  open_seldom();
  struct rondo_collective early = enter(0, 1, COUNT, 0);
  submit(0, early, send, recv[0]);
  struct rondo_collective late = enter(1, 1, COUNT, 0); // opens the gate
  submit(1, late, send, recv[1]);
  assert_int_equal(step(1, 100), RONDO_STEP_PROGRESSED);
  assert_int_equal(home(1, 0)->state.phase, RONDO_PHASE_IDLE); // it is in its active slot
  assert_int_equal(sides[1].block->slots[0].context.state.phase, RONDO_PHASE_OPS);
  (void)step(0, 100);
  assert_int_equal(sides[0].block->slots[0].context.state.phase, RONDO_PHASE_GATE);
  (void)step(0, ASK_NS);
  assert_int_not_equal(sides[0].block->slots[0].context.state.phase, RONDO_PHASE_GATE);
  pump();
  close_sides();
}

// The time from the start of the wait of side 0 until its block sees that the gate is open, which
// happens after `open_ns`. Steps every microsecond.
static uint64_t ns_until_seen(uint64_t open_ns) {
  int32_t send[COUNT] = {1};
  int32_t recv[2][COUNT];
  uint64_t waited_ns = 0;
  open_seldom();
  struct rondo_collective early = enter(0, 1, COUNT, 0);
  submit(0, early, send, recv[0]);
  assert_int_equal(step(0, 0), RONDO_STEP_PROGRESSED); // it has fetched the run
  for (; waited_ns < open_ns; waited_ns += 1000)
    assert_int_equal(step(0, 1000), RONDO_STEP_BLOCKED);
  struct rondo_collective late = enter(1, 1, COUNT, 0); // opens the gate
  while (sides[0].block->slots[0].context.state.phase == RONDO_PHASE_GATE) {
    assert_true(waited_ns < 10 * RONDO_ASK_MOST * ASK_NS);
    (void)step(0, 1000);
    waited_ns += 1000;
  }
  submit(1, late, send, recv[1]);
  pump();
  close_sides();
  return waited_ns;
}

static void a_block_asks_less_often_the_longer_it_waits(void **state) {
  (void)state;
  assert_int_equal(ns_until_seen(1000), ASK_NS);
  assert_int_equal(ns_until_seen(ASK_NS + 1000), 2 * ASK_NS);
  assert_int_equal(ns_until_seen(2 * ASK_NS + 1000), 4 * ASK_NS);
  assert_int_equal(ns_until_seen(4 * ASK_NS + 1000), 8 * ASK_NS);
  const uint64_t long_ns = 4 * RONDO_ASK_MOST * ASK_NS;
  assert_in_range(ns_until_seen(long_ns), long_ns + 1000, long_ns + RONDO_ASK_MOST * ASK_NS);
}

static void a_stuck_block_looks_at_its_gate_seldom(void **state) {
  (void)state;
  int32_t send[COUNT] = {1};
  int32_t recv[COUNT];
  open_seldom();
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  (void)enter(1, 1, COUNT, 0);
  submit(0, coll, send, recv);
  assert_int_equal(step(0, 100), RONDO_STEP_PROGRESSED);
  assert_int_equal(rondo_abort(sides[1].ctx), RONDO_SUCCESS);
  assert_int_equal(step(0, ASK_NS - 101), RONDO_STEP_BLOCKED);
  assert_int_equal(step(0, 1), RONDO_STEP_PROGRESSED);
  pump();
  assert_int_equal(rondo_wait(sides[0].ctx, coll, RONDO_LAST_RUN, 0), RONDO_ERR_ABORTED);
  close_sides();
}

static void a_block_told_to_exit_does_when_idle(void **state) {
  (void)state;
  struct rondo_config c = base_config();
  open_sides(1, &c);
  rondo_store_release_u32(sides[0].rank->member.daemon->exit, 1);
  assert_int_equal(step(0, 0), RONDO_STEP_EXIT);
  assert_false(sides[0].block->resident);
  close_sides();
}

static void what_is_submitted_is_fetched_and_done(void **state) {
  (void)state;
  int32_t data[2][COUNT] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  int32_t out[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  for (int i = 0; i < 2; i++)
    submit(i, enter(i, 1, COUNT, 0), data[i], out[i]);
  assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
  assert_int_equal(counters(0)->fetched, 1);
  pump();
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < COUNT; k++)
      assert_int_equal(out[i][k], data[0][k] + data[1][k]);
  assert_int_equal(counters(0)->ended, 1);
  close_sides();
}

// Two collectives that only this side has registered: both are stuck after the first step, which
// has tried both.
static void two_stuck_with(const struct rondo_config *c) {
  static int32_t data[2][COUNT];
  open_sides(2, c);
  for (uint64_t id = 1; id <= 2; id++)
    submit(0, enter(0, id, COUNT, 0), data[0], data[1]);
  assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED); // fetching is progress
  assert_int_equal(counters(0)->fetched, 2);
  assert_int_equal(counters(0)->preemptions, 1);
  assert_int_equal(scheduled(0), 1);
}

static void two_stuck(void) {
  struct rondo_config c = base_config();
  two_stuck_with(&c);
}

static void end_two_stuck(void) {
  static int32_t data[2][COUNT];
  for (uint64_t id = 2; id >= 1; id--)
    submit(1, enter(1, id, COUNT, 0), data[0], data[1]);
  pump();
  close_sides();
}

static void the_stuck_are_preempted_when_their_budget_is_spent(void **state) {
  (void)state;
  two_stuck();
  assert_int_equal(step(0, FRONT_NS / 2 - 1), RONDO_STEP_BLOCKED);
  assert_int_equal(counters(0)->preemptions, 1);
  assert_int_equal(step(0, 1), RONDO_STEP_BLOCKED); // half of the front's budget
  assert_int_equal(counters(0)->preemptions, 2);
  assert_int_equal(scheduled(0), 0);
  assert_int_equal(step(0, 1), RONDO_STEP_BLOCKED); // its turn begins
  assert_int_equal(step(0, FRONT_NS - 1), RONDO_STEP_BLOCKED);
  assert_int_equal(counters(0)->preemptions, 2);
  assert_int_equal(step(0, 1), RONDO_STEP_BLOCKED);
  assert_int_equal(counters(0)->preemptions, 3);
  assert_int_equal(scheduled(0), 1);
  end_two_stuck();
}

// A launch, whose clock shows the true time in steps. A reading takes PROBE_NS.
#define PROBE_NS 20u

static struct {
  uint64_t true_ns, step_ns;
  struct rondo_cuda_fast fast;
  uint64_t preemptions;  // before the launch
  uint64_t preempted_ns; // true time of the first preemption; 0: there was none
} launched;

uint64_t rondo_cuda_launch_now_ns(void) {
  if (!launched.preempted_ns && launched.fast.block.counters.preemptions > launched.preemptions)
    launched.preempted_ns = launched.true_ns;
  launched.true_ns += PROBE_NS;
  return launched.true_ns / launched.step_ns * launched.step_ns;
}

void rondo_cuda_launch_pause(uint32_t ns) { (void)ns; }
void rondo_cuda_launch_mirror_turn(const struct rondo_cuda_launch *l) { (void)l; }

// Launches the block of side 0, `phase_ns` after its clock has moved. Returns for how long the
// first collective was stuck before it was preempted.
static uint64_t launch_until_preempted(uint64_t step_ns, uint64_t phase_ns) {
  struct rondo_cuda_block_status status = {0};
  static struct rondo_cuda_block_home at_home;
  const struct rondo_cuda_launch launch = {.status = (uint64_t)(uintptr_t)&status,
                                           .max_steps = 1000,
                                           .longest_ns = UINT64_MAX,
                                           .block_count = 1};
  launched.step_ns = step_ns;
  launched.true_ns = (now_ns / step_ns + 1) * step_ns + phase_ns;
  launched.preemptions = counters(0)->preemptions;
  launched.preempted_ns = 0;
  launched.fast.block = *sides[0].block;
  at_home.block.queue = launched.fast.block.queue;
  uint64_t begun_ns = launched.true_ns;
  uint64_t told_ns = begun_ns / step_ns * step_ns;
  rondo_block_start(&launched.fast.block, told_ns);
  (void)rondo_cuda_launch_steps(&launch, &at_home, &launched.fast, told_ns);
  *sides[0].block = launched.fast.block;
  now_ns = launched.true_ns;
  assert_true(launched.preempted_ns != 0);
  return launched.preempted_ns - begun_ns;
}

// The collective gets its whole budget, whenever its turn begins between two steps of the clock.
// It gets stuck in a step in which it has sent; the other has the data that it waits for.
static void to_leave_what_has_moved_and_is_stuck_is_a_preemption(void **state) {
  (void)state;
  static int32_t data[2][COUNT], out[2][COUNT];
  struct rondo_config c = base_config();
  struct rondo_collective colls[2][2];
  open_sides(2, &c);
  for (int i = 0; i < 2; i++)
    for (uint64_t id = 1; id <= 2; id++)
      colls[i][id - 1] = enter(i, id, COUNT, 0);
  submit(1, colls[1][1], data[1], out[1]);
  assert_int_equal(step(1, 10), RONDO_STEP_PROGRESSED);
  submit(0, colls[0][0], data[0], out[0]);
  submit(0, colls[0][1], data[0], out[0]);
  assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
  assert_int_equal(scheduled(0), 1);
  assert_int_equal(counters(0)->preemptions, 1);
  submit(1, colls[1][0], data[1], out[1]);
  pump();
  close_sides();
}

static void a_coarse_clock_takes_nothing_from_a_budget(void **state) {
  (void)state;
  static const uint64_t steps_ns[] = {1, 32, 1000, 1024};
  static int32_t data[2][COUNT];
  for (size_t i = 0; i < sizeof steps_ns / sizeof *steps_ns; i++) {
    uint64_t step_ns = steps_ns[i];
    for (uint64_t phase_ns = 0; phase_ns < step_ns; phase_ns += 1 + step_ns / 20) {
      struct rondo_config c = base_config();
      c.tuning.front_budget_ns = c.tuning.min_budget_ns = 1000;
      open_sides(2, &c);
      for (uint64_t id = 1; id <= 2; id++)
        submit(0, enter(0, id, COUNT, 0), data[0], data[1]);
      assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
      uint64_t stuck_ns = launch_until_preempted(step_ns, phase_ns);
      assert_in_range(stuck_ns, 1000, 1000 + 2 * step_ns + 4 * PROBE_NS);
      end_two_stuck();
    }
  }
}

// Three that both sides run, each in an order of its own. No time passes, so no budget is spent.
static void what_can_move_goes_before_what_is_stuck(void **state) {
  (void)state;
  static const uint64_t orders[2][3] = {{1, 2, 3}, {3, 1, 2}};
  static int32_t data[2][3][COUNT], out[2][3][COUNT];
  const struct rondo_config c = base_config();
  open_sides(2, &c);
  for (uint64_t i = 0; i < 2; i++)
    for (uint64_t k = 0; k < 3; k++) {
      for (uint64_t e = 0; e < COUNT; e++)
        data[i][orders[i][k] - 1][e] = (int32_t)(100 * i + 10 * orders[i][k] + e);
      submit((int)i, enter((int)i, orders[i][k], COUNT, 0), data[i][orders[i][k] - 1],
             out[i][orders[i][k] - 1]);
    }
  for (uint32_t round = 0; round < 20; round++)
    (void)step(round % 2, 0);
  assert_int_equal(counters(0)->ended, 3);
  assert_int_equal(counters(1)->ended, 3);
  pump();
  for (uint32_t k = 0; k < 3; k++)
    for (uint32_t e = 0; e < COUNT; e++)
      assert_int_equal(out[0][k][e], data[0][k][e] + data[1][k][e]);
  assert_memory_equal(out[0], out[1], sizeof out[0]);
  close_sides();
}

// ---- ready flags ----

static uint8_t *flag_of(int side, uint32_t index) {
  return rondo_daemon_flag(sides[side].rank->member.daemon, 0, index);
}

static uint32_t flags_set(int side, uint32_t count) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < count; i++)
    set |= (uint32_t)*flag_of(side, i) << i;
  return set;
}

enum { WAITING = 12 };
static int32_t stuck_data[2][2][COUNT];

// Side 0 runs WAITING collectives, and all of them wait for data. Side 1 has only registered them.
// Returns the handle of `id` on side 1.
static struct rondo_collective leave_all_stuck(uint64_t id) {
  struct rondo_collective last[WAITING + 1];
  const struct rondo_config c = base_config();
  open_sides(2, &c);
  for (uint64_t i = 1; i <= WAITING; i++) {
    submit(0, enter(0, i, COUNT, 0), stuck_data[0][0], stuck_data[0][1]);
    last[i] = enter(1, i, COUNT, 0);
  }
  for (uint32_t i = 0; i < 10 * WAITING; i++)
    (void)step(0, 0);
  assert_int_equal(counters(0)->ended, 0);
  return last[id];
}

static void end_all_stuck(void) {
  for (uint64_t i = 1; i <= WAITING; i++) {
    struct rondo_collective coll;
    assert_int_equal(rondo_lookup(sides[1].ctx, i, &coll), RONDO_SUCCESS);
    if (rondo_coll_find(sides[1].rank, coll)->submitted == 0)
      submit(1, coll, stuck_data[1][0], stuck_data[1][1]);
  }
  pump();
  assert_int_equal(counters(0)->ended, WAITING);
  close_sides();
}

static void a_peer_that_has_moved_flags_its_collective(void **state) {
  (void)state;
  struct rondo_collective fifth = leave_all_stuck(5);
  uint32_t index = rondo_coll_find(sides[1].rank, fifth)->index;
  assert_int_equal(flags_set(0, WAITING), 0);
  submit(1, fifth, stuck_data[1][0], stuck_data[1][1]);
  (void)step(1, 0);
  assert_int_equal(flags_set(0, WAITING), 1 << index);
  assert_true(rondo_block_take_flags(sides[0].block));
  assert_int_equal(flags_set(0, WAITING), 0);
  assert_true(*rondo_block_ready(sides[0].block, index) & RONDO_READY_LOOK);
  assert_false(rondo_block_take_flags(sides[0].block));
  (void)step(0, 0);
  assert_int_equal(counters(0)->ended, 1);
  end_all_stuck();
}

// What waits for a flag is looked at by blind looks alone, so each round looks at few waits.
static void a_lost_flag_costs_rounds(void **state) {
  (void)state;
  submit(1, leave_all_stuck(5), stuck_data[1][0], stuck_data[1][1]);
  (void)step(1, 0);
  for (uint32_t i = 0; i < WAITING; i++)
    *flag_of(0, i) = 0;
  uint32_t rounds = sides[0].block->rounds;
  for (uint32_t i = 0; i < 2 * WAITING && !counters(0)->ended; i++)
    (void)step(0, 0);
  assert_int_equal(counters(0)->ended, 1);
  assert_in_range(sides[0].block->rounds - rounds, 2, WAITING + 2);
  end_all_stuck();
}

static void whoever_opens_or_fails_a_gate_flags_its_members(void **state) {
  (void)state;
  const struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective first = enter(0, 1, COUNT, 0);
  (void)enter(0, 2, COUNT, 0);
  uint32_t index = rondo_coll_find(sides[0].rank, first)->index;
  assert_int_equal(flags_set(0, 2), 0);
  struct rondo_collective theirs = enter(1, 1, COUNT, 0);
  assert_int_equal(flags_set(0, 2), 1 << index);
  assert_int_equal(*flag_of(1, rondo_coll_find(sides[1].rank, theirs)->index), 1);
  *flag_of(0, index) = 0;
  assert_int_equal(rondo_deregister(sides[1].ctx, theirs), RONDO_SUCCESS);
  assert_int_equal(flags_set(0, 2), 1 << index);
  *flag_of(0, index) = 0;
  assert_int_equal(rondo_abort(sides[0].ctx), RONDO_SUCCESS);
  assert_true(flags_set(0, 2) & (1 << index));
  close_sides();
}

// While a large one can always move, a small one that came later does not wait for its end; with a
// priority it waits for no more than a step.
static void a_large_one_shares_its_turns(void **state) {
  (void)state;
  enum { CHUNKS = 4096, PER_CHUNK = 1024 };
  int32_t *large = calloc((size_t)CHUNKS * PER_CHUNK, 2 * sizeof *large);
  static int32_t data[2][COUNT];
  assert_non_null(large);
  for (int urgent = 0; urgent < 2; urgent++) {
    struct rondo_config c = base_config();
    c.slot_bytes = PER_CHUNK * sizeof(int32_t);
    c.order = urgent ? RONDO_ORDER_PRIORITY : RONDO_ORDER_FIFO;
    open_sides(1, &c);
    submit(0, enter(0, 1, (uint64_t)CHUNKS * PER_CHUNK, 0), large,
           large + (size_t)CHUNKS * PER_CHUNK);
    submit(0, enter(0, 2, COUNT, urgent), data[0], data[1]);
    uint32_t steps = 0;
    while (!counters(0)->ended && steps < 1000) {
      (void)step(0, 0);
      steps++;
    }
    assert_int_equal(rondo_task_queue_current(&sides[0].block->queue) & RONDO_TASK_INDEX_MAX, 0);
    assert_true(steps <= (urgent ? 2u : 200u));
    assert_true(counters(0)->primitives < CHUNKS / 4);
    pump();
    close_sides();
  }
  free(large);
}

// Each waits for its own data to be read, which the other does when it comes to its receive. The
// budget, which sending has raised, is not what they wait for.
static void two_that_send_to_each_other_soon_receive(void **state) {
  enum { MANY = 2000 }; // so many that the data are read where they lie
  static int32_t send[2][MANY], recv[2][MANY];
  const struct rondo_config c = base_config();
  struct rondo_collective colls[2][2]; // of a side, by sender
  (void)state;
  open_sides(2, &c);
  for (uint32_t i = 0; i < 2; i++) {
    for (uint32_t from = 0; from < 2; from++) {
      struct rondo_collective_desc d = rondo_send_recv(1 + from, MANY, RONDO_INT32, from, 1 - from);
      assert_int_equal(rondo_register(sides[i].ctx, &d, &colls[i][from]), RONDO_SUCCESS);
    }
    for (uint32_t k = 0; k < MANY; k++)
      send[i][k] = (int32_t)(100000 * (i + 1) + k);
  }
  uint64_t begun_ns = now_ns;
  for (int i = 0; i < 2; i++) {
    submit(i, colls[i][i], send[i], NULL);
    submit(i, colls[i][1 - i], NULL, recv[i]);
  }
  pump();
  assert_true(now_ns - begun_ns < FRONT_NS);
  for (int i = 0; i < 2; i++)
    assert_memory_equal(recv[i], send[1 - i], sizeof recv[i]);
  close_sides();
}

static void the_preempted_keep_their_places(void **state) {
  (void)state;
  two_stuck();
  for (int i = 0; i < 5; i++) {
    uint32_t before = scheduled(0);
    (void)step(0, 1);
    assert_int_equal(step(0, FRONT_NS), RONDO_STEP_BLOCKED);
    assert_int_not_equal(scheduled(0), before);
    const uint32_t *tasks = rondo_task_entries(&sides[0].block->queue);
    assert_int_equal(rondo_task_index(tasks[0]), 0);
    assert_int_equal(rondo_task_index(tasks[1]), 1);
  }
  end_two_stuck();
}

static void contexts_are_saved_only_when_they_have_changed(void **state) {
  (void)state;
  two_stuck();
  for (int i = 0; i < 5; i++) {
    (void)step(0, 1);
    (void)step(0, FRONT_NS);
  }
  assert_int_equal(counters(0)->preemptions, 6);
  assert_int_equal(counters(0)->context_saves, 0); // each has an active slot, and stays there
  assert_int_equal(counters(0)->context_loads, 2);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(step(0, QUIT_NS), RONDO_STEP_QUIT);
    assert_int_equal(counters(0)->context_saves,
                     1); // once; the other was fetched where it is saved
    rondo_block_start(sides[0].block, now_ns);
  }
  end_two_stuck();
}

static void a_stuck_block_quits_with_half_done_work(void **state) {
  (void)state;
  static int32_t data[2][COUNT] = {{1, 2, 3, 4}, {10, 20, 30, 40}};
  static int32_t out[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective colls[2] = {enter(0, 1, COUNT, 0), enter(1, 1, COUNT, 0)};
  submit(0, colls[0], data[0], out[0]);
  assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
  assert_int_equal(counters(0)->primitives, 1); // it has sent
  assert_int_equal(step(0, QUIT_NS - 1), RONDO_STEP_BLOCKED);
  assert_int_equal(step(0, 1), RONDO_STEP_QUIT);
  assert_int_equal(sides[0].block->queue.count, 1);
  assert_int_equal(home(0, 0)->state.op, 1);
  assert_int_equal(home(0, 0)->state.phase, RONDO_PHASE_OPS);
  submit(1, colls[1], data[1], out[1]);
  pump(); // starts it again
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < COUNT; k++)
      assert_int_equal(out[i][k], data[0][k] + data[1][k]);
  assert_int_equal(counters(0)->fetched, 1);
  close_sides();
}

static void the_longest_residency_ends_a_busy_block(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective colls[2] = {enter(0, 1, COUNT, 0), enter(1, 1, COUNT, 0)};
  submit(0, colls[0], data[0], data[1]);
  assert_int_equal(step(0, RESIDENCY_NS), RONDO_STEP_QUIT);
  assert_int_equal(counters(0)->primitives, 1); // it moved in that very step
  assert_int_equal(home(0, 0)->state.op, 1);
  submit(1, colls[1], data[0], data[1]);
  pump();
  close_sides();
}

static void without_preemption_half_done_work_is_never_left(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  c.budget = RONDO_BUDGET_NEVER;
  open_sides(2, &c);
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  submit(0, coll, data[0], data[1]);
  assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
  assert_int_equal(step(0, QUIT_NS), RONDO_STEP_BLOCKED);
  assert_int_equal(step(0, 10 * RESIDENCY_NS), RONDO_STEP_BLOCKED);
  assert_int_equal(counters(0)->preemptions, 0);
  submit(1, enter(1, 1, COUNT, 0), data[0], data[1]);
  pump();
  close_sides();
}

// More stuck collectives than a block can visit before it quits: none may starve.
static void a_block_goes_on_where_it_quit(void **state) {
  (void)state;
  enum { STUCK = 1000 };
  static int32_t data[2][COUNT];
  static uint8_t visited[STUCK];
  struct rondo_config c = base_config();
  uint32_t seen = 0;
  open_sides(2, &c);
  memset(visited, 0, sizeof visited);
  for (uint32_t i = 0; i < STUCK; i++)
    submit(0, enter(0, i, COUNT, 0), data[0], data[1]);
  for (uint32_t i = 0; i < 100 * STUCK && seen < STUCK; i++) {
    if (step(0, 1000) == RONDO_STEP_QUIT)
      rondo_block_start(sides[0].block, now_ns);
    (void)rondo_rank_service(sides[0].rank);
    seen += !visited[scheduled(0)];
    visited[scheduled(0)] = 1;
  }
  assert_int_equal(seen, STUCK);
  assert_true(counters(0)->quits > 0);
  for (uint32_t i = 0; i < STUCK; i++)
    submit(1, enter(1, i, COUNT, 0), data[0], data[1]);
  pump();
  close_sides();
}

static void conflicting_contexts_take_turns_in_one_slot(void **state) {
  (void)state;
  static int32_t data[2][2][COUNT] = {{{1, 2, 3, 4}, {5, 6, 7, 8}},
                                      {{10, 20, 30, 40}, {50, 60, 70, 80}}};
  static int32_t out[2][2][COUNT];
  struct rondo_config c = base_config();
  struct rondo_collective colls[2][RONDO_ACTIVE_SLOTS + 1];
  open_sides(2, &c);
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k <= RONDO_ACTIVE_SLOTS; k++)
      colls[i][k] = enter(i, k, COUNT, 0);
  submit(0, colls[0][0], data[0][0], out[0][0]);
  submit(0, colls[0][RONDO_ACTIVE_SLOTS], data[0][1], out[0][1]);
  uint64_t loads = counters(0)->context_loads;
  for (int i = 0; i < 8; i++)
    (void)step(0, FRONT_NS);
  assert_true(counters(0)->context_loads >= loads + 4);
  submit(1, colls[1][RONDO_ACTIVE_SLOTS], data[1][1], out[1][1]);
  submit(1, colls[1][0], data[1][0], out[1][0]);
  pump();
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      for (uint32_t e = 0; e < COUNT; e++)
        assert_int_equal(out[i][k][e], data[0][k][e] + data[1][k][e]);
  close_sides();
}

static void a_fetched_context_is_loaded_only_when_it_is_scheduled(void **state) {
  enum { MANY = 2 * RONDO_ACTIVE_SLOTS };
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  for (uint32_t k = 0; k < MANY; k++) {
    submit(1, enter(1, k, COUNT, 0), data[0], data[1]);
    submit(0, enter(0, k, COUNT, 0), data[0], data[1]);
  }
  pump();
  assert_int_equal(counters(0)->ended, MANY);
  assert_in_range(counters(0)->context_loads, MANY, 2 * MANY); // it sends, and it receives
  close_sides();
}

static void a_reused_entry_is_not_taken_for_the_old_one(void **state) {
  (void)state;
  static int32_t data[2][2 * COUNT] = {{1, 2, 3, 4, 5, 6, 7, 8}, {10, 20, 30, 40, 50, 60, 70, 80}};
  static int32_t out[2][2 * COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  for (uint64_t times = 1; times <= 5; times++) {
    struct rondo_collective colls[2];
    uint32_t count = times % 2 ? COUNT : 2 * COUNT;
    memset(out, 0, sizeof out);
    for (int i = 0; i < 2; i++) {
      colls[i] = enter(i, times, count, 0);
      assert_int_equal((uint32_t)colls[i].handle, 0); // the same entry every time
      submit(i, colls[i], data[i], out[i]);
    }
    pump();
    for (int i = 0; i < 2; i++) {
      for (uint32_t k = 0; k < 2 * COUNT; k++)
        assert_int_equal(out[i][k], k < count ? data[0][k] + data[1][k] : 0);
      assert_int_equal(rondo_deregister(sides[i].ctx, colls[i]), RONDO_SUCCESS);
      assert_int_equal(rondo_run(sides[i].ctx, colls[i], data[i], out[i], NULL, NULL),
                       RONDO_ERR_UNKNOWN);
    }
  }
  close_sides();
}

static void the_urgent_go_first(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  c.order = RONDO_ORDER_PRIORITY;
  open_sides(2, &c);
  submit(0, enter(0, 1, COUNT, 0), data[0], data[1]);
  (void)step(0, 10);
  assert_int_equal(scheduled(0), 0);
  submit(0, enter(0, 2, COUNT, -1), data[0], data[1]);
  (void)step(0, 10);
  assert_int_equal(scheduled(0), 1); // the other one is stuck
  submit(0, enter(0, 3, COUNT, 1), data[0], data[1]);
  (void)step(0, 10);
  assert_int_equal(scheduled(0), 2);
  assert_int_equal(counters(0)->preemptions, 1);
  for (uint64_t id = 1; id <= 3; id++)
    submit(1, enter(1, id, COUNT, 0), data[0], data[1]);
  pump();
  close_sides();
}

static void a_step_is_bounded(void **state) {
  (void)state;
  enum { CHUNKS = 100, PER_CHUNK = 16 };
  static int32_t send[CHUNKS * PER_CHUNK];
  static int32_t recv[CHUNKS * PER_CHUNK];
  struct rondo_config c = base_config();
  c.slot_bytes = PER_CHUNK * sizeof(int32_t);
  open_sides(1, &c);
  for (int i = 0; i < CHUNKS * PER_CHUNK; i++)
    send[i] = i;
  submit(0, enter(0, 1, CHUNKS * PER_CHUNK, 0), send, recv);
  for (uint64_t done = 0; done < CHUNKS;) {
    assert_int_equal(step(0, 10), RONDO_STEP_PROGRESSED);
    assert_true(counters(0)->primitives > done);
    assert_true(counters(0)->primitives <= done + RONDO_STEP_PRIMITIVES);
    done = counters(0)->primitives;
  }
  pump();
  assert_memory_equal(send, recv, sizeof send);
  close_sides();
}

// How many of the last runs of side 0 are recorded as pushed.
static uint32_t pushed_among(uint32_t count) {
  struct rondo_flight *f = &sides[0].rank->flight;
  uint32_t pushed = 0;
  for (uint64_t i = 0; i < count; i++)
    pushed += rondo_flight_at(f, f->added - i)->pushed_ns != 0;
  return pushed;
}

static void what_finds_the_submission_queue_full_is_pushed_later(void **state) {
  (void)state;
  enum { MORE = 40 }; // the overflow grows while it has entries
  static int32_t data[2][COUNT], out[2][RONDO_SQ_ENTRIES + MORE][COUNT];
  struct rondo_collective colls[2][RONDO_SQ_ENTRIES + MORE];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  for (int i = 0; i < 2; i++)
    for (uint32_t k = 0; k < RONDO_SQ_ENTRIES + MORE; k++)
      colls[i][k] = enter(i, k, COUNT, 0);
  for (uint32_t k = 0; k < RONDO_SQ_ENTRIES + MORE; k++)
    submit(0, colls[0][k], data[0], out[0][k]);
  assert_int_equal(pushed_among(MORE), 0);
  assert_int_equal(pushed_among(RONDO_SQ_ENTRIES + MORE), RONDO_SQ_ENTRIES);
  assert_true(rondo_rank_needs_service(sides[0].rank));
  for (uint32_t k = RONDO_SQ_ENTRIES + MORE; k-- > 0;)
    submit(1, colls[1][k], data[1], out[1][k]);
  pump();
  assert_int_equal(pushed_among(RONDO_SQ_ENTRIES + MORE), RONDO_SQ_ENTRIES + MORE);
  assert_false(rondo_rank_needs_service(sides[0].rank));
  close_sides();
}

static void a_full_completion_queue_holds_runs_back(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  c.collective_counters = 1;
  open_sides(1, &c);
  struct rondo_collective colls[RONDO_CQ_ENTRIES];
  for (uint32_t i = 0; i < RONDO_CQ_ENTRIES; i++) {
    colls[i] = enter(0, i, COUNT, 0);
    submit(0, colls[i], data[0], data[1]);
  }
  uint64_t fetched = 0;
  for (uint32_t i = 0; i < 4 * RONDO_CQ_ENTRIES; i++) {
    (void)step(0, 10);
    assert_true(counters(0)->fetched <= fetched + RONDO_STEP_FETCHES);
    fetched = counters(0)->fetched;
  }
  assert_int_equal(counters(0)->ended, RONDO_CQ_ENTRIES);
  for (uint32_t i = 0; i < 10; i++)
    submit(0, colls[i], data[0], data[1]);
  for (uint32_t i = 0; i < 100; i++)
    (void)step(0, 10);
  assert_int_equal(counters(0)->ended, RONDO_CQ_ENTRIES);
  uint64_t waits = 0;
  for (uint32_t i = 0; i < 10; i++)
    waits +=
        rondo_daemon_tally(sides[0].rank->member.daemon, 1, i).counts[RONDO_TALLY_WAITS_COMPLETION];
  assert_true(waits > 0);
  pump();
  assert_int_equal(counters(0)->ended, RONDO_CQ_ENTRIES + 10);
  for (uint32_t i = 0; i < RONDO_CQ_ENTRIES; i++)
    assert_int_equal(rondo_test(sides[0].ctx, colls[i], i < 10 ? 2 : 1), RONDO_SUCCESS);
  close_sides();
}

// Hands side 0 the first run of a collective, as rondo_run does with a small one. Returns the time
// that it was told.
static uint64_t hand(struct rondo_collective coll, const int32_t *send, int32_t *recv) {
  struct rondo_host_block *block = &rondo_host_daemon_of(sides[0].rank->member.daemon)->blocks[0];
  struct rondo_stamp clock = {0};
  block->now_ns = now_ns;
  struct rondo_sqe entry = {.collective = (uint32_t)coll.handle,
                            .generation = (uint32_t)(coll.handle >> 32),
                            .run = 1,
                            .block_count = 1,
                            .send = (uint64_t)(uintptr_t)send,
                            .recv = (uint64_t)(uintptr_t)recv};
  return rondo_host_block_submit_inline(block, &entry, &clock);
}

static const struct rondo_active_slot *slot_of(struct rondo_collective coll) {
  return &sides[0].block->slots[(uint32_t)coll.handle % RONDO_ACTIVE_SLOTS];
}

static void what_is_handed_over_sends_before_it_is_known_what_time_it_is(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  (void)enter(1, 1, COUNT, 0);
  uint64_t before_ns = rondo_now_ns();
  uint64_t told_ns = hand(coll, data[0], data[1]);
  assert_true(told_ns >= before_ns);
  assert_int_equal(counters(0)->primitives, 1);
  assert_false(rondo_sq_has_entry(&sides[0].rank->member.daemon->sq));
  // Nothing that is told or measured from now on rests on the time of the turn before.
  assert_int_equal(slot_of(coll)->context.state.started_ns, told_ns);
  assert_int_equal(sides[0].block->last_progress_ns, told_ns);
  assert_int_equal(slot_of(coll)->blocked_since_ns, 0); // it has not looked yet
  rondo_host_block_poll_inline(&rondo_host_daemon_of(sides[0].rank->member.daemon)->blocks[0]);
  assert_int_equal(slot_of(coll)->blocked_since_ns, told_ns);
  close_sides();
}

// A run cannot progress while one of its members is missing.
static void what_cannot_begin_is_blocked_since_it_was_handed_over(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  uint64_t told_ns = hand(coll, data[0], data[1]);
  assert_int_equal(counters(0)->primitives, 0);
  assert_int_equal(slot_of(coll)->blocked_since_ns, told_ns);
  uint64_t steps = counters(0)->steps;
  rondo_host_block_poll_inline(&rondo_host_daemon_of(sides[0].rank->member.daemon)->blocks[0]);
  assert_int_equal(counters(0)->steps, steps);
  close_sides();
}

// The root of a gather copies its own part first, and may have to wait there too.
static void what_receives_first_is_handed_over_and_not_stepped(void **state) {
  (void)state;
  static int32_t data[3 * COUNT];
  const struct rondo_collective_desc descs[2] = {rondo_broadcast(1, COUNT, RONDO_INT32, 1),
                                                 rondo_gather(1, COUNT, RONDO_INT32, 0)};
  struct rondo_collective colls[2];
  for (int k = 0; k < 2; k++) {
    struct rondo_config c = base_config();
    open_sides(2, &c);
    for (int i = 0; i < 2; i++)
      assert_int_equal(rondo_register(sides[i].ctx, &descs[k], &colls[i]), RONDO_SUCCESS);
    uint64_t steps = counters(0)->steps;
    uint64_t told_ns = hand(colls[0], data, data + COUNT);
    assert_int_equal(counters(0)->steps, steps);
    assert_int_equal(counters(0)->fetched, 1);
    assert_int_equal(slot_of(colls[0])->context.state.phase, RONDO_PHASE_GATE);
    assert_int_equal(slot_of(colls[0])->context.state.started_ns, told_ns);
    close_sides();
  }
}

static void a_correction_of_time_leaves_what_began_before_alone(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  open_sides(2, &c);
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  (void)enter(1, 1, COUNT, 0);
  submit(0, coll, data[0], data[1]);
  assert_int_equal(step(0, 0), RONDO_STEP_PROGRESSED);
  assert_int_equal(step(0, 100), RONDO_STEP_BLOCKED);
  rondo_block_correct_time(sides[0].block, now_ns + 1, now_ns + 50);
  assert_int_equal(slot_of(coll)->context.state.started_ns, now_ns - 100);
  assert_int_equal(slot_of(coll)->blocked_since_ns, now_ns);
  assert_int_equal(rondo_abort(sides[0].ctx), RONDO_SUCCESS);
  pump();
  close_sides();
}

// What side 0 has counted for the collective of that table index.
static struct rondo_tally tally(uint32_t index) {
  return rondo_daemon_tally(sides[0].rank->member.daemon, 1, index);
}

static void assert_tallied(uint32_t index, const struct rondo_tally *wanted) {
  struct rondo_tally found = tally(index);
  for (int i = 0; i < RONDO_TALLY_COUNT; i++)
    if (found.counts[i] != wanted->counts[i])
      fail_msg("collective %u, count %d: %llu, not %llu", index, i,
               (unsigned long long)found.counts[i], (unsigned long long)wanted->counts[i]);
}

// The sum over the first `count` collectives.
static uint64_t tallied(uint32_t count, int what) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; i++)
    sum += tally(i).counts[what];
  return sum;
}

static void a_block_counts_what_it_does_with_each_collective(void **state) {
  (void)state;
  struct rondo_config c = base_config();
  c.collective_counters = 1;
  two_stuck_with(&c); // leaves the first one for the second one
  struct rondo_tally first = {{[RONDO_TALLY_SWITCHES] = 1,
                               [RONDO_TALLY_PREEMPTIONS] = 1,
                               [RONDO_TALLY_LOADS] = 1,
                               [RONDO_TALLY_FETCHES] = 1,
                               [RONDO_TALLY_WAITS_START] = 1}};
  struct rondo_tally second = {{[RONDO_TALLY_LOADS] = 1,
                                [RONDO_TALLY_FETCHES] = 1,
                                [RONDO_TALLY_QUEUE_SUM] = 1,
                                [RONDO_TALLY_QUEUE_MOST] = 1,
                                [RONDO_TALLY_WAITS_START] = 1}};
  assert_tallied(0, &first);
  assert_tallied(1, &second);
  (void)step(0, FRONT_NS / 2); // spends the budget of the second one
  second.counts[RONDO_TALLY_SWITCHES]++;
  second.counts[RONDO_TALLY_PREEMPTIONS]++;
  assert_tallied(0, &first);
  assert_tallied(1, &second);
  (void)step(0, 1); // finds the first one stuck again
  first.counts[RONDO_TALLY_WAITS_START]++;
  assert_tallied(0, &first);
  assert_int_equal(step(0, QUIT_NS), RONDO_STEP_QUIT); // saves both
  end_two_stuck();
}

static void the_counts_of_all_collectives_add_up(void **state) {
  (void)state;
  enum { COLLECTIVES = 20 }; // more than there are active slots
  static int32_t data[COLLECTIVES][4096], out[2][COLLECTIVES][4096];
  struct rondo_config c = base_config();
  c.collective_counters = 1;
  open_sides(2, &c);
  for (uint32_t i = 0; i < COLLECTIVES; i++)
    submit(0, enter(0, i, 4096, 0), data[i], out[0][i]);
  for (int i = 0; i < 100; i++)
    (void)step(0, 100);
  for (uint32_t i = COLLECTIVES; i-- > 0;)
    submit(1, enter(1, i, 4096, 0), data[i], out[1][i]);
  pump();
  assert_true(counters(0)->preemptions > 0 && counters(0)->context_saves > COLLECTIVES);
  assert_int_equal(tallied(COLLECTIVES, RONDO_TALLY_PREEMPTIONS), counters(0)->preemptions);
  assert_int_equal(tallied(COLLECTIVES, RONDO_TALLY_LOADS), counters(0)->context_loads);
  assert_int_equal(tallied(COLLECTIVES, RONDO_TALLY_SAVES), counters(0)->context_saves);
  assert_int_equal(tallied(COLLECTIVES, RONDO_TALLY_FETCHES), counters(0)->fetched);
  assert_true(tallied(COLLECTIVES, RONDO_TALLY_SWITCHES) >= counters(0)->preemptions);
  for (uint32_t i = 0; i < COLLECTIVES; i++) // fetched in order, while all before were stuck
    assert_int_equal(tally(i).counts[RONDO_TALLY_QUEUE_MOST], i);
  close_sides();
}

// Side 0 runs alone what `desc` says, after both sides have registered it. Returns how often it
// waited for `what`.
static uint64_t waits_of(const struct rondo_collective_desc *desc, int what) {
  static int32_t data[2][1 << 20];
  struct rondo_collective colls[2];
  struct rondo_config c = base_config();
  c.collective_counters = 1;
  open_sides(2, &c);
  for (int i = 0; i < 2; i++)
    assert_int_equal(rondo_register(sides[i].ctx, desc, &colls[i]), RONDO_SUCCESS);
  submit(0, colls[0], data[0], data[1]);
  for (int i = 0; i < 100; i++)
    (void)step(0, 100);
  uint64_t waits = tallied(1, what);
  submit(1, colls[1], data[0], data[1]);
  pump();
  close_sides();
  return waits;
}

static void waits_are_counted_by_what_is_waited_for(void **state) {
  (void)state;
  const struct rondo_collective_desc sum = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  const struct rondo_collective_desc send = rondo_send_recv(1, 1 << 20, RONDO_INT32, 0, 1);
  const struct rondo_collective_desc receive = rondo_send_recv(1, 1 << 20, RONDO_INT32, 1, 0);
  const struct rondo_collective_desc short_send = rondo_send_recv(1, 1 << 16, RONDO_INT32, 0, 1);
  assert_int_equal(waits_of(&sum, RONDO_TALLY_WAITS_DATA), 1);
  assert_int_equal(waits_of(&receive, RONDO_TALLY_WAITS_DATA), 1);
  assert_int_equal(waits_of(&send, RONDO_TALLY_WAITS_ROOM), 1);
  assert_int_equal(waits_of(&short_send, RONDO_TALLY_WAITS_READERS), 1);
}

static void a_new_collective_does_not_inherit_counts(void **state) {
  (void)state;
  static int32_t data[2][COUNT];
  struct rondo_config c = base_config();
  c.collective_counters = 1;
  open_sides(1, &c);
  struct rondo_collective coll = enter(0, 1, COUNT, 0);
  submit(0, coll, data[0], data[1]);
  pump();
  assert_int_equal(tally(0).counts[RONDO_TALLY_FETCHES], 1);
  assert_int_equal(rondo_deregister(sides[0].ctx, coll), RONDO_SUCCESS);
  coll = enter(0, 2, COUNT, 0);
  assert_int_equal(slot_of(coll) - sides[0].block->slots, 0); // the same table entry
  const struct rondo_tally none = {{0}};
  assert_tallied(0, &none);
  close_sides();
}

static void without_the_setting_nothing_is_counted(void **state) {
  (void)state;
  two_stuck();
  assert_null(sides[0].rank->member.daemon->tallies);
  assert_true(sides[0].block->tallies == 0);
  end_two_stuck();
}

static void sizes_keep_their_budgets(void **state) {
  (void)state;
  assert_true(sizeof(struct rondo_task_context) <= 256);
  // Task queue and active slots for 1,000 collectives.
  assert_true(sizeof(struct rondo_block) + 1000 * sizeof(uint32_t) <= 8192);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("block", an_idle_block_quits_after_its_period),
      RONDO_NAMED_TEST("block", a_block_whose_siblings_move_stays),
      RONDO_NAMED_TEST("block", a_run_that_is_submitted_to_an_open_gate_does_not_ask_it),
      RONDO_NAMED_TEST("block", a_block_asks_less_often_the_longer_it_waits),
      RONDO_NAMED_TEST("block", a_stuck_block_looks_at_its_gate_seldom),
      RONDO_NAMED_TEST("block", a_block_told_to_exit_does_when_idle),
      RONDO_NAMED_TEST("block", what_is_submitted_is_fetched_and_done),
      RONDO_NAMED_TEST("block", the_stuck_are_preempted_when_their_budget_is_spent),
      RONDO_NAMED_TEST("block", to_leave_what_has_moved_and_is_stuck_is_a_preemption),
      RONDO_NAMED_TEST("block", a_coarse_clock_takes_nothing_from_a_budget),
      RONDO_NAMED_TEST("block", two_that_send_to_each_other_soon_receive),
      RONDO_NAMED_TEST("block", what_can_move_goes_before_what_is_stuck),
      RONDO_NAMED_TEST("block", a_peer_that_has_moved_flags_its_collective),
      RONDO_NAMED_TEST("block", a_lost_flag_costs_rounds),
      RONDO_NAMED_TEST("block", whoever_opens_or_fails_a_gate_flags_its_members),
      RONDO_NAMED_TEST("block", a_large_one_shares_its_turns),
      RONDO_NAMED_TEST("block", the_preempted_keep_their_places),
      RONDO_NAMED_TEST("block", contexts_are_saved_only_when_they_have_changed),
      RONDO_NAMED_TEST("block", a_stuck_block_quits_with_half_done_work),
      RONDO_NAMED_TEST("block", the_longest_residency_ends_a_busy_block),
      RONDO_NAMED_TEST("block", without_preemption_half_done_work_is_never_left),
      RONDO_NAMED_TEST("block", a_block_goes_on_where_it_quit),
      RONDO_NAMED_TEST("block", conflicting_contexts_take_turns_in_one_slot),
      RONDO_NAMED_TEST("block", a_fetched_context_is_loaded_only_when_it_is_scheduled),
      RONDO_NAMED_TEST("block", a_reused_entry_is_not_taken_for_the_old_one),
      RONDO_NAMED_TEST("block", the_urgent_go_first),
      RONDO_NAMED_TEST("block", a_step_is_bounded),
      RONDO_NAMED_TEST("block", what_finds_the_submission_queue_full_is_pushed_later),
      RONDO_NAMED_TEST("block", a_full_completion_queue_holds_runs_back),
      RONDO_NAMED_TEST("block", what_is_handed_over_sends_before_it_is_known_what_time_it_is),
      RONDO_NAMED_TEST("block", what_cannot_begin_is_blocked_since_it_was_handed_over),
      RONDO_NAMED_TEST("block", what_receives_first_is_handed_over_and_not_stepped),
      RONDO_NAMED_TEST("block", a_correction_of_time_leaves_what_began_before_alone),
      RONDO_NAMED_TEST("block", a_block_counts_what_it_does_with_each_collective),
      RONDO_NAMED_TEST("block", the_counts_of_all_collectives_add_up),
      RONDO_NAMED_TEST("block", waits_are_counted_by_what_is_waited_for),
      RONDO_NAMED_TEST("block", a_new_collective_does_not_inherit_counts),
      RONDO_NAMED_TEST("block", without_the_setting_nothing_is_counted),
      RONDO_NAMED_TEST("block", sizes_keep_their_budgets),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("block", tests, NULL, NULL);
}
