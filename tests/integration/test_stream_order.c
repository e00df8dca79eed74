// Runs that are tied to a stream: they wait for the stream's earlier work, and only its later work
// waits for them. The stream is the test's own; the backend is that of the host.
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "daemon/host/host.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/submit.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tests/support/tied.h"

#define RANKS 2u
#define COUNT 3000u
#define SHORT_NS INT64_C(20000000)

static struct rondo_test_job job;
static struct rondo_stream_words words[RANKS];
static float send_data[RANKS][COUNT], recv_data[RANKS][COUNT];

static struct rondo_collective_desc describe(uint64_t id) {
  return rondo_all_reduce(id, COUNT, RONDO_FLOAT32, RONDO_SUM);
}

static int open_job(void **state) {
  (void)state;
  struct rondo_config like = RONDO_CONFIG_INIT;
  like.tuning.quit_period_ns = 50000; // blocks leave again and again
  memset(words, 0, sizeof words);
  memset(send_data, 0, sizeof send_data);
  memset(recv_data, 0, sizeof recv_data);
  rondo_test_log_clear();
  rondo_test_job_open(&job, RANKS, &like);
  return 0;
}

static int close_job(void **state) {
  (void)state;
  rondo_test_job_close(&job);
  return 0;
}

static void run_tied(uint32_t rank, struct rondo_collective coll, uint64_t ticket) {
  struct rondo_run_args args = {send_data[rank], recv_data[rank], NULL, NULL};
  struct rondo_tie tie = {&words[rank], ticket};
  uint64_t run = 0;
  assert_int_equal(rondo_test_run_tied(job.ctx[rank], coll, &args, &tie, &run), RONDO_SUCCESS);
}

static void ring(uint32_t rank, uint64_t ticket) {
  for (uint32_t i = 0; i < COUNT; i++)
    send_data[rank][i] = (float)(i + rank);
  rondo_store_release_u64(&words[rank].doorbell, ticket);
}

static void await(uint32_t rank, struct rondo_collective coll) {
  assert_int_equal(rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
}

static void assert_sums(uint32_t rank) {
  for (uint32_t i = 0; i < COUNT; i++)
    assert_true(recv_data[rank][i] == (float)(2 * i + 1));
}

static void a_run_waits_for_its_stream_and_others_do_not_wait_for_it(void **state) {
  (void)state;
  struct rondo_collective tied[RANKS], other[RANKS];
  struct rondo_collective_desc d = describe(1);
  static float data[RANKS][COUNT];
  rondo_test_job_register(&job, &d, tied);
  d = describe(2);
  rondo_test_job_register(&job, &d, other);
  for (uint32_t r = 0; r < RANKS; r++)
    run_tied(r, tied[r], 1);
  ring(0, 1); // one rank's stream comes at once
  for (int i = 0; i < 20; i++) {
    for (uint32_t r = 0; r < RANKS; r++)
      assert_int_equal(rondo_run(job.ctx[r], other[r], data[r], data[r], NULL, NULL),
                       RONDO_SUCCESS);
    for (uint32_t r = 0; r < RANKS; r++)
      await(r, other[r]);
  }
  assert_int_equal(rondo_test(job.ctx[1], tied[1], 1), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_wait(job.ctx[0], tied[0], 1, SHORT_NS), RONDO_ERR_TIMEOUT);
  // It has been left and has outlasted launches of the daemon.
  struct rondo_counters counters;
  assert_int_equal(rondo_counters(job.ctx[1], &counters), RONDO_SUCCESS);
  assert_true(counters.quits > 0);
  assert_int_equal(words[1].completion, 0);
  ring(1, 1);
  for (uint32_t r = 0; r < RANKS; r++) {
    await(r, tied[r]);
    assert_int_equal(rondo_load_acquire_u64(&words[r].completion), 1);
    assert_sums(r);
  }
}

static void several_runs_wait_in_turn(void **state) {
  (void)state;
  struct rondo_collective colls[RANKS];
  struct rondo_collective_desc d = describe(1);
  rondo_test_job_register(&job, &d, colls);
  for (uint64_t ticket = 1; ticket <= 10; ticket++)
    for (uint32_t r = 0; r < RANKS; r++)
      run_tied(r, colls[r], ticket);
  for (uint64_t ticket = 1; ticket <= 10; ticket++) {
    for (uint32_t r = 0; r < RANKS; r++)
      ring(r, ticket);
    for (uint32_t r = 0; r < RANKS; r++)
      assert_int_equal(rondo_wait(job.ctx[r], colls[r], ticket, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
    for (uint32_t r = 0; r < RANKS; r++) {
      assert_int_equal(rondo_load_acquire_u64(&words[r].completion), ticket);
      if (ticket < 10)
        assert_int_equal(rondo_test(job.ctx[r], colls[r], ticket + 1), RONDO_IN_PROGRESS);
    }
  }
}

static void a_replayed_run_takes_its_doorbell_back(void **state) {
  (void)state;
  struct rondo_collective colls[RANKS];
  struct rondo_collective_desc d = describe(1);
  uint64_t ticket = RONDO_TICKET_REPLAYED | 1;
  rondo_test_job_register(&job, &d, colls);
  for (int i = 0; i < 5; i++) {
    for (uint32_t r = 0; r < RANKS; r++) {
      run_tied(r, colls[r], ticket);
      ring(r, ticket);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
      await(r, colls[r]);
      assert_int_equal(rondo_load_acquire_u64(&words[r].completion), ticket);
      assert_int_equal(rondo_load_acquire_u64(&words[r].doorbell), 0);
      words[r].completion = 0;
    }
  }
}

static void a_run_that_is_aborted_lets_its_stream_go_on(void **state) {
  (void)state;
  struct rondo_collective colls[RANKS];
  struct rondo_collective_desc d = describe(1);
  rondo_test_job_register(&job, &d, colls);
  run_tied(0, colls[0], 7);
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], colls[0], 1, RONDO_TEST_LONG_NS), RONDO_ERR_ABORTED);
  assert_int_equal(rondo_load_acquire_u64(&words[0].completion), 7);
}

