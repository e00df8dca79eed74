// Whether two processors are judged to be whole cores.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/named.h"
#include "tools/kit/thread_group.h"
#include "tools/kit/whole_cores.h"

static struct rondo_kit_cores_watch watch;

static bool judge(double first_ns, double second_ns, double both_ns) {
  const struct rondo_kit_core_times times = {first_ns, second_ns, both_ns};
  return rondo_kit_cores_judge(&watch, &times);
}

static void times_say_whether_cores_are_whole(void **state) {
  (void)state;
  watch.count = 0;
  for (int i = 0; i < 20; i++)
    assert_true(judge(100 + i % 3, 101, 103));
  assert_false(judge(100, 100, 190)); // both are threads of one core
  assert_false(judge(100, 180, 100)); // a neighbour is on the second one
  assert_false(judge(170, 100, 100)); // and on the first
  assert_true(judge(115, 100, 115));  // the clock is slower
}

// Times of which most are of shared cores are no measure; those of the fastest tenth are.
static void what_is_usual_is_what_a_tenth_reaches(void **state) {
  (void)state;
  watch.count = 0;
  for (int i = 0; i < 50; i++)
    (void)judge(i % 4 ? 200 : 100, i % 4 ? 200 : 100, 200);
  assert_false(judge(200, 200, 200));
  assert_true(judge(100, 100, 100));
}

static void samples_are_sorted_and_bounded(void **state) {
  (void)state;
  watch.count = 0;
  for (uint32_t i = 0; i < RONDO_KIT_CORE_SAMPLES; i++)
    (void)judge((double)(i * 7919 % 1000), (double)(i * 104729 % 1000), 0);
  assert_int_equal(watch.count, RONDO_KIT_CORE_SAMPLES);
  for (uint32_t i = 1; i < watch.count; i++)
    assert_true(watch.ns[i - 1] <= watch.ns[i]);
}

static void additions_take_time_on_each_processor(void **state) {
  (void)state;
  struct rondo_kit_core_times times = {0};
  bool can = rondo_kit_core_count() > 1;
  assert_int_equal(rondo_kit_core_times_measure(&times), can);
  assert_true(!can || (times.first_ns > 0 && times.second_ns > 0 && times.both_ns > 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("kit_cores", times_say_whether_cores_are_whole),
      RONDO_NAMED_TEST("kit_cores", what_is_usual_is_what_a_tenth_reaches),
      RONDO_NAMED_TEST("kit_cores", samples_are_sorted_and_bounded),
      RONDO_NAMED_TEST("kit_cores", additions_take_time_on_each_processor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
