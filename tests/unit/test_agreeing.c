// What connects the agreement on registrations with a job: the other process is the test. Which
// offers are bound, and what follows when there is no memory. Built with the explorer's points, for
// the faults.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/explore.h"
#include "daemon/host/host.h"
#include "runtime/api/api_context.h"
#include "runtime/job/match_entry.h"
#include "runtime/job/message.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/link_binding.h"
#include "tests/support/hand_mesh.h"
#include "tests/support/named.h"
#include <rondo/comm.h>

#define COUNT 1000u
#define ARENA_BYTES (UINT64_C(1) << 24)
#define MOST_FAILURES 100

int rondo_fault_planted;

void rondo_explore_point(const char *name) { (void)name; }

void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  (void)name, (void)pair, (void)first, (void)second;
}

// ------------------------------------------------------------------- memory ---

static _Thread_local int left = -1; // allocations before one fails; -1: none does

static int fails(void) { return left >= 0 && left-- == 0; }

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) {
  return fails() ? NULL : __real_calloc(count, bytes);
}
void *__wrap_realloc(void *memory, size_t bytes) {
  return fails() ? NULL : __real_realloc(memory, bytes);
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// ---------------------------------------------------------------- a process ---

// What this process has said last, of each type.
static struct {
  uint64_t offers[64], entry[64];
  size_t offers_bytes, entry_bytes;
  uint32_t releases, comm_failures;
} said;

static struct rondo_context ctx;
static struct rondo_collective coll;
static struct rondo_job *job;

static void keep(const struct rondo_mesh_send *m) {
  if (m->type == RONDO_MESSAGE_OFFERS && m->size <= sizeof said.offers) {
    memcpy(said.offers, m->bytes, m->size);
    said.offers_bytes = m->size;
  }
  if (m->type == RONDO_MESSAGE_ENTRY && m->size <= sizeof said.entry) {
    memcpy(said.entry, m->bytes, m->size);
    said.entry_bytes = m->size;
  }
  said.releases += m->type == RONDO_MESSAGE_RELEASE;
  const struct rondo_message_entry *entry = m->bytes;
  said.comm_failures += m->type == RONDO_MESSAGE_ENTRY && entry->key.id.space == RONDO_SPACE_KEY;
}

// Rank 0 registers `d`; rank 1 lives in the other process.
static void process_open_with(struct rondo_collective_desc d) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  const struct rondo_manual manual = {0};
  struct rondo_rank *rank = NULL;
  memset(&said, 0, sizeof said);
  rondo_hand_mesh_put();
  rondo_hand_mesh.sent = keep;
  c.id.bytes[0] = 7;
  c.rank_count = 2;
  assert_int_equal(rondo_context_create(&ctx, &c, &manual), RONDO_SUCCESS);
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  assert_int_equal(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  job = rank->job;
  rondo_rank_unpin(ctx);
}

static void process_open(void) {
  process_open_with(rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM));
}

static void process_close(void) {
  assert_int_equal(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
}

static void roster_come(void) { rondo_hand_mesh.events.roster(rondo_hand_mesh.arg); }

static void rank_leave(int reason) {
  const uint32_t rank = 1;
  rondo_hand_mesh.events.lost(rondo_hand_mesh.arg, &rank, 1, reason, "test");
}

static struct rondo_communicator *comm_of(void) {
  const struct rondo_match_entry *m = rondo_match_entry_find(job, (struct rondo_id){.number = 1});
  assert_non_null(m);
  assert_non_null(m->comms);
  return m->comms;
}

static uint32_t gate(void) { return comm_of()->gate.state; }

// The other process shows its memory, which has nothing in it.
static void other_greet(void) {
  const struct rondo_message_arena hello = {.base = UINT64_C(1) << 32, .bytes = ARENA_BYTES};
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, (off_t)ARENA_BYTES) == 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  rondo_hand_mesh_say(RONDO_MESSAGE_ARENA, &hello, sizeof hello, fd);
  close(fd);
}

// Rank 1 offers what rank 0 has offered, as one that has registered `more` elements more.
static void other_offer(uint64_t more) {
  struct rondo_message_offers *head = (struct rondo_message_offers *)said.offers;
  struct rondo_connector_offer *offer = (struct rondo_connector_offer *)(head + 1);
  assert_int_equal(said.offers_bytes, rondo_message_offers_bytes(head));
  assert_int_equal(head->offer_count, 1);
  head->rank = head->position = 1;
  head->descriptor.count += more;
  offer->from = 0;
  rondo_hand_mesh_say(RONDO_MESSAGE_OFFERS, said.offers, said.offers_bytes, -1);
}

