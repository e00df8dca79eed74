// On which NUMA node memory and workers lie, on a machine with three of them
// (tests/support/fake_nodes).
#include <numaif.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/numa_node.h"
#include "daemon/host/host_device.h"
#include "runtime/memory/arena.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "runtime/transport/communicator.h"
#include "tests/support/fake_nodes.h"
#include "tests/support/hand_mesh.h"
#include "tests/support/job.h"
#include "tests/support/log.h"
#include "tests/support/named.h"

#define BYTES (UINT64_C(1) << 20)
#define COUNT (UINT64_C(1) << 18)
#define RANGE_BYTES (UINT64_C(16) << 20)

static const struct rondo_members_calls *real_mesh;

static int fresh(void **state) {
  (void)state;
  rondo_test_log_clear();
  rondo_fake_nodes_reset();
  rondo_members_calls = real_mesh;
  return 0;
}

// ------------------------------------------------------------------ workers ---

static uint32_t cores_of(int node) {
  return ((1u << RONDO_FAKE_NODE_CORES) - 1) << (uint32_t)node * RONDO_FAKE_NODE_CORES;
}

static void workers_are_spread_over_the_nodes(void **state) {
  struct rondo_test_job job;
  (void)state;
  rondo_test_job_open(&job, 1, NULL);
  assert_int_equal(rondo_fake_nodes.placements, 12);
  for (uint32_t i = 0; i < 12; i++)
    assert_int_equal(rondo_fake_nodes.placed[i], cores_of((int)i / 4));
  rondo_test_job_close(&job);
}

static void workers_stay_on_the_cores_that_the_process_may_use(void **state) {
  static const struct {
    uint32_t own, workers[3];
  } cases[] = {
      {0x3cu, {0x0cu, 0x0cu, 0x30u}},  // half of each of two nodes
      {0x801u, {0x001u, 0x800u, 0x1u}} // one of the first and one of the last
  };
  (void)state;
  for (uint32_t c = 0; c < 2; c++) {
    fresh(NULL);
    rondo_fake_nodes.own_cores = cases[c].own;
    for (uint32_t i = 0; i < 3; i++)
      rondo_host_place_worker(pthread_self(), i);
    assert_int_equal(rondo_fake_nodes.placements, 3);
    assert_memory_equal(rondo_fake_nodes.placed, cases[c].workers, sizeof cases[c].workers);
  }
}

static void a_process_that_is_bound_to_one_node_stays_there(void **state) {
  (void)state;
  rondo_fake_nodes.own_cores = cores_of(1);
  for (uint32_t i = 0; i < 4; i++)
    rondo_host_place_worker(pthread_self(), i);
  assert_int_equal(rondo_fake_nodes.placements, 0);
}

// ------------------------------------------------------------------- memory ---

static void large_memory_of_the_heap_is_on_the_node_of_the_caller(void **state) {
  (void)state;
  for (int node = 2; node >= 0; node--) { // the heap gives the same memory again
    rondo_fake_nodes_go(node);
    char *memory = rondo_memory_alloc(BYTES);
    assert_non_null(memory);
    assert_int_equal(rondo_fake_nodes_hold(memory, BYTES), node);
    for (uint64_t i = 0; i < BYTES; i++)
      assert_int_equal(memory[i], 0);
    memset(memory, 1, BYTES);
    rondo_memory_free(memory);
  }
}

// Pieces of 16 KiB keep their pages when they are freed.
static void the_arena_gives_memory_on_the_node_of_the_caller(void **state) {
  static const uint64_t sizes[] = {16384, BYTES};
  struct rondo_arena *arena = NULL;
  (void)state;
  assert_int_equal(rondo_arena_create(RANGE_BYTES, 0, &arena), RONDO_SUCCESS);
  for (int i = 0; i < 6; i++) {
    uint64_t bytes = sizes[i / 3];
    rondo_fake_nodes_go(i % 3);
    char *memory = rondo_arena_alloc(arena, bytes);
    assert_non_null(memory);
    assert_int_equal(rondo_fake_nodes_hold(memory, bytes), i % 3);
    assert_int_equal(rondo_arena_free(arena, memory), 1);
  }
  rondo_arena_destroy(arena);
}

static void what_is_preferred_is_forgotten_afterwards(void **state) {
  (void)state;
  int preferred = rondo_node_prefer(1);
  assert_int_equal(preferred, 1);
  assert_int_equal(rondo_node_prefer(2), 0); // the one outside counts
  rondo_node_rest(0);
  void *memory = rondo_memory_alloc(BYTES);
  assert_int_equal(rondo_fake_nodes_hold(memory, BYTES), 1);
  rondo_node_rest(preferred);
  assert_int_equal(rondo_fake_nodes_policy(), MPOL_DEFAULT);
  rondo_memory_free(memory);
}

// --------------------------------------------------------------- connectors ---

