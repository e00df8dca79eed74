// How many connections a link uses, decided from the rates of trials over 1, 2, 4 ... of them.
// Pure.
#ifndef RONDO_RUNTIME_LINKS_SPREAD_H
#define RONDO_RUNTIME_LINKS_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#define RONDO_SPREADS 5u // 1, 2, 4, 8, 16 connections

// True if a link of this rate is fast enough for trials.
bool rondo_spread_is_due(uint64_t rate);
// True if 4 connections are more than a tenth faster than 1, so that the others are tried too.
bool rondo_spread_goes_on(const uint64_t rates[RONDO_SPREADS]);
// The index of the first rate that is within a tenth of the best. 0: not tried.
uint32_t rondo_spread_choose(const uint64_t rates[RONDO_SPREADS]);

#endif // RONDO_RUNTIME_LINKS_SPREAD_H
