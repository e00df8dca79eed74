// What a process says of itself when it joins, and the topology that all make of it.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/job/members.h"
#include "runtime/job/members_entry.h"
#include "runtime/job/membership_message.h"
#include "runtime/net/job_root.h"
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
  *size = rondo_members_entry_write(m, NULL, bytes);
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
  uint32_t size = rondo_members_entry_write(&m, NULL, bytes);
  uint8_t other[RONDO_ROSTER_ENTRY_BYTES];
  uint32_t head = rondo_members_entry_write(&alone, NULL, other);
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
  uint32_t size = rondo_members_entry_write(&m, NULL, bytes);
  rondo_members_entry_describe(bytes, size, text, sizeof text);
  assert_string_equal(text, "node, pid 102");
  rondo_members_entry_describe(bytes, 20, text, sizeof text);
  assert_string_equal(text, "a malformed host, pid 0");
}

static const struct rondo_cost_row rows[] = {
    {RONDO_COST_THREAD, RONDO_ALL_REDUCE, RONDO_ALGORITHM_RING, {{1, 2.5f}, {3, 1e9f}}},
    {RONDO_COST_SHARED_MEMORY, RONDO_BARRIER, RONDO_ALGORITHM_DISSEMINATION, {{5, 6}, {7, 8}}}};
static const struct rondo_cost_model model = {.cores = 3,
                                              .rank_points = 2,
                                              .size_points = 2,
                                              .row_count = 2,
                                              .digest = 4711,
                                              .ranks = {2, 9},
                                              .sizes = {8, 4096},
                                              .alone = {{1, 2, 9}, {3, 4, 8}, {5, 6, 7}, {7, 8, 6}},
                                              .shared = {{9, 1}, {2, 3}, {4, 5}, {6, 7}},
                                              .rows = rows};

static void a_cost_model_arrives_as_it_was_written(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  struct rondo_cost_file *file;
  struct rondo_wire_member m = member(0, 1, 4, 2);
  uint32_t size = rondo_members_entry_write(&m, &model, bytes);
  assert_true(rondo_members_entry_model(bytes, size, &file, why));
  assert_non_null(file);
  struct rondo_cost_model got = file->model;
  assert_memory_equal(file->rows, rows, sizeof rows);
  assert_ptr_equal(got.rows, file->rows);
  got.rows = model.rows;
  assert_memory_equal(&got, &model, sizeof got);
  free(file);
  struct rondo_topology *t = topology_of(&m, bytes, size); // what follows is read, too
  assert_non_null(t);
  assert_int_equal(t->places[3].pci, places[3].pci);
  rondo_topology_destroy(t);
  size = rondo_members_entry_write(&m, NULL, bytes);
  assert_true(rondo_members_entry_model(bytes, size, &file, why));
  assert_null(file);
}

// The largest model, beside all places of many ranks.
static void the_largest_cost_model_fits(void **state) {
  (void)state;
  static struct rondo_cost_file most;
  static uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  struct rondo_cost_file *file;
  most.model = model;
  most.model.rows = most.rows;
  most.model.row_count = RONDO_COST_MAX_ROWS;
  most.model.rank_points = RONDO_COST_MAX_RANKS;
  most.model.size_points = RONDO_COST_MAX_SIZES;
  for (uint32_t i = 0; i < RONDO_COST_MAX_SIZES; i++)
    most.model.sizes[i] = most.model.ranks[i % RONDO_COST_MAX_RANKS] = i + 1;
  for (uint32_t i = 0; i < RONDO_COST_MAX_RANKS; i++)
    most.model.ranks[i] = i + 1;
  for (uint32_t row = 0; row < RONDO_COST_MAX_ROWS; row++) {
    most.rows[row] = rows[0];
    for (uint32_t i = 0; i < RONDO_COST_MAX_RANKS; i++)
      for (uint32_t k = 0; k < RONDO_COST_MAX_SIZES; k++)
        most.rows[row].message_ns[i][k] = (float)(row + 1);
  }
  struct rondo_wire_member m = member(0, 1, RANKS, 1);
  uint32_t size = rondo_members_entry_write(&m, &most.model, bytes);
  assert_true(rondo_members_entry_model(bytes, size, &file, why));
  assert_memory_equal(file->rows, most.rows, sizeof most.rows);
  free(file);
}

