#include "tools/kit/options.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <rondo/types.h>

#define EXIT_USAGE 2
#define FIRST_KEY 256 // of options without a letter
#define MAX_OPTIONS 40
#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

// As nccl-tests writes them, where that is not Rondo's name without case.
static const char *const kind_labels[RONDO_KIND_COUNT] = {[RONDO_ALL_TO_ALL] = "alltoall",
                                                          [RONDO_ALL_TO_ALL_V] = "alltoallv",
                                                          [RONDO_SEND_RECV] = "sendrecv"};
static const char *const dtype_labels[RONDO_DTYPE_COUNT] = {
    "int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
    "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
static const char *const order_names[] = {"fifo", "priority"};
static const char *const budget_names[] = {"adaptive", "fixed", "never"};
static const char *const backend_names[] = {"host", "cuda"};
static const char *const orders_names[] = {"one", "common", "own"};

static const struct {
  const char *(*name)(int value); // null: the labels are the names
  const char *const *labels;      // other names; null: none
  int count;
} enumerations[] = {
    [RONDO_KIT_KIND] = {rondo_kind_name, kind_labels, RONDO_KIND_COUNT},
    [RONDO_KIT_DTYPE] = {rondo_dtype_name, dtype_labels, RONDO_DTYPE_COUNT},
    [RONDO_KIT_REDOP] = {rondo_redop_name, NULL, RONDO_REDOP_COUNT},
    [RONDO_KIT_ORDER] = {NULL, order_names, LENGTH(order_names)},
    [RONDO_KIT_BUDGET] = {NULL, budget_names, LENGTH(budget_names)},
    [RONDO_KIT_BACKEND] = {NULL, backend_names, LENGTH(backend_names)},
    [RONDO_KIT_ORDERS] = {NULL, orders_names, LENGTH(orders_names)},
    [RONDO_KIT_QUANTISATION] = {rondo_quantisation_name, NULL, RONDO_QUANTISATION_COUNT}};

static const char *label_at(enum rondo_kit_names names, int value) {
  const char *const *labels = enumerations[names].labels;
  return labels && value >= 0 && value < enumerations[names].count ? labels[value] : NULL;
}

const char *rondo_kit_name(enum rondo_kit_names names, int value) {
  if (enumerations[names].name)
    return enumerations[names].name(value);
  const char *label = label_at(names, value);
  return label ? label : "unknown";
}

const char *rondo_kit_dtype_label(int dtype) { return label_at(RONDO_KIT_DTYPE, dtype); }

bool rondo_kit_read_name(enum rondo_kit_names names, const char *text, int *value) {
  for (int v = 0; v < enumerations[names].count; v++) {
    const char *label = label_at(names, v);
    if (strcasecmp(text, rondo_kit_name(names, v)) == 0 || (label && !strcasecmp(text, label))) {
      *value = v;
      return true;
    }
  }
  return false;
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

// ------------------------------------------------------------- command lines ---

struct parsing {
  const struct rondo_kit_command *command;
  void *values;
};

static bool option_read(const struct rondo_kit_option *o, const char *text, void *values) {
  void *at = (char *)values + o->offset;
  switch (o->value) {
  case RONDO_KIT_FLAG:
    *(bool *)at = true;
    return true;
  case RONDO_KIT_TEXT:
    *(const char **)at = text;
    return true;
  case RONDO_KIT_U32:
    return rondo_kit_read_u32(text, (uint32_t)o->low, (uint32_t)o->high, at);
  case RONDO_KIT_U64:
    return rondo_kit_read_number(text, o->low, o->high, at);
  case RONDO_KIT_SIZE:
    return rondo_kit_read_size(text, at) && *(uint64_t *)at >= o->low;
  case RONDO_KIT_SECONDS:
    return rondo_kit_read_seconds(text, at);
  case RONDO_KIT_NAME:
    return rondo_kit_read_name(o->names, text, at);
  default:
    return o->read(text, values);
  }
}

static int option_key(const struct rondo_kit_option *options, size_t i) {
  return options[i].letter ? options[i].letter : FIRST_KEY + (int)i;
}

static error_t key_parse(int key, char *text, struct argp_state *state) {
  const struct parsing *parsing = state->input;
  const struct rondo_kit_command *command = parsing->command;
  if (key == ARGP_KEY_ARG) {
    if (!command->read_argument || !command->read_argument(text, state->arg_num, parsing->values))
      argp_error(state, "no argument is expected: '%s'", text);
    return 0;
  }
  for (size_t i = 0; command->options[i].name || command->options[i].help; i++) {
    const struct rondo_kit_option *o = &command->options[i];
    if (!o->name || option_key(command->options, i) != key)
      continue;
    if (!option_read(o, text, parsing->values))
      argp_error(state, "--%s does not take '%s'", o->name, text);
    return 0;
  }
  return ARGP_ERR_UNKNOWN;
}

void rondo_kit_command_read(const struct rondo_kit_command *command, int argc, char **argv,
                            void *values) {
  struct argp_option table[MAX_OPTIONS + 1] = {{0}};
  const struct rondo_kit_option *o = command->options;
  for (size_t i = 0; i < MAX_OPTIONS && (o[i].name || o[i].help); i++) {
    bool is_alias = !o[i].help;
    table[i] = (struct argp_option){.name = o[i].name, .arg = o[i].arg, .doc = o[i].help};
    table[i].flags = is_alias ? OPTION_ALIAS : o[i].is_optional ? OPTION_ARG_OPTIONAL : 0;
    if (o[i].name && !is_alias)
      table[i].key = option_key(o, i);
  }
  struct argp argp = {table, key_parse, command->args_doc, command->doc, NULL, NULL, NULL};
  struct parsing parsing = {command, values};
  argp_err_exit_status = EXIT_USAGE;
  argp_parse(&argp, argc, argv, 0, NULL, &parsing);
}

// ---------------------------------------------------------------------- text ---

char *rondo_kit_size_text(double bytes, char *text) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = bytes;
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
