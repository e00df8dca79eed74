// Communicators: calls that match by their order.
#include <stdlib.h>
#include <string.h>

#include <rondo/comm.h>

#include "tests/integration/comm_ends.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

// ---------------------------------------------------------------- matching ---

static void a_loop_of_equal_calls_registers_once(void **state) {
  (void)state;
  enum { CALLS = 200 };
  static int32_t data[2][CALLS];
  struct rondo_comm comm[2] = {{0}};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    comm[r] = open_comm(r, 7, 0);
    for (int32_t i = 0; i < CALLS; i++) {
      data[r][i] = i + 1;
      call(r, comm[r], rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), &data[r][i], &data[r][i]);
    }
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
    struct rondo_comm_counters c = counters(r, comm[r]);
    assert_int_equal(c.calls, CALLS);
    assert_int_equal(c.registrations, 1);
    assert_int_equal(c.cached, 1);
    for (int32_t i = 0; i < CALLS; i++)
      assert_int_equal(data[r][i], 2 * (i + 1));
    close_comm(r, comm[r]);
  }
  rondo_test_job_close(&job);
}

// Which collectives are called at step `i`; 3 ranks.
static struct rondo_collective_desc step(uint32_t i, uint64_t *random) {
  static const uint64_t counts[] = {1, 5, 700, 5};
  uint64_t count = counts[rondo_test_random(random) % 4];
  switch ((i + rondo_test_random(random)) % 3) {
  case 0:
    return rondo_all_reduce(0, count, RONDO_INT32, RONDO_SUM);
  case 1:
    return rondo_all_gather(0, count, RONDO_INT32);
  default:
    return rondo_broadcast(0, count, RONDO_INT32, 1);
  }
}

// `first`: what rank 0 sent as its last element.
static void check_last(const struct rondo_collective_desc *d, const int32_t *got, int32_t first) {
  uint64_t last = d->count - 1;
  if (d->kind == RONDO_ALL_REDUCE)
    assert_int_equal(got[last], 3 * first + 21);
  else if (d->kind == RONDO_BROADCAST)
    assert_int_equal(got[last], first + 7);
  else
    assert_int_equal(got[3 * last + 2], first + 14);
}

// Two communicators whose calls ranks mix differently, with fewer places in the cache than
// signatures.
static void communicators_do_not_order_each_other(void **state) {
  (void)state;
  enum { RANKS = 3, CALLS = 60, MOST = 700 };
  static int32_t send[2][RANKS][CALLS][MOST], recv[2][RANKS][CALLS][RANKS * MOST];
  struct rondo_comm comm[2][RANKS] = {{{0}}};
  rondo_test_job_open(&job, RANKS, NULL);
  for (uint32_t r = 0; r < RANKS; r++) {
    uint64_t random[2] = {5, 6};
    uint64_t mix = r;
    uint32_t done[2] = {0, 0};
    for (uint32_t c = 0; c < 2; c++)
      comm[c][r] = open_comm(r, c, 2);
    for (uint32_t i = 0; i < 2 * CALLS; i++) {
      uint32_t c = done[0] == CALLS || (done[1] < CALLS && rondo_test_random(&mix) % 2);
      uint32_t at = done[c]++;
      for (uint32_t k = 0; k < MOST; k++)
        send[c][r][at][k] = (int32_t)(at * 1000 + k + 7 * r + c);
      call(r, comm[c][r], step(at, &random[c]), send[c][r][at], recv[c][r][at]);
    }
  }
  for (uint32_t i = 0; i < 2 * RANKS; i++)
    assert_int_equal(await_all(i % RANKS, comm[i / RANKS][i % RANKS]), RONDO_SUCCESS);
  for (uint32_t c = 0; c < 2; c++) {
    uint64_t random = 5 + c;
    for (uint32_t at = 0; at < CALLS; at++) {
      struct rondo_collective_desc d = step(at, &random);
      for (uint32_t r = 0; r < RANKS; r++)
        check_last(&d, recv[c][r][at], (int32_t)(at * 1000 + d.count - 1 + c));
    }
    for (uint32_t r = 0; r < RANKS; r++) {
      struct rondo_comm_counters n = counters(r, comm[c][r]);
      assert_int_equal(n.cached, 2);
      assert_true(n.registrations > 2 && n.registrations <= n.calls);
      close_comm(r, comm[c][r]);
    }
  }
  rondo_test_job_close(&job);
}