static void other_detach(void) {
  const struct rondo_message_offers *head = (const struct rondo_message_offers *)said.offers;
  const struct rondo_message_detach d = {head->key.id, head->key.generation, 1, UINT32_MAX};
  rondo_hand_mesh_say(RONDO_MESSAGE_DETACH, &d, sizeof d, -1);
}

// The other process, which is a child in the tree, says that it has registered what this one has.
static void other_agree(void) {
  struct rondo_message_entry *head = (struct rondo_message_entry *)said.entry;
  head->rank = 1;
  head->facts = RONDO_ENTRY_PROPOSED | RONDO_ENTRY_COMPLETE;
  head->range_count = 0;
  rondo_hand_mesh_say(RONDO_MESSAGE_ENTRY, head, sizeof *head, -1);
}

// ------------------------------------------------------------------- offers ---

// True if the connectors of an offer are bound.
static bool is_bound(uint64_t more) {
  process_open();
  roster_come();
  other_greet();
  other_offer(more);
  const struct rondo_link *link = rondo_communicator_link(comm_of(), 0, 1);
  assert_non_null(link);
  bool bound = link->is_ready;
  other_detach();
  assert_int_equal(said.releases, !bound); // what is bound is released by the end here
  process_close();
  return bound;
}

static void offers_are_bound_if_their_rank_has_registered_the_same(void **state) {
  (void)state;
  assert_true(is_bound(0));
  assert_false(is_bound(1));
}

static void a_fault_in_the_comparison_is_seen(void **state) {
  (void)state;
  rondo_fault_planted = RONDO_FAULT_OFFERS_UNCHECKED;
  bool bound = is_bound(1);
  rondo_fault_planted = RONDO_FAULT_NONE;
  assert_true(bound);
}

// The ranks of an all-to-all-v differ in what rank 0 sends, or rank 1: -1, neither.
static void exchange(int differs) {
  const uint64_t counts[] = {5, 6};
  char why[RONDO_REASON_BYTES];
  process_open_with(rondo_all_to_all_v(1, RONDO_INT32, counts, NULL, counts, NULL));
  roster_come();
  other_greet();
  uint64_t *theirs = &said.offers[said.offers_bytes / sizeof *said.offers - 2];
  assert_int_equal(theirs[0], 6);
  assert_int_equal(theirs[1], 6);
  if (differs >= 0)
    theirs[1 - differs] = 7;
  other_offer(0);
  rondo_communicator_reason(comm_of(), why, sizeof why);
  assert_int_equal(gate(),
                   differs < 0 ? RONDO_GATE_CLOSED : RONDO_GATE_FAILED + RONDO_ERR_MISMATCH);
  assert_int_equal(differs >= 0,
                   strstr(why, "rank 0: all_to_all_v of int32, 6 to rank 1, 6 from") != NULL);
  if (differs == 0)
    assert_non_null(strstr(why, "rank 1: all_to_all_v of int32, 6 to rank 0, 7 from it"));
  if (differs == 1)
    assert_non_null(strstr(why, "rank 1: all_to_all_v of int32, 7 to rank 0, 6 from it"));
  process_close();
}

static void counts_of_two_processes_that_disagree_are_a_mismatch(void **state) {
  (void)state;
  for (int differs = -1; differs < 2; differs++)
    exchange(differs);
}

static void the_gate_opens_when_all_agree_and_all_links_are_bound(void **state) {
  (void)state;
  for (int is_late = 0; is_late < 2; is_late++) {
    process_open();
    roster_come();
    other_greet();
    if (is_late)
      other_agree();
    else
      other_offer(0);
    assert_int_equal(gate(), RONDO_GATE_CLOSED);
    if (is_late)
      other_offer(0);
    else
      other_agree();
    assert_int_equal(gate(), RONDO_GATE_OPEN);
    process_close();
  }
}

static void a_loss_fails_what_was_agreed_and_leaving_does_not(void **state) {
  (void)state;
  for (int is_lost = 0; is_lost < 2; is_lost++) {
    process_open();
    roster_come();
    other_greet();
    other_offer(0);
    other_agree();
    other_detach();
    rank_leave(is_lost ? RONDO_LOST_DIED : RONDO_LOST_LEFT);
    assert_int_equal(gate(), is_lost ? RONDO_GATE_FAILED + RONDO_ERR_PEER : RONDO_GATE_OPEN);
    process_close();
  }
}

// ---------------------------------------------------------------- no memory ---

