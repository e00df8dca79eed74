// All-reduces with quantised messages: the bits of a slow reference (docs/numerics.md) on all
// members, again at every repeat, in any order of calls; among threads, processes and both. How far
// they are from exact sums; what differs between members; what is refused; what a death leaves.
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rondo/comm.h>

#include "tests/support/family.h"
#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/log.h"
#include "tests/support/named.h"
#include "tests/unit/test_quantise_reference.h"

#define LONG_NS RONDO_TEST_LONG_NS
#define MAX_RANKS 8u
#define BLOCKS 2u
#define SLOT_BYTES 8192u
#define BLOCK_BYTES 65536u // a collective takes one block for each of these
#define ALIGN_ELEMS 16u

struct shape {
  uint64_t count;
  int redop, quantisation;
  bool in_place, is_raw; // raw: NaN, infinities, the smallest and the largest floats too
};

// Counts that fill no chunk, one loop, several loops, and two blocks.
static const uint64_t counts[] = {0, 1, 3, 17, 255, 256, 1000, 4099, 16384, 70001};
#define COUNTS (sizeof counts / sizeof *counts)
#define SHAPES (2 * 2 * 2 * COUNTS)

static struct shape shape_at(uint32_t i) {
  return (struct shape){.count = counts[i / 8],
                        .redop = i & 1 ? RONDO_AVG : RONDO_SUM,
                        .quantisation = i & 2 ? RONDO_QUANTISE_INT8 : RONDO_QUANTISE_FLOAT8_E4M3,
                        .in_place = i & 4,
                        .is_raw = (i / 8) % 3 == 1};
}

static float input(const struct shape *s, uint32_t rank, uint64_t i) {
  static const uint32_t raw[] = {0x7fffffff, 0x7f800000, 0xff800000, 0x80000000, 0,
                                 0x7f7fffff, 0xff7fffff, 0x00000001, 0x00400000};
  uint64_t state = (uint64_t)rank << 40 ^ i ^ (uint64_t)s->quantisation << 60;
  uint64_t random = rondo_test_random(&state);
  if (s->is_raw && random % 32 == 0)
    return quantise_float(raw[random / 32 % 9]);
  // Every third 1,000 elements are subnormal, so scales are at their least.
  float value = (float)(int32_t)(random >> 32) * 0x1p-31f;
  return s->is_raw && i / 1000 % 3 == 2 ? ldexpf(value, -127) : value;
}

// ---------------------------------------------------------------- reference ---

static uint64_t up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// The part of the elements that one chunk has.
struct piece {
  uint64_t begin, count;
  uint32_t chunk;
};

// The chunk in which `element` lies (docs/numerics.md, "Order").
static struct piece piece_at(uint64_t count, uint64_t n, uint64_t element) {
  uint64_t blocks = up(4 * count, BLOCK_BYTES);
  blocks = blocks > BLOCKS ? BLOCKS : blocks;
  uint64_t chunk_bytes = up(up(4 * count, blocks * n), 64) * 64;
  uint64_t chunk = (chunk_bytes > SLOT_BYTES ? SLOT_BYTES : chunk_bytes) / 4;
  uint64_t share = up(up(count, blocks), ALIGN_ELEMS) * ALIGN_ELEMS;
  uint64_t begin = element / share * share;
  uint64_t end = begin + share < count ? begin + share : count;
  begin += (element - begin) / (n * chunk) * (n * chunk);
  if (end - begin < n * chunk) {
    uint64_t even = up(up(end - begin, n), ALIGN_ELEMS) * ALIGN_ELEMS;
    chunk = even < chunk ? even : chunk;
  }
  struct piece p = {.chunk = (uint32_t)((element - begin) / chunk)};
  p.begin = begin + p.chunk * chunk;
  p.count = end - p.begin < chunk ? end - p.begin : chunk;
  return p;
}

// What `rank` adds of a piece.
static void contribution(const struct shape *s, uint32_t n, uint32_t rank, const struct piece *p,
                         float *values) {
  for (uint64_t i = 0; i < p->count; i++) {
    values[i] = input(s, rank, p->begin + i);
    if (s->redop == RONDO_AVG)
      values[i] = quantise_settled(values[i] * (1.0f / (float)n));
  }
}

