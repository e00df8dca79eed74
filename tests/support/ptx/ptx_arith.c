// Exact arithmetic on numbers of any floating type: an operand becomes an integer times a power of
// two, an operation works on integers, and the result is rounded once.
#include "tests/support/ptx/ptx_arith.h"

struct format {
  uint32_t bits;
  int mantissa; // bits after the leading one
  int bias;
  uint64_t greatest; // code of the greatest finite number
  uint64_t infinity; // code, or 0 if the format has none
  uint64_t nan;
};

static const struct format FORMATS[PTX_TYPE_COUNT] = {
    [PTX_F16] = {16, 10, 15, 0x7bff, 0x7c00, 0x7fff},
    [PTX_BF16] = {16, 7, 127, 0x7f7f, 0x7f80, 0x7fff},
    [PTX_F32] = {32, 23, 127, 0x7f7fffff, 0x7f800000, 0x7fffffff},
    [PTX_F64] = {64, 52, 1023, 0x7fefffffffffffff, 0x7ff0000000000000, 0xfff8000000000000},
    [PTX_E4M3] = {8, 3, 7, 0x7e, 0, 0x7f},
    [PTX_E5M2] = {8, 2, 15, 0x7b, 0x7c, 0x7f}};

// (significand + less than one, if `inexact`) * 2^exponent. An infinity and NaN have no value.
struct number {
  ptx_u128 significand;
  int exponent;
  bool negative, inexact, is_infinite, is_nan;
};

// The highest bit that a normalised significand has. Three bits above it are free for a sum.
#define TOP_BIT 124

static const struct number NOT_A_NUMBER = {.is_nan = true};

static bool number_is_zero(const struct number *n) {
  return !n->is_nan && !n->is_infinite && n->significand == 0 && !n->inexact;
}

static int significand_top(ptx_u128 significand) {
  const uint64_t high = (uint64_t)(significand >> 64);
  return high ? 127 - (int)ptx_clz_b64(high) : 63 - (int)ptx_clz_b64((uint64_t)significand);
}

static struct number number_of_bits(enum ptx_type type, uint64_t bits, uint32_t modifiers) {
  const struct format *f = &FORMATS[type];
  const uint64_t sign = (uint64_t)1 << (f->bits - 1);
  const uint64_t magnitude = bits & (sign - 1);
  struct number n = {.negative = (bits & sign) != 0};
  if (magnitude > (f->infinity ? f->infinity : f->greatest))
    return NOT_A_NUMBER;
  n.is_infinite = magnitude == f->infinity && f->infinity;
  const uint64_t fraction = magnitude & (((uint64_t)1 << f->mantissa) - 1);
  const int exponent = (int)(magnitude >> f->mantissa);
  n.significand = exponent ? fraction | (uint64_t)1 << f->mantissa : fraction;
  n.exponent = (exponent ? exponent : 1) - f->bias - f->mantissa;
  if (exponent == 0 && type == PTX_F32 && modifiers & PTX_FTZ)
    n.significand = 0;
  return n;
}

static struct number number_of_integer(enum ptx_type type, uint64_t value) {
  const uint64_t whole = ptx_extend(type, value);
  const bool is_negative = ptx_type_is_signed(type) && whole >> 63;
  return (struct number){.significand = is_negative ? 0 - whole : whole, .negative = is_negative};
}

// Divides the significand by 2^shift; what is cut off leaves `inexact`.
static void number_shift_right(struct number *n, int shift) {
  const ptx_u128 lost =
      shift < 128 ? n->significand & (((ptx_u128)1 << shift) - 1) : n->significand;
  n->significand = shift < 128 ? n->significand >> shift : 0;
  n->inexact |= lost != 0;
  n->exponent += shift;
}

// Moves the leading one to TOP_BIT. `n` is not zero and is exact.
static void number_normalise(struct number *n) {
  const int shift = TOP_BIT - significand_top(n->significand);
  if (shift < 0) {
    number_shift_right(n, -shift);
    return;
  }
  n->significand <<= shift;
  n->exponent -= shift;
}

