// Quantised messages: what stands for a float in them, and the scale of each RONDO_QUANTISED_ELEMS
// of them (daemon/plan/geometry_core.h has their layout). Read by gcc and nvcc, so that the host
// and the device give the same bits.
//
// The rules (docs/numerics.md):
//   - The scale is the largest finite magnitude of its elements, divided by the largest code (int8:
//     127; float8 e4m3: 448), and at least RONDO_QUANTISED_LEAST_SCALE. So it is never 0, and no
//     product of a code and a scale is subnormal or overflows.
//   - An element is multiplied by the rounded inverse of the scale and rounded to the nearest code,
//     ties to even. The value of a code is the code times the scale, rounded to float.
//   - NaN has a code of its own (int8: -128; e4m3: 7f). An infinity becomes NaN. Neither counts for
//     the scale, so they spoil no other element.
// Callers compile without contraction, as for convert_core.h.
#ifndef RONDO_DAEMON_CORE_QUANTISE_CORE_H
#define RONDO_DAEMON_CORE_QUANTISE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "daemon/core/convert_core.h"

#define RONDO_QUANTISED_LEAST_SCALE 0x1p-117f
// The bits of the largest magnitude that counts: 127 × (the largest float / 127) would overflow.
#define RONDO_QUANTISED_MOST_BITS 0x7f7ffffeu
#define RONDO_QUANTISED_NAN 0x80u // the int8 code

RONDO_FN bool rondo_quantise_is_finite(float value) {
  return (rondo_float_bits(value) & 0x7fffffffu) < 0x7f800000u;
}

// The magnitude of a float as it counts for the scale: its bits, or 0 if it is not finite. The
// largest of several has the largest bits.
RONDO_FN uint32_t rondo_quantise_magnitude(float value) {
  return rondo_quantise_is_finite(value) ? rondo_float_bits(value) & 0x7fffffffu : 0;
}

// The scale of elements whose largest magnitude is `bits`. `most_code`: 127 or 448.
RONDO_FN float rondo_quantise_scale(uint32_t bits, float most_code) {
  const uint32_t most = bits < RONDO_QUANTISED_MOST_BITS ? bits : RONDO_QUANTISED_MOST_BITS;
  const float scale = rondo_float_of_bits(most) / most_code;
  return scale > RONDO_QUANTISED_LEAST_SCALE ? scale : RONDO_QUANTISED_LEAST_SCALE;
}

// Next to 1.5 × 2^23 a float's last bit is worth 1, so the sum has the rounded product in its low
// bits.
RONDO_FN uint8_t rondo_quantise_int8(float value, float inverse) {
  const uint32_t rounded = rondo_float_bits(value * inverse + 0x1.8p23f);
  return (uint8_t)(rondo_quantise_is_finite(value) ? rounded : RONDO_QUANTISED_NAN);
}

RONDO_FN float rondo_dequantise_int8(uint8_t code, float scale) {
  const float value = (float)(int8_t)code * scale;
  return code == RONDO_QUANTISED_NAN ? rondo_float_of_bits(RONDO_FLOAT32_NAN) : value;
}

RONDO_FN uint8_t rondo_quantise_float8_e4m3(float value, float inverse) {
  const uint8_t code = rondo_float8_e4m3_of_float(value * inverse);
  return (uint8_t)(rondo_quantise_is_finite(value) ? code : RONDO_FLOAT8_NAN);
}

RONDO_FN float rondo_dequantise_float8_e4m3(uint8_t code, float scale) {
  return rondo_float_settle(rondo_float_of_float8_e4m3(code) * scale);
}

#endif // RONDO_DAEMON_CORE_QUANTISE_CORE_H
