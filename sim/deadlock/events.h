// The events of one round: skipped collectives and synchronisations.
//
// Nearly every invocation of a round is ordinary, and ordinary ones are not drawn. The sampler
// jumps from one skip to the next, and from one synchronisation to the next, over the slots of all
// GPUs laid end to end; a jump is one geometric draw. The distribution is exactly that of drawing
// every event (test_sim_sampling.c).
//
// A skip displaces the few collectives of a *window* of its GPU's list; outside windows the list is
// as planned. A synchronisation comes *before* the invocation at its slot.
//
//   struct rondo_sim_events e = {0};
//   rondo_sim_events_draw(&e, &w, &chances, false, &rng);  ... any number of rounds ...
//   rondo_sim_events_fini(&e);
//
// One events object belongs to one thread. Its arrays grow until the largest round fits; then a
// round allocates nothing.
#ifndef RONDO_SIM_DEADLOCK_EVENTS_H
#define RONDO_SIM_DEADLOCK_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/layout.h"
#include "sim/common/rng.h"

// What happens to a skipped collective; the paper leaves it open.
enum rondo_sim_skipped {
  RONDO_SIM_SKIPPED_KEEPS_ODDS, // it is first in line at the next turn and may be skipped again
  RONDO_SIM_SKIPPED_NEXT,       // it is invoked at the next turn for certain
  RONDO_SIM_SKIPPED_LAST        // it is invoked after all that the GPU did not skip
};

// The chances of disorder at one slot.
struct rondo_sim_chances {
  struct rondo_sim_rare disorder, synchronisation;
  enum rondo_sim_skipped skipped;
};

// The slots start .. start+length-1 of a GPU's list in the order of invocation: slot start+k
// invokes the collective that was planned at slot permuted[first_permuted+k].
struct rondo_sim_window {
  uint32_t gpu, start, length;
  uint32_t first_permuted;
};

// `count` synchronisations in a row before the invocation at position `at` among all slots.
struct rondo_sim_sync {
  uint64_t at;
  uint32_t count;
};

struct rondo_sim_events {
  struct rondo_sim_window *windows; // ascending by GPU and start; the one after the last has no GPU
  uint32_t *permuted;
  struct rondo_sim_sync *syncs; // ascending; the one after the last lies after all slots
  uint32_t *pending;            // scratch of the sampler
  uint32_t window_count, permuted_count, sync_count;
  uint32_t window_capacity, permuted_capacity, sync_capacity, pending_capacity;
};

void rondo_sim_events_fini(struct rondo_sim_events *e);

// Draws one round. Synchronisations are drawn only if there is a window: without one all GPUs keep
// the planned order, and no synchronisation can close a cycle. Several in a row act as one and are
// counted as one. `all_syncs` always draws them and counts repeats, which the published simulator's
// decisions need.
void rondo_sim_events_draw(struct rondo_sim_events *e, const struct rondo_sim_layout *w,
                           const struct rondo_sim_chances *chances, bool all_syncs,
                           struct rondo_sim_rng *rng);

// Adds the entry after the last window and the one after the last synchronisation. A caller that
// builds events by hand calls this at the end.
void rondo_sim_events_end(struct rondo_sim_events *e);

// The first window of a GPU that ends after `slot`; one of another GPU (or of none) if there is
// none.
const struct rondo_sim_window *rondo_sim_events_window(const struct rondo_sim_events *e,
                                                       uint32_t gpu, uint32_t slot);

// The planned slot of the collective that the GPU invokes at `slot`.
uint32_t rondo_sim_events_planned(const struct rondo_sim_events *e, uint32_t gpu, uint32_t slot);

// The first synchronisation at or after position `at` among all slots.
const struct rondo_sim_sync *rondo_sim_events_sync(const struct rondo_sim_events *e, uint64_t at);

#endif // RONDO_SIM_DEADLOCK_EVENTS_H
