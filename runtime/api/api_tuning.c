#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "runtime/api/api_tuning.h"
#include "scheduler/policy_core.h"

static const struct rondo_tuning defaults = {
    .front_budget_ns = RONDO_DEFAULT_FRONT_BUDGET_NS,
    .min_budget_ns = RONDO_DEFAULT_MIN_BUDGET_NS,
    .max_budget_ns = RONDO_DEFAULT_MAX_BUDGET_NS,
    .success_factor = RONDO_DEFAULT_SUCCESS_FACTOR,
    .quit_period_ns = RONDO_DEFAULT_QUIT_PERIOD_NS,
    .residency_ns = RONDO_DEFAULT_RESIDENCY_NS,
    .restart_min_ns = 20000,
    .restart_max_ns = 1000000,
};

#define FIELD_COUNT 9

static const char *const keys[FIELD_COUNT] = {
    "front_budget_ns", "min_budget_ns", "max_budget_ns",  "success_factor", "look_ns",
    "quit_period_ns",  "residency_ns",  "restart_min_ns", "restart_max_ns",
};

static void values_from_tuning(const struct rondo_tuning *t, uint64_t values[FIELD_COUNT]) {
  const uint64_t all[FIELD_COUNT] = {t->front_budget_ns, t->min_budget_ns,  t->max_budget_ns,
                                     t->success_factor,  t->look_ns,        t->quit_period_ns,
                                     t->residency_ns,    t->restart_min_ns, t->restart_max_ns};
  memcpy(values, all, sizeof all);
}

static struct rondo_tuning tuning_from_values(const uint64_t v[FIELD_COUNT]) {
  struct rondo_tuning t = {v[0], v[1], v[2], (uint32_t)v[3], (uint32_t)v[4], v[5],
                           v[6], v[7], v[8]};
  return t;
}

int rondo_tuning_print(const struct rondo_tuning *tuning, char *text, size_t text_bytes) {
  uint64_t values[FIELD_COUNT];
  char line[512];
  size_t used = 0;
  if (!tuning || !text)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "tuning_print: a null argument");
  values_from_tuning(tuning, values);
  for (int i = 0; i < FIELD_COUNT; i++)
    used += (size_t)snprintf(line + used, sizeof line - used, "%s%s=%llu", i ? "," : "", keys[i],
                             (unsigned long long)values[i]);
  if (used + 1 > text_bytes)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "tuning_print: %zu bytes are too few", text_bytes);
  memcpy(text, line, used + 1);
  return RONDO_SUCCESS;
}

// True if the field has 32 bits.
static bool is_short(int field) { return field == 3 || field == 4; }

// Reads "key=number" of `length` characters.
static int pair_parse(const char *pair, size_t length, uint64_t values[FIELD_COUNT]) {
  for (int i = 0; i < FIELD_COUNT; i++) {
    size_t key_length = strlen(keys[i]);
    if (length <= key_length + 1 || strncmp(pair, keys[i], key_length) != 0 ||
        pair[key_length] != '=')
      continue;
    uint64_t value = 0;
    if (rondo_number_read(pair + key_length + 1, is_short(i) ? UINT32_MAX : UINT64_MAX, &value) !=
        pair + length)
      return RONDO_ERR_INVALID;
    values[i] = value;
    return RONDO_SUCCESS;
  }
  return RONDO_ERR_INVALID;
}

// Parses pairs into `tuning`. Returns the first invalid pair and writes its length, or returns null
// if all are valid.
static const char *tuning_parse_text(struct rondo_tuning *tuning, const char *text, int *length) {
  uint64_t values[FIELD_COUNT] = {0};
  while (*text) {
    *length = (int)strcspn(text, ",");
    if (pair_parse(text, (size_t)*length, values) != RONDO_SUCCESS)
      return text;
    text += *length;
    text += *text == ',';
  }
  *tuning = tuning_from_values(values);
  return NULL;
}

int rondo_tuning_parse(struct rondo_tuning *tuning, const char *text) {
  if (!tuning || !text)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "tuning_parse: a null argument");
  int length = 0;
  const char *wrong = tuning_parse_text(tuning, text, &length);
  if (wrong)
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "tuning: \"%.*s\" is not a known key=number", length,
                            wrong);
  return RONDO_SUCCESS;
}

static void values_fill(uint64_t values[FIELD_COUNT], const struct rondo_tuning *from) {
  uint64_t other[FIELD_COUNT];
  values_from_tuning(from, other);
  for (int i = 0; i < FIELD_COUNT; i++)
    if (!values[i])
      values[i] = other[i];
}

static int values_fill_from_model(uint64_t values[FIELD_COUNT],
                                  const struct rondo_cost_file *file) {
  struct rondo_tuning measured;
  int length = 0;
  if (!file)
    return RONDO_SUCCESS;
  if (tuning_parse_text(&measured, file->tuning, &length))
    return RONDO_LOG_REFUSE(RONDO_ERR_INVALID,
                            "init: RONDO_COST_MODEL: %s: tuning \"%s\" makes "
                            "no sense",
                            getenv("RONDO_COST_MODEL"), file->tuning);
  values_fill(values, &measured);
  return RONDO_SUCCESS;
}

int rondo_tuning_resolve(struct rondo_tuning *tuning, const struct rondo_cost_file *file) {
  uint64_t values[FIELD_COUNT];
  struct rondo_tuning pinned;
  const char *text = getenv("RONDO_TUNING");
  values_from_tuning(tuning, values);
  int length = 0;
  const char *wrong = text ? tuning_parse_text(&pinned, text, &length) : NULL;
  if (wrong)
    rondo_log_variable("RONDO_TUNING", text, "key=number,... of known keys, not \"%.*s\"", length,
                       wrong);
  else if (text)
    values_fill(values, &pinned);
  int status = values_fill_from_model(values, file);
  if (status != RONDO_SUCCESS)
    return status;
  values_fill(values, &defaults);
  struct rondo_tuning t = tuning_from_values(values);
  if (t.min_budget_ns > t.max_budget_ns || t.restart_min_ns > t.restart_max_ns)
    return RONDO_LOG_REFUSE(
        RONDO_ERR_INVALID,
        "tuning: min_budget_ns %llu above max_budget_ns %llu, or restart_min_ns "
        "%llu above restart_max_ns %llu",
        (unsigned long long)t.min_budget_ns, (unsigned long long)t.max_budget_ns,
        (unsigned long long)t.restart_min_ns, (unsigned long long)t.restart_max_ns);
  *tuning = t;
  return RONDO_SUCCESS;
}
