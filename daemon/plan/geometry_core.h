// How the elements of a collective are divided into blocks, loops and chunks. No side effects.
//
// Each block has a range of the elements. It executes its range in loops. A loop has `chunk_count`
// chunks of at most `chunk_elems` elements.
//
//   segmented (all-gather, reduce-scatter; also broadcast and reduce, with one chunk):
//     chunk k of loop l is [k × segment + begin + l × chunk_elems, + up to chunk_elems)
//   listed (all-to-all-v; each rank has a part of each buffer, with its own offset and size):
//     chunk k of loop l has up to chunk_elems elements of part k, from begin + l × segment on;
//     `begin` differs from block to block. The chunks of the first loop are always there, also
//     empty ones: their slots say how many elements the part has. After that, if a part has ended,
//     its chunk is absent: both ranks skip it, and it takes no slot.
//   split (all-reduce): the chunks of a loop follow each other without gaps,
//     chunk k of loop l is [begin + l × n × chunk_elems + k × c, + up to c), where c is
//     chunk_elems, or less in the last loop, so that its chunks have equal sizes.
#ifndef RONDO_DAEMON_PLAN_GEOMETRY_CORE_H
#define RONDO_DAEMON_PLAN_GEOMETRY_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

struct rondo_geometry {
  uint64_t begin, end; // this block's elements, within a segment or within the whole
  // Distance in elements from one chunk to the next; listed: from one loop to the next; 0: split.
  uint64_t segment;
  uint64_t listed;      // address of the block's struct rondo_listed; 0: not listed
  uint32_t chunk_elems; // maximum size of a chunk; never 0
  uint32_t chunk_count; // chunks of a loop
  union {
    uint64_t align_elems; // split: chunk sizes are multiples of this, except the last
    // Segmented: address of chunk_count × uint32_t, the place in the buffer of each chunk of the
    // plan; 0: its number.
    uint64_t order;
  };
};

struct rondo_span {
  uint64_t offset; // elements from the start of the buffer
  uint64_t count;  // elements; may be 0
};

// The parts of an all-to-all-v. Followed in memory by 2 × chunk_count × struct rondo_span: what
// goes to each rank, then what comes from each.
//
// The parts are those of every run, or each run has its own. In the second case the CPU writes the
// parts of a run to a source, and each block copies them from there when it begins the run. A block
// that refuses what a rank sends says so in its own copy, which then refuses all later runs, and in
// the source, where the CPU finds the reason. Blocks refuse the same, because they receive in the
// same order.
struct rondo_listed {
  uint64_t told_elems; // what the refused rank sends to this one
  uint32_t refused;    // its position + 1; 0: none is
  uint32_t reserved;
  uint64_t most_elems; // of the largest part. What is copied begins here.
  uint64_t source;     // address of a struct rondo_listed for each run on the device; 0: none
};
static_assert(sizeof(struct rondo_listed) == 32, "shared layout");

RONDO_FN uint64_t rondo_listed_bytes(uint32_t chunk_count) {
  return sizeof(struct rondo_listed) + 2 * (uint64_t)chunk_count * sizeof(struct rondo_span);
}

RONDO_FN struct rondo_span *rondo_listed_places(struct rondo_listed *listed) {
  return (struct rondo_span *)(listed + 1);
}

RONDO_FN struct rondo_listed *rondo_geometry_listed(const struct rondo_geometry *g) {
  return (struct rondo_listed *)(uintptr_t)g->listed;
}

// Number of loops of the block; 0 if its range is empty.
RONDO_FN uint64_t rondo_geometry_loops(const struct rondo_geometry *g) {
  uint64_t per_loop = (uint64_t)g->chunk_elems * g->chunk_count;
  uint64_t elems = g->end - g->begin;
  if (g->segment && g->listed) {
    uint64_t most = rondo_geometry_listed(g)->most_elems;
    per_loop = g->segment;
    elems = most > g->begin ? most - g->begin : 1; // the first loop tells the sizes
  } else if (g->segment) {
    per_loop = g->chunk_elems;
  }
  if (elems <= per_loop) // a small collective skips the division
    return elems > 0;
  return (elems + per_loop - 1) / per_loop;
}

