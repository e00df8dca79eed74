// Windows of NCCL, on the stand-ins for NCCL and for the CUDA driver: two members in one process,
// on a device each.
#include "runtime/transport/nccl/window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_driver.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define MEMBERS 2u
#define BYTES (UINT64_C(4) << 20)
#define LONG_NS UINT64_C(60000000000)
#define SHORT_NS UINT64_C(30000000) // for what shall run out of time

static struct rondo_device *devices[MEMBERS];
static struct rondo_nccl_window *windows[MEMBERS];
static char why[RONDO_WHY_BYTES];

static void ask_for(const char *options) { setenv("RONDO_TEST_FAKE_NCCL", options, 1); }

static int open_devices(void **state) {
  struct rondo_fake_options options = rondo_fake_defaults();
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  int status = RONDO_SUCCESS;
  (void)state;
  ask_for("");
  options.devices = MEMBERS;
  options.peer_access = 1;
  rondo_fake_reset(&options);
  rondo_cuda_api_from(NULL); // it has to be started again
  cfg.backend = RONDO_BACKEND_CUDA;
  for (uint32_t i = 0; i < MEMBERS && status == RONDO_SUCCESS; i++) {
    cfg.device = (int)i;
    windows[i] = NULL;
    status = rondo_cuda_driver.open(&cfg, &devices[i], why);
  }
  return status;
}

// A helper thread that the caller gave up ends when it is released.
static int await_nothing_left(void) {
  const struct timespec pause = {0, 1000000};
  for (int i = 0; i < 60000 && (rondo_fake_nccl_live() || rondo_fake_live_count()); i++)
    nanosleep(&pause, NULL);
  return rondo_fake_nccl_live() || rondo_fake_live_count();
}

static void destroy_all(void) {
  for (uint32_t i = 0; i < MEMBERS; i++) {
    rondo_nccl_windows.destroy(windows[i]);
    windows[i] = NULL;
  }
}

static int close_devices(void **state) {
  (void)state;
  destroy_all();
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_cuda_driver.close(devices[i]);
  return await_nothing_left();
}

static int create(uint32_t i, uint64_t limit_ns) {
  const struct rondo_nccl_window_config config = {devices[i], BYTES, limit_ns};
  return rondo_nccl_windows.create(&config, &windows[i], why);
}

static void create_all(uint64_t limit_ns) {
  for (uint32_t i = 0; i < MEMBERS; i++)
    assert_int_equal(create(i, limit_ns), RONDO_SUCCESS);
}

static int await_window(uint32_t i) {
  const struct timespec pause = {0, 200000};
  int status = rondo_nccl_windows.poll(windows[i], why);
  for (; status == RONDO_IN_PROGRESS; status = rondo_nccl_windows.poll(windows[i], why))
    nanosleep(&pause, NULL);
  return status;
}

// A call that shall time out at a certain place must reach it first. On a busy machine that may
// take longer than any time that is fixed here, so a call that did not is tried again with twice as
// much.
static void run_out_of_time(int (*is_right)(uint64_t limit_ns)) {
  uint64_t limit_ns = SHORT_NS;
  while (!is_right(limit_ns)) {
    destroy_all();
    limit_ns *= 2;
    if (limit_ns > LONG_NS)
      fail_msg("not even in %llu ns: %s", (unsigned long long)limit_ns, why);
  }
}

static void join_by_id(void) {
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_nccl_windows.join(windows[i], rondo_nccl_windows.id(windows[0]), i, MEMBERS);
}

static void join_all(void) {
  rondo_nccl_windows.make_id(windows[0]);
  assert_int_equal(await_window(0), RONDO_SUCCESS);
  join_by_id();
}

// Checks that all members are refused, with these words in the first one's reason.
static void check_refusal(int status, const char *words) {
  int got = await_window(0);
  if (got != status || !strstr(why, words))
    fail_msg("%s: %s, not \"%s\"", rondo_status_name(got), why, words);
  for (uint32_t i = 1; i < MEMBERS; i++)
    assert_int_not_equal(await_window(i), RONDO_SUCCESS);
}

