// The daemon block: a resumable state machine (design, 1; the paper, Algorithm 1).
//
// rondo_block_step does a bounded amount of work and returns. It fetches from the
// SQ, schedules from the task queue, executes primitives under a spin budget, preempts
// what is stuck, posts completions, and quits when nothing moves. It has no idea
// who calls it: a worker thread, a waiting application thread, a CUDA block or the explorer.
//
// One caller at a time for a block; the caller provides mutual exclusion and
// visibility from one caller to the next.
#ifndef RONDO_DAEMON_CORE_BLOCK_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_CORE_H

#include <stdint.h>

#include "daemon/core/context_core.h"
#include "daemon/core/primitive_core.h"
#include "daemon/core/timing_core.h"
#include "queues/cq_core.h"
#include "queues/sq_core.h"
#include "scheduler/policy_core.h"
#include "scheduler/task_queue_core.h"
#include <rondo/status.h>

#if defined(RONDO_EXPLORE)
#define RONDO_ACTIVE_SLOTS 2u // collectives push each other out at once
#else
#define RONDO_ACTIVE_SLOTS 8u
#endif
#define RONDO_STEP_PRIMITIVES 8u // chunks that one step does at most
#define RONDO_STEP_FETCHES 16u   // entries that one step fetches at most

enum rondo_step_result {
  RONDO_STEP_PROGRESSED = 0, // something moved; step again
  RONDO_STEP_BLOCKED = 1,    // there is work, but a peer must move first
  RONDO_STEP_IDLE = 2,       // there is no work
  RONDO_STEP_QUIT = 3,       // the block has saved everything and left; start it to go on
  RONDO_STEP_EXIT = 4        // the daemon was told to end, and this block has
};

// Written by the block that owns them only; readers may be any thread.
struct rondo_block_counters {
  uint64_t steps, primitives, preemptions, context_loads, context_saves, quits, fetched, ended;
};

// What all blocks of one rank share. Constant: what changes is reached by address, so that it may lie
// with whoever changes it.
struct rondo_daemon_core {
  struct rondo_sq_producer *inboxes; // block_count; block 0's, to hand entries on. [0] is unused
  struct rondo_cq_producers *cq;
  const struct rondo_device_table *table;
  const uint32_t *exit; // set with release when blocks are to end; never unset
  struct rondo_policy policy;
  uint64_t quit_period_ns;
  uint64_t residency_ns;
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
  struct rondo_sq_consumer source; // block 0: of the SQ, from the CPU; the others: of their inbox
  uint32_t index;
  uint32_t resident;        // 0: it has quit, or was never started
  uint32_t stalled;         // a whole pass over the task queue made no progress
  uint32_t pass_progressed; // something moved in the current pass
  uint32_t scheduled;       // 1: the cursor's collective has its budget for this turn
  uint32_t passed;          // the cursor has been past the end of the queue since the start
  uint32_t looks; // of a primitive for what it receives; the driver changes it. 0: it does not
  uint32_t reserved;
  uint64_t last_progress_ns;
  uint64_t resident_since_ns;
  struct rondo_task_queue queue;
  struct rondo_block_counters counters;
  struct rondo_active_slot slots[RONDO_ACTIVE_SLOTS];
};

RONDO_FN void rondo_counter_add(uint64_t *counter, uint64_t n) {
  rondo_store_relaxed_u64(counter, rondo_load_relaxed_u64(counter) + n);
}

// Prepares a block that has not been started. `entries` holds `capacity` tasks, the size of the
// daemon's table; both are the caller's and outlive the block. `source` is copied.
RONDO_FN void rondo_block_init(struct rondo_block *b, const struct rondo_daemon_core *daemon,
                               const struct rondo_sq_consumer *source, uint32_t index,
                               uint32_t *entries, uint32_t capacity) {
  b->daemon = daemon;
  b->source = *source;
  b->index = index;
  b->resident = b->stalled = b->pass_progressed = b->scheduled = b->passed = 0;
  b->last_progress_ns = b->resident_since_ns = 0;
  b->looks = 1;
  rondo_task_queue_init(&b->queue, entries, capacity);
  struct rondo_block_counters zero = {0, 0, 0, 0, 0, 0, 0, 0};
  b->counters = zero;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].occupied = b->slots[i].dirty = 0;
}

