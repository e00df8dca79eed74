// The meter of the PTX machine: counts that are known by hand, and chains of accesses.
#include "tests/unit/ptx_run.h"

#define AT_PEER "16384" // bytes of the buffer
#define AFTER_PEER "16392"
#define AT_HOST "24576"
#define AFTER_HOST "24584"
#define PEER_WORD (16384u / 8)
#define HOST_WORD (24576u / 8)

static struct ptx_meter *meter;

// The first half of the buffer is memory of device 0, then comes memory of device 1, then of the
// host. `arg` is of text_run.
static uint32_t device;
static bool places_find(void *arg, uint64_t address, struct ptx_span *span) {
  const uint64_t begin = (uintptr_t)buffer, offset = address - begin;
  (void)arg;
  if (offset >= sizeof buffer)
    return false;
  const uint64_t from = offset < 16384 ? 0 : offset < 24576 ? 16384 : 24576;
  const uint64_t to = from == 0 ? 16384 : from == 16384 ? 24576 : sizeof buffer;
  *span = (struct ptx_span){begin + from, begin + to, true,
                            from == 24576               ? PTX_AT_HOST
                            : (from == 16384) == device ? PTX_AT_OWN
                                                        : PTX_AT_PEER};
  return true;
}

static void body_meter(const char *body, uint32_t threads) {
  const struct ptx_run_shape shape = {
      .threads = threads,
      .shared_bytes = 256,
      .options = {.find_span = places_find, .meter = meter, .meter_device = device}};
  const struct ptx_run_result r = body_run(body, &shape);
  if (r.state != PTX_DONE)
    fail_msg("%s", r.line);
}

static struct ptx_counts counts_of(uint32_t role) {
  struct ptx_counts counts;
  ptx_meter_read(meter, device, role, &counts);
  return counts;
}

static int meter_open(void **state) {
  (void)state;
  device = 0;
  memset(buffer, 0, sizeof buffer);
  meter = ptx_meter_create();
  assert_non_null(meter);
  ptx_meter_begin(meter);
  return 0;
}

static int meter_close(void **state) {
  (void)state;
  ptx_meter_destroy(meter);
  return 0;
}

static struct ptx_chain chain_of(const char *body, uint32_t threads) {
  ptx_meter_begin(meter);
  body_meter(body, threads);
  struct ptx_chain first = counts_of(0).chain, second = counts_of(1).chain;
  return first.all > second.all ? first : second;
}

// ---------------------------------------------------------------------- counts --

static void instructions_are_counted(void **state) {
  uint32_t total = 0;
  (void)state;
  // Three of the head and the tail. The loop has three instructions and runs five times.
  body_meter("mov.u32 %r1, 0;\nLOOP:\nadd.s32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 5;\n"
             "@%p1 bra LOOP;\nsetp.ne.s32 %p2, %r0, 77;\n@%p2 bra END;\nmov.u32 %r2, 1;\nEND:\n",
             33);
  assert_int_equal(counts_of(0).warp_instructions, 3 + 1 + 15 + 2);
  assert_int_equal(counts_of(0).lane_instructions, 32 * (3 + 1 + 15 + 2));
  assert_int_equal(counts_of(1).warp_instructions, 3 + 1 + 15 + 2);
  assert_int_equal(counts_of(1).lane_instructions, 3 + 1 + 15 + 2);
  assert_int_equal(ptx_meter_touched(meter, &total), 3 + 1 + 3 + 2);
  assert_int_equal(total, 3 + 1 + 3 + 3 + 1); // the end of the text ends lanes too
  ptx_meter_begin(meter);
  assert_int_equal(counts_of(0).warp_instructions, 0);
  assert_int_equal(ptx_meter_touched(meter, &total), 0);
}

static void the_last_of_three_warps_counts_apart(void **state) {
  (void)state;
  body_meter("st.relaxed.sys.u64 [%d0+" AT_PEER "], %d0;\n", 2 * 32 + 3);
  assert_int_equal(counts_of(0).accesses[PTX_AT_PEER][PTX_A_STORE], 32);
  assert_int_equal(counts_of(PTX_METER_OTHERS).accesses[PTX_AT_PEER][PTX_A_STORE], 32);
  assert_int_equal(counts_of(PTX_METER_LAST).accesses[PTX_AT_PEER][PTX_A_STORE], 3);
}

