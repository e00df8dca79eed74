#include "sim/analyse/value.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_analyse_values_fini(struct rondo_analyse_values *v) {
  for (uint32_t i = 0; i < v->made; i++) {
    free(v->containers[i].items);
  }
  free(v->containers);
}

static struct rondo_analyse_container *container_of(const struct rondo_analyse_values *v,
                                                    struct rondo_analyse_value value) {
  return value.type >= RONDO_ANALYSE_LIST && (uint64_t)value.integer < v->count
             ? &v->containers[value.integer]
             : NULL;
}

struct rondo_analyse_value rondo_analyse_values_add(struct rondo_analyse_values *v,
                                                    enum rondo_analyse_value_type type) {
  RONDO_SIM_GROW(v->containers, v->count, v->capacity, 64);
  if (v->count == v->made) {
    v->containers[v->made++] = (struct rondo_analyse_container){0};
  }
  v->containers[v->count].count = 0;
  return (struct rondo_analyse_value){type, v->count++};
}

void rondo_analyse_values_append(struct rondo_analyse_values *v, struct rondo_analyse_value to,
                                 struct rondo_analyse_value item) {
  struct rondo_analyse_container *c = container_of(v, to);
  if (c) {
    RONDO_SIM_GROW(c->items, c->count, c->capacity, 4);
    c->items[c->count++] = item;
  }
}

struct rondo_analyse_container rondo_analyse_value_items(const struct rondo_analyse_values *v,
                                                         struct rondo_analyse_value list) {
  const struct rondo_analyse_container *c = container_of(v, list);
  return c ? *c : (struct rondo_analyse_container){0};
}

struct rondo_analyse_value rondo_analyse_value_get(const struct rondo_analyse_values *v,
                                                   struct rondo_analyse_value dict,
                                                   const char *key) {
  struct rondo_analyse_container pairs = rondo_analyse_value_items(v, dict);
  for (uint32_t i = 0; dict.type == RONDO_ANALYSE_DICT && i + 1 < pairs.count; i += 2) {
    if (pairs.items[i].type == RONDO_ANALYSE_STRING &&
        strcmp(rondo_analyse_value_text(v, pairs.items[i]), key) == 0) {
      return pairs.items[i + 1];
    }
  }
  return (struct rondo_analyse_value){0};
}

uint32_t rondo_analyse_value_string(const struct rondo_analyse_values *v,
                                    struct rondo_analyse_value value) {
  if (value.type == RONDO_ANALYSE_INTEGER) {
    return rondo_analyse_strings_print(v->strings, "%lld", (long long)value.integer);
  }
  return value.type == RONDO_ANALYSE_STRING ? (uint32_t)value.integer : 0;
}

const char *rondo_analyse_value_text(const struct rondo_analyse_values *v,
                                     struct rondo_analyse_value value) {
  uint32_t id = value.type == RONDO_ANALYSE_STRING ? (uint32_t)value.integer : 0;
  return rondo_analyse_strings_get(v->strings, id);
}

int64_t rondo_analyse_value_integer(const struct rondo_analyse_values *v,
                                    struct rondo_analyse_value value, int64_t otherwise) {
  if (value.type == RONDO_ANALYSE_INTEGER) {
    return value.integer;
  }
  char *end;
  const char *text = rondo_analyse_value_text(v, value);
  int64_t number = strtoll(text, &end, 10);
  return end == text ? otherwise : number;
}
