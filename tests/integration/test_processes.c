// Jobs of several processes of this machine: every collective through shared memory, in any order,
// and by which transport; also runs test_processes_failing.c.
//
//   test_processes                    all of it, a few rounds of killing
//   test_processes PATTERN...         of these names
//   test_processes soak               hundreds of rounds of killing and stopping
//   test_processes machines COUNT [PATTERN]   the same between "machines", which share no memory
//   test_processes turns COUNT [PATTERN]      the same, each process on the next machine
//   test_processes ports COUNT [PATTERN]      as turns, with two leaders a machine
//   test_processes networks COUNT [PATTERN]   as machines, with two network interfaces each
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "runtime/rank/coll.h"
#include "runtime/rank/handles.h"
#include "runtime/rank/rank.h"
#include "tests/integration/processes.h"
#include "tests/support/load.h"
#include "tests/support/machines.h"
#include "tools/kit/shape.h"

// ------------------------------------------------------------------ buffers ---

struct buffers {
  struct rondo_context ctx; // that gave the memory; none: malloc
  char *send_base, *recv_base;
  struct rondo_kit_place place;
};

static char *take(struct rondo_context ctx, uint64_t bytes) {
  void *memory = NULL;
  if (ctx.handle)
    RONDO_MEMBER_STATUS(rondo_mem_alloc(ctx, bytes, &memory), RONDO_SUCCESS);
  else
    memory = malloc(bytes ? bytes : 1);
  RONDO_MEMBER_TRUE(memory);
  return memory;
}

static void give(struct rondo_context ctx, char *memory) {
  if (ctx.handle)
    RONDO_MEMBER_STATUS(rondo_mem_free(ctx, memory), RONDO_SUCCESS);
  else
    free(memory);
}

static void buffers_init(struct buffers *b, const struct rondo_kit_shape *s, uint32_t rank,
                         int in_place, struct rondo_context ctx) {
  b->ctx = ctx;
  b->send_base = take(ctx, rondo_kit_shape_bytes(s));
  b->recv_base = take(ctx, rondo_kit_shape_bytes(s));
  b->place = rondo_kit_shape_place(s, rank, in_place, b->send_base, b->recv_base);
}

static void buffers_fini(struct buffers *b) {
  give(b->ctx, b->send_base);
  give(b->ctx, b->recv_base);
}

// ------------------------------------------------------------- every collective --

// A sample of kinds, types, reductions, sizes; half of it in memory that peers read directly.
static struct rondo_kit_shape sample(uint32_t i, uint32_t ranks) {
  static const uint64_t counts[] = {0, 1, 7, 100, 1000, 4099, 50021};
  struct rondo_kit_shape s = {.rank_count = ranks};
  for (uint32_t more = i % 8 + 1; more > 0; s.kind += more > 0) // 8 kinds have shapes
    more -= (uint32_t)rondo_kit_shape_is_kind(s.kind);
  s.dtype = (int)(i * 7 % RONDO_DTYPE_COUNT);
  s.redop = rondo_kit_shape_reduces(s.kind) ? (int)(i / 5 % RONDO_REDOP_COUNT) : RONDO_SUM;
  s.root = i / 3 % ranks;
  s.count = counts[i / 2 % (sizeof counts / sizeof *counts)];
  return s;
}

static void every_collective_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context none = {0};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  uint32_t cases = (uint32_t)rondo_test_load(140, 40);
  for (uint32_t i = 0; i < cases; i++) {
    struct rondo_kit_shape s = sample(i, f->ranks);
    struct rondo_collective_desc d = rondo_kit_shape_desc(&s, i, rank);
    struct rondo_collective coll;
    struct buffers b;
    int in_place = i / 7 % 2 && rondo_kit_shape_may_be_in_place(&s);
    buffers_init(&b, &s, rank, in_place, (i + rank) % 2 ? ctx : none);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
    for (uint64_t round = 0; round < 2; round++) {
      rondo_kit_shape_fill(&s, rank, round, b.place.send);
      RONDO_MEMBER_STATUS(rondo_run(ctx, coll, b.place.send, b.place.recv, NULL, NULL),
                          RONDO_SUCCESS);
      RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
      RONDO_MEMBER_TRUE(rondo_kit_shape_wrong(&s, rank, round, b.place.recv) == 0);
    }
    RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
    buffers_fini(&b);
  }
  rondo_family_close(ctx);
}

