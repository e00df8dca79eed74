// Reads configurations from JSON: Rondo's own format and the published simulator's.
#include "sim/deadlock/config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"
#include "sim/deadlock/locate.h"

#define RONDO_SIM_MAX_GPUS 100000000u
#define RONDO_SIM_MAX_COLLECTIVES 10000000u

// The numbers that a key accepts.
struct limits {
  uint32_t least, most;
};

// A group of a kind that a job does not use has no collectives.
static const struct limits collective_limits = {0, RONDO_SIM_MAX_COLLECTIVES};
static const struct limits gpu_limits = {1, RONDO_SIM_MAX_GPUS};
static const struct limits group_limits = {1, 10000000};
static const struct limits size_limits = {1, 1000000};

// The file that is read, and where its error goes.
struct reader {
  struct rondo_sim_config *config;
  const char *text, *name;
  char *error;
  size_t error_bytes;
};

// Writes the error "file:line: key: what" and returns false.
__attribute__((format(printf, 3, 4))) static bool reader_refuse(struct reader *r, const char *path,
                                                                const char *format, ...) {
  char what[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof(what), format, ap);
  va_end(ap);
  snprintf(r->error, r->error_bytes, "%s:%d: %s%s%s", r->name, rondo_sim_locate(r->text, path),
           path, *path ? ": " : "", what);
  return false;
}

// Reads a whole number from `least` to `most`; errors name `path`.
static bool read_count(struct reader *r, const json_t *value, const char *path, uint64_t least,
                       uint64_t most, uint64_t *out) {
  if (!value) {
    return reader_refuse(r, path, "is missing");
  }
  if (!json_is_integer(value)) {
    return reader_refuse(r, path, "must be a whole number");
  }
  json_int_t n = json_integer_value(value);
  if (n < 0 || (uint64_t)n < least || (uint64_t)n > most) {
    return reader_refuse(r, path, "%" JSON_INTEGER_FORMAT " is not from %" PRIu64 " to %" PRIu64, n,
                         least, most);
  }
  *out = (uint64_t)n;
  return true;
}

static bool read_u32(struct reader *r, const json_t *value, const char *path, struct limits limits,
                     uint32_t *out) {
  uint64_t n = 0;
  if (!read_count(r, value, path, limits.least, limits.most, &n)) {
    return false;
  }
  *out = (uint32_t)n;
  return true;
}

// Reads `object[key]`; errors name it "prefix.key".
static bool read_member(struct reader *r, const json_t *object, const char *prefix, const char *key,
                        struct limits limits, uint32_t *out) {
  char path[96];
  snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
  const json_t *value = json_object_get(object, key);
  if (!value) {
    reader_refuse(r, prefix, "\"%s\" is missing", key);
    return false;
  }
  return read_u32(r, value, path, limits, out);
}

// Refuses unknown keys: a misspelt key would silently keep its default.
static bool known_keys(struct reader *r, json_t *object, const char *prefix,
                       const char *const *known) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    const char *const *k = known;
    while (*k && strcmp(*k, key) != 0) {
      k++;
    }
    if (!*k) {
      char path[128];
      snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", key);
      return reader_refuse(r, path, "unknown key");
    }
  }
  return true;
}

// Reads the GPUs of a listed group into c->groups[g].
static bool read_gpus(struct reader *r, const json_t *list, const char *path, uint32_t g) {
  static const struct limits gpu_numbers = {0, RONDO_SIM_MAX_GPUS - 1};
  struct rondo_sim_config *c = r->config;
  size_t n = json_array_size(list);
  if (!json_is_array(list) || n == 0) {
    return reader_refuse(r, path, "must be a list of GPU numbers with at least one entry");
  }
  uint32_t *gpus = rondo_sim_calloc(n, sizeof(*gpus));
  c->groups[g].gpus = gpus;
  c->groups[g].gpu_count = (uint32_t)n;
  for (size_t k = 0; k < n; k++) {
    char element[112];
    snprintf(element, sizeof(element), "%s.%zu", path, k);
    if (!read_u32(r, json_array_get(list, k), element, gpu_numbers, &gpus[k])) {
      return false;
    }
    for (size_t j = 0; j < k; j++) {
      if (gpus[j] == gpus[k]) {
        return reader_refuse(r, element, "GPU %u is in the group twice", gpus[k]);
      }
    }
    c->gpu_count = gpus[k] >= c->gpu_count ? gpus[k] + 1 : c->gpu_count;
  }
  return true;
}

