// Floating-point arithmetic of the PTX machine: rounding, NaN, signs of zero, modifiers, minimum,
// maximum and comparison, and the bits that the host's kernels give.
#include "tests/unit/test_ptx_reference.h"

#include "daemon/core/convert_core.h"

enum operation { ADD, SUB, MUL, DIV, FMA, OPERATION_COUNT };

// What the processor makes of doubles in the rounding mode that is set.
static double compute_double(enum operation operation, double x, double y, double z) {
  volatile double a = x, b = y, c = z;
  switch (operation) {
  case ADD:
    return a + b;
  case SUB:
    return a - b;
  case MUL:
    return a * b;
  case DIV:
    return a / b;
  default:
    return fma(a, b, c);
  }
}

static float compute_float(enum operation operation, float x, float y, float z) {
  volatile float a = x, b = y, c = z;
  switch (operation) {
  case ADD:
    return a + b;
  case SUB:
    return a - b;
  case MUL:
    return a * b;
  case DIV:
    return a / b;
  default:
    return fmaf(a, b, c);
  }
}

// A product and a sum of 16-bit operands may need more bits than a double has. What is lost leaves
// a trace in the last bit, so that rounding the result further rounds the exact number.
static double fma_to_odd(double x, double y, double z) {
  feclearexcept(FE_ALL_EXCEPT);
  fesetround(FE_TOWARDZERO);
  const volatile double sum = compute_double(FMA, x, y, z);
  const bool inexact = fetestexcept(FE_INEXACT) != 0;
  fesetround(FE_TONEAREST);
  return inexact ? ptx_double_of(ptx_double_bits(sum) | 1) : sum;
}

// Other operations on 16-bit operands are computed in double: its 53 bits are more than twice those
// of the result and two, so that rounding twice changes nothing.
static uint64_t expected_arithmetic(enum operation operation, enum ptx_type type, const uint64_t *v,
                                    enum ptx_round round) {
  const double x = (double)number_of(type, v[0]), y = (double)number_of(type, v[1]),
               z = (double)number_of(type, v[2]);
  fesetround(ENVIRONMENTS[round]);
  volatile double result = type == PTX_F32
                               ? (double)compute_float(operation, (float)x, (float)y, (float)z)
                               : compute_double(operation, x, y, z);
  fesetround(FE_TONEAREST);
  if (operation == FMA && ptx_type_bits(type) == 16 && result != 0)
    result = fma_to_odd(x, y, z);
  return isnan(result) ? type_nan(type) : narrow(type, (long double)result, round);
}

// The function for all types, of three operands.
static uint64_t any_arithmetic(enum operation operation, enum ptx_type type, const uint64_t *v,
                               enum ptx_round round, uint32_t modifiers) {
  switch (operation) {
  case ADD:
    return ptx_float_add(type, v[0], v[1], round, modifiers);
  case SUB:
    return ptx_float_sub(type, v[0], v[1], round, modifiers);
  case MUL:
    return ptx_float_mul(type, v[0], v[1], round, modifiers);
  case DIV:
    return ptx_float_div(type, v[0], v[1], round, modifiers);
  default:
    return ptx_float_fma(type, v[0], v[1], v[2], round, modifiers);
  }
}

static uint64_t inline_f32(enum operation operation, const uint64_t *v, enum ptx_round round,
                           uint32_t modifiers) {
  const uint32_t a = (uint32_t)v[0], b = (uint32_t)v[1], c = (uint32_t)v[2];
  switch (operation) {
  case ADD:
    return ptx_add_f32(a, b, round, modifiers);
  case SUB:
    return ptx_sub_f32(a, b, round, modifiers);
  case MUL:
    return ptx_mul_f32(a, b, round, modifiers);
  case DIV:
    return ptx_div_f32(a, b, round, modifiers);
  default:
    return ptx_fma_f32(a, b, c, round, modifiers);
  }
}