static void every_collective_is_exact_between_2_processes(void **state) {
  (void)state;
  run_family(2, 2, every_collective_member);
}

static void every_collective_is_exact_between_4_processes(void **state) {
  (void)state;
  run_family(4, 4, every_collective_member);
}

static void every_collective_is_exact_where_some_ranks_share_a_process(void **state) {
  (void)state;
  run_family(3, 7, every_collective_member);
}

// ------------------------------------------------------------------- pairs --

static uint64_t pair_count(uint32_t from, uint32_t to) {
  return (from * 7 + to * 3) % 5 == 0 ? 0 : (from * 7919 + to * 104729) % 40000;
}

static int32_t pair_value(uint32_t from, uint32_t to, uint64_t i) {
  return (int32_t)(from * 1000003 + to * 10007 + i);
}

// An uneven all-to-all; `out` and `in` have room for 7 × 40,000.
static void exchange(struct rondo_family *f, struct rondo_context ctx, uint32_t rank, int32_t *out,
                     int32_t *in) {
  uint64_t sends[7], receives[7], at = 0;
  struct rondo_collective coll;
  for (uint32_t i = 0; i < f->ranks; i++) {
    sends[i] = pair_count(rank, i);
    receives[i] = pair_count(i, rank);
    for (uint64_t k = 0; k < sends[i]; k++)
      out[at++] = pair_value(rank, i, k);
  }
  struct rondo_collective_desc d = rondo_all_to_all_v(1, RONDO_INT32, sends, NULL, receives, NULL);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, out, in, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  at = 0;
  for (uint32_t i = 0; i < f->ranks; i++)
    for (uint64_t k = 0; k < receives[i]; k++)
      RONDO_MEMBER_TRUE(in[at++] == pair_value(i, rank, k));
}

// Uneven parts, then everybody sends to the next rank, then a barrier.
static void pairs_member(struct rondo_family *f, uint32_t rank) {
  uint32_t n = f->ranks, before = (rank + n - 1) % n;
  int32_t *memory = calloc(14 * 40000, sizeof *memory);
  int32_t mine = (int32_t)rank, received = -1;
  struct rondo_context ctx = rondo_family_open(f, 0, rank, n);
  struct rondo_collective send, recv, barrier;
  RONDO_MEMBER_TRUE(memory != NULL);
  if (!memory)
    return;
  exchange(f, ctx, rank, memory, memory + 7 * 40000);
  struct rondo_collective_desc d =
      rondo_send_recv(100 + rank, 1, RONDO_INT32, rank, (rank + 1) % n);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &send), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, send, &mine, NULL, NULL, NULL), RONDO_SUCCESS);
  d = rondo_send_recv(100 + before, 1, RONDO_INT32, before, rank);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &recv), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, recv, NULL, &received, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, recv, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(received == (int32_t)before);
  d = rondo_barrier(2);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &barrier), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, barrier, NULL, NULL, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, barrier, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  rondo_family_close(ctx);
  free(memory);
}

static void pairs_meet_between_5_processes(void **state) {
  (void)state;
  run_family(5, 5, pairs_member);
}

static void pairs_meet_where_some_ranks_share_a_process(void **state) {
  (void)state;
  run_family(3, 7, pairs_member);
}

// ---------------------------------------------------------------- disorder --

#define COLLS 6u
#define ITERATIONS 12u

