// The context of one collective on one block: all that the block needs to leave the collective
// between two chunks and to continue it later (the paper, 4.2).
//
// The static part is set at registration. The dynamic part says how far the run has come. A context
// is stored in the context buffer (global memory on a GPU) and used in an active slot (shared
// memory on a GPU). Only the dynamic part is saved, and only if it has changed (the paper, 5).
#ifndef RONDO_DAEMON_CORE_CONTEXT_CORE_H
#define RONDO_DAEMON_CORE_CONTEXT_CORE_H

#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/platform.h"
#include "daemon/core/move.h"
#include "daemon/plan/geometry_core.h"
#include "daemon/plan/plan.h"
#include "queues/connector_core.h"
#include "queues/sq_core.h"
#include <rondo/status.h>

// Runs of one collective that a daemon holds at once: one executes, one is next. Later runs wait in
// order on the CPU side, so no order of calls can fill the device.
#define RONDO_DEVICE_RUNS 2u

// Shared by all ranks that have mapped the communicator.
struct rondo_communicator_gate {
  // RONDO_GATE_CLOSED until every member has registered the same descriptor, then RONDO_GATE_OPEN;
  // or RONDO_GATE_FAILED + the status that ends every run.
  uint32_t state;
  uint32_t culprit;  // rank that mismatched, aborted or left first; UINT32_MAX: none
  uint64_t last_run; // a member left after this run: later ones cannot complete
  uint8_t line[RONDO_LINE_BYTES - 16];
};
static_assert(sizeof(struct rondo_communicator_gate) == RONDO_LINE_BYTES, "shared layout");

#define RONDO_GATE_CLOSED 0u
#define RONDO_GATE_OPEN 1u
#define RONDO_GATE_FAILED 0x100u

// The gate's verdict on run `number`: RONDO_SUCCESS to go on, else the status that ends the run.
// `is_open`: data may move.
RONDO_FN int rondo_gate_verdict(const struct rondo_communicator_gate *gate, uint64_t number,
                                int *is_open) {
  uint32_t state = rondo_load_acquire_device_u32(&gate->state); // G2
  *is_open = state == RONDO_GATE_OPEN;
  if (state >= RONDO_GATE_FAILED)
    return (int)(state - RONDO_GATE_FAILED);
  if (number <= rondo_load_acquire_device_u64(&gate->last_run)) // G2
    return RONDO_SUCCESS;
  // A member that leaves because of a failure stores the failure first.
  state = rondo_load_acquire_device_u32(&gate->state); // G2
  return state >= RONDO_GATE_FAILED ? (int)(state - RONDO_GATE_FAILED) : RONDO_ERR_PEER;
}

// The words by which a run and a stream of the application wait for each other, in memory that the
// CPU and the device share. The tickets of successive runs increase, so no word is ever decreased,
// except for runs of a replayed graph: see RONDO_TICKET_REPLAYED.
struct rondo_stream_words {
  uint64_t doorbell; // written by the stream when its earlier work is done (D1)
  uint64_t passed;   // written by the stream after its wait: it no longer needs the words
  uint8_t stream_line[RONDO_LINE_BYTES - 16];
  uint64_t completion; // written by the last block of the run (D3), awaited by the stream (D4)
  uint8_t block_line[RONDO_LINE_BYTES - 8];
};
static_assert(sizeof(struct rondo_stream_words) == 2 * RONDO_LINE_BYTES, "shared layout");

// A bit of a ticket. A graph holds constants, so each replay writes the same ticket: the run resets
// the doorbell before its completion, and the graph resets the completion.
#define RONDO_TICKET_REPLAYED (UINT64_C(1) << 63)

// One run, as it was submitted.
struct rondo_task_run {
  uint64_t send, recv; // addresses of the user's buffers
  uint64_t number;     // from 1; 0: none
  // Address of struct rondo_stream_words, and RONDO_STREAM_MIRRORED; 0: not in the order of a
  // stream
  uint64_t stream;
  uint64_t ticket; // the doorbell value at which the run may begin
};

#define RONDO_STREAM_MIRRORED 1u // the mirror says whether the stream has reached the run

