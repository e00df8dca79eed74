// Element arithmetic that every backend shares: conversions between float and the
// 16- and 8-bit floating types, maximum and minimum, and the one NaN of a result.
// Read by gcc and nvcc, so that the host and the device give the same bits.
//
// The rules, which a backend may implement with other instructions but not change:
//   - narrowing rounds to nearest, ties to even. float16 and bfloat16 overflow to
//     infinity; float8 saturates to its largest finite value, infinity included.
//   - a NaN result has one encoding, whatever NaN went in, because processors differ in
//     which operand's payload they keep and compilers swap operands at will:
//     float32 7fffffff, float64 7ff8000000000000, float16 and bfloat16 7fff,
//     float8 e4m3 7f (ff is read as NaN too), float8 e5m2 7f.
//   - maximum and minimum return the other operand when one is NaN, and order
//     -0 before +0.
//   - no fused multiply-add: a product is rounded before it is added. Callers compile
//     with -ffp-contract=off (nvcc: -fmad=false, or __fmul_rn and __fadd_rn).
// They hold in the default floating-point environment: round to nearest, subnormals kept.
//
// All functions are pure and may be called by any thread.
#ifndef RONDO_DAEMON_CORE_CONVERT_CORE_H
#define RONDO_DAEMON_CORE_CONVERT_CORE_H

#include <stdint.h>
#include <string.h>

#include "base/platform.h"

#define RONDO_FLOAT32_NAN 0x7fffffffu
#define RONDO_FLOAT64_NAN 0x7ff8000000000000u
#define RONDO_FLOAT16_NAN 0x7fffu
#define RONDO_BFLOAT16_NAN 0x7fffu
#define RONDO_FLOAT8_NAN 0x7fu // both formats

RONDO_FN uint32_t rondo_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

RONDO_FN float rondo_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

RONDO_FN uint64_t rondo_double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

RONDO_FN double rondo_double_of_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// The value itself, or the one NaN.
RONDO_FN float rondo_float_settle(float value) {
  return value == value ? value : rondo_float_of_bits(RONDO_FLOAT32_NAN);
}

RONDO_FN double rondo_double_settle(double value) {
  return value == value ? value : rondo_double_of_bits(RONDO_FLOAT64_NAN);
}

// Maximum and minimum. What the two orders of comparison choose is the same number, and
// differs in bits only for two zeros: the sign of the maximum is then the AND, that of the
// minimum the OR. NaN operands leave with their own payload: settle or narrow the result.
RONDO_FN float rondo_float_max(float a, float b) {
  const float one = a > b ? a : b;
  const float other = b > a ? b : a;
  const float ordered = rondo_float_of_bits(rondo_float_bits(one) & rondo_float_bits(other));
  const float number = a == a ? ordered : b;
  return b == b ? number : a;
}

RONDO_FN float rondo_float_min(float a, float b) {
  const float one = a < b ? a : b;
  const float other = b < a ? b : a;
  const float ordered = rondo_float_of_bits(rondo_float_bits(one) | rondo_float_bits(other));
  const float number = a == a ? ordered : b;
  return b == b ? number : a;
}

RONDO_FN double rondo_double_max(double a, double b) {
  const double one = a > b ? a : b;
  const double other = b > a ? b : a;
  const double ordered = rondo_double_of_bits(rondo_double_bits(one) & rondo_double_bits(other));
  const double number = a == a ? ordered : b;
  return b == b ? number : a;
}

RONDO_FN double rondo_double_min(double a, double b) {
  const double one = a < b ? a : b;
  const double other = b < a ? b : a;
  const double ordered = rondo_double_of_bits(rondo_double_bits(one) | rondo_double_bits(other));
  const double number = a == a ? ordered : b;
  return b == b ? number : a;
}

// Widens the magnitude (no sign bit) of a small format with `mantissa` bits and exponent
// bias `bias`, special values aside. A number whose exponent field is 0 is read with the
// exponent 1 and an implicit one that the subtraction takes away again: exact, and free
// of subnormal floats, so a flush-to-zero mode changes nothing.
RONDO_FN float rondo_minifloat_widen(uint32_t magnitude, uint32_t mantissa, uint32_t bias) {
  const uint32_t body = magnitude << (23 - mantissa);
  const uint32_t one_below = (128 - bias) << 23;
  const float normal = rondo_float_of_bits(body + ((127 - bias) << 23));
  const float subnormal = rondo_float_of_bits(body + one_below) - rondo_float_of_bits(one_below);
  return magnitude >> mantissa ? normal : subnormal;
}

