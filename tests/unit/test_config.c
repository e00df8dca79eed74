// Configuration: what is refused, and what the environment fills in.
#include <rondo/rondo.h>

#include <stdlib.h>
#include <string.h>

#include "runtime/rank/rank.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

static const char *const variables[] = {"RONDO_BLOCKS",
                                        "RONDO_BUDGET",
                                        "RONDO_CONNECTOR_BYTES",
                                        "RONDO_ORDER",
                                        "RONDO_WORKERS",
                                        "RONDO_SLOT_BYTES",
                                        "RONDO_TUNING",
                                        "RONDO_ENDPOINTS",
                                        "RONDO_HUGE_PAGES",
                                        "RONDO_HEARTBEAT_NS",
                                        "RONDO_COLLECTIVE_COUNTERS",
                                        "RONDO_LEAST_RANKS",
                                        "RONDO_MOST_RANKS"};

static int clear(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    (void)unsetenv(variables[i]);
  rondo_test_log_clear();
  return 0;
}

static struct rondo_config resolved(void) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  assert_int_equal(rondo_config_complete(&c), RONDO_SUCCESS);
  return c;
}

static void unknown_variables_are_named(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  (void)setenv("RONDO_NO_SUCH_THING", "1", 1);
  assert_int_equal(rondo_config_complete(&c), RONDO_SUCCESS);
  (void)unsetenv("RONDO_NO_SUCH_THING");
  assert_true(rondo_test_log_has("RONDO_NO_SUCH_THING"));
  assert_false(rondo_test_log_has("RONDO_LOG_FILE"));
  assert_false(rondo_test_log_has("RONDO_TEST_"));
}

static void defaults_are_filled_in(void **state) {
  (void)state;
  struct rondo_config c = resolved();
  assert_int_equal(c.blocks, 1);
  assert_int_equal(c.endpoints, 1);
  assert_int_equal(c.huge_pages, 0);
  assert_int_equal(c.collective_counters, 0);
  assert_int_equal(c.heartbeat_ns, 0);
  assert_int_equal(c.least_ranks, 0);
  assert_int_equal(c.most_ranks, 0);
  assert_int_equal(c.max_collectives, 16384);
  assert_int_equal(c.order, RONDO_ORDER_FIFO);
  assert_int_equal(c.budget, RONDO_BUDGET_ADAPTIVE);
  assert_true(c.tuning.front_budget_ns && c.tuning.min_budget_ns && c.tuning.max_budget_ns);
  assert_true(c.tuning.success_factor && c.tuning.quit_period_ns && c.tuning.residency_ns);
  assert_true(c.tuning.restart_min_ns && c.tuning.restart_max_ns);
}

static void the_environment_fills_what_is_left_open(void **state) {
  (void)state;
  (void)setenv("RONDO_BLOCKS", "3", 1);
  (void)setenv("RONDO_WORKERS", "5", 1);
  (void)setenv("RONDO_SLOT_BYTES", "4096", 1);
  (void)setenv("RONDO_CONNECTOR_BYTES", "123456789012", 1);
  (void)setenv("RONDO_ENDPOINTS", "4", 1);
  (void)setenv("RONDO_HUGE_PAGES", "1", 1);
  (void)setenv("RONDO_COLLECTIVE_COUNTERS", "1", 1);
  (void)setenv("RONDO_HEARTBEAT_NS", "250000000", 1);
  (void)setenv("RONDO_LEAST_RANKS", "3", 1);
  (void)setenv("RONDO_MOST_RANKS", "12", 1);
  (void)setenv("RONDO_ORDER", "priority", 1);
  (void)setenv("RONDO_BUDGET", "never", 1);
  (void)setenv("RONDO_TUNING", "quit_period_ns=777,success_factor=9", 1);
  struct rondo_config c = resolved();
  assert_int_equal(c.blocks, 3);
  assert_int_equal(c.workers, 5);
  assert_int_equal(c.slot_bytes, 4096);
  assert_true(c.connector_bytes == UINT64_C(123456789012));
  assert_int_equal(c.endpoints, 4);
  assert_int_equal(c.huge_pages, 1);
  assert_int_equal(c.collective_counters, 1);
  assert_int_equal(c.heartbeat_ns, 250000000);
  assert_int_equal(c.least_ranks, 3);
  assert_int_equal(c.most_ranks, 12);
  assert_int_equal(c.order, RONDO_ORDER_PRIORITY);
  assert_int_equal(c.budget, RONDO_BUDGET_NEVER);
  assert_int_equal(c.tuning.quit_period_ns, 777);
  assert_int_equal(c.tuning.success_factor, 9);
  assert_true(c.tuning.front_budget_ns > 0);
  assert_int_equal(rondo_test_log_lines(), 0);
}

