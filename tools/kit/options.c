#include "tools/kit/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rondo/types.h>

// As nccl-tests writes them, in the order of enum rondo_dtype.
static const char *const dtype_labels[RONDO_DTYPE_COUNT] = {
    "int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
    "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
static const char *const order_names[] = {"fifo", "priority"};
static const char *const budget_names[] = {"adaptive", "fixed", "never"};
static const char *const backend_names[] = {"host", "cuda"};

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

static bool name_find(const char *text, const char *const *names, int count, int *index) {
  for (int i = 0; i < count; i++)
    if (strcasecmp(text, names[i]) == 0) {
      *index = i;
      return true;
    }
  return false;
}

static const char *name_at(const char *const *names, int count, int index) {
  return index >= 0 && index < count ? names[index] : "unknown";
}

// The factor of a unit such as "K", "MiB" or ""; 0: it is no unit.
static double unit_read(const char *text) {
  static const char units[] = "KMGT";
  double scale = 1;
  const char *unit = *text ? strchr(units, toupper((unsigned char)*text)) : NULL;
  if (unit) {
    for (const char *u = units; u <= unit; u++)
      scale *= 1024;
    text++;
    text += *text == 'i';
  }
  text += *text == 'B' || *text == 'b';
  return *text ? 0 : scale;
}

bool rondo_kit_read_size(const char *text, uint64_t *bytes) {
  char *end;
  if (!isdigit((unsigned char)text[0]))
    return false;
  double value = strtod(text, &end);
  double scale = unit_read(end);
  value *= scale;
  if (scale == 0 || value >= 0x1p62)
    return false;
  *bytes = (uint64_t)value;
  return true;
}

bool rondo_kit_read_number(const char *text, uint64_t low, uint64_t high, uint64_t *value) {
  char *end;
  if (!isdigit((unsigned char)text[0]))
    return false;
  errno = 0;
  uint64_t number = strtoull(text, &end, 10);
  if (*end || errno != 0 || number < low || number > high)
    return false;
  *value = number;
  return true;
}

bool rondo_kit_read_u32(const char *text, uint32_t low, uint32_t high, uint32_t *value) {
  uint64_t number;
  if (!rondo_kit_read_number(text, low, high, &number))
    return false;
  *value = (uint32_t)number;
  return true;
}

bool rondo_kit_read_seconds(const char *text, uint64_t *duration_ns) {
  char *end;
  double seconds = strtod(text, &end);
  if (end == text || *end || !(seconds > 0) || seconds > 86400)
    return false;
  *duration_ns = (uint64_t)(seconds * 1e9);
  return true;
}

bool rondo_kit_read_dtype(const char *text, int *dtype) {
  if (name_find(text, dtype_labels, RONDO_DTYPE_COUNT, dtype))
    return true;
  for (int d = 0; d < RONDO_DTYPE_COUNT; d++)
    if (strcasecmp(text, rondo_dtype_name(d)) == 0) {
      *dtype = d;
      return true;
    }
  return false;
}

bool rondo_kit_read_redop(const char *text, int *redop) {
  for (int r = 0; r < RONDO_REDOP_COUNT; r++)
    if (strcasecmp(text, rondo_redop_name(r)) == 0) {
      *redop = r;
      return true;
    }
  return false;
}

bool rondo_kit_read_kind(const char *text, int *kind) {
  static const struct {
    const char *name;
    int kind;
  } others[] = {{"alltoall", RONDO_ALL_TO_ALL}, // as nccl-tests writes them
                {"alltoallv", RONDO_ALL_TO_ALL_V},
                {"sendrecv", RONDO_SEND_RECV}};
  for (int k = 0; k < RONDO_KIND_COUNT; k++)
    if (strcasecmp(text, rondo_kind_name(k)) == 0) {
      *kind = k;
      return true;
    }
  for (int i = 0; i < LENGTH(others); i++)
    if (strcasecmp(text, others[i].name) == 0) {
      *kind = others[i].kind;
      return true;
    }
  return false;
}

bool rondo_kit_read_order(const char *text, int *order) {
  return name_find(text, order_names, LENGTH(order_names), order);
}

bool rondo_kit_read_budget(const char *text, int *budget) {
  return name_find(text, budget_names, LENGTH(budget_names), budget);
}

bool rondo_kit_read_backend(const char *text, int *backend) {
  return name_find(text, backend_names, LENGTH(backend_names), backend);
}

const char *rondo_kit_dtype_label(int dtype) {
  return name_at(dtype_labels, RONDO_DTYPE_COUNT, dtype);
}

const char *rondo_kit_order_name(int order) {
  return name_at(order_names, LENGTH(order_names), order);
}

const char *rondo_kit_budget_name(int budget) {
  return name_at(budget_names, LENGTH(budget_names), budget);
}

const char *rondo_kit_backend_name(int backend) {
  return name_at(backend_names, LENGTH(backend_names), backend);
}

char *rondo_kit_size_text(uint64_t bytes, char *text) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)bytes;
  int unit = 0;
  while (value >= 1024 && unit < LENGTH(units) - 1) {
    value /= 1024;
    unit++;
  }
  snprintf(text, RONDO_KIT_SIZE_TEXT_BYTES, "%.4g %s", value, units[unit]);
  return text;
}

char *rondo_kit_count_text(uint64_t value, char *text) {
  char digits[24];
  int length = snprintf(digits, sizeof(digits), "%" PRIu64, value);
  char *out = text;
  for (int i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0)
      *out++ = ',';
    *out++ = digits[i];
  }
  *out = '\0';
  return text;
}
