// The log: one line for each finding, written by the function that found it.
//
// Lines go to standard error, or to the file that RONDO_LOG_FILE names. RONDO_LOG is off, error,
// warn (default), info or debug.
#ifndef RONDO_BASE_LOG_H
#define RONDO_BASE_LOG_H

#include <stdio.h>

enum rondo_log_level {
  RONDO_LOG_OFF = 0,
  RONDO_LOG_ERROR = 1,
  RONDO_LOG_WARN = 2,
  RONDO_LOG_INFO = 3,
  RONDO_LOG_DEBUG = 4
};

// Writes one whole line. Any thread.
void rondo_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Warns that the value of an environment variable is ignored, and says what the variable takes,
// such as "a number up to 64". Warns once for each value, although many ranks may read it several
// times.
void rondo_log_variable(const char *name, const char *value, const char *takes, ...)
    __attribute__((format(printf, 3, 4)));

// Logs an error and evaluates to `status`: `return RONDO_LOG_REFUSE(RONDO_ERR_INVALID, "...")`.
#define RONDO_LOG_REFUSE(status, ...) (rondo_log(RONDO_LOG_ERROR, __VA_ARGS__), (status))

// The stream of the log, for reports of several lines. Never null.
FILE *rondo_log_stream(void);

#endif // RONDO_BASE_LOG_H
