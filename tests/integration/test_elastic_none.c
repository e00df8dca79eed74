// Jobs whose members change, in a build without libevent or libsodium: every call says that it is
// not supported, and why; the rank itself can be asked.
#include <string.h>

#include <rondo/elastic.h>

#include "tests/support/named.h"

static void calls_say_what_is_missing(void **state) {
  (void)state;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_context next;
  struct rondo_unique_id id = {0};
  uint32_t count;
  char why[3][RONDO_REASON_BYTES] = {"?", "?", "?"};
  assert_int_equal(rondo_grow_listen(&id, &cfg), RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_grow_close(&id), RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_pending(&id, &count), RONDO_ERR_UNSUPPORTED);
  cfg.rank_count = 1;
  cfg.least_ranks = 1;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_ERR_UNSUPPORTED);
  cfg.least_ranks = 0;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  assert_int_equal(rondo_join(&next, &cfg, 1, why[0]), RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_grow(ctx, NULL, 1, 1, &next, why[1]), RONDO_ERR_UNSUPPORTED);
  assert_int_equal(rondo_shrink(ctx, NULL, 0, 1, &next, why[2]), RONDO_ERR_UNSUPPORTED);
  for (int i = 0; i < 3; i++)
    assert_non_null(strstr(why[i], "libevent"));
  assert_int_equal(rondo_shrink(ctx, NULL, 0, 1, &next, NULL), RONDO_ERR_UNSUPPORTED);
  uint32_t rank = 7;
  assert_int_equal(rondo_describe_rank(ctx, &rank, &count), RONDO_SUCCESS);
  assert_int_equal(rank, 0);
  assert_int_equal(count, 1);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER), RONDO_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {RONDO_NAMED_TEST("elastic", calls_say_what_is_missing)};
  return cmocka_run_group_tests_name("elastic", tests, NULL, NULL);
}
