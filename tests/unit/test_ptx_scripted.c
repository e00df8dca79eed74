// Kernels of several blocks on the memory of scripted runs: which outcomes seeds find, and which
// accesses race.
#include "tests/unit/ptx_script.h"

#define SEEDS 400u

// The outcome that is counted: words 8 to 11.
static uint32_t wanted[4];

static bool is_wanted(const uint32_t *words) {
  return memcmp(words + 8, wanted, sizeof wanted) == 0;
}

// How many seeds end with these values in words 8 to 11.
static uint32_t outcome_count(const char *body, const uint32_t values[4]) {
  static const struct script_shape two = {.blocks = 2, .threads = 1, .seeds = SEEDS};
  memcpy(wanted, values, sizeof wanted);
  return outcomes_count(body, &two, is_wanted);
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

// ----------------------------------------------------------------------- vectors --

#define RECEIVED 64u // word of the buffer at which the reader keeps what it has read

static uint32_t patterns; // which of the words of a vector were new, a bit for each case

static bool pattern_note(const uint32_t *words) {
  uint32_t pattern = 0;
  for (uint32_t i = 0; i < 4; i++)
    pattern |= (words[RECEIVED + i] != 0) << i;
  patterns |= 1u << pattern;
  return false;
}

// Some seed finds each set of elements that have arrived.
static void elements_of_vectors_arrive_in_any_order(void **state) {
  static const struct script_shape two = {.blocks = 2, .threads = 1, .seeds = 4000};
  (void)state;
  patterns = 0;
  (void)outcomes_count(BLOCKS "st.volatile.v4.u32 [%d0], {%r8, %r8, %r8, %r8};\nret;\nOTHER:\n"
                              "ld.volatile.v4.u32 {%r2, %r3, %r4, %r5}, [%d0];\n"
                              "st.v4.u32 [%d0+256], {%r2, %r3, %r4, %r5};\n",
                       &two, pattern_note);
  assert_int_equal(patterns, 0xffff);
  patterns = 0;
  (void)outcomes_count(BLOCKS "mov.u64 %d2, -1;\nst.volatile.v2.u64 [%d0], {%d2, %d2};\nret;\n"
                              "OTHER:\nld.volatile.v2.u64 {%d2, %d3}, [%d0];\n"
                              "st.v2.u64 [%d0+256], {%d2, %d3};\n",
                       &two, pattern_note);
  assert_int_equal(patterns, 1u << 0 | 1u << 3 | 1u << 12 | 1u << 15);
}

#define PACKET_WORDS 32u // of 128 bytes, which eight lanes send

static uint32_t packets_new, packets_old;

static bool packet_is_torn(const uint32_t *words) {
  uint32_t arrived = 0;
  for (uint32_t i = 0; i < PACKET_WORDS; i++)
    arrived += words[RECEIVED + i] != 0;
  packets_new += arrived == PACKET_WORDS;
  packets_old += arrived == 0;
  return arrived && arrived < PACKET_WORDS;
}

// Each lane has 16 bytes, as those of NVIDIA's LL128.
static const char packet[] =
    BLOCKS "mul.wide.u32 %d1, %r0, 16;\nadd.s64 %d1, %d1, %d0;\nmov.u64 %d2, -1;\n"
           "st.volatile.v2.u64 [%d1], {%d2, %d2};\nret;\nOTHER:\n"
           "mul.wide.u32 %d1, %r0, 16;\nadd.s64 %d1, %d1, %d0;\n"
           "ld.volatile.v2.u64 {%d2, %d3}, [%d1];\nst.v2.u64 [%d1+256], {%d2, %d3};\n";

static void a_packet_of_128_bytes_is_whole_in_the_mode_warp128(void **state) {
  (void)state;
  for (int warp128 = 0; warp128 < 2; warp128++) {
    const struct script_shape shape = {
        .blocks = 2, .threads = 8, .seeds = SEEDS, .warp128 = warp128};
    packets_new = packets_old = 0;
    const uint32_t torn = outcomes_count(packet, &shape, packet_is_torn);
    assert_int_equal(torn == 0, warp128);
    assert_true(!warp128 || (packets_new && packets_old));
  }
}

// Fewer than all of the 128 bytes are several accesses in every mode.
static void less_than_128_bytes_is_torn_in_every_mode(void **state) {
  static const struct script_shape seven = {
      .blocks = 2, .threads = 7, .seeds = SEEDS, .warp128 = true};
  (void)state;
  patterns = 0;
  (void)outcomes_count(packet, &seven, pattern_note);
  assert_int_equal(patterns, 1u << 0 | 1u << 3 | 1u << 12 | 1u << 15);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ptx_scripted", a_message_may_pass_its_flag),
      RONDO_NAMED_TEST("ptx_scripted", loads_may_be_late),
      RONDO_NAMED_TEST("ptx_scripted", only_fence_sc_orders_a_store_before_a_load),
      RONDO_NAMED_TEST("ptx_scripted", races_name_both_sides),
      RONDO_NAMED_TEST("ptx_scripted", updates_and_barriers_hold),
      RONDO_NAMED_TEST("ptx_scripted", elements_of_vectors_arrive_in_any_order),
      RONDO_NAMED_TEST("ptx_scripted", a_packet_of_128_bytes_is_whole_in_the_mode_warp128),
      RONDO_NAMED_TEST("ptx_scripted", less_than_128_bytes_is_torn_in_every_mode),
  };
  return cmocka_run_group_tests_name("ptx_scripted", tests, NULL, NULL);
}
