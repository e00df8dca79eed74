// The kernels of one instruction set: the template of move_base.c, move_avx2.c and move_avx512.c,
// which define RONDO_MOVE_TABLE and are compiled with different -m flags.
//
// Loops are plain C over the scalar functions of daemon/core/convert_core.h, and the compiler
// vectorises them: every level computes the same expression for an element, so levels cannot differ
// in bits. "omp simd" states the contract of move.h: element i depends on elements i alone (dst may
// be local or incoming). Without it the compiler would use scalars for in-place calls.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/core/convert_core.h"
#include "daemon/core/quantise_core.h"
#include "daemon/host/move_host.h"
#include "daemon/plan/geometry_core.h"
#if defined(__AVX2__) && defined(__F16C__)
#include "daemon/host/move_lanes.h"
#endif

// Defines kernel `name` over elements of type T: dst[i] = expression of ls[i], ns[i] and the factor
// or divisor f of type A, made from the bits of `argument`. "flatten" inlines the conversions.
#define RONDO_KERNEL(name, T, A, make_f, expression)                                               \
  __attribute__((flatten)) static void name(void *dst, const void *local, const void *incoming,    \
                                            uint64_t count, uint64_t argument) {                   \
    typedef T element __attribute__((aligned(1)));                                                 \
    element *const ds = dst;                                                                       \
    const element *const ls = local;                                                               \
    const element *const ns = incoming;                                                            \
    const A f = make_f;                                                                            \
    (void)ns, (void)f, (void)argument;                                                             \
    _Pragma("omp simd") for (uint64_t i = 0; i < count; i++) ds[i] = (T)(expression);              \
  }

// ---- integers: sums and products wrap, so they are computed unsigned ----

