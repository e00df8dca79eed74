// Numbers in text: of the environment, of addresses.
#ifndef RONDO_BASE_NUMBER_H
#define RONDO_BASE_NUMBER_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

// Reads the decimal digits at the start of `text`. Unlike strtoull, it accepts no space and no
// sign. Returns the character after them. Returns null and leaves `value` alone if there are no
// digits, or if the number is greater than `max`.
static inline const char *rondo_number_read(const char *text, uint64_t max, uint64_t *value) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || errno || number > max)
    return NULL;
  *value = number;
  return end;
}

#endif
