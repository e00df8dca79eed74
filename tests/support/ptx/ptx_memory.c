#include "tests/support/ptx/ptx_memory.h"

#include <rondo/status.h>

#include <stdlib.h>
#include <string.h>

#include "tests/support/ptx/ptx_memory_internal.h"

struct ptx_memory *ptx_memory_create(const struct ptx_memory_options *options) {
  struct ptx_memory *m = ptx_allocate(sizeof *m);
  *m = (struct ptx_memory){.options = *options,
                           .random = {options->seed},
                           .free_ticket = UINT32_MAX,
                           .next_serial = 1,
                           .sweep_at = 1u << 16};
  if (m->options.history < 2)
    m->options.history = 2;
  return m;
}

static void agent_destroy(struct agent *agent) {
  for (uint32_t i = 0; i < agent->lane_count; i++) {
    struct lane *lane = &agent->lanes[i];
    ptx_view_drop(lane->view);
    for (uint32_t s = PTX_CTA; s <= PTX_SYS; s++)
      ptx_view_drop(lane->released[s]);
    for (uint32_t p = 0; p < lane->pending_count; p++)
      ptx_view_drop(lane->pendings[p].release.view);
    free(lane->pendings);
  }
  free(agent->lanes);
}

void ptx_memory_destroy(struct ptx_memory *m) {
  for (uint32_t i = 0; i < m->ticket_count; i++)
    if (m->tickets[i].is_waiting)
      ptx_view_drop(m->tickets[i].operation.view);
  for (uint32_t i = 0; i < m->bucket_count; i++)
    while (m->buckets[i])
      ptx_granule_destroy(m, m->buckets[i]);
  for (uint32_t i = 0; i < m->agent_count; i++)
    agent_destroy(&m->agents[i]);
  for (uint32_t i = 0; i < m->fence_count; i++)
    ptx_view_drop(m->fences[i].view);
  free(m->agents);
  free(m->ranges);
  free(m->tickets);
  free(m->fences);
  free(m->buckets);
  free(m->accused);
  free(m);
}

int ptx_memory_range(struct ptx_memory *m, const struct ptx_range *range) {
  uint32_t at = 0;
  while (at < m->range_count && m->ranges[at].base < range->base)
    at++;
  bool is_empty = range->bytes == 0 || range->base + range->bytes < range->base;
  bool is_over_next = at < m->range_count && m->ranges[at].base - range->base < range->bytes;
  bool is_over_last = at > 0 && range->base - m->ranges[at - 1].base < m->ranges[at - 1].bytes;
  if (is_empty || is_over_next || is_over_last)
    return RONDO_ERR_INVALID;
  RESERVE_ONE(m->ranges, m->range_count, m->range_capacity);
  memmove(&m->ranges[at + 1], &m->ranges[at], (m->range_count - at) * sizeof *m->ranges);
  m->ranges[at] = *range;
  m->range_count++;
  return RONDO_SUCCESS;
}

int ptx_memory_remove_range(struct ptx_memory *m, uint64_t base) {
  uint32_t at = 0;
  while (at < m->range_count && m->ranges[at].base != base)
    at++;
  if (at == m->range_count)
    return RONDO_ERR_INVALID;
  ptx_memory_forget(m, base, m->ranges[at].bytes);
  m->range_count--;
  memmove(&m->ranges[at], &m->ranges[at + 1], (m->range_count - at) * sizeof *m->ranges);
  return RONDO_SUCCESS;
}

bool ptx_memory_has_range(const struct ptx_memory *m, uint64_t address, uint64_t bytes) {
  uint32_t low = 0, high = m->range_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (m->ranges[middle].base < address + bytes)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && m->ranges[low - 1].base + m->ranges[low - 1].bytes > address;
}

void ptx_memory_forget(struct ptx_memory *m, uint64_t base, uint64_t bytes) {
  const uint64_t first = base & ~(uint64_t)(GRANULE_BYTES - 1);
  const uint64_t count = (base + bytes - first + GRANULE_BYTES - 1) / GRANULE_BYTES;
  ptx_history_take_noted(m);
  for (uint64_t i = 0; i < count && count < m->bucket_count; i++)
    ptx_granule_forget(m, first + i * GRANULE_BYTES);
  for (uint32_t i = 0; i < m->bucket_count && count >= m->bucket_count; i++)
    for (struct granule *g = m->buckets[i], *next; g; g = next) {
      next = g->next;
      if (g->address < base + bytes && base < g->address + GRANULE_BYTES)
        ptx_granule_destroy(m, g);
    }
}

