// Programs of the PTX machine: what a module declares, the places of registers, and refusals, which
// name the line.
#include "tests/unit/ptx_run.h"

static struct ptx_program *text_parse(const char *text) {
  struct ptx_program *program;
  char why[256];
  if (ptx_program_parse(text, &program, why, sizeof why))
    fail_msg("%s", why);
  return program;
}

static void a_module_has_its_entries(void **state) {
  (void)state;
  struct ptx_program *p = text_parse(
      "// comment\n.version 9.0\n.target sm_90, debug\n.address_size 64\n"
      ".file 1 \"/a/first.cu\"\n.file 3 \"/a/third.h\"\n"
      ".visible .entry one(.param .u32 one_0, .param .align 8 .b8 one_1[24]) .maxntid 64, 2, 1\n"
      ".minnctapersm 1\n{ /* a\n comment */ .reg .b32 %r<2>; .shared .align 8 .b8 a[10];\n"
      ".shared .align 4 .f32 b; .loc 3 17 5, function_name $L__x, inlined_at 1 2 3\n"
      "mov.u32 %r1, b; ret; }\n"
      ".entry two() { .pragma \"nounroll\"; ret; }\n"
      ".section .debug_str { $L__x: .b8 1,2\n { } }\n");
  const struct ptx_kernel *one = ptx_program_kernel(p, "one");
  assert_non_null(one);
  assert_non_null(ptx_program_kernel(p, "two"));
  assert_null(ptx_program_kernel(p, "three"));
  assert_int_equal(one->param_count, 2);
  assert_int_equal(one->params[1].offset, 8);
  assert_int_equal(one->param_bytes, 32);
  assert_int_equal(one->shared_bytes, 16);
  assert_int_equal(one->max_threads, 128);
  assert_int_equal(one->lines[0].text, 12);
  assert_int_equal(one->lines[0].source, 17);
  assert_string_equal(ptx_program_file(p, one->lines[0].file), "/a/third.h");
  assert_null(ptx_program_file(p, 2));
  assert_null(ptx_program_file(p, 4));
  ptx_program_destroy(p);
}

// 4,000 registers in turn, two of which are live at a time.
static void registers_share_places(void **state) {
  static char text[200000];
  char *to = text;
  (void)state;
  to += sprintf(to, "%s.reg .b32 %%x<4000>;\nmov.u32 %%x0, 1;\n", KERNEL_HEAD);
  for (uint32_t i = 1; i < 4000; i++)
    to += sprintf(to, "add.s32 %%x%u, %%x%u, 1;\n", i, i - 1);
  sprintf(to, "st.u32 [%%d0], %%x3999;\n%s", KERNEL_TAIL);
  struct ptx_program *p = text_parse(text);
  assert_in_range(ptx_program_kernel(p, "k")->register_bytes, 256 + 2 * 128, 2000);
  ptx_program_destroy(p);
  memset(buffer, 0, sizeof buffer);
  const struct ptx_run_shape shape = {.threads = 32};
  assert_int_equal(text_run(text, &shape).state, PTX_DONE);
  assert_int_equal(buffer[0], 4000);
}

// A value that is made before a loop and used after it keeps its place through it.
static void registers_live_through_loops(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("mov.u32 %r1, 1000;\nmov.u32 %r2, 0;\nbra MIDDLE;\n"
                 "AFTER:\nadd.s32 %r9, %r1, %r2;\nst.u32 [%d0], %r9;\nbra END;\n"
                 "MIDDLE:\nadd.s32 %r3, %r2, 1;\nmov.u32 %r2, %r3;\nmov.u32 %r4, %r3;\n"
                 "setp.lt.u32 %p1, %r4, 10;\n@%p1 bra MIDDLE;\nbra AFTER;\nEND:\n",
                 32);
  assert_int_equal(buffer[0], 1010);
  // %r1 is used again after the jump back, so %r5 must not take its place.
  body_completes("mov.u32 %r1, 5;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n"
                 "LOOP:\nadd.s32 %r2, %r2, %r1;\nadd.s32 %r3, %r3, 1;\n"
                 "setp.lt.u32 %p1, %r3, 4;\n@!%p1 bra END;\n"
                 "BACK:\nxor.b32 %r5, %r3, 77;\nadd.s32 %r6, %r5, 9;\nst.u32 [%d0+8], %r6;\n"
                 "bra LOOP;\nEND:\nst.u32 [%d0], %r2;\n",
                 32);
  assert_int_equal(buffer[0], 20);
}

// While half of a warp needs a predicate, the other half writes 16-bit registers.
static void places_have_one_layout(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("mul.wide.u32 %d1, %r0, 8;\nadd.s64 %d1, %d1, %d0;\n"
                 "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra OTHER;\n"
                 "setp.gt.u32 %p2, %r0, 20;\nnanosleep.u32 10;\nselp.b32 %r1, 1, 2, %p2;\n"
                 "bra END;\nOTHER:\nmov.u16 %h1, 0x5555;\nnanosleep.u32 10;\n"
                 "cvt.u32.u16 %r1, %h1;\nEND:\nst.u32 [%d1], %r1;\n",
                 32);
  for (uint32_t i = 0; i < 32; i++)
    assert_int_equal(buffer[i], i < 16 ? 0x5555 : i > 20 ? 1 : 2);
}

