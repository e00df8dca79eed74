#include "tools/kit/barrier.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tools/kit/processes.h"

#define SPINS 20000u
#define YIELDS 2000u

// Not a private futex: participants may be processes. The sleep ends every second, because a
// process that was killed wakes nobody.
static void futex_sleep(_Atomic uint32_t *word, uint32_t value) {
  const struct timespec second = {1, 0};
  long result = syscall(SYS_futex, word, FUTEX_WAIT, value, &second, NULL, 0);
  if (result != 0 && errno == ETIMEDOUT && atomic_load(word) == value &&
      rondo_kit_processes_is_broken()) {
    fprintf(stderr, "pid %ld: another process of the job is gone\n", (long)getpid());
    exit(1);
  }
}

static void futex_wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

void rondo_kit_barrier_init(struct rondo_kit_barrier *barrier, uint32_t count, uint32_t cores) {
  atomic_init(&barrier->arrived, 0);
  atomic_init(&barrier->round, 0);
  atomic_init(&barrier->sleepers, 0);
  barrier->count = count;
  barrier->spins = count <= cores ? SPINS : 0;
}

static void round_wait(struct rondo_kit_barrier *barrier, uint32_t round) {
  for (uint32_t i = 0; i < barrier->spins; i++) {
    if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round)
      return;
    cpu_relax();
  }
  for (uint32_t i = 0; i < YIELDS; i++) {
    if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round)
      return;
    sched_yield();
  }
  atomic_fetch_add(&barrier->sleepers, 1);
  while (atomic_load(&barrier->round) == round)
    futex_sleep(&barrier->round, round);
  atomic_fetch_sub(&barrier->sleepers, 1);
}

void rondo_kit_barrier_wait(struct rondo_kit_barrier *barrier) {
  uint32_t round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
  uint32_t before = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel);
  if (before + 1 < barrier->count) {
    round_wait(barrier, round);
    return;
  }
  atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
  // Sequentially consistent, as the sleepers' count is: either the last participant sees a sleeper,
  // or the sleeper sees the new round before it sleeps.
  atomic_fetch_add(&barrier->round, 1);
  if (atomic_load(&barrier->sleepers) > 0)
    futex_wake(&barrier->round);
}
