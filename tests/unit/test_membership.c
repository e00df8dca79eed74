// Membership, rule by rule: a few cores that a test drives by hand. tests/explore/test_members.c
// drives many by seed.
#include <stdio.h>

#include "runtime/job/epoch_log.h"
#include "runtime/job/gather.h"
#include "runtime/job/membership.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define CORES 8u
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)
#define NOBODY RONDO_ROSTER_NOBODY

static const uint8_t job[16] = "a job of tests";

// --------------------------------------------------------------------- rosters ---

// A roster of `count` processes with one rank each, `each` on a machine.
static struct rondo_roster *make_roster(uint32_t count, uint32_t each, bool is_restartable) {
  struct rondo_roster_source sources[256];
  struct rondo_rank_range ranges[256];
  uint8_t absence[256] = {0};
  for (uint32_t i = 0; i < count; i++) {
    ranges[i] = (struct rondo_rank_range){i, 1, 1};
    sources[i] =
        (struct rondo_roster_source){1 + i / each, &ranges[i], 1, 4, (uint8_t *)&ranges[i]};
  }
  struct rondo_shared_bytes *bytes =
      rondo_roster_encode(sources, count, count, absence, is_restartable);
  assert_non_null(bytes);
  struct rondo_roster *roster = rondo_roster_decode(bytes);
  assert_non_null(roster);
  rondo_shared_bytes_put(bytes);
  return roster;
}

static void a_roster_comes_back_as_it_was(void **state) {
  (void)state;
  static const uint8_t first[3] = {1, 2, 3};
  const struct rondo_rank_range odd = {1, 3, 2};
  const struct rondo_rank_range even[2] = {{0, 1, 1}, {4, 1, 1}};
  const struct rondo_roster_source sources[2] = {{7, even, 2, 3, first}, {9, &odd, 1, 0, first}};
  uint8_t absence[7] = {0, 0, RONDO_ABSENT_LEFT, 0, 0, 0, RONDO_ABSENT_MISSING};
  struct rondo_shared_bytes *bytes = rondo_roster_encode(sources, 2, 7, absence, true);
  struct rondo_roster *roster = rondo_roster_decode(bytes);
  struct rondo_roster_entry entry;
  assert_int_equal(roster->process_count, 2);
  assert_int_equal(roster->machine_count, 2);
  assert_true(roster->is_restartable);
  assert_int_equal(roster->process_of[4], 0);
  assert_int_equal(roster->process_of[5], 1);
  assert_int_equal(roster->process_of[2], NOBODY);
  assert_int_equal(roster->absence[2], RONDO_ABSENT_LEFT);
  rondo_roster_entry_get(roster, 0, &entry);
  assert_int_equal(entry.machine, 7);
  assert_int_equal(rondo_roster_range(&entry, 1).first, 4);
  assert_memory_equal(entry.bytes, first, 3);
  rondo_roster_put(roster);
  rondo_shared_bytes_put(bytes);
}

static void a_damaged_roster_is_refused(void **state) {
  (void)state;
  struct rondo_roster *good = make_roster(5, 2, false);
  for (uint32_t size = 0; size < good->bytes->size; size++) {
    struct rondo_shared_bytes *part = rondo_shared_bytes_create(good->bytes->bytes, size);
    assert_null(rondo_roster_decode(part));
    rondo_shared_bytes_put(part);
  }
  rondo_roster_put(good);
  // A rank in two processes, and one in none.
  const struct rondo_rank_range ranges[2] = {{0, 2, 1}, {1, 1, 1}};
  const struct rondo_roster_source twice[2] = {{1, &ranges[0], 1, 0, job},
                                               {1, &ranges[1], 1, 0, job}};
  uint8_t absence[3] = {0};
  for (uint32_t processes = 1; processes <= 2; processes++) {
    struct rondo_shared_bytes *bytes =
        rondo_roster_encode(twice, processes, processes == 1 ? 3 : 2, absence, false);
    assert_null(rondo_roster_decode(bytes));
    rondo_shared_bytes_put(bytes);
  }
}

// ---------------------------------------------------------------------- epochs ---

static struct rondo_epoch *epoch_without(struct rondo_epoch *e, uint8_t reason, uint32_t process) {
  struct rondo_removal_list list = {NULL, 0, 0};
  assert_true(rondo_removal_list_add(&list, reason, process, ""));
  struct rondo_shared_bytes *bytes = rondo_removal_list_encode(&list);
  rondo_removal_list_fini(&list);
  struct rondo_epoch *next = rondo_epoch_next(e, bytes);
  rondo_shared_bytes_put(bytes);
  return next;
}

static void check_tree(const struct rondo_epoch *e) {
  uint32_t seen = 0;
  for (uint32_t p = 0; p < e->roster->process_count; p++) {
    uint32_t children[RONDO_EPOCH_CHILDREN];
    if (!rondo_epoch_is_member(e, p))
      continue;
    seen++;
    assert_int_equal(e->order[e->place[p]], p);
    uint32_t count = rondo_epoch_children(e, p, children);
    for (uint32_t i = 0; i < count; i++)
      assert_int_equal(rondo_epoch_parent(e, children[i]), p);
  }
  assert_int_equal(seen, e->live_count);
}

static void a_tree_stays_whole_in_any_order(void **state) {
  (void)state;
  for (uint32_t first = 0; first < 40; first++) {
    struct rondo_roster *roster = make_roster(40, 1 + first % 9, false);
    struct rondo_epoch *e = rondo_epoch_begin(roster);
    for (uint32_t i = 0; i < 40; i++) {
      uint32_t process = (first + 7 * i) % 40;
      struct rondo_epoch *next = epoch_without(e, RONDO_REMOVED_DIED, process);
      assert_non_null(next);
      assert_null(epoch_without(next, RONDO_REMOVED_LEFT, process)); // twice
      rondo_epoch_put(e);
      e = next;
      check_tree(e);
    }
    assert_int_equal(e->live_count, 0);
    rondo_epoch_put(e);
    rondo_roster_put(roster);
  }
}

static void keepers_are_of_different_machines_and_move_up(void **state) {
  (void)state;
  struct rondo_roster *roster = make_roster(24, 8, false);
  struct rondo_epoch *e = rondo_epoch_begin(roster);
  assert_int_equal(e->order[0], 0);
  assert_int_equal(e->order[1], 8);
  assert_int_equal(e->order[2], 16);
  assert_int_equal(e->order[3], 1);
  struct rondo_epoch *next = epoch_without(e, RONDO_REMOVED_DIED, 0);
  assert_int_equal(next->order[0], 8); // the second keeper coordinates
  assert_int_equal(next->order[1], 16);
  assert_int_equal(roster->machine_of[next->order[2]], 0); // the machine that has no keeper now
  rondo_epoch_put(next);
  next = epoch_without(e, RONDO_REMOVED_DIED, 20); // no keeper: the last takes its place
  assert_int_equal(next->order[e->place[20]], e->order[23]);
  rondo_epoch_put(next);
  rondo_epoch_put(e);
  rondo_roster_put(roster);
}

