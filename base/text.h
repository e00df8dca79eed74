// Text that is put together in memory of limited size, such as a reason of an error.
#ifndef RONDO_BASE_TEXT_H
#define RONDO_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// `at` points to the zero at the end of the text. What does not fit is cut off.
struct rondo_text {
  char *at;
  size_t left;
};

__attribute__((format(printf, 2, 3))) static inline void rondo_text_add(struct rondo_text *t,
                                                                        const char *format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(t->at, t->left, format, args);
  va_end(args);
  size_t used = size < 0 ? 0 : (size_t)size < t->left ? (size_t)size : t->left - 1;
  t->at += used;
  t->left -= used;
}

#define RONDO_TEXT_RANKS 8u // that a text names

// Adds a rank to a list that has `named` ranks already.
static inline void rondo_text_add_rank(struct rondo_text *t, uint32_t named, uint32_t rank) {
  if (named < RONDO_TEXT_RANKS)
    rondo_text_add(t, "%s%u", named ? ", " : "", rank);
  else if (named == RONDO_TEXT_RANKS)
    rondo_text_add(t, ", …");
}

#endif // RONDO_BASE_TEXT_H
