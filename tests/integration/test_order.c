// Order is free: in whatever order ranks register, submit and wait, all runs complete with the
// right result.
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tools/kit/shape.h"
#include "tools/kit/thread_group.h"

#define MANY 8u // collectives
#define COUNT 33u

// A thread notes its first failure here; the test looks when all have ended.
struct verdict {
  const char *failed;
  int status;
};

static struct rondo_test_job job;
static struct rondo_collective colls[RONDO_TEST_MAX_RANKS][MANY];
static struct verdict verdicts[RONDO_TEST_MAX_RANKS];

static int succeeded(uint32_t member, const char *call, int status) {
  if (status == RONDO_SUCCESS)
    return 1;
  if (!verdicts[member].failed) {
    verdicts[member].failed = call;
    verdicts[member].status = status;
  }
  return 0;
}

static void run_team(uint32_t count, void (*member)(void *arg, uint32_t rank), void *arg) {
  struct rondo_kit_thread_group group = {count, false, member, arg};
  memset(verdicts, 0, sizeof verdicts);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  for (uint32_t i = 0; i < count; i++)
    if (verdicts[i].failed)
      fail_msg("member %u: %s: %s", i, verdicts[i].failed, rondo_status_name(verdicts[i].status));
}

static void register_many(uint32_t n) {
  struct rondo_collective of_rank[RONDO_TEST_MAX_RANKS];
  for (uint32_t i = 0; i < n; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(i, COUNT, RONDO_INT64, RONDO_SUM);
    rondo_test_job_register(&job, &d, of_rank);
    for (uint32_t r = 0; r < job.ranks; r++)
      colls[r][i] = of_rank[r];
  }
}

// What rank `rank` puts into run `round` of collective `coll`, and what comes out.
static int64_t input(uint32_t rank, uint32_t coll, uint64_t round, uint32_t i) {
  return (int64_t)((rank + 1) * 1000003u + coll * 1009u + round * 101u + i);
}

static int64_t sum_of_inputs(uint32_t coll, uint64_t round, uint32_t i) {
  int64_t sum = 0;
  for (uint32_t r = 0; r < job.ranks; r++)
    sum += input(r, coll, round, i);
  return sum;
}

struct buffers {
  int64_t send[MANY][COUNT];
  int64_t recv[MANY][COUNT];
};

static void fill(struct buffers *b, uint32_t rank, uint64_t round) {
  for (uint32_t c = 0; c < MANY; c++)
    for (uint32_t i = 0; i < COUNT; i++)
      b->send[c][i] = input(rank, c, round, i);
  memset(b->recv, 0xa5, sizeof b->recv);
}

static int is_right(const struct buffers *b, uint64_t round) {
  for (uint32_t c = 0; c < MANY; c++)
    for (uint32_t i = 0; i < COUNT; i++)
      if (b->recv[c][i] != sum_of_inputs(c, round, i))
        return 0;
  return 1;
}

static int check(uint32_t rank, const struct buffers *b, uint64_t round) {
  return succeeded(rank, "comparing", is_right(b, round) ? RONDO_SUCCESS : RONDO_ERR_INTERNAL);
}

// --------------------------------------------------------------- permutations --

struct permuted {
  uint32_t iterations;
  int synchronize; // the device between collectives
};

static int permute_once(uint32_t rank, const struct permuted *p, uint64_t round, uint64_t *random) {
  struct rondo_context ctx = job.ctx[rank];
  uint32_t order[MANY];
  struct buffers b;
  fill(&b, rank, round);
  rondo_test_shuffle(order, MANY, random);
  for (uint32_t i = 0; i < MANY; i++) {
    uint32_t c = order[i];
    if (p->synchronize && i > 0 &&
        !succeeded(rank, "rondo_device_synchronize",
                   rondo_device_synchronize(ctx, RONDO_TEST_LONG_NS)))
      return 0;
    if (!succeeded(rank, "rondo_run",
                   rondo_run(ctx, colls[rank][c], b.send[c], b.recv[c], NULL, NULL)))
      return 0;
  }
  for (uint32_t i = 0; i < MANY; i++)
    if (!succeeded(
            rank, "rondo_wait",
            rondo_wait(ctx, colls[rank][order[MANY - 1 - i]], RONDO_LAST_RUN, RONDO_TEST_LONG_NS)))
      return 0;
  return check(rank, &b, round);
}

static void permute(void *arg, uint32_t rank) {
  const struct permuted *p = arg;
  uint64_t random = rank * 31u + 7u;
  for (uint32_t i = 0; i < p->iterations; i++)
    if (!permute_once(rank, p, i, &random))
      return;
}

