// A reader of pickles that only hold data: dictionaries, lists, tuples, numbers and strings, as in
// PyTorch's dumps. A pickle is a program. This reader knows the instructions that build such data
// and refuses every other one by name. It never executes or looks up what a file names.
//
// The items of the list under one chosen key of the outermost dictionary are passed on as soon as
// each is complete, and then forgotten, so memory does not grow with the number of entries.
#ifndef RONDO_SIM_ANALYSE_PICKLE_H
#define RONDO_SIM_ANALYSE_PICKLE_H

#include "sim/analyse/input.h"
#include "sim/analyse/value.h"

struct rondo_analyse_pickle {
  struct rondo_analyse_input *in;
  struct rondo_analyse_values *values;
  struct rondo_analyse_value *stack, *memo;
  size_t *marks;
  size_t stack_count, stack_capacity, memo_count, mark_count, mark_capacity;
  uint64_t memo_next;   // the number that MEMOIZE gives next
  uint32_t entry_first; // containers from here on belong to the entry being built
  bool entry_memoized;  // a later entry may refer to one of those
  uint32_t streamed_id; // entries under this key, a number in the strings, are passed on
  void (*entry)(void *context, struct rondo_analyse_value entry);
  void *context;
  bool failed;
  char message[160];
  uint64_t error_offset;
};

// Begins to read into `values`. The caller sets streamed_id, entry and context before the run, or
// leaves them.
void rondo_analyse_pickle_init(struct rondo_analyse_pickle *p, struct rondo_analyse_input *in,
                               struct rondo_analyse_values *values);

// Frees everything except the values.
void rondo_analyse_pickle_fini(struct rondo_analyse_pickle *p);

// Reads to the end. Returns true with the outermost value in *top; or false with message and
// error_offset set. Entries that were passed on before a failure count.
bool rondo_analyse_pickle_run(struct rondo_analyse_pickle *p, struct rondo_analyse_value *top);

#endif // RONDO_SIM_ANALYSE_PICKLE_H
