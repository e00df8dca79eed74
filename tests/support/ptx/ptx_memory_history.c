// The writes of each location, in coherence order.
#include "tests/support/ptx/ptx_memory_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t bucket_of(const struct ptx_memory *m, uint64_t address) {
  return (uint32_t)(random_mix(address / GRANULE_BYTES) & (m->bucket_count - 1));
}

static void buckets_grow(struct ptx_memory *m) {
  uint32_t old_count = m->bucket_count;
  struct granule **old = m->buckets;
  m->bucket_count = old_count ? 4 * old_count : 64;
  m->buckets = ptx_allocate(m->bucket_count * sizeof(struct granule *));
  memset(m->buckets, 0, m->bucket_count * sizeof(struct granule *));
  for (uint32_t i = 0; i < old_count; i++) {
    for (struct granule *g = old[i], *next; g; g = next) {
      next = g->next;
      struct granule **bucket = &m->buckets[bucket_of(m, g->address)];
      g->next = *bucket;
      *bucket = g;
    }
  }
  free(old);
}

static struct granule *granule_find(struct ptx_memory *m, uint64_t address) {
  if (m->last && m->last->address == address)
    return m->last;
  if (m->granule_count >= m->bucket_count)
    buckets_grow(m);
  struct granule **bucket = &m->buckets[bucket_of(m, address)];
  struct granule *g = *bucket;
  while (g && g->address != address)
    g = g->next;
  if (!g) {
    g = ptx_allocate(sizeof *g);
    *g = (struct granule){.address = address, .next = *bucket};
    *bucket = g;
    m->granule_count++;
  }
  m->last = g;
  return g;
}

void ptx_granule_forget(struct ptx_memory *m, uint64_t address) {
  struct granule *g = m->bucket_count ? m->buckets[bucket_of(m, address)] : NULL;
  while (g && g->address != address)
    g = g->next;
  if (g)
    ptx_granule_destroy(m, g);
}

struct granule *ptx_granule_of(struct ptx_memory *m, uint64_t address, uint16_t bytes) {
  uint64_t base = address & ~(uint64_t)(GRANULE_BYTES - 1);
  struct granule *g = granule_find(m, base);
  uint16_t missing = (uint16_t)(bytes & ~g->initial_known);
  // Bytes that nobody accesses may lie outside of what the process has.
  for (uint32_t i = 0; missing && i < GRANULE_BYTES; i++)
    if (missing >> i & 1)
      g->initial[i] = ((const uint8_t *)(uintptr_t)base)[i];
  g->initial_known |= missing;
  g->initial_live |= missing;
  return g;
}

void ptx_releases_drop(struct releases *releases) {
  if (!releases || --releases->references)
    return;
  for (uint32_t i = 0; i < releases->count; i++)
    ptx_view_drop(releases->items[i].view);
  free(releases);
}

static void write_drop(struct ptx_memory *m, struct write *w) {
  ptx_view_drop(w->own.view);
  ptx_releases_drop(w->releases);
  m->kept--;
}

void ptx_granule_destroy(struct ptx_memory *m, struct granule *g) {
  struct granule **at = &m->buckets[bucket_of(m, g->address)];
  while (*at != g)
    at = &(*at)->next;
  *at = g->next;
  m->granule_count--;
  if (m->last == g)
    m->last = NULL;
  for (uint32_t i = 0; i < g->write_count; i++)
    write_drop(m, &g->writes[i]);
  m->kept -= g->past_count;
  free(g->writes);
  free(g->sights);
  free(g->pasts);
  free(g);
}

bool ptx_operation_knows(const struct operation *op, uint32_t agent, uint32_t lanes,
                         uint32_t clock) {
  if (agent == op->agent)
    lanes &= ~(1u << op->lane);
  return ptx_view_knows(op->view, agent, lanes, clock);
}

bool ptx_operation_matches(const struct operation *op, const struct write *w) {
  if (w->bytes != op->bytes)
    return false;
  if (w->agent == op->agent && w->lane == op->lane)
    return true;
  return w->order != PTX_WEAK && op->access.order != PTX_WEAK &&
         ptx_scopes_match(op->m, w->agent, w->scope, op->agent, op->access.scope);
}

// Whether the operation comes after one of the reads.
static bool sight_is_known(const struct operation *op, const struct sight *s) {
  for (uint32_t lanes = s->lanes; lanes; lanes &= lanes - 1)
    if (ptx_operation_knows(op, s->agent, lanes & -lanes, s->clock))
      return true;
  return false;
}

// Whether the write hides older ones from the operation.
static bool write_is_known(const struct operation *op, const struct write *w) {
  if (ptx_operation_knows(op, w->agent, 1u << w->lane, w->clock))
    return true;
  const struct granule *g = op->granule;
  for (uint32_t i = 0; i < g->sight_count; i++)
    if (g->sights[i].serial == w->serial && sight_is_known(op, &g->sights[i]))
      return true;
  return false;
}