#define RONDO_INTEGER_KERNELS(bits, S, U)                                                          \
  RONDO_KERNEL(i##bits##_sum, U, U, 0, ns[i] + ls[i])                                              \
  RONDO_KERNEL(i##bits##_prod, U, U, 0, ns[i] * ls[i])                                             \
  RONDO_KERNEL(i##bits##_scaled_sum, U, U, (U)argument, ns[i] + (U)(ls[i] * f))                    \
  RONDO_KERNEL(i##bits##_scale, U, U, (U)argument, ls[i] * f)                                      \
  RONDO_KERNEL(s##bits##_max, S, S, 0, ns[i] > ls[i] ? ns[i] : ls[i])                              \
  RONDO_KERNEL(s##bits##_min, S, S, 0, ns[i] < ls[i] ? ns[i] : ls[i])                              \
  RONDO_KERNEL(u##bits##_max, U, U, 0, ns[i] > ls[i] ? ns[i] : ls[i])                              \
  RONDO_KERNEL(u##bits##_min, U, U, 0, ns[i] < ls[i] ? ns[i] : ls[i])

RONDO_INTEGER_KERNELS(8, int8_t, uint8_t)
RONDO_INTEGER_KERNELS(32, int32_t, uint32_t)
RONDO_INTEGER_KERNELS(64, int64_t, uint64_t)

// Divides in floating point, because that vectorises. The result is exact: a quotient x / d that is
// no integer is at least 1/d away from the next one, which is more than the rounding error if the
// mantissa has more than twice the bits of x; the conversion truncates.
RONDO_KERNEL(s8_divide, int8_t, float, (float)argument, (int32_t)((float)ls[i] / f))
RONDO_KERNEL(u8_divide, uint8_t, float, (float)argument, (int32_t)((float)ls[i] / f))
RONDO_KERNEL(s32_divide, int32_t, double, (double)argument, (double)ls[i] / f)
RONDO_KERNEL(u32_divide, uint32_t, double, (double)argument, (double)ls[i] / f)
RONDO_KERNEL(s64_divide, int64_t, int64_t, (int64_t)argument, ls[i] / f)
RONDO_KERNEL(u64_divide, uint64_t, uint64_t, argument, ls[i] / f)

// ---- float and double: computed in their own type ----

#define RONDO_FLOATING_KERNELS(tag, T, make_f)                                                     \
  RONDO_KERNEL(tag##_sum, T, T, 0, rondo_##T##_settle(ns[i] + ls[i]))                              \
  RONDO_KERNEL(tag##_prod, T, T, 0, rondo_##T##_settle(ns[i] * ls[i]))                             \
  RONDO_KERNEL(tag##_max, T, T, 0, rondo_##T##_settle(rondo_##T##_max(ns[i], ls[i])))              \
  RONDO_KERNEL(tag##_min, T, T, 0, rondo_##T##_settle(rondo_##T##_min(ns[i], ls[i])))              \
  RONDO_KERNEL(tag##_scaled_sum, T, T, make_f, rondo_##T##_settle(ns[i] + ls[i] * f))              \
  RONDO_KERNEL(tag##_scale, T, T, make_f, rondo_##T##_settle(ls[i] * f))

RONDO_FLOATING_KERNELS(f32, float, rondo_float_of_bits((uint32_t)argument))
RONDO_FLOATING_KERNELS(f64, double, rondo_double_of_bits(argument))

// ---- small floating types: widened to float, computed, and narrowed ----

#if defined(__AVX2__) && defined(__F16C__)

#define RONDO_LANE_BYTES(bits) ((size_t)RONDO_LANES * ((bits) / 8))

// Defines kernel `name` over vectors: `expression` makes the result's codes from l and n, the
// codes of the elements, and the factor f. A rest is computed in a vector padded with zeros.
#define RONDO_LANE_KERNEL(name, bits, expression)                                                  \
  RONDO_LANE_FN lane_vector name##_lanes(lane_vector l, lane_vector n, float factor) {             \
    const lane_floats f = RONDO_LANE_ALL(factor);                                                  \
    (void)n, (void)f;                                                                              \
    return (expression);                                                                           \
  }                                                                                                \
  static void name(void *dst, const void *local, const void *incoming, uint64_t count,             \
                   uint64_t argument) {                                                            \
    const float f = rondo_float_of_bits((uint32_t)argument);                                       \
    const size_t rest = count % RONDO_LANES * ((bits) / 8);                                        \
    const uint64_t whole = count * ((bits) / 8) - rest;                                            \
    char *const d = dst;                                                                           \
    const char *const l = local;                                                                   \
    const char *const n = incoming;                                                                \
    for (uint64_t i = 0; i < whole; i += RONDO_LANE_BYTES(bits))                                   \
      store_##bits##_bits(d + i,                                                                   \
                          name##_lanes(load_##bits##_bits(l + i), load_##bits##_bits(n + i), f));  \
    if (rest == 0)                                                                                 \
      return;                                                                                      \
    char rests[2][RONDO_LANE_BYTES(bits)] = {{0}};                                                 \
    memcpy(rests[0], l + whole, rest);                                                             \
    memcpy(rests[1], n + whole, rest);                                                             \
    store_##bits##_bits(                                                                           \
        rests[0], name##_lanes(load_##bits##_bits(rests[0]), load_##bits##_bits(rests[1]), f));    \
    memcpy(d + whole, rests[0], rest);                                                             \
  }

#define RONDO_SMALL_KERNELS(tag, bits)                                                             \
  RONDO_LANE_KERNEL(tag##_sum, bits, tag##_narrow(tag##_widen(n) + tag##_widen(l)))                \
  RONDO_LANE_KERNEL(tag##_prod, bits, tag##_narrow(tag##_widen(n) * tag##_widen(l)))               \
  RONDO_LANE_KERNEL(tag##_max, bits, tag##_narrow(lanes_max(tag##_widen(n), tag##_widen(l))))      \
  RONDO_LANE_KERNEL(tag##_min, bits, tag##_narrow(lanes_min(tag##_widen(n), tag##_widen(l))))      \
  RONDO_LANE_KERNEL(tag##_scaled_sum, bits,                                                        \
                    tag##_narrow(tag##_widen(n) + tag##_widen(tag##_narrow(tag##_widen(l) * f))))  \
  RONDO_LANE_KERNEL(tag##_scale, bits, tag##_narrow(tag##_widen(l) * f))

RONDO_SMALL_KERNELS(f16, 16)
RONDO_SMALL_KERNELS(bf16, 16)
RONDO_SMALL_KERNELS(e4m3, 8)
RONDO_SMALL_KERNELS(e5m2, 8)

#else

#define RONDO_SMALL_KERNELS(tag, T, widen, narrow)                                                 \
  RONDO_KERNEL(tag##_sum, T, int, 0, narrow(widen(ns[i]) + widen(ls[i])))                          \
  RONDO_KERNEL(tag##_prod, T, int, 0, narrow(widen(ns[i]) * widen(ls[i])))                         \
  RONDO_KERNEL(tag##_max, T, int, 0, narrow(rondo_float_max(widen(ns[i]), widen(ls[i]))))          \
  RONDO_KERNEL(tag##_min, T, int, 0, narrow(rondo_float_min(widen(ns[i]), widen(ls[i]))))          \
  RONDO_KERNEL(tag##_scaled_sum, T, float, rondo_float_of_bits((uint32_t)argument),                \
               narrow(widen(ns[i]) + widen(narrow(widen(ls[i]) * f))))                             \
  RONDO_KERNEL(tag##_scale, T, float, rondo_float_of_bits((uint32_t)argument),                     \
               narrow(widen(ls[i]) * f))

RONDO_SMALL_KERNELS(f16, uint16_t, rondo_float_of_float16, rondo_float16_of_float)
RONDO_SMALL_KERNELS(bf16, uint16_t, rondo_float_of_bfloat16, rondo_bfloat16_of_float)
RONDO_SMALL_KERNELS(e4m3, uint8_t, rondo_float_of_float8_e4m3, rondo_float8_e4m3_of_float)
RONDO_SMALL_KERNELS(e5m2, uint8_t, rondo_float_of_float8_e5m2, rondo_float8_e5m2_of_float)

#endif

// ---- quantised messages ----

typedef float unaligned_float __attribute__((aligned(1)));

static uint32_t floats_most(const unaligned_float *values, uint64_t count) {
  uint32_t most = 0;
  _Pragma("omp simd reduction(max : most)") for (uint64_t i = 0; i < count; i++) {
    const uint32_t magnitude = rondo_quantise_magnitude(values[i]);
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

#define RONDO_QUANTISE_KERNELS(tag, most_code)                                                     \
  __attribute__((flatten)) static void tag##_quantise(void *dst, const void *src,                  \
                                                      uint64_t count) {                            \
    const unaligned_float *values = src;                                                           \
    unsigned char *codes = dst;                                                                    \
    for (uint64_t left = count, n; left; left -= n, values += n, codes += n) {                     \
      n = rondo_geometry_min(left, RONDO_QUANTISED_ELEMS);                                         \
      const float scale = rondo_quantise_scale(floats_most(values, n), most_code);                 \
      const float inverse = 1.0f / scale;                                                          \
      memcpy(codes, &scale, sizeof scale);                                                         \
      codes += sizeof scale;                                                                       \
      _Pragma("omp simd") for (uint64_t i = 0; i < n; i++) codes[i] =                              \
          rondo_quantise_##tag(values[i], inverse);                                                \
    }                                                                                              \
  }                                                                                                \
  __attribute__((flatten)) static void tag##_dequantise(void *dst, const void *src,                \
                                                        uint64_t count) {                          \
    unaligned_float *values = dst;                                                                 \
    const unsigned char *codes = src;                                                              \
    for (uint64_t left = count, n; left; left -= n, values += n, codes += n) {                     \
      float scale;                                                                                 \
      n = rondo_geometry_min(left, RONDO_QUANTISED_ELEMS);                                         \
      memcpy(&scale, codes, sizeof scale);                                                         \
      codes += sizeof scale;                                                                       \
      _Pragma("omp simd") for (uint64_t i = 0; i < n; i++) values[i] =                             \
          rondo_dequantise_##tag(codes[i], scale);                                                 \
    }                                                                                              \
  }

RONDO_QUANTISE_KERNELS(int8, 127.0f)
RONDO_QUANTISE_KERNELS(float8_e4m3, 448.0f)

#define RONDO_INTEGER_ROW(sign, bits)                                                              \
  { i##bits##_sum, i##bits##_prod, sign##bits##_max, sign##bits##_min }
#define RONDO_FLOATING_ROW(tag)                                                                    \
  { tag##_sum, tag##_prod, tag##_max, tag##_min }

// In the order of enum rondo_dtype.
const struct rondo_move_table RONDO_MOVE_TABLE = {
    .reduce = {RONDO_INTEGER_ROW(s, 8), RONDO_INTEGER_ROW(u, 8), RONDO_INTEGER_ROW(s, 32),
               RONDO_INTEGER_ROW(u, 32), RONDO_INTEGER_ROW(s, 64), RONDO_INTEGER_ROW(u, 64),
               RONDO_FLOATING_ROW(f16), RONDO_FLOATING_ROW(f32), RONDO_FLOATING_ROW(f64),
               RONDO_FLOATING_ROW(bf16), RONDO_FLOATING_ROW(e4m3), RONDO_FLOATING_ROW(e5m2)},
    .scaled_sum = {i8_scaled_sum, i8_scaled_sum, i32_scaled_sum, i32_scaled_sum, i64_scaled_sum,
                   i64_scaled_sum, f16_scaled_sum, f32_scaled_sum, f64_scaled_sum, bf16_scaled_sum,
                   e4m3_scaled_sum, e5m2_scaled_sum},
    .scale = {i8_scale, i8_scale, i32_scale, i32_scale, i64_scale, i64_scale, f16_scale, f32_scale,
              f64_scale, bf16_scale, e4m3_scale, e5m2_scale},
    .divide = {s8_divide, u8_divide, s32_divide, u32_divide, s64_divide, u64_divide},
    .quantise = {int8_quantise, float8_e4m3_quantise},
    .dequantise = {int8_dequantise, float8_e4m3_dequantise},
};
