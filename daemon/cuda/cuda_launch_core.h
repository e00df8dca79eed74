// One launch of one block of a daemon on a CUDA device, by the kernel or by a test's stand-in.
//
// A launch is a grid with one CUDA block for each daemon block. Each CUDA block tries to own its
// daemon block, and returns at once if an older launch still runs it, so a block can be started
// again while its siblings go on. The owner loads the block's state from its home in device memory,
// starts the block, steps it until it leaves, and saves the state at home.
//
//   own -> load -> start -> step ... -> save -> status line -> disown
//
// A launch waits for no other rank: its steps are bounded, and so are their number and the time.
// It needs no CUDA call to progress or to leave.
//
// While a stream waits for a run, the launch that executes the run owns the block again each time
// it has left (rondo_cuda_launch_must_stay): a new launch could need a lock that is held until the
// stream goes on. A launch that was made for such a run and finds the block owned leaves the run's
// words at home, for the owner.
//
// The blocks of a daemon leave together: a block that makes no progress stays as long as another
// one makes any. A single block that left would stop all ranks in the middle of a run, until its
// next launch has begun.
//
// Edges (docs/memory-order.md):
//   L1 disown (release owner) pairs with L2 try_own (swap): the state at home is the last owner's.
//   L3 the status line's `leaves` (release) pairs with the launcher's load: the rest of the line.
//   L4 a launch stores a tie at home, then tries to own the block; the owner disowns the block and
//      then loads the ties: the launch owns the block, or the former owner sees the tie.
#ifndef RONDO_DAEMON_CUDA_LAUNCH_CORE_H
#define RONDO_DAEMON_CUDA_LAUNCH_CORE_H

#include <assert.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/platform.h"
#include "daemon/core/block_core.h"
#include "daemon/core/mirror_core.h"
#include "daemon/core/move.h"
#include "daemon/core/timing_core.h"

// Warps of a CUDA block that move data, beside the one that decides and the one for the mirror.
#define RONDO_CUDA_MOVER_WARPS 8u
#define RONDO_CUDA_MAX_MOVER_WARPS 14u // 128 registers a thread
#define RONDO_CUDA_OTHER_WARPS 2u
#define RONDO_CUDA_THREADS (32u * (RONDO_CUDA_OTHER_WARPS + RONDO_CUDA_MOVER_WARPS))
#define RONDO_CUDA_MIN_THREADS (32u * (RONDO_CUDA_OTHER_WARPS + 1u))
#define RONDO_CUDA_MAX_THREADS (32u * (RONDO_CUDA_OTHER_WARPS + RONDO_CUDA_MAX_MOVER_WARPS))

// Tasks that a block keeps in shared memory; a longer queue stays at home.
#define RONDO_CUDA_FAST_TASKS 2048u

// Pauses between steps that did not progress; they double.
#define RONDO_CUDA_PAUSE_MIN_NS 32u
#define RONDO_CUDA_PAUSE_MAX_NS 512u

// A stuck collective is probed for so long before its block looks at others: leaving it costs as
// much, a context saved and another loaded: some 1.5 us of 8 ranks on an H100, primitives take 4 to
// 7 us there.
#define RONDO_CUDA_LOOK_NS 4000u

// How often a block without progress reads gates and `exit`, in the mirror: four loads that would
// delay its look for data.
#define RONDO_CUDA_ASK_NS 2000u

// Between two looks of a warp whose block does not own the mirror.
#define RONDO_CUDA_MIRROR_PAUSE_NS 1000u

// How often a resident stuck block reports where it stands.
#define RONDO_CUDA_STATUS_PERIOD_NS 1000000u

// Why a launch left, besides enum rondo_step_result.
#define RONDO_CUDA_LAUNCH_CUT 5u // out of steps or of time

// So many streams of the application at a time have launches of their own for the runs that they
// wait for. Runs of further streams depend on the launcher.
#define RONDO_CUDA_TIES 4u

// The words of a run that a stream waits for, at the home of a block.
struct rondo_cuda_tie {
  uint64_t words;  // address of struct rondo_stream_words
  uint64_t ticket; // of the run; 0: none (L4)
};

