// Configurations as JSON: reads Rondo's own format, and reads and writes the published simulator's.
#include "sim/deadlock/config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/common/json.h"
#include "sim/common/text.h"
#include "sim/deadlock/json_line.h"

#define RONDO_SIM_MAX_GPUS 100000000u
#define RONDO_SIM_MAX_COLLECTIVES 10000000u

// The numbers that a key accepts.
struct limits {
  uint64_t least, most;
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
  struct rondo_sim_error *error;
  char path[160];                // of the value that is read, with dots between its parts
  struct rondo_sim_group *group; // that is read
  uint32_t *gpus;                // of this group
};

// Reads element `k` of a list.
typedef bool (*element_read)(struct reader *r, json_t *value, uint32_t k);

// Writes the error "file:line: path: what" and returns false.
__attribute__((format(printf, 2, 3))) static bool reader_refuse(struct reader *r,
                                                                const char *format, ...) {
  char what[256];
  va_list ap;
  va_start(ap, format);
  vsnprintf(what, sizeof(what), format, ap);
  va_end(ap);
  return rondo_sim_refuse(r->error, "%s:%d: %s%s%s", r->name, rondo_sim_json_line(r->text, r->path),
                          r->path, *r->path ? ": " : "", what);
}

// Refuses the value of a key with the line "key: what" of another function.
static bool reader_pass_on(struct reader *r, const struct rondo_sim_error *error) {
  int key = (int)strcspn(error->text, ":");
  snprintf(r->path, sizeof(r->path), "%.*s", key, error->text);
  return reader_refuse(r, "%s", error->text + key + 2);
}

// Goes down to a member of the value that is read; reader_leave() goes up again.
static void reader_enter(struct reader *r, const char *key) {
  size_t length = strlen(r->path);
  snprintf(r->path + length, sizeof(r->path) - length, "%s%s", length ? "." : "", key);
}

static void reader_leave(struct reader *r) {
  char *dot = strrchr(r->path, '.');
  *(dot ? dot : r->path) = 0;
}

static bool u64_read(struct reader *r, const json_t *value, struct limits limits, uint64_t *out) {
  if (!json_is_integer(value)) {
    return reader_refuse(r, "must be a whole number");
  }
  json_int_t n = json_integer_value(value);
  if (n < 0 || (uint64_t)n < limits.least || (uint64_t)n > limits.most) {
    return reader_refuse(r, "%" JSON_INTEGER_FORMAT " is not from %" PRIu64 " to %" PRIu64, n,
                         limits.least, limits.most);
  }
  *out = (uint64_t)n;
  return true;
}

static bool u32_read(struct reader *r, const json_t *value, struct limits limits, uint32_t *out) {
  uint64_t n = 0;
  bool ok = u64_read(r, value, limits, &n);
  *out = (uint32_t)n;
  return ok;
}

// Goes down to `object[key]`, which must be there.
static const json_t *member_enter(struct reader *r, const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  if (value) {
    reader_enter(r, key);
  } else {
    reader_refuse(r, "\"%s\" is missing", key);
  }
  return value;
}

static bool member_read(struct reader *r, const json_t *object, const char *key,
                        struct limits limits, uint32_t *out) {
  const json_t *value = member_enter(r, object, key);
  bool ok = value && u32_read(r, value, limits, out);
  reader_leave(r);
  return ok;
}

static bool optional_read(struct reader *r, const json_t *object, const char *key, uint32_t *out) {
  return !json_object_get(object, key) || member_read(r, object, key, size_limits, out);
}

static bool probability_read(struct reader *r, const json_t *object, const char *key, double *out) {
  const json_t *value = member_enter(r, object, key);
  *out = json_number_value(value);
  if (value && (!json_is_number(value) || !(*out >= 0 && *out <= 1))) {
    return reader_refuse(r, "must be a probability from 0 to 1");
  }
  reader_leave(r);
  return value != NULL;
}

static bool elements_read(struct reader *r, json_t *list, const char *what, element_read read) {
  if (!json_is_array(list) || json_array_size(list) == 0) {
    return reader_refuse(r, "must be a list of %s", what);
  }
  bool ok = true;
  for (uint32_t k = 0; ok && k < json_array_size(list); k++) {
    char number[16];
    snprintf(number, sizeof(number), "%u", k);
    reader_enter(r, number);
    ok = read(r, json_array_get(list, k), k);
    reader_leave(r);
  }
  return ok;
}

