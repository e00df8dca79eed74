// An event count: a counter on which threads of one process sleep, until a thread of another
// process of this machine has moved data for them.
//
// Each process of a job has one event count, in memory that the other processes map. A thread that
// is about to sleep announces that it waits, checks once more for data, and sleeps on the count for
// a bounded time. A thread that has moved data notifies the processes that receive the data.
//
//    sleeper: prepare_wait -> check -> rondo_futex_wait_any(..., &e->count, ...)
//    mover:   move -> rondo_event_counts_notify
//
// A block has one byte for each event count. It sets the byte when it has moved data for that
// process (struct rondo_connector), so it notifies only the processes that can go on.
//
// Edges (docs/memory-order.md): B3 (announce, before the check) and B4 (notify, after the move).
// There is no fence after the move, because it would take as long as a small run. Therefore a mover
// may miss a wait that is announced within a microsecond after its last stores, before these become
// visible. So the first sleep after a new announcement is short, and the check after it sees those
// stores. An announcement lasts until a notification.
#ifndef RONDO_BASE_EVENT_COUNT_H
#define RONDO_BASE_EVENT_COUNT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/futex.h"
#include "base/platform.h"

struct rondo_event_count {
  uint32_t has_waiters;      // 1: a thread sleeps, or is about to
  uint32_t count;            // futex between processes: every notification adds to it
  uint64_t waiting_since_ns; // when has_waiters last became 1; written by the owner's threads
  uint8_t line[RONDO_LINE_BYTES - 16];
};

static_assert(sizeof(struct rondo_event_count) == RONDO_LINE_BYTES, "shared layout");
static_assert(offsetof(struct rondo_event_count, count) == 4, "shared layout");

// The event counts of a job's processes on this machine, as one process sees them. Grows, and lives
// as long as the daemons of the job.
struct rondo_event_counts {
  struct rondo_event_count *own;     // null: this process has none
  struct rondo_event_count **others; // `count` of them
  uint32_t count;                    // release
  uint32_t capacity;                 // constant once `count` is not 0
};

// Bytes that a block needs to mark `capacity` event counts.
static inline uint32_t rondo_event_counts_moved_bytes(uint32_t capacity) {
  return (capacity + 7) / 8 * 8;
}

// Announces a wait. Returns the futex on which the caller sleeps after another probe.
static inline struct rondo_futex_shared rondo_event_count_prepare_wait(struct rondo_event_count *e,
                                                                       uint64_t now_ns) {
  struct rondo_futex_shared on = {&e->count, rondo_load_acquire_u32(&e->count)};
  if (!rondo_load_relaxed_u32(&e->has_waiters)) {
    rondo_store_relaxed_u64(&e->waiting_since_ns, now_ns);
    rondo_store_seq_cst_u32(&e->has_waiters, 1); // B3
  }
  return on; // a notification since the load has changed `count`: the caller does not sleep
}

// True while the announcement is new. The caller may then sleep only for this long (B3).
#define RONDO_EVENT_COUNT_SHORT_NS 50000u
static inline bool rondo_event_count_is_new(const struct rondo_event_count *e, uint64_t now_ns) {
  return now_ns - rondo_load_relaxed_u64(&e->waiting_since_ns) < RONDO_EVENT_COUNT_SHORT_NS;
}

// Wakes the threads that wait on one event count: once for each announcement.
static inline void rondo_event_count_notify(struct rondo_event_count *e) {
  if (!rondo_load_relaxed_u32(&e->has_waiters) || // B4
      !rondo_try_swap_seq_cst_u32(&e->has_waiters, 1, 0))
    return;
  rondo_fetch_add_seq_cst_u32(&e->count, 1);
  rondo_futex_wake_shared(&e->count);
}

// Notifies the event counts whose byte in `moved` is set, and clears these bytes. The caller owns
// the block.
static inline void rondo_event_counts_notify(const struct rondo_event_counts *counts,
                                             uint8_t *moved) {
  uint32_t count = rondo_load_acquire_u32(&counts->count);
  for (uint32_t first = 0; first < count; first += 8) {
    uint64_t eight;
    memcpy(&eight, moved + first, sizeof eight);
    for (uint32_t i = first; eight && i < first + 8 && i < count; i++) {
      if (!moved[i])
        continue;
      moved[i] = 0;
      rondo_event_count_notify(counts->others[i]);
    }
  }
}

#endif // RONDO_BASE_EVENT_COUNT_H
