// What a process says of itself when it joins, and the topology that all make of it.
#include <stdlib.h>
#include <string.h>

#include "runtime/job/members_entry.h"
#include "tests/support/named.h"

#define RANKS 1000u

static uint32_t ranks[RANKS];
static struct rondo_topology_place places[RANKS];

// A process with the ranks first, first + stride, ...; every `run` of them have one place.
static struct rondo_wire_member member(uint32_t first, uint32_t stride, uint32_t count,
                                       uint32_t run) {
  struct rondo_wire_member m = {.machine = {3, 7},
                                .pid = 100 + first,
                                .host = "node",
                                .local = "socket",
                                .key = {4, [31] = 5},
                                .address_count = 1,
                                .addresses = {{.family = 4, .port = 5000, .bytes = {10, 0, 0, 1}}},
                                .rank_count = count,
                                .ranks = ranks,
                                .places = places};
  for (uint32_t i = 0; i < count; i++) {
    ranks[i] = first + i * stride;
    places[i] = (struct rondo_topology_place){
        .node = (int16_t)(i / run % 100), .is_gpu = 1, .pci = 0x1000 + i / run, .links = 3};
  }
  return m;
}

// The topology of a job of one process with these bytes for its entry; null if they are malformed.
static struct rondo_topology *topology_of(const struct rondo_wire_member *m, const uint8_t *bytes,
                                          uint32_t size) {
  static struct rondo_rank_range ranges[RANKS];
  const struct rondo_roster_source source = {.machine = 3,
                                             .ranges = ranges,
                                             .range_count = rondo_members_entry_ranges(m, ranges),
                                             .size = size,
                                             .bytes = bytes};
  uint8_t absence[RANKS];
  memset(absence, RONDO_ABSENT_MISSING, sizeof absence);
  for (uint32_t i = 0; i < m->rank_count; i++)
    absence[m->ranks[i]] = 0;
  struct rondo_shared_bytes *encoded =
      rondo_roster_encode(&source, 1, m->ranks[m->rank_count - 1] + 1, absence, false);
  assert_non_null(encoded);
  struct rondo_roster *roster = rondo_roster_decode(encoded);
  assert_non_null(roster);
  struct rondo_topology *topology = rondo_members_entry_topology(roster);
  rondo_roster_put(roster);
  rondo_shared_bytes_put(encoded);
  return topology;
}

static struct rondo_topology *topology_sent(const struct rondo_wire_member *m, uint32_t *size) {
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  *size = rondo_members_entry_write(m, bytes);
  assert_in_range(*size, 1, sizeof bytes);
  return topology_of(m, bytes, *size);
}

static void it_arrives_as_it_was_written(void **state) {
  (void)state;
  uint32_t size = 0;
  struct rondo_wire_member m = member(1, 2, 5, 2);
  struct rondo_topology *t = topology_sent(&m, &size);
  assert_non_null(t);
  assert_int_equal(t->process_count, 1);
  assert_int_equal(t->processes[0].pid, 101);
  assert_string_equal(t->processes[0].local, "socket");
  assert_memory_equal(t->processes[0].key, m.key, sizeof m.key);
  assert_int_equal(t->processes[0].rank_count, 5);
  assert_string_equal(t->machines[0].host, "node");
  assert_int_equal(t->machines[0].id[1], 7);
  for (uint32_t i = 0; i < 5; i++) {
    assert_int_equal(t->processes[0].ranks[i], 1 + 2 * i);
    assert_int_equal(t->process_of[1 + 2 * i], 0);
    assert_memory_equal(&t->places[1 + 2 * i], &places[i], sizeof places[i]);
  }
  assert_int_equal(t->process_of[2], RONDO_TOPOLOGY_NOBODY);
  rondo_topology_destroy(t);
}