static bool list_read(struct reader *r, const json_t *object, const char *key, const char *what,
                      element_read read) {
  reader_enter(r, key);
  bool ok = elements_read(r, json_object_get(object, key), what, read);
  reader_leave(r);
  return ok;
}

// Refuses unknown keys: a misspelt key would silently keep its default.
static bool keys_check(struct reader *r, json_t *object, const char *known) {
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value) {
    if (rondo_sim_list_find(known, key) < 0) {
      reader_enter(r, key);
      return reader_refuse(r, "unknown key");
    }
  }
  return true;
}

static bool gpu_read(struct reader *r, json_t *value, uint32_t k) {
  static const struct limits gpu_numbers = {0, RONDO_SIM_MAX_GPUS - 1};
  struct rondo_sim_config *c = r->config;
  if (!u32_read(r, value, gpu_numbers, &r->gpus[k])) {
    return false;
  }
  for (uint32_t j = 0; j < k; j++) {
    if (r->gpus[j] == r->gpus[k]) {
      return reader_refuse(r, "GPU %u is in the group twice", r->gpus[k]);
    }
  }
  c->gpu_count = r->gpus[k] >= c->gpu_count ? r->gpus[k] + 1 : c->gpu_count;
  return true;
}

static bool gpus_read(struct reader *r, json_t *list, uint32_t g) {
  struct rondo_sim_group *group = &r->config->groups[g];
  group->gpu_count = (uint32_t)json_array_size(list);
  group->gpus = r->gpus = rondo_sim_calloc(group->gpu_count, sizeof(uint32_t));
  return elements_read(r, list, "GPU numbers with at least one entry", gpu_read);
}

static void groups_begin(struct rondo_sim_config *c, size_t count) {
  rondo_sim_config_forget_groups(c);
  c->grouping = RONDO_SIM_FREE;
  c->gpu_count = 0;
  c->group_count = (uint32_t)count;
  c->groups = rondo_sim_calloc(count, sizeof(*c->groups));
}

static bool group_read(struct reader *r, json_t *group, uint32_t g) {
  if (!json_is_object(group)) {
    return reader_refuse(r, "must be an object with \"gpus\" and \"collectives\"");
  }
  if (!keys_check(r, group, "gpus,collectives")) {
    return false;
  }
  reader_enter(r, "gpus");
  bool ok = gpus_read(r, json_object_get(group, "gpus"), g);
  reader_leave(r);
  return ok && member_read(r, group, "collectives", collective_limits,
                           &r->config->groups[g].collective_count);
}

static bool free_read(struct reader *r, json_t *o) {
  groups_begin(r->config, json_array_size(json_object_get(o, "groups")));
  return keys_check(r, o, "policy,groups") &&
         list_read(r, o, "groups", "groups with at least one entry", group_read);
}

static bool sizes_3d_read(struct reader *r, json_t *o, const char *const keys[5]) {
  struct rondo_sim_config *c = r->config;
  uint32_t *values[5] = {&c->tensor, &c->data, &c->pipeline, &c->tensor_collectives,
                         &c->data_collectives};
  for (int k = 0; k < 5; k++) {
    if (!member_read(r, o, keys[k], k < 3 ? size_limits : collective_limits, values[k])) {
      return false;
    }
  }
  if ((uint64_t)c->tensor * c->data > RONDO_SIM_MAX_GPUS ||
      (uint64_t)c->tensor * c->data * c->pipeline > RONDO_SIM_MAX_GPUS) {
    return reader_refuse(r, "more than %u GPUs", RONDO_SIM_MAX_GPUS);
  }
  c->grouping = RONDO_SIM_3D;
  return true;
}

static bool size_read(struct reader *r, json_t *size, uint32_t k) {
  struct rondo_sim_group_sizes *sizes = &r->config->sizes[k];
  if (!json_is_object(size)) {
    return reader_refuse(r, "must be an object with \"count\" and \"gpus\"");
  }
  return keys_check(r, size, "count,gpus") &&
         member_read(r, size, "count", group_limits, &sizes->count) &&
         member_read(r, size, "gpus", size_limits, &sizes->gpus);
}

static bool choice_read(struct reader *r, json_t *value, uint32_t k) {
  return u32_read(r, value, collective_limits, &r->config->collective_choices[k]);
}

