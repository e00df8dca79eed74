// Conversions between float and the small floating types: every code, every midpoint
// between two codes and its two neighbours, and what lies outside.
#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "daemon/core/convert_core.h"
#include "tests/unit/test_move_reference.h"

struct conversion {
  const struct format *format;
  float (*widen)(uint32_t code);
  uint32_t (*narrow)(float value);
};

static float widen_f16(uint32_t code) { return rondo_float_of_float16((uint16_t)code); }
static float widen_bf16(uint32_t code) { return rondo_float_of_bfloat16((uint16_t)code); }
static float widen_e4m3(uint32_t code) { return rondo_float_of_float8_e4m3((uint8_t)code); }
static float widen_e5m2(uint32_t code) { return rondo_float_of_float8_e5m2((uint8_t)code); }
static uint32_t narrow_f16(float value) { return rondo_float16_of_float(value); }
static uint32_t narrow_bf16(float value) { return rondo_bfloat16_of_float(value); }
static uint32_t narrow_e4m3(float value) { return rondo_float8_e4m3_of_float(value); }
static uint32_t narrow_e5m2(float value) { return rondo_float8_e5m2_of_float(value); }

static const struct conversion CONVERSIONS[] = {{&FLOAT16, widen_f16, narrow_f16},
                                                {&BFLOAT16, widen_bf16, narrow_bf16},
                                                {&E4M3, widen_e4m3, narrow_e4m3},
                                                {&E5M2, widen_e5m2, narrow_e5m2}};
#define CONVERSION_COUNT (sizeof CONVERSIONS / sizeof CONVERSIONS[0])

static void assert_narrows_right(const struct conversion *c, float value) {
  const uint32_t expected = code_of_number(c->format, value);
  const uint32_t got = c->narrow(value);
  if (got != expected)
    fail_msg("%a (mantissa of %d bits): code %x, expected %x", value, c->format->mantissa, got,
             expected);
}

static void every_code_widens_to_its_number(void **state) {
  (void)state;
  for (size_t i = 0; i < CONVERSION_COUNT; i++) {
    const struct conversion *c = &CONVERSIONS[i];
    for (uint32_t code = 0; code < 2 * c->format->sign; code++) {
      const double expected = number_of_code(c->format, code);
      const float got = c->widen(code);
      if (isnan(expected) ? !isnan(got) : got != expected || !signbit(got) != !signbit(expected))
        fail_msg("code %x: %a, expected %a", code, got, expected);
    }
  }
}

static void every_code_comes_back(void **state) {
  (void)state;
  for (size_t i = 0; i < CONVERSION_COUNT; i++) {
    const struct conversion *c = &CONVERSIONS[i];
    for (uint32_t code = 0; code < 2 * c->format->sign; code++) {
      const double number = number_of_code(c->format, code);
      uint32_t expected = isnan(number) ? c->format->nan : code;
      if (isinf(number))
        expected = (code & c->format->sign) | c->format->overflow;
      assert_int_equal(c->narrow(c->widen(code)), expected);
    }
  }
}

static void midpoints_round_to_even_and_their_neighbours_to_nearest(void **state) {
  (void)state;
  for (size_t i = 0; i < CONVERSION_COUNT; i++) {
    const struct conversion *c = &CONVERSIONS[i];
    for (uint32_t code = 0; code <= c->format->max_finite; code++) {
      const double low = number_of_fields(c->format, code);
      const double high = number_of_fields(c->format, code + 1);
      const float middle = (float)(low + (high - low) / 2);
      for (int sign = -1; sign <= 1; sign += 2) {
        assert_narrows_right(c, (float)sign * middle);
        assert_narrows_right(c, (float)sign * nextafterf(middle, INFINITY));
        assert_narrows_right(c, (float)sign * nextafterf(middle, 0));
        assert_narrows_right(c, (float)sign * nextafterf((float)low, INFINITY));
        assert_narrows_right(c, (float)sign * nextafterf((float)low, 0));
      }
    }
  }
}

static void floats_of_every_exponent_narrow_right(void **state) {
  (void)state;
  uint32_t random = 12345;
  for (uint32_t top = 0; top < 0x10000; top++) {
    random = random * 1664525 + 1013904223;
    for (size_t i = 0; i < CONVERSION_COUNT; i++)
      assert_narrows_right(&CONVERSIONS[i], rondo_float_of_bits(top << 16 | random >> 16));
  }
}

static void float8_saturates_and_float16_overflows(void **state) {
  (void)state;
  assert_int_equal(rondo_float8_e4m3_of_float(464.0f), 0x7e);
  assert_int_equal(rondo_float8_e4m3_of_float(1e30f), 0x7e);
  assert_int_equal(rondo_float8_e4m3_of_float(-INFINITY), 0xfe);
  assert_int_equal(rondo_float8_e5m2_of_float(61440.0f), 0x7b);
  assert_int_equal(rondo_float8_e5m2_of_float(INFINITY), 0x7b);
  assert_int_equal(rondo_float16_of_float(65519.0f), 0x7bff);
  assert_int_equal(rondo_float16_of_float(65520.0f), 0x7c00);
  assert_int_equal(rondo_bfloat16_of_float(-FLT_MAX), 0xff80);
}

static void a_nan_result_has_one_encoding(void **state) {
  (void)state;
  static const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffc12345};
  for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
    const float nan = rondo_float_of_bits(nans[i]);
    assert_int_equal(rondo_float16_of_float(nan), 0x7fff);
    assert_int_equal(rondo_bfloat16_of_float(nan), 0x7fff);
    assert_int_equal(rondo_float8_e4m3_of_float(nan), 0x7f);
    assert_int_equal(rondo_float8_e5m2_of_float(nan), 0x7f);
    assert_int_equal(rondo_float_bits(rondo_float_settle(nan)), 0x7fffffff);
  }
  assert_true(rondo_double_bits(rondo_double_settle(-NAN)) == 0x7ff8000000000000u);
}

static void rounding_to_odd_then_narrowing_rounds_a_double_once(void **state) {
  (void)state;
  const double unit = ldexp(1, -10);
  // Just above the midpoint of 1 and the next float16, by less than a float can say.
  const double above = 1 + unit / 2 + ldexp(1, -40);
  const double below = 1 + unit * 3 / 2 - ldexp(1, -40);
  assert_int_equal(rondo_float16_of_float((float)above), 0x3c00);
  assert_int_equal(rondo_float16_of_float(rondo_float_of_double_odd(above)), 0x3c01);
  assert_int_equal(rondo_float16_of_float(rondo_float_of_double_odd(-above)), 0xbc01);
  assert_int_equal(rondo_float16_of_float((float)below), 0x3c02);
  assert_int_equal(rondo_float16_of_float(rondo_float_of_double_odd(below)), 0x3c01);
  assert_int_equal(rondo_float16_of_float(rondo_float_of_double_odd(1e300)), 0x7c00);
  assert_int_equal(rondo_float16_of_float(rondo_float_of_double_odd(-1e-300)), 0x8000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_widens_to_its_number),
      cmocka_unit_test(every_code_comes_back),
      cmocka_unit_test(midpoints_round_to_even_and_their_neighbours_to_nearest),
      cmocka_unit_test(floats_of_every_exponent_narrow_right),
      cmocka_unit_test(float8_saturates_and_float16_overflows),
      cmocka_unit_test(a_nan_result_has_one_encoding),
      cmocka_unit_test(rounding_to_odd_then_narrowing_rounds_a_double_once),
  };
  return cmocka_run_group_tests_name("move_convert", tests, NULL, NULL);
}
