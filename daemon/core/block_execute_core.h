// Execution of the scheduled collective: the phases of a run, and the ops of its plan.
#ifndef RONDO_DAEMON_CORE_BLOCK_EXECUTE_CORE_H
#define RONDO_DAEMON_CORE_BLOCK_EXECUTE_CORE_H

#include "daemon/core/block_finish_core.h"

RONDO_FN void rondo_context_fail(struct rondo_task_context *c, int status) {
  c->state.status = (uint8_t)status;
  c->state.phase = RONDO_PHASE_FAILING;
  c->state.flags |= RONDO_RUN_FAILED;
  c->state.repeat = 0; // now counts send peers
}

// Goes back to the first op of the round that ends with `op`, for the next chunks. Returns false
// after the last round.
RONDO_FN bool rondo_context_try_round(struct rondo_task_context *c,
                                      const struct rondo_plan_op *op) {
  uint32_t next = c->state.round_chunk + rondo_context_memory(c)->round_chunks;
  bool is_over = next >= c->fixed.geometry.chunk_count;
  c->state.round_chunk = (uint16_t)(is_over ? 0 : next);
  c->state.op = (uint8_t)(is_over ? c->state.op : c->state.op + 1 - op->round_ops);
  return !is_over;
}

// Advances after a chunk: repeat, op, round, loop, pass, end of plan.
RONDO_FN void rondo_context_advance(struct rondo_task_context *c) {
  const struct rondo_plan_op *op = rondo_context_op(c);
  if (++c->state.repeat < op->repeat) {
    if (op->peer_stride)
      rondo_context_bind(c);
    return;
  }
  c->state.repeat = 0;
  if (op->round_ops && rondo_context_try_round(c, op)) {
    rondo_context_bind(c);
    return;
  }
  uint8_t next = ++c->state.op;
  if (next == c->fixed.first_pass || next == c->fixed.op_count) {
    bool is_last = ++c->state.loop == rondo_geometry_loops(&c->fixed.geometry);
    if (is_last && next == c->fixed.op_count) {
      c->state.op = 0;
      c->state.phase = rondo_context_has_reference(c) ? RONDO_PHASE_DRAIN : RONDO_PHASE_ENDED;
      return;
    }
    if (is_last)
      c->state.loop = 0; // of the second pass
    else
      c->state.op = next == c->fixed.first_pass ? 0 : c->fixed.first_pass;
  }
  rondo_context_bind(c);
}

