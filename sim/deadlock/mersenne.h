// The Mersenne Twister MT19937 (Matsumoto and Nishimura), seeded and read like CPython's `random`.
// Only a published configuration with fix_seed uses it, to give the published rounds.
#ifndef RONDO_SIM_DEADLOCK_MERSENNE_H
#define RONDO_SIM_DEADLOCK_MERSENNE_H

#include <stdint.h>

#define RONDO_SIM_MERSENNE_WORDS 624

struct rondo_sim_mersenne {
  uint32_t state[RONDO_SIM_MERSENNE_WORDS];
  uint32_t next;
};

// The state after `random.seed(seed)`.
void rondo_sim_mersenne_seed(struct rondo_sim_mersenne *m, uint32_t seed);

// The next `random.random()`: uniform in [0, 1).
double rondo_sim_mersenne_unit(struct rondo_sim_mersenne *m);

#endif // RONDO_SIM_DEADLOCK_MERSENNE_H
