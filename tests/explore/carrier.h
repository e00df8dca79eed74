// The carrier (runtime/transport/carrier.h) of an explored job: each link delivers the messages of
// proxies after a random time and in any order; a link that is cut loses some of them.
#ifndef RONDO_TESTS_EXPLORE_CARRIER_H
#define RONDO_TESTS_EXPLORE_CARRIER_H

#include "runtime/transport/carrier.h"
#include "tests/explore/random.h"

extern const struct rondo_carrier_calls explore_carrier;

struct rondo_proxy;

// Of a user with several jobs at a time, and processes that are stopped or cut off.
struct explore_carrier_calls {
  uint32_t (*net_of)(const struct rondo_proxy *proxy);    // the number of its job, below 64
  int (*waits)(uint32_t net, uint32_t from, uint32_t to); // messages do not arrive now
};

// Forgets the last jobs. `random` chooses from now on. `calls`: null for one job, number 0.
void explore_carrier_reset(struct random *random, const struct explore_carrier_calls *calls);

// The process does nothing any more.
void explore_carrier_crash(uint32_t net, uint32_t process);

// Runs a round of the proxy of one process, if it has one. Returns 1 if anything moved.
int explore_carrier_progress(uint32_t process);

// Cuts the link between two processes.
void explore_carrier_cut(uint32_t a, uint32_t b);

#endif // RONDO_TESTS_EXPLORE_CARRIER_H
