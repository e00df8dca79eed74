// Translates the public reductions to those that the kernels of both backends compute.
#include "daemon/core/move.h"

#include <assert.h>

#include "daemon/core/convert_core.h"
#include "rondo/types.h"

static int dtype_is_integer(int dtype) { return dtype <= RONDO_UINT64; }

// By enum rondo_redop. Averages and pre-multiplied sums are sums.
static const uint8_t BASES[RONDO_REDOP_COUNT] = {[RONDO_PROD] = RONDO_REDUCE_PROD,
                                                 [RONDO_MAX] = RONDO_REDUCE_MAX,
                                                 [RONDO_MIN] = RONDO_REDUCE_MIN};

// The scalar as an integer of the dtype: truncated, and clamped, because the C conversion is
// undefined out of range. NaN is 0.
static uint64_t integer_factor(int dtype, double scalar) {
  static const struct {
    int64_t min;
    uint64_t max;
  } ranges[] = {[RONDO_INT8] = {INT8_MIN, INT8_MAX},    [RONDO_UINT8] = {0, UINT8_MAX},
                [RONDO_INT32] = {INT32_MIN, INT32_MAX}, [RONDO_UINT32] = {0, UINT32_MAX},
                [RONDO_INT64] = {INT64_MIN, INT64_MAX}, [RONDO_UINT64] = {0, UINT64_MAX}};
  if (scalar != scalar)
    return 0;
  if (scalar <= (double)ranges[dtype].min)
    return (uint64_t)ranges[dtype].min;
  // (double)max may be max + 1, which is as good a bound: no double is between the two.
  if (scalar >= (double)ranges[dtype].max)
    return ranges[dtype].max;
  return scalar < 0 ? (uint64_t)(int64_t)scalar : (uint64_t)scalar;
}

// The scalar rounded once to the dtype, as bits of the compute type.
static uint64_t floating_factor(int dtype, double scalar) {
  const float odd = rondo_float_of_double_odd(scalar);
  switch (dtype) {
  case RONDO_FLOAT64:
    return rondo_double_bits(scalar);
  case RONDO_FLOAT16:
    return rondo_float_bits(rondo_float_of_float16(rondo_float16_of_float(odd)));
  case RONDO_BFLOAT16:
    return rondo_float_bits(rondo_float_of_bfloat16(rondo_bfloat16_of_float(odd)));
  case RONDO_FLOAT8_E4M3:
    return rondo_float_bits(rondo_float_of_float8_e4m3(rondo_float8_e4m3_of_float(odd)));
  case RONDO_FLOAT8_E5M2:
    return rondo_float_bits(rondo_float_of_float8_e5m2(rondo_float8_e5m2_of_float(odd)));
  default:
    return rondo_float_bits((float)scalar);
  }
}

struct rondo_reduction rondo_reduction_lower(int dtype, int redop, double scalar, uint32_t nranks) {
  assert(redop >= 0 && redop < RONDO_REDOP_COUNT && dtype >= 0 && dtype < RONDO_DTYPE_COUNT);
  struct rondo_reduction r = {.dtype = (uint8_t)dtype, .base = BASES[redop], .divisor = nranks};
  if (redop == RONDO_AVG && nranks > 1) {
    if (dtype_is_integer(dtype)) {
      r.divide = 1;
    } else {
      // The factor stays in the compute type: 1/n rounded to a float8 would be off by percents.
      r.scale = 1;
      r.factor = dtype == RONDO_FLOAT64 ? rondo_double_bits(1.0 / nranks)
                                        : rondo_float_bits(1.0f / (float)nranks);
    }
  }
  if (redop == RONDO_PREMUL_SUM) {
    r.scale = 1;
    r.factor =
        dtype_is_integer(dtype) ? integer_factor(dtype, scalar) : floating_factor(dtype, scalar);
  }
  return r;
}
