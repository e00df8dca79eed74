// The chunks of all loops cut a block's range into pieces without gap or overlap.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/plan/geometry_core.h"
#include "tests/support/load.h"

#define G31 (UINT64_C(1) << 31)
#define T40 (UINT64_C(1) << 40)

static uint64_t random_state;

static uint64_t random_next(void) {
  uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  return z ^ (z >> 27);
}

static void fail_at(const struct rondo_geometry *g, uint64_t loop, uint32_t k, const char *what) {
  fail_msg("%s: begin %llu end %llu segment %llu chunk %u x %u align %u, loop %llu, chunk %u", what,
           (unsigned long long)g->begin, (unsigned long long)g->end, (unsigned long long)g->segment,
           g->chunk_elems, g->chunk_count, (unsigned)g->align_elems, (unsigned long long)loop, k);
}

// Split: within a loop the chunks follow each other. Returns where the loop ends.
static uint64_t split_loop_check(const struct rondo_geometry *g, uint64_t loop, uint64_t at) {
  for (uint32_t k = 0; k < g->chunk_count; k++) {
    struct rondo_span span = rondo_geometry_chunk(g, loop, k);
    if (span.offset != at || span.count > g->chunk_elems)
      fail_at(g, loop, k, "gap, overlap or too large");
    at += span.count;
    if (span.count % g->align_elems != 0 && at != g->end)
      fail_at(g, loop, k, "size is not a multiple of the alignment");
  }
  return at;
}

// Segmented: each chunk index has a segment of its own, in which the loops follow each other.
static uint64_t segmented_loop_check(const struct rondo_geometry *g, uint64_t loop, uint64_t at) {
  uint64_t count = rondo_geometry_chunk(g, loop, 0).count;
  for (uint32_t k = 0; k < g->chunk_count; k++) {
    struct rondo_span span = rondo_geometry_chunk(g, loop, k);
    if (span.offset != k * g->segment + at || span.count != count || count > g->chunk_elems)
      fail_at(g, loop, k, "gap, overlap or too large");
  }
  if (count == 0)
    fail_at(g, loop, 0, "empty loop");
  return at + count;
}

static uint64_t loop_check(const struct rondo_geometry *g, uint64_t loop, uint64_t at) {
  return g->segment ? segmented_loop_check(g, loop, at) : split_loop_check(g, loop, at);
}

static uint64_t loop_begin(const struct rondo_geometry *g, uint64_t loop) {
  return rondo_geometry_chunk(g, loop, 0).offset;
}

// All loops, where there are few.
static void range_check(const struct rondo_geometry *g) {
  uint64_t at = g->begin, loops = rondo_geometry_loops(g);
  for (uint64_t loop = 0; loop < loops; loop++)
    at = loop_check(g, loop, at);
  if (at != g->end)
    fail_at(g, loops, 0, "the loops do not end at the end of the range");
}

// The first and the last loops and some between: each begins where the one before it ends.
static void range_sample(const struct rondo_geometry *g) {
  uint64_t loops = rondo_geometry_loops(g);
  if (loops <= 16) {
    range_check(g);
    return;
  }
  if (loop_begin(g, 0) != g->begin || loop_check(g, loops - 1, loop_begin(g, loops - 1)) != g->end)
    fail_at(g, 0, 0, "the loops do not fill the range");
  for (int i = 0; i < 8; i++) {
    uint64_t loop = i < 2 ? (uint64_t)i : i < 4 ? loops - (uint64_t)i : random_next() % (loops - 1);
    if (loop_check(g, loop, loop_begin(g, loop)) != loop_begin(g, loop + 1))
      fail_at(g, loop, 0, "the next loop does not begin where this one ends");
  }
}