// Any byte that is changed. Its first and last ones are found from the other end.
static void a_torn_cost_model_is_refused(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES], plain[RONDO_ROSTER_ENTRY_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  struct rondo_cost_file *file;
  struct rondo_wire_member m = member(0, 1, 4, 2);
  struct rondo_wire_member alone = m;
  alone.rank_count = 0;
  uint32_t size = rondo_members_entry_write(&alone, &model, bytes);
  uint32_t begin = rondo_members_entry_write(&alone, NULL, plain) - 4;
  for (uint32_t at = begin; at < size; at++) {
    bytes[at] ^= 1;
    assert_false(rondo_members_entry_model(bytes, size, &file, why));
    assert_memory_equal(why, "is torn", 7);
    assert_null(file);
    bytes[at] ^= 1;
  }
  for (uint32_t end = begin + 1; end < size; end++) {
    assert_false(rondo_members_entry_model(bytes, end, &file, why));
    assert_memory_equal(why, "is torn", 7);
  }
  assert_true(rondo_members_entry_model(bytes, size, &file, why));
  free(file);
}

static void a_cost_model_that_makes_no_sense_is_refused(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  char why[RONDO_COST_WHY_BYTES];
  struct rondo_cost_file *file;
  struct rondo_wire_member m = member(0, 1, 1, 1);
  struct rondo_cost_row bad_rows[4] = {rows[0], rows[0], rows[0], rows[0]};
  bad_rows[0].message_ns[1][1] = 0;
  bad_rows[1].message_ns[0][0] = NAN;
  bad_rows[2].link = RONDO_COST_LINKS;
  bad_rows[3].algorithm = RONDO_ALGORITHM_BRUCK; // an all-reduce has none
  struct rondo_cost_model bad[9] = {model, model, model, model, model, model, model, model, model};
  for (uint32_t i = 0; i < 4; i++) {
    bad[i].rows = &bad_rows[i];
    bad[i].row_count = 1;
  }
  bad[4].cores = 0;
  bad[5].ranks[1] = 2;
  bad[6].sizes[0] = 0;
  bad[7].shared[3].byte_ns = -1;
  bad[8].alone[0].latency_ns = 0;
  for (uint32_t i = 0; i < 9; i++) {
    uint32_t size = rondo_members_entry_write(&m, &bad[i], bytes);
    assert_false(rondo_members_entry_model(bytes, size, &file, why));
    assert_string_equal(why, "holds a number that makes no sense");
  }
}

// The root tells a process so that its cost model cannot be read.
static void the_root_rejects_a_torn_cost_model(void **state) {
  (void)state;
  uint8_t bytes[RONDO_ROSTER_ENTRY_BYTES];
  struct rondo_wire_member m = member(0, 1, 1, 1);
  struct rondo_rank_range range = {0, 1, 1};
  struct rondo_joined reply;
  void *gather = rondo_members_gatherer.create(UINT64_C(1000000000));
  assert_non_null(gather);
  struct rondo_join join = {.who = 9, .machine = 3, .rank_count = 2, .range_count = 1};
  join.bytes = bytes;
  for (int torn = 1; torn >= 0; torn--) {
    uint64_t who = 77;
    join.size = rondo_members_entry_write(&m, &model, bytes);
    bytes[join.size / 2] ^= (uint8_t)torn;
    struct rondo_shared_bytes *message = rondo_membership_join_encode(&join, &range);
    struct rondo_shared_bytes *answer =
        rondo_members_gatherer.receive(gather, message->bytes, message->size, 1, &who);
    assert_non_null(answer);
    assert_true(rondo_membership_joined_decode(answer->bytes, answer->size, &reply));
    assert_int_equal(*answer->bytes, torn ? RONDO_MEMBERSHIP_REJECTED : RONDO_MEMBERSHIP_JOINED);
    assert_int_equal(who, torn ? 0 : 9);
    if (torn)
      assert_string_equal(reply.text, "its cost model is torn: its checksum is wrong");
    rondo_shared_bytes_put(answer);
    rondo_shared_bytes_put(message);
  }
  rondo_members_gatherer.destroy(gather);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("members_entry", it_arrives_as_it_was_written),
      RONDO_NAMED_TEST("members_entry", equal_places_go_once),
      RONDO_NAMED_TEST("members_entry", places_that_do_not_fit_are_unknown),
      RONDO_NAMED_TEST("members_entry", malformed_entries_are_refused),
      RONDO_NAMED_TEST("members_entry", ranks_become_few_ranges),
      RONDO_NAMED_TEST("members_entry", it_says_who_the_process_is),
      RONDO_NAMED_TEST("members_entry", a_cost_model_arrives_as_it_was_written),
      RONDO_NAMED_TEST("members_entry", the_largest_cost_model_fits),
      RONDO_NAMED_TEST("members_entry", a_torn_cost_model_is_refused),
      RONDO_NAMED_TEST("members_entry", a_cost_model_that_makes_no_sense_is_refused),
      RONDO_NAMED_TEST("members_entry", the_root_rejects_a_torn_cost_model),
  };
  return cmocka_run_group_tests_name("members_entry", tests, NULL, NULL);
}
