// The records of the threads that are inside a context.
#include "runtime/rank/callers.h"

#include <pthread.h>

#include "tests/support/named.h"

#define SLOTS 4096u
#define HANDLE (3 * (uint64_t)SLOTS + 7)

static void a_call_within_a_call_is_counted(void **state) {
  (void)state;
  assert_int_equal(rondo_caller_enter(HANDLE), 1);
  assert_int_equal(rondo_callers_count(HANDLE, SLOTS), 1);
  assert_int_equal(rondo_callers_count(HANDLE + SLOTS, SLOTS),
                   1); // another generation of the same slot
  assert_int_equal(rondo_callers_count(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_caller_enter(HANDLE + 1), 0);
  assert_int_equal(rondo_callers_count(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_caller_leave(), 0);
  assert_int_equal(rondo_caller_leave(), 1);
  assert_int_equal(rondo_callers_count(HANDLE, SLOTS), 0);
}

static void handle_0_is_no_context(void **state) {
  (void)state;
  assert_int_equal(rondo_caller_enter(0), 1);
  assert_int_equal(rondo_callers_count(0, SLOTS), 0);
  assert_int_equal(rondo_caller_leave(), 1);
}

static void *come_and_go(void *arg) {
  (void)arg;
  assert_int_equal(rondo_caller_enter(HANDLE), 1);
  assert_int_equal(rondo_caller_leave(), 1);
  return rondo_caller_self;
}

static void *come_and_stay(void *arg) {
  (void)arg;
  assert_int_equal(rondo_caller_enter(HANDLE), 1);
  return rondo_caller_self;
}

static struct rondo_caller *caller_of(void *(*call)(void *)) {
  pthread_t thread;
  void *caller = NULL;
  assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
  assert_int_equal(pthread_join(thread, &caller), 0);
  return caller;
}

static void records_of_ended_threads_are_reused(void **state) {
  (void)state;
  const struct rondo_caller *first = caller_of(come_and_go);
  assert_ptr_not_equal(first, rondo_caller_self);
  for (int i = 0; i < 10; i++)
    assert_ptr_equal(caller_of(come_and_go), first);
  // A thread that ended inside a call stays in it.
  assert_ptr_equal(caller_of(come_and_stay), first);
  assert_ptr_not_equal(caller_of(come_and_go), first);
  assert_int_equal(rondo_callers_count(HANDLE, SLOTS), 1);
}

static void *call_without_a_place(void *arg) {
  rondo_caller_self = &rondo_caller_none;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(rondo_caller_enter(HANDLE + 2), 0);
    assert_int_equal(rondo_caller_enter(HANDLE + 2), 0);
    assert_int_equal(rondo_caller_leave(), 0);
    assert_int_equal(rondo_caller_leave(), 0);
  }
  return arg;
}

static void threads_without_a_record_are_counted(void **state) {
  (void)state;
  (void)caller_of(call_without_a_place);
  assert_int_equal(rondo_callers_count(HANDLE + 2, SLOTS), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("callers", a_call_within_a_call_is_counted),
      RONDO_NAMED_TEST("callers", handle_0_is_no_context),
      RONDO_NAMED_TEST("callers", records_of_ended_threads_are_reused),
      RONDO_NAMED_TEST("callers", threads_without_a_record_are_counted),
  };
  return cmocka_run_group_tests_name("callers", tests, NULL, NULL);
}