static uint64_t inline_f64(enum operation operation, const uint64_t *v, enum ptx_round round) {
  switch (operation) {
  case ADD:
    return ptx_add_f64(v[0], v[1], round);
  case SUB:
    return ptx_sub_f64(v[0], v[1], round);
  case MUL:
    return ptx_mul_f64(v[0], v[1], round);
  case DIV:
    return ptx_div_f64(v[0], v[1], round);
  default:
    return ptx_fma_f64(v[0], v[1], v[2], round);
  }
}

static void random_operands(enum ptx_type type, uint64_t v[3]) {
  v[0] = random_bits(type, random_next());
  v[1] = random_bits(type, v[0]);
  v[2] = random_bits(type, v[1]);
}

static void check_arithmetic(enum operation operation, enum ptx_type type, enum ptx_round round) {
  static const char *const names[] = {"add", "sub", "mul", "div", "fma"};
  const char *name = names[operation];
  uint64_t v[3];
  random_operands(type, v);
  const uint64_t expected = expected_arithmetic(operation, type, v, round);
  assert_bits(any_arithmetic(operation, type, v, round, 0), expected, name, v[0], v[1], v[2]);
  if (type == PTX_F32)
    assert_bits(inline_f32(operation, v, round, 0), expected, name, v[0], v[1], v[2]);
  if (type == PTX_F64)
    assert_bits(inline_f64(operation, v, round), expected, name, v[0], v[1], v[2]);
}

static void arithmetic_rounds_as_the_processor_does(void **state) {
  (void)state;
  const uint64_t count = rondo_test_load(25000, 1500);
  for (size_t i = 0; i < COUNT_OF(FLOATS); i++)
    for (int operation = 0; operation < OPERATION_COUNT; operation++)
      for (int round = PTX_RN; round <= PTX_RP; round++)
        for (uint64_t k = 0; k < count; k++)
          check_arithmetic((enum operation)operation, FLOATS[i], (enum ptx_round)round);
}

// q * b + 1 = a * 2^53, so that a * 2^53 / b lies above q by less than 2^-52 of q's last place.
static void quotients_next_to_a_number_are_rounded_away_from_it(void **state) {
  (void)state;
  const uint64_t leading = (uint64_t)1 << 52;
  for (uint32_t found = 0; found < 1000;) {
    const uint64_t b = (random_next() & (leading - 1)) | leading | 1;
    uint64_t inverse = b; // of b modulo 2^64: each step doubles the bits that are right
    for (int i = 0; i < 6; i++)
      inverse *= 2 - b * inverse;
    const uint64_t q = (0 - inverse) & (2 * leading - 1);
    if (q < leading)
      continue;
    found++;
    const uint64_t a = (uint64_t)(((ptx_u128)q * b + 1) >> 53);
    for (int round = PTX_RN; round <= PTX_RP; round++)
      assert_bits(ptx_float_div(PTX_F64, ptx_double_bits((double)a), ptx_double_bits((double)b),
                                (enum ptx_round)round, 0),
                  ptx_double_bits(ldexp((double)(q + (round == PTX_RP)), -53)), "div", a, b,
                  (uint64_t)round);
  }
}