uint32_t ptx_memory_agent(struct ptx_memory *m, uint32_t device, uint32_t block,
                          uint32_t lane_count) {
  RESERVE_ONE(m->agents, m->agent_count, m->agent_capacity);
  struct agent *agent = &m->agents[m->agent_count];
  *agent = (struct agent){.device = device, .block = block, .lane_count = lane_count, .clock = 1};
  agent->lanes = ptx_allocate(lane_count * sizeof *agent->lanes);
  memset(agent->lanes, 0, lane_count * sizeof *agent->lanes);
  return m->agent_count++;
}

bool ptx_memory_departs(struct ptx_memory *m) {
  return m->options.adversity && random_chance(&m->random, m->options.adversity);
}

bool ptx_places_equal(const struct ptx_memory *m, uint32_t one, uint32_t two) {
  const struct agent *a = &m->agents[one], *b = &m->agents[two];
  return a->device == b->device && a->block == b->block;
}

static bool scope_includes(const struct ptx_memory *m, uint32_t one, enum ptx_scope scope,
                           uint32_t two) {
  if (scope == PTX_SYS)
    return true;
  if (scope == PTX_GPU)
    return m->agents[one].device == m->agents[two].device;
  return ptx_places_equal(m, one, two);
}

bool ptx_scopes_match(const struct ptx_memory *m, uint32_t one, enum ptx_scope one_scope,
                      uint32_t two, enum ptx_scope two_scope) {
  return m->options.fault == PTX_FAULT_NO_SCOPES ||
         (scope_includes(m, one, one_scope, two) && scope_includes(m, two, two_scope, one));
}

struct lane *ptx_lane_use(struct ptx_memory *m, uint32_t agent, uint32_t lane) {
  struct lane *l = &m->agents[agent].lanes[lane];
  l->is_active = true;
  return l;
}

struct ptx_view *ptx_lane_release(struct ptx_memory *m, uint32_t agent, uint32_t lane) {
  const struct agent *a = &m->agents[agent];
  bool is_all = a->lane_count == 1 || m->options.fault == PTX_FAULT_WARP_RELEASES;
  uint32_t key = is_all ? ptx_view_all(agent) : ptx_view_lane(agent, lane);
  return ptx_view_with(a->lanes[lane].view, key, a->clock);
}

void ptx_lane_acquire(struct ptx_memory *m, uint32_t agent, uint32_t lane, enum ptx_scope scope,
                      const struct ptx_access *at) {
  struct lane *l = &m->agents[agent].lanes[lane];
  uint32_t kept = 0;
  for (uint32_t i = 0; i < l->pending_count; i++) {
    struct pending *p = &l->pendings[i];
    bool is_here = !at || (p->address == at->address && p->bytes == at->bytes);
    if (!is_here || m->options.fault == PTX_FAULT_NO_ACQUIRE ||
        !ptx_scopes_match(m, p->release.agent, p->release.scope, agent, scope)) {
      l->pendings[kept++] = *p;
      continue;
    }
    ptx_view_learn(&l->view, p->release.view);
    ptx_view_drop(p->release.view);
  }
  l->pending_count = kept;
}

// fence.sc: all that the fences before it in their order have seen, if the two are in each other's
// scopes, comes before what the lane does next.
static void fence_order(struct ptx_memory *m, uint32_t agent, uint32_t lane, enum ptx_scope scope) {
  struct lane *l = &m->agents[agent].lanes[lane];
  struct release *mine = NULL;
  for (uint32_t i = 0; i < m->fence_count; i++)
    if (ptx_scopes_match(m, m->fences[i].agent, m->fences[i].scope, agent, scope))
      ptx_view_learn(&l->view, m->fences[i].view);
  for (uint32_t i = 0; i < m->fence_count && !mine; i++)
    if (m->fences[i].scope == scope && ptx_places_equal(m, m->fences[i].agent, agent))
      mine = &m->fences[i];
  if (!mine) {
    RESERVE_ONE(m->fences, m->fence_count, m->fence_capacity);
    mine = &m->fences[m->fence_count++];
    *mine = (struct release){NULL, agent, scope};
  }
  struct ptx_view *released = ptx_lane_release(m, agent, lane);
  ptx_view_learn(&mine->view, released);
  ptx_view_drop(released);
}