static void the_host_has_no_streams(void **state) {
  (void)state;
  struct rondo_collective colls[RANKS];
  struct rondo_collective_desc d = describe(1);
  rondo_test_job_register(&job, &d, colls);
  assert_int_equal(rondo_run_on_stream(job.ctx[0], colls[0], send_data[0], recv_data[0], NULL),
                   RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("host backend"));
}

// --------------------------------------------------------- a driver with streams ---

// The enqueued operations, in the order of calls; both parts of a tie are one if they come
// together. A stream executes them when the test says so.
struct enqueued {
  void *stream;
  struct rondo_stream_words *words;
  uint64_t ticket;
  unsigned parts;
};
static struct enqueued enqueued[64];
static uint32_t enqueued_count;
static int enqueue_status;
static int wait_status;            // of parts that only wait
static uint64_t submitted_at_wait; // runs of rank 0, at the last one
static int captures;               // the stream is being captured
static struct rondo_capture captured;
static unsigned captured_parts[8];
static uint32_t captured_count;

static int enqueue(struct rondo_daemon *d, void *stream, struct rondo_stream_words *w,
                   uint64_t ticket, unsigned parts, char *why) {
  struct enqueued *last = enqueued_count ? &enqueued[enqueued_count - 1] : NULL;
  struct rondo_counters counters;
  int status = enqueue_status ? enqueue_status : parts & RONDO_STREAM_ASK ? 0 : wait_status;
  (void)d;
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  if (parts & RONDO_STREAM_WAIT)
    submitted_at_wait = counters.submitted;
  if (status) {
    (void)snprintf(why, RONDO_WHY_BYTES, "the test refuses");
    return status;
  }
  if (last && last->words == w && last->ticket == ticket && last->parts == RONDO_STREAM_ASK)
    last->parts |= parts;
  else
    enqueued[enqueued_count++] = (struct enqueued){stream, w, ticket, parts};
  return RONDO_SUCCESS;
}

// What the stream does for the `run`-th run.
static int get_capturing(struct rondo_daemon *d, void *stream, int *capturing, char *why) {
  (void)d, (void)stream, (void)why;
  *capturing = captures;
  return RONDO_SUCCESS;
}

static int capture(struct rondo_daemon *d, void *stream, const struct rondo_capture *c,
                   unsigned parts, char *why) {
  (void)d, (void)stream;
  captured_parts[captured_count++] = parts;
  if (!(parts & RONDO_STREAM_ASK)) {
    assert_ptr_equal(c->words, captured.words);
    assert_int_equal(c->ticket, captured.ticket);
    return RONDO_SUCCESS;
  }
  captured = *c;
  if (!enqueue_status)
    return RONDO_SUCCESS;
  (void)snprintf(why, RONDO_WHY_BYTES, "the test refuses");
  c->drop(c->arg);
  return enqueue_status;
}