static void modifiers_of_f32_hold_in_both_forms(void **state) {
  (void)state;
  const uint64_t count = rondo_test_load(100000, 10000);
  for (uint64_t k = 0; k < count; k++) {
    const enum operation operation = (enum operation)(random_next() % OPERATION_COUNT);
    const uint32_t modifiers = (uint32_t)(random_next() % 4); // FTZ, SAT
    uint64_t v[3];
    random_operands(PTX_F32, v);
    assert_bits(any_arithmetic(operation, PTX_F32, v, PTX_RN, modifiers),
                inline_f32(operation, v, PTX_RN, modifiers), "modified", v[0], v[1], v[2]);
  }
  // A subnormal operand counts as zero, a subnormal result becomes one; signs stay.
  assert_int_equal(ptx_add_f32(0x00000001, 0x00000001, PTX_RN, PTX_FTZ), 0);
  assert_int_equal(ptx_add_f32(0x80000001, 0x80000001, PTX_RN, PTX_FTZ), 0x80000000);
  assert_int_equal(ptx_add_f32(0x00000001, 0x3f800000, PTX_RP, PTX_FTZ), 0x3f800000);
  assert_int_equal(ptx_mul_f32(0x00800000, 0xbf000000, PTX_RN, PTX_FTZ), 0x80000000);
  assert_int_equal(ptx_mul_f32(0x00800000, 0xbf000000, PTX_RN, 0), 0x80400000);
  assert_int_equal(ptx_div_f32(0x3f800000, 0x00000001, PTX_RN, PTX_FTZ), 0x7f800000);
  // Clamped to [0, 1]; NaN becomes 0, and so does every negative number.
  assert_int_equal(ptx_add_f32(0x3f800000, 0x3f800000, PTX_RN, PTX_SAT), 0x3f800000);
  assert_int_equal(ptx_add_f32(0xbf800000, 0, PTX_RN, PTX_SAT), 0);
  assert_int_equal(ptx_add_f32(0x80000000, 0x80000000, PTX_RN, PTX_SAT), 0);
  assert_int_equal(ptx_add_f32(0x7fc00000, 0, PTX_RN, PTX_SAT), 0);
  assert_int_equal(ptx_float_add(PTX_F16, 0x3c00, 0x3c00, PTX_RN, PTX_SAT), 0x3c00);
  assert_int_equal(ptx_float_add(PTX_F16, 0x7e00, 0x3c00, PTX_RN, PTX_SAT), 0);
}

static void signs_and_nans_are_those_of_the_manual(void **state) {
  (void)state;
  const uint32_t infinity = 0x7f800000, minus = 0x80000000, nan = 0x7fffffff;
  for (int round = PTX_RN; round <= PTX_RP; round++) {
    const enum ptx_round r = (enum ptx_round)round;
    assert_int_equal(ptx_add_f32(0x3f800000, 0xbf800000, r, 0), r == PTX_RM ? minus : 0);
    assert_int_equal(ptx_sub_f32(0, 0, r, 0), r == PTX_RM ? minus : 0);
    assert_int_equal(ptx_add_f32(minus, minus, r, 0), minus);
    assert_int_equal(ptx_add_f32(infinity, infinity ^ minus, r, 0), nan);
    assert_int_equal(ptx_mul_f32(infinity, minus, r, 0), nan);
    assert_int_equal(ptx_div_f32(0, minus, r, 0), nan);
    assert_int_equal(ptx_div_f32(infinity, infinity, r, 0), nan);
    assert_int_equal(ptx_div_f32(0x3f800000, minus, r, 0), infinity | minus);
    assert_int_equal(ptx_fma_f32(infinity, 0, 0x7fc00001, r, 0), nan);
    assert_int_equal(ptx_add_f64(0xfff0000000000001, 0, r), 0xfff8000000000000);
  }
  assert_int_equal(ptx_abs_f32(0x80000001, 0), 1);
  assert_int_equal(ptx_abs_f32(0x80000001, PTX_FTZ), 0);
  assert_int_equal(ptx_neg_f32(0x00000001, PTX_FTZ), minus);
  assert_int_equal(ptx_neg_f32(infinity, 0), infinity | minus);
  assert_int_equal(ptx_abs_f64(0x8000000000000001), 1);
  assert_int_equal(ptx_neg_f64(0), 0x8000000000000000);
}

// ---- minimum, maximum, comparison ----

