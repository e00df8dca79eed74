// Communicators whose members are in several processes of this machine: calls match, differences
// are found, and every process gets the error.
#include <sched.h>
#include <string.h>

#include <rondo/comm.h>

#include "runtime/job/agreeing.h"
#include "runtime/job/agreement_state.h"
#include "runtime/job/match_entry.h"
#include "runtime/order/comms.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define CALLS 300u

static void run_family(uint32_t processes, uint32_t ranks,
                       void (*member)(struct rondo_family *f, uint32_t rank)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  rondo_family_run(f, member, NULL);
  rondo_family_destroy(f);
}

static struct rondo_comm open_comm(struct rondo_context ctx, uint64_t key, uint32_t cached) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm = {0};
  cfg.key = key;
  cfg.cached_collectives = cfg.cached_pairs = cached;
  RONDO_MEMBER_STATUS(rondo_comm_create(ctx, &cfg, &comm), RONDO_SUCCESS);
  return comm;
}

static int try_call(struct rondo_context ctx, struct rondo_comm comm,
                    struct rondo_collective_desc what, void *data) {
  struct rondo_run_args args = {data, data, NULL, NULL};
  return rondo_comm_call(ctx, comm, &what, &args, NULL);
}

static struct rondo_collective_desc reduce_of(uint64_t count) {
  return rondo_all_reduce(0, count, RONDO_INT32, RONDO_SUM);
}

// Registers more often than it has room, in two communicators, and sends round the ring.
static void calls_in_order(struct rondo_family *f, uint32_t rank) {
  static int32_t data[4][2][CALLS][4]; // by rank: threads of this process
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  uint32_t next = (rank + 1) % f->ranks;
  uint32_t before = (rank + f->ranks - 1) % f->ranks;
  struct rondo_comm comm[2];
  for (uint32_t c = 0; c < 2; c++)
    comm[c] = open_comm(ctx, c, 2);
  for (uint32_t i = 0; i < 2 * CALLS; i++) {
    uint32_t c = (i + rank) % 2; // the other way round on every other rank
    int32_t *at = data[rank][c][i / 2];
    for (int32_t k = 0; k < 4; k++)
      at[k] = (int32_t)(i / 2) + k;
    RONDO_MEMBER_STATUS(try_call(ctx, comm[c], reduce_of(1 + i / 2 % 3), at), RONDO_SUCCESS);
    if (i / 2 % 10)
      continue;
    struct rondo_run_args args = {&at[3], NULL, NULL, NULL};
    struct rondo_collective_desc d = rondo_send_recv(0, 1, RONDO_INT32, rank, next);
    RONDO_MEMBER_STATUS(rondo_comm_call(ctx, comm[c], &d, &args, NULL), RONDO_SUCCESS);
    static int32_t got[4][2][CALLS];
    args = (struct rondo_run_args){NULL, &got[rank][c][i / 2], NULL, NULL};
    d = rondo_send_recv(0, 1, RONDO_INT32, before, rank);
    RONDO_MEMBER_STATUS(rondo_comm_call(ctx, comm[c], &d, &args, NULL), RONDO_SUCCESS);
  }
  for (uint32_t c = 0; c < 2; c++) {
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm[c], NULL, LONG_NS), RONDO_SUCCESS);
    for (uint32_t i = 0; i < CALLS; i++)
      RONDO_MEMBER_TRUE(data[rank][c][i][0] == (int32_t)(f->ranks * i));
    RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm[c], RONDO_DESTROY_DRAIN, LONG_NS),
                        RONDO_SUCCESS);
  }
  rondo_family_close(ctx);
}

static void calls_match_by_order_between_processes(void **state) {
  (void)state;
  run_family(2, 4, calls_in_order);
}

