// Whole collectives against a slow reference, bit by bit: the order in which an element's inputs
// are reduced (docs/algorithms.md), how elements are cut into chunks, what each hop computes and
// where it rounds (docs/numerics.md). The reference is written from the pages, in the slow
// arithmetic of tests/unit/test_move_reference.h, and shares nothing with the library but the
// layout of struct rondo_reduction. A reference with another order or another rounding must differ.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/support/job.h"
#include "tests/support/load.h"
#include "tests/support/named.h"
#include "tests/unit/test_move_reference.h"
#include "tools/kit/shape.h"
#include "tools/kit/thread_group.h"

#define MAX_RANKS 8u
#define SMALL_BYTES 8192u  // what is at most this goes straight
#define BLOCK_BYTES 65536u // a collective takes one block for each of these
#define ALIGN_BYTES 64u
#define DEFAULT_SLOT_BYTES 262144u
#define TREE_CHUNK_BYTES 65536u

// A deliberate fault of a reference, to show that the comparison finds it.
enum mutation {
  FAITHFUL = 0,
  STARTS_ONE_LATER,
  GOES_BACKWARDS,
  ROUNDS_ONCE,
  CUTS_EVENLY,
  MUTATIONS,
  ADDS_IN_A_ROW // of recursive doubling, halving and trees alone
};

struct job_case {
  struct rondo_kit_shape shape;
  uint32_t in_place;
  uint32_t is_raw; // inputs are any bits, NaN and infinity included
  uint32_t is_doubling;
  uint32_t is_halving; // a reduce-scatter
  uint32_t is_one_shot;
  uint32_t is_double_tree;
  uint32_t is_binomial; // a reduce
  uint32_t blocks, slot_bytes;
};

struct member {
  struct rondo_collective coll;
  unsigned char *memory;
  struct rondo_kit_place place;
  int status;
};

struct bench {
  struct rondo_test_job job;
  struct job_case c;
  struct member members[MAX_RANKS];
};

static struct bench bench;

// ------------------------------------------------------------------- inputs ---

static double scalar_of(int dtype, uint32_t rank) {
  return dtype <= RONDO_UINT64 ? 2.7 + rank : (double)(0.3f + 0.4f * (float)rank);
}

// The input of `rank` at index `i`: numbers of about one size, so that every sum rounds; or any
// bits.
static uint64_t input(const struct job_case *c, uint32_t rank, uint64_t i) {
  uint64_t state = (uint64_t)rank << 40 ^ i ^ (uint64_t)c->shape.redop << 60;
  uint64_t bits = rondo_test_random(&state);
  int dtype = c->shape.dtype;
  if (dtype <= RONDO_UINT64 || c->is_raw)
    return dtype_bytes(dtype) == 8 ? bits : bits & ((UINT64_C(1) << 8 * dtype_bytes(dtype)) - 1);
  double size = 0.75 + (double)(bits >> 12) * 0x1p-52;
  return reference_bits(dtype, bits & 1 ? -size : size);
}

// ---------------------------------------------------------------- reference ---

static struct rondo_reduction reduction_of(const struct job_case *c, uint32_t rank) {
  static const uint8_t bases[RONDO_REDOP_COUNT] = {[RONDO_PROD] = RONDO_REDUCE_PROD,
                                                   [RONDO_MAX] = RONDO_REDUCE_MAX,
                                                   [RONDO_MIN] = RONDO_REDUCE_MIN};
  uint32_t n = c->shape.rank_count;
  int dtype = c->shape.dtype;
  struct rondo_reduction r = {.dtype = (uint8_t)dtype, .divisor = n};
  int factor_type = dtype == RONDO_FLOAT64 ? RONDO_FLOAT64 : RONDO_FLOAT32;
  r.base = bases[c->shape.redop];
  if (c->shape.redop == RONDO_AVG && n > 1) {
    r.divide = dtype <= RONDO_UINT64;
    r.scale = !r.divide;
    r.factor = reference_bits(factor_type, 1.0 / n);
  }
  if (c->shape.redop == RONDO_PREMUL_SUM) {
    double scalar = scalar_of(dtype, rank);
    r.scale = 1;
    r.factor =
        dtype <= RONDO_UINT64
            ? (uint64_t)scalar
            : reference_bits(factor_type, reference_number(dtype, reference_bits(dtype, scalar)));
  }
  return r;
}

