// A slow arithmetic of the element types that shares nothing with Rondo's: numbers are
// doubles, made from the fields of a code with ldexp, and rounding searches the two
// neighbouring codes. For the tests of conversions and of the kernels.
#ifndef RONDO_TESTS_UNIT_TEST_MOVE_REFERENCE_H
#define RONDO_TESTS_UNIT_TEST_MOVE_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "daemon/core/move.h"
#include "rondo/types.h"

// A floating format of at most 16 bits.
struct format {
  int mantissa;
  int bias;
  uint32_t max_finite; // code of the largest finite number
  uint32_t overflow;   // code of what is larger
  uint32_t infinity;   // code, or 0 if there is none
  uint32_t nan;        // code of a NaN result
  uint32_t sign;       // bit
};

static const struct format FLOAT16 = {10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7fff, 0x8000};
static const struct format BFLOAT16 = {7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fff, 0x8000};
static const struct format E4M3 = {3, 7, 0x7e, 0x7e, 0, 0x7f, 0x80};
static const struct format E5M2 = {2, 15, 0x7b, 0x7b, 0x7c, 0x7f, 0x80};

static inline const struct format *format_of(int dtype) {
  switch (dtype) {
  case RONDO_FLOAT16:
    return &FLOAT16;
  case RONDO_BFLOAT16:
    return &BFLOAT16;
  case RONDO_FLOAT8_E4M3:
    return &E4M3;
  case RONDO_FLOAT8_E5M2:
    return &E5M2;
  default:
    return NULL;
  }
}

// The number that the fields of `magnitude` say, special codes not considered.
static inline double number_of_fields(const struct format *f, uint32_t magnitude) {
  const int exponent = (int)(magnitude >> f->mantissa);
  const int fraction = (int)(magnitude & ((1u << f->mantissa) - 1));
  if (exponent == 0)
    return ldexp(fraction, 1 - f->bias - f->mantissa);
  return ldexp(fraction + (1 << f->mantissa), exponent - f->bias - f->mantissa);
}

static inline double number_of_code(const struct format *f, uint32_t code) {
  const uint32_t magnitude = code & (f->sign - 1);
  const double sign = code & f->sign ? -1.0 : 1.0;
  if (magnitude <= f->max_finite)
    return sign * number_of_fields(f, magnitude);
  return f->infinity && magnitude == f->infinity ? sign * INFINITY : NAN;
}

// To the nearest code, the even one of two.
static inline uint32_t code_of_number(const struct format *f, double number) {
  if (isnan(number))
    return f->nan;
  const uint32_t sign = signbit(number) ? f->sign : 0;
  const double size = fabs(number);
  uint32_t low = 0; // the largest finite code whose number is at most `size`
  for (uint32_t step = f->sign >> 1; step; step >>= 1)
    if (low + step <= f->max_finite && number_of_fields(f, low + step) <= size)
      low += step;
  if (isinf(size))
    return sign | f->overflow;
  const double below = size - number_of_fields(f, low);
  const double above = number_of_fields(f, low + 1) - size;
  if (above < below || (above == below && (low & 1)))
    low++;
  return sign | (low > f->max_finite ? f->overflow : low);
}

static inline double reference_max(double a, double b) {
  if (isnan(a) || isnan(b))
    return isnan(a) ? b : a;
  if (a == b)
    return signbit(a) ? b : a;
  return a > b ? a : b;
}

static inline double reference_min(double a, double b) {
  if (isnan(a) || isnan(b))
    return isnan(a) ? b : a;
  if (a == b)
    return signbit(a) ? a : b;
  return a < b ? a : b;
}

static inline uint32_t dtype_bytes(int dtype) {
  static const uint8_t bytes[RONDO_DTYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return bytes[dtype];
}

// ---- one element as the bits of its type ----

static inline double reference_number(int dtype, uint64_t bits) {
  if (dtype == RONDO_FLOAT64) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
  }
  if (dtype == RONDO_FLOAT32) {
    const uint32_t half = (uint32_t)bits;
    float number;
    memcpy(&number, &half, sizeof number);
    return number;
  }
  return number_of_code(format_of(dtype), (uint32_t)bits);
}

