#include "sim/schedule/numbers.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct unit {
  const char *name;
  double value;
};

// Reads a decimal number from 0 on, and what is behind it. Null if there is none.
static const char *number_read(const char *text, double *value) {
  char *end;
  if ((*text < '0' || *text > '9') && *text != '.') {
    return NULL;
  }
  if (strspn(text, "0123456789.eE+-") == 0 || strncmp(text, "0x", 2) == 0) {
    return NULL;
  }
  errno = 0;
  *value = strtod(text, &end);
  return errno || end == text || !isfinite(*value) ? NULL : end;
}

static bool unit_read(const char *text, const struct unit *units, double *value) {
  double number;
  const char *rest = number_read(text, &number);
  for (; rest && units->name; units++) {
    if (strcmp(rest, units->name) == 0) {
      *value = number * units->value;
      return true;
    }
  }
  return false;
}

bool rondo_schedule_read_count(const char *text, uint64_t least, uint64_t most, uint64_t *value) {
  char *end;
  errno = 0;
  if (*text < '0' || *text > '9') {
    return false;
  }
  *value = strtoull(text, &end, 10);
  return !errno && !*end && *value >= least && *value <= most;
}

bool rondo_schedule_read_bytes(const char *text, uint64_t *value) {
  static const struct unit units[] = {
      {"", 1},       {"B", 1},        {"k", 0x1p10},   {"K", 0x1p10},   {"M", 0x1p20},
      {"G", 0x1p30}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"kB", 1e3},
      {"MB", 1e6},   {"GB", 1e9},     {NULL, 0}};
  double bytes;
  if (!unit_read(text, units, &bytes) || bytes != floor(bytes) || bytes > 0x1p50) {
    return false;
  }
  *value = (uint64_t)bytes;
  return true;
}

bool rondo_schedule_read_ns(const char *text, double *value) {
  static const struct unit units[] = {{"ns", 1},   {"us", 1e3}, {"µs", 1e3},
                                      {"ms", 1e6}, {"s", 1e9},  {NULL, 0}};
  double ns;
  const char *rest = number_read(text, &ns);
  if (rest && !*rest && ns == 0) {
    *value = 0;
    return true;
  }
  return unit_read(text, units, value) && *value <= 1e15;
}

bool rondo_schedule_read_rate(const char *text, double *byte_ns) {
  static const struct unit units[] = {{"GB/s", 1},       {"MB/s", 1e-3},       {"TB/s", 1e3},
                                      {"Gbit/s", 0.125}, {"Mbit/s", 0.125e-3}, {NULL, 0}};
  double rate; // bytes a nanosecond
  if (!unit_read(text, units, &rate) || rate <= 0) {
    return false;
  }
  *byte_ns = 1 / rate;
  return true;
}

bool rondo_schedule_read_factor(const char *text, double most, double *value) {
  const char *rest = number_read(text, value);
  return rest && !*rest && *value <= most;
}