// A block's state while no launch runs it. In device memory; followed by its waits and the entries
// of its task queue.
struct rondo_cuda_block_home {
  uint32_t owner; // 1 while a launch steps the block (L1/L2)
  uint32_t reserved;
  uint64_t launches; // residencies begun
  uint64_t moved_ns; // of block 0: about when a block of the daemon last made progress
  struct rondo_cuda_tie ties[RONDO_CUDA_TIES];
  uint8_t owner_line[RONDO_LINE_BYTES - 24 - RONDO_CUDA_TIES * sizeof(struct rondo_cuda_tie)];
  struct rondo_block block; // saved by its last launch; the active slots are empty
};
static_assert(offsetof(struct rondo_cuda_block_home, block) % 16 == 0, "moved as vectors");
static_assert(sizeof(struct rondo_cuda_block_home) % 16 == 0, "waits follow");

// What the CPU sees of a block. In pinned memory; written by the block's owner only.
struct rondo_cuda_block_status {
  uint64_t launches; // residencies begun
  uint64_t leaves;   // residencies ended (L3); the block is resident while they differ
  uint64_t launch;   // the launch that last owned the block
  uint32_t reason; // why the last residency ended: enum rondo_step_result or RONDO_CUDA_LAUNCH_CUT
  uint32_t queued; // collectives in the task queue
  struct rondo_block_counters counters;
  // For reports: where the block stood at its last report.
  uint32_t scheduled; // table index of the scheduled collective, plus 1; 0: none
  uint32_t stands;    // phase, op << 8, RONDO_STANDS_*; 0: the saved state is as new
  uint64_t run;
  uint32_t repeat, bound_send;
  uint64_t waiting_ns;
};
static_assert(sizeof(struct rondo_cuda_block_status) == RONDO_LINE_BYTES, "shared layout");

#define RONDO_STANDS_HAS_DATA 0x10000u
#define RONDO_STANDS_HAS_REFERENCE 0x20000u

// The argument of a launch.
struct rondo_cuda_launch {
  uint64_t mirror;      // address of struct rondo_mirror
  uint64_t homes;       // address of the first block's home
  uint64_t home_bytes;  // bytes between two homes: rondo_cuda_home_bytes()
  uint64_t status;      // address of block_count × struct rondo_cuda_block_status
  uint64_t number;      // of the launch, from 1; 0: made for a run that a stream waits for
  uint64_t max_steps;   // of one block
  uint64_t longest_ns;  // of one block, under every policy
  uint32_t block_count; // a CUDA block beyond it returns at once
  uint32_t fast_tasks;  // capacity of the task queue in shared memory
  uint64_t times;       // address of block_count × struct rondo_times; 0: none are kept
  uint64_t held;        // address of a 32-bit word; not 0: no launch stays for a run
  uint64_t stay_ns;     // a launch stays for so long at most for runs that streams wait for
  uint64_t words;       // address of the words of the run that the launch is for; 0: none
  uint64_t ticket;      // of that run
  uint32_t tie;         // index in `ties` of the homes, for this run
  uint32_t reserved;
};
static_assert(sizeof(struct rondo_cuda_launch) == 112, "shared layout");

// A block's state while a launch runs it: shared memory on a GPU. Followed by the entries of its
// task queue.
struct rondo_cuda_fast {
  struct rondo_daemon_core daemon; // a copy; it is constant
  struct rondo_block block;
};
static_assert(sizeof(struct rondo_cuda_fast) % 4 == 0, "tasks follow");
static_assert(sizeof(struct rondo_cuda_fast) + RONDO_CUDA_FAST_TASKS * 4ul <= 13ul * 1024ul,
              "shared memory of a block; the paper's takes as much for 1,000 collectives");

// Provided by the driver: a clock in nanoseconds, the same for all blocks of the device; and a
// pause of at most about `ns`.
RONDO_DRIVER_FN uint64_t rondo_cuda_launch_now_ns(void);
RONDO_DRIVER_FN void rondo_cuda_launch_pause(uint32_t ns);
// Let the block's warp for the mirror begin (rondo_cuda_launch_mirror), and end. Between them each
// step calls `turn`, for a driver without such a warp.
RONDO_DRIVER_FN void rondo_cuda_launch_mirror_begin(void);
RONDO_DRIVER_FN void rondo_cuda_launch_mirror_turn(const struct rondo_cuda_launch *l);
RONDO_DRIVER_FN void rondo_cuda_launch_mirror_end(void);

// -------------------------------------------------------------------- places --

