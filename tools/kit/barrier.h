// A barrier for timing: leaving it takes one cache-line transfer if all participants have a core,
// and a long wait sleeps. It lies in plain memory, so threads of one process and processes that
// share a mapping use the same code, and a comparison of the two starts both alike.
#ifndef RONDO_TOOLS_KIT_BARRIER_H
#define RONDO_TOOLS_KIT_BARRIER_H

#include <stdint.h>

struct rondo_kit_barrier {
  _Alignas(128) _Atomic uint32_t arrived;
  _Alignas(128) _Atomic uint32_t round; // what waiting participants watch
  _Atomic uint32_t sleepers;
  uint32_t count;
  uint32_t spins; // before yielding; 0 if participants outnumber cores
};

// Prepares a barrier for `count` participants, which may use `cores` cores together. No participant
// may be in the barrier.
void rondo_kit_barrier_init(struct rondo_kit_barrier *barrier, uint32_t count, uint32_t cores);

// Returns when all participants have called it. Spins, then yields, then sleeps. If the
// participants are launched processes (processes.h) and one of them is gone, it ends the program
// with status 1.
void rondo_kit_barrier_wait(struct rondo_kit_barrier *barrier);

#endif // RONDO_TOOLS_KIT_BARRIER_H
