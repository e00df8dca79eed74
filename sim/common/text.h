// Text that grows: the one string builder of rondo-sim, used for DOT, SVG, HTML, CSV and words.
//
//   struct rondo_sim_text t;  rondo_sim_text_init(&t);
//   rondo_sim_text_add(&t, "%d ranks", n);  fputs(rondo_sim_text_str(&t), stdout);
//   rondo_sim_text_fini(&t);
//
// Running out of memory ends the process with one clear line: a report half written helps nobody.
// Not thread-safe; one text belongs to one thread.
#ifndef RONDO_SIM_COMMON_TEXT_H
#define RONDO_SIM_COMMON_TEXT_H

#include <stddef.h>

struct rondo_sim_text {
  char *data;
  size_t size_bytes;     // without the closing zero
  size_t capacity_bytes; // what `data` can hold
};

// Makes an empty text. No memory is taken yet.
void rondo_sim_text_init(struct rondo_sim_text *t);

// Gives back the memory; the text may be initialised again.
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

// Writes the text to a file, replacing what was there. Returns 0, or -1 with errno set; then no half
// of it is left.
int rondo_sim_text_save(const struct rondo_sim_text *t, const char *path);

// Whether a text could be saved at `path`, without touching what is there, so that a result is not lost
// after an hour. Returns 0, or -1 with errno set.
int rondo_sim_text_may_save(const char *path);

// malloc, realloc and calloc that never return null: the process ends with one line instead.
void *rondo_sim_alloc(size_t bytes);
void *rondo_sim_calloc(size_t count, size_t bytes);
void *rondo_sim_realloc(void *old, size_t bytes);

// Makes room for one more item of a growing array that holds `count` of `capacity` items; an empty
// array gets room for `first`.
#define RONDO_SIM_GROW(array, count, capacity, first)                                              \
  do {                                                                                             \
    if ((count) == (capacity)) {                                                                   \
      (capacity) = (capacity) ? 2 * (capacity) : (first);                                          \
      (array) = rondo_sim_realloc((array), sizeof *(array) * (size_t)(capacity));                  \
    }                                                                                              \
  } while (0)

// A copy of `s` that the caller frees.
char *rondo_sim_strdup(const char *s);

#endif // RONDO_SIM_COMMON_TEXT_H
