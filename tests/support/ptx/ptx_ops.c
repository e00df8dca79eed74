// Instructions on registers: a handler and a row of the table for each line of ptx_ops.h.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_arith.h"
#include "tests/support/ptx/ptx_exec.h"

#define REG(bits) uint##bits##_t

// ------------------------------------------------------------------- handlers --

#define OP1(name, text, D, A, ...)                                                                 \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(A) *const from = ptx_operand(w, i->r[1]);                                            \
    PTX_EACH_LANE(w, const REG(A) a = from[l]; to[l] = (REG(D))(__VA_ARGS__));                     \
  }
#define OP2(name, text, D, A, B, ...)                                                              \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(A) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(B) *const second = ptx_operand(w, i->r[2]);                                          \
    PTX_EACH_LANE(w, const REG(A) a = first[l]; const REG(B) b = second[l];                        \
                  to[l] = (REG(D))(__VA_ARGS__));                                                  \
  }
#define OP3(name, text, D, A, B, C, ...)                                                           \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(A) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(B) *const second = ptx_operand(w, i->r[2]);                                          \
    const REG(C) *const third = ptx_operand(w, i->r[3]);                                           \
    PTX_EACH_LANE(w, const REG(A) a = first[l]; const REG(B) b = second[l];                        \
                  const REG(C) c = third[l]; to[l] = (REG(D))(__VA_ARGS__));                       \
  }
#define OP4(name, text, D, A, B, C, E, ...)                                                        \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(A) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(B) *const second = ptx_operand(w, i->r[2]);                                          \
    const REG(C) *const third = ptx_operand(w, i->r[3]);                                           \
    const REG(E) *const fourth = ptx_operand(w, i->r[4]);                                          \
    PTX_EACH_LANE(w, const REG(A) a = first[l]; const REG(B) b = second[l];                        \
                  const REG(C) c = third[l]; const REG(E) d = fourth[l];                           \
                  to[l] = (REG(D))(__VA_ARGS__));                                                  \
  }
#define DIVIDE(name, text, D, ...)                                                                 \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(D) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(D) *const second = ptx_operand(w, i->r[2]);                                          \
    for (uint32_t each = w->mask; each; each &= each - 1) {                                        \
      const uint32_t l = (uint32_t)__builtin_ctz(each);                                            \
      const REG(D) a = first[l], b = second[l];                                                    \
      bool by_zero = false;                                                                        \
      to[l] = (__VA_ARGS__);                                                                       \
      if (by_zero)                                                                                 \
        ptx_accuse(w, l, "divides by zero");                                                       \
    }                                                                                              \
  }
#define COMPARE(name, text, A, ...)                                                                \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    uint32_t *const to = ptx_operand(w, i->r[0]);                                                  \
    const REG(A) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(A) *const second = ptx_operand(w, i->r[2]);                                          \
    uint32_t bits = 0;                                                                             \
    PTX_EACH_LANE(w, const REG(A) a = first[l]; const REG(A) b = second[l];                        \
                  bits |= (uint32_t)(__VA_ARGS__) << l);                                           \
    *to = (*to & ~w->mask) | bits;                                                                 \
  }
#define SELECT(name, text, D)                                                                      \
  static void run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                          \
    REG(D) *const to = ptx_operand(w, i->r[0]);                                                    \
    const REG(D) *const first = ptx_operand(w, i->r[1]);                                           \
    const REG(D) *const second = ptx_operand(w, i->r[2]);                                          \
    const uint32_t predicate = *(const uint32_t *)ptx_operand(w, i->r[3]);                         \
    PTX_EACH_LANE(w, to[l] = predicate >> l & 1u ? first[l] : second[l]);                          \
  }
#include "tests/support/ptx/ptx_ops.h"
#undef OP1
#undef OP2
#undef OP3
#undef OP4
#undef DIVIDE
#undef COMPARE
#undef SELECT

// Predicates are masks.
#define PREDICATE(name, ...)                                                                       \
  static void run_##name##_pred(struct ptx_warp *w, const struct ptx_instr *i) {                   \
    uint32_t *const to = ptx_operand(w, i->r[0]);                                                  \
    const uint32_t a = *(const uint32_t *)ptx_operand(w, i->r[1]);                                 \
    const uint32_t b = *(const uint32_t *)ptx_operand(w, i->r[2]);                                 \
    (void)b;                                                                                       \
    *to = (*to & ~w->mask) | ((__VA_ARGS__)&w->mask);                                              \
  }
PREDICATE(and, a &b)
PREDICATE(or, a | b)
PREDICATE(xor, a ^ b)
PREDICATE(not, ~a)
PREDICATE(mov, a)
#undef PREDICATE

