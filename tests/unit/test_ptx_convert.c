// cvt of the PTX machine between all types: every code of 8 and 16 bits, every number half way
// between two codes, and random others, in each rounding mode.
#include "tests/unit/test_ptx_reference.h"

#include "daemon/core/convert_core.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const enum ptx_type SMALL[] = {PTX_F16, PTX_BF16, PTX_E4M3, PTX_E5M2};
static const enum ptx_type INTEGERS[] = {PTX_U8, PTX_U16, PTX_U32, PTX_U64,
                                         PTX_S8, PTX_S16, PTX_S32, PTX_S64};

static void every_small_code_widens_to_its_number(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
    const struct format *f = format_of_type(SMALL[i]);
    for (uint32_t code = 0; code < 2 * f->sign; code++) {
      const long double number = (long double)number_of_code(f, code);
      const uint64_t as_float = narrow(PTX_F32, number, PTX_RN);
      assert_bits(ptx_cvt(PTX_F32, SMALL[i], code, PTX_RN, 0), as_float, "to f32", code, 0, 0);
      assert_bits(ptx_cvt(PTX_F64, SMALL[i], code, PTX_RN, 0), narrow(PTX_F64, number, PTX_RN),
                  "to f64", code, 0, 0);
      if (SMALL[i] == PTX_F16)
        assert_bits(ptx_cvt_f32_f16((uint16_t)code), as_float, "f16 inline", code, 0, 0);
      if (SMALL[i] == PTX_BF16)
        assert_bits(ptx_cvt_f32_bf16((uint16_t)code), as_float, "bf16 inline", code, 0, 0);
    }
  }
}

// Every code of 16 bits, and every number half way between two codes, with its neighbours.
static void check_narrowing(enum ptx_type to, uint32_t bits) {
  const long double number = number_of(PTX_F32, bits);
  const struct format *f = format_of_type(to);
  const bool is_eight = ptx_type_bits(to) == 8;
  for (int round = PTX_RN; round <= (is_eight ? PTX_RN : PTX_RP); round++) {
    const enum ptx_round r = (enum ptx_round)round;
    const uint64_t expected = narrow_by_search(f, number, r);
    assert_bits(ptx_cvt(to, PTX_F32, bits, r, is_eight ? PTX_SATFINITE : 0), expected, "narrow",
                bits, (uint64_t)to, (uint64_t)r);
    if (to == PTX_F16 && r == PTX_RN)
      assert_bits(ptx_cvt_rn_f16_f32(bits), expected, "f16 inline", bits, 0, 0);
    if (to == PTX_BF16 && r == PTX_RN)
      assert_bits(ptx_cvt_rn_bf16_f32(bits), expected, "bf16 inline", bits, 0, 0);
  }
  const uint64_t own = to == PTX_F16    ? rondo_float16_of_float(ptx_float_of(bits))
                       : to == PTX_BF16 ? rondo_bfloat16_of_float(ptx_float_of(bits))
                       : to == PTX_E4M3 ? rondo_float8_e4m3_of_float(ptx_float_of(bits))
                                        : rondo_float8_e5m2_of_float(ptx_float_of(bits));
  assert_bits(ptx_cvt(to, PTX_F32, bits, PTX_RN, is_eight ? PTX_SATFINITE : 0), own, "as Rondo",
              bits, (uint64_t)to, 0);
}

static void narrowing_rounds_right_in_every_mode(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(SMALL); i++) {
    const struct format *f = format_of_type(SMALL[i]);
    for (uint32_t code = 0; code <= f->max_finite; code++) {
      const float low = (float)number_of_fields(f, code);
      const float high = (float)number_of_fields(f, code + 1);
      const uint32_t middle = ptx_float_bits(low + (high - low) / 2);
      for (uint32_t sign = 0; sign <= 1; sign++)
        for (uint32_t near = 0; near <= 2; near++)
          check_narrowing(SMALL[i], (middle + near - 1) | sign << 31);
      check_narrowing(SMALL[i], ptx_float_bits(low));
    }
    for (uint64_t k = 0; k < rondo_test_load(250000, 5000); k++)
      check_narrowing(SMALL[i], (uint32_t)random_bits(PTX_F32, random_next()));
  }
}

