// Writes to device memory: a list keeps their order and their data, and frees what is not carried
// out. The driver here records the writes, and fails one on request.
#include "runtime/memory/writes.h"

#include <string.h>

#include "daemon/driver/driver.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define PLACES 8u

static char memory[PLACES];       // of the device
static char order[PLACES * 2];    // the bytes, in the order of the writes
static uint32_t written, refused; // writes so far; the number of the one that fails, from 1

static int device_write(struct rondo_device *device, uint64_t to, const void *from,
                        uint64_t bytes) {
  (void)device;
  if (++written == refused)
    return RONDO_ERR_SYSTEM;
  memcpy((void *)(uintptr_t)to, from, bytes);
  strncat(order, from, bytes);
  return RONDO_SUCCESS;
}

static const struct rondo_driver driver = {.write = device_write};
static const struct rondo_driver direct_driver = {.write = device_write, .is_direct = true};
static struct rondo_device device = {&driver};
static struct rondo_device direct_device = {&direct_driver};
static const struct rondo_place there = {.device = &device, .kind = RONDO_MEMORY_DEVICE};
static struct rondo_writes list;
static uint32_t culprit;

static int fresh(void **state) {
  (void)state;
  memset(memory, 0, sizeof memory);
  memset(order, 0, sizeof order);
  written = refused = culprit = 0;
  return list.first != NULL;
}

// Adds a write of one byte to the place `at`, for the rank of that number.
static void add(uint32_t at, char byte) {
  assert_int_equal(rondo_writes_add(&list, there, at, &memory[at], &byte, 1), RONDO_SUCCESS);
}

static int carry_out(void) { return rondo_writes_carry_out(rondo_writes_take(&list), &culprit); }

static void writes_keep_their_order(void **state) {
  (void)state;
  add(2, 'a');
  add(0, 'b');
  add(2, 'c');
  assert_int_equal(written, 0);
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_string_equal(order, "abc");
  assert_int_equal(memory[2], 'c');
  assert_null(list.first);
  add(1, 'd'); // the list is as new
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_string_equal(order, "abcd");
}

static void the_data_is_that_of_the_time_of_the_call(void **state) {
  char data[4] = "now";
  (void)state;
  assert_int_equal(rondo_writes_add(&list, there, 0, memory, data, sizeof data), RONDO_SUCCESS);
  memset(data, 'x', sizeof data);
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_string_equal(memory, "now");
}

static void a_drop_takes_a_range_and_keeps_the_order_of_the_rest(void **state) {
  (void)state;
  for (uint32_t i = 0; i < PLACES; i++)
    add(PLACES - 1 - i, (char)('a' + i));
  rondo_writes_drop(&list, &memory[2], 3);
  add(3, 'z'); // after the drop
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_string_equal(order, "abcghz");
}

static void a_drop_at_either_end_leaves_a_whole_list(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 4; i++)
    add(i, (char)('a' + i));
  rondo_writes_drop(&list, &memory[0], 1);
  rondo_writes_drop(&list, &memory[3], 1);
  rondo_writes_drop(&list, &memory[1], 0);
  add(4, 'e');
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_string_equal(order, "bce");
}

static void a_drop_of_all_leaves_an_empty_list(void **state) {
  (void)state;
  add(0, 'a');
  add(7, 'b');
  rondo_writes_drop(&list, memory, sizeof memory);
  assert_null(list.first);
  assert_null(list.last);
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_int_equal(written, 0);
}

static void a_failed_write_names_its_rank_and_ends_the_rest(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 4; i++)
    add(i + 1, (char)('a' + i));
  refused = 2;
  assert_int_equal(carry_out(), RONDO_ERR_SYSTEM);
  assert_int_equal(culprit, 2);
  assert_int_equal(written, 2);
  assert_string_equal(order, "a");
}

static void what_is_not_carried_out_is_freed(void **state) {
  (void)state;
  add(0, 'a');
  add(1, 'b');
  rondo_writes_free(rondo_writes_take(&list));
  assert_int_equal(written, 0);
  rondo_writes_free(NULL);
}

static void what_the_cpu_accesses_is_written_at_once(void **state) {
  const struct rondo_place host = {.device = &device, .kind = RONDO_MEMORY_SHARED};
  const struct rondo_place exported = {.device = &device, .kind = RONDO_PLACE_EXPORTED};
  const struct rondo_place range = {.device = &device, .kind = RONDO_PLACE_RANGE};
  const struct rondo_place direct = {.device = &direct_device, .kind = RONDO_MEMORY_DEVICE};
  (void)state;
  assert_int_equal(rondo_writes_add(&list, host, 0, &memory[0], "a", 1), RONDO_SUCCESS);
  assert_int_equal(rondo_writes_add(&list, exported, 0, &memory[1], "b", 1), RONDO_SUCCESS);
  assert_int_equal(written, 0); // without the driver
  assert_int_equal(rondo_writes_add(&list, direct, 0, &memory[2], "c", 1), RONDO_SUCCESS);
  assert_memory_equal(memory, "abc", 3);
  assert_null(list.first);
  refused = written + 1;
  assert_int_equal(rondo_writes_add(&list, direct, 0, &memory[2], "d", 1), RONDO_ERR_SYSTEM);
  assert_int_equal(rondo_writes_add(&list, range, 0, &memory[3], "e", 1), RONDO_SUCCESS);
  assert_int_equal(memory[3], 0);
  assert_int_equal(carry_out(), RONDO_SUCCESS);
  assert_int_equal(memory[3], 'e');
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("writes", function, fresh, NULL)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(writes_keep_their_order),
      TEST(the_data_is_that_of_the_time_of_the_call),
      TEST(a_drop_takes_a_range_and_keeps_the_order_of_the_rest),
      TEST(a_drop_at_either_end_leaves_a_whole_list),
      TEST(a_drop_of_all_leaves_an_empty_list),
      TEST(a_failed_write_names_its_rank_and_ends_the_rest),
      TEST(what_is_not_carried_out_is_freed),
      TEST(what_the_cpu_accesses_is_written_at_once),
  };
  return cmocka_run_group_tests_name("writes", tests, NULL, NULL);
}
