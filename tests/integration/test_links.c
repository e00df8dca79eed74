// Rates of links and the order of a ring, with ranks that are threads and ranks that are processes.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rondo/links.h>

#include "runtime/job/processes.h"
#include "runtime/links/spread.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/state/state_meeting.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define MOST 8u
#define TRIAL_BYTES 65536u // of the first trial
#define SLOW_NS 200000000  // that a trial takes on a slow link

// Called on a rank before a trial of so many bytes goes from it to another one. Set before ranks
// run.
static void (*at_trial)(const struct rondo_rank *self, uint32_t to, uint64_t bytes);

// The number of connections that this rank chooses, as an index; -1: by the rates of trials.
static __thread int chosen = -1;

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): the linker's names
int __real_rondo_meeting_call(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, struct rondo_ticket *ticket);
int __wrap_rondo_meeting_call(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, struct rondo_ticket *ticket);
int __wrap_rondo_meeting_call(const struct rondo_meeting *m, struct rondo_comm_end *end,
                              const struct rondo_collective_desc *what,
                              const struct rondo_run_args *args, struct rondo_ticket *ticket) {
  if (at_trial && what->kind == RONDO_SEND_RECV && args->send && what->count >= TRIAL_BYTES)
    at_trial(m->rank, m->voters.ranks[what->peer], what->count);
  return __real_rondo_meeting_call(m, end, what, args, ticket);
}
bool __real_rondo_spread_is_due(uint64_t rate);
bool __wrap_rondo_spread_is_due(uint64_t rate);
bool __wrap_rondo_spread_is_due(uint64_t rate) {
  return chosen >= 0 || __real_rondo_spread_is_due(rate);
}
uint32_t __real_rondo_spread_choose(const uint64_t *rates);
uint32_t __wrap_rondo_spread_choose(const uint64_t *rates);
uint32_t __wrap_rondo_spread_choose(const uint64_t *rates) {
  return chosen >= 0 ? (uint32_t)chosen : __real_rondo_spread_choose(rates);
}
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)

// What a rank has learned.
struct learned {
  uint32_t ranks[MOST];
  uint64_t rates[MOST * MOST];
  uint32_t endpoints[MOST * MOST];
  struct rondo_links links;
  char why[RONDO_REASON_BYTES];
  int status;
};

static void links_learn(struct rondo_context ctx, struct learned *l, uint32_t capacity,
                        int64_t timeout_ns) {
  l->links = (struct rondo_links)RONDO_LINKS_INIT;
  l->links.ranks = l->ranks;
  l->links.rates = l->rates;
  l->links.endpoints = l->endpoints;
  l->links.capacity = capacity;
  l->status = rondo_links_measure(ctx, &l->links, timeout_ns, l->why);
}

// The order has each rank once, the lowest first, and the rates fit to it.
static int is_whole(const struct learned *l, uint32_t count) {
  uint32_t seen = 0;
  if (l->status != RONDO_SUCCESS || l->links.count != count || *l->why || l->ranks[0] != 0)
    return 0;
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < count; i++) {
    seen |= 1u << l->ranks[i];
    uint64_t next = l->rates[i * count + (i + 1) % count];
    least = next < least ? next : least;
    for (uint32_t j = 0; j < count; j++)
      if ((i == j) != (l->rates[i * count + j] == 0))
        return 0;
  }
  return seen == (1u << count) - 1 && (count == 1 || least == l->links.ring_rate);
}

static int is_same(const struct learned *a, const struct learned *b) {
  return !memcmp(a->ranks, b->ranks, sizeof a->ranks) &&
         !memcmp(a->rates, b->rates, sizeof a->rates) && a->links.ring_rate == b->links.ring_rate &&
         a->links.plain_ring_rate == b->links.plain_ring_rate;
}

// --------------------------------------------------------------------- threads ---

struct crew {
  struct rondo_context ctx[MOST];
  struct learned learned[MOST];
  uint32_t capacity;
  int64_t timeout_ns;
  uint32_t ranks;
};

struct sailor {
  struct crew *crew;
  uint32_t rank;
};

static void *sailor_main(void *arg) {
  const struct sailor *s = arg;
  links_learn(s->crew->ctx[s->rank], &s->crew->learned[s->rank], s->crew->capacity,
              s->crew->timeout_ns);
  return NULL;
}

static struct crew *crew_open(uint32_t ranks) {
  struct crew *c = calloc(1, sizeof *c);
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  assert_non_null(c);
  c->ranks = cfg.rank_count = ranks;
  c->capacity = MOST;
  c->timeout_ns = LONG_NS;
  assert_int_equal(rondo_unique_id_create(&cfg.id), RONDO_SUCCESS);
  for (cfg.rank = 0; cfg.rank < ranks; cfg.rank++)
    assert_int_equal(rondo_init(&c->ctx[cfg.rank], &cfg), RONDO_SUCCESS);
  return c;
}