static uint64_t type_extreme(enum ptx_type type, bool maximum, uint64_t a, uint64_t b,
                             uint32_t modifiers) {
  switch (type) {
  case PTX_F16:
    return maximum ? ptx_max_f16((uint16_t)a, (uint16_t)b, modifiers)
                   : ptx_min_f16((uint16_t)a, (uint16_t)b, modifiers);
  case PTX_BF16:
    return maximum ? ptx_max_bf16((uint16_t)a, (uint16_t)b, modifiers)
                   : ptx_min_bf16((uint16_t)a, (uint16_t)b, modifiers);
  case PTX_F32:
    return maximum ? ptx_max_f32((uint32_t)a, (uint32_t)b, modifiers)
                   : ptx_min_f32((uint32_t)a, (uint32_t)b, modifiers);
  default:
    return maximum ? ptx_max_f64(a, b, modifiers) : ptx_min_f64(a, b, modifiers);
  }
}

static void check_extremes(enum ptx_type type, uint64_t a, uint64_t b) {
  const double x = (double)number_of(type, a), y = (double)number_of(type, b);
  for (int maximum = 0; maximum <= 1; maximum++) {
    const double number = maximum ? reference_max(x, y) : reference_min(x, y);
    const uint64_t expected =
        isnan(number) ? type_nan(type) : narrow(type, (long double)number, PTX_RN);
    const uint64_t strict = isnan(x) || isnan(y) ? type_nan(type) : expected;
    assert_bits(type_extreme(type, maximum, a, b, 0), expected, "extreme", a, b, 0);
    assert_bits(type_extreme(type, maximum, a, b, PTX_NAN), strict, "extreme.NaN", a, b, 0);
  }
}

static void minimum_and_maximum_drop_one_nan_and_order_zeros(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(FLOATS); i++) {
    const enum ptx_type type = FLOATS[i];
    const uint64_t minus_zero = (uint64_t)1 << (ptx_type_bits(type) - 1);
    check_extremes(type, 0, minus_zero);
    check_extremes(type, minus_zero, 0);
    for (uint64_t a = 0; a < 65536; a++) // all codes of 16 bits
      check_extremes(type, a, random_bits(type, a));
    for (uint64_t k = 0; k < rondo_test_load(100000, 5000); k++) {
      const uint64_t a = random_bits(type, random_next());
      check_extremes(type, a, random_bits(type, a));
    }
  }
  assert_int_equal(ptx_max_f32(0x80000001, 0x80000000, PTX_FTZ), 0x80000000);
  assert_int_equal(ptx_min_f32(0x00000001, 0x00000002, PTX_FTZ), 0);
}

static bool expected_comparison(enum ptx_compare how, double a, double b) {
  const bool is_nan = isnan(a) || isnan(b);
  const bool holds[] = {[PTX_EQ] = !is_nan && a == b, [PTX_NE] = !is_nan && !(a == b),
                        [PTX_LT] = !is_nan && a < b,  [PTX_LE] = !is_nan && !(a > b),
                        [PTX_GT] = !is_nan && b < a,  [PTX_GE] = !is_nan && !(a < b),
                        [PTX_EQU] = is_nan || a == b, [PTX_NEU] = is_nan || !(a == b),
                        [PTX_LTU] = is_nan || a < b,  [PTX_LEU] = is_nan || !(a > b),
                        [PTX_GTU] = is_nan || b < a,  [PTX_GEU] = is_nan || !(a < b),
                        [PTX_IS_NUM] = !is_nan,       [PTX_IS_NAN] = is_nan};
  return holds[how];
}

static void comparisons_know_nan(void **state) {
  (void)state;
  static const double numbers[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149, 0x1.8p0};
  for (int how = PTX_EQ; how <= PTX_IS_NAN; how++)
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
      for (size_t k = 0; k < COUNT_OF(numbers); k++) {
        const enum ptx_compare c = (enum ptx_compare)how;
        const double a = numbers[i], b = numbers[k];
        const bool expected = expected_comparison(c, a, b);
        assert_int_equal(ptx_compare_f64(c, ptx_double_bits(a), ptx_double_bits(b)), expected);
        assert_int_equal(ptx_compare_f32(c, ptx_float_bits((float)a), ptx_float_bits((float)b), 0),
                         expected);
      }
  assert_false(ptx_compare_f32(PTX_EQ, 1, 0, 0));
  assert_true(ptx_compare_f32(PTX_EQ, 1, 0, PTX_FTZ));
  assert_true(ptx_compare_f32(PTX_EQ, 1, 0x80000001, PTX_FTZ));
}

