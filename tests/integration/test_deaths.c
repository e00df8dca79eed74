// A process dies while others are in a call: each call returns in bounded time, its error names the
// lost rank, and the other ranks go on, also if the job's root was in that process. A process dies
// when all have reached a certain point of the test, not at a certain time. Also tests what the
// stuck report says about processes that are alive or silent.
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rondo/comm.h>

#include "base/atomic.h"
#include "runtime/job/job.h"
#include "runtime/net/mesh_state.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define COUNT 100u

// The words of a family.
enum { STAGE = 0, READY = 1, DEAD = 2, AGAIN = 3, DEAD_AGAIN = 4, DONE = 5 };

static const int32_t ones[COUNT] = {1, 1, 1};

static struct rondo_collective enter(struct rondo_context ctx, uint64_t id) {
  struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static struct rondo_collective enter_of(struct rondo_context ctx, uint64_t id,
                                        const uint32_t *ranks, uint32_t count) {
  struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, ranks, count, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

// The buffer outlives the run, whatever becomes of that.
static void submit(struct rondo_context ctx, struct rondo_collective coll, int32_t *out) {
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, ones, out, NULL, NULL), RONDO_SUCCESS);
}

static void run_and_wait(struct rondo_context ctx, struct rondo_collective coll) {
  static _Thread_local int32_t out[COUNT];
  submit(ctx, coll, out);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
}

static void expect_named(const char *why, uint32_t rank) {
  char name[32];
  (void)snprintf(name, sizeof name, "rank %u ", rank);
  RONDO_MEMBER_TRUE(strstr(why, name) != NULL);
}

// The last run ends with the loss of that rank, and the reason names it.
static void expect_loss(struct rondo_context ctx, struct rondo_collective coll, uint32_t rank) {
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
  RONDO_MEMBER_STATUS(rondo_reason(ctx, coll, why, sizeof why), RONDO_SUCCESS);
  expect_named(why, rank);
}

static void run_into_loss(struct rondo_context ctx, struct rondo_collective coll, uint32_t rank) {
  static _Thread_local int32_t out[COUNT];
  submit(ctx, coll, out);
  expect_loss(ctx, coll, rank);
}

static void rest(void) {
  for (;;)
    pause();
}

static void await_roster(struct rondo_context ctx, uint32_t other) {
  const struct timespec brief = {0, 1000000};
  int transport = -1;
  char why[256];
  while (rondo_transport(ctx, other, &transport, why, sizeof why) == RONDO_IN_PROGRESS)
    nanosleep(&brief, NULL);
}

// ------------------------------------------------------------- in each call --

#define VICTIM 2u

static void kill_victim(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], f->ranks);
  kill(f->pids[VICTIM], SIGKILL);
  rondo_family_add(&f->words[DEAD]);
}

static void ready(struct rondo_family *f) { rondo_family_add(&f->words[READY]); }

// All know each other, and nobody has called anything yet.
static void in_init(struct rondo_family *f, struct rondo_context ctx) {
  ready(f);
  run_into_loss(ctx, enter(ctx, 2), VICTIM);
}

static void in_register(struct rondo_family *f, struct rondo_context ctx) {
  struct rondo_collective coll = enter(ctx, 2);
  ready(f);
  rondo_family_await(&f->words[DEAD], 1);
  struct rondo_collective late = enter(ctx, 3);
  run_into_loss(ctx, coll, VICTIM);
  run_into_loss(ctx, late, VICTIM);
}

static void in_deregister(struct rondo_family *f, struct rondo_context ctx) {
  struct rondo_collective coll = enter(ctx, 1);
  run_and_wait(ctx, coll);
  ready(f);
  RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
}

