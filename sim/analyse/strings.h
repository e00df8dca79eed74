// Interned strings: each distinct string is kept once and has a number, so that a call of a few
// words can hold its operation, shape and call site. Number 0 is the empty string.
//
//   struct rondo_analyse_strings s;  rondo_analyse_strings_init(&s);
//   uint32_t id = rondo_analyse_strings_add(&s, "tp", 2);
//   puts(rondo_analyse_strings_get(&s, id));  rondo_analyse_strings_fini(&s);
//
// One table belongs to one thread: each file has a table of its own, and the job merges them.
#ifndef RONDO_SIM_ANALYSE_STRINGS_H
#define RONDO_SIM_ANALYSE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct rondo_analyse_strings {
  char *bytes;     // all strings, one after another, each with a closing zero
  size_t *offsets; // where string i begins
  uint32_t *slots; // open-addressed table of number + 1, 0 is free
  size_t size_bytes, capacity_bytes;
  uint32_t count, capacity, slot_count; // slot_count is a power of two
};

// Makes a table that holds the empty string.
void rondo_analyse_strings_init(struct rondo_analyse_strings *s);

// Frees its memory.
void rondo_analyse_strings_fini(struct rondo_analyse_strings *s);

// The number of the string of `bytes` bytes at `data`; adds the string if it is new. A zero byte
// ends the string.
uint32_t rondo_analyse_strings_add(struct rondo_analyse_strings *s, const char *data, size_t bytes);

// The number of the string that printf would make.
__attribute__((format(printf, 2, 3))) uint32_t
rondo_analyse_strings_print(struct rondo_analyse_strings *s, const char *format, ...);

// The string with that number; valid until the next add. Never null.
const char *rondo_analyse_strings_get(const struct rondo_analyse_strings *s, uint32_t id);

#endif // RONDO_SIM_ANALYSE_STRINGS_H
