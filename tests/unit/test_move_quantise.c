// Quantised messages, on every instruction set of the host and as the movers of a CUDA block make
// them, against a slow reference: the rules of docs/numerics.md in doubles. Any count, alignment
// and input, in place and not.
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "daemon/core/move.h"
#include "daemon/host/move_host.h"
#include "daemon/plan/geometry_core.h"
#include "tests/support/load.h"
#include "tests/support/named.h"
#include "tests/unit/test_quantise_reference.h"

#define MOST 3000u // elements
#define GUARD_BYTES 64u
#define GUARD 0xa5

static float local_values[MOST], sums[MOST], expected[MOST];
static unsigned char incoming[2 * MOST], packed[2 * MOST];
static unsigned char got_packed[2 * MOST + 3 * GUARD_BYTES];
static unsigned char got[4 * MOST + 3 * GUARD_BYTES], incoming_at[2 * MOST + GUARD_BYTES];
static uint64_t state_of_random = 12345;

static uint64_t random_next(void) { // xorshift64*
  state_of_random ^= state_of_random << 13;
  state_of_random ^= state_of_random >> 7;
  state_of_random ^= state_of_random << 17;
  return state_of_random * UINT64_C(2685821657736338717);
}

// ------------------------------------------------------------------- inputs ---

// Values of one size, with zeros, and some that are 2^-20 to 2^20 times as large.
static float random_value(int exponent) {
  uint64_t random = random_next();
  float value = (float)(int32_t)(random >> 32) * 0x1p-31f;
  int more = random % 16 == 0 ? (int)(random >> 8 & 63) - 32 : 0;
  return random % 16 == 1 ? 0 : ldexpf(value, exponent + more);
}

// What the sizes are about: usual, the least and greatest of floats, and the smallest scale.
static const int exponents[] = {0, 100, 126, -100, -110, -117, -126, -140};
#define EXPONENTS (sizeof exponents / sizeof *exponents)

static void values_fill(float *values, uint64_t count, int exponent, bool has_others) {
  static const uint32_t others[] = {0x7fffffff, 0x7f800000, 0xff800000, 0x80000000,
                                    0x7f7fffff, 0xff7fffff, 0x00000001, 0x7f800001};
  for (uint64_t i = 0; i < count; i++) {
    values[i] = random_value(exponent);
    if (has_others && random_next() % 64 == 0)
      values[i] = quantise_float(others[random_next() % 8]);
  }
}

// -------------------------------------------------------------------- trials ---

struct trial {
  int quantisation;
  uint64_t count;
  struct rondo_reduction r;
  bool reduces, copies, in_place;
  uint32_t shift; // off alignment, of each buffer another one
};

static void sums_compute(const struct trial *t) {
  float scale = 0;
  for (uint64_t i = 0; i < t->count; i++) {
    const unsigned char *from = incoming + rondo_quantised_bytes(i / 256 * 256);
    float value = local_values[i];
    if (t->r.scale)
      value = quantise_settled(value * quantise_float((uint32_t)t->r.factor));
    memcpy(&scale, from, 4);
    if (t->reduces)
      value = quantise_settled(value + quantise_value(t->quantisation, from[4 + i % 256], scale));
    sums[i] = value;
  }
}

static void untouched_check(const unsigned char *at, uint64_t bytes) {
  for (uint32_t i = 0; i < GUARD_BYTES; i++)
    if (at[-1 - (int)i] != GUARD || at[bytes + i] != GUARD)
      fail_msg("byte written outside of %u", (unsigned)bytes);
}

static void trial_run(const struct trial *t) {
  uint64_t bytes = rondo_quantised_bytes(t->count), float_bytes = 4 * t->count;
  memset(got_packed, GUARD, sizeof got_packed);
  memset(got, GUARD, sizeof got);
  unsigned char *to = got_packed + GUARD_BYTES + t->shift;
  unsigned char *dst = got + GUARD_BYTES + 3 * t->shift % 64;
  unsigned char *from = incoming_at + 5 * t->shift % 64;
  memcpy(from, incoming, bytes);
  if (t->in_place)
    memcpy(dst, local_values, float_bytes);
  sums_compute(t);
  quantise_reference(t->quantisation, sums, t->count, packed, expected);
  rondo_move_quantise(&t->r, t->quantisation, to, t->copies ? dst : NULL,
                      t->in_place ? (void *)dst : local_values, t->reduces ? from : NULL, t->count);
  for (uint64_t i = 0; i < bytes; i++)
    if (to[i] != packed[i])
      fail_msg("quantisation %d, %u elements, reduces %d scale %d: byte %u of the message is %02x, "
               "expected %02x",
               t->quantisation, (unsigned)t->count, t->reduces, t->r.scale, (unsigned)i, to[i],
               packed[i]);
  untouched_check(to, bytes);
  if (t->copies) {
    assert_memory_equal(dst, expected, float_bytes);
    untouched_check(dst, float_bytes);
  }
  memset(dst, GUARD, float_bytes);
  rondo_move_dequantise(t->quantisation, dst, to, t->count);
  assert_memory_equal(dst, expected, float_bytes);
  untouched_check(dst, float_bytes);
}

