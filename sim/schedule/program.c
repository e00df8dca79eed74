#include "sim/schedule/program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/kind.h"
#include "daemon/plan/build.h"
#include "sim/schedule/numbers.h"
#include <rondo/rondo.h>

#define BUCKET_BYTES (UINT64_C(25) << 20) // PyTorch's
#define MOST_RANKS RONDO_MAX_RANKS
#define MOST_CALLS 1000000u
#define NAME_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ._-+/"

struct rondo_schedule_statement rondo_schedule_statement_default(void) {
  return (struct rondo_schedule_statement){.kind = RONDO_ALL_REDUCE,
                                           .algorithm = RONDO_SCHEDULE_CHOICE,
                                           .bytes = UINT64_C(1) << 20,
                                           .stride = 1,
                                           .copies = 1,
                                           .times = 1};
}

bool rondo_schedule_kind_read(const char *name, int *kind) {
  int found = rondo_kind_find(name);
  bool ok = found < RONDO_KIND_COUNT;
  *kind = ok ? found : *kind;
  return ok;
}

bool rondo_schedule_algorithm_read(const char *name, int kind, int *algorithm) {
  static const int recursive[RONDO_KIND_COUNT] = {[RONDO_ALL_REDUCE] = RONDO_ALGORITHM_DOUBLING,
                                                  [RONDO_ALL_GATHER] = RONDO_ALGORITHM_BRUCK,
                                                  [RONDO_REDUCE_SCATTER] = RONDO_ALGORITHM_HALVING,
                                                  [RONDO_REDUCE] = RONDO_ALGORITHM_BINOMIAL,
                                                  [RONDO_BROADCAST] = RONDO_ALGORITHM_BINOMIAL,
                                                  [RONDO_SEND_RECV] = RONDO_ALGORITHM_DIRECT,
                                                  [RONDO_ALL_TO_ALL] = RONDO_ALGORITHM_BRUCK,
                                                  [RONDO_ALL_TO_ALL_V] = RONDO_ALGORITHM_DIRECT,
                                                  [RONDO_GATHER] = RONDO_ALGORITHM_BINOMIAL,
                                                  [RONDO_SCATTER] = RONDO_ALGORITHM_BINOMIAL,
                                                  [RONDO_BARRIER] = RONDO_ALGORITHM_DISSEMINATION};
  *algorithm = strcmp(name, "recursive") == 0 ? recursive[kind] : rondo_plan_algorithm_find(name);
  return *algorithm < RONDO_ALGORITHM_COUNT;
}

static struct rondo_schedule_statement *statement_add(struct rondo_schedule_statements *s,
                                                      const struct rondo_schedule_statement *like) {
  RONDO_SIM_GROW(s->items, s->count, s->capacity, 4);
  s->items[s->count] = *like;
  return &s->items[s->count++];
}

// ------------------------------------------------------------------ generators ---

static void ddp_add(struct rondo_schedule_statements *s,
                    const struct rondo_schedule_statement *like) {
  struct rondo_schedule_statement *x = statement_add(s, like);
  uint64_t buckets = (like->bytes + BUCKET_BYTES - 1) / BUCKET_BYTES;
  x->copies = buckets ? (uint32_t)buckets : 1;
  x->bytes = (like->bytes / x->copies + 3) / 4 * 4;
  snprintf(x->name, sizeof x->name, "bucket");
}

// Numbers of ranks from 1 on, `count` of them separated by commas, and their product.
static bool sizes_read(const char *sizes, size_t count, uint64_t *size, uint32_t *ranks) {
  uint64_t product = 1;
  char text[64], *rest = text, *part;
  size_t found = 0;
  snprintf(text, sizeof text, "%s", sizes);
  while ((part = strsep(&rest, ",")) && found < count &&
         rondo_schedule_read_count(part, 1, MOST_RANKS, &size[found])) {
    product = product > MOST_RANKS ? product : product * size[found];
    found++;
  }
  *ranks = (uint32_t)product;
  return found == count && !part && product <= MOST_RANKS;
}

// A statement with one collective, which is called once.
static struct rondo_schedule_statement *single_add(struct rondo_schedule_statements *s,
                                                   const struct rondo_schedule_statement *like,
                                                   const char *name, int kind) {
  struct rondo_schedule_statement *x = statement_add(s, like);
  snprintf(x->name, sizeof x->name, "%s", name);
  x->kind = kind;
  x->algorithm = kind == like->kind ? like->algorithm : RONDO_SCHEDULE_CHOICE;
  x->copies = 1;
  return x;
}

