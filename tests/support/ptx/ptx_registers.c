// Places for virtual registers. A kernel has tens of thousands of them. Only some hundreds are live
// at a time, and those that are never live together share a place.
//
// A virtual register is taken to be live from its first to its last instruction in the order of
// the text, blocks that it is live through included. A register that may be read before it is
// written is live from the first instruction, so nothing else uses its place before.
#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_build.h"

struct mention { // of a register in a block
  uint32_t reg, block;
};

struct liveness {
  uint32_t *starts;   // first instruction of each block, and the count of instructions
  uint32_t *block_of; // by instruction
  uint32_t block_count;
  uint32_t *preds;             // blocks, all of block 0 first
  uint32_t *pred_first;        // by block, and the end
  struct mention *uses, *defs; // in order of the register; uses that no def of the block precedes
  uint32_t use_count, def_count;
  uint32_t *low, *high; // by register: first and last instruction
  uint32_t *def_mark, *live_mark, *work;
};

static bool instr_is_branch(const struct ptx_instr *i) {
  return i->run == ptx_run_jump || i->run == ptx_run_branch || i->run == ptx_run_unless;
}

// Whether the instruction after this one is not its successor.
static bool instr_is_last(const struct ptx_instr *i) {
  return i->run == ptx_run_jump || i->run == ptx_run_exit;
}

static bool operand_is_register(uint32_t r) { return r < PTX_NO_REGISTER; }

static void blocks_find(struct liveness *v, const struct ptx_kernel *k) {
  uint32_t blocks = 0;
  for (uint32_t n = 0; n < k->count; n++) {
    const bool begins = n == 0 || k->code[n].run == ptx_run_block ||
                        instr_is_branch(&k->code[n - 1]) || instr_is_last(&k->code[n - 1]);
    if (begins)
      v->starts[blocks++] = n;
    v->block_of[n] = blocks - 1;
  }
  v->starts[blocks] = k->count;
  v->block_count = blocks;
}

static uint32_t block_successors(const struct liveness *v, const struct ptx_kernel *k,
                                 uint32_t block, uint32_t to[2]) {
  const struct ptx_instr *last = &k->code[v->starts[block + 1] - 1];
  uint32_t count = 0;
  if (instr_is_branch(last))
    to[count++] = v->block_of[last->target];
  if (!instr_is_last(last) && block + 1 < v->block_count)
    to[count++] = block + 1;
  return count;
}

static void predecessors_find(struct liveness *v, const struct ptx_kernel *k) {
  uint32_t to[2];
  memset(v->pred_first, 0, (v->block_count + 1) * sizeof *v->pred_first);
  for (uint32_t b = 0; b < v->block_count; b++)
    for (uint32_t n = block_successors(v, k, b, to); n > 0; n--)
      v->pred_first[to[n - 1] + 1]++;
  for (uint32_t b = 0; b < v->block_count; b++)
    v->pred_first[b + 1] += v->pred_first[b];
  memcpy(v->work, v->pred_first, v->block_count * sizeof *v->work);
  for (uint32_t b = 0; b < v->block_count; b++)
    for (uint32_t n = block_successors(v, k, b, to); n > 0; n--)
      v->preds[v->work[to[n - 1]]++] = b;
}

static void interval_extend(struct liveness *v, uint32_t reg, uint32_t n) {
  v->low[reg] = v->low[reg] < n ? v->low[reg] : n;
  v->high[reg] = v->high[reg] > n ? v->high[reg] : n;
}

static void mentions_find(struct liveness *v, const struct ptx_kernel *k) {
  for (uint32_t n = 0; n < k->count; n++) {
    const struct ptx_instr *i = &k->code[n];
    const uint32_t block = v->block_of[n];
    for (uint32_t o = i->written; o < (uint32_t)i->written + i->read; o++) {
      const uint32_t reg = i->r[o];
      if (!operand_is_register(reg))
        continue;
      interval_extend(v, reg, n);
      if (v->def_mark[reg] != block + 1)
        v->uses[v->use_count++] = (struct mention){reg, block};
    }
    for (uint32_t o = 0; o < i->written; o++) {
      const uint32_t reg = i->r[o];
      if (!operand_is_register(reg))
        continue;
      interval_extend(v, reg, n);
      if (v->def_mark[reg] != block + 1)
        v->defs[v->def_count++] = (struct mention){reg, block};
      v->def_mark[reg] = block + 1;
    }
  }
}

