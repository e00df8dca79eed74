// Every kind × type × reduction that there is, by number, for tests that try them all or a sample.
#ifndef RONDO_TESTS_SUPPORT_COMBINATIONS_H
#define RONDO_TESTS_SUPPORT_COMBINATIONS_H

#include <stdint.h>

#include "tools/kit/shape.h"

#define RONDO_TEST_REDUCING_KINDS 3u
#define RONDO_TEST_MOVING_KINDS 5u
#define RONDO_TEST_COMBINATIONS                                                                    \
  ((RONDO_TEST_REDUCING_KINDS * RONDO_REDOP_COUNT + RONDO_TEST_MOVING_KINDS) * RONDO_DTYPE_COUNT)

// The i-th of them; the rest of the shape is zero.
static inline struct rondo_kit_shape rondo_test_combination(uint32_t i) {
  static const int reducing[RONDO_TEST_REDUCING_KINDS] = {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER,
                                                          RONDO_REDUCE};
  static const int moving[RONDO_TEST_MOVING_KINDS] = {
      RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER};
  struct rondo_kit_shape s = {0};
  s.dtype = (int)(i % RONDO_DTYPE_COUNT);
  i /= RONDO_DTYPE_COUNT;
  int is_moving = i < RONDO_TEST_MOVING_KINDS;
  i -= is_moving ? 0 : RONDO_TEST_MOVING_KINDS;
  s.kind = is_moving ? moving[i] : reducing[i % RONDO_TEST_REDUCING_KINDS];
  s.redop = is_moving ? RONDO_SUM : (int)(i / RONDO_TEST_REDUCING_KINDS);
  return s;
}

#endif // RONDO_TESTS_SUPPORT_COMBINATIONS_H
