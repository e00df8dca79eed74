#include "sim/analyse/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 200

void rondo_analyse_json_init(struct rondo_analyse_json *j, struct rondo_analyse_input *in) {
  *j = (struct rondo_analyse_json){.in = in};
}

static bool json_fail(struct rondo_analyse_json *j, const char *message) {
  if (!j->failed) {
    j->failed = true;
    j->error_offset = rondo_analyse_input_offset(j->in);
    j->error_line = j->in->line + 1;
    snprintf(j->message, sizeof j->message, "%s", message);
  }
  return false;
}

// The next byte, which is not consumed; -1 at the end of the file.
static inline int byte_peek(struct rondo_analyse_json *j) {
  struct rondo_analyse_input *in = j->in;
  if (in->begin == in->end && !rondo_analyse_input_fill(in)) {
    return -1;
  }
  return (unsigned char)in->data[in->begin];
}

static inline int space_skip(struct rondo_analyse_json *j) {
  for (;;) {
    int c = byte_peek(j);
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
      return c;
    }
    j->in->line += c == '\n';
    j->in->begin++;
  }
}

int rondo_analyse_json_peek(struct rondo_analyse_json *j) { return j->failed ? -1 : space_skip(j); }

static bool json_unexpected(struct rondo_analyse_json *j, int got, const char *wanted) {
  char message[120];
  if (got < 0) {
    snprintf(message, sizeof message, "the file ends where %s should follow (cut off?)", wanted);
  } else if (got >= 0x20 && got < 0x7f) {
    snprintf(message, sizeof message, "'%c' where %s should follow", got, wanted);
  } else {
    snprintf(message, sizeof message, "byte 0x%02x where %s should follow", got, wanted);
  }
  return json_fail(j, message);
}

bool rondo_analyse_json_open(struct rondo_analyse_json *j, char bracket) {
  int c = rondo_analyse_json_peek(j);
  if (c != bracket) {
    return json_unexpected(j, c, bracket == '{' ? "an object" : "an array");
  }
  if (++j->depth > DEEPEST) {
    return json_fail(j, "nested more than 200 deep");
  }
  j->in->begin++;
  j->fresh = true;
  return true;
}

// Reads what separates two members: true if another one follows, false at the end or on failure.
static bool member_next(struct rondo_analyse_json *j, char closing) {
  int c = rondo_analyse_json_peek(j);
  bool fresh = j->fresh;
  j->fresh = false;
  if (c == closing) {
    j->in->begin++;
    j->depth--;
    return false;
  }
  if (fresh) {
    return c < 0 ? json_unexpected(j, c, "a value") : true;
  }
  if (c == '"' && closing == '}' && j->commas_optional) {
    return true;
  }
  if (c != ',') {
    return json_unexpected(j, c, closing == '}' ? "',' or '}'" : "',' or ']'");
  }
  j->in->begin++;
  return true;
}

bool rondo_analyse_json_item(struct rondo_analyse_json *j) {
  if (j->failed || !member_next(j, ']')) {
    return false;
  }
  int c = space_skip(j);
  return c < 0 || c == ']' || c == ',' ? json_unexpected(j, c, "a value") : true;
}

// The number that four hexadecimal digits write; -1 if there are fewer.
static int hex_parse(const char *s) {
  int value = 0;
  for (int i = 0; i < 4; i++) {
    int c = (unsigned char)s[i];
    if (!isxdigit(c)) {
      return -1;
    }
    value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return value;
}

static size_t utf8_put(char *out, uint32_t c) {
  static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0}; // by number of bytes
  size_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (size_t i = bytes; i-- > 1; c >>= 6) {
    out[i] = (char)(0x80 | (c & 0x3f));
  }
  out[0] = (char)(leads[bytes] | c);
  return bytes;
}

// Reads a \u escape at s[*at] (after the u) and joins surrogate pairs. A lone surrogate becomes
// U+FFFD.
static bool unicode_escape(const char *s, size_t size, size_t *at, uint32_t *code) {
  int first = *at + 4 <= size ? hex_parse(s + *at) : -1;
  if (first < 0) {
    return false;
  }
  *at += 4;
  *code = (uint32_t)first;
  if (first < 0xd800 || first > 0xdfff) {
    return true;
  }
  *code = 0xfffd;
  if (first < 0xdc00 && *at + 6 <= size && s[*at] == '\\' && s[*at + 1] == 'u') {
    int second = hex_parse(s + *at + 2);
    if (second >= 0xdc00 && second <= 0xdfff) {
      *code = 0x10000 + ((uint32_t)(first - 0xd800) << 10) + (uint32_t)(second - 0xdc00);
      *at += 6;
    }
  }
  return true;
}

