// The decoder: which handler executes an instruction, and on what.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_arith.h"
#include "tests/support/ptx/ptx_build.h"
#include "tests/support/ptx/ptx_memory.h"

#define MAX_TOKENS 12u
#define TOKEN_BYTES 16u

// The parts of an instruction's name.
struct tokens {
  char text[MAX_TOKENS][TOKEN_BYTES];
  uint32_t count, at; // `at`: the next one
};

static bool tokens_split(struct ptx_build *b, const char *text, struct tokens *t) {
  memset(t, 0, sizeof *t);
  for (const char *at = text; *at; at += strcspn(at, "."), at += *at == '.') {
    const size_t length = strcspn(at, ".");
    if (t->count == MAX_TOKENS || length >= TOKEN_BYTES)
      return ptx_build_refuse(b, "%s is not supported", text);
    memcpy(t->text[t->count++], at, length);
  }
  return true;
}

static bool token_takes(struct tokens *t, const char *text) {
  if (t->at >= t->count || strcmp(t->text[t->at], text) != 0)
    return false;
  t->at++;
  return true;
}

// The number of the next token among `names`, which end with null, or -1; takes it if it is there.
static int token_among(struct tokens *t, const char *const *names) {
  for (int i = 0; names[i]; i++)
    if (token_takes(t, names[i]))
      return i;
  return -1;
}

static bool instruction_refuse(struct ptx_build *b, const char *text) {
  return ptx_build_refuse(b, "%s is not supported with these operands", text);
}

// -------------------------------------------------------------------- operands --

static ptx_run *move_of(uint32_t to, uint32_t from, bool is_signed) {
  char text[32];
  snprintf(text, sizeof text, "cvt.%c%u.%c%u", is_signed ? 's' : 'u', 8 * to, is_signed ? 's' : 'u',
           8 * from);
  const struct ptx_op *op = ptx_op_named(text);
  return op ? op->run : NULL;
}

// Adds a move between registers of different width.
static bool width_change(struct ptx_build *b, uint32_t to, uint32_t from, bool is_signed) {
  const uint32_t wide = b->register_bytes[to], narrow = b->register_bytes[from];
  ptx_run *run = move_of(wide, narrow, is_signed && wide > narrow);
  if (!run || wide == 1 || narrow == 1)
    return ptx_build_refuse(b, "an operand has a register of %u bytes where %u are needed", narrow,
                            wide);
  struct ptx_instr *i = ptx_build_add(b, run, 1, 1);
  if (!i)
    return false;
  i->r[0] = to;
  i->r[1] = from;
  return true;
}

static bool predicate_read(struct ptx_build *b, const struct ptx_term *t, uint32_t *r) {
  if (t->kind != PTX_T_REGISTER || b->register_bytes[t->reg] != 1)
    return ptx_build_refuse(b, "an operand is no predicate");
  *r = t->reg;
  if (!t->is_negated)
    return true;
  if (!ptx_build_registers(b, 1, 1, r))
    return false;
  struct ptx_instr *i = ptx_build_add(b, ptx_op_named("not.pred")->run, 1, 2);
  if (!i)
    return false;
  i->r[0] = *r;
  i->r[1] = i->r[2] = t->reg;
  return true;
}

static bool number_fits(const struct ptx_term *t, uint32_t bytes) {
  switch (t->kind) {
  case PTX_T_NUMBER:
    return true;
  case PTX_T_FLOAT:
    return bytes == 4;
  case PTX_T_DOUBLE:
    return bytes == 8;
  default:
    return false;
  }
}

// The operand that an instruction reads as a register of so many bytes. A wider register is cut.
static bool operand_read(struct ptx_build *b, const struct ptx_term *t, uint32_t bytes,
                         uint32_t *r) {
  if (t->kind == PTX_T_REGISTER && bytes == 1)
    return predicate_read(b, t, r);
  if (t->kind == PTX_T_REGISTER) {
    *r = t->reg;
    if (b->register_bytes[t->reg] == bytes)
      return true;
    if (b->register_bytes[t->reg] < bytes)
      return ptx_build_refuse(b, "a register of %u bytes where %u are needed",
                              b->register_bytes[t->reg], bytes);
    return ptx_build_registers(b, 1, bytes, r) && width_change(b, *r, t->reg, false);
  }
  if (number_fits(t, bytes))
    return ptx_build_constant(b, t->value, bytes, r);
  if (t->kind == PTX_T_SYMBOL && t->symbol->kind != PTX_A_LABEL && bytes >= 4)
    return ptx_build_constant(b, t->symbol->value + (uint64_t)t->offset, bytes, r);
  return ptx_build_refuse(b, "an operand has no form that the machine knows");
}

