// Blocks of the host driver: owner word, start, turn and quit.
#include <stdlib.h>

#include "base/futex.h"
#include "base/memory.h"
#include "daemon/host/host_device.h"
#include "daemon/host/host.h"

// How long a thread steps a block before it gives up the owner word: one turn.
struct turn_kind {
  uint32_t steps;       // maximum; it is small so that other threads soon become the owner
  uint32_t quick_steps; // maximum if the steps are quick; 0: the same
  uint32_t stuck_steps; // maximum of steps while the block is stuck
  uint32_t looks;       // how often a step checks for data of a peer
  bool ends_with_run;   // stop when a run has ended, unless the next step is quick
  bool is_quiet; // wake no parked worker: the thread itself steps the blocks that wait for this one
};

static const struct turn_kind TURNS[] = {
    [RONDO_HOST_WORKER] = {.steps = 4, .looks = 1},
    [RONDO_HOST_SUBMITTER] = {.steps = 4, .looks = 1, .is_quiet = true},
    [RONDO_HOST_TESTER] = {.steps = 4, .quick_steps = 4, .looks = 1, .ends_with_run = true},
    // The thread has nothing else to do, and a step is long compared to the time that a slot takes.
    [RONDO_HOST_WAITER] = {
        .steps = 4, .quick_steps = 16, .stuck_steps = 4, .looks = 16, .ends_with_run = true}};
// The thread also executes rounds of the proxy, and 16 probes take as long as such a round.
static const struct turn_kind WAITER_TURN_PROXIED = {
    .steps = 4, .quick_steps = 4, .stuck_steps = 4, .looks = 2, .ends_with_run = true};
// A probe right after submission would take the line from a peer that is about to write it.
static const struct turn_kind INLINE_FIRST = {.steps = 1, .looks = 0, .is_quiet = true};
static const struct turn_kind INLINE_SECOND = {.steps = 1, .looks = 1, .is_quiet = true};

int rondo_host_blocks_create(struct rondo_host_daemon *d, const struct rondo_sq_consumer *sources,
                             uint32_t capacity) {
  struct rondo_host_block *blocks = rondo_memory_alloc(d->core.block_count * sizeof *blocks);
  if (!blocks)
    return RONDO_ERR_NO_MEMORY;
  d->blocks = blocks;
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    struct rondo_block_tasks tasks = {.entries = calloc(capacity, sizeof *tasks.entries),
                                      .waits = calloc(capacity, sizeof *tasks.waits),
                                      .capacity = capacity};
    rondo_block_init(&blocks[i].core, &d->core, &sources[i], i, &tasks);
    blocks[i].daemon = d;
    blocks[i].pause_ns = d->restart_min_ns;
    if (!tasks.entries || !tasks.waits) {
      rondo_host_blocks_destroy(d);
      return RONDO_ERR_NO_MEMORY;
    }
  }
  return RONDO_SUCCESS;
}

void rondo_host_blocks_destroy(struct rondo_host_daemon *d) {
  if (!d->blocks)
    return;
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    free(rondo_task_entries(&d->blocks[i].core.queue));
    free(rondo_block_wait(&d->blocks[i].core, 0));
    free(rondo_block_ready(&d->blocks[i].core, 0));
    free((void *)(uintptr_t)d->blocks[i].moved);
  }
  rondo_memory_free(d->blocks);
  d->blocks = NULL;
}

int rondo_host_use_flags(struct rondo_daemon *base, uint8_t *flags) {
  struct rondo_host_daemon *d = rondo_host_daemon_of(base);
  uint64_t bytes = rondo_block_flags_bytes(d->blocks[0].core.queue.capacity);
  for (uint32_t i = 0; i < d->core.block_count; i++) {
    uint8_t *ready = calloc(1, bytes);
    if (!ready)
      return RONDO_ERR_NO_MEMORY;
    rondo_block_use_flags(&d->blocks[i].core, flags + i * bytes, ready);
  }
  base->flags = flags;
  base->block_flags_bytes = bytes;
  return RONDO_SUCCESS;
}

bool rondo_host_block_try_own(struct rondo_host_block *block) {
  if (rondo_load_relaxed_u32(&block->owner))
    return false;
  return rondo_try_swap_acq_rel_u32(&block->owner, 0, 1); // H2
}

void rondo_host_block_disown(struct rondo_host_block *block) {
  rondo_store_release_u32(&block->owner, 0); // H1
}

static uint64_t block_progress(const struct rondo_host_block *block) {
  return block->core.counters.primitives + block->core.counters.ended;
}

