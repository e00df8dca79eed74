// The pull reader against jansson: what jansson accepts, it must accept and read the same.
#include <jansson.h>

#include "sim/analyse/json.h"
#include "tests/support/analyse_input.h"
#include "tests/support/fuzz.h"

// Reads the next value and compares it with the one that jansson read.
static void compare(struct rondo_analyse_json *j, const json_t *expected) {
  struct rondo_analyse_slice text;
  struct rondo_analyse_number number;
  size_t i = 0;
  int literal;
  switch (json_typeof(expected)) {
  case JSON_OBJECT: // a key may come twice: then jansson keeps the last, so only types are checked
    RONDO_FUZZ_CHECK(rondo_analyse_json_open(j, '{'));
    while (rondo_analyse_json_key(j, &text))
      RONDO_FUZZ_CHECK(rondo_analyse_json_skip(j));
    break;
  case JSON_ARRAY:
    RONDO_FUZZ_CHECK(rondo_analyse_json_open(j, '['));
    while (rondo_analyse_json_item(j))
      compare(j, json_array_get(expected, i++));
    RONDO_FUZZ_CHECK(i == json_array_size(expected));
    break;
  case JSON_STRING:
    RONDO_FUZZ_CHECK(rondo_analyse_json_string(j, &text));
    RONDO_FUZZ_CHECK(text.size_bytes == json_string_length(expected));
    RONDO_FUZZ_CHECK(memcmp(text.data, json_string_value(expected), text.size_bytes) == 0);
    break;
  case JSON_INTEGER:
    RONDO_FUZZ_CHECK(rondo_analyse_json_number(j, &number) && number.is_integer);
    RONDO_FUZZ_CHECK(number.integer == json_integer_value(expected));
    break;
  case JSON_REAL:
    RONDO_FUZZ_CHECK(rondo_analyse_json_number(j, &number) && !number.is_integer);
    break;
  default:
    RONDO_FUZZ_CHECK(rondo_analyse_json_literal(j, &literal));
    RONDO_FUZZ_CHECK(json_is_null(expected) ? literal == -1 : literal == json_is_true(expected));
  }
  RONDO_FUZZ_CHECK(!j->failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_analyse_input in;
  struct rondo_analyse_json j;
  json_t *expected = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  rondo_test_input(&in, data, size);
  rondo_analyse_json_init(&j, &in);
  // To jansson a zero byte ends the text.
  if (expected && memchr(data, 0, size) == NULL) {
    compare(&j, expected);
    RONDO_FUZZ_CHECK(rondo_analyse_json_end(&j));
  } else {
    rondo_analyse_json_skip(&j);
  }
  json_decref(expected);
  rondo_analyse_input_close(&in);
  return 0;
}
