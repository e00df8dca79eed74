// Moves and reduces elements by a group of threads, 16 bytes at a time: the device's side of
// daemon/core/move.h. nvcc compiles it for the kernel, gcc for the test that compares it with the
// host.
//
//   deciding thread: rondo_mover_command_* -> barrier -> every mover: rondo_mover_run
//
// A command is split at 16-byte boundaries of the destination: vectors, and single elements before
// and after them. A source with another alignment is read as the two vectors that hold the bytes,
// never beyond the ends of the source. Thread `rank` of `size` takes every size-th vector, several
// at a time, so that their loads are in flight together. Every thread reads its own elements before
// it writes them, so the destination may be a source.
//
// The second destination must have the alignment of the first (rondo_mover_is_congruent); else it
// is a command of its own.
#ifndef RONDO_DAEMON_CUDA_MOVE_CORE_H
#define RONDO_DAEMON_CUDA_MOVE_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "daemon/core/convert_core.h"
#include "daemon/core/move.h"
#include "daemon/core/quantise_core.h"
#include "daemon/plan/geometry_core.h"
#include <rondo/types.h>

#define RONDO_VECTOR_BYTES 16u
#define RONDO_COPY_VECTORS 8u   // loads in flight of one thread
#define RONDO_REDUCE_VECTORS 4u // of each operand

struct rondo_vector {
  uint32_t word[4];
};
static_assert(sizeof(struct rondo_vector) == RONDO_VECTOR_BYTES, "shared layout");

// Provided by the driver: one load and one store of 16 aligned bytes of global memory, and the
// conversions that processors have instructions for.
RONDO_FN struct rondo_vector rondo_vector_load(uint64_t address);
RONDO_FN void rondo_vector_store(uint64_t address, struct rondo_vector v);
RONDO_FN float rondo_mover_widen_float16(uint16_t code);
RONDO_FN uint16_t rondo_mover_narrow_float16(float value);
RONDO_FN uint16_t rondo_mover_narrow_bfloat16(float value);

enum rondo_mover_kind {
  RONDO_MOVER_END = 0,    // the movers leave
  RONDO_MOVER_COPY = 1,   // `count` bytes of `local`
  RONDO_MOVER_MAP = 2,    // scaled and divided elements of `local`
  RONDO_MOVER_REDUCE = 3, // `incoming` with elements of `local`
  RONDO_MOVER_STATE = 4,  // `count` bytes of a block's state, in words of 16 or 4 bytes
  // `count` elements of `local`, with those of the message `incoming`, to the message `dst`; and
  // what that stands for to `second`
  RONDO_MOVER_QUANTISE = 5,
  RONDO_MOVER_DEQUANTISE = 6 // `count` elements of the message `local`
};

struct rondo_mover_op {
  uint64_t factor;
  uint32_t divisor;
  uint8_t dtype, base;   // as in struct rondo_reduction
  uint8_t scale, divide; // 1: multiply before the reduction; divide after it
  uint8_t reduces;       // 0: `incoming` is not read
  uint8_t quantisation;  // enum rondo_quantisation
  uint8_t reserved[6];
};

struct rondo_mover_command {
  uint64_t dst, second; // addresses; second is 0 or congruent with dst
  uint64_t local, incoming;
  uint64_t count; // elements, or bytes of a copy
  struct rondo_mover_op op;
  uint32_t kind; // enum rondo_mover_kind
  uint32_t reserved;
};
static_assert(sizeof(struct rondo_mover_command) == 72, "shared layout");

// -------------------------------------------------------------- one element --
// Elements are passed as their codes, in the low bits.

#define RONDO_ELEMENT_INTEGERS(tag, S, U, D, divide_in)                                            \
  RONDO_FN uint64_t rondo_element_scale_##tag(uint64_t l, uint64_t factor) {                       \
    return (U)((U)l * (U)factor);                                                                  \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_reduce_##tag(uint32_t base, uint64_t n, uint64_t l) {            \
    const S ns = (S)n;                                                                             \
    const S ls = (S)l;                                                                             \
    if (base == RONDO_REDUCE_SUM)                                                                  \
      return (U)((U)n + (U)l);                                                                     \
    if (base == RONDO_REDUCE_PROD)                                                                 \
      return (U)((U)n * (U)l);                                                                     \
    if (base == RONDO_REDUCE_MAX)                                                                  \
      return (U)(ns > ls ? ns : ls);                                                               \
    return (U)(ns < ls ? ns : ls);                                                                 \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_divide_##tag(uint64_t x, uint32_t divisor) {                     \
    return (U)(S)(D)((divide_in)(S)x / (divide_in)divisor);                                        \
  }

// Floating-point division is exact here, and faster: see daemon/host/move_kernels.h.
RONDO_ELEMENT_INTEGERS(i8, int8_t, uint8_t, int32_t, float)
RONDO_ELEMENT_INTEGERS(u8, uint8_t, uint8_t, int32_t, float)
RONDO_ELEMENT_INTEGERS(i32, int32_t, uint32_t, int64_t, double)
RONDO_ELEMENT_INTEGERS(u32, uint32_t, uint32_t, int64_t, double)
RONDO_ELEMENT_INTEGERS(i64, int64_t, uint64_t, int64_t, int64_t)
RONDO_ELEMENT_INTEGERS(u64, uint64_t, uint64_t, uint64_t, uint64_t)

