// Jobs of several processes of this machine: a mismatch, a deregistration, an abort, a process that
// is killed or stopped, a machine that is cut off; and what a job leaves in the system.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include "base/atomic.h"
#include "tests/integration/processes.h"
#include "tests/support/load.h"
#include "tests/support/machines.h"

uint64_t rondo_kill_rounds = 6;

// Runs until a run fails; returns the status of that.
static int run_until_it_fails(struct rondo_context ctx, struct rondo_collective coll) {
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS)
    status = run_and_wait(ctx, coll);
  return status;
}

static void mismatched_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective good = enter(ctx, 1, 10);
  struct rondo_collective bad = enter(ctx, 2, rank == 2 ? 11 : 10);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, bad), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, good), RONDO_SUCCESS);
  // The next registration of the id is another one.
  RONDO_MEMBER_STATUS(rondo_deregister(ctx, bad), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 2, 10)), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

void a_mismatch_ends_the_runs_of_all(void **state) {
  (void)state;
  run_family(3, 3, mismatched_member);
}

// Ranks 0 and 1 name each other; rank 2 believes that it is with rank 1. Nobody waits for ever.
static void entangled_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t pairs[3][2] = {{0, 1}, {0, 1}, {1, 2}};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective_desc d = rondo_all_reduce(5, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, pairs[rank], 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  // The two may end some runs before they learn of the third.
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, coll), RONDO_ERR_MISMATCH);
  rondo_family_close(ctx);
}

void a_mismatch_of_groups_reaches_ranks_that_were_not_named(void **state) {
  (void)state;
  run_family(3, 3, entangled_member);
}

// The same where rank 0 registers only when the others have found out and deregistered.
static void late_entangled_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t pairs[3][2] = {{0, 1}, {0, 1}, {1, 2}};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective_desc d = rondo_all_reduce(5, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  if (rank == 0)
    rondo_family_await(&f->words[0], 2);
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, pairs[rank], 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, coll), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  rondo_family_close(ctx);
}

void a_rank_that_comes_after_a_mismatch_gets_it_too(void **state) {
  (void)state;
  run_family(3, 3, late_entangled_member);
}

static void early_leaver_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective coll = enter(ctx, 1, 1000);
  for (int i = 0; i < 3; i++)
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
  if (rank == 0)
    RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  else
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_ERR_PEER);
  rondo_family_close(ctx);
}

void a_deregistration_ends_the_runs_beyond_its_own(void **state) {
  (void)state;
  run_family(3, 3, early_leaver_member);
}

static void exiting_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective first = enter(ctx, 1, 10);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, first), RONDO_SUCCESS);
  if (rank != 1) // which never registers the second
    RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 2, 10)), RONDO_ERR_PEER);
  rondo_family_close(ctx);
}

void a_process_that_exits_early_ends_the_runs_that_wait_for_it(void **state) {
  (void)state;
  run_family(3, 3, exiting_member);
}

static void aborting_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some = {0};
  if (rank < 2) {
    RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  }
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  if (rank == 2)
    RONDO_MEMBER_STATUS(rondo_abort(ctx), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_ERR_ABORTED);
  if (rank < 2)
    RONDO_MEMBER_STATUS(run_and_wait(ctx, some), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

void an_abort_reaches_the_members_and_nobody_else(void **state) {
  (void)state;
  run_family(3, 3, aborting_member);
}

// --------------------------------------------------------------- belongings --

// What the stand-in for the CUDA driver has allocated and not freed; 0 if it is not in use.
static uint64_t live_on_device(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  uint64_t (*count)(void) = NULL;
  if (driver)
    *(void **)&count = dlsym(driver, "rondo_fake_live_count");
  uint64_t live = count ? count() : 0;
  if (driver)
    dlclose(driver);
  return live;
}

static void tidy_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_belongings first = {0};
  for (uint32_t job = 0; job < 4; job++) {
    struct rondo_context ctx = rondo_family_open(f, job, rank, f->ranks);
    struct rondo_collective coll = enter(ctx, 1, 1000);
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
    void *memory;
    RONDO_MEMBER_STATUS(rondo_mem_alloc(ctx, 1 << 20, &memory), RONDO_SUCCESS);
    rondo_family_close(ctx);
    rondo_family_add(&f->words[job]);
    rondo_family_await(&f->words[job], f->ranks);
    struct rondo_belongings now = rondo_belongings_count();
    if (job == 1) // the first leaves what lasts as long as the process
      first = now;
    if (job < 2)
      continue;
    RONDO_MEMBER_TRUE(now.descriptors == first.descriptors);
    RONDO_MEMBER_TRUE(live_on_device() == 0);
    // The stand-in keeps the threads of its queues.
    RONDO_MEMBER_TRUE(now.threads == first.threads || f->cfg.backend == RONDO_BACKEND_CUDA);
    // Those of malloc come and go; those of a sanitizer only come.
    RONDO_MEMBER_TRUE(now.mappings <= first.mappings + rondo_test_load(2, 1000));
    RONDO_MEMBER_TRUE(now.shared_files == first.shared_files);
  }
}

