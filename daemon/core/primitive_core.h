// Primitives: the execution of a plan op for one chunk (the paper, 4.1).
//
// rondo_primitive_attempt either does a whole chunk or changes nothing. It never waits. The flags
// of the op say what it does: receive, reduce, copy, send.
#ifndef RONDO_DAEMON_CORE_PRIMITIVE_CORE_H
#define RONDO_DAEMON_CORE_PRIMITIVE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/core/context_core.h"
#include "daemon/core/move.h"

enum rondo_attempt {
  RONDO_ATTEMPT_DONE = 0,
  RONDO_ATTEMPT_NO_CREDIT = 1, // the send connector is full
  RONDO_ATTEMPT_NO_DATA = 2,   // the recv connector is empty
  RONDO_ATTEMPT_SHUT = 3,      // the communicator failed; the receive buffer is unspecified
  RONDO_ATTEMPT_MISMATCH = 4   // the sender's part is not the one that this rank expects
};

// What one attempt works on: the chunks of an op, in pieces whose elements lie side by side. If an
// op has one chunk, that is the piece.
struct rondo_chunk_view {
  const struct rondo_plan_op *op;
  struct rondo_endpoint *send, *recv; // of the op's peers
  uint64_t message_bytes;             // of all chunks of the op
  uint64_t count, bytes;              // of the piece
  const void *local;    // in the user's send buffer, the receive buffer (RESULT) or scratch
  void *out;            // in the user's receive buffer, or in scratch
  const void *incoming; // payload that was received for the piece, or in scratch; or null
  uint32_t next, rest;  // the chunk after the piece, and how many chunks follow the piece
  // Listed, in the first loop: what the op sends or receives of this part in all. Else null.
  const struct rondo_span *part;
};

RONDO_FN uint64_t rondo_chunk_offset(const struct rondo_task_context *c, struct rondo_span span,
                                     uint32_t chunk, int base_only) {
  uint64_t elems = span.offset - (base_only ? chunk * c->fixed.geometry.segment : 0);
  return elems * c->fixed.elem_bytes;
}

// The index of the first of the context's current chunks.
RONDO_FN uint32_t rondo_chunk_index(const struct rondo_task_context *c) {
  const struct rondo_plan_op *op = rondo_context_op(c);
  uint64_t at =
      op->first_chunk + c->state.round_chunk + (uint64_t)c->state.repeat * op->chunk_stride;
  uint32_t chunk_count = c->fixed.geometry.chunk_count;
  return (uint32_t)(at < chunk_count ? at : at % chunk_count);
}

// Listed chunks: the chunk's place in the send buffer or, `received`, in the receive buffer.
RONDO_FN struct rondo_span rondo_chunk_place(const struct rondo_task_context *c, int received) {
  uint32_t first = received ? c->fixed.geometry.chunk_count : 0;
  return rondo_geometry_place(&c->fixed.geometry, c->state.loop, first + rondo_chunk_index(c));
}

// True if both ranks skip the chunk.
RONDO_FN bool rondo_chunk_is_absent(const struct rondo_task_context *c) {
  if (!c->fixed.geometry.listed || (c->state.loop == 0 && !RONDO_FAULT(EMPTY_UNTOLD)))
    return false;
  return rondo_chunk_place(c, rondo_context_op(c)->primitive & RONDO_PRIM_RECV).count == 0;
}

// Sets the place of the view's piece in the two buffers, in bytes.
RONDO_FN void rondo_view_place(const struct rondo_task_context *c, struct rondo_chunk_view *v,
                               uint64_t in_at, uint64_t out_at) {
  v->bytes = v->count * c->fixed.elem_bytes;
  v->out = (void *)(uintptr_t)(c->state.run.recv + out_at);
  v->local = (const void *)(uintptr_t)(c->state.run.send + in_at);
  if (v->op->primitive & RONDO_PRIM_RESULT)
    v->local = v->out;
}

