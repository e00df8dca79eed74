// What the tests of the PTX machine share: small kernels with one buffer, run in this thread, and
// the line of their accusation.
#ifndef RONDO_TESTS_UNIT_PTX_RUN_H
#define RONDO_TESTS_UNIT_PTX_RUN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/named.h"
#include "tests/support/ptx/ptx_machine.h"

#define KERNEL_HEAD                                                                                \
  ".version 9.0\n.target sm_90\n.address_size 64\n"                                                \
  ".extern .shared .align 16 .b8 fast[];\n"                                                        \
  ".visible .entry k(.param .u64 k_0)\n{\n"                                                        \
  ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<19>;\n.reg .b64 %d<19>;\n"                    \
  ".reg .f32 %f<9>;\n.reg .f64 %g<9>;\n"                                                           \
  "ld.param.u64 %d0, [k_0];\nmov.u32 %r0, %tid.x;\n"
#define KERNEL_TAIL "ret;\n}\n"
#define BUFFER_WORDS 4096u

struct ptx_run_result {
  enum ptx_state state;
  char line[512]; // of the accusation
  uint64_t steps;
};

struct ptx_run_shape {
  uint32_t threads, shared_bytes, block;
  struct ptx_options options;
};

// What kernels read and write: %d0 is its address.
static uint64_t buffer[BUFFER_WORDS] __attribute__((aligned(256)));

static inline void line_keep(void *arg, const char *line) {
  struct ptx_run_result *r = arg;
  snprintf(r->line, sizeof r->line, "%s", line);
}

// Only the buffer may be used, and its last quarter only read.
static inline bool buffer_find(void *arg, uint64_t address, struct ptx_span *span) {
  const uint64_t begin = (uintptr_t)buffer, middle = begin + sizeof buffer / 4 * 3;
  (void)arg;
  *span = address < middle ? (struct ptx_span){begin, middle, true, PTX_AT_OWN}
                           : (struct ptx_span){middle, begin + sizeof buffer, false, PTX_AT_OWN};
  return address >= begin && address < begin + sizeof buffer;
}

static inline struct ptx_run_result text_run(const char *text, const struct ptx_run_shape *shape) {
  struct ptx_run_result result = {.state = PTX_FAILED};
  struct ptx_program *program;
  const uint64_t param = (uintptr_t)buffer;
  struct ptx_options options = shape->options;
  options.accuse = line_keep;
  options.find_span = options.find_span ? options.find_span : buffer_find;
  options.arg = &result;
  if (ptx_program_parse(text, &program, result.line, sizeof result.line))
    fail_msg("%s", result.line);
  const struct ptx_launch launch = {.program = program,
                                    .kernel = ptx_program_kernel(program, "k"),
                                    .params = &param,
                                    .blocks = 3,
                                    .threads = shape->threads,
                                    .shared_bytes = shape->shared_bytes,
                                    .options = &options};
  struct ptx_block *b = ptx_block_create(&launch, shape->block);
  assert_non_null(b);
  do
    result.state = ptx_block_run(b, 1000000);
  while (result.state == PTX_RUNS || result.state == PTX_PAUSED);
  result.steps = ptx_block_steps(b);
  ptx_block_destroy(b);
  ptx_program_destroy(program);
  return result;
}

// Runs `body` between the head and the tail.
static inline struct ptx_run_result body_run(const char *body, const struct ptx_run_shape *shape) {
  char *text = malloc(strlen(body) + 1000);
  assert_non_null(text);
  sprintf(text, "%s%s%s", KERNEL_HEAD, body, KERNEL_TAIL);
  struct ptx_run_result result = text_run(text, shape);
  free(text);
  return result;
}

static inline void body_completes(const char *body, uint32_t threads) {
  const struct ptx_run_shape shape = {.threads = threads, .shared_bytes = 256};
  const struct ptx_run_result r = body_run(body, &shape);
  if (r.state != PTX_DONE)
    fail_msg("%s", r.line);
}

#endif // RONDO_TESTS_UNIT_PTX_RUN_H
