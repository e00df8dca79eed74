#include "sim/deadlock/programs.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_sim_programs_init(struct rondo_sim_programs *p, const struct rondo_sim_layout *w) {
  *p = (struct rondo_sim_programs){0};
  p->gpu_mark = rondo_sim_calloc(w->gpu_count, sizeof(uint32_t));
  p->group_mark = rondo_sim_calloc(w->group_count, sizeof(uint32_t));
}

void rondo_sim_programs_fini(struct rondo_sim_programs *p) {
  free(p->programs);
  free(p->items);
  free(p->groups);
  free(p->members);
  free(p->collectives);
  free(p->gpu_mark);
  free(p->group_mark);
  *p = (struct rondo_sim_programs){0};
}

static void forget_region(struct rondo_sim_programs *p) {
  for (uint32_t i = 0; i < p->program_count; i++) {
    p->gpu_mark[p->programs[i].gpu] = 0;
  }
  for (uint32_t g = 0; g < p->group_count; g++) {
    p->group_mark[p->groups[g].group] = 0;
  }
  p->program_count = p->group_count = p->collective_count = p->member_count = 0;
  p->item_count = 0;
}

static uint32_t add_program(struct rondo_sim_programs *p, uint32_t gpu) {
  if (p->gpu_mark[gpu]) {
    return p->gpu_mark[gpu] - 1;
  }
  RONDO_SIM_GROW(p->programs, p->program_count, p->program_capacity, 64);
  p->programs[p->program_count] = (struct rondo_sim_program){.gpu = gpu};
  p->gpu_mark[gpu] = ++p->program_count;
  return p->program_count - 1;
}

// The stretch of a group's indexes whose keys lie in the range; empty if first == end.
static void stretch_of(const struct rondo_sim_layout *w, uint32_t group,
                       const struct rondo_sim_range *range, uint32_t *first, uint32_t *end) {
  uint32_t low_major = (uint32_t)(range->low >> 32), low_minor = (uint32_t)range->low;
  uint32_t high_major = (uint32_t)(range->high >> 32), high_minor = (uint32_t)range->high;
  uint64_t count = w->collectives[group], from, to;
  if (w->order == RONDO_SIM_INTERLEAVED) {
    from = (uint64_t)low_major + (group < low_minor);
    to = (uint64_t)high_major + (group <= high_minor);
  } else {
    from = group < low_major ? count : group == low_major ? low_minor : 0;
    to = group < high_major ? count : group == high_major ? (uint64_t)high_minor + 1 : 0;
  }
  *end = (uint32_t)(to < count ? to : count);
  *first = (uint32_t)(from < *end ? from : *end);
}

// Adds a group that has a collective in the range to the region, with its members.
static uint32_t add_group(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                          uint32_t group, const struct rondo_sim_range *range) {
  if (p->group_mark[group]) {
    return p->group_mark[group] - 1;
  }
  uint32_t first, end, number = p->group_count++;
  uint32_t size = rondo_sim_layout_size(w, group);
  stretch_of(w, group, range, &first, &end);
  RONDO_SIM_RESERVE(p->groups, number + 2, p->group_capacity);
  RONDO_SIM_RESERVE(p->collectives, p->collective_count + end - first, p->collective_capacity);
  RONDO_SIM_RESERVE(p->members, p->member_count + size, p->member_capacity);
  p->groups[number] =
      (struct rondo_sim_local_group){group, first, p->collective_count, p->member_count};
  for (uint32_t i = first; i < end; i++) {
    p->collectives[p->collective_count++].group = number;
  }
  p->group_mark[group] = number + 1;
  for (uint32_t m = w->member_offset[group]; m < w->member_offset[group + 1]; m++) {
    p->members[p->member_count++] = add_program(p, w->members[m]);
  }
  p->groups[number + 1] =
      (struct rondo_sim_local_group){0, 0, p->collective_count, p->member_count};
  return number;
}

// Appends a collective to program `x`, whose items are the last ones.
static void add_item(struct rondo_sim_programs *p, struct rondo_sim_program *x, uint32_t group,
                     uint32_t index, bool sync_before) {
  const struct rondo_sim_local_group *g = &p->groups[group];
  p->items[p->item_count++] = (g->first_collective + index - g->first_index) |
                              (sync_before && x->length > 0 ? RONDO_SIM_SYNC_BEFORE : 0);
  x->length++;
}