static bool seed_read(struct reader *r, const json_t *o) {
  static const struct limits seeds = {0, INT64_MAX};
  const json_t *seed = json_object_get(o, "seed");
  reader_enter(r, "seed");
  bool ok = !seed || u64_read(r, seed, seeds, &r->config->grouping_seed);
  reader_leave(r);
  return ok;
}

static bool drawn_read(struct reader *r, json_t *o) {
  struct rondo_sim_config *c = r->config;
  rondo_sim_config_forget_groups(c);
  free(c->sizes);
  free(c->collective_choices);
  c->grouping = RONDO_SIM_FREE_DRAWN;
  c->size_count = (uint32_t)json_array_size(json_object_get(o, "groups"));
  c->choice_count = (uint32_t)json_array_size(json_object_get(o, "collectives"));
  c->sizes = rondo_sim_calloc(c->size_count, sizeof(*c->sizes));
  c->collective_choices = rondo_sim_calloc(c->choice_count, sizeof(uint32_t));
  return keys_check(r, o, "policy,gpus,groups,collectives,max_groups_per_gpu,seed,draws") &&
         list_read(r, o, "groups", "{\"count\", \"gpus\"}", size_read) &&
         list_read(r, o, "collectives", "counts", choice_read) &&
         member_read(r, o, "gpus", gpu_limits, &c->gpu_count) &&
         optional_read(r, o, "max_groups_per_gpu", &c->max_groups_per_gpu) &&
         optional_read(r, o, "draws", &c->draws) && seed_read(r, o);
}

// Checks that drawn groups can be drawn, by drawing them once.
static bool drawing_check(struct reader *r) {
  struct rondo_sim_config *c = r->config;
  struct rondo_sim_layout w;
  if (c->grouping != RONDO_SIM_FREE_DRAWN) {
    return true;
  }
  if (!rondo_sim_config_layout(c, 0, c->order, &w)) {
    reader_enter(r, "grouping");
    return reader_refuse(r, "no such grouping: each GPU must be in 1 to %u groups",
                         c->max_groups_per_gpu);
  }
  rondo_sim_layout_fini(&w);
  return true;
}

static bool grouping_read(struct reader *r, json_t *o) {
  static const char *const sizes[] = {"tensor", "data", "pipeline", "tensor_collectives",
                                      "data_collectives"};
  const char *policy = json_string_value(json_object_get(o, "policy"));
  if (!policy) {
    return reader_refuse(r, "must be an object with a \"policy\": 3d, free or drawn");
  }
  switch (rondo_sim_list_find("3d,free,drawn", policy)) {
  case 0:
    return keys_check(r, o, "policy,tensor,data,pipeline,tensor_collectives,data_collectives") &&
           sizes_3d_read(r, o, sizes);
  case 1:
    return free_read(r, o);
  case 2:
    return drawn_read(r, o);
  default:
    reader_enter(r, "policy");
    return reader_refuse(r, "\"%s\" is not one of 3d, free, drawn", policy);
  }
}

// Reads one of the options of rondo_sim_config_set().
static bool option_read(struct reader *r, const char *key, const json_t *value) {
  char number[64] = "";
  struct rondo_sim_error error;
  bool word = rondo_sim_list_find(RONDO_SIM_WORD_OPTIONS, key) >= 0;
  if (word ? !json_is_string(value) : !json_is_number(value)) {
    return reader_refuse(r, word ? "must be a word in double quotes" : "must be a number");
  }
  if (json_is_integer(value)) {
    snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  } else {
    snprintf(number, sizeof(number), "%.17g", json_real_value(value));
  }
  const char *text = word ? json_string_value(value) : number;
  return rondo_sim_config_set(r->config, key, text, &error) || reader_pass_on(r, &error);
}

static bool own_read(struct reader *r, json_t *root) {
  const char *key;
  json_t *value;
  bool ok = keys_check(r, root, RONDO_SIM_WORD_OPTIONS "," RONDO_SIM_NUMBER_OPTIONS ",grouping");
  json_object_foreach(root, key, value) {
    if (ok) {
      reader_enter(r, key);
      ok = strcmp(key, "grouping") == 0 ? grouping_read(r, value) : option_read(r, key, value);
      reader_leave(r);
    }
  }
  return ok;
}

