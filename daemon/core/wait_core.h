// The wait of a queued collective: the address of a word, and the value of that word at which the
// collective can go on.
//
// A block stores the wait when it leaves a stuck collective. Then one load is enough to know
// whether the collective is ready, without its context.
//
// A wait is a hint. If a collective seems ready and is not, an attempt changes nothing. But a
// collective that can go on must not seem stuck for ever. Therefore the value was read by the
// attempt that failed, or after it.
#ifndef RONDO_DAEMON_CORE_WAIT_CORE_H
#define RONDO_DAEMON_CORE_WAIT_CORE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "daemon/core/context_core.h"
#include "daemon/core/primitive_core.h"
#include "queues/connector_core.h"

// Kept in the two low bits of an address: every word is aligned to four bytes or more.
enum rondo_wait_kind {
  RONDO_WAIT_NONE = 0,    // ready, or not tried yet
  RONDO_WAIT_EQUALS = 1,  // ready when the 32-bit word is `value`
  RONDO_WAIT_CHANGES = 2, // ready when the 32-bit word is anything but `value`
  RONDO_WAIT_REACHES = 3  // ready when the 64-bit word is at least `value`
};

struct rondo_wait {
  uint64_t word; // address + enum rondo_wait_kind
  uint64_t value;
};
static_assert(sizeof(struct rondo_wait) == 16, "1,000 queued collectives: 16 KB");

RONDO_FN struct rondo_wait rondo_wait_make(int kind, const void *word, uint64_t value) {
  struct rondo_wait w = {(uint64_t)(uintptr_t)word + (uint64_t)kind, value};
  return w;
}

// True if the word has the value at which the collective can go on.
RONDO_FN bool rondo_wait_is_over(const struct rondo_wait *w) {
  const uint32_t *word = (const uint32_t *)(uintptr_t)(w->word & ~UINT64_C(3));
  switch (w->word & 3) {
  case RONDO_WAIT_EQUALS:
    return rondo_load_relaxed_u32(word) == (uint32_t)w->value;
  case RONDO_WAIT_CHANGES:
    return rondo_load_relaxed_u32(word) != (uint32_t)w->value;
  case RONDO_WAIT_REACHES:
    return rondo_load_relaxed_u64((const uint64_t *)(uintptr_t)(w->word & ~UINT64_C(3))) >=
           w->value;
  default:
    return true;
  }
}

// The wait of a run whose members, or whose stream, have not arrived.
RONDO_FN struct rondo_wait rondo_wait_for_gate(const struct rondo_task_context *c) {
  const struct rondo_communicator_gate *gate = rondo_context_gate(c);
  const struct rondo_stream_words *words = rondo_run_stream(&c->state.run);
  if (rondo_load_relaxed_u32(&gate->state) == RONDO_GATE_CLOSED)
    return rondo_wait_make(RONDO_WAIT_CHANGES, &gate->state, RONDO_GATE_CLOSED);
  if (words && (c->state.run.stream & RONDO_STREAM_MIRRORED))
    return rondo_wait_make(RONDO_WAIT_REACHES, rondo_context_due(c), c->state.run.number);
  if (words)
    return rondo_wait_make(RONDO_WAIT_REACHES, &words->doorbell, c->state.run.ticket);
  return rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
}

// The wait until the consumer frees a slot.
RONDO_FN struct rondo_wait rondo_wait_for_credit(const struct rondo_task_context *c) {
  const struct rondo_endpoint *to = rondo_context_send(c);
  return rondo_wait_make(RONDO_WAIT_CHANGES, &rondo_endpoint_connector(to)->consumed, to->seen);
}

// The wait of a run in the middle of its plan. `attempt`: how its last attempt failed.
RONDO_FN struct rondo_wait rondo_wait_for_chunk(const struct rondo_task_context *c, int attempt) {
  if (attempt == RONDO_ATTEMPT_NO_CREDIT)
    return rondo_wait_for_credit(c);
  if (attempt == RONDO_ATTEMPT_NO_DATA) {
    const struct rondo_endpoint *from = rondo_context_recv(c);
    if (rondo_primitive_has_packets(c)) { // the first half packet: the others may come later
      const struct rondo_packets packets = rondo_connector_packets(from);
      return rondo_wait_make(RONDO_WAIT_REACHES, (const void *)(uintptr_t)packets.at,
                             rondo_packet_half(0, packets.mark));
    }
    return rondo_wait_make(RONDO_WAIT_EQUALS, &rondo_endpoint_slot(from)->mark, from->sequence + 1);
  }
  if (attempt == RONDO_ATTEMPT_SHUT) // the failure is about to be seen here too
    return rondo_wait_make(RONDO_WAIT_CHANGES, &rondo_context_gate(c)->state, RONDO_GATE_OPEN);
  return rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
}

// The wait of a context whose last step made no progress, except on a full completion queue.
RONDO_FN struct rondo_wait rondo_wait_of(const struct rondo_task_context *c, int attempt) {
  switch (c->state.phase) {
  case RONDO_PHASE_GATE:
    return rondo_wait_for_gate(c);
  case RONDO_PHASE_OPS:
    return rondo_wait_for_chunk(c, attempt);
  case RONDO_PHASE_DRAIN:
    return rondo_wait_for_credit(c);
  case RONDO_PHASE_FAILING:
    return rondo_wait_make(RONDO_WAIT_CHANGES,
                           &rondo_endpoint_connector(rondo_context_send(c))->reading, 1);
  default:
    return rondo_wait_make(RONDO_WAIT_NONE, NULL, 0);
  }
}

// True if the party that ends such a wait sets the ready flag of the collective. Else each look
// round must look at the wait: the party is a stream, the completion queue, or a block without
// access to the flag.
RONDO_FN bool rondo_wait_is_flagged(const struct rondo_task_context *c, int attempt) {
  switch (c->state.phase) {
  case RONDO_PHASE_GATE:
    return rondo_load_relaxed_u32(&rondo_context_gate(c)->state) == RONDO_GATE_CLOSED;
  case RONDO_PHASE_OPS:
    if (attempt == RONDO_ATTEMPT_NO_DATA)
      return rondo_endpoint_connector(rondo_context_recv(c))->consumer_flag != 0;
    return attempt == RONDO_ATTEMPT_NO_CREDIT &&
           rondo_endpoint_connector(rondo_context_send(c))->producer_flag != 0;
  case RONDO_PHASE_DRAIN:
    return rondo_endpoint_connector(rondo_context_send(c))->producer_flag != 0;
  default:
    return false;
  }
}

#endif // RONDO_DAEMON_CORE_WAIT_CORE_H