// Resolves escapes in place; the result is never longer. Returns its size; SIZE_MAX for a bad
// escape.
static size_t string_unescape(char *s, size_t size) {
  static const char plain[] = "\"\\/bfnrt";
  static const char means[] = "\"\\/\b\f\n\r\t";
  size_t out = 0;
  for (size_t i = 0; i < size;) {
    if (s[i] != '\\') {
      s[out++] = s[i++];
      continue;
    }
    char kind = s[i + 1]; // there is one: the closing quote is never escaped
    const char *found = kind ? strchr(plain, kind) : NULL;
    i += 2;
    if (found) {
      s[out++] = means[found - plain];
      continue;
    }
    uint32_t code;
    if (kind != 'u' || !unicode_escape(s, size, &i, &code)) {
      return SIZE_MAX;
    }
    out += utf8_put(s + out, code);
  }
  return out;
}

// Finds the closing quote of the string that begins at data[begin]. Returns its distance from
// begin, or 0 if the file ends first. `escaped` tells whether the string holds a backslash.
static size_t string_end(struct rondo_analyse_input *in, bool *escaped) {
  size_t at = 1;
  *escaped = false;
  for (;;) {
    const char *start = in->data + in->begin;
    size_t have = in->end - in->begin;
    while (at < have && start[at] != '"') {
      if (start[at] == '\\') {
        *escaped = true;
        at++;
      }
      at++;
    }
    if (at < have) {
      return at;
    }
    if (!rondo_analyse_input_fill(in)) {
      return 0;
    }
  }
}

bool rondo_analyse_json_string(struct rondo_analyse_json *j, struct rondo_analyse_slice *value) {
  int c = rondo_analyse_json_peek(j);
  *value = (struct rondo_analyse_slice){"", 0};
  if (c != '"') {
    return json_unexpected(j, c, "a string");
  }
  bool escaped;
  size_t end = string_end(j->in, &escaped);
  if (!end) {
    return json_fail(j, "a string that does not end (cut off?)");
  }
  char *text = j->in->data + j->in->begin + 1;
  size_t size = end - 1;
  if (escaped && (size = string_unescape(text, size)) == SIZE_MAX) {
    return json_fail(j, "a string with an escape that JSON does not have");
  }
  j->in->begin += end + 1;
  *value = (struct rondo_analyse_slice){text, size};
  return true;
}

bool rondo_analyse_json_key(struct rondo_analyse_json *j, struct rondo_analyse_slice *key) {
  if (j->failed || !member_next(j, '}') || !rondo_analyse_json_string(j, key)) {
    return false;
  }
  // The key must outlive the search for the colon, which may move the window.
  struct rondo_analyse_input *in = j->in;
  size_t behind = in->begin - (size_t)(key->data - in->data);
  size_t mark = in->mark;
  in->mark = mark < in->begin - behind ? mark : in->begin - behind;
  size_t distance = in->begin - behind - in->mark;
  int c = space_skip(j);
  key->data = in->data + in->mark + distance;
  in->mark = mark == SIZE_MAX ? SIZE_MAX : in->mark;
  if (c != ':') {
    return json_unexpected(j, c, "':'");
  }
  in->begin++;
  return true;
}

// The index behind the digits that begin at s[i].
static size_t digits_end(const char *s, size_t n, size_t i) {
  while (i < n && s[i] >= '0' && s[i] <= '9') {
    i++;
  }
  return i;
}

// True if these bytes are a number as JSON writes it.
static bool number_valid(const char *s, size_t n, bool *integer) {
  size_t first = n && s[0] == '-', i = digits_end(s, n, first);
  bool valid = i > first && (s[first] != '0' || i == first + 1);
  *integer = i == n;
  if (i < n && s[i] == '.') {
    first = i + 1;
    i = digits_end(s, n, first);
    valid = valid && i > first;
  }
  if (i < n && (s[i] | 0x20) == 'e') {
    first = i + 1 + (i + 1 < n && (s[i + 1] == '+' || s[i + 1] == '-'));
    i = digits_end(s, n, first);
    valid = valid && i > first;
  }
  return valid && i == n;
}

