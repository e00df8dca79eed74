// The reader of pickles: plain data is read, everything else refused by name and position.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/analyse/pickle.h"
#include "tests/support/analyse_input.h"

static struct rondo_analyse_input in;
static struct rondo_analyse_strings strings;
static struct rondo_analyse_values values = {.strings = &strings};
static struct rondo_analyse_pickle pickle;
static struct rondo_analyse_value top;
static int entries;

#define PICKLE(text) begin(text, sizeof(text) - 1)
#define EXPECT_REFUSAL(text, message, offset)                                                      \
  expect_refusal(text, sizeof(text) - 1, message, offset)

static void begin(const char *data, size_t bytes) {
  rondo_test_input(&in, data, bytes);
  rondo_analyse_strings_init(&strings);
  rondo_analyse_pickle_init(&pickle, &in, &values);
}

static void end(void) {
  rondo_analyse_pickle_fini(&pickle);
  rondo_analyse_values_fini(&values);
  values = (struct rondo_analyse_values){.strings = &strings};
  rondo_analyse_strings_fini(&strings);
  rondo_analyse_input_close(&in);
}

static void expect_refusal(const char *data, size_t bytes, const char *message, uint64_t offset) {
  begin(data, bytes);
  assert_false(rondo_analyse_pickle_run(&pickle, &top));
  if (!strstr(pickle.message, message)) {
    fail_msg("\"%s\" is not in \"%s\"", message, pickle.message);
  }
  assert_int_equal(pickle.error_offset, offset);
  end();
}

static int64_t integer(const char *key) {
  return rondo_analyse_value_integer(&values, rondo_analyse_value_get(&values, top, key), -99);
}

static void integers_of_every_width_are_read(void **state) {
  (void)state;
  PICKLE("\x80\x02}(X\1\0\0\0aK\xffX\1\0\0\0bM\xff\xffX\1\0\0\0cJ\xff\xff\xff\xff"
         "X\1\0\0\0d\x8a\x08\0\0\0\0\0\0\0\x80X\1\0\0\0e\x8a\0X\1\0\0\0f\x8a\1\xfeu.");
  assert_true(rondo_analyse_pickle_run(&pickle, &top));
  assert_int_equal(integer("a"), 255);
  assert_int_equal(integer("b"), 65535);
  assert_int_equal(integer("c"), -1);
  assert_true(integer("d") == INT64_MIN);
  assert_int_equal(integer("e"), 0);
  assert_int_equal(integer("f"), -2);
  assert_int_equal(integer("g"), -99);
  end();
}

static void memo_tuples_and_lists_are_read(void **state) {
  (void)state;
  PICKLE("\x80\x02}q\0(X\1\0\0\0kq\1(K\1K\2tq\2X\1\0\0\0l](h\1h\2eu.");
  assert_true(rondo_analyse_pickle_run(&pickle, &top));
  struct rondo_analyse_value list = rondo_analyse_value_get(&values, top, "l");
  struct rondo_analyse_container items = rondo_analyse_value_items(&values, list);
  assert_int_equal(items.count, 2);
  assert_string_equal(rondo_analyse_value_text(&values, items.items[0]), "k");
  assert_int_equal(rondo_analyse_value_items(&values, items.items[1]).count, 2);
  end();
}

static void whatever_is_not_data_is_refused_by_name(void **state) {
  (void)state;
  EXPECT_REFUSAL("\x80\x02"
                 "cos\nsystem\n(X\2\0\0\0lstR.",
                 "GLOBAL (0x63)", 2);
  EXPECT_REFUSAL("\x80\x02NR.", "REDUCE (0x52)", 3);
  EXPECT_REFUSAL("\x80\x02\x93.", "STACK_GLOBAL (0x93)", 2);
  EXPECT_REFUSAL("\x80\x02\xfe.", "unknown (0xfe)", 2);
}

static void cut_off_and_crooked_pickles_fail_with_their_position(void **state) {
  (void)state;
  EXPECT_REFUSAL("\x80\x02X\x10\0\0\0abc", "ends inside a string (cut off?)", 7);
  EXPECT_REFUSAL("\x80\x02}", "ends inside an instruction (cut off?)", 3);
  EXPECT_REFUSAL("\x80\x02"
                 "e.",
                 "never begun", 3);
  EXPECT_REFUSAL("\x80\x02"
                 "a.",
                 "an item where there is none", 3);
  EXPECT_REFUSAL("\x80\x02}K\1a.", "where there is no list", 6);
  EXPECT_REFUSAL("\x80\x02]K\1K\2s.", "where there is no dictionary", 8);
  EXPECT_REFUSAL("\x80\x02h\7.", "never given out", 4);
  EXPECT_REFUSAL("\x80\x02Nr\xff\xff\xff\x7f.", "out of turn", 8);
  EXPECT_REFUSAL("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\0.", "more than 64 bits", 4);
  EXPECT_REFUSAL("\x80\x02\x87.", "more values than there are", 3);
  EXPECT_REFUSAL("\x80\x02NN.", "in the middle of a value", 5);
}

static void entry_seen(void *context, struct rondo_analyse_value entry) {
  uint32_t *seen = context;
  struct rondo_analyse_value number = rondo_analyse_value_get(&values, entry, "i");
  assert_int_equal(rondo_analyse_value_integer(&values, number, -1), *seen);
  ++*seen;
  entries++;
}

static char many[1 << 18];
static size_t many_bytes;

#define MANY_ADD(text) many_add(text, sizeof(text) - 1)

static void many_add(const char *data, size_t bytes) {
  assert_true(many_bytes + bytes <= sizeof many);
  memcpy(many + many_bytes, data, bytes);
  many_bytes += bytes;
}

// Ten thousand entries, each with a list inside: what an entry holds is given back with it.
static void entries_are_handed_out_and_forgotten(void **state) {
  enum { COUNT = 10000 };
  uint32_t seen = 0;
  (void)state;
  many_bytes = 0;
  MANY_ADD("\x80\x02}(X\7\0\0\0entries](");
  for (int i = 0; i < COUNT; i++) {
    const char number[] = {'M', (char)(i & 0xff), (char)(i >> 8)};
    MANY_ADD("}(X\1\0\0\0i");
    many_add(number, sizeof number);
    MANY_ADD("X\1\0\0\0l](K\1eu");
  }
  MANY_ADD("eu.");
  begin(many, many_bytes);
  pickle.streamed_id = rondo_analyse_strings_add(&strings, "entries", 7);
  pickle.entry = entry_seen;
  pickle.context = &seen;
  entries = 0;
  assert_true(rondo_analyse_pickle_run(&pickle, &top));
  assert_int_equal(entries, COUNT);
  assert_true(values.count < 8);
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_of_every_width_are_read),
      cmocka_unit_test(memo_tuples_and_lists_are_read),
      cmocka_unit_test(whatever_is_not_data_is_refused_by_name),
      cmocka_unit_test(cut_off_and_crooked_pickles_fail_with_their_position),
      cmocka_unit_test(entries_are_handed_out_and_forgotten),
  };
  return cmocka_run_group_tests_name("analyse_pickle", tests, NULL, NULL);
}
