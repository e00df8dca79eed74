// A barrier for timing: leaving it takes a cache-line hand-over when all
// participants have a core, and it costs nothing to wait in it for long. It lies in plain
// memory, so threads of one process and processes that share a mapping use the
// same code, and a comparison between the two starts both in the same way.
#ifndef RONDO_EXAMPLES_KIT_BARRIER_H
#define RONDO_EXAMPLES_KIT_BARRIER_H

#include <stdint.h>

struct rondo_kit_barrier {
  _Alignas(128) _Atomic uint32_t arrived;
  _Alignas(128) _Atomic uint32_t round; // what the others watch
  _Atomic uint32_t sleepers;
  uint32_t count;
  uint32_t spins; // looks before yielding; 0 where participants outnumber cores
};

// Prepares a barrier for `count` participants, who may use `cores` cores between them; nobody may be in it.
void rondo_kit_barrier_init(struct rondo_kit_barrier *barrier, uint32_t count, uint32_t cores);

// Returns when all participants have called it. Looks, then yields, then sleeps. Where they are
// processes of a fleet (fleet.h) and one of them is gone, it ends the program with status 1.
void rondo_kit_barrier_wait(struct rondo_kit_barrier *barrier);

#endif // RONDO_EXAMPLES_KIT_BARRIER_H