// The register that receives a result of so many bytes: one of its own if the operand is wider.
static bool result_begin(struct ptx_build *b, const struct ptx_term *t, uint32_t bytes,
                         uint32_t *r) {
  if (t->kind != PTX_T_REGISTER)
    return ptx_build_refuse(b, "the result is no register");
  *r = t->reg;
  const uint32_t there = b->register_bytes[t->reg];
  if (there == bytes)
    return true;
  if (there < bytes || bytes == 1)
    return ptx_build_refuse(b, "a register of %u bytes for a result of %u", there, bytes);
  return ptx_build_registers(b, 1, bytes, r);
}

static bool result_end(struct ptx_build *b, const struct ptx_term *t, uint32_t r, bool is_signed) {
  return r == t->reg || width_change(b, t->reg, r, is_signed);
}

// Instructions of ptx_ops.h.
static bool op_decode(struct ptx_build *b, const struct ptx_op *op, const struct ptx_term *terms,
                      uint32_t count, bool is_signed) {
  uint32_t r[PTX_MAX_REGISTERS] = {0};
  uint32_t wanted = 1;
  while (wanted < sizeof op->bytes && op->bytes[wanted])
    wanted++;
  if (count != wanted)
    return ptx_build_refuse(b, "%s has %u operands, not %u", op->text, wanted, count);
  for (uint32_t k = 1; k < wanted; k++)
    if (!operand_read(b, &terms[k], op->bytes[k], &r[k]))
      return false;
  if (!result_begin(b, &terms[0], op->bytes[0], &r[0]))
    return false;
  struct ptx_instr *i = ptx_build_add(b, op->run, 1, wanted - 1);
  if (!i)
    return false;
  memcpy(i->r, r, sizeof r);
  if (op->bytes[0] == 1 && wanted == 2)
    i->r[2] = i->r[1]; // of a predicate only
  return result_end(b, &terms[0], r[0], is_signed);
}

// ----------------------------------------------------------------- conversions --

static const struct {
  const char *name;
  enum ptx_type type;
} types[] = {{"b8", PTX_B8},   {"b16", PTX_B16},   {"b32", PTX_B32}, {"b64", PTX_B64},
             {"u8", PTX_U8},   {"u16", PTX_U16},   {"u32", PTX_U32}, {"u64", PTX_U64},
             {"s8", PTX_S8},   {"s16", PTX_S16},   {"s32", PTX_S32}, {"s64", PTX_S64},
             {"f16", PTX_F16}, {"bf16", PTX_BF16}, {"f32", PTX_F32}, {"f64", PTX_F64}};

static int type_take(struct tokens *t) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (token_takes(t, types[i].name))
      return (int)types[i].type;
  return -1;
}

// Bytes of the smallest register that holds a type.
static uint32_t container_bytes(enum ptx_type type) {
  const uint32_t bytes = ptx_type_bits(type) / 8;
  return bytes < 2 ? 2 : bytes;
}

static bool cvt_decode(struct ptx_build *b, const char *text, struct tokens *t,
                       const struct ptx_term *terms, uint32_t count) {
  static const char *const roundings[] = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", NULL};
  static const char *const modifiers[] = {"ftz", "sat", "satfinite", NULL};
  uint32_t set = 0, from_reg = 0, to_reg = 0;
  int modifier;
  const int round = token_among(t, roundings);
  while ((modifier = token_among(t, modifiers)) >= 0)
    set |= 1u << modifier; // PTX_FTZ, PTX_SAT, PTX_SATFINITE
  const int to = type_take(t), from = type_take(t);
  if (to < 0 || from < 0 || t->at != t->count || count != 2)
    return instruction_refuse(b, text);
  const bool is_signed = ptx_type_is_signed((enum ptx_type)to);
  const struct ptx_op *op = ptx_op_named(text);
  if (op)
    return op_decode(b, op, terms, count, is_signed);
  const uint32_t from_bytes = container_bytes((enum ptx_type)from);
  const uint32_t to_bytes = container_bytes((enum ptx_type)to);
  if (!operand_read(b, &terms[1], from_bytes, &from_reg) ||
      !result_begin(b, &terms[0], to_bytes, &to_reg))
    return false;
  struct ptx_instr *i = ptx_build_add(b, ptx_run_cvt, 1, 1);
  if (!i)
    return false;
  i->r[0] = to_reg;
  i->r[1] = from_reg;
  i->use.bytes = (uint8_t)from_bytes;
  i->use.register_bytes = (uint8_t)to_bytes;
  i->offset = to | from << 8 | (round < 0 ? 0 : round) << 16 | (int64_t)set << 24;
  return result_end(b, &terms[0], to_reg, is_signed);
}

