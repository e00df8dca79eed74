// Moves and reduces elements by a group of threads, 16 bytes at a time: the device's side of
// daemon/core/move.h. nvcc compiles it for the kernel, gcc for the test that compares it with the
// host.
//
//   deciding thread: rondo_mover_command_* -> barrier -> every mover: rondo_mover_run
//
// A command is split at 16-byte boundaries of the destination: vectors, and single elements before
// and after them. A source with another alignment is read as the two vectors that hold the bytes,
// never beyond the ends of the source. Of many vectors a warp takes a *tile* at a time, in which
// the places of a thread's vectors differ by constants: so addresses cost no instructions, and the
// loads are in flight together. Of the rest, thread `rank` of `size` takes every size-th vector.
// Every thread reads its own elements before it writes them, so the destination may be a source.
//
// The second destination must have the alignment of the first (rondo_mover_is_congruent); else it
// is a command of its own.
#ifndef RONDO_DAEMON_CUDA_MOVE_CORE_H
#define RONDO_DAEMON_CUDA_MOVE_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "daemon/core/move.h"
#include "daemon/core/quantise_core.h"
#include "daemon/cuda/cuda_element_core.h"
#include "daemon/plan/geometry_core.h"
#include <rondo/types.h>

#define RONDO_VECTOR_BYTES 16u
#define RONDO_TILE_VECTORS 8u                         // loads in flight of one thread
#define RONDO_REDUCE_VECTORS (RONDO_TILE_VECTORS / 2) // of each operand
#define RONDO_TILE_LANES 32u
#define RONDO_TILE_STRIDE (RONDO_TILE_LANES * RONDO_VECTOR_BYTES) // of the vectors of a lane
#define RONDO_TILE_BYTES (RONDO_TILE_VECTORS * RONDO_TILE_STRIDE)

struct rondo_vector {
  uint32_t word[4];
};
static_assert(sizeof(struct rondo_vector) == RONDO_VECTOR_BYTES, "shared layout");

struct rondo_packet {
  uint64_t half[2];
};

// Provided by the driver: one load and one store of 16 aligned bytes of global memory. The *place*
// of an address in global memory, and one load and one store of vector `index`, a compile-time
// constant, of a lane's part of a tile there; the same of a packet, whose halves are whole, each on
// its own, while another device accesses it; and what processors have instructions for.
RONDO_FN struct rondo_vector rondo_vector_load(uint64_t address);
RONDO_FN void rondo_vector_store(uint64_t address, struct rondo_vector v);
RONDO_FN uint64_t rondo_vector_place(uint64_t address);
RONDO_FN struct rondo_vector rondo_tile_load(uint64_t place, uint32_t index);
RONDO_FN void rondo_tile_store(uint64_t place, uint32_t index, struct rondo_vector v);
RONDO_FN struct rondo_packet rondo_packet_load(uint64_t place);
RONDO_FN void rondo_packet_store(uint64_t place, struct rondo_packet p);

enum rondo_mover_kind {
  RONDO_MOVER_END = 0,    // the movers leave
  RONDO_MOVER_COPY = 1,   // `count` bytes of `local`
  RONDO_MOVER_MAP = 2,    // scaled and divided elements of `local`
  RONDO_MOVER_REDUCE = 3, // `incoming` with elements of `local`
  RONDO_MOVER_STATE = 4,  // `count` bytes of a block's state, in words of 16 or 4 bytes
  // `count` elements of `local`, with those of the message `incoming`, to the message `dst`; and
  // what that stands for to `second`
  RONDO_MOVER_QUANTISE = 5,
  RONDO_MOVER_DEQUANTISE = 6, // `count` elements of the message `local`
  RONDO_MOVER_PACK = 7,       // scaled elements of `local` to the packets at `dst`
  // `incoming`, packets, with elements of `local`, if the op reduces, else alone. Not before
  // rondo_mover_look has found all packets of all movers.
  RONDO_MOVER_UNPACK = 8,
  RONDO_MOVER_NONE = 9 // nothing: the command before is carried out
};

struct rondo_mover_command {
  uint64_t dst, second; // addresses; second is 0 or congruent with dst
  uint64_t local, incoming;
  uint64_t count; // elements, or bytes of a copy
  struct rondo_mover_op op;
  uint32_t kind; // enum rondo_mover_kind
  uint32_t mark; // of packets
};
static_assert(sizeof(struct rondo_mover_command) == 72, "shared layout");

// ----------------------------------------------------------------- vectors --

// The element at byte `at` of a vector; `at` and `bytes` are compile-time constants.
RONDO_FN uint64_t rondo_vector_get(const struct rondo_vector *v, uint32_t at, uint32_t bytes) {
  uint64_t word = v->word[at / 4];
  if (bytes == 8)
    return (uint64_t)v->word[at / 4 + 1] << 32 | word;
  if (bytes == 4)
    return word;
  return word >> at % 4 * 8 & (bytes == 2 ? 0xffffu : 0xffu);
}

RONDO_FN void rondo_vector_put(struct rondo_vector *v, uint32_t at, uint32_t bytes, uint64_t code) {
  if (bytes == 8)
    v->word[at / 4 + 1] = (uint32_t)(code >> 32);
  if (bytes >= 4)
    v->word[at / 4] = (uint32_t)code;
  else
    v->word[at / 4] |= (uint32_t)code << at % 4 * 8;
}

