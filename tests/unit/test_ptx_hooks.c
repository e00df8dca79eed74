// Code of the CPU in a scripted run of the PTX machine: the queues as they are, with a device on
// the other side.
#include "tests/support/ptx/ptx_hooks.h"

#include <rondo/status.h>

#include <string.h>

#include "tests/explore/random.h"
#include "tests/support/load.h"
#include "tests/support/named.h"
#include "tests/unit/hooked_code.h"

#define CAPACITY 8u
#define ENTRIES 200u

static _Alignas(RONDO_LINE_BYTES) struct {
  struct rondo_sq_ring sq;
  struct rondo_sqe sq_entries[CAPACITY];
  struct rondo_cq_ring cq;
  uint64_t cq_entries[2 * CAPACITY];
  struct rondo_cq_producers producers;
  struct hooked_words words;
} shared;

static struct {
  struct ptx_memory *memory;
  uint32_t cpu, device, second_device;
  uint64_t accusations;
  char text[640];
} machine;

static void note_accusation(void *arg, const struct ptx_accusation *accusation) {
  (void)arg;
  machine.accusations++;
  ptx_accusation_text(accusation, machine.text, sizeof machine.text);
}

static void start(uint64_t seed) {
  struct ptx_memory_options options = PTX_MEMORY_OPTIONS_INIT;
  options.seed = seed;
  options.accuse = note_accusation;
  memset(&machine, 0, sizeof machine);
  memset(&shared, 0, sizeof shared);
  machine.memory = ptx_memory_create(&options);
  machine.cpu = ptx_memory_agent(machine.memory, PTX_CPU, 0, 1);
  machine.device = ptx_memory_agent(machine.memory, 0, 0, 1);
  machine.second_device = ptx_memory_agent(machine.memory, 0, 1, 1);
  struct ptx_range range = {.base = (uint64_t)(uintptr_t)&shared,
                            .bytes = sizeof shared,
                            .readers = 1 | PTX_CPU_BIT,
                            .writers = 1 | PTX_CPU_BIT,
                            .updaters = 1 | PTX_CPU_BIT,
                            .block = PTX_ANY_BLOCK,
                            .name = "shared"};
  assert_int_equal(ptx_memory_range(machine.memory, &range), RONDO_SUCCESS);
}

static int stop(void **state) {
  (void)state;
  ptx_hooks_leave();
  if (machine.memory)
    ptx_memory_destroy(machine.memory);
  machine.memory = NULL;
  return 0;
}

// The device's side of the SQ, as the kernel has it: orders of the mark and of `consumed`.
struct device_side {
  uint32_t next;
  enum ptx_order mark, consumed;
};

static uint64_t device_load(const void *at, uint32_t bytes, enum ptx_order order, uint32_t line) {
  struct ptx_access access = {
      .address = (uint64_t)(uintptr_t)at, .bytes = bytes, .order = order, .scope = PTX_SYS};
  struct ptx_where where = {.kernel = "kernel", .line = line};
  uint64_t value = 0;
  ptx_memory_load(machine.memory, machine.device, 0, &access, &value, &where);
  return value;
}

static void device_store(void *at, uint32_t value, enum ptx_order order, uint32_t line) {
  struct ptx_access access = {
      .address = (uint64_t)(uintptr_t)at, .bytes = 4, .order = order, .scope = PTX_SYS};
  struct ptx_where where = {.kernel = "kernel", .line = line};
  ptx_memory_store(machine.memory, machine.device, 0, &access, &value, &where);
}

// Takes an entry if there is one. Returns whether it is wrong.
static bool device_pop(struct device_side *side) {
  const struct rondo_sqe *entry = &shared.sq_entries[side->next % CAPACITY];
  if (device_load(&entry->mark, 4, side->mark, 1) != side->next + 1)
    return false;
  bool is_wrong = device_load(&entry->run, 8, PTX_WEAK, 2) != 3 * (uint64_t)side->next ||
                  device_load(&entry->ticket, 8, PTX_WEAK, 3) != 5 * (uint64_t)side->next ||
                  device_load(&entry->collective, 4, PTX_WEAK, 4) != side->next;
  side->next++;
  device_store(&shared.sq.consumed, side->next, side->consumed, 5);
  return is_wrong;
}

// The CPU pushes entries with the code of the queue; the device pops them. Returns how many came
// out wrong.
static uint32_t sq_run(uint64_t seed, struct device_side side) {
  struct rondo_sq_producer producer;
  struct random random = {random_mix(seed)};
  uint64_t ring = (uint64_t)(uintptr_t)&shared.sq;
  uint32_t pushed = 0, wrong = 0;
  start(seed);
  rondo_sq_ring_init(&shared.sq, CAPACITY, 0);
  rondo_sq_producer_init(&producer, ring, CAPACITY, 0);
  for (uint32_t turn = 0; side.next < ENTRIES && turn < 100 * ENTRIES; turn++) {
    if (random_below(&random, 2)) {
      wrong += device_pop(&side);
    } else if (pushed < ENTRIES) {
      struct rondo_sqe entry = {
          .collective = pushed, .run = 3 * (uint64_t)pushed, .ticket = 5 * (uint64_t)pushed};
      ptx_hooks_enter(machine.memory, machine.cpu, "application", NULL);
      pushed += hooked_sq_try_push(&producer, &entry);
      ptx_hooks_leave();
    }
  }
  assert_int_equal(side.next, ENTRIES);
  return wrong;
}

