// A reader of pickles that only hold data: dictionaries, lists, tuples, numbers and strings, as in
// PyTorch's dumps. A pickle is a program. This reader knows the instructions that build such data
// and refuses every other one by name. It never executes or looks up what a file names.
//
// Values are words on a stack; the reader owns containers and strings. The items of the list under
// one chosen key of the outermost dictionary are passed on as soon as each is complete, and then
// forgotten, so memory does not grow with the number of entries.
#ifndef RONDO_SIM_ANALYSE_PICKLE_H
#define RONDO_SIM_ANALYSE_PICKLE_H

#include "sim/analyse/input.h"
#include "sim/analyse/strings.h"

enum rondo_analyse_pickle_type {
  RONDO_ANALYSE_PICKLE_NONE,
  RONDO_ANALYSE_PICKLE_BOOL,
  RONDO_ANALYSE_PICKLE_INTEGER,
  RONDO_ANALYSE_PICKLE_REAL,
  RONDO_ANALYSE_PICKLE_STRING, // `integer` is its number in the strings
  RONDO_ANALYSE_PICKLE_LIST,   // `integer` is its number among the containers; tuples too
  RONDO_ANALYSE_PICKLE_DICT    // the same; items are key, value, key, value …
};

struct rondo_analyse_pickle_value {
  enum rondo_analyse_pickle_type type;
  union {
    int64_t integer;
    double real;
  };
};

struct rondo_analyse_pickle_container {
  struct rondo_analyse_pickle_value *items;
  uint32_t count, capacity;
};

struct rondo_analyse_pickle {
  struct rondo_analyse_input *in;
  struct rondo_analyse_strings *strings;
  struct rondo_analyse_pickle_value *stack, *memo;
  struct rondo_analyse_pickle_container *containers;
  size_t *marks;
  size_t stack_count, stack_capacity, memo_count, mark_count, mark_capacity;
  uint32_t container_count, container_capacity;
  uint32_t containers_made; // containers past container_count keep their memory for the next entry
  uint64_t memo_next;       // the number that MEMOIZE gives next
  uint32_t entry_first;     // containers from here on belong to the entry being built
  bool entry_memoized;      // a later entry may refer to one of those
  const char *streamed_key; // entries under this key are passed on
  uint32_t streamed_id;     // its number in the strings
  void (*entry)(void *context, const struct rondo_analyse_pickle *p,
                struct rondo_analyse_pickle_value entry);
  void *context;
  bool failed;
  char message[160];
  uint64_t error_offset;
};

// Begins to read. The caller sets streamed_key, entry and context before the run, or leaves them.
void rondo_analyse_pickle_init(struct rondo_analyse_pickle *p, struct rondo_analyse_input *in,
                               struct rondo_analyse_strings *strings);

// Frees everything except the strings.
void rondo_analyse_pickle_fini(struct rondo_analyse_pickle *p);

// Reads to the end. Returns true with the outermost value in *top; or false with message and
// error_offset set. Entries that were passed on before a failure count.
bool rondo_analyse_pickle_run(struct rondo_analyse_pickle *p,
                              struct rondo_analyse_pickle_value *top);

// The value of a string key of a dictionary; none if the key is missing or `dict` is no dictionary.
struct rondo_analyse_pickle_value rondo_analyse_pickle_get(const struct rondo_analyse_pickle *p,
                                                           struct rondo_analyse_pickle_value dict,
                                                           const char *key);

// The items of a list or dictionary and their number; null and 0 for anything else.
const struct rondo_analyse_pickle_value *
rondo_analyse_pickle_items(const struct rondo_analyse_pickle *p,
                           struct rondo_analyse_pickle_value list, uint32_t *count);

// The text of a string; "" for anything else.
const char *rondo_analyse_pickle_text(const struct rondo_analyse_pickle *p,
                                      struct rondo_analyse_pickle_value value);

// A number, a boolean, or digits in a string; `otherwise` for anything else.
int64_t rondo_analyse_pickle_integer(const struct rondo_analyse_pickle *p,
                                     struct rondo_analyse_pickle_value value, int64_t otherwise);

#endif // RONDO_SIM_ANALYSE_PICKLE_H
