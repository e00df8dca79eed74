// Communicators in the explorer: ranks make random calls by order, and one rank may make a
// different call.
#ifndef RONDO_TESTS_EXPLORE_COMM_H
#define RONDO_TESTS_EXPLORE_COMM_H

#include <stdint.h>

struct explore_machine;

// Draws calls from the machine's seed, beside its program, and makes the ends. `odd`: one rank
// makes another call than the others, leaves one out or makes one twice.
void explore_comm_init(struct explore_machine *m, int odd);

// As those of the application (machine.h).
int explore_comm_act(struct explore_machine *m, uint32_t rank);
int explore_comm_is_done(const struct explore_machine *m, uint32_t rank);
void explore_comm_sweep(struct explore_machine *m, uint32_t rank);

#endif // RONDO_TESTS_EXPLORE_COMM_H