static int mention_compare(const void *left, const void *right) {
  const struct mention *a = left, *b = right;
  if (a->reg != b->reg)
    return a->reg < b->reg ? -1 : 1;
  return a->block < b->block ? -1 : a->block > b->block;
}

// A register is live where a block begins: so it is at the end of the blocks before, and at their
// beginning unless they write it.
static void live_spread(struct liveness *v, uint32_t reg, uint32_t mark, uint32_t block) {
  uint32_t count = 0;
  if (v->live_mark[block] != mark)
    v->work[count++] = block;
  v->live_mark[block] = mark;
  while (count) {
    block = v->work[--count];
    interval_extend(v, reg, v->starts[block]);
    for (uint32_t p = v->pred_first[block]; p < v->pred_first[block + 1]; p++) {
      const uint32_t before = v->preds[p];
      interval_extend(v, reg, v->starts[before + 1] - 1);
      if (v->def_mark[before] == mark || v->live_mark[before] == mark)
        continue;
      v->live_mark[before] = mark;
      v->work[count++] = before;
    }
  }
}

static void intervals_find(struct liveness *v, uint32_t blocks) {
  uint32_t def = 0;
  qsort(v->uses, v->use_count, sizeof *v->uses, mention_compare);
  qsort(v->defs, v->def_count, sizeof *v->defs, mention_compare);
  memset(v->def_mark, 0, blocks * sizeof *v->def_mark);
  for (uint32_t use = 0; use < v->use_count; use++) {
    const uint32_t reg = v->uses[use].reg, mark = reg + 1;
    for (; def < v->def_count && v->defs[def].reg <= reg; def++)
      v->def_mark[v->defs[def].block] = v->defs[def].reg + 1;
    live_spread(v, reg, mark, v->uses[use].block);
  }
}

static void *zeroed(size_t count, size_t bytes) { return calloc(count + 1, bytes); }

static void liveness_free(struct liveness *v) {
  void *const all[] = {v->starts, v->block_of, v->preds, v->pred_first, v->uses,     v->defs,
                       v->low,    v->high,     v->work,  v->def_mark,   v->live_mark};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    free(all[i]);
}

static bool liveness_init(struct liveness *v, const struct ptx_kernel *k, uint32_t registers) {
  const size_t count = k->count > registers ? k->count + 1 : registers + 1;
  *v = (struct liveness){
      .starts = zeroed(count, sizeof *v->starts),
      .block_of = zeroed(count, sizeof *v->block_of),
      .preds = zeroed(2 * count, sizeof *v->preds),
      .pred_first = zeroed(count, sizeof *v->pred_first),
      .uses = zeroed((size_t)PTX_MAX_REGISTERS * count, sizeof *v->uses),
      .defs = zeroed((size_t)PTX_MAX_REGISTERS * count, sizeof *v->defs),
      .low = zeroed(count, sizeof *v->low),
      .high = zeroed(count, sizeof *v->high),
      .work = zeroed(count, sizeof *v->work),
      .def_mark = zeroed(count, sizeof *v->def_mark),
      .live_mark = zeroed(count, sizeof *v->live_mark),
  };
  if (!v->starts || !v->block_of || !v->preds || !v->pred_first || !v->uses || !v->defs ||
      !v->low || !v->high || !v->work || !v->def_mark || !v->live_mark)
    return false;
  memset(v->low, 0xff, (registers + 1) * sizeof *v->low);
  blocks_find(v, k);
  predecessors_find(v, k);
  mentions_find(v, k);
  intervals_find(v, v->block_count);
  return true;
}

