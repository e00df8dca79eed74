// What tests of jobs whose members change share: sums that show of how many ranks a job is, votes,
// newcomers and their id.
#ifndef RONDO_TESTS_INTEGRATION_ELASTIC_H
#define RONDO_TESTS_INTEGRATION_ELASTIC_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rondo/elastic.h>

#include "base/atomic.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define COUNT 1000u
#define NEWCOMERS 1u // the place of their id in a family

// The words of a family.
enum { READY = 0, PENDING = 1, DEAD = 2, DONE = 3, LEFT = 4, AGAIN = 5 };

static inline void pause_briefly(void) {
  const struct timespec brief = {0, 1000000};
  nanosleep(&brief, NULL);
}

static inline struct rondo_collective enter(struct rondo_context ctx, uint64_t id) {
  struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static inline void submit(struct rondo_context ctx, struct rondo_collective coll, int32_t *values) {
  for (uint32_t i = 0; i < COUNT; i++)
    values[i] = 1;
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
}

static inline void expect_sum(struct rondo_context ctx, struct rondo_collective coll,
                              const int32_t *values, uint32_t ranks) {
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  for (uint32_t i = 0; i < COUNT; i++)
    RONDO_MEMBER_TRUE(values[i] == (int32_t)ranks);
}

// The job of the context has so many ranks, and all of them sum.
static inline void sum_over(struct rondo_context ctx, uint64_t id, uint32_t ranks) {
  int32_t values[COUNT];
  uint32_t rank = UINT32_MAX;
  uint32_t count = 0;
  struct rondo_collective coll = enter(ctx, id);
  RONDO_MEMBER_STATUS(rondo_describe_rank(ctx, &rank, &count), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count == ranks && rank < count);
  submit(ctx, coll, values);
  expect_sum(ctx, coll, values, ranks);
}

// Called by one member: makes the id of the newcomers.
static inline const struct rondo_unique_id *listen_for_newcomers(struct rondo_family *f) {
  RONDO_MEMBER_STATUS(rondo_grow_listen(&f->ids[NEWCOMERS], &f->cfg), RONDO_SUCCESS);
  rondo_store_release_u32(&f->has_id[NEWCOMERS], 1);
  return &f->ids[NEWCOMERS];
}

static inline struct rondo_config newcomer_config(struct rondo_family *f) {
  struct rondo_config cfg = f->cfg;
  rondo_family_await(&f->has_id[NEWCOMERS], 1);
  cfg.id = f->ids[NEWCOMERS];
  return cfg;
}

static inline struct rondo_context join(struct rondo_family *f) {
  struct rondo_config cfg = newcomer_config(f);
  struct rondo_context ctx;
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_join(&ctx, &cfg, LONG_NS, why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(!*why);
  return ctx;
}

static inline void await_pending(const struct rondo_unique_id *id, uint32_t wanted) {
  uint32_t count = UINT32_MAX;
  for (;;) {
    RONDO_MEMBER_STATUS(rondo_pending(id, &count), RONDO_SUCCESS);
    if (count == wanted)
      return;
    pause_briefly();
  }
}

static inline struct rondo_context grow(struct rondo_context ctx, const struct rondo_unique_id *id,
                                        uint32_t newcomers) {
  struct rondo_context next;
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_grow(ctx, id, newcomers, LONG_NS, &next, why), RONDO_SUCCESS);
  return next;
}

static inline struct rondo_context shrink(struct rondo_context ctx) {
  struct rondo_context next;
  char why[RONDO_REASON_BYTES];
  RONDO_MEMBER_STATUS(rondo_shrink(ctx, NULL, 0, LONG_NS, &next, why), RONDO_SUCCESS);
  return next;
}

static inline void expect_text(const char *why, const char *part) {
  if (!strstr(why, part))
    fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, why);
  RONDO_MEMBER_TRUE(strstr(why, part) != NULL);
}

// What a second thread of a rank needs.
struct voter {
  struct rondo_family *f;
  struct rondo_context ctx, next;
  int status;
};

static inline void run_family(uint32_t processes,
                              void (*member)(struct rondo_family *f, uint32_t rank),
                              void (*watch)(struct rondo_family *f)) {
  struct rondo_family *f = rondo_family_create(processes, processes);
  rondo_family_run(f, member, watch);
  rondo_family_destroy(f);
}

static inline void kill_rank_2(struct rondo_family *f) {
  rondo_family_await(&f->words[READY], 3);
  kill(f->pids[2], SIGKILL);
  rondo_family_add(&f->words[DEAD]);
}

#endif // RONDO_TESTS_INTEGRATION_ELASTIC_H