static void crew_measure(struct crew *c) {
  pthread_t threads[MOST];
  struct sailor sailors[MOST];
  for (uint32_t i = 0; i < c->ranks; i++) {
    sailors[i] = (struct sailor){c, i};
    assert_int_equal(pthread_create(&threads[i], NULL, sailor_main, &sailors[i]), 0);
  }
  for (uint32_t i = 0; i < c->ranks; i++)
    pthread_join(threads[i], NULL);
}

static void crew_close(struct crew *c) {
  for (uint32_t i = 0; i < c->ranks; i++)
    assert_int_equal(rondo_destroy(c->ctx[i], RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  free(c);
}

static void all_ranks_learn_the_same(void **state) {
  (void)state;
  for (uint32_t ranks = 1; ranks <= 5; ranks++) {
    struct crew *c = crew_open(ranks);
    for (uint32_t again = 0; again < 2; again++) {
      crew_measure(c);
      for (uint32_t i = 0; i < ranks; i++) {
        assert_true(is_whole(&c->learned[i], ranks));
        assert_true(is_same(&c->learned[i], &c->learned[0]));
      }
    }
    crew_close(c);
  }
}

static void pairs_are_slow(const struct rondo_rank *self, uint32_t to, uint64_t bytes) {
  (void)bytes;
  const struct timespec slow = {0, SLOW_NS};
  if (self->cfg.rank / 2 == to / 2)
    nanosleep(&slow, NULL);
}

// 0 and 1, and 2 and 3: a ring must not have these links.
static void a_ring_avoids_slow_links(void **state) {
  (void)state;
  struct crew *c = crew_open(4);
  at_trial = pairs_are_slow;
  crew_measure(c);
  at_trial = NULL;
  const struct learned *l = &c->learned[3];
  assert_true(is_whole(l, 4));
  for (uint32_t i = 0; i < 4; i++)
    assert_int_not_equal(l->ranks[i] / 2, l->ranks[(i + 1) % 4] / 2);
  const uint64_t slow_rate = TRIAL_BYTES * UINT64_C(1000000000) / SLOW_NS;
  assert_true(l->links.plain_ring_rate <= slow_rate);
  assert_true(l->links.ring_rate > slow_rate);
  crew_close(c);
}

static void too_little_room_is_said(void **state) {
  (void)state;
  struct crew *c = crew_open(3);
  c->capacity = 2;
  crew_measure(c);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(c->learned[i].status, RONDO_ERR_FULL);
    assert_int_equal(c->learned[i].links.count, 3);
  }
  c->capacity = 3;
  crew_measure(c);
  assert_true(is_whole(&c->learned[0], 3));
  crew_close(c);
}

static void a_rank_that_does_not_call_is_named(void **state) {
  (void)state;
  struct crew *c = crew_open(2);
  struct learned *l = &c->learned[0];
  links_learn(c->ctx[0], l, MOST, 100000000);
  assert_int_equal(l->status, RONDO_ERR_TIMEOUT);
  assert_non_null(strstr(l->why, "rank 1"));
  links_learn(c->ctx[1], &c->learned[1], MOST, LONG_NS);
  assert_int_equal(c->learned[1].status, RONDO_ERR_ABORTED);
  crew_measure(c);
  assert_true(is_whole(l, 2));
  crew_close(c);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  struct crew *c = crew_open(1);
  struct rondo_links links = RONDO_LINKS_INIT;
  char why[RONDO_REASON_BYTES];
  assert_int_equal(rondo_links_measure(c->ctx[0], NULL, LONG_NS, why), RONDO_ERR_INVALID);
  links.capacity = 1;
  assert_int_equal(rondo_links_measure(c->ctx[0], &links, LONG_NS, why), RONDO_ERR_INVALID);
  assert_string_equal(why, "`ranks` is null");
  links.version++;
  assert_int_equal(rondo_links_measure(c->ctx[0], &links, LONG_NS, NULL), RONDO_ERR_INVALID);
  crew_close(c);
}

// ------------------------------------------------------------------- processes ---

static void measuring_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct learned l;
  links_learn(ctx, &l, MOST, LONG_NS);
  RONDO_MEMBER_TRUE(is_whole(&l, f->ranks));
  for (uint32_t i = 0; i < f->ranks; i++) // all have the same order
    rondo_family_add(&f->words[i * MOST + l.ranks[i]]);
  rondo_family_close(ctx);
}

static void processes_learn_the_same(void **state) {
  (void)state;
  for (uint32_t ranks = 2; ranks <= 5; ranks += 3) {
    struct rondo_family *f = rondo_family_create(ranks, ranks);
    rondo_family_run(f, measuring_member, NULL);
    for (uint32_t i = 0; i < ranks; i++) {
      uint32_t agreed = 0;
      for (uint32_t rank = 0; rank < ranks; rank++)
        agreed += f->words[i * MOST + rank] == ranks;
      assert_int_equal(agreed, 1);
    }
    rondo_family_destroy(f);
  }
}

static struct rondo_family *dying; // whose rank 2 stops at its first trial, until it is killed

static void stop_at_trial(const struct rondo_rank *self, uint32_t to, uint64_t bytes) {
  (void)to, (void)bytes;
  if (self->cfg.rank != 2)
    return;
  rondo_family_add(&dying->words[0]);
  rondo_family_await(&dying->words[1], 1);
}

