// Instructions on registers: each is decoded to the operation that its name says, for whole warps,
// for one lane, and with immediate operands. What the operations compute is the subject of
// ptx_arith.
#include "tests/unit/ptx_run.h"

// An instruction, the widths of its registers (p: a predicate, h, r, d: 16, 32, 64 bits), its
// operands and its result. The first width is the result's.
static const struct row {
  const char *text, *widths;
  uint64_t operands[4], result;
} rows[] = {
    {"add.u16", "hhh", {0xffff, 2}, 1},
    {"add.s32", "rrr", {7, (uint64_t)-9}, 0xfffffffe},
    {"add.s64", "ddd", {UINT64_MAX, 5}, 4},
    {"sub.s16", "hhh", {3, 5}, 0xfffe},
    {"sub.s32", "rrr", {3, 5}, 0xfffffffe},
    {"sub.u64", "ddd", {3, 5}, (uint64_t)-2},
    {"mul.lo.s16", "hhh", {300, 300}, 90000 & 0xffff},
    {"mul.lo.s32", "rrr", {0x10001, 0x10001}, 0x20001},
    {"mul.lo.s64", "ddd", {UINT64_C(1) << 33, 5}, UINT64_C(5) << 33},
    {"mul.hi.u32", "rrr", {0x80000000, 6}, 3},
    {"mul.hi.s32", "rrr", {0x80000000, 6}, 0xfffffffd},
    {"mul.hi.u64", "ddd", {UINT64_C(1) << 63, 6}, 3},
    {"mul.wide.u16", "rhh", {0xffff, 0xffff}, 0xfffe0001},
    {"mul.wide.s16", "rhh", {0xffff, 2}, 0xfffffffe},
    {"mul.wide.u32", "drr", {0xffffffff, 2}, 0x1fffffffe},
    {"mul.wide.s32", "drr", {0xffffffff, 2}, (uint64_t)-2},
    {"mad.lo.s32", "rrrr", {6, 7, 100}, 142},
    {"mad.wide.u32", "drrd", {0xffffffff, 2, 1}, 0x1ffffffff},
    {"mad.hi.u32", "rrrr", {0x80000000, 6, 1}, 4},
    {"mul24.lo.u32", "rrr", {0xff000003, 5}, 15},
    {"div.u32", "rrr", {0xfffffffe, 2}, 0x7fffffff},
    {"div.s32", "rrr", {0xfffffffe, 2}, 0xffffffff},
    {"div.u64", "ddd", {100, 7}, 14},
    {"div.s64", "ddd", {(uint64_t)-100, 7}, (uint64_t)-14},
    {"rem.u32", "rrr", {100, 7}, 2},
    {"rem.s64", "ddd", {(uint64_t)-100, 7}, (uint64_t)-2},
    {"min.u32", "rrr", {1, 0xffffffff}, 1},
    {"min.s32", "rrr", {1, 0xffffffff}, 0xffffffff},
    {"max.u64", "ddd", {1, UINT64_MAX}, UINT64_MAX},
    {"max.s64", "ddd", {1, UINT64_MAX}, 1},
    {"min.s16", "hhh", {1, 0xffff}, 0xffff},
    {"neg.s32", "rr", {5}, 0xfffffffb},
    {"neg.s64", "dd", {5}, (uint64_t)-5},
    {"abs.s32", "rr", {0xfffffffb}, 5},
    {"not.b32", "rr", {0xf0f0f0f0}, 0x0f0f0f0f},
    {"and.b16", "hhh", {0xff0f, 0x0fff}, 0x0f0f},
    {"and.b32", "rrr", {0xff00ff00, 0x0ff00ff0}, 0x0f000f00},
    {"or.b64", "ddd", {UINT64_C(1) << 40, 3}, (UINT64_C(1) << 40) + 3},
    {"xor.b32", "rrr", {5, 3}, 6},
    {"shl.b16", "hhr", {0x8001, 1}, 2},
    {"shl.b32", "rrr", {1, 33}, 0},
    {"shl.b64", "ddr", {1, 33}, UINT64_C(1) << 33},
    {"shr.u16", "hhr", {0x8000, 15}, 1},
    {"shr.s16", "hhr", {0x8000, 15}, 0xffff},
    {"shr.u32", "rrr", {0x80000000, 31}, 1},
    {"shr.s32", "rrr", {0x80000000, 40}, 0xffffffff},
    {"shr.u64", "ddr", {UINT64_C(1) << 63, 63}, 1},
    {"shr.s64", "ddr", {UINT64_C(1) << 63, 63}, UINT64_MAX},
    {"shf.l.wrap.b32", "rrrr", {0x80000000, 1, 1}, 3},
    {"shf.r.clamp.b32", "rrrr", {5, 6, 40}, 6},
    {"popc.b32", "rr", {0xff01}, 9},
    {"popc.b64", "rd", {UINT64_MAX}, 64},
    {"clz.b32", "rr", {1}, 31},
    {"clz.b64", "rd", {1}, 63},
    {"brev.b32", "rr", {1}, 0x80000000},
    {"bfind.u32", "rr", {0x100}, 8},
    {"bfe.u32", "rrrr", {0xabcd, 4, 8}, 0xbc},
    {"bfe.s32", "rrrr", {0xabcd, 4, 8}, 0xffffffbc},
    {"bfi.b32", "rrrrr", {0xf, 0, 4, 4}, 0xf0},
    {"bfi.b64", "dddrr", {0xf, 1, 40, 8}, (UINT64_C(0xf) << 40) + 1},
    {"prmt.b32", "rrrr", {0x44332211, 0x88776655, 0x7410}, 0x88552211},
    {"lop3.b32", "rrrrr", {0xff00, 0x0ff0, 0x00ff, 0xe8}, 0x0ff0},
    {"selp.b32", "rrrp", {5, 6, 1}, 5},
    {"selp.b64", "dddp", {5, 6, 0}, 6},
    {"selp.f32", "rrrp", {5, 6, 1}, 5},
    {"mov.b32", "rr", {77}, 77},
    {"mov.u64", "dd", {77}, 77},
    {"mov.pred", "pp", {1}, 1},
    {"and.pred", "ppp", {1, 0}, 0},
    {"or.pred", "ppp", {1, 0}, 1},
    {"xor.pred", "ppp", {1, 1}, 0},
    {"not.pred", "pp", {0}, 1},
    {"setp.eq.s32", "prr", {4, 4}, 1},
    {"setp.ne.b64", "pdd", {4, 4}, 0},
    {"setp.lt.u32", "prr", {1, 0xffffffff}, 1},
    {"setp.lt.s32", "prr", {1, 0xffffffff}, 0},
    {"setp.le.u64", "pdd", {4, 4}, 1},
    {"setp.gt.s64", "pdd", {4, UINT64_MAX}, 1},
    {"setp.ge.u16", "phh", {3, 4}, 0},
    {"setp.lo.u32", "prr", {3, 4}, 1},
    {"setp.hs.u32", "prr", {3, 4}, 0},
    {"setp.lt.f32", "prr", {0x3f800000, 0x40000000}, 1},
    {"setp.num.f32", "prr", {0x3f800000, 0x7fc00000}, 0},
    {"setp.neu.f32", "prr", {0x3f800000, 0x7fc00000}, 1},
    {"setp.ge.f64", "pdd", {0x3ff0000000000000, 0x3ff0000000000000}, 1},
    {"add.rn.f32", "rrr", {0x3f800000, 0x3f800000}, 0x40000000},
    {"sub.f32", "rrr", {0x3f800000, 0x3f800000}, 0},
    {"mul.rn.f32", "rrr", {0x40000000, 0x40400000}, 0x40c00000},
    {"div.rn.f32", "rrr", {0x40c00000, 0x40400000}, 0x40000000},
    {"rcp.rn.f32", "rr", {0x40000000}, 0x3f000000},
    {"fma.rn.f32", "rrrr", {0x40000000, 0x40400000, 0x3f800000}, 0x40e00000},
    {"add.rn.f64", "ddd", {0x3ff0000000000000, 0x3ff0000000000000}, 0x4000000000000000},
    {"mul.f64", "ddd", {0x4000000000000000, 0x4000000000000000}, 0x4010000000000000},
    {"div.rn.f64", "ddd", {0x4010000000000000, 0x4000000000000000}, 0x4000000000000000},
    {"add.f16", "hhh", {0x3c00, 0x3c00}, 0x4000},
    {"fma.rn.bf16", "hhhh", {0x3f80, 0x3f80, 0x3f80}, 0x4000},
    {"min.f32", "rrr", {0x7fc00000, 0x3f800000}, 0x3f800000},
    {"max.NaN.f32", "rrr", {0x7fc00000, 0x3f800000}, 0x7fffffff},
    {"abs.f32", "rr", {0xbf800000}, 0x3f800000},
    {"neg.f64", "dd", {0x3ff0000000000000}, 0xbff0000000000000},
    {"cvt.u64.u32", "dr", {0xffffffff}, 0xffffffff},
    {"cvt.s64.s32", "dr", {0xffffffff}, UINT64_MAX},
    {"cvt.u32.u64", "rd", {0x1234567890}, 0x34567890},
    {"cvt.u16.u32", "hr", {0x12345}, 0x2345},
    {"cvt.s16.s8", "hh", {0x80}, 0xff80},
    {"cvt.s32.s8", "rr", {0x80}, 0xffffff80},
    {"cvt.s32.s8", "rh", {0x80}, 0xffffff80},
    {"cvt.u32.u8", "rr", {0x1ff}, 0xff},
    {"cvt.s64.s16", "dh", {0x8000}, 0xffffffffffff8000},
    {"cvt.sat.u8.s32", "rr", {300}, 255},
    {"cvt.rn.f32.s32", "rr", {0xffffffff}, 0xbf800000},
    {"cvt.rn.f32.u16", "rh", {3}, 0x40400000},
    {"cvt.rn.f64.u32", "dr", {2}, 0x4000000000000000},
    {"cvt.rzi.s32.f32", "rr", {0xbfc00000}, 0xffffffff},
    {"cvt.rzi.s64.f64", "dd", {0xc004000000000000}, (uint64_t)-2},
    {"cvt.rpi.f32.f32", "rr", {0x3fc00000}, 0x40000000},
    {"cvt.f32.f16", "rh", {0x3c00}, 0x3f800000},
    {"cvt.rn.f16.f32", "hr", {0x3f800000}, 0x3c00},
    {"cvt.rn.bf16.f32", "hr", {0x3f800000}, 0x3f80},
    {"cvt.f64.f32", "dr", {0x3f800000}, 0x3ff0000000000000},
    {"cvt.rn.f32.f64", "rd", {0x3ff0000000000000}, 0x3f800000},
    {"cvta.to.global.u64", "dd", {77}, 77},
};

