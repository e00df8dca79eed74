// What NCCL's documentation says of a call beside its result: what is refused, what is left alone, and the order
// in which things count. On memory of the CPU.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rondo/types.h>

#include "adapters/nccl/abi.h"
#include "tests/support/named.h"

#define RANKS 3
#define OK RONDO_NCCL_SUCCESS

static struct rondo_nccl_config config(int blocking) {
  struct rondo_nccl_config c = {.size = sizeof c,
                                .magic = RONDO_NCCL_CONFIG_MAGIC,
                                .version = RONDO_NCCL_VERSION,
                                .blocking = blocking,
                                .min_ctas = RONDO_NCCL_UNDEF_INT,
                                .max_ctas = RONDO_NCCL_UNDEF_INT};
  return c;
}

static void open_with(rondo_nccl_comm_t *made, int blocking) {
  struct rondo_nccl_config c = config(blocking);
  struct rondo_nccl_id id;
  assert_int_equal(ncclGetUniqueId(&id), OK);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclCommInitRankConfig(&made[r], RANKS, id, r, &c), OK);
}

static void close_all(rondo_nccl_comm_t *made) {
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclCommDestroy(made[r]), OK);
}

static int end_of(rondo_nccl_comm_t comm) {
  int error = RONDO_NCCL_IN_PROGRESS;
  while (error == RONDO_NCCL_IN_PROGRESS) {
    assert_int_equal(ncclCommGetAsyncError(comm, &error), OK);
    usleep(100);
  }
  return error;
}

// --------------------------------------------------------- splits in groups ---

// A split is matched with the calls by its order, whether ranks make it in a group or not.
static void a_split_in_a_group_counts_where_it_was_made(void **state) {
  rondo_nccl_comm_t some[RANKS], parts[RANKS];
  int32_t in = 1, out[RANKS] = {0};
  (void)state;
  open_with(some, 0);
  for (int r = 0; r < RANKS; r++) {
    if (r == 0)
      assert_int_equal(ncclGroupStart(), OK);
    assert_int_equal(ncclAllReduce(&in, &out[r], 1, RONDO_INT32, RONDO_SUM, some[r], NULL), OK);
    assert_true(ncclCommSplit(some[r], 0, 0, &parts[r], NULL) != RONDO_NCCL_INVALID_USAGE);
    assert_non_null(parts[r]);
    if (r == 0)
      assert_true(ncclGroupEnd() != RONDO_NCCL_INVALID_USAGE);
  }
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(end_of(some[r]), OK);
    assert_int_equal(end_of(parts[r]), OK);
    assert_int_equal(out[r], RANKS);
  }
  close_all(some);
  close_all(parts);
}

// A group that was refused makes no part; the handle that the program has by then says so.
static void a_split_in_a_refused_group_has_failed(void **state) {
  rondo_nccl_comm_t some[RANKS], part = NULL;
  int32_t in = 1, out = 0;
  (void)state;
  open_with(some, 0);
  assert_int_equal(ncclGroupStart(), OK);
  (void)ncclCommSplit(some[0], 0, 0, &part, NULL);
  assert_int_equal(ncclAllReduce(&in, &out, 1, 99, RONDO_SUM, some[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_ARGUMENT);
  assert_non_null(part);
  assert_int_equal(end_of(part), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(end_of(some[0]), OK);
  assert_int_equal(ncclCommAbort(part), OK);
  close_all(some);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_split_in_a_group_counts_where_it_was_made),
      cmocka_unit_test(a_split_in_a_refused_group_has_failed),
  };
  if (setenv("RONDO_NCCL_BACKEND", "host", 1))
    return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