// A run whose stream may not have reached it, as the mirror knows it.
struct rondo_mirror_run {
  uint64_t words;          // address of struct rondo_stream_words; 0: nothing to look at
  uint64_t ticket, number; // as in struct rondo_task_run
};

// What a device's mirror (mirror_core.h) has of a collective. It begins as a communicator's gate
// does, and stands for the gate there.
struct rondo_mirror_copy {
  struct {
    uint32_t state, culprit;
    uint64_t last_run;
  } seen;
  uint64_t due[RONDO_DEVICE_RUNS]; // by parity: the last run that its stream has reached
  uint64_t ended;                  // the last run; written by the block that ends it
  uint64_t gate;                   // address of the gate; written by the CPU at registration
  // Of the mirror's owner.
  uint64_t watched_gate; // the gate of the collective whose runs have passed; 0: none
  uint64_t passed;       // the last run
  struct rondo_mirror_run runs[RONDO_DEVICE_RUNS]; // by parity
  uint32_t generation;                             // of that collective
  uint32_t is_watched;
  uint64_t reserved;
};
static_assert(sizeof(struct rondo_mirror_copy) == RONDO_LINE_BYTES, "shared layout");
static_assert(offsetof(struct rondo_mirror_copy, seen.last_run) ==
                  offsetof(struct rondo_communicator_gate, last_run),
              "begins as a gate");

// The one of table entry `index`. `copies`: the address of the first one.
RONDO_FN struct rondo_mirror_copy *rondo_mirror_copy_at(uint64_t copies, uint32_t index) {
  return (struct rondo_mirror_copy *)(uintptr_t)copies + index;
}

// Memory of a collective besides its connectors. This lies in front of the collective's ops.
//
// `lent` is payload memory that the rank has lent to the collective while it has runs outstanding:
// for each block, send peer and slot `slot_bytes`. A slot whose payload has no other place refers
// to it. Scratch (daemon/plan/plan.h) is never referred to; it may be lent, too.
struct rondo_own_memory {
  uint64_t lent; // address; 0: none is lent
  uint32_t slot_bytes;
  uint32_t scratch_first;    // chunk of the plan
  uint64_t scratch;          // address
  uint64_t scratch_bytes;    // of each block
  uint64_t gate_writes;      // address of those of block 0; 0: the CPU writes all itself
  uint32_t gate_write_count; // of each block
  uint16_t recv_peer_count;
  uint16_t round_chunks; // of the plan
};
static_assert(sizeof(struct rondo_own_memory) == 48, "shared layout");

// A word that a block writes before its first run, when the gate has opened (G2): where the
// connectors of peers are, or what the two sides of a connector must know of each other. In memory
// that the CPU and the device share: a call of the driver could wait for a stream that waits for
// the run.
struct rondo_gate_write {
  uint64_t to; // address; 0: nothing is written
  uint64_t value;
};

struct rondo_context_static {
  uint64_t ops;        // address of op_count × struct rondo_plan_op, after the rondo_own_memory
  uint64_t gate;       // address of struct rondo_communicator_gate, or of struct rondo_mirror_copy
  uint64_t send_table; // address of the endpoints of the send peers; written when the gate opens
  uint64_t recv_table; // ... of the receive peers
  struct rondo_geometry geometry;
  struct rondo_reduction reduction;
  uint32_t index;      // in the daemon's table
  uint32_t generation; // of that table entry
  uint8_t elem_bytes;  // 0: a barrier, whose chunks are empty
  uint8_t first_pass;  // of the plan
  uint8_t op_count;
  uint8_t urgency; // priority + 128
  uint16_t send_peer_count;
  // 1: the plan was not known when the collective was registered. `send_table` is the address of
  // the static part that has it, written before the gate opens, and `recv_table` that of the
  // context. Nothing else about the plan is set. Only with RONDO_RUN_FIRST.
  uint8_t is_provisional;
  uint8_t block; // which of the collective's blocks
};
static_assert(sizeof(struct rondo_context_static) == 32 + 48 + 16 + 16, "shared layout");