static void begin_groups(struct rondo_sim_config *c, size_t count) {
  rondo_sim_config_forget_groups(c);
  c->grouping = RONDO_SIM_FREE;
  c->gpu_count = 0;
  c->group_count = (uint32_t)count;
  c->groups = rondo_sim_calloc(count, sizeof(*c->groups));
}

static bool read_free(struct reader *r, json_t *grouping) {
  static const char *const known[] = {"policy", "groups", NULL};
  static const char *const group_keys[] = {"gpus", "collectives", NULL};
  json_t *groups = json_object_get(grouping, "groups");
  if (!known_keys(r, grouping, "grouping", known)) {
    return false;
  }
  if (!json_is_array(groups) || json_array_size(groups) == 0) {
    return reader_refuse(r, "grouping.groups", "must be a list of groups with at least one entry");
  }
  begin_groups(r->config, json_array_size(groups));
  for (uint32_t g = 0; g < r->config->group_count; g++) {
    char path[64], gpus[80];
    json_t *group = json_array_get(groups, g);
    snprintf(path, sizeof(path), "grouping.groups.%u", g);
    snprintf(gpus, sizeof(gpus), "%s.gpus", path);
    if (!json_is_object(group)) {
      return reader_refuse(r, path, "must be an object with \"gpus\" and \"collectives\"");
    }
    if (!known_keys(r, group, path, group_keys) ||
        !read_gpus(r, json_object_get(group, "gpus"), gpus, g) ||
        !read_member(r, group, path, "collectives", collective_limits,
                     &r->config->groups[g].collective_count)) {
      return false;
    }
  }
  return true;
}

static bool read_3d(struct reader *r, json_t *o, const char *prefix, const char *const keys[5]) {
  struct rondo_sim_config *c = r->config;
  uint32_t *values[5] = {&c->tensor, &c->data, &c->pipeline, &c->tensor_collectives,
                         &c->data_collectives};
  for (int k = 0; k < 5; k++) {
    if (!read_member(r, o, prefix, keys[k], k < 3 ? size_limits : collective_limits, values[k])) {
      return false;
    }
  }
  if ((uint64_t)c->tensor * c->data > RONDO_SIM_MAX_GPUS ||
      (uint64_t)c->tensor * c->data * c->pipeline > RONDO_SIM_MAX_GPUS) {
    return reader_refuse(r, prefix, "more than %u GPUs", RONDO_SIM_MAX_GPUS);
  }
  c->grouping = RONDO_SIM_3D;
  return true;
}

static bool read_sizes(struct reader *r, json_t *sizes) {
  static const char *const known[] = {"count", "gpus", NULL};
  struct rondo_sim_config *c = r->config;
  c->size_count = (uint32_t)json_array_size(sizes);
  free(c->sizes);
  c->sizes = rondo_sim_calloc(c->size_count, sizeof(*c->sizes));
  for (uint32_t k = 0; k < c->size_count; k++) {
    char path[64];
    json_t *size = json_array_get(sizes, k);
    snprintf(path, sizeof(path), "grouping.groups.%u", k);
    if (!json_is_object(size)) {
      return reader_refuse(r, path, "must be an object with \"count\" and \"gpus\"");
    }
    if (!known_keys(r, size, path, known) ||
        !read_member(r, size, path, "count", group_limits, &c->sizes[k].count) ||
        !read_member(r, size, path, "gpus", size_limits, &c->sizes[k].gpus)) {
      return false;
    }
  }
  return true;
}

