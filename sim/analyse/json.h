// A JSON reader that reads one value at a time from a window on the file. Dumps of a large job have
// gigabytes. A tree of them would need several times that in memory and would take too long, so
// this reader keeps nothing and skips most values.
//
//   struct rondo_analyse_json j;  rondo_analyse_json_init(&j, &input);
//   if (rondo_analyse_json_open(&j, '{'))
//     while (rondo_analyse_json_key(&j, &key))
//       if (is(key, "version")) rondo_analyse_json_string(&j, &value);
//       else rondo_analyse_json_skip(&j);
//   if (j.failed) … j.message, j.error_line, j.error_offset
//
// The first failure sticks: every later call returns false, so a caller checks once, at the end.
// Slices are valid until the next call. Strings may hold any bytes; escapes are resolved.
#ifndef RONDO_SIM_ANALYSE_JSON_H
#define RONDO_SIM_ANALYSE_JSON_H

#include "sim/analyse/input.h"
#include "sim/analyse/value.h"

struct rondo_analyse_json {
  struct rondo_analyse_input *in;
  bool failed;
  bool fresh;           // an object or array was just opened: no comma before what comes
  bool commas_optional; // set by the reader of a format that lacks some of them
  int depth;
  char message[120];
  uint64_t error_offset; // counted from 0
  uint64_t error_line;   // counted from 1
};

struct rondo_analyse_number {
  bool is_integer;
  int64_t integer; // rounded towards zero and clamped if it is not an integer
  double real;
  struct rondo_analyse_slice text; // as the file has it
};

// Begins to read at the position of the input.
void rondo_analyse_json_init(struct rondo_analyse_json *j, struct rondo_analyse_input *in);

// Skips white space and returns the first byte after it ('{', '"', a digit …); -1 at the end.
int rondo_analyse_json_peek(struct rondo_analyse_json *j);

// Enters an object ('{') or an array ('['). Returns false, and fails, if something else comes.
bool rondo_analyse_json_open(struct rondo_analyse_json *j, char bracket);

// Inside an object: reads the next key up to its value; false after the last key, with '}' read.
bool rondo_analyse_json_key(struct rondo_analyse_json *j, struct rondo_analyse_slice *key);

// Inside an array: true if another item follows; false after the last one, with ']' read.
bool rondo_analyse_json_item(struct rondo_analyse_json *j);

// Reads a string, a number, or true, false (1, 0) or null (-1).
bool rondo_analyse_json_string(struct rondo_analyse_json *j, struct rondo_analyse_slice *value);
bool rondo_analyse_json_number(struct rondo_analyse_json *j, struct rondo_analyse_number *value);
bool rondo_analyse_json_literal(struct rondo_analyse_json *j, int *value);

// Skips one value of any kind.
bool rondo_analyse_json_skip(struct rondo_analyse_json *j);

// Skips one value and returns its text as the file has it.
bool rondo_analyse_json_raw(struct rondo_analyse_json *j, struct rondo_analyse_slice *text);

// Reads one value of any kind into `v`. Numbers are rounded towards zero; true and false are 1 and
// 0. An integer that does not fit is kept as a string of its digits.
struct rondo_analyse_value rondo_analyse_json_value(struct rondo_analyse_json *j,
                                                    struct rondo_analyse_values *v);

// Reads the members of the open object that are left, as a dictionary.
struct rondo_analyse_value rondo_analyse_json_members(struct rondo_analyse_json *j,
                                                      struct rondo_analyse_values *v);

// True if only white space is left; fails otherwise.
bool rondo_analyse_json_end(struct rondo_analyse_json *j);

#endif // RONDO_SIM_ANALYSE_JSON_H
