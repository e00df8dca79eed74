#include "tests/explore/values.h"

#include <math.h>
#include <string.h>

#define VALUES 128u

double explore_scalar(uint32_t position) { return position == 0 ? 2.0 : 1.0; }

uint32_t explore_pair_count(const struct explore_period *d, uint32_t from, uint32_t to) {
  uint64_t drawn = random_mix((uint64_t)d->count << 32 | from * EXPLORE_RANKS | to);
  return drawn % 3 == 0 ? 0 : (uint32_t)(drawn >> 32) % (d->count + 1);
}

static uint32_t pairs_count(const struct explore_period *d, uint32_t position, uint32_t before,
                            int sends) {
  uint32_t total = 0;
  for (uint32_t i = 0; i < before; i++)
    total += sends ? explore_pair_count(d, position, i) : explore_pair_count(d, i, position);
  return total;
}

uint32_t explore_send_count(const struct explore_period *d, uint32_t position) {
  if (d->kind == RONDO_ALL_TO_ALL_V)
    return pairs_count(d, position, d->nranks, 1);
  int all =
      d->kind == RONDO_REDUCE_SCATTER || d->kind == RONDO_SCATTER || d->kind == RONDO_ALL_TO_ALL;
  return all ? d->count * d->nranks : d->count;
}

uint32_t explore_recv_count(const struct explore_period *d, uint32_t position) {
  if (d->kind == RONDO_ALL_TO_ALL_V)
    return pairs_count(d, position, d->nranks, 0);
  int all = d->kind == RONDO_ALL_GATHER || d->kind == RONDO_GATHER || d->kind == RONDO_ALL_TO_ALL;
  return all ? d->count * d->nranks : d->count;
}

struct explore_key explore_key_make(uint64_t seed, const struct explore_coll *coll, uint32_t period,
                                    uint32_t run) {
  struct explore_key key = {&coll->periods[period], 0};
  key.salt = random_mix(random_mix(seed) ^ (coll->id << 32 | period << 16 | run));
  return key;
}

// ------------------------------------------------------------------ numbers ---

static int64_t value_of(const struct explore_key *key, uint32_t position, uint32_t element) {
  const struct explore_period *d = key->period;
  uint64_t drawn = random_mix(key->salt + ((uint64_t)position << 32 | element)) >> 32;
  int small = d->dtype == RONDO_FLOAT8_E4M3 || d->dtype == RONDO_FLOAT8_E5M2;
  int floating = d->dtype >= RONDO_FLOAT16;
  if (d->kind == RONDO_ALL_GATHER || d->kind >= RONDO_BROADCAST)
    return (int64_t)(drawn % 8);
  if (d->redop == RONDO_PROD)
    return 1 + (int64_t)(drawn % 2);
  if (d->redop == RONDO_MAX || d->redop == RONDO_MIN)
    return (int64_t)(drawn % 8);
  if (d->redop == RONDO_AVG && floating)
    return 4 * (int64_t)(drawn % 2);
  return (int64_t)(drawn % (small ? 2 : 10));
}

static int64_t combine(int redop, int64_t a, int64_t b) {
  switch (redop) {
  case RONDO_PROD:
    return a * b;
  case RONDO_MAX:
    return a > b ? a : b;
  case RONDO_MIN:
    return a < b ? a : b;
  default:
    return a + b;
  }
}

static int64_t reduced(const struct explore_key *key, uint32_t element) {
  const struct explore_period *d = key->period;
  int64_t total = 0;
  for (uint32_t i = 0; i < d->nranks; i++) {
    int64_t value = value_of(key, i, element);
    if (d->redop == RONDO_PREMUL_SUM)
      value *= (int64_t)explore_scalar(i);
    total = i == 0 ? value : combine(d->redop, total, value);
  }
  return d->redop == RONDO_AVG && d->nranks ? total / d->nranks : total;
}

// Element of an all-to-all-v that a member receives.
static int64_t exchanged(const struct explore_key *key, uint32_t position, uint32_t element) {
  const struct explore_period *d = key->period;
  uint32_t from = 0;
  while (element >= explore_pair_count(d, from, position))
    element -= explore_pair_count(d, from++, position);
  return value_of(key, from, pairs_count(d, from, position, 1) + element);
}

