// The programs of some GPUs in one round (what each GPU invokes, in order, with its
// synchronisations), and whether all can run to their end.
//
// Collectives are numbered locally, so the cost of a *region* of the world (a few GPUs, a range of
// keys) depends on the region alone. A cycle of waits lies inside a region: each step of a cycle
// that goes up in key needs one that goes down, and only a window goes down (docs/simulator.md,
// "Why looking near a window is enough").
//
//   rondo_sim_programs_init(&p, &w);
//   rondo_sim_programs_region(&p, &w, &e, &range);  bool stuck = rondo_sim_programs_stuck(&p, k);
//   rondo_sim_programs_fini(&p);
//
// One programs object belongs to one thread. Its arrays grow until the largest region fits.
#ifndef RONDO_SIM_DEADLOCK_PROGRAMS_H
#define RONDO_SIM_DEADLOCK_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/world.h"

#define RONDO_SIM_UNLIMITED UINT32_MAX

// An item is a local collective number; this bit says that a synchronisation comes before it.
#define RONDO_SIM_SYNC_BEFORE 0x80000000u

// The collectives with low <= key <= high, and the GPUs that they link to `seeds`.
struct rondo_sim_range {
  uint64_t low, high;
  const uint32_t *seeds; // GPUs
  uint32_t seed_count;
};

struct rondo_sim_program {
  uint32_t gpu;   // in the world
  uint64_t first; // of its items
  uint32_t length;
  // While running:
  uint32_t next, executing;
  bool queued;
};

// A group of a region: a stretch of its collectives, and its members.
struct rondo_sim_local_group {
  uint32_t group;            // in the world
  uint32_t first_index;      // of the stretch
  uint32_t first_collective; // local number of the stretch's first
  uint32_t first_member;     // into members
};

struct rondo_sim_programs {
  struct rondo_sim_program *programs;
  uint32_t *items;
  struct rondo_sim_local_group *groups;
  uint32_t *members;    // program numbers
  uint32_t *group_of;   // of each local collective: number in groups
  uint32_t *missing;    // of each local collective: members that have not started it
  uint32_t *queue;      // program numbers
  uint32_t *gpu_mark;   // of each GPU of the world: program number + 1, 0 if not in the region
  uint32_t *group_mark; // of each group of the world: local number + 1, 0 if not in the region
  uint32_t program_count, group_count, collective_count, member_count;
  uint64_t item_count;
  uint64_t item_capacity;
  uint32_t program_capacity, group_capacity, collective_capacity, member_capacity;
};

void rondo_sim_programs_init(struct rondo_sim_programs *p, const struct rondo_sim_world *w);
void rondo_sim_programs_fini(struct rondo_sim_programs *p);

// Builds the region of `range` from the events of a round: every program with all its collectives
// in the range, and all their members.
void rondo_sim_programs_region(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                               const struct rondo_sim_events *e,
                               const struct rondo_sim_range *range);

// Begins a region of all GPUs and all collectives without items. The caller appends all items, GPU
// by GPU, with rondo_sim_programs_append().
void rondo_sim_programs_begin_all(struct rondo_sim_programs *p, const struct rondo_sim_world *w);
void rondo_sim_programs_append(struct rondo_sim_programs *p, uint32_t gpu,
                               struct rondo_sim_collective c, bool sync_before);

// Runs all programs as far as they can go. A GPU holds at most `limit` executing collectives: 1 is
// the single-queue model, RONDO_SIM_UNLIMITED the synchronisation model. True if some program
// cannot reach its end. The order of turns does not change how far programs get in these models, so
// the result is exact; p->programs[].next is where each stopped.
bool rondo_sim_programs_stuck(struct rondo_sim_programs *p, uint32_t limit);

// The end of the entries of a local group in p->members.
static inline uint32_t rondo_sim_programs_members_end(const struct rondo_sim_programs *p,
                                                      uint32_t group) {
  return group + 1 < p->group_count ? p->groups[group + 1].first_member : p->member_count;
}

// The world's name of a local collective.
struct rondo_sim_collective rondo_sim_programs_name(const struct rondo_sim_programs *p,
                                                    uint32_t collective);

#endif // RONDO_SIM_DEADLOCK_PROGRAMS_H
