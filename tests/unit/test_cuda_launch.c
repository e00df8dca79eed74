// When a launch that has left its block has to own it again: while a stream waits for a run.
#include <string.h>

#include "daemon/cuda/cuda_launch_core.h"
#include "tests/support/named.h"

#define STAY_NS 1000u

static uint64_t now_ns;
static uint32_t exit_word, held_word;
static struct rondo_stream_words words[RONDO_CUDA_TIES];
static struct rondo_cuda_block_home home;
static struct rondo_cuda_fast fast;
static struct rondo_cuda_launch launch;

uint64_t rondo_cuda_launch_now_ns(void) { return now_ns; }

static int begin(void **state) {
  (void)state;
  memset(words, 0, sizeof words);
  memset(&home, 0, sizeof home);
  memset(&fast, 0, sizeof fast);
  exit_word = held_word = 0;
  fast.daemon.exit = &exit_word;
  now_ns = 500;
  launch = (struct rondo_cuda_launch){.held = (uint64_t)(uintptr_t)&held_word, .stay_ns = STAY_NS};
  return 0;
}

// A launch of tie `tie` for run `ticket` begins.
static void store_tie(uint32_t tie, uint64_t ticket) {
  struct rondo_cuda_launch l = launch;
  l.words = (uint64_t)(uintptr_t)&words[tie];
  l.ticket = ticket;
  l.tie = tie;
  rondo_cuda_launch_store_tie(&l, &home);
}

static bool stays(void) { return rondo_cuda_launch_must_stay(&launch, &home, &fast, 500); }

static void a_launch_stays_until_the_run_of_every_tie_has_ended(void **state) {
  (void)state;
  assert_false(stays());
  for (uint32_t i = 0; i < RONDO_CUDA_TIES; i++)
    store_tie(i, 7);
  for (uint32_t i = 0; i < RONDO_CUDA_TIES; i++) {
    words[i].completion = 6;
    assert_true(stays());
    words[i].completion = 7;
  }
  assert_false(stays());
  store_tie(2, 8);
  assert_true(stays());
  words[2].completion = 8;
  assert_false(stays());
}

static void a_launch_stays_while_its_block_executes_a_tied_run(void **state) {
  (void)state;
  fast.block.tied = 1;
  assert_true(stays());
  fast.block.tied = 0;
  assert_false(stays());
}

// The launch for that run follows, and cannot begin before this one has ended.
static void a_launch_for_one_run_does_not_stay_for_a_later_one(void **state) {
  (void)state;
  store_tie(0, 7);
  launch.words = (uint64_t)(uintptr_t)&words[0];
  fast.block.tied = 1;
  assert_true(stays());
  words[0].completion = 7;
  assert_false(stays());
}

static void a_launch_without_a_run_stores_no_tie(void **state) {
  (void)state;
  rondo_cuda_launch_store_tie(&launch, &home);
  for (uint32_t i = 0; i < RONDO_CUDA_TIES; i++)
    assert_int_equal(home.ties[i].ticket, 0);
}

static void a_launch_does_not_stay_when_it_must_leave(void **state) {
  (void)state;
  store_tie(0, 1);
  assert_true(stays());
  exit_word = 1;
  assert_false(stays());
  exit_word = 0;
  held_word = 1;
  assert_false(stays());
  held_word = 0;
  now_ns += STAY_NS - 1;
  assert_true(stays());
  now_ns++;
  assert_false(stays());
}

#define TEST(function)                                                                             \
  { "cuda_launch." #function, function, begin, NULL, NULL }

int main(int argc, char **argv) {
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      TEST(a_launch_stays_until_the_run_of_every_tie_has_ended),
      TEST(a_launch_stays_while_its_block_executes_a_tied_run),
      TEST(a_launch_for_one_run_does_not_stay_for_a_later_one),
      TEST(a_launch_without_a_run_stores_no_tie),
      TEST(a_launch_does_not_stay_when_it_must_leave),
  };
  return cmocka_run_group_tests_name("cuda_launch", tests, NULL, NULL);
}
