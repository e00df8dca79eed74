// What the movers of a CUDA block compute for one element: the device's side of the kernels of
// daemon/host. Included by cuda_move_core.h.
#ifndef RONDO_DAEMON_CUDA_ELEMENT_CORE_H
#define RONDO_DAEMON_CUDA_ELEMENT_CORE_H

#include <stdint.h>

#include "base/platform.h"
#include "daemon/core/convert_core.h"
#include "daemon/core/move.h"
#include <rondo/types.h>

struct rondo_mover_op {
  uint64_t factor;
  uint32_t divisor;
  uint8_t dtype, base;   // as in struct rondo_reduction
  uint8_t scale, divide; // 1: multiply before the reduction; divide after it
  uint8_t reduces;       // 0: `incoming` is not read
  uint8_t quantisation;  // enum rondo_quantisation
  uint8_t reserved[6];
};

// Provided by the driver: the conversions that processors have instructions for, and the sum of two
// floats, by their codes.
RONDO_FN float rondo_mover_widen_float16(uint16_t code);
RONDO_FN uint16_t rondo_mover_narrow_float16(float value);
RONDO_FN uint16_t rondo_mover_narrow_bfloat16(float value);
RONDO_FN uint32_t rondo_mover_add_float32(uint32_t n, uint32_t l);

// Elements are passed as their codes, in the low bits.

#define RONDO_ELEMENT_INTEGERS(tag, S, U, D, divide_in)                                            \
  RONDO_FN uint64_t rondo_element_scale_##tag(uint64_t l, uint64_t factor) {                       \
    return (U)((U)l * (U)factor);                                                                  \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_reduce_##tag(uint32_t base, uint64_t n, uint64_t l) {            \
    const S ns = (S)n;                                                                             \
    const S ls = (S)l;                                                                             \
    if (base == RONDO_REDUCE_SUM)                                                                  \
      return (U)((U)n + (U)l);                                                                     \
    if (base == RONDO_REDUCE_PROD)                                                                 \
      return (U)((U)n * (U)l);                                                                     \
    if (base == RONDO_REDUCE_MAX)                                                                  \
      return (U)(ns > ls ? ns : ls);                                                               \
    return (U)(ns < ls ? ns : ls);                                                                 \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_divide_##tag(uint64_t x, uint32_t divisor) {                     \
    return (U)(S)(D)((divide_in)(S)x / (divide_in)divisor);                                        \
  }

// Floating-point division is exact here, and faster: see daemon/host/move_kernels.h.
RONDO_ELEMENT_INTEGERS(i8, int8_t, uint8_t, int32_t, float)
RONDO_ELEMENT_INTEGERS(u8, uint8_t, uint8_t, int32_t, float)
RONDO_ELEMENT_INTEGERS(i32, int32_t, uint32_t, int64_t, double)
RONDO_ELEMENT_INTEGERS(u32, uint32_t, uint32_t, int64_t, double)
RONDO_ELEMENT_INTEGERS(i64, int64_t, uint64_t, int64_t, int64_t)
RONDO_ELEMENT_INTEGERS(u64, uint64_t, uint64_t, uint64_t, uint64_t)

// `of` makes a T from a code, `to` a code from a T, with the one NaN; `sum` adds two codes.
#define RONDO_ELEMENT_FLOATS(tag, T, of, to, factor_of, sum)                                       \
  RONDO_FN uint64_t rondo_element_scale_##tag(uint64_t l, uint64_t factor) {                       \
    return to(of(l) * factor_of(factor));                                                          \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_reduce_##tag(uint32_t base, uint64_t n, uint64_t l) {            \
    if (base == RONDO_REDUCE_SUM)                                                                  \
      return sum(of, to, n, l);                                                                    \
    const T ns = of(n);                                                                            \
    const T ls = of(l);                                                                            \
    if (base == RONDO_REDUCE_PROD)                                                                 \
      return to(ns * ls);                                                                          \
    return to(base == RONDO_REDUCE_MAX ? rondo_##T##_max(ns, ls) : rondo_##T##_min(ns, ls));       \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_divide_##tag(uint64_t x, uint32_t divisor) {                     \
    (void)divisor;                                                                                 \
    return x;                                                                                      \
  }

