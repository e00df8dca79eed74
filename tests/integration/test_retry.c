// Collectives with RONDO_ON_LOSS_RETRY: processes are killed in the middle of many runs, which all
// ranks have submitted in orders of their own. Those that are left take the runs up again. Each
// element of each result is the sum of the members that rondo_run_members names, and these are the
// same on all ranks that are left.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rondo/elastic.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define RANKS 4u
#define COLLS 64u
#define ROUNDS 40u
#define MOST_COUNT 3000u
#define BUFFERS (COLLS * MOST_COUNT)

// The words of a family.
enum { ROUND = 0, READY = 1, DONE = 2, SEEN = 3 };

// What the ranks have found, in memory that all processes share: the members of each run, a bit a
// rank; 0: the run has not ended there.
static uint8_t (*members_of)[ROUNDS][COLLS];

// The ranks that are killed, in this order, and in which round of rank `watched`.
struct plan {
  uint32_t victims[2], rounds[2], count, watched;
};
static struct plan plan;

static uint32_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t *state) {
  for (uint32_t i = 0; i < count; i++)
    order[i] = i;
  for (uint32_t i = count; i > 1; i--) {
    uint32_t j = next_random(state) % i;
    uint32_t kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

static uint64_t value_of(uint32_t rank, uint32_t coll, uint32_t round, uint32_t i) {
  return ((uint64_t)(coll + 3 * round + 5 * i) % 199 + 1) << (16 * rank);
}

static uint32_t count_of(uint32_t coll) { return 1 + coll * 911 % MOST_COUNT; }

// ------------------------------------------------------------------ a member's part ---

struct member {
  struct rondo_context ctx;
  struct rondo_collective colls[COLLS];
  uint32_t rank;
  uint64_t random;
  uint64_t *send, *recv;
};

static bool is_in_place(uint32_t coll, uint32_t round) { return (coll + round) % 2 == 0; }

static void member_submit(struct member *m, uint32_t coll, uint32_t round) {
  uint64_t *send = m->send + (size_t)coll * MOST_COUNT;
  uint64_t *recv = is_in_place(coll, round) ? send : m->recv + (size_t)coll * MOST_COUNT;
  for (uint32_t i = 0; i < count_of(coll); i++)
    send[i] = value_of(m->rank, coll, round, i);
  if (recv != send)
    memset(recv, 0xee, count_of(coll) * sizeof *recv);
  RONDO_MEMBER_STATUS(rondo_run(m->ctx, m->colls[coll], send, recv, NULL, NULL), RONDO_SUCCESS);
}

static void member_check(struct member *m, uint32_t coll, uint32_t round) {
  uint32_t ranks[RANKS];
  uint32_t count = 0;
  uint8_t bits = 0;
  const uint64_t *send = m->send + (size_t)coll * MOST_COUNT;
  const uint64_t *got = is_in_place(coll, round) ? send : m->recv + (size_t)coll * MOST_COUNT;
  RONDO_MEMBER_STATUS(rondo_wait(m->ctx, m->colls[coll], round + 1, LONG_NS), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run_members(m->ctx, m->colls[coll], round + 1, ranks, RANKS, &count),
                      RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count >= 1 && count <= RANKS);
  for (uint32_t i = 0; i < count; i++)
    bits |= (uint8_t)(1u << ranks[i]);
  RONDO_MEMBER_TRUE(bits >> m->rank & 1);
  for (uint32_t i = 0; i < count_of(coll); i++) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < count; k++)
      sum += value_of(ranks[k], coll, round, i);
    RONDO_MEMBER_TRUE(got[i] == sum);
    RONDO_MEMBER_TRUE(send == got || send[i] == value_of(m->rank, coll, round, i));
  }
  members_of[m->rank][round][coll] = bits;
}

