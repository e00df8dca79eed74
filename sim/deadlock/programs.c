#include "sim/deadlock/programs.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

void rondo_sim_programs_init(struct rondo_sim_programs *p, const struct rondo_sim_world *w) {
  *p = (struct rondo_sim_programs){0};
  p->gpu_mark = rondo_sim_calloc(w->gpu_count, sizeof(uint32_t));
  p->group_mark = rondo_sim_calloc(w->group_count, sizeof(uint32_t));
}

void rondo_sim_programs_fini(struct rondo_sim_programs *p) {
  free(p->programs);
  free(p->items);
  free(p->groups);
  free(p->members);
  free(p->group_of);
  free(p->missing);
  free(p->queue);
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
  if (p->program_count == p->program_capacity) {
    p->program_capacity = p->program_capacity * 2 + 64;
    p->programs = rondo_sim_realloc(p->programs, sizeof(*p->programs) * p->program_capacity);
    p->queue = rondo_sim_realloc(p->queue, sizeof(*p->queue) * p->program_capacity);
  }
  p->programs[p->program_count] = (struct rondo_sim_program){.gpu = gpu};
  p->gpu_mark[gpu] = ++p->program_count;
  return p->program_count - 1;
}

static void reserve_collectives(struct rondo_sim_programs *p, uint32_t more) {
  if (p->collective_count + more <= p->collective_capacity) {
    return;
  }
  p->collective_capacity = (p->collective_count + more) * 2;
  p->group_of = rondo_sim_realloc(p->group_of, sizeof(uint32_t) * p->collective_capacity);
  p->missing = rondo_sim_realloc(p->missing, sizeof(uint32_t) * p->collective_capacity);
}

static void add_members(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                        uint32_t group) {
  uint32_t size = rondo_sim_world_size(w, group);
  if (p->member_count + size > p->member_capacity) {
    p->member_capacity = (p->member_count + size) * 2;
    p->members = rondo_sim_realloc(p->members, sizeof(uint32_t) * p->member_capacity);
  }
  for (uint32_t m = w->member_offset[group]; m < w->member_offset[group + 1]; m++) {
    p->members[p->member_count++] = add_program(p, w->members[m]);
  }
}

