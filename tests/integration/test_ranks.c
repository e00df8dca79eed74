// Waiting for the ranks of a job to join, or to leave: in one process and in several.
#include <pthread.h>
#include <string.h>

#include "tests/support/job.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define JOIN_NS UINT64_C(400000000)

typedef int (*wait_call)(struct rondo_context ctx, int64_t timeout_ns, uint32_t *ranks,
                         uint32_t capacity, uint32_t *count);

// Looks once: whether the call returns `status` and names just these ranks, a bit each.
static int names(struct rondo_context ctx, wait_call call, int status, uint32_t bits) {
  uint32_t ranks[32];
  uint32_t count = 77;
  uint32_t named = 0;
  if (call(ctx, 0, ranks, 32, &count) != status || count > 32)
    return 0;
  for (uint32_t i = 0; i < count; i++)
    named |= 1u << ranks[i];
  return named == bits;
}

static struct rondo_context open_rank(const struct rondo_test_child *child, uint32_t rank,
                                      uint32_t count, const struct rondo_unique_id *id) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  cfg.id = *id;
  cfg.rank = rank;
  cfg.rank_count = count;
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  return ctx;
}

// ------------------------------------------------------------------- threads ---

struct waiter {
  struct rondo_context ctx;
  wait_call call;
  int status;
};

static void *wait_long(void *arg) {
  struct waiter *w = arg;
  w->status = w->call(w->ctx, LONG_NS, NULL, 0, NULL);
  return NULL;
}

// Waits in a thread of its own while ranks come, or one goes. The wait succeeds.
static pthread_t wait_beside(struct rondo_test_child *child, struct waiter *w) {
  pthread_t thread;
  RONDO_CHILD_CHECK(pthread_create(&thread, NULL, wait_long, w) == 0);
  return thread;
}

static void end_wait(struct rondo_test_child *child, struct waiter *w, pthread_t thread) {
  pthread_join(thread, NULL);
  RONDO_CHILD_CHECK(w->status == RONDO_SUCCESS);
}

static void come(struct rondo_test_child *child, struct rondo_context *ctx) {
  struct rondo_unique_id id;
  RONDO_CHILD_CHECK(rondo_unique_id_create(&id) == RONDO_SUCCESS);
  ctx[0] = open_rank(child, 0, 3, &id);
  RONDO_CHILD_CHECK(names(ctx[0], rondo_wait_ready, RONDO_ERR_TIMEOUT, 6));
  RONDO_CHILD_CHECK(names(ctx[0], rondo_wait_gone, RONDO_ERR_TIMEOUT, 6));
  struct waiter w = {ctx[0], rondo_wait_ready, -1};
  pthread_t thread = wait_beside(child, &w);
  ctx[1] = open_rank(child, 1, 3, &id);
  ctx[2] = open_rank(child, 2, 3, &id);
  end_wait(child, &w, thread);
  RONDO_CHILD_CHECK(names(ctx[1], rondo_wait_ready, RONDO_SUCCESS, 0));
}

static void come_and_go(struct rondo_test_child *child) {
  struct rondo_context ctx[3];
  come(child, ctx);
  RONDO_CHILD_CHECK(rondo_destroy(ctx[1], RONDO_DESTROY_DRAIN, 0) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(names(ctx[0], rondo_wait_ready, RONDO_ERR_PEER, 2));
  RONDO_CHILD_CHECK(names(ctx[0], rondo_wait_gone, RONDO_ERR_TIMEOUT, 4));
  struct waiter w = {ctx[0], rondo_wait_gone, -1};
  pthread_t thread = wait_beside(child, &w);
  RONDO_CHILD_CHECK(rondo_destroy(ctx[2], RONDO_DESTROY_DRAIN, 0) == RONDO_SUCCESS);
  end_wait(child, &w, thread);
  RONDO_CHILD_CHECK(rondo_destroy(ctx[0], RONDO_DESTROY_DRAIN, 0) == RONDO_SUCCESS);
}

static void ranks_of_one_process_are_waited_for(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 1, come_and_go, NULL);
  rondo_test_reap(&p, 0);
}

