// The daemon block: a state machine that can stop after every step (the paper, Algorithm 1).
//
// rondo_block_step does a bounded amount of work and returns. It fetches entries from the SQ,
// chooses a collective from the task queue, executes primitives, switches to another collective
// when one is stuck, posts completions, and quits when nothing progresses. Its caller is a worker
// thread, a waiting thread of the application, a CUDA block or a test; the code is the same for
// all.
//
//    rondo_block_init -> rondo_block_start -> rondo_block_step ... quits -> rondo_block_start ...
//
// A block has one caller at a time. The caller provides mutual exclusion, and visibility from one
// caller to the next.
//
//    block_state_core.h     what a block consists of
//    block_slot_core.h      active slots and contexts
//    block_ready_core.h     which collectives can move
//    block_fetch_core.h     entries of the SQ
//    block_execute_core.h   phases and ops of a run
//    block_finish_core.h    the end of a run
//    block_schedule_core.h  which collective comes next
#ifndef RONDO_DAEMON_CORE_BLOCK_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_CORE_H

#include <stdint.h>

#include "daemon/core/block_fetch_core.h"
#include "daemon/core/block_schedule_core.h"

// Starts a block that has quit, or was never started.
RONDO_FN void rondo_block_start(struct rondo_block *b, uint64_t now_ns) {
  b->resident = 1;
  b->stalled = 1; // look at the SQ first
  b->scheduled = 0;
  b->last_progress_ns = b->resident_since_ns = now_ns;
  b->kept_ns = 0;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].blocked_since_ns = 0;
  // If the last launch was too short for a whole pass, the block goes on where it stopped: else a
  // collective far back in the queue would never be executed.
  if (b->passed || RONDO_FAULT(START_AT_FRONT))
    rondo_task_queue_rewind(&b->queue);
  b->passed = 0;
}

// Saves every context and quits, also if collectives are half done. `is_stuck`: the scheduled
// collective, if any, made no progress, so the next launch begins with another one.
RONDO_FN int rondo_block_quit(struct rondo_block *b, bool is_stuck) {
  if (is_stuck && b->scheduled && b->queue.count) {
    rondo_block_note_wait(b, rondo_slot_at_cursor(b));
    if (rondo_task_queue_next(&b->queue))
      b->passed = 1;
  }
  rondo_block_release_entries(b);
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++) {
    if (RONDO_FAULT(QUIT_DOES_NOT_SAVE))
      b->slots[i].dirty = 0;
    rondo_slot_save(b, &b->slots[i]);
    b->slots[i].occupied = 0;
  }
  if (RONDO_FAULT(QUIT_DROPS_WORK))
    b->queue.count = b->queue.cursor = 0;
  b->resident = 0;
  rondo_counter_add(&b->counters.quits, 1);
  return RONDO_STEP_QUIT;
}

// Ends a step without progress.
RONDO_FN int rondo_block_rest(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_daemon_core *d = b->daemon;
  if (b->queue.count == 0 && rondo_block_may_ask(b, now_ns) && rondo_load_acquire_u32(d->exit)) {
    (void)rondo_block_quit(b, 1);
    return RONDO_STEP_EXIT;
  }
  uint64_t since_ns = b->kept_ns > b->last_progress_ns ? b->kept_ns : b->last_progress_ns;
  if (now_ns - since_ns >= d->quit_period_ns) {
    bool holds = b->queue.count > 0 &&
                 (d->policy.budget == RONDO_BUDGET_NEVER || RONDO_FAULT(QUIT_HOLDS_HALF_DONE));
    if (!holds)
      return rondo_block_quit(b, 1);
  }
  return b->queue.count ? RONDO_STEP_BLOCKED : RONDO_STEP_IDLE;
}

// One bounded step at time `now_ns` (monotonic). Returns enum rondo_step_result.
RONDO_FN int rondo_block_step(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_daemon_core *d = b->daemon;
  bool moved = false;
  rondo_counter_add(&b->counters.steps, 1);
  if (rondo_policy_should_fetch(&d->policy, b->queue.count, (int)b->stalled)) {
    b->stalled = 0;
    moved = rondo_block_fetch(b, now_ns) != 0;
  }
  if (b->queue.count)
    moved |= rondo_block_move(b, now_ns);
  if (moved)
    b->last_progress_ns = now_ns;
  if (now_ns - b->resident_since_ns >= d->residency_ns && d->policy.budget != RONDO_BUDGET_NEVER)
    return rondo_block_quit(b, !moved);
  return moved ? RONDO_STEP_PROGRESSED : rondo_block_rest(b, now_ns);
}

// Corrects the times of a block that accepted and stepped a run with an old time `told_ns`, because
// the clock had not been read yet.
RONDO_FN void rondo_block_correct_time(struct rondo_block *b, uint64_t told_ns, uint64_t now_ns) {
  if (!b->resident)
    return;
  b->last_progress_ns = now_ns;
  if (!b->queue.count)
    return;
  struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  if (slot->blocked_since_ns == told_ns)
    slot->blocked_since_ns = now_ns;
  if (slot->context.state.started_ns != told_ns)
    return;
  slot->context.state.started_ns = now_ns;
  slot->dirty = 1;
}

#endif // RONDO_DAEMON_CORE_BLOCK_CORE_H
