// Instructions that use memory.
#include <inttypes.h>
#include <string.h>

#include "tests/support/ptx/ptx_exec.h"

typedef uint64_t pair_t __attribute__((vector_size(16)));

// --------------------------------------------------------------------- where ---

// The address that a lane uses; `r` holds it before the offset of the instruction is added.
static uint64_t lane_address(const struct ptx_warp *w, const struct ptx_instr *i, uint32_t r,
                             uint32_t lane) {
  const uint64_t address = ptx_element_read(ptx_operand(w, r), i->use.address_bytes, lane);
  return address + (uint64_t)i->offset;
}

static bool span_holds(const struct ptx_span *s, uint64_t address, uint32_t bytes, bool is_write) {
  return address >= s->begin && address < s->end && bytes <= s->end - address &&
         (s->is_writable || !is_write);
}

// Whether the kernel may use global memory there. Spans are remembered by page.
static bool global_is_allowed(struct ptx_block *b, uint64_t address, uint32_t bytes,
                              bool is_write) {
  const struct ptx_options *o = b->launch.options;
  struct ptx_span *s = &b->spans[address >> 12 & (PTX_SPANS - 1)];
  if (!o->find_span)
    return true;
  if (o->span_changes) {
    const uint32_t version = __atomic_load_n(o->span_changes, __ATOMIC_ACQUIRE);
    if (version != b->spans_version)
      memset(b->spans, 0, sizeof b->spans);
    b->spans_version = version;
  }
  if (span_holds(s, address, bytes, is_write))
    return true;
  return o->find_span(o->arg, address, s) && span_holds(s, address, bytes, is_write);
}

enum ptx_at ptx_address_at(struct ptx_block *b, uint64_t address, uint32_t bytes, bool is_write) {
  const bool is_known =
      b->launch.options->find_span && global_is_allowed(b, address, bytes, is_write);
  return is_known ? b->spans[address >> 12 & (PTX_SPANS - 1)].at : PTX_AT_OWN;
}

static uint8_t *shared_find(struct ptx_block *b, uint64_t offset, uint32_t bytes) {
  return offset < b->shared_bytes && bytes <= b->shared_bytes - offset ? b->shared + offset : NULL;
}

static bool is_shared(const struct ptx_block *b, const void *at) {
  return (const uint8_t *)at >= b->shared && (const uint8_t *)at < b->shared + b->shared_bytes;
}

static const char *place_name(enum ptx_space space) {
  return space == PTX_SHARED ? "shared memory" : space == PTX_PARAM ? "the parameters" : "memory";
}

// The memory of the host behind an address, or null: accused.
static void *lane_place(struct ptx_warp *w, const struct ptx_instr *i, uint64_t address,
                        uint32_t lane, bool is_write) {
  struct ptx_block *b = w->block;
  const uint32_t bytes = (uint32_t)i->use.bytes * (i->use.count ? i->use.count : 1);
  const enum ptx_space space = (enum ptx_space)i->use.space;
  const uint64_t window = address - (uintptr_t)b->shared;
  uint8_t *at = NULL;
  if (address % bytes) {
    ptx_accuse(w, lane, "uses %u bytes at 0x%" PRIx64 ", which is no multiple of %u", bytes,
               address, bytes);
    return NULL;
  }
  if (space == PTX_PARAM)
    at = address < b->launch.kernel->param_bytes && bytes <= b->launch.kernel->param_bytes - address
             ? b->params + address
             : NULL;
  else if (space == PTX_SHARED)
    at = shared_find(b, address - PTX_SHARED_BASE, bytes);
  else if (window < b->shared_bytes)
    at = space == PTX_GENERIC ? shared_find(b, window, bytes) : NULL;
  else if (global_is_allowed(b, address, bytes, is_write))
    at = (uint8_t *)(uintptr_t)address; // NOLINT(performance-no-int-to-ptr)
  if (!at)
    ptx_accuse(w, lane, "%s %u bytes at 0x%" PRIx64 " of %s, which it may not",
               is_write ? "writes" : "reads", bytes, address, place_name(space));
  return at;
}

// ------------------------------------------------------------------ unset values --

// A lane uses a register that was never set in a way that others see.
static bool unset_accuse(struct ptx_warp *w, uint32_t r, uint32_t lane, const char *use) {
  if (!ptx_is_unset(w, r, lane))
    return false;
  ptx_accuse(w, lane, "uses a value that was never written %s", use);
  return true;
}

