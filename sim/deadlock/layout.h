// The layout of one simulation: which GPUs are in which group, how many collectives each group has,
// and in what order each GPU would invoke them if nothing went wrong (DFCCL section 2.4.1).
//
// A GPU's planned list is not stored. Arithmetic over a few *segments* converts a *slot* of the
// list to a collective and back, so 100,000 GPUs with 1,600 collectives each take a few megabytes.
// A collective is named by its group and its index in the group's list. Every planned list is
// sorted by the *key* of its collectives. Keys are the same on all GPUs, so all GPUs agree without
// disorder.
//
//   rondo_sim_layout_init(&w, groups, group_count, gpu_count, order);  ...
//   rondo_sim_layout_fini(&w);
//
// After init a layout is read-only, and threads may share it.
#ifndef RONDO_SIM_DEADLOCK_LAYOUT_H
#define RONDO_SIM_DEADLOCK_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

// How a GPU orders the collectives of its groups.
enum rondo_sim_order {
  RONDO_SIM_INTERLEAVED, // the first of each group, then the second of each group, and so on
  RONDO_SIM_SEQUENTIAL   // all of one group, then all of the next
};

// One group, as init gets it.
struct rondo_sim_group {
  const uint32_t *gpus; // distinct, each below the layout's gpu_count
  uint32_t gpu_count;
  uint32_t collective_count;
};

struct rondo_sim_collective {
  uint32_t group, index;
};

// A stretch of a GPU's list in which `width` groups take turns, one collective each.
struct rondo_sim_segment {
  uint32_t first_slot, first_index, layers, width;
  uint32_t first_active; // into layout.active: the places, in the GPU's group list, that take turns
};

struct rondo_sim_layout {
  enum rondo_sim_order order;
  uint32_t gpu_count, group_count, component_count;
  uint64_t slot_count;      // over all GPUs
  uint32_t uniform_length;  // the list length of every GPU where all are equal, else 0
  uint32_t *collectives;    // of each group
  uint32_t *member_offset;  // group_count + 1, into members
  uint32_t *members;        // ascending inside a group
  uint32_t *joined_offset;  // gpu_count + 1, into joined
  uint32_t *joined;         // groups of each GPU, ascending
  uint32_t *segment_offset; // gpu_count + 1, into segments
  struct rondo_sim_segment *segments;
  uint32_t *active;
  uint32_t active_count;
  uint64_t *slot_offset;     // gpu_count + 1: where a GPU's list begins among all slots
  uint32_t *component;       // of each GPU: GPUs that share groups, directly or through others
  uint32_t *component_first; // component_count + 1, into component_gpus
  uint32_t *component_gpus;  // ascending inside a component
};

// Builds the layout of `group_count` groups, each with at least one GPU. The layout owns all its
// memory.
void rondo_sim_layout_init(struct rondo_sim_layout *w, const struct rondo_sim_group *groups,
                           uint32_t group_count, uint32_t gpu_count, enum rondo_sim_order order);
void rondo_sim_layout_fini(struct rondo_sim_layout *w);

// The number of collectives that a GPU invokes in a round.
static inline uint32_t rondo_sim_layout_length(const struct rondo_sim_layout *w, uint32_t gpu) {
  return (uint32_t)(w->slot_offset[gpu + 1] - w->slot_offset[gpu]);
}

static inline uint32_t rondo_sim_layout_size(const struct rondo_sim_layout *w, uint32_t group) {
  return w->member_offset[group + 1] - w->member_offset[group];
}

// The GPU whose list holds position `at` among all slots.
uint32_t rondo_sim_layout_gpu_at(const struct rondo_sim_layout *w, uint64_t at);

// The collective planned at a slot of a GPU's list.
struct rondo_sim_collective rondo_sim_layout_at(const struct rondo_sim_layout *w, uint32_t gpu,
                                                uint32_t slot);

// The place of a group among the groups of a GPU that has joined it.
uint32_t rondo_sim_layout_place(const struct rondo_sim_layout *w, uint32_t gpu, uint32_t group);

// The slot at which a GPU plans a collective of a group that it has joined.
uint32_t rondo_sim_layout_slot(const struct rondo_sim_layout *w, uint32_t gpu,
                               struct rondo_sim_collective c);

// The number of collectives of the GPU's `place`-th group in the planned slots below `slot`.
uint32_t rondo_sim_layout_count_below(const struct rondo_sim_layout *w, uint32_t gpu,
                                      uint32_t place, uint32_t slot);

// The first slot whose collective has a key of at least `key`, or the length of the list.
uint32_t rondo_sim_layout_lower_bound(const struct rondo_sim_layout *w, uint32_t gpu, uint64_t key);

// The key of a collective; every GPU plans its collectives in order of their keys.
static inline uint64_t rondo_sim_layout_key(const struct rondo_sim_layout *w,
                                            struct rondo_sim_collective c) {
  return w->order == RONDO_SIM_INTERLEAVED ? (uint64_t)c.index << 32 | c.group
                                           : (uint64_t)c.group << 32 | c.index;
}

static inline uint64_t rondo_sim_layout_key_at(const struct rondo_sim_layout *w, uint32_t gpu,
                                               uint32_t slot) {
  return rondo_sim_layout_key(w, rondo_sim_layout_at(w, gpu, slot));
}

#endif // RONDO_SIM_DEADLOCK_LAYOUT_H
