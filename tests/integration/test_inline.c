// Which runs take their first steps within rondo_run: runs that are small, alone and have no
// callback. And how many runs a turn of a waiting thread ends.
#include <sched.h>

#include "daemon/host/host.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LARGE 4096u

static struct rondo_test_job job;
static struct rondo_driver driver;
static uint32_t inlined, taken;
static uint64_t ended_meanwhile; // runs that ended before rondo_run returned
static float send_data[2][LARGE], recv_data[2][LARGE];

static uint64_t submit_inline(struct rondo_daemon *d, const struct rondo_sqe *entry,
                              struct rondo_stamp *clock) {
  uint64_t now_ns = rondo_host_driver.submit_inline(d, entry, clock);
  inlined++;
  taken += now_ns != 0;
  return now_ns;
}

static void go_on(struct rondo_daemon *d) {
  const uint64_t *ended = &rondo_host_daemon_of(d)->blocks[0].core.counters.ended;
  uint64_t before = rondo_load_relaxed_u64(ended);
  rondo_host_driver.poll_inline(d);
  ended_meanwhile += rondo_load_relaxed_u64(ended) - before;
}

static struct rondo_rank *counted;

static void count_inline(uint32_t rank) {
  struct rondo_rank *r = NULL;
  assert_int_equal(rondo_rank_pin(job.ctx[rank], "test", &r), RONDO_SUCCESS);
  driver = rondo_host_driver;
  driver.submit_inline = submit_inline;
  driver.poll_inline = go_on;
  inlined = taken = 0;
  ended_meanwhile = 0;
  counted = r;
  r->member.daemon->driver = &driver;
  rondo_rank_unpin(job.ctx[rank]);
}

static void called_back(void *arg, int status) { (void)arg, (void)status; }

static void submit(uint32_t rank, struct rondo_collective coll, rondo_callback callback) {
  assert_int_equal(rondo_run(job.ctx[rank], coll, send_data[rank], recv_data[rank], callback, NULL),
                   RONDO_SUCCESS);
}

static void await(uint32_t rank, struct rondo_collective coll) {
  assert_int_equal(rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
}

static void a_small_run_is_submitted_inline(void **state) {
  (void)state;
  struct rondo_collective small[2], other[2], large[2];
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective_desc d = rondo_all_reduce(1, 2, RONDO_FLOAT32, RONDO_SUM);
  rondo_test_job_register(&job, &d, small);
  d.id = 2;
  rondo_test_job_register(&job, &d, other);
  d = rondo_all_reduce(3, LARGE, RONDO_FLOAT32, RONDO_SUM);
  rondo_test_job_register(&job, &d, large);
  count_inline(0);
  for (uint32_t rank = 0; rank < 2; rank++)
    send_data[rank][0] = (float)(rank + 1);
  uint32_t pushed = rondo_load_relaxed_u32(&counted->member.daemon->sq.sequence);
  submit(0, small[0], NULL);
  assert_int_equal(inlined, 1);
  // Either the block was given the run, or, if somebody stepped it, the SQ.
  assert_int_equal(rondo_load_relaxed_u32(&counted->member.daemon->sq.sequence),
                   pushed + 1 - taken);
  submit(0, other[0], NULL); // the first cannot end without rank 1
  assert_int_equal(inlined, 1);
  submit(1, other[1], NULL);
  submit(1, small[1], NULL);
  for (uint32_t rank = 0; rank < 2; rank++) {
    await(rank, small[rank]);
    await(rank, other[rank]);
    assert_true(recv_data[rank][0] == 3);
  }
  submit(0, large[0], NULL);
  submit(1, large[1], NULL);
  await(0, large[0]);
  await(1, large[1]);
  submit(0, small[0], called_back);
  submit(1, small[1], NULL);
  await(0, small[0]);
  await(1, small[1]);
  assert_int_equal(inlined, 2); // also a run with a callback
  rondo_test_job_close(&job);
}

// rondo_run consumes what its peers have sent already.
static void the_last_rank_need_not_wait(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_FLOAT32, RONDO_SUM);
  d.kind = RONDO_ALL_GATHER;
  rondo_test_job_register(&job, &d, coll);
  count_inline(0);
  const uint64_t *sent =
      &rondo_host_daemon_of(counted->member.daemon)->blocks[0].core.counters.primitives;
  counted->member.daemon->driver = &rondo_host_driver;
  count_inline(1);
  for (uint32_t i = 0; i < 100; i++) {
    send_data[0][0] = (float)i;
    uint64_t before = rondo_load_relaxed_u64(sent);
    submit(0, coll[0], NULL);
    while (rondo_load_relaxed_u64(sent) == before)
      sched_yield();
    submit(1, coll[1], NULL);
    assert_int_equal(ended_meanwhile, taken);
    await(0, coll[0]);
    await(1, coll[1]);
    assert_true(recv_data[1][0] == (float)i);
  }
  assert_true(taken > 0);
  rondo_test_job_close(&job);
}