// A block is started at once if there is a new entry or a collective can go on; after a pause if it
// has other unfinished work.
static bool block_should_start(struct rondo_host_block *block, uint64_t now_ns) {
  if (rondo_sq_try_peek(&block->core.source))
    return true;
  if (RONDO_FAULT(LOST_WAKEUP))
    return false;
  struct rondo_block *b = &block->core;
  return b->queue.count > 0 &&
         (now_ns >= rondo_load_relaxed_u64(&block->next_start_ns) || rondo_block_can_move(b));
}

// A stuck block starts and quits a thousand times a second. Only the first start and quit without
// progress are reported.
static void block_report(const struct rondo_host_block *block, int what) {
  const struct rondo_daemon *d = &block->daemon->base;
  if (d->on_change && !block->is_fruitless)
    d->on_change(d->owner, what, block->core.index);
}

static void block_note_quit(struct rondo_host_block *block, uint64_t now_ns) {
  struct rondo_host_daemon *d = block->daemon;
  block_report(block, RONDO_BLOCK_QUIT);
  block->is_fruitless = block_progress(block) == block->progress_mark;
  if (!block->is_fruitless)
    block->pause_ns = d->restart_min_ns;
  else
    block->pause_ns =
        block->pause_ns < d->restart_max_ns / 2 ? 2 * block->pause_ns : d->restart_max_ns;
  rondo_store_relaxed_u64(&block->next_start_ns, now_ns + block->pause_ns);
  rondo_store_release_u64(&block->leaves, block->leaves + 1); // H5
  rondo_fetch_add_seq_cst_u32(&d->left_word, 1);
  if (rondo_load_seq_cst_u32(&d->sync_waiters))
    rondo_futex_wake_all(&d->left_word);
}

// The context of the scheduled collective. The queue is not empty.
static const struct rondo_task_context *block_next(const struct rondo_block *b) {
  return rondo_block_context(b, rondo_task_index(rondo_task_queue_current(&b->queue)));
}

static uint32_t context_chunk_bytes(const struct rondo_task_context *c) {
  return c->fixed.geometry.chunk_elems * c->fixed.elem_bytes;
}

// Stores how much the block copies, for threads of other ranks that may step it.
static void block_note_copies(struct rondo_host_block *block) {
  if (block->core.queue.count == 0)
    return;
  const struct rondo_task_context *c = block_next(&block->core);
  bool copies =
      c->state.phase == RONDO_PHASE_OPS && (rondo_context_op(c)->primitive & RONDO_PRIM_COPY);
  uint32_t bytes = copies ? context_chunk_bytes(c) : 0;
  if (rondo_load_relaxed_u32(&block->copies_bytes) != bytes)
    rondo_store_relaxed_u32(&block->copies_bytes, bytes);
}

// True if the next step of the block, which has work, takes little time.
static bool block_is_quick_next(const struct rondo_block *b) {
  return context_chunk_bytes(block_next(b)) <= RONDO_HOST_QUICK_BYTES;
}

// True if a turn ends after `steps` steps. `ended`: how many runs had ended before the turn. Many
// small runs take one turn together: to read the clock and to take the rank's lock for each of them
// would take longer than their steps.
static bool block_is_through(const struct rondo_block *b, uint64_t ended, uint32_t steps,
                             const struct turn_kind *how) {
  bool is_long = steps >= how->steps;
  if (is_long && steps >= how->quick_steps)
    return true;
  if (!is_long && b->counters.ended == ended)
    return false;
  bool may_end = is_long || how->ends_with_run;
  if (b->queue.count == 0)
    return may_end || !rondo_sq_try_peek(&b->source);
  return may_end && !block_is_quick_next(b);
}

// Steps a resident block until it is stuck or its turn is over. Returns true if it made progress;
// writes the last step's result to `result`.
static bool block_step_often(struct rondo_host_block *block, uint64_t now_ns,
                             const struct turn_kind *how, int *result) {
  uint64_t ended = block->core.counters.ended;
  uint64_t before = block_progress(block);
  uint32_t patience = how->stuck_steps;
  uint32_t steps = 0;
  bool moved = false;
  block->core.looks = how->looks;
  while (!block_is_through(&block->core, ended, steps, how)) {
    *result = rondo_block_step(&block->core, now_ns);
    if (*result == RONDO_STEP_PROGRESSED) {
      moved = 1;
      steps++;
    } else if (*result == RONDO_STEP_BLOCKED && patience) {
      patience--;
    } else {
      break;
    }
  }
  return moved || block_progress(block) != before; // a step that quits may have moved first
}

// Keeps the block's time from going back: the calling thread may have read the clock before the
// last owner did.
static uint64_t block_set_time(struct rondo_host_block *block, uint64_t now_ns) {
  if (!now_ns)
    now_ns = rondo_stamp_ns(&block->clock);
  if (now_ns > block->now_ns)
    rondo_store_relaxed_u64(&block->now_ns, now_ns);
  return block->now_ns;
}