// Moves what the op has in scratch there. `chunk`: the plan's number of the piece's first chunk.
RONDO_FN void rondo_view_use_scratch(const struct rondo_task_context *c, struct rondo_chunk_view *v,
                                     uint32_t chunk) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  const struct rondo_own_memory *own = rondo_context_memory(c);
  const unsigned moves = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE;
  uint32_t first = own->scratch_first;
  uint32_t from = v->op->primitive & RONDO_PRIM_MIRROR ? chunk : first;
  uint32_t to = v->op->primitive & RONDO_PRIM_MIRROR ? first : chunk;
  uint64_t place = to >= from ? to - from : to + g->chunk_count - from;
  uint64_t elems = rondo_geometry_chunk(g, c->state.loop, 0).count; // no chunk has more
  char *at = (char *)(uintptr_t)own->scratch + c->fixed.block * own->scratch_bytes +
             place * elems * c->fixed.elem_bytes;
  if (v->op->primitive & RONDO_PRIM_OUT_SCRATCH)
    v->out = at;
  if (!(v->op->primitive & RONDO_PRIM_IN_SCRATCH))
    return;
  if ((v->op->primitive & moves) == RONDO_PRIM_REDUCE)
    v->incoming = at;
  else
    v->local = at;
}

// The chunks of a piece that would have `width`, out of `rest` that an op with runs, or of a
// mirror, has left; and how many chunks follow that are left out.
RONDO_FN uint32_t rondo_piece_limit(const struct rondo_chunk_view *v, uint32_t rest, uint32_t width,
                                    uint32_t *left_out) {
  uint32_t run = v->op->chunk_stride;
  if (v->op->primitive & RONDO_PRIM_MIRROR)
    return 1;
  uint32_t left = run - ((v->op->width - rest) & (run - 1)); // of the run
  if (width < left)
    return width;
  *left_out = run;
  return left;
}

// Sets the view to the piece that begins with chunk `chunk`, where the op has `rest` chunks left.
RONDO_FN void rondo_piece_locate(const struct rondo_task_context *c, struct rondo_chunk_view *v,
                                 uint32_t chunk, uint32_t rest) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  uint32_t width = 1, left_out = 0;
  if (rest > 1 && rondo_geometry_is_dense(g))
    width = rest < g->chunk_count - chunk ? rest : g->chunk_count - chunk;
  if (rest > 1 && (v->op->primitive & (RONDO_PRIM_RUNS | RONDO_PRIM_MIRROR)))
    width = rondo_piece_limit(v, rest, width, &left_out);
  v->next = chunk + width + left_out;
  if (v->next >= g->chunk_count)
    v->next -= g->chunk_count;
  v->rest = rest - width;
  struct rondo_span span = rondo_geometry_chunks(g, c->state.loop, chunk, width);
  v->count = c->fixed.elem_bytes ? span.count : 0;
  rondo_view_place(c, v, rondo_chunk_offset(c, span, chunk, v->op->primitive & RONDO_PRIM_IN_BASE),
                   rondo_chunk_offset(c, span, chunk, v->op->primitive & RONDO_PRIM_OUT_BASE));
  // Chunks that have an order come one at a time.
  if (v->op->primitive & RONDO_PRIM_SCRATCH)
    rondo_view_use_scratch(c, v, g->segment && g->order ? rondo_chunk_index(c) : chunk);
}

RONDO_FN void rondo_part_locate(const struct rondo_task_context *c, struct rondo_chunk_view *v) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  uint32_t chunk = rondo_chunk_index(c);
  struct rondo_span in = rondo_chunk_place(c, 0);
  struct rondo_span out = rondo_chunk_place(c, 1);
  uint32_t at = v->op->primitive & RONDO_PRIM_RECV ? g->chunk_count + chunk : chunk;
  if (c->state.loop == 0)
    v->part = &rondo_listed_places(rondo_geometry_listed(g))[at];
  v->count = v->op->primitive & RONDO_PRIM_RECV ? out.count : in.count;
  v->rest = 0;
  rondo_view_place(c, v, in.offset * c->fixed.elem_bytes, out.offset * c->fixed.elem_bytes);
}

