// The paper's listing over Rondo: each kind of collective, and what is refused. The example beside
// dfccl.h shows disorder.
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/support/log.h"
#include "tests/support/named.h"

// Short, so that a destruction that has to give up does so soon.
#define DFCCL_DESTROY_TIMEOUT_NS INT64_C(20000000)
#include <dfccl.h>

#define RANKS 3
#define COUNT 100

static const uint32_t devices[RANKS] = {0, 1, 2};

struct job {
  rankCtx_t ctx[RANKS];
  int32_t send[RANKS][RANKS * COUNT], recv[RANKS][RANKS * COUNT];
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int ended;
  ret_t status; // of the last run that failed
};

static devSet_t all(void) { return dfcclDevSet(devices, RANKS); }

static void on_end(void *arg, ret_t status) {
  struct job *job = arg;
  pthread_mutex_lock(&job->lock);
  job->ended++;
  if (status != RONDO_SUCCESS)
    job->status = status;
  pthread_cond_signal(&job->changed);
  pthread_mutex_unlock(&job->lock);
}

static int open_job(void **state) {
  struct job *job = calloc(1, sizeof *job);
  assert_non_null(job);
  pthread_mutex_init(&job->lock, NULL);
  pthread_cond_init(&job->changed, NULL);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(dfcclInit(&job->ctx[r], r), RONDO_SUCCESS);
    for (int i = 0; i < RANKS * COUNT; i++)
      job->send[r][i] = 1000 * (r + 1) + i;
  }
  rondo_test_log_clear();
  *state = job;
  return 0;
}

static int close_job(void **state) {
  struct job *job = *state;
  for (int r = 0; r < RANKS; r++)
    if (job->ctx[r].ctx.handle)
      assert_int_equal(dfcclDestroy(job->ctx[r]), RONDO_SUCCESS);
  pthread_mutex_destroy(&job->lock);
  pthread_cond_destroy(&job->changed);
  free(job);
  return 0;
}

static void wait_for(struct job *job, int ended) {
  pthread_mutex_lock(&job->lock);
  while (job->ended < ended)
    pthread_cond_wait(&job->changed, &job->lock);
  pthread_mutex_unlock(&job->lock);
}

static void all_reduce_adds(void **state) {
  struct job *job = *state;
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(dfcclRegisterAllReduce(COUNT, dfcclInt32, dfcclSum, 7, all(), 0, job->ctx[r]),
                     0);
    assert_int_equal(dfcclRunAllReduce(job->send[r], job->recv[r], 7, on_end, job, job->ctx[r]), 0);
  }
  wait_for(job, RANKS);
  assert_int_equal(job->status, RONDO_SUCCESS);
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT; i++)
      assert_int_equal(job->recv[r][i], 6000 + 3 * i);
}

static void all_gather_collects(void **state) {
  struct job *job = *state;
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(dfcclRegisterAllGather(COUNT, dfcclInt32, 7, all(), 0, job->ctx[r]), 0);
    assert_int_equal(dfcclRunAllGather(job->send[r], job->recv[r], 7, on_end, job, job->ctx[r]), 0);
  }
  wait_for(job, RANKS);
  assert_int_equal(job->status, RONDO_SUCCESS);
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < RANKS * COUNT; i++)
      assert_int_equal(job->recv[r][i], 1000 * (i / COUNT + 1) + i % COUNT);
}

static void reduce_scatter_adds_and_cuts(void **state) {
  struct job *job = *state;
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(
        dfcclRegisterReduceScatter(COUNT, dfcclInt32, dfcclMax, 7, all(), 0, job->ctx[r]), 0);
    assert_int_equal(dfcclRunReduceScatter(job->send[r], job->recv[r], 7, on_end, job, job->ctx[r]),
                     0);
  }
  wait_for(job, RANKS);
  assert_int_equal(job->status, RONDO_SUCCESS);
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT; i++)
      assert_int_equal(job->recv[r][i], 3000 + r * COUNT + i);
}

static void reduce_has_a_root(void **state) {
  struct job *job = *state;
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(dfcclRegisterReduce(COUNT, dfcclInt32, dfcclMin, 1, 7, all(), 0, job->ctx[r]),
                     0);
    assert_int_equal(
        dfcclRunReduce(job->send[r], r == 1 ? job->recv[r] : NULL, 7, on_end, job, job->ctx[r]), 0);
  }
  wait_for(job, RANKS);
  assert_int_equal(job->status, RONDO_SUCCESS);
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(job->recv[1][i], 1000 + i);
}

static void broadcast_takes_devices_in_their_order(void **state) {
  static const uint32_t backwards[2] = {2, 0};
  struct job *job = *state;
  for (int r = 0; r < RANKS; r += 2) {
    assert_int_equal(
        dfcclRegisterBroadcast(COUNT, dfcclInt32, 0, 7, dfcclDevSet(backwards, 2), 0, job->ctx[r]),
        0);
    assert_int_equal(dfcclRunBroadcast(job->send[r], job->recv[r], 7, on_end, job, job->ctx[r]), 0);
  }
  wait_for(job, 2);
  assert_int_equal(job->status, RONDO_SUCCESS);
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(job->recv[0][i], 3000 + i);
}

static void ids_may_be_any_and_many(void **state) {
  struct job *job = *state;
  rankCtx_t ctx = job->ctx[0];
  devSet_t self = dfcclDevSet(devices, 1);
  for (int i = 0; i < 200; i++)
    assert_int_equal(
        dfcclRegisterAllReduce(COUNT, dfcclInt32, dfcclSum, INT_MAX - 1000 * i, self, 0, ctx), 0);
  for (int i = 0; i < 200; i++)
    assert_int_equal(
        dfcclRunAllReduce(job->send[0], job->recv[0], INT_MAX - 1000 * i, on_end, job, ctx), 0);
  wait_for(job, 200);
  assert_int_equal(job->status, RONDO_SUCCESS);
}