static uint64_t up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// The chunk of its loop in which an element lies, of an all-reduce by ring or by double tree or a
// reduce by double tree.
static uint32_t chunk_of(const struct job_case *c, uint64_t element, int mutation) {
  uint64_t elem_bytes = dtype_bytes(c->shape.dtype);
  uint64_t n = c->is_double_tree ? 2 : c->shape.rank_count;
  uint64_t count = c->shape.count;
  uint64_t align = mutation == CUTS_EVENLY ? 1 : ALIGN_BYTES / elem_bytes;
  uint64_t blocks = up(count * elem_bytes, BLOCK_BYTES);
  blocks = blocks > c->blocks ? c->blocks : blocks;
  uint64_t chunk_bytes = up(up(count * elem_bytes, blocks * n), ALIGN_BYTES) * ALIGN_BYTES;
  uint64_t cap_bytes = c->slot_bytes ? c->slot_bytes : DEFAULT_SLOT_BYTES;
  if (c->is_double_tree && cap_bytes > TREE_CHUNK_BYTES)
    cap_bytes = TREE_CHUNK_BYTES;
  uint64_t chunk = (chunk_bytes > cap_bytes ? cap_bytes : chunk_bytes) / elem_bytes;
  // A block's share, then a loop of it, then what is left for this loop.
  uint64_t share = up(up(count, blocks), ALIGN_BYTES / elem_bytes) * (ALIGN_BYTES / elem_bytes);
  uint64_t begin = element / share * share;
  uint64_t end = begin + share < count ? begin + share : count;
  begin += (element - begin) / (n * chunk) * (n * chunk);
  if (end - begin < n * chunk) {
    uint64_t even = up(up(end - begin, n), align) * align;
    chunk = even < chunk ? even : chunk;
  }
  return (uint32_t)((element - begin) / chunk);
}

// The position whose input goes first.
static uint32_t first_of(const struct job_case *c, uint64_t element, int mutation) {
  bool is_small = c->shape.count * dtype_bytes(c->shape.dtype) <= SMALL_BYTES;
  uint32_t after = is_small && c->shape.rank_count > 2 ? 0 : 1; // a direct reduction begins
  switch (c->shape.kind) {
  case RONDO_REDUCE:
    return c->shape.root + after;
  case RONDO_REDUCE_SCATTER:
    return (uint32_t)(element / c->shape.count) + after;
  default:
    if (is_small || c->is_one_shot)
      return 0;
    return chunk_of(c, element, mutation) + 1;
  }
}

// The sum without rounding on the way, as far as a double goes.
static uint64_t summed_once(const struct job_case *c, uint64_t element, uint32_t first) {
  double sum = 0;
  for (uint32_t k = 0; k < c->shape.rank_count; k++) {
    uint32_t rank = (first + k) % c->shape.rank_count;
    sum += reference_number(c->shape.dtype, input(c, rank, element));
  }
  return reference_bits(c->shape.dtype, sum);
}

// The sum of the 2^round ranks from `first` on, in recursive doubling. `core`: the greatest power
// of two that is at most the number of ranks; rank + core, if there is one, has been added to rank.
static uint64_t doubled(const struct job_case *c, uint64_t element, uint32_t first, uint32_t round,
                        uint32_t core) {
  struct rondo_reduction r = reduction_of(c, first);
  uint64_t value = reference_scaled(&r, input(c, first, element));
  uint32_t half = round ? 1u << (round - 1) : 0, other = first + core;
  if (round > 0) {
    value = doubled(c, element, first, round - 1, core);
    other = first + half;
  } else if (other >= c->shape.rank_count) {
    return value;
  }
  uint64_t incoming = 0;
  if (round > 0) {
    incoming = doubled(c, element, other, round - 1, core);
  } else {
    struct rondo_reduction theirs = reduction_of(c, other);
    incoming = reference_scaled(&theirs, input(c, other, element));
  }
  r.scale = 0; // both have been multiplied
  return reference_reduced(&r, value, incoming, 1u << round == core);
}

