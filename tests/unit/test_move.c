// The kernels of the host, each instruction set against a slow reference: all types,
// reductions, factors and divisions, in place and not, at any alignment and count.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/host/move_host.h"
#include "tests/support/load.h"
#include "tests/unit/test_move_reference.h"

#define ELEMENTS 6000u
#define GUARD_BYTES 64u
#define BUFFER_BYTES (ELEMENTS * 8u + 64u + 2u * GUARD_BYTES)
#define GUARD_VALUE 0xa5

enum place { APART, OVER_LOCAL, OVER_INCOMING, PLACE_COUNT };

static unsigned char local_values[ELEMENTS * 8];
static unsigned char incoming_values[ELEMENTS * 8];
static unsigned char expected_values[ELEMENTS * 8];
static unsigned char local_buffer[BUFFER_BYTES];
static unsigned char incoming_buffer[BUFFER_BYTES];
static _Alignas(64) unsigned char dst_buffer[BUFFER_BYTES];
static _Alignas(64) unsigned char second_buffer[BUFFER_BYTES];
static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 2685821657736338717u;
}

static uint64_t load(const unsigned char *values, int dtype, uint64_t i) {
  uint64_t bits = 0;
  memcpy(&bits, values + i * dtype_bytes(dtype), dtype_bytes(dtype));
  return bits;
}

static void store(unsigned char *values, int dtype, uint64_t i, uint64_t bits) {
  memcpy(values + i * dtype_bytes(dtype), &bits, dtype_bytes(dtype));
}

// A quarter are values where types have their edges; the others any bits, or for
// floating types bits of similar exponents, so that sums round.
static uint64_t random_element(int dtype) {
  static const uint64_t edges[] = {0,
                                   1,
                                   UINT64_MAX,
                                   (uint64_t)1 << 63,
                                   INT64_MAX,
                                   0x80,
                                   0x7f,
                                   0x80000000,
                                   0x7fffffff,
                                   0x8000,
                                   0x7c00,
                                   0xfc00,
                                   0x7bff,
                                   0x7f80,
                                   0xff80,
                                   0x7f7f,
                                   0x7e,
                                   0xfe,
                                   0x7c,
                                   0xfc,
                                   0x7f800000,
                                   0xff800000,
                                   0x7f7fffff,
                                   0x7f800001,
                                   0x7fc00000,
                                   0x00800000,
                                   0x007fffff,
                                   0x7ff0000000000000,
                                   0xfff0000000000000,
                                   0x7fefffffffffffff,
                                   0x7ff0000000000001,
                                   0x0010000000000000,
                                   0x000fffffffffffff};
  const uint64_t random = random_next();
  if (random % 4 == 0)
    return edges[(random >> 8) % (sizeof edges / sizeof edges[0])];
  if (random % 4 == 1 && dtype == RONDO_FLOAT32)
    return 0x3f800000 + ((random >> 8) & 0x81ffffff);
  if (random % 4 == 1 && dtype == RONDO_FLOAT64)
    return 0x3ff0000000000000 + ((random >> 8) & 0x803fffffffffffff);
  return random >> 8 ^ random << 32;
}

static void fill_values(int dtype) {
  for (uint64_t i = 0; i < ELEMENTS; i++) {
    store(local_values, dtype, i, random_element(dtype));
    store(incoming_values, dtype, i, random_element(dtype));
  }
}

// A case: what is computed, on which part of the values, and where.
struct trial {
  struct rondo_reduction r;
  int final;
  int level;
  int place;
  uint32_t first; // element of the values
  uint32_t count;
  int has_second;    // a second destination
  uint32_t shift[4]; // bytes that dst, local, incoming and the second one are off alignment
};

static unsigned char *placed(unsigned char *buffer, uint32_t shift, const unsigned char *values,
                             uint64_t bytes) {
  memset(buffer, GUARD_VALUE, bytes + 64 + 2 * GUARD_BYTES);
  if (values)
    memcpy(buffer + GUARD_BYTES + shift, values, bytes);
  return buffer + GUARD_BYTES + shift;
}

static void assert_untouched_around(const unsigned char *at, uint64_t bytes) {
  for (uint32_t i = 0; i < GUARD_BYTES; i++)
    if (at[-1 - (int)i] != GUARD_VALUE || at[bytes + i] != GUARD_VALUE)
      fail_msg("byte written outside the destination of %u", (unsigned)bytes);
}

static void assert_expected(const struct trial *t, const unsigned char *got) {
  const int dtype = t->r.dtype;
  for (uint32_t i = 0; i < t->count; i++) {
    const uint64_t expected = load(expected_values, dtype, t->first + i);
    const uint64_t result = load(got, dtype, i);
    if (result != expected)
      fail_msg("%s dtype %d base %d scale %d divide %d place %d, element %u of %u: local %llx "
               "incoming %llx gave %llx, expected %llx",
               rondo_move_level_name(t->level), dtype, t->r.base, t->r.scale,
               t->final && t->r.divide, t->place, i, t->count,
               (unsigned long long)load(local_values, dtype, t->first + i),
               (unsigned long long)load(incoming_values, dtype, t->first + i),
               (unsigned long long)result, (unsigned long long)expected);
  }
}

