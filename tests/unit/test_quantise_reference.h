// The rules of docs/numerics.md for quantised messages in doubles: they share nothing with the
// library. For the tests of the movers and of whole collectives.
#ifndef RONDO_TESTS_UNIT_TEST_QUANTISE_REFERENCE_H
#define RONDO_TESTS_UNIT_TEST_QUANTISE_REFERENCE_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "tests/unit/test_move_reference.h"

static inline float quantise_float(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// One NaN: what the processor makes of one may have other bits.
static inline float quantise_settled(float value) {
  return isnan(value) ? quantise_float(0x7fffffff) : value;
}

static inline float quantise_value(int quantisation, uint8_t code, float scale) {
  bool is_int8 = quantisation == RONDO_QUANTISE_INT8;
  if (is_int8 ? code == 0x80 : (code & 0x7f) == 0x7f)
    return quantise_float(0x7fffffff);
  double number = is_int8 ? (int8_t)code : reference_number(RONDO_FLOAT8_E4M3, code);
  return (float)(number * scale);
}

static inline uint8_t quantise_code(int quantisation, float value, float inverse) {
  if (quantisation == RONDO_QUANTISE_INT8)
    return isfinite(value) ? (uint8_t)(int8_t)rint((double)(float)((double)value * inverse)) : 0x80;
  if (!isfinite(value))
    return 0x7f;
  return (uint8_t)reference_bits(RONDO_FLOAT8_E4M3, (float)((double)value * inverse));
}

static inline float quantise_scale(int quantisation, const float *values, uint64_t n) {
  float most = 0;
  for (uint64_t i = 0; i < n; i++)
    most = isfinite(values[i]) && fabsf(values[i]) > most ? fabsf(values[i]) : most;
  if (most > nextafterf(FLT_MAX, 0))
    most = nextafterf(FLT_MAX, 0);
  float scale = (float)(most / (quantisation == RONDO_QUANTISE_INT8 ? 127.0 : 448.0));
  return scale > 0x1p-117f ? scale : 0x1p-117f;
}

// The message of `count` values, and what it stands for.
static inline void quantise_reference(int quantisation, const float *values, uint64_t count,
                                      unsigned char *message, float *stands_for) {
  for (uint64_t first = 0; first < count; first += 256) {
    uint64_t n = count - first < 256 ? count - first : 256;
    float scale = quantise_scale(quantisation, values + first, n);
    memcpy(message, &scale, 4);
    for (uint64_t i = 0; i < n; i++) {
      message[4 + i] = quantise_code(quantisation, values[first + i], (float)(1.0 / scale));
      stands_for[first + i] = quantise_value(quantisation, message[4 + i], scale);
    }
    message += 4 + n;
  }
}

// The bounds of docs/numerics.md for one quantisation: of int8 half a step, of e4m3 2^-4 of the
// value, or 2^-10 of a step for small values; and what the floats round.
static inline double quantise_bound(int quantisation, double value, double most) {
  double scale = most / (quantisation == RONDO_QUANTISE_INT8 ? 127 : 448);
  scale = scale > 0x1p-117 ? scale : 0x1p-117;
  double floor = scale * (quantisation == RONDO_QUANTISE_INT8 ? 0.5 : 0x1p-10);
  double relative = quantisation == RONDO_QUANTISE_INT8 ? 0 : 0x1p-4 * fabs(value);
  return (floor > relative ? floor : relative) + 0x1p-15 * scale + 0x1p-22 * fabs(value);
}

#endif // RONDO_TESTS_UNIT_TEST_QUANTISE_REFERENCE_H
