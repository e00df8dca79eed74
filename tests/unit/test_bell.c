// Bells of processes: a wish is answered by one ring, and a sleep on two words ends by either of them.
#include "base/bell.h"

#include <pthread.h>
#include <sched.h>

#include "tests/support/named.h"

#define BELLS 3u
#define LONG_NS UINT64_C(60000000000)

// Rings for a move that was made for all of them.
static void ring_all(const struct rondo_bells *bells) {
  static uint8_t moved[8];
  memset(moved, 1, sizeof moved);
  rondo_bells_ring(bells, moved);
}

static void who_wants_nothing_is_not_rung(void **state) {
  (void)state;
  struct rondo_bell bell = {0};
  struct rondo_bell *others[] = {&bell};
  const struct rondo_bells bells = {.others = others, .count = 1};
  ring_all(&bells);
  assert_int_equal(bell.rung, 0);
}

static void each_wish_is_rung_once(void **state) {
  (void)state;
  struct rondo_bell bell = {.rung = UINT32_MAX - 1};
  struct rondo_bell *others[] = {&bell};
  const struct rondo_bells bells = {.others = others, .count = 1};
  for (uint32_t i = 0; i < 3; i++) {
    (void)rondo_bell_want(&bell, 1);
    (void)rondo_bell_want(&bell, 1); // another thread of its process
    assert_int_equal(bell.wanted, 1);
    ring_all(&bells);
    ring_all(&bells);
    assert_int_equal(bell.wanted, 0);
    assert_int_equal(bell.rung, (uint32_t)(UINT32_MAX + i)); // one more than before
  }
}

static void only_those_are_rung_who_want_it(void **state) {
  (void)state;
  struct rondo_bell bell[BELLS] = {{0}, {0}, {0}};
  struct rondo_bell *others[] = {&bell[0], &bell[1], &bell[2]};
  struct rondo_bells bells = {.others = others, .count = BELLS - 1};
  (void)rondo_bell_want(&bell[1], 1);
  (void)rondo_bell_want(&bell[2], 1); // of a process that is not known yet
  ring_all(&bells);
  assert_int_equal(bell[0].rung, 0);
  assert_int_equal(bell[1].rung, 1);
  assert_int_equal(bell[2].rung, 0);
  bells.count = BELLS;
  ring_all(&bells);
  assert_int_equal(bell[1].rung, 1);
  assert_int_equal(bell[2].rung, 1);
}

static void only_those_are_rung_for_whom_something_has_moved(void **state) {
  (void)state;
  enum { MANY = 19 };
  struct rondo_bell bell[MANY] = {{0}};
  struct rondo_bell *others[MANY];
  const struct rondo_bells bells = {.others = others, .count = MANY, .capacity = MANY};
  static uint8_t moved[24];
  assert_int_equal(rondo_bells_moved_bytes(bells.capacity), sizeof moved);
  for (uint32_t i = 0; i < MANY; i++) {
    others[i] = &bell[i];
    (void)rondo_bell_want(&bell[i], 1);
  }
  moved[0] = moved[9] = moved[MANY - 1] = 1;
  rondo_bells_ring(&bells, moved);
  rondo_bells_ring(&bells, moved); // nothing has moved since
  for (uint32_t i = 0; i < MANY; i++) {
    assert_int_equal(bell[i].rung, i == 0 || i == 9 || i == MANY - 1);
    assert_int_equal(moved[i], 0);
  }
}

// -------------------------------------------------------------------- sleeps --

// A thread that sleeps on its own word and on a bell until one of them has changed.
struct sleeper {
  uint32_t word;
  struct rondo_bell bell;
  uint32_t is_asleep; // it is about to sleep
};

static void *sleep_until_changed(void *arg) {
  struct sleeper *s = arg;
  uint32_t word = rondo_load_acquire_u32(&s->word);
  const struct rondo_futex_shared on = rondo_bell_want(&s->bell, 1);
  rondo_store_release_u32(&s->is_asleep, 1);
  while (rondo_load_acquire_u32(&s->word) == word &&
         rondo_load_acquire_u32(&s->bell.rung) == on.expected)
    (void)rondo_futex_wait_any(&s->word, word, &on, 1, LONG_NS);
  return NULL;
}