// Bytes of a home with `capacity` tasks: the home, the waits, the entries.
RONDO_FN uint64_t rondo_cuda_home_bytes(uint32_t capacity) {
  uint64_t bytes = sizeof(struct rondo_cuda_block_home) +
                   (uint64_t)capacity * (sizeof(struct rondo_wait) + sizeof(uint32_t));
  return (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
}

// Shared memory that a block needs.
RONDO_FN uint64_t rondo_cuda_fast_bytes(uint32_t fast_tasks) {
  return sizeof(struct rondo_cuda_fast) + (uint64_t)fast_tasks * sizeof(uint32_t);
}

RONDO_FN struct rondo_cuda_block_home *rondo_cuda_launch_home(const struct rondo_cuda_launch *l,
                                                              uint32_t index) {
  return (struct rondo_cuda_block_home *)(uintptr_t)(l->homes + index * l->home_bytes);
}

RONDO_FN struct rondo_cuda_block_status *rondo_cuda_launch_status(const struct rondo_cuda_launch *l,
                                                                  uint32_t index) {
  return (struct rondo_cuda_block_status *)(uintptr_t)l->status + index;
}

// The address of the block's samples; 0: none are kept.
RONDO_FN uint64_t rondo_cuda_launch_times(const struct rondo_cuda_launch *l, uint32_t index) {
  return l->times ? l->times + index * sizeof(struct rondo_times) : 0;
}

// ------------------------------------------------------------------- the mirror --

RONDO_FN struct rondo_mirror *rondo_cuda_launch_mirror_at(const struct rondo_cuda_launch *l) {
  return (struct rondo_mirror *)(uintptr_t)l->mirror;
}

// Keeps the mirror, or stands by in case that its owner leaves, until `stop` is 1. By one thread,
// while its block is resident.
RONDO_FN void rondo_cuda_launch_mirror(const struct rondo_cuda_launch *l, const uint32_t *stop) {
  struct rondo_mirror *m = rondo_cuda_launch_mirror_at(l);
  bool owned = false;
  do {
    owned = owned || rondo_mirror_try_own(m);
    if (!owned)
      rondo_cuda_launch_pause(RONDO_CUDA_MIRROR_PAUSE_NS);
    else if (!rondo_mirror_step(m))
      rondo_cuda_launch_pause(RONDO_CUDA_PAUSE_MIN_NS);
  } while (!rondo_load_relaxed_u32(stop));
  if (owned)
    rondo_mirror_disown(m);
}

// ----------------------------------------------------------------- ownership --

RONDO_FN bool rondo_cuda_launch_try_own(struct rondo_cuda_block_home *home) {
  return rondo_try_swap_seq_cst_u32(&home->owner, 0, 1); // L2
}

RONDO_FN void rondo_cuda_launch_disown(struct rondo_cuda_block_home *home) {
  rondo_store_seq_cst_u32(&home->owner, 0); // L1
}

// --------------------------------------------- runs that a stream waits for --

// Stores the run that the launch is for at home. The launches with the same tie follow each other,
// and the run of an earlier one has ended, so the tie is free.
RONDO_FN void rondo_cuda_launch_store_tie(const struct rondo_cuda_launch *l,
                                          struct rondo_cuda_block_home *home) {
  if (!l->words)
    return;
  rondo_store_relaxed_u64(&home->ties[l->tie].words, l->words);
  rondo_store_seq_cst_u64(&home->ties[l->tie].ticket, l->ticket); // L4
}

// True if the tie's run has not ended. The stream has reached the run.
RONDO_FN bool rondo_cuda_tie_is_due(const struct rondo_cuda_tie *tie) {
  uint64_t ticket = rondo_load_seq_cst_u64(&tie->ticket); // L4
  if (!ticket)
    return false;
  uint64_t address = rondo_load_relaxed_u64(&tie->words);
  const struct rondo_stream_words *words = (const struct rondo_stream_words *)(uintptr_t)address;
  return rondo_load_relaxed_u64(&words->completion) < ticket;
}

// True if the launch, which has left the block, has to own it again. `begun_ns`: when it began.
//
// The ties tell of each run whose launch has begun. Of two runs in one stream the second may be in
// progress here before its launch, which follows this one. A launch that stayed for that run would
// keep the run's launch from beginning, and blocks that have left would lack it. A launch of the
// launcher holds up no other, so it stays also for runs that have no launch of their own.
RONDO_FN bool rondo_cuda_launch_must_stay(const struct rondo_cuda_launch *l,
                                          const struct rondo_cuda_block_home *home,
                                          const struct rondo_cuda_fast *fast, uint64_t begun_ns) {
  if (rondo_cuda_launch_now_ns() - begun_ns >= l->stay_ns ||
      rondo_load_acquire_u32(fast->daemon.exit) ||
      rondo_load_relaxed_u32((const uint32_t *)(uintptr_t)l->held))
    return false;
  bool is_due = !l->words && fast->block.tied != 0;
  for (uint32_t i = 0; i < RONDO_CUDA_TIES && !is_due; i++)
    is_due = rondo_cuda_tie_is_due(&home->ties[i]);
  return is_due;
}

// --------------------------------------------------------- state, in and out --

// The part of a block that is saved: its active slots are empty between launches.
#define RONDO_BLOCK_KEPT_BYTES offsetof(struct rondo_block, slots)

RONDO_FN void rondo_cuda_launch_copy(void *dst, const void *src, uint64_t bytes) {
  rondo_move_copy(dst, NULL, src, bytes);
}

// Loads the block's state into shared memory. A task queue without room for what one step fetches
// stays at home.
RONDO_FN void rondo_cuda_launch_load(const struct rondo_cuda_launch *l,
                                     const struct rondo_cuda_block_home *home,
                                     struct rondo_cuda_fast *fast) {
  struct rondo_block *b = &fast->block;
  rondo_cuda_launch_copy(b, &home->block, RONDO_BLOCK_KEPT_BYTES);
  fast->daemon = *b->daemon;
  b->daemon = &fast->daemon;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].occupied = b->slots[i].dirty = 0;
  if (b->queue.count + RONDO_STEP_FETCHES > l->fast_tasks)
    return;
  uint32_t *tasks = (uint32_t *)(fast + 1);
  rondo_cuda_launch_copy(tasks, rondo_task_entries(&b->queue), b->queue.count * sizeof *tasks);
  b->queue.entries = (uint64_t)(uintptr_t)tasks;
  b->queue.capacity = l->fast_tasks;
}