static void small_formats_convert_to_one_another(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(SMALL); i++)
    for (size_t k = 0; k < COUNT_OF(SMALL); k++)
      for (uint64_t code = 0; code <= type_mask(SMALL[i]); code++) {
        const bool is_eight = ptx_type_bits(SMALL[k]) == 8;
        const enum ptx_round round = is_eight ? PTX_RN : (enum ptx_round)(code % 4);
        const uint64_t expected =
            narrow_by_search(format_of_type(SMALL[k]), number_of(SMALL[i], code), round);
        assert_bits(ptx_cvt(SMALL[k], SMALL[i], code, round, is_eight ? PTX_SATFINITE : 0),
                    expected, "small", code, (uint64_t)SMALL[i], (uint64_t)SMALL[k]);
      }
}

static void narrowing_of_f64_rounds_once(void **state) {
  (void)state;
  static const enum ptx_type types[] = {PTX_F16, PTX_BF16, PTX_F32};
  for (uint64_t k = 0; k < rondo_test_load(1000000, 20000); k++) {
    // Half of them are floats with one bit far below.
    uint64_t bits = random_bits(PTX_F64, random_next());
    if (k & 1)
      bits = ptx_double_bits((double)ptx_float_of((uint32_t)random_next())) | (random_next() & 1);
    const enum ptx_type to = types[random_next() % COUNT_OF(types)];
    const enum ptx_round round = (enum ptx_round)(random_next() % 4);
    const uint64_t expected = narrow(to, number_of(PTX_F64, bits), round);
    assert_bits(ptx_cvt(to, PTX_F64, bits, round, 0), expected, "narrow f64", bits, (uint64_t)to,
                (uint64_t)round);
    if (to == PTX_F32 && round == PTX_RN)
      assert_bits(ptx_cvt_rn_f32_f64(bits), expected, "f64 inline", bits, 0, 0);
    const uint32_t single = (uint32_t)random_bits(PTX_F32, bits);
    assert_bits(ptx_cvt_f64_f32(single), narrow(PTX_F64, number_of(PTX_F32, single), PTX_RN),
                "widen f32", single, 0, 0);
    assert_bits(ptx_cvt(PTX_F64, PTX_F32, single, PTX_RN, 0), ptx_cvt_f64_f32(single), "widen f32",
                single, 0, 0);
  }
}

static void conversion_modifiers_hold(void **state) {
  (void)state;
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F64, ptx_double_bits(0x1p-130), PTX_RN, PTX_FTZ), 0);
  assert_int_equal(ptx_cvt(PTX_F64, PTX_F32, 1, PTX_RN, PTX_FTZ), 0);
  assert_int_equal(ptx_cvt(PTX_F16, PTX_F32, 0x7f800000, PTX_RN, PTX_SATFINITE), 0x7bff);
  assert_int_equal(ptx_cvt(PTX_BF16, PTX_F32, 0xff7fffff, PTX_RN, PTX_SATFINITE), 0xff7f);
  assert_int_equal(ptx_cvt(PTX_E4M3, PTX_F32, 0xff800000, PTX_RN, PTX_SATFINITE), 0xfe);
  assert_int_equal(ptx_cvt(PTX_E5M2, PTX_F32, 0x7f800000, PTX_RN, PTX_SATFINITE), 0x7b);
  assert_int_equal(ptx_cvt(PTX_E4M3, PTX_F32, 0xffffffff, PTX_RN, PTX_SATFINITE), 0x7f);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0x40000000, PTX_RN, PTX_SAT), 0x3f800000);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0x7fc00000, PTX_RN, PTX_SAT), 0);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_S32, (uint64_t)-1, PTX_RN, PTX_SAT), 0);
  // To an integer that stays a float: 2.5, -0.5, 0.5.
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0x40200000, PTX_RNI, 0), 0x40000000);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0x40200000, PTX_RPI, 0), 0x40400000);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0xbf000000, PTX_RZI, 0), 0x80000000);
  assert_int_equal(ptx_cvt(PTX_F32, PTX_F32, 0xbf000000, PTX_RMI, 0), 0xbf800000);
  assert_int_equal(ptx_cvt(PTX_F64, PTX_F64, ptx_double_bits(0.5), PTX_RNI, 0), 0);
}

