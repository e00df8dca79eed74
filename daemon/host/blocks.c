// Blocks of the host driver: who may step one, when it is started, when it leaves.
#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "daemon/host/device.h"
#include "daemon/host/host.h"

// How a block is stepped in one turn.
struct manner {
  uint32_t steps;       // at most, so that owners change often enough
  uint32_t stuck_steps; // ... while it is stuck
  uint32_t looks;       // of each step for what a peer sends
  int is_through;       // it is, when a run has ended
  int is_quiet;         // who steps the block steps those that wait for it, too
};

static const struct manner WORKED = {.steps = 4, .looks = 1};
// Somebody has nothing else to do, and a step is long beside the time that a slot takes.
static const struct manner AWAITED = {.steps = 4, .stuck_steps = 4, .looks = 16, .is_through = 1};
// The same beside the network, which is looked after between turns: all looks together take as long as one there.
static const struct manner AWAITED_FROM_FAR = {
    .steps = 4, .stuck_steps = 4, .looks = 2, .is_through = 1};
static const struct manner ASKED = {.steps = 4, .looks = 1, .is_through = 1};
// What was submitted just now. A look would take the line from a peer that is about to write it.
static const struct manner HANDED = {.steps = 1, .looks = 0, .is_quiet = 1};
static const struct manner LOOKED_AFTER = {.steps = 1, .looks = 1, .is_quiet = 1};
static const struct manner ASSISTED = {.steps = 4, .looks = 1, .is_quiet = 1};

int rondo_host_blocks_create(struct rondo_host_daemon *d, const struct rondo_sq_consumer *sources,
                             uint32_t capacity) {
  uint32_t count = d->core.block_count;
  size_t bytes = count * sizeof(struct rondo_host_block);
  bytes = (bytes + RONDO_LINE_BYTES - 1) / RONDO_LINE_BYTES * RONDO_LINE_BYTES;
  struct rondo_host_block *blocks = aligned_alloc(RONDO_LINE_BYTES, bytes);
  if (!blocks)
    return RONDO_ERR_NO_MEMORY;
  memset(blocks, 0, bytes);
  d->blocks = blocks;
  for (uint32_t i = 0; i < count; i++) {
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
    free((void *)(uintptr_t)d->blocks[i].moved);
  }
  free(d->blocks);
  d->blocks = NULL;
}

int rondo_host_try_own(struct rondo_host_block *block) {
  if (rondo_load_relaxed_u32(&block->owner))
    return 0;
  return rondo_try_swap_acq_rel_u32(&block->owner, 0, 1); // H2
}

void rondo_host_disown(struct rondo_host_block *block) {
  rondo_store_release_u32(&block->owner, 0); // H1
}

static uint64_t block_progress(const struct rondo_host_block *block) {
  return block->core.counters.primitives + block->core.counters.ended;
}

// A block is started at once for a new entry and for a collective that can move, and after a pause for any other
// unfinished work.
static int should_start(const struct rondo_host_block *block, uint64_t now_ns) {
  if (rondo_sq_try_peek(&block->core.source))
    return 1;
  if (RONDO_FAULT(LOST_WAKEUP))
    return 0;
  const struct rondo_block *b = &block->core;
  return b->queue.count > 0 &&
         (now_ns >= rondo_load_relaxed_u64(&block->next_start_ns) || rondo_block_can_move(b));
}

// A stuck block starts and quits a thousand times a second: of such a series only the first is told.
static void tell(const struct rondo_host_block *block, int what) {
  const struct rondo_daemon *d = &block->daemon->base;
  if (d->noted && !block->is_fruitless)
    d->noted(d->owner, what, block->core.index);
}

