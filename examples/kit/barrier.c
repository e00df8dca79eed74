#include "examples/kit/barrier.h"

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

#include "examples/kit/fleet.h"

#define SPINS 20000u
#define YIELDS 2000u

// Not the private kind of futex: participants may be processes. Nobody would wake those who wait for a
// process that was killed.
static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
  const struct timespec second = {1, 0};
  long result = syscall(SYS_futex, word, FUTEX_WAIT, value, &second, NULL, 0);
  if (result != 0 && errno == ETIMEDOUT && atomic_load(word) == value &&
      rondo_kit_fleet_is_broken()) {
    fprintf(stderr, "pid %ld: another process of the fleet is gone\n", (long)getpid());
    exit(1);
  }
}

static void wake_all(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void relax(void) {
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

static void wait_for_change(struct rondo_kit_barrier *barrier, uint32_t round) {
  for (uint32_t i = 0; i < barrier->spins; i++) {
    if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round)
      return;
    relax();
  }
  for (uint32_t i = 0; i < YIELDS; i++) {
    if (atomic_load_explicit(&barrier->round, memory_order_acquire) != round)
      return;
    sched_yield();
  }
  atomic_fetch_add(&barrier->sleepers, 1);
  while (atomic_load(&barrier->round) == round)
    sleep_while(&barrier->round, round);
  atomic_fetch_sub(&barrier->sleepers, 1);
}

void rondo_kit_barrier_wait(struct rondo_kit_barrier *barrier) {
  uint32_t round = atomic_load_explicit(&barrier->round, memory_order_relaxed);
  uint32_t before = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel);
  if (before + 1 < barrier->count) {
    wait_for_change(barrier, round);
    return;
  }
  atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
  // Sequentially consistent, as the sleepers' count is: either the last one in sees a sleeper,
  // or the sleeper sees the new round before it sleeps.
  atomic_fetch_add(&barrier->round, 1);
  if (atomic_load(&barrier->sleepers) > 0)
    wake_all(&barrier->round);
}