// `of` makes a T from a code, `to` a code from a T, with the one NaN.
#define RONDO_ELEMENT_FLOATS(tag, T, of, to, factor_of)                                            \
  RONDO_FN uint64_t rondo_element_scale_##tag(uint64_t l, uint64_t factor) {                       \
    return to(of(l) * factor_of(factor));                                                          \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_reduce_##tag(uint32_t base, uint64_t n, uint64_t l) {            \
    const T ns = of(n);                                                                            \
    const T ls = of(l);                                                                            \
    if (base == RONDO_REDUCE_SUM)                                                                  \
      return to(ns + ls);                                                                          \
    if (base == RONDO_REDUCE_PROD)                                                                 \
      return to(ns * ls);                                                                          \
    return to(base == RONDO_REDUCE_MAX ? rondo_##T##_max(ns, ls) : rondo_##T##_min(ns, ls));       \
  }                                                                                                \
  RONDO_FN uint64_t rondo_element_divide_##tag(uint64_t x, uint32_t divisor) {                     \
    (void)divisor;                                                                                 \
    return x;                                                                                      \
  }

#define RONDO_FACTOR_FLOAT(bits) rondo_float_of_bits((uint32_t)(bits))
#define RONDO_OF_F16(code) rondo_mover_widen_float16((uint16_t)(code))
#define RONDO_OF_F32(code) rondo_float_of_bits((uint32_t)(code))
#define RONDO_TO_F32(value) rondo_float_bits(rondo_float_settle(value))
#define RONDO_TO_F64(value) rondo_double_bits(rondo_double_settle(value))
#define RONDO_OF_BF16(code) rondo_float_of_bfloat16((uint16_t)(code))
#define RONDO_OF_E4M3(code) rondo_float_of_float8_e4m3((uint8_t)(code))
#define RONDO_OF_E5M2(code) rondo_float_of_float8_e5m2((uint8_t)(code))

RONDO_ELEMENT_FLOATS(f16, float, RONDO_OF_F16, rondo_mover_narrow_float16, RONDO_FACTOR_FLOAT)
RONDO_ELEMENT_FLOATS(f32, float, RONDO_OF_F32, RONDO_TO_F32, RONDO_FACTOR_FLOAT)
RONDO_ELEMENT_FLOATS(f64, double, rondo_double_of_bits, RONDO_TO_F64, rondo_double_of_bits)
RONDO_ELEMENT_FLOATS(bf16, float, RONDO_OF_BF16, rondo_mover_narrow_bfloat16, RONDO_FACTOR_FLOAT)
RONDO_ELEMENT_FLOATS(e4m3, float, RONDO_OF_E4M3, rondo_float8_e4m3_of_float, RONDO_FACTOR_FLOAT)
RONDO_ELEMENT_FLOATS(e5m2, float, RONDO_OF_E5M2, rondo_float8_e5m2_of_float, RONDO_FACTOR_FLOAT)

// Bytes of an element. `dtype` is enum rondo_dtype; a table would lie in memory.
RONDO_FN uint32_t rondo_element_bytes(uint32_t dtype) {
  if (dtype == RONDO_INT64 || dtype == RONDO_UINT64 || dtype == RONDO_FLOAT64)
    return 8;
  if (dtype == RONDO_INT32 || dtype == RONDO_UINT32 || dtype == RONDO_FLOAT32)
    return 4;
  return dtype == RONDO_FLOAT16 || dtype == RONDO_BFLOAT16 ? 2 : 1;
}

// The types: X(enum rondo_dtype, tag of the functions above).
#define RONDO_ELEMENT_TYPES(X)                                                                     \
  X(RONDO_INT8, i8)                                                                                \
  X(RONDO_UINT8, u8)                                                                               \
  X(RONDO_INT32, i32)                                                                              \
  X(RONDO_UINT32, u32)                                                                             \
  X(RONDO_INT64, i64)                                                                              \
  X(RONDO_UINT64, u64)                                                                             \
  X(RONDO_FLOAT16, f16)                                                                            \
  X(RONDO_FLOAT32, f32)                                                                            \
  X(RONDO_FLOAT64, f64)                                                                            \
  X(RONDO_BFLOAT16, bf16)                                                                          \
  X(RONDO_FLOAT8_E4M3, e4m3)                                                                       \
  X(RONDO_FLOAT8_E5M2, e5m2)

// The whole operation, in its order.
#define RONDO_ELEMENT_COMPUTE(dtype, tag)                                                          \
  RONDO_FN uint64_t rondo_element_compute_##tag(const struct rondo_mover_op *op, uint64_t n,       \
                                                uint64_t l) {                                      \
    uint64_t x = op->scale ? rondo_element_scale_##tag(l, op->factor) : l;                         \
    x = op->reduces ? rondo_element_reduce_##tag(op->base, n, x) : x;                              \
    return op->divide ? rondo_element_divide_##tag(x, op->divisor) : x;                            \
  }