// `number` is exact, or rounded to double where the sum or product of two floats is: that
// the second rounding to float then changes nothing is a theorem (53 >= 2 * 24 + 2).
static inline uint64_t reference_bits(int dtype, double number) {
  if (dtype == RONDO_FLOAT64) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return isnan(number) ? 0x7ff8000000000000u : bits;
  }
  const float rounded = (float)number;
  if (dtype == RONDO_FLOAT32) {
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return isnan(number) ? 0x7fffffffu : bits;
  }
  return code_of_number(format_of(dtype), rounded);
}

static inline double reference_factor(int dtype, uint64_t factor) {
  return reference_number(dtype == RONDO_FLOAT64 ? RONDO_FLOAT64 : RONDO_FLOAT32, factor);
}

// Sign-extends (or not) the low bytes of an integer type.
static inline uint64_t reference_integer(int dtype, uint64_t bits) {
  switch (dtype) {
  case RONDO_INT8:
    return (uint64_t)(int64_t)(int8_t)bits;
  case RONDO_UINT8:
    return (uint8_t)bits;
  case RONDO_INT32:
    return (uint64_t)(int64_t)(int32_t)bits;
  case RONDO_UINT32:
    return (uint32_t)bits;
  default:
    return bits;
  }
}

static inline int reference_is_signed(int dtype) {
  return dtype == RONDO_INT8 || dtype == RONDO_INT32 || dtype == RONDO_INT64;
}

static inline int integer_less(int dtype, uint64_t a, uint64_t b) {
  return reference_is_signed(dtype) ? (int64_t)a < (int64_t)b : a < b;
}

static inline uint64_t reference_integer_base(int dtype, int base, uint64_t a, uint64_t b) {
  switch (base) {
  case RONDO_REDUCE_SUM:
    return a + b;
  case RONDO_REDUCE_PROD:
    return a * b;
  case RONDO_REDUCE_MAX:
    return integer_less(dtype, a, b) ? b : a;
  default:
    return integer_less(dtype, a, b) ? a : b;
  }
}

static inline double reference_floating_base(int base, double a, double b) {
  switch (base) {
  case RONDO_REDUCE_SUM:
    return a + b;
  case RONDO_REDUCE_PROD:
    return a * b;
  case RONDO_REDUCE_MAX:
    return reference_max(a, b);
  default:
    return reference_min(a, b);
  }
}

static inline uint64_t reference_scaled(const struct rondo_reduction *r, uint64_t local) {
  if (!r->scale)
    return local;
  if (r->dtype <= RONDO_UINT64)
    return reference_integer(r->dtype, local * r->factor);
  return reference_bits(r->dtype,
                        reference_number(r->dtype, local) * reference_factor(r->dtype, r->factor));
}

// Towards zero. The divisor is positive, so the magnitude of the quotient is that of the
// magnitudes, and no quotient overflows.
static inline uint64_t reference_divided(const struct rondo_reduction *r, uint64_t bits) {
  const uint64_t value = reference_integer(r->dtype, bits);
  if (reference_is_signed(r->dtype) && (int64_t)value < 0)
    return -(-value / r->divisor);
  return value / r->divisor;
}

// The expected result of rondo_move_reduce for one element. All results are cut to the type.
static inline uint64_t reference_reduced(const struct rondo_reduction *r, uint64_t local,
                                         uint64_t incoming, int final) {
  const uint64_t scaled = reference_scaled(r, local);
  if (r->dtype > RONDO_UINT64)
    return reference_bits(r->dtype,
                          reference_floating_base(r->base, reference_number(r->dtype, incoming),
                                                  reference_number(r->dtype, scaled)));
  const uint64_t result =
      reference_integer_base(r->dtype, r->base, reference_integer(r->dtype, incoming),
                             reference_integer(r->dtype, scaled));
  return final && r->divide ? reference_divided(r, result) : result;
}

#endif // RONDO_TESTS_UNIT_TEST_MOVE_REFERENCE_H
