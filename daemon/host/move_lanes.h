// Vectors of small floating elements on x86: eight lanes with AVX2, sixteen with AVX-512, both with
// the float16 conversions of F16C. Read by move_kernels.h only.
//
// A vector of codes has 16 bits a lane for all four types: float8 codes are spread on loading. The
// functions compute bit for bit what daemon/core/convert_core.h does, in the fewest instructions;
// tests/unit/test_move.c compares every code.
#ifndef RONDO_DAEMON_HOST_MOVE_LANES_H
#define RONDO_DAEMON_HOST_MOVE_LANES_H

#include <immintrin.h>
#include <stdint.h>

#include "daemon/core/convert_core.h"

// Inlined always: a call would pass the vectors through memory.
#define RONDO_LANE_FN static inline __attribute__((always_inline))

#if defined(__AVX512F__)

#define RONDO_LANES 16
typedef __m512 lane_floats;
typedef __m256i lane_vector; // of codes, as the intrinsics want it
#define RONDO_LANE_MAX(a, b) _mm512_max_ps(a, b)
#define RONDO_LANE_MIN(a, b) _mm512_min_ps(a, b)
#define RONDO_LANE_ALL(value) _mm512_set1_ps(value)

// Lanes of `then` where `test` is NaN, else of `other`.
RONDO_LANE_FN lane_floats where_nan(lane_floats test, lane_floats then, lane_floats other) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(test, test, _CMP_UNORD_Q), other, then);
}

RONDO_LANE_FN lane_vector load_16_bits(const void *from) { return _mm256_loadu_si256(from); }
RONDO_LANE_FN void store_16_bits(void *to, lane_vector codes) { _mm256_storeu_si256(to, codes); }
RONDO_LANE_FN lane_vector load_8_bits(const void *from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(from));
}
RONDO_LANE_FN void store_8_bits(void *to, lane_vector codes) {
  _mm_storeu_si128(to, _mm256_cvtepi16_epi8(codes));
}
RONDO_LANE_FN lane_floats spread(lane_vector codes) {
  return (lane_floats)_mm512_cvtepu16_epi32(codes);
}
RONDO_LANE_FN lane_vector gather(lane_floats codes) {
  return _mm512_cvtepi32_epi16((__m512i)codes);
}
RONDO_LANE_FN lane_floats cvtph(lane_vector codes) { return _mm512_cvtph_ps(codes); }
RONDO_LANE_FN lane_vector to_float16(lane_floats values) {
  return _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
}

#else

#define RONDO_LANES 8
typedef __m256 lane_floats;
typedef __m128i lane_vector;
#define RONDO_LANE_MAX(a, b) _mm256_max_ps(a, b)
#define RONDO_LANE_MIN(a, b) _mm256_min_ps(a, b)
#define RONDO_LANE_ALL(value) _mm256_set1_ps(value)

RONDO_LANE_FN lane_floats where_nan(lane_floats test, lane_floats then, lane_floats other) {
  return _mm256_blendv_ps(other, then, _mm256_cmp_ps(test, test, _CMP_UNORD_Q));
}

RONDO_LANE_FN lane_vector load_16_bits(const void *from) { return _mm_loadu_si128(from); }
RONDO_LANE_FN void store_16_bits(void *to, lane_vector codes) { _mm_storeu_si128(to, codes); }
RONDO_LANE_FN lane_vector load_8_bits(const void *from) {
  return _mm_cvtepu8_epi16(_mm_loadl_epi64(from));
}
RONDO_LANE_FN void store_8_bits(void *to, lane_vector codes) {
  _mm_storel_epi64(to, _mm_packus_epi16(codes, codes));
}
RONDO_LANE_FN lane_floats spread(lane_vector codes) {
  return (lane_floats)_mm256_cvtepu16_epi32(codes);
}
RONDO_LANE_FN lane_vector gather(lane_floats codes) {
  const __m256i all = (__m256i)codes;
  return _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}
RONDO_LANE_FN lane_floats cvtph(lane_vector codes) { return _mm256_cvtph_ps(codes); }
RONDO_LANE_FN lane_vector to_float16(lane_floats values) {
  return _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT);
}

#endif

// The same registers with arithmetic operators: bits of the floats, and codes.
typedef uint32_t lane_bits __attribute__((vector_size(4 * RONDO_LANES)));
typedef uint16_t lane_codes __attribute__((vector_size(2 * RONDO_LANES)));

// clang 14 turns a later test for NaN into one of scalar halves, 20 times slower, because it knows
// what the conversion does. The empty statement hides the origin of the floats.
RONDO_LANE_FN lane_floats of_float16(lane_vector codes) {
  lane_floats values = cvtph(codes);
  __asm__("" : "+v"(values));
  return values;
}