static bool read_choices(struct reader *r, json_t *choices) {
  struct rondo_sim_config *c = r->config;
  c->choice_count = (uint32_t)json_array_size(choices);
  free(c->collective_choices);
  c->collective_choices = rondo_sim_calloc(c->choice_count, sizeof(uint32_t));
  for (uint32_t k = 0; k < c->choice_count; k++) {
    char path[64];
    snprintf(path, sizeof(path), "grouping.collectives.%u", k);
    if (!read_u32(r, json_array_get(choices, k), path, collective_limits,
                  &c->collective_choices[k])) {
      return false;
    }
  }
  return true;
}

static bool read_optional(struct reader *r, json_t *o, const char *key, uint32_t *out) {
  return !json_object_get(o, key) || read_member(r, o, "grouping", key, size_limits, out);
}

static bool read_drawn(struct reader *r, json_t *o) {
  static const char *const known[] = {
      "policy", "gpus", "groups", "collectives", "max_groups_per_gpu", "seed", "draws", NULL};
  struct rondo_sim_config *c = r->config;
  json_t *sizes = json_object_get(o, "groups"), *choices = json_object_get(o, "collectives");
  json_t *seed = json_object_get(o, "seed");
  if (!known_keys(r, o, "grouping", known)) {
    return false;
  }
  if (!json_is_array(sizes) || json_array_size(sizes) == 0) {
    return reader_refuse(r, "grouping.groups", "must be a list of {\"count\", \"gpus\"}");
  }
  if (!json_is_array(choices) || json_array_size(choices) == 0) {
    return reader_refuse(r, "grouping.collectives", "must be a list of counts");
  }
  if (!read_member(r, o, "grouping", "gpus", gpu_limits, &c->gpu_count) || !read_sizes(r, sizes) ||
      !read_choices(r, choices) ||
      !read_optional(r, o, "max_groups_per_gpu", &c->max_groups_per_gpu) ||
      !read_optional(r, o, "draws", &c->draws) ||
      (seed && !read_count(r, seed, "grouping.seed", 0, INT64_MAX, &c->grouping_seed))) {
    return false;
  }
  uint32_t gpu_count = c->gpu_count;
  rondo_sim_config_forget_groups(c);
  c->grouping = RONDO_SIM_FREE_DRAWN;
  c->gpu_count = gpu_count;
  return true;
}

// Checks that drawn groups can be drawn, by drawing them once.
static bool can_be_drawn(struct reader *r) {
  struct rondo_sim_config *c = r->config;
  struct rondo_sim_world w;
  if (c->grouping != RONDO_SIM_FREE_DRAWN) {
    return true;
  }
  if (!rondo_sim_config_world(c, 0, c->order, &w)) {
    return reader_refuse(r, "grouping", "no such grouping: each GPU must be in 1 to %u groups",
                         c->max_groups_per_gpu);
  }
  rondo_sim_world_fini(&w);
  return true;
}

static bool read_grouping(struct reader *r, json_t *o) {
  static const char *const known[] = {
      "policy", "tensor", "data", "pipeline", "tensor_collectives", "data_collectives", NULL};
  const char *policy = json_string_value(json_object_get(o, "policy"));
  if (!json_is_object(o) || !policy) {
    return reader_refuse(r, "grouping", "must be an object with a \"policy\": 3d, free or drawn");
  }
  if (strcmp(policy, "3d") == 0) {
    return known_keys(r, o, "grouping", known) && read_3d(r, o, "grouping", known + 1);
  }
  if (strcmp(policy, "free") == 0) {
    return read_free(r, o);
  }
  if (strcmp(policy, "drawn") == 0) {
    return read_drawn(r, o);
  }
  return reader_refuse(r, "grouping.policy", "\"%s\" is not one of 3d, free, drawn", policy);
}

// Reads one of the options of rondo_sim_config_set().
static bool read_option(struct reader *r, const char *key, const json_t *value) {
  char text[64], error[256];
  static const char *const words[] = {"model",  "order",  "skipped", "turns",
                                      "engine", "compat", NULL};
  const char *const *k = words;
  while (*k && strcmp(*k, key) != 0) {
    k++;
  }
  if (*k ? !json_is_string(value) : !json_is_number(value)) {
    return reader_refuse(r, key, *k ? "must be a word in double quotes" : "must be a number");
  }
  if (json_is_integer(value)) {
    snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  } else if (json_is_real(value)) {
    snprintf(text, sizeof(text), "%.17g", json_real_value(value));
  }
  const char *shown = *k ? json_string_value(value) : text;
  if (!rondo_sim_config_set(r->config, key, shown, error, sizeof(error))) {
    const char *what = strstr(error, ": ");
    return reader_refuse(r, key, "%s", what ? what + 2 : error);
  }
  return true;
}

