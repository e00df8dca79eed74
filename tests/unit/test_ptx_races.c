// The memory of the PTX machine: what it accuses, what it forgets, and what it must not accuse.
#include "tests/support/ptx/ptx_memory_litmus.h"

#include <rondo/status.h>

#include <stdio.h>
#include <string.h>

#include "tests/explore/random.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

struct program {
  const char *name;
  const char *threads;
};

static const struct program ordered[] = {
    {"release_acquire", "st x 1; st.release y 1 | wait.acquire y; a=ld x"},
    {"fences", "st x 1; fence; st.relaxed y 1 | wait.relaxed y; fence; a=ld x"},
    {"fence_acquire", "st x 1; fence; st.relaxed y 1 | wait.acquire y; a=ld x"},
    {"strong", "st.relaxed x 1; a=ld.relaxed x | st.relaxed x 2; b=ld.acquire x"},
    {"atoms", "a=add x 1 | b=add x 1; red x 1 | st.relaxed x 7"},
    {"reads", "a=ld x | b=ld x; c=ld.relaxed x"},
    {"other_bytes", "st x:1 1; a=ld x:2+2 | st x:1+1 1; b=ld x:2+2"},
    {"wide_read", "st x:4 1; st x:4+4 2; st.release y 1 | wait.acquire y; a=ld x:8"},
    {"wide_write", "st x:8 1; st.release y 1 | wait.acquire y; a=ld x:2+2; b=ld x:4+4"},
    {"credit", "st x 1; st.release y 1; wait.acquire z; st x 2 |"
               "wait.acquire y; a=ld x; st.release z 1"},
    {"chain", "st x 1; st.release y 1 | wait.acquire y; st.release z 1 | wait.acquire z; a=ld x"},
    {"chain_of_writes",
     "st x 1; st.release y 1 | wait.acquire y; st x 2; st.release z 1 | wait.acquire z; a=ld x"},
    {"counter", "st x 1; red.release y 1 | wait.acquire y; a=ld x"},
    {"barrier", "0.0.0.0: st x 1; bar; a=ld z | 0.0.0.1: st z 1; bar; b=ld x |"
                "0.0.1.0: bar; c=ld x; bar; st w 1 | 0.0.1.1: bar; bar; d=ld x"},
    {"barrier_then_release",
     "0.0.0.0: st x 1; bar | 0.0.1.0: bar; st.release y 1 | 0.1.0.0: wait.acquire y; st x 2"},
    {"same_thread", "st x 1; a=ld x; b=add x 1; st x:2 3; c=ld x:8"},
};

static const struct program racing[] = {
    {"write_write", "st x 1 | st x 2"},
    {"write_read", "st x 1 | a=ld x"},
    {"weak_and_strong", "st x 1 | st.relaxed x 2"},
    {"strong_and_weak", "a=add x 1 | b=ld x"},
    {"no_credit", "st x 1; st.release y 1; st x 2 | wait.acquire y; a=ld x"},
    {"no_acquire", "st x 1; st.release y 1 | wait.relaxed y; a=ld x"},
    {"no_release", "st x 1; st.relaxed y 1 | wait.acquire y; a=ld x"},
    {"no_release_fence", "st x 1; st.relaxed y 1 | wait.relaxed y; fence; a=ld x"},
    {"small_release", "0.0.0.0: st x 1; st.release.cta y 1 | 0.1.0.0: wait.acquire y; a=ld x"},
    {"small_acquire", "0.0.0.0: st x 1; st.release y 1 | 1.0.0.0: wait.acquire.gpu y; a=ld x"},
    {"small_fence", "0.0.0.0: st x 1; fence.gpu; st.relaxed y 1 |"
                    "1.0.0.0: wait.relaxed y; fence; a=ld x"},
    {"two_sizes", "st.relaxed x:8 1 | a=ld.relaxed x:4+4"},
    {"overlap", "st x:2+2 1 | st x:4 1"},
    {"other_lane", "0.0.0.0: st x 1; st.relaxed z 1 |"
                   "0.0.0.1: wait.relaxed z; st.release y 1 | 0.1.0.0: wait.acquire y; a=ld x"},
    {"lanes", "0.0.0.0: st x 1 | 0.0.0.1: a=ld x"},
    {"after_release", "st.release y 1; st x 1 | wait.acquire y; a=ld x"},
    {"after_barrier", "0.0.0.0: bar; st x 1 | 0.0.1.0: bar; a=ld x"},
    {"barrier_elsewhere", "0.0.0.0: st x 1; bar | 0.1.0.0: bar; a=ld x"},
    {"read_then_write", "a=ld x; st.relaxed y 1 | wait.acquire y; st x 1"},
};