static void each_member_sees_the_memory_of_all(void **state) {
  (void)state;
  create_all(LONG_NS);
  join_all();
  for (uint32_t i = 0; i < MEMBERS; i++)
    assert_int_equal(await_window(i), RONDO_SUCCESS);
  for (uint32_t i = 0; i < MEMBERS; i++) {
    char *own = (char *)(uintptr_t)rondo_nccl_windows.base(windows[i]);
    assert_int_equal(rondo_nccl_windows.bytes(windows[i]), BYTES - RONDO_NCCL_HEAD_BYTES);
    own[rondo_nccl_windows.bytes(windows[i]) - 1] = (char)(i + 1);
    for (uint32_t j = 0; j < MEMBERS; j++) {
      const char *there = (const char *)(uintptr_t)rondo_nccl_windows.address(windows[j], i);
      assert_int_equal(there[rondo_nccl_windows.bytes(windows[i]) - 1], i + 1);
    }
  }
}

static void one_member_alone_has_a_window(void **state) {
  (void)state;
  assert_int_equal(create(0, LONG_NS), RONDO_SUCCESS);
  rondo_nccl_windows.make_id(windows[0]);
  assert_int_equal(await_window(0), RONDO_SUCCESS);
  rondo_nccl_windows.join(windows[0], rondo_nccl_windows.id(windows[0]), 0, 1);
  assert_int_equal(await_window(0), RONDO_SUCCESS);
  *(uint64_t *)(uintptr_t)rondo_nccl_windows.base(windows[0]) = 42;
  assert_int_equal(*(uint64_t *)(uintptr_t)rondo_nccl_windows.address(windows[0], 0), 42);
}

static void each_refusal_says_why(void **state) {
  static const struct {
    const char *options, *words;
    int status;
  } refusals[] = {
      {"fail=ncclCommInitRankConfig", "ncclCommInitRankConfig: an error of the stand-in: as the",
       RONDO_ERR_SYSTEM},
      {"fail=ncclCommWindowRegister", "ncclCommWindowRegister: an error", RONDO_ERR_SYSTEM},
      {"fail=ncclDevCommCreate", "ncclDevCommCreate: an error", RONDO_ERR_SYSTEM},
      {"async=ncclCommInitRankConfig", "ncclCommInitRankConfig: remote error", RONDO_ERR_SYSTEM},
      {"async=ncclCommWindowRegister", "ncclCommWindowRegister: remote error", RONDO_ERR_SYSTEM},
      {"fail=ncclCommGetAsyncError", "an error of the stand-in", RONDO_ERR_SYSTEM},
      {"team=1", "only 1 of 2 devices are in one domain", RONDO_ERR_UNSUPPORTED},
      {"astray=1", "the memory at the address of member 0 is not its own", RONDO_ERR_SYSTEM}};
  (void)state;
  create_all(LONG_NS);
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    ask_for(refusals[i].options);
    join_all();
    check_refusal(refusals[i].status, refusals[i].words);
    // The memory is the owner's all the same.
    *(uint64_t *)(uintptr_t)rondo_nccl_windows.base(windows[0]) = 42;
  }
}

// 1 if the member ran out of time in this call, and noticed it itself.
static int ran_out_in(uint32_t member, const char *call) {
  char words[RONDO_WHY_BYTES];
  (void)snprintf(words, sizeof words, "%s was not done in time", call);
  return await_window(member) == RONDO_ERR_TIMEOUT && strcmp(why, words) == 0;
}

static int all_join_in_vain(uint64_t limit_ns) {
  int right = 1;
  for (uint32_t i = 0; i < MEMBERS; i++)
    right &= create(i, limit_ns) == RONDO_SUCCESS;
  if (!right)
    return 0;
  rondo_nccl_windows.make_id(windows[0]);
  if (await_window(0) != RONDO_SUCCESS)
    return 0;
  join_by_id();
  for (uint32_t i = 0; i < MEMBERS; i++)
    right &= ran_out_in(i, "ncclDevCommCreate");
  return right;
}

static void what_is_never_done_runs_out_of_time(void **state) {
  (void)state;
  ask_for("stall=ncclDevCommCreate");
  run_out_of_time(all_join_in_vain);
}

static int one_joins_alone(uint64_t limit_ns) {
  assert_int_equal(create(0, LONG_NS), RONDO_SUCCESS);
  if (create(1, limit_ns) != RONDO_SUCCESS)
    return 0;
  rondo_nccl_windows.make_id(windows[0]);
  assert_int_equal(await_window(0), RONDO_SUCCESS);
  rondo_nccl_windows.join(windows[1], rondo_nccl_windows.id(windows[0]), 1, MEMBERS);
  return ran_out_in(1, "ncclCommInitRankConfig");
}

static void nothing_waits_for_a_process_that_does_not_come(void **state) {
  (void)state;
  run_out_of_time(one_joins_alone);
}