static bool read_own(struct reader *r, json_t *root) {
  static const char *const known[] = {
      "model",  "disorder", "synchronisation", "resources", "order",   "skipped",  "turns",
      "engine", "compat",   "rounds",          "seed",      "threads", "grouping", NULL};
  const char *key;
  json_t *value;
  if (!known_keys(r, root, "", known)) {
    return false;
  }
  json_object_foreach(root, key, value) {
    if (strcmp(key, "grouping") == 0 ? !read_grouping(r, value) : !read_option(r, key, value)) {
      return false;
    }
  }
  return true;
}

static bool read_probability(struct reader *r, const json_t *root, const char *key, double *out) {
  const json_t *value = json_object_get(root, key);
  if (!value) {
    return reader_refuse(r, key, "is missing");
  }
  *out = json_number_value(value);
  if (!json_is_number(value) || !(*out >= 0 && *out <= 1)) {
    return reader_refuse(r, key, "must be a probability from 0 to 1");
  }
  return true;
}

static bool read_published_free(struct reader *r, const json_t *root) {
  struct rondo_sim_config *c = r->config;
  const json_t *lists = json_object_get(root, "gpu_per_group");
  const json_t *counts = json_object_get(root, "coll_cnt_per_group");
  uint32_t gpus = 0, groups = 0;
  if (!read_member(r, root, "", "gpu_num", gpu_limits, &gpus) ||
      !read_member(r, root, "", "group_num", group_limits, &groups)) {
    return false;
  }
  if (json_array_size(lists) != groups) {
    return reader_refuse(r, "gpu_per_group", "must be a list of group_num (%u) lists", groups);
  }
  if (json_array_size(counts) != groups) {
    return reader_refuse(r, "coll_cnt_per_group", "must be a list of group_num (%u) counts",
                         groups);
  }
  begin_groups(c, groups);
  for (uint32_t g = 0; g < groups; g++) {
    char list[64], count[64];
    snprintf(list, sizeof(list), "gpu_per_group.%u", g);
    snprintf(count, sizeof(count), "coll_cnt_per_group.%u", g);
    if (!read_gpus(r, json_array_get(lists, g), list, g) ||
        !read_u32(r, json_array_get(counts, g), count, collective_limits,
                  &c->groups[g].collective_count)) {
      return false;
    }
  }
  if (c->gpu_count != gpus) {
    return reader_refuse(r, "gpu_num", "is %u, but the groups hold GPUs 0 to %u", gpus,
                         c->gpu_count - 1);
  }
  return true;
}

static bool read_published_model(struct reader *r, const json_t *root) {
  struct rondo_sim_config *c = r->config;
  const char *model = json_string_value(json_object_get(root, "model"));
  bool single = model && strcmp(model, "Single") == 0;
  if (!single && (!model || strcmp(model, "StreamWithSync") != 0)) {
    return reader_refuse(r, "model", "must be \"Single\" or \"StreamWithSync\"");
  }
  const json_t *limit = json_object_get(root, "resource_limit");
  if (limit && !json_is_integer(limit)) {
    return reader_refuse(r, "resource_limit", "must be a whole number");
  }
  json_int_t n = limit ? json_integer_value(limit) : -1;
  c->model = single  ? RONDO_SIM_SINGLE_QUEUE
             : n > 0 ? RONDO_SIM_RESOURCES
                     : RONDO_SIM_SYNCHRONISATION;
  c->resources = !single && n > 0 && n < UINT32_MAX ? (uint32_t)n : 0;
  return true;
}