// Round the ring from the rank after the owner to the owner, each sum quantised before it is sent.
static void piece_reduce(const struct shape *s, uint32_t n, const struct piece *p, float *result) {
  float *sums = malloc(2 * p->count * sizeof *sums), *own = sums + p->count;
  unsigned char *message = malloc(2 * p->count + 8);
  RONDO_MEMBER_TRUE(sums && message);
  for (uint32_t step = 0; step < n; step++) {
    contribution(s, n, (p->chunk + 1 + step) % n, p, own);
    for (uint64_t i = 0; i < p->count; i++)
      sums[i] = step ? quantise_settled(sums[i] + own[i]) : own[i];
    quantise_reference(s->quantisation, sums, p->count, message, result);
    memcpy(sums, result, p->count * sizeof *sums);
  }
  free(message);
  free(sums);
}

static float *expected_of(const struct shape *s, uint32_t n) {
  float *result = malloc(4 * s->count + 4);
  RONDO_MEMBER_TRUE(result);
  for (uint64_t at = 0; at < s->count;) {
    struct piece p = piece_at(s->count, n, at);
    if (n > 1)
      piece_reduce(s, n, &p, result + p.begin);
    else
      contribution(s, n, 0, &p, result + p.begin);
    at = p.begin + p.count;
  }
  return result;
}

// Of each shape. The test computes them before it forks.
static float *expected[SHAPES];

// ------------------------------------------------------------------- members ---

struct member {
  struct rondo_context ctx;
  uint32_t rank, ranks;
  uint64_t random;
  struct rondo_collective colls[SHAPES];
  float *send[SHAPES], *recv[SHAPES];
};

static void member_register(struct member *m, uint32_t i) {
  const struct shape s = shape_at(i);
  struct rondo_collective_desc d = rondo_all_reduce(i, s.count, RONDO_FLOAT32, s.redop);
  d.quantisation = (uint32_t)s.quantisation;
  d.priority = (int)(i % 3);
  RONDO_MEMBER_STATUS(rondo_register(m->ctx, &d, &m->colls[i]), RONDO_SUCCESS);
  m->recv[i] = malloc(4 * s.count + 4);
  m->send[i] = s.in_place ? m->recv[i] : malloc(4 * s.count + 4);
  RONDO_MEMBER_TRUE(m->send[i] && m->recv[i]);
}

static void member_submit(struct member *m, uint32_t i) {
  const struct shape s = shape_at(i);
  memset(m->recv[i], 0xff, 4 * s.count);
  for (uint64_t k = 0; k < s.count; k++)
    m->send[i][k] = input(&s, m->rank, k);
  RONDO_MEMBER_STATUS(rondo_run(m->ctx, m->colls[i], m->send[i], m->recv[i], NULL, NULL),
                      RONDO_SUCCESS);
}

