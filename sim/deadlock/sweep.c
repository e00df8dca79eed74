#include "sim/deadlock/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool sweep_refuse(char *error, size_t error_bytes, const char *text, const char *what) {
  snprintf(error, error_bytes, "sweep \"%s\": %s", text, what);
  return false;
}

static bool known_key(const char *key) {
  static const char *const keys[] = {"disorder", "synchronisation", "resources", "rounds"};
  for (int k = 0; k < 4; k++) {
    if (strcmp(keys[k], key) == 0) {
      return true;
    }
  }
  return false;
}

bool rondo_sim_sweep_parse(struct rondo_sim_sweep *s, const char *text, char *error,
                           size_t error_bytes) {
  const char *equals = strchr(text, '=');
  *s = (struct rondo_sim_sweep){.logarithmic = true, .count = 9};
  if (!equals || (size_t)(equals - text) >= sizeof(s->key)) {
    return sweep_refuse(error, error_bytes, text, "must read KEY=FROM..TO:log:COUNT");
  }
  memcpy(s->key, text, (size_t)(equals - text));
  if (!known_key(s->key)) {
    return sweep_refuse(error, error_bytes, text,
                        "the key is not one of disorder, synchronisation, resources, rounds");
  }
  char *end;
  s->from = strtod(equals + 1, &end);
  // "1..4" reads as the number "1." followed by ".4"; step back to the first of the two dots.
  end -= end > equals + 1 && end[-1] == '.' && end[0] == '.' && end[1] != '.';
  if (end == equals + 1 || strncmp(end, "..", 2) != 0) {
    return sweep_refuse(error, error_bytes, text, "FROM..TO is not two numbers");
  }
  const char *second = end + 2;
  s->to = strtod(second, &end);
  if (end == second || !isfinite(s->from) || !isfinite(s->to)) {
    return sweep_refuse(error, error_bytes, text, "FROM..TO is not two numbers");
  }
  if (strncmp(end, ":lin", 4) == 0 || strncmp(end, ":log", 4) == 0) {
    s->logarithmic = end[2] == 'o';
    end += 4;
    if (*end == ':') {
      s->count = (uint32_t)strtoul(end + 1, &end, 10);
    }
  }
  if (*end || s->count < 1 || s->count > 1000) {
    return sweep_refuse(error, error_bytes, text,
                        "must end in :lin or :log and a count from 1 to 1000");
  }
  if (s->logarithmic && (s->from <= 0 || s->to <= 0)) {
    return sweep_refuse(error, error_bytes, text, "a logarithmic sweep needs numbers above 0");
  }
  return true;
}

double rondo_sim_sweep_value(const struct rondo_sim_sweep *s, uint32_t n) {
  if (n == 0 || s->count == 1) {
    return s->from;
  }
  if (n == s->count - 1) {
    return s->to;
  }
  double part = (double)n / (s->count - 1);
  return s->logarithmic ? s->from * pow(s->to / s->from, part) : s->from + (s->to - s->from) * part;
}
