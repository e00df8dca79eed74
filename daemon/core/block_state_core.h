// The state of a daemon block, and what all blocks of a daemon share.
#ifndef RONDO_DAEMON_CORE_BLOCK_STATE_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_STATE_CORE_H

#include <stdint.h>

#include "daemon/core/context_core.h"
#include "daemon/core/primitive_core.h"
#include "daemon/core/timing_core.h"
#include "daemon/core/wait_core.h"
#include "queues/cq_core.h"
#include "queues/sq_core.h"
#include "scheduler/policy_core.h"
#include "scheduler/task_queue_core.h"

#if defined(RONDO_EXPLORE)
#define RONDO_ACTIVE_SLOTS 2u // so that collectives evict each other at once
#else
#define RONDO_ACTIVE_SLOTS 8u
#endif
#define RONDO_STEP_PRIMITIVES 8u // chunks of one step, at most
#define RONDO_STEP_FETCHES 16u   // entries that one step fetches, at most

// A turn: how many bytes one collective moves before the block continues with another ready one.
// Each chunk counts as RONDO_CHUNK_COST_BYTES more than it has.
#define RONDO_TURN_BYTES (1u << 20)
#define RONDO_STEP_BYTES (256u << 10) // maximum of one step, so that urgent collectives wait less
#define RONDO_CHUNK_COST_BYTES 2048u
#define RONDO_NOWHERE UINT32_MAX // no place in the task queue
#define RONDO_NOT_LOOKED (UINT32_MAX - 1)

enum rondo_step_result {
  RONDO_STEP_PROGRESSED = 0, // the block made progress; step again
  RONDO_STEP_BLOCKED = 1,    // all collectives of the block wait for peers
  RONDO_STEP_IDLE = 2,       // there is no work
  RONDO_STEP_QUIT = 3,       // the block has saved everything and quit; start it to go on
  RONDO_STEP_EXIT = 4        // the daemon was told to exit, and the block has quit
};

// Written by the block's owner only; any thread may read. All fields are uint64_t: they are added
// up as an array.
struct rondo_block_counters {
  uint64_t steps, primitives, preemptions, context_loads, context_saves, quits, fetched, ended;
};

// What a block counts for each collective if the rank asks for it (rondo_collective_counters).
enum rondo_tallied {
  RONDO_TALLY_SWITCHES = 0,    // the block left the collective before its run had ended
  RONDO_TALLY_PREEMPTIONS = 1, // ... after a step without progress
  RONDO_TALLY_LOADS = 2,       // of its context
  RONDO_TALLY_SAVES = 3,
  RONDO_TALLY_FETCHES = 4,    // entries of its runs
  RONDO_TALLY_QUEUE_SUM = 5,  // lengths of the task queue at these fetches
  RONDO_TALLY_QUEUE_MOST = 6, // the greatest of them
  // The block found the collective stuck, by what it waited for (rondo_wait_reason).
  RONDO_TALLY_WAITS_DATA = 7,
  RONDO_TALLY_WAITS_ROOM = 8,
  RONDO_TALLY_WAITS_START = 9,
  RONDO_TALLY_WAITS_READERS = 10,
  RONDO_TALLY_WAITS_COMPLETION = 11,
  RONDO_TALLY_COUNT = 12
};

// The counts of one collective on one block. Written as rondo_block_counters.
struct rondo_tally {
  uint64_t counts[RONDO_TALLY_COUNT];
};

// What all blocks of one rank share. It does not change; words that change are elsewhere.
struct rondo_daemon_core {
  // block_count of them; block 0 copies entries to those of the other blocks. [0] is unused. Null:
  // a mirror passes entries on (mirror_core.h), also to block 0.
  struct rondo_sq_producer *inboxes;
  struct rondo_cq_producers *cq;
  const struct rondo_device_table *table;
  const uint32_t *exit; // set with release when blocks are to end; never reset
  struct rondo_policy policy;
  uint64_t quit_period_ns;
  uint64_t residency_ns;
  // A block that makes no progress reads gates and `exit` after so long; see rondo_block_may_ask.
  // 0: each time.
  uint64_t ask_ns;
  uint64_t sq_ring; // of the SQ, which block 0 releases in place of its inbox; 0: it has none
  uint64_t copies;  // address of struct rondo_mirror_copy, by table index; 0: there is no mirror
  uint32_t block_count;
  uint32_t reserved;
};

struct rondo_active_slot {
  struct rondo_task_context context;
  uint64_t blocked_since_ns; // 0: not stuck
  uint64_t budget_ns;
  uint32_t occupied;
  uint32_t dirty; // the dynamic part differs from the context buffer
};