RONDO_LANE_FN lane_floats nan_settled(lane_floats values) {
  return where_nan(values, RONDO_LANE_ALL(rondo_float_of_bits(RONDO_FLOAT32_NAN)), values);
}

// The instructions return the second operand where one is NaN or both are zeros.
RONDO_LANE_FN lane_floats lanes_max(lane_floats a, lane_floats b) {
  const lane_bits both = (lane_bits)RONDO_LANE_MAX(a, b) & (lane_bits)RONDO_LANE_MAX(b, a);
  return where_nan(b, a, where_nan(a, b, (lane_floats)both));
}

RONDO_LANE_FN lane_floats lanes_min(lane_floats a, lane_floats b) {
  const lane_bits both = (lane_bits)RONDO_LANE_MIN(a, b) | (lane_bits)RONDO_LANE_MIN(b, a);
  return where_nan(b, a, where_nan(a, b, (lane_floats)both));
}

// The instruction cuts a NaN's payload to the mantissa: 7fffffff becomes 7fff.
RONDO_LANE_FN lane_floats f16_widen(lane_vector codes) { return of_float16(codes); }
RONDO_LANE_FN lane_vector f16_narrow(lane_floats values) { return to_float16(nan_settled(values)); }

RONDO_LANE_FN lane_floats bf16_widen(lane_vector codes) {
  return (lane_floats)((lane_bits)spread(codes) << 16);
}

RONDO_LANE_FN lane_vector bf16_narrow(lane_floats values) {
  const lane_bits bits = (lane_bits)values;
  const lane_bits rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const lane_floats nan = RONDO_LANE_ALL(rondo_float_of_bits(RONDO_BFLOAT16_NAN));
  return gather(where_nan(values, nan, (lane_floats)rounded));
}

// Rounds to the numbers of a float8 type with `mantissa` bits, to nearest even: next to a
// power of two 2^(23 - mantissa) times its own, a float's last bit is worth the last bit
// of the small type, so adding that power and taking it away again rounds.
RONDO_LANE_FN lane_floats float8_rounded(lane_floats values, int mantissa, float min_normal,
                                         float max_finite) {
  const lane_bits bits = (lane_bits)values;
  const lane_floats size =
      RONDO_LANE_MIN((lane_floats)(bits & 0x7fffffff), RONDO_LANE_ALL(max_finite));
  const lane_floats power = (lane_floats)((lane_bits)size & 0x7f800000);
  const lane_floats above = RONDO_LANE_MAX(power, RONDO_LANE_ALL(min_normal));
  const lane_floats anchor = (lane_floats)((lane_bits)above + ((uint32_t)(23 - mantissa) << 23));
  const lane_floats rounded = (size + anchor) - anchor;
  const lane_bits with_sign = (lane_bits)rounded | (bits & 0x80000000);
  return where_nan(values, RONDO_LANE_ALL(rondo_float_of_bits(RONDO_FLOAT32_NAN)),
                   (lane_floats)with_sign);
}

// float8 e5m2 is the upper half of float16.
RONDO_LANE_FN lane_floats e5m2_widen(lane_vector codes) {
  return of_float16((lane_vector)((lane_codes)codes << 8));
}

RONDO_LANE_FN lane_vector e5m2_narrow(lane_floats values) {
  const lane_floats rounded = float8_rounded(values, 2, 0x1p-14f, 57344.0f);
  return (lane_vector)((lane_codes)to_float16(rounded) >> 8);
}

// float8 e4m3 has the exponent bias 7, float16 has 15: the same bits are 2^-8 of the number.
// Codes are spread without sign, so the sign is moved on its own.
RONDO_LANE_FN lane_floats e4m3_widen(lane_vector codes) {
  const lane_codes shifted = (lane_codes)codes << 7;
  const lane_codes magnitude = shifted & 0x3f80;
  const lane_codes nan = (lane_codes)(magnitude == 0x3f80) & 0x7c00;
  const lane_codes sign = (shifted & 0x4000) << 1;
  return of_float16((lane_vector)(magnitude | sign | nan)) * RONDO_LANE_ALL(0x1p8f);
}

RONDO_LANE_FN lane_vector e4m3_narrow(lane_floats values) {
  const lane_floats rounded = float8_rounded(values, 3, 0x1p-6f, 448.0f);
  const lane_codes half = (lane_codes)to_float16(rounded * RONDO_LANE_ALL(0x1p-8f));
  return (lane_vector)((half >> 8 & 0x80) | (half >> 7 & 0x7f));
}

#endif // RONDO_DAEMON_HOST_MOVE_LANES_H
