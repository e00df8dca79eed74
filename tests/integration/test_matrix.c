// Every kind, type and reduction at many counts, alignments and cuts: a rank a thread. Each case is
// run three times: once with inputs whose result is known exactly, then twice with the same random
// bits, for which all ranks must receive the same bits both times.
//
//   test_matrix           a sample that holds every kind × type × reduction, several times
//   test_matrix full [N]  all of it, or what of it has N ranks; a line for every 5,280 cases
//   test_matrix large     more than 2^31 elements
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/plan/build.h"
#include "tests/support/combinations.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/named.h"
#include "tools/kit/shape.h"
#include "tools/kit/thread_group.h"

#define GUARD_BYTES 64u
#define GUARD 0xa5
#define MAX_CASES 4096u

struct matrix_case {
  struct rondo_kit_shape shape;
  uint32_t in_place;
  uint32_t misaligned; // bytes from a boundary to the start of the buffers
};

// Where a case went wrong on a rank, and what it received.
struct outcome {
  const char *failed; // null: nothing
  int status;
  uint64_t wrong;
  uint64_t received[2]; // hashes of what the two runs with random bits gave
};

struct lot {
  struct rondo_test_job job;
  uint32_t case_count;
  struct matrix_case cases[MAX_CASES];
  struct outcome *outcomes; // case_count × ranks
};

struct buffers {
  unsigned char *memory; // guard, send, guard, recv, guard
  uint64_t send_bytes, recv_bytes;
  unsigned char *send_base, *recv_base;
  struct rondo_kit_place place;
};

static struct lot lot;

static const uint64_t counts[] = {0, 1, 2, 3, 5, 17, 64, 127, 1000, 4099, 20011};
#define COUNTS (sizeof counts / sizeof *counts)
static const uint32_t misalignments[] = {0, 1, 3};

// ------------------------------------------------------------------ one case --

static uint64_t hash(const unsigned char *bytes, uint64_t count) {
  uint64_t h = 1469598103934665603u;
  for (uint64_t i = 0; i < count; i++)
    h = (h ^ bytes[i]) * 1099511628211u;
  return h;
}

static int buffers_init(struct buffers *b, const struct matrix_case *m, uint32_t rank) {
  uint64_t bytes = rondo_kit_shape_bytes(&m->shape);
  b->send_bytes = m->in_place ? 0 : rondo_kit_shape_send_bytes(&m->shape);
  b->recv_bytes = m->in_place ? bytes : rondo_kit_shape_recv_bytes(&m->shape);
  uint64_t total = b->send_bytes + b->recv_bytes + 3 * GUARD_BYTES + 2 * m->misaligned;
  b->memory = malloc(total);
  if (!b->memory)
    return -1;
  memset(b->memory, GUARD, total);
  b->send_base = b->memory + GUARD_BYTES + m->misaligned;
  b->recv_base = b->send_base + b->send_bytes + GUARD_BYTES;
  b->place = rondo_kit_shape_place(&m->shape, rank, m->in_place, b->send_base, b->recv_base);
  return 0;
}

static int guards_hold(const struct buffers *b) {
  for (uint32_t i = 0; i < GUARD_BYTES; i++)
    if (b->memory[i] != GUARD || b->recv_base[(int64_t)i - GUARD_BYTES] != GUARD ||
        b->recv_base[b->recv_bytes + i] != GUARD)
      return 0;
  return 1;
}

static void fill_random(const struct matrix_case *m, uint32_t rank, unsigned char *send) {
  uint64_t state = rank * 7919u + m->shape.count;
  uint64_t bytes = rondo_kit_shape_send_bytes(&m->shape);
  for (uint64_t i = 0; i < bytes; i++)
    send[i] = (unsigned char)(rondo_test_random(&state) >> 32);
}

