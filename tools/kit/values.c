#include "tools/kit/values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <rondo/types.h>

#define BLOCK 512u // elements made at a time, on the stack
#define MAX_PROD_TWOS 6u
#define MAX_SPREAD 7u // maximum and minimum: values 0 … 6, or −3 … 3 where there is a sign

// How a rank's contribution to a sum is made: ±(a(i) + b(rank)), or, where the ranks outnumber the
// integers that the type holds exactly, 1 from `limit` of them and 0 from the others.
struct sum_shape {
  uint32_t limit;  // the largest integer that every partial sum may reach
  uint32_t a_mask; // a(i) is 0 … a_mask
  uint32_t b_mod;  // b(rank) is 1 … b_mod
  bool sparse;
};

static bool dtype_is_signed(int dtype) {
  return dtype != RONDO_UINT8 && dtype != RONDO_UINT32 && dtype != RONDO_UINT64;
}

static bool dtype_is_floating(int dtype) {
  return dtype >= RONDO_FLOAT16 && dtype < RONDO_DTYPE_COUNT;
}

// Integers up to this one are exact in the type.
static uint32_t dtype_exact_limit(int dtype) {
  switch (dtype) {
  case RONDO_INT8:
  case RONDO_UINT8:
    return 127;
  case RONDO_FLOAT16:
    return 2048;
  case RONDO_BFLOAT16:
    return 256;
  case RONDO_FLOAT8_E4M3:
    return 16;
  case RONDO_FLOAT8_E5M2:
    return 8;
  default:
    return 1u << 20;
  }
}

static struct sum_shape sum_shape_make(const struct rondo_kit_values *v) {
  struct sum_shape s = {dtype_exact_limit(v->dtype), 0, 1, false};
  if (v->redop == RONDO_PREMUL_SUM)
    s.limit /= 2; // factors are 1 and 2
  uint32_t each = s.limit / v->rank_count;
  s.sparse = each == 0;
  while (s.a_mask < 127 && 2 * s.a_mask + 1 <= each / 2)
    s.a_mask = 2 * s.a_mask + 1;
  if (each > s.a_mask + 1)
    s.b_mod = each - s.a_mask < 16 ? each - s.a_mask : 16;
  return s;
}

static uint32_t hash_mix(uint64_t index, uint64_t round) {
  uint32_t h = (uint32_t)index * 2654435761u + (uint32_t)(index >> 32) * 40503u +
               (uint32_t)round * 0x9e3779b9u;
  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  return h ^ (h >> 13);
}

// −1 or 1 from the top bit of the hash.
static int32_t hash_sign(uint32_t hash, bool may_be_negative) {
  return may_be_negative && (hash >> 31) ? -1 : 1;
}

double rondo_kit_values_scalar(const struct rondo_kit_values *values, uint32_t rank) {
  if (values->redop != RONDO_PREMUL_SUM)
    return 1;
  return sum_shape_make(values).sparse ? 2 : 1 + rank % 2;
}

static void sum_make_inputs(const struct rondo_kit_values *v, uint32_t rank, uint64_t first,
                            int32_t *out, uint32_t n) {
  struct sum_shape s = sum_shape_make(v);
  bool negative = dtype_is_signed(v->dtype);
  int32_t b = (int32_t)(1 + rank % s.b_mod);
  for (uint32_t i = 0; i < n && s.sparse; i++) {
    uint32_t h = hash_mix(first + i, v->round);
    out[i] = ((h & 0xffffffu) + rank) % v->rank_count < s.limit ? hash_sign(h, negative) : 0;
  }
  for (uint32_t i = 0; i < n && !s.sparse; i++) {
    uint32_t h = hash_mix(first + i, v->round);
    out[i] = hash_sign(h, negative) * ((int32_t)((h >> 8) & s.a_mask) + b);
  }
}

static void sum_make_results(const struct rondo_kit_values *v, uint64_t first, int32_t *out,
                             uint32_t n) {
  struct sum_shape s = sum_shape_make(v);
  bool negative = dtype_is_signed(v->dtype);
  int32_t factors = 0; // of a(i)
  int32_t offset = 0;
  for (uint32_t r = 0; r < v->rank_count; r++) {
    int32_t factor = (int32_t)rondo_kit_values_scalar(v, r);
    factors += factor;
    offset += factor * (int32_t)(1 + r % s.b_mod);
  }
  if (s.sparse) {
    offset = (int32_t)(s.limit * (v->redop == RONDO_PREMUL_SUM ? 2 : 1));
    factors = 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t h = hash_mix(first + i, v->round);
    out[i] = hash_sign(h, negative) * (factors * (int32_t)((h >> 8) & s.a_mask) + offset);
  }
  if (v->redop == RONDO_AVG && !dtype_is_floating(v->dtype))
    for (uint32_t i = 0; i < n; i++)
      out[i] /= (int32_t)v->rank_count;
}