// Cuts `count` elements into blocks, as evenly as whole alignments allow.
static void blocks_check(struct rondo_geometry g, uint64_t count, uint32_t blocks) {
  uint64_t units = (count + g.align_elems - 1) / g.align_elems;
  uint64_t at = 0;
  for (uint32_t block = 0; block < blocks; block++) {
    uint64_t share = units / blocks + (block < units % blocks);
    g.begin = at;
    g.end = rondo_geometry_min(at + share * g.align_elems, count);
    range_sample(&g);
    at = g.end;
  }
  assert_true(at == count);
}

static const uint32_t chunk_counts[] = {1, 2, 3, 4, 7, 8, 33, 64, 1000, 4096};
static const uint32_t chunk_sizes[] = {1, 2, 8, 16, 24, 96, 1024, 32768};
static const uint32_t aligns[] = {1, 2, 8, 16};
static const uint32_t block_counts[] = {1, 2, 3, 64};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

// Every combination of the lists above for one count. Chunks are whole alignments, as the
// runtime makes them.
static void count_check(uint64_t count, int segmented) {
  for (size_t n = 0; n < LENGTH(chunk_counts); n++) {
    for (size_t i = 0; i < LENGTH(chunk_sizes) * LENGTH(aligns); i++) {
      struct rondo_geometry g = {.chunk_elems = chunk_sizes[i / LENGTH(aligns)],
                                 .chunk_count = chunk_counts[n],
                                 .align_elems = aligns[i % LENGTH(aligns)]};
      g.segment = segmented ? count : 0;
      if (g.chunk_elems % g.align_elems == 0)
        blocks_check(g, count, block_counts[(n + i) % LENGTH(block_counts)]);
    }
  }
}

static void small_counts_are_cut_exactly(void **state) {
  (void)state;
  uint64_t most = rondo_test_load(300, 60);
  for (uint64_t count = 1; count <= most; count += count < 40 ? 1 : 13) {
    count_check(count, 0);
    count_check(count, 1);
  }
}

static void counts_beyond_32_bits_are_cut_exactly(void **state) {
  (void)state;
  const uint64_t counts[] = {G31 - 1, G31, G31 + 1, 2 * G31 - 1,    2 * G31,       2 * G31 + 1,
                             T40 - 1, T40, T40 + 1, T40 + 12345679, 3 * T40 + 4097};
  random_state = 1;
  for (size_t i = 0; i < LENGTH(counts); i += rondo_test_load(1, 3)) {
    count_check(counts[i], 0);
    count_check(counts[i], 1);
  }
}

static void ranges_in_the_middle_are_cut_exactly(void **state) {
  (void)state;
  random_state = 2;
  for (uint64_t i = 0; i < rondo_test_load(20000, 2000); i++) {
    struct rondo_geometry g = {.chunk_count = 1 + (uint32_t)(random_next() % 40)};
    g.align_elems = 1u << random_next() % 5;
    g.chunk_elems = g.align_elems * (1 + (uint32_t)(random_next() % 50));
    g.begin = random_next() % T40;
    g.end = g.begin + random_next() % (i % 2 ? 20000 : T40);
    g.segment = i % 3 ? 0 : g.end + random_next() % 1000;
    range_sample(&g);
  }
}

static void an_empty_range_has_no_loops(void **state) {
  (void)state;
  const uint64_t begins[] = {0, 1, 4096, T40};
  for (size_t i = 0; i < LENGTH(begins); i++) {
    struct rondo_geometry g = {begins[i], begins[i], 0, 0, 1024, 8, {16}};
    assert_true(rondo_geometry_loops(&g) == 0);
    g.segment = begins[i];
    assert_true(rondo_geometry_loops(&g) == 0);
  }
}

enum { PLACES = 12 };
static struct {
  struct rondo_listed head;
  struct rondo_span places[PLACES];
} listed;

static struct rondo_geometry listed_geometry(uint32_t block, uint32_t blocks, uint32_t chunk) {
  return (struct rondo_geometry){.begin = (uint64_t)block * chunk,
                                 .end = UINT64_MAX,
                                 .segment = (uint64_t)blocks * chunk,
                                 .listed = (uint64_t)(uintptr_t)&listed,
                                 .chunk_elems = chunk,
                                 .chunk_count = PLACES / 2,
                                 .align_elems = 1};
}

