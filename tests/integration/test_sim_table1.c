// Table 1 of the DFCCL paper, computed by rondo-sim and compared with what is known of its rows.
// Usage: test_sim_table1 PATH_OF_RONDO_SIM ROUNDS
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *program, *rounds;
static json_t *table;

static const json_t *row_of(const char *name) {
  size_t k;
  json_t *row;
  json_array_foreach(json_object_get(table, "rows"), k, row) {
    if (strcmp(json_string_value(json_object_get(row, "row")), name) == 0) {
      return row;
    }
  }
  fail_msg("no row %s", name);
  return NULL;
}

static double value_of(const char *name, const char *variant, const char *key) {
  const json_t *variants = json_object_get(row_of(name), "variants");
  return json_number_value(json_object_get(json_object_get(variants, variant), key));
}

// Is the ratio within 4.5 standard deviations of what is expected (which is known to 2 %)?
static void assert_ratio(const char *name, const char *variant, double expected) {
  double n = value_of(name, variant, "rounds"), ratio = value_of(name, variant, "ratio");
  double sigma = sqrt(expected * (1 - expected) / n);
  assert_true(n > 0);
  if (!(fabs(ratio - expected) <= 4.5 * sigma + 0.02 * expected)) {
    fail_msg("row %s, %s: %g where %g is expected (%g rounds)", name, variant, ratio, expected, n);
  }
}

static void every_row_and_variant_is_there(void **state) {
  (void)state;
  assert_int_equal(json_array_size(json_object_get(table, "rows")), 18);
  size_t k;
  json_t *row;
  json_array_foreach(json_object_get(table, "rows"), k, row) {
    assert_int_equal(json_object_size(json_object_get(row, "variants")), 4);
    assert_true(json_is_real(json_object_get(row, "paper")));
  }
}

static void one_group_agrees_with_its_closed_form(void **state) {
  (void)state;
  double expected = json_number_value(json_object_get(row_of("s5"), "closed_form"));
  assert_true(fabs(expected - 0.012719) < 1e-5);
  assert_ratio("s5", "interleaved", expected);
  assert_ratio("s5", "sequential", expected);
  assert_ratio("s5", "dfccl", expected);
  assert_ratio("s5", "dfccl-sequential", expected);
}

// In 3D groups one skip is fatal if it swaps two collectives of the same group: after the tensor
// groups have run out where lists are interleaved, nearly everywhere where they are sequential.
static void single_queue_3d_agrees_with_counting_fatal_skips(void **state) {
  (void)state;
  static const struct {
    const char *row;
    double disorder, gpus;
  } rows[] = {{"s1", 1e-7, 64}, {"s2", 1e-6, 64}, {"s3", 1e-9, 3072}, {"s4", 1e-8, 3072}};
  for (int k = 0; k < 4; k++) {
    double each = rows[k].disorder * rows[k].gpus;
    assert_ratio(rows[k].row, "interleaved", -expm1(-each * 800));
    assert_ratio(rows[k].row, "sequential", -expm1(-each * (399 + 1199)));
  }
}

// Real cycles need a skip and a synchronisation at the same place on several GPUs, which the free
// groups' probabilities of 1e-5 make next to impossible: what the published detector reports there
// are chains that do not close.
static void real_cycles_are_absent_from_free_groups(void **state) {
  (void)state;
  static const char *const rows[] = {"y6", "y7", "y8", "y9", "y10"};
  double published = 0, on_sequential_lists = 0;
  for (int k = 0; k < 5; k++) {
    assert_true(value_of(rows[k], "interleaved", "ratio") < 1e-3);
    assert_true(value_of(rows[k], "sequential", "ratio") < 1e-3);
    published += value_of(rows[k], "dfccl", "deadlocks");
    on_sequential_lists += value_of(rows[k], "dfccl-sequential", "deadlocks");
  }
  // GPUs are further apart in their groups if they take one group after another.
  assert_true(published > 0);
  assert_true(on_sequential_lists > 1.5 * published);
}

static void published_decisions_fail_on_free_single_queues(void **state) {
  (void)state;
  assert_true(value_of("s6", "dfccl", "ratio") == 1);
  assert_true(value_of("s7", "dfccl", "ratio") == 1);
  assert_true(value_of("s8", "dfccl", "ratio") == 1);
}

static int run_table(void **state) {
  (void)state;
  char command[1024];
  json_error_t error;
  snprintf(command, sizeof(command), "%s deadlock --preset table1 -q -n %s --json -", program,
           rounds);
  FILE *pipe = popen(command, "r");
  table = pipe ? json_loadf(pipe, 0, &error) : NULL;
  return pipe && pclose(pipe) == 0 && table ? 0 : -1;
}

static int forget_table(void **state) {
  (void)state;
  json_decref(table);
  return 0;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_and_variant_is_there),
      cmocka_unit_test(one_group_agrees_with_its_closed_form),
      cmocka_unit_test(single_queue_3d_agrees_with_counting_fatal_skips),
      cmocka_unit_test(real_cycles_are_absent_from_free_groups),
      cmocka_unit_test(published_decisions_fail_on_free_single_queues),
  };
  if (argc != 3) {
    fprintf(stderr, "usage: test_sim_table1 PATH_OF_RONDO_SIM ROUNDS\n");
    return 2;
  }
  program = argv[1];
  rounds = argv[2];
  return cmocka_run_group_tests_name("sim.table1", tests, run_table, forget_table);
}