static uint64_t expected_integer(enum ptx_type to, enum ptx_type from, long double number,
                                 enum ptx_round round) {
  const uint32_t bits = ptx_type_bits(to);
  const bool is_signed = ptx_type_is_signed(to);
  if (isnan(number))
    return from == PTX_F64 || bits == 64 ? ptx_extend(to, (uint64_t)1 << (bits - 1)) : 0;
  const long double whole = round == PTX_RNI   ? rintl(number)
                            : round == PTX_RZI ? truncl(number)
                            : round == PTX_RMI ? floorl(number)
                                               : ceill(number);
  const long double greatest = ldexpl(1, (int)bits - is_signed) - 1;
  const long double least = is_signed ? -greatest - 1 : 0;
  if (whole >= greatest)
    return is_signed ? type_mask(PTX_F64) >> (65 - bits) : type_mask(PTX_F64) >> (64 - bits);
  if (whole <= least)
    return is_signed ? (uint64_t)(int64_t)least : 0;
  return is_signed ? (uint64_t)(int64_t)whole : (uint64_t)whole;
}

static void check_inline_integer(enum ptx_type to, enum ptx_type from, uint64_t bits,
                                 uint64_t expected) {
  const uint32_t single = (uint32_t)bits;
  if (from != PTX_F32 && from != PTX_F64)
    return;
  const bool is_double = from == PTX_F64;
  if (to == PTX_S32)
    assert_bits(is_double ? ptx_cvt_rzi_s32_f64(bits) : ptx_cvt_rzi_s32_f32(single),
                (uint32_t)expected, "s32", bits, 0, 0);
  if (to == PTX_U32)
    assert_bits(is_double ? ptx_cvt_rzi_u32_f64(bits) : ptx_cvt_rzi_u32_f32(single),
                (uint32_t)expected, "u32", bits, 0, 0);
  if (to == PTX_S64)
    assert_bits(is_double ? ptx_cvt_rzi_s64_f64(bits) : ptx_cvt_rzi_s64_f32(single), expected,
                "s64", bits, 0, 0);
  if (to == PTX_U64)
    assert_bits(is_double ? ptx_cvt_rzi_u64_f64(bits) : ptx_cvt_rzi_u64_f32(single), expected,
                "u64", bits, 0, 0);
}

static void check_to_integers(enum ptx_type from, uint64_t bits) {
  const long double number = number_of(from, bits);
  const enum ptx_round round = (enum ptx_round)(PTX_RNI + random_next() % 4);
  for (size_t i = 0; i < COUNT_OF(INTEGERS); i++) {
    const enum ptx_type to = INTEGERS[i];
    assert_bits(ptx_cvt(to, from, bits, round, 0), expected_integer(to, from, number, round),
                "to integer", bits, (uint64_t)to, (uint64_t)round);
    check_inline_integer(to, from, bits, expected_integer(to, from, number, PTX_RZI));
  }
}

static void floats_become_integers_clamped(void **state) {
  (void)state;
  static const double edges[] = {0.5,    1.5,     127,          128,          255,
                                 256,    32767.5, 65535.5,      0x1p31,       0x1p32,
                                 0x1p63, 0x1p64,  2147483647.5, 2147483648.5, 4294967295.5};
  for (size_t i = 0; i < COUNT_OF(edges); i++)
    for (int sign = 0; sign <= 1; sign++)
      for (uint64_t near = 0; near <= 2; near++)
        for (size_t k = 0; k < COUNT_OF(FLOATS); k++) {
          const long double edge = (long double)(sign ? -edges[i] : edges[i]);
          check_to_integers(FLOATS[k], narrow(FLOATS[k], edge, PTX_RN) + near - 1);
        }
  for (uint64_t bits = 0; bits < 65536; bits++) {
    check_to_integers(PTX_F16, bits);
    check_to_integers(PTX_BF16, bits);
  }
  for (uint64_t k = 0; k < rondo_test_load(300000, 10000); k++) {
    // Exponents of up to 2^70.
    const uint32_t exponent = 117 + (uint32_t)(random_next() % 80);
    check_to_integers(PTX_F32, (random_next() & 0x807fffffu) | exponent << 23);
    check_to_integers(PTX_F64, (random_next() & 0x800fffffffffffffu) | (uint64_t)(exponent + 896)
                                                                           << 52);
    check_to_integers(PTX_F64, random_bits(PTX_F64, random_next()));
  }
}

