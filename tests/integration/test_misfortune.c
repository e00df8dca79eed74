// Two processes live on. At a random moment a third one is killed, stopped for long or for a while,
// its cable is pulled, or its link becomes slow. Each round ends with exact results, or with the
// error that names the lost process; then the two open a new job without it. The test counts what
// they own.
//
//   test_misfortune ROUNDS            processes of this machine
//   test_misfortune ROUNDS machines   a machine each, made of network namespaces
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/machines.h"
#include "tests/support/named.h"

#define SURVIVORS 2u
#define VICTIM 2u
#define RANKS 3u
#define LONG_NS RONDO_TEST_LONG_NS
#define PEER_TIMEOUT_NS UINT64_C(1000000000)
#define JOIN_TIMEOUT_NS UINT64_C(1000000000)
#define COUNT 6000u       // elements
#define PEACEFUL_RUNS 60u // of a round in which nobody is lost
#define MOMENT_NS 60000000u
#define WHILE_NS 200000000u
#define WARM_ROUND 3u // after which nothing grows any more
#define SLACK_BYTES_A_ROUND 256u
#define SLACK_BYTES 131072u

enum misfortune { NOTHING, KILLED, STOPPED, PAUSED, UNPLUGGED, SLOWED, MISFORTUNES };
static const char *const names[] = {"nothing", "killed",    "stopped for long",
                                    "paused",  "unplugged", "slowed"};

// Shared by all processes. The word of a round says that it is over.
struct story {
  uint32_t has_machines;
  uint64_t seed;
  uint32_t round;      // the one that goes on, from 1
  uint32_t misfortune; // ... of it
  uint32_t has_id[2];
  struct rondo_unique_id ids[2]; // of the job, and of the one without the victim
  uint32_t running;              // ranks that have seen a result
  uint32_t through;              // survivors that are through with the first job
  uint32_t ready;                // ... with the round
  uint32_t over;                 // there are no more rounds
};

static struct story *story;
static uint64_t rounds;

static int is_silent(uint32_t m) { return m == STOPPED || m == UNPLUGGED; }
static int is_fatal(uint32_t m) { return m == KILLED || is_silent(m); }

static void rest_for(uint64_t nanoseconds) {
  struct timespec t = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
  while (nanosleep(&t, &t) && errno == EINTR)
    continue;
}

// ---------------------------------------------------------------------- ranks ---

static int32_t input_of(uint32_t rank, uint64_t run, uint32_t i) {
  return (int32_t)(rank * 1000 + run * 7 + i);
}

static struct rondo_context enter(uint32_t job, uint32_t rank, uint32_t ranks) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  if (job == 0 && is_fatal(story->misfortune))
    cfg.join_timeout_ns = JOIN_TIMEOUT_NS;
  if (job == 0 && is_silent(story->misfortune))
    cfg.peer_timeout_ns = PEER_TIMEOUT_NS;
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_unique_id_listen(&story->ids[job], &cfg), RONDO_SUCCESS);
    rondo_store_release_u32(&story->has_id[job], 1);
  }
  rondo_family_await(&story->has_id[job], 1);
  cfg.id = story->ids[job];
  cfg.rank = rank;
  cfg.rank_count = ranks;
  RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  return ctx;
}

// Runs until a run fails, or `most` have not; every result is exact. Returns the last status.
static int run_on(struct rondo_context ctx, uint32_t rank, uint32_t ranks, uint64_t most) {
  static int32_t in[COUNT], out[COUNT];
  struct rondo_collective_desc d = rondo_all_reduce(1, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  int status = RONDO_SUCCESS;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  for (uint64_t run = 0; run < most && status == RONDO_SUCCESS; run++) {
    for (uint32_t i = 0; i < COUNT; i++)
      in[i] = input_of(rank, run, i);
    if (run == 1)
      rondo_family_add(&story->running);
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, in, out, NULL, NULL), RONDO_SUCCESS);
    status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
    for (uint32_t i = 0; i < COUNT && status == RONDO_SUCCESS; i++) {
      int32_t sum = 0;
      for (uint32_t r = 0; r < ranks; r++)
        sum += input_of(r, run, i);
      RONDO_MEMBER_TRUE(out[i] == sum);
    }
  }
  return status;
}

static void live_through_the_first_job(uint32_t rank) {
  struct rondo_context ctx = enter(0, rank, RANKS);
  int fatal = is_fatal(story->misfortune);
  int status = run_on(ctx, rank, RANKS, fatal ? UINT64_MAX : PEACEFUL_RUNS);
  if (rank < SURVIVORS)
    RONDO_MEMBER_STATUS(status, fatal ? RONDO_ERR_PEER : RONDO_SUCCESS);
  rondo_family_add(&story->through);
  int how = fatal ? RONDO_DESTROY_ABORT : RONDO_DESTROY_DRAIN;
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, how, fatal ? 0 : LONG_NS), RONDO_SUCCESS);
}

