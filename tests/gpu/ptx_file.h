// Parses PTX for tests: the text for an architecture in a file that holds a fatbin or PTX.
#ifndef RONDO_TESTS_GPU_PTX_FILE_H
#define RONDO_TESTS_GPU_PTX_FILE_H

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/named.h"
#include "tests/support/ptx/ptx_image.h"
#include "tests/support/ptx/ptx_program.h"

static inline void *ptx_file_read(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  const size_t bytes = (size_t)ftell(file);
  char *data = calloc(1, bytes + 1);
  assert_non_null(data);
  rewind(file);
  assert_int_equal(fread(data, 1, bytes, file), bytes);
  fclose(file);
  return data;
}

static inline struct ptx_program *ptx_file_parse(const char *path, uint32_t arch) {
  char why[256] = "", *text = NULL;
  struct ptx_program *program = NULL;
  void *image = ptx_file_read(path);
  if (ptx_image_text(image, arch, &text, why, sizeof why) ||
      ptx_program_parse(text, &program, why, sizeof why))
    fail_msg("%s for %u: %s", path, arch, why);
  free(text);
  free(image);
  return program;
}

#endif // RONDO_TESTS_GPU_PTX_FILE_H
