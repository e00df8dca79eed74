// Small files of text, read whole.
#ifndef RONDO_BASE_TEXT_FILE_H
#define RONDO_BASE_TEXT_FILE_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

// Reads the file at `path` into `text`, of `bytes`, and ends it with a zero. Returns 0, or the
// errno of what failed: EFBIG if the file does not fit.
static inline int rondo_text_file_read(const char *path, char *text, size_t bytes) {
  FILE *file = fopen(path, "re");
  if (!file)
    return errno;
  errno = 0;
  size_t length = fread(text, 1, bytes, file);
  int error = ferror(file) ? (errno ? errno : EIO) : length == bytes ? EFBIG : 0;
  (void)fclose(file);
  if (!error)
    text[length] = '\0';
  return error;
}

#endif // RONDO_BASE_TEXT_FILE_H
