#include "sim/deadlock/layout.h"

#include <stdlib.h>

#include "sim/common/text.h"

static uint32_t *new_u32(uint64_t count) { return rondo_sim_calloc(count + 1, sizeof(uint32_t)); }

// Turns the length of each list k, at offset[k + 1], into where the lists begin. Returns a copy, in
// which the caller counts while it fills the lists.
static uint32_t *offsets_sum(uint32_t *offset, uint32_t count) {
  uint32_t *fill = new_u32(count);
  for (uint32_t k = 0; k < count; k++) {
    offset[k + 1] += offset[k];
    fill[k + 1] = offset[k + 1];
  }
  return fill;
}

static void store_groups(struct rondo_sim_layout *w, const struct rondo_sim_group *groups) {
  w->collectives = new_u32(w->group_count);
  w->member_offset = new_u32(w->group_count);
  w->joined_offset = new_u32(w->gpu_count);
  for (uint32_t g = 0; g < w->group_count; g++) {
    w->collectives[g] = groups[g].collective_count;
    w->member_offset[g + 1] = groups[g].gpu_count;
    for (uint32_t m = 0; m < groups[g].gpu_count; m++) {
      w->joined_offset[groups[g].gpus[m] + 1]++;
    }
  }
  uint32_t *members = offsets_sum(w->member_offset, w->group_count);
  uint32_t *joined = offsets_sum(w->joined_offset, w->gpu_count);
  w->members = new_u32(w->member_offset[w->group_count]);
  w->joined = new_u32(w->member_offset[w->group_count]);
  // Filling by GPU first sorts both tables.
  for (uint32_t g = 0; g < w->group_count; g++) {
    for (uint32_t m = 0; m < groups[g].gpu_count; m++) {
      w->joined[joined[groups[g].gpus[m]]++] = g;
    }
  }
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    for (uint32_t k = w->joined_offset[i]; k < w->joined_offset[i + 1]; k++) {
      w->members[members[w->joined[k]]++] = i;
    }
  }
  free(members);
  free(joined);
}

// Appends a segment to the list of a GPU: from layer `first` up to `until`, of the groups that the
// last `width` entries of `active` name.
static void add_segment(struct rondo_sim_layout *w, uint32_t gpu, uint32_t first, uint32_t until,
                        uint32_t width) {
  w->segments[w->segment_offset[gpu + 1]++] = (struct rondo_sim_segment){
      rondo_sim_layout_length(w, gpu), first, until - first, width, w->active_count - width};
  w->slot_offset[gpu + 1] += (uint64_t)(until - first) * width;
}

// Lays the interleaved list of a GPU. A new segment begins where a group runs out; the remaining
// groups take turns in it.
static void list_interleave(struct rondo_sim_layout *w, uint32_t gpu) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  uint32_t count = w->joined_offset[gpu + 1] - w->joined_offset[gpu];
  for (uint32_t layer = 0, until, width = 1; width > 0; layer = until) {
    width = 0;
    until = UINT32_MAX;
    for (uint32_t k = 0; k < count; k++) {
      uint32_t n = w->collectives[joined[k]];
      if (n > layer) {
        w->active[w->active_count++] = k;
        width++;
        until = n < until ? n : until;
      }
    }
    if (width > 0) {
      add_segment(w, gpu, layer, until, width);
    }
  }
}

static void list_append(struct rondo_sim_layout *w, uint32_t gpu) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  for (uint32_t k = 0; k < w->joined_offset[gpu + 1] - w->joined_offset[gpu]; k++) {
    if (w->collectives[joined[k]] > 0) {
      w->active[w->active_count++] = k;
      add_segment(w, gpu, 0, w->collectives[joined[k]], 1);
    }
  }
}

static void lay_lists(struct rondo_sim_layout *w) {
  uint64_t actives = 0, joins = w->joined_offset[w->gpu_count];
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    uint64_t n = w->joined_offset[i + 1] - w->joined_offset[i];
    actives += n * (n + 1) / 2;
  }
  w->segments = rondo_sim_calloc(joins, sizeof(*w->segments));
  w->active = new_u32(actives);
  w->segment_offset = new_u32(w->gpu_count);
  w->slot_offset = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint64_t));
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    w->segment_offset[i + 1] = w->segment_offset[i];
    w->slot_offset[i + 1] = w->slot_offset[i];
    if (w->order == RONDO_SIM_INTERLEAVED) {
      list_interleave(w, i);
    } else {
      list_append(w, i);
    }
    uint32_t length = rondo_sim_layout_length(w, i);
    w->uniform_length = i == 0 || w->uniform_length == length ? length : 0;
  }
  w->slot_count = w->slot_offset[w->gpu_count];
}

static uint32_t root_of(uint32_t *parent, uint32_t i) {
  while (parent[i] != i) {
    parent[i] = parent[parent[i]];
    i = parent[i];
  }
  return i;
}

