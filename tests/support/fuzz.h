// What fuzz targets share: the entry point, bytes of an input read as numbers, and a check that
// holds in every build.
#ifndef RONDO_TESTS_SUPPORT_FUZZ_H
#define RONDO_TESTS_SUPPORT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Defined by each target, called by libFuzzer or by fuzz_replay.c. Returns 0.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// An input that is read from front to back; what is past its end reads as 0.
struct rondo_fuzz_input {
  const uint8_t *data;
  size_t size;
};

static inline uint64_t rondo_fuzz_take(struct rondo_fuzz_input *in, size_t bytes) {
  uint64_t value = 0;
  size_t n = bytes < in->size ? bytes : in->size;
  if (n)
    memcpy(&value, in->data, n);
  in->data += n;
  in->size -= n;
  return value;
}

// Aborts if `holds` is 0, which is how a fuzzer learns of a failure.
static inline void rondo_fuzz_check(int holds, const char *what, const char *file, int line) {
  if (holds)
    return;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  abort();
}

#define RONDO_FUZZ_CHECK(condition) rondo_fuzz_check((condition), #condition, __FILE__, __LINE__)

#endif // RONDO_TESTS_SUPPORT_FUZZ_H
