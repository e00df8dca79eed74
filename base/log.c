#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/log.h"

#define VARIABLES 64u // wrong values that are remembered

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static FILE *log_file;
static int log_level = RONDO_LOG_WARN;

static pthread_mutex_t logged_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t logged[VARIABLES]; // hashes of values that were logged
static uint32_t next_logged;

static const char *const level_names[] = {"off", "error", "warn", "info", "debug"};

static void log_setup(void) {
  log_file = stderr;
  const char *path = getenv("RONDO_LOG_FILE");
  if (path && *path) {
    FILE *file = fopen(path, "ae");
    if (file) {
      // Unbuffered like stderr: a process forked in the middle of a line must not write that line
      // again.
      (void)setvbuf(file, NULL, _IONBF, 0);
      log_file = file;
    } else {
      fprintf(stderr, "rondo: warn: RONDO_LOG_FILE %s cannot be opened; logging to stderr\n", path);
    }
  }
  const char *level = getenv("RONDO_LOG");
  if (!level || !*level)
    return;
  for (int i = RONDO_LOG_OFF; i <= RONDO_LOG_DEBUG; i++) {
    if (strcmp(level, level_names[i]) == 0) {
      log_level = i;
      return;
    }
  }
  fprintf(stderr, "rondo: warn: RONDO_LOG is \"%s\"; use off, error, warn, info or debug\n", level);
}

static void log_line(int level, const char *format, va_list args) {
  char line[1024];
  pthread_once(&log_once, log_setup);
  if (level > log_level)
    return;
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): clang 14 does not see the va_start
  (void)vsnprintf(line, sizeof line, format, args);
  fprintf(log_file, "rondo: %s: %s\n", level_names[level], line);
  fflush(log_file);
}

void rondo_log(int level, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_line(level, format, args);
  va_end(args);
}

// True the first time, as far as is remembered.
static bool variable_is_new(const char *name, const char *value) {
  uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
  for (const char *texts[] = {name, value}, **text = texts; text < texts + 2; text++)
    for (const char *c = *text; *c; c++)
      hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
  bool is_known = false;
  pthread_mutex_lock(&logged_lock);
  for (uint32_t i = 0; i < VARIABLES; i++)
    is_known |= logged[i] == hash;
  if (!is_known)
    logged[next_logged++ % VARIABLES] = hash;
  pthread_mutex_unlock(&logged_lock);
  return !is_known;
}

void rondo_log_variable(const char *name, const char *value, const char *takes, ...) {
  char what[256];
  va_list args;
  if (!variable_is_new(name, value))
    return;
  va_start(args, takes);
  (void)vsnprintf(what, sizeof what, takes, args);
  va_end(args);
  rondo_log(RONDO_LOG_WARN, "environment: %s is \"%s\"; it takes %s", name, value, what);
}

static void log_forked(void) { logged_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
RONDO_ON_FORK(log_forked)

FILE *rondo_log_stream(void) {
  pthread_once(&log_once, log_setup);
  return log_file;
}