void a_job_leaves_nothing_behind(void **state) {
  (void)state;
  struct rondo_belongings before = rondo_belongings_count();
  run_family(3, 3, tidy_member);
  struct rondo_belongings after = rondo_belongings_count();
  assert_int_equal(after.shared_files, before.shared_files);
  assert_int_equal(after.descriptors, before.descriptors);
}

// ------------------------------------------------------------------- dying --

#define VICTIM 2u // the last rank; the others make a group and a job without it

static void killed_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some;
  if (rank == VICTIM) {
    (void)run_and_wait(ctx, all);
    rondo_family_add(&f->words[0]);
    (void)run_until_it_fails(ctx, all);
    for (;;)
      pause();
  }
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, all), RONDO_ERR_PEER);
  // The others go on: in groups without it, and in a job without it.
  int status = run_and_wait(ctx, some);
  RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || (f->seed % 3 == 0 && status == RONDO_ERR_PEER));
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 3, 10)), RONDO_ERR_PEER);
  rondo_family_close(ctx);
  if (status == RONDO_ERR_PEER)
    rondo_family_add(&f->words[2]);
  rondo_family_add(&f->words[1]);
  rondo_family_await(&f->words[1], f->ranks - 1);
  if (rondo_load_acquire_u32(&f->words[2]))
    return; // the other has not joined in time either
  ctx = rondo_family_open(f, 1, rank, f->ranks - 1);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 1000)), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void rest_for(uint64_t nanoseconds) {
  struct timespec t = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
  nanosleep(&t, NULL);
}

// In every third round at any moment, most of which are before the processes have found each other
// where those are slow; the others wait for it then until the time for joining is over. Else in the
// middle of their runs.
static void kill_one(struct rondo_family *f) {
  uint64_t random = f->seed;
  if (f->seed % 3)
    rondo_family_await(&f->words[0], 1);
  rest_for(rondo_test_random(&random) % 60000000u);
  kill(f->pids[VICTIM], SIGKILL);
}

// Returns 1 if the others went on with each other.
static int kill_with(uint64_t round, uint64_t join_timeout_ns) {
  struct rondo_belongings before = rondo_belongings_count();
  struct rondo_family *f = rondo_family_create(3, 3);
  f->seed = round;
  if (round % 3 == 0)
    f->cfg.join_timeout_ns = join_timeout_ns;
  rondo_family_run(f, killed_member, kill_one);
  int is_right = f->words[2] == 0;
  rondo_family_destroy(f);
  assert_int_equal(rondo_belongings_count().shared_files, before.shared_files);
  return is_right;
}

void a_killed_process_ends_the_runs_with_it_and_no_others(void **state) {
  (void)state;
  uint64_t join_timeout_ns = UINT64_C(2000000000);
  uint64_t rounds = getenv("RONDO_TEST_BACKEND") ? rondo_kill_rounds / 2 : rondo_kill_rounds;
  for (uint64_t round = 0; round < rounds; round++)
    while (!kill_with(round, join_timeout_ns)) { // too busy a machine for so short a time
      join_timeout_ns *= 2;
      assert_true(join_timeout_ns < (uint64_t)LONG_NS);
    }
}

// ---------------------------------------------------------------- machines --

static void unreachable_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  RONDO_MEMBER_TRUE(transport_to(ctx, 1 - rank) == RONDO_TRANSPORT_NONE);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 10)), RONDO_ERR_UNSUPPORTED);
  rondo_family_close(ctx);
}

