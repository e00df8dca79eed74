// The inputs and the expected outputs of a run: numbers so small that every element type holds
// them, and every partial sum, exactly.
#ifndef RONDO_TESTS_EXPLORE_VALUES_H
#define RONDO_TESTS_EXPLORE_VALUES_H

#include <stdint.h>

#include "tests/explore/program.h"

// Identifies the run of a registration: seeds its values.
struct explore_key {
  const struct explore_period *period;
  uint64_t salt;
};

struct explore_key explore_key_make(uint64_t seed, const struct explore_coll *coll, uint32_t period,
                                    uint32_t run);

// The scalar that the member at a position registers.
double explore_scalar(uint32_t position);

// Elements of the buffers of the member at a position.
uint32_t explore_send_count(const struct explore_period *d, uint32_t position);
uint32_t explore_recv_count(const struct explore_period *d, uint32_t position);

// Elements that go from one member to another in an all-to-all-v.
uint32_t explore_pair_count(const struct explore_period *d, uint32_t from, uint32_t to);

// Writes `count` elements of the input of `position` from `first` on.
void explore_fill(const struct explore_key *key, uint32_t position, void *buffer, uint32_t first,
                  uint32_t count);

// The first element of the receive buffer of `position` that is not as it must be, or -1. With
// quantised messages: whose error is larger than its bound.
int64_t explore_find_wrong(const struct explore_key *key, uint32_t position, const void *recv);

// The same of an input.
int64_t explore_find_changed(const struct explore_key *key, uint32_t position, const void *send);

#endif // RONDO_TESTS_EXPLORE_VALUES_H
