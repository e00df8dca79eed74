// The inputs with which the programs check results: results that are called exact must be exact,
// and a wrong result must be found.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include <rondo/types.h>

#include "tools/kit/barrier.h"
#include "tools/kit/shape.h"
#include "tools/kit/values.h"

#define COUNT 600u // more than one block of values.c
#define MAX_ELEMENT_BYTES 8u

static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64};

struct format {
  int mantissa_bits;
  int bias;
};

static const struct format formats[RONDO_DTYPE_COUNT] = {[RONDO_FLOAT16] = {10, 15},
                                                         [RONDO_BFLOAT16] = {7, 127},
                                                         [RONDO_FLOAT8_E4M3] = {3, 7},
                                                         [RONDO_FLOAT8_E5M2] = {2, 15}};

static double small_float(int dtype, uint32_t code, uint32_t bits) {
  struct format f = formats[dtype];
  double sign = code >> (bits - 1) ? -1 : 1;
  uint32_t fraction = code & ((1u << f.mantissa_bits) - 1);
  int exponent = (int)((code & ((1u << (bits - 1)) - 1)) >> f.mantissa_bits);
  double mantissa = ldexp(fraction, -f.mantissa_bits) + (exponent > 0 ? 1 : 0);
  return sign * ldexp(mantissa, (exponent > 0 ? exponent : 1) - f.bias);
}

static double element(int dtype, const void *data, uint32_t index) {
  switch (dtype) {
  case RONDO_INT8:
    return ((const int8_t *)data)[index];
  case RONDO_UINT8:
    return ((const uint8_t *)data)[index];
  case RONDO_INT32:
    return ((const int32_t *)data)[index];
  case RONDO_UINT32:
    return ((const uint32_t *)data)[index];
  case RONDO_INT64:
    return (double)((const int64_t *)data)[index];
  case RONDO_UINT64:
    return (double)((const uint64_t *)data)[index];
  case RONDO_FLOAT32:
    return (double)((const float *)data)[index];
  case RONDO_FLOAT64:
    return ((const double *)data)[index];
  case RONDO_FLOAT16:
  case RONDO_BFLOAT16:
    return small_float(dtype, ((const uint16_t *)data)[index], 16);
  default:
    return small_float(dtype, ((const uint8_t *)data)[index], 8);
  }
}

// Integers up to this one are exact in the type.
static double exact_up_to(int dtype) {
  switch (dtype) {
  case RONDO_INT8:
    return 127;
  case RONDO_UINT8:
    return 255;
  case RONDO_INT32:
  case RONDO_UINT32:
  case RONDO_INT64:
  case RONDO_UINT64:
    return 0x1p31;
  case RONDO_FLOAT32:
    return 0x1p24;
  case RONDO_FLOAT64:
    return 0x1p53;
  default:
    return ldexp(1, formats[dtype].mantissa_bits + 1);
  }
}

static double fold(int redop, double scalar, double left, double right) {
  switch (redop) {
  case RONDO_PROD:
    return left * right;
  case RONDO_MAX:
    return fmax(left, right);
  case RONDO_MIN:
    return fmin(left, right);
  case RONDO_PREMUL_SUM:
    return left + scalar * right;
  default:
    return left + right;
  }
}

// Folds all ranks' contributions element by element and holds the result against the closed form.
static void check_fold(const struct rondo_kit_values *v, const char *inputs, const char *results) {
  for (uint32_t i = 0; i < COUNT; i++) {
    double value = 0;
    double largest = 0;
    for (uint32_t r = 0; r < v->rank_count; r++) {
      const char *input = inputs + (size_t)r * COUNT * MAX_ELEMENT_BYTES;
      double one = element(v->dtype, input, i);
      double scalar = rondo_kit_values_scalar(v, r);
      value = r == 0 ? scalar * one : fold(v->redop, scalar, value, one);
      largest = fmax(largest, fabs(value));
    }
    if (v->redop == RONDO_PROD) // powers of two are exact far beyond the integers
      assert_true(largest <= 64);
    else
      assert_true(largest <= exact_up_to(v->dtype));
    double got = element(v->dtype, results, i);
    if (v->redop == RONDO_AVG && v->dtype >= RONDO_FLOAT16)
      assert_true(fabs(got * v->rank_count - value) <= 0.25 * fabs(value));
    else if (v->redop == RONDO_AVG)
      assert_true(got == trunc(value / v->rank_count));
    else
      assert_true(got == value);
  }
}

static void fold_of_the_inputs_is_the_result(void **state) {
  (void)state;
  char *inputs = malloc((size_t)64 * COUNT * MAX_ELEMENT_BYTES);
  char *results = malloc((size_t)COUNT * MAX_ELEMENT_BYTES);
  assert_true(inputs && results);
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
    for (int redop = 0; redop < RONDO_REDOP_COUNT; redop++)
      for (size_t n = 0; n < sizeof(rank_counts) / sizeof(rank_counts[0]); n++) {
        struct rondo_kit_values v = {dtype, redop, rank_counts[n], 7, 0};
        for (uint32_t r = 0; r < v.rank_count; r++)
          rondo_kit_values_fill(&v, r, inputs + (size_t)r * COUNT * MAX_ELEMENT_BYTES, 0, COUNT);
        rondo_kit_values_fill(&v, RONDO_KIT_REDUCED, results, 0, COUNT);
        check_fold(&v, inputs, results);
        assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, results, 0, COUNT), 0);
      }
  free(inputs);
  free(results);
}