static uint64_t replay_doubling(const struct job_case *c, uint64_t element) {
  uint32_t round = 0;
  while (2u << round <= c->shape.rank_count)
    round++;
  return doubled(c, element, 0, round, 1u << round);
}

// What rank `rank` has of the chunk that is `offset` ranks further after so many rounds of halving.
static uint64_t halved(const struct job_case *c, uint64_t element, uint32_t rank, uint32_t offset,
                       uint32_t rounds) {
  uint32_t n = c->shape.rank_count, from = n;
  struct rondo_reduction r = reduction_of(c, rank);
  if (rounds == 0)
    return reference_scaled(&r, input(c, rank, element));
  for (uint32_t k = 1; k < rounds; k++)
    from -= from / 2;
  uint32_t kept = from - from / 2;
  uint64_t value = halved(c, element, rank, offset, rounds - 1);
  if (offset >= from / 2)
    return value; // nobody adds to it in this round
  uint64_t incoming = halved(c, element, (rank + n - kept) % n, offset + kept, rounds - 1);
  r.scale = 0; // both have been multiplied
  return reference_reduced(&r, value, incoming, kept == 1);
}

static uint64_t replay_halving(const struct job_case *c, uint64_t element) {
  uint32_t rounds = 0;
  for (uint32_t left = c->shape.rank_count; left > 1; left -= left / 2)
    rounds++;
  return halved(c, element, (uint32_t)(element / c->shape.count), 0, rounds);
}

// What a node of a tree adds: what comes from below it to what it has, which is multiplied.
static uint64_t added(const struct job_case *c, uint64_t value, uint64_t incoming, int is_last) {
  struct rondo_reduction r = reduction_of(c, 0);
  r.scale = 0;
  return reference_reduced(&r, value, incoming, is_last);
}

// The input of the rank at step `step` from the root, multiplied.
static uint64_t input_at(const struct job_case *c, uint64_t element, uint32_t step) {
  uint32_t root = c->shape.kind == RONDO_REDUCE ? c->shape.root : 0;
  uint32_t rank = (root + step) % c->shape.rank_count;
  struct rondo_reduction r = reduction_of(c, rank);
  return reference_scaled(&r, input(c, rank, element));
}

// The sum of the numbers from `low` to `high` of tree `tree`. The greatest power of two of them
// ends with the top: what is before it is the larger subtree, what is after it the smaller one.
static uint64_t tree_sum(const struct job_case *c, uint64_t element, uint32_t tree, uint32_t low,
                         uint32_t high) {
  uint32_t power = 1, last = c->shape.rank_count - 1;
  while (2 * power <= high - low + 1)
    power *= 2;
  uint32_t top = low + power - 1, step = top;
  if (tree)
    step = last % 2 == 0 ? last + 1 - top : top == 1 ? last : top - 1;
  uint64_t value = input_at(c, element, step);
  if (top < high)
    value = added(c, value, tree_sum(c, element, tree, top + 1, high), 0);
  if (low < top)
    value = added(c, value, tree_sum(c, element, tree, low, top - 1), 0);
  return value;
}

static uint64_t replay_double_tree(const struct job_case *c, uint64_t element) {
  uint32_t tree = chunk_of(c, element, FAITHFUL);
  return added(c, input_at(c, element, 0), tree_sum(c, element, tree, 1, c->shape.rank_count - 1),
               1);
}

// The sum of node `node` of a binomial tree and of all below it.
static uint64_t binomial_sum(const struct job_case *c, uint64_t element, uint32_t node) {
  uint32_t n = c->shape.rank_count;
  uint64_t value = input_at(c, element, node);
  for (uint32_t d = 1; node + d < n && node % (2 * d) == 0; d *= 2)
    value = added(c, value, binomial_sum(c, element, node + d), node == 0 && 2 * d >= n);
  return value;
}