// The forward pass has two all-reduces a layer, and so has the backward pass, in which the
// gradients of a layer set off while the next one is computed.
static bool three_d_add(struct rondo_schedule_statements *s, const char *sizes,
                        const struct rondo_schedule_statement *like,
                        struct rondo_sim_error *error) {
  uint64_t size[3];
  if (!sizes_read(sizes, 3, size, &s->rank_count)) {
    return rondo_sim_refuse(error, "program: \"3d:%s\" must read 3d:T,D,P, such as 3d:8,4,2",
                            sizes);
  }
  for (uint32_t pass = 0; pass < 2; pass++) {
    for (uint32_t layer = 0; layer < like->copies; layer++) {
      struct rondo_schedule_statement *x = statement_add(s, like);
      snprintf(x->name, sizeof x->name, "%s", pass ? "backward" : "forward");
      x->copies = 1;
      x->times = 2;
      x->size = (uint32_t)size[0];
      x->waits = true;
      if (pass) {
        x = statement_add(s, like);
        snprintf(x->name, sizeof x->name, "gradients");
        x->copies = 1;
        x->compute_ns = 0;
        x->size = (uint32_t)size[1];
        x->stride = (uint32_t)size[0];
      }
    }
  }
  return true;
}

// A rank calls the all-gather of a layer before it computes the layer before, and then waits for
// the all-gather that it called last. So the calls go, with three layers: gathers 0, 1, 2 forward
// and 2, 1 backward, gradients 2, gather 0, gradients 1, 0.
static bool fsdp_add(struct rondo_schedule_statements *s, const char *sizes,
                     const struct rondo_schedule_statement *like, struct rondo_sim_error *error) {
  uint64_t n, layers = like->copies;
  if (!sizes_read(sizes, 1, &n, &s->rank_count) || layers < 2) {
    return rondo_sim_refuse(error,
                            "program: \"fsdp:%s\" must read fsdp:N, such as fsdp:64, with at "
                            "least 2 layers (--collectives)",
                            sizes);
  }
  uint64_t part = (like->bytes + 4 * n * layers - 1) / (4 * n * layers) * 4;
  for (uint64_t i = 0; i < 2 * layers; i++) {
    bool is_forward = i<layers, follows = i> layers + 1;
    struct rondo_schedule_statement *x;
    if (follows) {
      x = single_add(s, like, "gradients", RONDO_REDUCE_SCATTER);
      x->bytes = part;
    }
    x = single_add(s, like, is_forward ? "forward" : "backward", RONDO_ALL_GATHER);
    x->bytes = part;
    x->compute_ns = i > 1 && !follows ? like->compute_ns : 0;
    x->waits = true;
    x->behind = follows ? 2 : 1;
  }
  for (uint32_t i = 0; i < 2; i++) {
    struct rondo_schedule_statement *x = single_add(s, like, "gradients", RONDO_REDUCE_SCATTER);
    x->bytes = part;
    x->waits = i == 0; // for the last all-gather
    x->behind = 1;
  }
  return true;
}

// What the experts return has the sizes of what they were sent. Each layer has its own.
static bool moe_add(struct rondo_schedule_statements *s, const char *sizes,
                    const struct rondo_schedule_statement *like, struct rondo_sim_error *error) {
  uint64_t size[2];
  if (!sizes_read(sizes, 2, size, &s->rank_count)) {
    return rondo_sim_refuse(error, "program: \"moe:%s\" must read moe:E,D, such as moe:8,4", sizes);
  }
  for (uint32_t i = 0; i < 2 * like->copies; i++) {
    bool is_forward = i < like->copies;
    struct rondo_schedule_statement *x;
    for (uint32_t way = 0; way < 2; way++) {
      x = single_add(s, like, way ? "combine" : "dispatch", RONDO_ALL_TO_ALL_V);
      x->size = (uint32_t)size[0];
      x->parts_seed = 1 + (is_forward ? i : 2 * like->copies - 1 - i);
      x->returns = way == 1;
      x->waits = true;
    }
    if (!is_forward) {
      x = single_add(s, like, "gradients", RONDO_ALL_REDUCE);
      x->compute_ns = 0;
      x->size = (uint32_t)size[1];
      x->stride = (uint32_t)size[0];
    }
  }
  return true;
}

// ----------------------------------------------------------------------- files ---

static bool count_get(const json_t *value, uint64_t least, uint64_t most, uint32_t *to) {
  json_int_t number = json_integer_value(value);
  *to = (uint32_t)number;
  return json_is_integer(value) && number >= (json_int_t)least && number <= (json_int_t)most;
}

