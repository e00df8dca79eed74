// The arithmetic of PTX as pure functions of register bits: integers, floating point of five
// widths, conversions, shifts and bit fields. The rules are those of the PTX ISA, chapters 9.7.1
// to 9.7.5 and 9.7.9.
//
// Operands and results are the bits of a register: float32 travels as uint32_t. The suffix of a
// name is the instruction's type; `b` stands for an operation that signed and unsigned integers
// share. What PTX leaves open is settled like this:
//   - a NaN result is 7fff (f16, bf16), 7fffffff (f32) or fff8000000000000 (f64). The last is not
//     the NaN that Rondo's results have, so a kernel that forgets to set it is noticed.
//   - an integer quotient or remainder by zero is all ones, and `by_zero` is set to true.
// Sources that call these functions are compiled with -ffp-contract=off and run in the default
// floating-point environment: round to nearest, subnormals kept.
//
// The inline functions have no loop and few branches, so that a loop over the lanes of a warp can
// be vectorised if type, rounding and modifiers are constants. All functions may be called by any
// thread.
#ifndef RONDO_TESTS_SUPPORT_PTX_PTX_ARITH_H
#define RONDO_TESTS_SUPPORT_PTX_PTX_ARITH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum ptx_type {
  PTX_PRED,
  PTX_B8,
  PTX_B16,
  PTX_B32,
  PTX_B64,
  PTX_B128,
  PTX_U8,
  PTX_U16,
  PTX_U32,
  PTX_U64,
  PTX_S8,
  PTX_S16,
  PTX_S32,
  PTX_S64,
  PTX_F16,
  PTX_BF16,
  PTX_F32,
  PTX_F64,
  PTX_E4M3,
  PTX_E5M2,
  PTX_TYPE_COUNT
};

// The four modes that round to what the destination can hold, then the four that round to an
// integer.
enum ptx_round { PTX_RN, PTX_RZ, PTX_RM, PTX_RP, PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI };

enum ptx_modifier {
  PTX_FTZ = 1,       // subnormal f32 operands and results become zeros with their sign
  PTX_SAT = 2,       // a float is clamped to [0, 1], NaN becomes 0; an integer to its type's range
  PTX_SATFINITE = 4, // infinity and overflow become the largest finite number
  PTX_NAN = 8        // minimum and maximum give NaN if an operand is NaN
};

// setp: ordered (false if an operand is NaN), then unordered (true if one is), then the two that
// only ask for NaN. lo, ls, hi and hs of unsigned integers are LT, LE, GT and GE.
enum ptx_compare {
  PTX_EQ,
  PTX_NE,
  PTX_LT,
  PTX_LE,
  PTX_GT,
  PTX_GE,
  PTX_EQU,
  PTX_NEU,
  PTX_LTU,
  PTX_LEU,
  PTX_GTU,
  PTX_GEU,
  PTX_IS_NUM,
  PTX_IS_NAN
};

enum ptx_prmt { PTX_PRMT, PTX_F4E, PTX_B4E, PTX_RC8, PTX_ECL, PTX_ECR, PTX_RC16 };

// ---- Any type, any rounding: exact and slow. `type` is one of the four floating types with
// arithmetic: F16, BF16, F32, F64.
uint64_t ptx_float_add(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers);
uint64_t ptx_float_sub(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers);
uint64_t ptx_float_mul(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers);
uint64_t ptx_float_div(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers);
// a * b + c, rounded once.
uint64_t ptx_float_fma(enum ptx_type type, uint64_t a, uint64_t b, uint64_t c, enum ptx_round round,
                       uint32_t modifiers);

// cvt between any two types, except PRED and B*. Of `value` only the bits of `from` count. The
// result has the bits of `to`; if `to` is a signed integer they are sign-extended to 64 bits, else
// zero-extended, as a wider destination register needs. Packed forms (f16x2, e4m3x2) are two calls:
// the first operand is the upper half.
uint64_t ptx_cvt(enum ptx_type to, enum ptx_type from, uint64_t value, enum ptx_round round,
                 uint32_t modifiers);

