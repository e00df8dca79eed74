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
#include "daemon/core/wait_core.h"
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

// A turn: how much one collective moves before others that are ready have theirs. A chunk costs as
// much as its bytes and RONDO_CHUNK_COST_BYTES more.
#define RONDO_TURN_BYTES (1u << 20)
#define RONDO_STEP_BYTES (256u << 10) // of a turn, in one step: what is urgent waits for no more
#define RONDO_CHUNK_COST_BYTES 2048u
#define RONDO_NOWHERE UINT32_MAX // no place in the task queue

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
  uint32_t resident;   // 0: it has quit, or was never started
  uint32_t stalled;    // nothing that was looked at could move: look for new entries
  uint32_t scheduled;  // 1: the cursor's collective has its budget for this turn
  uint32_t passed;     // the cursor has been past the end of the queue since the start
  uint32_t looks;      // of a primitive for what it receives; the driver changes it. 0: it does not
  uint32_t attempt;    // enum rondo_attempt: how the scheduled collective's last one ended
  uint32_t rounds;     // look rounds
  uint64_t turn_bytes; // what the scheduled collective has moved since it was scheduled
  uint64_t looked_ns;  // time of the last look round
  uint64_t waits;      // address of `capacity` × struct rondo_wait, by table index
  uint64_t last_progress_ns;
  uint64_t resident_since_ns;
  struct rondo_task_queue queue;
  struct rondo_block_counters counters;
  struct rondo_active_slot slots[RONDO_ACTIVE_SLOTS];
};

RONDO_FN void rondo_counter_add(uint64_t *counter, uint64_t n) {
  rondo_store_relaxed_u64(counter, rondo_load_relaxed_u64(counter) + n);
}

// Memory of the caller's that outlives the block, for each collective of the daemon's table.
struct rondo_block_tasks {
  uint32_t *entries;        // of the task queue; `capacity` of them
  struct rondo_wait *waits; // by table index; `capacity` of them, zeroed
  uint32_t capacity;        // size of the table
};

// Prepares a block that has not been started. `source` and `tasks` are copied.
RONDO_FN void rondo_block_init(struct rondo_block *b, const struct rondo_daemon_core *daemon,
                               const struct rondo_sq_consumer *source, uint32_t index,
                               const struct rondo_block_tasks *tasks) {
  b->daemon = daemon;
  b->source = *source;
  b->index = index;
  b->resident = b->stalled = b->scheduled = b->passed = 0;
  b->last_progress_ns = b->resident_since_ns = 0;
  b->looks = 1;
  b->attempt = RONDO_ATTEMPT_DONE;
  b->rounds = 0;
  b->turn_bytes = b->looked_ns = 0;
  b->waits = (uint64_t)(uintptr_t)tasks->waits;
  rondo_task_queue_init(&b->queue, tasks->entries, tasks->capacity);
  struct rondo_block_counters zero = {0, 0, 0, 0, 0, 0, 0, 0};
  b->counters = zero;
  for (uint32_t i = 0; i < RONDO_ACTIVE_SLOTS; i++)
    b->slots[i].occupied = b->slots[i].dirty = 0;
}