// Starts, or starts again, a block that has quit.
RONDO_FN void rondo_block_start(struct rondo_block *b, uint64_t now_ns) {
  b->resident = 1;
  b->stalled = 1; // look at the SQ first
  b->pass_progressed = 0;
  b->scheduled = 0;
  b->last_progress_ns = b->resident_since_ns = now_ns;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].blocked_since_ns = 0;
  // A launch too short for a whole pass is followed by one that goes on where it left: else what
  // stands far back in the queue would never have its turn.
  if (b->passed || RONDO_FAULT(START_AT_FRONT))
    rondo_task_queue_rewind(&b->queue);
  b->passed = 0;
}

// ------------------------------------------------------- contexts and slots ---

// Writes the dynamic part back if it has changed.
RONDO_FN void rondo_slot_save(struct rondo_block *b, struct rondo_active_slot *slot) {
  if (!slot->occupied || !slot->dirty)
    return;
  RONDO_TIMED_BEGIN(began);
  struct rondo_task_context *home =
      rondo_table_context(b->daemon->table, slot->context.fixed.index, b->index);
  if (!RONDO_FAULT(CONTEXT_NOT_SAVED))
    rondo_context_save(home, &slot->context);
  slot->dirty = 0;
  rondo_counter_add(&b->counters.context_saves, 1);
  RONDO_TIMED_END(SAVE, began);
}

// Brings a context into its active slot (direct-mapped).
RONDO_FN struct rondo_active_slot *rondo_slot_fill(struct rondo_block *b, uint32_t index) {
  struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  RONDO_TIMED_BEGIN(began);
  rondo_slot_save(b, slot);
  rondo_context_load(&slot->context, rondo_table_context(b->daemon->table, index, b->index));
  slot->occupied = 1;
  slot->dirty = 0;
  slot->blocked_since_ns = 0;
  slot->budget_ns = 0;
  rondo_counter_add(&b->counters.context_loads, 1);
  RONDO_TIMED_END(LOAD, began);
  return slot;
}

// The active slot of a task in the queue, whose table entry cannot be replaced.
RONDO_FN struct rondo_active_slot *rondo_slot_of_task(struct rondo_block *b, uint32_t index) {
  struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  if (slot->occupied && slot->context.fixed.index == index)
    return slot;
  return rondo_slot_fill(b, index);
}

// The one of the task whose turn it is. There is one in the queue.
RONDO_FN struct rondo_active_slot *rondo_slot_at_cursor(struct rondo_block *b) {
  return rondo_slot_of_task(b, rondo_task_index(rondo_task_queue_current(&b->queue)));
}

// The active slot of an entry that was fetched: what is there may be of a collective that had the same
// index before.
RONDO_FN struct rondo_active_slot *rondo_slot_of_entry(struct rondo_block *b,
                                                       const struct rondo_sqe *entry) {
  struct rondo_active_slot *slot = rondo_slot_of_task(b, entry->collective);
  if (slot->context.fixed.generation == entry->generation || RONDO_FAULT(STALE_SLOT))
    return slot;
  return rondo_slot_fill(b, entry->collective);
}

// Makes `send` the endpoint of one of the plan's send peers. The gate has been found open (G2):
// before, it need not be known where the endpoints are.
RONDO_FN void rondo_context_bind_send(struct rondo_task_context *c, uint32_t peer) {
  struct rondo_endpoint *table = (struct rondo_endpoint *)(uintptr_t)c->fixed.send_table;
  if (peer == c->state.bound_send)
    return;
  if (c->state.bound_send != RONDO_PLAN_NO_PEER)
    table[c->state.bound_send] = c->state.send;
  c->state.send = table[peer];
  c->state.bound_send = (uint16_t)peer;
}

RONDO_FN void rondo_context_bind_recv(struct rondo_task_context *c, uint32_t peer) {
  struct rondo_endpoint *table = (struct rondo_endpoint *)(uintptr_t)c->fixed.recv_table;
  if (peer == c->state.bound_recv)
    return;
  if (c->state.bound_recv != RONDO_PLAN_NO_PEER)
    table[c->state.bound_recv] = c->state.recv;
  c->state.recv = table[peer];
  c->state.bound_recv = (uint16_t)peer;
}

// Makes `send` and `recv` the endpoints of the peers with which the context goes on.
RONDO_FN void rondo_context_bind(struct rondo_task_context *c) {
  const struct rondo_plan_op *op = rondo_context_op(c);
  uint32_t walked = c->state.repeat * op->peer_stride;
  if (op->primitive & RONDO_PRIM_SEND)
    rondo_context_bind_send(c, op->send_peer + walked);
  if (op->primitive & RONDO_PRIM_RECV)
    rondo_context_bind_recv(c, op->recv_peer + walked);
}

