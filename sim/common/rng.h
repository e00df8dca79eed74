// Random numbers of the simulators: xoshiro256++ (Blackman and Vigna), one stream for each round.
//
// A stream depends on the seed, the grouping and the round alone, so the result does not depend on
// threads. Each stream belongs to one thread.
#ifndef RONDO_SIM_COMMON_RNG_H
#define RONDO_SIM_COMMON_RNG_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct rondo_sim_rng {
  uint64_t s[4];
};

static inline uint64_t rondo_sim_splitmix(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Begins the stream of one round of one grouping.
static inline void rondo_sim_rng_begin(struct rondo_sim_rng *r, uint64_t seed, uint64_t grouping,
                                       uint64_t round) {
  uint64_t state = seed;
  state = rondo_sim_splitmix(&state) ^ grouping;
  state = rondo_sim_splitmix(&state) ^ round;
  for (int i = 0; i < 4; i++) {
    r->s[i] = rondo_sim_splitmix(&state);
  }
}

static inline uint64_t rondo_sim_rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static inline uint64_t rondo_sim_rng_next(struct rondo_sim_rng *r) {
  uint64_t *s = r->s;
  uint64_t result = rondo_sim_rotl(s[0] + s[3], 23) + s[0];
  uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rondo_sim_rotl(s[3], 45);
  return result;
}

// Uniform in [0, 1), a multiple of 2^-53.
static inline double rondo_sim_rng_unit(struct rondo_sim_rng *r) {
  return (double)(rondo_sim_rng_next(r) >> 11) * 0x1p-53;
}

// Uniform in 0 .. bound-1, without bias (Lemire). bound > 0.
static inline uint32_t rondo_sim_rng_below(struct rondo_sim_rng *r, uint32_t bound) {
  uint64_t m = (rondo_sim_rng_next(r) >> 32) * bound;
  if ((uint32_t)m < bound) {
    uint32_t threshold = -bound % bound;
    while ((uint32_t)m < threshold) {
      m = (rondo_sim_rng_next(r) >> 32) * bound;
    }
  }
  return (uint32_t)(m >> 32);
}

// A rare event with a fixed probability, prepared so that a jump costs one logarithm.
struct rondo_sim_rare {
  double probability;
  double scale; // 1 / log(1 - probability)
};

static inline struct rondo_sim_rare rondo_sim_rare_make(double probability) {
  bool proper = probability > 0 && probability < 1;
  return (struct rondo_sim_rare){probability, proper ? 1 / log1p(-probability) : 0};
}

// The number of trials that fail before the next success (geometric): one draw instead of one for
// each trial. A probability of 0 gives a number larger than any count of trials.
static inline uint64_t rondo_sim_rare_jump(const struct rondo_sim_rare *rare,
                                           struct rondo_sim_rng *r) {
  if (rare->probability >= 1) {
    return 0;
  }
  if (rare->probability <= 0) {
    return UINT64_MAX >> 2;
  }
  double u = (double)((rondo_sim_rng_next(r) >> 11) + 1) * 0x1p-53; // in (0, 1]
  double jump = log(u) * rare->scale;
  return jump < 0x1p62 ? (uint64_t)jump : UINT64_MAX >> 2;
}

#endif // RONDO_SIM_COMMON_RNG_H
