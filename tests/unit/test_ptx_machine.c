// The PTX machine: lanes that part and meet, barriers, memory of each state space, updates, and
// what the machine accuses.
#include "tests/unit/ptx_run.h"

// %d1: the word of the buffer that belongs to the thread.
#define OWN_WORD "mul.wide.u32 %d1, %r0, 8;\nadd.s64 %d1, %d1, %d0;\n"
#define SHARED_WINDOW "mov.u32 %r1, fast;\ncvt.u64.u32 %d2, %r1;\ncvta.shared.u64 %d3, %d2;\n"

static void buffer_clear(void) { memset(buffer, 0, sizeof buffer); }

// ----------------------------------------------------------------------- lanes --

static void lanes_part_and_meet(void **state) {
  (void)state;
  buffer_clear();
  // Each lane loops as often as its number says; odd ones then take another way.
  body_completes(OWN_WORD "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\n"
                          "LOOP:\nsetp.ge.u32 %p1, %r1, %r0;\n@%p1 bra OUT;\n"
                          "add.s32 %r2, %r2, %r1;\nadd.s32 %r1, %r1, 1;\nbra LOOP;\n"
                          "OUT:\nand.b32 %r3, %r0, 1;\nsetp.eq.s32 %p2, %r3, 0;\n"
                          "@!%p2 add.s32 %r2, %r2, 10000;\nst.u32 [%d1], %r2;\n",
                 50);
  for (uint32_t i = 0; i < 50; i++)
    assert_int_equal(buffer[i], i * (i - 1) / 2 * (i > 0) + i % 2 * 10000);
}

static void guards_hold_for_any_instruction(void **state) {
  (void)state;
  buffer_clear();
  body_completes(OWN_WORD "setp.lt.u32 %p1, %r0, 5;\nmov.u32 %r1, 1;\n@%p1 mov.u32 %r1, 2;\n"
                          "setp.gt.u32 %p2, %r0, 20;\n@%p2 exit;\n@!%p1 st.u32 [%d1], %r1;\n"
                          "@%p1 st.u32 [%d1+4], %r1;\n",
                 32);
  for (uint32_t i = 0; i < 32; i++)
    assert_int_equal(buffer[i], i < 5 ? UINT64_C(2) << 32 : i > 20 ? 0 : 1);
}

// A lane that spins for another one of its warp, at a lower and at a higher address than it.
static void no_lane_starves(void **state) {
  (void)state;
  for (int is_first = 0; is_first < 2; is_first++) {
    char body[600];
    buffer_clear();
    snprintf(
        body, sizeof body,
        "setp.%s.s32 %%p1, %%r0, 0;\n@%%p1 bra WRITE;\n"
        "SPIN:\nld.relaxed.sys.u32 %%r1, [%%d0];\nsetp.eq.s32 %%p2, %%r1, 0;\n@%%p2 bra SPIN;\n"
        "bra END;\nWRITE:\nst.relaxed.sys.u32 [%%d0], 1;\nEND:\n",
        is_first ? "eq" : "ne");
    body_completes(body, 32);
  }
}

// The order of warps and lanes by seed: sums are the same, however lanes are split.
static void seeds_change_only_the_order(void **state) {
  (void)state;
  uint64_t orders[2] = {0, 0};
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const struct ptx_run_shape shape = {.threads = 128, .options = {.seed = seed}};
    buffer_clear();
    const struct ptx_run_result r = body_run(
        "mov.u32 %r1, 0;\nLOOP:\natom.add.relaxed.gpu.u32 %r2, [%d0], 1;\nadd.s32 %r1, %r1, 1;\n"
        "setp.lt.u32 %p1, %r1, 10;\n@%p1 bra LOOP;\nbar.sync 0;\nsetp.ne.s32 %p2, %r0, 77;\n"
        "@%p2 bra END;\nld.u32 %r3, [%d0];\nst.v2.u32 [%d0+8], {%r2, %r3};\nEND:\n",
        &shape);
    if (r.state != PTX_DONE)
      fail_msg("seed %u: %s", (unsigned)seed, r.line);
    assert_int_equal(buffer[0], 1280);
    assert_int_equal(buffer[1] >> 32, 1280);
    orders[(buffer[1] & 0xffffffff) % 2]++;
  }
  assert_true(orders[0] && orders[1]);
}