// Executes the program with a seed and returns how many races there were.
static uint64_t program_races(const struct program *program, enum litmus_placement placement,
                              enum ptx_memory_fault fault, uint64_t seed,
                              struct litmus_result *result) {
  struct litmus_program parsed;
  struct litmus_run run = {
      .options = PTX_MEMORY_OPTIONS_INIT, .placement = placement, .scope = PTX_SYS};
  char why[640];
  run.options.seed = seed;
  run.options.fault = fault;
  if (!litmus_parse(program->threads, &parsed, why, sizeof why))
    fail_msg("%s", why);
  litmus_execute(&parsed, &run, result);
  return result->accusations;
}

static void ordered_programs_are_not_accused(void **state) {
  (void)state;
  uint64_t seeds = rondo_test_load(300, 100);
  struct litmus_result result;
  for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++)
    for (int p = LITMUS_LANES; p < LITMUS_PLACEMENTS; p++)
      for (uint64_t seed = 0; seed < seeds; seed++)
        if (program_races(&ordered[i], (enum litmus_placement)p, PTX_FAULT_NONE, seed, &result))
          fail_msg("%s, placement %d, seed %u: %s", ordered[i].name, p, (unsigned)seed,
                   result.accusation);
}

static void racing_programs_are_accused_in_every_run(void **state) {
  (void)state;
  uint64_t seeds = rondo_test_load(300, 100);
  struct litmus_result result;
  for (size_t i = 0; i < sizeof racing / sizeof *racing; i++)
    for (int p = LITMUS_LANES; p < LITMUS_PLACEMENTS; p++)
      for (uint64_t seed = 0; seed < seeds; seed++)
        if (!program_races(&racing[i], (enum litmus_placement)p, PTX_FAULT_NONE, seed, &result))
          fail_msg("%s, placement %d, seed %u is not accused", racing[i].name, p, (unsigned)seed);
}

static const struct program *racing_find(const char *name) {
  for (size_t i = 0; i < sizeof racing / sizeof *racing; i++)
    if (!strcmp(racing[i].name, name))
      return &racing[i];
  fail_msg("no program %s", name);
  return NULL;
}

static void mistakes_of_the_detector_are_found(void **state) {
  (void)state;
  static const struct {
    enum ptx_memory_fault fault;
    const char *program;
  } mistakes[] = {
      {PTX_FAULT_SIZES_IGNORED, "two_sizes"},  {PTX_FAULT_READS_FORGOTTEN, "read_then_write"},
      {PTX_FAULT_WARP_RELEASES, "other_lane"}, {PTX_FAULT_NO_SCOPES, "small_release"},
      {PTX_FAULT_NO_SCOPES, "small_acquire"},  {PTX_FAULT_NO_SCOPES, "small_fence"},
  };
  struct litmus_result result;
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
    uint32_t missed = 0;
    for (uint64_t seed = 0; seed < 100; seed++)
      missed += !program_races(racing_find(mistakes[i].program), LITMUS_BLOCKS, mistakes[i].fault,
                               seed, &result);
    if (!missed)
      fail_msg("%s does not show mistake %d", mistakes[i].program, (int)mistakes[i].fault);
  }
}

static void an_accusation_names_both_sides(void **state) {
  (void)state;
  struct litmus_result result;
  const struct program *p = racing_find("no_acquire");
  assert_int_equal(program_races(p, LITMUS_WITH_CPU, PTX_FAULT_NONE, 1, &result), 1);
  const char *const parts[] = {
      "race: read of 4 bytes at 0x",
      "(weak) by litmus line 2, PTX line 14, block 1, thread 0 of device 0",
      "; earlier: write of 4 bytes at 0x", "(weak) by litmus line 1, program + 0x1, on the CPU"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(result.accusation, parts[i]))
      fail_msg("'%s' is not in '%s'", parts[i], result.accusation);
}