static bool published_count_read(struct reader *r, json_t *value, uint32_t g) {
  return u32_read(r, value, collective_limits, &r->config->groups[g].collective_count);
}

static bool published_free_read(struct reader *r, const json_t *root) {
  struct rondo_sim_config *c = r->config;
  uint32_t gpus = 0, groups = 0;
  if (!member_read(r, root, "gpu_num", gpu_limits, &gpus) ||
      !member_read(r, root, "group_num", group_limits, &groups)) {
    return false;
  }
  if (json_array_size(json_object_get(root, "gpu_per_group")) != groups) {
    reader_enter(r, "gpu_per_group");
    return reader_refuse(r, "must be a list of group_num (%u) lists", groups);
  }
  if (json_array_size(json_object_get(root, "coll_cnt_per_group")) != groups) {
    reader_enter(r, "coll_cnt_per_group");
    return reader_refuse(r, "must be a list of group_num (%u) counts", groups);
  }
  groups_begin(c, groups);
  if (!list_read(r, root, "gpu_per_group", "lists", gpus_read) ||
      !list_read(r, root, "coll_cnt_per_group", "counts", published_count_read)) {
    return false;
  }
  if (c->gpu_count != gpus) {
    reader_enter(r, "gpu_num");
    return reader_refuse(r, "is %u, but the groups hold GPUs 0 to %u", gpus, c->gpu_count - 1);
  }
  return true;
}

static bool published_model_read(struct reader *r, const json_t *root) {
  struct rondo_sim_config *c = r->config;
  const char *model = json_string_value(json_object_get(root, "model"));
  int stream = rondo_sim_list_find("Single,StreamWithSync", model ? model : "");
  if (stream < 0) {
    reader_enter(r, "model");
    return reader_refuse(r, "must be \"Single\" or \"StreamWithSync\"");
  }
  const json_t *limit = json_object_get(root, "resource_limit");
  if (limit && !json_is_integer(limit)) {
    reader_enter(r, "resource_limit");
    return reader_refuse(r, "must be a whole number");
  }
  json_int_t n = stream && limit ? json_integer_value(limit) : -1;
  c->model = !stream ? RONDO_SIM_SINGLE_QUEUE
             : n > 0 ? RONDO_SIM_RESOURCES
                     : RONDO_SIM_SYNCHRONISATION;
  c->resources = n > 0 && n < UINT32_MAX ? (uint64_t)n : 0;
  return true;
}

static bool published_grouping_read(struct reader *r, json_t *root) {
  static const char *const sizes[5] = {"tp_group_size", "dp_group_size", "pp_group_size",
                                       "coll_cnt_per_tp_group", "coll_cnt_per_dp_group"};
  const char *policy = json_string_value(json_object_get(root, "grouping_policy"));
  int arbitrary = rondo_sim_list_find("Megatron,Arbitrary", policy ? policy : "");
  if (arbitrary < 0) {
    reader_enter(r, "grouping_policy");
    return reader_refuse(r, "must be \"Megatron\" or \"Arbitrary\"");
  }
  return arbitrary ? published_free_read(r, root) : sizes_3d_read(r, root, sizes);
}

static bool published_read(struct reader *r, json_t *root) {
  static const char known[] =
      "total_rounds,fix_seed,disorder_prob,sync_prob,model,grouping_policy,tp_group_size,"
      "dp_group_size,pp_group_size,coll_cnt_per_tp_group,coll_cnt_per_dp_group,gpu_num,group_num,"
      "gpu_per_group,coll_cnt_per_group,resource_limit,num_process";
  static const struct limits rounds = {1, INT64_MAX / 2};
  struct rondo_sim_config *c = r->config;
  const json_t *fixed = json_object_get(root, "fix_seed");
  const json_t *total = keys_check(r, root, known) ? member_enter(r, root, "total_rounds") : NULL;
  if (!total || !u64_read(r, total, rounds, &c->rounds)) {
    return false;
  }
  reader_leave(r);
  c->published_stream = json_is_integer(fixed) && json_integer_value(fixed) == 1;
  c->order = RONDO_SIM_INTERLEAVED;
  c->skipped = RONDO_SIM_SKIPPED_KEEPS_ODDS;
  c->compat_dfccl = 1;
  return member_read(r, root, "num_process", size_limits, &c->processes) &&
         probability_read(r, root, "disorder_prob", &c->disorder) &&
         probability_read(r, root, "sync_prob", &c->synchronisation) &&
         published_model_read(r, root) && published_grouping_read(r, root);
}