static void in_comm(struct rondo_family *f, struct rondo_context ctx) {
  static _Thread_local int32_t out[COUNT];
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm;
  struct rondo_collective_desc d = rondo_all_reduce(0, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_run_args args = {ones, out, NULL, NULL};
  char why[RONDO_REASON_BYTES];
  int state = RONDO_SUCCESS;
  cfg.key = 7;
  ready(f);
  RONDO_MEMBER_STATUS(rondo_comm_create(ctx, &cfg, &comm), RONDO_SUCCESS);
  int status = rondo_comm_call(ctx, comm, &d, &args, NULL); // may fail at once
  RONDO_MEMBER_TRUE(status == RONDO_SUCCESS || status == RONDO_ERR_PEER);
  RONDO_MEMBER_STATUS(rondo_comm_wait(ctx, comm, NULL, LONG_NS), RONDO_ERR_PEER);
  RONDO_MEMBER_STATUS(rondo_comm_status(ctx, comm, &state, why, sizeof why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(state == RONDO_ERR_PEER);
  expect_named(why, VICTIM);
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

// A communicator fails although nobody has called anything on it.
static void in_idle_comm(struct rondo_family *f, struct rondo_context ctx) {
  struct rondo_comm_config cfg = RONDO_COMM_CONFIG_INIT;
  struct rondo_comm comm;
  char why[RONDO_REASON_BYTES];
  int state = RONDO_SUCCESS;
  cfg.key = 7;
  RONDO_MEMBER_STATUS(rondo_comm_create(ctx, &cfg, &comm), RONDO_SUCCESS);
  ready(f);
  while (state == RONDO_SUCCESS) { // the test's own time is the bound
    RONDO_MEMBER_STATUS(rondo_comm_status(ctx, comm, &state, why, sizeof why), RONDO_SUCCESS);
    (void)sched_yield();
  }
  RONDO_MEMBER_TRUE(state == RONDO_ERR_PEER);
  expect_named(why, VICTIM);
  RONDO_MEMBER_STATUS(rondo_comm_destroy(ctx, comm, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

static void in_run(struct rondo_family *f, struct rondo_context ctx) {
  struct rondo_collective coll = enter(ctx, 1);
  run_and_wait(ctx, coll);
  ready(f);
  rondo_family_await(&f->words[DEAD], 1);
  run_into_loss(ctx, coll, VICTIM);
}

static void in_wait(struct rondo_family *f, struct rondo_context ctx) {
  static _Thread_local int32_t out[COUNT];
  struct rondo_collective coll = enter(ctx, 1);
  run_and_wait(ctx, coll);
  submit(ctx, coll, out);
  ready(f);
  expect_loss(ctx, coll, VICTIM);
}

static void note_status(void *arg, int status) { *(int *)arg = status; }

// Draining ends when the run has failed, and its callback gets the status.
static void in_destroy(struct rondo_family *f, struct rondo_context ctx) {
  static _Thread_local int32_t out[COUNT];
  int status = -1;
  struct rondo_collective coll = enter(ctx, 1);
  run_and_wait(ctx, coll);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, ones, out, note_status, &status), RONDO_SUCCESS);
  ready(f);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(status == RONDO_ERR_PEER);
}

static const struct stage {
  const char *call;
  void (*survive)(struct rondo_family *f, struct rondo_context ctx);
  int victim_runs; // it takes part in the first run of collective 1
  int is_end;      // of the context
} stages[] = {{"init", in_init, 0, 0},
              {"register", in_register, 0, 0},
              {"deregister", in_deregister, 1, 0},
              {"comm_call", in_comm, 0, 0},
              {"comm_status", in_idle_comm, 0, 0},
              {"run", in_run, 1, 0},
              {"wait", in_wait, 1, 0},
              {"destroy", in_destroy, 1, 1}};

static void dying_member(struct rondo_family *f, uint32_t rank) {
  static const uint32_t others[] = {0, 1};
  const struct stage *stage = &stages[f->words[STAGE]];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  await_roster(ctx, (rank + 1) % f->ranks);
  if (rank == VICTIM) {
    if (stage->victim_runs)
      run_and_wait(ctx, enter(ctx, 1));
    ready(f);
    rest();
  }
  stage->survive(f, ctx);
  if (!stage->is_end) {
    run_and_wait(ctx, enter_of(ctx, 9, others, 2)); // a group without it goes on
    RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  }
  ctx = rondo_family_open(f, 1, rank, 2); // and so does a job without it
  run_and_wait(ctx, enter(ctx, 1));
  rondo_family_close(ctx);
}

static void in_every_call_the_others_learn_which_rank_died(void **state) {
  (void)state;
  for (uint32_t i = 0; i < sizeof stages / sizeof *stages; i++) {
    struct rondo_family *f = rondo_family_create(3, 3);
    f->words[STAGE] = i;
    print_message("in %s\n", stages[i].call);
    rondo_family_run(f, dying_member, kill_victim);
    rondo_family_destroy(f);
  }
}

// ------------------------------------------------ the process of the root --

#define SECOND_VICTIM 3u

static void kill_root_and_another(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], f->ranks);
  kill(f->pids[0], SIGKILL);
  rondo_family_await(&f->words[AGAIN], f->ranks - 1);
  kill(f->pids[SECOND_VICTIM], SIGKILL);
  rondo_family_add(&f->words[DEAD_AGAIN]);
}

// Rank 1 has nothing to do with the second victim before that is dead; rank 2 has.
static void rootless_member(struct rondo_family *f, uint32_t rank) {
  static const uint32_t all_but_root[] = {1, 2, 3};
  static const uint32_t last_two[] = {2, 3};
  static const uint32_t strangers[] = {1, 3};
  static const uint32_t rest_of_them[] = {1, 2};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  await_roster(ctx, (rank + 1) % f->ranks);
  struct rondo_collective with_root = enter(ctx, 1);
  ready(f);
  if (rank == 0)
    rest();
  run_into_loss(ctx, with_root, 0);
  // Without the root the others go on, in what is registered only now, too.
  if (f->seed)
    run_and_wait(ctx, enter_of(ctx, 2, all_but_root, 3));
  struct rondo_collective pair = {0};
  if (rank >= 2) {
    pair = enter_of(ctx, 3, last_two, 2);
    run_and_wait(ctx, pair);
  }
  rondo_family_add(&f->words[AGAIN]);
  if (rank == SECOND_VICTIM)
    rest();
  // Another death is reported all the same, to a rank that shared runs with the victim and to one
  // that did not.
  rondo_family_await(&f->words[DEAD_AGAIN], 1);
  if (rank == 2)
    run_into_loss(ctx, pair, SECOND_VICTIM);
  else
    run_into_loss(ctx, enter_of(ctx, 4, strangers, 2), SECOND_VICTIM);
  run_and_wait(ctx, enter_of(ctx, 5, rest_of_them, 2));
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
  ctx = rondo_family_open(f, 1, rank - 1, 2);
  run_and_wait(ctx, enter(ctx, 1));
  rondo_family_close(ctx);
}

static void the_job_goes_on_when_the_process_with_the_root_dies(void **state) {
  (void)state;
  for (uint64_t seed = 0; seed < 2; seed++) {
    struct rondo_family *f = rondo_family_create(4, 4);
    f->seed = seed;
    rondo_family_run(f, rootless_member, kill_root_and_another);
    rondo_family_destroy(f);
  }
}

// --------------------------------------------------------------------- a cut --

// On the control thread: shuts down the socket of the connection with process 2.
static void connection_cut(void *arg) {
  const struct rondo_mesh_peer *peer = &rondo_members_mesh(arg)->peers[2];
  RONDO_MEMBER_TRUE(peer->line && shutdown(peer->line->fd, SHUT_RDWR) == 0);
}

// Messages have gone between process 1 and process 2, which is removed then, and lives.
static void cut_member(struct rondo_family *f, uint32_t rank) {
  static const uint32_t first_two[] = {0, 1};
  static const uint32_t last_two[] = {1, 2};
  static int32_t out[COUNT];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective of_all = enter(ctx, 1);
  run_and_wait(ctx, of_all);
  if (rank)
    run_and_wait(ctx, enter_of(ctx, 3, last_two, 2));
  ready(f);
  rondo_family_await(&f->words[READY], f->ranks);
  if (rank == 1) {
    struct rondo_rank *self = NULL;
    RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &self), RONDO_SUCCESS);
    struct rondo_members *members = self->job->membership;
    rondo_rank_unpin(ctx);
    RONDO_MEMBER_STATUS(rondo_members_calls->after(members, 0, connection_cut, members),
                        RONDO_SUCCESS);
  }
  if (rank < 2) {
    run_into_loss(ctx, of_all, 2); // rank 2 makes no run of it yet
    rondo_family_add(&f->words[DEAD]);
    run_and_wait(ctx, enter_of(ctx, 2, first_two, 2));
  } else {
    rondo_family_await(&f->words[DEAD], 2);
    submit(ctx, of_all, out);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, of_all, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_PEER);
  }
  rondo_family_close(ctx);
}