// A memory with agents of one lane, for the tests below.

static struct {
  struct ptx_memory *memory;
  struct ptx_accusation last;
  uint32_t count;
} machine;
static _Alignas(64) uint64_t words[1 << 16];

static void note_accusation(void *arg, const struct ptx_accusation *accusation) {
  (void)arg;
  machine.last = *accusation;
  machine.count++;
}

static void start(uint64_t seed, uint32_t adversity) {
  struct ptx_memory_options options = PTX_MEMORY_OPTIONS_INIT;
  options.seed = seed;
  options.adversity = adversity;
  options.accuse = note_accusation;
  memset(words, 0, sizeof words);
  memset(&machine.last, 0, sizeof machine.last);
  machine.count = 0;
  machine.memory = ptx_memory_create(&options);
}

static int stop(void **state) {
  (void)state;
  if (machine.memory)
    ptx_memory_destroy(machine.memory);
  machine.memory = NULL;
  return 0;
}

static struct ptx_access access_of(const void *at, uint32_t bytes, enum ptx_order order) {
  return (struct ptx_access){
      .address = (uint64_t)(uintptr_t)at, .bytes = bytes, .order = order, .scope = PTX_SYS};
}

static struct ptx_where where_of(uint32_t agent, uint32_t line) {
  return (struct ptx_where){.kernel = "test", .line = line, .thread = agent};
}

// An access of lane 0 in line `line` of a program.
static void put(uint32_t agent, uint64_t *at, uint64_t value, enum ptx_order order, uint32_t line) {
  struct ptx_access access = access_of(at, 8, order);
  struct ptx_where where = where_of(agent, line);
  ptx_memory_store(machine.memory, agent, 0, &access, &value, &where);
}

static uint64_t get(uint32_t agent, const uint64_t *at, enum ptx_order order, uint32_t line) {
  struct ptx_access access = access_of(at, 8, order);
  struct ptx_where where = where_of(agent, line);
  uint64_t value = UINT64_MAX;
  ptx_memory_load(machine.memory, agent, 0, &access, &value, &where);
  return value;
}

static void add_range(void *base, uint64_t bytes, uint64_t readers, uint64_t writers,
                      uint32_t block) {
  struct ptx_range range = {.base = (uint64_t)(uintptr_t)base,
                            .bytes = bytes,
                            .readers = readers,
                            .writers = writers,
                            .updaters = writers & PTX_CPU_BIT,
                            .block = block,
                            .name = "a range"};
  assert_int_equal(ptx_memory_range(machine.memory, &range), RONDO_SUCCESS);
}

static void accesses_outside_their_ranges_are_accused(void **state) {
  (void)state;
  start(1, 50);
  uint32_t cpu = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
  uint32_t gpu0 = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint32_t gpu1 = ptx_memory_agent(machine.memory, 1, 1, 32);
  add_range(words, 64, 1, 1, PTX_ANY_BLOCK);                             // device 0 alone
  add_range(words + 8, 64, 1 | PTX_CPU_BIT, PTX_CPU_BIT, PTX_ANY_BLOCK); // read-only for device 0
  add_range(words + 16, 12, 3, 3, 0);                                    // block 0, ends in a word
  const struct {
    uint32_t agent;
    uint64_t *at;
    bool is_write, is_bad;
    enum ptx_offence offence;
  } accesses[] = {
      {gpu0, words, true, false, 0},
      {gpu0, words + 7, false, false, 0},
      {gpu1, words, false, true, PTX_FORBIDDEN},
      {cpu, words, false, true, PTX_FORBIDDEN},
      {gpu0, words + 8, false, false, 0},
      {gpu0, words + 8, true, true, PTX_FORBIDDEN},
      {cpu, words + 8, true, false, 0},
      {gpu0, words + 16, true, false, 0},
      {gpu1, words + 16, true, true, PTX_FORBIDDEN},
      {gpu0, words + 17, true, true, PTX_OUTSIDE},
      {gpu0, words + 40, false, true, PTX_OUTSIDE},
      {gpu0, (uint64_t *)(void *)((char *)words + 4), false, true, PTX_MISALIGNED},
      {gpu0, (uint64_t *)(void *)((char *)words + 1), true, true, PTX_MISALIGNED},
  };
  for (uint32_t i = 0; i < sizeof accesses / sizeof *accesses; i++) {
    uint32_t before = machine.count;
    if (accesses[i].is_write)
      put(accesses[i].agent, accesses[i].at, 5, PTX_RELAXED, i);
    else
      get(accesses[i].agent, accesses[i].at, PTX_RELAXED, i);
    assert_int_equal(machine.count - before, accesses[i].is_bad);
    if (accesses[i].is_bad)
      assert_int_equal(machine.last.offence, accesses[i].offence);
  }
  assert_int_equal(words[17], 0);
  assert_int_equal(get(gpu1, words, PTX_RELAXED, 99), 0);
}