// The slots of a GPU that hold its part of the range, with whole windows.
static void slots_in_range(const struct rondo_sim_layout *w, const struct rondo_sim_events *e,
                           uint32_t gpu, const struct rondo_sim_range *range, uint32_t *first,
                           uint32_t *end) {
  uint32_t length = rondo_sim_layout_length(w, gpu);
  *first = range->low ? rondo_sim_layout_lower_bound(w, gpu, range->low) : 0;
  *end = range->high == UINT64_MAX ? length : rondo_sim_layout_lower_bound(w, gpu, range->high + 1);
  if (*first == *end) {
    return;
  }
  const struct rondo_sim_window *x = rondo_sim_events_window(e, gpu, *first);
  if (x->gpu == gpu && x->start < *first) {
    *first = x->start;
  }
  x = rondo_sim_events_window(e, gpu, *end - 1);
  if (x->gpu == gpu && x->start < *end && x->start + x->length > *end) {
    *end = x->start + x->length;
  }
}

static void fill_program(struct rondo_sim_programs *p, uint32_t number,
                         const struct rondo_sim_layout *w, const struct rondo_sim_events *e,
                         const struct rondo_sim_range *range) {
  uint32_t gpu = p->programs[number].gpu, first, end;
  slots_in_range(w, e, gpu, range, &first, &end);
  uint64_t base = w->slot_offset[gpu];
  const struct rondo_sim_window *window = rondo_sim_events_window(e, gpu, first);
  const struct rondo_sim_sync *sync = rondo_sim_events_sync(e, base + first);
  RONDO_SIM_RESERVE(p->items, p->item_count + end - first, p->item_capacity);
  p->programs[number].first = p->item_count;
  bool synchronises = false;
  for (uint32_t slot = first; slot < end; slot++) {
    window += window->gpu == gpu && window->start + window->length <= slot;
    bool inside = window->gpu == gpu && window->start <= slot;
    for (; sync->at <= base + slot; sync++) {
      synchronises = true;
    }
    uint32_t planned = inside ? e->permuted[window->first_permuted + slot - window->start] : slot;
    struct rondo_sim_collective c = rondo_sim_layout_at(w, gpu, planned);
    uint64_t key = rondo_sim_layout_key(w, c);
    if (key >= range->low && key <= range->high) {
      uint32_t group = add_group(p, w, c.group, range);
      add_item(p, &p->programs[number], group, c.index, synchronises);
      synchronises = false;
    }
  }
}

void rondo_sim_programs_region(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                               const struct rondo_sim_events *e,
                               const struct rondo_sim_range *range) {
  forget_region(p);
  for (uint32_t i = 0; i < range->seed_count; i++) {
    add_program(p, range->seeds[i]);
  }
  for (uint32_t i = 0; i < p->program_count; i++) {
    fill_program(p, i, w, e, range);
  }
}

// The planned slots that a GPU has not invoked yet, in order.
struct outstanding {
  uint32_t *slots;
  uint32_t first, end;
  uint32_t skipped; // so many at the front have been skipped before
};

static void slots_list(struct outstanding *o, const struct rondo_sim_chances *chances,
                       struct rondo_sim_rng *rng) {
  uint32_t kept = 0, skipped = 0, *late = rondo_sim_alloc(sizeof(uint32_t) * o->end);
  o->slots = rondo_sim_alloc(sizeof(uint32_t) * o->end);
  for (uint32_t i = 0; i < o->end; i++) {
    if (chances->skipped == RONDO_SIM_SKIPPED_LAST &&
        rondo_sim_rng_unit(rng) < chances->disorder.probability) {
      late[skipped++] = i;
    } else {
      o->slots[kept++] = i;
    }
  }
  memcpy(o->slots + kept, late, sizeof(uint32_t) * skipped);
  free(late);
}

static uint32_t slot_pick(const struct outstanding *o, const struct rondo_sim_chances *chances,
                          struct rondo_sim_rng *rng) {
  if (chances->skipped == RONDO_SIM_SKIPPED_LAST ||
      (chances->skipped == RONDO_SIM_SKIPPED_NEXT && o->skipped > 0)) {
    return o->first; // a list with skipped ones at the end is in order already
  }
  uint32_t at = o->first;
  while (at + 1 < o->end && rondo_sim_rng_unit(rng) < chances->disorder.probability) {
    at++;
  }
  return at;
}