// Narrows the magnitude bits of a float to a small format, to nearest even. The result
// may exceed the largest code of the format: the caller clamps. Below the smallest
// normal number the floating adder does the rounding: next to 2^(24 - bias - mantissa)
// one unit in the last place is the spacing of the format's subnormals.
RONDO_FN uint32_t rondo_minifloat_narrow(uint32_t magnitude, uint32_t mantissa, uint32_t bias) {
  const uint32_t shift = 23 - mantissa;
  const uint32_t half = (1u << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  const uint32_t normal = (magnitude - ((127 - bias) << 23) + half) >> shift;
  const uint32_t anchor = (151 - bias - mantissa) << 23;
  const float sum = rondo_float_of_bits(magnitude) + rondo_float_of_bits(anchor);
  const uint32_t subnormal = rondo_float_bits(sum) - anchor;
  return magnitude >= (128 - bias) << 23 ? normal : subnormal;
}

RONDO_FN float rondo_float_with_sign(float magnitude, uint32_t sign) {
  return rondo_float_of_bits(rondo_float_bits(magnitude) | sign);
}

RONDO_FN float rondo_float_of_float16(uint16_t code) {
  const uint32_t magnitude = code & 0x7fffu;
  const float finite = rondo_minifloat_widen(magnitude, 10, 15);
  const float special = rondo_float_of_bits(0x7f800000u | magnitude << 13);
  return rondo_float_with_sign(magnitude >= 0x7c00u ? special : finite, (uint32_t)(code & 0x8000u)
                                                                            << 16);
}

RONDO_FN uint16_t rondo_float16_of_float(float value) {
  const uint32_t bits = rondo_float_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = rondo_minifloat_narrow(magnitude, 10, 15);
  const uint32_t code = (rounded < 0x7c00u ? rounded : 0x7c00u) | (bits >> 16 & 0x8000u);
  return (uint16_t)(magnitude > 0x7f800000u ? RONDO_FLOAT16_NAN : code);
}

RONDO_FN float rondo_float_of_bfloat16(uint16_t code) {
  return rondo_float_of_bits((uint32_t)code << 16);
}

RONDO_FN uint16_t rondo_bfloat16_of_float(float value) {
  const uint32_t bits = rondo_float_bits(value);
  const uint32_t code = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? RONDO_BFLOAT16_NAN : code);
}

RONDO_FN float rondo_float_of_float8_e4m3(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const float finite = rondo_minifloat_widen(magnitude, 3, 7);
  const float nan = rondo_float_of_bits(RONDO_FLOAT32_NAN);
  return rondo_float_with_sign(magnitude == 0x7fu ? nan : finite, (uint32_t)(code & 0x80u) << 24);
}

RONDO_FN uint8_t rondo_float8_e4m3_of_float(float value) {
  const uint32_t bits = rondo_float_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = rondo_minifloat_narrow(magnitude, 3, 7);
  const uint32_t code = (rounded < 0x7eu ? rounded : 0x7eu) | (bits >> 24 & 0x80u);
  return (uint8_t)(magnitude > 0x7f800000u ? RONDO_FLOAT8_NAN : code);
}

RONDO_FN float rondo_float_of_float8_e5m2(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  const float finite = rondo_minifloat_widen(magnitude, 2, 15);
  const float special = rondo_float_of_bits(0x7f800000u | magnitude << 21);
  return rondo_float_with_sign(magnitude >= 0x7cu ? special : finite, (uint32_t)(code & 0x80u)
                                                                          << 24);
}

RONDO_FN uint8_t rondo_float8_e5m2_of_float(float value) {
  const uint32_t bits = rondo_float_bits(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t rounded = rondo_minifloat_narrow(magnitude, 2, 15);
  const uint32_t code = (rounded < 0x7bu ? rounded : 0x7bu) | (bits >> 24 & 0x80u);
  return (uint8_t)(magnitude > 0x7f800000u ? RONDO_FLOAT8_NAN : code);
}

// A double as a float rounded to odd: what is lost leaves a trace in the last bit, so
// that narrowing the result further rounds as if it had been done in one step.
RONDO_FN float rondo_float_of_double_odd(double value) {
  const float nearest = (float)value;
  if (nearest != nearest || (double)nearest == value)
    return nearest;
  const uint32_t bits = rondo_float_bits(nearest);
  const double size = value < 0 ? -value : value;
  const double rounded = value < 0 ? -(double)nearest : (double)nearest;
  const uint32_t truncated = rounded > size ? bits - 1 : bits;
  return rondo_float_of_bits(truncated | 1u);
}

#endif // RONDO_DAEMON_CORE_CONVERT_CORE_H