static void member_run(struct rondo_family *f, uint32_t rank) {
  struct member m = {.ctx = rondo_family_open(f, 0, rank, RANKS),
                     .rank = rank,
                     .random = f->seed * 977 + rank,
                     .send = calloc(BUFFERS, sizeof(uint64_t)),
                     .recv = calloc(BUFFERS, sizeof(uint64_t))};
  uint32_t order[COLLS];
  RONDO_MEMBER_TRUE(m.send && m.recv);
  shuffle(order, COLLS, &m.random);
  for (uint32_t k = 0; k < COLLS; k++) {
    struct rondo_collective_desc d =
        rondo_all_reduce(order[k], count_of(order[k]), RONDO_UINT64, RONDO_SUM);
    d.on_loss = RONDO_ON_LOSS_RETRY;
    RONDO_MEMBER_STATUS(rondo_register(m.ctx, &d, &m.colls[order[k]]), RONDO_SUCCESS);
  }
  for (uint32_t round = 0; round < ROUNDS; round++) {
    shuffle(order, COLLS, &m.random);
    for (uint32_t k = 0; k < COLLS; k++)
      member_submit(&m, order[k], round);
    if (rank == plan.watched)
      rondo_family_add(&f->words[ROUND]);
    shuffle(order, COLLS, &m.random);
    for (uint32_t k = 0; k < COLLS; k++)
      member_check(&m, order[k], round);
  }
  rondo_family_close(m.ctx);
  free(m.send);
  free(m.recv);
}

static void kill_in_the_middle(struct rondo_family *f) {
  uint64_t random = f->seed;
  for (uint32_t k = 0; k < plan.count; k++) {
    rondo_family_await(&f->words[ROUND], plan.rounds[k]);
    const struct timespec pause = {0, next_random(&random) % 2000000};
    nanosleep(&pause, NULL);
    kill(f->pids[plan.victims[k]], SIGKILL);
  }
}

// ------------------------------------------------------------------------ the tests ---

static bool is_victim(uint32_t rank) {
  for (uint32_t k = 0; k < plan.count; k++)
    if (plan.victims[k] == rank)
      return true;
  return false;
}

// All ranks that are left name the same members for each run.
static void check_members(void) {
  uint8_t last = 0;
  for (uint32_t round = 0; round < ROUNDS; round++)
    for (uint32_t coll = 0; coll < COLLS; coll++)
      for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (is_victim(rank))
          continue;
        last = members_of[rank][round][coll];
        assert_int_equal(last, members_of[plan.watched][round][coll]);
      }
  assert_int_equal(__builtin_popcount(last), RANKS - plan.count);
}

static void survive(struct plan p, uint64_t seed) {
  struct rondo_family *f = rondo_family_create(RANKS, RANKS);
  plan = p;
  f->seed = seed;
  memset(members_of, 0, RANKS * sizeof *members_of);
  rondo_family_run(f, member_run, plan.count ? kill_in_the_middle : NULL);
  rondo_family_destroy(f);
  check_members();
}

static void without_a_loss_all_ranks_take_part(void **state) {
  (void)state;
  survive((struct plan){.count = 0}, 1);
}

static void a_death_in_the_middle_of_disordered_runs(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++)
    survive((struct plan){{3}, {10}, 1, 0}, seed);
}

static void the_process_of_rank_0_dies(void **state) {
  (void)state;
  survive((struct plan){{0}, {10}, 1, 1}, 4);
}

static void a_second_death_in_the_middle_of_the_retry(void **state) {
  (void)state;
  for (uint64_t seed = 5; seed <= 8; seed++)
    survive((struct plan){{2, 3}, {10, 10}, 2, 0}, seed);
}

static void two_deaths_in_a_row(void **state) {
  (void)state;
  survive((struct plan){{1, 3}, {10, 25}, 2, 2}, 9);
}

int main(void) {
  members_of = mmap(NULL, RANKS * sizeof *members_of, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (members_of == MAP_FAILED)
    return 1;
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("retry", without_a_loss_all_ranks_take_part),
      RONDO_NAMED_TEST("retry", a_death_in_the_middle_of_disordered_runs),
      RONDO_NAMED_TEST("retry", the_process_of_rank_0_dies),
      RONDO_NAMED_TEST("retry", a_second_death_in_the_middle_of_the_retry),
      RONDO_NAMED_TEST("retry", two_deaths_in_a_row),
  };
  return cmocka_run_group_tests_name("retry", tests, NULL, NULL);
}
