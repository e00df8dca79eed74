// Jobs of several processes of this machine: every collective through shared memory, in any order; and
// what a mismatch, a deregistration, an abort, a process that is killed and one that is stopped do.
//
//   test_processes                    all of it, a few rounds of killing
//   test_processes PATTERN...         of these names
//   test_processes soak               hundreds of rounds of killing and stopping
//   test_processes machines COUNT     the same between "machines", which share no memory
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "examples/kit/shape.h"
#include "queues/platform/atomic.h"
#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/machines.h"
#include "tests/support/named.h"

#define LONG_NS RONDO_TEST_LONG_NS

static uint64_t kill_rounds = 6;

static void run_family(uint32_t processes, uint32_t ranks,
                       void (*member)(struct rondo_family *f, uint32_t rank)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  rondo_family_run(f, member, NULL);
  rondo_family_destroy(f);
}

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
  for (int budget = RONDO_BUDGET_ADAPTIVE; budget <= RONDO_BUDGET_NEVER; budget++) {
    struct rondo_family *f = rondo_family_create(2, 2);
    f->cfg.budget = budget;
    f->cfg.report_on_timeout = 0;
    rondo_family_run(f, opposed_member, NULL);
    rondo_family_destroy(f);
  }
}

// --------------------------------------------------------------- transports --

static int transport_to(struct rondo_context ctx, uint32_t rank) {
  const struct timespec brief = {0, 1000000};
  int transport = -1;
  char why[256];
  for (int status = RONDO_IN_PROGRESS; status == RONDO_IN_PROGRESS; nanosleep(&brief, NULL))
    status = rondo_transport(ctx, rank, &transport, why, sizeof why);
  return transport;
}

// What is chosen between two ranks of this family, or asked for.
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

// ------------------------------------------------------------ registrations --

static const int32_t ones[1000] = {1, 1, 1};

static struct rondo_collective enter(struct rondo_context ctx, uint64_t id, uint64_t count) {
  struct rondo_collective_desc d = rondo_all_reduce(id, count, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  return coll;
}

static int run_and_wait(struct rondo_context ctx, struct rondo_collective coll) {
  int32_t *out = calloc(sizeof ones, 1);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, ones, out, NULL, NULL), RONDO_SUCCESS);
  int status = rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS);
  free(out);
  return status;
}

// Calls of the driver that do not work in the process of rank 1; and which ranks nevertheless map memory of the other's
// device.
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
  rondo_family_await(&f->words[0], f->ranks); // who has left is reached no more
  rondo_family_close(ctx);
}

static void who_refuses_memory_of_devices_gets_that_of_the_host(void **state) {
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

// One of two asks for no window of NCCL, which the other hears at once: neither waits for it until the time is up.
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
  rondo_family_await(&f->words[0], f->ranks); // who has left is reached no more
  rondo_family_close(ctx);
}

static void who_asks_for_no_window_leaves_the_other_without(void **state) {
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

// Runs until a run fails; returns the status of that.
static int run_until_it_fails(struct rondo_context ctx, struct rondo_collective coll) {
  int status = RONDO_SUCCESS;
  while (status == RONDO_SUCCESS)
    status = run_and_wait(ctx, coll);
  return status;
}

static void mismatched_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective good = enter(ctx, 1, 10);
  struct rondo_collective bad = enter(ctx, 2, rank == 2 ? 11 : 10);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, bad), RONDO_ERR_MISMATCH);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, good), RONDO_SUCCESS);
  // The next registration of the id is another one.
  RONDO_MEMBER_STATUS(rondo_deregister(ctx, bad), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 2, 10)), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void a_mismatch_ends_the_runs_of_all(void **state) {
  (void)state;
  run_family(3, 3, mismatched_member);
}