static bool read_published(struct reader *r, json_t *root) {
  static const char *const sizes[5] = {"tp_group_size", "dp_group_size", "pp_group_size",
                                       "coll_cnt_per_tp_group", "coll_cnt_per_dp_group"};
  static const char *const known[] = {"total_rounds",
                                      "fix_seed",
                                      "disorder_prob",
                                      "sync_prob",
                                      "model",
                                      "grouping_policy",
                                      "tp_group_size",
                                      "dp_group_size",
                                      "pp_group_size",
                                      "coll_cnt_per_tp_group",
                                      "coll_cnt_per_dp_group",
                                      "gpu_num",
                                      "group_num",
                                      "gpu_per_group",
                                      "coll_cnt_per_group",
                                      "resource_limit",
                                      "num_process",
                                      NULL};
  struct rondo_sim_config *c = r->config;
  const json_t *fixed = json_object_get(root, "fix_seed");
  uint64_t rounds = 0;
  if (!known_keys(r, root, "", known) ||
      !read_count(r, json_object_get(root, "total_rounds"), "total_rounds", 1, INT64_MAX / 2,
                  &rounds) ||
      !read_member(r, root, "", "num_process", size_limits, &c->processes) ||
      !read_probability(r, root, "disorder_prob", &c->disorder) ||
      !read_probability(r, root, "sync_prob", &c->synchronisation) ||
      !read_published_model(r, root)) {
    return false;
  }
  c->rounds = rounds;
  c->published_stream = json_is_integer(fixed) && json_integer_value(fixed) == 1;
  c->order = RONDO_SIM_INTERLEAVED;
  c->skipped = RONDO_SIM_SKIPPED_KEEPS_ODDS;
  c->compat_dfccl = true;
  const char *policy = json_string_value(json_object_get(root, "grouping_policy"));
  if (policy && strcmp(policy, "Megatron") == 0) {
    return read_3d(r, root, "", sizes);
  }
  if (policy && strcmp(policy, "Arbitrary") == 0) {
    return read_published_free(r, root);
  }
  return reader_refuse(r, "grouping_policy", "must be \"Megatron\" or \"Arbitrary\"");
}

bool rondo_sim_config_parse(struct rondo_sim_config *c, const char *text, const char *name,
                            char *error, size_t error_bytes) {
  struct reader r = {c, text, name, error, error_bytes};
  json_error_t at;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &at);
  if (!root) {
    snprintf(error, error_bytes, "%s:%d: %s", name, at.line, at.text);
    return false;
  }
  bool published =
      json_object_get(root, "grouping_policy") || json_object_get(root, "total_rounds");
  bool ok = json_is_object(root) ? published ? read_published(&r, root) : read_own(&r, root)
                                 : reader_refuse(&r, "", "must be a JSON object");
  if (ok) {
    char what[256];
    ok = rondo_sim_config_check(c, what, sizeof(what));
    if (!ok) {
      char key[64]; // the key comes before the colon
      snprintf(key, sizeof(key), "%.*s", (int)strcspn(what, ":"), what);
      snprintf(error, error_bytes, "%s:%d: %s", name, rondo_sim_locate(text, key), what);
    }
    ok = ok && can_be_drawn(&r);
  }
  json_decref(root);
  return ok;
}

bool rondo_sim_config_load(struct rondo_sim_config *c, const char *path, char *error,
                           size_t error_bytes) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (!f) {
    snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
    return false;
  }
  struct rondo_sim_text text = {0};
  char buffer[65536];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), f)) > 0;) {
    rondo_sim_text_add_bytes(&text, buffer, n);
  }
  bool read_error = ferror(f);
  int reason = errno;
  if (f != stdin) {
    fclose(f);
  }
  bool ok = !read_error;
  if (read_error) {
    snprintf(error, error_bytes, "%s: %s", path, strerror(reason));
  } else if (strlen(rondo_sim_text_str(&text)) != text.size_bytes) {
    snprintf(error, error_bytes, "%s: holds a zero byte, so it is not JSON", path);
    ok = false;
  }
  ok = ok && rondo_sim_config_parse(c, rondo_sim_text_str(&text), path, error, error_bytes);
  rondo_sim_text_fini(&text);
  return ok;
}