// One run; `what` failed with `status`, or null.
static const char *run_once(struct rondo_context ctx, struct rondo_collective coll,
                            const struct buffers *b, int *status) {
  *status = rondo_run(ctx, coll, b->place.send, b->place.recv, NULL, NULL);
  if (*status != RONDO_SUCCESS)
    return "rondo_run";
  *status = rondo_wait(ctx, coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
  return *status == RONDO_SUCCESS ? NULL : "rondo_wait";
}

static void run_case(struct rondo_context ctx, struct rondo_collective coll, uint32_t rank,
                     const struct matrix_case *m, struct outcome *o) {
  struct buffers b;
  uint64_t sent = 0;
  if (buffers_init(&b, m, rank)) {
    o->failed = "malloc";
    return;
  }
  rondo_kit_shape_fill(&m->shape, rank, m->shape.count, b.place.send);
  sent = hash(b.send_base, b.send_bytes);
  o->failed = run_once(ctx, coll, &b, &o->status);
  if (!o->failed)
    o->wrong = rondo_kit_shape_wrong(&m->shape, rank, m->shape.count, b.place.recv);
  if (!o->failed && sent != hash(b.send_base, b.send_bytes))
    o->failed = "the send buffer was written";
  for (int i = 0; i < 2 && !o->failed; i++) {
    fill_random(m, rank, b.place.send);
    o->failed = run_once(ctx, coll, &b, &o->status);
    if (rondo_kit_shape_checked(&m->shape, rank))
      o->received[i] = hash(b.place.recv, rondo_kit_shape_recv_bytes(&m->shape));
  }
  if (!o->failed && !guards_hold(&b))
    o->failed = "memory beside the buffers was written";
  free(b.memory);
}

static void member(void *arg, uint32_t rank) {
  struct lot *l = arg;
  struct rondo_context ctx = l->job.ctx[rank];
  for (uint32_t i = 0; i < l->case_count; i++) {
    struct outcome *o = &l->outcomes[i * l->job.ranks + rank];
    struct rondo_collective_desc d = rondo_kit_shape_desc(&l->cases[i].shape, i, rank);
    struct rondo_collective coll;
    o->failed = "rondo_register";
    o->status = rondo_register(ctx, &d, &coll);
    if (o->status != RONDO_SUCCESS)
      return;
    run_case(ctx, coll, rank, &l->cases[i], o);
    if (o->failed)
      return;
    o->status = rondo_deregister(ctx, coll);
    o->failed = o->status == RONDO_SUCCESS ? NULL : "rondo_deregister";
  }
}

// --------------------------------------------------------------------- a lot --

static void fail_case(const struct rondo_config *c, uint32_t i, uint32_t rank, const char *what) {
  const struct matrix_case *m = &lot.cases[i];
  const struct outcome *o = &lot.outcomes[i * lot.job.ranks + rank];
  fail_msg(
      "%s: %s of %llu × %s, %s, root %u, rank %u of %u, %s, misaligned by %u, %u blocks, slots "
      "of %u: status %d, %llu wrong",
      what, rondo_kind_name(m->shape.kind), (unsigned long long)m->shape.count,
      rondo_dtype_name(m->shape.dtype), rondo_redop_name(m->shape.redop), m->shape.root, rank,
      lot.job.ranks, m->in_place ? "in place" : "out of place", m->misaligned, c->blocks,
      c->slot_bytes, o->status, (unsigned long long)o->wrong);
}

static int all_receive_the_same(int kind) {
  return kind == RONDO_ALL_REDUCE || kind == RONDO_ALL_GATHER || kind == RONDO_BROADCAST;
}

static void check_case(const struct rondo_config *c, uint32_t i) {
  const struct outcome *first = &lot.outcomes[i * lot.job.ranks];
  for (uint32_t r = 0; r < lot.job.ranks; r++) {
    const struct outcome *o = first + r;
    if (o->failed)
      fail_case(c, i, r, o->failed);
    if (o->wrong)
      fail_case(c, i, r, "wrong result");
    if (o->received[0] != o->received[1])
      fail_case(c, i, r, "other bits when repeated");
    if (all_receive_the_same(lot.cases[i].shape.kind) && o->received[0] != first->received[0])
      fail_case(c, i, r, "other bits than rank 0");
  }
}

static void run_lot(uint32_t ranks, const struct rondo_config *c) {
  struct rondo_kit_thread_group group = {ranks, false, member, &lot};
  struct rondo_counters counters;
  rondo_test_job_open(&lot.job, ranks, c);
  lot.outcomes = calloc((size_t)lot.case_count * ranks, sizeof *lot.outcomes);
  assert_non_null(lot.outcomes);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  for (uint32_t i = 0; i < lot.case_count; i++)
    check_case(c, i);
  assert_int_equal(rondo_counters(lot.job.ctx[0], &counters), RONDO_SUCCESS);
  assert_int_equal(counters.connector_bytes, 0);
  free(lot.outcomes);
  rondo_test_job_close(&lot.job);
}

static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 8, 16};
static const uint32_t block_counts[] = {1, 2, 4};
static const uint32_t slot_sizes[] = {64, 4096, 0};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

