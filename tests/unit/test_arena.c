// The arena: its pieces do not overlap and are found again, also through a second mapping.
#include "runtime/memory/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/platform.h"
#include "tests/support/job.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define RANGE_BYTES (UINT64_C(16) << 20)
#define PIECES 200u

static struct rondo_arena *arena;

static int set_up(void **state) {
  (void)state;
  return rondo_arena_create(RANGE_BYTES, 0, &arena);
}

static int tear_down(void **state) {
  (void)state;
  rondo_arena_destroy(arena);
  return 0;
}

static uint64_t file_bytes(void) {
  struct stat s;
  assert_int_equal(fstat(rondo_arena_fd(arena), &s), 0);
  return (uint64_t)s.st_blocks * 512;
}

static int is_filled(const unsigned char *piece, uint64_t bytes, unsigned char with) {
  for (uint64_t i = 0; i < bytes; i++)
    if (piece[i] != with)
      return 0;
  return 1;
}

static void pieces_are_zeroed_aligned_and_apart(void **state) {
  (void)state;
  uint64_t random = 1;
  unsigned char *pieces[PIECES] = {0};
  uint64_t bytes[PIECES] = {0};
  for (uint32_t i = 0; i < 20 * PIECES; i++) {
    uint32_t at = (uint32_t)(rondo_test_random(&random) % PIECES);
    if (pieces[at]) {
      assert_true(is_filled(pieces[at], bytes[at], (unsigned char)at));
      assert_int_equal(rondo_arena_free(arena, pieces[at]), 1);
    }
    bytes[at] = rondo_test_random(&random) % (i % 7 ? 5000 : 100000);
    pieces[at] = rondo_arena_alloc(arena, bytes[at]);
    assert_non_null(pieces[at]);
    assert_int_equal((uintptr_t)pieces[at] % RONDO_LINE_BYTES, 0);
    assert_true(bytes[at] < 4096 || (uintptr_t)pieces[at] % 4096 == 0);
    assert_true(is_filled(pieces[at], bytes[at], 0));
    memset(pieces[at], (int)at, bytes[at]);
  }
  for (uint32_t i = 0; i < PIECES; i++)
    assert_int_equal(rondo_arena_free(arena, pieces[i]), 1);
  // All of it is one piece again.
  void *all = rondo_arena_alloc(arena, RANGE_BYTES);
  assert_non_null(all);
  assert_null(rondo_arena_alloc(arena, 1));
  assert_int_equal(rondo_arena_free(arena, all), 1);
  assert_int_equal(file_bytes(), 0);
}

static void what_is_no_piece_is_left_alone(void **state) {
  (void)state;
  char other;
  char *piece = rondo_arena_alloc(arena, 10000);
  assert_int_equal(rondo_arena_free(arena, &other), 0);
  assert_int_equal(rondo_arena_free(arena, piece + 4096), 0);
  assert_int_equal(rondo_arena_free(arena, NULL), 1);
  assert_int_equal(rondo_arena_free(arena, piece), 1);
  assert_int_equal(rondo_arena_free(arena, piece), 0);
  assert_null(rondo_arena_alloc(arena, UINT64_MAX));
}

// A peer maps it once, at one distance; what is freed here can be read there all the same.
static void a_mapping_made_before_sees_what_comes_later(void **state) {
  (void)state;
  void *base = NULL;
  assert_int_equal(rondo_arena_map(rondo_arena_fd(arena), RANGE_BYTES, &base), RONDO_SUCCESS);
  char *piece = rondo_arena_alloc(arena, 1 << 20);
  char *theirs = (char *)base + (piece - (char *)rondo_arena_base(arena));
  memset(piece, 42, 1 << 20);
  assert_true(is_filled((unsigned char *)theirs, 1 << 20, 42));
  assert_int_equal(rondo_arena_free(arena, piece), 1);
  assert_true(is_filled((unsigned char *)theirs, 1 << 20, 0));
  rondo_arena_unmap(base, RANGE_BYTES);
}

static void it_cannot_shrink_under_a_reader(void **state) {
  (void)state;
  assert_int_not_equal(ftruncate(rondo_arena_fd(arena), 4096), 0);
}

static void what_cannot_be_an_arena_is_not_mapped(void **state) {
  (void)state;
  void *base = NULL;
  int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int ends[2];
  assert_int_equal(ftruncate(loose, 4096), 0);
  assert_int_equal(pipe(ends), 0);
  assert_int_equal(rondo_arena_map(loose, 4096, &base), RONDO_ERR_INVALID);
  assert_int_equal(rondo_arena_map(ends[0], 4096, &base), RONDO_ERR_INVALID);
  assert_int_equal(rondo_arena_map(-1, 4096, &base), RONDO_ERR_INVALID);
  assert_int_equal(rondo_arena_map(rondo_arena_fd(arena), 2 * RANGE_BYTES, &base),
                   RONDO_ERR_INVALID);
  close(loose);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("arena", pieces_are_zeroed_aligned_and_apart),
      RONDO_NAMED_TEST("arena", what_is_no_piece_is_left_alone),
      RONDO_NAMED_TEST("arena", a_mapping_made_before_sees_what_comes_later),
      RONDO_NAMED_TEST("arena", it_cannot_shrink_under_a_reader),
      RONDO_NAMED_TEST("arena", what_cannot_be_an_arena_is_not_mapped),
  };
  return cmocka_run_group_tests_name("arena", tests, set_up, tear_down);
}