static void unset_mark(struct ptx_warp *w, uint32_t r, uint32_t lane, bool is_unset) {
  uint32_t *mask = &w->unset[r / PTX_SLOT_BYTES];
  *mask = (*mask & ~(1u << lane)) | (uint32_t)is_unset << lane;
}

// What a load of shared memory says of its registers.
static void unset_load(struct ptx_warp *w, const struct ptx_instr *i, const uint8_t *at,
                       uint32_t lane) {
  const struct ptx_block *b = w->block;
  for (uint32_t k = 0; k < i->use.count; k++) {
    bool is_unset = false;
    for (uint32_t n = 0; n < i->use.bytes && is_shared(b, at); n++)
      is_unset |= b->shared_unset[at - b->shared + k * i->use.bytes + n] != 0;
    if (i->r[k] != PTX_NO_REGISTER)
      unset_mark(w, i->r[k], lane, is_unset);
  }
}

static bool unset_store(struct ptx_warp *w, const struct ptx_instr *i, const uint8_t *at,
                        uint32_t lane) {
  const struct ptx_block *b = w->block;
  for (uint32_t k = 0; k < i->use.count; k++) {
    const bool is_unset = ptx_is_unset(w, i->r[1 + k], lane);
    if (is_shared(b, at))
      memset(b->shared_unset + (at - b->shared) + (size_t)k * i->use.bytes, is_unset, i->use.bytes);
    else if (unset_accuse(w, i->r[1 + k], lane, "as a value to store"))
      return true;
  }
  return false;
}

// ------------------------------------------------------------------ scripted mode --

static struct ptx_where lane_where(const struct ptx_warp *w, const struct ptx_instr *i,
                                   uint32_t lane) {
  const struct ptx_kernel *k = w->block->launch.kernel;
  const struct ptx_line *line = &k->lines[i - k->code];
  return (struct ptx_where){k->name, line->source, line->text, w->block->index,
                            w->index * PTX_WARP + lane};
}

static struct ptx_access element_access(const struct ptx_instr *i, const void *at, bool is_whole) {
  return (struct ptx_access){.address = (uintptr_t)at,
                             .bytes = i->use.bytes,
                             .order = (enum ptx_order)i->use.order,
                             .scope = (enum ptx_scope)i->use.scope,
                             .is_whole = is_whole};
}

#define WHOLE_BYTES 128u

// Whether the lanes of the group access all of the 128 bytes that this one has a part of.
static bool lane_is_of_whole(const struct ptx_warp *w, const struct ptx_instr *i, uint32_t r,
                             uint32_t lane) {
  const uint32_t bytes = (uint32_t)i->use.bytes * i->use.count;
  const uint64_t part = bytes < 64 ? (UINT64_C(1) << bytes) - 1 : UINT64_MAX;
  const uint64_t line = lane_address(w, i, r, lane) / WHOLE_BYTES;
  uint64_t covered[2] = {0, 0};
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint64_t address = lane_address(w, i, r, (uint32_t)__builtin_ctz(each));
    if (address / WHOLE_BYTES == line)
      covered[address / 64 % 2] |= part << address % 64;
  }
  return covered[0] == UINT64_MAX && covered[1] == UINT64_MAX;
}

// The lanes whose accesses are made as one (ptx_options.warp128). `r` holds the address.
static uint32_t whole_lanes(const struct ptx_warp *w, const struct ptx_instr *i, uint32_t r) {
  uint32_t lanes = 0;
  if (!w->block->launch.memory || !w->block->launch.options->warp128)
    return 0;
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    lanes |= (uint32_t)lane_is_of_whole(w, i, r, l) << l;
  }
  return lanes;
}

// ---------------------------------------------------------------- loads and stores --

static uint64_t element_load(const void *at, uint32_t bytes, bool is_acquire) {
  const int order = is_acquire ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
  switch (bytes) {
  case 1:
    return __atomic_load_n((const uint8_t *)at, order);
  case 2:
    return __atomic_load_n((const uint16_t *)at, order);
  case 4:
    return __atomic_load_n((const uint32_t *)at, order);
  default:
    return __atomic_load_n((const uint64_t *)at, order);
  }
}

