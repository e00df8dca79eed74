// Loads, stores and updates: which write a load reads, and where a store is placed.
#include "tests/support/ptx/ptx_memory_internal.h"

#include <string.h>

// An access with PTX_SC is a fence.sc before an access with the strongest order that it can have.
static void operation_start(struct operation *op, const struct ptx_where *where,
                            enum ptx_order strongest) {
  struct ptx_memory *m = op->m;
  ptx_history_take_noted(m);
  ptx_memory_sweep(m);
  struct lane *lane = ptx_lane_use(m, op->agent, op->lane);
  if (m->agents[op->agent].device == PTX_CPU)
    op->access.scope = PTX_SYS;
  if (op->access.order == PTX_WEAK)
    op->access.scope = PTX_CTA;
  if (op->access.order == PTX_SC) {
    ptx_memory_fence(m, op->agent, op->lane, PTX_SC, op->access.scope);
    op->access.order = strongest;
  }
  bool is_release = op->access.order == PTX_RELEASE || op->access.order == PTX_ACQ_REL;
  if (lane->waiting_count)
    ptx_lane_resolve(m, op->agent, op->lane, op->access.address, is_release ? 0 : op->access.bytes);
  if (where)
    op->where = *where;
  op->view = lane->view;
  op->clock = m->agents[op->agent].clock;
}

// Finds the bytes. Returns false if the access may not be made.
static bool operation_find(struct operation *op, enum access_kind kind) {
  if (!ptx_access_check(op, kind))
    return false;
  uint32_t first = (uint32_t)(op->access.address % GRANULE_BYTES);
  op->bytes = (uint16_t)(((1u << op->access.bytes) - 1) << first);
  op->granule = ptx_granule_of(op->m, op->access.address, op->bytes);
  return true;
}

static bool operation_acquires(const struct operation *op) {
  return op->access.order == PTX_ACQUIRE || op->access.order == PTX_ACQ_REL;
}

static bool operation_releases(const struct operation *op) {
  return op->access.order == PTX_RELEASE || op->access.order == PTX_ACQ_REL;
}

// Keeps a release pattern that the lane's strong read has met for a later acquire.
static void lane_pend(const struct operation *op, const struct release *release) {
  struct lane *lane = ptx_lane_use(op->m, op->agent, op->lane);
  if (ptx_view_includes(lane->view, release->view))
    return;
  bool is_full = lane->pending_count >= 64;
  for (uint32_t i = 0; i < lane->pending_count; i++) {
    struct pending *p = &lane->pendings[i];
    bool is_here = p->address == op->access.address && p->bytes == op->access.bytes;
    if ((!is_here && !is_full) || p->release.scope != release->scope ||
        !ptx_places_equal(op->m, p->release.agent, release->agent))
      continue;
    if (!is_here)
      p->bytes = 0;
    ptx_view_learn(&p->release.view, release->view);
    return;
  }
  RESERVE_ONE(lane->pendings, lane->pending_count, lane->pending_capacity);
  lane->pendings[lane->pending_count++] =
      (struct pending){op->access.address, op->access.bytes, *release};
  ptx_view_hold(release->view);
}

// What the operation learns from the write `index`, which it has read.
static void operation_observe(struct operation *op, int64_t index) {
  index = ptx_history_at(op, index);
  if (index < 0 || op->access.order == PTX_WEAK)
    return;
  const struct write *w = &op->granule->writes[index];
  if (w->live != w->bytes || !ptx_operation_matches(op, w))
    return;
  bool is_read = !op->access.is_reduction || op->m->options.fault == PTX_FAULT_RED_ACQUIRES;
  for (uint32_t i = 0; is_read && w->releases && i < w->releases->count; i++)
    lane_pend(op, &w->releases->items[i]);
  if (is_read && operation_acquires(op)) {
    ptx_lane_acquire(op->m, op->agent, op->lane, op->access.scope, &op->access);
    op->view = ptx_lane_use(op->m, op->agent, op->lane)->view;
  }
  ptx_history_see(op, (uint32_t)index);
}