static void live_without_the_victim(uint32_t rank) {
  struct rondo_context ctx = enter(1, rank, SURVIVORS);
  RONDO_MEMBER_STATUS(run_on(ctx, rank, SURVIVORS, 3), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

// ------------------------------------------------------------------- processes ---

struct possessions {
  struct rondo_belongings things;
  size_t bytes;
};

static struct possessions count_possessions(void) {
  struct possessions p = {rondo_belongings_count(), mallinfo2().uordblks};
  return p;
}

static void compare(const struct possessions *warm) {
  struct possessions now = count_possessions();
  fprintf(stderr, "process %d: descriptors %u -> %u, threads %u -> %u, heap %zu -> %zu bytes\n",
          (int)getpid(), warm->things.descriptors, now.things.descriptors, warm->things.threads,
          now.things.threads, warm->bytes, now.bytes);
  RONDO_MEMBER_TRUE(now.things.descriptors <= warm->things.descriptors);
  RONDO_MEMBER_TRUE(now.things.threads <= warm->things.threads);
  RONDO_MEMBER_TRUE(now.things.shared_files <= warm->things.shared_files);
  RONDO_MEMBER_TRUE(now.bytes <= warm->bytes + SLACK_BYTES + rounds * SLACK_BYTES_A_ROUND);
}

static void survive(uint32_t rank) {
  struct possessions warm = {.bytes = 0};
  for (uint32_t round = 1; round <= rounds; round++) {
    rondo_family_await(&story->round, round);
    live_through_the_first_job(rank);
    live_without_the_victim(rank);
    if (round == WARM_ROUND)
      warm = count_possessions();
    rondo_family_add(&story->ready);
  }
  if (rounds > WARM_ROUND)
    compare(&warm);
}

// The process of a rank; of a survivor for all rounds, of the victim for one.
static pid_t start(uint32_t rank) {
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid)
    return pid;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (story->has_machines)
    rondo_machines_enter(rank);
  if (rank == VICTIM)
    live_through_the_first_job(rank);
  else
    survive(rank);
  _exit(0);
}

// On a busy machine one that is only slow may be given up before.
static void await_results(void) {
  for (uint32_t i = 0; i < LONG_NS / 1000000; i++) {
    if (rondo_load_acquire_u32(&story->through) || rondo_load_acquire_u32(&story->running) == RANKS)
      return;
    rest_for(1000000);
  }
}

static void befall(uint32_t misfortune, pid_t victim) {
  switch (misfortune) {
  case KILLED:
    kill(victim, SIGKILL);
    break;
  case STOPPED:
    kill(victim, SIGSTOP);
    rondo_family_await(&story->through, SURVIVORS);
    kill(victim, SIGCONT);
    break;
  case PAUSED:
    kill(victim, SIGSTOP);
    rest_for(WHILE_NS);
    kill(victim, SIGCONT);
    break;
  case UNPLUGGED:
    rondo_machines_link(VICTIM, 0);
    rondo_family_await(&story->through, SURVIVORS + 1); // it notices, too
    rondo_machines_link(VICTIM, 1);
    break;
  case SLOWED:
    rondo_machines_slow(VICTIM, 1);
    rest_for(WHILE_NS);
    rondo_machines_slow(VICTIM, 0);
    break;
  default:
    break;
  }
}

static void live_a_round(uint32_t round, uint64_t *random) {
  uint32_t choices = story->has_machines ? MISFORTUNES : UNPLUGGED;
  uint32_t misfortune = (round - 1) % choices;
  story->misfortune = misfortune;
  story->has_id[0] = story->has_id[1] = story->running = story->through = story->ready = 0;
  pid_t victim = start(VICTIM);
  rondo_store_release_u32(&story->round, round);
  if ((round - 1) / choices % 2 == 0) // else it may not even have found the others
    await_results();
  rest_for(rondo_test_random(random) % MOMENT_NS);
  befall(misfortune, victim);
  rondo_family_await(&story->ready, SURVIVORS);
  int end = 0;
  assert_int_equal(waitpid(victim, &end, 0), victim);
  if (end && !(misfortune == KILLED && WIFSIGNALED(end)))
    fail_msg("round %u: the victim, %s, ended with 0x%x", round, names[misfortune], (unsigned)end);
}

static void every_round_ends_and_leaves_nothing(void **state) {
  uint64_t random = story->seed;
  pid_t pids[SURVIVORS];
  struct rondo_belongings before = rondo_belongings_count();
  (void)state;
  for (uint32_t r = 0; r < SURVIVORS; r++)
    pids[r] = start(r);
  for (uint32_t round = 1; round <= rounds; round++)
    live_a_round(round, &random);
  for (uint32_t r = 0; r < SURVIVORS; r++) {
    int end = 0;
    assert_int_equal(waitpid(pids[r], &end, 0), pids[r]);
    assert_int_equal(end, 0);
  }
  struct rondo_belongings after = rondo_belongings_count();
  assert_int_equal(after.descriptors, before.descriptors);
  assert_int_equal(after.shared_files, before.shared_files);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("misfortune", every_round_ends_and_leaves_nothing),
  };
  story = mmap(NULL, sizeof *story, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (story == MAP_FAILED)
    return 1;
  rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 12;
  story->seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  story->has_machines = argc > 2 && strcmp(argv[2], "machines") == 0;
  if (story->has_machines && !rondo_machines_open(RANKS))
    return 77;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  rondo_machines_close();
  return failed;
}
