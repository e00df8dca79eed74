#include "tools/kit/whole_cores.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "tools/kit/clock.h"
#include "tools/kit/thread_group.h"

#define PIECES 5u    // of which the shortest counts: others may have been interrupted
#define ROUNDS 8000u // of a piece: some 20 us
#define WATCH_SAMPLES 100u
#define WATCH_PAUSE_NS 10000000
#define ONE_CORE 1.4    // what sharing a core makes of times, at least
#define SHARED_CORE 1.2 // a neighbour who shares one

// Whose turn it is; each part ends with the next one's begin.
enum { FIRST_ALONE, SECOND_ALONE, BOTH_BEGIN, BOTH, OVER };

struct additions {
  atomic_int part;
  struct rondo_kit_core_times times;
};

// As many additions at a time as a core has units for: who shares it gets half.
static void rounds_add(uint32_t rounds) {
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
  uint64_t d = 0;
  uint64_t e = 0;
  uint64_t f = 0;
  for (uint32_t i = 0; i < rounds; i++)
    for (uint32_t j = 0; j < 8; j++) {
      a++, b++, c++, d++, e++, f++;
      __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    }
}

static double shortest_piece_ns(void) {
  uint64_t shortest_ns = UINT64_MAX;
  for (uint32_t i = 0; i < PIECES; i++) {
    uint64_t begin_ns = rondo_kit_now_ns();
    rounds_add(ROUNDS);
    uint64_t piece_ns = rondo_kit_now_ns() - begin_ns;
    if (piece_ns < shortest_ns)
      shortest_ns = piece_ns;
  }
  return (double)shortest_ns;
}

// Asleep until the part begins, so that the other processor's core is its own.
static void part_await(struct additions *a, int part) {
  const struct timespec pause = {0, 20000};
  while (atomic_load(&a->part) < part)
    nanosleep(&pause, NULL);
}

static void additions_member(void *arg, uint32_t rank) {
  struct additions *a = arg;
  if (rank == 0) {
    a->times.first_ns = shortest_piece_ns();
    atomic_store(&a->part, SECOND_ALONE);
    part_await(a, BOTH_BEGIN);
    while (atomic_load(&a->part) == BOTH_BEGIN) {
    }
    a->times.both_ns = shortest_piece_ns();
    atomic_store(&a->part, OVER);
    return;
  }
  part_await(a, SECOND_ALONE);
  a->times.second_ns = shortest_piece_ns();
  atomic_store(&a->part, BOTH_BEGIN);
  while (atomic_load(&a->part) != OVER) {
    rounds_add(1);
    int begins = BOTH_BEGIN;
    (void)atomic_compare_exchange_strong(&a->part, &begins, BOTH);
  }
}

bool rondo_kit_core_times_measure(struct rondo_kit_core_times *times) {
  struct additions a = {.part = FIRST_ALONE};
  const struct rondo_kit_thread_group group = {2, true, additions_member, &a};
  if (rondo_kit_core_count() < 2 || rondo_kit_thread_group_run(&group))
    return false;
  *times = a.times;
  return true;
}

static void sample_add(struct rondo_kit_cores_watch *w, double ns) {
  uint32_t at = w->count;
  if (at == RONDO_KIT_CORE_SAMPLES)
    return;
  for (; at > 0 && w->ns[at - 1] > ns; at--)
    w->ns[at] = w->ns[at - 1];
  w->ns[at] = ns;
  w->count++;
}

bool rondo_kit_cores_judge(struct rondo_kit_cores_watch *w,
                           const struct rondo_kit_core_times *times) {
  double slower = times->first_ns > times->second_ns ? times->first_ns : times->second_ns;
  sample_add(w, times->first_ns);
  sample_add(w, times->second_ns);
  // Not the least: at times there is a neighbour, and at times the clock is faster.
  double usual = w->ns[w->count / 10];
  return slower <= SHARED_CORE * usual && times->both_ns <= ONE_CORE * times->first_ns;
}

bool rondo_kit_cores_are_whole(struct rondo_kit_cores_watch *w) {
  struct rondo_kit_core_times times;
  return rondo_kit_core_times_measure(&times) && rondo_kit_cores_judge(w, &times);
}

bool rondo_kit_cores_watch(struct rondo_kit_cores_watch *w) {
  const struct timespec pause = {0, WATCH_PAUSE_NS};
  struct rondo_kit_core_times times;
  w->count = 0;
  for (uint32_t i = 0; i < WATCH_SAMPLES; i++) {
    if (!rondo_kit_core_times_measure(&times))
      return false;
    (void)rondo_kit_cores_judge(w, &times);
    nanosleep(&pause, NULL);
  }
  return true;
}
