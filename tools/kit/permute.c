#include "tools/kit/permute.h"

static uint64_t random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void rondo_kit_permute(const struct rondo_kit_permutation *which, uint32_t count, uint32_t *order) {
  uint64_t state = which->seed;
  state = random_next(&state) + which->rank;
  state = random_next(&state) + which->iteration;
  for (uint32_t i = 0; i < count; i++)
    order[i] = i;
  for (uint32_t left = count; left > 1; left--) {
    uint32_t i = left - 1;
    uint32_t j = (uint32_t)(random_next(&state) % left);
    uint32_t other = order[j];
    order[j] = order[i];
    order[i] = other;
  }
}