static void find_components(struct rondo_sim_layout *w) {
  uint32_t *parent = new_u32(w->gpu_count);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    parent[i] = i;
  }
  for (uint32_t g = 0; g < w->group_count; g++) {
    for (uint32_t m = w->member_offset[g] + 1; m < w->member_offset[g + 1]; m++) {
      uint32_t a = root_of(parent, w->members[w->member_offset[g]]);
      uint32_t b = root_of(parent, w->members[m]);
      parent[a > b ? a : b] = a < b ? a : b;
    }
  }
  w->component = new_u32(w->gpu_count);
  w->component_first = new_u32(w->gpu_count + 1u);
  w->component_gpus = new_u32(w->gpu_count);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    uint32_t root = root_of(parent, i); // the smallest GPU of its component
    w->component[i] = root == i ? w->component_count++ : w->component[root];
    w->component_first[w->component[i] + 1]++;
  }
  uint32_t *fill = offsets_sum(w->component_first, w->component_count);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    w->component_gpus[fill[w->component[i]]++] = i;
  }
  free(parent);
  free(fill);
}

void rondo_sim_layout_init(struct rondo_sim_layout *w, const struct rondo_sim_group *groups,
                           uint32_t group_count, uint32_t gpu_count, enum rondo_sim_order order) {
  *w =
      (struct rondo_sim_layout){.order = order, .gpu_count = gpu_count, .group_count = group_count};
  store_groups(w, groups);
  lay_lists(w);
  find_components(w);
}

void rondo_sim_layout_fini(struct rondo_sim_layout *w) {
  free(w->collectives);
  free(w->member_offset);
  free(w->members);
  free(w->joined_offset);
  free(w->joined);
  free(w->segment_offset);
  free(w->segments);
  free(w->active);
  free(w->slot_offset);
  free(w->component);
  free(w->component_first);
  free(w->component_gpus);
  *w = (struct rondo_sim_layout){0};
}

uint32_t rondo_sim_layout_gpu_at(const struct rondo_sim_layout *w, uint64_t at) {
  if (w->uniform_length) {
    return (uint32_t)(at / w->uniform_length);
  }
  uint32_t gpu = 0;
  RONDO_SIM_LOWER_BOUND(gpu, w->gpu_count, w->slot_offset[middle + 1] <= at);
  return gpu;
}

struct rondo_sim_collective rondo_sim_layout_at(const struct rondo_sim_layout *w, uint32_t gpu,
                                                uint32_t slot) {
  const struct rondo_sim_segment *s = &w->segments[w->segment_offset[gpu]];
  const struct rondo_sim_segment *last = &w->segments[w->segment_offset[gpu + 1]] - 1;
  while (s < last && s[1].first_slot <= slot) {
    s++;
  }
  uint32_t in = slot - s->first_slot, layer = s->width == 1 ? in : in / s->width;
  uint32_t place = w->active[s->first_active + in - layer * s->width];
  return (struct rondo_sim_collective){w->joined[w->joined_offset[gpu] + place],
                                       s->first_index + layer};
}

// The rank of a place among those that take turns in a segment, or -1.
static int rank_in(const struct rondo_sim_layout *w, const struct rondo_sim_segment *s,
                   uint32_t place) {
  for (uint32_t k = 0; k < s->width; k++) {
    if (w->active[s->first_active + k] == place) {
      return (int)k;
    }
  }
  return -1;
}

uint32_t rondo_sim_layout_place(const struct rondo_sim_layout *w, uint32_t gpu, uint32_t group) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  uint32_t place = 0;
  while (joined[place] != group) {
    place++;
  }
  return place;
}

uint32_t rondo_sim_layout_slot(const struct rondo_sim_layout *w, uint32_t gpu,
                               struct rondo_sim_collective c) {
  uint32_t place = rondo_sim_layout_place(w, gpu, c.group);
  const struct rondo_sim_segment *s = &w->segments[w->segment_offset[gpu]];
  int rank = rank_in(w, s, place);
  while (rank < 0 || c.index >= s->first_index + s->layers) {
    s++;
    rank = rank_in(w, s, place);
  }
  return s->first_slot + (c.index - s->first_index) * s->width + (uint32_t)rank;
}

uint32_t rondo_sim_layout_count_below(const struct rondo_sim_layout *w, uint32_t gpu,
                                      uint32_t place, uint32_t slot) {
  uint32_t count = 0;
  for (uint32_t k = w->segment_offset[gpu]; k < w->segment_offset[gpu + 1]; k++) {
    const struct rondo_sim_segment *s = &w->segments[k];
    if (s->first_slot >= slot) {
      break;
    }
    int rank = rank_in(w, s, place);
    uint32_t in = slot - s->first_slot, layer = in / s->width;
    if (rank >= 0) {
      count += layer >= s->layers ? s->layers : layer + (in - layer * s->width > (uint32_t)rank);
    }
  }
  return count;
}

uint32_t rondo_sim_layout_lower_bound(const struct rondo_sim_layout *w, uint32_t gpu,
                                      uint64_t key) {
  uint32_t slot = 0;
  RONDO_SIM_LOWER_BOUND(slot, rondo_sim_layout_length(w, gpu),
                        rondo_sim_layout_key_at(w, gpu, middle) < key);
  return slot;
}