static void permutations(uint32_t ranks, const struct rondo_config *c, struct permuted p) {
  rondo_test_job_open(&job, ranks, c);
  register_many(MANY);
  run_team(ranks, permute, &p);
  rondo_test_job_close(&job);
}

static void any_permutation_completes(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  for (c.order = RONDO_ORDER_FIFO; c.order <= RONDO_ORDER_PRIORITY; c.order++)
    for (c.budget = RONDO_BUDGET_ADAPTIVE; c.budget <= RONDO_BUDGET_FIXED; c.budget++)
      permutations(4, &c, (struct permuted){(uint32_t)rondo_test_load(60, 5), 0});
}

static void any_permutation_completes_with_synchronisation_between(void **state) {
  (void)state;
  permutations(4, NULL, (struct permuted){(uint32_t)rondo_test_load(20, 3), 1});
  permutations(2, NULL, (struct permuted){(uint32_t)rondo_test_load(60, 5), 1});
}

static void sixteen_ranks_in_sixteen_orders_complete(void **state) {
  (void)state;
  permutations(16, NULL, (struct permuted){(uint32_t)rondo_test_load(10, 2), 0});
}

// ------------------------------------------------------------ many outstanding --

// Rank 0 submits every run of A before any of B, rank 1 the reverse.
static void outstanding_member(void *arg, uint32_t rank) {
  const uint64_t *runs = arg;
  struct rondo_context ctx = job.ctx[rank];
  static int64_t data[2][4][COUNT];
  for (uint32_t half = 0; half < 2; half++) {
    uint32_t c = half ^ rank;
    for (uint64_t i = 0; i < *runs; i++)
      if (!succeeded(rank, "rondo_run",
                     rondo_run(ctx, colls[rank][c], data[rank][c], data[rank][2 + c], NULL, NULL)))
        return;
  }
  for (uint32_t c = 0; c < 2; c++)
    (void)succeeded(rank, "rondo_wait",
                    rondo_wait(ctx, colls[rank][c], RONDO_LAST_RUN, RONDO_TEST_LONG_NS));
}

static void a_hundred_thousand_runs_may_be_outstanding(void **state) {
  (void)state;
  uint64_t runs = rondo_test_load(100000, 3000);
  struct rondo_counters counters;
  rondo_test_job_open(&job, 2, NULL);
  register_many(2);
  run_team(2, outstanding_member, &runs);
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.submitted, 2 * runs);
  assert_int_equal(counters.completed, 2 * runs);
  rondo_test_job_close(&job);
}

static void runs_of_one_collective_match_by_their_number(void **state) {
  (void)state;
  enum { RUNS = 300 };
  static int64_t send[2][RUNS];
  static int64_t recv[2][RUNS];
  struct rondo_collective_desc d = rondo_all_reduce(5, 1, RONDO_INT64, RONDO_SUM);
  struct rondo_collective coll[2];
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, coll);
  for (uint32_t r = 0; r < 2; r++) {
    for (int64_t i = 0; i < RUNS; i++) {
      struct rondo_run_args args = {&send[r][i], &recv[r][i], NULL, NULL};
      uint64_t number = 0;
      send[r][i] = i * (r + 1);
      assert_int_equal(rondo_run_numbered(job.ctx[r], coll[r], &args, &number), RONDO_SUCCESS);
      assert_int_equal(number, i + 1);
    }
  }
  for (uint32_t r = 0; r < 2; r++) {
    for (int64_t i = RUNS - 1; i >= 0; i--) {
      assert_int_equal(rondo_wait(job.ctx[r], coll[r], (uint64_t)i + 1, RONDO_TEST_LONG_NS),
                       RONDO_SUCCESS);
      assert_int_equal(recv[r][i], 3 * i);
    }
  }
  rondo_test_job_close(&job);
}

// ------------------------------------------------------------------ callbacks --

struct called {
  sem_t left;
  _Atomic uint32_t calls;
  _Atomic uint32_t bad;
  _Atomic uint32_t next[2][MANY]; // the order within a collective
};

struct callback_arg {
  struct called *called;
  uint32_t rank, coll, number;
};

static void on_end(void *arg, int status) {
  struct callback_arg *a = arg;
  if (status != RONDO_SUCCESS || a->called->next[a->rank][a->coll] != a->number)
    a->called->bad++;
  a->called->next[a->rank][a->coll]++;
  a->called->calls++;
  sem_post(&a->called->left);
}