// The expected result of the collective for one element.
static uint64_t replay(const struct job_case *c, uint64_t element, int mutation) {
  uint32_t n = c->shape.rank_count;
  assert(n > 0);
  if (c->is_doubling && mutation != ADDS_IN_A_ROW)
    return replay_doubling(c, element);
  if (c->is_halving && mutation != ADDS_IN_A_ROW)
    return replay_halving(c, element);
  if (c->is_double_tree && mutation != ADDS_IN_A_ROW)
    return replay_double_tree(c, element);
  if (c->is_binomial && mutation != ADDS_IN_A_ROW)
    return binomial_sum(c, element, 0);
  uint32_t first = first_of(c, element, mutation) + (mutation == STARTS_ONE_LATER);
  if (mutation == ROUNDS_ONCE)
    return summed_once(c, element, first);
  struct rondo_reduction r = reduction_of(c, first % n);
  uint64_t value = reference_scaled(&r, input(c, first % n, element));
  for (uint32_t k = 1; k < n; k++) {
    uint32_t rank = (first + (mutation == GOES_BACKWARDS ? n - k : k)) % n;
    r = reduction_of(c, rank);
    value = reference_reduced(&r, input(c, rank, element), value, k == n - 1);
  }
  return value;
}

// ------------------------------------------------------------------ running ---

static void store(void *to, uint64_t i, uint32_t bytes, uint64_t bits) {
  memcpy((char *)to + i * bytes, &bits, bytes); // little-endian, as all that Rondo runs on
}

static uint64_t load(const void *from, uint64_t i, uint32_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, (const char *)from + i * bytes, bytes);
  return bits;
}

static void prepare(struct member *m, const struct job_case *c, uint32_t rank) {
  uint32_t bytes = dtype_bytes(c->shape.dtype);
  uint64_t all = rondo_kit_shape_bytes(&c->shape);
  m->memory = malloc(2 * all);
  assert_non_null(m->memory);
  memset(m->memory, 0xa5, 2 * all);
  m->place = rondo_kit_shape_place(&c->shape, rank, c->in_place, m->memory, m->memory + all);
  uint64_t elements = rondo_kit_shape_send_bytes(&c->shape) / bytes;
  for (uint64_t i = 0; i < elements; i++)
    store(m->place.send, i, bytes, input(c, rank, i));
}

