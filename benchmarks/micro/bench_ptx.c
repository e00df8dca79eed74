// How fast the PTX machine executes: instructions of lanes per second on one thread, for loops like
// those of the daemon kernel, with 16 whole warps and with one lane.
//
//   bench_ptx [--iters=N]
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "tests/support/ptx/ptx_machine.h"
#include "tools/kit/options.h"

#define BUFFER_BYTES (1u << 16)
#define HEAD                                                                                       \
  ".entry k(.param .u64 p0, .param .u32 p1)\n{\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n"             \
  ".reg .b32 %r<29>;\n.reg .f32 %f<9>;\n.reg .b64 %d<9>;\nld.param.u64 %d0, [p0];\n"               \
  "ld.param.u32 %r1, [p1];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %d1, %r0, 16;\n"                    \
  "add.s64 %d1, %d1, %d0;\nmov.u32 %r2, 0;\nLOOP:\n"
#define TAIL "add.s32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r1;\n@%p1 bra LOOP;\nret;\n}\n"

static const struct {
  const char *name, *body;
} loops[] = {
    {"integers", "add.s32 %r3, %r2, %r0;\nand.b32 %r4, %r3, 255;\nshl.b32 %r5, %r4, 3;\n"
                 "xor.b32 %r6, %r5, %r3;\nsetp.gt.u32 %p2, %r6, 99;\nselp.b32 %r7, %r5, %r6, %p2;\n"
                 "cvt.u64.u32 %d2, %r7;\nadd.s64 %d3, %d2, %d1;\n"},
    {"sum of float32", "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d1];\n"
                       "ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%d1+8192];\n"
                       "mov.b32 %f1, %r3;\nmov.b32 %f2, %r7;\nadd.rn.f32 %f3, %f1, %f2;\n"
                       "mov.b32 %r11, %f3;\nadd.rn.f32 %f4, %f2, %f3;\nmov.b32 %r12, %f4;\n"
                       "st.global.v4.u32 [%d1+16384], {%r11, %r12, %r9, %r10};\n"},
    {"sum of float16", "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d1];\nmov.b32 {%h1, %h2}, %r3;\n"
                       "cvt.f32.f16 %f1, %h1;\ncvt.f32.f16 %f2, %h2;\nadd.rn.f32 %f3, %f1, %f2;\n"
                       "cvt.rn.f16.f32 %h3, %f3;\nmov.b32 %r7, {%h3, %h2};\n"
                       "st.global.v4.u32 [%d1+16384], {%r7, %r4, %r5, %r6};\n"},
    {"shared memory",
     ".shared .align 16 .b8 s[64];\nld.shared.u32 %r3, [s];\nadd.s32 %r3, %r3, 1;\n"
     "st.shared.u32 [s], %r3;\nld.shared.u64 %d3, [s+8];\nadd.s64 %d3, %d3, 1;\n"
     "st.shared.u64 [s+8], %d3;\n"},
};

struct options {
  uint32_t iters;
};

struct params {
  uint64_t buffer;
  uint32_t iters;
};

static void loop_measure(size_t n, uint32_t threads, const struct options *o, void *buffer) {
  char text[4096], why[256];
  struct ptx_program *program;
  const struct params params = {(uintptr_t)buffer, o->iters};
  const struct ptx_options options = {.timer_step_ns = 32};
  snprintf(text, sizeof text, "%s%s%s", HEAD, loops[n].body, TAIL);
  if (ptx_program_parse(text, &program, why, sizeof why)) {
    fprintf(stderr, "bench_ptx: %s\n", why);
    exit(1);
  }
  const struct ptx_launch launch = {.program = program,
                                    .kernel = ptx_program_kernel(program, "k"),
                                    .params = &params,
                                    .blocks = 1,
                                    .threads = threads,
                                    .options = &options};
  struct ptx_block *block = ptx_block_create(&launch, 0);
  if (!block)
    exit(1);
  const uint64_t begun_ns = rondo_now_ns();
  while (ptx_block_run(block, UINT64_MAX) == PTX_RUNS)
    ;
  const double seconds = (double)(rondo_now_ns() - begun_ns) / 1e9;
  const uint64_t steps = ptx_block_steps(block);
  printf("%-16s %8u %14" PRIu64 " %10.1f\n", loops[n].name, threads, steps,
         (double)steps / seconds / 1e6);
  ptx_block_destroy(block);
  ptx_program_destroy(program);
}

int main(int argc, char **argv) {
  static const struct rondo_kit_option table[] = {
      {"iters", 'n', "N", "Rounds of each loop (default 100000)", RONDO_KIT_U32,
       offsetof(struct options, iters), .low = 1, .high = 1u << 30},
      {0}};
  static const struct rondo_kit_command command = {
      .options = table, .doc = "Measures how fast the PTX machine executes on this machine."};
  struct options o = {100000};
  rondo_kit_command_read(&command, argc, argv, &o);
  void *buffer = aligned_alloc(256, BUFFER_BYTES);
  if (!buffer)
    return 1;
  for (size_t i = 0; i < BUFFER_BYTES / sizeof(uint32_t); i++)
    ((uint32_t *)buffer)[i] = 0x3c003c00;
  printf("%-16s %8s %14s %10s\n", "loop", "threads", "instructions", "million/s");
  for (size_t n = 0; n < sizeof loops / sizeof *loops; n++) {
    loop_measure(n, 512, &o, buffer);
    loop_measure(n, 1, &o, buffer);
  }
  free(buffer);
  return 0;
}
