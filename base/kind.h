// The kind of collectives that a name means, in settings and files.
#ifndef RONDO_BASE_KIND_H
#define RONDO_BASE_KIND_H

#include <string.h>

#include <rondo/rondo.h>

// The inverse of rondo_kind_name: RONDO_KIND_COUNT if no kind has that name.
static inline int rondo_kind_find(const char *name) {
  int kind = 0;
  while (kind < RONDO_KIND_COUNT && strcmp(rondo_kind_name(kind), name) != 0)
    kind++;
  return kind;
}

#endif // RONDO_BASE_KIND_H