// prmt.b32 in any mode, and in its default mode.
uint32_t ptx_prmt_b32(uint32_t a, uint32_t b, uint32_t control, enum ptx_prmt mode);
// shf.l, shf.r: shift the pair b:a. Without `wrap` an amount above 32 counts as 32.
uint32_t ptx_shf_l_b32(uint32_t a, uint32_t b, uint32_t amount, bool wrap);
uint32_t ptx_shf_r_b32(uint32_t a, uint32_t b, uint32_t amount, bool wrap);

// ---- Bits of float and double.
static inline float ptx_float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t ptx_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double ptx_double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t ptx_double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// ---- Integers of 16, 32 and 64 bits. add, sub, mul_lo, mad_lo and neg wrap; min, max, div, rem,
// compare, mul_hi and shr exist for signed and unsigned. A shift takes any amount: past the width
// it gives 0, or the sign. The least number divided by -1 gives the least number, remainder 0.
#define PTX_INTEGERS(bits, wide_unsigned, wide_signed)                                             \
  static inline uint##bits##_t ptx_add_b##bits(uint##bits##_t a, uint##bits##_t b) {               \
    return (uint##bits##_t)(a + b);                                                                \
  }                                                                                                \
  static inline uint##bits##_t ptx_sub_b##bits(uint##bits##_t a, uint##bits##_t b) {               \
    return (uint##bits##_t)(a - b);                                                                \
  }                                                                                                \
  static inline uint##bits##_t ptx_neg_b##bits(uint##bits##_t a) {                                 \
    return (uint##bits##_t)(0 - a);                                                                \
  }                                                                                                \
  static inline uint##bits##_t ptx_abs_s##bits(uint##bits##_t a) {                                 \
    return (uint##bits##_t)(a >> ((bits)-1) ? 0 - a : a);                                          \
  }                                                                                                \
  static inline uint##bits##_t ptx_mul_lo_b##bits(uint##bits##_t a, uint##bits##_t b) {            \
    return (uint##bits##_t)((wide_unsigned)a * b);                                                 \
  }                                                                                                \
  static inline uint##bits##_t ptx_mad_lo_b##bits(uint##bits##_t a, uint##bits##_t b,              \
                                                  uint##bits##_t c) {                              \
    return (uint##bits##_t)((wide_unsigned)a * b + c);                                             \
  }                                                                                                \
  static inline uint##bits##_t ptx_mul_hi_u##bits(uint##bits##_t a, uint##bits##_t b) {            \
    return (uint##bits##_t)((wide_unsigned)a * b >> (bits));                                       \
  }                                                                                                \
  static inline uint##bits##_t ptx_mul_hi_s##bits(uint##bits##_t a, uint##bits##_t b) {            \
    return (uint##bits##_t)((wide_signed)(int##bits##_t)a * (int##bits##_t)b >> (bits));           \
  }                                                                                                \
  static inline uint##bits##_t ptx_shl_b##bits(uint##bits##_t a, uint32_t amount) {                \
    const uint32_t clamped = amount < (bits) ? amount : 0;                                         \
    return (uint##bits##_t)(amount < (bits) ? (wide_unsigned)a << clamped : 0);                    \
  }                                                                                                \
  static inline uint##bits##_t ptx_shr_u##bits(uint##bits##_t a, uint32_t amount) {                \
    const uint32_t clamped = amount < (bits) ? amount : 0;                                         \
    return (uint##bits##_t)(amount < (bits) ? a >> clamped : 0);                                   \
  }                                                                                                \
  static inline uint##bits##_t ptx_shr_s##bits(uint##bits##_t a, uint32_t amount) {                \
    const uint32_t clamped = amount < (bits) ? amount : (bits)-1;                                  \
    return (uint##bits##_t)((int##bits##_t)a >> clamped);                                          \
  }                                                                                                \
  PTX_ORDERED(u, uint, bits, false)                                                                \
  PTX_ORDERED(s, int, bits, true)

