// Registration: in any order, by any subset of ranks, also while others run, any number of times;
// deregistration frees what registration allocated.
#include <stdlib.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tools/kit/thread_group.h"

static struct rondo_test_job job;
static _Atomic uint32_t failures; // in threads of the group

static uint64_t connector_bytes(void) {
  struct rondo_counters counters;
  assert_int_equal(rondo_counters(job.ctx[0], &counters), RONDO_SUCCESS);
  return counters.connector_bytes;
}

static struct rondo_collective enter(uint32_t rank, uint64_t id, uint64_t count,
                                     struct rondo_group group) {
  struct rondo_collective_desc d = rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  d.group = group;
  assert_int_equal(rondo_register(job.ctx[rank], &d, &coll), RONDO_SUCCESS);
  return coll;
}

static const struct rondo_group everybody = {0};

static void submit(uint32_t rank, struct rondo_collective coll, const int32_t *send,
                   int32_t *recv) {
  assert_int_equal(rondo_run(job.ctx[rank], coll, send, recv, NULL, NULL), RONDO_SUCCESS);
}

static void await(uint32_t rank, struct rondo_collective coll) {
  assert_int_equal(rondo_wait(job.ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                   RONDO_SUCCESS);
}

static struct rondo_group group_of(uint32_t rank, const uint32_t *ranks, uint32_t count) {
  struct rondo_group group;
  assert_int_equal(rondo_group_create(job.ctx[rank], ranks, count, &group), RONDO_SUCCESS);
  return group;
}

static void each_rank_registers_in_its_own_order(void **state) {
  (void)state;
  enum { COLLS = 100, RANKS = 4 };
  static struct rondo_collective coll[RANKS][COLLS];
  static int32_t data[2][RANKS][COLLS];
  uint64_t random = 5;
  rondo_test_job_open(&job, RANKS, NULL);
  for (uint32_t r = 0; r < RANKS; r++) {
    uint32_t order[COLLS];
    rondo_test_shuffle(order, COLLS, &random);
    for (uint32_t i = 0; i < COLLS; i++) {
      coll[r][order[i]] = enter(r, order[i], 1, everybody);
      data[0][r][order[i]] = (int32_t)(order[i] * (r + 1));
      submit(r, coll[r][order[i]], &data[0][r][order[i]], &data[1][r][order[i]]);
    }
  }
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t i = 0; i < COLLS; i++) {
      await(r, coll[r][i]);
      assert_int_equal(data[1][r][i], i * 10);
    }
  rondo_test_job_close(&job);
}