static void instructions_are_counted(void **state) {
  (void)state;
  const struct ptx_run_shape shape = {.threads = 33};
  assert_int_equal(body_run("mov.u32 %r1, 0;\n", &shape).steps, 33 * 4);
}

#define PAUSE_NS 100000u

// With a seed a pause of t ns lasts between 0 and 2 t; without one it lasts 0.
static void pauses_last_up_to_twice_their_time(void **state) {
  uint64_t shortest = UINT64_MAX, longest = 0;
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const struct ptx_run_shape shape = {.threads = 1, .options = {.seed = seed}};
    const struct ptx_run_result r =
        body_run("mov.u64 %d1, %globaltimer;\nmov.u32 %r1, 100000;\nnanosleep.u32 %r1;\n"
                 "mov.u64 %d2, %globaltimer;\nsub.s64 %d2, %d2, %d1;\nst.u64 [%d0], %d2;\n",
                 &shape);
    assert_int_equal(r.state, PTX_DONE);
    shortest = buffer[0] < shortest ? buffer[0] : shortest;
    longest = buffer[0] > longest ? buffer[0] : longest;
  }
  assert_true(shortest < PAUSE_NS && longest > PAUSE_NS);
}

// globaltimer moves in steps of so many nanoseconds.
static void the_timer_has_its_step(void **state) {
  static const uint32_t steps[] = {0, 32, 1000};
  (void)state;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    const struct ptx_run_shape shape = {.threads = 1, .options = {.timer_step_ns = steps[i]}};
    const struct ptx_run_result r =
        body_run("mov.u64 %d1, %globaltimer;\nst.u64 [%d0], %d1;\n", &shape);
    assert_int_equal(r.state, PTX_DONE);
    assert_true(buffer[0] != 0 && buffer[0] % (steps[i] ? steps[i] : 32) == 0);
  }
}

// -------------------------------------------------------------------- barriers --

// Each thread writes its word of shared memory, and reads its neighbour's after the barrier.
static void neighbour_read(const char *barrier, uint32_t threads) {
  static const char before[] =
      OWN_WORD "mov.u32 %r1, fast;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
               "st.shared.u32 [%r3], %r0;\n";
  static const char after[] =
      "mov.u32 %r4, %ntid.x;\nadd.s32 %r5, %r0, 1;\nrem.u32 %r5, %r5, %r4;\n"
      "shl.b32 %r5, %r5, 2;\nadd.s32 %r5, %r5, %r1;\nld.shared.u32 %r6, [%r5];\n"
      "st.u32 [%d1], %r6;\n";
  char body[1000];
  const struct ptx_run_shape shape = {.threads = threads, .shared_bytes = 4 * threads};
  snprintf(body, sizeof body, "%s%s\n%s", before, barrier, after);
  buffer_clear();
  const struct ptx_run_result r = body_run(body, &shape);
  if (r.state != PTX_DONE)
    fail_msg("%s", r.line);
  for (uint32_t i = 0; i < threads; i++)
    assert_int_equal(buffer[i], (i + 1) % threads);
}

static void barriers_order_shared_memory(void **state) {
  (void)state;
  neighbour_read("bar.sync 0;", 512);
  neighbour_read("barrier.cta.sync 3, 96;", 96);
  neighbour_read("mov.u32 %r7, 5;\nmov.u32 %r8, 32;\nbarrier.sync.aligned %r7, %r8;\n", 32);
}