// Ranks 0 and 1 name each other; rank 2 believes that it is with rank 1. Nobody waits for ever.
static void entangled_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t pairs[3][2] = {{0, 1}, {0, 1}, {1, 2}};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective_desc d = rondo_all_reduce(5, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective coll;
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, pairs[rank], 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  // The two may be through with some runs before they hear of the third.
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, coll), RONDO_ERR_MISMATCH);
  rondo_family_close(ctx);
}

static void a_mismatch_of_groups_reaches_those_who_were_not_named(void **state) {
  (void)state;
  run_family(3, 3, entangled_member);
}

static void early_leaver_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective coll = enter(ctx, 1, 1000);
  for (int i = 0; i < 3; i++)
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
  if (rank == 0)
    RONDO_MEMBER_STATUS(rondo_deregister(ctx, coll), RONDO_SUCCESS);
  else
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_ERR_PEER);
  rondo_family_close(ctx);
}

static void who_deregisters_ends_the_runs_beyond_its_own(void **state) {
  (void)state;
  run_family(3, 3, early_leaver_member);
}

static void exiting_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective first = enter(ctx, 1, 10);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, first), RONDO_SUCCESS);
  if (rank != 1) // which never registers the second
    RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 2, 10)), RONDO_ERR_PEER);
  rondo_family_close(ctx);
}

static void who_exits_early_ends_the_runs_that_wait_for_it(void **state) {
  (void)state;
  run_family(3, 3, exiting_member);
}

static void aborting_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some = {0};
  if (rank < 2) {
    RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  }
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  rondo_family_await(&f->words[0], f->ranks);
  if (rank == 2)
    RONDO_MEMBER_STATUS(rondo_abort(ctx), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_ERR_ABORTED);
  if (rank < 2)
    RONDO_MEMBER_STATUS(run_and_wait(ctx, some), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void an_abort_reaches_the_members_and_nobody_else(void **state) {
  (void)state;
  run_family(3, 3, aborting_member);
}

// --------------------------------------------------------------- belongings --

// What the stand-in for the CUDA driver has given and has not got back; 0 where it is not in use.
static uint64_t live_on_device(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  uint64_t (*count)(void) = NULL;
  if (driver)
    *(void **)&count = dlsym(driver, "rondo_fake_live_count");
  uint64_t live = count ? count() : 0;
  if (driver)
    dlclose(driver);
  return live;
}

static void tidy_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_belongings first = {0};
  for (uint32_t job = 0; job < 4; job++) {
    struct rondo_context ctx = rondo_family_open(f, job, rank, f->ranks);
    struct rondo_collective coll = enter(ctx, 1, 1000);
    RONDO_MEMBER_STATUS(run_and_wait(ctx, coll), RONDO_SUCCESS);
    void *memory;
    RONDO_MEMBER_STATUS(rondo_mem_alloc(ctx, 1 << 20, &memory), RONDO_SUCCESS);
    rondo_family_close(ctx);
    rondo_family_add(&f->words[job]);
    rondo_family_await(&f->words[job], f->ranks);
    struct rondo_belongings now = rondo_belongings_count();
    if (job == 1) // the first leaves what lasts as long as the process
      first = now;
    if (job < 2)
      continue;
    RONDO_MEMBER_TRUE(now.descriptors == first.descriptors);
    RONDO_MEMBER_TRUE(live_on_device() == 0);
    // The stand-in keeps the threads of its queues.
    RONDO_MEMBER_TRUE(now.threads == first.threads || f->cfg.backend == RONDO_BACKEND_CUDA);
    // Those of malloc come and go; those of a sanitizer only come.
    RONDO_MEMBER_TRUE(now.mappings <= first.mappings + rondo_test_load(2, 1000));
    RONDO_MEMBER_TRUE(now.shared_files == first.shared_files);
  }
}

static void a_job_leaves_nothing_behind(void **state) {
  (void)state;
  struct rondo_belongings before = rondo_belongings_count();
  run_family(3, 3, tidy_member);
  struct rondo_belongings after = rondo_belongings_count();
  assert_int_equal(after.shared_files, before.shared_files);
  assert_int_equal(after.descriptors, before.descriptors);
}