// --------------------------------------------------------------------- compare --

// setp.lt.and.s32 p|q, a, b, c: p = (a < b) & c, q = !(a < b) & c.
static bool setp_decode(struct ptx_build *b, const char *text, struct tokens *t,
                        const struct ptx_term *terms, uint32_t count) {
  static const char *const logic[] = {"and", "or", "xor", NULL};
  char plain[64];
  uint32_t third = 0;
  t->at = 2;
  const int combined = token_among(t, logic);
  snprintf(plain, sizeof plain, "setp.%s.%s", t->text[1], t->text[t->at]);
  const struct ptx_op *op = ptx_op_named(plain);
  if (!op || t->at + 1 != t->count || count != (combined < 0 ? 3u : 4u))
    return instruction_refuse(b, text);
  struct ptx_term first = terms[0];
  if (combined < 0 && first.second == PTX_NO_REGISTER)
    return op_decode(b, op, terms, count, false);
  struct ptx_term compared[3] = {terms[0], terms[1], terms[2]};
  compared[0].second = PTX_NO_REGISTER;
  if (!ptx_build_registers(b, 1, 1, &compared[0].reg) || !op_decode(b, op, compared, 3, false))
    return false;
  const uint32_t outcome = compared[0].reg;
  if (combined >= 0 && !predicate_read(b, &terms[3], &third))
    return false;
  for (int negated = 0; negated < 2; negated++) {
    const uint32_t to = negated ? terms[0].second : terms[0].reg;
    uint32_t value;
    if (to == PTX_NO_REGISTER)
      continue;
    const struct ptx_term source = {
        .kind = PTX_T_REGISTER, .reg = outcome, .is_negated = negated != 0};
    if (!predicate_read(b, &source, &value))
      return false;
    char name[16] = "mov.pred";
    if (combined >= 0)
      snprintf(name, sizeof name, "%s.pred", logic[combined]);
    struct ptx_instr *i = ptx_build_add(b, ptx_op_named(name)->run, 1, 2);
    if (!i)
      return false;
    i->r[0] = to;
    i->r[1] = value;
    i->r[2] = combined >= 0 ? third : value;
  }
  return true;
}

// ------------------------------------------------------------------------ move --

static bool pack_decode(struct ptx_build *b, const struct ptx_term *terms, uint32_t bytes) {
  const struct ptx_term *vector = &terms[1];
  const uint32_t part = bytes / vector->part_count;
  uint32_t r[PTX_MAX_REGISTERS] = {0};
  if (part < 2 || !result_begin(b, &terms[0], bytes, &r[0]) || r[0] != terms[0].reg)
    return ptx_build_refuse(b, "a mov of elements of this size is not supported");
  for (uint32_t k = 0; k < vector->part_count; k++) {
    if (vector->parts[k] == PTX_NO_REGISTER || b->register_bytes[vector->parts[k]] != part)
      return ptx_build_refuse(b, "an element has no register of %u bytes", part);
    r[1 + k] = vector->parts[k];
  }
  struct ptx_instr *i = ptx_build_add(b, ptx_run_pack, 1, vector->part_count);
  if (!i)
    return false;
  memcpy(i->r, r, sizeof r);
  i->use.count = (uint8_t)vector->part_count;
  i->use.bytes = (uint8_t)part;
  i->use.register_bytes = (uint8_t)bytes;
  return true;
}

