// The lock of a rank: one thread holds it at a time, and a thread that sleeps for it is woken.
#include "base/lock.h"

#include <pthread.h>
#include <sched.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

#define THREADS 4u

static struct rondo_lock lock;
static uint64_t counted; // guarded by it

static void is_free_at_first_and_after(void **state) {
  (void)state;
  struct rondo_lock own = {0};
  for (int i = 0; i < 3; i++) {
    assert_true(rondo_lock_try(&own));
    assert_false(rondo_lock_try(&own));
    rondo_lock_give(&own);
    rondo_lock_take(&own);
    assert_false(rondo_lock_try(&own));
    rondo_lock_give(&own);
  }
  assert_int_equal(own.word, RONDO_LOCK_FREE);
}

static void *count(void *arg) {
  uint64_t times = *(const uint64_t *)arg;
  for (uint64_t i = 0; i < times; i++) {
    if (i % 3 || !rondo_lock_try(&lock))
      rondo_lock_take(&lock);
    counted++;
    if (i % 64 == 0)
      sched_yield(); // so that others find it taken
    rondo_lock_give(&lock);
  }
  return NULL;
}

static void lets_in_one_at_a_time(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  uint64_t times = rondo_test_load(200000, 20000);
  counted = 0;
  for (uint32_t i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, count, &times), 0);
  for (uint32_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(counted, THREADS * times);
  assert_int_equal(lock.word, RONDO_LOCK_FREE);
}

static void *take_once(void *arg) {
  (void)arg;
  rondo_lock_take(&lock);
  counted++;
  rondo_lock_give(&lock);
  return NULL;
}

// Both sleep, or are about to, when the lock is given back: the first that has it passes it on.
// Each would look by itself, but only after RONDO_LOCK_LOOK_NS.
static void wakes_all_that_sleep_one_by_one(void **state) {
  (void)state;
  uint64_t rounds = rondo_test_load(200, 50);
  for (uint64_t i = 0; i < rounds; i++) {
    pthread_t threads[2];
    counted = 0;
    rondo_lock_take(&lock);
    for (int t = 0; t < 2; t++)
      assert_int_equal(pthread_create(&threads[t], NULL, take_once, NULL), 0);
    while (rondo_load_relaxed_u32(&lock.sleepers) != 2)
      sched_yield();
    rondo_lock_give(&lock);
    for (int t = 0; t < 2; t++)
      pthread_join(threads[t], NULL);
    assert_int_equal(counted, 2);
    assert_int_equal(lock.sleepers, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("lock", is_free_at_first_and_after),
      RONDO_NAMED_TEST("lock", lets_in_one_at_a_time),
      RONDO_NAMED_TEST("lock", wakes_all_that_sleep_one_by_one),
  };
  return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
