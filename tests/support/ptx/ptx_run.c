// ptx_run FILE KERNEL THREADS INPUT OUTPUT_BYTES: runs one block of a kernel of a PTX text.
//
// INPUT is the contents of the input buffer, two hexadecimal digits a byte. The kernel's parameters
// are the addresses of the input and of the output buffer; of the output buffer alone if INPUT is
// empty. Prints the output buffer in the same form.
// Exit status: 0 done, 1 the run was accused or a file cannot be read, 2 wrong usage, 3 the machine
// does not know something in the text. One line on stderr says what.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_machine.h"

#define SHARED_BYTES 1024u // dynamic
#define STATUS_UNKNOWN 3
#define PIECE_BYTES 65536u

struct buffers {
  struct ptx_span input, output;
};

static void run_accuse(void *arg, const char *line) {
  (void)arg;
  fprintf(stderr, "%s\n", line);
}

static bool buffers_find(void *arg, uint64_t address, struct ptx_span *span) {
  const struct buffers *b = arg;
  const bool is_input = address >= b->input.begin && address < b->input.end;
  *span = is_input ? b->input : b->output;
  return address >= span->begin && address < span->end;
}

static struct ptx_span span_of(unsigned char *buffer, size_t bytes, bool is_writable) {
  const uint64_t at = (uint64_t)(uintptr_t)buffer;
  return (struct ptx_span){.begin = at, .end = at + bytes, .is_writable = is_writable};
}

// Returns the whole file with a zero at its end, or null. The caller frees it.
static char *file_read(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t bytes = 0;
  size_t got = 0;
  while (file) {
    char *more = realloc(text, bytes + PIECE_BYTES + 1);
    if (!more)
      break;
    text = more;
    got = fread(text + bytes, 1, PIECE_BYTES, file);
    bytes += got;
    text[bytes] = 0;
    if (got == 0)
      break;
  }
  if (file)
    fclose(file);
  return text;
}

// Returns the bytes that the digits say, or null. The caller frees them.
static unsigned char *bytes_of_digits(const char *digits, size_t *bytes) {
  *bytes = strlen(digits) / 2;
  unsigned char *data = calloc(*bytes + 1, 1);
  for (size_t i = 0; data && i < *bytes; i++) {
    const char pair[] = {digits[2 * i], digits[2 * i + 1], 0};
    char *end = NULL;
    data[i] = (unsigned char)strtoul(pair, &end, 16);
    if (end != pair + 2) {
      free(data);
      return NULL;
    }
  }
  return data;
}

static int kernel_run(const struct ptx_program *program, const char *name, uint32_t threads,
                      const struct buffers *buffers) {
  const struct ptx_options options = {
      .accuse = run_accuse, .find_span = buffers_find, .arg = (void *)(uintptr_t)buffers};
  const bool has_input = buffers->input.end > buffers->input.begin;
  const uint64_t params[] = {has_input ? buffers->input.begin : buffers->output.begin,
                             buffers->output.begin};
  const struct ptx_launch launch = {.program = program,
                                    .kernel = ptx_program_kernel(program, name),
                                    .params = params,
                                    .blocks = 1,
                                    .threads = threads,
                                    .shared_bytes = SHARED_BYTES,
                                    .options = &options};
  if (!launch.kernel || launch.kernel->param_bytes > sizeof params) {
    fprintf(stderr, "the text has no kernel %s with at most two addresses\n", name);
    return STATUS_UNKNOWN;
  }
  return ptx_launch_run_block(&launch, 0) == PTX_DONE ? 0 : 1;
}

static int text_run(const char *text, char **args) {
  struct ptx_program *program = NULL;
  char why[300];
  size_t input_bytes = 0;
  const size_t output_bytes = strtoul(args[5], NULL, 10);
  if (ptx_program_parse(text, &program, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    return STATUS_UNKNOWN;
  }
  unsigned char *input = bytes_of_digits(args[4], &input_bytes);
  unsigned char *output = calloc(output_bytes + 1, 1);
  int status = 1;
  if (!input) {
    fprintf(stderr, "INPUT has what is no hexadecimal byte\n");
    status = 2;
  } else if (output) {
    const struct buffers buffers = {span_of(input, input_bytes, true),
                                    span_of(output, output_bytes, true)};
    status = kernel_run(program, args[2], (uint32_t)strtoul(args[3], NULL, 10), &buffers);
  }
  for (size_t i = 0; status == 0 && i < output_bytes; i++)
    printf("%02x", output[i]);
  free(input);
  free(output);
  ptx_program_destroy(program);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "usage: ptx_run FILE KERNEL THREADS INPUT OUTPUT_BYTES\n");
    return 2;
  }
  char *text = file_read(argv[1]);
  if (!text) {
    fprintf(stderr, "%s cannot be read\n", argv[1]);
    return 1;
  }
  const int status = text_run(text, argv);
  free(text);
  return status;
}