static void barriers_and_fences_are_counted(void **state) {
  (void)state;
  body_meter("bar.sync 0;\nfence.acq_rel.cta;\nfence.acq_rel.sys;\nfence.sc.sys;\n"
             "fence.acq_rel.gpu;\nbar.sync 0;\nmov.u32 %r1, 1;\n",
             64);
  assert_int_equal(counts_of(0).barriers, 2);
  assert_int_equal(counts_of(1).barriers, 0);
  for (uint32_t role = 0; role < 2; role++) {
    assert_int_equal(counts_of(role).fences[PTX_CTA], 32);
    assert_int_equal(counts_of(role).fences[PTX_GPU], 32);
    assert_int_equal(counts_of(role).fences[PTX_SYS], 64);
  }
}

static void accesses_are_counted_by_place(void **state) {
  (void)state;
  body_meter("mov.u32 %r1, fast;\nst.shared.u32 [%r1], %r0;\nld.shared.v2.u32 {%r2, %r3}, [%r1];\n"
             "ld.u64 %d1, [%d0];\nst.v2.u64 [%d0+16], {%d1, %d1};\n"
             "ld.v4.u32 {%r2, %r3, %r4, %r5}, [%d0+" AT_PEER "];\nst.u32 [%d0+" AT_PEER "], %r2;\n"
             "st.u16 [%d0+" AT_PEER "], %h1;\nld.u8 %h1, [%d0+" AT_HOST "];\n"
             "atom.add.relaxed.gpu.u32 %r6, [%d0], 1;\nred.add.relaxed.sys.u64 [%d0+" AT_PEER
             "], %d1;\n",
             3);
  const struct ptx_counts c = counts_of(0);
  const uint64_t accesses[PTX_AT_COUNT][PTX_WHAT_COUNT] = {
      {3, 3, 3}, {3, 3, 0}, {3, 6, 3}, {3, 0, 0}};
  const uint64_t bytes[PTX_AT_COUNT][PTX_WHAT_COUNT] = {
      {24, 48, 12}, {24, 12, 0}, {48, 18, 24}, {3, 0, 0}};
  assert_memory_equal(c.accesses, accesses, sizeof accesses);
  assert_memory_equal(c.bytes, bytes, sizeof bytes);
}

// Three loads of 16 and one of 8 bytes, of which a thread waits for the second one.
static void loads_in_flight_are_counted(void **state) {
  (void)state;
  body_meter("ld.v4.u32 {%r1, %r2, %r3, %r4}, [%d0];\nld.v2.u64 {%d1, %d2}, [%d0+16];\n"
             "add.s64 %d3, %d1, 1;\nld.v4.u32 {%r5, %r6, %r7, %r8}, [%d0+" AT_PEER "];\n"
             "ld.u64 %d4, [%d0+32];\nadd.s64 %d4, %d4, %d3;\n",
             2);
  assert_int_equal(counts_of(0).in_flight, 2 * 32);
  ptx_meter_begin(meter);
  body_meter("mov.u32 %r1, fast;\nst.shared.u32 [%r1], %r0;\nld.shared.u32 %r2, [%r1];\n"
             "ld.u64 %d1, [%d0];\nadd.s64 %d1, %d1, 1;\nld.u64 %d1, [%d0+8];\n",
             1);
  assert_int_equal(counts_of(0).in_flight, 8);
}

static void polls_in_vain_are_counted(void **state) {
  (void)state;
  // The sixth look finds what the thread itself has written.
  const struct ptx_chain c = chain_of(
      "mov.u32 %r1, 0;\nLOOP:\nadd.s32 %r1, %r1, 1;\nsetp.ne.s32 %p1, %r1, 6;\n"
      "@%p1 bra LOOK;\nst.relaxed.sys.u32 [%d0+" AT_HOST "], %r1;\nLOOK:\n"
      "ld.relaxed.sys.u32 %r2, [%d0+" AT_HOST "];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra LOOP;\n",
      1);
  assert_int_equal(counts_of(0).accesses[PTX_AT_HOST][PTX_A_LOAD], 6);
  assert_int_equal(counts_of(0).polls[PTX_AT_HOST], 4);
  assert_int_equal(c.host_loads, 2);
}