static void ranges_do_not_overlap_and_can_be_removed(void **state) {
  (void)state;
  start(1, 50);
  uint64_t base = (uint64_t)(uintptr_t)words;
  uint32_t gpu = ptx_memory_agent(machine.memory, 0, 0, 32);
  struct ptx_range range = {base + 64, 64, 1, 1, 1, PTX_ANY_BLOCK, "middle"};
  assert_int_equal(ptx_memory_range(machine.memory, &range), RONDO_SUCCESS);
  const uint64_t bad[][2] = {{64, 64}, {0, 65}, {127, 1}, {0, 256}, {96, 8}, {300, 0}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct ptx_range other = {base + bad[i][0], bad[i][1], 1, 1, 1, PTX_ANY_BLOCK, "bad"};
    assert_int_equal(ptx_memory_range(machine.memory, &other), RONDO_ERR_INVALID);
  }
  range = (struct ptx_range){base, 64, 1, 1, 1, PTX_ANY_BLOCK, "before"};
  assert_int_equal(ptx_memory_range(machine.memory, &range), RONDO_SUCCESS);
  put(gpu, words + 8, 7, PTX_WEAK, 1);
  put(gpu, words, 7, PTX_WEAK, 2);
  assert_int_equal(machine.count, 0);
  assert_int_equal(ptx_memory_remove_range(machine.memory, base + 8), RONDO_ERR_INVALID);
  assert_int_equal(ptx_memory_remove_range(machine.memory, base + 64), RONDO_SUCCESS);
  put(gpu, words + 8, 8, PTX_WEAK, 3);
  assert_int_equal(machine.count, 1);
  assert_int_equal(machine.last.offence, PTX_OUTSIDE);
  put(gpu, words, 8, PTX_WEAK, 4);
  assert_int_equal(machine.count, 1);
}

// What the process writes past the memory counts after ptx_memory_forget.
static void forgotten_bytes_begin_anew(void **state) {
  (void)state;
  start(1, 0);
  uint32_t one = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint32_t two = ptx_memory_agent(machine.memory, 0, 1, 32);
  put(one, words, 7, PTX_WEAK, 1);
  assert_int_equal(words[0], 7);
  words[0] = 9;
  assert_int_equal(get(one, words, PTX_WEAK, 2), 7);
  ptx_memory_forget(machine.memory, (uint64_t)(uintptr_t)words, 8);
  words[0] = 9;
  assert_int_equal(get(two, words, PTX_WEAK, 3), 9);
  assert_int_equal(machine.count, 0);
}

static void launches_and_completions_order(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 50; seed++) {
    start(seed, 50);
    uint32_t cpu = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
    uint32_t first = ptx_memory_agent(machine.memory, 0, 0, 32);
    uint32_t second = ptx_memory_agent(machine.memory, 0, 1, 32);
    put(cpu, words, 1, PTX_WEAK, 1);
    ptx_memory_begin(machine.memory, cpu, first);
    assert_int_equal(get(first, words, PTX_WEAK, 2), 1);
    put(first, words, 2, PTX_WEAK, 3);
    ptx_memory_end(machine.memory, first, cpu);
    ptx_memory_begin(machine.memory, cpu, second);
    assert_int_equal(get(second, words, PTX_WEAK, 4), 2);
    put(second, words, 3, PTX_WEAK, 5);
    assert_int_equal(machine.count, 0);
    put(cpu, words, 4, PTX_WEAK, 6); // the second one has not ended
    assert_int_equal(machine.count, 1);
    assert_int_equal(machine.last.other.where.line, 5);
    stop(NULL);
  }
}

