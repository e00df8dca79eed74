// The task queue: order of arrival, order of priority, and where the cursor goes.
#include "scheduler/task_queue_core.h"

#include "tests/support/named.h"

#define CAPACITY 6u

static uint32_t entries[CAPACITY + 1];
static struct rondo_task_queue queue;

static int start(void **state) {
  (void)state;
  entries[CAPACITY] = 0xdeadbeefu;
  rondo_task_queue_init(&queue, entries, CAPACITY);
  return 0;
}

static int stop(void **state) {
  (void)state;
  return entries[CAPACITY] != 0xdeadbeefu;
}

static void push(uint32_t index, int priority, int sorted) {
  assert_true(rondo_task_queue_try_push(&queue, rondo_task_make(index, (uint32_t)(priority + 128)),
                                        sorted));
}

static uint32_t current(void) { return rondo_task_index(rondo_task_queue_current(&queue)); }

// The queue holds exactly these indices, from the front.
static void assert_holds(const uint32_t *indices, uint32_t count) {
  assert_int_equal(queue.count, count);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(rondo_task_index(entries[i]), indices[i]);
}
#define ASSERT_HOLDS(...)                                                                          \
  assert_holds((const uint32_t[]){__VA_ARGS__},                                                    \
               sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void tasks_carry_index_and_priority(void **state) {
  (void)state;
  for (int priority = -128; priority <= 127; priority++) {
    uint32_t task = rondo_task_make(RONDO_TASK_INDEX_MAX, (uint32_t)(priority + 128));
    assert_int_equal(rondo_task_index(task), RONDO_TASK_INDEX_MAX);
    assert_int_equal(rondo_task_urgency(task), priority + 128);
  }
}

static void fifo_keeps_the_order_of_arrival(void **state) {
  (void)state;
  push(3, -5, 0);
  push(1, 100, 0);
  push(2, 0, 0);
  ASSERT_HOLDS(3, 1, 2);
  assert_int_equal(current(), 3);
}

static void higher_priority_goes_before(void **state) {
  (void)state;
  push(1, 0, 1);
  push(2, 5, 1);
  push(3, -128, 1);
  push(4, 127, 1);
  ASSERT_HOLDS(4, 2, 1, 3);
}

static void equal_priority_keeps_the_order_of_arrival(void **state) {
  (void)state;
  push(1, 7, 1);
  push(2, 7, 1);
  push(3, 9, 1);
  push(4, 7, 1);
  ASSERT_HOLDS(3, 1, 2, 4);
}

static void the_scheduled_task_stays_scheduled(void **state) {
  (void)state;
  push(1, 0, 1);
  push(2, -1, 1);
  assert_int_equal(rondo_task_queue_next(&queue), 0);
  assert_int_equal(current(), 2);
  push(3, 50, 1); // in front of it
  assert_int_equal(current(), 2);
  push(4, -100, 1); // after it
  assert_int_equal(current(), 2);
  ASSERT_HOLDS(3, 1, 2, 4);
}

static void the_cursor_goes_round(void **state) {
  (void)state;
  push(1, 0, 0);
  push(2, 0, 0);
  push(3, 0, 0);
  assert_int_equal(rondo_task_queue_next(&queue), 0);
  assert_int_equal(rondo_task_queue_next(&queue), 0);
  assert_int_equal(current(), 3);
  assert_int_equal(rondo_task_queue_next(&queue), 1);
  assert_int_equal(current(), 1);
  ASSERT_HOLDS(1, 2, 3); // nobody has lost a place
}

static void one_task_is_a_whole_pass(void **state) {
  (void)state;
  push(1, 0, 0);
  assert_int_equal(rondo_task_queue_next(&queue), 1);
  assert_int_equal(current(), 1);
}

static void removing_schedules_the_next_one(void **state) {
  (void)state;
  push(1, 0, 0);
  push(2, 0, 0);
  push(3, 0, 0);
  (void)rondo_task_queue_next(&queue);
  assert_int_equal(rondo_task_queue_remove(&queue), 0);
  ASSERT_HOLDS(1, 3);
  assert_int_equal(current(), 3);
  assert_int_equal(rondo_task_queue_remove(&queue), 1); // was the last: back to the front
  assert_int_equal(current(), 1);
  assert_int_equal(rondo_task_queue_remove(&queue), 1);
  assert_int_equal(queue.count, 0);
  assert_int_equal(queue.cursor, 0);
}

static void rewinding_schedules_the_front(void **state) {
  (void)state;
  push(1, 0, 0);
  push(2, 0, 0);
  (void)rondo_task_queue_next(&queue);
  rondo_task_queue_rewind(&queue);
  assert_int_equal(current(), 1);
}

static void full_refuses_and_changes_nothing(void **state) {
  (void)state;
  for (uint32_t i = 0; i < CAPACITY; i++)
    push(i, 0, 1);
  (void)rondo_task_queue_next(&queue);
  assert_false(rondo_task_queue_try_push(&queue, rondo_task_make(9, 255), 1));
  assert_false(rondo_task_queue_try_push(&queue, rondo_task_make(9, 128), 0));
  ASSERT_HOLDS(0, 1, 2, 3, 4, 5);
  assert_int_equal(current(), 1);
}

#define QUEUE_TEST(function)                                                                       \
  { "task_queue." #function, function, start, stop, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      QUEUE_TEST(tasks_carry_index_and_priority),
      QUEUE_TEST(fifo_keeps_the_order_of_arrival),
      QUEUE_TEST(higher_priority_goes_before),
      QUEUE_TEST(equal_priority_keeps_the_order_of_arrival),
      QUEUE_TEST(the_scheduled_task_stays_scheduled),
      QUEUE_TEST(the_cursor_goes_round),
      QUEUE_TEST(one_task_is_a_whole_pass),
      QUEUE_TEST(removing_schedules_the_next_one),
      QUEUE_TEST(rewinding_schedules_the_front),
      QUEUE_TEST(full_refuses_and_changes_nothing),
  };
  return cmocka_run_group_tests_name("task_queue", tests, NULL, NULL);
}