static void element_store(void *at, uint32_t bytes, uint64_t value, bool is_release) {
  const int order = is_release ? __ATOMIC_RELEASE : __ATOMIC_RELAXED;
  switch (bytes) {
  case 1:
    __atomic_store_n((uint8_t *)at, (uint8_t)value, order);
    break;
  case 2:
    __atomic_store_n((uint16_t *)at, (uint16_t)value, order);
    break;
  case 4:
    __atomic_store_n((uint32_t *)at, (uint32_t)value, order);
    break;
  default:
    __atomic_store_n((uint64_t *)at, value, order);
  }
}

static uint64_t sign_extend(uint64_t value, uint32_t bytes) {
  const uint32_t unused = 64 - 8 * bytes;
  return (uint64_t)((int64_t)(value << unused) >> unused);
}

static void loaded_write(struct ptx_warp *w, const struct ptx_pending *p, uint64_t value) {
  ptx_element_write(ptx_operand(w, p->r), p->register_bytes, p->lane,
                    p->is_signed ? sign_extend(value, p->bytes) : value);
}

static bool instr_mentions(const struct ptx_instr *i, uint32_t r) {
  for (uint32_t o = 0; o < (uint32_t)i->written + i->read; o++)
    if (i->r[o] == r)
      return true;
  return false;
}

void ptx_pending_resolve(struct ptx_warp *w, const struct ptx_instr *i, uint32_t mask) {
  uint32_t kept = 0;
  for (uint32_t n = 0; n < w->pending_count; n++) {
    const struct ptx_pending p = w->pending[n];
    if ((mask >> p.lane & 1u) && (!i || instr_mentions(i, p.r))) {
      uint64_t value = 0;
      ptx_memory_resolve(w->block->launch.memory, p.ticket, &value);
      loaded_write(w, &p, value);
    } else {
      w->pending[kept++] = p;
    }
  }
  w->pending_count = kept;
}

// An element of a load of a scripted run. Its value may be chosen later.
static void element_load_scripted(struct ptx_warp *w, const struct ptx_instr *i, const void *at,
                                  struct ptx_pending *p, bool is_whole) {
  const struct ptx_where where = lane_where(w, i, p->lane);
  const struct ptx_access a = element_access(i, at, is_whole);
  uint64_t value = 0;
  if (a.order <= PTX_RELAXED && !is_whole && w->pending_count < PTX_MAX_PENDING) {
    p->ticket = ptx_memory_load_later(w->block->launch.memory, w->agent, p->lane, &a, &where);
    w->pending[w->pending_count++] = *p;
    return;
  }
  ptx_memory_load(w->block->launch.memory, w->agent, p->lane, &a, &value, &where);
  loaded_write(w, p, value);
}

static void lane_load(struct ptx_warp *w, const struct ptx_instr *i, const uint8_t *at,
                      uint32_t lane, bool is_whole) {
  const struct ptx_use u = i->use;
  const bool is_pair = u.bytes * u.count == 16; // as the hardware does it
  const pair_t pair = is_pair ? *(const volatile pair_t *)(const void *)at : (pair_t){0, 0};
  for (uint32_t k = 0; k < u.count; k++) {
    const uint8_t *element = at + (size_t)k * u.bytes;
    struct ptx_pending p = {0, i->r[k], (uint8_t)lane, u.bytes, u.register_bytes, u.is_signed};
    uint64_t value = 0;
    if (i->r[k] == PTX_NO_REGISTER)
      continue;
    if (w->pending && u.space != PTX_PARAM) {
      element_load_scripted(w, i, element, &p, is_whole);
      continue;
    }
    if (is_pair)
      memcpy(&value, (const uint8_t *)&pair + (size_t)k * u.bytes, u.bytes);
    else
      value = element_load(element, u.bytes, u.order == PTX_ACQUIRE);
    loaded_write(w, &p, value);
  }
}

void ptx_run_load(struct ptx_warp *w, const struct ptx_instr *i) {
  const uint32_t whole = whole_lanes(w, i, i->r[i->use.count]);
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    if (w->unset && unset_accuse(w, i->r[i->use.count], l, "as an address"))
      return;
    const uint8_t *at = lane_place(w, i, lane_address(w, i, i->r[i->use.count], l), l, false);
    if (!at)
      return;
    lane_load(w, i, at, l, whole >> l & 1u);
    if (w->unset)
      unset_load(w, i, at, l);
  }
}