enum rondo_context_phase {
  RONDO_PHASE_IDLE = 0,    // no run
  RONDO_PHASE_GATE = 1,    // waits for the members, and for its stream
  RONDO_PHASE_OPS = 2,     // executes the plan
  RONDO_PHASE_DRAIN = 3,   // waits until its published references are consumed
  RONDO_PHASE_FAILING = 4, // waits until no peer reads a reference
  RONDO_PHASE_ENDED = 5    // waits for a place in the completion queue
};

struct rondo_context_dynamic {
  struct rondo_task_run run;    // executing
  struct rondo_task_run queued; // next
  uint64_t loop;
  uint64_t started_ns;
  uint64_t send, recv;    // addresses of the endpoints of the current op's peers
  uint32_t repeat;        // executions of the current op that are done; after the plan, send peers
  uint32_t reference_end; // send sequence after the last published reference
  uint8_t op;
  uint8_t phase;        // enum rondo_context_phase
  uint8_t status;       // enum rondo_status of the run
  uint8_t flags;        // RONDO_SQE_* and RONDO_RUN_*
  uint16_t bound_send;  // peer of `send`, or RONDO_PLAN_NO_PEER
  uint16_t round_chunk; // how far the chunks of this round are beyond those of the first one
};
#define RONDO_RUN_HAS_REFERENCE 4u // this run has published one
#define RONDO_RUN_FAILED 8u        // this run or an earlier one: the connectors may hold its slots
#define RONDO_RUN_FIRST 16u        // no run has passed the gate: see rondo_context_enter
#define RONDO_RUN_NEXT_SHIFT 5u    // above: the RONDO_SQE_* of the next run
static_assert(RONDO_SQE_FLAGS < RONDO_RUN_HAS_REFERENCE, "see there");
static_assert(sizeof(struct rondo_context_dynamic) == 80 + 16 + 16 + 8 + 8, "shared layout");

#define RONDO_CONTEXT_VECTOR_BYTES 16u // a context is loaded and saved as vectors of so many bytes

struct rondo_task_context {
  alignas(RONDO_CONTEXT_VECTOR_BYTES) struct rondo_context_static fixed;
  struct rondo_context_dynamic state;
  uint8_t line[16]; // no other block's context is in a line of this one
};
// The published DFCCL takes 4,240 bytes for the same.
static_assert(sizeof(struct rondo_task_context) <= 256, "context budget");
static_assert(offsetof(struct rondo_task_context, state) % RONDO_CONTEXT_VECTOR_BYTES == 0 &&
                  offsetof(struct rondo_task_context, line) % RONDO_CONTEXT_VECTOR_BYTES == 0,
              "moved as vectors");

// Provided by the driver. Load copies a whole context to an active slot; save copies the dynamic
// part back.
RONDO_DRIVER_FN void rondo_context_load(struct rondo_task_context *slot,
                                        const struct rondo_task_context *buffer);
RONDO_DRIVER_FN void rondo_context_save(struct rondo_task_context *buffer,
                                        const struct rondo_task_context *slot);

// One collective in the daemon's table.
struct rondo_device_collective {
  uint64_t contexts; // address of block_count × struct rondo_task_context
  uint32_t block_count;
  uint32_t generation;
  // Per run parity, because a block may be one run ahead of another.
  uint32_t finished[RONDO_DEVICE_RUNS]; // blocks that ended the run
  uint32_t status[RONDO_DEVICE_RUNS];   // first status that was not success
};

// The table: pages are added at registration and never move, so that a block can read while it
// grows.
#define RONDO_TABLE_PAGE 256u
#define RONDO_TABLE_PAGES 64u
#define RONDO_TABLE_CAPACITY (RONDO_TABLE_PAGE * RONDO_TABLE_PAGES)
static_assert(RONDO_TABLE_CAPACITY <= 65536, "see struct rondo_cqe");

struct rondo_device_table {
  // Addresses of RONDO_TABLE_PAGE × struct rondo_device_collective.
  uint64_t pages[RONDO_TABLE_PAGES];
};

RONDO_FN struct rondo_device_collective *rondo_table_entry(const struct rondo_device_table *table,
                                                           uint32_t index) {
  uint64_t page = table->pages[index / RONDO_TABLE_PAGE];
  return (struct rondo_device_collective *)(uintptr_t)page + index % RONDO_TABLE_PAGE;
}

