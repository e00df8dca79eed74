// The published simulator's decisions (published_literal.h), computed from the events of a round.
//
// Single queue: a component is played turn by turn only while it is out of step; then it jumps to
// the next window. A component whose undisturbed round is out of step is played from its first
// turn. Synchronisation: no turn is played. The position of a GPU follows from the turn and its
// lag; synchronisations and awakenings are the only events, in order of their turns; the
// outstanding collectives follow from the positions of group members.
//
// The answers equal those of rondo_sim_published_round() on the same events (test_sim_published.c).
// A resource limit is not supported: its check looks at every submission.
//
// One object belongs to one thread.
#ifndef RONDO_SIM_DEADLOCK_PUBLISHED_QUICK_H
#define RONDO_SIM_DEADLOCK_PUBLISHED_QUICK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/deadlock/events.h"
#include "sim/deadlock/layout.h"
#include "sim/deadlock/published_slots.h"

// The state of a GPU in the synchronisation decision. A time is turn x GPUs + GPU.
struct rondo_sim_quick_gpu {
  int64_t lag;       // slot s is submitted at turn s + lag, if no more synchronisation comes
  uint32_t sync;     // the next of its synchronisations
  uint32_t repeats;  // how often this one is done
  uint32_t position; // while hung: slots submitted
  uint64_t wake;     // while hung: not before this time; UINT64_MAX if it needs a hung GPU
  bool hung;
};

struct rondo_sim_quick_event {
  uint64_t time;
  uint32_t gpu;
  bool awakening;
};

struct rondo_sim_quick {
  const struct rondo_sim_layout *layout;
  bool single;
  bool *in_step; // single: of each component, whether it stays so undisturbed
  bool all_in_step;
  struct rondo_sim_slots slots; // single
  uint32_t *window_first;       // of each GPU
  uint32_t *sync_first;         // of each GPU
  struct rondo_sim_quick_gpu *gpus;
  struct rondo_sim_quick_event *heap;
  uint32_t heap_count, heap_capacity;
  uint32_t *hung; // list
  uint32_t hung_count;
};

void rondo_sim_quick_init(struct rondo_sim_quick *q, const struct rondo_sim_layout *w, bool single);
void rondo_sim_quick_fini(struct rondo_sim_quick *q);

// True if the published simulator calls the round a deadlock. The events must have been drawn with
// `all_syncs`.
bool rondo_sim_quick_deadlock(struct rondo_sim_quick *q, const struct rondo_sim_events *e);

// The synchronisation half: plays one component; q->window_first and q->sync_first are up to date.
bool rondo_sim_quick_sync(struct rondo_sim_quick *q, const struct rondo_sim_events *e,
                          uint32_t component);

#endif // RONDO_SIM_DEADLOCK_PUBLISHED_QUICK_H
