// A full fence in two halves. Of two parties that each write a word and then read the other's, one does so in
// every run and the other when it is about to sleep or to end: the former passes the light half, which
// costs nothing, the latter the heavy one, a system call (Linux, membarrier) that is a fence in every thread of
// the process. Then at least one of them sees what the other wrote, as if both had passed a fence. Where
// the system has no such call, each half is a fence itself.
#ifndef RONDO_BASE_FENCE_H
#define RONDO_BASE_FENCE_H

#include <stdint.h>

#include "base/atomic.h"

extern uint32_t rondo_fence_is_lopsided; // 1: the heavy half does what the light one leaves out

// Whole, for this thread alone.
static inline void rondo_fence_full(void) {
#if defined(__x86_64__)
  __asm__ volatile("lock; orl $0, (%%rsp)" : : : "memory", "cc"); // half of what mfence takes
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline void rondo_fence_light(void) {
  if (rondo_load_relaxed_u32(&rondo_fence_is_lopsided))
    __asm__ volatile("" : : : "memory");
  else
    rondo_fence_full();
}

void rondo_fence_heavy(void);

// Makes the fence lopsided if the system knows how to. Until then, and else, it works as well. Any thread, also again.
void rondo_fence_open(void);

#endif // RONDO_BASE_FENCE_H