// ------------------------------------------------------------------ allocation --

// Registers share places with those of their own layout only: while some lanes of a warp still need
// one register, others may already write the next one. Predicates, 16, 32 and 64 bits.
#define CLASSES 4u
static uint32_t width_class(uint32_t bytes) { return bytes < 4 ? bytes - 1 : bytes / 4 + 1; }
static uint32_t class_bytes(uint32_t c) {
  return c < 2 ? PTX_SLOT_BYTES : PTX_SLOT_BYTES << (c - 1);
}

// Free places and, by instruction, the registers whose interval begins or ends there: lists from 1.
struct places {
  uint32_t *begins, *begins_next, *ends, *ends_next, *place;
  uint32_t *free_places[CLASSES];
  uint32_t free_count[CLASSES];
  uint32_t bytes;
};

static void places_free(struct places *p) {
  void *const all[] = {p->begins, p->begins_next, p->ends, p->ends_next, p->place};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    free(all[i]);
  for (uint32_t c = 0; c < CLASSES; c++)
    free(p->free_places[c]);
}

static bool places_init(struct places *p, uint32_t instructions, uint32_t registers) {
  *p = (struct places){
      .begins = zeroed(instructions, sizeof(uint32_t)),
      .ends = zeroed(instructions, sizeof(uint32_t)),
      .begins_next = zeroed(registers, sizeof(uint32_t)),
      .ends_next = zeroed(registers, sizeof(uint32_t)),
      .place = zeroed(registers, sizeof(uint32_t)),
  };
  bool is_sound = p->begins && p->ends && p->begins_next && p->ends_next && p->place;
  for (uint32_t c = 0; c < CLASSES; c++) {
    p->free_places[c] = zeroed(registers, sizeof(uint32_t));
    is_sound = is_sound && p->free_places[c];
  }
  return is_sound;
}

static void places_assign(struct places *p, const uint8_t *bytes, uint32_t instructions) {
  for (uint32_t n = 0; n < instructions; n++) {
    for (uint32_t reg = p->begins[n]; reg; reg = p->begins_next[reg - 1]) {
      const uint32_t c = width_class(bytes[reg - 1]);
      if (p->free_count[c]) {
        p->place[reg - 1] = p->free_places[c][--p->free_count[c]];
      } else {
        p->place[reg - 1] = p->bytes;
        p->bytes += class_bytes(c);
      }
    }
    for (uint32_t reg = p->ends[n]; reg; reg = p->ends_next[reg - 1]) {
      const uint32_t c = width_class(bytes[reg - 1]);
      p->free_places[c][p->free_count[c]++] = p->place[reg - 1];
    }
  }
}

static void operands_place(struct ptx_kernel *k, const struct places *p) {
  for (uint32_t n = 0; n < k->count; n++) {
    struct ptx_instr *i = &k->code[n];
    const uint32_t all = (uint32_t)i->written + i->read;
    for (uint32_t o = 0; o < all; o++)
      if (operand_is_register(i->r[o]))
        i->r[o] = p->place[i->r[o]];
  }
}

bool ptx_build_allocate(struct ptx_build *b) {
  struct liveness v;
  struct places p = {0};
  struct ptx_kernel *k = b->kernel;
  bool is_done =
      liveness_init(&v, k, b->register_count) && places_init(&p, k->count, b->register_count);
  for (uint32_t reg = 0; is_done && reg < b->register_count; reg++) {
    if (v.low[reg] == UINT32_MAX)
      continue; // nothing uses it
    p.begins_next[reg] = p.begins[v.low[reg]];
    p.begins[v.low[reg]] = reg + 1;
    p.ends_next[reg] = p.ends[v.high[reg]];
    p.ends[v.high[reg]] = reg + 1;
  }
  if (is_done) {
    places_assign(&p, b->register_bytes, k->count);
    operands_place(k, &p);
    k->register_bytes = p.bytes;
  }
  places_free(&p);
  liveness_free(&v);
  return is_done || ptx_build_refuse(b, "no memory");
}
