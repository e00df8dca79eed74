// All-to-all-vs of a communicator whose counts change from call to call, on one registration: of
// threads, of processes, and of both.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define RANKS 4u
#define MOST 300000u // elements of a part: more than one chunk

static void run_family(uint32_t processes, uint32_t ranks,
                       void (*member)(struct rondo_family *f, uint32_t rank)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  rondo_family_run(f, member, NULL);
  rondo_family_destroy(f);
}

static struct rondo_comm open_comm(struct rondo_context ctx) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm = {0};
  cfg.key = 7;
  RONDO_MEMBER_STATUS(rondo_comm_create(ctx, &cfg, &comm), RONDO_SUCCESS);
  return comm;
}

// What rank `from` sends to rank `to` in exchange `i`: nothing in every third part, a few elements
// in most, and now and then enough for several chunks.
static uint64_t part_count(uint32_t i, uint32_t from, uint32_t to) {
  uint64_t state = ((uint64_t)i * RANKS + from) * RANKS + to;
  uint64_t drawn = rondo_test_random(&state);
  if (drawn % 3 == 0)
    return 0;
  if (i % 500 == 7)
    return drawn / 3 % MOST;
  return drawn / 3 % (i % 50 == 3 ? 4000 : 60);
}

static int32_t element(uint32_t i, uint32_t from, uint32_t to, uint64_t at) {
  return (int32_t)(i * 1000003u + from * 70001u + to * 5003u + (uint32_t)at);
}

struct exchange {
  uint32_t rank;
  uint64_t counts[2][RANKS];        // to each rank, from each rank
  uint64_t displacements[2][RANKS]; // of every other exchange: the parts in reverse, with gaps
  int32_t *send, *recv;
};

static void exchange_lay_out(struct exchange *x, uint32_t i) {
  uint64_t at[2] = {i % 5, i % 7};
  for (uint32_t k = 0; k < RANKS; k++) {
    uint32_t other = i % 2 ? RANKS - 1 - k : k;
    x->counts[0][other] = part_count(i, x->rank, other);
    x->counts[1][other] = part_count(i, other, x->rank);
    for (uint32_t side = 0; side < 2; side++) {
      x->displacements[side][other] = at[side];
      at[side] += x->counts[side][other] + (i % 2 ? 3 : 0);
    }
  }
  for (uint32_t to = 0; to < RANKS; to++)
    for (uint64_t k = 0; k < x->counts[0][to]; k++)
      x->send[x->displacements[0][to] + k] = element(i, x->rank, to, k);
}

static void exchange_check(const struct exchange *x, uint32_t i) {
  for (uint32_t from = 0; from < RANKS; from++)
    for (uint64_t k = 0; k < x->counts[1][from]; k++)
      RONDO_MEMBER_TRUE(x->recv[x->displacements[1][from] + k] == element(i, from, x->rank, k));
}

static void exchange_open(struct exchange *x, uint32_t rank) {
  size_t bytes = RANKS * (MOST + 8) * sizeof *x->send;
  x->rank = rank;
  x->send = malloc(bytes);
  x->recv = malloc(bytes);
  RONDO_MEMBER_TRUE(x->send && x->recv);
}

static void exchange_close(struct exchange *x) {
  free(x->send);
  free(x->recv);
}

static struct rondo_collective_desc exchange_describe(const struct exchange *x) {
  return rondo_all_to_all_v(0, RONDO_INT32, x->counts[0], x->displacements[0], x->counts[1],
                            x->displacements[1]);
}

// Bytes that the process has allocated. Under a sanitizer 0: its allocator stands in place of the C
// library's, and several threads that ask the latter, which was never set up, crash.
static size_t allocated_bytes(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 0;
#else
  return mallinfo2().uordblks;
#endif
}

// Every exchange has other counts.
static void exchange_often(struct rondo_family *f, uint32_t rank) {
  const uint32_t calls = (uint32_t)rondo_test_load(10000, 1500);
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx);
  struct rondo_comm_counters n;
  struct exchange x;
  size_t held_bytes = 0;
  exchange_open(&x, rank);
  for (uint32_t i = 0; i < calls; i++) {
    exchange_lay_out(&x, i);
    struct rondo_collective_desc d = exchange_describe(&x);
    struct rondo_run_args args = {x.send, x.recv, NULL, NULL};
    struct rondo_ticket ticket;
    RONDO_MEMBER_STATUS(rondo_comm_call(ctx, comm, &d, &args, &ticket), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, &ticket, LONG_NS), RONDO_SUCCESS);
    exchange_check(&x, i);
    if (i == calls / 10)
      held_bytes = allocated_bytes();
  }
  // Of all ranks of the process: each may have an exchange and a message or two more now than then.
  RONDO_MEMBER_TRUE(allocated_bytes() < held_bytes + RANKS * 16384);
  RONDO_MEMBER_STATUS(rondo_comm_counters(ctx, comm, &n), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(n.calls == calls && n.registrations == 1 && n.parting == 0);
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  exchange_close(&x);
  rondo_family_close(ctx);
}

static void exchanges_of_threads_share_a_registration(void **state) {
  (void)state;
  run_family(1, RANKS, exchange_often);
}

static void exchanges_of_processes_share_a_registration(void **state) {
  (void)state;
  run_family(RANKS, RANKS, exchange_often);
}

static void exchanges_of_processes_with_threads_share_a_registration(void **state) {
  (void)state;
  run_family(2, RANKS, exchange_often);
}