RONDO_FN struct rondo_vector rondo_vector_compute(const struct rondo_mover_op *op,
                                                  struct rondo_vector n, struct rondo_vector l) {
  struct rondo_vector out = {{0, 0, 0, 0}};
  const uint32_t bytes = rondo_element_bytes(op->dtype);
  RONDO_UNROLL for (uint32_t at = 0; at < RONDO_VECTOR_BYTES; at += bytes) {
    uint64_t code =
        rondo_element_compute(op, rondo_vector_get(&n, at, bytes), rondo_vector_get(&l, at, bytes));
    rondo_vector_put(&out, at, bytes, code);
  }
  return out;
}

// Bytes `shift` to `shift` + 15 of two adjacent vectors. Without indexed access, so that all stays
// in registers.
RONDO_FN struct rondo_vector rondo_vector_shift(struct rondo_vector a, struct rondo_vector b,
                                                uint32_t shift) {
  const uint32_t bits = shift % 4 * 8;
  const uint32_t by_two = shift & 8;
  const uint32_t by_one = shift & 4;
  uint32_t w[6] = {by_two ? a.word[2] : a.word[0], by_two ? a.word[3] : a.word[1],
                   by_two ? b.word[0] : a.word[2], by_two ? b.word[1] : a.word[3],
                   by_two ? b.word[2] : b.word[0], by_two ? b.word[3] : b.word[1]};
  struct rondo_vector out;
  RONDO_UNROLL for (uint32_t i = 0; i < 5; i++) w[i] = by_one ? w[i + 1] : w[i];
  RONDO_UNROLL for (uint32_t i = 0; i < 4; i++) {
    out.word[i] = (uint32_t)(((uint64_t)w[i + 1] << 32 | w[i]) >> bits);
  }
  return out;
}

// 16 bytes at any address, read as the one or two vectors that hold them.
RONDO_FN struct rondo_vector rondo_vector_load_any(uint64_t address) {
  const uint32_t shift = (uint32_t)address % RONDO_VECTOR_BYTES;
  struct rondo_vector a = rondo_vector_load(address - shift);
  if (shift == 0)
    return a;
  return rondo_vector_shift(a, rondo_vector_load(address - shift + RONDO_VECTOR_BYTES), shift);
}

// ------------------------------------------------------------ how it is split --

// The part of a command that is done as vectors.
struct rondo_mover_split {
  uint64_t begin;   // bytes before the first vector
  uint64_t count;   // vectors
  uint32_t shifted; // a source has another alignment than the destination
};

// Narrows the split to vectors that can be read without leaving `bytes` of the source.
RONDO_FN void rondo_mover_heed(struct rondo_mover_split *s, uint64_t source, uint64_t bytes) {
  const uint32_t shift = (uint32_t)(source + s->begin) % RONDO_VECTOR_BYTES;
  if (shift == 0 || s->count == 0)
    return;
  s->shifted = 1;
  if (s->begin < shift) {
    s->begin += RONDO_VECTOR_BYTES;
    s->count--;
  }
  // The last vector is read together with its successor.
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES - shift + RONDO_VECTOR_BYTES;
  if (s->count && end > bytes)
    s->count--;
}

// No vectors if the destination's elements are not at multiples of their size.
RONDO_FN struct rondo_mover_split rondo_mover_split_of(const struct rondo_mover_command *m,
                                                       uint32_t element) {
  const uint64_t bytes = m->count * element;
  struct rondo_mover_split s = {(0 - m->dst) % RONDO_VECTOR_BYTES, 0, 0};
  if ((m->dst & (element - 1)) == 0 && bytes > s.begin)
    s.count = (bytes - s.begin) / RONDO_VECTOR_BYTES;
  else
    s.begin = 0;
  rondo_mover_heed(&s, m->local, bytes);
  if (m->op.reduces)
    rondo_mover_heed(&s, m->incoming, bytes);
  return s;
}

// ----------------------------------------------------------------- elements --

RONDO_FN uint64_t rondo_element_load(uint64_t address, uint32_t bytes) {
  uint64_t code = 0;
  for (uint32_t i = 0; i < bytes; i++)
    code |= (uint64_t) * (const uint8_t *)(uintptr_t)(address + i) << 8 * i;
  return code;
}

RONDO_FN void rondo_element_store(uint64_t address, uint32_t bytes, uint64_t code) {
  for (uint32_t i = 0; i < bytes; i++)
    *(uint8_t *)(uintptr_t)(address + i) = (uint8_t)(code >> 8 * i);
}

// The elements before and after the vectors, one for each thread.
RONDO_FN void rondo_mover_edges(struct rondo_threads t, const struct rondo_mover_command *m,
                                const struct rondo_mover_split *s, uint32_t element) {
  const uint32_t shift = (element >> 1) - (element >> 3); // 1, 2, 4, 8: divisions take long
  const uint64_t before = s->begin >> shift;
  const uint64_t skipped = s->count * (RONDO_VECTOR_BYTES >> shift);
  for (uint64_t i = t.rank; i < m->count - skipped; i += t.size) {
    const uint64_t at = (i < before ? i : i + skipped) * element;
    uint64_t code = rondo_element_load(m->local + at, element);
    if (m->kind != RONDO_MOVER_COPY) {
      uint64_t n = m->op.reduces ? rondo_element_load(m->incoming + at, element) : 0;
      code = rondo_element_compute(&m->op, n, code);
    }
    rondo_element_store(m->dst + at, element, code);
    if (m->second)
      rondo_element_store(m->second + at, element, code);
  }
}