int64_t ptx_history_at(const struct operation *op, int64_t index) {
  while (index >= 0 && !(op->granule->writes[index].live & op->bytes))
    index--;
  return index;
}

int64_t ptx_history_oldest(const struct operation *op) {
  const struct granule *g = op->granule;
  int64_t oldest = ptx_history_at(op, (int64_t)g->write_count - 1);
  while (oldest >= 0 && !write_is_known(op, &g->writes[oldest]))
    oldest = ptx_history_at(op, oldest - 1);
  // Bytes whose older writes have been dropped are found in a newer one.
  uint16_t found = g->initial_live;
  for (int64_t i = 0; i < g->write_count && (i <= oldest || (op->bytes & ~found)); i++) {
    found |= g->writes[i].live;
    if (i > oldest)
      oldest = i;
  }
  return oldest;
}

void ptx_history_value(const struct operation *op, int64_t index, void *value) {
  const struct granule *g = op->granule;
  uint32_t first = (uint32_t)(op->access.address % GRANULE_BYTES);
  uint16_t missing = op->bytes;
  memcpy(value, g->initial + first, op->access.bytes);
  for (int64_t i = index; i >= 0 && missing; i--) {
    const struct write *w = &g->writes[i];
    for (uint32_t b = 0; (w->live & missing) && b < op->access.bytes; b++)
      if ((w->live & missing) >> (first + b) & 1)
        ((uint8_t *)value)[b] = w->value[first + b];
    missing &= (uint16_t)~w->live;
  }
}

// Whether the write of this serial, which may be the initial value or a write that was dropped,
// comes before the write `index`.
static bool write_is_before(const struct granule *g, uint64_t serial, uint32_t index) {
  for (uint32_t i = index; i < g->write_count; i++)
    if (g->writes[i].serial == serial)
      return false;
  return true;
}

// No write comes between an update and the write that it has read, except one that is not morally
// strong with the update.
bool ptx_history_allows(const struct operation *op, uint32_t index) {
  const struct granule *g = op->granule;
  for (uint32_t i = index; i < g->write_count; i++) {
    const struct write *w = &g->writes[i];
    bool is_free = w->bytes == op->bytes && !ptx_operation_matches(op, w);
    if (w->is_update && (w->bytes & op->bytes) && !is_free && write_is_before(g, w->source, index))
      return op->m->options.fault == PTX_FAULT_NOT_ATOMIC;
  }
  return true;
}

static void sights_forget(struct granule *g, uint64_t serial) {
  for (uint32_t i = 0; i < g->sight_count;) {
    if (g->sights[i].serial == serial)
      g->sights[i] = g->sights[--g->sight_count];
    else
      i++;
  }
}

// No load can read the bytes of the write `index` from an older one any more.
static void history_forget_before(struct ptx_memory *m, struct granule *g, uint32_t index) {
  uint16_t bytes = g->writes[index].live;
  uint32_t kept = 0;
  g->initial_live &= (uint16_t)~bytes;
  for (uint32_t i = 0; i < g->write_count; i++) {
    if (i < index)
      g->writes[i].live &= (uint16_t)~bytes;
    if (g->writes[i].live) {
      g->writes[kept++] = g->writes[i];
    } else {
      sights_forget(g, g->writes[i].serial);
      write_drop(m, &g->writes[i]);
    }
  }
  g->write_count = kept;
}

// A load that may still return a write older than a weak write races with the weak write. One
// older write is enough to show that, so histories of payload stay short.
static void history_cap(const struct operation *op) {
  struct granule *g = op->granule;
  uint32_t most = op->access.order == PTX_WEAK ? 2 : op->m->options.history, count = 0;
  for (uint32_t i = g->write_count; i-- > 0;)
    if ((g->writes[i].live & op->bytes) && ++count == most) {
      history_forget_before(op->m, g, i);
      return;
    }
}

void ptx_history_insert(const struct operation *op, uint32_t index, const void *value,
                        const struct write *made) {
  struct granule *g = op->granule;
  RESERVE_ONE(g->writes, g->write_count, g->write_capacity);
  memmove(&g->writes[index + 1], &g->writes[index], (g->write_count - index) * sizeof *g->writes);
  struct write *w = &g->writes[index];
  *w = (struct write){.serial = op->m->next_serial++,
                      .bytes = op->bytes,
                      .live = op->bytes,
                      .agent = op->agent,
                      .lane = op->lane,
                      .clock = op->clock,
                      .order = op->access.order,
                      .scope = op->access.scope,
                      .is_update = made->is_update,
                      .source = made->source,
                      .own = made->own,
                      .releases = made->releases};
  uint32_t first = (uint32_t)(op->access.address % GRANULE_BYTES);
  memcpy(w->value + first, value, op->access.bytes);
  g->write_count++;
  op->m->kept++;
  uint8_t newest[GRANULE_BYTES];
  ptx_history_value(op, (int64_t)g->write_count - 1, newest);
  memcpy((void *)(uintptr_t)op->access.address, newest, op->access.bytes);
  history_cap(op);
}

