// The ready bytes, which say which blocks have work: which block gets which byte, and which blocks
// are stepped.
#include <string.h>

#include "daemon/host/host.h"
#include "daemon/host/host_ready.h"
#include "tests/support/named.h"

#define BLOCKS 200u   // more than three groups hold
#define PLACES 65536u // for all blocks of a process
#define HINT 7u       // some place

static struct rondo_host_block blocks[BLOCKS];
static uint32_t visits[BLOCKS]; // of each block
static int result_of_visit;

static bool visit(struct rondo_host_block *block, void *arg) {
  assert_ptr_equal(arg, visits);
  visits[block - blocks]++;
  return result_of_visit;
}

// Returns how many blocks are visited.
static uint32_t visit_all_that(int all) {
  uint32_t count = 0;
  memset(visits, 0, sizeof visits);
  (void)rondo_host_ready_visit(visit, visits, all);
  for (uint32_t i = 0; i < BLOCKS; i++)
    count += visits[i];
  return count;
}

static void add(uint32_t block, uint32_t hint) {
  assert_int_equal(rondo_host_ready_add(&blocks[block], hint), RONDO_SUCCESS);
  assert_non_null(blocks[block].ready);
}

static void remove_blocks(uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    rondo_host_ready_remove(&blocks[i]);
}

static void gives_the_byte_of_the_hint_if_that_is_free(void **state) {
  (void)state;
  add(0, HINT);
  add(1, HINT + 1);
  assert_int_equal((uintptr_t)blocks[0].ready % RONDO_HOST_GROUP_BLOCKS, HINT);
  assert_ptr_equal(blocks[1].ready, blocks[0].ready + 1);
  add(2, PLACES + HINT + 2); // hints go round
  assert_ptr_equal(blocks[2].ready, blocks[0].ready + 2);
  remove_blocks(3);
}

static void gives_another_byte_if_that_of_the_hint_is_taken(void **state) {
  (void)state;
  add(0, HINT);
  uint8_t *first = blocks[0].ready;
  add(1, HINT);
  assert_ptr_not_equal(blocks[1].ready, first);
  assert_ptr_equal(blocks[0].ready, first);
  rondo_host_ready_remove(&blocks[0]);
  add(2, HINT);
  assert_ptr_equal(blocks[2].ready, first); // it is free again
  remove_blocks(3);
}

static void gives_each_of_many_blocks_with_one_hint_its_own_byte(void **state) {
  (void)state;
  for (uint32_t i = 0; i < BLOCKS; i++)
    add(i, HINT);
  for (uint32_t i = 0; i < BLOCKS; i++)
    rondo_host_ready_clear(blocks[i].ready);
  for (uint32_t i = 0; i < BLOCKS; i++) {
    rondo_host_ready_set(blocks[i].ready);
    assert_int_equal(visit_all_that(0), 1);
    assert_int_equal(visits[i], 1);
    rondo_host_ready_clear(blocks[i].ready);
  }
  remove_blocks(BLOCKS);
}

static void visits_blocks_whose_byte_is_set_or_all(void **state) {
  (void)state;
  for (uint32_t i = 0; i < BLOCKS; i++)
    add(i, i);
  for (uint32_t i = 0; i < BLOCKS; i++)
    if (i % 3)
      rondo_host_ready_clear(blocks[i].ready);
  assert_int_equal(visit_all_that(0), (BLOCKS + 2) / 3);
  for (uint32_t i = 0; i < BLOCKS; i++)
    assert_int_equal(visits[i], i % 3 == 0);
  assert_int_equal(visit_all_that(1), BLOCKS);
  for (uint32_t i = 0; i < BLOCKS; i++)
    assert_int_equal(visits[i], 1);
  remove_blocks(BLOCKS);
  assert_int_equal(visit_all_that(1), 0);
}

static void says_whether_a_visit_did(void **state) {
  (void)state;
  add(0, HINT);
  result_of_visit = 1;
  assert_int_equal(rondo_host_ready_visit(visit, visits, 0), 1);
  result_of_visit = 0;
  assert_int_equal(rondo_host_ready_visit(visit, visits, 0), 0);
  rondo_host_ready_clear(blocks[0].ready);
  result_of_visit = 1;
  assert_int_equal(rondo_host_ready_visit(visit, visits, 0), 0);
  result_of_visit = 0;
  remove_blocks(1);
}

static void sets_the_byte_of_a_block_that_is_added(void **state) {
  (void)state;
  add(0, HINT);
  assert_int_equal(*blocks[0].ready, 1);
  rondo_host_ready_clear(blocks[0].ready);
  rondo_host_ready_remove(&blocks[0]);
  add(1, HINT); // the byte has been used before
  assert_int_equal(*blocks[1].ready, 1);
  assert_int_equal(visit_all_that(0), 1);
  remove_blocks(2);
}

static void keeps_the_byte_of_a_block_that_is_removed(void **state) {
  (void)state;
  add(0, HINT);
  add(1, HINT + 1);
  uint8_t *byte = blocks[0].ready;
  rondo_host_ready_remove(&blocks[0]);
  assert_ptr_equal(blocks[0].ready, byte);
  rondo_host_ready_set(byte); // by a peer that has not heard of it
  assert_int_equal(*byte, 1);
  assert_int_equal(visit_all_that(0), 1);
  assert_int_equal(visits[0], 0);
  assert_int_equal(visit_all_that(1), 1);
  assert_int_equal(visits[0], 0);
  remove_blocks(2);
}

static void leaves_blocks_alone_that_are_not_attached(void **state) {
  (void)state;
  blocks[0].ready = NULL;
  rondo_host_ready_remove(&blocks[0]);
  rondo_host_ready_set(blocks[0].ready);
  rondo_host_ready_clear(blocks[0].ready);
  assert_null(blocks[0].ready);
}

// One block takes all places: nothing forbids it.
static void is_full_when_all_places_are_taken(void **state) {
  (void)state;
  blocks[1].ready = NULL;
  for (uint32_t i = 0; i < PLACES; i++)
    add(0, i);
  assert_int_equal(rondo_host_ready_add(&blocks[1], HINT), RONDO_ERR_FULL);
  assert_null(blocks[1].ready);
  remove_blocks(1);
  assert_int_equal(visit_all_that(1), 0);
  add(1, HINT);
  remove_blocks(2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("ready", gives_the_byte_of_the_hint_if_that_is_free),
      RONDO_NAMED_TEST("ready", gives_another_byte_if_that_of_the_hint_is_taken),
      RONDO_NAMED_TEST("ready", gives_each_of_many_blocks_with_one_hint_its_own_byte),
      RONDO_NAMED_TEST("ready", visits_blocks_whose_byte_is_set_or_all),
      RONDO_NAMED_TEST("ready", says_whether_a_visit_did),
      RONDO_NAMED_TEST("ready", sets_the_byte_of_a_block_that_is_added),
      RONDO_NAMED_TEST("ready", keeps_the_byte_of_a_block_that_is_removed),
      RONDO_NAMED_TEST("ready", leaves_blocks_alone_that_are_not_attached),
      RONDO_NAMED_TEST("ready", is_full_when_all_places_are_taken),
  };
  return cmocka_run_group_tests_name("ready", tests, NULL, NULL);
}