// A number of bytes, or a text with a unit.
static bool bytes_get(const json_t *value, uint64_t *to) {
  *to = (uint64_t)json_integer_value(value);
  return json_is_string(value) ? rondo_schedule_read_bytes(json_string_value(value), to)
                               : json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool time_get(const json_t *value, uint64_t *to) {
  double ns = 0;
  bool ok = json_is_string(value) && rondo_schedule_read_ns(json_string_value(value), &ns);
  *to = ok ? (uint64_t)(ns + 0.5) : 0; // else it may be too large for an integer
  return ok;
}

// Sets one key. Returns false if the value is not one for the key; `known`: whether there is such a
// key.
static bool key_set(struct rondo_schedule_statement *x, const char *key, const json_t *value,
                    bool *known) {
  const char *text = json_is_string(value) ? json_string_value(value) : "";
  static const char keys[] =
      "op,name,bytes,compute,size,stride,root,copies,times,wait,parts,returns,sync,algo";
  int at = rondo_sim_list_find(keys, key);
  *known = at >= 0;
  switch (at) {
  case 0:
    return rondo_schedule_kind_read(text, &x->kind);
  case 1:
    snprintf(x->name, sizeof x->name, "%s", text);
    // No other character, so that names need no quotes in any form of a report.
    return *text && strlen(text) < sizeof x->name && !text[strspn(text, NAME_CHARACTERS)];
  case 2:
    return bytes_get(value, &x->bytes);
  case 3:
    return time_get(value, &x->compute_ns);
  case 4:
    return count_get(value, 1, MOST_RANKS, &x->size);
  case 5:
    return count_get(value, 1, MOST_RANKS, &x->stride);
  case 6:
    return count_get(value, 0, MOST_RANKS - 1, &x->root);
  case 7:
    return count_get(value, 1, MOST_CALLS, &x->copies);
  case 8:
    return count_get(value, 1, MOST_CALLS, &x->times);
  case 9:
    x->waits = json_is_true(value);
    return json_is_boolean(value);
  case 10:
    return count_get(value, 0, UINT32_MAX, &x->parts_seed);
  case 11:
    x->returns = json_is_true(value);
    return json_is_boolean(value);
  case 12:
    x->syncs = json_is_true(value);
    return json_is_boolean(value);
  default: // its kind may come later
    return *text != 0;
  }
}

static bool statement_read(struct rondo_schedule_statement *x, json_t *object, const char *where,
                           struct rondo_sim_error *error) {
  const char *key;
  json_t *value;
  if (!json_is_object(object)) {
    return rondo_sim_refuse(error, "%s must be an object", where);
  }
  json_object_foreach(object, key, value) {
    bool known;
    if (!key_set(x, key, value, &known)) {
      return rondo_sim_refuse(
          error, known ? "%s: the value of \"%s\" is not one for it" : "%s: there is no key \"%s\"",
          where, key);
    }
  }
  const char *algorithm = json_string_value(json_object_get(object, "algo"));
  if (algorithm && !rondo_schedule_algorithm_read(algorithm, x->kind, &x->algorithm)) {
    return rondo_sim_refuse(error, "%s: there is no algorithm \"%s\"", where, algorithm);
  }
  return true;
}

// Texts of the file that an error quotes may hold line feeds.
static bool error_flatten(struct rondo_sim_error *error) {
  for (char *c = error->text; *c; c++) {
    *c = (unsigned char)*c < ' ' ? ' ' : *c;
  }
  return false;
}

// Takes over `root`, which is null if the text is no JSON; `wrong` says why.
static bool root_read(struct rondo_schedule_statements *s, json_t *root, const json_error_t *wrong,
                      const char *name, const struct rondo_schedule_statement *like,
                      struct rondo_sim_error *error) {
  char where[300];
  size_t i;
  json_t *item;
  const json_t *list = json_object_get(root, "program");
  bool ok = true;
  if (!root) {
    if (wrong->line < 0) { // no such file
      (void)rondo_sim_refuse(error, "%s", wrong->text);
    } else {
      (void)rondo_sim_refuse(error, "%.256s:%d: %s", name, wrong->line, wrong->text);
    }
    return error_flatten(error);
  }
  if (!json_is_array(list) || json_object_size(root) != 1 || json_array_size(list) == 0) {
    ok = rondo_sim_refuse(error, "%.256s: must be {\"program\": [...]} with at least one statement",
                          name);
  }
  json_array_foreach(list, i, item) {
    snprintf(where, sizeof where, "%.256s: statement %zu", name, i + 1);
    ok = ok && statement_read(statement_add(s, like), item, where, error);
  }
  json_decref(root);
  return ok || error_flatten(error);
}

bool rondo_schedule_program_parse(struct rondo_schedule_statements *s, const char *text,
                                  const char *name, const struct rondo_schedule_statement *like,
                                  struct rondo_sim_error *error) {
  json_error_t wrong;
  json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &wrong);
  return root_read(s, root, &wrong, name, like, error);
}

bool rondo_schedule_program_read(struct rondo_schedule_statements *s, const char *what,
                                 const struct rondo_schedule_statement *like,
                                 struct rondo_sim_error *error) {
  if (strcmp(what, "ddp") == 0) {
    ddp_add(s, like);
    return true;
  }
  if (strncmp(what, "3d:", 3) == 0) {
    return three_d_add(s, what + 3, like, error);
  }
  if (strncmp(what, "fsdp:", 5) == 0) {
    return fsdp_add(s, what + 5, like, error);
  }
  if (strncmp(what, "moe:", 4) == 0) {
    return moe_add(s, what + 4, like, error);
  }
  json_error_t wrong;
  json_t *root = json_load_file(what, JSON_REJECT_DUPLICATES, &wrong);
  return root_read(s, root, &wrong, what, like, error);
}
