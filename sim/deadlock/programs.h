// The programs of some GPUs in one round (what each GPU invokes, in order, with its
// synchronisations), and whether all can run to their end.
//
// Collectives are numbered locally, so the cost of a *region* of the layout (a few GPUs, a range of
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
#include "sim/deadlock/layout.h"
#include "sim/common/rng.h"

#define RONDO_SIM_UNLIMITED UINT32_MAX

// An item is a local collective number; this bit says that a synchronisation comes before it.
#define RONDO_SIM_SYNC_BEFORE 0x80000000u

// The collectives with low <= key <= high, and the GPUs that they link to `seeds`.
struct rondo_sim_range {
  uint64_t low, high;
  const uint32_t *seeds; // GPUs
  uint32_t seed_count;
};

// All collectives of a component.
static inline struct rondo_sim_range rondo_sim_range_of_component(const struct rondo_sim_layout *w,
                                                                  uint32_t component) {
  uint32_t first = w->component_first[component], end = w->component_first[component + 1];
  return (struct rondo_sim_range){0, UINT64_MAX, w->component_gpus + first, end - first};
}

struct rondo_sim_program {
  uint32_t gpu;   // in the layout
  uint64_t first; // of its items
  uint32_t length;
  // While running:
  uint32_t next, executing;
  bool stacked;
  uint32_t below; // while stacked: the next program of the stack
};

// A group of a region: a stretch of its collectives, and its members.
struct rondo_sim_local_group {
  uint32_t group;            // in the layout
  uint32_t first_index;      // of the stretch
  uint32_t first_collective; // local number of the stretch's first
  uint32_t first_member;     // into members
};

struct rondo_sim_local_collective {
  uint32_t group;   // local number
  uint32_t missing; // while running: members that have not started it
};

struct rondo_sim_programs {
  struct rondo_sim_program *programs;
  uint32_t *items;
  struct rondo_sim_local_group *groups; // the one after the last ends the lists of the last
  struct rondo_sim_local_collective *collectives;
  uint32_t *members;    // program numbers
  uint32_t *gpu_mark;   // of each GPU of the layout: program number + 1, 0 if not in the region
  uint32_t *group_mark; // of each group of the layout: local number + 1, 0 if not in the region
  uint32_t top;         // while running: of the stack of programs that may go on
  uint32_t program_count, group_count, collective_count, member_count;
  uint64_t item_count;
  uint64_t item_capacity;
  uint32_t program_capacity, group_capacity, collective_capacity, member_capacity;
};

void rondo_sim_programs_init(struct rondo_sim_programs *p, const struct rondo_sim_layout *w);
void rondo_sim_programs_fini(struct rondo_sim_programs *p);

// Builds the region of `range` from the events of a round: every program with all its collectives
// in the range, and all their members.
void rondo_sim_programs_region(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                               const struct rondo_sim_events *e,
                               const struct rondo_sim_range *range);

// Builds the programs of all GPUs and draws every event of the round, as DFCCL section 2.4.1
// describes it: slow and plain. At each turn a GPU draws for a synchronisation (several in a row
// act as one); then it walks its outstanding collectives and draws for each whether it is skipped.
void rondo_sim_programs_draw(struct rondo_sim_programs *p, const struct rondo_sim_layout *w,
                             const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng);

// Runs all programs as far as they can go. A GPU holds at most `limit` executing collectives: 1 is
// the single-queue model, RONDO_SIM_UNLIMITED the synchronisation model. True if some program
// cannot reach its end. The order of turns does not change how far programs get in these models, so
// the result is exact; p->programs[].next is where each stopped.
bool rondo_sim_programs_stuck(struct rondo_sim_programs *p, uint32_t limit);

// The layout's name of a local collective.
struct rondo_sim_collective rondo_sim_programs_name(const struct rondo_sim_programs *p,
                                                    uint32_t collective);

#endif // RONDO_SIM_DEADLOCK_PROGRAMS_H
