// The explorer's only source of chance: every decision comes from the seed.
#ifndef RONDO_TESTS_EXPLORE_RANDOM_H
#define RONDO_TESTS_EXPLORE_RANDOM_H

#include <stdint.h>

struct random {
  uint64_t state;
};

// SplitMix64: every state gives a good number, so seeds 0, 1, 2 … are as good as any.
static inline uint64_t random_mix(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static inline uint64_t random_next(struct random *r) {
  r->state += UINT64_C(0x9e3779b97f4a7c15);
  return random_mix(r->state);
}

// Below `bound`, which is not 0.
static inline uint32_t random_below(struct random *r, uint32_t bound) {
  return (uint32_t)((random_next(r) >> 32) * bound >> 32);
}

// 1 in `percent` of the cases.
static inline int random_chance(struct random *r, uint32_t percent) {
  return random_below(r, 100) < percent;
}

// Between `low` (at least 1) and about `high`; each power of two as likely as the next.
static inline uint64_t random_log(struct random *r, uint64_t low, uint64_t high) {
  uint32_t octaves = 0;
  while (low << (octaves + 1) <= high)
    octaves++;
  uint64_t base = low << random_below(r, octaves + 1);
  return base + random_next(r) % base;
}

#endif // RONDO_TESTS_EXPLORE_RANDOM_H