// ------------------------------------------------------------------ fetching --

// Accepts one entry: its collective enters the task queue, or the run waits behind
// the one that is executing.
RONDO_FN void rondo_block_accept(struct rondo_block *b, const struct rondo_sqe *entry,
                                 uint64_t now_ns) {
  struct rondo_active_slot *slot = rondo_slot_of_entry(b, entry);
  struct rondo_task_context *c = &slot->context;
  struct rondo_task_run run = {entry->send, entry->recv, entry->run, entry->stream, entry->ticket};
  slot->dirty = 1;
  rondo_counter_add(&b->counters.fetched, 1);
  if (c->state.phase != RONDO_PHASE_IDLE) {
    c->state.queued = run;
    return;
  }
  rondo_context_begin(c, &run, now_ns);
  slot->blocked_since_ns = 0;
  uint32_t task = (uint32_t)c->fixed.urgency << 24 | entry->collective;
  int sorted = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  int was_empty = b->queue.count == 0;
  uint32_t before = was_empty ? 0 : rondo_task_urgency(rondo_task_queue_current(&b->queue));
  rondo_task_queue_push(&b->queue, task, sorted);
  if (was_empty) {
    b->scheduled = 0;
  } else if (rondo_policy_should_switch(&b->daemon->policy, c->fixed.urgency, before)) {
    rondo_task_queue_rewind(&b->queue);
    b->scheduled = 0;
  }
}

// Block 0: 1 if every other block that takes part has room for the entry.
RONDO_FN int rondo_block_can_fan_out(struct rondo_block *b, const struct rondo_sqe *entry) {
  for (uint32_t i = 1; i < entry->block_count; i++)
    if (!rondo_sq_has_room(&b->daemon->inboxes[i]))
      return 0;
  return 1;
}

// Fetches up to RONDO_STEP_FETCHES entries; returns how many.
RONDO_FN uint32_t rondo_block_fetch(struct rondo_block *b, uint64_t now_ns) {
  uint32_t fetched = 0;
  while (fetched < RONDO_STEP_FETCHES) {
    RONDO_TIMED_BEGIN(began);
    const struct rondo_sqe *peeked = rondo_sq_try_peek(&b->source);
    if (!peeked)
      break;
    const struct rondo_sqe entry = *peeked; // at once: a GPU reads it across the bus
    RONDO_TIMED_END(SQE_READ, began);
    RONDO_TIMED_BEGIN(taken);
    if (b->index == 0) {
      if (!rondo_block_can_fan_out(b, &entry))
        break;
      for (uint32_t i = 1; i < entry.block_count; i++)
        (void)rondo_sq_push(&b->daemon->inboxes[i], &entry);
    }
    rondo_block_accept(b, &entry, now_ns);
    rondo_sq_pop(&b->source);
    RONDO_TIMED_END(PREPARE, taken);
    fetched++;
    if (b->daemon->policy.budget == RONDO_BUDGET_NEVER)
      break; // the single-queue model: one at a time
  }
  return fetched;
}

// ---------------------------------------------------------------- completion --

// What is said of a run that has ended.
struct rondo_ended_run {
  struct rondo_task_run run;
  uint64_t started_ns;
  uint8_t status;
};

