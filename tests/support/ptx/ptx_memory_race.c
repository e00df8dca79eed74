// Accusations: races, and accesses to bytes that the thread may not access.
#include "tests/support/ptx/ptx_memory_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t where_hash(const struct ptx_where *w, enum ptx_offence offence, bool is_write) {
  uint64_t hash = random_mix((uint64_t)(uintptr_t)w->kernel + 1);
  hash = random_mix(hash ^ ((uint64_t)w->line << 32 | w->text_line));
  return random_mix(hash ^ ((uint64_t)offence << 1 | is_write));
}

// Adds to the set of pairs that were accused. Returns false if it is there.
static bool accused_add(struct ptx_memory *m, uint64_t pair) {
  if (2 * m->accused_count >= m->accused_capacity) {
    uint64_t *old = m->accused;
    uint32_t old_capacity = m->accused_capacity;
    m->accused_capacity = old_capacity ? 2 * old_capacity : 64;
    m->accused = ptx_allocate(m->accused_capacity * sizeof *m->accused);
    memset(m->accused, 0, m->accused_capacity * sizeof *m->accused);
    m->accused_count = 0;
    for (uint32_t i = 0; i < old_capacity; i++)
      if (old[i])
        accused_add(m, old[i]);
    free(old);
  }
  pair += !pair;
  uint32_t at = (uint32_t)pair & (m->accused_capacity - 1);
  while (m->accused[at] && m->accused[at] != pair)
    at = (at + 1) & (m->accused_capacity - 1);
  bool is_new = !m->accused[at];
  m->accused[at] = pair;
  m->accused_count += is_new;
  return is_new;
}

static struct ptx_party operation_party(const struct operation *op, bool is_write) {
  return (struct ptx_party){.where = op->where,
                            .device = op->m->agents[op->agent].device,
                            .address = op->access.address,
                            .bytes = op->access.bytes,
                            .order = op->access.order,
                            .scope = op->access.scope,
                            .is_write = is_write};
}

static void accusation_report(const struct operation *op, const struct ptx_accusation *accusation) {
  const struct ptx_party *now = &accusation->now, *other = &accusation->other;
  uint64_t pair = where_hash(&now->where, accusation->offence, now->is_write);
  if (accusation->offence == PTX_RACE)
    pair += where_hash(&other->where, PTX_RACE, other->is_write);
  const struct ptx_memory_options *options = &op->m->options;
  if (accused_add(op->m, pair) && options->accuse)
    options->accuse(options->arg, accusation);
}

static void access_accuse(const struct operation *op, bool is_write, enum ptx_offence offence,
                          const char *range) {
  accusation_report(op, &(struct ptx_accusation){.offence = offence,
                                                 .now = operation_party(op, is_write),
                                                 .range = range});
}

// The range that has the first byte, or NULL.
static const struct ptx_range *range_find(struct ptx_memory *m, uint64_t address) {
  const struct ptx_range *last = &m->ranges[m->last_range];
  if (m->last_range < m->range_count && address - last->base < last->bytes)
    return last;
  uint32_t low = 0, high = m->range_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (m->ranges[middle].base <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0 || address - m->ranges[low - 1].base >= m->ranges[low - 1].bytes)
    return NULL;
  m->last_range = low - 1;
  return &m->ranges[low - 1];
}

bool ptx_access_check(const struct operation *op, enum access_kind kind) {
  const struct ptx_access *a = &op->access;
  bool is_write = kind != ACCESS_LOAD;
  bool is_size = a->bytes && a->bytes <= GRANULE_BYTES && !(a->bytes & (a->bytes - 1));
  if (!is_size || a->address % a->bytes) {
    access_accuse(op, is_write, PTX_MISALIGNED, NULL);
    return false;
  }
  if (!op->m->range_count)
    return true;
  const struct ptx_range *range = range_find(op->m, a->address);
  if (!range || a->address - range->base > range->bytes - a->bytes) {
    access_accuse(op, is_write, PTX_OUTSIDE, NULL);
    return false;
  }
  const struct agent *agent = &op->m->agents[op->agent];
  uint64_t bit = agent->device == PTX_CPU ? PTX_CPU_BIT
                 : agent->device < 63     ? UINT64_C(1) << agent->device
                                          : 0;
  bool is_block = range->block == PTX_ANY_BLOCK || range->block == agent->block;
  uint64_t may = kind == ACCESS_LOAD    ? range->readers
                 : kind == ACCESS_STORE ? range->writers
                                        : range->updaters;
  if (!is_block || !(may & bit)) {
    access_accuse(op, is_write, PTX_FORBIDDEN, range->name);
    return false;
  }
  return true;
}

// Whether access and past are morally strong.
static bool past_matches(const struct operation *op, const struct past *p) {
  if (p->order == PTX_WEAK || op->access.order == PTX_WEAK)
    return false;
  if (p->bytes != op->bytes && op->m->options.fault != PTX_FAULT_SIZES_IGNORED)
    return false;
  return ptx_scopes_match(op->m, p->agent, p->scope, op->agent, op->access.scope);
}

static void race_accuse(const struct operation *op, bool is_write, const struct past *p) {
  struct ptx_accusation accusation = {.offence = PTX_RACE,
                                      .now = operation_party(op, is_write),
                                      .other = {.where = p->where,
                                                .device = op->m->agents[p->agent].device,
                                                .address = op->granule->address,
                                                .order = p->order,
                                                .scope = p->scope,
                                                .is_write = p->is_write}};
  accusation.other.address += (uint32_t)__builtin_ctz(p->bytes);
  accusation.other.bytes = (uint32_t)__builtin_popcount(p->bytes);
  accusation_report(op, &accusation);
}

