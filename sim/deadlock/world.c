#include "sim/deadlock/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/common/text.h"

static uint32_t *new_u32(uint64_t count) { return rondo_sim_calloc(count + 1, sizeof(uint32_t)); }

static void store_groups(struct rondo_sim_world *w, const struct rondo_sim_group *groups) {
  uint64_t total = 0;
  for (uint32_t g = 0; g < w->group_count; g++) {
    total += groups[g].gpu_count;
  }
  w->collectives = new_u32(w->group_count);
  w->member_offset = new_u32(w->group_count);
  w->members = new_u32(total);
  w->joined_offset = new_u32(w->gpu_count);
  w->joined = new_u32(total);
  // Counting by GPU first sorts both tables.
  for (uint32_t g = 0; g < w->group_count; g++) {
    w->collectives[g] = groups[g].collective_count;
    w->member_offset[g + 1] = w->member_offset[g] + groups[g].gpu_count;
    for (uint32_t m = 0; m < groups[g].gpu_count; m++) {
      w->joined_offset[groups[g].gpus[m] + 1]++;
    }
  }
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    w->joined_offset[i + 1] += w->joined_offset[i];
  }
  uint32_t *fill = new_u32(w->gpu_count > w->group_count ? w->gpu_count : w->group_count);
  for (uint32_t g = 0; g < w->group_count; g++) {
    for (uint32_t m = 0; m < groups[g].gpu_count; m++) {
      uint32_t gpu = groups[g].gpus[m];
      w->joined[w->joined_offset[gpu] + fill[gpu]++] = g;
    }
  }
  memset(fill, 0, sizeof(*fill) * w->group_count);
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    for (uint32_t k = w->joined_offset[i]; k < w->joined_offset[i + 1]; k++) {
      uint32_t g = w->joined[k];
      w->members[w->member_offset[g] + fill[g]++] = i;
    }
  }
  free(fill);
}

// Appends one GPU's segments for the interleaved order. A new segment begins where a group runs
// out; the remaining groups take turns in it.
static void list_interleave(struct rondo_sim_world *w, uint32_t gpu, uint32_t *segment,
                            uint32_t *act) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  uint32_t count = w->joined_offset[gpu + 1] - w->joined_offset[gpu];
  uint32_t slot = 0, layer = 0;
  for (;;) {
    uint32_t width = 0, until = UINT32_MAX;
    for (uint32_t k = 0; k < count; k++) {
      uint32_t n = w->collectives[joined[k]];
      if (n > layer) {
        w->active[*act + width++] = k;
        until = n < until ? n : until;
      }
    }
    if (width == 0) {
      return;
    }
    w->segments[(*segment)++] = (struct rondo_sim_segment){slot, layer, until - layer, width, *act};
    *act += width;
    slot += (until - layer) * width;
    layer = until;
  }
}

static void list_append(struct rondo_sim_world *w, uint32_t gpu, uint32_t *segment, uint32_t *act) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  uint32_t count = w->joined_offset[gpu + 1] - w->joined_offset[gpu];
  uint32_t slot = 0;
  for (uint32_t k = 0; k < count; k++) {
    uint32_t n = w->collectives[joined[k]];
    if (n > 0) {
      w->active[*act] = k;
      w->segments[(*segment)++] = (struct rondo_sim_segment){slot, 0, n, 1, (*act)++};
      slot += n;
    }
  }
}