// ------------------------------------------------------------------- dying --

#define VICTIM 2u // the last rank; the others make a group and a job without it

static void killed_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some;
  rondo_family_add(&f->words[0]);
  if (rank == VICTIM) {
    (void)run_until_it_fails(ctx, all);
    for (;;)
      pause();
  }
  RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, all), RONDO_ERR_PEER);
  // The others go on: in groups without it, and in a job without it.
  RONDO_MEMBER_STATUS(run_and_wait(ctx, some), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 3, 10)), RONDO_ERR_PEER);
  rondo_family_close(ctx);
  ctx = rondo_family_open(f, 1, rank, f->ranks - 1);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 1000)), RONDO_SUCCESS);
  rondo_family_close(ctx);
}

static void rest_for(uint64_t nanoseconds) {
  struct timespec t = {(time_t)(nanoseconds / 1000000000u), (long)(nanoseconds % 1000000000u)};
  nanosleep(&t, NULL);
}

// From before the processes have found each other to the middle of their runs.
static void kill_one(struct rondo_family *f) {
  uint64_t random = f->seed;
  rest_for(rondo_test_random(&random) % 60000000u);
  kill(f->pids[VICTIM], SIGKILL);
}

static void who_is_killed_ends_the_runs_with_it_and_no_others(void **state) {
  (void)state;
  uint64_t rounds = getenv("RONDO_TEST_BACKEND") ? kill_rounds / 2 : kill_rounds;
  for (uint64_t round = 0; round < rounds; round++) {
    struct rondo_belongings before = rondo_belongings_count();
    struct rondo_family *f = rondo_family_create(3, 3);
    f->seed = round;
    f->cfg.join_timeout_ns = UINT64_C(3000000000);
    rondo_family_run(f, killed_member, kill_one);
    rondo_family_destroy(f);
    assert_int_equal(rondo_belongings_count().shared_files, before.shared_files);
  }
}

// ---------------------------------------------------------------- machines --

static void unreachable_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  RONDO_MEMBER_TRUE(transport_to(ctx, 1 - rank) == RONDO_TRANSPORT_NONE);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, enter(ctx, 1, 10)), RONDO_ERR_UNSUPPORTED);
  rondo_family_close(ctx);
}

static void shared_memory_alone_leads_to_no_other_machine(void **state) {
  (void)state;
  if (!rondo_family_machines)
    skip();
  struct rondo_family *f = rondo_family_create(2, 2);
  f->cfg.transport = RONDO_TRANSPORT_SHARED_MEMORY;
  rondo_family_run(f, unreachable_member, NULL);
  rondo_family_destroy(f);
}

static void unplug_one(struct rondo_family *f) {
  uint64_t random = f->seed;
  uint32_t machine = rondo_family_machine_of(f, VICTIM);
  rondo_family_await(&f->words[0], f->ranks);
  rest_for(rondo_test_random(&random) % 50000000u);
  rondo_machines_link(machine, 0);
  rondo_family_await(&f->words[1], f->ranks);
  rondo_machines_link(machine, 1);
}

static void unplugged_member(struct rondo_family *f, uint32_t rank) {
  const uint32_t rest[] = {0, 1};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  struct rondo_collective_desc d = rondo_all_reduce(2, 10, RONDO_INT32, RONDO_SUM);
  struct rondo_collective some = {0};
  if (rank != VICTIM) {
    RONDO_MEMBER_STATUS(rondo_group_create(ctx, rest, 2, &d.group), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &some), RONDO_SUCCESS);
  }
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, all), RONDO_ERR_PEER);
  if (rank != VICTIM)
    RONDO_MEMBER_STATUS(run_and_wait(ctx, some), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
  rondo_family_add(&f->words[1]);
}