static void a_changed_element_is_counted(void **state) {
  (void)state;
  char results[COUNT * MAX_ELEMENT_BYTES];
  for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++) {
    struct rondo_kit_values v = {dtype, RONDO_SUM, 8, 3, 0};
    size_t bytes = rondo_dtype_bytes(dtype);
    rondo_kit_values_fill(&v, RONDO_KIT_REDUCED, results, 0, COUNT);
    results[0] ^= 1;
    results[(COUNT - 1) * bytes] ^= 1;
    assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, results, 0, COUNT), 2);
  }
}

static void a_result_of_another_round_is_wrong(void **state) {
  (void)state;
  float results[COUNT];
  struct rondo_kit_values v = {RONDO_FLOAT32, RONDO_SUM, 8, 3, 0};
  rondo_kit_values_fill(&v, RONDO_KIT_REDUCED, results, 0, COUNT);
  v.round++;
  assert_true(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, results, 0, COUNT) > COUNT / 2);
}

static void a_lost_and_doubled_contribution_is_wrong(void **state) {
  (void)state;
  float sum[COUNT] = {0};
  float one[COUNT];
  struct rondo_kit_values v = {RONDO_FLOAT32, RONDO_SUM, 8, 3, 0};
  for (uint32_t r = 0; r < 8; r++) {
    rondo_kit_values_fill(&v, r == 5 ? 4 : r, one, 0, COUNT); // rank 4 twice, rank 5 never
    for (uint32_t i = 0; i < COUNT; i++)
      sum[i] += one[i];
  }
  assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, sum, 0, COUNT), COUNT);
}

// Of few ranks: the error that quantised messages may make is less than what a contribution adds.
static void a_quantised_result_may_be_off_but_not_by_a_contribution(void **state) {
  (void)state;
  float sum[COUNT], one[COUNT];
  for (int quantisation = 1; quantisation < RONDO_QUANTISATION_COUNT; quantisation++) {
    struct rondo_kit_values v = {RONDO_FLOAT32, RONDO_SUM, 2, 3, quantisation};
    rondo_kit_values_fill(&v, RONDO_KIT_REDUCED, sum, 0, COUNT);
    rondo_kit_values_fill(&v, 1, one, 0, COUNT);
    assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, sum, 0, COUNT), 0);
    for (uint32_t i = 0; i < COUNT; i++)
      sum[i] += 1;
    assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, sum, 0, COUNT), 0);
    for (uint32_t i = 0; i < COUNT; i++)
      sum[i] -= one[i] + 1; // lost
    assert_true(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, sum, 0, COUNT) > COUNT / 2);
    v.quantisation = RONDO_QUANTISE_NONE;
    assert_int_equal(rondo_kit_values_wrong(&v, RONDO_KIT_REDUCED, sum, 0, COUNT), COUNT);
  }
}

static void parts_can_be_made_alone(void **state) {
  (void)state;
  int32_t whole[COUNT];
  int32_t part[100];
  struct rondo_kit_values v = {RONDO_INT32, RONDO_MAX, 5, 9, 0};
  rondo_kit_values_fill(&v, 2, whole, 0, COUNT);
  rondo_kit_values_fill(&v, 2, part, 450, 100);
  assert_memory_equal(part, whole + 450, sizeof(part));
}

static void sizes_are_those_of_the_larger_buffer(void **state) {
  (void)state;
  struct rondo_kit_shape gather = {RONDO_ALL_GATHER, RONDO_FLOAT32, RONDO_SUM, 4, 0, 0, 0};
  rondo_kit_shape_size(&gather, 1024);
  assert_int_equal(gather.count, 64);
  assert_int_equal(rondo_kit_shape_bytes(&gather), 1024);
  struct rondo_kit_shape reduce = {RONDO_ALL_REDUCE, RONDO_FLOAT64, RONDO_SUM, 4, 0, 0, 0};
  rondo_kit_shape_size(&reduce, 3);
  assert_int_equal(reduce.count, 1);
}

static void a_barrier_spins_only_where_all_have_a_core(void **state) {
  (void)state;
  struct rondo_kit_barrier barrier;
  rondo_kit_barrier_init(&barrier, 3, 3);
  assert_true(barrier.spins > 0);
  rondo_kit_barrier_init(&barrier, 4, 3);
  assert_int_equal(barrier.spins, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fold_of_the_inputs_is_the_result),
      cmocka_unit_test(a_changed_element_is_counted),
      cmocka_unit_test(a_result_of_another_round_is_wrong),
      cmocka_unit_test(a_lost_and_doubled_contribution_is_wrong),
      cmocka_unit_test(a_quantised_result_may_be_off_but_not_by_a_contribution),
      cmocka_unit_test(parts_can_be_made_alone),
      cmocka_unit_test(sizes_are_those_of_the_larger_buffer),
      cmocka_unit_test(a_barrier_spins_only_where_all_have_a_core),
  };
  return cmocka_run_group_tests_name("kit_values", tests, NULL, NULL);
}