// ---------------------------------------------------------------------- table --

static const struct ptx_op ops[] = {
#define OP1(name, text, D, A, ...) {text, run_##name, {(D) / 8, (A) / 8, 0, 0, 0}},
#define OP2(name, text, D, A, B, ...) {text, run_##name, {(D) / 8, (A) / 8, (B) / 8, 0, 0}},
#define OP3(name, text, D, A, B, C, ...)                                                           \
  {text, run_##name, {(D) / 8, (A) / 8, (B) / 8, (C) / 8, 0}},
#define OP4(name, text, D, A, B, C, E, ...)                                                        \
  {text, run_##name, {(D) / 8, (A) / 8, (B) / 8, (C) / 8, (E) / 8}},
#define DIVIDE(name, text, D, ...) {text, run_##name, {(D) / 8, (D) / 8, (D) / 8, 0, 0}},
#define COMPARE(name, text, A, ...) {text, run_##name, {1, (A) / 8, (A) / 8, 0, 0}},
#define SELECT(name, text, D) {text, run_##name, {(D) / 8, (D) / 8, (D) / 8, 1, 0}},
#include "tests/support/ptx/ptx_ops.h"
    {"and.pred", run_and_pred, {1, 1, 1, 0, 0}}, {"or.pred", run_or_pred, {1, 1, 1, 0, 0}},
    {"xor.pred", run_xor_pred, {1, 1, 1, 0, 0}}, {"not.pred", run_not_pred, {1, 1, 0, 0, 0}},
    {"mov.pred", run_mov_pred, {1, 1, 0, 0, 0}},
};
#define OPS (sizeof ops / sizeof *ops)

// FNV-1a.
static uint32_t text_hash(const char *text) {
  uint32_t hash = 2166136261u;
  for (; *text; text++)
    hash = (hash ^ (uint8_t)*text) * 16777619u;
  return hash;
}

// Rows of the table by the hash of their text, from 1; made before main, then only read.
#define BUCKETS 2048u
static uint16_t buckets[BUCKETS];

__attribute__((constructor)) static void ops_index(void) {
  static_assert(OPS < BUCKETS / 2, "there must be free buckets");
  for (size_t row = 0; row < OPS; row++) {
    uint32_t at = text_hash(ops[row].text) % BUCKETS;
    while (buckets[at])
      at = (at + 1) % BUCKETS;
    buckets[at] = (uint16_t)(row + 1);
  }
}

const struct ptx_op *ptx_op_named(const char *text) {
  for (uint32_t at = text_hash(text) % BUCKETS; buckets[at]; at = (at + 1) % BUCKETS)
    if (strcmp(ops[buckets[at] - 1].text, text) == 0)
      return &ops[buckets[at] - 1];
  return NULL;
}

// ----------------------------------------------------------- other conversions --

void ptx_run_cvt(struct ptx_warp *w, const struct ptx_instr *i) {
  const enum ptx_type to = (enum ptx_type)(i->offset & 0xff);
  const enum ptx_type from = (enum ptx_type)(i->offset >> 8 & 0xff);
  const enum ptx_round round = (enum ptx_round)(i->offset >> 16 & 0xff);
  const uint32_t modifiers = (uint32_t)(i->offset >> 24 & 0xff);
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    const uint64_t value = ptx_element_read(ptx_operand(w, i->r[1]), i->use.bytes, l);
    ptx_element_write(ptx_operand(w, i->r[0]), i->use.register_bytes, l,
                      ptx_cvt(to, from, value, round, modifiers));
  }
}

// --------------------------------------------------------------- packing (mov) --

// The first element is the least significant.
void ptx_run_pack(struct ptx_warp *w, const struct ptx_instr *i) {
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    uint64_t whole = 0;
    for (uint32_t k = 0; k < i->use.count; k++)
      whole |= ptx_element_read(ptx_operand(w, i->r[1 + k]), i->use.bytes, l)
               << k * 8 * i->use.bytes;
    ptx_element_write(ptx_operand(w, i->r[0]), i->use.register_bytes, l, whole);
  }
}

void ptx_run_unpack(struct ptx_warp *w, const struct ptx_instr *i) {
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    const uint64_t whole =
        ptx_element_read(ptx_operand(w, i->r[i->use.count]), i->use.register_bytes, l);
    for (uint32_t k = 0; k < i->use.count; k++)
      if (i->r[k] != PTX_NO_REGISTER)
        ptx_element_write(ptx_operand(w, i->r[k]), i->use.bytes, l, whole >> k * 8 * i->use.bytes);
  }
}