static void a_cut_between_two_that_live_removes_one(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  rondo_family_run(f, cut_member, NULL);
  rondo_family_destroy(f);
}

// ------------------------------------------------------------- the stuck report --

// Reports until one holds `text`: it takes a while until daemons are where they are stuck.
static void report_until(struct rondo_context ctx, const char *text) {
  for (int found = 0; !found;) { // the family's lifetime is the bound
    char *report = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&report, &bytes);
    RONDO_MEMBER_TRUE(stream != NULL);
    RONDO_MEMBER_STATUS(rondo_report(ctx, stream, NULL), RONDO_SUCCESS);
    (void)fclose(stream);
    found = strstr(report, text) != NULL;
    free(report);
  }
}

static void expect_missing(struct rondo_context ctx, struct rondo_collective coll, uint32_t rank) {
  uint32_t ranks[4];
  uint32_t count = 0;
  do
    RONDO_MEMBER_STATUS(rondo_missing(ctx, coll, 1, ranks, 4, &count), RONDO_SUCCESS);
  while (count != 1);
  RONDO_MEMBER_TRUE(ranks[0] == rank);
}

// Two ranks are in collective 42, the third is in 43.
static void reported_member(struct rondo_family *f, uint32_t rank) {
  static int32_t out[2][COUNT];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective colls[] = {enter(ctx, 42), enter(ctx, 43)};
  uint32_t mine = rank == VICTIM;
  submit(ctx, colls[mine], out[mine]);
  if (rank == 0) {
    report_until(ctx, "rank 2 elsewhere, id 43 (all_reduce, 100 × int32, 3 ranks), run 1: block 0 "
                      "stands at op");
    report_until(ctx, "not submitted by rank 2\n");
    expect_missing(ctx, colls[0], VICTIM);
    rondo_family_add(&f->words[AGAIN]);
    rondo_family_await(&f->words[DEAD_AGAIN], 1); // it is stopped
    report_until(ctx, "not submitted by rank 2 (its process does not answer)");
    expect_missing(ctx, colls[0], VICTIM);
    rondo_family_add(&f->words[DONE]);
  } else {
    rondo_family_await(&f->words[DONE], 1);
  }
  submit(ctx, colls[!mine], out[!mine]);
  for (uint32_t i = 0; i < 2; i++)
    RONDO_MEMBER_STATUS(rondo_wait(ctx, colls[i], 1, LONG_NS), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void stop_victim(struct rondo_family *f) {
  rondo_family_await(&f->words[AGAIN], 1);
  kill(f->pids[VICTIM], SIGSTOP);
  rondo_family_add(&f->words[DEAD_AGAIN]);
  rondo_family_await(&f->words[DONE], 1);
  kill(f->pids[VICTIM], SIGCONT);
}

static void the_report_shows_what_other_processes_wait_for(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  rondo_family_run(f, reported_member, stop_victim);
  rondo_family_destroy(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("deaths", in_every_call_the_others_learn_which_rank_died),
      RONDO_NAMED_TEST("deaths", the_job_goes_on_when_the_process_with_the_root_dies),
      RONDO_NAMED_TEST("deaths", a_cut_between_two_that_live_removes_one),
      RONDO_NAMED_TEST("deaths", the_report_shows_what_other_processes_wait_for),
  };
  return cmocka_run_group_tests_name("deaths", tests, NULL, NULL);
}