// More calls than the device holds, before the first wait: the parts of each are its own.
static void exchange_ahead(struct rondo_family *f, uint32_t rank) {
  enum { AHEAD = 40 };
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx);
  struct exchange x[AHEAD];
  for (uint32_t i = 0; i < AHEAD; i++) {
    exchange_open(&x[i], rank);
    exchange_lay_out(&x[i], i);
    struct rondo_collective_desc d = exchange_describe(&x[i]);
    struct rondo_run_args args = {x[i].send, x[i].recv, NULL, NULL};
    RONDO_MEMBER_STATUS(rondo_comm_call(ctx, comm, &d, &args, NULL), RONDO_SUCCESS);
    memset(x[i].counts, 0xff, sizeof x[i].counts); // the arrays have been copied
  }
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_SUCCESS);
  for (uint32_t i = 0; i < AHEAD; i++) {
    exchange_lay_out(&x[i], i);
    exchange_check(&x[i], i);
    exchange_close(&x[i]);
  }
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void calls_ahead_of_the_device_keep_their_counts(void **state) {
  (void)state;
  run_family(1, RANKS, exchange_ahead);
  run_family(2, RANKS, exchange_ahead);
}

// ---------------------------------------------------------------- mismatch ---

// In the last exchange rank 0 sends `told` elements to rank 1, which expects `expected`.
static const struct {
  uint64_t told, expected;
} differences[] = {{3, 4}, {0, 1}, {5, 0}, {5000, 4999}, {200000, 150000}};

static int call_between(struct rondo_context ctx, struct rondo_comm comm, const struct exchange *x,
                        uint64_t count, struct rondo_ticket *ticket) {
  uint64_t counts[2][RANKS] = {{1, 1, 1, 1}, {1, 1, 1, 1}};
  struct rondo_run_args args = {x->send, x->recv, NULL, NULL};
  if (x->rank == 0)
    counts[0][1] = count;
  if (x->rank == 1)
    counts[1][0] = count;
  struct rondo_collective_desc d =
      rondo_all_to_all_v(0, RONDO_INT32, counts[0], NULL, counts[1], NULL);
  return rondo_comm_call(ctx, comm, &d, &args, ticket);
}

// Rank 1 makes two calls before the others make theirs. The second one must not take what the first
// one has left in the connectors, although the counts fit.
static void call_twice(struct rondo_family *f, struct rondo_context ctx, struct rondo_comm comm,
                       const struct exchange *x) {
  const uint64_t told = differences[f->words[0]].told;
  struct rondo_ticket ticket;
  if (x->rank == 1) {
    RONDO_MEMBER_STATUS(call_between(ctx, comm, x, differences[f->words[0]].expected, NULL),
                        RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(call_between(ctx, comm, x, told, &ticket), RONDO_SUCCESS);
    rondo_family_add(&f->words[2]);
    RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, &ticket, LONG_NS), RONDO_ERR_MISMATCH);
    return;
  }
  rondo_family_await(&f->words[2], 1);
  for (uint32_t i = 0; i < 2; i++) {
    int status = call_between(ctx, comm, x, told, NULL);
    RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_MISMATCH);
  }
}

static void differ(struct rondo_family *f, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  char told[64];
  char expected[64];
  int is = RONDO_SUCCESS;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_comm comm = open_comm(ctx);
  struct exchange x;
  exchange_open(&x, rank);
  memset(x.send, 0, 4 * MOST);
  for (uint32_t i = 0; i < 5; i++)
    RONDO_MEMBER_STATUS(call_between(ctx, comm, &x, i, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_SUCCESS);
  rondo_family_add(&f->words[1]);
  rondo_family_await(&f->words[1], f->ranks);
  call_twice(f, ctx, comm, &x);
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(rondo_comm_status(ctx, comm, &is, why, sizeof why), RONDO_SUCCESS);
  (void)snprintf(told, sizeof told, "of int32 of communicator 7: rank 0 sends %llu to rank 1;",
                 (unsigned long long)differences[f->words[0]].told);
  (void)snprintf(expected, sizeof expected, "rank 1 expects %llu from rank 0",
                 (unsigned long long)differences[f->words[0]].expected);
  RONDO_MEMBER_TRUE(is == RONDO_ERR_MISMATCH && strstr(why, told) && strstr(why, expected));
  RONDO_MEMBER_STATUS(call_between(ctx, comm, &x, 1, NULL), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  exchange_close(&x);
  rondo_family_close(ctx);
}

static void counts_that_differ_are_named_on_every_member(void **state) {
  (void)state;
  const uint32_t processes[] = {1, 2, RANKS};
  for (uint32_t i = 0; i < 3; i++)
    for (uint32_t k = 0; k < sizeof differences / sizeof *differences; k++) {
      struct rondo_family *f = rondo_family_create(processes[i], RANKS);
      f->words[0] = k;
      rondo_family_run(f, differ, NULL);
      rondo_family_destroy(f);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("uneven", exchanges_of_threads_share_a_registration),
      RONDO_NAMED_TEST("uneven", exchanges_of_processes_share_a_registration),
      RONDO_NAMED_TEST("uneven", exchanges_of_processes_with_threads_share_a_registration),
      RONDO_NAMED_TEST("uneven", calls_ahead_of_the_device_keep_their_counts),
      RONDO_NAMED_TEST("uneven", counts_that_differ_are_named_on_every_member),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