// Moves the task queue home.
RONDO_FN void rondo_cuda_launch_move_queue_home(const struct rondo_cuda_block_home *home,
                                                struct rondo_block *b) {
  const struct rondo_task_queue *at_home = &home->block.queue;
  if (b->queue.entries == at_home->entries)
    return;
  rondo_cuda_launch_copy(rondo_task_entries(at_home), rondo_task_entries(&b->queue),
                         b->queue.count * sizeof(uint32_t));
  b->queue.entries = at_home->entries;
  b->queue.capacity = at_home->capacity;
}

// Saves the state of a block that has left.
RONDO_FN void rondo_cuda_launch_save(struct rondo_cuda_block_home *home,
                                     struct rondo_cuda_fast *fast) {
  struct rondo_block *b = &fast->block;
  rondo_cuda_launch_move_queue_home(home, b);
  b->daemon = home->block.daemon;
  rondo_cuda_launch_copy(&home->block, b, RONDO_BLOCK_KEPT_BYTES);
}

// --------------------------------------------------------------- status line --

// Reports where the block stands with a loaded context.
RONDO_FN void rondo_cuda_launch_report_context(struct rondo_cuda_block_status *s,
                                               const struct rondo_task_context *c) {
  uint32_t stands = c->state.phase | (uint32_t)c->state.op << 8;
  if (c->state.phase == RONDO_PHASE_OPS && (rondo_context_op(c)->primitive & RONDO_PRIM_RECV) &&
      rondo_connector_try_peek(rondo_context_recv(c)))
    stands |= RONDO_STANDS_HAS_DATA;
  if (rondo_context_has_reference(c))
    stands |= RONDO_STANDS_HAS_REFERENCE;
  rondo_store_relaxed_u64(&s->run, c->state.run.number);
  rondo_store_relaxed_u32(&s->repeat, c->state.repeat);
  rondo_store_relaxed_u32(&s->bound_send, c->state.bound_send);
  rondo_store_relaxed_u32(&s->stands, stands);
}

RONDO_FN void rondo_cuda_launch_report_place(struct rondo_cuda_block_status *s,
                                             const struct rondo_block *b, uint64_t now_ns) {
  uint32_t scheduled = 0;
  rondo_store_relaxed_u32(&s->stands, 0);
  if (b->queue.count) {
    uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
    const struct rondo_active_slot *slot = rondo_slot_find(b, index);
    if (slot)
      rondo_cuda_launch_report_context(s, &slot->context);
    scheduled = index + 1;
  }
  rondo_store_relaxed_u64(&s->waiting_ns, now_ns - b->last_progress_ns);
  rondo_store_relaxed_u32(&s->scheduled, scheduled);
}

