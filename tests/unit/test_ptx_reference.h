// What the tests of PTX's floating-point arithmetic compare with: the processor's own arithmetic in
// each rounding mode, and a search among all codes of a small format. Sources that include it are
// compiled with -frounding-math.
#ifndef RONDO_TESTS_UNIT_TEST_PTX_REFERENCE_H
#define RONDO_TESTS_UNIT_TEST_PTX_REFERENCE_H

#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/load.h"
#include "tests/support/ptx/ptx_arith.h"
#include "tests/unit/test_move_reference.h"

static const int ENVIRONMENTS[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
static const enum ptx_type FLOATS[] = {PTX_F16, PTX_BF16, PTX_F32, PTX_F64};
#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static uint64_t random_state = 88172645463325252u;

static inline uint64_t random_next(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 2685821657736338717u;
}

static inline const struct format *format_of_type(enum ptx_type type) {
  return type == PTX_F16    ? &FLOAT16
         : type == PTX_BF16 ? &BFLOAT16
         : type == PTX_E4M3 ? &E4M3
         : type == PTX_E5M2 ? &E5M2
                            : NULL;
}

static inline uint64_t type_mask(enum ptx_type type) {
  return type == PTX_F64 ? UINT64_MAX : ((uint64_t)1 << ptx_type_bits(type)) - 1;
}

static inline uint64_t type_nan(enum ptx_type type) {
  return type == PTX_F64   ? 0xfff8000000000000u
         : type == PTX_F32 ? 0x7fffffffu
                           : format_of_type(type)->nan;
}

// Any bits; bits with an exponent near that of `near`; or a special number with a neighbour's bits.
static inline uint64_t random_bits(enum ptx_type type, uint64_t near) {
  static const uint64_t specials[] = {0,        1,      2,          3,          0x7fffff,
                                      0x800000, 0x3ff,  0x400,      0x7bff,     0x7c00,
                                      0x7c01,   0x7f80, 0x3f800000, 0x7f7fffff, 0x7f800000};
  const uint64_t value = random_next();
  const uint64_t mask = type_mask(type);
  switch (random_next() % 8) {
  case 0:
    return (specials[value % COUNT_OF(specials)] ^ value >> 63 << (ptx_type_bits(type) - 1)) & mask;
  case 1:
    return ptx_double_bits(ptx_double_of(near) * 0.5) & mask;
  case 2:
  case 3:
  case 4:
    return (near ^ (value >> (random_next() % 64))) & mask;
  default:
    return value & mask;
  }
}

static inline long double number_of(enum ptx_type type, uint64_t bits) {
  if (type == PTX_F64)
    return (long double)ptx_double_of(bits);
  if (type == PTX_F32)
    return (long double)ptx_float_of((uint32_t)bits);
  return (long double)number_of_code(format_of_type(type), (uint32_t)bits);
}

// The code of a small format, found by search.
static inline uint64_t narrow_by_search(const struct format *f, long double number,
                                        enum ptx_round round) {
  if (isnan(number))
    return f->nan;
  const bool negative = signbit(number) != 0;
  const uint64_t sign = negative ? f->sign : 0;
  const long double size = fabsl(number);
  if (isinf(size))
    return sign | f->overflow;
  uint32_t low = 0; // the largest finite code whose number is at most `size`
  for (uint32_t step = f->sign >> 1; step; step >>= 1)
    if (low + step <= f->max_finite && (long double)number_of_fields(f, low + step) <= size)
      low += step;
  const long double below = size - (long double)number_of_fields(f, low);
  const long double above = (long double)number_of_fields(f, low + 1) - size;
  const bool up = round == PTX_RN   ? above < below || (above == below && (low & 1))
                  : round == PTX_RZ ? false
                                    : (round == PTX_RM) == negative;
  if (below > 0 && up)
    low++;
  return sign | (low > f->max_finite ? f->overflow : low);
}

// `number` in the given type, by the processor for f32 and f64.
static inline uint64_t narrow(enum ptx_type type, long double number, enum ptx_round round) {
  if (type != PTX_F32 && type != PTX_F64)
    return narrow_by_search(format_of_type(type), number, round);
  volatile long double from = number;
  fesetround(ENVIRONMENTS[round]);
  volatile double as_double = (double)from;
  volatile float as_float = (float)from;
  fesetround(FE_TONEAREST);
  if (isnan(number))
    return type_nan(type);
  return type == PTX_F64 ? ptx_double_bits(as_double) : ptx_float_bits(as_float);
}

static inline void assert_bits(uint64_t got, uint64_t expected, const char *what, uint64_t a,
                               uint64_t b, uint64_t c) {
  if (got != expected)
    fail_msg("%s of %llx %llx %llx: %llx, expected %llx", what, (unsigned long long)a,
             (unsigned long long)b, (unsigned long long)c, (unsigned long long)got,
             (unsigned long long)expected);
}

#endif // RONDO_TESTS_UNIT_TEST_PTX_REFERENCE_H
