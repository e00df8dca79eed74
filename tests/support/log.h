// Sends the library's log to a file of the test's own instead of stderr, for tests that check it.
#ifndef RONDO_TESTS_SUPPORT_LOG_H
#define RONDO_TESTS_SUPPORT_LOG_H

#include <stdint.h>

// Sends the log to a temporary file, gone with the process. To be called before the library is.
void rondo_test_log_open(void);

// Forgets what was logged so far.
void rondo_test_log_clear(void);

// Lines logged since; how often `wanted` is in them; and whether it is.
uint32_t rondo_test_log_lines(void);
uint32_t rondo_test_log_count(const char *wanted);
int rondo_test_log_has(const char *wanted);

#endif // RONDO_TESTS_SUPPORT_LOG_H