RONDO_FN void rondo_chunk_locate(const struct rondo_task_context *c, struct rondo_chunk_view *v) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  v->op = rondo_context_op(c);
  v->part = NULL;
  v->incoming = NULL;
  if (g->listed)
    rondo_part_locate(c, v);
  else
    rondo_piece_locate(c, v, rondo_geometry_ordered(g, rondo_chunk_index(c)), v->op->width);
  v->message_bytes = v->bytes;
  if (v->rest) // all chunks of a loop from the first on, or chunks of the same size
    v->message_bytes +=
        rondo_geometry_chunks(g, c->state.loop, 0, v->rest).count * c->fixed.elem_bytes;
  if (v->op->primitive & RONDO_PRIM_QUANTISED)
    v->message_bytes = rondo_quantised_bytes(v->count);
}

// Receive buffers of at least this size do not stay in the caches until they are complete.
#define RONDO_COLD_BYTES (16u << 20)
#define RONDO_COLD_LEAST_BYTES 65536u // of a chunk

// True if a copy of the chunk into the receive buffer is not read again until long after the run.
RONDO_FN bool rondo_chunk_is_cold(const struct rondo_task_context *c,
                                  const struct rondo_chunk_view *v) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  const unsigned passed_on = RONDO_PRIM_RECV | RONDO_PRIM_SEND;
  const unsigned used_again = RONDO_PRIM_REDUCE | RONDO_PRIM_OUT_SCRATCH;
  if (v->bytes < RONDO_COLD_LEAST_BYTES || g->listed || (v->op->primitive & used_again) ||
      (v->op->primitive & passed_on) == passed_on)
    return false;
  uint64_t elems = g->segment ? g->segment * g->chunk_count : g->end - g->begin;
  return elems * c->fixed.elem_bytes >= RONDO_COLD_BYTES;
}

// Computes the op's value of the chunk into `dst`, and also into `second` if not null.
RONDO_FN void rondo_chunk_compute(const struct rondo_task_context *c,
                                  const struct rondo_chunk_view *v, void *dst, void *second) {
  int final = (v->op->primitive & RONDO_PRIM_FINAL) != 0;
  int plain = !(c->fixed.reduction.scale || c->fixed.reduction.divide);
  const unsigned moves = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE;
  if (plain && !(v->op->primitive & moves)) {
    rondo_move_copy(dst, second, v->local, v->bytes);
    return;
  }
  struct rondo_reduction r = c->fixed.reduction;
  bool from_scratch =
      (v->op->primitive & RONDO_PRIM_IN_SCRATCH) && (v->op->primitive & moves) != RONDO_PRIM_REDUCE;
  if ((v->op->primitive & RONDO_PRIM_RESULT) || from_scratch)
    r.scale = 0; // each rank has multiplied its own contribution
  if (v->op->primitive & RONDO_PRIM_REDUCE)
    rondo_move_reduce(&r, dst, second, v->local, v->incoming, v->count, final);
  else if (v->op->primitive & RONDO_PRIM_RECV)
    rondo_move_copy(dst, second, v->incoming, v->bytes);
  else
    rondo_move_scale(&r, dst, second, v->local, v->count, final);
}

// The memory that the slot may refer to instead of a copy, because it does not change until the
// slot is consumed: an unscaled send buffer, or the receive buffer after COPY or as the RESULT.
// Null: it must be copied, because it has several pieces, because the op uses scratch, which it
// writes again, or because the peer may be unable to access a private buffer.
RONDO_FN const void *rondo_chunk_reference(const struct rondo_task_context *c,
                                           const struct rondo_chunk_view *v) {
  const void *memory = v->op->primitive & RONDO_PRIM_COPY ? v->out : NULL;
  int is_result = (v->op->primitive & RONDO_PRIM_RESULT) != 0;
  if (!(v->op->primitive & RONDO_PRIM_RECV) && (is_result || !c->fixed.reduction.scale))
    memory = v->local;
  if (!memory || v->rest || (v->op->primitive & RONDO_PRIM_SCRATCH) ||
      !rondo_connector_can_refer(v->send, memory, v->bytes))
    return NULL;
  bool is_private = (c->state.flags & RONDO_SQE_PRIVATE) != 0;
  return is_private && !rondo_connector_reads_private(v->send) ? NULL : memory;
}

