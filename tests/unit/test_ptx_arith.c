// Integers, shifts and bit fields of the PTX machine against arithmetic in 128 bits and against
// the bit by bit definitions of the PTX manual.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/load.h"
#include "tests/support/ptx/ptx_arith.h"

__extension__ typedef __int128 wide;

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static const uint64_t EDGES[] = {0,
                                 1,
                                 2,
                                 3,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0x7fff,
                                 0x8000,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xffffffffffff8000,
                                 0xffffffff80000000,
                                 0xfffffffffffffffe,
                                 0xffffffffffffffff};

static uint64_t random_state = 88172645463325252u;

static uint64_t random_next(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 2685821657736338717u;
}

static uint64_t random_value(void) {
  const uint64_t value = random_next();
  return value % 4 == 0 ? EDGES[value / 4 % COUNT_OF(EDGES)] : value >> (random_next() % 64);
}

static void assert_bits(uint64_t got, uint64_t expected, const char *what, uint64_t a, uint64_t b,
                        uint64_t c) {
  if (got != expected)
    fail_msg("%s of %llx %llx %llx: %llx, expected %llx", what, (unsigned long long)a,
             (unsigned long long)b, (unsigned long long)c, (unsigned long long)got,
             (unsigned long long)expected);
}

// The low `bits` of a value, as a signed or unsigned number.
static wide number_of(uint64_t value, uint32_t bits, bool is_signed) {
  const wide whole = (wide)(value & (bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1));
  return is_signed && whole >> (bits - 1) ? whole - ((wide)1 << bits) : whole;
}

static uint64_t cut(wide number, uint32_t bits) {
  return (uint64_t)number & (bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1);
}

