// The flight record, and what rondo-sim makes of it.
// Usage: test_flight PATH_OF_RONDO_SIM
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "runtime/rank/flight.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tests/support/tied.h"
#include "tools/kit/thread_group.h"

#define RING 1024u

static const char *program;
static char folder[] = "/tmp/rondo-flight-XXXXXX";
static char output[1 << 20];

static struct rondo_collective_desc sum_of(uint64_t id, uint64_t count) {
  return rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
}

// ----------------------------------------------------------------- records ---

static const char *path_of(uint32_t rank) {
  static char path[64];
  (void)snprintf(path, sizeof path, "%s/record.%u", folder, rank);
  return path;
}

static void write_record(struct rondo_context ctx, uint32_t rank) {
  FILE *file = fopen(path_of(rank), "w");
  assert_non_null(file);
  assert_int_equal(rondo_flight_write(ctx, file), RONDO_SUCCESS);
  assert_int_equal(fclose(file), 0);
}

// Reads a record: an array of its lines, each of them an object.
static json_t *read_record(uint32_t rank) {
  json_t *lines = json_array();
  char line[4096];
  FILE *file = fopen(path_of(rank), "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (!object)
      fail_msg("not JSON: %s", line);
    json_array_append_new(lines, object);
  }
  (void)fclose(file);
  return lines;
}

// Lines with the key that says `value`; the last of them goes to `last`, borrowed.
static uint32_t lines_saying(const json_t *lines, const char *key, const char *value,
                             const json_t **last) {
  size_t i;
  json_t *line;
  uint32_t count = 0;
  json_array_foreach(lines, i, line) {
    const char *text = json_string_value(json_object_get(line, key));
    if (!text || strcmp(text, value) != 0)
      continue;
    count++;
    if (last)
      *last = line;
  }
  return count;
}

static int64_t number_in(const json_t *line, const char *key) {
  const json_t *number = json_object_get(line, key);
  assert_true(json_is_integer(number));
  return json_integer_value(number);
}