RONDO_ELEMENT_TYPES(RONDO_ELEMENT_COMPUTE)

// The result for one element.
RONDO_FN uint64_t rondo_element_compute(const struct rondo_mover_op *op, uint64_t n, uint64_t l) {
  switch (op->dtype) {
#define RONDO_COMPUTE_CASE(dtype, tag)                                                             \
  case dtype:                                                                                      \
    return rondo_element_compute_##tag(op, n, l);
    RONDO_ELEMENT_TYPES(RONDO_COMPUTE_CASE)
#undef RONDO_COMPUTE_CASE
  default:
    return rondo_element_compute_e5m2(op, n, l);
  }
}

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

// Copies vectors whose source has the alignment of the destination.
RONDO_FN void rondo_mover_copy_fast(struct rondo_threads t, const struct rondo_mover_command *m,
                                    const struct rondo_mover_split *s) {
  const uint64_t step = (uint64_t)t.size * RONDO_VECTOR_BYTES;
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  uint64_t at = s->begin + (uint64_t)t.rank * RONDO_VECTOR_BYTES;
  for (; at + (RONDO_COPY_VECTORS - 1) * step < end; at += RONDO_COPY_VECTORS * step) {
    struct rondo_vector v[RONDO_COPY_VECTORS];
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_COPY_VECTORS; i++) {
      v[i] = rondo_vector_load(m->local + at + i * step);
    }
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_COPY_VECTORS; i++) {
      rondo_mover_put(m, at + i * step, v[i]);
    }
  }
  for (; at < end; at += step)
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

// Reduces vectors whose sources have the alignment of the destination. `op` holds compile-time
// constants for each case that has a loop of its own.
RONDO_FN void rondo_mover_reduce_fast(struct rondo_threads t, const struct rondo_mover_command *m,
                                      const struct rondo_mover_split *s,
                                      const struct rondo_mover_op *op) {
  const uint64_t step = (uint64_t)t.size * RONDO_VECTOR_BYTES;
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  uint64_t at = s->begin + (uint64_t)t.rank * RONDO_VECTOR_BYTES;
  for (; at + (RONDO_REDUCE_VECTORS - 1) * step < end; at += RONDO_REDUCE_VECTORS * step) {
    struct rondo_vector n[RONDO_REDUCE_VECTORS];
    struct rondo_vector l[RONDO_REDUCE_VECTORS];
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
      n[i] = rondo_vector_load(m->incoming + at + i * step);
      l[i] = rondo_vector_load(m->local + at + i * step);
    }
    RONDO_UNROLL for (uint32_t i = 0; i < RONDO_REDUCE_VECTORS; i++) {
      rondo_mover_put(m, at + i * step, rondo_vector_compute(op, n[i], l[i]));
    }
  }
  for (; at < end; at += step)
    rondo_mover_put(m, at,
                    rondo_vector_compute(op, rondo_vector_load(m->incoming + at),
                                         rondo_vector_load(m->local + at)));
}

// Any operation on vectors of any alignment; only the type is a compile-time constant.
RONDO_FN void rondo_mover_any(struct rondo_threads t, const struct rondo_mover_command *m,
                              const struct rondo_mover_split *s, uint32_t dtype) {
  struct rondo_mover_op op = m->op;
  op.dtype = (uint8_t)dtype;
  const uint64_t step = (uint64_t)t.size * RONDO_VECTOR_BYTES;
  const uint64_t end = s->begin + s->count * RONDO_VECTOR_BYTES;
  for (uint64_t at = s->begin + (uint64_t)t.rank * RONDO_VECTOR_BYTES; at < end; at += step) {
    struct rondo_vector l = rondo_vector_load_any(m->local + at);
    struct rondo_vector n = op.reduces ? rondo_vector_load_any(m->incoming + at) : l;
    rondo_mover_put(m, at, rondo_vector_compute(&op, n, l));
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

RONDO_FN void rondo_mover_any_vectors(struct rondo_threads t, const struct rondo_mover_command *m,
                                      const struct rondo_mover_split *s) {
  switch (m->op.dtype) {
#define RONDO_ANY_CASE(dtype, tag)                                                                 \
  case dtype:                                                                                      \
    rondo_mover_any(t, m, s, dtype);                                                               \
    break;
    RONDO_ELEMENT_TYPES(RONDO_ANY_CASE)
#undef RONDO_ANY_CASE
  default:
    break;
  }
}

RONDO_FN void rondo_mover_reduce(struct rondo_threads t, const struct rondo_mover_command *m) {
  const uint32_t element = rondo_element_bytes(m->op.dtype);
  const struct rondo_mover_split s = rondo_mover_split_of(m, element);
  if (!s.shifted && rondo_mover_is_fast(&m->op))
    rondo_mover_reduce_vectors(t, m, &s);
  else
    rondo_mover_any_vectors(t, m, &s);
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

// What every mover does for a command. Not for RONDO_MOVER_END.
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

#endif // RONDO_DAEMON_CUDA_MOVE_CORE_H