// The lent memory for the payload of the reserved slot.
RONDO_FN void *rondo_chunk_lent(const struct rondo_task_context *c,
                                const struct rondo_chunk_view *v) {
  const struct rondo_own_memory *own = rondo_context_memory(c);
  uint32_t slots = v->send->slot_count;
  uint64_t link = (uint64_t)c->fixed.block * c->fixed.send_peer_count + c->state.bound_send;
  uint64_t slot = link * slots + (v->send->sequence & (slots - 1));
  return (void *)(uintptr_t)(own->lent + slot * own->slot_bytes);
}

// Publishes the reserved slot, with its payload memory or with a reference.
RONDO_FN void rondo_chunk_publish(struct rondo_task_context *c, const struct rondo_chunk_view *v,
                                  const void *reference) {
  if (v->part)
    rondo_connector_put_word(v->send, reference != NULL, v->part->count);
  rondo_connector_publish(v->send, reference, (uint32_t)v->message_bytes);
  if (reference) {
    c->state.flags |= RONDO_RUN_HAS_REFERENCE;
    c->state.reference_end = v->send->sequence;
  }
}

// Computes a piece into the receive buffer, if the op copies, and into `payload` unless it is null.
RONDO_FN void rondo_piece_move(const struct rondo_task_context *c, const struct rondo_chunk_view *v,
                               void *payload) {
  int plain = v->incoming || !(c->fixed.reduction.scale || c->fixed.reduction.divide);
  const void *from = v->incoming ? v->incoming : v->local;
  if (!(v->op->primitive & RONDO_PRIM_COPY)) {
    if (payload)
      rondo_chunk_compute(c, v, payload, NULL);
  } else if (!payload && plain && v->out != from && rondo_chunk_is_cold(c, v)) {
    rondo_move_copy_cold(v->out, from, v->bytes);
  } else {
    rondo_chunk_compute(c, v, v->out, payload);
  }
}

// Computes the piece of an op with quantised messages, which has one piece.
RONDO_FN void rondo_chunk_move_quantised(const struct rondo_task_context *c,
                                         const struct rondo_chunk_view *v, void *payload) {
  const unsigned moves = RONDO_PRIM_RECV | RONDO_PRIM_REDUCE;
  const int quantisation = RONDO_PRIM_QUANTISATION(v->op->primitive);
  void *dst = v->op->primitive & RONDO_PRIM_COPY ? v->out : NULL;
  if ((v->op->primitive & moves) != RONDO_PRIM_RECV) {
    rondo_move_quantise(&c->fixed.reduction, quantisation, payload, dst, v->local, v->incoming,
                        v->count);
    return;
  }
  if (payload)
    rondo_move_copy(payload, NULL, v->incoming, v->message_bytes);
  if (dst)
    rondo_move_dequantise(quantisation, dst, v->incoming, v->count);
}

// Computes all pieces. Those of a message follow each other without gaps.
RONDO_FN void rondo_chunk_move(const struct rondo_task_context *c, struct rondo_chunk_view *v,
                               void *payload) {
  if (v->op->primitive & RONDO_PRIM_QUANTISED) {
    rondo_chunk_move_quantised(c, v, payload);
    return;
  }
  rondo_piece_move(c, v, payload);
  for (uint64_t at = v->bytes; v->rest; at = v->bytes) {
    payload = payload ? (char *)payload + at : NULL;
    v->incoming = v->incoming ? (const char *)v->incoming + at : NULL;
    rondo_piece_locate(c, v, v->next, v->rest);
    rondo_piece_move(c, v, payload);
  }
}

