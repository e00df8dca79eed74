// The pull reader of JSON: what it reads, and where it says that it cannot.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/analyse/json.h"
#include "tests/support/analyse_input.h"

static struct rondo_analyse_input in;
static struct rondo_analyse_json json;

static void begin(const char *text) {
  rondo_test_input(&in, text, strlen(text));
  rondo_analyse_json_init(&json, &in);
}

static void end(void) { rondo_analyse_input_close(&in); }

static void expect_failure(const char *text, const char *message, uint64_t line, uint64_t offset) {
  begin(text);
  rondo_analyse_json_skip(&json);
  rondo_analyse_json_end(&json);
  assert_true(json.failed);
  if (!strstr(json.message, message)) {
    fail_msg("%s: \"%s\" is not in \"%s\"", text, message, json.message);
  }
  assert_int_equal(json.error_line, line);
  assert_int_equal(json.error_offset, offset);
  end();
}

static void strings_have_their_escapes_resolved(void **state) {
  struct rondo_analyse_slice s;
  (void)state;
  begin("\"a\\n\\u00e9\\ud83d\\ude00\\ud800x\\\\\"");
  assert_true(rondo_analyse_json_string(&json, &s));
  assert_true(rondo_analyse_slice_is(s, "a\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbdx\\"));
  end();
}

static void integers_keep_64_bits_and_clamp_past_them(void **state) {
  struct rondo_analyse_number n;
  (void)state;
  begin("[9223372036854775807,-9223372036854775808,99999999999999999999,1.5e2,-0]");
  assert_true(rondo_analyse_json_open(&json, '['));
  const int64_t expected[] = {INT64_MAX, INT64_MIN, INT64_MAX, 150, 0};
  for (int i = 0; i < 5; i++) {
    assert_true(rondo_analyse_json_item(&json));
    assert_true(rondo_analyse_json_number(&json, &n));
    assert_true(n.integer == expected[i]);
    assert_int_equal(n.is_integer, i != 3);
  }
  assert_false(rondo_analyse_json_item(&json));
  assert_true(rondo_analyse_json_end(&json));
  end();
}

static void failures_name_line_and_byte(void **state) {
  (void)state;
  expect_failure("{\"a\":1,\n\"b\" 2}", "'2' where ':' should follow", 2, 12);
  expect_failure("[1,]", "']' where a value should follow", 1, 3);
  expect_failure("{\"a\":1,}", "'}' where a string should follow", 1, 7);
  expect_failure("[1 2]", "'2' where ',' or ']' should follow", 1, 3);
  expect_failure("\"abc", "a string that does not end (cut off?)", 1, 0);
  expect_failure("[1,", "the file ends where a value should follow (cut off?)", 1, 3);
  expect_failure("01", "not written as JSON writes it", 1, 0);
  expect_failure("nul", "'n' where a value should follow", 1, 0);
  expect_failure("\"\\x\"", "an escape that JSON does not have", 1, 0);
  expect_failure("1 1", "where the end of the file should follow", 1, 2);
}

static void nesting_is_bounded(void **state) {
  char deep[1000];
  (void)state;
  memset(deep, '[', sizeof deep - 1);
  deep[sizeof deep - 1] = 0;
  expect_failure(deep, "nested more than 200 deep", 1, 200);
}

static void raw_gives_a_value_as_it_stands(void **state) {
  struct rondo_analyse_slice s;
  (void)state;
  begin("  [[4, 8],[2]] ,");
  assert_true(rondo_analyse_json_raw(&json, &s));
  assert_true(rondo_analyse_slice_is(s, "[[4, 8],[2]]"));
  end();
}

static void numbers_in_strings_count_as_integers(void **state) {
  struct rondo_analyse_strings strings;
  struct rondo_analyse_values values = {.strings = &strings};
  (void)state;
  begin("[\"17\",18,null,\"x\"]");
  rondo_analyse_strings_init(&strings);
  struct rondo_analyse_value list = rondo_analyse_json_value(&json, &values);
  const int64_t expected[] = {17, 18, -5, -5};
  struct rondo_analyse_container items = rondo_analyse_value_items(&values, list);
  assert_int_equal(items.count, 4);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(rondo_analyse_value_integer(&values, items.items[i], -5), expected[i]);
  }
  rondo_analyse_values_fini(&values);
  rondo_analyse_strings_fini(&strings);
  end();
}

// Values that straddle the edges of the window, at every offset of the first edge.
static void values_survive_the_window_moving(void **state) {
  enum { WINDOW = 256 << 10 };
  char path[] = "/tmp/rondo-json-XXXXXX";
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  for (int shift = 0; shift < 40; shift++) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "[\"%*s\"", WINDOW - 30 - 4 + shift, "");
    fputs(",{\"key\" : \"v\\\"alue\" , \"number\":-123456}]", file);
    assert_int_equal(fclose(file), 0);
    struct rondo_analyse_slice s;
    assert_int_equal(rondo_analyse_input_open(&in, path), 0);
    rondo_analyse_json_init(&json, &in);
    assert_true(rondo_analyse_json_open(&json, '['));
    assert_true(rondo_analyse_json_item(&json) && rondo_analyse_json_skip(&json));
    assert_true(rondo_analyse_json_item(&json) && rondo_analyse_json_open(&json, '{'));
    assert_true(rondo_analyse_json_key(&json, &s) && rondo_analyse_slice_is(s, "key"));
    assert_true(rondo_analyse_json_string(&json, &s) && rondo_analyse_slice_is(s, "v\"alue"));
    assert_true(rondo_analyse_json_key(&json, &s) && rondo_analyse_slice_is(s, "number"));
    struct rondo_analyse_number number;
    assert_true(rondo_analyse_json_number(&json, &number) && number.integer == -123456);
    assert_false(rondo_analyse_json_key(&json, &s));
    assert_false(rondo_analyse_json_item(&json));
    assert_true(rondo_analyse_json_end(&json));
    rondo_analyse_input_close(&in);
  }
  close(fd);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings_have_their_escapes_resolved),
      cmocka_unit_test(integers_keep_64_bits_and_clamp_past_them),
      cmocka_unit_test(failures_name_line_and_byte),
      cmocka_unit_test(nesting_is_bounded),
      cmocka_unit_test(raw_gives_a_value_as_it_stands),
      cmocka_unit_test(numbers_in_strings_count_as_integers),
      cmocka_unit_test(values_survive_the_window_moving),
  };
  return cmocka_run_group_tests_name("analyse_json", tests, NULL, NULL);
}