// Makes the exponent of `n` `exponent`, so that the last bit of the significand has that weight.
// `half` receives the first bit that is cut off, n->inexact tells of those after it.
static void number_cut(struct number *n, int exponent, bool *half) {
  *half = false;
  const int shift = exponent - n->exponent;
  if (shift <= 0) {
    n->significand <<= -shift;
    n->exponent = exponent;
    return;
  }
  number_shift_right(n, shift - 1 < 200 ? shift - 1 : 200);
  *half = n->significand & 1;
  n->significand >>= 1;
  n->exponent = exponent;
}

// Whether rounding takes the magnitude to the next one up.
static bool round_is_up(enum ptx_round round, bool negative, bool odd, bool half, bool rest) {
  switch (round) {
  case PTX_RN:
  case PTX_RNI:
    return half && (rest || odd);
  case PTX_RM:
  case PTX_RMI:
    return negative && (half || rest);
  case PTX_RP:
  case PTX_RPI:
    return !negative && (half || rest);
  case PTX_RZ:
  case PTX_RZI:
    break;
  }
  return false;
}

// Rounds `n` to a multiple of 2^exponent.
static void number_round(struct number *n, int exponent, enum ptx_round round) {
  bool half = false;
  number_cut(n, exponent, &half);
  n->significand += round_is_up(round, n->negative, n->significand & 1, half, n->inexact);
  n->inexact = false;
}

// The code of what is greater than every finite number.
static uint64_t format_overflow(const struct format *f, bool negative, bool is_infinite,
                                enum ptx_round round, uint32_t modifiers) {
  if (modifiers & PTX_SATFINITE || !f->infinity)
    return f->greatest;
  return is_infinite || round_is_up(round, negative, true, true, true) ? f->infinity : f->greatest;
}

// The code of |n|.
static uint64_t format_magnitude(const struct format *f, struct number n, enum ptx_round round,
                                 uint32_t modifiers) {
  if (n.is_infinite)
    return format_overflow(f, n.negative, true, round, modifiers);
  if (number_is_zero(&n))
    return 0;
  const int least = 1 - f->bias - f->mantissa; // exponent of the last bit of subnormal numbers
  const int wanted = n.exponent + significand_top(n.significand) - f->mantissa;
  const int exponent = wanted > least ? wanted : least;
  number_round(&n, exponent, round);
  // The leading one of a normal number adds 1 to the exponent field.
  if (exponent - least > 2 * f->bias + 1)
    return format_overflow(f, n.negative, false, round, modifiers);
  const uint64_t code = (uint64_t)n.significand + ((uint64_t)(exponent - least) << f->mantissa);
  return code > f->greatest ? format_overflow(f, n.negative, false, round, modifiers) : code;
}

// The bits of a result, with .ftz and .sat.
static uint64_t number_bits(enum ptx_type type, const struct number *n, enum ptx_round round,
                            uint32_t modifiers) {
  const struct format *f = &FORMATS[type];
  const uint64_t one = (uint64_t)f->bias << f->mantissa;
  if (n->is_nan)
    return modifiers & PTX_SAT ? 0 : f->nan;
  uint64_t code = format_magnitude(f, *n, round, modifiers);
  if (type == PTX_F32 && modifiers & PTX_FTZ && code < (uint64_t)1 << f->mantissa)
    code = 0;
  if (modifiers & PTX_SAT)
    return n->negative ? 0 : code > one ? one : code;
  return code | (uint64_t)n->negative << (f->bits - 1);
}

// Subtracts the smaller `b` from `a`, both with the same exponent, `a` exact.
static void number_reduce(struct number *a, const struct number *b) {
  a->significand -= b->significand + b->inexact;
  a->inexact = b->inexact;
}