// Each rank registers and runs the same collectives in orders of its own, waits for its device now
// and then, and looks at the results at the end of each iteration.
static void disordered_member(struct rondo_family *f, uint32_t rank) {
  uint64_t random = f->seed * 1000 + rank;
  uint32_t order[COLLS];
  struct rondo_collective colls[COLLS];
  struct rondo_kit_shape shapes[COLLS];
  struct buffers buffers[COLLS];
  struct rondo_context none = {0};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  rondo_test_shuffle(order, COLLS, &random);
  for (uint32_t i = 0; i < COLLS; i++) {
    uint32_t c = order[i];
    shapes[c] = (struct rondo_kit_shape){.kind = RONDO_ALL_REDUCE, .dtype = RONDO_FLOAT32};
    shapes[c].rank_count = f->ranks;
    shapes[c].count = 100u << (2 * c);
    struct rondo_collective_desc d = rondo_kit_shape_desc(&shapes[c], c, rank);
    buffers_init(&buffers[c], &shapes[c], rank, 0, c % 2 ? ctx : none);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &colls[c]), RONDO_SUCCESS);
  }
  for (uint64_t round = 0; round < ITERATIONS; round++) {
    rondo_test_shuffle(order, COLLS, &random);
    for (uint32_t i = 0; i < COLLS; i++) {
      uint32_t c = order[i];
      rondo_kit_shape_fill(&shapes[c], rank, round, buffers[c].place.send);
      RONDO_MEMBER_STATUS(
          rondo_run(ctx, colls[c], buffers[c].place.send, buffers[c].place.recv, NULL, NULL),
          RONDO_SUCCESS);
      if (rondo_test_random(&random) % 3 == 0)
        RONDO_MEMBER_STATUS(rondo_device_synchronize(ctx, LONG_NS), RONDO_SUCCESS);
    }
    for (uint32_t c = 0; c < COLLS; c++) {
      RONDO_MEMBER_STATUS(rondo_wait(ctx, colls[c], RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
      RONDO_MEMBER_TRUE(rondo_kit_shape_wrong(&shapes[c], rank, round, buffers[c].place.recv) == 0);
    }
  }
  for (uint32_t c = 0; c < COLLS; c++)
    buffers_fini(&buffers[c]);
  rondo_family_close(ctx);
}

static void disorder_completes_between_2_processes(void **state) {
  (void)state;
  run_family(2, 2, disordered_member);
}

static void disorder_completes_between_4_processes(void **state) {
  (void)state;
  run_family(4, 4, disordered_member);
}

static void disorder_completes_between_8_processes(void **state) {
  (void)state;
  run_family(8, 8, disordered_member);
}

// A machine with two interfaces sends data over one alone, the first or the chosen one: UCX 1.13
// may lose messages where it is free to use both. It does not use both each time, so there are
// several jobs.
static void large_member(struct rondo_family *f, uint32_t rank) {
  const struct rondo_kit_shape shape = {
      .kind = RONDO_ALL_REDUCE, .dtype = RONDO_FLOAT32, .rank_count = f->ranks, .count = 2u << 20};
  const char *unused = f->cfg.interfaces[0] ? "eth0" : "eth1";
  uint64_t sent = rondo_machines_sent(unused);
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective_desc d = rondo_kit_shape_desc(&shape, 1, rank);
  struct rondo_collective coll;
  struct buffers b;
  buffers_init(&b, &shape, rank, 0, ctx);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  for (uint64_t round = 0; round < 2; round++) {
    rondo_kit_shape_fill(&shape, rank, round, b.place.send);
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, b.place.send, b.place.recv, NULL, NULL),
                        RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(rondo_kit_shape_wrong(&shape, rank, round, b.place.recv) == 0);
  }
  buffers_fini(&b);
  rondo_family_close(ctx);
  if (rondo_machines_networks == 2)
    RONDO_MEMBER_TRUE(rondo_machines_sent(unused) - sent < 65536);
}

static void large_messages_take_one_interface_between_4_processes(void **state) {
  (void)state;
  for (uint32_t i = 0; i < (rondo_machines_networks == 2 ? 4 : 1); i++) {
    struct rondo_family *f = rondo_family_create(4, 4);
    if (i % 2)
      (void)snprintf(f->cfg.interfaces, sizeof f->cfg.interfaces, "=eth1");
    rondo_family_run(f, large_member, NULL);
    rondo_family_destroy(f);
  }
}