// All members have the bits of the reference, so those of each other and of every round.
static void member_check(struct member *m, uint32_t i) {
  const struct shape s = shape_at(i);
  RONDO_MEMBER_STATUS(rondo_wait(m->ctx, m->colls[i], RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  for (uint64_t k = 0; k < s.count; k++) {
    uint32_t got, wanted;
    memcpy(&got, &m->recv[i][k], 4);
    memcpy(&wanted, &expected[i][k], 4);
    if (got == wanted || (m->ranks == 1 && isnan(m->recv[i][k]) && isnan(expected[i][k])))
      continue;
    fprintf(stderr, "rank %u of %u, %s of %llu, redop %d, element %llu: %08x, expected %08x\n",
            m->rank, m->ranks, rondo_quantisation_name(s.quantisation), (unsigned long long)s.count,
            s.redop, (unsigned long long)k, got, wanted);
    RONDO_MEMBER_TRUE(got == wanted);
  }
}

// Every rank registers, submits and checks in orders of its own.
static void member_run(struct rondo_family *f, uint32_t rank) {
  struct member *m = calloc(1, sizeof *m);
  uint32_t order[SHAPES];
  RONDO_MEMBER_TRUE(m);
  m->ctx = rondo_family_open(f, 0, rank, f->ranks);
  m->rank = rank;
  m->ranks = f->ranks;
  m->random = f->seed * 977 + rank;
  rondo_test_shuffle(order, SHAPES, &m->random);
  for (uint32_t k = 0; k < SHAPES; k++)
    member_register(m, order[k]);
  for (uint32_t round = 0; round < rondo_test_load(4, 2); round++) {
    rondo_test_shuffle(order, SHAPES, &m->random);
    for (uint32_t k = 0; k < SHAPES; k++)
      member_submit(m, order[k]);
    rondo_test_shuffle(order, SHAPES, &m->random);
    for (uint32_t k = 0; k < SHAPES; k++)
      member_check(m, order[k]);
  }
  rondo_family_close(m->ctx);
  for (uint32_t i = 0; i < SHAPES; i++) {
    if (m->send[i] != m->recv[i])
      free(m->send[i]);
    free(m->recv[i]);
  }
  free(m);
}

static void family_run(uint32_t processes, uint32_t ranks,
                       void (*member)(struct rondo_family *f, uint32_t rank),
                       void (*watch)(struct rondo_family *f)) {
  struct rondo_family *f = rondo_family_create(processes, ranks);
  f->seed = ranks;
  f->cfg.blocks = BLOCKS;
  f->cfg.slot_bytes = SLOT_BYTES;
  f->cfg.workers = 2; // more blocks than threads, so the blocks of a ring take turns
  rondo_family_run(f, member, watch);
  rondo_family_destroy(f);
}

static void results_check(uint32_t processes, uint32_t ranks) {
  for (uint32_t i = 0; i < SHAPES; i++) {
    const struct shape s = shape_at(i);
    expected[i] = expected_of(&s, ranks);
  }
  family_run(processes, ranks, member_run, NULL);
  for (uint32_t i = 0; i < SHAPES; i++)
    free(expected[i]);
}

static void all_members_have_the_bits_of_the_reference(void **state) {
  (void)state;
  for (uint32_t n = 1; n <= MAX_RANKS; n += (uint32_t)rondo_test_load(1, 3))
    results_check(1, n);
}

static void members_in_several_processes_have_them_too(void **state) {
  (void)state;
  results_check(2, 2);
  results_check(2, 4);
  results_check(3, 3);
}

// --------------------------------------------------------------------- errors ---

#define ERROR_COUNT 5000u

// The bound of docs/numerics.md: each of the n quantisations of partial sums, none of which is
// larger than the sum of all magnitudes.
static void member_err(struct rondo_family *f, uint32_t rank) {
  static const struct shape s = {.count = ERROR_COUNT};
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  for (int quantisation = 1; quantisation < RONDO_QUANTISATION_COUNT; quantisation++) {
    struct rondo_collective_desc d =
        rondo_all_reduce((uint64_t)quantisation, ERROR_COUNT, RONDO_FLOAT32, RONDO_SUM);
    struct rondo_collective coll;
    float *values = malloc(ERROR_COUNT * sizeof *values);
    double most = 0, worst = 0;
    RONDO_MEMBER_TRUE(values);
    d.quantisation = (uint32_t)quantisation;
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
    for (uint32_t i = 0; i < ERROR_COUNT; i++)
      values[i] = input(&s, rank, i);
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
    for (uint32_t i = 0; i < ERROR_COUNT; i++) {
      double size = 0;
      for (uint32_t r = 0; r < f->ranks; r++)
        size += fabs((double)input(&s, r, i));
      most = size > most ? size : most;
    }
    for (uint32_t i = 0; i < ERROR_COUNT; i++) {
      double sum = 0, size = 0;
      for (uint32_t r = 0; r < f->ranks; r++) {
        sum += (double)input(&s, r, i);
        size += fabs((double)input(&s, r, i));
      }
      double more = pow(quantisation == RONDO_QUANTISE_INT8 ? 255.0 / 254 : 17.0 / 16,
                        (double)f->ranks - 1); // of a sum by the errors before
      double bound = f->ranks * quantise_bound(quantisation, more * size, more * most);
      worst = fmax(worst, fabs((double)values[i] - sum) / bound);
    }
    RONDO_MEMBER_TRUE(worst <= 1);
    RONDO_MEMBER_TRUE(worst > 0.05); // it is quantised
    free(values);
  }
  rondo_family_close(ctx);
}

static void errors_keep_within_the_documented_bound(void **state) {
  (void)state;
  for (uint32_t n = 2; n <= MAX_RANKS; n += 3)
    family_run(1, n, member_err, NULL);
}

// -------------------------------------------------------- mismatch and refusal ---

enum { READY = 0, DONE = 1 };

// Rank 1 has another quantisation than the others.
static void member_differ(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  char why[RONDO_REASON_BYTES];
  float values[100] = {0};
  for (uint32_t other = 0; other < RONDO_QUANTISATION_COUNT; other++) {
    if (other == RONDO_QUANTISE_INT8)
      continue;
    struct rondo_collective_desc d = rondo_all_reduce(other, 100, RONDO_FLOAT32, RONDO_SUM);
    struct rondo_collective coll;
    d.quantisation = rank == 1 ? other : RONDO_QUANTISE_INT8;
    RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
    RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_ERR_MISMATCH);
    RONDO_MEMBER_STATUS(rondo_reason(ctx, coll, why, sizeof why), RONDO_SUCCESS);
    RONDO_MEMBER_TRUE(strstr(why, "in its quantisation") && strstr(why, "quantisation int8"));
    RONDO_MEMBER_TRUE(strstr(why, other ? "quantisation float8_e4m3" : "quantisation none"));
  }
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], f->ranks);
  rondo_family_close(ctx);
}