// True if there are no loops.
RONDO_FN bool rondo_geometry_is_empty(const struct rondo_geometry *g) { return g->begin == g->end; }

RONDO_FN uint64_t rondo_geometry_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Listed: the elements of part `place` (below 2 × chunk_count) in loop `loop`; none if the part has
// ended.
RONDO_FN struct rondo_span rondo_geometry_place(const struct rondo_geometry *g, uint64_t loop,
                                                uint32_t place) {
  struct rondo_span span = rondo_listed_places(rondo_geometry_listed(g))[place];
  uint64_t at = rondo_geometry_min(g->begin + loop * g->segment, span.count);
  span.offset += at;
  span.count = rondo_geometry_min(span.count - at, g->chunk_elems);
  return span;
}

// The place in the buffer of the plan's chunk `k`. Not for listed chunks.
RONDO_FN uint32_t rondo_geometry_ordered(const struct rondo_geometry *g, uint32_t k) {
  return g->segment && g->order ? ((const uint32_t *)(uintptr_t)g->order)[k] : k;
}

// True if the chunks of a loop lie side by side: also segmented ones, if a loop has whole segments.
RONDO_FN bool rondo_geometry_is_dense(const struct rondo_geometry *g) {
  return !g->segment || (g->begin == 0 && g->end == g->segment && g->chunk_elems >= g->segment);
}

// The `width` chunks from `k` on (k + width is at most chunk_count) in loop `loop` (below
// rondo_geometry_loops): where the first one begins, and the elements of all, which lie there only
// if the geometry is dense. Not for listed chunks.
RONDO_FN struct rondo_span rondo_geometry_chunks(const struct rondo_geometry *g, uint64_t loop,
                                                 uint32_t k, uint32_t width) {
  struct rondo_span span;
  if (g->segment) {
    uint64_t at = g->begin + loop * g->chunk_elems;
    span.offset = k * g->segment + at;
    span.count = width * rondo_geometry_min(g->chunk_elems, g->end - at);
    return span;
  }
  uint64_t base = g->begin + loop * g->chunk_elems * g->chunk_count;
  uint64_t left = g->end - base;
  uint64_t size = g->chunk_elems;
  if (g->chunk_count > 1 && left < size * g->chunk_count) {
    size = (left + g->chunk_count - 1) / g->chunk_count;
    size = (size + g->align_elems - 1) / g->align_elems * g->align_elems;
    size = rondo_geometry_min(size, g->chunk_elems);
  }
  uint64_t skip = rondo_geometry_min(size * k, left);
  span.offset = base + skip;
  span.count = rondo_geometry_min(size * width, left - skip);
  return span;
}

// A chunk in a quantised message: for each RONDO_QUANTISED_ELEMS of its elements (the last ones may
// be fewer) their scale, which is a float, and then a code of a byte for each. Nothing is aligned.
#define RONDO_QUANTISED_ELEMS 256u
#define RONDO_QUANTISED_SCALE_BYTES 4u

RONDO_FN uint64_t rondo_quantised_bytes(uint64_t elems) {
  uint64_t scales = (elems + RONDO_QUANTISED_ELEMS - 1) / RONDO_QUANTISED_ELEMS;
  return elems + scales * RONDO_QUANTISED_SCALE_BYTES;
}

// A chunk as packets (queues/connector_core.h): two packets for each 16 bytes, of which the last
// may be fewer. An empty chunk has two packets as well, so that each message says that its sender
// has come so far.
#define RONDO_PACKETS_BYTES 32u         // of two packets
#define RONDO_PACKETS_PAYLOAD_BYTES 16u // that they hold

RONDO_FN uint64_t rondo_packets_bytes(uint64_t bytes) {
  uint64_t pairs = (bytes + RONDO_PACKETS_PAYLOAD_BYTES - 1) / RONDO_PACKETS_PAYLOAD_BYTES;
  return (pairs ? pairs : 1) * RONDO_PACKETS_BYTES;
}

// The elements of one chunk.
RONDO_FN struct rondo_span rondo_geometry_chunk(const struct rondo_geometry *g, uint64_t loop,
                                                uint32_t k) {
  return rondo_geometry_chunks(g, loop, k, 1);
}

#endif // RONDO_DAEMON_PLAN_GEOMETRY_CORE_H