void ptx_memory_fence(struct ptx_memory *m, uint32_t agent, uint32_t lane, enum ptx_order order,
                      enum ptx_scope scope) {
  struct lane *l = ptx_lane_use(m, agent, lane);
  ptx_lane_resolve(m, agent, lane, 0, 0);
  if (m->options.fault == PTX_FAULT_NO_FENCE)
    return;
  if (m->agents[agent].device == PTX_CPU)
    scope = PTX_SYS;
  if (order != PTX_RELEASE)
    ptx_lane_acquire(m, agent, lane, scope, NULL);
  if (order == PTX_SC && m->options.fault != PTX_FAULT_NO_SC)
    fence_order(m, agent, lane, scope);
  if (order == PTX_ACQUIRE)
    return;
  // What a fence of a smaller scope released is part of this.
  for (uint32_t s = PTX_CTA; s <= (uint32_t)scope; s++) {
    ptx_view_drop(l->released[s]);
    l->released[s] = NULL;
  }
  l->released[scope] = ptx_lane_release(m, agent, lane);
  m->agents[agent].clock++;
}

// What these lanes know together, and what they did. The caller drops it.
static struct ptx_view *lanes_release(struct ptx_memory *m, const struct ptx_lanes *who) {
  const struct agent *a = &m->agents[who->agent];
  uint32_t every = a->lane_count == 32 ? UINT32_MAX : (1u << a->lane_count) - 1;
  struct ptx_view *view = NULL;
  for (uint32_t i = 0; i < a->lane_count; i++) {
    if (!(who->lanes >> i & 1))
      continue;
    ptx_lane_resolve(m, who->agent, i, 0, 0);
    ptx_view_learn(&view, a->lanes[i].view);
    if ((who->lanes & every) == every)
      continue;
    struct ptx_view *with = ptx_view_with(view, ptx_view_lane(who->agent, i), a->clock);
    ptx_view_drop(view);
    view = with;
  }
  if ((who->lanes & every) == every) {
    struct ptx_view *with = ptx_view_with(view, ptx_view_all(who->agent), a->clock);
    ptx_view_drop(view);
    view = with;
  }
  return view;
}

static void lanes_learn(struct ptx_memory *m, const struct ptx_lanes *who, struct ptx_view *view) {
  struct agent *a = &m->agents[who->agent];
  for (uint32_t i = 0; i < a->lane_count; i++)
    if (who->lanes >> i & 1)
      ptx_view_learn(&ptx_lane_use(m, who->agent, i)->view, view);
  a->clock++;
}

void ptx_memory_meet(struct ptx_memory *m, const struct ptx_lanes *participants, uint32_t count) {
  struct ptx_view *view = NULL;
  for (uint32_t i = 0; i < count; i++) {
    struct ptx_view *known = lanes_release(m, &participants[i]);
    ptx_view_learn(&view, known);
    ptx_view_drop(known);
  }
  if (m->options.fault != PTX_FAULT_NO_MEETING)
    for (uint32_t i = 0; i < count; i++)
      lanes_learn(m, &participants[i], view);
  ptx_view_drop(view);
}

// All that `from` did comes before all that `to` does next.
static void agents_order(struct ptx_memory *m, uint32_t from, uint32_t to) {
  struct ptx_lanes sender = {from, UINT32_MAX}, receiver = {to, UINT32_MAX};
  struct ptx_view *view = lanes_release(m, &sender);
  m->agents[from].clock++;
  lanes_learn(m, &receiver, view);
  ptx_view_drop(view);
}

void ptx_memory_begin(struct ptx_memory *m, uint32_t from_agent, uint32_t agent) {
  agents_order(m, from_agent, agent);
}

void ptx_memory_end(struct ptx_memory *m, uint32_t agent, uint32_t to_agent) {
  agents_order(m, agent, to_agent);
  for (uint32_t i = 0; i < m->agents[agent].lane_count; i++)
    m->agents[agent].lanes[i].is_active = false;
}

uint64_t ptx_memory_accusations(const struct ptx_memory *m) { return m->accused_count; }

uint64_t ptx_memory_digest(const struct ptx_memory *m) { return m->digest; }

uint64_t ptx_memory_kept(const struct ptx_memory *m) { return m->kept; }
