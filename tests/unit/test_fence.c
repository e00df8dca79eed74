// The fence in two halves: two threads each write a word and then read the other's. At least one
// must see what the other wrote, whichever half of the fence it executes in between.
#include "base/fence.h"

#include <pthread.h>
#include <sched.h>

#include "tests/support/load.h"
#include "tests/support/named.h"

struct side {
  uint32_t word;
  uint8_t line[RONDO_LINE_BYTES - 4];
};

static struct side sides[2];
static struct side turns[2]; // how often each has been through
static uint32_t seen[2];
static uint32_t rounds;

static void meet(uint32_t side, uint32_t round) {
  rondo_store_release_u32(&turns[side].word, round);
  for (uint32_t looks = 0; rondo_load_acquire_u32(&turns[1 - side].word) < round; looks++)
    if (looks > 1000)
      sched_yield();
}

static void cross(uint32_t side, uint32_t round) {
  rondo_store_relaxed_u32(&sides[side].word, round);
  if (side == 0)
    rondo_fence_light();
  else
    rondo_fence_heavy();
  seen[side] = rondo_load_relaxed_u32(&sides[1 - side].word);
}

static void *other_side(void *arg) {
  (void)arg;
  for (uint32_t i = 1; i <= rounds; i++) {
    meet(1, 2 * i - 1);
    cross(1, i);
    meet(1, 2 * i);
  }
  return NULL;
}

// Rounds in which neither saw the other.
static uint32_t missed(void) {
  pthread_t thread;
  uint32_t count = 0;
  for (int s = 0; s < 2; s++)
    sides[s].word = turns[s].word = 0;
  assert_int_equal(pthread_create(&thread, NULL, other_side, NULL), 0);
  for (uint32_t i = 1; i <= rounds; i++) {
    meet(0, 2 * i - 1);
    cross(0, i);
    meet(0, 2 * i);
    count += seen[0] != i && seen[1] != i;
  }
  pthread_join(thread, NULL);
  return count;
}

static void at_least_one_sees_the_other(void **state) {
  (void)state;
  rounds = (uint32_t)rondo_test_load(100000, 10000);
  assert_int_equal(rondo_fence_is_lopsided, 0);
  assert_int_equal(missed(), 0); // each half is a fence itself
  rondo_fence_open();
  assert_int_equal(missed(), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("fence", at_least_one_sees_the_other),
  };
  return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
