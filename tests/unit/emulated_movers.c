// Runs the kernel's source of daemon/core/move.h on the CPU, in place of the host's kernels. A loop
// plays the threads of a group. A "level" is a group.
#include <stddef.h>

#include "daemon/core/move.h"
#include "daemon/cuda/cuda_move_core.h"
#include "daemon/host/move_host.h"
#include "tests/support/named.h"

static const uint32_t group_sizes[RONDO_MOVE_LEVEL_COUNT] = {1, 32, 256};
static const char *const group_names[RONDO_MOVE_LEVEL_COUNT] = {"alone", "a warp", "8 warps"};
static int group;

// The command that is carried out: loads may only touch its sources.
static const struct rondo_mover_command *running;

static int lies_in(uint64_t address, uint64_t begin, uint64_t bytes) {
  return address >= begin && address + RONDO_VECTOR_BYTES <= begin + bytes;
}

static uint64_t command_bytes(const struct rondo_mover_command *m) {
  if (m->kind == RONDO_MOVER_UNPACK && !m->op.reduces)
    return 0; // `local` is not read
  return m->count * (m->kind == RONDO_MOVER_COPY ? 1 : rondo_element_bytes(m->op.dtype));
}

RONDO_FN struct rondo_vector rondo_vector_load(uint64_t address) {
  uint64_t bytes = command_bytes(running);
  assert_int_equal(address % RONDO_VECTOR_BYTES, 0);
  assert_true(lies_in(address, running->local, bytes) ||
              (running->op.reduces && lies_in(address, running->incoming, bytes)));
  return *(const struct rondo_vector *)(uintptr_t)address;
}

RONDO_FN void rondo_vector_store(uint64_t address, struct rondo_vector v) {
  assert_int_equal(address % RONDO_VECTOR_BYTES, 0);
  *(struct rondo_vector *)(uintptr_t)address = v;
}

RONDO_FN uint64_t rondo_vector_place(uint64_t address) { return address; }

RONDO_FN struct rondo_vector rondo_tile_load(uint64_t place, uint32_t index) {
  return rondo_vector_load(place + (uint64_t)index * RONDO_TILE_STRIDE);
}

RONDO_FN void rondo_tile_store(uint64_t place, uint32_t index, struct rondo_vector v) {
  rondo_vector_store(place + (uint64_t)index * RONDO_TILE_STRIDE, v);
}

RONDO_FN struct rondo_packet rondo_packet_load(uint64_t address) {
  assert_int_equal(address % sizeof(struct rondo_packet), 0);
  return *(const struct rondo_packet *)(uintptr_t)address;
}

RONDO_FN void rondo_packet_store(uint64_t address, struct rondo_packet p) {
  assert_int_equal(address % sizeof p, 0);
  *(struct rondo_packet *)(uintptr_t)address = p;
}

RONDO_FN float rondo_mover_widen_float16(uint16_t code) { return rondo_float_of_float16(code); }
RONDO_FN uint16_t rondo_mover_narrow_float16(float value) { return rondo_float16_of_float(value); }
RONDO_FN uint16_t rondo_mover_narrow_bfloat16(float value) {
  return rondo_bfloat16_of_float(value);
}

RONDO_FN uint32_t rondo_mover_add_float32(uint32_t n, uint32_t l) {
  return rondo_float_bits(rondo_float_settle(rondo_float_of_bits(n) + rondo_float_of_bits(l)));
}

bool rondo_move_level_is_supported(int level) {
  return level >= 0 && level < RONDO_MOVE_LEVEL_COUNT;
}
void rondo_move_level_select(int level) { group = level; }
const char *rondo_move_level_name(int level) { return group_names[level]; }

// Threads run one after the other, the middle group backwards: a thread that reads what another
// writes would be found out by one of the two orders.
static void issue(const struct rondo_mover_command *m) {
  running = m;
  for (uint32_t i = 0; i < group_sizes[group]; i++) {
    struct rondo_threads t = {i, group_sizes[group]};
    if (group == 1)
      t.rank = group_sizes[group] - 1 - i;
    rondo_mover_run(t, m);
  }
  running = NULL;
}

// As in daemon/cuda/kernel.cu: together if both destinations have the same alignment, else one
// after the other.
static void issue_both(struct rondo_mover_command m, void *second) {
  int together = rondo_mover_is_congruent(m.dst, (uint64_t)(uintptr_t)second);
  m.second = together ? (uint64_t)(uintptr_t)second : 0;
  issue(&m);
  if (second && !together)
    rondo_move_copy(second, NULL, (void *)(uintptr_t)m.dst, command_bytes(&m));
}

void rondo_move_copy_cold(void *dst, const void *src, uint64_t bytes) {
  rondo_move_copy(dst, NULL, src, bytes);
}

void rondo_move_copy(void *dst, void *second, const void *src, uint64_t bytes) {
  if (bytes && dst != src)
    issue_both(rondo_mover_command_copy(dst, src, bytes), second);
  else if (bytes && second)
    rondo_move_copy(second, NULL, src, bytes);
}

// NOLINTNEXTLINE(readability-function-size): as declared
void rondo_move_reduce(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                       const void *incoming, uint64_t count, int final) {
  if (count)
    issue_both(rondo_mover_command_reduce(r, dst, local, incoming, count, final), second);
}

void rondo_move_scale(const struct rondo_reduction *r, void *dst, void *second, const void *local,
                      uint64_t count, int final) {
  if (!r->scale && !(final && r->divide))
    rondo_move_copy(dst, second, local, count * rondo_element_bytes(r->dtype));
  else if (count)
    issue_both(rondo_mover_command_reduce(r, dst, local, NULL, count, final), second);
}

// NOLINTNEXTLINE(readability-function-size): as declared
void rondo_move_quantise(const struct rondo_reduction *r, int quantisation, void *packed, void *dst,
                         const void *local, const void *incoming, uint64_t count) {
  const struct rondo_mover_command m =
      rondo_mover_command_quantise(r, quantisation, packed, dst, local, incoming, count);
  issue(&m);
}

void rondo_move_dequantise(int quantisation, void *dst, const void *packed, uint64_t count) {
  const struct rondo_mover_command m =
      rondo_mover_command_dequantise(quantisation, dst, packed, count);
  issue(&m);
}

void rondo_move_finish(void) {}

void rondo_move_pack(const struct rondo_reduction *r, struct rondo_packets to, const void *local,
                     uint64_t count) {
  const struct rondo_mover_command m = rondo_mover_command_pack(r, to, local, count);
  issue(&m);
}

// NOLINTNEXTLINE(readability-function-size): as declared
bool rondo_move_unpack(const struct rondo_reduction *r, void *dst, struct rondo_packets from,
                       const void *local, uint64_t count, int final) {
  const struct rondo_mover_command m =
      rondo_mover_command_unpack(r, dst, from, local, count, final);
  bool have_come = true;
  for (uint32_t i = 0; i < group_sizes[group]; i++) {
    struct rondo_threads t = {i, group_sizes[group]};
    have_come &= rondo_mover_look(t, &m, 1);
  }
  if (have_come)
    issue(&m);
  return have_come;
}