static void each_callback_comes_once_and_in_order(void **state) {
  (void)state;
  enum { RUNS = 100 };
  static struct callback_arg args[2][MANY][RUNS];
  static struct buffers b[2];
  struct called called;
  uint64_t random = 3;
  memset(&called, 0, sizeof called);
  sem_init(&called.left, 0, 0);
  rondo_test_job_open(&job, 2, NULL);
  register_many(MANY);
  for (uint32_t run = 0; run < RUNS; run++) {
    for (uint32_t r = 0; r < 2; r++) {
      uint32_t order[MANY];
      rondo_test_shuffle(order, MANY, &random);
      for (uint32_t i = 0; i < MANY; i++) {
        uint32_t c = order[i];
        args[r][c][run] = (struct callback_arg){&called, r, c, run};
        assert_int_equal(rondo_run(job.ctx[r], colls[r][c], b[r].send[c], b[r].recv[c], on_end,
                                   &args[r][c][run]),
                         RONDO_SUCCESS);
      }
    }
  }
  for (uint32_t i = 0; i < 2 * MANY * RUNS; i++)
    while (sem_wait(&called.left))
      ;
  rondo_test_job_close(&job);
  assert_int_equal(called.calls, 2 * MANY * RUNS);
  assert_int_equal(called.bad, 0);
  sem_destroy(&called.left);
}

// A callback submits the next run: no other thread does anything.
struct chain {
  sem_t end;
  uint32_t rank, left;
  int status;
  int64_t send, recv;
};

static void on_link(void *arg, int status) {
  struct chain *c = arg;
  if (status == RONDO_SUCCESS && c->left > 0) {
    c->left--;
    status = rondo_run(job.ctx[c->rank], colls[c->rank][0], &c->send, &c->recv, on_link, c);
    if (status == RONDO_SUCCESS)
      return; // the next link may have been called already
  }
  c->status = status;
  sem_post(&c->end);
}

