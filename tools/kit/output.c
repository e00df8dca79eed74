#include "tools/kit/output.h"

#include <argp.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rondo/rondo.h>

static int status_of_failure;

const char *rondo_kit_version(void) {
  static char text[32];
  int version = rondo_version();
  (void)snprintf(text, sizeof text, "%d.%d.%d", version / 10000, version / 100 % 100,
                 version % 100);
  return text;
}

static void version_print(FILE *stream, struct argp_state *state) {
  fprintf(stream, "%s %s\n", state->name, rondo_kit_version());
}

static void output_finish(void) {
  bool failed = ferror(stdout);
  errno = 0;
  if (fflush(stdout) == 0 && !failed)
    return;
  fprintf(stderr, "%s: standard output: %s\n", program_invocation_short_name,
          errno ? strerror(errno) : "not all could be written");
  _exit(status_of_failure); // it is too late for exit
}

void rondo_kit_output_begin(int failure) {
  argp_program_version_hook = version_print;
  status_of_failure = failure;
  if (atexit(output_finish) != 0)
    fprintf(stderr, "%s: a full disk may go unnoticed\n", program_invocation_short_name);
}

// Prints an error of the file, if it is one. Returns whether it is none.
static bool error_print(const char *path, int error) {
  if (error != 0)
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(error));
  return error == 0;
}

bool rondo_kit_output_check(const char *path) {
  struct stat at;
  if (stat(path, &at) == 0)
    return error_print(path, S_ISDIR(at.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno);
  if (errno != ENOENT)
    return error_print(path, errno);
  char *copy = strdup(path);
  int error = copy && access(dirname(copy), W_OK | X_OK) == 0 ? 0 : errno;
  free(copy);
  return error_print(path, error);
}

static int file_save(const char *path, const char *text) {
  struct stat at;
  FILE *file = text ? fopen(path, "w") : NULL;
  if (!file)
    return text ? errno : ENOMEM;
  bool is_file = fstat(fileno(file), &at) == 0 && S_ISREG(at.st_mode);
  int error = fputs(text, file) < 0 ? errno : 0;
  if (fclose(file) != 0 && error == 0)
    error = errno;
  if (error != 0 && is_file)
    (void)unlink(path);
  return error;
}

bool rondo_kit_output_save(const char *path, char *text) {
  int error = file_save(path, text);
  free(text);
  return error_print(path, error);
}
