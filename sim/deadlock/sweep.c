#include "sim/deadlock/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Reads FROM..TO and returns what follows, or null.
static const char *range_parse(struct rondo_sim_sweep *s, const char *text) {
  char *end;
  s->from = strtod(text, &end);
  // "1..4" reads as the number "1." followed by ".4"; step back to the first of the two dots.
  end -= end > text && end[-1] == '.' && end[0] == '.' && end[1] != '.';
  if (end == text || strncmp(end, "..", 2) != 0) {
    return NULL;
  }
  const char *second = end + 2;
  s->to = strtod(second, &end);
  return end > second && isfinite(s->from) && isfinite(s->to) ? end : NULL;
}

bool rondo_sim_sweep_parse(struct rondo_sim_sweep *s, const char *text,
                           struct rondo_sim_error *error) {
  static const char keys[] = "disorder, synchronisation, resources, rounds";
  size_t key = strcspn(text, "=");
  *s = (struct rondo_sim_sweep){.logarithmic = true, .count = 9};
  if (!text[key] || key >= sizeof(s->key)) {
    return rondo_sim_refuse(error, "sweep \"%s\": must read KEY=FROM..TO:log:COUNT", text);
  }
  memcpy(s->key, text, key);
  if (rondo_sim_list_find(keys, s->key) < 0) {
    return rondo_sim_refuse(error, "sweep \"%s\": the key is not one of %s", text, keys);
  }
  const char *end = range_parse(s, text + key + 1);
  if (!end) {
    return rondo_sim_refuse(error, "sweep \"%s\": FROM..TO is not two numbers", text);
  }
  if (strncmp(end, ":lin", 4) == 0 || strncmp(end, ":log", 4) == 0) {
    s->logarithmic = end[2] == 'o';
    end += 4;
    if (*end == ':') {
      char *after;
      s->count = (uint32_t)strtoul(end + 1, &after, 10);
      end = after;
    }
  }
  if (*end || s->count < 1 || s->count > 1000) {
    return rondo_sim_refuse(
        error, "sweep \"%s\": must end in :lin or :log and a count from 1 to 1000", text);
  }
  if (s->logarithmic && (s->from <= 0 || s->to <= 0)) {
    return rondo_sim_refuse(error, "sweep \"%s\": a logarithmic sweep needs numbers above 0", text);
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
