// The pool of connector memory: what is given back is used again, and a budget holds.
#include "runtime/memory/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "daemon/host/host.h"
#include "queues/connector_core.h"
#include "runtime/memory/arena.h"
#include "tests/support/named.h"

static struct rondo_pool pool;
static struct rondo_device *device;
static struct rondo_place at;
static struct rondo_pool_want want; // stays empty: the CPU accesses this memory

static int open_device(void **state) {
  (void)state;
  int status = rondo_host_driver.open(NULL, &device, NULL);
  at.device = device;
  at.kind = RONDO_MEMORY_DEVICE;
  return status;
}

static void *take(uint64_t bytes, uint64_t *got_bytes) {
  void *piece = rondo_pool_alloc(&pool, at, bytes, got_bytes, &want);
  assert_non_null(piece);
  assert_true(*got_bytes >= bytes);
  return piece;
}

static void a_piece_given_back_is_used_again(void **state) {
  (void)state;
  uint64_t got_bytes;
  rondo_pool_init(&pool, 1u << 20, device, NULL);
  void *first = take(1000, &got_bytes);
  memset(first, 0xff, got_bytes);
  rondo_pool_free(&pool, at, first, got_bytes);
  assert_int_equal(pool.used_bytes, 0);
  void *again = take(900, &got_bytes);
  assert_ptr_equal(again, first);
  rondo_pool_free(&pool, at, again, got_bytes);
  rondo_pool_fini(&pool);
}

static void pieces_lie_on_their_own_lines(void **state) {
  (void)state;
  uint64_t got_bytes;
  rondo_pool_init(&pool, 1u << 20, device, NULL);
  for (uint64_t bytes = 1; bytes < 10000; bytes = bytes * 3 + 1) {
    void *piece = take(bytes, &got_bytes);
    assert_int_equal((uintptr_t)piece % 128, 0);
    rondo_pool_free(&pool, at, piece, got_bytes);
  }
  rondo_pool_fini(&pool);
}

static void sizes_grow_and_waste_a_fifth_at_most(void **state) {
  (void)state;
  assert_int_equal(rondo_pool_class_bytes(0), rondo_connector_bytes(2));
  for (uint32_t k = 1; k < RONDO_POOL_CLASSES; k++) {
    uint64_t bytes = rondo_pool_class_bytes(k);
    assert_int_equal(bytes % RONDO_LINE_BYTES, 0);
    assert_in_range(bytes - rondo_pool_class_bytes(k - 1), 1, bytes / (k > 1 ? 5 : 4));
    assert_int_equal(rondo_pool_class(bytes), k);
    assert_int_equal(rondo_pool_class(bytes - 1), k);
  }
}

static void the_budget_is_what_is_given_out(void **state) {
  (void)state;
  uint64_t got_bytes;
  uint64_t unused = 77;
  rondo_pool_init(&pool, 4096, device, NULL);
  void *a = take(2048, &got_bytes);
  void *b = take(2048, &got_bytes);
  assert_null(rondo_pool_alloc(&pool, at, 1, &unused, &want));
  assert_int_equal(unused, 77);
  assert_int_equal(pool.used_bytes, 4096);
  rondo_pool_free(&pool, at, a, got_bytes);
  a = take(2048, &got_bytes);
  rondo_pool_free(&pool, at, a, got_bytes);
  rondo_pool_free(&pool, at, b, got_bytes);
  rondo_pool_fini(&pool);
}

static void idle_pieces_make_room_for_other_sizes(void **state) {
  (void)state;
  uint64_t got_bytes;
  void *pieces[8];
  rondo_pool_init(&pool, 8 * 512, device, NULL);
  for (int i = 0; i < 8; i++)
    pieces[i] = take(512, &got_bytes);
  for (int i = 0; i < 8; i++)
    rondo_pool_free(&pool, at, pieces[i], got_bytes);
  void *large = take(4096, &got_bytes); // the idle pieces fill the budget
  assert_true(pool.held_bytes <= pool.limit_bytes);
  rondo_pool_free(&pool, at, large, got_bytes);
  rondo_pool_fini(&pool);
  assert_int_equal(pool.held_bytes, 0);
}