static void polls_of_a_queue_are_counted_apart(void **state) {
  (void)state;
  const char *text = "mov.u32 %r1, 0;\nLOOP:\nadd.s32 %r1, %r1, 1;\n"
                     "ld.relaxed.sys.u32 %r2, [%d0+" AT_HOST "];\n"
                     "ld.relaxed.sys.u32 %r3, [%d0+" AFTER_HOST "];\n"
                     "setp.ne.s32 %p1, %r1, 6;\n@%p1 bra LOOP;\n";
  ptx_meter_set_queue(meter, 0, (uintptr_t)buffer + 24576 + 8, 4);
  (void)chain_of(text, 1);
  assert_int_equal(counts_of(0).polls[PTX_AT_HOST], 10);
  assert_int_equal(counts_of(0).queue_polls, 5);
  ptx_meter_set_queue(meter, 0, 0, 0);
  (void)chain_of(text, 1);
  assert_int_equal(counts_of(0).queue_polls, 0);
}

// A second word that is read in vain with the first, and once more after the first has changed.
static void a_look_after_news_is_no_poll_in_vain(void **state) {
  (void)state;
  const struct ptx_chain c =
      chain_of("mov.u32 %r1, 0;\nLOOP:\nadd.s32 %r1, %r1, 1;\nsetp.ne.s32 %p1, %r1, 6;\n"
               "@%p1 bra LOOK;\nst.relaxed.sys.u32 [%d0+" AT_HOST "], %r1;\nLOOK:\n"
               "ld.relaxed.sys.u32 %r2, [%d0+" AT_HOST "];\nld.u32 %r3, [%d0+" AT_PEER "];\n"
               "setp.ne.s32 %p3, %r3, 0;\n@%p3 bra END;\n"
               "setp.eq.s32 %p2, %r2, 0;\n@%p2 bra LOOP;\nEND:\n",
               1);
  assert_int_equal(counts_of(0).polls[PTX_AT_HOST], 4);
  assert_int_equal(counts_of(0).polls[PTX_AT_PEER], 4);
  assert_int_equal(c.host_loads, 2);
  assert_int_equal(c.peer, 2);
}

// ---------------------------------------------------------------------- chains --

static void loads_that_wait_for_each_other_are_a_chain(void **state) {
  (void)state;
  buffer[PEER_WORD] = (uintptr_t)&buffer[PEER_WORD + 1];
  assert_int_equal(chain_of("ld.u64 %d1, [%d0+" AT_PEER "];\nld.u64 %d2, [%d0+" AFTER_PEER
                            "];\nadd.s64 %d3, %d1, %d2;\n",
                            1)
                       .peer,
                   1);
  assert_int_equal(
      chain_of("ld.u64 %d1, [%d0+" AT_PEER "];\nld.u64 %d2, [%d1];\nadd.s64 %d3, %d1, %d2;\n", 1)
          .peer,
      2);
  // A value that is stored, and a condition.
  assert_int_equal(
      chain_of("ld.u64 %d1, [%d0+" AT_PEER "];\nst.u64 [%d0+" AFTER_PEER "], %d1;\n", 1).peer, 2);
  const struct ptx_chain c = chain_of("ld.u64 %d1, [%d0+" AT_HOST "];\nsetp.ne.s64 %p1, %d1, 0;\n"
                                      "@%p1 bra END;\nld.u64 %d2, [%d0+" AFTER_PEER "];\nEND:\n",
                                      1);
  assert_int_equal(c.host_loads, 1);
  assert_int_equal(c.peer, 1);
  assert_int_equal(c.all, 2);
}