// ------------------------------------------------------------------- loops --

RONDO_FN void rondo_mover_put(const struct rondo_mover_command *m, uint64_t at,
                              struct rondo_vector v) {
  rondo_vector_store(m->dst + at, v);
  if (m->second)
    rondo_vector_store(m->second + at, v);
}

// The tiles of a command, which warps take in turn.
struct rondo_mover_tiles {
  uint64_t at;    // byte of the thread's first vector in the first tile of its warp
  uint64_t step;  // bytes from one tile of a warp to the next
  uint64_t bytes; // of all tiles; 0: there are too few for the warps
};

RONDO_FN struct rondo_mover_tiles rondo_mover_tiles_of(struct rondo_threads t,
                                                       const struct rondo_mover_split *s) {
  const uint64_t bytes = s->count * RONDO_VECTOR_BYTES;
  struct rondo_mover_tiles tiles = {0, (uint64_t)t.size * (RONDO_TILE_BYTES / RONDO_TILE_LANES), 0};
  tiles.at = s->begin + (uint64_t)(t.rank / RONDO_TILE_LANES) * RONDO_TILE_BYTES +
             (uint64_t)(t.rank % RONDO_TILE_LANES) * RONDO_VECTOR_BYTES;
  if (t.size % RONDO_TILE_LANES == 0 && 2 * bytes >= tiles.step)
    tiles.bytes = bytes / RONDO_TILE_BYTES * RONDO_TILE_BYTES;
  return tiles;
}

// Stores a lane's part of a tile in the second destination, if there is one. `dst`: the place in
// the first one.
RONDO_FN void rondo_tile_put_second(const struct rondo_mover_command *m, uint64_t dst,
                                    const struct rondo_vector *v) {
  if (!m->second)
    return;
  const uint64_t second = dst + (m->second - m->dst);
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_TILE_VECTORS; i++) {
    rondo_tile_store(second, i, v[i]);
  }
}

// Copies vectors whose source has the alignment of the destination.
RONDO_FN void rondo_mover_copy_fast(struct rondo_threads t, const struct rondo_mover_command *m,
                                    const struct rondo_mover_split *s) {
  const struct rondo_mover_tiles tiles = rondo_mover_tiles_of(t, s);
  if (tiles.bytes) {
    const uint64_t end = rondo_vector_place(m->dst + s->begin + tiles.bytes);
    uint64_t dst = rondo_vector_place(m->dst + tiles.at);
    uint64_t local = rondo_vector_place(m->local + tiles.at);
    for (; dst < end; dst += tiles.step, local += tiles.step) {
      struct rondo_vector v[RONDO_TILE_VECTORS];
      RONDO_UNROLL for (uint32_t i = 0; i < RONDO_TILE_VECTORS; i++) {
        v[i] = rondo_tile_load(local, i);
      }
      RONDO_UNROLL for (uint32_t i = 0; i < RONDO_TILE_VECTORS; i++) {
        rondo_tile_store(dst, i, v[i]);
      }
      rondo_tile_put_second(m, dst, v);
    }
  }
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  for (uint64_t at = s->begin + tiles.bytes + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_VECTOR_BYTES)
    rondo_mover_put(m, at, rondo_vector_load(m->local + at));
}

// The same with a source of another alignment.
RONDO_FN void rondo_mover_copy_shifted(struct rondo_threads t, const struct rondo_mover_command *m,
                                       const struct rondo_mover_split *s) {
  const uint64_t step = (uint64_t)t.size * RONDO_VECTOR_BYTES;
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  const uint32_t shift = (uint32_t)(m->local + s->begin) % RONDO_VECTOR_BYTES;
  const uint64_t from = m->local - shift;
  uint64_t at = s->begin + (uint64_t)t.rank * RONDO_VECTOR_BYTES;
  for (; at + (RONDO_REDUCE_VECTORS - 1) * step < end; at += RONDO_REDUCE_VECTORS * step) {
    struct rondo_vector a[RONDO_REDUCE_VECTORS];
    struct rondo_vector b[RONDO_REDUCE_VECTORS];
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
      a[i] = rondo_vector_load(from + at + i * step);
      b[i] = rondo_vector_load(from + at + i * step + RONDO_VECTOR_BYTES);
    }
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
      rondo_mover_put(m, at + i * step, rondo_vector_shift(a[i], b[i], shift));
    }
  }
  for (; at < end; at += step)
    rondo_mover_put(m, at, rondo_vector_load_any(m->local + at));
}

// Reduces the vectors of half a tile, from vector `least` on, and leaves the results in `n` too.
RONDO_FN void rondo_tile_reduce_half(const struct rondo_mover_op *op, uint64_t dst, uint64_t local,
                                     uint64_t incoming, struct rondo_vector *n, uint32_t least) {
  struct rondo_vector l[RONDO_REDUCE_VECTORS];
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
    n[least + i] = rondo_tile_load(incoming, least + i);
    l[i] = rondo_tile_load(local, least + i);
  }
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
    n[least + i] = rondo_vector_compute(op, n[least + i], l[i]);
    rondo_tile_store(dst, least + i, n[least + i]);
  }
}

