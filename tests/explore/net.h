// The processes of an explored job, and the network between them: a mesh (runtime/net/mesh.h) that
// delivers the messages between two processes in order but after random times, and that can cut a
// link at any step. All in one process and on one thread.
#ifndef RONDO_TESTS_EXPLORE_NET_H
#define RONDO_TESTS_EXPLORE_NET_H

#include <stdint.h>

#include "tests/explore/program.h"

// Forgets the last job, and takes from `program` where each rank lives. `random` chooses how
// messages of proxies go.
void explore_net_reset(const struct explore_program *program, struct random *random);

// Gives a proxy a turn, or delivers one message, or tells one process where the others are, or
// makes one call that it has asked for. Returns 1 if there was anything to do. `random` chooses.
int explore_net_turn(struct random *random);

// Cuts the link between two processes. The membership removes one of them after some time, if that
// has not left until then: some of what is on the way to and from it still arrives, and then each
// process is told that its ranks are lost, and it that all others are.
void explore_net_cut(struct random *random, uint32_t a, uint32_t b);

#endif // RONDO_TESTS_EXPLORE_NET_H