// Starts, or starts again, a block that has quit.
RONDO_FN void rondo_block_start(struct rondo_block *b, uint64_t now_ns) {
  b->resident = 1;
  b->stalled = 1; // look at the SQ first
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

// The active slot that holds the context of table entry `index`; null if none does.
RONDO_FN const struct rondo_active_slot *rondo_slot_find(const struct rondo_block *b,
                                                         uint32_t index) {
  const struct rondo_active_slot *slot = &b->slots[index % RONDO_ACTIVE_SLOTS];
  return slot->occupied && slot->context.fixed.index == index ? slot : NULL;
}

// The context of a task in the queue: in its active slot, or where it was saved.
RONDO_FN const struct rondo_task_context *rondo_block_context(const struct rondo_block *b,
                                                              uint32_t index) {
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  return slot ? &slot->context : rondo_table_context(b->daemon->table, index, b->index);
}

// The active slot of a task in the queue, whose table entry cannot be replaced.
RONDO_FN struct rondo_active_slot *rondo_slot_of_task(struct rondo_block *b, uint32_t index) {
  if (rondo_slot_find(b, index))
    return &b->slots[index % RONDO_ACTIVE_SLOTS];
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

// --------------------------------------------------------------------- waits --

RONDO_FN struct rondo_wait *rondo_block_wait(const struct rondo_block *b, uint32_t index) {
  return (struct rondo_wait *)(uintptr_t)b->waits + index;
}

// The collective has something to do, or has not been tried yet.
RONDO_FN void rondo_block_set_ready(struct rondo_block *b, uint32_t index) {
  if (!RONDO_FAULT(WAIT_STALE))
    rondo_block_wait(b, index)->word = RONDO_WAIT_NONE;
}

// The wait of a run that has ended and found no room for its completion.
RONDO_FN struct rondo_wait rondo_block_wait_for_room(const struct rondo_block *b) {
  const struct rondo_cq_producers *cq = b->daemon->cq;
  const struct rondo_cq_ring *ring = rondo_cq_ring_at(cq->ring);
  uint32_t consumed = rondo_load_relaxed_u32(&ring->consumed);
  if ((uint32_t)rondo_load_relaxed_u64(&cq->claim) - consumed < cq->capacity)
    return rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
  return rondo_wait_make(RONDO_WAIT_CHANGES, &ring->consumed, consumed);
}

// Notes what the scheduled collective waits for, which has just been tried and has not moved.
RONDO_FN void rondo_block_note_wait(struct rondo_block *b, const struct rondo_active_slot *slot) {
  const struct rondo_task_context *c = &slot->context;
  *rondo_block_wait(b, c->fixed.index) = c->state.phase == RONDO_PHASE_ENDED
                                             ? rondo_block_wait_for_room(b)
                                             : rondo_wait_of(c, (int)b->attempt);
}

// Notes the wait of the scheduled collective if that was stuck when it was tried last.
RONDO_FN void rondo_block_note_stuck(struct rondo_block *b) {
  uint32_t index = rondo_task_index(rondo_task_queue_current(&b->queue));
  const struct rondo_active_slot *slot = rondo_slot_find(b, index);
  if (b->scheduled && slot && slot->blocked_since_ns)
    rondo_block_note_wait(b, slot);
}

// Returns 1 if the communicator ends the queued run: no word that the run waits for need ever
// change then.
RONDO_FN int rondo_block_is_doomed(const struct rondo_block *b, uint32_t index) {
  const struct rondo_task_context *c = rondo_block_context(b, index);
  int is_open = 0;
  return c->state.phase <= RONDO_PHASE_DRAIN &&
         rondo_gate_verdict(rondo_context_gate(c), c->state.run.number, &is_open) != RONDO_SUCCESS;
}

// Returns 1 if the collective with this index can move. A failure of its communicator is seen in every
// RONDO_DOOM_ROUNDS-th look.
#define RONDO_DOOM_ROUNDS 64u
RONDO_FN int rondo_block_is_ready(const struct rondo_block *b, uint32_t index) {
  if (rondo_wait_is_over(rondo_block_wait(b, index)))
    return 1;
  return (b->rounds + index) % RONDO_DOOM_ROUNDS == 0 && rondo_block_is_doomed(b, index);
}

// The first ready collective among `count` places of the task queue, from place `from` on and round
// its end. Returns its place, or RONDO_NOWHERE.
RONDO_FN uint32_t rondo_block_find_ready(const struct rondo_block *b, uint32_t from,
                                         uint32_t count) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  uint32_t at = from < b->queue.count ? from : 0;
  for (uint32_t i = 0; i < count; i++) {
    if (rondo_block_is_ready(b, rondo_task_index(entries[at])))
      return at;
    if (++at == b->queue.count)
      at = 0;
  }
  return RONDO_NOWHERE;
}

// Returns 1 if one of the collectives in the queue can move, or has failed. For a block that has
// left, which holds no look rounds.
RONDO_FN int rondo_block_can_move(const struct rondo_block *b) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  for (uint32_t i = 0; i < b->queue.count; i++) {
    uint32_t index = rondo_task_index(entries[i]);
    if (rondo_wait_is_over(rondo_block_wait(b, index)) || rondo_block_is_doomed(b, index))
      return 1;
  }
  return 0;
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
  rondo_block_set_ready(b, entry->collective);
  slot->blocked_since_ns = 0;
  uint32_t task = (uint32_t)c->fixed.urgency << 24 | entry->collective;
  int sorted = b->daemon->policy.order == RONDO_ORDER_PRIORITY;
  int was_empty = b->queue.count == 0;
  uint32_t before = was_empty ? 0 : rondo_task_urgency(rondo_task_queue_current(&b->queue));
  rondo_task_queue_push(&b->queue, task, sorted);
  if (was_empty) {
    b->scheduled = 0;
  } else if (rondo_policy_should_switch(&b->daemon->policy, c->fixed.urgency, before)) {
    rondo_block_note_stuck(b);
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
    b->passed = 1;
  if (slot->context.state.phase != RONDO_PHASE_IDLE) {
    rondo_task_queue_push(&b->queue, task, sorted);
    rondo_block_set_ready(b, rondo_task_index(task));
  }
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

// Executes up to RONDO_STEP_PRIMITIVES chunks, and of large ones fewer, so that what comes
// meanwhile does not wait for long. Returns 1 if any was done.
RONDO_FN int rondo_context_run_ops(struct rondo_block *b, struct rondo_active_slot *slot) {
  struct rondo_task_context *c = &slot->context;
  int is_alone = b->queue.count == 1;
  uint32_t looks = is_alone || b->looks == 0 ? b->looks : 1;
  uint64_t moved_bytes = 0;
  uint32_t done = 0;
  while (done < RONDO_STEP_PRIMITIVES && moved_bytes < RONDO_STEP_BYTES &&
         c->state.phase == RONDO_PHASE_OPS) {
    RONDO_TIMED_BEGIN(began);
    b->attempt = (uint32_t)rondo_primitive_attempt(c, looks, &moved_bytes);
    if (b->attempt != RONDO_ATTEMPT_DONE)
      break;
    rondo_context_advance(c);
    RONDO_TIMED_END(PRIMITIVE, began);
    moved_bytes += RONDO_CHUNK_COST_BYTES;
    done++;
  }
  b->turn_bytes += moved_bytes;
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

// Leaves the scheduled collective, which keeps its place, for the one at place `to`.
RONDO_FN void rondo_block_switch(struct rondo_block *b, uint32_t to) {
  if (to <= b->queue.cursor)
    b->stalled = b->passed = 1;
  b->queue.cursor = to;
  b->scheduled = 0;
}

// Leaves the scheduled collective, which is stuck and has spent its budget, for the next one.
RONDO_FN void rondo_block_preempt(struct rondo_block *b, struct rondo_active_slot *slot) {
  rondo_block_note_wait(b, slot);
  uint32_t next = b->queue.cursor + 1;
  slot->blocked_since_ns = 0;
  rondo_counter_add(&b->counters.preemptions, 1);
  rondo_block_switch(b, next < b->queue.count ? next : 0);
}

// Saves every context and leaves, also with half-done collectives. `is_stuck`: the scheduled one,
// if there is one, did not move, so this was its turn.
RONDO_FN int rondo_block_quit(struct rondo_block *b, int is_stuck) {
  if (is_stuck && b->scheduled && b->queue.count) {
    rondo_block_note_wait(b, rondo_slot_at_cursor(b));
    if (rondo_task_queue_next(&b->queue))
      b->passed = 1;
  }
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

// Places of the task queue whose collectives are as urgent as that at place `at`; the queue is sorted.
struct rondo_place_range {
  uint32_t begin, end;
};

RONDO_FN struct rondo_place_range rondo_block_peers_of(const struct rondo_block *b, uint32_t at) {
  const uint32_t *entries = rondo_task_entries(&b->queue);
  struct rondo_place_range range = {at, at + 1};
  uint32_t urgency = rondo_task_urgency(entries[at]);
  while (range.begin > 0 && rondo_task_urgency(entries[range.begin - 1]) == urgency)
    range.begin--;
  while (range.end < b->queue.count && rondo_task_urgency(entries[range.end]) == urgency)
    range.end++;
  return range;
}

// One look round, without the scheduled collective: the ready one whose turn it is. That is the
// next one in the queue; with priorities it is the most urgent one, but the next one in every
// RONDO_FAIR_ROUNDS-th round, so that none waits for ever. Returns its place, or RONDO_NOWHERE.
#define RONDO_FAIR_ROUNDS 16u
RONDO_FN uint32_t rondo_block_find_other(struct rondo_block *b) {
  uint32_t at = b->queue.cursor;
  uint32_t others = b->queue.count - 1;
  b->rounds++;
  if (RONDO_FAULT(LOOK_FROM_FRONT))
    return rondo_block_find_ready(b, 0, at);
  if (b->daemon->policy.order != RONDO_ORDER_PRIORITY || b->rounds % RONDO_FAIR_ROUNDS == 0)
    return rondo_block_find_ready(b, at + 1, others);
  const struct rondo_place_range peers = rondo_block_peers_of(b, at);
  // The more urgent; those as urgent, from the scheduled one on and round; the less urgent.
  uint32_t found = RONDO_NOWHERE;
  uint32_t from = 0;
  uint32_t until = peers.begin;
  for (uint32_t part = 0; part < 4 && found == RONDO_NOWHERE; part++) {
    found = rondo_block_find_ready(b, from, until - from);
    from = part == 0 ? at + 1 : part == 1 ? peers.begin : peers.end;
    until = part == 0 ? peers.end : part == 1 ? at : b->queue.count;
  }
  return found;
}

// Schedules another collective that is ready, if there is one. `is_stuck`: the one that it leaves
// is, so that its wait is noted. Returns 1 if there is one.
RONDO_FN int rondo_block_try_switch(struct rondo_block *b, int is_stuck) {
  uint32_t found = rondo_block_find_other(b);
  if (found == RONDO_NOWHERE)
    return 0;
  if (is_stuck)
    rondo_block_note_wait(b, rondo_slot_at_cursor(b));
  rondo_block_switch(b, found);
  return 1;
}

// The scheduled collective, of several, is stuck: schedules one that is ready, or spends the
// budget. Returns 1 if one is ready.
RONDO_FN int rondo_block_stuck(struct rondo_block *b, uint64_t now_ns) {
  const struct rondo_policy *policy = &b->daemon->policy;
  struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  if (!slot->blocked_since_ns)
    slot->blocked_since_ns = now_ns;
  if (policy->budget == RONDO_BUDGET_NEVER || b->looks == 0 || RONDO_FAULT(BUDGET_NEVER_ENDS))
    return 0;
  uint64_t since_ns = slot->blocked_since_ns > b->looked_ns ? slot->blocked_since_ns : b->looked_ns;
  if (now_ns - since_ns >= policy->look_ns && !RONDO_FAULT(SPINS_IN_VAIN)) {
    b->looked_ns = now_ns;
    b->stalled = 1;
    if (rondo_block_try_switch(b, 1)) {
      slot->blocked_since_ns = 0;
      rondo_counter_add(&b->counters.preemptions, 1);
      return 1;
    }
  }
  if (now_ns - slot->blocked_since_ns >= rondo_block_budget(b, slot))
    rondo_block_preempt(b, slot);
  return 0;
}

// Works for one step on the scheduled collective, whose slot is given. Returns 1 if anything moved.
RONDO_FN int rondo_block_work(struct rondo_block *b, struct rondo_active_slot *slot,
                              uint64_t now_ns) {
  // A budget of zero says that another context was in this slot meanwhile.
  if (!b->scheduled || slot->budget_ns == 0) {
    slot->budget_ns = rondo_policy_initial_budget(&b->daemon->policy, b->queue.cursor);
    slot->blocked_since_ns = 0;
    b->turn_bytes = 0;
    b->scheduled = 1;
    rondo_block_set_ready(b, slot->context.fixed.index); // until it is noted that it is not
  }
  RONDO_POINT("block.execute");
  if (!rondo_block_execute(b, slot, now_ns))
    return 0;
  slot->blocked_since_ns = 0;
  return 1;
}

// The scheduled collective has moved, or ended, and there are others. One that is ready has its
// turn if the scheduled one has had its own or cannot go on; a more urgent one does not wait for
// that.
RONDO_FN void rondo_block_share(struct rondo_block *b) {
  const struct rondo_policy *policy = &b->daemon->policy;
  if (policy->budget == RONDO_BUDGET_NEVER || RONDO_FAULT(SPINS_IN_VAIN))
    return;
  uint32_t current = rondo_task_queue_current(&b->queue);
  uint32_t index = rondo_task_index(current);
  if (!b->scheduled) { // it is the next in the queue, and may have been left stuck
    if (!rondo_block_is_ready(b, index))
      (void)rondo_block_try_switch(b, 0);
    return;
  }
  const struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
  if (slot->context.state.phase == RONDO_PHASE_OPS && b->attempt != RONDO_ATTEMPT_DONE) {
    if (policy->look_ns)
      return; // its peer may be about to move
    (void)rondo_block_try_switch(b, 1);
    return;
  }
  uint32_t first = *rondo_task_entries(&b->queue);
  int is_passed = policy->order == RONDO_ORDER_PRIORITY &&
                  rondo_task_urgency(first) > rondo_task_urgency(current);
  if (!is_passed && b->turn_bytes < RONDO_TURN_BYTES)
    return;
  (void)rondo_block_try_switch(b, 0);
}

// The only collective in the queue has not moved: there is none to leave it for, unless one comes.
RONDO_FN void rondo_block_stay(struct rondo_block *b, struct rondo_active_slot *slot,
                               uint64_t now_ns) {
  const struct rondo_policy *policy = &b->daemon->policy;
  if (!slot->blocked_since_ns)
    slot->blocked_since_ns = now_ns;
  if (b->looks && now_ns - b->looked_ns >= policy->look_ns) {
    b->looked_ns = now_ns;
    b->stalled = 1;
  }
}

// Works on the scheduled collective and, if that is stuck, on one that is ready. Returns 1 if
// anything moved.
RONDO_FN int rondo_block_move(struct rondo_block *b, uint64_t now_ns) {
  // A ready one may be stuck, too: it got one of two things that it waits for.
  for (uint32_t tries = 0; tries < 2; tries++) {
    struct rondo_active_slot *slot = rondo_slot_at_cursor(b);
    if (rondo_block_work(b, slot, now_ns)) {
      if (b->queue.count > 1)
        rondo_block_share(b);
      return 1;
    }
    if (b->queue.count == 1) {
      rondo_block_stay(b, slot, now_ns);
      return 0;
    }
    if (!rondo_block_stuck(b, now_ns))
      return 0;
  }
  return 0;
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
  if (b->queue.count)
    moved |= rondo_block_move(b, now_ns);
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