// Does something, with one allocation more that succeeds each time, in a new process. Returns how
// often it lacked memory.
static int fail_in_turn(void (*prepare)(void), void (*act)(void), void (*check)(void)) {
  for (int n = 0; n < MOST_FAILURES; n++) {
    process_open();
    prepare();
    left = n;
    act();
    bool is_spared = left >= 0;
    left = -1;
    rondo_hand_mesh_ring();
    check();
    process_close();
    if (is_spared)
      return n;
  }
  fail_msg("it never has enough memory");
  return 0;
}

static void nothing(void) {}

static uint32_t told, given_up;

// The other process learns of the registration, or of its failure, or is given up.
static void check_told(void) {
  const struct rondo_message_entry *head = (const struct rondo_message_entry *)said.entry;
  bool is_failed = gate() >= RONDO_GATE_FAILED;
  assert_true(said.entry_bytes || gate() == RONDO_GATE_FAILED + RONDO_ERR_PEER);
  if (said.entry_bytes)
    assert_int_equal((head->facts & RONDO_ENTRY_FAILED) != 0, is_failed);
  told += said.entry_bytes && !is_failed;
  given_up += !said.entry_bytes;
}

// Lets the daemon end runs that have failed.
static void daemon_step(void) {
  struct rondo_rank *rank = NULL;
  assert_int_equal(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  struct rondo_block *block = &rondo_host_daemon_of(rank->member.daemon)->blocks[0].core;
  rondo_block_start(block, 1);
  while (rondo_block_step(block, 1) == RONDO_STEP_PROGRESSED)
    continue;
  (void)rondo_rank_service(rank);
  rondo_rank_unpin(ctx);
}

// The membership tells every process of a loss, so processes do not tell each other that
// communicators have failed. A process whose end is made later learns it, too.
static void a_loss_fails_communicators_without_a_message(void **state) {
  (void)state;
  static int32_t data[COUNT];
  const struct rondo_collective_desc d = rondo_all_reduce(0, COUNT, RONDO_INT32, RONDO_SUM);
  const struct rondo_run_args args = {data, data, NULL, NULL};
  struct rondo_comm comms[3];
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  char why[RONDO_REASON_BYTES];
  process_open();
  roster_come();
  for (cfg.key = 0; cfg.key < 2; cfg.key++)
    assert_int_equal(rondo_comm_create(ctx, &cfg, &comms[cfg.key]), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_call(ctx, comms[0], &d, &args, NULL), RONDO_SUCCESS);
  rank_leave(RONDO_LOST_DIED);
  daemon_step();
  assert_int_equal(rondo_comm_create(ctx, &cfg, &comms[2]), RONDO_SUCCESS);
  for (int i = 0; i < 3; i++) {
    int status = RONDO_SUCCESS;
    assert_int_equal(rondo_comm_status(ctx, comms[i], &status, why, sizeof why), RONDO_SUCCESS);
    assert_int_equal(status, RONDO_ERR_PEER);
    assert_non_null(strstr(why, "rank 1 "));
    assert_int_equal(rondo_comm_destroy(ctx, comms[i], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  }
  assert_int_equal(said.comm_failures, 0);
  process_close();
}

static void a_roster_without_memory_is_survived(void **state) {
  (void)state;
  told = given_up = 0;
  assert_true(fail_in_turn(nothing, roster_come, check_told) > 5);
  assert_true(told > 2); // one with enough memory, and some at the second attempt
  assert_true(given_up > 1);
}

static void act_leave(void) { rank_leave(RONDO_LOST_LEFT); }

static void check_failed(void) { assert_int_equal(gate(), RONDO_GATE_FAILED + RONDO_ERR_PEER); }

// Whoever leaves before the agreement ends it: also if that cannot be noted at once.
static void a_rank_that_leaves_is_noted_again(void **state) {
  (void)state;
  assert_true(fail_in_turn(roster_come, act_leave, check_failed) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("agreeing", offers_are_bound_if_their_rank_has_registered_the_same),
      RONDO_NAMED_TEST("agreeing", a_fault_in_the_comparison_is_seen),
      RONDO_NAMED_TEST("agreeing", counts_of_two_processes_that_disagree_are_a_mismatch),
      RONDO_NAMED_TEST("agreeing", the_gate_opens_when_all_agree_and_all_links_are_bound),
      RONDO_NAMED_TEST("agreeing", a_loss_fails_what_was_agreed_and_leaving_does_not),
      RONDO_NAMED_TEST("agreeing", a_loss_fails_communicators_without_a_message),
      RONDO_NAMED_TEST("agreeing", a_roster_without_memory_is_survived),
      RONDO_NAMED_TEST("agreeing", a_rank_that_leaves_is_noted_again),
  };
  return cmocka_run_group_tests_name("agreeing", tests, NULL, NULL);
}
