// The named options of a configuration. Files and the command line use the same names and words.
#include "sim/deadlock/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const model_words[] = {"single-queue", "synchronisation", "resource-limited",
                                          NULL};
static const char *const order_words[] = {"interleaved", "sequential", NULL};
static const char *const skipped_words[] = {"keeps-odds", "next", NULL};
static const char *const turn_words[] = {"round-robin", "random", NULL};
static const char *const engine_words[] = {"fast", "naive", NULL};
static const char *const compat_words[] = {"none", "dfccl", NULL};

const char *rondo_sim_model_name(enum rondo_sim_model model) { return model_words[model]; }

// Writes one line to `error` and returns false.
static bool value_refuse(char *error, size_t error_bytes, const char *name, const char *value,
                         const char *wanted) {
  snprintf(error, error_bytes, "%s: \"%s\" is not %s", name, value, wanted);
  return false;
}

// The number of a word; or -1, with all words listed in `wanted`.
static int word_number(const char *const *words, const char *value, char *wanted, size_t bytes) {
  size_t used = (size_t)snprintf(wanted, bytes, "one of");
  for (int k = 0; words[k]; k++) {
    if (strcmp(words[k], value) == 0) {
      return k;
    }
    used += (size_t)snprintf(wanted + used, bytes - used, "%s %s", k ? "," : "", words[k]);
  }
  return -1;
}

static bool parse_probability(const char *value, double *p) {
  char *end;
  *p = strtod(value, &end);
  return end != value && !*end && isfinite(*p) && *p >= 0 && *p <= 1;
}

static bool parse_count(const char *value, uint64_t most, uint64_t *n) {
  char *end;
  errno = 0;
  *n = strtoull(value, &end, 10);
  return end != value && !*end && !errno && value[0] != '-' && *n <= most;
}

struct words {
  const char *name;
  const char *const *list;
};

// Sets an option whose value is a word. 1: done, 0: refused, -1: no such option.
static int set_word(struct rondo_sim_config *c, const char *name, const char *value, char *error,
                    size_t error_bytes) {
  static const struct words table[] = {{"model", model_words},     {"order", order_words},
                                       {"skipped", skipped_words}, {"turns", turn_words},
                                       {"engine", engine_words},   {"compat", compat_words}};
  size_t k = 0;
  while (k < 6 && strcmp(table[k].name, name) != 0) {
    k++;
  }
  if (k == 6) {
    return -1;
  }
  char wanted[160];
  int n = word_number(table[k].list, value, wanted, sizeof(wanted));
  if (n < 0) {
    return value_refuse(error, error_bytes, name, value, wanted);
  }
  switch (k) {
  case 0:
    c->model = (enum rondo_sim_model)n;
    break;
  case 1:
    c->order = (enum rondo_sim_order)n;
    break;
  case 2:
    c->skipped = (enum rondo_sim_skipped)n;
    break;
  case 3:
    c->turns = (enum rondo_sim_turns)n;
    break;
  case 4:
    c->engine = (enum rondo_sim_engine)n;
    break;
  default:
    c->compat_dfccl = n == 1;
  }
  return 1;
}

static int set_number(struct rondo_sim_config *c, const char *name, const char *value, char *error,
                      size_t error_bytes) {
  const struct {
    const char *name;
    uint64_t most;
    uint64_t *big;
    uint32_t *small;
  } table[] = {{"rounds", UINT64_MAX >> 1, &c->rounds, NULL},
               {"seed", UINT64_MAX, &c->seed, NULL},
               {"threads", 1024, NULL, &c->threads},
               {"resources", UINT32_MAX - 1, NULL, &c->resources}};
  for (size_t k = 0; k < sizeof(table) / sizeof(table[0]); k++) {
    uint64_t n;
    if (strcmp(table[k].name, name) != 0) {
      continue;
    }
    if (!parse_count(value, table[k].most, &n)) {
      char wanted[80];
      snprintf(wanted, sizeof(wanted), "a whole number from 0 to %llu",
               (unsigned long long)table[k].most);
      return value_refuse(error, error_bytes, name, value, wanted);
    }
    if (table[k].big) {
      *table[k].big = n;
    }
    if (table[k].small) {
      *table[k].small = (uint32_t)n;
    }
    return 1;
  }
  return -1;
}

bool rondo_sim_config_set(struct rondo_sim_config *c, const char *name, const char *value,
                          char *error, size_t error_bytes) {
  bool disorder = strcmp(name, "disorder") == 0;
  if (disorder || strcmp(name, "synchronisation") == 0) {
    double p;
    if (!parse_probability(value, &p)) {
      return value_refuse(error, error_bytes, name, value, "a probability from 0 to 1");
    }
    *(disorder ? &c->disorder : &c->synchronisation) = p;
    return true;
  }
  int done = set_word(c, name, value, error, error_bytes);
  if (done < 0) {
    done = set_number(c, name, value, error, error_bytes);
  }
  if (done < 0) {
    snprintf(error, error_bytes, "%s: unknown option", name);
  }
  return done > 0;
}
