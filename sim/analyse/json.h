// A JSON reader that pulls one value at a time from a window on the file. Dumps of a large job run
// to gigabytes; a tree of them would need several times that in memory and is what makes general
// libraries too slow here, so nothing is kept and most values are passed over unseen.
//
//   struct rondo_analyse_json j;  rondo_analyse_json_init(&j, &input);
//   if (rondo_analyse_json_open(&j, '{'))
//     while (rondo_analyse_json_key(&j, &key))
//       if (is(key, "version")) rondo_analyse_json_string(&j, &value);
//       else rondo_analyse_json_skip(&j);
//   if (j.failed) … j.message, j.error_line, j.error_offset
//
// The first failure sticks: every later call returns false, so a reader checks once, at the end.
// Slices are valid until the next call. Strings may hold any bytes; escapes are resolved.
#ifndef RONDO_SIM_ANALYSE_JSON_H
#define RONDO_SIM_ANALYSE_JSON_H

#include "sim/analyse/input.h"

struct rondo_analyse_json {
  struct rondo_analyse_input *in;
  bool failed;
  bool fresh;           // an object or array was just opened: no comma before what comes
  bool commas_optional; // set by a reader whose format is written without some of them
  int depth;
  char message[120];
  uint64_t error_offset; // counted from 0
  uint64_t error_line;   // counted from 1
};

struct rondo_analyse_number {
  bool is_integer;
  int64_t integer; // rounded towards zero and clamped if it is not an integer
  double real;
};

// Starts to read at the input's position.
void rondo_analyse_json_init(struct rondo_analyse_json *j, struct rondo_analyse_input *in);

// The first byte of what comes next ('{', '"', a digit …), white space passed over; -1 at the end.
int rondo_analyse_json_peek(struct rondo_analyse_json *j);

// Enters an object ('{') or an array ('['). Returns false, and fails, if something else comes.
bool rondo_analyse_json_open(struct rondo_analyse_json *j, char bracket);

// Inside an object: the next key, read up to its value; false after the last, with '}' passed.
bool rondo_analyse_json_key(struct rondo_analyse_json *j, struct rondo_analyse_slice *key);

// Inside an array: true if another item comes; false after the last, with ']' passed.
bool rondo_analyse_json_item(struct rondo_analyse_json *j);

// Reads a string, a number, or true, false (1, 0) or null (-1).
bool rondo_analyse_json_string(struct rondo_analyse_json *j, struct rondo_analyse_slice *value);
bool rondo_analyse_json_number(struct rondo_analyse_json *j, struct rondo_analyse_number *value);
bool rondo_analyse_json_literal(struct rondo_analyse_json *j, int *value);

// Passes over one value of any kind.
bool rondo_analyse_json_skip(struct rondo_analyse_json *j);

// Passes over one value and gives its text as it stands in the file.
bool rondo_analyse_json_raw(struct rondo_analyse_json *j, struct rondo_analyse_slice *text);

// True when only white space is left; fails otherwise.
bool rondo_analyse_json_end(struct rondo_analyse_json *j);

// Fails at the present position with a message of the caller's; returns false.
bool rondo_analyse_json_fail(struct rondo_analyse_json *j, const char *message);

// Convenience: an integer that may be written as a number, or as digits in a string; `otherwise`
// for null and for anything else, which is passed over.
int64_t rondo_analyse_json_integer(struct rondo_analyse_json *j, int64_t otherwise);

// True if the slice is this text.
bool rondo_analyse_slice_is(struct rondo_analyse_slice s, const char *text);

// Digits at the start of a slice as a number, clamped; `otherwise` if there are none.
int64_t rondo_analyse_slice_integer(struct rondo_analyse_slice s, int64_t otherwise);

#endif // RONDO_SIM_ANALYSE_JSON_H