static void whose_link_is_down_ends_the_runs_with_it_and_no_others(void **state) {
  (void)state;
  if (!rondo_family_machines)
    skip();
  struct rondo_family *f = rondo_family_create(3, 3);
  f->cfg.peer_timeout_ns = 1000000000;
  f->seed = rondo_family_machines;
  rondo_family_run(f, unplugged_member, unplug_one);
  rondo_family_destroy(f);
}

// ----------------------------------------------------------------- stopping --

static void stop_one(struct rondo_family *f) {
  rondo_family_await(&f->words[0], f->ranks);
  rest_for(20000000);
  kill(f->pids[VICTIM], SIGSTOP);
  if (f->words[1]) // it is given up; what it does when it goes on is nobody's concern
    rondo_family_await(&f->words[2], f->ranks - 1);
  else
    rest_for(300000000);
  kill(f->pids[VICTIM], SIGCONT);
}

static void evicting_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  RONDO_MEMBER_STATUS(run_until_it_fails(ctx, all), RONDO_ERR_PEER);
  rondo_family_add(&f->words[2]);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_ABORT, 0), RONDO_SUCCESS);
}

static void who_is_stopped_for_too_long_is_given_up(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  f->cfg.peer_timeout_ns = 400000000;
  f->words[1] = 1;
  rondo_family_run(f, evicting_member, stop_one);
  rondo_family_destroy(f);
}

static void patient_member(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective all = enter(ctx, 1, 1000);
  RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  rondo_family_add(&f->words[0]);
  for (int i = 0; i < 20; i++) {
    // Slow, too: one rank is far behind the others, and idle meanwhile.
    if (rank == 1 && i == 10)
      rest_for(300000000);
    for (int k = 0; k < 50; k++)
      RONDO_MEMBER_STATUS(run_and_wait(ctx, all), RONDO_SUCCESS);
  }
  rondo_family_close(ctx);
}

static void who_is_stopped_for_a_while_or_slow_is_not(void **state) {
  (void)state;
  struct rondo_family *f = rondo_family_create(3, 3);
  rondo_family_run(f, patient_member, stop_one);
  rondo_family_destroy(f);
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
      RONDO_NAMED_TEST("processes", opposite_orders_deadlock_without_preemption_alone),
      RONDO_NAMED_TEST("processes", the_transport_is_chosen_for_each_pair),
      RONDO_NAMED_TEST("processes", who_refuses_memory_of_devices_gets_that_of_the_host),
      RONDO_NAMED_TEST("processes", who_asks_for_no_window_leaves_the_other_without),
      RONDO_NAMED_TEST("processes", a_mismatch_ends_the_runs_of_all),
      RONDO_NAMED_TEST("processes", a_mismatch_of_groups_reaches_those_who_were_not_named),
      RONDO_NAMED_TEST("processes", who_deregisters_ends_the_runs_beyond_its_own),
      RONDO_NAMED_TEST("processes", who_exits_early_ends_the_runs_that_wait_for_it),
      RONDO_NAMED_TEST("processes", an_abort_reaches_the_members_and_nobody_else),
      RONDO_NAMED_TEST("processes", a_job_leaves_nothing_behind),
      RONDO_NAMED_TEST("processes", who_is_killed_ends_the_runs_with_it_and_no_others),
      RONDO_NAMED_TEST("processes", shared_memory_alone_leads_to_no_other_machine),
      RONDO_NAMED_TEST("processes", whose_link_is_down_ends_the_runs_with_it_and_no_others),
      RONDO_NAMED_TEST("processes", who_is_stopped_for_too_long_is_given_up),
      RONDO_NAMED_TEST("processes", who_is_stopped_for_a_while_or_slow_is_not),
  };
  if (argc > 2 && strcmp(argv[1], "machines") == 0) {
    rondo_family_machines = (uint32_t)strtoul(argv[2], NULL, 10);
    if (!rondo_machines_open(rondo_family_machines))
      return 77;
    cmocka_set_test_filter(argc > 3 ? argv[3] : NULL);
  } else if (argc > 1 && strcmp(argv[1], "soak") == 0) {
    kill_rounds = 200;
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