static void removals_merge_to_ranges(void **state) {
  (void)state;
  static const uint32_t order[] = {5, 3, 4, 9, 3};
  struct rondo_removal_list list = {NULL, 0, 0};
  struct rondo_removal r;
  uint32_t at = 0;
  for (uint32_t i = 0; i < 5; i++)
    assert_true(rondo_removal_list_add(&list, RONDO_REMOVED_LEFT, order[i], ""));
  struct rondo_shared_bytes *bytes = rondo_removal_list_encode(&list);
  assert_int_equal(rondo_removal_next(bytes, &at, &r), 1);
  assert_true(r.first == 3 && r.count == 3);
  assert_int_equal(rondo_removal_next(bytes, &at, &r), 1);
  assert_true(r.first == 9 && r.count == 1);
  assert_int_equal(rondo_removal_next(bytes, &at, &r), 0);
  rondo_shared_bytes_put(bytes);
  rondo_removal_list_fini(&list);
}

static void observers_are_the_parent_and_of_two_machines(void **state) {
  (void)state;
  struct rondo_roster *roster = make_roster(64, 8, false);
  struct rondo_epoch *e = rondo_epoch_begin(roster);
  uint32_t total = 0;
  for (uint32_t p = 0; p < 64; p++) {
    uint32_t o[RONDO_EPOCH_OBSERVERS];
    const uint32_t *observed;
    bool has_near = false;
    bool has_far = false;
    assert_int_equal(rondo_epoch_observers(e, p, o), 3);
    for (uint32_t i = 0; i < 3; i++) {
      assert_true(o[i] != p && o[i] != o[(i + 1) % 3]);
      has_near |= roster->machine_of[o[i]] == roster->machine_of[p];
      has_far |= roster->machine_of[o[i]] != roster->machine_of[p];
    }
    assert_true(has_near && has_far);
    if (p)
      assert_int_equal(o[0], rondo_epoch_parent(e, p));
    total += rondo_epoch_observe(e, p, &observed);
  }
  assert_int_equal(total, 3 * 64);
  rondo_epoch_put(e);
  rondo_roster_put(roster);
}

// ---------------------------------------------------------------------- gather ---

static struct rondo_joined gather_reply; // the last one

static int gather_join(struct rondo_gather *g, uint64_t who, uint32_t first, uint32_t count,
                       uint32_t of) {
  struct rondo_rank_range range = {first, count, 1};
  struct rondo_join join = {
      .who = who, .machine = 1, .rank_count = of, .range_count = 1, .size = 8, .bytes = job};
  join.is_leaving = who == 99;
  struct rondo_shared_bytes *bytes = rondo_membership_join_encode(&join, &range);
  struct rondo_shared_bytes *reply = rondo_gather_receive(g, bytes->bytes, bytes->size, 5 * S);
  int type = reply ? reply->bytes[0] : 0;
  assert_true(!reply || rondo_membership_joined_decode(reply->bytes, reply->size, &gather_reply));
  rondo_shared_bytes_put(bytes);
  rondo_shared_bytes_put(reply);
  return type;
}

static void describe_joiner(const uint8_t *bytes, uint32_t size, char *text, size_t capacity) {
  (void)snprintf(text, capacity, "%.*s", (int)(size < 5 ? size : 5), (const char *)bytes);
}

// The text of the reply to a JOIN with one rank of six.
static const char *gather_reason(struct rondo_gather *g, uint64_t who, uint32_t rank, uint32_t of) {
  static struct rondo_joined reply;
  struct rondo_rank_range range = {rank, 1, 1};
  struct rondo_join join = {
      .who = who, .machine = 1, .rank_count = of, .range_count = 1, .size = 8, .bytes = job};
  struct rondo_shared_bytes *bytes = rondo_membership_join_encode(&join, &range);
  struct rondo_shared_bytes *got = rondo_gather_receive(g, bytes->bytes, bytes->size, 5 * S);
  assert_non_null(got);
  assert_true(rondo_membership_joined_decode(got->bytes, got->size, &reply));
  assert_int_equal(got->bytes[0] == RONDO_MEMBERSHIP_REJECTED, reply.status != RONDO_SUCCESS);
  rondo_shared_bytes_put(bytes);
  rondo_shared_bytes_put(got);
  return reply.text;
}

static void a_rejection_says_why(void **state) {
  (void)state;
  struct rondo_gather *g = rondo_gather_create(10 * S, false);
  rondo_gather_set_describe(g, describe_joiner);
  assert_string_equal(gather_reason(g, 1, 2, 6), "0-1, 3-5"); // the missing ones
  assert_string_equal(gather_reason(g, 2, 2, 6), "rank 2 has already joined: a job");
  assert_string_equal(gather_reason(g, 2, 6, 6), "rank 6 is not below 6, the number of ranks");
  assert_string_equal(gather_reason(g, 2, 3, 5),
                      "it expects a job of 5 ranks, the others one of 6");
  rondo_shared_bytes_put(rondo_gather_finish(g, 15 * S));
  assert_string_equal(gather_reason(g, 2, 3, 6), "rank 3 joins too late");
  assert_string_equal(gather_reason(g, 2, 2, 6), "rank 2 has already joined: a job");
  rondo_gather_destroy(g);
}

// Ranks of a process that was cut off, or whose further JOIN is rejected, may join elsewhere.
static void ranks_of_a_process_that_ends_join_again(void **state) {
  (void)state;
  struct rondo_gather *g = rondo_gather_create(10 * S, false);
  rondo_gather_lose(g, 7); // it has not joined
  assert_int_equal(gather_join(g, 1, 0, 2, 4), RONDO_MEMBERSHIP_JOINED);
  assert_int_equal(gather_join(g, 99, 3, 1, 4), RONDO_MEMBERSHIP_JOINED); // leaves
  assert_int_equal(rondo_gather_joined_count(g), 3);
  rondo_gather_lose(g, 1);
  rondo_gather_lose(g, 99);
  assert_int_equal(rondo_gather_joined_count(g), 1);
  assert_int_equal(gather_join(g, 2, 1, 1, 4), RONDO_MEMBERSHIP_JOINED);
  assert_int_equal(gather_join(g, 2, 1, 3, 4), RONDO_MEMBERSHIP_REJECTED); // 3 is taken
  assert_int_equal(gather_join(g, 3, 0, 2, 4), RONDO_MEMBERSHIP_JOINED);
  assert_false(rondo_gather_is_finished(g));
  assert_int_equal(gather_join(g, 4, 2, 1, 4), RONDO_MEMBERSHIP_JOINED);
  struct rondo_shared_bytes *bytes = rondo_gather_finish(g, 6 * S);
  assert_non_null(bytes);
  assert_true(rondo_gather_is_finished(g));
  assert_int_equal(rondo_gather_place(g, 3), 0);
  rondo_gather_lose(g, 3); // no more: membership finds out
  assert_int_equal(gather_join(g, 3, 0, 2, 4), RONDO_MEMBERSHIP_JOINED);
  assert_int_equal(gather_join(g, 1, 0, 2, 4), RONDO_MEMBERSHIP_REJECTED);
  rondo_shared_bytes_put(bytes);
  rondo_gather_destroy(g);
}