// Collectives whose connectors have no payload memory get it while they run, also if each rank runs
// them in another order.
static void lending_member(struct rondo_family *f, uint32_t rank) {
  enum { LENT_COLLS = 12, COUNT = 50000 };
  static int32_t send[LENT_COLLS][COUNT];
  static int32_t recv[LENT_COLLS][COUNT];
  struct rondo_collective colls[LENT_COLLS];
  struct rondo_counters counters;
  (void)setenv("RONDO_ALGO", "all_reduce=ring", 1); // fewest connectors
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  bool is_mapped = !f->machines && f->cfg.backend == RONDO_BACKEND_HOST;
  for (uint32_t c = 0; c < LENT_COLLS; c++) {
    struct rondo_collective_desc d = rondo_all_reduce(c, COUNT - c, RONDO_INT32, RONDO_SUM);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &colls[c]), RONDO_SUCCESS);
    for (uint32_t k = 0; k < COUNT; k++)
      send[c][k] = (int32_t)(rank * k + c);
  }
  for (uint32_t round = 0; round < 4; round++) {
    for (uint32_t i = 0; i < LENT_COLLS; i++) {
      uint32_t c = (rank % 2 ? LENT_COLLS - 1 - i : i + rank) % LENT_COLLS;
      RONDO_MEMBER_STATUS(rondo_run(ctx, colls[c], send[c], recv[c], NULL, NULL), RONDO_SUCCESS);
    }
    for (uint32_t c = 0; c < LENT_COLLS; c++) {
      RONDO_MEMBER_STATUS(rondo_wait(ctx, colls[c], RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
      for (uint32_t k = 0; k < COUNT - c; k++)
        RONDO_MEMBER_TRUE(recv[c][k] ==
                          (int32_t)(f->ranks * (f->ranks - 1) / 2 * k + f->ranks * c));
    }
    RONDO_MEMBER_STATUS(rondo_counters(ctx, &counters), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(!is_mapped || counters.connector_bytes <= LENT_COLLS * 512);
  }
  rondo_family_close(ctx);
}

static void payload_memory_between_processes_is_lent(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(4, 4);
  f->cfg.connector_bytes = 1u << 24; // less than a connector needs is 1/256 of it
  rondo_family_run(f, lending_member, NULL);
  rondo_family_destroy(f);
}

// ------------------------------------------------------------ the baseline --

// Everybody runs two collectives, those with odd ranks in the other order.
static void opposed_member(struct rondo_family *f, uint32_t rank) {
  static const int32_t in[1000] = {1};
  int32_t *out = calloc(2, sizeof in);
  struct rondo_collective colls[2];
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  int can_finish = f->cfg.budget != RONDO_BUDGET_NEVER;
  for (uint32_t c = 0; c < 2; c++) {
    struct rondo_collective_desc d = rondo_all_reduce(c, 1000, RONDO_INT32, RONDO_SUM);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &colls[c]), RONDO_SUCCESS);
  }
  for (uint32_t i = 0; i < 2; i++) {
    uint32_t c = (i + rank) % 2;
    RONDO_MEMBER_STATUS(rondo_run(ctx, colls[c], in, out + c * 1000, NULL, NULL), RONDO_SUCCESS);
  }
  for (uint32_t c = 0; c < 2; c++)
    RONDO_MEMBER_STATUS(
        rondo_wait(ctx, colls[c], RONDO_LAST_RUN, can_finish ? LONG_NS : INT64_C(300000000)),
        can_finish ? RONDO_SUCCESS : RONDO_ERR_TIMEOUT);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks); // nobody is let go before all have seen it
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  free(out);
}