static void pieces_stay_where_they_are_from(void **state) {
  (void)state;
  uint64_t got_bytes;
  struct rondo_place elsewhere = {.device = device, .kind = RONDO_MEMORY_SHARED};
  rondo_pool_init(&pool, 1u << 20, device, NULL);
  void *first = take(1000, &got_bytes);
  rondo_pool_free(&pool, at, first, got_bytes);
  void *other = rondo_pool_alloc(&pool, elsewhere, 1000, &got_bytes, &want);
  assert_non_null(other);
  assert_ptr_not_equal(other, first);
  assert_ptr_equal(take(1000, &got_bytes), first);
  rondo_pool_free(&pool, at, first, got_bytes);
  rondo_pool_free(&pool, elsewhere, other, got_bytes);
  rondo_pool_fini(&pool);
  assert_int_equal(pool.held_bytes, 0);
}

static void sizes_beyond_all_measure_are_refused(void **state) {
  (void)state;
  uint64_t got_bytes;
  rondo_pool_init(&pool, UINT64_MAX, device, NULL);
  assert_null(rondo_pool_alloc(&pool, at, UINT64_MAX, &got_bytes, &want));
  assert_null(rondo_pool_alloc(&pool, at, UINT64_C(1) << 62, &got_bytes, &want));
  assert_int_equal(pool.used_bytes, 0);
  assert_int_equal(pool.held_bytes, 0);
  rondo_pool_fini(&pool);
}

static void no_memory_changes_nothing(void **state) {
  (void)state;
  uint64_t got_bytes = 77;
  rondo_pool_init(&pool, 1u << 20, device, NULL);
  rondo_memory_fail_after(0);
  void *piece = rondo_pool_alloc(&pool, at, 100, &got_bytes, &want);
  rondo_memory_fail_after(-1);
  assert_null(piece);
  assert_int_equal(got_bytes, 77);
  assert_int_equal(pool.used_bytes, 0);
  assert_int_equal(pool.held_bytes, 0);
  rondo_pool_fini(&pool);
}

// Another process may still look at a connector of one that is through with it and has left.
static void what_peers_map_stays_as_it_is_at_the_end(void **state) {
  (void)state;
  struct rondo_arena *arena;
  uint64_t got_bytes;
  void *view = NULL;
  assert_int_equal(rondo_arena_create(1u << 22, 0, &arena), RONDO_SUCCESS);
  assert_int_equal(rondo_arena_map(rondo_arena_fd(arena), rondo_arena_bytes(arena), &view),
                   RONDO_SUCCESS);
  rondo_pool_init(&pool, 1u << 22, device, arena);
  char *piece = rondo_pool_alloc(&pool, at, 1u << 20, &got_bytes, &want);
  assert_non_null(piece);
  const char *seen = (const char *)view + (piece - (char *)rondo_arena_base(arena));
  piece[0] = piece[1 << 19] = 7;
  rondo_pool_free(&pool, at, piece, got_bytes);
  rondo_pool_fini(&pool);
  rondo_arena_destroy(arena);
  assert_int_equal(seen[0], 7);
  assert_int_equal(seen[1 << 19], 7);
  rondo_arena_unmap(view, 1u << 22);
}

// A driver whose calls may wait for the device: it is asked without the lock of the caller.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t asked, refusals; // calls of `alloc` so far; those that fail from now on

static void *waiting_alloc(struct rondo_device *of, int kind, uint64_t bytes) {
  (void)of, (void)kind;
  assert_int_equal(pthread_mutex_trylock(&lock), 0);
  pthread_mutex_unlock(&lock);
  asked++;
  if (!refusals)
    return malloc(bytes);
  refusals--;
  return NULL;
}

static void waiting_free(struct rondo_device *of, int kind, void *memory) {
  (void)of, (void)kind;
  free(memory);
}

static const struct rondo_driver waiting_driver = {.alloc = waiting_alloc, .free = waiting_free};
static struct rondo_device waiting_device = {&waiting_driver};
static const struct rondo_place waiting = {.device = &waiting_device, .kind = RONDO_MEMORY_DEVICE};