static void block_left(struct rondo_host_block *block, uint64_t now_ns) {
  struct rondo_host_daemon *d = block->daemon;
  int progressed = block_progress(block) != block->progress_mark;
  tell(block, RONDO_NOTE_QUIT);
  block->is_fruitless = !progressed;
  if (progressed)
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

// For those who think of helping out.
static void note_copies(struct rondo_host_block *block) {
  const struct rondo_block *b = &block->core;
  if (b->queue.count == 0)
    return;
  uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
  const struct rondo_task_context *c = &b->slots[index % RONDO_ACTIVE_SLOTS].context;
  int copies =
      c->state.phase == RONDO_PHASE_OPS && (rondo_context_op(c)->primitive & RONDO_PRIM_COPY);
  uint32_t bytes = copies ? c->fixed.geometry.chunk_elems * c->fixed.elem_bytes : 0;
  if (rondo_load_relaxed_u32(&block->copies_bytes) != bytes)
    rondo_store_relaxed_u32(&block->copies_bytes, bytes);
}

// 1 if a run has ended, of those that there were `ended` of, and there is no reason to step on: who waits
// looks at it first, and else nothing is left.
static int is_through(const struct rondo_block *b, uint64_t ended, int is_awaited) {
  if (b->counters.ended == ended)
    return 0;
  return is_awaited || (b->queue.count == 0 && !rondo_sq_try_peek(&b->source));
}

// Steps a block that is there until nothing moves or it has been given steps enough. Returns 1 if it
// moved; the result of the last step is written to `result`.
static int step_often(struct rondo_host_block *block, uint64_t now_ns, const struct manner *how,
                      int *result) {
  uint64_t ended = block->core.counters.ended;
  uint64_t before = block_progress(block);
  uint32_t patience = how->stuck_steps;
  uint32_t steps = 0;
  int moved = 0;
  block->core.looks = how->looks;
  while (steps < how->steps && !is_through(&block->core, ended, how->is_through)) {
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
  return moved || block_progress(block) != before; // a step that quits may have moved before
}

// Who looked at the clock may have taken the block after others who looked later.
static uint64_t time_of_turn(struct rondo_host_block *block, uint64_t now_ns) {
  if (!now_ns)
    now_ns = rondo_stamp_ns(&block->clock);
  if (now_ns > block->now_ns)
    rondo_store_relaxed_u64(&block->now_ns, now_ns);
  return block->now_ns;
}

static void start(struct rondo_host_block *block, uint64_t now_ns) {
  rondo_store_seq_cst_u64(&block->launches, block->launches + 1);
  rondo_fetch_add_relaxed_u64(&block->daemon->starts, block->core.index == 0);
  block->progress_mark = block_progress(block);
  tell(block, RONDO_NOTE_STARTED);
  rondo_block_start(&block->core, now_ns);
}

// Steps a block that is there, at the time of its turn. With a `clock` that time is that of the turn before:
// peers that wait for the first steps of a run need not wait for a look at the clock, which takes as long as
// half of them. Returns enum rondo_step_result.
static int take_turn(struct rondo_host_block *block, const struct manner *how,
                     struct rondo_stamp *clock) {
  struct rondo_daemon *d = &block->daemon->base;
  uint64_t told_ns = block->now_ns;
  uint64_t ended = block->core.counters.ended;
  int result = RONDO_STEP_IDLE;
  int moved = step_often(block, told_ns, how, &result);
  if (clock)
    rondo_block_correct_time(&block->core, told_ns, time_of_turn(block, rondo_stamp_ns(clock)));
  if (block->core.counters.ended != ended)
    rondo_store_relaxed_u64(&d->ended_ns, block->now_ns);
  if (!block->core.resident)
    block_left(block, block->now_ns);
  if (moved)
    note_copies(block);
  if (moved && rondo_daemon_is_far(d))
    d->moved(d->owner);
  if (moved && !how->is_quiet && rondo_load_relaxed_u32(&rondo_host_device.tickers)) // B4
    rondo_host_wake_tickers();
  uint64_t moved_for = rondo_load_acquire_u64(&block->moved);
  if (moved && moved_for)
    rondo_bells_ring(d->bells, (uint8_t *)(uintptr_t)moved_for);
  return moved ? RONDO_STEP_PROGRESSED : result;
}

int rondo_host_drive(struct rondo_host_block *block, uint64_t now_ns,
                     enum rondo_host_caller caller) {
  now_ns = time_of_turn(block, now_ns);
  if (!block->core.resident) {
    if (!should_start(block, now_ns))
      return RONDO_STEP_IDLE;
    start(block, now_ns);
  }
  static const struct manner *const manners[] = {[RONDO_HOST_WORKER] = &WORKED,
                                                 [RONDO_HOST_ASSISTANT] = &ASSISTED,
                                                 [RONDO_HOST_ASKER] = &ASKED,
                                                 [RONDO_HOST_WAITER] = &AWAITED};
  int is_far = caller == RONDO_HOST_WAITER && rondo_daemon_is_far(&block->daemon->base);
  return take_turn(block, is_far ? &AWAITED_FROM_FAR : manners[caller], NULL);
}

// What a run sends first goes into a line of which the peer has a copy. It is asked for, and ours when it is written.
static void ask_for_slot(const struct rondo_endpoint *e) {
  if (e->connector)
    rondo_prefetch_to_write(rondo_connector_slot(rondo_endpoint_connector(e), e->sequence));
}

// 1 if a run of the collective does nothing for others before something has come from them.
static int receives_first(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_table_context(b->daemon->table, index, b->index);
  const struct rondo_plan_op *ops = (const struct rondo_plan_op *)(uintptr_t)c->fixed.ops;
  uint32_t first = 0; // of those that are not between buffers of its own
  while (first < c->fixed.op_count && !(ops[first].primitive & (RONDO_PRIM_RECV | RONDO_PRIM_SEND)))
    first++;
  if (first < c->fixed.op_count && (ops[first].primitive & RONDO_PRIM_RECV))
    return 1;
  ask_for_slot(&c->state.send);
  return 0;
}

// What comes first travels while the caller does something else, if its peer has written it.
static void ask_for_chunk(struct rondo_block *b) {
  if (!b->queue.count)
    return;
  const struct rondo_task_context *c = &rondo_slot_at_cursor(b)->context;
  if (c->state.phase == RONDO_PHASE_OPS && c->state.recv.connector)
    rondo_prefetch(
        rondo_connector_slot(rondo_endpoint_connector(&c->state.recv), c->state.recv.sequence));
}

uint64_t rondo_host_hand(struct rondo_host_block *block, const struct rondo_sqe *entry,
                         struct rondo_stamp *clock) {
  int waits = receives_first(&block->core, entry->collective);
  uint64_t now_ns = block->now_ns;
  if (waits || !block->core.resident)
    now_ns = time_of_turn(block, rondo_stamp_ns(clock));
  if (!block->core.resident)
    start(block, now_ns);
  rondo_block_accept(&block->core, entry, now_ns);
  block->is_begun = !waits && take_turn(block, &HANDED, clock) == RONDO_STEP_PROGRESSED;
  if (block->is_begun)
    ask_for_chunk(&block->core);
  return block->now_ns;
}

void rondo_host_go_on(struct rondo_host_block *block) {
  if (block->is_begun && block->core.resident && block->core.queue.count)
    (void)take_turn(block, &LOOKED_AFTER, NULL);
}
