// Stickiness: how much time each collective gets, and when a block looks for new work.
#include "scheduler/policy_core.h"

#include "tests/support/named.h"

static const struct rondo_policy adaptive = {.order = RONDO_ORDER_FIFO,
                                             .budget = RONDO_BUDGET_ADAPTIVE,
                                             .success_factor = 20,
                                             .front_budget_ns = 16000,
                                             .min_budget_ns = 1000,
                                             .max_budget_ns = 400000};

static struct rondo_policy with(int order, int budget) {
  struct rondo_policy p = adaptive;
  p.order = (uint8_t)order;
  p.budget = (uint8_t)budget;
  return p;
}

static void each_later_place_gets_half(void **state) {
  (void)state;
  assert_int_equal(rondo_policy_initial_budget(&adaptive, 0), 16000);
  assert_int_equal(rondo_policy_initial_budget(&adaptive, 1), 8000);
  assert_int_equal(rondo_policy_initial_budget(&adaptive, 3), 2000);
}

static void nobody_gets_less_than_the_least(void **state) {
  (void)state;
  const uint32_t positions[] = {4, 5, 63, 64, 65, 10000, UINT32_MAX};
  for (size_t i = 0; i < sizeof positions / sizeof *positions; i++)
    assert_int_equal(rondo_policy_initial_budget(&adaptive, positions[i]), 1000);
}

static void a_fixed_budget_is_the_same_everywhere(void **state) {
  (void)state;
  struct rondo_policy p = with(RONDO_ORDER_FIFO, RONDO_BUDGET_FIXED);
  assert_int_equal(rondo_policy_initial_budget(&p, 0), 16000);
  assert_int_equal(rondo_policy_initial_budget(&p, 1000), 16000);
  assert_int_equal(rondo_policy_raised_budget(&p, 16000), 16000);
}

static void without_preemption_the_budget_never_ends(void **state) {
  (void)state;
  struct rondo_policy p = with(RONDO_ORDER_FIFO, RONDO_BUDGET_NEVER);
  assert_true(rondo_policy_initial_budget(&p, 0) == UINT64_MAX);
  assert_true(rondo_policy_initial_budget(&p, 99) == UINT64_MAX);
  assert_true(rondo_policy_raised_budget(&p, UINT64_MAX) == UINT64_MAX);
}

static void success_multiplies_up_to_the_most(void **state) {
  (void)state;
  assert_int_equal(rondo_policy_raised_budget(&adaptive, 1000), 20000);
  assert_int_equal(rondo_policy_raised_budget(&adaptive, 19999), 399980);
  assert_int_equal(rondo_policy_raised_budget(&adaptive, 20000), 400000);
  assert_int_equal(rondo_policy_raised_budget(&adaptive, 20001), 400000);
  assert_int_equal(rondo_policy_raised_budget(&adaptive, 400000), 400000);
}

static void raising_does_not_overflow(void **state) {
  (void)state;
  struct rondo_policy p = adaptive;
  p.max_budget_ns = UINT64_MAX;
  assert_true(rondo_policy_raised_budget(&p, UINT64_MAX - 1) == UINT64_MAX);
  assert_true(rondo_policy_raised_budget(&p, UINT64_MAX / 20) == UINT64_MAX);
  p.success_factor = UINT32_MAX;
  assert_true(rondo_policy_raised_budget(&p, UINT64_MAX / 2) == UINT64_MAX);
}

static void an_empty_queue_always_fetches(void **state) {
  (void)state;
  for (int budget = RONDO_BUDGET_ADAPTIVE; budget <= RONDO_BUDGET_NEVER; budget++)
    for (int order = RONDO_ORDER_FIFO; order <= RONDO_ORDER_PRIORITY; order++) {
      struct rondo_policy p = with(order, budget);
      assert_true(rondo_policy_should_fetch(&p, 0, 0));
      assert_true(rondo_policy_should_fetch(&p, 0, 1));
    }
}

static void fifo_fetches_when_stalled(void **state) {
  (void)state;
  assert_false(rondo_policy_should_fetch(&adaptive, 1, 0));
  assert_true(rondo_policy_should_fetch(&adaptive, 1, 1));
}

static void priority_fetches_at_every_step(void **state) {
  (void)state;
  struct rondo_policy p = with(RONDO_ORDER_PRIORITY, RONDO_BUDGET_ADAPTIVE);
  assert_true(rondo_policy_should_fetch(&p, 1, 0));
}

static void without_preemption_work_in_hand_keeps_all_else_out(void **state) {
  (void)state;
  struct rondo_policy p = with(RONDO_ORDER_PRIORITY, RONDO_BUDGET_NEVER);
  assert_false(rondo_policy_should_fetch(&p, 1, 1));
  assert_false(rondo_policy_should_switch(&p, 255, 0));
}

static void only_the_more_urgent_switches(void **state) {
  (void)state;
  struct rondo_policy p = with(RONDO_ORDER_PRIORITY, RONDO_BUDGET_ADAPTIVE);
  assert_true(rondo_policy_should_switch(&p, 129, 128));
  assert_false(rondo_policy_should_switch(&p, 128, 128));
  assert_false(rondo_policy_should_switch(&p, 127, 128));
  assert_false(rondo_policy_should_switch(&adaptive, 255, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("policy", each_later_place_gets_half),
      RONDO_NAMED_TEST("policy", nobody_gets_less_than_the_least),
      RONDO_NAMED_TEST("policy", a_fixed_budget_is_the_same_everywhere),
      RONDO_NAMED_TEST("policy", without_preemption_the_budget_never_ends),
      RONDO_NAMED_TEST("policy", success_multiplies_up_to_the_most),
      RONDO_NAMED_TEST("policy", raising_does_not_overflow),
      RONDO_NAMED_TEST("policy", an_empty_queue_always_fetches),
      RONDO_NAMED_TEST("policy", fifo_fetches_when_stalled),
      RONDO_NAMED_TEST("policy", priority_fetches_at_every_step),
      RONDO_NAMED_TEST("policy", without_preemption_work_in_hand_keeps_all_else_out),
      RONDO_NAMED_TEST("policy", only_the_more_urgent_switches),
  };
  return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