enum { PAIR_RANKS = 3, PAIR_CALLS = 40 };
static int32_t pair_sent[PAIR_RANKS][PAIR_RANKS][PAIR_CALLS][2];
static int32_t pair_received[PAIR_RANKS][PAIR_RANKS][PAIR_CALLS][2];

static void call_pair(struct rondo_comm comm, uint32_t rank, uint32_t other, uint32_t at,
                      int sends) {
  uint64_t count = at == PAIR_CALLS - 1 ? 1 : 1 + at % 2;
  int32_t *send = pair_sent[rank][other][at];
  int32_t *recv = pair_received[rank][other][at];
  if (sends) {
    send[0] = (int32_t)(1 + 100 * rank + 10 * other + at);
    call(rank, comm, rondo_send_recv(0, count, RONDO_INT32, rank, other), send,
         other == rank ? recv : NULL);
  } else if (other != rank) {
    call(rank, comm, rondo_send_recv(0, count, RONDO_INT32, other, rank), NULL, recv);
  }
}

static void pairs_match_for_themselves_and_with_oneself(void **state) {
  (void)state;
  struct rondo_comm comm[PAIR_RANKS] = {{0}};
  rondo_test_job_open(&job, PAIR_RANKS, NULL);
  for (uint32_t r = 0; r < PAIR_RANKS; r++) {
    comm[r] = open_comm(r, 1, 1);
    // Half of the ranks receive first.
    for (uint32_t turn = 0; turn < 2 * PAIR_RANKS * PAIR_CALLS; turn++)
      call_pair(comm[r], r, (turn + r) % PAIR_RANKS, turn / (2 * PAIR_RANKS),
                (turn / PAIR_RANKS + r) % 2 == 0);
  }
  for (uint32_t r = 0; r < PAIR_RANKS; r++)
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
  for (uint32_t i = 0; i < PAIR_RANKS * PAIR_RANKS; i++)
    for (uint32_t at = 0; at < PAIR_CALLS; at++)
      assert_int_equal(pair_received[i / 3][i % 3][at][0], pair_sent[i % 3][i / 3][at][0]);
  for (uint32_t r = 0; r < PAIR_RANKS; r++)
    close_comm(r, comm[r]);
  rondo_test_job_close(&job);
}

// The counts of one pair change; the third rank sees the call that it knows.
static void uneven_exchanges_share_a_registration(void **state) {
  (void)state;
  enum { RANKS = 3, CALLS = 20 };
  static int32_t send[RANKS][CALLS][6], recv[RANKS][CALLS][6];
  struct rondo_comm comm[RANKS] = {{0}};
  rondo_test_job_open(&job, RANKS, NULL);
  memset(recv, 0, sizeof recv);
  for (uint32_t r = 0; r < RANKS; r++) {
    comm[r] = open_comm(r, 1, 4);
    for (uint32_t i = 0; i < CALLS; i++) {
      uint64_t counts[RANKS] = {1, 1, 1};
      if (r < 2)
        counts[1 - r] = 1 + i % 3;
      for (int32_t k = 0; k < 6; k++)
        send[r][i][k] = (int32_t)(100 * r + 10 * i) + k;
      call(r, comm[r], rondo_all_to_all_v(0, RONDO_INT32, counts, NULL, counts, NULL), send[r][i],
           recv[r][i]);
    }
  }
  for (uint32_t r = 0; r < RANKS; r++)
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < RANKS; r++) {
    assert_int_equal(counters(r, comm[r]).registrations, 1);
    for (uint32_t i = 0; i < CALLS; i++) {
      uint32_t between = 1 + i % 3;
      assert_int_equal(recv[0][i][1], send[1][i][0]);
      assert_int_equal(recv[1][i][0], send[0][i][1]);
      assert_int_equal(recv[0][i][between], send[1][i][between - 1]);
      assert_int_equal(recv[2][i][0], send[0][i][1 + between]);
      assert_int_equal(recv[2][i][1], send[1][i][1 + between]);
    }
    close_comm(r, comm[r]);
  }
  rondo_test_job_close(&job);
}