// The write up to which the operation sees the history.
static int64_t operation_choose(const struct operation *op) {
  int64_t newest = ptx_history_at(op, (int64_t)op->granule->write_count - 1);
  if (op->m->options.fault == PTX_FAULT_ALWAYS_NEWEST || op->access.is_whole ||
      !ptx_memory_departs(op->m))
    return newest;
  int64_t oldest = ptx_history_oldest(op);
  uint32_t count = 1;
  for (int64_t i = newest; i > oldest; i = ptx_history_at(op, i - 1))
    count++;
  int64_t chosen = newest;
  for (uint32_t skip = random_below(&op->m->random, count); skip && chosen > oldest; skip--)
    chosen = ptx_history_at(op, chosen - 1);
  return chosen < oldest ? oldest : chosen;
}

static void operation_digest(const struct operation *op, const void *value) {
  const uint8_t *bytes = value;
  uint64_t digest = op->m->digest ^ ((uint64_t)op->agent << 32 | op->lane);
  for (uint32_t i = 0; i < op->access.bytes; i++)
    digest = (digest ^ bytes[i]) * UINT64_C(0x100000001b3);
  op->m->digest = digest;
}

static void operation_read(struct operation *op, void *value) {
  int64_t index = operation_choose(op);
  ptx_history_value(op, index, value);
  operation_digest(op, value);
  operation_observe(op, index);
}

void ptx_memory_load(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                     const struct ptx_access *access, void *value, const struct ptx_where *where) {
  struct operation op = {.m = m, .access = *access, .agent = agent, .lane = lane};
  operation_start(&op, where, PTX_ACQUIRE);
  memset(value, 0, access->bytes);
  if (!operation_find(&op, ACCESS_LOAD))
    return;
  ptx_race_check(&op, false);
  operation_read(&op, value);
}

static void ticket_resolve(struct ptx_memory *m, uint32_t ticket) {
  struct ticket *t = &m->tickets[ticket];
  struct lane *lane = ptx_lane_use(m, t->operation.agent, t->operation.lane);
  uint32_t at = 0;
  while (lane->waiting[at] != ticket)
    at++;
  lane->waiting_count--;
  memmove(&lane->waiting[at], &lane->waiting[at + 1],
          (lane->waiting_count - at) * sizeof lane->waiting[0]);
  struct operation *op = &t->operation;
  // The granule may have been dropped and found again.
  op->granule = ptx_granule_of(m, op->access.address, op->bytes);
  operation_read(op, t->value);
  ptx_view_drop(op->view);
  t->is_waiting = false;
}

static bool operation_overlaps(const struct operation *op, uint64_t address, uint32_t bytes) {
  return op->access.address < address + bytes && address < op->access.address + op->access.bytes;
}

void ptx_lane_resolve(struct ptx_memory *m, uint32_t agent, uint32_t lane, uint64_t address,
                      uint32_t bytes) {
  struct lane *l = &m->agents[agent].lanes[lane];
  for (uint32_t i = 0; i < l->waiting_count;) {
    uint32_t ticket = l->waiting[i];
    if (bytes == 0 || operation_overlaps(&m->tickets[ticket].operation, address, bytes))
      ticket_resolve(m, ticket);
    else
      i++;
  }
}

static uint32_t ticket_take(struct ptx_memory *m) {
  uint32_t ticket = m->free_ticket;
  if (ticket != UINT32_MAX) {
    m->free_ticket = m->tickets[ticket].next_free;
    return ticket;
  }
  RESERVE_ONE(m->tickets, m->ticket_count, m->ticket_capacity);
  return m->ticket_count++;
}

