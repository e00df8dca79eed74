// The programs of a round with every event drawn, as DFCCL section 2.4.1 describes the simulator's
// input: slow, plain, and the yardstick of the sampler in events.h.
#ifndef RONDO_SIM_DEADLOCK_NAIVE_H
#define RONDO_SIM_DEADLOCK_NAIVE_H

#include "sim/deadlock/events.h"
#include "sim/deadlock/programs.h"
#include "sim/deadlock/rng.h"
#include "sim/deadlock/world.h"

// Fills `p` (initialised for `w`) with the programs of all GPUs for one round. At each turn of a
// GPU draws for a synchronisation (several in a row act as one), then walks the outstanding
// collectives, drawing for each whether it is skipped. Any number of
// threads, each with its own p and rng.
void rondo_sim_naive_draw(struct rondo_sim_programs *p, const struct rondo_sim_world *w,
                          const struct rondo_sim_chances *chances, struct rondo_sim_rng *rng);

#endif // RONDO_SIM_DEADLOCK_NAIVE_H
