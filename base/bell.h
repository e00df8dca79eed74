// Waking threads of other processes of this machine that sleep until something moves.
//
// Each process of a job has a bell in memory that the others map. A thread that is about to sleep says that it
// wants to be woken, looks once more, and sleeps on the bell for a bounded time. A thread that has moved data
// rings the bells of the processes that want it.
//
//   asleep: want -> look -> rondo_futex_wait_any(..., bell->rung, ...)          awake: move -> rondo_bells_ring
//
// A block has a byte for each bell, which it sets when it has moved something for that process
// (struct rondo_connector), so that it rings for those that can go on, and lets others sleep.
//
// Edges (docs/memory-order.md): B3 want (before the look) and B4 ring (after the move) have no fence after the
// move: a fence there would cost every move as much as a small run's own work. A thread that moves may
// therefore not see a wish that is younger than its last stores, which become visible within a microsecond.
// So the first sleep after a new wish must be a short one: the look that ends it sees what was moved. A wish
// lasts until somebody rings.
#ifndef RONDO_BASE_BELL_H
#define RONDO_BASE_BELL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/futex.h"
#include "base/platform.h"

struct rondo_bell {
  uint32_t wanted;    // 1: somebody sleeps, or is about to
  uint32_t rung;      // futex, between processes: changes whenever somebody rings
  uint64_t wished_ns; // when `wanted` became 1 last; of the owner
  uint8_t line[RONDO_LINE_BYTES - 16];
};

static_assert(sizeof(struct rondo_bell) == RONDO_LINE_BYTES, "shared layout");
static_assert(offsetof(struct rondo_bell, rung) == 4, "shared layout");

// The bells of a job on this machine, as one process sees them. Grows, and lasts as long as the
// daemons of the job.
struct rondo_bells {
  struct rondo_bell *own;     // null: this process has none
  struct rondo_bell **others; // `count` of them
  uint32_t count;             // release
  uint32_t capacity;          // constant when the first has come
};

// Bytes of a block that says for which of `capacity` bells it has moved something.
static inline uint32_t rondo_bells_moved_bytes(uint32_t capacity) { return (capacity + 7) / 8 * 8; }

// Says that the caller wants to be woken. Returns what it then sleeps on.
static inline struct rondo_futex_shared rondo_bell_want(struct rondo_bell *bell, uint64_t now_ns) {
  struct rondo_futex_shared on = {&bell->rung, rondo_load_acquire_u32(&bell->rung)};
  if (!rondo_load_relaxed_u32(&bell->wanted)) {
    rondo_store_relaxed_u64(&bell->wished_ns, now_ns);
    rondo_store_seq_cst_u32(&bell->wanted, 1); // B3
  }
  return on; // a ring since then has changed `rung`: the caller does not sleep
}

// 1 if the wish is new: then the owner may sleep for this long only (B3).
#define RONDO_BELL_SHORT_NS 50000u
static inline int rondo_bell_is_new(const struct rondo_bell *bell, uint64_t now_ns) {
  return now_ns - rondo_load_relaxed_u64(&bell->wished_ns) < RONDO_BELL_SHORT_NS;
}

// Wakes those of another process who want to be woken: once each wish.
static inline void rondo_bell_ring(struct rondo_bell *bell) {
  if (!rondo_load_relaxed_u32(&bell->wanted) || // B4
      !rondo_try_swap_seq_cst_u32(&bell->wanted, 1, 0))
    return;
  rondo_fetch_add_seq_cst_u32(&bell->rung, 1);
  rondo_futex_wake_shared(&bell->rung);
}

// Rings the bells whose bytes in `moved` are set, and takes those back. Of the block's owner.
static inline void rondo_bells_ring(const struct rondo_bells *bells, uint8_t *moved) {
  uint32_t count = rondo_load_acquire_u32(&bells->count);
  for (uint32_t first = 0; first < count; first += 8) {
    uint64_t eight;
    memcpy(&eight, moved + first, sizeof eight);
    for (uint32_t i = first; eight && i < first + 8 && i < count; i++) {
      if (!moved[i])
        continue;
      moved[i] = 0;
      rondo_bell_ring(bells->others[i]);
    }
  }
}

#endif // RONDO_BASE_BELL_H
