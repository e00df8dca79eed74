// Who is inside a context, as each thread says it.
#include "runtime/rank/callers.h"

#include <pthread.h>

#include "tests/support/named.h"

#define SLOTS 4096u
#define HANDLE (3 * (uint64_t)SLOTS + 7)

static void a_call_within_a_call_is_counted(void **state) {
  (void)state;
  assert_int_equal(rondo_caller_enter(HANDLE), 1);
  assert_int_equal(rondo_callers_inside(HANDLE, SLOTS), 1);
  assert_int_equal(rondo_callers_inside(HANDLE + SLOTS, SLOTS),
                   1); // another generation of the same slot
  assert_int_equal(rondo_callers_inside(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_caller_enter(HANDLE + 1), 0);
  assert_int_equal(rondo_callers_inside(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_caller_leave(), 0);
  assert_int_equal(rondo_caller_leave(), 1);
  assert_int_equal(rondo_callers_inside(HANDLE, SLOTS), 0);
}

static void no_handle_is_nowhere(void **state) {
  (void)state;
  assert_int_equal(rondo_caller_enter(0), 1);
  assert_int_equal(rondo_callers_inside(0, SLOTS), 0);
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

static struct rondo_caller *visitor_of(void *(*call)(void *)) {
  pthread_t thread;
  void *visitor = NULL;
  assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
  assert_int_equal(pthread_join(thread, &visitor), 0);
  return visitor;
}

static void threads_that_have_ended_leave_their_place_to_others(void **state) {
  (void)state;
  const struct rondo_caller *first = visitor_of(come_and_go);
  assert_ptr_not_equal(first, rondo_caller_self);
  for (int i = 0; i < 10; i++)
    assert_ptr_equal(visitor_of(come_and_go), first);
  // One that was ended in the middle of a call is in it for good.
  assert_ptr_equal(visitor_of(come_and_stay), first);
  assert_ptr_not_equal(visitor_of(come_and_go), first);
  assert_int_equal(rondo_callers_inside(HANDLE, SLOTS), 1);
}

static void *call_without_a_place(void *arg) {
  rondo_caller_self = &rondo_caller_nobody;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(rondo_caller_enter(HANDLE + 2), 0);
    assert_int_equal(rondo_caller_enter(HANDLE + 2), 0);
    assert_int_equal(rondo_caller_leave(), 0);
    assert_int_equal(rondo_caller_leave(), 0);
  }
  return arg;
}

static void who_has_no_place_is_counted(void **state) {
  (void)state;
  (void)visitor_of(call_without_a_place);
  assert_int_equal(rondo_callers_inside(HANDLE + 2, SLOTS), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("visitors", a_call_within_a_call_is_counted),
      RONDO_NAMED_TEST("visitors", no_handle_is_nowhere),
      RONDO_NAMED_TEST("visitors", threads_that_have_ended_leave_their_place_to_others),
      RONDO_NAMED_TEST("visitors", who_has_no_place_is_counted),
  };
  return cmocka_run_group_tests_name("visitors", tests, NULL, NULL);
}