static bool is_number_byte(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// The bytes of the number at the current position, which are not consumed.
static struct rondo_analyse_slice number_bytes(struct rondo_analyse_json *j) {
  struct rondo_analyse_input *in = j->in;
  size_t at = 0;
  for (;;) {
    while (in->begin + at < in->end && is_number_byte(in->data[in->begin + at])) {
      at++;
    }
    if (in->begin + at < in->end || !rondo_analyse_input_fill(in)) {
      return (struct rondo_analyse_slice){in->data + in->begin, at};
    }
  }
}

static int64_t clamp_real(double value) {
  if (!(value > -9.2e18)) {
    return INT64_MIN;
  }
  return value < 9.2e18 ? (int64_t)value : INT64_MAX;
}

bool rondo_analyse_json_number(struct rondo_analyse_json *j, struct rondo_analyse_number *value) {
  int c = rondo_analyse_json_peek(j);
  *value = (struct rondo_analyse_number){0};
  if (c != '-' && (c < '0' || c > '9')) {
    return json_unexpected(j, c, "a number");
  }
  struct rondo_analyse_slice text = number_bytes(j);
  if (!number_valid(text.data, text.size_bytes, &value->is_integer)) {
    return json_fail(j, "a number that is not written as JSON writes it");
  }
  if (value->is_integer) {
    value->integer = rondo_analyse_slice_integer(text, 0);
    value->real = (double)value->integer;
  } else {
    char copy[64];
    size_t n = text.size_bytes < sizeof copy - 1 ? text.size_bytes : sizeof copy - 1;
    memcpy(copy, text.data, n);
    copy[n] = 0;
    value->real = strtod(copy, NULL);
    value->integer = clamp_real(value->real);
  }
  value->text = text;
  j->in->begin += text.size_bytes;
  return true;
}

bool rondo_analyse_json_literal(struct rondo_analyse_json *j, int *value) {
  static const char *const literals[] = {"null", "false", "true"};
  int c = rondo_analyse_json_peek(j);
  for (*value = -1; *value < 2; ++*value) {
    const char *text = literals[*value + 1];
    size_t n = strlen(text);
    if (c == text[0] && rondo_analyse_input_need(j->in, n) &&
        memcmp(j->in->data + j->in->begin, text, n) == 0) {
      j->in->begin += n;
      return true;
    }
  }
  *value = -1;
  return json_unexpected(j, c, "a value");
}

// In the functions below, a null `v` means that values are read and not kept.
static struct rondo_analyse_value container_keep(struct rondo_analyse_values *v,
                                                 enum rondo_analyse_value_type type) {
  return v ? rondo_analyse_values_add(v, type) : (struct rondo_analyse_value){0};
}

static struct rondo_analyse_value string_keep(struct rondo_analyse_values *v,
                                              struct rondo_analyse_slice text) {
  uint32_t id = v ? rondo_analyse_strings_add(v->strings, text.data, text.size_bytes) : 0;
  return rondo_analyse_string(id);
}

struct rondo_analyse_value rondo_analyse_json_members(struct rondo_analyse_json *j,
                                                      struct rondo_analyse_values *v) {
  struct rondo_analyse_value made = container_keep(v, RONDO_ANALYSE_DICT);
  struct rondo_analyse_slice key;
  while (rondo_analyse_json_key(j, &key)) {
    rondo_analyse_values_append(v, made, string_keep(v, key));
    rondo_analyse_values_append(v, made, rondo_analyse_json_value(j, v));
  }
  return made;
}

struct rondo_analyse_value rondo_analyse_json_value(struct rondo_analyse_json *j,
                                                    struct rondo_analyse_values *v) {
  struct rondo_analyse_value made = {0};
  struct rondo_analyse_slice text;
  struct rondo_analyse_number number;
  int literal;
  switch (rondo_analyse_json_peek(j)) {
  case '{':
    rondo_analyse_json_open(j, '{');
    return rondo_analyse_json_members(j, v);
  case '[':
    made = container_keep(v, RONDO_ANALYSE_LIST);
    rondo_analyse_json_open(j, '[');
    while (rondo_analyse_json_item(j)) {
      rondo_analyse_values_append(v, made, rondo_analyse_json_value(j, v));
    }
    return made;
  case '"':
    rondo_analyse_json_string(j, &text);
    return string_keep(v, text);
  case 't':
  case 'f':
  case 'n':
    rondo_analyse_json_literal(j, &literal);
    return literal < 0 ? made : rondo_analyse_integer(literal);
  default:
    rondo_analyse_json_number(j, &number);
    return number.is_integer && number.integer == INT64_MAX ? string_keep(v, number.text)
                                                            : rondo_analyse_integer(number.integer);
  }
}

bool rondo_analyse_json_skip(struct rondo_analyse_json *j) {
  rondo_analyse_json_value(j, NULL);
  return !j->failed;
}

bool rondo_analyse_json_raw(struct rondo_analyse_json *j, struct rondo_analyse_slice *text) {
  *text = (struct rondo_analyse_slice){"", 0};
  rondo_analyse_json_peek(j);
  j->in->mark = j->in->begin;
  rondo_analyse_json_skip(j);
  *text = (struct rondo_analyse_slice){j->in->data + j->in->mark, j->in->begin - j->in->mark};
  j->in->mark = SIZE_MAX;
  return !j->failed;
}

bool rondo_analyse_json_end(struct rondo_analyse_json *j) {
  int c = rondo_analyse_json_peek(j);
  return j->failed ? false : c < 0 ? true : json_unexpected(j, c, "the end of the file");
}