// One rank runs before the others have so much as registered, or joined.
static void runs_wait_for_ranks_that_come_later(void **state) {
  (void)state;
  int32_t data[2][3] = {{1, 2, 4}};
  struct rondo_collective coll[3];
  rondo_test_job_open(&job, 3, NULL);
  assert_int_equal(rondo_destroy(job.ctx[2], RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
  coll[0] = enter(0, 9, 1, everybody);
  submit(0, coll[0], &data[0][0], &data[1][0]);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_IN_PROGRESS);
  coll[1] = enter(1, 9, 1, everybody);
  submit(1, coll[1], &data[0][1], &data[1][1]);
  assert_int_equal(rondo_device_synchronize(job.ctx[0], RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  assert_int_equal(rondo_test(job.ctx[0], coll[0], 1), RONDO_IN_PROGRESS);
  struct rondo_config c = rondo_test_job_config(&job, 2, NULL);
  assert_int_equal(rondo_init(&job.ctx[2], &c), RONDO_SUCCESS);
  coll[2] = enter(2, 9, 1, everybody);
  submit(2, coll[2], &data[0][2], &data[1][2]);
  for (uint32_t r = 0; r < 3; r++) {
    await(r, coll[r]);
    assert_int_equal(data[1][r], 7);
  }
  rondo_test_job_close(&job);
}

// --------------------------------------------------------------------- groups --

static void groups_reduce_over_their_members_only(void **state) {
  (void)state;
  static const uint32_t members[] = {4, 1, 3}; // in any order
  struct rondo_collective coll[5];
  int32_t send[5] = {1, 10, 100, 1000, 10000};
  int32_t recv[5] = {0};
  rondo_test_job_open(&job, 5, NULL);
  for (uint32_t i = 0; i < 3; i++)
    coll[members[i]] = enter(members[i], 1, 1, group_of(members[i], members, 3));
  for (uint32_t i = 0; i < 3; i++)
    submit(members[i], coll[members[i]], &send[members[i]], &recv[members[i]]);
  for (uint32_t i = 0; i < 3; i++) {
    await(members[i], coll[members[i]]);
    assert_int_equal(recv[members[i]], 11010);
  }
  rondo_test_job_close(&job);
}

static void roots_and_places_are_positions_in_the_group(void **state) {
  (void)state;
  static const uint32_t members[] = {2, 0, 1};
  int32_t recv[3][3] = {{0}};
  struct rondo_collective cast[3];
  struct rondo_collective gather[3];
  rondo_test_job_open(&job, 3, NULL);
  for (uint32_t r = 0; r < 3; r++) {
    struct rondo_collective_desc b = rondo_broadcast(1, 1, RONDO_INT32, 0); // rank 2
    struct rondo_collective_desc g = rondo_all_gather(2, 1, RONDO_INT32);
    b.group = g.group = group_of(r, members, 3);
    assert_int_equal(rondo_register(job.ctx[r], &b, &cast[r]), RONDO_SUCCESS);
    assert_int_equal(rondo_register(job.ctx[r], &g, &gather[r]), RONDO_SUCCESS);
    assert_int_equal(rondo_group_destroy(job.ctx[r], b.group), RONDO_SUCCESS);
    assert_int_equal(rondo_group_destroy(job.ctx[r], b.group), RONDO_ERR_UNKNOWN);
  }
  int32_t send[3] = {7, 8, 9};
  for (uint32_t r = 0; r < 3; r++)
    submit(r, cast[r], &send[r], recv[r]);
  for (uint32_t r = 0; r < 3; r++) {
    await(r, cast[r]);
    assert_int_equal(recv[r][0], 9);
  }
  for (uint32_t r = 0; r < 3; r++)
    submit(r, gather[r], &send[r], recv[r]);
  for (uint32_t r = 0; r < 3; r++) {
    await(r, gather[r]);
    for (uint32_t i = 0; i < 3; i++)
      assert_int_equal(recv[r][i], send[members[i]]);
  }
  rondo_test_job_close(&job);
}

static void disjoint_groups_may_share_an_id(void **state) {
  (void)state;
  static const uint32_t pairs[2][2] = {{0, 3}, {2, 1}};
  struct rondo_collective coll[4];
  int32_t send[4] = {1, 2, 4, 8};
  int32_t recv[4];
  rondo_test_job_open(&job, 4, NULL);
  for (uint32_t turn = 0; turn < 2; turn++) // interleaved, and with different counts
    for (uint32_t p = 0; p < 2; p++) {
      uint32_t r = pairs[p][turn];
      coll[r] = enter(r, 7, 1, group_of(r, pairs[p], 2));
    }
  for (uint32_t r = 0; r < 4; r++)
    submit(r, coll[r], &send[r], &recv[r]);
  for (uint32_t r = 0; r < 4; r++) {
    await(r, coll[r]);
    assert_int_equal(recv[r], r == 0 || r == 3 ? 9 : 6);
  }
  rondo_test_job_close(&job);
}

// -------------------------------------------------------- while others run ----

static void busy_member(void *arg, uint32_t rank) {
  const uint64_t *iterations = arg;
  struct rondo_context ctx = job.ctx[rank];
  struct rondo_collective_desc steady = rondo_all_reduce(1, 100, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  int32_t send[100];
  int32_t recv[100];
  for (int i = 0; i < 100; i++)
    send[i] = i;
  if (rondo_register(ctx, &steady, &coll) != RONDO_SUCCESS)
    failures++;
  for (uint64_t i = 0; i < *iterations; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(2 + i, 1, RONDO_INT32, RONDO_SUM);
    struct rondo_collective passing;
    int32_t one = 1;
    int32_t two = 0;
    int status = rondo_run(ctx, coll, send, recv, NULL, NULL);
    status += rondo_register(ctx, &d, &passing);
    status += rondo_run(ctx, passing, &one, &two, NULL, NULL);
    status += rondo_wait(ctx, passing, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
    status += rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
    status += rondo_deregister(ctx, passing);
    if (status != RONDO_SUCCESS || two != 2 || recv[99] != 198)
      failures++;
  }
}

static void collectives_come_and_go_while_others_run(void **state) {
  (void)state;
  uint64_t iterations = rondo_test_load(500, 30);
  struct rondo_kit_thread_group group = {2, false, busy_member, &iterations};
  failures = 0;
  rondo_test_job_open(&job, 2, NULL);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  assert_int_equal(failures, 0);
  rondo_test_job_close(&job);
}

static void an_id_may_come_back_as_something_else(void **state) {
  (void)state;
  rondo_test_job_open(&job, 2, NULL);
  for (uint64_t times = 1; times <= 20; times++) {
    struct rondo_collective coll[2];
    int32_t send[20];
    int32_t recv[2][20];
    for (int32_t i = 0; i < 20; i++)
      send[i] = i;
    for (uint32_t r = 0; r < 2; r++)
      coll[r] = enter(r, 1, times, everybody);
    for (uint32_t r = 0; r < 2; r++)
      submit(r, coll[r], send, recv[r]);
    for (uint32_t r = 0; r < 2; r++) {
      await(r, coll[r]);
      assert_int_equal(recv[r][times - 1], 2 * (times - 1));
      assert_int_equal(rondo_deregister(job.ctx[r], coll[r]), RONDO_SUCCESS);
    }
    assert_int_equal(connector_bytes(), 0);
  }
  rondo_test_job_close(&job);
}

// Between threads on the host, partial sums of an all-reduce lie in the receive buffers, in place
// and out of place, so that a thousand gradients take little memory.
static void sums_of_a_mebibyte_take_no_connector_memory(void **state) {
  (void)state;
  enum { MEMBERS = 8, COUNT = 262144, COLLS = 4, MOST_BYTES = COLLS * 16384 };
  static int32_t send[MEMBERS][COUNT];
  static int32_t recv[MEMBERS][COUNT];
  struct rondo_collective coll[COLLS][MEMBERS];
  rondo_test_job_open(&job, MEMBERS, NULL);
  for (uint32_t i = 0; i < COLLS; i++) {
    bool in_place = i % 2;
    for (uint32_t r = 0; r < MEMBERS; r++) {
      coll[i][r] = enter(r, i, COUNT - i, everybody);
      for (uint32_t k = 0; k < COUNT; k++)
        send[r][k] = recv[r][k] = (int32_t)(r * k + i);
    }
    for (uint32_t r = 0; r < MEMBERS; r++)
      submit(r, coll[i][r], in_place ? recv[r] : send[r], recv[r]);
    for (uint32_t r = 0; r < MEMBERS; r++) {
      await(r, coll[i][r]);
      for (uint32_t k = 0; k < COUNT - i; k++)
        assert_int_equal(recv[r][k], (int32_t)(MEMBERS * (MEMBERS - 1) / 2 * k + MEMBERS * i));
    }
  }
  if (!getenv("RONDO_TEST_BACKEND"))
    assert_in_range(connector_bytes(), 1, MOST_BYTES);
  rondo_test_job_close(&job);
}

// Connectors take at most 1/256 of connector_bytes for payload. Others have their heads and slots.
static void payload_memory_of_connectors_has_a_limit(void **state) {
  (void)state;
  if (getenv("RONDO_TEST_BACKEND"))
    skip();                                                          // a GPU's ranks lend nothing
  enum { MEMBERS = 8, MOST_BYTES = 4096 + 2 * (MEMBERS - 1) * 512 }; // direct: most connectors
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.connector_bytes = 1u << 20;
  rondo_test_job_open(&job, MEMBERS, &c);
  for (uint64_t count = 16; count <= 65536; count *= 2) {
    struct rondo_collective coll[MEMBERS];
    for (uint32_t r = 0; r < MEMBERS; r++) {
      struct rondo_collective_desc d = rondo_all_reduce(1, count, RONDO_FLOAT32, RONDO_AVG);
      assert_int_equal(rondo_register(job.ctx[r], &d, &coll[r]), RONDO_SUCCESS);
    }
    assert_in_range(connector_bytes(), 1, MOST_BYTES);
    for (uint32_t r = 0; r < MEMBERS; r++)
      assert_int_equal(rondo_deregister(job.ctx[r], coll[r]), RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

enum { LENT_MEMBERS = 4, LENT_COUNT = 4096, LENT_COLLS = 16, LENT_SLOTS = 4 };
static int32_t lent_send[LENT_MEMBERS][LENT_MEMBERS * LENT_COUNT];
static int32_t lent_recv[LENT_COLLS][LENT_MEMBERS][LENT_COUNT];
static struct rondo_collective lent_coll[LENT_COLLS][LENT_MEMBERS];

// Opens a job with reduce-scatters, whose slots hold sums of 16 KiB.
static void lenders_open(const struct rondo_config *like) {
  assert_int_equal(setenv("RONDO_ALGO", "reduce_scatter=ring", 1), 0); // its sums need payload
  rondo_test_job_open(&job, LENT_MEMBERS, like);
  assert_int_equal(unsetenv("RONDO_ALGO"), 0);
  for (uint32_t r = 0; r < LENT_MEMBERS; r++)
    for (uint32_t i = 0; i < LENT_COLLS; i++) {
      struct rondo_collective_desc d = rondo_reduce_scatter(i, LENT_COUNT, RONDO_INT32, RONDO_SUM);
      assert_int_equal(rondo_register(job.ctx[r], &d, &lent_coll[i][r]), RONDO_SUCCESS);
    }
  for (uint32_t r = 0; r < LENT_MEMBERS; r++)
    for (uint32_t k = 0; k < LENT_MEMBERS * LENT_COUNT; k++)
      lent_send[r][k] = (int32_t)(k * (r + 1));
}

static int lent_submit(uint32_t i, uint32_t rank) {
  return rondo_run(job.ctx[rank], lent_coll[i][rank], lent_send[rank], lent_recv[i][rank], NULL,
                   NULL);
}

// Waits for a collective on all ranks, and checks the results.
static void lent_await(uint32_t i) {
  for (uint32_t r = 0; r < LENT_MEMBERS; r++) {
    await(r, lent_coll[i][r]);
    for (uint32_t k = 0; k < LENT_COUNT; k++)
      assert_int_equal(lent_recv[i][r][k], 10 * (r * LENT_COUNT + k));
  }
}

static void payload_memory_is_lent_while_runs_are_outstanding(void **state) {
  (void)state;
  enum { LENT_BYTES = LENT_SLOTS * LENT_COUNT * 4 };
  struct rondo_config c = RONDO_CONFIG_INIT;
  if (getenv("RONDO_TEST_BACKEND"))
    skip();
  c.connector_bytes = 1u << 20; // connectors get none
  lenders_open(&c);
  uint64_t idle = connector_bytes();
  assert_in_range(idle, 1, LENT_COLLS * LENT_MEMBERS * 1024);
  assert_int_equal(lent_submit(0, 0), RONDO_SUCCESS); // stuck: the others have not come
  assert_int_equal(connector_bytes(), idle + LENT_BYTES);
  assert_int_equal(lent_submit(0, 0), RONDO_SUCCESS); // both runs use the same memory
  assert_int_equal(connector_bytes(), idle + LENT_BYTES);
  assert_int_equal(lent_submit(1, 0), RONDO_SUCCESS);
  assert_int_equal(connector_bytes(), idle + 2 * LENT_BYTES);
  for (uint32_t r = 1; r < LENT_MEMBERS; r++) {
    assert_int_equal(lent_submit(1, r), RONDO_SUCCESS);
    assert_int_equal(lent_submit(0, r), RONDO_SUCCESS);
    assert_int_equal(lent_submit(0, r), RONDO_SUCCESS);
  }
  lent_await(0);
  lent_await(1);
  assert_int_equal(connector_bytes(), idle);
  rondo_test_job_close(&job);
}

// Payload memory has the same limit as connectors. A run that gets none is refused and leaves
// nothing; the same call succeeds once another run has ended.
static void a_run_without_payload_memory_is_refused(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  uint32_t most = 0;
  if (getenv("RONDO_TEST_BACKEND"))
    skip();
  c.connector_bytes = 1u << 18; // for four pieces
  lenders_open(&c);
  for (uint32_t i = 0; i < 4; i++) // collectives that run in turn use the same memory
    for (uint32_t times = 0; times < 2; times++) {
      for (uint32_t r = 0; r < LENT_MEMBERS; r++)
        assert_int_equal(lent_submit(i, r), RONDO_SUCCESS);
      lent_await(i);
    }
  assert_int_equal(lent_submit(0, 0), RONDO_SUCCESS);
  rondo_test_log_clear();
  while (most < LENT_COLLS && lent_submit(most + 1, 0) == RONDO_SUCCESS)
    most++;
  assert_int_equal(most, 0); // the other ranks have the rest
  assert_true(rondo_test_log_has("connector_bytes is used up"));
  for (uint32_t r = 1; r < LENT_MEMBERS; r++)
    assert_int_equal(lent_submit(0, r), RONDO_SUCCESS);
  lent_await(0);
  for (uint32_t r = 0; r < LENT_MEMBERS; r++)
    assert_int_equal(lent_submit(1, r), RONDO_SUCCESS);
  lent_await(1);
  rondo_test_job_close(&job);
}

// A rank may be generations ahead of the other: the n-th belongs to the n-th.
static void generations_match_in_their_order(void **state) {
  (void)state;
  int32_t one = 1;
  int32_t two = 2;
  int32_t out[2] = {0};
  rondo_test_job_open(&job, 2, NULL);
  struct rondo_collective first = enter(0, 1, 1, everybody);
  assert_int_equal(rondo_deregister(job.ctx[0], first), RONDO_SUCCESS);
  struct rondo_collective second = enter(0, 1, 1, everybody);
  submit(0, second, &one, &out[0]);
  // Rank 1's first belongs to rank 0's first, which will never run.
  struct rondo_collective late = enter(1, 1, 1, everybody);
  submit(1, late, &two, &out[1]);
  assert_int_equal(rondo_wait(job.ctx[1], late, 1, RONDO_TEST_LONG_NS), RONDO_ERR_PEER);
  assert_int_equal(rondo_test(job.ctx[0], second, 1), RONDO_IN_PROGRESS);
  assert_int_equal(rondo_deregister(job.ctx[1], late), RONDO_SUCCESS);
  late = enter(1, 1, 1, everybody);
  submit(1, late, &two, &out[1]);
  await(1, late);
  await(0, second);
  assert_int_equal(out[0], 3);
  assert_int_equal(out[1], 3);
  rondo_test_job_close(&job);
}

// ----------------------------------------------------------------------- many --

static void ten_thousand_collectives_fit_a_process(void **state) {
  (void)state;
  enum { MOST = 10000 };
  static struct rondo_collective coll[2][MOST];
  static int32_t send[MOST];
  static int32_t recv[2][MOST];
  uint32_t count = (uint32_t)rondo_test_load(MOST, 1000);
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t i = 0; i < count; i++)
    coll[0][i] = enter(0, i, 1, everybody);
  for (uint32_t i = count; i-- > 0;)
    coll[1][i] = enter(1, i, 1, everybody);
  assert_true(connector_bytes() > 0);
  for (uint32_t i = 0; i < count; i++) {
    send[i] = (int32_t)i;
    submit(0, coll[0][i], &send[i], &recv[0][i]);
  }
  for (uint32_t i = count; i-- > 0;)
    submit(1, coll[1][i], &send[i], &recv[1][i]);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < count; i++) {
      await(r, coll[r][i]);
      assert_int_equal(recv[r][i], 2 * i);
    }
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < count; i++)
      assert_int_equal(rondo_deregister(job.ctx[r], coll[r][i]), RONDO_SUCCESS);
  assert_int_equal(connector_bytes(), 0);
  rondo_test_job_close(&job);
}

static void an_id_is_found_while_it_is_registered(void **state) {
  (void)state;
  struct rondo_collective found = {4711};
  rondo_test_job_open(&job, 1, NULL);
  assert_int_equal(rondo_lookup(job.ctx[0], 5, &found), RONDO_ERR_UNKNOWN);
  assert_int_equal(found.handle, 4711);
  struct rondo_collective coll = enter(0, 5, 1, everybody);
  assert_int_equal(rondo_lookup(job.ctx[0], 5, &found), RONDO_SUCCESS);
  assert_int_equal(found.handle, coll.handle);
  assert_int_equal(rondo_lookup(job.ctx[0], 5, NULL), RONDO_ERR_INVALID);
  assert_int_equal(rondo_deregister(job.ctx[0], coll), RONDO_SUCCESS);
  assert_int_equal(rondo_lookup(job.ctx[0], 5, &found), RONDO_ERR_UNKNOWN);
  rondo_test_job_close(&job);
}

// Registering from many threads at once holds the limit all the same.
#define LIMIT 8u
static _Atomic uint32_t accepted;

static void greedy_member(void *arg, uint32_t member) {
  (void)arg;
  for (uint32_t i = 0; i < LIMIT; i++) {
    struct rondo_collective_desc d = rondo_all_reduce(member * 100u + i, 1, RONDO_INT32, RONDO_SUM);
    struct rondo_collective coll;
    int status = rondo_register(job.ctx[0], &d, &coll);
    if (status == RONDO_SUCCESS)
      accepted++;
    else if (status != RONDO_ERR_FULL)
      failures++;
  }
}

static void the_limit_of_collectives_holds_for_threads_at_once(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_kit_thread_group group = {4, false, greedy_member, NULL};
  c.max_collectives = LIMIT;
  for (uint32_t i = 0; i < rondo_test_load(50, 5); i++) {
    accepted = failures = 0;
    rondo_test_job_open(&job, 1, &c);
    assert_int_equal(rondo_kit_thread_group_run(&group), 0);
    assert_int_equal(failures, 0);
    assert_int_equal(accepted, LIMIT);
    rondo_test_job_close(&job);
  }
}

// No rank of an all-to-all has so many connectors. The plan is not part of registering.
static void a_plan_that_cannot_be_made_ends_the_runs(void **state) {
  (void)state;
  struct rondo_context ctx;
  struct rondo_collective coll;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  char why[RONDO_REASON_BYTES];
  cfg.rank_count = 70000;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  int32_t *data = calloc(2 * (size_t)cfg.rank_count, sizeof *data);
  struct rondo_collective_desc d = rondo_all_to_all(7, 1, RONDO_INT32);
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  assert_int_equal(rondo_run(ctx, coll, data, data + cfg.rank_count, NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(ctx, coll, 1, RONDO_TEST_LONG_NS), RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_reason(ctx, coll, why, sizeof why), RONDO_SUCCESS);
  assert_non_null(strstr(why, "rank 0 has no plan for all_to_all of 70000 ranks by direct"));
  assert_int_equal(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("registration", each_rank_registers_in_its_own_order),
      RONDO_NAMED_TEST("registration", runs_wait_for_ranks_that_come_later),
      RONDO_NAMED_TEST("registration", groups_reduce_over_their_members_only),
      RONDO_NAMED_TEST("registration", roots_and_places_are_positions_in_the_group),
      RONDO_NAMED_TEST("registration", disjoint_groups_may_share_an_id),
      RONDO_NAMED_TEST("registration", collectives_come_and_go_while_others_run),
      RONDO_NAMED_TEST("registration", an_id_may_come_back_as_something_else),
      RONDO_NAMED_TEST("registration", sums_of_a_mebibyte_take_no_connector_memory),
      RONDO_NAMED_TEST("registration", payload_memory_of_connectors_has_a_limit),
      RONDO_NAMED_TEST("registration", payload_memory_is_lent_while_runs_are_outstanding),
      RONDO_NAMED_TEST("registration", a_run_without_payload_memory_is_refused),
      RONDO_NAMED_TEST("registration", generations_match_in_their_order),
      RONDO_NAMED_TEST("registration", ten_thousand_collectives_fit_a_process),
      RONDO_NAMED_TEST("registration", a_plan_that_cannot_be_made_ends_the_runs),
      RONDO_NAMED_TEST("registration", an_id_is_found_while_it_is_registered),
      RONDO_NAMED_TEST("registration", the_limit_of_collectives_holds_for_threads_at_once),
  };
  rondo_test_log_open();
  return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}
