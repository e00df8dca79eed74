#include "adapters/nccl/debug.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rondo/rondo.h>

#include "adapters/nccl/abi.h"

#define LINE_BYTES 1024
#define DEFAULT_SUBSYS (RONDO_NCCL_SUBSYS_INIT | RONDO_NCCL_SUBSYS_ENV)

enum { LEVEL_VERSION = 1, LEVEL_WARN, LEVEL_INFO }; // indices of level_names
static const char *const level_names[] = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};
#define LEVELS (sizeof level_names / sizeof *level_names)

// In the order of NCCL's bits.
static const char *const subsys_names[] = {"INIT",      "COLL", "P2P",     "SHM",  "NET",   "GRAPH",
                                           "TUNING",    "ENV",  "ALLOC",   "CALL", "PROXY", "NVLS",
                                           "BOOTSTRAP", "REG",  "PROFILE", "RAS"};
#define SUBSYSTEMS (sizeof subsys_names / sizeof *subsys_names)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_open, is_version_printed;
static int level;
static unsigned subsystems;
static FILE *log_file;
static char host[64];
static char last_error[LINE_BYTES];

static void debug_reset_in_child(void) { lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
RONDO_NCCL_ON_FORK(debug_reset_in_child)

void rondo_nccl_debug_expand_path(const char *path, char *out, size_t out_bytes) {
  char name[64] = "", process[24];
  size_t used = 0;
  (void)gethostname(name, sizeof name - 1);
  (void)snprintf(process, sizeof process, "%ld", (long)getpid());
  out[0] = '\0';
  for (const char *c = path; *c && used + 1 < out_bytes; c++) {
    const char literal[] = {*c, '\0'};
    const char *text = literal;
    if (c[0] == '%' && (c[1] == 'h' || c[1] == 'p'))
      text = *++c == 'h' ? name : process;
    used += (size_t)snprintf(out + used, out_bytes - used, "%s", text);
  }
}

static int level_parse(const char *text) {
  for (size_t i = 0; i < LEVELS; i++)
    if (strcasecmp(text, level_names[i]) == 0)
      return (int)i;
  return strcasecmp(text, "ABORT") == 0 ? LEVEL_INFO : -1;
}

const char *rondo_nccl_debug_level_complaint(const char *value) {
  return level_parse(value) < 0 ? "it takes NONE, VERSION, WARN, INFO, ABORT or TRACE" : NULL;
}

// Sets the bits of the names in `text`. False: a part of `text` is not a name.
static bool subsystems_parse(const char *text, unsigned *bits) {
  bool invert = *text == '^', good = true;
  *bits = invert ? ~0u : 0u;
  for (const char *at = text + invert; *at; at += strcspn(at, ","), at += *at == ',') {
    size_t length = strcspn(at, ",");
    unsigned bit = length == 3 && strncasecmp(at, "ALL", 3) == 0 ? ~0u : 0u;
    for (size_t i = 0; i < SUBSYSTEMS; i++)
      if (strlen(subsys_names[i]) == length && strncasecmp(at, subsys_names[i], length) == 0)
        bit = 1u << i;
    good &= bit != 0;
    *bits = invert ? *bits & ~bit : *bits | bit;
  }
  return good;
}

const char *rondo_nccl_debug_subsys_complaint(const char *value) {
  unsigned bits;
  return subsystems_parse(value, &bits)
             ? NULL
             : "it takes names such as INIT,COLL,P2P,ENV or ALL; a leading ^ selects all others";
}

// The lock is held.
static void log_file_open(void) {
  const char *path = getenv("NCCL_DEBUG_FILE");
  char expanded[LINE_BYTES];
  if (log_file && log_file != stderr)
    fclose(log_file);
  log_file = stderr;
  if (!path || !*path)
    return;
  rondo_nccl_debug_expand_path(path, expanded, sizeof expanded);
  FILE *file = fopen(expanded, "we");
  if (file) {
    // Unbuffered: a forked process must not write the lines in the buffer again.
    (void)setvbuf(file, NULL, _IONBF, 0);
    log_file = file;
  } else {
    fprintf(stderr, "NCCL WARN rondo: NCCL_DEBUG_FILE %s cannot be opened\n", expanded);
  }
}

// Reads the variables, once. The lock is held.
static void debug_open(void) {
  if (is_open)
    return;
  const char *level_text = getenv("NCCL_DEBUG");
  const char *subsys_text = getenv("NCCL_DEBUG_SUBSYS");
  is_open = true;
  (void)gethostname(host, sizeof host - 1);
  level = level_text ? level_parse(level_text) : -1;
  if (level < 0)
    level = LEVEL_WARN;
  subsystems = DEFAULT_SUBSYS;
  if (subsys_text && *subsys_text)
    subsystems_parse(subsys_text, &subsystems);
  log_file_open();
}

void rondo_nccl_debug_reset(void) {
  pthread_mutex_lock(&lock);
  is_open = false;
  debug_open();
  pthread_mutex_unlock(&lock);
}

static void line_write(const char *kind, int device, const char *text) {
  fprintf(log_file, "%s:%ld:%ld [%d] NCCL %s %s\n", host, (long)getpid(), syscall(SYS_gettid),
          device, kind, text);
  fflush(log_file);
}

int rondo_nccl_refuse(int result, const char *format, ...) {
  char line[LINE_BYTES];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  debug_open();
  if (level >= LEVEL_WARN)
    line_write("WARN", 0, line);
  if (result != RONDO_NCCL_SUCCESS)
    memcpy(last_error, line, sizeof line);
  pthread_mutex_unlock(&lock);
  return result;
}

bool rondo_nccl_debug_enabled(unsigned subsystem) {
  pthread_mutex_lock(&lock);
  debug_open();
  bool enabled = level >= LEVEL_INFO && subsystems & subsystem;
  pthread_mutex_unlock(&lock);
  return enabled;
}

void rondo_nccl_info(unsigned subsystem, int device, const char *format, ...) {
  char line[LINE_BYTES];
  va_list args;
  if (!rondo_nccl_debug_enabled(subsystem))
    return;
  va_start(args, format);
  (void)vsnprintf(line, sizeof line, format, args);
  va_end(args);
  pthread_mutex_lock(&lock);
  line_write("INFO", device, line);
  pthread_mutex_unlock(&lock);
}

void rondo_nccl_debug_print_version(void) {
  int version = rondo_version();
  pthread_mutex_lock(&lock);
  debug_open();
  if (level >= LEVEL_VERSION && getenv("NCCL_DEBUG") && !is_version_printed) {
    is_version_printed = true;
    fprintf(log_file, "NCCL version %d.%d.%d, served by Rondo %d.%d.%d\n", RONDO_NCCL_MAJOR,
            RONDO_NCCL_MINOR, RONDO_NCCL_PATCH, version / 10000, version / 100 % 100,
            version % 100);
    fflush(log_file);
  }
  pthread_mutex_unlock(&lock);
}

const char *rondo_nccl_last_error(void) {
  static _Thread_local char mine[LINE_BYTES];
  pthread_mutex_lock(&lock);
  memcpy(mine, last_error, sizeof mine);
  pthread_mutex_unlock(&lock);
  return mine;
}