static void members_that_differ_in_it_get_a_mismatch(void **state) {
  (void)state;
  family_run(1, 3, member_differ, NULL);
  family_run(3, 3, member_differ, NULL);
}

static void a_forced_algorithm_that_cannot_do_it_is_refused(void **state) {
  (void)state;
  struct rondo_test_job job = {0};
  struct rondo_collective colls[2];
  assert_int_equal(setenv("RONDO_ALGO", "all_reduce=direct:1K,ring", 1), 0);
  rondo_test_job_open(&job, 2, NULL);
  assert_int_equal(unsetenv("RONDO_ALGO"), 0);
  struct rondo_collective_desc d = rondo_all_reduce(1, 100, RONDO_FLOAT32, RONDO_SUM);
  d.quantisation = RONDO_QUANTISE_INT8;
  rondo_test_log_clear();
  assert_int_equal(rondo_register(job.ctx[0], &d, &colls[0]), RONDO_ERR_UNSUPPORTED);
  assert_true(rondo_test_log_has("RONDO_ALGO forces direct, which has no quantised messages"));
  d.count = 1000;
  rondo_test_job_register(&job, &d, colls);
  rondo_test_job_close(&job);
}

static void other_kinds_types_and_reductions_are_refused(void **state) {
  (void)state;
  struct rondo_test_job job = {0};
  struct rondo_collective coll;
  struct rondo_collective_desc descs[] = {rondo_all_reduce(1, 10, RONDO_FLOAT16, RONDO_SUM),
                                          rondo_all_reduce(1, 10, RONDO_FLOAT64, RONDO_SUM),
                                          rondo_all_reduce(1, 10, RONDO_INT32, RONDO_SUM),
                                          rondo_all_reduce(1, 10, RONDO_FLOAT32, RONDO_MAX),
                                          rondo_all_reduce(1, 10, RONDO_FLOAT32, RONDO_PREMUL_SUM),
                                          rondo_reduce_scatter(1, 10, RONDO_FLOAT32, RONDO_SUM),
                                          rondo_reduce(1, 10, RONDO_FLOAT32, RONDO_SUM, 0),
                                          rondo_broadcast(1, 10, RONDO_FLOAT32, 0),
                                          rondo_barrier(1)};
  rondo_test_job_open(&job, 1, NULL);
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++) {
    descs[i].quantisation = RONDO_QUANTISE_INT8;
    rondo_test_log_clear();
    assert_int_equal(rondo_register(job.ctx[0], &descs[i], &coll), RONDO_ERR_UNSUPPORTED);
    assert_true(rondo_test_log_has("quantised messages are for an all-reduce of float32"));
  }
  descs[0] = rondo_all_reduce(1, 10, RONDO_FLOAT32, RONDO_SUM);
  descs[0].quantisation = RONDO_QUANTISATION_COUNT;
  assert_int_equal(rondo_register(job.ctx[0], &descs[0], &coll), RONDO_ERR_INVALID);
  rondo_test_job_close(&job);
}