RONDO_FN void rondo_cuda_launch_report(struct rondo_cuda_block_status *s,
                                       const struct rondo_block *b) {
  const struct rondo_block_counters *c = &b->counters;
  rondo_store_relaxed_u64(&s->counters.steps, c->steps);
  rondo_store_relaxed_u64(&s->counters.primitives, c->primitives);
  rondo_store_relaxed_u64(&s->counters.preemptions, c->preemptions);
  rondo_store_relaxed_u64(&s->counters.context_loads, c->context_loads);
  rondo_store_relaxed_u64(&s->counters.context_saves, c->context_saves);
  rondo_store_relaxed_u64(&s->counters.quits, c->quits);
  rondo_store_relaxed_u64(&s->counters.fetched, c->fetched);
  rondo_store_relaxed_u64(&s->counters.ended, c->ended);
  rondo_store_relaxed_u32(&s->queued, b->queue.count);
}

RONDO_FN void rondo_cuda_launch_report_start(struct rondo_cuda_block_status *s, uint64_t launches,
                                             uint64_t number) {
  rondo_store_relaxed_u64(&s->launch, number);
  rondo_store_release_u64(&s->launches, launches);
}

// `launches`: the value that rondo_cuda_launch_report_start stored.
RONDO_FN void rondo_cuda_launch_report_leave(struct rondo_cuda_block_status *s,
                                             const struct rondo_block *b, uint64_t launches,
                                             uint32_t reason) {
  rondo_cuda_launch_report(s, b);
  rondo_store_relaxed_u32(&s->stands, 0);
  rondo_store_relaxed_u32(&s->reason, reason);
  rondo_store_release_u64(&s->leaves, launches); // L3
}

// True while a launch runs the block. Any thread; the answer may be old.
RONDO_FN bool rondo_cuda_block_is_resident(const struct rondo_cuda_block_status *s) {
  uint64_t leaves = rondo_load_acquire_u64(&s->leaves); // L3
  return rondo_load_acquire_u64(&s->launches) != leaves;
}

// -------------------------------------------------------------------- a launch --

// What changes between the steps of a launch.
struct rondo_cuda_launch_pace {
  uint64_t begun_ns, reported_ns, told_ns;
  uint32_t pause_ns;
};

// Times at which blocks tell each other of their progress, and ask, in a quit period.
#define RONDO_CUDA_TOLD_A_PERIOD 8u

// After a step that made progress: tells the other blocks now and then. They may not stay where
// the device lacks room for all blocks of all daemons.
RONDO_FN void rondo_cuda_launch_tell(const struct rondo_cuda_launch *l,
                                     struct rondo_cuda_launch_pace *p, const struct rondo_block *b,
                                     uint64_t now_ns) {
  if (now_ns - p->told_ns < b->daemon->quit_period_ns / RONDO_CUDA_TOLD_A_PERIOD || !l->stay_ns)
    return;
  rondo_store_relaxed_u64(&rondo_cuda_launch_home(l, 0)->moved_ns, now_ns);
  p->told_ns = now_ns;
}

// Keeps a block that has made no progress for most of a quit period if another one has.
RONDO_FN void rondo_cuda_launch_keep(const struct rondo_cuda_launch *l, struct rondo_block *b,
                                     uint64_t now_ns) {
  uint64_t most_ns = b->daemon->quit_period_ns / 2;
  if (l->stay_ns && now_ns - b->last_progress_ns >= most_ns && now_ns - b->kept_ns >= most_ns)
    b->kept_ns = rondo_load_relaxed_u64(&rondo_cuda_launch_home(l, 0)->moved_ns);
}

// After a step that did not progress.
RONDO_FN void rondo_cuda_launch_rest(struct rondo_cuda_launch_pace *p,
                                     struct rondo_cuda_block_status *status,
                                     const struct rondo_block *b, uint64_t now_ns) {
  if (now_ns - p->reported_ns >= RONDO_CUDA_STATUS_PERIOD_NS) {
    rondo_cuda_launch_report(status, b);
    rondo_cuda_launch_report_place(status, b, now_ns);
    p->reported_ns = now_ns;
  }
  rondo_cuda_launch_pause(p->pause_ns);
  if (p->pause_ns < RONDO_CUDA_PAUSE_MAX_NS)
    p->pause_ns *= 2;
}