static uint64_t helped(uint32_t rank) {
  struct rondo_counters c;
  assert_int_equal(rondo_counters(job.ctx[rank], &c), RONDO_SUCCESS);
  return c.helped;
}

// A thread that asks again and again whether a run has ended needs no worker for it.
static void a_thread_that_asks_steps_the_blocks(void **state) {
  (void)state;
  enum { ASKED = 100 };
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective_desc d = rondo_all_reduce(1, LARGE, RONDO_FLOAT32, RONDO_SUM);
  rondo_test_job_register(&job, &d, coll);
  submit(0, coll[0], NULL);
  uint64_t before = helped(0);
  for (int i = 0; i < ASKED; i++)
    assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_IN_PROGRESS);
  assert_true(helped(0) > before);
  before = helped(1);
  assert_int_equal(rondo_test(job.ctx[1], coll[1], RONDO_LAST_RUN), RONDO_SUCCESS);
  assert_int_equal(helped(1), before); // there was nothing to do
  submit(1, coll[1], NULL);
  while (rondo_test(job.ctx[0], coll[0], 1) == RONDO_IN_PROGRESS ||
         rondo_test(job.ctx[1], coll[1], 1) == RONDO_IN_PROGRESS)
    continue;
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

static void count_call(void *arg, int status) {
  assert_int_equal(status, RONDO_SUCCESS);
  rondo_fetch_add_acq_rel_u32(arg, 1);
}

// Each of these looks at the runs of rank 0 in its own way, when none is outstanding.
static void look_for_runs(uint32_t way, struct rondo_collective *coll,
                          const struct rondo_collective_desc *d) {
  static uint32_t calls;
  struct rondo_stuck stuck[2];
  size_t count = 0;
  switch (way) {
  case 0:
    assert_int_equal(rondo_deregister(job.ctx[0], *coll), RONDO_SUCCESS);
    assert_int_equal(rondo_register(job.ctx[0], d, coll), RONDO_SUCCESS);
    break;
  case 1:
    assert_int_equal(rondo_stuck(job.ctx[0], stuck, 2, &count), RONDO_SUCCESS);
    assert_int_equal(count, 0);
    break;
  case 2:
    rondo_store_release_u32(&calls, 0);
    assert_int_equal(rondo_notify(job.ctx[0], *coll, RONDO_LAST_RUN, count_call, &calls),
                     RONDO_SUCCESS);
    while (!rondo_load_acquire_u32(&calls))
      sched_yield();
    break;
  default: // the next run is one too many if this is not over
    assert_int_equal(rondo_test(job.ctx[0], *coll, RONDO_LAST_RUN), RONDO_SUCCESS);
  }
}