static void opposite_orders_deadlock_without_preemption_alone(void **state) {
  (void)state;
  uint32_t ranks = rondo_family_machines > 2 ? rondo_family_machines : 2; // one a machine
  for (int budget = RONDO_BUDGET_ADAPTIVE; budget <= RONDO_BUDGET_NEVER; budget++) {
    struct rondo_family *f = rondo_family_create(ranks, ranks);
    f->cfg.budget = budget;
    f->cfg.report_on_timeout = 0;
    rondo_family_run(f, opposed_member, NULL);
    rondo_family_destroy(f);
  }
}

// ------------------------------------------------------------------ machines --

static uint32_t machine_of(const struct rondo_family *f, uint32_t rank) {
  return f->machines ? rondo_family_machine_of(f, rondo_family_process_of(f, rank)) : 0;
}

// The rank after this one in the order by machines, round the end.
static uint32_t next_by_machines(const struct rondo_family *f, uint32_t rank) {
  for (uint32_t m = 0; m <= f->machines; m++)
    for (uint32_t r = m ? 0 : rank + 1; r < f->ranks; r++)
      if (machine_of(f, r) == (machine_of(f, rank) + m) % (f->machines ? f->machines : 1))
        return r;
  return 0;
}

// The first collective is registered before the others are known to be there, the second after.
static void ring_member(struct rondo_family *f, uint32_t rank) {
  enum { COUNT = 20000 };
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  float *data = calloc(COUNT * (f->ranks + 1), sizeof *data);
  for (uint64_t id = 1; id <= 2; id++) {
    struct rondo_collective_desc d = rondo_all_gather(id, COUNT, RONDO_FLOAT32);
    struct rondo_collective coll;
    struct rondo_rank *self = NULL;
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, data, data + COUNT, NULL, NULL), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &self), RONDO_SUCCESS);
    const struct rondo_coll *c = rondo_coll_find(self, coll);
    RONDO_MEMBER_TRUE(c->registration.members[c->plan->send.listed[0]] ==
                      next_by_machines(f, rank));
    rondo_rank_unpin(ctx);
  }
  free(data);
  rondo_family_close(ctx);
}

static void rings_follow_machines(void **state) {
  (void)state;
  setenv("RONDO_ALGO", "all_gather=ring", 1);
  run_family(4, 8, ring_member);
  unsetenv("RONDO_ALGO");
}

// --------------------------------------------------------------- transports --

// The transport between two ranks of this family: chosen or requested.
static int expected_transport(const struct rondo_family *f, uint32_t a, uint32_t b) {
  const char *forced = getenv("RONDO_TRANSPORT");
  uint32_t x = rondo_family_process_of(f, a), y = rondo_family_process_of(f, b);
  if (x == y)
    return RONDO_TRANSPORT_LOCAL;
  if (forced && strcmp(forced, "ucx") == 0)
    return RONDO_TRANSPORT_UCX;
  if (!f->machines || rondo_family_machine_of(f, x) == rondo_family_machine_of(f, y))
    return forced && strcmp(forced, "nccl") == 0 && !getenv("RONDO_TEST_FAKE_NCCL")
               ? RONDO_TRANSPORT_NCCL
               : RONDO_TRANSPORT_SHARED_MEMORY;
  return f->cfg.transport == RONDO_TRANSPORT_SHARED_MEMORY ? RONDO_TRANSPORT_NONE
                                                           : RONDO_TRANSPORT_UCX;
}

static void reporting_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  for (uint32_t r = 0; r < f->ranks; r++)
    RONDO_MEMBER_TRUE(transport_to(ctx, r) == expected_transport(f, rank, r));
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  rondo_family_close(ctx);
}

static void the_transport_is_chosen_for_each_pair(void **state) {
  (void)state;
  run_family(4, 8, reporting_member);
}

// Calls of the driver that do not work in the process of rank 1; and which ranks nevertheless map
// memory of the other's device.
static const struct {
  const char *call;
  int maps[2];
} refused[] = {{"cuMemImportFromShareableHandle", {1, 0}},
               {"cuMemGetAllocationGranularity", {0, 0}},
               {"cuMemAddressReserve", {0, 0}},
               {"cuMemCreate", {0, 1}},
               {"cuMemExportToShareableHandle", {0, 1}},
               {"cuMemMap", {0, 0}},
               {"cuMemSetAccess", {0, 0}}};

