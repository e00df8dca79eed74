// peer_cores: tells whether the first two processors that this process may use are two whole cores
// at the moment. A virtual machine's are not at times, for some tens of milliseconds each: both are
// threads of one core, or a neighbour computes on the other thread of one. Its kernel does not
// know; what is computed takes longer.
//
// Answers {"ready":"..."} first, and then each line of its input with the time of the same
// additions on each processor while the other is idle, and on the first while the second adds, too:
// {"first_ns":21000.0,"second_ns":21000.0,"both_ns":21200.0}. Asked by compare.
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/kit/clock.h"
#include "tools/kit/serve.h"
#include "tools/kit/thread_group.h"

#define PIECES 5u       // of which the shortest counts: others may have been interrupted
#define ROUNDS 8000u    // of a piece: some 20 us
#define LINE_BYTES 256u // of input

struct cores {
  sem_t second; // it is the second thread's turn
  sem_t first;
  uint64_t second_ns;
  atomic_int is_busy;
  atomic_int stays_busy;
  int is_over;
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

static uint64_t shortest_piece_ns(void) {
  uint64_t shortest_ns = UINT64_MAX;
  for (uint32_t i = 0; i < PIECES; i++) {
    uint64_t begin_ns = rondo_kit_now_ns();
    rounds_add(ROUNDS);
    uint64_t piece_ns = rondo_kit_now_ns() - begin_ns;
    if (piece_ns < shortest_ns)
      shortest_ns = piece_ns;
  }
  return shortest_ns;
}

static void await_turn(sem_t *turn) {
  while (sem_wait(turn)) {
  }
}

// Asleep until it is its turn: alone at first, then beside the first thread.
static void cores_second(struct cores *c) {
  for (;;) {
    await_turn(&c->second);
    if (c->is_over)
      return;
    c->second_ns = shortest_piece_ns();
    atomic_store(&c->stays_busy, 1);
    (void)sem_post(&c->first);
    while (atomic_load(&c->stays_busy)) {
      rounds_add(1);
      atomic_store(&c->is_busy, 1);
    }
    atomic_store(&c->is_busy, 0);
  }
}

static void cores_answer(struct cores *c) {
  uint64_t first_ns = shortest_piece_ns();
  (void)sem_post(&c->second);
  await_turn(&c->first);
  while (!atomic_load(&c->is_busy)) {
  }
  uint64_t both_ns = shortest_piece_ns();
  atomic_store(&c->stays_busy, 0);
  while (atomic_load(&c->is_busy)) {
  }
  printf("{\"first_ns\":%.1f,\"second_ns\":%.1f,\"both_ns\":%.1f}\n", (double)first_ns,
         (double)c->second_ns, (double)both_ns);
  fflush(stdout);
}

static void cores_member(void *arg, uint32_t rank) {
  struct cores *c = arg;
  char line[LINE_BYTES];
  if (rank == 1) {
    cores_second(c);
    return;
  }
  while (fgets(line, sizeof line, stdin))
    cores_answer(c);
  c->is_over = 1;
  (void)sem_post(&c->second);
}

int main(void) {
  static struct cores cores;
  struct rondo_kit_thread_group group = {2, true, cores_member, &cores};
  if (rondo_kit_core_count() < 2) {
    rondo_kit_serve_error("one processor");
    return 1;
  }
  if (sem_init(&cores.second, 0, 0) || sem_init(&cores.first, 0, 0))
    return 1;
  rondo_kit_serve_ready("two threads that add");
  return rondo_kit_thread_group_run(&group) ? 1 : 0;
}