// Runs `rondo-sim analyse --json` on all records. Returns its exit code and the report.
static int analyse(json_t **report) {
  char command[256];
  (void)snprintf(command, sizeof command, "%s analyse --json %s/record.*", program, folder);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t n = fread(output, 1, sizeof output - 1, pipe);
  output[n] = '\0';
  int status = pclose(pipe);
  *report = json_loads(output, 0, NULL);
  if (!*report)
    fail_msg("no report: %s", output);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forget_records(uint32_t ranks) {
  for (uint32_t r = 0; r < ranks; r++)
    (void)unlink(path_of(r));
}

// ------------------------------------------------------------------- tests ---

static void run_some(struct rondo_context ctx, struct rondo_collective coll, uint32_t count) {
  int32_t in = 1;
  int32_t out = 0;
  for (uint32_t i = 0; i < count; i++) {
    assert_int_equal(rondo_run(ctx, coll, &in, &out, NULL, NULL), RONDO_SUCCESS);
    assert_int_equal(rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  }
}

static void holds_the_last_events_and_says_how_many_are_gone(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective coll;
  struct rondo_collective_desc d = sum_of(7, 1);
  const json_t *last = NULL;
  rondo_test_job_open(&job, 1, NULL);
  rondo_test_job_register(&job, &d, &coll);
  run_some(job.ctx[0], coll, 3 * RING);
  write_record(job.ctx[0], 0);
  json_t *lines = read_record(0);
  const json_t *header = json_array_get(lines, 0);
  assert_string_equal(json_string_value(json_object_get(header, "rondo")), "flight-record");
  assert_int_equal(number_in(header, "rank"), 0);
  assert_int_equal(number_in(header, "ranks"), 1);
  // One a run, one of the registration, and now and then a start and a quit.
  assert_true(number_in(json_array_get(lines, 1), "dropped") >= 3 * RING + 1 - RING);
  uint32_t completed = lines_saying(lines, "state", "completed", &last);
  assert_true(completed <= RING && completed > RING / 4);
  assert_int_equal(number_in(last, "run"), 3 * RING - 1);
  assert_int_equal(number_in(last, "collective"), 7);
  assert_string_equal(json_string_value(json_object_get(last, "algorithm")), "ring");
  assert_string_equal(json_string_value(json_object_get(last, "rule")), "alone");
  assert_true(number_in(last, "submitted_ns") > 0);
  assert_true(number_in(last, "completed_ns") >= number_in(last, "started_ns"));
  assert_int_equal(lines_saying(lines, "state", "submitted", NULL), 0);
  assert_int_equal(lines_saying(lines, "event", "registered", NULL), 0); // long ago
  json_decref(lines);
  rondo_test_job_close(&job);
  forget_records(1);
}

static int is_executing(struct rondo_context ctx) {
  struct rondo_stuck stuck[4];
  size_t count = 0;
  assert_int_equal(rondo_stuck(ctx, stuck, 4, &count), RONDO_SUCCESS);
  for (size_t i = 0; i < count; i++)
    if (stuck[i].state == RONDO_RUN_EXECUTING)
      return 1;
  return 0;
}

static void tells_registrations_waits_aborts_and_ends(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective colls[2];
  struct rondo_collective_desc d = sum_of(9, 1);
  int32_t b[2] = {0};
  const json_t *last = NULL;
  rondo_test_job_open(&job, 2, NULL);
  d.kind = RONDO_BROADCAST;
  d.root = 1;
  rondo_test_job_register(&job, &d, colls);
  assert_int_equal(rondo_run(job.ctx[0], colls[0], b, b + 1, NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_run(job.ctx[0], colls[0], b, b + 1, NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_run(job.ctx[0], colls[0], b, b + 1, NULL, NULL), RONDO_SUCCESS);
  while (!is_executing(job.ctx[0])) // else no block need ever start
    ;
  assert_int_equal(rondo_abort(job.ctx[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(job.ctx[0], colls[0], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                   RONDO_ERR_ABORTED);
  assert_int_equal(rondo_deregister(job.ctx[0], colls[0]), RONDO_SUCCESS);
  write_record(job.ctx[0], 0);
  json_t *lines = read_record(0);
  assert_int_equal(lines_saying(lines, "event", "registered", NULL), 1);
  assert_int_equal(lines_saying(lines, "event", "deregistered", &last), 1);
  assert_int_equal(number_in(last, "id"), 9);
  assert_int_equal(lines_saying(lines, "event", "aborted", NULL), 1);
  assert_true(lines_saying(lines, "event", "start", NULL) > 0);
  assert_int_equal(lines_saying(lines, "status", "RONDO_ERR_ABORTED", &last), 3);
  assert_int_equal(number_in(last, "root"), 1);
  assert_int_equal(number_in(last, "run"), 2);
  assert_true(number_in(last, "pushed_ns") > number_in(last, "submitted_ns")); // it had to wait
  json_decref(lines);
  rondo_test_job_close(&job);
  forget_records(1);
}

// One run of an all-reduce of `count` elements by both ranks.
static void run_of_size(struct rondo_test_job *job, uint64_t id, uint64_t count) {
  static int32_t in[512], out[2][512];
  struct rondo_collective colls[2];
  const struct rondo_collective_desc d = sum_of(id, count);
  rondo_test_job_register(job, &d, colls);
  for (int r = 0; r < 2; r++)
    assert_int_equal(rondo_run(job->ctx[r], colls[r], in, out[r], NULL, NULL), RONDO_SUCCESS);
  for (int r = 0; r < 2; r++)
    assert_int_equal(rondo_wait(job->ctx[r], colls[r], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
}

// What RONDO_ALGO forces by size, also from a file.
static void tells_the_algorithm_of_each_size(void **state) {
  (void)state;
  static const char *const values[] = {"all_reduce=tree:64,auto:1K,ring", "@flight-algorithms"};
  FILE *file = fopen("flight-algorithms", "w");
  assert_non_null(file);
  assert_true(fputs("# by size\nall_reduce=tree:64 # small\n  auto:1K\nring\n", file) >= 0);
  assert_int_equal(fclose(file), 0);
  for (size_t i = 0; i < 2; i++) {
    struct rondo_test_job job;
    const json_t *last = NULL;
    assert_int_equal(setenv("RONDO_ALGO", values[i], 1), 0);
    rondo_test_job_open(&job, 2, NULL);
    assert_int_equal(unsetenv("RONDO_ALGO"), 0);
    run_of_size(&job, 1, 16);
    run_of_size(&job, 2, 17);
    run_of_size(&job, 3, 257);
    write_record(job.ctx[0], 0);
    json_t *lines = read_record(0);
    assert_int_equal(lines_saying(lines, "algorithm", "tree", &last), 1);
    assert_int_equal(number_in(last, "collective"), 1);
    assert_int_equal(lines_saying(lines, "rule", "least", &last), 1);
    assert_int_equal(number_in(last, "collective"), 2);
    assert_int_equal(lines_saying(lines, "rule", "forced", &last), 2);
    assert_int_equal(number_in(last, "collective"), 3);
    assert_string_equal(json_string_value(json_object_get(last, "algorithm")), "ring");
    json_decref(lines);
    rondo_test_job_close(&job);
    forget_records(1);
  }
  (void)unlink("flight-algorithms");
}

static uint32_t lines_of_block(const json_t *lines, const char *event, int64_t block) {
  size_t i;
  json_t *line;
  uint32_t count = 0;
  json_array_foreach(lines, i, line) {
    const char *text = json_string_value(json_object_get(line, "event"));
    count += text && !strcmp(text, event) && number_in(line, "block") == block;
  }
  return count;
}

static void events_of_blocks_while_the_rank_is_locked_are_written_later(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_rank *rank;
  const uint32_t block = RONDO_MAX_BLOCKS - 1; // none that this daemon has
  rondo_test_job_open(&job, 1, NULL);
  assert_int_equal(rondo_rank_pin(job.ctx[0], "test", &rank), RONDO_SUCCESS);
  rondo_lock_take(&rank->lock);
  rondo_rank_on_change(rank, RONDO_BLOCK_STARTED, block);
  rondo_rank_on_change(rank, RONDO_BLOCK_QUIT, block);
  rondo_rank_on_change(rank, RONDO_BLOCK_STARTED, block); // one of a series is enough
  rondo_lock_give(&rank->lock);
  rondo_rank_unpin(job.ctx[0]);
  for (int i = 0; i < 2; i++) {
    write_record(job.ctx[0], 0);
    json_t *lines = read_record(0);
    assert_int_equal(lines_of_block(lines, "start", block), 1);
    assert_int_equal(lines_of_block(lines, "quit", block), 1);
    json_decref(lines);
  }
  rondo_test_job_close(&job);
  forget_records(1);
}

struct writers {
  struct rondo_test_job job;
  struct rondo_collective colls[2];
};

static void submit_or_write(void *arg, uint32_t member) {
  struct writers *c = arg;
  if (member < 2) {
    run_some(c->job.ctx[member], c->colls[member], (uint32_t)rondo_test_load(4 * RING, RING));
    return;
  }
  for (int i = 0; i < 20; i++) {
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    assert_int_equal(rondo_flight_write(c->job.ctx[i % 2], sink), RONDO_SUCCESS);
    (void)fclose(sink);
  }
}

static void may_be_written_while_others_run(void **state) {
  (void)state;
  struct writers c;
  struct rondo_kit_thread_group group = {3, false, submit_or_write, &c};
  struct rondo_collective_desc d = sum_of(1, 1);
  json_t *report = NULL;
  rondo_test_job_open(&c.job, 2, NULL);
  rondo_test_job_register(&c.job, &d, c.colls);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  write_record(c.job.ctx[0], 0);
  write_record(c.job.ctx[1], 1);
  assert_int_equal(analyse(&report), 0); // nothing waits
  json_decref(report);
  rondo_test_job_close(&c.job);
  forget_records(2);
}

// Without preemption: three ranks in a ring of groups of two, each of which begins with the group
// to its right. Nobody's right neighbour comes.
static void open_ring(struct rondo_test_job *job, struct rondo_collective right[3],
                      struct rondo_collective left[3]) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.budget = RONDO_BUDGET_NEVER;
  c.report_on_timeout = 1;
  rondo_test_job_open(job, 3, &c);
  for (uint32_t r = 0; r < 3; r++)
    for (uint32_t side = 0; side < 2; side++) {
      uint32_t first = side == 0 ? r : (r + 2) % 3;
      uint32_t members[2] = {first, (first + 1) % 3};
      struct rondo_collective_desc d = sum_of(100 + first, 1);
      assert_int_equal(rondo_group_create(job->ctx[r], members, 2, &d.group), RONDO_SUCCESS);
      assert_int_equal(rondo_register(job->ctx[r], &d, side == 0 ? &right[r] : &left[r]),
                       RONDO_SUCCESS);
    }
}

static void check_ring(const json_t *report) {
  const json_t *analysis = json_array_get(json_object_get(report, "analyses"), 0);
  const json_t *cycle = json_object_get(analysis, "cycle");
  assert_int_equal(json_array_size(cycle), 3);
  for (size_t i = 0; i < 3; i++) {
    const json_t *turn = json_array_get(cycle, i);
    int64_t rank = number_in(turn, "rank");
    const char *group = json_string_value(json_object_get(json_object_get(turn, "call"), "group"));
    char wanted[32];
    (void)snprintf(wanted, sizeof wanted, "collective %lld", 100 + (long long)rank);
    assert_int_equal(number_in(turn, "waits_for"), (rank + 1) % 3);
    assert_non_null(group);
    assert_non_null(strstr(group, wanted));
  }
}

static void a_deadlock_is_explained_from_the_records_of_a_timeout(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective right[3];
  struct rondo_collective left[3];
  int32_t b[12] = {0};
  json_t *report = NULL;
  char pattern[64];
  open_ring(&job, right, left);
  (void)snprintf(pattern, sizeof pattern, "%s/record", folder); // the rank is appended
  for (uint32_t r = 0; r < 3; r++) {
    assert_int_equal(rondo_run(job.ctx[r], right[r], b, b + 1 + r, NULL, NULL), RONDO_SUCCESS);
    assert_int_equal(rondo_run(job.ctx[r], left[r], b, b + 4 + r, NULL, NULL), RONDO_SUCCESS);
  }
  while (!is_executing(job.ctx[0]) || !is_executing(job.ctx[1]) || !is_executing(job.ctx[2]))
    assert_int_equal(rondo_wait(job.ctx[0], right[0], 1, 1000000), RONDO_ERR_TIMEOUT);
  assert_int_equal(setenv("RONDO_FLIGHT_FILE", pattern, 1), 0);
  assert_int_equal(rondo_wait(job.ctx[0], right[0], 1, 1000000), RONDO_ERR_TIMEOUT);
  assert_int_equal(unsetenv("RONDO_FLIGHT_FILE"), 0);
  assert_int_equal(analyse(&report), 10); // a circular wait
  check_ring(report);
  json_decref(report);
  for (uint32_t r = 0; r < 3; r++) {
    assert_int_equal(rondo_destroy(job.ctx[r], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
    job.ctx[r].handle = 0;
  }
  forget_records(3);
}

struct synchroniser {
  struct rondo_context ctx;
  pthread_t thread;
  int status;
};

static void *synchronise(void *arg) {
  struct synchroniser *s = arg;
  s->status = rondo_device_synchronize(s->ctx, RONDO_TEST_LONG_NS);
  return NULL;
}

// Writes records of the rank until one says that it synchronises.
static void await_synchronising(struct rondo_context ctx, uint32_t rank) {
  const json_t *line = NULL;
  uint32_t count = 0;
  while (count == 0) {
    write_record(ctx, rank);
    json_t *lines = read_record(rank);
    count = lines_saying(lines, "event", "synchronises", &line);
    assert_true(count == 0 || (number_in(line, "for_ns") >= 0 && number_in(line, "time_ns") > 0));
    json_decref(lines);
  }
}

// The text of a report's explanation has `words`.
static int explanation_has(const json_t *report, const char *words) {
  const json_t *analysis = json_array_get(json_object_get(report, "analyses"), 0);
  const json_t *lines = json_object_get(analysis, "explanation");
  int found = 0;
  for (size_t i = 0; i < json_array_size(lines); i++)
    found |= strstr(json_string_value(json_array_get(lines, i)), words) != NULL;
  return found;
}

// Without preemption: each of two ranks runs one collective, and synchronises its device before it
// would run the other one.
static void a_synchronisation_that_waits_is_named(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_test_job job;
  struct rondo_collective colls[2][2];
  struct synchroniser threads[2];
  int32_t b[3] = {0};
  json_t *report = NULL;
  c.budget = RONDO_BUDGET_NEVER;
  rondo_test_job_open(&job, 2, &c);
  for (uint32_t i = 0; i < 2; i++) {
    struct rondo_collective_desc d = sum_of(i + 1, 1);
    rondo_test_job_register(&job, &d, colls[i]);
  }
  for (uint32_t r = 0; r < 2; r++) {
    threads[r].ctx = job.ctx[r];
    assert_int_equal(rondo_run(job.ctx[r], colls[r][r], b, b + 1 + r, NULL, NULL), RONDO_SUCCESS);
    while (!is_executing(job.ctx[r]))
      ;
    assert_int_equal(pthread_create(&threads[r].thread, NULL, synchronise, &threads[r]), 0);
  }
  for (uint32_t r = 0; r < 2; r++)
    await_synchronising(job.ctx[r], r);
  assert_int_equal(analyse(&report), 10); // a circular wait
  assert_true(explanation_has(report, "for its device, which is not idle"));
  assert_true(explanation_has(report, "How sure: certain"));
  json_decref(report);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_abort(job.ctx[r]), RONDO_SUCCESS);
    assert_int_equal(pthread_join(threads[r].thread, NULL), 0);
    assert_int_equal(threads[r].status, RONDO_SUCCESS);
  }
  write_record(job.ctx[0], 0); // it synchronises no more
  json_t *lines = read_record(0);
  assert_int_equal(lines_saying(lines, "event", "synchronises", NULL), 0);
  json_decref(lines);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_destroy(job.ctx[r], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
    job.ctx[r].handle = 0;
  }
  forget_records(2);
}

// A run of each rank is tied to a stream of the test, and that of rank 1 does not come.
static void a_run_whose_stream_has_not_come_is_named(void **state) {
  (void)state;
  static struct rondo_stream_words words[2];
  struct rondo_test_job job;
  struct rondo_collective colls[2];
  const struct rondo_collective_desc d = sum_of(5, 1);
  int32_t b[3] = {0};
  const json_t *last = NULL;
  json_t *report = NULL;
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, colls);
  for (uint32_t r = 0; r < 2; r++) {
    struct rondo_run_args args = {b, b + 1 + r, NULL, NULL};
    struct rondo_tie tie = {&words[r], 1};
    uint64_t run = 0;
    assert_int_equal(rondo_test_run_tied(job.ctx[r], colls[r], &args, &tie, &run), RONDO_SUCCESS);
  }
  rondo_store_release_u64(&words[0].doorbell, 1);
  for (uint32_t r = 0; r < 2; r++) {
    write_record(job.ctx[r], r);
    json_t *lines = read_record(r);
    assert_int_equal(lines_saying(lines, "awaits", "stream", &last), r);
    json_decref(lines);
  }
  (void)analyse(&report);
  assert_true(explanation_has(report, "rank 1 waits for the device in all_reduce number 0"));
  assert_false(explanation_has(report, "rank 0 waits for the device"));
  json_decref(report);
  rondo_store_release_u64(&words[1].doorbell, 1);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_wait(job.ctx[r], colls[r], 1, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  write_record(job.ctx[1], 1);
  json_t *lines = read_record(1);
  assert_int_equal(lines_saying(lines, "awaits", "stream", NULL), 0);
  json_decref(lines);
  rondo_test_job_close(&job);
  forget_records(2);
}

// A block that has begun a collective stays with it, whatever other blocks of its rank do.
static void the_report_finds_a_cycle_whatever_the_number_of_blocks(void **state) {
  (void)state;
  static int32_t in[50000];
  static int32_t out[2][50000];
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_test_job job;
  struct rondo_collective small[2];
  struct rondo_collective large[2];
  struct rondo_collective_desc few = sum_of(1, 10);
  struct rondo_collective_desc many = sum_of(2, 50000); // a share for each block
  uint32_t cycle = 0;
  FILE *sink = fopen("/dev/null", "w");
  assert_non_null(sink);
  c.budget = RONDO_BUDGET_NEVER;
  c.blocks = 3;
  rondo_test_job_open(&job, 2, &c);
  rondo_test_job_register(&job, &few, small);
  rondo_test_job_register(&job, &many, large);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < 2; i++)
      assert_int_equal(rondo_run(job.ctx[r], i == r ? small[r] : large[r], in, out[r], NULL, NULL),
                       RONDO_SUCCESS);
  while (cycle == 0)
    assert_int_equal(rondo_report(job.ctx[0], sink, &cycle), RONDO_SUCCESS);
  assert_int_equal(cycle, 2);
  (void)fclose(sink);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_destroy(job.ctx[r], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
    job.ctx[r].handle = 0;
  }
}

static void a_rank_that_never_came_is_named_whatever_came_after(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective all[2];
  struct rondo_collective own;
  struct rondo_collective_desc d = sum_of(1, 1);
  int32_t b[3] = {0};
  uint32_t zero = 0;
  json_t *report = NULL;
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, all);
  d.id = 2;
  assert_int_equal(rondo_group_create(job.ctx[0], &zero, 1, &d.group), RONDO_SUCCESS);
  assert_int_equal(rondo_register(job.ctx[0], &d, &own), RONDO_SUCCESS);
  assert_int_equal(rondo_run(job.ctx[0], all[0], b, b + 1, NULL, NULL), RONDO_SUCCESS);
  run_some(job.ctx[0], own, 2 * RING); // the ring forgets the submission of the run that hangs
  write_record(job.ctx[0], 0);
  write_record(job.ctx[1], 1);
  assert_int_equal(analyse(&report), 11); // a rank never came
  assert_non_null(strstr(output, "rank 1"));
  json_decref(report);
  assert_int_equal(rondo_run(job.ctx[1], all[1], b, b + 2, NULL, NULL), RONDO_SUCCESS);
  rondo_test_job_close(&job);
  forget_records(2);
}

// The last line with counters of the collective of that id, borrowed.
static const json_t *counters_in(const json_t *lines, int64_t id) {
  const json_t *found = NULL;
  size_t i;
  json_t *line;
  json_array_foreach(lines, i, line) {
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event && strcmp(event, "counters") == 0 && number_in(line, "id") == id)
      found = line;
  }
  return found;
}

static struct rondo_collective_counters counters_of(struct rondo_context ctx,
                                                    struct rondo_collective coll) {
  struct rondo_collective_counters c = RONDO_COLLECTIVE_COUNTERS_INIT;
  assert_int_equal(rondo_collective_counters(ctx, coll, &c), RONDO_SUCCESS);
  return c;
}

// Rank 0 runs two collectives, and rank 1 comes later.
static void has_the_counters_of_each_collective_if_they_are_on(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective colls[2][2];
  struct rondo_config like = RONDO_CONFIG_INIT;
  int32_t data[2][4] = {{0}};
  like.collective_counters = 1;
  like.blocks = 2; // only the first one takes part
  rondo_test_job_open(&job, 2, &like);
  for (uint64_t id = 0; id < 2; id++) {
    struct rondo_collective_desc d = sum_of(UINT64_C(1000) + id, 2);
    rondo_test_job_register(&job, &d, colls[id]);
  }
  for (uint32_t id = 0; id < 2; id++)
    assert_int_equal(rondo_run(job.ctx[0], colls[id][0], data[0], data[0] + 2, NULL, NULL),
                     RONDO_SUCCESS);
  while (!counters_of(job.ctx[0], colls[0][0]).waits_data ||
         !counters_of(job.ctx[0], colls[1][0]).waits_data)
    (void)rondo_test(job.ctx[0], colls[0][0], 1);
  for (uint32_t id = 2; id-- > 0;)
    assert_int_equal(rondo_run(job.ctx[1], colls[id][1], data[1], data[1] + 2, NULL, NULL),
                     RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t id = 0; id < 2; id++)
      assert_int_equal(rondo_wait(job.ctx[r], colls[id][r], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                       RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    write_record(job.ctx[r], r);
  json_t *lines = read_record(0);
  for (uint32_t id = 0; id < 2; id++) {
    struct rondo_collective_counters c = counters_of(job.ctx[0], colls[id][0]);
    const json_t *line = counters_in(lines, 1000 + id);
    assert_non_null(line);
    assert_int_equal(c.fetches, 1);
    assert_true(c.queue_most <= 1 && c.queue_sum == c.queue_most && c.loads >= 1);
    assert_int_equal(number_in(line, "switches"), c.switches);
    assert_int_equal(number_in(line, "preemptions"), c.preemptions);
    assert_int_equal(number_in(line, "loads"), c.loads);
    assert_int_equal(number_in(line, "fetches"), c.fetches);
    assert_int_equal(number_in(line, "queue_sum"), c.queue_sum);
    assert_int_equal(number_in(line, "waits_data"), c.waits_data);
  }
  json_decref(lines);
  json_t *report;
  assert_int_equal(analyse(&report), 0);
  json_decref(report);
  rondo_test_job_close(&job);
  forget_records(2);
}

static void has_no_counters_if_they_are_off(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_collective coll;
  struct rondo_collective_desc d = sum_of(1000, 1);
  struct rondo_collective_counters c = RONDO_COLLECTIVE_COUNTERS_INIT;
  rondo_test_job_open(&job, 1, NULL);
  rondo_test_job_register(&job, &d, &coll);
  run_some(job.ctx[0], coll, 1);
  write_record(job.ctx[0], 0);
  json_t *lines = read_record(0);
  assert_null(counters_in(lines, 1000));
  json_decref(lines);
  c.fetches = 4711;
  rondo_test_log_clear();
  assert_int_equal(rondo_collective_counters(job.ctx[0], coll, &c), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has("its configuration has no collective_counters"));
  c.version++;
  assert_int_equal(rondo_collective_counters(job.ctx[0], coll, &c), RONDO_ERR_INVALID);
  c.version--;
  c.size--;
  assert_int_equal(rondo_collective_counters(job.ctx[0], coll, &c), RONDO_ERR_INVALID);
  assert_int_equal(rondo_collective_counters(job.ctx[0], coll, NULL), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 4);
  assert_int_equal(c.fetches, 4711);
  rondo_test_job_close(&job);
  forget_records(1);
}

static void a_signal_writes_it(void **state) {
  (void)state;
  struct rondo_test_job job;
  char line[256] = "";
  char pattern[64];
  rondo_test_job_open(&job, 1, NULL);
  assert_int_equal(mkfifo(path_of(0), 0600), 0);
  (void)snprintf(pattern, sizeof pattern, "%s/record.%%r", folder);
  assert_int_equal(setenv("RONDO_FLIGHT_FILE", pattern, 1), 0);
  assert_int_equal(kill(getpid(), SIGUSR1), 0);
  FILE *pipe = fopen(path_of(0), "r"); // until the record is being written
  assert_non_null(pipe);
  assert_non_null(fgets(line, sizeof line, pipe));
  assert_non_null(strstr(line, "\"rondo\": \"flight-record\", \"version\": 1, \"rank\": 0"));
  while (fgets(line, sizeof line, pipe))
    ;
  (void)fclose(pipe);
  assert_int_equal(unsetenv("RONDO_FLIGHT_FILE"), 0);
  rondo_test_job_close(&job);
  forget_records(1);
}

static void a_stream_that_cannot_be_written_is_an_error(void **state) {
  (void)state;
  struct rondo_test_job job;
  rondo_test_job_open(&job, 1, NULL);
  rondo_test_log_clear();
  assert_int_equal(rondo_flight_write(job.ctx[0], NULL), RONDO_ERR_INVALID);
  FILE *full = fopen("/dev/full", "w");
  assert_non_null(full);
  assert_int_equal(rondo_flight_write(job.ctx[0], full), RONDO_ERR_SYSTEM);
  (void)fclose(full);
  assert_int_equal(rondo_test_log_lines(), 2);
  rondo_test_job_close(&job);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("flight", holds_the_last_events_and_says_how_many_are_gone),
      RONDO_NAMED_TEST("flight", tells_registrations_waits_aborts_and_ends),
      RONDO_NAMED_TEST("flight", tells_the_algorithm_of_each_size),
      RONDO_NAMED_TEST("flight", events_of_blocks_while_the_rank_is_locked_are_written_later),
      RONDO_NAMED_TEST("flight", may_be_written_while_others_run),
      RONDO_NAMED_TEST("flight", a_deadlock_is_explained_from_the_records_of_a_timeout),
      RONDO_NAMED_TEST("flight", a_synchronisation_that_waits_is_named),
      RONDO_NAMED_TEST("flight", a_run_whose_stream_has_not_come_is_named),
      RONDO_NAMED_TEST("flight", the_report_finds_a_cycle_whatever_the_number_of_blocks),
      RONDO_NAMED_TEST("flight", a_rank_that_never_came_is_named_whatever_came_after),
      RONDO_NAMED_TEST("flight", has_the_counters_of_each_collective_if_they_are_on),
      RONDO_NAMED_TEST("flight", has_no_counters_if_they_are_off),
      RONDO_NAMED_TEST("flight", a_signal_writes_it),
      RONDO_NAMED_TEST("flight", a_stream_that_cannot_be_written_is_an_error),
  };
  if (argc != 2 || !mkdtemp(folder))
    return 2;
  program = argv[1];
  rondo_test_log_open();
  int failed = cmocka_run_group_tests_name("flight", tests, NULL, NULL);
  return rmdir(folder) == 0 ? failed : 1;
}
