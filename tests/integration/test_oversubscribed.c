// Processes that use the same cores know of each other, so that a waiting thread yields its core.
#include <sched.h>
#include <string.h>

#include "base/atomic.h"
#include "daemon/host/host_device.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/support/named.h"
#include "tests/support/processes.h"

#define LONG_NS INT64_C(100000000000)
#define MOST_RANKS 8u
#define MANY_WAITS 200u

// The cores that a child may use.
struct place {
  uint32_t cores; // so many of those that the test has
  int is_apart;   // each child has one of its own
};

static void bind_to(const struct rondo_test_child *child, const struct place *place) {
  cpu_set_t had;
  cpu_set_t set;
  uint32_t seen = 0;
  CPU_ZERO(&set);
  RONDO_CHILD_CHECK(sched_getaffinity(0, sizeof had, &had) == 0);
  for (size_t core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &had))
      continue;
    if (place->is_apart ? seen == child->rank : seen < place->cores)
      CPU_SET(core, &set);
    seen++;
  }
  RONDO_CHILD_CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
}

// Meets the others: afterwards all know where all are.
static struct rondo_context join(struct rondo_test_child *child) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  struct rondo_collective coll;
  struct rondo_collective_desc d = rondo_barrier(1);
  cfg.rank = child->rank;
  cfg.rank_count = child->count;
  bind_to(child, child->arg);
  rondo_test_child_say(child); // all are bound before anybody looks
  rondo_test_child_receive(child);
  cfg.id = rondo_test_child_id(child, &cfg);
  RONDO_CHILD_CHECK(rondo_init(&ctx, &cfg) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_register(ctx, &d, &coll) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_run(ctx, coll, NULL, NULL, NULL, NULL) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS) == RONDO_SUCCESS);
  return ctx;
}

static uint32_t competitors(void) {
  return rondo_load_relaxed_u32(&rondo_host_device.competing_ranks);
}