uint32_t ptx_memory_load_later(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                               const struct ptx_access *access, const struct ptx_where *where) {
  uint32_t ticket = ticket_take(m);
  struct ticket *t = &m->tickets[ticket];
  *t = (struct ticket){.operation = {.m = m, .access = *access, .agent = agent, .lane = lane},
                       .is_waiting = false};
  struct operation *op = &t->operation;
  operation_start(op, where, PTX_ACQUIRE);
  if (!operation_find(op, ACCESS_LOAD))
    return ticket;
  ptx_race_check(op, false);
  bool may_wait = op->access.order == PTX_WEAK || op->access.order == PTX_RELAXED;
  if (!may_wait || m->options.fault == PTX_FAULT_NEVER_LATER || !ptx_memory_departs(m)) {
    operation_read(op, t->value);
    return ticket;
  }
  struct lane *l = ptx_lane_use(m, agent, lane);
  if (l->waiting_count == WAITING_MAX)
    ticket_resolve(m, l->waiting[0]);
  ptx_view_hold(op->view);
  t->is_waiting = true;
  l->waiting[l->waiting_count++] = ticket;
  return ticket;
}

void ptx_memory_resolve(struct ptx_memory *m, uint32_t ticket, void *value) {
  struct ticket *t = &m->tickets[ticket];
  if (t->is_waiting)
    ticket_resolve(m, ticket);
  memcpy(value, t->value, t->operation.access.bytes);
  t->next_free = m->free_ticket;
  m->free_ticket = ticket;
}

// Adds what a pattern releases, unless the set has it. Takes over no reference.
static void releases_add(const struct ptx_memory *m, struct releases **set,
                         const struct release *release) {
  uint32_t count = *set ? (*set)->count : 0;
  for (uint32_t i = 0; i < count; i++) {
    struct release *r = &(*set)->items[i];
    if (r->scope == release->scope && ptx_places_equal(m, r->agent, release->agent)) {
      ptx_view_learn(&r->view, release->view);
      return;
    }
  }
  *set = ptx_reallocate(*set, sizeof **set + (count + 1) * sizeof(*set)->items[0]);
  (*set)->references = 1;
  (*set)->count = count + 1;
  (*set)->items[count] = *release;
  ptx_view_hold(release->view);
}

// The release operation on this location that a write of the operation belongs to: the operation
// itself, or an earlier one of the same lane. The caller drops the view.
static struct release operation_own(const struct operation *op) {
  if (operation_releases(op))
    return (struct release){ptx_lane_release(op->m, op->agent, op->lane), op->agent,
                            op->access.scope};
  for (uint32_t i = op->granule->write_count; i-- > 0;) {
    const struct write *w = &op->granule->writes[i];
    if (w->agent == op->agent && w->lane == op->lane && w->bytes == op->bytes &&
        w->order != PTX_WEAK) {
      ptx_view_hold(w->own.view);
      return w->own;
    }
  }
  return (struct release){0};
}

// The release patterns that a strong write of the operation belongs to: those of the write `read`,
// which an update goes on with, the operation's own, and those of the lane's fences.
static struct releases *operation_releases_set(const struct operation *op, const struct write *read,
                                               const struct release *own) {
  const struct ptx_memory *m = op->m;
  const struct lane *lane = &m->agents[op->agent].lanes[op->lane];
  struct releases *set = NULL;
  bool goes_on =
      read && m->options.fault != PTX_FAULT_NO_SEQUENCE && ptx_operation_matches(op, read);
  for (uint32_t i = 0; goes_on && read->releases && i < read->releases->count; i++)
    releases_add(m, &set, &read->releases->items[i]);
  if (own->view)
    releases_add(m, &set, own);
  for (uint32_t s = PTX_CTA; s <= PTX_SYS; s++)
    if (lane->released[s])
      releases_add(m, &set, &(struct release){lane->released[s], op->agent, (enum ptx_scope)s});
  return set;
}

// Writes the value before the write `index`. `read` is the write that an update has read, or -1.
static void operation_write(const struct operation *op, uint32_t index, const void *value,
                            bool is_update, int64_t read) {
  const struct write *source = read < 0 ? NULL : &op->granule->writes[read];
  operation_digest(op, value);
  struct write made = {.is_update = is_update, .source = source ? source->serial : 0};
  if (op->access.order != PTX_WEAK) {
    made.own = operation_own(op);
    made.releases = operation_releases_set(op, source, &made.own);
  }
  ptx_history_insert(op, index, value, &made);
  if (operation_releases(op))
    op->m->agents[op->agent].clock++;
}

