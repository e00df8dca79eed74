// The ids of the collectives that a communicator registers.
#include <stdlib.h>

#include "runtime/order/signature.h"
#include "tests/support/named.h"

#define KEY UINT64_C(0x1234567890abcdef)
#define LAST (RONDO_MAX_RANKS - 1)
#define MOST_IDS (1u << 18)

static uint64_t ids[MOST_IDS];
static uint32_t id_count;

static void id_add(uint32_t from, uint32_t to, uint64_t n) {
  assert_true(id_count < MOST_IDS);
  ids[id_count++] = rondo_series_id(KEY, from, to, n);
}

static int id_compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void ids_check(void) {
  qsort(ids, id_count, sizeof *ids, id_compare);
  for (uint32_t i = 1; i < id_count; i++)
    assert_true(ids[i] != ids[i - 1]);
  id_count = 0;
}

// Of pairs with one end in common, and of the collectives.
static void ids_of_pairs_differ_up_to_the_last_rank(void **state) {
  (void)state;
  for (uint32_t r = 0; r < RONDO_MAX_RANKS; r++)
    id_add(LAST, r, 0);
  for (uint32_t r = 0; r < LAST; r++)
    id_add(r, LAST, 0);
  id_add(RONDO_SERIES_COLLECTIVE, RONDO_SERIES_COLLECTIVE, 0);
  ids_check();
}

// A pair at a power of two from another one, which a shift that drops bits takes for the same.
static void ids_of_pairs_keep_every_bit(void **state) {
  (void)state;
  for (uint32_t from = 1; from < RONDO_MAX_RANKS; from *= 2)
    for (uint32_t to = 1; to < RONDO_MAX_RANKS; to *= 2)
      for (uint32_t i = 0; i < 4; i++)
        id_add(from - i % 2, to - i / 2 % 2, 0);
  qsort(ids, id_count, sizeof *ids, id_compare);
  uint32_t different = 1;
  for (uint32_t i = 1; i < id_count; i++)
    different += ids[i] != ids[i - 1];
  id_count = 0;
  // 0, 1, 2, 3, 4, 7, 8, 15, 16 …: 17 powers, and 17 numbers below them, 1 of which is a power
  assert_int_equal(different, 33 * 33);
}

static void ids_of_a_series_differ_also_when_it_is_long(void **state) {
  (void)state;
  for (uint32_t shift = 0; shift < 40; shift++)
    for (uint64_t n = 1; n < 2000; n += 2)
      id_add(1, 2, n << shift);
  ids_check();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("signature", ids_of_pairs_differ_up_to_the_last_rank),
      RONDO_NAMED_TEST("signature", ids_of_pairs_keep_every_bit),
      RONDO_NAMED_TEST("signature", ids_of_a_series_differ_also_when_it_is_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
