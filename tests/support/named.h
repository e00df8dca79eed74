// Tests that report under the name of their subject, such as queue_sq.wraps_at_uint32_max.
#ifndef RONDO_TESTS_SUPPORT_NAMED_H
#define RONDO_TESTS_SUPPORT_NAMED_H

// clang-format off: cmocka needs these before its own header.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#define RONDO_NAMED_TEST(subject, function)                                                        \
  { subject "." #function, function, NULL, NULL, NULL }

#define RONDO_NAMED_TEST_FIXTURE(subject, function, setup, teardown)                               \
  { subject "." #function, function, setup, teardown, NULL }

#endif // RONDO_TESTS_SUPPORT_NAMED_H