static void execute(struct rondo_collective coll, const struct enqueued *e, uint64_t run) {
  rondo_store_release_u64(&e->words->doorbell, e->ticket);
  assert_int_equal(rondo_wait(job.ctx[0], coll, run, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_true(rondo_load_acquire_u64(&e->words->completion) >= e->ticket);
  rondo_store_release_u64(&e->words->passed, e->ticket);
}

// Gives rank 0, alone in its job, a driver with streams.
static int open_with_streams(void **state) {
  static struct rondo_driver driver;
  struct rondo_rank *rank = NULL;
  (void)state;
  rondo_test_log_clear();
  rondo_test_job_open(&job, 1, NULL);
  assert_int_equal(rondo_rank_pin(job.ctx[0], "test", &rank), RONDO_SUCCESS);
  driver = rondo_host_driver;
  driver.enqueue = enqueue;
  driver.get_capturing = get_capturing;
  driver.capture = capture;
  captures = 0;
  rank->member.daemon->driver = &driver;
  rondo_rank_unpin(job.ctx[0]);
  enqueued_count = captured_count = 0;
  enqueue_status = wait_status = RONDO_SUCCESS;
  return 0;
}

static int on_stream(struct rondo_collective coll, void *stream) {
  return rondo_run_on_stream(job.ctx[0], coll, send_data[0], recv_data[0], stream);
}

static void each_stream_has_words_of_its_own(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a, b, c;
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &b), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(enqueued_count, 3);
  assert_ptr_equal(enqueued[0].words, enqueued[2].words);
  assert_true(enqueued[0].words != enqueued[1].words);
  assert_int_equal(enqueued[0].ticket + 1, enqueued[2].ticket);
  // A stream that comes to its second run before another has come to the first.
  rondo_store_release_u64(&enqueued[1].words->doorbell, enqueued[1].ticket);
  assert_int_equal(rondo_wait(job.ctx[0], coll, 1, SHORT_NS), RONDO_ERR_TIMEOUT);
  for (uint32_t i = 0; i < 3; i++)
    execute(coll, &enqueued[i], i + 1);
  // One that has gone on gives its words to another stream, also of another collective.
  assert_int_equal(on_stream(coll, &c), RONDO_SUCCESS);
  assert_true(enqueued[3].words == enqueued[0].words || enqueued[3].words == enqueued[1].words);
  execute(coll, &enqueued[3], 4);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
  d = describe(2);
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(on_stream(coll, &c), RONDO_SUCCESS);
  assert_true(enqueued[4].words == enqueued[0].words || enqueued[4].words == enqueued[1].words);
  assert_true(enqueued[4].ticket > enqueued[0].ticket || enqueued[4].words != enqueued[0].words);
  execute(coll, &enqueued[4], 1);
}

static void words_that_a_stream_has_not_passed_are_kept(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a, b;
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], coll, 1, RONDO_TEST_LONG_NS), RONDO_ERR_ABORTED);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
  d = describe(2);
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(on_stream(coll, &b), RONDO_SUCCESS);
  assert_true(enqueued[1].words != enqueued[0].words);
  execute(coll, &enqueued[1], 1);
}

static void what_the_driver_refuses_is_not_submitted(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective none = {77};
  struct rondo_collective_desc d = describe(1);
  struct rondo_counters counters;
  char a;
  rondo_test_job_register(&job, &d, &coll);
  enqueue_status = RONDO_ERR_SYSTEM;
  assert_int_equal(on_stream(coll, &a), RONDO_ERR_SYSTEM);
  assert_true(rondo_test_log_has("the test refuses"));
  enqueue_status = RONDO_SUCCESS;
  assert_int_equal(on_stream(none, &a), RONDO_ERR_UNKNOWN);
  assert_int_equal(rondo_run_on_stream(job.ctx[0], coll, NULL, recv_data[0], &a),
                   RONDO_ERR_INVALID);
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 0);
  assert_int_equal(enqueued_count, 0);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(enqueued[0].ticket, 1);
  execute(coll, &enqueued[0], 1);
}

// The call that enqueues the wait may wait for the run.
static void a_run_is_submitted_before_its_stream_waits(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a;
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(submitted_at_wait, 1);
  execute(coll, &enqueued[0], 1);
  wait_status = RONDO_ERR_SYSTEM;
  assert_int_equal(on_stream(coll, &a), RONDO_ERR_SYSTEM);
  assert_true(rondo_test_log_has("the run is submitted, but its stream does not wait"));
  assert_int_equal(submitted_at_wait, 2);
  execute(coll, &enqueued[1], 2);
}

// What a launch of the graph does.
static void launch_graph(struct rondo_collective coll, uint64_t run) {
  rondo_store_release_u64(&captured.words->doorbell, captured.ticket);
  while (rondo_load_acquire_u64(&captured.words->completion) != captured.ticket)
    sched_yield();
  rondo_store_release_u64(&captured.words->completion, 0);
  assert_int_equal(rondo_wait(job.ctx[0], coll, run, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
}

static void a_graph_runs_its_collective_at_each_launch(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  struct rondo_counters counters;
  char a;
  rondo_test_job_register(&job, &d, &coll);
  captures = 1;
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(enqueued_count, 0);
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 0);
  for (uint64_t run = 1; run <= 1000; run++) {
    send_data[0][7] = (float)run;
    launch_graph(coll, run);
    assert_true(recv_data[0][7] == (float)run);
  }
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_ERR_BUSY);
  captured.drop(captured.arg);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
}

