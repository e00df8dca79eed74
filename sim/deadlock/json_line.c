#include "sim/deadlock/json_line.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *after_space(const char *at) { return at + strspn(at, " \t\r\n"); }

// Reads the value at `*at` and moves past it, and past a comma or colon after it.
static json_t *value_take(const char **at) {
  json_error_t end; // gets the position after the value
  json_t *value = json_loads(*at, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &end);
  *at = after_space(*at + end.position);
  *at = after_space(*at + (*at[0] == ',' || *at[0] == ':'));
  return value;
}

// The place of the member or element that `part` names in the object or array at `at`: of the key
// of a member, which is on the line to report. Null if there is none.
static const char *member_find(const char *at, const char *part, size_t length) {
  bool is_object = *at == '{';
  if (!is_object && *at != '[') {
    return NULL;
  }
  long wanted = strtol(part, NULL, 10);
  at = after_space(at + 1);
  for (long n = 0; *at != '}' && *at != ']'; n++) {
    const char *begin = at;
    json_t *value = value_take(&at);
    const char *key = json_string_value(value);
    bool found = is_object ? strlen(key) == length && memcmp(key, part, length) == 0 : n == wanted;
    json_decref(value);
    if (found) {
      return begin;
    }
    if (is_object) {
      json_decref(value_take(&at));
    }
  }
  return NULL;
}

int rondo_sim_json_line(const char *text, const char *path) {
  const char *found = after_space(text), *inside = found;
  while (inside && *path) {
    size_t length = strcspn(path, ".");
    inside = member_find(inside, path, length);
    found = inside ? inside : found;
    if (inside && *inside == '"' && path[length]) { // a key, and the path goes on in its value
      json_decref(value_take(&inside));
    }
    path += length + (path[length] == '.');
  }
  int line = 1;
  for (const char *at = text; at < found; at++) {
    line += *at == '\n';
  }
  return line;
}