// Every rank waits until all calls have ended, with MISMATCH and the reason that names both.
static void expect_mismatch(struct rondo_context ctx, struct rondo_comm comm, const char *text) {
  char why[RONDO_REASON_BYTES];
  int is = RONDO_SUCCESS;
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(rondo_comm_status(ctx, comm, &is, why, sizeof why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(is == RONDO_ERR_MISMATCH);
  RONDO_MEMBER_TRUE(strstr(why, text) && strstr(why, "rank 1"));
  RONDO_MEMBER_TRUE(strstr(why, "rank 0") || strstr(why, "rank 2"));
}

// Both calls are known by then, or one is, or none; rank 2 calls as rank 0 does.
static void differing(struct rondo_family *f, uint32_t rank) {
  static const uint32_t odd[3][2] = {{1, 2}, {2, 3}, {3, 4}};
  static int32_t data[3][8];
  for (uint32_t variant = 0; variant < 3; variant++) {
    struct rondo_context ctx = rondo_family_open(f, variant, rank, f->ranks);
    struct rondo_comm comm = open_comm(ctx, 7, 0);
    int status = RONDO_SUCCESS;
    for (uint32_t i = 0; i < CALLS && status == RONDO_SUCCESS; i++)
      status = try_call(ctx, comm, reduce_of(1 + i % 2), data[rank]);
    if (status == RONDO_SUCCESS)
      status = try_call(ctx, comm, reduce_of(odd[variant][rank == 1]), data[rank]);
    RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
    // Only ranks 0 and 1 have come so far; they learn of it without a further call.
    expect_mismatch(ctx, comm, "mismatch of");
    rondo_family_close(ctx);
  }
}

static void what_differs_is_found_between_processes(void **state) {
  (void)state;
  run_family(3, 3, differing);
}

// Rank 2 has called nothing, and asks only.
static void one_only_asks(struct rondo_family *f, uint32_t rank) {
  static int32_t data[3][8];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx, 7, 0);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  if (rank == 2) {
    int is = RONDO_SUCCESS;
    while (is == RONDO_SUCCESS) // the test's own time is the bound
      RONDO_MEMBER_STATUS(rondo_comm_status(ctx, comm, &is, NULL, 0), RONDO_SUCCESS);
    expect_mismatch(ctx, comm, "send_recv of");
  } else {
    struct rondo_collective_desc d = rondo_send_recv(0, 1 + rank, RONDO_INT32, 0, 1);
    int status = try_call(ctx, comm, d, data[rank]);
    RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
    expect_mismatch(ctx, comm, "send_recv of");
  }
  rondo_family_close(ctx);
}

static void a_process_that_has_called_nothing_gets_it(void **state) {
  (void)state;
  run_family(3, 3, one_only_asks);
}

// True if this process knows that a communicator has failed, though it has no end of one.
static bool knows_failure(struct rondo_context ctx) {
  struct rondo_rank *rank;
  RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  pthread_mutex_lock(&rank->job->lock);
  bool knows = rondo_comms_of(rank->job)->failures.first;
  pthread_mutex_unlock(&rank->job->lock);
  rondo_rank_unpin(ctx);
  return knows;
}

// Rank 2 makes its end when the two others have failed, and asks, or calls as rank 0 does.
static void come_later(struct rondo_family *f, uint32_t rank) {
  static int32_t data[3][8];
  for (uint32_t calls = 0; calls < 2; calls++) {
    struct rondo_context ctx = rondo_family_open(f, calls, rank, f->ranks);
    while (rank == 2 && !knows_failure(ctx)) // the test's own time is the bound
      (void)sched_yield();
    struct rondo_comm comm = open_comm(ctx, 7, 0);
    if (rank != 2 || calls) {
      int status = try_call(ctx, comm, reduce_of(1 + rank % 2), data[rank]);
      RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
    }
    expect_mismatch(ctx, comm, "mismatch of");
    rondo_family_add(&f->words[calls]); // registrations go with the process that leaves
    rondo_family_await(&f->words[calls], f->ranks);
    rondo_family_close(ctx);
  }
}

static void an_end_made_later_learns_which_calls_differed(void **state) {
  (void)state;
  run_family(3, 3, come_later);
}

// Rank 0 has gone before or after rank 1 has made its end, or its call.
static void leave_early(struct rondo_family *f, uint32_t rank) {
  static int32_t data[2][2];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  for (uint64_t key = 0; key < 10; key++) {
    struct rondo_comm comm = open_comm(ctx, key, 0);
    RONDO_MEMBER_STATUS(try_call(ctx, comm, reduce_of(1), data[rank]), RONDO_SUCCESS);
    if (rank == 0) {
      RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS),
                          RONDO_SUCCESS);
      continue;
    }
    int status = try_call(ctx, comm, reduce_of(2), data[rank]);
    RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  }
  rondo_family_close(ctx);
}

static void nothing_waits_for_a_process_that_leaves(void **state) {
  (void)state;
  run_family(2, 2, leave_early);
}

static uint32_t count_entries(struct rondo_context ctx) {
  struct rondo_rank *rank;
  uint32_t count = 0;
  RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  pthread_mutex_lock(&rank->job->lock);
  const struct rondo_match_entry *m;
  LIST_FOREACH (m, &rank->job->entry_list, listed)
    count++;
  count += rank->job->agreeing->core.entry_count;
  pthread_mutex_unlock(&rank->job->lock);
  rondo_rank_unpin(ctx);
  return count;
}