// Reduces vectors whose sources have the alignment of the destination. `op` holds compile-time
// constants for each case that has a loop of its own.
RONDO_FN void rondo_mover_reduce_fast(struct rondo_threads t, const struct rondo_mover_command *m,
                                      const struct rondo_mover_split *s,
                                      const struct rondo_mover_op *op) {
  const struct rondo_mover_tiles tiles = rondo_mover_tiles_of(t, s);
  if (tiles.bytes) {
    const uint64_t end = rondo_vector_place(m->dst + s->begin + tiles.bytes);
    uint64_t dst = rondo_vector_place(m->dst + tiles.at);
    uint64_t local = rondo_vector_place(m->local + tiles.at);
    uint64_t incoming = rondo_vector_place(m->incoming + tiles.at);
    for (; dst < end; dst += tiles.step, local += tiles.step, incoming += tiles.step) {
      // In two halves: all vectors of both operands are more than the registers hold.
      struct rondo_vector n[RONDO_TILE_VECTORS];
      rondo_tile_reduce_half(op, dst, local, incoming, n, 0);
      rondo_tile_reduce_half(op, dst, local, incoming, n, RONDO_REDUCE_VECTORS);
      rondo_tile_put_second(m, dst, n);
    }
  }
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  for (uint64_t at = s->begin + tiles.bytes + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_VECTOR_BYTES)
    rondo_mover_put(m, at,
                    rondo_vector_compute(op, rondo_vector_load(m->incoming + at),
                                         rondo_vector_load(m->local + at)));
}

// Two packets hold a vector. A thread that has looked at packets is the one that takes them.

RONDO_FN struct rondo_vector rondo_packets_vector(uint64_t place) {
  const struct rondo_packet a = rondo_packet_load(place);            // C12
  const struct rondo_packet b = rondo_packet_load(place + sizeof a); // C12
  struct rondo_vector v = {
      {(uint32_t)a.half[0], (uint32_t)a.half[1], (uint32_t)b.half[0], (uint32_t)b.half[1]}};
  return v;
}

RONDO_FN void rondo_packets_put(uint64_t place, struct rondo_vector v, uint32_t mark) {
  RONDO_UNROLL for (uint32_t i = 0; i < 2; i++) {
    struct rondo_packet p = {
        {rondo_packet_half(v.word[2 * i], mark), rondo_packet_half(v.word[2 * i + 1], mark)}};
    rondo_packet_store(place + i * sizeof p, p); // C11
  }
}

// One comparison for the marks of all halves.
RONDO_FN bool rondo_packets_have_come(uint64_t place, uint64_t wanted) {
  const struct rondo_packet a = rondo_packet_load(place);            // C12
  const struct rondo_packet b = rondo_packet_load(place + sizeof a); // C12
  const uint64_t first = (a.half[0] ^ wanted) | (b.half[0] ^ wanted);
  const uint64_t second = (a.half[1] ^ wanted) | (b.half[1] ^ wanted);
  return (RONDO_FAULT(PACKETS_HALF_READ) ? first : first | second) >> 32 == 0;
}

// Up to 16 bytes at any address; what is beyond `bytes` is 0.
RONDO_FN struct rondo_vector rondo_bytes_load(uint64_t address, uint64_t bytes) {
  struct rondo_vector v = {{0, 0, 0, 0}};
  if (bytes >= RONDO_VECTOR_BYTES && address % RONDO_VECTOR_BYTES == 0)
    return rondo_vector_load(address);
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_VECTOR_BYTES; i++) {
    if (i < bytes)
      v.word[i / 4] |= (uint32_t) * (const uint8_t *)(uintptr_t)(address + i) << i % 4 * 8;
  }
  return v;
}

RONDO_FN void rondo_bytes_store(uint64_t address, uint64_t bytes, struct rondo_vector v) {
  if (bytes >= RONDO_VECTOR_BYTES && address % RONDO_VECTOR_BYTES == 0) {
    rondo_vector_store(address, v);
    return;
  }
  RONDO_UNROLL for (uint32_t i = 0; i < RONDO_VECTOR_BYTES; i++) {
    if (i < bytes)
      *(uint8_t *)(uintptr_t)(address + i) = (uint8_t)(v.word[i / 4] >> i % 4 * 8);
  }
}

RONDO_FN bool rondo_mover_has_packets(const struct rondo_mover_command *m) {
  return m->kind == RONDO_MOVER_PACK || m->kind == RONDO_MOVER_UNPACK;
}

RONDO_FN struct rondo_vector rondo_mover_local(const struct rondo_mover_command *m, uint64_t at,
                                               uint64_t end) {
  if (m->kind == RONDO_MOVER_UNPACK && !m->op.reduces)
    return rondo_packets_vector(rondo_vector_place(m->incoming + 2 * at));
  return rondo_mover_has_packets(m) ? rondo_bytes_load(m->local + at, end - at)
                                    : rondo_vector_load_any(m->local + at);
}

RONDO_FN struct rondo_vector rondo_mover_incoming(const struct rondo_mover_command *m,
                                                  uint64_t at) {
  return m->kind == RONDO_MOVER_UNPACK
             ? rondo_packets_vector(rondo_vector_place(m->incoming + 2 * at))
             : rondo_vector_load_any(m->incoming + at);
}

RONDO_FN void rondo_mover_put_any(const struct rondo_mover_command *m, uint64_t at, uint64_t end,
                                  struct rondo_vector v) {
  if (m->kind == RONDO_MOVER_PACK)
    rondo_packets_put(rondo_vector_place(m->dst + 2 * at), v, m->mark);
  else if (m->kind == RONDO_MOVER_UNPACK)
    rondo_bytes_store(m->dst + at, end - at, v);
  else
    rondo_mover_put(m, at, v);
}