static void the_environment_changes_nothing_that_was_set(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  (void)setenv("RONDO_BLOCKS", "3", 1);
  (void)setenv("RONDO_BUDGET", "never", 1);
  (void)setenv("RONDO_TUNING", "quit_period_ns=777", 1);
  c.blocks = 2;
  c.budget = RONDO_BUDGET_FIXED;
  c.tuning.quit_period_ns = 555;
  assert_int_equal(rondo_config_complete(&c), RONDO_SUCCESS);
  assert_int_equal(c.blocks, 2);
  assert_int_equal(c.budget, RONDO_BUDGET_FIXED);
  assert_int_equal(c.tuning.quit_period_ns, 555);
}

static void bad_variables_are_named_and_ignored(void **state) {
  (void)state;
  static const char *const pairs[][2] = {{"RONDO_BLOCKS", "many"},
                                         {"RONDO_BLOCKS", "-1"},
                                         {"RONDO_BLOCKS", "65"},
                                         {"RONDO_WORKERS", "257"},
                                         {"RONDO_WORKERS", "2x"},
                                         {"RONDO_ORDER", "lifo"},
                                         {"RONDO_BUDGET", "Adaptive"},
                                         {"RONDO_SLOT_BYTES", "1e6"},
                                         {"RONDO_SLOT_BYTES", "100"},
                                         {"RONDO_SLOT_BYTES", "4294967296"},
                                         {"RONDO_THREADS", "100"},
                                         {"RONDO_ENDPOINTS", "17"},
                                         {"RONDO_HUGE_PAGES", "2"},
                                         {"RONDO_COLLECTIVE_COUNTERS", "yes"},
                                         {"RONDO_LEAST_RANKS", "131073"},
                                         {"RONDO_MOST_RANKS", "-1"},
                                         {"RONDO_HEARTBEAT_NS", "9999999"},
                                         {"RONDO_HEARTBEAT_NS", "500ms"},
                                         {"RONDO_TUNING", "speed=1"},
                                         {"RONDO_TUNING", "front_budget_ns=x"},
                                         {"RONDO_CONNECTOR_BYTES", "99999999999999999999"}};
  struct rondo_config plain = resolved();
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    (void)clear(NULL);
    (void)setenv(pairs[i][0], pairs[i][1], 1);
    struct rondo_config c = resolved();
    assert_memory_equal(&c, &plain, sizeof c);
    assert_int_equal(rondo_test_log_lines(), 1);
  }
}

static void a_bad_variable_is_named_once_for_all_ranks(void **state) {
  (void)state;
  (void)setenv("RONDO_BLOCKS", "plenty", 1);
  (void)setenv("RONDO_ORDER", "alphabetic", 1);
  (void)setenv("RONDO_TUNING", "quit_period_ns=7,haste=2", 1);
  for (int i = 0; i < 8; i++)
    (void)resolved();
  assert_int_equal(rondo_test_log_lines(), 3);
  assert_true(rondo_test_log_has("RONDO_BLOCKS is \"plenty\"; it takes a number up to 64"));
  assert_true(rondo_test_log_has("RONDO_ORDER is \"alphabetic\"; it takes one of fifo, priority"));
  assert_true(rondo_test_log_has("known keys, not \"haste=2\""));
}

static void empty_variables_are_as_if_absent(void **state) {
  (void)state;
  struct rondo_config plain = resolved();
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    (void)setenv(variables[i], "", 1);
  struct rondo_config c = resolved();
  assert_memory_equal(&c, &plain, sizeof c);
  assert_int_equal(rondo_test_log_lines(), 0);
}

// Each makes one field of a good configuration bad: its first 32 bits get the value.
#define BAD(field, value)                                                                          \
  { #field, offsetof(struct rondo_config, field), (uint32_t)(value) }
static const struct {
  const char *field;
  size_t offset;
  uint32_t value;
} bad[] = {BAD(backend, 2),
           BAD(backend, -1),
           BAD(rank_count, 0),
           BAD(rank_count, RONDO_MAX_RANKS + 1),
           BAD(rank, 1),
           BAD(blocks, RONDO_MAX_BLOCKS + 1),
           BAD(first_worker, -2),
           BAD(order, 2),
           BAD(order, -1),
           BAD(budget, 3),
           BAD(budget, -1),
           BAD(max_collectives, 16385),
           BAD(slot_bytes, 100),
           BAD(slot_bytes, 32),
           BAD(slot_bytes, UINT32_C(1) << 31),
           BAD(endpoints, RONDO_MAX_ENDPOINTS + 1),
           BAD(huge_pages, 2),
           BAD(collective_counters, 2),
           BAD(heartbeat_ns, 1),
           BAD(heartbeat_ns, RONDO_MIN_HEARTBEAT_NS - 1),
           BAD(size, 1),
           BAD(version, 0),
           BAD(version, RONDO_CONFIG_VERSION - 1),
           BAD(tuning.max_budget_ns, 1), // below the least budget
           BAD(tuning.restart_max_ns, 1)};

static void what_is_out_of_range_is_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct rondo_config c = RONDO_CONFIG_INIT;
    struct rondo_context ctx = {4711};
    rondo_test_log_clear();
    memcpy((char *)&c + bad[i].offset, &bad[i].value, sizeof bad[i].value);
    int status = rondo_init(&ctx, &c);
    // No ranks: those of a launcher, whom a build without several processes does not ask.
    int is_not_asked = c.rank_count == 0 && status == RONDO_ERR_UNSUPPORTED;
    if (status != RONDO_ERR_INVALID && !is_not_asked)
      fail_msg("%s %u: status %d", bad[i].field, bad[i].value, status);
    assert_int_equal(ctx.handle, 4711);
    assert_int_equal(rondo_test_log_lines(), 1);
  }
}