// Listed chunks of any size: the loops of all blocks together take each part once, in order.
static void the_loops_of_all_blocks_take_each_listed_part_once(void **state) {
  (void)state;
  enum { CHUNK = 64 };
  struct rondo_span *places = listed.places;
  for (uint32_t blocks = 1; blocks <= 4; blocks++) {
    uint64_t taken[PLACES] = {0};
    uint64_t most = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
      places[i] = (struct rondo_span){10000 * i + i, i % 3 == 0 ? 0 : random_next() % 1000};
      most = places[i].count > most ? places[i].count : most;
    }
    listed.head.most_elems = most;
    for (uint32_t block = 0; block < blocks; block++) {
      struct rondo_geometry g = listed_geometry(block, blocks, CHUNK);
      for (uint64_t loop = 0; loop < rondo_geometry_loops(&g); loop++)
        for (uint32_t i = 0; i < PLACES; i++) {
          struct rondo_span span = rondo_geometry_place(&g, loop, i);
          uint64_t at = rondo_geometry_min((loop * blocks + block) * CHUNK, places[i].count);
          assert_true(span.offset == places[i].offset + at);
          assert_true(span.count <= CHUNK &&
                      span.offset + span.count <= places[i].offset + places[i].count);
          taken[i] += span.count;
        }
    }
    for (uint32_t i = 0; i < PLACES; i++)
      assert_true(taken[i] == places[i].count);
  }
}

// The first loop tells the sizes of the parts, so every block has one.
static void listed_parts_have_a_loop_though_they_are_empty(void **state) {
  (void)state;
  memset(&listed, 0, sizeof listed);
  for (uint32_t block = 0; block < 3; block++) {
    struct rondo_geometry g = listed_geometry(block, 3, 64);
    for (uint64_t most = 0; most <= 128; most += 64) {
      listed.head.most_elems = most;
      assert_false(rondo_geometry_is_empty(&g));
      assert_true(rondo_geometry_loops(&g) == 1);
    }
    assert_true(rondo_geometry_place(&g, 0, 0).count == 0);
  }
}

// The last loop of a split range shares what is left, instead of leaving ranks without work.
static void the_last_loop_of_a_split_range_is_shared_evenly(void **state) {
  (void)state;
  struct rondo_geometry g = {0, 4 * 1024 + 100, 0, 0, 1024, 4, {8}};
  assert_true(rondo_geometry_loops(&g) == 2);
  const uint64_t counts[] = {32, 32, 32, 4}; // 100 elements: a quarter, up to the alignment
  for (uint32_t k = 0; k < 4; k++)
    assert_true(rondo_geometry_chunk(&g, 1, k).count == counts[k]);
  g.end = 4 * 1024 + 8; // less than one alignment a rank: the rest have empty chunks
  assert_true(rondo_geometry_chunk(&g, 1, 0).count == 8);
  for (uint32_t k = 1; k < 4; k++) {
    assert_true(rondo_geometry_chunk(&g, 1, k).count == 0);
    assert_true(rondo_geometry_chunk(&g, 1, k).offset == g.end);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(small_counts_are_cut_exactly),
      cmocka_unit_test(counts_beyond_32_bits_are_cut_exactly),
      cmocka_unit_test(ranges_in_the_middle_are_cut_exactly),
      cmocka_unit_test(an_empty_range_has_no_loops),
      cmocka_unit_test(the_loops_of_all_blocks_take_each_listed_part_once),
      cmocka_unit_test(listed_parts_have_a_loop_though_they_are_empty),
      cmocka_unit_test(the_last_loop_of_a_split_range_is_shared_evenly),
  };
  return cmocka_run_group_tests_name("plan_geometry", tests, NULL, NULL);
}