// Counts this block's part of a run of table entry `index` as ended; the last block posts the
// completion. Returns 0, or 1 when the completion queue has no room: the part is not counted then.
RONDO_FN int rondo_block_post(struct rondo_block *b, uint32_t index,
                              const struct rondo_ended_run *ended, uint64_t now_ns) {
  struct rondo_device_collective *entry = rondo_table_entry(b->daemon->table, index);
  uint32_t parity = (uint32_t)(ended->run.number % RONDO_DEVICE_RUNS);
  if (RONDO_FAULT(STREAM_EARLY))
    rondo_run_release_stream(&ended->run);
  if (ended->status != RONDO_SUCCESS)
    (void)rondo_try_swap_acq_rel_u32(&entry->status[parity], RONDO_SUCCESS, ended->status);
  // Only the last block posts, once it has a place in the queue. Until then it is not counted.
  uint32_t before = rondo_load_acquire_u32(&entry->finished[parity]); // B2
  if (before + 1 < entry->block_count && !RONDO_FAULT(CQE_EARLY))
    return !rondo_try_swap_acq_rel_u32(&entry->finished[parity], before, before + 1); // B1
  uint32_t place = 0;
  RONDO_TIMED_BEGIN(began);
  if (rondo_cq_try_claim(b->daemon->cq, b->daemon->block_count == 1, &place))
    return 1;
  uint64_t duration_ns = now_ns - ended->started_ns;
  struct rondo_cqe cqe;
  cqe.mark = 0;
  cqe.collective = index;
  cqe.duration_ns = duration_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ns;
  cqe.status = (uint16_t)rondo_load_relaxed_u32(&entry->status[parity]);
  cqe.run = (uint16_t)ended->run.number;
  // Cleared first: once the entry is visible, the next run of this parity may come.
  rondo_store_relaxed_u32(&entry->status[parity], RONDO_SUCCESS);
  rondo_store_release_u32(&entry->finished[parity], 0);
  // Also before: the words may be given to others then.
  rondo_run_release_stream(&ended->run);
  rondo_cq_publish(b->daemon->cq, place, &cqe);
  RONDO_TIMED_END(CQE_WRITE, began);
  return 0;
}

// The scheduled collective's run has ended: out of the queue, or to its end for the run behind it.
RONDO_FN void rondo_block_retire(struct rondo_block *b, struct rondo_active_slot *slot) {
  uint32_t task = rondo_task_queue_current(&b->queue);
  int sorted = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  rondo_counter_add(&b->counters.ended, 1);
  b->scheduled = 0;
  if (rondo_task_queue_remove(&b->queue))
    b->pass_progressed = b->passed = 1;
  if (slot->context.state.phase != RONDO_PHASE_IDLE)
    rondo_task_queue_push(&b->queue, task, sorted);
  slot->blocked_since_ns = 0;
}

// Ends the scheduled collective's run here. Returns 1, or 0 when that must be tried again.
//
// As soon as the completion is visible the collective may be deregistered and its contexts
// freed: what the context becomes is therefore saved before, and nothing after.
RONDO_FN int rondo_block_finish(struct rondo_block *b, struct rondo_active_slot *slot,
                                uint64_t now_ns) {
  RONDO_TIMED_BEGIN(began);
  struct rondo_task_context *c = &slot->context;
  const struct rondo_ended_run ended = {c->state.run, c->state.started_ns, c->state.status};
  const struct rondo_task_run next = c->state.queued;
  c->state.queued.number = 0;
  c->state.phase = RONDO_PHASE_IDLE;
  if (next.number)
    rondo_context_begin(c, &next, now_ns);
  slot->dirty = 1;
  rondo_slot_save(b, slot);
  if (rondo_block_post(b, c->fixed.index, &ended, now_ns)) {
    c->state.run = ended.run;
    c->state.started_ns = ended.started_ns;
    c->state.status = ended.status;
    c->state.queued = next;
    c->state.phase = RONDO_PHASE_ENDED;
    slot->dirty = 1;
    return 0;
  }
  RONDO_POINT("block.posted");
  rondo_block_retire(b, slot);
  if (RONDO_FAULT(SAVE_AFTER_POST)) {
    slot->dirty = 1;
    rondo_slot_save(b, slot);
  }
  RONDO_TIMED_END(FINISH, began);
  return 1;
}

// ----------------------------------------------------------------- execution --

RONDO_FN void rondo_context_fail(struct rondo_task_context *c, int status) {
  c->state.status = (uint8_t)status;
  c->state.phase = RONDO_PHASE_FAILING;
  c->state.repeat = 0; // from now on a number of send peers
}

// Moves the context on after a chunk: repeat, op, loop, end of plan.
RONDO_FN void rondo_context_advance(struct rondo_task_context *c) {
  const struct rondo_plan_op *op = rondo_context_op(c);
  if (++c->state.repeat < op->repeat) {
    if (op->peer_stride)
      rondo_context_bind(c);
    return;
  }
  c->state.repeat = 0;
  if (++c->state.op == c->fixed.op_count) {
    c->state.op = 0;
    if (++c->state.loop == rondo_geometry_loops(&c->fixed.geometry)) {
      c->state.phase = c->state.has_reference ? RONDO_PHASE_DRAIN : RONDO_PHASE_ENDED;
      return;
    }
  }
  rondo_context_bind(c);
}