#define RONDO_FACTOR_FLOAT(bits) rondo_float_of_bits((uint32_t)(bits))
#define RONDO_OF_F16(code) rondo_mover_widen_float16((uint16_t)(code))
#define RONDO_OF_F32(code) rondo_float_of_bits((uint32_t)(code))
#define RONDO_TO_F32(value) rondo_float_bits(rondo_float_settle(value))
#define RONDO_TO_F64(value) rondo_double_bits(rondo_double_settle(value))
#define RONDO_OF_BF16(code) rondo_float_of_bfloat16((uint16_t)(code))
#define RONDO_OF_E4M3(code) rondo_float_of_float8_e4m3((uint8_t)(code))
#define RONDO_OF_E5M2(code) rondo_float_of_float8_e5m2((uint8_t)(code))
#define RONDO_SUM_OF(of, to, n, l) to(of(n) + of(l))
#define RONDO_SUM_F32(of, to, n, l) rondo_mover_add_float32((uint32_t)(n), (uint32_t)(l))

RONDO_ELEMENT_FLOATS(f16, float, RONDO_OF_F16, rondo_mover_narrow_float16, RONDO_FACTOR_FLOAT,
                     RONDO_SUM_OF)
RONDO_ELEMENT_FLOATS(f32, float, RONDO_OF_F32, RONDO_TO_F32, RONDO_FACTOR_FLOAT, RONDO_SUM_F32)
RONDO_ELEMENT_FLOATS(f64, double, rondo_double_of_bits, RONDO_TO_F64, rondo_double_of_bits,
                     RONDO_SUM_OF)
RONDO_ELEMENT_FLOATS(bf16, float, RONDO_OF_BF16, rondo_mover_narrow_bfloat16, RONDO_FACTOR_FLOAT,
                     RONDO_SUM_OF)
RONDO_ELEMENT_FLOATS(e4m3, float, RONDO_OF_E4M3, rondo_float8_e4m3_of_float, RONDO_FACTOR_FLOAT,
                     RONDO_SUM_OF)
RONDO_ELEMENT_FLOATS(e5m2, float, RONDO_OF_E5M2, rondo_float8_e5m2_of_float, RONDO_FACTOR_FLOAT,
                     RONDO_SUM_OF)

// Bytes of an element. `dtype` is enum rondo_dtype; a table would lie in memory.
RONDO_FN uint32_t rondo_element_bytes(uint32_t dtype) {
  if (dtype == RONDO_INT64 || dtype == RONDO_UINT64 || dtype == RONDO_FLOAT64)
    return 8;
  if (dtype == RONDO_INT32 || dtype == RONDO_UINT32 || dtype == RONDO_FLOAT32)
    return 4;
  return dtype == RONDO_FLOAT16 || dtype == RONDO_BFLOAT16 ? 2 : 1;
}

// The types: X(enum rondo_dtype, tag of the functions above).
#define RONDO_ELEMENT_TYPES(X)                                                                     \
  X(RONDO_INT8, i8)                                                                                \
  X(RONDO_UINT8, u8)                                                                               \
  X(RONDO_INT32, i32)                                                                              \
  X(RONDO_UINT32, u32)                                                                             \
  X(RONDO_INT64, i64)                                                                              \
  X(RONDO_UINT64, u64)                                                                             \
  X(RONDO_FLOAT16, f16)                                                                            \
  X(RONDO_FLOAT32, f32)                                                                            \
  X(RONDO_FLOAT64, f64)                                                                            \
  X(RONDO_BFLOAT16, bf16)                                                                          \
  X(RONDO_FLOAT8_E4M3, e4m3)                                                                       \
  X(RONDO_FLOAT8_E5M2, e5m2)

// The whole operation, in its order.
#define RONDO_ELEMENT_COMPUTE(dtype, tag)                                                          \
  RONDO_FN uint64_t rondo_element_compute_##tag(const struct rondo_mover_op *op, uint64_t n,       \
                                                uint64_t l) {                                      \
    uint64_t x = op->scale ? rondo_element_scale_##tag(l, op->factor) : l;                         \
    x = op->reduces ? rondo_element_reduce_##tag(op->base, n, x) : x;                              \
    return op->divide ? rondo_element_divide_##tag(x, op->divisor) : x;                            \
  }
RONDO_ELEMENT_TYPES(RONDO_ELEMENT_COMPUTE)

// The result for one element.
RONDO_FN uint64_t rondo_element_compute(const struct rondo_mover_op *op, uint64_t n, uint64_t l) {
  switch (op->dtype) {
#define RONDO_COMPUTE_CASE(dtype, tag)                                                             \
  case dtype:                                                                                      \
    return rondo_element_compute_##tag(op, n, l);
    RONDO_ELEMENT_TYPES(RONDO_COMPUTE_CASE)
#undef RONDO_COMPUTE_CASE
  default:
    return rondo_element_compute_e5m2(op, n, l);
  }
}

#endif // RONDO_DAEMON_CUDA_ELEMENT_CORE_H