static void run_member(void *arg, uint32_t rank) {
  struct bench *b = arg;
  struct member *m = &b->members[rank];
  struct rondo_collective_desc d = rondo_kit_shape_desc(&b->c.shape, 1, rank);
  d.scalar = scalar_of(b->c.shape.dtype, rank);
  m->status = rondo_register(b->job.ctx[rank], &d, &m->coll);
  if (m->status == RONDO_SUCCESS)
    m->status = rondo_run(b->job.ctx[rank], m->coll, m->place.send, m->place.recv, NULL, NULL);
  if (m->status == RONDO_SUCCESS)
    m->status = rondo_wait(b->job.ctx[rank], m->coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
  if (m->status == RONDO_SUCCESS)
    m->status = rondo_deregister(b->job.ctx[rank], m->coll);
}

static void run_case(const struct job_case *c) {
  struct rondo_kit_thread_group group = {c->shape.rank_count, false, run_member, &bench};
  bench.c = *c;
  for (uint32_t r = 0; r < c->shape.rank_count; r++)
    prepare(&bench.members[r], c, r);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  for (uint32_t r = 0; r < c->shape.rank_count; r++)
    assert_int_equal(bench.members[r].status, RONDO_SUCCESS);
}

static void forget_case(void) {
  for (uint32_t r = 0; r < bench.c.shape.rank_count; r++)
    free(bench.members[r].memory);
}

// ---------------------------------------------------------------- comparing ---

// The received bits of an element, by rank; whether a rank receives it at all.
static int received(uint32_t rank, uint64_t element, uint64_t *bits) {
  const struct rondo_kit_shape *s = &bench.c.shape;
  uint64_t at = element;
  if (s->kind == RONDO_REDUCE && rank != s->root)
    return 0;
  if (s->kind == RONDO_REDUCE_SCATTER) {
    if (element / s->count != rank)
      return 0;
    at = element % s->count;
  }
  *bits = load(bench.members[rank].place.recv, at, dtype_bytes(s->dtype));
  return 1;
}

static void fail_element(uint32_t rank, uint64_t element, uint64_t got, uint64_t wanted) {
  const struct job_case *c = &bench.c;
  fail_msg("%s of %llu × %s, %s, root %u, %u ranks, %s, %s inputs, %u blocks, slots of %u: element "
           "%llu on rank %u is %llx, not %llx",
           rondo_kind_name(c->shape.kind), (unsigned long long)c->shape.count,
           rondo_dtype_name(c->shape.dtype), rondo_redop_name(c->shape.redop), c->shape.root,
           c->shape.rank_count, c->in_place ? "in place" : "out of place",
           c->is_raw ? "any" : "tame", c->blocks, c->slot_bytes, (unsigned long long)element, rank,
           (unsigned long long)got, (unsigned long long)wanted);
}

static uint64_t element_count(const struct job_case *c) {
  return c->shape.kind == RONDO_REDUCE_SCATTER ? c->shape.count * c->shape.rank_count
                                               : c->shape.count;
}

// Counts elements whose bits differ from the reference on some rank. The right reference has none.
static uint64_t differing(int mutation) {
  const struct job_case *c = &bench.c;
  uint64_t mask = UINT64_MAX >> (64 - 8 * dtype_bytes(c->shape.dtype));
  uint64_t different = 0;
  for (uint64_t e = 0; e < element_count(c); e++) {
    uint64_t wanted = replay(c, e, mutation) & mask;
    uint32_t seen = 0;
    int is_different = 0;
    for (uint32_t r = 0; r < c->shape.rank_count; r++) {
      uint64_t got = 0;
      if (!received(r, e, &got))
        continue;
      seen++;
      is_different |= got != wanted;
      if (got != wanted && mutation == FAITHFUL)
        fail_element(r, e, got, wanted);
    }
    assert_true(seen > 0);
    different += (uint64_t)is_different;
  }
  return different;
}

// -------------------------------------------------------------------- tests ---

static const int kinds[] = {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_REDUCE};
static const uint32_t rank_counts[] = {1, 2, 3, 5, 7, 8};
static const uint64_t counts[] = {1, 13, 997, 2053, 10007};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

// The algorithms that the reference knows besides doubling. Others may be faster and be chosen.
#define STRAIGHT_OR_ROUND                                                                          \
  "all_reduce=direct:8K,ring,reduce_scatter=direct:8K,ring,reduce=direct:8K,ring"

static void open_job(uint32_t ranks, uint32_t blocks, uint32_t slot_bytes, const char *algorithms) {
  struct rondo_config c = RONDO_CONFIG_INIT;
  c.blocks = blocks;
  c.slot_bytes = slot_bytes;
  assert_int_equal(setenv("RONDO_ALGO", algorithms, 1), 0);
  rondo_test_job_open(&bench.job, ranks, &c);
  assert_int_equal(unsetenv("RONDO_ALGO"), 0);
}

static struct job_case case_of(uint32_t ranks, uint32_t number, uint64_t *random) {
  struct job_case c = {.blocks = 1};
  c.shape.kind = kinds[number % COUNT_OF(kinds)];
  c.shape.dtype = (int)(number / COUNT_OF(kinds) % RONDO_DTYPE_COUNT);
  c.shape.redop = (int)(number / COUNT_OF(kinds) / RONDO_DTYPE_COUNT);
  c.shape.rank_count = ranks;
  c.shape.root = (uint32_t)(rondo_test_random(random) % ranks);
  c.shape.count = counts[rondo_test_random(random) % COUNT_OF(counts)];
  if (c.shape.kind == RONDO_REDUCE_SCATTER)
    c.shape.count = c.shape.count / ranks + 1;
  c.in_place = rondo_test_random(random) % 2;
  c.is_raw = rondo_test_random(random) % 4 == 0;
  return c;
}

// Every kind × type × reduction for one number of ranks.
static void hold_all(uint32_t ranks, uint32_t blocks, uint32_t slot_bytes) {
  uint64_t random = ranks;
  uint32_t cases = (uint32_t)COUNT_OF(kinds) * RONDO_DTYPE_COUNT * RONDO_REDOP_COUNT;
  uint32_t stride = (uint32_t)rondo_test_load(1, 7);
  open_job(ranks, blocks, slot_bytes, STRAIGHT_OR_ROUND);
  for (uint32_t i = ranks % stride; i < cases; i += stride) {
    struct job_case c = case_of(ranks, i, &random);
    c.blocks = blocks;
    c.slot_bytes = slot_bytes;
    run_case(&c);
    assert_int_equal(differing(FAITHFUL), 0);
    forget_case();
  }
  rondo_test_job_close(&bench.job);
}

static void every_element_has_the_documented_bits(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(rank_counts); i++)
    hold_all(rank_counts[i], i % 2 ? 3 : 1, i % 3 == 2 ? 1024 : 0);
}