// --------------------------------------------------------------- the others ---

static void abort_ends_one_communicator_on_all_members(void **state) {
  (void)state;
  static int32_t data[3][2];
  struct rondo_comm comm[3] = {{0}}, other[3] = {{0}};
  rondo_test_job_open(&job, 3, NULL);
  for (uint32_t r = 0; r < 3; r++) {
    comm[r] = open_comm(r, 1, 0);
    other[r] = open_comm(r, 2, 0);
    if (r < 2)
      call(r, comm[r], reduce_of(1), &data[r][0], &data[r][0]);
    call(r, other[r], reduce_of(1), &data[r][1], &data[r][1]);
  }
  assert_int_equal(rondo_comm_abort(job.ctx[1], comm[1]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 3; r++) {
    assert_failed(r, comm[r], RONDO_ERR_ABORTED, "rank 1 aborted", "");
    assert_int_equal(await_all(r, other[r]), RONDO_SUCCESS);
    close_comm(r, other[r]);
  }
  rondo_test_job_close(&job);
}

static void destruction_is_bounded_and_ends_what_is_outstanding(void **state) {
  (void)state;
  int32_t data[2] = {0};
  struct rondo_comm comm[2] = {{0}};
  struct rondo_ticket ticket;
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++)
    comm[r] = open_comm(r, 1, 0);
  assert_int_equal(try_call(0, comm[0], reduce_of(1), data, data, &ticket), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_test(job.ctx[0], comm[0], &ticket), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_comm_wait(job.ctx[0], comm[0], &ticket, 0), RONDO_ERR_TIMEOUT);
  assert_int_equal(rondo_comm_destroy(job.ctx[0], comm[0], RONDO_DESTROY_DRAIN, 1000),
                   RONDO_ERR_TIMEOUT);
  assert_int_equal(rondo_comm_test(job.ctx[0], comm[0], NULL), RONDO_ERR_UNKNOWN);
  assert_failed(1, comm[1], RONDO_ERR_ABORTED, "destroyed", "");
  // A context takes its communicators along.
  (void)open_comm(1, 2, 0);
  rondo_test_job_close(&job);
}

static void a_refused_call_is_not_counted(void **state) {
  (void)state;
  int32_t data[2][2] = {{5, 0}, {6, 0}};
  struct rondo_comm comm[2] = {{0}};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++)
    comm[r] = open_comm(r, 1, 0);
  assert_int_equal(try_call(0, comm[0], reduce_of(2), NULL, NULL, NULL), RONDO_ERR_INVALID);
  const uint64_t one[] = {1, 1};
  const uint64_t two[] = {2, 1}; // to itself, and only one of them from there
  struct rondo_collective_desc d = rondo_all_to_all_v(0, RONDO_INT32, one, NULL, one, NULL);
  assert_int_equal(try_call(0, comm[0], d, data[0], NULL, NULL), RONDO_ERR_INVALID);
  d.send_counts = two;
  assert_int_equal(try_call(0, comm[0], d, data[0], data[1], NULL), RONDO_ERR_INVALID);
  d.send_counts = NULL;
  assert_int_equal(try_call(0, comm[0], d, data[0], data[1], NULL), RONDO_ERR_INVALID);
  assert_int_equal(counters(0, comm[0]).registrations, 0);
  for (uint32_t r = 0; r < 2; r++)
    call(r, comm[r], reduce_of(1), data[r], data[r]);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
    assert_int_equal(data[r][0], 11);
    close_comm(r, comm[r]);
  }
  rondo_test_job_close(&job);
}