static void a_capture_that_is_refused_leaves_nothing(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a;
  rondo_test_job_register(&job, &d, &coll);
  captures = 1;
  enqueue_status = RONDO_ERR_SYSTEM;
  assert_int_equal(on_stream(coll, &a), RONDO_ERR_SYSTEM);
  assert_int_equal(rondo_run_on_stream(job.ctx[0], coll, NULL, recv_data[0], &a),
                   RONDO_ERR_INVALID);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
}

static void held_streams_wait_for_their_runs_at_the_release(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a, b;
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(rondo_streams_hold(), RONDO_SUCCESS);
  assert_int_equal(rondo_streams_hold(), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &b), RONDO_SUCCESS);
  assert_int_equal(rondo_streams_release(), RONDO_SUCCESS); // of two
  assert_int_equal(enqueued_count, 2);
  assert_int_equal(rondo_streams_release(), RONDO_SUCCESS);
  assert_int_equal(enqueued_count, 4);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(enqueued[i].parts, RONDO_STREAM_ASK);
    assert_int_equal(enqueued[i + 2].parts, RONDO_STREAM_WAIT);
    assert_ptr_equal(enqueued[i + 2].stream, enqueued[i].stream);
    assert_ptr_equal(enqueued[i + 2].words, enqueued[i].words);
    assert_int_equal(enqueued[i + 2].ticket, enqueued[i].ticket);
    execute(coll, &enqueued[i], i + 1);
  }
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS); // as ever again
  assert_int_equal(enqueued[4].parts, RONDO_STREAM_ASK | RONDO_STREAM_WAIT);
  execute(coll, &enqueued[4], 3);
  assert_int_equal(rondo_streams_release(), RONDO_ERR_INVALID);
}

static void a_stream_that_does_not_wait_is_notified_at_the_release(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a, b;
  rondo_test_job_register(&job, &d, &coll);
  assert_int_equal(rondo_streams_hold(), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  enqueue_status = RONDO_ERR_SYSTEM;
  assert_int_equal(on_stream(coll, &b), RONDO_ERR_SYSTEM); // nothing is held of it
  assert_int_equal(rondo_streams_release(), RONDO_ERR_SYSTEM);
  assert_true(rondo_test_log_has("a stream cannot wait: the test refuses"));
  execute(coll, &enqueued[0], 1);
}

static void held_streams_wait_in_graphs_too(void **state) {
  (void)state;
  struct rondo_collective coll;
  struct rondo_collective_desc d = describe(1);
  char a;
  rondo_test_job_register(&job, &d, &coll);
  captures = 1;
  assert_int_equal(rondo_streams_hold(), RONDO_SUCCESS);
  assert_int_equal(on_stream(coll, &a), RONDO_SUCCESS);
  assert_int_equal(captured_count, 1);
  assert_int_equal(captured_parts[0], RONDO_STREAM_ASK);
  assert_int_equal(rondo_streams_release(), RONDO_SUCCESS);
  assert_int_equal(captured_count, 2);
  assert_int_equal(captured_parts[1], RONDO_STREAM_WAIT);
  captured.drop(captured.arg);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
}

#define TEST(function, open) cmocka_unit_test_setup_teardown(function, open, close_job)

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      TEST(a_run_waits_for_its_stream_and_others_do_not_wait_for_it, open_job),
      TEST(several_runs_wait_in_turn, open_job),
      TEST(a_replayed_run_takes_its_doorbell_back, open_job),
      TEST(a_run_that_is_aborted_lets_its_stream_go_on, open_job),
      TEST(the_host_has_no_streams, open_job),
      TEST(each_stream_has_words_of_its_own, open_with_streams),
      TEST(words_that_a_stream_has_not_passed_are_kept, open_with_streams),
      TEST(what_the_driver_refuses_is_not_submitted, open_with_streams),
      TEST(a_run_is_submitted_before_its_stream_waits, open_with_streams),
      TEST(a_graph_runs_its_collective_at_each_launch, open_with_streams),
      TEST(a_capture_that_is_refused_leaves_nothing, open_with_streams),
      TEST(held_streams_wait_for_their_runs_at_the_release, open_with_streams),
      TEST(a_stream_that_does_not_wait_is_notified_at_the_release, open_with_streams),
      TEST(held_streams_wait_in_graphs_too, open_with_streams),
  };
  return cmocka_run_group_tests_name("stream_order", tests, NULL, NULL);
}
