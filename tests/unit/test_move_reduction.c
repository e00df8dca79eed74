// Lowering of the public reductions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "daemon/core/convert_core.h"
#include "daemon/core/move.h"
#include "rondo/types.h"

static uint64_t factor_of(int dtype, double scalar) {
  const struct rondo_reduction r = rondo_reduction_lower(dtype, RONDO_PREMUL_SUM, scalar, 4);
  assert_int_equal(r.base, RONDO_REDUCE_SUM);
  assert_int_equal(r.scale, 1);
  assert_int_equal(r.divide, 0);
  return r.factor;
}

static void plain_reductions_have_no_factor(void **state) {
  (void)state;
  static const uint8_t bases[] = {RONDO_REDUCE_SUM, RONDO_REDUCE_PROD, RONDO_REDUCE_MAX,
                                  RONDO_REDUCE_MIN};
  static const int redops[] = {RONDO_SUM, RONDO_PROD, RONDO_MAX, RONDO_MIN};
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
    for (size_t i = 0; i < 4; i++) {
      const struct rondo_reduction r = rondo_reduction_lower(dtype, redops[i], 3.0, 8);
      assert_int_equal(r.dtype, dtype);
      assert_int_equal(r.base, bases[i]);
      assert_int_equal(r.scale, 0);
      assert_int_equal(r.divide, 0);
    }
}

static void average_divides_integers_at_the_end(void **state) {
  (void)state;
  for (int dtype = RONDO_INT8; dtype <= RONDO_UINT64; dtype++) {
    const struct rondo_reduction r = rondo_reduction_lower(dtype, RONDO_AVG, 0, 3);
    assert_int_equal(r.base, RONDO_REDUCE_SUM);
    assert_int_equal(r.scale, 0);
    assert_int_equal(r.divide, 1);
    assert_int_equal(r.divisor, 3);
  }
}

static void average_scales_floating_types_first(void **state) {
  (void)state;
  for (int dtype = RONDO_FLOAT16; dtype < RONDO_DTYPE_COUNT; dtype++) {
    const struct rondo_reduction r = rondo_reduction_lower(dtype, RONDO_AVG, 0, 3);
    assert_int_equal(r.base, RONDO_REDUCE_SUM);
    assert_int_equal(r.scale, 1);
    assert_int_equal(r.divide, 0);
    assert_true(r.factor ==
                (dtype == RONDO_FLOAT64 ? rondo_double_bits(1.0 / 3) : rondo_float_bits(1.0f / 3)));
  }
}

static void average_of_one_rank_is_a_copy(void **state) {
  (void)state;
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++) {
    const struct rondo_reduction r = rondo_reduction_lower(dtype, RONDO_AVG, 0, 1);
    assert_int_equal(r.scale, 0);
    assert_int_equal(r.divide, 0);
  }
}

static void integer_scalars_are_truncated_and_clamped(void **state) {
  (void)state;
  assert_true(factor_of(RONDO_INT32, -2.9) == (uint64_t)-2);
  assert_true(factor_of(RONDO_UINT8, 2.9) == 2);
  assert_true(factor_of(RONDO_UINT8, -1) == 0);
  assert_true(factor_of(RONDO_UINT8, 256) == 255);
  assert_true(factor_of(RONDO_INT8, -1e9) == (uint64_t)INT8_MIN);
  assert_true(factor_of(RONDO_INT8, 1e9) == INT8_MAX);
  assert_true(factor_of(RONDO_INT32, INFINITY) == INT32_MAX);
  assert_true(factor_of(RONDO_UINT32, 4294967295.0) == UINT32_MAX);
  assert_true(factor_of(RONDO_INT64, 9223372036854775808.0) == INT64_MAX);
  assert_true(factor_of(RONDO_INT64, -INFINITY) == (uint64_t)INT64_MIN);
  assert_true(factor_of(RONDO_INT64, 9007199254740993.0) == 9007199254740992);
  assert_true(factor_of(RONDO_UINT64, 18446744073709551616.0) == UINT64_MAX);
  assert_true(factor_of(RONDO_UINT64, 9223372036854775808.0) == (uint64_t)1 << 63);
  assert_true(factor_of(RONDO_UINT64, NAN) == 0);
}

static void floating_scalars_are_rounded_once_to_the_dtype(void **state) {
  (void)state;
  const double above = 1 + ldexp(1, -11) + ldexp(1, -40); // twice rounded, this would be 1
  assert_true(factor_of(RONDO_FLOAT16, above) == rondo_float_bits(1 + ldexpf(1, -10)));
  assert_true(factor_of(RONDO_FLOAT16, 1e9) == rondo_float_bits(INFINITY));
  assert_true(factor_of(RONDO_BFLOAT16, 0.1) == rondo_float_bits(0.10009765625f));
  assert_true(factor_of(RONDO_FLOAT8_E4M3, 0.3) == rondo_float_bits(0.3125f));
  assert_true(factor_of(RONDO_FLOAT8_E4M3, -1e9) == rondo_float_bits(-448.0f));
  assert_true(factor_of(RONDO_FLOAT8_E5M2, 0.3) == rondo_float_bits(0.3125f));
  assert_true(factor_of(RONDO_FLOAT32, 0.1) == rondo_float_bits(0.1f));
  assert_true(factor_of(RONDO_FLOAT64, 0.1) == rondo_double_bits(0.1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain_reductions_have_no_factor),
      cmocka_unit_test(average_divides_integers_at_the_end),
      cmocka_unit_test(average_scales_floating_types_first),
      cmocka_unit_test(average_of_one_rank_is_a_copy),
      cmocka_unit_test(integer_scalars_are_truncated_and_clamped),
      cmocka_unit_test(floating_scalars_are_rounded_once_to_the_dtype),
  };
  return cmocka_run_group_tests_name("move_reduction", tests, NULL, NULL);
}