RONDO_FN struct rondo_task_context *rondo_table_context(const struct rondo_device_table *table,
                                                        uint32_t index, uint32_t block) {
  struct rondo_device_collective *entry = rondo_table_entry(table, index);
  return (struct rondo_task_context *)(uintptr_t)entry->contexts + block;
}

RONDO_FN const struct rondo_plan_op *rondo_context_op(const struct rondo_task_context *c) {
  return (const struct rondo_plan_op *)(uintptr_t)c->fixed.ops + c->state.op;
}

RONDO_FN const struct rondo_own_memory *rondo_context_memory(const struct rondo_task_context *c) {
  return (const struct rondo_own_memory *)(uintptr_t)c->fixed.ops - 1;
}

// The endpoints of the current op's peers.
RONDO_FN struct rondo_endpoint *rondo_context_send(const struct rondo_task_context *c) {
  return (struct rondo_endpoint *)(uintptr_t)c->state.send;
}

RONDO_FN struct rondo_endpoint *rondo_context_recv(const struct rondo_task_context *c) {
  return (struct rondo_endpoint *)(uintptr_t)c->state.recv;
}

RONDO_FN bool rondo_context_has_reference(const struct rondo_task_context *c) {
  return (c->state.flags & RONDO_RUN_HAS_REFERENCE) != 0;
}

RONDO_FN struct rondo_communicator_gate *rondo_context_gate(const struct rondo_task_context *c) {
  return (struct rondo_communicator_gate *)(uintptr_t)c->fixed.gate;
}

RONDO_FN struct rondo_stream_words *rondo_run_stream(const struct rondo_task_run *run) {
  return (struct rondo_stream_words *)(uintptr_t)(run->stream & ~(uint64_t)RONDO_STREAM_MIRRORED);
}

// Where the mirror says whether the stream of the context's run has reached it.
RONDO_FN const uint64_t *rondo_context_due(const struct rondo_task_context *c) {
  const struct rondo_mirror_copy *copy = (const struct rondo_mirror_copy *)(uintptr_t)c->fixed.gate;
  return &copy->due[c->state.run.number % RONDO_DEVICE_RUNS];
}

// True if the stream of the context's run has reached the run, or the run has no stream.
RONDO_FN bool rondo_context_is_due(const struct rondo_task_context *c) {
  const struct rondo_task_run *run = &c->state.run;
  const struct rondo_stream_words *words = rondo_run_stream(run);
  if (!words || RONDO_FAULT(DOORBELL_IGNORED))
    return true;
  if (run->stream & RONDO_STREAM_MIRRORED)
    return rondo_load_acquire_device_u64(rondo_context_due(c)) >= run->number; // D2
  return rondo_load_acquire_u64(&words->doorbell) >= run->ticket;              // D2
}

// Lets the run's stream go on. Called once for each run, after all blocks have ended it.
RONDO_FN void rondo_run_release_stream(const struct rondo_task_run *run) {
  struct rondo_stream_words *words = rondo_run_stream(run);
  if (!words)
    return;
  if (run->ticket & RONDO_TICKET_REPLAYED)
    rondo_store_relaxed_u64(&words->doorbell, 0);
  rondo_store_release_u64(&words->completion, run->ticket); // D3
}

// Sets up the dynamic part for a fetched run. `flags`: RONDO_SQE_*.
RONDO_FN void rondo_context_begin(struct rondo_task_context *c, const struct rondo_task_run *run,
                                  uint32_t flags, uint64_t now_ns) {
  c->state.run = *run;
  c->state.loop = 0;
  c->state.repeat = 0;
  c->state.round_chunk = 0;
  c->state.op = 0;
  c->state.phase = RONDO_PHASE_GATE;
  c->state.status = 0;
  c->state.flags = (uint8_t)(flags | (c->state.flags & (RONDO_RUN_FAILED | RONDO_RUN_FIRST)));
  c->state.started_ns = now_ns;
}

#endif // RONDO_DAEMON_CORE_CONTEXT_CORE_H