// Executes up to RONDO_STEP_PRIMITIVES chunks, or fewer if they are large, so that new entries do
// not wait for long. Returns true if it executed any.
RONDO_FN bool rondo_context_run_ops(struct rondo_block *b, struct rondo_active_slot *slot) {
  struct rondo_task_context *c = &slot->context;
  bool is_alone = b->queue.count == 1;
  uint32_t looks = is_alone || b->looks == 0 ? b->looks : 1;
  uint64_t moved_bytes = 0;
  uint32_t done = 0;
  while (done < RONDO_STEP_PRIMITIVES && moved_bytes < RONDO_STEP_BYTES &&
         c->state.phase == RONDO_PHASE_OPS) {
    RONDO_TIMED_BEGIN(began);
    b->attempt = (uint32_t)rondo_primitive_attempt(c, looks, &moved_bytes);
    if (b->attempt == RONDO_ATTEMPT_MISMATCH)
      rondo_context_fail(c, RONDO_ERR_MISMATCH);
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

// True if the current peer no longer needs what the run sent: it has consumed it, or the connector
// is shut and not being read.
RONDO_FN bool rondo_context_let_go(struct rondo_task_context *c) {
  struct rondo_endpoint *send = rondo_context_send(c);
  if (c->state.phase == RONDO_PHASE_FAILING)
    return rondo_connector_try_shut(send);
  // The consumer may be on another machine, and its credits may arrive late or never.
  if (rondo_connector_has_no_references(send))
    return true;
  uint32_t end = c->fixed.send_table ? send->sequence : c->state.reference_end;
  return rondo_connector_is_drained(send, end);
}

// Checks the send peers from peer `repeat` on, a bounded number of them. Returns true if one of
// them no longer needs what the run sent, or none is left.
RONDO_FN bool rondo_context_leave_peers(struct rondo_task_context *c) {
  uint32_t before = c->state.repeat;
  bool waits = c->state.phase == RONDO_PHASE_FAILING || !RONDO_FAULT(NO_DRAIN);
  uint32_t count = waits && rondo_context_has_reference(c) ? c->fixed.send_peer_count : 0;
  while (c->state.repeat < count && c->state.repeat - before < RONDO_STEP_PRIMITIVES) {
    rondo_context_bind_send(c, c->state.repeat);
    if (!rondo_context_let_go(c))
      break;
    c->state.repeat += RONDO_FAULT(LAST_PEER_ALONE) ? count : 1;
  }
  if (c->state.repeat >= count)
    c->state.phase = RONDO_PHASE_ENDED;
  return c->state.repeat != before || c->state.phase == RONDO_PHASE_ENDED;
}

// Takes the static part with the plan, here and in the context buffer. The gate must have been seen
// open (G2).
RONDO_FN void rondo_context_take_plan(struct rondo_task_context *c) {
  struct rondo_task_context *home = (struct rondo_task_context *)(uintptr_t)c->fixed.recv_table;
  c->fixed = *(const struct rondo_context_static *)(uintptr_t)c->fixed.send_table;
  home->fixed = c->fixed;
}

// Opens the endpoints of all peers.
RONDO_FN void rondo_context_open(const struct rondo_task_context *c) {
  struct rondo_endpoint *send = (struct rondo_endpoint *)(uintptr_t)c->fixed.send_table;
  struct rondo_endpoint *recv = (struct rondo_endpoint *)(uintptr_t)c->fixed.recv_table;
  uint32_t recv_count = rondo_context_memory(c)->recv_peer_count;
  for (uint32_t i = 0; i < c->fixed.send_peer_count; i++)
    rondo_endpoint_open_send(&send[i]);
  for (uint32_t i = 0; i < recv_count; i++)
    rondo_endpoint_open_recv(&recv[i]);
}

// What the first run does when the gate has been seen open (G2): takes the plan if the context
// lacks it, makes the writes of the gate, and opens the endpoints.
RONDO_FN void rondo_context_enter(struct rondo_task_context *c) {
  c->state.flags &= (uint8_t)~RONDO_RUN_FIRST;
  if (c->fixed.is_provisional)
    rondo_context_take_plan(c);
  const struct rondo_own_memory *own = rondo_context_memory(c);
  const struct rondo_gate_write *writes =
      (const struct rondo_gate_write *)(uintptr_t)own->gate_writes;
  for (uint32_t i = 0; writes && i < own->gate_write_count; i++) {
    const struct rondo_gate_write *w =
        &writes[(uint64_t)c->fixed.block * own->gate_write_count + i];
    if (w->to)
      *(uint64_t *)(uintptr_t)w->to = w->value;
  }
  rondo_context_open(c);
}

// Begins the plan of a run that may move data.
RONDO_FN void rondo_context_begin_plan(struct rondo_task_context *c) {
  if (c->state.flags & RONDO_RUN_FIRST)
    rondo_context_enter(c);
  if (rondo_geometry_is_empty(&c->fixed.geometry)) {
    c->state.phase = RONDO_PHASE_ENDED;
  } else if (c->fixed.geometry.listed && !rondo_listed_try_begin(c)) {
    rondo_context_fail(c, RONDO_ERR_MISMATCH);
  } else {
    c->state.phase = RONDO_PHASE_OPS;
    rondo_context_bind(c);
  }
}

// Begins a run whose gate was seen open when it was submitted, unless its stream has not arrived. A
// failure since then is found where the run gets stuck, or was found by the run before. The gate
// may lie across a bus.
RONDO_FN bool rondo_context_try_begin(struct rondo_task_context *c) {
  const unsigned gate = c->state.flags & (RONDO_SQE_OPEN | RONDO_RUN_FAILED);
  if (gate != RONDO_SQE_OPEN || !rondo_context_is_due(c))
    return false;
  rondo_context_begin_plan(c);
  return true;
}

// Asks the gate. Returns true if the run begins or fails.
RONDO_FN bool rondo_context_ask(struct rondo_task_context *c) {
  int is_open = 0;
  int verdict = rondo_gate_verdict(rondo_context_gate(c), c->state.run.number, &is_open);
  if (verdict != RONDO_SUCCESS)
    rondo_context_fail(c, verdict);
  else if (c->state.phase == RONDO_PHASE_GATE && is_open && rondo_context_is_due(c))
    rondo_context_begin_plan(c);
  else
    return false;
  return true;
}

// Works on the scheduled collective. Returns true if anything moved.
RONDO_FN bool rondo_block_execute(struct rondo_block *b, struct rondo_active_slot *slot,
                                  uint64_t now_ns) {
  struct rondo_task_context *c = &slot->context;
  bool moved = false;
  if (c->state.phase == RONDO_PHASE_GATE) {
    moved |= rondo_context_try_begin(c) || (rondo_block_may_ask(b, now_ns) && rondo_context_ask(c));
    b->tied += c->state.phase != RONDO_PHASE_GATE && c->state.run.stream;
  }
  if (c->state.phase == RONDO_PHASE_OPS) {
    moved |= rondo_context_run_ops(b, slot);
    if (!moved && rondo_block_may_ask(b, now_ns))
      moved |= rondo_context_ask(c);
  }
  if (c->state.phase == RONDO_PHASE_DRAIN) {
    moved |= rondo_context_leave_peers(c);
    if (!moved && rondo_block_may_ask(b, now_ns))
      moved |= rondo_context_ask(c);
  }
  if (c->state.phase == RONDO_PHASE_FAILING)
    moved |= rondo_context_leave_peers(c);
  if (moved)
    slot->dirty = 1;
  if (c->state.phase == RONDO_PHASE_ENDED)
    moved |= rondo_block_try_finish(b, slot, now_ns);
  return moved;
}

#endif // RONDO_DAEMON_CORE_BLOCK_EXECUTE_CORE_H
