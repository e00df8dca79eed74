#include "sim/deadlock/locate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct scan {
  const char *at;
  int line;
};

static void skip_space(struct scan *s) {
  while (*s->at && strchr(" \t\r\n", *s->at)) {
    s->line += *s->at++ == '\n';
  }
}

static void skip_string(struct scan *s) {
  for (s->at++; *s->at && *s->at != '"'; s->at++) {
    if (*s->at == '\\' && s->at[1]) {
      s->at++;
    }
  }
  s->at += *s->at == '"';
}

// Skips one value. Counts the nesting, so needs no recursion.
static void skip_value(struct scan *s) {
  int depth = 0;
  do {
    skip_space(s);
    if (*s->at == '"') {
      skip_string(s);
    } else if (strchr("{[", *s->at) && *s->at) {
      depth++;
      s->at++;
    } else if (strchr("}]", *s->at) && *s->at) {
      depth--;
      s->at++;
    } else if (*s->at && strchr(",:", *s->at)) {
      s->at++;
    } else {
      s->at += strcspn(s->at, " \t\r\n,:{}[]\"");
    }
  } while (depth > 0 && *s->at);
}

static bool is_key(const char *quoted, const char *part, size_t length) {
  return strncmp(quoted + 1, part, length) == 0 && quoted[1 + length] == '"';
}

// Moves into an object or array, to the member that `part` names. False if there is none.
static bool member_enter(struct scan *s, const char *part, size_t length) {
  bool object = *s->at == '{';
  if (!object && *s->at != '[') {
    return false;
  }
  long wanted = object ? -1 : strtol(part, NULL, 10);
  s->at++;
  for (long n = 0;; n++) {
    skip_space(s);
    if (!*s->at || strchr("}]", *s->at)) {
      return false;
    }
    bool found = n == wanted;
    if (object) {
      found = is_key(s->at, part, length);
      if (found) {
        return true; // at the key: its line is the one to report
      }
      skip_string(s);
      skip_space(s);
      s->at += *s->at == ':';
    }
    if (found) {
      return true;
    }
    skip_value(s);
    skip_space(s);
    s->at += *s->at == ',';
  }
}

int rondo_sim_locate(const char *text, const char *path) {
  struct scan s = {text, 1};
  skip_space(&s);
  while (*path) {
    size_t length = strcspn(path, ".");
    struct scan inside = s;
    if (*inside.at == '"') { // at a key: skip to its value
      skip_string(&inside);
      skip_space(&inside);
      inside.at += *inside.at == ':';
      skip_space(&inside);
    }
    if (!member_enter(&inside, path, length)) {
      break;
    }
    s = inside;
    path += length;
    path += *path == '.';
  }
  return s.line;
}
