// The drop-in library on memory of the CPU: what its calls mean, through the code that serves GPUs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>
#include <rondo/types.h>

#include "adapters/nccl/abi.h"
#include "tests/support/load.h"
#include "tests/support/named.h"

#define RANKS 3
#define COUNT 40
#include "tests/nccl/made.h"

static rondo_nccl_comm_t comms[RANKS];
static int32_t sent[RANKS][RANKS * COUNT], got[RANKS][RANKS * COUNT];
static char log_path[64];

static const char *logged(void) {
  static char text[1 << 16];
  FILE *file = fopen(log_path, "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static int32_t input(int rank, int i) { return 1000 * (rank + 1) + i; }

static void fill(void) {
  for (int r = 0; r < RANKS; r++) {
    for (int i = 0; i < RANKS * COUNT; i++) {
      sent[r][i] = input(r, i);
      got[r][i] = -1;
    }
  }
}

static int32_t sum_of(int i) {
  int32_t sum = 0;
  for (int r = 0; r < RANKS; r++)
    sum += input(r, i);
  return sum;
}

static int open_comms(void **state) {
  (void)state;
  fill();
  return ncclCommInitAll(comms, RANKS, NULL) != OK;
}

static int close_comms(void **state) {
  int result = OK;
  (void)state;
  for (int r = 0; r < RANKS; r++)
    if (comms[r])
      result |= ncclCommDestroy(comms[r]);
  memset(comms, 0, sizeof comms);
  return result;
}

// A group that contains what `call` does for each rank `r`.
#define FOR_ALL_RANKS(call)                                                                        \
  do {                                                                                             \
    assert_int_equal(ncclGroupStart(), OK);                                                        \
    for (int r = 0; r < RANKS; r++)                                                                \
      assert_int_equal(call, OK);                                                                  \
    assert_int_equal(ncclGroupEnd(), OK);                                                          \
  } while (0)

static void await_success(rondo_nccl_comm_t comm) {
  int error = RONDO_NCCL_IN_PROGRESS;
  while (error == RONDO_NCCL_IN_PROGRESS) {
    assert_int_equal(ncclCommGetAsyncError(comm, &error), OK);
    usleep(100);
  }
  assert_int_equal(error, OK);
}

// ------------------------------------------------------------- collectives ---

static void communicators_know_their_ranks(void **state) {
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    int number = -1;
    struct rondo_nccl_team world = ncclTeamWorld(comms[r]), lsa = ncclTeamLsa(comms[r]);
    assert_int_equal(ncclCommCount(comms[r], &number), OK);
    assert_int_equal(number, RANKS);
    assert_int_equal(ncclCommUserRank(comms[r], &number), OK);
    assert_int_equal(number, r);
    assert_int_equal(ncclCommCuDevice(comms[r], &number), OK);
    assert_int_equal(number, r);
    assert_int_equal(world.rank_count, RANKS);
    assert_int_equal(world.rank, r);
    assert_int_equal(lsa.rank_count, 1);
    assert_int_equal(ncclTeamRankToWorld(comms[r], lsa, 0), r);
    assert_int_equal(ncclTeamRankToLsa(comms[r], world, r), 0);
  }
}

static void reductions_add(void **state) {
  (void)state;
  FOR_ALL_RANKS(ncclAllReduce(sent[r], got[r], COUNT, RONDO_INT32, RONDO_SUM, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT; i++)
      assert_int_equal(got[r][i], sum_of(i));
  FOR_ALL_RANKS(ncclReduceScatter(sent[r], got[r], COUNT, RONDO_INT32, RONDO_SUM, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT; i++)
      assert_int_equal(got[r][i], sum_of(r * COUNT + i));
  // Who is not the root may give anything as the buffer that it does not use.
  FOR_ALL_RANKS(ncclReduce(sent[r], r == 1 ? got[r] : sent[r] + 1, COUNT, RONDO_INT32, RONDO_SUM, 1,
                           comms[r], NULL));
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(got[1][i], sum_of(i));
}

// What arrived at rank `r`: a block of each rank's elements from `shift` on; or one rank's.
static void check_blocks(int r, int shift) {
  for (int i = 0; i < RANKS * COUNT; i++)
    assert_int_equal(got[r][i], input(i / COUNT, shift + i % COUNT));
}

static void check_copy(int r, int from, int shift) {
  for (int i = 0; i < COUNT; i++)
    assert_int_equal(got[r][i], input(from, shift + i));
}

static void copies_arrive(void **state) {
  (void)state;
  FOR_ALL_RANKS(ncclAllGather(sent[r], got[r], COUNT, RONDO_INT32, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    check_blocks(r, 0);
  FOR_ALL_RANKS(ncclAlltoAll(sent[r], got[r], COUNT, RONDO_INT32, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    check_blocks(r, r * COUNT);
}

static void copies_from_and_to_a_root_arrive(void **state) {
  (void)state;
  FOR_ALL_RANKS(
      ncclBroadcast(r == 2 ? sent[r] : NULL, got[r], COUNT, RONDO_INT32, 2, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    check_copy(r, 2, 0);
  FOR_ALL_RANKS(ncclGather(sent[r], r ? NULL : got[r], COUNT, RONDO_INT32, 0, comms[r], NULL));
  check_blocks(0, 0);
  FOR_ALL_RANKS(ncclScatter(r ? NULL : sent[r], got[r], COUNT, RONDO_INT32, 0, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    check_copy(r, 0, r * COUNT);
}

static void in_place_and_empty_calls_are_calls(void **state) {
  (void)state;
  FOR_ALL_RANKS(ncclAllReduce(sent[r], sent[r], COUNT, RONDO_INT32, RONDO_MAX, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < COUNT; i++)
      assert_int_equal(sent[r][i], input(RANKS - 1, i));
  fill();
  FOR_ALL_RANKS(ncclBcast(sent[r], COUNT, RONDO_INT32, 1, comms[r], NULL));
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(sent[r][COUNT - 1], input(1, COUNT - 1));
  FOR_ALL_RANKS(ncclAllReduce(NULL, NULL, 0, RONDO_FLOAT16, RONDO_SUM, comms[r], NULL));
  FOR_ALL_RANKS(ncclAllGather(NULL, NULL, 0, RONDO_INT8, comms[r], NULL));
  FOR_ALL_RANKS(ncclBroadcast(NULL, NULL, 0, RONDO_INT8, 0, comms[r], NULL));
}

static void a_scalar_of_each_rank_is_multiplied_first(void **state) {
  float in[RANKS], out[RANKS];
  int ops[RANKS];
  (void)state;
  for (int r = 0; r < RANKS; r++) {
    float scalar = (float)(r + 1);
    int residence = r == 1 ? RONDO_NCCL_SCALAR_HOST : RONDO_NCCL_SCALAR_DEVICE;
    in[r] = 10;
    // What is in "memory of the device" has to live until the call.
    static float kept[RANKS];
    kept[r] = scalar;
    assert_int_equal(ncclRedOpCreatePreMulSum(&ops[r], r == 1 ? &scalar : &kept[r], RONDO_FLOAT32,
                                              residence, comms[r]),
                     OK);
    assert_true(ops[r] >= RONDO_NCCL_FIRST_USER_OP);
  }
  for (int again = 0; again < 2; again++) {
    FOR_ALL_RANKS(ncclAllReduce(&in[r], &out[r], 1, RONDO_FLOAT32, ops[r], comms[r], NULL));
    for (int r = 0; r < RANKS; r++)
      assert_float_equal(out[r], 10 + 20 + 30, 0);
  }
  assert_int_equal(ncclAllReduce(in, out, 1, RONDO_FLOAT64, ops[0], comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclRedOpDestroy(ops[r], comms[r]), OK);
  assert_int_equal(ncclRedOpDestroy(ops[0], comms[0]), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclAllReduce(in, out, 1, RONDO_FLOAT32, ops[0], comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
}

// ------------------------------------------------------------------- groups ---

static void sends_and_receives_of_a_group_come_in_any_order(void **state) {
  (void)state;
  assert_int_equal(ncclGroupStart(), OK);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(ncclGroupStart(), OK); // groups nest
    for (int i = 0; i < RANKS; i++) {
      int peer = (r + i) % RANKS; // oneself, too
      const int32_t *from = &sent[r][peer * COUNT];
      int32_t *to = &got[r][peer * COUNT];
      if (r % 2)
        assert_int_equal(ncclSend(from, COUNT, RONDO_INT32, peer, comms[r], NULL), OK);
      assert_int_equal(ncclRecv(to, COUNT, RONDO_INT32, peer, comms[r], NULL), OK);
      if (r % 2 == 0)
        assert_int_equal(ncclSend(from, COUNT, RONDO_INT32, peer, comms[r], NULL), OK);
      assert_int_equal(ncclSend(NULL, 0, RONDO_INT32, peer, comms[r], NULL), OK);
      assert_int_equal(ncclRecv(NULL, 0, RONDO_INT32, peer, comms[r], NULL), OK);
    }
    assert_int_equal(ncclGroupEnd(), OK);
  }
  assert_int_equal(ncclGroupEnd(), OK);
  for (int r = 0; r < RANKS; r++)
    for (int i = 0; i < RANKS * COUNT; i++)
      assert_int_equal(got[r][i], input(i / COUNT, r * COUNT + i % COUNT));
}

static void a_refused_call_spoils_its_group(void **state) {
  (void)state;
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclAllReduce(sent[0], got[0], COUNT, RONDO_INT32, RONDO_SUM, comms[0], NULL),
                   OK);
  assert_int_equal(ncclBroadcast(sent[0], got[0], COUNT, RONDO_INT32, RANKS, comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_ARGUMENT);
  assert_non_null(strstr(ncclGetLastError(comms[0]), "ncclBroadcast: root 3 of 3 ranks"));
  assert_int_equal(got[0][0], -1);
  // Nothing of it was submitted, so the next call is the first on all ranks.
  FOR_ALL_RANKS(ncclAllReduce(sent[r], got[r], COUNT, RONDO_INT32, RONDO_SUM, comms[r], NULL));
  assert_int_equal(got[0][0], sum_of(0));
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_USAGE);
}

static void a_send_to_itself_needs_a_receive_in_the_same_group(void **state) {
  (void)state;
  assert_int_equal(ncclSend(sent[0], 1, RONDO_INT32, 0, comms[0], NULL), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclSend(sent[0], 1, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclRecv(got[0], 1, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_USAGE);
}

// The first send belongs to the first receive. No later call makes up for a pair that differs.
static void sends_and_receives_of_a_rank_itself_match_in_order(void **state) {
  (void)state;
  assert_int_equal(ncclGroupStart(), OK);
  assert_int_equal(ncclRecv(got[0], 1, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclSend(sent[0], 2, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclRecv(got[0], 2, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclSend(sent[0], 1, RONDO_INT32, 0, comms[0], NULL), OK);
  assert_int_equal(ncclGroupEnd(), RONDO_NCCL_INVALID_USAGE);
}

static void bad_arguments_are_refused(void **state) {
  int32_t *s = sent[0], *g = got[0];
  int number;
  (void)state;
  assert_int_equal(ncclAllReduce(s, g, 1, RONDO_INT32, RONDO_SUM, NULL, NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclAllReduce(s, g, 1, RONDO_DTYPE_COUNT, RONDO_SUM, comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclAllReduce(s, g, 1, RONDO_INT32, -1, comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclAllReduce(s, g, 1, RONDO_INT32, 77, comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclAllReduce(s, NULL, 1, RONDO_INT32, RONDO_SUM, comms[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclSend(s, 1, RONDO_INT32, -1, comms[0], NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommCount((rondo_nccl_comm_t)(void *)s, &number),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommCount(comms[0], NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommInitAll(NULL, 1, NULL), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommInitAll(comms, 0, NULL), RONDO_NCCL_INVALID_ARGUMENT);
}

static void memory_and_registration(void **state) {
  void *memory = NULL, *handle = NULL;
  (void)state;
  assert_int_equal(ncclMemAlloc(&memory, COUNT * sizeof(int32_t)), OK);
  assert_int_equal(ncclCommRegister(comms[0], memory, 1, &handle), OK);
  assert_non_null(handle);
  assert_int_equal(ncclCommDeregister(comms[0], handle), OK);
  handle = NULL;
  assert_int_equal(ncclCommWindowRegister(comms[0], memory, 1, &handle, 1), OK);
  assert_non_null(handle);
  assert_int_equal(ncclCommWindowDeregister(comms[0], handle), OK);
  int32_t *in = memory;
  for (int i = 0; i < COUNT; i++)
    in[i] = input(0, i);
  FOR_ALL_RANKS(
      ncclAllReduce(r ? sent[r] : in, got[r], COUNT, RONDO_INT32, RONDO_SUM, comms[r], NULL));
  assert_int_equal(got[0][1], sum_of(1));
  assert_int_equal(ncclMemFree(memory), OK);
  assert_int_equal(ncclMemFree(memory), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclMemFree(NULL), OK);
  assert_int_equal(ncclMemAlloc(NULL, 1), RONDO_NCCL_INVALID_ARGUMENT);
}

// -------------------------------------------------------------------- order ---

// Communicators that do not wait: one thread makes all ranks' calls, each rank's in an order of its
// own.
static void communicators_are_called_in_any_order(void **state) {
  enum { MANY = 4 };
  static int32_t out[RANKS][MANY][COUNT];
  rondo_nccl_comm_t many[MANY][RANKS];
  (void)state;
  for (int c = 0; c < MANY; c++)
    open_with(many[c], 0);
  for (uint64_t round = 0; round < rondo_test_load(20, 4); round++) {
    for (int r = 0; r < RANKS; r++) {
      for (int i = 0; i < MANY; i++) {
        int c = (r + i) % MANY;
        assert_int_equal(
            ncclAllReduce(sent[r], out[r][c], COUNT, RONDO_INT32, RONDO_SUM, many[c][r], NULL), OK);
      }
    }
    for (int c = 0; c < MANY; c++)
      for (int r = 0; r < RANKS; r++)
        await_success(many[c][r]);
    for (int c = 0; c < MANY; c++)
      for (int r = 0; r < RANKS; r++)
        assert_int_equal(out[r][c][COUNT - 1], sum_of(COUNT - 1));
    memset(out, 0, sizeof out);
  }
  for (int c = 0; c < MANY; c++)
    for (int r = 0; r < RANKS; r++)
      assert_int_equal(ncclCommDestroy(many[c][r]), OK);
}

struct member {
  struct rondo_nccl_id ids[2];
  int rank;
  int32_t sums[2];
  int result;
};

// Each rank a thread; the two communicators in one group, in the order that the rank likes.
static void *run_member(void *arg) {
  struct member *m = arg;
  rondo_nccl_comm_t pair[2] = {NULL, NULL};
  int32_t mine = m->rank + 1;
  for (int c = 0; c < 2; c++)
    m->result |= ncclCommInitRank(&pair[c], RANKS, m->ids[c], m->rank);
  for (int round = 0; round < 10 && !m->result; round++) {
    m->result |= ncclGroupStart();
    for (int i = 0; i < 2; i++) {
      int c = (m->rank + i) % 2;
      m->result |= ncclAllReduce(&mine, &m->sums[c], 1, RONDO_INT32, RONDO_SUM, pair[c], NULL);
    }
    m->result |= ncclGroupEnd();
  }
  for (int c = 0; c < 2; c++)
    m->result |= ncclCommFinalize(pair[c]) | ncclCommDestroy(pair[c]);
  return NULL;
}

static void threads_group_communicators_in_any_order(void **state) {
  struct member members[RANKS];
  pthread_t threads[RANKS];
  struct rondo_nccl_id ids[2];
  (void)state;
  for (int c = 0; c < 2; c++)
    assert_int_equal(ncclGetUniqueId(&ids[c]), OK);
  for (int r = 0; r < RANKS; r++) {
    members[r] = (struct member){{ids[0], ids[1]}, r, {0, 0}, OK};
    assert_int_equal(pthread_create(&threads[r], NULL, run_member, &members[r]), 0);
  }
  for (int r = 0; r < RANKS; r++) {
    pthread_join(threads[r], NULL);
    assert_int_equal(members[r].result, OK);
    assert_int_equal(members[r].sums[0], RANKS * (RANKS + 1) / 2);
    assert_int_equal(members[r].sums[1], RANKS * (RANKS + 1) / 2);
  }
}

static void calls_that_differ_are_an_error_on_both_sides(void **state) {
  rondo_nccl_comm_t some[RANKS];
  int error = OK;
  (void)state;
  open_with(some, 0);
  for (int r = 0; r < RANKS; r++)
    (void)ncclAllReduce(sent[r], got[r], r == 1 ? 3 : 2, RONDO_INT32, RONDO_SUM, some[r], NULL);
  for (int r = 0; r < RANKS; r++) {
    do {
      assert_int_equal(ncclCommGetAsyncError(some[r], &error), OK);
      usleep(100);
    } while (error == OK || error == RONDO_NCCL_IN_PROGRESS);
    assert_int_equal(error, RONDO_NCCL_INVALID_USAGE);
    const char *why = ncclGetLastError(some[r]);
    assert_non_null(strstr(why, "all_reduce of 2 "));
    assert_non_null(strstr(why, "all_reduce of 3 "));
  }
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclCommAbort(some[r]), OK);
}

// ----------------------------------------------------------------- the end ---

static void *run_alone(void *arg) {
  int32_t in = 1, out = 0;
  return (void *)(intptr_t)ncclAllReduce(&in, &out, 1, RONDO_INT32, RONDO_SUM,
                                         (rondo_nccl_comm_t)arg, NULL);
}

static void abort_ends_a_call_that_hangs_in_another_thread(void **state) {
  pthread_t thread;
  void *result = NULL;
  (void)state;
  assert_int_equal(pthread_create(&thread, NULL, run_alone, comms[0]), 0);
  assert_int_equal(ncclCommAbort(comms[0]), OK);
  pthread_join(thread, &result);
  assert_int_not_equal((int)(intptr_t)result, OK);
  assert_int_equal(ncclCommAbort(comms[0]), RONDO_NCCL_INVALID_ARGUMENT);
  comms[0] = NULL;
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclCommAbort(comms[r]), OK);
  memset(comms, 0, sizeof comms);
}

static void a_finalized_communicator_takes_no_call(void **state) {
  rondo_nccl_comm_t some[RANKS];
  int error = OK;
  (void)state;
  open_with(some, 0);
  assert_int_equal(ncclAllReduce(sent[0], got[0], 1, RONDO_INT32, RONDO_SUM, some[0], NULL), OK);
  assert_int_equal(ncclCommFinalize(some[0]), RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclCommGetAsyncError(some[0], &error), OK);
  assert_int_equal(error, RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclAllReduce(sent[0], got[0], 1, RONDO_INT32, RONDO_SUM, some[0], NULL),
                   RONDO_NCCL_INVALID_USAGE);
  assert_int_equal(ncclCommFinalize(some[0]), RONDO_NCCL_INVALID_ARGUMENT);
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclAllReduce(sent[r], got[r], 1, RONDO_INT32, RONDO_SUM, some[r], NULL), OK);
  for (int r = 0; r < RANKS; r++) {
    await_success(some[r]);
    assert_int_equal(got[r][0], sum_of(0));
    assert_int_equal(ncclCommDestroy(some[r]), OK);
  }
}

static void a_configuration_that_was_not_initialised_is_refused(void **state) {
  struct rondo_nccl_config c = config(1);
  struct rondo_nccl_id id;
  rondo_nccl_comm_t made = NULL;
  (void)state;
  assert_int_equal(ncclGetUniqueId(&id), OK);
  c.magic = 0;
  assert_int_equal(ncclCommInitRankConfig(&made, 1, id, 0, &c), RONDO_NCCL_INVALID_ARGUMENT);
  c = config(7);
  assert_int_equal(ncclCommInitRankConfig(&made, 1, id, 0, &c), RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommInitRank(&made, 2, id, 2), RONDO_NCCL_INVALID_ARGUMENT);
  assert_null(made);
  // One of an older NCCL is shorter, and good.
  c = config(1);
  c.size = offsetof(struct rondo_nccl_config, cga_cluster_size);
  assert_int_equal(ncclCommInitRankScalable(&made, 1, 0, 1, &id, &c), OK);
  assert_int_equal(ncclCommDestroy(made), OK);
}

// ------------------------------------------------------------------- splits ---

static void a_split_has_parts_in_the_order_of_keys(void **state) {
  rondo_nccl_comm_t parts[RANKS];
  (void)state;
  // Ranks 0 and 2 in one part, the other way round; rank 1 in none.
  FOR_ALL_RANKS(ncclCommSplit(comms[r], r == 1 ? RONDO_NCCL_NO_COLOR : 5, -r, &parts[r], NULL));
  assert_null(parts[1]);
  for (int r = 0; r < RANKS; r += 2) {
    int number = -1;
    assert_int_equal(ncclCommCount(parts[r], &number), OK);
    assert_int_equal(number, 2);
    assert_int_equal(ncclCommUserRank(parts[r], &number), OK);
    assert_int_equal(number, r == 0);
  }
  assert_int_equal(ncclGroupStart(), OK);
  for (int r = 0; r < RANKS; r += 2)
    assert_int_equal(ncclAllGather(sent[r], got[r], COUNT, RONDO_INT32, parts[r], NULL), OK);
  assert_int_equal(ncclGroupEnd(), OK);
  for (int r = 0; r < RANKS; r += 2) {
    assert_int_equal(got[r][0], input(2, 0));
    assert_int_equal(got[r][COUNT], input(0, 0));
  }
  // A part outlives what it came from, and has parts of its own.
  assert_int_equal(close_comms(NULL), 0);
  rondo_nccl_comm_t again[2];
  assert_int_equal(ncclGroupStart(), OK);
  for (int r = 0; r < 2; r++)
    assert_int_equal(ncclCommSplit(parts[2 * r], 0, r, &again[r], NULL), OK);
  assert_int_equal(ncclGroupEnd(), OK);
  assert_int_equal(ncclGroupStart(), OK);
  for (int r = 0; r < 2; r++)
    assert_int_equal(ncclAllReduce(sent[r], got[r], 1, RONDO_INT32, RONDO_SUM, again[r], NULL), OK);
  assert_int_equal(ncclGroupEnd(), OK);
  assert_int_equal(got[0][0], input(0, 0) + input(1, 0));
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ncclCommDestroy(parts[2 * r]), OK);
    assert_int_equal(ncclCommDestroy(again[r]), OK);
  }
}

static void a_split_that_does_not_wait_is_in_progress(void **state) {
  rondo_nccl_comm_t some[RANKS], parts[RANKS];
  int error = OK;
  (void)state;
  open_with(some, 0);
  assert_int_equal(ncclCommSplit(some[0], 0, 0, &parts[0], NULL), RONDO_NCCL_IN_PROGRESS);
  assert_non_null(parts[0]);
  assert_int_equal(ncclCommGetAsyncError(some[0], &error), OK);
  assert_int_equal(error, RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclCommGetAsyncError(parts[0], &error), OK);
  assert_int_equal(error, RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclAllReduce(sent[0], got[0], 1, RONDO_INT32, RONDO_SUM, parts[0], NULL),
                   RONDO_NCCL_INVALID_ARGUMENT);
  for (int r = 1; r < RANKS; r++)
    (void)ncclCommSplit(some[r], 0, 0, &parts[r], NULL);
  for (int r = 0; r < RANKS; r++) {
    await_success(r % 2 ? parts[r] : some[r]);
    await_success(r % 2 ? some[r] : parts[r]);
  }
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclAllReduce(sent[r], got[r], 1, RONDO_INT32, RONDO_SUM, parts[r], NULL), OK);
  for (int r = 0; r < RANKS; r++) {
    await_success(parts[r]);
    assert_int_equal(got[r][0], sum_of(0));
  }
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(ncclCommDestroy(some[r]), OK);
    assert_int_equal(ncclCommDestroy(parts[r]), OK);
  }
}

static void a_split_that_never_ends_can_be_aborted(void **state) {
  rondo_nccl_comm_t some[RANKS], part = NULL, other = NULL;
  int error = OK;
  (void)state;
  open_with(some, 0);
  assert_int_equal(ncclCommSplit(some[0], 0, 0, &part, NULL), RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclCommSplit(some[0], 0, 0, &other, NULL), RONDO_NCCL_IN_PROGRESS);
  assert_int_equal(ncclCommAbort(other), OK);
  assert_int_equal(ncclCommAbort(some[0]), OK);
  assert_int_equal(ncclCommGetAsyncError(part, &error), OK);
  assert_int_equal(error, RONDO_NCCL_REMOTE_ERROR);
  assert_int_equal(ncclCommAbort(part), OK);
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclCommAbort(some[r]), OK);
}

static void the_remaining_ranks_go_on_after_a_shrink(void **state) {
  rondo_nccl_comm_t rest[RANKS] = {NULL};
  int excluded = 0, none = RANKS;
  (void)state;
  assert_int_equal(ncclCommShrink(comms[0], &excluded, 1, &rest[0], NULL, 0),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommShrink(comms[0], &none, 1, &rest[0], NULL, 0),
                   RONDO_NCCL_INVALID_ARGUMENT);
  assert_int_equal(ncclCommRevoke(comms[0], 0), RONDO_NCCL_INVALID_USAGE);
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclCommShrink(comms[r], &excluded, 1, &rest[r], NULL, 1), OK);
  assert_int_equal(ncclGroupStart(), OK);
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclAllReduce(sent[r], got[r], 1, RONDO_INT32, RONDO_SUM, rest[r], NULL), OK);
  assert_int_equal(ncclGroupEnd(), OK);
  assert_int_equal(got[1][0], input(1, 0) + input(2, 0));
  for (int r = 1; r < RANKS; r++)
    assert_int_equal(ncclCommDestroy(rest[r]), OK);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(ncclCommAbort(comms[r]), OK);
  memset(comms, 0, sizeof comms);
}

// --------------------------------------------------------------------- log ---

static void the_log_has_the_form_of_nccls(void **state) {
  char expected[160];
  (void)state;
  (void)snprintf(
      expected, sizeof expected,
      "[1] NCCL INFO AllReduce: opCount 0 sendbuff %p recvbuff %p count %d datatype 2 op "
      "0 root 0 comm %p [nranks=%d] stream (nil)\n",
      (void *)sent[1], (void *)got[1], COUNT, (void *)comms[1], RANKS);
  FOR_ALL_RANKS(ncclAllReduce(sent[r], got[r], COUNT, RONDO_INT32, RONDO_SUM, comms[r], NULL));
  assert_non_null(strstr(logged(), expected));
  (void)snprintf(expected, sizeof expected,
                 "NCCL INFO ncclCommInitAll comm %p rank 2 nranks %d cudaDev 2 nvmlDev 2 busId 0 "
                 "commId 0x",
                 (void *)comms[2], RANKS);
  assert_non_null(strstr(logged(), expected));
}

#define ON_COMMS(function)                                                                         \
  { "nccl_host." #function, function, open_comms, close_comms, NULL }

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_COMMS(the_log_has_the_form_of_nccls),
      ON_COMMS(communicators_know_their_ranks),
      ON_COMMS(reductions_add),
      ON_COMMS(copies_arrive),
      ON_COMMS(copies_from_and_to_a_root_arrive),
      ON_COMMS(in_place_and_empty_calls_are_calls),
      ON_COMMS(a_scalar_of_each_rank_is_multiplied_first),
      ON_COMMS(sends_and_receives_of_a_group_come_in_any_order),
      ON_COMMS(a_refused_call_spoils_its_group),
      ON_COMMS(a_send_to_itself_needs_a_receive_in_the_same_group),
      ON_COMMS(sends_and_receives_of_a_rank_itself_match_in_order),
      ON_COMMS(bad_arguments_are_refused),
      ON_COMMS(memory_and_registration),
      ON_COMMS(communicators_are_called_in_any_order),
      ON_COMMS(threads_group_communicators_in_any_order),
      ON_COMMS(calls_that_differ_are_an_error_on_both_sides),
      ON_COMMS(abort_ends_a_call_that_hangs_in_another_thread),
      ON_COMMS(a_finalized_communicator_takes_no_call),
      ON_COMMS(a_configuration_that_was_not_initialised_is_refused),
      ON_COMMS(a_split_has_parts_in_the_order_of_keys),
      ON_COMMS(a_split_that_does_not_wait_is_in_progress),
      ON_COMMS(a_split_that_never_ends_can_be_aborted),
      ON_COMMS(the_remaining_ranks_go_on_after_a_shrink),
  };
  (void)snprintf(log_path, sizeof log_path, "nccl-host.XXXXXX");
  int file = mkstemp(log_path);
  if (file < 0 || close(file) || setenv("NCCL_DEBUG_FILE", log_path, 1) ||
      setenv("NCCL_DEBUG", "INFO", 1) || setenv("NCCL_DEBUG_SUBSYS", "INIT,COLL", 1) ||
      setenv("RONDO_NCCL_BACKEND", "host", 1))
    return 1;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  unlink(log_path);
  return failed;
}