// Products: a few ranks contribute 2, the others 1, and rank 0 the sign.
static void prod_make(const struct rondo_kit_values *v, uint32_t rank, uint64_t first, int32_t *out,
                      uint32_t n) {
  uint32_t most = v->rank_count < MAX_PROD_TWOS ? v->rank_count : MAX_PROD_TWOS;
  bool reduced = rank == RONDO_KIT_REDUCED;
  bool negative = dtype_is_signed(v->dtype) && (reduced || rank == 0);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t h = hash_mix(first + i, v->round);
    uint32_t twos = ((h >> 4) & 0xffffu) % (most + 1);
    int32_t size = reduced ? 1 << twos : 1 + (((h & 0xffffffu) + rank) % v->rank_count < twos);
    out[i] = hash_sign(h, negative) * size;
  }
}

static int32_t extreme_value(const struct rondo_kit_values *v, uint32_t hash, uint32_t rank) {
  int32_t value = (int32_t)(((hash & 0xffffffu) + 5 * rank) % MAX_SPREAD);
  return dtype_is_signed(v->dtype) ? value - (int32_t)(MAX_SPREAD / 2) : value;
}

static void extreme_make(const struct rondo_kit_values *v, uint32_t rank, uint64_t first,
                         int32_t *out, uint32_t n) {
  // Contributions repeat with the rank, so a few ranks show the extreme of all.
  uint32_t ranks = v->rank_count < MAX_SPREAD ? v->rank_count : MAX_SPREAD;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t h = hash_mix(first + i, v->round);
    if (rank != RONDO_KIT_REDUCED) {
      out[i] = extreme_value(v, h, rank);
      continue;
    }
    int32_t best = extreme_value(v, h, 0);
    for (uint32_t r = 1; r < ranks; r++) {
      int32_t next = extreme_value(v, h, r);
      if (v->redop == RONDO_MAX ? next > best : next < best)
        best = next;
    }
    out[i] = best;
  }
}

static void integers_make(const struct rondo_kit_values *v, uint32_t rank, uint64_t first,
                          int32_t *out, uint32_t n) {
  if (v->redop == RONDO_PROD)
    prod_make(v, rank, first, out, n);
  else if (v->redop == RONDO_MAX || v->redop == RONDO_MIN)
    extreme_make(v, rank, first, out, n);
  else if (rank == RONDO_KIT_REDUCED)
    sum_make_results(v, first, out, n);
  else
    sum_make_inputs(v, rank, first, out, n);
}

// The layout of the narrow floating types.
struct narrow {
  int mantissa_bits;
  int bias;
  int bits;
};

static struct narrow narrow_layout(int dtype) {
  switch (dtype) {
  case RONDO_FLOAT16:
    return (struct narrow){10, 15, 16};
  case RONDO_BFLOAT16:
    return (struct narrow){7, 127, 16};
  case RONDO_FLOAT8_E4M3:
    return (struct narrow){3, 7, 8};
  default:
    return (struct narrow){2, 15, 8};
  }
}

static uint32_t narrow_encode(struct narrow f, double value) {
  if (value == 0)
    return 0;
  int exponent;
  double mantissa = frexp(fabs(value), &exponent); // 0.5 … 1
  uint32_t code;
  if (exponent - 1 >= 1 - f.bias)
    code = ((uint32_t)(exponent - 1 + f.bias) << f.mantissa_bits) +
           (uint32_t)nearbyint(ldexp(2 * mantissa - 1, f.mantissa_bits));
  else
    code = (uint32_t)nearbyint(ldexp(fabs(value), f.bias - 1 + f.mantissa_bits));
  return code | (value < 0 ? 1u << (f.bits - 1) : 0);
}

static double narrow_decode(struct narrow f, uint32_t code) {
  uint32_t magnitude = code & ((1u << (f.bits - 1)) - 1);
  uint32_t exponent = magnitude >> f.mantissa_bits;
  double mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  double value = exponent == 0 ? ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                               : ldexp(mantissa + (1u << f.mantissa_bits),
                                       (int)exponent - f.bias - f.mantissa_bits);
  return code >> (f.bits - 1) ? -value : value;
}

static double element_decode(int dtype, const void *element) {
  uint8_t byte;
  uint16_t half;
  float single;
  double wide;
  switch (rondo_dtype_bytes(dtype)) {
  case 1:
    memcpy(&byte, element, 1);
    return narrow_decode(narrow_layout(dtype), byte);
  case 2:
    memcpy(&half, element, 2);
    return narrow_decode(narrow_layout(dtype), half);
  case 4:
    memcpy(&single, element, 4);
    return (double)single;
  default:
    memcpy(&wide, element, 8);
    return wide;
  }
}

// An integer that the type holds exactly and as a normal number: the bits of the float, cut.
static uint32_t narrow_encode_integer(struct narrow f, int32_t value) {
  float wide = (float)value;
  uint32_t bits;
  memcpy(&bits, &wide, sizeof(bits));
  uint32_t magnitude = (bits & 0x7fffffffu) >> (23 - f.mantissa_bits);
  uint32_t rebias = (uint32_t)(127 - f.bias) << f.mantissa_bits;
  return value == 0 ? 0 : (magnitude - rebias) | (bits >> 31) << (f.bits - 1);
}