static void what_is_no_call_is_refused(void **state) {
  (void)state;
  int32_t data[2] = {0};
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm other;
  struct rondo_ticket ticket = {{0}, 0};
  struct rondo_collective_desc d = reduce_of(1);
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_comm comm = open_comm(0, 0, 0);
  assert_int_equal(rondo_comm_create(job.ctx[0], &cfg, &other), RONDO_ERR_EXISTS);
  cfg.key = 1;
  cfg.priority = 1000;
  assert_int_equal(rondo_comm_create(job.ctx[0], &cfg, &other), RONDO_ERR_INVALID);
  cfg.priority = 0;
  cfg.cached_pairs = RONDO_COMM_MAX_CACHED + 1;
  assert_int_equal(rondo_comm_create(job.ctx[0], &cfg, &other), RONDO_ERR_INVALID);
  cfg.cached_pairs = 0;
  const uint32_t alone = 1;
  assert_int_equal(rondo_group_create(job.ctx[0], &alone, 1, &cfg.group), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_create(job.ctx[0], &cfg, &other), RONDO_ERR_INVALID);
  d.id = 1;
  assert_int_equal(try_call(0, comm, d, data, data, NULL), RONDO_ERR_INVALID);
  d = reduce_of(1);
  d.on_loss = RONDO_ON_LOSS_COUNT;
  assert_int_equal(try_call(0, comm, d, data, data, NULL), RONDO_ERR_INVALID);
  struct rondo_collective coll;
  assert_int_equal(rondo_register(job.ctx[0], &d, &coll), RONDO_ERR_INVALID);
  d = rondo_all_reduce(0, 1, RONDO_FLOAT32, RONDO_SUM);
  d.quantisation = RONDO_QUANTISE_INT8;
  assert_int_equal(try_call(0, comm, d, data, data, NULL), RONDO_ERR_INVALID);
  assert_int_equal(try_call(0, comm, rondo_send_recv(0, 1, RONDO_INT32, 0, 2), data, data, NULL),
                   RONDO_ERR_INVALID);
  assert_int_equal(try_call(0, comm, rondo_broadcast(0, 1, RONDO_INT32, 2), data, data, NULL),
                   RONDO_ERR_INVALID);
  assert_int_equal(rondo_comm_wait(job.ctx[0], comm, &ticket, 0), RONDO_ERR_INVALID);
  comm.handle = 77;
  assert_int_equal(rondo_comm_wait(job.ctx[0], comm, NULL, 0), RONDO_ERR_UNKNOWN);
  rondo_test_job_close(&job);
}