// The result for a vector. Only the type is a compile-time constant.
RONDO_FN struct rondo_vector rondo_vector_compute_any(const struct rondo_mover_op *op,
                                                      struct rondo_vector n,
                                                      struct rondo_vector l) {
  struct rondo_mover_op typed = *op;
  switch (op->dtype) {
#define RONDO_ANY_CASE(value, tag)                                                                 \
  case value:                                                                                      \
    typed.dtype = value;                                                                           \
    return rondo_vector_compute(&typed, n, l);
    RONDO_ELEMENT_TYPES(RONDO_ANY_CASE)
#undef RONDO_ANY_CASE
  default:
    return l;
  }
}

// Any operation on vectors of any alignment, and on packets. One loop for all types: the code for
// each way to load and store is long.
RONDO_FN void rondo_mover_any(struct rondo_threads t, const struct rondo_mover_command *m,
                              const struct rondo_mover_split *s) {
  const uint64_t step = (uint64_t)t.size * RONDO_VECTOR_BYTES;
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  const uint64_t bytes = m->count * rondo_element_bytes(m->op.dtype);
  for (uint64_t at = s->begin + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end; at += step) {
    struct rondo_vector l = rondo_mover_local(m, at, bytes);
    struct rondo_vector n = m->op.reduces ? rondo_mover_incoming(m, at) : l;
    rondo_mover_put_any(m, at, bytes, rondo_vector_compute_any(&m->op, n, l));
  }
}

// ---------------------------------------------------------------- dispatch --

// Sums and products of integers ignore the sign, so both signs share a loop.
RONDO_FN uint32_t rondo_mover_unsigned(uint32_t dtype) {
  if (dtype == RONDO_INT8)
    return RONDO_UINT8;
  if (dtype == RONDO_INT32)
    return RONDO_UINT32;
  return dtype == RONDO_INT64 ? RONDO_UINT64 : dtype;
}

// True if the operation has a loop of its own: the plain reductions, and the scaled sum of floating
// types, which is an average. Not for float8, where arithmetic takes longer than memory.
RONDO_FN bool rondo_mover_is_fast(const struct rondo_mover_op *op) {
  if (!op->reduces || op->divide || op->dtype >= RONDO_FLOAT8_E4M3)
    return false;
  return !op->scale || (op->base == RONDO_REDUCE_SUM && op->dtype >= RONDO_FLOAT16);
}

// The loops of one type.
RONDO_FN void rondo_mover_reduce_typed(struct rondo_threads t, const struct rondo_mover_command *m,
                                       const struct rondo_mover_split *s, uint32_t dtype) {
  const struct rondo_mover_op any = {0, 0, (uint8_t)dtype, 0, 0, 0, 1, 0, {0}};
  struct rondo_mover_op op = any;
  if (m->op.scale) {
    op.scale = 1;
    op.factor = m->op.factor;
    rondo_mover_reduce_fast(t, m, s, &op);
  } else if (m->op.base == RONDO_REDUCE_SUM) {
    rondo_mover_reduce_fast(t, m, s, &op);
  } else if (m->op.base == RONDO_REDUCE_PROD) {
    op.base = RONDO_REDUCE_PROD;
    rondo_mover_reduce_fast(t, m, s, &op);
  } else if (m->op.base == RONDO_REDUCE_MAX) {
    op.base = RONDO_REDUCE_MAX;
    rondo_mover_reduce_fast(t, m, s, &op);
  } else {
    op.base = RONDO_REDUCE_MIN;
    rondo_mover_reduce_fast(t, m, s, &op);
  }
}

#define RONDO_FAST_CASE(dtype)                                                                     \
  case dtype:                                                                                      \
    rondo_mover_reduce_typed(t, m, s, dtype);                                                      \
    break
RONDO_FN void rondo_mover_reduce_vectors(struct rondo_threads t,
                                         const struct rondo_mover_command *m,
                                         const struct rondo_mover_split *s) {
  const int has_sign = m->op.scale || m->op.base >= RONDO_REDUCE_MAX;
  switch (has_sign ? m->op.dtype : rondo_mover_unsigned(m->op.dtype)) {
    RONDO_FAST_CASE(RONDO_INT8);
    RONDO_FAST_CASE(RONDO_UINT8);
    RONDO_FAST_CASE(RONDO_INT32);
    RONDO_FAST_CASE(RONDO_UINT32);
    RONDO_FAST_CASE(RONDO_INT64);
    RONDO_FAST_CASE(RONDO_UINT64);
    RONDO_FAST_CASE(RONDO_FLOAT16);
    RONDO_FAST_CASE(RONDO_FLOAT32);
    RONDO_FAST_CASE(RONDO_FLOAT64);
    RONDO_FAST_CASE(RONDO_BFLOAT16);
  default:
    break;
  }
}

#undef RONDO_FAST_CASE

// The vectors of a message are those of its packets, not of the destination's alignment.
RONDO_FN struct rondo_mover_split rondo_mover_split_packets(const struct rondo_mover_command *m) {
  const uint64_t bytes = m->count * rondo_element_bytes(m->op.dtype);
  struct rondo_mover_split s = {0, rondo_packets_bytes(bytes) / RONDO_PACKETS_BYTES, 0};
  return s;
}