// The stretch of a group's indexes whose keys lie in the range; empty if first == end.
static void stretch_of(const struct rondo_sim_world *w, uint32_t group,
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
static uint32_t add_group(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                          uint32_t group, const struct rondo_sim_range *range) {
  if (p->group_mark[group]) {
    return p->group_mark[group] - 1;
  }
  RONDO_SIM_GROW(p->groups, p->group_count, p->group_capacity, 64);
  uint32_t first, end, number = p->group_count++;
  stretch_of(w, group, range, &first, &end);
  reserve_collectives(p, end - first);
  p->groups[number] =
      (struct rondo_sim_local_group){group, first, p->collective_count, p->member_count};
  for (uint32_t i = first; i < end; i++) {
    p->group_of[p->collective_count++] = number;
  }
  p->group_mark[group] = number + 1;
  add_members(p, w, group);
  return number;
}

static void reserve_items(struct rondo_sim_programs *p, uint64_t more) {
  if (p->item_count + more > p->item_capacity) {
    p->item_capacity = (p->item_count + more) * 2;
    p->items = rondo_sim_realloc(p->items, sizeof(uint32_t) * p->item_capacity);
  }
}

// A walk over the slots of a GPU's list in order of invocation, with its events.
struct walk {
  const struct rondo_sim_window *window, *window_end;
  const struct rondo_sim_sync *sync, *sync_end;
};

static struct walk walk_begin(const struct rondo_sim_world *w, const struct rondo_sim_events *e,
                              uint32_t gpu, uint32_t slot) {
  const struct rondo_sim_window *window = rondo_sim_events_window(e, gpu, slot);
  struct walk walk = {
      .window = window ? window : e->windows + e->window_count,
      .window_end = e->windows + e->window_count,
      .sync = e->syncs + rondo_sim_events_sync_from(e, w->slot_offset[gpu] + slot),
      .sync_end = e->syncs + e->sync_count,
  };
  return walk;
}

// The planned slot of the collective that is invoked at `slot`.
static uint32_t walk_planned(struct walk *walk, const struct rondo_sim_events *e, uint32_t gpu,
                             uint32_t slot) {
  while (walk->window < walk->window_end && walk->window->gpu == gpu &&
         walk->window->start + walk->window->length <= slot) {
    walk->window++;
  }
  const struct rondo_sim_window *x = walk->window;
  if (x == walk->window_end || x->gpu != gpu || x->start > slot) {
    return slot;
  }
  return e->permuted[x->first_permuted + slot - x->start];
}

static bool walk_sync(struct walk *walk, uint64_t at) {
  bool found = false;
  while (walk->sync < walk->sync_end && walk->sync->at <= at) {
    found = true;
    walk->sync++;
  }
  return found;
}

// The slots of a GPU that hold its part of the range, with whole windows.
static void slots_in_range(const struct rondo_sim_world *w, const struct rondo_sim_events *e,
                           uint32_t gpu, const struct rondo_sim_range *range, uint32_t *first,
                           uint32_t *end) {
  uint32_t length = rondo_sim_world_length(w, gpu);
  *first = range->low ? rondo_sim_world_lower_bound(w, gpu, range->low) : 0;
  *end = range->high == UINT64_MAX ? length : rondo_sim_world_lower_bound(w, gpu, range->high + 1);
  if (*first == *end) {
    return;
  }
  const struct rondo_sim_window *x = rondo_sim_events_window(e, gpu, *first);
  if (x && x->start < *first) {
    *first = x->start;
  }
  x = rondo_sim_events_window(e, gpu, *end - 1);
  if (x && x->start < *end && x->start + x->length > *end) {
    *end = x->start + x->length;
  }
}

static void fill_program(struct rondo_sim_programs *p, uint32_t number,
                         const struct rondo_sim_world *w, const struct rondo_sim_events *e,
                         const struct rondo_sim_range *range) {
  uint32_t gpu = p->programs[number].gpu, first, end, length = 0;
  slots_in_range(w, e, gpu, range, &first, &end);
  struct walk walk = walk_begin(w, e, gpu, first);
  uint64_t base = w->slot_offset[gpu], begin = p->item_count;
  reserve_items(p, end - first);
  bool sync = false;
  for (uint32_t slot = first; slot < end; slot++) {
    uint32_t planned = walk_planned(&walk, e, gpu, slot);
    sync |= walk_sync(&walk, base + slot);
    struct rondo_sim_collective c = rondo_sim_world_at(w, gpu, planned);
    uint64_t key = rondo_sim_world_key(w, c);
    if (key < range->low || key > range->high) {
      continue;
    }
    uint32_t g = add_group(p, w, c.group, range);
    uint32_t local = p->groups[g].first_collective + c.index - p->groups[g].first_index;
    p->items[begin + length] = local | (sync && length > 0 ? RONDO_SIM_SYNC_BEFORE : 0);
    length++;
    sync = false;
  }
  p->item_count = begin + length;
  p->programs[number].first = begin;
  p->programs[number].length = length;
}

void rondo_sim_programs_region(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
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

void rondo_sim_programs_begin_all(struct rondo_sim_programs *p, const struct rondo_sim_world *w) {
  static const struct rondo_sim_range everything = {0, UINT64_MAX, NULL, 0};
  forget_region(p);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    add_program(p, i);
  }
  for (uint32_t g = 0; g < w->group_count; g++) {
    add_group(p, w, g, &everything);
  }
  reserve_items(p, w->slot_count);
}

void rondo_sim_programs_append(struct rondo_sim_programs *p, uint32_t gpu,
                               struct rondo_sim_collective c, bool sync_before) {
  struct rondo_sim_program *x = &p->programs[p->gpu_mark[gpu] - 1];
  const struct rondo_sim_local_group *g = &p->groups[p->group_mark[c.group] - 1];
  if (x->length++ == 0) {
    x->first = p->item_count;
  }
  p->items[p->item_count++] = (g->first_collective + c.index - g->first_index) |
                              (sync_before && x->length > 1 ? RONDO_SIM_SYNC_BEFORE : 0);
}

struct rondo_sim_collective rondo_sim_programs_name(const struct rondo_sim_programs *p,
                                                    uint32_t collective) {
  const struct rondo_sim_local_group *g = &p->groups[p->group_of[collective]];
  return (struct rondo_sim_collective){g->group, g->first_index + collective - g->first_collective};
}

// A collective has started on all members: it succeeds, and the members have room again.
static uint32_t collective_succeed(struct rondo_sim_programs *p, uint32_t collective,
                                   uint32_t queue_count) {
  uint32_t g = p->group_of[collective];
  for (uint32_t m = p->groups[g].first_member; m < rondo_sim_programs_members_end(p, g); m++) {
    struct rondo_sim_program *x = &p->programs[p->members[m]];
    x->executing--;
    if (!x->queued && x->next < x->length) {
      x->queued = true;
      p->queue[queue_count++] = p->members[m];
    }
  }
  return queue_count;
}

// Resets all programs; returns how many have something to do.
static uint32_t begin_run(struct rondo_sim_programs *p) {
  uint32_t unfinished = 0;
  for (uint32_t i = 0; i < p->program_count; i++) {
    p->queue[i] = i;
    p->programs[i].next = p->programs[i].executing = 0;
    p->programs[i].queued = true;
    unfinished += p->programs[i].length > 0;
  }
  for (uint32_t g = 0, c = 0; g < p->group_count; g++) {
    uint32_t end = g + 1 < p->group_count ? p->groups[g + 1].first_collective : p->collective_count;
    for (; c < end; c++) {
      p->missing[c] = rondo_sim_programs_members_end(p, g) - p->groups[g].first_member;
    }
  }
  return unfinished;
}

bool rondo_sim_programs_stuck(struct rondo_sim_programs *p, uint32_t limit) {
  uint32_t queue_count = p->program_count, unfinished = begin_run(p);
  while (queue_count > 0) {
    struct rondo_sim_program *x = &p->programs[p->queue[--queue_count]];
    while (x->next < x->length && x->executing < limit) {
      uint32_t item = p->items[x->first + x->next];
      if ((item & RONDO_SIM_SYNC_BEFORE) && x->executing > 0) {
        break;
      }
      uint32_t collective = item & ~RONDO_SIM_SYNC_BEFORE;
      x->next++;
      x->executing++;
      unfinished -= x->next == x->length;
      if (--p->missing[collective] == 0) {
        queue_count = collective_succeed(p, collective, queue_count);
      }
    }
    x->queued = false;
  }
  return unfinished > 0;
}
