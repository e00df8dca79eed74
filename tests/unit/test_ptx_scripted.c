// Kernels of several blocks on the memory of scripted runs: which outcomes seeds find, and which
// accesses race.
#include "tests/unit/ptx_run.h"

#define SEEDS 400u
// Block 0 runs what follows, all others what follows OTHER.
#define BLOCKS                                                                                     \
  "mov.u32 %r1, %ctaid.x;\nsetp.ne.s32 %p1, %r1, 0;\nmov.u32 %r8, 1;\n@%p1 bra OTHER;\n"
// Keeps %r2 and %r3 of the block: words 8 and 9, or 10 and 11.
#define KEEP(n) "st.v2.u32 [%d0+" #n "], {%r2, %r3};\nret;\n"

static uint32_t races;
static char race[400];

static void race_count(void *arg, const struct ptx_accusation *accusation) {
  (void)arg;
  races++;
  ptx_accusation_text(accusation, race, sizeof race);
}

// Which of the two blocks runs next, a few instructions at a time.
static void blocks_run(struct ptx_block *blocks[2], uint64_t random) {
  enum ptx_state state[2] = {PTX_RUNS, PTX_RUNS};
  while (state[0] < PTX_DONE || state[1] < PTX_DONE) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const uint32_t n = (uint32_t)(random >> 33 & 1u);
    if (state[n] < PTX_DONE)
      state[n] = ptx_block_run(blocks[n], 1);
  }
  assert_int_equal(state[0], PTX_DONE);
  assert_int_equal(state[1], PTX_DONE);
}

// Runs both blocks with a seed, after the buffer was cleared.
static void script_run(const struct ptx_program *program, uint64_t seed) {
  const struct ptx_memory_options memory_options = {
      .seed = seed, .adversity = 50, .history = 8, .accuse = race_count};
  const struct ptx_options options = {.seed = seed};
  const uint64_t param = (uintptr_t)buffer;
  struct ptx_launch launch = {.program = program,
                              .kernel = ptx_program_kernel(program, "k"),
                              .params = &param,
                              .blocks = 2,
                              .threads = 1,
                              .shared_bytes = 16,
                              .options = &options};
  memset(buffer, 0, sizeof buffer);
  const struct ptx_range range = {.base = (uintptr_t)buffer,
                                  .bytes = sizeof buffer,
                                  .readers = 1,
                                  .writers = 1,
                                  .updaters = 1,
                                  .block = PTX_ANY_BLOCK,
                                  .name = "buffer"};
  launch.memory = ptx_memory_create(&memory_options);
  assert_int_equal(ptx_memory_range(launch.memory, &range), 0);
  const uint32_t by = ptx_memory_agent(launch.memory, PTX_CPU, 0, 1);
  struct ptx_block *blocks[2];
  struct ptx_place places[2];
  uint32_t agents[2];
  for (uint32_t n = 0; n < 2; n++) {
    agents[n] = ptx_memory_agent(launch.memory, 0, n, PTX_WARP);
    places[n] = (struct ptx_place){.block = n, .agents = &agents[n], .by = by};
    launch.place = &places[n];
    blocks[n] = ptx_block_create(&launch, n);
    assert_non_null(blocks[n]);
  }
  blocks_run(blocks, seed);
  ptx_block_destroy(blocks[0]);
  ptx_block_destroy(blocks[1]);
  ptx_memory_destroy(launch.memory);
}

// How many seeds end with these values in words 8 to 11.
static uint32_t outcome_count(const char *body, const uint32_t wanted[4]) {
  char text[2000], why[256];
  struct ptx_program *program;
  uint32_t count = 0;
  races = 0;
  snprintf(text, sizeof text, "%s%s%s", KERNEL_HEAD, body, KERNEL_TAIL);
  if (ptx_program_parse(text, &program, why, sizeof why))
    fail_msg("%s", why);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    script_run(program, seed);
    count += memcmp((const uint32_t *)buffer + 8, wanted, 4 * sizeof *wanted) == 0;
  }
  ptx_program_destroy(program);
  return count;
}

#define MESSAGE(store, load)                                                                       \
  BLOCKS "st.relaxed.gpu.u32 [%d0], %r8;\nst." store ".u32 [%d0+4], %r8;\nret;\n"                  \
         "OTHER:\nld." load ".u32 %r2, [%d0+4];\nld.relaxed.gpu.u32 %r3, [%d0];\n" KEEP(40)

