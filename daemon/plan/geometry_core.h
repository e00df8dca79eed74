// How the elements of a collective are cut into blocks, loops and chunks. Pure.
//
// The element range of a collective is shared out to blocks; a block walks its range in loops; a
// loop has `chunk_count` chunks of at most `chunk_elems`.
//
//   segmented (all-gather, reduce-scatter; also broadcast and reduce, with one chunk):
//     chunk k of loop l is [k × segment + begin + l × chunk_elems, + up to chunk_elems)
//   listed (all-to-all-v): chunk k has a place of its own in each buffer, at its own distance
//     and of its own size. A loop takes up to chunk_elems of each from begin + l × segment
//     on; blocks take turns. A chunk that has ended is absent: both of its ranks skip it, without
//     a slot.
//   split (all-reduce): the chunks of a loop lie side by side,
//     chunk k of loop l is [begin + l × n × chunk_elems + k × c, + up to c), where c is
//     chunk_elems, or less in the last loop, so that its chunks are of even size.
#ifndef RONDO_DAEMON_PLAN_GEOMETRY_CORE_H
#define RONDO_DAEMON_PLAN_GEOMETRY_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"

struct rondo_geometry {
  uint64_t begin, end; // this block's elements, within a segment or within the whole
  uint64_t segment;    // elements from one chunk index to the next, listed: from one loop to the
                       // next; 0: split
  // Address of 2 × chunk_count × struct rondo_span: what goes to each rank, then what comes from
  // each; 0: not listed.
  uint64_t listed;
  uint32_t chunk_elems; // the most that one chunk holds; never 0
  uint32_t chunk_count; // chunks of a loop
  uint32_t align_elems; // split: chunk sizes are multiples of this, except the last
  uint32_t reserved;
};

struct rondo_span {
  uint64_t offset; // elements from the start of the buffer
  uint64_t count;  // elements; may be 0
};

// Loops that the block makes over its range; 0 if the range is empty.
RONDO_FN uint64_t rondo_geometry_loops(const struct rondo_geometry *g) {
  uint64_t per_loop = (uint64_t)g->chunk_elems * g->chunk_count;
  if (g->segment)
    per_loop = g->listed ? g->segment : g->chunk_elems;
  uint64_t elems = g->end - g->begin;
  if (elems <= per_loop) // a small collective skips the division
    return elems > 0;
  return (elems + per_loop - 1) / per_loop;
}

// 1 if there are no loops.
RONDO_FN bool rondo_geometry_is_empty(const struct rondo_geometry *g) { return g->begin == g->end; }

RONDO_FN uint64_t rondo_geometry_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Listed: the part of place `place` (below 2 × chunk_count) that is its turn in loop `loop`; no
// elements if it is absent.
RONDO_FN struct rondo_span rondo_geometry_place(const struct rondo_geometry *g, uint64_t loop,
                                                uint32_t place) {
  struct rondo_span span = ((const struct rondo_span *)(uintptr_t)g->listed)[place];
  uint64_t at = rondo_geometry_min(g->begin + loop * g->segment, span.count);
  span.offset += at;
  span.count = rondo_geometry_min(span.count - at, g->chunk_elems);
  return span;
}

// The elements of chunk `k` (below chunk_count) in loop `loop` (below rondo_geometry_loops).
// Not for listed chunks.
RONDO_FN struct rondo_span rondo_geometry_chunk(const struct rondo_geometry *g, uint64_t loop,
                                                uint32_t k) {
  struct rondo_span span;
  if (g->segment) {
    uint64_t at = g->begin + loop * g->chunk_elems;
    span.offset = k * g->segment + at;
    span.count = rondo_geometry_min(g->chunk_elems, g->end - at);
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
  span.count = rondo_geometry_min(size, left - skip);
  return span;
}

#endif // RONDO_DAEMON_PLAN_GEOMETRY_CORE_H
