// Tuning as text: what is printed is read back, and nothing else is read.
#include <rondo/rondo.h>

#include <string.h>

#include "tests/support/log.h"
#include "tests/support/named.h"

static const struct rondo_tuning some = {.front_budget_ns = 1,
                                         .min_budget_ns = 22,
                                         .max_budget_ns = 333,
                                         .success_factor = 4444,
                                         .look_ns = 333,
                                         .quit_period_ns = 55555,
                                         .residency_ns = 666666,
                                         .restart_min_ns = 7777777,
                                         .restart_max_ns = 88888888};

static void what_is_printed_is_read_back(void **state) {
  (void)state;
  char text[RONDO_TUNING_TEXT_BYTES];
  struct rondo_tuning back;
  memset(&back, 0xff, sizeof back);
  assert_int_equal(rondo_tuning_print(&some, text, sizeof text), RONDO_SUCCESS);
  assert_int_equal(rondo_tuning_parse(&back, text), RONDO_SUCCESS);
  assert_memory_equal(&back, &some, sizeof some);
}

static void the_largest_numbers_fit_the_text(void **state) {
  (void)state;
  char text[RONDO_TUNING_TEXT_BYTES];
  struct rondo_tuning back;
  struct rondo_tuning most = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX,
                              UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
  assert_int_equal(rondo_tuning_print(&most, text, sizeof text), RONDO_SUCCESS);
  assert_int_equal(rondo_tuning_parse(&back, text), RONDO_SUCCESS);
  assert_memory_equal(&back, &most, sizeof most);
}

static void absent_keys_are_zero(void **state) {
  (void)state;
  struct rondo_tuning t = some;
  assert_int_equal(rondo_tuning_parse(&t, "quit_period_ns=9"), RONDO_SUCCESS);
  struct rondo_tuning want = {.quit_period_ns = 9};
  assert_memory_equal(&t, &want, sizeof want);
  assert_int_equal(rondo_tuning_parse(&t, ""), RONDO_SUCCESS);
  memset(&want, 0, sizeof want);
  assert_memory_equal(&t, &want, sizeof want);
}

static void other_texts_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {"quit_period=9",
                                      "quit_period_ns",
                                      "quit_period_ns=",
                                      "quit_period_ns=-1",
                                      "quit_period_ns=9x",
                                      "quit_period_ns=0x9",
                                      "quit_period_ns=18446744073709551616",
                                      "success_factor=4294967296",
                                      "look_ns=4294967296",
                                      "front_budget_ns=1,,min_budget_ns=2",
                                      "front_budget_ns=1;min_budget_ns=2",
                                      " front_budget_ns=1",
                                      "front_budget_ns= 1",
                                      "front_budget_ns=+1",
                                      "FRONT_BUDGET_NS=1"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct rondo_tuning t = some;
    rondo_test_log_clear();
    if (rondo_tuning_parse(&t, texts[i]) != RONDO_ERR_INVALID)
      fail_msg("accepted: \"%s\"", texts[i]);
    assert_memory_equal(&t, &some, sizeof some);
    assert_int_equal(rondo_test_log_lines(), 1);
  }
}

static void null_and_short_buffers_are_refused(void **state) {
  (void)state;
  char text[RONDO_TUNING_TEXT_BYTES] = "untouched";
  struct rondo_tuning t = some;
  assert_int_equal(rondo_tuning_print(NULL, text, sizeof text), RONDO_ERR_INVALID);
  assert_int_equal(rondo_tuning_print(&some, NULL, 256), RONDO_ERR_INVALID);
  assert_int_equal(rondo_tuning_print(&some, text, 0), RONDO_ERR_INVALID);
  assert_int_equal(rondo_tuning_print(&some, text, 20), RONDO_ERR_INVALID);
  assert_string_equal(text, "untouched");
  assert_int_equal(rondo_tuning_parse(&t, NULL), RONDO_ERR_INVALID);
  assert_int_equal(rondo_tuning_parse(NULL, "quit_period_ns=9"), RONDO_ERR_INVALID);
}

static void the_exact_size_is_enough(void **state) {
  (void)state;
  char text[RONDO_TUNING_TEXT_BYTES];
  assert_int_equal(rondo_tuning_print(&some, text, sizeof text), RONDO_SUCCESS);
  size_t length = strlen(text);
  assert_int_equal(rondo_tuning_print(&some, text, length), RONDO_ERR_INVALID);
  assert_int_equal(rondo_tuning_print(&some, text, length + 1), RONDO_SUCCESS);
}

static void profiling_gives_a_tuning_that_init_takes(void **state) {
  (void)state;
  struct rondo_tuning t;
  struct rondo_context ctx;
  struct rondo_config c = RONDO_CONFIG_INIT;
  assert_int_equal(rondo_profile(NULL, 0), RONDO_ERR_INVALID);
  // On a crowded machine a short pass may see no round trip: longer ones do.
  uint64_t duration_ns = 5000000;
  while (rondo_profile(&t, duration_ns) == RONDO_ERR_SYSTEM && duration_ns < 10000000000)
    duration_ns *= 4;
  assert_true(t.min_budget_ns > 0 && t.min_budget_ns <= t.front_budget_ns);
  assert_true(t.front_budget_ns <= t.max_budget_ns);
  assert_true(t.success_factor > 1);
  assert_true(t.quit_period_ns > 0 && t.residency_ns >= t.quit_period_ns);
  assert_true(t.restart_min_ns > 0 && t.restart_min_ns <= t.restart_max_ns);
  c.tuning = t;
  assert_int_equal(rondo_init(&ctx, &c), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("tuning", what_is_printed_is_read_back),
      RONDO_NAMED_TEST("tuning", the_largest_numbers_fit_the_text),
      RONDO_NAMED_TEST("tuning", absent_keys_are_zero),
      RONDO_NAMED_TEST("tuning", other_texts_are_refused),
      RONDO_NAMED_TEST("tuning", null_and_short_buffers_are_refused),
      RONDO_NAMED_TEST("tuning", the_exact_size_is_enough),
      RONDO_NAMED_TEST("tuning", profiling_gives_a_tuning_that_init_takes),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("tuning", tests, NULL, NULL);
}