void ptx_history_take_noted(struct ptx_memory *m) {
  for (uint64_t at = m->noted; at < m->noted + m->noted_bytes; at++) {
    struct granule *g = granule_find(m, at & ~(uint64_t)(GRANULE_BYTES - 1));
    uint32_t byte = at % GRANULE_BYTES, i = g->write_count;
    while (i && !(g->writes[i - 1].live >> byte & 1))
      i--;
    if (i)
      g->writes[i - 1].value[byte] = *(const uint8_t *)(uintptr_t)at;
  }
  m->noted_bytes = 0;
}

void ptx_history_see(const struct operation *op, uint32_t index) {
  struct granule *g = op->granule;
  const struct write *w = &g->writes[index];
  if (op->m->options.fault == PTX_FAULT_NO_COHERENCE || write_is_known(op, w))
    return;
  for (uint32_t i = 0; i < g->sight_count; i++) {
    struct sight *s = &g->sights[i];
    if (s->serial == w->serial && s->agent == op->agent && s->clock == op->clock) {
      s->lanes |= 1u << op->lane;
      return;
    }
  }
  RESERVE_ONE(g->sights, g->sight_count, g->sight_capacity);
  g->sights[g->sight_count++] = (struct sight){w->serial, op->agent, 1u << op->lane, op->clock};
}

// What every lane that may access memory knows, delayed loads included. The caller drops it.
static struct ptx_view *memory_floor(struct ptx_memory *m) {
  struct ptx_view *floor = NULL;
  bool is_first = true;
  for (uint32_t a = 0; a < m->agent_count; a++) {
    const struct agent *agent = &m->agents[a];
    for (uint32_t l = 0; l < agent->lane_count; l++) {
      if (!agent->lanes[l].is_active)
        continue;
      struct ptx_view *known = ptx_lane_release(m, a, l);
      struct ptx_view *common = is_first ? ptx_view_hold(known) : ptx_view_common(floor, known);
      ptx_view_drop(known);
      ptx_view_drop(floor);
      floor = common;
      is_first = false;
    }
  }
  for (uint32_t t = 0; t < m->ticket_count; t++) {
    if (!m->tickets[t].is_waiting)
      continue;
    struct ptx_view *common = ptx_view_common(floor, m->tickets[t].operation.view);
    ptx_view_drop(floor);
    floor = common;
  }
  return floor;
}

// Whether every lane knows the write and all that it releases.
static bool write_is_settled(const struct write *w, const struct ptx_view *floor) {
  if (!ptx_view_knows(floor, w->agent, 1u << w->lane, w->clock))
    return false;
  for (uint32_t i = 0; w->releases && i < w->releases->count; i++)
    if (!ptx_view_includes(floor, w->releases->items[i].view))
      return false;
  return ptx_view_includes(floor, w->own.view);
}

static void granule_sweep(struct ptx_memory *m, struct granule *g, const struct ptx_view *floor) {
  for (uint32_t i = g->write_count; i-- > 0;) {
    const struct write *w = &g->writes[i];
    if (!ptx_view_knows(floor, w->agent, 1u << w->lane, w->clock))
      continue;
    uint64_t serial = w->serial;
    history_forget_before(m, g, i);
    // Older writes went, so this one has moved.
    for (i = g->write_count - 1; g->writes[i].serial != serial;)
      i--;
  }
  for (uint32_t i = 0; i < g->past_count;) {
    const struct past *p = &g->pasts[i];
    if (ptx_view_knows(floor, p->agent, p->lanes, p->clock)) {
      g->pasts[i] = g->pasts[--g->past_count];
      m->kept--;
    } else {
      i++;
    }
  }
  bool is_settled = g->past_count == 0;
  for (uint32_t i = 0; i < g->write_count; i++)
    is_settled = is_settled && write_is_settled(&g->writes[i], floor);
  // The process has the only value that can still be read.
  if (is_settled)
    ptx_granule_destroy(m, g);
}

#define SWEEP_LEAST 65536u

void ptx_memory_sweep(struct ptx_memory *m) {
  if (m->kept < m->sweep_at)
    return;
  struct ptx_view *floor = memory_floor(m);
  for (uint32_t i = 0; i < m->bucket_count; i++)
    for (struct granule *g = m->buckets[i], *next; g; g = next) {
      next = g->next;
      granule_sweep(m, g, floor);
    }
  ptx_view_drop(floor);
  m->sweep_at = 2 * m->kept > SWEEP_LEAST ? 2 * m->kept : SWEEP_LEAST;
}