// Allocates; `lacked` counts how often the driver had to be asked first.
static void *take_waiting(uint64_t bytes, uint64_t *got_bytes, uint32_t *lacked) {
  struct rondo_pool_want lack = {0};
  *lacked = 0;
  pthread_mutex_lock(&lock);
  void *piece = rondo_pool_alloc(&pool, waiting, bytes, got_bytes, &lack);
  while (!piece && rondo_pool_is_wanted(&lack)) {
    ++*lacked;
    rondo_pool_supply(&pool, &lack, &lock);
    piece = rondo_pool_alloc(&pool, waiting, bytes, got_bytes, &lack);
  }
  pthread_mutex_unlock(&lock);
  return piece;
}

static void a_driver_that_may_wait_is_asked_without_the_lock(void **state) {
  (void)state;
  uint64_t got_bytes;
  uint32_t lacked;
  asked = refusals = 0;
  rondo_pool_init(&pool, 1u << 20, &waiting_device, NULL);
  void *first = take_waiting(1000, &got_bytes, &lacked);
  assert_non_null(first);
  assert_int_equal(lacked, 1);
  rondo_pool_free(&pool, waiting, first, got_bytes);
  assert_ptr_equal(take_waiting(1000, &got_bytes, &lacked), first);
  assert_int_equal(lacked, 0);
  assert_int_equal(asked, 1);
  rondo_pool_free(&pool, waiting, first, got_bytes);
  rondo_pool_fini(&pool);
  assert_int_equal(pool.held_bytes, 0);
}

static void a_refusal_fails_one_allocation(void **state) {
  (void)state;
  uint64_t got_bytes = 77;
  uint32_t lacked;
  asked = 0;
  refusals = 1;
  rondo_pool_init(&pool, 1u << 20, &waiting_device, NULL);
  assert_null(take_waiting(1000, &got_bytes, &lacked));
  assert_int_equal(lacked, 1);
  assert_int_equal(got_bytes, 77);
  assert_int_equal(pool.held_bytes, 0);
  assert_int_equal(pool.used_bytes, 0);
  void *piece = take_waiting(1000, &got_bytes, &lacked);
  assert_non_null(piece);
  assert_int_equal(asked, 2);
  rondo_pool_free(&pool, waiting, piece, got_bytes);
  rondo_pool_fini(&pool);
}

static void what_a_driver_that_may_wait_supplies_respects_the_budget(void **state) {
  (void)state;
  uint64_t got_bytes;
  uint32_t lacked;
  refusals = 0;
  rondo_pool_init(&pool, 4096, &waiting_device, NULL);
  void *small = take_waiting(2048, &got_bytes, &lacked);
  rondo_pool_free(&pool, waiting, small, got_bytes);
  void *large = take_waiting(4096, &got_bytes, &lacked); // the idle piece makes room
  assert_non_null(large);
  assert_int_equal(pool.held_bytes, 4096);
  uint64_t unused;
  assert_null(take_waiting(1, &unused, &lacked));
  assert_int_equal(lacked, 0);
  rondo_pool_free(&pool, waiting, large, got_bytes);
  rondo_pool_fini(&pool);
  assert_int_equal(pool.held_bytes, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("pool", a_piece_given_back_is_used_again),
      RONDO_NAMED_TEST("pool", pieces_lie_on_their_own_lines),
      RONDO_NAMED_TEST("pool", sizes_grow_and_waste_a_fifth_at_most),
      RONDO_NAMED_TEST("pool", the_budget_is_what_is_given_out),
      RONDO_NAMED_TEST("pool", idle_pieces_make_room_for_other_sizes),
      RONDO_NAMED_TEST("pool", pieces_stay_where_they_are_from),
      RONDO_NAMED_TEST("pool", sizes_beyond_all_measure_are_refused),
      RONDO_NAMED_TEST("pool", no_memory_changes_nothing),
      RONDO_NAMED_TEST("pool", what_peers_map_stays_as_it_is_at_the_end),
      RONDO_NAMED_TEST("pool", a_driver_that_may_wait_is_asked_without_the_lock),
      RONDO_NAMED_TEST("pool", a_refusal_fails_one_allocation),
      RONDO_NAMED_TEST("pool", what_a_driver_that_may_wait_supplies_respects_the_budget),
  };
  return cmocka_run_group_tests_name("pool", tests, open_device, NULL);
}