// An agent that begins again knows what its launch knows.
static void an_agent_begins_again(void **state) {
  (void)state;
  start(3, 50);
  uint32_t cpu = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
  uint32_t warp = ptx_memory_agent(machine.memory, 0, 0, 32);
  for (uint64_t launch = 1; launch < 20; launch++) {
    put(cpu, words, 2 * launch, PTX_WEAK, 1);
    ptx_memory_begin(machine.memory, cpu, warp);
    assert_int_equal(get(warp, words, PTX_WEAK, 2), 2 * launch);
    put(warp, words, 2 * launch + 1, PTX_WEAK, 3);
    ptx_memory_end(machine.memory, warp, cpu);
    assert_int_equal(get(cpu, words, PTX_WEAK, 4), 2 * launch + 1);
  }
  assert_int_equal(machine.count, 0);
}

static void a_pair_of_instructions_is_accused_once(void **state) {
  (void)state;
  start(1, 50);
  uint32_t one = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint32_t two = ptx_memory_agent(machine.memory, 0, 1, 32);
  for (uint32_t i = 0; i < 100; i++) {
    put(one, words + i, i, PTX_WEAK, 1);
    put(two, words + i, i, PTX_WEAK, 2);
    put(one, words + i, i, PTX_WEAK, 1);
  }
  assert_int_equal(machine.count, 1);
  for (uint32_t i = 0; i < 100; i++)
    put(two, words + i, i, PTX_WEAK, 3);
  assert_int_equal(machine.count, 2);
  assert_int_equal(ptx_memory_accusations(machine.memory), 2);
}

// 8 and 16 bytes are read from one moment.
static void an_access_is_never_torn(void **state) {
  (void)state;
  start(11, 80);
  uint32_t one = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint32_t two = ptx_memory_agent(machine.memory, 1, 0, 32);
  struct ptx_where where = where_of(0, 1);
  uint64_t last = 0, stale = 0;
  for (uint64_t i = 1; i < 2000; i++) {
    uint64_t pair[2] = {i, ~i}, read[2];
    struct ptx_access wide = access_of(words, 16, PTX_RELAXED);
    ptx_memory_store(machine.memory, one, 0, &wide, pair, &where);
    ptx_memory_load(machine.memory, two, 0, &wide, read, &where);
    assert_true(read[1] == ~read[0] || (read[0] == 0 && read[1] == 0));
    assert_true(read[0] >= last);
    last = read[0];
    stale += last < i;
    put(one, words + 4, i << 32 | i, PTX_RELAXED, 2);
    uint64_t word = get(two, words + 4, PTX_RELAXED, 2);
    assert_int_equal(word >> 32, (uint32_t)word);
  }
  assert_true(stale > 100);
  assert_int_equal(machine.count, 0);
}

static bool add_one(void *arg, void *value) {
  (void)arg;
  ++*(uint32_t *)value;
  return true;
}

static void updates_lose_nothing(void **state) {
  (void)state;
  start(5, 50);
  uint32_t agents[4];
  for (uint32_t i = 0; i < 4; i++)
    agents[i] = ptx_memory_agent(machine.memory, i, i, 32);
  struct ptx_access access = access_of(words, 4, PTX_RELAXED);
  struct ptx_where where = where_of(0, 1);
  struct ptx_update update = {add_one, NULL};
  for (uint32_t i = 0; i < 4000; i++) {
    access.is_reduction = i & 1;
    ptx_memory_update(machine.memory, agents[i % 4], i % 32, &access, &update, &where);
  }
  assert_int_equal(words[0], 4000);
}

// As in host memory that a device reaches through PCIe.
static void updates_need_a_right_of_their_own(void **state) {
  (void)state;
  start(5, 50);
  uint32_t cpu = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
  uint32_t gpu = ptx_memory_agent(machine.memory, 0, 0, 32);
  add_range(words, 64, 1 | PTX_CPU_BIT, 1 | PTX_CPU_BIT, PTX_ANY_BLOCK);
  struct ptx_access access = access_of(words, 4, PTX_RELAXED);
  struct ptx_where where = where_of(0, 1);
  struct ptx_update update = {add_one, NULL};
  ptx_memory_update(machine.memory, cpu, 0, &access, &update, &where);
  put(gpu, words + 1, 7, PTX_RELAXED, 2);
  assert_int_equal(machine.count, 0);
  ptx_memory_update(machine.memory, gpu, 0, &access, &update, &where);
  assert_int_equal(machine.count, 1);
  assert_int_equal(machine.last.offence, PTX_FORBIDDEN);
  assert_int_equal(words[0], 1);
}