#define ROWS (sizeof rows / sizeof *rows)
#define RESULT_AT 16u  // words of the buffer: a result each lane
#define OPERANDS_AT 4u // the operands

// Loads operand `k` into register 4 + k of its width.
static int operand_text(char *to, char width, uint32_t k) {
  const uint32_t at = 8 * (OPERANDS_AT + k), n = 4 + k;
  if (width == 'p')
    return sprintf(to, "ld.u32 %%r%u, [%%d0+%u];\nsetp.ne.s32 %%p%u, %%r%u, 0;\n", 10 + k, at, n,
                   10 + k);
  return sprintf(to, "ld.u%u %%%c%u, [%%d0+%u];\n",
                 width == 'h'   ? 16
                 : width == 'r' ? 32
                                : 64,
                 width, n, at);
}

// A kernel that executes a row on loaded or immediate operands.
static void row_text(const struct row *row, bool is_immediate, char *to) {
  const char result = row->widths[0];
  to += sprintf(to, "mul.wide.u32 %%d9, %%r0, 8;\nadd.s64 %%d9, %%d9, %%d0;\n");
  for (uint32_t k = 0; row->widths[k + 1]; k++)
    to += operand_text(to, row->widths[k + 1], k);
  to += sprintf(to, "%s %%%c1", row->text, result);
  for (uint32_t k = 0; row->widths[k + 1]; k++) {
    if (is_immediate && k > 0 && row->widths[k + 1] != 'p')
      to += sprintf(to, ", 0x%llx", (unsigned long long)row->operands[k]);
    else
      to += sprintf(to, ", %%%c%u", row->widths[k + 1], 4 + k);
  }
  to += sprintf(to, ";\n");
  if (result == 'p')
    sprintf(to, "selp.b64 %%d2, 1, 0, %%p1;\nst.u64 [%%d9+%u], %%d2;\n", 8 * RESULT_AT);
  else
    sprintf(to, "st.u%u [%%d9+%u], %%%c1;\n",
            result == 'h'   ? 16
            : result == 'r' ? 32
                            : 64,
            8 * RESULT_AT, result);
}