static void a_root_takes_each_rank_once(void **state) {
  (void)state;
  struct rondo_gather *g = rondo_gather_create(10 * S, false);
  char text[64];
  assert_true(rondo_gather_due(g) == UINT64_MAX);
  assert_int_equal(gather_join(g, 1, 0, 2, 6), RONDO_MEMBERSHIP_JOINED);
  assert_int_equal(gather_join(g, 2, 1, 1, 6), RONDO_MEMBERSHIP_REJECTED); // taken
  assert_int_equal(gather_join(g, 2, 5, 2, 6), RONDO_MEMBERSHIP_REJECTED); // out of bounds
  assert_int_equal(gather_join(g, 2, 2, 1, 7), RONDO_MEMBERSHIP_REJECTED); // another job
  assert_int_equal(gather_join(g, 1, 0, 3, 6), RONDO_MEMBERSHIP_JOINED);   // one more
  assert_int_equal(gather_reply.status, RONDO_JOINED_WAITS);
  assert_int_equal(gather_join(g, 99, 4, 1, 6), RONDO_MEMBERSHIP_JOINED); // leaves
  assert_int_equal(gather_reply.status, RONDO_JOINED_LEAVES);
  assert_int_equal(rondo_gather_missing(g, text, sizeof text), 2);
  assert_string_equal(text, "3, 5");
  assert_null(rondo_gather_finish(g, 14 * S));
  struct rondo_shared_bytes *bytes = rondo_gather_finish(g, 15 * S);
  struct rondo_roster *roster = rondo_roster_decode(bytes);
  assert_int_equal(roster->process_count, 1);
  assert_int_equal(roster->absence[3], RONDO_ABSENT_MISSING);
  assert_int_equal(roster->absence[4], RONDO_ABSENT_LEFT);
  assert_null(rondo_gather_finish(g, 16 * S));
  assert_int_equal(gather_join(g, 1, 0, 3, 6), RONDO_MEMBERSHIP_JOINED); // has not heard yet
  assert_int_equal(gather_reply.status, RONDO_JOINED_NAMED);
  assert_int_equal(gather_join(g, 99, 4, 1, 6), RONDO_MEMBERSHIP_JOINED);
  assert_int_equal(gather_reply.status, RONDO_JOINED_LEAVES);
  assert_int_equal(gather_join(g, 3, 3, 1, 6), RONDO_MEMBERSHIP_REJECTED); // late
  rondo_roster_put(roster);
  rondo_shared_bytes_put(bytes);
  rondo_gather_destroy(g);
}

// ------------------------------------------------------------------------- logs ---

static uint8_t written[4096];
static size_t written_size;

static void write_record(struct rondo_shared_bytes *record) {
  memcpy(written + written_size, record->bytes, record->size);
  written_size += record->size;
  rondo_shared_bytes_put(record);
}

// Writes a roster, an epoch and a vote; returns the epoch.
static struct rondo_epoch *write_log(void) {
  struct rondo_roster *roster = make_roster(5, 1, true);
  struct rondo_epoch *zero = rondo_epoch_begin(roster);
  struct rondo_epoch *one = epoch_without(zero, RONDO_REMOVED_DIED, 3);
  written_size = 0;
  write_record(rondo_epoch_log_roster(job, roster));
  write_record(rondo_epoch_log_change(job, one->change));
  write_record(rondo_epoch_log_vote(job, 2, 9, 8, one->change->removals));
  rondo_epoch_put(zero);
  rondo_roster_put(roster);
  return one;
}

static void a_log_comes_back_and_a_torn_end_is_left_out(void **state) {
  (void)state;
  struct rondo_epoch *one = write_log();
  struct rondo_epoch_log log;
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  assert_true(rondo_epoch_log_read(written, written_size, job, &log, text));
  assert_int_equal(log.size, written_size);
  assert_true(log.epoch->digest == one->digest && log.instance == 2 && log.promised == 9);
  assert_int_equal(log.accepted->size, one->change->removals->size);
  rondo_epoch_log_fini(&log);
  for (size_t cut = 1; cut < written_size; cut++) {
    assert_true(rondo_epoch_log_read(written, written_size - cut, job, &log, text));
    assert_true(log.size <= written_size - cut);
    assert_true(!log.instance || cut == 0);
    rondo_epoch_log_fini(&log);
  }
  rondo_epoch_put(one);
}

static void a_foreign_or_damaged_log_is_named(void **state) {
  (void)state;
  rondo_epoch_put(write_log());
  struct rondo_epoch_log log;
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  assert_false(
      rondo_epoch_log_read(written, written_size, (const uint8_t *)"another job.....", &log, text));
  assert_non_null(strstr(text, "another job"));
  written[4] ^= 2;
  assert_false(rondo_epoch_log_read(written, written_size, job, &log, text));
  assert_non_null(strstr(text, "version"));
  written[4] ^= 2;
  written[40] ^= 1; // in the first of several records
  assert_false(rondo_epoch_log_read(written, written_size, job, &log, text));
  assert_non_null(strstr(text, "damaged"));
}

static void a_vote_for_a_later_epoch_is_kept(void **state) {
  (void)state;
  struct rondo_epoch *one = write_log();
  struct rondo_epoch_log log;
  char text[RONDO_EPOCH_LOG_TEXT_BYTES];
  write_record(rondo_epoch_log_vote(job, 4, 7, 0, NULL)); // epochs 2 and 3 are missing
  assert_true(rondo_epoch_log_read(written, written_size, job, &log, text));
  assert_true(log.epoch->number == 1 && log.instance == 4 && log.promised == 7);
  rondo_epoch_log_fini(&log);
  rondo_epoch_put(one);
}

// ------------------------------------------------------------------------ cores ---

// Cores and the messages between them, which a test lets through or loses.
struct letter {
  uint32_t from, to;
  struct rondo_shared_bytes *bytes;
};

static struct {
  struct rondo_membership *cores[CORES];
  bool is_dead[CORES];
  bool is_cut[CORES];     // what is sent to it, or by it, is lost
  bool is_stopped[CORES]; // while it is dead, too: what is sent to it waits for it
  uint32_t count, opened[CORES], ends[CORES], inspects, notices, last_live[CORES];
  uint64_t now_ns, records[CORES];
  bool is_disk_full[CORES], keeps_logs;
  struct letter letters[4096];
  uint32_t letter_count;
  char text[RONDO_MEMBERSHIP_TEXT_BYTES];
  struct rondo_removal last;
} bus;

// What is sent to the root, which is not here.
static uint32_t joins_sent;
static struct {
  uint32_t size;
  uint8_t bytes[256];
} last_join;

static void bus_step(uint32_t i, struct rondo_membership_event event);

static void bus_act(uint32_t i, struct rondo_membership_action *a) {
  uint32_t at = 0;
  switch (a->type) {
  case RONDO_MEMBERSHIP_SEND:
    if (a->process == RONDO_MEMBERSHIP_ROOT) {
      joins_sent++;
      last_join.size = a->bytes->size;
      memcpy(last_join.bytes, a->bytes->bytes, a->bytes->size);
    }
    if (a->process < CORES && bus.letter_count < 4096)
      bus.letters[bus.letter_count++] =
          (struct letter){i, a->process, rondo_shared_bytes_get(a->bytes)};
    break;
  case RONDO_MEMBERSHIP_OPENED:
    assert_int_equal(a->epoch->number, bus.opened[i] + 1);
    bus.opened[i] = a->epoch->number;
    bus.last_live[i] = a->epoch->live_count;
    (void)rondo_removal_next(a->bytes, &at, &bus.last);
    break;
  case RONDO_MEMBERSHIP_APPEND:
    bus.records[i]++;
    bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_APPENDED,
                                                .number = a->number,
                                                .text = bus.is_disk_full[i] ? "disk full" : NULL});
    break;
  case RONDO_MEMBERSHIP_INSPECT:
    bus.inspects++;
    bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_INSPECTED,
                                                .process = a->process,
                                                .state = RONDO_INSPECTED_STOPPED});
    break;
  case RONDO_MEMBERSHIP_NOTICE:
    bus.notices++;
    (void)snprintf(bus.text, sizeof bus.text, "%s", (const char *)a->bytes->bytes);
    break;
  default:
    bus.ends[i] = a->type;
    (void)snprintf(bus.text, sizeof bus.text, "%s", (const char *)a->bytes->bytes);
  }
}