#define RING_SLOTS 16384u

// A producer and a consumer with a ring of slots, whose credits come back. Every payload is exact,
// nothing is accused, and what both have passed is dropped.
static void a_ring_keeps_its_payload_and_is_pruned(void **state) {
  (void)state;
  start(7, 50);
  uint32_t producer = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
  uint32_t consumer = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint64_t *sent = words, *taken = words + 16, *slots = words + 32;
  uint64_t head = 0, tail = 0, most = 0, end = 200000;
  struct random random = {3};
  while (tail < end) {
    if (random_below(&random, 2)) {
      if (head < end && head - get(producer, taken, PTX_ACQUIRE, 1) < RING_SLOTS) {
        put(producer, &slots[head % RING_SLOTS * 2], head * 3, PTX_WEAK, 2);
        put(producer, sent, ++head, PTX_RELEASE, 3);
      }
    } else if (get(consumer, sent, PTX_ACQUIRE, 4) > tail) {
      assert_int_equal(get(consumer, &slots[tail % RING_SLOTS * 2], PTX_WEAK, 5), tail * 3);
      put(consumer, taken, ++tail, PTX_RELEASE, 6);
    }
    if (ptx_memory_kept(machine.memory) > most)
      most = ptx_memory_kept(machine.memory);
  }
  assert_int_equal(machine.count, 0);
  assert_true(most < 100000);
}

// Nobody synchronises, so only the limit of the history bounds it.
static void an_unread_history_is_capped(void **state) {
  (void)state;
  start(7, 50);
  uint32_t writer = ptx_memory_agent(machine.memory, 0, 0, 32);
  uint32_t reader = ptx_memory_agent(machine.memory, 1, 0, 32);
  uint64_t last = 0;
  for (uint64_t i = 1; i < 100000; i++) {
    put(writer, words, i, PTX_RELAXED, 1);
    uint64_t now = i % 7 ? last : get(reader, words, PTX_RELAXED, 2);
    assert_true(now >= last && now <= i);
    last = now;
  }
  assert_true(ptx_memory_kept(machine.memory) < 20);
}

static void a_seed_replays_a_run(void **state) {
  (void)state;
  uint64_t sums[3] = {0};
  for (uint32_t run = 0; run < 3; run++) {
    start(run == 2 ? 18 : 17, 50);
    uint32_t writer = ptx_memory_agent(machine.memory, 0, 0, 32);
    uint32_t reader = ptx_memory_agent(machine.memory, 1, 0, 32);
    for (uint64_t i = 1; i < 1000; i++) {
      put(writer, words + i % 5, i, PTX_RELAXED, 1);
      sums[run] = sums[run] * 31 + get(reader, words + i % 3, PTX_RELAXED, 2);
    }
    stop(NULL);
  }
  assert_true(sums[0] == sums[1]);
  assert_true(sums[0] != sums[2]);
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("ptx_races", function, NULL, stop)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(ordered_programs_are_not_accused),
      TEST(racing_programs_are_accused_in_every_run),
      TEST(mistakes_of_the_detector_are_found),
      TEST(an_accusation_names_both_sides),
      TEST(accesses_outside_their_ranges_are_accused),
      TEST(ranges_do_not_overlap_and_can_be_removed),
      TEST(forgotten_bytes_begin_anew),
      TEST(launches_and_completions_order),
      TEST(an_agent_begins_again),
      TEST(a_pair_of_instructions_is_accused_once),
      TEST(an_access_is_never_torn),
      TEST(updates_lose_nothing),
      TEST(updates_need_a_right_of_their_own),
      TEST(a_ring_keeps_its_payload_and_is_pruned),
      TEST(an_unread_history_is_capped),
      TEST(a_seed_replays_a_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