// Each of these registers an id that nobody will ever use again.
static void use_ids_once(struct rondo_family *f, uint32_t rank) {
  static int32_t data[2][8];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx, 7, 0);
  for (uint32_t i = 0; i < CALLS; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(0, 8, RONDO_INT32, RONDO_PREMUL_SUM);
    RONDO_MEMBER_STATUS(try_call(ctx, comm, d, data[rank]), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_SUCCESS);
  }
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  while (count_entries(
      ctx)) // the other's farewells are on their way; the test's own time is the bound
    (void)sched_yield();
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  rondo_family_close(ctx);
}

static void ids_that_are_used_once_are_forgotten(void **state) {
  (void)state;
  run_family(2, 2, use_ids_once);
}

// ------------------------------------------------------------ messages ---

#define MANY 12u // processes

// In each process: the calls of the members, except that `send` counts messages that `is_counted`
// holds for.
static const struct rondo_members_calls *real;
static struct rondo_members_calls counting;
static bool (*is_counted)(const struct rondo_mesh_send *message);
static uint32_t *counted; // shared by all processes

static int count_and_send(struct rondo_members *members, const struct rondo_mesh_send *message) {
  if (is_counted(message))
    rondo_family_add(counted);
  return real->send(members, message);
}

static void count_messages(struct rondo_family *f,
                           bool (*which)(const struct rondo_mesh_send *message)) {
  real = rondo_members_calls;
  counting = *real;
  counting.send = count_and_send;
  is_counted = which;
  counted = &f->words[8];
  rondo_members_calls = &counting;
}

static bool is_detachment(const struct rondo_mesh_send *message) {
  return message->type == RONDO_MESSAGE_COMM_DETACHED;
}

// All have called equally often, so nobody needs to hear more than that of its neighbours; except
// rank 0 and rank 5, which have also called as a pair, and rank 2, which has called rank 7.
static void destroy_together(struct rondo_family *f, uint32_t rank) {
  static int32_t data[2];
  count_messages(f, is_detachment);
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx, 7, 0);
  RONDO_MEMBER_STATUS(try_call(ctx, comm, reduce_of(1), data), RONDO_SUCCESS);
  if (rank == 0 || rank == 5)
    RONDO_MEMBER_STATUS(try_call(ctx, comm, rondo_send_recv(0, 1, RONDO_INT32, 0, 5), data),
                        RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  if (rank != 2)
    RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  rondo_family_add(&f->words[1]);
  rondo_family_await(&f->words[1], f->ranks);
  if (rank == 2) {
    int status = try_call(ctx, comm, rondo_send_recv(0, 1, RONDO_INT32, 2, 7), data);
    RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_ERR_PEER);
    RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  }
  rondo_family_add(&f->words[2]);
  rondo_family_await(&f->words[2], f->ranks);
  rondo_family_close(ctx);
}

static void destroying_a_communicator_costs_two_messages_a_process(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(MANY, MANY);
  rondo_family_run(f, destroy_together, NULL);
  uint32_t sent = f->words[8];
  rondo_family_destroy(f);
  assert_in_range(sent, 1, 2 * MANY + 4);
}

static bool is_failure(const struct rondo_mesh_send *message) {
  const struct rondo_message_entry *entry = message->bytes;
  return message->type == RONDO_MESSAGE_ENTRY && entry->key.id.space == RONDO_SPACE_KEY;
}

// Rank 1 makes another call than the others, who all find an entry that has failed.
static void fail_together(struct rondo_family *f, uint32_t rank) {
  static int32_t data[8];
  count_messages(f, is_failure);
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx, 7, 0);
  int status = try_call(ctx, comm, reduce_of(1 + (rank == 1)), data);
  RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
  expect_mismatch(ctx, comm, "mismatch of");
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  rondo_family_close(ctx);
}

static void a_mismatch_costs_two_messages_a_process(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(MANY, MANY);
  rondo_family_run(f, fail_together, NULL);
  uint32_t sent = f->words[8];
  rondo_family_destroy(f);
  assert_in_range(sent, MANY - 1, 2 * (MANY - 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("comm_processes", calls_match_by_order_between_processes),
      RONDO_NAMED_TEST("comm_processes", what_differs_is_found_between_processes),
      RONDO_NAMED_TEST("comm_processes", a_process_that_has_called_nothing_gets_it),
      RONDO_NAMED_TEST("comm_processes", an_end_made_later_learns_which_calls_differed),
      RONDO_NAMED_TEST("comm_processes", nothing_waits_for_a_process_that_leaves),
      RONDO_NAMED_TEST("comm_processes", ids_that_are_used_once_are_forgotten),
      RONDO_NAMED_TEST("comm_processes", destroying_a_communicator_costs_two_messages_a_process),
      RONDO_NAMED_TEST("comm_processes", a_mismatch_costs_two_messages_a_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