static bool past_is_alike(const struct operation *op, bool is_write, const struct past *p) {
  return p->agent == op->agent && p->is_write == is_write && p->order == op->access.order &&
         p->scope == op->access.scope;
}

// Whether every later access that races with `p` races with the operation too.
static bool past_is_covered(const struct operation *op, bool is_write, uint16_t bytes,
                            const struct past *p) {
  return op->access.order == PTX_WEAK && (is_write || !p->is_write) && !(p->bytes & ~bytes) &&
         ptx_operation_knows(op, p->agent, p->lanes, p->clock);
}

// Forgets what the operation, which accesses or has lately accessed `bytes`, replaces.
static void pasts_replace(const struct operation *op, bool is_write, uint16_t bytes,
                          const struct past *kept) {
  struct granule *g = op->granule;
  uint32_t count = 0;
  for (uint32_t i = 0; i < g->past_count; i++) {
    struct past *p = &g->pasts[i];
    if (p != kept && past_is_covered(op, is_write, bytes, p))
      p->lanes = 0;
    if (p != kept && past_is_alike(op, is_write, p) && !(p->bytes & ~bytes) &&
        (p->bytes == bytes || p->order == PTX_WEAK))
      p->lanes &= ~(1u << op->lane);
    if (p->lanes)
      g->pasts[count++] = *p;
  }
  op->m->kept -= g->past_count - count;
  g->past_count = count;
}

// Adds the operation to an access like it at the same clock, or as a new one.
static void past_add(const struct operation *op, bool is_write) {
  struct granule *g = op->granule;
  for (uint32_t i = 0; i < g->past_count; i++) {
    struct past *p = &g->pasts[i];
    if (!past_is_alike(op, is_write, p) || p->clock != op->clock)
      continue;
    if (p->bytes == op->bytes && (p->lanes >> op->lane & 1))
      return;
    if (p->bytes == op->bytes) {
      p->lanes |= 1u << op->lane;
      p->where = op->where;
      pasts_replace(op, is_write, op->bytes, p);
      return;
    }
    if (p->order == PTX_WEAK && p->lanes == 1u << op->lane) {
      p->bytes |= op->bytes;
      pasts_replace(op, is_write, p->bytes, p);
      return;
    }
  }
  pasts_replace(op, is_write, op->bytes, NULL);
  RESERVE_ONE(g->pasts, g->past_count, g->past_capacity);
  g->pasts[g->past_count++] = (struct past){.where = op->where,
                                            .agent = op->agent,
                                            .lanes = 1u << op->lane,
                                            .clock = op->clock,
                                            .bytes = op->bytes,
                                            .order = op->access.order,
                                            .scope = op->access.scope,
                                            .is_write = is_write};
  op->m->kept++;
}

void ptx_race_check(const struct operation *op, bool is_write) {
  const struct granule *g = op->granule;
  for (uint32_t i = 0; i < g->past_count; i++) {
    const struct past *p = &g->pasts[i];
    if (!(p->bytes & op->bytes) || !(is_write || p->is_write) || past_matches(op, p) ||
        ptx_operation_knows(op, p->agent, p->lanes, p->clock))
      continue;
    if (p->is_write || op->m->options.fault != PTX_FAULT_READS_FORGOTTEN)
      race_accuse(op, is_write, p);
  }
  past_add(op, is_write);
}

static const char *order_name(const struct ptx_party *party) {
  static const char *const names[] = {"weak", "relaxed", "acquire", "release", "acq_rel", "sc"};
  return names[party->order];
}

static void party_text(const struct ptx_party *p, char *text, size_t bytes) {
  static const char *const scopes[] = {".cta", ".gpu", ".sys"};
  const struct ptx_where *w = &p->where;
  char by[128];
  if (p->device == PTX_CPU)
    snprintf(by, sizeof by, "line %" PRIu32 ", program + 0x%" PRIx32 ", on the CPU", w->line,
             w->text_line);
  else
    snprintf(by, sizeof by,
             "line %" PRIu32 ", PTX line %" PRIu32 ", block %" PRIu32 ", thread %" PRIu32
             " of device %" PRIu32,
             w->line, w->text_line, w->block, w->thread, p->device);
  snprintf(text, bytes, "%s of %" PRIu32 " bytes at 0x%" PRIx64 " (%s%s) by %s %s",
           p->is_write ? "write" : "read", p->bytes, p->address, order_name(p),
           p->order == PTX_WEAK ? "" : scopes[p->scope], w->kernel ? w->kernel : "?", by);
}

void ptx_accusation_text(const struct ptx_accusation *accusation, char *text, size_t bytes) {
  static const char *const offences[] = {"race", "misaligned", "outside of all memory",
                                         "no right to access"};
  char now[256], other[256] = "";
  party_text(&accusation->now, now, sizeof now);
  if (accusation->offence == PTX_RACE)
    party_text(&accusation->other, other, sizeof other);
  else if (accusation->range)
    snprintf(other, sizeof other, "%s", accusation->range);
  snprintf(text, bytes, "%s: %s%s%s", offences[accusation->offence], now,
           accusation->offence == PTX_RACE ? "; earlier: "
           : other[0]                      ? " in "
                                           : "",
           other);
}