static void row_run(const struct row *row, bool is_immediate, uint32_t threads) {
  char body[2000];
  row_text(row, is_immediate, body);
  memset(buffer, 0, sizeof buffer);
  memcpy(&buffer[OPERANDS_AT], row->operands, sizeof row->operands);
  body_completes(body, threads);
  for (uint32_t lane = 0; lane < threads; lane++)
    if (buffer[RESULT_AT + lane] != row->result)
      fail_msg("%s: lane %u of %u has 0x%llx, not 0x%llx", row->text, lane, threads,
               (unsigned long long)buffer[RESULT_AT + lane], (unsigned long long)row->result);
}

static void each_does_what_its_name_says(void **state) {
  (void)state;
  for (size_t i = 0; i < ROWS; i++) {
    row_run(&rows[i], false, 32);
    row_run(&rows[i], false, 1);
    row_run(&rows[i], true, 7);
  }
}

// setp with a second result and with a third operand.
static void setp_combines(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("setp.eq.s32 %p1, %r0, %r0;\nsetp.lt.u32 %p2|%p3, %r0, 2;\n"
                 "setp.lt.and.u32 %p4, %r0, 3, %p3;\nsetp.gt.or.u32 %p5, %r0, 3, !%p1;\n"
                 "selp.b32 %r1, 1, 0, %p2;\nselp.b32 %r2, 2, 0, %p3;\nselp.b32 %r3, 4, 0, %p4;\n"
                 "selp.b32 %r4, 8, 0, %p5;\nadd.s32 %r1, %r1, %r2;\nadd.s32 %r1, %r1, %r3;\n"
                 "add.s32 %r1, %r1, %r4;\nmul.wide.u32 %d1, %r0, 8;\nadd.s64 %d1, %d1, %d0;\n"
                 "st.u32 [%d1], %r1;\n",
                 5);
  const uint64_t wanted[] = {1, 1, 6, 2, 10};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

static void mov_packs_and_unpacks(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("mov.u32 %r1, 0x11112222;\nmov.u32 %r2, 0x33334444;\nmov.b64 %d1, {%r1, %r2};\n"
                 "st.u64 [%d0], %d1;\nmov.b64 {%r3, %r4}, %d1;\nst.v2.u32 [%d0+8], {%r4, %r3};\n"
                 "mov.b32 {%h1, %h2}, %r1;\nmov.b32 %r5, {%h2, %h1};\nst.u32 [%d0+16], %r5;\n"
                 "mov.b64 {_, %r6}, %d1;\nst.u32 [%d0+24], %r6;\n"
                 "mov.b64 %d2, {%h1, %h2, %h2, %h1};\nst.u64 [%d0+32], %d2;\n",
                 1);
  const uint64_t wanted[] = {0x3333444411112222, 0x1111222233334444, 0x22221111, 0x33334444,
                             0x2222111111112222};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

static void immediates_have_every_form(void **state) {
  (void)state;
  memset(buffer, 0, sizeof buffer);
  body_completes("mov.f32 %f1, 0f3F800000;\nst.f32 [%d0], %f1;\nmov.f64 %g1, 0d3FF0000000000000;\n"
                 "st.f64 [%d0+8], %g1;\nmov.u32 %r1, -1;\nst.u32 [%d0+16], %r1;\n"
                 "mov.u64 %d1, -1;\nst.u64 [%d0+24], %d1;\nmov.u32 %r1, 0xffU;\n"
                 "st.u32 [%d0+32], %r1;\nst.u32 [%d0+40], 017;\nst.u8 [%d0+48], 7;\n",
                 1);
  const uint64_t wanted[] = {0x3f800000, 0x3ff0000000000000, 0xffffffff, UINT64_MAX, 0xff, 15, 7};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

static void special_registers_say_who_runs(void **state) {
  (void)state;
  const struct ptx_run_shape shape = {
      .threads = 70, .block = 2, .options = {.multiprocessor = 9, .timer_step_ns = 1000}};
  memset(buffer, 0, sizeof buffer);
  const struct ptx_run_result r = body_run(
      "setp.ne.s32 %p1, %r0, 69;\n@%p1 ret;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %ctaid.x;\n"
      "mov.u32 %r3, %nctaid.x;\nmov.u32 %r4, %laneid;\nmov.u32 %r5, %warpid;\nmov.u32 %r6, %smid;\n"
      "mov.u32 %r7, %tid.y;\nmov.u32 %r8, %ntid.z;\nst.v4.u32 [%d0], {%r1, %r2, %r3, %r4};\n"
      "st.v4.u32 [%d0+16], {%r5, %r6, %r7, %r8};\nmov.u64 %d1, %globaltimer;\n"
      "st.u64 [%d0+32], %d1;\n",
      &shape);
  const uint32_t wanted[] = {70, 2, 3, 5, 2, 9, 0, 1};
  assert_int_equal(r.state, PTX_DONE);
  assert_memory_equal(buffer, wanted, sizeof wanted);
  assert_true(buffer[4] > 0);
  assert_int_equal(buffer[4] % 1000, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_ops", each_does_what_its_name_says),
      RONDO_NAMED_TEST("ptx_ops", setp_combines),
      RONDO_NAMED_TEST("ptx_ops", mov_packs_and_unpacks),
      RONDO_NAMED_TEST("ptx_ops", immediates_have_every_form),
      RONDO_NAMED_TEST("ptx_ops", special_registers_say_who_runs),
  };
  return cmocka_run_group_tests_name("ptx_ops", tests, NULL, NULL);
}