static uint32_t slot_take(struct outstanding *o, uint32_t at) {
  uint32_t taken = o->slots[at], before = at - o->first;
  o->skipped = before < o->skipped ? o->skipped - 1 : before;
  memmove(o->slots + o->first + 1, o->slots + o->first, before * sizeof(uint32_t));
  o->first++;
  return taken;
}

static bool draw_sync(const struct rondo_sim_rare *sync, struct rondo_sim_rng *rng) {
  return sync->probability > 0 && rondo_sim_rng_unit(rng) < sync->probability;
}

void rondo_sim_programs_draw(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                             const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng) {
  static const struct rondo_sim_range everything = {0, UINT64_MAX, NULL, 0};
  forget_region(p);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    add_program(p, i);
  }
  for (uint32_t g = 0; g < w->group_count; g++) {
    add_group(p, w, g, &everything);
  }
  RONDO_SIM_RESERVE(p->items, w->slot_count, p->item_capacity);
  for (uint32_t gpu = 0; gpu < w->gpu_count; gpu++) {
    struct outstanding o = {.end = rondo_sim_layout_length(w, gpu)};
    p->programs[gpu].first = p->item_count;
    slots_list(&o, chances, rng);
    while (o.first < o.end) {
      // Several synchronisations in a row act as one.
      bool sync = draw_sync(&chances->synchronisation, rng);
      uint32_t slot = slot_take(&o, slot_pick(&o, chances, rng));
      struct rondo_sim_collective c = rondo_sim_layout_at(w, gpu, slot);
      add_item(p, &p->programs[gpu], c.group, c.index, sync);
    }
    free(o.slots);
  }
}

struct rondo_sim_collective rondo_sim_programs_name(const struct rondo_sim_programs *p,
                                                    uint32_t collective) {
  const struct rondo_sim_local_group *g = &p->groups[p->collectives[collective].group];
  return (struct rondo_sim_collective){g->group, g->first_index + collective - g->first_collective};
}

static void program_stack(struct rondo_sim_programs *p, uint32_t number) {
  p->programs[number].stacked = true;
  p->programs[number].below = p->top;
  p->top = number;
}

// A collective has started on all members: it succeeds, and the members have room again.
static void collective_succeed(struct rondo_sim_programs *p, uint32_t collective) {
  const struct rondo_sim_local_group *g = &p->groups[p->collectives[collective].group];
  for (uint32_t m = g->first_member; m < g[1].first_member; m++) {
    struct rondo_sim_program *x = &p->programs[p->members[m]];
    x->executing--;
    if (!x->stacked && x->next < x->length) {
      program_stack(p, p->members[m]);
    }
  }
}

// Resets all programs; returns how many have something to do.
static uint32_t begin_run(struct rondo_sim_programs *p) {
  uint32_t unfinished = 0;
  p->top = UINT32_MAX;
  for (uint32_t i = 0; i < p->program_count; i++) {
    p->programs[i].next = p->programs[i].executing = 0;
    program_stack(p, i);
    unfinished += p->programs[i].length > 0;
  }
  for (uint32_t c = 0; c < p->collective_count; c++) {
    const struct rondo_sim_local_group *g = &p->groups[p->collectives[c].group];
    p->collectives[c].missing = g[1].first_member - g->first_member;
  }
  return unfinished;
}

bool rondo_sim_programs_stuck(struct rondo_sim_programs *p, uint32_t limit) {
  uint32_t unfinished = begin_run(p);
  while (p->top != UINT32_MAX) {
    struct rondo_sim_program *x = &p->programs[p->top];
    p->top = x->below;
    while (x->next < x->length && x->executing < limit) {
      uint32_t item = p->items[x->first + x->next];
      if ((item & RONDO_SIM_SYNC_BEFORE) && x->executing > 0) {
        break;
      }
      uint32_t collective = item & ~RONDO_SIM_SYNC_BEFORE;
      x->next++;
      x->executing++;
      unfinished -= x->next == x->length;
      if (--p->collectives[collective].missing == 0) {
        collective_succeed(p, collective);
      }
    }
    x->stacked = false;
  }
  return unfinished > 0;
}
