// How much work a test does: all of it, or less where the build is slow
// (sanitizers, coverage), which the environment says with RONDO_TEST_REDUCED=1.
#ifndef RONDO_TESTS_SUPPORT_LOAD_H
#define RONDO_TESTS_SUPPORT_LOAD_H

#include <stdint.h>
#include <stdlib.h>

// `full` in a plain build, `reduced` in a slow one.
static inline uint64_t rondo_test_load(uint64_t full, uint64_t reduced) {
  const char *text = getenv("RONDO_TEST_REDUCED");
  return text && text[0] == '1' ? reduced : full;
}

#endif // RONDO_TESTS_SUPPORT_LOAD_H