// Runs a reduction (`unary` 0) or a scaling and checks every byte that it may have touched.
static void run_trial(const struct trial *t, int unary) {
  const uint32_t element = dtype_bytes(t->r.dtype);
  const uint64_t bytes = (uint64_t)t->count * element;
  const unsigned char *local_from = local_values + t->first * element;
  const unsigned char *incoming_from = incoming_values + t->first * element;
  unsigned char *local = placed(local_buffer, t->shift[1], local_from, bytes);
  unsigned char *incoming = placed(incoming_buffer, t->shift[2], incoming_from, bytes);
  unsigned char *dst = placed(dst_buffer, t->shift[0], NULL, bytes);
  if (t->place != APART)
    dst = t->place == OVER_LOCAL ? local : incoming;
  unsigned char *second = placed(second_buffer, t->shift[3], NULL, bytes);
  if (!t->has_second)
    second = NULL;
  rondo_move_level_select(t->level);
  if (unary)
    rondo_move_scale(&t->r, dst, second, local, t->count, t->final);
  else
    rondo_move_reduce(&t->r, dst, second, local, incoming, t->count, t->final);
  if (memcmp(dst, expected_values + t->first * element, bytes) != 0)
    assert_expected(t, dst);
  assert_untouched_around(dst, bytes);
  if (second) {
    assert_memory_equal(second, dst, bytes);
    assert_untouched_around(second, bytes);
  }
  if (dst != local)
    assert_memory_equal(local, local_from, bytes);
  if (dst != incoming)
    assert_memory_equal(incoming, incoming_from, bytes);
}

static void compute_expected(const struct rondo_reduction *r, int final, int unary) {
  for (uint64_t i = 0; i < ELEMENTS; i++) {
    const uint64_t local = load(local_values, r->dtype, i);
    uint64_t result = reference_reduced(r, local, load(incoming_values, r->dtype, i), final);
    if (unary) {
      result = reference_scaled(r, local);
      if (final && r->divide)
        result = reference_divided(r, result);
    }
    store(expected_values, r->dtype, i, result);
  }
}

// Every level, place and count for one reduction whose expected values are computed.
static void sweep(const struct rondo_reduction *r, int final, int unary) {
  static const uint32_t counts[] = {0,  1,  2,  3,  5,  7,  8,   9,   15,  16,   17,   31,  32,
                                    33, 47, 63, 64, 65, 95, 127, 128, 129, 1023, 1025, 4097};
  static const uint32_t shifts[][4] = {{0, 0, 0, 0},   {1, 0, 0, 7},   {0, 3, 0, 0},
                                       {0, 0, 7, 5},   {4, 8, 4, 20},  {5, 9, 2, 21},
                                       {63, 61, 1, 2}, {8, 24, 8, 56}, {16, 12, 36, 1}};
  const size_t step = rondo_test_load(1, 5);
  struct trial t = {.r = *r, .final = final};
  for (t.level = 0; t.level < RONDO_MOVE_LEVEL_COUNT; t.level++) {
    if (!rondo_move_level_is_supported(t.level))
      continue;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i += step) {
      for (t.place = 0; t.place < (unary ? OVER_INCOMING : PLACE_COUNT); t.place++) {
        t.count = counts[i];
        t.first = (uint32_t)(random_next() % (ELEMENTS - t.count + 1));
        t.has_second = (int)(random_next() % 2);
        memcpy(t.shift, shifts[random_next() % 9], sizeof t.shift);
        run_trial(&t, unary);
      }
    }
  }
}

static uint64_t random_factor(int dtype) {
  static const uint64_t floats[] = {0x3eaaaaab, 0x3f000000, 0xc0490fdb, 0x7f800000, 0x00000001};
  static const uint64_t doubles[] = {0x3fd5555555555555, 0x3fe0000000000000, 0xc00921fb54442d18,
                                     0x7ff0000000000000, 0x0000000000000001};
  if (dtype <= RONDO_UINT64)
    return random_next() % 3 ? random_next() % 200 - 100 : random_next();
  return (dtype == RONDO_FLOAT64 ? doubles : floats)[random_next() % 5];
}

static uint32_t random_divisor(void) {
  static const uint32_t divisors[] = {1, 2, 3, 7, 8, 129, 4096, 65537, 0x80000000, 0xffffffff};
  return divisors[random_next() % 10];
}