static void check_inline_float(enum ptx_type from, uint64_t value, uint64_t f32, uint64_t f64) {
  const uint32_t low = (uint32_t)value;
  if (from == PTX_S32) {
    assert_bits(ptx_cvt_rn_f32_s32(low), f32, "f32 of s32", value, 0, 0);
    assert_bits(ptx_cvt_rn_f64_s32(low), f64, "f64 of s32", value, 0, 0);
  }
  if (from == PTX_U32) {
    assert_bits(ptx_cvt_rn_f32_u32(low), f32, "f32 of u32", value, 0, 0);
    assert_bits(ptx_cvt_rn_f64_u32(low), f64, "f64 of u32", value, 0, 0);
  }
  if (from == PTX_S64) {
    assert_bits(ptx_cvt_rn_f32_s64(value), f32, "f32 of s64", value, 0, 0);
    assert_bits(ptx_cvt_rn_f64_s64(value), f64, "f64 of s64", value, 0, 0);
  }
  if (from == PTX_U64) {
    assert_bits(ptx_cvt_rn_f32_u64(value), f32, "f32 of u64", value, 0, 0);
    assert_bits(ptx_cvt_rn_f64_u64(value), f64, "f64 of u64", value, 0, 0);
  }
}

static void integers_become_floats_rounded_once(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rondo_test_load(1000000, 20000); k++) {
    // A few high bits, zeros and one low bit: next to the middle between two floats.
    const uint64_t value = random_next() >> (random_next() % 64) ^ (random_next() & 1);
    const uint64_t bits = k & 1 ? value & (~(uint64_t)0 << random_next() % 64 | 1) : value;
    const enum ptx_type from = INTEGERS[random_next() % COUNT_OF(INTEGERS)];
    const enum ptx_type to = FLOATS[random_next() % COUNT_OF(FLOATS)];
    const enum ptx_round round = (enum ptx_round)(random_next() % 4);
    const uint64_t whole = ptx_extend(from, bits);
    const long double number =
        ptx_type_is_signed(from) ? (long double)(int64_t)whole : (long double)whole;
    assert_bits(ptx_cvt(to, from, bits, round, 0), narrow(to, number, round), "to float", bits,
                (uint64_t)from, (uint64_t)to);
    check_inline_float(from, bits, narrow(PTX_F32, number, PTX_RN),
                       narrow(PTX_F64, number, PTX_RN));
  }
}

#if defined(__x86_64__)
#define F16C_ROUNDED(name, mode)                                                                   \
  __attribute__((target("avx2,f16c"))) static uint16_t f16c_##name(uint32_t bits) {                \
    return (uint16_t)_mm_extract_epi16(                                                            \
        _mm_cvtps_ph(_mm_castsi128_ps(_mm_cvtsi32_si128((int)bits)), mode), 0);                    \
  }
F16C_ROUNDED(rn, _MM_FROUND_TO_NEAREST_INT)
F16C_ROUNDED(rz, _MM_FROUND_TO_ZERO)
F16C_ROUNDED(rm, _MM_FROUND_TO_NEG_INF)
F16C_ROUNDED(rp, _MM_FROUND_TO_POS_INF)
static uint16_t (*const F16C[])(uint32_t) = {f16c_rn, f16c_rz, f16c_rm, f16c_rp};

static void f16_is_that_of_the_processor(void **state) {
  (void)state;
  if (!__builtin_cpu_supports("avx2"))
    skip();
  for (uint64_t k = 0; k < rondo_test_load(1000000, 50000); k++) {
    const uint32_t bits = (uint32_t)random_bits(PTX_F32, random_next());
    for (int round = PTX_RN; round <= PTX_RP && !ptx_is_nan_f32(bits); round++)
      assert_bits(ptx_cvt(PTX_F16, PTX_F32, bits, (enum ptx_round)round, 0), F16C[round](bits),
                  "f16c", bits, (uint64_t)round, 0);
  }
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_small_code_widens_to_its_number),
    cmocka_unit_test(narrowing_rounds_right_in_every_mode),
    cmocka_unit_test(small_formats_convert_to_one_another),
    cmocka_unit_test(narrowing_of_f64_rounds_once),
    cmocka_unit_test(conversion_modifiers_hold),
    cmocka_unit_test(floats_become_integers_clamped),
    cmocka_unit_test(integers_become_floats_rounded_once),
#if defined(__x86_64__)
    cmocka_unit_test(f16_is_that_of_the_processor),
#endif
  };
  return cmocka_run_group_tests_name("ptx_convert", tests, NULL, NULL);
}