// Values, with a message of others, for each size, count, reduction, place and alignment.
static void sweep(bool has_others) {
  static const uint32_t counts[] = {0,   1,   2,   15,  16,   17,   255,  256,
                                    257, 511, 512, 513, 1023, 1024, 1025, 2999};
  const size_t step = rondo_test_load(1, 3);
  for (size_t k = 0; k < 2 * EXPONENTS * (sizeof counts / sizeof *counts); k += step) {
    struct trial t = {.quantisation = 1 + (int)(k & 1)};
    int exponent = exponents[(k >> 1) % EXPONENTS];
    t.count = counts[(k >> 1) / EXPONENTS];
    t.r.dtype = RONDO_FLOAT32;
    t.r.factor = reference_bits(RONDO_FLOAT32, 1.0 / 3);
    values_fill(sums, t.count, exponent, has_others);
    quantise_reference(t.quantisation, sums, t.count, incoming, expected);
    values_fill(local_values, t.count, exponent, has_others);
    for (unsigned how = 0; how < 16; how++) {
      t.reduces = how & 1;
      t.copies = how & 2;
      t.r.scale = how >> 2 & 1;
      t.in_place = (how & 8) && t.copies;
      t.shift = how == 0 ? 0 : (uint32_t)(random_next() % 17);
      trial_run(&t);
    }
  }
}

static void at_each_level(void (*call)(bool), bool argument) {
  for (int level = 0; level < RONDO_MOVE_LEVEL_COUNT; level++) {
    if (!rondo_move_level_is_supported(level))
      continue;
    rondo_move_level_select(level);
    call(argument);
  }
}

static void messages_are_those_of_the_reference(void **state) {
  (void)state;
  at_each_level(sweep, false);
}

static void what_is_not_finite_becomes_nan_and_spoils_no_other_element(void **state) {
  (void)state;
  at_each_level(sweep, true);
}

// --------------------------------------------------------------------- errors ---

static void errors_check(bool unused) {
  (void)unused;
  static const struct rondo_reduction plain = {.dtype = RONDO_FLOAT32};
  double worst[RONDO_QUANTISATION_COUNT] = {0};
  for (uint32_t round = 0; round < 200; round++) {
    int quantisation = 1 + (int)(round & 1);
    float *back = (float *)(void *)got;
    double most = 0;
    values_fill(local_values, 256, exponents[round / 2 % EXPONENTS], false);
    for (uint32_t i = 0; i < 256; i++)
      most = fabs((double)local_values[i]) > most ? fabs((double)local_values[i]) : most;
    rondo_move_quantise(&plain, quantisation, packed, back, local_values, NULL, 256);
    for (uint32_t i = 0; i < 256; i++) {
      double error = fabs((double)back[i] - (double)local_values[i]);
      double bound = quantise_bound(quantisation, local_values[i], most);
      worst[quantisation] =
          error / bound > worst[quantisation] ? error / bound : worst[quantisation];
    }
  }
  // Neither more than the bound, nor a bound that says nothing.
  for (int quantisation = 1; quantisation < RONDO_QUANTISATION_COUNT; quantisation++)
    assert_true(worst[quantisation] <= 1 && worst[quantisation] > 0.9);
}

static void one_quantisation_errs_by_the_documented_bound_at_most(void **state) {
  (void)state;
  at_each_level(errors_check, false);
}

// All floats next to the largest, where 127 × (largest / 127) would overflow.
static void the_largest_floats_stay_finite(void **state) {
  (void)state;
  static const struct rondo_reduction plain = {.dtype = RONDO_FLOAT32};
  for (uint32_t less = 0; less < 4096; less++) {
    float value = quantise_float(0x7f7fffff - less), back = 0;
    for (int quantisation = 1; quantisation < RONDO_QUANTISATION_COUNT; quantisation++) {
      rondo_move_quantise(&plain, quantisation, packed, &back, &value, NULL, 1);
      assert_true(isfinite(back) && back >= value * 0.999999f);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_are_those_of_the_reference),
      cmocka_unit_test(what_is_not_finite_becomes_nan_and_spoils_no_other_element),
      cmocka_unit_test(one_quantisation_errs_by_the_documented_bound_at_most),
      cmocka_unit_test(the_largest_floats_stay_finite),
  };
  return cmocka_run_group_tests_name("move_quantise", tests, NULL, NULL);
}
