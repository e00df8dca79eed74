// Programs on the drop-in libnccl in the explorer: the same code over ranks that the explorer
// steps.
//
// Each rank has two threads. They make calls on a communicator and on its children, which they
// create on the way, in groups and without. Each rank has its own order across communicators.
#ifndef RONDO_TESTS_EXPLORE_NCCL_H
#define RONDO_TESTS_EXPLORE_NCCL_H

#include <stdint.h>

struct explore_machine;

// Draws a program from the machine's seed and makes the first communicators. `odd`: one rank of one
// of the parts makes a call of another size than the others.
void explore_nccl_init(struct explore_machine *m, int odd);

// Ends all communicators, once their ranks are gone.
void explore_nccl_fini(void);

// As those of the application (machine.h).
int explore_nccl_act(struct explore_machine *m, uint32_t rank);
int explore_nccl_is_done(const struct explore_machine *m, uint32_t rank);

#endif // RONDO_TESTS_EXPLORE_NCCL_H