static void refuses_what_is_not_registered_so(void **state) {
  struct job *job = *state;
  rankCtx_t ctx = job->ctx[0];
  devSet_t self = dfcclDevSet(devices, 1);
  int32_t *send = job->send[0], *recv = job->recv[0];
  assert_int_equal(dfcclRegisterAllGather(COUNT, dfcclInt32, 7, self, 0, ctx), 0);
  assert_int_equal(dfcclRegisterAllReduce(COUNT, dfcclInt32, dfcclSum, 7, self, 0, ctx),
                   RONDO_ERR_EXISTS);
  assert_int_equal(dfcclRunAllReduce(send, recv, 7, NULL, NULL, ctx), RONDO_ERR_INVALID);
  assert_int_equal(dfcclRunAllGather(send, recv, 8, NULL, NULL, ctx), RONDO_ERR_UNKNOWN);
  assert_int_equal(dfcclRunAllGather(send, recv, -7, NULL, NULL, ctx), RONDO_ERR_UNKNOWN);
  assert_int_equal(dfcclRunAllGather(NULL, recv, 7, NULL, NULL, ctx), RONDO_ERR_INVALID);
  assert_int_equal(dfcclRunAllGather(send, recv, 7, on_end, job, ctx), RONDO_SUCCESS);
  wait_for(job, 1);
}

static void refuses_descriptions_that_make_no_sense(void **state) {
  struct job *job = *state;
  rankCtx_t ctx = job->ctx[0];
  devSet_t self = dfcclDevSet(devices, 1), others = dfcclDevSet(devices + 1, 2);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, 1, dfcclDevSet(NULL, 0), 0, ctx),
                   RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, 1, others, 0, ctx),
                   RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, -1, self, 0, ctx),
                   RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, 99, dfcclSum, 1, self, 0, ctx), RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, -1, 1, self, 0, ctx), RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, 1, self, 999, ctx),
                   RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterBroadcast(1, dfcclInt32, -1, 1, self, 0, ctx), RONDO_ERR_INVALID);
  assert_int_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, 1, self, 0, ctx),
                   RONDO_SUCCESS); // none of them took the id
}

static void a_description_that_differs_ends_runs_on_both_sides(void **state) {
  struct job *job = *state;
  devSet_t two = dfcclDevSet(devices, 2);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(
        dfcclRegisterAllReduce(COUNT + (size_t)r, dfcclInt32, dfcclSum, 7, two, 0, job->ctx[r]), 0);
    assert_int_equal(dfcclRunAllReduce(job->send[r], job->recv[r], 7, on_end, job, job->ctx[r]), 0);
  }
  wait_for(job, 2);
  assert_int_equal(job->status, RONDO_ERR_MISMATCH);
}

static void refuses_contexts_that_are_not(void **state) {
  struct job *job = *state;
  rankCtx_t none = {{0}}, gone;
  int32_t *send = job->send[0], *recv = job->recv[0];
  assert_int_equal(dfcclInit(NULL, 0), RONDO_ERR_INVALID);
  assert_int_equal(dfcclInit(&gone, -1), RONDO_ERR_INVALID);
  assert_int_equal(dfcclInit(&gone, 0), RONDO_ERR_EXISTS);
  assert_int_equal(dfcclInit(&gone, (int)DFCCL_MAX_RANKS), RONDO_ERR_INVALID);
  assert_int_equal(dfcclInit(&gone, RANKS), RONDO_SUCCESS);
  assert_int_equal(dfcclDestroy(gone), RONDO_SUCCESS);
  const rankCtx_t bad[] = {none, gone};
  for (size_t i = 0; i < 2; i++) {
    assert_int_not_equal(dfcclRegisterAllReduce(1, dfcclInt32, dfcclSum, 1, all(), 0, bad[i]), 0);
    assert_int_not_equal(dfcclRunAllReduce(send, recv, 1, NULL, NULL, bad[i]), 0);
    assert_int_not_equal(dfcclDestroy(bad[i]), 0);
  }
}

// The published code drops what is outstanding without a word.
static void destroy_ends_what_cannot_complete(void **state) {
  struct job *job = *state;
  assert_int_equal(dfcclRegisterAllReduce(COUNT, dfcclInt32, dfcclSum, 7, all(), 0, job->ctx[0]),
                   0);
  assert_int_equal(dfcclRunAllReduce(job->send[0], job->recv[0], 7, on_end, job, job->ctx[0]), 0);
  assert_int_equal(dfcclDestroy(job->ctx[0]), RONDO_ERR_TIMEOUT);
  job->ctx[0].ctx.handle = 0;
  assert_int_equal(job->ended, 1); // callbacks have returned
  assert_int_equal(job->status, RONDO_ERR_ABORTED);
}

#define TEST(function)                                                                             \
  { "dfccl." #function, function, open_job, close_job, NULL }

int main(void) {
  rondo_test_log_open();
  const struct CMUnitTest tests[] = {
      TEST(all_reduce_adds),
      TEST(all_gather_collects),
      TEST(reduce_scatter_adds_and_cuts),
      TEST(reduce_has_a_root),
      TEST(broadcast_takes_devices_in_their_order),
      TEST(ids_may_be_any_and_many),
      TEST(refuses_what_is_not_registered_so),
      TEST(refuses_descriptions_that_make_no_sense),
      TEST(a_description_that_differs_ends_runs_on_both_sides),
      TEST(refuses_contexts_that_are_not),
      TEST(destroy_ends_what_cannot_complete),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