static int64_t expected(const struct explore_key *key, uint32_t position, uint32_t element) {
  const struct explore_period *d = key->period;
  switch (d->kind) {
  case RONDO_ALL_GATHER:
  case RONDO_GATHER:
    return value_of(key, element / d->count, element % d->count);
  case RONDO_ALL_TO_ALL:
    return value_of(key, element / d->count, position * d->count + element % d->count);
  case RONDO_ALL_TO_ALL_V:
    return exchanged(key, position, element);
  case RONDO_SCATTER:
    return value_of(key, d->root, position * d->count + element);
  case RONDO_SEND_RECV:
  case RONDO_BROADCAST:
    return value_of(key, d->root, element);
  case RONDO_REDUCE_SCATTER:
    return reduced(key, position * d->count + element);
  default:
    return reduced(key, element);
  }
}

// -------------------------------------------------------------------- codes ---

// A whole number in a floating format with `mantissa` bits and the bias given.
static uint64_t float_code(uint64_t value, uint32_t mantissa, uint32_t bias) {
  uint32_t exponent = 0;
  if (value == 0)
    return 0;
  while (value >> (exponent + 1))
    exponent++;
  uint64_t fraction = value ^ (UINT64_C(1) << exponent);
  uint64_t field =
      exponent > mantissa ? fraction >> (exponent - mantissa) : fraction << (mantissa - exponent);
  return (uint64_t)(exponent + bias) << mantissa | field;
}

static uint64_t code_of(int dtype, uint64_t value) {
  switch (dtype) {
  case RONDO_FLOAT16:
    return float_code(value, 10, 15);
  case RONDO_BFLOAT16:
    return float_code(value, 7, 127);
  case RONDO_FLOAT32:
    return float_code(value, 23, 127);
  case RONDO_FLOAT64:
    return float_code(value, 52, 1023);
  case RONDO_FLOAT8_E4M3:
    return float_code(value, 3, 7);
  case RONDO_FLOAT8_E5M2:
    return float_code(value, 2, 15);
  default:
    return value;
  }
}

// Codes of the numbers below VALUES, computed once.
static const uint64_t *codes_of(int dtype) {
  static uint64_t codes[RONDO_DTYPE_COUNT][VALUES];
  if (codes[dtype][1] == 0)
    for (uint32_t i = 0; i < VALUES; i++)
      codes[dtype][i] = code_of(dtype, i);
  return codes[dtype];
}

void explore_fill(const struct explore_key *key, uint32_t position, void *buffer, uint32_t first,
                  uint32_t count) {
  const uint64_t *codes = codes_of(key->period->dtype);
  size_t bytes = rondo_dtype_bytes(key->period->dtype);
  for (uint32_t i = 0; i < count; i++)
    memcpy((char *)buffer + i * bytes, &codes[value_of(key, position, first + i)], bytes);
}

// The bounds of docs/numerics.md, for inputs that are not negative.
static double quantisation_bound(const struct explore_period *d, double exact) {
  double n = d->nranks;
  double most = d->redop == RONDO_AVG ? 4 : 9 * n; // sum of the inputs of any element
  double rounding = 1e-5 * (1 + most);
  if (d->quantisation == RONDO_QUANTISE_INT8)
    return n * pow(255.0 / 254, n - 1) * most / 254 + rounding;
  return n * pow(17.0 / 16, n - 1) * fmax(exact / 16, most / 448 / 1024) + rounding;
}

static int64_t find_inexact(const struct explore_key *key, uint32_t position, const void *recv) {
  for (uint32_t i = 0; i < key->period->count; i++) {
    float got;
    double exact = (double)expected(key, position, i);
    memcpy(&got, (const char *)recv + i * sizeof got, sizeof got);
    if (!(fabs(got - exact) <= quantisation_bound(key->period, exact)))
      return i;
  }
  return -1;
}

int64_t explore_find_wrong(const struct explore_key *key, uint32_t position, const void *recv) {
  const uint64_t *codes = codes_of(key->period->dtype);
  size_t bytes = rondo_dtype_bytes(key->period->dtype);
  uint32_t count = explore_recv_count(key->period, position);
  if (key->period->quantisation && key->period->nranks > 1)
    return find_inexact(key, position, recv);
  for (uint32_t i = 0; i < count; i++)
    if (memcmp((const char *)recv + i * bytes, &codes[expected(key, position, i)], bytes) != 0)
      return i;
  return -1;
}

int64_t explore_find_changed(const struct explore_key *key, uint32_t position, const void *send) {
  const uint64_t *codes = codes_of(key->period->dtype);
  size_t bytes = rondo_dtype_bytes(key->period->dtype);
  uint32_t count = explore_send_count(key->period, position);
  for (uint32_t i = 0; i < count; i++)
    if (memcmp((const char *)send + i * bytes, &codes[value_of(key, position, i)], bytes) != 0)
      return i;
  return -1;
}