static void refusing_member(struct rondo_family *f, uint32_t rank) {
  void (*plant)(const char *, uint64_t, uint64_t, int) = NULL;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  char why[256] = "";
  int transport = -1;
  if (driver)
    *(void **)&plant = dlsym(driver, "rondo_fake_fail");
  RONDO_MEMBER_TRUE(plant != NULL);
  if (plant && rank == 1)
    plant(refused[f->words[1]].call, 1, UINT64_MAX, 304); // an error of the operating system
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 1000)), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_transport(ctx, 1 - rank, &transport, why, sizeof why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(transport == RONDO_TRANSPORT_SHARED_MEMORY);
  RONDO_MEMBER_TRUE(strstr(why, refused[f->words[1]].maps[rank] ? "in memory of its device"
                                                                : "in page-locked host memory"));
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks); // a process that has left cannot be reached
  rondo_family_close(ctx);
}

static void a_peer_that_refuses_device_memory_gets_host_memory(void **state) {
  const char *backend = getenv("RONDO_TEST_BACKEND");
  const char *options = getenv("RONDO_TEST_FAKE_CUDA");
  (void)state;
  if (!backend || strcmp(backend, "cuda") != 0 || !options || strchr(options, ',') ||
      getenv("RONDO_TRANSPORT"))
    skip();
  for (uint32_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    struct rondo_family *f = rondo_family_create(2, 2);
    f->words[1] = i;
    rondo_family_run(f, refusing_member, NULL);
    rondo_family_destroy(f);
  }
}

// One of two asks for no window of NCCL, which the other hears at once: neither waits for it until
// the time is up.
static void unequal_member(struct rondo_family *f, uint32_t rank) {
  uint32_t other = f->words[1];
  char why[256] = "";
  int transport = -1;
  if (rank == other)
    unsetenv("RONDO_TRANSPORT");
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 1000)), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_transport(ctx, 1 - rank, &transport, why, sizeof why), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(transport == RONDO_TRANSPORT_SHARED_MEMORY);
  RONDO_MEMBER_TRUE(rank == other || strstr(why, "asks for no window"));
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks); // a process that has left cannot be reached
  rondo_family_close(ctx);
}

static void a_rank_that_wants_no_window_leaves_its_peer_without(void **state) {
  const char *forced = getenv("RONDO_TRANSPORT");
  (void)state;
  if (!forced || strcmp(forced, "nccl") != 0 || getenv("RONDO_TEST_FAKE_NCCL"))
    skip();
  for (uint32_t other = 0; other < 2; other++) {
    struct rondo_family *f = rondo_family_create(2, 2);
    f->words[1] = other;
    rondo_family_run(f, unequal_member, NULL);
    rondo_family_destroy(f);
  }
}

// A rank on the host among two that ask for a window of NCCL: these get theirs, though the other
// may never say a word.
static struct rondo_context open_on(struct rondo_family *f, uint32_t rank, int backend) {
  struct rondo_context ctx;
  struct rondo_config cfg = f->cfg;
  cfg.backend = backend;
  if (rank == 0) {
    RONDO_MEMBER_STATUS(rondo_unique_id_listen(&f->ids[0], &cfg), RONDO_SUCCESS);
    rondo_store_release_u32(&f->has_id[0], 1);
  }
  rondo_family_await(&f->has_id[0], 1);
  cfg.id = f->ids[0];
  cfg.rank = rank;
  cfg.rank_count = f->ranks;
  RONDO_MEMBER_STATUS(rondo_init(&ctx, &cfg), RONDO_SUCCESS);
  return ctx;
}

// A run of the ranks that are on devices.
static void run_without(struct rondo_context ctx, const struct rondo_family *f, uint32_t left_out) {
  struct rondo_collective_desc d = rondo_barrier(1);
  struct rondo_collective coll;
  uint32_t members[2] = {left_out == 0, left_out == 2 ? 1 : 2};
  RONDO_MEMBER_TRUE(f->ranks == 3);
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, members, 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, NULL, NULL, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS), RONDO_SUCCESS);
}