// Computes, copies and publishes a chunk whose connectors are both ready. `guarded`: the incoming
// chunk is a reference. Returns false, and publishes nothing, if the reference was revoked
// meanwhile.
RONDO_FN bool rondo_chunk_execute(struct rondo_task_context *c, struct rondo_chunk_view *v,
                                  int guarded) {
  int sends = (v->op->primitive & RONDO_PRIM_SEND) != 0;
  const void *reference = sends ? rondo_chunk_reference(c, v) : NULL;
  // The user's own input is ready: the peer can read it while it is copied here.
  int ready = reference && !(v->op->primitive & RONDO_PRIM_RECV);
  if (ready)
    rondo_chunk_publish(c, v, reference);
  void *payload = sends && !reference ? rondo_connector_payload(v->send, v->message_bytes) : NULL;
  if (sends && !reference && !payload)
    reference = payload = rondo_chunk_lent(c, v);
  if (RONDO_FAULT(PUBLISH_BEFORE_DATA) && sends && !ready) {
    rondo_chunk_publish(c, v, reference);
    RONDO_POINT("primitive.early");
  }
  rondo_chunk_move(c, v, payload);
  if (guarded) {
    RONDO_POINT("primitive.read");
    if (!rondo_connector_try_end_reading(v->recv))
      return false;
  }
  if (sends && !ready && !RONDO_FAULT(PUBLISH_BEFORE_DATA))
    rondo_chunk_publish(c, v, reference);
  return true;
}

// The source of the current run's parts. Only if the block's own copy has one.
RONDO_FN struct rondo_listed *rondo_listed_source(const struct rondo_task_context *c) {
  const struct rondo_geometry *g = &c->fixed.geometry;
  uint64_t at = c->state.run.number % RONDO_DEVICE_RUNS * rondo_listed_bytes(g->chunk_count);
  return (struct rondo_listed *)(uintptr_t)(rondo_geometry_listed(g)->source + at);
}

// Prepares the parts of the run that begins. Returns false if an earlier run has refused a part:
// the connectors still hold what that run did not take.
RONDO_FN bool rondo_listed_try_begin(const struct rondo_task_context *c) {
  struct rondo_listed *own = rondo_geometry_listed(&c->fixed.geometry);
  if (own->refused)
    return false;
  if (own->source && !RONDO_FAULT(PARTS_KEPT))
    rondo_move_copy(&own->most_elems, NULL, &rondo_listed_source(c)->most_elems,
                    rondo_listed_bytes(c->fixed.geometry.chunk_count) -
                        offsetof(struct rondo_listed, most_elems));
  return true;
}

// Notes that the current chunk's sender has a part of `told_elems`, and that this is wrong.
RONDO_FN void rondo_listed_refuse(const struct rondo_task_context *c, uint64_t told_elems) {
  struct rondo_listed *own = rondo_geometry_listed(&c->fixed.geometry);
  own->refused = rondo_chunk_index(c) + 1;
  if (!own->source)
    return;
  rondo_store_relaxed_u64(&rondo_listed_source(c)->told_elems, told_elems); // other blocks do, too
  rondo_store_relaxed_u32(&rondo_listed_source(c)->refused, own->refused);
}

// Frees the slot whose chunk was executed by a run of `primitive`. A send has a fence of its own,
// which covers this.
RONDO_FN void rondo_primitive_consume(struct rondo_endpoint *recv, uint16_t primitive) {
  if (primitive & RONDO_PRIM_SEND)
    rondo_connector_consume_fenced(recv);
  else
    rondo_connector_consume(recv);
}

// True if the messages of the current op are packets.
RONDO_FN bool rondo_primitive_has_packets(const struct rondo_task_context *c) {
  uint16_t primitive = rondo_context_op(c)->primitive;
  if (!(primitive & RONDO_PRIM_PACKETS))
    return false;
  return primitive & RONDO_PRIM_SEND ? rondo_context_send(c)->has_packets
                                     : rondo_context_recv(c)->has_packets;
}

