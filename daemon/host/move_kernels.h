// The kernels of one instruction set: the template of move_base.c, move_avx2.c and
// move_avx512.c, which define RONDO_MOVE_TABLE and are compiled with different -m flags.
//
// Loops are plain C over the scalar functions of daemon/core/convert_core.h, and the
// compiler vectorises them: every level computes the same expression for an element, so
// levels cannot differ in bits. "omp simd" says what the contract of move.h says, that
// element i depends on elements i alone (dst may be local or incoming); without it the
// compiler would fall back to scalars for in-place calls.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "daemon/core/convert_core.h"
#include "daemon/host/move_host.h"

// Defines kernel `name` over elements of type T: dst[i] = expression of ls[i], ns[i] and
// the factor or divisor f of type A, made from the bits in `argument`. "flatten" inlines
// the conversions, whatever the compiler thinks of their size.
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

// Division in floating point, because that vectorises. It is exact: a quotient x / d that
// is no integer is at least 1/d away from the next one, which is more than the rounding
// error where the mantissa has more than twice the bits of x; the conversion truncates.
RONDO_KERNEL(s8_divide, int8_t, float, (float)argument, (int32_t)((float)ls[i] / f))
RONDO_KERNEL(u8_divide, uint8_t, float, (float)argument, (int32_t)((float)ls[i] / f))
RONDO_KERNEL(s32_divide, int32_t, double, (double)argument, (double)ls[i] / f)
RONDO_KERNEL(u32_divide, uint32_t, double, (double)argument, (double)ls[i] / f)
RONDO_KERNEL(s64_divide, int64_t, int64_t, (int64_t)argument, ls[i] / f)
RONDO_KERNEL(u64_divide, uint64_t, uint64_t, argument, ls[i] / f)

// ---- floating types: widened to C, computed, narrowed to T ----

#define RONDO_FLOATING_KERNELS(tag, T, C, widen, narrow, make_f)                                   \
  RONDO_KERNEL(tag##_sum, T, C, 0, narrow(widen(ns[i]) + widen(ls[i])))                            \
  RONDO_KERNEL(tag##_prod, T, C, 0, narrow(widen(ns[i]) * widen(ls[i])))                           \
  RONDO_KERNEL(tag##_max, T, C, 0, narrow(rondo_##C##_max(widen(ns[i]), widen(ls[i]))))            \
  RONDO_KERNEL(tag##_min, T, C, 0, narrow(rondo_##C##_min(widen(ns[i]), widen(ls[i]))))            \
  RONDO_KERNEL(tag##_scaled_sum, T, C, make_f,                                                     \
               narrow(widen(ns[i]) + widen(narrow(widen(ls[i]) * f))))                             \
  RONDO_KERNEL(tag##_scale, T, C, make_f, narrow(widen(ls[i]) * f))

#define RONDO_FLOAT_FACTOR rondo_float_of_bits((uint32_t)argument)

RONDO_FLOATING_KERNELS(f32, float, float, , rondo_float_settle, RONDO_FLOAT_FACTOR)
RONDO_FLOATING_KERNELS(f64, double, double, , rondo_double_settle, rondo_double_of_bits(argument))
RONDO_FLOATING_KERNELS(bf16, uint16_t, float, rondo_float_of_bfloat16, rondo_bfloat16_of_float,
                       RONDO_FLOAT_FACTOR)
RONDO_FLOATING_KERNELS(e4m3, uint8_t, float, rondo_float_of_float8_e4m3, rondo_float8_e4m3_of_float,
                       RONDO_FLOAT_FACTOR)
RONDO_FLOATING_KERNELS(e5m2, uint8_t, float, rondo_float_of_float8_e5m2, rondo_float8_e5m2_of_float,
                       RONDO_FLOAT_FACTOR)
RONDO_FLOATING_KERNELS(f16, uint16_t, float, rondo_float_of_float16, rondo_float16_of_float,
                       RONDO_FLOAT_FACTOR)

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
};