static void mixed_member(struct rondo_family *f, uint32_t rank) {
  uint32_t on_host = f->words[1];
  (void)setenv("RONDO_NCCL_TIMEOUT_NS", "200000000000", 1); // longer than anybody here waits
  struct rondo_context ctx =
      open_on(f, rank, rank == on_host ? RONDO_BACKEND_HOST : RONDO_BACKEND_CUDA);
  if (rank != on_host) {
    run_without(ctx, f, on_host);
    for (uint32_t r = 0; r < f->ranks; r++)
      RONDO_MEMBER_TRUE(r == rank || r == on_host || transport_to(ctx, r) == RONDO_TRANSPORT_NCCL);
  }
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks); // a process that has left cannot be reached
  rondo_family_close(ctx);
}

static void a_process_on_the_host_takes_no_window_from_others(void **state) {
  const char *forced = getenv("RONDO_TRANSPORT");
  (void)state;
  if (!forced || strcmp(forced, "nccl") != 0 || getenv("RONDO_TEST_FAKE_NCCL"))
    skip();
  for (uint32_t host = 0; host < 3; host += 2) {
    struct rondo_family *f = rondo_family_create(3, 3);
    f->words[1] = host;
    rondo_family_run(f, mixed_member, NULL);
    rondo_family_destroy(f);
  }
}

// ------------------------------------------------------------ event counts --

static const struct rondo_event_counts *event_counts_of(struct rondo_context ctx) {
  struct rondo_rank *rank = NULL;
  RONDO_MEMBER_STATUS(rondo_rank_pin(ctx, "test", &rank), RONDO_SUCCESS);
  const struct rondo_event_counts *counts = &rank->job->transports.event_counts;
  rondo_rank_unpin(ctx);
  return counts;
}

// Rank 1 comes late to each run: not before rank 0 says that it wants to be woken.
static void late_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective coll = enter(ctx, 1, 10);
  const struct rondo_event_counts *counts = event_counts_of(ctx);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
  rondo_family_await(&counts->count, 1);
  for (uint32_t round = 1; round <= 4; round++) {
    uint32_t before = rondo_load_acquire_u32(&counts->own->count);
    if (rank == 0)
      rondo_family_add(&f->words[0]);
    rondo_family_await(&f->words[0], round);
    if (rank == 1)
      rondo_family_await(&counts->others[0]->has_waiters, 1);
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
    if (rank == 0)
      rondo_family_await(&counts->own->count, before + 1);
  }
  rondo_family_close(ctx);
}

static void a_sleeper_beside_a_late_process_is_notified(void **state) {
  (void)state;
  if (rondo_family_machines || getenv("RONDO_TEST_BACKEND") || getenv("RONDO_TRANSPORT"))
    skip();
  run_family(2, 2, late_member);
}

// Two ports, which make two leaders.
static struct rondo_members_calls calls_with_ports;
static int (*process_get)(struct rondo_members *members, uint32_t process,
                          struct rondo_members_process *out);

static int process_get_with_ports(struct rondo_members *members, uint32_t process,
                                  struct rondo_members_process *out) {
  int status = process_get(members, process, out);
  if (status == RONDO_SUCCESS)
    out->ports = 2;
  return status;
}