static void callbacks_may_submit(void **state) {
  (void)state;
  struct chain chains[2];
  struct rondo_collective coll[2];
  struct rondo_collective_desc d = rondo_all_reduce(1, 1, RONDO_INT64, RONDO_SUM);
  rondo_test_job_open(&job, 2, NULL);
  rondo_test_job_register(&job, &d, coll);
  for (uint32_t r = 0; r < 2; r++) {
    colls[r][0] = coll[r];
    chains[r] = (struct chain){.rank = r, .left = 200};
    sem_init(&chains[r].end, 0, 0);
    on_link(&chains[r], RONDO_SUCCESS);
  }
  for (uint32_t r = 0; r < 2; r++) {
    while (sem_wait(&chains[r].end))
      ;
    assert_int_equal(chains[r].status, RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
  for (uint32_t r = 0; r < 2; r++)
    sem_destroy(&chains[r].end);
}

static void the_event_descriptor_counts_runs(void **state) {
  (void)state;
  static struct buffers b[2];
  int fd = -1;
  int again = -1;
  uint64_t seen = 0;
  rondo_test_job_open(&job, 2, NULL);
  register_many(MANY);
  assert_int_equal(rondo_event_fd(job.ctx[0], NULL), RONDO_ERR_INVALID);
  assert_int_equal(rondo_event_fd(job.ctx[0], &fd), RONDO_SUCCESS);
  assert_int_equal(rondo_event_fd(job.ctx[0], &again), RONDO_SUCCESS);
  assert_int_equal(fd, again);
  struct pollfd look = {fd, POLLIN, 0};
  assert_int_equal(poll(&look, 1, 0), 0);
  for (uint32_t c = 0; c < MANY; c++)
    for (uint32_t r = 0; r < 2; r++)
      assert_int_equal(rondo_run(job.ctx[r], colls[r][c], b[r].send[c], b[r].recv[c], NULL, NULL),
                       RONDO_SUCCESS);
  while (seen < MANY) {
    uint64_t ended = 0;
    assert_true(poll(&look, 1, -1) == 1);
    assert_int_equal(read(fd, &ended, sizeof ended), sizeof ended);
    seen += ended;
  }
  assert_int_equal(seen, MANY);
  for (uint32_t c = 0; c < MANY; c++)
    assert_int_equal(rondo_test(job.ctx[0], colls[0][c], 1), RONDO_SUCCESS);
  rondo_test_job_close(&job);
}

// -------------------------------------------------------- threads of one rank --

// Two threads a rank, each with half of the collectives, which it submits in an order that differs
// from rank to rank.
static void thread_once(uint32_t member, uint64_t round, struct buffers *b) {
  uint32_t rank = member / 2;
  struct rondo_context ctx = job.ctx[rank];
  fill(b, rank, round);
  for (uint32_t i = 0; i < MANY / 2; i++) {
    uint32_t c = 2 * (rank ? MANY / 2 - 1 - i : i) + member % 2;
    if (!succeeded(member, "rondo_run",
                   rondo_run(ctx, colls[rank][c], b->send[c], b->recv[c], NULL, NULL)))
      return;
  }
  for (uint32_t c = member % 2; c < MANY; c += 2) {
    if (!succeeded(member, "rondo_wait",
                   rondo_wait(ctx, colls[rank][c], RONDO_LAST_RUN, RONDO_TEST_LONG_NS)))
      return;
    for (uint32_t k = 0; k < COUNT; k++)
      if (b->recv[c][k] != sum_of_inputs(c, round, k))
        (void)succeeded(member, "comparing", RONDO_ERR_INTERNAL);
  }
}

static void thread_of_rank(void *arg, uint32_t member) {
  const uint64_t *iterations = arg;
  struct buffers b;
  for (uint64_t i = 0; i < *iterations && !verdicts[member].failed; i++)
    thread_once(member, i, &b);
}

static void threads_of_a_rank_share_its_context(void **state) {
  (void)state;
  uint64_t iterations = rondo_test_load(60, 5);
  rondo_test_job_open(&job, 2, NULL);
  register_many(MANY);
  run_team(4, thread_of_rank, &iterations);
  rondo_test_job_close(&job);
}

static void same_collective_member(void *arg, uint32_t member) {
  const uint64_t *runs = arg;
  uint32_t rank = member / 2;
  int64_t send[COUNT] = {1};
  int64_t recv[COUNT];
  for (uint64_t i = 0; i < *runs; i++) {
    struct rondo_run_args args = {send, recv, NULL, NULL};
    uint64_t run = 0;
    if (!succeeded(member, "rondo_run_numbered",
                   rondo_run_numbered(job.ctx[rank], colls[rank][0], &args, &run)) ||
        !succeeded(member, "rondo_wait",
                   rondo_wait(job.ctx[rank], colls[rank][0], run, RONDO_TEST_LONG_NS)))
      return;
    if (recv[0] != 2)
      (void)succeeded(member, "comparing", RONDO_ERR_INTERNAL);
  }
}

static void threads_may_run_the_same_collective(void **state) {
  (void)state;
  uint64_t runs = rondo_test_load(1000, 50);
  rondo_test_job_open(&job, 2, NULL);
  register_many(1);
  run_team(4, same_collective_member, &runs);
  rondo_test_job_close(&job);
}

// ------------------------------------------------------------------ priorities --

static void priorities_are_each_ranks_own(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct permuted p = {(uint32_t)rondo_test_load(60, 5), 0};
  c.order = RONDO_ORDER_PRIORITY;
  rondo_test_job_open(&job, 4, &c);
  for (uint32_t r = 0; r < 4; r++) {
    for (uint32_t i = 0; i < MANY; i++) {
      struct rondo_collective_desc d = rondo_all_reduce(i, COUNT, RONDO_INT64, RONDO_SUM);
      d.priority = r % 2 ? (int)(i * 30) - 128 : 127 - (int)(i * 30);
      assert_int_equal(rondo_register(job.ctx[r], &d, &colls[r][i]), RONDO_SUCCESS);
    }
  }
  run_team(4, permute, &p);
  rondo_test_job_close(&job);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("order", any_permutation_completes),
      RONDO_NAMED_TEST("order", any_permutation_completes_with_synchronisation_between),
      RONDO_NAMED_TEST("order", sixteen_ranks_in_sixteen_orders_complete),
      RONDO_NAMED_TEST("order", a_hundred_thousand_runs_may_be_outstanding),
      RONDO_NAMED_TEST("order", runs_of_one_collective_match_by_their_number),
      RONDO_NAMED_TEST("order", each_callback_comes_once_and_in_order),
      RONDO_NAMED_TEST("order", callbacks_may_submit),
      RONDO_NAMED_TEST("order", the_event_descriptor_counts_runs),
      RONDO_NAMED_TEST("order", threads_of_a_rank_share_its_context),
      RONDO_NAMED_TEST("order", threads_may_run_the_same_collective),
      RONDO_NAMED_TEST("order", priorities_are_each_ranks_own),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
