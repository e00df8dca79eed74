// Text that grows: the string builder of rondo-sim for DOT, SVG, HTML, CSV and words.
//
//   struct rondo_sim_text t = {0}; // empty, and without memory
//   rondo_sim_text_add(&t, "%d ranks", n);  fputs(rondo_sim_text_str(&t), stdout);
//   rondo_sim_text_fini(&t);
//
// If memory runs out, the process ends with one line: half a report helps nobody. One text belongs
// to one thread.
#ifndef RONDO_SIM_COMMON_TEXT_H
#define RONDO_SIM_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct rondo_sim_text {
  char *data;
  size_t size_bytes;     // without the closing zero
  size_t capacity_bytes; // what `data` can hold
};

// Frees the memory; the text is empty again.
void rondo_sim_text_fini(struct rondo_sim_text *t);

// Empties the text and keeps its memory.
void rondo_sim_text_clear(struct rondo_sim_text *t);

// Appends as printf does.
__attribute__((format(printf, 2, 3))) void rondo_sim_text_add(struct rondo_sim_text *t,
                                                              const char *format, ...);

// Appends `bytes` bytes as they are.
void rondo_sim_text_add_bytes(struct rondo_sim_text *t, const char *data, size_t bytes);

// Appends `s` with the five characters that XML and HTML give a meaning written as entities, then
// `after` as it is. Control characters of `s` other than tab and line feed become a space.
void rondo_sim_text_add_xml(struct rondo_sim_text *t, const char *s, const char *after);

// Appends `s` between double quotes as a DOT string. A line feed becomes \n.
void rondo_sim_text_add_dot(struct rondo_sim_text *t, const char *s);

// The text so far, zero-terminated; valid until the next call that changes it. Never null.
const char *rondo_sim_text_str(const struct rondo_sim_text *t);

// Writes the text to a file and replaces what was there. Returns 0, or -1 with errno set; then no
// part of a regular file is left.
int rondo_sim_text_save(const struct rondo_sim_text *t, const char *path);

// Checks that a text could be saved at `path`, so that a result is not lost after an hour. Changes
// nothing. Returns 0, or -1 with errno set.
int rondo_sim_text_may_save(const char *path);

// malloc, calloc and realloc that never return null: the process ends with one line instead.
void *rondo_sim_alloc(size_t bytes);
void *rondo_sim_calloc(size_t count, size_t bytes);
void *rondo_sim_realloc(void *old, size_t bytes);

// The same for memory that is accessed in no order: in large pages if the system has any, and
// aligned to them. It is not cleared.
void *rondo_sim_alloc_pages(size_t bytes);

// Makes room for one more item of a growing array that holds `count` of `capacity` items; an empty
// array gets room for `first`.
#define RONDO_SIM_GROW(array, count, capacity, first)                                              \
  do {                                                                                             \
    if ((count) == (capacity)) {                                                                   \
      (capacity) = (capacity) ? 2 * (capacity) : (first);                                          \
      (array) = rondo_sim_realloc((array), sizeof *(array) * (size_t)(capacity));                  \
    }                                                                                              \
  } while (0)

// Makes room for `need` items in an array that can hold `capacity`.
#define RONDO_SIM_RESERVE(array, need, capacity)                                                   \
  do {                                                                                             \
    if ((need) > (capacity)) {                                                                     \
      (capacity) = 2 * (need);                                                                     \
      (array) = rondo_sim_realloc((array), sizeof *(array) * (size_t)(capacity));                  \
    }                                                                                              \
  } while (0)

// Searches by halves: sets `low` to the first number from `low` to `high` for which `is_below`, an
// expression of the variable `middle`, does not hold.
#define RONDO_SIM_LOWER_BOUND(low, high, is_below)                                                 \
  do {                                                                                             \
    for (uint32_t middle, end_ = (high); (low) < end_;) {                                          \
      middle = (low) + (end_ - (low)) / 2;                                                         \
      if (is_below) {                                                                              \
        (low) = middle + 1;                                                                        \
      } else {                                                                                     \
        end_ = middle;                                                                             \
      }                                                                                            \
    }                                                                                              \
  } while (0)

// Replaces what is not printable: names in files are of any bytes.
void rondo_sim_text_clean(char *text);

// A copy of `s` that the caller frees.
char *rondo_sim_strdup(const char *s);

// Why something is refused, in one line.
struct rondo_sim_error {
  char text[512];
};

// Writes the line as printf does. Returns false, which the caller returns.
__attribute__((format(printf, 2, 3))) bool rondo_sim_refuse(struct rondo_sim_error *error,
                                                            const char *format, ...);

// The number, from 0, of `word` in a list of words with commas (and spaces) between; -1 if it is
// not there.
int rondo_sim_list_find(const char *list, const char *word);

#endif // RONDO_SIM_COMMON_TEXT_H