// ------------------------------------------------------------------- sampled --

static void sample(uint32_t ranks, uint32_t case_count, uint32_t *next, uint64_t *random) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.blocks = block_counts[rondo_test_random(random) % COUNT_OF(block_counts)];
  c.slot_bytes = slot_sizes[rondo_test_random(random) % COUNT_OF(slot_sizes)];
  lot.case_count = case_count;
  for (uint32_t i = 0; i < case_count; i++) {
    struct matrix_case *m = &lot.cases[i];
    m->shape = rondo_test_combination((*next)++ % RONDO_TEST_COMBINATIONS);
    m->shape.rank_count = ranks;
    m->shape.root = (uint32_t)(rondo_test_random(random) % ranks);
    m->shape.count = counts[rondo_test_random(random) % COUNTS];
    if (ranks * m->shape.count > 60000) // small slots and many ranks: keep it short
      m->shape.count = 4099;
    m->in_place = rondo_test_random(random) % 2 && rondo_kit_shape_may_be_in_place(&m->shape);
    m->misaligned = misalignments[rondo_test_random(random) % COUNT_OF(misalignments)];
  }
  run_lot(ranks, &c);
}

static void a_sample_is_exact_and_repeatable(void **state) {
  (void)state;
  uint64_t random = 1;
  // A number that has no factor in common with that of the combinations: all of them come up.
  uint32_t case_count = (uint32_t)rondo_test_load(49, 11);
  uint32_t next = 0;
  for (uint32_t round = 0; round < rondo_test_load(4, 1); round++)
    for (size_t i = 0; i < COUNT_OF(rank_counts); i++)
      sample(rank_counts[i], case_count, &next, &random);
  assert_true(next >= rondo_test_load(RONDO_TEST_COMBINATIONS, 1));
}

static void many_ranks_share_a_process(void **state) {
  (void)state;
  enum { RANKS = 72 };
  struct rondo_config c = RONDO_CONFIG_INIT;
  lot.case_count = 0;
  for (int kind = 0; kind < RONDO_KIND_COUNT; kind++) {
    struct rondo_kit_shape s = {kind, RONDO_FLOAT32, RONDO_SUM, RANKS, 0, 0, 300};
    s.root = (uint32_t)kind * 13 % RANKS;
    if (!rondo_kit_shape_is_kind(kind))
      continue;
    for (int in_place = 0; in_place <= rondo_kit_shape_may_be_in_place(&s); in_place++)
      lot.cases[lot.case_count++] = (struct matrix_case){s, (uint32_t)in_place, 0};
  }
  run_lot(RANKS, &c);
}

// Copies that bypass the caches (RONDO_COLD_BYTES), to any alignment.
static void what_caches_cannot_hold_is_exact(void **state) {
  (void)state;
  if (!rondo_test_load(1, 0))
    skip(); // minutes of looking at values; test_move.c looks at all bytes around
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_kit_shape s = {RONDO_ALL_GATHER, RONDO_FLOAT64, RONDO_SUM, 2, 0, 0, (1u << 20) + 3};
  lot.cases[0] = (struct matrix_case){s, 0, 1};
  s.kind = RONDO_BROADCAST;
  s.count *= 2;
  lot.cases[1] = (struct matrix_case){s, 0, 3};
  lot.case_count = 2;
  run_lot(2, &c);
}

// ---------------------------------------------------------------------- full --