// The write before which the operation's own one is placed; the end in most cases.
static uint32_t operation_place(const struct operation *op) {
  uint32_t end = op->granule->write_count;
  if (op->m->options.fault == PTX_FAULT_ALWAYS_LAST || op->access.is_whole ||
      !ptx_memory_departs(op->m))
    return end;
  uint32_t chosen = end, count = 1;
  for (uint32_t i = (uint32_t)(ptx_history_oldest(op) + 1); i < end; i++)
    if ((op->granule->writes[i].live & op->bytes) && ptx_history_allows(op, i) &&
        random_below(&op->m->random, ++count) == 0)
      chosen = i;
  return chosen;
}

void ptx_memory_store(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                      const struct ptx_access *access, const void *value,
                      const struct ptx_where *where) {
  struct operation op = {.m = m, .access = *access, .agent = agent, .lane = lane};
  operation_start(&op, where, PTX_RELEASE);
  if (!operation_find(&op, ACCESS_STORE))
    return;
  ptx_race_check(&op, true);
  operation_write(&op, operation_place(&op), value, false, -1);
}

void ptx_memory_note_store(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                           const struct ptx_access *access, const struct ptx_where *where) {
  struct operation op = {.m = m, .access = *access, .agent = agent, .lane = lane};
  // One instruction may store what are several accesses here, because it is not aligned. Then its
  // bytes are taken together, after it.
  bool goes_on = m->noted_bytes && access->address == m->noted + m->noted_bytes;
  uint64_t noted_bytes = goes_on ? m->noted_bytes : 0;
  uint64_t noted = access->address - noted_bytes;
  uint8_t value[GRANULE_BYTES];
  if (goes_on)
    m->noted_bytes = 0;
  operation_start(&op, where, PTX_RELEASE);
  if (operation_find(&op, ACCESS_STORE)) {
    ptx_race_check(&op, true);
    memcpy(value, (const void *)(uintptr_t)access->address, access->bytes);
    operation_write(&op, op.granule->write_count, value, false, -1);
    noted_bytes += access->bytes;
  }
  m->noted = noted;
  m->noted_bytes = noted_bytes;
}

// The write that an update before `index` reads: the one before it, or an older one if nothing
// makes the two atomic to each other.
static int64_t update_choose(const struct operation *op, uint32_t index) {
  int64_t read = ptx_history_at(op, (int64_t)index - 1);
  int64_t oldest = ptx_history_oldest(op);
  while (read > oldest && !ptx_operation_matches(op, &op->granule->writes[read]) &&
         ptx_memory_departs(op->m))
    read = ptx_history_at(op, read - 1);
  return read < oldest ? oldest : read;
}

void ptx_memory_update(struct ptx_memory *m, uint32_t agent, uint32_t lane,
                       const struct ptx_access *access, const struct ptx_update *update,
                       const struct ptx_where *where) {
  struct operation op = {.m = m, .access = *access, .agent = agent, .lane = lane};
  uint8_t value[GRANULE_BYTES] = {0};
  operation_start(&op, where, PTX_ACQ_REL);
  if (!operation_find(&op, ACCESS_UPDATE))
    return;
  uint32_t index = operation_place(&op);
  int64_t read = update_choose(&op, index);
  ptx_history_value(&op, read, value);
  operation_digest(&op, value);
  bool is_write = update->apply(update->arg, value);
  if (!is_write && op.access.order_of_failure != PTX_WEAK)
    op.access.order =
        op.access.order_of_failure == PTX_SC ? PTX_ACQUIRE : op.access.order_of_failure;
  ptx_race_check(&op, is_write);
  operation_observe(&op, read);
  if (!is_write)
    return;
  operation_write(&op, index, value, true, read);
}