// Executes up to RONDO_STEP_PRIMITIVES chunks. Returns 1 if any was done.
RONDO_FN int rondo_context_run_ops(struct rondo_block *b, struct rondo_active_slot *slot) {
  struct rondo_task_context *c = &slot->context;
  uint32_t done = 0;
  while (done < RONDO_STEP_PRIMITIVES && c->state.phase == RONDO_PHASE_OPS) {
    RONDO_TIMED_BEGIN(began);
    if (rondo_primitive_attempt(c, b->looks) != RONDO_ATTEMPT_DONE)
      break;
    rondo_context_advance(c);
    RONDO_TIMED_END(PRIMITIVE, began);
    done++;
  }
  if (done) {
    slot->dirty = 1;
    if (c->state.phase != RONDO_PHASE_ENDED)
      slot->budget_ns = rondo_policy_raised_budget(&b->daemon->policy, slot->budget_ns);
    rondo_counter_add(&b->counters.primitives, done);
  }
  return done != 0;
}

// 1 if the run is through with what it sent to the current peer, as its phase wants it: consumed, or
// shut and not being read.
RONDO_FN int rondo_context_let_go(struct rondo_task_context *c) {
  if (c->state.phase == RONDO_PHASE_FAILING)
    return !rondo_connector_shut(&c->state.send);
  // The consumer may be on another machine, and say later, or never, what it has consumed.
  if (rondo_connector_never_refers(&c->state.send))
    return 1;
  uint32_t end = c->fixed.send_table ? c->state.send.sequence : c->state.reference_end;
  return rondo_connector_is_drained(&c->state.send, end);
}

// Goes through the send peers, a bounded number at a time, from peer `repeat` on, until the run is
// through with all of them. Returns 1 if it went on.
RONDO_FN int rondo_context_leave_peers(struct rondo_task_context *c) {
  uint32_t before = c->state.repeat;
  uint32_t count = c->state.has_reference ? c->fixed.send_peer_count : 0;
  while (c->state.repeat < count && c->state.repeat - before < RONDO_STEP_PRIMITIVES) {
    rondo_context_bind_send(c, c->state.repeat);
    if (!rondo_context_let_go(c))
      break;
    c->state.repeat += RONDO_FAULT(LAST_PEER_ALONE) ? count : 1;
  }
  if (c->state.repeat >= count)
    c->state.phase = RONDO_PHASE_ENDED;
  return c->state.repeat != before;
}

// Handles the phases around the plan. Returns 1 if anything moved.
RONDO_FN int rondo_context_change_phase(struct rondo_task_context *c) {
  int is_open = 0;
  int moved = 0;
  int verdict = RONDO_SUCCESS;
  uint8_t before = c->state.phase;
  if (before <= RONDO_PHASE_DRAIN)
    verdict = rondo_gate_verdict(rondo_context_gate(c), c->state.run.number, &is_open);
  if (verdict != RONDO_SUCCESS) {
    rondo_context_fail(c, verdict);
  } else if (before == RONDO_PHASE_GATE && is_open && rondo_run_is_due(&c->state.run)) {
    int empty = rondo_geometry_is_empty(&c->fixed.geometry);
    c->state.phase = empty ? RONDO_PHASE_ENDED : RONDO_PHASE_OPS;
    if (!empty)
      rondo_context_bind(c);
  } else if (before == RONDO_PHASE_DRAIN && RONDO_FAULT(NO_DRAIN)) {
    c->state.phase = RONDO_PHASE_ENDED;
  } else if (before == RONDO_PHASE_DRAIN || before == RONDO_PHASE_FAILING) {
    moved = rondo_context_leave_peers(c);
  }
  return moved || c->state.phase != before;
}

// Works on the scheduled collective. Returns 1 if anything moved.
RONDO_FN int rondo_block_execute(struct rondo_block *b, struct rondo_active_slot *slot,
                                 uint64_t now_ns) {
  struct rondo_task_context *c = &slot->context;
  int moved = 0;
  if (c->state.phase == RONDO_PHASE_GATE)
    moved |= rondo_context_change_phase(c);
  if (c->state.phase == RONDO_PHASE_OPS) {
    moved |= rondo_context_run_ops(b, slot);
    if (!moved)
      moved |= rondo_context_change_phase(c);
  }
  if (c->state.phase == RONDO_PHASE_DRAIN || c->state.phase == RONDO_PHASE_FAILING)
    moved |= rondo_context_change_phase(c);
  if (moved)
    slot->dirty = 1;
  if (c->state.phase == RONDO_PHASE_ENDED)
    moved |= rondo_block_finish(b, slot, now_ns);
  return moved;
}