// A thread that waits for a small run and steps it to its end returns at once; the completion stays
// in the queue.
static void what_is_left_in_the_queue_is_over_for_everybody(void **state) {
  (void)state;
  struct rondo_collective coll[2];
  struct rondo_config c = RONDO_CONFIG_INIT;
  uint32_t left = 0;
  c.max_runs = 1;
  rondo_test_job_open(&job, 2, &c);
  struct rondo_collective_desc d = rondo_all_reduce(1, 2, RONDO_FLOAT32, RONDO_SUM);
  d.kind = RONDO_BROADCAST;
  d.root = 1;
  rondo_test_job_register(&job, &d, coll);
  count_inline(0);
  for (uint32_t i = 0; i < 2000; i++) {
    send_data[1][0] = (float)i;
    submit(0, coll[0], NULL);
    submit(1, coll[1], NULL);
    await(0, coll[0]);
    left += (uint32_t)rondo_cq_has_entry(&counted->member.daemon->cq);
    assert_true(recv_data[0][0] == (float)i);
    await(1, coll[1]);
    if (i % 4 == 0) {
      assert_int_equal(rondo_deregister(job.ctx[1], coll[1]), RONDO_SUCCESS);
      assert_int_equal(rondo_register(job.ctx[1], &d, &coll[1]), RONDO_SUCCESS);
    }
    look_for_runs(i % 4, &coll[0], &d);
  }
  assert_true(left > 0); // unless somebody else brings every one of them to its end
  submit(0, coll[0], NULL);
  submit(1, coll[1], NULL);
  await(0, coll[0]);
  assert_int_equal(rondo_destroy(job.ctx[0], RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
  job.ctx[0].handle = 0;
  await(1, coll[1]);
  rondo_test_job_close(&job);
}

// Runs of broadcasts of `count` elements that end in one turn of a waiting thread, of TURN_RUNS
// that can end.
enum { TURN_RUNS = 8 };
static uint64_t runs_of_one_turn(uint64_t count) {
  struct rondo_collective coll[TURN_RUNS][2];
  struct rondo_collective_desc d = rondo_all_reduce(1, count, RONDO_FLOAT32, RONDO_SUM);
  d.kind = RONDO_BROADCAST;
  rondo_test_job_open(&job, 2, NULL);
  for (d.id = 0; d.id < TURN_RUNS; d.id++)
    rondo_test_job_register(&job, &d, coll[d.id]);
  struct rondo_host_block *blocks[2];
  for (uint32_t rank = 0; rank < 2; rank++) {
    count_inline(rank);
    blocks[rank] = rondo_host_daemon_of(counted->member.daemon)->blocks;
  }
  while (!rondo_host_block_try_own(blocks[1]))
    sched_yield();
  const uint64_t *sent = &blocks[0]->core.counters.primitives;
  for (uint32_t i = 0; i < TURN_RUNS; i++) {
    submit(0, coll[i][0], NULL);
    submit(1, coll[i][1], NULL);
  }
  while (rondo_load_relaxed_u64(sent) < TURN_RUNS)
    (void)rondo_test(job.ctx[0], coll[TURN_RUNS - 1][0], 1);
  assert_int_equal(rondo_host_block_drive(blocks[1], 0, RONDO_HOST_WAITER), RONDO_STEP_PROGRESSED);
  uint64_t ended = blocks[1]->core.counters.ended;
  rondo_host_block_disown(blocks[1]);
  for (uint32_t i = 0; i < TURN_RUNS; i++)
    for (uint32_t rank = 0; rank < 2; rank++)
      await(rank, coll[i][rank]);
  rondo_test_job_close(&job);
  return ended;
}

// Else each of them would cost the waiting thread a turn, which takes longer than a small run.
static void small_runs_end_in_one_turn(void **state) {
  (void)state;
  assert_int_equal(runs_of_one_turn(1), TURN_RUNS);
  assert_int_equal(runs_of_one_turn(LARGE), 1); // the thread may have waited for this one
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("inline", a_small_run_is_submitted_inline),
      RONDO_NAMED_TEST("inline", the_last_rank_need_not_wait),
      RONDO_NAMED_TEST("inline", a_thread_that_asks_steps_the_blocks),
      RONDO_NAMED_TEST("inline", small_runs_end_in_one_turn),
      RONDO_NAMED_TEST("inline", what_is_left_in_the_queue_is_over_for_everybody),
  };
  return cmocka_run_group_tests_name("inline", tests, NULL, NULL);
}