static void names_end_with_their_braces(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("mov.u32 %r1, 5;\n{\n.reg .b32 %r1;\nmov.u32 %r1, 6;\n}\nst.u32 [%d0], %r1;\n", 1);
  assert_int_equal(buffer[0], 5);
}

static const struct refusal {
  const char *body, *says; // the body begins in line 15 of the text
} refusals[] = {
    {"frob.b32 %r1, %r2;", "PTX line 15: frob.b32 is not supported"},
    {"\n\nadd.s32 %r1, %r2;", "PTX line 17: add.s32 has 3 operands, not 2"},
    {"add.s32 %r1, %r2, %d1;", NULL}, // a wider register is cut
    {"add.s64 %d1, %d2, %r1;", "PTX line 15: a register of 4 bytes where 8 are needed"},
    {"add.s32 %h1, %r2, %r3;", "PTX line 15: a register of 2 bytes for a result of 4"},
    {"add.s32 %r99, %r2, %r3;", "PTX line 15: %r99 is not declared"},
    {"add.s32 %r1, %p2, %r3;", "PTX line 15: a register of 1 bytes where 4 are needed"},
    {"mov.f32 %f1, 0d3FF0000000000000;", "PTX line 15: an operand has no form that"},
    {"mov.f32 %f1, 0f3F80;", "PTX line 15: \"0f3F80\" is no number"},
    {"bra NOWHERE;", "PTX line 15: a branch to a label that is not there"},
    {"A: A: ret;", "PTX line 15: a label stands twice"},
    {"bra %r1;", "PTX line 15: the target of a branch is no label"},
    {"@%r1 ret;", "PTX line 15: the guard is no predicate"},
    {"ld.local.u32 %r1, [%d0];", "PTX line 15: ld.local.u32 is not supported with these"},
    {"ld.u64 %r1, [%d0];", "PTX line 15: ld.u64 is not supported with these operands"},
    {"ld.v4.u64 {%d1, %d2, %d3, %d4}, [%d0];", "PTX line 15: ld.v4.u64 is not supported"},
    {"ld.v2.u32 {%r1, %r2, %r3}, [%d0];", "PTX line 15: ld.v2.u32 is not supported"},
    {"ld.u32 %r1, [%r0];", "PTX line 15: an address in a register of 4 bytes"},
    {"ld.u32 %r1, [fast];", "PTX line 15: fast is in another state space"},
    {"st.param.u32 [k_0], %r1;", "PTX line 15: st.param.u32 is not supported"},
    {"ld.release.sys.u32 %r1, [%d0];", "PTX line 15: ld.release.sys.u32 is not supported"},
    {"atom.add.f32 %f1, [%d0], %f2;", "PTX line 15: atom.add.f32 is not supported"},
    {"fence.proxy.async;", "PTX line 15: fence.proxy.async is not supported"},
    {"bar.arrive 1, 64;", "PTX line 15: bar.arrive is not supported"},
    {"cvta.to.local.u64 %d1, %d2;", "PTX line 15: cvta.to.local.u64 is not supported"},
    {"call foo;", "PTX line 15: call is not supported"},
    {".local .b8 x[4];", "PTX line 15: \".local\" is not supported"},
    {".reg .b128 %q;", "PTX line 15: registers of type .b128 are not supported"},
    {"mov.u32 %r1, %pm0;", "PTX line 15: %pm0 is not declared"},
    {"add.s32 %r1, %r2, %r3", "PTX line 16: ';' is missing before"},
};

static void refusals_name_the_line(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const struct refusal *r = &refusals[i];
    struct ptx_program *program = NULL;
    char text[1000], why[256] = "";
    snprintf(text, sizeof text, "%s%s\n%s", KERNEL_HEAD, r->body, KERNEL_TAIL);
    const int status = ptx_program_parse(text, &program, why, sizeof why);
    if (!r->says && status == 0)
      ptx_program_destroy(program);
    else if (!r->says || status == 0 || strncmp(why, r->says, strlen(r->says)) != 0)
      fail_msg("\"%s\": \"%s\"", r->body, why);
  }
}

static void modules_of_other_forms_are_refused(void **state) {
  static const char *const texts[] = {
      "hello",
      ".version 9.0\n.global .b32 x;",
      ".version 9.0\n.func f() { ret; }",
      ".address_size 32",
      ".entry k(",
      ".entry k() { ret;",
      ".entry k() {",
      ".entry k() .maxnreg 12 { ret; }",
      ".shared .b8 x[4];",
      ".entry k(.param .b8 x[5000]) { ret; }",
      ".entry k() { .shared .b8 x[300000]; ret; }",
      ".section .debug_str { ",
  };
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct ptx_program *program = NULL;
    char why[256] = "";
    if (ptx_program_parse(texts[i], &program, why, sizeof why) == 0)
      fail_msg("\"%s\" is not refused", texts[i]);
    assert_memory_equal(why, "PTX line ", 9);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_program", a_module_has_its_entries),
      RONDO_NAMED_TEST("ptx_program", registers_share_places),
      RONDO_NAMED_TEST("ptx_program", registers_live_through_loops),
      RONDO_NAMED_TEST("ptx_program", places_have_one_layout),
      RONDO_NAMED_TEST("ptx_program", names_end_with_their_braces),
      RONDO_NAMED_TEST("ptx_program", refusals_name_the_line),
      RONDO_NAMED_TEST("ptx_program", modules_of_other_forms_are_refused),
  };
  return cmocka_run_group_tests_name("ptx_program", tests, NULL, NULL);
}