#define PTX_ORDERED(letter, kind, bits, is_signed)                                                 \
  static inline uint##bits##_t ptx_min_##letter##bits(uint##bits##_t a, uint##bits##_t b) {        \
    return (kind##bits##_t)a < (kind##bits##_t)b ? a : b;                                          \
  }                                                                                                \
  static inline uint##bits##_t ptx_max_##letter##bits(uint##bits##_t a, uint##bits##_t b) {        \
    return (kind##bits##_t)a > (kind##bits##_t)b ? a : b;                                          \
  }                                                                                                \
  static inline uint##bits##_t ptx_div_##letter##bits(uint##bits##_t a, uint##bits##_t b,          \
                                                      bool *by_zero) {                             \
    *by_zero |= b == 0;                                                                            \
    if (b == 0)                                                                                    \
      return (uint##bits##_t) - 1;                                                                 \
    if ((is_signed) && b == (uint##bits##_t) - 1)                                                  \
      return (uint##bits##_t)(0 - a);                                                              \
    return (uint##bits##_t)((kind##bits##_t)a / (kind##bits##_t)b);                                \
  }                                                                                                \
  static inline uint##bits##_t ptx_rem_##letter##bits(uint##bits##_t a, uint##bits##_t b,          \
                                                      bool *by_zero) {                             \
    *by_zero |= b == 0;                                                                            \
    if (b == 0)                                                                                    \
      return (uint##bits##_t) - 1;                                                                 \
    if ((is_signed) && b == (uint##bits##_t) - 1)                                                  \
      return 0;                                                                                    \
    return (uint##bits##_t)((kind##bits##_t)a % (kind##bits##_t)b);                                \
  }                                                                                                \
  static inline bool ptx_compare_##letter##bits(enum ptx_compare how, uint##bits##_t left,         \
                                                uint##bits##_t right) {                            \
    const kind##bits##_t a = (kind##bits##_t)left, b = (kind##bits##_t)right;                      \
    return how == PTX_EQ   ? a == b                                                                \
           : how == PTX_NE ? a != b                                                                \
           : how == PTX_LT ? a < b                                                                 \
           : how == PTX_LE ? a <= b                                                                \
           : how == PTX_GT ? a > b                                                                 \
                           : a >= b;                                                               \
  }

PTX_INTEGERS(16, uint32_t, int32_t)
PTX_INTEGERS(32, uint64_t, int64_t)
__extension__ typedef unsigned __int128 ptx_u128;
__extension__ typedef __int128 ptx_s128;
PTX_INTEGERS(64, ptx_u128, ptx_s128)
#undef PTX_INTEGERS
#undef PTX_ORDERED

static inline uint32_t ptx_mul_wide_u16(uint16_t a, uint16_t b) { return (uint32_t)a * b; }
static inline uint32_t ptx_mul_wide_s16(uint16_t a, uint16_t b) {
  return (uint32_t)((int16_t)a * (int16_t)b);
}
static inline uint64_t ptx_mul_wide_u32(uint32_t a, uint32_t b) { return (uint64_t)a * b; }
static inline uint64_t ptx_mul_wide_s32(uint32_t a, uint32_t b) {
  return (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
}

// mul24: the product of the low 24 bits; lo is its low 32 bits, hi the high 32 of its 48.
static inline uint32_t ptx_mul24_lo_u32(uint32_t a, uint32_t b) {
  return (a & 0xffffffu) * (b & 0xffffffu);
}
static inline uint32_t ptx_mul24_hi_u32(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)(a & 0xffffffu) * (b & 0xffffffu) >> 16);
}
static inline int64_t ptx_mul24_whole_s32(uint32_t a, uint32_t b) {
  return (int64_t)((int32_t)(a << 8) >> 8) * ((int32_t)(b << 8) >> 8);
}
static inline uint32_t ptx_mul24_lo_s32(uint32_t a, uint32_t b) {
  return (uint32_t)ptx_mul24_whole_s32(a, b);
}
static inline uint32_t ptx_mul24_hi_s32(uint32_t a, uint32_t b) {
  return (uint32_t)(ptx_mul24_whole_s32(a, b) >> 16);
}

// add.sat.s32, sub.sat.s32; mad.hi.sat.s32 is add_sat of mul_hi.
static inline uint32_t ptx_clamp_s32(int64_t value) {
  return (uint32_t)(value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value);
}
static inline uint32_t ptx_add_sat_s32(uint32_t a, uint32_t b) {
  return ptx_clamp_s32((int64_t)(int32_t)a + (int32_t)b);
}
static inline uint32_t ptx_sub_sat_s32(uint32_t a, uint32_t b) {
  return ptx_clamp_s32((int64_t)(int32_t)a - (int32_t)b);
}

// ---- Bits.
static inline uint32_t ptx_popc_b32(uint32_t a) { return (uint32_t)__builtin_popcount(a); }
static inline uint32_t ptx_popc_b64(uint64_t a) { return (uint32_t)__builtin_popcountll(a); }
static inline uint32_t ptx_clz_b32(uint32_t a) { return a ? (uint32_t)__builtin_clz(a) : 32; }
static inline uint32_t ptx_clz_b64(uint64_t a) { return a ? (uint32_t)__builtin_clzll(a) : 64; }

static inline uint32_t ptx_brev_b32(uint32_t a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(a);
}
static inline uint64_t ptx_brev_b64(uint64_t a) {
  return (uint64_t)ptx_brev_b32((uint32_t)a) << 32 | ptx_brev_b32((uint32_t)(a >> 32));
}

// Bits [0, count) set; any count.
static inline uint64_t ptx_low_bits(uint32_t count) {
  return count < 64 ? ((uint64_t)1 << count) - 1 : ~(uint64_t)0;
}

// bfe: `length` bits of a from bit `position`. Bits past the width read as 0, or as the field's
// sign: its highest bit inside the width. Of position and length only 8 bits count.
static inline uint64_t ptx_bfe_u64(uint64_t a, uint32_t position, uint32_t length) {
  return ptx_shr_u64(a, position & 0xff) & ptx_low_bits(length & 0xff);
}
static inline uint32_t ptx_bfe_u32(uint32_t a, uint32_t position, uint32_t length) {
  return (uint32_t)ptx_bfe_u64(a, position, length);
}
static inline uint64_t ptx_bfe_s64(uint64_t a, uint32_t position, uint32_t length) {
  const uint64_t field = ptx_shr_s64(a, position & 0xff);
  const uint32_t count = length & 0xff;
  const uint32_t unused = count < 64 ? 64 - count : 0;
  return ptx_shr_s64(ptx_shl_b64(field, unused), unused);
}
static inline uint32_t ptx_bfe_s32(uint32_t a, uint32_t position, uint32_t length) {
  return (uint32_t)ptx_bfe_s64((uint64_t)(int32_t)a, position, length);
}

// bfi: b with `length` bits of a from bit `position` on. Length 0 gives b.
static inline uint64_t ptx_bfi_b64(uint64_t a, uint64_t b, uint32_t position, uint32_t length) {
  const uint64_t mask = ptx_shl_b64(ptx_low_bits(length & 0xff), position & 0xff);
  return (b & ~mask) | (ptx_shl_b64(a, position & 0xff) & mask);
}
static inline uint32_t ptx_bfi_b32(uint32_t a, uint32_t b, uint32_t position, uint32_t length) {
  return (uint32_t)ptx_bfi_b64(a, b, position, length);
}

// lop3: bit i of the result is bit (a << 2 | b << 1 | c) of `table`, of the operands' bits i.
static inline uint32_t ptx_lop3_b32(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 8; i++)
    result |= table >> i & 1 ? (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c) : 0;
  return result;
}

// bfind: the position of the highest bit that is set, of a negative number the highest that is
// not; all ones if there is none.
static inline uint32_t ptx_bfind_u64(uint64_t a) { return 63 - ptx_clz_b64(a); }
static inline uint32_t ptx_bfind_u32(uint32_t a) { return ptx_bfind_u64(a); }
static inline uint32_t ptx_bfind_s64(uint64_t a) { return ptx_bfind_u64(a >> 63 ? ~a : a); }
static inline uint32_t ptx_bfind_s32(uint32_t a) { return ptx_bfind_s64((uint64_t)(int32_t)a); }

// ---- f32 and f64.
static inline bool ptx_is_nan_f32(uint32_t a) { return (a & 0x7fffffffu) > 0x7f800000u; }
static inline bool ptx_is_nan_f64(uint64_t a) {
  return (a & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
}
static inline bool ptx_is_nan_f16(uint16_t a) { return (a & 0x7fffu) > 0x7c00u; }
static inline bool ptx_is_nan_bf16(uint16_t a) { return (a & 0x7fffu) > 0x7f80u; }

// Applies .ftz to an operand.
static inline uint32_t ptx_operand_f32(uint32_t a, uint32_t modifiers) {
  return modifiers & PTX_FTZ && !(a & 0x7f800000u) ? a & 0x80000000u : a;
}

// Gives a result its one NaN, and applies .ftz and .sat.
static inline uint32_t ptx_result_f32(uint32_t a, uint32_t modifiers) {
  a = ptx_is_nan_f32(a) ? 0x7fffffffu : ptx_operand_f32(a, modifiers);
  if (!(modifiers & PTX_SAT))
    return a;
  const uint32_t positive = a >> 31 || ptx_is_nan_f32(a) ? 0 : a;
  return positive > 0x3f800000u ? 0x3f800000u : positive;
}
static inline uint64_t ptx_result_f64(uint64_t a) {
  return ptx_is_nan_f64(a) ? 0xfff8000000000000u : a;
}

#define PTX_FLOAT_OPERATION(name, operator)                                                        \
  static inline uint32_t ptx_##name##_f32(uint32_t a, uint32_t b, enum ptx_round round,            \
                                          uint32_t modifiers) {                                    \
    if (round != PTX_RN)                                                                           \
      return (uint32_t)ptx_float_##name(PTX_F32, a, b, round, modifiers);                          \
    const float left = ptx_float_of(ptx_operand_f32(a, modifiers));                                \
    const float right = ptx_float_of(ptx_operand_f32(b, modifiers));                               \
    return ptx_result_f32(ptx_float_bits(left operator right), modifiers);                         \
  }                                                                                                \
  static inline uint64_t ptx_##name##_f64(uint64_t a, uint64_t b, enum ptx_round round) {          \
    if (round != PTX_RN)                                                                           \
      return ptx_float_##name(PTX_F64, a, b, round, 0);                                            \
    return ptx_result_f64(ptx_double_bits(ptx_double_of(a) operator ptx_double_of(b)));            \
  }
PTX_FLOAT_OPERATION(add, +)
PTX_FLOAT_OPERATION(sub, -)
PTX_FLOAT_OPERATION(mul, *)
PTX_FLOAT_OPERATION(div, /)
#undef PTX_FLOAT_OPERATION

static inline uint32_t ptx_fma_f32(uint32_t a, uint32_t b, uint32_t c, enum ptx_round round,
                                   uint32_t modifiers) {
  if (round != PTX_RN)
    return (uint32_t)ptx_float_fma(PTX_F32, a, b, c, round, modifiers);
  const float sum = __builtin_fmaf(ptx_float_of(ptx_operand_f32(a, modifiers)),
                                   ptx_float_of(ptx_operand_f32(b, modifiers)),
                                   ptx_float_of(ptx_operand_f32(c, modifiers)));
  return ptx_result_f32(ptx_float_bits(sum), modifiers);
}
static inline uint64_t ptx_fma_f64(uint64_t a, uint64_t b, uint64_t c, enum ptx_round round) {
  if (round != PTX_RN)
    return ptx_float_fma(PTX_F64, a, b, c, round, 0);
  return ptx_result_f64(
      ptx_double_bits(__builtin_fma(ptx_double_of(a), ptx_double_of(b), ptx_double_of(c))));
}

static inline uint32_t ptx_abs_f32(uint32_t a, uint32_t modifiers) {
  return ptx_result_f32(a & 0x7fffffffu, modifiers);
}
static inline uint32_t ptx_neg_f32(uint32_t a, uint32_t modifiers) {
  return ptx_result_f32(a ^ 0x80000000u, modifiers);
}
static inline uint64_t ptx_abs_f64(uint64_t a) { return ptx_result_f64(a & 0x7fffffffffffffffu); }
static inline uint64_t ptx_neg_f64(uint64_t a) { return ptx_result_f64(a ^ 0x8000000000000000u); }

// min and max of a floating type: -0 is below +0; of a number and NaN the number, with PTX_NAN
// NaN. The keys order as the numbers do.
#define PTX_FLOAT_CHOICE(type, bits, nan)                                                          \
  static inline uint##bits##_t ptx_key_##type(uint##bits##_t a) {                                  \
    return (uint##bits##_t)(a >> ((bits)-1) ? ~a : a | (uint##bits##_t)1 << ((bits)-1));           \
  }                                                                                                \
  static inline uint##bits##_t ptx_choose_##type(uint##bits##_t a, uint##bits##_t b, bool first,   \
                                                 uint32_t modifiers) {                             \
    const bool a_nan = ptx_is_nan_##type(a), b_nan = ptx_is_nan_##type(b);                         \
    const uint##bits##_t number = a_nan ? b : b_nan || first ? a : b;                              \
    const bool is_nan = modifiers & PTX_NAN ? a_nan || b_nan : a_nan && b_nan;                     \
    return is_nan ? (nan) : number;                                                                \
  }
PTX_FLOAT_CHOICE(f16, 16, 0x7fffu)
PTX_FLOAT_CHOICE(bf16, 16, 0x7fffu)
PTX_FLOAT_CHOICE(f32, 32, 0x7fffffffu)
PTX_FLOAT_CHOICE(f64, 64, 0xfff8000000000000u)
#undef PTX_FLOAT_CHOICE

#define PTX_FLOAT_EXTREME(type, bits)                                                              \
  static inline uint##bits##_t ptx_min_##type(uint##bits##_t a, uint##bits##_t b,                  \
                                              uint32_t modifiers) {                                \
    return ptx_choose_##type(a, b, ptx_key_##type(a) < ptx_key_##type(b), modifiers);              \
  }                                                                                                \
  static inline uint##bits##_t ptx_max_##type(uint##bits##_t a, uint##bits##_t b,                  \
                                              uint32_t modifiers) {                                \
    return ptx_choose_##type(a, b, ptx_key_##type(a) > ptx_key_##type(b), modifiers);              \
  }
PTX_FLOAT_EXTREME(f16, 16)
PTX_FLOAT_EXTREME(bf16, 16)
PTX_FLOAT_EXTREME(f64, 64)
#undef PTX_FLOAT_EXTREME

static inline uint32_t ptx_min_f32(uint32_t a, uint32_t b, uint32_t modifiers) {
  a = ptx_operand_f32(a, modifiers);
  b = ptx_operand_f32(b, modifiers);
  return ptx_choose_f32(a, b, ptx_key_f32(a) < ptx_key_f32(b), modifiers);
}
static inline uint32_t ptx_max_f32(uint32_t a, uint32_t b, uint32_t modifiers) {
  a = ptx_operand_f32(a, modifiers);
  b = ptx_operand_f32(b, modifiers);
  return ptx_choose_f32(a, b, ptx_key_f32(a) > ptx_key_f32(b), modifiers);
}

static inline bool ptx_compare_double(enum ptx_compare how, double a, double b) {
  const bool unordered = a != a || b != b;
  switch (how) {
  case PTX_EQ:
    return a == b;
  case PTX_NE:
    return !unordered && a != b;
  case PTX_LT:
    return a < b;
  case PTX_LE:
    return a <= b;
  case PTX_GT:
    return a > b;
  case PTX_GE:
    return a >= b;
  case PTX_EQU:
    return unordered || a == b;
  case PTX_NEU:
    return a != b;
  case PTX_LTU:
    return !(a >= b);
  case PTX_LEU:
    return !(a > b);
  case PTX_GTU:
    return !(a <= b);
  case PTX_GEU:
    return !(a < b);
  case PTX_IS_NUM:
    return !unordered;
  case PTX_IS_NAN:
    return unordered;
  }
  return false;
}
static inline bool ptx_compare_f64(enum ptx_compare how, uint64_t a, uint64_t b) {
  return ptx_compare_double(how, ptx_double_of(a), ptx_double_of(b));
}
static inline bool ptx_compare_f32(enum ptx_compare how, uint32_t a, uint32_t b,
                                   uint32_t modifiers) {
  return ptx_compare_double(how, (double)ptx_float_of(ptx_operand_f32(a, modifiers)),
                            (double)ptx_float_of(ptx_operand_f32(b, modifiers)));
}

// ---- Conversions that kernels run most, with the same results as ptx_cvt.
static inline uint32_t ptx_cvt_f32_f16(uint16_t a) {
  const uint32_t magnitude = a & 0x7fffu;
  const uint32_t sign = (uint32_t)(a & 0x8000u) << 16;
  // A subnormal number gets a leading one that the subtraction takes away again.
  const uint32_t widened = (magnitude << 13) + (112u << 23);
  const float subnormal = ptx_float_of(widened + (1u << 23)) - 0x1p-14f;
  const uint32_t number = magnitude < 0x400u ? ptx_float_bits(subnormal) : widened;
  const uint32_t whole = magnitude == 0x7c00u ? 0x7f800000u : number;
  return ptx_is_nan_f16(a) ? 0x7fffffffu : whole | sign;
}
static inline uint32_t ptx_cvt_f32_bf16(uint16_t a) {
  return ptx_is_nan_bf16(a) ? 0x7fffffffu : (uint32_t)a << 16;
}

// One unit in the last place of a float at 0.5 is the spacing of f16's subnormals, so the addition
// rounds to that spacing.
static inline uint16_t ptx_cvt_rn_f16_f32(uint32_t a) {
  const uint32_t magnitude = a & 0x7fffffffu;
  const uint32_t half = 0x3f000000u;
  const uint32_t subnormal = ptx_float_bits(ptx_float_of(magnitude) + 0.5f) - half;
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  const uint32_t number = magnitude < (113u << 23) ? subnormal : normal;
  const uint32_t code = magnitude < (143u << 23) && number < 0x7c00u ? number : 0x7c00u;
  return (uint16_t)(ptx_is_nan_f32(a) ? 0x7fffu : code | (a >> 16 & 0x8000u));
}
static inline uint16_t ptx_cvt_rn_bf16_f32(uint32_t a) {
  return (uint16_t)(ptx_is_nan_f32(a) ? 0x7fffu : (a + 0x7fffu + (a >> 16 & 1)) >> 16);
}

static inline uint64_t ptx_cvt_f64_f32(uint32_t a) {
  return ptx_result_f64(ptx_double_bits((double)ptx_float_of(a)));
}
static inline uint32_t ptx_cvt_rn_f32_f64(uint64_t a) {
  return ptx_result_f32(ptx_float_bits((float)ptx_double_of(a)), 0);
}

// Floats to integers, towards zero. What does not fit becomes the nearest integer that does. NaN
// becomes 0; in a 64-bit destination or from f64 it becomes the highest bit alone.
#define PTX_CVT_RZI(name, bits, source, value_of, integer, low, high, least, greatest, nan)        \
  static inline uint##bits##_t ptx_cvt_rzi_##name(uint##source##_t a) {                            \
    const bool fits = value_of(a) >= (low) && value_of(a) < (high);                                \
    const uint##bits##_t end = value_of(a) >= (high) ? (greatest) : (least);                       \
    const uint##bits##_t other = value_of(a) == value_of(a) ? end : (nan);                         \
    return fits ? (uint##bits##_t)(integer)value_of(fits ? a : 0) : other;                         \
  }
PTX_CVT_RZI(s32_f32, 32, 32, ptx_float_of, int32_t, -0x1p31f, 0x1p31f, 1u << 31, ~0u >> 1, 0)
PTX_CVT_RZI(u32_f32, 32, 32, ptx_float_of, uint32_t, 0, 0x1p32f, 0, ~0u, 0)
PTX_CVT_RZI(s64_f32, 64, 32, ptx_float_of, int64_t, -0x1p63f, 0x1p63f, 1ull << 63, ~0ull >> 1,
            1ull << 63)
PTX_CVT_RZI(u64_f32, 64, 32, ptx_float_of, uint64_t, 0, 0x1p64f, 0, ~0ull, 1ull << 63)
PTX_CVT_RZI(s32_f64, 32, 64, ptx_double_of, int32_t, -0x1p31, 0x1p31, 1u << 31, ~0u >> 1, 1u << 31)
PTX_CVT_RZI(u32_f64, 32, 64, ptx_double_of, uint32_t, 0, 0x1p32, 0, ~0u, 1u << 31)
PTX_CVT_RZI(s64_f64, 64, 64, ptx_double_of, int64_t, -0x1p63, 0x1p63, 1ull << 63, ~0ull >> 1,
            1ull << 63)
PTX_CVT_RZI(u64_f64, 64, 64, ptx_double_of, uint64_t, 0, 0x1p64, 0, ~0ull, 1ull << 63)
#undef PTX_CVT_RZI

// Integers to floats, to nearest. 8- and 16-bit sources are extended to 32 bits first.
#define PTX_CVT_RN(name, bits, bits_of, number, source, integer)                                   \
  static inline uint##bits##_t ptx_cvt_rn_##name(uint##source##_t a) {                             \
    return bits_of((number)(integer)a);                                                            \
  }