static void lane_store(struct ptx_warp *w, const struct ptx_instr *i, uint8_t *at, uint32_t lane,
                       bool is_whole) {
  const struct ptx_use u = i->use;
  uint64_t values[PTX_MAX_REGISTERS];
  for (uint32_t k = 0; k < u.count; k++)
    values[k] = ptx_element_read(ptx_operand(w, i->r[1 + k]), u.register_bytes, lane);
  if (w->block->launch.memory) {
    const struct ptx_where where = lane_where(w, i, lane);
    for (uint32_t k = 0; k < u.count; k++) {
      const struct ptx_access a = element_access(i, at + (size_t)k * u.bytes, is_whole);
      ptx_memory_store(w->block->launch.memory, w->agent, lane, &a, &values[k], &where);
    }
  } else if (u.bytes * u.count == 16) {
    pair_t whole;
    for (uint32_t k = 0; k < u.count; k++)
      memcpy((uint8_t *)&whole + (size_t)k * u.bytes, &values[k], u.bytes);
    *(volatile pair_t *)(void *)at = whole;
  } else {
    for (uint32_t k = 0; k < u.count; k++)
      element_store(at + (size_t)k * u.bytes, u.bytes, values[k], u.order == PTX_RELEASE);
  }
}

void ptx_run_store(struct ptx_warp *w, const struct ptx_instr *i) {
  const uint32_t whole = whole_lanes(w, i, i->r[0]);
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    if (w->unset && unset_accuse(w, i->r[0], l, "as an address"))
      return;
    uint8_t *at = lane_place(w, i, lane_address(w, i, i->r[0], l), l, true);
    if (!at || (w->unset && unset_store(w, i, at, l)))
      return;
    lane_store(w, i, at, l, whole >> l & 1u);
  }
  w->idle_steps = 0;
}

// -------------------------------------------------------------------- updates --

// What an update makes of the value that is there. False: nothing is written.
typedef bool update_fn(const struct ptx_use *use, uint64_t *value, uint64_t a, uint64_t b);

struct update {
  update_fn *make;
  const struct ptx_use *use;
  uint64_t a, b;
  uint64_t old;
};

static bool update_make(void *arg, void *bytes) {
  struct update *u = arg;
  memcpy(&u->old, bytes, u->use->bytes);
  uint64_t value = u->old;
  const bool writes = u->make(u->use, &value, u->a, u->b);
  if (writes)
    memcpy(bytes, &value, u->use->bytes);
  return writes;
}

#define UPDATE_IN_PLACE(bits)                                                                      \
  static void update_##bits(struct update *u, uint##bits##_t *at) {                                \
    uint##bits##_t old = __atomic_load_n(at, __ATOMIC_RELAXED);                                    \
    for (;;) {                                                                                     \
      uint64_t value = old;                                                                        \
      const bool writes = u->make(u->use, &value, u->a, u->b);                                     \
      const uint##bits##_t wanted = writes ? (uint##bits##_t)value : old;                          \
      if (__atomic_compare_exchange_n(at, &old, wanted, false, __ATOMIC_SEQ_CST,                   \
                                      __ATOMIC_SEQ_CST))                                           \
        break;                                                                                     \
    }                                                                                              \
    u->old = old;                                                                                  \
  }
UPDATE_IN_PLACE(32)
UPDATE_IN_PLACE(64)

static void lane_update(struct ptx_warp *w, const struct ptx_instr *i, struct update *u, void *at,
                        uint32_t lane) {
  if (w->block->launch.memory) {
    const struct ptx_where where = lane_where(w, i, lane);
    struct ptx_access a = element_access(i, at, false);
    const struct ptx_update update = {.apply = update_make, .arg = u};
    a.is_reduction = i->use.count == 0;
    ptx_memory_update(w->block->launch.memory, w->agent, lane, &a, &update, &where);
  } else if (i->use.bytes == 4) {
    update_32(u, at);
  } else {
    update_64(u, at);
  }
}