static void ids_of_calls_are_apart_from_those_of_the_application(void **state) {
  (void)state;
  int32_t data[2][2] = {{1, 1}, {2, 2}};
  struct rondo_comm comm[2] = {{0}};
  struct rondo_ticket ticket;
  struct rondo_collective_desc d;
  uint32_t ranks[2], count = 0;
  rondo_test_job_open(&job, 2, NULL);
  comm[0] = open_comm(0, 9, 0);
  assert_int_equal(try_call(0, comm[0], reduce_of(1), data[0], data[0], &ticket), RONDO_SUCCESS);
  assert_int_equal(rondo_describe(job.ctx[0], ticket.coll, &d, ranks, 2, &count), RONDO_SUCCESS);
  assert_int_equal(d.kind, RONDO_ALL_REDUCE);
  assert_int_equal(count, 2);
  assert_int_equal(ranks[1], 1);
  assert_int_equal(rondo_missing(job.ctx[0], ticket.coll, ticket.run, ranks, 2, &count),
                   RONDO_SUCCESS);
  assert_int_equal(count, 1);
  assert_int_equal(ranks[0], 1);
  // The application takes the same id for something else.
  struct rondo_collective own[2], found;
  assert_int_equal(rondo_lookup(job.ctx[0], d.id, &found), RONDO_ERR_UNKNOWN);
  struct rondo_collective_desc mine = rondo_broadcast(d.id, 1, RONDO_INT32, 1);
  rondo_test_job_register(&job, &mine, own);
  comm[1] = open_comm(1, 9, 0);
  call(1, comm[1], reduce_of(1), data[1], data[1]);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(await_all(r, comm[r]), RONDO_SUCCESS);
    assert_int_equal(rondo_run(job.ctx[r], own[r], &data[r][1], &data[r][1], NULL, NULL),
                     RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_wait(job.ctx[r], own[r], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
    assert_int_equal(data[r][0], 3);
    assert_int_equal(data[r][1], 2);
    close_comm(r, comm[r]);
  }
  rondo_test_job_close(&job);
}

static void a_collective_tells_why_it_fails(void **state) {
  (void)state;
  char why[RONDO_REASON_BYTES] = "x";
  int32_t data[2] = {0};
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++) {
    struct rondo_collective_desc d = rondo_all_reduce(4, 1 + r, RONDO_INT32, RONDO_SUM);
    assert_int_equal(rondo_register(job.ctx[r], &d, &coll[r]), RONDO_SUCCESS);
    if (r == 0) {
      assert_int_equal(rondo_reason(job.ctx[0], coll[0], why, sizeof why), RONDO_SUCCESS);
      assert_string_equal(why, "");
    }
  }
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(rondo_reason(job.ctx[r], coll[r], why, sizeof why), RONDO_SUCCESS);
    assert_non_null(strstr(why, "mismatch of id 4 in its count"));
    assert_int_equal(rondo_run(job.ctx[r], coll[r], data, data, NULL, NULL), RONDO_SUCCESS);
    assert_int_equal(rondo_wait(job.ctx[r], coll[r], 1, RONDO_TEST_LONG_NS), RONDO_ERR_MISMATCH);
  }
  struct rondo_collective_desc d = rondo_all_reduce(5, 1, RONDO_INT32, RONDO_SUM);
  rondo_test_job_register(&job, &d, coll);
  assert_int_equal(rondo_deregister(job.ctx[1], coll[1]), RONDO_SUCCESS);
  assert_int_equal(rondo_reason(job.ctx[0], coll[0], why, sizeof why), RONDO_SUCCESS);
  assert_string_equal(why, "rank 1 has deregistered it after 0 runs");
  rondo_test_job_close(&job);
}

// ------------------------------------------------- callbacks that come later ---

struct notified {
  int calls, status;
};

static void tell(void *arg, int status) {
  struct notified *notified = arg;
  notified->calls++;
  notified->status = status;
}

