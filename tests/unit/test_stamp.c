// The clock of stamps: when it trusts the processor's counter.
#include "base/clock.h"
#include "tests/support/named.h"

#define MS UINT64_C(1000000)

// A stamp that has looked twice, 2 ms apart, at a counter of 3 GHz.
static struct rondo_stamp settled(uint64_t ticks) {
  struct rondo_stamp s = {0};
  rondo_stamp_look(&s, ticks, 10 * MS, ticks + 60);
  rondo_stamp_look(&s, ticks + 6 * MS, 12 * MS, ticks + 6 * MS + 60);
  return s;
}

static uint64_t now_of(const struct rondo_stamp *s, uint64_t ticks) {
  uint64_t ns = 0;
  return rondo_stamp_try_tell(s, ticks, &ns) ? ns : 0;
}

static void it_tells_nothing_before_it_knows_the_rate(void **state) {
  struct rondo_stamp s = {0};
  (void)state;
  assert_int_equal(now_of(&s, 5), 0);
  rondo_stamp_look(&s, 1000, 10 * MS, 1060);
  assert_int_equal(now_of(&s, 1500), 0);
  rondo_stamp_look(&s, 31000, 10 * MS + 10000, 31060); // too soon to tell it from
  assert_int_equal(now_of(&s, 31500), 0);
  assert_int_equal(s.ticks, 1000);
}

static void it_tells_the_time_for_a_millisecond(void **state) {
  const uint64_t starts[] = {1000, UINT64_MAX - 7 * MS}; // the second wraps
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct rondo_stamp s = settled(starts[i]);
    uint64_t at = starts[i] + 6 * MS;
    assert_in_range(now_of(&s, at + 3000), 12 * MS + 999, 12 * MS + 1001);
    assert_in_range(now_of(&s, at + 3 * MS - 3000), 13 * MS - 1010, 13 * MS - 990);
    assert_int_equal(now_of(&s, at + 3 * MS + 3000), 0);
    assert_int_equal(now_of(&s, at + (UINT64_C(7) << 32) + 3000), 0);
  }
}

// However long nobody has asked: the product of ticks and rate would wrap.
static void it_tells_nothing_of_a_slow_counter_that_has_run_on(void **state) {
  struct rondo_stamp s = {0};
  (void)state;
  rondo_stamp_look(&s, 0, 10 * MS, 6);
  rondo_stamp_look(&s, 1 << 20, 10 * MS + (8 << 20), (1 << 20) + 6); // 8 ns a tick
  assert_int_equal(now_of(&s, (1 << 20) + 100), 10 * MS + (8 << 20) + 800);
  assert_int_equal(now_of(&s, (1 << 20) + (1 << 29)), 0); // 4 s
}

static void it_does_not_trust_a_counter_that_goes_back_or_stands(void **state) {
  struct rondo_stamp s = settled(1000);
  (void)state;
  assert_int_equal(now_of(&s, 900), 0);
  rondo_stamp_look(&s, 900, 13 * MS, 960);
  assert_int_equal(now_of(&s, 1000), 0); // the rate is not known any more
  s = settled(1000);
  rondo_stamp_look(&s, s.ticks, 14 * MS, s.ticks);
  assert_int_equal(now_of(&s, s.ticks), 0);
}

static void it_learns_nothing_from_a_look_that_was_interrupted(void **state) {
  struct rondo_stamp s = settled(1000);
  struct rondo_stamp before = s;
  (void)state;
  rondo_stamp_look(&s, s.ticks + 6 * MS, 20 * MS, s.ticks + 24 * MS);
  assert_memory_equal(&s, &before, sizeof s);
}

static void it_follows_a_counter_that_changes_its_pace(void **state) {
  struct rondo_stamp s = settled(1000);
  uint64_t at = s.ticks;
  (void)state;
  rondo_stamp_look(&s, at + 2 * MS, 14 * MS, at + 2 * MS + 60); // 1 GHz
  assert_in_range(now_of(&s, at + 2 * MS + 1000), 14 * MS + 999, 14 * MS + 1001);
}

static void it_never_goes_back_and_keeps_to_the_clock(void **state) {
  struct rondo_stamp s = {0};
  uint64_t last_ns = 0;
  uint64_t end_ns = rondo_now_ns() + 20 * MS;
  (void)state;
  while (last_ns < end_ns) {
    uint64_t before_ns = rondo_now_ns();
    uint64_t ns = rondo_stamp_ns(&s);
    uint64_t after_ns = rondo_now_ns();
    assert_true(ns >= last_ns);
    // However the counter behaves it is no further off than the period, save where it waited to be
    // run.
    assert_true(ns + 2 * RONDO_STAMP_PERIOD_NS >= before_ns);
    assert_true(ns <= after_ns + 2 * RONDO_STAMP_PERIOD_NS);
    last_ns = ns;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("stamp", it_tells_nothing_before_it_knows_the_rate),
      RONDO_NAMED_TEST("stamp", it_tells_the_time_for_a_millisecond),
      RONDO_NAMED_TEST("stamp", it_tells_nothing_of_a_slow_counter_that_has_run_on),
      RONDO_NAMED_TEST("stamp", it_does_not_trust_a_counter_that_goes_back_or_stands),
      RONDO_NAMED_TEST("stamp", it_learns_nothing_from_a_look_that_was_interrupted),
      RONDO_NAMED_TEST("stamp", it_follows_a_counter_that_changes_its_pace),
      RONDO_NAMED_TEST("stamp", it_never_goes_back_and_keeps_to_the_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