static bool unpack_decode(struct ptx_build *b, const struct ptx_term *terms, uint32_t bytes) {
  const struct ptx_term *vector = &terms[0];
  const uint32_t count = vector->part_count, part = bytes / count;
  uint32_t source = 0;
  if (part < 2 || !operand_read(b, &terms[1], bytes, &source))
    return ptx_build_refuse(b, "a mov of elements of this size is not supported");
  for (uint32_t k = 0; k < count; k++)
    if (vector->parts[k] != PTX_NO_REGISTER && b->register_bytes[vector->parts[k]] != part)
      return ptx_build_refuse(b, "an element has no register of %u bytes", part);
  struct ptx_instr *i = ptx_build_add(b, ptx_run_unpack, count, 1);
  if (!i)
    return false;
  memcpy(i->r, vector->parts, count * sizeof *i->r);
  i->r[count] = source;
  i->use.count = (uint8_t)count;
  i->use.bytes = (uint8_t)part;
  i->use.register_bytes = (uint8_t)bytes;
  return true;
}

static bool special_decode(struct ptx_build *b, const struct ptx_term *terms, uint32_t bytes) {
  const bool is_wide = terms[1].value == PTX_CLOCK64 || terms[1].value == PTX_TIMER;
  uint32_t r = 0;
  if (bytes != (is_wide ? 8u : 4u))
    return ptx_build_refuse(b, "a special register of another width");
  if (!result_begin(b, &terms[0], bytes, &r))
    return false;
  struct ptx_instr *i = ptx_build_add(b, ptx_run_special, 1, 0);
  if (!i)
    return false;
  i->r[0] = r;
  i->offset = (int64_t)terms[1].value;
  i->use.register_bytes = (uint8_t)bytes;
  return result_end(b, &terms[0], r, false);
}

static bool mov_decode(struct ptx_build *b, const char *text, const struct ptx_term *terms,
                       uint32_t count) {
  const struct ptx_op *op = ptx_op_named(text);
  if (!op || count != 2)
    return instruction_refuse(b, text);
  if (terms[1].kind == PTX_T_VECTOR)
    return pack_decode(b, terms, op->bytes[0]);
  if (terms[0].kind == PTX_T_VECTOR)
    return unpack_decode(b, terms, op->bytes[0]);
  if (terms[1].kind == PTX_T_SPECIAL)
    return special_decode(b, terms, op->bytes[0]);
  return op_decode(b, op, terms, count, false);
}

// ---------------------------------------------------------------------- memory --

static const char *const scopes[] = {"cta", "gpu", "sys", NULL}; // as enum ptx_scope