static void lay_lists(struct rondo_sim_world *w) {
  uint64_t actives = 0, joins = w->joined_offset[w->gpu_count];
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    uint64_t n = w->joined_offset[i + 1] - w->joined_offset[i];
    actives += n * (n + 1) / 2;
  }
  w->segments = rondo_sim_calloc(joins, sizeof(*w->segments));
  w->active = new_u32(actives);
  w->segment_offset = new_u32(w->gpu_count);
  w->slot_offset = rondo_sim_calloc(w->gpu_count + 1u, sizeof(uint64_t));
  uint32_t segment = 0, act = 0;
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    if (w->order == RONDO_SIM_INTERLEAVED) {
      list_interleave(w, i, &segment, &act);
    } else {
      list_append(w, i, &segment, &act);
    }
    w->segment_offset[i + 1] = segment;
    uint64_t length = 0;
    for (uint32_t k = w->joined_offset[i]; k < w->joined_offset[i + 1]; k++) {
      length += w->collectives[w->joined[k]];
    }
    w->slot_offset[i + 1] = w->slot_offset[i] + length;
    w->uniform_length = i == 0                        ? (uint32_t)length
                        : w->uniform_length == length ? w->uniform_length
                                                      : 0;
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

static void find_components(struct rondo_sim_world *w) {
  uint32_t *parent = new_u32(w->gpu_count), *number = new_u32(w->gpu_count);
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
    uint32_t root = root_of(parent, i);
    if (root == i) {
      number[i] = w->component_count++;
    }
    w->component[i] = number[root];
    w->component_first[w->component[i] + 1]++;
  }
  for (uint32_t c = 0; c < w->component_count; c++) {
    w->component_first[c + 1] += w->component_first[c];
    number[c] = w->component_first[c];
  }
  for (uint32_t i = 0; i < w->gpu_count; i++) {
    w->component_gpus[number[w->component[i]]++] = i;
  }
  free(parent);
  free(number);
}

void rondo_sim_world_init(struct rondo_sim_world *w, const struct rondo_sim_group *groups,
                          uint32_t group_count, uint32_t gpu_count, enum rondo_sim_order order) {
  *w = (struct rondo_sim_world){.order = order, .gpu_count = gpu_count, .group_count = group_count};
  store_groups(w, groups);
  lay_lists(w);
  find_components(w);
}

void rondo_sim_world_fini(struct rondo_sim_world *w) {
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
  *w = (struct rondo_sim_world){0};
}

uint32_t rondo_sim_world_gpu_at(const struct rondo_sim_world *w, uint64_t at) {
  if (w->uniform_length) {
    return (uint32_t)(at / w->uniform_length);
  }
  uint32_t low = 0, high = w->gpu_count;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (w->slot_offset[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

struct rondo_sim_collective rondo_sim_world_at(const struct rondo_sim_world *w, uint32_t gpu,
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
static int rank_in(const struct rondo_sim_world *w, const struct rondo_sim_segment *s,
                   uint32_t place) {
  for (uint32_t k = 0; k < s->width; k++) {
    if (w->active[s->first_active + k] == place) {
      return (int)k;
    }
  }
  return -1;
}

uint32_t rondo_sim_world_place(const struct rondo_sim_world *w, uint32_t gpu, uint32_t group) {
  const uint32_t *joined = w->joined + w->joined_offset[gpu];
  uint32_t place = 0;
  while (joined[place] != group) {
    place++;
  }
  return place;
}

uint32_t rondo_sim_world_slot(const struct rondo_sim_world *w, uint32_t gpu,
                              struct rondo_sim_collective c) {
  uint32_t place = rondo_sim_world_place(w, gpu, c.group);
  const struct rondo_sim_segment *s = &w->segments[w->segment_offset[gpu]];
  int rank = rank_in(w, s, place);
  while (rank < 0 || c.index >= s->first_index + s->layers) {
    s++;
    rank = rank_in(w, s, place);
  }
  return s->first_slot + (c.index - s->first_index) * s->width + (uint32_t)rank;
}

uint32_t rondo_sim_world_count_below(const struct rondo_sim_world *w, uint32_t gpu, uint32_t place,
                                     uint32_t slot) {
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

uint32_t rondo_sim_world_lower_bound(const struct rondo_sim_world *w, uint32_t gpu, uint64_t key) {
  uint32_t low = 0, high = rondo_sim_world_length(w, gpu);
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (rondo_sim_world_key_at(w, gpu, middle) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
