// When a launch that has left its block has to own it again: while a stream waits for a run. When a
// block stays because others of its daemon move.
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

#define PERIOD_NS 8000u

static void blocks_tell_each_other_that_they_move(void **state) {
  (void)state;
  struct rondo_cuda_launch_pace pace = {0, 0, 0, 0};
  struct rondo_block *b = &fast.block;
  launch.homes = (uint64_t)(uintptr_t)&home;
  fast.daemon.quit_period_ns = PERIOD_NS;
  b->daemon = &fast.daemon;
  rondo_cuda_launch_tell(&launch, &pace, b, 1000);
  assert_int_equal(home.moved_ns, 1000);
  rondo_cuda_launch_tell(&launch, &pace, b, 1000 + PERIOD_NS / RONDO_CUDA_TOLD_A_PERIOD - 1);
  assert_int_equal(home.moved_ns, 1000); // not so soon again
  rondo_cuda_launch_tell(&launch, &pace, b, 3000);
  assert_int_equal(home.moved_ns, 3000);
  b->last_progress_ns = 2000;
  rondo_cuda_launch_keep(&launch, b, 2000 + PERIOD_NS / 2 - 1);
  assert_int_equal(b->kept_ns, 0); // it is not about to leave
  rondo_cuda_launch_keep(&launch, b, 2000 + PERIOD_NS / 2);
  assert_int_equal(b->kept_ns, 3000);
}

static void blocks_leave_alone_where_the_device_has_no_room_for_all(void **state) {
  (void)state;
  struct rondo_cuda_launch_pace pace = {0, 0, 0, 0};
  struct rondo_block *b = &fast.block;
  launch.homes = (uint64_t)(uintptr_t)&home;
  launch.stay_ns = 0;
  fast.daemon.quit_period_ns = PERIOD_NS;
  b->daemon = &fast.daemon;
  rondo_cuda_launch_tell(&launch, &pace, b, 5000);
  assert_int_equal(home.moved_ns, 0);
  home.moved_ns = 5000;
  rondo_cuda_launch_keep(&launch, b, 20000);
  assert_int_equal(b->kept_ns, 0);
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
      TEST(blocks_tell_each_other_that_they_move),
      TEST(blocks_leave_alone_where_the_device_has_no_room_for_all),
  };
  return cmocka_run_group_tests_name("cuda_launch", tests, NULL, NULL);
}
