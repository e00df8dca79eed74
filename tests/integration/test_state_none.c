// State that all members hold, in a build without xxHash: the call says what is missing.
#include <string.h>

#include <rondo/state.h>

#include "tests/support/named.h"

static void the_call_says_what_is_missing(void **state) {
  (void)state;
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_state none = RONDO_STATE_INIT;
  struct rondo_context ctx;
  char why[RONDO_REASON_BYTES] = "?";
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  assert_int_equal(rondo_state_sync(ctx, &none, 1, NULL, why), RONDO_ERR_UNSUPPORTED);
  assert_non_null(strstr(why, "xxHash"));
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, RONDO_FOREVER), RONDO_SUCCESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {RONDO_NAMED_TEST("state_sync", the_call_says_what_is_missing)};
  return cmocka_run_group_tests_name("state_sync", tests, NULL, NULL);
}
