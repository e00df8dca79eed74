// The decisions of the published DFCCL simulator, reproduced: what it calls a deadlock, which is
// not always one and misses some (docs/simulator.md, "The published simulator").
//
// Two ways to the same answers. The plain one draws every event, in the published order, so that
// with the same random numbers (mersenne.h) it gives the very same rounds. The quick one works from
// the events of events.h and jumps over the ordinary stretches.
//
// GPUs take turns in ascending order; lists are interleaved; a skipped collective keeps its odds.
// Single queue: each *group* holds the collectives that its members submitted; two different ones
// are a deadlock; a member that draws another one while it waits loses it. Synchronisation: a GPU
// that synchronises with something outstanding hangs until that is done; when one hangs, and one of
// its outstanding collectives is unsubmitted on some hung GPU, and something it has not submitted
// is outstanding on some hung GPU, that is a deadlock. With a resource limit, a group whose members
// all have that many outstanding is one too.
//
// One object belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_PUBLISHED_H
#define RONDO_SIM_DEADLOCK_PUBLISHED_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/mersenne.h"
#include "sim/deadlock/rng.h"
#include "sim/deadlock/slots.h"
#include "sim/deadlock/world.h"

// Where the plain engine's random numbers come from; exactly one is set.
struct rondo_sim_draws {
  struct rondo_sim_rng *rng;
  struct rondo_sim_mersenne *mersenne;
  const struct rondo_sim_events *events; // nothing is drawn: these happen (drawn with all_syncs)
};

struct rondo_sim_published {
  const struct rondo_sim_world *world; // interleaved
  bool single;
  double disorder, synchronisation;
  uint32_t resource_limit; // 0: none
  uint64_t *first_index;   // of each group: its first collective among all
  uint32_t *list;          // of all GPUs: planned slots not submitted yet, at slot_offset
  uint32_t *submitted_count, *outstanding; // of each GPU
  uint32_t *remaining;                     // of each collective: members that have not submitted it
  uint8_t *submitted;                      // of each slot: whether its collective is submitted
  bool *hung;                              // of each GPU
  uint32_t *synced;                        // of each GPU: synchronisations since it last submitted
  struct rondo_sim_slots slots;            // single queue
};

void rondo_sim_published_init(struct rondo_sim_published *p, const struct rondo_sim_world *w,
                              bool single, const struct rondo_sim_chances *chances,
                              uint32_t resource_limit);
void rondo_sim_published_fini(struct rondo_sim_published *p);

// Plays one round, drawing every event. True for what the published simulator calls a deadlock.
bool rondo_sim_published_round(struct rondo_sim_published *p, struct rondo_sim_draws draws);

#endif // RONDO_SIM_DEADLOCK_PUBLISHED_H