static void a_fence_waits_for_stores(void **state) {
  (void)state;
#define STORE "st.relaxed.sys.u64 [%d0+" AT_PEER "], %d0;\n"
  assert_int_equal(chain_of(STORE STORE, 1).peer, 1);
  assert_int_equal(chain_of(STORE "fence.acq_rel.sys;\n" STORE, 1).peer, 2);
  assert_int_equal(chain_of(STORE "fence.acq_rel.cta;\n" STORE, 1).peer, 1);
  assert_int_equal(chain_of(STORE "st.release.sys.u64 [%d0+" AT_PEER "], %d0;\n", 1).peer, 2);
}

static void fences_that_have_stores_to_wait_for_are_links(void **state) {
  (void)state;
#define FENCE "fence.acq_rel.sys;\n"
  assert_int_equal(chain_of(FENCE FENCE STORE, 1).fences, 0);
  assert_int_equal(chain_of(STORE FENCE FENCE STORE, 1).fences, 1);
  assert_int_equal(chain_of(STORE FENCE STORE FENCE, 1).fences, 2);
  assert_int_equal(chain_of(STORE "fence.acq_rel.gpu;\n" STORE, 1).fences, 0);
  assert_int_equal(chain_of(STORE "st.release.sys.u64 [%d0], %d0;\n", 3).fences, 1);
  assert_int_equal(counts_of(0).releases[PTX_SYS], 3);
  assert_int_equal(counts_of(0).fences[PTX_SYS], 0);
}

static void chains_pass_shared_memory_and_barriers(void **state) {
  (void)state;
  buffer[PEER_WORD] = (uintptr_t)&buffer[PEER_WORD + 1];
  assert_int_equal(chain_of("mov.u32 %r1, fast;\nld.u64 %d1, [%d0+" AT_PEER "];\n"
                            "st.shared.u64 [%r1], %d1;\nld.shared.u64 %d2, [%r1];\n"
                            "ld.u64 %d3, [%d2];\n",
                            1)
                       .peer,
                   2);
  // The second warp's store waits for what the first one has decided by.
  const char *body =
      "setp.ne.s32 %%p1, %%r0, 0;\n@%%p1 bra MEET;\nld.u64 %%d1, [%%d0+" AT_PEER
      "];\nsetp.eq.s64 %%p2, %%d1, 0;\n@%%p2 bra MEET;\nMEET:\n%s"
      "setp.ne.s32 %%p3, %%r0, 40;\n@%%p3 bra END;\nst.u64 [%%d0+" AFTER_PEER "], %%d0;\nEND:\n";
  char text[600];
  snprintf(text, sizeof text, body, "bar.sync 0;\n");
  assert_int_equal(chain_of(text, 64).peer, 2);
  snprintf(text, sizeof text, body, "");
  assert_int_equal(chain_of(text, 64).peer, 1);
}

static void chains_pass_from_device_to_device(void **state) {
  (void)state;
  ptx_meter_begin(meter);
  body_meter("st.relaxed.sys.u64 [%d0+" AT_PEER "], %d0;\n", 1);
  device = 1; // it reads its own memory, and writes to that of device 0
  const char *body = "ld.acquire.sys.u64 %d1, [%d0+" AT_PEER "];\nst.u64 [%d0], %d1;\n";
  body_meter(body, 1);
  assert_int_equal(counts_of(0).chain.peer, 2);
  assert_int_equal(chain_of(body, 1).peer, 1);
}

#define METER_TEST(name)                                                                           \
  { "ptx_meter." #name, name, meter_open, meter_close, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      METER_TEST(instructions_are_counted),
      METER_TEST(the_last_of_three_warps_counts_apart),
      METER_TEST(barriers_and_fences_are_counted),
      METER_TEST(accesses_are_counted_by_place),
      METER_TEST(loads_in_flight_are_counted),
      METER_TEST(polls_in_vain_are_counted),
      METER_TEST(polls_of_a_queue_are_counted_apart),
      METER_TEST(a_look_after_news_is_no_poll_in_vain),
      METER_TEST(loads_that_wait_for_each_other_are_a_chain),
      METER_TEST(a_fence_waits_for_stores),
      METER_TEST(fences_that_have_stores_to_wait_for_are_links),
      METER_TEST(chains_pass_shared_memory_and_barriers),
      METER_TEST(chains_pass_from_device_to_device),
  };
  return cmocka_run_group_tests_name("ptx_meter", tests, NULL, NULL);
}