struct rondo_block {
  const struct rondo_daemon_core *daemon;
  struct rondo_sq_consumer source; // block 0: of the SQ; others: of their inbox
  uint32_t index;
  uint32_t resident;   // 0: it has quit, or was never started
  uint32_t stalled;    // 1: no collective could go on: look for new entries
  uint32_t scheduled;  // 1: the collective at the cursor has been given its budget
  uint32_t passed;     // 1: the cursor has passed the end of the queue since the start
  uint32_t looks;      // how often a primitive checks for its data; set by the driver. 0: never
  uint32_t attempt;    // enum rondo_attempt of the scheduled collective's last attempt
  uint32_t rounds;     // look rounds
  uint32_t taken;      // entries of its source that it has not released
  uint32_t tied;       // runs in its queue that have begun, and that a stream waits for
  uint64_t turn_bytes; // moved by the scheduled collective in this turn
  uint64_t looked_ns;  // time of the last look round
  uint64_t asked_ns;   // of the last look at a gate or at `exit`
  uint64_t tick_ns;    // no step of the clock is longer; 1 if the clock is exact
  uint64_t waits;      // address of `capacity` × struct rondo_wait, by table index
  uint64_t flags;      // address of the ready flags, by table index; 0: none (block_ready_core.h)
  uint64_t ready;      // address of the ready set, by table index; 0: none
  uint64_t tallies;    // address of struct rondo_tally, by table index; 0: nothing is counted
  uint32_t flag_end;   // after the last flag that a collective of the queue can have
  uint32_t blind_look; // place of the queue that is looked at next without a flag
  uint64_t last_progress_ns;
  uint64_t
      kept_ns; // as if it had made progress then: another block of its daemon did. By the driver
  uint64_t resident_since_ns;
  struct rondo_task_queue queue;
  struct rondo_block_counters counters;
  struct rondo_active_slot slots[RONDO_ACTIVE_SLOTS];
};

RONDO_FN void rondo_counter_add(uint64_t *counter, uint64_t n) {
  rondo_store_relaxed_u64(counter, rondo_load_relaxed_u64(counter) + n);
}

// Counts one more `what` (enum rondo_tallied) of the collective at table index `index`, if the rank
// asks for it. Otherwise costs one test, so that tallies are free when they are off.
RONDO_FN void rondo_block_tally(const struct rondo_block *b, uint32_t index, int what) {
  struct rondo_tally *tallies = (struct rondo_tally *)(uintptr_t)b->tallies;
  if (RONDO_HAS_TALLIES && tallies)
    rondo_counter_add(&tallies[index].counts[what], 1);
}

// Counts a fetched entry, and the length of the task queue at that moment.
RONDO_FN void rondo_block_tally_fetch(const struct rondo_block *b, uint32_t index) {
  struct rondo_tally *tallies = (struct rondo_tally *)(uintptr_t)b->tallies;
  if (!RONDO_HAS_TALLIES || !tallies)
    return;
  uint64_t *counts = tallies[index].counts;
  rondo_counter_add(&counts[RONDO_TALLY_FETCHES], 1);
  rondo_counter_add(&counts[RONDO_TALLY_QUEUE_SUM], b->queue.count);
  if (counts[RONDO_TALLY_QUEUE_MOST] < b->queue.count)
    rondo_store_relaxed_u64(&counts[RONDO_TALLY_QUEUE_MOST], b->queue.count);
}

// True if a block without progress may look at a gate, or at `exit`, now: after ask_ns, and then
// each time that its wait is twice as long, but at least every RONDO_ASK_MOST times ask_ns. So a
// block that waits for long leaves the bus alone, and sees a failure when it has waited twice as
// long, or within RONDO_ASK_MOST times ask_ns.
#define RONDO_ASK_MOST 50u
RONDO_FN bool rondo_block_may_ask(struct rondo_block *b, uint64_t now_ns) {
  const uint64_t least_ns = b->daemon->ask_ns;
  uint64_t pause_ns = (now_ns - b->last_progress_ns) / 2;
  if (pause_ns > RONDO_ASK_MOST * least_ns)
    pause_ns = RONDO_ASK_MOST * least_ns;
  if (now_ns - b->asked_ns < (pause_ns > least_ns ? pause_ns : least_ns))
    return false;
  b->asked_ns = now_ns;
  return true;
}

// Memory of the caller, which outlives the block.
struct rondo_block_tasks {
  uint32_t *entries;        // of the task queue; `capacity` of them
  struct rondo_wait *waits; // by table index; `capacity` of them, zeroed
  uint32_t capacity;        // size of the table
};

// Initialises a block. `source` and `tasks` are copied.
RONDO_FN void rondo_block_init(struct rondo_block *b, const struct rondo_daemon_core *daemon,
                               const struct rondo_sq_consumer *source, uint32_t index,
                               const struct rondo_block_tasks *tasks) {
  b->daemon = daemon;
  b->source = *source;
  b->index = index;
  b->resident = b->stalled = b->scheduled = b->passed = 0;
  b->last_progress_ns = b->resident_since_ns = b->kept_ns = 0;
  b->looks = 1;
  b->attempt = RONDO_ATTEMPT_DONE;
  b->rounds = b->taken = b->tied = 0;
  b->turn_bytes = b->looked_ns = b->asked_ns = 0;
  b->tick_ns = 1;
  b->waits = (uint64_t)(uintptr_t)tasks->waits;
  b->flags = b->ready = b->tallies = 0;
  b->flag_end = b->blind_look = 0;
  rondo_task_queue_init(&b->queue, tasks->entries, tasks->capacity);
  struct rondo_block_counters zero = {0, 0, 0, 0, 0, 0, 0, 0};
  b->counters = zero;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].occupied = b->slots[i].dirty = 0;
}

// Size of the ready flags of a block with a table of `capacity` entries, and of its ready set.
RONDO_FN uint64_t rondo_block_flags_bytes(uint32_t capacity) {
  return ((uint64_t)capacity + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
}

// Gives an initialised block zeroed memory for its ready flags, which other threads and processes
// may set, and for its ready set, which is its own. Each has rondo_block_flags_bytes and is aligned
// to 8 bytes.
RONDO_FN void rondo_block_use_flags(struct rondo_block *b, uint8_t *flags, uint8_t *ready) {
  b->flags = (uint64_t)(uintptr_t)flags;
  b->ready = (uint64_t)(uintptr_t)ready;
}

#endif // RONDO_DAEMON_CORE_BLOCK_STATE_CORE_H
