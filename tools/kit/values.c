#include "tools/kit/values.h"

#include <stdbool.h>
#include <string.h>

#include <rondo/types.h>

#define BLOCK 512u        // elements made at a time, on the stack
#define ENOUGH (1u << 20) // results need no larger integers
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

// The floating types. All zero for the others.
static const struct format {
  int mantissa_bits, bias;
} formats[RONDO_DTYPE_COUNT] = {
    [RONDO_FLOAT16] = {10, 15},   [RONDO_BFLOAT16] = {7, 127},  [RONDO_FLOAT32] = {23, 127},
    [RONDO_FLOAT64] = {52, 1023}, [RONDO_FLOAT8_E4M3] = {3, 7}, [RONDO_FLOAT8_E5M2] = {2, 15}};

static bool dtype_is_signed(int dtype) {
  return dtype != RONDO_UINT8 && dtype != RONDO_UINT32 && dtype != RONDO_UINT64;
}

static bool dtype_is_floating(int dtype) { return formats[dtype].mantissa_bits > 0; }

// Integers up to this one are exact in the type.
static uint32_t dtype_exact_limit(int dtype) {
  uint64_t limit = dtype_is_floating(dtype)        ? UINT64_C(2) << formats[dtype].mantissa_bits
                   : rondo_dtype_bytes(dtype) == 1 ? 127
                                                   : ENOUGH;
  return limit < ENOUGH ? (uint32_t)limit : ENOUGH;
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

// A value of a floating type of 8 or 16 bits, rounded: the bits of the float, cut. The result must
// be zero or a normal number.
static uint32_t narrow_encode(struct format f, int sign_bit, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  uint32_t half = 1u << (22 - f.mantissa_bits);
  uint32_t magnitude = ((bits & 0x7fffffffu) + half) >> (23 - f.mantissa_bits);
  uint32_t rebias = (uint32_t)(127 - f.bias) << f.mantissa_bits;
  return value == 0 ? 0 : (magnitude - rebias) | (bits >> 31) << sign_bit;
}

// Multiplies by `factor`, if the type is a floating one.
static void integers_encode(int dtype, double factor, const int32_t *in, void *out, uint32_t n) {
  struct format f = formats[dtype];
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
    for (uint32_t i = 0; i < n; i++)
      ((float *)out)[i] = (float)(in[i] * factor);
    return;
  case RONDO_FLOAT64:
    for (uint32_t i = 0; i < n; i++)
      ((double *)out)[i] = in[i] * factor;
    return;
  case RONDO_FLOAT16:
  case RONDO_BFLOAT16:
    for (uint32_t i = 0; i < n; i++)
      ((uint16_t *)out)[i] = (uint16_t)narrow_encode(f, 15, (float)(in[i] * factor));
    return;
  default:
    for (uint32_t i = 0; i < n; i++)
      ((uint8_t *)out)[i] = (uint8_t)narrow_encode(f, 7, (float)(in[i] * factor));
  }
}

// The ranks by whose number the exact integers are divided: all for an average, else 1.
static uint32_t values_divisor(const struct rondo_kit_values *v, uint32_t rank) {
  bool average = v->redop == RONDO_AVG && rank == RONDO_KIT_REDUCED && dtype_is_floating(v->dtype);
  return average ? v->rank_count : 1;
}

static void block_make(const struct rondo_kit_values *v, uint32_t rank, uint64_t first,
                       uint64_t *out, uint32_t n) {
  int32_t integers[BLOCK];
  integers_make(v, rank, first, integers, n);
  integers_encode(v->dtype, 1.0 / values_divisor(v, rank), integers, out, n);
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

// How far a reduction may be off if its messages are quantised (docs/numerics.md). All ranks give
// an element the same sign, so no partial sum is larger than the largest result.
static double quantisation_bound(const struct rondo_kit_values *v) {
  struct sum_shape s = sum_shape_make(v);
  const double relative = v->quantisation == RONDO_QUANTISE_INT8 ? 1.0 / 254 : 1.0 / 16;
  double most = s.sparse ? s.limit : 0, error = 0;
  for (uint32_t r = 0; r < v->rank_count && !s.sparse; r++)
    most += s.a_mask + 1 + r % s.b_mod;
  for (uint32_t r = 0; r < v->rank_count; r++)
    error += (most + error) * relative;
  return v->redop == RONDO_AVG ? error / v->rank_count : error;
}

static bool element_is_near(const struct rondo_kit_values *v, const void *got, const void *want) {
  float a, b;
  memcpy(&a, got, sizeof a);
  memcpy(&b, want, sizeof b);
  double error = (double)a - (double)b;
  return (error < 0 ? -error : error) <= 1.0001 * quantisation_bound(v);
}

// Allows the rounding of one product and n sums, one a hop: each is less than a unit in the last
// place, and neighbours in a floating type have neighbouring codes.
static bool element_is_close(const struct rondo_kit_values *v, const void *got, const void *want) {
  uint64_t a = 0, b = 0; // the machine is little-endian
  if (v->quantisation)
    return element_is_near(v, got, want);
  memcpy(&a, got, rondo_dtype_bytes(v->dtype));
  memcpy(&b, want, rondo_dtype_bytes(v->dtype));
  return (a > b ? a - b : b - a) <= v->rank_count + 2;
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
  uint32_t divisor = values_divisor(values, rank);
  bool inexact = (divisor & (divisor - 1)) != 0 || (values->quantisation && values->rank_count > 1);
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
