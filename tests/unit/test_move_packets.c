// Messages as packets, on every instruction set of the host and as the movers of a CUDA block make
// and take them, against rondo_move_scale, rondo_move_reduce and rondo_move_copy. Any type,
// reduction, count and alignment, in place and not; packets that have not come; other marks.
#include <stdbool.h>
#include <string.h>

#include "daemon/core/move.h"
#include "daemon/host/move_host.h"
#include "daemon/plan/geometry_core.h"
#include "tests/support/load.h"
#include "tests/support/named.h"
#include "tests/unit/test_move_reference.h"

#define MOST 5000u // bytes of the payload
#define GUARD_BYTES 64u
#define GUARD 0xa5

static const uint64_t ELEMENT_BYTES[RONDO_DTYPE_COUNT] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static _Alignas(32) unsigned char packets[2 * MOST + 3 * GUARD_BYTES];
static unsigned char local_values[MOST + 64], remote_values[MOST + 64];
static unsigned char sent[MOST], expected[MOST], got[MOST + 3 * GUARD_BYTES];
static uint64_t state_of_random = 54321;

static uint64_t random_next(void) { // xorshift64*
  state_of_random ^= state_of_random << 13;
  state_of_random ^= state_of_random >> 7;
  state_of_random ^= state_of_random << 17;
  return state_of_random * UINT64_C(2685821657736338717);
}

struct trial {
  struct rondo_reduction r;
  uint64_t count;
  uint32_t shift; // off alignment, of each buffer another one
  bool reduces, in_place;
  int final;
};

// The packets at `packets` + GUARD_BYTES. The first use of a slot has mark 1, the last one 0.
static struct rondo_packets packets_of(uint32_t mark) {
  return (struct rondo_packets){(uint64_t)(uintptr_t)packets + GUARD_BYTES, mark};
}

static void guarded_check(const unsigned char *at, uint64_t bytes) {
  for (uint32_t i = 0; i < GUARD_BYTES; i++)
    if (at[-1 - (int)i] != GUARD || at[bytes + i] != GUARD)
      fail_msg("byte written outside of %u", (unsigned)bytes);
}

// Each half has the mark, and the payload is in the low halves, the last ones filled with zeros.
static void layout_check(uint64_t bytes, uint32_t mark) {
  const uint64_t *halves = (const uint64_t *)(const void *)(packets + GUARD_BYTES);
  for (uint64_t i = 0; i < rondo_packets_bytes(bytes) / 8; i++) {
    uint32_t word = 0;
    for (uint64_t k = 4 * i; k < 4 * i + 4 && k < bytes; k++)
      word |= (uint32_t)sent[k] << 8 * (k % 4);
    assert_int_equal(halves[i], rondo_packet_half(word, mark));
  }
  guarded_check(packets + GUARD_BYTES, rondo_packets_bytes(bytes));
}

static void trial_run(const struct trial *t, uint32_t mark) {
  const uint64_t element = ELEMENT_BYTES[t->r.dtype], bytes = t->count * element;
  struct rondo_reduction own = t->r;
  own.scale = t->reduces && t->r.scale; // a copy is of what was scaled
  unsigned char *dst = got + GUARD_BYTES + 3 * t->shift % 64;
  const unsigned char *remote = remote_values + 5 * t->shift % 64;
  const unsigned char *local = t->in_place ? dst : local_values + t->shift;
  uint64_t *halves = (uint64_t *)(void *)(packets + GUARD_BYTES);
  memset(packets, GUARD, sizeof packets);
  memset(got, GUARD, sizeof got);
  if (t->in_place)
    memcpy(dst, local_values + t->shift, bytes);
  rondo_move_scale(&t->r, sent, NULL, remote, t->count, 0);
  if (t->reduces)
    rondo_move_reduce(&own, expected, NULL, local, sent, t->count, t->final);
  else
    memcpy(expected, sent, bytes);
  rondo_move_pack(&t->r, packets_of(mark), remote, t->count);
  layout_check(bytes, mark);
  // One half of any packet, as it was a lap before: nothing may change.
  uint64_t late = random_next() % (rondo_packets_bytes(bytes) / 8), half = halves[late];
  unsigned char before[sizeof got];
  memcpy(before, got, sizeof got);
  halves[late] = rondo_packet_half((uint32_t)half, mark - 2);
  assert_false(rondo_move_unpack(&own, dst, packets_of(mark), t->reduces ? local : NULL, t->count,
                                 t->final));
  assert_memory_equal(got, before, sizeof got);
  halves[late] = half;
  assert_true(rondo_move_unpack(&own, dst, packets_of(mark), t->reduces ? local : NULL, t->count,
                                t->final));
  assert_memory_equal(dst, expected, bytes);
  guarded_check(dst, bytes);
}

static void bytes_fill(int dtype, unsigned char *at) {
  const uint64_t element = ELEMENT_BYTES[dtype];
  for (uint64_t i = 0; i + element <= MOST + 64; i += element) {
    const int value = (int)(random_next() % 9) - 4;
    uint64_t code = (uint64_t)value;
    if (dtype >= RONDO_FLOAT16)
      code = reference_bits(dtype, value);
    memcpy(at + i, &code, element);
  }
}

static void sweep(int dtype) {
  static const uint64_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 255, 256, 1023, 4099};
  for (int redop = 0; redop < RONDO_REDOP_COUNT; redop++)
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
      struct trial t = {.r = rondo_reduction_lower(dtype, redop, 2, 4)};
      t.count = sizes[k] / ELEMENT_BYTES[dtype];
      bytes_fill(dtype, local_values);
      bytes_fill(dtype, remote_values);
      for (unsigned how = 0; how < 8; how++) {
        t.reduces = how & 1;
        t.in_place = (how & 2) && t.reduces;
        t.final = t.reduces && (how & 4);
        t.shift = how == 0 ? 0 : (uint32_t)(random_next() % 4 * (k % 2 ? 16 : 8)) + how / 4 * 8;
        trial_run(&t, how == 3 ? 0 : (uint32_t)(random_next() >> 32));
      }
    }
}

static void packets_hold_what_is_sent(void **state) {
  (void)state;
  for (int level = 0; level < RONDO_MOVE_LEVEL_COUNT; level++) {
    if (!rondo_move_level_is_supported(level))
      continue;
    rondo_move_level_select(level);
    for (int dtype = 0; dtype < RONDO_DTYPE_COUNT; dtype++)
      sweep(dtype);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      RONDO_NAMED_TEST("move_packets", packets_hold_what_is_sent),
  };
  return cmocka_run_group_tests_name("move_packets", tests, NULL, NULL);
}