// Every operation of one width on one pair of operands.
#define CHECK_WIDTH(bits)                                                                          \
  static void check_pair_##bits(uint64_t left, uint64_t right) {                                   \
    const uint##bits##_t a = (uint##bits##_t)left, b = (uint##bits##_t)right;                      \
    const wide ua = number_of(a, bits, false), ub = number_of(b, bits, false);                     \
    const wide sa = number_of(a, bits, true), sb = number_of(b, bits, true);                       \
    const uint##bits##_t c = (uint##bits##_t)(a ^ b << 3);                                         \
    assert_bits(ptx_add_b##bits(a, b), cut(ua + ub, bits), "add", a, b, bits);                     \
    assert_bits(ptx_sub_b##bits(a, b), cut(ua - ub, bits), "sub", a, b, bits);                     \
    assert_bits(ptx_neg_b##bits(a), cut(-sa, bits), "neg", a, b, bits);                            \
    assert_bits(ptx_abs_s##bits(a), cut(sa < 0 ? -sa : sa, bits), "abs", a, b, bits);              \
    assert_bits(ptx_mul_lo_b##bits(a, b), cut((sa * sb), bits), "mul.lo", a, b, bits);             \
    assert_bits(ptx_mad_lo_b##bits(a, b, c), cut((sa * sb) + c, bits), "mad.lo", a, b, bits);      \
    assert_bits(ptx_mul_hi_s##bits(a, b), cut((sa * sb) >> (bits), bits), "mul.hi.s", a, b, bits); \
    assert_bits(ptx_mul_hi_u##bits(a, b), (uint##bits##_t)high_product(a, b, bits), "mul.hi.u", a, \
                b, bits);                                                                          \
    assert_bits(ptx_min_u##bits(a, b), cut(ua < ub ? ua : ub, bits), "min.u", a, b, bits);         \
    assert_bits(ptx_max_u##bits(a, b), cut(ua < ub ? ub : ua, bits), "max.u", a, b, bits);         \
    assert_bits(ptx_min_s##bits(a, b), cut(sa < sb ? sa : sb, bits), "min.s", a, b, bits);         \
    assert_bits(ptx_max_s##bits(a, b), cut(sa < sb ? sb : sa, bits), "max.s", a, b, bits);         \
    for (int how = PTX_EQ; how <= PTX_GE; how++) {                                                 \
      const enum ptx_compare kind = (enum ptx_compare)how;                                         \
      assert_bits(ptx_compare_u##bits(kind, a, b), holds(kind, ua, ub), "setp.u", a, b,            \
                  (uint64_t)how);                                                                  \
      assert_bits(ptx_compare_s##bits(kind, a, b), holds(kind, sa, sb), "setp.s", a, b,            \
                  (uint64_t)how);                                                                  \
    }                                                                                              \
    bool by_zero = false;                                                                          \
    const uint##bits##_t quotients[] = {                                                           \
        ptx_div_u##bits(a, b, &by_zero), ptx_rem_u##bits(a, b, &by_zero),                          \
        ptx_div_s##bits(a, b, &by_zero), ptx_rem_s##bits(a, b, &by_zero)};                         \
    assert_int_equal(by_zero, b == 0);                                                             \
    assert_bits(quotients[0], cut(b ? ua / ub : -1, bits), "div.u", a, b, bits);                   \
    assert_bits(quotients[1], cut(b ? ua % ub : -1, bits), "rem.u", a, b, bits);                   \
    assert_bits(quotients[2], cut(b ? sa / sb : -1, bits), "div.s", a, b, bits);                   \
    assert_bits(quotients[3], cut(b ? sa % sb : -1, bits), "rem.s", a, b, bits);                   \
  }

// The high half of a product, by halves of the operands.
static uint64_t high_product(uint64_t a, uint64_t b, uint32_t bits) {
  if (bits < 64)
    return a * b >> bits;
  const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
  const uint64_t other = a0 * b1 + (uint32_t)middle;
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

static bool holds(enum ptx_compare how, wide a, wide b) {
  const bool results[] = {[PTX_EQ] = a == b,
                          [PTX_NE] = a != b,
                          [PTX_LT] = a<b, [PTX_LE] = a <= b, [PTX_GT] = a> b,
                          [PTX_GE] = a >= b};
  return results[how];
}

CHECK_WIDTH(16)
CHECK_WIDTH(32)
CHECK_WIDTH(64)

static void check_pair(uint64_t a, uint64_t b) {
  check_pair_16(a, b);
  check_pair_32(a, b);
  check_pair_64(a, b);
}

static void integers_wrap_and_divide_as_the_manual_says(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(EDGES); i++)
    for (size_t k = 0; k < COUNT_OF(EDGES); k++)
      check_pair(EDGES[i], EDGES[k]);
  for (uint64_t a = 0; a < 65536; a++)
    check_pair_16(a, random_value());
  for (uint64_t k = 0; k < rondo_test_load(300000, 10000); k++)
    check_pair(random_value(), random_value());
}

static void the_flag_of_a_division_by_zero_stays(void **state) {
  (void)state;
  bool by_zero = false;
  assert_int_equal(ptx_div_u32(7, 0, &by_zero), UINT32_MAX);
  assert_true(by_zero);
  assert_int_equal(ptx_div_u32(7, 2, &by_zero), 3);
  assert_true(by_zero);
  by_zero = false;
  assert_int_equal(ptx_div_s32(0x80000000, UINT32_MAX, &by_zero), 0x80000000);
  assert_int_equal(ptx_rem_s64((uint64_t)1 << 63, UINT64_MAX, &by_zero), 0);
  assert_false(by_zero);
}

static void wide_and_saturated_forms_are_exact(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rondo_test_load(1000000, 20000); k++) {
    const uint64_t x = random_value(), y = random_value();
    const uint32_t a = (uint32_t)x, b = (uint32_t)y;
    const int64_t sa = (int32_t)a, sb = (int32_t)b;
    assert_bits(ptx_mul_wide_u16((uint16_t)a, (uint16_t)b), (uint64_t)(a & 0xffff) * (b & 0xffff),
                "wide.u16", a, b, 0);
    assert_bits(ptx_mul_wide_s16((uint16_t)a, (uint16_t)b),
                (uint32_t)((int32_t)(int16_t)a * (int16_t)b), "wide.s16", a, b, 0);
    assert_bits(ptx_mul_wide_u32(a, b), (uint64_t)a * b, "wide.u32", a, b, 0);
    assert_bits(ptx_mul_wide_s32(a, b), (uint64_t)(sa * sb), "wide.s32", a, b, 0);
    const wide u24 = number_of(a, 24, false) * number_of(b, 24, false);
    const wide s24 = number_of(a, 24, true) * number_of(b, 24, true);
    assert_bits(ptx_mul24_lo_u32(a, b), cut(u24, 32), "mul24.lo.u32", a, b, 0);
    assert_bits(ptx_mul24_hi_u32(a, b), cut(u24 >> 16, 32), "mul24.hi.u32", a, b, 0);
    assert_bits(ptx_mul24_lo_s32(a, b), cut(s24, 32), "mul24.lo.s32", a, b, 0);
    assert_bits(ptx_mul24_hi_s32(a, b), cut(s24 >> 16, 32), "mul24.hi.s32", a, b, 0);
    const int64_t sum = sa + sb, difference = sa - sb;
    assert_bits(ptx_add_sat_s32(a, b),
                (uint32_t)(sum > INT32_MAX   ? INT32_MAX
                           : sum < INT32_MIN ? INT32_MIN
                                             : sum),
                "add.sat", a, b, 0);
    assert_bits(ptx_sub_sat_s32(a, b),
                (uint32_t)(difference > INT32_MAX   ? INT32_MAX
                           : difference < INT32_MIN ? INT32_MIN
                                                    : difference),
                "sub.sat", a, b, 0);
  }
}

// ---- shifts and bit fields, bit by bit ----

static bool bit_of(uint64_t value, uint64_t position) {
  return position < 64 && value >> position & 1;
}

// The value of bit i of a shifted number, 0 or the sign past the width.
static uint64_t shifted(uint64_t a, uint32_t bits, bool left, bool is_signed, uint32_t amount) {
  uint64_t result = 0;
  for (uint32_t i = 0; i < bits; i++) {
    const uint64_t from = left ? (uint64_t)i - amount : (uint64_t)i + amount;
    const bool sign = !left && is_signed && bit_of(a, bits - 1);
    result |= (uint64_t)(from < bits ? bit_of(a, from) : sign) << i;
  }
  return result;
}

static void check_shifts(uint64_t a, uint32_t amount) {
  const uint16_t a16 = (uint16_t)a;
  const uint32_t a32 = (uint32_t)a;
  assert_bits(ptx_shl_b16(a16, amount), shifted(a16, 16, true, false, amount), "shl", a, amount,
              16);
  assert_bits(ptx_shl_b32(a32, amount), shifted(a32, 32, true, false, amount), "shl", a, amount,
              32);
  assert_bits(ptx_shl_b64(a, amount), shifted(a, 64, true, false, amount), "shl", a, amount, 64);
  assert_bits(ptx_shr_u16(a16, amount), shifted(a16, 16, false, false, amount), "shr", a, amount,
              16);
  assert_bits(ptx_shr_u32(a32, amount), shifted(a32, 32, false, false, amount), "shr", a, amount,
              32);
  assert_bits(ptx_shr_u64(a, amount), shifted(a, 64, false, false, amount), "shr", a, amount, 64);
  assert_bits(ptx_shr_s16(a16, amount), shifted(a16, 16, false, true, amount), "sar", a, amount,
              16);
  assert_bits(ptx_shr_s32(a32, amount), shifted(a32, 32, false, true, amount), "sar", a, amount,
              32);
  assert_bits(ptx_shr_s64(a, amount), shifted(a, 64, false, true, amount), "sar", a, amount, 64);
}

static void shifts_past_the_width_give_zero_or_the_sign(void **state) {
  (void)state;
  static const uint32_t amounts[] = {127, 128, 255, 256, 1u << 31, UINT32_MAX};
  for (size_t i = 0; i < COUNT_OF(EDGES); i++) {
    for (uint32_t amount = 0; amount <= 70; amount++)
      check_shifts(EDGES[i], amount);
    for (size_t k = 0; k < COUNT_OF(amounts); k++)
      check_shifts(EDGES[i], amounts[k]);
  }
  for (uint64_t k = 0; k < rondo_test_load(50000, 1000); k++)
    check_shifts(random_next(), (uint32_t)(random_next() % 80));
}

// Bit i of the pair high:low goes to i + amount, of which the upper half stays, or to i - amount.
static uint32_t funnelled(uint32_t low, uint32_t high, uint32_t amount, bool left) {
  const uint64_t pair = (uint64_t)high << 32 | low;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 32; i++)
    result |= (uint32_t)bit_of(pair, left ? (uint64_t)i + 32 - amount : (uint64_t)i + amount) << i;
  return result;
}

static void funnel_shifts_clamp_or_wrap(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rondo_test_load(50000, 2000); k++) {
    const uint32_t low = (uint32_t)random_value(), high = (uint32_t)random_value();
    const uint32_t amount = k & 1 ? (uint32_t)(random_next() % 70) : (uint32_t)random_next();
    for (int wrap = 0; wrap <= 1; wrap++) {
      const uint32_t n = wrap ? amount % 32 : amount > 32 ? 32 : amount;
      assert_bits(ptx_shf_l_b32(low, high, amount, wrap), funnelled(low, high, n, true), "shf.l",
                  low, high, amount);
      assert_bits(ptx_shf_r_b32(low, high, amount, wrap), funnelled(low, high, n, false), "shf.r",
                  low, high, amount);
    }
  }
}

// bfe as the manual writes it, `msb` being the last bit of the type.
static uint64_t extracted(uint64_t a, uint32_t position, uint32_t length, uint32_t msb,
                          bool is_signed) {
  const uint32_t pos = position & 0xff, len = length & 0xff;
  const uint32_t last = pos + len - 1 < msb ? pos + len - 1 : msb;
  const bool sign = is_signed && len > 0 && bit_of(a, last);
  uint64_t result = 0;
  for (uint32_t i = 0; i <= msb; i++)
    result |= (uint64_t)(i < len && pos + i <= msb ? bit_of(a, pos + i) : sign) << i;
  return result;
}

static uint64_t inserted(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t msb) {
  const uint32_t pos = position & 0xff, len = length & 0xff;
  uint64_t result = b;
  for (uint32_t i = 0; i < len && pos + i <= msb; i++) {
    result &= ~((uint64_t)1 << (pos + i));
    result |= (uint64_t)bit_of(a, i) << (pos + i);
  }
  return result;
}

static void check_fields(uint64_t a, uint64_t b, uint32_t position, uint32_t length) {
  const uint32_t a32 = (uint32_t)a, b32 = (uint32_t)b;
  assert_bits(ptx_bfe_u32(a32, position, length), extracted(a32, position, length, 31, false),
              "bfe.u32", a, position, length);
  assert_bits(ptx_bfe_s32(a32, position, length), extracted(a32, position, length, 31, true),
              "bfe.s32", a, position, length);
  assert_bits(ptx_bfe_u64(a, position, length), extracted(a, position, length, 63, false),
              "bfe.u64", a, position, length);
  assert_bits(ptx_bfe_s64(a, position, length), extracted(a, position, length, 63, true), "bfe.s64",
              a, position, length);
  assert_bits(ptx_bfi_b32(a32, b32, position, length), inserted(a32, b32, position, length, 31),
              "bfi.b32", a, position, length);
  assert_bits(ptx_bfi_b64(a, b, position, length), inserted(a, b, position, length, 63), "bfi.b64",
              a, position, length);
}

static void bit_fields_may_reach_past_the_width(void **state) {
  (void)state;
  for (uint32_t position = 0; position <= 70; position++)
    for (uint32_t length = 0; length <= 70; length++) {
      check_fields(random_next(), random_next(), position, length);
      check_fields(UINT64_MAX, 0, position, length);
    }
  for (uint64_t k = 0; k < rondo_test_load(50000, 2000); k++) // only 8 bits of each count
    check_fields(random_value(), random_value(), (uint32_t)random_next(), (uint32_t)random_next());
}

static void bits_are_counted_and_reversed(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rondo_test_load(100000, 5000); k++) {
    const uint64_t a = random_value();
    uint64_t reversed = 0;
    uint32_t ones = 0, ones32 = 0, top = UINT32_MAX, top32 = UINT32_MAX, sign_top = UINT32_MAX;
    for (uint32_t i = 0; i < 64; i++) {
      const bool bit = bit_of(a, i);
      reversed |= (uint64_t)bit << (63 - i);
      ones += bit;
      ones32 += bit && i < 32;
      top = bit ? i : top;
      top32 = bit && i < 32 ? i : top32;
      sign_top = bit != bit_of(a, 63) ? i : sign_top;
    }
    assert_bits(ptx_popc_b64(a), ones, "popc", a, 0, 0);
    assert_bits(ptx_popc_b32((uint32_t)a), ones32, "popc", a, 0, 0);
    assert_bits(ptx_clz_b64(a), 63 - top, "clz", a, 0, 0);
    assert_bits(ptx_clz_b32((uint32_t)a), 31 - top32, "clz", a, 0, 0);
    assert_bits(ptx_brev_b64(a), reversed, "brev", a, 0, 0);
    assert_bits(ptx_brev_b32((uint32_t)(a >> 32)), (uint32_t)reversed, "brev", a, 0, 0);
    assert_bits(ptx_bfind_u64(a), top, "bfind", a, 0, 0);
    assert_bits(ptx_bfind_u32((uint32_t)a), top32, "bfind", a, 0, 0);
    assert_bits(ptx_bfind_s64(a), sign_top, "bfind.s64", a, 0, 0);
  }
  assert_int_equal(ptx_bfind_s32(UINT32_MAX), UINT32_MAX);
  assert_int_equal(ptx_bfind_s32(0xfffffffe), 0);
  assert_int_equal(ptx_bfind_s32(0x7fffffff), 30);
}

static void lop3_looks_up_each_bit(void **state) {
  (void)state;
  for (uint32_t table = 0; table < 256; table++) {
    const uint32_t a = (uint32_t)random_next(), b = (uint32_t)random_next(),
                   c = (uint32_t)random_next();
    uint32_t expected = 0;
    for (uint32_t i = 0; i < 32; i++) {
      const uint32_t index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
      expected |= (table >> index & 1) << i;
    }
    assert_bits(ptx_lop3_b32(a, b, c, table), expected, "lop3", a, b, c);
  }
  // The manual's examples: a & b & c is 80, a ^ b ^ c is 96, a & b | c is ea.
  assert_int_equal(ptx_lop3_b32(12, 10, 6, 0x80), 12 & 10 & 6);
  assert_int_equal(ptx_lop3_b32(12, 10, 6, 0x96), 12 ^ 10 ^ 6);
  assert_int_equal(ptx_lop3_b32(12, 10, 6, 0xea), (12 & 10) | 6);
}

// ---- prmt ----

static uint32_t permuted(const uint8_t *bytes, const uint32_t selectors[4]) {
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; i++)
    result |= (uint32_t)bytes[selectors[i] & 7] << 8 * i;
  return result;
}

static void prmt_chooses_bytes_in_every_mode(void **state) {
  (void)state;
  for (uint32_t k = 0; k < 65536; k++) {
    const uint64_t pair = random_next();
    const uint32_t a = (uint32_t)pair, b = (uint32_t)(pair >> 32);
    uint8_t bytes[8];
    for (uint32_t i = 0; i < 8; i++)
      bytes[i] = (uint8_t)(pair >> 8 * i);
    uint32_t expected = 0;
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t selector = k >> 4 * i & 15;
      const uint8_t byte = bytes[selector % 8];
      expected |= (uint32_t)(selector < 8 ? byte : byte > 127 ? 255 : 0) << 8 * i;
    }
    assert_bits(ptx_prmt_b32(a, b, k | 0xffff0000u, PTX_PRMT), expected, "prmt", a, b, k);
    const uint32_t n = k % 4;
    const uint32_t forward[] = {n, n + 1, n + 2, n + 3}, backward[] = {n, n + 7, n + 6, n + 5},
                   copy[] = {n, n, n, n},
                   half[] = {n % 2 * 2, n % 2 * 2 + 1, n % 2 * 2, n % 2 * 2 + 1};
    uint32_t clamp_left[4], clamp_right[4];
    for (uint32_t i = 0; i < 4; i++) {
      clamp_left[i] = i < n ? n : i;
      clamp_right[i] = i < n ? i : n;
    }
    assert_bits(ptx_prmt_b32(a, b, k, PTX_F4E), permuted(bytes, forward), "f4e", a, b, n);
    assert_bits(ptx_prmt_b32(a, b, k, PTX_B4E), permuted(bytes, backward), "b4e", a, b, n);
    assert_bits(ptx_prmt_b32(a, b, k, PTX_RC8), permuted(bytes, copy), "rc8", a, b, n);
    assert_bits(ptx_prmt_b32(a, b, k, PTX_ECL), permuted(bytes, clamp_left), "ecl", a, b, n);
    assert_bits(ptx_prmt_b32(a, b, k, PTX_ECR), permuted(bytes, clamp_right), "ecr", a, b, n);
    assert_bits(ptx_prmt_b32(a, b, k, PTX_RC16), permuted(bytes, half), "rc16", a, b, n);
  }
}

// ---- cvt between integers ----

static void integers_convert_with_and_without_saturation(void **state) {
  (void)state;
  for (uint64_t k = 0; k < rondo_test_load(300000, 20000); k++) {
    const uint64_t value = random_value();
    const enum ptx_type from = (enum ptx_type)(PTX_U8 + random_next() % 8);
    const enum ptx_type to = (enum ptx_type)(PTX_U8 + random_next() % 8);
    const bool to_signed = to >= PTX_S8;
    const uint32_t from_bits = 8u << (from - PTX_U8) % 4, to_bits = 8u << (to - PTX_U8) % 4;
    const wide number = number_of(value, from_bits, from >= PTX_S8);
    const wide greatest = ((wide)1 << (to_bits - to_signed)) - 1;
    const wide least = to_signed ? -greatest - 1 : 0;
    const wide clamped = number > greatest ? greatest : number < least ? least : number;
    assert_bits(ptx_cvt(to, from, value, PTX_RN, 0),
                (uint64_t)number_of(cut(number, to_bits), to_bits, to_signed), "cvt", value,
                (uint64_t)from, (uint64_t)to);
    assert_bits(ptx_cvt(to, from, value, PTX_RN, PTX_SAT), (uint64_t)clamped, "cvt.sat", value,
                (uint64_t)from, (uint64_t)to);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_wrap_and_divide_as_the_manual_says),
      cmocka_unit_test(the_flag_of_a_division_by_zero_stays),
      cmocka_unit_test(wide_and_saturated_forms_are_exact),
      cmocka_unit_test(shifts_past_the_width_give_zero_or_the_sign),
      cmocka_unit_test(funnel_shifts_clamp_or_wrap),
      cmocka_unit_test(bit_fields_may_reach_past_the_width),
      cmocka_unit_test(bits_are_counted_and_reversed),
      cmocka_unit_test(lop3_looks_up_each_bit),
      cmocka_unit_test(prmt_chooses_bytes_in_every_mode),
      cmocka_unit_test(integers_convert_with_and_without_saturation),
  };
  return cmocka_run_group_tests_name("ptx_arith", tests, NULL, NULL);
}