static struct rondo_collective register_at(struct rondo_context ctx, uint64_t id, int node) {
  struct rondo_collective_desc d = rondo_all_reduce(id, COUNT, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective coll;
  rondo_fake_nodes_go(node);
  assert_int_equal(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  assert_int_equal(rondo_fake_nodes_policy(), MPOL_DEFAULT);
  return coll;
}

static int node_of_link(struct rondo_context ctx, struct rondo_collective coll, uint32_t from,
                        uint32_t to) {
  struct rondo_rank *rank;
  assert_int_equal(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  const struct rondo_link *link =
      rondo_communicator_link(rondo_coll_find(rank, coll)->registration.comm, from, to);
  rondo_rank_unpin(ctx);
  assert_non_null(link);
  assert_true(link->bytes >= 16384);
  return rondo_fake_nodes_hold(link->first, link->bytes);
}

// Whichever rank registers first, and also when the pool reuses memory.
static void connectors_are_on_the_node_of_the_receiver(void **state) {
  struct rondo_test_job job;
  (void)state;
  rondo_test_job_open(&job, 2, NULL);
  for (uint32_t round = 0; round < 4; round++) {
    struct rondo_collective colls[2];
    for (uint32_t i = 0; i < 2; i++) {
      uint32_t rank = (i + round) % 2;
      colls[rank] = register_at(job.ctx[rank], round, round < 2 ? 1 - (int)rank : (int)rank);
    }
    for (uint32_t from = 0; from < 2; from++)
      assert_int_equal(node_of_link(job.ctx[0], colls[0], from, 1 - from),
                       round < 2 ? from : 1 - from);
    for (uint32_t rank = 0; rank < 2; rank++)
      assert_int_equal(rondo_deregister(job.ctx[rank], colls[rank]), RONDO_SUCCESS);
  }
  rondo_test_job_close(&job);
}

static struct rondo_context open_alone(void) {
  struct rondo_config cfg = RONDO_CONFIG_INIT;
  struct rondo_context ctx;
  rondo_hand_mesh_put();
  cfg.rank_count = 2;
  cfg.id.bytes[0] = 1;
  assert_int_equal(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  return ctx;
}

// Where the other rank is becomes known later, on a thread that is anywhere.
static void so_are_those_that_other_processes_send_by(void **state) {
  (void)state;
  struct rondo_context ctx = open_alone();
  struct rondo_collective early = register_at(ctx, 1, 1);
  rondo_fake_nodes_go(2);
  rondo_hand_mesh.events.roster(rondo_hand_mesh.arg);
  assert_int_equal(node_of_link(ctx, early, 1, 0), 1);
  struct rondo_collective late = register_at(ctx, 2, 0);
  assert_int_equal(node_of_link(ctx, late, 1, 0), 0);
  void *memory = NULL;
  rondo_fake_nodes_go(1);
  assert_int_equal(rondo_mem_alloc(ctx, BYTES, &memory), RONDO_SUCCESS);
  assert_int_equal(rondo_fake_nodes_hold(memory, BYTES), 1);
  assert_int_equal(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
}

// ------------------------------------------------------------------ refusals ---

static void a_system_that_refuses_is_no_error(void **state) {
  struct rondo_test_job job;
  struct rondo_collective colls[2];
  float *values[2] = {NULL, NULL};
  (void)state;
  rondo_fake_nodes.is_refused = 1;
  rondo_test_job_open(&job, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    colls[rank] = register_at(job.ctx[rank], 1, rank);
  for (uint32_t rank = 0; rank < 2; rank++) {
    assert_int_equal(rondo_mem_alloc(job.ctx[rank], COUNT * sizeof(float), (void **)&values[rank]),
                     RONDO_SUCCESS);
    values[rank][COUNT - 1] = (float)(rank + 1);
    assert_int_equal(rondo_run(job.ctx[rank], colls[rank], values[rank], values[rank], NULL, NULL),
                     RONDO_SUCCESS);
  }
  for (uint32_t rank = 0; rank < 2; rank++) {
    assert_int_equal(rondo_wait(job.ctx[rank], colls[rank], RONDO_LAST_RUN, RONDO_TEST_LONG_NS),
                     RONDO_SUCCESS);
    assert_true(values[rank][COUNT - 1] == 3.0f);
  }
  assert_int_equal(node_of_link(job.ctx[0], colls[0], 0, 1), 1); // where it was registered last
  rondo_test_job_close(&job);
  assert_int_equal(rondo_test_log_lines(), 0);
}

static void what_the_application_has_chosen_counts(void **state) {
  (void)state;
  rondo_fake_nodes_set_policy(MPOL_INTERLEAVE);
  assert_int_equal(rondo_node_prefer(1), 0);
  rondo_node_rest(0);
  assert_int_equal(rondo_fake_nodes_policy(), MPOL_INTERLEAVE);
}

static void a_node_that_cannot_be_is_none(void **state) {
  (void)state;
  assert_int_equal(rondo_node_prefer(RONDO_NODE_ANY), 0);
  assert_int_equal(rondo_node_prefer(RONDO_FAKE_NODES), 0);
  assert_int_equal(rondo_node_prefer(1 << 20), 0);
  assert_int_equal(rondo_fake_nodes_policy(), MPOL_DEFAULT);
}

#define TEST(function) RONDO_NAMED_TEST_FIXTURE("nodes", function, fresh, NULL)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(workers_are_spread_over_the_nodes), // first: workers stay
      TEST(workers_stay_on_the_cores_that_the_process_may_use),
      TEST(a_process_that_is_bound_to_one_node_stays_there),
      TEST(large_memory_of_the_heap_is_on_the_node_of_the_caller),
      TEST(the_arena_gives_memory_on_the_node_of_the_caller),
      TEST(what_is_preferred_is_forgotten_afterwards),
      TEST(connectors_are_on_the_node_of_the_receiver),
      TEST(so_are_those_that_other_processes_send_by),
      TEST(a_system_that_refuses_is_no_error),
      TEST(what_the_application_has_chosen_counts),
      TEST(a_node_that_cannot_be_is_none),
  };
  rondo_test_log_open();
  real_mesh = rondo_members_calls;
  return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
