// What the two parts of test_processes share: test_processes.c, in which everything goes well, and
// test_processes_failing.c. The first runs the tests of both.
#ifndef RONDO_TESTS_INTEGRATION_PROCESSES_H
#define RONDO_TESTS_INTEGRATION_PROCESSES_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS

static inline void run_family(uint32_t processes, uint32_t ranks,
                              void (*member)(struct rondo_family *f, uint32_t rank)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  rondo_family_run(f, member, NULL);
  rondo_family_destroy(f);
}

static inline int transport_to(struct rondo_context ctx, uint32_t rank) {
  const struct timespec brief = {0, 1000000};
  int transport = -1;
  char why[256];
  for (int status = RONDO_IN_PROGRESS; status == RONDO_IN_PROGRESS; nanosleep(&brief, NULL))
    status = rondo_transport(ctx, rank, &transport, why, sizeof why);
  return transport;
}

static const int32_t ones[1000] = {1, 1, 1};

static inline struct rondo_collective enter(struct rondo_context ctx, uint64_t id, uint64_t count) {
  struct rondo_collective_desc d = rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static inline int run_and_wait(struct rondo_context ctx, struct rondo_collective coll) {
  int32_t *out = calloc(sizeof ones, 1);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, ones, out, NULL, NULL), RONDO_SUCCESS);
  int status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
  free(out);
  return status;
}

// test_processes_failing.c
extern uint64_t rondo_kill_rounds;

void a_mismatch_ends_the_runs_of_all(void **state);
void a_mismatch_of_groups_reaches_ranks_that_were_not_named(void **state);
void a_rank_that_comes_after_a_mismatch_gets_it_too(void **state);
void a_deregistration_ends_the_runs_beyond_its_own(void **state);
void a_process_that_exits_early_ends_the_runs_that_wait_for_it(void **state);
void an_abort_reaches_the_members_and_nobody_else(void **state);
void a_job_leaves_nothing_behind(void **state);
void a_killed_process_ends_the_runs_with_it_and_no_others(void **state);
void shared_memory_alone_leads_to_no_other_machine(void **state);
void whose_link_is_down_ends_the_runs_with_it_and_no_others(void **state);
void a_process_stopped_for_too_long_is_given_up(void **state);
void heartbeats_find_a_stopped_process_long_before_the_peer_timeout(void **state);
void a_process_stopped_for_a_while_or_slow_is_not(void **state);

#endif // RONDO_TESTS_INTEGRATION_PROCESSES_H
