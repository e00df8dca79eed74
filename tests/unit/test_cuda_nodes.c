// Page-locked memory lies on the NUMA node of its device, on whatever node the calling thread runs.
// Uses the stand-ins for the CUDA driver and for a machine with several nodes.
#include <numaif.h>

#include "base/numa_node.h"
#include "daemon/cuda/cuda_api.h"
#include "daemon/cuda/cuda_driver.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/pins.h"
#include "runtime/memory/pool.h"
#include "tests/support/fake_cuda/fake_cuda.h"
#include "tests/support/fake_nodes.h"
#include "tests/support/named.h"
#include <rondo/status.h>

#define LARGE_BYTES (UINT64_C(4) << 20) // is page-locked by itself
#define SMALL_BYTES 65536u              // is cut from what many share

static struct rondo_device *device;

static void open_at(int node) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  char why[RONDO_WHY_BYTES];
  rondo_fake_reset(NULL);
  rondo_fake_nodes_reset();
  rondo_fake_nodes.device_node = node;
  rondo_cuda_api_from(NULL);
  cfg.backend = RONDO_BACKEND_CUDA;
  assert_int_equal(rondo_cuda_driver.open(&cfg, &device, why), RONDO_SUCCESS);
}

static int close_device(void **state) {
  (void)state;
  rondo_cuda_driver.close(device);
  return rondo_fake_live_count() != 0;
}

static void holds(uint64_t bytes, int node) {
  void *memory = rondo_cuda_driver.alloc(device, RONDO_MEMORY_SHARED, bytes);
  assert_non_null(memory);
  assert_int_equal(rondo_fake_nodes_hold(memory, bytes), node);
  assert_int_equal(rondo_fake_nodes_policy(), MPOL_DEFAULT);
  rondo_cuda_driver.free(device, RONDO_MEMORY_SHARED, memory);
}

static void page_locked_memory_is_on_the_node_of_its_device(void **state) {
  (void)state;
  open_at(1);
  assert_int_equal(rondo_cuda_driver.node(device), 1);
  holds(LARGE_BYTES, 1);
  holds(SMALL_BYTES, 1);
}

static void it_is_on_that_of_the_thread_if_the_device_has_none(void **state) {
  (void)state;
  open_at(-1);
  rondo_fake_nodes_go(2);
  assert_int_equal(rondo_cuda_driver.node(device), RONDO_NODE_ANY);
  holds(LARGE_BYTES, 2);
}

// Connectors that the devices of two processes lock: in an arena, which knows of no device.
static void exported_connectors_lie_there_too(void **state) {
  struct rondo_pool pool;
  struct rondo_pins pins = {0};
  struct rondo_arena *arena = NULL;
  uint64_t got_bytes;
  (void)state;
  open_at(1);
  assert_int_equal(rondo_arena_create(UINT64_C(32) << 20, 0, &arena), RONDO_SUCCESS);
  rondo_pins_init(&pins, device, rondo_arena_base(arena), rondo_arena_bytes(arena));
  rondo_arena_keep_pages(arena);
  rondo_pool_init(&pool, UINT64_MAX, device, NULL);
  pool.exported = arena;
  pool.pins = &pins;
  struct rondo_place at = {device, RONDO_PLACE_EXPORTED, rondo_cuda_driver.node(device)};
  struct rondo_pool_want want = {0};
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  assert_null(rondo_pool_alloc(&pool, at, SMALL_BYTES, &got_bytes, &want));
  assert_true(rondo_pool_is_wanted(&want));
  pthread_mutex_lock(&lock);
  rondo_pool_supply(&pool, &want, &lock);
  void *piece = rondo_pool_alloc(&pool, at, SMALL_BYTES, &got_bytes, &want);
  pthread_mutex_unlock(&lock);
  assert_non_null(piece);
  assert_int_equal(rondo_fake_nodes_hold(piece, SMALL_BYTES), 1);
  rondo_pool_free(&pool, at, piece, got_bytes);
  rondo_pool_fini(&pool);
  rondo_pins_fini(&pins);
  rondo_arena_destroy(arena);
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("cuda_nodes", function, NULL, close_device)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(page_locked_memory_is_on_the_node_of_its_device),
      TEST(it_is_on_that_of_the_thread_if_the_device_has_none),
      TEST(exported_connectors_lie_there_too),
  };
  return cmocka_run_group_tests_name("cuda_nodes", tests, NULL, NULL);
}