static void update_run(struct ptx_warp *w, const struct ptx_instr *i, update_fn *make) {
  const uint32_t bytes = i->use.bytes;
  for (uint32_t each = w->mask; each; each &= each - 1) {
    const uint32_t l = (uint32_t)__builtin_ctz(each);
    struct update u = {.make = make, .use = &i->use};
    if (w->unset && (unset_accuse(w, i->r[1], l, "as an address") ||
                     unset_accuse(w, i->r[2], l, "in an atomic update") ||
                     (i->read == 3 && unset_accuse(w, i->r[3], l, "in an atomic update"))))
      return;
    void *at = lane_place(w, i, lane_address(w, i, i->r[1], l), l, true);
    if (!at)
      return;
    u.a = ptx_element_read(ptx_operand(w, i->r[2]), bytes, l);
    u.b = i->read == 3 ? ptx_element_read(ptx_operand(w, i->r[3]), bytes, l) : 0;
    lane_update(w, i, &u, at, l);
    ptx_element_write(ptx_operand(w, i->r[0]), bytes, l, u.old);
    if (w->unset)
      unset_mark(w, i->r[0], l, false);
  }
  w->idle_steps = 0;
}

static bool update_cas(const struct ptx_use *use, uint64_t *value, uint64_t a, uint64_t b) {
  (void)use;
  if (*value != a)
    return false;
  *value = b;
  return true;
}

static bool is_less(const struct ptx_use *use, uint64_t a, uint64_t b) {
  if (!use->is_signed)
    return a < b;
  return (int64_t)sign_extend(a, use->bytes) < (int64_t)sign_extend(b, use->bytes);
}

#define UPDATE(name, result)                                                                       \
  static bool update_##name(const struct ptx_use *use, uint64_t *value, uint64_t a, uint64_t b) {  \
    const uint64_t old = *value;                                                                   \
    (void)use;                                                                                     \
    (void)b;                                                                                       \
    (void)old;                                                                                     \
    *value = (result);                                                                             \
    return true;                                                                                   \
  }                                                                                                \
  void ptx_run_##name(struct ptx_warp *w, const struct ptx_instr *i) {                             \
    update_run(w, i, update_##name);                                                               \
  }
UPDATE(exchange, a)
UPDATE(fetch_add, old + a)
UPDATE(fetch_and, old &a)
UPDATE(fetch_or, old | a)
UPDATE(fetch_xor, old ^ a)
UPDATE(fetch_min, is_less(use, a, old) ? a : old)
UPDATE(fetch_max, is_less(use, old, a) ? a : old)

void ptx_run_cas(struct ptx_warp *w, const struct ptx_instr *i) { update_run(w, i, update_cas); }

void ptx_run_fence(struct ptx_warp *w, const struct ptx_instr *i) {
  if (!w->block->launch.memory)
    __atomic_thread_fence(i->use.order == PTX_SC ? __ATOMIC_SEQ_CST : __ATOMIC_ACQ_REL);
  for (uint32_t each = w->block->launch.memory ? w->mask : 0; each; each &= each - 1)
    ptx_memory_fence(w->block->launch.memory, w->agent, (uint32_t)__builtin_ctz(each),
                     (enum ptx_order)i->use.order, (enum ptx_scope)i->use.scope);
}

// -------------------------------------------------------------------- windows --

void ptx_run_from_shared(struct ptx_warp *w, const struct ptx_instr *i) {
  const uint64_t base = (uintptr_t)w->block->shared - PTX_SHARED_BASE;
  uint64_t *to = ptx_operand(w, i->r[0]);
  const uint64_t *from = ptx_operand(w, i->r[1]);
  PTX_EACH_LANE(w, to[l] = from[l] + base);
}

void ptx_run_to_shared(struct ptx_warp *w, const struct ptx_instr *i) {
  const uint64_t base = (uintptr_t)w->block->shared - PTX_SHARED_BASE;
  uint64_t *to = ptx_operand(w, i->r[0]);
  const uint64_t *from = ptx_operand(w, i->r[1]);
  PTX_EACH_LANE(w, to[l] = from[l] - base);
}

void ptx_run_is_shared(struct ptx_warp *w, const struct ptx_instr *i) {
  const struct ptx_block *b = w->block;
  uint32_t *to = ptx_operand(w, i->r[0]), bits = 0;
  const uint64_t *from = ptx_operand(w, i->r[1]);
  PTX_EACH_LANE(w, bits |= (uint32_t)(from[l] - (uintptr_t)b->shared < b->shared_bytes) << l);
  *to = (*to & ~w->mask) | bits;
}
