// The carrier (runtime/transport/carrier.h) of an explored job: each link delivers the messages of
// proxies after a random time and in any order; a link that is cut loses some of them.
#ifndef RONDO_TESTS_EXPLORE_CARRIER_H
#define RONDO_TESTS_EXPLORE_CARRIER_H

#include "runtime/transport/carrier.h"
#include "tests/explore/random.h"

extern const struct rondo_carrier_calls explore_carrier;

// Forgets the last job. `random` chooses from now on.
void explore_carrier_reset(struct random *random);

// Runs a round of the proxy of one process, if it has one. Returns 1 if anything moved.
int explore_carrier_progress(uint32_t process);

// Cuts the link between two processes.
void explore_carrier_cut(uint32_t a, uint32_t b);

#endif // RONDO_TESTS_EXPLORE_CARRIER_H