// True if the packets of a command hold whole, aligned vectors, which are only moved.
RONDO_FN bool rondo_mover_packets_are_plain(const struct rondo_mover_command *m) {
  const bool takes = m->kind == RONDO_MOVER_UNPACK;
  const uint64_t bytes = m->count * rondo_element_bytes(m->op.dtype);
  return bytes && !(m->op.scale || m->op.divide || m->op.reduces) &&
         ((takes ? m->dst : m->local) | bytes) % RONDO_VECTOR_BYTES == 0;
}

RONDO_FN void rondo_mover_pack_plain(struct rondo_threads t, const struct rondo_mover_command *m,
                                     const struct rondo_mover_split *s) {
  const uint64_t first = rondo_vector_place(m->local);
  const uint64_t end = first + s->count * RONDO_VECTOR_BYTES;
  uint64_t to = rondo_vector_place(m->dst) + (uint64_t)t.rank * RONDO_PACKETS_BYTES;
  for (uint64_t at = first + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_VECTOR_BYTES, to += (uint64_t)t.size * RONDO_PACKETS_BYTES)
    rondo_packets_put(to, rondo_tile_load(at, 0), m->mark);
}

RONDO_FN void rondo_mover_unpack_plain(struct rondo_threads t, const struct rondo_mover_command *m,
                                       const struct rondo_mover_split *s) {
  const uint64_t first = rondo_vector_place(m->dst);
  const uint64_t end = first + s->count * RONDO_VECTOR_BYTES;
  uint64_t from = rondo_vector_place(m->incoming) + (uint64_t)t.rank * RONDO_PACKETS_BYTES;
  for (uint64_t at = first + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_VECTOR_BYTES, from += (uint64_t)t.size * RONDO_PACKETS_BYTES)
    rondo_tile_store(at, 0, rondo_packets_vector(from));
}

// The sum of packets with vectors. `op` holds compile-time constants, as in
// rondo_mover_reduce_fast.
RONDO_FN void rondo_mover_unpack_sum(struct rondo_threads t, const struct rondo_mover_command *m,
                                     const struct rondo_mover_split *s, uint32_t dtype) {
  const struct rondo_mover_op op = {0, 0, (uint8_t)dtype, RONDO_REDUCE_SUM, 0, 0, 1, 0, {0}};
  const uint64_t first = rondo_vector_place(m->dst);
  const uint64_t end = first + s->count * RONDO_VECTOR_BYTES;
  const uint64_t local = rondo_vector_place(m->local) - first; // a difference
  uint64_t from = rondo_vector_place(m->incoming) + (uint64_t)t.rank * RONDO_PACKETS_BYTES;
  for (uint64_t at = first + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_VECTOR_BYTES, from += (uint64_t)t.size * RONDO_PACKETS_BYTES)
    rondo_tile_store(
        at, 0,
        rondo_vector_compute(&op, rondo_packets_vector(from), rondo_tile_load(at + local, 0)));
}

// True if there is a loop for the sum of the packets of a command with vectors, and it is done.
RONDO_FN bool rondo_mover_try_unpack_sum(struct rondo_threads t,
                                         const struct rondo_mover_command *m,
                                         const struct rondo_mover_split *s) {
  const uint64_t bytes = m->count * rondo_element_bytes(m->op.dtype);
  if (!m->op.reduces || m->op.base != RONDO_REDUCE_SUM || m->op.scale || m->op.divide || !bytes ||
      (m->dst | m->local | bytes) % RONDO_VECTOR_BYTES)
    return false;
  if (m->op.dtype == RONDO_FLOAT32)
    rondo_mover_unpack_sum(t, m, s, RONDO_FLOAT32);
  else if (m->op.dtype == RONDO_FLOAT16)
    rondo_mover_unpack_sum(t, m, s, RONDO_FLOAT16);
  else if (m->op.dtype == RONDO_BFLOAT16)
    rondo_mover_unpack_sum(t, m, s, RONDO_BFLOAT16);
  else
    return false;
  return true;
}

// The one caller of rondo_mover_any, which is inlined.
RONDO_FN void rondo_mover_reduce(struct rondo_threads t, const struct rondo_mover_command *m) {
  const uint32_t element = rondo_element_bytes(m->op.dtype);
  const bool has_packets = rondo_mover_has_packets(m);
  const struct rondo_mover_split s =
      has_packets ? rondo_mover_split_packets(m) : rondo_mover_split_of(m, element);
  if (has_packets && t.rank >= s.count)
    return; // a mover without a part, as most have of a small message
  if (!has_packets && !s.shifted && rondo_mover_is_fast(&m->op))
    rondo_mover_reduce_vectors(t, m, &s);
  else if (m->kind == RONDO_MOVER_PACK && rondo_mover_packets_are_plain(m))
    rondo_mover_pack_plain(t, m, &s);
  else if (m->kind == RONDO_MOVER_UNPACK && rondo_mover_packets_are_plain(m))
    rondo_mover_unpack_plain(t, m, &s);
  else if (m->kind != RONDO_MOVER_UNPACK || !rondo_mover_try_unpack_sum(t, m, &s))
    rondo_mover_any(t, m, &s);
  if (!has_packets)
    rondo_mover_edges(t, m, &s, element);
}