static void bus_step(uint32_t i, struct rondo_membership_event event) {
  struct rondo_membership_actions actions = {NULL, 0, 0};
  if (bus.is_dead[i])
    return;
  event.now_ns = bus.now_ns;
  rondo_membership_step(bus.cores[i], &event, &actions);
  for (uint32_t k = 0; k < actions.count; k++)
    bus_act(i, &actions.items[k]);
  rondo_membership_actions_fini(&actions);
}

// Delivers all that is on the way, in order.
static void bus_deliver(void) {
  uint32_t kept = 0;
  for (uint32_t k = 0; k < bus.letter_count; k++) {
    struct letter l = bus.letters[k];
    if (bus.is_stopped[l.to]) {
      bus.letters[kept++] = l;
      continue;
    }
    if (!bus.is_dead[l.to] && !bus.is_cut[l.to] && !bus.is_cut[l.from])
      bus_step(l.to, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                                     .process = l.from,
                                                     .bytes = l.bytes->bytes,
                                                     .size = l.bytes->size});
    rondo_shared_bytes_put(l.bytes);
  }
  bus.letter_count = kept;
}

static void bus_pass(uint64_t ns) {
  for (uint64_t end_ns = bus.now_ns + ns; bus.now_ns < end_ns;) {
    bus.now_ns += 10 * MS;
    for (uint32_t i = 0; i < bus.count; i++)
      if (rondo_membership_due(bus.cores[i]) <= bus.now_ns)
        bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_TICK});
    bus_deliver();
  }
}

static uint64_t heartbeat_ns; // of the cores that bus_create makes

static void bus_create(uint32_t count, bool keeps_logs) {
  memset(&bus, 0, sizeof bus);
  bus.count = count;
  bus.now_ns = S;
  bus.keeps_logs = keeps_logs;
  for (uint32_t i = 0; i < count; i++) {
    struct rondo_rank_range range = {i, 1, 1};
    struct rondo_membership_config cfg = {
        .join = {.who = i + 1, .machine = 1, .rank_count = count, .range_count = 1, .bytes = job},
        .ranges = &range,
        .join_timeout_ns = 10 * S,
        .peer_timeout_ns = 4 * S,
        .heartbeat_ns = heartbeat_ns,
        .keeps_log = keeps_logs};
    memcpy(cfg.job, job, sizeof job);
    bus.cores[i] = rondo_membership_create(&cfg, bus.now_ns, bus.text);
    assert_non_null(bus.cores[i]);
  }
}

static void bus_begin(uint32_t count, bool keeps_logs) {
  bus_create(count, keeps_logs);
  struct rondo_roster *roster = make_roster(count, count, keeps_logs);
  bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_BEGIN,
                                              .bytes = roster->bytes->bytes,
                                              .size = roster->bytes->size});
  rondo_roster_put(roster);
  bus_pass(50 * MS);
  for (uint32_t i = 0; i < count; i++)
    assert_int_equal(bus.opened[i], 1);
}

static void bus_end(void) {
  for (uint32_t k = 0; k < bus.letter_count; k++)
    rondo_shared_bytes_put(bus.letters[k].bytes);
  for (uint32_t i = 0; i < bus.count; i++)
    rondo_membership_destroy(bus.cores[i]);
}

// Process `i` learns that `other` has ended.
static void bus_tell_died(uint32_t i, uint32_t other) {
  bus_step(
      i, (struct rondo_membership_event){
             .type = RONDO_MEMBERSHIP_CUT, .process = other, .is_proven = true, .text = "refused"});
}

// Process `i` gets the root's answer to a JOIN.
static void bus_answer(uint32_t i, uint8_t type, uint8_t status) {
  struct rondo_joined joined = {.status = status, .text = "too late"};
  struct rondo_shared_bytes *bytes = rondo_membership_joined_encode(type, &joined);
  bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                              .process = RONDO_MEMBERSHIP_ROOT,
                                              .bytes = bytes->bytes,
                                              .size = bytes->size});
  rondo_shared_bytes_put(bytes);
}

// The connection of process `i` to the root is cut.
static void bus_cut_root(uint32_t i, bool is_proven) {
  bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_CUT,
                                              .process = RONDO_MEMBERSHIP_ROOT,
                                              .is_proven = is_proven,
                                              .text = "it refuses connections"});
}

static void bus_kill(uint32_t other) {
  bus.is_dead[other] = true;
  for (uint32_t i = 0; i < bus.count; i++)
    if (i != other && !bus.is_dead[i])
      bus_tell_died(i, other);
}

static void check_opened(uint32_t number, uint32_t live) {
  for (uint32_t i = 0; i < bus.count; i++) {
    if (bus.is_dead[i] || bus.ends[i])
      continue;
    assert_int_equal(bus.opened[i], number);
    assert_int_equal(bus.last_live[i], live);
  }
}

static void deaths_of_one_moment_are_one_epoch(void **state) {
  (void)state;
  bus_begin(8, false);
  bus_kill(5);
  bus_kill(6);
  bus_kill(3);
  check_opened(1, 8); // the window
  bus_pass(100 * MS);
  check_opened(2, 5);
  assert_int_equal(bus.last.reason, RONDO_REMOVED_DIED);
  assert_string_equal(bus.last.text, "refused");
  bus_end();
}

static void the_next_keeper_goes_on(void **state) {
  (void)state;
  bus_begin(5, false);
  bus_kill(0);
  bus_pass(100 * MS);
  check_opened(2, 4);
  bus_kill(1);
  bus_pass(100 * MS);
  check_opened(3, 3);
  bus_end();
}

static void the_last_keeper_asks_all(void **state) {
  (void)state;
  bus_begin(6, false);
  bus_kill(0);
  bus_kill(1);
  bus_pass(10 * MS);
  bus_kill(2); // no keeper is left
  bus_pass(100 * MS);
  check_opened(2, 3);
  for (uint32_t i = 3; i < 6; i++)
    assert_true(rondo_membership_counters(bus.cores[i])->received[RONDO_MEMBERSHIP_PREPARE] > 0 ||
                i == 3);
  bus_end();
}

static void one_that_has_not_promised_holds_it_up(void **state) {
  (void)state;
  bus_begin(6, false);
  bus.is_dead[5] = true; // silent: nobody knows
  bus_kill(0);
  bus_kill(1);
  bus_kill(2);
  bus_pass(2 * S);
  check_opened(1, 6);
  bus_pass(30 * S);
  for (uint32_t i = 3; i < 5; i++)
    assert_int_equal(bus.ends[i], RONDO_MEMBERSHIP_NO_MAJORITY);
  bus_end();
}

static void with_logs_only_a_majority_counts(void **state) {
  (void)state;
  bus_begin(5, true);
  bus_kill(1);
  bus_pass(100 * MS);
  check_opened(2, 4);
  bus_kill(0);
  bus_kill(2);
  bus_pass(40 * S);
  for (uint32_t i = 0; i < 5; i++)
    assert_true(bus.is_dead[i] || bus.ends[i] == RONDO_MEMBERSHIP_NO_MAJORITY);
  bus_end();
}

