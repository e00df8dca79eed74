// A full fence in two halves, for two threads that each write a word and then read the other's
// word. The thread that does so in every run passes the light half, which costs nothing. The thread
// that does so before it sleeps or ends passes the heavy half: a system call (Linux, membarrier)
// that is a fence in every thread of the process. Then at least one thread sees what the other
// wrote, as if both had passed a fence. If the system lacks the call, each half is a fence.
#ifndef RONDO_BASE_FENCE_H
#define RONDO_BASE_FENCE_H

#include <stdint.h>

#include "base/atomic.h"

extern uint32_t rondo_fence_is_lopsided; // 1: the heavy half does the light half's work

// A full fence of this thread.
static inline void rondo_fence_full(void) {
#if defined(__x86_64__)
  __asm__ volatile("lock; orl $0, (%%rsp)" : : : "memory", "cc"); // takes half the time of mfence
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

// Makes the fence lopsided if the system has the call; before that each half is a fence. Any thread
// may call it, any number of times.
void rondo_fence_open(void);

#endif // RONDO_BASE_FENCE_H