static void a_device_pops_what_the_cpu_pushes(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < rondo_test_load(60, 20); seed++) {
    assert_int_equal(sq_run(seed, (struct device_side){0, PTX_ACQUIRE, PTX_RELEASE}), 0);
    if (machine.accusations)
      fail_msg("seed %u: %s", (unsigned)seed, machine.text);
    stop(NULL);
  }
}

// Without edge S2, and without edge S3.
static void a_missing_order_is_accused(void **state) {
  (void)state;
  uint32_t wrong = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    wrong += sq_run(seed, (struct device_side){0, PTX_RELAXED, PTX_RELEASE});
    assert_true(machine.accusations >= 3);
    assert_non_null(strstr(machine.text, "kernel line "));
    assert_non_null(strstr(machine.text, "by application line 0, program + 0x"));
    stop(NULL);
    sq_run(seed, (struct device_side){0, PTX_ACQUIRE, PTX_RELAXED});
    assert_true(machine.accusations >= 3);
    stop(NULL);
  }
  assert_true(wrong > 0);
}

// Two blocks complete runs; the CPU takes every completion once, in the order of each block.
static void the_cpu_pops_what_two_blocks_push(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < rondo_test_load(60, 20); seed++) {
    start(seed);
    struct random random = {random_mix(seed)};
    uint64_t ring = (uint64_t)(uintptr_t)&shared.cq;
    struct rondo_cq_consumer consumer;
    uint32_t pushed[2] = {0}, popped[2] = {0};
    rondo_cq_ring_init(&shared.cq, CAPACITY, 0);
    rondo_cq_producers_init(&shared.producers, ring, CAPACITY, 0);
    rondo_cq_consumer_init(&consumer, ring, CAPACITY);
    for (uint32_t turn = 0; turn < 100 * ENTRIES && popped[0] + popped[1] < ENTRIES; turn++) {
      uint32_t who = random_below(&random, 3);
      struct rondo_cqe entry = {.collective = who};
      ptx_hooks_enter(machine.memory,
                      who == 2   ? machine.cpu
                      : who == 1 ? machine.second_device
                                 : machine.device,
                      "side", NULL);
      if (who == 2 && hooked_cq_try_pop(&consumer, &entry))
        assert_int_equal(entry.duration_ns, popped[entry.collective]++);
      if (who < 2 && pushed[who] < ENTRIES / 2) {
        entry.duration_ns = pushed[who];
        pushed[who] += hooked_cq_try_push(&shared.producers, &entry);
      }
      ptx_hooks_leave();
    }
    assert_int_equal(popped[0] + popped[1], ENTRIES);
    if (machine.accusations)
      fail_msg("seed %u: %s", (unsigned)seed, machine.text);
    stop(NULL);
  }
}

static void every_kind_of_access_has_its_value(void **state) {
  (void)state;
  assert_int_equal(hooked_accesses(&shared.words), 0);
  for (uint64_t seed = 0; seed < 20; seed++) {
    struct hooked_words outside = {0};
    start(seed);
    ptx_hooks_enter(machine.memory, machine.cpu, "code", NULL);
    uint64_t wrong = hooked_accesses(&shared.words), wrong_outside = hooked_accesses(&outside);
    ptx_hooks_leave();
    assert_int_equal(wrong, 0);
    assert_int_equal(wrong_outside, 0);
    assert_int_equal(machine.accusations, 0);
    assert_true(ptx_memory_kept(machine.memory) > 10);
    // What the code has stored is what the memory has.
    assert_int_equal(shared.words.atomic, 9);
    stop(NULL);
  }
}

// The device sees what plain stores of the CPU have left, of every size.
static void plain_stores_reach_the_device(void **state) {
  (void)state;
  start(1);
  ptx_hooks_enter(machine.memory, machine.cpu, "code", NULL);
  uint64_t wrong = hooked_accesses(&shared.words);
  ptx_hooks_leave();
  ptx_memory_begin(machine.memory, machine.cpu, machine.device);
  assert_int_equal(wrong, 0);
  assert_true(device_load(&shared.words.wide[0], 8, PTX_WEAK, 1) == UINT64_C(0x1122334455667788));
  assert_int_equal(device_load(&shared.words.wide[2], 8, PTX_WEAK, 2), 5);
  assert_int_equal(device_load(&shared.words.bytes[1], 1, PTX_WEAK, 3), 0x89);
  assert_int_equal(device_load(&shared.words.bytes[8], 1, PTX_WEAK, 4), 0x11);
  assert_int_equal(device_load(&shared.words.half, 4, PTX_WEAK, 5), 2);
  assert_int_equal(device_load(&shared.words.flag, 1, PTX_WEAK, 6), 44);
  assert_int_equal(machine.accusations, 0);
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("ptx_hooks", function, NULL, stop)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_device_pops_what_the_cpu_pushes), TEST(a_missing_order_is_accused),
      TEST(the_cpu_pops_what_two_blocks_push), TEST(every_kind_of_access_has_its_value),
      TEST(plain_stores_reach_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