static void leave(struct rondo_test_child *child, struct rondo_context ctx) {
  rondo_test_child_say(child);
  rondo_test_child_receive(child); // the others have looked, too
  RONDO_CHILD_CHECK(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
  RONDO_CHILD_CHECK(!rondo_host_is_contended() && competitors() == 0);
}

static void be_many(struct rondo_test_child *child) {
  struct rondo_context ctx = join(child);
  RONDO_CHILD_CHECK(competitors() == child->count - 1);
  RONDO_CHILD_CHECK(rondo_host_is_contended());
  leave(child, ctx);
}

static void be_apart(struct rondo_test_child *child) {
  struct rondo_context ctx = join(child);
  RONDO_CHILD_CHECK(competitors() == 0);
  RONDO_CHILD_CHECK(!rondo_host_is_contended());
  leave(child, ctx);
}

static void init_each(struct rondo_test_child *child, struct rondo_context *ctx, uint32_t count,
                      struct rondo_config cfg) {
  int is_job = cfg.rank_count > 1;
  for (uint32_t i = 0; i < count; i++) {
    cfg.rank = is_job ? i : 0;
    RONDO_CHILD_CHECK(rondo_init(&ctx[i], &cfg) == RONDO_SUCCESS);
  }
}

static void destroy_each(struct rondo_test_child *child, const struct rondo_context *ctx,
                         uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    RONDO_CHILD_CHECK(rondo_destroy(ctx[i], RONDO_DESTROY_DRAIN, LONG_NS) == RONDO_SUCCESS);
}

// Contexts beside the one that is in use do not oversubscribe the cores; ranks of one job do.
static void be_several(struct rondo_test_child *child) {
  struct rondo_context alone[3];
  struct rondo_context together[2];
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  bind_to(child, child->arg);
  init_each(child, alone, 3, cfg);
  RONDO_CHILD_CHECK(!rondo_host_is_oversubscribed());
  cfg.rank_count = 2;
  RONDO_CHILD_CHECK(rondo_unique_id_create(&cfg.id) == RONDO_SUCCESS);
  init_each(child, together, 2, cfg);
  RONDO_CHILD_CHECK(rondo_host_is_oversubscribed());
  destroy_each(child, together, 2);
  RONDO_CHILD_CHECK(!rondo_host_is_oversubscribed());
  destroy_each(child, alone, 3);
}

// When rank 0 last woke its worker for remaining work; 0: never.
static uint64_t woken_ns(struct rondo_test_child *child, struct rondo_context ctx) {
  struct rondo_rank *rank = NULL;
  RONDO_CHILD_CHECK(rondo_rank_pin(ctx, "test", &rank) == RONDO_SUCCESS);
  uint64_t woken = rondo_load_relaxed_u64(&rondo_host_daemon_of(rank->member.daemon)->woken_ns);
  rondo_rank_unpin(ctx);
  return woken;
}

struct crowd {
  uint32_t count; // ranks
  struct rondo_context ctx[MOST_RANKS];
  struct rondo_collective met[MOST_RANKS], late[MOST_RANKS];
};

static void crowd_open(struct rondo_test_child *child, struct crowd *c) {
  struct rondo_collective_desc met = rondo_barrier(1);
  struct rondo_collective_desc late = rondo_barrier(2);
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  cfg.rank_count = c->count;
  RONDO_CHILD_CHECK(rondo_unique_id_create(&cfg.id) == RONDO_SUCCESS);
  init_each(child, c->ctx, c->count, cfg);
  for (uint32_t r = 0; r < c->count; r++)
    RONDO_CHILD_CHECK(rondo_register(c->ctx[r], &met, &c->met[r]) == RONDO_SUCCESS &&
                      rondo_register(c->ctx[r], &late, &c->late[r]) == RONDO_SUCCESS);
}

static void run_from(struct rondo_test_child *child, const struct crowd *c, uint32_t first,
                     const struct rondo_collective *coll) {
  for (uint32_t r = first; r < c->count; r++)
    RONDO_CHILD_CHECK(rondo_run(c->ctx[r], coll[r], NULL, NULL, NULL, NULL) == RONDO_SUCCESS);
}

static void await_run(struct rondo_test_child *child, const struct crowd *c, uint32_t r,
                      const struct rondo_collective *coll) {
  RONDO_CHILD_CHECK(rondo_wait(c->ctx[r], coll[r], RONDO_LAST_RUN, LONG_NS) == RONDO_SUCCESS);
}

// Rank 0 waits for one barrier after the other, and leaves another one outstanding each time.
// Returns true if it has woken its worker.
static bool wakes_worker(struct rondo_test_child *child, uint32_t count, uint32_t waits) {
  struct crowd c = {.count = count};
  bool wakes = false;
  crowd_open(child, &c);
  RONDO_CHILD_CHECK(rondo_run(c.ctx[0], c.late[0], NULL, NULL, NULL, NULL) == RONDO_SUCCESS);
  for (uint32_t i = 0; i < waits && !wakes; i++) {
    run_from(child, &c, 0, c.met);
    await_run(child, &c, 0, c.met);
    wakes = woken_ns(child, c.ctx[0]) != 0;
  }
  run_from(child, &c, 1, c.late);
  for (uint32_t r = 0; r < count; r++)
    await_run(child, &c, r, c.late);
  destroy_each(child, c.ctx, count);
  return wakes;
}

static void leave_work(struct rondo_test_child *child) {
  bind_to(child, child->arg);
  RONDO_CHILD_CHECK(wakes_worker(child, 2, UINT32_MAX));
  RONDO_CHILD_CHECK(!wakes_worker(child, MOST_RANKS, MANY_WAITS));
}

static void hear_and_say(struct rondo_test_processes *p) {
  for (uint32_t r = 0; r < p->count; r++)
    rondo_test_receive(p, r);
  for (uint32_t r = 0; r < p->count; r++)
    rondo_test_say(p, r);
}

static void perform(uint32_t count, struct place *place, void (*run)(struct rondo_test_child *)) {
  struct rondo_test_processes p;
  rondo_test_fork(&p, count, run, place);
  hear_and_say(&p);
  rondo_test_pass_id(&p);
  hear_and_say(&p);
  rondo_test_reap(&p, 0);
}

static void processes_on_one_core_know_that_they_share_it(void **state) {
  struct place place = {.cores = 1};
  (void)state;
  perform(3, &place, be_many);
}

static void processes_with_a_core_each_do_not_yield(void **state) {
  struct place place = {.is_apart = 1};
  cpu_set_t set;
  (void)state;
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  if (CPU_COUNT(&set) < 2)
    skip();
  perform(2, &place, be_apart);
}

static void idle_contexts_do_not_count(void **state) {
  struct rondo_test_processes p;
  struct place place = {.cores = 1};
  (void)state;
  rondo_test_fork(&p, 1, be_several, &place);
  rondo_test_reap(&p, 0);
}

// A worker that is woken by each thread that leaves work takes the cores from the threads that
// could do it.
static void workers_are_seldom_woken_if_many_ranks_share_a_core(void **state) {
  struct rondo_test_processes p;
  struct place place = {.cores = 1};
  (void)state;
  rondo_test_fork(&p, 1, leave_work, &place);
  rondo_test_reap(&p, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("oversubscribed", processes_on_one_core_know_that_they_share_it),
      RONDO_NAMED_TEST("oversubscribed", processes_with_a_core_each_do_not_yield),
      RONDO_NAMED_TEST("oversubscribed", idle_contexts_do_not_count),
      RONDO_NAMED_TEST("oversubscribed", workers_are_seldom_woken_if_many_ranks_share_a_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
