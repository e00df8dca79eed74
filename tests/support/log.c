#include "tests/support/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES (1u << 20)

static int file = -1;
static char text[MAX_BYTES + 1];

// Its name is removed before it is used, so a test that is killed leaves no file.
void rondo_test_log_open(void) {
  char path[] = "/tmp/rondo-test-log-XXXXXX";
  char name[32];
  file = mkstemp(path);
  if (file < 0 || unlink(path))
    abort();
  (void)snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  if (setenv("RONDO_LOG_FILE", name, 1))
    abort();
}

void rondo_test_log_clear(void) {
  if (ftruncate(file, 0))
    abort();
}

static const char *read_all(void) {
  ssize_t bytes = pread(file, text, MAX_BYTES, 0);
  text[bytes < 0 ? 0 : bytes] = '\0';
  return text;
}

uint32_t rondo_test_log_lines(void) {
  uint32_t lines = 0;
  for (const char *at = strchr(read_all(), '\n'); at; at = strchr(at + 1, '\n'))
    lines++;
  return lines;
}

uint32_t rondo_test_log_count(const char *wanted) {
  uint32_t count = 0;
  for (const char *at = strstr(read_all(), wanted); at; at = strstr(at + 1, wanted))
    count++;
  return count;
}

int rondo_test_log_has(const char *wanted) { return strstr(read_all(), wanted) != NULL; }