// ----------------------------------------------------------------------- loss ---

#define LOSS_COUNT 3000u

static void member_sum(struct rondo_context ctx, struct rondo_collective coll, uint32_t members,
                       float own, float average) {
  float *values = malloc(LOSS_COUNT * sizeof *values);
  uint32_t count = 0;
  RONDO_MEMBER_TRUE(values);
  for (uint32_t i = 0; i < LOSS_COUNT; i++)
    values[i] = own * (float)(i % 2 ? 1 : -1);
  RONDO_MEMBER_STATUS(rondo_run(ctx, coll, values, values, NULL, NULL), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_wait(ctx, coll, RONDO_LAST_RUN, LONG_NS), RONDO_SUCCESS);
  RONDO_MEMBER_STATUS(rondo_run_members(ctx, coll, RONDO_LAST_RUN, NULL, 0, &count), RONDO_SUCCESS);
  RONDO_MEMBER_TRUE(count == members);
  for (uint32_t i = 0; i < LOSS_COUNT; i++)
    RONDO_MEMBER_TRUE(fabsf(values[i] - average * (float)(i % 2 ? 1 : -1)) < 1e-4f);
  free(values);
}

// The members that are left go on with quantised messages. Each sum has one magnitude, which is
// that of the largest code, so little is lost.
static void member_survive(struct rondo_family *f, uint32_t rank) {
  struct rondo_context ctx = rondo_family_open(f, 0, rank, f->ranks);
  struct rondo_collective_desc d = rondo_all_reduce(1, LOSS_COUNT, RONDO_FLOAT32, RONDO_AVG);
  struct rondo_collective coll;
  d.on_loss = RONDO_ON_LOSS_RETRY;
  d.quantisation = RONDO_QUANTISE_INT8;
  RONDO_MEMBER_STATUS(rondo_register(ctx, &d, &coll), RONDO_SUCCESS);
  member_sum(ctx, coll, 3, (float)rank + 1, 2);
  rondo_family_add(&f->words[READY]);
  rondo_family_await(&f->words[READY], 3);
  if (rank == 2)
    kill(getpid(), SIGKILL);
  member_sum(ctx, coll, 2, (float)rank + 1, 1.5f);
  rondo_family_add(&f->words[DONE]);
  rondo_family_await(&f->words[DONE], 2);
  RONDO_MEMBER_STATUS(rondo_destroy(ctx, RONDO_DESTROY_DRAIN, LONG_NS), RONDO_SUCCESS);
}

static void death_await(struct rondo_family *f) { rondo_family_await(&f->words[READY], 3); }

static void survivors_of_a_death_go_on_with_it(void **state) {
  (void)state;
  family_run(3, 3, member_survive, death_await);
}

// The argument, if there is one, names the tests to run.
int main(int argc, char **argv) {
  rondo_test_log_open();
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("quantised", all_members_have_the_bits_of_the_reference),
      RONDO_NAMED_TEST("quantised", members_in_several_processes_have_them_too),
      RONDO_NAMED_TEST("quantised", errors_keep_within_the_documented_bound),
      RONDO_NAMED_TEST("quantised", members_that_differ_in_it_get_a_mismatch),
      RONDO_NAMED_TEST("quantised", survivors_of_a_death_go_on_with_it),
      // Last: these use the library in this process, which forks before.
      RONDO_NAMED_TEST("quantised", a_forced_algorithm_that_cannot_do_it_is_refused),
      RONDO_NAMED_TEST("quantised", other_kinds_types_and_reductions_are_refused),
  };
  return cmocka_run_group_tests_name("quantised", tests, NULL, NULL);
}