// The sum of two finite numbers that are not zero. The greater one is exact after it is normalised,
// because it has 106 bits at most; the other may lose bits only if it is much smaller.
static struct number number_sum(struct number a, struct number b, enum ptx_round round) {
  number_normalise(&a);
  number_normalise(&b);
  const bool swap =
      b.exponent > a.exponent || (b.exponent == a.exponent && b.significand > a.significand);
  struct number great = swap ? b : a;
  struct number small = swap ? a : b;
  const int distance = great.exponent - small.exponent;
  number_shift_right(&small, distance < 200 ? distance : 200);
  if (great.negative == small.negative) {
    great.significand += small.significand;
    great.inexact = small.inexact;
    return great;
  }
  number_reduce(&great, &small);
  if (number_is_zero(&great))
    great.negative = round == PTX_RM;
  return great;
}

static struct number number_add(struct number a, struct number b, enum ptx_round round) {
  if (a.is_nan || b.is_nan || (a.is_infinite && b.is_infinite && a.negative != b.negative))
    return NOT_A_NUMBER;
  if (a.is_infinite || b.is_infinite)
    return a.is_infinite ? a : b;
  if (number_is_zero(&a) && number_is_zero(&b)) {
    a.negative = round == PTX_RM ? a.negative || b.negative : a.negative && b.negative;
    return a;
  }
  if (number_is_zero(&a) || number_is_zero(&b))
    return number_is_zero(&a) ? b : a;
  return number_sum(a, b, round);
}

// Significands have 53 bits at most, so the product is exact.
static struct number number_mul(struct number a, struct number b) {
  const bool is_infinite = a.is_infinite || b.is_infinite;
  if (a.is_nan || b.is_nan || (is_infinite && (number_is_zero(&a) || number_is_zero(&b))))
    return NOT_A_NUMBER;
  return (struct number){.significand = is_infinite ? 0 : a.significand * b.significand,
                         .exponent = a.exponent + b.exponent,
                         .negative = a.negative != b.negative,
                         .is_infinite = is_infinite};
}

// The quotient has at least 71 bits; what is left of the division makes it inexact.
static struct number number_div(struct number a, struct number b) {
  const bool zeros = number_is_zero(&a) && number_is_zero(&b);
  if (a.is_nan || b.is_nan || zeros || (a.is_infinite && b.is_infinite))
    return NOT_A_NUMBER;
  const bool negative = a.negative != b.negative;
  if (a.is_infinite || number_is_zero(&b))
    return (struct number){.is_infinite = true, .negative = negative};
  if (b.is_infinite || number_is_zero(&a))
    return (struct number){.negative = negative};
  number_normalise(&a);
  return (struct number){.significand = a.significand / b.significand,
                         .exponent = a.exponent - b.exponent,
                         .inexact = a.significand % b.significand != 0,
                         .negative = negative};
}

uint64_t ptx_float_add(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers) {
  const struct number sum =
      number_add(number_of_bits(type, a, modifiers), number_of_bits(type, b, modifiers), round);
  return number_bits(type, &sum, round, modifiers);
}

uint64_t ptx_float_sub(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers) {
  return ptx_float_add(type, a, b ^ (uint64_t)1 << (FORMATS[type].bits - 1), round, modifiers);
}

uint64_t ptx_float_mul(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers) {
  const struct number product =
      number_mul(number_of_bits(type, a, modifiers), number_of_bits(type, b, modifiers));
  return number_bits(type, &product, round, modifiers);
}

uint64_t ptx_float_div(enum ptx_type type, uint64_t a, uint64_t b, enum ptx_round round,
                       uint32_t modifiers) {
  const struct number quotient =
      number_div(number_of_bits(type, a, modifiers), number_of_bits(type, b, modifiers));
  return number_bits(type, &quotient, round, modifiers);
}

uint64_t ptx_float_fma(enum ptx_type type, uint64_t a, uint64_t b, uint64_t c, enum ptx_round round,
                       uint32_t modifiers) {
  const struct number product =
      number_mul(number_of_bits(type, a, modifiers), number_of_bits(type, b, modifiers));
  const struct number sum = number_add(product, number_of_bits(type, c, modifiers), round);
  return number_bits(type, &sum, round, modifiers);
}