void shared_memory_alone_leads_to_no_other_machine(void **state) {
  (void)state;
  if (!rondo_family_machines)
    skip();
  struct rondo_family *f = rondo_family_create(2, 2);
  f->cfg.transport = RONDO_TRANSPORT_SHARED_MEMORY;
  rondo_family_run(f, unreachable_member, NULL);
  rondo_family_destroy(f);
}

static void unplug_one(struct rondo_family *f) {
  uint64_t random = f->seed;
  uint32_t machine = rondo_family_machine_of(f, VICTIM);
  rondo_family_await(&f->words[0], f->ranks);
  rest_for(rondo_test_random(&random) % 50000000u);
  rondo_machines_link(machine, 0);
  rondo_family_await(&f->words[1], f->ranks);
  rondo_machines_link(machine, 1);
}

static void unplugged_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some = {0};
  if (rank != VICTIM) {
    RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  }
  int status = run_and_wait(ctx, all);
  rondo_family_add(&f->words[0]);
  if (status == RONDO_SUCCESS)
    status = run_until_it_fails(ctx, all);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_PEER);
  status = rank == VICTIM ? RONDO_SUCCESS : run_and_wait(ctx, some);
  RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
  if (status == RONDO_ERR_PEER)
    rondo_family_add(&f->words[2]);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  rondo_family_add(&f->words[1]);
}

// Returns 1 if those whose link was up went on with each other.
static int unplug_with(uint64_t peer_timeout_ns) {
  struct rondo_family *f = rondo_family_create(3, 3);
  f->cfg.peer_timeout_ns = peer_timeout_ns;
  f->seed = rondo_family_machines;
  rondo_family_run(f, unplugged_member, unplug_one);
  int is_right = f->words[2] == 0;
  rondo_family_destroy(f);
  return is_right;
}

void whose_link_is_down_ends_the_runs_with_it_and_no_others(void **state) {
  (void)state;
  uint64_t peer_timeout_ns = 1000000000;
  if (!rondo_family_machines)
    skip();
  while (!unplug_with(peer_timeout_ns)) { // too busy a machine for so short a time
    peer_timeout_ns *= 2;
    assert_true(peer_timeout_ns < (uint64_t)LONG_NS);
  }
}

// ----------------------------------------------------------------- stopping --

static void stop_one(struct rondo_family *f) {
  rondo_family_await(&f->words[0], f->ranks);
  rest_for(20000000);
  kill(f->pids[VICTIM], SIGSTOP);
  if (f->words[1]) // it is given up; what it does when it goes on is nobody's concern
    rondo_family_await(&f->words[2], f->ranks - 1);
  else
    rest_for(300000000);
  kill(f->pids[VICTIM], SIGCONT);
}

static void evicting_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  int status = run_and_wait(ctx, all);
  rondo_family_add(&f->words[0]);
  // On a busy machine one that is only slow may be given up before.
  if (status == RONDO_SUCCESS)
    status = run_until_it_fails(ctx, all);
  RONDO_MEMBER_STATUS(status, RONDO_ERR_PEER);
  rondo_family_add(&f->words[2]);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
}

void a_process_stopped_for_too_long_is_given_up(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  f->cfg.peer_timeout_ns = 400000000;
  f->words[1] = 1;
  rondo_family_run(f, evicting_member, stop_one);
  rondo_family_destroy(f);
}

// Runs that wait are not reported to the members within the time that the test takes, so only
// heartbeats can tell that the process is silent.
void heartbeats_find_a_stopped_process_long_before_the_peer_timeout(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  f->cfg.peer_timeout_ns = UINT64_C(10) * LONG_NS;
  f->cfg.heartbeat_ns = 100000000;
  f->words[1] = 1;
  rondo_family_run(f, evicting_member, stop_one);
  rondo_family_destroy(f);
}

static void patient_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  for (int i = 0; i < 20; i++) {
    // Slow, too: one rank is much later than the others, and idle meanwhile.
    if (rank == 1 && i == 10)
      rest_for(300000000);
    for (int k = 0; k < 50; k++)
      RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  }
  rondo_family_close(ctx);
}

void a_process_stopped_for_a_while_or_slow_is_not(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  rondo_family_run(f, patient_member, stop_one);
  rondo_family_destroy(f);
}