// A barrier that is not aligned: one lane of the first warp is left, and counts as a warp.
static void a_lone_lane_counts_as_its_warp(void **state) {
  (void)state;
  buffer_clear();
  body_completes(
      "setp.gt.u32 %p1, %r0, 31;\n@%p1 bra OTHERS;\nsetp.ne.s32 %p2, %r0, 0;\n@%p2 ret;\n"
      "mov.u32 %r1, fast;\nst.shared.u32 [%r1], 42;\nbarrier.cta.sync 1, 96;\nret;\n"
      "OTHERS:\nbarrier.cta.sync 1, 96;\nmov.u32 %r1, fast;\nld.shared.u32 %r2, [%r1];\n"
      "mul.wide.u32 %d1, %r0, 8;\nadd.s64 %d1, %d1, %d0;\nst.u32 [%d1], %r2;\n",
      96);
  for (uint32_t i = 0; i < 96; i++)
    assert_int_equal(buffer[i], i < 32 ? 0 : 42);
}

// bar.sync without a count expects the warps that have not ended.
static void ended_warps_are_not_awaited(void **state) {
  (void)state;
  buffer_clear();
  body_completes("setp.lt.u32 %p1, %r0, 32;\n@%p1 bra LATE;\nbar.sync 0;\nst.u32 [%d0], 1;\nret;\n"
                 "LATE:\nmov.u32 %r1, 0;\nWAIT:\nadd.s32 %r1, %r1, 1;\n"
                 "setp.lt.u32 %p2, %r1, 30000;\n@%p2 bra WAIT;\n",
                 96);
  assert_int_equal(buffer[0], 1);
}

// ---------------------------------------------------------------------- memory --