static void change_word(struct sleeper *s) {
  rondo_fetch_add_seq_cst_u32(&s->word, 1);
  rondo_futex_wake_all(&s->word);
}

static void ring(struct sleeper *s) {
  struct rondo_bell *others[] = {&s->bell};
  const struct rondo_bells bells = {.others = others, .count = 1};
  ring_all(&bells);
}

// Fails by the test's own time limit if the sleeper is not woken.
static void wake_by(void (*wake)(struct sleeper *s)) {
  static struct sleeper s;
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    s.is_asleep = 0;
    assert_int_equal(pthread_create(&thread, NULL, sleep_until_changed, &s), 0);
    while (!rondo_load_acquire_u32(&s.is_asleep))
      sched_yield();
    for (int yields = i; yields > 0; yields--)
      sched_yield(); // it sleeps already, more often the more there are
    wake(&s);
    pthread_join(thread, NULL);
  }
}

static void its_own_word_wakes_a_sleeper(void **state) {
  (void)state;
  wake_by(change_word);
}

static void its_bell_wakes_a_sleeper(void **state) {
  (void)state;
  wake_by(ring);
}

static void a_wish_is_new_for_a_short_time(void **state) {
  (void)state;
  static struct rondo_bell bell;
  struct rondo_bell *others[] = {&bell};
  const struct rondo_bells bells = {.others = others, .count = 1};
  const uint64_t later_ns = 1000 + RONDO_BELL_SHORT_NS;
  (void)rondo_bell_want(&bell, 1000);
  assert_true(rondo_bell_is_new(&bell, 1000));
  (void)rondo_bell_want(&bell, later_ns - 1); // it lasts
  assert_true(rondo_bell_is_new(&bell, later_ns - 1));
  assert_false(rondo_bell_is_new(&bell, later_ns));
  ring_all(&bells);
  (void)rondo_bell_want(&bell, later_ns); // a new one
  assert_true(rondo_bell_is_new(&bell, later_ns));
}

static void a_sleep_ends_at_its_timeout(void **state) {
  (void)state;
  uint32_t word = 1;
  uint32_t shared = 2;
  const struct rondo_futex_shared on = {&shared, 2};
  (void)rondo_futex_wait_any(&word, 1, &on, 1, 1);
  (void)rondo_futex_wait_any(&word, 1, &on, 1, 1000000);
  rondo_futex_wait(&word, 1, 1000000);
  assert_int_equal(word + shared, 3);
}

static void what_has_changed_before_is_not_slept_for(void **state) {
  (void)state;
  uint32_t word = 1;
  uint32_t shared = 2;
  const struct rondo_futex_shared on[2] = {{&shared, 2}, {&shared, 1}};
  (void)rondo_futex_wait_any(&word, 0, on, 1, LONG_NS);
  (void)rondo_futex_wait_any(&word, 1, on, 2, LONG_NS);
  rondo_futex_wait(&word, 0, LONG_NS);
  assert_int_equal(word + shared, 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("bell", who_wants_nothing_is_not_rung),
      RONDO_NAMED_TEST("bell", each_wish_is_rung_once),
      RONDO_NAMED_TEST("bell", only_those_are_rung_who_want_it),
      RONDO_NAMED_TEST("bell", only_those_are_rung_for_whom_something_has_moved),
      RONDO_NAMED_TEST("bell", its_own_word_wakes_a_sleeper),
      RONDO_NAMED_TEST("bell", its_bell_wakes_a_sleeper),
      RONDO_NAMED_TEST("bell", a_wish_is_new_for_a_short_time),
      RONDO_NAMED_TEST("bell", a_sleep_ends_at_its_timeout),
      RONDO_NAMED_TEST("bell", what_has_changed_before_is_not_slept_for),
  };
  return cmocka_run_group_tests_name("bell", tests, NULL, NULL);
}