// Learns how far the clock moves at once: the shortest move seen in this launch. That is one step
// of a coarse clock, and one probe of a stuck collective on a fine one.
RONDO_FN void rondo_cuda_launch_note_tick(struct rondo_block *b, uint64_t before_ns,
                                          uint64_t now_ns) {
  uint64_t moved_ns = now_ns - before_ns;
  if (moved_ns && moved_ns < b->tick_ns)
    b->tick_ns = moved_ns;
}

// Steps a started block until it leaves. Returns why.
RONDO_FN uint32_t rondo_cuda_launch_steps(const struct rondo_cuda_launch *l,
                                          const struct rondo_cuda_block_home *home,
                                          struct rondo_cuda_fast *fast, uint64_t now_ns) {
  struct rondo_block *b = &fast->block;
  struct rondo_cuda_launch_pace pace = {now_ns, now_ns, 0, RONDO_CUDA_PAUSE_MIN_NS};
  b->tick_ns = UINT32_MAX;                     // until the clock has moved
  rondo_cuda_launch_tell(l, &pace, b, now_ns); // blocks of an earlier launch stay with this one
  for (uint64_t i = 0; i < l->max_steps && now_ns - pace.begun_ns < l->longest_ns; i++) {
    if (b->queue.count + RONDO_STEP_FETCHES > b->queue.capacity)
      rondo_cuda_launch_move_queue_home(home, b);
    rondo_cuda_launch_mirror_turn(l);
    int result = rondo_block_step(b, now_ns);
    if (!b->resident)
      return (uint32_t)result;
    if (result == RONDO_STEP_PROGRESSED) {
      pace.pause_ns = RONDO_CUDA_PAUSE_MIN_NS;
      rondo_cuda_launch_tell(l, &pace, b, now_ns);
    } else {
      rondo_cuda_launch_keep(l, b, now_ns);
      rondo_cuda_launch_rest(&pace, rondo_cuda_launch_status(l, b->index), b, now_ns);
    }
    uint64_t before_ns = now_ns;
    now_ns = rondo_cuda_launch_now_ns();
    rondo_cuda_launch_note_tick(b, before_ns, now_ns);
  }
  (void)rondo_block_quit(b, 0);
  return RONDO_CUDA_LAUNCH_CUT;
}

// One residency of a block that the launch owns. The block is disowned after it.
RONDO_FN void rondo_cuda_launch_reside(const struct rondo_cuda_launch *l, uint32_t index,
                                       struct rondo_cuda_fast *fast) {
  struct rondo_cuda_block_home *home = rondo_cuda_launch_home(l, index);
  struct rondo_cuda_block_status *status = rondo_cuda_launch_status(l, index);
  uint64_t launches = ++home->launches;
  rondo_cuda_launch_report_start(status, launches, l->number);
  rondo_cuda_launch_load(l, home, fast);
  uint64_t now_ns = rondo_cuda_launch_now_ns();
  RONDO_TIMED_LAUNCH(rondo_cuda_launch_times(l, index), now_ns);
  rondo_block_start(&fast->block, now_ns);
  rondo_cuda_launch_mirror_begin();
  uint32_t reason = rondo_cuda_launch_steps(l, home, fast, now_ns);
  rondo_cuda_launch_mirror_end();
  RONDO_TIMED_LEAVE(rondo_cuda_launch_now_ns());
  rondo_cuda_launch_save(home, fast);
  rondo_cuda_launch_report_leave(status, &fast->block, launches, reason);
  rondo_cuda_launch_disown(home);
}

// One launch of block `index`, by its deciding thread. `fast`: its shared memory, of
// rondo_cuda_fast_bytes(l->fast_tasks). Returns true if it owned the block.
RONDO_FN bool rondo_cuda_launch_try_block(const struct rondo_cuda_launch *l, uint32_t index,
                                          struct rondo_cuda_fast *fast) {
  if (index >= l->block_count)
    return false;
  struct rondo_cuda_block_home *home = rondo_cuda_launch_home(l, index);
  uint64_t begun_ns = rondo_cuda_launch_now_ns();
  bool owned = false;
  bool stays = true;
  rondo_cuda_launch_store_tie(l, home);
  while (stays && rondo_cuda_launch_try_own(home)) {
    owned = true;
    rondo_cuda_launch_reside(l, index, fast);
    stays = rondo_cuda_launch_must_stay(l, home, fast, begun_ns);
  }
  return owned;
}

#endif // RONDO_DAEMON_CUDA_LAUNCH_CORE_H