RONDO_FN void rondo_mover_copy(struct rondo_threads t, const struct rondo_mover_command *m) {
  const struct rondo_mover_split s = rondo_mover_split_of(m, 1);
  if (s.shifted)
    rondo_mover_copy_shifted(t, m, &s);
  else
    rondo_mover_copy_fast(t, m, &s);
  rondo_mover_edges(t, m, &s, 1);
}

// ------------------------------------------------------------------ messages --
// A thread takes RONDO_QUANTISED_ELEMS elements, which share a scale, at a time.

RONDO_FN float rondo_mover_float(uint64_t address) {
  return rondo_float_of_bits(address % sizeof(float) ? (uint32_t)rondo_element_load(address, 4)
                                                     : *(const uint32_t *)(uintptr_t)address);
}

RONDO_FN void rondo_mover_put_float(uint64_t address, float value) {
  const uint32_t bits = rondo_float_bits(value);
  if (address % sizeof(float))
    rondo_element_store(address, 4, bits);
  else
    *(uint32_t *)(uintptr_t)address = bits;
}

RONDO_FN float rondo_mover_dequantised(const struct rondo_mover_command *m, uint8_t code,
                                       float scale) {
  return m->op.quantisation == RONDO_QUANTISE_INT8 ? rondo_dequantise_int8(code, scale)
                                                   : rondo_dequantise_float8_e4m3(code, scale);
}

// Element `i` of those from element `first` on, before it is quantised. `scale`: of the message.
RONDO_FN float rondo_mover_sum(const struct rondo_mover_command *m, uint64_t first, uint32_t i,
                               float scale) {
  float value = rondo_mover_float(m->local + (first + i) * sizeof(float));
  if (m->op.scale)
    value = rondo_float_settle(value * RONDO_FACTOR_FLOAT(m->op.factor));
  if (!m->op.reduces)
    return value;
  const uint64_t codes = m->incoming + rondo_quantised_bytes(first) + RONDO_QUANTISED_SCALE_BYTES;
  const uint8_t code = *(const uint8_t *)(uintptr_t)(codes + i);
  return rondo_float_settle(rondo_mover_dequantised(m, code, scale) + value);
}

// The elements from `first` on that share a scale. The sums are computed twice: to find the scale,
// and to be quantised. They lie nowhere in between, and each thread has many.
RONDO_FN void rondo_mover_quantise_some(const struct rondo_mover_command *m, uint64_t first) {
  const uint32_t n = (uint32_t)rondo_geometry_min(m->count - first, RONDO_QUANTISED_ELEMS);
  const uint64_t at = rondo_quantised_bytes(first);
  const float most_code = m->op.quantisation == RONDO_QUANTISE_INT8 ? 127.0f : 448.0f;
  const float incoming_scale = m->op.reduces ? rondo_mover_float(m->incoming + at) : 0;
  uint32_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t size = rondo_quantise_magnitude(rondo_mover_sum(m, first, i, incoming_scale));
    most = size > most ? size : most;
  }
  const float scale = rondo_quantise_scale(most, most_code);
  const float inverse = 1.0f / scale;
  rondo_mover_put_float(m->dst + at, scale);
  for (uint32_t i = 0; i < n; i++) {
    const float sum = rondo_mover_sum(m, first, i, incoming_scale);
    const uint8_t code = m->op.quantisation == RONDO_QUANTISE_INT8
                             ? rondo_quantise_int8(sum, inverse)
                             : rondo_quantise_float8_e4m3(sum, inverse);
    *(uint8_t *)(uintptr_t)(m->dst + at + RONDO_QUANTISED_SCALE_BYTES + i) = code;
    if (m->second)
      rondo_mover_put_float(m->second + (first + i) * sizeof(float),
                            rondo_mover_dequantised(m, code, scale));
  }
}

RONDO_FN void rondo_mover_quantise(struct rondo_threads t, const struct rondo_mover_command *m) {
  const uint64_t step = (uint64_t)t.size * RONDO_QUANTISED_ELEMS;
  for (uint64_t at = (uint64_t)t.rank * RONDO_QUANTISED_ELEMS; at < m->count; at += step)
    rondo_mover_quantise_some(m, at);
}

RONDO_FN void rondo_mover_dequantise(struct rondo_threads t, const struct rondo_mover_command *m) {
  for (uint64_t i = t.rank; i < m->count; i += t.size) {
    const uint64_t first = i / RONDO_QUANTISED_ELEMS * RONDO_QUANTISED_ELEMS;
    const uint64_t at = m->local + rondo_quantised_bytes(first);
    const uint64_t code = at + RONDO_QUANTISED_SCALE_BYTES + (i - first);
    rondo_mover_put_float(
        m->dst + i * sizeof(float),
        rondo_mover_dequantised(m, *(const uint8_t *)(uintptr_t)code, rondo_mover_float(at)));
  }
}

// ------------------------------------------------------------------- packets --

// Looks at the packets that this mover will take, up to `looks` times in all where some have not
// come. Returns true if they have.
RONDO_FN bool rondo_mover_look(struct rondo_threads t, const struct rondo_mover_command *m,
                               uint32_t looks) {
  const struct rondo_mover_split s = rondo_mover_split_packets(m);
  const uint64_t first = rondo_vector_place(m->incoming), wanted = rondo_packet_half(0, m->mark);
  const uint64_t end = first + s.count * RONDO_PACKETS_BYTES;
  for (uint64_t at = first + (uint64_t)t.rank * RONDO_PACKETS_BYTES; at < end;
       at += (uint64_t)t.size * RONDO_PACKETS_BYTES) {
    while (!rondo_packets_have_come(at, wanted)) {
      if (looks-- <= 1)
        return false;
    }
  }
  return true;
}