// A float as an integer of type `to`: clamped to its range.
static uint64_t number_integer(enum ptx_type to, enum ptx_type from, struct number n,
                               enum ptx_round round) {
  const uint32_t bits = ptx_type_bits(to);
  const uint64_t highest = ptx_low_bits(bits) ^ ptx_low_bits(bits - 1);
  if (n.is_nan)
    return from == PTX_F64 || bits == 64 ? ptx_extend(to, highest) : 0;
  const uint64_t greatest = ptx_type_is_signed(to) ? highest - 1 : ptx_low_bits(bits);
  const uint64_t least = ptx_type_is_signed(to) ? highest : 0; // magnitude
  const uint64_t end = n.negative ? least : greatest;
  uint64_t magnitude = end;
  if (!n.is_infinite && (number_is_zero(&n) || n.exponent + significand_top(n.significand) < 64)) {
    number_round(&n, 0, round);
    magnitude = n.significand < end ? (uint64_t)n.significand : end;
  }
  return ptx_extend(to, n.negative ? 0 - magnitude : magnitude);
}

uint64_t ptx_cvt(enum ptx_type to, enum ptx_type from, uint64_t value, enum ptx_round round,
                 uint32_t modifiers) {
  if (!ptx_type_is_float(to) && !ptx_type_is_float(from))
    return ptx_cvt_integer(to, from, value, modifiers);
  struct number n = ptx_type_is_float(from)
                        ? number_of_bits(from, ptx_extend(from, value), modifiers)
                        : number_of_integer(from, value);
  if (!ptx_type_is_float(to))
    return number_integer(to, from, n, round);
  // cvt.rni.f32.f32: an integer, which the destination then holds exactly or rounds to nearest.
  if (round >= PTX_RNI && !n.is_nan && !n.is_infinite && n.exponent < 0)
    number_round(&n, 0, round);
  return number_bits(to, &n, round, modifiers);
}

// The value of one of the eight bytes that prmt chooses from; bit 3 of `selector` copies its sign.
static uint32_t prmt_byte(uint64_t bytes, uint32_t selector) {
  const uint32_t byte = (uint32_t)(bytes >> 8 * (selector & 7)) & 0xff;
  return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}

// The four selectors, four bits each, of a mode that takes only two bits from `control`.
static uint32_t prmt_selectors(uint32_t control, enum ptx_prmt mode) {
  static const uint16_t table[][4] = {
      [PTX_F4E] = {0x3210, 0x4321, 0x5432, 0x6543}, [PTX_B4E] = {0x5670, 0x6701, 0x7012, 0x0123},
      [PTX_RC8] = {0x0000, 0x1111, 0x2222, 0x3333}, [PTX_ECL] = {0x3210, 0x3211, 0x3222, 0x3333},
      [PTX_ECR] = {0x0000, 0x1110, 0x2210, 0x3210}, [PTX_RC16] = {0x1010, 0x3232, 0x1010, 0x3232}};
  return mode == PTX_PRMT ? control : table[mode][control & 3];
}

uint32_t ptx_prmt_b32(uint32_t a, uint32_t b, uint32_t control, enum ptx_prmt mode) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  const uint32_t selectors = prmt_selectors(control, mode);
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; i++)
    result |= prmt_byte(bytes, selectors >> 4 * i & 15) << 8 * i;
  return result;
}

static uint32_t shf_amount(uint32_t amount, bool wrap) {
  return wrap ? amount & 31 : amount < 32 ? amount : 32;
}

uint32_t ptx_shf_l_b32(uint32_t a, uint32_t b, uint32_t amount, bool wrap) {
  const uint64_t pair = (uint64_t)b << 32 | a;
  return (uint32_t)(pair << shf_amount(amount, wrap) >> 32);
}

uint32_t ptx_shf_r_b32(uint32_t a, uint32_t b, uint32_t amount, bool wrap) {
  const uint64_t pair = (uint64_t)b << 32 | a;
  return (uint32_t)(pair >> shf_amount(amount, wrap));
}