static void what_is_given_up_ends_early(void **state) {
  (void)state;
  create_all(LONG_NS);
  ask_for("stall=ncclCommInitRankConfig");
  join_all();
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_nccl_windows.give_up(windows[i]);
  check_refusal(RONDO_ERR_ABORTED, "given up");
}

// A member may see another's end before its own call is given up.
static void what_has_failed_stays_failed(void **state) {
  (void)state;
  create_all(LONG_NS);
  ask_for("fail=ncclCommInitRankConfig");
  join_all();
  for (uint32_t i = 0; i < MEMBERS; i++)
    assert_int_equal(await_window(i), RONDO_ERR_SYSTEM);
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_nccl_windows.give_up(windows[i]);
  check_refusal(RONDO_ERR_SYSTEM, "an error of the stand-in");
}

static void what_is_done_can_be_given_up(void **state) {
  (void)state;
  create_all(LONG_NS);
  join_all();
  for (uint32_t i = 0; i < MEMBERS; i++)
    assert_int_equal(await_window(i), RONDO_SUCCESS);
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_nccl_windows.give_up(windows[i]);
  for (uint32_t i = 0; i < MEMBERS; i++)
    assert_int_equal(await_window(i), RONDO_SUCCESS);
  assert_int_equal(rondo_fake_nccl_live(), MEMBERS); // the memory alone
}

static int one_is_left_behind(uint64_t limit_ns) {
  assert_int_equal(create(0, limit_ns), RONDO_ERR_TIMEOUT);
  assert_null(windows[0]);
  return strcmp(why, "NCCL does not return from ncclMemAlloc") == 0;
}

static void a_call_that_does_not_return_is_given_up(void **state) {
  (void)state;
  ask_for("block=ncclMemAlloc");
  run_out_of_time(one_is_left_behind);
  ask_for("");
  rondo_fake_nccl_unblock();
}

static void no_daemon_is_launched_while_members_join(void **state) {
  (void)state;
  create_all(LONG_NS);
  ask_for("stall=ncclCommInitRankConfig");
  join_all();
  // A job of its own on the device.
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_collective coll;
  struct rondo_collective_desc desc = rondo_all_reduce(1, 4, RONDO_INT32, RONDO_SUM);
  struct rondo_counters counters = {0};
  void *memory = NULL;
  cfg.backend = RONDO_BACKEND_CUDA;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  assert_int_equal(rondo_mem_alloc(ctx, 16, &memory), RONDO_SUCCESS);
  assert_int_equal(rondo_register(ctx, &desc, &coll), RONDO_SUCCESS);
  assert_int_equal(rondo_run(ctx, coll, memory, memory, NULL, NULL), RONDO_SUCCESS);
  assert_int_equal(rondo_wait(ctx, coll, RONDO_LAST_RUN, (int64_t)SHORT_NS), RONDO_ERR_TIMEOUT);
  assert_int_equal(rondo_counters(ctx, &counters), RONDO_SUCCESS);
  assert_int_equal(counters.starts, 0);
  for (uint32_t i = 0; i < MEMBERS; i++)
    rondo_nccl_windows.give_up(windows[i]);
  assert_int_equal(rondo_wait(ctx, coll, RONDO_LAST_RUN, (int64_t)LONG_NS), RONDO_SUCCESS);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, (int64_t)LONG_NS), RONDO_SUCCESS);
  check_refusal(RONDO_ERR_ABORTED, "given up");
}

int main(void) {
#define ON_DEVICES(test) RONDO_NAMED_TEST_FIXTURE("nccl_window", test, open_devices, close_devices)
  const struct CMUnitTest tests[] = {
      ON_DEVICES(each_member_sees_the_memory_of_all),
      ON_DEVICES(one_member_alone_has_a_window),
      ON_DEVICES(each_refusal_says_why),
      ON_DEVICES(what_is_never_done_runs_out_of_time),
      ON_DEVICES(nothing_waits_for_a_process_that_does_not_come),
      ON_DEVICES(what_is_given_up_ends_early),
      ON_DEVICES(what_has_failed_stays_failed),
      ON_DEVICES(what_is_done_can_be_given_up),
      ON_DEVICES(a_call_that_does_not_return_is_given_up),
      ON_DEVICES(no_daemon_is_launched_while_members_join),
  };
  return cmocka_run_group_tests_name("nccl_window", tests, NULL, NULL);
}
