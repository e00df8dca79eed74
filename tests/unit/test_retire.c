// As soon as a completion is visible, the collective may be deregistered and its contexts freed, so
// the block may not write there any more. Built with the explorer's points: one of them lies just
// before the completion becomes visible.
#include <string.h>

#include "daemon/host/host.h"
#include "runtime/api/api_context.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/rank/run_queues.h"
#include "tests/support/named.h"

int rondo_fault_planted;

static struct rondo_task_context *watched; // one context of each block
static struct rondo_task_context at_post[2];
static int posts;

void rondo_explore_point(const char *name) {
  if (!watched || strcmp(name, "cq.push") != 0)
    return;
  memcpy(at_post, watched, sizeof at_post);
  posts++;
}

void rondo_explore_point_in_pair(const char *name, uint64_t *pair, uint64_t first,
                                 uint64_t second) {
  (void)pair;
  (void)first;
  (void)second;
  rondo_explore_point(name);
}

static struct rondo_rank *open_rank(struct rondo_context *ctx) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_rank *rank = NULL;
  c.blocks = 2;
  const struct rondo_manual manual = {0};
  assert_int_equal(rondo_context_create(ctx, &c, &manual), RONDO_SUCCESS);
  assert_int_equal(rondo_rank_pin(*ctx, "test", &rank), RONDO_SUCCESS);
  rondo_rank_unpin(*ctx);
  return rank;
}

// Steps the blocks in turn until the run's completion is in the queue.
static void step_until_posted(struct rondo_rank *rank) {
  for (uint64_t now_ns = 1; now_ns < 10000 && !rondo_cq_has_entry(&rank->member.daemon->cq);
       now_ns++) {
    struct rondo_block *b = &rondo_host_daemon_of(rank->member.daemon)->blocks[now_ns % 2].core;
    if (!b->resident)
      rondo_block_start(b, now_ns);
    (void)rondo_block_step(b, now_ns);
  }
}

static void nothing_is_written_once_the_completion_is_visible(void **state) {
  (void)state;
  static int32_t data[2][40000]; // enough for two blocks
  struct rondo_context ctx;
  struct rondo_rank *rank = open_rank(&ctx);
  struct rondo_collective_desc d = rondo_all_reduce(1, 40000, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  watched = rondo_table_context(&rondo_host_daemon_of(rank->member.daemon)->table, 0, 0);
  for (int i = 1; i <= 3; i++) {
    assert_int_equal(rondo_run(ctx, coll, data[0], data[1], NULL, NULL), RONDO_SUCCESS);
    step_until_posted(rank);
    assert_int_equal(posts, i);
    assert_memory_equal(watched, at_post, sizeof at_post);
    assert_int_equal(rondo_rank_service(rank), 1);
    assert_int_equal(rondo_test(ctx, coll, (uint64_t)i), RONDO_SUCCESS);
  }
  watched = NULL;
  assert_int_equal(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, 0), RONDO_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("retire", nothing_is_written_once_the_completion_is_visible),
  };
  return cmocka_run_group_tests_name("retire", tests, NULL, NULL);
}