#define FULL_LOT 60u // combinations that a job goes through

static void fill_full(uint32_t ranks, uint32_t first, uint64_t *random) {
  lot.case_count = 0;
  for (uint32_t k = first; k < RONDO_TEST_COMBINATIONS && k < first + FULL_LOT; k++) {
    for (size_t i = 0; i < 2 * COUNTS; i++) {
      struct matrix_case *m = &lot.cases[lot.case_count++];
      m->shape = rondo_test_combination(k);
      m->shape.rank_count = ranks;
      m->shape.root = (uint32_t)(rondo_test_random(random) % ranks);
      m->shape.count = counts[i / 2];
      m->in_place = i % 2 && rondo_kit_shape_may_be_in_place(&m->shape);
      m->misaligned = misalignments[rondo_test_random(random) % COUNT_OF(misalignments)];
    }
  }
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// All combinations and counts with one configuration; says that it is done.
static void run_full(uint32_t ranks, const struct rondo_config *c) {
  uint64_t random = ranks * 64 + c->blocks;
  uint32_t cases = 0;
  double begun = seconds();
  for (uint32_t first = 0; first < RONDO_TEST_COMBINATIONS; first += FULL_LOT) {
    fill_full(ranks, first, &random);
    run_lot(ranks, c);
    cases += lot.case_count;
  }
  assert_int_equal(cases, RONDO_TEST_COMBINATIONS * 2 * COUNTS);
  printf("%u ranks, %u blocks, slots of %u: %u cases in %.1f s\n", ranks, c->blocks, c->slot_bytes,
         cases, seconds() - begun);
  (void)fflush(stdout);
}

static uint32_t only_ranks; // 0: all of rank_counts

static void all_of_it_is_exact_and_repeatable(void **state) {
  (void)state;
  uint32_t done = 0;
  for (size_t r = 0; r < COUNT_OF(rank_counts); r++)
    for (size_t i = 0; i < COUNT_OF(block_counts) * COUNT_OF(slot_sizes); i++) {
      struct rondo_config c = RONDO_CONFIG_INIT;
      if (only_ranks && rank_counts[r] != only_ranks)
        continue;
      c.blocks = block_counts[i / COUNT_OF(slot_sizes)];
      c.slot_bytes = slot_sizes[i % COUNT_OF(slot_sizes)];
      run_full(rank_counts[r], &c);
      done++;
    }
  assert_true(done > 0);
}

// --------------------------------------------------------------------- large --

static void more_than_two_to_the_31_elements(void **state) {
  (void)state;
  struct rondo_config c = RONDO_CONFIG_INIT;
  struct rondo_kit_shape s = {RONDO_ALL_REDUCE,          RONDO_UINT8, RONDO_SUM, 2, 0, 0,
                              (UINT64_C(1) << 31) + 4099};
  lot.cases[0] = (struct matrix_case){s, 1, 0};
  lot.case_count = 1;
  run_lot(2, &c);
}

int main(int argc, char **argv) {
  const struct CMUnitTest sampled[] = {
      RONDO_NAMED_TEST("matrix", a_sample_is_exact_and_repeatable),
      RONDO_NAMED_TEST("matrix", many_ranks_share_a_process),
      RONDO_NAMED_TEST("matrix", what_caches_cannot_hold_is_exact),
  };
  const struct CMUnitTest full[] = {
      RONDO_NAMED_TEST("matrix", all_of_it_is_exact_and_repeatable),
  };
  const struct CMUnitTest large[] = {
      RONDO_NAMED_TEST("matrix", more_than_two_to_the_31_elements),
  };
  if (argc > 2)
    only_ranks = (uint32_t)strtoul(argv[2], NULL, 10);
  if (argc > 1 && strcmp(argv[1], "full") == 0)
    return cmocka_run_group_tests_name("matrix_full", full, NULL, NULL);
  if (argc > 1 && strcmp(argv[1], "large") == 0)
    return cmocka_run_group_tests_name("matrix_large", large, NULL, NULL);
  return cmocka_run_group_tests_name("matrix", sampled, NULL, NULL);
}
