// Who is inside a context, as each thread says it.
#include "runtime/api/visitors.h"

#include <pthread.h>

#include "tests/support/named.h"

#define SLOTS 4096u
#define HANDLE (3 * (uint64_t)SLOTS + 7)

static void a_call_within_a_call_is_counted(void **state) {
  (void)state;
  assert_int_equal(rondo_visit_begin(HANDLE), 1);
  assert_int_equal(rondo_visits(HANDLE, SLOTS), 1);
  assert_int_equal(rondo_visits(HANDLE + SLOTS, SLOTS), 1); // another generation of the same slot
  assert_int_equal(rondo_visits(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_visit_begin(HANDLE + 1), 0);
  assert_int_equal(rondo_visits(HANDLE + 1, SLOTS), 0);
  assert_int_equal(rondo_visit_end(), 0);
  assert_int_equal(rondo_visit_end(), 1);
  assert_int_equal(rondo_visits(HANDLE, SLOTS), 0);
}

static void no_handle_is_nowhere(void **state) {
  (void)state;
  assert_int_equal(rondo_visit_begin(0), 1);
  assert_int_equal(rondo_visits(0, SLOTS), 0);
  assert_int_equal(rondo_visit_end(), 1);
}

static void *come_and_go(void *arg) {
  (void)arg;
  assert_int_equal(rondo_visit_begin(HANDLE), 1);
  assert_int_equal(rondo_visit_end(), 1);
  return rondo_visitor_self;
}

static void *come_and_stay(void *arg) {
  (void)arg;
  assert_int_equal(rondo_visit_begin(HANDLE), 1);
  return rondo_visitor_self;
}

static struct rondo_visitor *visitor_of(void *(*call)(void *)) {
  pthread_t thread;
  void *visitor = NULL;
  assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
  assert_int_equal(pthread_join(thread, &visitor), 0);
  return visitor;
}

static void threads_that_have_ended_leave_their_place_to_others(void **state) {
  (void)state;
  const struct rondo_visitor *first = visitor_of(come_and_go);
  assert_ptr_not_equal(first, rondo_visitor_self);
  for (int i = 0; i < 10; i++)
    assert_ptr_equal(visitor_of(come_and_go), first);
  // One that was ended in the middle of a call is in it for good.
  assert_ptr_equal(visitor_of(come_and_stay), first);
  assert_ptr_not_equal(visitor_of(come_and_go), first);
  assert_int_equal(rondo_visits(HANDLE, SLOTS), 1);
}

static void *call_without_a_place(void *arg) {
  rondo_visitor_self = &rondo_visitor_nobody;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(rondo_visit_begin(HANDLE + 2), 0);
    assert_int_equal(rondo_visit_begin(HANDLE + 2), 0);
    assert_int_equal(rondo_visit_end(), 0);
    assert_int_equal(rondo_visit_end(), 0);
  }
  return arg;
}

static void who_has_no_place_is_counted(void **state) {
  (void)state;
  (void)visitor_of(call_without_a_place);
  assert_int_equal(rondo_visits(HANDLE + 2, SLOTS), 0);
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
