// What NCCL's documentation says of a call beside its result: what is refused, what is left alone,
// and the order in which things count. On memory of the CPU.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rondo/types.h>

#include "adapters/nccl/abi.h"
#include "tests/support/named.h"

#define RANKS 3
#include "tests/nccl/made.h"

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

// --------------------------------------------------------- what is refused ---

static void nobody_is_finalized_destroyed_and_aborted(void **state) {
  (void)state;
  assert_int_equal(ncclCommFinalize(NULL), OK);
  assert_int_equal(ncclCommDestroy(NULL), OK);
  assert_int_equal(ncclCommAbort(NULL), OK);
}

static void a_communicator_is_finalized_once(void **state) {
  rondo_nccl_comm_t one = NULL;
  int error = OK;
  (void)state;
  assert_int_equal(ncclCommInitAll(&one, 1, NULL), OK);
  assert_int_equal(ncclCommFinalize(one), OK);
  assert_int_equal(ncclCommFinalize(one), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommGetAsyncError(one, &error), OK);
  assert_int_equal(error, OK);
  assert_int_equal(ncclCommDestroy(one), OK);
}

static void a_part_that_is_not_there_yet_tells_nothing_of_itself(void **state) {
  rondo_nccl_comm_t some[RANKS], part = NULL, none = NULL;
  int number = -5;
  (void)state;
  open_with(some, 0);
  assert_int_equal(ncclCommSplit(some[0], 1, 0, &part, NULL), RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclCommCount(part, &number), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommUserRank(part, &number), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommCuDevice(part, &number), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(number, -5);
  for (int r = 1; r < RANKS; r++) {
    (void)ncclCommSplit(some[r], RONDO_NCCL_NO_COLOR, 0, &none, NULL);
    assert_null(none);
  }
  assert_int_equal(end_of(part), OK);
  assert_int_equal(ncclCommCount(part, &number), OK);
  assert_int_equal(number, 1);
  assert_int_equal(ncclCommDestroy(part), OK);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(end_of(some[r]), OK);
  close_all(some);
}

static void there_are_as_many_ids_as_ranks_at_most(void **state) {
  struct rondo_nccl_id ids[3];
  rondo_nccl_comm_t made[2] = {NULL};
  (void)state;
  for (int i = 0; i < 3; i++)
    assert_int_equal(ncclGetUniqueId(&ids[i]), OK);
  assert_int_equal(ncclCommInitRankScalable(made, 2, 0, 3, ids, NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommInitRankScalable(made, 2, 0, 0, ids, NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommInitRankScalable(made, 2, 0, 2, NULL, NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_null(made[0]);
  for (int r = 0; r < 2; r++)
    assert_int_equal(ncclCommInitRankScalable(&made[r], 2, r, 2, ids, NULL), OK);
  for (int r = 0; r < 2; r++)
    assert_int_equal(ncclCommDestroy(made[r]), OK);
}

static void the_fields_of_a_configuration_have_ranges(void **state) {
  const struct {
    size_t at;
    int bad, good;
  } fields[] = {
      {offsetof(struct rondo_nccl_config, cga_cluster_size), -1, 0},
      {offsetof(struct rondo_nccl_config, min_ctas), 0, 1},
      {offsetof(struct rondo_nccl_config, max_ctas), -3, 1000},
      {offsetof(struct rondo_nccl_config, split_share), 2, 1},
      {offsetof(struct rondo_nccl_config, collnet_enable), -1, 0},
      {offsetof(struct rondo_nccl_config, cta_policy), 4, 2},
      {offsetof(struct rondo_nccl_config, shrink_share), 9, 0},
      {offsetof(struct rondo_nccl_config, nvls_ctas), 0, 4},
      {offsetof(struct rondo_nccl_config, channels_per_net_peer), 65, 64},
      {offsetof(struct rondo_nccl_config, nvlink_centric_sched), 2, 1},
  };
  rondo_nccl_comm_t one = NULL;
  (void)state;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    struct rondo_nccl_config c = config(1);
    struct rondo_nccl_id id;
    int *field = (int *)(void *)((char *)&c + fields[i].at);
    assert_int_equal(ncclGetUniqueId(&id), OK);
    *field = fields[i].bad;
    assert_int_equal(ncclCommInitRankConfig(&one, 1, id, 0, &c), RONDO_NCCL_INVALID_ARGUMENT);
    *field = fields[i].good;
    assert_int_equal(ncclCommInitRankConfig(&one, 1, id, 0, &c), OK);
    assert_int_equal(ncclCommDestroy(one), OK);
    // A caller whose NCCL had no such field yet has anything there.
    *field = fields[i].bad;
    c.size = fields[i].at;
    assert_int_equal(ncclCommInitRankConfig(&one, 1, id, 0, &c), OK);
    assert_int_equal(ncclCommDestroy(one), OK);
    one = NULL;
  }
}

static void the_least_blocks_are_not_more_than_the_most(void **state) {
  struct rondo_nccl_config c = config(1);
  struct rondo_nccl_id id;
  rondo_nccl_comm_t one = NULL;
  (void)state;
  assert_int_equal(ncclGetUniqueId(&id), OK);
  c.min_ctas = 4;
  c.max_ctas = 3;
  assert_int_equal(ncclCommInitRankConfig(&one, 1, id, 0, &c), RONDO_NCCL_INVALID_ARGUMENT);
  assert_null(one);
}

// ------------------------------------------------------------ groups, memory ---

// As in NCCL the group is over, and nothing of it was done; what comes after is not in a group.
static void a_group_that_is_simulated_is_over(void **state) {
  rondo_nccl_comm_t one = NULL;
  int32_t in = 3, out = -1;
  (void)state;
  assert_int_equal(ncclGroupSimulateEnd(NULL), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclCommInitAll(&one, 1, NULL), OK);
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclAllReduce(&in, &out, 1, RONDO_INT32, RONDO_SUM, one, NULL), OK);
  assert_int_equal(ncclGroupSimulateEnd(NULL), OK); // only the outermost counts
  assert_int_equal(ncclGroupSimulateEnd(NULL), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(out, -1);
  assert_int_equal(ncclAllReduce(&in, &out, 1, RONDO_INT32, RONDO_SUM, one, NULL), OK);
  assert_int_equal(out, 3);
  assert_int_equal(ncclCommDestroy(one), OK);
}

static void nothing_is_allocated_and_registered_as_nothing(void **state) {
  rondo_nccl_comm_t one = NULL;
  void *memory = &one, *window = &one;
  (void)state;
  assert_int_equal(ncclMemAlloc(&memory, 0), OK);
  assert_null(memory);
  assert_int_equal(ncclMemFree(memory), OK);
  assert_int_equal(ncclCommInitAll(&one, 1, NULL), OK);
  assert_int_equal(ncclCommWindowRegister(one, NULL, 16, &window, 0), OK);
  assert_null(window);
  assert_int_equal(ncclCommWindowDeregister(one, window), OK);
  assert_int_equal(ncclCommDeregister(one, NULL), OK);
  assert_int_equal(ncclCommWindowRegister(one, &one, 16, NULL, 0), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommDeregister(NULL, NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommDestroy(one), OK);
}

// What was called with a reduction keeps its factor when the reduction is gone.
static void a_reduction_goes_before_its_calls(void **state) {
  rondo_nccl_comm_t one = NULL;
  int32_t factor = 5, in = 4, out = -1;
  int op = 0;
  (void)state;
  assert_int_equal(ncclCommInitAll(&one, 1, NULL), OK);
  assert_int_equal(ncclRedOpCreatePreMulSum(&op, &factor, RONDO_INT32, RONDO_NCCL_SCALAR_HOST, one),
                   OK);
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclAllReduce(&in, &out, 1, RONDO_INT32, op, one, NULL), OK);
  assert_int_equal(ncclRedOpDestroy(op, one), OK);
  assert_int_equal(ncclGroupEnd(), OK);
  assert_int_equal(out, 20);
  assert_int_equal(ncclAllReduce(&in, &out, 1, RONDO_INT32, op, one, NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclRedOpDestroy(op, one), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclRedOpDestroy(RONDO_SUM, one), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommDestroy(one), OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_split_in_a_group_counts_where_it_was_made),
      cmocka_unit_test(a_split_in_a_refused_group_has_failed),
      cmocka_unit_test(nobody_is_finalized_destroyed_and_aborted),
      cmocka_unit_test(a_communicator_is_finalized_once),
      cmocka_unit_test(a_part_that_is_not_there_yet_tells_nothing_of_itself),
      cmocka_unit_test(there_are_as_many_ids_as_ranks_at_most),
      cmocka_unit_test(the_fields_of_a_configuration_have_ranges),
      cmocka_unit_test(the_least_blocks_are_not_more_than_the_most),
      cmocka_unit_test(a_group_that_is_simulated_is_over),
      cmocka_unit_test(nothing_is_allocated_and_registered_as_nothing),
      cmocka_unit_test(a_reduction_goes_before_its_calls),
  };
  if (setenv("RONDO_NCCL_BACKEND", "host", 1))
    return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
