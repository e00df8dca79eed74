// Any cut of a range must cover each of its elements exactly once and nothing else.
#include "daemon/plan/geometry_core.h"
#include "tests/support/fuzz.h"

static struct rondo_geometry geometry_of(struct rondo_fuzz_input *in) {
  struct rondo_geometry g = {0};
  g.chunk_count = 1 + (uint32_t)rondo_fuzz_take(in, 1) % 64;
  g.align_elems = 1u << rondo_fuzz_take(in, 1) % 5;
  // A chunk that holds less than the alignment could not be aligned.
  g.chunk_elems = g.align_elems * (1 + (uint32_t)rondo_fuzz_take(in, 2));
  g.begin = rondo_fuzz_take(in, 5);
  g.end = g.begin + rondo_fuzz_take(in, 3);
  if (rondo_fuzz_take(in, 1) & 1)
    g.segment = g.end + 1 + rondo_fuzz_take(in, 2);
  return g;
}

// Split: the chunks of all loops, in order, lie side by side from begin to end.
static void check_split(const struct rondo_geometry *g, uint64_t loops) {
  uint64_t at = g->begin;
  for (uint64_t loop = 0; loop < loops; loop++) {
    for (uint32_t k = 0; k < g->chunk_count; k++) {
      struct rondo_span span = rondo_geometry_chunk(g, loop, k);
      RONDO_FUZZ_CHECK(span.offset == at);
      RONDO_FUZZ_CHECK(span.count <= g->chunk_elems);
      at += span.count;
    }
  }
  RONDO_FUZZ_CHECK(at == g->end);
}

// Segmented: every segment is covered from begin to end, a chunk a loop.
static void check_segmented(const struct rondo_geometry *g, uint64_t loops) {
  for (uint32_t k = 0; k < g->chunk_count; k++) {
    uint64_t at = k * g->segment + g->begin;
    for (uint64_t loop = 0; loop < loops; loop++) {
      struct rondo_span span = rondo_geometry_chunk(g, loop, k);
      RONDO_FUZZ_CHECK(span.offset == at);
      RONDO_FUZZ_CHECK(span.count > 0 && span.count <= g->chunk_elems);
      at += span.count;
    }
    RONDO_FUZZ_CHECK(at == k * g->segment + g->end);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct rondo_fuzz_input in = {data, size};
  struct rondo_geometry g = geometry_of(&in);
  uint64_t loops = rondo_geometry_loops(&g);
  if (loops > 4096) // nothing new past that, only time
    return 0;
  if (g.segment)
    check_segmented(&g, loops);
  else
    check_split(&g, loops);
  return 0;
}
