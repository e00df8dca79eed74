// Orders in which a rank submits its collectives: pseudo-random permutations that a seed gives
// again.
#ifndef RONDO_EXAMPLES_KIT_PERMUTE_H
#define RONDO_EXAMPLES_KIT_PERMUTE_H

#include <stdint.h>

// Whose permutation it is; equal fields give equal permutations.
struct rondo_kit_permutation {
  uint64_t seed;
  uint32_t rank;
  uint32_t iteration;
};

// Writes the numbers below `count` to `order`, each once, in the order that `which` stands for.
void rondo_kit_permute(const struct rondo_kit_permutation *which, uint32_t count, uint32_t *order);

#endif // RONDO_EXAMPLES_KIT_PERMUTE_H