static void kill_the_last(struct rondo_family *f) {
  rondo_family_await(&f->words[0], 1);
  kill(f->pids[2], SIGKILL);
}

// Those that are left get an error, and then measure without it.
static void surviving_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct learned l;
  links_learn(ctx, &l, MOST, LONG_NS);
  RONDO_MEMBER_STATUS(l.status, RONDO_ERR_PEER);
  links_learn(ctx, &l, MOST, LONG_NS);
  RONDO_MEMBER_TRUE(is_whole(&l, 2));
  rondo_family_close(ctx);
}

static void a_death_ends_the_call_and_not_the_next_one(void **state) {
  (void)state;
  dying = rondo_family_create(3, 3);
  at_trial = stop_at_trial;
  rondo_family_run(dying, surviving_member, kill_the_last);
  at_trial = NULL;
  rondo_family_destroy(dying);
}

// ----------------------------------------------------------------- connections ---

static uint32_t spread_to(const struct rondo_rank *self, uint32_t to) {
  pthread_mutex_lock(&self->job->lock);
  uint32_t endpoints = rondo_processes_spread(self->job, &self->member, to, 0);
  pthread_mutex_unlock(&self->job->lock);
  return endpoints;
}

static void expect_sums(struct rondo_context ctx, const struct rondo_family *f, uint64_t id) {
  static __thread int32_t values[300000];
  struct rondo_collective_desc d = rondo_all_reduce(id, 300000, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  for (int32_t run = 0; run < 5; run++) {
    for (int32_t i = 0; i < 300000; i++)
      values[i] = run + i;
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    for (int32_t i = 0; i < 300000; i++)
      RONDO_MEMBER_TRUE(values[i] == (int32_t)f->ranks * (run + i));
  }
}

// Two ranks in each of two processes. The second measurement finds another number.
static void spreading_member(struct rondo_family *f, uint32_t rank) {
  static const uint32_t found[2] = {4, 1}; // both are tried in any case
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_rank *self;
  struct learned l;
  for (uint32_t round = 0; round < 2; round++) {
    chosen = round ? 0 : 2;
    links_learn(ctx, &l, MOST, LONG_NS);
    RONDO_MEMBER_TRUE(is_whole(&l, 4));
    for (uint32_t i = 0; i < 4; i++)
      for (uint32_t j = 0; j < 4; j++)
        RONDO_MEMBER_TRUE(l.endpoints[i * 4 + j] ==
                          (l.ranks[i] / 2 == l.ranks[j] / 2 ? 0 : found[round]));
    RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &self), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(spread_to(self, (rank + 2) % 4) == found[round]);
    rondo_rank_unpin(ctx);
    expect_sums(ctx, f, round);
  }
  rondo_family_close(ctx);
}

static void the_chosen_number_of_connections_is_used(void **state) {
  (void)state;
#ifndef RONDO_HAVE_UCX
  skip();
#endif
  struct rondo_family *f = rondo_family_create(2, 4);
  f->cfg.transport = RONDO_TRANSPORT_UCX;
  rondo_family_run(f, spreading_member, NULL);
  rondo_family_destroy(f);
}

static void the_fewest_connections_within_a_tenth_are_chosen(void **state) {
  (void)state;
  const struct {
    uint64_t rates[RONDO_SPREADS];
    bool goes_on;
    uint32_t chosen;
  } cases[] = {{{100, 179, 198, 199, 200}, true, 2},
               {{100, 178, 198, 0, 0}, true, 2},
               {{100, 0, 111, 0, 0}, false, 0},
               {{100, 0, 112, 0, 0}, true, 2},
               {{100, 0, 90, 0, 0}, false, 0},
               {{100, 0, 150, 160, 300}, true, 4},
               {{0}, false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(rondo_spread_goes_on(cases[i].rates), cases[i].goes_on);
    assert_int_equal(__real_rondo_spread_choose(cases[i].rates), cases[i].chosen);
  }
  assert_true(__real_rondo_spread_is_due(1000000));
  assert_false(__real_rondo_spread_is_due(500000));
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      // Processes first: threads do not survive a fork.
      RONDO_NAMED_TEST("links", processes_learn_the_same),
      RONDO_NAMED_TEST("links", a_death_ends_the_call_and_not_the_next_one),
      RONDO_NAMED_TEST("links", the_chosen_number_of_connections_is_used),
      RONDO_NAMED_TEST("links", the_fewest_connections_within_a_tenth_are_chosen),
      RONDO_NAMED_TEST("links", all_ranks_learn_the_same),
      RONDO_NAMED_TEST("links", a_ring_avoids_slow_links),
      RONDO_NAMED_TEST("links", too_little_room_is_said),
      RONDO_NAMED_TEST("links", a_rank_that_does_not_call_is_named),
      RONDO_NAMED_TEST("links", bad_arguments_are_refused),
  };
  cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
  return cmocka_run_group_tests_name("links", tests, NULL, NULL);
}