static void narrow_encode_all(int dtype, double divisor, const int32_t *in, void *out, uint32_t n) {
  struct narrow f = narrow_layout(dtype);
  uint32_t codes[BLOCK];
  if (divisor == 1)
    for (uint32_t i = 0; i < n; i++)
      codes[i] = narrow_encode_integer(f, in[i]);
  else
    for (uint32_t i = 0; i < n; i++)
      codes[i] = narrow_encode(f, in[i] / divisor);
  for (uint32_t i = 0; i < n; i++) {
    if (f.bits == 8)
      ((uint8_t *)out)[i] = (uint8_t)codes[i];
    else
      ((uint16_t *)out)[i] = (uint16_t)codes[i];
  }
}

static void floats_encode(double divisor, const int32_t *in, float *out, uint32_t n) {
  if (divisor == 1) // a division costs more than all the rest
    for (uint32_t i = 0; i < n; i++)
      out[i] = (float)in[i];
  else
    for (uint32_t i = 0; i < n; i++)
      out[i] = (float)(in[i] / divisor);
}

static void integers_encode(int dtype, double divisor, const int32_t *in, void *out, uint32_t n) {
  switch (dtype) {
  case RONDO_INT8:
  case RONDO_UINT8:
    for (uint32_t i = 0; i < n; i++)
      ((int8_t *)out)[i] = (int8_t)in[i];
    return;
  case RONDO_INT32:
  case RONDO_UINT32:
    memcpy(out, in, n * sizeof(in[0]));
    return;
  case RONDO_INT64:
  case RONDO_UINT64:
    for (uint32_t i = 0; i < n; i++)
      ((int64_t *)out)[i] = in[i];
    return;
  case RONDO_FLOAT32:
    floats_encode(divisor, in, out, n);
    return;
  case RONDO_FLOAT64:
    for (uint32_t i = 0; i < n; i++)
      ((double *)out)[i] = in[i] / divisor;
    return;
  default:
    narrow_encode_all(dtype, divisor, in, out, n);
  }
}

// The divisor of the exact integers.
static double values_divisor(const struct rondo_kit_values *v, uint32_t rank) {
  bool average = v->redop == RONDO_AVG && rank == RONDO_KIT_REDUCED && dtype_is_floating(v->dtype);
  return average ? v->rank_count : 1;
}

static void block_make(const struct rondo_kit_values *v, uint32_t rank, uint64_t first,
                       uint64_t *out, uint32_t n) {
  int32_t integers[BLOCK];
  integers_make(v, rank, first, integers, n);
  integers_encode(v->dtype, values_divisor(v, rank), integers, out, n);
}

void rondo_kit_values_fill(const struct rondo_kit_values *values, uint32_t rank, void *out,
                           uint64_t first, uint64_t count) {
  size_t element_bytes = rondo_dtype_bytes(values->dtype);
  uint64_t block[BLOCK]; // the widest element is 8 bytes; `out` may have any alignment
  for (uint64_t done = 0; done < count; done += BLOCK) {
    uint32_t n = count - done < BLOCK ? (uint32_t)(count - done) : BLOCK;
    block_make(values, rank, first + done, block, n);
    memcpy((char *)out + done * element_bytes, block, n * element_bytes);
  }
}

// Allows the rounding of one product and n sums, one a hop.
static bool element_is_close(const struct rondo_kit_values *v, const void *got, const void *want) {
  double epsilon = v->dtype == RONDO_FLOAT64   ? 0x1p-52
                   : v->dtype == RONDO_FLOAT32 ? 0x1p-23
                                               : ldexp(1, -narrow_layout(v->dtype).mantissa_bits);
  double a = element_decode(v->dtype, got);
  double b = element_decode(v->dtype, want);
  return fabs(a - b) <= (v->rank_count + 2) * epsilon * fabs(b);
}

static uint64_t block_wrong(const struct rondo_kit_values *v, bool inexact, const void *got,
                            const void *want, uint32_t n) {
  size_t element_bytes = rondo_dtype_bytes(v->dtype);
  uint64_t wrong = 0;
  for (uint32_t i = 0; i < n; i++) {
    const char *a = (const char *)got + i * element_bytes;
    const char *b = (const char *)want + i * element_bytes;
    if (memcmp(a, b, element_bytes) != 0 && !(inexact && element_is_close(v, a, b)))
      wrong++;
  }
  return wrong;
}

uint64_t rondo_kit_values_wrong(const struct rondo_kit_values *values, uint32_t rank,
                                const void *got, uint64_t first, uint64_t count) {
  size_t element_bytes = rondo_dtype_bytes(values->dtype);
  uint32_t ranks = values->rank_count;
  bool inexact = values_divisor(values, rank) != 1 && (ranks & (ranks - 1)) != 0;
  uint64_t block[BLOCK];
  uint64_t wrong = 0;
  for (uint64_t done = 0; done < count; done += BLOCK) {
    uint32_t n = count - done < BLOCK ? (uint32_t)(count - done) : BLOCK;
    const char *part = (const char *)got + done * element_bytes;
    block_make(values, rank, first + done, block, n);
    if (memcmp(part, block, n * element_bytes) != 0)
      wrong += block_wrong(values, inexact, part, block, n);
  }
  return wrong;
}