static void a_callback_may_come_before_or_after_the_end(void **state) {
  (void)state;
  int32_t data[2] = {1, 2};
  struct rondo_comm comm[2];
  struct rondo_ticket ticket[2];
  struct notified notified[4] = {{0, -1}, {0, -1}, {0, -1}, {0, -1}};
  struct rondo_collective_desc what = rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM);
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++)
    comm[r] = open_comm(r, 1, 0);
  assert_int_equal(try_call(0, comm[0], what, &data[0], &data[0], &ticket[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_notify(job.ctx[0], comm[0], &ticket[0], tell, &notified[0]),
                   RONDO_SUCCESS);
  assert_int_equal(rondo_comm_notify(job.ctx[0], comm[0], &ticket[0], tell, &notified[1]),
                   RONDO_ERR_EXISTS);
  assert_int_equal(rondo_comm_notify(job.ctx[0], comm[0], &ticket[0], NULL, NULL),
                   RONDO_ERR_INVALID);
  assert_int_equal(try_call(1, comm[1], what, &data[1], &data[1], &ticket[1]), RONDO_SUCCESS);
  for (uint32_t r = 0; r < 2; r++)
    assert_int_equal(rondo_comm_wait(job.ctx[r], comm[r], &ticket[r], RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
  assert_int_equal(rondo_comm_notify(job.ctx[1], comm[1], &ticket[1], tell, &notified[2]),
                   RONDO_SUCCESS);
  assert_int_equal(rondo_notify(job.ctx[1], ticket[1].coll, RONDO_LAST_RUN, tell, &notified[3]),
                   RONDO_SUCCESS);
  assert_int_equal(rondo_notify(job.ctx[1], ticket[1].coll, 2, tell, &notified[1]),
                   RONDO_ERR_UNKNOWN);
  assert_int_equal(rondo_notify(job.ctx[1], ticket[1].coll, 1, NULL, NULL), RONDO_ERR_INVALID);
  rondo_test_job_close(&job); // all callbacks have returned
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(notified[i].calls, i != 1);
    assert_int_equal(notified[i].status, i == 1 ? -1 : RONDO_SUCCESS);
  }
}

static void a_late_callback_gets_a_failure(void **state) {
  (void)state;
  int32_t data = 1;
  struct rondo_comm comm;
  struct rondo_ticket ticket;
  struct notified notified[2] = {{0, 0}, {0, 0}};
  rondo_test_job_open(&job, 2, NULL);
  comm = open_comm(0, 1, 0);
  assert_int_equal(
      try_call(0, comm, rondo_all_reduce(0, 1, RONDO_INT32, RONDO_SUM), &data, &data, &ticket),
      RONDO_SUCCESS);
  assert_int_equal(rondo_comm_notify(job.ctx[0], comm, &ticket, tell, &notified[0]), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_abort(job.ctx[0], comm), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_wait(job.ctx[0], comm, &ticket, RONDO_TEST_LONG_NS),
                   RONDO_ERR_ABORTED);
  assert_int_equal(rondo_comm_notify(job.ctx[0], comm, &ticket, tell, &notified[1]), RONDO_SUCCESS);
  rondo_test_job_close(&job);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(notified[i].calls, 1);
    assert_int_equal(notified[i].status, RONDO_ERR_ABORTED);
  }
}

static void a_probe_sees_the_next_send(void **state) {
  (void)state;
  int32_t data[2][3] = {{4, 5, 6}, {0}};
  struct rondo_comm comm[2];
  struct rondo_collective_desc what = {0};
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t r = 0; r < 2; r++)
    comm[r] = open_comm(r, 1, 0);
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 0, &what), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 1, &what), RONDO_ERR_INVALID);
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 2, &what), RONDO_ERR_INVALID);
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 0, NULL), RONDO_ERR_INVALID);
  for (uint64_t count = 3; count > 1; count--)
    call(0, comm[0], rondo_send_recv(0, count, RONDO_INT32, 0, 1), data[0], NULL);
  for (uint64_t count = 3; count > 1; count--) {
    assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 0, &what), RONDO_SUCCESS);
    assert_int_equal(what.kind, RONDO_SEND_RECV);
    assert_int_equal(what.count, count);
    assert_int_equal(what.dtype, RONDO_INT32);
    call(1, comm[1], what, NULL, data[1]);
    assert_int_equal(await_all(1, comm[1]), RONDO_SUCCESS);
    assert_int_equal(data[1][1], 5);
  }
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 0, &what), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_comm_abort(job.ctx[1], comm[1]), RONDO_SUCCESS);
  assert_int_equal(rondo_comm_probe(job.ctx[1], comm[1], 0, &what), RONDO_ERR_ABORTED);
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("comm", a_loop_of_equal_calls_registers_once),
      RONDO_NAMED_TEST("comm", communicators_do_not_order_each_other),
      RONDO_NAMED_TEST("comm", pairs_match_for_themselves_and_with_oneself),
      RONDO_NAMED_TEST("comm", uneven_exchanges_share_a_registration),
      RONDO_NAMED_TEST("comm", abort_ends_one_communicator_on_all_members),
      RONDO_NAMED_TEST("comm", destruction_is_bounded_and_ends_what_is_outstanding),
      RONDO_NAMED_TEST("comm", a_refused_call_is_not_counted),
      RONDO_NAMED_TEST("comm", what_is_no_call_is_refused),
      RONDO_NAMED_TEST("comm", ids_of_calls_are_apart_from_those_of_the_application),
      RONDO_NAMED_TEST("comm", a_collective_tells_why_it_fails),
      RONDO_NAMED_TEST("comm", a_callback_may_come_before_or_after_the_end),
      RONDO_NAMED_TEST("comm", a_late_callback_gets_a_failure),
      RONDO_NAMED_TEST("comm", a_probe_sees_the_next_send),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