static void loads_and_stores_have_every_width(void **state) {
  (void)state;
  buffer_clear();
  buffer[0] = 0x8182838485868788;
  body_completes("ld.u8 %h1, [%d0];\nld.s8 %h2, [%d0+1];\nld.u16 %r1, [%d0+2];\n"
                 "ld.s16 %r2, [%d0+4];\nld.s32 %d1, [%d0+4];\nld.global.v2.u16 {%h3, _}, [%d0];\n"
                 "st.u16 [%d0+8], %h1;\nst.u16 [%d0+10], %h2;\nst.v2.u32 [%d0+16], {%r1, %r2};\n"
                 "st.u64 [%d0+24], %d1;\nst.u8 [%d0+32], %r1;\nst.u16 [%d0+34], %h3;\n",
                 1);
  const uint64_t wanted[] = {0x8182838485868788, 0xff870088, 0xffff838400008586, 0xffffffff81828384,
                             0x87880086};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

static void vectors_keep_their_order(void **state) {
  (void)state;
  buffer_clear();
  buffer[0] = 0x200000001;
  buffer[1] = 0x400000003;
  body_completes(
      "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];\n"
      "st.volatile.global.v2.u64 [%d0+32], {%d0, %d0};\n"
      "st.global.v4.u32 [%d0+16], {%r4, %r3, %r2, %r1};\nld.v2.u64 {%d1, %d2}, [%d0+16];\n"
      "st.shared.v2.u64 [fast+16], {%d1, %d2};\nld.shared.v2.u64 {%d3, %d4}, [fast+16];\n"
      "st.v2.u64 [%d0+48], {%d4, %d3};\n",
      1);
  const uint64_t own = (uintptr_t)buffer;
  const uint64_t wanted[] = {0x200000001, 0x400000003, 0x300000004, 0x100000002,
                             own,         own,         0x100000002, 0x300000004};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

// Shared memory by generic addresses, and which addresses are shared.
static void shared_memory_has_a_window(void **state) {
  (void)state;
  buffer_clear();
  body_completes(SHARED_WINDOW
                 "st.u32 [%d3+12], 7;\nld.shared.u32 %r2, [fast+12];\nst.u32 [%d0], %r2;\n"
                 "cvta.to.shared.u64 %d4, %d3;\nsetp.eq.b64 %p1, %d4, %d2;\n"
                 "isspacep.shared %p2, %d3;\nisspacep.shared %p3, %d0;\nselp.u32 %r3, 1, 0, %p1;\n"
                 "selp.u32 %r4, 1, 0, %p2;\nselp.u32 %r5, 1, 0, %p3;\n"
                 "st.v2.u32 [%d0+8], {%r3, %r4};\nst.u32 [%d0+16], %r5;\n",
                 1);
  const uint64_t wanted[] = {7, 0x100000001, 0};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

static void updates_are_atomic(void **state) {
  (void)state;
  buffer_clear();
  buffer[1] = UINT64_MAX;
  buffer[3] = 100;
  body_completes(
      "mov.u32 %r9, 1;\ncvt.u64.u32 %d5, %r0;\natom.global.add.u32 %r1, [%d0], %r9;\n"
      "atom.and.relaxed.gpu.b64 %d2, [%d0+8], %d5;\nred.or.relaxed.sys.global.b32 [%d0+16], %r0;\n"
      "atom.cas.acq_rel.sys.b64 %d3, [%d0+24], 100, 200;\natom.exch.acquire.sys.b64 %d4, [%d0+32], "
      "%d5;\n"
      "atom.max.s32 %r2, [%d0+40], %r0;\natom.min.s32 %r2, [%d0+48], -5;\n"
      "atom.xor.b32 _, [%d0+56], %r0;\n",
      32);
  const uint64_t wanted[] = {32, 0, 31, 200, 31, 31, 0xfffffffb, 0};
  assert_memory_equal(buffer, wanted, sizeof wanted);
}

// ----------------------------------------------------------------- accusations --

#define SPIN "SPIN:\nadd.s32 %r1, %r0, 1;\nbra SPIN;\n"

static const struct offence {
  const char *body, *says;
  uint32_t threads;
  bool is_checked;
} offences[] = {
    {"ld.u32 %r1, [%d0+2];\n", "uses 4 bytes at 0x", 1, false},
    {"ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+8];\n", "uses 16 bytes at 0x", 1, false},
    {"add.s64 %d1, %d0, 32768;\nld.u32 %r1, [%d1];\n", "reads 4 bytes at 0x", 1, false},
    {"add.s64 %d1, %d0, 32760;\nld.v2.u64 {%d2, %d3}, [%d1+8];\n", "reads 16 bytes at 0x", 1,
     false},
    {"st.u64 [%d0+24576], %d0;\n", "writes 8 bytes at 0x", 1, false},
    {"atom.add.u32 %r1, [%d0+24576], 1;\n", "writes 4 bytes at 0x", 1, false},
    {"mov.u64 %d1, 0;\nld.u32 %r1, [%d1];\n", "reads 4 bytes at 0x0 of memory", 1, false},
    {"ld.shared.u32 %r1, [fast+256];\n", "reads 4 bytes at 0x500 of shared memory", 1, false},
    {"mov.u32 %r1, 0;\nld.shared.u32 %r1, [%r1];\n", "reads 4 bytes at 0x0 of shared", 1, false},
    {"ld.param.u32 %r1, [k_0+8];\n", "reads 4 bytes at 0x8 of the parameters", 1, false},
    {SHARED_WINDOW "ld.global.u32 %r2, [%d3];\n", "reads 4 bytes at 0x", 1, false},
    {"rem.u32 %r1, %r0, %r0;\n", "thread 0, PTX line 15: divides by zero", 5, false},
    {"mov.u64 %d1, 0;\ndiv.s64 %d2, %d0, %d1;\n", "divides by zero", 1, false},
    {"trap;\n", "traps", 1, false},
    {SPIN, "PTX line 15: has executed 60000 instructions", 1, false},
    {"setp.eq.s32 %p1, %r0, 40;\n@%p1 bra SPIN;\nret;\n" SPIN, "thread 40", 64, false},
    {"bar.sync 16;\n", "uses a barrier whose number is above 15", 1, false},
    {"bar.sync 1, 40;\n", "in threads that are no multiple of 32", 64, false},
    {"bar.sync 1, 128;\n", "for more threads than the block has", 64, false},
    {"setp.lt.u32 %p1, %r0, 32;\n@%p1 bra A;\nbar.sync 1, 64;\nret;\nA:\nbar.sync 2, 64;\n",
     "waits at barrier 2 for 64 threads, and 32 have come", 64, false},
    {"setp.lt.u32 %p1, %r0, 32;\n@%p1 ret;\nbar.sync 1, 64;\n",
     "waits at barrier 1 for 64 threads, and 32 have come", 64, false},
    {"setp.lt.u32 %p1, %r0, 32;\n@%p1 bra A;\nbar.sync 1, 64;\nret;\nA:\nbar.sync 1, 96;\n",
     "waits at barrier 1 for 64 threads, where others wait for 96", 96, false},
    {"setp.lt.u32 %p1, %r0, 7;\n@%p1 bra A;\nbar.sync 1;\nret;\nA:\nbar.sync 1;\n",
     "executes an aligned barrier that not all lanes of its warp execute", 32, false},
    {"setp.lt.u32 %p1, %r0, 7;\n@%p1 bra A;\nbarrier.sync 1;\nret;\nA:\nbarrier.sync 2;\n",
     "no other can run", 32, false},
    // Values that were never written.
    {"ld.u32 %r1, [%d5];\n", "uses a value that was never written as an address", 1, true},
    {"st.u32 [%d0], %r5;\n", "uses a value that was never written as a value to store", 1, true},
    {"atom.add.u32 %r1, [%d0], %r5;\n", "never written in an atomic update", 1, true},
    {"@%p5 bra A;\nA:\n", "uses a value that was never written to branch", 1, true},
    {"setp.eq.s32 %p1, %r5, 1;\n@%p1 bra A;\nA:\n", "never written to branch", 1, true},
    {"ld.shared.u32 %r1, [fast];\nst.u32 [%d0], %r1;\n", "never written as a value to store", 1,
     true},
    {"st.shared.u16 [fast], 5;\nld.shared.u32 %r1, [fast];\nst.u32 [%d0], %r1;\n",
     "never written as a value to store", 1, true},
    {"setp.lt.u32 %p1, %r0, 9;\n@%p1 mov.u32 %r5, 1;\nadd.s32 %r6, %r5, 1;\nst.u32 [%d0], %r6;\n",
     "thread 9, ", 32, true},
    {"barrier.sync 1, %r5;\n", "never written to wait at a barrier", 32, true},
};

static void offences_are_accused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof offences / sizeof *offences; i++) {
    const struct offence *o = &offences[i];
    const struct ptx_run_shape shape = {
        .threads = o->threads,
        .shared_bytes = 256,
        .options = {.is_checked = o->is_checked, .idle_limit = 50000}};
    const struct ptx_run_result r = body_run(o->body, &shape);
    if (r.state != PTX_FAILED || !strstr(r.line, o->says) ||
        strncmp(r.line, "k, block 0, ", 12) != 0)
      fail_msg("%s\"%s\" instead of \"%s\"", o->body, r.line, o->says);
  }
}

static void accusations_name_the_source(void **state) {
  (void)state;
  const struct ptx_run_shape shape = {.threads = 40, .block = 1};
  const struct ptx_run_result r =
      text_run(".file 1 \"/src/kernel.cu\"\n" KERNEL_HEAD ".loc 1 33 2\nsetp.eq.s32 %p1, %r0, 35;\n"
               ".loc 1 34 2\n@%p1 trap;\n" KERNEL_TAIL,
               &shape);
  assert_int_equal(r.state, PTX_FAILED);
  assert_string_equal(r.line, "k, block 1, thread 35, /src/kernel.cu:34, PTX line 19: traps");
}

// What is written is not accused: registers, shared memory, and both through each other.
static void written_values_are_not_accused(void **state) {
  (void)state;
  const struct ptx_run_shape shape = {
      .threads = 64, .shared_bytes = 256, .options = {.is_checked = true}};
  buffer_clear();
  const struct ptx_run_result r = body_run(
      OWN_WORD "mov.u32 %r1, fast;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r2, %r2, %r1;\n"
               "st.shared.u32 [%r2], %r0;\nbarrier.cta.sync 2, 64;\nxor.b32 %r3, %r2, 4;\n"
               "ld.shared.u32 %r4, [%r3];\nsetp.lt.u32 %p1, %r4, 10;\n@%p1 add.s32 %r4, %r4, 100;\n"
               "mov.b64 %d2, {%r4, %r0};\nst.u64 [%d1], %d2;\nld.u64 %d3, [%d1];\n"
               "setp.eq.s64 %p2, %d3, %d2;\n@!%p2 trap;\n",
      &shape);
  if (r.state != PTX_DONE)
    fail_msg("%s", r.line);
  for (uint32_t i = 0; i < 64; i++)
    assert_int_equal(buffer[i] & 0xffffffff, (i ^ 1) < 10 ? (i ^ 1) + 100 : i ^ 1);
}

static void blocks_of_bad_shapes_are_not_made(void **state) {
  (void)state;
  struct ptx_program *program;
  char why[256];
  assert_int_equal(
      ptx_program_parse(".entry k() .maxntid 64, 1, 1 { ret; }", &program, why, sizeof why), 0);
  const struct ptx_options options = {.seed = 0};
  struct ptx_launch launch = {.program = program,
                              .kernel = ptx_program_kernel(program, "k"),
                              .blocks = 1,
                              .threads = 65,
                              .options = &options};
  assert_null(ptx_block_create(&launch, 0));
  launch.threads = 0;
  assert_null(ptx_block_create(&launch, 0));
  launch.threads = 64;
  assert_int_equal(ptx_launch_run_block(&launch, 0), PTX_DONE);
  ptx_program_destroy(program);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_machine", lanes_part_and_meet),
      RONDO_NAMED_TEST("ptx_machine", guards_hold_for_any_instruction),
      RONDO_NAMED_TEST("ptx_machine", no_lane_starves),
      RONDO_NAMED_TEST("ptx_machine", seeds_change_only_the_order),
      RONDO_NAMED_TEST("ptx_machine", instructions_are_counted),
      RONDO_NAMED_TEST("ptx_machine", pauses_last_up_to_twice_their_time),
      RONDO_NAMED_TEST("ptx_machine", the_timer_has_its_step),
      RONDO_NAMED_TEST("ptx_machine", barriers_order_shared_memory),
      RONDO_NAMED_TEST("ptx_machine", a_lone_lane_counts_as_its_warp),
      RONDO_NAMED_TEST("ptx_machine", ended_warps_are_not_awaited),
      RONDO_NAMED_TEST("ptx_machine", loads_and_stores_have_every_width),
      RONDO_NAMED_TEST("ptx_machine", vectors_keep_their_order),
      RONDO_NAMED_TEST("ptx_machine", shared_memory_has_a_window),
      RONDO_NAMED_TEST("ptx_machine", updates_are_atomic),
      RONDO_NAMED_TEST("ptx_machine", offences_are_accused),
      RONDO_NAMED_TEST("ptx_machine", accusations_name_the_source),
      RONDO_NAMED_TEST("ptx_machine", written_values_are_not_accused),
      RONDO_NAMED_TEST("ptx_machine", blocks_of_bad_shapes_are_not_made),
  };
  return cmocka_run_group_tests_name("ptx_machine", tests, NULL, NULL);
}