// It waits by then, or comes too late.
static void close_under(struct rondo_test_child *child) {
  static const wait_call calls[2] = {rondo_wait_ready, rondo_wait_gone};
  for (int i = 0; i < 2; i++) {
    struct rondo_unique_id id;
    pthread_t thread;
    RONDO_CHILD_CHECK(rondo_unique_id_create(&id) == RONDO_SUCCESS);
    struct waiter w = {open_rank(child, 0, 2, &id), calls[i], -1};
    RONDO_CHILD_CHECK(pthread_create(&thread, NULL, wait_long, &w) == 0);
    RONDO_CHILD_CHECK(rondo_destroy(w.ctx, RONDO_DESTROY_ABORT, 0) == RONDO_SUCCESS);
    pthread_join(thread, NULL);
    RONDO_CHILD_CHECK(w.status == RONDO_ERR_CLOSED || w.status == RONDO_ERR_UNKNOWN);
  }
}

static void a_rank_that_waits_for_others_returns_at_the_end(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 1, close_under, NULL);
  rondo_test_reap(&p, 0);
}

static void ask_for_nonsense(struct rondo_test_child *child) {
  struct rondo_context ctx;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  uint32_t count = 0;
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_wait_ready(ctx, 0, NULL, 1, &count) == RONDO_ERR_INVALID);
  RONDO_CHILD_CHECK(rondo_wait_gone(ctx, 0, NULL, 1, &count) == RONDO_ERR_INVALID);
  // It is alone: all are there, and have gone.
  RONDO_CHILD_CHECK(names(ctx, rondo_wait_ready, RONDO_SUCCESS, 0));
  RONDO_CHILD_CHECK(names(ctx, rondo_wait_gone, RONDO_SUCCESS, 0));
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, 0) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_wait_ready(ctx, 0, NULL, 0, NULL) == RONDO_ERR_UNKNOWN);
}

static void nonsense_is_refused(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 1, ask_for_nonsense, NULL);
  rondo_test_reap(&p, 0);
}

// ----------------------------------------------------------------- processes ---

static void meet_and_part(struct rondo_test_child *child) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = child->count;
  struct rondo_unique_id id = rondo_test_child_id(child, &cfg);
  struct rondo_context ctx = open_rank(child, child->rank, child->count, &id);
  RONDO_CHILD_CHECK(rondo_wait_ready(ctx, LONG_NS, NULL, 0, NULL) == RONDO_SUCCESS);
  rondo_test_child_say(child);
  rondo_test_child_receive(child); // all have met: now they may leave
  if (child->rank == 0) {
    RONDO_CHILD_CHECK(rondo_wait_gone(ctx, LONG_NS, NULL, 0, NULL) == RONDO_SUCCESS);
    RONDO_CHILD_CHECK(names(ctx, rondo_wait_ready, RONDO_ERR_PEER, (1u << child->count) - 2));
  }
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
}

static void ranks_of_other_processes_are_waited_for(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 3, meet_and_part, NULL);
  rondo_test_pass_id(&p);
  for (uint32_t r = 0; r < p.count; r++)
    rondo_test_receive(&p, r);
  for (uint32_t r = 0; r < p.count; r++)
    rondo_test_say(&p, r);
  rondo_test_reap(&p, 0);
}

// Rank 1 never comes. On a busy machine others may be late, too.
static void miss_one(struct rondo_test_child *child) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  uint32_t ranks[3] = {77, 77, 77};
  uint32_t count = 0;
  uint32_t named = 0;
  cfg.rank = child->rank;
  cfg.rank_count = child->count;
  cfg.join_timeout_ns = JOIN_NS;
  cfg.id = rondo_test_child_id(child, &cfg);
  if (child->rank == 1)
    return;
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_wait_ready(ctx, LONG_NS, ranks, 3, &count) == RONDO_ERR_PEER);
  for (uint32_t i = 0; i < count && i < 3; i++)
    named |= ranks[i] == 1;
  RONDO_CHILD_CHECK(named);
  rondo_test_child_say(child);
  rondo_test_child_receive(child);
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0) == RONDO_SUCCESS);
}

static void a_rank_that_never_comes_is_named(void **state) {
  struct rondo_test_processes p;
  (void)state;
  rondo_test_fork(&p, 3, miss_one, NULL);
  rondo_test_pass_id(&p);
  for (uint32_t r = 0; r < p.count; r += 2)
    rondo_test_receive(&p, r);
  for (uint32_t r = 0; r < p.count; r += 2)
    rondo_test_say(&p, r);
  rondo_test_reap(&p, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ranks", ranks_of_one_process_are_waited_for),
      RONDO_NAMED_TEST("ranks", a_rank_that_waits_for_others_returns_at_the_end),
      RONDO_NAMED_TEST("ranks", nonsense_is_refused),
      RONDO_NAMED_TEST("ranks", ranks_of_other_processes_are_waited_for),
      RONDO_NAMED_TEST("ranks", a_rank_that_never_comes_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