static void equal_places_go_once(void **state) {
  (void)state;
  uint32_t one = 0;
  uint32_t many = 0;
  struct rondo_wire_member m = member(0, 1, 1, 1);
  rondo_topology_destroy(topology_sent(&m, &one));
  m = member(0, 1, RANKS, RANKS);
  struct rondo_topology *t = topology_sent(&m, &many);
  assert_int_equal(many, one);
  for (uint32_t i = 0; i < RANKS; i++)
    assert_int_equal(t->places[i].pci, 0x1000);
  assert_int_equal(t->places[RANKS - 1].links, 3);
  rondo_topology_destroy(t);
}

// 1,000 places do not fit: the last ranks have an unknown one.
static void places_that_do_not_fit_are_unknown(void **state) {
  (void)state;
  uint32_t size = 0;
  uint32_t known = 0;
  struct rondo_wire_member m = member(0, 1, RANKS, 1);
  struct rondo_topology *t = topology_sent(&m, &size);
  assert_non_null(t);
  while (known < RANKS && t->places[known].pci == 0x1000 + known)
    known++;
  assert_in_range(known, 200, RANKS - 1);
  for (uint32_t i = known; i < RANKS; i++) {
    assert_int_equal(t->places[i].pci, 0);
    assert_int_equal(t->places[i].node, -1);
    assert_int_equal(t->process_of[i], 0);
  }
  rondo_topology_destroy(t);
}

// Every entry that is cut off somewhere, or longer, is malformed; except one that ends between two
// places: places may be missing.
static void malformed_entries_are_refused(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES + 1] = {0};
  struct rondo_wire_member m = member(0, 1, 4, 2);
  struct rondo_wire_member alone = m;
  alone.rank_count = 0;
  uint32_t size = rondo_members_entry_write(&m, bytes);
  uint8_t other[RONDO_ROSTER_ENTRY_BYTES];
  uint32_t head = rondo_members_entry_write(&alone, other);
  uint32_t run = (size - head) / 2;
  for (uint32_t i = 0; i <= size + 1; i++) {
    struct rondo_topology *t = topology_of(&m, bytes, i);
    assert_int_equal(t != NULL, i == head || i == head + run || i == size);
    rondo_topology_destroy(t);
  }
  static const uint8_t lengths[] = {0, 3, 255}; // of the second run, in place of 2
  for (uint32_t i = 0; i < sizeof lengths; i++) {
    bytes[head + run] = lengths[i];
    assert_null(topology_of(&m, bytes, size));
  }
}

static void ranks_become_few_ranges(void **state) {
  (void)state;
  static uint32_t list[] = {0, 1, 2, 3, 10, 20, 30, 31, 50};
  static const struct rondo_rank_range expected[] = {{0, 4, 1}, {10, 3, 10}, {31, 2, 19}};
  struct rondo_rank_range got[9];
  struct rondo_wire_member m = {.ranks = list, .rank_count = 9};
  assert_int_equal(rondo_members_entry_ranges(&m, got), 3);
  assert_memory_equal(got, expected, sizeof expected);
  m.rank_count = 1;
  assert_int_equal(rondo_members_entry_ranges(&m, got), 1);
  assert_memory_equal(got, (&(struct rondo_rank_range){0, 1, 1}), sizeof *got);
}

static void it_says_who_the_process_is(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  char text[64];
  struct rondo_wire_member m = member(2, 1, 2, 1);
  uint32_t size = rondo_members_entry_write(&m, bytes);
  rondo_members_entry_describe(bytes, size, text, sizeof text);
  assert_string_equal(text, "node, pid 102");
  rondo_members_entry_describe(bytes, 20, text, sizeof text);
  assert_string_equal(text, "a malformed host, pid 0");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("members_entry", it_arrives_as_it_was_written),
      RONDO_NAMED_TEST("members_entry", equal_places_go_once),
      RONDO_NAMED_TEST("members_entry", places_that_do_not_fit_are_unknown),
      RONDO_NAMED_TEST("members_entry", malformed_entries_are_refused),
      RONDO_NAMED_TEST("members_entry", ranks_become_few_ranges),
      RONDO_NAMED_TEST("members_entry", it_says_who_the_process_is),
  };
  return cmocka_run_group_tests_name("members_entry", tests, NULL, NULL);
}