// rondo_primitive_attempt for such an op. It needs no credit: see queues/connector_core.h.
RONDO_FN int rondo_primitive_attempt_packets(struct rondo_task_context *c, uint64_t *moved_bytes) {
  struct rondo_chunk_view v = {.send = rondo_context_send(c), .recv = rondo_context_recv(c)};
  struct rondo_reduction r = c->fixed.reduction;
  rondo_chunk_locate(c, &v);
  unsigned primitive = v.op->primitive;
  if (primitive & (RONDO_PRIM_RESULT | RONDO_PRIM_IN_SCRATCH))
    r.scale = 0; // each rank has multiplied its own contribution
  RONDO_POINT("primitive.packets");
  if (primitive & RONDO_PRIM_SEND) {
    rondo_move_pack(&r, rondo_connector_packets(v.send), v.local, v.count);
    if (v.send->flag || v.send->ready)
      rondo_move_finish(); // these say that the packets are there
    rondo_connector_publish_packets(v.send);
  } else {
    const void *local = primitive & RONDO_PRIM_REDUCE ? v.local : NULL;
    // A look of this thread costs less than a command to the movers.
    if (!rondo_connector_try_peek_packets(v.recv) ||
        !rondo_move_unpack(&r, v.out, rondo_connector_packets(v.recv), local, v.count,
                           (primitive & RONDO_PRIM_FINAL) != 0))
      return RONDO_ATTEMPT_NO_DATA;
    rondo_connector_consume_packets(v.recv);
  }
  *moved_bytes += v.message_bytes;
  return RONDO_ATTEMPT_DONE;
}

// rondo_primitive_attempt for an op whose messages are slots with marks.
RONDO_FN int rondo_primitive_attempt_slots(struct rondo_task_context *c, uint32_t looks,
                                           uint64_t *moved_bytes) {
  struct rondo_chunk_view v = {.send = rondo_context_send(c), .recv = rondo_context_recv(c)};
  uint16_t primitive = rondo_context_op(c)->primitive;
  if ((primitive & RONDO_PRIM_SEND) && !rondo_connector_try_reserve(v.send))
    return RONDO_ATTEMPT_NO_CREDIT;
  if (RONDO_ONE_THREAD && (primitive & RONDO_PRIM_RECV) && !rondo_connector_try_peek(v.recv))
    return RONDO_ATTEMPT_NO_DATA;
  rondo_chunk_locate(c, &v); // first: the thread would only wait meanwhile
  const struct rondo_slot *slot = NULL;
  int guarded = 0;
  if (primitive & RONDO_PRIM_RECV) {
    for (uint32_t i = 0; i < looks && !slot; i++) {
      if (i)
        rondo_relax(); // the peer may be the sibling thread of this core
      slot = rondo_connector_try_peek(v.recv);
    }
    if (!slot)
      return RONDO_ATTEMPT_NO_DATA;
    guarded = rondo_slot_is_reference(slot);
    if (v.part && rondo_slot_word(slot) != v.part->count && !RONDO_FAULT(COUNTS_UNCHECKED)) {
      rondo_listed_refuse(c, rondo_slot_word(slot));
      return RONDO_ATTEMPT_MISMATCH;
    }
  }
  if (guarded && !rondo_connector_try_begin_reading(v.recv)) {
    (void)rondo_connector_try_end_reading(v.recv);
    return RONDO_ATTEMPT_SHUT;
  }
  if (slot)
    v.incoming = rondo_slot_payload(v.recv, slot);
  if (RONDO_FAULT(CREDIT_BEFORE_READ) && slot)
    rondo_connector_consume(v.recv);
  RONDO_POINT("primitive.execute");
  if (!rondo_chunk_execute(c, &v, guarded))
    return RONDO_ATTEMPT_SHUT;
  if (slot && !RONDO_FAULT(CREDIT_BEFORE_READ))
    rondo_primitive_consume(v.recv, primitive);
  *moved_bytes += v.message_bytes;
  return RONDO_ATTEMPT_DONE;
}

// Tries to execute the current chunk, and checks up to `looks` times for its data. Returns enum
// rondo_attempt. RONDO_ATTEMPT_DONE: the chunk has been moved, its size added to `moved_bytes`, and
// its slot freed; the caller advances. Else nothing has changed that another rank sees.
RONDO_FN int rondo_primitive_attempt(struct rondo_task_context *c, uint32_t looks,
                                     uint64_t *moved_bytes) {
  if (rondo_chunk_is_absent(c))
    return RONDO_ATTEMPT_DONE;
  if (rondo_primitive_has_packets(c))
    return rondo_primitive_attempt_packets(c, moved_bytes);
  return rondo_primitive_attempt_slots(c, looks, moved_bytes);
}

#endif // RONDO_DAEMON_CORE_PRIMITIVE_CORE_H