static void a_message_may_pass_its_flag(void **state) {
  static const uint32_t flag_without_data[4] = {0, 0, 1, 0};
  (void)state;
  assert_true(outcome_count(MESSAGE("relaxed.gpu", "relaxed.gpu"), flag_without_data) > 0);
  assert_true(outcome_count(MESSAGE("release.gpu", "relaxed.gpu"), flag_without_data) > 0);
  assert_true(outcome_count(MESSAGE("relaxed.gpu", "acquire.gpu"), flag_without_data) > 0);
  assert_true(outcome_count(MESSAGE("release.cta", "acquire.cta"), flag_without_data) > 0);
  assert_int_equal(outcome_count(MESSAGE("release.gpu", "acquire.gpu"), flag_without_data), 0);
}

// Each block reads one word, and then writes the other: a load may be executed after a store.
static void loads_may_be_late(void **state) {
  static const uint32_t both[4] = {1, 0, 1, 0};
  (void)state;
  assert_true(outcome_count(BLOCKS
                            "mov.u32 %r3, 0;\nld.relaxed.gpu.u32 %r2, [%d0];\n"
                            "st.relaxed.gpu.u32 [%d0+4], %r8;\n" KEEP(
                                32) "OTHER:\nmov.u32 %r3, 0;\nld.relaxed.gpu.u32 %r2, [%d0+4];\n"
                                    "st.relaxed.gpu.u32 [%d0], %r8;\n" KEEP(40),
                            both) > 0);
  assert_int_equal(outcome_count(BLOCKS "mov.u32 %r3, 0;\nld.acquire.gpu.u32 %r2, [%d0];\n"
                                        "st.relaxed.gpu.u32 [%d0+4], %r8;\n" KEEP(
                                            32) "OTHER:\nmov.u32 %r3, 0;\n"
                                                "ld.acquire.gpu.u32 %r2, [%d0+4];\n"
                                                "st.relaxed.gpu.u32 [%d0], %r8;\n" KEEP(40),
                                 both),
                   0);
}

#define BUFFERED(fence)                                                                            \
  BLOCKS "mov.u32 %r3, 7;\nst.relaxed.gpu.u32 [%d0], %r8;\n" fence                                 \
         ";\nld.relaxed.gpu.u32 %r2, [%d0+4];\n" KEEP(                                             \
             32) "OTHER:\nmov.u32 %r3, 7;\nst.relaxed.gpu.u32 [%d0+4], %r8;\n" fence               \
                 ";\nld.relaxed.gpu.u32 %r2, [%d0];\n" KEEP(40)

static void only_fence_sc_orders_a_store_before_a_load(void **state) {
  static const uint32_t neither[4] = {0, 7, 0, 7};
  (void)state;
  assert_true(outcome_count(BUFFERED("fence.acq_rel.gpu"), neither) > 0);
  assert_int_equal(outcome_count(BUFFERED("fence.sc.gpu"), neither), 0);
}

// A weak store that a flag does not order races; one that a flag orders does not.
static void races_name_both_sides(void **state) {
  static const uint32_t any[4] = {0, 0, 0, 0};
  (void)state;
  (void)outcome_count(BLOCKS "st.u32 [%d0], %r8;\nret;\nOTHER:\nld.u32 %r2, [%d0];\nret;\n", any);
  assert_true(races > 0);
  assert_non_null(strstr(race, "k"));
  (void)outcome_count(BLOCKS "st.u32 [%d0], %r8;\nst.release.gpu.u32 [%d0+4], %r8;\nret;\n"
                             "OTHER:\nld.acquire.gpu.u32 %r2, [%d0+4];\nsetp.eq.s32 %p2, %r2, 0;\n"
                             "@%p2 bra OTHER;\nld.u32 %r2, [%d0];\n",
                      any);
  assert_int_equal(races, 0);
}

// Updates lose nothing, and barriers order the shared memory of a block.
static void updates_and_barriers_hold(void **state) {
  static const uint32_t sums[4] = {12, 0, 0, 0};
  (void)state;
  assert_int_equal(
      outcome_count("mov.u32 %r1, 6;\nLOOP:\natom.add.relaxed.gpu.u32 %r2, [%d0+32], 1;\n"
                    "sub.s32 %r1, %r1, 1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra LOOP;\n"
                    "st.shared.u32 [fast], 5;\nbar.sync 0;\nld.shared.u32 %r3, [fast];\n"
                    "setp.ne.s32 %p2, %r3, 5;\n@%p2 trap;\n",
                    sums),
      SEEDS);
  assert_int_equal(races, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_scripted", a_message_may_pass_its_flag),
      RONDO_NAMED_TEST("ptx_scripted", loads_may_be_late),
      RONDO_NAMED_TEST("ptx_scripted", only_fence_sc_orders_a_store_before_a_load),
      RONDO_NAMED_TEST("ptx_scripted", races_name_both_sides),
      RONDO_NAMED_TEST("ptx_scripted", updates_and_barriers_hold),
  };
  return cmocka_run_group_tests_name("ptx_scripted", tests, NULL, NULL);
}