// Copies a block's state between shared memory and its home: both at multiples of 4, mostly of 16.
RONDO_FN void rondo_mover_state(struct rondo_threads t, const struct rondo_mover_command *m) {
  const uint64_t wide = (m->dst | m->local) % 16 ? 0 : m->count / 16;
  const struct rondo_vector *from = (const struct rondo_vector *)(uintptr_t)m->local;
  struct rondo_vector *to = (struct rondo_vector *)(uintptr_t)m->dst;
  for (uint64_t i = t.rank; i < wide; i += t.size)
    to[i] = from[i];
  for (uint64_t i = wide * 4 + t.rank; i < m->count / 4; i += t.size)
    ((uint32_t *)(uintptr_t)m->dst)[i] = ((const uint32_t *)(uintptr_t)m->local)[i];
}

// What every mover does for a command. Not for RONDO_MOVER_END and RONDO_MOVER_NONE.
RONDO_FN void rondo_mover_run(struct rondo_threads t, const struct rondo_mover_command *m) {
  if (m->kind == RONDO_MOVER_COPY)
    rondo_mover_copy(t, m);
  else if (m->kind == RONDO_MOVER_STATE)
    rondo_mover_state(t, m);
  else if (m->kind == RONDO_MOVER_QUANTISE)
    rondo_mover_quantise(t, m);
  else if (m->kind == RONDO_MOVER_DEQUANTISE)
    rondo_mover_dequantise(t, m);
  else
    rondo_mover_reduce(t, m);
}

// -------------------------------------------------------------------- commands --

// True if both destinations of a command can be written as vectors of the same elements.
RONDO_FN bool rondo_mover_is_congruent(uint64_t dst, uint64_t second) {
  return (dst - second) % RONDO_VECTOR_BYTES == 0;
}

RONDO_FN struct rondo_mover_command rondo_mover_command_copy(const void *dst, const void *src,
                                                             uint64_t bytes) {
  struct rondo_mover_command m = {(uint64_t)(uintptr_t)dst,
                                  0,
                                  (uint64_t)(uintptr_t)src,
                                  0,
                                  bytes,
                                  {0, 0, 0, 0, 0, 0, 0, 0, {0}},
                                  RONDO_MOVER_COPY,
                                  0};
  return m;
}

// `incoming` null: an operation without it.
RONDO_FN struct rondo_mover_command rondo_mover_command_reduce(const struct rondo_reduction *r,
                                                               const void *dst, const void *local,
                                                               const void *incoming, uint64_t count,
                                                               int final) {
  struct rondo_mover_command m = rondo_mover_command_copy(dst, local, count);
  struct rondo_mover_op op = {r->factor, r->divisor, r->dtype, r->base, r->scale, 0, 0, 0, {0}};
  op.divide = (uint8_t)(final && r->divide);
  op.reduces = incoming != NULL;
  m.incoming = (uint64_t)(uintptr_t)incoming;
  m.op = op;
  m.kind = incoming ? RONDO_MOVER_REDUCE : RONDO_MOVER_MAP;
  return m;
}

// The arguments of rondo_move_quantise and rondo_move_dequantise.
// NOLINTBEGIN(readability-function-size): each parameter is an operand
RONDO_FN struct rondo_mover_command
rondo_mover_command_quantise(const struct rondo_reduction *r, int quantisation, void *packed,
                             void *dst, const void *local, const void *incoming, uint64_t count) {
  struct rondo_mover_command m = rondo_mover_command_reduce(r, packed, local, incoming, count, 0);
  m.second = (uint64_t)(uintptr_t)dst;
  m.op.quantisation = (uint8_t)quantisation;
  m.kind = RONDO_MOVER_QUANTISE;
  return m;
}
// NOLINTEND(readability-function-size)

RONDO_FN struct rondo_mover_command
rondo_mover_command_dequantise(int quantisation, void *dst, const void *packed, uint64_t count) {
  struct rondo_mover_command m = rondo_mover_command_copy(dst, packed, count);
  m.op.quantisation = (uint8_t)quantisation;
  m.kind = RONDO_MOVER_DEQUANTISE;
  return m;
}

RONDO_FN struct rondo_mover_command rondo_mover_command_pack(const struct rondo_reduction *r,
                                                             struct rondo_packets to,
                                                             const void *local, uint64_t count) {
  struct rondo_mover_command m = rondo_mover_command_reduce(r, NULL, local, NULL, count, 0);
  m.dst = to.at;
  m.mark = to.mark;
  m.kind = RONDO_MOVER_PACK;
  return m;
}

// The arguments of rondo_move_unpack.
RONDO_FN struct rondo_mover_command rondo_mover_command_unpack(const struct rondo_reduction *r,
                                                               void *dst, struct rondo_packets from,
                                                               const void *local, uint64_t count,
                                                               int final) {
  struct rondo_mover_command m = rondo_mover_command_reduce(r, dst, local, NULL, count, final);
  m.op.reduces = local != NULL;
  m.op.scale = m.op.scale && local;
  m.op.divide = m.op.divide && local;
  m.incoming = from.at;
  m.mark = from.mark;
  m.kind = RONDO_MOVER_UNPACK;
  return m;
}

#endif // RONDO_DAEMON_CUDA_MOVE_CORE_H