// All combinations of `scale` and `divide` for each dtype and base, several times with other
// values, factors and divisors. `final` 0 with `divide` must not divide.
static void sweep_all(int unary) {
  const uint64_t rounds = rondo_test_load(4, 1);
  for (uint64_t round = 0; round < rounds; round++)
    for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
      for (int variant = 0; variant < (unary ? 8 : 32); variant++) {
        struct rondo_reduction r = {.dtype = (uint8_t)dtype, .base = (uint8_t)(variant >> 3)};
        const int final = variant & 1;
        r.scale = variant >> 1 & 1;
        r.divide = variant >> 2 & 1 && dtype <= RONDO_UINT64;
        r.divisor = random_divisor();
        r.factor = random_factor(dtype);
        fill_values(dtype);
        compute_expected(&r, final, unary);
        sweep(&r, final, unary);
      }
}

// Runs before any other test has selected a level.
static void the_first_call_chooses_a_level(void **state) {
  (void)state;
  const struct rondo_reduction r = {.dtype = RONDO_INT32};
  const int32_t local[3] = {1, -2, INT32_MAX};
  const int32_t incoming[3] = {10, 20, 1};
  int32_t dst[3];
  rondo_move_reduce(&r, dst, NULL, local, incoming, 3, 1);
  assert_int_equal(dst[0], 11);
  assert_int_equal(dst[1], 18);
  assert_int_equal(dst[2], INT32_MIN);
  assert_true(rondo_move_level_is_supported(RONDO_MOVE_BASE));
  assert_false(rondo_move_level_is_supported(RONDO_MOVE_LEVEL_COUNT));
}

static void reduces_every_type_at_every_level(void **state) {
  (void)state;
  sweep_all(0);
}

static void scales_every_type_at_every_level(void **state) {
  (void)state;
  sweep_all(1);
}

// All 65,536 pairs of 8-bit elements, and each 16-bit code against random others.
static void reduces_every_code_of_the_small_types(void **state) {
  (void)state;
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++) {
    if (dtype_bytes(dtype) > 2)
      continue;
    for (uint32_t from = 0; from < 65536; from += 4096) {
      struct rondo_reduction r = {.dtype = (uint8_t)dtype};
      for (uint32_t i = 0; i < ELEMENTS; i++) {
        const uint32_t pair = from + i;
        store(local_values, dtype, i, pair);
        store(incoming_values, dtype, i, dtype_bytes(dtype) == 1 ? pair >> 8 : random_next());
      }
      for (r.base = 0; r.base < 4; r.base++) {
        compute_expected(&r, 0, 0);
        struct trial t = {.r = r, .count = 4096};
        for (t.level = 0; t.level < RONDO_MOVE_LEVEL_COUNT; t.level++)
          if (rondo_move_level_is_supported(t.level))
            run_trial(&t, 0);
      }
    }
  }
}

static void copies_any_bytes_and_nothing_else(void **state) {
  (void)state;
  fill_values(RONDO_FLOAT64);
  for (uint32_t round = 0; round < RONDO_MOVE_LEVEL_COUNT * 600; round++) {
    const uint32_t bytes = round % 600 < 300 ? round % 300 : round * 61 % 20000;
    const unsigned char *src = local_values + round % 37;
    if (!rondo_move_level_is_supported((int)(round / 600)))
      continue;
    rondo_move_level_select((int)(round / 600));
    unsigned char *dst = placed(dst_buffer, bytes % 7, NULL, bytes);
    unsigned char *second = placed(second_buffer, round % 5 * 7, NULL, bytes);
    rondo_move_copy(dst, round % 2 ? second : NULL, src, bytes);
    assert_memory_equal(dst, src, bytes);
    assert_untouched_around(dst, bytes);
    rondo_move_copy(dst, second, dst, bytes);
    assert_memory_equal(dst, src, bytes);
    assert_memory_equal(second, src, bytes);
    assert_untouched_around(second, bytes);
    dst = placed(dst_buffer, bytes % 63, NULL, bytes);
    rondo_move_copy_cold(dst, src, bytes);
    assert_memory_equal(dst, src, bytes);
    assert_untouched_around(dst, bytes);
  }
}

static void empty_buffers_may_be_null(void **state) {
  (void)state;
  const struct rondo_reduction r = {.dtype = RONDO_INT8, .divide = 1, .divisor = 2};
  rondo_move_copy(NULL, NULL, local_values, 0);
  rondo_move_copy_cold(NULL, local_values, 0);
  rondo_move_reduce(&r, NULL, NULL, NULL, NULL, 0, 1);
  rondo_move_scale(&r, NULL, NULL, NULL, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_call_chooses_a_level),
      cmocka_unit_test(reduces_every_type_at_every_level),
      cmocka_unit_test(scales_every_type_at_every_level),
      cmocka_unit_test(reduces_every_code_of_the_small_types),
      cmocka_unit_test(copies_any_bytes_and_nothing_else),
      cmocka_unit_test(empty_buffers_may_be_null),
  };
  return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