static void a_heartbeat_that_is_too_short_is_named_with_the_shortest(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.heartbeat_ns = 500; // meant as ms
  assert_int_equal(rondo_config_complete(&c), RONDO_ERR_INVALID);
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("init: heartbeat_ns 500 is not 0 or at least 10000000"));
  rondo_test_log_clear();
  (void)setenv("RONDO_HEARTBEAT_NS", "500", 1);
  assert_int_equal(resolved().heartbeat_ns, 0);
  assert_int_equal(rondo_test_log_lines(), 1);
  assert_true(rondo_test_log_has("RONDO_HEARTBEAT_NS is \"500\"; it takes 0, or 10000000 and up"));
}

static void expect_refused(uint32_t least, uint32_t most, const char *line) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_context ctx = {4711};
  rondo_test_log_clear();
  c.rank_count = 3;
  c.least_ranks = least;
  c.most_ranks = most;
  int status = rondo_init(&ctx, &c);
  assert_int_equal(ctx.handle, 4711);
  assert_int_equal(rondo_test_log_lines(), 1);
  if (status == RONDO_ERR_UNSUPPORTED) { // a build in which members cannot change
    assert_true(rondo_test_log_has("libevent"));
    return;
  }
  assert_int_equal(status, RONDO_ERR_INVALID);
  assert_true(rondo_test_log_has(line));
}

static void limits_that_a_job_does_not_keep_at_its_beginning_are_refused(void **state) {
  (void)state;
  expect_refused(4, 0, "init: rank_count 3 is below least_ranks 4");
  expect_refused(0, 2, "init: rank_count 3 is above most_ranks 2");
  expect_refused(3, 2, "init: least_ranks 3 is above most_ranks 2");
}

static void null_arguments_are_refused(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  assert_int_equal(rondo_init(NULL, &c), RONDO_ERR_INVALID);
  assert_int_equal(rondo_init(&ctx, NULL), RONDO_ERR_INVALID);
  assert_int_equal(rondo_unique_id_create(NULL), RONDO_ERR_INVALID);
}

static void a_backend_that_is_not_built_is_unsupported(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  c.backend = RONDO_BACKEND_CUDA;
  assert_int_equal(rondo_init(&ctx, &c), RONDO_ERR_UNSUPPORTED);
}

static void identities_differ_and_are_not_zero(void **state) {
  (void)state;
  struct rondo_unique_id a;
  struct rondo_unique_id b;
  static const struct rondo_unique_id none;
  assert_int_equal(rondo_unique_id_create(&a), RONDO_SUCCESS);
  assert_int_equal(rondo_unique_id_create(&b), RONDO_SUCCESS);
  assert_memory_not_equal(&a, &b, sizeof a);
  assert_memory_not_equal(&a, &none, sizeof a);
}

#define CONFIG_TEST(function)                                                                      \
  { "config." #function, function, clear, clear, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      CONFIG_TEST(unknown_variables_are_named), // first: the library looks once
      CONFIG_TEST(defaults_are_filled_in),
      CONFIG_TEST(the_environment_fills_what_is_left_open),
      CONFIG_TEST(the_environment_changes_nothing_that_was_set),
      CONFIG_TEST(bad_variables_are_named_and_ignored),
      CONFIG_TEST(a_bad_variable_is_named_once_for_all_ranks),
      CONFIG_TEST(empty_variables_are_as_if_absent),
      CONFIG_TEST(what_is_out_of_range_is_refused),
      CONFIG_TEST(a_heartbeat_that_is_too_short_is_named_with_the_shortest),
      CONFIG_TEST(limits_that_a_job_does_not_keep_at_its_beginning_are_refused),
      CONFIG_TEST(null_arguments_are_refused),
      CONFIG_TEST(a_backend_that_is_not_built_is_unsupported),
      CONFIG_TEST(identities_differ_and_are_not_zero),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