static void a_full_disk_abstains_and_says_so(void **state) {
  (void)state;
  bus_begin(5, true);
  bus.is_disk_full[1] = true;
  bus_kill(4);
  bus_pass(100 * MS);
  check_opened(2, 4); // two of three keep the record
  assert_int_equal(bus.notices, 1);
  assert_non_null(strstr(bus.text, "disk full"));
  bus.is_disk_full[0] = true; // now only one can
  bus_kill(3);
  bus_pass(S);
  check_opened(2, 4);
  bus.is_disk_full[0] = bus.is_disk_full[1] = false;
  bus_pass(5 * S);
  check_opened(3, 3);
  bus_end();
}

static void a_record_is_kept_before_the_reply(void **state) {
  (void)state;
  bus_begin(3, true);
  uint64_t before = bus.records[2];
  struct rondo_membership_message prepare = {
      .type = RONDO_MEMBERSHIP_PREPARE, .epoch = 1, .instance = 2, .ballot = 77};
  struct rondo_shared_bytes *bytes = rondo_membership_message_encode(&prepare);
  struct rondo_membership_actions actions = {NULL, 0, 0};
  struct rondo_membership_event event = {.type = RONDO_MEMBERSHIP_RECEIVE,
                                         .now_ns = bus.now_ns,
                                         .process = 0,
                                         .bytes = bytes->bytes,
                                         .size = bytes->size};
  rondo_membership_step(bus.cores[2], &event, &actions);
  assert_int_equal(actions.count, 1);
  assert_int_equal(actions.items[0].type, RONDO_MEMBERSHIP_APPEND);
  event = (struct rondo_membership_event){
      .type = RONDO_MEMBERSHIP_APPENDED, .now_ns = bus.now_ns, .number = actions.items[0].number};
  rondo_membership_actions_clear(&actions);
  rondo_membership_step(bus.cores[2], &event, &actions);
  assert_int_equal(actions.count, 1);
  assert_int_equal(actions.items[0].bytes->bytes[0], RONDO_MEMBERSHIP_PROMISE);
  rondo_membership_actions_clear(&actions);
  // A lower ballot is refused now.
  prepare.ballot = 76;
  rondo_shared_bytes_put(bytes);
  bytes = rondo_membership_message_encode(&prepare);
  event = (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                          .now_ns = bus.now_ns,
                                          .process = 1,
                                          .bytes = bytes->bytes,
                                          .size = bytes->size};
  rondo_membership_step(bus.cores[2], &event, &actions);
  assert_int_equal(actions.items[0].bytes->bytes[0], RONDO_MEMBERSHIP_REFUSED);
  rondo_membership_actions_fini(&actions);
  rondo_shared_bytes_put(bytes);
  assert_int_equal(bus.records[2], before);
  bus_end();
}

static void leaving_waits_for_the_epoch_and_hands_over(void **state) {
  (void)state;
  bus_begin(5, false);
  bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
  bus_step(4, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
  assert_int_equal(bus.ends[0], 0);
  bus_pass(100 * MS);
  assert_int_equal(bus.ends[0], RONDO_MEMBERSHIP_LEFT);
  assert_int_equal(bus.ends[4], RONDO_MEMBERSHIP_LEFT);
  check_opened(2, 3);
  bus.is_dead[0] = bus.is_dead[4] = true;
  bus_step(2, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_DROP_RANK, .process = 2});
  bus_pass(100 * MS);
  check_opened(3, 3); // a rank is no process
  assert_int_equal(bus.last.reason, RONDO_REMOVED_RANK);
  bus_end();
}

// The root has made the roster, which names a process that leaves, and is still on its way.
static void a_leave_before_the_roster_comes_is_told_with_it(void **state) {
  (void)state;
  for (uint32_t who = 0; who < 3; who += 2) {
    bus_create(3, false);
    joins_sent = 0;
    bus_step(who, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
    assert_int_equal(last_join.bytes[RONDO_MEMBERSHIP_JOIN_LEAVING], 1);
    bus_answer(who, RONDO_MEMBERSHIP_JOINED, RONDO_JOINED_WAITS); // to an earlier JOIN
    bus_cut_root(who, false);
    assert_int_equal(joins_sent, 2); // again at once
    bus_answer(who, RONDO_MEMBERSHIP_JOINED, RONDO_JOINED_NAMED);
    bus_cut_root(who, false);
    assert_int_equal(joins_sent, 2);
    assert_int_equal(bus.ends[who], 0);
    struct rondo_roster *roster = make_roster(3, 3, false);
    bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_BEGIN,
                                                .bytes = roster->bytes->bytes,
                                                .size = roster->bytes->size});
    rondo_roster_put(roster);
    bus_pass(100 * MS);
    assert_int_equal(bus.ends[who], RONDO_MEMBERSHIP_LEFT);
    assert_int_equal(bus.last_live[1], 2);
    assert_int_equal(bus.last_live[2 - who], 2);
    assert_int_equal(bus.last.reason, RONDO_REMOVED_LEFT);
    assert_int_equal(bus.last.first, who);
    bus_end();
  }
}

static void a_leave_before_the_roster_is_made_ends_with_the_answer(void **state) {
  (void)state;
  bus_create(4, false);
  for (uint32_t i = 0; i < 4; i++)
    bus_step(i, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_LEAVE});
  bus_answer(0, RONDO_MEMBERSHIP_JOINED, RONDO_JOINED_LEAVES);
  bus_answer(1, RONDO_MEMBERSHIP_REJECTED, 1);
  bus_cut_root(2, true);
  bus_answer(3, RONDO_MEMBERSHIP_JOINED, RONDO_JOINED_WAITS);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(bus.ends[i], RONDO_MEMBERSHIP_LEFT);
  bus_cut_root(3, true); // the roster may be on its way
  assert_int_equal(bus.ends[3], 0);
  bus_pass(2 * S);
  assert_int_equal(bus.ends[3], RONDO_MEMBERSHIP_LEFT);
  bus_end();
}