// ---- what the host makes of the same elements ----

// What the daemon kernel does with one element, by the instructions that nvcc chose.
static uint64_t kernel_element(int base, enum ptx_type type, uint64_t a, uint64_t b) {
  if (type == PTX_F64) {
    const uint64_t result = base == RONDO_REDUCE_SUM ? ptx_add_f64(a, b, PTX_RN)
                            : base == RONDO_REDUCE_PROD
                                ? ptx_mul_f64(a, b, PTX_RN)
                                : type_extreme(type, base == RONDO_REDUCE_MAX, a, b, 0);
    return ptx_is_nan_f64(result) ? RONDO_FLOAT64_NAN : result;
  }
  const uint32_t x = (uint32_t)ptx_cvt(PTX_F32, type, a, PTX_RN, 0);
  const uint32_t y = (uint32_t)ptx_cvt(PTX_F32, type, b, PTX_RN, 0);
  const uint32_t result = base == RONDO_REDUCE_SUM    ? ptx_add_f32(x, y, PTX_RN, 0)
                          : base == RONDO_REDUCE_PROD ? ptx_mul_f32(x, y, PTX_RN, 0)
                          : base == RONDO_REDUCE_MAX  ? ptx_max_f32(x, y, 0)
                                                      : ptx_min_f32(x, y, 0);
  return ptx_cvt(type, PTX_F32, result, PTX_RN, ptx_type_bits(type) == 8 ? PTX_SATFINITE : 0);
}

static void elements_reduce_to_the_bits_of_the_host(void **state) {
  (void)state;
  static const struct {
    enum ptx_type type;
    uint8_t dtype;
  } types[] = {{PTX_F16, RONDO_FLOAT16},      {PTX_BF16, RONDO_BFLOAT16},
               {PTX_E4M3, RONDO_FLOAT8_E4M3}, {PTX_E5M2, RONDO_FLOAT8_E5M2},
               {PTX_F32, RONDO_FLOAT32},      {PTX_F64, RONDO_FLOAT64}};
  for (size_t i = 0; i < COUNT_OF(types); i++)
    for (int base = RONDO_REDUCE_SUM; base <= RONDO_REDUCE_MIN; base++)
      for (uint64_t a = 0; a < 65536; a++) {
        const struct rondo_reduction r = {.dtype = types[i].dtype, .base = (uint8_t)base};
        const uint64_t local =
            i < 4 ? a & type_mask(types[i].type) : random_bits(types[i].type, random_next());
        const uint64_t incoming = random_bits(types[i].type, local);
        uint64_t expected = 0;
        rondo_move_reduce(&r, &expected, NULL, &local, &incoming, 1, 1);
        assert_bits(kernel_element(base, types[i].type, incoming, local), expected, "reduce", local,
                    incoming, types[i].dtype);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic_rounds_as_the_processor_does),
      cmocka_unit_test(quotients_next_to_a_number_are_rounded_away_from_it),
      cmocka_unit_test(modifiers_of_f32_hold_in_both_forms),
      cmocka_unit_test(signs_and_nans_are_those_of_the_manual),
      cmocka_unit_test(minimum_and_maximum_drop_one_nan_and_order_zeros),
      cmocka_unit_test(comparisons_know_nan),
      cmocka_unit_test(elements_reduce_to_the_bits_of_the_host),
  };
  return cmocka_run_group_tests_name("ptx_float", tests, NULL, NULL);
}