// ---------------------------------------------------------------- scheduling --

// Leaves the scheduled collective, which is stuck, for the next one; it keeps its place.
RONDO_FN void rondo_block_preempt(struct rondo_block *b, struct rondo_active_slot *slot) {
  rondo_slot_save(b, slot);
  slot->blocked_since_ns = 0;
  b->scheduled = 0;
  rondo_counter_add(&b->counters.preemptions, 1);
  if (rondo_task_queue_next(&b->queue)) {
    b->stalled = !b->pass_progressed;
    b->pass_progressed = 0;
    b->passed = 1;
  }
}

// Saves every context and leaves, also with half-done collectives. `is_stuck`: the scheduled one,
// if there is one, did not move, so this was its turn.
RONDO_FN int rondo_block_quit(struct rondo_block *b, int is_stuck) {
  if (is_stuck && b->scheduled && b->queue.count && rondo_task_queue_next(&b->queue))
    b->passed = 1;
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

// Nothing moved in this step: time to quit?
RONDO_FN int rondo_block_rest(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_daemon_core *d = b->daemon;
  if (b->queue.count == 0 && rondo_load_acquire_u32(d->exit)) {
    (void)rondo_block_quit(b, 1);
    return RONDO_STEP_EXIT;
  }
  if (now_ns - b->last_progress_ns >= d->quit_period_ns) {
    int holds = b->queue.count > 0 &&
                (d->policy.budget == RONDO_BUDGET_NEVER || RONDO_FAULT(QUIT_HOLDS_HALF_DONE));
    if (!holds)
      return rondo_block_quit(b, 1);
  }
  return b->queue.count ? RONDO_STEP_BLOCKED : RONDO_STEP_IDLE;
}

// The time that the scheduled collective may be stuck. While it waits for its data to be read it has nothing
// to do, so there is no peer that it would meet by staying: others may have to come first here, such as
// the receives of two ranks that send to each other.
RONDO_FN uint64_t rondo_block_budget(const struct rondo_block *b,
                                     const struct rondo_active_slot *slot) {
  uint64_t least_ns = b->daemon->policy.min_budget_ns;
  if (slot->context.state.phase != RONDO_PHASE_DRAIN || slot->budget_ns < least_ns)
    return slot->budget_ns;
  return least_ns;
}

// The scheduled collective has not moved: preempt it when its budget is spent.
RONDO_FN void rondo_block_stuck(struct rondo_block *b, struct rondo_active_slot *slot,
                                uint64_t now_ns) {
  if (!slot->blocked_since_ns)
    slot->blocked_since_ns = now_ns;
  if (slot->budget_ns == UINT64_MAX || RONDO_FAULT(BUDGET_NEVER_ENDS))
    return;
  if (now_ns - slot->blocked_since_ns >= rondo_block_budget(b, slot))
    rondo_block_preempt(b, slot);
}

// One bounded step at time `now_ns` (monotonic). Returns enum rondo_step_result.
RONDO_FN int rondo_block_step(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_daemon_core *d = b->daemon;
  int moved = 0;
  rondo_counter_add(&b->counters.steps, 1);
  if (rondo_policy_should_fetch(&d->policy, b->queue.count, (int)b->stalled)) {
    b->stalled = 0;
    moved = rondo_block_fetch(b, now_ns) != 0;
  }
  if (b->queue.count) {
    struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
    // A budget of zero says that another context was in this slot meanwhile.
    if (!b->scheduled || slot->budget_ns == 0) {
      slot->budget_ns = rondo_policy_initial_budget(&d->policy, b->queue.cursor);
      slot->blocked_since_ns = 0;
      b->scheduled = 1;
    }
    RONDO_POINT("block.execute");
    if (rondo_block_execute(b, slot, now_ns)) {
      slot->blocked_since_ns = 0;
      b->pass_progressed = 1;
      moved = 1;
    } else {
      rondo_block_stuck(b, slot, now_ns);
    }
  }
  if (moved)
    b->last_progress_ns = now_ns;
  if (now_ns - b->resident_since_ns >= d->residency_ns && d->policy.budget != RONDO_BUDGET_NEVER)
    return rondo_block_quit(b, !moved);
  return moved ? RONDO_STEP_PROGRESSED : rondo_block_rest(b, now_ns);
}

// The block accepted a run and was stepped when it was not known yet what time it was, and was told an
// earlier one.
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