// Every type × reduction, and sizes of one loop and of several. `forced`: what RONDO_ALGO says;
// `like`: what the reference must know. Returns how many elements would be different if all inputs
// were added in a row.
static uint64_t hold_forced(const char *forced, const struct job_case *like) {
  uint64_t random = 1, other_sums = 0;
  uint32_t stride = (uint32_t)rondo_test_load(1, 7);
  uint32_t number = 0; // of the kind
  while (kinds[number] != like->shape.kind)
    number++;
  for (size_t k = 0; k < COUNT_OF(rank_counts); k++) {
    uint32_t ranks = rank_counts[k];
    open_job(ranks, 1 + k % 2, k % 3 == 2 ? 1024 : 0, forced);
    for (uint32_t i = ranks % stride; i < RONDO_DTYPE_COUNT * RONDO_REDOP_COUNT; i += stride) {
      struct job_case c = case_of(ranks, i * (uint32_t)COUNT_OF(kinds) + number, &random);
      assert_int_equal(c.shape.kind, kinds[number]);
      c.is_doubling = like->is_doubling && ranks > 1;
      c.is_halving = like->is_halving && ranks > 1;
      c.is_one_shot = like->is_one_shot;
      c.is_double_tree = like->is_double_tree && ranks > 1;
      c.is_binomial = like->is_binomial && ranks > 1;
      c.blocks = 1 + k % 2;
      c.slot_bytes = k % 3 == 2 ? 1024 : 0;
      c.shape.count = counts[i % COUNT_OF(counts)];
      run_case(&c);
      assert_int_equal(differing(FAITHFUL), 0);
      other_sums += ranks > 1 ? differing(ADDS_IN_A_ROW) : 0;
      forget_case();
    }
    rondo_test_job_close(&bench.job);
  }
  return other_sums;
}

static void recursive_doubling_adds_as_documented(void **state) {
  (void)state;
  const struct job_case like = {.is_doubling = 1};
  assert_true(hold_forced("all_reduce=doubling", &like) > 0);
}

static void halving_adds_as_documented(void **state) {
  (void)state;
  const struct job_case like = {.shape.kind = RONDO_REDUCE_SCATTER, .is_halving = 1};
  assert_true(hold_forced("reduce_scatter=halving", &like) > 0);
}

static void one_shot_adds_in_the_order_of_positions(void **state) {
  (void)state;
  const struct job_case like = {.is_one_shot = 1};
  assert_int_equal(hold_forced("all_reduce=one-shot", &like), 0);
  assert_int_equal(hold_forced("all_reduce=one-shot-packets", &like), 0);
}

static void trees_add_as_documented(void **state) {
  (void)state;
  struct job_case like = {.is_double_tree = 1};
  assert_true(hold_forced("all_reduce=double-tree", &like) > 0);
  like.shape.kind = RONDO_REDUCE;
  assert_true(hold_forced("reduce=double-tree", &like) > 0);
  like = (struct job_case){.shape.kind = RONDO_REDUCE, .is_binomial = 1};
  assert_true(hold_forced("reduce=binomial", &like) > 0);
}

// A large all-reduce: several loops, blocks with a rest each.
static struct job_case large_case(int dtype, uint32_t ranks) {
  struct job_case c = {.blocks = 3, .slot_bytes = 4096};
  c.shape = (struct rondo_kit_shape){RONDO_ALL_REDUCE, dtype, RONDO_SUM, ranks, 0, 0, 50021};
  return c;
}

static void cutting_into_blocks_loops_and_chunks_is_as_documented(void **state) {
  (void)state;
  static const int dtypes[] = {RONDO_FLOAT64, RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_FLOAT8_E4M3};
  open_job(5, 3, 4096, STRAIGHT_OR_ROUND);
  for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
    struct job_case c = large_case(dtypes[i], 5);
    c.in_place = i % 2;
    run_case(&c);
    assert_int_equal(differing(FAITHFUL), 0);
    forget_case();
  }
  rondo_test_job_close(&bench.job);
}

