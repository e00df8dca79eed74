// The decisions of the published DFCCL simulator, reproduced. It calls some rounds deadlocks that
// are none and misses others (docs/simulator.md, "The published simulator").
//
// There are two ways. The plain one draws every event in the published order, so the same random
// numbers (mersenne.h) give the same rounds. The quick one (published_quick.h) uses the events of
// events.h and jumps over ordinary stretches.
//
// GPUs take turns in ascending order; lists are interleaved; a skipped collective keeps its odds.
// Single queue: each *group* holds the collectives that its members submitted. Two different ones
// are a deadlock; a member that draws another one while it waits loses it. Synchronisation: a GPU
// that synchronises with something outstanding hangs until that is done. It is a deadlock if at
// that moment some hung GPU has not submitted one of its outstanding collectives, and some hung GPU
// has one outstanding that it has not submitted. Resource limit: a group whose members all have
// that many outstanding is a deadlock.
//
// One object belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_PUBLISHED_LITERAL_H
#define RONDO_SIM_DEADLOCK_PUBLISHED_LITERAL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/layout.h"
#include "sim/deadlock/mersenne.h"
#include "sim/deadlock/published_slots.h"
#include "sim/common/rng.h"

// The source of the plain engine's random numbers; exactly one is set.
struct rondo_sim_draws {
  struct rondo_sim_rng *rng;
  struct rondo_sim_mersenne *mersenne;
  // draws nothing: these events happen (drawn with all_syncs)
  const struct rondo_sim_events *events;
};

struct rondo_sim_published_gpu {
  uint32_t submitted, outstanding; // collectives
  uint32_t synced;                 // synchronisations since it last submitted
  bool hung;
};

struct rondo_sim_published {
  const struct rondo_sim_layout *layout; // interleaved
  bool single;
  double disorder, synchronisation;
  uint32_t resource_limit; // 0: none
  uint64_t *first_index;   // of each group: its first collective among all
  uint32_t *list;          // of all GPUs: planned slots not submitted yet, at slot_offset
  uint32_t *remaining;     // of each collective: members that have not submitted it
  uint8_t *submitted;      // of each slot: whether its collective is submitted
  struct rondo_sim_published_gpu *gpus;
  struct rondo_sim_slots slots; // single queue
};

void rondo_sim_published_init(struct rondo_sim_published *p, const struct rondo_sim_layout *w,
                              bool single, const struct rondo_sim_chances *chances,
                              uint32_t resource_limit);
void rondo_sim_published_fini(struct rondo_sim_published *p);

// Plays one round and draws every event. True if the published simulator calls it a deadlock.
bool rondo_sim_published_round(struct rondo_sim_published *p, struct rondo_sim_draws draws);

#endif // RONDO_SIM_DEADLOCK_PUBLISHED_LITERAL_H
