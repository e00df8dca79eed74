// Draws every event of a round, as DFCCL section 2.4.1 describes it. Slow and plain; tests compare
// the sampler of events.h with it.
#ifndef RONDO_SIM_DEADLOCK_NAIVE_H
#define RONDO_SIM_DEADLOCK_NAIVE_H

#include "sim/deadlock/events.h"
#include "sim/deadlock/programs.h"
#include "sim/deadlock/rng.h"
#include "sim/deadlock/world.h"

// Fills `p` (initialised for `w`) with the programs of all GPUs for one round. At each turn a GPU
// draws for a synchronisation (several in a row act as one); then it walks its outstanding
// collectives and draws for each whether it is skipped. Threads may call it with their own p and
// rng.
void rondo_sim_naive_draw(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                          const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng);

#endif // RONDO_SIM_DEADLOCK_NAIVE_H