static void block_start(struct rondo_host_block *block, uint64_t now_ns) {
  rondo_store_seq_cst_u64(&block->launches, block->launches + 1);
  rondo_fetch_add_relaxed_u64(&block->daemon->starts, block->core.index == 0);
  block->progress_mark = block_progress(block);
  block_report(block, RONDO_BLOCK_STARTED);
  rondo_block_start(&block->core, now_ns);
}

// Steps a resident block for one turn. If `clock` is not null, the steps use the time of the
// previous turn, and the clock is read after them: peers wait for the first steps of a run, and to
// read the clock takes half as long as these steps. Returns enum rondo_step_result.
static int block_take_turn(struct rondo_host_block *block, const struct turn_kind *how,
                           struct rondo_stamp *clock) {
  struct rondo_daemon *d = &block->daemon->base;
  uint64_t told_ns = block->now_ns;
  uint64_t ended = block->core.counters.ended;
  int result = RONDO_STEP_IDLE;
  bool moved = block_step_often(block, told_ns, how, &result);
  if (clock)
    rondo_block_correct_time(&block->core, told_ns, block_set_time(block, rondo_stamp_ns(clock)));
  if (block->core.counters.ended != ended)
    rondo_store_relaxed_u64(&d->ended_ns, block->now_ns);
  if (!block->core.resident)
    block_note_quit(block, block->now_ns);
  if (moved)
    block_note_copies(block);
  if (moved && rondo_daemon_has_proxy(d))
    d->on_moved(d->owner);
  if (moved && !how->is_quiet && rondo_load_relaxed_u32(&rondo_host_device.wake_on_move)) // B4
    rondo_host_wake_parked();
  uint64_t moved_for = rondo_load_acquire_u64(&block->moved);
  if (moved && moved_for)
    rondo_event_counts_notify(d->event_counts, (uint8_t *)(uintptr_t)moved_for);
  return moved ? RONDO_STEP_PROGRESSED : result;
}

int rondo_host_block_drive(struct rondo_host_block *block, uint64_t now_ns,
                           enum rondo_host_caller caller) {
  now_ns = block_set_time(block, now_ns);
  if (!block->core.resident) {
    if (!block_should_start(block, now_ns))
      return RONDO_STEP_IDLE;
    block_start(block, now_ns);
  }
  bool has_proxy = caller == RONDO_HOST_WAITER && rondo_daemon_has_proxy(&block->daemon->base);
  return block_take_turn(block, has_proxy ? &WAITER_TURN_PROXIED : &TURNS[caller], NULL);
}

// Prefetches the slot that a run writes first: the peer has a copy of its line.
static void endpoint_prefetch(const struct rondo_endpoint *e) {
  if (e)
    rondo_prefetch_to_write(rondo_endpoint_slot(e));
}

// True if a run of the collective sends nothing before it has received.
static bool block_receives_first(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_table_context(b->daemon->table, index, b->index);
  const struct rondo_plan_op *ops = (const struct rondo_plan_op *)(uintptr_t)c->fixed.ops;
  uint32_t first = 0; // the first op that uses a connector
  while (first < c->fixed.op_count && !(ops[first].primitive & (RONDO_PRIM_RECV | RONDO_PRIM_SEND)))
    first++;
  if (first < c->fixed.op_count && (ops[first].primitive & RONDO_PRIM_RECV))
    return true;
  endpoint_prefetch(rondo_context_send(c));
  return false;
}

// Prefetches the slot that the run receives next, while the caller does its bookkeeping.
static void block_prefetch_chunk(struct rondo_block *b) {
  if (!b->queue.count)
    return;
  const struct rondo_task_context *c = &rondo_slot_at_cursor(b)->context;
  if (c->state.phase == RONDO_PHASE_OPS && c->state.recv)
    rondo_prefetch(rondo_endpoint_slot(rondo_context_recv(c)));
}

uint64_t rondo_host_block_submit_inline(struct rondo_host_block *block,
                                        const struct rondo_sqe *entry, struct rondo_stamp *clock) {
  bool receives = block_receives_first(&block->core, entry->collective);
  uint64_t now_ns = block->now_ns;
  if (receives || !block->core.resident)
    now_ns = block_set_time(block, rondo_stamp_ns(clock));
  if (!block->core.resident)
    block_start(block, now_ns);
  rondo_block_accept(&block->core, entry, now_ns);
  block->is_inlined =
      !receives && block_take_turn(block, &INLINE_FIRST, clock) == RONDO_STEP_PROGRESSED;
  if (block->is_inlined)
    block_prefetch_chunk(&block->core);
  return block->now_ns;
}

void rondo_host_block_poll_inline(struct rondo_host_block *block) {
  if (block->is_inlined && block->core.resident && block->core.queue.count)
    (void)block_take_turn(block, &INLINE_SECOND, NULL);
}