// Takes the order, scope and space in the name of a load, a store or an update.
static void use_take(struct tokens *t, struct ptx_use *use) {
  static const char *const orders[] = {"weak",    "relaxed", "acquire",
                                       "release", "acq_rel", NULL}; // as enum ptx_order
  static const char *const hints[] = {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", NULL};
  static const struct {
    const char *name;
    enum ptx_space space;
  } spaces[] = {{"global", PTX_GLOBAL},
                {"shared", PTX_SHARED},
                {"shared::cta", PTX_SHARED},
                {"param", PTX_PARAM},
                {"param::entry", PTX_PARAM}};
  const int order = token_among(t, orders);
  if (order >= 0)
    use->order = (uint8_t)order;
  if (token_takes(t, "volatile")) {
    use->order = PTX_RELAXED;
    use->scope = PTX_SYS;
  }
  const int scope = token_among(t, scopes);
  if (scope >= 0)
    use->scope = (uint8_t)scope;
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
    if (token_takes(t, spaces[i].name)) {
      use->space = (uint8_t)spaces[i].space;
      break;
    }
  while (token_among(t, hints) >= 0)
    ;
}

// [address]: a register and an offset. The use says how wide the register is.
static bool address_decode(struct ptx_build *b, const struct ptx_term *t, struct ptx_use *use,
                           uint32_t *r) {
  if (t->kind != PTX_T_ADDRESS)
    return ptx_build_refuse(b, "no address");
  if (t->reg != PTX_NO_REGISTER) {
    use->address_bytes = b->register_bytes[t->reg];
    *r = t->reg;
    return use->address_bytes == 8 || (use->address_bytes == 4 && use->space == PTX_SHARED) ||
           ptx_build_refuse(b, "an address in a register of %u bytes", use->address_bytes);
  }
  const enum ptx_symbol_kind kind = use->space == PTX_PARAM ? PTX_A_PARAM : PTX_A_SHARED;
  if (t->symbol &&
      (t->symbol->kind != kind || use->space == PTX_GENERIC || use->space == PTX_GLOBAL))
    return ptx_build_refuse(b, "%s is in another state space", t->symbol->name);
  use->address_bytes = 8;
  return ptx_build_constant(b, t->symbol ? t->symbol->value : 0, 8, r);
}

// The elements of a load or a store and the type of them.
static bool elements_take(struct ptx_build *b, struct tokens *t, struct ptx_term *elements,
                          struct ptx_use *use) {
  static const char *const vectors[] = {"v2", "v4", NULL};
  const int vector = token_among(t, vectors);
  const int type = type_take(t);
  if (type < 0 || t->at != t->count)
    return false;
  use->count = vector < 0 ? 1 : (uint8_t)(2 << vector);
  use->bytes = (uint8_t)(ptx_type_bits((enum ptx_type)type) / 8);
  use->is_signed = ptx_type_is_signed((enum ptx_type)type);
  if (elements->kind == PTX_T_REGISTER && vector < 0) {
    elements->part_count = 1;
    elements->parts[0] = elements->reg;
  } else if (elements->kind == PTX_T_NUMBER || elements->kind == PTX_T_FLOAT ||
             elements->kind == PTX_T_DOUBLE) {
    elements->part_count = 1;
    use->register_bytes = use->bytes < 2 ? 2 : use->bytes;
    return use->count == 1 && number_fits(elements, use->register_bytes) &&
           ptx_build_constant(b, elements->value, use->register_bytes, &elements->parts[0]);
  }
  if (elements->part_count != use->count || (uint32_t)use->bytes * use->count > 16)
    return false;
  for (uint32_t k = 0; k < use->count; k++) {
    if (elements->parts[k] == PTX_NO_REGISTER)
      continue;
    const uint32_t bytes = b->register_bytes[elements->parts[k]];
    if (bytes < use->bytes || bytes == 1 || (use->register_bytes && use->register_bytes != bytes))
      return false;
    use->register_bytes = (uint8_t)bytes;
  }
  return use->register_bytes != 0;
}

static bool access_decode(struct ptx_build *b, const char *text, struct tokens *t,
                          struct ptx_term *terms, uint32_t count) {
  const bool is_load = t->text[0][0] == 'l';
  struct ptx_use use = {.scope = PTX_SYS};
  uint32_t address = 0;
  use_take(t, &use);
  if (count != 2 || !elements_take(b, t, &terms[is_load ? 0 : 1], &use) ||
      (is_load ? use.order == PTX_RELEASE : use.order == PTX_ACQUIRE) ||
      (!is_load && use.space == PTX_PARAM) || use.order == PTX_ACQ_REL)
    return instruction_refuse(b, text);
  if (!address_decode(b, &terms[is_load ? 1 : 0], &use, &address))
    return false;
  struct ptx_instr *i = is_load ? ptx_build_add(b, ptx_run_load, use.count, 1)
                                : ptx_build_add(b, ptx_run_store, 0, use.count + 1u);
  if (!i)
    return false;
  memcpy(&i->r[is_load ? 0 : 1], terms[is_load ? 0 : 1].parts, use.count * sizeof *i->r);
  i->r[is_load ? use.count : 0] = address;
  i->use = use;
  i->offset = terms[is_load ? 1 : 0].offset;
  return true;
}

// atom and red.
static bool update_decode(struct ptx_build *b, const char *text, struct tokens *t,
                          const struct ptx_term *terms, uint32_t count) {
  static const struct {
    const char *name;
    ptx_run *run;
  } updates[] = {{"cas", ptx_run_cas},       {"exch", ptx_run_exchange}, {"add", ptx_run_fetch_add},
                 {"and", ptx_run_fetch_and}, {"or", ptx_run_fetch_or},   {"xor", ptx_run_fetch_xor},
                 {"min", ptx_run_fetch_min}, {"max", ptx_run_fetch_max}};
  const bool is_atom = t->text[0][0] == 'a';
  struct ptx_use use = {.scope = PTX_GPU, .order = PTX_RELAXED, .count = is_atom};
  uint32_t r[PTX_MAX_REGISTERS] = {0}, n = 0;
  const uint32_t first = is_atom ? 1 : 0;
  use_take(t, &use);
  while (n < sizeof updates / sizeof *updates && !token_takes(t, updates[n].name))
    n++;
  use_take(t, &use); // nvcc writes the order and the scope after the operation
  const int type = type_take(t);
  const bool is_cas = n == 0;
  if (n == sizeof updates / sizeof *updates || type < 0 || t->at != t->count ||
      ptx_type_is_float((enum ptx_type)type) || ptx_type_bits((enum ptx_type)type) < 32 ||
      (!is_atom && is_cas) || count != first + 2 + is_cas || use.space == PTX_PARAM)
    return instruction_refuse(b, text);
  use.bytes = use.register_bytes = (uint8_t)(ptx_type_bits((enum ptx_type)type) / 8);
  use.is_signed = ptx_type_is_signed((enum ptx_type)type);
  if (!address_decode(b, &terms[first], &use, &r[1]))
    return false;
  for (uint32_t k = 0; k <= is_cas; k++)
    if (!operand_read(b, &terms[first + 1 + k], use.bytes, &r[2 + k]))
      return false;
  if (!is_atom || terms[0].kind == PTX_T_NOTHING) {
    if (!ptx_build_registers(b, 1, use.bytes, &r[0]))
      return false;
  } else if (!result_begin(b, &terms[0], use.bytes, &r[0])) {
    return false;
  }
  struct ptx_instr *i = ptx_build_add(b, updates[n].run, 1, is_cas ? 3 : 2);
  if (!i)
    return false;
  memcpy(i->r, r, sizeof r);
  i->use = use;
  i->offset = terms[first].offset;
  return !is_atom || terms[0].kind == PTX_T_NOTHING || result_end(b, &terms[0], r[0], false);
}

static bool fence_decode(struct ptx_build *b, const char *text, struct tokens *t, uint32_t count) {
  static const char *const levels[] = {"cta", "gl", "sys", NULL};
  const bool is_membar = token_takes(t, "membar");
  t->at = 1;
  const bool is_strong = is_membar || token_takes(t, "sc");
  if (!is_strong)
    (void)token_takes(t, "acq_rel");
  const int scope = token_among(t, is_membar ? levels : scopes);
  if (scope < 0 || t->at != t->count || count != 0)
    return instruction_refuse(b, text);
  struct ptx_instr *i = ptx_build_add(b, ptx_run_fence, 0, 0);
  if (!i)
    return false;
  i->use.order = is_strong ? PTX_SC : PTX_ACQ_REL;
  i->use.scope = (uint8_t)scope;
  return true;
}

// cvta.to.global.u64, cvta.shared.u64, isspacep.shared.
static bool window_decode(struct ptx_build *b, const char *text, const struct ptx_term *terms,
                          uint32_t count) {
  static const struct {
    const char *text;
    ptx_run *run;
    uint32_t result;
  } windows[] = {{"cvta.to.shared.u64", ptx_run_to_shared, 8},
                 {"cvta.shared.u64", ptx_run_from_shared, 8},
                 {"isspacep.shared", ptx_run_is_shared, 1}};
  uint32_t r[2] = {0, 0}, n = 0;
  if (strcmp(text, "cvta.to.global.u64") == 0 || strcmp(text, "cvta.global.u64") == 0)
    return op_decode(b, ptx_op_named("mov.b64"), terms, count, false);
  while (n < 3 && strcmp(text, windows[n].text) != 0)
    n++;
  if (n == 3 || count != 2)
    return instruction_refuse(b, text);
  if (!operand_read(b, &terms[1], 8, &r[1]) ||
      !result_begin(b, &terms[0], windows[n].result, &r[0]))
    return false;
  struct ptx_instr *i = ptx_build_add(b, windows[n].run, 1, 1);
  if (!i)
    return false;
  i->r[0] = r[0];
  i->r[1] = r[1];
  return true;
}

// --------------------------------------------------------------------- control --

// bar.sync a, b; barrier.cta.sync[.aligned] a, b.
static bool barrier_decode(struct ptx_build *b, const char *text, struct tokens *t,
                           const struct ptx_term *terms, uint32_t count) {
  const bool is_bar = strcmp(t->text[0], "bar") == 0;
  uint32_t r[2] = {0, 0};
  (void)token_takes(t, "cta");
  const bool is_sync = token_takes(t, "sync");
  const bool is_aligned = token_takes(t, "aligned") || is_bar;
  if (!is_sync || t->at != t->count || count < 1 || count > 2)
    return instruction_refuse(b, text);
  if (!operand_read(b, &terms[0], 4, &r[0]) ||
      (count == 2 && !operand_read(b, &terms[1], 4, &r[1])))
    return false;
  struct ptx_instr *i = ptx_build_add(b, ptx_run_barrier, 0, count);
  if (!i)
    return false;
  i->r[0] = r[0];
  i->r[1] = r[1];
  i->use.count = (uint8_t)count;
  i->use.is_signed = is_aligned;
  return true;
}

static bool jump_decode(struct ptx_build *b, const struct ptx_term *terms, uint32_t count) {
  if (count != 1 || terms[0].kind != PTX_T_SYMBOL || terms[0].symbol->kind != PTX_A_LABEL)
    return ptx_build_refuse(b, "the target of a branch is no label");
  struct ptx_instr *i = ptx_build_add(b, ptx_run_jump, 0, 0);
  if (!i)
    return false;
  i->target = (uint32_t)terms[0].symbol->value;
  return true;
}

static bool sleep_decode(struct ptx_build *b, const struct ptx_term *terms, uint32_t count) {
  uint32_t ns = 0;
  if (count != 1 || !operand_read(b, &terms[0], 4, &ns))
    return ptx_build_refuse(b, "nanosleep has one operand");
  struct ptx_instr *i = ptx_build_add(b, ptx_run_sleep, 0, 1);
  if (!i)
    return false;
  i->r[0] = ns;
  return true;
}

static bool control_decode(struct ptx_build *b, const char *text, const struct ptx_term *terms,
                           uint32_t count, bool *is_known) {
  *is_known = true;
  if (strcmp(text, "bra") == 0 || strcmp(text, "bra.uni") == 0)
    return jump_decode(b, terms, count);
  if (strcmp(text, "nanosleep.u32") == 0)
    return sleep_decode(b, terms, count);
  if (count == 0 &&
      (strcmp(text, "ret") == 0 || strcmp(text, "exit") == 0 || strcmp(text, "ret.uni") == 0))
    return ptx_build_add(b, ptx_run_exit, 0, 0) != NULL;
  if (count == 0 && strcmp(text, "trap") == 0)
    return ptx_build_add(b, ptx_run_trap, 0, 0) != NULL;
  *is_known = false;
  return true;
}

bool ptx_build_decode(struct ptx_build *b, const char *text, struct ptx_term *terms,
                      uint32_t count) {
  struct tokens t;
  bool is_known;
  if (!tokens_split(b, text, &t) || !control_decode(b, text, terms, count, &is_known))
    return false;
  const char *base = t.text[0];
  t.at = 1;
  if (is_known)
    return true;
  if (strcmp(base, "mov") == 0)
    return mov_decode(b, text, terms, count);
  if (strcmp(base, "cvt") == 0)
    return cvt_decode(b, text, &t, terms, count);
  if (strcmp(base, "setp") == 0)
    return setp_decode(b, text, &t, terms, count);
  if (strcmp(base, "ld") == 0 || strcmp(base, "st") == 0)
    return access_decode(b, text, &t, terms, count);
  if (strcmp(base, "atom") == 0 || strcmp(base, "red") == 0)
    return update_decode(b, text, &t, terms, count);
  if (strcmp(base, "fence") == 0 || strcmp(base, "membar") == 0)
    return t.at = 0, fence_decode(b, text, &t, count);
  if (strcmp(base, "cvta") == 0 || strcmp(base, "isspacep") == 0)
    return window_decode(b, text, terms, count);
  if (strcmp(base, "bar") == 0 || strcmp(base, "barrier") == 0)
    return barrier_decode(b, text, &t, terms, count);
  const struct ptx_op *op = ptx_op_named(text);
  return op ? op_decode(b, op, terms, count, false)
            : ptx_build_refuse(b, "%s is not supported", text);
}
