#include "sim/deadlock/mersenne.h"

enum { N = RONDO_SIM_MERSENNE_WORDS, M = 397 };

// Seeds with an array of one key word, as CPython does for an integer below 2^32.
void rondo_sim_mersenne_seed(struct rondo_sim_mersenne *m, uint32_t seed) {
  uint32_t *s = m->state;
  s[0] = 19650218u;
  for (uint32_t i = 1; i < N; i++) {
    s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
  }
  uint32_t i = 1;
  for (uint32_t k = 0; k < N; k++) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1664525u)) + seed;
    if (++i == N) {
      s[0] = s[N - 1];
      i = 1;
    }
  }
  for (uint32_t k = 0; k < N - 1; k++) {
    s[i] = (s[i] ^ ((s[i - 1] ^ (s[i - 1] >> 30)) * 1566083941u)) - i;
    if (++i == N) {
      s[0] = s[N - 1];
      i = 1;
    }
  }
  s[0] = 0x80000000u;
  m->next = N;
}

static void state_refill(struct rondo_sim_mersenne *m) {
  for (uint32_t i = 0; i < N; i++) {
    uint32_t y = (m->state[i] & 0x80000000u) | (m->state[(i + 1) % N] & 0x7fffffffu);
    m->state[i] = m->state[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
  }
  m->next = 0;
}

static uint32_t next_word(struct rondo_sim_mersenne *m) {
  if (m->next == N) {
    state_refill(m);
  }
  uint32_t y = m->state[m->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

double rondo_sim_mersenne_unit(struct rondo_sim_mersenne *m) {
  uint32_t a = next_word(m) >> 5, b = next_word(m) >> 6;
  return ((double)a * 67108864.0 + b) * 0x1p-53;
}