bool rondo_sim_config_parse(struct rondo_sim_config *c, const char *text, const char *name,
                            struct rondo_sim_error *error) {
  struct reader r = {c, text, name, error, "", NULL, NULL};
  struct rondo_sim_error what;
  json_error_t at;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &at);
  if (!root) {
    return rondo_sim_refuse(error, "%s:%d: %s", name, at.line, at.text);
  }
  bool published =
      json_object_get(root, "grouping_policy") || json_object_get(root, "total_rounds");
  bool ok = json_is_object(root) ? published ? published_read(&r, root) : own_read(&r, root)
                                 : reader_refuse(&r, "must be a JSON object");
  ok = ok && (rondo_sim_config_check(c, &what) || reader_pass_on(&r, &what));
  ok = ok && drawing_check(&r);
  json_decref(root);
  return ok;
}

bool rondo_sim_config_load(struct rondo_sim_config *c, const char *path,
                           struct rondo_sim_error *error) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (!f) {
    return rondo_sim_refuse(error, "%s: %s", path, strerror(errno));
  }
  char *text = NULL;
  size_t capacity = 0;
  ssize_t bytes = getdelim(&text, &capacity, 0, f); // the whole file: JSON has no zero byte
  bool ok;
  if (bytes < 0 && !feof(f)) {
    ok = rondo_sim_refuse(error, "%s: %s", path, strerror(errno));
  } else if (bytes > 0 && !text[bytes - 1]) {
    ok = rondo_sim_refuse(error, "%s: holds a zero byte, so it is not JSON", path);
  } else {
    ok = rondo_sim_config_parse(c, bytes > 0 ? text : "", path, error);
  }
  free(text);
  if (f != stdin) {
    fclose(f);
  }
  return ok;
}

static void groups_export(json_t *root, const struct rondo_sim_layout *w) {
  json_t *lists = json_array(), *counts = json_array();
  for (uint32_t g = 0; g < w->group_count; g++) {
    json_t *members = json_array();
    for (uint32_t m = w->member_offset[g]; m < w->member_offset[g + 1]; m++) {
      json_array_append_new(members, json_integer(w->members[m]));
    }
    json_array_append_new(lists, members);
    json_array_append_new(counts, json_integer(w->collectives[g]));
  }
  json_object_update_new(root,
                         json_pack("{s:s, s:i, s:i, s:o, s:o}", "grouping_policy", "Arbitrary",
                                   "gpu_num", (int)w->gpu_count, "group_num", (int)w->group_count,
                                   "gpu_per_group", lists, "coll_cnt_per_group", counts));
}

bool rondo_sim_config_export(const struct rondo_sim_config *c, struct rondo_sim_text *out) {
  struct rondo_sim_layout w;
  bool listed = c->grouping != RONDO_SIM_3D;
  if (c->skipped != RONDO_SIM_SKIPPED_KEEPS_ODDS || c->order != RONDO_SIM_INTERLEAVED ||
      (listed && !rondo_sim_config_layout(c, 0, RONDO_SIM_INTERLEAVED, &w))) {
    return false;
  }
  json_t *root = json_pack(
      "{s:I, s:i, s:f, s:f, s:s, s:i, s:I}", "total_rounds", (json_int_t)c->rounds, "fix_seed", 0,
      "disorder_prob", c->disorder, "sync_prob", rondo_sim_config_synchronisation(c), "model",
      c->model == RONDO_SIM_SINGLE_QUEUE ? "Single" : "StreamWithSync", "num_process", 1,
      "resource_limit",
      c->model == RONDO_SIM_RESOURCES ? (json_int_t)c->resources : (json_int_t)-1);
  if (listed) {
    groups_export(root, &w);
    rondo_sim_layout_fini(&w);
  } else {
    json_object_update_new(root,
                           json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "grouping_policy",
                                     "Megatron", "tp_group_size", (int)c->tensor, "dp_group_size",
                                     (int)c->data, "pp_group_size", (int)c->pipeline,
                                     "coll_cnt_per_tp_group", (int)c->tensor_collectives,
                                     "coll_cnt_per_dp_group", (int)c->data_collectives));
  }
  rondo_sim_text_add_json(out, root, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
  return true;
}
