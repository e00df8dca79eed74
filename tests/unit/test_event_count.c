// Event counts: one notification ends an announced wait, and either of two words ends a sleep on
// both.
#include "base/event_count.h"

#include <pthread.h>
#include <sched.h>

#include "tests/support/named.h"

#define PROCESSES 3u
#define LONG_NS UINT64_C(60000000000)

// Notifies after a move for all of them.
static void notify_all(const struct rondo_event_counts *counts) {
  static uint8_t moved[8];
  memset(moved, 1, sizeof moved);
  rondo_event_counts_notify(counts, moved);
}

static void a_process_without_waiters_is_not_notified(void **state) {
  (void)state;
  struct rondo_event_count e = {0};
  struct rondo_event_count *others[] = {&e};
  const struct rondo_event_counts counts = {.others = others, .count = 1};
  notify_all(&counts);
  assert_int_equal(e.count, 0);
}

static void each_announcement_is_notified_once(void **state) {
  (void)state;
  struct rondo_event_count e = {.count = UINT32_MAX - 1};
  struct rondo_event_count *others[] = {&e};
  const struct rondo_event_counts counts = {.others = others, .count = 1};
  for (uint32_t i = 0; i < 3; i++) {
    (void)rondo_event_count_prepare_wait(&e, 1);
    (void)rondo_event_count_prepare_wait(&e, 1); // another thread of its process
    assert_int_equal(e.has_waiters, 1);
    notify_all(&counts);
    notify_all(&counts);
    assert_int_equal(e.has_waiters, 0);
    assert_int_equal(e.count, (uint32_t)(UINT32_MAX + i)); // one more than before
  }
}

static void only_processes_with_waiters_are_notified(void **state) {
  (void)state;
  struct rondo_event_count e[PROCESSES] = {{0}, {0}, {0}};
  struct rondo_event_count *others[] = {&e[0], &e[1], &e[2]};
  struct rondo_event_counts counts = {.others = others, .count = PROCESSES - 1};
  (void)rondo_event_count_prepare_wait(&e[1], 1);
  (void)rondo_event_count_prepare_wait(&e[2], 1); // of a process that is not known yet
  notify_all(&counts);
  assert_int_equal(e[0].count, 0);
  assert_int_equal(e[1].count, 1);
  assert_int_equal(e[2].count, 0);
  counts.count = PROCESSES;
  notify_all(&counts);
  assert_int_equal(e[1].count, 1);
  assert_int_equal(e[2].count, 1);
}

static void only_processes_that_receive_are_notified(void **state) {
  (void)state;
  enum { MANY = 19 };
  struct rondo_event_count e[MANY] = {{0}};
  struct rondo_event_count *others[MANY];
  const struct rondo_event_counts counts = {.others = others, .count = MANY, .capacity = MANY};
  static uint8_t moved[24];
  assert_int_equal(rondo_event_counts_moved_bytes(counts.capacity), sizeof moved);
  for (uint32_t i = 0; i < MANY; i++) {
    others[i] = &e[i];
    (void)rondo_event_count_prepare_wait(&e[i], 1);
  }
  moved[0] = moved[9] = moved[MANY - 1] = 1;
  rondo_event_counts_notify(&counts, moved);
  rondo_event_counts_notify(&counts, moved); // nothing has moved since
  for (uint32_t i = 0; i < MANY; i++) {
    assert_int_equal(e[i].count, i == 0 || i == 9 || i == MANY - 1);
    assert_int_equal(moved[i], 0);
  }
}

// -------------------------------------------------------------------- sleeps --

// A thread that sleeps on its own word and on an event count until one of them has changed.
struct sleeper {
  uint32_t word;
  struct rondo_event_count events;
  uint32_t is_asleep; // it is about to sleep
};

static void *sleep_until_changed(void *arg) {
  struct sleeper *s = arg;
  uint32_t word = rondo_load_acquire_u32(&s->word);
  const struct rondo_futex_shared on = rondo_event_count_prepare_wait(&s->events, 1);
  rondo_store_release_u32(&s->is_asleep, 1);
  while (rondo_load_acquire_u32(&s->word) == word &&
         rondo_load_acquire_u32(&s->events.count) == on.expected)
    (void)rondo_futex_wait_any(&s->word, word, &on, 1, LONG_NS);
  return NULL;
}

static void change_word(struct sleeper *s) {
  rondo_fetch_add_seq_cst_u32(&s->word, 1);
  rondo_futex_wake_all(&s->word);
}

static void notify(struct sleeper *s) {
  struct rondo_event_count *others[] = {&s->events};
  const struct rondo_event_counts counts = {.others = others, .count = 1};
  notify_all(&counts);
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

static void its_event_count_wakes_a_sleeper(void **state) {
  (void)state;
  wake_by(notify);
}

static void an_announcement_is_new_for_a_short_time(void **state) {
  (void)state;
  static struct rondo_event_count e;
  struct rondo_event_count *others[] = {&e};
  const struct rondo_event_counts counts = {.others = others, .count = 1};
  const uint64_t later_ns = 1000 + RONDO_EVENT_COUNT_SHORT_NS;
  (void)rondo_event_count_prepare_wait(&e, 1000);
  assert_true(rondo_event_count_is_new(&e, 1000));
  (void)rondo_event_count_prepare_wait(&e, later_ns - 1); // it lasts
  assert_true(rondo_event_count_is_new(&e, later_ns - 1));
  assert_false(rondo_event_count_is_new(&e, later_ns));
  notify_all(&counts);
  (void)rondo_event_count_prepare_wait(&e, later_ns); // a new one
  assert_true(rondo_event_count_is_new(&e, later_ns));
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
      RONDO_NAMED_TEST("event_count", a_process_without_waiters_is_not_notified),
      RONDO_NAMED_TEST("event_count", each_announcement_is_notified_once),
      RONDO_NAMED_TEST("event_count", only_processes_with_waiters_are_notified),
      RONDO_NAMED_TEST("event_count", only_processes_that_receive_are_notified),
      RONDO_NAMED_TEST("event_count", its_own_word_wakes_a_sleeper),
      RONDO_NAMED_TEST("event_count", its_event_count_wakes_a_sleeper),
      RONDO_NAMED_TEST("event_count", an_announcement_is_new_for_a_short_time),
      RONDO_NAMED_TEST("event_count", a_sleep_ends_at_its_timeout),
      RONDO_NAMED_TEST("event_count", what_has_changed_before_is_not_slept_for),
  };
  return cmocka_run_group_tests_name("event_count", tests, NULL, NULL);
}
