// Values of a file that a reader keeps while it needs them: numbers, strings, lists and
// dictionaries. A value is two words; the table holds the items of lists and dictionaries.
//
//   struct rondo_analyse_values v = {.strings = &record.strings};
//   struct rondo_analyse_value list = rondo_analyse_values_add(&v, RONDO_ANALYSE_LIST);
//   rondo_analyse_values_append(&v, list, rondo_analyse_integer(7));
//   rondo_analyse_values_fini(&v);
//
// One table belongs to one thread.
#ifndef RONDO_SIM_ANALYSE_VALUE_H
#define RONDO_SIM_ANALYSE_VALUE_H

#include "sim/analyse/strings.h"

enum rondo_analyse_value_type {
  RONDO_ANALYSE_NONE, // null, or a value that no reader needs
  RONDO_ANALYSE_INTEGER,
  RONDO_ANALYSE_STRING, // `integer` is its number in the strings
  RONDO_ANALYSE_LIST,   // `integer` is its number among the containers; tuples too
  RONDO_ANALYSE_DICT    // the same; items are key, value, key, value …
};

struct rondo_analyse_value {
  enum rondo_analyse_value_type type;
  int64_t integer;
};

struct rondo_analyse_container {
  struct rondo_analyse_value *items;
  uint32_t count, capacity;
};

struct rondo_analyse_values {
  struct rondo_analyse_strings *strings;
  struct rondo_analyse_container *containers;
  uint32_t count, capacity; // a smaller count forgets the values that were added last
  uint32_t made;            // containers past `count` keep their memory for later values
};

// Frees everything except the strings.
void rondo_analyse_values_fini(struct rondo_analyse_values *v);

// Adds an empty list or dictionary.
struct rondo_analyse_value rondo_analyse_values_add(struct rondo_analyse_values *v,
                                                    enum rondo_analyse_value_type type);

// Appends an item to a list or dictionary; does nothing if `to` is neither.
void rondo_analyse_values_append(struct rondo_analyse_values *v, struct rondo_analyse_value to,
                                 struct rondo_analyse_value item);

static inline struct rondo_analyse_value rondo_analyse_integer(int64_t integer) {
  return (struct rondo_analyse_value){RONDO_ANALYSE_INTEGER, integer};
}

static inline struct rondo_analyse_value rondo_analyse_string(uint32_t id) {
  return (struct rondo_analyse_value){RONDO_ANALYSE_STRING, id};
}

// The items of a list or dictionary; no items for anything else.
struct rondo_analyse_container rondo_analyse_value_items(const struct rondo_analyse_values *v,
                                                         struct rondo_analyse_value list);

// The value of a string key of a dictionary; none if the key is missing or `dict` is no dictionary.
struct rondo_analyse_value rondo_analyse_value_get(const struct rondo_analyse_values *v,
                                                   struct rondo_analyse_value dict,
                                                   const char *key);

// The number of a string in the strings; a number's digits count as a string; else 0.
uint32_t rondo_analyse_value_string(const struct rondo_analyse_values *v,
                                    struct rondo_analyse_value value);

// The text of a string; "" for anything else.
const char *rondo_analyse_value_text(const struct rondo_analyse_values *v,
                                     struct rondo_analyse_value value);

// A number, or digits in a string; `otherwise` for anything else.
int64_t rondo_analyse_value_integer(const struct rondo_analyse_values *v,
                                    struct rondo_analyse_value value, int64_t otherwise);

// The same of the value of a key of a dictionary.
static inline uint32_t rondo_analyse_get_string(const struct rondo_analyse_values *v,
                                                struct rondo_analyse_value dict, const char *key) {
  return rondo_analyse_value_string(v, rondo_analyse_value_get(v, dict, key));
}

static inline const char *rondo_analyse_get_text(const struct rondo_analyse_values *v,
                                                 struct rondo_analyse_value dict, const char *key) {
  return rondo_analyse_value_text(v, rondo_analyse_value_get(v, dict, key));
}

static inline int64_t rondo_analyse_get_integer(const struct rondo_analyse_values *v,
                                                struct rondo_analyse_value dict, const char *key,
                                                int64_t otherwise) {
  return rondo_analyse_value_integer(v, rondo_analyse_value_get(v, dict, key), otherwise);
}

#endif // RONDO_SIM_ANALYSE_VALUE_H