PTX_CVT_RN(f32_s32, 32, ptx_float_bits, float, 32, int32_t)
PTX_CVT_RN(f32_u32, 32, ptx_float_bits, float, 32, uint32_t)
PTX_CVT_RN(f32_s64, 32, ptx_float_bits, float, 64, int64_t)
PTX_CVT_RN(f32_u64, 32, ptx_float_bits, float, 64, uint64_t)
PTX_CVT_RN(f64_s32, 64, ptx_double_bits, double, 32, int32_t)
PTX_CVT_RN(f64_u32, 64, ptx_double_bits, double, 32, uint32_t)
PTX_CVT_RN(f64_s64, 64, ptx_double_bits, double, 64, int64_t)
PTX_CVT_RN(f64_u64, 64, ptx_double_bits, double, 64, uint64_t)
#undef PTX_CVT_RN

// Integers of up to 64 bits to one another. Without PTX_SAT the high bits are cut off.
static inline uint32_t ptx_type_bits(enum ptx_type type) {
  switch (type) {
  case PTX_PRED:
    return 1;
  case PTX_B8:
  case PTX_U8:
  case PTX_S8:
  case PTX_E4M3:
  case PTX_E5M2:
    return 8;
  case PTX_B16:
  case PTX_U16:
  case PTX_S16:
  case PTX_F16:
  case PTX_BF16:
    return 16;
  case PTX_B32:
  case PTX_U32:
  case PTX_S32:
  case PTX_F32:
    return 32;
  case PTX_B128:
    return 128;
  default:
    return 64;
  }
}
static inline bool ptx_type_is_signed(enum ptx_type type) {
  return type >= PTX_S8 && type <= PTX_S64;
}
static inline bool ptx_type_is_float(enum ptx_type type) {
  return type >= PTX_F16 && type <= PTX_E5M2;
}

// The low bits of `value` that `type` has, extended to 64 bits by its sign or by zeros.
static inline uint64_t ptx_extend(enum ptx_type type, uint64_t value) {
  const uint32_t unused = ptx_type_bits(type) < 64 ? 64 - ptx_type_bits(type) : 0;
  value <<= unused;
  return ptx_type_is_signed(type) ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

static inline uint64_t ptx_cvt_integer(enum ptx_type to, enum ptx_type from, uint64_t value,
                                       uint32_t modifiers) {
  const uint64_t whole = ptx_extend(from, value);
  if (!(modifiers & PTX_SAT))
    return ptx_extend(to, whole);
  const bool is_negative = ptx_type_is_signed(from) && whole >> 63;
  const uint64_t greatest = ptx_low_bits(ptx_type_bits(to) - (ptx_type_is_signed(to) ? 1 : 0));
  const uint64_t least = ptx_type_is_signed(to) ? ~greatest : 0;
  if (is_negative)
    return ptx_type_is_signed(to) && (int64_t)whole > (int64_t)least ? whole : least;
  return whole < greatest ? whole : greatest;
}

#endif // RONDO_TESTS_SUPPORT_PTX_PTX_ARITH_H