static void ports_pretend(void) {
  calls_with_ports = *rondo_members_calls;
  process_get = calls_with_ports.process_get;
  calls_with_ports.process_get = process_get_with_ports;
  rondo_members_calls = &calls_with_ports;
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("processes", every_collective_is_exact_between_2_processes),
      RONDO_NAMED_TEST("processes", every_collective_is_exact_between_4_processes),
      RONDO_NAMED_TEST("processes", every_collective_is_exact_where_some_ranks_share_a_process),
      RONDO_NAMED_TEST("processes", pairs_meet_between_5_processes),
      RONDO_NAMED_TEST("processes", pairs_meet_where_some_ranks_share_a_process),
      RONDO_NAMED_TEST("processes", disorder_completes_between_2_processes),
      RONDO_NAMED_TEST("processes", disorder_completes_between_8_processes),
      RONDO_NAMED_TEST("processes", disorder_completes_between_4_processes),
      RONDO_NAMED_TEST("processes", large_messages_take_one_interface_between_4_processes),
      RONDO_NAMED_TEST("processes", payload_memory_between_processes_is_lent),
      RONDO_NAMED_TEST("processes", opposite_orders_deadlock_without_preemption_alone),
      RONDO_NAMED_TEST("processes", rings_follow_machines),
      RONDO_NAMED_TEST("processes", the_transport_is_chosen_for_each_pair),
      RONDO_NAMED_TEST("processes", a_peer_that_refuses_device_memory_gets_host_memory),
      RONDO_NAMED_TEST("processes", a_rank_that_wants_no_window_leaves_its_peer_without),
      RONDO_NAMED_TEST("processes", a_process_on_the_host_takes_no_window_from_others),
      RONDO_NAMED_TEST("processes", a_sleeper_beside_a_late_process_is_notified),
      RONDO_NAMED_TEST("processes", a_mismatch_ends_the_runs_of_all),
      RONDO_NAMED_TEST("processes", a_mismatch_of_groups_reaches_ranks_that_were_not_named),
      RONDO_NAMED_TEST("processes", a_rank_that_comes_after_a_mismatch_gets_it_too),
      RONDO_NAMED_TEST("processes", a_deregistration_ends_the_runs_beyond_its_own),
      RONDO_NAMED_TEST("processes", a_process_that_exits_early_ends_the_runs_that_wait_for_it),
      RONDO_NAMED_TEST("processes", an_abort_reaches_the_members_and_nobody_else),
      RONDO_NAMED_TEST("processes", a_job_leaves_nothing_behind),
      RONDO_NAMED_TEST("processes", a_killed_process_ends_the_runs_with_it_and_no_others),
      RONDO_NAMED_TEST("processes", shared_memory_alone_leads_to_no_other_machine),
      RONDO_NAMED_TEST("processes", whose_link_is_down_ends_the_runs_with_it_and_no_others),
      RONDO_NAMED_TEST("processes", a_process_stopped_for_too_long_is_given_up),
      RONDO_NAMED_TEST("processes", heartbeats_find_a_stopped_process_long_before_the_peer_timeout),
      RONDO_NAMED_TEST("processes", a_process_stopped_for_a_while_or_slow_is_not),
  };
  bool has_ports = argc > 2 && strcmp(argv[1], "ports") == 0;
  bool is_in_turn = has_ports || (argc > 2 && strcmp(argv[1], "turns") == 0);
  if (has_ports)
    ports_pretend();
  bool has_networks = argc > 2 && strcmp(argv[1], "networks") == 0;
  if (has_networks)
    rondo_machines_networks = 2;
  if (is_in_turn || has_networks || (argc > 2 && strcmp(argv[1], "machines") == 0)) {
    rondo_family_in_turn = is_in_turn;
    rondo_family_machines = (uint32_t)strtoul(argv[2], NULL, 10);
    if (!rondo_machines_open(rondo_family_machines))
      return 77;
    cmocka_set_test_filter(argc > 3 ? argv[3] : NULL);
  } else if (argc > 1 && strcmp(argv[1], "soak") == 0) {
    rondo_kill_rounds = 200;
    cmocka_set_test_filter("*killed*");
  } else if (argc > 1) {
    cmocka_set_test_filter(argv[1]);
  }
  int failed = cmocka_run_group_tests_name("processes", tests, NULL, NULL);
  for (int i = 2; i < argc && !rondo_family_machines; i++) {
    cmocka_set_test_filter(argv[i]);
    failed += cmocka_run_group_tests_name("processes", tests, NULL, NULL);
  }
  rondo_machines_close();
  return failed;
}
