#include "runtime/links/spread.h"

#define LEAST_RATE (UINT64_C(512) << 10) // with less a trial would take seconds

bool rondo_spread_is_due(uint64_t rate) { return rate >= LEAST_RATE; }

bool rondo_spread_goes_on(const uint64_t rates[RONDO_SPREADS]) {
  return rates[2] - rates[2] / 10 > rates[0];
}

uint32_t rondo_spread_choose(const uint64_t rates[RONDO_SPREADS]) {
  uint64_t best = 0;
  uint32_t chosen = 0;
  for (uint32_t i = 0; i < RONDO_SPREADS; i++)
    best = rates[i] > best ? rates[i] : best;
  while (rates[chosen] < best - best / 10)
    chosen++;
  return chosen;
}