static void another_order_cut_or_rounding_is_seen(void **state) {
  (void)state;
  static const int dtypes[] = {RONDO_FLOAT64,  RONDO_FLOAT32,     RONDO_FLOAT16,
                               RONDO_BFLOAT16, RONDO_FLOAT8_E4M3, RONDO_FLOAT8_E5M2};
  open_job(5, 3, 4096, STRAIGHT_OR_ROUND);
  for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
    struct job_case c = large_case(dtypes[i], 5);
    run_case(&c);
    for (int mutation = FAITHFUL + 1; mutation < MUTATIONS; mutation++)
      // float64: the sum without rounding on the way is made of doubles, too.
      if (mutation != ROUNDS_ONCE || dtypes[i] != RONDO_FLOAT64)
        assert_true(differing(mutation) > 0);
    forget_case();
  }
  rondo_test_job_close(&bench.job);
}

#if defined(__x86_64__)
#define FLUSHING_AND_ROUNDING_UP 0xdfc0u // of MXCSR, all exceptions masked

struct flushing_thread {
  float sum[2];
  uint32_t control; // what is left of it
};

static struct flushing_thread flushing_threads[2];

static void sum_in_an_environment_of_its_own(void *arg, uint32_t rank) {
  static const float inputs[2][2] = {{1e-40f, 1.0f}, {1e-40f, 1e-10f}};
  const struct rondo_test_job *job = arg;
  struct rondo_collective_desc d = rondo_all_reduce(1, 2, RONDO_FLOAT32, RONDO_SUM);
  struct rondo_collective coll;
  struct flushing_thread *s = &flushing_threads[rank];
  uint32_t before = _mm_getcsr();
  _mm_setcsr(FLUSHING_AND_ROUNDING_UP);
  if (rondo_register(job->ctx[rank], &d, &coll) == RONDO_SUCCESS &&
      rondo_run(job->ctx[rank], coll, inputs[rank], s->sum, NULL, NULL) == RONDO_SUCCESS)
    (void)rondo_wait(job->ctx[rank], coll, RONDO_LAST_RUN, RONDO_TEST_LONG_NS);
  s->control = _mm_getcsr() & FLUSHING_AND_ROUNDING_UP;
  _mm_setcsr(before);
}

// Threads of the application that help: their own environment neither counts nor changes.
static void what_a_thread_has_set_for_its_own_numbers_does_not_count(void **state) {
  (void)state;
  struct rondo_test_job job;
  struct rondo_kit_thread_group group = {2, false, sum_in_an_environment_of_its_own, &job};
  const float subnormal = 1e-40f; // twice that, flushed, is 0
  rondo_test_job_open(&job, 2, NULL);
  assert_int_equal(rondo_kit_thread_group_run(&group), 0);
  for (uint32_t r = 0; r < 2; r++) {
    assert_true(flushing_threads[r].sum[0] == 2 * subnormal);
    assert_true(flushing_threads[r].sum[1] == 1.0f); // and not the number above
    assert_int_equal(flushing_threads[r].control, FLUSHING_AND_ROUNDING_UP);
  }
  rondo_test_job_close(&job);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
    RONDO_NAMED_TEST("arithmetic", what_a_thread_has_set_for_its_own_numbers_does_not_count),
#endif
    RONDO_NAMED_TEST("arithmetic", every_element_has_the_documented_bits),
    RONDO_NAMED_TEST("arithmetic", recursive_doubling_adds_as_documented),
    RONDO_NAMED_TEST("arithmetic", halving_adds_as_documented),
    RONDO_NAMED_TEST("arithmetic", one_shot_adds_in_the_order_of_positions),
    RONDO_NAMED_TEST("arithmetic", trees_add_as_documented),
    RONDO_NAMED_TEST("arithmetic", cutting_into_blocks_loops_and_chunks_is_as_documented),
    RONDO_NAMED_TEST("arithmetic", another_order_cut_or_rounding_is_seen),
  };
  return cmocka_run_group_tests_name("arithmetic", tests, NULL, NULL);
}