static void silence_counts_when_somebody_is_blocked(void **state) {
  (void)state;
  const uint32_t on = 3;
  bus_begin(5, false);
  bus.is_dead[3] = true;
  bus_pass(60 * S);
  check_opened(1, 5); // nobody waits for it
  bus_step(4, (struct rondo_membership_event){
                  .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
  bus_pass(3 * S);
  check_opened(1, 5);
  bus_pass(3 * S);
  check_opened(2, 4);
  assert_int_equal(bus.last.reason, RONDO_REMOVED_SILENT);
  assert_true(bus.inspects > 0);
  assert_non_null(strstr(bus.last.text, "stopped"));
  bus_end();
}

static void with_heartbeats_silence_counts_when_nobody_is_blocked(void **state) {
  (void)state;
  heartbeat_ns = 200 * MS;
  bus_begin(5, false);
  heartbeat_ns = 0;
  bus_pass(60 * S);
  check_opened(1, 5); // all answer
  bus.is_dead[3] = true;
  bus_pass(600 * MS);
  check_opened(1, 5); // three periods at least
  bus_pass(300 * MS); // four at most, and the time to agree
  check_opened(2, 4);
  assert_int_equal(bus.last.reason, RONDO_REMOVED_SILENT);
  assert_non_null(strstr(bus.last.text, "stopped"));
  bus.is_dead[0] = true; // the coordinator
  bus_pass(900 * MS);
  check_opened(3, 3);
  bus_end();
}

static void four_heartbeats_take_no_longer_than_the_peer_timeout(void **state) {
  (void)state;
  heartbeat_ns = UINT64_MAX;
  bus_begin(5, false);
  heartbeat_ns = 0;
  bus.is_dead[3] = true;
  bus_pass(3 * S);
  check_opened(1, 5);
  bus_pass(1500 * MS); // the peer timeout is 4 s
  check_opened(2, 4);
  bus_end();
}

static void who_answers_is_kept_however_long_it_blocks(void **state) {
  (void)state;
  const uint32_t on = 3;
  bus_begin(5, false);
  bus_step(4, (struct rondo_membership_event){
                  .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
  bus_pass(100 * S);
  check_opened(1, 5);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(bus.ends[i], 0);
  bus_end();
}

// When it goes on, it reads what was sent to it before it learns that the others refuse
// connections: they have left, which it cannot tell from their end.
static void one_that_was_put_out_does_not_go_on_alone(void **state) {
  (void)state;
  for (uint32_t out = 0; out < 5; out += 4) {
    const uint32_t on = out;
    bus_begin(5, false);
    bus.is_dead[out] = bus.is_stopped[out] = true;
    bus_step(2, (struct rondo_membership_event){
                    .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
    bus_pass(20 * S);
    check_opened(2, 4);
    assert_int_equal(bus.last.reason, RONDO_REMOVED_SILENT);
    bus.is_dead[out] = bus.is_stopped[out] = false;
    for (uint32_t i = 0; i < 5; i++)
      bus.is_dead[i] = i != out;
    bus_deliver();
    for (uint32_t i = 0; i < 5; i++)
      if (i != out)
        bus_tell_died(out, i);
    bus_pass(S);
    assert_int_equal(bus.ends[out], RONDO_MEMBERSHIP_EVICTED);
    bus_end();
  }
}

// The cut of one of five is over, and the others have left.
static void bus_leave_alone(uint32_t out) {
  bus.is_cut[out] = false;
  for (uint32_t i = 0; i < 5; i++)
    bus.is_dead[i] = i != out;
}

// It learns that all others refuse connections, and does not go on.
static void check_stays_out(uint32_t out) {
  for (uint32_t i = 0; i < 5; i++)
    if (i != out)
      bus_tell_died(out, i);
  bus_pass(30 * S);
  assert_int_equal(bus.opened[out], 1);
  assert_int_equal(bus.ends[out], RONDO_MEMBERSHIP_NO_MAJORITY);
}

// The others put it out, and have left when the cut is over: it has heard nothing of that.
static void one_that_was_cut_off_does_not_go_on_alone(void **state) {
  (void)state;
  for (uint32_t out = 0; out < 5; out += 4) {
    const uint32_t on = out;
    const uint32_t others[] = {1, 2, 3};
    bus_begin(5, false);
    bus.is_cut[out] = true;
    bus_step(2, (struct rondo_membership_event){
                    .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
    bus_step(out, (struct rondo_membership_event){
                      .type = RONDO_MEMBERSHIP_BLOCK, .count = 3, .processes = others});
    bus_pass(10 * S);
    assert_int_equal(bus.opened[2], 2);
    assert_int_equal(bus.ends[out], 0);
    bus_leave_alone(out);
    check_stays_out(out);
    bus_end();
  }
}

// The end of a keeper counts only if it had answered too recently to have put this process out.
static void one_that_was_cut_off_for_a_while_does_not_take_refusals_for_ends(void **state) {
  (void)state;
  for (uint32_t out = 0; out < 5; out++) {
    const uint32_t on = out;
    bus_begin(5, false);
    bus.is_cut[out] = true;
    uint64_t before_ns = bus.now_ns;
    bus_step(out ? 0 : 1, (struct rondo_membership_event){
                              .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
    bus_pass(2500 * MS); // nobody is silent for it yet
    bus_leave_alone(out);
    for (uint32_t i = 0; i < 5; i++) {
      // What a process answered before the cut may arrive now.
      struct rondo_membership_message answer = {
          .type = RONDO_MEMBERSHIP_ANSWER, .epoch = 1, .age_ns = UINT64_MAX, .stamp_ns = before_ns};
      struct rondo_shared_bytes *bytes = rondo_membership_message_encode(&answer);
      if (i != out)
        bus_step(out, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                                      .process = i,
                                                      .bytes = bytes->bytes,
                                                      .size = bytes->size});
      rondo_shared_bytes_put(bytes);
    }
    check_stays_out(out);
    bus_end();
  }
}

// The two of four members that are not among `some`, or those that are.
static void pair_do(const uint32_t *some, bool others, void (*act)(uint32_t process)) {
  for (uint32_t i = 0; i < 4; i++)
    if ((i == some[0] || i == some[1]) != others)
      act(i);
}

static void bus_stop(uint32_t process) { bus.is_dead[process] = bus.is_stopped[process] = true; }

static void bus_end_in_silence(uint32_t process) { bus.is_dead[process] = true; }

static void bus_wake(uint32_t process) {
  bus.is_dead[process] = bus.is_stopped[process] = bus.is_cut[process] = false;
}

static void bus_tell_all_died(uint32_t process) {
  for (uint32_t i = 0; i < 4; i++)
    if (i != process && !bus.is_dead[i])
      bus_tell_died(i, process);
}

// Two are stopped together, and wake together when the others have put them out, gone on and left.
// `hears`: what was sent to them meanwhile has reached their machines.
static void stop_a_pair(uint32_t first, uint32_t second, bool hears) {
  const uint32_t out[2] = {first, second};
  const uint32_t other = first ? 0 : second == 1 ? 2 : 1;
  bus_begin(4, false);
  pair_do(out, false, bus_stop);
  bus_step(other, (struct rondo_membership_event){
                      .type = RONDO_MEMBERSHIP_BLOCK, .count = 2, .processes = out});
  bus_pass(12 * S);
  // Two keepers that were stopped are a majority: the others cannot go on either.
  assert_true(second < 3 ? bus.opened[other] == 1 : bus.opened[other] > 1);
  pair_do(out, true, bus_end_in_silence);
  pair_do(out, false, bus_wake);
  for (uint32_t k = 0; k < bus.letter_count && !hears; k++)
    rondo_shared_bytes_put(bus.letters[k].bytes);
  bus.letter_count = hears ? bus.letter_count : 0;
  bus_deliver();
  pair_do(out, true, bus_tell_all_died);
  bus_pass(40 * S);
  for (uint32_t k = 0; k < 2 && second == 3; k++) {
    assert_true(hears || bus.opened[out[k]] == 1);
    assert_int_equal(bus.ends[out[k]],
                     hears ? RONDO_MEMBERSHIP_EVICTED : RONDO_MEMBERSHIP_NO_MAJORITY);
  }
  bus_end();
}

static void two_that_were_stopped_do_not_go_on_as_a_pair(void **state) {
  (void)state;
  for (uint32_t first = 0; first < 4; first++)
    for (uint32_t second = first + 1; second < 4; second++)
      for (int hears = 0; hears < 2; hears++)
        stop_a_pair(first, second, hears);
}

// Two keepers of four members, in a job that nothing has happened in for long.
static void two_keepers_that_have_ended_at_once_are_done_without(void **state) {
  (void)state;
  for (uint32_t first = 0; first < 3; first++) {
    bus_begin(4, false);
    bus_pass(60 * S + first * 123 * MS);
    bus_kill(first);
    bus_kill((first + 1) % 3);
    bus_pass(100 * MS);
    check_opened(2, 2);
    bus_end();
  }
}

// A keeper is silent, and another one ends. If the first one is known to have ended, too, the
// others go on; until then nobody knows whether it goes on itself.
static void a_keeper_that_ends_beside_a_silent_one_costs_the_majority(void **state) {
  (void)state;
  for (int ends = 0; ends < 2; ends++) {
    bus_begin(4, false);
    bus_pass(10 * S);
    bus.is_dead[1] = true; // in silence
    bus_pass(3 * S);
    bus_kill(0);
    bus_pass(3 * S);
    check_opened(1, 4);
    if (ends) {
      bus_kill(1);
      bus_pass(100 * MS);
      check_opened(2, 2);
    } else {
      bus_pass(4 * 4 * S);
      for (uint32_t i = 2; i < 4; i++)
        assert_int_equal(bus.ends[i], RONDO_MEMBERSHIP_NO_MAJORITY);
    }
    bus_end();
  }
}

static void a_minority_gives_up_after_a_bounded_time(void **state) {
  (void)state;
  const uint32_t on = 0;
  bus_begin(5, false);
  bus.is_dead[0] = bus.is_dead[1] = true; // the keepers 0 and 1, in silence
  bus_step(4, (struct rondo_membership_event){
                  .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
  bus_pass(4 * 4 * S - S);
  assert_int_equal(bus.ends[4], 0);
  bus_pass(4 * S);
  assert_int_equal(bus.ends[4], RONDO_MEMBERSHIP_NO_MAJORITY);
  check_opened(1, 5);
  bus_end();
}

static void who_was_removed_learns_it_when_it_speaks(void **state) {
  (void)state;
  const uint32_t on = 1;
  bus_begin(5, false);
  bus.is_dead[3] = true;
  for (uint32_t i = 0; i < 5; i++)
    if (i != 3)
      bus_tell_died(i, 3);
  bus_pass(100 * MS);
  check_opened(2, 4);
  bus.is_dead[3] = false;
  bus_step(3, (struct rondo_membership_event){
                  .type = RONDO_MEMBERSHIP_BLOCK, .count = 1, .processes = &on});
  bus_pass(2 * S);
  assert_int_equal(bus.ends[3], RONDO_MEMBERSHIP_EVICTED);
  bus_end();
}

static void old_messages_are_dropped_and_new_ones_ask(void **state) {
  (void)state;
  bus_begin(5, false);
  bus_kill(4);
  bus_pass(100 * MS);
  check_opened(2, 4);
  struct rondo_report_item item = {.kind = RONDO_REPORT_DIED, .process = 3, .by = 1};
  for (uint32_t epoch = 1; epoch <= 3; epoch += 2) {
    uint32_t count = 1;
    struct rondo_shared_bytes *bytes = rondo_membership_report_encode(epoch, &item, &count);
    const struct rondo_membership_counters *c = rondo_membership_counters(bus.cores[0]);
    uint64_t old = c->old;
    item.process = 2;
    bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                                .process = 1,
                                                .bytes = bytes->bytes,
                                                .size = bytes->size});
    rondo_shared_bytes_put(bytes);
    assert_int_equal(c->old, old + (epoch == 1));
    assert_int_equal(c->sent[RONDO_MEMBERSHIP_FETCH], epoch == 3);
    if (epoch == 1)
      bus_pass(100 * MS);
    if (epoch == 1)
      check_opened(2, 4); // nothing came of the old one
  }
  bus_end();
}

static void malformed_messages_are_refused(void **state) {
  (void)state;
  static const uint8_t types[] = {RONDO_MEMBERSHIP_ACK,      RONDO_MEMBERSHIP_FETCH,
                                  RONDO_MEMBERSHIP_WATCH,    RONDO_MEMBERSHIP_VERDICT,
                                  RONDO_MEMBERSHIP_PROBE,    RONDO_MEMBERSHIP_ANSWER,
                                  RONDO_MEMBERSHIP_PREPARE,  RONDO_MEMBERSHIP_PROMISE,
                                  RONDO_MEMBERSHIP_ACCEPTED, RONDO_MEMBERSHIP_REFUSED};
  struct rondo_membership_message out;
  for (size_t i = 0; i < sizeof types; i++) {
    struct rondo_membership_message m = {.type = types[i], .instance = 1, .ballot = 1};
    struct rondo_shared_bytes *bytes = rondo_membership_message_encode(&m);
    assert_true(rondo_membership_message_decode(bytes->bytes, bytes->size, &out));
    for (uint32_t size = 0; size < bytes->size; size++)
      assert_false(rondo_membership_message_decode(bytes->bytes, size, &out));
    rondo_shared_bytes_put(bytes);
  }
  bus_begin(3, false);
  bus_step(0, (struct rondo_membership_event){
                  .type = RONDO_MEMBERSHIP_RECEIVE, .process = 1, .bytes = "nonsense", .size = 8});
  assert_int_equal(rondo_membership_counters(bus.cores[0])->refused, 1);
  bus_end();
}

static void joining_ends_with_the_timeout_or_a_rejection(void **state) {
  (void)state;
  bus_create(2, false);
  bus_pass(9 * S);
  assert_int_equal(bus.ends[0], 0);
  bus_answer(1, RONDO_MEMBERSHIP_REJECTED, 1);
  assert_int_equal(bus.ends[1], RONDO_MEMBERSHIP_FAILED);
  bus_pass(7 * S); // the root may have begun later
  assert_int_equal(bus.ends[0], RONDO_MEMBERSHIP_FAILED);
  bus_end();
}

// A JOIN with more ranks is sent at once, and is the one that is repeated.
static void more_ranks_join_with_the_next_join(void **state) {
  (void)state;
  struct rondo_rank_range range = {0, 2, 1};
  struct rondo_join join = {
      .who = 1, .machine = 1, .rank_count = 2, .range_count = 1, .bytes = job};
  struct rondo_shared_bytes *more = rondo_membership_join_encode(&join, &range);
  bus_create(1, false);
  for (int i = 0; i < 2; i++) {
    joins_sent = 0;
    bus_step(0, (struct rondo_membership_event){.type = i ? RONDO_MEMBERSHIP_CUT
                                                          : RONDO_MEMBERSHIP_JOIN_AGAIN,
                                                .process = RONDO_MEMBERSHIP_ROOT,
                                                .bytes = more->bytes,
                                                .size = more->size});
    assert_int_equal(joins_sent, !i);
    bus_pass(2 * S);
    assert_int_equal(joins_sent, 1);
    assert_int_equal(last_join.size, more->size);
    assert_memory_equal(last_join.bytes, more->bytes, more->size);
  }
  rondo_shared_bytes_put(more);
  bus_end();
}

// The roster may be on its way when the root ends.
static void joining_ends_soon_after_the_root(void **state) {
  (void)state;
  for (int comes = 0; comes < 2; comes++) {
    bus_create(2, false);
    bus_cut_root(0, true);
    bus_pass(1 * S);
    assert_int_equal(bus.ends[0], 0);
    struct rondo_roster *roster = make_roster(2, 1, false);
    if (comes)
      bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_BEGIN,
                                                  .bytes = roster->bytes->bytes,
                                                  .size = roster->bytes->size});
    assert_int_equal(rondo_membership_roster(bus.cores[0]) != NULL, comes);
    bus_pass(2 * S);
    assert_int_equal(bus.ends[0], comes ? 0 : RONDO_MEMBERSHIP_FAILED);
    if (!comes)
      assert_string_equal(bus.text, "the process with the root is gone: it refuses connections");
    rondo_roster_put(roster);
    bus_end();
  }
}

// Gives core `to` a vote message of `from`, with a change that removes `process` unless it is
// NOBODY.
static void bus_vote(uint32_t to, uint32_t from, uint8_t type, uint64_t ballot, uint32_t process) {
  struct rondo_membership_message m = {.type = type, .epoch = 1, .instance = 2, .ballot = ballot};
  struct rondo_removal_list list = {NULL, 0, 0};
  struct rondo_shared_bytes *change = NULL;
  if (process != NOBODY) {
    assert_true(rondo_removal_list_add(&list, RONDO_REMOVED_DIED, process, ""));
    change = rondo_removal_list_encode(&list);
  }
  struct rondo_shared_bytes *bytes = rondo_membership_vote_encode(&m, change);
  bus_step(to, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                               .process = from,
                                               .bytes = bytes->bytes,
                                               .size = bytes->size});
  rondo_shared_bytes_put(bytes);
  rondo_shared_bytes_put(change);
  rondo_removal_list_fini(&list);
}

// Twin DEAD_BELIEVED of tests/model/epoch.pml.
static void after_a_vote_of_all_the_dead_are_not_believed(void **state) {
  (void)state;
  for (int all_vote = 0; all_vote < 2; all_vote++) {
    bus_begin(6, false);
    struct rondo_epoch *next =
        epoch_without(rondo_membership_epoch(bus.cores[0]), RONDO_REMOVED_DIED, 2);
    struct rondo_shared_bytes *late = rondo_membership_epoch_encode(next, 2);
    if (all_vote)
      bus_vote(5, 3, RONDO_MEMBERSHIP_PREPARE, UINT64_C(1) << 44, 0);
    bus_step(5, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_RECEIVE,
                                                .process = 0,
                                                .bytes = late->bytes,
                                                .size = late->size});
    assert_int_equal(bus.opened[5], all_vote ? 1 : 2);
    rondo_shared_bytes_put(late);
    rondo_epoch_put(next);
    bus_end();
  }
}

// Twin LEADS_ON of tests/model/epoch.pml.
static void who_promises_a_higher_ballot_leads_no_lower_one(void **state) {
  (void)state;
  for (int promises = 0; promises < 2; promises++) {
    bus_begin(5, false);
    bus_tell_died(0, 4);
    bus.now_ns += 30 * MS;
    bus_step(0, (struct rondo_membership_event){.type = RONDO_MEMBERSHIP_TICK}); // proposes
    if (promises)
      bus_vote(0, 1, RONDO_MEMBERSHIP_PREPARE, UINT64_C(1) << 44, NOBODY);
    bus_vote(0, 1, RONDO_MEMBERSHIP_ACCEPTED, 1, NOBODY);
    bus_vote(0, 2, RONDO_MEMBERSHIP_ACCEPTED, 1, NOBODY);
    assert_int_equal(bus.opened[0], promises ? 1 : 2);
    bus_end();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("membership", a_roster_comes_back_as_it_was),
      RONDO_NAMED_TEST("membership", a_damaged_roster_is_refused),
      RONDO_NAMED_TEST("membership", a_tree_stays_whole_in_any_order),
      RONDO_NAMED_TEST("membership", keepers_are_of_different_machines_and_move_up),
      RONDO_NAMED_TEST("membership", removals_merge_to_ranges),
      RONDO_NAMED_TEST("membership", observers_are_the_parent_and_of_two_machines),
      RONDO_NAMED_TEST("membership", a_root_takes_each_rank_once),
      RONDO_NAMED_TEST("membership", a_rejection_says_why),
      RONDO_NAMED_TEST("membership", ranks_of_a_process_that_ends_join_again),
      RONDO_NAMED_TEST("membership", a_log_comes_back_and_a_torn_end_is_left_out),
      RONDO_NAMED_TEST("membership", a_foreign_or_damaged_log_is_named),
      RONDO_NAMED_TEST("membership", a_vote_for_a_later_epoch_is_kept),
      RONDO_NAMED_TEST("membership", deaths_of_one_moment_are_one_epoch),
      RONDO_NAMED_TEST("membership", the_next_keeper_goes_on),
      RONDO_NAMED_TEST("membership", the_last_keeper_asks_all),
      RONDO_NAMED_TEST("membership", one_that_has_not_promised_holds_it_up),
      RONDO_NAMED_TEST("membership", with_logs_only_a_majority_counts),
      RONDO_NAMED_TEST("membership", a_full_disk_abstains_and_says_so),
      RONDO_NAMED_TEST("membership", a_record_is_kept_before_the_reply),
      RONDO_NAMED_TEST("membership", leaving_waits_for_the_epoch_and_hands_over),
      RONDO_NAMED_TEST("membership", a_leave_before_the_roster_comes_is_told_with_it),
      RONDO_NAMED_TEST("membership", a_leave_before_the_roster_is_made_ends_with_the_answer),
      RONDO_NAMED_TEST("membership", silence_counts_when_somebody_is_blocked),
      RONDO_NAMED_TEST("membership", with_heartbeats_silence_counts_when_nobody_is_blocked),
      RONDO_NAMED_TEST("membership", four_heartbeats_take_no_longer_than_the_peer_timeout),
      RONDO_NAMED_TEST("membership", who_answers_is_kept_however_long_it_blocks),
      RONDO_NAMED_TEST("membership", one_that_was_put_out_does_not_go_on_alone),
      RONDO_NAMED_TEST("membership", one_that_was_cut_off_does_not_go_on_alone),
      RONDO_NAMED_TEST("membership",
                       one_that_was_cut_off_for_a_while_does_not_take_refusals_for_ends),
      RONDO_NAMED_TEST("membership", two_that_were_stopped_do_not_go_on_as_a_pair),
      RONDO_NAMED_TEST("membership", two_keepers_that_have_ended_at_once_are_done_without),
      RONDO_NAMED_TEST("membership", a_keeper_that_ends_beside_a_silent_one_costs_the_majority),
      RONDO_NAMED_TEST("membership", a_minority_gives_up_after_a_bounded_time),
      RONDO_NAMED_TEST("membership", who_was_removed_learns_it_when_it_speaks),
      RONDO_NAMED_TEST("membership", old_messages_are_dropped_and_new_ones_ask),
      RONDO_NAMED_TEST("membership", malformed_messages_are_refused),
      RONDO_NAMED_TEST("membership", after_a_vote_of_all_the_dead_are_not_believed),
      RONDO_NAMED_TEST("membership", who_promises_a_higher_ballot_leads_no_lower_one),
      RONDO_NAMED_TEST("membership", more_ranks_join_with_the_next_join),
      RONDO_NAMED_TEST("membership", joining_ends_soon_after_the_root),
      RONDO_NAMED_TEST("membership", joining_ends_with_the_timeout_or_a_rejection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
