// Orders in which a rank submits its collectives: pseudo-random permutations that a seed
// determines.
#ifndef RONDO_TOOLS_KIT_PERMUTE_H
#define RONDO_TOOLS_KIT_PERMUTE_H

#include <stdint.h>

// Equal fields give equal permutations.
struct rondo_kit_permutation {
  uint64_t seed;
  uint32_t rank;
  uint32_t iteration;
};

// Writes the permutation `which` of the numbers below `count` to `order`.
void rondo_kit_permute(const struct rondo_kit_permutation *which, uint32_t count, uint32_t *order);

#endif // RONDO_TOOLS_KIT_PERMUTE_H
